// The steps of scans. A step defines the state that a scan carries from element to element, and how
// the effects of successive elements are combined.
//
// A step has the type Element and the number of `inputs`. It has the type State, with the functions
// start(), next(state, x, y) and value(state). It has the type Map, the effect of successive
// elements on the state that enters them, with the functions identity(), of(x, y), then(first,
// second) and apply(state, map). The arithmetic is that of the CPU backend. Floats of 16 and 32
// bits are computed in float64. Sums of float64 also accumulate their rounding errors. Integers
// wrap.
//
// A scan that combines maps associates operations in another order. If a map leaves the range of
// float64, the result could differ by more than rounding. Then fits() returns false, and the
// elements of the map are scanned one by one. The underflow of a product below 2^-1022 is not
// detected: the product counts as 0, unless it is multiplied by an infinity.
#pragma once

#include <stave/backends/cuda/kernels/fold.cuh>
#include <stave/backends/cuda/kernels/lane.cuh>

namespace stave_cuda {

template <class S>
STAVE_BOTH bool is_finite(S x) {
  return x - x == 0;
}
/// Returns true if map * state equals the product with the exact value of `map`, up to a negligible
/// error. It returns false if `map` overflowed. If `map` underflowed, it returns true only for
/// |state| <= 2^200.
STAVE_BOTH inline bool fits_factor(double map, double state) {
  if (!is_finite(map)) return false;
  const bool small = map > -std::numeric_limits<double>::min() && map < std::numeric_limits<double>::min();
  return !small || (state <= 0x1p200 && state >= -0x1p200);
}

template <class T>
struct RunningSum {
  using Element = T;
  using State = Accumulated<T>;
  using Map = State;
  using S = State;
  static constexpr int inputs = 1;
  STAVE_BOTH static S start() { return S(0); }
  STAVE_BOTH static S next(S sum, T x, T) { return sum + static_cast<S>(computed(x)); }
  STAVE_BOTH static T value(S sum) { return element_of<T>(sum); }
  STAVE_BOTH static S identity() { return S(0); }
  STAVE_BOTH static S of(T x, T) { return static_cast<S>(computed(x)); }
  STAVE_BOTH static S then(S first, S second) { return first + second; }
  STAVE_BOTH static S apply(S sum, S map) { return sum + map; }
  STAVE_BOTH static bool fits(S, S) { return true; }
};

template <>
struct RunningSum<double> {
  using Element = double;
  using State = WithLost;
  using Map = WithLost;
  static constexpr int inputs = 1;
  STAVE_BOTH static WithLost start() { return {0, 0}; }
  STAVE_BOTH static WithLost next(WithLost sum, double x, double) {
    sum.add(x);
    return sum;
  }
  STAVE_BOTH static double value(WithLost sum) { return sum.value(); }
  STAVE_BOTH static WithLost identity() { return {0, 0}; }
  STAVE_BOTH static WithLost of(double x, double) { return {x, 0}; }
  STAVE_BOTH static WithLost then(WithLost first, WithLost second) {
    first.add(second);
    return first;
  }
  STAVE_BOTH static WithLost apply(WithLost sum, WithLost map) { return then(sum, map); }
  STAVE_BOTH static bool fits(WithLost, WithLost) { return true; }
};

template <class T>
struct RunningProduct {
  using Element = T;
  using State = Accumulated<T>;
  using Map = State;
  using S = State;
  static constexpr int inputs = 1;
  STAVE_BOTH static S start() { return S(1); }
  STAVE_BOTH static S next(S product, T x, T) { return product * static_cast<S>(computed(x)); }
  STAVE_BOTH static T value(S product) { return element_of<T>(product); }
  STAVE_BOTH static S identity() { return S(1); }
  STAVE_BOTH static S of(T x, T) { return static_cast<S>(computed(x)); }
  STAVE_BOTH static S then(S first, S second) { return first * second; }
  STAVE_BOTH static S apply(S product, S map) { return product * map; }
  STAVE_BOTH static bool fits(S map, S product) {
    if constexpr (std::is_floating_point_v<S>) return fits_factor(map, product);
    else return true;
  }
};

/// The steps of complex numbers, whose state is in double precision. A map is judged by the larger
/// of its parts.
STAVE_BOTH inline bool fits_factor(stave::ComplexElement<double> map, stave::ComplexElement<double> state) {
  const auto larger = [](stave::ComplexElement<double> z) {
    const double re = z.re < 0 ? -z.re : z.re, im = z.im < 0 ? -z.im : z.im;
    return re < im || re != re ? (re != re ? re : im) : im != im ? im : re;
  };
  return fits_factor(larger(map), larger(state));
}

template <class T>
struct RunningProduct<stave::ComplexElement<T>> {
  using Element = stave::ComplexElement<T>;
  using ComplexState = stave::ComplexElement<double>;
  using State = ComplexState;
  using Map = State;
  using S = State;
  static constexpr int inputs = 1;
  STAVE_BOTH static S start() { return S(1, 0); }
  STAVE_BOTH static S next(S product, Element x, Element) { return S(x) * product; }
  STAVE_BOTH static Element value(S product) { return Element(product); }
  STAVE_BOTH static S identity() { return S(1, 0); }
  STAVE_BOTH static S of(Element x, Element) { return S(x); }
  STAVE_BOTH static S then(S first, S second) { return first * second; }
  STAVE_BOTH static S apply(S product, S map) { return product * map; }
  STAVE_BOTH static bool fits(S map, S product) { return fits_factor(map, product); }
};

/// The step of cummax and cummin: the largest or smallest element so far. After a NaN the result
/// stays NaN.
template <class T, bool largest>
struct RunningExtreme {
  using Element = T;
  using State = Lane<stave::Computed<T>>;
  using Map = State;
  using S = State;
  static constexpr int inputs = 1;
  STAVE_BOTH static S start() {
    using L = std::numeric_limits<typename S::Value>;
    if constexpr (largest) return S(L::has_infinity ? -L::infinity() : L::lowest());
    else return S(L::has_infinity ? L::infinity() : L::max());
  }
  STAVE_BOTH static S beyond(S a, S b) { return select((largest ? a > b : a < b) | (a != a), a, b); }
  STAVE_BOTH static S next(S extreme, T x, T) { return beyond(extreme, of(x, x)); }
  STAVE_BOTH static T value(S extreme) { return element_of<T>(extreme.value); }
  STAVE_BOTH static S identity() { return start(); }
  STAVE_BOTH static S of(T x, T) { return S(computed(x)); }
  STAVE_BOTH static S then(S first, S second) { return beyond(first, second); }
  STAVE_BOTH static S apply(S extreme, S map) { return beyond(extreme, map); }
  STAVE_BOTH static bool fits(S, S) { return true; }
};
template <class T>
using RunningMax = RunningExtreme<T, true>;
template <class T>
using RunningMin = RunningExtreme<T, false>;

template <class S>
struct AffineMap {
  S a, b;
};

/// The step h = scale(a, h) + b of linear_recurrence. A factor of 0 gives 0, even with infinity and
/// NaN. The map h -> a h + b followed by h -> c h + d is h -> c a h + (c b + d). Maps are combined
/// with IEEE products, in which 0 times infinity is NaN. A 0 or an infinity in them may be the
/// result of an underflow or overflow of float64, so a map with infinity or NaN does not fit.
template <class T>
struct Recurrence {
  using Element = T;
  using State = Accumulated<T>;
  using S = State;
  using Map = AffineMap<S>;
  static constexpr int inputs = 2;
  STAVE_BOTH static S scale(S a, S b) { return a == 0 || b == 0 ? S(0) : a * b; }
  STAVE_BOTH static S start() { return S(0); }
  STAVE_BOTH static S next(S h, T a, T b) {
    return scale(static_cast<S>(computed(a)), h) + static_cast<S>(computed(b));
  }
  STAVE_BOTH static T value(S h) { return element_of<T>(h); }
  STAVE_BOTH static Map identity() { return {S(1), S(0)}; }
  STAVE_BOTH static Map of(T a, T b) { return {static_cast<S>(computed(a)), static_cast<S>(computed(b))}; }
  STAVE_BOTH static Map then(Map first, Map second) { return {second.a * first.a, second.a * first.b + second.b}; }
  STAVE_BOTH static S apply(S h, Map map) { return scale(map.a, h) + map.b; }
  STAVE_BOTH static bool fits(Map map, S h) {
    if constexpr (std::is_floating_point_v<S>) return fits_factor(map.a, h) && is_finite(map.b);
    else return true;
  }
};

template <class T>
struct Recurrence<stave::ComplexElement<T>> {
  using Element = stave::ComplexElement<T>;
  using ComplexState = stave::ComplexElement<double>;
  using State = ComplexState;
  using S = State;
  using Map = AffineMap<S>;
  static constexpr int inputs = 2;
  STAVE_BOTH static S scale(S a, S b) { return a == S(0, 0) || b == S(0, 0) ? S(0, 0) : a * b; }
  STAVE_BOTH static S start() { return S(0, 0); }
  STAVE_BOTH static S next(S h, Element a, Element b) { return scale(S(a), h) + S(b); }
  STAVE_BOTH static Element value(S h) { return Element(h); }
  STAVE_BOTH static Map identity() { return {S(1, 0), S(0, 0)}; }
  STAVE_BOTH static Map of(Element a, Element b) { return {S(a), S(b)}; }
  STAVE_BOTH static Map then(Map first, Map second) { return {second.a * first.a, second.a * first.b + second.b}; }
  STAVE_BOTH static S apply(S h, Map map) { return scale(map.a, h) + map.b; }
  STAVE_BOTH static bool fits(Map map, S h) {
    return fits_factor(map.a, h) && is_finite(map.b.re) && is_finite(map.b.im);
  }
};

}  // namespace stave_cuda
