// Rows of reductions at computed positions. References are loops in the order of the updates.

#include <stave/core/ops/scatter_reduce.h>

#include <algorithm>
#include <cmath>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

/// The old element and the updates of one position, combined.
Real combine(ScatterReduction reduction, bool include_self, Real old, const std::vector<Real>& updates, bool whole) {
  if (updates.empty()) return old;
  std::vector<Real> values = updates;
  if (include_self) values.insert(values.begin(), old);
  Real result = values[0];
  for (std::size_t i = 1; i < values.size(); ++i) switch (reduction) {
      case ScatterReduction::prod: result *= values[i]; break;
      case ScatterReduction::max: result = std::max(result, values[i]); break;
      case ScatterReduction::min: result = std::min(result, values[i]); break;
      default: result += values[i];
    }
  if (reduction != ScatterReduction::mean) return result;
  const Real mean = result / static_cast<Real>(values.size());
  return whole ? std::floor(mean) : mean;
}

/// Variants of both functions. `target(p)` gives the position along the axis to which the update
/// at p goes.
std::vector<Variant> scatter_variants(Dtype dtype, bool of_entries) {
  std::vector<Variant> variants;
  const auto add = [&](const Shape& shape, Index axis, Index count, ScatterReduction reduction, bool include_self) {
    const auto along = static_cast<std::size_t>(axis);
    Shape updates = shape;
    updates[along] = count;
    const Shape indices = of_entries ? Shape(count) : updates;
    const Index other = axis == 0 && shape.rank() > 1 ? 1 : 0;
    std::vector<Real> places;
    for (Index i = 0; i < shape[along]; ++i) places.push_back(static_cast<Real>(i));
    if (places.empty()) places = {0};
    const bool extremes = reduction == ScatterReduction::max || reduction == ScatterReduction::min;
    // The updates are apart from the elements, so that no extreme is shared.
    variants.push_back(
        {.name = shape.str() + " along " + std::to_string(axis) + " reduction " +
                 std::to_string(static_cast<int>(reduction)) + (include_self ? "" : " without self"),
         .inputs = {{dtype, shape, extremes ? Domain{-2, 0} : Domain{}, true, other},
                    {int32, indices, {.choices = places}, true, of_entries ? 0 : other},
                    {dtype, updates, extremes ? Domain{0.1, 2} : Domain{}, true, other}},
         .call =
             [=](auto xs) {
               return of_entries ? index_reduce(xs[0], axis, xs[1], xs[2], reduction, {.include_self = include_self})
                                 : scatter_reduce(xs[0], axis, xs[1], xs[2], reduction, {.include_self = include_self});
             },
         .reference =
             [=](auto xs) {
               Array y = make(as_number(dtype), shape, [&](const Shape& p) {
                 std::vector<Real> here;
                 for (Index i = 0; i < count; ++i) {
                   Shape from = p;
                   from[along] = i;
                   const Real target = of_entries ? xs[1]({i}) : xs[1](from);
                   if (target == static_cast<Real>(p[along])) here.push_back(xs[2](from));
                 }
                 return combine(reduction, include_self, xs[0](p), here, !is_float(dtype));
               });
               return Arrays{extremes ? y : sized(y, 32)};
             }});
  };
  for (const ScatterReduction reduction : {ScatterReduction::sum, ScatterReduction::prod, ScatterReduction::mean,
                                           ScatterReduction::max, ScatterReduction::min})
    for (const bool include_self : {true, false}) {
      add({2, 4}, 1, 5, reduction, include_self);
      add({3, 2}, 0, 4, reduction, include_self);
      add({2, 3, 2}, 1, 3, reduction, include_self);
    }
  add({0, 3}, 1, 2, ScatterReduction::sum, true);
  variants.push_back({.name = "()",
                      .inputs = {{dtype, {}}, {int32, {}, {.choices = {0}}}},
                      .call =
                          [=](auto xs) {
                            return of_entries ? index_reduce(xs[0], 0, xs[1], xs[0], ScatterReduction::sum)
                                              : scatter_reduce(xs[0], 0, xs[1], xs[0], ScatterReduction::sum);
                          },
                      .refusal = "axis 0 is out of range for rank 0"});
  return variants;
}

std::vector<Variant> segment_mean_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const auto add = [&](const Shape& shape, Index count) {
    Shape result = shape;
    result[0] = count;
    std::vector<Real> ids;
    for (Index i = 0; i < count; ++i) ids.push_back(static_cast<Real>(i));
    variants.push_back(
        {.name = shape.str() + " to " + std::to_string(count),
         .inputs = {{dtype, shape, {}, true, shape.rank() > 1 ? 1 : 0}, {int32, {shape[0]}, {.choices = ids}}},
         .call = [=](auto xs) { return segment_mean(xs[0], xs[1], count); },
         .reference =
             [=](auto xs) {
               return Arrays{sized(make(as_float(dtype), result,
                                        [&](const Shape& p) {
                                          Real total = 0, number = 0;
                                          for (Index i = 0; i < shape[0]; ++i) {
                                            if (xs[1]({i}) != static_cast<Real>(p[0])) continue;
                                            Shape from = p;
                                            from[0] = i;
                                            total += xs[0](from);
                                            number += 1;
                                          }
                                          return number == 0 ? 0 : total / number;
                                        }),
                                   16)};
             }});
  };
  add({5, 2}, 3);
  add({4}, 2);
  add({4, 0}, 2);
  variants.push_back({.name = "()",
                      .inputs = {{dtype, {}}, {int32, {1}, {.choices = {0}}}},
                      .call = [](auto xs) { return segment_mean(xs[0], xs[1], 2); },
                      .refusal = "needs ids of shape"});
  return variants;
}

std::vector<Variant> take_mode_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const TakeMode mode : {TakeMode::clip, TakeMode::wrap})
    variants.push_back(
        {.name = std::string("mode ") + (mode == TakeMode::clip ? "clip" : "wrap"),
         .inputs = {{dtype, {2, 3}}, {int32, {4}, {-7, 7}}},
         .call = [=](auto xs) { return take(xs[0], xs[1], 1, mode); },
         .reference =
             [=](auto xs) {
               return Arrays{make(dtype, {2, 4}, [&](const Shape& p) {
                 const auto i = static_cast<Index>(xs[1]({p[1]}));
                 return xs[0]({p[0], mode == TakeMode::clip ? std::clamp<Index>(i, 0, 2) : ((i % 3) + 3) % 3});
               })};
             }});
  return variants;
}

}  // namespace

void add_scatter_reduce_rows(std::vector<Row>& rows) {
  for (Row& row : rows)
    if (row.name == "take")
      row.variants = [by_range = row.variants](Dtype dtype) {
        std::vector<Variant> variants = by_range(dtype);
        for (Variant& variant : take_mode_variants(dtype)) variants.push_back(std::move(variant));
        return variants;
      };
  rows.push_back({.name = "scatter_reduce",
                  .dtypes = {float32, float64, int32, uint8, bfloat16},
                  .variants = [](Dtype dtype) { return scatter_variants(dtype, false); }});
  rows.push_back({.name = "index_reduce",
                  .dtypes = {float32, float64, int32, uint8, bfloat16},
                  .variants = [](Dtype dtype) { return scatter_variants(dtype, true); }});
  rows.push_back({.name = "segment_mean", .dtypes = network_dtypes, .variants = segment_mean_variants});
}

}  // namespace table
