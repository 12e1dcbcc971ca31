// Models of ONNX as functions: values as onnxruntime computes them, gradients as PyTorch does
// (tests/data/onnx_models.py), and every transform of them. node_tests.cpp tests the operators.
#include <fstream>
#include <sstream>

#include <stave/core/io/programs.h>
#include <stave/handlers/onnx/onnx.h>
#include <stave/stave.h>

#include "files.h"
#include "matchers.h"

namespace onnx_test {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string data = STAVE_SOURCE_DIR "/tests/data/onnx/";

struct Example {
  OnnxModel model;
  NamedTensors inputs, outputs, others;

  explicit Example(const std::string& name, const std::string& values = "") : model(load_onnx(data + name + ".onnx")) {
    for (const auto& [key, x] : load_npz<NamedTensors>(data + (values.empty() ? name : values) + ".npz"))
      if (key.starts_with("in_")) inputs.emplace(key.substr(3), x);
      else if (key.starts_with("out_")) outputs.emplace(key.substr(4), x);
      else others.emplace(key, x);
  }
  const Tensor& x() const { return inputs.at("x"); }
};

void expect_close(const NamedTensors& found, const NamedTensors& expected, double tolerance = 1e-5) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, x] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_EQ(found.at(name).shape(), x.shape()) << name;
    EXPECT_TRUE(allclose(found.at(name), x, tolerance, tolerance)) << name << ": " << found.at(name) << " and " << x;
  }
}

// ---- values -------------------------------------------------------------------------------------

class OnnxModels : public testing::TestWithParam<const char*> {};

TEST_P(OnnxModels, ComputeWhatOnnxruntimeDoes) {
  const Example e(GetParam());
  expect_close(e.model(e.inputs), e.outputs);
}
// compile records the model once. The result of the recording, and of its replay, are the model's.
TEST_P(OnnxModels, ComputeTheSameWhenCompiledAndTraced) {
  const Example e(GetParam());
  const auto compiled = compile([&](const NamedTensors& inputs) { return e.model(inputs); });
  const auto traced = trace([&](const NamedTensors& inputs) { return e.model(inputs); })(e.inputs);
  for (int i = 0; i < 2; ++i) expect_close(compiled(e.inputs), e.outputs);
  EXPECT_EQ(compiled.recordings(), 1u);
  expect_close(traced(e.inputs), e.outputs);
}
// Two examples at once, of which each gets the result that it gets alone.
TEST_P(OnnxModels, AreBatched) {
  const Example e(GetParam());
  const Tensor other = -0.7f * e.x();
  const auto f = [&](const Tensor& x) { return e.model({{"x", x}}); };
  const bool lanes_loop_differently = std::string(GetParam()) == "while";
  const NamedTensors both = vmap(f)(stack({e.x(), lanes_loop_differently ? 9 * e.x() : other}));
  const NamedTensors first = f(e.x()), second = f(lanes_loop_differently ? 9 * e.x() : other);
  for (const auto& [name, x] : both) {
    EXPECT_TRUE(allclose(x[0], first.at(name), 1e-5, 1e-6)) << name;
    EXPECT_TRUE(allclose(x[1], second.at(name), 1e-5, 1e-6)) << name;
  }
}
// Forward mode, reverse mode and differences agree, also in a compiled function.
TEST_P(OnnxModels, HaveDerivatives) {
  const Example e(GetParam());
  const auto f = [&](const Tensor& x) {
    Tensor total = tensor(0., float64);
    for (const auto& [name, y] : e.model({{"x", x}})) total = total + sum(astype(y, float64) * cos(astype(y, float64)));
    return total;
  };
  const Tensor x = e.x(), v = reshape(cos(arange(static_cast<double>(x.size()))), x.shape());
  const double h = 1. / 512;
  const double slope = ((f(x + h * v) - f(x - h * v)) / (2 * h)).item<double>();
  EXPECT_NEAR(sum(grad(f)(x) * v).item<double>(), slope, 2e-2 * (1 + std::abs(slope)));
  EXPECT_NEAR(std::get<1>(jvp(f, x, v)).item<double>(), sum(grad(f)(x) * v).item<double>(),
              1e-4 * (1 + std::abs(slope)));
  EXPECT_TRUE(allclose(compile(grad(f))(x), grad(f)(x), 1e-4, 1e-5));
}

INSTANTIATE_TEST_SUITE_P(All, OnnxModels,
                         testing::Values("mlp", "heads", "control_flow", "while", "functions", "quantized",
                                         "matmul_n_bits"),
                         [](const auto& model) { return std::string(model.param); });

TEST(Onnx, OldOpsetsHaveTheirDefaults) {
  const Example e("opset9");
  expect_close(e.model(e.inputs), e.outputs);
}

TEST(Onnx, GradientsByWeightsAreThoseOfPyTorch) {
  const Example e("mlp");
  const auto loss = [&](const NamedTensors& w) {
    return mean(square(e.model(w, e.inputs).at("y") - e.others.at("target")));
  };
  const auto [value, gradient] = value_and_grad(loss)(e.model.weights());
  EXPECT_NEAR(value.item<float>(), e.others.at("loss").item<float>(), 1e-5);
  ASSERT_EQ(gradient.size(), 4u);
  for (const auto& [name, g] : gradient) EXPECT_TRUE(allclose(g, e.others.at("grad_" + name), 1e-4, 1e-5)) << name;
}

TEST(Onnx, GradientsOfEachExampleSumToThatOfTheBatch) {
  const Example e("mlp");
  const auto loss = [&](const NamedTensors& w, const Tensor& x) {
    return sum(square(e.model(w, {{"x", reshape(x, {-1, 3})}}).at("y")));
  };
  const NamedTensors each = vmap(grad(loss), {.in_axes = {unmapped, 0}})(e.model.weights(), e.x());
  const NamedTensors all = grad(loss)(e.model.weights(), e.x());
  for (const auto& [name, g] : all) {
    EXPECT_TRUE(allclose(sum(each.at(name), 0), g, 1e-4, 1e-5)) << name;
    EXPECT_GT(norm(g).item<double>(), 0.1) << name;
  }
}

// Models are passed to transforms as they are, with or without weights.
TEST(Onnx, TransformsTakeModels) {
  const Example e("mlp");
  const OnnxModel& model = e.model;
  const NamedTensors weights = model.weights(), batch{{"x", stack({e.x(), -e.x()})}};
  const Tensor expected = e.outputs.at("y");
  EXPECT_THAT(compile(model)(e.inputs).at("y"), IsNear(expected, 1e-5));
  EXPECT_THAT(trace(model)(e.inputs)(e.inputs).at("y"), IsNear(expected, 1e-5));
  EXPECT_THAT(vmap(model)(batch).at("y")[0], IsNear(expected, 1e-5));
  EXPECT_THAT(std::get<0>(harvest(model, {.tag = "onnx"})(e.inputs)).at("y"), IsNear(expected, 1e-5));
  EXPECT_THAT(debug(model, {.print = false})(e.inputs).at("y"), IsNear(expected, 1e-5));

  const auto program = trace(model)(weights, e.inputs);
  EXPECT_EQ(program.inputs.size(), 5u);
  NamedTensors shifted = weights;
  shifted.at("b2") = weights.at("b2") + 1;
  EXPECT_THAT(program(shifted, e.inputs).at("y"), IsNear(expected + 1, 1e-5));
  EXPECT_THAT(compile(model)(shifted, e.inputs).at("y"), IsNear(expected + 1, 1e-5));
}

// A program of a model is written and read like any other.
TEST(Onnx, ProgramsOfModelsAreSaved) {
  const Example e("control_flow");
  const Folder folder;
  save_program(folder / "p.stave", trace([&](const Tensor& x) { return e.model({{"x", x}}).at("all"); })(e.x()));
  EXPECT_THAT(load_program(folder / "p.stave")(std::vector{e.x()})[0], IsNear(e.outputs.at("all"), 1e-5));
}

// ---- what handlers see --------------------------------------------------------------------------

TEST(Onnx, ShapesAreComputedBelowHandlers) {
  const Example e("heads");
  std::ostringstream out;
  debug([&](const Tensor& x) { return e.model({{"x", x}}); }, {.out = &out})(e.x());
  EXPECT_THAT(out.str(), HasSubstr("matmul"));
  EXPECT_THAT(out.str(), testing::Not(HasSubstr("concat")));
  EXPECT_THAT(out.str(), testing::Not(HasSubstr("i64")));
}

TEST(Onnx, ALoopOfAKnownNumberOfStepsIsRecordedAsOne) {
  const Example e("control_flow");
  const Program p = trace([&](const Tensor& x) { return e.model({{"x", x}}).at("last"); })(e.x());
  EXPECT_THAT(p.str(), HasSubstr("loop a f b a steps=5 states=1 rows=1"));
}

TEST(Onnx, ValuesAreGatheredAndReplacedByTheirNames) {
  const Example e("mlp");
  const auto f = [&](const Tensor& x) { return e.model({{"x", x}}).at("y"); };
  const auto [y, sown] = harvest(f, {.tag = "onnx"})(e.x());
  std::vector<std::string> names;
  for (const auto& [name, value] : sown) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("hidden", "sums", "y"));
  EXPECT_TRUE(allclose(sown.at("hidden"), tanh(sown.at("sums")), 1e-5, 1e-6));
  const Tensor ablated = plant(f, {{"hidden", zeros_like(sown.at("hidden"))}}, {.tag = "onnx"})(e.x());
  EXPECT_TRUE(allclose(ablated, broadcast_to(e.model.weights().at("b2"), {5, 2}), 1e-6, 1e-6));
}

TEST(Onnx, OperationsHaveTheNamesOfNodesAndValues) {
  const Example e("mlp");
  const std::string text = trace([&](const Tensor& x) { return e.model({{"x", x}}); })(e.x()).str();
  EXPECT_THAT(text, HasSubstr("@first"));
  EXPECT_THAT(text, HasSubstr("f32[5,4] \"hidden\" = tanh"));
}

// ---- files --------------------------------------------------------------------------------------

TEST(Onnx, ExternalDataAreMapped) {
  const Example e("mlp_external", "mlp");
  expect_close(e.model(e.inputs), e.outputs);
  std::ifstream maps("/proc/self/maps");
  const std::string all(std::istreambuf_iterator<char>(maps), {});
  EXPECT_THAT(all, HasSubstr("mlp_external.weights"));
}

TEST(Onnx, AModelDescribesItself) {
  const OnnxModel model = load_onnx(data + "heads.onnx");
  ASSERT_EQ(model.inputs().size(), 1u);
  EXPECT_EQ(model.inputs()[0].str(), "x: float32[batch,steps,6]");
  EXPECT_EQ(model.outputs()[0].str(), "y: float32[batch,steps,6]");
  EXPECT_EQ(model.weights().size(), 2u);
}

TEST(Onnx, MemoryHasNoExternalData) {
  const std::string bytes = bytes_of(data + "mlp_external.onnx");
  EXPECT_THAT(message_of<Error>([&] { read_onnx(bytes); }), HasSubstr("was not read from a file: use load_onnx"));
  const Folder folder;
  EXPECT_THAT(message_of<Error>([&] { load_onnx(with_bytes(folder / "m.onnx", bytes)); }),
              HasSubstr("mlp_external.weights"));
  std::string outside = bytes;
  outside.replace(outside.find("mlp_external.weights"), 20, "../p_external.weight");
  EXPECT_THAT(message_of<Error>([&] { load_onnx(with_bytes(folder / "m.onnx", outside)); }),
              HasSubstr("lies in the file '../p_external.weight', which is not below the folder of the model"));
}

TEST(Onnx, InputsAreChecked) {
  const Example e("heads");
  EXPECT_THAT(message_of<Error>([&] { e.model({}); }),
              HasSubstr("onnx: the input x: float32[batch,steps,6] is missing"));
  EXPECT_THAT(message_of<Error>([&] {
                e.model({{"x", e.x()}, {"z", e.x()}});
              }),
              HasSubstr("onnx: the model has no input 'z': it takes x: float32[batch,steps,6]"));
  EXPECT_THAT(message_of<Error>([&] {
                e.model({{"x", zeros({2, 6})}});
              }),
              HasSubstr("onnx: the input 'x' is float32[2,6]: the model declares x: float32[batch,steps,6]"));
  EXPECT_THAT(message_of<Error>([&] {
                e.model({{"x", zeros({2, 4, 6}, float64)}});
              }),
              HasSubstr("onnx: the input 'x' is float64[2,4,6]"));
  NamedTensors weights = e.model.weights();
  weights.at("wq") = zeros({6, 5});
  EXPECT_THAT(message_of<Error>([&] { e.model(weights, e.inputs); }),
              HasSubstr("onnx: the weight 'wq' has the shape [6,5] and should have [6,6]"));
  weights.erase("wq");
  EXPECT_THAT(message_of<Error>([&] { e.model(weights, e.inputs); }), HasSubstr("onnx: the weight 'wq' is missing"));
}

// A byte of the operator's name is changed, or the version of the opset.
TEST(Onnx, UnsupportedModelsAreRefusedByName) {
  const auto with = [](std::string bytes, const std::string& from, const std::string& to) {
    bytes.replace(bytes.find(from), from.size(), to);
    return message_of<Error>([&] { read_onnx(bytes); });
  };
  const std::string mlp = bytes_of(data + "mlp.onnx");
  EXPECT_THAT(with(mlp, "Tanh", "Tanz"),
              HasSubstr("read_onnx: the model needs what Stave does not support: node 'activation' (Tanz, opset 21): "
                        "there is no such operator"));
  EXPECT_THAT(with(mlp, std::string("\x0a\x00\x10\x15", 4), std::string("\x0a\x00\x10\x7f", 4)),
              HasSubstr("node 'activation' (Tanh, opset 127): opsets are supported up to 28"));
  EXPECT_THAT(with(mlp, "hidden", "hiddem"), HasSubstr("reads the value 'hidden', which no input"));
  EXPECT_THAT(message_of<Error>([] { read_onnx("not a model"); }), HasSubstr("read_onnx: "));
  EXPECT_THAT(message_of<Error>([] { read_onnx(""); }), HasSubstr("read_onnx: there is no graph"));
}

// Weights of four and eight bits become numbers in DequantizeLinear, and nowhere else.
TEST(Onnx, OnlyDequantizeLinearTakesNarrowTypes) {
  const OnnxModel model = load_onnx(data + "quantized.onnx");
  std::vector<std::string> names;
  for (const auto& [name, x] : model.weights()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("s4", "s8"));
  std::string bytes = bytes_of(data + "quantized.onnx");
  const std::string h_of("\x0a\x01x\x0a\x01\x61", 6);
  ASSERT_NE(bytes.find(h_of), bytes.npos);
  bytes.replace(bytes.find(h_of), 6, std::string("\x0a\x02w4\x0a\x00", 6));  // h = MatMul (w4, )
  EXPECT_THAT(message_of<Error>([&] { read_onnx(bytes); }),
              HasSubstr("(MatMul, opset 21) reads 'w4' of type INT4, which only DequantizeLinear takes"));
}

// The weights are read as they are packed: no float matrix of them is computed.
TEST(Onnx, MatMulNBitsIsAProductWithQuantizedWeights) {
  const Example e("matmul_n_bits");
  const Program program = trace([&](const NamedTensors& inputs) { return e.model(inputs); })(e.inputs);
  EXPECT_THAT(program.str(), AllOf(HasSubstr("= quantized_matmul i b c d bits=4 transpose"),
                                   HasSubstr("= quantized_matmul q e f bits=8 transpose"), Not(HasSubstr("= matmul"))));
  std::string bytes = bytes_of(data + "matmul_n_bits.onnx");
  const std::string bits("bits\x18\x08", 6);
  ASSERT_NE(bytes.find(bits), bytes.npos);
  bytes[bytes.find(bits) + 5] = 2;
  EXPECT_THAT(message_of<Error>([&] { read_onnx(bytes)(e.inputs); }),
              HasSubstr("(com.microsoft.MatMulNBits, opset 1): weights have 4 or 8 bits, not 2"));
}

TEST(Onnx, ErrorsNameTheNode) {
  std::string bytes = bytes_of(data + "control_flow.onnx");
  // The declared length of x is changed, so that a product in the loop's body fails.
  const std::string declared("\x0a\x01x\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x03", 15);
  ASSERT_NE(bytes.find(declared), bytes.npos);
  bytes[bytes.find(declared) + 14] = 2;
  EXPECT_THAT(message_of<Error>([&] {
                read_onnx(bytes)({{"x", ones({2})}});
              }),
              HasSubstr("(Loop, opset 21): node 'half' (Mul, opset 21): multiply: shapes [2] and [3]"));
}

}  // namespace onnx_test
