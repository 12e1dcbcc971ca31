// Scan kernels. They process the elements of a column one after the other, and adjacent columns
// together, in vector loops.
//
// Accuracy: float32 and sixteen-bit floats are computed in double. float64 sums are compensated:
// the rounding errors of the running sum are summed separately (Neumaier, "Rundungsfehleranalyse
// einiger Verfahren zur Summation endlicher Summen", 1974). Knuth's TwoSum gives each error.
#include <limits>

#include <stave/backends/cpu/kernels/fill.h>
#include <stave/backends/cpu/kernels/half.h>

namespace STAVE_KERNELS {

using stave_cpu::Dtype;
using stave_cpu::Index;
using stave_cpu::OpId;
using stave_cpu::Scan;

struct SumUpTo {
  static constexpr int inputs = 1;
  template <class S>
  static constexpr S initial = 0;
  template <class S>
  static STAVE_INLINE S next(S sum, S x, S) {
    return sum + x;
  }
};
struct ProdUpTo {
  static constexpr int inputs = 1;
  template <class S>
  static constexpr S initial = 1;
  template <class S>
  static STAVE_INLINE S next(S product, S x, S) {
    return times(product, x);
  }
};
// The step of cummax and cummin. After a NaN, all results are NaN.
struct MaxUpTo {
  static constexpr int inputs = 1;
  template <class S>
  static constexpr S initial =
      std::numeric_limits<S>::has_infinity ? -std::numeric_limits<S>::infinity() : std::numeric_limits<S>::lowest();
  template <class S>
  static STAVE_INLINE S next(S max, S x, S) {
    return ((max > x) | (max != max)) ? max : x;
  }
};
struct MinUpTo {
  static constexpr int inputs = 1;
  template <class S>
  static constexpr S initial =
      std::numeric_limits<S>::has_infinity ? std::numeric_limits<S>::infinity() : std::numeric_limits<S>::max();
  template <class S>
  static STAVE_INLINE S next(S min, S x, S) {
    return ((min < x) | (min != min)) ? min : x;
  }
};
struct Recurrence {
  static constexpr int inputs = 2;
  template <class S>
  static constexpr S initial = 0;
  template <class S>
  static STAVE_INLINE S next(S h, S a, S b) {
    const bool vanishes = (a == 0) | (h == 0);
    return (vanishes ? S(0) : times(a, h)) + b;
  }
};

/// A scan of elements of T that is computed in type S. Signed integers are computed as unsigned
/// integers, which gives the same bits.
template <class F, class T, class S>
struct Running {
  static void start(void* state, Index n) {
    for (Index c = 0; c < n; ++c) static_cast<S*>(state)[c] = F::template initial<S>;
  }
  static void row(const void* const* in, Index n, void* state, void* out) {
    const T* __restrict a = static_cast<const T*>(in[0]);
    const T* __restrict b = static_cast<const T*>(in[F::inputs - 1]);
    T* __restrict y = static_cast<T*>(out);
    S value = *static_cast<S*>(state);
    for (Index i = 0; i < n; ++i) {
      value = F::next(value, S(a[i]), S(b[i]));
      y[i] = static_cast<T>(value);
    }
    *static_cast<S*>(state) = value;
  }
  static void columns(const void* const* in, Index n, void* state, void* out) {
    const T* __restrict a = static_cast<const T*>(in[0]);
    const T* __restrict b = static_cast<const T*>(in[F::inputs - 1]);
    T* __restrict y = static_cast<T*>(out);
    S* __restrict values = static_cast<S*>(state);
    for (Index c = 0; c < n; ++c) {
      values[c] = F::next(values[c], S(a[c]), S(b[c]));
      y[c] = static_cast<T>(values[c]);
    }
  }
};

/// Compensated sums. The state is n running sums of doubles, then n sums of rounding errors.
struct CompensatedUpTo {
  static STAVE_INLINE double next(double& sum, double& lost, double x) {
    const double total = sum + x, added = total - sum;
    lost += (sum - (total - added)) + (x - added);
    sum = total;
    // A sum that is infinite or NaN is not corrected.
    return total - total == 0 ? total + lost : total;
  }
  static void start(void* state, Index n) {
    __builtin_memset(state, 0, static_cast<std::size_t>(2 * n) * sizeof(double));
  }
  static void row(const void* const* in, Index n, void* state, void* out) {
    const double* __restrict x = static_cast<const double*>(in[0]);
    double* __restrict y = static_cast<double*>(out);
    double* sums = static_cast<double*>(state);
    double sum = sums[0], lost = sums[1];
    for (Index i = 0; i < n; ++i) y[i] = next(sum, lost, x[i]);
    sums[0] = sum;
    sums[1] = lost;
  }
  static void columns(const void* const* in, Index n, void* state, void* out) {
    const double* __restrict x = static_cast<const double*>(in[0]);
    double* __restrict y = static_cast<double*>(out);
    double* __restrict sums = static_cast<double*>(state);
    double* __restrict losses = sums + n;
    for (Index c = 0; c < n; ++c) y[c] = next(sums[c], losses[c], x[c]);
  }
};

template <class F, class T, class S>
void set(Scan* row, Dtype dtype) {
  using R = Running<F, T, S>;
  row[static_cast<int>(dtype)] = {1, sizeof(S), R::start, R::row, R::columns};
}

/// The type in which sums and products are computed: at least 32 bits for integers,
/// double for floats.
template <class T>
struct ScannedIn {
  using Type = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
};
template <class T>
  requires(!std::is_integral_v<T>)
struct ScannedIn<T> {
  using Type = double;
};

template <class F>
void fill(Scan* row) {
#define X(name, type) set<F, type, typename ScannedIn<type>::Type>(row, Dtype::name);
  STAVE_INTEGERS(X)
  STAVE_FLOATS(X)
#undef X
}

/// Scans that do not round are computed in the element type, and for sixteen-bit floats in float.
template <class F>
void fill_extreme(Scan* row) {
#define X(name, type) set<F, Element<type>, Computed<Element<type>>>(row, Dtype::name);
  STAVE_REALS(X)
#undef X
}

void fill_scan(stave_cpu::Kernels& table) {
  const auto row = [&](OpId op) { return table.scan[op]; };
  fill<SumUpTo>(row(OpId::cumulative_sum));
  using C = CompensatedUpTo;
  row(OpId::cumulative_sum)[static_cast<int>(Dtype::float64)] = {2, sizeof(double), C::start, C::row, C::columns};
  fill<ProdUpTo>(row(OpId::cumulative_prod));
  fill_extreme<MaxUpTo>(row(OpId::cummax));
  fill_extreme<MinUpTo>(row(OpId::cummin));
  fill<Recurrence>(row(OpId::linear_recurrence));
}

}  // namespace STAVE_KERNELS
