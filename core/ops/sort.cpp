// sort, argsort and argtopk. sort does not return a permutation; its derivative computes the
// permutation by argsort.

#include <stave/core/ops/sort.h>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using stave_detail::require_defined, stave_detail::positions_dtype;

namespace {

AttributesPtr sort_attributes(int axis, bool descending) { return make_intrusive<SortAttributes>(axis, descending); }

Tensor permutation(const Tensor& x, const SortAttributes& attributes) {
  return apply(op_argsort, {x}, AttributesPtr(&attributes));
}

// y_i = x_p(i) with the permutation p, so dy_i = dx_p(i).
Outputs jvp_sort(const JvpContext& c) {
  const auto& attributes = c.as<SortAttributes>();
  return take_along_axis(c.tangents[0], permutation(c.in(0), attributes), attributes.axis);
}

// The cotangent of y_i goes to x_p(i), by a scatter. All axes but the sorted one are batch axes of
// this scatter.
Tensor vjp_sort(const VjpContext& c, int) {
  const auto& attributes = c.as<SortAttributes>();
  const Tensor ct = moveaxis(c.ct(), attributes.axis, -1);
  const Tensor places = moveaxis(permutation(c.in(0), attributes), attributes.axis, -1);
  const Tensor nothing = zeros(ct.shape(), ct.dtype(), ct.device());
  const Tensor back = apply(op_scatter_add, {nothing, expand_dims(places, -1), ct},
                            make_intrusive<GatherAttributes>(ct.rank() - 1, false));
  return moveaxis(back, -1, attributes.axis);
}

}  // namespace

constinit const Op op_sort{
    .id = OpId::sort,
    .name = "sort",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          outputs.push_back({call.input(0).shape(), call.input(0).dtype()});
        },
    .reads = {0b1},
    .jvp = jvp_sort,
    .vjp = vjp_sort,
    .batch = batch_in_front,
};

constinit const Op op_argsort{
    .id = OpId::argsort,
    .name = "argsort",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const Tensor& x = call.input(0);
          outputs.push_back({x.shape(), positions_dtype(x.shape(call.as<SortAttributes>().axis))});
        },
    .derivative = Derivative::zero,
    .batch = batch_in_front,
};

constinit const Op op_argtopk{
    .id = OpId::argtopk,
    .name = "argtopk",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const Tensor& x = call.input(0);
          const auto& attributes = call.as<TopkAttributes>();
          const Index length = x.shape(attributes.axis);
          if (attributes.k < 0 || attributes.k > length)
            stave_detail::fail<ShapeError>("topk: {} entries are requested along axis {}, which has size {}",
                                           attributes.k, attributes.axis, length);
          Shape shape = x.shape();
          shape[static_cast<std::size_t>(attributes.axis)] = attributes.k;
          outputs.push_back({std::move(shape), positions_dtype(length)});
        },
    .derivative = Derivative::zero,
    .batch = batch_in_front,
};

// ---- functions ------------------------------------------------------------------------------

Tensor sort(const Tensor& x, Index axis, SortOptions options) {
  return apply(op_sort, {x},
               sort_attributes(normalize_axis(axis, require_defined(x, "sort").rank(), "sort"), options.descending));
}
Tensor argsort(const Tensor& x, Index axis, SortOptions options) {
  return apply(
      op_argsort, {x},
      sort_attributes(normalize_axis(axis, require_defined(x, "argsort").rank(), "argsort"), options.descending));
}
Tensor sort(const Tensor& x) { return sort(x, -1); }
Tensor argsort(const Tensor& x) { return argsort(x, -1); }

}  // namespace stave
