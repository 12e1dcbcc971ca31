// Rows of random numbers. random_test.cpp checks that the numbers equal those of jax.random.

#include <algorithm>
#include <cmath>
#include <numbers>

#include <stave/core/ops/create.h>
#include <stave/core/ops/network.h>
#include <stave/core/ops/random.h>

#include "table/reference.h"
#include "table/row.h"
#include "table/threefry.h"

namespace table {

namespace {

// ---- variants ----------------------------------------------------------------------------------

const Input key_input{uint32, {2}, {0, 4294967295.0}};

Variant drawn(const std::string& name, std::function<Tensor(const Key&)> call, std::function<Array(Words)> reference) {
  return {.name = name,
          .inputs = {key_input},
          .call = [call](auto xs) { return call(Key(xs[0])); },
          .reference = [reference](auto xs) { return Arrays{reference(key_of(xs[0]))}; },
          .differentiable = false};
}

/// A variant that refuses a key whose shape is not [2].
Variant no_key(const Shape& shape, std::function<Tensor(const Key&)> call) {
  return {.name = "key of shape " + shape.str(),
          .inputs = {{uint32, shape}},
          .call = [call](auto xs) { return call(Key(xs[0])); },
          .refusal = "a key is a uint32 tensor of shape [2]"};
}

std::vector<Variant> split_variants(Dtype) {
  std::vector<Variant> variants = {no_key({}, [](const Key& key) { return split(key, 2); })};
  for (Index n : {5, 1, 0})
    variants.push_back(drawn(
        std::to_string(n), [n](const Key& key) { return split(key, n); },
        [n](Words key) {
          return make(uint32, {n, 2}, [&](const Shape& p) {
            return threefry(key, {0, static_cast<std::uint32_t>(p[0])})[static_cast<std::size_t>(p[1])];
          });
        }));
  variants.push_back(drawn(
      "two, as an array", [](const Key& key) { return split(key)[1].data(); },
      [](Words key) {
        return make(uint32, {2}, [&](const Shape& p) { return threefry(key, {0, 1})[static_cast<std::size_t>(p[0])]; });
      }));
  variants.push_back(no_key({0}, [](const Key& key) { return split(key, 2); }));
  return variants;
}

std::vector<Variant> fold_in_variants(Dtype dtype) {
  const auto words = [](const Words& x) {
    return make(uint32, {2}, [&](const Shape& p) { return x[static_cast<std::size_t>(p[0])]; });
  };
  const auto by_tensor = [](auto xs) { return fold_in(Key(xs[0]), xs[1]).data(); };
  std::vector<Variant> variants = {
      drawn(
          "7", [](const Key& key) { return fold_in(key, 7).data(); },
          [=](Words key) {
            return words(threefry(key, {0, 7}));
          }),
      {.name = "tensor",
       .inputs = {key_input, {dtype, {}, {0, 200}}},
       .call = by_tensor,
       .reference =
           [=](auto xs) {
             const auto number = static_cast<std::uint32_t>(static_cast<std::int64_t>(xs[1].values[0]));
             return Arrays{words(threefry(key_of(xs[0]), {0, number}))};
           }},
      {.name = "no numbers", .inputs = {key_input, {dtype, {0}}}, .call = by_tensor, .refusal = "vmap over it"},
      no_key({}, [](const Key& key) { return fold_in(key, 7).data(); })};
  return variants;
}

/// Variants for several shapes to draw, and for invalid keys.
std::vector<Variant> for_shapes(const std::function<Tensor(const Key&, const Shape&)>& call,
                                const std::function<Array(Words, const Shape&)>& reference) {
  std::vector<Variant> variants;
  for (const Shape& shape : {Shape(), Shape(0)})
    variants.push_back(no_key(shape, [call](const Key& key) { return call(key, {}); }));
  for (const Shape& shape : {Shape(2, 3), Shape(5), Shape(), Shape(0, 3)})
    variants.push_back(drawn(
        shape.str(), [=](const Key& key) { return call(key, shape); },
        [=](Words key) { return reference(key, shape); }));
  return variants;
}

std::vector<Variant> random_bits_variants(Dtype) {
  return for_shapes(
      [](const Key& key, const Shape& shape) { return random_bits(key, shape); },
      [](Words key, const Shape& shape) { return counted(uint32, shape, [&](auto i) { return bits(key, i); }); });
}

std::vector<Variant> uniform_between(double low, double high, Dtype dtype) {
  const bool defaults = low == 0 && high == 1 && dtype == float32;
  return for_shapes(
      [=](const Key& key, const Shape& shape) {
        return defaults ? uniform(key, shape) : uniform(key, shape, low, high, dtype);
      },
      [=](Words key, const Shape& shape) {
        return counted(dtype, shape, [&](auto i) { return uniform_number(key, i, low, high, dtype); });
      });
}

std::vector<Variant> uniform_variants(Dtype dtype) {
  std::vector<Variant> variants = uniform_between(0, 1, dtype);
  for (Variant& variant : uniform_between(-2, 0.7, dtype)) {
    variant.name += " in [-2, 0.7)";
    variants.push_back(std::move(variant));
  }
  return variants;
}

std::vector<Variant> normal_variants(Dtype dtype) {
  // The next number after -1.
  const Real low = std::ldexp(Real(1), -float_shape(dtype).digits) - 1;
  return for_shapes([=](const Key& key, const Shape& shape) { return normal(key, shape, dtype); },
                    [=](Words key, const Shape& shape) {
                      return counted(dtype, shape, [&](auto i) {
                        return std::numbers::sqrt2_v<Real> * erfinv_reference(uniform_number(key, i, low, 1, dtype));
                      });
                    });
}

/// -log(-log(u)) for a uniform number u in (0, 1).
Real gumbel_number(Words key, std::uint32_t counter, Dtype dtype) {
  return -std::log(-std::log(uniform_number(key, counter, std::ldexp(Real(1), float_shape(dtype).least), 1, dtype)));
}

std::vector<Variant> gumbel_variants(Dtype dtype) {
  return for_shapes([=](const Key& key, const Shape& shape) { return gumbel(key, shape, dtype); },
                    [=](Words key, const Shape& shape) {
                      Array x = counted(dtype, shape, [&](auto i) { return gumbel_number(key, i, dtype); });
                      for (Real value : x.values) x.magnitude.push_back(std::max<Real>(1, std::abs(value)));
                      return x;
                    });
}

/// The positions of the maximum of x + Gumbel noise along an axis.
Array drawn_positions(Words key, const Array& x, Index axis) {
  const Dtype dtype = x.dtype == float64 ? float64 : float32;
  const Array noise = counted(dtype, x.shape, [&](auto i) { return gumbel_number(key, i, dtype); });
  return make(int32, without_axis(x.shape, axis), [&](const Shape& p) -> Real {
    const auto score = [&](Index i) {
      const Shape at = concatenated(concatenated(part(p, 0, axis), Shape(i)), part(p, axis, p.rank()));
      return x(at) + noise(at);
    };
    Index best = 0;
    for (Index i = 1; i < x.shape[static_cast<std::size_t>(axis)]; ++i)
      if (score(i) > score(best)) best = i;
    return static_cast<Real>(best);
  });
}

std::vector<Variant> categorical_variants(Dtype dtype) {
  const auto of = [=](const Shape& shape, Index axis) {
    return Variant{.name = shape.str() + " axis " + std::to_string(axis),
                   .inputs = {key_input, {dtype, shape}},
                   .call = [=](auto xs) { return categorical(Key(xs[0]), xs[1], axis); },
                   .reference =
                       [=](auto xs) {
                         return Arrays{drawn_positions(key_of(xs[0]), xs[1], axis < 0 ? axis + shape.rank() : axis)};
                       },
                   .differentiable = false};
  };
  std::vector<Variant> variants = {of({5, 4}, -1), of({3, 5, 2}, 1), of({6}, 0), of({0, 3}, 1),
                                   no_key({}, [](const Key& key) {
                                     return categorical(key, tensor({1., 2.}));
                                   })};
  // No axis; no classes.
  for (const Shape& shape : {Shape(), Shape(2, 0)})
    variants.push_back({.name = shape.str(),
                        .inputs = {key_input, {dtype, shape}},
                        .call = [](auto xs) { return categorical(Key(xs[0]), xs[1]); },
                        .refusal = "categorical: "});
  return variants;
}

std::vector<Variant> bernoulli_variants(Dtype dtype) {
  std::vector<Variant> variants =
      for_shapes([](const Key& key, const Shape& shape) { return bernoulli(key, 0.3, shape); },
                 [](Words key, const Shape& shape) {
                   return counted(bool_, shape, [&](auto i) { return unit(key, i, float32) < rounded(0.3L, float32); });
                 });
  for (const Shape& shape : {Shape(2, 3), Shape(0, 2), Shape()})
    variants.push_back({.name = "p " + shape.str(),
                        .inputs = {key_input, {dtype, shape, {0.1, 0.9}}},
                        .call = [](auto xs) { return bernoulli(Key(xs[0]), xs[1]); },
                        .reference =
                            [=](auto xs) {
                              return Arrays{counted(bool_, shape, [&](auto i) {
                                return unit(key_of(xs[0]), i, dtype) < xs[1].values[i];
                              })};
                            },
                        .differentiable = false});
  return variants;
}

std::vector<Variant> dropout_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const Shape& shape : {Shape(3, 4), Shape(2, 3, 2), Shape(0, 2), Shape()})
    for (const double rate : {0.3, 0.0, 1.0})
      variants.push_back({.name = shape.str() + " at " + std::to_string(rate),
                          .inputs = {{dtype, shape}, key_input},
                          .call = [=](auto xs) { return dropout(Key(xs[1]), xs[0], rate); },
                          .reference =
                              [=](auto xs) {
                                const Words key = key_of(xs[1]);
                                std::uint32_t i = 0;
                                return Arrays{mapped(as_float(dtype), xs[0], [&](Real x) -> Real {
                                  const bool keep =
                                      unit(key, i++, float32) < rounded(1 - static_cast<Real>(rate), float32);
                                  return keep ? x / (1 - static_cast<Real>(rate)) : 0;
                                })};
                              }});
  return variants;
}

std::vector<Variant> permutation_variants(Dtype dtype) {
  std::vector<Variant> variants = {no_key({}, [](const Key& key) { return permutation(key, 3); })};
  for (Index n : {7, 1, 0})
    variants.push_back(drawn(
        std::to_string(n), [n](const Key& key) { return permutation(key, n); },
        [n](Words key) {
          const std::vector<Index> order = permutation_of(key, n);
          return make(int32, {n}, [&](const Shape& p) { return order[static_cast<std::size_t>(p[0])]; });
        }));
  for (const Shape& shape : {Shape(4, 2), Shape(5), Shape(0, 3), Shape(3, 0)})
    variants.push_back({.name = "of " + shape.str(),
                        .inputs = {key_input, {dtype, shape}},
                        .call = [](auto xs) { return permutation(Key(xs[0]), xs[1]); },
                        .reference =
                            [=](auto xs) {
                              const std::vector<Index> order = permutation_of(key_of(xs[0]), shape[0]);
                              return Arrays{make(dtype, shape, [&](Shape p) {
                                p[0] = order[static_cast<std::size_t>(p[0])];
                                return xs[1](p);
                              })};
                            }});
  return variants;
}

}  // namespace

void add_random_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "split", .dtypes = {uint32}, .variants = split_variants});
  rows.push_back({.name = "fold_in", .dtypes = integer_dtypes, .variants = fold_in_variants});
  rows.push_back({.name = "random_bits", .dtypes = {uint32}, .variants = random_bits_variants});
  rows.push_back({.name = "uniform", .dtypes = float_dtypes, .variants = uniform_variants, .accuracy = 0});
  rows.push_back({.name = "normal", .dtypes = float_dtypes, .variants = normal_variants, .accuracy = 8});
  rows.push_back({.name = "gumbel", .dtypes = float_dtypes, .variants = gumbel_variants});
  rows.push_back({.name = "categorical", .dtypes = all_dtypes, .variants = categorical_variants});
  rows.push_back({.name = "bernoulli", .dtypes = float_dtypes, .variants = bernoulli_variants});
  rows.push_back(
      {.name = "dropout", .dtypes = {float16, bfloat16, float32, float64, int32}, .variants = dropout_variants});
  rows.push_back({.name = "permutation", .dtypes = all_dtypes, .variants = permutation_variants, .accuracy = 0});
}

}  // namespace table
