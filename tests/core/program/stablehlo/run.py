"""Compiles and runs StableHLO modules with jaxlib: run.py FOLDER.

NAME.mlir is a module, NAME.in the bytes of the arguments of its main, one after another, and NAME.txt the dtypes and shapes of the
arguments and, after a line "->", those of the results. run.py writes the bytes of the results to NAME.out, or what went wrong to
NAME.err. Where oracles.py has a function called NAME, jax computes the same, and a difference is an error.

Exits with 77 if jax is not installed.
"""
import concurrent.futures
import os
import pathlib
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Many small modules: compiling them takes longer than running them.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1")
try:
    import jax
    import jax.extend
    import ml_dtypes
    import numpy as np
    from jaxlib import xla_client
except ImportError as error:
    print(f"skipped: {error}; pip install jax")
    sys.exit(77)

jax.config.update("jax_enable_x64", True)
import oracles  # noqa: E402

CLIENT = jax.extend.backend.get_backend("cpu")
OPTIONS = xla_client.CompileOptions()


def compiled(text):
    if hasattr(CLIENT, "compile_and_load"):
        devices = xla_client.DeviceList(tuple(CLIENT.local_devices()[:1]))
        return CLIENT.compile_and_load(text, devices, OPTIONS)
    return CLIENT.compile(text, OPTIONS)  # jaxlib before 0.7


def types(lines):
    for line in lines:
        dtype, *shape = line.split()
        yield np.dtype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype), tuple(map(int, shape))


def arrays(data, kinds):
    found, start = [], 0
    for dtype, shape in kinds:
        count = int(np.prod(shape))
        found.append(np.frombuffer(data, dtype, count, start).reshape(shape))
        start += count * dtype.itemsize
    return found


def difference(found, wanted):
    worst = 0.0
    for a, b in zip(found, wanted, strict=True):
        wide = np.complex128 if np.iscomplexobj(b) else np.float64
        a, b = np.asarray(a, wide), np.asarray(b, wide)
        if a.shape != b.shape:
            return f"shape {a.shape} is not {b.shape}"
        scale = 1 + np.max(np.abs(b), initial=0)
        worst = max(worst, float(np.max(np.abs(a - b), initial=0) / scale))
    return None if worst <= 1e-9 else f"differs from jax by {worst:.1e}"


def run(path):
    before, after = path.with_suffix(".txt").read_text().split("->\n")
    inputs = arrays(path.with_suffix(".in").read_bytes(), types(before.splitlines()))
    executable = compiled(path.read_text())
    outputs = [np.asarray(x) for x in executable.execute([jax.device_put(x, CLIENT.local_devices()[0]) for x in inputs])]
    for x, (dtype, shape) in zip(outputs, types(after.splitlines()), strict=True):
        assert x.dtype == dtype and x.shape == shape, (x.dtype, x.shape, dtype, shape)
    path.with_suffix(".out").write_bytes(b"".join(np.ascontiguousarray(x).tobytes() for x in outputs))
    oracle = getattr(oracles, path.stem, None)
    if oracle:
        wrong = difference(outputs, oracle(*inputs))
        print(f"{path.stem}: " + (wrong or "as in jax"))
        if wrong:
            raise AssertionError(wrong)


def try_to_run(path):
    try:
        run(path)
    except Exception as error:  # of any kind: it is reported
        path.with_suffix(".err").write_text(f"{type(error).__name__}: {error}"[:2000])


with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    list(pool.map(try_to_run, sorted(pathlib.Path(sys.argv[1]).glob("*.mlir"))))
