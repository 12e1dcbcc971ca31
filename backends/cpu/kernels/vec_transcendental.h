// Exponentials, logarithms, trigonometric functions, erf.
//
// Most of these functions are SLEEF's. Their error bound is 1.0 ulp, unless their name contains
// another bound. Stave calls the functions of its instruction set by name, without SLEEF's own
// dispatcher. It uses SLEEF's deterministic variants (finz, cinz). The other variants choose a path
// by the whole vector, so that sin(x) could depend on the neighbours of x. A program under vmap
// could then differ in the last bit from the same program in a loop.
// tests/backends/cpu/cpu_backend_test.cpp measures the errors against quadruple precision. Where
// SLEEF's error is larger than the bound, the fix is next to the call.
#pragma once

#include <stave/backends/cpu/kernels/vec_polynomial.h>

namespace STAVE_KERNELS {

#define STAVE_SLEEF_F32(name) STAVE_SLEEF_WITHIN_F32(u10, name)
#define STAVE_SLEEF_F64(name) STAVE_SLEEF_WITHIN_F64(u10, name)

#define STAVE_FROM_SLEEF(name)                                                      \
  STAVE_INLINE F32 name(F32 x) { return {F32::Raw(STAVE_SLEEF_F32(name)(x.raw))}; } \
  STAVE_INLINE F64 name(F64 x) { return {F64::Raw(STAVE_SLEEF_F64(name)(x.raw))}; }
STAVE_FROM_SLEEF(exp2)
STAVE_FROM_SLEEF(expm1)
STAVE_FROM_SLEEF(log2)
STAVE_FROM_SLEEF(log10)
STAVE_FROM_SLEEF(sin)
STAVE_FROM_SLEEF(cos)
STAVE_FROM_SLEEF(tan)
STAVE_FROM_SLEEF(asin)
STAVE_FROM_SLEEF(acos)
STAVE_FROM_SLEEF(atan)

/// Returns 2^n for integers n in [-126, 127].
STAVE_INLINE F32 power_of_two(Vec<std::int32_t> n) {
  return {reinterpret_cast<F32::Raw>((n + Vec<std::int32_t>(127)).raw << 23)};
}
/// e^x = 2^power (1 + rest) with |rest| < 0.42. With x = power log 2 + r, the polynomial of SLEEF's
/// expf gives e^r.
struct Exponential {
  Vec<std::int32_t> power;
  F32 rest;
};
STAVE_INLINE Exponential exponential(F32 x) {
  F32 n = rint(x * F32(1.44269504088896341));
  // log 2 is given in two parts. The first part has 16 bits, so its product with n is exact.
  F32 r = fma(n, F32(-1.42860677e-6f), fma(n, F32(-0.693145752f), x));
  constexpr float c[] = {1.98527617612853646e-4f, 1.39304355252534151e-3f, 8.33336077630519867e-3f,
                         4.16664853692054749e-2f, 0.166666671633720398f,   0.5f};
  return {{__builtin_convertvector(n.raw, Vec<std::int32_t>::Raw)}, fma(polynomial(r, c), r * r, r)};
}
/// Returns y 2^n where some results are denormal. Processors calculate with denormals a hundred
/// times more slowly. So the bits of these results are computed as the integer nearest to
/// y 2^(n + 149), by adding 2^23.
[[maybe_unused]] __attribute__((noinline)) static F32 exp_below(F32 y, Vec<std::int32_t> n, Mask<float> small) {
  const Vec<std::int32_t> zero(0), shifted = n + Vec<std::int32_t>(149);
  const Mask<std::int32_t> below{small.bits};
  const F32 tiny = y * power_of_two(select(below, shifted, zero)) + F32(0x1p23f);
  const Vec<std::int32_t> bits{reinterpret_cast<Vec<std::int32_t>::Raw>(tiny.raw) - 0x4b000000};
  const Vec<std::int32_t> normal = select(below, zero, n), half{normal.raw >> 1};
  const F32 result = y * power_of_two(half) * power_of_two(normal - half);
  return select(small, F32{reinterpret_cast<F32::Raw>(bits.raw)}, result);
}
/// Stave's own exp, used if there is a fused multiply-add, because exp is called most often.
/// Its error is at most 0.988 ulp, measured over every third float.
STAVE_INLINE F32 exp(F32 x) {
  if constexpr (!has_fma) return {F32::Raw(STAVE_SLEEF_F32(exp)(x.raw))};
  x = clamp(F32(-104), x, F32(89));  // Outside of this range the result is 0 or infinity.
  const Exponential e = exponential(x);
  const F32 y = e.rest + F32(1);
  if (const Mask<float> small = x < F32(-87.3365448f); any(small)) [[unlikely]]
    return exp_below(y, e.power, small);
  // Where the result is finite, it is normal, and has the bits of y but for the exponent.
  const Vec<std::int32_t> bits{reinterpret_cast<Vec<std::int32_t>::Raw>(y.raw) + (e.power.raw << 23)};
  return select(x > F32(88.7228394f), F32(__builtin_inff()), F32{reinterpret_cast<F32::Raw>(bits.raw)});
}
/// SLEEF's exp overflows too early, by 2e-6 of x. libm computes results so close to the bound,
/// which are rare.
STAVE_INLINE F64 exp(F64 x) {
  F64 y{F64::Raw(STAVE_SLEEF_F64(exp)(x.raw))};
  Mask<double> brink = (x > F64(709.7827)) & (x < F64(709.7828));
  if (any(brink))
    for (int i = 0; i < F64::lanes; ++i)
      if (brink.bits[i]) y.raw[i] = __builtin_exp(x.raw[i]);
  return y;
}

/// Returns log(x 2^scale) of positive normal x. With x = 2^k (1 + f), where 1 + f is in
/// [sqrt(1/2), sqrt(2)), log(1 + f) = f - f^2/2 + f^3 P(f), where P is a minimax fit.
STAVE_INLINE F32 log_of_normal(F32 x, Vec<std::int32_t> scale) {
  using Bits = Vec<std::int32_t>;
  const Bits bits{reinterpret_cast<Bits::Raw>(x.raw)};
  const Bits k{(bits - Bits(0x3f3504f3)).raw >> 23};  // 0x3f3504f3 is sqrt(1/2) as bits.
  const F32 f =
      // The subtraction wraps if x is not positive and normal.
      F32(reinterpret_cast<F32::Raw>((bits - Bits(k.raw << 23)).raw)) - F32(1);
  const F32 n{__builtin_convertvector((k + scale).raw, F32::Raw)};
  constexpr float c[] = {-0.0763450290965327f,  0.12761577348054695f, -0.1316018046633975f,  0.1420175799828562f,
                         -0.16623357534961455f, 0.200012268730962f,   -0.25000821028533193f, 0.33333331707789743f};
  // log 2 in two parts; the product of n and the first part is exact.
  const F32 high(0.693145752f), low(1.42860677e-6f);
  const F32 sum = fma(n, high, f), lost = f - fma(-n, high, sum), square = f * f;
  return sum + fma(square, F32(-0.5f), fma(square * f, polynomial(f, c), fma(n, low, lost)));
}
/// Stave's own log, used if there is a fused multiply-add, is twice as fast as SLEEF's. Its error
/// is at most 0.87 ulp, measured over every third float.
STAVE_INLINE F32 log(F32 x) {
  if constexpr (!has_fma) return {F32::Raw(STAVE_SLEEF_F32(log)(x.raw))};
  using Bits = Vec<std::int32_t>;
  const F32 least(0x1p-126f), infinity(__builtin_inff());
  const Bits bits{reinterpret_cast<Bits::Raw>(x.raw)};
  const Mask<std::int32_t> special =
      // True if x, as bits, is outside of [0x00800000, 0x7f800000): it is not positive and normal.
      bits + Bits(0x7f800000) >= Bits(-0x01000000);
  if (!any(special)) return log_of_normal(x, Bits(0));
  const Mask<float> denormal = x < least;
  F32 y = log_of_normal(select(denormal, x * F32(0x1p25f), x), Bits(denormal.bits & -25));
  y = select(x == F32(0), -infinity, y);
  y = select(x < F32(0), infinity - infinity, y);
  return select(x < infinity, y, x);  // The logarithm of infinity or NaN is x itself.
}
STAVE_INLINE F64 log(F64 x) { return {F64::Raw(STAVE_SLEEF_F64(log)(x.raw))}; }

// For |x| below these bounds, x^2 / 3 is less than a third of an ulp.
template <class T>
STAVE_INLINE Mask<T> is_tiny(Vec<T> x) {
  return abs(x) < Vec<T>(sizeof(T) == 4 ? 0x1p-13 : 0x1p-27);
}

/// Stave's own tanh, used if there is a fused multiply-add, is four times as fast as SLEEF's. It is
/// x + x^3 P(x^2), where P is a minimax fit, and 1 - 2 / (e^2x + 1) from 0.9 on. Its error is at
/// most 0.994 ulp, measured over every third float.
STAVE_INLINE F32 tanh(F32 x) {
  if constexpr (!has_fma) return select(is_tiny(x), x, F32(F32::Raw(STAVE_SLEEF_F32(tanh)(x.raw))));
  const F32 square = x * x, size = abs(x);
  constexpr float c[] = {-0.00045546054704593235f, 0.0025826694081587088f, -0.008264545526336346f,
                         0.021663543372317726f,    -0.05392930183024895f,  0.13332978266760728f,
                         -0.33333322263574977f};
  const F32 near = fma(polynomial(square, c) * square, size, size);
  // Beyond 20, the result is 1.
  const Exponential e = exponential(clamp(F32(0), size + size, F32(20)));
  const F32 power = power_of_two(e.power), far = F32(1) - F32(2) / (fma(power, e.rest, power) + F32(1));
  return copysign(select(size < F32(0.9), near, far), x);
}
/// For tiny x, where SLEEF's error is a little more than 1 ulp, tanh x = x - x^3/3 + ... is x.
STAVE_INLINE F64 tanh(F64 x) { return select(is_tiny(x), x, F64(F64::Raw(STAVE_SLEEF_F64(tanh)(x.raw)))); }

STAVE_INLINE F32 sleef_atanh(F32 x) { return {F32::Raw(STAVE_SLEEF_F32(atanh)(x.raw))}; }
STAVE_INLINE F64 sleef_atanh(F64 x) { return {F64::Raw(STAVE_SLEEF_F64(atanh)(x.raw))}; }
/// atanh x = x + x^3/3 + ...; SLEEF loses the last bits of tiny x.
template <class T>
STAVE_INLINE Vec<T> atanh(Vec<T> x) {
  return select(is_tiny(x), x, sleef_atanh(x));
}

STAVE_INLINE F32 sleef_atan2(F32 y, F32 x) { return {F32::Raw(STAVE_SLEEF_F32(atan2)(y.raw, x.raw))}; }
STAVE_INLINE F64 sleef_atan2(F64 y, F64 x) { return {F64::Raw(STAVE_SLEEF_F64(atan2)(y.raw, x.raw))}; }
/// atan q = q - q^3/3 + ...; SLEEF loses bits of denormal results.
template <class T>
STAVE_INLINE Vec<T> atan2(Vec<T> y, Vec<T> x) {
  Vec<T> quotient = y / x;
  return select(is_tiny(quotient) & (x > Vec<T>(0)), quotient, sleef_atan2(y, x));
}

/// Defines a function as `value`, an expression of x and SLEEF's result y. Where `rare` is true,
/// libm computes the function in the next wider floating-point type.
#define STAVE_FROM_SLEEF_BUT(name, value, rare)                                                                    \
  STAVE_INLINE F32 sleef_##name(F32 x) { return {F32::Raw(STAVE_SLEEF_F32(name)(x.raw))}; }                        \
  STAVE_INLINE F64 sleef_##name(F64 x) { return {F64::Raw(STAVE_SLEEF_F64(name)(x.raw))}; }                        \
  STAVE_INLINE float wide_##name(float x) { return static_cast<float>(__builtin_##name(static_cast<double>(x))); } \
  STAVE_INLINE double wide_##name(double x) {                                                                      \
    return static_cast<double>(__builtin_##name##l(static_cast<long double>(x)));                                  \
  }                                                                                                                \
  template <class T>                                                                                               \
  STAVE_INLINE Vec<T> name(Vec<T> x) {                                                                             \
    Vec<T> y = sleef_##name(x);                                                                                    \
    y = value;                                                                                                     \
    Mask<T> is_rare = rare;                                                                                        \
    if (any(is_rare))                                                                                              \
      for (int i = 0; i < Vec<T>::lanes; ++i)                                                                      \
        if (is_rare.bits[i]) y.raw[i] = wide_##name(x.raw[i]);                                                     \
    return y;                                                                                                      \
  }
// SLEEF's sinh and cosh overflow early: the exact results overflow at 89.4 and 710.5.
template <class T>
STAVE_INLINE Mask<T> near_overflow_of_sinh(Vec<T> x) {
  return (abs(x) > Vec<T>(sizeof(T) == 4 ? 88 : 709)) & (abs(x) < Vec<T>(sizeof(T) == 4 ? 90 : 711));
}
// SLEEF's asinh and acosh return infinity where x^2 overflows.
template <class T>
STAVE_INLINE Vec<T> root_of_largest() {
  return Vec<T>(sizeof(T) == 4 ? 0x1p63 : 0x1p511);
}
// sinh x = x + x^3/6 + ..., asinh x = x - x^3/6 + ...; SLEEF's error is a little more
// than 1 ulp for tiny x.
STAVE_FROM_SLEEF_BUT(sinh, select(is_tiny(x), x, y), near_overflow_of_sinh(x))
STAVE_FROM_SLEEF_BUT(cosh, y, near_overflow_of_sinh(x))
STAVE_FROM_SLEEF_BUT(asinh, select(is_tiny(x), x, y), abs(x) > root_of_largest<T>())
STAVE_FROM_SLEEF_BUT(acosh, y, x > root_of_largest<T>())

STAVE_INLINE F32 sleef_erf(F32 x) { return {F32::Raw(STAVE_SLEEF_F32(erf)(x.raw))}; }
STAVE_INLINE F64 sleef_erf(F64 x) { return {F64::Raw(STAVE_SLEEF_F64(erf)(x.raw))}; }
/// erf x = 2 / sqrt(pi) (x - x^3/3 + ...); SLEEF loses bits of denormal results.
template <class T>
STAVE_INLINE Vec<T> erf_by_sleef(Vec<T> x) {
  return select(is_tiny(x), multiply_add(x, Vec<T>(0.12837916709551257390), x), sleef_erf(x));
}
STAVE_INLINE F64 erf(F64 x) { return erf_by_sleef(x); }
/// Stave's own function, used if there is a fused multiply-add, is four times as fast as SLEEF's.
/// It is x + x P(x^2) near 0, and 1 - e^(-x Q(x)) for larger x, where P and Q are minimax fits.
STAVE_INLINE F32 erf(F32 x) {
  if constexpr (!has_fma) return erf_by_sleef(x);
  constexpr float near[] = {8.2674545411e-5f, -8.1180734560e-4f, 0.0051988298073f, -0.026858497411f,
                            0.11283679307f,   -0.37612631917f,   0.12837916613f};
  constexpr float far[] = {1.1889976121e-5f, -3.2941688551e-4f, 0.0036694370210f, -0.023819327354f,
                           0.10630361736f,   0.63511079550f,    1.1286585331f};
  const F32 size = clamp(F32(0), abs(x), F32(4));  // beyond 4, the result is 1
  const F32 tail = F32(1) - exp(-(size * polynomial(size, far)));
  return select(size < F32(0.9375), fma(polynomial(x * x, near), x, x), copysign(tail, x));
}

STAVE_INLINE F32 erfc(F32 x) { return {F32::Raw(STAVE_SLEEF_WITHIN_F32(u15, erfc)(x.raw))}; }
STAVE_INLINE F64 erfc(F64 x) { return {F64::Raw(STAVE_SLEEF_WITHIN_F64(u15, erfc)(x.raw))}; }

STAVE_INLINE F32 hypot(F32 x, F32 y) { return {F32::Raw(STAVE_SLEEF_WITHIN_F32(u05, hypot)(x.raw, y.raw))}; }
STAVE_INLINE F64 hypot(F64 x, F64 y) { return {F64::Raw(STAVE_SLEEF_WITHIN_F64(u05, hypot)(x.raw, y.raw))}; }

STAVE_INLINE F32 sleef_log1p(F32 x) { return {F32::Raw(STAVE_SLEEF_F32(log1p)(x.raw))}; }
STAVE_INLINE F64 sleef_log1p(F64 x) { return {F64::Raw(STAVE_SLEEF_F64(log1p)(x.raw))}; }
/// log1p x = x - x^2/2 + ...; SLEEF loses bits of denormal results, and returns infinity from 1e38
/// (1e307) on, where 1 + x is x.
template <class T>
STAVE_INLINE Vec<T> log1p(Vec<T> x) {
  Vec<T> y = sleef_log1p(x);
  y = select(abs(x) < Vec<T>(sizeof(T) == 4 ? 0x1p-25 : 0x1p-54), x, y);
  Mask<T> huge = x > Vec<T>(sizeof(T) == 4 ? 0x1p100 : 0x1p1000);
  return any(huge) ? select(huge, log(x), y) : y;
}

STAVE_INLINE F32 pow(F32 x, F32 y) { return {F32::Raw(STAVE_SLEEF_F32(pow)(x.raw, y.raw))}; }
/// SLEEF's pow overflows too early, by 3e-6 of the exponent. libm computes results that overflow,
/// which are rare.
STAVE_INLINE F64 pow(F64 x, F64 y) {
  F64 z{F64::Raw(STAVE_SLEEF_F64(pow)(x.raw, y.raw))};
  Mask<double> overflow = isinf(z) & isfinite(x) & isfinite(y) & (x != F64(0));
  if (any(overflow))
    for (int i = 0; i < F64::lanes; ++i)
      if (overflow.bits[i]) z.raw[i] = __builtin_pow(x.raw[i], y.raw[i]);
  return z;
}

/// Returns a b - product exactly, where `product` is the rounded a b. Without fma it splits a and b
/// into halves and multiplies these (Dekker, "A floating-point technique for extending the
/// available precision", 1971). It returns NaN where these products overflow.
template <class T>
STAVE_INLINE Vec<T> lost_of_product(Vec<T> a, Vec<T> b, Vec<T> product) {
  if constexpr (has_fma) return fma(a, b, -product);
  const Vec<T> split(sizeof(T) == 4 ? 0x1p12 + 1 : 0x1p27 + 1);
  const Vec<T> a_high = a * split - (a * split - a), b_high = b * split - (b * split - b);
  const Vec<T> a_low = a - a_high, b_low = b - b_high;
  return a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low);
}
/// Returns erfc(x / sqrt(2)). erfc multiplies the rounding error of the quotient by some x^2,
/// so the error is computed and corrected by the derivative -2 / sqrt(pi) exp(-z^2).
/// The product -(z + sqrt(z^2 + 1.6)) erfc(z) approximates this derivative with a relative error
/// of less than 1/7 for positive z.
template <class T>
STAVE_INLINE Vec<T> erfc_of_quotient(Vec<T> x) {
  const Vec<T> root(sizeof(T) == 4 ? 0x1.6a09e6p-1 : 0x1.6a09e667f3bcdp-1);
  const Vec<T> rest(sizeof(T) == 4 ? 0x1.9fcef4p-27 : -0x1.bdd3413b26456p-55);
  const Vec<T> z = x * root;
  const Vec<T> lost = lost_of_product(x, root, z) + x * rest;
  const Vec<T> slope = z + sqrt(z * z + Vec<T>(1.6));
  const Vec<T> y = erfc(z), moved = y - y * (lost * slope);
  return select((z > Vec<T>(0)) & isfinite(lost * slope), moved, y);
}
STAVE_INLINE F64 erfc_of_root_half(F64 x) { return erfc_of_quotient(x); }
/// Stave's own function, used if there is a fused multiply-add, is four times as fast as
/// erfc_of_quotient. For positive x it is e^(-x^2 / 2) t (1 + P(t - 1/2)) with t = k / (x + k),
/// where P is a minimax fit. The rounding errors of x^2, x + k, t and the product before the last
/// one are corrected.
STAVE_INLINE F32 erfc_of_root_half(F32 x) {
  if constexpr (!has_fma) return erfc_of_quotient(x);
  // Beyond 14.5, the result is 0.
  const F32 size = clamp(F32(0), abs(x), F32(14.5)), k(1.25);
  const F32 sum = size + k, other = sum - size, lost_of_sum = (size - (sum - other)) + (k - other);
  const F32 t = k / sum, lost_of_t = fma(-t, lost_of_sum, fma(-t, sum, k)) * (t * F32(0.8));
  constexpr float c[] = {1.6707404801f,  -1.7831897477f, -0.3583290593f, 1.3738105335f, -0.8961280716f,
                         0.1848862862f,  0.3421937990f,  -0.5563433708f, 0.3669387600f, 0.1047887914f,
                         -0.5149064448f, 0.3637552405f,  -0.0769587267f};
  const F32 p = polynomial(t - F32(0.5), c), high = fma(t, p, t), low = fma(t, p, t - high) + lost_of_t;
  const F32 half = size * F32(0.5), square = half * size, lost_of_square = fma(half, size, -square);
  const Exponential e = exponential(-square);
  const F32 rest = e.rest - fma(lost_of_square, e.rest, lost_of_square), y = fma(high, rest, low) + high;
  const Mask<float> small = size > F32(13.0030566f);
  const F32 tail = any(small) ? exp_below(y, e.power, small) : y * power_of_two(e.power);
  return select(x < F32(0), F32(2) - tail, tail);
}

}  // namespace STAVE_KERNELS
