"""Writes special_functions.csv: values of special functions by mpmath, at arguments that float32 holds exactly.

A line is a function, its arguments and its value. The first argument of a function with an order is the order.

    python3 tests/data/special_functions.py
"""

import pathlib
import random
import struct

import mpmath as mp

mp.mp.dps = 50
random.seed(7)
rows = []


def single(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def uniform(low, high, count=30):
    return [single(random.uniform(low, high)) for _ in range(count)]


def logarithmic(low, high, count=30):
    return [single(10**random.uniform(low, high)) for _ in range(count)]


def add(name, f, *arguments):
    value = f(*(mp.mpf(a) for a in arguments))
    if mp.isfinite(value) and 1e-300 < abs(value) < 1e300:
        rows.append([name, *(float(a).hex() for a in arguments), mp.nstr(value, 22)])


def add_all(name, f, *columns):
    for arguments in zip(*columns):
        add(name, f, *arguments)


def both_signs(xs):
    return xs + [-x for x in xs]


# ---- gamma and beta functions --------------------------------------------------------------------


def lower(a, x):
    # The smaller one of both tails is computed, so that no digits are lost.
    return mp.gammainc(a, 0, x, regularized=True)


def upper(a, x):
    return mp.gammainc(a, x, mp.inf, regularized=True)


a = logarithmic(-2, 3, 60) + uniform(0.1, 20)
x = [single(b * random.uniform(0.2, 2)) for b in a[:60]] + uniform(0.1, 20)
add_all("gammainc", lower, a, x)
add_all("gammaincc", upper, a, x)
large = [single(b * random.uniform(0.97, 1.03)) for b in [1e4, 1e5, 1e6]]
add_all("gammainc", lower, [1e4, 1e5, 1e6], large)
add_all("gammaincc", upper, [1e4, 1e5, 1e6], large)
add_all("gamma_density", lambda a, x: mp.exp(-x + (a - 1) * mp.log(x) - mp.loggamma(a)), a, x)


def by_first(f, n):
    def derivative(a, *rest):
        with mp.workdps(90):
            return mp.diff(lambda s: f(s, *rest), a, n)
    return derivative


small = list(zip(uniform(0.2, 30, 25) + [100.0, 300.0], uniform(0.2, 30, 25) + [90.0, 310.0]))
for n in (1, 2, 3):
    for s, t in small:
        add("gammainc_derivative", lambda n, a, x: by_first(lower, int(n))(a, x), n, s, t)


def beta_ratio(a, b, x):
    with mp.workdps(mp.mp.dps + 40):
        return mp.betainc(a, b, 0, x, regularized=True)


a, b, x = logarithmic(-1.5, 2.5, 60), logarithmic(-1.5, 2.5, 60), uniform(0.01, 0.99, 60)
add_all("betainc", beta_ratio, a, b, x)
add_all("betainc", beta_ratio, uniform(0.1, 20), uniform(0.1, 20), uniform(0, 1))
add_all("beta_density", lambda a, b, x: x**(a - 1) * (1 - x)**(b - 1) / mp.beta(a, b), a, b, x)
for m, n in ((1, 0), (0, 1), (1, 1), (2, 0), (0, 2)):
    for a, b, x in zip(uniform(0.3, 8, 8), uniform(0.3, 8, 8), uniform(0.05, 0.95, 8)):
        with mp.workdps(60):
            add("betainc_derivative", lambda m, n, a, b, x: mp.diff(lambda s, t: beta_ratio(s, t, x), (a, b), (int(m), int(n))),
                m, n, a, b, x)
a, b = logarithmic(-4, 8, 60), logarithmic(-4, 8, 60)
add_all("betaln", lambda a, b: mp.log(mp.beta(a, b)) if a + b < 1e3 else
        mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b), a, b)
add_all("poch", mp.rf, uniform(0.1, 50), uniform(-0.1, 50))
add_all("poch", mp.rf, uniform(-20, 0), uniform(-10, 10))
add_all("poch", mp.rf, uniform(-20, 20), [float(random.randrange(-8, 9)) for _ in range(30)])
add_all("poch", mp.rf, logarithmic(2, 5), uniform(-3, 3))
add_all("multigammaln", lambda d, a: d * (d - 1) / 4 * mp.log(mp.pi) + sum(mp.loggamma(a - mp.mpf(i) / 2) for i in range(int(d))),
        [3] * 20, uniform(1.1, 30, 20))


def hurwitz(n, s, q):
    return mp.zeta(s, q, int(n))


for n in (1, 2, 3):
    add_all("zeta_derivative", hurwitz, [n] * 25, uniform(1.05, 12, 25), uniform(0.1, 30, 25))
    add_all("zeta_derivative", hurwitz, [n] * 5, uniform(1.01, 40, 5), logarithmic(-2, 1, 5))

# ---- the normal distribution ---------------------------------------------------------------------


def ndtri(p):
    y = mp.mpf(0)
    if p == 0.5:
        return y
    f = lambda y: mp.erfc(-y / mp.sqrt(2)) / 2
    t = p if p < 0.5 else 1 - p
    y = -mp.sqrt(-2 * mp.log(t)) if t < 0.1 else (t - 0.5) * 2.5
    for _ in range(80):
        step = (f(y) - t) * mp.sqrt(2 * mp.pi) * mp.exp(y * y / 2)
        y -= step / (1 + y * step / 2)
        if abs(step) < mp.mpf(10)**-45:
            break
    return y if p < 0.5 else -y


add_all("ndtri", ndtri, uniform(0, 1, 40) + logarithmic(-37, -1, 30))
add_all("erfcinv", lambda x: -ndtri(x / 2) / mp.sqrt(2), uniform(0, 2, 40) + logarithmic(-37, -1, 30))
add_all("log_ndtr", lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2) if x < 0 else mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2),
        uniform(-40, 5, 50) + both_signs(logarithmic(-6, 1, 20)) + [-100.0, -1000.0, 20.0])


def scaled_erfc(x):
    return mp.exp(x * x) * mp.erfc(x) if x < 40 else mp.hyperu(.5, .5, x * x) / mp.sqrt(mp.pi)


add_all("erfcx", lambda n, x: scaled_erfc(x), [0] * 100, uniform(-5, 10, 50) + logarithmic(-5, 10, 40) + uniform(-26, -5, 10))


def repeated(n, x):
    with mp.workdps(90):
        last, now = 2 / mp.sqrt(mp.pi), mp.exp(x * x) * mp.erfc(x)
        for k in range(1, int(n) + 1):
            last, now = now, (last - 2 * x * now) / (2 * k)
    return now


for n in (1, 2, 3):
    add_all("erfcx", repeated, [n] * 20, uniform(-2, 10, 20))
    add_all("dawsn", lambda n, x: mp.diff(lambda t: mp.sqrt(mp.pi) / 2 * mp.exp(-t * t) * mp.erfi(t), x, int(n)), [n] * 20,
            uniform(-8, 8, 20))
dawson = lambda n, x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)
add_all("dawsn", dawson, [0] * 110, uniform(-10, 10, 60) + logarithmic(-6, 1.3, 50))

# ---- Bessel functions ----------------------------------------------------------------------------

x = logarithmic(-4, 4, 50) + uniform(0, 30, 30)
for n in (0, 1, 2, 3, 7, 20):
    order = [n] * len(x)
    add_all("bessel_j", mp.besselj, order, both_signs(x) if n in (0, 1) else x)
    if n < 4:
        add_all("bessel_y", mp.bessely, order, x)
        add_all("bessel_i", mp.besseli, order, [t for t in x if t < 680])
        add_all("bessel_ie", lambda n, x: mp.exp(-x) * mp.besseli(n, x), order, x)
        add_all("bessel_k", mp.besselk, order, [t for t in x if t < 680])
        add_all("bessel_ke", lambda n, x: mp.exp(x) * mp.besselk(n, x), order, x)

# ---- integrals -----------------------------------------------------------------------------------

x = uniform(0, 40, 40) + logarithmic(-6, 2.8, 40)
add_all("expi", mp.ei, both_signs(x))
for n in (0, 1, 2, 3, 10, 50):
    add_all("expn", mp.expint, [n] * len(x), x)
z = uniform(0, 3, 40) + logarithmic(-6, 10, 40)
add_all("spence", lambda n, z: mp.polylog(2, 1 - z).real, [0] * len(z), z)
for n in (1, 2, 3):
    add_all("spence", lambda n, z: mp.diff(lambda t: mp.log(t) / (1 - t) if t != 1 else mp.mpf(-1), z, int(n) - 1), [n] * 25,
            uniform(0.05, 4, 25))
add_all("sine_integral", mp.si, both_signs(logarithmic(-5, 5, 50)) + uniform(0, 20, 50))
add_all("cosine_integral", mp.ci, logarithmic(-5, 5, 50) + uniform(0, 20, 50))
add_all("fresnel_s", mp.fresnels, both_signs(logarithmic(-3, 3, 50)) + uniform(0, 8, 50))
add_all("fresnel_c", mp.fresnelc, both_signs(logarithmic(-3, 3, 50)) + uniform(0, 8, 50))
add_all("sinc", lambda n, x: mp.sincpi(x), [0] * 60, uniform(-10, 10, 30) + logarithmic(-5, 4, 30))
for n in (1, 2, 3):
    add_all("sinc", lambda n, x: mp.diff(mp.sincpi, x, int(n)), [n] * 40, uniform(-5, 5, 20) + logarithmic(-4, 2, 20))

# ---- hypergeometric functions --------------------------------------------------------------------

add_all("hyp1f1", mp.hyp1f1, uniform(-8, 12, 80), uniform(0.1, 12, 80), uniform(-30, 30, 80))
add_all("hyp1f1", mp.hyp1f1, uniform(0.1, 4, 30), uniform(0.1, 4, 30), both_signs(logarithmic(-4, 2.5, 15)))
add_all("hyp1f1", mp.hyp1f1, uniform(-4, 4, 30), uniform(-4, 0, 30), uniform(-5, 5, 30))
add_all("hyp2f1", mp.hyp2f1, uniform(-3, 6, 80), uniform(-3, 6, 80), uniform(0.1, 8, 80), uniform(-1, 1, 80))
add_all("hyp2f1", mp.hyp2f1, uniform(-2, 4, 40), uniform(-2, 4, 40), uniform(0.1, 5, 40), uniform(-50, 0.999, 40))
add_all("hyp2f1", mp.hyp2f1, [1.0, 2.0, 0.5, 1.0, 3.0, 1.0], [1.0, 1.5, 0.5, 2.0, 1.0, 4.0], [2.0, 2.5, 1.0, 3.0, 2.0, 5.0],
        [0.5, 0.75, 0.96875, 0.9990234375, -3.5, -20.0])
add_all("hyp2f1", mp.hyp2f1, uniform(-3, 3, 20), uniform(-3, 3, 20), uniform(-4, 0, 20), uniform(-0.9, 0.9, 20))

# ---- entropies, Lambert's function ---------------------------------------------------------------

p, q = logarithmic(-5, 3, 40), logarithmic(-5, 3, 40)
near = [single(t * (1 + random.choice([-1, 1]) * 10**random.uniform(-7, -1))) for t in p]
for x, y in ((p, q), (p, near)):
    add_all("rel_entr", lambda x, y: x * mp.log(x / y), x, y)
    add_all("kl_div", lambda x, y: x * mp.log(x / y) - x + y, x, y)
inside = [single(-random.uniform(0, 0.3678)) for _ in range(30)] + [-single(10**random.uniform(-20, -1)) for _ in range(20)]
add_all("lambertw", lambda k, x: mp.lambertw(x, int(k)).real, [0] * 90, inside + logarithmic(-8, 30, 40))
add_all("lambertw", lambda k, x: mp.lambertw(x, int(k)).real, [-1] * 50, [t for t in inside if t > -0.367])

# ---- ordinary arguments, such as tests/bench/numbers.h has ---------------------------------------

for f, name in ((lower, "gammainc"), (upper, "gammaincc")):
    add_all(name, f, uniform(0.1, 50, 100), uniform(0.1, 50, 100))
    add_all(name, f, uniform(1, 250, 50), uniform(1, 250, 50))
add_all("betainc", beta_ratio, uniform(0.1, 50, 100), uniform(0.1, 50, 100), uniform(0, 1, 100))
add_all("betaln", lambda a, b: mp.log(mp.beta(a, b)), uniform(0.1, 50, 60), uniform(0.1, 50, 60))
add_all("betaln", lambda a, b: mp.log(mp.beta(a, b)), uniform(0.2, 3, 40), uniform(0.2, 3, 40))
add_all("poch", mp.rf, uniform(0.1, 50, 100), uniform(0.1, 50, 100))
add_all("log_ndtr", lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2) if x < 0 else mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2),
        uniform(-20, 5, 100))
add_all("erfcx", lambda n, x: scaled_erfc(x), [0] * 100, uniform(-5, 20, 100))
x = uniform(0, 50, 100)
for n in (0, 1):
    add_all("bessel_j", mp.besselj, [n] * 100, x)
    add_all("bessel_y", mp.bessely, [n] * 100, x)
    add_all("bessel_ie", lambda n, x: mp.exp(-x) * mp.besseli(n, x), [n] * 100, x)
add_all("sine_integral", mp.si, x)
add_all("cosine_integral", mp.ci, x)
add_all("expn", mp.expint, [3] * 100, uniform(0, 20, 100))
add_all("fresnel_s", mp.fresnels, uniform(-10, 10, 100))
add_all("fresnel_c", mp.fresnelc, uniform(-10, 10, 100))
add_all("hyp1f1", mp.hyp1f1, uniform(0.1, 10, 150), uniform(0.1, 10, 150), uniform(-10, 10, 150))
add_all("hyp2f1", mp.hyp2f1, uniform(0.1, 5, 150), uniform(0.1, 5, 150), uniform(0.1, 10, 150), uniform(-1, 1, 150))
p, q = uniform(0, 1, 100), uniform(0, 1, 100)
add_all("rel_entr", lambda x, y: x * mp.log(x / y), p, q)
add_all("kl_div", lambda x, y: x * mp.log(x / y) - x + y, p, q)

text = "# By tests/data/special_functions.py: a function, its arguments, its value.\n" + "".join(",".join(row) + "\n" for row in rows)
(pathlib.Path(__file__).parent / "special_functions.csv").write_text(text)
