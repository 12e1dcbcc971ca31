// Host functions that launch the kernels of attention and its gradient. The kernels compute the
// scores tile by tile and never store the matrix of all scores.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Computes `attention`. `in` is q, k, v and an optional mask. `out` is the weighted means of v
/// and, for each query, the log-sum-exp of its scores (its total).
void run_attention(const Launch& launch, const stave::AttentionAttributes& attention, std::span<const stave::View> in,
                   std::span<const stave::View> out);
/// Computes `attention_gradient`. `in` is q, k, v, totals, cotangents, shifts and an optional mask,
/// as core/op/attributes.h defines them. `out` is the gradients of q, k and v.
void run_attention_gradient(const Launch& launch, const stave::AttentionAttributes& attention,
                            std::span<const stave::View> in, std::span<const stave::View> out);

}  // namespace stave_cuda
