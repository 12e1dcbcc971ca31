"""Writes oracle_distributions.txt: logarithms of densities by SciPy, their gradients by JAX.

    python3 tests/data/oracle_distributions.py
"""

import jax
import jax.numpy as jnp
import numpy as np
import scipy
import scipy.special
from jax.scipy import stats as js
from scipy import stats

from oracle import FLOATS, WIDE, File, weight

file = File(__file__, "oracle_distributions.txt", f"SciPy {scipy.__version__}, JAX {jax.__version__}")
log_2 = float(np.log(2))


def check(name, values, by_jax, *inputs, outside=(), **options):
    """The value of each dtype; values and gradients; and values at points of which some are outside of the support."""
    expected = np.asarray(values(*inputs))
    file.add(name, inputs, expected, dtypes=FLOATS, scaled=True, **options)
    active = [i for i, x in enumerate(inputs) if x.dtype == np.float64]

    def of_active(*xs):
        every = list(inputs)
        for i, x in zip(active, xs):
            every[i] = x
        return by_jax(*every)

    outputs, pullback = jax.vjp(of_active, *(jnp.asarray(inputs[i]) for i in active))
    np.testing.assert_allclose(outputs, expected, rtol=1e-12)
    gradients = [np.asarray(g) for g in pullback(jnp.asarray(weight(outputs.shape)))]
    file.add(name, inputs, expected, gradients, dtypes=WIDE, scaled=True, **options)
    for x in outside:
        with np.errstate(all="ignore"):
            file.add(name, [x, *inputs[1:]], values(x, *inputs[1:]), dtypes=WIDE, scaled=True, **options)


floats = lambda *xs: np.array(xs, dtype=np.float64)
ints = lambda *xs: np.array(xs, dtype=np.int32)
x, positive, inside = floats(-2, -0.5, 0, 1.5), floats(0.25, 0.5, 2, 5), floats(0.125, 0.25, 0.5, 0.875)
signs, ends = floats(-1, 0, 0.5, 3), floats(-0.5, 0, 1, 1.5)
location, scale = floats(0.5, -1, 0, 2), floats(0.5, 1, 2, 4)

check("Normal", stats.norm.logpdf, js.norm.logpdf, x, location, scale)
check("Normal", stats.norm.logpdf, js.norm.logpdf, x.reshape(4, 1), location[:2], floats(2).reshape(()))
check("HalfNormal", lambda x, s: stats.halfnorm.logpdf(x, scale=s), lambda x, s: js.norm.logpdf(x, 0, s) + log_2, positive, scale, outside=[signs])
check("Cauchy", stats.cauchy.logpdf, js.cauchy.logpdf, x, location, scale)
check("HalfCauchy", lambda x, s: stats.halfcauchy.logpdf(x, scale=s), lambda x, s: js.cauchy.logpdf(x, 0, s) + log_2, positive, scale, outside=[signs])
check("StudentT", stats.t.logpdf, js.t.logpdf, x, floats(1, 2.5, 4, 30), location, scale, units=64)
check("LogNormal", lambda x, m, s: stats.lognorm.logpdf(x, s, scale=np.exp(m)), lambda x, m, s: js.norm.logpdf(jnp.log(x), m, s) - jnp.log(x), positive, location, scale,
      outside=[signs], units=32)
check("Exponential", lambda x, r: stats.expon.logpdf(x, scale=1 / r), lambda x, r: js.expon.logpdf(x, scale=1 / r), positive, scale, outside=[signs])
check("Gamma", lambda x, a, r: stats.gamma.logpdf(x, a, scale=1 / r), lambda x, a, r: js.gamma.logpdf(x, a, scale=1 / r), positive, floats(0.5, 1, 3.5, 20), scale,
      outside=[floats(-1, 0, 0, 3)], units=64)
gammaln = jax.scipy.special.gammaln
beta = lambda x, a, b: (a - 1) * jnp.log(x) + (b - 1) * jnp.log1p(-x) - gammaln(a) - gammaln(b) + gammaln(a + b)  # JAX's own is right to 1e-6
check("Beta", stats.beta.logpdf, beta, inside, floats(0.5, 1, 3, 8), floats(2, 1, 0.5, 5), outside=[floats(-0.5, 0, 1, 1.5)], units=64)
check("Uniform", lambda x, l, h: stats.uniform.logpdf(x, l, h - l), lambda x, l, h: js.uniform.logpdf(x, l, h - l), inside, floats(-1, 0, 0.25, 0.5), floats(0.5, 1, 4, 1.5), outside=[ends])
check("Bernoulli", lambda k, l: stats.bernoulli.logpmf(k, scipy.special.expit(l)), lambda k, l: jnp.where(k == 1, jax.nn.log_sigmoid(l), jax.nn.log_sigmoid(-l)), ints(0, 1, 1, 0), x,
      outside=[ints(-1, 0, 1, 2)])
logits = floats(0.5, -1, 2, 0, 1, -3).reshape(2, 3)
check("Categorical", lambda k, l: scipy.special.log_softmax(l, -1)[np.arange(2), k], lambda k, l: jax.nn.log_softmax(l)[np.arange(2), k], ints(2, 0), logits)
check("Categorical", lambda k, l: scipy.special.log_softmax(l)[k], lambda k, l: jax.nn.log_softmax(l)[k], ints(2, 0, 1, 1), logits[0])
file.add("Categorical", [ints(-1, 3), logits[0]], floats(-np.inf, -np.inf), dtypes=WIDE)
check("Poisson", stats.poisson.logpmf, js.poisson.logpmf, ints(0, 1, 4, 30), floats(0.5, 1, 3, 20), outside=[ints(-1, 0, 2, -3)], units=64)
file.add("Poisson", [floats(0.5, 1), floats(1, 1)], floats(-np.inf, -1), dtypes=WIDE)

lower = floats(2, 0, 0, 1, 0.5, 0, -1, 2, 4).reshape(3, 3)
normal = lambda x, m, l: stats.multivariate_normal.logpdf(x, m, l @ l.T)
by_jax = lambda x, m, l: js.multivariate_normal.logpdf(x, m, jnp.tril(l) @ jnp.tril(l).T)
check("MultivariateNormal", normal, by_jax, floats(1, -1, 0.5), floats(0, 0.5, 2), lower, units=32)
check("MultivariateNormal", lambda x, m, l: np.array([normal(y, m, l) for y in x]), lambda x, m, l: jnp.stack([by_jax(y, m, l) for y in x]), floats(1, -1, 0.5, 2, 0, -4).reshape(2, 3),
      floats(0, 0.5, 2), lower, units=32)
check("Dirichlet", stats.dirichlet.logpdf, js.dirichlet.logpdf, floats(0.25, 0.125, 0.625), floats(0.5, 1, 4), units=64)
rows, alphas = floats(0.25, 0.125, 0.625, 0.5, 0.25, 0.25).reshape(2, 3), floats(0.5, 1, 4, 2, 3, 20).reshape(2, 3)
check("Dirichlet", lambda x, a: np.array([stats.dirichlet.logpdf(*p) for p in zip(x, a)]), lambda x, a: jnp.stack([js.dirichlet.logpdf(*p) for p in zip(x, a)]), rows, alphas, units=64)

file.write()
