"""Models with random weights for inference.cpp and peer_onnx.py, as ONNX files:

    python3 onnx_models.py FOLDER

mlp.onnx      three hidden layers of 1024, for digits of 784 pixels
resnet.onnx   ResNet-18 (He et al. 2015) for images of 224 x 224, with batch normalisation
encoder.onnx  a transformer's encoder: six layers, 512 wide, eight heads, 64 tokens

The batch is a symbolic length. Operators are those that exporters write.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHAPES = {"mlp": (784,), "resnet": (3, 224, 224), "encoder": (64, 512)}
random = np.random.default_rng(0)


def weights(*shape, terms):
    return random.standard_normal(shape) * np.sqrt(2 / terms)


class Graph:
    def __init__(self):
        self.nodes, self.initializers = [], []

    def constant(self, values, dtype=np.float32):
        name = f"w{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def add(self, operator, *inputs, **attributes):
        name = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def save(self, path, shape, output, output_shape):
        self.nodes.append(helper.make_node("Identity", [output], ["output"]))
        value = lambda name, lengths: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *lengths])
        graph = helper.make_graph(self.nodes, "model", [value("input", shape)], [value("output", output_shape)],
                                  self.initializers)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def mlp(path):
    graph, x, widths = Graph(), "input", [784, 1024, 1024, 1024, 10]
    for i, (before, after) in enumerate(zip(widths, widths[1:])):
        x = graph.add("Gemm", x, graph.constant(weights(after, before, terms=before)),
                      graph.constant(0.1 * random.standard_normal(after)), transB=1)
        if i < 3:
            x = graph.add("Relu", x)
    graph.save(path, SHAPES["mlp"], x, [10])


def resnet(path):
    graph = Graph()

    def convolution(x, before, after, window, stride):
        x = graph.add("Conv", x, graph.constant(weights(after, before, window, window, terms=before * window**2)),
                      kernel_shape=[window] * 2, strides=[stride] * 2, pads=[window // 2] * 4)
        near_one, near_zero = lambda: random.uniform(0.5, 1.5, after), lambda: 0.1 * random.standard_normal(after)
        return graph.add("BatchNormalization", x, *map(graph.constant, (near_one(), near_zero(), near_zero(), near_one())))

    x = graph.add("Relu", convolution("input", 3, 64, 7, 2))
    x = graph.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    before = 64
    for after, stride in [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]:
        y = graph.add("Relu", convolution(x, before, after, 3, stride))
        y = convolution(y, after, after, 3, 1)
        if stride != 1 or before != after:
            x = convolution(x, before, after, 1, stride)
        x = graph.add("Relu", graph.add("Add", y, x))
        before = after
    x = graph.add("Flatten", graph.add("GlobalAveragePool", x))
    x = graph.add("Gemm", x, graph.constant(weights(1000, 512, terms=512)), graph.constant(np.zeros(1000)), transB=1)
    graph.save(path, SHAPES["resnet"], x, [1000])


def encoder(path):
    graph, x, width, heads, inner = Graph(), "input", 512, 8, 2048
    integers = lambda values: graph.constant(values, np.int64)

    def dense(x, before, after):
        product = graph.add("MatMul", x, graph.constant(weights(before, after, terms=before)))
        return graph.add("Add", product, graph.constant(0.1 * random.standard_normal(after)))

    def norm(x):
        return graph.add("LayerNormalization", x, graph.constant(np.ones(width)), graph.constant(np.zeros(width)),
                         axis=-1, epsilon=1e-5)

    def by_heads(x, order):
        return graph.add("Transpose", graph.add("Reshape", x, integers([0, 0, heads, width // heads])), perm=order)

    for _ in range(6):
        q, k, v = (by_heads(dense(x, width, width), order) for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        scores = graph.add("Div", graph.add("MatMul", q, k), graph.constant(np.sqrt(width / heads)))
        mixed = graph.add("Transpose", graph.add("MatMul", graph.add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        x = norm(graph.add("Add", x, dense(graph.add("Reshape", mixed, integers([0, 0, width])), width, width)))
        y = dense(x, width, inner)
        erf = graph.add("Erf", graph.add("Div", y, graph.constant(np.sqrt(2))))
        gelu = graph.add("Mul", graph.add("Mul", y, graph.add("Add", erf, graph.constant(1))), graph.constant(0.5))
        x = norm(graph.add("Add", x, dense(gelu, inner, width)))
    graph.save(path, SHAPES["encoder"], x, SHAPES["encoder"])


if __name__ == "__main__":
    for make in (mlp, resnet, encoder):
        make(os.path.join(sys.argv[1], f"{make.__name__}.onnx"))
