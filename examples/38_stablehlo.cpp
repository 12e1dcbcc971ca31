// A gradient as StableHLO: the text of a program, which XLA compiles. stablehlo/run.py runs it by
// jaxlib.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <stave/core/program/write_stablehlo.h>
#include <stave/stave.h>

#include "check.h"

using namespace stave;

Tensor loss(const Tensor& w, const Tensor& x, const Tensor& y) { return sum(square(matmul(x, w) - y)); }

int main() {
  const Tensor w = label(tensor({0.5, -1.}), "w"), x = label(tensor({{1., 2.}, {3., 4.}}), "x"),
               y = label(tensor({1., -1.}), "y");

  write_stablehlo(std::cout, trace(grad(loss))(w, x, y), {.name = "loss_gradient"});

  const std::string file = (std::filesystem::temp_directory_path() / "38_stablehlo.mlir").string();
  std::ofstream out(file);
  write_stablehlo(out, trace(grad(loss))(w, x, y));
  out.close();
  check(std::filesystem::file_size(file) > 0, "the file is written");

  // With a Python that has jax (STAVE_PYTHON names it), jaxlib runs the file.
  std::cout << "gradient " << grad(loss)(w, x, y) << "\n" << std::flush;
  const char* const given = std::getenv("STAVE_PYTHON");
  const std::string python = given ? given : "python3";
  if (std::system((python + " -c 'import jax' 2> /dev/null").c_str()) == 0)
    check(std::system((python + " -B " STAVE_EXAMPLE_DATA "/../stablehlo/run.py " + file).c_str()) == 0,
          "jaxlib computes the same gradient");

  // Operations that StableHLO lacks are refused by name.
  const auto lowest = [](const Tensor& a) { return eigvalsh(a)[0]; };
  check(throws<TransformError>([&] { write_stablehlo(std::cout, trace(lowest)(eye(2))); }), "eigvalsh is refused");
  std::filesystem::remove(file);
}
