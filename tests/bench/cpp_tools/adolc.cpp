// ADOL-C: each program is traced once; its drivers evaluate the tape for given variables.
#include <adolc/adolc.h>

#include <memory>

#include "tools.h"

namespace cpp_tools {

namespace {

short next_tag = 1;

// Traces a program. The buffers have a million elements, with which ADOL-C is fastest on these
// programs; by default the tapes of most would go through files.
template <class Program>
short trace_of(const Program& program, const Numbers& at) {
  constexpr unsigned buffer = 1 << 20;
  const short tag = next_tag++;
  trace_on(tag, 0, buffer, buffer, buffer, buffer);
  std::vector<adouble> variables(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) variables[i] <<= at[i];
  std::vector<adouble> outputs = program(variables);
  for (adouble& output : outputs) {
    double value;
    output >>= value;
  }
  trace_off();
  return tag;
}

template <class Program>
Derivative derivative_of(const Program& program) {
  const Numbers at = program.start();
  const short tag = trace_of(program, at);
  const auto result = std::make_shared<Numbers>(Program::outputs * at.size());
  const auto values = [result] { return *result; };
  const int n = static_cast<int>(at.size()), m = static_cast<int>(Program::outputs);
  if (m == 1) return {program.name(), "ADOL-C", [=] { gradient(tag, n, at.data(), result->data()); }, values};
  std::vector<double*> rows;
  for (int i = 0; i < m; ++i) rows.push_back(result->data() + i * n);
  return {program.name(), "ADOL-C", [=]() mutable { jacobian(tag, m, n, at.data(), rows.data()); }, values};
}

}  // namespace

std::vector<Derivative> by_adolc() {
  std::vector<Derivative> all;
  for_each_program([&](const auto& program) { all.push_back(derivative_of(program)); });
  return all;
}

}  // namespace cpp_tools
