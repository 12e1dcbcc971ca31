// Kernels that reduce contiguous rows, and rows into columns.
//
// Accuracy: float32 and sixteen-bit floats accumulate in double. float64 sums are compensated:
// groups of eight are added as a tree, and the rounding errors of the running sum (Knuth's TwoSum)
// are summed separately. Both methods are about as fast as memory delivers the elements.
// The division of the work changes the accumulated sum by at most its last bit.
#include <stave/backends/cpu/kernels/fill.h>
#include <stave/backends/cpu/kernels/half.h>
#include <stave/backends/cpu/kernels/two_sum.h>

namespace STAVE_KERNELS {

using stave_cpu::Dtype;
using stave_cpu::Index;
using stave_cpu::OpId;
using stave_cpu::Reduction;

// ---- how two values combine ---------------------------------------------------------------------

template <class T>
STAVE_INLINE T lowest() {
  if constexpr (is_real<T>) return static_cast<T>(-__builtin_inf());
  else if constexpr (static_cast<T>(-1) > 0) return 0;
  else return static_cast<T>(static_cast<std::uint64_t>(1) << (8 * sizeof(T) - 1));
}
template <class T>
STAVE_INLINE T highest() {
  if constexpr (is_real<T>) return static_cast<T>(__builtin_inf());
  else return static_cast<T>(~lowest<T>());
}

struct SumOf {
  static constexpr bool is_extreme = false;
  template <class T>
  static STAVE_INLINE T neutral() {
    return 0;
  }
  template <class V>
  static STAVE_INLINE V both(V a, V b) {
    return static_cast<V>(a + b);
  }
};
struct ProdOf {
  static constexpr bool is_extreme = false;
  template <class T>
  static STAVE_INLINE T neutral() {
    return 1;
  }
  template <class V>
  static STAVE_INLINE V both(V a, V b) {
    return times(a, b);
  }
};
struct MaxOf {
  static constexpr bool is_extreme = true;
  template <class T>
  static STAVE_INLINE T neutral() {
    return lowest<T>();
  }
  template <class V>
  static STAVE_INLINE V both(V a, V b) {
    return select((a > b) | (a != a), a, b);
  }  // If a or b is NaN, the result is NaN.
  template <class V>
  static STAVE_INLINE V of_numbers(V a, V b) {
    return select(a > b, a, b);
  }
};
struct MinOf {
  static constexpr bool is_extreme = true;
  template <class T>
  static STAVE_INLINE T neutral() {
    return highest<T>();
  }
  template <class V>
  static STAVE_INLINE V both(V a, V b) {
    return select((a < b) | (a != a), a, b);
  }
  template <class V>
  static STAVE_INLINE V of_numbers(V a, V b) {
    return select(a < b, a, b);
  }
};
/// A faster form of C for elements without NaN. Its function `both` is a single minimum or maximum
/// instruction, which does not propagate NaN.
template <class C>
struct OfNumbers {
  template <class V>
  static STAVE_INLINE V both(V a, V b) {
    return C::of_numbers(a, b);
  }
};
struct AllOf : MinOf {
  template <class T>
  static STAVE_INLINE T neutral() {
    return 1;
  }
};
struct AnyOf : MaxOf {
  template <class T>
  static STAVE_INLINE T neutral() {
    return 0;
  }
};

// ---- reading as the accumulator's type ----------------------------------------------------------

template <class T, class A>
STAVE_INLINE Vec<A> load_as(const T* from) {
  if constexpr (sizeof(T) == sizeof(A)) {
    return Vec<A>::load(from);
  } else {  // From float to double, the input fills half a register.
    typedef T Half __attribute__((vector_size(STAVE_VECTOR_BYTES / 2), aligned(alignof(T)), may_alias));
    return {__builtin_convertvector(*reinterpret_cast<const Half*>(from), typename Vec<A>::Raw)};
  }
}
/// Prefetches the n elements that begin 2 KiB after x. The processor by itself prefetches too
/// late (measured: this saves up to a fifth of the time of reading from memory, and has no effect
/// if the data is in a cache).
template <Index n, class T>
STAVE_INLINE void prefetch(const T* x) {
  constexpr Index line = 64 / sizeof(T), ahead = 32 * line;
  for (Index i = 0; i < n; i += line) __builtin_prefetch(x + ahead + i);
}
template <class C, class A>
STAVE_INLINE A fold(Vec<A> v) {
  A lanes[Vec<A>::lanes];
  v.store(lanes);
  for (int half = Vec<A>::lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] = C::both(lanes[i], lanes[i + half]);
  return lanes[0];
}

// ---- plain accumulators: one value of type A for each column ------------------------------------

template <class C, class T, class A>
struct Plain {
  using V = Vec<A>;

  static void start(void* accumulator, Index n) {
    A* sums = static_cast<A*>(accumulator);
    for (Index c = 0; c < n; ++c) sums[c] = C::template neutral<A>();
  }

  // Several accumulators hide the latency of the combining instruction.
  static constexpr int ways = 8;
  static constexpr Index group = ways * V::lanes;

  template <class Both>
  static STAVE_INLINE A fold_ways(V (&sums)[ways]) {
    for (int half = ways / 2; half > 0; half /= 2)
      for (int w = 0; w < half; ++w) sums[w] = Both::both(sums[w], sums[w + half]);
    return fold<Both, A>(sums[0]);
  }
  /// Combines the elements in whole groups of vectors. `i` becomes the index of the first element
  /// after them.
  static STAVE_INLINE A fold_groups(const T* x, Index n, Index& i) {
    V sums[ways];
    for (V& sum : sums) sum = V(C::template neutral<A>());
    for (; i + group <= n; i += group) {
      prefetch<group>(x + i);
      for (int w = 0; w < ways; ++w) sums[w] = C::both(sums[w], load_as<T, A>(x + i + w * V::lanes));
    }
    return fold_ways<C>(sums);
  }
  /// Like fold_groups, but detects NaN separately. A check for NaN in each step would make all
  /// later steps wait for it.
  static STAVE_INLINE A fold_groups_of_numbers(const T* x, Index n, Index& i) {
    V sums[ways], nan[2] = {V(0), V(0)};
    for (V& sum : sums) sum = V(C::template neutral<A>());
    for (; i + group <= n; i += group) {
      prefetch<group>(x + i);
      for (int w = 0; w < ways; ++w) {
        const V next = load_as<T, A>(x + i + w * V::lanes);
        sums[w] = OfNumbers<C>::both(sums[w], next);
        nan[w % 2] = select(next != next, next, nan[w % 2]);
      }
    }
    nan[0] = select(nan[1] != nan[1], nan[1], nan[0]);
    if (any(nan[0] != nan[0])) [[unlikely]]
      return fold<C, A>(select(nan[0] != nan[0], nan[0], V(C::template neutral<A>())));
    return fold_ways<OfNumbers<C>>(sums);
  }
  static STAVE_INLINE A fold_row(const T* x, Index n, A total) {
    Index i = 0;
    if (n >= group) {
      if constexpr (is_real<A> && C::is_extreme) total = C::both(total, fold_groups_of_numbers(x, n, i));
      else total = C::both(total, fold_groups(x, n, i));
    }
    if (i + V::lanes <= n) {
      V sum = load_as<T, A>(x + i);
      for (i += V::lanes; i + V::lanes <= n; i += V::lanes) sum = C::both(sum, load_as<T, A>(x + i));
      total = C::both(total, fold<C, A>(sum));
    }
    for (; i < n; ++i) total = C::both(total, static_cast<A>(x[i]));
    return total;
  }
  static void row(const void* in, Index n, void* accumulator) { rows(in, 1, 0, n, accumulator); }
  STAVE_OUTLINE static void rows(const void* in, Index count, Index stride, Index n, void* accumulator) {
    A* totals = static_cast<A*>(accumulator);
    for (Index r = 0; r < count; ++r) totals[r] = fold_row(static_cast<const T*>(in) + r * stride, n, totals[r]);
  }

  template <int rows>
  static STAVE_INLINE void add_rows(const T* x, Index stride, Index n, A* sums) {
    Index c = 0;
    for (; c + V::lanes <= n; c += V::lanes) {
      V sum = V::load(sums + c);
      for (int r = 0; r < rows; ++r) sum = C::both(sum, load_as<T, A>(x + r * stride + c));
      sum.store(sums + c);
    }
    for (; c < n; ++c) {
      A sum = sums[c];
      for (int r = 0; r < rows; ++r) sum = C::both(sum, static_cast<A>(x[r * stride + c]));
      sums[c] = sum;
    }
  }
  STAVE_OUTLINE static void columns(const void* in, Index rows, Index stride, Index n, void* accumulator) {
    const T* x = static_cast<const T*>(in);
    A* sums = static_cast<A*>(accumulator);
    Index r = 0;
    for (; r + 8 <= rows; r += 8) add_rows<8>(x + r * stride, stride, n, sums);
    for (; r < rows; ++r) add_rows<1>(x + r * stride, stride, n, sums);
  }

  static void merge(void* accumulator, Index, const void* other, Index, Index n) {
    A* sums = static_cast<A*>(accumulator);
    for (Index c = 0; c < n; ++c) sums[c] = C::both(sums[c], static_cast<const A*>(other)[c]);
  }
  static void finish(const void* accumulator, Index n, void* out) {
    for (Index c = 0; c < n; ++c) static_cast<T*>(out)[c] = static_cast<T>(static_cast<const A*>(accumulator)[c]);
  }
};

// ---- the compensated sum of doubles: n running sums, then n sums of rounding errors -------------

struct Compensated {
  using V = Vec<double>;

  /// Reads a vector or, if X is double, one element.
  template <class X = V>
  static STAVE_INLINE X at(const double* x) {
    if constexpr (std::is_same_v<X, V>) return V::load(x);
    else return *x;
  }
  template <class X = V>
  static STAVE_INLINE X tree(const double* x, Index stride) {
    X pairs[4];
    for (int i = 0; i < 4; ++i) pairs[i] = at<X>(x + 2 * i * stride) + at<X>(x + (2 * i + 1) * stride);
    return (pairs[0] + pairs[1]) + (pairs[2] + pairs[3]);
  }

  static void start(void* accumulator, Index n) {
    __builtin_memset(accumulator, 0, static_cast<std::size_t>(2 * n) * sizeof(double));
  }

  static STAVE_INLINE void fold_row(const double* x, Index n, double& sum, double& lost) {
    Index i = 0;
    if (n >= V::lanes) {
      V wide(0), wide_lost(0);
      for (; i + 8 * V::lanes <= n; i += 8 * V::lanes) {
        prefetch<8 * V::lanes>(x + i);
        add_exactly(wide, wide_lost, tree(x + i, V::lanes));
      }
      for (; i + V::lanes <= n; i += V::lanes) add_exactly(wide, wide_lost, V::load(x + i));
      for (int lane = 0; lane < V::lanes; ++lane) add_exactly(sum, lost, wide[lane]);
      lost += fold<SumOf, double>(wide_lost);
    }
    for (; i < n; ++i) add_exactly(sum, lost, x[i]);
  }
  static void row(const void* in, Index n, void* accumulator) { rows(in, 1, 0, n, accumulator); }
  static void rows(const void* in, Index count, Index stride, Index n, void* accumulator) {
    double* sums = static_cast<double*>(accumulator);
    for (Index r = 0; r < count; ++r)
      fold_row(static_cast<const double*>(in) + r * stride, n, sums[r], sums[count + r]);
  }

  static STAVE_INLINE void add_at(double* sums, double* lost, V x) {
    V sum = V::load(sums), rest = V::load(lost);
    add_exactly(sum, rest, x);
    sum.store(sums);
    rest.store(lost);
  }
  static void columns(const void* in, Index rows, Index stride, Index n, void* accumulator) {
    const double* x = static_cast<const double*>(in);
    double *sums = static_cast<double*>(accumulator), *lost = sums + n;
    Index whole = n - n % V::lanes;
    Index r = 0;
    for (; r + 8 <= rows; r += 8) {
      for (Index c = 0; c < whole; c += V::lanes) add_at(sums + c, lost + c, tree(x + r * stride + c, stride));
      for (Index c = whole; c < n; ++c) add_exactly(sums[c], lost[c], tree<double>(x + r * stride + c, stride));
    }
    for (; r < rows; ++r) {
      for (Index c = 0; c < whole; c += V::lanes) add_at(sums + c, lost + c, V::load(x + r * stride + c));
      for (Index c = whole; c < n; ++c) add_exactly(sums[c], lost[c], x[r * stride + c]);
    }
  }

  static void merge(void* accumulator, Index width, const void* other, Index other_width, Index n) {
    double *sums = static_cast<double*>(accumulator), *lost = sums + width;
    const double *more = static_cast<const double*>(other), *more_lost = more + other_width;
    for (Index c = 0; c < n; ++c) {
      add_exactly(sums[c], lost[c], more[c]);
      lost[c] += more_lost[c];
    }
  }
  static void finish(const void* accumulator, Index n, void* out) {
    const double *sums = static_cast<const double*>(accumulator), *lost = sums + n;
    // The error of an infinite sum is NaN, so an infinite sum is not corrected.
    for (Index c = 0; c < n; ++c) {
      bool finite = __builtin_isfinite(sums[c]) != 0;
      static_cast<double*>(out)[c] = finite ? sums[c] + lost[c] : sums[c];
    }
  }
};

// ---- sixteen-bit floats, which are converted to float32 block by block --------------------------

template <class C, class T, class A>
struct Widened : Plain<C, float, A> {
  using Floats = Plain<C, float, A>;
  static constexpr Index block = 512;

  static void row(const void* in, Index n, void* accumulator) {
    alignas(64) float floats[block];
    A* total = static_cast<A*>(accumulator);
    for (Index i = 0; i < n; i += block) {
      const Index count = n - i < block ? n - i : block;
      widen(static_cast<const T*>(in) + i, count, floats);
      *total = Floats::fold_row(floats, count, *total);
    }
  }
  static void rows(const void* in, Index count, Index stride, Index n, void* accumulator) {
    for (Index r = 0; r < count; ++r) row(static_cast<const T*>(in) + r * stride, n, static_cast<A*>(accumulator) + r);
  }
  static void columns(const void* in, Index rows, Index stride, Index n, void* accumulator) {
    alignas(64) float floats[8][block];
    for (Index r = 0; r < rows; r += 8)
      for (Index c = 0; c < n; c += block) {
        const Index height = rows - r < 8 ? rows - r : 8, width = n - c < block ? n - c : block;
        for (Index k = 0; k < height; ++k) widen(static_cast<const T*>(in) + (r + k) * stride + c, width, floats[k]);
        Floats::columns(floats, height, block, width, static_cast<A*>(accumulator) + c);
      }
  }
  static void finish(const void* accumulator, Index n, void* out) {
    for (Index c = 0; c < n; ++c) static_cast<T*>(out)[c] = T(static_cast<const A*>(accumulator)[c]);
  }
};

// ---- the table ----------------------------------------------------------------------------------

template <class R>
Reduction reduction(int planes, std::size_t plane_bytes) {
  return {planes, static_cast<int>(plane_bytes), R::start, R::row, R::rows, R::columns, R::merge, R::finish};
}
/// Sets the kernels for elements of T with accumulators of A.
template <class C, class T, class A>
void set(Reduction* row, Dtype dtype) {
  using R = std::conditional_t<is_half<T>, Widened<C, T, A>, Plain<C, T, A>>;
  row[static_cast<int>(dtype)] = reduction<R>(1, sizeof(A));
}
/// Sets the kernels of sums or products. Signed integers are computed as unsigned ones,
/// which gives the same bits.
template <class C>
void fill_arithmetic(Reduction* row) {
#define X(name, type) set<C, stave::BitsOf<type>, stave::BitsOf<type>>(row, Dtype::name);
  STAVE_INTEGERS(X)
#undef X
#define X(name, type) set<C, type, double>(row, Dtype::name);
  STAVE_FLOATS(X)
#undef X
}
template <class C>
void fill_extreme(Reduction* row) {
#define X(name, type) set<C, Element<type>, Computed<Element<type>>>(row, Dtype::name);
  STAVE_REALS(X)
#undef X
}

void fill_reduce(stave_cpu::Kernels& table) {
  auto row = [&](OpId op) { return table.reduce[op]; };
  table.vector_bytes = STAVE_VECTOR_BYTES;
  fill_arithmetic<SumOf>(row(OpId::sum));
  row(OpId::sum)[static_cast<int>(Dtype::float64)] = reduction<Compensated>(2, sizeof(double));
  fill_arithmetic<ProdOf>(row(OpId::prod));
  fill_extreme<MaxOf>(row(OpId::max));
  fill_extreme<MinOf>(row(OpId::min));
  set<AllOf, std::uint8_t, std::uint8_t>(row(OpId::all), Dtype::bool_);
  set<AnyOf, std::uint8_t, std::uint8_t>(row(OpId::any), Dtype::bool_);
}

}  // namespace STAVE_KERNELS
