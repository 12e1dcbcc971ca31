// Rows of gather, scatter, and reductions of segments.

#include <algorithm>
#include <cmath>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/index.h>

#include "table/reference.h"
#include "table/row.h"
#include "table/updates.h"

namespace table {

namespace {

/// The position in x that entry `p` of gather's result shows, for indices [batch..., at..., k].
Shape addressed(const Array& index, const Shape& x, const Shape& p, Index batch = 0) {
  const Index at = index.shape.rank() - 1, k = index.shape.back();
  Shape in = part(p, 0, batch);
  for (Index i = 0; i < k; ++i)
    in.push_back(from_end(index(concatenated(part(p, 0, at), Shape(i))), x[static_cast<std::size_t>(batch + i)]));
  return concatenated(in, part(p, at, p.rank()));
}

Shape gathered_shape(const Shape& x, const Shape& index, Index batch = 0) {
  return concatenated(part(index, 0, index.rank() - 1), part(x, batch + index.back(), x.rank()));
}

/// The length of the shortest axis that indices of this shape address;
/// it bounds the indices of all of them.
Index shortest(const Shape& x, const Shape& index, Index batch = 0) {
  Index length = 100;
  for (Index i = 0; i < index.back(); ++i) length = std::min(length, x[static_cast<std::size_t>(batch + i)]);
  return length;
}

std::string words_for(const Shape& shape, const Shape& at, Dtype index_dtype, Index batch) {
  return shape.str() + " at " + stave::name_of(index_dtype) + at.str() +
         (batch ? " batch " + std::to_string(batch) : "");
}

Variant gather_of(Dtype dtype, const Shape& shape, const Shape& at, Dtype index_dtype, Index batch = 0) {
  return {.name = words_for(shape, at, index_dtype, batch),
          .inputs = {{dtype, shape}, indices(index_dtype, at, shortest(shape, at, batch))},
          .call = [batch](auto xs) { return gather(xs[0], xs[1], batch); },
          .reference =
              [=](auto xs) {
                return Arrays{make(dtype, gathered_shape(shape, at, batch),
                                   [&](const Shape& p) { return xs[0](addressed(xs[1], shape, p, batch)); })};
              }};
}

std::vector<Variant> gather_variants(Dtype dtype) {
  std::vector<Variant> variants = {
      gather_of(dtype, {4, 3}, {5, 1}, int64),       gather_of(dtype, {3, 2}, {4, 2}, int32),
      gather_of(dtype, {2, 3, 2}, {2, 2, 2}, int32), gather_of(dtype, {2, 3}, {1}, int32),
      gather_of(dtype, {3, 0}, {2, 1}, int32),       gather_of(dtype, {2, 3}, {0, 1}, int32),
      gather_of(dtype, {}, {2, 0}, int32),           gather_of(dtype, {2, 3, 2}, {2, 4, 1}, int32, 1)};
  for (Dtype index_dtype : integer_dtypes) variants.push_back(gather_of(dtype, {5}, {3, 1}, index_dtype));
  return variants;
}

using Scatter = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, Index);

Variant scatter_of(Scatter scatter, Combine combine, Input x, Input updates, const Shape& at, Dtype index_dtype,
                   Index batch = 0) {
  const Dtype both = common(x.dtype, updates.dtype).value_or(x.dtype), result = combine == put ? both : as_number(both);
  updates.shape = gathered_shape(x.shape, at, batch);
  Variant variant{.name = words_for(x.shape, at, index_dtype, batch) + " of " + stave::name_of(updates.dtype),
                  .inputs = {x, indices(index_dtype, at, shortest(x.shape, at, batch)), updates},
                  .call = [=](auto xs) { return scatter(xs[0], xs[1], xs[2], batch); },
                  .reference =
                      [=](auto xs) {
                        Array y = xs[0], size = mapped(float64, y, [](Real v) { return std::abs(v); });
                        for_each_position(xs[2].shape, [&](const Shape& p) {
                          const Shape to = addressed(xs[1], y.shape, p, batch);
                          y(to) = combine(y(to), xs[2](p));
                          size(to) = combine == plus ? size(to) + std::abs(xs[2](p)) : std::abs(y(to));
                        });
                        y = mapped(result, y, [](Real v) { return v; });
                        y.magnitude = size.values;
                        return Arrays{y};
                      }};
  if (combine == least || combine == greatest)
    variant.smooth = [=](auto near, auto xs) {
      Met met(near[0], xs[0], combine);
      for_each_position(xs[2].shape,
                        [&](const Shape& p) { met.put(addressed(xs[1], x.shape, p, batch), near[2](p), xs[2](p)); });
      return Arrays{met.mean(result)};
    };
  return variant;
}

template <Scatter scatter, Combine combine>
std::vector<Variant> scatter_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, const Shape& at, Dtype index_dtype, Index batch = 0) {
    return scatter_of(scatter, combine, {dtype, shape}, {dtype, {}}, at, index_dtype, batch);
  };
  std::vector<Variant> variants = {of({4, 3}, {5, 1}, int64),       of({2, 2}, {6, 2}, int32),
                                   of({3, 2, 2}, {2, 2, 1}, int32), of({2, 3}, {1}, int32),
                                   of({3, 0}, {2, 1}, int32),       of({2, 3}, {0, 1}, int32),
                                   of({}, {3, 0}, int32),           of({2, 3, 2}, {2, 4, 1}, int32, 1)};
  for (Dtype index_dtype : integer_dtypes) variants.push_back(of({3}, {4, 1}, index_dtype));
  for (Dtype other : dtype == bool_ && combine == put ? std::vector<Dtype>{} : number_dtypes)
    if (common(dtype, other))
      variants.push_back(scatter_of(scatter, combine, {dtype, {3, 2}}, {other, {}}, {4, 1}, int32));
  if (combine == times && is_float(dtype))
    variants.push_back(
        scatter_of(scatter, combine, {dtype, {2, 2}}, {dtype, {}, {.choices = {0, 0, 1.5, -2}}}, {5, 1}, int32));
  return variants;
}

// ---- segments ----------------------------------------------------------------------------------

using Segments = Tensor (*)(const Tensor&, const Tensor&, Index);

template <Segments segments, Combine combine>
std::vector<Variant> segment_variants(Dtype dtype) {
  const bool sums = combine == plus || combine == times;
  const Dtype result = sums ? summed_in(dtype) : as_number(dtype);
  const Real range = std::ldexp(Real(1), 8 * static_cast<int>(size_of(result)));
  const Real top = is_float(dtype)     ? std::numeric_limits<Real>::infinity()
                   : is_signed(result) ? range / 2 - 1
                                       : range - 1;
  const Real bottom = is_float(dtype) ? -top : is_signed(result) ? -range / 2 : 0;
  const Real nothing = combine == plus ? 0 : combine == times ? 1 : combine == least ? top : bottom;
  std::vector<Variant> variants;
  const auto add = [&](const Shape& shape, const std::vector<Index>& ids, Index count, bool differentiable = true) {
    variants.push_back(
        {.name = shape.str() + " in " + std::to_string(count),
         .inputs = {{dtype, shape, {}, differentiable, shape.rank() - 1}},

         .call = [=](auto xs) { return segments(xs[0], astype(from(ids), count % 2 ? int64 : uint8), count); },
         .reference =
             [=](auto xs) {
               Shape all = shape;
               all[0] = count;
               Array y = make(float64, all, [&](const Shape&) { return nothing; });
               Array size = mapped(float64, y, [](Real) { return Real(0); });
               for_each_position(shape, [&](const Shape& p) {
                 Shape to = p;
                 to[0] = ids[static_cast<std::size_t>(p[0])];
                 y(to) = combine(y(to), xs[0](p));
                 size(to) = combine == plus ? size(to) + std::abs(xs[0](p)) : std::abs(y(to));
               });
               y = mapped(result, y, [](Real v) { return v; });
               y.magnitude = size.values;
               return Arrays{y};
             }});
    if (sums) return;
    variants.back().smooth = [=](auto near, auto xs) {
      Shape all = shape;
      all[0] = count;
      const Array none = make(float64, all, [&](const Shape&) { return nothing; });
      Met met(none, none, combine);
      for_each_position(shape, [&](const Shape& p) {
        Shape to = p;
        to[0] = ids[static_cast<std::size_t>(p[0])];
        met.put(to, near[0](p), xs[0](p));
      });
      return Arrays{met.mean(result)};
    };
  };
  add({7}, {2, 0, 0, 1, 2, 2, 0}, 3);
  add({4, 3}, {1, 1, 0, 1}, 2);
  // some segments are empty: their infinities have no differences
  add({4, 2}, {3, 3, 0, 3}, 5, sums);
  add({0, 2}, {}, 2, sums);

  variants.push_back(refused(
      "", dtype, {}, [](const Tensor& x) { return segments(x, zeros({1}, int32), 2); },
      "needs ids of shape [1], not [1]"));
  return variants;
}

}  // namespace

void add_scatter_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "gather", .dtypes = all_dtypes, .variants = gather_variants, .accuracy = 0});
  rows.push_back({.name = "scatter", .dtypes = all_dtypes, .variants = scatter_variants<scatter, put>, .accuracy = 1});
  rows.push_back({.name = "scatter_add", .dtypes = all_dtypes, .variants = scatter_variants<scatter_add, plus>});
  rows.push_back(
      {.name = "scatter_multiply", .dtypes = all_dtypes, .variants = scatter_variants<scatter_multiply, times>});
  rows.push_back(
      {.name = "scatter_min", .dtypes = all_dtypes, .variants = scatter_variants<scatter_min, least>, .accuracy = 1});
  rows.push_back({.name = "scatter_max",
                  .dtypes = all_dtypes,
                  .variants = scatter_variants<scatter_max, greatest>,
                  .accuracy = 1});
  rows.push_back({.name = "segment_sum", .dtypes = all_dtypes, .variants = segment_variants<segment_sum, plus>});
  rows.push_back({.name = "segment_prod", .dtypes = all_dtypes, .variants = segment_variants<segment_prod, times>});
  rows.push_back(
      {.name = "segment_min", .dtypes = all_dtypes, .variants = segment_variants<segment_min, least>, .accuracy = 0});
  rows.push_back({.name = "segment_max",
                  .dtypes = all_dtypes,
                  .variants = segment_variants<segment_max, greatest>,
                  .accuracy = 0});
}

}  // namespace table
