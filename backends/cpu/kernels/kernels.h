// The table of kernels that each instruction set exports. Its entries are plain function pointers,
// and they work on contiguous data.
//
// A kernel does not depend on shapes or threads. Its caller is a driver: the function in
// backends/cpu that runs an operation. The driver merges dimensions, gathers strided operands into
// short contiguous blocks, and splits the work among threads. A null entry means that there is no
// kernel for the dtype. Then the driver converts the elements to another dtype or uses another
// kernel, or the operation does not support the dtype.
#pragma once

#include <cstdint>

#include <stave/backends/cpu/kernels/chain.h>
#include <stave/backends/cpu/kernels/fft.h>
#include <stave/core/op/all_ops.h>
#include <stave/core/tensor/dtype.h>

namespace stave_cpu {

using stave::Dtype;
using stave::dtype_count;
using Index = std::int64_t;  // stave::Index, without the headers of core/tensor/shape.h
using stave::OpId;

/// out[i] = f(in[0][i], in[1][i], ...) for i < n. `out` may be one of the inputs.
using BlockKernel = void (*)(void* out, const void* const* in, Index n);

/// The kernels of a reduction for one operation and dtype. An accumulator holds one value for each
/// of `n` columns, in a wider type than the dtype where accuracy requires it. It consists of
/// `planes` arrays, one after the other. Each array has n values of `plane_bytes` bytes.
struct Reduction {
  int planes, plane_bytes;
  /// Sets n columns to the neutral element.
  void (*start)(void* accumulator, Index n);
  /// Reduces n elements into one column: accumulator += in[0], ..., in[n - 1].
  void (*row)(const void* in, Index n, void* accumulator);
  /// Reduces each row into a column of its own: accumulator[r] += in[r * stride], ...,
  /// in[r * stride + n - 1], for r < rows.
  void (*rows)(const void* in, Index rows, Index stride, Index n, void* accumulator);
  /// Reduces rows into n columns: accumulator[c] += in[r * stride + c], for r < rows and c < n.
  void (*columns)(const void* in, Index rows, Index stride, Index n, void* accumulator);
  /// Merges n columns of another accumulator into n columns of this one:
  /// accumulator[c] += other[c]. The accumulators have `width` and `other_width` columns.
  void (*merge)(void* accumulator, Index width, const void* other, Index other_width, Index n);
  /// Writes the results of n columns to `out`, as elements of the dtype.
  void (*finish)(const void* accumulator, Index n, void* out);
};

/// The kernels of argmax or argmin for one dtype. NaN counts as more extreme than every number,
/// and the first of equal elements is chosen.
struct ArgReduction {
  /// Returns the position of the first extreme element of in[0 .. n), and writes this element to
  /// `value`.
  Index (*row)(const void* in, Index n, void* value);
  /// Returns true if the element at `a` is strictly more extreme than the one at `b`. It is then
  /// chosen, whatever the positions of the two elements are.
  bool (*beats)(const void* a, const void* b);
  /// Updates columns c < n: where in[c] beats best[c], it sets best[c] = in[c]
  /// and where[c] = position.
  void (*columns)(const void* in, Index n, Index position, void* best, Index* where);
};

/// The kernels of a scan for one operation and dtype. The state holds the running value of n
/// columns, as `planes` arrays of n values of `plane_bytes` bytes. `out` must not overlap the
/// inputs.
struct Scan {
  int planes, plane_bytes;
  /// Sets the state of n columns to the value before the first element.
  void (*start)(void* state, Index n);
  /// Processes the next n elements of one column: out[i] is the value after in[...][i].
  void (*row)(const void* const* in, Index n, void* state, void* out);
  /// Processes the next element of each of n columns.
  void (*columns)(const void* const* in, Index n, void* state, void* out);
};

/// The statistics of a row, or of a part of a row, that softmax needs: its largest element, and the
/// sum of exp(x - max) in two parts. The sum is sum + lost, where `lost` holds the digits that
/// rounding removes from `sum`. If all elements are -inf, or there are no elements, the sum is 0.
struct SoftmaxTotal {
  double max = -__builtin_inf(), sum = 0, lost = 0;
};

/// The kernels of softmax, log_softmax or logsumexp for one dtype. Strides are in elements. `out`
/// may be the input itself, with the input's strides.
struct Softmax {
  bool reduces;  // true for logsumexp: a row has one result
  /// Computes whole rows of n elements.
  void (*rows)(const void* in, Index in_stride, Index rows, Index n, void* out, Index out_stride);
  /// Computes n adjacent whole columns of `rows` elements each; n <= softmax_columns.
  void (*columns)(const void* in, Index in_stride, Index rows, Index n, void* out, Index out_stride);
  /// Kernels for a row that is too long for a cache. `fold` adds the next n elements of the row to
  /// its total, `merge` adds the total of a later part, and `finish` computes the next n results
  /// (of logsumexp: the only one) from the complete total.
  void (*fold)(const void* in, Index n, SoftmaxTotal* total);
  void (*merge)(SoftmaxTotal* total, const SoftmaxTotal* next);
  void (*finish)(const void* in, Index n, const SoftmaxTotal* total, void* out);
};
inline constexpr Index softmax_columns = 512;

/// Computes softmax_gradient or log_softmax_gradient for dense rows [rows, n].
/// For softmax_gradient, the argument `x` is the result of softmax. core/ops/softmax.cpp
/// has the formulas. `out` must not be one of the inputs.
using SoftmaxGradient = void (*)(const void* x, const void* ct, Index rows, Index n, void* out);

/// The kernels of layer_norm and layer_norm_gradient for dense rows of n elements;
/// core/op/attributes.h describes the operations.
struct Normalization {
  void (*rows)(const void* x, const void* weight, const void* bias, Index rows, Index n, double epsilon, void* out);
  /// Computes the gradient of x, and adds the gradients of weight and bias to ct_weight
  /// and ct_bias.
  /// `work` has room for 2 n elements.
  void (*gradient)(const void* x, const void* weight, const void* ct, Index rows, Index n, double epsilon, void* out,
                   double* ct_weight, double* ct_bias, void* work);
};

/// The kernels of quantized weights of one width of codes (core/op/attributes.h, quantized_matmul)
/// in one dtype. Element i of a row of weights is scale code + bias, with code i of `codes` and the
/// scale and bias i / group.
struct QuantizedRow {
  const std::uint8_t* codes;
  const void *scales, *biases;  // elements of the dtype of the kernels
  Index group;
};
struct QuantizedKernels {
  /// Writes elements first, ..., first + n - 1. With codes of 4 bits, `first` is even.
  void (*unpack)(const QuantizedRow& row, Index first, Index n, void* out);
  /// Computes out[r * out_step], the sum of x[r * x_step + i] w[i] over the elements i < n of the
  /// row, for r < rows <= quantized_rows.
  void (*dot)(const QuantizedRow& row, Index n, const void* x, Index x_step, Index rows, void* out, Index out_step);
};
inline constexpr Index quantized_rows = 4;

/// Factorizations of one small matrix of float32 or float64, row-major without gaps. Elements must
/// be finite. For qr, eigh and svd they must also be of moderate size, so that their squares
/// neither overflow nor underflow.
struct SmallLinalg {
  /// Replaces the lower triangle of a [n, n] by l, where a = l l^T, and the upper one by 0.
  /// Returns false if a is not positive definite.
  bool (*cholesky)(void* a, Index n);
  /// Replaces a [m, n] by its packed factors. Step i exchanged row i with row exchanges[i].
  void (*lu)(void* a, Index m, Index n, std::int32_t* exchanges);
  /// Replaces b [n, k] by t^-1 b for a triangular matrix t with the given steps.
  void (*triangular_solve)(const void* t, Index row_step, Index column_step, bool lower, bool unit, Index n, void* b,
                           Index k);
  /// Replaces a [m, n], m >= n, by r, and writes q [m, p]. `work` has room for m + p numbers.
  void (*qr)(void* a, Index m, Index n, void* q, Index p, void* work);
  /// Computes the eigenvalues w, ascending, of a symmetric a [n, n], and, if `vectors`, replaces
  /// its rows by the eigenvectors. `work` has room for n * n + 3 * n numbers. Returns false
  /// if the iteration does not converge.
  bool (*eigh)(void* a, Index n, void* w, bool vectors, void* work);
  /// Computes the singular value decomposition x = u diag(s) v with descending s. The rows of x [k,
  /// n], k <= n, become those of v, and the rows of y [k, k] those of u^T. A null y means that u is
  /// not needed. Returns false if the iteration does not converge.
  bool (*svd)(void* x, Index k, Index n, void* y, void* s);
  /// Fills rows known, known + 1, ... of x [rows, n]. The earlier rows must be orthonormal, and all
  /// rows together become orthonormal.
  void (*complete)(void* x, Index known, Index rows, Index n);
};

/// Writes each of n elements several times, one copy after the other. `out` does not overlap `in`.
using RepeatKernel = void (*)(void* out, const void* in, Index n);
inline constexpr int most_repeats = 8;

/// Computes n elements of a special operation. Step k is 1, or 0 for an input that is one value.
using SpecialKernel = void (*)(void* out, const void* const* in, const Index* steps, Index n);

/// A table of kernels by operation, from `first` up to, but not including, `end` in the order of
/// all_ops.h.
template <class Kernel, OpId first, OpId end>
struct ByOp {
  Kernel rows[static_cast<int>(end) - static_cast<int>(first)][dtype_count];
  [[gnu::always_inline]] Kernel* operator[](OpId op) { return rows[static_cast<int>(op) - static_cast<int>(first)]; }
  [[gnu::always_inline]] const Kernel* operator[](OpId op) const {
    return rows[static_cast<int>(op) - static_cast<int>(first)];
  }
};

// Products are computed `panel_terms` terms at a time. If rows of a are copied, they are
// `panel_pitch` elements apart, so that they do not compete for the same lines of a cache.
inline constexpr Index panel_terms = 384, panel_pitch = 400;
inline constexpr int most_panel_rows = 12, few_panel_rows = 3;

/// The kernel of matrix products for one dtype: a block of at most `rows` x `columns` results.
/// multiply[m - 1] computes out[r * out_step + j] = the sum over p < terms of a[r * a_step + p] *
/// x[offsets[p] + j], for r < m and j < n; if `accumulate` is true, it adds the sum to `out`. It
/// reads `columns` elements from each position of x, or half of them if n is at most columns / 2:
/// then it takes about half the time.
struct PanelProduct {
  using Multiply = void (*)(void* out, Index out_step, const void* a, Index a_step, const void* x, const Index* offsets,
                            Index terms, Index n, bool accumulate);
  Index rows, columns;  // 0 if there is no kernel
  Multiply multiply[most_panel_rows];
  // The same for products of few rows in all. Few sums would wait for each other, so each is
  // computed in strands.
  Multiply multiply_few[few_panel_rows];
};

/// The transforms of Winograd's convolutions F(2x2, 3x3) of float32: a tile of 4x4 elements of x
/// gives 2x2 results. Both kernels process neighbouring tiles of a row of tiles. Each of the
/// matrices k = 0, ..., 15 has one element for each tile. The kernels are null if the instruction
/// set has no kernel of products.
struct Winograd {
  /// Computes out[k * out_step + j] for tiles j < `tiles` from four rows of `length` elements. A
  /// null row is 0. Tile j begins at column first + 2 * j. Columns outside of [0, length) are 0.
  /// Whole vectors are written, so up to widest_vector bytes after the last tile change.
  void (*input)(float* out, Index out_step, const float* const* rows, Index first, Index length, Index tiles);
  /// Computes `columns` results of two rows from elements m[k * m_step + j]. `bottom` may be null.
  /// Whole vectors are read.
  void (*output)(float* top, float* bottom, Index columns, const float* m, Index m_step);
};

inline constexpr Index multiplied_results = 4, multiplied_taps = 3, sum_lanes = 16, widest_vector = 64;

struct Kernels {
  const char* isa;
  ByOp<BlockKernel, OpId::abs, OpId::full> elementwise;
  BlockKernel convert[dtype_count][dtype_count];  // Indexed as convert[from][to].
  BlockKernel where[dtype_count];                 // The inputs are condition, x and y.
  /// Interprets a chain (chain.h): applies its links in order to elements i < n of `arrays`. The
  /// first link must load a value. Element i of a result depends on elements i only, so one array
  /// may be both read and written. Only float32 and float64 have this kernel.
  void (*chain[dtype_count])(const Link* links, Index count, char* const* arrays, Index n);
  ByOp<Reduction, OpId::sum, OpId::argmax> reduce;
  Index vector_bytes;  // the size of the vectors in which `reduce` combines the elements of a row
  ByOp<ArgReduction, OpId::argmax, OpId::softmax> arg_reduce;
  /// These operations have kernels for float32 and float64 only.
  ByOp<Softmax, OpId::softmax, OpId::softmax_gradient> softmax;
  ByOp<SoftmaxGradient, OpId::softmax_gradient, OpId::cumulative_sum> softmax_gradient;
  Normalization layer_norm[dtype_count];
  QuantizedKernels quantized[2][dtype_count];  // indexed [bits / 8]; only float32 and float64
  /// Sums, products and recurrences have no kernels for bool.
  ByOp<Scan, OpId::cumulative_sum, OpId::sort> scan;
  /// Computes out[j] += a * b[j] for j < n, wrapping in integers: the inner loop of small and
  /// integer matmuls. Sixteen-bit floats have no such kernel.
  void (*multiply_add[dtype_count])(void* out, const void* a, const void* b, Index n);
  /// Multiplies [m, k] x [k, n] for k, n <= 16. Operands are row-major with the given distances
  /// between rows.
  void (*tiny_matmul[dtype_count])(void* out, const void* a, const void* b, Index m, Index k, Index n, Index a_stride,
                                   Index b_stride);
  /// Multiplies [m, k] x [k, n], adding the terms in their order, as tiny_matmul does. The
  /// distances are those between rows and, for a, also between columns; the other columns are
  /// adjacent. Only float32 and float64 have this kernel.
  void (*few_terms_matmul[dtype_count])(void* out, const void* a, const void* b, Index m, Index k, Index n,
                                        Index out_step, Index a_row, Index a_column, Index b_row);
  /// Computes out[i * out_step] = the sum over j < n of a[i * a_row + j] * x[j], for i < rows. It
  /// has one running sum for each lane of a vector, so a sum does not depend on the other rows.
  /// Only float32 and float64 have this kernel.
  void (*multiply_vector[dtype_count])(void* out, Index out_step, const void* a, Index a_row, const void* x, Index rows,
                                       Index n);
  PanelProduct panel_product[dtype_count];  // only for float32 and float64
  Winograd winograd;
  SmallLinalg small_linalg[dtype_count];  // only for float32 and float64
  /// Computes rows of a convolution: out[r * out_step + j] = the sum over t < taps
  /// of w[t * results + r] * x[offsets[t] + j], for r < results and j < n, wrapping in integers.
  /// If `accumulate` is true, it adds the sum to `out` instead. `results` is at most
  /// `weighed_results` for floats, so that the sums fit into the registers, and 1 for integers.
  /// The kernel loads up to two whole vectors of x from each position where it needs at least one
  /// element, so that much must be readable. There are no kernels for bool and for sixteen-bit
  /// floats.
  Index weighed_results;
  void (*weigh_rows[dtype_count])(void* out, Index out_step, const void* x, const void* w, const Index* offsets,
                                  Index taps, Index results, Index n, bool accumulate);
  /// Computes the sum over row < rows and j < n of w[r * w_step + row * w_row + j] * x[offsets[t] +
  /// row * x_row + j], for r < results and t < taps, which are at most `multiplied_results` and
  /// `multiplied_taps`. It adds this sum, in up to `sum_lanes` parts, to the numbers from sums[(r *
  /// taps + t) * sum_lanes] on. Only float32 and float64 have this kernel.
  void (*multiply_rows[dtype_count])(double* sums, const void* x, Index x_row, const Index* offsets, Index taps,
                                     const void* w, Index w_row, Index w_step, Index results, Index rows, Index n);
  /// Returns the kernel of a special operation for float32 or float64, or null: then scalar code
  /// computes it. `orders` are the values of the operation's orders, its first inputs; null if they
  /// differ from element to element. The function itself may be null.
  SpecialKernel (*special)(OpId op, Dtype dtype, const double* orders);
  FftKernels fft[dtype_count];  // by the dtype of the parts: float32 and float64
  /// Sets out[i] to the word of `key` at 64-bit counter first + i: the exclusive or of both halves
  /// of Threefry-2x32.
  void (*random_bits)(std::uint32_t* out, std::uint32_t key0, std::uint32_t key1, std::uint64_t first, Index n);
  /// Sets out[i] to both halves of the Threefry-2x32 block of `key` at counter first + i,
  /// the first half in the high word.
  void (*random_words)(std::uint64_t* out, std::uint32_t key0, std::uint32_t key1, std::uint64_t first, Index n);
  /// Computes n floats in [low, high) from the counters first, first + 1, ...,
  /// as UniformAttributes specifies.
  void (*random_uniform[dtype_count])(void* out, std::uint32_t key0, std::uint32_t key1, std::uint64_t first, Index n,
                                      double low, double high);
  /// Indexed as repeat[0][copies] for elements of four bytes, repeat[1][copies] for those of eight
  /// bytes; copies = 2, ..., most_repeats.
  RepeatKernel repeat[2][most_repeats + 1];
  /// Copies with non-temporal stores, which bypass the caches. The writing thread must call
  /// end_streams() before other threads read the data. Both functions are null if the instruction
  /// set has no such stores.
  void (*stream_bytes)(char* to, const char* from, Index bytes);
  void (*end_streams)();
};

}  // namespace stave_cpu
