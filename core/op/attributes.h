// The attributes of operations: what a call carries beside its tensors. Immutable, shared, typed by operation.
// Axes and indices here are normalised: not negative, in range, sorted where order has no meaning.
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

/// Base of all attributes.
struct Attributes : RefCounted, stave_detail::Pooled {
  Attributes() = default;
  Attributes(const Attributes&) = default;
  Attributes& operator=(const Attributes&) = default;
  virtual ~Attributes() = default;
  /// As shown by debug and in errors: "axes=[0,1] keepdims".
  virtual std::string str() const = 0;
  /// Those of the same operation on so many lanes at once, which are axis 0 of its inputs and outputs. By default the same: no
  /// axis or shape stands here, or they are counted from behind.
  virtual AttributesPtr batched(Index lanes) const;
  /// Whether the operation computes the same with `other`. By default only with the very same.
  virtual bool equals(const Attributes& other) const { return this == &other; }
};

/// Whether two calls of one operation have the same attributes.
inline bool same_attributes(const Attributes* a, const Attributes* b) {
  return a == b || (a && b && typeid(*a) == typeid(*b) && a->equals(*b));
}

/// Of an operation without inputs, whose place they would say: where it computes.
struct PlacedAttributes : Attributes {
  Device device;
  explicit PlacedAttributes(Device device_) : device(device_) {}
};

/// Attributes that are equal where their `members()`, a tuple, are.
template <class A, class Base = Attributes>
struct ValueAttributes : Base {
  using Base::Base;
  bool equals(const Attributes& other) const override {
    return same(static_cast<const A&>(*this).members(), static_cast<const A&>(other).members());
  }

 private:
  // std::tuple's own == takes the compiler longer.
  template <class... T>
  static bool same(const std::tuple<T...>& a, const std::tuple<T...>& b) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
      return ((std::get<i>(a) == std::get<i>(b)) && ...);
    }(std::index_sequence_for<T...>());
  }

 protected:
  // -0 is not 0, NaN is NaN.
  static std::uint64_t bits(double value) noexcept { return std::bit_cast<std::uint64_t>(value); }
};

// Numbers are Scalars that the dtype holds: a backend reads `floating` for floats, `integer` for integers and bool (0 or 1).

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

/// iota: a vector of `length` elements, start + i * step, computed in double (floats) or int64 (integers, which wrap).
struct IotaAttributes final : ValueAttributes<IotaAttributes, PlacedAttributes> {
  Index length;
  Dtype dtype;
  Scalar start, step;
  IotaAttributes(Index length_, Dtype dtype_, Scalar start_, Scalar step_, Device device_ = cpu)
      : ValueAttributes(device_), length(length_), dtype(dtype_), start(start_), step(step_) {}
  auto members() const { return std::tuple(device, length, dtype, start, step); }
  std::string str() const override;
};

/// astype.
struct DtypeAttributes final : ValueAttributes<DtypeAttributes> {
  Dtype dtype;
  explicit DtypeAttributes(Dtype dtype_) : dtype(dtype_) {}
  auto members() const { return std::tuple(dtype); }
  std::string str() const override;
};

/// to: where the result lives, and where the input does, which is where its cotangent goes.
struct TransferAttributes final : ValueAttributes<TransferAttributes> {
  Device device, from;
  TransferAttributes(Device device_, Device from_) : device(device_), from(from_) {}
  auto members() const { return std::tuple(device, from); }
  std::string str() const override;
};

/// Reductions: sum prod max min all any; argmax and argmin with exactly one axis, or all of them (flattened, row-major).
struct ReduceAttributes final : ValueAttributes<ReduceAttributes> {
  Shape axes;  // sorted; those of length 1 too; empty: nothing is reduced
  bool keepdims;
  ReduceAttributes(Shape axes_, bool keepdims_) : axes(std::move(axes_)), keepdims(keepdims_) {}
  auto members() const { return std::tuple(axes, keepdims); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// Scans, from the first element of the axis to the last one, or in reverse. cumulative_sum: out[i] = out[i - 1] + x[i];
/// cumulative_prod: out[i] = out[i - 1] * x[i]; cummax and cummin: the larger or smaller of out[i - 1] and x[i], NaN once there was
/// one; linear_recurrence(a, b): out[i] = scale(a[i], out[i - 1]) + b[i], after 0.
struct ScanAttributes final : ValueAttributes<ScanAttributes> {
  int axis;
  bool reverse;
  ScanAttributes(int axis_, bool reverse_) : axis(axis_), reverse(reverse_) {}
  auto members() const { return std::tuple(axis, reverse); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// sort, argsort. Stable; NaN is the largest of all, -0 equals 0. argsort gives int32, or int64 where the axis is too long.
struct SortAttributes final : ValueAttributes<SortAttributes> {
  int axis;
  bool descending;
  SortAttributes(int axis_, bool descending_) : axis(axis_), descending(descending_) {}
  auto members() const { return std::tuple(axis, descending); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// argtopk: the places of the first k entries that a descending stable argsort gives.
struct TopkAttributes final : ValueAttributes<TopkAttributes> {
  int axis;
  Index k;
  TopkAttributes(int axis_, Index k_) : axis(axis_), k(k_) {}
  auto members() const { return std::tuple(axis, k); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// searchsorted(sorted, values): sorted is [batch..., n], values [batch..., any...] of the same dtype; the result, like values, is int32,
/// or int64 where n asks for it: how many of the n come before the value, or (right) before or with it, in the order of sort.
struct SearchAttributes final : ValueAttributes<SearchAttributes> {
  bool right;
  int batch_dims;
  explicit SearchAttributes(bool right_, int batch_dims_ = 0) : right(right_), batch_dims(batch_dims_) {}
  auto members() const { return std::tuple(right, batch_dims); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// layer_norm(x, weight, bias): x is [..., n], float32 or float64, weight and bias [n]: of each row
///   h = (x - mean) r with r = 1 / sqrt(variance + epsilon), or 1 where that is infinite; weight h + bias.
/// layer_norm_gradient(x, weight, ct): ct like x; with D(u) = r (u - mean(u) - h mean(h u)) of each row:
///   D(weight ct), of the shape of x; the sum of ct h over all rows, and that of ct, [n]. Where ct is 0, nothing flows.
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

/// slice: out[i] = in[start + i * step] along each axis, lengths[axis] elements of it; steps may be negative, never 0.
struct SliceAttributes final : ValueAttributes<SliceAttributes> {
  Shape starts, lengths, steps;
  SliceAttributes(Shape starts_, Shape lengths_, Shape steps_)
      : starts(std::move(starts_)), lengths(std::move(lengths_)), steps(std::move(steps_)) {}
  auto members() const { return std::tuple(starts, lengths, steps); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// pad: an array of `shape` filled with `value`, in which in[i] stands at start + i * step. Slice's transpose.
struct PadAttributes final : ValueAttributes<PadAttributes> {
  Shape shape, starts, steps;
  Scalar value;
  PadAttributes(Shape shape_, Shape starts_, Shape steps_, Scalar value_)
      : shape(std::move(shape_)), starts(std::move(starts_)), steps(std::move(steps_)), value(value_) {}
  auto members() const { return std::tuple(shape, starts, steps, value); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// concat, softmax, log_softmax: along one axis.
struct AxisAttributes final : ValueAttributes<AxisAttributes> {
  int axis;
  explicit AxisAttributes(int axis_) : axis(axis_) {}
  auto members() const { return std::tuple(axis); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// gather(x, indices): x is [batch..., d1..dk, rest...], indices (int32 or int64) [batch..., at..., k]; the result is
/// [batch..., at..., rest...], out[b, a, r] = x[b, indices[b, a, 0], ..., indices[b, a, k-1], r].
/// scatter(x, indices, updates): x with updates (of gather's result shape) put where gather would read, of those to one place the
/// last in row-major order; scatter_add, scatter_multiply, scatter_min, scatter_max: taken together with what stands there. Updates
/// that go to one place are taken in their order, or in parts of that order. min and max: NaN if there is one.
/// Negative indices count from the end if `from_end`, else they are out of range.
struct GatherAttributes final : ValueAttributes<GatherAttributes> {
  int batch_dims;
  bool from_end;
  explicit GatherAttributes(int batch_dims_, bool from_end_ = true) : batch_dims(batch_dims_), from_end(from_end_) {}
  auto members() const { return std::tuple(batch_dims, from_end); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

/// dynamic_slice(x, starts): x is [batch..., dims...], starts (int32 or int64) [batch..., number of dims]; the result is
/// [batch..., sizes...], out[b, i] = x[b, starts[b] + i].
/// dynamic_update_slice(x, update, starts): x with `update` [batch..., sizes...] where dynamic_slice would read.
/// Negative starts count from the end; a slice that leaves x is out of range.
struct DynamicSliceAttributes final : ValueAttributes<DynamicSliceAttributes> {
  int batch_dims;
  Shape sizes;
  DynamicSliceAttributes(int batch_dims_, Shape sizes_) : batch_dims(batch_dims_), sizes(std::move(sizes_)) {}
  auto members() const { return std::tuple(batch_dims, sizes); }
  std::string str() const override;
  AttributesPtr batched(Index lanes) const override;
};

// Linear algebra: matrices are the last two axes, those before them are stacks, so lanes are one more stack. See linalg.cpp.

/// cholesky: of a matrix that is not positive definite a factor of NaN, else an error.
struct CholeskyAttributes final : ValueAttributes<CholeskyAttributes> {
  bool nan_if_indefinite;
  explicit CholeskyAttributes(bool nan_if_indefinite_) : nan_if_indefinite(nan_if_indefinite_) {}
  auto members() const { return std::tuple(nan_if_indefinite); }
  std::string str() const override;
};

/// triangular_solve(a, b): x with a x = b, or a^T x = b, of which a only the triangle is read, its diagonal being ones if `unit`.
struct TriangularAttributes final : ValueAttributes<TriangularAttributes> {
  bool lower, transpose, unit;
  TriangularAttributes(bool lower_, bool transpose_, bool unit_) : lower(lower_), transpose(transpose_), unit(unit_) {}
  auto members() const { return std::tuple(lower, transpose, unit); }
  std::string str() const override;
};

/// solve: with a, or with a^T.
struct SolveAttributes final : ValueAttributes<SolveAttributes> {
  bool transpose;
  explicit SolveAttributes(bool transpose_) : transpose(transpose_) {}
  auto members() const { return std::tuple(transpose); }
  std::string str() const override;
};

/// qr, svd: whether orthogonal matrices are square, else they have min(m, n) columns (rows).
struct FactorAttributes final : ValueAttributes<FactorAttributes> {
  bool full;
  explicit FactorAttributes(bool full_) : full(full_) {}
  auto members() const { return std::tuple(full); }
  std::string str() const override;
};

/// convolution(x, w): x is [n, groups, c, lengths...], w [groups, o, c, windows...], the result [n, groups, o, places...]:
///   out[n, g, o, p] = sum over c, k of x'[n, g, c, p * stride + k * dilation - low] w[g, o, c, k],
/// where x' is x with input_dilation - 1 zeros between neighbours, and zeros around. `low` and `high` zeros are added before and
/// behind; negative ones cut. One entry for each of 1 to 3 spatial axes in each list.
struct ConvolutionAttributes final : ValueAttributes<ConvolutionAttributes> {
  Shape strides, low, high, dilations, input_dilations;
  ConvolutionAttributes(Shape strides_, Shape low_, Shape high_, Shape dilations_, Shape input_dilations_)
      : strides(std::move(strides_)), low(std::move(low_)), high(std::move(high_)), dilations(std::move(dilations_)),
        input_dilations(std::move(input_dilations_)) {}
  auto members() const { return std::tuple(strides, low, high, dilations, input_dilations); }
  std::string str() const override;
};

/// argmax_pool(x): over the last axes of x, as many as `windows` has entries, which are padded by what is never chosen. The result
/// has for each place of the window the position in those axes, counted in row-major order, of the largest element there.
struct PoolAttributes final : ValueAttributes<PoolAttributes> {
  Shape windows, strides, low, high, dilations;
  PoolAttributes(Shape windows_, Shape strides_, Shape low_, Shape high_, Shape dilations_)
      : windows(std::move(windows_)), strides(std::move(strides_)), low(std::move(low_)), high(std::move(high_)),
        dilations(std::move(dilations_)) {}
  auto members() const { return std::tuple(windows, strides, low, high, dilations); }
  std::string str() const override;
};

/// attention(q, k, v) and attention(q, k, v, mask): q is [batch..., n, d], k [batch..., m, d], v [batch..., m, e], mask
/// [batch..., n, m], bool (which keys take part) or of q's dtype (added to the scores). With s = scale q k^T + mask, of which a causal
/// one leaves out s[i, j] with j > i:
///   out [batch..., n, e] = softmax(s) v, 0 in rows where nothing takes part; total [batch..., n] = log(sum(exp(s))), 0 in those rows,
///   in float32 for halves.
/// attention_gradient(q, k, v, total, ct, shift) and (..., shift, mask): ct is like out, shift like total, the results like q, k and v.
/// With p = exp(s - total), t = p (ct v^T + shift[:, None]):
///   of q: scale t k; of k: scale t^T q; of v: p^T ct.
struct AttentionAttributes final : ValueAttributes<AttentionAttributes> {
  double scale;
  bool causal;
  AttentionAttributes(double scale_, bool causal_) : scale(scale_), causal(causal_) {}
  auto members() const { return std::tuple(bits(scale), causal); }
  std::string str() const override;
};

/// The random operations hash a 64-bit counter c under a key of two uint32 words by Threefry-2x32 with 20 rounds into
/// two words: (w0, w1) = T(key, c >> 32, c & 0xffffffff). Keys are uint32 [batch..., 2].
///   fold_in(keys, data)       data uint32 [batch...], result uint32 [batch..., 2]: T(key, 0, data). No attributes.
///   random_bits(keys)         result uint32 [batch..., shape...]: w0 ^ w1 of c = 0, 1, ... in row-major order.
///   random_permutation(keys)  result int32 [batch..., n], shape being {n}: 0, ..., n - 1 after permutation_rounds(n)
///                             rounds. Each sets key, subkey = T(key, 0, 0), T(key, 0, 1) and sorts, stably, by
///                             random_bits(subkey).
struct RandomAttributes final : ValueAttributes<RandomAttributes> {
  Shape shape;
  explicit RandomAttributes(Shape shape_) : shape(std::move(shape_)) {}
  auto members() const { return std::tuple(shape); }
  std::string str() const override;
};

/// random_uniform(keys): [batch..., shape...] of `dtype`: max(low, fma(u, high - low, low)), all in that dtype, where u
/// is ((w0 ^ w1) >> 9) * 2^-23 for float32 and ((w0 << 32 | w1) >> 12) * 2^-52 for float64, of random_bits' counters. Floats of
/// sixteen bits take the low 16 (bfloat16: 8) bits of w0 ^ w1 as their mantissa, and round the product before the sum.
struct UniformAttributes final : ValueAttributes<UniformAttributes> {
  Shape shape;
  Dtype dtype;
  double low, high;
  UniformAttributes(Shape shape_, Dtype dtype_, double low_, double high_)
      : shape(std::move(shape_)), dtype(dtype_), low(low_), high(high_) {}
  auto members() const { return std::tuple(shape, dtype, bits(low), bits(high)); }
  std::string str() const override;
};

/// So many that two elements seldom meet with equal sort keys in every round; as jax.random has it.
inline int permutation_rounds(Index n) {
  return n <= 1 ? 0 : static_cast<int>(std::ceil(3 * std::log(static_cast<double>(n)) / std::log(4294967295.0)));
}

}  // namespace stave
