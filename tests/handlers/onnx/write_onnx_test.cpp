// write_onnx: programs as models, which read_onnx reads again. onnx_table.cpp and
// run_onnxruntime.py compare all operations with onnxruntime.
#include <sstream>

#include <stave/handlers/onnx/onnx.h>
#include <stave/handlers/onnx/write_onnx.h>
#include <stave/stave.h>

#include "matchers.h"

namespace write_onnx_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;

const Tensor w = tensor({{0.5, -1.}, {0.25, 2.}, {-0.75, 0.5}}), x = tensor({{1., 2., 3.}, {-4., 5., -6.}});

std::string written(const Program& program, const WriteOnnxOptions& options = {}) {
  std::ostringstream out;
  write_onnx(out, program, options);
  return out.str();
}
// The results of a program's model, in the order of their names.
std::vector<Tensor> results(const Program& program, const std::vector<Tensor>& inputs) {
  const OnnxModel model = read_onnx(written(program));
  NamedTensors given;
  for (std::size_t i = 0; i < inputs.size(); ++i) given.emplace("input_" + std::to_string(i), inputs[i]);
  std::vector<Tensor> all;
  for (const auto& [name, y] : model(given)) all.push_back(y);
  return all;
}
std::string error_of(const Program& program) {
  return message_of<TransformError>([&] { written(program); });
}

TEST(WriteOnnx, AFunctionAndItsGradient) {
  const auto loss = [](const Tensor& a, const Tensor& b) {
    return sum(log_softmax(tanh(matmul(b, a))) * b(slice(), slice(2)));
  };
  const auto found = results(trace(grad(loss))(w, x), {w, x});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0], IsNear(grad(loss)(w, x), 1e-5));
}

TEST(WriteOnnx, NamesAreThoseOfLabelsAndOptions) {
  const auto f = [](const Tensor& a, const Tensor& b) {
    return std::pair(label(a + 1, "sum"), label(matmul(b, a), "y"));
  };
  const auto names = [](const std::vector<OnnxArgument>& all) {
    std::vector<std::string> found;
    for (const OnnxArgument& one : all) found.push_back(one.str());
    return found;
  };
  const Program program = trace(f)(label(w, "w"), x);
  const OnnxModel by_labels = read_onnx(written(program));
  EXPECT_THAT(names(by_labels.inputs()), ElementsAre("w: float32[3,2]", "input_1: float32[2,3]"));
  EXPECT_THAT(names(by_labels.outputs()), ElementsAre("sum: float32[3,2]", "y: float32[2,2]"));
  const OnnxModel by_options = read_onnx(written(program, {.inputs = {"p", "q"}, .outputs = {"r"}}));
  EXPECT_THAT(names(by_options.inputs()), ElementsAre("p: float32[3,2]", "q: float32[2,3]"));
  EXPECT_THAT(names(by_options.outputs()), ElementsAre("r: float32[3,2]", "y: float32[2,2]"));
  EXPECT_EQ(by_options.producer(), "Stave");
}

// Loops over rows in either direction, with captured values; without rows; in each other; and of no
// steps.
TEST(WriteOnnx, Loops) {
  const auto step = [](const Tensor& state, const Tensor& row) {
    return std::pair(sin(state) * row + w(0, 1), state + row);
  };
  const auto states = [&](const Tensor& start, const Tensor& rows) {
    const auto [last, all] = scan(step)(start, rows);
    return std::pair(last, std::pair(all, scan(step, {.reverse = true})(start, rows).second));
  };
  const Tensor start = tensor({0.5, -0.25}), rows = reshape(cos(arange(12.)), {6, 2});
  const auto found = results(trace(states)(start, rows), {start, rows});
  const auto [last, both] = states(start, rows);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_THAT(found[0], IsNear(last, 1e-5));
  EXPECT_THAT(found[1], IsNear(both.first, 1e-5));
  EXPECT_THAT(found[2], IsNear(both.second, 1e-5));

  const auto power = [](const Tensor& a) {
    return loop(5, [](const Tensor& b) { return loop(4, [](const Tensor& c) { return c * 0.9 + 0.1; })(b) * b; })(a);
  };
  EXPECT_THAT(results(trace(power)(start), {start}).at(0), IsNear(power(start), 1e-5));
  const auto slope = grad([&](const Tensor& a) { return sum(states(a, rows).first); });
  EXPECT_THAT(results(trace(slope)(start), {start}).at(0), IsNear(slope(start), 1e-5));
}

TEST(WriteOnnx, FunctionsOfCheckpointsAreWrittenInPlace) {
  const auto f = [](const Tensor& a) { return checkpoint([](const Tensor& b) { return exp(sin(b)) * b; })(a) + 1; };
  const auto slope = grad([&](const Tensor& a) { return sum(f(a)); });
  EXPECT_THAT(results(trace(f)(x), {x}).at(0), IsNear(f(x), 1e-5));
  EXPECT_THAT(results(trace(slope)(x), {x}).at(0), IsNear(slope(x), 1e-5));
}

TEST(WriteOnnx, WhatOnnxLacksIsRefusedByName) {
  EXPECT_THAT(error_of(trace([](const Tensor& a) { return lgamma(a); })(x)),
              HasSubstr("write_onnx: lgamma (f32[2,3]) cannot be written as ONNX: it has no counterpart"));
  EXPECT_THAT(error_of(trace([](const Tensor& a) { return real(fft(a)); })(x)), HasSubstr("it has complex numbers"));
  EXPECT_THAT(error_of(optimized(trace([](const Tensor& a) { return sin(a) * a + 1; })(x))),
              HasSubstr("write the program before it is optimized"));
  EXPECT_THAT(error_of(trace([](const Tensor& a) { return sum(a).item<float>() > 0 ? a : -a; })(x)),
              HasSubstr("write_onnx: the program read the value"));
  EXPECT_THROW(written(trace([](const Tensor& a) { return a; })(x), {.inputs = {"a"}, .outputs = {"a"}}),
               TransformError);
}

}  // namespace write_onnx_test
