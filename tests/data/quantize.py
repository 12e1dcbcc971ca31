#!/usr/bin/env python3
"""Writes quantize.npz: weights, their codes, scales and biases by NumPy, and products with them.

    python3 tests/data/quantize.py

Names are KIND_BITS_GROUP/NAME, where KIND is affine or symmetric.
"""
import pathlib

import numpy as np

draw = np.random.default_rng(5)
arrays = {}
w = draw.normal(0, 1, (5, 96)).astype(np.float32)
w[1] *= 1e-3
w[2] += 10
w[3, :32] = 0.75  # a group without spread
x = draw.normal(0, 1, (7, 96)).astype(np.float32)
arrays["w"], arrays["x"] = w, x

for bits in (4, 8):
    for group in (16, 48, 96):
        groups = w.reshape(5, -1, group)
        for kind in ("affine", "symmetric"):
            if kind == "affine":
                biases = groups.min(-1)
                scales = (groups.max(-1) - biases) / np.float32(2**bits - 1)
                divisor = np.where(scales == 0, np.float32(1), scales)[..., None]
                codes = np.rint((groups - biases[..., None]) / divisor)
                weights = codes.astype(np.float64) * scales[..., None] + biases[..., None]
            else:
                zero = 2 ** (bits - 1)
                scales = np.abs(groups).max(-1) / np.float32(zero - 1)
                divisor = np.where(scales == 0, np.float32(1), scales)[..., None]
                codes = np.rint(groups / divisor) + zero
                weights = (codes.astype(np.float64) - zero) * scales[..., None]
            codes = codes.clip(0, 2**bits - 1).astype(np.uint8).reshape(5, 96)
            packed = codes if bits == 8 else codes[:, ::2] | codes[:, 1::2] << 4
            weights = weights.reshape(5, 96)
            name = f"{kind}_{bits}_{group}/"
            arrays |= {name + "packed": packed, name + "scales": scales, name + "weights": weights,
                       name + "product": x.astype(np.float64) @ weights.T}  # fmt: skip
            if kind == "affine":
                arrays[name + "biases"] = biases

np.savez_compressed(pathlib.Path(__file__).parent / "quantize.npz", **arrays)
