// Drivers of attention and its gradient, which compute the scores block by block.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Computes `attention`. `in` is q, k, v and an optional mask; `out` is the weighted means of v and
/// the totals of the scores of each query.
void run_attention(const Launch& launch, const stave::AttentionAttributes& attention, std::span<const stave::View> in,
                   std::span<const stave::View> out);
/// Computes `attention_gradient`. `in` is q, k, v, totals, cotangents, shifts and an optional mask;
/// `out` is the gradients of q, k and v.
void run_attention_gradient(const Launch& launch, const stave::AttentionAttributes& attention,
                            std::span<const stave::View> in, std::span<const stave::View> out);

}  // namespace stave_cuda
