// Programs that Stave and other tools for automatic differentiation compute, in plain C++ for any
// type of numbers. gradbench/, compiled.cpp and compiled_models.cpp have them as programs of
// tensors, and table.py has them in JAX.
//
// Each program is a function from a vector of variables to a vector of outputs. `start` returns
// where its derivative is taken.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "../gradbench/plain.h"

namespace cpp_tools {

using Numbers = std::vector<double>;

/// Returns the numbers of stave_bench::scattered from position `first` on.
inline Numbers scattered(std::size_t count, double size = 1, std::size_t first = 0) {
  Numbers numbers(count);
  for (std::size_t k = 0; k < count; ++k) {
    const auto number = static_cast<float>((first + k) % 1009 * 7919 % 1009);
    numbers[k] = (number / 1009 - 0.5f) * static_cast<float>(size);
  }
  return numbers;
}

template <class T>
T logistic(const T& x) {
  using std::exp;
  return 1. / (1. + exp(-x));
}

// ---- small programs -----------------------------------------------------------------------------

/// A path of the Lorenz system (1963), by a thousand steps of a Runge-Kutta method.
struct Lorenz {
  static constexpr std::size_t outputs = 1;
  std::string name() const { return "lorenz"; }
  Numbers start() const { return {1, 1, 1}; }

  template <class T>
  static std::array<T, 3> slope(const std::array<T, 3>& s) {
    return {10. * (s[1] - s[0]), s[0] * (28. - s[2]) - s[1], s[0] * s[1] - 8. / 3 * s[2]};
  }
  template <class T>
  static std::array<T, 3> moved(const std::array<T, 3>& s, double h, const std::array<T, 3>& k) {
    return {s[0] + h * k[0], s[1] + h * k[1], s[2] + h * k[2]};
  }
  template <class T>
  std::vector<T> operator()(const std::vector<T>& x) const {
    constexpr double h = 0.01;
    std::array<T, 3> s{x[0], x[1], x[2]};
    for (int i = 0; i < 1000; ++i) {
      const auto k1 = slope(s), k2 = slope(moved(s, h / 2, k1)), k3 = slope(moved(s, h / 2, k2)),
                 k4 = slope(moved(s, h, k3));
      for (std::size_t j = 0; j < 3; ++j) s[j] = s[j] + h / 6 * (k1[j] + 2. * k2[j] + 2. * k3[j] + k4[j]);
    }
    return {s[0] + s[1] + s[2]};
  }
};

/// The log-likelihood of an extended Kalman filter: a robot that turns, by its distance and
/// bearing. The variables are the logarithms of the variances of the process noise.
struct Ekf {
  static constexpr std::size_t outputs = 1;
  std::size_t steps;
  std::string name() const { return "ekf_" + std::to_string(steps); }
  Numbers start() const { return Numbers(4, -6.); }

  // Returns the distance and the bearing that were measured in step t.
  static std::array<double, 2> measured(std::size_t t) {
    const auto time = static_cast<double>(t);
    return {3 + std::cos(0.1 * time), 0.02 * time};
  }

  template <class T>
  std::vector<T> operator()(const std::vector<T>& log_noise) const {
    using std::atan2, std::cos, std::exp, std::log, std::sin, std::sqrt;
    constexpr double dt = 0.1;
    T x = 4., y = 0., speed = 0.5, heading = 1.5, total = 0.;
    std::array<std::array<T, 4>, 4> p, fp;  // the covariance, and its product with a Jacobian
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t j = 0; j < 4; ++j) p[i][j] = i == j ? 1. : 0.;
    const std::array<T, 4> noise{exp(log_noise[0]), exp(log_noise[1]), exp(log_noise[2]), exp(log_noise[3])};
    for (std::size_t t = 0; t < steps; ++t) {
      // The move: F is the identity but for d x and d y by the speed and the heading.
      const T c = dt * cos(heading), s = dt * sin(heading), vc = speed * c, vs = speed * s;
      for (std::size_t j = 0; j < 4; ++j) {
        fp[0][j] = p[0][j] + c * p[2][j] - vs * p[3][j];
        fp[1][j] = p[1][j] + s * p[2][j] + vc * p[3][j];
        fp[2][j] = p[2][j];
        fp[3][j] = p[3][j];
      }
      for (std::size_t i = 0; i < 4; ++i) {
        p[i][0] = fp[i][0] + c * fp[i][2] - vs * fp[i][3];
        p[i][1] = fp[i][1] + s * fp[i][2] + vc * fp[i][3];
        p[i][2] = fp[i][2];
        p[i][3] = fp[i][3];
        p[i][i] += noise[i];
      }
      x += vc;
      y += vs;
      heading += 0.3 * dt;
      // The measurement: H is [hx, hy, 0, 0; gx, gy, 0, 0].
      const T r = sqrt(x * x + y * y), hx = x / r, hy = y / r, gx = -y / (r * r), gy = x / (r * r);
      std::array<T, 4> hp, gp;
      for (std::size_t j = 0; j < 4; ++j) {
        hp[j] = hx * p[0][j] + hy * p[1][j];
        gp[j] = gx * p[0][j] + gy * p[1][j];
      }
      const T a = hp[0] * hx + hp[1] * hy + 0.01, b = hp[0] * gx + hp[1] * gy, d = gp[0] * gx + gp[1] * gy + 0.0004;
      const T determinant = a * d - b * b;
      const auto [distance, bearing] = measured(t);
      const T u = distance - r, v = bearing - atan2(y, x);
      total -= ((d * u * u - 2. * b * u * v + a * v * v) / determinant + log(determinant)) / 2.;
      std::array<T, 4> gain_u, gain_v;  // the rows of S^-1 H P
      for (std::size_t j = 0; j < 4; ++j) {
        gain_u[j] = (d * hp[j] - b * gp[j]) / determinant;
        gain_v[j] = (a * gp[j] - b * hp[j]) / determinant;
      }
      x += gain_u[0] * u + gain_v[0] * v;
      y += gain_u[1] * u + gain_v[1] * v;
      speed += gain_u[2] * u + gain_v[2] * v;
      heading += gain_u[3] * u + gain_v[3] * v;
      for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t j = 0; j < 4; ++j) p[i][j] -= gain_u[i] * hp[j] + gain_v[i] * gp[j];
    }
    return {total};
  }
};

struct LogSumExp {
  static constexpr std::size_t outputs = 1;
  std::string name() const { return "logsumexp"; }
  Numbers start() const { return scattered(100'000, 4); }

  template <class T>
  std::vector<T> operator()(const std::vector<T>& x) const {
    return {gradbench_plain::logsumexp(x)};
  }
};

/// The mean cross entropy of a network of 32-64-64-10 on 64 examples. The variables are, for each
/// layer, the weights, [inputs, outputs], and the offsets.
struct Network {
  static constexpr std::size_t outputs = 1, batch = 64;
  static constexpr std::array<std::size_t, 4> widths{32, 64, 64, 10};
  std::string name() const { return "network"; }

  static Numbers pixels() { return scattered(batch * widths[0]); }
  Numbers start() const {
    Numbers all;
    for (std::size_t layer = 0; layer < 3; ++layer) {
      const Numbers weights = scattered(widths[layer] * widths[layer + 1], 0.5), offsets = scattered(widths[layer + 1]);
      all.insert(all.end(), weights.begin(), weights.end());
      all.insert(all.end(), offsets.begin(), offsets.end());
    }
    return all;
  }

  Numbers inputs = pixels();

  template <class T>
  std::vector<T> operator()(const std::vector<T>& variables) const {
    using std::exp, std::log, std::tanh;
    T total = 0.;
    for (std::size_t example = 0; example < batch; ++example) {
      const double* const seen = inputs.data() + example * widths[0];
      const T* weights = variables.data();
      std::vector<T> values = layer_of<T>(weights, seen, 0);
      for (std::size_t layer = 1; layer < 3; ++layer) {
        weights += (widths[layer - 1] + 1) * widths[layer];
        for (T& it : values) it = tanh(it);
        values = layer_of<T>(weights, values.data(), layer);
      }
      T sum = 0.;
      for (const T& it : values) sum += exp(it);
      total += log(sum) - values[example % 10];
    }
    return {total / static_cast<double>(batch)};
  }

 private:
  template <class T, class Seen>
  static std::vector<T> layer_of(const T* weights, const Seen* seen, std::size_t layer) {
    const std::size_t rows = widths[layer], columns = widths[layer + 1];
    std::vector<T> sums(weights + rows * columns, weights + (rows + 1) * columns);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j) sums[j] += seen[i] * weights[i * columns + j];
    return sums;
  }
};

// ---- GradBench: the gradient of a diagonal LSTM over a text -------------------------------------

/// The mean log-probability of the next character, negated. The variables are weights,
/// [2 layers, 4 bits], and scales, [3, bits], as in gradbench/lstm.h.
struct Lstm {
  static constexpr std::size_t outputs = 1;
  std::size_t length = 1024, bits = 14, layers = 2;
  std::string name() const { return "lstm"; }
  Numbers start() const {
    Numbers all = scattered(8 * layers * bits, 2);
    const Numbers scales = scattered(3 * bits, 2);
    all.insert(all.end(), scales.begin(), scales.end());
    return all;
  }

  Numbers first_state = scattered(2 * layers * bits), characters = text(length, bits);

  // Returns bits, [length, bits]: each row is a character.
  static Numbers text(std::size_t length, std::size_t bits) {
    Numbers all = scattered(length * bits);
    for (double& it : all) it = it > 0;
    return all;
  }

  template <class T>
  std::vector<T> operator()(const std::vector<T>& variables) const {
    using std::exp, std::log, std::tanh;
    const T* const scales = variables.data() + 8 * layers * bits;
    std::vector<T> state(first_state.begin(), first_state.end()), x(bits);
    T total = 0.;
    for (std::size_t t = 0; t + 1 < length; ++t) {
      for (std::size_t i = 0; i < bits; ++i) x[i] = characters[t * bits + i] * scales[i];
      for (std::size_t layer = 0; layer < layers; ++layer) {
        const T *w = variables.data() + 8 * layer * bits, *b = w + 4 * bits;
        T *hidden = state.data() + 2 * layer * bits, *cell = hidden + bits;
        for (std::size_t i = 0; i < bits; ++i) {
          const T forget = logistic<T>(x[i] * w[i] + b[i]), in = logistic<T>(hidden[i] * w[bits + i] + b[bits + i]);
          const T out = logistic<T>(x[i] * w[2 * bits + i] + b[2 * bits + i]);
          const T change = tanh(hidden[i] * w[3 * bits + i] + b[3 * bits + i]);
          cell[i] = cell[i] * forget + in * change;
          hidden[i] = out * tanh(cell[i]);
          x[i] = hidden[i];
        }
      }
      T sum = 2.;
      for (std::size_t i = 0; i < bits; ++i) x[i] = x[i] * scales[bits + i] + scales[2 * bits + i];
      for (std::size_t i = 0; i < bits; ++i) sum += exp(x[i]);
      const T normalizer = log(sum);
      for (std::size_t i = 0; i < bits; ++i) total += characters[(t + 1) * bits + i] * (x[i] - normalizer);
    }
    return {-total / static_cast<double>((length - 1) * bits)};
  }
};

// ---- GradBench: the Jacobian of the residuals of a hand model -----------------------------------

/// A hand of 22 bones: a wrist, five fingers of four bones, and a forearm. The numbers stand for
/// measured ones. The variables are the rotation of the whole hand, its position, four angles of
/// each finger, and, if points lie in triangles, the shares of two of the vertices for each point;
/// the outputs, [3, seen], are the distances of points from where they were seen.
struct Hand {
  static constexpr std::size_t bones = 22, outputs = 300;
  std::string name() const { return "hand"; }
  Numbers start() const { return scattered(26, 0.5); }

  template <class T>
  using Matrix = std::array<T, 12>;  // [3, 4]; the last row of four is 0, 0, 0, 1

  std::vector<Matrix<double>> relatives = transforms(0.4, 3), inverses = transforms(0.3, 5);
  std::size_t vertices = 544;
  Numbers corners = scattered(3 * vertices), weights = shares(vertices), points = scattered(outputs);
  // The vertex of each point.
  std::vector<std::size_t> numbers = some_vertices(outputs / 3, vertices);
  std::vector<std::array<std::size_t, 3>> triangles{};  // or its triangle

  // Returns matrices near the identity.
  static std::vector<Matrix<double>> transforms(double size, std::size_t shift) {
    std::vector<Matrix<double>> all(bones);
    const Numbers numbers = scattered(12 * bones, size, 12 * shift);
    for (std::size_t k = 0; k < 12 * bones; ++k) all[k / 12][k % 12] = numbers[k] + (k % 12 % 5 == 0 ? 1 : 0);
    return all;
  }
  // Returns [bones, vertices]: the shares that bones have in the place of a vertex.
  static Numbers shares(std::size_t vertices) {
    Numbers all = scattered(bones * vertices, 8);
    for (std::size_t v = 0; v < vertices; ++v) {
      double sum = 0;
      for (std::size_t bone = 0; bone < bones; ++bone) sum += std::exp(all[bone * vertices + v]);
      for (std::size_t bone = 0; bone < bones; ++bone)
        all[bone * vertices + v] = std::exp(all[bone * vertices + v]) / sum;
    }
    return all;
  }
  static std::vector<std::size_t> some_vertices(std::size_t points, std::size_t vertices) {
    std::vector<std::size_t> all(points);
    for (std::size_t k = 0; k < points; ++k) all[k] = k * 5 % vertices;
    return all;
  }

  template <class T, class Left, class Right>
  static Matrix<T> product(const Matrix<Left>& a, const Matrix<Right>& b) {
    Matrix<T> c;
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 4; ++j) {
        c[4 * i + j] = a[4 * i] * b[j] + a[4 * i + 1] * b[4 + j] + a[4 * i + 2] * b[8 + j];
        if (j == 3) c[4 * i + 3] += a[4 * i + 3];
      }
    return c;
  }
  // Returns the rotation by angles about the axes x and z.
  template <class T>
  static Matrix<T> rotation(const T& x, const T& z) {
    using std::cos, std::sin;
    const T cx = cos(x), sx = sin(x), cz = cos(z), sz = sin(z), zero(0.);
    return {cz, -cx * sz, sx * sz, zero, sz, cx * cz, -sx * cz, zero, zero, sx, cx, zero};
  }
  // Returns the rotation about an axis by its length.
  template <class T>
  static Matrix<T> rotation_about(const T* turn) {
    using std::cos, std::sin, std::sqrt;
    const T angle = sqrt(turn[0] * turn[0] + turn[1] * turn[1] + turn[2] * turn[2]), zero(0.), one(1.);
    if (angle < 1e-4) return {one, zero, zero, zero, zero, one, zero, zero, zero, zero, one, zero};
    const T x = turn[0] / angle, y = turn[1] / angle, z = turn[2] / angle;
    const T c = cos(angle), s = sin(angle), d = 1. - c;
    return {x * x + (1. - x * x) * c, x * y * d - z * s,        x * z * d + y * s,        zero,
            x * y * d + z * s,        y * y + (1. - y * y) * c, y * z * d - x * s,        zero,
            x * z * d - y * s,        y * z * d + x * s,        z * z + (1. - z * z) * c, zero};
  }

  template <class T>
  std::vector<T> operator()(const std::vector<T>& x) const {
    const std::vector<std::size_t> used = used_vertices();
    std::vector<T> skin(3 * used.size(), T(0.));
    std::vector<Matrix<T>> absolutes;
    for (std::size_t bone = 0; bone < bones; ++bone) {
      const Matrix<T> relative = relative_of(x, bone);
      const std::size_t parent = bone == 21 || bone % 4 == 1 ? 0 : bone - 1;
      absolutes.push_back(bone == 0 ? relative : product<T>(absolutes[parent], relative));
      const Matrix<T> m = product<T>(absolutes[bone], inverses[bone]);
      for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t k = 0; k < used.size(); ++k) {
          const std::size_t v = used[k];
          skin[i * used.size() + k] +=
              weights[bone * vertices + v] * (m[4 * i] * corners[v] + m[4 * i + 1] * corners[vertices + v] +
                                              m[4 * i + 2] * corners[2 * vertices + v] + m[4 * i + 3]);
        }
    }
    const Matrix<T> whole = rotation_about<T>(x.data());
    const std::size_t seen = points.size() / 3;
    std::vector<T> residuals(3 * seen);
    for (std::size_t k = 0; k < seen; ++k) {
      std::array<T, 3> place;
      for (std::size_t i = 0; i < 3; ++i) place[i] = place_of<T>(skin.data() + i * used.size(), x.data() + 26, k);
      for (std::size_t i = 0; i < 3; ++i)
        residuals[i * seen + k] = points[i * seen + k] - (whole[4 * i] * place[0] + whole[4 * i + 1] * place[1] +
                                                          whole[4 * i + 2] * place[2] + x[3 + i]);
    }
    return residuals;
  }

 private:
  // Returns the place of a bone relative to its parent.
  template <class T>
  Matrix<T> relative_of(const std::vector<T>& x, std::size_t bone) const {
    const std::size_t finger = (bone - 1) / 4, joint = (bone - 1) % 4;
    Matrix<T> still;
    std::transform(relatives[bone].begin(), relatives[bone].end(), still.begin(), [](double it) { return T(it); });
    if (bone == 0 || bone == 21 || joint == 0) return still;
    const T* const angles = x.data() + 6 + 4 * finger;
    return product<T>(still, joint == 1 ? rotation<T>(angles[0], angles[1]) : rotation<T>(angles[joint], T(0.)));
  }

  // Returns the vertices of all points: one for each point, or the three of its triangle.
  std::vector<std::size_t> used_vertices() const {
    if (triangles.empty()) return numbers;
    std::vector<std::size_t> all;
    for (const std::array<std::size_t, 3>& corner : triangles) all.insert(all.end(), corner.begin(), corner.end());
    return all;
  }

  // Returns the place of point k along one axis, by those of the used vertices.
  template <class T>
  T place_of(const T* skin, const T* shares, std::size_t k) const {
    if (triangles.empty()) return skin[k];
    const T &a = shares[2 * k], &b = shares[2 * k + 1];
    return a * skin[3 * k] + b * skin[3 * k + 1] + (1. - a - b) * skin[3 * k + 2];
  }
};

/// Calls f with each program.
template <class F>
void for_each_program(F f) {
  f(Ekf{1});
  f(Lorenz());
  f(Ekf{50});
  f(LogSumExp());
  f(Network());
  f(Lstm());
  f(Hand());
}

}  // namespace cpp_tools
