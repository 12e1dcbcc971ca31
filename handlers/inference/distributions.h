// Distributions: plain values that know the logarithm of their density and how to draw.
//
//   const Normal prior{0, tensor({1., 2.})};
//   prior.log_prob(x)                         // of each element; parameters and x broadcast
//   prior.sample(key), prior.sample(key, {1000})        // [2], [1000,2]
//
// - Parameters are tensors or C++ numbers, which take the dtype of what they meet. Densities are those of SciPy's, -inf outside of the
//   support; halves are computed in float32. What parameters may be is not checked: outside of it a density is NaN.
// - Of MultivariateNormal, Dirichlet and Categorical the last axis of the parameter is one draw's; others are distributions side by side.
// - A draw has derivatives by its parameters where it is a smooth function of them; those of Gamma, Beta, StudentT and Dirichlet by
//   concentrations (degrees of freedom) are an error, not zero. Draws of discrete ones are integers or bools.
// - A distribution is a tree of its parameters. Any class with log_prob(x), sample(key, shape) and support() converts to Distribution.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <stave/core/ops/tree.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// A tensor, or a number, which takes the dtype of what it meets.
class NumberOrTensor {
 public:
  template <class T>
    requires(std::is_arithmetic_v<T>)
  NumberOrTensor(T number) : number_(static_cast<double>(number)) {}
  NumberOrTensor(Tensor tensor) : tensor_(std::move(tensor)) {}

  bool is_number() const noexcept { return number_.has_value(); }
  /// Undefined, if it is a number.
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

/// Where a distribution lives, and the map from all of R^n onto it (the biject_to of PyTorch and NumPyro).
class Support {
 public:
  static Support real();                                             ///< the identity
  static Support positive();                                         ///< exp
  static Support interval(NumberOrTensor low, NumberOrTensor high);  ///< low + (high - low) sigmoid
  static Support simplex();   ///< [..., n - 1] to [..., n], by breaking a stick (Stan's)
  static Support discrete();  ///< none: an error

  /// The point of the support for u, in R^n.
  Tensor constrain(const Tensor& u) const;
  /// The u of a point inside of the support.
  Tensor unconstrain(const Tensor& x) const;
  /// log |det(d constrain(u) / d u)|: of each element; of the simplex of each vector.
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
/// |x| of a normal x of mean 0.
struct HalfNormal {
  NumberOrTensor scale = 1;
  STAVE_DISTRIBUTION
};
struct Cauchy {
  NumberOrTensor location = 0, scale = 1;
  STAVE_DISTRIBUTION
};
/// |x| of a Cauchy x of location 0.
struct HalfCauchy {
  NumberOrTensor scale = 1;
  STAVE_DISTRIBUTION
};
struct StudentT {
  NumberOrTensor degrees, location = 0, scale = 1;
  STAVE_DISTRIBUTION
};
/// exp(x) of a normal x.
struct LogNormal {
  NumberOrTensor mean = 0, scale = 1;
  STAVE_DISTRIBUTION
};
/// Of mean 1 / rate.
struct Exponential {
  NumberOrTensor rate = 1;
  STAVE_DISTRIBUTION
};
/// Of mean concentration / rate.
struct Gamma {
  NumberOrTensor concentration, rate = 1;
  STAVE_DISTRIBUTION
};
/// Of density x^(a - 1) (1 - x)^(b - 1) / B(a, b).
struct Beta {
  NumberOrTensor a, b;
  STAVE_DISTRIBUTION
};
struct Uniform {
  NumberOrTensor low = 0, high = 1;
  STAVE_DISTRIBUTION
};
/// true with probability sigmoid(logits).
struct Bernoulli {
  NumberOrTensor logits;
  STAVE_DISTRIBUTION
};
/// 0 ... n-1 with the probabilities softmax(logits), of [..., n]; int32.
struct Categorical {
  Tensor logits;
  STAVE_DISTRIBUTION
};
/// Of mean `rate`; int32.
struct Poisson {
  NumberOrTensor rate;
  STAVE_DISTRIBUTION
};
/// Of mean [..., n] and covariance l l^T, of l [..., n, n], lower triangular.
struct MultivariateNormal {
  Tensor mean, scale_tril;
  STAVE_DISTRIBUTION
};
/// Of concentrations [..., n].
struct Dirichlet {
  Tensor concentration;
  STAVE_DISTRIBUTION
};
#undef STAVE_DISTRIBUTION

/// Any distribution.
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
