// Rows of layout operations. Each reference gives the input element at each position of the result.

#include <algorithm>

#include <stave/core/ops/layout.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

/// The same elements in row-major order, in another shape.
Variant relabelled(const std::string& name, Dtype dtype, const Shape& shape, std::function<Tensor(const Tensor&)> call,
                   const Shape& result) {
  return {.name = name + shape.str() + " to " + result.str(),
          .inputs = {{dtype, shape}},
          .call = [call](auto xs) { return call(xs[0]); },
          .reference =
              [=](auto xs) {
                return Arrays{{dtype, result, xs[0].values}};
              }};
}

// ---- shapes ------------------------------------------------------------------------------------

std::vector<Variant> reshape_variants(Dtype dtype) {
  const auto to = [&](const Shape& shape, const Shape& asked, const Shape& result) {
    return relabelled(
        "", dtype, shape, [asked](const Tensor& x) { return reshape(x, asked); }, result);
  };
  return {to({2, 3}, {3, 2}, {3, 2}),
          to({2, 3}, {-1}, {6}),
          to({2, 2, 3}, {4, -1}, {4, 3}),
          to({6}, {1, 2, 3}, {1, 2, 3}),
          to({2, 3}, {2, 1, 3}, {2, 1, 3}),
          to({0, 3}, {3, 0}, {3, 0}),
          to({2, 0}, {0, 5}, {0, 5}),
          to({}, {1, 1}, {1, 1}),
          to({}, {}, {}),
          to({1, 1}, {}, {})};
}

std::vector<Variant> expand_dims_variants(Dtype dtype) {
  const auto at = [&](const Shape& shape, Index axis, const Shape& result) {
    return relabelled(
        "at " + std::to_string(axis) + " ", dtype, shape, [axis](const Tensor& x) { return expand_dims(x, axis); },
        result);
  };
  const auto several = [&](const Shape& shape, const Shape& axes, const Shape& result) {
    return relabelled(
        "at " + axes.str() + " ", dtype, shape, [axes](const Tensor& x) { return expand_dims(x, axes); }, result);
  };
  return {several({2, 3}, {-1, 0}, {1, 2, 3, 1}),
          several({2, 3}, {1, 2}, {2, 1, 1, 3}),
          several({}, {0, 1}, {1, 1}),
          several({2, 3}, {}, {2, 3}),
          at({2, 3}, 0, {1, 2, 3}),
          at({2, 3}, 1, {2, 1, 3}),
          at({2, 3}, -1, {2, 3, 1}),
          at({0, 3}, -2, {0, 1, 3}),
          at({}, 0, {1})};
}

std::vector<Variant> squeeze_variants(Dtype dtype) {
  const auto axes_of = [&](const Shape& shape, const std::vector<Index>& axes, const Shape& result) {
    return relabelled(
        "axes " + Shape(axes).str() + " ", dtype, shape, [axes](const Tensor& x) { return squeeze(x, Axes(axes)); },
        result);
  };
  const auto all = [&](const Shape& shape, const Shape& result) {
    return relabelled(
        "", dtype, shape, [](const Tensor& x) { return squeeze(x); }, result);
  };
  return {all({2, 1, 3}, {2, 3}),
          all({1, 1, 4}, {4}),
          all({1, 0, 3}, {0, 3}),
          all({}, {}),
          axes_of({1, 2, 1, 3}, {2}, {1, 2, 3}),
          axes_of({1, 2, 1}, {0, -1}, {2}),
          axes_of({2, 0, 1}, {-1}, {2, 0})};
}

std::vector<Variant> contiguous_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const Shape& shape : {Shape(2, 3), Shape(5), Shape(2, 1, 3), Shape(0, 3), Shape()}) {
    variants.push_back(relabelled(
        "", dtype, shape, [](const Tensor& x) { return contiguous(x); }, shape));
    variants.push_back(view_of(
        "of a transpose ", dtype, shape, [](const Tensor& x) { return contiguous(transpose(x)); },
        [&] {
          Shape s = shape;
          std::reverse(s.begin(), s.end());
          return s;
        }(),
        [](Shape p) {
          std::reverse(p.begin(), p.end());
          return p;
        }));
  }
  return variants;
}

// ---- orders of axes ----------------------------------------------------------------------------

/// Axis i of the result is axis order[i] of x.
Variant permuted(const std::string& name, Dtype dtype, const Shape& shape, const std::vector<int>& order,
                 std::function<Tensor(const Tensor&)> call) {
  Shape result;
  for (int axis : order) result.push_back(shape[static_cast<std::size_t>(axis)]);
  return view_of(name, dtype, shape, call, result, [order](const Shape& p) {
    Shape in = p;
    for (std::size_t i = 0; i < order.size(); ++i) in[static_cast<std::size_t>(order[i])] = p[i];
    return in;
  });
}

std::vector<Variant> permute_dims_variants(Dtype dtype) {
  const auto by = [&](const Shape& shape, const Shape& asked, const std::vector<int>& order) {
    return permuted("by " + asked.str() + " ", dtype, shape, order,
                    [asked](const Tensor& x) { return permute_dims(x, asked); });
  };
  return {by({2, 3}, {1, 0}, {1, 0}),
          by({2, 3, 2}, {2, 0, 1}, {2, 0, 1}),
          by({2, 3, 1}, {-1, 0, -2}, {2, 0, 1}),
          by({2, 3}, {0, 1}, {0, 1}),
          by({0, 3}, {1, 0}, {1, 0}),
          by({4}, {0}, {0}),
          by({}, {}, {})};
}

std::vector<Variant> transpose_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, const std::vector<int>& order) {
    return permuted("", dtype, shape, order, [](const Tensor& x) { return transpose(x); });
  };
  return {of({2, 3}, {1, 0}), of({2, 3, 2}, {2, 1, 0}), of({4}, {0}), of({0, 3}, {1, 0}), of({}, {})};
}

std::vector<Variant> matrix_transpose_variants(Dtype dtype) {
  const auto call = [](const Tensor& x) { return matrix_transpose(x); };
  return {permuted("", dtype, {2, 3}, {1, 0}, call), permuted("", dtype, {2, 3, 2}, {0, 2, 1}, call),
          permuted("", dtype, {2, 0, 3}, {0, 2, 1}, call), refused("", dtype, {}, call, "fewer than 2 axes")};
}

std::vector<Variant> moveaxis_variants(Dtype dtype) {
  const auto from = [&](Index source, Index destination, const Shape& shape, const std::vector<int>& order) {
    return permuted(std::to_string(source) + " to " + std::to_string(destination) + " ", dtype, shape, order,
                    [=](const Tensor& x) { return moveaxis(x, source, destination); });
  };
  return {from(0, 2, {2, 3, 2}, {1, 2, 0}),
          from(-1, 0, {2, 3, 1}, {2, 0, 1}),
          from(1, -1, {2, 3, 2}, {0, 2, 1}),
          from(0, 1, {0, 3}, {1, 0}),
          permuted("0 and 1 to -1 and 0 ", dtype, {2, 3, 2}, {1, 2, 0},
                   [](const Tensor& x) {
                     return moveaxis(x, {0, 1}, {-1, 0});
                   }),
          permuted("3 and 0 to 1 and 2 ", dtype, {2, 3, 1, 4}, {1, 3, 0, 2},
                   [](const Tensor& x) {
                     return moveaxis(x, {3, 0}, {1, 2});
                   }),
          permuted("none ", dtype, {2, 3}, {0, 1}, [](const Tensor& x) { return moveaxis(x, Shape(), Shape()); }),
          refused(
              "", dtype, {}, [](const Tensor& x) { return moveaxis(x, 0, 0); }, "out of range")};
}

// ---- repeats, reversals, parts -----------------------------------------------------------------

std::vector<Variant> broadcast_to_variants(Dtype dtype) {
  const auto to = [&](const Shape& shape, const Shape& result) {
    return view_of(
        "to " + result.str() + " from ", dtype, shape, [result](const Tensor& x) { return broadcast_to(x, result); },
        result, [shape](const Shape& p) { return broadcast_position(shape, p); });
  };
  return {to({3}, {2, 3}),    to({2, 1}, {2, 3}), to({2, 3}, {2, 3}), to({1, 2}, {2, 3, 2}),
          to({0, 1}, {0, 3}), to({1, 3}, {0, 3}), to({}, {2, 2}),     to({}, {})};
}

std::vector<Variant> flip_variants(Dtype dtype) {
  const auto along = [&](const Shape& shape, const std::vector<bool>& flipped,
                         std::function<Tensor(const Tensor&)> call, const std::string& name) {
    return view_of(name, dtype, shape, call, shape, [=](Shape p) {
      for (std::size_t axis = 0; axis < p.size(); ++axis)
        if (flipped[axis]) p[axis] = shape[axis] - 1 - p[axis];
      return p;
    });
  };
  const auto everywhere = [](const Tensor& x) { return flip(x); };
  return {along({2, 3}, {true, true}, everywhere, "all "),
          along({4}, {true}, everywhere, "all "),
          along({}, {}, everywhere, "all "),
          along({0, 3}, {true, true}, everywhere, "all "),
          along(
              {2, 3}, {true, false}, [](const Tensor& x) { return flip(x, 0); }, "0 "),
          along(
              {2, 3, 2}, {true, false, true},
              [](const Tensor& x) {
                return flip(x, {0, -1});
              },
              "0 and -1 "),
          along(
              {2, 0}, {true, false}, [](const Tensor& x) { return flip(x, 0); }, "0 ")};
}

// Tensor::operator() and operator[].
std::vector<Variant> index_variants(Dtype dtype) {
  const auto of = [&](const std::string& name, const Shape& shape, std::function<Tensor(const Tensor&)> call,
                      const Shape& result,
                      Source source) { return view_of(name + " of ", dtype, shape, call, result, source); };
  return {
      of(
          "(1)", {2, 3}, [](const Tensor& x) { return x(1); }, {3}, [](const Shape& p) { return Shape(1, p[0]); }),
      of(
          "[-1]", {2, 3}, [](const Tensor& x) { return x[-1]; }, {3}, [](const Shape& p) { return Shape(1, p[0]); }),
      of(
          "(1, -2)", {2, 3}, [](const Tensor& x) { return x(1, -2); }, {}, [](const Shape&) { return Shape(1, 1); }),
      of(
          "(1:)", {4}, [](const Tensor& x) { return x(slice(1, none)); }, {3},
          [](const Shape& p) { return Shape(p[0] + 1); }),
      of(
          "(::-1)", {5}, [](const Tensor& x) { return x(slice(none, none, -1)); }, {5},
          [](const Shape& p) { return Shape(4 - p[0]); }),
      of(
          "(4:0:-2)", {6}, [](const Tensor& x) { return x(slice(4, 0, -2)); }, {2},
          [](const Shape& p) { return Shape(4 - 2 * p[0]); }),
      of(
          "(:, 1::2)", {2, 5}, [](const Tensor& x) { return x(slice(), slice(1, none, 2)); }, {2, 2},
          [](const Shape& p) { return Shape(p[0], 2 * p[1] + 1); }),
      of(
          "(..., newaxis, 0)", {2, 3, 2}, [](const Tensor& x) { return x(ellipsis, newaxis, 0); }, {2, 3, 1},
          [](const Shape& p) { return Shape(p[0], p[1], 0); }),
      of(
          "(-1, ..., ::2)", {2, 2, 3}, [](const Tensor& x) { return x(-1, ellipsis, slice(none, none, 2)); }, {2, 2},
          [](const Shape& p) { return Shape(1, p[0], 2 * p[1]); }),
      of(
          "(3:1)", {4}, [](const Tensor& x) { return x(slice(3, 1)); }, {0}, [](const Shape& p) { return p; }),
      of(
          "(:, 1)", {0, 3}, [](const Tensor& x) { return x(slice(), 1); }, {0},
          [](const Shape& p) { return Shape(p[0], 1); }),
      of(
          "(...)", {}, [](const Tensor& x) { return x(ellipsis); }, {}, [](const Shape& p) { return p; }),
      of(
          "(newaxis)", {}, [](const Tensor& x) { return x(newaxis); }, {1}, [](const Shape&) { return Shape(); }),
  };
}

// ---- joining, padding --------------------------------------------------------------------------

std::vector<Tensor> list(std::span<const Tensor> xs) { return {xs.begin(), xs.end()}; }

Dtype promoted_all(std::span<const Array> xs) {
  Dtype dtype = xs[0].dtype;
  for (const Array& x : xs) dtype = promoted(dtype, x.dtype);
  return dtype;
}

/// The inputs concatenated along an axis, which is counted from the front.
Array joined_along(std::span<const Array> xs, Index axis) {
  const auto along = static_cast<std::size_t>(axis);
  Shape shape = xs[0].shape;
  shape[along] = 0;
  for (const Array& x : xs) shape[along] += x.shape[along];
  return make(promoted_all(xs), shape, [&](Shape p) {
    std::size_t i = 0;
    for (; p[along] >= xs[i].shape[along]; ++i) p[along] -= xs[i].shape[along];
    return xs[i](p);
  });
}

Array stacked(std::span<const Array> xs, Index axis) {
  Arrays expanded;
  for (const Array& x : xs) expanded.push_back({x.dtype, with_axis(x.shape, axis, 1), x.values});
  return joined_along(expanded, axis < 0 ? axis + xs[0].shape.rank() + 1 : axis);
}

std::vector<Variant> concat_variants(Dtype dtype) {
  const auto of = [&](std::vector<Input> inputs, Index axis) {
    std::string name = "along " + std::to_string(axis) + ":";
    for (const Input& input : inputs) name += std::string(" ") + stave::name_of(input.dtype) + input.shape.str();
    return Variant{
        .name = name,
        .inputs = inputs,
        .call = [axis](auto xs) { return concat(list(xs), axis); },
        .reference = [axis](auto xs) { return Arrays{joined_along(xs, axis < 0 ? axis + xs[0].shape.rank() : axis)}; }};
  };
  Variant none = of({{dtype, {}}, {dtype, {}}}, 0);
  none.refusal = "rank 0";
  std::vector<Variant> variants = {of({{dtype, {2, 3}}, {dtype, {1, 3}}}, 0),
                                   of({{dtype, {2, 1}}, {dtype, {2, 2}}, {dtype, {2, 3}}}, -1),
                                   of({{dtype, {2}}, {dtype, {0}}, {dtype, {1}}, {dtype, {3}}}, 0),
                                   of({{dtype, {0, 3}}, {dtype, {2, 3}}}, 0),
                                   of({{dtype, {2, 3}}}, 1),
                                   none};
  // More inputs than a 32-bit mask has bits.
  std::vector<Input> many(40, {dtype, {1}});
  many[33].shape = {2};
  variants.push_back(of(many, 0));
  for (Dtype other : all_dtypes)
    if (common(dtype, other)) variants.push_back(of({{dtype, {2, 2}}, {other, {2, 1}}}, 1));
  return variants;
}

std::vector<Variant> stack_variants(Dtype dtype) {
  const auto of = [&](std::vector<Input> inputs, Index axis) {
    return Variant{.name = std::to_string(inputs.size()) + " along " + std::to_string(axis) + " of " +
                           stave::name_of(inputs.back().dtype) + inputs[0].shape.str(),
                   .inputs = inputs,
                   .call = [axis](auto xs) { return stack(list(xs), axis); },
                   .reference = [axis](auto xs) { return Arrays{stacked(xs, axis)}; }};
  };
  const Input matrix{dtype, {2, 3}}, empty{dtype, {0, 2}}, number{dtype, {}};
  // More inputs than a 32-bit mask has bits.
  const std::vector<Input> many(40, {dtype, {2}});
  return {of({matrix, matrix}, 0),
          of({matrix, matrix, matrix}, -1),
          of({matrix, matrix}, 1),
          of({matrix}, 0),
          of({empty, empty}, 1),
          of({number, number, number}, 0),
          of(many, 0),
          of(many, 1),
          of({matrix, {float64, {2, 3}}}, 0)};
}

std::vector<Variant> pad_variants(Dtype dtype) {
  using Widths = std::vector<std::pair<Index, Index>>;
  const auto with = [&](const Shape& shape, const Widths& widths, Scalar value) {
    Shape result = shape;
    for (std::size_t axis = 0; axis < widths.size(); ++axis) result[axis] += widths[axis].first + widths[axis].second;
    return Variant{.name = shape.str() + " to " + result.str() + " with " + std::to_string(value.floating),
                   .inputs = {{dtype, shape}},
                   .call = [=](auto xs) { return pad(xs[0], widths, value); },
                   .reference =
                       [=](auto xs) {
                         return Arrays{make(dtype, result, [&](Shape p) -> Real {
                           for (std::size_t axis = 0; axis < p.size(); ++axis) {
                             p[axis] -= widths[axis].first;
                             if (p[axis] < 0 || p[axis] >= shape[axis]) return value.floating;
                           }
                           return xs[0](p);
                         })};
                       }};
  };
  const Scalar one = is_float(dtype) ? Scalar(1.5) : Scalar(1);
  return {with({2, 3}, {{1, 0}, {2, 1}}, 0),
          with({2, 3}, {{0, 1}, {-1, 2}}, one),
          with({5}, {{-1, -2}}, one),
          with({2, 2}, {{0, 0}, {0, 0}}, one),
          with({0, 3}, {{1, 1}, {0, 0}}, one),
          with({2, 0}, {{0, 0}, {0, 2}}, 0),
          with({}, {}, one)};
}

}  // namespace

void add_layout_rows(std::vector<Row>& rows) {
  const auto add = [&](const char* name, std::vector<Variant> (*variants)(Dtype)) {
    rows.push_back({.name = name, .dtypes = all_dtypes, .variants = variants, .accuracy = 1});
  };
  add("reshape", reshape_variants);
  add("expand_dims", expand_dims_variants);
  add("squeeze", squeeze_variants);
  add("contiguous", contiguous_variants);
  add("permute_dims", permute_dims_variants);
  add("transpose", transpose_variants);
  add("matrix_transpose", matrix_transpose_variants);
  add("moveaxis", moveaxis_variants);
  add("broadcast_to", broadcast_to_variants);
  add("flip", flip_variants);
  add("index", index_variants);
  add("concat", concat_variants);
  add("stack", stack_variants);
  add("pad", pad_variants);
}

}  // namespace table
