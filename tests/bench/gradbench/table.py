#!/usr/bin/env python3
"""Prints a table of the times of GradBench's problems by Stave, in plain C++ (the function alone), and their derivatives by
other tools of C++, JAX and PyTorch.

    python3 tests/bench/gradbench/table.py STAVE_GRADBENCH [STAVE_GRADBENCH_PEERS] [MODULE...]

These are the programs that CMakeLists.txt of this folder builds. Inputs are made as GradBench makes them, in the middle of its
sizes; GRADBENCH_DATA in the environment names a folder with its data of `ba` and `ht`, which are otherwise left out. All run on one
core, and the table has medians of processor time in microseconds. The answers of all must agree with Stave's to 1e-4. Tools that
are not installed are left out, which standard error says.
"""
import importlib.util
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before JAX starts its threads
os.environ |= {"JAX_ENABLE_X64": "1", "OPENBLAS_NUM_THREADS": "1"}
SECONDS, RUNS = float(os.environ.get("GRADBENCH_SECONDS", 0.5)), 5

import numpy as np  # noqa: E402: after the affinity

random = np.random.default_rng(31337)
HAS_JAX, HAS_TORCH = (importlib.util.find_spec(name) is not None for name in ["jax", "torch"])
if HAS_TORCH:
    import peer_torch

# ---- inputs ------------------------------------------------------------------------------------------


def normal(*shape):
    return random.normal(size=shape).tolist()


def uniform(*shape):
    return random.uniform(size=shape).tolist()


def gmm(d, k, n):
    return {"d": d, "k": k, "n": n, "alpha": normal(k), "mu": uniform(k, d), "q": normal(k, d),
            "l": normal(k, d * (d - 1) // 2), "x": normal(n, d), "gamma": 1.0, "m": 0}


def kmeans(k, n, d):
    points = uniform(n, d)
    return {"points": points, "centroids": points[-k:]}


def lstm(layers, length, bits=14):
    text = (pathlib.Path(__file__).read_bytes() * 2)[:length]
    return {"main_params": normal(2 * layers, 4 * bits), "extra_params": normal(3, bits), "state": normal(2 * layers, bits),
            "sequence": [[character >> bit & 1 for bit in range(bits)] for character in text]}


def ba(path):
    numbers = path.read_text().split()
    return dict(zip("nmp", map(int, numbers))) | {
        "cam": [*map(float, numbers[3:14])], "x": [*map(float, numbers[14:17])], "w": float(numbers[17]),
        "feat": [*map(float, numbers[18:20])]}


def ht(folder):
    bones = [line.split(":") for line in (folder / "model/bones.txt").read_text().split("\n") if line]
    vertices = [line.split(":") for line in (folder / "model/vertices.txt").read_text().split("\n") if line]
    triangles = [line.split(":") for line in (folder / "model/triangles.txt").read_text().split("\n") if line]
    weights = np.zeros((len(vertices), len(bones)))
    for row, vertex in zip(weights, vertices):
        for i in range(int(vertex[8])):
            row[int(vertex[9 + 2 * i])] = float(vertex[10 + 2 * i])
    (count, _), *lines = [line.split() for line in (folder / "hand1_t26_c100.txt").read_text().split("\n") if line]
    points = lines[:int(count)]

    def matrices(first):
        return [np.reshape([*map(float, bone[first:first + 16])], (4, 4)).tolist() for bone in bones]
    model = {"bone_count": len(bones), "bone_names": [bone[0] for bone in bones], "parents": [int(bone[1]) for bone in bones],
             "base_relatives": matrices(2), "inverse_base_absolutes": matrices(18),
             "base_positions": [[*map(float, vertex[:3]), 1.0] for vertex in vertices], "weights": weights.tolist(),
             "triangles": [[*map(int, triangle)] for triangle in triangles], "is_mirrored": False}
    return {"theta": [float(line[0]) for line in lines[int(count):]], "us": [],
            "data": {"model": model, "correspondences": [int(point[0]) for point in points],
                     "points": [[*map(float, point[1:])] for point in points]}}


def problems():
    """Yields module, size, function, derivative and input."""
    yield "lse", "n = 160,000", "primal", "gradient", {"x": uniform(160_000)}
    yield "llsq", "n = 1,024", "primal", "gradient", {"x": uniform(128), "n": 1024}
    yield "ode", "n = 10,000, 10 steps", "primal", "gradient", {"x": uniform(10_000), "s": 10}
    yield "det", "8 x 8", "primal", "gradient", {"A": uniform(64), "ell": 8}
    yield "gmm", "d = 2, k = 25", "objective", "jacobian", gmm(2, 25, 1000)
    yield "gmm", "d = 16, k = 25", "objective", "jacobian", gmm(16, 25, 1000)
    yield "kmeans", "k = 100, n = 10,000, d = 8", "cost", "dir", kmeans(100, 10_000, 8)
    yield "lstm", "2 layers, 1,024 characters", "objective", "jacobian", lstm(2, 1024)
    yield "lstm", "4 layers, 4,096 characters", "objective", "jacobian", lstm(4, 4096)
    if "GRADBENCH_DATA" in os.environ:
        data = pathlib.Path(os.environ["GRADBENCH_DATA"])
        yield "ba", "31,843 observations", "objective", "jacobian", ba(data / "ba/ba1_n49_m7776_p31843.txt")
        yield "ht", "100 points", "objective", "jacobian", ht(data / "ht")
    for modes in ["ff", "fr", "rf", "rr"]:
        yield "saddle", modes, None, modes, {"start": [1.0, 1.0]}
    for modes in ["ff", "fr", "rf", "rr"]:
        yield "particle", modes, None, modes, {"w": 0.0}


# ---- JAX ---------------------------------------------------------------------------------------------

if HAS_JAX:
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.scipy.special import logsumexp, multigammaln
    from minors import levels
    from peer_jax import hand_skin, lstm_loss

    def lse_jax(it):
        return logsumexp, jax.grad(logsumexp), [it["x"]]

    def llsq_jax(it):
        def f(x, t):
            powers = jnp.cumprod(jnp.concatenate([jnp.ones((len(t), 1)), jnp.tile(t[:, None], len(x) - 1)], 1), 1)
            return ((jnp.sign(t) - powers @ x) ** 2).sum() / 2
        return f, jax.grad(f), [it["x"], np.linspace(-1, 1, it["n"])]

    def ode_jax(it):
        def f(x):
            h = 2 / it["s"]

            def slope(y):
                return x * jnp.concatenate([jnp.ones(1), y[:-1]])

            def step(y, _):
                k1 = slope(y)
                k2 = slope(y + h / 2 * k1)
                k3 = slope(y + h / 2 * k2)
                k4 = slope(y + h * k3)
                return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None
            return lax.scan(step, jnp.zeros_like(x), None, length=it["s"])[0]
        return f, jax.grad(lambda x: f(x)[-1]), [it["x"]]

    def det_jax(it):
        size, columns = it["ell"], list(levels(it["ell"]))

        def f(a):
            matrix, dets = a.reshape(size, size), None
            for row, level in reversed(list(enumerate(columns))):
                entries = matrix[row][level]
                signs = (-1.0) ** np.arange(len(level))[:, None]
                dets = entries[0] if dets is None else (signs * entries * dets.reshape(level.shape)).sum(0)
            return dets[0]
        return f, jax.grad(f), [it["A"]]

    def gmm_jax(it):
        d, k, n, gamma, m = (it[name] for name in ["d", "k", "n", "gamma", "m"])

        def f(parameters, x):
            alpha, mu, q, low = (parameters[name] for name in ["alpha", "mu", "q", "l"])
            diagonals, log_dets = jnp.exp(q), q.sum(1)
            columns, rows = np.triu_indices(d, 1)
            factors = jnp.zeros((k, d, d)).at[:, rows, columns].set(low) + diagonals[:, :, None] * jnp.eye(d)
            scaled = (x - mu[:, None]) @ factors.transpose(0, 2, 1)
            terms = (alpha + log_dets)[:, None] - (scaled ** 2).sum(2) / 2
            degrees = d + m + 1
            prior = degrees * d * (math.log(gamma) - math.log(2) / 2) - multigammaln(degrees / 2, d)
            penalty = gamma ** 2 / 2 * ((diagonals ** 2).sum() + (low ** 2).sum()) - m * log_dets.sum()
            return (logsumexp(terms, 0).sum() - n * logsumexp(alpha) - penalty + k * prior
                    - n * d / 2 * math.log(2 * math.pi))
        return f, jax.grad(f), [{name: np.asarray(it[name]) for name in ["alpha", "l", "mu", "q"]}, it["x"]]

    def kmeans_jax(it):
        def f(c, x):
            return ((x ** 2).sum(1)[:, None] + (c ** 2).sum(1) - 2 * x @ c.T).min(1).sum()

        def direction(c, x):
            slope, curvature = jax.jvp(lambda at: jax.grad(f)(at, x), (c,), (jnp.ones_like(c),))
            return slope / curvature
        return f, direction, [it["centroids"], it["points"]]

    def lstm_jax(it):
        def jacobian(*arguments):
            return jnp.concatenate([it.ravel() for it in jax.grad(lstm_loss, (0, 1))(*arguments)])
        return lstm_loss, jacobian, [it["main_params"], it["extra_params"], it["state"], it["sequence"]]

    def ba_jax(it):
        n, m, p = it["n"], it["m"], it["p"]

        def reprojection(camera, point, weight, seen):
            square = (camera[:3] ** 2).sum()
            angle = jnp.sqrt(jnp.where(square == 0, 1, square))
            axis, x = camera[:3] / angle, point - camera[3:6]
            turned = (x * jnp.cos(angle) + jnp.cross(axis, x) * jnp.sin(angle) + axis * (axis @ x) * (1 - jnp.cos(angle)))
            moved = jnp.where(square == 0, x + jnp.cross(camera[:3], x), turned)
            flat = moved[:2] / moved[2]
            r = (flat ** 2).sum()
            return weight * (flat * (1 + camera[9] * r + camera[10] * r ** 2) * camera[6] + camera[7:9] - seen)

        def f(cameras, points, weights, camera_of, point_of, seen):
            return jax.vmap(reprojection)(cameras[camera_of], points[point_of], weights, seen), 1 - weights ** 2

        def jacobian(cameras, points, weights, camera_of, point_of, seen):
            by_camera, by_point, by_weight = jax.vmap(jax.jacrev(reprojection, (0, 1, 2)))(
                cameras[camera_of], points[point_of], weights, seen)
            order = jnp.arange(p)
            columns = jnp.concatenate([11 * camera_of[:, None] + jnp.arange(11),
                                       11 * n + 3 * point_of[:, None] + jnp.arange(3),
                                       11 * n + 3 * m + order[:, None]], 1)
            return (jnp.concatenate([15 * jnp.arange(2 * p + 1), 30 * p + 1 + order]),
                    jnp.concatenate([jnp.stack([columns, columns], 1).ravel(), 11 * n + 3 * m + order]),
                    jnp.concatenate([jnp.concatenate([by_camera, by_point, by_weight[:, :, None]], 2).ravel(), -2 * weights]))
        arguments = [np.tile(it["cam"], (n, 1)), np.tile(it["x"], (m, 1)), np.full(p, it["w"]), np.arange(p) % n,
                     np.arange(p) % m, np.tile(it["feat"], (p, 1))]
        return f, jacobian, arguments

    def ht_jax(it):
        model = {name: np.asarray(it["data"]["model"][name]) for name in
                 ["base_relatives", "inverse_base_absolutes", "base_positions", "weights"]}
        relatives, points = model["base_relatives"], np.asarray(it["data"]["points"])
        numbers = np.asarray(it["data"]["correspondences"])

        def f(theta):
            skin = hand_skin(theta, relatives, it["data"]["model"]["parents"], model["inverse_base_absolutes"],
                             model["base_positions"][numbers].T, model["weights"][numbers].T)
            return (points - skin.T).ravel()
        return f, jax.jacfwd(f), [it["theta"]]

    def argmin(f, x):
        def going(state):
            return ~state[-1]

        def step(state):
            x, value, slope, rate, successes, _ = state
            doubled = successes == 10
            following = x - rate * slope
            near = jnp.linalg.norm(lax.stop_gradient(slope)) <= 1e-5
            stop = near | (~doubled & (jnp.linalg.norm(lax.stop_gradient(x - following)) <= 1e-5))
            value_there = f(following)
            better = ~stop & ~doubled & (value_there < value)
            slope_there = jax.jacfwd(f)(following)
            rate = jnp.where(stop | better, rate, jnp.where(doubled, 2 * rate, rate / 2))
            return (jnp.where(better, following, x), jnp.where(better, value_there, value),
                    jnp.where(better, slope_there, slope), rate, jnp.where(better, successes + 1, 0), stop)
        return lax.while_loop(going, step, (x, f(x), jax.jacfwd(f)(x), 1e-5, 0, False))[0]

    def saddle_jax(it):
        def highest(x, start):
            return argmin(lambda y: (y ** 2).sum() - (x ** 2).sum(), start)

        def saddle(start):
            def height(x):
                return (x ** 2).sum() - (highest(x, start) ** 2).sum()
            x = argmin(height, start)
            return jnp.concatenate([x, highest(x, start)])
        return None, saddle, [it["start"]]

    def particle_jax(it):
        def crossing(w):
            charges = [jnp.concatenate([jnp.array([10.0]), 10 - w]), jnp.array([10.0, 0.0])]

            def potential(x):
                return sum(1 / jnp.linalg.norm(x - charge) for charge in charges)

            def step(state):
                x, velocity, _ = state
                force, moved = -jax.jacfwd(potential)(x), x + 0.1 * velocity
                below = moved[1] <= 0
                return moved, jnp.where(below, velocity, velocity + 0.1 * force), below
            begin = (jnp.array([0.0, 8.0]), jnp.array([0.75, 0.0]), False)
            x, velocity, _ = lax.while_loop(lambda state: ~state[-1], step, begin)
            return (x[0] - x[1] / velocity[1] * velocity[0]) ** 2
        return None, lambda w: argmin(crossing, w)[0], [[it["w"]]]


def median_time(compute):
    """Returns the median of a function's processor time in microseconds, without its first run."""
    compute()
    samples, begin = [], time.process_time()
    while len(samples) < RUNS or time.process_time() - begin < SECONDS:
        before = time.process_time_ns()
        compute()
        samples.append(time.process_time_ns() - before)
    return statistics.median(samples) / 1000


def measured_by_jax(module, it):
    """Returns the times of the function and of its derivative, and the derivative."""
    function, derivative, arguments = globals()[f"{module}_jax"](it)
    arguments = [jax.tree.map(jnp.asarray, x if isinstance(x, dict) else np.asarray(x)) for x in arguments]
    arguments = [x.astype(jnp.float64) if module == "lstm" else x for x in arguments]
    compiled = jax.jit(derivative)
    of_function = None
    if function:
        compiled_function = jax.jit(function)
        of_function = median_time(lambda: jax.block_until_ready(compiled_function(*arguments)))
    answer = jax.tree.map(np.asarray, compiled(*arguments))
    return of_function, median_time(lambda: jax.block_until_ready(compiled(*arguments))), answer


def measured_by_torch(module, it):
    """Returns the time of the derivative, and the derivative."""
    derivative = getattr(peer_torch, module)(it)[1]
    answer = derivative()
    answer = {name: x.numpy() for name, x in answer.items()} if isinstance(answer, dict) else answer
    return median_time(derivative), answer


# ---- the table ---------------------------------------------------------------------------------------


def measured(program, module, function, path, *options):
    """Returns the median time of a function, and its answer. The first half of the runs may prepare machine code."""
    command = [program, module, path, function, "--processor-time", *options]
    with tempfile.TemporaryDirectory() as folder:  # ADOL-C writes long tapes to files in the working folder
        output, *times = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.splitlines()
    runs = [json.loads(line)["nanoseconds"] for line in times[1:]]
    return statistics.median(runs[len(runs) // 2:]) / 1000, json.loads(output)


def numbers_of(answer):
    if isinstance(answer, dict):
        return [number for name in sorted(answer) for number in numbers_of(answer[name])]
    if isinstance(answer, (list, tuple)):
        return [number for it in answer for number in numbers_of(it)]
    return np.ravel(answer).tolist()


def check(module, modes, by_stave, answer, name):
    if module == "ba":  # GradBench's answer is a part of the Jacobian
        by_stave = by_stave["vals"][:30]
        answer = answer["vals"][:30] if isinstance(answer, dict) else answer[2][:30]
    found, expected = np.array(numbers_of(by_stave)), np.array(numbers_of(answer))
    if found.shape != expected.shape or np.abs(found - expected).max() > 1e-4 * np.abs(expected).max():
        sys.exit(f"{module} {modes}: Stave's answer is not that of {name}")


def shown(time):
    return "" if time is None else f"{time:,.0f}" if time >= 100 else f"{time:.3g}"


TOOLS = {"ADOL-C": "--adolc", "CppAD": "--cppad", "Sacado": "--sacado", "Ceres": "--ceres"}


def tools_of(peers):
    """Returns which tools the program of peers has."""
    def has(option):
        return subprocess.run([peers, "ba", option], capture_output=True).returncode == 0
    found = {name: option for name, option in TOOLS.items() if peers and has(option)}
    for name in TOOLS.keys() - found.keys():
        print(f"{name} is left out: {'it was not found when peers were built' if peers else 'there is no PEERS'}", file=sys.stderr)
    for name, has_it in [("JAX", HAS_JAX), ("PyTorch", HAS_TORCH)]:
        if not has_it:
            print(f"{name} is left out: it is not installed", file=sys.stderr)
    return found


# The problems of each tool. The loops of saddle and particle take PyTorch minutes. JAX has no derivative of a while_loop in
# reverse mode. Sacado has no second derivatives in reverse mode, and the numbers of Ceres' variables are fixed.
def has_problem(tool, module, derivative):
    if tool == "Ceres":
        return module in ["ba", "ht"]
    if tool == "Sacado" and module == "kmeans":
        return False
    if tool == "JAX":
        return derivative not in ["fr", "rf", "rr"]
    if tool == "PyTorch":
        return module not in ["saddle", "particle"]
    return module not in ["saddle", "particle"] or derivative == "rf"


def row(program, peers, tools, path, problem):
    module, size, function, derivative, it = problem
    plain = measured(program, module, function or derivative, path, "--plain")[0]
    of_function = measured(program, module, function, path)[0] if function else None
    slope, answer = measured(program, module, derivative, path)
    times = []
    for name, option in tools.items():
        times.append(None)
        if has_problem(name, module, derivative):
            times[-1], by_tool = measured(peers, module, derivative, path, option)
            check(module, derivative, answer, by_tool, name)
    if HAS_JAX:
        times += [None, None]
        if has_problem("JAX", module, derivative):
            *times[-2:], by_jax = measured_by_jax(module, it)
            check(module, derivative, answer, by_jax, "JAX")
    if HAS_TORCH:
        times.append(None)
        if has_problem("PyTorch", module, derivative):
            times[-1], by_torch = measured_by_torch(module, it)
            check(module, derivative, answer, by_torch, "PyTorch")
    ratio = slope / of_function if of_function else None
    return [f"`{module}`, {size}", *map(shown, [plain, of_function, slope]), f"{ratio:.1f}" if ratio else "", *map(shown, times)]


def main():
    program, *modules = sys.argv[1:]
    program, peers = os.path.abspath(program), None
    if modules and os.path.isfile(modules[0]):
        peers = os.path.abspath(modules.pop(0))
    tools = tools_of(peers)
    columns = ["problem, size", "plain C++", "Stave", "its derivative", "/ function", *tools]
    columns += ["JAX", "its derivative"] * HAS_JAX + ["PyTorch"] * HAS_TORCH
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "input.json")
        for problem in problems():
            if not modules or problem[0] in modules:
                pathlib.Path(path).write_text(json.dumps(problem[-1] | {"min_runs": RUNS, "min_seconds": SECONDS}))
                print(f"| {' | '.join(row(program, peers, tools, path, problem))} |", flush=True)


if __name__ == "__main__":
    main()
