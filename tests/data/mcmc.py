"""Writes mcmc.csv: means and standard deviations of the posteriors of mcmc_test.cpp.

    python3 tests/data/mcmc.py

Eight schools: by quadrature over mu and log tau, given which each eta is normal. Logistic regression of the digits 3 and 8: by a long run of
NumPyro's NUTS in float64, with the Monte Carlo error of the mean.
"""

import pathlib

import numpy as np

y = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
s = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
root = pathlib.Path(__file__).parents[2]


def schools():
    mu = np.linspace(-40, 50, 1801)[:, None, None]
    log_tau = np.linspace(-25, 7, 3201)[None, :, None]
    tau = np.exp(log_tau)
    spread = tau**2 + s**2  # of y, given mu and tau
    log_p = (-((y - mu) ** 2) / spread - np.log(spread)).sum(-1) / 2 - mu[..., 0] ** 2 / 50
    log_p += (log_tau - np.log1p((tau / 5) ** 2))[..., 0]
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    moments = lambda first, second: (np.sum(p * first), np.sqrt(np.sum(p * second) - np.sum(p * first) ** 2))
    mu, log_tau, tau = mu[..., 0], log_tau[..., 0], tau[..., 0]
    yield "mu", *moments(mu, mu**2), 0.0
    yield "log tau", *moments(log_tau, log_tau**2), 0.0
    for i in range(8):
        variance = s[i] ** 2 / (tau**2 + s[i] ** 2)
        mean = tau * (y[i] - mu) / (tau**2 + s[i] ** 2)
        yield f"eta[{i}]", *moments(mean, mean**2 + variance), 0.0


def digits():
    import jax.numpy as jnp
    table = np.loadtxt(root / "examples/data/digits.csv", delimiter=",")
    table = table[(table[:, 64] == 3) | (table[:, 64] == 8)]
    pixels = 2 * table[:, :64] / 16 - 1
    return jnp.asarray(pixels.reshape(-1, 4, 2, 4, 2).mean((2, 4)).reshape(-1, 16)), jnp.asarray(table[:, 64] == 8)


def logistic():
    import arviz
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    numpyro.enable_x64()
    x, is_eight = digits()

    def model():
        bias = numpyro.sample("bias", dist.Normal(0, 2))
        weights = numpyro.sample("weights", dist.Normal(jnp.zeros(16), 1).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=x @ weights + bias), obs=is_eight)

    run = numpyro.infer.MCMC(numpyro.infer.NUTS(model), num_warmup=1000, num_samples=1500, num_chains=64,
                             chain_method="vectorized", progress_bar=False)
    run.run(jax.random.key(0))
    draws = run.get_samples(group_by_chain=True)
    for name, x in [("bias", draws["bias"])] + [(f"weights[{i}]", draws["weights"][..., i]) for i in range(16)]:
        x = np.asarray(x)
        yield name, x.mean(), x.std(), float(arviz.mcse(x))


lines = ["# By tests/data/mcmc.py: mean, standard deviation, and the error of the mean where it is of draws."]
for model in schools, logistic:
    for name, mean, sd, error in model():
        lines.append(f"{model.__name__} {name},{float(mean)!r},{float(sd)!r},{float(error)!r}")
pathlib.Path(__file__).with_suffix(".csv").write_text("\n".join(lines) + "\n")
