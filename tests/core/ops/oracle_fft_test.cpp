// Fourier transforms and functions of signals against NumPy, SciPy and JAX. Complex arrays have a
// last axis of real and imaginary parts.
#include <stave/core/ops/complex.h>
#include <stave/core/ops/fft.h>
#include <stave/core/ops/signal.h>

#include "oracle.h"

namespace oracle_fft_test {

using namespace oracle;

Tensor joined(const Tensor& x) { return complex(x(ellipsis, 0), x(ellipsis, 1)); }
Results parted(const Tensor& z) { return {stack({real(z), imag(z)}, -1)}; }

FftNorm norm_of(const Options& o) {
  if (!o.has("norm")) return FftNorm::backward;
  const std::string& word = o.word("norm");
  return word == "ortho" ? FftNorm::ortho : word == "forward" ? FftNorm::forward : FftNorm::backward;
}
std::optional<Index> length_of(const Options& o) { return o.has("n") ? std::optional(o.index("n", 0)) : std::nullopt; }
std::optional<Shape> list_of(const Options& o, const char* name) {
  return o.has(name) ? std::optional(Shape(o.list(name))) : std::nullopt;
}
FftOptions along_one(const Options& o) { return {.n = length_of(o), .axis = o.index("axis", -1), .norm = norm_of(o)}; }
FftnOptions along_many(const Options& o) {
  return {.s = list_of(o, "s"), .axes = list_of(o, "axes"), .norm = norm_of(o)};
}
DctOptions cosine(const Options& o) {
  return {
      .type = static_cast<int>(o.index("type", 2)), .n = length_of(o), .axis = o.index("axis", -1), .norm = norm_of(o)};
}
ConvolveMode mode_of(const Options& o) {
  const std::string& word = o.word("mode");
  return word == "full" ? ConvolveMode::full : word == "same" ? ConvolveMode::same : ConvolveMode::valid;
}
StftOptions short_time(const Options& o) {
  return {.hop = o.index("hop", 0), .n = length_of(o), .centered = !o.has("plain")};
}

// The results and the operands of a function, which are complex or real.
template <auto f, class Of>
Function complex_to_complex(Of of) {
  return [=](Given x, const Options& o) { return parted(f(joined(x[0]), of(o))); };
}
template <auto f, class Of>
Function real_to_complex(Of of) {
  return [=](Given x, const Options& o) { return parted(f(x[0], of(o))); };
}
template <auto f, class Of>
Function complex_to_real(Of of) {
  return [=](Given x, const Options& o) { return Results{f(joined(x[0]), of(o))}; };
}
template <auto f, class Of>
Function real_to_real(Of of) {
  return [=](Given x, const Options& o) { return Results{f(x[0], of(o))}; };
}

template <Tensor (*whole)(const Tensor&), Tensor (*of_axes)(const Tensor&, const Shape&)>
Function shift() {
  return [](Given x, const Options& o) {
    return Results{o.has("axes") ? of_axes(x[0], Shape(o.list("axes"))) : whole(x[0])};
  };
}

TEST(Oracle, Fft) {
  const auto two = [](const Options&) { return Fft2Options{}; };
  check_oracle(
      "oracle_fft.txt",
      {{"fft", complex_to_complex<stave::fft>(along_one)},
       {"ifft", complex_to_complex<stave::ifft>(along_one)},
       {"rfft", real_to_complex<stave::rfft>(along_one)},
       {"irfft", complex_to_real<stave::irfft>(along_one)},
       {"hfft", complex_to_real<stave::hfft>(along_one)},
       {"ihfft", real_to_complex<stave::ihfft>(along_one)},
       {"fftn", complex_to_complex<stave::fftn>(along_many)},
       {"ifftn", complex_to_complex<stave::ifftn>(along_many)},
       {"rfftn", real_to_complex<stave::rfftn>(along_many)},
       {"irfftn", complex_to_real<stave::irfftn>(along_many)},
       {"fft2", complex_to_complex<stave::fft2>(two)},
       {"ifft2", complex_to_complex<stave::ifft2>(two)},
       {"rfft2", real_to_complex<stave::rfft2>(two)},
       {"irfft2", complex_to_real<stave::irfft2>(two)},
       {"fftfreq",
        [](Given, const Options& o) { return Results{fftfreq(o.index("n", 1), o.number("d", 1), float64)}; }},
       {"rfftfreq",
        [](Given, const Options& o) { return Results{rfftfreq(o.index("n", 1), o.number("d", 1), float64)}; }},
       {"fftshift", shift<stave::fftshift, stave::fftshift>()},
       {"ifftshift", shift<stave::ifftshift, stave::ifftshift>()},
       {"dct", real_to_real<stave::dct>(cosine)},
       {"idct", real_to_real<stave::idct>(cosine)},
       {"convolve", [](Given x, const Options& o) { return Results{convolve(x[0], x[1], {.mode = mode_of(o)})}; }},
       {"fftconvolve",
        [](Given x, const Options& o) {
          return Results{fftconvolve(x[0], x[1], {.mode = mode_of(o), .axes = list_of(o, "axes")})};
        }},
       {"stft", [](Given x, const Options& o) { return parted(stft(x[0], x[1], short_time(o))); }},
       {"istft",
        [](Given x, const Options& o) {
          return Results{istft(joined(x[0]), x[1], o.index("length", 0), short_time(o))};
        }}},
      8);
}

}  // namespace oracle_fft_test
