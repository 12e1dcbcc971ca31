"""The models of nuts.cpp, sampled by NumPyro's NUTS.

All chains are lanes of one program; or (..._cores_parallel) each core has a device, which runs a
share of the chains; or (..._chains_parallel) each chain has a device of its own."""
import importlib.util
import os

import numpy as np

CHAINS, WARM_UP, DRAWS = 128, 100, 100
NUTS_MODELS = {}

if importlib.util.find_spec("numpyro") and importlib.util.find_spec("arviz"):
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    def schools():
        effects = jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12])
        errors = jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18])

        def model():
            mu = numpyro.sample("mu", dist.Normal(0, 5))
            tau = numpyro.sample("tau", dist.HalfCauchy(5))
            eta = numpyro.sample("eta", dist.Normal(jnp.zeros(8), 1).to_event(1))
            numpyro.sample("y", dist.Normal(mu + tau * eta, errors), obs=effects)
        return model

    def logistic():
        table = np.loadtxt("examples/data/digits.csv", delimiter=",", dtype=np.float32)
        table = table[(table[:, 64] == 3) | (table[:, 64] == 8)]
        pixels = 2 * table[:, :64] / 16 - 1
        features = jnp.asarray(pixels.reshape(-1, 4, 2, 4, 2).mean((2, 4)).reshape(-1, 16))
        is_eight = jnp.asarray(table[:, 64] == 8)

        def model():
            bias = numpyro.sample("bias", dist.Normal(0, 2))
            weights = numpyro.sample("weights", dist.Normal(jnp.zeros(16), 1).to_event(1))
            numpyro.sample("y", dist.Bernoulli(logits=features @ weights + bias), obs=is_eight)
        return model

    def funnel():
        def model():
            v = numpyro.sample("v", dist.Normal(0, 3))
            numpyro.sample("x", dist.Normal(jnp.zeros(9), jnp.exp(v / 2)).to_event(1))
        return model

    class Run:
        """Samples when called. It compiles at the first call only, while MCMC.run alone would at each."""

        def __init__(self, model, devices):
            def draws_of(key):
                mcmc = numpyro.infer.MCMC(numpyro.infer.NUTS(model), num_warmup=WARM_UP, num_samples=DRAWS,
                                          num_chains=CHAINS // devices, chain_method="vectorized", progress_bar=False)
                mcmc.run(key)
                return mcmc.get_samples(group_by_chain=True)

            self.devices, self.seed = devices, 0
            if devices == 1:
                jitted = jax.jit(draws_of)
                self.all_draws_of = lambda key: jitted(key)
            else:
                mapped = jax.pmap(draws_of, devices=jax.devices()[:devices])
                self.all_draws_of = lambda key: mapped(jax.random.split(key, devices))

        def __call__(self):
            self.seed += 1
            self.draws = jax.block_until_ready(self.all_draws_of(jax.random.key(self.seed)))

        def effective(self):
            """Returns the fewest effective draws of any coordinate in the last call."""
            import arviz
            axes = 2 if self.devices == 1 else 3
            draws = {name: np.asarray(x).reshape(CHAINS, DRAWS, *x.shape[axes:]) for name, x in self.draws.items()}
            return min(float(x.min()) for x in arviz.ess(draws, method="bulk").values())

    def maker(model, devices):
        return lambda: Run(model(), devices)

    for model in schools, logistic, funnel:
        NUTS_MODELS[f"nuts_{model.__name__}"] = maker(model, 1)
        NUTS_MODELS[f"nuts_{model.__name__}_cores_parallel"] = maker(model, len(os.sched_getaffinity(0)))
        NUTS_MODELS[f"nuts_{model.__name__}_chains_parallel"] = maker(model, CHAINS)
