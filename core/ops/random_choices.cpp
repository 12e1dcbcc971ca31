// Draws of integers, counts, elements and orders, made of other functions.

#include <stave/core/ops/random_samplers.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/random_frontend.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/scan.h>
#include <stave/core/ops/search.h>
#include <stave/core/ops/sort.h>

namespace stave {

using namespace stave_detail;

namespace {

// ---- integers -----------------------------------------------------------------------------------

// Random bits as uint32, or as uint64 with the first word of a block as the upper half.
Tensor bits_as(const Key& key, const Shape& shape, Dtype dtype) {
  if (dtype == uint32) return random_bits(key, shape);
  const Tensor blocks = astype(split(key, shape.elements()), uint64);
  const Tensor words = bitwise_or(bitwise_left_shift(blocks(ellipsis, 0), 32), blocks(ellipsis, 1));
  return reshape(words, shape);
}

// The least and the greatest number of an integer dtype.
struct IntegerRange {
  std::int64_t least;
  std::uint64_t greatest;

  explicit IntegerRange(Dtype dtype) {
    const int bits = 8 * static_cast<int>(size_of(dtype)) - (is_unsigned(dtype) ? 0 : 1);
    greatest = ~std::uint64_t{0} >> (64 - bits);
    least = is_unsigned(dtype) ? 0 : -static_cast<std::int64_t>(greatest) - 1;
  }
};

// A bound, clamped to the range of the dtype in which integers are drawn, and whether the bound is
// too large for that dtype.
struct Bound {
  Tensor value, is_beyond;
};

Bound bound_of(Operand bound, Dtype dtype, const Shape& shape, Device device) {
  const Dtype own = bound.is_scalar() ? bound.scalar().alone() : bound.tensor().dtype();
  if (!is_integer(own)) fail<DtypeError>("randint: a bound is {}, not an integer", own);
  const IntegerRange range(dtype), of_bound(own);
  Tensor x = as_tensor(std::move(bound), own, &shape, device), is_beyond = zeros(shape, bool_, device);
  if (of_bound.greatest > range.greatest) {
    const Tensor most = full({}, Scalar(range.greatest), own, device);
    is_beyond = x > most;
    x = minimum(x, most);
  }
  if (of_bound.least < range.least) x = maximum(x, full({}, Scalar(range.least), own, device));
  return {astype(x, dtype), is_beyond};
}

// Returns 2^bits mod span: the square of 2^(bits / 2) mod span.
Tensor power_modulo(int bits, const Tensor& span) {
  const Tensor half = remainder(full({}, Scalar(std::uint64_t{1} << (bits / 2)), span.dtype(), span.device()), span);
  return remainder(half * half, span);
}

// Returns `low` plus the remainder modulo high - low of a number of twice as many bits, whose upper
// and lower halves are random. A span of 0 stands for all numbers of the dtype: then the lower half
// is the result.
Tensor draw_integers(const Key& key, const Shape& shape, const Bound& low, const Bound& high) {
  const Dtype dtype = low.value.dtype(), word = size_of(dtype) == 8 ? uint64 : uint32;
  const auto [first, second] = split(key);
  const Tensor upper = bits_as(first, shape, word), lower = bits_as(second, shape, word);
  const Tensor is_empty = high.value <= low.value;
  const Tensor width = astype(high.value, word) - astype(low.value, word) + astype(high.is_beyond, word);
  const Tensor is_all = logical_and(width == 0, logical_not(is_empty));
  const Tensor span = where(logical_or(is_empty, is_all), full({}, 1, word, width.device()), width);
  const Tensor offset = remainder(
      remainder(upper, span) * power_modulo(8 * static_cast<int>(size_of(word)), span) + remainder(lower, span), span);
  return astype(astype(low.value, word) + where(is_all, lower, offset), dtype);
}

}  // namespace

Tensor randint(const Key& key, const Shape& shape, Operand low, Operand high, Dtype dtype) {
  return named("randint", [&] {
    require_one_key(key, "randint");
    if (!is_integer(dtype)) fail<DtypeError>("randint: {} is not an integer dtype", dtype);
    Operand bounds[] = {std::move(low), std::move(high)};
    for (std::size_t i = 0; i < 2; ++i)
      if (!bounds[i].is_scalar()) require_defined(bounds[i].tensor(), "randint", i + 1);
    const Shape all = drawn_shape(together(bounds, "randint"), shape, "randint");
    if (all != shape) fail<ShapeError>("randint: the parameters have shape {}, which does not broadcast to []", all);
    const Device device = key.data().device();
    // Small dtypes are drawn as int32.
    const Dtype sampled = size_of(dtype) < 4 ? int32 : dtype;
    const Bound least = bound_of(std::move(bounds[0]), sampled, shape, device);
    const Bound end = bound_of(std::move(bounds[1]), sampled, shape, device);
    if (sampled == dtype) return draw_integers(key, shape, least, end);
    const IntegerRange range(dtype);
    const auto held = [&](const Bound& x, std::uint64_t most) {
      return Bound{clip(x.value, range.least, most), x.is_beyond};
    };
    return astype(draw_integers(key, shape, held(least, range.greatest), held(end, range.greatest + 1)), dtype);
  });
}

// ---- counts -------------------------------------------------------------------------------------

// floor(log(u) / log(1 - p)) + 1, where u = 1 stands for u = 0.
Tensor geometric(const Key& key, Operand p, const Shape& shape) {
  return named("geometric", [&] {
    Operand parameters[] = {std::move(p)};
    const Drawing d = drawing_of("geometric", key, shape, parameters);
    const Tensor chance = stop_gradient(as_tensor(std::move(parameters[0]), d.computed, &d.shape, d.device));
    const Tensor u = uniform(key, d.shape, d.computed), log_u = log(where(u == 0, 1, u));
    const Tensor count = floor(log_u / log1p(-chance)) + 1;
    const Tensor is_count = logical_and(chance > 0, chance <= 1);
    constexpr double most = 2147483520;  // the greatest int32 that is a float32
    return astype(where(is_count, minimum(count, most), -1), int32);
  });
}

// Draws the count of one outcome after the other: a binomial number of the trials that are left.
Tensor multinomial(const Key& key, Operand n, const Tensor& p, const Shape& shape) {
  if (require_defined(p, "multinomial", 2).rank() == 0)
    fail<ShapeError>("multinomial: probabilities of rank 0: they are vectors [..., k]");
  return named("multinomial", [&] {
    require_one_key(key, "multinomial");
    const Operand all[] = {n, Operand(p)};
    const Dtype dtype = computed_in(drawn_dtype(all));
    const Tensor chances = astype(stop_gradient(p), dtype), left = cumulative_sum(chances, -1, {.reverse = true});
    const Tensor ratios = clip(chances / where(left == 0, 1, left), 0, 1);
    const Index outcomes = p.shape(-1);
    const Shape lines = broadcast_shapes(together({all, 1}, "multinomial"), without_last(p.shape(), 1), "multinomial");
    const Shape rows_shape = drawn_shape(lines, shape, "multinomial");
    Tensor rest = as_tensor(std::move(n), int32, &rows_shape, key.data().device());
    const Tensor keys = split(key, outcomes);
    std::vector<Tensor> counts;
    for (Index k = 0; k < outcomes; ++k) {
      counts.push_back(binomial(Key(keys[k]), rest, ratios(ellipsis, k), rows_shape));
      rest = rest - counts.back();
    }
    return outcomes == 0 ? zeros(joined({rows_shape, Shape(0)}), int32, key.data().device()) : stack(counts, -1);
  });
}

// ---- elements and orders ------------------------------------------------------------------------

namespace {

// Returns positions among n entries, drawn with these probabilities; all are different unless
// `replace` is true.
Tensor positions_by_probability(const Key& key, const Tensor& p, const Shape& shape, bool replace) {
  const Tensor chances = floating(p);
  if (!replace) return reshape(categorical_without_replacement(key, log(chances), shape.elements(), 0), shape);
  const Tensor sums = cumulative_sum(astype(chances, computed_in(chances.dtype())), 0);
  const Tensor drawn = sums[-1] * (1 - uniform(key, shape, sums.dtype()));
  return searchsorted(sums, drawn);
}

Tensor chosen_positions(const Key& key, Index n, const Shape& shape, const ChoiceOptions& options) {
  require_one_key(key, "choice");
  const Index drawn = shape.elements();
  if (drawn > 0 && n <= 0) fail<ShapeError>("choice: there are {} entries to choose from", n);
  if (!options.replace && drawn > n)
    fail<ShapeError>("choice: {} of {} entries cannot be drawn without replacement", drawn, n);
  if (options.p.defined() && options.p.shape() != Shape(n))
    fail<ShapeError>("choice: p has shape {}, but there are {} entries", options.p.shape(), n);
  if (drawn == 0) return zeros(shape, int32, key.data().device());
  if (options.p.defined()) return positions_by_probability(key, options.p, shape, options.replace);
  if (options.replace) return randint(key, shape, 0, n);
  return reshape(permutation(key, n)(slice(none, drawn)), shape);
}

}  // namespace

Tensor choice(const Key& key, Index n, const Shape& shape, ChoiceOptions options) {
  return named("choice", [&] { return chosen_positions(key, n, shape, options); });
}

Tensor choice(const Key& key, const Tensor& x, const Shape& shape, ChoiceOptions options) {
  const int axis = normalize_axis(options.axis, require_defined(x, "choice", 1).rank(), "choice");
  return named("choice", [&] { return take(x, chosen_positions(key, x.shape(axis), shape, options), axis); });
}

// Sorts by random bits as often as `permutation` does for as many elements.
Tensor shuffle(const Key& key, const Tensor& x, Index axis) {
  const int along = normalize_axis(axis, require_defined(x, "shuffle", 1).rank(), "shuffle");
  return named("shuffle", [&] {
    require_one_key(key, "shuffle");
    Tensor shuffled = x;
    Key next = key;
    for (int round = permutation_rounds(x.shape().elements()); round > 0; --round) {
      const auto [rest, bits] = split(next);
      next = rest;
      shuffled = take_along_axis(shuffled, argsort(random_bits(bits, x.shape()), along), along);
    }
    return shuffled;
  });
}

// The positions of the k largest of logits + gumbel.
Tensor categorical_without_replacement(const Key& key, const Tensor& logits, Index k, Index axis) {
  const int along = normalize_axis(axis, require_defined(logits, "categorical_without_replacement", 1).rank(),
                                   "categorical_without_replacement");
  if (k < 0 || k > logits.shape(along))
    fail<ShapeError>("categorical_without_replacement: {} of {} positions are requested", k, logits.shape(along));
  return named("categorical_without_replacement", [&] {
    require_one_key(key, "categorical_without_replacement");
    const Tensor x = floating(logits), wide = stop_gradient(astype(x, computed_in(x.dtype())));
    return moveaxis(topk(wide + gumbel(key, wide.shape(), wide.dtype()), k, along).second, along, 0);
  });
}

}  // namespace stave
