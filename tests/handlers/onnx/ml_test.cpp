// Models of ai.onnx.ml, as scikit-learn and XGBoost export them: values as onnxruntime computes
// them, derivatives as scikit-learn does (tests/data/onnx_ml_models.py).
#include <stave/handlers/observe/eval_shape.h>
#include <stave/handlers/onnx/onnx.h>
#include <stave/stave.h>

#include "files.h"
#include "matchers.h"

namespace onnx_ml_test {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

const std::string data = STAVE_SOURCE_DIR "/tests/data/onnx/ml_";

struct Example {
  OnnxModel model;
  NamedTensors values;

  explicit Example(const std::string& name)
      : model(load_onnx(data + name + ".onnx")), values(load_npz<NamedTensors>(data + name + ".npz")) {}
  const Tensor& x() const { return values.at("in_x"); }
  NamedTensors operator()(const Tensor& x) const { return model({{"x", x}}); }
};

// The outputs are those of the file. Probabilities of pairs are joined exactly, and by onnxruntime
// with an error of up to 0.005 / 3.
void expect_outputs(const NamedTensors& found, const Example& e, bool is_coupled) {
  for (const auto& [name, x] : found) {
    const Tensor& expected = e.values.at("out_" + name);
    EXPECT_EQ(x.dtype(), expected.dtype()) << name;
    EXPECT_EQ(x.shape(), expected.shape()) << name;
    EXPECT_TRUE(allclose(x, expected, 1e-5, is_coupled ? 0.005 / 3 : 1e-5)) << name << ": " << x << " and " << expected;
  }
}

class OnnxMlModels : public testing::TestWithParam<const char*> {
 public:
  bool is_coupled() const { return std::string(GetParam()) == "svc"; }
};

TEST_P(OnnxMlModels, ComputeWhatOnnxruntimeDoes) {
  const Example e(GetParam());
  expect_outputs(e(e.x()), e, is_coupled());
}
TEST_P(OnnxMlModels, ComputeTheSameWhenCompiled) {
  const Example e(GetParam());
  const auto compiled = compile([&](const Tensor& x) { return e(x); });
  compiled(0.3f - e.x());  // the recording is of other values
  expect_outputs(compiled(e.x()), e, is_coupled());
  EXPECT_EQ(compiled.recordings(), 1u);
}
// Each example is a lane with a batch of one.
TEST_P(OnnxMlModels, AreBatched) {
  const Example e(GetParam());
  NamedTensors found = vmap([&](const Tensor& x) { return e(x(newaxis)); })(e.x());
  for (auto& [name, y] : found) y = squeeze(y, 1);
  expect_outputs(found, e, is_coupled());
}

// No element is read, so shapes and costs are known before anything runs.
TEST_P(OnnxMlModels, HaveShapesWithoutValues) {
  const Example e(GetParam());
  const NamedTensors found = eval_shape([&](const Tensor& x) { return e(x); })(abstract(e.x().shape()));
  for (const auto& [name, x] : found) {
    EXPECT_EQ(x.dtype(), e.values.at("out_" + name).dtype()) << name;
    EXPECT_EQ(x.shape(), e.values.at("out_" + name).shape()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, OnnxMlModels,
                         testing::Values("forest", "forest_of_classes", "forest_of_two", "boosted", "xgboost",
                                         "xgboost_of_two", "pipeline", "svr", "svc", "svc_of_two", "trees", "features",
                                         "labels", "transforms"),
                         [](const auto& model) { return std::string(model.param); });

// The values of leaves are weights of the model.
TEST(OnnxMl, GradientsByLeavesAreThoseOfScikitLearn) {
  const Example e("forest");
  const auto loss = [&](const NamedTensors& weights) {
    return sum(e.values.at("c") * e.model(weights, {{"x", e.x()}}).at("variable")(ellipsis, 0));
  };
  const NamedTensors slope = grad(loss)(e.model.weights());
  ASSERT_EQ(slope.size(), 1u);
  EXPECT_TRUE(allclose(slope.at("variable.target_weights"), e.values.at("by_leaf"), 1e-5, 1e-6));
  const auto direction = NamedTensors{{"variable.target_weights", e.values.at("by_leaf")}};
  EXPECT_NEAR(std::get<1>(jvp(loss, e.model.weights(), direction)).item<double>(),
              sum(square(e.values.at("by_leaf"))).item<double>(), 1e-4);
  EXPECT_TRUE(allclose(compile(grad(loss))(e.model.weights()).at("variable.target_weights"), e.values.at("by_leaf"),
                       1e-5, 1e-6));
}

// jacfwd and jacrev of each example, as lanes.
TEST(OnnxMl, DerivativesByFeaturesAreThoseOfScikitLearn) {
  for (const auto& [name, output] : {std::pair("pipeline", "probabilities"), std::pair("svr", "variable")}) {
    const Example e(name);
    const auto f = [&, output = std::string(output)](const Tensor& x) { return e(x(newaxis)).at(output)[0]; };
    const Tensor &at = e.values.at("at"), &slopes = e.values.at("slopes");
    EXPECT_TRUE(allclose(vmap(jacfwd(f))(at), slopes, 1e-3, 1e-4)) << name;
    EXPECT_TRUE(allclose(vmap(jacrev(f))(at), slopes, 1e-3, 1e-4)) << name;
  }
}

TEST(OnnxMl, MapsAreRefusedWithAdvice) {
  EXPECT_THAT(message_of<FileError>([] { load_onnx(data + "zipmap.onnx"); }),
              HasSubstr("'output_probability' is a map, which Stave does not have: export the model without ZipMap "
                        "(zipmap=False in skl2onnx)"));
}

// A byte of the file is changed: a node follows itself, or a feature is beyond the last one.
TEST(OnnxMl, DamagedTreesAreRefused) {
  const Example e("trees");
  const std::string bytes = bytes_of(data + "trees.onnx");
  const auto with = [&](const std::string& attribute, std::size_t entry, char value) {
    std::string changed = bytes;
    changed[changed.find(attribute) + attribute.size() + 1 + 2 * entry] = value;
    return message_of<Error>([&] { read_onnx(changed)({{"x", e.x()}}); });
  };
  EXPECT_THAT(with("nodes_truenodeids", 0, 0), HasSubstr("the nodes of a tree form a cycle"));
  EXPECT_THAT(with("nodes_truenodeids", 0, 99), HasSubstr("a tree has no node 99"));
  EXPECT_THAT(with("nodes_featureids", 0, 9), HasSubstr("a tree reads feature 9 of 4"));
}

}  // namespace onnx_ml_test
