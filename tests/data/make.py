"""Writes the files of this folder, as NumPy has them; core/io/npy_test.cpp says what should be read from them.

    python3 tests/data/make.py
"""

import pathlib
import zipfile

import numpy as np

folder = pathlib.Path(__file__).parent
ordinals = {np.bool_: "?", np.uint8: "u1", np.uint16: "u2", np.uint32: "u4", np.uint64: "u8", np.int8: "i1", np.int16: "i2",
            np.int32: "i4", np.int64: "i8", np.float16: "f2", np.float32: "f4", np.float64: "f8"}


def arrays():
    """0, 1, ..., 5 in each dtype: both byte orders, C and Fortran order."""
    x = np.arange(6).reshape(2, 3)
    for dtype, code in ordinals.items():
        name = np.dtype(dtype).name
        for order, label in (("<", "little"), (">", "big")):
            yield f"{name}/{label}", x.astype(order + code)
            yield f"{name}/{label}/fortran", np.asfortranarray(x.astype(order + code))
    yield "scalar", np.float64(2.5)
    yield "empty", np.zeros((0, 3), np.int32)
    yield "cube", np.asfortranarray(np.arange(24, dtype=np.int32).reshape(2, 3, 4))


np.savez(folder / "arrays.npz", **dict(arrays()))
np.savez_compressed(folder / "deflated.npz", a=np.zeros(10000, np.float32), b=np.arange(5))
for version in (2, 3):
    with open(folder / f"version_{version}.npy", "wb") as file:
        np.lib.format.write_array(file, np.arange(3, dtype=np.int32), version=(version, 0))
np.save(folder / "complex64.npy", np.zeros(3, np.complex64))
np.save(folder / "structured.npy", np.zeros(2, [("x", np.float32), ("y", np.int32)]))
np.save(folder / "objects.npy", np.array([{}, None], object), allow_pickle=True)
with zipfile.ZipFile(folder / "bzip2.npz", "w", zipfile.ZIP_BZIP2) as archive:
    archive.write(folder / "version_2.npy", "x.npy")
# As archivers make them: with entries of folders; behind a program, whose bytes their offsets count.
with zipfile.ZipFile(folder / "folders.npz", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr(zipfile.ZipInfo("a/"), b"")
    archive.write(folder / "version_2.npy", "a/x.npy")
    archive.writestr(zipfile.ZipInfo("b/c/"), b"")
    archive.write(folder / "version_2.npy", "y.npy")
(folder / "appended.npz").write_bytes(b"#!/bin/sh\nexit\n")
with zipfile.ZipFile(folder / "appended.npz", "a") as archive:
    archive.write(folder / "version_2.npy", "a/x.npy")
