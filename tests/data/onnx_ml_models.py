#!/usr/bin/env python3
"""Writes the models ml_NAME.onnx in tests/data/onnx, as scikit-learn and XGBoost export them.

    python3 tests/data/onnx_ml_models.py

ml_NAME.npz has inputs "in_x" and outputs "out_y", which onnxruntime computes. Derivatives are those
of scikit-learn: the leaves that it finds, and differences of its predictions in float64. Needs
onnxruntime, skl2onnx, scikit-learn, SciPy, onnxmltools and xgboost.
"""
import pathlib

import numpy as np
import onnx
import onnxruntime
import scipy.stats
import xgboost
from onnxmltools import convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx import to_onnx
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import SVC, SVR

FOLDER = pathlib.Path(__file__).parent / "onnx"
draw = np.random.default_rng(3)
x = draw.normal(0, 1, (40, 4)).astype(np.float32)
y = x[:, 0] * x[:, 1] + x[:, 2]
classes, sign = np.digitize(y, [-0.5, 0.5]), (y > 0).astype(int)
rows = x[:6]


def write(name, model, inputs=rows, more=None):
    for graph_input in model.graph.input:
        for node in model.graph.node:
            node.input[:] = ["x" if i == graph_input.name else i for i in node.input]
        graph_input.name = "x"
    onnx.save(model, FOLDER / f"ml_{name}.onnx")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    outputs = {f"out_{k}": v for k, v in zip(names, session.run(names, {"x": inputs}))}
    np.savez(FOLDER / f"ml_{name}.npz", **({"in_x": inputs} | outputs | (more or {})))


def exported(model, zipmap=False):
    options = {"zipmap": zipmap} if hasattr(model, "classes_") else None
    return to_onnx(model, x[:1], target_opset={"": 18, "ai.onnx.ml": 3}, options=options)


def slopes(f, h=1e-4):
    """The derivatives of f(x)[i, k] by x[i, j], as [i, k, j]."""
    wide = rows.astype(np.float64)
    columns = []
    for j in range(wide.shape[1]):
        step = h * np.eye(wide.shape[1])[j]
        high, low = (np.reshape(f(v), (len(wide), -1)) for v in (wide + step, wide - step))
        columns.append((high - low) / (2 * h))
    return np.stack(columns, -1)


# The prediction of a forest is linear in the values of leaves: the derivative of sum(c y) by one is the sum of c over
# the examples that come to the leaf.
forest = RandomForestRegressor(3, max_depth=3, random_state=0).fit(x, y)
model = exported(forest)
attributes = {a.name: onnx.helper.get_attribute_value(a) for a in model.graph.node[0].attribute}
c = np.cos(np.arange(len(rows)))
found = forest.apply(rows)
by_leaf = [
    sum(c[found[:, tree] == leaf]) for tree, leaf in zip(attributes["target_treeids"], attributes["target_nodeids"])
]
write("forest", model, more={"c": c.astype(np.float32), "by_leaf": np.float32(by_leaf)})

write("forest_of_classes", exported(RandomForestClassifier(3, max_depth=3, random_state=0).fit(x, classes)))
write("forest_of_two", exported(RandomForestClassifier(3, max_depth=3, random_state=0).fit(x, sign)))
write("boosted", exported(GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=0).fit(x, classes)))
for name, labels in [("xgboost", classes), ("xgboost_of_two", sign)]:
    trees = xgboost.XGBClassifier(n_estimators=3, max_depth=2).fit(x, labels)
    write(name, convert_xgboost(trees, initial_types=[("x", FloatTensorType([None, 4]))], target_opset=15))

pipeline = make_pipeline(SimpleImputer(), StandardScaler(), Normalizer(), LogisticRegression()).fit(x, classes)
with_gaps = np.where(draw.random(rows.shape) < 0.2, np.float32(np.nan), rows)
write("pipeline", exported(pipeline), with_gaps, {"at": rows, "slopes": slopes(pipeline.predict_proba)})
svr = SVR().fit(x, y)
write("svr", exported(svr), more={"at": rows, "slopes": slopes(svr.predict)})
write("svc", exported(SVC(probability=True, random_state=0).fit(x, classes)))
write("svc_of_two", exported(SVC(kernel="poly").fit(x, sign)))

HEADER = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 4]>'


def parsed(text):
    return onnx.parser.parse_model(f"{HEADER} {text}")


features = parsed(
    """features (float[batch,4] x) => (float[batch,4] scaled, float[batch,4] max, float[batch,4] l1, float[batch,4] l2,
                                      float[batch,4] binary, float[batch,2] picked, float[batch,4,3] hot,
                                      float[batch,8] joined, int64[batch,4] imputed) {
      scaled = ai.onnx.ml.Scaler <offset = [1.0], scale = [2.0]> (x)
      max = ai.onnx.ml.Normalizer <norm = "MAX"> (x)
      l1 = ai.onnx.ml.Normalizer <norm = "L1"> (x)
      l2 = ai.onnx.ml.Normalizer <norm = "L2"> (x)
      binary = ai.onnx.ml.Binarizer <threshold = 0.5> (x)
      places = Constant <value_ints = [2, 0]> ()
      picked = ai.onnx.ml.ArrayFeatureExtractor (x, places)
      integers = Cast <to = 7> (x)
      hot = ai.onnx.ml.OneHotEncoder <cats_int64s = [-1, 0, 1]> (integers)
      joined = ai.onnx.ml.FeatureVectorizer <inputdimensions = [4, 4]> (x, l1)
      imputed = ai.onnx.ml.Imputer <imputed_value_int64s = [7, 8, 9, 10], replaced_value_int64 = 0> (integers)
    }"""
)
write("features", features)
labels = parsed(
    """labels (float[batch,4] x) => (float[batch,4] floats, int64[batch,4] ints, float[batch,4] others) {
      floats = ai.onnx.ml.LabelEncoder <keys_floats = [2.0, -1.0, 0.0], values_floats = [0.5, 1.5, 2.5],
                                        default_float = 9.0> (x)
      ints = ai.onnx.ml.LabelEncoder <keys_floats = [3.0, 1.0], values_int64s = [30, 10]> (x)
      integers = Cast <to = 7> (x)
      others = ai.onnx.ml.LabelEncoder <keys_int64s = [2, 1, 0], values_floats = [4.0, 5.0, 6.0]> (integers)
    }"""
)
write("labels", labels, draw.integers(-1, 4, (6, 4)).astype(np.float32))
scores = ", ".join(
    f"{how.lower()} = ai.onnx.ml.LinearRegressor <targets = 2, coefficients = [0.5, 0.1, 0.1, 0.2, 0.0, 0.0, 0.6, 0.0], "
    f'post_transform = "{how}"> (x)\n'
    for how in ["LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]
).replace("\n, ", "\n")
transforms = parsed(
    "transforms (float[batch,4] x) => "
    "(float[batch,2] logistic, float[batch,2] softmax, float[batch,2] softmax_zero, float[batch,2] probit) "
    f"{{ {scores} }}"
)
shares = draw.uniform(0.1, 0.9, (6, 4)).astype(np.float32)
shares[0, 2] = 0  # a score of 0 stays 0
coefficients = np.array([[0.5, 0.1, 0.1, 0.2], [0, 0, 0.6, 0]])
# onnxruntime's probit has an error of 2e-4.
write("transforms", transforms, shares, {"out_probit": np.float32(scipy.stats.norm.ppf(shares @ coefficients.T))})

# Every kind of branch, sets of values, NaN, and leaves of several targets, with each aggregate.
tensor = onnx.helper.make_tensor


def ensemble(aggregate):
    return onnx.helper.make_node(
        "TreeEnsemble", ["x"], [f"y{aggregate}"], domain="ai.onnx.ml", n_targets=2, aggregate_function=aggregate,
        tree_roots=[0, 3, 5], nodes_featureids=[0, 1, 2, 3, 0, 1, 2],
        nodes_modes=tensor("modes", onnx.TensorProto.UINT8, [7], [0, 1, 2, 3, 4, 5, 6]),
        nodes_splits=tensor("splits", onnx.TensorProto.FLOAT, [7], [0.5, 1, 0, 1, 2, 0, 0]),
        nodes_truenodeids=[1, 0, 2, 4, 5, 6, 6], nodes_trueleafs=[0, 1, 1, 0, 1, 0, 1],
        nodes_falsenodeids=[2, 1, 3, 4, 6, 7, 7], nodes_falseleafs=[0, 1, 1, 1, 1, 1, 1],
        nodes_missing_value_tracks_true=[1, 0, 0, 1, 0, 1, 0],
        membership_values=tensor("members", onnx.TensorProto.FLOAT, [4], [0, 1, 2, np.nan]),
        leaf_targetids=[0, 1, 0, 1, 0, 1, 0, 1],
        leaf_weights=tensor("weights", onnx.TensorProto.FLOAT, [8], [1, 2, 3, -4, 5, -6, 7, 8]),
    )


graph = onnx.helper.make_graph(
    [ensemble(aggregate) for aggregate in range(4)],
    "trees",
    [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 4])],
    [onnx.helper.make_tensor_value_info(f"y{i}", onnx.TensorProto.FLOAT, ["batch", 2]) for i in range(4)],
)
opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("ai.onnx.ml", 5)]
integers = draw.integers(-1, 4, (24, 4))
write(
    "trees",
    onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10),
    np.where(draw.random((24, 4)) < 0.1, np.nan, integers).astype(np.float32),
)
onnx.save(exported(LogisticRegression().fit(x, sign), zipmap=True), FOLDER / "ml_zipmap.onnx")
