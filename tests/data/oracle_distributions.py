"""Writes oracle_distributions.txt: densities, probabilities and moments by SciPy, gradients by JAX, bijectors by NumPyro.

    python3 tests/data/oracle_distributions.py
"""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy
import scipy.special
from jax.scipy import stats as js
from numpyro.distributions import transforms
from scipy import stats

from oracle import FLOATS, WIDE, File, weight

file = File(__file__, "oracle_distributions.txt", f"SciPy {scipy.__version__}, JAX {jax.__version__}, NumPyro {numpyro.__version__}")
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

# ---- probabilities and moments of all distributions of numbers -----------------------------------

MEMBERS = {"log_prob": "logpdf", "cdf": "cdf", "log_cdf": "logcdf", "sf": "sf", "quantile": "ppf", "mean": "mean", "variance": "var", "entropy": "entropy"}
PROBABILITIES = ["cdf", "log_cdf", "sf", "quantile"]
MOMENTS = ["mean", "variance", "entropy"]
shares = floats(0, 1e-6, 0.01, 0.25, 0.5, 0.75, 0.99, 1 - 2**-20, 1)


def column(xs):
    return np.asarray(xs)[:, None]


def members(name, frozen, xs, parameters, names, discrete=False, ppf=None, **units):
    """Members at all xs (a column) for all parameters (a row)."""
    d = frozen(*parameters)
    for member in names:
        scipy_name = MEMBERS[member] if not discrete else MEMBERS[member].replace("pdf", "pmf")
        options = {"member": member, "units": units.get(member, 128)}
        if member == "entropy":
            options["scaled"] = True  # it may be near 0
        with np.errstate(all="ignore"):
            if member in MOMENTS:
                values = np.broadcast_to(getattr(d, scipy_name)(), np.broadcast_shapes(*(np.shape(p) for p in parameters)))
                file.add(name, parameters, np.asarray(values, dtype=np.float64), dtypes=WIDE, **options)
            elif member == "quantile":
                file.add(name, [column(shares), *parameters], (ppf or d.ppf)(column(shares)), dtypes="float64", either_zero=True, **options)
            else:
                file.add(name, [column(xs), *parameters], getattr(d, scipy_name)(column(xs)), dtypes="float64", either_zero=True, **options)


ALL = PROBABILITIES + MOMENTS
real, above_0 = floats(-30, -3, -0.5, 0, 0.25, 1, 4, 50), floats(-1, 0, 1e-3, 0.25, 1, 4, 50)
members("Normal", stats.norm, real, [location, scale], ALL, cdf=512, sf=512, log_cdf=512)
members("HalfNormal", lambda s: stats.halfnorm(scale=s), above_0, [scale], ALL, ppf=lambda q: scale * np.sqrt(2) * scipy.special.erfinv(q), sf=512, log_cdf=512)  # halfnorm.ppf loses digits of a small q
members("LogNormal", lambda m, s: stats.lognorm(s, scale=np.exp(m)), above_0, [location, floats(0.5, 1, 0.25, 2)], ALL, cdf=512, sf=512, log_cdf=512)
members("Cauchy", stats.cauchy, real, [floats(0.25, -1.5, 0.125, 1), scale], PROBABILITIES + ["entropy"])
members("HalfCauchy", lambda s: stats.halfcauchy(scale=s), above_0, [scale], PROBABILITIES + ["entropy"], ppf=lambda q: scale * np.where(q < 0.5, np.tan(np.pi / 2 * q), 1 / np.tan(np.pi / 2 * (1 - q))))  # halfcauchy.ppf loses digits near 1
members("StudentT", stats.t, real, [floats(1.5, 2.5, 4.5, 30), location, scale], ALL, cdf=256, sf=256, log_cdf=256, quantile=4096, entropy=64)
members("Exponential", lambda r: stats.expon(scale=1 / r), above_0, [scale], ALL)
members("Gamma", lambda a, r: stats.gamma(a, scale=1 / r), above_0, [floats(0.5, 1, 3.5, 20), scale], ALL, quantile=2048, entropy=64, cdf=64, sf=64)
members("InverseGamma", lambda a, r: stats.invgamma(a, scale=r), above_0, [floats(2.5, 3, 3.5, 20), scale], ALL, quantile=2048, entropy=64, cdf=64, sf=64, log_cdf=64, variance=64)
members("ChiSquared", stats.chi2, above_0, [floats(1, 2, 7, 20)], ALL, quantile=2048, entropy=64, cdf=64, sf=64)
members("Beta", stats.beta, floats(-0.5, 0, 1e-3, 0.25, 0.5, 0.875, 1, 2), [floats(0.5, 1, 3, 8), floats(2, 1, 0.5, 5)], ALL, quantile=4096, cdf=64, sf=64, log_cdf=64, entropy=512)
members("FDistribution", stats.f, above_0, [floats(1, 2, 7, 20), floats(4.5, 5, 12, 8)], ALL, quantile=8192, cdf=64, sf=64, log_cdf=64, entropy=512, variance=64)
members("Uniform", lambda l, h: stats.uniform(l, h - l), floats(-2, -1, 0, 0.25, 0.75, 4, 5), [floats(-1, 0, 0.25, 0.5), floats(0.5, 1, 4, 1.5)], ALL)
members("Laplace", stats.laplace, real, [location, scale], ALL)
members("Logistic", stats.logistic, real, [location, scale], ALL, quantile=64)
members("Gumbel", stats.gumbel_r, real, [location, scale], ALL, quantile=64, sf=64, cdf=64, log_cdf=64)
members("Pareto", lambda a, s: stats.pareto(a, scale=s), floats(-1, 0.25, 0.5, 1, 2, 5, 100), [floats(2.5, 3, 4, 20), floats(0.5, 1, 2, 4)], ALL, variance=64, cdf=64, sf=64, quantile=64)
members("Weibull", lambda k, s: stats.weibull_min(k, scale=s), above_0, [floats(0.5, 1, 2.5, 8), scale], ALL, variance=256, cdf=64, sf=256, quantile=64, log_cdf=64)


def truncnorm(m, s, l, h):
    return stats.truncnorm((l - m) / s, (h - m) / s, m, s)


bounds = [floats(0, 0.5, -1, 0, 2), floats(1, 2, 0.5, 1, 3), floats(-1, -np.inf, -4, 3, -np.inf), floats(2, 1, np.inf, 8, np.inf)]
members("TruncatedNormal", truncnorm, floats(-3, -1, 0, 0.5, 1, 4, 9), bounds, ["log_prob", *PROBABILITIES, "mean", "variance"], sf=256, log_cdf=256, variance=2048)
members("TruncatedNormal", truncnorm, [], [b[[0, 3]] for b in bounds], ["entropy"], entropy=4096)  # of infinite bounds SciPy has NaN
file.add("TruncatedNormal", floats(0, 2, 0, np.inf).reshape(4, 1), stats.halfnorm(scale=2).entropy().reshape(1), dtypes=WIDE, member="entropy", units=16)
members("Bernoulli", lambda l: stats.bernoulli(scipy.special.expit(l)), floats(-1, 0, 0.5, 1, 3), [x], ["log_prob", "cdf", "sf", "quantile", *MOMENTS], discrete=True, log_prob=64, entropy=64)
counts = floats(-1, 0, 0.5, 1, 3, 7, 20)
members("Poisson", stats.poisson, counts, [floats(0.5, 1, 3, 20)], ["log_prob", "cdf", "sf", "quantile", "mean", "variance"], discrete=True, log_prob=64, cdf=64, sf=64, log_cdf=64)
expit = scipy.special.expit
members("Binomial", lambda n, l: stats.binom(n, expit(l)), counts, [floats(1, 3, 10, 1000), floats(0.5, -1, 2, -5)], ["log_prob", "cdf", "sf", "quantile", "mean", "variance"], discrete=True, log_prob=4096, cdf=4096, sf=4096)
members("NegativeBinomial", lambda n, l: stats.nbinom(n, expit(-l)), counts, [floats(1, 3.5, 10, 100), floats(0.5, -1, 2, -5)], ["log_prob", "cdf", "sf", "quantile", "mean", "variance"], discrete=True, log_prob=4096, cdf=4096, sf=4096, mean=256, variance=256)
members("Geometric", lambda l: stats.geom(expit(l), loc=-1), counts, [floats(0.5, -1, 2, -5)], ["log_prob", "cdf", "sf", "quantile", *MOMENTS], discrete=True, log_prob=256, cdf=512, sf=512, mean=64, variance=64)
members("BetaBinomial", stats.betabinom, counts, [floats(1, 3, 10, 100), floats(0.5, 1, 3, 8), floats(2, 1, 0.5, 5)], ["log_prob", "mean", "variance"], discrete=True, log_prob=4096)
members("Hypergeometric", lambda g, b, n: stats.hypergeom(g + b, g, n), counts, [floats(5, 20, 7, 100), floats(3, 10, 7, 40), floats(4, 12, 1, 30)], ["log_prob", "mean", "variance"], discrete=True, log_prob=4096, variance=64)
members("Zipf", stats.zipf, counts, [floats(1.5, 2.5, 3.5, 6)], ["log_prob", "cdf"], discrete=True, log_prob=512, cdf=512)
members("Zipf", stats.zipf, counts, [floats(3.5, 4, 6)], ["mean", "variance"], discrete=True, variance=256)



def many_quantiles(name, frozen, *parameters, most_share=1 - 2**-40):
    """Quantiles of very small and large shares, at the probabilities of counts, and outside of [0, 1]."""
    d = frozen(*parameters)
    at_counts = d.cdf(np.round(d.mean() + d.std() * floats(-2, -0.5, 0, 1).reshape(4, 1)))
    for q in [column(floats(-1e-300, 1e-300, 1e-30, 1e-9, 0.001, 0.1, 0.9, 0.999, 1 - 2**-30, most_share, 1 + 2**-52, np.nan)), at_counts - 2**-30]:
        file.add(name, [q, *parameters], d.ppf(q), dtypes="float64", member="quantile")


many_quantiles("Poisson", stats.poisson, floats(2**-10, 0.75, 40, 1000, 1e6))
many_quantiles("Binomial", lambda n, l: stats.binom(n, expit(l)), floats(1, 40, 1000, 1e6, 1e6), floats(-6, 0, 1, -2, -13))
many_quantiles("NegativeBinomial", lambda n, l: stats.nbinom(n, expit(-l)), floats(2**-10, 0.75, 40, 1000, 1e5), floats(3, 10, 0, -2, 1), most_share=1 - 2**-30)
many_quantiles("Geometric", lambda l: stats.geom(expit(l), loc=-1), floats(6, 0, -2, -10))
zipf_sf = lambda k, a: 1 if k < 1 else float(mpmath.zeta(float(a), int(k) + 1) / mpmath.zeta(float(a)))  # SciPy takes the cdf from 1
file.add("Zipf", [column(counts), floats(1.5, 2.5, 3.5, 6)], np.vectorize(zipf_sf, otypes=[float])(column(counts), floats(1.5, 2.5, 3.5, 6)), dtypes="float64", member="sf", units=64)
zipf_shares = column(floats(-1, 0, 1e-9, 0.25, 0.5, 0.75, 0.875, 0.9375, 1, 2, np.nan))
file.add("Zipf", [zipf_shares, floats(1.5, 2.5, 3.5, 6)], stats.zipf(floats(1.5, 2.5, 3.5, 6)).ppf(zipf_shares), dtypes="float64", member="quantile")

classes = floats(0.5, -1, 2, 0)
categorical = stats.rv_discrete(values=(np.arange(4), scipy.special.softmax(classes)))
class_points = floats(-1, -0.5, 0, 0.5, 1, 2, 3, 3.5, 4, 9)
for member in ["cdf", "sf", "log_cdf"]:
    with np.errstate(all="ignore"):
        file.add("Categorical", [class_points, classes], getattr(categorical, MEMBERS[member])(class_points), dtypes=WIDE, member=member, units=16, scaled=True)
file.add("Categorical", [floats(-1, 0, 2**-20, 0.125, 0.25, 0.5, 0.75, 1 - 2**-20, 1, 2, np.nan), classes], categorical.ppf(floats(-1, 0, 2**-20, 0.125, 0.25, 0.5, 0.75, 1 - 2**-20, 1, 2, np.nan)), dtypes=WIDE, member="quantile")

members("GeneralizedNormal", stats.gennorm, real, [floats(0.5, 1, 2, 8), location, scale], ["log_prob", *MOMENTS], log_prob=256, variance=64, entropy=64)
members("VonMises", lambda m, k: stats.vonmises(k, m), floats(-3, -0.5, 0, 1, 3), [floats(0, 0.5, -1, 2), floats(0.25, 1, 4, 50)], ["log_prob", "entropy"], log_prob=128, entropy=256)

# Gradients of log densities by NumPyro and JAX.
check("Laplace", stats.laplace.logpdf, lambda x, m, s: dist.Laplace(m, s).log_prob(x), x, floats(0.5, -1, 0.25, 2), scale)
check("Logistic", stats.logistic.logpdf, js.logistic.logpdf, x, location, scale, units=16)
check("Gumbel", stats.gumbel_r.logpdf, lambda x, m, s: dist.Gumbel(m, s).log_prob(x), x, location, scale, units=16)
check("GeneralizedNormal", stats.gennorm.logpdf, lambda x, b, m, s: jnp.log(b) - jnp.log(2 * s) - gammaln(1 / b) - jnp.abs((x - m) / s) ** b, x, floats(0.5, 1, 2, 8), location, scale, units=64)
check("VonMises", lambda x, m, k: stats.vonmises.logpdf(x, k, m), lambda x, m, k: js.vonmises.logpdf(x - m, k), x, floats(0.5, -1, 0, 2), floats(0.5, 1, 2, 8), units=64)
check("InverseGamma", lambda x, a, r: stats.invgamma.logpdf(x, a, scale=r), lambda x, a, r: dist.InverseGamma(a, r).log_prob(x), positive, floats(0.5, 1, 3.5, 20), scale, outside=[floats(-1, 0, 0, 3)], units=64)
check("ChiSquared", stats.chi2.logpdf, js.chi2.logpdf, positive, floats(0.5, 1, 3.5, 20), outside=[floats(-1, -2, -3, 3)], units=64)
log_f = lambda x, n, d: n / 2 * jnp.log(n / d) + (n / 2 - 1) * jnp.log(x) - (n + d) / 2 * jnp.log1p(n * x / d) - gammaln(n / 2) - gammaln(d / 2) + gammaln((n + d) / 2)
check("FDistribution", stats.f.logpdf, log_f, positive, floats(1, 2, 7, 20), floats(4.5, 5, 12, 8), outside=[floats(-1, -2, -3, 3)], units=64)
check("Pareto", lambda x, a, s: stats.pareto.logpdf(x, a, scale=s), lambda x, a, s: dist.Pareto(s, a).log_prob(x), floats(0.75, 1.5, 2.25, 5), floats(2.5, 3, 4, 20), scale, outside=[floats(0.25, -1, 0, 3)], units=64)
check("Weibull", lambda x, k, s: stats.weibull_min.logpdf(x, k, scale=s), lambda x, k, s: dist.Weibull(s, k).log_prob(x), positive, floats(0.5, 1, 2.5, 8), scale, outside=[floats(-1, -2, -3, 3)], units=64)
log_cauchy = lambda x, m, s, l, h: jnp.where((x < l) | (x > h), -jnp.inf, js.cauchy.logpdf(x, m, s)) - jnp.log(js.cauchy.cdf(h, m, s) - js.cauchy.cdf(l, m, s))
in_bounds = [floats(-2, -0.5, 0, 2), floats(1, 0.5, 4, 9)]
check("TruncatedCauchy", log_cauchy, log_cauchy, floats(0, 0.25, 1, 4), location, scale, *in_bounds, outside=[floats(-3, -1, 5, 4)], units=64)
check("TruncatedNormal", lambda x, *p: truncnorm(*p).logpdf(x), lambda x, m, s, l, h: js.norm.logpdf(x, m, s) - jnp.log(js.norm.cdf(h, m, s) - js.norm.cdf(l, m, s)), floats(0, 0.25, 1, 4), location, scale, *in_bounds, outside=[floats(-3, -1, 5, 4)], units=256)
check("Binomial", lambda k, n, l: stats.binom.logpmf(k, n, expit(l)), lambda k, n, l: gammaln(n + 1) - gammaln(k + 1.0) - gammaln(n - k + 1) + k * l - n * jax.nn.softplus(l), ints(0, 1, 4, 30), floats(1, 3, 10, 50), x,
      outside=[ints(-1, 4, 5, 51)], units=64)
check("NegativeBinomial", lambda k, n, l: stats.nbinom.logpmf(k, n, expit(-l)), lambda k, n, l: dist.NegativeBinomialLogits(n, l).log_prob(k * 1.0), ints(0, 1, 4, 30), floats(1, 3.5, 10, 50), x,
      outside=[ints(-1, 4, -5, 51)], units=256)
check("Geometric", lambda k, l: stats.geom.logpmf(k + 1, expit(l)), lambda k, l: dist.GeometricLogits(l).log_prob(k * 1.0), ints(0, 1, 4, 30), x, outside=[ints(-1, 4, -5, 51)], units=64)
log_b = lambda a, b: gammaln(a) + gammaln(b) - gammaln(a + b)  # JAX's own betaln is right to 1e-6
check("BetaBinomial", stats.betabinom.logpmf, lambda k, n, a, b: -jnp.log1p(n * 1.0) - log_b(n - k + 1.0, k + 1.0) + log_b(k + a, n - k + b) - log_b(a, b), ints(0, 1, 4, 30), ints(1, 3, 10, 50), floats(0.5, 1, 3, 8), floats(2, 1, 0.5, 5), outside=[ints(-1, 4, 5, 51)], units=256)

# ---- vectors, matrices, mixtures -------------------------------------------------------------------

tril = jnp.tril
check("MultivariateStudentT", lambda x, n, m, l: stats.multivariate_t.logpdf(x, m, l @ l.T, float(n)), lambda x, n, m, l: dist.MultivariateStudentT(n, m, tril(l)).log_prob(x), floats(1, -1, 0.5), floats(3.5).reshape(()), floats(0, 0.5, 2), lower, units=64)
ks, ls = ints(2, 0, 3), floats(0.5, -1, 2)
check("Multinomial", lambda k, n, l: np.asarray(stats.multinomial.logpmf(k, n, scipy.special.softmax(l))), lambda k, n, l: dist.MultinomialLogits(l, 5).log_prob(k * 1.0), ks, ints(5).reshape(()), ls, units=64)
file.add("Multinomial", [ints(2, 0, 3, 2, 0, 4, -1, 3, 3).reshape(3, 3), ints(5).reshape(()), ls], floats(stats.multinomial.logpmf([2, 0, 3], 5, scipy.special.softmax(ls)), -np.inf, -np.inf), dtypes=WIDE, units=64)
x3 = floats(4, 1, -1, 1, 3, 0.5, -1, 0.5, 6).reshape(3, 3)
sym = lambda x: (x + x.T) / 2
check("Wishart", lambda x, n, l: np.asarray(stats.wishart.logpdf(x, float(n), l @ l.T)), lambda x, n, l: dist.Wishart(n, scale_tril=tril(l)).log_prob(sym(x)), x3, floats(5.5).reshape(()), lower, units=64)
for dimension in (2, 3, 5):
    u = np.arange(1, dimension * (dimension - 1) // 2 + 1) / 8 * (-1.0) ** np.arange(dimension * (dimension - 1) // 2)
    factor = np.asarray(transforms.CorrCholeskyTransform()(jnp.asarray(u)))
    lkj = lambda l, c: dist.LKJCholesky(dimension, c).log_prob(l)
    check("LKJCholesky", lambda l, c: np.asarray(lkj(l, c)), lkj, factor, floats(1.75).reshape(()), units=64)
mixture = lambda x, w, m, s: dist.MixtureSameFamily(dist.Categorical(logits=w), dist.Normal(m, s)).log_prob(x)
check("Mixture", lambda *a: np.asarray(mixture(*map(jnp.asarray, a))), mixture, x, floats(0.5, -1, 2), location[:3], scale[:3], units=32)

# ---- Kullback-Leibler divergences ------------------------------------------------------------------

kl, digamma = dist.kl_divergence, jax.scipy.special.digamma


def divergence(name, by_jax, *parameters, **options):
    outputs = np.asarray(by_jax(*map(jnp.asarray, parameters)))
    _, pullback = jax.vjp(by_jax, *map(jnp.asarray, parameters))
    gradients = [np.asarray(g) for g in pullback(jnp.asarray(weight(outputs.shape)))]
    file.add(f"kl {name}", parameters, outputs, gradients, dtypes=WIDE, scaled=True, units=128, **options)


a4, b4 = floats(0.5, 1, 3, 8), floats(2, 1, 0.5, 5)
divergence("Normal", lambda m, s, n, t: kl(dist.Normal(m, s), dist.Normal(n, t)), location, scale, floats(1, 1, -2, 3), floats(2, 0.5, 2, 1))
divergence("Laplace", lambda m, s, n, t: jnp.log(t / s) + (s * jnp.exp(-jnp.abs(m - n) / s) + jnp.abs(m - n)) / t - 1, location, scale, floats(1, 1, -2, 3), floats(2, 0.5, 2, 1))
divergence("Exponential", lambda r, s: jnp.log(r / s) + s / r - 1, a4, b4)
divergence("Gamma", lambda a, r, b, s: kl(dist.Gamma(a, r), dist.Gamma(b, s)), a4, scale, b4, floats(2, 1, 0.5, 5))
divergence("Beta", lambda a, b, c, d: log_b(c, d) - log_b(a, b) + (a - c) * digamma(a) + (b - d) * digamma(b) + (c - a + d - b) * digamma(a + b), a4, b4, floats(1, 2, 3, 4), floats(2, 2, 0.5, 1))
divergence("Bernoulli", lambda l, k: jax.nn.sigmoid(l) * (jax.nn.log_sigmoid(l) - jax.nn.log_sigmoid(k)) + jax.nn.sigmoid(-l) * (jax.nn.log_sigmoid(-l) - jax.nn.log_sigmoid(-k)), x, floats(1, -2, 0.5, 3))
divergence("Poisson", lambda r, s: r * jnp.log(r / s) - r + s, a4, b4)
divergence("Categorical", lambda l, k: jnp.sum(jax.nn.softmax(l) * (jax.nn.log_softmax(l) - jax.nn.log_softmax(k)), -1), logits, logits[::-1].copy())
divergence("MultivariateNormal", lambda m, l, n, k: kl(dist.MultivariateNormal(m, scale_tril=tril(l)), dist.MultivariateNormal(n, scale_tril=tril(k))), floats(0, 0.5, 2), lower, floats(1, 1, -1), np.tril(floats(1, 0, 0, -1, 2, 0, 0.5, 0.25, 1).reshape(3, 3)))
divergence("Dirichlet", lambda a, b: kl(dist.Dirichlet(a), dist.Dirichlet(b)), alphas, alphas[::-1].copy())

# ---- entropies and moments of vectors --------------------------------------------------------------

file.add("MultivariateNormal", [floats(0, 0.5, 2), lower], np.asarray(stats.multivariate_normal(np.zeros(3), lower @ lower.T).entropy()), dtypes=WIDE, member="entropy", units=16)
file.add("Dirichlet", [alphas], np.array([stats.dirichlet.entropy(a) for a in alphas]), dtypes=WIDE, member="entropy", units=256)
file.add("Dirichlet", [alphas], np.array([stats.dirichlet.mean(a) for a in alphas]), dtypes=WIDE, member="mean", units=16)
file.add("Dirichlet", [alphas], np.array([stats.dirichlet.var(a) for a in alphas]), dtypes=WIDE, member="variance", units=16)
file.add("Categorical", [logits], stats.entropy(scipy.special.softmax(logits, -1), axis=-1), dtypes=WIDE, member="entropy", units=16)

file.add("MultivariateStudentT", [floats(3.5), floats(0, 0.5, 2), lower], np.asarray(stats.multivariate_t(np.zeros(3), lower @ lower.T, df=3.5).entropy()).reshape(1), dtypes=WIDE, member="entropy", units=64)
file.add("Wishart", [floats(5.5), lower], np.asarray(stats.wishart(5.5, lower @ lower.T).entropy()).reshape(1), dtypes=WIDE, member="entropy", units=64)

# ---- entropies of counts ---------------------------------------------------------------------------
# SciPy's sums end where a term is below 1e-10, or after a thousand terms. So these are sums in numbers of 64 bits, beginning with
# a probability by mpmath. SciPy agrees where it can.


def entropy_of_counts(log_p, log_ratio, first, last):
    """The sum over the counts first ... last, where log_ratio(k) is the log of p(k + 1) / p(k)."""
    total, start, part = np.longdouble(0), np.longdouble(str(log_p(mpmath.mpf(first)))), 2**20
    for k in range(first, last + 1, part):
        ks = np.arange(k, min(k + part, last + 1), dtype=np.longdouble)
        steps = log_ratio(ks)
        logs = start + np.concatenate([[np.longdouble(0)], np.cumsum(steps)])
        total -= np.sum(np.where(np.isneginf(logs[:-1]), 0, np.exp(logs[:-1]) * np.where(np.isneginf(logs[:-1]), 0, logs[:-1])))
        start = logs[-1]
    return float(total)


def poisson_entropy(rate):
    r, around = mpmath.mpf(rate), 15 * np.sqrt(rate)
    return entropy_of_counts(lambda k: k * mpmath.log(r) - r - mpmath.loggamma(k + 1), lambda k: np.log(np.longdouble(rate) / (k + 1)), int(max(rate - around, 0)), int(rate + around + 60))


def binomial_entropy(n, l):
    p, n = 1 / (1 + mpmath.exp(-mpmath.mpf(l))), int(n)
    mean, around = float(n * p), 15 * float(mpmath.sqrt(n * p * (1 - p))) + 60
    log_p = lambda k: mpmath.log(mpmath.binomial(n, k)) + k * mpmath.log(p) + (n - k) * mpmath.log(1 - p)
    with np.errstate(divide="ignore"):
        return entropy_of_counts(log_p, lambda k: np.log((n - k) / (k + 1)) + np.longdouble(l), int(max(mean - around, 0)), int(min(mean + around, n)))


def negative_binomial_entropy(n, l):
    r, odds = mpmath.mpf(n), mpmath.exp(mpmath.mpf(l))
    log_p = lambda k: mpmath.loggamma(k + r) - mpmath.loggamma(k + 1) - mpmath.loggamma(r) - k * mpmath.log1p(1 / odds) - r * mpmath.log1p(odds)
    mean, around = float(r * odds), float(15 * mpmath.sqrt(r * odds * (1 + odds)) + 50 * (1 + odds))
    rest = np.longdouble(str(mpmath.log1p(1 / odds)))
    return entropy_of_counts(log_p, lambda k: np.log((k + np.longdouble(n)) / (k + 1)) - rest, int(max(mean - around, 0)), int(mean + around))


mpmath.mp.dps = 30
rates = floats(0, 2**-30, 2**-10, 0.125, 1, 10, 63.5, 64, 100, 1e4, 1e6)
file.add("Poisson", [rates], floats(0, *map(poisson_entropy, rates[1:])), dtypes=WIDE, member="entropy", units=256)
np.testing.assert_allclose(stats.poisson(rates[1:8]).entropy(), list(map(poisson_entropy, rates[1:8])), rtol=1e-7, atol=1e-8)
trials, logit_row = column(floats(1, 2, 30, 1000, 1e6)), floats(-20, -9.5, -4, -0.5, 0, 6)
expected = np.array([[binomial_entropy(n, l) for l in logit_row] for n in trials[:, 0]])
file.add("Binomial", [trials, logit_row], expected, dtypes=WIDE, member="entropy", units=512)
np.testing.assert_allclose(stats.binom(trials[:4], expit(logit_row)).entropy(), expected[:4], rtol=1e-11, atol=1e-14)
shapes, logit_row = column(floats(2**-10, 0.5, 1, 8, 63.5, 64, 1e4, 1e6)), floats(-12, -4, -0.5, 0.5, 5)
expected = np.array([[negative_binomial_entropy(n, l) for l in logit_row] for n in shapes[:, 0]])
file.add("NegativeBinomial", [shapes, logit_row], expected, dtypes=WIDE, member="entropy", units=512)
np.testing.assert_allclose(stats.nbinom(shapes[:4], expit(-logit_row[:4])).entropy(), expected[:4, :4], rtol=1e-6, atol=1e-8)
file.add("NegativeBinomial", [floats(2**-10, 0.75, 8), floats(12, 12, 11)], floats(*map(negative_binomial_entropy, [2**-10, 0.75, 8], [12, 12, 11])), dtypes=WIDE, member="entropy", units=512)
zipf_entropy = lambda a: mpmath.log(mpmath.zeta(a)) - a * mpmath.zeta(a, 1, 1) / mpmath.zeta(a)
file.add("Zipf", [floats(1.125, 1.5, 2.5, 6, 30)], floats(*map(zipf_entropy, [1.125, 1.5, 2.5, 6, 30])), dtypes=WIDE, member="entropy", units=64)
np.testing.assert_allclose(stats.zipf(6).entropy(), float(zipf_entropy(6)), rtol=1e-6)



def sum_of_entropy(log_p, first, last):
    """The sum over the counts first ... last, by mpmath."""
    logs = [log_p(mpmath.mpf(k)) for k in range(first, last + 1)]
    return float(-mpmath.fsum(mpmath.exp(l) * l for l in logs))


log_choose = lambda n, k: mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
log_beta = lambda a, b: mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)


def beta_binomial_entropy(n, a, b):
    n, a, b = map(mpmath.mpf, (n, a, b))
    return sum_of_entropy(lambda k: log_choose(n, k) + log_beta(k + a, n - k + b) - log_beta(a, b), 0, int(n))


def hypergeometric_entropy(good, bad, draws):
    g, b, n = map(mpmath.mpf, (good, bad, draws))
    return sum_of_entropy(lambda k: log_choose(g, k) + log_choose(b, n - k) - log_choose(g + b, n), int(max(n - b, 0)), int(min(n, g)))


def multinomial_entropy(n, logits):
    """By the marginal distributions of the counts, of which those with negligible probabilities are left out."""
    n, weights = int(n), [mpmath.exp(mpmath.mpf(l)) for l in logits]
    total = -mpmath.loggamma(n + 1)
    for p in (w / mpmath.fsum(weights) for w in weights):
        mean, around = float(n * p), 18 * float(mpmath.sqrt(n * p * (1 - p))) + 60
        log_p = lambda k: log_choose(n, k) + k * mpmath.log(p) + (n - k) * mpmath.log1p(-p)
        total += mpmath.fsum(mpmath.exp(log_p(mpmath.mpf(k))) * mpmath.loggamma(k + 1) for k in range(int(max(mean - around, 0)), int(min(mean + around, n)) + 1))
        total -= n * p * mpmath.log(p)
    return float(total)


trials, row_a, row_b = column(floats(0, 1, 7, 400)), floats(0.25, 1, 1, 3.5, 200), floats(0.5, 1, 2, 8, 300)
expected = np.array([[beta_binomial_entropy(n, a, b) for a, b in zip(row_a, row_b)] for n in trials[:, 0]])
file.add("BetaBinomial", [trials, row_a, row_b], expected, dtypes=WIDE, member="entropy", scaled=True, units=512)
np.testing.assert_allclose(stats.betabinom(trials, row_a, row_b).entropy(), expected, rtol=1e-9, atol=1e-12)
good, bad, draws = floats(5, 0, 7, 3, 30, 400, 20000), floats(3, 4, 0, 8, 20, 300, 10), floats(4, 2, 3, 11, 25, 250, 300)
expected = floats(*map(hypergeometric_entropy, good, bad, draws))
file.add("Hypergeometric", [good, bad, draws], expected, dtypes=WIDE, member="entropy", scaled=True, units=1024)
np.testing.assert_allclose(stats.hypergeom(good + bad, good, draws).entropy(), expected, rtol=1e-9, atol=1e-11)
trials, class_logits = column(floats(0, 1, 2, 63, 100, 3000, 1e6)), floats(0.5, -1, 2, 0, 0, 0, -9, 3, 0, 12, 0, 0, -40, 0, 1).reshape(5, 3)
expected = np.array([[multinomial_entropy(n, l) for l in class_logits] for n in trials[:, 0]])
file.add("Multinomial", [trials, class_logits], expected, dtypes=WIDE, member="entropy", scaled=True, units=512)
shares_of = scipy.special.softmax(class_logits, -1)
np.testing.assert_allclose([[stats.multinomial(int(n), p).entropy() for p in shares_of] for n in trials[:5, 0]], expected[:5], rtol=1e-10, atol=1e-10)

# ---- bijectors: forward, and log_det at the same point, with gradients ------------------------------


def bijector(name, transform, x, **options):
    def both(x):
        y = transform(x)
        return [y, transform.log_abs_det_jacobian(x, y)]

    file.differentiated(f"Bijector {name}", both, x, units=64, **options)


T = transforms
two_rows = floats(0.5, -1, 2, -0.25, 1.5, 3).reshape(2, 3)
bijector("exp", T.ExpTransform(), two_rows)
bijector("affine", T.AffineTransform(0.5, -2.0), two_rows)
bijector("sigmoid", T.SigmoidTransform(), two_rows)
bijector("interval", T.ComposeTransform([T.SigmoidTransform(), T.AffineTransform(-1.0, 4.0)]), two_rows)
bijector("softplus", T.SoftplusTransform(), two_rows)
bijector("tanh", T.ComposeTransform([T.AffineTransform(0.0, 2.0), T.SigmoidTransform(), T.AffineTransform(-1.0, 2.0)]), two_rows)
bijector("power", T.PowerTransform(1.5), np.abs(two_rows))
bijector("stick_breaking", T.StickBreakingTransform(), two_rows)
bijector("lower_triangular_affine", T.LowerCholeskyAffine(jnp.asarray([1.0, 2.0, -1.0]), jnp.asarray(lower)), two_rows)
bijector("lower_cholesky", T.LowerCholeskyTransform(), floats(*np.arange(-5, 7) / 4).reshape(2, 6))
bijector("correlation_cholesky", T.CorrCholeskyTransform(), floats(*np.arange(-5, 7) / 4).reshape(2, 6))

file.write()
