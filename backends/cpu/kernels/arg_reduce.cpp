// Kernels of argmax and argmin. As in NumPy, NaN counts as larger (argmin: smaller) than every
// number, and the first of equal elements is chosen.
#include <stave/backends/cpu/kernels/fill.h>
#include <stave/backends/cpu/kernels/half.h>

namespace STAVE_KERNELS {

using stave_cpu::ArgReduction;
using stave_cpu::Dtype;
using stave_cpu::Index;
using stave_cpu::OpId;

/// Returns true if a is strictly larger than b (`max`), or strictly smaller (not `max`), where NaN
/// counts as extreme. a and b are vectors or scalars.
template <bool max, class V>
STAVE_INLINE auto before(V a, V b) {
  if constexpr (max) return (a > b) | ((a != a) & (b == b));
  else return (a < b) | ((a != a) & (b == b));
}
template <class T>
STAVE_INLINE bool same(T a, T b) {
  return (a == b) | ((a != a) & (b != b));
}

template <bool max, class T>
struct Arg {
  using V = VecOf<T>;
  using C = Computed<T>;

  static STAVE_INLINE C extreme(const T* x, Index n) {
    C best = x[0];
    Index i = 0;
    if (n >= V::lanes) {
      V wide = load<T>(x);
      for (i = V::lanes; i + V::lanes <= n; i += V::lanes) {
        V next = load<T>(x + i);
        wide = select(before<max>(next, wide), next, wide);
      }
      C lanes[V::lanes];
      wide.store(lanes);
      for (C lane : lanes) best = before<max>(lane, best) ? lane : best;
    }
    for (; i < n; ++i) best = before<max>(C(x[i]), best) ? C(x[i]) : best;
    return best;
  }

  /// Computes the largest (or smallest) element of each block by a vector loop. It searches for the
  /// element's position only if the element beats those of all earlier blocks.
  static Index row(const void* in, Index n, void* value) {
    constexpr Index block = 1024;
    const T* x = static_cast<const T*>(in);
    C best = x[0];
    Index where = 0;
    for (Index first = 0; first < n; first += block) {
      Index count = n - first < block ? n - first : block;
      const C candidate = extreme(x + first, count);
      if (!before<max>(candidate, best)) continue;
      best = candidate;
      for (where = first; !same(C(x[where]), best);) ++where;
    }
    *static_cast<T*>(value) = T(best);
    return where;
  }

  static bool beats(const void* a, const void* b) {
    return before<max>(C(*static_cast<const T*>(a)), C(*static_cast<const T*>(b)));
  }

  static void columns(const void* in, Index n, Index position, void* best, Index* where) {
    const T* x = static_cast<const T*>(in);
    T* values = static_cast<T*>(best);
    for (Index c = 0; c < n; ++c) {
      bool better = before<max>(C(x[c]), C(values[c]));
      values[c] = better ? x[c] : values[c];
      where[c] = better ? position : where[c];
    }
  }
};

template <bool max, class T>
void set_arg(ArgReduction* row, Dtype dtype) {
  row[static_cast<int>(dtype)] = {Arg<max, T>::row, Arg<max, T>::beats, Arg<max, T>::columns};
}
template <bool max>
void fill_arg(ArgReduction* row) {
#define X(name, type) set_arg<max, Element<type>>(row, Dtype::name);
  STAVE_REALS(X)
#undef X
}

void fill_arg_reduce(stave_cpu::Kernels& table) {
  fill_arg<true>(table.arg_reduce[OpId::argmax]);
  fill_arg<false>(table.arg_reduce[OpId::argmin]);
}

}  // namespace STAVE_KERNELS
