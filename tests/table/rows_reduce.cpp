// Rows of reductions over all axes, one axis, several axes and no axis.

#include <algorithm>
#include <cmath>
#include <numeric>

#include <stave/core/ops/reduce.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

/// The shape and the axes of a reduction. Without a list it reduces all axes.
struct Over {
  Shape shape;
  std::optional<std::vector<Index>> axes = {};
  bool keep = false;

  // One entry for each axis of the shape.
  std::vector<bool> reduced() const {
    std::vector<bool> result(shape.size(), !axes);
    if (axes)
      for (Index axis : *axes) result[static_cast<std::size_t>(axis < 0 ? axis + shape.rank() : axis)] = true;
    return result;
  }
  Shape result_shape(bool keeping) const {
    Shape result;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (!reduced()[axis]) result.push_back(shape[axis]);
      else if (keeping) result.push_back(1);
    }
    return result;
  }
  /// An axis that is not reduced, which layout `broadcast` repeats; if there is none, axis 0.
  Index kept_axis() const {
    const std::vector<bool> is_reduced = reduced();
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      if (!is_reduced[axis] && shape[axis] > 1) return static_cast<Index>(axis);
    return 0;
  }
  std::string str() const {
    std::string text = shape.str();
    if (axes) text += " over " + Shape(*axes).str();
    return text + (keep ? " keepdims" : "");
  }
};

/// The array whose elements are f of the elements of x (in row-major order)
/// that are reduced to them.
template <class F>
Array reduced(const Array& x, const Over& over, Dtype dtype, F f) {
  const Shape kept = over.result_shape(true);
  std::vector<std::vector<Real>> groups(static_cast<std::size_t>(kept.elements()));
  const auto group_of = [&](const Shape& position) {
    std::size_t index = 0;
    for (std::size_t axis = 0; axis < kept.size(); ++axis)
      index =
          index * static_cast<std::size_t>(kept[axis]) + static_cast<std::size_t>(kept[axis] == 1 ? 0 : position[axis]);
    return index;
  };
  for_each_position(x.shape, [&](const Shape& position) { groups[group_of(position)].push_back(x(position)); });
  std::size_t next = 0;
  return make(dtype, over.result_shape(over.keep), [&](const Shape&) -> Real { return f(groups[next++]); });
}

using Elements = std::vector<Real>;

Real prod_of(const Elements& x) { return std::accumulate(x.begin(), x.end(), Real(1), std::multiplies<>()); }
Real mean_of(const Elements& x) { return sum_of(x) / static_cast<Real>(x.size()); }
Real squares_of(const Elements& x) { return std::inner_product(x.begin(), x.end(), x.begin(), Real(0)); }
Real max_of(const Elements& x) { return *std::max_element(x.begin(), x.end()); }
Real min_of(const Elements& x) { return *std::min_element(x.begin(), x.end()); }
Real argmax_of(const Elements& x) { return static_cast<Real>(std::max_element(x.begin(), x.end()) - x.begin()); }
Real argmin_of(const Elements& x) { return static_cast<Real>(std::min_element(x.begin(), x.end()) - x.begin()); }
Real any_of(const Elements& x) {
  return std::any_of(x.begin(), x.end(), [](Real v) { return v != 0; });
}
Real all_of(const Elements& x) {
  return std::all_of(x.begin(), x.end(), [](Real v) { return v != 0; });
}
Real largest_of(const Elements& x) {
  Real largest = 0;
  for (Real v : x) largest = std::max(largest, std::abs(v));
  return largest;
}
Real logsumexp_of(const Elements& x) {
  Real sum = 0;
  for (Real v : x) sum += std::exp(v);
  return std::log(sum);
}
Real var_of(const Elements& x, Real correction) {
  const Real mean = mean_of(x);
  Real sum = 0;
  for (Real v : x) sum += (v - mean) * (v - mean);
  return sum / (static_cast<Real>(x.size()) - correction);
}

using Formula = Real (*)(const Elements&);
Real sum_magnitude(const Elements& x) {
  Real sum = 0;
  for (Real v : x) sum += std::abs(v);
  return sum;
}
Real mean_magnitude(const Elements& x) { return sum_magnitude(x) / static_cast<Real>(x.size()); }
Real logsumexp_magnitude(const Elements& x) { return std::abs(logsumexp_of(x)) + largest_of(x) + 1; }

// The dtype of the result. `wide`: integers have at least 32 bits.
enum class Gives { same, wide, floats, truth, index };

Dtype result_of(Gives gives, Dtype dtype) {
  switch (gives) {
    case Gives::same: return dtype;
    case Gives::wide: return summed_in(dtype);
    case Gives::floats: return as_float(dtype);
    case Gives::truth: return bool_;
    case Gives::index: break;
  }
  return int32;
}

struct Reduction {
  const char* name;
  Tensor (*over_all)(const Tensor&);
  Tensor (*over)(const Tensor&, const Axes&, KeepDims);
  Formula formula;
  // The magnitude to which rounding errors are relative. If null, it is the result itself.
  Formula magnitude = nullptr;
  Gives gives = Gives::same;
  Domain domain = {};
  // True if the reduction of no elements is defined.
  bool of_nothing = true;
  // True for max and min.
  bool shares_ties = false;
};

/// The mean of the elements that are extreme at `at`: elements that tie share the derivative.
Array tied(const Array& at, const Array& x, const Over& over, Formula extreme) {
  const Array extremes = reduced(at, {over.shape, over.axes, true}, x.dtype, extreme);
  const auto is_extreme = [&](const Shape& p) { return at(p) == extremes(broadcast_position(extremes.shape, p)); };
  const Array winners = make(x.dtype, x.shape, [&](const Shape& p) { return Real(is_extreme(p)); });
  const Array winning = make(x.dtype, x.shape, [&](const Shape& p) { return is_extreme(p) ? x(p) : 0; });
  Array result = reduced(winning, over, x.dtype, sum_of);
  const Array count = reduced(winners, over, x.dtype, sum_of);
  for (std::size_t i = 0; i < result.values.size(); ++i) result.values[i] /= count.values[i];
  return result;
}

std::function<Outputs(std::span<const Tensor>)> call_of(const Reduction& f, const Over& over) {
  if (!over.axes && !over.keep) return [f](auto xs) { return f.over_all(xs[0]); };
  return
      [f, over](auto xs) { return f.over(xs[0], over.axes ? Axes(Shape(*over.axes)) : all_axes, KeepDims{over.keep}); };
}

Variant variant_of(const Reduction& f, Dtype dtype, const Over& over) {
  Variant variant{
      .name = over.str(), .inputs = {{dtype, over.shape, f.domain, true, over.kept_axis()}}, .call = call_of(f, over)};
  const Dtype result = result_of(f.gives, dtype);
  variant.reference = [f, over, result](auto xs) {
    Array y = reduced(xs[0], over, result, f.formula);
    if (f.magnitude) y.magnitude = reduced(xs[0], over, float64, f.magnitude).values;
    return Arrays{y};
  };
  if (f.shares_ties)
    variant.smooth = [f, over](auto at, auto xs) { return Arrays{tied(at[0], xs[0], over, f.formula)}; };
  variant.differentiable = f.gives != Gives::truth;
  return variant;
}

// The long ones fill SIMD vectors and leave a remainder.
const std::vector<Over> everywhere = {{{2, 3}},
                                      {{2, 37}, {{1}}},
                                      {{37, 2}, {{0}}},
                                      {{2, 3, 2}, {{0}}},
                                      {{2, 3}, {{-1}}},
                                      {{2, 3, 2}, {{0, 2}}},
                                      {{3, 2}, {{1}}, true},
                                      {{2, 3}, {}, true},
                                      {{2, 3}, std::vector<Index>{}},
                                      {{5}},
                                      {{1, 4}, {{0}}},
                                      {{0, 3}, {{1}}},
                                      {{2, 0}, {{0}}, true},
                                      {{}},
                                      {{}, {}, true}};
const std::vector<Over> nothing = {{{0, 3}}, {{0, 3}, {{0}}}, {{2, 0}, {{-1}}, true}};

std::vector<Variant> variants_of(const Reduction& f, Dtype dtype) {
  std::vector<Variant> variants;
  for (const Over& over : everywhere) variants.push_back(variant_of(f, dtype, over));
  for (const Over& over : nothing) {
    variants.push_back(variant_of(f, dtype, over));
    // In bool, max of no elements is false, as any is; so such variants are left out for bool.
    if (!f.of_nothing && dtype != bool_) variants.back().refusal = "no elements to choose from";
    if (!f.of_nothing && dtype == bool_) variants.pop_back();
  }
  return variants;
}

#define CALLS(name) #name, stave::name, stave::name

std::vector<Reduction> reductions() {
  return {
      {CALLS(sum), sum_of, sum_magnitude, Gives::wide, {-9, 9}},
      {CALLS(prod), prod_of, nullptr, Gives::wide},
      {CALLS(max), max_of, nullptr, Gives::same, {}, false, true},
      {CALLS(min), min_of, nullptr, Gives::same, {}, false, true},
      {CALLS(all), all_of, nullptr, Gives::truth, {.choices = {0, 1, 2, 2, 2}}},
      {CALLS(any), any_of, nullptr, Gives::truth, {.choices = {0, 0, 0, 0, 2}}},
  };
}

// Reductions that divide by the number of elements or take logarithms.
// For no elements they have values but no useful derivatives.
std::vector<Reduction> composed_reductions() {
  return {
      {CALLS(mean), mean_of, mean_magnitude, Gives::floats},
      {CALLS(logsumexp), logsumexp_of, logsumexp_magnitude, Gives::floats},
      {CALLS(norm), [](const Elements& x) { return std::sqrt(squares_of(x)); }, nullptr, Gives::floats, positive},
  };
}
#undef CALLS

std::vector<Variant> composed_variants_of(const Reduction& f, Dtype dtype) {
  std::vector<Variant> variants;
  for (const Over& over : everywhere) variants.push_back(variant_of(f, dtype, over));
  return variants;
}

// ---- var, std ----------------------------------------------------------------------------------

using Spread = Tensor (*)(const Tensor&, const Axes&, KeepDims, double);

std::vector<Variant> spread_variants(Dtype dtype, Tensor (*over_all)(const Tensor&), Spread spread, bool root) {
  std::vector<Variant> variants;
  const auto add = [&](const Over& over, double correction) {
    Variant variant{.name = over.str() + " correction " + std::to_string(static_cast<int>(correction)),
                    .inputs = {{dtype, over.shape, {-3, 3}, true, over.kept_axis()}}};
    if (!over.axes && correction == 0) variant.call = [=](auto xs) { return over_all(xs[0]); };
    else
      variant.call = [=](auto xs) {
        return spread(xs[0], over.axes ? Axes(Shape(*over.axes)) : all_axes, KeepDims{over.keep}, correction);
      };
    variant.reference = [=](auto xs) {
      const auto formula = [&](const Elements& x) {
        const Real variance = var_of(x, correction);
        return root ? std::sqrt(variance) : variance;
      };
      Array y = reduced(xs[0], over, as_float(dtype), formula);
      const Array size = reduced(xs[0], over, float64, [](const Elements& x) { return largest_of(x); });
      y.magnitude = mapped(float64, size, [&](Real v) { return root ? v : v * v; }).values;
      return Arrays{y};
    };
    variants.push_back(std::move(variant));
  };
  add({{2, 3}}, 0);
  add({{2, 3, 2}, {{1}}}, 0);
  add({{4, 2}, {{0}}, true}, 1);
  add({{2, 3, 2}, {{-1, 1}}}, 0);
  add({{0, 3}, {{1}}}, 0);
  add({{2, 0}, {{0}}, true}, 0);
  add({{}}, 0);
  return variants;
}

// ---- argmax, argmin ----------------------------------------------------------------------------

std::vector<Variant> position_variants(Dtype dtype, Tensor (*over_all)(const Tensor&),
                                       Tensor (*along)(const Tensor&, Index, KeepDims), Formula formula) {
  std::vector<Variant> variants;
  for (const Over& over : std::vector<Over>{{{2, 3}},
                                            {{2, 3}, {{0}}},
                                            {{2, 3, 2}, {{1}}},
                                            {{3, 4}, {{-1}}, true},
                                            {{2, 37}, {{1}}},
                                            {{37, 2}, {{0}}},
                                            {{6}},
                                            {{0, 3}, {{1}}},
                                            {{0, 3}, {{0}}},
                                            {{0}},
                                            {{}}}) {
    Variant variant{.name = over.str(), .inputs = {{dtype, over.shape, {-3, 3}}}};
    if (!over.axes) variant.call = [=](auto xs) { return over_all(xs[0]); };
    else variant.call = [=](auto xs) { return along(xs[0], (*over.axes)[0], KeepDims{over.keep}); };
    variant.reference = [=](auto xs) { return Arrays{reduced(xs[0], over, int32, formula)}; };
    variant.differentiable = false;
    const Shape result = over.result_shape(false);
    if (over.shape.elements() == 0 && result.elements() > 0) variant.refusal = "no elements to choose from";
    variants.push_back(std::move(variant));
  }
  return variants;
}

}  // namespace

void add_reduce_rows(std::vector<Row>& rows) {
  for (const Reduction& f : reductions())
    rows.push_back({.name = f.name,
                    .dtypes = all_dtypes,
                    .variants = [f](Dtype dtype) { return variants_of(f, dtype); },
                    .bitwise = false});
  for (const Reduction& f : composed_reductions())
    rows.push_back({.name = f.name,
                    .dtypes = all_dtypes,
                    .variants = [f](Dtype dtype) { return composed_variants_of(f, dtype); },
                    .bitwise = false});
  rows.push_back({.name = "var",
                  .dtypes = all_dtypes,
                  .variants = [](Dtype dtype) { return spread_variants(dtype, stave::var, stave::var, false); },
                  .accuracy = 8,
                  .bitwise = false});
  rows.push_back({.name = "std",
                  .dtypes = all_dtypes,
                  .variants = [](Dtype dtype) { return spread_variants(dtype, stave::std, stave::std, true); },
                  .accuracy = 8,
                  .bitwise = false});
  rows.push_back({.name = "argmax", .dtypes = all_dtypes, .variants = [](Dtype dtype) {
                    return position_variants(dtype, stave::argmax, stave::argmax, argmax_of);
                  }});
  rows.push_back({.name = "argmin", .dtypes = all_dtypes, .variants = [](Dtype dtype) {
                    return position_variants(dtype, stave::argmin, stave::argmin, argmin_of);
                  }});
}

}  // namespace table
