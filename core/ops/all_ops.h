// The list of all operations. It is the one place where they are counted: backends keep a kernel for each, the
// generated test has a row for each, and a new operation starts with a line here.
//
// The families say where all else that is known of an operation stands: core/ops/<family>.cpp.
#pragma once

#include <cstdint>
#include <span>

namespace stave {

// clang-format off
// X(name): elementwise operations, each one struct in elementwise_ops.h.
#define STAVE_UNARY_OPS(X)                                                                               \
  X(abs) X(negative) X(sign) X(sqrt) X(rsqrt) X(square) X(exp) X(expm1) X(log) X(log1p) X(sin) X(cos)    \
  X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) X(sigmoid) X(erf)    \
  X(erfinv) X(relu) X(softplus) X(floor) X(ceil) X(round) X(trunc) X(logical_not) X(isnan) X(isinf) X(isfinite)
#define STAVE_BINARY_OPS(X)                                                                              \
  X(add) X(subtract) X(multiply) X(scale) X(divide) X(floor_divide) X(remainder) X(pow) X(atan2) X(maximum) X(minimum)            \
  X(equal) X(not_equal) X(less) X(less_equal) X(greater) X(greater_equal)                                \
  X(logical_and) X(logical_or) X(logical_xor)
// The others: kernels of their own.
#define STAVE_CREATE_OPS(X) X(full) X(iota)
#define STAVE_CONVERT_OPS(X) X(astype) X(stop_gradient) X(copy)
#define STAVE_SELECT_OPS(X) X(where)
#define STAVE_REDUCE_OPS(X) X(sum) X(prod) X(max) X(min) X(all) X(any) X(argmax) X(argmin)
#define STAVE_SOFTMAX_OPS(X) X(softmax) X(log_softmax)
#define STAVE_SCAN_OPS(X) X(cumulative_sum) X(cumulative_prod) X(linear_recurrence)
#define STAVE_SORT_OPS(X) X(sort) X(argsort)
#define STAVE_LAYOUT_OPS(X) X(reshape) X(permute_dims) X(broadcast_to) X(slice) X(pad) X(concat)
#define STAVE_INDEX_OPS(X) X(gather) X(scatter_add) X(dynamic_slice) X(dynamic_update_slice)
#define STAVE_CONTRACT_OPS(X) X(matmul)
#define STAVE_RANDOM_OPS(X) X(fold_in) X(random_bits) X(random_uniform) X(random_permutation)
// Between backends: no kernel of either.
#define STAVE_TRANSFER_OPS(X) X(to)

// They carry functions, and run them: no kernels.
#define STAVE_FUNCTION_OPS(X) X(checkpoint) X(custom_vjp) X(custom_jvp) X(custom_vmap)

#define STAVE_ALL_OPS(X)                                                                                 \
  STAVE_UNARY_OPS(X) STAVE_BINARY_OPS(X) STAVE_CREATE_OPS(X) STAVE_CONVERT_OPS(X) STAVE_SELECT_OPS(X)    \
  STAVE_REDUCE_OPS(X) STAVE_SOFTMAX_OPS(X) STAVE_SCAN_OPS(X) STAVE_SORT_OPS(X) STAVE_LAYOUT_OPS(X)       \
  STAVE_INDEX_OPS(X) STAVE_CONTRACT_OPS(X) STAVE_RANDOM_OPS(X) STAVE_TRANSFER_OPS(X) STAVE_FUNCTION_OPS(X)
// clang-format on

/// One name for each operation, for tables of kernels.
enum class OpId : std::uint16_t {
#define X(name) name,
  STAVE_ALL_OPS(X)
#undef X
      count
};
inline constexpr int op_count = static_cast<int>(OpId::count);

struct Op;
/// Every operation's record, in the order of OpId.
std::span<const Op* const> all_ops();

}  // namespace stave
