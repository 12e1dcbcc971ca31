#!/usr/bin/env python3
"""Runs models by onnxruntime, and compares results with those beside them.

    python3 run_onnxruntime.py FOLDER

The files are those of write_cases.py and onnx_table. Exits with 77 without onnx and onnxruntime.
"""
import collections
import pathlib
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as error:
    print(f"{error}: pip install onnx onnxruntime")
    sys.exit(77)


def run(path):
    """Returns the fault of a model: None if there is none."""
    data = onnx.load_model_from_string(path.with_suffix(".data").read_bytes())
    values = {t.name: onnx.numpy_helper.to_array(t) for t in data.graph.initializer}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    inputs = {i.name: values[f"in/{i.name}"] for i in session.get_inputs()}
    names = [output.name for output in session.get_outputs()]
    for name, found in zip(names, session.run(names, inputs)):
        expected = values[f"out/{name}"]
        if found.dtype != expected.dtype or found.shape != expected.shape:
            return f"{name} is {found.dtype}{found.shape}, expected {expected.dtype}{expected.shape}"
        size = max(1, float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0)))
        tolerance = 1e-4 if expected.dtype.kind == "f" else 0
        if not np.allclose(found, expected, rtol=tolerance, atol=tolerance * size, equal_nan=True):
            at = np.flatnonzero(~np.isclose(found, expected, tolerance, tolerance * size, True))[0]
            return f"{name}[{at}] is {found.ravel()[at]}, expected {expected.ravel()[at]}"
    return None


def main():
    faults, missing, ran = 0, collections.Counter(), 0
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.onnx")):
        name = onnx.load_model_from_string(path.with_suffix(".data").read_bytes()).graph.name
        try:
            fault = run(path)
        except Exception as error:  # of any type that onnxruntime throws
            text = str(error)
            lacks = ["NOT_IMPLEMENTED", "not implemented", "can't be converted to MLDataType", "No corresponding Numpy type"]
            if any(words in text for words in lacks):
                missing[text.split("for the node")[0].split(":")[-1].strip() or text[:80]] += 1
                continue
            fault = text[:300]
        ran += 1
        if fault:
            faults += 1
            print(f"FAIL {path.name} {name}: {fault}")
    for text, times in missing.most_common():
        print(f"{times} times: onnxruntime has no kernel: {text}")
    print(f"{ran} models ran, {faults} failed")
    sys.exit(1 if faults or not ran else 0)


main()
