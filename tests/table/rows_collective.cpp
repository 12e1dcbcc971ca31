// Rows of collectives over the lanes of a vmap along axis 0. Each reference gives the result
// of place i, from the values of x of all places.

#include <algorithm>
#include <cmath>

#include <stave/core/ops/collective.h>
#include <stave/handlers/transforms/vmap.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

using Collective = std::function<Tensor(const Tensor&)>;

Outputs across(const Collective& f, const Tensor& x) { return {vmap(f, {.axis_name = "places"})(x)}; }

Shape of_place(Shape p) { return part(p, 1, p.rank()); }
Shape at_place(Index place, const Shape& p) {
  Shape all = p;
  all.insert(all.begin(), place);
  return all;
}
Shape inserted(Shape p, std::size_t axis, Index i) {
  p.insert(p.begin() + axis, i);
  return p;
}

/// The result of f for the values of x at this position, one from each place.
template <class F>
Real folded(const Array& x, const Shape& p, F f) {
  std::vector<Real> values;
  for (Index place = 0; place < x.shape[0]; ++place) values.push_back(x(at_place(place, p)));
  return f(values);
}

const std::vector<Shape> shapes = {{3}, {4, 2}, {2, 3, 2}, {1, 2}, {3, 0}};

Variant without_places(Dtype dtype, const Collective& f) {
  return refused(
      "", dtype, {}, [f](const Tensor& x) { return across(f, x)[0]; }, "rank 0");
}

std::vector<Variant> sums(Dtype dtype, Collective f, Dtype result, bool mean) {
  std::vector<Variant> all{without_places(dtype, f)};
  for (const Shape& shape : shapes)
    all.push_back({.name = shape.str(),
                   .inputs = {{dtype, shape}},
                   .call = [f](auto xs) { return across(f, xs[0]); },
                   .reference =
                       [=](auto xs) {
                         const Real by = mean ? static_cast<Real>(shape[0]) : 1;
                         Array y = make(result, shape,
                                        [&](const Shape& p) { return folded(xs[0], of_place(p), sum_of) / by; });
                         y.magnitude = make(float64, shape, [&](const Shape& p) {
                                         return folded(xs[0], of_place(p), size_of_sum) / by;
                                       }).values;
                         return Arrays{y};
                       }});
  return all;
}

template <class Choose>
std::vector<Variant> extremes(Dtype dtype, Collective f, Choose choose) {
  std::vector<Variant> all{without_places(dtype, f)};
  for (const Shape& shape : shapes)
    all.push_back({.name = shape.str(),
                   .inputs = {{dtype, shape}},
                   .call = [f](auto xs) { return across(f, xs[0]); },
                   .reference =
                       [=](auto xs) {
                         return Arrays{make(dtype, shape, [&](const Shape& p) {
                           return folded(xs[0], of_place(p), [&](const auto& values) { return *choose(values); });
                         })};
                       },
                   .smooth = [=](auto at, auto xs) {  // The mean of the values that tie.
                     return Arrays{make(dtype, shape, [&](const Shape& p) {
                       const Shape q = of_place(p);
                       const Real chosen = folded(at[0], q, [&](const auto& values) { return *choose(values); });
                       Real sum = 0, count = 0;
                       for (Index place = 0; place < shape[0]; ++place) {
                         const bool ties = at[0](at_place(place, q)) == chosen;
                         sum += ties ? xs[0](at_place(place, q)) : 0;
                         count += ties;
                       }
                       return sum / count;
                     })};
                   }});
  return all;
}

/// A variant whose result has, at each position, the element of x that `source` names;
/// with `summed`, the sum of such elements over all places.
Variant moved(const std::string& name, Dtype dtype, const Shape& shape, Collective f, const Shape& result,
              Source source, bool summed = false) {
  return {.name = name + shape.str(),
          .inputs = {{dtype, shape}},
          .call = [f](auto xs) { return across(f, xs[0]); },
          .reference =
              [=](auto xs) {
                if (!summed) return Arrays{make(dtype, result, [&](const Shape& p) { return xs[0](source(p)); })};
                const Dtype as = dtype == bool_ ? int32 : dtype;
                Array y = make(as, result, [&](const Shape& p) { return folded(xs[0], source(p), sum_of); });
                y.magnitude =
                    make(float64, result, [&](const Shape& p) { return folded(xs[0], source(p), size_of_sum); }).values;
                return Arrays{y};
              }};
}

std::vector<Variant> gathers(Dtype dtype) {
  const auto of = [&](const Shape& shape, std::size_t axis, bool tiled) {
    const Index n = shape[0];
    const Shape each = of_place(shape);
    Shape result = each;
    if (tiled) result[axis] *= n;
    else result = inserted(result, axis, n);
    return moved(
        (tiled ? "tiled " : "") + std::to_string(axis) + " ", dtype, shape,
        [=](const Tensor& x) { return all_gather(x, "places", {.axis = static_cast<Index>(axis), .tiled = tiled}); },
        at_place(n, result),
        [=](const Shape& p) {
          Shape q = of_place(p);
          const Index i = q[axis];
          if (!tiled) return at_place(i, without_axis(q, static_cast<Index>(axis)));
          q[axis] = i % each[axis];
          return at_place(i / each[axis], q);
        });
  };
  return {of({3}, 0, false),
          of({3, 2}, 0, false),
          of({3, 2}, 1, false),
          of({2, 3, 2}, 1, false),
          of({3, 2}, 0, true),
          of({2, 3, 2}, 1, true),
          of({3, 0}, 0, false),
          of({1, 2}, 0, true),
          without_places(dtype, [](const Tensor& x) { return all_gather(x, "places"); })};
}

std::vector<Variant> scatters(Dtype dtype) {
  const auto of = [&](const Shape& shape, std::size_t axis, bool tiled) {
    const Index n = shape[0];
    const Shape each = of_place(shape);
    Shape result = each;
    if (tiled) result[axis] /= n;
    else result = without_axis(result, static_cast<Index>(axis));
    return moved((tiled ? "tiled " : "") + std::to_string(axis) + " ", dtype, shape,
                 [=](const Tensor& x) {
                   return reduce_scatter(x, "places", {.axis = static_cast<Index>(axis), .tiled = tiled});
                 },
                 at_place(n, result),
                 [=](const Shape& p) {
                   Shape q = of_place(p);
                   if (!tiled) return inserted(q, axis, p[0]);
                   q[axis] += p[0] * result[axis];
                   return q;
                 },
                 true);
  };
  const auto wrong = [&](const Shape& shape, bool tiled, const char* words) {
    return refused(
        "wrong ", dtype, shape,
        [=](const Tensor& x) {
          return across([&](const Tensor& y) { return reduce_scatter(y, "places", {.tiled = tiled}); }, x)[0];
        },
        words);
  };
  return {of({3, 3}, 0, false),
          of({3, 2, 3}, 1, false),
          of({2, 4}, 0, true),
          of({2, 3, 4}, 1, true),
          of({2, 2, 0}, 0, false),
          of({1, 1}, 0, false),
          wrong({3, 2}, false, "as long as there are the 3 places of \"places\""),
          wrong({3, 4}, true, "a multiple of the 3 places"),
          without_places(dtype, [](const Tensor& x) { return reduce_scatter(x, "places"); })};
}

std::vector<Variant> exchanges(Dtype dtype) {
  const auto of = [&](const Shape& shape, std::size_t split, std::size_t concat, bool tiled) {
    const Index n = shape[0];
    const Shape each = of_place(shape);
    Shape result = each;
    if (tiled) {
      result[split] /= n;
      result[concat] *= n;
    } else {
      result = inserted(without_axis(each, static_cast<Index>(split)), concat, n);
    }
    // The length of the part that comes from one place.
    const Index length = each[concat] / (tiled && split == concat ? n : 1);
    return moved(
        (tiled ? "tiled " : "") + std::to_string(split) + " to " + std::to_string(concat) + " ", dtype, shape,
        [=](const Tensor& x) {
          return all_to_all(
              x, "places",
              {.split_axis = static_cast<Index>(split), .concat_axis = static_cast<Index>(concat), .tiled = tiled});
        },
        at_place(n, result),
        [=](const Shape& p) {
          const Index to = p[0];
          Shape q = of_place(p);
          const Index i = q[concat];
          if (!tiled) return at_place(i, inserted(without_axis(q, static_cast<Index>(concat)), split, to));
          q[concat] = i % length;
          q[split] += to * (each[split] / n);
          return at_place(i / length, q);
        });
  };
  return {of({3, 3}, 0, 0, false),
          of({2, 2, 3}, 0, 1, false),
          of({2, 3, 2}, 1, 0, false),
          of({2, 2, 3, 2}, 2, 1, false),
          of({2, 4}, 0, 0, true),
          of({2, 4, 3}, 0, 1, true),
          of({2, 3, 4}, 1, 0, true),
          of({2, 2, 0}, 0, 1, false),
          without_places(dtype, [](const Tensor& x) { return all_to_all(x, "places"); })};
}

std::vector<Variant> permutations(Dtype dtype) {
  using Pairs = std::vector<std::pair<Index, Index>>;
  const auto of = [&](const Shape& shape, const Pairs& pairs) {
    return Variant{
        .name = std::to_string(pairs.size()) + " of " + shape.str(),
        .inputs = {{dtype, shape}},
        .call = [=](auto xs) { return across([&](const Tensor& x) { return ppermute(x, "places", pairs); }, xs[0]); },
        .reference =
            [=](auto xs) {
              return Arrays{make(dtype, shape, [&](const Shape& p) {
                for (const auto& [from, to] : pairs)
                  if (to == p[0]) return xs[0](at_place(from, of_place(p)));
                return Real(0);
              })};
            }};
  };
  const Pairs ring{{0, 1}, {1, 2}, {2, 0}};
  return {
      of({3}, ring),
      of({3, 2}, ring),
      of({3, 2}, {{0, 1}, {1, 2}}),
      of({4, 2}, {{3, 0}}),
      of({3, 2}, {}),
      of({3, 0}, ring),
      refused(
          "no such place ", dtype, {2, 2},
          [=](const Tensor& x) { return across([&](const Tensor& y) { return ppermute(y, "places", ring); }, x)[0]; },
          "names a place that the 2 of \"places\" do not have"),
      without_places(dtype, [=](const Tensor& x) { return ppermute(x, "places", ring); })};
}

std::vector<Variant> indices(Dtype dtype) {
  std::vector<Variant> all{without_places(dtype, [](const Tensor&) { return axis_index("places"); })};
  for (const Shape& shape : shapes)
    all.push_back(
        {.name = shape.str(),
         .inputs = {{dtype, shape}},
         .call =
             [](auto xs) { return across([](const Tensor& x) { return axis_index("places", x.device()); }, xs[0]); },
         .reference =
             [=](auto) {
               return Arrays{make(int32, {shape[0]}, [](const Shape& p) { return static_cast<Real>(p[0]); })};
             },
         .differentiable = false});
  return all;
}

}  // namespace

void add_collective_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "psum", .dtypes = all_dtypes, .variants = [](Dtype dtype) {
                    return sums(
                        dtype, [](const Tensor& x) { return psum(x, "places"); }, as_number(dtype), false);
                  }});
  rows.push_back({.name = "pmean", .dtypes = all_dtypes, .variants = [](Dtype dtype) {
                    return sums(
                        dtype, [](const Tensor& x) { return pmean(x, "places"); }, as_float(dtype), true);
                  }});
  rows.push_back({.name = "pmax", .dtypes = all_dtypes, .variants = [](Dtype dtype) {
                    return extremes(
                        dtype, [](const Tensor& x) { return pmax(x, "places"); },
                        [](const auto& values) { return std::max_element(values.begin(), values.end()); });
                  }});
  rows.push_back({.name = "pmin", .dtypes = all_dtypes, .variants = [](Dtype dtype) {
                    return extremes(
                        dtype, [](const Tensor& x) { return pmin(x, "places"); },
                        [](const auto& values) { return std::min_element(values.begin(), values.end()); });
                  }});
  rows.push_back({.name = "all_gather", .dtypes = all_dtypes, .variants = gathers});
  rows.push_back({.name = "reduce_scatter", .dtypes = all_dtypes, .variants = scatters});
  rows.push_back({.name = "all_to_all", .dtypes = all_dtypes, .variants = exchanges});
  rows.push_back({.name = "ppermute", .dtypes = all_dtypes, .variants = permutations});
  rows.push_back({.name = "axis_index", .dtypes = {float32, int32}, .variants = indices});
}

}  // namespace table
