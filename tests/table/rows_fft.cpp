// Rows of Fourier transforms and of functions of signals. A complex operand or result is an array
// with a last axis of real and imaginary parts. References are the sums that define the functions.

#include <cmath>
#include <complex>
#include <numbers>

#include <stave/core/ops/complex.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/fft.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/signal.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

using Z = std::complex<Real>;
using Line = std::vector<Z>;

const std::vector<Dtype> transformed_dtypes = {float32, float64};
constexpr Real pi = std::numbers::pi_v<Real>;

/// A complex array, and the size to which the rounding errors of its elements are relative.
struct Signal {
  Shape shape;
  Line values = {};
  Real size = 0;
};

Index offset(const Shape& shape, const Shape& position) {
  Index at = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) at = at * shape[i] + position[i];
  return at;
}

Signal signal_of(const Array& x, bool complex) {
  Signal s{complex ? part(x.shape, 0, x.shape.rank() - 1) : x.shape};
  for (std::size_t i = 0; i < x.values.size(); i += complex ? 2 : 1)
    s.values.emplace_back(x.values[i], complex ? x.values[i + 1] : Real(0));
  for (const Z& z : s.values) s.size += std::abs(z);
  return s;
}
Array array_of(const Signal& s, Dtype dtype, bool complex) {
  Array y{dtype, s.shape};
  if (complex) y.shape.push_back(2);
  for (const Z& z : s.values) {
    y.values.push_back(z.real());
    if (complex) y.values.push_back(z.imag());
  }
  y.magnitude.assign(y.values.size(), s.size);
  return y;
}

/// The signal with f of each line along an axis; `scale` is that of f.
template <class F>
Signal along_axis(const Signal& x, Index axis, Real scale, F f) {
  const auto at = static_cast<std::size_t>(axis < 0 ? axis + x.shape.rank() : axis);
  Signal y{x.shape, {}, x.size * scale};
  y.shape[at] = static_cast<Index>(f(Line(static_cast<std::size_t>(x.shape[at]))).size());
  std::vector<Line> lines;
  Shape starts = x.shape;
  starts[at] = 1;
  for_each_position(starts, [&](const Shape& p) {
    Line line;
    Shape place = p;
    for (place[at] = 0; place[at] < x.shape[at]; ++place[at])
      line.push_back(x.values[static_cast<std::size_t>(offset(x.shape, place))]);
    lines.push_back(f(line));
  });
  y.values.resize(static_cast<std::size_t>(y.shape.elements()));
  std::size_t number = 0;
  for_each_position(starts, [&](const Shape& p) {
    const Line& line = lines[number++];
    Shape place = p;
    for (place[at] = 0; place[at] < y.shape[at]; ++place[at])
      y.values[static_cast<std::size_t>(offset(y.shape, place))] = line[static_cast<std::size_t>(place[at])];
  });
  return y;
}

// ---- transforms ---------------------------------------------------------------------------------

enum class Kind { complex, real_to_complex, complex_to_real };

/// The transform of a line, with x cut or padded to n elements.
Line transformed(Line x, Kind kind, Index n, int sign, Real scale) {
  x.resize(static_cast<std::size_t>(kind == Kind::complex_to_real ? n / 2 + 1 : n));
  if (kind == Kind::complex_to_real) {
    x.resize(static_cast<std::size_t>(n));
    for (Index k = n / 2 + 1; k < n; ++k)
      x[static_cast<std::size_t>(k)] = std::conj(x[static_cast<std::size_t>(n - k)]);
  }
  Line y;
  for (Index k = 0; k < (kind == Kind::real_to_complex ? n / 2 + 1 : n); ++k) {
    Z sum = 0;
    for (Index j = 0; j < n; ++j)
      sum +=
          x[static_cast<std::size_t>(j)] *
          std::polar(Real(1), static_cast<Real>(sign) * 2 * pi * static_cast<Real>(j * k % n) / static_cast<Real>(n));
    y.push_back(scale * (kind == Kind::complex_to_real ? Z(sum.real()) : sum));
  }
  return y;
}

Real scale_of(FftNorm norm, bool inverse, Index n) {
  const Real one = 1;
  if (norm == FftNorm::ortho) return one / std::sqrt(static_cast<Real>(n));
  return (norm == FftNorm::forward) != inverse ? one / static_cast<Real>(n) : one;
}

Tensor joined(const Tensor& parts) { return complex(parts(ellipsis, 0), parts(ellipsis, 1)); }
Tensor parted(const Tensor& z) { return stack({real(z), imag(z)}, -1); }

/// A transform along axes. Along the last of them it is of the given kind, along the others
/// complex.
struct Transform {
  const char* name;
  Kind kind;
  bool inverse;
  Tensor (*one)(const Tensor&, const FftOptions&) = nullptr;
  Tensor (*many)(const Tensor&, const FftnOptions&) = nullptr;
  Tensor (*two)(const Tensor&, const Fft2Options&) = nullptr;

  bool takes_complex() const { return kind != Kind::real_to_complex; }
  bool gives_complex() const { return kind != Kind::complex_to_real; }
};

/// Where a transform is taken.
struct Place {
  Shape shape;
  Shape axes;
  Shape lengths = {};  // empty: the default
  FftNorm norm = FftNorm::backward;

  std::string str() const {
    return shape.str() + " along " + axes.str() + (lengths.empty() ? "" : " to " + lengths.str()) +
           (norm == FftNorm::ortho     ? " ortho"
            : norm == FftNorm::forward ? " forward"
                                       : "");
  }
};

Tensor performed(const Transform& t, const Place& place, const Tensor& x) {
  const Tensor operand = t.takes_complex() ? joined(x) : x;
  const std::optional<Shape> lengths = place.lengths.empty() ? std::nullopt : std::optional(place.lengths);
  const auto result = [&] {
    if (t.one)
      return t.one(
          operand,
          {.n = lengths ? std::optional((*lengths)[0]) : std::nullopt, .axis = place.axes[0], .norm = place.norm});
    if (t.many) return t.many(operand, {.s = lengths, .axes = place.axes, .norm = place.norm});
    return t.two(operand, {.s = lengths, .axes = place.axes, .norm = place.norm});
  }();
  return t.gives_complex() ? parted(result) : result;
}

Array expected(const Transform& t, const Place& place, const Array& x) {
  Signal s = signal_of(x, t.takes_complex());
  const auto step = [&](std::size_t i, Kind kind) {
    const Index length =
        s.shape[static_cast<std::size_t>(place.axes[i] < 0 ? place.axes[i] + s.shape.rank() : place.axes[i])];
    const Index n = !place.lengths.empty()          ? place.lengths[i]
                    : kind == Kind::complex_to_real ? 2 * (length - 1)
                                                    : length;
    const Real scale = scale_of(place.norm, t.inverse, n);
    s = along_axis(s, place.axes[i], scale,
                   [&](const Line& line) { return transformed(line, kind, n, t.inverse ? 1 : -1, scale); });
  };
  const std::size_t last = place.axes.size() - 1;
  if (t.kind == Kind::real_to_complex) step(last, t.kind);
  for (std::size_t i = 0; i < last; ++i) step(i, Kind::complex);
  if (t.kind != Kind::real_to_complex) step(last, t.kind);
  return array_of(s, x.dtype, t.gives_complex());
}

std::vector<Variant> transform_variants(const Transform& t, Dtype dtype) {
  const std::vector<Place> of_one = {{{5}, {0}},
                                     {{2, 6}, {1}},
                                     {{6, 2}, {0}, {}, FftNorm::ortho},
                                     {{2, 4, 3}, {-2}, {7}, FftNorm::forward},
                                     {{3, 5}, {-1}, {4}},
                                     {{17, 2}, {0}},
                                     {{4}, {0}, {1}},
                                     {{0, 3}, {1}}};
  const std::vector<Place> of_many = {{{3, 4}, {0, 1}},
                                      {{3, 4}, {1, 0}, {}, FftNorm::ortho},
                                      {{2, 3, 4}, {0, -1}, {3, 5}, FftNorm::forward},
                                      {{0, 3, 2}, {1, 2}}};
  std::vector<Variant> variants;
  for (const Place& place : t.one ? of_one : of_many) {
    Shape shape = place.shape;
    if (t.takes_complex()) shape.push_back(2);
    variants.push_back({.name = place.str(),
                        .inputs = {{dtype, shape}},
                        .call = [=](auto xs) -> Outputs { return performed(t, place, xs[0]); },
                        .reference = [=](auto xs) { return Arrays{expected(t, place, xs[0])}; }});
  }
  variants.push_back(refused(
      "", dtype, {},
      [=](const Tensor& x) {
        return performed({t.name, Kind::real_to_complex, t.inverse, t.one, t.many, t.two}, {{}, {0, 1}}, x);
      },
      "axis 0 is out of range for rank 0"));
  return variants;
}

// ---- functions of signals -----------------------------------------------------------------------

struct Cosine {
  int type;
  FftNorm norm;
};

/// The cosine transform by its definition; the inverse one is that of the inverse type, scaled.
Line cosine_transformed(const Line& x, Cosine cosine, bool inverse) {
  const auto n = static_cast<Index>(x.size());
  const int type = inverse && (cosine.type == 2 || cosine.type == 3) ? 5 - cosine.type : cosine.type;
  const Real size = static_cast<Real>(n), period = 2 * (type == 1 ? size - 1 : size), half = 0.5;
  const bool ortho = cosine.norm == FftNorm::ortho;
  const Real scale = ortho                                          ? 1 / std::sqrt(period)
                     : (cosine.norm == FftNorm::forward) != inverse ? 1 / period
                                                                    : Real(1);
  const Real root = std::sqrt(Real(2));
  Line y;
  for (Index k = 0; k < n; ++k) {
    Z sum = 0;
    for (Index j = 0; j < n; ++j) {
      const Real a = static_cast<Real>(j), b = static_cast<Real>(k);
      const bool end_j = type == 1 ? j == 0 || j == n - 1 : type == 3 && j == 0;
      const bool end_k = type == 1 ? k == 0 || k == n - 1 : type == 2 && k == 0;
      const Real angle = type == 1   ? a * b / (size - 1)
                         : type == 2 ? b * (a + half) / size
                         : type == 3 ? a * (b + half) / size
                                     : (a + half) * (b + half) / size;
      const Real weight = (end_j ? 1 : 2) * (ortho ? (end_j ? root : 1) * (end_k ? 1 / root : 1) : Real(1));
      sum += x[static_cast<std::size_t>(j)] * weight * std::cos(pi * angle);
    }
    y.push_back(sum * scale);
  }
  return y;
}

using CosineTransform = Tensor (*)(const Tensor&, const DctOptions&);

template <CosineTransform of, bool inverse>
std::vector<Variant> cosine_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const auto add = [&](const Shape& shape, Index axis, Cosine cosine) {
    variants.push_back(
        {.name = shape.str() + " type " + std::to_string(cosine.type) + " norm " +
                 std::to_string(static_cast<int>(cosine.norm)),
         .inputs = {{dtype, shape}},
         .call = [=](auto xs) -> Outputs {
           return of(xs[0], {.type = cosine.type, .axis = axis, .norm = cosine.norm});
         },
         .reference =
             [=](auto xs) {
               return Arrays{array_of(along_axis(signal_of(xs[0], false), axis, 2,
                                                 [&](const Line& x) { return cosine_transformed(x, cosine, inverse); }),
                                      dtype, false)};
             }});
  };
  for (const int type : {1, 2, 3, 4}) {
    add({2, 4}, 1, {type, FftNorm::backward});
    add({5, 2}, 0, {type, FftNorm::ortho});
  }
  add({6}, 0, {2, FftNorm::forward});
  add({0, 3}, 1, {2, FftNorm::backward});
  variants.push_back(refused(
      "", dtype, {}, [](const Tensor& x) { return of(x, {}); }, "axis -1 is out of range for rank 0"));
  return variants;
}

/// The convolution of two vectors, and the places of its results.
Variant convolution_of(Dtype dtype, Index n, Index m, ConvolveMode mode, bool by_products) {
  const Index first = mode == ConvolveMode::full ? 0 : mode == ConvolveMode::same ? (m - 1) / 2 : m - 1;
  const Index count = mode == ConvolveMode::full ? n + m - 1 : mode == ConvolveMode::same ? n : n - m + 1;
  return {.name = std::to_string(n) + ", " + std::to_string(m) + " mode " + std::to_string(static_cast<int>(mode)),
          .inputs = {{dtype, {n}}, {dtype, {m}}},
          .call = [=](auto xs) -> Outputs {
            return by_products ? convolve(xs[0], xs[1], {.mode = mode}) : fftconvolve(xs[0], xs[1], {.mode = mode});
          },
          .reference =
              [=](auto xs) {
                Real size = 0;
                for (const Real a : xs[0].values)
                  for (const Real b : xs[1].values) size += std::abs(a * b);
                Array y = make(dtype, {count}, [&](const Shape& p) {
                  Real sum = 0;
                  for (Index j = 0; j < n; ++j)
                    if (const Index k = p[0] + first - j; k >= 0 && k < m) sum += xs[0]({j}) * xs[1]({k});
                  return sum;
                });
                y.magnitude.assign(y.values.size(), size);
                return Arrays{y};
              }};
}
template <bool by_products>
std::vector<Variant> convolution_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const ConvolveMode mode : {ConvolveMode::full, ConvolveMode::same, ConvolveMode::valid})
    for (const auto& [n, m] : {std::pair<Index, Index>{5, 3}, {4, 4}, {6, 1}})
      variants.push_back(convolution_of(dtype, n, m, mode, by_products));
  const auto call = [](auto xs) -> Outputs { return by_products ? convolve(xs[0], xs[1]) : fftconvolve(xs[0], xs[1]); };
  const auto refuse = [&](const Shape& x, const Shape& y, const char* words) {
    variants.push_back({.name = x.str() + ", " + y.str(),
                        .inputs = {{dtype, x}, {dtype, y}},
                        .call = call,
                        .reference = [](auto xs) { return Arrays{xs[0]}; },
                        .refusal = words});
  };
  refuse({}, {2}, by_products ? "must be vectors" : "must have one rank");
  refuse({0}, {2}, "must have elements");
  return variants;
}

// Frames of a window of 4 numbers, and transforms of 5.
constexpr Index window_length = 4, hop = 2, frame_length = 5;

Variant stft_of(Dtype dtype, const Shape& shape, bool centered) {
  const Index length = shape.back(), padding = centered ? window_length / 2 : 0;
  const Index frames = (length + 2 * padding - window_length) / hop + 1;
  return {.name = shape.str() + (centered ? " centered" : ""),
          .inputs = {{dtype, shape}, {dtype, {window_length}}},
          .call = [=](auto xs) -> Outputs {
            return parted(stft(xs[0], xs[1], {.hop = hop, .n = frame_length, .centered = centered}));
          },
          .reference =
              [=](auto xs) {
                Shape result = part(shape, 0, shape.rank() - 1);
                result = concatenated(result, {frame_length / 2 + 1, frames, 2});
                Array y = make(dtype, result, [&](const Shape& p) {
                  const Index k = p[p.size() - 3], t = p[p.size() - 2];
                  Z sum = 0;
                  for (Index i = 0; i < window_length; ++i) {
                    Shape at = part(p, 0, p.rank() - 3);
                    at.push_back(t * hop + i - padding);
                    if (at.back() >= 0 && at.back() < length)
                      sum += xs[0](at) * xs[1]({i}) *
                             std::polar(Real(1), -2 * pi * static_cast<Real>(i * k) / static_cast<Real>(frame_length));
                  }
                  return p.back() ? sum.imag() : sum.real();
                });
                y.magnitude.assign(y.values.size(), 16);
                return Arrays{y};
              }};
}
std::vector<Variant> stft_variants(Dtype dtype) {
  std::vector<Variant> variants = {stft_of(dtype, {9}, true), stft_of(dtype, {2, 7}, false),
                                   stft_of(dtype, {0, 8}, true)};
  variants.push_back(refused(
      "", dtype, {}, [=](const Tensor& x) { return real(stft(x, ones({2}, dtype))); }, "x must have an axis"));
  return variants;
}

Variant istft_of(Dtype dtype, const Shape& batch, Index frames, bool centered) {
  const Index padding = centered ? window_length / 2 : 0, length = (frames - 1) * hop + window_length - 2 * padding;
  const Shape shape = concatenated(batch, {frame_length / 2 + 1, frames, 2});
  return {.name = shape.str() + (centered ? " centered" : ""),
          .inputs = {{dtype, shape}, {dtype, {window_length}, {1, 2}}},
          .call = [=](auto xs) -> Outputs {
            return istft(joined(xs[0]), xs[1], length, {.hop = hop, .n = frame_length, .centered = centered});
          },
          .reference =
              [=](auto xs) {
                const auto frame = [&](const Shape& p, Index t) {
                  Line z;
                  for (Index k = 0; k <= frame_length / 2; ++k)
                    z.emplace_back(xs[0](concatenated(part(p, 0, p.rank() - 1), {k, t, 0})),
                                   xs[0](concatenated(part(p, 0, p.rank() - 1), {k, t, 1})));
                  z[0] = z[0].real();
                  return transformed(z, Kind::complex_to_real, frame_length, 1, Real(1) / frame_length);
                };
                Array y = make(dtype, concatenated(batch, {length}), [&](const Shape& p) {
                  Real sum = 0, weight = 0;
                  for (Index t = 0; t < frames; ++t)
                    if (const Index i = p.back() + padding - t * hop; i >= 0 && i < window_length) {
                      sum += frame(p, t)[static_cast<std::size_t>(i)].real() * xs[1]({i});
                      weight += xs[1]({i}) * xs[1]({i});
                    }
                  return sum / weight;
                });
                y.magnitude.assign(y.values.size(), 4);
                return Arrays{y};
              }};
}
std::vector<Variant> istft_variants(Dtype dtype) {
  std::vector<Variant> variants = {istft_of(dtype, {}, 3, true), istft_of(dtype, {2}, 4, false),
                                   istft_of(dtype, {0}, 2, false)};
  variants.push_back(refused(
      "", dtype, {}, [=](const Tensor& x) { return istft(x, ones({2}, dtype), 4); }, "n / 2 + 1"));
  return variants;
}

// ---- frequencies and shifts ---------------------------------------------------------------------

Variant frequencies_of(Dtype dtype, Index n, double d, bool half) {
  const Index count = half && n > 0 ? n / 2 + 1 : n;
  return {.name = std::to_string(n),
          .inputs = {},
          .call = [=](auto) -> Outputs { return half ? rfftfreq(n, d, dtype) : fftfreq(n, d, dtype); },
          .reference =
              [=](auto) {
                return Arrays{make(dtype, {count}, [=](const Shape& p) {
                  const Index k = !half && p[0] > (n - 1) / 2 ? p[0] - n : p[0];
                  return static_cast<Real>(k) / (static_cast<Real>(d) * static_cast<Real>(n));
                })};
              }};
}

template <bool back>
std::vector<Variant> shift_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const auto add = [&](const Shape& shape, const Shape& axes) {
    variants.push_back({.name = shape.str() + " along " + axes.str(),
                        .inputs = {{dtype, shape, {-9, 9}}},
                        .call = [=](auto xs) -> Outputs {
                          if (axes.size() == shape.size()) return back ? ifftshift(xs[0]) : fftshift(xs[0]);
                          return back ? ifftshift(xs[0], axes) : fftshift(xs[0], axes);
                        },
                        .reference =
                            [=](auto xs) {
                              return Arrays{make(dtype, shape, [&](const Shape& p) {
                                Shape from = p;
                                for (const Index axis : axes) {
                                  const auto i = static_cast<std::size_t>(axis);
                                  const Index n = shape[i];
                                  from[i] = (p[i] + (back ? n / 2 : n - n / 2)) % n;
                                }
                                return xs[0](from);
                              })};
                            }});
  };
  add({5}, {0});
  add({4, 3}, {0, 1});
  add({3, 4}, {1});
  add({}, {});
  add({2, 0}, {0});
  return variants;
}

}  // namespace

void add_fft_rows(std::vector<Row>& rows) {
  using enum Kind;
  for (const Transform& t : {Transform{.name = "fft", .kind = complex, .inverse = false, .one = stave::fft},
                             {.name = "ifft", .kind = complex, .inverse = true, .one = stave::ifft},
                             {.name = "rfft", .kind = real_to_complex, .inverse = false, .one = stave::rfft},
                             {.name = "irfft", .kind = complex_to_real, .inverse = true, .one = stave::irfft},
                             {.name = "hfft", .kind = complex_to_real, .inverse = false, .one = stave::hfft},
                             {.name = "ihfft", .kind = real_to_complex, .inverse = true, .one = stave::ihfft},
                             {.name = "fftn", .kind = complex, .inverse = false, .many = stave::fftn},
                             {.name = "ifftn", .kind = complex, .inverse = true, .many = stave::ifftn},
                             {.name = "rfftn", .kind = real_to_complex, .inverse = false, .many = stave::rfftn},
                             {.name = "irfftn", .kind = complex_to_real, .inverse = true, .many = stave::irfftn},
                             {.name = "fft2", .kind = complex, .inverse = false, .two = stave::fft2},
                             {.name = "ifft2", .kind = complex, .inverse = true, .two = stave::ifft2},
                             {.name = "rfft2", .kind = real_to_complex, .inverse = false, .two = stave::rfft2},
                             {.name = "irfft2", .kind = complex_to_real, .inverse = true, .two = stave::irfft2}})
    rows.push_back({.name = t.name,
                    .dtypes = transformed_dtypes,
                    .variants = [t](Dtype dtype) { return transform_variants(t, dtype); },
                    .bitwise = false});
  for (const bool half : {false, true})
    rows.push_back(
        {.name = half ? "rfftfreq" : "fftfreq", .dtypes = transformed_dtypes, .variants = [half](Dtype dtype) {
           return std::vector<Variant>{frequencies_of(dtype, 0, 1, half), frequencies_of(dtype, 1, 1, half),
                                       frequencies_of(dtype, 8, 0.25, half), frequencies_of(dtype, 9, 3, half)};
         }});
  rows.push_back({.name = "fftshift", .dtypes = all_dtypes, .variants = shift_variants<false>, .accuracy = 0});
  rows.push_back({.name = "ifftshift", .dtypes = all_dtypes, .variants = shift_variants<true>, .accuracy = 0});
}

void add_signal_rows(std::vector<Row>& rows) {
  const auto add = [&](const char* name, std::vector<Variant> (*variants)(Dtype)) {
    rows.push_back({.name = name, .dtypes = transformed_dtypes, .variants = variants, .bitwise = false});
  };
  add("convolve", convolution_variants<true>);
  add("fftconvolve", convolution_variants<false>);
  add("dct", cosine_variants<stave::dct, false>);
  add("idct", cosine_variants<stave::idct, true>);
  add("stft", stft_variants);
  add("istft", istft_variants);
}

}  // namespace table
