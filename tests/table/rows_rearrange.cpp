// Rows of functions composed of layout operations. Each reference gives the input element
// at each position of the result.

#include <cmath>

#include <stave/core/ops/layout.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

std::size_t at(Index axis, const Shape& shape) {
  return static_cast<std::size_t>(axis < 0 ? axis + shape.rank() : axis);
}

Index row_major(const Shape& p, const Shape& shape) {
  Index i = 0;
  for (std::size_t axis = 0; axis < p.size(); ++axis) i = i * shape[axis] + p[axis];
  return i;
}

Shape position_of(Index i, const Shape& shape) {
  Shape p = shape;
  for (std::size_t axis = shape.size(); axis-- > 0; i /= shape[axis]) p[axis] = i % shape[axis];
  return p;
}

// ---- diagonal, trace ---------------------------------------------------------------------------

/// The diagonals of a shape: the shape of the result, and the map from its positions to those
/// of the input.
struct Diagonal {
  Shape shape, result;
  std::size_t rows, columns;
  Index offset;

  Diagonal(const Shape& of, Index offset_, Index axis1, Index axis2)
      : shape(of), rows(at(axis1, of)), columns(at(axis2, of)), offset(offset_) {
    for (std::size_t axis = 0; axis < of.size(); ++axis)
      if (axis != rows && axis != columns) result.push_back(of[axis]);
    Index length = 0;
    for (Index i = 0; i < of[rows]; ++i) length += i + offset >= 0 && i + offset < of[columns];
    result.push_back(length);
  }
  Shape source(const Shape& p) const {
    const Index i = p.back() + std::max<Index>(0, -offset);
    Shape in;
    for (std::size_t axis = 0, next = 0; axis < shape.size(); ++axis)
      in.push_back(axis == rows ? i : axis == columns ? i + offset : p[next++]);
    return in;
  }
};

std::vector<Variant> diag_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (Index n : {3, 1, 0})
    for (Index k : {0, 2, -1}) {
      const Index size = n + std::abs(k);
      variants.push_back({.name = std::to_string(n) + " at " + std::to_string(k),
                          .inputs = {{dtype, {n}}},
                          .call = [k](auto xs) { return diag(xs[0], k); },
                          .reference =
                              [=](auto xs) {
                                return Arrays{make(dtype, {size, size}, [&](const Shape& p) {
                                  return p[1] - p[0] == k ? xs[0](Shape(std::min(p[0], p[1]))) : 0;
                                })};
                              }});
    }
  variants.push_back(view_of(
      "of a matrix ", dtype, {3, 4}, [](const Tensor& x) { return diag(x, 1); }, {3},
      [](const Shape& p) { return Shape(p[0], p[0] + 1); }));
  variants.push_back(refused(
      "", dtype, {}, [](const Tensor& x) { return diag(x); }, "fewer than 2 axes"));
  return variants;
}

std::vector<Variant> diagonal_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, Index offset, Index axis1, Index axis2) {
    const Diagonal d(shape, offset, axis1, axis2);
    return view_of(
        std::to_string(offset) + " of axes " + Shape(axis1, axis2).str() + " ", dtype, shape,
        [=](const Tensor& x) { return diagonal(x, offset, axis1, axis2); }, d.result,
        [d](const Shape& p) { return d.source(p); });
  };
  const auto call = [](const Tensor& x) { return diagonal(x); };
  const Diagonal square({3, 3}, 0, 0, 1);
  return {view_of("", dtype, {3, 3}, call, {3}, [square](const Shape& p) { return square.source(p); }),
          of({2, 4}, 1, -2, -1),
          of({4, 2}, -1, 0, 1),
          of({2, 3}, 2, 0, 1),
          of({2, 3}, 3, 0, 1),
          of({2, 3}, -5, 0, 1),
          of({2, 3, 4}, 1, 0, 2),
          of({2, 3, 4}, -1, 2, 0),
          of({2, 3, 3}, 0, 1, 2),
          of({0, 3}, 0, 0, 1),
          of({2, 0, 2}, 0, 0, 2),
          of({3, 0}, 0, 0, 1),
          refused("", dtype, {}, call, "fewer than 2 axes")};
}

std::vector<Variant> trace_variants(Dtype dtype) {
  const Dtype result = summed_in(dtype);
  const auto of = [&](const Shape& shape, Index offset, Index axis1, Index axis2) {
    const Diagonal d(shape, offset, axis1, axis2);
    const auto summed = [d](const Array& x, Shape p, bool absolute) {
      Real sum = 0;
      p.push_back(0);
      for (; p.back() < d.result.back(); ++p.back()) sum += absolute ? std::abs(x(d.source(p))) : x(d.source(p));
      return sum;
    };
    const Shape left = part(d.result, 0, d.result.rank() - 1);
    return Variant{.name = std::to_string(offset) + " of axes " + Shape(axis1, axis2).str() + " " + shape.str(),
                   .inputs = {{dtype, shape}},
                   .call = [=](auto xs) { return trace(xs[0], offset, axis1, axis2); },
                   .reference =
                       [=](auto xs) {
                         Array y = make(result, left, [&](const Shape& p) { return summed(xs[0], p, false); });
                         y.magnitude =
                             make(float64, left, [&](const Shape& p) { return summed(xs[0], p, true); }).values;
                         return Arrays{y};
                       }};
  };
  return {of({3, 3}, 0, -2, -1), of({2, 4}, 1, 0, 1), of({3, 2, 4}, -1, 0, 2), of({0, 3}, 0, 0, 1),
          refused(
              "", dtype, {}, [](const Tensor& x) { return trace(x); }, "fewer than 2 axes")};
}

// ---- taking apart ------------------------------------------------------------------------------

std::vector<Variant> unstack_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, Index axis) {
    return Variant{.name = "along " + std::to_string(axis) + " " + shape.str(),
                   .inputs = {{dtype, shape}},
                   .call =
                       [axis](auto xs) {
                         const std::vector<Tensor> parts = unstack(xs[0], axis);
                         return Outputs(parts.begin(), parts.end());
                       },
                   .reference =
                       [=](auto xs) {
                         Arrays parts;
                         const Index along = static_cast<Index>(at(axis, shape));
                         for (Index i = 0; i < shape[at(axis, shape)]; ++i) parts.push_back(lane(xs[0], along, i));
                         return parts;
                       }};
  };
  return {of({2, 3}, 0),
          of({2, 3}, 1),
          of({2, 3, 2}, -2),
          of({4}, 0),
          of({2, 0}, 0),
          refused(
              "", dtype, {}, [](const Tensor& x) { return unstack(x)[0]; }, "rank 0")};
}

/// The differences of neighbours, taken n times, and the magnitude to which their rounding errors
/// are relative.
Arrays differences(Array x, Index n, std::size_t axis) {
  Array size = mapped(float64, x, [](Real v) { return std::abs(v); });
  for (; n > 0 && x.shape[axis] > 0; --n) {
    Shape less = x.shape;
    --less[axis];
    const auto after = [axis](Shape p) {
      ++p[axis];
      return p;
    };
    const Array here = x, here_size = size;
    x = make(x.dtype, less, [&](const Shape& p) -> Real {
      return x.dtype == bool_ ? here(after(p)) != here(p) : here(after(p)) - here(p);
    });
    size = make(float64, less, [&](const Shape& p) { return here_size(after(p)) + here_size(p); });
  }
  x.magnitude = size.values;
  return {x};
}

std::vector<Variant> diff_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, Index n, Index axis) {
    return Variant{.name = std::to_string(n) + " along " + std::to_string(axis) + " " + shape.str(),
                   .inputs = {{dtype, shape}},
                   .call = [=](auto xs) { return n == 1 && axis == -1 ? diff(xs[0]) : diff(xs[0], n, axis); },
                   .reference = [=](auto xs) { return differences(xs[0], n, at(axis, shape)); }};
  };
  return {of({2, 5}, 1, -1),
          of({4, 3}, 1, 0),
          of({5}, 2, 0),
          of({2, 4, 2}, 3, 1),
          of({2, 3}, 0, 1),
          of({2, 3}, 7, 1),
          of({0, 3}, 1, 0),
          of({2, 0}, 2, 0),
          of({1}, 1, 0),
          refused(
              "", dtype, {}, [](const Tensor& x) { return diff(x); }, "out of range")};
}

// ---- moving and repeating ----------------------------------------------------------------------

Index wrapped(Index i, Index length) { return (i % length + length) % length; }

std::vector<Variant> roll_variants(Dtype dtype) {
  const auto along = [&](const std::string& name, const Shape& shape, const std::vector<Index>& shifts,
                         std::function<Tensor(const Tensor&)> call) {
    return view_of(name, dtype, shape, call, shape, [=](Shape p) {
      for (std::size_t axis = 0; axis < p.size(); ++axis) p[axis] = wrapped(p[axis] - shifts[axis], shape[axis]);
      return p;
    });
  };
  const auto flattened = [&](const Shape& shape, Index shift) {
    return view_of(
        "flattened by " + std::to_string(shift) + " ", dtype, shape,
        [shift](const Tensor& x) { return roll(x, shift); }, shape,
        [=](const Shape& p) { return position_of(wrapped(row_major(p, shape) - shift, shape.elements()), shape); });
  };
  return {flattened({2, 3}, 2),
          flattened({5}, -8),
          flattened({}, 3),
          flattened({0, 2}, 1),
          along("by 1 along 0 ", {3, 2}, {1, 0}, [](const Tensor& x) { return roll(x, 1, 0); }),
          along("by -7 along -1 ", {2, 4}, {0, -7}, [](const Tensor& x) { return roll(x, -7, -1); }),
          along("by 0 ", {2, 3}, {0, 0}, [](const Tensor& x) { return roll(x, 0, 1); }),
          along("along two ", {3, 4, 2}, {1, 0, -1},
                [](const Tensor& x) {
                  return roll(x, {1, -1}, {0, 2});
                }),
          along("one shift for two ", {3, 4}, {2, 2},
                [](const Tensor& x) {
                  return roll(x, 2, {0, 1});
                }),
          along("an axis twice ", {3, 4}, {0, 3},
                [](const Tensor& x) {
                  return roll(x, {1, 2}, {1, -1});
                }),
          along("", {2, 0}, {1, 0}, [](const Tensor& x) { return roll(x, 1, 0); })};
}

std::vector<Variant> tile_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, const Shape& counts, const Shape& result) {
    return view_of(
        counts.str() + " times ", dtype, shape, [counts](const Tensor& x) { return tile(x, counts); }, result,
        [shape](const Shape& p) {
          Shape in = part(p, p.rank() - shape.rank(), p.rank());
          for (std::size_t axis = 0; axis < in.size(); ++axis) in[axis] %= shape[axis];
          return in;
        });
  };
  return {of({2, 3}, {2, 1}, {4, 3}),       of({3}, {2}, {6}),          of({3}, {2, 3}, {2, 9}),
          of({2, 3}, {2}, {2, 6}),          of({2, 3}, {}, {2, 3}),     of({2, 1, 2}, {1, 3, 2}, {2, 3, 4}),
          of({2, 1, 2}, {3, 2}, {2, 3, 4}), of({}, {2, 2}, {2, 2}),     of({}, {}, {}),
          of({0, 3}, {2, 2}, {0, 6}),       of({2, 0}, {1, 2}, {2, 0}), of({2, 3}, {0, 1}, {0, 3})};
}

/// A variant whose result has the entries `sources` along one axis, or of the flattened input
/// if `axis` is `flat`.
constexpr Index flat = -100;
Variant repeat_of(Dtype dtype, const Shape& shape, Index axis, const std::vector<Index>& sources,
                  const std::string& name, std::function<Tensor(const Tensor&)> call) {
  Shape result = axis == flat ? Shape(0) : shape;
  const std::size_t along = axis == flat ? 0 : at(axis, shape);
  result[along] = static_cast<Index>(sources.size());
  return view_of(name + " ", dtype, shape, call, result, [=](Shape p) {
    p[along] = sources[static_cast<std::size_t>(p[along])];
    return axis == flat ? position_of(p[0], shape) : p;
  });
}

std::vector<Variant> repeat_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, Index count, Index axis) {
    std::vector<Index> sources;
    for (Index i = 0; i < (axis == flat ? shape.elements() : shape[at(axis, shape)]) * count; ++i)
      sources.push_back(i / count);
    return repeat_of(dtype, shape, axis, sources, std::to_string(count) + " along " + std::to_string(axis),
                     [=](const Tensor& x) { return axis == flat ? repeat(x, count) : repeat(x, count, axis); });
  };
  const auto each = [&](const Shape& shape, const std::vector<Index>& counts, Index axis) {
    std::vector<Index> sources;
    for (std::size_t i = 0; i < counts.size(); ++i)
      sources.insert(sources.end(), static_cast<std::size_t>(counts[i]), static_cast<Index>(i));
    return repeat_of(dtype, shape, axis, sources, Shape(counts).str() + " along " + std::to_string(axis),
                     [=](const Tensor& x) { return axis == flat ? repeat(x, counts) : repeat(x, counts, axis); });
  };
  return {of({2, 3}, 2, 0),
          of({2, 3}, 3, -1),
          of({2, 3}, 2, flat),
          of({3}, 0, 0),
          of({0, 3}, 2, 0),
          of({2, 0}, 2, 0),
          of({}, 3, flat),
          each({3}, {1, 0, 2}, 0),
          each({2, 3}, {2, 1}, 0),
          each({2, 3}, {0, 3, 1}, -1),
          each({2, 2}, {1, 2, 0, 1}, flat),
          each({0, 2}, {}, 0),
          each({2, 0}, {2, 1}, 0),
          each({}, {2}, flat)};
}

// ---- meshgrid ----------------------------------------------------------------------------------

std::vector<Variant> meshgrid_variants(Dtype dtype) {
  const auto of = [&](const std::vector<Input>& inputs, const std::string& indexing) {
    std::string name = indexing;
    Shape result;
    for (const Input& input : inputs) {
      name += " " + input.shape.str();
      result.push_back(input.shape.elements());
    }
    if (indexing != "ij" && inputs.size() > 1) std::swap(result[0], result[1]);
    return Variant{.name = name,
                   .inputs = inputs,
                   .call =
                       [indexing](auto xs) {
                         const std::vector<Tensor> list(xs.begin(), xs.end());
                         const std::vector<Tensor> grids = indexing.empty() ? meshgrid(list) : meshgrid(list, indexing);
                         return Outputs(grids.begin(), grids.end());
                       },
                   .reference =
                       [=](auto xs) {
                         Arrays grids;
                         for (std::size_t i = 0; i < xs.size(); ++i)
                           grids.push_back(make(inputs[i].dtype, result, [&](const Shape& p) {
                             const std::size_t axis = indexing != "ij" && xs.size() > 1 && i < 2 ? 1 - i : i;
                             return xs[i].values[static_cast<std::size_t>(p[axis])];
                           }));
                         return grids;
                       }};
  };
  const Input two{dtype, {2}}, three{dtype, {3}}, number{dtype, {}}, none{dtype, {0}};
  // Each result keeps its own dtype.
  const Input other{is_float(dtype) ? float64 : int64, {4}};
  return {of({two, three}, ""),    of({two, three}, "ij"),  of({two, three, other}, "xy"), of({three}, "xy"),
          of({number, two}, "ij"), of({none, three}, "ij"), of({number, number}, "xy")};
}

}  // namespace

void add_rearrange_rows(std::vector<Row>& rows) {
  const auto add = [&](const char* name, std::vector<Variant> (*variants)(Dtype), Real accuracy = 0) {
    rows.push_back({.name = name, .dtypes = all_dtypes, .variants = variants, .accuracy = accuracy});
  };
  add("diag", diag_variants);
  add("diagonal", diagonal_variants);
  add("trace", trace_variants, 4);
  add("unstack", unstack_variants);
  add("diff", diff_variants, 1);
  add("roll", roll_variants);
  add("tile", tile_variants);
  add("repeat", repeat_variants);
  add("meshgrid", meshgrid_variants);
}

}  // namespace table
