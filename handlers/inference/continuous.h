// Continuous distributions of numbers. distributions.h says what all distributions have in common.
//
// mean() and variance() are NaN or infinite where the moment does not exist. entropy() is in nats.
// cdf(x) is the probability of a draw of at most x, log_cdf(x) its logarithm, sf(x) the probability
// of a draw above x (1 - cdf(x), accurate where it is small), and quantile(p) the x at which cdf(x)
// is p. All of them have derivatives of any order with respect to x and the parameters. Quantiles
// of Gamma, InverseGamma, ChiSquared, Beta, StudentT and FDistribution have no closed form. They
// are computed in float64 by bisection, at the cost of some hundred evaluations of the cdf, and
// have the derivatives of the inverse function.
#pragma once

#include <limits>

#include <stave/handlers/inference/number_or_tensor.h>
#include <stave/handlers/inference/support.h>

namespace stave {

#define STAVE_DISTRIBUTION                                      \
  Tensor log_prob(const Tensor& x) const;                       \
  Tensor sample(const Key& key, const Shape& shape = {}) const; \
  Support support() const;
#define STAVE_PROBABILITIES              \
  Tensor cdf(const Tensor& x) const;     \
  Tensor log_cdf(const Tensor& x) const; \
  Tensor sf(const Tensor& x) const;      \
  Tensor quantile(const Tensor& p) const;
#define STAVE_MOMENTS      \
  Tensor mean() const;     \
  Tensor variance() const; \
  Tensor entropy() const;
#define STAVE_FULL_DISTRIBUTION \
  STAVE_DISTRIBUTION            \
  STAVE_PROBABILITIES           \
  STAVE_MOMENTS

// ---- normal distributions ----------------------------------------------------------------

/// The normal distribution of mean `location` and standard deviation `scale`.
struct Normal {
  NumberOrTensor location = 0, scale = 1;
  STAVE_FULL_DISTRIBUTION
};
/// The distribution of |x| for a normal x of mean 0.
struct HalfNormal {
  NumberOrTensor scale = 1;
  STAVE_FULL_DISTRIBUTION
};
/// The distribution of exp(x) for a normal x of mean `location` and standard deviation `scale`.
struct LogNormal {
  NumberOrTensor location = 0, scale = 1;
  STAVE_FULL_DISTRIBUTION
};
/// The normal distribution, conditioned on low <= x <= high. Bounds are in the units of x, where
/// scipy.stats.truncnorm has (low - location) / scale. Draws are differentiable. Where both bounds
/// are beyond 37 standard deviations in float64 (13 in float32), all draws and quantiles equal a
/// bound.
struct TruncatedNormal {
  NumberOrTensor location = 0, scale = 1;
  NumberOrTensor low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  STAVE_FULL_DISTRIBUTION
};
/// The distribution of density proportional to exp(-|(x - location) / scale|^shape):
/// scipy.stats.gennorm. It is Laplace for shape 1.
struct GeneralizedNormal {
  NumberOrTensor shape, location = 0, scale = 1;
  STAVE_DISTRIBUTION
  STAVE_MOMENTS
};

// ---- location and scale ------------------------------------------------------------------

struct Cauchy {
  NumberOrTensor location = 0, scale = 1;
  STAVE_FULL_DISTRIBUTION
};
/// The distribution of |x| for a Cauchy x of location 0.
struct HalfCauchy {
  NumberOrTensor scale = 1;
  STAVE_FULL_DISTRIBUTION
};
/// The Cauchy distribution, conditioned on low <= x <= high.
struct TruncatedCauchy {
  NumberOrTensor location = 0, scale = 1;
  NumberOrTensor low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  STAVE_DISTRIBUTION
  STAVE_PROBABILITIES
};
struct StudentT {
  NumberOrTensor degrees, location = 0, scale = 1;
  STAVE_FULL_DISTRIBUTION
};
/// The distribution of density exp(-|x - location| / scale) / (2 scale).
struct Laplace {
  NumberOrTensor location = 0, scale = 1;
  STAVE_FULL_DISTRIBUTION
};
/// The distribution whose cdf is sigmoid((x - location) / scale).
struct Logistic {
  NumberOrTensor location = 0, scale = 1;
  STAVE_FULL_DISTRIBUTION
};
/// The distribution of largest values, whose cdf is exp(-exp(-(x - location) / scale)):
/// scipy.stats.gumbel_r.
struct Gumbel {
  NumberOrTensor location = 0, scale = 1;
  STAVE_FULL_DISTRIBUTION
};
struct Uniform {
  NumberOrTensor low = 0, high = 1;
  STAVE_FULL_DISTRIBUTION
};
/// The distribution of angles whose density is proportional to exp(concentration cos(x -
/// location)). Draws are in [-pi, pi], and the density is periodic. mean() is the circular mean,
/// `location`, and variance() the circular variance 1 - I1(concentration) / I0(concentration).
struct VonMises {
  NumberOrTensor location, concentration;
  STAVE_DISTRIBUTION
  STAVE_MOMENTS
};

// ---- positive numbers --------------------------------------------------------------------

/// The exponential distribution of mean 1 / rate.
struct Exponential {
  NumberOrTensor rate = 1;
  STAVE_FULL_DISTRIBUTION
};
/// The gamma distribution of mean concentration / rate.
struct Gamma {
  NumberOrTensor concentration, rate = 1;
  STAVE_FULL_DISTRIBUTION
};
/// The distribution of 1 / x for x of Gamma{concentration, rate}; its scale is `rate`:
/// scipy.stats.invgamma.
struct InverseGamma {
  NumberOrTensor concentration, rate = 1;
  STAVE_FULL_DISTRIBUTION
};
/// The distribution of the sum of `degrees` squares of standard normal numbers.
struct ChiSquared {
  NumberOrTensor degrees;
  STAVE_FULL_DISTRIBUTION
};
/// The beta distribution, of density x^(a - 1) (1 - x)^(b - 1) / B(a, b).
struct Beta {
  NumberOrTensor a, b;
  STAVE_FULL_DISTRIBUTION
};
/// The F distribution of (x / numerator) / (y / denominator), for x and y of ChiSquared with these
/// degrees of freedom.
struct FDistribution {
  NumberOrTensor numerator, denominator;
  STAVE_FULL_DISTRIBUTION
};
/// The distribution of density proportional to x^-(concentration + 1) above `scale`.
struct Pareto {
  NumberOrTensor concentration, scale = 1;
  STAVE_FULL_DISTRIBUTION
};
/// The distribution whose sf is exp(-(x / scale)^concentration): scipy.stats.weibull_min.
struct Weibull {
  NumberOrTensor concentration, scale = 1;
  STAVE_FULL_DISTRIBUTION
};

#undef STAVE_DISTRIBUTION
#undef STAVE_PROBABILITIES
#undef STAVE_MOMENTS
#undef STAVE_FULL_DISTRIBUTION

}  // namespace stave
