// Prepares fused regions. Each operation becomes a link of a chain (an instruction of an
// interpreter that keeps results in registers, kernels/chain.h) or, if chains do not support the
// operation, a call of its kernel. Links and kernel calls exchange values in memory. The result of
// a link stays in registers, unless something other than the next link reads it.
#include <algorithm>
#include <numeric>

#include <stave/backends/cpu/complex.h>
#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/fused_tiles.h>

namespace stave_cpu {

using stave::OpId;
using stave::Region;

namespace {

Index bytes_of(Dtype dtype) { return static_cast<Index>(stave::size_of(dtype)); }

class Planner {
 public:
  Planner(PreparedRegion& plan, const Region& region, const Kernels& table)
      : plan_(plan), region_(region), table_(table), inputs_(static_cast<int>(plan.inputs)),
        ends_(static_cast<std::size_t>(plan.values)), is_kept_(ends_.size()), is_spread_(ends_.size()),
        last_(ends_.size(), -1) {
    for (int value = inputs_; value < plan.values; ++value)
      if (region.step(value).op) values_.push_back(value);
  }

  void run() {
    find_readers();
    for (std::size_t first = 0, end; first < values_.size(); first = end) {
      end = first + 1;
      const Chain chain = chain_of(values_[first]);
      if (chain)
        while (end < values_.size() && chain_of(values_[end]) == chain) ++end;
      if (chain) add_chain(first, end);
      else add_kernel(values_[first]);
    }
    add_numbers();
    place();
    for (std::size_t i = 0; i < plan_.inputs; ++i) plan_.links_alone[i] = !is_spread_[i];
  }

 private:
  using Chain = PreparedRegion::Chain;
  static std::size_t at(int value) { return static_cast<std::size_t>(value); }
  bool is_number(int value) const { return value >= inputs_ && !region_.step(value).op; }

  Chain chain_of(int value) const {
    const Region::Step& step = region_.step(value);
    const Dtype dtype = step.dtype;
    const bool is_chained = link_code(step.op->id, LinkOperand::x, LinkOperand::x).has_value();
    return is_chained ? table_.chain[static_cast<int>(dtype)] : nullptr;
  }

  void find_readers() {
    for (const int value : values_)
      for (const int operand : region_.step(value).operands) {
        last_[at(operand)] = value;
        if (operand < inputs_) plan_.last_readers[at(operand)] = value;
      }
    for (const int output : region_.outputs()) {
      const int value = region_.value_behind(output);
      is_kept_[at(value)] = is_spread_[at(value)] = true;
      last_[at(value)] = plan_.values;
    }
  }

  void add_kernel(int value) {
    const Region::Step& step = region_.step(value);
    PreparedRegion::Step& added = plan_.steps.emplace_back();
    added = {value, kernel_of(region_, step), {}, static_cast<int>(step.operands.size()), nullptr, 0, 0};
    std::copy(step.operands.begin(), step.operands.end(), added.operands);
    for (const int operand : step.operands) is_kept_[at(operand)] = is_spread_[at(operand)] = true;
    is_kept_[at(value)] = true;
  }

  void add_chain(std::size_t first, std::size_t end) {
    const std::size_t first_link = plan_.links.size();
    int x = -1;  // The value that the last link computed; it is in registers.
    for (std::size_t i = first; i < end; ++i) add_link(values_[i], x);
    plan_.steps.push_back({x, nullptr, {}, 0, chain_of(x), first_link, plan_.links.size() - first_link});
  }
  void add_link(int value, int& x) {
    const Region::Step& step = region_.step(value);
    const int first = step.operands.front(), second = step.operands.back();
    // If no operand is x, one is loaded as x, preferably one that is not a constant.
    if (first != x && second != x) {
      x = is_number(first) ? second : first;
      plan_.links.push_back({is_number(x) ? LinkCode::load_number : LinkCode::load_array, x, -1});
      is_kept_[at(x)] = true;
    }
    const auto operand = [&](int of) {
      return of == x ? LinkOperand::x : is_number(of) ? LinkOperand::number : LinkOperand::array;
    };
    const int y = first == x ? second : first;
    if (y != x) is_kept_[at(y)] = true;
    plan_.links.push_back({*link_code(step.op->id, operand(first), operand(second)), y, -1});
    ends_[at(value)] = plan_.links.size();
    x = value;
  }

  void add_numbers() {
    for (int value = inputs_; value < plan_.values; ++value) {
      const Region::Step& step = region_.step(value);
      if (step.op) continue;
      // The slot of a constant is filled before the first step, so no other value may use it.
      const int slot = is_spread_[at(value)] ? slots_++ : -1;
      plan_.numbers.push_back({&step.bytes, bytes_of(step.dtype), value, slot});
    }
  }

  // Assigns a slot, a buffer for one tile, to each value that is stored in memory.
  // The slot is free again after the value's last reader. An output's slot stays in use.
  void place() {
    std::vector<int> free, slots(last_.size(), -1);
    for (const int value : values_) {
      if (is_kept_[at(value)]) {
        int& slot = slots[at(value)];
        if (free.empty()) {
          slot = slots_++;
        } else {
          slot = free.back();
          free.pop_back();
        }
        plan_.kept.push_back({value, slot});
        if (const std::size_t end = ends_[at(value)]) plan_.links[end - 1].to = value;
      }
      // A result never uses the slot of an operand of the same step, because their elements may
      // differ in size.
      for (const int operand : region_.step(value).operands)
        if (last_[at(operand)] == value && slots[at(operand)] >= 0)
          free.push_back(std::exchange(slots[at(operand)], -1));
    }
    plan_.buffers = std::max(1, inputs_ + slots_);
  }

  PreparedRegion& plan_;
  const Region& region_;
  const Kernels& table_;
  const int inputs_;
  std::vector<int> values_;  // the values that steps compute, in order
  // For each value: the position after the link that computes it, or 0 if no link does.
  std::vector<std::size_t> ends_;
  std::vector<bool> is_kept_;  // true if the value is stored in memory
  std::vector<bool>
      // True if a kernel reads the value, or if it is an output. If such a value is a number, its
      // buffer must be filled with copies.
      is_spread_;
  std::vector<int> last_;  // The last value that is computed from each value.
  int slots_ = 0;
};

}  // namespace

BlockKernel kernel_of(const Region& region, const Region::Step& step) {
  const Dtype given = region.dtype(step.operands.back()), made = step.dtype;
  switch (step.op->id) {
    case OpId::where: return where_kernel(made);
    case OpId::astype:
    case OpId::stop_gradient: return conversion_kernel(given, made);
    case OpId::complex: return parts_kernel(OpId::complex, given);
    case OpId::real:
    case OpId::imag: return parts_kernel(step.op->id, made);
    default: return elementwise_kernel(step.op->id, given);
  }
}

const PreparedRegion& prepared_region(const Region& region) {
  const Kernels& table = kernels();
  return region.prepared<PreparedRegion>(&table, [&] { return std::make_unique<PreparedRegion>(region, table); });
}

PreparedRegion::PreparedRegion(const Region& region, const Kernels& table)
    : last_readers(region.inputs().size(), -1), links_alone(region.inputs().size()), inputs(region.inputs().size()),
      values(static_cast<int>(inputs + region.steps().size())), buffers(1) {
  for (const Dtype input : region.inputs()) widest = std::max(widest, bytes_of(input));
  for (const Region::Step& step : region.steps()) operations += step.op != nullptr;
  if (const stave_detail::Loop* const loop = region.loop(table.isa)) {
    add_loop(region, *loop);
  } else {
    for (const Region::Step& step : region.steps()) widest = std::max(widest, bytes_of(step.dtype));
    Planner(*this, region, table).run();
  }
  add_outputs(region);
}

void PreparedRegion::add_outputs(const Region& region) {
  outputs.resize(region.outputs().size());
  for (std::size_t k = 0; k < outputs.size(); ++k)
    if (const int value = region.outputs()[k]; value >= 0)
      outputs[k] = {Output::elements, destination(region, value), value};
  plain = static_cast<int>(destinations.size());
  const stave::Shape* together = nullptr;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const Region::Reduction* const reduction = region.reduction(region.outputs()[k]);
    if (!reduction) continue;
    if (const int given = region.given(reduction->value); given >= 0) {
      outputs[k] = {Output::given, -1, given};
      continue;
    }
    if (!together) together = &reduction->axes;
    const auto kind = reduction->axes == *together ? Output::folded : Output::whole;
    outputs[k] = {kind, destination(region, reduction->value), reduction->value};
  }
}

void PreparedRegion::add_loop(const Region& region, const stave_detail::Loop& loop) {
  const int value = region.outputs()[0];
  Step& step = steps.emplace_back(Step{value, loop.run, {}, loop.operands, nullptr, 0, 0});
  std::iota(step.operands, step.operands + loop.operands, 0);
  std::fill(last_readers.begin(), last_readers.end(), value);
  kept.push_back({value, 0});
  widest = std::max(widest, bytes_of(loop.result));
  buffers = loop.operands + 1;
}

int PreparedRegion::destination(const Region& region, int value) {
  const auto number = static_cast<int>(destinations.size());
  const bool is_made = std::any_of(kept.begin(), kept.end(), [&](const Kept& it) { return it.value == value; });
  const bool is_taken =
      std::any_of(destinations.begin(), destinations.end(), [&](const Destination& it) { return it.value == value; });
  destinations.push_back({value, bytes_of(region.dtype(value)), is_made && !is_taken});
  return number;
}

}  // namespace stave_cpu
