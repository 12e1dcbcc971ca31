// Random numbers of one key, as the functions of jax.random give them. Start at SamplerKey.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/special_functions.h>

namespace stave_cpu {

inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// A key of the counter-based generator.
struct SamplerKey {
  std::uint32_t k0 = 0, k1 = 0;

  /// The block of words at a counter; the upper half is the first word.
  std::uint64_t word(std::uint64_t counter) const {
    std::uint64_t block;
    kernels().random_words(&block, k0, k1, counter, 1);
    return block;
  }
  static SamplerKey of(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint32_t>(word)};
  }
  /// Row `i` of split(key, n).
  SamplerKey child(std::uint64_t i) const { return of(word(i)); }
  template <std::size_t n>
  std::array<SamplerKey, n> split() const {
    std::uint64_t words[n];
    kernels().random_words(words, k0, k1, 0, static_cast<Index>(n));
    std::array<SamplerKey, n> keys;
    for (std::size_t i = 0; i < n; ++i) keys[i] = of(words[i]);
    return keys;
  }
};

/// Element `i` of uniform(key, shape) in dtype T: a number in [0, 1).
template <class T>
double uniform_of(SamplerKey key, std::uint64_t i = 0) {
  const std::uint64_t w = key.word(i);
  if constexpr (sizeof(T) == 8) return static_cast<double>(w >> 12) * 0x1p-52;
  else return static_cast<double>((static_cast<std::uint32_t>(w >> 32) ^ static_cast<std::uint32_t>(w)) >> 9) * 0x1p-23;
}

/// normal(key) in dtype T, but for its last rounding: sqrt(2) erfinv(u) of a u in (-1, 1) that is
/// rounded to T.
template <class T>
double normal_of(SamplerKey key) {
  constexpr double low = (sizeof(T) == 8 ? 0x1p-53 : 0x1p-24) - 1;
  const double u = static_cast<double>(static_cast<T>(2 * uniform_of<T>(key) + low));
  // sqrt(2) erfinv(u) = ndtri((1 + u) / 2); 1 - |u| is exact where it is small.
  return std::copysign(special::ndtri(0.5 - 0.5 * std::abs(u)), u);
}

/// A stream of uniform numbers in (0, 1) from one key. Each is half a step above the number that
/// uniform would give, so that none is 0.
class UniformStream {
 public:
  explicit UniformStream(SamplerKey key) : key_(key) {}
  double next() { return uniform_of<double>(key_, counter_++) + 0x1p-53; }

 private:
  SamplerKey key_;
  std::uint64_t counter_ = 0;
};

// ---- draws with a key for each element ----------------------------------------------------------

/// A draw of Gamma(a, 1), or its logarithm, from uniform numbers of dtype T. It is NaN for a < 0.
template <class T>
double gamma_draw(SamplerKey key, double a, bool logarithm);
/// A draw of the von Mises distribution around 0, in [-pi, pi]. It is NaN for kappa < 0.
double von_mises_draw(SamplerKey key, double kappa);
/// The number of good items among `drawn` items of good + bad ones, or -1 if there are fewer items.
std::int32_t hypergeometric_draw(SamplerKey key, double good, double bad, double drawn);

// ---- draws with a key for each array ------------------------------------------------------------

/// Numbers of float or double, read as double. `step` is 0 if all elements are one number.
struct Parameter {
  const void* data = nullptr;
  bool is_double = true;
  Index step = 1;

  double operator[](Index i) const {
    return is_double ? static_cast<const double*>(data)[i * step]
                     : static_cast<double>(static_cast<const float*>(data)[i * step]);
  }
  /// The elements from `first` on.
  Parameter from(Index first) const {
    const Index size = is_double ? 8 : 4;
    return {static_cast<const char*>(data) + first * step * size, is_double, step};
  }
};

/// Draws n numbers of Poisson distributions. A rate that is NaN or negative gives -1.
void poisson_draws(SamplerKey key, const Parameter& rates, std::int32_t* out, Index n);
/// Draws n numbers of binomial distributions, from uniform numbers of the dtype of `probabilities`.
/// A count or probability that is NaN or negative gives -1.
void binomial_draws(SamplerKey key, const Parameter& counts, const Parameter& probabilities, std::int32_t* out,
                    Index n);

/// The elements of a draw that are worth a second thread: each takes about 0.3 us.
inline constexpr Index sampler_grain = 64;

/// Returns the number as int32: the nearest one if it is too large, and -1 for NaN.
inline std::int32_t as_count(double x) {
  if (std::isnan(x)) return -1;
  constexpr auto most = std::numeric_limits<std::int32_t>::max();
  return x >= static_cast<double>(most) ? most : static_cast<std::int32_t>(x);
}

}  // namespace stave_cpu
