"""Runs a module that 38_stablehlo.cpp wrote: run.py FILE."""
import sys

import jax
import numpy as np
from jaxlib import xla_client

device = jax.local_devices(backend="cpu")[0]
text = open(sys.argv[1]).read()
module = device.client.compile_and_load(text, xla_client.DeviceList((device,)), xla_client.CompileOptions())

w, x, y = np.float32([0.5, -1]), np.float32([[1, 2], [3, 4]]), np.float32([1, -1])
[gradient] = module.execute([jax.device_put(a, device) for a in (w, x, y)])
print("by jaxlib", gradient)

expected = jax.grad(lambda w: ((x @ w - y) ** 2).sum())(w)
assert np.allclose(gradient, expected), expected
