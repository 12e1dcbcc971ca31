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
  return op.id == OpId::complex || (is_listed(op) && static_cast<std::size_t>(op.id) >= unary_count) ? 2 : 1;
}

bool takes(const Op& op, Dtype dtype) {
  if (is_complex(dtype)) return op.id != OpId::complex && op.takes_complex;
  if (is_of_parts(op)) return op.id == OpId::complex && dtype == real_of(complex_of(dtype));
  return !is_listed(op) || visit_real_dtype(dtype, [&](auto x) {
    return stave_detail::admits<decltype(x)>(domains[static_cast<std::size_t>(op.id)]);
  });
}

}  // namespace

bool Region::admits(const Op& op) {
  return is_listed(op) || is_of_parts(op) || op.id == OpId::where || op.id == OpId::astype ||
         op.id == OpId::stop_gradient;
}

bool Region::admits(const Op& op, Dtype dtype) {
  // A region must be able to hold the derivatives of its steps. The derivative of zeta with respect
  // to s is not an elementwise operation.
  return admits(op) && op.id != OpId::zeta && (!is_complex(dtype) || op.takes_complex);
}

Dtype Region::result_dtype(const Op& op, Dtype operand, Dtype to) {
  switch (op.id) {
    case OpId::astype: return to;
    case OpId::complex: return complex_of(operand);
    case OpId::real:
    case OpId::imag: return real_of(operand);
    default: return op.result_dtype(operand);
  }
}

int Region::add(const Op& op, std::span<const int> operands, Dtype to) {
  const auto values = static_cast<int>(inputs_.size() + steps_.size());
  if (!admits(op))
    fail<TransformError>(
        "region: {} is not an elementwise operation of the library, and a region can have no other operations",
        op.name);
  if (operands.size() != arity(op))
    fail<TransformError>("region: {} takes {} operands, not {}", op.name, arity(op), operands.size());
  for (const int operand : operands)
    if (operand < 0 || operand >= values)
      fail<TransformError>("region: {}: there is no value {} before this step", op.name, operand);
  Step step{.op = &op, .operands = {}, .dtype = to, .number = 0};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    step.operands.push_back(operands[i]);
    const bool is_condition = op.id == OpId::where && i == 0;
    const Dtype given = dtype(operands[i]), wanted = is_condition ? bool_ : dtype(operands.back());
    const bool loses_part = op.id == OpId::astype && is_complex(given) && !is_complex(to) && to != bool_;
    if (given != wanted || !takes(op, given) || loses_part)
      fail<DtypeError>("region: {}: operand {} is {}, which it does not take here", op.name, i, given);
  }
  step.dtype = result_dtype(op, dtype(operands.back()), to);
  steps_.push_back(step);
  return values;
}

int Region::add(Scalar number, Dtype dtype) {
  Step step{.op = nullptr, .operands = {}, .dtype = dtype, .number = converted_number(number, dtype)};
  write_number(&step.bytes, number, dtype);
  steps_.push_back(step);
  return static_cast<int>(inputs_.size() + steps_.size()) - 1;
}

bool Region::admits_reduction(const Op& op) { return op.id >= OpId::sum && op.id <= OpId::any; }

int Region::reduce(const Op& op, int value, Shape axes, bool keepdims) {
  if (!admits_reduction(op)) fail<TransformError>("region: it cannot end in {}, which is not a reduction", op.name);
  if (value < 0 || value >= static_cast<int>(inputs_.size() + steps_.size()))
    fail<TransformError>("region: {}: there is no value {} to reduce", op.name, value);
  const bool is_logical = op.id == OpId::all || op.id == OpId::any;
  if (is_logical != (dtype(value) == bool_) || is_complex(dtype(value)))
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
  const auto is_complex_step = [](const Step& step) { return is_complex(step.dtype); };
  has_complex_ = std::any_of(inputs_.begin(), inputs_.end(), is_complex) ||
                 std::any_of(steps_.begin(), steps_.end(), is_complex_step);
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
  return this == &other || (inputs_ == other.inputs_ && outputs_ == other.outputs_ && steps_ == other.steps_ &&
                            reductions_ == other.reductions_);
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
    // A number shares its slot with no other value, because it is written before the first step.
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
    // The slots of the operands become free only now, because a step's value must not share a slot
    // with an operand, whose elements may have another size.
    for (const int operand : steps_[i].operands) {
      const auto value = static_cast<std::size_t>(operand);
      if (value < inputs || !step(operand).op || last[value - inputs] != i) continue;
      free.push_back(steps_[value - inputs].slot);
      last[value - inputs] = never;  // a step that reads the value twice must free its slot once
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

namespace stave_detail {

std::size_t RegionBuilder::HashOfStep::operator()(const Region::Step& step) const noexcept {
  std::size_t hash = std::hash<const Op*>()(step.op) + static_cast<std::size_t>(step.dtype);
  const auto add = [&](std::size_t word) { hash = hash * 0x9e3779b97f4a7c15u + word; };
  for (const int operand : step.operands) add(static_cast<std::size_t>(operand));
  for (const std::uint64_t word : step.bytes.words) add(word);
  return hash ^ hash >> 32;
}

int RegionBuilder::push(Value value) {
  values_.push_back(std::move(value));
  return static_cast<int>(values_.size()) - 1;
}

int RegionBuilder::find_or_push(Region::Step step) {
  const auto [found, is_new] = known_.try_emplace(step, -1);
  if (is_new) found->second = push({std::move(step)});
  return found->second;
}

int RegionBuilder::input(Dtype dtype) {
  inputs_.push_back(dtype);
  return push({{.op = nullptr, .operands = {}, .dtype = dtype, .number = 0}, static_cast<int>(inputs_.size()) - 1});
}

int RegionBuilder::number(Scalar number, Dtype dtype) {
  Region::Step step{.op = nullptr, .operands = {}, .dtype = dtype, .number = number};
  write_number(&step.bytes, number, dtype);
  return find_or_push(std::move(step));
}

int RegionBuilder::add(const Op& op, std::span<const int> operands, Dtype dtype) {
  Region::Step step{.op = &op, .operands = SmallVector<int, 3>(operands), .dtype = dtype, .number = 0};
  return merges_ ? find_or_push(std::move(step)) : push({std::move(step)});
}

int RegionBuilder::reduce(const Op& op, int value, Shape axes, bool keepdims) {
  reductions_.push_back({&op, value, std::move(axes), keepdims});
  return push({{.op = &op, .operands = {value}, .dtype = dtype(value), .number = 0},
               -1,
               static_cast<int>(reductions_.size()) - 1});
}

std::vector<int> RegionBuilder::append(const Region& region, std::span<const int> inputs) {
  std::vector<int> values(inputs.begin(), inputs.end()), outputs;
  for (const Region::Step& step : region.steps()) {
    SmallVector<int, 3> operands;
    for (const int operand : step.operands) operands.push_back(values[static_cast<std::size_t>(operand)]);
    values.push_back(step.op ? add(*step.op, operands, step.dtype) : number(step.number, step.dtype));
  }
  for (const int output : region.outputs()) outputs.push_back(values[static_cast<std::size_t>(output)]);
  return outputs;
}

RegionPtr RegionBuilder::region(std::span<const int> outputs) const {
  const auto region = make_intrusive<Region>(inputs_);
  std::vector<int> numbers;  // for each value of the builder, its number in the region
  const auto number_in_region = [&](int value) { return numbers[static_cast<std::size_t>(value)]; };
  for (const auto& [step, input, reduction] : values_) {
    SmallVector<int, 3> operands;
    for (const int operand : step.operands) operands.push_back(number_in_region(operand));
    if (input >= 0) {
      numbers.push_back(input);
    } else if (reduction >= 0) {
      const Region::Reduction& it = reductions_[static_cast<std::size_t>(reduction)];
      numbers.push_back(region->reduce(*it.op, operands[0], it.axes, it.keepdims));
    } else {
      numbers.push_back(step.op ? region->add(*step.op, operands, step.dtype) : region->add(step.number, step.dtype));
    }
  }
  std::vector<int> ends;
  for (const int output : outputs) ends.push_back(number_in_region(output));
  region->set_outputs(std::move(ends));
  return region;
}

}  // namespace stave_detail
