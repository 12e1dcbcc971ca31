"""Writes the .safetensors files of this folder, as the reference implementation has them; safetensors_test.cpp says what should be
read from them.

    pip install safetensors numpy ml_dtypes && python3 tests/data/make_safetensors.py
"""

import json
import pathlib
import struct

import ml_dtypes
import numpy as np
from safetensors.numpy import save, save_file

folder = pathlib.Path(__file__).parent
dtypes = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]

arrays = {name: (np.arange(6).reshape(2, 3) - (0 if name[0] in "bu" else 3)).astype(name) for name in dtypes}
arrays["scalar"] = np.array(2.5)
arrays["empty"] = np.zeros((0, 3), np.int32)
arrays['λ "quoted" \\ \x01'] = np.arange(3, dtype=np.float32)
save_file(arrays, folder / "arrays.safetensors", metadata={"format": 'np "λ"'})

# complex64 among dtypes of the same size: of these the order is U64, I64, F64, C64.
numbers = np.array([[1 + 2j, 3 - 1j], [0.5j, -4]], np.complex64)
save_file({"d": np.ones(1), "f": np.ones(1, np.float32), "i": np.ones(1, np.int64), "u": np.ones(1, np.uint64), "z": numbers}, folder / "complex64.safetensors")

# bfloat16, which NumPy lacks and the format has; a dtype that Stave lacks.
halves = np.array([1, -2.5, 3.140625], ml_dtypes.bfloat16)


def raw(dtype, shape, elements):
    header = json.dumps({"x": {"dtype": dtype, "shape": shape, "data_offsets": [0, len(elements)]}}, separators=(",", ":"))
    header += " " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header.encode() + elements


(folder / "bfloat16.safetensors").write_bytes(raw("BF16", [3], halves.tobytes()))
(folder / "float8.safetensors").write_bytes(raw("F8_E4M3", [3], b"\x38\x40\x44"))

# A model in two files, with an index as Hugging Face's libraries write it.
parts = [{"embed.weight": np.arange(8, dtype=np.float32).reshape(4, 2)}, {"head.weight": np.ones((2, 2), np.float32), "head.bias": np.zeros(2, np.float32)}]
index = {"metadata": {"total_size": sum(x.nbytes for part in parts for x in part.values())}, "weight_map": {}}
for i, part in enumerate(parts):
    name = f"sharded-{i + 1:05}-of-{len(parts):05}.safetensors"
    (folder / name).write_bytes(save(part, metadata={"format": "pt"}))
    index["weight_map"] |= {tensor: name for tensor in part}
(folder / "sharded.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
