// Rows of random numbers. The reference is an independent Threefry-2x32, written from Salmon et
// al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), section 5.3 and its reference code.
// random_test.cpp checks that the numbers equal those of jax.random.

#include <algorithm>
#include <cmath>
#include <numbers>

#include <stave/core/ops/create.h>
#include <stave/core/ops/network.h>
#include <stave/core/ops/random.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

using Words = std::array<std::uint32_t, 2>;

Words threefry(Words key, Words counter) {
  constexpr int rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const std::uint32_t schedule[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAu};
  Words x = {counter[0] + schedule[0], counter[1] + schedule[1]};
  for (unsigned round = 0; round < 20; ++round) {
    x[0] += x[1];
    const int r = rotations[round % 8];
    x[1] = (x[1] << r | x[1] >> (32 - r)) ^ x[0];
    if (round % 4 != 3) continue;
    const unsigned injection = round / 4 + 1;
    x[0] += schedule[injection % 3];
    x[1] += schedule[(injection + 1) % 3] + injection;
  }
  return x;
}

Words key_of(const Array& x) {
  return {static_cast<std::uint32_t>(x.values[0]), static_cast<std::uint32_t>(x.values[1])};
}

std::uint32_t bits(Words key, std::uint32_t counter) {
  const Words words = threefry(key, {0, counter});
  return words[0] ^ words[1];
}

/// A number in [0, 1) with as many random bits as the significand stores after its leading bit.
Real unit(Words key, std::uint32_t counter, Dtype dtype) {
  if (dtype == float32) return static_cast<Real>(bits(key, counter) >> 9) * 0x1p-23L;
  if (dtype == float16) return static_cast<Real>((bits(key, counter) & 0xffff) >> 6) * 0x1p-10L;
  if (dtype == bfloat16) return static_cast<Real>((bits(key, counter) & 0xff) >> 1) * 0x1p-7L;
  const Words words = threefry(key, {0, counter});
  return static_cast<Real>((std::uint64_t{words[0]} << 32 | words[1]) >> 12) * 0x1p-52L;
}

/// u (high - low) + low, rounded as in the dtype. In 16-bit floats the product is rounded
/// separately.
Real uniform_number(Words key, std::uint32_t counter, Real low, Real high, Dtype dtype) {
  low = rounded(low, dtype);
  const Real range = rounded(rounded(high, dtype) - low, dtype);
  const Real product = unit(key, counter, dtype) * range;
  return std::max(low, rounded((size_of(dtype) == 2 ? rounded(product, dtype) : product) + low, dtype));
}

/// The array with f(row-major number of the element) as elements.
template <class F>
Array counted(Dtype dtype, const Shape& shape, F f) {
  std::uint32_t counter = 0;
  return make(dtype, shape, [&](const Shape&) -> Real { return f(counter++); });
}

std::vector<Index> permutation_of(Words key, Index n) {
  std::vector<Index> order(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Index>(i);
  for (int round = 0; n > 1 && round < std::ceil(3 * std::log(static_cast<double>(n)) / std::log(4294967295.0));
       ++round) {
    const Words sorting = threefry(key, {0, 1});
    key = threefry(key, {0, 0});
    std::vector<std::pair<std::uint32_t, Index>> keyed;
    for (std::size_t i = 0; i < order.size(); ++i)
      keyed.emplace_back(bits(sorting, static_cast<std::uint32_t>(i)), order[i]);
    std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = keyed[i].second;
  }
  return order;
}

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
