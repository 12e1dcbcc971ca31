// Regions in programs: elementwise operations of one shape join the region that is open for that shape, until something else reads
// a value of it; there the region is performed. So it is performed after all that it reads, and before all that reads it. A
// reduction of one of its values ends in it.
#include <algorithm>
#include <list>
#include <map>
#include <set>

#include <stave/core/ops/frontend.h>
#include <stave/core/ops/fused.h>
#include <stave/programs/passes/passes.h>

namespace stave {

using namespace stave_detail;

namespace {

constexpr std::size_t most_steps = 2048, most_inputs = 64, most_outputs = 64;

class Former {
 public:
  explicit Former(Program& program)
      : program_(program), constants_(program), last_read_(last_reads(program)), home_(program.variables.size()) {}

  void run() {
    const auto steps = std::move(program_.instructions);
    program_.instructions.clear();
    for (now_ = 0; now_ < steps.size(); ++now_) {
      const Program::Instruction& step = steps[now_];
      if (joins(step)) {
        join(step);
        continue;
      }
      if (Open* region = reduced_in(step)) {
        region->members.push_back(step);
        ++region->steps;
        home(step.outputs[0]) = region;
        continue;
      }
      for (const int input : step.inputs) close_for(input);
      program_.instructions.push_back(step);
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
  Open*& home(int variable) { return home_[static_cast<std::size_t>(variable)]; }

  // A region that an operation of its own (elementwise_op) performs, of values alone.
  static const Region* region_of(const Program::Instruction& step) {
    const auto* fused = dynamic_cast<const FusedAttributes*>(step.attributes.get());
    return fused && fused->region->reductions().empty() ? fused->region.get() : nullptr;
  }
  bool joins(const Program::Instruction& step) const {
    if (step.is_read() || step.inputs.empty()) return false;
    if (step.op->id == OpId::stop_gradient)
      return false;  // a view, and no derivative, where a region's would be of zeros
    if (!Region::admits(*step.op) && !region_of(step)) return false;
    const Program::Variable& result = variable(step.outputs[0]);
    return result.shape.elements() > 0;
  }

  static bool is_reduction(const Program::Instruction& step) {
    return Region::admits_reduction(*step.op) && !static_cast<const ReduceAttributes&>(*step.attributes).axes.empty();
  }
  // The open region of which the step reduces a value; null: none.
  Open* reduced_in(const Program::Instruction& step) {
    if (step.is_read() || !is_reduction(step)) return nullptr;
    Open* const region = home(step.inputs[0]);
    if (!region || region->members.size() >= most_steps || region->members[0].epoch != step.epoch) return nullptr;
    const Program::Variable &whole = variable(region->members[0].outputs[0]), &reduced = variable(step.inputs[0]);
    return whole.shape == reduced.shape && !is_reduced(*region, step.inputs[0]) ? region : nullptr;
  }
  static bool is_reduced(const Open& region, int variable) {
    return std::any_of(region.members.begin(), region.members.end(), [&](const auto& member) {
      return Region::admits_reduction(*member.op) && member.outputs[0] == variable;
    });
  }

  // Whether a value of the region is read after it: by a later instruction, or as a result.
  bool is_needed(int variable, std::span<const Program::Instruction> members) const {
    const auto last = last_read_[static_cast<std::size_t>(variable)];
    if (last < 0) return false;
    if (last >= static_cast<int>(now_)) return true;
    const auto reads = [&](const Program::Instruction& step) {
      return std::find(step.inputs.begin(), step.inputs.end(), variable) != step.inputs.end();
    };
    return std::none_of(members.begin(), members.end(), reads);
  }

  void join(const Program::Instruction& step) {
    const Region* inner = region_of(step);
    const std::size_t steps = inner ? inner->steps().size() : 1;
    Open* region = nullptr;
    for (Open& open : open_)
      if (fits(open, step, steps)) region = &open;
    if (region && std::any_of(step.inputs.begin(), step.inputs.end(), [&](int x) { return is_reduced(*region, x); }))
      region = nullptr;
    // What it reads of other open regions (of another epoch, or full ones) must be there before.
    for (const int input : step.inputs)
      if (home(input) && home(input) != region) close_for(input);
    if (!region) region = &open_.emplace_back();
    for (const int input : step.inputs)
      if (!home(input) && !is_number(input) &&
          std::find(region->inputs.begin(), region->inputs.end(), input) == region->inputs.end())
        region->inputs.push_back(input);
    region->steps += steps;
    region->members.push_back(step);
    for (const int output : step.outputs) home(output) = region;
  }

  bool fits(const Open& open, const Program::Instruction& step, std::size_t steps) const {
    const Program::Instruction& first = open.members[0];
    const Program::Variable &a = variable(first.outputs[0]), &b = variable(step.outputs[0]);
    return a.shape == b.shape && a.device == b.device && first.epoch == step.epoch &&
           open.steps + steps <= most_steps && open.inputs.size() + step.inputs.size() <= most_inputs &&
           open.members.size() < most_steps;
  }

  bool is_number(int variable) const {
    const Tensor* value = constants_.find(variable);
    return value && is_one_number(*value);
  }

  void close_for(int variable) {
    if (Open* region = home(variable))
      close(std::find_if(open_.begin(), open_.end(), [&](const Open& open) { return &open == region; }));
  }

  void close(Place place) {
    const Open region = std::move(*place);
    for (const Program::Instruction& member : region.members)
      for (const int output : member.outputs) home(output) = nullptr;
    open_.erase(place);
    emit(region.members);
  }

  void emit(std::span<const Program::Instruction> members) {
    std::vector<int> outputs;
    for (const Program::Instruction& member : members)
      for (const int output : member.outputs)
        if (is_needed(output, members)) outputs.push_back(output);
    if (members.size() == 1) {
      program_.instructions.push_back(members[0]);
    } else if (outputs.size() > most_outputs) {
      emit(members.first(members.size() / 2));
      emit(members.subspan(members.size() / 2));
    } else if (!outputs.empty()) {
      program_.instructions.push_back(performed(members, outputs));
    }
  }

  // What the members read that none of them gives.
  std::vector<int> inputs_of(std::span<const Program::Instruction> members) const {
    std::vector<int> inputs;
    std::set<int> known;
    for (const Program::Instruction& member : members) {
      for (const int input : member.inputs)
        if (!is_number(input) && known.insert(input).second) inputs.push_back(input);
      known.insert(member.outputs.begin(), member.outputs.end());
    }
    return inputs;
  }

  Program::Instruction performed(std::span<const Program::Instruction> members, const std::vector<int>& outputs) const {
    const std::vector<int> inputs = inputs_of(members);
    std::vector<Dtype> dtypes;
    for (const int input : inputs) dtypes.push_back(variable(input).dtype);
    const auto region = make_intrusive<Region>(std::move(dtypes));
    std::map<int, int> values;  // of the region, by variable
    for (std::size_t i = 0; i < inputs.size(); ++i) values[inputs[i]] = static_cast<int>(i);
    const auto value_of = [&](int variable) {
      const auto [found, is_new] = values.try_emplace(variable, -1);
      if (is_new) found->second = region->add(number_of(variable), this->variable(variable).dtype);
      return found->second;
    };
    for (const Program::Instruction& member : members) {
      std::vector<int> operands;
      for (const int input : member.inputs) operands.push_back(value_of(input));
      if (Region::admits_reduction(*member.op)) values[member.outputs[0]] = reduced(*region, member, operands[0]);
      else if (const Region* inner = region_of(member)) append(*region, *inner, operands, member, values);
      else values[member.outputs[0]] = region->add(*member.op, operands, variable(member.outputs[0]).dtype);
    }
    std::vector<int> ends;
    for (const int output : outputs) ends.push_back(values.at(output));
    region->set_outputs(std::move(ends));
    Program::Instruction step{.op = &fused_op("fused"), .attributes = make_intrusive<FusedAttributes>(region)};
    for (const int input : inputs) step.inputs.push_back(input);
    for (const int output : outputs) step.outputs.push_back(output);
    step.scopes = members[0].scopes;
    step.epoch = members[0].epoch;
    return step;
  }

  int reduced(Region& region, const Program::Instruction& member, int value) const {
    const auto& attributes = static_cast<const ReduceAttributes&>(*member.attributes);
    Shape axes = attributes.axes;
    for (Index& axis : axes) axis -= variable(member.inputs[0]).shape.rank();
    return region.reduce(*member.op, value, std::move(axes), attributes.keepdims);
  }

  static void append(Region& region, const Region& inner, std::vector<int> numbers, const Program::Instruction& member,
                     std::map<int, int>& values) {
    for (const Region::Step& step : inner.steps()) {
      std::vector<int> operands;
      for (const int operand : step.operands) operands.push_back(numbers[static_cast<std::size_t>(operand)]);
      numbers.push_back(step.op ? region.add(*step.op, operands, step.dtype) : region.add(step.number, step.dtype));
    }
    for (std::size_t i = 0; i < member.outputs.size(); ++i)
      values[member.outputs[i]] = numbers[static_cast<std::size_t>(inner.outputs()[i])];
  }

  Scalar number_of(int variable) const {
    const Tensor& value = *constants_.find(variable);
    const Tensor first(NodePtr(new Node(value.dtype(), cpu, {}, {}, value.node().storage, value.node().offset)));
    return visit_dtype(value.dtype(), [&](auto zero) { return Scalar(first.item<decltype(zero)>()); });
  }

  Program& program_;
  const Constants constants_;
  const std::vector<int> last_read_;
  std::vector<Open*> home_;
  std::list<Open> open_;
  std::size_t now_ = 0;
};

}  // namespace

Program with_regions(Program program) {
  Former(program).run();
  return program;
}

}  // namespace stave
