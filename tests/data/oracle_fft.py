"""Writes oracle_fft.txt: Fourier transforms and functions of signals, values and gradients.

    python3 tests/data/oracle_fft.py

Complex arrays are real ones with a last axis of real and imaginary parts; axes are counted without it.
"""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.fft
import scipy.signal
import torch

from oracle import WIDE, File, weight

file = File(__file__, "oracle_fft.txt", f"NumPy {np.__version__}, SciPy {scipy.__version__}, JAX {jax.__version__}, PyTorch {torch.__version__}")
check = file.differentiated
random = np.random.default_rng(7)


def some(*shape):
    """Multiples of 1 / 64, which float32 holds."""
    return np.round(random.normal(size=shape) * 64) / 64


joined = lambda x: x[..., 0] + 1j * x[..., 1]
parted = lambda z: jnp.stack([jnp.real(z), jnp.imag(z)], -1)

# The lengths cover each radix, products of them, primes, and lines that are split.
for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 22, 30, 35, 37, 64, 77, 97, 128):
    check("fft", lambda x: parted(jnp.fft.fft(joined(x))), some(n, 2), units=32)
    check("ifft", lambda x: parted(jnp.fft.ifft(joined(x))), some(n, 2), units=32)
    check("rfft", lambda x: parted(jnp.fft.rfft(x)), some(n), units=32)
    check("irfft", lambda x: jnp.fft.irfft(joined(x), n=n), some(n // 2 + 1, 2), units=32, n=n)
for norm in ("ortho", "forward"):
    for n, axis in ((6, -1), (3, 0), (9, 1)):
        options = {"n": n, "axis": axis, "norm": norm, "units": 32}
        check("fft", lambda x: parted(jnp.fft.fft(joined(x), n, axis, norm)), some(4, 6, 2), **options)
        check("ifft", lambda x: parted(jnp.fft.ifft(joined(x), n, axis, norm)), some(4, 6, 2), **options)
        check("rfft", lambda x: parted(jnp.fft.rfft(x, n, axis, norm)), some(4, 6), **options)
        check("irfft", lambda x: jnp.fft.irfft(joined(x), n, axis, norm), some(4, 6, 2), **options)
        check("hfft", lambda x: jnp.fft.hfft(joined(x), n, axis, norm), some(4, 6, 2), **options)
        check("ihfft", lambda x: parted(jnp.fft.ihfft(x, n, axis, norm)), some(4, 6), **options)
check("hfft", lambda x: jnp.fft.hfft(joined(x)), some(5, 2), units=32)
check("ihfft", lambda x: parted(jnp.fft.ihfft(x)), some(5), units=32)
for options in ({}, {"axes": [1, 0]}, {"axes": [0, 2], "norm": "ortho"}, {"s": [5, 3]}, {"s": [2, 7, 4], "axes": [0, 1, 2]}):
    given = {"s": options.get("s"), "axes": options.get("axes"), "norm": options.get("norm")}
    for name in ("fftn", "ifftn"):
        check(name, lambda x: parted(getattr(jnp.fft, name)(joined(x), **given)), some(3, 4, 5, 2), units=32, **options)
    check("rfftn", lambda x: parted(jnp.fft.rfftn(x, **given)), some(3, 4, 5), units=32, **options)
    check("irfftn", lambda x: jnp.fft.irfftn(joined(x), **given), some(3, 4, 5, 2), units=32, **options)
for name in ("fft2", "ifft2"):
    check(name, lambda x: parted(getattr(jnp.fft, name)(joined(x))), some(2, 4, 6, 2), units=32)
check("rfft2", lambda x: parted(jnp.fft.rfft2(x)), some(2, 4, 6), units=32)
check("irfft2", lambda x: jnp.fft.irfft2(joined(x)), some(2, 4, 6, 2), units=32)
for n, d in ((1, 1), (8, 0.125), (9, 2)):
    file.add("fftfreq", [], np.fft.fftfreq(n, d), dtypes="float64", n=n, d=d)
    file.add("rfftfreq", [], np.fft.rfftfreq(n, d), dtypes="float64", n=n, d=d)
for axes in (None, [0], [1, 0]):
    check("fftshift", lambda x: jnp.fft.fftshift(x, axes), some(4, 5), **({} if axes is None else {"axes": axes}))
    check("ifftshift", lambda x: jnp.fft.ifftshift(x, axes), some(4, 5), **({} if axes is None else {"axes": axes}))

# Cosine transforms are linear, so the gradient is the transposed matrix times the weights.
for kind in (1, 2, 3, 4):
    for n in (2, 3, 5, 8):
        for norm in ("backward", "ortho", "forward"):
            for name in ("dct", "idct"):
                f = lambda x: getattr(scipy.fft, name)(x, type=kind, norm=norm, axis=0)
                x = some(n, 2)
                matrix = f(np.eye(n))
                file.add(name, [x], f(x), [matrix.T @ weight((n, 2))], dtypes=WIDE, scaled=True, units=32, type=kind, norm=norm, axis=0)
x = some(3, 4)
for n in (3, 6):
    file.add("dct", [x], scipy.fft.dct(x, n=n), dtypes=WIDE, scaled=True, units=32, n=n)

for mode in ("full", "same", "valid"):
    for n, m in ((7, 3), (6, 4), (5, 1), (6, 6)):
        x, y = some(n), some(m)
        value = scipy.signal.convolve(x, y, mode, method="direct")
        check("convolve", lambda x, y: jax.scipy.signal.convolve(x, y, mode, method="direct"), x, y, units=32, mode=mode)
        assert np.allclose(value, np.asarray(jax.scipy.signal.convolve(x, y, mode, method="direct")))
        check("fftconvolve", lambda x, y: jax.scipy.signal.fftconvolve(x, y, mode), x, y, units=64, mode=mode)
    check("fftconvolve", lambda x, y: jax.scipy.signal.fftconvolve(x, y, mode), some(5, 6), some(2, 3), units=64, mode=mode)
    file.add("fftconvolve", [x := some(2, 7), y := some(2, 3)], scipy.signal.fftconvolve(x, y, mode, axes=1), dtypes=WIDE, scaled=True, units=64, mode=mode, axes=1)

for length, m, hop, centered, n in ((20, 8, 4, True, 8), (21, 6, 2, False, 9), (32, 8, 3, True, 8)):
    options = {"hop": hop, "units": 64, "n": n, **({} if centered else {"plain": True})}
    x, w = some(2, length), np.round(scipy.signal.windows.hann(m, sym=False) * 64) / 64 + 1 / 64
    values = scipy.signal.stft(x, window=w, nperseg=m, noverlap=m - hop, nfft=n, boundary="zeros" if centered else None, padded=False)[2] * w.sum()
    file.add("stft", [x, w], np.asarray(parted(values)), dtypes=WIDE, scaled=True, **options)
    rounded = np.asarray(parted(values)).astype(np.float32).astype(np.float64)
    back = scipy.signal.istft(joined(rounded) / w.sum(), window=w, nperseg=m, noverlap=m - hop, nfft=n, boundary=centered)[1]
    count = min(length, back.shape[-1])
    file.add("istft", [rounded, w], back[..., :count], dtypes=WIDE, scaled=True, length=count, **options)
file.write()
