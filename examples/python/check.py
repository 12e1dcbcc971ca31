"""The module pendulum in NumPy, PyTorch and JAX: values, derivatives and lanes beside the same method written there.

A library that is not installed is left out. Exit status 77: there is no NumPy.
"""

import gc
import sys
import weakref

import pendulum

try:
    import numpy as np
except ImportError:
    print("skipped: this Python has no NumPy")
    sys.exit(77)


def times(n, step, state):
    for _ in range(n):
        state = step(state)
    return state


def swing(xp, state, length_and_friction, times=times):
    """The same method, of the operations of xp: numpy, torch or jax.numpy."""

    def rate(s):
        return xp.stack([s[1], -9.81 / length_and_friction[0] * xp.sin(s[0]) - length_and_friction[1] * s[1]])

    def step(s):
        h = 0.01
        k1 = rate(s)
        k2 = rate(s + h / 2 * k1)
        k3 = rate(s + h / 2 * k2)
        k4 = rate(s + h * k3)
        return s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return times(100, step, state)


KNOWS_VERSIONS = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1)  # else it gets copies
STATE, PENDULUM = np.array([1.0, 0.5]), np.array([0.8, 0.1])
STATES = np.random.default_rng(0).normal(size=(5, 2))


def refused(error, f):
    try:
        f()
    except error as caught:
        return str(caught)
    raise AssertionError(f"no {error.__name__} was raised")


def check_arrays():
    """What is handed over lies where it lay, and lives as long as somebody looks at it."""
    lanes, states = pendulum.swing.vmap([True, False]), np.ones((1000, 2))
    lanes(states, PENDULUM)  # what is compiled stays
    before = pendulum.live_bytes()
    y = lanes(states, PENDULUM)
    first, second = np.from_dlpack(y), np.from_dlpack(y)
    assert first.shape == (1000, 2) and first.dtype == np.float64 and not first.flags.writeable
    assert (first.ctypes.data == second.ctypes.data) == KNOWS_VERSIONS
    if KNOWS_VERSIONS:
        copy = np.from_dlpack(y, copy=True)
        assert copy.flags.writeable and copy.ctypes.data != first.ctypes.data
        del copy
    kept = np.array(first)
    del y, second
    gc.collect()
    assert pendulum.live_bytes() == before + first.nbytes and np.array_equal(first, kept)
    del first
    gc.collect()
    assert pendulum.live_bytes() == before


def check_capsules():
    """The protocol itself: which structure who gets, and what becomes of one that nobody takes."""
    y = pendulum.swing(STATE, PENDULUM)
    assert tuple(y.__dlpack_device__()) == (1, 0)
    before = pendulum.live_bytes()
    assert '"dltensor_versioned"' in repr(y.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(y.__dlpack__()) and '"dltensor"' in repr(y.__dlpack__(max_version=(0, 8)))
    assert pendulum.live_bytes() == before  # none of them was taken
    assert '"dltensor_versioned"' in repr(y.__dlpack__(stream=None, max_version=(2, 0), dl_device=(1, 0), copy=True))
    refused(BufferError, lambda: y.__dlpack__(copy=False))
    refused(BufferError, lambda: y.__dlpack__(dl_device=(2, 0)))
    refused(TypeError, lambda: pendulum.swing([1.0, 0.5], PENDULUM))
    refused(TypeError, lambda: pendulum.swing(STATE))
    assert "complex128" in refused(RuntimeError, lambda: pendulum.swing(STATE + 0j, PENDULUM))

    class Older:
        """An array of a library that knows no versions."""

        def __dlpack__(self, *, stream=None):
            return np.array(STATE).__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    class Gives:
        """Any structure."""

        def __init__(self, capsule):
            self.capsule = capsule

        def __dlpack__(self, **arguments):
            return self.capsule

        def __dlpack_device__(self):
            return (1, 0)

    expected = swing(np, STATE, PENDULUM)
    np.testing.assert_allclose(np.from_dlpack(pendulum.swing(Older(), PENDULUM)), expected, rtol=1e-12)
    capsule = y.__dlpack__(max_version=(1, 0))
    again = pendulum.swing(Gives(capsule), PENDULUM)
    assert '"used_dltensor_versioned"' in repr(capsule)
    np.testing.assert_allclose(np.from_dlpack(again), swing(np, expected, PENDULUM), rtol=1e-12)
    refused(ValueError, lambda: pendulum.swing(Gives(capsule), PENDULUM))  # it is taken


def check_numpy():
    dtypes = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
    for dtype in dtypes + ["bool"] * KNOWS_VERSIONS:
        x = np.arange(24).reshape(4, 6).astype(dtype)
        for view in (x, x.T, x[::-1, 1::2], x[0], x[:0], np.broadcast_to(x[:, :1], (4, 3)), x[3, 4:5].reshape(())):
            if view.flags.writeable or KNOWS_VERSIONS:  # the older structure cannot say that it may not be written
                same = np.from_dlpack(pendulum.asarray(view))
                assert same.dtype == x.dtype and same.shape == view.shape and np.array_equal(same, view)
                if KNOWS_VERSIONS and view.size > 1:
                    assert same.ctypes.data == view.ctypes.data and same.strides == view.strides

    np.testing.assert_allclose(np.from_dlpack(pendulum.swing(STATE, PENDULUM)), swing(np, STATE, PENDULUM), rtol=1e-12)
    strided = np.array([0.5, 9, 9, 1.0])[::-3]
    np.testing.assert_allclose(np.from_dlpack(pendulum.swing(strided, PENDULUM)), swing(np, strided, PENDULUM), rtol=1e-12)
    lanes = np.from_dlpack(pendulum.swing.vmap([True, False])(STATES, PENDULUM))
    np.testing.assert_allclose(lanes, [swing(np, s, PENDULUM) for s in STATES], rtol=1e-12)

    # Stave reads the memory, and lets it go with the last tensor over it.
    class Base(np.ndarray):
        pass

    base = np.array(STATES).view(Base)
    gone = weakref.ref(base)
    before = base.copy()
    pendulum.swing.vmap([True, False])(base, PENDULUM)
    assert np.array_equal(base, before)
    del base
    gc.collect()
    assert gone() is None


def check_torch():
    import torch

    from in_torch import as_operator, as_torch

    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64):
        x = torch.arange(24).reshape(4, 6).to(dtype).T[1:]
        same = torch.from_dlpack(pendulum.asarray(x))
        assert same.dtype == dtype and torch.equal(same, x)
        assert same.data_ptr() == x.data_ptr() and same.stride() == x.stride()

    f = as_torch(pendulum.swing)
    state, rest = (torch.tensor(x, requires_grad=True) for x in (STATE, PENDULUM))
    torch.testing.assert_close(f(state, rest), swing(torch, state, rest))
    assert torch.autograd.gradcheck(f, (state, rest))
    assert torch.autograd.gradgradcheck(f, (state, rest))

    operator = as_operator("stave::swing", pendulum.swing, 2)
    assert torch.autograd.gradcheck(operator, (state, rest))
    assert torch.autograd.gradgradcheck(operator, (state, rest))
    torch.library.opcheck(operator, (state, rest))

    theirs = lambda *xs: swing(torch, *xs)
    sums = lambda g: lambda *xs: g(*xs).sum()
    lanes = lambda g: torch.func.vmap(g, in_dims=(1, None), out_dims=1)
    states = torch.tensor(STATES).T
    for call in (f, operator):
        torch.testing.assert_close(lanes(call)(states, rest), lanes(theirs)(states, rest))
        gradients = [torch.autograd.grad(sums(lanes(g))(states, rest), rest) for g in (call, theirs)]
        torch.testing.assert_close(*gradients)
    each = lambda g: torch.func.vmap(torch.func.grad(sums(g), argnums=1), in_dims=(1, None))  # not of operators
    torch.testing.assert_close(each(f)(states, rest.detach()), each(theirs)(states, rest.detach()))


def check_jax():
    import jax
    import jax.numpy as jnp
    from jax.test_util import check_grads

    from in_jax import as_jax

    jax.config.update("jax_enable_x64", True)
    for dtype in (jnp.bool_, jnp.uint8, jnp.int64, jnp.float16, jnp.bfloat16, jnp.float64):
        x = jnp.arange(24).reshape(4, 6).astype(dtype)
        ours = pendulum.asarray(x)
        same = jnp.from_dlpack(ours)  # a copy: JAX asks for no version
        assert same.dtype == dtype and (same == x).all()
        if KNOWS_VERSIONS and dtype != jnp.bfloat16:
            assert np.from_dlpack(ours).ctypes.data == x.unsafe_buffer_pointer()

    f = as_jax(pendulum.swing)
    state, rest = jnp.array(STATE), jnp.array(PENDULUM)
    loop = lambda n, step, state: jax.lax.fori_loop(0, n, lambda _, s: step(s), state)
    theirs = lambda *xs: swing(jnp, *xs, loop)
    close = lambda a, b: jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12), a, b)
    close(jax.jit(f)(state, rest), theirs(state, rest))
    close(jax.jit(jax.jacrev(f, (0, 1)))(state, rest), jax.jit(jax.jacrev(theirs, (0, 1)))(state, rest))
    check_grads(f, (state, rest), order=2, modes=["rev"])
    lanes = lambda g: jax.jit(jax.vmap(jax.vmap(g, (0, None)), (None, 0)))
    many = jnp.stack([rest, 2 * rest, 3 * rest])
    close(lanes(f)(jnp.array(STATES), many), lanes(theirs)(jnp.array(STATES), many))


def installed(name):
    try:
        __import__(name)
        return True
    except ImportError:
        print(f"{name}: left out, for this Python does not have it")
        return False


check_arrays()
check_capsules()
check_numpy()
print("numpy: values and lanes agree, memory is shared")
if installed("torch"):
    check_torch()
    print("torch: values, first and second derivatives and lanes agree")
if installed("jax"):
    check_jax()
    print("jax: values, first and second derivatives and lanes agree")
