#include <stave/handlers/numerics/krylov.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <utility>
#include <vector>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

/// The stopping criterion of a method. It counts the products with the matrix.
class Convergence {
 public:
  Convergence(const char* method, const Tensor& b, const KrylovOptions& options)
      : method_(method), steps_(options.steps > 0 ? options.steps : std::max<Index>(10, 10 * b.size())) {
    if (!(options.tolerance >= 0) || options.steps < 0 || options.restart < 1)
      fail<Error>("{}: tolerance {}, {} steps and restart {}: they must not be negative, and restart not 0", method,
                  options.tolerance, options.steps, options.restart);
    const double tolerance = options.tolerance > 0 ? options.tolerance : real_of(b.dtype()) == float64 ? 1e-10 : 1e-5;
    bound_ = tolerance * length(b);
  }
  static double length(const Tensor& x) { return vector_norm(x).item<double>(); }
  bool is_reached(double residual) const { return residual <= bound_; }
  /// Throws Error after the last step, or if the residual is not finite.
  void count(double residual) {
    if (count_++ < steps_ && std::isfinite(residual)) return;
    fail<Error>(
        "{}: after {} products the residual is {:.2g}, and not at most {:.2g}: give more steps, a larger "
        "tolerance, or another method",
        method_, count_ - 1, residual, bound_);
  }

 private:
  const char* method_;
  Index steps_, count_ = 0;
  double bound_ = 0;
};

}  // namespace

Tensor conjugate_gradients(const LinearProduct& product, const LinearProduct& precondition, const Tensor& b,
                           const KrylovOptions& options) {
  Convergence convergence("cg", b, options);
  Tensor x = zeros_like(b), rest = b, scaled = precondition(rest), direction = scaled;
  Tensor inner = real(vecdot(rest, scaled));
  for (;;) {
    const double residual = Convergence::length(rest);
    if (convergence.is_reached(residual)) return x;
    convergence.count(residual);
    const Tensor image = product(direction), step = inner / real(vecdot(direction, image));
    x = x + step * direction;
    rest = rest - step * image;
    scaled = precondition(rest);
    const Tensor next = real(vecdot(rest, scaled));
    direction = scaled + next / inner * direction;
    inner = next;
  }
}

// Here and in generalized_minimal_residual, y is the solution of a m y = b for the preconditioner
// m, and x is m y. The residual is that of x.
Tensor stabilized_biconjugate_gradients(const LinearProduct& matrix, const LinearProduct& precondition, const Tensor& b,
                                        const KrylovOptions& options) {
  Convergence convergence("bicgstab", b, options);
  const LinearProduct product = [&](const Tensor& y) { return matrix(precondition(y)); };
  Tensor y = zeros_like(b), rest = b, direction = b, inner = vecdot(b, b);
  for (double residual = Convergence::length(rest); !convergence.is_reached(residual);
       residual = Convergence::length(rest)) {
    convergence.count(residual);
    const Tensor image = product(direction), step = inner / vecdot(b, image);
    const Tensor half_step_rest = rest - step * image;
    if (convergence.is_reached(Convergence::length(half_step_rest))) return precondition(y + step * direction);
    convergence.count(residual);
    const Tensor turned_rest = product(half_step_rest),
                 weight = vecdot(turned_rest, half_step_rest) / vecdot(turned_rest, turned_rest);
    y = y + step * direction + weight * half_step_rest;
    rest = half_step_rest - weight * turned_rest;
    const Tensor next = vecdot(b, rest);
    direction = rest + next / inner * (step / weight) * (direction - weight * image);
    inner = next;
  }
  return precondition(y);
}

namespace {

// The problem of gmres: the least residual |r e_0 - h w| over w, for a matrix h [k + 1, k] that
// grows by columns and has one entry below the diagonal in each. Rotations of two rows make it
// triangular (Givens; Saad and Schultz 1986).
class LeastResidual {
 public:
  using Number = std::complex<double>;

  explicit LeastResidual(double residual) : side_{residual} {}

  /// Adds a column, whose last entry is the real number `below`, and returns the residual.
  double add(std::vector<Number> column, double below) {
    const std::size_t k = columns_.size();
    for (std::size_t i = 0; i < k; ++i) {
      const auto& [c, s] = rotations_[i];
      const Number upper = column[i], lower = column[i + 1];
      column[i] = c * upper + s * lower;
      column[i + 1] = -std::conj(s) * upper + c * lower;
    }
    const double size = std::hypot(std::abs(column[k]), below);
    const double c = size > 0 ? std::abs(column[k]) / size : 1;
    const Number turn = std::abs(column[k]) > 0 ? column[k] / std::abs(column[k]) : Number(1);
    const Number s = size > 0 ? turn * (below / size) : Number(0);
    rotations_.emplace_back(c, s);
    column[k] = turn * size;
    columns_.push_back(std::move(column));
    side_.push_back(-std::conj(s) * side_[k]);
    side_[k] *= c;
    return std::abs(side_.back());
  }
  std::vector<Number> weights() const {
    std::vector<Number> w(columns_.size());
    for (std::size_t i = w.size(); i-- > 0;) {
      w[i] = side_[i];
      for (std::size_t j = i + 1; j < w.size(); ++j) w[i] -= columns_[j][i] * w[j];
      w[i] /= columns_[i][i];
    }
    return w;
  }

 private:
  std::vector<std::vector<Number>> columns_;
  std::vector<std::pair<double, Number>> rotations_;
  std::vector<Number> side_;
};

Tensor in_dtype_of(const Tensor& b, const std::vector<std::complex<double>>& numbers) {
  const Tensor z = from(numbers, b.device());
  return astype(is_complex(b.dtype()) ? z : real(z), b.dtype());
}

}  // namespace

// Each round builds an orthonormal basis v_0, v_1, ... of the Krylov space of a m, where a m v_k is
// in the span of v_0, ..., v_(k+1), and minimises the residual over it.
Tensor generalized_minimal_residual(const LinearProduct& matrix, const LinearProduct& precondition, const Tensor& b,
                                    const KrylovOptions& options) {
  Convergence convergence("gmres", b, options);
  const LinearProduct product = [&](const Tensor& y) { return matrix(precondition(y)); };
  const Index most = std::min(options.restart, b.size());
  Tensor y = zeros_like(b), rest = b;
  for (double residual = Convergence::length(rest); !convergence.is_reached(residual);
       residual = Convergence::length(rest)) {
    std::vector<Tensor> basis{rest / residual};
    LeastResidual least(residual);
    double left = residual;
    while (std::cmp_less_equal(basis.size(), most) && !convergence.is_reached(left)) {
      convergence.count(left);
      const Tensor all = stack(basis);
      Tensor image = product(basis.back());
      // The vector is orthogonalised twice, so that rounding errors do not grow.
      const Tensor first = matmul(conj(all), image);
      image = image - matmul(first, all);
      const Tensor again = matmul(conj(all), image);
      image = image - matmul(again, all);
      const double length = Convergence::length(image);
      std::vector<LeastResidual::Number> column = astype(first + again, complex128).to_vector<LeastResidual::Number>();
      left = least.add(std::move(column), length);
      if (!(length > epsilon_of(b.dtype()) * residual)) break;
      basis.push_back(image / length);
    }
    const std::vector<LeastResidual::Number> weights = least.weights();
    basis.resize(weights.size());
    y = y + matmul(in_dtype_of(b, weights), stack(basis));
    rest = b - product(y);
  }
  return precondition(y);
}

}  // namespace stave_detail
