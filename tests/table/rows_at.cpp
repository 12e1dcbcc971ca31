// Rows of x.at(index...), read and updated.

#include <algorithm>
#include <cmath>

#include <stave/core/ops/at.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>

#include "table/reference.h"
#include "table/row.h"
#include "table/updates.h"

namespace table {

namespace {

/// An index with tensors: its result for x, and the position in x of each element of the result.
struct Indexed {
  const char* name;
  Shape shape;
  std::vector<Input> tensors;
  std::function<At(const Tensor&, std::span<const Tensor>)> at;
  Shape read;
  std::function<Shape(const Shape& p, std::span<const Array> tensors)> place;
};

std::vector<Indexed> indices_of_all_kinds() {
  const auto in = [](Index length, const Shape& shape) { return indices(int32, shape, length); };
  const auto at = [](const Array& index, const Shape& p, Index length) { return from_end(index(p), length); };
  return {
      {"numbers and slices",
       {3, 4},
       {},
       [](const Tensor& x, auto) { return x.at(1, slice(none, none, -2)); },
       {2},
       [](const Shape& p, auto) { return Shape(1, 3 - 2 * p[0]); }},
      {"new axes",
       {3, 4},
       {},
       [](const Tensor& x, auto) { return x.at(ellipsis, newaxis, slice(1, 3)); },
       {3, 1, 2},
       [](const Shape& p, auto) { return Shape(p[0], p[2] + 1); }},
      {"a tensor",
       {4, 3},
       {in(4, {5})},
       [](const Tensor& x, auto ts) { return x.at(ts[0], slice(1, none)); },
       {5, 2},
       [at](const Shape& p, auto ts) { return Shape(at(ts[0], {p[0]}, 4), p[1] + 1); }},
      {"a tensor behind a slice",
       {2, 4},
       {in(4, {2, 2})},
       [](const Tensor& x, auto ts) { return x.at(slice(), ts[0]); },
       {2, 2, 2},
       [at](const Shape& p, auto ts) {
         return Shape(p[0], at(ts[0], {p[1], p[2]}, 4));
       }},
      {"two that broadcast",
       {3, 4},
       {in(3, {2, 1}), in(4, {3})},
       [](const Tensor& x, auto ts) { return x.at(ts[0], ts[1]); },
       {2, 3},
       [at](const Shape& p, auto ts) {
         return Shape(at(ts[0], {p[0], 0}, 3), at(ts[1], {p[1]}, 4));
       }},
      {"two apart",
       {3, 2, 4},
       {in(3, {3}), in(4, {3})},
       [](const Tensor& x, auto ts) { return x.at(ts[0], slice(), ts[1]); },
       {3, 2},
       [at](const Shape& p, auto ts) { return Shape(at(ts[0], {p[0]}, 3), p[1], at(ts[1], {p[0]}, 4)); }},
      {"a number and a tensor apart",
       {2, 3, 4},
       {in(4, {2})},
       [](const Tensor& x, auto ts) { return x.at(-1, slice(2), ts[0]); },
       {2, 2},
       [at](const Shape& p, auto ts) { return Shape(1, p[1], at(ts[0], {p[0]}, 4)); }},
      {"one entry",
       {5},
       {in(5, {})},
       [](const Tensor& x, auto ts) { return x.at(ts[0]); },
       {},
       [at](const Shape&, auto ts) { return Shape(at(ts[0], {}, 5)); }},
      {"of rank 0",
       {},
       {},
       [](const Tensor& x, auto) { return x.at(newaxis, ellipsis); },
       {1},
       [](const Shape&, auto) { return Shape(); }},
      {"nothing",
       {0, 3},
       {in(3, {2})},
       [](const Tensor& x, auto ts) { return x.at(slice(), ts[0]); },
       {0, 2},
       [at](const Shape& p, auto ts) { return Shape(p[0], at(ts[0], {p[1]}, 3)); }},
  };
}

std::vector<Input> inputs_of(const Indexed& index, std::vector<Input> inputs) {
  inputs.insert(inputs.end(), index.tensors.begin(), index.tensors.end());
  return inputs;
}

std::vector<Variant> at_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const Indexed& index : indices_of_all_kinds())
    variants.push_back({.name = index.name,
                        .inputs = inputs_of(index, {{dtype, index.shape}}),
                        .call = [=](auto xs) { return index.at(xs[0], xs.subspan(1)).get(); },
                        .reference =
                            [=](auto xs) {
                              return Arrays{make(dtype, index.read,
                                                 [&](const Shape& p) { return xs[0](index.place(p, xs.subspan(1))); })};
                            }});
  variants.push_back({.name = "filled",
                      .inputs = {{dtype, {3, 2}}, {int32, {6}, {.choices = {-5, -4, -3, 1, 3, 4}}}, {dtype, {}}},
                      .call = [](auto xs) { return xs[0].at(xs[1]).get(xs[2]); },
                      .reference =
                          [=](auto xs) {
                            return Arrays{make(dtype, {6, 2}, [&](const Shape& p) {
                              const Index at = from_end(xs[1](Shape(p[0])), 3);
                              return at < 0 || at > 2 ? xs[2]({}) : xs[0]({at, p[1]});
                            })};
                          }});
  return variants;
}

using Update = Tensor (At::*)(const Operand&) const;

template <Update update, Combine combine>
std::vector<Variant> update_variants(Dtype dtype) {
  const Dtype result = combine == put ? dtype : as_number(dtype);
  const auto updated = [=](const Array& x, const auto& f) {
    Array y = mapped(result, x, [](Real v) { return v; }),
          size = mapped(float64, y, [](Real v) { return std::abs(v); });
    f([&](const Shape& to, Real value) {
      y(to) = combine(y(to), value);
      size(to) = combine == plus ? size(to) + std::abs(value) : std::abs(y(to));
    });
    y = mapped(result, y, [](Real v) { return v; });
    y.magnitude = size.values;
    return Arrays{y};
  };
  std::vector<Variant> variants;
  for (const Indexed& index : indices_of_all_kinds())
    for (bool one : {false, true}) {
      const Shape values = one ? Shape() : index.read;
      variants.push_back({.name = index.name + std::string(one ? ", of one value" : ""),
                          .inputs = inputs_of(index, {{dtype, index.shape}, {dtype, values}}),
                          .call = [=](auto xs) { return (index.at(xs[0], xs.subspan(2)).*update)(xs[1]); },
                          .reference =
                              [=](auto xs) {
                                return updated(xs[0], [&](const auto& put_at) {
                                  for_each_position(index.read, [&](const Shape& p) {
                                    put_at(index.place(p, xs.subspan(2)), xs[1](broadcast_position(values, p)));
                                  });
                                });
                              }});
      if (combine != least && combine != greatest) continue;
      variants.back().smooth = [=](auto near, auto xs) {
        Met met(near[0], xs[0], combine);
        for_each_position(index.read, [&](const Shape& p) {
          const Shape from = broadcast_position(values, p);
          met.put(index.place(p, xs.subspan(2)), near[1](from), xs[1](from));
        });
        return Arrays{met.mean(result)};
      };
    }

  // A mask over the last two axes, with one value for each entry of the first axis.
  variants.push_back({.name = "a mask",
                      .inputs = {{dtype, {2, 3, 2}}, {dtype, {2, 1}}, {bool_, {3, 2}}},
                      .call = [](auto xs) { return (xs[0].at(slice(), xs[2]).*update)(xs[1]); },
                      .reference =
                          [=](auto xs) {
                            return updated(xs[0], [&](const auto& put_at) {
                              for_each_position(xs[0].shape, [&](const Shape& p) {
                                if (xs[2]({p[1], p[2]}) != 0) put_at(p, xs[1]({p[0], 0}));
                              });
                            });
                          }});
  return variants;
}

}  // namespace

void add_at_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "x.at", .dtypes = all_dtypes, .variants = at_variants, .accuracy = 0});
  rows.push_back({.name = "x.at.set", .dtypes = all_dtypes, .variants = update_variants<&At::set, put>, .accuracy = 0});
  rows.push_back({.name = "x.at.add", .dtypes = all_dtypes, .variants = update_variants<&At::add, plus>});
  rows.push_back({.name = "x.at.multiply", .dtypes = all_dtypes, .variants = update_variants<&At::multiply, times>});
  rows.push_back(
      {.name = "x.at.min", .dtypes = all_dtypes, .variants = update_variants<&At::min, least>, .accuracy = 0});
  rows.push_back(
      {.name = "x.at.max", .dtypes = all_dtypes, .variants = update_variants<&At::max, greatest>, .accuracy = 0});
}

}  // namespace table
