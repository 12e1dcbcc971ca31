// The segment functions and one_hot, which scatter values into new tensors.

#include <stave/core/ops/index.h>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

AttributesPtr from_rows(int batch_dims) { return make_intrusive<GatherAttributes>(batch_dims, false); }

// Returns the data combined by segment: `op`, a kind of scatter, combines them with a tensor that
// holds `initial` for each segment.
template <class Initial>
Tensor in_segments(const char* function, const Op& op, const Tensor& data, const Tensor& ids, Index count,
                   Initial initial) {
  const Shape& shape = require_defined(data, function, 0).shape();
  if (require_defined(ids, function, 1).rank() != 1 || shape.rank() == 0 || shape[0] != ids.size())
    fail<ShapeError>("{}: data {} needs ids of shape {}, not {}", function, shape, Shape(shape.rank() ? shape[0] : 1),
                     ids.shape());
  if (count < 0) fail<ShapeError>("{}: {} segments", function, count);
  return named(function, [&] {
    Shape segments = shape;
    segments[0] = count;
    const Tensor none = full(segments, initial, data.dtype(), data.device());
    return apply(op, {none, expand_dims(as_indices(ids, function), 1), data}, from_rows(0));
  });
}

Tensor extremes(const char* function, const Op& op, const Tensor& data, const Tensor& ids, Index count) {
  const Dtype dtype = multiplied_in(require_defined(data, function, 0).dtype());
  const Scalar initial = op.id == OpId::scatter_min ? greatest_of(dtype) : least_of(dtype);
  return in_segments(function, op, astype(data, dtype), ids, count, initial);
}

}  // namespace

Tensor segment_sum(const Tensor& data, const Tensor& ids, Index count) {
  return in_segments("segment_sum", op_scatter_add, widened(require_defined(data, "segment_sum", 0)), ids, count, 0);
}
Tensor segment_prod(const Tensor& data, const Tensor& ids, Index count) {
  return in_segments("segment_prod", op_scatter_multiply, widened(require_defined(data, "segment_prod", 0)), ids, count,
                     1);
}
Tensor segment_min(const Tensor& data, const Tensor& ids, Index count) {
  return extremes("segment_min", op_scatter_min, data, ids, count);
}
Tensor segment_max(const Tensor& data, const Tensor& ids, Index count) {
  return extremes("segment_max", op_scatter_max, data, ids, count);
}

// scatter puts a one into each of x.size() rows of zeros. So scatter finds indices out of range, as
// for other functions, under every transform.
Tensor one_hot(const Tensor& x, Index n, Dtype dtype) {
  if (n < 0) fail<ShapeError>("one_hot: {} classes", n);
  return named(
      "one_hot",
      [&] {
        const Tensor places = reshape(as_indices(x, "one_hot"), {x.size(), 1});
        const Tensor one = broadcast_to(ones({}, dtype, x.device()), {x.size()});
        const Tensor rows = apply(op_scatter, {zeros({x.size(), n}, dtype, x.device()), places, one}, from_rows(1));
        return reshape(rows, joined({x.shape(), Shape(n)}));
      },
      x);
}

}  // namespace stave
