// Rows of sort and argsort.

#include <algorithm>
#include <cmath>
#include <numeric>

#include <stave/core/ops/sort.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

struct Sorted {
  Shape shape;
  // If there is no value, the call has no axis and sorts along the last one.
  std::optional<Index> axis = {};
  bool descending = false;

  std::size_t along() const {
    const Index a = axis.value_or(-1);
    return static_cast<std::size_t>(a < 0 ? a + shape.rank() : a);
  }
  /// An axis that is not sorted, which layout `broadcast` repeats; if there is none, axis 0.
  Index other_axis() const {
    for (int i = 0; i < shape.rank(); ++i)
      if (static_cast<std::size_t>(i) != along() && shape[static_cast<std::size_t>(i)] > 1) return i;
    return 0;
  }
  std::string str() const {
    return shape.str() + (axis ? " along " + std::to_string(*axis) : "") + (descending ? " descending" : "");
  }
};

/// Returns true if a comes before b. NaN is the largest, and -0 equals 0.
bool before(Real a, Real b, bool descending) {
  if (descending) std::swap(a, b);
  return std::isnan(b) ? !std::isnan(a) : a < b;
}

/// The sorted order of each row of `at`, as positions along the axis.
Array order_of(const Array& at, const Sorted& sorted, Dtype dtype) {
  const std::size_t axis = sorted.along();
  Array order = make(dtype, sorted.shape, [](const Shape&) { return Real(0); });
  for_each_position(sorted.shape, [&](const Shape& p) {
    if (p[axis] != 0) return;
    const auto place = [&](Index i) {
      Shape q = p;
      q[axis] = i;
      return q;
    };
    std::vector<Index> row(static_cast<std::size_t>(sorted.shape[axis]));
    std::iota(row.begin(), row.end(), 0);
    std::stable_sort(row.begin(), row.end(),
                     [&](Index i, Index j) { return before(at(place(i)), at(place(j)), sorted.descending); });
    for (std::size_t i = 0; i < row.size(); ++i) order(place(static_cast<Index>(i))) = static_cast<Real>(row[i]);
  });
  return order;
}

Array taken(const Array& x, const Array& order, std::size_t axis) {
  return make(x.dtype, x.shape, [&](const Shape& p) {
    Shape at = p;
    at[axis] = static_cast<Index>(order(p));
    return x(at);
  });
}

using OfLast = Tensor (*)(const Tensor&);
using Along = Tensor (*)(const Tensor&, Index, SortOptions);

Variant variant_of(Dtype dtype, OfLast of_last, Along of, bool positions, const Sorted& sorted, const Domain& domain) {
  Variant variant{.name = sorted.str(), .inputs = {{dtype, sorted.shape, domain, true, sorted.other_axis()}}};
  if (sorted.axis) variant.call = [=](auto xs) { return of(xs[0], *sorted.axis, {.descending = sorted.descending}); };
  else variant.call = [=](auto xs) { return of_last(xs[0]); };
  if (sorted.shape.rank() == 0) {
    variant.reference = [](auto xs) { return Arrays{xs[0]}; };
    variant.refusal = "axis -1 is out of range for rank 0";
    return variant;
  }
  variant.differentiable = !positions;
  variant.reference = [=](auto xs) {
    const Array order = order_of(xs[0], sorted, int32);
    return Arrays{positions ? order : taken(xs[0], order, sorted.along())};
  };
  // Near `at`, equal elements keep the order that they have at `at`.
  variant.smooth = [=](auto at, auto xs) {
    return Arrays{taken(xs[0], order_of(at[0], sorted, int32), sorted.along())};
  };
  return variant;
}

std::vector<Variant> variants_of(Dtype dtype, OfLast of_last, Along of, bool positions) {
  std::vector<Variant> variants;
  for (const Sorted& sorted : std::vector<Sorted>{{{6}},
                                                  {{2, 3}},
                                                  {{3, 2}, 0},
                                                  {{2, 4}, 1, true},
                                                  {{4, 2}, 0, true},
                                                  {{2, 3, 2}, -2},
                                                  {{1, 3}, 0},
                                                  {{0, 3}, 1},
                                                  {{2, 0}},
                                                  {{}}})
    variants.push_back(variant_of(dtype, of_last, of, positions, sorted, {-9, 9}));
  for (const bool descending : {false, true}) {
    variants.push_back(variant_of(dtype, of_last, of, positions, {{2, 7}, 1, descending}, {.choices = {-1, 0, 2}}));
    variants.back().name += " with ties";
  }
  return variants;
}

}  // namespace

void add_sort_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "sort", .dtypes = all_dtypes, .variants = [](Dtype dtype) {
                    return variants_of(dtype, stave::sort, stave::sort, false);
                  }});
  rows.push_back({.name = "argsort", .dtypes = all_dtypes, .variants = [](Dtype dtype) {
                    return variants_of(dtype, stave::argsort, stave::argsort, true);
                  }});
}

}  // namespace table
