// Signal processing. A complex number is a pair of numbers along the last axis.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <stave/core/ops/complex.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/fft.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/handlers/onnx/operators.h>

namespace stave_detail {

namespace {

Tensor as_pairs(const Tensor& z) { return stack({real(z), imag(z)}, -1); }

// Returns the numbers [...] of x, which is [..., 1] if they are real, or [..., 2] if they are
// complex.
Tensor without_pairs(const NodeCall& n, const Tensor& x) {
  if (x.rank() < 1 || (x.shape(-1) != 1 && x.shape(-1) != 2))
    n.refuse("the last axis of {} should have one element, or two for complex numbers", x.shape());
  if (x.shape(-1) == 1) return x(ellipsis, 0);
  return complex(x(ellipsis, 0), x(ellipsis, 1));
}

Tensor dft(const NodeCall& n) {
  const Tensor& x = n(0);
  Index given = n.opset() < 20 ? n.integer("axis", 1) : n.has(2) ? n.integer(2) : -2;
  const Index axis = normalize_axis(given, x.rank(), "axis");
  const bool inverse = n.integer("inverse", 0) != 0, onesided = n.integer("onesided", 0) != 0;
  if (axis == x.rank() - 1) fail<ShapeError>("the axis {} is that of complex numbers", given);
  const Tensor z = without_pairs(n, x);
  FftOptions options{.axis = axis};
  if (n.has(1)) options.n = n.integer(1);
  if (inverse && onesided)
    return astype(expand_dims(irfft(is_complex(z.dtype()) ? z : complex(z, zeros_like(z)), options), -1), x.dtype());
  if (inverse) return astype(as_pairs(ifft(z, options)), x.dtype());
  if (onesided && !is_complex(z.dtype())) return astype(as_pairs(rfft(z, options)), x.dtype());
  const Tensor all = as_pairs(fft(z, options));
  if (!onesided) return astype(all, x.dtype());
  std::vector<Tensor::Subscript> entries(static_cast<std::size_t>(all.rank()), slice());
  entries[static_cast<std::size_t>(axis)] = slice(all.shape(axis) / 2 + 1);
  return astype(all(entries), x.dtype());
}

// The transforms of frames of a signal [batch, length, 1 or 2]: [batch, frames, frequencies, 2].
Tensor short_time_transform(const NodeCall& n) {
  const Tensor x = without_pairs(n, n(0));
  const Index step = n.integer(1), length = n.has(3) ? n.integer(3) : n.has(2) ? n(2).size() : x.shape(-1);
  if (step < 1 || length < 1 || length > x.shape(-1))
    fail<ShapeError>("frames of {} elements in steps of {} do not fit {}", length, step, x.shape());
  const Index frames = 1 + (x.shape(-1) - length) / step;
  const Tensor positions = expand_dims(arange(0, frames, 1, int64) * step, -1) + arange(0, length, 1, int64);
  Tensor all = take(x, positions, -1);
  if (n.has(2)) all = all * n(2);
  const bool onesided = n.integer("onesided", 1) != 0;
  if (onesided && !is_complex(x.dtype())) return astype(as_pairs(rfft(all)), n(0).dtype());
  const Tensor z = fft(all);
  return astype(as_pairs(onesided ? z(ellipsis, slice(length / 2 + 1)) : z), n(0).dtype());
}

// Sums of cosines, a - b cos(2 pi i / length) + c cos(4 pi i / length).
Tensor window(const NodeCall& n, double a, double b, double c) {
  const Index size = n.integer(0);
  const double length = static_cast<double>(n.integer("periodic", 1) != 0 ? size : size - 1);
  const Tensor angles = 2 * std::numbers::pi * arange(0, std::max<Index>(size, 0), 1, float64) / length;
  return astype(a - b * cos(angles) + c * cos(2 * angles), n.dtype("output_datatype", float32));
}

// Triangles on the mel scale, as columns of weights for the frequencies of a transform.
Tensor mel_weights(const NodeCall& n) {
  const Index bins = n.integer(0), length = n.integer(1), rate = n.integer(2);
  const double low = n.fixed_number(3), high = n.fixed_number(4);
  if (bins < 1 || length < 1 || rate < 1) fail<ShapeError>("{} bins of {} samples at a rate of {}", bins, length, rate);
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const Index frequencies = length / 2 + 1;
  check_host_numbers({frequencies, bins});
  std::vector<Index> edges;
  for (Index i = 0; i < bins + 2; ++i) {
    const double m = mel(low) + static_cast<double>(i) * (mel(high) - mel(low)) / static_cast<double>(bins + 2);
    const double hertz = 700 * (std::pow(10., m / 2595) - 1);
    edges.push_back(
        static_cast<Index>(std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
  }
  if (edges.front() < 0 || edges.back() > frequencies)
    fail<ShapeError>("the frequencies {} and {} do not fit a rate of {}", low, high, rate);
  std::vector<double> weights(static_cast<std::size_t>(frequencies * bins));
  const auto put = [&](Index frequency, Index bin, double weight) {
    if (frequency < frequencies) weights[static_cast<std::size_t>(frequency * bins + bin)] = weight;
  };
  for (Index bin = 0; bin < bins; ++bin) {
    const auto i = static_cast<std::size_t>(bin);
    const Index left = edges[i], centre = edges[i + 1], right = edges[i + 2];
    for (Index f = left; f <= centre; ++f)
      put(f, bin, left == centre ? 1 : static_cast<double>(f - left) / static_cast<double>(centre - left));
    for (Index f = centre; f < right; ++f)
      put(f, bin, static_cast<double>(right - f) / static_cast<double>(right - centre));
  }
  return astype(from(weights, {frequencies, bins}), n.dtype("output_datatype", float32));
}

constexpr OnnxOperator signal_rows[] = {
    {"BlackmanWindow", 17, [](const NodeCall& n) { return window(n, 0.42, 0.5, 0.08); }},
    {"DFT", 17, dft},
    {"HammingWindow", 17, [](const NodeCall& n) { return window(n, 25. / 46, 21. / 46, 0); }},
    {"HannWindow", 17, [](const NodeCall& n) { return window(n, 0.5, 0.5, 0); }},
    {"MelWeightMatrix", 17, mel_weights},
    {"STFT", 17, short_time_transform},
};

}  // namespace

std::span<const OnnxOperator> onnx_signal() { return signal_rows; }

}  // namespace stave_detail
