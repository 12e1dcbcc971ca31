"""The models of inference.cpp by onnxruntime: makers of functions without arguments, by name. Nothing is here unless the package can
be imported and STAVE_ONNX_MODELS names the folder of the models.

    python3 peer_onnx.py MODEL BATCH     runs a model, and writes the most memory that the process took, in bytes
"""
import os
import subprocess
import sys

import numpy as np

MODELS = ["mlp", "resnet", "encoder"]
FOLDER = os.environ.get("STAVE_ONNX_MODELS")


def scattered(shape, size):
    """As in peer_models.py, which imports PyTorch and with it more memory than a model takes."""
    i = np.arange(np.prod(shape)) % 1009
    return (((i * 7919 % 1009).astype(np.float32) / np.float32(1009) - np.float32(0.5)) * np.float32(size)).reshape(shape)


def runs(model, count, threads):
    def make():
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        session = onnxruntime.InferenceSession(f"{FOLDER}/{model}.onnx", options, providers=["CPUExecutionProvider"])
        x = {"input": scattered((count, *session.get_inputs()[0].shape[1:]), 4)}
        return lambda: session.run(None, x)
    return make


def memory(model, count):
    """The memory in bytes, which stands for the time in nanoseconds."""
    found = subprocess.run([sys.executable, __file__, model, str(count)], check=True, capture_output=True, text=True)
    return float(found.stdout)


try:
    import onnxruntime  # noqa: F401
    is_there = FOLDER is not None
except ImportError:
    is_there = False
CASES = [(model, count) for model in MODELS for count in (1, 32)] if is_there else []
ONNX = {f"{model}_{count}_{threads}": runs(model, count, threads) for model, count in CASES for threads in (1, 2)}
ONNX_MEMORY = {f"{model}_{count}_memory": (model, count) for model, count in CASES}

if __name__ == "__main__":
    run = runs(sys.argv[1], int(sys.argv[2]), 2)()
    for _ in range(3):
        run()
    with open("/proc/self/status") as status:
        print(next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM:")))
