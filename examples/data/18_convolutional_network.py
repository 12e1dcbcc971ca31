"""Writes 18_convolutional_network.csv: the loss before each step of the example's training, by JAX and Optax.

    python3 examples/data/18_convolutional_network.py
"""

import math
import pathlib

import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import numpy
import optax
from jax import lax

here = pathlib.Path(__file__)
table = jnp.array(numpy.loadtxt(here.parent / "digits.csv", delimiter=","))
images, labels = (2 * table[:, :64] / 16 - 1).reshape(-1, 1, 8, 8), table[:, 64].astype(int)
training = 1438


def weights(key, shape, fan_in):
    return math.sqrt(6 / fan_in) * jax.random.uniform(key, shape, jnp.float64, -1, 1)


def layer(x, w, b):
    y = lax.conv_general_dilated(x, w, (1, 1), "SAME") + b[:, None, None]
    return lax.reduce_window(jax.nn.relu(y), -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def loss(cnn, images, labels):
    w1, b1, w2, b2, w3, b3 = cnn
    x = layer(layer(images, w1, b1), w2, b2)
    logits = x.reshape(len(x), -1) @ w3 + b3
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


key1, key2, key3, order_key = jax.random.split(jax.random.key(0), 4)
cnn = [
    weights(key1, (16, 1, 3, 3), 9), jnp.zeros(16),
    weights(key2, (32, 16, 3, 3), 144), jnp.zeros(32),
    weights(key3, (128, 10), 128), jnp.zeros(10),
]
optimizer = optax.adam(3e-3)
state = optimizer.init(cnn)


@jax.jit
def step(cnn, state, images, labels):
    value, gradient = jax.value_and_grad(loss)(cnn, images, labels)
    updates, state = optimizer.update(gradient, state)
    return value, optax.apply_updates(cnn, updates), state


with open(here.with_suffix(".csv"), "w") as file:
    print(f"# By {here.name}, JAX {jax.__version__}, Optax {optax.__version__}: the loss before each step", file=file)
    for epoch in range(10):
        order = jax.random.permutation(jax.random.fold_in(order_key, epoch), training)
        for end in range(64, training + 1, 64):
            batch = order[end - 64 : end]
            value, cnn, state = step(cnn, state, images[batch], labels[batch])
            print(repr(float(value)), file=file)
