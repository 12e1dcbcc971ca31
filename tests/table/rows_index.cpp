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
  for (Dtype index_dtype : integer_dtypes) variants.push_back(take_of(dtype, {4, 2}, {3}, 0, index_dtype));
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
  for (Dtype index_dtype : integer_dtypes)
    variants.push_back(take_along_axis_of(dtype, {4, 2}, {3, 2}, 0, index_dtype));
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
  for (Dtype index_dtype : integer_dtypes) variants.push_back(gather_of(dtype, {5}, {3, 1}, index_dtype));
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
  for (Dtype index_dtype : integer_dtypes) variants.push_back(of({3}, {4, 1}, index_dtype));
  for (Dtype other : number_dtypes)
    if (common(dtype, other)) variants.push_back(scatter_add_of({dtype, {3, 2}}, {other, {}}, {4, 1}, int32));
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

// ---- dynamic_slice, dynamic_update_slice ------------------------------------------------------------------

/// Starts of slices of these sizes, one for each axis: what none of the axes refuses, of both signs where the dtype has two.
Input starts(Dtype dtype, const Shape& shape, const Shape& sizes) {
  Index room = 100, shortest = 100, largest = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    room = std::min(room, shape[axis] - sizes[axis]);
    shortest = std::min(shortest, shape[axis]);
    largest = std::max(largest, sizes[axis]);
  }
  std::vector<Real> choices;
  for (Index start = 0; start <= room; ++start) choices.push_back(static_cast<Real>(start));
  for (Index start = std::max<Index>(largest, 1); is_signed(dtype) && start <= shortest; ++start)
    choices.push_back(-static_cast<Real>(start));
  return {dtype, {shape.rank()}, {.choices = choices}};
}

/// The position in x of position p of the slice.
Shape in_slice(const Array& begin, const Shape& shape, Shape p) {
  for (std::size_t axis = 0; axis < p.size(); ++axis) p[axis] += from_end(begin.values[axis], shape[axis]);
  return p;
}

Variant dynamic_slice_of(Dtype dtype, const Shape& shape, const Shape& sizes, Dtype index_dtype) {
  return {.name = sizes.str() + " of " + shape.str() + " at " + stave::name_of(index_dtype),
          .inputs = {{dtype, shape}, starts(index_dtype, shape, sizes)},
          .call = [sizes](auto xs) { return dynamic_slice(xs[0], xs[1], sizes); },
          .reference =
              [=](auto xs) {
                return Arrays{make(dtype, sizes, [&](const Shape& p) { return xs[0](in_slice(xs[1], shape, p)); })};
              }};
}

// One index for each axis: tensors of two dtypes, and a C++ integer.
Variant dynamic_slice_at_numbers(Dtype dtype) {
  return {.name = "at single indices",
          .inputs = {{dtype, {4, 3, 5}}, {uint8, {}, {0, 2}}, {int64, {}, {-3, 3}}},
          .call =
              [](auto xs) {
                return dynamic_slice(xs[0], {xs[1], -2, xs[2]}, {2, 2, 1});
              },
          .reference =
              [=](auto xs) {
                return Arrays{make(dtype, {2, 2, 1}, [&](const Shape& p) {
                  return xs[0](
                      Shape(p[0] + static_cast<Index>(xs[1].values[0]), p[1] + 1, p[2] + from_end(xs[2].values[0], 5)));
                })};
              }};
}

std::vector<Variant> dynamic_slice_variants(Dtype dtype) {
  std::vector<Variant> variants = {dynamic_slice_of(dtype, {4, 5}, {2, 3}, int32),
                                   dynamic_slice_of(dtype, {6}, {2}, int64),
                                   dynamic_slice_of(dtype, {3, 2, 4}, {1, 2, 2}, int32),
                                   dynamic_slice_of(dtype, {3, 4}, {3, 4}, int32),
                                   dynamic_slice_of(dtype, {3, 4}, {2, 0}, int32),
                                   dynamic_slice_of(dtype, {0, 3}, {0, 2}, int32),
                                   dynamic_slice_of(dtype, {}, {}, int32),
                                   dynamic_slice_at_numbers(dtype)};
  for (Dtype index_dtype : integer_dtypes) variants.push_back(dynamic_slice_of(dtype, {5}, {2}, index_dtype));
  return variants;
}

Variant dynamic_update_slice_of(Dtype dtype, const Shape& shape, Input update, Dtype index_dtype) {
  const Dtype result = promoted(dtype, update.dtype);
  return {.name = update.shape.str() + " of " + stave::name_of(update.dtype) + " into " + shape.str() + " at " +
                  stave::name_of(index_dtype),
          .inputs = {{dtype, shape}, update, starts(index_dtype, shape, update.shape)},
          .call = [](auto xs) { return dynamic_update_slice(xs[0], xs[1], xs[2]); },
          .reference =
              [=](auto xs) {
                Array y = mapped(result, xs[0], [](Real v) { return v; });
                for_each_position(xs[1].shape, [&](const Shape& p) { y(in_slice(xs[2], shape, p)) = xs[1](p); });
                return Arrays{mapped(result, y, [](Real v) { return v; })};
              }};
}

std::vector<Variant> dynamic_update_slice_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, const Shape& sizes, Dtype index_dtype) {
    return dynamic_update_slice_of(dtype, shape, {dtype, sizes}, index_dtype);
  };
  std::vector<Variant> variants = {of({4, 5}, {2, 3}, int32), of({3, 2, 4}, {1, 2, 2}, int64),
                                   of({3, 4}, {3, 4}, int32), of({3, 4}, {2, 0}, int32),
                                   of({0, 3}, {0, 2}, int32), of({}, {}, int32)};
  for (Dtype index_dtype : integer_dtypes) variants.push_back(of({5}, {2}, index_dtype));
  for (Dtype other : all_dtypes)
    if (common(dtype, other)) variants.push_back(dynamic_update_slice_of(dtype, {3, 4}, {other, {2, 2}}, int32));
  return variants;
}

}  // namespace

void add_index_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "take", .dtypes = all_dtypes, .variants = take_variants, .accuracy = 0});
  rows.push_back(
      {.name = "take_along_axis", .dtypes = all_dtypes, .variants = take_along_axis_variants, .accuracy = 0});
  rows.push_back({.name = "gather", .dtypes = all_dtypes, .variants = gather_variants, .accuracy = 0});
  rows.push_back({.name = "scatter_add", .dtypes = number_dtypes, .variants = scatter_add_variants});
  rows.push_back({.name = "dynamic_slice", .dtypes = all_dtypes, .variants = dynamic_slice_variants, .accuracy = 0});
  rows.push_back(
      {.name = "dynamic_update_slice", .dtypes = all_dtypes, .variants = dynamic_update_slice_variants, .accuracy = 1});
  rows.push_back({.name = "one_hot", .dtypes = integer_dtypes, .variants = one_hot_variants, .accuracy = 0});
}

}  // namespace table
