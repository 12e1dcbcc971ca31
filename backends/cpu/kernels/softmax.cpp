// Kernels of softmax, log_softmax and logsumexp, for rows, for adjacent columns, and for long rows
// in pieces.
//
// Accuracy: the weights exp(x - max) are computed in the dtype. float32 is summed in double.
// float64 sums are compensated, as in the operation `sum` (reduce.cpp). If one element has almost
// all of the weight, its log_softmax is -log(1 + rest), where `rest` is the sum of the other
// weights. log1p(rest) keeps the digits of `rest`, which is therefore summed separately.
//
// If all elements of a part of a row are -inf, 0 is subtracted instead of the maximum, so that the
// part's sum is 0 and not NaN. If all elements of a whole row are -inf, the result is 0 / 0 = NaN.
// In logsumexp, elements that equal the maximum have weight 1, so that the result is infinite if
// the maximum is.
#include <stave/backends/cpu/kernels/fill.h>
#include <stave/backends/cpu/kernels/two_sum.h>
#include <stave/backends/cpu/kernels/vec_math.h>

namespace STAVE_KERNELS {

using stave_cpu::Dtype;
using stave_cpu::Index;
using stave_cpu::OpId;
using stave_cpu::Softmax;
using stave_cpu::softmax_columns;
using stave_cpu::SoftmaxTotal;

// ---- vectors ------------------------------------------------------------------------------------

/// Loads the first n < lanes elements, and -inf in the other lanes. -inf does not affect the
/// maximum, and its weight is 0.
template <class T>
STAVE_INLINE Vec<T> load_rest(const T* x, Index n) {
  using Lane = typename Mask<T>::Lane;
  static constexpr Lane positions[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  typename Mask<T>::Raw position;
  __builtin_memcpy(&position, positions, sizeof position);
  const Mask<T> given{position < static_cast<Lane>(n)};
  return select(given, load_some<T>(x, n), Vec<T>(-__builtin_inf()));
}

/// Returns the larger value. It may drop a NaN in x, because the exponential of x makes the sum
/// NaN.
template <class X>
STAVE_INLINE X larger(X x, X max) {
  return select(x > max, x, max);
}
template <class X>
STAVE_INLINE X subtracted_for(X max) {
  return select(max == X(-__builtin_inf()), X(0), max);
}

/// Running sums of the lanes of vectors of T, in double.
template <class T>
struct Sums;
template <>
struct Sums<float> {
  static constexpr int planes = 1;
  F64 low{0}, high{0};
  STAVE_INLINE void add(F32 x) {
    low = low + low_half(x);
    high = high + high_half(x);
  }
  static STAVE_INLINE Sums load(const double* sums, const double*) {
    return {F64::load(sums), F64::load(sums + F64::lanes)};
  }
  STAVE_INLINE void store(double* sums, double*) const {
    low.store(sums);
    high.store(sums + F64::lanes);
  }
  static STAVE_INLINE void rescale(double& sum, double&, double factor) { sum *= factor; }
  STAVE_INLINE void add_to(double& sum, double&) const { sum += sum_across(low + high); }
};
template <>
struct Sums<double> {
  static constexpr int planes = 2;
  F64 sum{0}, lost{0};
  STAVE_INLINE void add(F64 x) { add_exactly(sum, lost, x); }
  static STAVE_INLINE Sums load(const double* sums, const double* losts) { return {F64::load(sums), F64::load(losts)}; }
  STAVE_INLINE void store(double* sums, double* losts) const {
    sum.store(sums);
    lost.store(losts);
  }
  static STAVE_INLINE void rescale(double& sum, double& lost, double factor) {
    sum *= factor;
    lost *= factor;
  }
  STAVE_INLINE void add_to(double& total, double& total_lost) const {
    for (int lane = 0; lane < F64::lanes; ++lane) {
      add_exactly(total, total_lost, sum[lane]);
      total_lost += lost[lane];
    }
  }
};

/// Running sums of weights whose logarithm is needed, in two parts. The second part keeps the
/// digits that would be lost if they were added to the first part, which is near 1. For float64 it
/// is the sum of the rounding errors.
template <class T>
struct SumsForLogarithm : Sums<T> {};
/// For float32, the first part is the number of weights that are 1, and the second part is the sum
/// of the others.
template <>
struct SumsForLogarithm<float> {
  static constexpr int planes = 2;
  Sums<float> ones, others;
  STAVE_INLINE void add(F32 x) {
    const Mask<float> one = x == F32(1);
    if (any(one)) {
      ones.add(select(one, F32(1), F32(0)));
      x = select(one, F32(0), x);
    }
    others.add(x);
  }
  static STAVE_INLINE SumsForLogarithm load(const double* sums, const double* losts) {
    return {Sums<float>::load(sums, nullptr), Sums<float>::load(losts, nullptr)};
  }
  STAVE_INLINE void store(double* sums, double* losts) const {
    ones.store(sums, nullptr);
    others.store(losts, nullptr);
  }
  static STAVE_INLINE void rescale(double& sum, double& lost, double factor) {
    lost = (sum + lost) * factor;
    sum = 0;
  }
  STAVE_INLINE void add_to(double& sum, double& lost) const {
    ones.add_to(sum, lost);
    others.add_to(lost, sum);
  }
};

// ---- the results of elements --------------------------------------------------------------------

/// The elements of softmax: the weights exp(x - max), divided by their sum.
/// The weights are stored in the result until their sum is known. If there is a fused multiply-add,
/// a float32 weight is multiplied by the inverse of the sum, which is held in two parts.
/// This is faster, and avoids the error that a rounded sum would give to all elements of a row.
template <class T>
struct OfWeights {
  using V = Vec<T>;
  using WeightSums = Sums<T>;
  static constexpr bool keeps_weights = true, reduces = false;
  static constexpr bool divides = sizeof(T) == 8 || !has_fma;
  T first, second;
  static STAVE_INLINE OfWeights made_of(double first_part, double second_part) {
    const double sum = first_part + second_part;
    if constexpr (divides) return {static_cast<T>(sum), 0};
    const double inverse = 1 / sum;
    const T high = static_cast<T>(inverse);
    return {high, static_cast<T>(inverse - static_cast<double>(high))};
  }
  static STAVE_INLINE V finished(V weight, V, V first, V second) {
    if constexpr (divides) return weight / first;
    else return multiply_add(weight, first, weight * second);
  }
  static STAVE_INLINE V value(V x, V subtracted, V first, V second) {
    return finished(exp(x - subtracted), subtracted, first, second);
  }
};

/// The elements of log_softmax: x - max - log(sum), computed from x; no weights are stored.
template <class T>
struct OfLogarithms {
  using V = Vec<T>;
  using WeightSums = SumsForLogarithm<T>;
  static constexpr bool keeps_weights = false, reduces = false;
  T first, second;
  static STAVE_INLINE OfLogarithms made_of(double sum, double rest) {
    return {static_cast<T>(__builtin_log1p((sum - 1) + rest)), 0};
  }
  static STAVE_INLINE V finished(V x, V subtracted, V log_sum, V) { return (x - subtracted) - log_sum; }
  static STAVE_INLINE V value(V x, V subtracted, V log_sum, V none) { return finished(x, subtracted, log_sum, none); }
};

/// The only result of a row of logsumexp: max + log(sum).
template <class T>
struct OfLogSum {
  using WeightSums = SumsForLogarithm<T>;
  static constexpr bool keeps_weights = false, reduces = true;
  static STAVE_INLINE T of(double max, double sum, double rest) {
    return static_cast<T>(max + __builtin_log1p((sum - 1) + rest));
  }
};

/// Adds the total of a later part of a row.
static void merge(SoftmaxTotal* total, const SoftmaxTotal* next) {
  const double max = larger(next->max, total->max);
  const double before = total->max == max ? 1 : __builtin_exp(total->max - max);
  const double after = next->max == max ? 1 : __builtin_exp(next->max - max);
  total->max = max;
  total->sum *= before;
  total->lost *= before;
  add_exactly(total->sum, total->lost, next->sum * after);
  total->lost += next->lost * after;
}

template <template <class> class Of, class T>
struct Kernel {
  using F = Of<T>;
  using V = Vec<T>;
  using S = typename F::WeightSums;
  static constexpr int lanes = V::lanes;

  template <class X>
  static STAVE_INLINE X subtracted_for(X max) {
    if constexpr (F::reduces) return max;
    else return STAVE_KERNELS::subtracted_for(max);
  }
  static STAVE_INLINE V weight_of(V x, V subtracted) {
    const V weight = exp(x - subtracted);
    if constexpr (F::reduces) return select(x == subtracted, V(1), weight);
    else return weight;
  }

  // ---- rows -------------------------------------------------------------------------------------

  static STAVE_INLINE T max_of(const T* x, Index n) {
    constexpr int ways = 4;
    V max[ways];
    for (V& m : max) m = V(-__builtin_inf());
    Index i = 0;
    for (; i + ways * lanes <= n; i += ways * lanes)
      for (int w = 0; w < ways; ++w) max[w] = larger(V::load(x + i + w * lanes), max[w]);
    for (; i + lanes <= n; i += lanes) max[0] = larger(V::load(x + i), max[0]);
    if (i < n) max[1] = larger(load_rest(x + i, n - i), max[1]);
    T all[lanes];
    larger(larger(max[0], max[1]), larger(max[2], max[3])).store(all);
    for (int half = lanes / 2; half > 0; half /= 2)
      for (int lane = 0; lane < half; ++lane) all[lane] = larger(all[lane + half], all[lane]);
    return all[0];
  }

  /// Returns the maximum and the sum of the weights exp(x - max). If `keep` is true, it stores the
  /// weights in `weights`, except for the last ones, which do not fill a vector; `rest` receives
  /// these. It prefetches n elements from `next` on.
  template <bool keep>
  static STAVE_INLINE SoftmaxTotal weigh(const T* x, Index n, const T* next, [[maybe_unused]] T* weights, V& rest) {
    SoftmaxTotal total;
    const T max = max_of(x, n);
    const V subtracted(subtracted_for(max));
    S sums;
    Index i = 0;
    for (; i + lanes <= n; i += lanes) {
      const V weight = weight_of(V::load(x + i), subtracted);
      __builtin_prefetch(next + i);
      if constexpr (keep) weight.store(weights + i);
      sums.add(weight);
    }
    if (i < n) {
      rest = weight_of(load_rest(x + i, n - i), subtracted);
      sums.add(rest);
    }
    total.max = static_cast<double>(max);
    sums.add_to(total.sum, total.lost);
    return total;
  }

  static void rows(const void* in, Index in_stride, Index rows, Index n, void* out, Index out_stride) {
    const Index whole = n - n % lanes;
    for (Index r = 0; r < rows; ++r) {
      const T* x = static_cast<const T*>(in) + r * in_stride;
      T* y = static_cast<T*>(out) + r * out_stride;
      if constexpr (F::reduces) {
        SoftmaxTotal total;
        fold(x, n, &total);
        *y = F::of(total.max, total.sum, total.lost);
      } else {
        V rest(0);
        const SoftmaxTotal total = weigh<F::keeps_weights>(x, n, x + in_stride, y, rest);
        const F f = F::made_of(total.sum, total.lost);
        const V subtracted(subtracted_for(static_cast<T>(total.max))), first(f.first), second(f.second);
        const T* from = F::keeps_weights ? y : x;
        for (Index i = 0; i < whole; i += lanes) F::finished(V::load(from + i), subtracted, first, second).store(y + i);
        if (whole == n) continue;
        if constexpr (!F::keeps_weights) rest = load_some<T>(x + whole, n - whole);
        store_some(F::finished(rest, subtracted, first, second), y + whole, n - whole);
      }
    }
  }

  // ---- pieces of a long row ---------------------------------------------------------------------

  static void fold(const void* in, Index n, SoftmaxTotal* total) {
    constexpr Index block = 2048;  // The L1 cache holds a block, which is read twice.
    const T* x = static_cast<const T*>(in);
    for (Index i = 0; i < n; i += block) {
      const Index count = n - i < block ? n - i : block;
      V rest;
      const SoftmaxTotal next = weigh<false>(x + i, count, x + i + count, nullptr, rest);
      merge(total, &next);
    }
  }
  static void finish(const void* in, Index n, const SoftmaxTotal* total, void* out) {
    const T* x = static_cast<const T*>(in);
    T* y = static_cast<T*>(out);
    if constexpr (F::reduces) {
      *y = F::of(total->max, total->sum, total->lost);
    } else {
      const F f = F::made_of(total->sum, total->lost);
      const V subtracted(subtracted_for(static_cast<T>(total->max))), first(f.first), second(f.second);
      const auto value = [&](V v) { return F::value(v, subtracted, first, second); };
      Index i = 0;
      for (; i + lanes <= n; i += lanes) value(V::load(x + i)).store(y + i);
      if (i < n) store_some(value(load_some<T>(x + i, n - i)), y + i, n - i);
    }
  }

  // ---- columns ----------------------------------------------------------------------------------

  /// Calls body(c, load, store) for vectors of columns. The last vector may be shorter.
  template <class Body>
  static STAVE_INLINE void for_columns(Index n, Body body) {
    Index c = 0;
    for (; c + lanes <= n; c += lanes)
      body(
          c, [](const T* x) { return V::load(x); }, [](V v, T* to) { v.store(to); });
    if (c == n) return;
    const Index rest = n - c;
    body(
        c, [=](const T* x) { return load_some<T>(x, rest); }, [=](V v, T* to) { store_some(v, to, rest); });
  }
  /// The running maxima and sums of adjacent columns.
  struct Totals {
    alignas(64) T max[softmax_columns];
    alignas(64) double sums[softmax_columns], losts[S::planes == 2 ? softmax_columns : 1];
  };
  static STAVE_INLINE void start(Index n, Totals& totals) {
    totals.losts[0] = 0;
    for (Index c = 0; c < n + lanes && c < softmax_columns; ++c) {
      totals.max[c] = static_cast<T>(-__builtin_inf());
      totals.sums[c] = 0;
      if constexpr (S::planes == 2) totals.losts[c] = 0;
    }
  }
  /// Calls body.operator()<group>(r) for each group of `group` rows from row r on. With groups, the
  /// state of a column is loaded and stored less often.
  template <class Body>
  static STAVE_INLINE void for_groups(Index rows, Body body) {
    Index r = 0;
    for (; r + 4 <= rows; r += 4) body.template operator()<4>(r);
    for (; r < rows; ++r) body.template operator()<1>(r);
  }
  /// Updates the maxima of columns by further rows, and rescales the sums so far, so that they
  /// become sums of exp(x - max) with the new maxima.
  static STAVE_INLINE void raise(const T* x, Index stride, Index rows, Index n, Totals& totals) {
    alignas(64) T before[softmax_columns];
    __builtin_memcpy(before, totals.max, sizeof before);
    for_groups(rows, [&]<int group>(Index r) {
      for_columns(n, [&](Index c, auto load, auto) {
        V max = V::load(totals.max + c);
        for (int k = 0; k < group; ++k) max = larger(load(x + (r + k) * stride + c), max);
        max.store(totals.max + c);
      });
    });
    for (Index c = 0; c < n; ++c) {
      double& lost = totals.losts[S::planes == 2 ? c : 0];
      if (totals.max[c] == before[c] || (totals.sums[c] == 0 && lost == 0)) continue;
      const double factor = __builtin_exp(static_cast<double>(before[c]) - static_cast<double>(totals.max[c]));
      S::rescale(totals.sums[c], lost, factor);
    }
  }
  /// Adds exp(x - max) to the sums. If `keep` is true, it also writes exp(x - max) to y.
  template <bool keep>
  static STAVE_INLINE void weigh_columns(const T* x, Index stride, Index rows, Index n, Totals& totals,
                                         [[maybe_unused]] T* y, [[maybe_unused]] Index out_stride) {
    for_groups(rows, [&]<int group>(Index r) {
      for_columns(n, [&](Index c, auto load, [[maybe_unused]] auto store) {
        const V subtracted = subtracted_for(V::load(totals.max + c));
        auto sums = S::load(totals.sums + c, totals.losts + c);
        for (int k = 0; k < group; ++k) {
          const V weight = weight_of(load(x + (r + k) * stride + c), subtracted);
          if constexpr (keep) store(weight, y + (r + k) * out_stride + c);
          sums.add(weight);
        }
        sums.store(totals.sums + c, totals.losts + c);
      });
    });
  }

  static void columns(const void* in, Index in_stride, Index rows, Index n, void* out, Index out_stride) {
    const T* x = static_cast<const T*>(in);
    T* y = static_cast<T*>(out);
    constexpr Index few = 32;
    constexpr Index second_cache = (Index{1} << 18) / static_cast<Index>(sizeof(T));
    const bool keeps = F::keeps_weights && (rows <= few || (rows * n <= second_cache && out_stride == n));
    Totals totals;
    start(n, totals);
    const Index group = keeps ? rows : few;
    for (Index r = 0; r < rows; r += group) {
      const Index count = rows - r < group ? rows - r : group;
      raise(x + r * in_stride, in_stride, count, n, totals);
      if (keeps) weigh_columns<true>(x, in_stride, rows, n, totals, y, out_stride);
      else weigh_columns<false>(x + r * in_stride, in_stride, count, n, totals, nullptr, 0);
    }
    if constexpr (F::reduces) {
      for (Index c = 0; c < n; ++c) y[c] = F::of(totals.max[c], totals.sums[c], totals.losts[S::planes == 2 ? c : 0]);
    } else {
      finish_columns(x, in_stride, rows, n, totals, keeps, y, out_stride);
    }
  }
  /// Computes the results from the totals and the elements or, if `keeps` is true, from the weights
  /// in y.
  static STAVE_INLINE void finish_columns(const T* x, Index in_stride, Index rows, Index n, const Totals& totals,
                                          bool keeps, T* y, Index out_stride) {
    alignas(64) T first[softmax_columns], second[softmax_columns];
    for (Index c = 0; c < n; ++c) {
      const F f = F::made_of(totals.sums[c], S::planes == 2 ? totals.losts[c] : 0);
      first[c] = f.first;
      second[c] = f.second;
    }
    for (Index r = 0; r < rows; ++r)
      for_columns(n, [&](Index c, auto load, auto store) {
        const V subtracted = subtracted_for(V::load(totals.max + c)), a = V::load(first + c), b = V::load(second + c);
        T* to = y + r * out_stride + c;
        store(keeps ? F::finished(load(to), subtracted, a, b) : F::value(load(x + r * in_stride + c), subtracted, a, b),
              to);
      });
  }

  static constexpr Softmax kernels() { return {F::reduces, rows, columns, fold, merge, finish}; }
};

// ---- gradients ----------------------------------------------------------------------------------
// The rows are dense. core/ops/softmax.cpp has the formulas. The "winner" of a row is an element
// with more than half of the weight, if there is one. Sums that include its weight would lose
// digits, so it is treated separately.

template <class T>
struct Gradients {
  using V = Vec<T>;
  static constexpr Index lanes = V::lanes;

  /// Computes to[i] = f(a[i], b[i]).
  template <class F>
  static STAVE_INLINE void map(const T* a, const T* b, Index n, T* to, F f) {
    Index i = 0;
    for (; i + lanes <= n; i += lanes) f(V::load(a + i), V::load(b + i)).store(to + i);
    if (i < n) store_some(f(load_some<T>(a + i, n - i), load_some<T>(b + i, n - i)), to + i, n - i);
  }
  /// Returns the sum of f(a[i], b[i]); f(0, 0) must be 0.
  template <class F>
  static STAVE_INLINE double sum_of(const T* a, const T* b, Index n, F f) {
    Sums<T> sums;
    Index i = 0;
    for (; i + lanes <= n; i += lanes) sums.add(f(V::load(a + i), V::load(b + i)));
    if (i < n) sums.add(f(load_some<T>(a + i, n - i), load_some<T>(b + i, n - i)));
    double sum = 0, lost = 0;
    sums.add_to(sum, lost);
    return sum + lost;
  }
  static STAVE_INLINE V scaled(V a, V b) { return select((a == V(0)) | (b == V(0)), V(0), a * b); }

  /// Computes y (e - sum(y e)), where e = ct - ct[k] and k is the winner, the element with y > 0.5.
  /// If there is no winner, e = ct. The subtraction avoids cancellation.
  static void softmax_row(const T* y, const T* ct, Index n, T* to) {
    const V dominant(static_cast<T>(sum_of(y, ct, n, [](V p, V c) { return select(p > V(0.5), c, V(0)); })));
    const auto weigh = [&](V p, V c) { return scaled(c - dominant, p); };
    const V mean(static_cast<T>(sum_of(y, ct, n, weigh)));
    map(y, ct, n, to, [&](V p, V c) { return scaled((c - dominant) - mean, p); });
  }

  /// Computes ct - p sum(ct) with p = softmax(x). For the winner, whose weight exp(x - max) is 1,
  /// this is (ct r - c) / (1 + r), where r is the sum of the other weights, and c is the sum of the
  /// other cotangents.
  static void log_softmax_row(const T* x, const T* ct, Index n, T* to) {
    const T max = Kernel<OfLogarithms, T>::max_of(x, n);
    const V subtracted(subtracted_for(max));
    map(x, ct, n, to, [&](V a, V) { return exp(a - subtracted); });
    const auto first = [](V a, V) { return a; };
    const double weights = sum_of(to, to, n, first), total = sum_of(ct, ct, n, first);
    T dominant = 0;
    Index at = -1;
    if (weights >= 1 && weights < 2) {
      for (at = 0; at < n - 1 && to[at] != T(1);) ++at;
      const auto without = [&](const T* a) {
        return sum_of(a, a, at, first) + sum_of(a + at + 1, a + at + 1, n - at - 1, first);
      };
      const double rest = without(to), others = without(ct), own = static_cast<double>(ct[at]);
      dominant = static_cast<T>(((own == 0 ? 0 : own * rest) - others) / (1 + rest));
    }
    const V share(total == 0 ? T(0) : static_cast<T>(total / weights));
    // If the sum of the weights is 0 or NaN, the results are NaN.
    const V nothing(weights > 0 ? T(0) : static_cast<T>(__builtin_nan("")));
    map(to, ct, n, to, [&](V weight, V c) { return c - scaled(weight + nothing, share); });
    if (at >= 0) to[at] = dominant;
  }

  template <void (*row)(const T*, const T*, Index, T*)>
  static void rows(const void* x, const void* ct, Index rows, Index n, void* out) {
    for (Index r = 0; r < rows; ++r)
      row(static_cast<const T*>(x) + r * n, static_cast<const T*>(ct) + r * n, n, static_cast<T*>(out) + r * n);
  }
};

template <template <class> class F>
void fill(Softmax* row) {
  row[static_cast<int>(Dtype::float32)] = Kernel<F, float>::kernels();
  row[static_cast<int>(Dtype::float64)] = Kernel<F, double>::kernels();
}

template <class T>
void fill_gradients(stave_cpu::Kernels& table, Dtype dtype) {
  using G = Gradients<T>;
  table.softmax_gradient[OpId::softmax_gradient][static_cast<int>(dtype)] = G::template rows<G::softmax_row>;
  table.softmax_gradient[OpId::log_softmax_gradient][static_cast<int>(dtype)] = G::template rows<G::log_softmax_row>;
}

void fill_softmax(stave_cpu::Kernels& table) {
  fill<OfWeights>(table.softmax[OpId::softmax]);
  fill<OfLogarithms>(table.softmax[OpId::log_softmax]);
  fill<OfLogSum>(table.softmax[OpId::logsumexp]);
  fill_gradients<float>(table, Dtype::float32);
  fill_gradients<double>(table, Dtype::float64);
}

}  // namespace STAVE_KERNELS
