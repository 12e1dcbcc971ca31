#!/usr/bin/env python3
"""Writes digits.onnx, a classifier of digits that PyTorch trained, and 47_bring_your_model.csv, the
losses of its tuning by PyTorch's AdamW. Needs onnx and torch.

    python3 examples/data/47_bring_your_model.py
"""
import pathlib

import numpy as np
import onnx
import torch

FOLDER = pathlib.Path(__file__).parent
table = np.loadtxt(FOLDER / "digits.csv", delimiter=",", dtype=np.float32)
x = torch.tensor(2 * table[:, :64] / 16 - 1)
labels = torch.tensor(table[:, 64].astype(np.int64))

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
loss = torch.nn.CrossEntropyLoss()


def steps(count, rows, optimizer):
    for _ in range(count):
        optimizer.zero_grad()
        value = loss(model(x[rows]), labels[rows])
        value.backward()
        optimizer.step()
        yield value.item()


# The model has seen no digit above 4.
for _ in steps(60, labels < 5, torch.optim.AdamW(model.parameters(), lr=1e-2)):
    pass
graph = onnx.parser.parse_model(
    """<ir_version: 10, opset_import: ["" : 21]> digits (float[batch,64] pixels) => (float[batch,10] logits) {
      [layer1] sums = Gemm <transB = 1> (pixels, w1, b1)
      [activation] hidden = Relu (sums)
      [layer2] logits = Gemm <transB = 1> (hidden, w2, b2)
    }"""
)
for name, weight in zip(["w1", "b1", "w2", "b2"], model.parameters()):
    graph.graph.initializer.append(onnx.numpy_helper.from_array(weight.detach().numpy(), name))
onnx.checker.check_model(graph, full_check=True)
onnx.save(graph, FOLDER / "digits.onnx")

optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=1e-4)
losses = list(steps(40, slice(500), optimizer))
(FOLDER / "47_bring_your_model.csv").write_text("".join(f"{value:.6f}\n" for value in losses))
