// Distributions: classes that compute the logarithm of their density, and draw samples.
//
//   const Normal prior{0, tensor({1., 2.})};
//   prior.log_prob(x)                         // of each element; parameters and x broadcast
//   prior.sample(key), prior.sample(key, {1000})        // [2], [1000,2]
//   prior.cdf(x), prior.quantile(p), prior.mean(), prior.entropy()
//   kl_divergence(prior, Normal{1, 1})
//
// continuous.h and discrete.h have the distributions of numbers, multivariate.h those of vectors
// and matrices, compound.h mixtures and transformed distributions, bijectors.h the maps for the
// latter.
//
// - Parameters are tensors, or C++ numbers that take the dtype of the other operands.
//   Densities are those of SciPy, and log_prob is -inf outside of the support.
//   float16 and bfloat16 are computed in float32. Parameters are not checked: results for invalid
//   parameters are NaN or meaningless.
// - For Categorical and the distributions of multivariate.h, the last axis of the parameter belongs
//   to a single draw. The other axes are a batch of distributions.
// - A draw is differentiable with respect to the parameters of which it is a smooth function, also
//   concentrations and degrees of freedom (random_samplers.h). Draws of discrete distributions are
//   integers or bools.
// - A distribution is a tree of its parameters. Any class with log_prob(x), sample(key, shape)
//   and support() converts to Distribution, which is a tree of the parameters as well.
#pragma once

#include <stave/handlers/inference/bijectors.h>
#include <stave/handlers/inference/compound.h>
#include <stave/handlers/inference/continuous.h>
#include <stave/handlers/inference/discrete.h>
#include <stave/handlers/inference/distribution.h>
#include <stave/handlers/inference/multivariate.h>
#include <stave/handlers/inference/number_or_tensor.h>
#include <stave/handlers/inference/support.h>

namespace stave {

// ---- Kullback-Leibler divergences -----------------------------------------------------------
// There is an overload for each pair with a closed form; for others, take the mean over draws.
// Parameters broadcast.

/// The mean of p.log_prob(x) - q.log_prob(x) over draws x from p, in nats: at least 0, and 0 where
/// both are equal.
Tensor kl_divergence(const Normal& p, const Normal& q);
Tensor kl_divergence(const LogNormal& p, const LogNormal& q);
Tensor kl_divergence(const Laplace& p, const Laplace& q);
Tensor kl_divergence(const Exponential& p, const Exponential& q);
Tensor kl_divergence(const Gamma& p, const Gamma& q);
Tensor kl_divergence(const Beta& p, const Beta& q);
/// The divergence is infinite unless q covers p.
Tensor kl_divergence(const Uniform& p, const Uniform& q);
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q);
Tensor kl_divergence(const Geometric& p, const Geometric& q);
Tensor kl_divergence(const Poisson& p, const Poisson& q);
Tensor kl_divergence(const Categorical& p, const Categorical& q);
Tensor kl_divergence(const MultivariateNormal& p, const MultivariateNormal& q);
Tensor kl_divergence(const Dirichlet& p, const Dirichlet& q);

}  // namespace stave
