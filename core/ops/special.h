// Special functions of each element. Names and domains are SciPy's.
//
// Operands broadcast, and their dtypes are promoted, as in elementwise.h. Integers become
// default_dtype(). float64 is computed in double, float32 in double with one rounding, and 16-bit
// floats in float32. The CPU computes them; other backends throw.
//
// Values are within 4 units in the last place of float64 (1 of float32) for all arguments, or 8 for
// the gamma and beta distributions, unless a comment says more. Near a zero of a function, where
// its value is a difference, the error is that small in relation to the size of the function around
// the zero. Outside its domain a function is NaN.
//
// Derivatives of any order exist with respect to every argument, except orders and the parameters
// of hyp1f1 and hyp2f1: asking for these throws TransformError. Derivatives with respect to the
// parameters of gammainc, gammaincc, betainc and zeta are computed up to the eighth order, to about
// 1e-13 in relation to the size of the derivative; higher ones are NaN.
#pragma once

#include <utility>

#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

// ---- gamma and beta functions -------------------------------------------------------------------

/// The lower tail of the gamma distribution: the integral of gamma_density(a, t) over 0 < t < x,
/// for a >= 0 and x >= 0, as scipy.special.gammainc. In the far tails of a > 1e5 some 60 units are
/// lost.
Tensor gammainc(Operand a, Operand x);
/// The upper tail, 1 - gammainc(a, x), accurate where it is small: scipy.special.gammaincc.
Tensor gammaincc(Operand a, Operand x);
/// x^(a - 1) e^-x / Gamma(a), for a > 0 and x >= 0: the derivative of gammainc with respect to x.
Tensor gamma_density(Operand a, Operand x);
/// The lower tail of the beta distribution: the integral of beta_density(a, b, t) over 0 < t < x,
/// for a >= 0, b >= 0 and 0 <= x <= 1, as scipy.special.betainc. Where b is below 1 and x near 1,
/// some 10 units are lost.
Tensor betainc(Operand a, Operand b, Operand x);
/// x^(a - 1) (1 - x)^(b - 1) / B(a, b), for a > 0, b > 0 and 0 <= x <= 1: the derivative of betainc
/// with respect to x.
Tensor beta_density(Operand a, Operand b, Operand x);
/// log |B(a, b)|, accurate also where a and b are large or far apart: scipy.special.betaln.
Tensor betaln(Operand a, Operand b);
/// Gamma(a + m) / Gamma(a), Pochhammer's symbol: scipy.special.poch. For integers m from -32 to 32
/// it is a product, also at the poles of the gamma function.
Tensor poch(Operand a, Operand m);
/// log of the multivariate gamma function of dimension d: the sum of lgamma(a - i/2) over 0 <= i <
/// d, plus d (d - 1) / 4 log(pi), for a > (d - 1) / 2; NaN elsewhere. It is
/// scipy.special.multigammaln, for which errors are relative to its largest term. Throws IndexError
/// for d < 1.
Tensor multigammaln(const Tensor& a, int d);
/// The sign of Gamma(x): 1 or -1, and NaN at the negative integers and at -inf. At 0 it is the sign
/// of zero: scipy.special.gammasgn.
Tensor gammasgn(const Tensor& x);
/// The n-th derivative of the Hurwitz zeta function with respect to s, for s > 1 and q > 0; NaN
/// elsewhere, and for n > 8. It is the sum of (-log(q + k))^n (q + k)^-s over the integers k >= 0.
/// Throws IndexError for n < 0.
Tensor zeta_derivative(int n, Operand s, Operand q);

// ---- the normal distribution, and functions related to erf --------------------------------------

/// The x at which the standard normal distribution function is p, for 0 <= p <= 1:
/// scipy.special.ndtri.
Tensor ndtri(const Tensor& p);
/// The log of the standard normal distribution function: scipy.special.log_ndtr.
Tensor log_ndtr(const Tensor& x);
/// exp(x^2) erfc(x), without overflow for large x: scipy.special.erfcx.
Tensor erfcx(const Tensor& x);
/// The inverse of erfc, for 0 <= x <= 2: scipy.special.erfcinv.
Tensor erfcinv(const Tensor& x);
/// Dawson's integral, e^(-x^2) times the integral of e^(t^2) over 0 < t < x: scipy.special.dawsn.
/// Its third derivative has relative errors up to 4e-11.
Tensor dawsn(const Tensor& x);
/// The Fresnel integrals S and C of sin(pi t^2 / 2) and cos(pi t^2 / 2) over 0 < t < x, in this
/// order: scipy.special.fresnel.
std::pair<Tensor, Tensor> fresnel(const Tensor& x);

// ---- Bessel functions ---------------------------------------------------------------------------
// J and Y are accurate to 4 units of the larger one of their value and sqrt(2 / (pi |x|)), which is
// their amplitude; to 12 units for an order of 20 or more.

Tensor bessel_j0(const Tensor& x);   ///< J_0(x): scipy.special.j0
Tensor bessel_j1(const Tensor& x);   ///< J_1(x): scipy.special.j1
Tensor bessel_y0(const Tensor& x);   ///< Y_0(x) for x >= 0, -inf at 0: scipy.special.y0
Tensor bessel_y1(const Tensor& x);   ///< Y_1(x) for x >= 0, -inf at 0: scipy.special.y1
Tensor bessel_i0(const Tensor& x);   ///< I_0(x): scipy.special.i0
Tensor bessel_i0e(const Tensor& x);  ///< exp(-|x|) I_0(x): scipy.special.i0e
Tensor bessel_i1(const Tensor& x);   ///< I_1(x): scipy.special.i1
Tensor bessel_i1e(const Tensor& x);  ///< exp(-|x|) I_1(x): scipy.special.i1e
Tensor bessel_k0(const Tensor& x);   ///< K_0(x) for x >= 0, inf at 0: scipy.special.k0
Tensor bessel_k0e(const Tensor& x);  ///< exp(x) K_0(x): scipy.special.k0e
Tensor bessel_k1(const Tensor& x);   ///< K_1(x) for x >= 0, inf at 0: scipy.special.k1
Tensor bessel_k1e(const Tensor& x);  ///< exp(x) K_1(x): scipy.special.k1e
/// J_n(x) for an integer order |n| <= 1e6, also a negative one: scipy.special.jn.
Tensor bessel_jn(int n, const Tensor& x);

// ---- integrals ----------------------------------------------------------------------------------

/// The exponential integral Ei(x), -inf at 0: scipy.special.expi.
Tensor expi(const Tensor& x);
/// The exponential integral E_1(x), for x >= 0; inf at 0: scipy.special.exp1.
Tensor exp1(const Tensor& x);
/// The generalised exponential integral E_n(x), the integral of e^(-x t) / t^n over t > 1, for
/// x >= 0: scipy.special.expn. Throws IndexError for n < 0.
Tensor expn(int n, const Tensor& x);
/// The dilogarithm of 1 - z: the integral of log(t) / (1 - t) over 1 < t < z, for z >= 0, as
/// scipy.special.spence.
Tensor spence(const Tensor& z);
/// The sine and the cosine integral Si(x) and Ci(x): scipy.special.sici. For x < 0 the second one
/// is Ci(-x), the real part.
std::pair<Tensor, Tensor> sici(const Tensor& x);

// ---- hypergeometric functions -------------------------------------------------------------------

/// Kummer's function 1F1(a; b; x): scipy.special.hyp1f1. It is infinite for b = 0, -1, -2, ...
/// unless the series ends before. Only x has derivatives. For a or b - a far below 0 the sum
/// cancels, and digits are lost: for |a|, |b| and |x| below 20 less than 4 units.
Tensor hyp1f1(Operand a, Operand b, Operand x);
/// Gauss's function 2F1(a, b; c; x) for x <= 1: scipy.special.hyp2f1. It is infinite for x > 1, and
/// for c = 0, -1, -2, ..., unless the series ends before. Only x has derivatives. Accuracy is as
/// for hyp1f1.
Tensor hyp2f1(Operand a, Operand b, Operand c, Operand x);

// ---- other functions ----------------------------------------------------------------------------

/// x log(x / y) for x > 0 and y > 0, 0 for x = 0 and y >= 0, else inf: scipy.special.rel_entr.
Tensor rel_entr(Operand x, Operand y);
/// x log(x / y) - x + y for x > 0 and y > 0, y for x = 0 and y >= 0, else inf, accurate also near x
/// = y: scipy.special.kl_div.
Tensor kl_div(Operand x, Operand y);
/// sin(pi x) / (pi x), and 1 at 0: numpy.sinc.
Tensor sinc(const Tensor& x);
/// The solution w of w e^w = x: Lambert's function on the real branch k = 0, where x >= -1/e and w
/// >= -1, or k = -1, where -1/e <= x < 0 and w <= -1. It is scipy.special.lambertw where that is
/// real, else NaN. Throws IndexError for another k.
Tensor lambertw(const Tensor& x, int k = 0);

/// log(sum(weights exp(x))) along axes, without overflow; NaN if the sum is negative. The weights,
/// of any sign, broadcast with x: scipy.special.logsumexp with b.
Tensor logsumexp(const Tensor& x, const Tensor& weights, const Axes& axes, KeepDims keep = drop_dims);
/// The log of the absolute value of sum(weights exp(x)), and the sign of the sum: -1, 0 or 1. It is
/// scipy.special.logsumexp with b and return_sign.
std::pair<Tensor, Tensor> signed_logsumexp(const Tensor& x, const Tensor& weights, const Axes& axes,
                                           KeepDims keep = drop_dims);

}  // namespace stave
