"""Writes taylor.csv: Taylor coefficients of functions of one variable, to order 20 by mpmath and to order 5 by jax.experimental.jet.

    python3 tests/data/taylor.py

A line holds a name, the point, and the coefficients of order 0, 1, ... of f(point + t) in powers of t. The test
(tests/handlers/taylor/series_test.cpp) has the same functions.
"""

import math
import pathlib

import jax
import jax.numpy as jnp
import mpmath
from jax.experimental.jet import jet
from mpmath import mp, mpf

ORDER, JAX_ORDER = 20, 5
mp.dps = 30


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def normal(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def tanh_form(x):
    return x * sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + mpf("0.044715") * x**3))


def composed(x):
    return mp.tanh(mp.sin(mp.exp(x)) * mp.sqrt(1 + x * x)) / (1 + sigmoid(x * mp.log1p(x * x)))


FUNCTIONS = {
    "exp": (0.3, mp.exp),
    "exp2": (0.3, lambda x: mpf(2) ** x),
    "expm1": (0.3, mp.expm1),
    "log": (1.3, mp.log),
    "log2": (1.3, lambda x: mp.log(x) / mp.log(2)),
    "log10": (1.3, lambda x: mp.log(x) / mp.log(10)),
    "log1p": (0.3, mp.log1p),
    "sin": (0.7, mp.sin),
    "cos": (0.7, mp.cos),
    "tan": (0.4, mp.tan),
    "asin": (0.3, mp.asin),
    "acos": (0.3, mp.acos),
    "atan": (0.3, mp.atan),
    "sinh": (0.3, mp.sinh),
    "cosh": (0.3, mp.cosh),
    "tanh": (0.3, mp.tanh),
    "asinh": (0.3, mp.asinh),
    "acosh": (1.7, mp.acosh),
    "atanh": (0.3, mp.atanh),
    "sigmoid": (0.3, sigmoid),
    "logit": (0.3, lambda x: mp.log(x / (1 - x))),
    "erf": (0.3, mp.erf),
    "erfc": (0.3, mp.erfc),
    "erfinv": (0.3, mp.erfinv),
    "softplus": (0.3, lambda x: mp.log1p(mp.exp(x))),
    "silu": (0.3, lambda x: x * sigmoid(x)),
    "gelu": (0.3, lambda x: x * normal(x)),
    "gelu_tanh": (0.3, tanh_form),
    "lgamma": (1.3, mp.loggamma),
    "digamma": (1.3, mp.digamma),
    "sqrt": (1.3, mp.sqrt),
    "rsqrt": (1.3, lambda x: 1 / mp.sqrt(x)),
    "square": (1.3, lambda x: x * x),
    "reciprocal": (1.3, lambda x: 1 / x),
    "pow_2.5": (1.3, lambda x: x ** mpf("2.5")),
    "pow_3": (-1.3, lambda x: x**3),
    "pow_base": (1.3, lambda x: mpf("2.5") ** x),
    "pow_x": (1.3, lambda x: x**x),
    "atan2": (0.3, lambda x: mp.atan(x / (1 + x * x))),
    "hypot": (0.3, lambda x: mp.sqrt(x * x + mp.exp(2 * x))),
    "logaddexp": (0.3, lambda x: mp.log(mp.exp(x) + mp.exp(mp.sin(x)))),
    "xlogy": (1.3, lambda x: x * mp.log(1 + x)),
    "xlog1py": (1.3, lambda x: x * mp.log1p(x)),
    "zeta": (1.3, lambda x: mp.zeta(mpf("2.5"), x)),
    "divide": (0.3, lambda x: mp.sin(x) / (2 + mp.cos(x))),
    "composed": (0.3, composed),
}


def curve(t):
    return jnp.stack([t, jnp.sin(t), t * t, jnp.exp(t)])


def matrix(n, seed):
    return jnp.array([[math.cos(seed + 1.3 * i + 2.1 * j + 0.7 * i * j) + (3 if i == j else 0) for j in range(n)] for i in range(n)])


def moving(t, n):
    return matrix(n, 0.3) + t * matrix(n, 1.1) + t * t * matrix(n, 2.3)


def weighted(x):
    return jnp.sum(x * jnp.cos(1 + 0.37 * jnp.arange(x.size).reshape(x.shape)))


def products(t):
    a = 0.2 * moving(t, 4)
    return weighted((a @ (a + 0.1)) @ (a - 0.2) @ a)


def network(t):
    hidden = jnp.tanh(matrix(4, 0.3) @ curve(t))
    return weighted(jax.nn.sigmoid(matrix(4, 1.1) @ hidden))


JAX_FUNCTIONS = {
    "logsumexp": (0.3, lambda t: jax.scipy.special.logsumexp(curve(t))),
    "softmax": (0.3, lambda t: weighted(jax.nn.softmax(curve(t)))),
    "products": (0.1, products),
    "network": (0.3, network),
    "cumsum": (0.3, lambda t: weighted(jnp.cumsum(curve(t)) * curve(t))),
    "max": (0.3, lambda t: jnp.max(curve(t))),
}


def main():
    jax.config.update("jax_enable_x64", True)
    lines = ["# By tests/data/taylor.py: a function, the point, and the coefficients of order 0, 1, ..."]
    for name, (at, f) in FUNCTIONS.items():
        coefficients = mpmath.taylor(f, mpf(at), ORDER)
        lines.append(",".join([name, repr(at)] + [mpmath.nstr(mp.re(c), 20) for c in coefficients]))
    for name, (at, f) in JAX_FUNCTIONS.items():
        value, derivatives = jet(f, (at,), ([1.0] + [0.0] * (JAX_ORDER - 1),))
        series = [value] + [d / math.factorial(k + 1) for k, d in enumerate(derivatives)]
        lines.append(",".join(["jax " + name, repr(at)] + [repr(float(c)) for c in series]))
    path = pathlib.Path(__file__).with_name("taylor.csv")
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
