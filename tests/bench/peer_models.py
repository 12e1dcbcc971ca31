"""The models of compiled_models.cpp in JAX, which compiles each, and in PyTorch.

As in peer_operations.py, these are makers of functions without arguments, by name."""
import importlib.util
import os

import numpy as np
import torch
import torch.nn.functional as F


def scattered(shape, size=1.0):
    i = np.arange(np.prod(shape)) % 1009
    numbers = (i * 7919 % 1009).astype(np.float32) / np.float32(1009) - np.float32(0.5)
    return (numbers * np.float32(size)).reshape(shape)


# ---- a transformer of characters -----------------------------------------------------------------

LENGTH, WIDTH, HEADS, BATCH, CHARACTERS = 64, 64, 4, 16, 64


def transformer():
    """Returns the transformer's parameters by name."""
    weights = lambda rows, columns: scattered((rows, columns), 2 / rows ** 0.5)
    ones, zeros = np.ones(WIDTH, np.float32), lambda n: np.zeros(n, np.float32)
    net = {"characters": weights(CHARACTERS, WIDTH), "places": weights(LENGTH, WIDTH), "scale": ones,
           "shift": zeros(WIDTH), "next": weights(WIDTH, CHARACTERS)}
    for block in "ab":
        net |= {f"{block}_{name}": value for name, value in {
            "scale1": ones, "shift1": zeros(WIDTH), "qkv": weights(WIDTH, 3 * WIDTH), "out": weights(WIDTH, WIDTH),
            "scale2": ones, "shift2": zeros(WIDTH), "up": weights(WIDTH, 4 * WIDTH), "up_shift": zeros(4 * WIDTH),
            "down": weights(4 * WIDTH, WIDTH), "down_shift": zeros(WIDTH)}.items()}
    return net


def windows():
    i = np.arange(BATCH * (LENGTH + 1))
    return (i * 7919 % 1009 % CHARACTERS).astype(np.int64).reshape(BATCH, LENGTH + 1)


def torch_transformer_step():
    net = {name: torch.from_numpy(x.copy()).requires_grad_() for name, x in transformer().items()}
    seen = torch.from_numpy(windows())
    optimizer = torch.optim.Adam(net.values(), lr=1e-3)

    def loss():
        x = net["characters"][seen[:, :-1]] + net["places"]
        for block in "ab":
            of = lambda name: net[f"{block}_{name}"]
            normed = F.layer_norm(x, (WIDTH,), of("scale1"), of("shift1"))
            q, k, v = (normed @ of("qkv")).reshape(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
            found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + found.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH) @ of("out")
            normed = F.layer_norm(x, (WIDTH,), of("scale2"), of("shift2"))
            x = x + F.gelu(normed @ of("up") + of("up_shift"), approximate="tanh") @ of("down") + of("down_shift")
        logits = F.layer_norm(x, (WIDTH,), net["scale"], net["shift"]) @ net["next"]
        return F.cross_entropy(logits.reshape(-1, CHARACTERS), seen[:, 1:].reshape(-1))

    def step():
        """Each step continues from the one before; the first result is compared with the other programs."""
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        states = optimizer.state.values()
        return [value, *net.values(), *(s[name] for s in states for name in ("exp_avg", "exp_avg_sq")),
                next(iter(states))["step"]]
    return step


# ---- a published model, by transformers ----------------------------------------------------------

SENTENCES, TOKENS = 32, 32


def torch_minilm_embeddings():
    from transformers import BertModel
    model = BertModel.from_pretrained(os.environ["STAVE_MINILM"], dtype=torch.float32).eval()
    tokens = torch.arange(SENTENCES * TOKENS).mul(7919).remainder(30522).reshape(SENTENCES, TOKENS)
    mask = torch.arange(TOKENS) < 16 + torch.arange(SENTENCES)[:, None] % 17

    @torch.inference_mode()
    def embed():
        x = model(input_ids=tokens, attention_mask=mask.long()).last_hidden_state
        return (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    return embed


# ---- a step of decoding, with a cache of fixed size ----------------------------------------------

def torch_decoding_step():
    layers, width, inner, vocabulary, heads, key_heads, size, context, position = 12, 512, 1408, 8192, 8, 2, 64, 512, 256
    weights = lambda to, of: torch.from_numpy(scattered((to, of), 2 / of ** 0.5))
    shapes = {"q": (width, width), "k": (key_heads * size, width), "v": (key_heads * size, width), "o": (width, width),
              "gate": (inner, width), "up": (inner, width), "down": (width, inner)}
    table, head, ones = weights(vocabulary, width), weights(vocabulary, width), torch.ones(width)
    blocks = [{name: weights(*shape) for name, shape in shapes.items()} for _ in range(layers)]
    keys, values = ([torch.zeros(1, key_heads, context, size) for _ in range(layers)] for _ in range(2))
    frequencies = 10000.0 ** (torch.arange(0, size, 2).float() / -size)
    token = torch.tensor([17])

    def rotated(x, cosines, sines):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cosines - b * sines, b * cosines + a * sines), -1)

    @torch.inference_mode()
    def step():
        cosines, sines = (position * frequencies).cos(), (position * frequencies).sin()
        split = lambda x: x.view(1, 1, -1, size).transpose(1, 2)
        x = F.embedding(token, table)
        for block, seen_keys, seen_values in zip(blocks, keys, values):
            y = F.rms_norm(x, (width,), ones, 1e-6)
            q = rotated(split(F.linear(y, block["q"])), cosines, sines)
            seen_keys[:, :, position:position + 1] = rotated(split(F.linear(y, block["k"])), cosines, sines)
            seen_values[:, :, position:position + 1] = split(F.linear(y, block["v"]))
            mixed = F.scaled_dot_product_attention(q, seen_keys[:, :, :position + 1], seen_values[:, :, :position + 1],
                                                   enable_gqa=True)
            x = x + F.linear(mixed.transpose(1, 2).reshape(1, width), block["o"])
            z = F.rms_norm(x, (width,), ones, 1e-6)
            x = x + F.linear(F.silu(F.linear(z, block["gate"])) * F.linear(z, block["up"]), block["down"])
        return F.linear(F.rms_norm(x, (width,), ones, 1e-6), head)
    return step


def torch_decoding_step_one_thread():
    step = torch_decoding_step()

    def on_one_thread():
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return step()
        finally:
            torch.set_num_threads(threads)
    return on_one_thread


TORCH_MODELS = {"transformer_step": torch_transformer_step, "decoding_step": torch_decoding_step,
                "decoding_step_one_thread": torch_decoding_step_one_thread}
if "STAVE_MINILM" in os.environ and importlib.util.find_spec("transformers"):
    TORCH_MODELS["minilm_embeddings"] = torch_minilm_embeddings
JAX_MODELS = {}

if importlib.util.find_spec("jax"):
    import jax
    import jax.numpy as jnp
    from jax import lax

    def jitted(f, inputs):
        def make():
            function, given = jax.jit(f), [jax.tree.map(jnp.asarray, x) for x in inputs()]
            return lambda: jax.tree.leaves(jax.block_until_ready(function(*given)))
        return make

    # ---- an extended Kalman filter ---------------------------------------------------------------

    DT, MEASUREMENTS = 0.1, 50

    def move(s):
        x, y, speed, heading = s
        return jnp.stack([x + DT * speed * jnp.cos(heading), y + DT * speed * jnp.sin(heading), speed,
                          heading + 0.3 * DT])

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
            surprise_by = jnp.linalg.solve(spread, surprise)
            value = -(surprise @ surprise_by + jnp.linalg.slogdet(spread)[1]) / 2
            return (state + gain @ surprise, covariance - gain @ hp), value

        start = jnp.array([4.0, 0.0, 0.5, 1.5]), jnp.eye(4)
        return jnp.sum(lax.scan(step, start, seen)[1])

    def measurements():
        t = np.arange(MEASUREMENTS, dtype=np.float32)
        return np.stack([3 + np.cos(np.float32(0.1) * t), np.float32(0.02) * t], 1)

    # ---- Hamiltonian Monte Carlo -----------------------------------------------------------------

    def log_posterior(q, points):
        return -jnp.sum(jax.nn.softplus(-(points @ q))) - q @ q / 2

    def moved(log_density, step, q, momentum, chance):
        steps = 10
        energy = lambda at, p: p @ p / 2 - log_density(at)
        slope = jax.grad(log_density)
        at, p = q, momentum + step / 2 * slope(q)
        for i in range(steps):
            at = at + step * p
            p = p + (step if i + 1 < steps else step / 2) * slope(at)
        return jnp.where(jnp.log(chance) < energy(q, momentum) - energy(at, p), at, q)

    def transition(q, momentum, chance, points):
        return moved(lambda at: log_posterior(at, points), 0.05, q, momentum, chance)

    # The same with random numbers of each chain's own key, on a banana-shaped density.
    def banana(q):
        return -((1 - q[0]) ** 2 + 5 * (q[1] - q[0] ** 2) ** 2) / 2

    def banana_transition(q, key):
        of_momentum, of_chance = jax.random.split(key)
        return moved(banana, 0.1, q, jax.random.normal(of_momentum, (2,)), jax.random.uniform(of_chance))

    def keys():
        return np.stack([np.arange(64, dtype=np.uint32), np.full(64, 7, np.uint32)], 1)

    def chains():
        return (scattered((64, 8)), scattered((65, 8), 3)[1:], scattered((64,)) + np.float32(0.501),
                scattered((128, 8), 4))

    # ---- the transformer -------------------------------------------------------------------------

    def norm(x, scale, shift):
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5) * scale + shift

    def loss_of_one(net, window):
        x = net["characters"][window[:-1]] + net["places"]
        for block in "ab":
            of = lambda name: net[f"{block}_{name}"]
            all = (norm(x, of("scale1"), of("shift1")) @ of("qkv")).reshape(LENGTH, 3, HEADS, WIDTH // HEADS)
            found = jax.nn.dot_product_attention(all[:, 0], all[:, 1], all[:, 2], is_causal=True)
            x = x + found.reshape(LENGTH, WIDTH) @ of("out")
            x = x + jax.nn.gelu(norm(x, of("scale2"), of("shift2")) @ of("up") + of("up_shift")) @ of("down") + of(
                "down_shift")
        logits = jax.nn.log_softmax(norm(x, net["scale"], net["shift"]) @ net["next"])
        return -jnp.take_along_axis(logits, window[1:, None], 1).mean()

    def transformer_step(net, mean, variance, count, seen):
        loss = lambda net: jax.vmap(loss_of_one, (None, 0))(net, seen).mean()
        value, gradient = jax.value_and_grad(loss)(net)
        count = count + 1
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
        variance = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, variance, gradient)
        c1, c2 = 1 - 0.9 ** count, 1 - 0.999 ** count
        net = jax.tree.map(lambda x, m, v: x - 1e-3 * (m / c1) / (jnp.sqrt(v / c2) + 1e-8), net, mean, variance)
        return value, net, mean, variance, count

    def training():
        net = transformer()
        zeros = {name: np.zeros_like(x) for name, x in net.items()}
        return net, zeros, zeros, np.int32(0), windows().astype(np.int32)

    # ---- an arm of seven joints ------------------------------------------------------------------

    TILTS = (-1.5708, 1.5708, 1.5708, -1.5708, -1.5708, 1.5708, 0)
    LENGTHS, OFFSETS = (0, 0, 0.0825, -0.0825, 0, 0.088, 0), (0.333, 0, 0.316, 0, 0.384, 0, 0.107)

    def hand(angles):
        pose = jnp.eye(4)
        for angle, tilt, length, offset in zip(angles, TILTS, LENGTHS, OFFSETS):
            ct, st, c, s = np.cos(tilt), np.sin(tilt), jnp.cos(angle), jnp.sin(angle)
            pose = pose @ jnp.array([[c, -s * ct, s * st, c * length], [s, c * ct, -c * st, s * length],
                                     [0, st, ct, offset], [0, 0, 0, 1]])
        return jnp.concatenate([pose[:3, 3], pose[:3, 0], pose[:3, 1]])

    JAX_MODELS = {
        "arm_jacobian": jitted(jax.jacfwd(hand), lambda: (np.float32(0.2) * np.arange(7, dtype=np.float32) - 0.5,)),
        "ekf_gradient": jitted(jax.grad(log_likelihood), lambda: (np.full(4, -6, np.float32), measurements())),
        "hmc": jitted(jax.vmap(banana_transition), lambda: (scattered((64, 2)), keys())),
        "hmc_of_points": jitted(jax.vmap(transition, (0, 0, 0, None)), chains),
        "transformer_step": jitted(transformer_step, training),
    }
