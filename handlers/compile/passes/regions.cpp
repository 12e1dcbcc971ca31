// Fusion: merges elementwise operations of a program into regions. An operation joins the open
// region of its shape. A region is open until an operation outside of it reads one of its values;
// it is performed just before that operation. So a region comes after all values that it reads, and
// before all operations that read its values. A region may end in reductions of its values.
#include <algorithm>
#include <list>
#include <optional>
#include <unordered_map>

#include <stave/core/ops/frontend.h>
#include <stave/core/program/dataflow.h>
#include <stave/core/program/fused.h>
#include <stave/core/program/passes/fusion_report.h>
#include <stave/core/program/passes/passes.h>
#include <stave/core/program/region.h>
#include <stave/handlers/transforms/record_region.h>

namespace stave {

using namespace stave_detail;

namespace {

constexpr std::size_t most_steps = 2048, most_inputs = 64, most_outputs = 64;

// Builds a region of instructions. A computation that occurs twice is done once; within a tile,
// keeping its value takes no memory.
class Members {
 public:
  Members(const Program& program, const Constants& constants) : program_(program), constants_(constants) {}

  /// `inner` is the region of an instruction that performs one, or null for a single operation.
  void add(const Program::Instruction& member, const Region* inner) {
    std::vector<int> operands;
    for (const int input : member.inputs) operands.push_back(value_of(input));
    if (inner) {
      const std::vector<int> results = builder_.append(*inner, operands);
      for (std::size_t i = 0; i < results.size(); ++i) values_[member.outputs[i]] = results[i];
    } else if (Region::admits_reduction(*member.op)) {
      values_[member.outputs[0]] = reduced(member, operands[0]);
    } else {
      values_[member.outputs[0]] = builder_.add(*member.op, operands, program_.variable(member.outputs[0]).dtype);
    }
  }
  /// The variables that the members read and that no member computes.
  const std::vector<int>& inputs() const { return inputs_; }
  RegionPtr region(std::span<const int> outputs) const {
    std::vector<int> values;
    for (const int output : outputs) values.push_back(values_.at(output));
    return builder_.region(values);
  }

 private:
  int value_of(int variable) {
    const auto [found, is_new] = values_.try_emplace(variable, -1);
    if (!is_new) return found->second;
    const Dtype dtype = program_.variable(variable).dtype;
    const Tensor* const value = constants_.find(variable);
    if (value && is_one_number(*value)) return found->second = builder_.number(number_of(*value), dtype);
    inputs_.push_back(variable);
    return found->second = builder_.input(dtype);
  }
  int reduced(const Program::Instruction& member, int value) {
    const auto& attributes = static_cast<const ReduceAttributes&>(*member.attributes);
    Shape axes = attributes.axes;
    for (Index& axis : axes) axis -= program_.variable(member.inputs[0]).shape.rank();
    return builder_.reduce(*member.op, value, std::move(axes), attributes.keepdims);
  }

  const Program& program_;
  const Constants& constants_;
  RegionBuilder builder_{Repetitions::merged};
  std::vector<int> inputs_;
  std::unordered_map<int, int> values_;  // values of the builder, by variable
};

// Goes through a program and forms its regions.
class Former {
 public:
  /// `report` receives the reasons why operations do not become one region; it may
  /// be null.
  Former(Program& program, FusionReport* report)
      : program_(program), report_(report), constants_(program), reads_(read_counts(program)), reads_inside_(program),
        is_reduction_of_(program), home_(program) {}

  void run() {
    auto steps = std::move(program_.instructions);
    program_.instructions.clear();
    for (Program::Instruction& step : steps) {
      const bool may_join = joins(step);
      if (report_) report_->add(step, may_join);
      if (may_join) {
        join(step);
        continue;
      }
      if (Open* region = reduced_in(step)) {
        home_[step.outputs[0]] = region;
        is_reduction_of_[step.outputs[0]] = true;
        region->members.push_back(taken(step));
        ++region->steps;
        continue;
      }
      if (report_ && !step.is_read() && is_reduction(step)) report_->joined(step, [](int) { return false; });
      for (const int input : step.inputs) close_for(input, step);
      program_.instructions.push_back(taken(step));
    }
    while (!open_.empty()) close(open_.begin());
  }

 private:
  struct Open {
    std::vector<Program::Instruction> members;
    std::size_t steps = 0;
    std::vector<int> inputs;
  };
  using Place = std::list<Open>::iterator;

  const Program::Variable& variable(int number) const { return program_.variable(number); }
  // The fusion report reads the instruction later, so it is copied if there is a report.
  Program::Instruction taken(Program::Instruction& step) const { return report_ ? step : std::move(step); }

  // Returns the region of an operation that is itself a region (elementwise_op) and has no
  // reductions; else null.
  static const Region* region_of(const Program::Instruction& step) {
    const auto* fused = dynamic_cast<const FusedAttributes*>(step.attributes.get());
    return fused && fused->region->reductions().empty() ? fused->region.get() : nullptr;
  }
  bool joins(const Program::Instruction& step) const {
    if (step.is_read() || step.inputs.empty()) return false;
    if (step.op->id == OpId::stop_gradient)
      return false;  // its result has no derivative, whereas a region's derivative would be zeros
    if (!Region::admits(*step.op, variable(step.inputs.back()).dtype) && !region_of(step)) return false;
    const Program::Variable& result = variable(step.outputs[0]);
    return result.shape.elements() > 0;
  }

  bool is_reduction(const Program::Instruction& step) const {
    return Region::admits_reduction(*step.op) && !is_complex(variable(step.inputs[0]).dtype) &&
           !static_cast<const ReduceAttributes&>(*step.attributes).axes.empty();
  }
  // Returns the open region that holds the value which the step reduces; null if there is none.
  Open* reduced_in(const Program::Instruction& step) {
    if (step.is_read() || !is_reduction(step)) return nullptr;
    Open* const region = home_[step.inputs[0]];
    if (!region || region->members.size() >= most_steps || region->members[0].barrier != step.barrier) return nullptr;
    const Program::Variable &whole = variable(region->members[0].outputs[0]), &reduced = variable(step.inputs[0]);
    return whole.shape == reduced.shape && !is_reduced(*region, step.inputs[0]) ? region : nullptr;
  }
  // Returns true if the variable is a reduction in which the open region ends.
  bool is_reduced(const Open& region, int variable) const {
    return is_reduction_of_[variable] && home_[variable] == &region;
  }

  // Returns the members' outputs that instructions other than the members read, or that are results
  // of the program.
  std::vector<int> needed(std::span<const Program::Instruction> members) {
    for (const Program::Instruction& member : members)
      for (const int input : member.inputs) ++reads_inside_[input];
    std::vector<int> found;
    for (const Program::Instruction& member : members)
      for (const int output : member.outputs)
        if (reads_[output] > reads_inside_[output]) found.push_back(output);
    for (const Program::Instruction& member : members)
      for (const int input : member.inputs) reads_inside_[input] = 0;
    return found;
  }

  void join(Program::Instruction& step) {
    const Region* inner = region_of(step);
    const std::size_t steps = inner ? inner->steps().size() : 1;
    Open* region = nullptr;
    for (Open& open : open_)
      if (fits(open, step, steps)) region = &open;
    if (region && std::any_of(step.inputs.begin(), step.inputs.end(), [&](int x) { return is_reduced(*region, x); }))
      region = nullptr;
    if (report_) report_->joined(step, [&](int input) { return region && home_[input] == region; });
    // The step may read values of other open regions: those that are full, that are behind another
    // barrier, or whose reductions it reads. They must be performed before the step.
    for (const int input : step.inputs)
      if (home_[input] && home_[input] != region) close_for(input, step);
    if (!region) region = &open_.emplace_back();
    for (const int input : step.inputs)
      if (!home_[input] && !is_number(input) &&
          std::find(region->inputs.begin(), region->inputs.end(), input) == region->inputs.end())
        region->inputs.push_back(input);
    region->steps += steps;
    for (const int output : step.outputs) home_[output] = region;
    region->members.push_back(taken(step));
  }

  bool fits(const Open& open, const Program::Instruction& step, std::size_t steps) const {
    const Program::Instruction& first = open.members[0];
    const Program::Variable &a = variable(first.outputs[0]), &b = variable(step.outputs[0]);
    return a.shape == b.shape && a.device == b.device && first.barrier == step.barrier &&
           open.steps + steps <= most_steps && open.inputs.size() + step.inputs.size() <= most_inputs &&
           open.members.size() < most_steps;
  }

  bool is_number(int variable) const {
    const Tensor* value = constants_.find(variable);
    return value && is_one_number(*value);
  }

  void close_for(int variable, const Program::Instruction& reader) {
    Open* const region = home_[variable];
    if (!region) return;
    if (report_)
      for (const Program::Instruction& member : region->members) report_->ended(member.outputs, reader);
    close(std::find_if(open_.begin(), open_.end(), [&](const Open& open) { return &open == region; }));
  }

  void close(Place place) {
    Open region = std::move(*place);
    for (const Program::Instruction& member : region.members)
      for (const int output : member.outputs) home_[output] = nullptr;
    open_.erase(place);
    emit(region.members);
  }

  void emit(std::span<Program::Instruction> members) {
    const std::vector<int> outputs = needed(members);
    if (members.size() == 1) {
      program_.instructions.push_back(without_repeated_steps(members[0], outputs));
    } else if (outputs.size() > most_outputs) {
      if (report_) report_->divided(members.size(), outputs.size(), most_outputs);
      emit(members.first(members.size() / 2));
      emit(members.subspan(members.size() / 2));
    } else if (!outputs.empty()) {
      program_.instructions.push_back(performed(members, outputs));
    }
  }

  // Removes repeated steps from the region of a single operation. Keeps the operation if that
  // changes nothing, because it may have loops compiled ahead of time.
  Program::Instruction without_repeated_steps(const Program::Instruction& step, const std::vector<int>& outputs) const {
    const Region* const region = region_of(step);
    if (!region || outputs.empty()) return step;
    Program::Instruction shorter = performed({&step, 1}, outputs);
    return region_of(shorter)->steps().size() < region->steps().size() ? shorter : step;
  }

  Program::Instruction performed(std::span<const Program::Instruction> members, const std::vector<int>& outputs) const {
    Members built(program_, constants_);
    for (const Program::Instruction& member : members) built.add(member, region_of(member));
    Program::Instruction step{.op = &fused_op("fused"),
                              .attributes = make_intrusive<FusedAttributes>(built.region(outputs))};
    for (const int input : built.inputs()) step.inputs.push_back(input);
    for (const int output : outputs) step.outputs.push_back(output);
    step.scopes = members[0].scopes;
    step.barrier = members[0].barrier;
    return step;
  }

  Program& program_;
  FusionReport* const report_;
  const Constants constants_;
  const PerVariable<int> reads_;
  // For each variable, how many times members of the current region read it; 0 between calls.
  PerVariable<int> reads_inside_;
  PerVariable<bool> is_reduction_of_;  // the variable is a reduction in which a region ends
  PerVariable<Open*> home_;            // the open region that computes each variable, or null
  std::list<Open> open_;
};

}  // namespace

Program with_regions(Program program, std::vector<std::string>* fusion_report) {
  std::optional<FusionReport> report;
  if (fusion_report) report.emplace(program);
  Former(program, report ? &*report : nullptr).run();
  if (fusion_report) *fusion_report = report->lines();
  return program;
}

}  // namespace stave
