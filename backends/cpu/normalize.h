// layer_norm and its gradient on the CPU.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Run layer_norm and layer_norm_gradient. Outputs are contiguous (core/op/attributes.h).
void run_layer_norm(const stave::NormAttributes& attributes, std::span<const stave::View> in, const stave::View& out);
void run_layer_norm_gradient(const stave::NormAttributes& attributes, std::span<const stave::View> in,
                             std::span<const stave::View> out);

}  // namespace stave_cpu
