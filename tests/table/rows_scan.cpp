// Rows of cumulative sums and products, and of linear recurrences.

#include <algorithm>
#include <cmath>
#include <limits>

#include <stave/core/ops/scan.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

std::size_t counted(const Shape& shape, Index axis) {
  return static_cast<std::size_t>(axis < 0 ? axis + shape.rank() : axis);
}

/// An axis other than the scan's, which layout `broadcast` repeats, so that no element is combined
/// with a copy of itself; if there is none, axis 0.
Index other_axis(const Shape& shape, Index axis) {
  for (int i = 0; i < shape.rank(); ++i)
    if (static_cast<std::size_t>(i) != counted(shape, axis) && shape[static_cast<std::size_t>(i)] > 1) return i;
  return 0;
}

/// The shape, axis and options of a scan.
struct Along {
  Shape shape;
  Index axis;
  CumulativeOptions options = {};
  // True if the function is called without an axis.
  bool whole = false;

  std::string str() const {
    return shape.str() + (whole ? "" : " along " + std::to_string(axis)) + (options.include_initial ? " initial" : "") +
           (options.reverse ? " reverse" : "");
  }
};

using Cumulative = Tensor (*)(const Tensor&, Index, CumulativeOptions);
using CumulativeOfVector = Tensor (*)(const Tensor&);

/// f of the elements up to and including place `p`, counted from the end where the scan begins.
template <class F>
Array scanned(const Array& x, const Along& along, Dtype dtype, F f) {
  const std::size_t axis = counted(along.shape, along.axis);
  Shape shape = along.shape;
  shape[axis] += along.options.include_initial;
  return make(dtype, shape, [&](const Shape& p) {
    const bool reverse = along.options.reverse, initial = along.options.include_initial;
    const Index n = along.shape[axis], count = (reverse ? shape[axis] - 1 - p[axis] : p[axis]) + (initial ? 0 : 1);
    std::vector<Real> elements;
    for (Index i = 0; i < count; ++i) {
      Shape at = p;
      at[axis] = reverse ? n - 1 - i : i;
      elements.push_back(x(at));
    }
    return f(elements);
  });
}

Real product_of(const std::vector<Real>& elements) {
  Real product = 1;
  for (Real x : elements) product *= x;
  return product;
}

Variant cumulative_of(Dtype dtype, CumulativeOfVector of_vector, Cumulative of, bool product, const Along& along,
                      const Domain& domain) {
  const Dtype result = summed_in(dtype);
  Variant variant{.name = along.str(),
                  .inputs = {{dtype, along.shape, domain, true, other_axis(along.shape, along.axis)}}};
  if (along.whole) variant.call = [=](auto xs) { return of_vector(xs[0]); };
  else variant.call = [=](auto xs) { return of(xs[0], along.axis, along.options); };
  variant.reference = [=](auto xs) {
    Array y = scanned(xs[0], along, result, product ? product_of : sum_of);
    if (!product) y.magnitude = scanned(xs[0], along, float64, size_of_sum).values;
    return Arrays{y};
  };
  return variant;
}

// Lengths beyond a SIMD vector and a block, with the axis first, in the middle and last.
const std::vector<Along> everywhere = {{{5}, 0},
                                       {{5}, 0, {}, true},
                                       {{2, 3}, 1},
                                       {{2, 3}, 0},
                                       {{2, 3, 2}, -2},
                                       {{2, 3, 2}, 0},
                                       {{3, 37}, 0},
                                       {{4}, -1, {.reverse = true}},
                                       {{3, 2}, 0, {.reverse = true}},
                                       {{2, 3}, -1, {.include_initial = true}},
                                       {{3, 2}, 0, {.include_initial = true, .reverse = true}},
                                       {{1, 4}, 0},
                                       {{0, 3}, 1},
                                       {{0, 3}, 0},
                                       {{2, 0}, 1, {.include_initial = true}},
                                       {{2, 0}, 0, {.reverse = true}}};

std::vector<Variant> cumulative_variants(Dtype dtype, CumulativeOfVector of_vector, Cumulative of, bool product) {
  std::vector<Variant> variants;
  for (const Along& along : everywhere)
    variants.push_back(cumulative_of(dtype, of_vector, of, product, along, product ? Domain{-2, 2} : Domain{-9, 9}));
  if (product) {
    const Domain zeros = is_float(dtype) ? Domain{.choices = {0, 0, 1.5, -2, 3}} : Domain{.choices = {0, 0, 2, 3}};
    variants.push_back(cumulative_of(dtype, of_vector, of, true, {{2, 6}, 1}, zeros));
    variants.back().name += " with zeros";
  }
  const auto refuse = [&](const Shape& shape, bool whole, const char* refusal) {
    variants.push_back({.name = shape.str() + (whole ? " whole" : ""),
                        .inputs = {{dtype, shape}},
                        .call = [=](auto xs) -> Outputs { return whole ? of_vector(xs[0]) : of(xs[0], 0, {}); },
                        .reference = [=](auto xs) { return Arrays{xs[0]}; },
                        .refusal = refusal});
  };
  refuse({}, false, "axis 0 is out of range for rank 0");
  refuse({}, true, "say along which axis");
  refuse({2, 3}, true, "say along which axis");
  return variants;
}

// ---- cummax, cummin, logcumsumexp --------------------------------------------------------------

using Scanned = Tensor (*)(const Tensor&, Index, ReverseOptions);
using Folded = Real (*)(const std::vector<Real>&);

Real largest_of(const std::vector<Real>& elements) { return *std::max_element(elements.begin(), elements.end()); }
Real smallest_of(const std::vector<Real>& elements) { return *std::min_element(elements.begin(), elements.end()); }
Real logsumexp_of(const std::vector<Real>& elements) {
  const Real largest = largest_of(elements);
  Real sum = 0;
  for (Real x : elements) sum += std::exp(x - largest);
  return largest + std::log(sum);
}

template <Scanned of, CumulativeOfVector of_vector, Folded folded>
std::vector<Variant> scan_variants(Dtype dtype) {
  const bool exponentials = folded == logsumexp_of;
  const Dtype result = exponentials ? as_float(dtype) : dtype;
  std::vector<Variant> variants;
  const auto add = [&](const Along& along, const Domain& domain, const char* name) {
    variants.push_back({.name = along.str() + name,
                        .inputs = {{dtype, along.shape, domain, true, other_axis(along.shape, along.axis)}},
                        .call =
                            [=](auto xs) {
                              return along.whole ? of_vector(xs[0])
                                                 : of(xs[0], along.axis, {.reverse = along.options.reverse});
                            },
                        .reference =
                            [=](auto xs) {
                              Array y = scanned(xs[0], along, result, folded);
                              // The errors of log(e^x + ...) are relative to its terms,
                              // which may cancel.
                              if (exponentials)
                                y.magnitude = scanned(xs[0], along, float64, [](const std::vector<Real>& x) {
                                                return std::max<Real>(1, std::abs(largest_of(x)));
                                              }).values;
                              return Arrays{y};
                            }});
    if (exponentials) return;
    variants.back().smooth = [=](auto at, auto xs) {
      const Array latest = scanned(at[0], along, float64, [](const std::vector<Real>& x) {
        const auto last = std::find(x.rbegin(), x.rend(), folded(x));
        return static_cast<Real>(x.rend() - last - 1);
      });
      std::size_t i = 0;
      return Arrays{scanned(xs[0], along, result, [&](const std::vector<Real>& x) {
        return x[static_cast<std::size_t>(latest.values[i++])];
      })};
    };
  };
  for (const Along& along : everywhere)
    if (!along.options.include_initial) add(along, {-9, 9}, "");
  if (is_float(dtype) && !exponentials) {
    const Real nan = std::numeric_limits<Real>::quiet_NaN(), infinity = std::numeric_limits<Real>::infinity();
    const auto fold = [](const std::vector<Real>& x) {
      Real sum = 0;
      for (Real v : x) sum += v;
      return std::isnan(sum) && std::any_of(x.begin(), x.end(), [](Real v) { return std::isnan(v); }) ? sum : folded(x);
    };
    const Along along{{3, 8}, 1};
    variants.push_back({.name = "of NaN and infinity",
                        .inputs = {{dtype, along.shape, {.choices = {1, -2, nan, infinity, -infinity}}, false, 0}},
                        .call = [](auto xs) { return of(xs[0], 1, {}); },
                        .reference = [=](auto xs) { return Arrays{scanned(xs[0], along, dtype, fold)}; }});
  }
  variants.push_back(refused(
      "", dtype, {2, 3}, [](const Tensor& x) { return of_vector(x); }, "say along which axis"));
  variants.push_back(refused(
      "", dtype, {}, [](const Tensor& x) { return of(x, 0, {}); }, "axis 0 is out of range for rank 0"));
  return variants;
}

// ---- linear_recurrence -------------------------------------------------------------------------

/// The recurrence h = f(previous h, a, b) along an axis, in the order of the scan.
template <class F>
Array recurred(const Array& a, const Array& b, std::size_t axis, bool reverse, Dtype dtype, F f) {
  const Shape shape = broadcast_shape(a.shape, b.shape);
  Array h = make(dtype, shape, [](const Shape&) { return Real(0); });
  for (Index step = 0; step < shape[axis]; ++step)
    for_each_position(shape, [&](const Shape& p) {
      if (p[axis] != (reverse ? shape[axis] - 1 - step : step)) return;
      Shape before = p;
      before[axis] += reverse ? 1 : -1;
      const Real value =
          f(step > 0 ? h(before) : 0, a(broadcast_position(a.shape, p)), b(broadcast_position(b.shape, p)));
      h(p) = is_float(dtype) ? value : rounded(value, dtype);
    });
  return h;
}

Variant recurrence_of(Dtype dtype, const Shape& a, const Shape& b, Index axis, bool reverse, const Domain& domain = {},
                      const char* refusal = "") {
  const Dtype result = summed_in(dtype);
  const Shape shape = broadcast_shape(a, b);
  const auto along = shape.rank() ? counted(shape, axis) : 0;
  return {.name = a.str() + ", " + b.str() + " along " + std::to_string(axis) + (reverse ? " reverse" : ""),
          .inputs = {{dtype, a, domain, true, other_axis(a, axis)}, {dtype, b, {}, true, other_axis(b, axis)}},
          .call = [=](auto xs) { return linear_recurrence(xs[0], xs[1], axis, {.reverse = reverse}); },
          .reference =
              [=](auto xs) {
                if (shape.rank() == 0) return Arrays{xs[0]};
                Array h = recurred(xs[0], xs[1], along, reverse, result,
                                   [](Real before, Real x, Real y) { return x * before + y; });
                h.magnitude = recurred(xs[0], xs[1], along, reverse, float64, [](Real before, Real x, Real y) {
                                return std::abs(x) * before + std::abs(y);
                              }).values;
                return Arrays{h};
              },
          .refusal = refusal};
}

std::vector<Variant> recurrence_variants(Dtype dtype) {
  // With lower bounds, products in uint64 would exceed what a Real can hold.
  const Real least = dtype == uint64 ? 3 : -2;
  return {recurrence_of(dtype, {4}, {4}, 0, false),
          recurrence_of(dtype, {2, 3}, {2, 3}, 1, false),
          recurrence_of(dtype, {3, 2}, {3, 2}, 0, true),
          recurrence_of(dtype, {2, 3, 2}, {2, 3, 2}, -2, false),
          recurrence_of(dtype, {3}, {2, 3}, -1, true),
          recurrence_of(dtype, {3, 1}, {3, 2}, 0, false),
          recurrence_of(dtype, {3, 37}, {3, 37}, 0, false),
          recurrence_of(dtype, {2, 5}, {2, 5}, 1, false, {.choices = {0, 0, 1.5, least}}),
          recurrence_of(dtype, {0, 3}, {0, 3}, 1, false),
          recurrence_of(dtype, {2, 0}, {2, 0}, 1, true),
          recurrence_of(dtype, {}, {}, -1, false, {}, "linear_recurrence: axis -1 is out of range for rank 0")};
}

}  // namespace

void add_scan_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "cumulative_sum", .dtypes = all_dtypes, .variants = [](Dtype dtype) {
                    return cumulative_variants(dtype, stave::cumulative_sum, stave::cumulative_sum, false);
                  }});
  rows.push_back({.name = "cumulative_prod", .dtypes = all_dtypes, .variants = [](Dtype dtype) {
                    return cumulative_variants(dtype, stave::cumulative_prod, stave::cumulative_prod, true);
                  }});
  rows.push_back({.name = "cummax",
                  .dtypes = all_dtypes,
                  .variants = scan_variants<stave::cummax, stave::cummax, largest_of>,
                  .accuracy = 0});
  rows.push_back({.name = "cummin",
                  .dtypes = all_dtypes,
                  .variants = scan_variants<stave::cummin, stave::cummin, smallest_of>,
                  .accuracy = 0});
  rows.push_back({.name = "logcumsumexp",
                  .dtypes = all_dtypes,
                  .variants = scan_variants<stave::logcumsumexp, stave::logcumsumexp, logsumexp_of>});
  rows.push_back({.name = "linear_recurrence", .dtypes = all_dtypes, .variants = recurrence_variants});
}

}  // namespace table
