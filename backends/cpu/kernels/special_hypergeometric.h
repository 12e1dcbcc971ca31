// The hypergeometric functions of vectors. Terms of sums may cancel, so they have twice the
// precision, until they are so small that the errors of plain numbers do not matter. This is the
// case for most terms. The scalar functions compute sums that would need many terms.
#pragma once

#include <stave/backends/cpu/kernels/special_lanes.h>

namespace STAVE_KERNELS::special {

STAVE_INLINE Lanes64 is_whole_at_most_zero(F64 a) { return (a <= F64(0)) & (a == rint(a)); }

/// A sum of Pairs. `low` has the rounding errors of `high`, and the lower halves.
struct Total {
  F64 high, low{0};

  STAVE_INLINE explicit Total(F64 start) : high(start) {}
  STAVE_INLINE explicit Total(DoubleDouble start) : high(start.high), low(start.low) {}
  STAVE_INLINE void add(Lanes64 active, DoubleDouble x) {
    const DoubleDouble sum = exact_sum(high, x.high);
    high = select(active, sum.high, high);
    low = select(active, low + (sum.low + x.low), low);
  }
  STAVE_INLINE DoubleDouble value() const { return exact_sum(high, low); }
};

/// Terms below this size, relative to the sum, are computed in double instead of DoubleDouble.
/// `continued` needs more digits.
constexpr double small_term = 0x1p-12, small_continued_term = 0x1p-18;
/// The largest size, relative to the sum, to which plain terms may grow again.
constexpr double most_small_term = 0x1p-9;

/// The lanes of a sum of terms, each of which is the previous one times a factor. A lane ends where
/// its terms fall and are small. From there SmallSum goes on with `term` and `k` of the lane.
struct Sum {
  DoubleDouble term{F64(1), F64(0)};
  Total total{F64(1)};
  F64 k{0};  // the number of the last term
  Lanes64 active;

  STAVE_INLINE explicit Sum(Lanes64 wanted) : active(wanted) {}
  /// Adds a term. A lane ends when its term is smaller than `small` times the sum, and terms fall.
  STAVE_INLINE void add(DoubleDouble factor, F64 small) {
    term = select(active, term * factor, term);
    k = select(active, k + F64(1), k);
    total.add(active, term);
    active = active & ~((abs(factor.high) < F64(0.96)) & (abs(term.high) < small * abs(total.high)));
  }
};

/// The rest of the sum of such lanes, in plain numbers instead of pairs (DoubleDouble).
struct SmallSum {
  F64 term, k, total{0}, largest{0}, size;
  Lanes64 wanted, active;

  STAVE_INLINE SmallSum(const Sum& sum, Lanes64 wanted_)
      : term(sum.term.high), k(sum.k), size(abs(sum.total.high)), wanted(wanted_ & ~sum.active), active(wanted) {}
  /// Adds a term. `least` is its smallest size, relative to the sum.
  STAVE_INLINE void add(F64 factor, F64 least) {
    term = term * factor;
    const F64 added = select(active, term, F64(0));
    k = k + F64(1);
    total = total + added;
    largest = select(abs(added) > largest, abs(added), largest);
    active = active & ~((abs(factor) < F64(0.96)) & (abs(term) < least * size));
  }
  /// The lanes that have converged.
  STAVE_INLINE Lanes64 settled() const { return wanted & ~active & (largest <= F64(most_small_term) * size); }
};

/// The products (a + k) (b + k) z for k = 0, 1, ...
struct Products {
  DoubleDouble value, change, twice;

  STAVE_INLINE Products(DoubleDouble a, DoubleDouble b, DoubleDouble z)
      : value(a * b * z), change((a + b + F64(1)) * z), twice(z + z) {}
  STAVE_INLINE void advance() {
    value = value + change;
    change = change + twice;
  }
};

/// The sum of (a)_k (b)_k / ((c)_k k!) x^k. Sets `settled` for the lanes that have converged.
STAVE_INLINE F64 gauss_sum(DoubleDouble a, DoubleDouble b, F64 c, DoubleDouble x, Lanes64 wanted, Lanes64& settled) {
  constexpr int most = 1200;
  Sum sum(wanted);
  Products numerator(a, b, x);
  F64 k(0);
  for (int i = 0; i < most && any(sum.active); ++i) {
    const F64 next = k + F64(1);
    sum.add(numerator.value / (exact_sum(c, k) * next), F64(small_term));
    numerator.advance();
    k = next;
  }
  SmallSum rest(sum, wanted);
  const F64 least = F64(0x1p-58) * (F64(1) - x.high);
  for (int i = 0; i < most && any(rest.active); ++i)
    rest.add((a.high + rest.k) * (b.high + rest.k) * x.high / ((c + rest.k) * (rest.k + F64(1))), least);
  sum.total.low = sum.total.low + rest.total;
  settled = rest.settled() & isfinite(sum.total.high);
  return sum.total.value().high;
}

/// 2F1 for 1/2 < x < 1, from its value and slope at 1/2 along the axis by Taylor series of the
/// solution of
///   x (1 - x) w'' + (c - (a + b + 1) x) w' - a b w = 0 (DLMF 15.10.1).
/// Each step halves the distance to the singularity at 1.
STAVE_INLINE F64 continued(DoubleDouble a, DoubleDouble b, F64 c, F64 x, Lanes64 wanted, Lanes64& settled) {
  constexpr int most = 300;
  const F64 zero(0), one(1), half(0.5), small(small_continued_term), least(0x1p-68);
  Sum start(wanted);
  Total start_slope(zero);
  Products numerator(a, b, DoubleDouble{half, zero});
  F64 k(0);
  for (int i = 0; i < most && any(start.active); ++i) {
    const F64 next = k + one;
    const Lanes64 active = start.active;
    start.add(numerator.value / (exact_sum(c, k) * next), small);
    start_slope.add(active, start.term * (next + next));
    numerator.advance();
    k = next;
  }
  SmallSum start_rest(start, wanted);
  F64 slope_rest(0);
  for (int i = 0; i < most && any(start_rest.active); ++i) {
    const Lanes64 active = start_rest.active;
    const F64 at_k = start_rest.k;
    start_rest.add(half * (a.high + at_k) * (b.high + at_k) / ((c + at_k) * (at_k + one)), least);
    slope_rest = slope_rest + select(active, start_rest.term * (start_rest.k + start_rest.k), zero);
  }
  start.total.low = start.total.low + start_rest.total;
  start_slope.low = start_slope.low + slope_rest;
  settled = start_rest.settled();
  DoubleDouble value = start.total.value(), slope = start_slope.value();
  F64 at = half;
  for (Lanes64 before = wanted & (at < x); any(before); before = wanted & (at < x)) {
    const F64 rest = (one - at) * half, step = select(rest < x - at, rest, x - at), odd = one - (at + at);
    const DoubleDouble scaled = DoubleDouble{step, zero} / exact_product(at, one - at);
    Products second(a, b, scaled * step);
    const DoubleDouble start_first = (-((a + b + one) * at) + c) * scaled, change = scaled * odd;
    DoubleDouble first = start_first;
    // w_k step^k for the coefficients w_k of the series at `at`:
    //   (k+1) (k+2) w_(k+2) at (1 - at) =
    //       (a + k) (b + k) w_k - (c - (a+b+1) at + k odd) (k+1) w_(k+1)
    DoubleDouble last = value, now = slope * step;
    Total sum(value), derivative(now);
    sum.add(before, now);
    F64 reached(0);  // k of each lane
    Lanes64 active = before;
    for (int i = 0; i < most && any(active); ++i) {
      const double next = i + 1, after = i + 2;
      const DoubleDouble from_last = second.value * quotient_of(1, next * after),
                         from_now = first * quotient_of(1, after);
      const DoubleDouble term = last * from_last - now * from_now;
      last = select(active, now, last);
      now = select(active, term, now);
      reached = select(active, F64(next), reached);
      sum.add(active, now);
      derivative.add(active, now * F64(after));
      active = active & ((abs(now.high) + abs(last.high)) * F64(after) > small * abs(derivative.high));
      second.advance();
      first = first + change;
    }
    settled = settled & ~active;
    // The rest of the terms, in plain numbers.
    const F64 size = abs(derivative.high), scale = scaled.high * step;
    F64 before_last = last.high, plain = now.high, sum_rest(0), derivative_rest(0), largest(0);
    active = before & ~active;
    for (int i = 0; i < most && any(active); ++i) {
      const F64 next = reached + one, after = next + one;
      const F64 from_last = (a.high + reached) * (b.high + reached) * scale / (next * after),
                from_now = multiply_add(reached, change.high, start_first.high) / after;
      const F64 term = before_last * from_last - plain * from_now;
      before_last = plain;
      plain = term;
      const F64 added = select(active, term, zero), product = added * after;
      sum_rest = sum_rest + added;
      derivative_rest = derivative_rest + product;
      largest = select(abs(product) > largest, abs(product), largest);
      active = active & ((abs(plain) + abs(before_last)) * after > least * size);
      reached = next;
    }
    settled = settled & ~active & (largest <= F64(most_small_term) * size);
    sum.low = sum.low + sum_rest;
    derivative.low = derivative.low + derivative_rest;
    value = select(before, sum.value(), value);
    slope = select(before, derivative.value() / DoubleDouble{step, zero}, slope);
    at = select(before, at + step, at);
  }
  settled = settled & isfinite(value.high);
  return value.high;
}

/// The lanes of a vector should be of one group: 2F1 needs about as many terms for all numbers of a
/// group.
constexpr int gauss_groups = 9;
inline int gauss_group(double x) {
  const double z = x < -0.5 ? x / (x - 1) : __builtin_fabs(x);
  if (z <= 0.6) return z < 0.3 ? 0 : z <= 0.5 ? 1 : 2;
  int group = 3;
  for (double rest = 0.25; group < 8 && 1 - z < rest; rest /= 2) ++group;
  return group;
}
/// Up to this argument a sum of powers of x is faster than a continuation.
constexpr double most_gauss_argument = 0.6, least_gauss_rest = 0x1p-20;

/// base^exponent for a positive base
STAVE_INLINE F64 power(DoubleDouble base, DoubleDouble exponent, Lanes64 wanted) {
  const DoubleDouble one{F64(1), F64(0)}, from = select(wanted, base, one);
  return exp_of_pair((log_pair(from.high) + from.low / from.high) * exponent);
}

STAVE_INLINE F64 hyp2f1(F64 a, F64 b, F64 c, F64 x) {
  const F64 zero(0), one(1);
  // Pfaff's transformation, DLMF 15.8.1: (1 - x)^-low 2F1(low, c - high; c; x / (x - 1)).
  const Lanes64 negative = x < F64(-0.5);
  const F64 low = select(b < a, b, a), high = select(b < a, a, b);
  const DoubleDouble other = exact_sum(c, -high), below = ordered_sum(one, select(negative, -x, zero));
  const DoubleDouble argument =
      select(negative, DoubleDouble{select(negative, -x, zero), zero} / below, DoubleDouble{x, zero});
  const Lanes64 far = argument.high > F64(most_gauss_argument);
  // Euler's transformation, DLMF 15.8.1: its result is finite at 1.
  const DoubleDouble rest = exact_sum(c, -low) - DoubleDouble{high, zero};
  const Lanes64 turned = far & (rest.high < zero);
  const Lanes64 common = ~(is_whole_at_most_zero(a) | is_whole_at_most_zero(b) | is_whole_at_most_zero(c)) &
                         ~(is_whole_at_most_zero(other.high) | is_whole_at_most_zero(c - low)) & (abs(a) < F64(100)) &
                         (abs(b) < F64(100)) & (abs(c) < F64(100)) & (c == c) & (x == x) &
                         (argument.high < F64(1 - least_gauss_rest)) & ~(negative & far);
  const F64 divisor = select(common, c, one);
  Lanes64 settled = common & ~common;
  F64 y = zero;
  if (const Lanes64 wanted = common & ~far; any(wanted))
    y = gauss_sum(DoubleDouble{low, zero}, select(negative, other, DoubleDouble{high, zero}), divisor, argument, wanted,
                  settled);
  if (const Lanes64 wanted = common & far; any(wanted)) {
    Lanes64 settled_far;
    const DoubleDouble p = select(turned, exact_sum(c, -low), DoubleDouble{low, zero});
    const DoubleDouble q = select(turned, other, DoubleDouble{high, zero});
    y = select(wanted, continued(p, q, divisor, x, wanted, settled_far), y);
    settled = settled | settled_far;
  }
  if (const Lanes64 wanted = negative & settled; any(wanted))
    y = select(wanted, y * power(below, DoubleDouble{-low, zero}, wanted), y);
  if (const Lanes64 wanted = turned & settled; any(wanted))
    y = select(wanted, y * power(ordered_sum(one, -x), rest, wanted), y);
  return by_scalar(~settled, y, scalar::hyp2f1, a, b, c, x);
}

constexpr double most_kummer_argument = 60;
constexpr int kummer_groups = 8;
inline int kummer_group(double x) {
  const double size = __builtin_fabs(x);
  return size < 1 ? 0 : size < 15 ? 1 + static_cast<int>(size / 3) : size < 60 ? 6 : 7;
}

STAVE_INLINE F64 hyp1f1(F64 a, F64 b, F64 x) {
  const F64 zero(0), one(1);
  const Lanes64 common = ~(is_whole_at_most_zero(a) | is_whole_at_most_zero(b)) & (abs(x) < F64(most_kummer_argument)) &
                         (abs(a) < F64(100)) & (abs(b) < F64(100)) & (a != b);
  // Kummer's transformation, DLMF 13.2.39.
  const Lanes64 turned = x < F64(-1);
  const DoubleDouble first = select(turned, exact_sum(b, -a), DoubleDouble{a, zero});
  const F64 second = select(common, b, one), size = select(turned, -x, x);
  constexpr int most = 400;
  Sum sum(common);
  DoubleDouble numerator = first * size;
  F64 k(0);
  for (int i = 0; i < most && any(sum.active); ++i) {
    const F64 next = k + one;
    sum.add(numerator / (exact_sum(second, k) * next), F64(small_term));
    numerator = numerator + size;
    k = next;
  }
  SmallSum rest(sum, common);
  for (int i = 0; i < most && any(rest.active); ++i)
    rest.add((first.high + rest.k) * size / ((second + rest.k) * (rest.k + one)), F64(0x1p-64));
  sum.total.low = sum.total.low + rest.total;
  const F64 total = sum.total.value().high, y = select(turned, exp(x) * total, total);
  return by_scalar(~rest.settled() | ~isfinite(y), y, scalar::hyp1f1, a, b, x);
}

}  // namespace STAVE_KERNELS::special
