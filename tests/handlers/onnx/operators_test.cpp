// Operators whose inputs are wrong, or ask for more than a machine has: errors, in a moment, that
// name the node. node_tests.cpp tests the values of operators.
#include <string>
#include <vector>

#include <stave/handlers/onnx/builder.h>
#include <stave/handlers/onnx/onnx.h>
#include <stave/stave.h>

#include "matchers.h"

namespace onnx_operators_test {

using namespace stave;
using namespace stave_test;
using stave_detail::onnx_attribute, stave_detail::OnnxAttributes, stave_detail::ProtobufWriter;
using testing::HasSubstr;

constexpr double huge = 0x1p45;

/// The bytes of a model of one node, whose inputs are constants and whose one result is float32 by
/// declaration. An empty Tensor is an input that is left out.
std::string model_of(std::string_view op, const std::vector<Tensor>& inputs, const OnnxAttributes& attributes = {}) {
  int names = 0;
  stave_detail::OnnxBuilder b(names);
  stave_detail::OnnxOuts given;
  for (const Tensor& x : inputs) given.push_back(x.defined() ? b.constant(x) : stave_detail::OnnxOut{&b});
  const stave_detail::OnnxOut y = b.emit(op, given, float32, Shape{}, attributes);
  ProtobufWriter model;
  model.integer(1, 9).message(7, b.graph("g", {}, {y})).message(8, ProtobufWriter().text(1, "").integer(2, 22));
  return model.bytes;
}
Tensor result_of(const std::string& model) { return read_onnx(model)(NamedTensors()).begin()->second; }
std::string error_of(const std::string& model) {
  return message_of<Error>([&] { result_of(model); });
}

Tensor one(double x) { return tensor(x, float32); }
Tensor integer(double x) { return tensor(static_cast<std::int64_t>(x), int64); }

TEST(OnnxOperators, InputsThatAreMissingAreErrors) {
  EXPECT_THAT(error_of(model_of("Identity", {})), HasSubstr("(Identity, opset 22): input 0 is missing"));
  const Tensor none = zeros({0}, float32);
  EXPECT_THAT(error_of(model_of("OneHot", {integer(1), none, ones({2})})),
              HasSubstr("(OneHot, opset 22): input 1 should be one number, and has 0 elements"));
  EXPECT_THAT(error_of(model_of("Range", {none, one(1), one(1)})),
              HasSubstr("(Range, opset 22): input 0 should be one number, and has 0 elements"));
  EXPECT_THAT(error_of(model_of("Dropout", {ones({2}), none, tensor(true)})),
              HasSubstr("(Dropout, opset 22): input 1 should be one number, and has 0 elements"));
}

TEST(OnnxOperators, ResultsThatABranchDoesNotGiveAreErrors) {
  const ProtobufWriter empty = ProtobufWriter().text(2, "empty");
  EXPECT_THAT(error_of(model_of("If", {tensor(true)},
                                {stave_detail::onnx_graph_attribute("then_branch", empty),
                                 stave_detail::onnx_graph_attribute("else_branch", empty)})),
              HasSubstr("(If, opset 22): it has the output"));
}

TEST(OnnxOperators, ResultsThatNoMachineHoldsAreErrors) {
  const Tensor row = ones({1, 3});
  EXPECT_THAT(error_of(model_of("MelWeightMatrix", {integer(0x1p20), integer(huge), integer(1000), one(0), one(100)})),
              HasSubstr("numbers would be computed one by one"));
  EXPECT_THAT(error_of(model_of("MelWeightMatrix", {integer(huge), integer(8), integer(1000), one(0), one(100)})),
              HasSubstr("numbers would be computed one by one"));
  EXPECT_THAT(error_of(model_of("HannWindow", {integer(huge)})), HasSubstr("not enough memory"));
  EXPECT_THAT(error_of(model_of("Resize", {row, Tensor(), Tensor(), from(std::vector<Index>{1, Index{1} << 45})})),
              HasSubstr("numbers would be computed one by one"));
  EXPECT_THAT(error_of(model_of("Resize", {row, Tensor(), from(std::vector<float>{1, 1e30f})})),
              HasSubstr("(Resize, opset 22): an axis cannot be resized to 3"));
  EXPECT_THAT(error_of(model_of("Resize", {row, Tensor(), from(std::vector<float>{1, -1})})),
              HasSubstr("(Resize, opset 22): an axis cannot be resized to -3"));
  EXPECT_THAT(error_of(model_of("RoiAlign", {ones({1, 1, 4, 4}), ones({1, 4}), zeros({1}, int64)},
                                {onnx_attribute("output_width", Index{1} << 45)})),
              HasSubstr("numbers would be computed one by one"));
  const auto padded = [&](double before, double after) {
    return error_of(model_of(
        "Pad", {row, from(std::vector<Index>{0, static_cast<Index>(before), 0, static_cast<Index>(after)}), one(0)},
        {onnx_attribute("mode", "edge")}));
  };
  EXPECT_THAT(padded(huge, 0), HasSubstr("not enough memory"));
  EXPECT_THAT(padded(0x1p62, 0x1p62), HasSubstr("and length 3 of axis 1 are too much for an axis"));
}

// Forty functions, each of which calls the one before it twice.
TEST(OnnxOperators, FunctionsThatComeToTooManyNodesAreErrors) {
  const auto node = [](std::string_view op, std::string_view x, std::string_view y, std::string_view domain) {
    return ProtobufWriter().text(1, x).text(2, y).text(4, op).text(7, domain);
  };
  ProtobufWriter model;
  const ProtobufWriter x = ProtobufWriter().text(1, "x"), y = ProtobufWriter().text(1, "y");
  model.integer(1, 9).message(
      7, ProtobufWriter().message(1, node("f39", "x", "y", "d")).text(2, "g").message(11, x).message(12, y));
  for (const char* domain : {"", "d"}) model.message(8, ProtobufWriter().text(1, domain).integer(2, 22));
  for (int k = 0; k < 40; ++k) {
    const std::string name = "f" + std::to_string(k), before = "f" + std::to_string(k - 1);
    ProtobufWriter function;
    function.text(1, name).text(4, "a").text(5, "b").text(10, "d");
    if (k == 0) function.message(7, node("Neg", "a", "b", ""));
    else function.message(7, node(before, "a", "t", "d")).message(7, node(before, "t", "b", "d"));
    model.message(25, function);
  }
  EXPECT_THAT(error_of(model.bytes), HasSubstr("the functions of the model come to more than 100000000 nodes"));
}

// ONNX clamps the start of a slice that runs backwards into the axis; Python's slice is empty.
TEST(OnnxOperators, SlicesAreThoseOfOnnx) {
  const Tensor x = reshape(arange(0, 6, 1, float32), {3, 2});
  const auto sliced = [&](Index start, Index end, Index step) {
    const auto list = [](Index i) { return from(std::vector<Index>{i}); };
    return result_of(model_of("Slice", {x, list(start), list(end), list(0), list(step)}));
  };
  constexpr Index least = std::numeric_limits<Index>::min(), most = std::numeric_limits<Index>::max();
  const Tensor row = tensor({{0.f, 1.f}});
  EXPECT_THAT(sliced(-8, least, -2), Equals(row));
  EXPECT_THAT(sliced(-3, least, -1), Equals(row));
  EXPECT_THAT(sliced(0, least, -1), Equals(row));
  EXPECT_THAT(sliced(most, least, -2), Equals(tensor({{4.f, 5.f}, {0.f, 1.f}})));
  EXPECT_THAT(sliced(-8, 1, 1), Equals(row));
  EXPECT_EQ(sliced(-8, 0, -1).shape(), (Shape{0, 2}));
}

// A box whose score is NaN is the last one.
TEST(OnnxOperators, NanIsTheLeastScore) {
  const Tensor boxes = reshape(arange(0, 12, 1, float32), {1, 3, 4});  // they do not overlap
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor scores = tensor({{{nan, 0.25f, 0.5f}}});
  const Tensor selected = result_of(model_of("NonMaxSuppression", {boxes, scores, integer(3), one(0.5), one(-1)}));
  EXPECT_TRUE(array_equal(selected, tensor({{0, 0, 2}, {0, 0, 1}}, int64))) << selected;
}

}  // namespace onnx_operators_test
