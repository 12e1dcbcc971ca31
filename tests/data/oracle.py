"""How oracles are written down: what others compute of given inputs, a line each, read by tests/support/oracle.h.

    function | options | dtypes | inputs | outputs | gradients

Options are words, or name=numbers. A tensor is its dtype, its shape and its elements; those of dtype T, and the gradients, stand for each
of the dtypes of the line, which hold the inputs exactly. Gradients are those of the outputs' sum with weights
(weight, below), by each input that is of dtype T; they are empty where none are compared.
Errors are relative to each element, with `scaled` to the largest, as those of gradients are without `each`; `units` of epsilon are
allowed, and the sign of a zero counts unless there is `either_zero`.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import torch

jax.config.update("jax_enable_x64", True)

FLOATS = "float16 bfloat16 float32 float64"
WIDE = "float32 float64"


def weight(shape):
    """2.25, 0.25, -1.75, -0.25 ... in row-major order: (7 i mod 9 - 4) / 2 + 0.25."""
    return ((7 * np.arange(int(np.prod(shape))) % 9 - 4) / 2 + 0.25).reshape(shape)


def number(x):
    if isinstance(x, (bool, np.bool_)) or np.issubdtype(type(x), np.integer):
        return str(int(x))
    text = repr(float(x))
    return text[:-2] if text.endswith(".0") else text


def tensor(x, like_line=None):
    x = np.asarray(x)
    line = x.dtype == np.float64 if like_line is None else like_line
    shape = ",".join(map(str, x.shape)) or "-"
    return f"{'T' if line else x.dtype.name} {shape} {' '.join(number(e) for e in x.ravel())}".rstrip()


class File:
    def __init__(self, script, name, peers):
        self.path = pathlib.Path(script).parent / name
        self.lines = [f"# By tests/data/{pathlib.Path(script).name}, of {peers}: tests/data/oracle.py says how it is read."]

    def add(self, function, inputs, outputs, gradients=(), dtypes=FLOATS, integers=False, **options):
        """With `integers`, inputs and outputs of int64 are of the line's dtypes as well."""
        words = " ".join(k if v is True else f"{k}={','.join(map(str, v)) if isinstance(v, (list, tuple)) else v}" for k, v in options.items())
        text = lambda xs: " ; ".join(tensor(x, True if integers and np.asarray(x).dtype == np.int64 else None) for x in xs)
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        self.lines.append(" | ".join([function, words, dtypes, text(inputs), text(outputs), text(gradients)]).rstrip())

    def differentiated(self, name, f, *inputs, **options):
        """Values and gradients by JAX, in the wide dtypes: by inputs of float64, the others are constants."""
        active = [i for i, x in enumerate(inputs) if np.asarray(x).dtype == np.float64]

        def of_active(*xs):
            every = [jnp.asarray(x) for x in inputs]
            for i, x in zip(active, xs):
                every[i] = x
            result = f(*every)
            return list(result) if isinstance(result, (tuple, list)) else [result]

        outputs, pullback = jax.vjp(of_active, *(jnp.asarray(inputs[i]) for i in active))
        cotangents = [jnp.asarray(weight(y.shape)) if y.dtype == jnp.float64 else np.zeros(y.shape, jax.dtypes.float0) for y in outputs]
        self.add(name, inputs, [np.asarray(y) for y in outputs], [np.asarray(g) for g in pullback(cotangents)],
                 **{"dtypes": WIDE, "scaled": True, **options})

    def by_torch(self, name, f, *inputs, **options):
        """The same by PyTorch."""
        xs = [torch.tensor(np.asarray(x), requires_grad=np.asarray(x).dtype == np.float64) for x in inputs]
        outputs = f(*xs)
        outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        active = [x for x in xs if x.requires_grad]
        gradients = torch.autograd.grad(outputs, active, [torch.tensor(weight(y.shape)) for y in outputs])
        self.add(name, inputs, [y.detach().numpy() for y in outputs], [g.numpy() for g in gradients],
                 **{"dtypes": WIDE, "scaled": True, **options})

    def write(self):
        self.path.write_text("\n".join(self.lines) + "\n")
        print(self.path.name, len(self.lines) - 1, "lines", self.path.stat().st_size, "bytes")
