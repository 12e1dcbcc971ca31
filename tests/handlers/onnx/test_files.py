"""The files of a test for node_tests.cpp: NAME.onnx is a model; NAME.data has its inputs and outputs, as the initializers of a model,
and the tolerances of the comparison."""
import onnx


def arrays(kind, named):
    """Yields tensors of NumPy's arrays; `kind` is "in" or "out", and `named` are pairs of names and arrays."""
    for name, value in named:
        yield onnx.numpy_helper.from_array(value, f"{kind}/{name}")


def write_test(folder, name, model, tensors, rtol, atol):
    """Writes both files; `model` are the bytes of the first."""
    data = onnx.ModelProto()
    data.graph.initializer.extend(tensors)
    onnx.helper.set_model_props(data, {"rtol": str(rtol), "atol": str(atol)})
    (folder / f"{name}.onnx").write_bytes(model)
    (folder / f"{name}.data").write_bytes(data.SerializeToString())
