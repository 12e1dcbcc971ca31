"""Writes diagnostics.csv: R-hat and effective sample sizes by ArviZ, of chains that diagnostics_test.cpp makes as well.

    python3 tests/data/diagnostics.py
"""

import pathlib

import arviz
import numpy as np
from arviz.stats.diagnostics import _rhat, _split_chains, _z_scale


def noise(chains, draws, seed):
    """The same numbers in C++: of a linear congruential generator, 53 bits of 64, made normal by adding twelve."""
    state, values = seed, np.empty((chains, draws))
    for i in range(chains * draws):
        total = 0.0
        for _ in range(12):
            state = (6364136223846793005 * state + 1442695040888963407) % 2**64
            total += (state >> 11) / 2**53
        values.flat[i] = total - 6.0
    return values


def autoregressive(chains, draws, seed, rho):
    x = noise(chains, draws, seed)
    for t in range(1, draws):
        x[:, t] += rho * x[:, t - 1]
    return x


def shifted(x, by):
    return x + by * np.arange(len(x))[:, None]


cases = {
    "independent": noise(4, 100, 1),
    "one chain": noise(1, 80, 2),
    "odd": noise(3, 51, 3),
    "slow": autoregressive(4, 200, 4, 0.9),
    "very slow": autoregressive(2, 60, 5, 0.999),
    "antithetic": autoregressive(4, 150, 6, -0.7),
    "apart": shifted(noise(4, 100, 7), 0.5),
    "of different scales": noise(4, 100, 8) * np.arange(1, 5)[:, None],
    "heavy tails": np.tan(noise(4, 100, 9) * 0.4),
    "ties": np.floor(noise(4, 100, 10)),
    "four": noise(2, 4, 11),
    "five": noise(2, 5, 12),
    "constant": np.full((2, 20), 3.0),
    "infinite": np.where(np.arange(20) == 3, np.inf, noise(2, 20, 13)),
    "many": autoregressive(128, 40, 14, 0.5),
}


def rhat(x):
    """Of a single chain's halves, too, which arviz.rhat refuses."""
    halves = _split_chains(x)
    one = max(_rhat(_z_scale(halves)), _rhat(_z_scale(abs(halves - np.median(halves)))))
    assert len(x) == 1 or np.array_equal(one, arviz.rhat(x), equal_nan=True)
    return one


lines = [f"# By tests/data/diagnostics.py, ArviZ {arviz.__version__}: R-hat, effective sample sizes of the bulk, of the tails."]
for name, x in cases.items():
    bulk, tail = arviz.ess(x, method="bulk"), arviz.ess(x, method="tail", prob=(0.05, 0.95))
    lines.append(f"{name},{float(rhat(x))!r},{float(bulk)!r},{float(tail)!r}")
pathlib.Path(__file__).with_suffix(".csv").write_text("\n".join(lines) + "\n")
