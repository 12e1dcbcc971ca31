"""Writes 19_ghost_clipping.csv: the loss before each step of the example's training, by JAX and Optax, which clip by vmap(grad(loss)).

    python3 examples/data/19_ghost_clipping.py
"""

import math
import pathlib

import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import numpy
import optax

here = pathlib.Path(__file__)
table = jnp.array(numpy.loadtxt(here.parent / "digits.csv", delimiter=","))
images, labels = (2 * table[:, :64] / 16 - 1).reshape(-1, 8, 8), table[:, 64].astype(int)
batch_size, clip_norm = 128, 1.0


def weights(key, rows, columns):
    return jax.random.uniform(key, (rows, columns), jnp.float64, -1, 1) / math.sqrt(rows)


def loss(net, image, label):
    w1, b1, w2, b2, w3, b3 = net
    strokes = jnp.tanh(image @ w1 + b1)
    hidden = jnp.tanh(strokes.ravel() @ w2 + b2)
    return optax.softmax_cross_entropy_with_integer_labels(hidden @ w3 + b3, label)


def clipped_gradient(net, image, label):
    value, gradient = jax.value_and_grad(loss)(net, image, label)
    factor = jnp.minimum(1, clip_norm / optax.global_norm(gradient))
    return value, jax.tree.map(lambda g: factor * g, gradient)


key1, key2, key3, order_key = jax.random.split(jax.random.key(0), 4)
net = [
    weights(key1, 8, 64), jnp.zeros(64),
    weights(key2, 512, 512), jnp.zeros(512),
    weights(key3, 512, 10), jnp.zeros(10),
]
optimizer = optax.sgd(0.25, momentum=0.9)
state = optimizer.init(net)


@jax.jit
def step(net, state, images, labels):
    values, gradients = jax.vmap(clipped_gradient, (None, 0, 0))(net, images, labels)
    updates, state = optimizer.update(jax.tree.map(lambda g: g.mean(0), gradients), state)
    return values.mean(), optax.apply_updates(net, updates), state


with open(here.with_suffix(".csv"), "w") as file:
    print(f"# By {here.name}, JAX {jax.__version__}, Optax {optax.__version__}: the loss before each step", file=file)
    for epoch in range(8):
        order = jax.random.permutation(jax.random.fold_in(order_key, epoch), len(labels))
        for end in range(batch_size, len(labels) + 1, batch_size):
            batch = order[end - batch_size : end]
            value, net, state = step(net, state, images[batch], labels[batch])
            print(repr(float(value)), file=file)
