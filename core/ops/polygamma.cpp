// polygamma(n, x) = (-1)^(n+1) n! zeta(n+1, x), computed in double precision and rounded once.

#include <stave/core/ops/polygamma.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

// The factor n! / c^(n+1) for a power of two c = 2^exponent. The exponent is chosen so that the
// terms n! (x + k)^-(n+1) are about 1 where x + k is near c.
struct ScaledFactorial {
  int exponent;
  double value;

  explicit ScaledFactorial(int n) {
    exponent = static_cast<int>(std::lround(std::lgamma(n + 1.0) / std::log(2.0) / (n + 1.0)));
    long double product = 1;
    long twos = 0;
    for (int k = 2; k <= n; ++k) {
      int more = 0;
      product = std::frexp(product * static_cast<long double>(k), &more);
      twos += more;
    }
    value = static_cast<double>(std::ldexp(product, static_cast<int>(twos - long{exponent} * (n + 1L))));
  }
};

// Returns n! zeta(n+1, x) for a finite float64 x > 0. It is computed like zeta_of_positive
// (polygamma.h), but from the terms n! / c^s ((x + k) / c)^-s with s = n + 1. These terms are
// within range where the result is, while (x + k)^-s alone underflows much earlier. Each term is
// root * factor * root, where root^2 is the power ((x + k) / c)^-s. The terms lie along a new last
// axis. The last one is where the sum ends and the formula of Euler and Maclaurin begins.
Tensor scaled_sum(int n, const Tensor& x) {
  constexpr ZetaDouble zeta;
  constexpr int terms = ZetaDouble::terms, order = static_cast<int>(std::size(zeta.tail));
  const double s = n + 1.0;
  const ScaledFactorial factorial(n);
  const Tensor q = expand_dims(x, -1), k = arange(0, terms + 1, 1, float64, x.device()), at = q + k;
  const Tensor added = stop_gradient(at - q),
               rest = stop_gradient(q - (at - added)) + (k - added);  // the rounding error of q + k
  const Tensor root = pow(at * std::ldexp(1.0, -factorial.exponent), -0.5 * s);
  const Tensor powers = factorial.value * root * (1 - s * rest / stop_gradient(at)) * root;
  const Tensor a = x + terms, z = 1 / square(a), last = squeeze(entries(powers, x.rank(), terms, 1), -1);
  Tensor series = full_like(x, zeta.tail[0]);
  for (int i = 1; i < order; ++i) {
    const double up = s + 2 * (order - i);
    series = zeta.tail[i] + (up - 1) * up * z * series;
  }
  const Tensor beyond = last * (a / (s - 1) + (0.5 + s / a * series));
  return sum(entries(powers, x.rank(), 0, terms), -1) + beyond;
}

// Returns n! zeta(n+1, x). For small n it is computed as this product, which loses digits only if
// the result is within a few powers of ten of the smallest normal number.
Tensor product(int n, const Tensor& x) {
  constexpr int few = 8;
  if (n <= few) return std::tgamma(n + 1.0) * zeta(n + 1, x);
  // For x < 0 the largest term is at least 2^s. If n! overflows, its product with that term would
  // overflow as well, so n! can be clamped.
  const double factorial = std::min(std::tgamma(n + 1.0), std::numeric_limits<double>::max());
  const Tensor inside = logical_and(x > 0, isfinite(x));
  return where(inside, scaled_sum(n, where(inside, x, 1)), factorial * zeta(n + 1, where(inside, 1, x)));
}

}  // namespace

Tensor polygamma(int n, Tensor x) {
  if (n < 0) fail<IndexError>("polygamma: the order {} is negative", n);
  return named(
      "polygamma",
      [&] {
        const Tensor floats = floating(x);
        if (n == 0) return digamma(floats);
        const Tensor size = product(n, astype(floats, float64));
        return astype(n % 2 == 0 ? -size : size, floats.dtype());
      },
      x);
}

}  // namespace stave
