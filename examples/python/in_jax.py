"""Functions of Stave in JAX: under jit and vmap, with reverse derivatives of any order."""

import functools

import jax
import numpy


@functools.cache
def as_jax(f):
    """f, which JAX calls back. Its backward rule is the function f.vjp, in the same way."""

    def call(*xs):
        ranks = [x.ndim for x in xs]

        def on_host(*arrays):
            lanes = f
            for _ in range(arrays[0].ndim - ranks[0]):  # vmap's axes stand in front of all arguments
                lanes = lanes.vmap([True] * len(arrays))
            results = lanes(*map(numpy.asarray, arrays))
            return tuple(map(numpy.from_dlpack, results)) if isinstance(results, tuple) else numpy.from_dlpack(results)

        shapes = tuple(jax.ShapeDtypeStruct(xs[i].shape, xs[i].dtype) for i in f.like)
        return jax.pure_callback(on_host, shapes if len(shapes) > 1 else shapes[0], *xs, vmap_method="broadcast_all")

    @jax.custom_vjp
    def applied(*xs):
        return call(*xs)

    def forward(*xs):
        return applied(*xs), xs

    def backward(xs, cotangents):
        return as_jax(f.vjp)(*xs, *(cotangents if isinstance(cotangents, tuple) else (cotangents,)))

    applied.defvjp(forward, backward)
    return applied
