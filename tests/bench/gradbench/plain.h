// Problems of GradBench in plain C++ for any type of numbers, without a derivative: what the
// functions of problems.h are measured beside and tested against. Lstm and Hand are in
// ../cpp_tools/programs.h.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>
#include <vector>

namespace gradbench_plain {

template <class T>
using Vector = std::vector<T>;
using Size = std::size_t;

template <class T>
T logsumexp(const Vector<T>& x) {
  using std::exp, std::log;
  T largest = x[0];
  for (const T& it : x)
    if (it > largest) largest = it;
  T total = 0.;
  for (const T& it : x) total += exp(it - largest);
  return largest + log(total);
}

template <class T>
T llsq(const Vector<T>& coefficients, Size n) {
  T total = 0.;
  for (Size i = 0; i < n; ++i) {
    const double t = -1 + 2. * static_cast<double>(i) / static_cast<double>(n - 1);
    T difference = static_cast<double>((0 < t) - (t < 0));
    for (Size j = 0; j < coefficients.size(); ++j) difference -= coefficients[j] * std::pow(t, static_cast<double>(j));
    total += difference * difference;
  }
  return total / 2.;
}

template <class T>
Vector<T> ode(const Vector<T>& x, Size steps) {
  const Size n = x.size();
  const double h = 2. / static_cast<double>(steps);
  Vector<T> y(n, T(0.)), k1(n), k2(n), k3(n), k4(n), moved(n);
  const auto slope = [&](const Vector<T>& at, Vector<T>& k) {
    k[0] = x[0];
    for (Size i = 1; i < n; ++i) k[i] = x[i] * at[i - 1];
  };
  const auto move = [&](double length, const Vector<T>& k) {
    for (Size i = 0; i < n; ++i) moved[i] = y[i] + length * k[i];
  };
  for (Size step = 0; step < steps; ++step) {
    slope(y, k1);
    move(h / 2, k1);
    slope(moved, k2);
    move(h / 2, k2);
    slope(moved, k3);
    move(h, k3);
    slope(moved, k4);
    for (Size i = 0; i < n; ++i) y[i] += h / 6 * (k1[i] + 2. * k2[i] + 2. * k3[i] + k4[i]);
  }
  return y;
}

/// Returns the determinant of the rows from `row` on of a matrix [n, n], in the columns that are
/// not taken, by expansion of minors.
template <class T>
T det_of_minor(const Vector<T>& matrix, Size n, Size row, Vector<char>& taken) {
  if (row == n) return T(1.);
  T total = 0.;
  double sign = 1;
  for (Size column = 0; column < n; ++column) {
    if (taken[column]) continue;
    taken[column] = true;
    total += sign * matrix[row * n + column] * det_of_minor(matrix, n, row + 1, taken);
    taken[column] = false;
    sign = -sign;
  }
  return total;
}

/// The mixture's weights [k], means [k, d], logarithms of diagonals [k, d], and entries below them.
template <class T>
struct Mixture {
  Vector<T> weights, means, log_diagonals, below;
};

inline double log_multigamma(double a, Size d) {
  const auto dimension = static_cast<double>(d);
  double total = dimension * (dimension - 1) / 4 * std::log(std::numbers::pi);
  for (Size j = 0; j < d; ++j) total += std::lgamma(a - static_cast<double>(j) / 2);
  return total;
}

template <class T>
T gmm(const Mixture<T>& mixture, const Vector<double>& points, Size d, double gamma, Size m) {
  using std::exp;
  const Size k = mixture.weights.size(), n = points.size() / d, entries = d * (d - 1) / 2;
  Vector<T> diagonals(k * d), log_dets(k, T(0.)), terms(k), centered(d), scaled(d);
  T squares = 0., penalty = 0., total = 0.;
  for (Size i = 0; i < k * d; ++i) {
    diagonals[i] = exp(mixture.log_diagonals[i]);
    log_dets[i / d] += mixture.log_diagonals[i];
    squares += diagonals[i] * diagonals[i];
  }
  for (const T& it : mixture.below) squares += it * it;
  for (const T& it : log_dets) penalty -= static_cast<double>(m) * it;
  penalty += gamma * gamma / 2 * squares;
  for (Size point = 0; point < n; ++point) {
    for (Size c = 0; c < k; ++c) {
      for (Size i = 0; i < d; ++i) centered[i] = points[point * d + i] - mixture.means[c * d + i];
      for (Size i = 0; i < d; ++i) scaled[i] = diagonals[c * d + i] * centered[i];
      const T* entry = mixture.below.data() + c * entries;
      for (Size j = 0; j < d; ++j)
        for (Size i = j + 1; i < d; ++i) scaled[i] += *entry++ * centered[j];
      T length = 0.;
      for (Size i = 0; i < d; ++i) length += scaled[i] * scaled[i];
      terms[c] = mixture.weights[c] + log_dets[c] - 0.5 * length;
    }
    total += logsumexp(terms);
  }
  const double degrees = static_cast<double>(d + m + 1), dimension = static_cast<double>(d);
  const double prior = degrees * dimension * (std::log(gamma) - std::log(2.) / 2) - log_multigamma(degrees / 2, d);
  const double constant = static_cast<double>(n) * dimension / 2 * std::log(2 * std::numbers::pi);
  return total - static_cast<double>(n) * logsumexp(mixture.weights) - penalty + static_cast<double>(k) * prior -
         constant;
}

/// Returns which centroid is nearest, and its squared distance.
inline std::pair<Size, double> nearest(const double* point, const Vector<double>& centroids, Size d) {
  std::pair<Size, double> best{0, INFINITY};
  for (Size c = 0; c < centroids.size() / d; ++c) {
    double distance = 0;
    for (Size i = 0; i < d; ++i) distance += (point[i] - centroids[c * d + i]) * (point[i] - centroids[c * d + i]);
    if (distance < best.second) best = {c, distance};
  }
  return best;
}

/// The sum of the squared distances of the points from these centroids.
template <class T>
T kmeans_by(const Vector<Size>& chosen, const Vector<T>& centroids, const Vector<double>& points, Size d) {
  T total = 0.;
  for (Size i = 0; i < points.size(); ++i) {
    const T difference = points[i] - centroids[chosen[i / d] * d + i % d];
    total += difference * difference;
  }
  return total;
}

inline double kmeans(const Vector<double>& centroids, const Vector<double>& points, Size d) {
  double total = 0;
  for (Size point = 0; point < points.size(); point += d) total += nearest(points.data() + point, centroids, d).second;
  return total;
}

/// The gradient divided by the diagonal of the Hessian. Both are sums over the points of a
/// centroid: of 2 (centroid - point), and of 2.
inline Vector<double> kmeans_direction(const Vector<double>& centroids, const Vector<double>& points, Size d) {
  Vector<double> slopes(centroids.size(), 0.), curvatures(centroids.size(), 0.);
  for (Size point = 0; point < points.size(); point += d) {
    const Size c = nearest(points.data() + point, centroids, d).first;
    for (Size i = 0; i < d; ++i) {
      slopes[c * d + i] += 2 * (centroids[c * d + i] - points[point + i]);
      curvatures[c * d + i] += 2;
    }
  }
  for (Size i = 0; i < slopes.size(); ++i) slopes[i] /= curvatures[i];
  return slopes;
}

/// Returns x [3], rotated about an axis by its length, both in `turn` [3].
template <class T>
std::array<T, 3> rotated(const T* turn, const T& x, const T& y, const T& z) {
  using std::cos, std::sin, std::sqrt;
  const T square_angle = turn[0] * turn[0] + turn[1] * turn[1] + turn[2] * turn[2];
  if (!(square_angle > 0.))
    return {x + turn[1] * z - turn[2] * y, y + turn[2] * x - turn[0] * z, z + turn[0] * y - turn[1] * x};
  const T angle = sqrt(square_angle), c = cos(angle), s = sin(angle);
  const T a = turn[0] / angle, b = turn[1] / angle, d = turn[2] / angle;
  const T along = (a * x + b * y + d * z) * (1. - c);
  return {x * c + (b * z - d * y) * s + a * along, y * c + (d * x - a * z) * s + b * along,
          z * c + (a * y - b * x) * s + d * along};
}

/// Returns where a camera, 11 numbers, sees a point, minus where it was seen, times a weight.
template <class T, class Seen>
std::array<T, 2> reprojection(const T* camera, const T* point, const T& weight, const Seen* seen) {
  const T x = point[0] - camera[3], y = point[1] - camera[4], z = point[2] - camera[5];
  const std::array<T, 3> moved = rotated(camera, x, y, z);
  const T u = moved[0] / moved[2], v = moved[1] / moved[2], r = u * u + v * v;
  const T distortion = 1. + camera[9] * r + camera[10] * r * r;
  return {weight * (u * distortion * camera[6] + camera[7] - seen[0]),
          weight * (v * distortion * camera[6] + camera[8] - seen[1])};
}

/// Returns where f is least, by the gradient descent of GradBench's saddle and particle. f returns
/// the value and the gradient.
template <class T, class F>
Vector<T> argmin(const F& f, Vector<T> x) {
  const auto length = [](const Vector<T>& v) {
    using std::sqrt;
    T total = 0.;
    for (const T& it : v) total += it * it;
    return T(sqrt(total));
  };
  auto [value, slope] = f(x);
  double rate = 1e-5;
  for (int successes = 0; length(slope) > 1e-5;) {
    if (successes == 10) {
      rate *= 2;
      successes = 0;
      continue;
    }
    Vector<T> next = x, moved = x;
    for (Size i = 0; i < x.size(); ++i) next[i] -= rate * slope[i];
    for (Size i = 0; i < x.size(); ++i) moved[i] -= next[i];
    if (length(moved) <= 1e-5) break;
    auto [next_value, next_slope] = f(next);
    if (next_value < value) {
      x = std::move(next);
      value = next_value;
      slope = std::move(next_slope);
      ++successes;
    } else {
      rate /= 2;
      successes = 0;
    }
  }
  return x;
}

template <class T>
T squared(const Vector<T>& v) {
  return v[0] * v[0] + v[1] * v[1];
}

/// Returns the y for which |x|^2 - |y|^2 is greatest. `gradient` returns that of `squared` at y.
template <class T, class Gradient>
Vector<T> highest(const Vector<T>& x, const Vector<double>& start, const Gradient& gradient) {
  return argmin([&](const Vector<T>& y) { return std::pair(T(squared(y) - squared(x)), gradient(y)); },
                Vector<T>(start.begin(), start.end()));
}

/// Returns the force at x of a charge of the plane, the gradient of -1 / distance.
template <class T>
std::array<T, 2> force_of_charge(const std::array<T, 2>& x, const std::array<T, 2>& charge) {
  using std::sqrt;
  const T a = x[0] - charge[0], b = x[1] - charge[1], square = a * a + b * b, cube = square * sqrt(square);
  return {a / cube, b / cube};
}

/// Returns the square of where the charged particle crosses the x axis. `force` returns the force
/// of a charge.
template <class T, class Force>
T crossing(const T& w, const Force& force) {
  constexpr double dt = 0.1;
  const std::array<std::array<T, 2>, 2> charges{{{T(10.), T(10. - w)}, {T(10.), T(0.)}}};
  std::array<T, 2> x{T(0.), T(8.)}, velocity{T(0.75), T(0.)};
  for (;;) {
    const std::array<T, 2> first = force(x, charges[0]), second = force(x, charges[1]);
    for (Size i = 0; i < 2; ++i) x[i] += dt * velocity[i];
    if (!(x[1] > 0.)) break;
    for (Size i = 0; i < 2; ++i) velocity[i] += dt * (first[i] + second[i]);
  }
  const T place = x[0] - x[1] / velocity[1] * velocity[0];
  return place * place;
}

}  // namespace gradbench_plain
