// Rows of functions that take entries along an axis, of slices with a variable start,
// and of one_hot.

#include <algorithm>
#include <cmath>

#include <stave/core/ops/create.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>

#include "table/reference.h"
#include "table/row.h"
#include "table/updates.h"

namespace table {

namespace {

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

Variant put_along_axis_of(Dtype dtype, const Shape& shape, const Shape& put, Input values, Index axis,
                          Dtype index_dtype) {
  const auto along = static_cast<std::size_t>(axis < 0 ? axis + shape.rank() : axis);
  const Dtype result = common(dtype, values.dtype).value_or(dtype);
  return {.name = shape.str() + " at " + stave::name_of(index_dtype) + put.str() + " along " + std::to_string(axis),
          .inputs = {{dtype, shape}, indices(index_dtype, put, shape[along]), values},
          .call = [axis](auto xs) { return put_along_axis(xs[0], xs[1], xs[2], axis); },
          .reference =
              [=](auto xs) {
                Array y = mapped(result, xs[0], [](Real v) { return v; });
                Shape updates = shape;
                updates[along] = put[along];
                for_each_position(updates, [&](const Shape& p) {
                  Shape to = p;
                  to[along] = from_end(xs[1](broadcast_position(put, p)), shape[along]);
                  y(to) = xs[2](broadcast_position(values.shape, p));
                });
                return Arrays{mapped(result, y, [](Real v) { return v; })};
              }};
}

std::vector<Variant> put_along_axis_variants(Dtype dtype) {
  std::vector<Variant> variants = {
      put_along_axis_of(dtype, {2, 3}, {2, 2}, {dtype, {2, 2}}, 1, int64),
      put_along_axis_of(dtype, {3, 2}, {4, 1}, {dtype, {4, 2}}, 0, int32),
      put_along_axis_of(dtype, {2, 3, 2}, {1, 2, 2}, {dtype, {2}}, -2, int32),
      put_along_axis_of(dtype, {5}, {3}, {dtype, {}}, 0, int32),
      refused(
          "", dtype, {}, [](const Tensor& x) { return put_along_axis(x, zeros({}, int32), x, 0); },
          "axis 0 is out of range for rank 0"),

      put_along_axis_of(dtype, {0, 3}, {0, 2}, {dtype, {0, 2}}, 1, int32)};
  for (Dtype index_dtype : integer_dtypes)
    variants.push_back(put_along_axis_of(dtype, {4, 2}, {3, 2}, {dtype, {3, 2}}, 0, index_dtype));
  return variants;
}

// ---- one_hot -----------------------------------------------------------------------------------

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

// ---- dynamic_slice, dynamic_update_slice -------------------------------------------------------

/// Start indices, one for each axis, of slices of these sizes. They are valid on every axis,
/// and of both signs if the dtype is signed.
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

// One index for each axis: tensors of two dtypes and a C++ integer.
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
  rows.push_back({.name = "put_along_axis", .dtypes = all_dtypes, .variants = put_along_axis_variants, .accuracy = 1});
  rows.push_back({.name = "dynamic_slice", .dtypes = all_dtypes, .variants = dynamic_slice_variants, .accuracy = 0});
  rows.push_back(
      {.name = "dynamic_update_slice", .dtypes = all_dtypes, .variants = dynamic_update_slice_variants, .accuracy = 1});
  rows.push_back({.name = "one_hot", .dtypes = integer_dtypes, .variants = one_hot_variants, .accuracy = 0});
}

}  // namespace table
