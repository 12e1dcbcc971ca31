// Incomplete gamma and beta functions, and relatives of the gamma function.
//
// The functions themselves are Boost.Math's. Their derivatives with respect to parameters are
// integrals of the density times a polynomial. Let f(t) = t^(a-1) e^-t / Gamma(a). The derivative
// of log f with respect to a is log t - digamma(a), and the higher ones are -polygamma(k, a). So
// the n-th derivative of f with respect to a is f times the complete Bell polynomial of these
// numbers, and that of the distribution function is its integral. The derivatives of the beta
// density are computed in the same way.

#include <algorithm>
#include <array>
#include <cmath>

#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <boost/math/special_functions/polygamma.hpp>

#include <stave/backends/cpu/special_functions.h>
#include <stave/backends/cpu/special_policy.h>

namespace stave_cpu::special {

namespace {

/// The largest order of a derivative with respect to a parameter. Higher ones are NaN.
constexpr int most_order = 8;

double polygamma(int n, double x) {
  return n == 0 ? boost::math::digamma(x, Quiet()) : boost::math::polygamma(n, x, Quiet());
}

constexpr double binomial(int n, int k) {
  double value = 1;
  for (int i = 1; i <= k; ++i) value = value * (n - k + i) / i;
  return value;
}

/// The derivatives of log f with respect to a, at a point t: `first` is log t - digamma(a).
struct GammaBell {
  int order;
  std::array<double, most_order + 1> logarithmic;
  double digamma_a;

  GammaBell(int n, double a) : order(n), logarithmic(), digamma_a(polygamma(0, a)) {
    for (int k = 2; k <= n; ++k) logarithmic[static_cast<std::size_t>(k)] = -polygamma(k - 1, a);
  }
  /// The n-th derivative of f with respect to a, divided by f.
  double operator()(double log_t) const {
    // H_0 = 1, H_m = sum of C(m-1, k-1) L_k H_(m-k) over k = 1, ..., m.
    std::array<double, most_order + 1> h = {1};
    for (int m = 1; m <= order; ++m)
      for (int k = 1; k <= m; ++k)
        h[static_cast<std::size_t>(m)] += binomial(m - 1, k - 1) *
                                          (k == 1 ? log_t - digamma_a : logarithmic[static_cast<std::size_t>(k)]) *
                                          h[static_cast<std::size_t>(m - k)];
    return h[static_cast<std::size_t>(order)];
  }
};

/// The integral of f(u) over u > 0 for an f that decays like e^(-u / scale) or faster. It is the
/// trapezoidal rule after u = scale exp(t - e^-t) (Takahasi and Mori, "Double exponential formulas
/// for numerical integration", 1974). Halving the step squares the error.
template <class F>
double integral(double scale, F f) {
  constexpr double low = -3.75, high = 6.5;
  const auto term = [&](double t) {
    const double e = std::exp(-t), u = scale * std::exp(t - e);
    return f(u) * u * (1 + e);
  };
  double step = 0.125, sum = 0;
  for (double t = low; t <= high; t += step) sum += term(t);
  for (int level = 0; level < 6; ++level) {
    double between = 0;
    for (double t = low + step / 2; t <= high; t += step) between += term(t);
    const bool close = std::abs(sum - between) <= 1e-9 * std::abs(sum);
    sum += between;
    step /= 2;
    if (close) break;
  }
  return sum * step;
}

/// u + expm1(-u), accurate for small u.
double rest_of_exponential(double u) {
  if (std::abs(u) > 0.5) return u + std::expm1(-u);
  double term = 1, sum = 0;  // u^2 (1/2 - u/3! + u^2/4! - ...)
  for (int k = 2; k < 18; ++k) {
    term /= k;
    sum += term;
    term *= -u;
  }
  return u * u * sum;
}

/// exp(x) for an exponent x whose last digits matter.
double exp_of(long double x) {
  const double high = static_cast<double>(x), low = static_cast<double>(x - high);
  return std::exp(high) * (1 + low);
}

constexpr double large = 8;  // stirling_rest takes numbers from here on
constexpr double half_log_two_pi = 0.9189385332046727;

/// lgamma(x) - (x - 1/2) log x + x - log(2 pi) / 2 for x >= 8 (Abramowitz and Stegun 6.1.41).
double stirling_rest(double x) {
  constexpr double terms[] = {1. / 12,        -1. / 360, 1. / 1260,       -1. / 1680,     1. / 1188,
                              -691. / 360360, 1. / 156,  -3617. / 122400, 43867. / 244188};
  double sum = 0;
  for (int i = 8; i >= 0; --i) sum = sum / (x * x) + terms[i];
  return sum / x;
}

/// x^a e^-x / Gamma(a)
double scaled_density(double a, double x) {
  const long double log_x = std::log(static_cast<long double>(x));
  if (a < large) return exp_of(a * log_x - x) / boost::math::tgamma(a, Quiet());
  // With Stirling's formula: sqrt(a / 2 pi) exp(a log(x / a) - (x - a)).
  const long double above = static_cast<long double>(x) - a, ratio = above / a;
  const long double log_ratio =
      std::abs(ratio) < 0.5L ? std::log1p(ratio) : log_x - std::log(static_cast<long double>(a));
  return std::sqrt(a / (2 * pi)) * exp_of(a * log_ratio - above - stirling_rest(a));
}

double density(double a, double x) {
  if (x == 0) return a < 1 ? infinity : a == 1 ? 1 : 0;
  const double scaled = scaled_density(a, x);
  // For tiny x the product may underflow although the quotient does not.
  return scaled > 1e-290 ? scaled / x : exp_of((a - 1) * std::log(static_cast<long double>(x)) - x - std::lgamma(a));
}

/// Returns true where Boost.Math computes the tail beyond x, as seen from a, as a product with x^a
/// e^-x / Gamma(a): not for small numbers, not by a finite sum for 2a an integer, and not by
/// Temme's method near x = a.
bool is_product(double a, double x) {
  const double distance = std::abs(x - a) / a;
  if (x < a ? a < 0.6 : x < 1.1) return false;
  if (a < 30 && is_whole(2 * a) && a <= x + 1) return false;
  return a <= 20 || (a > 200 ? distance * distance * a > 22 : distance > 0.41);
}

/// The two tails of the gamma distribution. The exponential in Boost.Math's product loses digits,
/// and is replaced by that of `density`.
struct Tails {
  double lower, upper;
  Tails(double a, double x) {
    const bool is_lower = x < a;
    double tail = is_lower ? boost::math::gamma_p(a, x, Quiet()) : boost::math::gamma_q(a, x, Quiet());
    if (is_product(a, x))
      if (const double f = boost::math::gamma_p_derivative(a, x, Quiet()); f > 1e-290) tail *= density(a, x) / f;
    const double other = tail < 0.75 ? 1 - tail
                         : is_lower  ? boost::math::gamma_q(a, x, Quiet())
                                     : boost::math::gamma_p(a, x, Quiet());
    lower = is_lower ? tail : other;
    upper = is_lower ? other : tail;
  }
};

bool is_order(double n) { return n >= 0 && n <= most_order && is_whole(n); }

}  // namespace

double gammainc(double n, double a, double x) {
  if (!(a >= 0) || !(x >= 0) || !is_order(n)) return nan;
  if (n > 0) {
    if (a == 0 || std::isinf(a)) return nan;
    if (x == 0 || std::isinf(x)) return 0;
    const GammaBell bell(static_cast<int>(n), a);
    const double log_x = std::log(x), f = scaled_density(a, x);
    if (f == 0) return 0;
    // Below the point where log t is digamma(a) the first derivative has one sign, and likewise
    // above. Either part of the integral is the derivative, since both together are 0. With t = x
    // e^-u: t f(t) = x f(x) exp(-(a - x) u - x (u + expm1(-u))).
    if (log_x < bell.digamma_a)
      return f * integral(1 / std::max(a - x, std::min(a, std::sqrt(a))), [&](double u) {
               return bell(log_x - u) * std::exp(-(a - x) * u - x * rest_of_exponential(u));
             });
    return -f * integral(1 / std::max(x - a, std::sqrt(x)), [&](double u) {
      return bell(log_x + u) * std::exp((a - x) * u - x * rest_of_exponential(-u));
    });
  }
  if (a == 0) return x > 0 ? 1 : nan;
  if (std::isinf(a)) return std::isinf(x) ? nan : 0;
  if (std::isinf(x)) return 1;
  return Tails(a, x).lower;
}

double gammaincc(double a, double x) {
  if (!(a >= 0) || !(x >= 0)) return nan;
  if (a == 0) return x > 0 ? 0 : nan;
  if (std::isinf(a)) return std::isinf(x) ? nan : 1;
  if (std::isinf(x)) return 0;
  return Tails(a, x).upper;
}

double gamma_density(double n, double a, double x) {
  if (n < 0) return 0;
  if (!(a > 0) || !(x >= 0) || !is_order(n)) return nan;
  if (std::isinf(x)) return 0;
  if (n == 0) return density(a, x);
  return x == 0 ? nan : density(a, x) * GammaBell(static_cast<int>(n), a)(std::log(x));
}

// ---- the beta distribution ----------------------------------------------------------------------

namespace {

/// The derivatives of the log of t^(a-1) (1-t)^(b-1) / B(a, b) with respect to a and b.
struct BetaBell {
  int m, n;
  double logarithmic[most_order + 1][most_order + 1] = {};
  double first_a, first_b;  // without log t and log(1 - t)

  BetaBell(int m_, int n_, double a, double b) : m(m_), n(n_) {
    double both[most_order + 1] = {};
    for (int k = 0; k <= std::max(m + n - 1, 0); ++k) both[k] = polygamma(k, a + b);
    first_a = both[0] - polygamma(0, a);
    first_b = both[0] - polygamma(0, b);
    for (int i = 0; i <= m; ++i)
      for (int j = 0; j <= n; ++j)
        if (i + j > 1)
          logarithmic[i][j] = both[i + j - 1] - (j == 0 ? polygamma(i - 1, a) : i == 0 ? polygamma(j - 1, b) : 0);
  }
  double operator()(double log_t, double log_rest) {
    logarithmic[1][0] = log_t + first_a;
    logarithmic[0][1] = log_rest + first_b;
    double h[most_order + 1][most_order + 1] = {{1}};
    for (int i = 0; i <= m; ++i)
      for (int j = 0; j <= n; ++j) {
        if (i == 0 && j == 0) continue;
        // One of the derivatives (with respect to a if there is one) acts on the exponent first.
        const int p = i > 0, q = 1 - p;
        for (int k = 0; k <= i - p; ++k)
          for (int l = 0; l <= j - q; ++l)
            h[i][j] += binomial(i - p, k) * binomial(j - q, l) * logarithmic[k + p][l + q] * h[i - p - k][j - q - l];
      }
    return h[m][n];
  }
};

/// log(Gamma(b) / Gamma(a + b)) for b >= 8, without stirling_rest.
long double log_gamma_ratio(long double a, long double b) {
  const long double log_ratio = std::log1p(a / b);
  return -((b - 0.5L) * log_ratio + a * (std::log(b) + log_ratio - 1));
}

/// Gamma(b) / Gamma(a + b) for b > 0 and a + b > 0.
double gamma_ratio(long double a, long double b) {
  long double factor = 1;  // Gamma(b) = Gamma(b + 1) / b
  for (; a + b < large; a += 1) factor *= a + b;
  for (; b < large; b += 1, a -= 1) factor /= b;
  const double rest = stirling_rest(static_cast<double>(b)) - stirling_rest(static_cast<double>(a + b));
  return static_cast<double>(factor * exp_of(log_gamma_ratio(a, b) + rest));
}

/// B(a, b) for 0 < a <= b < 8.
double beta(double a, double b) { return boost::math::tgamma(a, Quiet()) * gamma_ratio(a, b); }

/// x^a y^b / B(a, b) with y = 1 - x
double scaled_beta_density(double a, double b, double x, double y) {
  using Real = long double;
  if (a > b) {
    std::swap(a, b);
    std::swap(x, y);
  }
  if (a >= large) {
    // With Stirling's formula: sqrt(a b / (2 pi (a + b))) (x / p)^a (y / q)^b for p = a / (a + b),
    // q = 1 - p.
    const Real off = Real(x) * b - Real(y) * a;
    const double rest = stirling_rest(a + b) - stirling_rest(a) - stirling_rest(b);
    return std::sqrt(a / (2 * pi) * (b / (a + b))) * exp_of(a * std::log1p(off / a) + b * std::log1p(-off / b) + rest);
  }
  const Real log_x = std::log(Real(x)), log_y = x < 0.5 ? std::log1p(-Real(x)) : std::log(Real(y));
  if (b < large) return exp_of(a * log_x + b * log_y) / beta(a, b);
  const double rest = stirling_rest(a + b) - stirling_rest(b);
  return exp_of(a * log_x + b * log_y - log_gamma_ratio(a, b) + rest) / boost::math::tgamma(a, Quiet());
}

double beta_density_of(double a, double b, double x) { return scaled_beta_density(a, b, x, 1 - x) / x / (1 - x); }

/// The continued fraction of Didonato and Morris ("Algorithm 708", 1992, equation 9; DLMF 8.17.22)
/// by which x^a y^b / B(a, b) is multiplied, for x below about a / (a + b). NaN if it does not
/// settle.
double beta_fraction(double a, double b, double x) {
  using Real = long double;  // later terms alternate
  Real c = 1, d = 1 / (1 - Real(a + b) * x / (a + 1)), value = d;
  for (Real m = 1; m < 5000; ++m) {
    const Real even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / (1 + even * d);
    c = 1 + even / c;
    value *= c * d;
    const Real odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / (1 + odd * d);
    c = 1 + odd / c;
    value *= c * d;
    if (std::abs(c * d - 1) < 1e-17L) return static_cast<double>(value / a);
  }
  return nan;
}

/// The integral of the beta density from 0 to x.
double beta_tail(double a, double b, double x, double y) {
  const double value = scaled_beta_density(a, b, x, y) * beta_fraction(a, b, x);
  return std::isnan(value) ? boost::math::ibeta(a, b, x, Quiet()) : value;
}

/// The integral of the (m, n)-th derivative of the density from 0 to x. With t = x e^-u:
///   t f(t) = x f(x) exp(-a u) ((1 - t) / (1 - x))^(b-1).
double lower_part(int m, int n, double a, double b, double x, double rest) {
  BetaBell bell(m, n, a, b);
  const double log_x = std::log(x), log_rest = std::log(rest), odds = x / rest;
  const double scale = 1 / std::max(a - b * odds, std::min(a, std::sqrt(a)));
  return integral(scale, [&](double u) {
    const double beyond = std::log1p(-odds * std::expm1(-u));
    return bell(log_x - u, log_rest + beyond) * std::exp(-a * u + (b - 1) * beyond);
  });
}

bool are_orders(double m, double n) { return is_order(m) && is_order(n) && m + n <= most_order; }

}  // namespace

double betainc(double m, double n, double a, double b, double x) {
  if (!(a >= 0) || !(b >= 0) || !(x >= 0 && x <= 1) || !are_orders(m, n)) return nan;
  if (m + n > 0) {
    if (a == 0 || b == 0 || std::isinf(a) || std::isinf(b)) return nan;
    if (x == 0 || x == 1) return 0;
    const int i = static_cast<int>(m), j = static_cast<int>(n);
    const double rest = 1 - x, both = polygamma(0, a + b), product = scaled_beta_density(a, b, x, rest);
    if (product == 0) return 0;
    const bool below = i > 0 ? std::log(x) < polygamma(0, a) - both : std::log(rest) > polygamma(0, b) - both;
    return below ? product / rest * lower_part(i, j, a, b, x, rest) : -product / x * lower_part(j, i, b, a, rest, x);
  }
  if ((a == 0 && b == 0) || (std::isinf(a) && std::isinf(b))) return nan;
  if (a == 0 || std::isinf(b)) return x > 0 ? 1 : 0;
  if (b == 0 || std::isinf(a)) return x < 1 ? 0 : 1;
  if (x == 0 || x == 1) return x;
  const double y = 1 - x;
  if (x <= (a + 1) / (a + b + 2)) return beta_tail(a, b, x, y);
  const double upper = beta_tail(b, a, y, x);
  return upper < 0.9 ? 1 - upper : boost::math::ibeta(a, b, x, Quiet());
}

double beta_density(double m, double n, double a, double b, double x) {
  if (m < 0 || n < 0) return 0;
  if (!(a > 0) || !(b > 0) || !(x >= 0 && x <= 1) || !are_orders(m, n)) return nan;
  if (m + n == 0) {
    if (x == 0) return a < 1 ? infinity : a > 1 ? 0 : b;
    if (x == 1) return b < 1 ? infinity : b > 1 ? 0 : a;
    return beta_density_of(a, b, x);
  }
  if (x == 0 || x == 1) return nan;
  return beta_density_of(a, b, x) *
         BetaBell(static_cast<int>(m), static_cast<int>(n), a, b)(std::log(x), std::log1p(-x));
}

// ---- relatives of the gamma function ------------------------------------------------------------

double betaln(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return nan;
  if (a > b) std::swap(a, b);
  if (a <= 0) {
    if (a == 0) return infinity;
    const double sum = std::lgamma(a) + std::lgamma(b), both = std::lgamma(a + b);
    if (!is_gamma_pole(a) || !is_gamma_pole(a + b)) return sum - both;
    // Both poles cancel: B(a, b) = (-1)^b B(1 - a - b, b).
    return betaln(1 - a - b, b);
  }
  if (std::isinf(b)) return -infinity;
  if (a >= large) {
    const double rest = stirling_rest(a) + stirling_rest(b) - stirling_rest(a + b);
    return (rest + half_log_two_pi - 0.5 * std::log(b)) - (a - 0.5) * std::log1p(b / a) - b * std::log1p(a / b);
  }
  if (b < large) return std::log(beta(a, b));
  const double rest = stirling_rest(b) - stirling_rest(a + b);
  return static_cast<double>(std::lgamma(static_cast<long double>(a)) + log_gamma_ratio(a, b) + rest);
}

double poch(double a, double m) {
  if (std::isnan(a) || std::isnan(m)) return nan;
  constexpr double few = 32;
  if (is_whole(m) && std::abs(m) <= few) {
    double product = 1;
    for (double i = 0; i < m; ++i) product *= a + i;
    for (double i = -1; i >= m; --i) product *= a + i;
    return m < 0 ? 1 / product : product;
  }
  const double sum = a + m;
  if (a > 0 && sum > 0) return 1 / gamma_ratio(m, a);
  if (is_gamma_pole(a)) {
    if (!is_gamma_pole(sum)) return 0;
    // Gamma(a + m) / Gamma(a) = (-1)^m Gamma(1 - a) / Gamma(1 - a - m)
    return (std::fmod(m, 2) == 0 ? 1 : -1) / poch(1 - a, -m);
  }
  if (is_gamma_pole(sum)) return infinity;
  // Gamma(x) Gamma(1 - x) = pi / sin(pi x)
  if (a < 0 && sum < 0) return sin_pi(a) / sin_pi(sum) / gamma_ratio(m, 1 - static_cast<long double>(a) - m);
  constexpr double most = 170;
  if (std::abs(a) < most && std::abs(sum) < most) {
    // What the sum lost when it was rounded changes Gamma(sum) by digamma(sum) times that.
    const double given = sum - a, lost = (a - (sum - given)) + (m - given);
    const double quotient = boost::math::tgamma(sum, Quiet()) / boost::math::tgamma(a, Quiet());
    return quotient + quotient * (lost * polygamma(0, sum));
  }
  const auto sign = [](double x) { return x > 0 || std::fmod(std::floor(x), 2) == 0 ? 1. : -1.; };
  return sign(a) * sign(sum) * std::exp(std::lgamma(sum) - std::lgamma(a));
}

// The formula of Euler and Maclaurin, as zeta_of_positive (core/ops/polygamma.h), for power series
// in e with s + e in place of s. The n-th derivative is n! times the coefficient of e^n.
double zeta_derivative(double n, double s, double q) {
  if (n < 0) return 0;
  if (!(s > 1) || !(q > 0) || !is_order(n)) return nan;
  constexpr int terms = 12;
  // B_2k / (2k)! for k = 1, ..., 9.
  constexpr double tail[] = {0.083333333333333333333,   -0.0013888888888888888889,  3.3068783068783068783e-5,
                             -8.2671957671957671958e-7, 2.0876756987868098979e-8,   -5.2841901386874931848e-10,
                             1.3382536530684678833e-11, -3.3896802963225828668e-13, 8.5860620562778445641e-15};
  using Series = std::array<double, most_order + 1>;
  const auto order = static_cast<std::size_t>(n);
  const auto power = [&](double base, double exponent) {  // base^(exponent - e)
    Series y = {std::pow(base, exponent)};
    const double log_base = std::log(base);
    for (std::size_t k = 1; k <= order; ++k) y[k] = -y[k - 1] * log_base / static_cast<double>(k);
    return y;
  };
  const auto times = [&](const Series& x, const Series& y) {
    Series product = {};
    for (std::size_t i = 0; i <= order; ++i)
      for (std::size_t j = 0; i + j <= order; ++j) product[i + j] += x[i] * y[j];
    return product;
  };
  const double a = q + terms;
  Series inverse = {1 / (s - 1)};  // 1 / (s + e - 1)
  for (std::size_t k = 1; k <= order; ++k) inverse[k] = -inverse[k - 1] / (s - 1);
  Series factor = {s / a, 1 / a};  // (s + e) (s + e + 1) ... (s + e + 2k - 2) / a^(2k-1)
  Series rest = {0.5};
  for (int k = 1; k <= 9; ++k) {
    for (std::size_t i = 0; i <= order; ++i) rest[i] += tail[k - 1] * factor[i];
    factor = times(factor, times({(s + 2 * k - 1) / a, 1 / a}, {(s + 2 * k) / a, 1 / a}));
  }
  const Series at_end = times(power(a, -s), rest), beyond = times(power(a, 1 - s), inverse);
  double sum = at_end[order] + beyond[order];
  for (int k = terms - 1; k >= 0; --k) sum += power(q + k, -s)[order];
  double factorial = 1;
  for (double k = 2; k <= n; ++k) factorial *= k;
  return factorial * sum;
}

}  // namespace stave_cpu::special
