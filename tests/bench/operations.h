// The operations that are compared with PyTorch and JAX. operations.cpp implements Stave's side,
// peer_operations.py the peers' side, and bars.cpp has a bar for each.
#pragma once

// clang-format off
#define STAVE_COMPARED_OPERATIONS(X)                                                                               \
  X(conv2d) X(conv2d_grad) X(conv2d_wide) X(conv2d_wide_grad) X(max_pool) X(max_pool_grad)                         \
  X(layer_norm) X(layer_norm_grad) X(cross_entropy) X(cross_entropy_grad) X(attention) X(attention_grad)           \
  X(topk) X(unique) X(histogram) X(gather_rows) X(gather_numbers) X(scatter_add_rows) X(scatter_add_numbers)       \
  X(einsum) X(add_float16) X(add_bfloat16) X(matmul_float16) X(matmul_bfloat16)                                    \
  X(cholesky_3) X(cholesky_16) X(cholesky_256) X(cholesky_1024) X(solve_3) X(solve_16) X(solve_256) X(solve_1024)  \
  X(eigh_3) X(eigh_16) X(eigh_256) X(eigh_1024) X(svd_3) X(svd_16) X(svd_256) X(svd_1024)
// clang-format on
