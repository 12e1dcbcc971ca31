// Rows of quantiles, masked reductions, covariances, distances and sampled derivatives.

#include <stave/core/ops/statistics.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

using Elements = std::vector<Real>;
constexpr Real nan_ = std::numeric_limits<Real>::quiet_NaN();

/// f(at, x) of the elements of both arrays along an axis, or of all elements if there is none.
Array reduced_by(Dtype dtype, const Array& at, const Array& x, std::optional<Index> axis,
                 const std::function<Real(const Elements&, const Elements&)>& f) {
  if (!axis) return {dtype, {}, {f(at.values, x.values)}};
  return make(dtype, without_axis(x.shape, *axis), [&](const Shape& p) {
    Elements here, there;
    for (Index i = 0; i < x.shape[static_cast<std::size_t>(*axis)]; ++i) {
      here.push_back(at(with_axis(p, *axis, i)));
      there.push_back(x(with_axis(p, *axis, i)));
    }
    return f(here, there);
  });
}

bool comes_first(Real a, Real b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

/// The positions of the elements in sorted order.
std::vector<std::size_t> sorting(const Elements& at) {
  std::vector<std::size_t> order(at.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return comes_first(at[i], at[j]); });
  return order;
}

/// The quantile of elements x that are ordered as those of `at`.
Real quantile_of(const Elements& at, const Elements& x, Real q, QuantileMethod method, bool without_nan) {
  Elements sorted, kept;
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (std::isnan(at[i]) && !without_nan) return nan_;
    if (std::isnan(at[i])) continue;
    kept.push_back(at[i]);
    sorted.push_back(x[i]);
  }
  if (kept.empty()) return nan_;
  const auto order = sorting(kept);
  const Real place = q * static_cast<Real>(kept.size() - 1), below = std::floor(place);
  const auto at_place = [&](Real p) {
    return sorted[order[static_cast<std::size_t>(std::min(p, static_cast<Real>(kept.size() - 1)))]];
  };
  const Real low = at_place(below), high = at_place(std::ceil(place));
  switch (method) {
    case QuantileMethod::linear: return low + (high - low) * (place - below);
    case QuantileMethod::lower: return low;
    case QuantileMethod::higher: return high;
    case QuantileMethod::midpoint: return (low + high) / 2;
    case QuantileMethod::nearest: break;
  }
  return at_place(std::nearbyint(place));
}

const Domain with_nan{.choices = {-1.5, 0.5, 2, 1.25, nan_}};

Input reduced_input(Dtype dtype, const Shape& shape, std::optional<Index> axis, const Domain& domain = {}) {
  return {dtype, shape, domain, true, axis == 0 && shape.rank() > 1 ? 1 : 0};
}

/// Variants of a reduction f(at, x) of floats, over some axes of some shapes.
std::vector<Variant> reductions(Dtype dtype, Dtype result,
                                const std::vector<std::pair<Shape, std::optional<Index>>>& of, const Domain& domain,
                                const std::function<Tensor(const Tensor&, const Axes&)>& call,
                                const std::function<Real(const Elements&, const Elements&)>& f, Real size = 8) {
  std::vector<Variant> variants;
  for (const auto& [shape, axis] : of)
    variants.push_back(
        {.name = shape.str() + (axis ? " along " + std::to_string(*axis) : ""),
         .inputs = {reduced_input(dtype, shape, axis, domain)},
         .call = [=, axis = axis](auto xs) { return call(xs[0], axis ? Axes(*axis) : all_axes); },
         .reference = [=,
                       axis = axis](auto xs) { return Arrays{sized(reduced_by(result, xs[0], xs[0], axis, f), size)}; },
         .smooth = [=, axis = axis](
                       auto at, auto xs) { return Arrays{sized(reduced_by(result, at[0], xs[0], axis, f), size)}; }});
  return variants;
}

const std::vector<std::pair<Shape, std::optional<Index>>> axes_of_shapes = {{{2, 5}, 1}, {{4, 2}, 0}, {{2, 3, 2}, 1},
                                                                            {{6}, 0},    {{0, 3}, 1}, {{}, {}}};

std::vector<Variant> quantile_variants(Dtype dtype, const std::function<Tensor(const Tensor&, const Axes&)>& call,
                                       Real q, QuantileMethod method, bool without_nan) {
  const auto f = [=](const Elements& at, const Elements& x) { return quantile_of(at, x, q, method, without_nan); };
  std::vector<Variant> variants = reductions(dtype, as_float(dtype), axes_of_shapes, {}, call, f);
  variants.push_back(refused(
      "", dtype, {2, 0}, [=](const Tensor& x) { return call(x, 1); }, "has no elements to reduce"));
  if (!is_float(dtype)) return variants;
  for (Variant variant : reductions(dtype, dtype, {{{2, 5}, 1}, {{3, 4}, 0}}, with_nan, call, f)) {
    variant.name += " with NaN";
    variant.differentiable = false;
    variant.inputs[0].differentiable = false;
    variants.push_back(variant);
  }
  return variants;
}

void add_quantiles(std::vector<Row>& rows) {
  const auto add = [&](const char* name, const std::function<Tensor(const Tensor&, const Axes&)>& call, Real q,
                       bool without_nan) {
    rows.push_back({.name = name, .dtypes = network_dtypes, .variants = [=](Dtype dtype) {
                      return quantile_variants(dtype, call, q, QuantileMethod::linear, without_nan);
                    }});
  };
  using M = QuantileMethod;
  rows.push_back(
      {.name = "quantile", .dtypes = network_dtypes, .variants = [](Dtype dtype) {
         std::vector<Variant> variants;
         for (const M method : {M::linear, M::lower, M::higher, M::midpoint, M::nearest})
           for (Variant variant : quantile_variants(
                    dtype,
                    [=](const Tensor& x, const Axes& axes) { return quantile(x, 0.3, axes, {.method = method}); }, 0.3L,
                    method, false)) {
             variant.name += " method " + std::to_string(static_cast<int>(method));
             variants.push_back(variant);
           }
         // q is an operand. At its values the position is not an integer.
         variants.push_back({.name = "of computed q",
                             .inputs = {{dtype, {2, 5}}, {as_float(dtype), {3}, {0.28, 0.45}}},
                             .call = [](auto xs) { return quantile(xs[0], xs[1], 1); },
                             .reference = {}});
         const auto reference = [dtype](const Array& at, const Array& x, const Array& q) {
           return Arrays{sized(make(as_float(dtype), {3, 2},
                                    [&](const Shape& p) {
                                      const Array row = lane(x, 0, p[1]), row_at = lane(at, 0, p[1]);
                                      return quantile_of(row_at.values, row.values, q({p[0]}), M::linear, false);
                                    }),
                               8)};
         };
         variants.back().reference = [=](auto xs) { return reference(xs[0], xs[0], xs[1]); };
         variants.back().smooth = [=](auto at, auto xs) { return reference(at[0], xs[0], xs[1]); };
         return variants;
       }});
  add(
      "percentile", [](const Tensor& x, const Axes& axes) { return percentile(x, 30., axes); }, 0.3L, false);
  add(
      "median", [](const Tensor& x, const Axes& axes) { return median(x, axes); }, 0.5L, false);
  add(
      "nanquantile", [](const Tensor& x, const Axes& axes) { return nanquantile(x, 0.3, axes); }, 0.3L, true);
  add(
      "nanpercentile", [](const Tensor& x, const Axes& axes) { return nanpercentile(x, 30., axes); }, 0.3L, true);
  add(
      "nanmedian", [](const Tensor& x, const Axes& axes) { return nanmedian(x, axes); }, 0.5L, true);
}

// ---- order -------------------------------------------------------------------------------------

std::size_t place_of_mode(const Elements& at) {
  const auto order = sorting(at);
  std::size_t best = 0, longest = 0, run = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    run = i > 0 && at[order[i]] == at[order[i - 1]] ? run + 1 : 1;
    if (run > longest) {
      longest = run;
      best = order[i];
    }
  }
  return best;
}

std::vector<Variant> selections(Dtype dtype, const Domain& domain,
                                const std::function<std::pair<Tensor, Tensor>(const Tensor&, Index)>& call,
                                const std::function<std::size_t(const Elements&)>& place, const std::string& refusal) {
  std::vector<Variant> variants;
  for (const auto& [shape, axis] : axes_of_shapes) {
    if (!axis) continue;
    for (const bool of_places : {false, true}) {
      const auto reference = [dtype, place, of_places, axis = *axis](const Array& at, const Array& x) {
        return Arrays{reduced_by(of_places ? int32 : dtype, at, x, axis, [&](const Elements& a, const Elements& b) {
          return of_places ? static_cast<Real>(place(a)) : b[place(a)];
        })};
      };
      variants.push_back({.name = shape.str() + " along " + std::to_string(*axis) + (of_places ? " places" : ""),
                          .inputs = {reduced_input(dtype, shape, axis, domain)},
                          .call =
                              [=, axis = *axis](auto xs) {
                                const auto [value, position] = call(xs[0], axis);
                                return of_places ? position : value;
                              },
                          .reference = [=](auto xs) { return reference(xs[0], xs[0]); },
                          .smooth = [=](auto at, auto xs) { return reference(at[0], xs[0]); },
                          .differentiable = !of_places});
    }
  }
  variants.push_back(refused(
      "", dtype, {}, [=](const Tensor& x) { return call(x, 0).first; }, "axis 0 is out of range for rank 0"));
  variants.push_back(refused(
      "", dtype, {2, 0}, [=](const Tensor& x) { return call(x, 1).first; }, refusal));
  return variants;
}

// ---- reductions that leave elements out --------------------------------------------------------

using OfKept = std::function<Real(const Elements&)>;

Real mean_of(const Elements& x) { return sum_of(x) / static_cast<Real>(x.size()); }
Real variance_of(const Elements& x, Real correction) {
  const Real mean = mean_of(x);
  Real squares = 0;
  for (Real element : x) squares += (element - mean) * (element - mean);
  const Real freedom = static_cast<Real>(x.size()) - correction;
  return freedom > 0 ? squares / freedom : nan_;
}
Real product_of(const Elements& x) { return std::accumulate(x.begin(), x.end(), Real(1), std::multiplies<>()); }

/// A mask that is true for the second entries along an axis.
Tensor one_at_second(const Shape& shape, Index axis) {
  Shape line(std::vector<Index>(shape.size(), 1));
  line[static_cast<std::size_t>(axis)] = shape[static_cast<std::size_t>(axis)];
  return reshape(arange(0, shape[static_cast<std::size_t>(axis)], 1, int32) == 1, line);
}

/// A vector that repeats one element ties all of them, and its standard deviation is 0, so that
/// extremes and deviations have no derivatives.
bool is_unsuitable(const Shape& shape, const std::string& name) {
  return shape == Shape(6) && (name == "max" || name == "min" || name == "std");
}

std::vector<Variant> without_unsuitable(std::vector<Variant> variants, const std::string& name) {
  std::erase_if(variants, [&](const Variant& variant) { return is_unsuitable(variant.inputs[0].shape, name); });
  return variants;
}

std::vector<Variant> masked_variants(Dtype dtype, Dtype result,
                                     const std::function<Tensor(const Tensor&, const Tensor&, const Axes&)>& call,
                                     const OfKept& f) {
  std::vector<Variant> variants;
  for (const auto& [shape, axis] : axes_of_shapes) {
    const std::optional<Index> along = axis;
    const Shape of = shape;
    // The second element of the mask along the axis is always true.
    const auto mask_of = [=](const Array& mask) {
      return make(bool_, of, [&](const Shape& p) {
        return !along || p[static_cast<std::size_t>(*along)] == 1 || mask(p) != 0 ? Real(1) : Real(0);
      });
    };
    variants.push_back({.name = shape.str() + (axis ? " along " + std::to_string(*axis) : ""),
                        .inputs = {reduced_input(dtype, shape, axis), {bool_, shape}},
                        .call =
                            [=](auto xs) {
                              return call(xs[0],
                                          along ? logical_or(xs[1], one_at_second(of, *along)) : ones_like(xs[1]),
                                          along ? Axes(*along) : all_axes);
                            },
                        .reference =
                            [=](auto xs) {
                              const Array mask = mask_of(xs[1]);
                              return Arrays{sized(reduced_by(result, mask, xs[0], along,
                                                             [&](const Elements& m, const Elements& x) {
                                                               Elements kept;
                                                               for (std::size_t i = 0; i < x.size(); ++i)
                                                                 if (m[i] != 0) kept.push_back(x[i]);
                                                               return f(kept);
                                                             }),
                                                  16)};
                            }});
  }
  return variants;
}

std::vector<Variant> nan_variants(Dtype dtype, Dtype result,
                                  const std::function<Tensor(const Tensor&, const Axes&)>& call, const OfKept& f) {
  const auto without_nan = [=](const Elements& at, const Elements& x) {
    Elements kept;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!std::isnan(at[i])) kept.push_back(x[i]);
    return f(kept);
  };
  std::vector<Variant> variants = reductions(dtype, result, axes_of_shapes, {}, call, without_nan, 16);
  if (!is_float(dtype)) return variants;
  for (Variant variant : reductions(dtype, result, {{{3, 5}, 1}, {{4, 2}, 0}}, with_nan, call, without_nan, 16)) {
    variant.name += " with NaN";
    variant.differentiable = false;
    variant.inputs[0].differentiable = false;
    variants.push_back(variant);
  }
  return variants;
}

enum class Result { summed, same, floating };
Dtype result_of(Result result, Dtype dtype) {
  return result == Result::summed ? summed_in(dtype) : result == Result::same ? dtype : as_float(dtype);
}

void add_masked(std::vector<Row>& rows, const std::string& name, Result result,
                const std::function<Tensor(const Tensor&, const Tensor&, const Axes&)>& masked,
                const std::function<Tensor(const Tensor&, const Axes&)>& without_nan, const OfKept& f) {
  rows.push_back({.name = "masked_" + name, .dtypes = network_dtypes, .variants = [=](Dtype dtype) {
                    return without_unsuitable(masked_variants(dtype, result_of(result, dtype), masked, f), name);
                  }});
  rows.push_back({.name = "nan" + name, .dtypes = network_dtypes, .variants = [=](Dtype dtype) {
                    const auto reference = [=](const Elements& x) -> Real {
                      return x.empty() && (name == "max" || name == "min") ? nan_ : f(x);
                    };
                    return without_unsuitable(nan_variants(dtype, result_of(result, dtype), without_nan, reference),
                                              name);
                  }});
}

// ---- several variables -------------------------------------------------------------------------

std::vector<Variant> cov_variants(Dtype dtype, bool correlation) {
  const auto of = [&](const Shape& given, bool weighted) -> Variant {
    const Shape shape = given.rank() == 1 ? Shape(1, given[0]) : given;
    const auto axes = shape.size();
    const Index variables = shape[axes - 2], observations = shape[axes - 1];
    Variant variant{.name = given.str() + (weighted ? " weighted" : ""), .inputs = {{dtype, given, {}, true, 0}}};
    if (given.rank() == 2 && given[0] > 1) variant.inputs[0].repeat = 0;
    if (weighted) {
      variant.inputs.push_back({dtype, {observations}, positive});
      variant.inputs.push_back({int32, {observations}, {1, 3}});
    }
    variant.call = [=](auto xs) {
      if (correlation) return corrcoef(xs[0]);
      return weighted ? cov(xs[0], {.correction = 1, .frequencies = xs[2], .weights = xs[1]}) : cov(xs[0]);
    };
    variant.reference = [=](auto xs) {
      Array x = xs[0];
      x.shape = shape;
      const auto f = [&](Index i) { return weighted ? xs[2]({i}) : Real(1); };
      const auto w = [&](Index i) { return f(i) * (weighted ? xs[1]({i}) : Real(1)); };
      Real total = 0, heavy = 0;
      for (Index i = 0; i < observations; ++i) {
        total += w(i);
        if (weighted) heavy += w(i) * xs[1]({i});
      }
      const Real divisor = weighted ? total - heavy / total : total - 1;
      const auto covariance = [&](const Shape& p) {
        Shape a = p, b = p;
        a.pop_back();
        b.erase(b.end() - 2);
        Real mean_a = 0, mean_b = 0, sum = 0;
        const auto at = [&](const Shape& row, Index i) { return x(with_axis(row, -1, i)); };
        for (Index i = 0; i < observations; ++i) {
          mean_a += w(i) * at(a, i) / total;
          mean_b += w(i) * at(b, i) / total;
        }
        for (Index i = 0; i < observations; ++i) sum += w(i) * (at(a, i) - mean_a) * (at(b, i) - mean_b);
        return sum / divisor;
      };
      Shape result = shape;
      result.back() = variables;
      Array y = make(as_float(dtype), result, [&](const Shape& p) {
        if (!correlation) return covariance(p);
        Shape aa = p, bb = p;
        aa[axes - 1] = p[axes - 2];
        bb[axes - 2] = p[axes - 1];
        return covariance(p) / std::sqrt(covariance(aa) * covariance(bb));
      });
      if (given.rank() == 1) y.shape = {};
      return Arrays{sized(y, 16)};
    };
    return variant;
  };
  std::vector<Variant> variants = {
      of({3, 4}, false), of({2, 3, 5}, false), of({0, 4}, false),
      refused(
          "", dtype, {}, [=](const Tensor& x) { return correlation ? corrcoef(x) : cov(x); }, "has no observations")};
  if (!correlation) {
    variants.push_back(of({4}, false));
    variants.push_back(of({3, 4}, true));
  }
  return variants;
}

std::vector<Variant> cdist_variants(Dtype dtype) {
  const auto of = [&](const Shape& a, const Shape& b, double p) -> Variant {
    return {.name = a.str() + " " + b.str() + " p " + std::to_string(p),
            .inputs = {{dtype, a}, {dtype, b, {2.3, 5}}},
            .call = [=](auto xs) { return cdist(xs[0], xs[1], p); },
            .reference =
                [=](auto xs) {
                  const Shape stack = broadcast_shape(part(a, 0, a.rank() - 2), part(b, 0, b.rank() - 2));
                  const Shape result = concatenated(stack, {a[a.size() - 2], b[b.size() - 2]});
                  Array y = make(as_float(dtype), result, [&](const Shape& at) {
                    Real total = 0;
                    for (Index k = 0; k < a[a.size() - 1]; ++k) {
                      Shape i = at, j = at;
                      i.back() = k;
                      j[j.size() - 2] = at.back();
                      j.back() = k;
                      const Real d = std::abs(xs[0](broadcast_position(a, i)) - xs[1](broadcast_position(b, j)));
                      total = std::isinf(p) ? std::max(total, d) : total + std::pow(d, static_cast<Real>(p));
                    }
                    return std::isinf(p) ? total : std::pow(total, 1 / static_cast<Real>(p));
                  });
                  return Arrays{sized(y, 16)};
                }};
  };
  return {of({3, 2}, {4, 2}, 2),
          of({2, 3, 2}, {2, 2, 2}, 1),
          of({3, 2}, {2, 4, 2}, 3),
          of({2, 2}, {3, 2}, HUGE_VAL),
          of({0, 2}, {3, 2}, 2),
          refused(
              "", dtype, {}, [](const Tensor& x) { return cdist(x, x); }, "must be matrices")};
}

std::vector<Variant> gradient_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, Index axis, bool at_x, int edge) -> Variant {
    const auto along = static_cast<std::size_t>(axis);
    const Index n = shape[along];
    std::vector<Input> inputs = {{dtype, shape, {}, true, axis == 0 && shape.rank() > 1 ? 1 : 0}};
    // The positions are i + 0.1 times these numbers.
    if (at_x) inputs.push_back({as_float(dtype), {n}});
    return {
        .name = shape.str() + " along " + std::to_string(axis) + (at_x ? " at x" : "") + (edge == 2 ? " edge 2" : ""),
        .inputs = inputs,
        .call =
            [=](auto xs) {
              if (!at_x) return gradient(xs[0], 0.5, axis, {.edge_order = edge});
              return gradient(xs[0], arange(0, n, 1, xs[1].dtype()) + 0.1 * xs[1], axis, {.edge_order = edge});
            },
        .reference =
            [=](auto xs) {
              const auto place = [&](Index i) {
                return at_x ? static_cast<Real>(i) + 0.1L * xs[1]({i}) : static_cast<Real>(i) / 2;
              };
              // The derivative at place(i) of the polynomial through some samples.
              const auto slope = [&](const Shape& p, Index i, std::vector<Index> samples) {
                Real total = 0;
                for (const Index j : samples) {
                  Real derivative = 0;
                  for (const Index k : samples) {
                    if (k == j) continue;
                    Real term = 1 / (place(j) - place(k));
                    for (const Index l : samples)
                      if (l != j && l != k) term *= (place(i) - place(l)) / (place(j) - place(l));
                    derivative += term;
                  }
                  Shape at = p;
                  at[along] = j;
                  total += derivative * xs[0](at);
                }
                return total;
              };
              Array y = make(as_float(dtype), shape, [&](const Shape& p) {
                const Index i = p[along];
                if (i > 0 && i < n - 1) return slope(p, i, {i - 1, i, i + 1});
                if (edge == 1) return i == 0 ? slope(p, i, {0, 1}) : slope(p, i, {n - 2, n - 1});
                return i == 0 ? slope(p, i, {0, 1, 2}) : slope(p, i, {n - 3, n - 2, n - 1});
              });
              return Arrays{sized(y, 64)};
            }};
  };
  return {of({2, 4}, 1, false, 1),
          of({5, 2}, 0, false, 2),
          of({2, 4}, 1, true, 1),
          of({5}, 0, true, 2),
          of({2}, 0, false, 1),
          of({0, 3}, 1, false, 1),
          refused(
              "", dtype, {}, [](const Tensor& x) { return gradient(x); }, "axis -1 is out of range for rank 0"),
          refused(
              "", dtype, {3, 1}, [](const Tensor& x) { return gradient(x); }, "at least 2 are needed")};
}

std::vector<Variant> gradients_variants(Dtype dtype) {
  // The difference quotients along an axis, of samples at the distance h.
  const auto quotients = [](const Array& y, std::size_t axis, Real h) {
    return make(as_float(y.dtype), y.shape, [&](const Shape& p) {
      Shape before = p, after = p;
      if (p[axis] > 0) --before[axis];
      if (p[axis] < y.shape[axis] - 1) ++after[axis];
      return (y(after) - y(before)) / (h * static_cast<Real>(after[axis] - before[axis]));
    });
  };
  return {{.name = "[3,4]",
           .inputs = {{dtype, {3, 4}}},
           .call = [](auto xs) -> Outputs {
             const std::vector<Tensor> ys = gradients(xs[0], {0.5, 2});
             return {ys[0], ys[1]};
           },
           .reference =
               [=](auto xs) {
                 return Arrays{sized(quotients(xs[0], 0, 0.5L), 64), sized(quotients(xs[0], 1, 2), 64)};
               }},
          {.name = "[0,2,3] along 2 and 1",
           .inputs = {{dtype, {0, 2, 3}}},
           .call = [](auto xs) -> Outputs {
             const std::vector<Tensor> ys = gradients(xs[0], {0.25}, {-1, 1});
             return {ys[0], ys[1]};
           },
           .reference =
               [=](auto xs) {
                 return Arrays{quotients(xs[0], 2, 0.25L), quotients(xs[0], 1, 0.25L)};
               }},
          refused(
              "", dtype, {}, [](const Tensor& x) { return gradients(x, {1}, {0})[0]; }, "axis 0 is out of range"),
          refused(
              "", dtype, {3, 2},
              [](const Tensor& x) {
                return gradients(x, {1, 1, 1})[0];
              },
              "3 distances for 2 axes")};
}

}  // namespace

void add_statistics_rows(std::vector<Row>& rows) {
  add_quantiles(rows);
  rows.push_back({.name = "kthvalue",
                  .dtypes = all_dtypes,
                  .variants =
                      [](Dtype dtype) {
                        return selections(
                            dtype, {}, [](const Tensor& x, Index axis) { return kthvalue(x, 2, axis); },
                            [](const Elements& at) { return sorting(at)[1]; }, "k is 2");
                      },
                  .accuracy = 0});
  rows.push_back({.name = "mode",
                  .dtypes = all_dtypes,
                  .variants =
                      [](Dtype dtype) {
                        return selections(
                            dtype, {.choices = {0, 1, 2}}, [](const Tensor& x, Index axis) { return mode(x, axis); },
                            place_of_mode, "has no entries");
                      },
                  .accuracy = 0});
  const auto masked = [](auto f) {
    return [f](const Tensor& x, const Tensor& mask, const Axes& axes) { return f(x, mask, axes, drop_dims); };
  };
  const auto nans = [](auto f) { return [f](const Tensor& x, const Axes& axes) { return f(x, axes, drop_dims); }; };
  add_masked(rows, "sum", Result::summed, masked(masked_sum), nans(nansum), sum_of);
  add_masked(rows, "prod", Result::summed, masked(masked_prod), nans(nanprod), product_of);
  add_masked(rows, "mean", Result::floating, masked(masked_mean), nans(nanmean), mean_of);
  add_masked(rows, "max", Result::same, masked(masked_max), nans(nanmax),
             [](const Elements& x) { return x.empty() ? -HUGE_VALL : *std::max_element(x.begin(), x.end()); });
  add_masked(rows, "min", Result::same, masked(masked_min), nans(nanmin),
             [](const Elements& x) { return x.empty() ? HUGE_VALL : *std::min_element(x.begin(), x.end()); });
  const auto deviation = [](Real correction, bool root) {
    return [=](const Elements& x) {
      const Real variance = variance_of(x, correction);
      return root ? std::sqrt(variance) : variance;
    };
  };
  const auto corrected = [](auto f, double correction) {
    return [=](const auto&... xs) { return f(xs..., drop_dims, correction); };
  };
  add_masked(rows, "var", Result::floating, corrected(masked_var, 0), corrected(nanvar, 0), deviation(0, false));
  add_masked(rows, "std", Result::floating, corrected(masked_std, 0), corrected(nanstd, 0), deviation(0, true));
  rows.push_back({.name = "cov",
                  .dtypes = network_dtypes,
                  .variants = [](Dtype dtype) { return cov_variants(dtype, false); },
                  .bitwise = false});
  rows.push_back({.name = "corrcoef",
                  .dtypes = network_dtypes,
                  .variants = [](Dtype dtype) { return cov_variants(dtype, true); },
                  .bitwise = false});
  rows.push_back({.name = "cdist", .dtypes = network_dtypes, .variants = cdist_variants});
  rows.push_back({.name = "gradient", .dtypes = network_dtypes, .variants = gradient_variants});
  rows.push_back({.name = "gradients", .dtypes = network_dtypes, .variants = gradients_variants});
}

}  // namespace table
