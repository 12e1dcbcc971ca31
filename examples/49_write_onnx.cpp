// A function and its gradient as a model of ONNX, which onnx/run.py runs by onnxruntime.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <stave/handlers/onnx/onnx.h>
#include <stave/handlers/onnx/write_onnx.h>
#include <stave/stave.h>

#include "check.h"

using namespace stave;

Tensor loss(const Tensor& w, const Tensor& x, const Tensor& y) { return mean(square(tanh(matmul(x, w)) - y)); }

int main() {
  const Tensor w = tensor({0.5, -1.}), x = tensor({{1., 2.}, {3., 4.}}), y = tensor({1., -1.});
  const auto program = trace(value_and_grad(loss))(w, x, y);

  const std::string file = (std::filesystem::temp_directory_path() / "49_write_onnx.onnx").string();
  std::ofstream out(file, std::ios::binary);
  write_onnx(out, program, {.inputs = {"w", "x", "y"}, .outputs = {"loss", "gradient"}});
  out.close();

  // The model is a function again.
  const NamedTensors found = load_onnx(file)({{"w", w}, {"x", x}, {"y", y}});
  std::cout << "loss " << found.at("loss") << ", gradient " << found.at("gradient") << "\n" << std::flush;
  check(allclose(found.at("gradient"), grad(loss)(w, x, y)), "the model computes the gradient");

  // With a Python that has onnxruntime (STAVE_PYTHON names it), onnxruntime runs the file.
  const char* const given = std::getenv("STAVE_PYTHON");
  const std::string python = given ? given : "python3";
  if (std::system((python + " -c 'import onnxruntime' 2> /dev/null").c_str()) == 0)
    check(std::system((python + " -B " STAVE_EXAMPLE_DATA "/../onnx/run.py " + file).c_str()) == 0,
          "onnxruntime computes the same gradient");

  // Operations that ONNX lacks are refused by name.
  const auto lowest = [](const Tensor& a) { return eigvalsh(a)[0]; };
  check(throws<TransformError>([&] { write_onnx(std::cout, trace(lowest)(eye(2))); }), "eigvalsh is refused");
  std::filesystem::remove(file);
}
