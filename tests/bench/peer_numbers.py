"""The transforms and special functions of numbers.h in PyTorch, JAX and SciPy.

These are makers of functions without arguments, by name; the functions are timed. The inputs are those of numbers.cpp, and
the results have the same norm as Stave's results. SciPy's transforms use all cores, and its special functions one."""
import importlib.util
import os
import pathlib
import re

import numpy as np
import torch

# ---- inputs --------------------------------------------------------------------------------------

PRIME, START = 1000037, 100003


def irregular(shape, argument):
    i = (np.arange(np.prod(shape), dtype=np.int64) + argument * START) % PRIME
    return ((i * i % PRIME * i % PRIME + 0.5) / PRIME).reshape(shape)


def real_signal(shape):
    return irregular(shape, 0) - 0.5


def complex_signal(shape):
    return real_signal(shape) + 1j * (irregular(shape, 1) - 0.5)


def ranges():
    """Returns the ranges of the arguments of each special function, in the order of numbers.h."""
    text = (pathlib.Path(__file__).parent / "numbers.h").read_text()
    found = re.findall(r"X\((\w+), ([^)]*\d)\)", text)
    numbers = {name: [float(x) for x in bounds.split(",")] for name, bounds in found}
    return {name: list(zip(x[::2], x[1::2])) for name, x in numbers.items()}


# ---- Fourier transforms --------------------------------------------------------------------------

TRANSFORMS = {"1m": ((1 << 20,), False), "rows": ((4096, 1024), False), "prime": ((10007,), False), "3d": ((128,) * 3, True)}


def transforms(library, to_array, finish=lambda y: y, compiled=lambda f: f, **options):
    """Returns programs by name, for a library whose functions have NumPy's names."""
    def make(shape, is_real, along_all):
        def maker():
            x = to_array(real_signal(shape) if is_real else complex_signal(shape))
            named = getattr(library, ("rfft" if is_real else "fft") + ("n" if along_all else ""))
            function = compiled(lambda x: named(x, **options))
            return lambda: finish(function(x))
        return maker
    return {f"fft_{name}{'_real' if is_real else ''}": make(shape, is_real, along_all)
            for name, (shape, along_all) in TRANSFORMS.items() for is_real in (False, True)}


TORCH_NUMBERS, JAX_NUMBERS, SCIPY_NUMBERS = transforms(torch.fft, torch.from_numpy), {}, {}

if importlib.util.find_spec("jax"):
    import jax

    JAX_NUMBERS = transforms(jax.numpy.fft, jax.numpy.asarray, jax.block_until_ready, jax.jit)

# ---- special functions ---------------------------------------------------------------------------

if importlib.util.find_spec("scipy"):
    import scipy.fft
    from scipy import special

    SCIPY_NUMBERS = transforms(scipy.fft, lambda x: x, workers=len(os.sched_getaffinity(0)))
    # Functions that have another name than Stave's, or a constant.
    NAMED = {
        "multigammaln": lambda a: special.multigammaln(a, 3),
        "bessel_jn": lambda x: special.jn(5, x),
        "expn": lambda x: special.expn(3, x),
        "lambertw": lambda x: special.lambertw(x),
        "sinc": np.sinc,
        "weighted_logsumexp": lambda x, weights: special.logsumexp(x, b=weights),
    }

    def at_million(name, bounds):
        def make():
            f = NAMED.get(name) or getattr(special, name.removeprefix("bessel_"))
            x = [low + (high - low) * irregular((1000000,), i) for i, (low, high) in enumerate(bounds)]
            return lambda: f(*x)
        return make

    SCIPY_NUMBERS |= {f"special_{name}": at_million(name, bounds) for name, bounds in ranges().items()}
