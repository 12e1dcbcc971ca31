// Indexing by integer tensors.

#include <algorithm>
#include <cmath>

#include <stave/core/ops/index.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

Index from_end(Real index, Index length) { return static_cast<Index>(index) + (index < 0 ? length : 0); }

/// Indices of an axis of this length: of both signs, where the dtype has two.
Input indices(Dtype dtype, const Shape& shape, Index length) {
  return {dtype, shape, {-static_cast<double>(length), static_cast<double>(length) - 1}};
}

const std::vector<Dtype> index_dtypes = {uint8, uint32, int32, int64};

Variant take_of(Dtype dtype, const Shape& shape, const Shape& taken, Index axis, Dtype index_dtype,
                std::string refusal = "") {
  const Index along = axis < 0 ? axis + shape.rank() : axis;
  const Index length = shape.rank() > 0 ? shape[static_cast<std::size_t>(along)] : 1;
  return {.name = shape.str() + " at " + stave::name_of(index_dtype) + taken.str() + " along " + std::to_string(axis),
          .inputs = {{dtype, shape}, indices(index_dtype, taken, length)},
          .call = [axis](auto xs) { return take(xs[0], xs[1], axis); },
          .reference =
              [=](auto xs) {
                const Shape before = part(shape, 0, along), after = part(shape, along + 1, shape.rank());
                return Arrays{make(dtype, concatenated(concatenated(before, taken), after), [&](const Shape& p) {
                  const Shape at = part(p, along, along + taken.rank());
                  return xs[0](concatenated(concatenated(part(p, 0, along), Shape(from_end(xs[1](at), length))),
                                            part(p, along + taken.rank(), p.rank())));
                })};
              },
          .refusal = refusal};
}

std::vector<Variant> take_variants(Dtype dtype) {
  std::vector<Variant> variants = {
      take_of(dtype, {4, 3}, {2, 2}, 0, int64), take_of(dtype, {2, 3}, {5}, -1, int32),
      take_of(dtype, {2, 3, 2}, {2}, 1, int32), take_of(dtype, {2, 3}, {}, 1, int32),
      take_of(dtype, {5}, {7}, 0, int32),       take_of(dtype, {0, 3}, {2}, 1, int32),
      take_of(dtype, {2, 3}, {0}, 1, int64),    take_of(dtype, {}, {2}, 0, int32, "out of range")};
  for (Dtype index_dtype : index_dtypes) variants.push_back(take_of(dtype, {4, 2}, {3}, 0, index_dtype));
  return variants;
}

Variant take_along_axis_of(Dtype dtype, const Shape& shape, const Shape& taken, Index axis, Dtype index_dtype,
                           std::string refusal = "") {
  const Index along = axis < 0 ? axis + shape.rank() : axis;
  const Index length = shape.rank() > 0 ? shape[static_cast<std::size_t>(along)] : 1;
  return {.name = shape.str() + " at " + stave::name_of(index_dtype) + taken.str() + " along " + std::to_string(axis),
          .inputs = {{dtype, shape}, indices(index_dtype, taken, length)},
          .call = [axis](auto xs) { return take_along_axis(xs[0], xs[1], axis); },
          .reference =
              [=](auto xs) {
                const auto at = static_cast<std::size_t>(along);
                Shape others = shape;
                others[at] = 1;
                Shape result = broadcast_shape(others, taken);
                result[at] = taken[at];
                return Arrays{make(dtype, result, [&](const Shape& p) {
                  Shape in = p;
                  in[at] = from_end(xs[1](broadcast_position(taken, p)), length);
                  return xs[0](broadcast_position(shape, in));
                })};
              },
          .refusal = refusal};
}

std::vector<Variant> take_along_axis_variants(Dtype dtype) {
  std::vector<Variant> variants = {
      take_along_axis_of(dtype, {2, 3}, {2, 4}, 1, int64), take_along_axis_of(dtype, {3, 2}, {1, 2}, 0, int32),
      take_along_axis_of(dtype, {3, 2}, {2, 1}, 0, int32), take_along_axis_of(dtype, {1, 3, 2}, {2, 2, 1}, -2, int32),
      take_along_axis_of(dtype, {5}, {3}, 0, int32),       take_along_axis_of(dtype, {0, 3}, {0, 2}, 1, int32),
      take_along_axis_of(dtype, {2, 3}, {2, 0}, 1, int32), take_along_axis_of(dtype, {}, {}, 0, int32, "out of range")};
  for (Dtype index_dtype : index_dtypes) variants.push_back(take_along_axis_of(dtype, {4, 2}, {3, 2}, 0, index_dtype));
  return variants;
}

// ---- gather, scatter_add ----------------------------------------------------------------------------------

/// The position in x that entry `p` of the result of gather shows, for indices [at..., k].
Shape addressed(const Array& index, const Shape& x, const Shape& p) {
  const Index at = index.shape.rank() - 1, k = index.shape.back();
  Shape in;
  for (Index i = 0; i < k; ++i)
    in.push_back(from_end(index(concatenated(part(p, 0, at), Shape(i))), x[static_cast<std::size_t>(i)]));
  return concatenated(in, part(p, at, p.rank()));
}

Shape gathered_shape(const Shape& x, const Shape& index) {
  return concatenated(part(index, 0, index.rank() - 1), part(x, index.back(), x.rank()));
}

/// The shortest of the axes that indices of this shape address bounds all of them.
Index shortest(const Shape& x, const Shape& index) {
  Index length = 100;
  for (Index i = 0; i < index.back(); ++i) length = std::min(length, x[static_cast<std::size_t>(i)]);
  return length;
}

Variant gather_of(Dtype dtype, const Shape& shape, const Shape& at, Dtype index_dtype) {
  return {.name = shape.str() + " at " + stave::name_of(index_dtype) + at.str(),
          .inputs = {{dtype, shape}, indices(index_dtype, at, shortest(shape, at))},
          .call = [](auto xs) { return gather(xs[0], xs[1]); },
          .reference =
              [=](auto xs) {
                return Arrays{make(dtype, gathered_shape(shape, at),
                                   [&](const Shape& p) { return xs[0](addressed(xs[1], shape, p)); })};
              }};
}

std::vector<Variant> gather_variants(Dtype dtype) {
  std::vector<Variant> variants = {gather_of(dtype, {4, 3}, {5, 1}, int64),
                                   gather_of(dtype, {3, 2}, {4, 2}, int32),
                                   gather_of(dtype, {2, 3, 2}, {2, 2, 2}, int32),
                                   gather_of(dtype, {2, 3}, {1}, int32),
                                   gather_of(dtype, {3, 0}, {2, 1}, int32),
                                   gather_of(dtype, {2, 3}, {0, 1}, int32),
                                   gather_of(dtype, {}, {2, 0}, int32)};
  for (Dtype index_dtype : index_dtypes) variants.push_back(gather_of(dtype, {5}, {3, 1}, index_dtype));
  return variants;
}

Variant scatter_add_of(Input x, Input updates, const Shape& at, Dtype index_dtype) {
  const Dtype result = promoted(x.dtype, updates.dtype);
  updates.shape = gathered_shape(x.shape, at);
  return {
      .name = x.shape.str() + " at " + stave::name_of(index_dtype) + at.str() + " of " + stave::name_of(updates.dtype),
      .inputs = {x, indices(index_dtype, at, shortest(x.shape, at)), updates},
      .call = [](auto xs) { return scatter_add(xs[0], xs[1], xs[2]); },
      .reference =
          [=](auto xs) {
            Array y = xs[0], size = mapped(float64, y, [](Real v) { return std::abs(v); });
            for_each_position(xs[2].shape, [&](const Shape& p) {
              const Shape to = addressed(xs[1], y.shape, p);
              y(to) += xs[2](p);
              size(to) += std::abs(xs[2](p));
            });
            y = mapped(result, y, [](Real v) { return v; });
            y.magnitude = size.values;
            return Arrays{y};
          }};
}

std::vector<Variant> scatter_add_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, const Shape& at, Dtype index_dtype) {
    return scatter_add_of({dtype, shape}, {dtype, {}}, at, index_dtype);
  };
  std::vector<Variant> variants = {
      of({4, 3}, {5, 1}, int64), of({2, 2}, {6, 2}, int32), of({3, 2, 2}, {2, 2, 1}, int32),
      of({2, 3}, {1}, int32),    of({3, 0}, {2, 1}, int32), of({2, 3}, {0, 1}, int32),
      of({}, {3, 0}, int32)};
  for (Dtype index_dtype : index_dtypes) variants.push_back(of({3}, {4, 1}, index_dtype));
  for (Dtype other : number_dtypes) variants.push_back(scatter_add_of({dtype, {3, 2}}, {other, {}}, {4, 1}, int32));
  return variants;
}

// ---- one_hot ----------------------------------------------------------------------------------------------

std::vector<Variant> one_hot_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (Dtype result : all_dtypes)
    for (const Shape& shape : {Shape(2, 3), Shape(4), Shape(0, 2), Shape()}) {
      if (result != float32 && shape.rank() != 1) continue;
      variants.push_back(
          {.name = shape.str() + " in " + stave::name_of(result),
           .inputs = {{dtype, shape, {0, 3}}},
           .call = [result](auto xs) { return result == float32 ? one_hot(xs[0], 4) : one_hot(xs[0], 4, result); },
           .reference =
               [=](auto xs) {
                 return Arrays{make(result, concatenated(shape, Shape(4)),
                                    [&](const Shape& p) { return Real(xs[0](part(p, 0, shape.rank())) == p.back()); })};
               }});
    }
  return variants;
}

}  // namespace

void add_index_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "take", .dtypes = all_dtypes, .variants = take_variants, .accuracy = 0});
  rows.push_back(
      {.name = "take_along_axis", .dtypes = all_dtypes, .variants = take_along_axis_variants, .accuracy = 0});
  rows.push_back({.name = "gather", .dtypes = all_dtypes, .variants = gather_variants, .accuracy = 0});
  rows.push_back({.name = "scatter_add", .dtypes = number_dtypes, .variants = scatter_add_variants});
  rows.push_back({.name = "one_hot", .dtypes = index_dtypes, .variants = one_hot_variants, .accuracy = 0});
}

}  // namespace table
