// device_code CUOBJDUMP LIBRARY ARCHITECTURE...
//
// Checks that the library holds device code for each architecture,
// named as in CMAKE_CUDA_ARCHITECTURES (80-real, 90-virtual), and that each has a kernel
// for every elementwise operation on every dtype that the operation admits.
// The expected kernels are derived from the operations' structs.
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include <stave/backends/cuda/kernels/elementwise.cuh>

namespace stave_cuda {
namespace {

using Names = std::set<std::string, std::less<>>;

template <class S, class T>
void expect_kernel(const char* kernel, std::vector<std::string>& names) {
  if constexpr (stave_detail::admits<T>(S::operands))
    names.push_back(std::string("_ZN10stave_cuda") + kernel + "I" + typeid(S).name() + typeid(T).name() + "EEv");
}
template <class S>
void expect_kernels(const char* kernel, std::vector<std::string>& names) {
  expect_kernel<S, bool>(kernel, names);
  expect_kernel<S, std::uint8_t>(kernel, names);
  expect_kernel<S, std::uint32_t>(kernel, names);
  expect_kernel<S, std::int32_t>(kernel, names);
  expect_kernel<S, std::int64_t>(kernel, names);
  expect_kernel<S, float>(kernel, names);
  expect_kernel<S, double>(kernel, names);
}
/// The prefixes of the expected mangled names.
std::vector<std::string> expected_kernels() {
  std::vector<std::string> names;
#define X(name, Struct) expect_kernels<stave_detail::Struct>("12unary_kernel", names);
  STAVE_UNARY_OPS(X)
#undef X
#define X(name, Struct) expect_kernels<stave_detail::Struct>("13binary_kernel", names);
  STAVE_BINARY_OPS(X)
#undef X
  return names;
}

/// The names of this library in the output of `command`, by the architecture of the last line "arch
/// = sm_80" before them.
std::map<std::string, Names> names_by_architecture(const std::string& command) {
  std::map<std::string, Names> found;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string architecture, line;
  for (int c; pipe && (c = std::fgetc(pipe.get())) != EOF;) {
    if (c != '\n') {
      line += static_cast<char>(c);
      continue;
    }
    if (line.starts_with("arch = ")) architecture = line.substr(7);
    if (const auto at = line.find("_ZN10stave_cuda"); at != line.npos && (at == 0 || line[at - 1] == ' '))
      found[architecture].insert(line.substr(at, line.find_first_of("( ", at) - at));
    line.clear();
  }
  return found;
}

int report_missing(const std::map<std::string, Names>& found, const std::string& architecture, const char* kind) {
  const auto names = found.find(architecture);
  if (names == found.end()) {
    std::printf("the library holds no %s for %s\n", kind, architecture.c_str());
    return 1;
  }
  int missing = 0;
  const std::vector<std::string> expected = expected_kernels();
  for (const std::string& name : expected) {
    const auto at = names->second.lower_bound(name);
    if (at != names->second.end() && at->starts_with(name)) continue;
    std::printf("no kernel %s... in the %s for %s\n", name.c_str(), kind, architecture.c_str());
    ++missing;
  }
  std::printf("%s for %s: %zu kernels expected, %d missing\n", kind, architecture.c_str(), expected.size(), missing);
  return missing;
}

int main(int count, char** words) {
  if (count < 4) {
    std::printf("usage: device_code CUOBJDUMP LIBRARY ARCHITECTURE...\n");
    return 2;
  }
  const std::string cuobjdump = words[1], library = words[2];
  const auto machine = names_by_architecture("'" + cuobjdump + "' -symbols '" + library + "' | grep -v STB_LOCAL");
  const auto ptx = names_by_architecture("'" + cuobjdump + "' -ptx '" + library + "' | grep -E '^arch =|[.]entry'");
  int missing = 0;
  for (int i = 3; i < count; ++i) {
    const std::string_view word = words[i];
    const std::string architecture = "sm_" + std::string(word.substr(0, word.find('-')));
    if (!word.ends_with("-virtual")) missing += report_missing(machine, architecture, "machine code");
    if (!word.ends_with("-real")) missing += report_missing(ptx, architecture, "PTX");
  }
  return missing == 0 ? 0 : 1;
}

}  // namespace
}  // namespace stave_cuda

int main(int count, char** words) { return stave_cuda::main(count, words); }
