"""Writes 20_character_transformer.csv: the loss before each step of the example's training, by JAX and Optax, and by PyTorch from the
same weights and windows.

PyTorch's clip_grad_norm_ divides by the norm + 1e-6, Optax by the norm, which is all that differs: the third column is PyTorch's where
that is made up for, the second where it is not.

    python3 examples/data/20_character_transformer.py
"""

import math
import pathlib

import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import numpy as np
import optax
import torch
import torch.nn.functional as F

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


@jax.jit
def step(net, state, windows):
    value, gradient = jax.value_and_grad(loss)(net, windows)
    updates, state = optimizer.update(gradient, state, net)
    return value, optax.apply_updates(net, updates), state


def windows_of(i):
    starts = jax.random.permutation(jax.random.fold_in(batch_key, i), len(ids) - length)[:batch_size]
    return ids[starts[:, None] + jnp.arange(length + 1)]


def by_jax(net):
    state = optimizer.init(net)
    for i in range(steps):
        value, net, state = step(net, state, windows_of(i))
        yield float(value)


# ---- by PyTorch ------------------------------------------------------------------------------------------------

def torch_logits(net, ids):
    x = F.embedding(ids, net["characters"]) + net["places"]
    for block in net["blocks"]:
        normed = F.layer_norm(x, (width,), *block["norm1"])
        q, k, v = (normed @ block["qkv"]).unflatten(-1, (3, heads, width // heads)).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + found.transpose(1, 2).flatten(-2) @ block["out"]
        (up, up_shift), (down, down_shift) = block["up"], block["down"]
        x = x + F.gelu(F.layer_norm(x, (width,), *block["norm2"]) @ up + up_shift) @ down + down_shift
    return F.layer_norm(x, (width,), *net["norm"]) @ net["next"]


def rate(i):
    return 8e-3 * i / 20 if i < 20 else 1e-4 + (8e-3 - 1e-4) * (1 + math.cos(math.pi * (i - 20) / (steps - 20))) / 2


def by_torch(net, made_up):
    net = jax.tree.map(lambda x: torch.tensor(np.asarray(x), requires_grad=True), net)
    leaves = jax.tree.leaves(net)
    optimizer = torch.optim.AdamW([{"params": [x for x in leaves if x.ndim > 1], "weight_decay": 0.1},
                                   {"params": [x for x in leaves if x.ndim == 1], "weight_decay": 0.0}], lr=1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    for i in range(steps):
        windows = torch.tensor(np.asarray(windows_of(i)), dtype=torch.int64)
        value = F.cross_entropy(torch_logits(net, windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        value.backward()
        norm = torch.nn.utils.get_total_norm([x.grad for x in leaves])
        torch.nn.utils.clip_grad_norm_(leaves, 1 + 1e-6 / norm.item() if made_up else 1.0)
        optimizer.step()
        schedule.step()
        yield value.item()


with open(here.with_suffix(".csv"), "w") as file:
    print(f"# By {here.name}, the loss before each step: JAX {jax.__version__} with Optax {optax.__version__}, "
          f"PyTorch {torch.__version__.split('+')[0]}", file=file)
    for losses in zip(by_jax(net), by_torch(net, False), by_torch(net, True), strict=True):
        print(*map(repr, losses), sep=",", file=file)
