// CppAD: each program is recorded once and its recording optimized; then sweeps go through the
// recording for given variables: one forward and one back for a gradient, one forward with all
// directions at once for a Jacobian.
#include <cppad/cppad.hpp>
#include <memory>

#include "tools.h"

namespace cpp_tools {

namespace {

template <class Program>
std::shared_ptr<CppAD::ADFun<double>> recording_of(const Program& program, const Numbers& at) {
  std::vector<CppAD::AD<double>> variables(at.begin(), at.end());
  CppAD::Independent(variables);
  const auto recording = std::make_shared<CppAD::ADFun<double>>();
  recording->Dependent(variables, program(variables));
  recording->optimize();
  return recording;
}

template <class Program>
Derivative derivative_of(const Program& program) {
  const Numbers at = program.start();
  const auto recording = recording_of(program, at);
  const auto result = std::make_shared<Numbers>();
  const std::size_t n = at.size();
  const auto values = [result] { return *result; };
  if (Program::outputs == 1) {
    const auto gradient = [=] {
      recording->Forward(0, at);
      *result = recording->Reverse(1, Numbers{1});
    };
    return {program.name(), "CppAD", gradient, values};
  }
  Numbers directions(n * n);
  for (std::size_t i = 0; i < n; ++i) directions[i * n + i] = 1;
  const auto jacobian = [=] {
    recording->Forward(0, at);
    *result = recording->Forward(1, n, directions);
  };
  return {program.name(), "CppAD", jacobian, values};
}

}  // namespace

std::vector<Derivative> by_cppad() {
  std::vector<Derivative> all;
  for_each_program([&](const auto& program) { all.push_back(derivative_of(program)); });
  return all;
}

}  // namespace cpp_tools
