// Support: the set of values of a distribution, and a bijector from R^n onto it.
#pragma once

#include <optional>
#include <utility>

#include <stave/handlers/inference/bijectors.h>

namespace stave {

/// The support of a distribution, and the map from R^n onto it (biject_to in PyTorch and NumPyro).
class Support {
 public:
  /// A support with a map of your own, which begins at R^n.
  explicit Support(Bijector map) : map_(std::move(map)) {}

  /// The real numbers; u is mapped to itself.
  static Support real() { return Support(Bijector::identity()); }
  /// The positive numbers; u is mapped to exp(u).
  static Support positive() { return Support(Bijector::exp()); }
  /// The numbers above low; u is mapped to low + exp(u).
  static Support above(NumberOrTensor low) { return Support(Bijector::above(std::move(low))); }
  /// The numbers below high; u is mapped to high - exp(u).
  static Support below(NumberOrTensor high) { return Support(Bijector::below(std::move(high))); }
  /// The numbers between low and high; u is mapped to low + (high - low) sigmoid(u). If a bound is
  /// a C++ number and infinite, the support is unbounded on that side.
  static Support interval(NumberOrTensor low, NumberOrTensor high);
  /// The angles between -pi and pi, mapped as an interval.
  static Support circle();
  /// Probability vectors; u of shape [..., n - 1] is mapped to [..., n] by Stan's stick breaking.
  static Support simplex() { return Support(Bijector::stick_breaking()); }
  /// Lower triangular matrices [..., n, n] of positive diagonal, for u [..., n (n + 1) / 2].
  static Support lower_cholesky() { return Support(Bijector::lower_cholesky()); }
  /// Positive definite matrices [..., n, n], for u [..., n (n + 1) / 2], which gives the Cholesky
  /// factor.
  static Support positive_definite();
  /// Cholesky factors [..., n, n] of correlation matrices, for u [..., n (n - 1) / 2].
  static Support correlation_cholesky() { return Support(Bijector::correlation_cholesky()); }
  /// Integers or bools. They have no map, so the functions below throw TransformError.
  static Support discrete() { return Support(); }

  bool is_discrete() const noexcept { return !map_; }
  /// Returns the map from R^n onto the support.
  const Bijector& map() const;
  /// Returns the point of the support that u in R^n is mapped to.
  Tensor constrain(const Tensor& u) const { return map().forward(u); }
  /// Returns the u that is mapped to the point x inside of the support.
  Tensor unconstrain(const Tensor& x) const { return map().inverse(x); }
  /// Returns log |det(d constrain(u) / d u)| for each element; for vectors and matrices, for each
  /// of them.
  Tensor log_det(const Tensor& u) const { return map().log_det(u); }

 private:
  Support() = default;
  std::optional<Bijector> map_;
};

}  // namespace stave
