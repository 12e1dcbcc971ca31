"""Functions of jax that compute what programs of programs.cpp compute, under the same names."""
import jax
import jax.numpy as jnp
import jax.scipy as jsp


def mlp_loss(w1, b1, w2, x, y):
    return jnp.mean((jnp.tanh(x @ w1 + b1) @ w2 - y) ** 2)


mlp_gradient = jax.grad(mlp_loss, (0, 1, 2))


def mlp_gradient_optimized(*inputs):
    return [jax.grad(mlp_loss)(*inputs)]


def per_example_gradients(*inputs):
    return [jax.vmap(jax.grad(mlp_loss), (None, None, None, 0, 0))(*inputs)]


def layer_norm(x, epsilon=1e-5):
    off = x - x.mean(-1, keepdims=True)
    return off / jnp.sqrt((off**2).mean(-1, keepdims=True) + epsilon)


def layer_norm_gradient(*inputs):
    return jax.grad(lambda x, w, b: jnp.sin(layer_norm(x) * w + b).sum(), (0, 1, 2))(*inputs)


def attention(q, k, v, causal):
    s = q @ jnp.swapaxes(k, -1, -2) / jnp.sqrt(q.shape[-1])
    if causal:
        s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -jnp.inf)
    return jax.nn.softmax(s, -1) @ v


def attention_gradient(*inputs):
    return jax.grad(lambda q, k, v: jnp.sin(attention(q, k, v, True)).sum(), (0, 1, 2))(*inputs)


def quantized_matmul(x, packed, scales, biases):
    codes = jnp.stack([packed & 15, packed >> 4], -1).reshape(*scales.shape, -1)
    w = codes * scales[..., None] + biases[..., None]
    return [x @ w.reshape(packed.shape[0], -1).T]


def convolution_gradient(*inputs):
    def f(w, image):
        y = jax.nn.relu(jax.lax.conv_general_dilated(image, w, (1, 1), "SAME"))
        return (jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID") ** 2).sum()

    return jax.grad(f, (0, 1))(*inputs)


def grouped_convolution_gradient(*inputs):
    def f(w, signal):
        y = jax.lax.conv_general_dilated(signal, w, (2,), "VALID", rhs_dilation=(2,), feature_group_count=2)
        return jnp.sin(y).sum()

    return jax.grad(f, (0, 1))(*inputs)


def cross_entropy_gradient(logits, labels):
    def f(x):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], 1))

    return [jax.grad(f)(logits)]


def lorenz_end(start):
    def slope(s):
        x, y, z = s
        return jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    def step(_, s):
        h = 0.01
        k1 = slope(s)
        k2 = slope(s + h / 2 * k1)
        k3 = slope(s + h / 2 * k2)
        k4 = slope(s + h * k3)
        return s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return jax.lax.fori_loop(0, 50, step, start)


def lorenz(start):
    return [lorenz_end(start)]


def lorenz_jacobian(start):
    return [jax.jacobian(lorenz_end)(start)]


def vmapped_loop_gradient(starts):
    return [jax.vmap(jax.grad(lambda s: lorenz_end(s).sum()))(starts)]


def scan_gradient(*inputs):
    def f(w, xs):
        def step(state, x):
            state = jnp.tanh(w @ state + x)
            return state, state.sum()

        last, sums = jax.lax.scan(step, jnp.zeros(3), xs)
        return last.sum() + (sums**2).sum()

    return jax.grad(f, (0, 1))(*inputs)


def reverse_scan(xs):
    return jax.lax.scan(lambda s, x: (0.5 * s + x, s * x), jnp.zeros(2), xs, reverse=True)


def gaussian_process_gradient(*inputs):
    def evidence(xs, ys, scale):
        off = (xs[:, None] - xs[None]) / scale
        factor = jnp.linalg.cholesky(jnp.exp(-0.5 * off**2) + 0.1 * jnp.eye(6))
        solved = jsp.linalg.solve_triangular(factor, ys, lower=True)
        return (solved**2).sum() + 2 * jnp.log(jnp.diagonal(factor)).sum()

    return jax.grad(evidence, (0, 1, 2))(*inputs)


def determinant_gradients(matrices):
    def f(a):
        return jnp.linalg.slogdet(a)[1].sum() + jnp.linalg.det(a).sum() + jnp.linalg.inv(a).sum()

    return [jax.grad(f)(matrices)]


def expm_gradient(a):
    return [jax.grad(lambda x: (jsp.linalg.expm(x) ** 2).sum())(a)]


def hessian_product(x, v):
    return [jax.jvp(jax.grad(lambda y: (jnp.exp(0.1 * y) * jnp.roll(y, 1)).sum()), (x,), (v,))[1]]


def random_numbers(words):
    key = jax.random.wrap_key_data(words)
    a, b = jax.random.split(key)
    return [
        jax.random.normal(a, (3, 4), "float64"),
        jax.random.uniform(b, (5,), "float64", -1, 2),
        jax.random.permutation(key, 50),
        jax.random.bits(b, (3,), "uint32"),
        jax.random.bernoulli(a, jnp.float32(0.3), (6,)),
    ]


def special_functions(x):
    return [
        jsp.special.erf(x),
        jsp.special.erfc(x),
        jsp.special.erfinv(x / 4),
        jsp.special.gammaln(x + 0.05),
        jsp.special.digamma(x + 0.05),
        jax.nn.gelu(x, approximate=False),
        jsp.special.zeta(2.0, abs(x) + 1),
    ]


def circuit_state(angles, state):
    def turn(angle):
        c, s = jnp.cos(angle / 2), -1j * jnp.sin(angle / 2)
        return jnp.array([[c, s], [s, c]])

    controlled = jnp.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1j], [0, 0, 1j, 0]])
    return controlled @ jnp.kron(turn(angles[0]), turn(angles[1])) @ state


def circuit(*inputs):
    return [circuit_state(*inputs)]


def circuit_gradient(*inputs):
    return jax.grad(lambda *given: jnp.abs(circuit_state(*given)[3]) ** 2, (0, 1))(*inputs)


def turning(z):
    def step(_, x):
        return x * (0.999 + 0.01j) + 0.001 * jnp.conj(x) / (1 + x * jnp.conj(x))

    return jax.lax.fori_loop(0, 100, step, z)


def oscillator(z):
    return [turning(z)]


def oscillator_gradient(z):
    return [jax.grad(lambda x: jnp.real(turning(x) ** 2).sum())(jnp.asarray(z))]


def filter_gradient(*inputs):
    def f(weights, signal):
        found = jnp.fft.irfft(jnp.fft.rfft(signal) * weights)
        return (found**2).sum() + (jnp.abs(jnp.fft.fft(signal, 5, 0, "ortho")) ** 2).sum()

    return jax.grad(f, (0, 1))(*inputs)


def fourier(z):
    f = jnp.fft
    return [f.fft(z, axis=0), f.ifft(z), f.fft2(z), f.hfft(z), f.ihfft(z.real)]


def complex_functions(z):
    names = "exp log sqrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh log1p expm1".split()
    others = [z ** (2.5 - 1j), 1 / z, jnp.abs(z), jnp.angle(z), jnp.prod(z), jnp.cumprod(z)]
    return [getattr(jnp, name)(z) for name in names] + others


def complex_linear_algebra(a, b):
    q, r = jnp.linalg.qr(a)
    sign, logarithm = jnp.linalg.slogdet(a)
    square = jnp.einsum("...ij,...kj", a, jnp.conj(a))
    return [jnp.linalg.solve(a, b), jnp.linalg.det(a), sign, logarithm, jnp.abs(r), q @ r, jnp.linalg.inv(a)] + [
        jsp.linalg.expm(0.3 * a),
        jnp.linalg.cholesky(square),
    ]


def complex_updates(z, at):
    z = jnp.asarray(z)
    return [
        z[at],
        z.at[at].add(1j),
        z.at[at].set(2 - 1j),
        z.at[at].multiply(1j),
        jnp.pad(z, (1, 2), constant_values=1j),
        z[::-1],
        jnp.where(z.real > 0, z, 0),
        z == jnp.conj(z),
        z != 0,
        z.astype("complex64").astype("complex128"),
        z / jnp.abs(z),
        z.sum(),
    ]
