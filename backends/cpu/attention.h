// Attention and its gradient on the CPU, computed by blocks of scores.
#pragma once

#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Runs attention. `in` is q, k, v and an optional mask. `out` is the weighted means of v and, for
/// each query, the logarithm of the sum of exp(score).
void run_attention(const stave::AttentionAttributes& attention, std::span<const stave::View> in,
                   std::span<const stave::View> out);
/// Runs attention_gradient. `in` is q, k, v, totals, cotangents, shifts and an optional mask
/// (core/op/attributes.h). `out` is the gradients of q, k and v.
void run_attention_gradient(const stave::AttentionAttributes& attention, std::span<const stave::View> in,
                            std::span<const stave::View> out);

}  // namespace stave_cpu
