#include <stave/handlers/compile/derive.h>

#include <algorithm>
#include <map>
#include <set>

#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/program/passes/passes.h>
#include <stave/core/program/rules.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>
#include <stave/handlers/compile/record.h>
#include <stave/handlers/transforms/jvp_flat.h>
#include <stave/handlers/transforms/vjp_flat.h>
#include <stave/handlers/transforms/vmap_flat.h>

namespace stave_detail {

Program traced(const char* name, FlatFunction transformed, std::span<const Tensor> given) {
  UnderFrame past_all_handlers(nullptr);
  Recording recording = record(name, transformed, given);
  if (recording.too_long) fail_too_long();
  if (reads_values(recording.program))
    fail<TransformError>("{}: a rule reads a value: the program would be right for that value alone", name);
  if (recording.has_unrecorded_effect || !recording.unanswered.empty())
    fail<TransformError>("{}: a rule performs an effect, which the program cannot perform", name);
  return with_constants_folded(without_dead_code(std::move(recording.program)));
}

namespace {

// Merges repeated computations. It is used only for programs from which no derivative is made, or
// whose derivative need not have the bits of the function's own derivative. A value that is
// computed twice has two cotangents, which flow back separately.
Program shortened(Program program) { return without_repetitions(simplified(std::move(program))); }

// ---- partition ----------------------------------------------------------------------------------

/// Partitions a program: the known part computes the first outputs, and the rest reads residuals of
/// the known part.
class Partitioner {
 public:
  Partitioner(const Program& program, const Mask& first_inputs, const Mask& first_outputs)
      : program_(program), inputs_(select(first_inputs, program.inputs)),
        later_(select(first_inputs, program.inputs, false)), outputs_(select(first_outputs, program.outputs)),
        results_(select(first_outputs, program.outputs, false)), waits_(waiting()), producers_(producers(program)),
        forward_(known()), backward_(unknown()) {
    const Mask depends_on_rest = reach(program_, later_, Direction::forward).instructions;
    for (std::size_t k = 0; k < steps().size(); ++k)
      if (forward_[k] && depends_on_rest[k])
        fail<TransformError>("programs: {} makes an output of the known part depend on an input of the unknown part",
                             steps()[k].op->name);
    find_residuals();
  }

  Partition parts() const {
    std::vector<int> given(residuals_.begin(), residuals_.end());
    std::vector<int> all = outputs_;
    all.insert(all.end(), given.begin(), given.end());
    given.insert(given.end(), later_.begin(), later_.end());
    return {part(inputs_, forward_, all), part(given, backward_, results_)};
  }

 private:
  // The most operations by which a residual is rematerialised; with more, keeping the value is
  // faster. Small values are kept, as on the tape (rematerialization.cpp). Views cost nothing.
  static constexpr int most_steps_again = 16;
  static constexpr std::uint64_t small = std::uint64_t{16} << 10;

  const std::vector<Program::Instruction>& steps() const { return program_.instructions; }

  // Returns a mask of the instructions that depend on inputs of the rest, or that a checkpoint
  // performs again (`barrier` is not 0), or that depend on such a repetition.
  Mask waiting() const {
    return reach(program_, later_, Direction::forward,
                 [&](std::size_t k) { return steps()[k].barrier != 0 ? Flow::begins : Flow::passes; })
        .instructions;
  }
  // Returns a mask of the instructions of the known part: its outputs need them, or they may throw
  // and do not wait.
  Mask known() const {
    return reach(program_, outputs_, Direction::backward,
                 [&](std::size_t k) { return !waits_[k] && may_throw(steps()[k]) ? Flow::begins : Flow::passes; })
        .instructions;
  }
  // Returns a mask of the instructions that the other outputs need besides the known part.
  Mask unknown() const {
    return reach(program_, results_, Direction::backward,
                 [&](std::size_t k) { return forward_[k] ? Flow::stops : Flow::passes; })
        .instructions;
  }
  bool is_known(int variable) const {
    return producers_[variable] >= 0 && forward_[static_cast<std::size_t>(producers_[variable])];
  }

  void find_residuals() {
    PerVariable<bool> given(program_);
    for (const int input : inputs_) given[input] = true;
    const auto read = [&](int variable) {
      if (given[variable] || is_known(variable)) residuals_.insert(variable);
    };
    for (std::size_t k = 0; k < steps().size(); ++k)
      if (backward_[k])
        for (const int input : steps()[k].inputs) read(input);
    for (const int result : results_) read(result);

    std::map<int, int> again;  // for each rematerialised residual, the number of operations
    const std::vector<int> first(residuals_.begin(), residuals_.end());
    for (const int variable : first) {
      if (!is_known(variable)) continue;
      const auto k = static_cast<std::size_t>(producers_[variable]);
      const auto& step = steps()[k];
      if (!step.op->is_cheap() || (!is_view(step) && program_.variable(variable).bytes() < small)) continue;
      int count = is_view(step) ? 0 : 1;
      bool possible = true;
      for (const int input : std::set<int>(step.inputs.begin(), step.inputs.end())) {
        if (const auto found = again.find(input); found != again.end()) count += found->second;
        else possible = possible && (!is_known(input) || residuals_.contains(input));
      }
      if (!possible || count > most_steps_again) continue;
      again[variable] = count;
      residuals_.erase(variable);
      backward_[k] = true;
      for (const int input : step.inputs)
        if (given[input]) residuals_.insert(input);
    }
  }

  Program part(const std::vector<int>& inputs, const Mask& kept, const std::vector<int>& outputs) const {
    return without_dead_code({program_.variables, inputs, program_.constants, select(kept, steps()), outputs});
  }

  const Program& program_;
  const std::vector<int> inputs_, later_, outputs_, results_;
  const Mask waits_;  // the result of waiting()
  const PerVariable<int> producers_;
  // Entry k is true if the first part (forward_) or the rest (backward_) has instruction k. A
  // rematerialised instruction is in both.
  Mask forward_, backward_;
  std::set<int> residuals_;
};

}  // namespace

Mask first_of(std::size_t count, std::size_t all) {
  Mask mask(all);
  std::fill_n(mask.begin(), count, true);
  return mask;
}

Partition partition(const Program& program, const Mask& first_inputs, const Mask& first_outputs) {
  return Partitioner(program, first_inputs, first_outputs).parts();
}

Partition vjp_of(const Program& program, const Mask& wanted, std::span<const Tensor> examples) {
  std::vector<Tensor> given(examples.begin(), examples.end());
  for (const int output : program.outputs)
    if (const auto& it = program.variable(output); is_inexact(it.dtype))
      given.push_back(zeros(it.shape, it.dtype, it.device));
  const auto both = [&](std::span<const Tensor> xs) {
    std::vector<Tensor> inputs(xs.begin(), xs.begin() + static_cast<std::ptrdiff_t>(examples.size()));
    const auto by_wanted = [&](std::span<const Tensor> by) {
      for (std::size_t i = 0, next = 0; i < inputs.size(); ++i)
        if (wanted[i]) inputs[i] = by[next++];
      return program(inputs);
    };
    FlatVjp found = vjp_flat(by_wanted, select(wanted, xs), "vjp", numbered_inputs, {.recompute = Recompute::never});
    std::vector<Tensor> cotangents;
    auto next = xs.begin() + static_cast<std::ptrdiff_t>(examples.size());
    for (const Tensor& output : found.outputs) cotangents.push_back(is_inexact(output.dtype()) ? *next++ : Tensor());
    for (Tensor& cotangent : found.pullback.consume(cotangents)) found.outputs.push_back(std::move(cotangent));
    return std::move(found.outputs);
  };
  // with_loops_joined merges a loop with the forward loop of its derivative.
  const Program joint = with_loops_joined(shortened(traced("vjp", both, given)));
  return partition(joint, first_of(examples.size(), joint.inputs.size()),
                   first_of(program.outputs.size(), joint.outputs.size()));
}

Program jvp_of(const Program& program, const Mask& wanted, std::span<const Tensor> examples) {
  std::vector<Tensor> given(examples.begin(), examples.end());
  for (const Tensor& x : select(wanted, examples)) given.push_back(zeros_like(x));
  const auto both = [&](std::span<const Tensor> xs) {
    std::vector<Tensor> tangents;
    auto next = xs.begin() + static_cast<std::ptrdiff_t>(examples.size());
    for (const bool wants : wanted) tangents.push_back(wants ? *next++ : Tensor());
    FlatJvp found = jvp_flat([&](auto inputs) { return program(inputs); }, xs.first(examples.size()), tangents);
    found.outputs.append(found.tangents.begin(), found.tangents.end());
    return std::move(found.outputs);
  };
  // A checkpoint's call computes values and tangents at once, so it is inlined. A call with
  // derivative rules stays, because it has rules for higher derivatives.
  return with_calls_inlined(shortened(traced("jvp", both, given)), InlineCalls::without_rules);
}

Program batched_of(const Program& program, Index lanes, const Mask& batched, std::span<const Tensor> examples) {
  std::vector<MapAxis> in_axes;
  for (const bool carries : batched) in_axes.push_back(carries ? MapAxis(0) : MapAxis(unmapped));
  const std::vector<MapAxis> out_axes(program.outputs.size(), MapAxis(0));
  const auto all_lanes = [&](std::span<const Tensor> xs) {
    return vmap_outputs(vmap_flat([&](auto inputs) { return program(inputs); }, xs, in_axes, lanes), out_axes);
  };
  return traced("vmap", all_lanes, examples);
}

Tensor example_of(const Tensor& x) {
  const Tensor all = observed(x);
  const auto levels = static_cast<std::size_t>(all.rank() - x.rank());
  const std::span<const Index> shape = all.shape(), strides = all.strides();
  if (std::ranges::find(shape.first(levels), 0) != shape.first(levels).end())
    fail<ShapeError>("vmap: the function cannot be recorded, because there are no lanes");
  return view_of(all, Shape(shape.subspan(levels)), Strides(strides.subspan(levels)), all.node().offset);
}

bool reads_values(const Program& program) { return calls_read(program) || has_read(program.instructions); }

bool calls_read(const Program& program) {
  for (const Program::Instruction& step : program.instructions)
    if (const auto* functions = dynamic_cast<const RecordedFunctions*>(step.attributes.get())) {
      std::vector<std::shared_ptr<const Program>> programs{functions->function, functions->again};
      if (functions->rules)
        for (auto& rule : functions->rules->programs()) programs.push_back(std::move(rule));
      for (const auto& called : programs)
        if (called && reads_values(*called)) return true;
    }
  return false;
}

}  // namespace stave_detail
