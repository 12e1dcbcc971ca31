#!/usr/bin/env python3
"""Prints a table of the time of derivatives by Stave, by other tools of C++, and by JAX, in microseconds.

    python3 tests/bench/cpp_tools/table.py STAVE_CPP_TOOLS [ROUNDS]

STAVE_CPP_TOOLS is the program that CMakeLists.txt of this folder builds. It and JAX take turns on one core, ROUNDS times
(default 5); the table has medians of processor time, which other programs of the machine disturb least. Everything is in
float64. JAX's derivatives must agree with the others; without JAX its column is left out.
"""
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before JAX starts its threads
os.environ["JAX_ENABLE_X64"] = "1"
TOOLS = ["function", "Stave", "CppAD", "ADOL-C", "JAX"]
JAX = {}

if importlib.util.find_spec("jax"):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax

    sys.path.append(str(pathlib.Path(__file__).parents[1] / "gradbench"))
    from peer_jax import hand_skin, lstm_loss

    def scattered(shape, size=1.0, first=0):
        i = (first + np.arange(np.prod(shape))) % 1009
        numbers = (i * 7919 % 1009).astype(np.float32) / np.float32(1009) - np.float32(0.5)
        return (numbers * np.float32(size)).reshape(shape).astype(np.float64)

    # ---- small programs ----------------------------------------------------------------------------

    def lorenz(start):
        h = 0.01

        def slope(s):
            x, y, z = s
            return jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

        def step(s, _):
            k1 = slope(s)
            k2 = slope(s + h / 2 * k1)
            k3 = slope(s + h / 2 * k2)
            k4 = slope(s + h * k3)
            return s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None
        return lax.scan(step, start, None, length=1000)[0].sum()

    def move(s):
        x, y, speed, heading = s
        return jnp.stack([x + 0.1 * speed * jnp.cos(heading), y + 0.1 * speed * jnp.sin(heading), speed, heading + 0.03])

    def look(s):
        return jnp.stack([jnp.hypot(s[0], s[1]), jnp.arctan2(s[1], s[0])])

    def log_likelihood(log_noise, seen):
        process, sensor = jnp.diag(jnp.exp(log_noise)), jnp.diag(jnp.array([0.01, 0.0004]))

        def step(belief, seen):
            state, covariance = belief
            f = jax.jacfwd(move)(state)
            covariance = f @ covariance @ f.T + process
            state = move(state)
            h, surprise = jax.jacfwd(look)(state), seen - look(state)
            hp = h @ covariance
            spread = hp @ h.T + sensor
            gain = jnp.linalg.solve(spread, hp).T
            value = -(surprise @ jnp.linalg.solve(spread, surprise) + jnp.linalg.slogdet(spread)[1]) / 2
            return (state + gain @ surprise, covariance - gain @ hp), value
        return lax.scan(step, (jnp.array([4.0, 0.0, 0.5, 1.5]), jnp.eye(4)), seen)[1].sum()

    def measurements(steps):
        t = np.arange(steps, dtype=np.float64)
        return np.stack([3 + np.cos(0.1 * t), 0.02 * t], 1)

    def network_loss(layers, pixels, labels):
        x = pixels
        for k, (weights, offsets) in enumerate(layers):
            x = (x if k == 0 else jnp.tanh(x)) @ weights + offsets
        return (jax.nn.logsumexp(x, -1) - (labels * x).sum(-1)).mean()

    WIDTHS = [32, 64, 64, 10]
    LAYERS = [(scattered((m, n), 0.5), scattered((n,))) for m, n in zip(WIDTHS, WIDTHS[1:])]

    # ---- GradBench ---------------------------------------------------------------------------------

    BITS = 14

    BONES, VERTICES, SEEN = 22, 544, 100

    def transforms(size, shift):
        upper = np.eye(3, 4) + scattered((BONES, 3, 4), size, 12 * shift)
        return np.concatenate([upper, np.broadcast_to([0., 0., 0., 1.], (BONES, 1, 4))], 1)

    RELATIVES, INVERSES = transforms(0.4, 3), transforms(0.3, 5)
    CORNERS = np.concatenate([scattered((3, VERTICES)), np.ones((1, VERTICES))])
    SHARES = np.exp(scattered((BONES, VERTICES), 8))
    SHARES /= SHARES.sum(0)
    POINTS, NUMBERS = scattered((3, SEEN)), np.arange(SEEN) * 5 % VERTICES

    PARENTS = [-1, *(0 if bone == 21 or bone % 4 == 1 else bone - 1 for bone in range(1, BONES))]

    def hand(x):
        return POINTS - hand_skin(x, RELATIVES, PARENTS, INVERSES, CORNERS[:, NUMBERS], SHARES[:, NUMBERS])

    # program -> its derivative and the arguments
    JAX = {
        "ekf_1": (jax.grad(log_likelihood), np.full(4, -6.0), measurements(1)),
        "lorenz": (jax.grad(lorenz), np.ones(3)),
        "ekf_50": (jax.grad(log_likelihood), np.full(4, -6.0), measurements(50)),
        "logsumexp": (jax.grad(jax.nn.logsumexp), scattered((100_000,), 4)),
        "network": (jax.grad(network_loss), LAYERS, scattered((64, 32)), np.eye(10)[np.arange(64) % 10]),
        "lstm": (jax.grad(lstm_loss, (0, 1)), scattered((4, 4 * BITS), 2), scattered((3, BITS), 2),
                 scattered((4, BITS)), (scattered((1024, BITS)) > 0).astype(np.float64)),
        "hand": (jax.jacfwd(hand), scattered((26,), 0.5)),
    }


def measured_by_jax(samples, norms):
    for program, (derivative, *arguments) in JAX.items():
        compiled, arguments = jax.jit(derivative), [jax.tree.map(jnp.asarray, it) for it in arguments]
        leaves = jax.tree.leaves(compiled(*arguments))
        norms.setdefault((program, "JAX"), float(np.sqrt(sum((leaf ** 2).sum() for leaf in leaves))))
        for _ in range(3):
            count, begin = 0, time.process_time()  # of all threads
            while time.process_time() - begin < 0.1:
                jax.block_until_ready(compiled(*arguments))
                count += 1
            samples.setdefault((program, "JAX"), []).append(1e6 * (time.process_time() - begin) / count)


def measured_by_cpp_tools(program, samples, norms):
    with tempfile.TemporaryDirectory() as folder:  # ADOL-C writes long tapes to files in the working folder
        subprocess.run([program, "--benchmark_repetitions=3", "--benchmark_min_time=0.1", "--benchmark_out=out.json",
                        "--benchmark_enable_random_interleaving=true"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        results = json.loads(pathlib.Path(folder, "out.json").read_text())["benchmarks"]
    for it in results:
        if it["run_type"] == "iteration":
            key = tuple(it["run_name"].split("/")[:2])
            samples.setdefault(key, []).append(it["cpu_time"] / 1000)
            if "norm" in it:
                norms[key] = it["norm"]


def main():
    program, rounds = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    samples, norms = {}, {}
    for _ in range(rounds):
        measured_by_cpp_tools(program, samples, norms)
        measured_by_jax(samples, norms)
    medians = {key: statistics.median(times) for key, times in samples.items()}
    programs = sorted({name for name, _ in medians}, key=lambda name: medians[name, "function"])
    for name in programs:
        if (name, "JAX") in norms and abs(norms[name, "JAX"] - norms[name, "Stave"]) > 1e-8 * norms[name, "Stave"]:
            sys.exit(f"{name}: JAX's derivative has the norm {norms[name, 'JAX']}, Stave's {norms[name, 'Stave']}")
    tools = [tool for tool in TOOLS if (programs[0], tool) in medians]
    print(f"| program | {' | '.join(tools)} |\n|{'---|' * (len(tools) + 1)}")
    for name in programs:
        times = [medians[name, tool] for tool in tools]
        print(f"| {name} | " + " | ".join(f"{it:,.{max(0, 3 - len(str(int(it))))}f}" for it in times) + " |")


if __name__ == "__main__":
    main()
