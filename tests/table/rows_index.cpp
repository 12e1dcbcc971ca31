// Indexing by integer tensors.

#include <algorithm>
#include <cmath>

#include <stave/core/ops/at.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

Index from_end(Real index, Index length) { return static_cast<Index>(index) + (index < 0 ? length : 0); }

/// Indices of an axis of this length: of both signs, where the dtype has two.
Input indices(Dtype dtype, const Shape& shape, Index length) {
  return {dtype, shape, {-static_cast<double>(length), static_cast<double>(length) - 1}};
}

Variant take_of(Dtype dtype, const Shape& shape, const Shape& taken, Index axis, Dtype index_dtype,
                std::string refusal = "") {
  const Index along = axis < 0 ? axis + shape.rank() : axis;
  const Index length = shape.rank() > 0 ? shape[static_cast<std::size_t>(along)] : 1;
  return {.name = shape.str() + " at " + stave::name_of(index_dtype) + taken.str() + " along " + std::to_string(axis),
          .inputs = {{dtype, shape}, indices(index_dtype, taken, length)},
          .call = [axis](auto xs) { return take(xs[0], xs[1], axis); },
          .reference =
              [=](auto xs) {
                const Shape before = part(shape, 0, along), after = part(shape, along + 1, shape.rank());
                return Arrays{make(dtype, concatenated(concatenated(before, taken), after), [&](const Shape& p) {
                  const Shape at = part(p, along, along + taken.rank());
                  return xs[0](concatenated(concatenated(part(p, 0, along), Shape(from_end(xs[1](at), length))),
                                            part(p, along + taken.rank(), p.rank())));
                })};
              },
          .refusal = refusal};
}

std::vector<Variant> take_variants(Dtype dtype) {
  std::vector<Variant> variants = {
      take_of(dtype, {4, 3}, {2, 2}, 0, int64), take_of(dtype, {2, 3}, {5}, -1, int32),
      take_of(dtype, {2, 3, 2}, {2}, 1, int32), take_of(dtype, {2, 3}, {}, 1, int32),
      take_of(dtype, {5}, {7}, 0, int32),       take_of(dtype, {0, 3}, {2}, 1, int32),
      take_of(dtype, {2, 3}, {0}, 1, int64),    take_of(dtype, {}, {2}, 0, int32, "out of range")};
  for (Dtype index_dtype : integer_dtypes) variants.push_back(take_of(dtype, {4, 2}, {3}, 0, index_dtype));
  return variants;
}

Variant take_along_axis_of(Dtype dtype, const Shape& shape, const Shape& taken, Index axis, Dtype index_dtype,
                           std::string refusal = "") {
  const Index along = axis < 0 ? axis + shape.rank() : axis;
  const Index length = shape.rank() > 0 ? shape[static_cast<std::size_t>(along)] : 1;
  return {.name = shape.str() + " at " + stave::name_of(index_dtype) + taken.str() + " along " + std::to_string(axis),
          .inputs = {{dtype, shape}, indices(index_dtype, taken, length)},
          .call = [axis](auto xs) { return take_along_axis(xs[0], xs[1], axis); },
          .reference =
              [=](auto xs) {
                const auto at = static_cast<std::size_t>(along);
                Shape others = shape;
                others[at] = 1;
                Shape result = broadcast_shape(others, taken);
                result[at] = taken[at];
                return Arrays{make(dtype, result, [&](const Shape& p) {
                  Shape in = p;
                  in[at] = from_end(xs[1](broadcast_position(taken, p)), length);
                  return xs[0](broadcast_position(shape, in));
                })};
              },
          .refusal = refusal};
}

std::vector<Variant> take_along_axis_variants(Dtype dtype) {
  std::vector<Variant> variants = {
      take_along_axis_of(dtype, {2, 3}, {2, 4}, 1, int64), take_along_axis_of(dtype, {3, 2}, {1, 2}, 0, int32),
      take_along_axis_of(dtype, {3, 2}, {2, 1}, 0, int32), take_along_axis_of(dtype, {1, 3, 2}, {2, 2, 1}, -2, int32),
      take_along_axis_of(dtype, {5}, {3}, 0, int32),       take_along_axis_of(dtype, {0, 3}, {0, 2}, 1, int32),
      take_along_axis_of(dtype, {2, 3}, {2, 0}, 1, int32), take_along_axis_of(dtype, {}, {}, 0, int32, "out of range")};
  for (Dtype index_dtype : integer_dtypes)
    variants.push_back(take_along_axis_of(dtype, {4, 2}, {3, 2}, 0, index_dtype));
  return variants;
}

Variant put_along_axis_of(Dtype dtype, const Shape& shape, const Shape& put, Input values, Index axis,
                          Dtype index_dtype) {
  const auto along = static_cast<std::size_t>(axis < 0 ? axis + shape.rank() : axis);
  const Dtype result = common(dtype, values.dtype).value_or(dtype);
  return {.name = shape.str() + " at " + stave::name_of(index_dtype) + put.str() + " along " + std::to_string(axis),
          .inputs = {{dtype, shape}, indices(index_dtype, put, shape[along]), values},
          .call = [axis](auto xs) { return put_along_axis(xs[0], xs[1], xs[2], axis); },
          .reference =
              [=](auto xs) {
                Array y = mapped(result, xs[0], [](Real v) { return v; });
                Shape updates = shape;
                updates[along] = put[along];
                for_each_position(updates, [&](const Shape& p) {
                  Shape to = p;
                  to[along] = from_end(xs[1](broadcast_position(put, p)), shape[along]);
                  y(to) = xs[2](broadcast_position(values.shape, p));
                });
                return Arrays{mapped(result, y, [](Real v) { return v; })};
              }};
}

std::vector<Variant> put_along_axis_variants(Dtype dtype) {
  std::vector<Variant> variants = {
      put_along_axis_of(dtype, {2, 3}, {2, 2}, {dtype, {2, 2}}, 1, int64),
      put_along_axis_of(dtype, {3, 2}, {4, 1}, {dtype, {4, 2}}, 0, int32),
      put_along_axis_of(dtype, {2, 3, 2}, {1, 2, 2}, {dtype, {2}}, -2, int32),
      put_along_axis_of(dtype, {5}, {3}, {dtype, {}}, 0, int32),
      refused(
          "", dtype, {}, [](const Tensor& x) { return put_along_axis(x, zeros({}, int32), x, 0); },
          "axis 0 is out of range for rank 0"),

      put_along_axis_of(dtype, {0, 3}, {0, 2}, {dtype, {0, 2}}, 1, int32)};
  for (Dtype index_dtype : integer_dtypes)
    variants.push_back(put_along_axis_of(dtype, {4, 2}, {3, 2}, {dtype, {3, 2}}, 0, index_dtype));
  return variants;
}

// ---- gather, scatter --------------------------------------------------------------------------------------

/// The position in x that entry `p` of the result of gather shows, for indices [batch..., at..., k].
Shape addressed(const Array& index, const Shape& x, const Shape& p, Index batch = 0) {
  const Index at = index.shape.rank() - 1, k = index.shape.back();
  Shape in = part(p, 0, batch);
  for (Index i = 0; i < k; ++i)
    in.push_back(from_end(index(concatenated(part(p, 0, at), Shape(i))), x[static_cast<std::size_t>(batch + i)]));
  return concatenated(in, part(p, at, p.rank()));
}

Shape gathered_shape(const Shape& x, const Shape& index, Index batch = 0) {
  return concatenated(part(index, 0, index.rank() - 1), part(x, batch + index.back(), x.rank()));
}

/// The shortest of the axes that indices of this shape address bounds all of them.
Index shortest(const Shape& x, const Shape& index, Index batch = 0) {
  Index length = 100;
  for (Index i = 0; i < index.back(); ++i) length = std::min(length, x[static_cast<std::size_t>(batch + i)]);
  return length;
}

std::string words_for(const Shape& shape, const Shape& at, Dtype index_dtype, Index batch) {
  return shape.str() + " at " + stave::name_of(index_dtype) + at.str() +
         (batch ? " batch " + std::to_string(batch) : "");
}

Variant gather_of(Dtype dtype, const Shape& shape, const Shape& at, Dtype index_dtype, Index batch = 0) {
  return {.name = words_for(shape, at, index_dtype, batch),
          .inputs = {{dtype, shape}, indices(index_dtype, at, shortest(shape, at, batch))},
          .call = [batch](auto xs) { return gather(xs[0], xs[1], batch); },
          .reference =
              [=](auto xs) {
                return Arrays{make(dtype, gathered_shape(shape, at, batch),
                                   [&](const Shape& p) { return xs[0](addressed(xs[1], shape, p, batch)); })};
              }};
}

std::vector<Variant> gather_variants(Dtype dtype) {
  std::vector<Variant> variants = {
      gather_of(dtype, {4, 3}, {5, 1}, int64),       gather_of(dtype, {3, 2}, {4, 2}, int32),
      gather_of(dtype, {2, 3, 2}, {2, 2, 2}, int32), gather_of(dtype, {2, 3}, {1}, int32),
      gather_of(dtype, {3, 0}, {2, 1}, int32),       gather_of(dtype, {2, 3}, {0, 1}, int32),
      gather_of(dtype, {}, {2, 0}, int32),           gather_of(dtype, {2, 3, 2}, {2, 4, 1}, int32, 1)};
  for (Dtype index_dtype : integer_dtypes) variants.push_back(gather_of(dtype, {5}, {3, 1}, index_dtype));
  return variants;
}

using Scatter = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, Index);
/// What stands in a place, with an update.
using Combine = Real (*)(Real, Real);
Real put(Real, Real update) { return update; }
Real plus(Real x, Real update) { return x + update; }
Real times(Real x, Real update) { return x * update; }
Real least(Real x, Real update) { return std::min(x, update); }
Real greatest(Real x, Real update) { return std::max(x, update); }

/// An array of places where updates meet. Of a minimum or maximum its derivative is that of the mean of those that are it.
class Met {
 public:
  Met(const Array& at, const Array& x, Combine combine)
      : combine_(combine), best_(mapped(float64, at, [](Real v) { return v; })),
        sum_(mapped(float64, x, [](Real v) { return v; })), count_(mapped(float64, x, [](Real) { return Real(1); })) {}
  /// An update: where the derivative is asked for, and near there.
  void put(const Shape& to, Real at, Real value) {
    const Real next = combine_(best_(to), at);
    if (at != next) return;
    const bool ties = at == best_(to);
    sum_(to) = ties ? sum_(to) + value : value;
    count_(to) = ties ? count_(to) + 1 : 1;
    best_(to) = next;
  }
  Array mean(Dtype dtype) const {
    return mapped(dtype, sum_, count_, [](Real sum, Real count) { return sum / count; });
  }

 private:
  Combine combine_;
  Array best_, sum_, count_;
};

Variant scatter_of(Scatter scatter, Combine combine, Input x, Input updates, const Shape& at, Dtype index_dtype,
                   Index batch = 0) {
  const Dtype result = common(x.dtype, updates.dtype).value_or(x.dtype);
  updates.shape = gathered_shape(x.shape, at, batch);
  Variant variant{.name = words_for(x.shape, at, index_dtype, batch) + " of " + stave::name_of(updates.dtype),
                  .inputs = {x, indices(index_dtype, at, shortest(x.shape, at, batch)), updates},
                  .call = [=](auto xs) { return scatter(xs[0], xs[1], xs[2], batch); },
                  .reference =
                      [=](auto xs) {
                        Array y = xs[0], size = mapped(float64, y, [](Real v) { return std::abs(v); });
                        for_each_position(xs[2].shape, [&](const Shape& p) {
                          const Shape to = addressed(xs[1], y.shape, p, batch);
                          y(to) = combine(y(to), xs[2](p));
                          size(to) = combine == plus ? size(to) + std::abs(xs[2](p)) : std::abs(y(to));
                        });
                        y = mapped(result, y, [](Real v) { return v; });
                        y.magnitude = size.values;
                        return Arrays{y};
                      }};
  if (combine == least || combine == greatest)
    variant.smooth = [=](auto near, auto xs) {
      Met met(near[0], xs[0], combine);
      for_each_position(xs[2].shape,
                        [&](const Shape& p) { met.put(addressed(xs[1], x.shape, p, batch), near[2](p), xs[2](p)); });
      return Arrays{met.mean(result)};
    };
  return variant;
}

template <Scatter scatter, Combine combine>
std::vector<Variant> scatter_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, const Shape& at, Dtype index_dtype, Index batch = 0) {
    return scatter_of(scatter, combine, {dtype, shape}, {dtype, {}}, at, index_dtype, batch);
  };
  std::vector<Variant> variants = {of({4, 3}, {5, 1}, int64),       of({2, 2}, {6, 2}, int32),
                                   of({3, 2, 2}, {2, 2, 1}, int32), of({2, 3}, {1}, int32),
                                   of({3, 0}, {2, 1}, int32),       of({2, 3}, {0, 1}, int32),
                                   of({}, {3, 0}, int32),           of({2, 3, 2}, {2, 4, 1}, int32, 1)};
  for (Dtype index_dtype : integer_dtypes) variants.push_back(of({3}, {4, 1}, index_dtype));
  for (Dtype other : dtype == bool_ ? std::vector<Dtype>{} : number_dtypes)
    if (common(dtype, other))
      variants.push_back(scatter_of(scatter, combine, {dtype, {3, 2}}, {other, {}}, {4, 1}, int32));
  if (combine == times && is_float(dtype))
    variants.push_back(
        scatter_of(scatter, combine, {dtype, {2, 2}}, {dtype, {}, {.choices = {0, 0, 1.5, -2}}}, {5, 1}, int32));
  return variants;
}

// ---- segments ---------------------------------------------------------------------------------------------

using Segments = Tensor (*)(const Tensor&, const Tensor&, Index);

template <Segments segments, Combine combine>
std::vector<Variant> segment_variants(Dtype dtype) {
  const bool sums = combine == plus || combine == times;
  const Dtype result = sums ? summed_in(dtype) : dtype;
  const Real range = std::ldexp(Real(1), 8 * static_cast<int>(size_of(dtype)));
  const Real top = is_float(dtype)    ? std::numeric_limits<Real>::infinity()
                   : is_signed(dtype) ? range / 2 - 1
                                      : range - 1;
  const Real bottom = is_float(dtype) ? -top : is_signed(dtype) ? -range / 2 : 0;
  const Real nothing = combine == plus ? 0 : combine == times ? 1 : combine == least ? top : bottom;
  std::vector<Variant> variants;
  const auto add = [&](const Shape& shape, const std::vector<Index>& ids, Index count, bool differentiable = true) {
    variants.push_back(
        {.name = shape.str() + " in " + std::to_string(count),
         .inputs = {{dtype, shape, {}, differentiable, shape.rank() - 1}},

         .call = [=](auto xs) { return segments(xs[0], astype(from(ids), count % 2 ? int64 : uint8), count); },
         .reference =
             [=](auto xs) {
               Shape all = shape;
               all[0] = count;
               Array y = make(float64, all, [&](const Shape&) { return nothing; });
               Array size = mapped(float64, y, [](Real) { return Real(0); });
               for_each_position(shape, [&](const Shape& p) {
                 Shape to = p;
                 to[0] = ids[static_cast<std::size_t>(p[0])];
                 y(to) = combine(y(to), xs[0](p));
                 size(to) = combine == plus ? size(to) + std::abs(xs[0](p)) : std::abs(y(to));
               });
               y = mapped(result, y, [](Real v) { return v; });
               y.magnitude = size.values;
               return Arrays{y};
             }});
    if (sums) return;
    variants.back().smooth = [=](auto near, auto xs) {
      Shape all = shape;
      all[0] = count;
      const Array none = make(float64, all, [&](const Shape&) { return nothing; });
      Met met(none, none, combine);
      for_each_position(shape, [&](const Shape& p) {
        Shape to = p;
        to[0] = ids[static_cast<std::size_t>(p[0])];
        met.put(to, near[0](p), xs[0](p));
      });
      return Arrays{met.mean(result)};
    };
  };
  add({7}, {2, 0, 0, 1, 2, 2, 0}, 3);
  add({4, 3}, {1, 1, 0, 1}, 2);
  add({4, 2}, {3, 3, 0, 3}, 5, sums);  // some of nothing: an infinity has no differences
  add({0, 2}, {}, 2, sums);

  variants.push_back(refused(
      "", dtype, {}, [](const Tensor& x) { return segments(x, zeros({1}, int32), 2); },
      "needs ids of shape [1], not [1]"));
  return variants;
}

// ---- at ---------------------------------------------------------------------------------------------------

/// An index with tensors: what it makes of x, and which place of x a position of what is read shows.
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

  // A mask over the last two axes, of one value for each entry of the first.
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

// ---- one_hot ----------------------------------------------------------------------------------------------

std::vector<Variant> one_hot_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (Dtype result : all_dtypes)
    for (const Shape& shape : {Shape(2, 3), Shape(4), Shape(0, 2), Shape()}) {
      if (result != float32 && shape.rank() != 1) continue;
      variants.push_back(
          {.name = shape.str() + " in " + stave::name_of(result),
           .inputs = {{dtype, shape, {0, 3}}},
           .call = [result](auto xs) { return result == float32 ? one_hot(xs[0], 4) : one_hot(xs[0], 4, result); },
           .reference =
               [=](auto xs) {
                 return Arrays{make(result, concatenated(shape, Shape(4)),
                                    [&](const Shape& p) { return Real(xs[0](part(p, 0, shape.rank())) == p.back()); })};
               }});
    }
  return variants;
}

// ---- dynamic_slice, dynamic_update_slice ------------------------------------------------------------------

/// Starts of slices of these sizes, one for each axis: what none of the axes refuses, of both signs where the dtype has two.
Input starts(Dtype dtype, const Shape& shape, const Shape& sizes) {
  Index room = 100, shortest = 100, largest = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    room = std::min(room, shape[axis] - sizes[axis]);
    shortest = std::min(shortest, shape[axis]);
    largest = std::max(largest, sizes[axis]);
  }
  std::vector<Real> choices;
  for (Index start = 0; start <= room; ++start) choices.push_back(static_cast<Real>(start));
  for (Index start = std::max<Index>(largest, 1); is_signed(dtype) && start <= shortest; ++start)
    choices.push_back(-static_cast<Real>(start));
  return {dtype, {shape.rank()}, {.choices = choices}};
}

/// The position in x of position p of the slice.
Shape in_slice(const Array& begin, const Shape& shape, Shape p) {
  for (std::size_t axis = 0; axis < p.size(); ++axis) p[axis] += from_end(begin.values[axis], shape[axis]);
  return p;
}

Variant dynamic_slice_of(Dtype dtype, const Shape& shape, const Shape& sizes, Dtype index_dtype) {
  return {.name = sizes.str() + " of " + shape.str() + " at " + stave::name_of(index_dtype),
          .inputs = {{dtype, shape}, starts(index_dtype, shape, sizes)},
          .call = [sizes](auto xs) { return dynamic_slice(xs[0], xs[1], sizes); },
          .reference =
              [=](auto xs) {
                return Arrays{make(dtype, sizes, [&](const Shape& p) { return xs[0](in_slice(xs[1], shape, p)); })};
              }};
}

// One index for each axis: tensors of two dtypes, and a C++ integer.
Variant dynamic_slice_at_numbers(Dtype dtype) {
  return {.name = "at single indices",
          .inputs = {{dtype, {4, 3, 5}}, {uint8, {}, {0, 2}}, {int64, {}, {-3, 3}}},
          .call =
              [](auto xs) {
                return dynamic_slice(xs[0], {xs[1], -2, xs[2]}, {2, 2, 1});
              },
          .reference =
              [=](auto xs) {
                return Arrays{make(dtype, {2, 2, 1}, [&](const Shape& p) {
                  return xs[0](
                      Shape(p[0] + static_cast<Index>(xs[1].values[0]), p[1] + 1, p[2] + from_end(xs[2].values[0], 5)));
                })};
              }};
}

std::vector<Variant> dynamic_slice_variants(Dtype dtype) {
  std::vector<Variant> variants = {dynamic_slice_of(dtype, {4, 5}, {2, 3}, int32),
                                   dynamic_slice_of(dtype, {6}, {2}, int64),
                                   dynamic_slice_of(dtype, {3, 2, 4}, {1, 2, 2}, int32),
                                   dynamic_slice_of(dtype, {3, 4}, {3, 4}, int32),
                                   dynamic_slice_of(dtype, {3, 4}, {2, 0}, int32),
                                   dynamic_slice_of(dtype, {0, 3}, {0, 2}, int32),
                                   dynamic_slice_of(dtype, {}, {}, int32),
                                   dynamic_slice_at_numbers(dtype)};
  for (Dtype index_dtype : integer_dtypes) variants.push_back(dynamic_slice_of(dtype, {5}, {2}, index_dtype));
  return variants;
}

Variant dynamic_update_slice_of(Dtype dtype, const Shape& shape, Input update, Dtype index_dtype) {
  const Dtype result = promoted(dtype, update.dtype);
  return {.name = update.shape.str() + " of " + stave::name_of(update.dtype) + " into " + shape.str() + " at " +
                  stave::name_of(index_dtype),
          .inputs = {{dtype, shape}, update, starts(index_dtype, shape, update.shape)},
          .call = [](auto xs) { return dynamic_update_slice(xs[0], xs[1], xs[2]); },
          .reference =
              [=](auto xs) {
                Array y = mapped(result, xs[0], [](Real v) { return v; });
                for_each_position(xs[1].shape, [&](const Shape& p) { y(in_slice(xs[2], shape, p)) = xs[1](p); });
                return Arrays{mapped(result, y, [](Real v) { return v; })};
              }};
}

std::vector<Variant> dynamic_update_slice_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, const Shape& sizes, Dtype index_dtype) {
    return dynamic_update_slice_of(dtype, shape, {dtype, sizes}, index_dtype);
  };
  std::vector<Variant> variants = {of({4, 5}, {2, 3}, int32), of({3, 2, 4}, {1, 2, 2}, int64),
                                   of({3, 4}, {3, 4}, int32), of({3, 4}, {2, 0}, int32),
                                   of({0, 3}, {0, 2}, int32), of({}, {}, int32)};
  for (Dtype index_dtype : integer_dtypes) variants.push_back(of({5}, {2}, index_dtype));
  for (Dtype other : all_dtypes)
    if (common(dtype, other)) variants.push_back(dynamic_update_slice_of(dtype, {3, 4}, {other, {2, 2}}, int32));
  return variants;
}

}  // namespace

void add_index_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "take", .dtypes = all_dtypes, .variants = take_variants, .accuracy = 0});
  rows.push_back(
      {.name = "take_along_axis", .dtypes = all_dtypes, .variants = take_along_axis_variants, .accuracy = 0});
  rows.push_back({.name = "gather", .dtypes = all_dtypes, .variants = gather_variants, .accuracy = 0});
  rows.push_back({.name = "put_along_axis", .dtypes = all_dtypes, .variants = put_along_axis_variants, .accuracy = 1});
  rows.push_back({.name = "scatter", .dtypes = all_dtypes, .variants = scatter_variants<scatter, put>, .accuracy = 1});
  rows.push_back({.name = "scatter_add", .dtypes = number_dtypes, .variants = scatter_variants<scatter_add, plus>});
  rows.push_back(
      {.name = "scatter_multiply", .dtypes = number_dtypes, .variants = scatter_variants<scatter_multiply, times>});
  rows.push_back({.name = "scatter_min",
                  .dtypes = number_dtypes,
                  .variants = scatter_variants<scatter_min, least>,
                  .accuracy = 1});
  rows.push_back({.name = "scatter_max",
                  .dtypes = number_dtypes,
                  .variants = scatter_variants<scatter_max, greatest>,
                  .accuracy = 1});
  rows.push_back({.name = "segment_sum", .dtypes = all_dtypes, .variants = segment_variants<segment_sum, plus>});
  rows.push_back({.name = "segment_prod", .dtypes = all_dtypes, .variants = segment_variants<segment_prod, times>});
  rows.push_back({.name = "segment_min",
                  .dtypes = number_dtypes,
                  .variants = segment_variants<segment_min, least>,
                  .accuracy = 0});
  rows.push_back({.name = "segment_max",
                  .dtypes = number_dtypes,
                  .variants = segment_variants<segment_max, greatest>,
                  .accuracy = 0});
  rows.push_back({.name = "x.at", .dtypes = all_dtypes, .variants = at_variants, .accuracy = 0});
  rows.push_back({.name = "x.at.set", .dtypes = all_dtypes, .variants = update_variants<&At::set, put>, .accuracy = 0});
  rows.push_back({.name = "x.at.add", .dtypes = all_dtypes, .variants = update_variants<&At::add, plus>});
  rows.push_back({.name = "x.at.multiply", .dtypes = all_dtypes, .variants = update_variants<&At::multiply, times>});
  rows.push_back(
      {.name = "x.at.min", .dtypes = all_dtypes, .variants = update_variants<&At::min, least>, .accuracy = 0});
  rows.push_back(
      {.name = "x.at.max", .dtypes = all_dtypes, .variants = update_variants<&At::max, greatest>, .accuracy = 0});
  rows.push_back({.name = "dynamic_slice", .dtypes = all_dtypes, .variants = dynamic_slice_variants, .accuracy = 0});
  rows.push_back(
      {.name = "dynamic_update_slice", .dtypes = all_dtypes, .variants = dynamic_update_slice_variants, .accuracy = 1});
  rows.push_back({.name = "one_hot", .dtypes = integer_dtypes, .variants = one_hot_variants, .accuracy = 0});
}

}  // namespace table
