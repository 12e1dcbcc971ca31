#include <stave/core/ops/element_sets.h>

#include <algorithm>
#include <limits>

#include <stave/core/effects/effect.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/layout_rules.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {
namespace {

/// Returns true if both tensors are the same elements of one storage.
bool is_same_view(const Tensor& a, const Tensor& b) {
  if (a.node_ptr() == b.node_ptr()) return true;
  const Node &x = *a.node_ptr(), &y = *b.node_ptr();
  return x.storage == y.storage && x.offset == y.offset && x.shape == y.shape && x.strides == y.strides;
}

/// Returns x with length 1 along the axes that a stride of 0 repeats.
Tensor without_repeats(const Tensor& x, const Shape& axes) {
  std::vector<Tensor::Subscript> first(static_cast<std::size_t>(x.rank()), slice());
  bool any = false;
  for (const Index axis : axes) {
    const auto at = static_cast<std::size_t>(axis);
    if (x.shape()[at] <= 1 || x.strides()[at] != 0) continue;
    first[at] = slice(0, 1);
    any = true;
  }
  return any ? x(first) : x;
}

}  // namespace
}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

namespace {

using Number = ElementSets::Number;
using Run = ElementSets::Run;

std::span<const Number> elements_of(const Tensor& contiguous) { return contiguous.data<Number>(); }

/// Appends a run to a list of sorted runs, or extends the last one.
void append(std::vector<Run>& runs, Run run) {
  if (!runs.empty() && run.low <= runs.back().high) runs.back().high = std::max(runs.back().high, run.high);
  else runs.push_back(run);
}

}  // namespace

ElementSets::ElementSets() : slots_(1), memo_(std::size_t{1} << 14) {}

bool ElementSets::contains(Number set, Index element) const {
  return std::ranges::any_of((*this)[set], [&](Run run) { return run.low <= element && element < run.high; });
}

Number ElementSets::add(std::span<const Run> runs) {
  const Slot slot{runs_.size(), runs.size()};
  runs_.insert(runs_.end(), runs.begin(), runs.end());
  if (!free_.empty()) {
    const Number number = free_.back();
    free_.pop_back();
    slots_[static_cast<std::size_t>(number)] = slot;
    return number;
  }
  if (slots_.size() > static_cast<std::size_t>(std::numeric_limits<Number>::max()))
    fail<Error>("sparsity: more than {} sets of elements are in use at once: split the function into parts",
                std::numeric_limits<Number>::max());
  slots_.push_back(slot);
  return static_cast<Number>(slots_.size() - 1);
}

bool ElementSets::equals(Number set, std::span<const Run> runs) const { return std::ranges::equal((*this)[set], runs); }

Number ElementSets::unite(Number a, Number b) {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  if (a > b) std::swap(a, b);
  const std::uint32_t mixed = static_cast<std::uint32_t>(a) * 2654435761u ^ static_cast<std::uint32_t>(b) * 40503u;
  Memo& memo = memo_[mixed >> 7 & (memo_.size() - 1)];
  if (memo.a != a || memo.b != b) memo = {a, b, merge(a, b)};
  return memo.result;
}

Number ElementSets::merge(Number a, Number b) {
  const std::span<const Run> x = (*this)[a], y = (*this)[b];
  if (work_.size() < x.size() + y.size()) work_.resize(x.size() + y.size());
  const Run *from_x = x.data(), *from_y = y.data();
  const Run *const end_x = from_x + x.size(), *const end_y = from_y + y.size();
  Run* const begin = work_.data();
  Run* end = begin;
  while (from_x != end_x || from_y != end_y) {
    const bool take_x = from_y == end_y || (from_x != end_x && from_x->low < from_y->low);
    const Run next = take_x ? *from_x++ : *from_y++;
    if (end != begin && next.low <= end[-1].high) end[-1].high = std::max(end[-1].high, next.high);
    else *end++ = next;
  }
  const std::span<const Run> united(begin, end);
  if (equals(a, united)) return a;
  return equals(b, united) ? b : add(united);
}

Number ElementSets::unite(std::vector<Number>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (!numbers.empty() && numbers.front() == 0) numbers.erase(numbers.begin());
  if (numbers.size() < 3) return numbers.empty() ? 0 : numbers.size() == 1 ? numbers[0] : unite(numbers[0], numbers[1]);
  std::vector<Run> all;
  for (const Number set : numbers) {
    const auto runs = (*this)[set];
    all.insert(all.end(), runs.begin(), runs.end());
  }
  const auto by_low = [](Run x, Run y) { return x.low < y.low; };
  if (!std::is_sorted(all.begin(), all.end(), by_low)) std::sort(all.begin(), all.end(), by_low);
  std::vector<Run> united;
  for (const Run run : all) append(united, run);
  for (const Number set : numbers)
    if (equals(set, united)) return set;
  return add(united);
}

Tensor ElementSets::singletons(const Shape& shape, std::int32_t first) {
  std::vector<Number> numbers(static_cast<std::size_t>(shape.elements()));
  for (Number& number : numbers) {
    const Run run{first, first + 1};
    number = add({&run, 1});
    ++first;
  }
  return from(numbers, shape);
}

Tensor ElementSets::unite(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  if (is_same_view(a, b)) return a;
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), "unite");
  const Tensor x = contiguous(broadcast_to(a, shape)), y = contiguous(broadcast_to(b, shape));
  const std::span<const Number> left = elements_of(x), right = elements_of(y);
  std::vector<Number> united(left.size());
  bool is_left = true, is_right = true;
  for (std::size_t i = 0; i < united.size(); ++i) {
    united[i] = unite(left[i], right[i]);
    is_left &= united[i] == left[i];
    is_right &= united[i] == right[i];
  }
  if (is_left && a.shape() == shape) return a;
  if (is_right && b.shape() == shape) return b;
  return from(united, shape);
}

Tensor ElementSets::unite_over(const Tensor& numbers, Shape axes) {
  const Tensor x = without_repeats(numbers, axes);
  Shape order, kept, result = x.shape();
  Index inner = 1;
  for (Index axis = 0; axis < x.rank(); ++axis)
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
      order.push_back(axis);
      kept.push_back(x.shape(axis));
    }
  for (const Index axis : axes) {
    order.push_back(axis);
    inner *= x.shape(axis);
    result[static_cast<std::size_t>(axis)] = 1;
  }
  if (inner == 1) return x;
  const Tensor rows = contiguous(permute_dims(x, order));
  const std::span<const Number> all = elements_of(rows);
  std::vector<Number> united(static_cast<std::size_t>(kept.elements())), row;
  const auto length = static_cast<std::size_t>(inner);
  for (std::size_t i = 0; i < united.size(); ++i) {
    row.clear();
    for (const Number set : all.subspan(i * length, length))
      if (row.empty() || row.back() != set) row.push_back(set);
    united[i] = unite(row);
  }
  return from(united, result);
}

Tensor ElementSets::unite_running(const Tensor& numbers, int axis, bool reverse) {
  const Tensor x = contiguous(moveaxis(numbers, axis, -1));
  const std::span<const Number> all = elements_of(x);
  const auto n = static_cast<std::size_t>(x.shape(-1));
  std::vector<Number> united(all.size());
  for (std::size_t start = 0; start < all.size(); start += n) {
    Number set = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t at = start + (reverse ? n - 1 - i : i);
      united[at] = set = unite(set, all[at]);
    }
  }
  return moveaxis(from(united, x.shape()), -1, axis);
}

Tensor ElementSets::unite_at(const Tensor& numbers, const Tensor& places, Index count) {
  const Tensor sources = contiguous(numbers), targets = contiguous(places);
  const std::span<const Number> sets = elements_of(sources);
  const std::span<const std::int64_t> to = targets.data<std::int64_t>();
  // The elements in the order of their places.
  std::vector<std::size_t> begin(static_cast<std::size_t>(count) + 1);
  for (const std::int64_t place : to) ++begin[static_cast<std::size_t>(place) + 1];
  for (std::size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
  std::vector<Number> grouped(sets.size()), group, united(static_cast<std::size_t>(count));
  std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
  for (std::size_t i = 0; i < sets.size(); ++i) grouped[next[static_cast<std::size_t>(to[i])]++] = sets[i];
  for (std::size_t place = 0; place < united.size(); ++place) {
    group.assign(grouped.begin() + static_cast<std::ptrdiff_t>(begin[place]),
                 grouped.begin() + static_cast<std::ptrdiff_t>(begin[place + 1]));
    united[place] = unite(group);
  }
  return from(united);
}

void ElementSets::collect(std::span<const Tensor> live) {
  std::vector<char> is_live(slots_.size());
  is_live[0] = true;
  for (const Tensor& numbers : live) {
    const Tensor x = contiguous(without_repeats(numbers, all_axes_of(numbers.rank())));
    for (const Number set : elements_of(x)) is_live[static_cast<std::size_t>(set)] = true;
  }
  std::vector<Run> kept;
  free_.clear();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!is_live[i]) {
      free_.push_back(static_cast<Number>(i));
      slot = {};
      continue;
    }
    const auto first = runs_.begin() + static_cast<std::ptrdiff_t>(slot.begin);
    slot.begin = kept.size();
    kept.insert(kept.end(), first, first + static_cast<std::ptrdiff_t>(slot.count));
  }
  runs_ = std::move(kept);
  std::fill(memo_.begin(), memo_.end(), Memo{});
  collect_at_ = std::max(std::size_t{1} << 21, 2 * (runs_.size() + slots_.size()));
}

Tensor DependsContext::set(std::size_t i) const {
  return has(i) ? inputs[i] : broadcast_to(zeros({}, int32), call.input(i).shape());
}

}  // namespace stave

namespace stave_detail {

Outputs depends_moved(const DependsContext& c, ValueSet indices) {
  Inputs inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back(indices.has_input(i) ? c.constant(i) : c.set(i));
    if (!inputs.back().defined()) return {};
  }
  return perform(c.call.with_inputs(std::move(inputs)));
}

Outputs depends_elementwise(const DependsContext& c) {
  Tensor all;
  for (const Tensor& set : c.inputs) all = c.sets.unite(all, set);
  return Outputs(c.call.abstract_outputs().size(), all);
}

Outputs depends_scaled(const DependsContext& c) {
  for (std::size_t i = 0; i < 2; ++i) {
    const Tensor factor = c.constant(i);
    if (!factor.defined() || is_integer(factor.dtype())) continue;
    const Tensor is_zero = without_repeats(factor, all_axes_of(factor.rank())) == 0;
    return any(is_zero).item<bool>() ? where(is_zero, 0, c.set(1 - i)) : c.set(1 - i);
  }
  return depends_elementwise(c);
}

Outputs depends_where(const DependsContext& c) {
  const Tensor condition = c.constant(0);
  if (!condition.defined() || (c.has(1) && c.has(2) && is_same_view(c.set(1), c.set(2)))) return depends_elementwise(c);
  return where(condition, c.set(1), c.set(2));
}

Outputs depends_along(const DependsContext& c, Shape axes) {
  Tensor all;
  for (const Tensor& set : c.inputs)
    if (set.defined()) all = c.sets.unite(all, c.sets.unite_over(set, axes));
  return Outputs(c.call.abstract_outputs().size(), all);
}

Outputs depends_on_matrices(const DependsContext& c) {
  Tensor all;
  for (const Tensor& set : c.inputs) {
    if (!set.defined()) continue;
    if (set.rank() < 2) return {};
    all = c.sets.unite(all, c.sets.unite_over(set, {set.rank() - 2, set.rank() - 1}));
  }
  return Outputs(c.call.abstract_outputs().size(), all);
}

}  // namespace stave_detail
