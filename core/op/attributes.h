// The attributes of operations: the data of a call besides its tensors. They are immutable, shared,
// and of a type that depends on the operation. Axes and indices are normalised: not negative,
// in range, and sorted where their order has no meaning.
#pragma once

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <typeinfo>
#include <utility>

#include <stave/core/effects/intrusive.h>
#include <stave/core/tensor/device.h>
#include <stave/core/tensor/dtype.h>
#include <stave/core/tensor/pool.h>
#include <stave/core/tensor/scalar.h>
#include <stave/core/tensor/shape.h>

namespace stave {

struct Attributes;
using AttributesPtr = IntrusivePtr<const Attributes>;

/// Base class of all attributes.
struct Attributes : RefCounted, stave_detail::Pooled {
  Attributes() = default;
  Attributes(const Attributes&) = default;
  Attributes& operator=(const Attributes&) = default;
  virtual ~Attributes() = default;
  /// The attributes as debug and errors show them: "axes=[0,1] keepdims".
  virtual std::string str() const = 0;
  /// The attributes of the same operation on `lanes` lanes at once, where the lanes are axis 0
  /// of its inputs and outputs. The default returns this object, which is right if the attributes
  /// contain no axes or shapes, or count axes from the end.
  virtual AttributesPtr batched(Index lanes) const;
  /// Returns true if the operation computes the same results with the attributes `other`. By
  /// default only the same object counts as equal.
  virtual bool equals(const Attributes& other) const { return this == &other; }
};

/// Returns true if two calls of one operation have equal attributes.
inline bool same_attributes(const Attributes* a, const Attributes* b) {
  return a == b || (a && b && typeid(*a) == typeid(*b) && a->equals(*b));
}

/// Attributes of an operation without inputs: they name the device on which it computes.
struct PlacedAttributes : Attributes {
  Device device;
  explicit PlacedAttributes(Device device_) : device(device_) {}
};

/// Attributes that are equal if the results of their `members()`, which are tuples, are equal.
template <class A, class Base = Attributes>
struct ValueAttributes : Base {
  using Base::Base;
  bool equals(const Attributes& other) const override {
    return same(static_cast<const A&>(*this).members(), static_cast<const A&>(other).members());
  }

 private:
  // The == of std::tuple takes longer to compile.
  template <class... T>
  static bool same(const std::tuple<T...>& a, const std::tuple<T...>& b) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
      return ((std::get<i>(a) == std::get<i>(b)) && ...);
    }(std::index_sequence_for<T...>());
  }

 protected:
  // The bits of a number, for comparison: -0 differs from 0, and a NaN equals itself.
  static std::uint64_t bits(double value) noexcept { return std::bit_cast<std::uint64_t>(value); }
};

// Numbers are Scalars that the dtype can hold. A backend reads `floating` for floats, and `integer`
// for integers and bool (0 or 1).

/// full: every element is `value`.
struct FullAttributes final : ValueAttributes<FullAttributes, PlacedAttributes> {
  Shape shape;
  Dtype dtype;
  Scalar value;
  FullAttributes(Shape shape_, Dtype dtype_, Scalar value_, Device device_ = cpu)
      : ValueAttributes(device_), shape(std::move(shape_)), dtype(dtype_), value(value_) {}
  auto members() const { return std::tuple(device, shape, dtype, value); }
  std::string str() const override;
};

/// iota: a vector of `length` elements, start + i * step, computed in double (floats) or int64
/// (integers, which wrap).
struct IotaAttributes final : ValueAttributes<IotaAttributes, PlacedAttributes> {
  Index length;
  Dtype dtype;
  Scalar start, step;
  IotaAttributes(Index length_, Dtype dtype_, Scalar start_, Scalar step_, Device device_ = cpu)
      : ValueAttributes(device_), length(length_), dtype(dtype_), start(start_), step(step_) {}
  auto members() const { return std::tuple(device, length, dtype, start, step); }
  std::string str() const override;
};

/// astype: the new dtype.
struct DtypeAttributes final : ValueAttributes<DtypeAttributes> {
  Dtype dtype;
  explicit DtypeAttributes(Dtype dtype_) : dtype(dtype_) {}
  auto members() const { return std::tuple(dtype); }
  std::string str() const override;
};

/// to: the device of the result, and the device of the input, to which the cotangent goes back.
struct TransferAttributes final : ValueAttributes<TransferAttributes> {
  Device device, from;
  TransferAttributes(Device device_, Device from_) : device(device_), from(from_) {}
  auto members() const { return std::tuple(device, from); }
  std::string str() const override;
};

/// Reductions: sum prod max min all any. argmax and argmin have exactly one axis, or all axes
/// (flattened, row-major).
struct ReduceAttributes final : ValueAttributes<ReduceAttributes> {
  Shape axes;  // sorted; axes of length 1 are included; empty: nothing is reduced
  bool keepdims;
  ReduceAttributes(Shape axes_, bool keepdims_) : axes(std::move(axes_)), keepdims(keepdims_) {}
  auto members() const { return std::tuple(axes, keepdims); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// Scans along an axis, from the first element to the last, or in reverse.
///   cumulative_sum            out[i] = out[i - 1] + x[i]
///   cumulative_prod           out[i] = out[i - 1] * x[i]
///   cummax, cummin            the larger or smaller of out[i - 1] and x[i]; NaN after a NaN
///   linear_recurrence(a, b)   out[i] = scale(a[i], out[i - 1]) + b[i], starting from 0
struct ScanAttributes final : ValueAttributes<ScanAttributes> {
  int axis;
  bool reverse;
  ScanAttributes(int axis_, bool reverse_) : axis(axis_), reverse(reverse_) {}
  auto members() const { return std::tuple(axis, reverse); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// fft, rfft and irfft: sums over one axis, times `scale`, with t = 2 pi j k / length, negative
/// unless `inverse`.
///   fft     out[k] = sum over j of x[j] e^it
///   rfft    the first length / 2 + 1 elements of the same, of real numbers
///   irfft   out[j] = sum over k < length of z[k] e^it, where z[length - k] = conj(z[k]) for
///           0 < k < length / 2; the imaginary parts of z[0] and z[length / 2] do not count
struct FftAttributes final : ValueAttributes<FftAttributes> {
  int axis;
  Index length;  // that of the signal, at least 1
  bool inverse;
  double scale;
  FftAttributes(int axis_, Index length_, bool inverse_, double scale_)
      : axis(axis_), length(length_), inverse(inverse_), scale(scale_) {}
  auto members() const { return std::tuple(axis, length, inverse, bits(scale)); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// sort and argsort, which are stable. NaN is the largest value, and -0 equals 0. argsort gives
/// int32, or int64 if the axis is too long.
struct SortAttributes final : ValueAttributes<SortAttributes> {
  int axis;
  bool descending;
  SortAttributes(int axis_, bool descending_) : axis(axis_), descending(descending_) {}
  auto members() const { return std::tuple(axis, descending); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// argtopk: the positions of the first k entries in the order of a descending stable argsort.
struct TopkAttributes final : ValueAttributes<TopkAttributes> {
  int axis;
  Index k;
  TopkAttributes(int axis_, Index k_) : axis(axis_), k(k_) {}
  auto members() const { return std::tuple(axis, k); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// searchsorted(sorted, values): sorted is [batch..., n], values is [batch..., any...] of the same
/// dtype. The result has the shape of values; it is int32, or int64 if n requires it.
/// Each result counts the entries of sorted that come before the value in the order of sort; if
/// `right` is set, also the entries equal to the value.
struct SearchAttributes final : ValueAttributes<SearchAttributes> {
  bool right;
  int batch_dims;
  explicit SearchAttributes(bool right_, int batch_dims_ = 0) : right(right_), batch_dims(batch_dims_) {}
  auto members() const { return std::tuple(right, batch_dims); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// layer_norm(x, weight, bias): x is [..., n], float32 or float64; weight and bias are [n].
/// For each row:
///   h = (x - mean) r with r = 1 / sqrt(variance + epsilon), or 1 where that is infinite;
///   the result is weight h + bias.
/// layer_norm_gradient(x, weight, ct): ct has the shape of x. With D(u) = r
/// (u - mean(u) - h mean(h u)) for each row, the results are D(weight ct), with the shape of x;
/// the sum of ct h over all rows, [n]; and the sum of ct over all rows, [n]. An element with ct = 0
/// contributes nothing.
struct NormAttributes final : ValueAttributes<NormAttributes> {
  double epsilon;
  explicit NormAttributes(double epsilon_) : epsilon(epsilon_) {}
  auto members() const { return std::tuple(bits(epsilon)); }
  std::string str() const override;
};

/// reshape, broadcast_to: the new shape.
struct ShapeAttributes final : ValueAttributes<ShapeAttributes> {
  Shape shape;
  explicit ShapeAttributes(Shape shape_) : shape(std::move(shape_)) {}
  auto members() const { return std::tuple(shape); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// permute_dims: the input axis of each output axis.
struct PermuteAttributes final : ValueAttributes<PermuteAttributes> {
  Shape axes;
  explicit PermuteAttributes(Shape axes_) : axes(std::move(axes_)) {}
  auto members() const { return std::tuple(axes); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// slice: out[i] = in[start + i * step] along each axis, for lengths[axis] elements.
/// Steps may be negative but not 0.
struct SliceAttributes final : ValueAttributes<SliceAttributes> {
  Shape starts, lengths, steps;
  SliceAttributes(Shape starts_, Shape lengths_, Shape steps_)
      : starts(std::move(starts_)), lengths(std::move(lengths_)), steps(std::move(steps_)) {}
  auto members() const { return std::tuple(starts, lengths, steps); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// pad: an array of `shape` filled with `value`, in which in[i] is at start + i * step.
/// It is the transpose of slice.
struct PadAttributes final : ValueAttributes<PadAttributes> {
  Shape shape, starts, steps;
  Scalar value;
  PadAttributes(Shape shape_, Shape starts_, Shape steps_, Scalar value_)
      : shape(std::move(shape_)), starts(std::move(starts_)), steps(std::move(steps_)), value(value_) {}
  auto members() const { return std::tuple(shape, starts, steps, value); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// concat, softmax, log_softmax: the axis along which the operation works.
struct AxisAttributes final : ValueAttributes<AxisAttributes> {
  int axis;
  explicit AxisAttributes(int axis_) : axis(axis_) {}
  auto members() const { return std::tuple(axis); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// gather(x, indices): x is [batch..., d1..dk, rest...], indices (int32 or int64)
/// is [batch..., at..., k]. The result is [batch..., at..., rest...]:
///   out[b, a, r] = x[b, indices[b, a, 0], ..., indices[b, a, k-1], r].
/// scatter(x, indices, updates): x with the updates, which have the shape of gather's result,
/// written where gather would read. Of several updates to one position the last in row-major
/// order remains. scatter_add, scatter_multiply, scatter_min, scatter_max combine an update
/// with the present element instead. Updates to one position are combined in their order; a
/// backend may combine consecutive updates in parts first, and then the results of the parts. min
/// and max give NaN if one operand is NaN. Negative indices count from the end if `from_end` is
/// set; else they are out of range.
struct GatherAttributes final : ValueAttributes<GatherAttributes> {
  int batch_dims;
  bool from_end;
  explicit GatherAttributes(int batch_dims_, bool from_end_ = true) : batch_dims(batch_dims_), from_end(from_end_) {}
  auto members() const { return std::tuple(batch_dims, from_end); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// dynamic_slice(x, starts): x is [batch..., dims...], starts (int32 or int64) is
/// [batch..., number of dims]. The result is [batch..., sizes...]: out[b, i] = x[b, starts[b] + i].
/// dynamic_update_slice(x, update, starts): x with `update`, [batch..., sizes...], written where
/// dynamic_slice would read. Negative starts count from the end; a slice that exceeds x is out
/// of range.
struct DynamicSliceAttributes final : ValueAttributes<DynamicSliceAttributes> {
  int batch_dims;
  Shape sizes;
  DynamicSliceAttributes(int batch_dims_, Shape sizes_) : batch_dims(batch_dims_), sizes(std::move(sizes_)) {}
  auto members() const { return std::tuple(batch_dims, sizes); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

// Linear algebra. Matrices are the last two axes; the axes before them are a stack, so lanes are
// one more axis of the stack. See linalg.cpp.

/// cholesky: for a matrix that is not positive definite, the factor is NaN if `nan_if_indefinite`
/// is set; else the matrix is an error.
struct CholeskyAttributes final : ValueAttributes<CholeskyAttributes> {
  bool nan_if_indefinite;
  explicit CholeskyAttributes(bool nan_if_indefinite_) : nan_if_indefinite(nan_if_indefinite_) {}
  auto members() const { return std::tuple(nan_if_indefinite); }
  std::string str() const override;
};

/// triangular_solve(a, b): x with a x = b, or with a^T x = b. Only the triangle of a is read,
/// and its diagonal is taken as ones if `unit` is set.
struct TriangularAttributes final : ValueAttributes<TriangularAttributes> {
  bool lower, transpose, unit;
  TriangularAttributes(bool lower_, bool transpose_, bool unit_) : lower(lower_), transpose(transpose_), unit(unit_) {}
  auto members() const { return std::tuple(lower, transpose, unit); }
  std::string str() const override;
};

/// solve(a, b): x with a x = b, or with a^T x = b if `transpose` is set.
struct SolveAttributes final : ValueAttributes<SolveAttributes> {
  bool transpose;
  explicit SolveAttributes(bool transpose_) : transpose(transpose_) {}
  auto members() const { return std::tuple(transpose); }
  std::string str() const override;
};

/// qr, svd: if `full` is set, the orthogonal factors are square; else they have min(m, n) columns
/// (or rows).
struct FactorAttributes final : ValueAttributes<FactorAttributes> {
  bool full;
  explicit FactorAttributes(bool full_) : full(full_) {}
  auto members() const { return std::tuple(full); }
  std::string str() const override;
};

/// solve_banded(bands, b): x with a x = b, or with a^T x = b if `transpose` is set. The matrix a
/// has `lower` diagonals below the main one and `upper` above it:
///   bands[upper + i - j, j] = a[i, j]
struct BandedAttributes final : ValueAttributes<BandedAttributes> {
  Index lower, upper;
  bool transpose;
  BandedAttributes(Index lower_, Index upper_, bool transpose_) : lower(lower_), upper(upper_), transpose(transpose_) {}
  auto members() const { return std::tuple(lower, upper, transpose); }
  std::string str() const override;
};

/// convolution(x, w): x is [n, groups, c, lengths...], w is [groups, o, c, windows...],
/// and the result is [n, groups, o, places...]:
///   out[n, g, o, p] = sum over c, k of x'[n, g, c, p * stride + k * dilation - low] w[g, o, c, k].
/// Here x' is x with input_dilation - 1 zeros between neighbours, and zeros outside.
/// `low` and `high` zeros are added before and after x; negative numbers cut x. Each list has one
/// entry for each of the 1 to 3 spatial axes.
struct ConvolutionAttributes final : ValueAttributes<ConvolutionAttributes> {
  Shape strides, low, high, dilations, input_dilations;
  ConvolutionAttributes(Shape strides_, Shape low_, Shape high_, Shape dilations_, Shape input_dilations_)
      : strides(std::move(strides_)), low(std::move(low_)), high(std::move(high_)), dilations(std::move(dilations_)),
        input_dilations(std::move(input_dilations_)) {}
  auto members() const { return std::tuple(strides, low, high, dilations, input_dilations); }
  std::string str() const override;
};

/// argmax_pool(x), max_pool(x): pool over the last axes of x, as many as `windows` has entries.
/// Padding is never chosen. For each position of the window, argmax_pool returns the position of
/// the largest element, counted in row-major order in those axes; max_pool returns the element.
struct PoolAttributes final : ValueAttributes<PoolAttributes> {
  Shape windows, strides, low, high, dilations;
  PoolAttributes(Shape windows_, Shape strides_, Shape low_, Shape high_, Shape dilations_)
      : windows(std::move(windows_)), strides(std::move(strides_)), low(std::move(low_)), high(std::move(high_)),
        dilations(std::move(dilations_)) {}
  auto members() const { return std::tuple(windows, strides, low, high, dilations); }
  std::string str() const override;
};

/// attention(q, k, v) and attention(q, k, v, mask): q is [batch..., n, d], k is [batch..., m, d],
/// v is [batch..., m, e]. The mask is [batch..., n, m], either bool (true: the key takes part)
/// or of q's dtype (added to the scores). Let s = scale q k^T + mask; if `causal` is set, key j
/// takes part for query i only if j <= i. The results are
///   out [batch..., n, e] = softmax(s) v, which is 0 in rows where no key takes part;
///   total [batch..., n] = log(sum(exp(s))), 0 in those rows, in float32 for sixteen-bit floats.
/// attention_gradient(q, k, v, total, ct, shift) and (..., shift, mask): ct has the shape of out,
/// shift that of total, and the results those of q, k and v. With ct_total, the cotangent of total,
/// shift is ct_total - sum(ct * out, -1). With p = exp(s - total) and
/// t = p * (ct v^T + shift[:, None]), where * is elementwise, the results are
///   scale t k for q; scale t^T q for k; p^T ct for v.
struct AttentionAttributes final : ValueAttributes<AttentionAttributes> {
  double scale;
  bool causal;
  AttentionAttributes(double scale_, bool causal_) : scale(scale_), causal(causal_) {}
  auto members() const { return std::tuple(bits(scale), causal); }
  std::string str() const override;
};

/// quantized_matmul(x, packed, scales) and (x, packed, scales, biases): packed is uint8
/// [batch..., n, k bits / 8], scales and biases are floats [batch..., n, k / group]. Packed is a
/// matrix w [batch..., n, k]. Of 4 bits, byte j of a row has code 2 j in its low half, and code
/// 2 j + 1 in its high half. Codes are unsigned. For each group of consecutive elements of a row
///   w = scale code + bias, or, without biases, w = scale (code - 2^(bits - 1)).
/// The result has the dtype of x. If `transpose` is set, it is x w^T [batch..., m, n] for x
/// [batch..., m, k]; otherwise it is x w [batch..., m, k] for x [batch..., m, n].
struct QuantizedAttributes final : ValueAttributes<QuantizedAttributes> {
  int bits;
  bool transpose;
  QuantizedAttributes(int bits_, bool transpose_) : bits(bits_), transpose(transpose_) {}
  auto members() const { return std::tuple(bits, transpose); }
  std::string str() const override;
};

/// The random operations hash a 64-bit counter c under a key of two uint32 words, by Threefry-2x32
/// with 20 rounds, into two words: (w0, w1) = T(key, c >> 32, c & 0xffffffff). Keys are uint32
/// [batch..., 2].
///   fold_in(keys, data)       data uint32 [batch...], result uint32 [batch..., 2]:
///                             T(key, 0, data). It has no attributes.
///   random_bits(keys)         result uint32 [batch..., shape...]: w0 ^ w1 of c = 0, 1, ... in
///                             row-major order.
///   random_permutation(keys)  result int32 [batch..., n] for shape {n}: 0, ..., n - 1 after
///                             permutation_rounds(n) rounds. Each round sets
///                             key, subkey = T(key, 0, 0), T(key, 0, 1) and sorts, stably, by
///                             random_bits(subkey).
struct RandomAttributes final : ValueAttributes<RandomAttributes> {
  Shape shape;
  explicit RandomAttributes(Shape shape_) : shape(std::move(shape_)) {}
  auto members() const { return std::tuple(shape); }
  std::string str() const override;
};

/// random_uniform(keys): [batch..., shape...] of `dtype`: max(low, fma(u, high - low, low)), all in
/// that dtype. For float32 u is ((w0 ^ w1) >> 9) * 2^-23, for float64 it is ((w0 << 32 | w1) >> 12)
/// * 2^-52, with the counters of random_bits. Sixteen-bit floats take the low 16 (bfloat16: 8) bits
/// of w0 ^ w1 as their mantissa, and round the product before the sum.
struct UniformAttributes final : ValueAttributes<UniformAttributes> {
  Shape shape;
  Dtype dtype;
  double low, high;
  UniformAttributes(Shape shape_, Dtype dtype_, double low_, double high_)
      : shape(std::move(shape_)), dtype(dtype_), low(low_), high(high_) {}
  auto members() const { return std::tuple(shape, dtype, bits(low), bits(high)); }
  std::string str() const override;
};

/// The number of sorting rounds, chosen so that two elements rarely get equal sort keys in every
/// round; the same formula as in jax.random.
inline int permutation_rounds(Index n) {
  return n <= 1 ? 0 : static_cast<int>(std::ceil(3 * std::log(static_cast<double>(n)) / std::log(4294967295.0)));
}

}  // namespace stave
