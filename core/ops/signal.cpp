// Functions of signals, made of the transforms of fft.h and other operations.

#include <stave/core/ops/signal.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/ops/basic_index.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/contract.h>
#include <stave/core/ops/convolution.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

/// Returns the smallest length of at least `least` with factors 2, 3 and 5 only.
Index fast_length(Index least) {
  Index best = 0;
  for (Index fives = 1; fives < 5 * least; fives *= 5)
    for (Index n = fives; n < 3 * least; n *= 3) {
      Index candidate = n;
      while (candidate < least) candidate *= 2;
      if (!best || candidate < best) best = candidate;
    }
  return best;
}

/// The places of a mode's results in the full convolution, along one axis.
struct Part {
  Index first, count;
};
Part part_of(ConvolveMode mode, Index x, Index y) {
  if (mode == ConvolveMode::same) return {(y - 1) / 2, x};
  if (mode == ConvolveMode::valid) return {y - 1, x - y + 1};
  return {0, x + y - 1};
}

Tensor as_number(const Tensor& x) {
  const Tensor y = floating(x);
  return is_half_float(y.dtype()) ? astype(y, float32) : y;
}
Tensor require_real_floats(const Tensor& x, const char* function) {
  if (is_complex(require_defined(x, function).dtype()))
    fail<DtypeError>("{}: x is {}, but must be real", function, x.dtype());
  return as_number(x);
}

/// e^(i pi numerators / denominator), computed in float64, in the complex dtype of `parts`.
Tensor roots(const Tensor& numerators, double denominator, Dtype parts) {
  const Tensor angle = numerators * (std::numbers::pi / denominator);
  return astype(complex(cos(angle), sin(angle)), complex_of(parts));
}
Tensor counted(Index count, double start, double step, Device device) {
  return arange(start, start + static_cast<double>(count) * step - step / 2, step, float64, device);
}

}  // namespace

Tensor convolve(const Tensor& x, const Tensor& y, const ConvolveOptions& options) {
  if (require_defined(x, "convolve").rank() != 1 || require_defined(y, "convolve", 1).rank() != 1)
    fail<ShapeError>("convolve: operands {} and {} must be vectors", x.shape(), y.shape());
  const Index n = x.shape(0), m = y.shape(0);
  if (n == 0 || m == 0) fail<ShapeError>("convolve: operands {} and {} must have elements", x.shape(), y.shape());
  if (options.mode == ConvolveMode::valid && m > n)
    fail<ShapeError>("convolve: y {} is longer than x {}: exchange them", y.shape(), x.shape());
  const Part part = part_of(options.mode, n, m);
  return named(
      "convolve",
      [&] {
        const Tensor all = conv(reshape(x, {1, n}), reshape(flip(y), {1, 1, m}), {.padding = m - 1});
        return entries(reshape(all, {n + m - 1}), 0, part.first, part.count);
      },
      x, y);
}

Tensor fftconvolve(const Tensor& x, const Tensor& y, const FftConvolveOptions& options) {
  const int rank = require_defined(x, "fftconvolve").rank();
  if (require_defined(y, "fftconvolve", 1).rank() != rank)
    fail<ShapeError>("fftconvolve: operands {} and {} must have one rank", x.shape(), y.shape());
  Shape axes, lengths;
  if (options.axes) axes = *options.axes;
  else
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  for (Index& axis : axes) {
    axis = normalize_axis(axis, rank, "fftconvolve");
    const Index n = x.shape(static_cast<int>(axis)), m = y.shape(static_cast<int>(axis));
    if (n == 0 || m == 0) fail<ShapeError>("fftconvolve: operands {} and {} must have elements", x.shape(), y.shape());
    if (options.mode == ConvolveMode::valid && m > n)
      fail<ShapeError>("fftconvolve: y {} is longer than x {} along axis {}", y.shape(), x.shape(), axis);
    lengths.push_back(fast_length(n + m - 1));
  }
  const auto product = [&](const Tensor& a, const Tensor& b) {
    if (axes.empty()) return a * b;
    const FftnOptions along{.s = lengths, .axes = axes};
    if (is_complex(a.dtype()) || is_complex(b.dtype())) return ifftn(fftn(a, along) * fftn(b, along), along);
    return irfftn(rfftn(a, along) * rfftn(b, along), along);
  };
  return named(
      "fftconvolve",
      [&] {
        Tensor z = product(as_number(x), as_number(y));
        for (const Index axis : axes) {
          const int at = static_cast<int>(axis);
          const Part part = part_of(options.mode, x.shape(at), y.shape(at));
          z = entries(z, at, part.first, part.count);
        }
        return z;
      },
      x, y);
}

// ---- cosine transforms --------------------------------------------------------------------------

namespace {

// The transforms of type 1 to 4 along the last axis, without a scale.

// The transform is that of one period of an even signal.
Tensor dct_1(const Tensor& x) {
  const int axis = x.rank() - 1;
  const Index n = x.shape(axis);
  return real(rfft(concat({x, flip(entries(x, axis, 1, n - 2), axis)}, axis)));
}

// With v = x_0, x_2, x_4, ..., x_5, x_3, x_1 and V its transform, W_k = e^(-pi i k / (2 n)) V_k has
// y_k = 2 Re(W_k) and y_(n - k) = -2 Im(W_k) (Makhoul 1980, "A fast cosine transform in one and two
// dimensions").
Tensor dct_2(const Tensor& x) {
  const int axis = x.rank() - 1;
  const Index n = x.shape(axis), half = n / 2 + 1;
  const Tensor v = concat({x(ellipsis, slice(0, none, 2)), flip(x(ellipsis, slice(1, none, 2)), axis)}, axis);
  const Tensor w = rfft(v) * roots(counted(half, 0, -1, x.device()), 2. * static_cast<double>(n), x.dtype());
  return 2 * concat({real(w), flip(entries(-imag(w), axis, 1, (n - 1) / 2), axis)}, axis);
}

// dct_3 is the transpose of dct_2, so it takes the transposed steps: V_k = (x_k - i x_(n - k))
// e^(pi i k / (2 n)), with x_n = 0.
Tensor dct_3(const Tensor& x) {
  const int axis = x.rank() - 1;
  const Index n = x.shape(axis), half = n / 2 + 1;
  const Tensor first = entries(x, axis, 0, 1);
  const Tensor mirrored = concat({zeros_like(first), flip(entries(x, axis, n - half + 1, half - 1), axis)}, axis);
  const Tensor v = irfft(complex(entries(x, axis, 0, half), -mirrored) *
                             roots(counted(half, 0, 1, x.device()), 2. * static_cast<double>(n), x.dtype()),
                         {.n = n, .norm = FftNorm::forward});
  const Index evens = (n + 1) / 2;
  Tensor even = entries(v, axis, 0, evens), odd = flip(entries(v, axis, evens, n - evens), axis);
  if (n % 2) {
    std::vector<std::pair<Index, Index>> widths(x.shape().size(), {0, 0});
    widths.back().second = 1;
    odd = pad(odd, widths);
  }
  Shape shape = x.shape();
  shape.back() = 2 * evens;
  return entries(reshape(stack({even, odd}, axis + 1), shape), axis, 0, n);
}

// y_k = 2 Re(e^(-pi i (2 k + 1) / (4 n)) * sum over j of x_j e^(-pi i j / (2 n)) e^(-2 pi i j k /
// (2 n))).
Tensor dct_4(const Tensor& x) {
  const int axis = x.rank() - 1;
  const Index n = x.shape(axis);
  const double quarters = 4. * static_cast<double>(n);
  const Tensor z = fft(x * roots(counted(n, 0, -2, x.device()), quarters, x.dtype()), {.n = 2 * n});
  return 2 * real(entries(z, axis, 0, n) * roots(counted(n, -1, -2, x.device()), quarters, x.dtype()));
}

/// x with its first entry, or its first and its last one, multiplied by a factor.
Tensor with_scaled_ends(const Tensor& x, double factor, bool both) {
  const Index n = x.shape(-1);
  const Tensor k = arange(0, n, 1, int64, x.device());
  const Tensor is_end = both ? logical_or(equal(k, 0), equal(k, n - 1)) : equal(k, 0);
  const auto number = [&](double value) { return full({}, value, x.dtype(), x.device()); };
  return x * where(is_end, number(factor), number(1));
}

Tensor cosine_transform(const char* function, const Tensor& x, const DctOptions& options, bool inverse) {
  if (options.type < 1 || options.type > 4)
    fail<ShapeError>("{}: the type is {}, but must be 1, 2, 3 or 4", function, options.type);
  const int axis = normalize_axis(options.axis, require_defined(x, function).rank(), function);
  const Index n = options.n.value_or(x.shape(axis)), least = options.type == 1 ? 2 : 1;
  if (n < least) fail<ShapeError>("{}: there are {} elements, but must be at least {}", function, n, least);
  const int type = inverse && (options.type == 2 || options.type == 3) ? 5 - options.type : options.type;
  const double period = 2. * static_cast<double>(type == 1 ? n - 1 : n);
  const bool is_ortho = options.norm == FftNorm::ortho;
  const bool divides = (options.norm == FftNorm::forward) != inverse;
  const double scale = is_ortho ? 1 / std::sqrt(period) : divides ? 1 / period : 1;
  constexpr double root = std::numbers::sqrt2;
  return named(
      function,
      [&] {
        std::vector<std::pair<Index, Index>> widths(x.shape().size(), {0, 0});
        widths[static_cast<std::size_t>(axis)].second = n - x.shape(axis);
        const Tensor whole = require_real_floats(x, function);
        Tensor y = moveaxis(n == x.shape(axis) ? whole : pad(whole, widths), axis, -1);
        if (is_ortho && (type == 1 || type == 3)) y = with_scaled_ends(y, root, type == 1);
        y = type == 1 ? dct_1(y) : type == 2 ? dct_2(y) : type == 3 ? dct_3(y) : dct_4(y);
        if (is_ortho && (type == 1 || type == 2)) y = with_scaled_ends(y, 1 / root, type == 1);
        return moveaxis(scale == 1 ? y : y * scale, -1, axis);
      },
      x);
}

}  // namespace

Tensor dct(const Tensor& x, const DctOptions& options) { return cosine_transform("dct", x, options, false); }
Tensor idct(const Tensor& x, const DctOptions& options) { return cosine_transform("idct", x, options, true); }

// ---- short-time transforms ----------------------------------------------------------------------

namespace {

struct Frames {
  Index window, hop, n, padding;
  Index count(Index length) const {
    return length + 2 * padding < window ? 0 : (length + 2 * padding - window) / hop + 1;
  }
};

Frames frames_of(const Tensor& window, const StftOptions& options, const char* function) {
  if (require_defined(window, function, 1).rank() != 1 || window.shape(0) == 0)
    fail<ShapeError>("{}: the window {} must be a vector with elements", function, window.shape());
  const Index m = window.shape(0), hop = options.hop ? options.hop : (m + 1) / 2, n = options.n.value_or(m);
  if (hop < 1) fail<ShapeError>("{}: hop is {}, but must be at least 1", function, hop);
  if (n < m) fail<ShapeError>("{}: n is {}, but the window has {} elements", function, n, m);
  return {m, hop, n, options.centered ? m / 2 : 0};
}

/// The positions [frames, window] of the elements of frames.
Tensor positions(const Frames& frames, Index count, Device device) {
  const Dtype dtype = positions_dtype(count * frames.hop + frames.window);
  const Tensor starts = arange(0, count * frames.hop, frames.hop, dtype, device);
  return expand_dims(starts, -1) + arange(0, frames.window, 1, dtype, device);
}

/// The sum of overlapping frames [..., frames, window], as a signal of the given length.
Tensor overlapped(const Tensor& values, const Frames& frames, Index length) {
  const Index count = values.shape(-2), whole = (count - 1) * frames.hop + frames.window;
  const Shape batch(std::vector<Index>(values.shape().begin(), values.shape().end() - 2));
  const Index lines = batch.elements();
  const Tensor flat = matrix_transpose(reshape(values, {lines, count * frames.window}));
  const Tensor at = reshape(positions(frames, count, values.device()), {count * frames.window, 1});
  const Tensor sums = scatter_add(zeros({whole, lines}, values.dtype(), values.device()), at, flat);
  Shape shape = batch;
  shape.push_back(length);
  return reshape(pad(matrix_transpose(sums), {{0, 0}, {-frames.padding, length + frames.padding - whole}}), shape);
}

}  // namespace

Tensor stft(const Tensor& x, const Tensor& window, const StftOptions& options) {
  const Frames frames = frames_of(window, options, "stft");
  if (require_defined(x, "stft").rank() < 1) fail<ShapeError>("stft: x must have an axis");
  const Index count = frames.count(x.shape(-1));
  if (count < 1) fail<ShapeError>("stft: x {} is shorter than the window {}", x.shape(), window.shape());
  return named(
      "stft",
      [&] {
        std::vector<std::pair<Index, Index>> widths(x.shape().size(), {0, 0});
        widths.back() = {frames.padding, frames.padding};
        const Tensor signal = pad(require_real_floats(x, "stft"), widths);
        const Tensor cut = take(signal, positions(frames, count, x.device()), -1);
        return matrix_transpose(rfft(cut * require_real_floats(window, "stft"), {.n = frames.n}));
      },
      x, window);
}

// The signal is the sum of the inverse transforms times the window, over the sum of the squared
// window.
Tensor istft(const Tensor& z, const Tensor& window, Index length, const StftOptions& options) {
  const Frames frames = frames_of(window, options, "istft");
  if (require_defined(z, "istft").rank() < 2 || z.shape(-2) != frames.n / 2 + 1 || z.shape(-1) < 1)
    fail<ShapeError>("istft: z {} must be [..., n / 2 + 1 = {}, frames]", z.shape(), frames.n / 2 + 1);
  if (length < 0) fail<ShapeError>("istft: the length is {}", length);
  return named(
      "istft",
      [&] {
        const Tensor w = require_real_floats(window, "istft");
        const Tensor values = irfft(matrix_transpose(z), {.n = frames.n});
        const Tensor sum = overlapped(entries(values, values.rank() - 1, 0, frames.window) * w, frames, length);
        const Tensor weight = overlapped(broadcast_to(square(w), {z.shape(-1), frames.window}), frames, length);
        const Tensor reached = weight > 1e-10;
        return where(reached, sum / where(reached, weight, 1), 0);
      },
      z, window);
}

}  // namespace stave
