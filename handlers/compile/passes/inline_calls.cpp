#include <stave/core/program/dataflow.h>
#include <stave/core/program/passes/passes.h>
#include <stave/core/program/rules.h>

namespace stave {

using namespace stave_detail;

namespace {

class Inliner {
 public:
  Inliner(Program& to, InlineCalls which) : to_(to), which_(which) {}

  /// Appends the instructions of a called program, applied to these variables. Returns the
  /// variables of its outputs.
  std::vector<int> append(const Program& from, std::span<const int> inputs) {
    PerVariable<int> renamed(from, -1);
    const auto fresh = [&](int variable) {
      const Program::Variable& it = from.variable(variable);
      return renamed[variable] = to_.add_variable(it.shape, it.dtype, it.device, it.label);
    };
    const Constants constants(from);
    const auto value = [&](int variable) {  // Constants are numbered at their first use.
      if (renamed[variable] < 0) to_.constants.push_back({fresh(variable), *constants.find(variable)});
      return renamed[variable];
    };
    for (std::size_t i = 0; i < inputs.size(); ++i) renamed[from.inputs[i]] = inputs[i];
    for (Program::Instruction step : from.instructions) {
      for (int& input : step.inputs) input = value(input);
      if (const Program* called = called_by(step)) {
        const std::vector<int> found = append(*called, std::vector<int>(step.inputs.begin(), step.inputs.end()));
        for (std::size_t i = 0; i < step.outputs.size(); ++i) renamed[step.outputs[i]] = found[i];
        continue;
      }
      for (int& output : step.outputs) output = fresh(output);
      to_.instructions.push_back(std::move(step));
    }
    std::vector<int> outputs;
    for (const int output : from.outputs) outputs.push_back(output < 0 ? -1 : value(output));
    return outputs;
  }

 private:
  const Program* called_by(const Program::Instruction& step) const {
    const auto* functions = dynamic_cast<const RecordedFunctions*>(step.attributes.get());
    if (!functions) return nullptr;
    const bool has_rules = functions->rules && functions->rules->has_derivative();
    return which_ == InlineCalls::without_rules && has_rules ? nullptr : functions->function.get();
  }

  Program& to_;
  const InlineCalls which_;
};

}  // namespace

Program with_calls_inlined(Program program, InlineCalls which) {
  Program result;
  for (const int input : program.inputs) {
    const Program::Variable& it = program.variable(input);
    result.inputs.push_back(result.add_variable(it.shape, it.dtype, it.device, it.label));
  }
  result.outputs = Inliner(result, which).append(program, result.inputs);
  return result;
}

}  // namespace stave
