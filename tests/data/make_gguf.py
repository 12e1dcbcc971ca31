#!/usr/bin/env python3
"""Writes types.gguf, with metadata and tensors of every type that Stave reads, and gguf.npz with
their elements, as the package gguf 0.19 computes them.

    pip install gguf
    python3 tests/data/make_gguf.py
"""
import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFValueType as Value

FOLDER = pathlib.Path(__file__).parent
draw = np.random.default_rng(11)
writer = gguf.GGUFWriter(FOLDER / "types.gguf", "test")
expected = {}

for name, value, kind in [
    ("u8", 255, Value.UINT8), ("i8", -128, Value.INT8), ("u16", 65535, Value.UINT16), ("i16", -32768, Value.INT16),
    ("u32", 2**32 - 1, Value.UINT32), ("i32", -(2**31), Value.INT32), ("u64", 2**64 - 1, Value.UINT64),
    ("i64", -(2**63), Value.INT64), ("f32", 0.5, Value.FLOAT32), ("f64", 1e300, Value.FLOAT64),
    ("yes", True, Value.BOOL), ("no", False, Value.BOOL), ("text", "λ \"quoted\"", Value.STRING),
    ("words", ["a", "", "bc"], Value.ARRAY), ("numbers", [1, -2, 3], Value.ARRAY), ("floats", [0.5, -2.0], Value.ARRAY),
    ("nested", [[1, 2], [3]], Value.ARRAY),
]:  # fmt: skip
    writer.add_key_value(name, value, kind)

# Tensors of numbers.
for name, dtype in [("F32", np.float32), ("F16", np.float16), ("F64", np.float64), ("I8", np.int8), ("I16", np.int16),
                    ("I32", np.int32), ("I64", np.int64)]:  # fmt: skip
    x = draw.normal(0, 20, (2, 3)).astype(dtype)
    writer.add_tensor(name, x)
    expected[name] = x
x = draw.normal(0, 1, (2, 3)).astype(np.float32)
bits = gguf.quants.quantize(x, Type.BF16)
writer.add_tensor("BF16", bits, raw_dtype=Type.BF16)
expected["BF16"] = gguf.quants.dequantize(bits, Type.BF16)

# Blocks: quantized where the package has a function for it, otherwise of random bytes with moderate scales. The numbers
# are the positions of the float16 scales in a block.
for kind, scales in [(Type.Q4_0, None), (Type.Q4_1, None), (Type.Q5_0, None), (Type.Q5_1, None), (Type.Q8_0, None),
                     (Type.Q2_K, (80, 82)), (Type.Q3_K, (108,)), (Type.Q4_K, (0, 2)), (Type.Q5_K, (0, 2)),
                     (Type.Q6_K, (208,))]:  # fmt: skip
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    if scales is None:
        blocks = gguf.quants.quantize(draw.normal(0, 1, (3, 2 * elements)).astype(np.float32), kind)
    else:
        blocks = draw.integers(0, 256, (3, 2 * size), np.uint8)
        for block in range(2):
            for place in scales:
                at = block * size + place
                blocks[:, at : at + 2] = draw.normal(0, 0.1, (3, 1)).astype(np.float16).view(np.uint8)
    writer.add_tensor(kind.name, blocks, raw_dtype=kind)
    expected[kind.name] = gguf.quants.dequantize(blocks, kind)
# A vector of blocks, and a stack of matrices of blocks.
for name, shape in [("vector", (64,)), ("stack", (2, 3, 32))]:
    blocks = gguf.quants.quantize(draw.normal(0, 1, shape).astype(np.float32), Type.Q8_0)
    writer.add_tensor(name, blocks, raw_dtype=Type.Q8_0)
    expected[name] = gguf.quants.dequantize(blocks, Type.Q8_0)
# A type that Stave does not read.
writer.add_tensor("other", draw.integers(0, 256, (1, 66), np.uint8), raw_dtype=Type.IQ2_XXS)

writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
np.savez_compressed(FOLDER / "gguf.npz", **expected)
