#!/usr/bin/env python3
"""Writes the models in tests/data/onnx, and their expected values.

    python3 tests/data/onnx_models.py

NAME.onnx is a model and NAME.npz has inputs "in_x" and outputs "out_y", which onnxruntime computes.
mlp.npz has gradients too, which PyTorch computes. Needs onnx, onnxruntime and torch.
"""
import pathlib

import numpy as np
import onnx
import onnxruntime
import torch

FOLDER = pathlib.Path(__file__).parent / "onnx"
draw = np.random.default_rng(7)


def floats(*shape):
    return draw.normal(0, 1, shape).astype(np.float32)


def initializer(name, value):
    return onnx.numpy_helper.from_array(value, name)


def write(name, text, inputs, weights=None, more=None, packed=None):
    """Writes a model and its values, which are returned."""
    model = onnx.parser.parse_model(text)
    for key, value in (weights or {}).items():
        model.graph.initializer.append(initializer(key, np.asarray(value)))
    for key, (kind, shape, data) in (packed or {}).items():
        model.graph.initializer.append(onnx.helper.make_tensor(key, kind, shape, data, raw=True))
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, FOLDER / f"{name}.onnx")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    outputs = dict(zip(names, session.run(names, inputs)))
    values = {f"in_{k}": v for k, v in inputs.items()} | {f"out_{k}": v for k, v in outputs.items()}
    np.savez(FOLDER / f"{name}.npz", **values, **(more or {}))
    return model


HEADER = '<ir_version: 10, opset_import: ["" : 21, "local" : 1]>'

# A network of two layers, whose weights PyTorch differentiates.
weights = {"w1": floats(4, 3), "b1": floats(4), "w2": floats(2, 4), "b2": floats(2)}
x, target = floats(5, 3), floats(5, 2)
t = {k: torch.tensor(v, requires_grad=True) for k, v in weights.items()}
hidden = torch.tanh(torch.tensor(x) @ t["w1"].T + t["b1"])
loss = ((hidden @ t["w2"].T + t["b2"] - torch.tensor(target)) ** 2).mean()
loss.backward()
mlp = write(
    "mlp",
    HEADER
    + """ mlp (float[batch,3] x) => (float[batch,2] y) {
      [first] sums = Gemm <transB = 1> (x, w1, b1)
      [activation] hidden = Tanh (sums)
      [second] y = Gemm <transB = 1> (hidden, w2, b2)
    }""",
    {"x": x},
    weights,
    {"target": target, "loss": loss.detach().numpy()} | {f"grad_{k}": v.grad.numpy() for k, v in t.items()},
)
onnx.save(
    mlp,
    FOLDER / "mlp_external.onnx",
    save_as_external_data=True,
    location="mlp_external.weights",
    size_threshold=0,
)

# Attention whose shapes are computed from that of the input.
write(
    "heads",
    HEADER
    + """ heads (float[batch,steps,6] x) => (float[batch,steps,6] y) <
        int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}, int64[2] split = {2, 3}, int64[1] rest = {-1}> {
      shape = Shape (x)
      batch = Gather (shape, zero)
      steps = Gather (shape, one)
      batch1 = Unsqueeze (batch, axis)
      steps1 = Unsqueeze (steps, axis)
      wanted = Concat <axis = 0> (batch1, steps1, split)
      q = MatMul (x, wq)
      k = MatMul (x, wk)
      qh = Reshape (q, wanted)
      kh = Reshape (k, wanted)
      qt = Transpose <perm = [0, 2, 1, 3]> (qh)
      kt = Transpose <perm = [0, 2, 3, 1]> (kh)
      scores = MatMul (qt, kt)
      positions = Range (zero, steps, one)
      column = Unsqueeze (positions, rest)
      later = Greater (positions, column)
      low = Constant <value = float {-1e9}> ()
      masked = Where (later, low, scores)
      weights = Softmax <axis = -1> (masked)
      xh = Reshape (x, wanted)
      xt = Transpose <perm = [0, 2, 1, 3]> (xh)
      mixed = MatMul (weights, xt)
      back = Transpose <perm = [0, 2, 1, 3]> (mixed)
      flat = Concat <axis = 0> (batch1, steps1, rest)
      y = Reshape (back, flat)
    }""",
    {"x": floats(2, 4, 6)},
    {"wq": floats(6, 6), "wk": floats(6, 6)},
)

# If, a Loop of a known number of steps, and a Scan.
write(
    "control_flow",
    HEADER
    + """ control_flow (float[3] x) => (float[3] chosen, float[3] last, float[5,3] all, float[3] sum, float[3,1] sums) <
        int64 steps = {5}, float zero = {0.0}, float[1] start = {0.0}, int64[1] column = {1}> {
      total = ReduceSum <keepdims = 0> (x)
      positive = Greater (total, zero)
      chosen = If (positive) <
        then_branch = g1 () => (float[3] a) { a = Sin (x) },
        else_branch = g2 () => (float[3] b) { b = Mul (x, w) }
      >
      last, all = Loop (steps, , x) <
        body = g3 (int64 i, bool go_on, float[3] state) => (bool go, float[3] next, float[3] row) {
          go = Identity (go_on)
          half = Mul (state, w)
          next = Add (half, x)
          row = Tanh (next)
        }
      >
      rows = Unsqueeze (x, column)
      first, sums = Scan (start, rows) <
        num_scan_inputs = 1, body = g4 (float[1] before, float[1] row) => (float[1] after, float[1] result) {
          after = Add (before, row)
          result = Exp (after)
        }
      >
      sum = Mul (first, w)
    }""",
    {"x": floats(3)},
    {"w": floats(3)},
)

# A Loop that ends when a value is large enough.
write(
    "while",
    HEADER
    + """ while (float[2] x) => (float[2] y) <int64 most = {100}, bool yes = {1}, float limit = {100.0}, float two = {2.0}> {
      y = Loop (most, yes, x) <
        body = g1 (int64 i, bool go_on, float[2] state) => (bool go, float[2] next) {
          next = Mul (state, two)
          size = ReduceL1 <keepdims = 0> (next)
          go = Less (size, limit)
        }
      >
    }""",
    {"x": np.array([1.5, -0.25], np.float32)},
)

# Weights of four and eight bits.
quantized = {
    "w4": (onnx.TensorProto.INT4, (6, 2), bytes([0x1F, 0x28, 0x37, 0x64, 0xA5, 0xC9])),
    "z4": (onnx.TensorProto.INT4, (3, 2), bytes([0x21, 0x0F, 0xE0])),
    "w8": (onnx.TensorProto.FLOAT8E4M3FN, (2, 3), bytes([0x38, 0xB4, 0x01, 0x41, 0x00, 0xC1])),
    "w5": (onnx.TensorProto.FLOAT8E5M2, (2, 3), bytes([0x3C, 0xC1, 0x02, 0x43, 0x80, 0x45])),
}
write(
    "quantized",
    HEADER
    + """ quantized (float[n,6] x) => (float[n,3] y) {
      a = DequantizeLinear <axis = 0, block_size = 2> (w4, s4, z4)
      b = DequantizeLinear (w8, s8)
      c = DequantizeLinear (w5, s8)
      d = Add (b, c)
      h = MatMul (x, a)
      y = MatMul (h, d)
    }""",
    {"x": floats(2, 6)},
    {"s4": np.abs(floats(3, 2)), "s8": np.float32(0.25)},
    packed=quantized,
)

# Functions of the model, which call each other, with attributes.
write(
    "functions",
    HEADER
    + """ functions (float[n] x) => (float[n] y) { y = local.twice <slope = 0.25> (x) }
    <opset_import: ["" : 21, "local" : 1], domain: "local">
    twice <slope> (a) => (c) {
      b = local.leaky <alpha: float = @slope> (a)
      c = local.leaky (b)
    }
    <opset_import: ["" : 21], domain: "local">
    leaky <alpha: float = 0.5> (a) => (b) { b = LeakyRelu <alpha: float = @alpha> (a) }""",
    {"x": floats(4)},
)

# Products with weights of four and eight bits, an operator of onnxruntime.
microsoft = {
    "w4": draw.integers(0, 256, (6, 2, 8), np.uint8),
    "s4": np.abs(floats(6, 2)) / 16,
    "z4": draw.integers(0, 256, (6, 1), np.uint8),
    "w8": draw.integers(0, 256, (3, 1, 16), np.uint8),
    "s8": np.abs(floats(3)) / 256,
    "c": floats(3),
}
write(
    "matmul_n_bits",
    '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>'
    + """ matmul_n_bits (float[n,m,20] x) => (float[n,m,6] affine, float[n,m,6] symmetric, float[n,m,3] eight) {
      affine = com.microsoft.MatMulNBits <K = 20, N = 6, bits = 4, block_size = 16> (x, w4, s4, z4)
      symmetric = com.microsoft.MatMulNBits <K = 20, N = 6, block_size = 16> (x, w4, s4)
      h = Slice (x, zero, sixteen, two)
      eight = com.microsoft.MatMulNBits <K = 16, N = 3, bits = 8, block_size = 16> (h, w8, s8, , , c)
    }""",
    {"x": floats(2, 5, 20)},
    microsoft | {"zero": np.int64([0]), "sixteen": np.int64([16]), "two": np.int64([2])},
)

# Attributes that older opsets have, with their defaults: Slice begins at axis 0, and Clip ends at the largest number.
x = floats(3, 4)
x[1, 2] = np.inf
write(
    "opset9",
    """<ir_version: 4, opset_import: ["" : 9]> old (float[3,4] x) => (float[2,2] y) {
      clipped = Clip <min = -0.5> (x)
      y = Slice <starts = [0, 1], ends = [2, 3]> (clipped)
    }""",
    {"x": x},
)
