"""Runs the model that 49_write_onnx.cpp writes: run.py FILE"""
import sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
w, x, y = np.float32([0.5, -1]), np.float32([[1, 2], [3, 4]]), np.float32([1, -1])
loss, gradient = session.run(["loss", "gradient"], {"w": w, "x": x, "y": y})

# The same by NumPy.
h = np.tanh(x @ w)
assert np.allclose(loss, np.mean((h - y) ** 2), rtol=1e-5)
assert np.allclose(gradient, x.T @ ((h - y) * (1 - h * h)), rtol=1e-5)
