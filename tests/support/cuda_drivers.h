// The operations that the CUDA backend implements, read from its source, so that the list is also
// available in a build without CUDA. In a build with CUDA, cuda/dispatch_test.cpp compares the list
// with the backend.
#pragma once

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include <stave/core/op/all_ops.h>

namespace stave_test {

inline std::set<std::string> cuda_drivers() {
  std::ifstream file(STAVE_SOURCE_DIR "/backends/cuda/cuda_backend.cpp");
  const std::string source(std::istreambuf_iterator<char>(file), {});
  const std::regex set(R"(\bset\(\{([^}]*)\})"), operation(R"(OpId::(\w+))");
  const auto each = [](const std::string& text, const std::regex& pattern, auto f) {
    for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i) f((*i)[1].str());
  };
  std::set<std::string> names;
  each(source, set, [&](const std::string& list) {
    each(list, operation, [&](const std::string& name) { names.insert(name); });
#define X(name, ...) names.insert(#name);
    if (list.find("STAVE_UNARY_OPS(X)") != std::string::npos) {
      STAVE_UNARY_OPS(X)
    }
    if (list.find("STAVE_BINARY_OPS(X)") != std::string::npos) {
      STAVE_BINARY_OPS(X)
    }
    if (list.find("STAVE_LINALG_OPS(X)") != std::string::npos) {
      STAVE_LINALG_OPS(X)
    }
#undef X
  });
  if (source.find("run_fused(") != std::string::npos) names.insert("fused");
  return names;
}

}  // namespace stave_test
