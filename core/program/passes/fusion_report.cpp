#include <stave/core/program/passes/fusion_report.h>

#include <algorithm>

#include <stave/core/program/fused.h>
#include <stave/core/program/region.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>

namespace stave_detail {

void FusionReport::add(const Program::Instruction& step, bool elementwise) {
  for (const int output : step.outputs) maker_[output] = {&step, elementwise, nullptr};
}

void FusionReport::ended(std::span<const int> values, const Program::Instruction& reader) {
  for (const int value : values) maker_[value].ended_by = &reader;
}

// Two elementwise operations may be separated by a view or by an operation that is not elementwise.
// If `step` has such a separation from an earlier operation, only this is reported, because it also
// causes the other reasons.
void FusionReport::joined(const Program::Instruction& step, FunctionRef<bool(int)> together) {
  std::string near;
  bool far = false;
  for (const int input : step.inputs) {
    if (together(input)) continue;
    const Program::Instruction* view = nullptr;
    const Program::Instruction* const made = computing(input, view);
    if (!made) continue;
    const bool reads_elementwise = std::any_of(made->inputs.begin(), made->inputs.end(), [&](int x) {
      const Program::Instruction* past = nullptr;
      return is_elementwise(computing(x, past));
    });
    if (!is_elementwise(made) && !reads_elementwise) continue;
    if (is_elementwise(made) && !view) {
      if (near.empty()) near = why_not_with(step, *made, input);
      continue;
    }
    far = true;
    const Index read_as = is_elementwise(made) ? program_.variable(input).shape.elements() : 0;
    if (!explained_.emplace(made, read_as).second) continue;
    tell(is_elementwise(made) ? why_view(*made, *view, input) : why_not_elementwise(*made), *made);
  }
  if (!far && !near.empty()) tell(std::move(near), step);
}

void FusionReport::divided(std::size_t operations, std::size_t values, std::size_t most) {
  tell(fmt::format("a region of {} operations, of whose values other operations read {}, more than {}, is divided",
                   operations, values, most),
       {});
}

std::vector<std::string> FusionReport::lines() const {
  std::vector<std::string> lines;
  for (const std::string& line : order_) {
    const int times = times_.at(line);
    lines.push_back(times == 1 ? line : fmt::format("{} ({} times)", line, times));
  }
  return lines;
}

const Program::Instruction* FusionReport::computing(int variable, const Program::Instruction*& view) const {
  const Program::Instruction* step = maker(variable);
  while (step && is_view(*step)) {
    view = step;
    step = maker(step->inputs[0]);
  }
  return step;
}

std::string FusionReport::described(const Program::Instruction& step) const {
  const Program::Variable& result = program_.variable(step.outputs[0]);
  return fmt::format("{}{} of {}", step.op->name, result.label ? fmt::format(" \"{}\"", result.label->text) : "",
                     result.shape);
}

std::string FusionReport::why_view(const Program::Instruction& made, const Program::Instruction& view, int read) const {
  const Shape &given = program_.variable(made.outputs[0]).shape, &as = program_.variable(read).shape;
  if (given.elements() > 0 && as.elements() > given.elements())
    return fmt::format("{} is broadcast to {}: it would be computed {} times", described(made), as,
                       as.elements() / given.elements());
  return fmt::format("{} is read through {}, as {}: a region cannot read its values through a view", described(made),
                     view.op->name, as);
}

std::string FusionReport::why_not_elementwise(const Program::Instruction& step) const {
  if (Region::admits_reduction(*step.op))
    return fmt::format("{} of {} over {} ends a region", step.op->name, program_.variable(step.inputs[0]).shape,
                       step.attributes->str());
  std::string shapes;
  for (const int input : step.inputs) shapes += (shapes.empty() ? "" : " and ") + program_.variable(input).shape.str();
  const bool is_region = dynamic_cast<const FusedAttributes*>(step.attributes.get());
  return fmt::format("{} of {} {}", step.op->name, shapes,
                     is_region ? "already ends in a reduction" : "is not elementwise");
}

std::string FusionReport::why_not_with(const Program::Instruction& step, const Program::Instruction& made,
                                       int read) const {
  if (step.barrier != made.barrier)
    return fmt::format(
        "{} reads {} across a rematerialisation barrier: operations that a checkpoint runs again are not fused with "
        "those of the first run",
        described(step), made.op->name);
  if (const Program::Instruction* const before = maker_[read].ended_by)
    return fmt::format("{} reads {} after {} did, which ended the region that computes that value", described(step),
                       made.op->name, before->op ? before->op->name : "the function itself");
  return fmt::format("{} begins another region, because the region of {} has the largest size that is allowed",
                     described(step), made.op->name);
}

void FusionReport::tell(std::string line, const Program::Instruction& of) {
  if (of.scopes) {
    std::string path;
    for (const NamePtr& name : of.scopes->names) path = name->text + (path.empty() ? "" : "/") + path;
    line += " @" + path;
  }
  if (times_[line]++ == 0) order_.push_back(std::move(line));
}

}  // namespace stave_detail
