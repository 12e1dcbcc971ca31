#!/usr/bin/env python3
"""Writes variants of ONNX's own node tests, with results of onnxruntime, for node_tests.cpp.

    python3 write_variants.py FOLDER

A variant lacks an attribute or an input that its operator's schema calls optional, or has an older
opset, in which some inputs are attributes. So an optional part that we require, and a default that
is not the schema's, is found. Where onnxruntime lacks an operator, ONNX's reference implementation
computes the results. The files are those of write_cases.py. Exits with 77 without onnx or
onnxruntime.
"""
import pathlib
import sys
import warnings

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx.backend.test.loader import load_model_tests
    from onnx.reference import ReferenceEvaluator
    from test_files import arrays, write_test
except ImportError as error:
    print(f"{error}: pip install onnx onnxruntime")
    sys.exit(77)

OLDEST = 7  # opset 7 brought broadcasting as in NumPy
TYPES = {onnx.TensorProto.DataType.Value(name) for name in ["FLOAT", "DOUBLE", "INT32", "INT64", "UINT8", "INT8", "BOOL"]}
RANDOM = {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
# Without its options, a loop runs for ever; the others have no results that are defined.
LEFT_OUT = RANDOM | {"CenterCropPad", "ImageDecoder", "Loop", "MaxUnpool"}
# Without padding, no window fits in.
TESTS_LEFT_OUT = {"test_averagepool_2d_ceil_last_window_starts_on_pad"}
# Attributes without which the inputs of a test are not valid.
NEEDED = {"ignore_index", "batch_axis", "time_axis"}
# onnxruntime's Fourier transforms err in the fifth digit, and its Resize rounds lengths.
BY_REFERENCE = {"DFT", "Resize"}
# The attributes of older versions that have another name than the input that replaced them.
RENAMED = {"constant_value": "value", "K": "k"}
Optional = onnx.defs.OpSchema.FormalParameterOption.Optional


def schema_of(node, opset):
    try:
        return onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None


def copy_of(model):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def without_attribute(model, name):
    copy = copy_of(model)
    kept = [a for a in copy.graph.node[0].attribute if a.name != name]
    del copy.graph.node[0].attribute[:]
    copy.graph.node[0].attribute.extend(kept)
    return copy


def without_input(model, values, i):
    copy, node = copy_of(model), model.graph.node[0]
    names = list(node.input)
    dropped, names[i] = names[i], ""
    while names and not names[-1]:
        names.pop()
    del copy.graph.node[0].input[:]
    copy.graph.node[0].input.extend(names)
    if dropped not in names:
        kept = [info for info in copy.graph.input if info.name != dropped]
        del copy.graph.input[:]
        copy.graph.input.extend(kept)
        values = {k: v for k, v in values.items() if k != dropped}
    return copy, values


def of_version(model, values, version):
    """Returns the model in an older opset: inputs that are attributes there become these."""
    copy = copy_of(model)
    copy.opset_import[0].version = version
    copy.ir_version = min(copy.ir_version, 8)
    node = copy.graph.node[0]
    new, old = schema_of(node, model.opset_import[0].version), schema_of(node, version)
    attributes = {}
    for i in reversed(range(len(node.input))):
        parameter = new.inputs[min(i, len(new.inputs) - 1)].name
        name = RENAMED.get(parameter, parameter)
        if name not in old.attributes or name in new.attributes or i >= len(node.input) or not node.input[i]:
            continue
        value = values[node.input[i]].flatten().tolist()
        is_list = old.attributes[name].type in (onnx.defs.OpSchema.AttrType.INTS, onnx.defs.OpSchema.AttrType.FLOATS)
        if value != []:
            attributes[name] = value if is_list else value[0]
        copy, values = without_input(copy, values, i)
        node = copy.graph.node[0]
    for name, value in attributes.items():
        node.attribute.append(onnx.helper.make_attribute(name, value))
    return copy, values


def reduced(model, values):
    """Yields the model without one of its optional parts, and without all of them."""
    node = model.graph.node[0]
    schema = schema_of(node, model.opset_import[0].version)
    known = {name: a for name, a in schema.attributes.items() if name not in NEEDED}
    parts = [a.name for a in node.attribute if a.name in known and not known[a.name].required]
    inputs = [
        i for i, p in enumerate(schema.inputs) if i < len(node.input) and node.input[i] and p.option == Optional
    ]
    yield "", model, values
    for name in parts:
        yield f"_without_{name}", without_attribute(model, name), values
    for i in inputs:
        yield f"_without_{schema.inputs[i].name}", *without_input(model, values, i)
    for name in parts:
        model = without_attribute(model, name)
    for i in reversed(inputs):
        model, values = without_input(model, values, i)
    if len(parts) + len(inputs) > 1:
        yield "_without_options", model, values


def variants(model, values):
    """Yields the suffixes of names, models and inputs."""
    node, opset = model.graph.node[0], model.opset_import[0].version
    versions = {
        max(s.since_version, OLDEST)
        for s in onnx.defs.get_all_schemas_with_history()
        if s.name == node.op_type and s.domain == node.domain == ""
    }
    for suffix, changed, inputs in reduced(model, values):
        if suffix:
            yield suffix, changed, inputs
        for version in sorted(versions):
            older = schema_of(node, version)
            if older and not older.deprecated and older.since_version < schema_of(node, opset).since_version:
                yield f"{suffix}_opset{version}", *of_version(changed, inputs, version)


def run(model, values):
    """Returns the outputs, or None if the model is not valid."""
    try:
        onnx.checker.check_model(model)
        for info in model.graph.output:
            info.type.tensor_type.ClearField("shape")
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except Exception:
        return None
    names = [info.name for info in model.graph.output]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        if model.graph.node[0].op_type in BY_REFERENCE and model.opset_import[0].version > 10:
            session = ReferenceEvaluator(model)
        else:
            try:
                session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
            except Exception:  # onnxruntime lacks the operator
                session = ReferenceEvaluator(model)
        outputs = [np.asarray(y) for y in session.run(names, values)]
    except Exception:
        return None
    # onnxruntime excludes the scores of keys by the least number.
    is_least = lambda y: y.dtype == np.float32 and np.any(y == np.finfo(np.float32).min)
    return None if any(map(is_least, outputs)) else outputs


def is_tensor(info):
    return info.type.WhichOneof("value") == "tensor_type" and info.type.tensor_type.elem_type in TYPES


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    done, version = folder / "version", f"{onnx.__version__}, onnxruntime {onnxruntime.__version__}"
    if done.exists() and done.read_text() == version:
        return
    warnings.simplefilter("ignore")  # NumPy's, about overflows that tests are for
    for old in folder.iterdir():
        old.unlink()
    for case in load_model_tests(kind="node"):
        infos = [*case.model.graph.input, *case.model.graph.output]
        if len(case.model.graph.node) != 1 or case.model.functions or not all(map(is_tensor, infos)):
            continue
        if case.name in TESTS_LEFT_OUT or case.model.graph.node[0].op_type in LEFT_OUT or not schema_of(case.model.graph.node[0], case.model.opset_import[0].version):
            continue
        values = dict(zip([info.name for info in case.model.graph.input], case.data_sets[0][0]))
        values = {k: onnx.numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else np.asarray(v) for k, v in values.items()}
        for suffix, model, inputs in variants(case.model, values):
            outputs = run(model, inputs)
            if outputs is None:
                continue
            names = [output.name for output in model.graph.output]
            tensors = [*arrays("in", inputs.items()), *arrays("out", zip(names, outputs))]
            write_test(folder, case.name + suffix, model.SerializeToString(), tensors, 1e-4, 1e-5)
    done.write_text(version)


main()
