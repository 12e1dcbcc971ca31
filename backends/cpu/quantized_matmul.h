// Products with quantized weights on the CPU.
#pragma once

#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Runs quantized_matmul. `out` is contiguous (core/op/attributes.h).
void run_quantized_matmul(const stave::QuantizedAttributes& attributes, std::span<const stave::View> in,
                          const stave::View& out);

}  // namespace stave_cpu
