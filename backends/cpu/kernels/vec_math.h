// The functions that elementwise operations call, on Vec<T>: found by argument-dependent lookup.
//
// Transcendental functions are SLEEF's, with a bound of 1.0 ulp unless another stands in their name, named by instruction set to skip
// its own dispatcher.
// Of its variants we take the deterministic ones (finz, cinz): the others choose a path by the whole vector, so that
// sin(x) could depend on the neighbours of x, and a vmap'ed program could differ from the loop in the last bit.
// Measured against quadruple precision in tests/cpu_backend_test.cpp; where SLEEF is off, the fix stands beside the call.
#pragma once

#include <stave/backends/cpu/kernels/isa.h>
#include <stave/core/ops/erfinv.h>
#include <stave/core/ops/polygamma.h>

#include <machine.h>

namespace STAVE_KERNELS {

// ---- rounding ---------------------------------------------------------------------------------------------

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

/// a b + c, in one rounding where the machine has it: said explicitly, because what a compiler contracts of itself may
/// differ from one inlined copy to the next.
template <class T>
STAVE_INLINE Vec<T> multiply_add(Vec<T> a, Vec<T> b, Vec<T> c) {
  if constexpr (has_fma) return fma(a, b, c);
  else return a * b + c;
}

/// c[0] x^(n-1) + ... + c[n-1]
template <class T, int n>
STAVE_INLINE Vec<T> polynomial(Vec<T> x, const T (&c)[n]) {
  Vec<T> sum(c[0]);
  for (int i = 1; i < n; ++i) sum = multiply_add(sum, x, Vec<T>(c[i]));
  return sum;
}

// ---- exponentials, logarithms, trigonometry, erf ----------------------------------------------------------

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

/// 2^n for integers n in [-126, 127].
STAVE_INLINE F32 power_of_two(Vec<std::int32_t> n) {
  return {reinterpret_cast<F32::Raw>((n + Vec<std::int32_t>(127)).raw << 23)};
}
/// e^x = 2^power (1 + rest), |rest| < 0.42: x = power log 2 + r, and e^r by the polynomial of SLEEF's expf.
struct Exponential {
  Vec<std::int32_t> power;
  F32 rest;
};
STAVE_INLINE Exponential exponential(F32 x) {
  F32 n = rint(x * F32(1.44269504088896341));
  F32 r = fma(n, F32(-1.42860677e-6f), fma(n, F32(-0.693145752f), x));  // log 2 in two parts, the first of 16 bits
  constexpr float c[] = {1.98527617612853646e-4f, 1.39304355252534151e-3f, 8.33336077630519867e-3f,
                         4.16664853692054749e-2f, 0.166666671633720398f,   0.5f};
  return {{__builtin_convertvector(n.raw, Vec<std::int32_t>::Raw)}, fma(polynomial(r, c), r * r, r)};
}
/// y 2^n where some results are denormal, with which processors calculate a hundred times slower: the bits of these are the integer
/// nearest to y 2^(n + 149), as a sum with 2^23 has it.
[[maybe_unused]] __attribute__((noinline)) static F32 exp_below(F32 y, Vec<std::int32_t> n, Mask<float> small) {
  const Vec<std::int32_t> zero(0), shifted = n + Vec<std::int32_t>(149);
  const Mask<std::int32_t> below{small.bits};
  const F32 tiny = y * power_of_two(select(below, shifted, zero)) + F32(0x1p23f);
  const Vec<std::int32_t> bits{reinterpret_cast<Vec<std::int32_t>::Raw>(tiny.raw) - 0x4b000000};
  const Vec<std::int32_t> normal = select(below, zero, n), half{normal.raw >> 1};
  const F32 result = y * power_of_two(half) * power_of_two(normal - half);
  return select(small, F32{reinterpret_cast<F32::Raw>(bits.raw)}, result);
}
/// Our own where it takes fused multiply-adds, because it is the hottest. 0.988 ulp at most, over every third float.
STAVE_INLINE F32 exp(F32 x) {
  if constexpr (!has_fma) return {F32::Raw(STAVE_SLEEF_F32(exp)(x.raw))};
  x = clamp(F32(-104), x, F32(89));  // beyond, the result is 0 or infinity all the same
  const Exponential e = exponential(x);
  const F32 y = e.rest + F32(1);
  if (const Mask<float> small = x < F32(-87.3365448f); any(small)) [[unlikely]]
    return exp_below(y, e.power, small);
  const Vec<std::int32_t> half{e.power.raw >> 1};  // 2^n in two steps, so that neither overflows
  return y * power_of_two(half) * power_of_two(e.power - half);
}
/// SLEEF's overflows 2e-6 early. Numbers so close to the bound are rare: libm decides about them.
STAVE_INLINE F64 exp(F64 x) {
  F64 y{F64::Raw(STAVE_SLEEF_F64(exp)(x.raw))};
  Mask<double> brink = (x > F64(709.7827)) & (x < F64(709.7828));
  if (any(brink))
    for (int i = 0; i < F64::lanes; ++i)
      if (brink.bits[i]) y.raw[i] = __builtin_exp(x.raw[i]);
  return y;
}

/// log x of positive normal x, times 2^scale: x = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), and log(1 + f) = f - f^2/2 + f^3 P(f),
/// P a minimax fit.
STAVE_INLINE F32 log_of_normal(F32 x, Vec<std::int32_t> scale) {
  using Bits = Vec<std::int32_t>;
  const Bits bits{reinterpret_cast<Bits::Raw>(x.raw)};
  const Bits k{(bits - Bits(0x3f3504f3)).raw >> 23};  // from the bits of sqrt(1/2)
  const F32 f =
      F32(reinterpret_cast<F32::Raw>((bits - Bits(k.raw << 23)).raw)) - F32(1);  // wrapping, where x is none of these
  const F32 n{__builtin_convertvector((k + scale).raw, F32::Raw)};
  constexpr float c[] = {-0.0763450290965327f,  0.12761577348054695f, -0.1316018046633975f,  0.1420175799828562f,
                         -0.16623357534961455f, 0.200012268730962f,   -0.25000821028533193f, 0.33333331707789743f};
  const F32 high(0.693145752f), low(1.42860677e-6f);  // log 2; n times the first part is exact
  const F32 sum = fma(n, high, f), lost = f - fma(-n, high, sum), square = f * f;
  return sum + fma(square, F32(-0.5f), fma(square * f, polynomial(f, c), fma(n, low, lost)));
}
/// Our own where it takes fused multiply-adds, twice as fast as SLEEF's. 0.87 ulp at most, over every third float.
STAVE_INLINE F32 log(F32 x) {
  if constexpr (!has_fma) return {F32::Raw(STAVE_SLEEF_F32(log)(x.raw))};
  using Bits = Vec<std::int32_t>;
  const F32 least(0x1p-126f), infinity(__builtin_inff());
  const Bits bits{reinterpret_cast<Bits::Raw>(x.raw)};
  const Mask<std::int32_t> special =
      bits + Bits(0x7f800000) >= Bits(-0x01000000);  // outside of [0x00800000, 0x7f800000)
  if (!any(special)) return log_of_normal(x, Bits(0));
  const Mask<float> denormal = x < least;
  F32 y = log_of_normal(select(denormal, x * F32(0x1p25f), x), Bits(denormal.bits & -25));
  y = select(x == F32(0), -infinity, y);
  y = select(x < F32(0), infinity - infinity, y);
  return select(x < infinity, y, x);  // infinity and NaN
}
STAVE_INLINE F64 log(F64 x) { return {F64::Raw(STAVE_SLEEF_F64(log)(x.raw))}; }

// Below these bounds x^2 / 3 is less than a third of an ulp.
template <class T>
STAVE_INLINE Mask<T> is_tiny(Vec<T> x) {
  return abs(x) < Vec<T>(sizeof(T) == 4 ? 0x1p-13 : 0x1p-27);
}

/// Our own where it takes fused multiply-adds, four times as fast as SLEEF's: x + x^3 P(x^2), P a minimax fit, and from 0.9 on
/// 1 - 2 / (e^2x + 1). 0.994 ulp at most, over every third float.
STAVE_INLINE F32 tanh(F32 x) {
  if constexpr (!has_fma) return select(is_tiny(x), x, F32(F32::Raw(STAVE_SLEEF_F32(tanh)(x.raw))));
  const F32 square = x * x, size = abs(x);
  constexpr float c[] = {-0.00045546054704593235f, 0.0025826694081587088f, -0.008264545526336346f,
                         0.021663543372317726f,    -0.05392930183024895f,  0.13332978266760728f,
                         -0.33333322263574977f};
  const F32 near = fma(polynomial(square, c) * square, size, size);
  const Exponential e = exponential(clamp(F32(0), size + size, F32(20)));  // beyond, the result is 1
  const F32 power = power_of_two(e.power), far = F32(1) - F32(2) / (fma(power, e.rest, power) + F32(1));
  return copysign(select(size < F32(0.9), near, far), x);
}
/// tanh x = x - x^3/3 + ...; SLEEF is a little more than 1 ulp off for tiny x.
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

/// SLEEF's value y, or what stands for it for some x; what is `rare` libm computes, in the next wider float.
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
// SLEEF's overflow early: the results do at 89.4 and 710.5.
template <class T>
STAVE_INLINE Mask<T> near_overflow_of_sinh(Vec<T> x) {
  return (abs(x) > Vec<T>(sizeof(T) == 4 ? 88 : 709)) & (abs(x) < Vec<T>(sizeof(T) == 4 ? 90 : 711));
}
// SLEEF's are infinite where x^2 is.
template <class T>
STAVE_INLINE Vec<T> root_of_largest() {
  return Vec<T>(sizeof(T) == 4 ? 0x1p63 : 0x1p511);
}
// sinh x = x + x^3/6 + ..., asinh x = x - x^3/6 + ...; SLEEF is a little more than 1 ulp off for tiny x.
STAVE_FROM_SLEEF_BUT(sinh, select(is_tiny(x), x, y), near_overflow_of_sinh(x))
STAVE_FROM_SLEEF_BUT(cosh, y, near_overflow_of_sinh(x))
STAVE_FROM_SLEEF_BUT(asinh, select(is_tiny(x), x, y), abs(x) > root_of_largest<T>())
STAVE_FROM_SLEEF_BUT(acosh, y, x > root_of_largest<T>())

STAVE_INLINE F32 sleef_erf(F32 x) { return {F32::Raw(STAVE_SLEEF_F32(erf)(x.raw))}; }
STAVE_INLINE F64 sleef_erf(F64 x) { return {F64::Raw(STAVE_SLEEF_F64(erf)(x.raw))}; }
/// erf x = 2 / sqrt(pi) (x - x^3/3 + ...); SLEEF loses bits of denormal results.
template <class T>
STAVE_INLINE Vec<T> erf(Vec<T> x) {
  return select(is_tiny(x), multiply_add(x, Vec<T>(0.12837916709551257390), x), sleef_erf(x));
}

STAVE_INLINE F32 erfc(F32 x) { return {F32::Raw(STAVE_SLEEF_WITHIN_F32(u15, erfc)(x.raw))}; }
STAVE_INLINE F64 erfc(F64 x) { return {F64::Raw(STAVE_SLEEF_WITHIN_F64(u15, erfc)(x.raw))}; }

STAVE_INLINE F32 hypot(F32 x, F32 y) { return {F32::Raw(STAVE_SLEEF_WITHIN_F32(u05, hypot)(x.raw, y.raw))}; }
STAVE_INLINE F64 hypot(F64 x, F64 y) { return {F64::Raw(STAVE_SLEEF_WITHIN_F64(u05, hypot)(x.raw, y.raw))}; }

STAVE_INLINE F32 sleef_log1p(F32 x) { return {F32::Raw(STAVE_SLEEF_F32(log1p)(x.raw))}; }
STAVE_INLINE F64 sleef_log1p(F64 x) { return {F64::Raw(STAVE_SLEEF_F64(log1p)(x.raw))}; }
/// log1p x = x - x^2/2 + ...; SLEEF loses bits of denormal results, and gives infinity from 1e38 (1e307) on, where 1 + x is x.
template <class T>
STAVE_INLINE Vec<T> log1p(Vec<T> x) {
  Vec<T> y = sleef_log1p(x);
  y = select(abs(x) < Vec<T>(sizeof(T) == 4 ? 0x1p-25 : 0x1p-54), x, y);
  Mask<T> huge = x > Vec<T>(sizeof(T) == 4 ? 0x1p100 : 0x1p1000);
  return any(huge) ? select(huge, log(x), y) : y;
}

STAVE_INLINE F32 pow(F32 x, F32 y) { return {F32::Raw(STAVE_SLEEF_F32(pow)(x.raw, y.raw))}; }
/// SLEEF's overflows 3e-6 of the exponent early. Numbers that overflow are rare: libm decides about them.
STAVE_INLINE F64 pow(F64 x, F64 y) {
  F64 z{F64::Raw(STAVE_SLEEF_F64(pow)(x.raw, y.raw))};
  Mask<double> overflow = isinf(z) & isfinite(x) & isfinite(y) & (x != F64(0));
  if (any(overflow))
    for (int i = 0; i < F64::lanes; ++i)
      if (overflow.bits[i]) z.raw[i] = __builtin_pow(x.raw[i], y.raw[i]);
  return z;
}

/// a b - product, exactly, where product is a b rounded: without fma by halves of a and b (Dekker, "A floating-point technique for
/// extending the available precision", 1971). NaN where these overflow.
template <class T>
STAVE_INLINE Vec<T> lost_of_product(Vec<T> a, Vec<T> b, Vec<T> product) {
  if constexpr (has_fma) return fma(a, b, -product);
  const Vec<T> split(sizeof(T) == 4 ? 0x1p12 + 1 : 0x1p27 + 1);
  const Vec<T> a_high = a * split - (a * split - a), b_high = b * split - (b * split - b);
  const Vec<T> a_low = a - a_high, b_low = b - b_high;
  return a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low);
}
/// erfc(x / sqrt(2)). What rounding takes from the quotient, erfc multiplies by some x^2: it is computed, and given back by the
/// derivative -2 / sqrt(pi) exp(-z^2), of which -(z + sqrt(z^2 + 1.6)) erfc(z) is off by less than a seventh for positive z.
template <class T>
STAVE_INLINE Vec<T> erfc_of_root_half(Vec<T> x) {
  const Vec<T> root(sizeof(T) == 4 ? 0x1.6a09e6p-1 : 0x1.6a09e667f3bcdp-1);
  const Vec<T> rest(sizeof(T) == 4 ? 0x1.9fcef4p-27 : -0x1.bdd3413b26456p-55);
  const Vec<T> z = x * root;
  const Vec<T> lost = lost_of_product(x, root, z) + x * rest;
  const Vec<T> slope = z + sqrt(z * z + Vec<T>(1.6));
  const Vec<T> y = erfc(z), moved = y - y * (lost * slope);
  return select((z > Vec<T>(0)) & isfinite(lost * slope), moved, y);
}

// ---- erfinv -----------------------------------------------------------------------------------------------
// By the polynomials of core/ops/erfinv.h.

/// -log(1 - x^2). Near 1 the square would lose what matters, and 1 - |x| is exact.
template <class T>
STAVE_INLINE Vec<T> erfinv_argument(Vec<T> x) {
  Vec<T> one(1);
  return -select(abs(x) < Vec<T>(0.5), log1p(-(x * x)), log((one - abs(x)) * (one + abs(x))));
}
/// ±inf at ±1 and NaN outside.
template <class T>
STAVE_INLINE Vec<T> erfinv_ends(Vec<T> x, Vec<T> inside) {
  Vec<T> infinity(__builtin_inf());
  Vec<T> outside = select(abs(x) == Vec<T>(1), copysign(infinity, x), infinity - infinity);
  return select(abs(x) < Vec<T>(1), inside, outside);
}
inline constexpr stave_detail::ErfinvFloat erfinv_f32;
STAVE_INLINE F32 erfinv(F32 x) {
  F32 w = erfinv_argument(x);
  F32 central = polynomial(w - F32(2.5), erfinv_f32.central);
  F32 tail = polynomial(sqrt(w) - F32(3), erfinv_f32.tail);
  return erfinv_ends(x, x * select(w < F32(5), central, tail));
}
inline constexpr stave_detail::ErfinvDouble erfinv_f64;
STAVE_INLINE F64 erfinv(F64 x) {
  F64 w = erfinv_argument(x);
  F64 central = polynomial(w - F64(3.125), erfinv_f64.central);
  F64 middle = polynomial(sqrt(w) - F64(3.25), erfinv_f64.middle);
  F64 tail = polynomial(sqrt(w) - F64(5), erfinv_f64.tail);
  return erfinv_ends(x, x * select(w < F64(6.25), central, select(w < F64(16), middle, tail)));
}

// ---- the gamma function's -----------------------------------------------------------------------------------
// digamma and zeta by core/ops/polygamma.h. That is in double precision: of floats they err by no more than their last rounding.

/// Both halves of a vector, rounded.
STAVE_INLINE F32 narrow(F64 low, F64 high) {
  typedef float Half __attribute__((vector_size(STAVE_VECTOR_BYTES / 2)));
  const Half halves[] = {__builtin_convertvector(low.raw, Half), __builtin_convertvector(high.raw, Half)};
  return F32::load(halves);
}

// SLEEF's overflows early.
STAVE_FROM_SLEEF_BUT(lgamma, y, (x > Vec<T>(sizeof(T) == 4 ? 0x1p118 : 0x1p1010)) & isfinite(x))

STAVE_INLINE F64 digamma(F64 x) { return stave_detail::digamma_of(x); }
STAVE_INLINE F32 digamma(F32 x) { return narrow(digamma(low_half(x)), digamma(high_half(x))); }

STAVE_INLINE F64 zeta(F64 s, F64 q) { return stave_detail::zeta_of(s, q); }
STAVE_INLINE F32 zeta(F32 s, F32 q) { return narrow(zeta(low_half(s), low_half(q)), zeta(high_half(s), high_half(q))); }

// ---- bits -------------------------------------------------------------------------------------------------

template <class T>
  requires is_real<T>
STAVE_INLINE Mask<T> signbit(Vec<T> x) {
  return {reinterpret_cast<typename Mask<T>::Raw>(x.raw) < typename Mask<T>::Raw{}};
}
/// The float that follows x in the direction of y; y where they are equal. Floats of one sign lie in the order of their bits.
template <class T>
  requires is_real<T>
STAVE_INLINE Vec<T> nextafter(Vec<T> x, Vec<T> y) {
  using Bits = typename Vec<T>::Unsigned;  // which wrap
  const Vec<T> zero(0), least(sizeof(T) == 4 ? 0x1p-149 : 0x1p-1074);
  const Mask<T> away = (x < y) ^ (x < zero);  // from 0
  const Bits moved = reinterpret_cast<Bits>(x.raw) - 1 - 2 * reinterpret_cast<Bits>(away.bits);
  Vec<T> next = select(x == zero, copysign(least, y), Vec<T>(reinterpret_cast<typename Vec<T>::Raw>(moved)));
  next = select(x == y, y, next);
  return select((x != x) | (y != y), x + y, next);
}

template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> operator&(Vec<T> a, Vec<T> b) {
  return {a.raw & b.raw};
}
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> operator|(Vec<T> a, Vec<T> b) {
  return {a.raw | b.raw};
}
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> operator^(Vec<T> a, Vec<T> b) {
  return {a.raw ^ b.raw};
}
/// Of bool the other truth.
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> operator~(Vec<T> a) {
  if constexpr (__is_same(T, bool)) return a ^ Vec<T>(1);
  else return {~a.raw};
}

/// Whether places are no shift of T: as many as it has bits, or more, or less than 0.
template <class T>
STAVE_INLINE Mask<T> too_far(Vec<T> places) {
  const typename Vec<T>::Unsigned bits =
      static_cast<typename Vec<T>::UnsignedLane>(8 * sizeof(T)) - typename Vec<T>::Unsigned{};
  return {reinterpret_cast<typename Mask<T>::Raw>(Vec<T>::wrapping(places) >= bits)};
}
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> shifted_left(Vec<T> a, Vec<T> places) {
  const Mask<T> far = too_far(places);
  const auto bits = Vec<T>::wrapping(a) << Vec<T>::wrapping(select(far, Vec<T>(0), places));
  return select(far, Vec<T>(0), Vec<T>(reinterpret_cast<typename Vec<T>::Raw>(bits)));
}
/// Of a signed integer its sign moves in.
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> shifted_right(Vec<T> a, Vec<T> places) {
  const Mask<T> far = too_far(places);
  const Vec<T> zero(0);
  return select(far, select(a < zero, Vec<T>(-1), zero), Vec<T>(a.raw >> select(far, zero, places).raw));
}

// ---- remainder --------------------------------------------------------------------------------------------

STAVE_INLINE float fmod_of(float a, float b) { return __builtin_fmodf(a, b); }
STAVE_INLINE double fmod_of(double a, double b) { return __builtin_fmod(a, b); }

template <class T>
STAVE_INLINE Vec<T> fmod_by_lanes(Vec<T> a, Vec<T> b) {
  Vec<T> r = a;
  for (int i = 0; i < Vec<T>::lanes; ++i) r.raw[i] = fmod_of(a.raw[i], b.raw[i]);
  return r;
}
/// C's fmod, exact. Where the quotient is below 2^22, a - trunc(a / b) b is exact with one rounding, and the quotient
/// is too large by one at most, when a / b rounded up to an integer.
template <class T>
STAVE_INLINE Vec<T> fmod(Vec<T> a, Vec<T> b) {
  if constexpr (!has_fma) return fmod_by_lanes(a, b);
  Vec<T> quotient = a / b;
  Mask<T> small = (abs(quotient) < Vec<T>(0x1p22)) & isfinite(b);
  if (any(~small)) return fmod_by_lanes(a, b);
  Vec<T> r = fma(-trunc(quotient), b, a);
  Mask<T> crossed = ((r < Vec<T>(0)) & (a > Vec<T>(0))) | ((r > Vec<T>(0)) & (a < Vec<T>(0)));
  return select(crossed, r + copysign(b, a), r);
}
/// Python's %: the sign of b; a zero too has it.
template <class T>
  requires is_real<T>
STAVE_INLINE Vec<T> remainder(Vec<T> a, Vec<T> b) {
  Vec<T> zero(0), r = fmod(a, b);
  Vec<T> moved = select((r < zero) ^ (b < zero), r + b, r);
  return select(r == zero, copysign(zero, b), moved);
}
/// For integers. By 0 the answer is 0; INT_MIN % -1 would trap, and anything % -1 is 0 as it is % 1.
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> remainder(Vec<T> a, Vec<T> b) {
  using V = Vec<T>;
  V zero(0);
  V safe = select((b == zero) | (b == V(-1)), V(1), b);
  if constexpr (static_cast<T>(-1) > 0) safe = select(b == zero, V(1), b);
  V r{a.raw % safe.raw};
  return select((r != zero) & ((r < zero) ^ (safe < zero)), r + safe, r);
}

// ---- floor_divide -----------------------------------------------------------------------------------------

/// The quotient rounds to an integer or lies between two. If it is one, but by the remainder is closer to the integer
/// above, it was rounded up (a quotient of floats never lies in the middle of two). From 2^24 (2^53) on it is what rounds.
template <class T>
  requires is_real<T>
STAVE_INLINE Vec<T> floor_divide(Vec<T> a, Vec<T> b) {
  Vec<T> quotient = a / b, whole = floor(quotient), r = abs(remainder(a, b));
  Mask<T> rounded = (whole == quotient) & (abs(whole) <= Vec<T>(sizeof(T) == 4 ? 0x1p24 : 0x1p53));
  rounded = rounded & ~(abs(b) - r > r);  // where both are infinite: -1 / inf rounds to -1
  whole = select(rounded, whole - Vec<T>(1), whole);
  return select(b == Vec<T>(0), quotient, select(isfinite(a), whole, a - a));
}
/// For integers. By 0 the answer is 0; INT_MIN / -1 would trap, and anything / -1 is its negative, which wraps.
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> floor_divide(Vec<T> a, Vec<T> b) {
  using V = Vec<T>;
  V zero(0), safe = select(b == zero, V(1), b);
  if constexpr (static_cast<T>(-1) > 0) return select(b == zero, zero, V{a.raw / safe.raw});
  safe = select(b == V(-1), V(1), safe);
  V quotient{a.raw / safe.raw}, r = a - quotient * safe;
  quotient = select((r != zero) & ((r < zero) ^ (safe < zero)), quotient - V(1), quotient);
  return select(b == zero, zero, select(b == V(-1), -a, quotient));
}

// ---- integer pow ------------------------------------------------------------------------------------------

/// Repeated squaring, wrapping. A negative exponent gives the truncated 1 / a^|b|: 0, but for a = 1 and -1.
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> pow(Vec<T> a, Vec<T> b) {
  using V = Vec<T>;
  using Unsigned = typename V::Unsigned;
  V zero(0), one(1), result(1), base = a;
  Unsigned rest = reinterpret_cast<Unsigned>(b.raw);
  for (V left = b; any(left != zero); left = V(reinterpret_cast<typename V::Raw>(rest))) {
    V odd{reinterpret_cast<typename V::Raw>(rest & reinterpret_cast<Unsigned>(one.raw))};
    result = select(odd != zero, result * base, result);
    base = base * base;
    rest = rest >> 1;
  }
  if constexpr (static_cast<T>(-1) > 0) return result;
  // The parity of b is that of its bits, so `result` is already right for 1 and -1: squares of them are 1.
  return select((b < zero) & (a != one) & (a != V(-1)), zero, result);
}

}  // namespace STAVE_KERNELS
