// Problems of GradBench as functions of tensors, in float64: lse, llsq, ode, det, gmm, kmeans, ba.
// modules.cpp differentiates them, and plain.h has them in plain C++.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <vector>

#include <stave/stave.h>

namespace gradbench {

using namespace stave;

/// llsq: half the sum of squared differences between the sign of t and a polynomial with these
/// coefficients, at points t [n].
inline Tensor llsq(const Tensor& coefficients, const Tensor& t) {
  const Tensor powers = vander(t, {.columns = coefficients.shape(0), .increasing = true});
  return sum(square(sign(t) - matmul(powers, coefficients))) / 2;
}

/// ode: y(2) for y_0' = x_0, y_i' = x_i y_(i-1) and y(0) = 0, by the classical Runge-Kutta method.
inline Tensor ode(const Tensor& x, Index steps) {
  const Tensor one = ones({1}, float64);
  const auto slope = [&](const Tensor& y) { return x * concat({one, y(slice(0, y.shape(0) - 1))}); };
  const double h = 2. / static_cast<double>(steps);
  const auto step = [&](const Tensor& y) {
    const Tensor k1 = slope(y), k2 = slope(y + h / 2 * k1), k3 = slope(y + h / 2 * k2), k4 = slope(y + h * k3);
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
  };
  return loop(steps, step)(zeros_like(x));
}

/// The determinant of the rows from `row` on of a matrix [n, n], in the columns that are not taken,
/// by expansion of minors. The matrix's entries are numbers, [], row by row.
inline Tensor det_of_minor(const std::vector<Tensor>& entries, std::size_t n, std::size_t row,
                           std::vector<bool>& taken) {
  Tensor total;
  bool is_added = true;
  for (std::size_t column = 0; column < n; ++column) {
    if (taken[column]) continue;
    const Tensor& entry = entries[row * n + column];
    if (row + 1 == n) return entry;
    taken[column] = true;
    const Tensor term = entry * det_of_minor(entries, n, row + 1, taken);
    taken[column] = false;
    total = !total.defined() ? term : is_added ? total + term : total - term;
    is_added = !is_added;
  }
  return total;
}

/// Returns det: the determinant of matrices [m, m] by expansion of minors. Up to 8 rows, it is a
/// recorded program without repetitions, which computes equal minors once, and so do its
/// derivatives. The minors of a larger matrix are lanes of the function for fewer rows.
inline std::function<Tensor(const Tensor&)> det_by_minors(Index m) {
  const auto n = static_cast<std::size_t>(m);
  if (m <= 8) {
    const auto expansion = [n](const Tensor& matrix) {
      std::vector<bool> taken(n);
      return det_of_minor(unstack(reshape(matrix, {-1})), n, 0, taken);
    };
    const auto recorded = trace(expansion)(eye(m, float64));
    return recorded.with(without_repetitions(recorded));
  }
  std::vector<std::int32_t> others;  // the columns of each minor, [m, m - 1]
  for (std::int32_t j = 0; j < m; ++j)
    for (std::int32_t column = 0; column < m; ++column)
      if (column != j) others.push_back(column);
  const Tensor signs = 1. - 2. * astype(arange(m) % 2, float64);
  return [columns = from(others, {m, m - 1}), signs, dets = vmap(det_by_minors(m - 1))](const Tensor& matrix) {
    const Tensor minors = moveaxis(take(matrix(slice(1, none)), columns, 1), {1}, {0});
    return sum(signs * matrix(0) * dets(minors));
  };
}

/// The parameters of a mixture of Gaussians: the logarithms of its weights, [k], and for each
/// component its mean, [k, d], the logarithms of the diagonal of a factor of its inverse
/// covariance, [k, d], and the entries of the factor below the diagonal, column by column,
/// [k, d (d - 1) / 2].
struct Mixture {
  Tensor weights, means, log_diagonals, below;
};

/// The places of the factor's entries in {0, the entries below the diagonal}, [d, d].
inline Tensor places_below(Index d) {
  std::vector<std::int32_t> places(static_cast<std::size_t>(d * d), 0);
  std::int32_t next = 1;
  for (Index column = 0; column < d; ++column)
    for (Index row = column + 1; row < d; ++row) places[static_cast<std::size_t>(row * d + column)] = next++;
  return from(places, {d, d});
}

/// gmm: the log-density of the points, [n, d], with a Wishart prior of the inverse covariances.
inline Tensor gmm(const Mixture& mixture, const Tensor& points, double gamma, Index m) {
  const Index n = points.shape(0), d = points.shape(1), k = mixture.weights.shape(0);
  const Tensor diagonals = exp(mixture.log_diagonals), log_dets = sum(mixture.log_diagonals, 1);
  const Tensor entries = concat({zeros({k, 1}, float64), mixture.below}, 1);
  const Tensor factors = take(entries, places_below(d), 1) + expand_dims(diagonals, 2) * eye(d, float64);
  const Tensor centered = points - expand_dims(mixture.means, 1);     // [k, n, d]
  const Tensor scaled = matmul(centered, matrix_transpose(factors));  // [k, n, d]
  const Tensor terms = expand_dims(mixture.weights + log_dets, 1) - sum(square(scaled), 2) / 2;
  const Tensor likelihood = sum(logsumexp(terms, 0)) - n * logsumexp(mixture.weights);
  const double degrees = static_cast<double>(d + m + 1), dimension = static_cast<double>(d);
  const Tensor gammas = multigammaln(tensor(degrees / 2, float64), static_cast<int>(d));
  const Tensor prior = degrees * dimension * (std::log(gamma) - std::log(2.) / 2) - gammas;
  const Tensor penalty = gamma * gamma / 2 * (sum(square(diagonals)) + sum(square(mixture.below))) - m * sum(log_dets);
  return likelihood - penalty + static_cast<double>(k) * prior -
         static_cast<double>(n) * dimension / 2 * std::log(2 * std::numbers::pi);
}

/// kmeans: the sum over the points, [n, d], of the squared distance from the nearest centroid,
/// [k, d].
inline Tensor kmeans(const Tensor& centroids, const Tensor& points) {
  const Tensor lengths = sum(square(points), 1, keepdims) + sum(square(centroids), 1);
  return sum(min(lengths - 2. * matmul(points, matrix_transpose(centroids)), 1));
}

/// Returns kmeans' gradient divided by the diagonal of its Hessian, which has no other entries.
inline Tensor kmeans_direction(const Tensor& centroids, const Tensor& points) {
  const auto gradient = grad([&](const Tensor& c) { return kmeans(c, points); });
  const auto [slope, curvature] = jvp(gradient, centroids, ones_like(centroids));
  return slope / curvature;
}

/// ba: where a camera sees a point [3], minus where it was seen [2], times a weight []. The camera,
/// [11], has a rotation about an axis by its length, a centre, a focal length, a principal point
/// and a radial distortion.
inline Tensor reprojection(const Tensor& camera, const Tensor& point, const Tensor& weight, const Tensor& seen) {
  const auto [rx, ry, rz, cx, cy, cz, focal, u0, v0, k1, k2] = unstack<11>(camera);
  const auto [px, py, pz] = unstack<3>(point);
  const Tensor x = px - cx, y = py - cy, z = pz - cz, square_angle = rx * rx + ry * ry + rz * rz;
  const Tensor is_zero = square_angle == 0, angle = sqrt(where(is_zero, 1., square_angle));
  const Tensor a = rx / angle, b = ry / angle, d = rz / angle, c = cos(angle), s = sin(angle);
  const Tensor along = (a * x + b * y + d * z) * (1 - c);
  const Tensor moved_x = where(is_zero, x + ry * z - rz * y, x * c + (b * z - d * y) * s + a * along);
  const Tensor moved_y = where(is_zero, y + rz * x - rx * z, y * c + (d * x - a * z) * s + b * along);
  const Tensor moved_z = where(is_zero, z + rx * y - ry * x, z * c + (a * y - b * x) * s + d * along);
  const Tensor u = moved_x / moved_z, v = moved_y / moved_z, r = u * u + v * v;
  const Tensor distortion = 1 + k1 * r + k2 * r * r;
  return weight * (stack({u * distortion * focal + u0, v * distortion * focal + v0}) - seen);
}

/// ba: the error of a weight.
inline Tensor weight_error(const Tensor& weight) { return 1 - square(weight); }

/// The observations of ba: cameras [n, 11], points [m, 3], and for each of p observations its
/// camera and its point, [p], its weight, [p], and where it was seen, [p, 2].
struct Observations {
  Tensor cameras, points, camera_of, point_of, weights, seen;
};

/// A sparse matrix in compressed rows: row i has the columns and values rows[i] .. rows[i + 1] - 1.
struct Sparse {
  Tensor rows, columns, values;
};

/// Returns the reprojections [p, 2] and the errors of the weights [p].
inline std::pair<Tensor, Tensor> ba_errors(const Observations& o) {
  const Tensor cameras = take(o.cameras, o.camera_of), points = take(o.points, o.point_of);
  return {vmap(reprojection)(cameras, points, o.weights, o.seen), weight_error(o.weights)};
}

/// Returns the Jacobian of ba_errors by all cameras, points and weights. `order` is 0, 1, ... 2 p.
inline Sparse ba_jacobian(const Observations& o, const Tensor& order) {
  const Index p = o.weights.shape(0), first_point = 11 * o.cameras.shape(0);
  const Index first_weight = first_point + 3 * o.points.shape(0);
  const auto [by_camera, by_point, by_weight] =
      vmap(jacrev<0, 1, 2>(reprojection))(take(o.cameras, o.camera_of), take(o.points, o.point_of), o.weights, o.seen);
  const Tensor blocks = concat({by_camera, by_point, expand_dims(by_weight, 2)}, 2);  // [p, 2, 15]
  const Tensor weight_columns = first_weight + order(slice(0, p));
  const Tensor columns =
      concat({11 * expand_dims(o.camera_of, 1) + arange(11), first_point + 3 * expand_dims(o.point_of, 1) + arange(3),
              expand_dims(weight_columns, 1)},
             1);
  return {concat({15 * order, 30 * p + 1 + order(slice(0, p))}),
          concat({reshape(stack({columns, columns}, 1), {-1}), weight_columns}),
          concat({reshape(blocks, {-1}), vmap(grad(weight_error))(o.weights)})};
}

}  // namespace gradbench
