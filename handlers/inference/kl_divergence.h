// The Kullback-Leibler divergence of two distributions.
//
// kl_divergence(p, q) is the mean of p.log_prob(x) - q.log_prob(x) over draws x from p: at least 0,
// and 0 where both are equal. Parameters broadcast. There is an overload for each pair with a
// closed form; for others, take the mean over draws.
#pragma once

#include <stave/handlers/inference/continuous.h>
#include <stave/handlers/inference/discrete.h>
#include <stave/handlers/inference/multivariate.h>

namespace stave {

/// The mean of p.log_prob(x) - q.log_prob(x) over draws x from p, in nats.
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
