// A program in a file: one process records and saves a training step, another one loads it and has
// the derivative, the batch and the compiled form of what it loads, without the code of the model.
#include <filesystem>
#include <iostream>

#include <stave/core/io/programs.h>
#include <stave/stave.h>

#include "check.h"

using namespace stave;

Tensor decay(const Tensor& rate, const Tensor& start) {
  const auto step = [&](const Tensor& x) { return x - 0.1 * rate * x; };
  return sum(square(loop(20, step)(start)));
}

int main() {
  const std::string file = (std::filesystem::temp_directory_path() / "37_programs_as_files.stave").string();
  const Tensor rate = tensor({0.5, 1., 2.}), start = ones({3});

  save_program(file, trace(decay)(rate, start));

  const Program loaded = load_program(file);
  const auto f = [&](const Tensor& r) { return loaded(std::vector{r, start})[0]; };
  std::cout << loaded;
  std::cout << "gradient " << grad(f)(rate) << "\n";

  const Tensor rates = stack({rate, 2 * rate});
  std::cout << "two rates " << compile(vmap(f))(rates) << "\n";
  check(grad(f)(rate).to_vector<float>() == grad(decay)(rate, start).to_vector<float>(),
        "a loaded program has the same gradient");

  // A file cannot hold rules, which are C++ functions.
  const auto own_rule =
      custom_vjp([](const Tensor& x) { return sin(x); }, [](const Tensor& x) { return std::pair(sin(x), x); },
                 [](const Tensor& x, const Tensor& ct) { return ct * cos(x); });
  check(throws<TransformError>([&] { save_program(file, trace(own_rule)(rate)); }), "rules are refused");
  std::filesystem::remove(file);
}
