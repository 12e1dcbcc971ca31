#!/usr/bin/env python3
"""Writes the figures by PyTorch with which 48, 50 and 51 are compared: of digits.onnx, and of
edges.onnx, a small network of convolutions, which is written too. Needs onnx and torch.

    python3 examples/data/48_inside_a_model.py
"""
import pathlib

import numpy as np
import onnx
import torch
from torch.nn.functional import conv2d, cross_entropy, linear, relu

FOLDER = pathlib.Path(__file__).parent
table = np.loadtxt(FOLDER / "digits.csv", delimiter=",", dtype=np.float32)
x, labels = torch.tensor(2 * table[:8, :64] / 16 - 1), torch.tensor(table[:8, 64].astype(np.int64))
graph = onnx.load(FOLDER / "digits.onnx").graph
weights = {w.name: torch.tensor(onnx.numpy_helper.to_array(w)) for w in graph.initializer}


def hidden(x, w=weights):
    return relu(linear(x, w["w1"], w["b1"]))


def logits(h, w=weights):
    return linear(h, w["w2"], w["b2"])


def save(name, columns):
    np.savetxt(FOLDER / f"{name}.csv", np.column_stack(columns), fmt="%.6g", delimiter=",")


# 48: the norms of each example's gradients, in the order of names, and logits without the strongest feature.
leaves = {name: w.clone().requires_grad_() for name, w in weights.items()}
norms = []
for example, label in zip(x, labels):
    value = cross_entropy(logits(hidden(example, leaves), leaves), label)
    norms.append([g.norm().item() for g in torch.autograd.grad(value, [leaves[name] for name in sorted(leaves)])])
without = hidden(x)
without[:, without.sum(0).argmax()] = 0
save("48_inside_a_model", [norms, logits(without)])

# 50: the relative errors of both products with weights of eight bits, a scale for each output.
errors, h = [], x
for w, b in [("w1", "b1"), ("w2", "b2")]:
    scale = weights[w].abs().amax(1, keepdim=True) / 127
    exact, found = h @ weights[w].T, h @ (torch.round(weights[w] / scale) * scale).T
    errors.append(((found - exact).norm() / exact.norm()).item())
    h = relu(found + weights[b])
save("50_layers_of_a_model", [errors])

# 51: the gradients of the scores of the classes by the pixels.
pixels = x.clone().requires_grad_()
logits(hidden(pixels)).gather(1, labels[:, None]).sum().backward()
save("51_saliency", [pixels.grad])

# 52: a network of two convolutions.
torch.manual_seed(0)
kernels = {"k1": torch.randn(4, 1, 3, 3) / 3, "k2": torch.randn(1, 4, 3, 3) / 6}
model = onnx.parser.parse_model(
    """<ir_version: 10, opset_import: ["" : 21]> edges (float[batch,1,8,8] picture) => (float[batch,1,8,8] edges) {
      [conv1] sums = Conv <auto_pad = "SAME_UPPER"> (picture, k1)
      [activation] features = Tanh (sums)
      [conv2] edges = Conv <auto_pad = "SAME_UPPER"> (features, k2)
    }"""
)
for name, kernel in kernels.items():
    model.graph.initializer.append(onnx.numpy_helper.from_array(kernel.numpy(), name))
onnx.checker.check_model(model, full_check=True)
onnx.save(model, FOLDER / "edges.onnx")
edges = lambda p: conv2d(torch.tanh(conv2d(p.reshape(1, 1, 8, 8), kernels["k1"], padding=1)), kernels["k2"], padding=1)
save("52_sparsity_of_a_model", [torch.autograd.functional.jacobian(edges, x[0]).reshape(64, 64)])
