#!/usr/bin/env python3
"""Writes the node tests of the `onnx` package as files, for node_tests.cpp.

    python3 write_cases.py FOLDER

Each test becomes NAME.onnx, the model, and NAME.data, a model without nodes whose initializers are
the inputs "in/x" and the expected outputs "out/y". Entry 0 of a sequence is "in/x/0". Metadata hold
the tolerances. FOLDER/version gets the version of the package. Exits with 77 if there is none.
"""
import pathlib
import sys
import warnings

try:
    import onnx
    from onnx.backend.test.loader import load_model_tests
    from test_files import write_test
except ImportError:
    print("There is no Python package `onnx`: pip install onnx")
    sys.exit(77)


def tensors(name, value):
    """Yields the tensors of a value with their names."""
    if isinstance(value, (list, tuple)):
        for i, entry in enumerate(value):
            yield from tensors(f"{name}/{i}", entry)
    elif isinstance(value, onnx.TensorProto):
        copy = onnx.TensorProto()
        copy.CopyFrom(value)
        copy.name = name
        yield copy
    elif isinstance(value, onnx.SequenceProto):
        yield from tensors(name, list(value.tensor_values))
    elif isinstance(value, onnx.OptionalProto):
        if value.HasField("tensor_value"):
            yield from tensors(name, value.tensor_value)
        elif value.HasField("sequence_value"):
            yield from tensors(name, value.sequence_value)
    elif value is not None:
        yield onnx.numpy_helper.from_array(value, name)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "version"
    if done.exists() and done.read_text() == onnx.__version__:
        return
    warnings.simplefilter("ignore")  # NumPy's, about overflows that tests are for
    for old in folder.iterdir():
        old.unlink()
    for case in load_model_tests(kind="node"):
        inputs, outputs = case.data_sets[0]
        found = []
        for kind, values, infos in [("in", inputs, case.model.graph.input), ("out", outputs, case.model.graph.output)]:
            for value, info in zip(values, infos):
                found.extend(tensors(f"{kind}/{info.name}", value))
        write_test(folder, case.name, case.model.SerializeToString(), found, case.rtol, case.atol)
    done.write_text(onnx.__version__)


main()
