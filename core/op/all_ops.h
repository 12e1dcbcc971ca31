// The list of all operations, the only place that enumerates them. To add an operation, start with
// a line here; its record, its kernels and its row in the table of tests follow.
#pragma once

#include <stave/core/effects/settings.h>

#include <cstddef>
#include <span>

#include <stave/core/op/op_id.h>

namespace stave {

// clang-format off
// X(name, Struct): elementwise operations. The struct, in elementwise_ops.h,
// is the complete definition.
#define STAVE_UNARY_OPS(X)                                                                                         \
  X(abs, Abs) X(negative, Negative) X(sign, Sign) X(sqrt, Sqrt) X(rsqrt, Rsqrt) X(square, Square) X(exp, Exp)      \
  X(expm1, Expm1) X(log, Log) X(log1p, Log1p) X(sin, Sin) X(cos, Cos) X(tan, Tan) X(asin, Asin) X(acos, Acos)      \
  X(atan, Atan) X(sinh, Sinh) X(cosh, Cosh) X(tanh, Tanh) X(asinh, Asinh) X(acosh, Acosh) X(atanh, Atanh)          \
  X(sigmoid, Sigmoid) X(erf, Erf) X(erfinv, Erfinv) X(relu, Relu) X(softplus, Softplus) X(floor, Floor)            \
  X(ceil, Ceil) X(round, Round) X(trunc, Trunc) X(logical_not, LogicalNot) X(isnan, Isnan) X(isinf, Isinf)         \
  X(isfinite, Isfinite) X(signbit, Signbit) X(bitwise_invert, BitwiseInvert) X(reciprocal, Reciprocal)             \
  X(exp2, Exp2) X(log2, Log2) X(log10, Log10) X(logit, Logit) X(erfc, Erfc) X(silu, Silu) X(gelu, Gelu)            \
  X(gelu_tanh, GeluTanh) X(lgamma, Lgamma) X(digamma, Digamma) X(sech_squared, SechSquared)                             \
  X(logistic_density, LogisticDensity)
#define STAVE_BINARY_OPS(X)                                                                                        \
  X(add, Add) X(subtract, Subtract) X(multiply, Multiply) X(scale, Scale) X(divide, Divide)                        \
  X(floor_divide, FloorDivide) X(remainder, Remainder) X(pow, Pow) X(atan2, Atan2) X(maximum, Maximum)             \
  X(minimum, Minimum) X(equal, Equal) X(not_equal, NotEqual) X(less, Less) X(less_equal, LessEqual)                \
  X(greater, Greater) X(greater_equal, GreaterEqual)                                                               \
  X(logical_and, LogicalAnd) X(logical_or, LogicalOr) X(logical_xor, LogicalXor)                                   \
  X(bitwise_and, BitwiseAnd) X(bitwise_or, BitwiseOr) X(bitwise_xor, BitwiseXor)                                   \
  X(bitwise_left_shift, BitwiseLeftShift) X(bitwise_right_shift, BitwiseRightShift) X(copysign, Copysign)          \
  X(nextafter, Nextafter) X(hypot, Hypot) X(logaddexp, Logaddexp) X(xlogy, Xlogy) X(xlog1py, Xlog1py) X(zeta, Zeta) \
  X(scale_by_inverse, ScaleByInverse) X(exp_of_product, ExpOfProduct) X(direction_cosine, DirectionCosine)         \
  X(over_squared_radius, OverSquaredRadius) X(power_rule, PowerRule)

// X(name): operations on stacks of matrices.
#define STAVE_LINALG_OPS(X)                                                                                        \
  X(cholesky) X(triangular_solve) X(lu) X(solve) X(det) X(slogdet) X(qr) X(eigh) X(eigvalsh) X(svd) X(svdvals)     \
  X(lstsq) X(expm)
// X(name): operations on stacks of matrices that only the CPU has kernels of.
#define STAVE_CPU_LINALG_OPS(X)                                                                                    \
  X(eig) X(eigvals) X(schur) X(sqrtm) X(logm) X(sylvester) X(solve_banded) X(ldl)

// X(name, inputs, orders): special functions, which the CPU computes by scalar code
// (backends/cpu/special.h). The first `orders` inputs are orders of a derivative or the function.
#define STAVE_SPECIAL_OPS(X)                                                                                       \
  X(gammainc, 3, 1) X(gammaincc, 2, 0) X(gamma_density, 3, 1) X(betainc, 5, 2) X(beta_density, 5, 2)               \
  X(betaln, 2, 0) X(poch, 2, 0) X(zeta_derivative, 3, 1) X(ndtri, 1, 0) X(log_ndtr, 1, 0) X(erfcx, 2, 1)           \
  X(erfcinv, 1, 0) X(bessel_j, 2, 1) X(bessel_y, 2, 1) X(bessel_i, 2, 1) X(bessel_ie, 2, 1) X(bessel_k, 2, 1)      \
  X(bessel_ke, 2, 1) X(expi, 1, 0) X(expn, 2, 1) X(spence, 2, 1) X(sine_integral, 1, 0)                            \
  X(cosine_integral, 1, 0) X(fresnel_s, 1, 0) X(fresnel_c, 1, 0) X(dawsn, 2, 1) X(sinc, 2, 1) X(hyp1f1, 3, 0)      \
  X(hyp2f1, 4, 0) X(rel_entr, 2, 0) X(kl_div, 2, 0) X(lambertw, 2, 1)

// X(name, inputs): samplers that reject proposals, which the CPU computes by scalar code
// (backends/cpu/samplers.h). Input 0 is the key.
#define STAVE_SAMPLER_OPS(X)                                                                                       \
  X(random_gamma, 2) X(random_loggamma, 2) X(random_poisson, 2) X(random_binomial, 3) X(random_von_mises, 2)       \
  X(random_hypergeometric, 4)

// X(name): higher-order operations, which run the functions in their attributes: they have
// no kernel.
#define STAVE_FUNCTION_OPS(X) X(call)

// X(name, ...): all operations, grouped by the file core/ops/<family>.cpp (function:
// core/op/function.cpp) that defines their records, with shape inference and derivative rules.
#define STAVE_ALL_OPS(X)                                                                          \
  STAVE_UNARY_OPS(X) STAVE_BINARY_OPS(X)                                                          \
  /* create */ X(full) X(iota) X(astype) X(stop_gradient) X(copy)                                 \
  /* complex */ X(complex) X(real) X(imag) X(conj)                                                \
  /* elementwise */ X(where)                                                                      \
  /* special */ STAVE_SPECIAL_OPS(X)                                                              \
  /* reduce */ X(sum) X(prod) X(max) X(min) X(all) X(any) X(argmax) X(argmin)                     \
  /* softmax */ X(softmax) X(log_softmax) X(logsumexp) X(softmax_gradient)                        \
                X(log_softmax_gradient)                                                           \
  /* scan */ X(cumulative_sum) X(cumulative_prod) X(cummax) X(cummin) X(linear_recurrence)        \
  /* sort */ X(sort) X(argsort) X(argtopk)                                                        \
  /* layout */ X(reshape) X(permute_dims) X(broadcast_to) X(slice) X(pad) X(concat)               \
  /* index */ X(gather) X(scatter) X(scatter_add) X(scatter_multiply) X(scatter_min)              \
              X(scatter_max) X(dynamic_slice) X(dynamic_update_slice)                             \
  /* contract */ X(matmul)                                                                        \
  /* linalg */ STAVE_LINALG_OPS(X) STAVE_CPU_LINALG_OPS(X)                                        \
  /* convolution */ X(convolution)                                                                \
  /* fft */ X(fft) X(rfft) X(irfft)                                                               \
  /* search */ X(searchsorted)                                                                    \
  /* pooling */ X(max_pool) X(argmax_pool)                                                        \
  /* normalize */ X(layer_norm) X(layer_norm_gradient)                                            \
  /* attention */ X(attention) X(attention_gradient)                                              \
  /* quantize */ X(quantized_matmul)                                                              \
  /* random */ X(fold_in) X(random_bits) X(random_uniform) X(random_permutation)                  \
  /* random_samplers */ STAVE_SAMPLER_OPS(X)                                                      \
  /* transfer */ X(to)                                                                            \
  /* function */ STAVE_FUNCTION_OPS(X)
// clang-format on

/// An id for each operation, for tables of kernels.
enum class OpId : std::uint16_t {
#define X(name, ...) name,
  STAVE_ALL_OPS(X)
#undef X
      count,
  own = count  // a user-defined operation (define.h); only its record identifies it
};
/// Returns true for the elementwise operations of STAVE_UNARY_OPS and STAVE_BINARY_OPS that are
/// defined for complex operands. The functions abs, sign, isnan, isinf, isfinite and round compute
/// on the two parts.
constexpr bool takes_complex(OpId id) {
  for (const OpId known : {OpId::negative,
                           OpId::sqrt,
                           OpId::rsqrt,
                           OpId::square,
                           OpId::reciprocal,
                           OpId::exp,
                           OpId::exp2,
                           OpId::expm1,
                           OpId::log,
                           OpId::log2,
                           OpId::log10,
                           OpId::log1p,
                           OpId::sin,
                           OpId::cos,
                           OpId::tan,
                           OpId::asin,
                           OpId::acos,
                           OpId::atan,
                           OpId::sinh,
                           OpId::cosh,
                           OpId::tanh,
                           OpId::sech_squared,
                           OpId::asinh,
                           OpId::acosh,
                           OpId::atanh,
                           OpId::sigmoid,
                           OpId::logistic_density,
                           OpId::add,
                           OpId::subtract,
                           OpId::multiply,
                           OpId::scale,
                           OpId::scale_by_inverse,
                           OpId::divide,
                           OpId::pow,
                           OpId::power_rule,
                           OpId::equal,
                           OpId::not_equal})
    if (id == known) return true;
  return false;
}
/// Returns true for the operations in STAVE_LINALG_OPS and STAVE_CPU_LINALG_OPS.
constexpr bool is_linalg(OpId id) { return id >= OpId::cholesky && id <= OpId::ldl; }
/// Returns true for the operations in STAVE_SPECIAL_OPS.
constexpr bool is_special(OpId id) { return id >= OpId::gammainc && id <= OpId::lambertw; }
/// Returns true for the operations in STAVE_SAMPLER_OPS.
constexpr bool is_sampler(OpId id) { return id >= OpId::random_gamma && id <= OpId::random_hypergeometric; }
inline constexpr int op_count = static_cast<int>(OpId::count);

struct Op;
/// The records of all operations, in the order of OpId.
std::span<const Op* const> all_ops();
inline const Op& record_of(OpId id) { return *all_ops()[static_cast<std::size_t>(id)]; }

}  // namespace stave
