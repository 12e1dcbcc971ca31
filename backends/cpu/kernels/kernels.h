// The table of kernels that one instruction set exports, and nothing else: plain function pointers over contiguous data.
//
// A kernel knows neither shapes nor threads. The drivers in backends/cpu collapse dimensions, gather strided operands
// into short contiguous blocks, and split the work; a null entry means that the operation does not admit the dtype.
#pragma once

#include <cstdint>

#include <stave/backends/cpu/kernels/chain.h>
#include <stave/core/op/all_ops.h>
#include <stave/core/tensor/dtype.h>

namespace stave_cpu {

using stave::Dtype;
using stave::dtype_count;
using Index = std::int64_t;  // stave::Index, without the headers of core/tensor/shape.h
using stave::OpId;

/// out[i] = f(in[0][i], in[1][i], ...) for i < n. `out` may be one of the inputs.
using BlockKernel = void (*)(void* out, const void* const* in, Index n);

/// A reduction's kernels for one operation and dtype. An accumulator holds one value for each of `n` columns, wider
/// than the dtype where accuracy asks for it, as `planes` arrays of n values of `plane_bytes` one after the other.
struct Reduction {
  int planes, plane_bytes;
  /// The neutral element in n columns.
  void (*start)(void* accumulator, Index n);
  /// One column: accumulator += in[0], ..., in[n - 1].
  void (*row)(const void* in, Index n, void* accumulator);
  /// Many columns: accumulator[r] += in[r * stride], ..., in[r * stride + n - 1], for r < rows.
  void (*rows)(const void* in, Index rows, Index stride, Index n, void* accumulator);
  /// n columns: accumulator[c] += in[r * stride + c], for r < rows.
  void (*columns)(const void* in, Index rows, Index stride, Index n, void* accumulator);
  /// accumulator[c] += other[c].
  void (*merge)(void* accumulator, const void* other, Index n);
  /// The result of n columns, in the dtype.
  void (*finish)(const void* accumulator, Index n, void* out);
};

/// argmax and argmin. NaN is the extreme, and the first occurrence wins.
struct ArgReduction {
  /// The extreme of in[0 .. n) and where it first stands; `value` gets one element.
  Index (*row)(const void* in, Index n, void* value);
  /// Whether `a` comes before `b` whatever their positions: strictly more extreme.
  bool (*beats)(const void* a, const void* b);
  /// columns c < n: where in[c] beats best[c], best[c] = in[c] and where[c] = position.
  void (*columns)(const void* in, Index n, Index position, void* best, Index* where);
};

/// A scan's kernels for one operation and dtype. The state holds what n columns have come to, as `planes` arrays of n values
/// of `plane_bytes`. `out` is none of the inputs.
struct Scan {
  int planes, plane_bytes;
  /// What comes before the first element, in n columns.
  void (*start)(void* state, Index n);
  /// The next n elements of one column: out[i] after in[...][i].
  void (*row)(const void* const* in, Index n, void* state, void* out);
  /// The next element of each of n columns.
  void (*columns)(const void* const* in, Index n, void* state, void* out);
};

/// What softmax needs to know of a row, or of a part of it: its largest element, and the sum of
/// exp(x - max) in two parts, of which the second is what rounding lost, or would lose, in the
/// first. Where all elements are -inf, or there are none, the sum is 0.
struct SoftmaxTotal {
  double max = -__builtin_inf(), sum = 0, lost = 0;
};

/// The kernels of softmax or log_softmax for one dtype. Strides in elements; `out` may be the very input, at its strides.
struct Softmax {
  /// Whole rows of n elements.
  void (*rows)(const void* in, Index in_stride, Index rows, Index n, void* out, Index out_stride);
  /// Whole columns of `rows` elements, n <= softmax_columns of them side by side.
  void (*columns)(const void* in, Index in_stride, Index rows, Index n, void* out, Index out_stride);
  /// The next n elements of a row that is too long to be kept in a cache: into its total; and, when that is known, the result.
  void (*fold)(const void* in, Index n, SoftmaxTotal* total);
  void (*merge)(SoftmaxTotal* total, const SoftmaxTotal* next);
  void (*finish)(const void* in, Index n, const SoftmaxTotal* total, void* out);
};
inline constexpr Index softmax_columns = 512;

/// Dense rows [rows, n] of softmax_gradient, of y = softmax(x), or log_softmax_gradient, of x: see
/// core/ops/softmax.cpp. `out` is neither of the inputs.
using SoftmaxGradient = void (*)(const void* x, const void* ct, Index rows, Index n, void* out);

/// layer_norm and layer_norm_gradient of dense rows of n elements (core/op/attributes.h).
struct Normalization {
  void (*rows)(const void* x, const void* weight, const void* bias, Index rows, Index n, double epsilon, void* out);
  /// Adds to ct_weight and ct_bias; `work` has room for 2 n elements.
  void (*gradient)(const void* x, const void* weight, const void* ct, Index rows, Index n, double epsilon, void* out,
                   double* ct_weight, double* ct_bias, void* work);
};

/// Factorizations of one small matrix, row-major without gaps, of float32 or float64. Their elements are finite, and of qr, eigh
/// and svd of moderate size, so that squares neither overflow nor vanish.
struct SmallLinalg {
  /// The lower triangle of a [n, n] becomes l of a = l l^T, the upper one 0. False: a is not positive definite.
  bool (*cholesky)(void* a, Index n);
  /// a [m, n] becomes its packed factors; row i was exchanged with row exchanges[i].
  void (*lu)(void* a, Index m, Index n, std::int32_t* exchanges);
  /// b [n, k] becomes t^-1 b for triangular t, whose steps are given.
  void (*triangular_solve)(const void* t, Index row_step, Index column_step, bool lower, bool unit, Index n, void* b,
                           Index k);
  /// a [m, n], m >= n, becomes r; q [m, p]; `work` has room for m + p numbers.
  void (*qr)(void* a, Index m, Index n, void* q, Index p, void* work);
  /// The rows of a [n, n], symmetric, become the eigenvectors (if `vectors`) of w, ascending; `work` has room for n * n + 3 * n
  /// numbers. False: no end was found.
  bool (*eigh)(void* a, Index n, void* w, bool vectors, void* work);
  /// The rows of x [k, n], k <= n, and the rows of y [k, k] (null: not asked for) become those of v and of u^T, where x = u diag(s)
  /// v, s descending. False: no end was found.
  bool (*svd)(void* x, Index k, Index n, void* y, void* s);
  /// Rows of x [rows, n] from `known` on become orthonormal to each other and to those before, which are orthonormal.
  void (*complete)(void* x, Index known, Index rows, Index n);
};

/// Kernels by operation and dtype, for the operations that all_ops.h lists from `first` on, up to `end`, which is none of them.
template <class Kernel, OpId first, OpId end>
struct ByOp {
  Kernel rows[static_cast<int>(end) - static_cast<int>(first)][dtype_count];
  [[gnu::always_inline]] Kernel* operator[](OpId op) { return rows[static_cast<int>(op) - static_cast<int>(first)]; }
  [[gnu::always_inline]] const Kernel* operator[](OpId op) const {
    return rows[static_cast<int>(op) - static_cast<int>(first)];
  }
};

inline constexpr Index multiplied_results = 4, multiplied_taps = 3, sum_lanes = 16, widest_vector = 64;

struct Kernels {
  const char* isa;
  ByOp<BlockKernel, OpId::abs, OpId::full> elementwise;
  BlockKernel convert[dtype_count][dtype_count];  // [from][to]
  BlockKernel where[dtype_count];                 // in: condition, x, y
  /// Operations one after the other on elements i < n of arrays, which are read and written at the same elements only: the same one
  /// may be both. The first link loads. Of float32 and float64.
  void (*chain[dtype_count])(const Link* links, Index count, char* const* arrays, Index n);
  ByOp<Reduction, OpId::sum, OpId::argmax> reduce;
  ByOp<ArgReduction, OpId::argmax, OpId::softmax> arg_reduce;
  ByOp<Softmax, OpId::softmax, OpId::softmax_gradient> softmax;                          // of float32 and float64
  ByOp<SoftmaxGradient, OpId::softmax_gradient, OpId::cumulative_sum> softmax_gradient;  // likewise
  Normalization layer_norm[dtype_count];                                                 // of float32 and float64
  ByOp<Scan, OpId::cumulative_sum, OpId::sort> scan;                                     // not of bool
  /// out[j] += a * b[j] for j < n, wrapping in integers: the inner loop of small and integer matmuls. Not of sixteen-bit floats.
  void (*multiply_add[dtype_count])(void* out, const void* a, const void* b, Index n);
  /// [m, k] x [k, n] for m, k, n <= 16 and row-major operands with the given distances between rows.
  void (*tiny_matmul[dtype_count])(void* out, const void* a, const void* b, Index m, Index k, Index n, Index a_stride,
                                   Index b_stride);
  SmallLinalg small_linalg[dtype_count];  // of float32 and float64
  /// out[r * out_step + j] (+)= the sum over t < taps of w[t * results + r] * x[offsets[t] + j], for r < results, j < n, wrapping
  /// in integers: rows of a convolution. At most `weighed_results` of floats, for which there are registers, one of integers. Reads up to two vectors of x where
  /// there is one element. Not of bool, nor of sixteen-bit floats.
  Index weighed_results;
  void (*weigh_rows[dtype_count])(void* out, Index out_step, const void* x, const void* w, const Index* offsets,
                                  Index taps, Index results, Index n, bool accumulate);
  /// The sum over row < rows and j < n of w[r * w_step + row * w_row + j] * x[offsets[t] + row * x_row + j], for r < results,
  /// t < taps: at most `multiplied_results` and `multiplied_taps`. It is added, in up to `sum_lanes` parts, to those of
  /// sums[(r * taps + t) * sum_lanes]. Float32, float64.
  void (*multiply_rows[dtype_count])(double* sums, const void* x, Index x_row, const Index* offsets, Index taps,
                                     const void* w, Index w_row, Index w_step, Index results, Index rows, Index n);
  /// out[i] = the word of `key` at 64-bit counter first + i: both halves of Threefry-2x32, exclusive or.
  void (*random_bits)(std::uint32_t* out, std::uint32_t key0, std::uint32_t key1, std::uint64_t first, Index n);
  /// The same with both halves kept, high word first.
  void (*random_words)(std::uint64_t* out, std::uint32_t key0, std::uint32_t key1, std::uint64_t first, Index n);
  /// Floats in [low, high) from the same counters, as UniformAttributes defines them.
  void (*random_uniform[dtype_count])(void* out, std::uint32_t key0, std::uint32_t key1, std::uint64_t first, Index n,
                                      double low, double high);
  /// Copies past the caches; whoever did so calls end_streams() before others may read. Null where there is no such store.
  void (*stream_bytes)(char* to, const char* from, Index bytes);
  void (*end_streams)();
};

}  // namespace stave_cpu
