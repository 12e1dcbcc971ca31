// Draws from probability distributions, and draws of elements and matrices, from explicit keys.
//
// With the same key a function gives the numbers of the function of jax.random of the same name, or
// of the one that its comment names: integers and bools exactly, float64 up to rounding (with
// 64-bit types enabled in JAX), float32 up to the rounding of its logarithms and powers.
// Samplers that reject proposals (gamma, poisson, binomial, and what is made of them) compare with
// rounded logarithms: about one element in a million accepts a proposal that JAX rejects in
// float32. Draws in 16-bit floats are rounded draws of float32.
//
//   const auto [a, b] = split(Key(0));
//   Tensor x = gamma(a, 2.5, {3, 4});             // float32 [3, 4]
//   Tensor y = beta(b, tensor({0.5, 2}), 3);      // float32 [2]
//
// Parameters are tensors or numbers. Their promoted dtype is that of floats that are drawn;
// integers become default_dtype(). `shape` must be one to which the parameters broadcast; an empty
// shape stands for the shape to which they broadcast together. Parameters outside their domain give
// NaN, or -1 for counts. Counts are int32.
//
// Draws are differentiable with respect to their parameters ("reparameterised"), to any order. For
// gamma distributions and von_mises the derivative is that of the draw at a constant value of the
// distribution function (Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients",
// 2018). Counts have derivative 0. Under vmap each lane gets the numbers that a loop over keys and
// parameters would get.
//
// The CPU computes gamma, loggamma, poisson, binomial, von_mises, hypergeometric and what is made
// of them. Keys and parameters on other devices are moved there and back.
#pragma once

#include <optional>

#include <stave/core/ops/random.h>
#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

// ---- distributions of real numbers, without parameters ------------------------------------------

/// Numbers of the exponential distribution with mean 1: -log1p(-u) of a uniform u in [0, 1).
Tensor exponential(const Key& key, const Shape& shape = {}, Dtype dtype = default_dtype());
/// Numbers of the Laplace distribution, whose density is exp(-|x|) / 2.
Tensor laplace(const Key& key, const Shape& shape = {}, Dtype dtype = default_dtype());
/// Numbers of the standard logistic distribution, whose distribution function is sigmoid.
Tensor logistic(const Key& key, const Shape& shape = {}, Dtype dtype = default_dtype());
/// Numbers of the standard Cauchy distribution, whose density is 1 / (pi (1 + x^2)).
Tensor cauchy(const Key& key, const Shape& shape = {}, Dtype dtype = default_dtype());
/// Numbers of the Maxwell distribution with scale 1: lengths of three normal numbers.
Tensor maxwell(const Key& key, const Shape& shape = {}, Dtype dtype = default_dtype());
/// The numbers -1 and 1, each with probability 1/2, in any dtype of signed numbers. For integers
/// they are JAX's without 64-bit types.
Tensor rademacher(const Key& key, const Shape& shape = {}, Dtype dtype = Dtype::int32);

// ---- distributions of real numbers --------------------------------------------------------------

/// Normal numbers with scale sigma, exponentiated: exp(sigma normal).
Tensor lognormal(const Key& key, Operand sigma = 1.0, const Shape& shape = {});
/// Numbers of the Rayleigh distribution: lengths of two normal numbers of this scale. Where JAX
/// gives infinity, once in 2^23 numbers of float32, the result is the largest finite draw.
Tensor rayleigh(const Key& key, Operand scale, const Shape& shape = {});
/// Numbers of the Pareto distribution on [1, inf) with density b / x^(b + 1).
Tensor pareto(const Key& key, Operand b, const Shape& shape = {});
/// Numbers of the Weibull distribution: scale times the power 1 / concentration of an exponential
/// number.
Tensor weibull_min(const Key& key, Operand scale, Operand concentration, const Shape& shape = {});
/// Numbers of the triangular distribution on [left, right], whose density is greatest at `mode`.
Tensor triangular(const Key& key, Operand left, Operand mode, Operand right, const Shape& shape = {});
/// Numbers of the Wald (inverse Gaussian) distribution of this mean and scale 1. The derivative is
/// that of the root that is chosen, as in JAX; the choice itself depends on the mean.
Tensor wald(const Key& key, Operand mean, const Shape& shape = {});
/// Numbers of the Maxwell distribution with random signs, times scale, plus loc. Unlike in JAX,
/// `shape` is the shape of the result.
Tensor double_sided_maxwell(const Key& key, Operand loc, Operand scale, const Shape& shape = {});
/// Standard normal numbers between lower and upper. Beyond 5 standard deviations (float64: 8)
/// erf rounds to 1, and draws lie near the bound, as in JAX.
Tensor truncated_normal(const Key& key, Operand lower, Operand upper, const Shape& shape = {});
/// Numbers with the density exp(-|x|^p), up to a factor.
Tensor generalized_normal(const Key& key, Operand p, const Shape& shape = {});

// ---- gamma distributions ------------------------------------------------------------------------

/// Numbers of the gamma distribution with scale 1, whose density is
/// gamma_density(concentration, x).
Tensor gamma(const Key& key, Operand concentration, const Shape& shape = {});
/// The logarithms of the numbers of gamma. They stay finite for a small concentration, where most
/// draws are smaller than the smallest float.
Tensor loggamma(const Key& key, Operand concentration, const Shape& shape = {});
/// Numbers of the beta distribution, whose density is beta_density(a, b, x).
Tensor beta(const Key& key, Operand a, Operand b, const Shape& shape = {});
/// Numbers of the chi-squared distribution with df degrees of freedom.
Tensor chisquare(const Key& key, Operand df, const Shape& shape = {});
/// Numbers of Fisher's F distribution with degrees of freedom of the numerator and the denominator:
/// jax.random.f.
Tensor f_distribution(const Key& key, Operand numerator, Operand denominator, const Shape& shape = {});
/// Numbers of Student's t distribution with df degrees of freedom: jax.random.t.
Tensor student_t(const Key& key, Operand df, const Shape& shape = {});
/// Vectors of the Dirichlet distribution, [..., n] for concentrations [..., n], whose elements sum
/// to 1. `shape` is the shape without the last axis.
Tensor dirichlet(const Key& key, const Tensor& concentrations, const Shape& shape = {});

// ---- directions, vectors and matrices -----------------------------------------------------------

/// Angles in [-pi, pi] of the von Mises distribution: the density is proportional to
/// exp(concentration cos(x - location)). jax.random has no such function. Derivatives with respect
/// to the concentration are integrals with 32 nodes, with relative errors of about 1e-12.
Tensor von_mises(const Key& key, Operand location, Operand concentration, const Shape& shape = {});
/// Normal vectors [..., n] with this mean [..., n] and covariance [..., n, n], by its Cholesky
/// factor. `shape` is the shape without the last axis. Throws ShapeError if the sizes differ.
Tensor multivariate_normal(const Key& key, const Tensor& mean, const Tensor& covariance, const Shape& shape = {});
/// Points [shape..., d], distributed uniformly in the unit ball of the p-norm in d dimensions.
Tensor ball(const Key& key, Index d, double p = 2, const Shape& shape = {}, Dtype dtype = default_dtype());
/// Orthogonal matrices [shape..., n, n], distributed uniformly.
Tensor orthogonal(const Key& key, Index n, const Shape& shape = {}, Dtype dtype = default_dtype());
/// Matrices [shape..., n, m] with orthonormal columns, or orthonormal rows if n < m.
Tensor orthogonal(const Key& key, Index n, Index m, const Shape& shape, Dtype dtype = default_dtype());

// ---- counts -------------------------------------------------------------------------------------

/// Uniformly distributed integers in [low, high), of any integer dtype; `low` where high <= low. If
/// high - low exceeds 2^16 (for 64-bit dtypes 2^32), the probabilities of integers may differ by
/// the fraction (high - low) / 2^32 ((high - low) / 2^64) of their size, as in JAX.
Tensor randint(const Key& key, const Shape& shape, Operand low, Operand high, Dtype dtype = Dtype::int32);
/// Numbers of trials, at least 1, until the first success with probability p each.
Tensor geometric(const Key& key, Operand p, const Shape& shape = {});
/// Counts of the Poisson distribution with this rate. A draw that int32 cannot hold is the largest
/// int32.
Tensor poisson(const Key& key, Operand rate, const Shape& shape = {});
/// Counts of successes among n trials with probability p each. Uniform numbers have the dtype of
/// the parameters. As in JAX, probabilities have relative errors below 0.01 where n p > 10.
Tensor binomial(const Key& key, Operand n, Operand p, const Shape& shape = {});
/// Counts [..., k] of n trials among k outcomes with the probabilities p [..., k], which sum to 1.
/// `shape` is the shape without the last axis.
Tensor multinomial(const Key& key, Operand n, const Tensor& p, const Shape& shape = {});
/// Counts of good items among `drawn` items that are drawn without replacement from `good` good and
/// `bad` bad ones: numpy.random.Generator.hypergeometric. jax.random has no such function. Counts
/// that do not exist are -1.
Tensor hypergeometric(const Key& key, Operand good, Operand bad, Operand drawn, const Shape& shape = {});

// ---- elements and orders ------------------------------------------------------------------------

struct ChoiceOptions {
  [[no_unique_address]] ByName by_name{};
  bool replace = true;  ///< false: no entry is drawn twice
  Tensor p{};           ///< the probabilities of the entries, [n]; if empty, all are equal
  Index axis = 0;       ///< the axis of the entries
};
/// Random numbers of 0 ... n-1, int32. Throws ShapeError if n is 0, or if more than n are drawn
/// without replacement.
Tensor choice(const Key& key, Index n, const Shape& shape, ChoiceOptions options = {});
/// Random entries of x along an axis, which the axes of `shape` replace in the result.
Tensor choice(const Key& key, const Tensor& x, const Shape& shape, ChoiceOptions options = {});
/// The elements of x along an axis in random orders, a different one for each line along the axis:
/// jax.random's permutation with independent=True, numpy.random.Generator.permuted.
Tensor shuffle(const Key& key, const Tensor& x, Index axis = 0);
/// k different positions along `axis`, drawn one after the other with the probabilities
/// softmax(logits, axis) of those that are left. The result is [k, ...] with the other axes of
/// logits: jax.random.categorical with replace=False.
Tensor categorical_without_replacement(const Key& key, const Tensor& logits, Index k, Index axis = -1);

}  // namespace stave
