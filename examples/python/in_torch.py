"""Functions of Stave in PyTorch: with derivatives of any order and vmap, as a function or as an operator."""

import functools

import torch


def call(f, *xs):
    """f on PyTorch's tensors. Results are copied: PyTorch has no tensors that may not be written to."""
    results = f(*(x.detach() for x in xs))
    own = functools.partial(torch.from_dlpack, copy=True)
    return tuple(map(own, results)) if isinstance(results, tuple) else own(results)


def over_lanes(lanes, in_dims, xs):
    """The rule of vmap: what `lanes` gives for the axes that are mapped, of arguments that have them in front."""
    mapped = tuple(dim is not None for dim in in_dims)
    results = lanes(mapped)(*(x.movedim(dim, 0) if there else x for x, dim, there in zip(xs, in_dims, mapped)))
    return results, (0,) * len(results) if isinstance(results, tuple) else 0


@functools.cache
def as_torch(f):
    """f for autograd, torch.func and the like. Its derivatives are the functions f.vjp and f.jvp, in the same way."""

    class Applied(torch.autograd.Function):
        @staticmethod
        def forward(*xs):
            return call(f, *xs)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, *cotangents):
            return as_torch(f.vjp)(*ctx.saved_tensors, *cotangents)

        @staticmethod
        def jvp(ctx, *tangents):
            xs = ctx.saved_tensors
            tangents = (torch.zeros_like(x) if tangent is None else tangent for x, tangent in zip(xs, tangents))
            return as_torch(f.jvp)(*xs, *tangents)

        @staticmethod
        def vmap(info, in_dims, *xs):
            return over_lanes(lambda mapped: as_torch(f.vmap(mapped)), in_dims, xs)

    return Applied.apply


@functools.cache
def as_operator(name, f, arguments, order=2):
    """f as the operator `name` of torch.library, which torch.compile leaves whole; with derivatives up to an order."""
    inputs = ", ".join(f"Tensor x{i}" for i in range(arguments))
    outputs = "Tensor" if len(f.like) == 1 else "(" + ", ".join(["Tensor"] * len(f.like)) + ")"
    operator = torch.library.custom_op(
        name, functools.partial(call, f), mutates_args=(), schema=f"({inputs}) -> {outputs}"
    )

    @operator.register_fake
    def _(*xs):
        results = tuple(torch.empty(xs[i].shape, dtype=xs[i].dtype) for i in f.like)
        return results if len(results) > 1 else results[0]

    @operator.register_vmap
    def _(info, in_dims, *xs):
        def lanes(mapped):
            which = "".join("1" if there else "0" for there in mapped)
            return as_operator(f"{name}_lanes{which}", f.vmap(mapped), arguments, order)

        return over_lanes(lanes, in_dims, xs)

    if order > 0:
        pullback = as_operator(name + "_vjp", f.vjp, arguments + len(f.like), order - 1)
        operator.register_autograd(
            lambda ctx, *cotangents: pullback(*ctx.saved_tensors, *cotangents),
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        )
    return operator
