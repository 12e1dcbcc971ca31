// Attention and its gradient, by blocks of scores.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// attention: in q, k, v and perhaps a mask; out the means and the totals.
void run_attention(const Launch& launch, const stave::AttentionAttributes& attention, std::span<const stave::View> in,
                   std::span<const stave::View> out);
/// attention_gradient: in q, k, v, totals, cotangents, shifts and perhaps a mask; out the gradients of q, k and v.
void run_attention_gradient(const Launch& launch, const stave::AttentionAttributes& attention,
                            std::span<const stave::View> in, std::span<const stave::View> out);

}  // namespace stave_cuda
