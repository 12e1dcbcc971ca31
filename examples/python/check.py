"""The module pendulum in NumPy, PyTorch and JAX: values, derivatives and lanes beside the same method written there.

A library that is not installed is left out. Exit status 77: there is no NumPy.
"""

import ctypes
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


class Gives:
    """An array whose structure of DLPack is any capsule."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **arguments):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


def as_float4(array):
    """The array, whose structure of DLPack names a dtype that Stave does not have: float4_e2m1fn."""
    capsule = array.__dlpack__()
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    code_and_bits = address(capsule, b"dltensor") + 20  # after a pointer, two numbers for the device, and the rank
    ctypes.memmove(code_and_bits, bytes([17, 4]), 2)
    return Gives(capsule)


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

    class Older:
        """An array of a library that knows no versions."""

        def __dlpack__(self, *, stream=None):
            return np.array(STATE).__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    expected = swing(np, STATE, PENDULUM)
    np.testing.assert_allclose(np.from_dlpack(pendulum.swing(Older(), PENDULUM)), expected, rtol=1e-12)
    capsule = y.__dlpack__(max_version=(1, 0))
    again = pendulum.swing(Gives(capsule), PENDULUM)
    assert '"used_dltensor_versioned"' in repr(capsule)
    np.testing.assert_allclose(np.from_dlpack(again), swing(np, expected, PENDULUM), rtol=1e-12)
    refused(ValueError, lambda: pendulum.swing(Gives(capsule), PENDULUM))  # it is taken


def check_errors():
    """Each cause has an exception of its own, which is Python's of that cause as well; all are pendulum.Error."""
    causes = {
        "ShapeError": ValueError,
        "DtypeError": TypeError,
        "IndexError": IndexError,
        "LinalgError": ValueError,
        "MemoryError": MemoryError,
        "FileError": OSError,
        "DeviceError": RuntimeError,
        "TransformError": RuntimeError,
    }
    for name, python in causes.items():
        ours = getattr(pendulum, name)
        assert issubclass(ours, pendulum.Error) and issubclass(ours, python) and issubclass(ours, RuntimeError)
        assert ours.__module__ == "pendulum" and ours.__name__ == name
    assert len({getattr(pendulum, name) for name in causes}) == len(causes)
    shape = lambda: pendulum.swing(np.ones((3, 5)), np.ones(2))  # of five angles
    dtype = lambda: pendulum.swing(as_float4(STATE), PENDULUM)
    index = lambda: pendulum.swing(np.ones(1), PENDULUM)  # no speed
    for ours, python, f in [
        (pendulum.ShapeError, ValueError, shape),
        (pendulum.DtypeError, TypeError, dtype),
        (pendulum.IndexError, IndexError, index),
    ]:
        assert refused(ours, f) == refused(python, f) == refused(pendulum.Error, f)
    assert not issubclass(pendulum.ShapeError, pendulum.DtypeError)


def check_attributes():
    """An array says what it is, and NumPy takes it as it is."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    a = pendulum.asarray(x)
    assert a.shape == (2, 3) and isinstance(a.shape, tuple) and a.ndim == 2
    assert a.dtype == np.float32 and isinstance(a.dtype, np.dtype)
    assert repr(a) == "Array([[0. 1. 2.]\n [3. 4. 5.]], shape=(2, 3), dtype=float32)"
    assert repr(pendulum.asarray(np.array(True))) == "Array(True, shape=(), dtype=bool)"
    for dtype in ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"] + ["float16", "float32", "float64", "complex64", "complex128", "bool"]:
        x = np.arange(24).reshape(4, 6).astype(dtype)
        for view in (x, x.T, x[::-1, 1::2], x[0], x[:0], np.broadcast_to(x[:, :1], (4, 3)), x[3, 4:5].reshape(())):
            if view.flags.writeable or KNOWS_VERSIONS:
                ours = pendulum.asarray(view)
                same = np.asarray(ours)
                assert ours.dtype == x.dtype and ours.shape == view.shape
                assert same.dtype == x.dtype and same.shape == view.shape and np.array_equal(same, view)
                assert not same.flags.writeable and np.array(ours).flags.writeable
                if view.size and (KNOWS_VERSIONS or view.flags.writeable):
                    assert same.ctypes.data == view.ctypes.data
    y = pendulum.swing(STATE, PENDULUM)
    np.testing.assert_array_equal(np.array(y, dtype=np.float32), np.asarray(y).astype(np.float32))
    np.testing.assert_array_equal(y.__array__(np.float32), np.asarray(y).astype(np.float32))
    assert np.asarray(y).ctypes.data == y.__array__(copy=False).ctypes.data != y.__array__(copy=True).ctypes.data
    refused(ValueError, lambda: y.__array__(np.float32, copy=False))
    np.testing.assert_allclose(np.sin(y), np.sin(np.asarray(y)))
    assert np.stack([y, y]).shape == (2, 2)
    before = pendulum.live_bytes()
    kept = np.asarray(pendulum.swing(STATE, PENDULUM))
    gc.collect()
    assert pendulum.live_bytes() == before + kept.nbytes and np.array_equal(kept, y)


def check_bools():
    """Every other byte than 0 is true, as NumPy's and PyTorch's views have them; the memory of others is not copied."""
    if not KNOWS_VERSIONS:
        return
    x = np.array([2, 3, 255, 0, 1, 4], np.uint8).view(bool)
    for view in (x, x[::-2], x[1:], x[3:4], x.reshape(2, 3).T, np.broadcast_to(x, (3, 6))):
        same = np.asarray(pendulum.asarray(view)).view(np.uint8)
        assert np.array_equal(same, np.array(view).view(np.uint8) != 0)
    assert np.array_equal(x.view(np.uint8), [2, 3, 255, 0, 1, 4])
    good = x[3:5]
    assert np.asarray(pendulum.asarray(good)).ctypes.data == good.ctypes.data


def check_numpy():
    dtypes = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]
    for dtype in dtypes + ["bool"] * KNOWS_VERSIONS:
        x = np.arange(24).reshape(4, 6).astype(dtype)
        for view in (x, x.T, x[::-1, 1::2], x[0], x[:0], np.broadcast_to(x[:, :1], (4, 3)), x[3, 4:5].reshape(())):
            if view.flags.writeable or KNOWS_VERSIONS:  # the older structure cannot say that it may not be written
                same = np.from_dlpack(pendulum.asarray(view))
                assert same.dtype == x.dtype and same.shape == view.shape and np.array_equal(same, view)
                if KNOWS_VERSIONS and view.size > 1:
                    assert same.ctypes.data == view.ctypes.data and same.strides == view.strides

    np.testing.assert_allclose(np.from_dlpack(pendulum.swing(STATE, PENDULUM)), swing(np, STATE, PENDULUM), rtol=1e-12)
    swung = np.from_dlpack(pendulum.swing(STATE + 0.1j, PENDULUM))
    np.testing.assert_allclose(swung, swing(np, STATE + 0.1j, PENDULUM), rtol=1e-12)
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

    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.complex128):
        x = torch.arange(24).reshape(4, 6).to(dtype).T[1:]
        same = torch.from_dlpack(pendulum.asarray(x))
        assert same.dtype == dtype and torch.equal(same, x)
        assert same.data_ptr() == x.data_ptr() and same.stride() == x.stride()
    odd = torch.tensor([2, 0, 255, 1], dtype=torch.uint8).view(torch.bool)
    assert torch.equal(torch.from_dlpack(pendulum.asarray(odd)).view(torch.uint8), torch.tensor([1, 0, 1, 1], dtype=torch.uint8))

    f = as_torch(pendulum.swing)
    state, rest = (torch.tensor(x, requires_grad=True) for x in (STATE, PENDULUM))
    torch.testing.assert_close(f(state, rest), swing(torch, state, rest))
    assert torch.autograd.gradcheck(f, (state, rest), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, (state, rest), check_fwd_over_rev=True)

    theirs = lambda *xs: swing(torch, *xs)
    xs, vs = (state.detach(), rest.detach()), (torch.tensor([0.3, -0.2]).double(), torch.tensor([-0.1, 0.4]).double())
    func = torch.func
    torch.testing.assert_close(func.jvp(f, xs, vs), func.jvp(theirs, xs, vs))
    for transform in (func.jacfwd, func.jacrev, func.hessian, lambda g, i: func.jacfwd(func.jacfwd(g, i), i)):
        for argument in (0, 1):
            torch.testing.assert_close(transform(f, argument)(*xs), transform(theirs, argument)(*xs))
    along = lambda g: lambda *ys: func.jvp(lambda a: g(a, xs[1]), (ys[0],), (vs[0],))[1]
    torch.testing.assert_close(func.jacrev(along(f))(xs[0]), func.jacrev(along(theirs))(xs[0]))

    operator = as_operator("stave::swing", pendulum.swing, 2)
    assert torch.autograd.gradcheck(operator, (state, rest))
    assert torch.autograd.gradgradcheck(operator, (state, rest))
    torch.library.opcheck(operator, (state, rest))

    sums = lambda g: lambda *xs: g(*xs).sum()
    lanes = lambda g: torch.func.vmap(g, in_dims=(1, None), out_dims=1)
    states = torch.tensor(STATES).T
    for call in (f, operator):
        torch.testing.assert_close(lanes(call)(states, rest), lanes(theirs)(states, rest))
        gradients = [torch.autograd.grad(sums(lanes(g))(states, rest), rest) for g in (call, theirs)]
        torch.testing.assert_close(*gradients)
    tangents = lambda g: torch.func.vmap(lambda s: func.jvp(g, (s, xs[1]), vs)[1], in_dims=1)
    torch.testing.assert_close(tangents(f)(states), tangents(theirs)(states))
    each = lambda g: torch.func.vmap(torch.func.grad(sums(g), argnums=1), in_dims=(1, None))  # not of operators
    torch.testing.assert_close(each(f)(states, rest.detach()), each(theirs)(states, rest.detach()))


def check_jax():
    import jax
    import jax.numpy as jnp
    from jax.test_util import check_grads

    from in_jax import as_jax

    jax.config.update("jax_enable_x64", True)
    for dtype in (jnp.bool_, jnp.uint8, jnp.int64, jnp.float16, jnp.bfloat16, jnp.float64, jnp.complex64, jnp.complex128):
        x = jnp.arange(24).reshape(4, 6).astype(dtype)
        ours = pendulum.asarray(x)
        same = jnp.from_dlpack(ours)  # a copy: JAX asks for no version
        assert same.dtype == dtype and (same == x).all()
        assert ours.dtype == dtype and ours.shape == x.shape
        host = np.asarray(ours)  # bfloat16 is that of ml_dtypes
        assert host.dtype == dtype and np.array_equal(host, x)
        if KNOWS_VERSIONS and dtype != jnp.bfloat16:
            assert np.from_dlpack(ours).ctypes.data == x.unsafe_buffer_pointer()

    f = as_jax(pendulum.swing)
    state, rest = jnp.array(STATE), jnp.array(PENDULUM)
    loop = lambda n, step, state: jax.lax.fori_loop(0, n, lambda _, s: step(s), state)
    theirs = lambda *xs: swing(jnp, *xs, loop)
    close = lambda a, b: jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12), a, b)
    close(jax.jit(f)(state, rest), theirs(state, rest))
    close(jax.jit(jax.jacrev(f, (0, 1)))(state, rest), jax.jit(jax.jacrev(theirs, (0, 1)))(state, rest))
    check_grads(f, (state, rest), order=2, modes=["fwd", "rev"])
    vs = jnp.array([0.3, -0.2]), jnp.array([-0.1, 0.4])
    close(jax.jvp(f, (state, rest), vs), jax.jvp(theirs, (state, rest), vs))
    close(jax.jit(jax.hessian(f, (0, 1)))(state, rest), jax.jit(jax.hessian(theirs, (0, 1)))(state, rest))
    for outer in (jax.jacfwd, jax.jacrev):
        for inner in (jax.jacfwd, jax.jacrev):
            close(outer(inner(f, 0), 1)(state, rest), outer(inner(theirs, 0), 1)(state, rest))
    close(jax.linearize(f, state, rest)[1](*vs), jax.jvp(theirs, (state, rest), vs)[1])
    back = lambda g: jax.linear_transpose(jax.linearize(g, state, rest)[1], *vs)(vs[0])
    close(back(f), back(theirs))
    lanes = lambda g: jax.jit(jax.vmap(jax.vmap(g, (0, None)), (None, 0)))
    many = jnp.stack([rest, 2 * rest, 3 * rest])
    close(lanes(f)(jnp.array(STATES), many), lanes(theirs)(jnp.array(STATES), many))
    states = jnp.array(STATES)
    for axes in ((0, None), (None, 0)):
        xs = states if axes[0] == 0 else state, many if axes[1] == 0 else rest
        for derivative in (jax.jacfwd, jax.jacrev, jax.hessian):
            each = lambda g: jax.vmap(derivative(g, (0, 1)), axes)
            close(each(f)(*xs), each(theirs)(*xs))
        total = lambda g: lambda *xs: (jax.vmap(g, axes)(*xs) ** 2).sum()  # a cotangent of each lane for what all share
        for derivative in (jax.grad, jax.hessian):
            close(derivative(total(f), (0, 1))(*xs), derivative(total(theirs), (0, 1))(*xs))


def installed(name):
    try:
        __import__(name)
        return True
    except ImportError:
        print(f"{name}: left out, for this Python does not have it")
        return False


check_arrays()
check_capsules()
check_errors()
check_attributes()
check_bools()
check_numpy()
print("numpy: values and lanes agree, memory is shared")
if installed("torch"):
    check_torch()
    print("torch: values, first and second derivatives, forward and reverse, and lanes agree")
if installed("jax"):
    check_jax()
    print("jax: values, first and second derivatives, forward and reverse, and lanes agree")
