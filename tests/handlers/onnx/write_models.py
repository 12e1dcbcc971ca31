#!/usr/bin/env python3
"""Writes models that Python packages ship, with results of onnxruntime, for node_tests.cpp.

    python3 write_models.py FOLDER

The files are those of write_cases.py. The packages magika (types of files), silero-vad (speech) and
rapidocr-onnxruntime (text in pictures) are unpacked, not installed. Exits with 77 without onnx,
onnxruntime or the packages.
"""
import pathlib
import subprocess
import sys
import tempfile
import zipfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from test_files import arrays, write_test
except ImportError as error:
    print(f"{error}: pip install onnx onnxruntime")
    sys.exit(77)

PACKAGES = ["magika==1.0.3", "silero-vad==6.2.3", "rapidocr-onnxruntime==1.4.4"]


def inputs_of(name):
    """Returns inputs of a model, by the name of its file."""
    draw = np.random.default_rng(0)
    speech = draw.normal(0, 0.1, (1, 576)).astype(np.float32)
    state = draw.normal(0, 0.1, (2, 1, 128)).astype(np.float32)
    rate = np.array(16000, np.int64)
    picture = lambda *shape: draw.normal(0, 1, (1, 3, *shape)).astype(np.float32)
    return {
        "model": lambda: {"bytes": draw.integers(0, 257, (2, 2048)).astype(np.int32)},
        "silero_vad": lambda: {"input": speech, "state": state, "sr": rate},
        "silero_vad_half": lambda: {"input": speech, "state": state},
        "silero_vad_op18_ifless": lambda: {"input": speech, "state": state, "sr": rate},
        "silero_vad_16k_op15": lambda: {"input": speech, "state": state, "sr": rate},
        "silero_vad_openvino_16k": lambda: {"input": speech, "state": state},
        "silero_vad_16k_sequence": lambda: {
            "input": draw.normal(0, 0.1, (5, 576)).astype(np.float32),
            "h": state[:1],
            "c": state[1:],
        },
        "ch_ppocr_mobile_v2.0_cls_infer": lambda: {"x": picture(48, 192)},
        "ch_PP-OCRv4_rec_infer": lambda: {"x": picture(48, 96)},
        "ch_PP-OCRv4_det_infer": lambda: {"x": picture(64, 96)},
    }.get(name)


def write(folder, path):
    make = inputs_of(path.stem)
    if not make:
        return
    inputs = make()
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    tensors = [*arrays("in", inputs.items()), *arrays("out", zip(names, session.run(names, inputs)))]
    write_test(folder, path.stem, path.read_bytes(), tensors, 1e-5, 1e-5)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    done, version = folder / "version", f"{onnx.__version__}, onnxruntime {onnxruntime.__version__}, {' '.join(PACKAGES)}"
    if done.exists() and done.read_text() == version:
        return
    with tempfile.TemporaryDirectory() as unpacked:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", unpacked, *PACKAGES]
        if subprocess.run(command, check=False).returncode:
            print("The packages cannot be downloaded")
            sys.exit(77)
        for wheel in pathlib.Path(unpacked).glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(unpacked)
        for path in sorted(pathlib.Path(unpacked).rglob("*.onnx")):
            write(folder, path)
    done.write_text(version)


main()
