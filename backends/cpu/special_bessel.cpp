// Bessel functions of integer order, by Boost.Math. Where its J and Y of order 0 and 1 lose digits,
// polynomials replace them, and higher orders below x follow by recurrence.

#include <cmath>

#include <boost/math/special_functions/bessel.hpp>

#include <stave/backends/cpu/special_functions.h>
#include <stave/backends/cpu/special_policy.h>
#include <stave/backends/cpu/special_series.h>

namespace stave_cpu::special {

namespace {

constexpr double largest_order = 1e6;

/// Returns the order as an int, and the sign (-1)^n for a negative order.
struct Order {
  int n = 0;
  double sign = 1;
  bool valid = false;

  explicit Order(double order) : valid(std::abs(order) <= largest_order && is_whole(order)) {
    if (!valid) return;
    n = static_cast<int>(std::abs(order));
    if (order < 0 && n % 2) sign = -1;
  }
};

/// The sum of (4n^2 - 1)(4n^2 - 9)...(4n^2 - (2k-1)^2) / (k! (8 x)^k) over k, for large x (DLMF
/// 10.40.1 and 10.40.2, with x negative for I).
double far_series(int n, double x) {
  const double square = 4.0 * n * n;
  double term = 1, sum = 1;
  for (int k = 1; k < 100; ++k) {
    const double odd = 2 * k - 1, next = term * (square - odd * odd) / (k * 8 * x);
    if (std::abs(next) > std::abs(term)) break;
    term = next;
    sum += term;
    if (std::abs(term) < 1e-17 * std::abs(sum)) break;
  }
  return sum;
}
/// True where the scaled functions are computed by far_series; elsewhere the functions are within
/// range.
bool is_far(int n, double x) { return x > 600 && x > 4.0 * n * n; }

double j0(double x) {
  if (x < 2 || x > 8) return boost::math::cyl_bessel_j(0, x, Quiet());
  return ((x - j0_zero0) - j0_zero0_rest) * ((x - j0_zero1) - j0_zero1_rest) * bessel_j0_middle(x);
}
double j1(double x) {
  if (x < 2 || x > 8) return boost::math::cyl_bessel_j(1, x, Quiet());
  return ((x - j1_zero0) - j1_zero0_rest) * ((x - j1_zero1) - j1_zero1_rest) * bessel_j1_middle(x);
}
double y0(double x) { return boost::math::cyl_neumann(0, x, Quiet()); }
double y1(double x) { return x < 6 || x > 8 ? boost::math::cyl_neumann(1, x, Quiet()) : bessel_y1_middle(x); }

/// C_n(x) from C_0(x) and C_1(x): C_(k+1) = (2k / x) C_k - C_(k-1) (DLMF 10.6.1).
double by_recurrence(int n, double x, double first, double second) {
  for (int k = 1; k < n; ++k) {
    const double next = 2 * k / x * second - first;
    first = second;
    second = next;
  }
  return second;
}

}  // namespace

double bessel_j(double order, double x) {
  const Order o(order);
  if (!o.valid || std::isnan(x)) return nan;
  if (std::isinf(x)) return 0;
  const double size = std::abs(x), sign = x < 0 && o.n % 2 ? -o.sign : o.sign;
  if (o.n == 0) return j0(size);
  if (o.n == 1) return sign * j1(size);
  return sign *
         (o.n < size ? by_recurrence(o.n, size, j0(size), j1(size)) : boost::math::cyl_bessel_j(o.n, size, Quiet()));
}

double bessel_y(double order, double x) {
  const Order o(order);
  if (!o.valid || !(x >= 0)) return nan;
  if (x == 0) return o.sign * -infinity;
  if (std::isinf(x)) return 0;
  if (o.n == 0) return y0(x);
  if (o.n == 1) return o.sign * y1(x);
  return o.sign * (o.n < x ? by_recurrence(o.n, x, y0(x), y1(x)) : boost::math::cyl_neumann(o.n, x, Quiet()));
}

double bessel_i(double order, double x) {
  const Order o(order);
  if (!o.valid || std::isnan(x)) return nan;
  const double parity = x < 0 && o.n % 2 ? -1 : 1, size = std::abs(x);
  return std::isinf(x) ? parity * infinity : parity * boost::math::cyl_bessel_i(o.n, size, Quiet());
}

double bessel_ie(double order, double x) {
  const Order o(order);
  if (!o.valid || std::isnan(x)) return nan;
  const double parity = x < 0 && o.n % 2 ? -1 : 1, size = std::abs(x);
  if (std::isinf(x)) return parity * 0.0;
  if (is_far(o.n, size)) return parity * far_series(o.n, -size) / std::sqrt(2 * pi * size);
  return parity * boost::math::cyl_bessel_i(o.n, size, Quiet()) * std::exp(-size);
}

double bessel_k(double order, double x) {
  const Order o(order);
  if (!o.valid || !(x >= 0)) return nan;
  if (x == 0) return infinity;
  return std::isinf(x) ? 0 : boost::math::cyl_bessel_k(o.n, x, Quiet());
}

double bessel_ke(double order, double x) {
  const Order o(order);
  if (!o.valid || !(x >= 0)) return nan;
  if (x == 0) return infinity;
  if (std::isinf(x)) return 0;
  if (is_far(o.n, x)) return far_series(o.n, x) * std::sqrt(pi / (2 * x));
  return boost::math::cyl_bessel_k(o.n, x, Quiet()) * std::exp(x);
}

}  // namespace stave_cpu::special
