// Kernels of layer_norm, which normalises each row by its own mean and variance, and of its
// gradient. A row is read from memory once: the first sum brings it into a cache. Sums of floats
// are computed in pieces that are added in double. A row whose squares overflow or underflow is
// divided by a power of two near its largest element first.
#include <cstdint>
#include <limits>

#include <stave/backends/cpu/kernels/fill.h>
#include <stave/backends/cpu/kernels/vec_math.h>

namespace STAVE_KERNELS {

using stave_cpu::Dtype;
using stave_cpu::Index;
using stave_cpu::Normalization;

namespace {

template <class T>
struct Rows {
  using V = Vec<T>;
  static constexpr int lanes = V::lanes;
  // The number of elements that are summed in T before the sum is added in double.
  static constexpr Index piece = 64 * lanes;
  static constexpr int ways = 4;

  /// Returns the first n lanes of v, and 0 in the others.
  static STAVE_INLINE V first_of(V v, Index n) {
    T values[lanes];
    v.store(values);
    return load_some<T>(values, n);
  }
  // Returns a b, and 0 where a or b is 0, even if the other is infinite or NaN.
  static STAVE_INLINE V product(V a, V b) { return select((a == V(0)) | (b == V(0)), V(0), a * b); }
  /// The sum of first(x[i]) and, if `both` is true, that of second(x[i]).
  struct Pair {
    double first = 0, second = 0;
  };
  template <bool both, class F, class G>
  static STAVE_INLINE Pair sums(const T* x, Index n, F first, G second) {
    Pair total;
    for (Index i = 0; i < n;) {
      const Index end = i + piece < n ? i + piece : n;
      V firsts[ways], seconds[ways];
      for (int w = 0; w < ways; ++w) firsts[w] = seconds[w] = V(0);
      for (; i + ways * lanes <= end; i += ways * lanes)
        for (int w = 0; w < ways; ++w) {
          const V v = V::load(x + i + w * lanes);
          firsts[w] = firsts[w] + first(v);
          if constexpr (both) seconds[w] = seconds[w] + second(v);
        }
      for (; i + lanes <= end; i += lanes) {
        firsts[0] = firsts[0] + first(V::load(x + i));
        if constexpr (both) seconds[0] = seconds[0] + second(V::load(x + i));
      }
      if (i < end) {
        const V v = load_some<T>(x + i, end - i);
        firsts[1] = firsts[1] + first_of(first(v), end - i);
        if constexpr (both) seconds[1] = seconds[1] + first_of(second(v), end - i);
      }
      total.first += static_cast<double>(sum_across((firsts[0] + firsts[1]) + (firsts[2] + firsts[3])));
      if constexpr (both)
        total.second += static_cast<double>(sum_across((seconds[0] + seconds[1]) + (seconds[2] + seconds[3])));
      i = end;
    }
    return total;
  }

  /// The statistics of a row x. The normalised row is h = (scale x - near) inverse + offset,
  /// where `scale` is a power of two. `near` is the mean of scale x, rounded to T,
  /// and the mean of scale x - near gives the correction `offset`.
  struct Statistics {
    T scale, near, inverse, offset;
    double spread;  // variance + epsilon, for scale x
    STAVE_INLINE V h(V v) const { return multiply_add(v * V(scale) - V(near), V(inverse), V(offset)); }
    // Returns 1 / sqrt(variance + epsilon), for x itself.
    STAVE_INLINE T slope() const { return inverse * scale; }
  };
  static STAVE_INLINE Statistics statistics(const T* x, Index n, double epsilon, T scale) {
    const auto count = static_cast<double>(n);
    const V s(scale);
    const auto scaled = [s](V v) { return v * s; };
    const T near = static_cast<T>(sums<false>(x, n, scaled, scaled).first / count);
    const V m(near);
    const Pair apart = sums<true>(
        x, n, [s, m](V v) { return v * s - m; }, [s, m](V v) { return (v * s - m) * (v * s - m); });
    const double off = apart.first / count, variance = apart.second / count - off * off;
    const double by = static_cast<double>(scale), spread = (variance > 0 ? variance : variance * 0) + epsilon * by * by;
    const double inverse = spread == 0 ? 1 : 1 / __builtin_sqrt(spread);
    return {scale, near, static_cast<T>(inverse), static_cast<T>(-off * inverse), spread};
  }
  /// Computes the statistics of a row whose squares or sums overflow, or whose squares underflow
  /// so that the error matters in spite of epsilon. `scale` is then a power of two near
  /// 1 / (the largest element).
  static Statistics rescaled(const T* x, Index n, double epsilon, const Statistics& plain) {
    constexpr double finite = static_cast<double>(std::numeric_limits<T>::max());
    double largest = 0;
    for (Index i = 0; i < n; ++i) {
      const double size = __builtin_fabs(static_cast<double>(x[i]));
      if (!(size <= finite)) return plain;  // x[i] is infinite or NaN, and so are the results
      largest = size > largest ? size : largest;
    }
    if (largest == 0) return plain;
    constexpr int bias = 1023;
    // The largest exponent whose power of two has a reciprocal that is a normal number.
    constexpr int most = std::numeric_limits<T>::max_exponent - 2;
    const int exponent = static_cast<int>(__builtin_bit_cast(std::uint64_t, largest) >> 52) - bias;
    const int by = exponent > most ? -most : exponent < -most ? most : -exponent;
    const double scale = __builtin_bit_cast(double, static_cast<std::uint64_t>(bias + by) << 52);
    const Statistics found = statistics(x, n, epsilon, static_cast<T>(scale));
    return found.spread == 0 ? plain : found;
  }
  static STAVE_INLINE Statistics statistics(const T* x, Index n, double epsilon) {
    constexpr double most = static_cast<double>(std::numeric_limits<T>::max());
    constexpr double least = static_cast<double>(std::numeric_limits<T>::min()) / std::numeric_limits<T>::epsilon() /
                             std::numeric_limits<T>::epsilon();
    const Statistics plain = statistics(x, n, epsilon, T(1));
    return plain.spread >= least && plain.spread <= most ? plain : rescaled(x, n, epsilon, plain);
  }

  static void rows(const void* in, const void* weight, const void* bias, Index rows, Index n, double epsilon,
                   void* out) {
    const T *w = static_cast<const T*>(weight), *b = static_cast<const T*>(bias);
    for (Index r = 0; r < rows; ++r) {
      const T* const x = static_cast<const T*>(in) + r * n;
      T* const y = static_cast<T*>(out) + r * n;
      const Statistics s = statistics(x, n, epsilon);
      const auto value = [&](V v, V wv, V bv) { return multiply_add(s.h(v), wv, bv); };
      Index i = 0;
      for (; i + lanes <= n; i += lanes) value(V::load(x + i), V::load(w + i), V::load(b + i)).store(y + i);
      if (const Index rest = n - i; rest > 0)
        store_some(value(load_some<T>(x + i, rest), load_some<T>(w + i, rest), load_some<T>(b + i, rest)), y + i, rest);
    }
  }

  // ---- the gradient -----------------------------------------------------------------------------

  /// The sums along one row that the gradient of x needs, where u = weight ct, and h is the
  /// normalised row. The gradients of weight and bias are sums over rows; sums_of_row adds the
  /// row's terms of these sums to gh_sum and g_sum.
  struct Sums {
    double u = 0, uh = 0;  // the sums of u and of u h
    bool any = false;      // true if some u is not 0
  };
  static STAVE_INLINE Sums sums_of_row(const T* x, const T* w, const T* g, Index n, Statistics s, T* gh_sum, T* g_sum) {
    Sums total;
    Mask<T> any{};
    V u_sum(0), uh_sum(0);
    const auto step = [&](V xv, V wv, V gv, V ghv, V gsv, auto store) {
      const V h = s.h(xv), u = product(wv, gv);
      any = any | (u != V(0));
      u_sum = u_sum + u;
      uh_sum = uh_sum + product(u, h);
      store(ghv + product(gv, h), gsv + gv);
    };
    for (Index i = 0; i < n;) {
      const Index end = i + piece < n ? i + piece : n;
      for (; i + lanes <= end; i += lanes)
        step(V::load(x + i), V::load(w + i), V::load(g + i), V::load(gh_sum + i), V::load(g_sum + i), [&](V a, V b) {
          a.store(gh_sum + i);
          b.store(g_sum + i);
        });
      if (const Index rest = end - i; rest > 0)
        step(load_some<T>(x + i, rest), load_some<T>(w + i, rest), load_some<T>(g + i, rest),
             load_some<T>(gh_sum + i, rest), load_some<T>(g_sum + i, rest), [&](V a, V b) {
               store_some(a, gh_sum + i, rest);
               store_some(b, g_sum + i, rest);
             });
      total.u += static_cast<double>(sum_across(u_sum));
      total.uh += static_cast<double>(sum_across(uh_sum));
      u_sum = uh_sum = V(0);
      i = end;
    }
    total.any = STAVE_KERNELS::any(any);
    return total;
  }

  static STAVE_INLINE void gradient_of_row(const T* x, const T* w, const T* g, Index n, Statistics s, const Sums& sums,
                                           T* out) {
    const auto count = static_cast<double>(n);
    const V slope(s.slope()), u_mean(static_cast<T>(sums.u / count)), uh_mean(static_cast<T>(sums.uh / count));
    const Mask<T> flows = V(sums.any ? T(1) : T(0)) != V(0);
    const auto value = [&](V xv, V wv, V gv) {
      return select(flows, slope * ((product(wv, gv) - u_mean) - s.h(xv) * uh_mean), V(0));
    };
    Index i = 0;
    for (; i + lanes <= n; i += lanes) value(V::load(x + i), V::load(w + i), V::load(g + i)).store(out + i);
    if (const Index rest = n - i; rest > 0)
      store_some(value(load_some<T>(x + i, rest), load_some<T>(w + i, rest), load_some<T>(g + i, rest)), out + i, rest);
  }

  static void gradient(const void* in, const void* weight, const void* ct, Index rows, Index n, double epsilon,
                       void* out, double* ct_weight, double* ct_bias, void* work) {
    // The number of rows whose terms are summed in T before they are added in double.
    constexpr Index group = 16;
    const T* const w = static_cast<const T*>(weight);
    T *const gh_sum = static_cast<T*>(work), *const g_sum = gh_sum + n;
    for (Index first = 0; first < rows; first += group) {
      for (Index i = 0; i < 2 * n; ++i) gh_sum[i] = 0;
      for (Index r = first; r < first + group && r < rows; ++r) {
        const T *const x = static_cast<const T*>(in) + r * n, *const g = static_cast<const T*>(ct) + r * n;
        const Statistics s = statistics(x, n, epsilon);
        const Sums sums = sums_of_row(x, w, g, n, s, gh_sum, g_sum);
        gradient_of_row(x, w, g, n, s, sums, static_cast<T*>(out) + r * n);
      }
      for (Index i = 0; i < n; ++i) {
        ct_weight[i] += static_cast<double>(gh_sum[i]);
        ct_bias[i] += static_cast<double>(g_sum[i]);
      }
    }
  }

  static constexpr Normalization kernels() { return {rows, gradient}; }
};

}  // namespace

void fill_normalize(stave_cpu::Kernels& table) {
  table.layer_norm[static_cast<int>(Dtype::float32)] = Rows<float>::kernels();
  table.layer_norm[static_cast<int>(Dtype::float64)] = Rows<double>::kernels();
}

}  // namespace STAVE_KERNELS
