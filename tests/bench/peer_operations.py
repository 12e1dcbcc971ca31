"""The operations of operations.h in PyTorch and in JAX, which compiles each.

These are makers of functions without arguments, by name; the functions are timed. The inputs are
those of operations.cpp, and the results have the same norm as Stave's results."""
import importlib.util
import math

import numpy as np
import torch
import torch.nn.functional as F


# ---- inputs --------------------------------------------------------------------------------------

def mixed(*shape):
    i = np.arange(np.prod(shape), dtype=np.int64)
    return (((i % 65537) * (i % 65521) % 10007).astype(np.float32) / np.float32(10007) - np.float32(0.5)).reshape(shape)


def mixed_rows(count, width):
    return mixed(count, 1) + mixed(width)


def places(count, n):
    return np.arange(count, dtype=np.int64) * 611953 % 1000003 % n


def general(*shape):
    return mixed(*shape) + np.float32(2 * shape[-1] ** 0.5) * np.eye(shape[-1], dtype=np.float32)


def symmetric(*shape):
    x = mixed(*shape)
    return (x + x.swapaxes(-1, -2)) / 2


def positive(*shape):
    return symmetric(*shape) + np.float32(shape[-1]) * np.eye(shape[-1], dtype=np.float32)


HEADS = (8, 8, 512, 64)
STACKS = {3: (100000, 3, 3), 16: (64, 16, 16), 256: (256, 256), 1024: (1024, 1024)}

CONVOLVED = lambda: (mixed(32, 16, 32, 32), mixed(32, 16, 3, 3))
CONVOLVED_WIDE = lambda: (mixed(8, 3, 224, 224), mixed(64, 3, 7, 7))
POOLED = lambda: (mixed(8, 64, 112, 112),)
NORMALIZED = lambda: (mixed(4096, 1024), mixed(1024), mixed(1024))
CLASSIFIED = lambda: (8 * mixed(4096, 1000), places(4096, 1000))
ATTENDED = lambda: (mixed(*HEADS), 2 * mixed(*HEADS), 3 * mixed(*HEADS))
NUMBERS = lambda: (mixed(1000000),)
COUNTED = lambda: (mixed(1000000), np.linspace(-0.5, 0.5, 101).astype(np.float32))
ROWS_TAKEN = lambda: (mixed_rows(1000000, 64), places(1000000, 1000000))
NUMBERS_TAKEN = lambda: (mixed(1000000), places(1000000, 1000000))
ROWS_ADDED = lambda: (np.zeros((1000000, 64), np.float32), places(1000000, 1000000), mixed_rows(1000000, 64))
NUMBERS_ADDED = lambda: (np.zeros(1000000, np.float32), places(1000000, 1000000), mixed(1000000))
CONTRACTED = lambda: (mixed(*HEADS), 2 * mixed(*HEADS))
ADDED = lambda: (mixed(1 << 22), 2 * mixed(1 << 22))
MULTIPLIED = lambda: (mixed(1024, 1024), 2 * mixed(1024, 1024))


def flattened(results):
    return [results] if not isinstance(results, (tuple, list)) else [x for r in results for x in flattened(r)]


def magnitudes(x):
    if isinstance(x, torch.Tensor):
        x = x.detach().abs() if x.is_complex() else x.detach()
        return x.double()
    x = np.asarray(x)
    return torch.as_tensor((np.abs(x) if np.iscomplexobj(x) else x).astype(np.float64))


def norm_of(results):
    return sum(float(torch.linalg.vector_norm(magnitudes(x))) ** 2 for x in flattened(results)) ** 0.5


# ---- PyTorch -------------------------------------------------------------------------------------

def torch_value(f, inputs, dtype=None):
    def make():
        xs = [torch.from_numpy(x) for x in inputs()]
        xs = [x.to(dtype) for x in xs] if dtype else xs
        def run():
            with torch.inference_mode():
                return f(*xs)
        return run
    return make


def torch_gradients(f, inputs, constants=0):
    """Makes a function that returns the value and the gradients by all inputs but the last `constants`.

    If the result is a number, its cotangent is 1."""
    def make():
        xs = [torch.from_numpy(x) for x in inputs()]
        by = xs[:len(xs) - constants]
        for x in by:
            x.requires_grad_()
        shape = f(*xs).shape
        ct = torch.from_numpy(mixed(int(np.prod(shape))).reshape(shape)) if shape else torch.tensor(1.0)
        def run():
            y = f(*xs)
            return [*torch.autograd.grad(y, by, ct), y]
        return run
    return make


def torch_layer_norm(x, weight, bias):
    return F.layer_norm(x, (1024,), weight, bias)


def torch_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def torch_conv(x, w):
    return F.conv2d(x, w, padding=1)


def torch_conv_wide(x, w):
    return F.conv2d(x, w, stride=2, padding=3)


def torch_max_pool(x):
    return F.max_pool2d(x, 3, 2, 1)


def with_both(value, gradients, functions):
    """Returns programs by name, for the value and for the gradient.

    `functions` has functions, their inputs, and how many of the last inputs are constants."""
    programs = {}
    for name, (f, inputs, constants) in functions.items():
        programs[name] = value(f, inputs)
        programs[name + "_grad"] = gradients(f, inputs, constants)
    return programs


TORCH = with_both(torch_value, torch_gradients, {
    "conv2d": (torch_conv, CONVOLVED, 0),
    "conv2d_wide": (torch_conv_wide, CONVOLVED_WIDE, 0),
    "max_pool": (torch_max_pool, POOLED, 0),
    "layer_norm": (torch_layer_norm, NORMALIZED, 0),
    "cross_entropy": (F.cross_entropy, CLASSIFIED, 1),
    "attention": (torch_attention, ATTENDED, 0),
}) | {
    "topk": torch_value(lambda x: torch.topk(x, 100)[0], NUMBERS),
    "unique": torch_value(torch.unique, NUMBERS),
    "histogram": torch_value(lambda x, edges: torch.histogram(x, edges)[0], COUNTED),
    "gather_rows": torch_value(lambda x, i: x.index_select(0, i), ROWS_TAKEN),
    "gather_numbers": torch_value(lambda x, i: x.index_select(0, i), NUMBERS_TAKEN),
    "scatter_add_rows": torch_value(lambda x, i, u: x.index_add(0, i, u), ROWS_ADDED),
    "scatter_add_numbers": torch_value(lambda x, i, u: x.index_add(0, i, u), NUMBERS_ADDED),
    "einsum": torch_value(lambda q, k: torch.einsum("bhqd,bhkd->bhqk", q, k), CONTRACTED),
    "add_float16": torch_value(torch.add, ADDED, torch.float16),
    "add_bfloat16": torch_value(torch.add, ADDED, torch.bfloat16),
    "matmul_float16": torch_value(torch.matmul, MULTIPLIED, torch.float16),
    "matmul_bfloat16": torch_value(torch.matmul, MULTIPLIED, torch.bfloat16),
}
for n, shape in STACKS.items():
    TORCH |= {
        f"cholesky_{n}": torch_value(torch.linalg.cholesky, lambda s=shape: (positive(*s),)),
        f"solve_{n}": torch_value(torch.linalg.solve, lambda s=shape: (general(*s), mixed(*s[:-1], 8))),
        f"eigh_{n}": torch_value(torch.linalg.eigh, lambda s=shape: (symmetric(*s),)),
        f"svd_{n}": torch_value(lambda a: torch.linalg.svd(a, full_matrices=False), lambda s=shape: (mixed(*s),)),
    }


# ---- JAX -----------------------------------------------------------------------------------------

JAX = {}
if importlib.util.find_spec("jax"):
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.experimental.jet import jet

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)  # for indices of int64, as the others have them

    def jax_value(f, inputs, dtype=None, compiled=True):
        def make():
            xs = [jnp.asarray(x, dtype) for x in inputs()]
            function = jax.jit(f) if compiled else f
            return lambda: jax.block_until_ready(function(*xs))
        return make

    def jax_gradients(f, inputs, constants=0):
        def make():
            xs = [jnp.asarray(x) for x in inputs()]
            by, rest = xs[:len(xs) - constants], xs[len(xs) - constants:]
            shape = f(*xs).shape
            ct = jnp.asarray(mixed(int(np.prod(shape))).reshape(shape)) if shape else jnp.float32(1)
            def both(ct, *by):
                y, pullback = jax.vjp(lambda *by: f(*by, *rest), *by)
                return [*pullback(ct), y]
            function = jax.jit(both)
            return lambda: jax.block_until_ready(function(ct, *by))
        return make

    def jax_conv(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), [(1, 1)] * 2)

    def jax_conv_wide(x, w):
        return lax.conv_general_dilated(x, w, (2, 2), [(3, 3)] * 2)

    def jax_max_pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0), (0, 0), (1, 1), (1, 1)])

    def jax_layer_norm(x, weight, bias):
        mean = x.mean(-1, keepdims=True)
        variance = jnp.square(x - mean).mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + 1e-5) * weight + bias

    def jax_cross_entropy(x, labels):
        return -jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], 1).mean()

    def jax_attention(q, k, v):
        heads_inside = lambda x: x.swapaxes(1, 2)
        return jax.nn.dot_product_attention(*map(heads_inside, (q, k, v)), is_causal=True).swapaxes(1, 2)

    JAX = with_both(jax_value, jax_gradients, {
        "conv2d": (jax_conv, CONVOLVED, 0),
        "conv2d_wide": (jax_conv_wide, CONVOLVED_WIDE, 0),
        "max_pool": (jax_max_pool, POOLED, 0),
        "layer_norm": (jax_layer_norm, NORMALIZED, 0),
        "cross_entropy": (jax_cross_entropy, CLASSIFIED, 1),
        "attention": (jax_attention, ATTENDED, 0),
    }) | {
        "topk": jax_value(lambda x: lax.top_k(x, 100)[0], NUMBERS),
        "unique": jax_value(jnp.unique, NUMBERS, compiled=False),  # its shape depends on values
        "histogram": jax_value(lambda x, edges: jnp.histogram(x, edges)[0], COUNTED),
        "gather_rows": jax_value(lambda x, i: x[i], ROWS_TAKEN),
        "gather_numbers": jax_value(lambda x, i: x[i], NUMBERS_TAKEN),
        "scatter_add_rows": jax_value(lambda x, i, u: x.at[i].add(u), ROWS_ADDED),
        "scatter_add_numbers": jax_value(lambda x, i, u: x.at[i].add(u), NUMBERS_ADDED),
        "einsum": jax_value(lambda q, k: jnp.einsum("bhqd,bhkd->bhqk", q, k), CONTRACTED),
        "add_float16": jax_value(jnp.add, ADDED, jnp.float16),
        "add_bfloat16": jax_value(jnp.add, ADDED, jnp.bfloat16),
        "matmul_float16": jax_value(jnp.matmul, MULTIPLIED, jnp.float16),
        "matmul_bfloat16": jax_value(jnp.matmul, MULTIPLIED, jnp.bfloat16),
    }
    for n, shape in STACKS.items():
        JAX |= {
            f"cholesky_{n}": jax_value(jnp.linalg.cholesky, lambda s=shape: (positive(*s),)),
            f"solve_{n}": jax_value(jnp.linalg.solve, lambda s=shape: (general(*s), mixed(*s[:-1], 8))),
            f"eigh_{n}": jax_value(jnp.linalg.eigh, lambda s=shape: (symmetric(*s),)),
            f"svd_{n}": jax_value(lambda a: jnp.linalg.svd(a, full_matrices=False), lambda s=shape: (mixed(*s),)),
        }


    # ---- chains of elementwise operations (fused.cpp) --------------------------------------------

    def scattered(count):
        i = np.arange(count) % 1009
        return jnp.asarray((i * 7919 % 1009).astype(np.float32) / np.float32(1009) - np.float32(0.5))

    def cheap(x):
        return jnp.square(jnp.maximum((x * 1.5 + 0.25) * x - 0.5, 0)) * x + 1

    def cheap_and_sum(x):
        return jnp.sum(cheap(x))

    def with_functions(x):
        return jnp.tanh(x * 0.5) * jnp.exp(-jnp.square(x)) + jnp.log(jnp.square(x) + 1)

    def jax_chain(f, count):
        def make():
            x, function = scattered(count), jax.jit(f)
            if f is jnp.log:
                x = x + 1
            return lambda: jax.block_until_ready(function(x))
        return make

    # The network of programs.h.
    def spread(shape, size=1.0):
        i = np.arange(np.prod(shape)) % 1009
        numbers = (i * 7919 % 1009).astype(np.float32) / np.float32(1009) - np.float32(0.5)
        return jnp.asarray((numbers * np.float32(size)).reshape(shape))

    def mlp_loss(weights, pixels, labels):
        w1, b1, w2, b2, w3, b3 = weights
        h2 = jax.nn.relu(jax.nn.relu(pixels @ w1 + b1) @ w2 + b2)
        z = h2 @ w3 + b3
        return jnp.mean(jax.nn.logsumexp(z, axis=-1) - jnp.sum(labels * z, axis=-1))

    def jax_mlp(transform):
        def make():
            weights = (spread((784, 256), 0.2), spread((256,), 0.2), spread((256, 256), 0.2), spread((256,), 0.2),
                       spread((256, 10)), spread((10,)))
            pixels, labels = spread((128, 784)), jax.nn.one_hot(jnp.arange(128) % 10, 10)
            function = jax.jit(transform(mlp_loss))
            return lambda: jax.block_until_ready(function(weights, pixels, labels))
        return make

    def jax_cheap_donated():
        """Each call takes the result of the call before, so that its memory may be used again.

        The first result is that of `cheap`."""
        function, state = jax.jit(cheap, donate_argnums=0), [scattered(1 << 24)]
        def run():
            state[0] = jax.block_until_ready(function(state[0]))
            return state[0]
        return run

    # A path of the Lorenz system (1963), by a Runge-Kutta method.
    def lorenz(s):
        x, y, z = s
        return jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    def runge_kutta_step(s, h=0.01):
        k1 = lorenz(s)
        k2 = lorenz(s + h / 2 * k1)
        k3 = lorenz(s + h / 2 * k2)
        k4 = lorenz(s + h * k3)
        return s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    def lorenz_path(s):
        return jnp.sum(lax.scan(lambda s, _: (runge_kutta_step(s), None), s, None, length=1000)[0])

    def jax_lorenz(f):
        def make():
            s, function = jnp.ones(3, jnp.float32), jax.jit(f)
            return lambda: jax.block_until_ready(function(s))
        return make

    # A filter over a sequence of rows of four numbers.
    def scan_loss(a, xs):
        def step(state, x):
            after = a * state + jnp.tanh(x)
            return after, after

        return jnp.sum(lax.scan(step, jnp.zeros(4, jnp.float32), xs)[1] ** 2)

    def jax_scan(f):
        def make():
            a, function = jnp.float32(0.9), jax.jit(f)
            xs = jax.random.normal(jax.random.key(0), (8000, 4), jnp.float32)
            return lambda: jax.block_until_ready(function(a, xs))
        return make

    def jax_lorenz_compile():
        """Each run goes from the function to its first result; XLA's cache is cleared before."""
        s = jnp.ones(3, jnp.float32)
        def run():
            jax.clear_caches()
            return jax.block_until_ready(jax.jit(jax.grad(lambda s: lorenz_path(s)))(s))
        return run

    # Taylor coefficients, which are derivatives to jet.
    def jax_jet(f, inputs, order=10):
        def make():
            x, factorials = inputs(), [math.factorial(k) for k in range(1, order + 1)]

            def series(x):
                value, derivatives = jet(f, (x,), ([jnp.ones_like(x)] + [jnp.zeros_like(x)] * (order - 1),))
                return [value] + [d / k for d, k in zip(derivatives, factorials)]

            function = jax.jit(series)
            return lambda: jax.block_until_ready(function(x))
        return make

    def two_layers(x):
        return (jnp.tanh(x @ spread((64, 64))) @ spread((64, 1))) * jnp.sin(jnp.sum(x, -1, keepdims=True))

    def composed(x):
        return jnp.tanh(jnp.sin(x) * jnp.exp(x)) / (1 + jnp.square(x))

    JAX |= {
        "jet_network": jax_jet(two_layers, lambda: spread((128, 64))),
        "jet_elementwise": jax_jet(composed, lambda: spread((1 << 14,))),
        "lorenz": jax_lorenz(lorenz_path),
        "lorenz_grad": jax_lorenz(jax.grad(lorenz_path)),
        "lorenz_compile": jax_lorenz_compile,
        "scan": jax_scan(scan_loss),
        "scan_grad": jax_scan(jax.grad(scan_loss, (0, 1))),
        "mlp_step": jax_mlp(jax.value_and_grad),
        "per_example": jax_mlp(lambda f: jax.vmap(jax.grad(f), in_axes=(None, 0, 0))),
        "fused_cheap": jax_chain(cheap, 1 << 24),
        "fused_cheap_donated": jax_cheap_donated,
        "fused_sum": jax_chain(cheap_and_sum, 1 << 24),
        "fused_exp": jax_chain(with_functions, 1 << 24),
        "fused_exp_cached": jax_chain(with_functions, 1 << 16),
    }
    for name in ["exp", "log", "tanh"]:
        JAX[f"{name}_kernel"] = jax_chain(getattr(jnp, name), 1 << 16)
        JAX[f"{name}_kernel_few"] = jax_chain(getattr(jnp, name), 1 << 12)
