#include <stave/handlers/inference/compound.h>

#include <algorithm>

#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/softmax.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/inference/events.h>
#include <stave/handlers/inference/parameters.h>

namespace stave {

using namespace stave_detail;

using T = const Tensor&;

// ---- Mixture -----------------------------------------------------------------------------

int Mixture::event_rank() const { return components.event_rank(); }

Tensor Mixture::log_prob(T x) const {
  const Tensor each = components.log_prob(expand_dims(x, -1 - event_rank()));
  const Dtype dtype = each.dtype(), computed = computed_in(dtype);
  return astype(logsumexp(astype(each, computed) + log_softmax(astype(floating(logits), computed)), -1), dtype);
}

Tensor Mixture::sample(const Key& key, const Shape& shape) const {
  const auto [first, second] = split(key);
  const int rank = event_rank();
  const Shape wanted = without_last(logits.shape(), 1);  // the batch of the logits
  Tensor drawn = components.sample(first, shape);
  Shape batch = without_last(drawn.shape(), rank + 1);
  if (batch == shape && wanted.rank() > 0) {  // the components have no batch besides their own axis
    batch.append(wanted.begin(), wanted.end());
    drawn = components.sample(first, batch);
  }
  Shape beside(std::span<const Index>(batch.begin() + shape.rank(), batch.end()));
  if (broadcast_shapes(beside, wanted, "Mixture") != beside)
    fail<ShapeError>("Mixture: to sample, the components need the batch {} of the logits; theirs is {}", wanted,
                     beside);
  const Index n = logits.shape(-1);
  Shape of_logits = batch;
  of_logits.push_back(n);
  const Tensor chosen = categorical(second, broadcast_to(logits, of_logits));
  // The component of each draw, along the axis in front of the event.
  Shape at = batch, all = batch;
  for (int i = 0; i <= rank; ++i) at.push_back(1);
  all.push_back(n);
  for (int i = 0; i < rank; ++i) all.push_back(drawn.shape(i - rank));
  const Index axis = -1 - rank;
  return squeeze(take_along_axis(broadcast_to(drawn, all), reshape(chosen, at), axis), axis);
}

Support Mixture::support() const { return components.support(); }

// ---- Independent -------------------------------------------------------------------------

int Independent::event_rank() const { return base.event_rank() + axes; }
Tensor Independent::log_prob(T x) const { return sum_events(base.log_prob(x), axes); }
Tensor Independent::sample(const Key& key, const Shape& shape) const { return base.sample(key, shape); }
Support Independent::support() const { return base.support(); }

// ---- Transformed -------------------------------------------------------------------------

namespace {
// The event of x, which contains whole events of the base and of the bijector.
int rank_of_base(const Distribution& base, const Bijector& bijector) {
  return std::max(base.event_rank(), bijector.input_rank());
}
}  // namespace

int Transformed::event_rank() const {
  return rank_of_base(base, bijector) + bijector.output_rank() - bijector.input_rank();
}
// The inverse of a y outside of the bijector's range is NaN or infinite, and so is the sum.
Tensor Transformed::log_prob(T y) const {
  const int rank = rank_of_base(base, bijector);
  const Tensor x = bijector.inverse(y);
  const Tensor density = sum_events(base.log_prob(x), rank - base.event_rank()) -
                         sum_events(bijector.log_det(x), rank - bijector.input_rank());
  Tensor unknown = isnan(y);
  for (int i = 0; i < event_rank(); ++i) unknown = any(unknown, -1);
  return where(isnan(density) && !unknown, -infinity, density);
}
Tensor Transformed::sample(const Key& key, const Shape& shape) const {
  return bijector.forward(base.sample(key, shape));
}
Support Transformed::support() const {
  const Support support = base.support();
  return support.is_discrete() ? support : Support(Bijector::chain({support.map(), bijector}));
}

}  // namespace stave
