// Rows of searching, counting, and interpolation in samples.

#include <stave/core/ops/search.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/sort.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

/// Compares numbers so that NaN is the largest.
bool before(Real a, Real b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

Array in_order(const Array& x) {
  Array y = x;
  std::sort(y.values.begin(), y.values.end(), before);
  return y;
}

const Domain few{.choices = {-1, 0, 1, 2}};

// ---- counting ----------------------------------------------------------------------------------

std::vector<Variant> count_nonzero_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, std::optional<Index> axis) -> Variant {
    return {.name = shape.str() + (axis ? " along " + std::to_string(*axis) : ""),
            .inputs = {{dtype, shape, few}},
            .call = [=](auto xs) { return axis ? count_nonzero(xs[0], *axis) : count_nonzero(xs[0]); },
            .reference =
                [=](auto xs) {
                  const Shape kept = axis ? without_axis(shape, *axis) : Shape();
                  Array counts = make(int32, kept, [](const Shape&) { return Real(0); });
                  for_each_position(
                      shape, [&](const Shape& p) { counts(axis ? without_axis(p, *axis) : Shape()) += xs[0](p) != 0; });
                  return Arrays{counts};
                },
            .differentiable = false};
  };
  return {of({2, 3}, {}), of({2, 3}, 1), of({4}, 0), of({3, 2, 2}, 1), of({0, 3}, 0), of({2, 0}, {}), of({}, {})};
}

std::vector<Variant> bincount_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, const char* refusal, const Domain& domain) -> Variant {
    return {.name = shape.str() + (*refusal ? " out of range" : ""),
            .inputs = {{dtype, shape, domain}},
            .call = [](auto xs) { return bincount(xs[0], 4); },
            .reference =
                [](auto xs) {
                  Array counts = make(int32, {4}, [](const Shape&) { return Real(0); });
                  for (const Real value : xs[0].values) counts.values[static_cast<std::size_t>(value)] += 1;
                  return Arrays{counts};
                },
            .refusal = refusal};
  };
  const Domain inside{.choices = {0, 1, 3}};
  return {of({6}, "", inside),    of({2, 3}, "", inside), of({0}, "", inside),
          of({0, 2}, "", inside), of({}, "", inside),     of({5}, "out of range", {.choices = {4}})};
}

std::vector<Variant> histogram_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, const Shape& edges, const char* refusal) -> Variant {
    return {.name = shape.str() + " by " + edges.str(),
            .inputs = {{dtype, shape, {.choices = {-2, -1, 0, 0.5, 1, 2, 3}}}, {dtype, edges, few}},
            .call = [](auto xs) { return histogram(xs[0], stave::sort(xs[1])); },
            .reference =
                [](auto xs) {
                  const Array e = in_order(xs[1]);
                  const std::size_t bins = e.values.size() - 1;
                  Array counts = make(int32, {static_cast<Index>(bins)}, [](const Shape&) { return Real(0); });
                  for (const Real value : xs[0].values)
                    for (std::size_t i = 0; i < bins; ++i)
                      counts.values[i] += value >= e.values[i] &&
                                          (value < e.values[i + 1] || (i + 1 == bins && value == e.values[i + 1]));
                  return Arrays{counts};
                },
            .differentiable = false,
            .refusal = refusal};
  };
  return {of({12}, {4}, ""), of({3, 4}, {2}, ""), of({0}, {3}, ""), of({}, {3}, ""), of({3}, {1}, "enclose no bin")};
}

// ---- order -------------------------------------------------------------------------------------

// The positions of the k largest elements of each row along an axis.
Array largest_in(const Array& x, std::size_t axis, Index k) {
  Shape result = x.shape;
  result[axis] = k;
  return make(int32, result, [&](const Shape& p) {
    const auto at = [&](Index i) {
      Shape q = p;
      q[axis] = i;
      return x(q);
    };
    std::vector<Index> order(static_cast<std::size_t>(x.shape[axis]));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](Index i, Index j) { return before(at(j), at(i)); });
    return static_cast<Real>(order[static_cast<std::size_t>(p[axis])]);
  });
}
Array taken(const Array& x, const Array& places, std::size_t axis) {
  return make(x.dtype, places.shape, [&](const Shape& p) {
    Shape at = p;
    at[axis] = static_cast<Index>(places(p));
    return x(at);
  });
}

std::vector<Variant> topk_variants(Dtype dtype) {
  const auto of = [&](bool of_places, const Shape& shape, Index k, Index axis, const char* refusal) {
    const auto along = static_cast<std::size_t>(axis < 0 ? axis + shape.rank() : axis);
    Variant variant{.name = (of_places ? "places of " : "") + std::to_string(k) + " of " + shape.str() + " along " +
                            std::to_string(axis),
                    .inputs = {{dtype, shape, {-9, 9}, true, along == 0 ? shape.rank() - 1 : 0}},
                    .differentiable = !of_places,
                    .refusal = refusal};
    variant.call = [=](auto xs) {
      const auto [values, places] = topk(xs[0], k, axis);
      return Outputs(of_places ? places : values);
    };
    variant.reference = [=](auto xs) {
      const Array places = largest_in(xs[0], along, k);
      return Arrays{of_places ? places : taken(xs[0], places, along)};
    };
    // Near `at`, equal elements keep the order that they have at `at`.
    variant.smooth = [=](auto at, auto xs) { return Arrays{taken(xs[0], largest_in(at[0], along, k), along)}; };
    return variant;
  };
  std::vector<Variant> variants;
  for (const bool of_places : {false, true})
    for (const Variant& variant :
         {of(of_places, {6}, 2, 0, ""), of(of_places, {2, 4}, 3, -1, ""), of(of_places, {4, 2}, 2, 0, ""),
          of(of_places, {2, 3, 2}, 1, 1, ""), of(of_places, {0, 3}, 2, 1, ""), of(of_places, {2, 3}, 0, 1, ""),
          of(of_places, {2, 3}, 4, 1, "4 entries are requested")})
      variants.push_back(variant);
  variants.push_back(refused(
      "", dtype, {}, [](const Tensor& x) { return topk(x, 1).first; }, "axis -1 is out of range for rank 0"));
  return variants;
}

std::vector<Variant> searchsorted_variants(Dtype dtype) {
  const auto of = [&](const Shape& sorted, const Shape& values, bool right, const Domain& domain) -> Variant {
    return {.name = values.str() + " in " + sorted.str() + (right ? " right" : "") +
                    (domain.choices.size() > 4 ? " special values" : ""),
            .inputs = {{dtype, sorted, domain}, {dtype, values, domain}},
            .call = [=](auto xs) { return searchsorted(stave::sort(xs[0]), xs[1], {.right = right}); },
            .reference =
                [=](auto xs) {
                  const Array row = in_order(xs[0]);
                  return Arrays{mapped(int32, xs[1], [&](Real x) -> Real {
                    return static_cast<Real>(std::count_if(row.values.begin(), row.values.end(), [&](Real there) {
                      return before(there, x) || (right && !before(x, there));
                    }));
                  })};
                },
            .differentiable = false};
  };
  std::vector<Variant> variants;
  for (const bool right : {false, true})
    for (const Shape& sorted : {Shape(1), Shape(2), Shape(3), Shape(7), Shape(8)})
      variants.push_back(of(sorted, {2, 5}, right, few));
  for (const bool right : {false, true}) {
    variants.push_back(of({0}, {3}, right, few));
    variants.push_back(of({4}, {0}, right, few));
    variants.push_back(of({5}, {}, right, few));
    variants.push_back(refused(
        right ? "right " : "", dtype, {}, [=](const Tensor& x) { return searchsorted(x, x, {.right = right}); },
        "a vector is needed"));
    if (is_float(dtype)) variants.push_back(of({9}, {12}, right, {.choices = special_values}));
  }
  return variants;
}

std::vector<Variant> isin_variants(Dtype dtype) {
  const auto of = [&](const Shape& x, const Shape& values, const Domain& domain) -> Variant {
    return {.name = x.str() + " in " + values.str() + (domain.choices.size() > 4 ? " special values" : ""),
            .inputs = {{dtype, x, domain}, {dtype, values, domain}},
            .call = [](auto xs) { return isin(xs[0], xs[1]); },
            .reference =
                [](auto xs) {
                  return Arrays{mapped(bool_, xs[0], [&](Real a) -> Real {
                    return std::any_of(xs[1].values.begin(), xs[1].values.end(), [&](Real b) { return a == b; });
                  })};
                },
            .differentiable = false};
  };
  std::vector<Variant> variants = {of({2, 3}, {2}, few), of({4}, {2, 2}, few), of({3}, {0}, few), of({0}, {2}, few),
                                   of({}, {3}, few)};
  if (is_float(dtype)) variants.push_back(of({9}, {4}, {.choices = special_values}));
  return variants;
}

// ---- functions given by samples ----------------------------------------------------------------

// Sample points xp: 0, 1, 2, ... plus a small multiple of the drawn values.
Tensor ascending(const Tensor& x) {
  return arange(0, x.size(), 1, x.dtype()) + (is_float(x.dtype()) ? 0.1 * x : 0 * x);
}
Array ascending(const Array& x) {
  return make(x.dtype, x.shape,
              [&](const Shape& p) { return static_cast<Real>(p[0]) + (is_float(x.dtype) ? Real(0.1L) * x(p) : 0); });
}

std::vector<Variant> interp_variants(Dtype dtype) {
  const auto of = [&](const Shape& x, Index samples, const char* refusal) -> Variant {
    return {.name = x.str() + " of " + std::to_string(samples) + " samples",
            .inputs = {{dtype, x, {-1, 4}}, {dtype, {samples}, {-2, 2}}, {dtype, {samples}}},
            .call = [](auto xs) { return interp(xs[0], ascending(xs[1]), xs[2]); },
            .reference =
                [=](auto xs) {
                  const Array xp = ascending(xs[1]);
                  const auto& fp = xs[2].values;
                  Array y = mapped(as_float(dtype), xs[0], [&](Real at) -> Real {
                    std::size_t i = 1;
                    if (at <= xp.values[0]) return fp[0];
                    if (at > xp.values.back()) return fp.back();
                    while (at > xp.values[i]) ++i;
                    return fp[i - 1] +
                           (at - xp.values[i - 1]) / (xp.values[i] - xp.values[i - 1]) * (fp[i] - fp[i - 1]);
                  });
                  y.magnitude.assign(y.values.size(), 16);
                  return Arrays{y};
                },
            .refusal = refusal};
  };
  return {of({5}, 4, ""), of({2, 3}, 3, ""), of({4}, 1, ""),
          of({0}, 3, ""), of({}, 4, ""),     of({2}, 0, "which is not 0")};
}

std::vector<Variant> trapezoid_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, Index axis, bool places) -> Variant {
    const Index along = axis < 0 ? axis + shape.rank() : axis;
    std::vector<Input> inputs = {{dtype, shape, {}, true, along == 0 ? shape.rank() - 1 : 0}};
    if (places) inputs.push_back({dtype, {shape[static_cast<std::size_t>(along)]}});
    return {.name = shape.str() + " along " + std::to_string(axis) + (places ? " at x" : ""),
            .inputs = inputs,
            .call = [=](auto xs) { return places ? trapezoid(xs[0], xs[1], axis) : trapezoid(xs[0], 0.5, axis); },
            .reference =
                [=](auto xs) {
                  const Shape kept = without_axis(shape, along);
                  Array result = make(as_float(dtype), kept, [](const Shape&) { return Real(0); });
                  for_each_position(shape, [&](const Shape& p) {
                    const Index i = p[static_cast<std::size_t>(along)];
                    if (i == 0) return;
                    Shape before_p = p;
                    before_p[static_cast<std::size_t>(along)] = i - 1;
                    const Real width = places ? xs[1]({i}) - xs[1]({i - 1}) : Real(0.5);
                    result(without_axis(p, along)) += width * (xs[0](p) + xs[0](before_p)) / 2;
                  });
                  result.magnitude.assign(result.values.size(), 32);
                  return Arrays{result};
                }};
  };
  return {of({6}, 0, false),
          of({2, 4}, -1, true),
          of({4, 2}, 0, true),
          of({2, 3, 2}, 1, false),
          of({0, 3}, 1, true),
          of({2, 1}, 1, false),
          of({1}, 0, true),
          refused(
              "", dtype, {}, [](const Tensor& x) { return trapezoid(x); }, "axis -1 is out of range for rank 0")};
}

}  // namespace

void add_search_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "count_nonzero", .dtypes = all_dtypes, .variants = count_nonzero_variants, .accuracy = 0});
  rows.push_back({.name = "bincount", .dtypes = integer_dtypes, .variants = bincount_variants, .accuracy = 0});
  rows.push_back({.name = "histogram", .dtypes = all_dtypes, .variants = histogram_variants, .accuracy = 0});
  rows.push_back({.name = "topk", .dtypes = all_dtypes, .variants = topk_variants, .accuracy = 0});
  rows.push_back({.name = "searchsorted", .dtypes = all_dtypes, .variants = searchsorted_variants, .accuracy = 0});
  rows.push_back({.name = "isin", .dtypes = all_dtypes, .variants = isin_variants, .accuracy = 0});
  rows.push_back({.name = "interp", .dtypes = {float32, float64}, .variants = interp_variants});
  rows.push_back({.name = "trapezoid", .dtypes = float_dtypes, .variants = trapezoid_variants});
}

}  // namespace table
