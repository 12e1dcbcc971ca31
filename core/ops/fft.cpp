// Discrete Fourier transforms. All functions perform the operations fft, rfft and irfft, along one
// axis after the other. The sign of the exponent and the scale are attributes.

#include <stave/core/ops/fft.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

/// Checks the input of a transform, and appends its output of the given length and dtype.
void infer_along(const Call& call, Index in_length, Index out_length, Dtype dtype, SmallVector<Abstract, 1>& outputs) {
  const auto& a = call.as<FftAttributes>();
  Shape shape = call.input(0).shape();
  Index& length = shape[static_cast<std::size_t>(a.axis)];
  if (length != in_length || a.length < 1)
    fail<ShapeError>("{}: x {} has {} elements along axis {}, but {} are transformed", call.op().name,
                     call.input(0).shape(), length, a.axis, in_length);
  length = out_length;
  outputs.push_back({std::move(shape), dtype});
}
void check_parts(const Call& call, bool complex) {
  const Dtype dtype = call.input(0).dtype();
  if (complex ? !is_complex(dtype) : dtype != float32 && dtype != float64)
    fail<DtypeError>("{}: the operation has no kernel for {}", call.op().name, dtype);
}
Index half_length(const Call& call) { return call.as<FftAttributes>().length / 2 + 1; }

/// The estimated number of operations: 5 n log2(n) for complex numbers, and half of it for real
/// ones.
template <int half>
std::uint64_t fft_flops(const Attributes* attributes, std::span<const Shape> inputs, const Shape& output) {
  const Index n = static_cast<const FftAttributes*>(attributes)->length;
  const Index elements = std::max(inputs[0].elements(), output.elements());
  return static_cast<std::uint64_t>(5. / half * static_cast<double>(elements) * std::log2(static_cast<double>(n)));
}

/// Weights of the elements of the first half of a signal: `other` where irfft counts an element
/// twice, else 1.
Tensor weights(const VjpContext& c, const Tensor& half, double other) {
  const auto& a = c.as<FftAttributes>();
  const Dtype dtype = real_of(half.dtype());
  const Index count = a.length / 2 + 1;
  const Tensor k = arange(0, count, 1, int64, half.device());
  const Tensor is_single = a.length % 2 ? equal(k, 0) : logical_or(equal(k, 0), equal(k, count - 1));
  Shape shape(std::vector<Index>(half.shape().size(), 1));
  shape[static_cast<std::size_t>(a.axis)] = count;
  const auto number = [&](double value) { return full({}, value, dtype, half.device()); };
  return reshape(where(is_single, number(1), number(other)), shape);
}

AttributesPtr same(const VjpContext& c) { return AttributesPtr(c.attributes); }

Outputs depends_on_transformed_axis(const DependsContext& c) {
  return depends_along(c, Shape(c.as<FftAttributes>().axis));
}

}  // namespace

// The matrix e^(s 2 pi i j k / n) is symmetric, so the transposed transform is the transform.
constinit const Op op_fft{
    .id = OpId::fft,
    .name = "fft",
    .takes_complex = true,
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          check_parts(call, true);
          const Index n = call.as<FftAttributes>().length;
          infer_along(call, n, n, call.input(0).dtype(), outputs);
        },
    .derivative = Derivative::linear,
    .vjp = [](const VjpContext& c, int) { return apply(op_fft, {c.ct()}, same(c)); },
    .batch = batch_in_front,
    .depends = depends_on_transformed_axis,
    .reuses = [](const Attributes*, std::size_t) { return true; },
    .flops = fft_flops<1>,
};

// With X_k = sum over j of x_j e^(i t_jk), the cotangent of x_j is the sum over k of Re(ct_k e^(i
// t_jk)). irfft counts most k twice.
constinit const Op op_rfft{
    .id = OpId::rfft,
    .name = "rfft",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          check_parts(call, false);
          infer_along(call, call.as<FftAttributes>().length, half_length(call), complex_of(call.input(0).dtype()),
                      outputs);
        },
    .derivative = Derivative::linear,
    .vjp = [](const VjpContext& c, int) { return apply(op_irfft, {c.ct() * weights(c, c.ct(), 0.5)}, same(c)); },
    .batch = batch_in_front,
    .depends = depends_on_transformed_axis,
    .flops = fft_flops<2>,
};

// With x_j = sum over k of m_k Re(z_k e^(i t_jk)), where m_k is 1 or 2, the cotangent dL/dRe(z_k) -
// i dL/dIm(z_k) is m_k times the sum over j of ct_j e^(i t_jk).
constinit const Op op_irfft{
    .id = OpId::irfft,
    .name = "irfft",
    .takes_complex = true,
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          check_parts(call, true);
          infer_along(call, half_length(call), call.as<FftAttributes>().length, real_of(call.input(0).dtype()),
                      outputs);
        },
    .derivative = Derivative::linear,
    .vjp =
        [](const VjpContext& c, int) {
          const Tensor halves = apply(op_rfft, {c.ct()}, same(c));
          return halves * weights(c, halves, 2);
        },
    .batch = batch_in_front,
    .depends = depends_on_transformed_axis,
    .flops = fft_flops<2>,
};

// ---- functions ----------------------------------------------------------------------------------

namespace {

enum class Direction { forward, inverse };

double scale_of(FftNorm norm, Direction direction, Index n) {
  if (norm == FftNorm::ortho) return 1 / std::sqrt(static_cast<double>(n));
  const bool divides = (norm == FftNorm::forward) == (direction == Direction::forward);
  return divides ? 1 / static_cast<double>(n) : 1;
}

/// x with `length` elements along an axis: cut, or padded with zeros.
Tensor resized(Tensor x, int axis, Index length) {
  const Index present_length = x.shape(axis);
  if (present_length == length) return x;
  std::vector<std::pair<Index, Index>> widths(x.shape().size(), {0, 0});
  widths[static_cast<std::size_t>(axis)].second = length - present_length;
  return pad(x, widths);
}

// A tensor that only these functions hold is moved from one to the next, so that a transform may
// write over its input.
Tensor in_transformed_floats(const Tensor& x) {
  const Tensor y = floating(x);
  return is_half_float(y.dtype()) ? astype(y, float32) : y;
}
Tensor as_complex(Tensor x) {
  if (is_complex(x.dtype())) return x;
  const Tensor y = in_transformed_floats(x);
  return astype(y, complex_of(y.dtype()));
}
const Tensor& require_real(const Tensor& x, const char* function) {
  if (is_complex(x.dtype())) fail<DtypeError>("{}: x is {}, but must be real", function, x.dtype());
  return x;
}

/// The transform along one axis.
struct AxisTransform {
  int axis;
  Index n;
  FftNorm norm;
};

void check_length(Index n, const char* function) {
  if (n < 1) fail<ShapeError>("{}: the length of the signal is {}, but must be at least 1", function, n);
}

/// Finds the axis and the length. `hermitian`: x is the first half of the signal.
AxisTransform axis_transform(const Tensor& x, const FftOptions& options, const char* function, bool hermitian = false) {
  const int axis = normalize_axis(options.axis, require_defined(x, function).rank(), function);
  const Index n = options.n.value_or(hermitian ? 2 * (x.shape(axis) - 1) : x.shape(axis));
  check_length(n, function);
  return {axis, n, options.norm};
}

Tensor transform(const Op& op, Tensor x, const AxisTransform& a, Direction direction, bool inverse_sign) {
  const Index taken = &op == &op_irfft ? a.n / 2 + 1 : a.n;
  Inputs inputs;
  inputs.push_back(resized(std::move(x), a.axis, taken));
  return apply(op, std::move(inputs),
               make_intrusive<FftAttributes>(a.axis, a.n, inverse_sign, scale_of(a.norm, direction, a.n)));
}
Tensor complex_transform(Tensor x, const AxisTransform& a, Direction direction) {
  return transform(op_fft, as_complex(std::move(x)), a, direction, direction == Direction::inverse);
}
Tensor transform_of_real(const Tensor& x, const AxisTransform& a, Direction direction) {
  return transform(op_rfft, in_transformed_floats(x), a, direction, direction == Direction::inverse);
}
Tensor transform_to_real(Tensor x, const AxisTransform& a, Direction direction) {
  return transform(op_irfft, as_complex(std::move(x)), a, direction, direction == Direction::inverse);
}

/// The axes of a transform along several axes, in the order of the options. `hermitian`: along the
/// last axis x is the first half of the signal.
std::vector<AxisTransform> axis_transforms(const Tensor& x, const FftnOptions& options, const char* function,
                                           bool hermitian) {
  const int rank = require_defined(x, function).rank();
  Shape axes;
  if (options.axes) {
    axes = *options.axes;
  } else {
    const int count = options.s ? options.s->rank() : rank;
    if (count > rank) fail<ShapeError>("{}: s {} has more lengths than x {} has axes", function, *options.s, x.shape());
    for (int axis = rank - count; axis < rank; ++axis) axes.push_back(axis);
  }
  if (options.s && options.s->size() != axes.size())
    fail<ShapeError>("{}: s {} and axes {} must have one length", function, *options.s, axes);
  if (hermitian && axes.empty()) fail<ShapeError>("{}: there must be at least one axis", function);
  std::vector<AxisTransform> all;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = normalize_axis(axes[i], rank, function);
    for (const AxisTransform& other : all)
      if (other.axis == axis) fail<ShapeError>("{}: axis {} is given twice", function, axis);
    const Index length = x.shape(axis);
    const bool is_given = options.s && (*options.s)[i] != -1;
    const Index n = is_given ? (*options.s)[i] : hermitian && i + 1 == axes.size() ? 2 * (length - 1) : length;
    check_length(n, function);
    all.push_back({axis, n, options.norm});
  }
  return all;
}

Tensor complex_transforms(Tensor x, std::span<const AxisTransform> axes, Direction direction) {
  for (std::size_t i = axes.size(); i-- > 0;) x = complex_transform(std::move(x), axes[i], direction);
  return x;
}

Tensor transform_all(const Tensor& x, const FftnOptions& options, const char* name, Direction direction) {
  const std::vector<AxisTransform> axes = axis_transforms(x, options, name, false);
  return named(
      name, [&] { return complex_transforms(as_complex(x), axes, direction); }, x);
}
Tensor real_transform_all(const Tensor& x, const FftnOptions& options, const char* name) {
  std::vector<AxisTransform> axes = axis_transforms(require_real(require_defined(x, name), name), options, name, false);
  if (axes.empty()) fail<ShapeError>("{}: there must be at least one axis", name);
  const AxisTransform last = axes.back();
  axes.pop_back();
  return named(
      name,
      [&] { return complex_transforms(transform_of_real(x, last, Direction::forward), axes, Direction::forward); }, x);
}
Tensor transform_all_to_real(const Tensor& x, const FftnOptions& options, const char* name) {
  std::vector<AxisTransform> axes = axis_transforms(x, options, name, true);
  const AxisTransform last = axes.back();
  axes.pop_back();
  return named(
      name,
      [&] { return transform_to_real(complex_transforms(x, axes, Direction::inverse), last, Direction::inverse); }, x);
}
FftnOptions of_two_axes(const Fft2Options& options, const char* name) {
  if (options.axes.size() != 2) fail<ShapeError>("{}: axes {} must be two", name, options.axes);
  return {.s = options.s, .axes = options.axes, .norm = options.norm};
}

}  // namespace

Tensor fft(const Tensor& x, const FftOptions& options) {
  const AxisTransform a = axis_transform(x, options, "fft");
  return named(
      "fft", [&] { return complex_transform(x, a, Direction::forward); }, x);
}
Tensor ifft(const Tensor& x, const FftOptions& options) {
  const AxisTransform a = axis_transform(x, options, "ifft");
  return named(
      "ifft", [&] { return complex_transform(x, a, Direction::inverse); }, x);
}
Tensor rfft(const Tensor& x, const FftOptions& options) {
  const AxisTransform a = axis_transform(require_real(require_defined(x, "rfft"), "rfft"), options, "rfft");
  return named(
      "rfft", [&] { return transform_of_real(x, a, Direction::forward); }, x);
}
Tensor irfft(const Tensor& x, const FftOptions& options) {
  const AxisTransform a = axis_transform(x, options, "irfft", true);
  return named(
      "irfft", [&] { return transform_to_real(x, a, Direction::inverse); }, x);
}
// The transform of a Hermitian signal is real; irfft computes it but for the sign of the exponent.
Tensor hfft(const Tensor& x, const FftOptions& options) {
  const AxisTransform a = axis_transform(x, options, "hfft", true);
  return named(
      "hfft", [&] { return transform_to_real(x, a, Direction::forward); }, x);
}
Tensor ihfft(const Tensor& x, const FftOptions& options) {
  const AxisTransform a = axis_transform(require_real(require_defined(x, "ihfft"), "ihfft"), options, "ihfft");
  return named(
      "ihfft", [&] { return transform_of_real(x, a, Direction::inverse); }, x);
}

Tensor fftn(const Tensor& x, const FftnOptions& options) {
  return transform_all(x, options, "fftn", Direction::forward);
}
Tensor ifftn(const Tensor& x, const FftnOptions& options) {
  return transform_all(x, options, "ifftn", Direction::inverse);
}
Tensor rfftn(const Tensor& x, const FftnOptions& options) { return real_transform_all(x, options, "rfftn"); }
Tensor irfftn(const Tensor& x, const FftnOptions& options) { return transform_all_to_real(x, options, "irfftn"); }

Tensor fft2(const Tensor& x, const Fft2Options& options) {
  return transform_all(x, of_two_axes(options, "fft2"), "fft2", Direction::forward);
}
Tensor ifft2(const Tensor& x, const Fft2Options& options) {
  return transform_all(x, of_two_axes(options, "ifft2"), "ifft2", Direction::inverse);
}
Tensor rfft2(const Tensor& x, const Fft2Options& options) {
  return real_transform_all(x, of_two_axes(options, "rfft2"), "rfft2");
}
Tensor irfft2(const Tensor& x, const Fft2Options& options) {
  return transform_all_to_real(x, of_two_axes(options, "irfft2"), "irfft2");
}

// ---- frequencies --------------------------------------------------------------------------------

namespace {

Tensor frequencies(const char* name, Index n, Index count, bool wraps, double d, Dtype dtype, Device device) {
  if (n < 0) fail<ShapeError>("{}: the number of samples is {}", name, n);
  if (dtype != float32 && dtype != float64) fail<DtypeError>("{}: the dtype is {}, but must be a float", name, dtype);
  return naming(name, [&] {
    const Tensor k = arange(0, n == 0 ? 0 : count, 1, float64, device);
    const Tensor cycles = wraps ? where(k > static_cast<double>((n - 1) / 2), k - static_cast<double>(n), k) : k;
    return astype(cycles / (d * static_cast<double>(n)), dtype);
  });
}

Tensor shifted(const Tensor& x, const char* name, const Shape& axes, bool back) {
  Shape shifts;
  for (const Index axis : axes) {
    const Index half = x.shape(normalize_axis(axis, x.rank(), name)) / 2;
    shifts.push_back(back ? -half : half);
  }
  return named(
      name, [&] { return axes.empty() ? x : roll(x, shifts, axes); }, x);
}
Shape every_axis(const Tensor& x, const char* name) {
  Shape axes;
  for (int axis = 0; axis < require_defined(x, name).rank(); ++axis) axes.push_back(axis);
  return axes;
}

}  // namespace

Tensor fftfreq(Index n, double d, Dtype dtype, Device device) {
  return frequencies("fftfreq", n, n, true, d, dtype, device);
}
Tensor rfftfreq(Index n, double d, Dtype dtype, Device device) {
  return frequencies("rfftfreq", n, n / 2 + 1, false, d, dtype, device);
}
Tensor fftshift(const Tensor& x) { return shifted(x, "fftshift", every_axis(x, "fftshift"), false); }
Tensor fftshift(const Tensor& x, const Shape& axes) {
  return shifted(require_defined(x, "fftshift"), "fftshift", axes, false);
}
Tensor ifftshift(const Tensor& x) { return shifted(x, "ifftshift", every_axis(x, "ifftshift"), true); }
Tensor ifftshift(const Tensor& x, const Shape& axes) {
  return shifted(require_defined(x, "ifftshift"), "ifftshift", axes, true);
}

}  // namespace stave
