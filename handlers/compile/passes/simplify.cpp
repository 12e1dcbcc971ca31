#include <stave/core/program/dataflow.h>
#include <stave/core/program/passes/compaction.h>
#include <stave/core/program/passes/passes.h>

#include <algorithm>
#include <numeric>

#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/handlers/transforms/record_region.h>

namespace stave {

using namespace stave_detail;

namespace {

class Simplifier {
 public:
  explicit Simplifier(Program& program)
      : program_(program), constants_(program), read_counts_(read_counts(program)), renamed_(program),
        kept_producers_(program) {}

  void run() {
    for (Program::Instruction& step : program_.instructions) {
      renamed_.apply(step.inputs);
      if (!step.is_read()) join(step);
      const int same = step.is_read() ? -1 : equal_input(step);
      if (same >= 0) {
        renamed_.set(step.outputs[0], same);
        continue;
      }
      const Program::Instruction& last = kept_.keep(step);
      for (const int output : last.outputs) kept_producers_[output] = static_cast<int>(kept_.count());
    }
    kept_.end();
    renamed_.apply(program_.outputs);
  }

 private:
  const Program::Variable& variable(int number) const { return program_.variable(number); }
  // Returns the instruction that computes the variable, if it has this operation and the barrier of
  // `reader`; else null.
  const Program::Instruction* given_by(int variable, OpId id, const Program::Instruction& reader) const {
    const int at = kept_producers_[variable];
    if (at == 0) return nullptr;
    const Program::Instruction& step = program_.instructions[static_cast<std::size_t>(at) - 1];
    return !step.is_read() && step.op->id == id && step.barrier == reader.barrier ? &step : nullptr;
  }
  // Returns true if the variable is this number, with the same sign of zero.
  bool is(int variable, double number) const {
    const Tensor* value = constants_.find(variable);
    if (!value || is_complex(value->dtype()) || !is_one_number(*value)) return false;
    const double found = number_of(*value).floating;
    return found == number && std::signbit(found) == std::signbit(number);
  }

  // Returns the input that equals the result, or -1.
  int equal_input(const Program::Instruction& step) const {
    const auto in = [&](std::size_t i) { return step.inputs[i]; };
    switch (step.op->id) {
      case OpId::multiply: return is(in(1), 1) ? in(0) : is(in(0), 1) ? in(1) : -1;
      case OpId::divide: return is(in(1), 1) ? in(0) : -1;
      case OpId::subtract: return is(in(1), 0) ? in(0) : -1;
      case OpId::add:
        return is(in(1), 0) && adds_zero(in(0), step) ? in(0) : is(in(0), 0) && adds_zero(in(1), step) ? in(1) : -1;
      case OpId::negative: {
        const auto* inner = given_by(in(0), OpId::negative, step);
        return inner ? inner->inputs[0] : -1;
      }
      case OpId::reshape:
      case OpId::broadcast_to: return variable(in(0)).shape == variable(step.outputs[0]).shape ? in(0) : -1;
      case OpId::permute_dims: {
        const Shape& axes = static_cast<const PermuteAttributes&>(*step.attributes).axes;
        for (std::size_t i = 0; i < axes.size(); ++i)
          if (axes[i] != static_cast<Index>(i)) return -1;
        return in(0);
      }
      case OpId::astype: {
        const Dtype to = variable(step.outputs[0]).dtype;
        if (variable(in(0)).dtype == to) return in(0);
        const auto* inner = given_by(in(0), OpId::astype, step);
        return inner && variable(inner->inputs[0]).dtype == to && keeps_all(to, variable(in(0)).dtype)
                   ? inner->inputs[0]
                   : -1;
      }
      default: return -1;
    }
  }

  // Returns true if the variable is a sum with 0. Such a sum is never -0, so adding 0 again changes
  // nothing.
  bool adds_zero(int variable, const Program::Instruction& reader) const {
    const auto* inner = given_by(variable, OpId::add, reader);
    return inner && (is(inner->inputs[0], 0) || is(inner->inputs[1], 0));
  }

  // Returns true if a conversion from `from` to `to` and back keeps every value.
  static bool keeps_all(Dtype from, Dtype to) {
    if (is_float(from)) return is_float(to) && !is_half_float(to) && size_of(to) >= size_of(from);
    // A conversion between integers of one size wraps around, in both directions.
    return is_integer(from) && is_integer(to) && size_of(to) >= size_of(from);
  }

  // Merges an operation that moves elements with the one before it, so that the elements move once.
  void join(Program::Instruction& step) const {
    if (step.inputs.empty()) return;
    if (const OpId id = step.op->id; id == OpId::reshape || id == OpId::broadcast_to) {
      // Broadcasting adds axes in front, so the last of two broadcasts gives the result.
      if (const auto* inner = given_by(step.inputs[0], id, step)) step.inputs[0] = inner->inputs[0];
    } else if (id == OpId::permute_dims) {
      const auto* inner = given_by(step.inputs[0], id, step);
      if (!inner) return;
      const Shape& first = static_cast<const PermuteAttributes&>(*inner->attributes).axes;
      Shape axes = static_cast<const PermuteAttributes&>(*step.attributes).axes;
      for (Index& axis : axes) axis = first[static_cast<std::size_t>(axis)];
      step.attributes = make_intrusive<PermuteAttributes>(std::move(axes));
      step.inputs[0] = inner->inputs[0];
    } else if (id == OpId::concat) {
      join_concat(step);
    }
  }

  // Replaces inputs that are concats along the same axis by their inputs, if nothing else reads
  // them.
  void join_concat(Program::Instruction& step) const {
    constexpr std::size_t most_inputs = 64;  // a chain of n concats would take n^2 inputs
    const auto axis_of = [](const Program::Instruction& it) {
      return static_cast<const AxisAttributes&>(*it.attributes).axis;
    };
    decltype(step.inputs) inputs;
    for (const int input : step.inputs) {
      const auto* inner = read_counts_[input] == 1 ? given_by(input, OpId::concat, step) : nullptr;
      if (inner && axis_of(*inner) == axis_of(step)) inputs.append(inner->inputs.begin(), inner->inputs.end());
      else inputs.push_back(input);
    }
    if (inputs.size() <= most_inputs) step.inputs = std::move(inputs);
  }

  Program& program_;
  const Constants constants_;
  const PerVariable<int> read_counts_;
  Renaming renamed_;
  // For each variable, 1 + the index of its instruction in `kept_`; 0 if no kept instruction
  // computes it.
  PerVariable<int> kept_producers_;
  Compaction kept_{program_};
};

}  // namespace

Program simplified(Program program) {
  Simplifier(program).run();
  return program;
}

Program optimized(Program program, const OptimizeOptions& options) {
  program = with_constants_folded(without_dead_code(std::move(program)));
  program = with_loops_joined(without_repetitions(simplified(std::move(program))));
  if (options.folds_scales) program = with_scales_folded(std::move(program));
  if (options.hoists_from_loops) program = with_work_hoisted_from_loops(std::move(program));
  program = with_small_arrays_split(without_dead_code(with_loops_narrowed(std::move(program))));
  return with_regions(std::move(program), options.fusion_report);
}

}  // namespace stave
