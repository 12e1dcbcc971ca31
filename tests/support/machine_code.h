// Helpers for tests of machine code in compiled functions.
#pragma once

#include <cstdlib>
#include <string_view>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <stave/stave.h>

namespace stave_test {

/// The result of the compiled function: the first call records it, and the second one replays it.
template <class F, class... Xs>
auto replayed(const F& compiled, const Xs&... xs) {
  compiled(xs...);
  return compiled(xs...);
}

/// STAVE_NATIVE of the environment; empty: it is not set.
inline std::string_view native_setting() {
  const char* const setting = std::getenv("STAVE_NATIVE");
  return setting ? setting : "";
}

/// Returns true if this build has machine code for this machine: a test that needs it is skipped
/// otherwise.
inline bool has_native_code() {
  const auto f = stave::compile([](const stave::Tensor& x) { return x + 1; }, {.native = stave::Native::required});
  try {
    return replayed(f, stave::tensor(1.0)).defined();
  } catch (const stave::TransformError&) {
    return false;
  }
}
#define NEEDS_NATIVE_CODE() \
  if (!has_native_code()) GTEST_SKIP() << "no native code here"

inline std::vector<stave::Tensor> tensors_of(const stave::Tensor& x) { return {x}; }
template <class... Xs>
std::vector<stave::Tensor> tensors_of(const std::tuple<Xs...>& xs) {
  return std::apply([](const auto&... x) { return std::vector<stave::Tensor>{x...}; }, xs);
}

}  // namespace stave_test
