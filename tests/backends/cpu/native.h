// Runs native code, and compares it with the interpreter of lowered code.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <stave/backends/cpu/native/group_calls.h>
#include <stave/backends/cpu/native/native_code.h>
#include <stave/core/program/hoist_invariants.h>
#include <stave/core/program/lower.h>
#include <stave/stave.h>

#include "isas.h"
#include "lowered.h"

namespace native {

using namespace stave;
using stave_cpu::NativeCode;
using stave_detail::Lowered;
using stave_detail::LoweredBuilder;
using stave_detail::ScalarOp;

/// Native code, or null. The test that needs it is skipped in a build without native code.
inline std::unique_ptr<const NativeCode> compiled(const Lowered& code) {
  std::string reason;
  std::unique_ptr<const NativeCode> native = NativeCode::compile(code, &reason);
  if (!native && reason.find("this build") == std::string::npos) ADD_FAILURE() << reason;
  return native;
}

struct Result {
  std::vector<Tensor> outputs;
  std::string error;  // of the check that failed
};

/// Outputs and workspace are full of garbage at first, and bytes around them must not change.
inline Result run(const NativeCode& native, const Lowered& code, const std::vector<Tensor>& inputs) {
  constexpr std::size_t guard = 64;
  const auto block = [&](std::size_t bytes) { return std::vector<unsigned char>(bytes + 2 * guard, 0xa5); };
  std::vector<Tensor> kept;
  std::vector<const void*> in;
  for (const Tensor& input : inputs) {
    kept.push_back(contiguous(input));
    in.push_back(kept.back().node().data());
  }
  std::vector<std::vector<unsigned char>> blocks;
  std::vector<void*> out;
  for (std::size_t k = 0; k < code.outputs(); ++k) {
    const Lowered::Buffer& buffer = code.buffers[code.inputs() + k];
    blocks.push_back(block(static_cast<std::size_t>(buffer.elements) * size_of(buffer.dtype)));
  }
  blocks.push_back(block(native.work_bytes()));
  for (std::size_t k = 0; k < code.outputs(); ++k) out.push_back(blocks[k].data() + guard);
  const int failed = native(in.data(), out.data(), blocks.back().data() + guard);
  for (const std::vector<unsigned char>& memory : blocks)
    for (std::size_t k = 0; k < guard; ++k)
      if (memory[k] != 0xa5 || memory[memory.size() - 1 - k] != 0xa5) ADD_FAILURE() << "native code left a buffer";
  Result result;
  if (failed) {
    result.error = code.errors.at(static_cast<std::size_t>(failed) - 1);
    return result;
  }
  for (std::size_t k = 0; k < code.outputs(); ++k) {
    const Lowered::Buffer& buffer = code.buffers[code.inputs() + k];
    result.outputs.push_back(
        stave::from_bytes(out[k], static_cast<std::size_t>(buffer.elements), buffer.dtype, code.output_shapes[k]));
  }
  return result;
}

/// Equal bit for bit, but for the bits of NaN.
inline bool same_numbers(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  return visit_real_dtype(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto *x = static_cast<const T*>(a.node().data()), *y = static_cast<const T*>(b.node().data());
    for (Index i = 0; i < a.size(); ++i) {
      if constexpr (std::is_floating_point_v<T>)
        if (std::isnan(x[i]) && std::isnan(y[i])) continue;
      if (std::memcmp(x + i, y + i, sizeof(T)) != 0) return false;
    }
    return true;
  });
}

inline void expect_same(const std::string& name, const Lowered& code, const std::vector<Tensor>& inputs) {
  stave_detail::verify(code);
  const std::unique_ptr<const NativeCode> native = compiled(code);
  if (!native) return;
  stave_test::LoweredRun interpreter(code);
  const std::vector<Tensor> expected = interpreter(inputs);
  const Result result = run(*native, code, inputs);
  EXPECT_EQ(result.error, interpreter.error) << name;
  ASSERT_EQ(result.outputs.size(), expected.size()) << name;
  for (std::size_t k = 0; k < expected.size(); ++k)
    EXPECT_TRUE(same_numbers(result.outputs[k], expected[k]))
        << name << ", output " << k << ": " << result.outputs[k] << "\nexpected " << expected[k];
}

template <class F, class... X>
void expect_same_program(const std::string& name, F f, X... xs) {
  const std::vector<Tensor> inputs{xs...};
  const Lowered code = stave_detail::lower(trace(f)(xs...));
  stave_detail::verify(stave_detail::hoist_invariants(code));
  expect_same(name, code, inputs);
}

/// Native code uses the same instruction set as the kernels.
class Native : public stave_test::OnEachIsa {
 protected:
  void SetUp() override {
    OnEachIsa::SetUp();
    std::string reason;
    if (!IsSkipped() && !NativeCode::compile(Lowered{}, &reason)) GTEST_SKIP() << reason;
  }
};
/// Names the tests of a file.
#define NATIVE_FIXTURE(name)     \
  class name : public Native {}; \
  STAVE_ON_EACH_ISA(name)

}  // namespace native
