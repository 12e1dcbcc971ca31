// Discrete distributions of numbers. distributions.h says what all distributions have in common.
//
// Draws are int32, or bools for Bernoulli. log_prob, cdf, log_cdf and sf take integers, bools or
// floats. log_prob is -inf at numbers that are not integers; cdf and sf round down. Classes of
// Categorical::log_prob are integers.
//
// quantile(p) is the least integer k with cdf(k) >= p, as a float, and has derivative 0; near p = 1
// it is as exact as the rounded cdf. As in SciPy, quantile(0) is the integer below the support,
// quantile(1) its end, which may be infinite, and others outside of [0, 1] are NaN. It costs 34
// evaluations of the cdf for Poisson and Binomial, 60 for NegativeBinomial, and few for the others.
//
// Entropies of Poisson, Binomial and NegativeBinomial are computed in float64 by integrals, or by
// series where the variance is at least 64, with relative errors of about 1e-13. Those of
// BetaBinomial and Hypergeometric are sums over all counts, so their time and memory grow with the
// greatest count, which they read, and they have derivative 0 by counts. The cdf of these two has
// no closed form and is left out.
//
// logits are log(p / (1 - p)) of a probability p, as in NumPyro and PyTorch.
#pragma once

#include <stave/handlers/inference/number_or_tensor.h>
#include <stave/handlers/inference/support.h>

namespace stave {

#define STAVE_DISTRIBUTION                                      \
  Tensor log_prob(const Tensor& x) const;                       \
  Tensor sample(const Key& key, const Shape& shape = {}) const; \
  Support support() const;                                      \
  Tensor mean() const;                                          \
  Tensor variance() const;
#define STAVE_PROBABILITIES              \
  Tensor cdf(const Tensor& x) const;     \
  Tensor log_cdf(const Tensor& x) const; \
  Tensor sf(const Tensor& x) const;      \
  Tensor quantile(const Tensor& p) const;

/// A bool that is true with probability sigmoid(logits).
struct Bernoulli {
  NumberOrTensor logits;
  STAVE_DISTRIBUTION
  STAVE_PROBABILITIES
  Tensor entropy() const;
};
/// An int32 in 0 ... n-1 with the probabilities softmax(logits), for logits [..., n].
struct Categorical {
  Tensor logits;
  STAVE_DISTRIBUTION
  STAVE_PROBABILITIES
  Tensor entropy() const;
};
/// The Poisson distribution of mean `rate`.
struct Poisson {
  NumberOrTensor rate;
  STAVE_DISTRIBUTION
  STAVE_PROBABILITIES
  Tensor entropy() const;
};
/// The number of successes among `count` trials, each of which succeeds with probability
/// sigmoid(logits).
struct Binomial {
  NumberOrTensor count, logits;
  STAVE_DISTRIBUTION
  STAVE_PROBABILITIES
  Tensor entropy() const;
};
/// The number of successes before the failure number `count`, where a trial succeeds with
/// probability sigmoid(logits). count need not be an integer. It is scipy.stats.nbinom(count,
/// sigmoid(-logits)).
struct NegativeBinomial {
  NumberOrTensor count, logits;
  STAVE_DISTRIBUTION
  STAVE_PROBABILITIES
  Tensor entropy() const;
};
/// The number of failures before the first success, 0, 1, ..., where a trial succeeds with
/// probability sigmoid(logits). It is scipy.stats.geom(sigmoid(logits), loc=-1).
struct Geometric {
  NumberOrTensor logits;
  STAVE_DISTRIBUTION
  STAVE_PROBABILITIES
  Tensor entropy() const;
};
/// The binomial distribution of `count` trials whose probability is a draw from Beta{a, b}.
struct BetaBinomial {
  NumberOrTensor count, a, b;
  STAVE_DISTRIBUTION
  Tensor entropy() const;
};
/// The number of good items among `draws` that are drawn without replacement from `good` good and
/// `bad` bad items: scipy.stats.hypergeom(good + bad, good, draws).
struct Hypergeometric {
  NumberOrTensor good, bad, draws;
  STAVE_DISTRIBUTION
  Tensor entropy() const;
};
/// The positive integers k with probability proportional to k^-exponent, for an exponent above 1:
/// scipy.stats.zipf. Draws beyond int32 are its greatest number.
struct Zipf {
  NumberOrTensor exponent;
  STAVE_DISTRIBUTION
  STAVE_PROBABILITIES
  Tensor entropy() const;
};

#undef STAVE_DISTRIBUTION
#undef STAVE_PROBABILITIES

}  // namespace stave
