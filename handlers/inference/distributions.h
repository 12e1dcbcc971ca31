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
// - A draw is differentiable with respect to the parameters of which it is a smooth function.
//   Derivatives of draws of Gamma, Beta, StudentT, Dirichlet and the distributions that are made of
//   these with respect to concentrations (degrees of freedom) throw TransformError. Draws of
//   discrete distributions are integers or bools.
// - A distribution is a tree of its parameters. Any class with log_prob(x), sample(key, shape)
//   and support() converts to Distribution, which is a tree of the parameters as well.
#pragma once

#include <stave/handlers/inference/bijectors.h>
#include <stave/handlers/inference/compound.h>
#include <stave/handlers/inference/continuous.h>
#include <stave/handlers/inference/discrete.h>
#include <stave/handlers/inference/distribution.h>
#include <stave/handlers/inference/kl_divergence.h>
#include <stave/handlers/inference/multivariate.h>
#include <stave/handlers/inference/number_or_tensor.h>
#include <stave/handlers/inference/support.h>
