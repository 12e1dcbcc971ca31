"""`pip install` of this folder in a fresh virtual environment, with an installed Stave: check_pip.py PREFIX FOLDER

PREFIX is where Stave is installed. PyTorch and JAX are large: they come from the Python that runs this, where it has them, and are
imported before the module. Exit status 77: this Python makes no virtual environments, or the network does not give what builds the
module.
"""

import importlib.util
import os
import pathlib
import shutil
import site
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BEGIN = {
    "torch": "import torch; torch.linalg.svd(torch.ones(99, 99))",
    "jax": "import jax.numpy as jnp; jnp.linalg.svd(jnp.ones((99, 99)))[0].block_until_ready()",
}
NUMPY = """
import sys, pendulum, numpy as np
assert pendulum.__file__.startswith(sys.prefix), pendulum.__file__
state, rest = np.array([1.0, 0.5]), np.array([0.8, 0.1])
values = np.asarray(pendulum.swing(state, rest))
np.testing.assert_allclose(values, [-0.96222827, -0.03350512], rtol=1e-6)
"""
CHECKS = {
    "torch": """
from in_torch import as_torch
f, xs = as_torch(pendulum.swing), [torch.tensor(x, requires_grad=True) for x in (state, rest)]
np.testing.assert_allclose(f(*xs).detach().numpy(), values)
assert torch.autograd.gradcheck(f, xs, check_forward_ad=True)
""",
    "jax": """
import jax
from in_jax import as_jax
jax.config.update("jax_enable_x64", True)
g = as_jax(pendulum.swing)
np.testing.assert_allclose(jax.jit(g)(state, rest), values)
pull = np.asarray(pendulum.swing.vjp(state, rest, np.ones(2))[0])
np.testing.assert_allclose(jax.jit(jax.grad(lambda s: g(s, rest).sum()))(jnp.array(state)), pull)
""",
}
NO_NETWORK = (
    "NewConnectionError",
    "ConnectTimeout",
    "Name or service not known",
    "Temporary failure in name resolution",
    "Network is unreachable",
    "ProxyError",
    "No matching distribution found for scikit-build-core",
)


def main():
    prefix, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    made = subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True, text=True)
    if made.returncode != 0:
        print("skipped: this Python makes no virtual environments", made.stdout, made.stderr)
        sys.exit(77)
    python = folder / "bin" / "python"

    there = [name for name in BEGIN if importlib.util.find_spec(name)]
    for name in BEGIN.keys() - there:
        print(f"{name}: left out, for this Python does not have it")
    if there:
        ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
        packages = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
        pathlib.Path(packages, "others.pth").write_text("\n".join(site.getsitepackages()) + "\n")

    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"CMAKE_PREFIX_PATH": prefix, "PIP_RETRIES": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run([python, "-m", "pip", "install", HERE], capture_output=True, text=True, env=environment)
    if done.returncode != 0 and any(text in done.stdout + done.stderr for text in NO_NETWORK):
        print("skipped: the network does not give what builds the module")
        sys.exit(77)
    assert done.returncode == 0, f"pip install {HERE}:\n{done.stdout}\n{done.stderr}"

    program = "\n".join([*(BEGIN[name] for name in there), NUMPY, *(CHECKS[name] for name in there)])
    subprocess.run([python, "-c", program], cwd=folder, env=environment, check=True)
    print(f"the wheel works, after {' and '.join(there) or 'nothing else'}")


main()
