"""Writes derivatives.csv: first and second derivatives of elementwise functions over the whole range of the float dtypes, by mpmath.

    python3 tests/data/derivatives.py

Formulas are differentiated by SymPy and evaluated with so many digits that nothing cancels. Each operand is a number that some dtype
holds exactly, most of them one that all of its range do; which do, the test finds out.
"""

import pathlib

import mpmath
import sympy as sp
from mpmath import mp, mpf

x, y = sp.symbols("x y", real=True)
rows = []


def powers(*exponents):
    return [mpf(2) ** e for e in exponents]


# Denormal numbers, and numbers near the least normal one, of float16, bfloat16 and float32, and float64.
tiny = [*powers(-24, -16, -14), *powers(-149, -133, -126), *powers(-1074, -1060, -1022), *powers(-100, -400)]
small = powers(-21, -12, -8, -4)
middle = [mpf(m) for m in ("0.4375", "0.75", "1.5", "2.890625", "5.09375", "8.4375", "12")]
near_one = [1 + s * p for s, exponents in ((-1, (-8, -11, -24, -53)), (1, (-7, -23, -52))) for p in powers(*exponents)]
tail = [mpf(m) for m in (17, 20, 40, 88, 100, 256, 300, 700, 1000, 60000)]
huge = [m * p for m, p in zip((1, 1.5, 1, 1.5, 1, 1.5, 1.5), powers(40, 73, 120, 127, 500, 665, 1023))]
positive = tiny + small + middle + near_one + tail + huge
everywhere = positive + [-p for p in positive]
inside = [p for p in everywhere if abs(p) < 1]
moderate = [p for p in everywhere if abs(p) <= 1000]
NOT_TOO_FAR = [p for p in everywhere if abs(p) <= 60000]


def exactly(number):
    digits, exponent = float(number).hex().split("p")
    return digits.rstrip("0").rstrip(".") + "p" + exponent.lstrip("+") if "." in digits else digits + "p" + exponent


def text(value):
    return mpmath.nstr(value, 17, min_fixed=1, max_fixed=0).replace(".0e", "e") if value != 0 else "0"


def evaluate(function, point, digits):
    """None where it has no finite real value."""
    mp.dps = digits
    try:
        value = function(*point)
    except (ZeroDivisionError, OverflowError, ValueError, mpmath.libmp.NoConvergence):
        return None
    value = mpmath.mpmathify(value)
    if isinstance(value, mpmath.mpc):
        value = value.real if abs(value.imag) < mpf(10) ** -(digits // 2) * abs(value.real) else mpf("nan")
    return value if mpmath.isfinite(value) else None


def add(name, variables, expressions, points, digits):
    functions = [sp.lambdify(variables, expression, "mpmath") for expression in expressions]
    for point in points:
        point = point if isinstance(point, tuple) else (point,)
        values = [evaluate(f, point, digits) for f in functions]
        if any(v is None for v in values):
            continue
        rows.append(",".join([name, *(exactly(p) for p in point), *map(text, values)]))


def unary(name, formula, points, digits=700, also_zero=True):
    points = list(points) + ([mpf(0)] if also_zero else [])
    add(name, [x], [sp.diff(formula, x), sp.diff(formula, x, 2)], points, digits)


def by_side(name, right, left, points):
    unary(name, right, [p for p in points if p > 0], also_zero=False)
    unary(name, left, [p for p in points if p < 0], also_zero=False)


def binary(name, formula, points, digits=700):
    first = [sp.diff(formula, v) for v in (x, y)]
    add(name, [x, y], [*first, sp.diff(first[0], x), sp.diff(first[0], y), sp.diff(first[1], y)], points, digits)


e = sp.exp
sigmoid = 1 / (1 + e(-x))
normal = sp.erfc(-x / sp.sqrt(2)) / 2
softplus = sp.log(1 + e(x))

unary("square", x**2, everywhere)
unary("sqrt", sp.sqrt(x), positive, also_zero=False)
unary("rsqrt", 1 / sp.sqrt(x), positive, also_zero=False)
unary("reciprocal", 1 / x, everywhere, also_zero=False)
unary("exp", e(x), NOT_TOO_FAR)
unary("exp2", 2**x, NOT_TOO_FAR + [mpf("16.25"), mpf("128.25"), mpf("1024.25"), mpf(16), mpf(128), mpf(1024)])
unary("expm1", e(x) - 1, NOT_TOO_FAR)
unary("log", sp.log(x), positive, also_zero=False)
unary("log2", sp.log(x) / sp.log(2), positive, also_zero=False)
unary("log10", sp.log(x) / sp.log(10), positive, also_zero=False)
unary("log1p", sp.log(1 + x), positive + [-p for p in inside if p > 0])
unary("sin", sp.sin(x), NOT_TOO_FAR)
unary("cos", sp.cos(x), NOT_TOO_FAR)
unary("tan", sp.tan(x), NOT_TOO_FAR)
unary("asin", sp.asin(x), inside)
unary("acos", sp.acos(x), inside)
unary("atan", sp.atan(x), everywhere)
unary("sinh", sp.sinh(x), NOT_TOO_FAR)
unary("cosh", sp.cosh(x), NOT_TOO_FAR)
unary("tanh", sp.tanh(x), NOT_TOO_FAR)
unary("sech_squared", 1 / sp.cosh(x) ** 2, NOT_TOO_FAR)
unary("asinh", sp.asinh(x), everywhere)
unary("acosh", sp.acosh(x), [p for p in positive if p > 1], also_zero=False)
unary("atanh", sp.atanh(x), inside)
unary("sigmoid", sigmoid, NOT_TOO_FAR)
unary("logistic_density", e(-x) / (1 + e(-x)) ** 2, NOT_TOO_FAR)
unary("logit", sp.log(x / (1 - x)), [p for p in inside if p > 0] + [mpf("0.5"), mpf("0.5") + mpf(2) ** -9, mpf("0.5") - mpf(2) ** -26], also_zero=False)
unary("erf", sp.erf(x), moderate)
unary("erfc", sp.erfc(x), moderate)
unary("softplus", softplus, NOT_TOO_FAR)
unary("silu", x * sigmoid, NOT_TOO_FAR)
unary("gelu", x * normal, moderate)
unary("gelu_tanh", x / (1 + e(-2 * sp.sqrt(2 / sp.pi) * (x + sp.Rational("0.044715") * x**3))), [p for p in everywhere if abs(p) <= 300])
unary("mish", x * sp.tanh(softplus), NOT_TOO_FAR)
unary("log_sigmoid", -sp.log(1 + e(-x)), NOT_TOO_FAR)
unary("entr", -x * sp.log(x), positive, also_zero=False)
by_side("elu", x, e(x) - 1, NOT_TOO_FAR)
by_side("celu", x, 2 * (e(x / 2) - 1), NOT_TOO_FAR)
scale, alpha = sp.Float("1.0507009873554804934193349852946", 50), sp.Float("1.6732632423543772848170429916717", 50)
by_side("selu", scale * x, scale * alpha * (e(x) - 1), NOT_TOO_FAR)
inverse = sp.Function("erfinv")(x)
slope = sp.sqrt(sp.pi) / 2 * e(inverse**2)
add("erfinv", [x], [slope, 2 * inverse * slope**2], inside + [mpf(0)], 60)
psi = lambda n: sp.polygamma(n, x)
gammas = [p for p in positive if p <= 60000] + [mpf(-1) / 2, mpf("-1.5"), mpf("-2.75")]
add("lgamma", [x], [psi(0), psi(1)], gammas, 60)
add("digamma", [x], [psi(1), psi(2)], gammas, 60)

pairs = [
    (a, b)
    for a in [mpf(m) for m in ("0.75", "3", "12", "300", "-1.5")] + powers(-24, -133, -149, 14, 66, 120, 1000, -1030)
    for b in [mpf(m) for m in ("0.5", "1", "20", "-6")] + powers(-16, -130, 15, 73, 126, 700, -1040)
]
radius = sp.sqrt(x**2 + y**2)
binary("divide", x / y, pairs)
binary("hypot", radius, pairs)
binary("atan2", sp.atan2(x, y), pairs)
binary("direction_cosine", x / radius, pairs)
binary("over_squared_radius", x / (x**2 + y**2), pairs)
binary("xlogy", x * sp.log(y), [p for p in pairs if p[1] > 0])
binary("xlog1py", x * sp.log(1 + y), [p for p in pairs if p[1] > -1])
binary("logaddexp", sp.log(e(x) + e(y)), [p for p in pairs if max(map(abs, p)) <= 300])
binary("exp_of_product", e(x * y), [(mpf(a), mpf(b)) for a in ("-6.5", "0.75", "3", "25") for b in ("6.25", "-6.25", "0.125", "-25", "-3")])
powers_of = [mpf(m) for m in ("0.5", "1.5", "2", "3", "-1", "-0.5", "0.25", "0.75", "-2.5", "0")]
bases = [mpf(m) for m in ("0.75", "3", "300")] + powers(-24, -12, -16, -130, -149, 14, 60, 120, 1000, -1030)
binary("pow", x**y, [(a, b) for a in bases for b in powers_of] + [(mpf(a), mpf(a)) for a in powers(-16, -133)])
# At 2^-16 terms of the second derivative by y overflow in float16, whose sum does not.
binary("power_rule", y * x ** (y - 1), [(a, b) for a in bases for b in powers_of if a != mpf(2) ** -16])

path = pathlib.Path(__file__).with_suffix(".csv")
header = ["# By tests/data/derivatives.py: a function, its operand x, f', f''; or x, y, and the derivatives by x, y, xx, xy, yy."]
path.write_text("\n".join(header + sorted(set(rows), key=rows.index)) + "\n")
print(len(rows), "rows,", path.stat().st_size, "bytes")
