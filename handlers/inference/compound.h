// Distributions made of other distributions.
//
//   const Mixture two{log(tensor({0.25, 0.75})), Normal{tensor({-1., 2.}), 1}};
//   const Transformed positive{Normal{0, 1}, Bijector::softplus()};
//   const Independent vector{Normal{zeros({3}), 1}, 1};   // log_prob has no axis of length 3
#pragma once

#include <stave/core/tensor/tensor.h>
#include <stave/handlers/inference/bijectors.h>
#include <stave/handlers/inference/distribution.h>

namespace stave {

#define STAVE_DISTRIBUTION                                      \
  Tensor log_prob(const Tensor& x) const;                       \
  Tensor sample(const Key& key, const Shape& shape = {}) const; \
  Support support() const;                                      \
  int event_rank() const;

/// A draw from one of n distributions, chosen with the probabilities softmax(logits), for logits
/// [..., n]. `components` is a batch of n distributions of one family: the last axis of its
/// parameters, in front of the axes of an event, has length n. The support is that of the
/// components, which must be the same one for all n. Draws have no derivative with respect to the
/// logits.
struct Mixture {
  Tensor logits;
  Distribution components;
  STAVE_DISTRIBUTION
};
/// The distribution `base`, where the last `axes` axes of the batch belong to one event: log_prob
/// is the sum over these axes.
struct Independent {
  Distribution base;
  int axes;
  STAVE_DISTRIBUTION
};
/// The distribution of bijector.forward(x) for a draw x from `base`.
struct Transformed {
  Distribution base;
  Bijector bijector;
  STAVE_DISTRIBUTION
};

#undef STAVE_DISTRIBUTION

}  // namespace stave
