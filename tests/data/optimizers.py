"""Writes optimizers.csv: what optimizers make of two parameters in 100 steps, and schedules, by Optax.

    python3 tests/data/optimizers.py
"""

import pathlib

import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import optax

aim = [[1.0, -2.0, 0.5], [0.0, 3.0, -1.0]]
weight = [[1.0, 0.1, 5.0], [0.5, 2.0, 0.01]]


def loss(p, dtype):
    w, b = p["w"], p["b"]
    a, c = jnp.array(aim, dtype), jnp.array(weight, dtype)
    return 0.5 * jnp.sum(c * (w - a) ** 2) + 0.25 * jnp.sum(b**4) + jnp.sum(w[0] * b)


def exact(schedule):  # in float64, which of an int32 step it is not
    return lambda step: schedule(jnp.asarray(step, jnp.int64))


matrices = lambda tree: jax.tree.map(lambda x: x.ndim > 1, tree)
warmup = optax.warmup_cosine_decay_schedule(0.01, 0.3, 10, 80, 0.02)
optimizers = {
    "sgd": optax.sgd(0.05),
    "sgd linear": optax.sgd(exact(optax.linear_schedule(0.1, 0.01, 60, 5))),
    "momentum": optax.sgd(0.02, momentum=0.9),
    "nesterov": optax.sgd(0.02, momentum=0.8, nesterov=True),
    "adam": optax.adam(0.1),
    "adam warmup": optax.adam(exact(warmup), b1=0.8, b2=0.99, eps=1e-6),
    "adamw": optax.adamw(0.05, weight_decay=0.1),
    "adamw masked": optax.adamw(exact(optax.exponential_decay(0.1, 20, 0.5)), weight_decay=0.1, mask=matrices),
    "lamb": optax.lamb(0.02, weight_decay=0.05),
    "clipped by norm": optax.chain(optax.clip_by_global_norm(1.5), optax.sgd(0.1)),
    "clipped by value": optax.chain(optax.clip(0.7), optax.adam(0.1)),
}
schedules = {
    "linear": optax.linear_schedule(0.1, 0.01, 60, 5),
    "cosine": optax.cosine_decay_schedule(0.3, 70, 0.1, 1.5),
    "warmup cosine": warmup,
    "exponential": optax.exponential_decay(0.1, 20, 0.5, 10),
    "staircase": optax.exponential_decay(0.1, 20, 0.5, 10, True, 0.03),
    "piecewise": optax.piecewise_constant_schedule(0.5, {5: 0.5, 50: 0.1}),
    "joined": optax.join_schedules([optax.constant_schedule(0.2), optax.linear_schedule(0.2, 0.0, 30)], [20]),
}

with open(pathlib.Path(__file__).with_suffix(".csv"), "w") as file:
    print(f"# By tests/data/optimizers.py, Optax {optax.__version__}: parameters after 100 steps; schedules at some steps.", file=file)
    for dtype in (jnp.float64, jnp.float32):
        for name, optimizer in optimizers.items():
            p = {"w": jnp.array([[0.5, 1.0, -0.3], [2.0, 0.1, -0.7]], dtype), "b": jnp.array([0.9, -1.1, 0.4], dtype)}
            state = optimizer.init(p)
            for _ in range(100):
                updates, state = optimizer.update(jax.grad(loss)(p, dtype), state, p)
                p = optax.apply_updates(p, updates)
            assert p["w"].dtype == dtype
            numbers = [*p["w"].ravel().tolist(), *p["b"].tolist()]
            print(f"{name} {p['w'].dtype}", *(repr(x) for x in numbers), sep=",", file=file)
    for name, schedule in schedules.items():
        print(name, *(repr(float(exact(schedule)(step))) for step in (0, 1, 4, 5, 6, 10, 19, 20, 21, 49, 50, 80, 200)), sep=",", file=file)
