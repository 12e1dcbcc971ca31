// The folds of reductions. A fold defines the accumulator of an operation and dtype, and how an
// element enters it. The semantics are those of the CPU backend. Floats of 16 and 32 bits
// accumulate in float64. A sum of float64 also accumulates its rounding errors. Signed integers are
// added and multiplied as unsigned integers, which gives the same bits. If an element is NaN, both
// the maximum and the minimum are NaN.
//
// A fold has the types Element and Accumulator, and the functions start(), add(accumulator,
// element, position), merge(accumulator, another) and store(accumulator, out, offset). merge is
// associative (sums of floats up to rounding), so threads can share the work.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <stave/backends/cuda/reduce_plan.h>
#include <stave/backends/cuda/kernels/element.cuh>

namespace stave_cuda {

// ---- sums and products ------------------------------------------------------------------------

/// The type in which sums and products of elements T are computed. Integers use unsigned types.
template <class T>
using Accumulated = std::conditional_t<!std::is_integral_v<T>, double,
                                       std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>>;

template <class T>
struct Sum {
  using Element = T;
  using Accumulator = Accumulated<T>;
  using A = Accumulator;
  STAVE_BOTH explicit Sum(const ReduceArgs&) {}
  STAVE_BOTH A start() const { return A(0); }
  STAVE_BOTH void add(A& total, T x, Index) const { total += static_cast<A>(computed(x)); }
  STAVE_BOTH void merge(A& total, A other) const { total += other; }
  STAVE_BOTH void store(A total, void* out, Index offset) const { static_cast<T*>(out)[offset] = element_of<T>(total); }
};

template <class T>
struct Product {
  using Element = T;
  using Accumulator = Accumulated<T>;
  using A = Accumulator;
  STAVE_BOTH explicit Product(const ReduceArgs&) {}
  STAVE_BOTH A start() const { return A(1); }
  STAVE_BOTH void add(A& total, T x, Index) const { total *= static_cast<A>(computed(x)); }
  STAVE_BOTH void merge(A& total, A other) const { total *= other; }
  STAVE_BOTH void store(A total, void* out, Index offset) const { static_cast<T*>(out)[offset] = element_of<T>(total); }
};

/// A compensated sum: the rounded sum, and the accumulated rounding error `lost`. sum + lost is the
/// exact sum, except for rounding errors in `lost`.
struct WithLost {
  double sum, lost;
  /// Adds x by Knuth's TwoSum, which finds the rounding error exactly: new sum + error = old sum +
  /// x.
  STAVE_BOTH void add(double x) {
    const double total = sum + x, added = total - sum;
    lost += (sum - (total - added)) + (x - added);
    sum = total;
  }
  STAVE_BOTH void add(WithLost other) {
    add(other.sum);
    lost += other.lost;
  }
  /// Returns the corrected sum. An infinite sum is not corrected, because its `lost` is NaN.
  STAVE_BOTH double value() const { return sum - sum == 0 ? sum + lost : sum; }
};

template <>
struct Sum<double> {
  using Element = double;
  using Accumulator = WithLost;
  STAVE_BOTH explicit Sum(const ReduceArgs&) {}
  STAVE_BOTH WithLost start() const { return {0, 0}; }
  STAVE_BOTH void add(WithLost& total, double x, Index) const { total.add(x); }
  STAVE_BOTH void merge(WithLost& total, WithLost other) const { total.add(other); }
  STAVE_BOTH void store(WithLost total, void* out, Index offset) const {
    static_cast<double*>(out)[offset] = total.value();
  }
};

/// The product of complex numbers.
template <class T>
struct Product<stave::ComplexElement<T>> {
  using Element = stave::ComplexElement<T>;
  using Accumulator = stave::ComplexElement<double>;
  using A = Accumulator;
  STAVE_BOTH explicit Product(const ReduceArgs&) {}
  STAVE_BOTH A start() const { return A(1, 0); }
  STAVE_BOTH void add(A& total, Element x, Index) const { total = total * A(x); }
  STAVE_BOTH void merge(A& total, A other) const { total = total * other; }
  STAVE_BOTH void store(A total, void* out, Index offset) const { static_cast<Element*>(out)[offset] = Element(total); }
};

// ---- extremes ---------------------------------------------------------------------------------

/// Returns x with the bits of `mask` flipped.
template <class T>
STAVE_BOTH T exchange_bits(T x, BitsOf<T> mask) {
  if constexpr (std::is_integral_v<T>) {
    return x ^ mask;
  } else {
    BitsOf<T> bits;
    std::memcpy(&bits, &x, sizeof x);
    bits ^= mask;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  }
}
template <class T>
STAVE_BOTH constexpr T lowest_of_all() {
  if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
  else return 0;
}

/// The fold that finds the largest element. It flips the bits of `mask` in elements that it reads
/// and in the result. With extreme_mask() this also gives minima, and extremes of signed integers.
template <class T>
struct Extreme {
  using Element = T;
  using Accumulator = stave::Computed<T>;
  using A = Accumulator;
  BitsOf<T> mask;
  STAVE_BOTH explicit Extreme(const ReduceArgs& args) : mask(static_cast<BitsOf<T>>(args.mask)) {}
  STAVE_BOTH A start() const { return lowest_of_all<A>(); }
  STAVE_BOTH void add(A& best, T x, Index) const { merge(best, computed(exchange_bits(x, mask))); }
  STAVE_BOTH void merge(A& best, A other) const { best = best > other || best != best ? best : other; }
  STAVE_BOTH void store(A best, void* out, Index offset) const {
    static_cast<T*>(out)[offset] = exchange_bits(element_of<T>(best), mask);
  }
};

/// The fold of `any` and `all`. With mask 0 it tells whether any element is true. With mask 1 it
/// finds whether any element is false and inverts the result, which tells whether all are true.
struct Logical {
  using Element = std::uint8_t;
  using Accumulator = std::uint32_t;
  std::uint8_t mask;
  STAVE_BOTH explicit Logical(const ReduceArgs& args) : mask(static_cast<std::uint8_t>(args.mask)) {}
  STAVE_BOTH std::uint32_t start() const { return 0; }
  STAVE_BOTH void add(std::uint32_t& total, std::uint8_t x, Index) const { total |= x ^ mask; }
  STAVE_BOTH void merge(std::uint32_t& total, std::uint32_t other) const { total |= other; }
  STAVE_BOTH void store(std::uint32_t total, void* out, Index offset) const {
    static_cast<std::uint8_t*>(out)[offset] = static_cast<std::uint8_t>(total != 0) ^ mask;
  }
};

// ---- positions of extremes --------------------------------------------------------------------

template <class T>
struct Best {
  T value;
  std::int64_t position;
};

/// The fold that finds the position of the extreme element. A NaN counts as the extreme. Among
/// equal elements the first is chosen, in whatever order threads merge. The mask is that of
/// Extreme.
template <class T>
struct ArgExtreme {
  using Element = T;
  using Accumulator = Best<stave::Computed<T>>;
  using A = Accumulator;
  BitsOf<T> mask;
  bool wide;
  STAVE_BOTH explicit ArgExtreme(const ReduceArgs& args)
      : mask(static_cast<BitsOf<T>>(args.mask)), wide(args.wide_positions) {}
  STAVE_BOTH A start() const { return {lowest_of_all<stave::Computed<T>>(), std::numeric_limits<std::int64_t>::max()}; }
  STAVE_BOTH void add(A& best, T x, Index position) const { merge(best, {computed(exchange_bits(x, mask)), position}); }
  STAVE_BOTH void merge(A& best, A other) const {
    const bool nan = other.value != other.value, best_nan = best.value != best.value;
    const bool better = other.value > best.value || (nan && !best_nan);
    const bool equal = other.value == best.value || (nan && best_nan);
    if (better || (equal && other.position < best.position)) best = other;
  }
  STAVE_BOTH void store(A best, void* out, Index offset) const {
    if (wide) static_cast<std::int64_t*>(out)[offset] = best.position;
    else static_cast<std::int32_t*>(out)[offset] = static_cast<std::int32_t>(best.position);
  }
};

}  // namespace stave_cuda
