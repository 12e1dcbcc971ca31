"""The programs of programs.cpp and the chain of overhead.cpp in PyTorch, operations and models in PyTorch and JAX, transforms and
special functions in SciPy too, samplers in NumPyro, timed as
Google Benchmark times Stave's.

    python3 peers.py --filter REGEX --repetitions N --min-time SECONDS --out FILE

FILE gets JSON of Google Benchmark's layout. Threads: as many as there are cores that this process may use, as oneTBB takes.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

from peer_models import JAX_MODELS, TORCH_MODELS
from peer_numbers import JAX_NUMBERS, SCIPY_NUMBERS, TORCH_NUMBERS
from peer_nuts import CHAINS, NUTS_MODELS
from peer_onnx import ONNX, ONNX_MEMORY, memory
from peer_operations import JAX, TORCH, norm_of

JAX, TORCH = JAX | JAX_MODELS | JAX_NUMBERS, TORCH | TORCH_MODELS | TORCH_NUMBERS


def scattered(shape, size=1.0):
    i = torch.arange(torch.Size(shape).numel()) % 1009
    return ((i * 7919 % 1009).float() / 1009 - 0.5).mul(size).reshape(shape)


def require_near(value, by_numpy, what):
    if abs(value - by_numpy) > 1e-4 * abs(by_numpy):
        raise SystemExit(f"peers.py: {what} is {value}, and {by_numpy} by NumPy")


# ---- programs: each makes a function without arguments, which is timed ---------------------------

def mlp_step():
    weights = [scattered((784, 256), 0.2), scattered((256,), 0.2), scattered((256, 256), 0.2),
               scattered((256,), 0.2), scattered((256, 10)), scattered((10,))]
    for weight in weights:
        weight.requires_grad_()
    w1, b1, w2, b2, w3, b3 = weights
    pixels, labels = scattered((128, 784)), torch.arange(128) % 10

    def step():
        h1 = torch.relu(torch.addmm(b1, pixels, w1))
        h2 = torch.relu(torch.addmm(b2, h1, w2))
        loss = F.cross_entropy(torch.addmm(b3, h2, w3), labels)
        return loss, torch.autograd.grad(loss, weights)

    loss, gradients = step()
    require_near(loss.item(), 2.39380, "the loss")
    require_near(sum(g.square().sum() for g in gradients).sqrt().item(), 1.62219, "the gradient's norm")
    return step


def elementwise_chain(x):
    y = x
    for _ in range(10):
        y = torch.sin(y) * x + y
    return y.sum()


def elementwise_eager():
    x = scattered((1 << 20,))
    require_near(elementwise_chain(x).item(), 869177, "the chain's value")
    return lambda: elementwise_chain(x)


def elementwise_grad():
    x = scattered((1 << 20,)).requires_grad_()
    gradient = lambda: torch.autograd.grad(elementwise_chain(x), x)[0]
    require_near(gradient().norm().item(), 5587.85, "the norm of the chain's gradient")
    return gradient


def squares():
    x = (1 - scattered((1 << 20,)).square() * 1e-3).requires_grad_()
    def gradient():
        b = x
        for _ in range(1000):
            b = b * b
        return torch.autograd.grad(b.sum(), x)[0]
    return gradient


def softmax():
    x = scattered((4096, 1024), 20)
    require_near(torch.softmax(x, -1).double().norm().item(), 6.3244, "the norm of the softmax")
    return lambda: torch.softmax(x, -1)


SCALAR_LENGTH = 1000
FACTOR = torch.tensor(1.0001)


def scalar_chain(x):
    y = x
    for _ in range(SCALAR_LENGTH):
        y = y * FACTOR
    return y


def scalar_eager():
    x = torch.tensor(1.0)
    return lambda: scalar_chain(x)


def scalar_grad():
    x = torch.tensor(1.0, requires_grad=True)
    return lambda: torch.autograd.grad(scalar_chain(x), x)[0]


# ---- on a GPU ------------------------------------------------------------------------------------

def on_gpu(program):
    """Makes the program with its tensors on the GPU; each run waits for the GPU."""
    def make():
        torch.set_default_device("cuda")
        global FACTOR
        on_cpu, FACTOR = FACTOR, FACTOR.cuda()
        try:
            function = program()
        finally:
            torch.set_default_device("cpu")
        factor, FACTOR = FACTOR, on_cpu

        def run():
            global FACTOR
            FACTOR = factor
            function()
            torch.cuda.synchronize()
            FACTOR = on_cpu
        return run
    return make


def per_example():
    weights = (scattered((784, 256), 0.2), scattered((256,), 0.2), scattered((256, 256), 0.2),
               scattered((256,), 0.2), scattered((256, 10)), scattered((10,)))
    pixels, labels = scattered((128, 784)), torch.arange(128) % 10

    def loss(weights, pixels, label):
        w1, b1, w2, b2, w3, b3 = weights
        h2 = torch.relu(torch.relu(pixels @ w1 + b1) @ w2 + b2)
        return F.cross_entropy(h2 @ w3 + b3, label)

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    return lambda: gradients(weights, pixels, labels)


# name -> the program, and the number of operations by which its time is divided, or a function that
# counts them after a run
PROGRAMS = {
    "torch_mlp_step": (mlp_step, 1),
    "torch_elementwise_eager": (elementwise_eager, 1),
    "torch_elementwise_grad": (elementwise_grad, 1),
    "torch_squares": (squares, 1),
    "torch_softmax": (softmax, 1),
    "torch_scalar_eager": (scalar_eager, SCALAR_LENGTH),
    "torch_scalar_grad": (scalar_grad, SCALAR_LENGTH),
}

PROGRAMS |= {f"torch_{name}": (make, 1) for name, make in TORCH.items()}
PROGRAMS |= {f"jax_{name}": (make, 1) for name, make in JAX.items()}
PROGRAMS |= {f"scipy_{name}": (make, 1) for name, make in SCIPY_NUMBERS.items()}
PROGRAMS |= {f"jax_{name}": (make, lambda run: run.effective()) for name, make in NUTS_MODELS.items()}
PROGRAMS |= {f"onnxruntime_{name}": (make, 1) for name, make in ONNX.items()}
COMPARED = ({f"onnxruntime_{name}" for name in ONNX} | {f"torch_{name}" for name in TORCH} | {f"jax_{name}" for name in JAX if not name.endswith("_few")}
            | {f"scipy_{name}" for name in SCIPY_NUMBERS})

if torch.cuda.is_available():
    PROGRAMS |= {
        "torch_gpu_mlp_step": (on_gpu(mlp_step), 1),
        "torch_gpu_per_example": (on_gpu(per_example), 1),
        "torch_gpu_scalar_eager": (on_gpu(scalar_eager), SCALAR_LENGTH),
        "torch_gpu_scalar_grad": (on_gpu(scalar_grad), SCALAR_LENGTH),
    }


# This variable is set in a process that starts XLA differently: with one thread, for the programs
# named ..._kernel; with a device for each chain, for the programs named ..._parallel.
APART = "STAVE_BENCH_APART"


# ---- timing --------------------------------------------------------------------------------------

def seconds_of(function, iterations):
    start = time.perf_counter()
    for _ in range(iterations):
        function()
    return time.perf_counter() - start


def iterations_for(function, min_time):
    """Returns how many iterations take min_time; the function is warm afterwards."""
    iterations = 1
    while (seconds := seconds_of(function, iterations)) < min_time:
        iterations = max(iterations + 1, int(iterations * min(10, 1.2 * min_time / seconds)))
    return iterations


def sample(name, nanoseconds, norm):
    known = {} if norm is None else {"norm": norm}
    return {"name": name, "run_name": name, "run_type": "iteration", "real_time": nanoseconds, "time_unit": "ns"} | known


def measure(names, repetitions, min_time):
    functions = {name: PROGRAMS[name][0]() for name in names}
    norms = {name: norm_of(function()) for name, function in functions.items() if name in COMPARED}
    iterations = {name: iterations_for(function, min_time) for name, function in functions.items()}
    order = [name for name in names for _ in range(repetitions)]
    random.shuffle(order)  # so that other work of the machine affects all programs alike
    samples = []
    for name in order:
        seconds_of(functions[name], 1)  # wakes the threads
        seconds = seconds_of(functions[name], iterations[name])
        operations = PROGRAMS[name][1]
        if callable(operations):
            operations = operations(functions[name])
        nanoseconds = 1e9 * seconds / iterations[name] / operations
        samples.append(sample(name, nanoseconds, norms.get(name)))
    return samples


def measured_apart(names, arguments, flags, cores):
    """Measures in a process of its own, because XLA's threads and devices are fixed when it starts."""
    if not names:
        return []
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([sys.executable, __file__, "--filter", f"^({'|'.join(names)})$", "--out", file.name,
                        "--repetitions", str(arguments.repetitions), "--min-time", str(arguments.min_time)],
                       env=os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}", APART: "1"}, check=True,
                       preexec_fn=lambda: os.sched_setaffinity(0, cores))
        return json.load(file)["benchmarks"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default=".")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--min-time", type=float, default=0.05)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    names = [name for name in PROGRAMS if re.search(arguments.filter, name)]
    on_one_thread = [name for name in names if "_kernel" in name and APART not in os.environ]
    parallel = [name for name in names if name.endswith("_parallel") and APART not in os.environ]
    samples = measure([name for name in names if name not in on_one_thread + parallel], arguments.repetitions,
                      arguments.min_time)
    cores = os.sched_getaffinity(0)
    samples += [sample(f"onnxruntime_{name}", memory(*case), None) for name, case in ONNX_MEMORY.items()
                if re.search(arguments.filter, f"onnxruntime_{name}")]
    samples += measured_apart(on_one_thread, arguments,
                              "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1", {min(cores)})
    samples += measured_apart(parallel, arguments, f"--xla_force_host_platform_device_count={CHAINS}", cores)
    with open(arguments.out, "w") as file:
        json.dump({"benchmarks": samples}, file, indent=2)


if __name__ == "__main__":
    main()
