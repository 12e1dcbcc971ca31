"""Writes oracle_random.txt: draws of jax.random with the same keys, and their gradients.

    python3 tests/data/oracle_random.py

Draws in float32 and int32 are those of JAX without 64-bit types, draws in float64 those with them. Gradients of gamma draws are also
differences of scipy.special.gammaincinv at a fixed probability, in lines of gamma_by_quantile.
"""

import jax
import jax.numpy as jnp
import numpy as np
import scipy
import scipy.special as sp

from oracle import File, weight

file = File(__file__, "oracle_random.txt", f"JAX {jax.__version__}, SciPy {scipy.__version__}")
random = jax.random
KEYS = [(0, 0), (0, 42), (3735928559, 123456789)]
UNITS = {"float32": 64, "float64": 64}


def with_dtype(x, dtype):
    x = np.asarray(x)
    return jnp.asarray(x, dtype) if np.issubdtype(x.dtype, np.floating) else jnp.asarray(x)


def written(x):
    """An array of a floating dtype as float64, which the file writes as T."""
    x = np.asarray(x)
    return x.astype(np.float64) if np.issubdtype(x.dtype, np.floating) else x


def add(name, f, *parameters, dtypes=("float32", "float64"), keys=KEYS, gradients=True, **options):
    """f(key, dtype, *parameters) as a line for each key and dtype. Parameters are arrays that float32 holds."""
    for dtype in dtypes:
        with jax.enable_x64(dtype == "float64"):
            inputs = [with_dtype(x, dtype) for x in parameters]
            active = [i for i, x in enumerate(inputs) if jnp.issubdtype(x.dtype, jnp.floating)]
            for words in keys:
                key = random.wrap_key_data(jnp.array(words, jnp.uint32))

                def of_active(*xs):
                    every = list(inputs)
                    for i, x in zip(active, xs):
                        every[i] = x
                    return f(key, jnp.dtype(dtype), *every)

                y = of_active(*(inputs[i] for i in active))
                found = []
                if gradients and active and dtype == "float64" and jnp.issubdtype(y.dtype, jnp.floating):
                    _, pullback = jax.vjp(of_active, *(inputs[i] for i in active))
                    found = [np.asarray(g) for g in pullback(jnp.asarray(weight(y.shape)))]
                unit = {"units": UNITS[dtype], "scaled": True, **options}
                if jnp.issubdtype(y.dtype, jnp.integer):
                    y = np.asarray(y, np.int32) if "of" not in options else np.asarray(y)
                    unit = options
                if not parameters:
                    unit = {**unit, "of": options.get("of", dtype)}
                file.add(name, [np.array(words, np.uint32), *(written(x) for x in inputs)], written(y), found, dtypes=dtype, **unit)


# ---- without parameters
for name in ("exponential", "laplace", "logistic", "cauchy", "maxwell"):
    add(name, lambda key, dtype, f=getattr(random, name): f(key, (3, 5), dtype=dtype), shape=[3, 5], units=2000 if name == "cauchy" else 16)
add("rademacher", lambda key, dtype: random.rademacher(key, (12,), dtype=dtype), shape=[12])
add("rademacher_int", lambda key, dtype: random.rademacher(key, (12,), dtype=jnp.int32), dtypes=["float32"], shape=[12])
add("ball", lambda key, dtype: random.ball(key, 3, 2, (4,), dtype=dtype), d=3, p=2, shape=[4])
add("ball", lambda key, dtype: random.ball(key, 2, 1.5, (), dtype=dtype), d=2, p=1.5)
add("orthogonal", lambda key, dtype: random.orthogonal(key, 3, (2,), dtype=dtype), n=3, m=3, shape=[2], units=200)
add("orthogonal", lambda key, dtype: random.orthogonal(key, 4, (), dtype=dtype, m=2), n=4, m=2, units=200)
add("orthogonal", lambda key, dtype: random.orthogonal(key, 2, (), dtype=dtype, m=3), n=2, m=3, units=200)

# ---- with parameters
row = np.array([0.25, 0.5, 1.0, 2.5, 7.0, 40.0])
add("lognormal", lambda key, dtype, s: random.lognormal(key, s, (3, 6), dtype=dtype), np.array([0.125, 0.5, 1.0, 1.5, 0.75, 2.0]), shape=[3, 6])
add("rayleigh", lambda key, dtype, s: random.rayleigh(key, s, (3, 6), dtype=dtype), row, shape=[3, 6])
add("pareto", lambda key, dtype, b: random.pareto(key, b, (3, 6), dtype=dtype), row, shape=[3, 6], units=256)
add("weibull_min", lambda key, dtype, s, c: random.weibull_min(key, s, c, (3, 6), dtype=dtype), row, row[::-1].copy(), shape=[3, 6], units=256)
add("triangular", lambda key, dtype, l, m, r: random.triangular(key, l, m, r, (3, 4), dtype=dtype), np.array([-1.0, 0.0, 2.0, 3.0]), np.array([0.0, 0.25, 2.5, 4.5]), np.array([1.0, 1.0, 3.0, 5.0]), shape=[3, 4])
add("wald", lambda key, dtype, m: random.wald(key, m, (3, 4), dtype=dtype), np.array([0.25, 0.5, 1.0, 2.5]), shape=[3, 4], units=1000)
add("double_sided_maxwell", lambda key, dtype, l, s: random.double_sided_maxwell(key, l, s, (5,), dtype=dtype), np.array(0.5), np.array(2.0), shape=[5])
add("truncated_normal", lambda key, dtype, l, u: random.truncated_normal(key, l, u, (3, 4), dtype=dtype), np.array([-2.0, 0.0, -0.5, 1.0]), np.array([2.0, 1.0, 0.25, 3.0]), shape=[3, 4], units=256)
add("generalized_normal", lambda key, dtype, p: random.generalized_normal(key, p, (3, 4), dtype=dtype), np.array([0.5, 1.0, 2.0, 4.0]), shape=[3, 4], units=512)

# ---- gamma distributions
wide = np.array([0.0078125, 0.125, 0.5, 0.9375, 1.0, 1.5, 3.0, 10.0, 100.0, 4096.0])
add("gamma", lambda key, dtype, a: random.gamma(key, a, (3, 10), dtype=dtype), wide, shape=[3, 10], each=True, units=4000)
add("loggamma", lambda key, dtype, a: random.loggamma(key, a, (3, 10), dtype=dtype), wide, shape=[3, 10], units=64)
add("loggamma", lambda key, dtype, a: random.loggamma(key, a, dtype=dtype), wide.reshape(2, 5), units=64)
add("gamma", lambda key, dtype, a: random.gamma(key, a, dtype=dtype), np.array(2.5), units=4000)
add("beta", lambda key, dtype, a, b: random.beta(key, a, b, (2, 5), dtype=dtype), np.array([0.03125, 0.5, 1.0, 3.0, 50.0]), np.array([0.0625, 0.5, 2.0, 1.5, 20.0]), shape=[2, 5], units=2000)
add("chisquare", lambda key, dtype, n: random.chisquare(key, n, (2, 6), dtype=dtype), row, shape=[2, 6], units=2000)
add("f_distribution", lambda key, dtype, n, m: random.f(key, jnp.broadcast_to(n, (2, 4)), jnp.broadcast_to(m, (2, 4)), (2, 4), dtype=dtype), np.array([1.0, 3.0, 8.0, 40.0]), np.array([2.0, 5.0, 12.0, 30.0]), shape=[2, 4], units=2000)
add("student_t", lambda key, dtype, n: random.t(key, n, (2, 6), dtype=dtype), np.array([0.5, 1.0, 2.0, 5.0, 30.0, 1000.0]), shape=[2, 6], units=2000)
add("dirichlet", lambda key, dtype, a: random.dirichlet(key, a, (3,), dtype=dtype), np.array([0.0625, 0.5, 1.0, 4.0]), shape=[3], units=2000)
add("dirichlet", lambda key, dtype, a: random.dirichlet(key, a, dtype=dtype), np.array([[0.5, 1.0, 4.0], [2.0, 2.0, 0.25]]), units=2000)

# The implicit gradient by differences of the quantile function, where JAX's is exact to few digits.
with jax.enable_x64(True):
    for words in KEYS:
        a = np.array([0.25, 0.75, 1.0, 2.5, 20.0, 300.0])
        x = np.asarray(random.gamma(random.wrap_key_data(jnp.array(words, jnp.uint32)), jnp.asarray(a), dtype=jnp.float64))
        p = sp.gammainc(a, x)
        q = lambda b: np.where(p < 0.5, sp.gammaincinv(b, p), sp.gammainccinv(b, sp.gammaincc(a, x)))
        h = 1e-3 * a
        slope = (8 * (q(a + h) - q(a - h)) - (q(a + 2 * h) - q(a - 2 * h))) / (12 * h)
        file.add("gamma_by_quantile", [np.array(words, np.uint32), a], x, [slope * weight(x.shape)], dtypes="float64", units=1e5, each=True)

# ---- vectors
mean, factor = np.array([0.5, -1.0, 2.0]), np.array([[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [-0.25, 0.5, 0.75]])
add("multivariate_normal", lambda key, dtype, m, c: random.multivariate_normal(key, m, c, (4,), dtype=dtype), mean, factor @ factor.T, shape=[4], gradients=False)
add("multivariate_normal", lambda key, dtype, m, c: random.multivariate_normal(key, m, c, dtype=dtype), np.stack([mean, 2 * mean]), factor @ factor.T, gradients=False)

# ---- counts
def randint(low, high, dtype):
    name = np.dtype(dtype).name
    x64 = "float64" if "64" in name else "float32"
    bounds = [np.asarray(low), np.asarray(high)]
    add("randint", lambda key, _: random.randint(key, (3, 4), jnp.asarray(low), jnp.asarray(high), dtype=dtype), dtypes=[x64], shape=[3, 4], of=name,
        low=low, high=high)


for low, high, dtype in [(0, 10, "int32"), (-5, 6, "int32"), (0, 1 << 20, "int32"), (-2147483648, 2147483647, "int32"), (3, 3, "int32"), (0, 256, "uint8"),
                         (-128, 128, "int8"), (0, 1000, "uint16"), (0, 7, "uint32"), (0, 1 << 40, "int64"), (-5, 6, "int64"), (0, 100, "uint64")]:
    randint(low, high, dtype)
add("randint_of", lambda key, dtype, l, h: random.randint(key, (2, 3), l, h, dtype=jnp.int32), np.array([0, -4, 10], np.int32), np.array([5, 4, 1000], np.int32), dtypes=["float32"], shape=[2, 3])
add("geometric", lambda key, dtype, p: random.geometric(key, p, (3, 5), dtype=jnp.int32), np.array([0.0625, 0.25, 0.5, 0.9375, 1.0]), shape=[3, 5])
rates = np.array([0.0, 0.125, 1.0, 5.0, 9.5])
add("poisson", lambda key, dtype, r: random.poisson(key, r, (4, 5), dtype=jnp.int32), rates, shape=[4, 5])
add("poisson", lambda key, dtype, r: random.poisson(key, r, (4, 5), dtype=jnp.int32), np.array([10.0, 15.0, 100.0, 1000.0, 12.5]), shape=[4, 5])
add("poisson", lambda key, dtype, r: random.poisson(key, r, (40, 2), dtype=jnp.int32), np.array([0.5, 30.0]), shape=[40, 2])
add("poisson", lambda key, dtype, r: random.poisson(key, r, dtype=jnp.int32), np.array(20.0))
count = lambda y: y.astype(jnp.int32)
add("binomial", lambda key, dtype, n, p: count(random.binomial(key, n, p, (4, 5), dtype=dtype)), np.array([1.0, 5.0, 20.0, 8.0, 10.0]), np.array([0.5, 0.25, 0.125, 0.75, 1.0]), shape=[4, 5])
add("binomial", lambda key, dtype, n, p: count(random.binomial(key, n, p, (4, 5), dtype=dtype)), np.array([100.0, 50.0, 1000.0, 64.0, 10000.0]), np.array([0.5, 0.25, 0.125, 0.75, 0.9375]), shape=[4, 5])
add("binomial", lambda key, dtype, n, p: count(random.binomial(key, n, p, (30, 2), dtype=dtype)), np.array([10.0, 200.0]), np.array([0.25, 0.375]), shape=[30, 2])
add("multinomial", lambda key, dtype, n, p: count(random.multinomial(key, n, p, shape=(3, 4), dtype=dtype)), np.array([20.0, 5.0, 100.0]), np.array([0.125, 0.5, 0.25, 0.125]), shape=[3])
add("multinomial", lambda key, dtype, n, p: count(random.multinomial(key, n, p, dtype=dtype)), np.array(1000.0), np.array([0.5, 0.0, 0.25, 0.25]))

# ---- elements and orders
add("choice_of_numbers", lambda key, dtype: random.choice(key, 7, (3, 4)).astype(jnp.int32), dtypes=["float32"], n=7, shape=[3, 4])
add("choice_of_numbers", lambda key, dtype: random.choice(key, 7, (2, 3), replace=False).astype(jnp.int32), dtypes=["float32"], n=7, shape=[2, 3], once=True)
p = np.array([0.125, 0.25, 0.0, 0.5, 0.125])
table = np.arange(20.0).reshape(5, 4)
for once in (False, True):
    o = {"once": True} if once else {}
    add("choice_by", lambda key, dtype, p: random.choice(key, 5, (2, 2), replace=not once, p=p).astype(jnp.int32), p, shape=[2, 2], **o)
    add("choice", lambda key, dtype, x: random.choice(key, x, (2,), replace=not once), table, dtypes=["float32"], shape=[2], axis=0, gradients=False, **o)
    add("choice", lambda key, dtype, x: random.choice(key, x, (3,), replace=not once, axis=1), table, dtypes=["float32"], shape=[3], axis=1, gradients=False, **o)
    add("choice", lambda key, dtype, x: random.choice(key, x, (2, 2), replace=not once), np.arange(6.0), dtypes=["float32"], shape=[2, 2], axis=0, gradients=False, **o)
for axis in (0, 1):
    add("shuffle", lambda key, dtype, x: random.permutation(key, x, axis, independent=True), table, dtypes=["float32"], axis=axis, gradients=False)
add("categorical_without_replacement", lambda key, dtype, l: random.categorical(key, l, axis=0, shape=(3, 4), replace=False).astype(jnp.int32), np.floor(np.sin(table) * 16) / 16, k=3, axis=0)
add("categorical_without_replacement", lambda key, dtype, l: random.categorical(key, l, shape=(2, 5), replace=False).astype(jnp.int32), np.floor(np.sin(table) * 16) / 16, k=2, axis=-1)
file.write()
