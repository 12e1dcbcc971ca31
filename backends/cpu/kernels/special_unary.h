// Special functions of vectors of one variable, and entropies. The scalar functions have the
// formulas' sources (backends/cpu/special_*.cpp).
#pragma once

#include <stave/backends/cpu/kernels/special_lanes.h>

namespace STAVE_KERNELS::special {

constexpr double root_half = 0.7071067811865476;

/// exp(factor x^2) for a factor of 1, -1, 1/2 or -1/2, without the rounding error of the square.
STAVE_INLINE F64 exp_of_square(double factor, F64 x) {
  const DoubleDouble square = exact_product(x, x);
  const F64 y = exp(F64(factor) * square.high);
  return select(isfinite(square.low) & isfinite(y), multiply_add(y, F64(factor) * square.low, y), y);
}

// ---- the error function and the normal distribution ---------------------------------------------

STAVE_INLINE F64 erfcx(F64 x) {
  const F64 size = abs(x);
  F64 right = series(stave_cpu::erfcx_series, (size - F64(3.75)) / (size + F64(3.75))) / (F64(1) + (size + size));
  right = select(size == F64(infinite), F64(0), right);
  const Lanes64 near = size < F64(0.5), left = x <= F64(-0.5);
  F64 y = right;
  if (any(left)) y = select(left, F64(2) * exp_of_square(1, x) - right, y);
  return any(near) ? select(near, series(stave_cpu::erfcx_near, x), y) : y;
}

STAVE_INLINE F64 dawsn(F64 x) {
  using namespace stave_cpu;
  const F64 size = abs(x), square = x * x;
  const Lanes64 far = size >= F64(5), near = size < F64(1);
  F64 y(0);
  if (any(far)) y = series(dawson_far, F64(1) / square) / (size + size);
  if (any(near)) y = select(near, size * series(dawson_near, square), y);
  if (!all(near | far)) {
    const F64 low = select(size < F64(1.75), series(dawson_middle0, size), series(dawson_middle1, size));
    const F64 high = select(size < F64(3.5), series(dawson_middle2, size), series(dawson_middle3, size));
    y = select(near | far, y, select(size < F64(2.5), low, high));
  }
  return copysign(select(x == x, y, x), x);
}

/// With half = erfcx(|x| / sqrt(2)) / 2, it is log(half) - x^2 / 2 for x <= 0, and
/// log(1 - half exp(-x^2 / 2)) for x > 0. The rounding error of that difference is added.
STAVE_INLINE F64 log_ndtr(F64 x) {
  const F64 half = F64(0.5) * erfcx(abs(x) * F64(root_half));
  const Lanes64 above = x > F64(0);
  if (!any(above)) return log(half) - F64(0.5) * x * x;
  const F64 tail = half * exp_of_square(-0.5, x), sum = F64(1) - tail, lost = (F64(1) - sum) - tail;
  const F64 y = log(select(above, sum, half));
  return select(above, y + lost / sum, y - F64(0.5) * x * x);
}

/// With w = -log(q (2 - q)), 0 < q <= 1: erfcinv(q) = (1 - q) P(w). For large w, P is a polynomial
/// in its square root, as in Giles, "Approximating the erfinv function", 2011.
STAVE_INLINE F64 erfcinv(F64 x) {
  const Lanes64 upper = x > F64(1);
  const F64 q = select(upper, F64(2) - x, x);
  const F64 w = -log(q * (F64(2) - q)), root = sqrt(w);
  F64 y = select(w < F64(2.5), series(stave_cpu::erfcinv_near0, w), series(stave_cpu::erfcinv_near1, w));
  if (const Lanes64 far = w > F64(7); any(far)) {
    F64 tail = series(stave_cpu::erfcinv_far0, root);
    if (any(w > F64(20.25))) {
      const F64 further =
          select(root < F64(10), series(stave_cpu::erfcinv_far1, root), series(stave_cpu::erfcinv_far2, root));
      tail = select(root < F64(4.5), tail, further);
    }
    y = select(far, tail, y);
  }
  y = y * (F64(1) - q);
  y = select(q == F64(0), F64(infinite), select(upper, -y, y));
  y = select((q == F64(0)) & upper, F64(-infinite), y);
  return select((x >= F64(0)) & (x <= F64(2)), y, F64(not_a_number));
}
STAVE_INLINE F64 ndtri(F64 p) { return -(erfcinv(p + p) / F64(root_half)); }

// ---- integrals ----------------------------------------------------------------------------------

/// The auxiliary functions f and g of DLMF 6.2.17 and 6.2.18, for x >= 2.
struct SineParts {
  F64 f, g;
  STAVE_INLINE explicit SineParts(F64 x) {
    const F64 t = (x - F64(4)) / (x + F64(4));
    f = series(stave_cpu::sine_f, t) / x;
    g = series(stave_cpu::sine_g, t) / (x * x);
  }
};

STAVE_INLINE F64 sine_integral(F64 x) {
  const F64 size = abs(x);
  const Lanes64 near = size < F64(2);
  const F64 at = select(near, F64(2), select(isfinite(x), size, F64(2)));
  const SineParts parts(at);
  const SineCosine wave(at);
  F64 y = F64(circle_half / 2) - multiply_add(parts.f, wave.cosine, parts.g * wave.sine);
  y = copysign(select(size == F64(infinite), F64(circle_half / 2), y), x);
  if (any(near)) y = select(near, x * series(stave_cpu::sine_near, x * x), y);
  return select(x == x, y, x);
}

STAVE_INLINE F64 cosine_integral(F64 x) {
  const F64 size = abs(x);
  const Lanes64 near = size < F64(2);
  const F64 at = select(near, F64(2), select(isfinite(x), size, F64(2)));
  const SineParts parts(at);
  const SineCosine wave(at);
  F64 y = parts.f * wave.sine - parts.g * wave.cosine;
  y = select(x == F64(infinite), F64(0), y);
  if (any(near)) {
    const F64 square = x * x;
    y = select(near, (F64(0.5772156649015329) + log(size)) - square * series(stave_cpu::cosine_near, square), y);
  }
  y = select(size == F64(0), F64(-infinite), y);
  return select((x == x) & (x > F64(-infinite)), y, F64(not_a_number));
}

/// The auxiliary functions f and g of DLMF 7.2.10 and 7.2.11, and the sine and cosine of
/// pi x^2 / 2, for 1.6 <= x <= 1e15.
struct FresnelParts {
  F64 f, g, sine, cosine;
  STAVE_INLINE explicit FresnelParts(F64 x) {
    const DoubleDouble square = exact_product(x, x);
    const F64 inverse = F64(1) / square.high, u = inverse * inverse;
    // The angle, in quarters of a circle, without whole circles.
    const F64 turns = (square.high - F64(4) * rint(square.high * F64(0.25))) + square.low;
    const SineCosine wave(F64(circle_half / 2) * turns);
    sine = wave.sine;
    cosine = wave.cosine;
    const Lanes64 far = u < F64(1. / 40);
    f = select(far, series(stave_cpu::fresnel_f0, u), series(stave_cpu::fresnel_f1, u)) / (F64(circle_half) * x);
    g = select(far, series(stave_cpu::fresnel_g0, u), series(stave_cpu::fresnel_g1, u)) /
        (F64(circle_half * circle_half) * (x * square.high));
  }
};
constexpr double fresnel_split = 1.6, fresnel_far = 1e15;

template <bool is_sine>
STAVE_INLINE F64 fresnel(F64 x) {
  const F64 size = abs(x);
  const Lanes64 near = size<F64(fresnel_split), far = size> F64(fresnel_far);
  F64 y(0.5);
  if (!all(near | far)) {
    const FresnelParts parts(select(near | far, F64(fresnel_split), size));
    const F64 moved = is_sine ? F64(0.5) - multiply_add(parts.f, parts.cosine, parts.g * parts.sine)
                              : F64(0.5) + multiply_add(parts.f, parts.sine, -(parts.g * parts.cosine));
    y = select(far, y, moved);
  }
  y = copysign(y, x);
  if (any(near)) {
    const F64 square = x * x, u = square * square;
    const F64 inner =
        is_sine ? (x * square) * series(stave_cpu::fresnel_s_near, u) : x * series(stave_cpu::fresnel_c_near, u);
    y = select(near, inner, y);
  }
  return select(x == x, y, x);
}

STAVE_INLINE F64 fresnel_s(F64 x) { return fresnel<true>(x); }
STAVE_INLINE F64 fresnel_c(F64 x) { return fresnel<false>(x); }

/// The integral of log(t) / (1 - t) from 1 to exp(-w) for |w| < 2 pi.
STAVE_INLINE F64 spence_of_log(F64 w) {
  constexpr double terms[] = {2.395218621026187e-19,   -1.0356517612182247e-17, 4.518980029619918e-16,
                              -1.9939295860721074e-14, 8.921691020456452e-13,   -4.0647616451442257e-11,
                              1.8978869988970999e-09,  -9.185773074661964e-08,  4.724111866969010e-06,
                              -0.0002777777777777778,  0.027777777777777776};
  const F64 sum = polynomial(w * w, terms);
  return w * multiply_add(w, multiply_add(w, sum, F64(-0.25)), F64(1));
}

STAVE_INLINE F64 spence(F64 z) {
  const Lanes64 high = z > F64(3), low = z <= F64(0.25);
  const F64 log_z = log(select(high, z - F64(1), z));
  F64 y = spence_of_log(-log_z);
  if (any(high | low)) {
    const F64 other = log1p(select(high, F64(1) / (z - F64(1)), -z)), moved = spence_of_log(-other);
    constexpr double limit = circle_half * circle_half / 6;
    y = select(high, F64(-limit) - F64(0.5) * log_z * log_z - moved, y);
    y = select(low, F64(limit) - log_z * other - moved, y);
    y = select(z == F64(0), F64(limit), select(z == F64(infinite), F64(-infinite), y));
  }
  return select(z >= F64(0), y, F64(not_a_number));
}

// With r = x - n for the nearest integer n: sin(pi x) = (-1)^n pi r P(r^2).
STAVE_INLINE F64 sinc(F64 x) {
  const F64 n = rint(x), r = x - n, half = n * F64(0.5);
  const F64 y = series(stave_cpu::sinc_near, r * r) * (r / x), turned = select(half == rint(half), y, -y);
  return select(x == F64(0), F64(1), select(abs(x) == F64(infinite), F64(0), turned));
}

// ---- Bessel functions ---------------------------------------------------------------------------

/// x - zero, where the zero has twice the precision
STAVE_INLINE F64 beyond(F64 x, double zero, double rest) { return (x - F64(zero)) - F64(rest); }

STAVE_INLINE F64 j_near(int n, F64 x) {
  const F64 square = x * x;
  F64 y = n == 0 ? series(stave_cpu::bessel_j0_near, square) : x * series(stave_cpu::bessel_j1_near, square);
  using namespace stave_cpu;
  if (const Lanes64 middle = x > F64(2); any(middle)) {
    const F64 first = n == 0 ? beyond(x, j0_zero0, j0_zero0_rest) : beyond(x, j1_zero0, j1_zero0_rest);
    const F64 second = n == 0 ? beyond(x, j0_zero1, j0_zero1_rest) : beyond(x, j1_zero1, j1_zero1_rest);
    const F64 rest = n == 0 ? series(bessel_j0_middle, x) : series(bessel_j1_middle, x);
    y = select(middle, first * second * rest, y);
  }
  return y;
}

/// J or Y for x >= 8: DLMF 10.17.3 and 10.17.4, with the angle x - pi/4 or x - 3 pi/4 resolved.
template <int n, bool first_kind>
STAVE_INLINE F64 bessel_far(F64 x) {
  const F64 inverse = F64(1) / x, u = inverse * inverse;
  const SineCosine wave(x);
  const F64 p = n == 0 ? series(stave_cpu::bessel_p0, u) : series(stave_cpu::bessel_p1, u);
  const F64 q = (n == 0 ? series(stave_cpu::bessel_q0, u) : series(stave_cpu::bessel_q1, u)) * inverse;
  const F64 sum = wave.sine + wave.cosine, difference = wave.sine - wave.cosine;
  const F64 scaled = n == 0 ? (first_kind ? p * sum - q * difference : p * difference + q * sum)
                            : (first_kind ? p * difference + q * sum : q * difference - p * sum);
  return scaled / sqrt(F64(circle_half) * x);
}

template <int n>
STAVE_INLINE F64 bessel_j(F64 x) {
  const F64 size = abs(x);
  const Lanes64 near = size < F64(8);
  F64 y(0);
  if (!all(near)) y = bessel_far<n, true>(select(near | (size == F64(infinite)), F64(8), size));
  y = select(size == F64(infinite), F64(0), y);
  if (any(near)) y = select(near, j_near(n, select(near, size, F64(0))), y);
  if (n == 1) y = select(x < F64(0), -y, y);
  return select(x == x, y, x);
}

/// Y for 1/2 <= x < 8
template <int n>
STAVE_INLINE F64 y_middle(F64 x) {
  using namespace stave_cpu;
  if constexpr (n == 0) {
    const F64 low = beyond(x, y0_zero0, y0_zero0_rest) * series(bessel_y0_middle0, x);
    const F64 zeros = beyond(x, y0_zero1, y0_zero1_rest) * beyond(x, y0_zero2, y0_zero2_rest);
    return select(x < F64(2), low, zeros * series(bessel_y0_middle1, x));
  } else {
    F64 y = beyond(x, y1_zero1, y1_zero1_rest) * series(bessel_y1_between2, x);
    y = select(x < F64(4), beyond(x, y1_zero0, y1_zero0_rest) * series(bessel_y1_between1, x), y);
    return select(x < F64(1.5), series(bessel_y1_between0, x), y);
  }
}

template <int n>
STAVE_INLINE F64 bessel_y(F64 x) {
  using namespace stave_cpu;
  const Lanes64 near = x < F64(8), nearer = x < F64(0.5);
  F64 y(0);
  if (!all(near)) y = bessel_far<n, false>(select((x >= F64(8)) & isfinite(x), x, F64(8)));
  y = select(x == F64(infinite), F64(0), y);
  if (any(near)) y = select(near, y_middle<n>(x), y);
  if (any(nearer)) {
    const F64 square = x * x, slope = F64(2 / circle_half);
    const F64 j = n == 0 ? series(bessel_j0_near, square) : x * series(bessel_j1_near, square);
    const F64 part = n == 0 ? multiply_add(slope * log(x), j, series(bessel_y0_rest, square))
                            : multiply_add(slope, log(x) * j - F64(1) / x, x * series(bessel_y1_rest, square));
    y = select(nearer, part, y);
  }
  y = select(x == F64(0), F64(-infinite), y);
  return select(x >= F64(0), y, F64(not_a_number));
}

/// exp(-|x|) I_n(x)
template <int n>
STAVE_INLINE F64 bessel_ie(F64 x) {
  using namespace stave_cpu;
  const F64 size = abs(x);
  const Lanes64 near = size < F64(8);
  F64 y(0);
  if (!all(near)) {
    const F64 at = select(near, F64(8), size), u = F64(1) / at;
    y = (n == 0 ? series(bessel_i0_far, u) : series(bessel_i1_far, u)) / sqrt(at);
  }
  if (any(near)) {
    const F64 inner = n == 0
                          ? select(size < F64(2), series(bessel_i0_near0, size), series(bessel_i0_near1, size))
                          : size * select(size < F64(2), series(bessel_i1_near0, size), series(bessel_i1_near1, size));
    y = select(near, inner, y);
  }
  y = select(size == F64(infinite), F64(0), y);
  if (n == 1) y = copysign(y, x);
  return select(x == x, y, x);
}

// ---- entropies ----------------------------------------------------------------------------------

STAVE_INLINE F64 entropy_edges(F64 x, F64 y, F64 at_zero, F64 inside) {
  const F64 zero(0);
  F64 value = select((x > zero) & (y > zero), inside, F64(infinite));
  value = select((x == zero) & (y >= zero), at_zero, value);
  return select((x == x) & (y == y), value, F64(not_a_number));
}

STAVE_INLINE F64 rel_entr(F64 x, F64 y) {
  const F64 ratio = x / y;
  const Lanes64 near = (ratio > F64(0.5)) & (ratio < F64(2));
  F64 value = log(ratio);
  if (any(near)) value = select(near, -log1p((y - x) / x), value);
  const Lanes64 extreme = (x > F64(0)) & (y > F64(0)) & ((ratio < F64(1e-300)) | (ratio > F64(1e300)));
  if (any(extreme)) value = select(extreme, log(x) - log(y), value);
  return entropy_edges(x, y, F64(0), x * value);
}

// With d = (y - x) / x it is x (d - log(1 + d)). Let 1 + d = 2^n m and s = (m - 1) / (m + 1). Then
// log(1 + d) = n log 2 + 2 artanh(s), and for n = 0, d - 2 s = d s. For the rounding error e of d,
// d / (1 + d) e is added.
STAVE_INLINE F64 kl_div(F64 x, F64 y) {
  using Bits = Vec<std::int64_t>;
  const F64 one(1), zero(0), ratio = y / x;
  const DoubleDouble above = exact_sum(y, -x);
  const F64 d = above.high / x, error = rest_of(above.high, d, x) + above.low,
            lost_of_d = select(isfinite(error), error, zero);  // the halves of a large x overflow
  const Lanes64 near = (d > F64(-0.75)) & (d < F64(2)), nearest = (d > F64(-0.4)) & (d < F64(0.65)),
                common = near | ((ratio > F64(1e-300)) & (ratio < F64(1e300)));
  // 1 + d is less accurate than the ratio where d is almost -1, but consistent with d.
  const DoubleDouble rounded = exact_sum(one, d);
  const F64 base = select(near, rounded.high, ratio);
  const F64 lost = select(near, d * lost_of_d - select(nearest, zero, x * rounded.low), zero) / base;
  const Bits bits{reinterpret_cast<Bits::Raw>(base.raw)};
  const Bits k{(bits - Bits(std::int64_t{0x3fe6a09e667f3bcd})).raw >> 52};
  const F64 m{reinterpret_cast<F64::Raw>((bits - Bits(k.raw << 52)).raw)};
  const F64 n{__builtin_convertvector(k.raw, F64::Raw)};
  const F64 s = select(nearest, d, m - one) / (select(nearest, d, m) + select(nearest, F64(2), one)), square = s * s;
  const F64 rest = F64(2) * (s * square * series(stave_cpu::entropy_near, square));
  // log 2 in two parts; the product of n and the first part is exact.
  const DoubleDouble moved = exact_sum(d, -(n * F64(0x1.62e42feep-1)));
  const F64 far = (moved.high - (s + s)) + (moved.low - (rest + n * F64(1.9082149292705877e-10)));
  F64 value = multiply_add(x, select(nearest, d * s - rest, far), lost);
  const Lanes64 positive = (x > F64(0)) & (y > F64(0));
  value = by_scalar(positive & ~common, value, scalar::kl_div, x, y);
  return entropy_edges(x, y, y, value);
}

}  // namespace STAVE_KERNELS::special
