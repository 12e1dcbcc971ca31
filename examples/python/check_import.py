"""The module pendulum is imported, and computes, after PyTorch and JAX have been loaded and have computed.

They load the C++ library, and take some of the loader's space for thread-local variables, before the
module does. A library that is not installed is left out. Exit status 77: there is no NumPy.
"""

import importlib.util
import itertools
import subprocess
import sys

FIRST = {
    "numpy": "import numpy as np; np.linalg.svd(np.ones((99, 99)))",
    "torch": "import torch; torch.linalg.svd(torch.ones(99, 99))",
    "jax": "import jax.numpy as jnp; jnp.linalg.svd(jnp.ones((99, 99)))[0].block_until_ready()",
}
THEN = """
import pendulum
import numpy as np
x = np.array([0.5, 0.25])
assert np.asarray(pendulum.swing(x, 4 * x)).shape == (2,)
assert np.asarray(pendulum.swing.vjp(x, 4 * x, x)[0]).shape == (2,)
assert np.asarray(pendulum.swing.vmap([True, False])(np.ones((3, 2)), 4 * x)).shape == (3, 2)
"""

there = []
for name in FIRST:
    if importlib.util.find_spec(name):
        there.append(name)
    else:
        print(f"{name}: left out, for this Python does not have it")
if "numpy" not in there:
    sys.exit(77)
for count in range(len(there) + 1):
    for names in itertools.permutations(there, count):
        if count < 2 or "numpy" not in names:
            program = "\n".join([*map(FIRST.get, names), THEN])
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
            assert done.returncode == 0, f"after {' and '.join(names) or 'nothing'}:\n{done.stderr}"
            print(f"imported after {' and '.join(names) or 'nothing'}")
