#!/usr/bin/env python3
"""Writes backends/cpu/special_series.h: polynomials that approximate special functions in parts.

Each polynomial interpolates its function at Chebyshev's points, in 60 digits of mpmath. The degree is
the smallest one with a relative error below 2^-57 (of the largest value in the interval).

    python3 tests/data/special_series.py > backends/cpu/special_series.h
"""
import mpmath as mp

mp.mp.dps = 60


def coefficients(f, low, high, degree):
    """The coefficients of the interpolating polynomial in t, -1 <= t <= 1, the lowest power first."""
    n = degree + 1
    nodes = [mp.cos(mp.pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    values = [f((low + high) / 2 + (high - low) / 2 * t) for t in nodes]
    chebyshev = [sum(v * mp.cos(mp.pi * j * (2 * k + 1) / (2 * n)) for k, v in enumerate(values)) * 2 / n
                 for j in range(n)]
    chebyshev[0] /= 2
    before, now = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    total = [mp.mpf(0)] * n
    for j, c in enumerate(chebyshev):
        row = before if j == 0 else now
        for i, a in enumerate(row):
            total[i] += c * a
        if j > 0:
            twice = [mp.mpf(0)] + [2 * a for a in now]
            before, now = now, [a - (before[i] if i < len(before) else 0) for i, a in enumerate(twice)]
    return total


def evaluate(c, t):
    return mp.polyval(c[::-1], t)


def fitted(f, low, high):
    low, high = mp.mpf(low), mp.mpf(high)
    points = [mp.mpf(2 * i - 97) / 97 for i in range(98)]
    exact = [f((low + high) / 2 + (high - low) / 2 * t) for t in points]
    for degree in range(6, 40):
        c = coefficients(f, low, high, degree)
        if all(abs(evaluate(c, t) - y) < abs(y) * mp.mpf(2)**-57 for t, y in zip(points, exact)):
            return c
    raise SystemExit("no polynomial is accurate enough")


def show(name, comment, pieces):
    """Pieces: (f, low, high) in the variable of the comment."""
    print(f"\n// {comment}")
    for i, (f, low, high) in enumerate(pieces):
        c = fitted(f, low, high)
        print(f"inline constexpr Series<{len(c)}> {name}{i if len(pieces) > 1 else ''} = {{")
        print(f"    {float(low)!r}, {float(high)!r}, {{" + ",\n    ".join(repr(float(a)) for a in c) + "}};")


inf = mp.inf


def scaled_erfc(t):
    if t == 1:
        return 2 / mp.sqrt(mp.pi)
    x = mp.mpf(15) / 4 * (1 + t) / (1 - t)
    value = mp.exp(x * x) * mp.erfc(x) if x < 20 else mp.hyperu(.5, .5, x * x) / mp.sqrt(mp.pi)
    return (1 + 2 * x) * value


def dawson(x):
    if x > 15:
        return mp.nsum(lambda k: mp.fac2(2 * k - 1) / (2**(k + 1) * x**(2 * k + 1)), [0, 60]) if x < 1e4 else 1 / (2 * x) + 1 / (4 * x**3) + 3 / (8 * x**5)
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def over_x(f):
    return lambda u: f(mp.sqrt(u)) / mp.sqrt(u)


# x f and x^2 g, for f and g of DLMF 6.2.17 and 6.2.18, in t = (x - 4) / (x + 4). Their limit at 1 is 1.
def moved_sine(t, power):
    if t == 1:
        return mp.mpf(1)
    x = 4 * (1 + t) / (1 - t)
    edge = [0, .5 / x, 2 / x, 8 / x, 40 / x, 200 / x]
    return x**(power + 1) * mp.quad(lambda s: s**power * mp.exp(-x * s) / (1 + s * s), edge)


# f and g of DLMF 7.2.10 and 7.2.11, by the integrals 7.7.10 and 7.7.11 after t = s^2.
def fresnel_f(u):
    if u == 0:
        return mp.mpf(1)
    z = mp.sqrt(1 / mp.sqrt(u))
    k = mp.pi * z * z / 2
    edge = [0, .3, 1, 2, 4, 12]
    return mp.pi * z * mp.quad(lambda s: 2 * mp.exp(-s * s) / mp.sqrt(k) / (1 + (s * s / k)**2), edge) / (mp.pi * mp.sqrt(2))


def fresnel_g(u):
    if u == 0:
        return mp.mpf(1)
    z = mp.sqrt(1 / mp.sqrt(u))
    k = mp.pi * z * z / 2
    edge = [0, .3, 1, 2, 4, 12]
    return mp.pi**2 * z**3 * mp.quad(lambda s: 2 * s * s * mp.exp(-s * s) / k**1.5 / (1 + (s * s / k)**2), edge) / (mp.pi * mp.sqrt(2))


def sinc_of_square(u):
    return mp.sincpi(mp.sqrt(u)) if u else mp.mpf(1)


def erfcinv_over_rest(w):
    """erfcinv(q) / (1 - q) where q (2 - q) = e^-w."""
    if w == 0:
        return mp.sqrt(mp.pi) / 2
    rest = mp.sqrt(-mp.expm1(-w))
    q = mp.exp(-w) / (1 + rest)
    y = mp.erfinv(rest) if w < 2 else mp.sqrt(w - mp.log(mp.pi * w) / 2)
    for _ in range(60):
        # Newton's step for log(erfc(y)) = log(q)
        value = mp.erfc(y)
        step = mp.log(value / q) * value * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        y += step
        if abs(step) < mp.mpf(10)**-50:
            break
    return y / rest


# The modulus functions P and x Q of DLMF 10.17.3 in u = 1 / x^2.
def bessel_p(n):
    def f(u):
        if u == 0:
            return mp.mpf(1)
        x = 1 / mp.sqrt(u)
        angle = x - (2 * n + 1) * mp.pi / 4
        return mp.sqrt(mp.pi * x / 2) * (mp.besselj(n, x) * mp.cos(angle) + mp.bessely(n, x) * mp.sin(angle))
    return f


def bessel_q(n):
    def f(u):
        if u == 0:
            return mp.mpf(4 * n * n - 1) / 8
        x = 1 / mp.sqrt(u)
        angle = x - (2 * n + 1) * mp.pi / 4
        return x * mp.sqrt(mp.pi * x / 2) * (mp.bessely(n, x) * mp.cos(angle) - mp.besselj(n, x) * mp.sin(angle))
    return f


def bessel_y0_rest(u):
    x = mp.sqrt(u)
    return mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)


def bessel_y1_rest(u):
    x = mp.sqrt(u)
    return (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x


y_zeros = {0: [mp.besselyzero(0, k) for k in (1, 2, 3)], 1: [mp.besselyzero(1, k) for k in (1, 2)]}


def bessel_y_over(n, *zeros):
    """Y_n(x) divided by x - a for some of its zeros."""
    return lambda x: mp.bessely(n, x) / mp.fprod(x - y_zeros[n][k] for k in zeros)


def scaled_i(n):
    return lambda x: mp.exp(-x) * mp.besseli(n, x) / x**n


def scaled_i_far(n):
    def f(u):
        x = 1 / u
        return mp.sqrt(x) * mp.exp(-x) * mp.besseli(n, x)
    return f


print("""// Polynomials that approximate special functions, by tests/data/special_series.py. Generated; do
// not edit.
#pragma once

#include <cstddef>

namespace stave_cpu {

/// A polynomial in t = (2 u - low - high) / (high - low) for low <= u <= high, the lowest power
/// first.
template <std::size_t n>
struct Series {
  double low, high, coefficients[n];

  double operator()(double u) const {
    const double t = ((u - low) - (high - u)) / (high - low), square = t * t;
    // Even and odd powers are independent chains.
    double even = 0, odd = 0;
    for (std::size_t i = n; i-- > 0;) {
      double& sum = i % 2 ? odd : even;
      sum = sum * square + coefficients[i];
    }
    return even + t * odd;
  }
};""")
F = mp.mpf(1)
show("erfcx_series", "(1 + 2 x) e^(x^2) erfc(x), x >= 0, in (x - 15/4) / (x + 15/4).", [(scaled_erfc, -1, 1)])
show("dawson_near", "D(x) / x in x^2.", [(over_x(dawson), F / 10**8, 1)])
show("dawson_middle", "D(x) in x.", [(dawson, 1, 1.75), (dawson, 1.75, 2.5), (dawson, 2.5, 3.5), (dawson, 3.5, 5)])
show("dawson_far", "2 x D(x) in 1 / x^2.",
     [(lambda u: (lambda x: 2 * x * dawson(x))(1 / mp.sqrt(u)), F / 10**9, F / 25)])
show("sine_near", "Si(x) / x in x^2.", [(over_x(mp.si), F / 10**12, 4)])
show("cosine_near", "(gamma + log(x) - Ci(x)) / x^2 in x^2.",
     [(lambda u: (mp.euler + mp.log(u) / 2 - mp.ci(mp.sqrt(u))) / u, F / 10**8, 4)])
show("sine_f", "x f(x), x >= 2, in (x - 4) / (x + 4): f of DLMF 6.2.17.", [(lambda t: moved_sine(t, 0), -F / 3, 1)])
show("sine_g", "x^2 g(x), x >= 2, in (x - 4) / (x + 4): g of DLMF 6.2.18.", [(lambda t: moved_sine(t, 1), -F / 3, 1)])
show("fresnel_s_near", "S(x) / x^3 in x^4.", [(lambda u: mp.fresnels(u**.25) / u**(F * 3 / 4), F / 10**16, 6.5536)])
show("fresnel_c_near", "C(x) / x in x^4.", [(lambda u: mp.fresnelc(u**.25) / u**(F / 4), F / 10**16, 6.5536)])
fres = [(0, F / 40), (F / 40, F / 6.5536)]
show("fresnel_f", "pi x f(x) in 1 / x^4: f of DLMF 7.2.10.", [(fresnel_f, a, b) for a, b in fres])
show("fresnel_g", "pi^2 x^3 g(x) in 1 / x^4: g of DLMF 7.2.11.", [(fresnel_g, a, b) for a, b in fres])
z = [mp.besseljzero(0, 1), mp.besseljzero(0, 2)], [mp.besseljzero(1, 1), mp.besseljzero(1, 2)]
for n in (0, 1):
    show(f"bessel_j{n}_middle", f"J_{n}(x) / ((x - a) (x - b)) in x: a and b are its zeros in the interval.",
         [(lambda x: mp.besselj(n, x) / ((x - z[n][0]) * (x - z[n][1])), 2, 8)])
    for k, zero in enumerate(z[n]):
        high = float(zero)
        print(f"inline constexpr double j{n}_zero{k} = {high!r}, j{n}_zero{k}_rest = {float(zero - high)!r};")
show("bessel_y1_middle", "Y_1(x) in x.", [(lambda x: mp.bessely(1, x), 6, 8)])
show("erfcx_near", "e^(x^2) erfc(x) in x.", [(lambda x: mp.exp(x * x) * mp.erfc(x), -F / 2, F / 2)])
show("sinc_near", "sin(pi x) / (pi x) in x^2.", [(sinc_of_square, 0, F / 4)])
show("erfcinv_near", "erfcinv(q) / (1 - q) in w = -log(q (2 - q)).", [(erfcinv_over_rest, 0, 2.5), (erfcinv_over_rest, 2.5, 7)])
show("erfcinv_far", "The same in the square root of w.",
     [(lambda s: erfcinv_over_rest(s * s), a, b) for a, b in ((2.6, 4.5), (4.5, 10), (10, 27.5))])
show("bessel_j0_near", "J_0(x) in x^2.", [(lambda u: mp.besselj(0, mp.sqrt(u)), 0, 4)])
show("bessel_j1_near", "J_1(x) / x in x^2.", [(over_x(lambda x: mp.besselj(1, x)), F / 10**16, 4)])
show("bessel_y0_rest", "Y_0(x) - 2 / pi log(x) J_0(x) in x^2.", [(bessel_y0_rest, F / 10**16, F / 4)])
show("bessel_y1_rest", "(Y_1(x) - 2 / pi (log(x) J_1(x) - 1 / x)) / x in x^2.", [(bessel_y1_rest, F / 10**8, F / 4)])
show("bessel_y0_middle", "Y_0(x), divided by x - a for its zeros a in the interval, in x.",
     [(bessel_y_over(0, 0), .5, 2), (bessel_y_over(0, 1, 2), 2, 8)])
show("bessel_y1_between", "Y_1(x), divided by x - a for its zeros a in the interval, in x.",
     [(bessel_y_over(1), .5, 1.5), (bessel_y_over(1, 0), 1.5, 4), (bessel_y_over(1, 1), 4, 8)])
for n in (0, 1):
    for k, zero in enumerate(y_zeros[n]):
        high = float(zero)
        print(f"inline constexpr double y{n}_zero{k} = {high!r}, y{n}_zero{k}_rest = {float(zero - high)!r};")
for n in (0, 1):
    show(f"bessel_p{n}", f"P of DLMF 10.17.3 for the order {n}, in 1 / x^2.", [(bessel_p(n), 0, F / 64)])
    show(f"bessel_q{n}", f"x Q of DLMF 10.17.3 for the order {n}, in 1 / x^2.", [(bessel_q(n), 0, F / 64)])
    show(f"bessel_i{n}_near", f"e^-x I_{n}(x) / x^{n} in x.", [(scaled_i(n), F / 10**12, 2), (scaled_i(n), 2, 8)])
    show(f"bessel_i{n}_far", f"sqrt(x) e^-x I_{n}(x) in 1 / x.", [(scaled_i_far(n), F / 10**9, F / 8)])
show("entropy_near", "(artanh(s) - s) / s^3 in s^2.",
     [(lambda u: (mp.atanh(mp.sqrt(u)) - mp.sqrt(u)) / mp.sqrt(u)**3 if u else F / 3, 0, F / 15)])
show("sine_rest", "(sin(x) - x) / x^3 in x^2.", [(lambda u: (mp.sin(mp.sqrt(u)) - mp.sqrt(u)) / mp.sqrt(u)**3 if u else -F / 6, 0, 0.6169)])
show("cosine_rest", "(cos(x) - 1 + x^2 / 2) / x^4 in x^2.",
     [(lambda u: (mp.cos(mp.sqrt(u)) - 1 + u / 2) / u**2 if u else F / 24, 0, 0.6169)])
print("\n}  // namespace stave_cpu")
