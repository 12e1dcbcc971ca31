// Distributions of vectors and matrices. distributions.h says what all distributions have in
// common.
//
// The last axis of the parameter belongs to a single draw; for matrices, the last two axes. The
// other axes are a batch of distributions.
#pragma once

#include <stave/handlers/inference/number_or_tensor.h>
#include <stave/handlers/inference/support.h>

namespace stave {

#define STAVE_DISTRIBUTION(rank)                                \
  Tensor log_prob(const Tensor& x) const;                       \
  Tensor sample(const Key& key, const Shape& shape = {}) const; \
  Support support() const;                                      \
  static int event_rank() { return rank; }

/// The normal distribution of mean `location` [..., n] and covariance l l^T, where l = scale_tril
/// is a lower triangular matrix [..., n, n].
struct MultivariateNormal {
  Tensor location, scale_tril;
  STAVE_DISTRIBUTION(1)
  Tensor mean() const;
  Tensor covariance() const;  ///< [..., n, n]
  Tensor variance() const;    ///< the diagonal of the covariance
  Tensor entropy() const;
};
/// The distribution of location + l z / sqrt(c / degrees), for a vector z of standard normal
/// numbers and c of ChiSquared{degrees}: scipy.stats.multivariate_t of shape l l^T.
struct MultivariateStudentT {
  NumberOrTensor degrees;
  Tensor location, scale_tril;
  STAVE_DISTRIBUTION(1)
  Tensor entropy() const;
};
/// The Dirichlet distribution of concentrations [..., n].
struct Dirichlet {
  Tensor concentration;
  STAVE_DISTRIBUTION(1)
  Tensor mean() const;
  Tensor variance() const;
  Tensor entropy() const;
};
/// The number of times that each of n classes occurs among `count` draws of Categorical{logits},
/// for logits [..., n]. Draws are int32 [..., n]. The entropy [...] is computed in float64, by an
/// integral for each class or, where the mean of the class is at least 64, by a series. The error
/// is about 1e-13.
struct Multinomial {
  NumberOrTensor count;
  Tensor logits;
  STAVE_DISTRIBUTION(1)
  Tensor mean() const;
  Tensor variance() const;
  Tensor entropy() const;
};
/// The Wishart distribution of symmetric positive definite matrices [..., n, n] with mean degrees
/// l l^T, where l = scale_tril, and degrees > n - 1: the distribution of the sum of `degrees` outer
/// products x x^T of normal vectors x of covariance l l^T.
struct Wishart {
  NumberOrTensor degrees;
  Tensor scale_tril;
  STAVE_DISTRIBUTION(2)
  Tensor mean() const;
  Tensor entropy() const;
};
/// The distribution of Cholesky factors of correlation matrices [dimension, dimension] with density
/// proportional to det(correlation)^(concentration - 1) (Lewandowski, Kurowicka and Joe, 2009).
/// log_prob is the density of the factor, as in Stan and NumPyro.
struct LKJCholesky {
  Index dimension;
  NumberOrTensor concentration = 1;
  STAVE_DISTRIBUTION(2)
};

#undef STAVE_DISTRIBUTION

}  // namespace stave
