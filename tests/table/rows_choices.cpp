// Rows of draws of counts, of integers and of elements.

#include <stave/core/ops/random_samplers.h>

#include <algorithm>
#include <cmath>

#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>

#include "table/draws.h"
#include "table/row.h"

namespace table {

namespace {

const Input a_key{uint32, {2}, {0, 4294967295.0}};

// ---- counts -------------------------------------------------------------------------------------

std::vector<Real> poisson_draws(Words key, const std::vector<Real>& rates) {
  std::vector<Real> counts(rates.size(), -1);
  const auto is_small = [&](std::size_t i) { return rates[i] < 10; };
  for (std::size_t i = 0; i < rates.size(); ++i) {
    Words rest = key;
    for (Real sum = 0; is_small(i) && sum > -rates[i]; ++counts[i]) {
      sum += std::log(unit(child(rest, 1), static_cast<std::uint32_t>(i), float32));
      rest = child(rest, 0);
    }
  }
  std::vector<bool> accepted(rates.size());
  for (Words rest = key; std::find(accepted.begin(), accepted.end(), false) != accepted.end(); rest = child(rest, 0))
    for (std::size_t i = 0; i < rates.size(); ++i) {
      const Real rate = is_small(i) ? 1e5L : rates[i], b = 0.931L + 2.53L * std::sqrt(rate), a = -0.059L + 0.02483L * b;
      const Real u = unit(child(rest, 1), static_cast<std::uint32_t>(i), float32) - 0.5L;
      const Real v = unit(child(rest, 2), static_cast<std::uint32_t>(i), float32), beside = 0.5L - std::abs(u);
      const Real k = std::floor((2 * a / beside + b) * u + rate + 0.43L);
      const Real s = std::log(v * (1.1239L + 1.1328L / (b - 3.4L)) / (a / (beside * beside) + b));
      const bool at_once = beside >= 0.07L && v <= 0.9277L - 3.6224L / (b - 2);
      const bool never = k < 0 || (beside < 0.013L && v > beside);
      if (!at_once && (never || s > k * std::log(rate) - rate - std::lgamma(k + 1))) continue;
      accepted[i] = true;
      if (!is_small(i)) counts[i] = k;
    }
  return counts;
}

/// log(k!) without Stirling's formula; for k > 9 that of 9, as in jax.random.
Real stirling_tail(Real k) {
  k = std::min<Real>(k, 9);
  return std::lgamma(k + 1) + (k + 1) - (k + 0.5L) * std::log(k + 1) - std::log(2 * std::numbers::pi_v<Real>) / 2;
}

std::vector<Real> binomial_draws(Words key, const std::vector<Real>& trials, const std::vector<Real>& p, Dtype dtype) {
  const std::size_t size = trials.size();
  std::vector<Real> counts(size, -1);
  const auto rarer = [&](std::size_t i) { return std::min(p[i], 1 - p[i]); };
  const auto is_small = [&](std::size_t i) { return trials[i] * rarer(i) <= 10; };
  for (std::size_t i = 0; i < size; ++i) {
    Words rest = key;
    for (Real sum = 0; is_small(i) && sum <= trials[i]; ++counts[i]) {
      const Real u = unit(child(rest, 0), static_cast<std::uint32_t>(i), dtype);
      sum += rarer(i) == 0 ? trials[i] + 1 : std::ceil(std::log(u) / std::log1p(-rarer(i)));
      rest = child(rest, 1);
    }
  }
  std::vector<bool> accepted(size);
  for (Words rest = key; std::find(accepted.begin(), accepted.end(), false) != accepted.end(); rest = child(rest, 0))
    for (std::size_t i = 0; i < size; ++i) {
      const Real n = is_small(i) ? 1e4L : trials[i], q = is_small(i) ? 0.5L : rarer(i);
      const Real deviation = std::sqrt(n * q * (1 - q)), b = 1.15L + 2.53L * deviation;
      const Real a = -0.0873L + 0.0248L * b + 0.01L * q, r = q / (1 - q), m = std::floor((n + 1) * q);
      const Real u = unit(child(rest, 1), static_cast<std::uint32_t>(i), dtype) - 0.5L;
      const Real v = unit(child(rest, 2), static_cast<std::uint32_t>(i), dtype), beside = 0.5L - std::abs(u);
      const Real k = std::floor((2 * a / beside + b) * u + n * q + 0.5L);
      const bool at_once = beside >= 0.07L && v <= 0.92L - 4.2L / b;
      if (!at_once && (k < 0 || k > n)) continue;
      const Real s = std::log(v * (2.83L + 5.1L / b) * deviation / (a / (beside * beside) + b));
      const Real bound = (m + 0.5L) * std::log((m + 1) / (r * (n - m + 1))) +
                         (n + 1) * std::log((n - m + 1) / (n - k + 1)) +
                         (k + 0.5L) * std::log(r * (n - k + 1) / (k + 1)) + stirling_tail(m) + stirling_tail(n - m) -
                         stirling_tail(k) - stirling_tail(n - k);
      if (!at_once && s > bound) continue;
      accepted[i] = true;
      if (!is_small(i)) counts[i] = k;
    }
  for (std::size_t i = 0; i < size; ++i)
    if (p[i] >= 0.5L) counts[i] = trials[i] - counts[i];
  return counts;
}

/// Draws without replacement one by one, of the smaller of the sample and the rest.
Real few_good_ones(Words key, Real good, Real bad, Real drawn) {
  Stream stream{key};
  const Real all = good + bad, sample = std::min(drawn, all - drawn);
  Real g = good, b = bad;
  for (Real left = sample; left > 0; --left) (stream.next() * (g + b) < g ? g : b) -= 1;
  return sample < drawn ? g : good - g;
}

/// A row for counts with parameters: draws(key, parameters of all elements, dtype).
using CountsOf = std::function<std::vector<Real>(Words, const std::vector<std::vector<Real>>&, Dtype)>;
struct Counts {
  std::string name;
  std::vector<Domain> domains;
  std::function<Tensor(const Key&, std::span<const Tensor>, const Shape&)> call;
  CountsOf draws;
};

std::vector<Variant> variants_of(const Counts& counts, Dtype dtype) {
  const auto of = [&](const Shape& parameters, const Shape& shape, const Shape& result) {
    Variant variant{.name = parameters.str() + " to " + result.str(), .inputs = {a_key}, .differentiable = false};
    for (const Domain& domain : counts.domains) variant.inputs.push_back({dtype, parameters, domain});
    variant.call = [=, call = counts.call](auto xs) { return Outputs(call(Key(xs[0]), xs.subspan(1), shape)); };
    variant.reference = [=, draws = counts.draws](auto xs) {
      std::vector<std::vector<Real>> all;
      for (std::size_t k = 1; k < xs.size(); ++k)
        all.push_back(
            make(float64, result, [&](const Shape& p) { return xs[k](broadcast_position(parameters, p)); }).values);
      std::size_t i = 0;
      const std::vector<Real> drawn = draws(key_of(xs[0]), all, drawn_in(dtype));
      return Arrays{make(int32, result, [&](const Shape&) { return drawn[i++]; })};
    };
    return variant;
  };
  std::vector<Variant> variants = {of({2, 3}, {}, {2, 3}), of({3}, {4, 3}, {4, 3}), of({0, 2}, {}, {0, 2}),
                                   of({}, {}, {})};
  Variant arrays = of({3}, {2}, {2});
  arrays.refusal = "which does not broadcast to [2]";
  variants.push_back(arrays);
  return with_bad_keys(std::move(variants));
}

/// draws(...) of counts whose elements are drawn one by one by number(key, i, parameters, dtype).
CountsOf one_by_one(const std::function<Real(Words, std::uint32_t, const std::vector<Real>&, Dtype)>& number) {
  return [=](Words key, const std::vector<std::vector<Real>>& parameters, Dtype dtype) {
    std::vector<Real> counts;
    for (std::size_t i = 0; i < parameters[0].size(); ++i) {
      std::vector<Real> own;
      for (const auto& all : parameters) own.push_back(all[i]);
      counts.push_back(number(key, static_cast<std::uint32_t>(i), own, dtype));
    }
    return counts;
  };
}

const std::vector<Counts>& counts() {
  static const std::vector<Counts> all = {
      {"poisson",
       {{.choices = {0.5, 3, 8, 12, 40}}},
       [](const Key& key, auto x, const Shape& shape) { return poisson(key, x[0], shape); },
       [](Words key, const auto& x, Dtype) { return poisson_draws(key, x[0]); }},
      {"binomial",
       {{.choices = {3, 8, 40, 100}}, {.choices = {0.125, 0.25, 0.5, 0.75}}},
       [](const Key& key, auto x, const Shape& shape) { return binomial(key, x[0], x[1], shape); },
       [](Words key, const auto& x, Dtype dtype) { return binomial_draws(key, x[0], x[1], dtype); }},
      {"geometric",
       {{0.1, 0.9}},
       [](const Key& key, auto x, const Shape& shape) { return geometric(key, x[0], shape); },
       one_by_one([](Words key, std::uint32_t i, const auto& x, Dtype dtype) {
         return std::floor(std::log(unit(key, i, dtype)) / std::log1p(-x[0])) + 1;
       })},
      {"hypergeometric",
       {{.choices = {2, 7, 20}}, {.choices = {3, 6, 30}}, {.choices = {0, 1, 3, 5}}},
       [](const Key& key, auto x, const Shape& shape) { return hypergeometric(key, x[0], x[1], x[2], shape); },
       one_by_one([](Words key, std::uint32_t i, const auto& x, Dtype) {
         return few_good_ones(child(key, i), x[0], x[1], x[2]);
       })},
  };
  return all;
}

std::vector<Variant> multinomial_variants(Dtype dtype) {
  const auto of = [=](const Shape& trials, const Shape& chances, const Shape& result) {
    return Variant{
        .name = trials.str() + " of " + chances.str(),
        .inputs = {a_key, {dtype, trials, {.choices = {5, 30, 100}}}, {dtype, chances, {.choices = {0.125, 0.25}}}},
        .call =
            [=](auto xs) {
              const Tensor p = concat({xs[2], 1 - sum(xs[2], -1, keepdims)}, -1);
              return Outputs(multinomial(Key(xs[0]), xs[1], p));
            },
        .reference =
            [=](auto xs) {
              const Index outcomes = result.back();
              const Shape lines = part(result, 0, result.rank() - 1);
              std::vector<Real> rest =
                  make(float64, lines, [&](const Shape& p) { return xs[1](broadcast_position(trials, p)); }).values;
              Array y = make(int32, result, [](const Shape&) { return 0; });
              for (Index k = 0; k < outcomes; ++k) {
                const std::vector<Real> ratios =
                    make(float64, lines, [&](Shape p) -> Real {
                      p.push_back(0);
                      Real left = 1;
                      for (Index j = 0; j < k; ++j) p.back() = j, left -= xs[2](broadcast_position(chances, p));
                      p.back() = k;
                      return k + 1 == outcomes ? 1 : xs[2](broadcast_position(chances, p)) / left;
                    }).values;
                const std::vector<Real> drawn =
                    binomial_draws(child(key_of(xs[0]), static_cast<std::uint32_t>(k)), rest, ratios, drawn_in(dtype));
                for (std::size_t i = 0; i < rest.size(); ++i) {
                  y.values[i * static_cast<std::size_t>(outcomes) + static_cast<std::size_t>(k)] = drawn[i];
                  rest[i] -= drawn[i];
                }
              }
              return Arrays{y};
            },
        .differentiable = false};
  };
  return with_bad_keys({of({2}, {2, 3}, {2, 4}),
                        of({}, {3}, {4}),
                        of({0}, {0, 2}, {0, 3}),
                        {.name = "rank 0",
                         .inputs = {a_key, {dtype, {}}, {dtype, {}}},
                         .call = [](auto xs) { return Outputs(multinomial(Key(xs[0]), xs[1], xs[2])); },
                         .refusal = "probabilities of rank 0"}});
}

// ---- integers, elements and orders --------------------------------------------------------------

/// The remainder of random bits of twice as many bits as a word, of 32 or 64 bits, for a span below
/// 2^31.
Real integer_number(Words key, std::uint32_t i, Real low, Real high, bool is_wide) {
  if (high <= low) return low;
  const auto span = static_cast<std::uint64_t>(high - low);
  const auto remainder = [&](Words k) {
    const Words w = threefry(k, {0, i});
    return (is_wide ? std::uint64_t{w[0]} << 32 | w[1] : w[0] ^ w[1]) % span;
  };
  const std::uint64_t half = (std::uint64_t{1} << 32) % span, size = is_wide ? half * half % span : half;
  return low + static_cast<Real>((remainder(child(key, 0)) * size + remainder(child(key, 1))) % span);
}

std::vector<Variant> randint_variants(Dtype dtype) {
  const bool is_wide = size_of(dtype) == 8;
  const auto of = [=](const Shape& bounds, const Shape& shape, Domain low, Domain high) {
    return Variant{.name = bounds.str() + " to " + shape.str() + " below " + std::to_string(high.high),
                   .inputs = {a_key, {dtype, bounds, low}, {dtype, bounds, high}},
                   .call = [=](auto xs) { return Outputs(randint(Key(xs[0]), shape, xs[1], xs[2], dtype)); },
                   .reference =
                       [=](auto xs) {
                         std::uint32_t i = 0;
                         return Arrays{make(dtype, shape, [&](const Shape& p) {
                           const Shape q = broadcast_position(bounds, p);
                           return integer_number(key_of(xs[0]), i++, xs[1](q), xs[2](q), is_wide);
                         })};
                       },
                   .differentiable = false};
  };
  return with_bad_keys({of({2, 3}, {2, 3}, {-100, 0}, {5, 100}),
                        of({3}, {2, 3}, {0, 5}, {0, 9}),
                        of({}, {}, {0, 5}, {6, 9}),
                        of({}, {0, 3}, {0, 5}, {6, 9}),
                        {.name = "bounds of floats",
                         .inputs = {a_key, {float32, {}}},
                         .call = [=](auto xs) { return Outputs(randint(Key(xs[0]), {2}, 0, xs[1], dtype)); },
                         .refusal = "a bound is float32, not an integer"}});
}

std::vector<Variant> choice_variants(Dtype dtype) {
  const auto of = [=](const Shape& x, const Shape& shape, Index axis, bool replace) {
    return Variant{
        .name = x.str() + " axis " + std::to_string(axis) + (replace ? "" : " once"),
        .inputs = {a_key, {dtype, x}},
        .call = [=](auto xs) { return Outputs(choice(Key(xs[0]), xs[1], shape, {.replace = replace, .axis = axis})); },
        .reference =
            [=](auto xs) {
              const Index n = x[static_cast<std::size_t>(axis)];
              const std::vector<Index> order = permutation_of(key_of(xs[0]), n);
              const Shape before = part(x, 0, axis), after = part(x, axis + 1, x.rank());
              return Arrays{make(dtype, concatenated(concatenated(before, shape), after), [&](const Shape& p) {
                Index i = 0;
                for (int k = 0; k < shape.rank(); ++k)
                  i = i * shape[static_cast<std::size_t>(k)] + p[static_cast<std::size_t>(axis + k)];
                const Index from = replace
                                       ? static_cast<Index>(integer_number(key_of(xs[0]), static_cast<std::uint32_t>(i),
                                                                           0, static_cast<Real>(n), false))
                                       : order[static_cast<std::size_t>(i)];
                const Shape left = part(p, 0, axis), right = part(p, axis + shape.rank(), p.rank());
                return xs[1](concatenated(concatenated(left, Shape(from)), right));
              })};
            }};
  };
  std::vector<Variant> variants = {of({5, 2}, {3}, 0, true), of({2, 5}, {2, 2}, 1, false), of({3, 0}, {2}, 0, true)};
  variants.push_back({.name = "numbers",
                      .inputs = {a_key},
                      .call = [](auto xs) { return Outputs(choice(Key(xs[0]), 7, {4})); },
                      .reference =
                          [](auto xs) {
                            return Arrays{counted(int32, {4}, [&](std::uint32_t i) {
                              return integer_number(key_of(xs[0]), i, 0, 7, false);
                            })};
                          },
                      .differentiable = false});
  variants.push_back({.name = "rank 0",
                      .inputs = {a_key, {dtype, {}}},
                      .call = [](auto xs) { return Outputs(choice(Key(xs[0]), xs[1], {2})); },
                      .refusal = "choice"});
  return with_bad_keys(std::move(variants));
}

/// One round: a stable sort of each line by random bits. More elements than here take more rounds.
std::vector<Variant> shuffle_variants(Dtype dtype) {
  const auto of = [=](const Shape& x, Index axis) {
    return Variant{.name = x.str() + " axis " + std::to_string(axis),
                   .inputs = {a_key, {dtype, x}},
                   .call = [=](auto xs) { return Outputs(shuffle(Key(xs[0]), xs[1], axis)); },
                   .reference =
                       [=](auto xs) {
                         const Words sorting = child(key_of(xs[0]), 1);
                         const Array words = counted(uint32, x, [&](std::uint32_t i) { return bits(sorting, i); });
                         const auto along = static_cast<std::size_t>(axis);
                         return Arrays{make(dtype, x, [&](Shape p) {
                           const Index n = x[along], wanted = p[along];
                           std::vector<std::pair<Real, Index>> line;
                           for (Index i = 0; i < n; ++i) p[along] = i, line.emplace_back(words(p), i);
                           std::stable_sort(line.begin(), line.end());
                           p[along] =
                               n > 1 || x.elements() > 1 ? line[static_cast<std::size_t>(wanted)].second : wanted;
                           return xs[1](p);
                         })};
                       }};
  };
  return with_bad_keys({of({5, 2}, 0),
                        of({2, 5}, 1),
                        of({4}, 0),
                        of({0, 3}, 0),
                        {.name = "rank 0",
                         .inputs = {a_key, {dtype, {}}},
                         .call = [](auto xs) { return Outputs(shuffle(Key(xs[0]), xs[1])); },
                         .refusal = "shuffle"}});
}

std::vector<Variant> categorical_variants(Dtype dtype) {
  const auto of = [=](const Shape& x, Index k) {
    return Variant{.name = x.str() + " " + std::to_string(k),
                   .inputs = {a_key, {dtype, x}},
                   .call = [=](auto xs) { return Outputs(categorical_without_replacement(Key(xs[0]), xs[1], k)); },
                   .reference =
                       [=](auto xs) {
                         const Dtype wide = xs[1].dtype == float64 ? float64 : float32;
                         const Real least = std::ldexp(Real(1), float_shape(wide).least);
                         const Array noise = counted(wide, x, [&](std::uint32_t i) {
                           return -std::log(-std::log(uniform_number(key_of(xs[0]), i, least, 1, wide)));
                         });
                         const Shape lines = part(x, 0, x.rank() - 1);
                         return Arrays{make(int32, concatenated({k}, lines), [&](const Shape& p) {
                           std::vector<std::pair<Real, Index>> scores;
                           for (Index i = 0; i < x.back(); ++i) {
                             const Shape at = concatenated(part(p, 1, p.rank()), Shape(i));
                             scores.emplace_back(-(xs[1](at) + noise(at)), i);
                           }
                           std::sort(scores.begin(), scores.end());
                           return static_cast<Real>(scores[static_cast<std::size_t>(p[0])].second);
                         })};
                       },
                   .differentiable = false};
  };
  return with_bad_keys({of({2, 5}, 3),
                        of({4}, 4),
                        of({0, 3}, 2),
                        {.name = "rank 0",
                         .inputs = {a_key, {dtype, {}}},
                         .call = [](auto xs) { return Outputs(categorical_without_replacement(Key(xs[0]), xs[1], 1)); },
                         .refusal = "categorical_without_replacement"}});
}

}  // namespace

void add_choice_rows(std::vector<Row>& rows) {
  for (const Counts& count : counts())
    rows.push_back({.name = count.name, .dtypes = float_dtypes, .variants = [&count](Dtype dtype) {
                      return variants_of(count, dtype);
                    }});
  rows.push_back({.name = "multinomial", .dtypes = float_dtypes, .variants = multinomial_variants});
  rows.push_back({.name = "randint", .dtypes = integer_dtypes, .variants = randint_variants});
  rows.push_back({.name = "choice", .dtypes = all_dtypes, .variants = choice_variants, .accuracy = 0});
  rows.push_back({.name = "shuffle", .dtypes = all_dtypes, .variants = shuffle_variants, .accuracy = 0});
  rows.push_back(
      {.name = "categorical_without_replacement", .dtypes = number_dtypes, .variants = categorical_variants});
}

}  // namespace table
