"""Writes 20_character_transformer.csv: the loss before each step of the example's training, by JAX and Optax.

    python3 examples/data/20_character_transformer.py
"""

import math
import pathlib

import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import optax

here = pathlib.Path(__file__)
text = (here.parent / "sonnets.txt").read_bytes()
alphabet = sorted(set(text))
ids = jnp.array([alphabet.index(c) for c in text])
length, width, heads, steps, batch_size = 32, 64, 4, 240, 32


def uniform(key, shape, fan_in):
    return jax.random.uniform(key, shape, jnp.float64, -1, 1) / math.sqrt(fan_in)


def random_block(key):
    key1, key2, key3, key4 = jax.random.split(key, 4)
    return {
        "norm1": [jnp.ones(width), jnp.zeros(width)],
        "qkv": uniform(key1, (width, 3 * width), width),
        "out": uniform(key2, (width, width), width),
        "norm2": [jnp.ones(width), jnp.zeros(width)],
        "up": [uniform(key3, (width, 4 * width), width), jnp.zeros(4 * width)],
        "down": [uniform(key4, (4 * width, width), 4 * width), jnp.zeros(width)],
    }


def layer_norm(norm, x):
    scale, shift = norm
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * scale + shift


def dense(layer, x):
    w, b = layer
    return x @ w + b


# By hand: jax.nn.dot_product_attention takes its softmax in float32.
def attention(block, x):
    q, k, v = jnp.einsum("tphd->phtd", (x @ block["qkv"]).reshape(len(x), 3, heads, width // heads))
    scores = q @ k.mT / math.sqrt(width // heads)
    scores = jnp.where(jnp.tri(len(x), dtype=bool), scores, -jnp.inf)
    return jnp.einsum("htd->thd", jax.nn.softmax(scores) @ v).reshape(x.shape) @ block["out"]


def logits(net, ids):
    x = net["characters"][ids] + net["places"]
    for block in net["blocks"]:
        x = x + attention(block, layer_norm(block["norm1"], x))
        x = x + dense(block["down"], jax.nn.gelu(dense(block["up"], layer_norm(block["norm2"], x)), approximate=False))
    return layer_norm(net["norm"], x) @ net["next"]


def loss(net, windows):
    found = jax.vmap(logits, (None, 0))(net, windows[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(found, windows[:, 1:]).mean()


key1, key2, key3, key4, key5, batch_key = jax.random.split(jax.random.key(0), 6)
net = {
    "characters": uniform(key1, (len(alphabet), width), width),
    "places": uniform(key2, (length, width), width),
    "blocks": [random_block(key3), random_block(key4)],
    "norm": [jnp.ones(width), jnp.zeros(width)],
    "next": uniform(key5, (width, len(alphabet)), width),
}
schedule = optax.warmup_cosine_decay_schedule(0, 8e-3, 20, steps, 1e-4)
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.adamw(
        lambda step: schedule(jnp.asarray(step, jnp.int64)),  # exact: not in float32, which of an int32 step it would be
        weight_decay=0.1,
        mask=lambda tree: jax.tree.map(lambda x: x.ndim > 1, tree),
    ),
)
state = optimizer.init(net)


@jax.jit
def step(net, state, windows):
    value, gradient = jax.value_and_grad(loss)(net, windows)
    updates, state = optimizer.update(gradient, state, net)
    return value, optax.apply_updates(net, updates), state


with open(here.with_suffix(".csv"), "w") as file:
    print(f"# By {here.name}, JAX {jax.__version__}, Optax {optax.__version__}: the loss before each step", file=file)
    for i in range(steps):
        starts = jax.random.permutation(jax.random.fold_in(batch_key, i), len(ids) - length)[:batch_size]
        value, net, state = step(net, state, ids[starts[:, None] + jnp.arange(length + 1)])
        print(repr(float(value)), file=file)
