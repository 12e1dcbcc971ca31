"""Functions of Stave in JAX: under jit and vmap, with derivatives of any order, forward and reverse."""

import functools

import jax
import jax.numpy as jnp
import numpy
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

# A call of a function f. It is linear in its last `linear` arguments: `transpose` takes the other
# arguments and cotangents of the results, and gives cotangents of the last ones. `out` has the shapes
# and dtypes of the results.
call_p = Primitive("stave_call")
call_p.multiple_results = True


def likes(xs):
    return tuple((x.shape, x.dtype) for x in xs)


@functools.cache
def on_host(f):
    def call(*arrays):
        results = f(*map(numpy.asarray, arrays))
        return list(map(numpy.asarray, results if isinstance(results, tuple) else (results,)))

    return call


@call_p.def_impl
def compute(*xs, f, linear, transpose, out):
    return jax.pure_callback(on_host(f), [jax.ShapeDtypeStruct(*x) for x in out], *xs)


@call_p.def_abstract_eval
def shapes(*xs, f, linear, transpose, out):
    return [jax.core.ShapedArray(*x) for x in out]


def forward(xs, tangents, *, f, linear, transpose, out):
    results = call_p.bind(*xs, f=f, linear=linear, transpose=transpose, out=out)
    tangents = map(ad.instantiate_zeros, tangents)
    return results, call_p.bind(*xs, *tangents, f=f.jvp, linear=len(xs), transpose=f.vjp, out=out)


def backward(cotangents, *xs, f, linear, transpose, out):
    others, last = xs[: len(xs) - linear], xs[len(xs) - linear :]
    avals = [x.aval if ad.is_undefined_primal(x) else x for x in last]
    cotangents = map(ad.instantiate_zeros, cotangents)
    back = call_p.bind(*others, *cotangents, f=transpose, linear=len(out), transpose=f, out=likes(avals))
    return [None] * len(others) + [y if ad.is_undefined_primal(x) else None for x, y in zip(last, back)]


def over_lanes(xs, axes, *, f, linear, transpose, out):
    """All linear arguments are mapped, so that the transpose gives a cotangent of each lane."""
    size = next(x.shape[axis] for x, axis in zip(xs, axes) if axis is not None)
    others = len(xs) - linear
    mapped = [axis is not None for axis in axes[:others]] + [True] * linear
    xs = [
        x if not there else jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis, there in zip(xs, axes, mapped)
    ]
    back = transpose and transpose.vmap(mapped[:others] + [True] * len(out))
    out = tuple(((size, *shape), dtype) for shape, dtype in out)
    results = call_p.bind(*xs, f=f.vmap(mapped), linear=linear, transpose=back, out=out)
    return results, [0] * len(results)


ad.primitive_jvps[call_p] = forward
ad.primitive_transposes[call_p] = backward
batching.primitive_batchers[call_p] = over_lanes
mlir.register_lowering(call_p, mlir.lower_fun(compute, multiple_results=True))


@functools.cache
def as_jax(f):
    """f, which JAX calls back. Its derivatives are the functions f.jvp and f.vjp, in the same way."""

    def call(*xs):
        results = call_p.bind(*xs, f=f, linear=0, transpose=None, out=likes([xs[i] for i in f.like]))
        return tuple(results) if len(results) > 1 else results[0]

    return call
