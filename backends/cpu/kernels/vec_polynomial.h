// Functions of Vec<T> that the approximations of exp, log and other functions use:
// a fused multiply-add and the evaluation of polynomials. The file also has isinf, isfinite,
// and the rounding functions of integer vectors, which return their argument.
#pragma once

#include <stave/backends/cpu/kernels/isa.h>

#include <machine.h>

namespace STAVE_KERNELS {

template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> trunc(Vec<T> x) {
  return x;
}
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> floor(Vec<T> x) {
  return x;
}
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> ceil(Vec<T> x) {
  return x;
}
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> rint(Vec<T> x) {
  return x;
}

template <class T>
STAVE_INLINE Mask<T> isinf(Vec<T> x) {
  if constexpr (is_real<T>) return abs(x) == Vec<T>(__builtin_inf());
  else return x != x;
}
template <class T>
STAVE_INLINE Mask<T> isfinite(Vec<T> x) {
  if constexpr (is_real<T>) return abs(x) < Vec<T>(__builtin_inf());
  else return x == x;
}

/// Returns a b + c, with one rounding if the machine has an instruction for it. The fused
/// operation is explicit, because the compiler's own contractions may differ from one inlined copy
/// to the next.
template <class T>
STAVE_INLINE Vec<T> multiply_add(Vec<T> a, Vec<T> b, Vec<T> c) {
  if constexpr (has_fma) return fma(a, b, c);
  else return a * b + c;
}

/// Returns c[0] x^(n-1) + ... + c[n-1].
template <class T, int n>
STAVE_INLINE Vec<T> polynomial(Vec<T> x, const T (&c)[n]) {
  Vec<T> sum(c[0]);
  for (int i = 1; i < n; ++i) sum = multiply_add(sum, x, Vec<T>(c[i]));
  return sum;
}

}  // namespace STAVE_KERNELS
