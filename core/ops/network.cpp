// The functions embedding and dropout.

#include <stave/core/ops/network.h>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

Tensor embedding(const Tensor& table, const Tensor& ids, EmbeddingOptions options) {
  if (require_defined(table, "embedding").rank() == 0) fail<ShapeError>("embedding: a table of rank 0 has no rows");
  return named(
      "embedding",
      [&] {
        const Tensor places = as_indices(ids, "embedding");
        const Tensor rows =
            apply(op_gather, {table, expand_dims(places, -1)}, make_intrusive<GatherAttributes>(0, false));
        if (!options.padding) return rows;
        const Index padding = *options.padding, count = table.shape(0);
        if (padding < 0 || padding >= count)
          fail<IndexError>("embedding: the padding row {} is not one of the {} rows", padding, count);
        Shape beside = places.shape();
        beside.resize(rows.shape().size(), 1);
        return where(reshape(places == padding, beside), stop_gradient(rows), rows);
      },
      table, ids);
}

Tensor dropout(const Key& key, const Tensor& x, double rate) {
  if (!(rate >= 0 && rate <= 1)) fail<Error>("dropout: rate {} is not a probability: it must lie in [0, 1]", rate);
  return named(
      "dropout",
      [&] {
        const Tensor values = floating(x);
        if (rate == 0) return values;
        if (rate == 1) return zeros_like(values);
        const Tensor keep = bernoulli(key, 1 - rate, values.shape());
        return in_inexact([&](const Tensor& y) { return where(keep, y * (1 / (1 - rate)), 0); }, values);
      },
      x);
}

}  // namespace stave
