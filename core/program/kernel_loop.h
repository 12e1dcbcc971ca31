// Loop: a loop over all elements for an elementwise operation that a user's program defines. It is
// compiled ahead of time, with that program (backends/cpu/own_kernels.h).
#pragma once

#include <cstdint>

#include <stave/core/tensor/dtype.h>

namespace stave_detail {

/// A compiled loop that performs all steps of a region, for one instruction set and for operands of
/// one dtype.
struct Loop {
  const char* isa;             // the name of the instruction set
  int operands;                // the number of operands, at most `most_operands`
  stave::Dtype dtype, result;  // the dtypes of all operands, and of the output
  /// out[i] = f(in[0][i], in[1][i], ...) for i < n. `out` may be one of the inputs.
  void (*run)(void* out, const void* const* in, std::int64_t n);

  static constexpr int most_operands = 8;
};
}  // namespace stave_detail
