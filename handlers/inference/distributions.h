// Distributions: classes that compute the logarithm of their density, and draw samples.
//
//   const Normal prior{0, tensor({1., 2.})};
//   prior.log_prob(x)                         // of each element; parameters and x broadcast
//   prior.sample(key), prior.sample(key, {1000})        // [2], [1000,2]
//
// - Parameters are tensors, or C++ numbers that take the dtype of the other operands.
//   Densities are those of SciPy, and log_prob is -inf outside of the support.
//   float16 and bfloat16 are computed in float32. Parameters are not checked: results for invalid
//   parameters are NaN or meaningless.
// - For MultivariateNormal, Dirichlet and Categorical, the last axis of the parameter belongs
//   to a single draw. The other axes are a batch of distributions.
// - A draw is differentiable with respect to the parameters of which it is a smooth function.
//   Derivatives of draws of Gamma, Beta, StudentT and Dirichlet with respect to concentrations
//   (degrees of freedom) throw TransformError. Draws of discrete distributions are integers or
//   bools.
// - A distribution is a tree of its parameters. Any class with log_prob(x), sample(key, shape)
//   and support() converts to Distribution.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <stave/core/ops/tree.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// A tensor, or a number that takes the dtype of the other operands.
class NumberOrTensor {
 public:
  template <class T>
    requires(std::is_arithmetic_v<T>)
  NumberOrTensor(T number) : number_(static_cast<double>(number)) {}
  NumberOrTensor(Tensor tensor) : tensor_(std::move(tensor)) {}

  bool is_number() const noexcept { return number_.has_value(); }
  /// Returns the tensor; it is undefined if this is a number.
  const Tensor& tensor() const noexcept { return tensor_; }
  Tensor& tensor() noexcept { return tensor_; }
  Tensor in(Dtype dtype, Device device) const;
  Shape shape() const { return is_number() ? Shape() : tensor_.shape(); }

 private:
  Tensor tensor_;
  std::optional<double> number_;
};

template <>
struct TreeTraits<NumberOrTensor> {
  template <class P, class F>
  static void visit(P& parameter, F&& f) {
    if (!parameter.is_number()) f(parameter.tensor());
  }
};

/// The support of a distribution, and the map from R^n onto it (biject_to in PyTorch and NumPyro).
class Support {
 public:
  /// The real numbers; u is mapped to itself.
  static Support real();
  /// The positive numbers; u is mapped to exp(u).
  static Support positive();
  /// The numbers between low and high; u is mapped to low + (high - low) sigmoid(u).
  static Support interval(NumberOrTensor low, NumberOrTensor high);
  /// Probability vectors; u of shape [..., n - 1] is mapped to [..., n] by Stan's stick breaking.
  static Support simplex();
  /// Integers or bools. They have no map, so the three functions below throw TransformError.
  static Support discrete();

  /// Returns the point of the support that u in R^n is mapped to.
  Tensor constrain(const Tensor& u) const;
  /// Returns the u that is mapped to the point x inside of the support.
  Tensor unconstrain(const Tensor& x) const;
  /// Returns log |det(d constrain(u) / d u)| for each element; for the simplex, for each vector.
  Tensor log_det(const Tensor& u) const;

 private:
  enum class Kind { real, positive, interval, simplex, discrete };
  explicit Support(Kind kind) : kind_(kind) {}
  Kind kind_;
  NumberOrTensor low_ = 0, high_ = 1;
};

#define STAVE_DISTRIBUTION                                      \
  Tensor log_prob(const Tensor& x) const;                       \
  Tensor sample(const Key& key, const Shape& shape = {}) const; \
  Support support() const;

struct Normal {
  NumberOrTensor mean = 0, scale = 1;
  STAVE_DISTRIBUTION
};
/// The distribution of |x| for a normal x of mean 0.
struct HalfNormal {
  NumberOrTensor scale = 1;
  STAVE_DISTRIBUTION
};
struct Cauchy {
  NumberOrTensor location = 0, scale = 1;
  STAVE_DISTRIBUTION
};
/// The distribution of |x| for a Cauchy x of location 0.
struct HalfCauchy {
  NumberOrTensor scale = 1;
  STAVE_DISTRIBUTION
};
struct StudentT {
  NumberOrTensor degrees, location = 0, scale = 1;
  STAVE_DISTRIBUTION
};
/// The distribution of exp(x) for a normal x.
struct LogNormal {
  NumberOrTensor mean = 0, scale = 1;
  STAVE_DISTRIBUTION
};
/// The exponential distribution of mean 1 / rate.
struct Exponential {
  NumberOrTensor rate = 1;
  STAVE_DISTRIBUTION
};
/// The gamma distribution of mean concentration / rate.
struct Gamma {
  NumberOrTensor concentration, rate = 1;
  STAVE_DISTRIBUTION
};
/// The beta distribution, of density x^(a - 1) (1 - x)^(b - 1) / B(a, b).
struct Beta {
  NumberOrTensor a, b;
  STAVE_DISTRIBUTION
};
struct Uniform {
  NumberOrTensor low = 0, high = 1;
  STAVE_DISTRIBUTION
};
/// A bool that is true with probability sigmoid(logits).
struct Bernoulli {
  NumberOrTensor logits;
  STAVE_DISTRIBUTION
};
/// An int32 in 0 ... n-1 with the probabilities softmax(logits), for logits [..., n].
struct Categorical {
  Tensor logits;
  STAVE_DISTRIBUTION
};
/// The Poisson distribution of mean `rate`; draws are int32.
struct Poisson {
  NumberOrTensor rate;
  STAVE_DISTRIBUTION
};
/// The normal distribution of mean [..., n] and covariance l l^T, where l = scale_tril is a lower
/// triangular matrix [..., n, n].
struct MultivariateNormal {
  Tensor mean, scale_tril;
  STAVE_DISTRIBUTION
};
/// The Dirichlet distribution of concentrations [..., n].
struct Dirichlet {
  Tensor concentration;
  STAVE_DISTRIBUTION
};
#undef STAVE_DISTRIBUTION

/// A type-erased distribution: holds any of the classes above, or one of your own.
class Distribution {
 public:
  template <class D>
    requires(!std::same_as<D, Distribution> &&
             requires(const D& d, const Tensor& x, const Key& key, const Shape& shape) {
               { d.log_prob(x) } -> std::convertible_to<Tensor>;
               { d.sample(key, shape) } -> std::convertible_to<Tensor>;
               { d.support() } -> std::convertible_to<Support>;
             })
  Distribution(D distribution) : held_(std::make_shared<const Held<D>>(std::move(distribution))) {}
  Tensor log_prob(const Tensor& x) const { return held_->log_prob(x); }
  Tensor sample(const Key& key, const Shape& shape = {}) const { return held_->sample(key, shape); }
  Support support() const { return held_->support(); }

 private:
  struct Any {
    virtual ~Any() = default;
    virtual Tensor log_prob(const Tensor& x) const = 0;
    virtual Tensor sample(const Key& key, const Shape& shape) const = 0;
    virtual Support support() const = 0;
  };
  template <class D>
  struct Held final : Any {
    explicit Held(D d) : distribution(std::move(d)) {}
    Tensor log_prob(const Tensor& x) const override { return distribution.log_prob(x); }
    Tensor sample(const Key& key, const Shape& shape) const override { return distribution.sample(key, shape); }
    Support support() const override { return distribution.support(); }
    D distribution;
  };
  std::shared_ptr<const Any> held_;
};

}  // namespace stave
