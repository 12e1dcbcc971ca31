#include <stave/core/program/region.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include <stave/core/ops/elementwise_ops.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>

namespace stave {

using namespace stave_detail;

namespace {

constexpr Operands domains[] = {
#define X(name, Struct) stave_detail::Struct::operands,
    STAVE_UNARY_OPS(X) STAVE_BINARY_OPS(X)
#undef X
};
constexpr auto unary_count = static_cast<std::size_t>(OpId::add);

bool is_listed(const Op& op) { return static_cast<std::size_t>(op.id) < std::size(domains); }

std::size_t arity(const Op& op) {
  if (op.id == OpId::where) return 3;
  return is_listed(op) && static_cast<std::size_t>(op.id) >= unary_count ? 2 : 1;
}

bool takes(const Op& op, Dtype dtype) {
  return !is_listed(op) || visit_dtype(dtype, [&](auto x) {
    return stave_detail::admits<decltype(x)>(domains[static_cast<std::size_t>(op.id)]);
  });
}

}  // namespace

bool Region::admits(const Op& op) {
  return is_listed(op) || op.id == OpId::where || op.id == OpId::astype || op.id == OpId::stop_gradient;
}

int Region::add(const Op& op, std::span<const int> operands, Dtype to) {
  const auto values = static_cast<int>(inputs_.size() + steps_.size());
  if (!admits(op))
    fail<TransformError>(
        "region: {} is not an elementwise operation of the library, and a region can have no other operations",
        op.name);
  if (operands.size() != arity(op))
    fail<TransformError>("region: {} takes {} operands, not {}", op.name, arity(op), operands.size());
  Step step{.op = &op, .operands = {}, .dtype = to, .number = 0};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] < 0 || operands[i] >= values)
      fail<TransformError>("region: {}: there is no value {} before this step", op.name, operands[i]);
    step.operands.push_back(operands[i]);
    const bool condition = op.id == OpId::where && i == 0;
    const Dtype given = dtype(operands[i]), wanted = condition ? bool_ : dtype(operands.back());
    if (given != wanted || !takes(op, given))
      fail<DtypeError>("region: {}: operand {} is {}, which it does not take here", op.name, i, given);
  }
  if (op.id != OpId::astype) step.dtype = op.result_dtype(dtype(operands.back()));
  steps_.push_back(step);
  return values;
}

int Region::add(Scalar number, Dtype dtype) {
  Step step{.op = nullptr, .operands = {}, .dtype = dtype, .number = held(number, dtype)};
  write_number(&step.bytes, number, dtype);
  steps_.push_back(step);
  return static_cast<int>(inputs_.size() + steps_.size()) - 1;
}

bool Region::admits_reduction(const Op& op) { return op.id >= OpId::sum && op.id <= OpId::any; }

int Region::reduce(const Op& op, int value, Shape axes, bool keepdims) {
  if (!admits_reduction(op)) fail<TransformError>("region: it cannot end in {}, which is not a reduction", op.name);
  if (value < 0 || value >= static_cast<int>(inputs_.size() + steps_.size()))
    fail<TransformError>("region: {}: there is no value {} to reduce", op.name, value);
  const bool logical = op.id == OpId::all || op.id == OpId::any;
  if (logical != (dtype(value) == bool_))
    fail<DtypeError>("region: {} does not take a value of {}", op.name, dtype(value));
  std::sort(axes.begin(), axes.end());
  if (!axes.empty() && axes.back() >= 0)
    fail<IndexError>("region: {}: axis {} is not negative: count axes from the last one, which is -1", op.name,
                     axes.back());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    fail<ShapeError>("region: {}: an axis is given twice in {}", op.name, axes);
  reductions_.push_back({&op, value, std::move(axes), keepdims});
  return -static_cast<int>(reductions_.size());
}

void Region::set_outputs(std::vector<int> values) {
  const auto count = static_cast<int>(inputs_.size() + steps_.size());
  for (const int value : values)
    if (value < -static_cast<int>(reductions_.size()) || value >= count)
      fail<TransformError>("region: there is no value {} to return", value);
  outputs_ = std::move(values);
  drop_unused_reductions();
  drop_unused();
  assign_slots();
}

void Region::set_loops(std::span<const Loop> loops) {
  loops_.clear();
  if (outputs_.size() != 1 || outputs_[0] < 0 || given(outputs_[0]) >= 0) return;
  const auto fits = [&](const Loop& loop) {
    return std::cmp_equal(loop.operands, inputs_.size()) && loop.result == dtype(outputs_[0]) &&
           std::all_of(inputs_.begin(), inputs_.end(), [&](Dtype input) { return input == loop.dtype; });
  };
  std::copy_if(loops.begin(), loops.end(), std::back_inserter(loops_), fits);
}

const Loop* Region::loop(std::string_view isa) const {
  const auto found = std::find_if(loops_.begin(), loops_.end(), [&](const Loop& loop) { return loop.isa == isa; });
  return found == loops_.end() ? nullptr : &*found;
}

bool Region::is_same_as(const Region& other) const {
  const auto same_step = [](const Step& a, const Step& b) {
    return a.op == b.op && a.operands == b.operands && a.dtype == b.dtype && a.bytes.words[0] == b.bytes.words[0] &&
           a.bytes.words[1] == b.bytes.words[1];
  };
  const auto same_reduction = [](const Reduction& a, const Reduction& b) {
    return a.op == b.op && a.value == b.value && a.axes == b.axes && a.keepdims == b.keepdims;
  };
  return this == &other ||
         (inputs_ == other.inputs_ && outputs_ == other.outputs_ &&
          std::equal(steps_.begin(), steps_.end(), other.steps_.begin(), other.steps_.end(), same_step) &&
          std::equal(reductions_.begin(), reductions_.end(), other.reductions_.begin(), other.reductions_.end(),
                     same_reduction));
}

IntrusivePtr<Region> Region::reopened() const {
  IntrusivePtr<Region> copy(new Region(inputs_));
  copy->steps_ = steps_;
  return copy;
}

int Region::given(int value) const {
  for (;;) {
    if (value < static_cast<int>(inputs_.size()) || !step(value).op) return value;
    const Step& last = step(value);
    const bool same =
        last.op->id == OpId::stop_gradient || (last.op->id == OpId::astype && dtype(last.operands[0]) == last.dtype);
    if (!same) return -1;
    value = last.operands[0];
  }
}

void Region::drop_unused_reductions() {
  std::vector<Reduction> kept;
  std::vector<int> renumbered(reductions_.size(), 0);
  for (int& output : outputs_) {
    if (output >= 0) continue;
    int& number = renumbered[static_cast<std::size_t>(-1 - output)];
    if (number == 0) {
      kept.push_back(*reduction(output));
      number = -static_cast<int>(kept.size());
    }
    output = number;
  }
  reductions_ = std::move(kept);
}

void Region::drop_unused() {
  const std::size_t inputs = inputs_.size();
  std::vector<bool> used(inputs + steps_.size());
  for (const int output : outputs_) used[static_cast<std::size_t>(value_behind(output))] = true;
  for (std::size_t i = steps_.size(); i-- > 0;)
    if (used[inputs + i])
      for (const int operand : steps_[i].operands) used[static_cast<std::size_t>(operand)] = true;
  std::vector<int> renumbered(used.size());
  int next = 0;
  for (std::size_t value = 0; value < used.size(); ++value)
    if (value < inputs || used[value]) renumbered[value] = next++;
  std::vector<Step> kept;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (!used[inputs + i]) continue;
    Step& step = kept.emplace_back(steps_[i]);
    for (int& operand : step.operands) operand = renumbered[static_cast<std::size_t>(operand)];
  }
  steps_ = std::move(kept);
  for (int& output : outputs_)
    if (output >= 0) output = renumbered[static_cast<std::size_t>(output)];
  for (Reduction& reduction : reductions_) reduction.value = renumbered[static_cast<std::size_t>(reduction.value)];
}

void Region::assign_slots() {
  const std::size_t inputs = inputs_.size();
  const std::size_t never = steps_.size();
  std::vector<std::size_t> last(steps_.size(), 0);  // the last step that reads each value
  for (std::size_t i = 0; i < steps_.size(); ++i)
    for (const int operand : steps_[i].operands)
      if (const auto value = static_cast<std::size_t>(operand); value >= inputs) last[value - inputs] = i;
  for (const int output : outputs_)
    if (const auto value = static_cast<std::size_t>(value_behind(output)); value >= inputs)
      last[value - inputs] = never;

  slots_ = 0;
  for (Step& step : steps_)
    // A number keeps its slot, because it is written before the first step.
    if (!step.op) step.slot = slots_++;
  std::vector<int> free;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (!steps_[i].op) continue;
    if (free.empty()) {
      steps_[i].slot = slots_++;
    } else {
      steps_[i].slot = free.back();
      free.pop_back();
    }
    // A result never shares a slot with an operand, whose elements may have another size.
    for (const int operand : steps_[i].operands) {
      const auto value = static_cast<std::size_t>(operand);
      if (value < inputs || !step(operand).op || last[value - inputs] != i) continue;
      free.push_back(steps_[value - inputs].slot);
      last[value - inputs] = never;  // the slot must not be freed again if the step reads it twice
    }
  }
}

std::string Region::str() const {
  std::string text;
  const auto named = [&](int value) { return fmt::format("{}:{}", name_of_value(value), dtype(value)); };
  for (std::size_t i = 0; i < inputs_.size(); ++i) text += (i ? " " : "") + named(static_cast<int>(i));
  text += " ->\n";
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    text += fmt::format("  {} = ", named(static_cast<int>(inputs_.size() + i)));
    if (!step.op) text += step.number.str();
    else text += step.op->name;
    for (const int operand : step.operands) text += " " + name_of_value(operand);
    text += "\n";
  }
  text += "  in";
  for (const int output : outputs_) {
    const Reduction* const found = reduction(output);
    if (!found) text += " " + name_of_value(output);
    else
      text += fmt::format(" {}({}, {}{})", found->op->name, name_of_value(found->value), found->axes,
                          found->keepdims ? " keepdims" : "");
  }
  return text + "\n";
}

}  // namespace stave
