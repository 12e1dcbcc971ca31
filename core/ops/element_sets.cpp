#include <stave/core/ops/element_sets.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include <stave/core/effects/effect.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/layout_rules.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/storage.h>

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

constexpr std::int64_t most_stencils = std::numeric_limits<std::int32_t>::max(),
                       most_runs = std::numeric_limits<std::uint32_t>::max();
constexpr std::int32_t one_element = 1;  // the stencil {0}

/// Appends a run to sorted runs [begin, end), or extends the last one. Returns their new end.
Run* append(const Run* begin, Run* end, Run run) {
  if (end != begin && run.low <= end[-1].high) end[-1].high = std::max(end[-1].high, run.high);
  else *end++ = run;
  return end;
}

Number set_of(std::int32_t stencil, std::int64_t offset) {
  return static_cast<Number>(static_cast<std::uint64_t>(stencil) << 32) + offset;
}

std::span<const Number> elements_of(const Tensor& contiguous) { return contiguous.data<Number>(); }

/// Returns a tensor of numbers without values, and a pointer to its elements.
std::pair<Tensor, Number*> new_numbers(const Shape& shape) {
  const Dtype dtype = dtype_of<Number>();
  const Tensor x(NodePtr(new Node(dtype, cpu, shape, allocate_storage(cpu, dtype, shape, "sparsity"))));
  return {x, static_cast<Number*>(x.node().data())};
}

/// A tensor of numbers as rows whose elements stand side by side in memory.
class Rows {
 public:
  explicit Rows(const Tensor& x)
      : x_(x.rank() > 0 && x.strides().back() != 1 ? contiguous(x) : x),
        first_(static_cast<const Number*>(x_.node().data())) {
    if (x_.is_contiguous()) length_ = x_.size();
    else length_ = x_.shape().back();
  }
  std::size_t length() const { return static_cast<std::size_t>(length_); }
  /// The row in which element `at` stands, in row-major order, from this element on.
  const Number* at(std::size_t at) const {
    Index rest = static_cast<Index>(at) / length_;
    const Number* row = first_ + static_cast<Index>(at) % length_;
    if (rest == 0) return row;
    for (int axis = x_.rank() - 1; axis-- > 0;) {
      const auto i = static_cast<std::size_t>(axis);
      row += rest % x_.shape()[i] * x_.strides()[i];
      rest /= x_.shape()[i];
    }
    return row;
  }

 private:
  Tensor x_;
  const Number* first_;
  Index length_ = 0;
};

/// Moves runs so that the first one begins at 0. Returns where it began.
std::int32_t move_to_zero(std::span<Run> runs) {
  const std::int32_t low = runs.empty() ? 0 : runs[0].low;
  for (Run& run : runs) run.low -= low, run.high -= low;
  return low;
}

std::uint32_t hash_of(std::span<const Run> runs) {
  std::uint64_t hash = runs.size();
  for (const Run run : runs) {
    const std::uint64_t both = static_cast<std::uint64_t>(run.low) << 32 | static_cast<std::uint32_t>(run.high);
    hash = (hash ^ both) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return static_cast<std::uint32_t>(hash);
}

}  // namespace

ElementSets::ElementSets() : slots_(1), memo_(std::size_t{1} << 12), recent_(std::size_t{1} << 12) {
  const Run run{0, 1};
  find_or_add({&run, 1});
}

bool ElementSets::contains(Number set, Index element) const {
  const Index place = element - offset_of(set);
  return std::ranges::any_of(runs_of(stencil_of(set)), [&](Run run) { return run.low <= place && place < run.high; });
}

std::int32_t ElementSets::add(std::span<const Run> runs) {
  if (static_cast<std::int64_t>(runs_.size() + runs.size()) > most_runs ||
      static_cast<std::int64_t>(slots_.size()) > most_stencils)
    fail<Error>("sparsity: more than {} ranges of elements are in use at once: split the function into parts",
                most_runs);
  const Slot slot{static_cast<std::uint32_t>(runs_.size()), static_cast<std::uint32_t>(runs.size())};
  runs_.insert(runs_.end(), runs.begin(), runs.end());
  if (!free_.empty()) {
    const std::int32_t stencil = free_.back();
    free_.pop_back();
    slots_[static_cast<std::size_t>(stencil)] = slot;
    return stencil;
  }
  slots_.push_back(slot);
  return static_cast<std::int32_t>(slots_.size() - 1);
}

// The runs are not those of a stencil themselves, since the list of these may move.
std::int32_t ElementSets::find_or_add(std::span<const Run> runs) {
  const std::uint32_t hash = hash_of(runs);
  Recent& recent = recent_[hash & (recent_.size() - 1)];
  if (recent.hash != hash || !equals(recent.stencil, runs)) recent = {hash, add(runs)};
  return recent.stencil;
}

bool ElementSets::equals(std::int32_t stencil, std::span<const Run> runs) const {
  return std::ranges::equal(runs_of(stencil), runs);
}

Number ElementSets::unite(Number a, Number b) {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  if (a > b) std::swap(a, b);
  const std::int32_t x = stencil_of(a), y = stencil_of(b), apart = offset_of(b) - offset_of(a);
  const auto word = [](std::int32_t number) { return static_cast<std::uint64_t>(static_cast<std::uint32_t>(number)); };
  const std::uint64_t mixed = ((word(x) << 32 | word(y)) * 0x9e3779b97f4a7c15u ^ word(apart)) * 0xbf58476d1ce4e5b9u;
  Memo& memo = memo_[mixed >> 40 & (memo_.size() - 1)];
  if (memo.a != x || memo.b != y || memo.apart != apart) {
    const Number united = merge(a, b);
    memo = {x, y, apart, stencil_of(united), offset_of(united) - offset_of(a)};
  }
  return set_of(memo.stencil, memo.offset + offset_of(a));
}

Number ElementSets::merge(Number a, Number b) {
  const std::span<const Run> x = runs_of(stencil_of(a)), y = runs_of(stencil_of(b));
  const std::int32_t low = std::min(offset_of(a), offset_of(b)), move_x = offset_of(a) - low,
                     move_y = offset_of(b) - low;
  if (work_.size() < x.size() + y.size()) work_.resize(x.size() + y.size());
  const Run *from_x = x.data(), *from_y = y.data();
  const Run *const end_x = from_x + x.size(), *const end_y = from_y + y.size();
  Run* const begin = work_.data();
  Run* end = begin;
  while (from_x != end_x || from_y != end_y) {
    const bool take_x = from_y == end_y || (from_x != end_x && from_x->low + move_x < from_y->low + move_y);
    const std::int32_t move = take_x ? move_x : move_y;
    const Run taken = take_x ? *from_x++ : *from_y++, next{taken.low + move, taken.high + move};
    end = append(begin, end, next);
  }
  const std::span<const Run> united(begin, end);
  if (move_x == 0 && equals(stencil_of(a), united)) return a;
  if (move_y == 0 && equals(stencil_of(b), united)) return b;
  return set_of(find_or_add(united), low);
}

Number ElementSets::unite(std::span<const Number> sets) {
  list_.assign(sets.begin(), sets.end());
  if (!std::ranges::is_sorted(list_)) std::ranges::sort(list_);
  list_.erase(std::unique(list_.begin(), list_.end()), list_.end());
  if (!list_.empty() && list_.front() == 0) list_.erase(list_.begin());
  if (list_.size() < 3) return list_.empty() ? 0 : list_.size() == 1 ? list_[0] : unite(list_[0], list_[1]);
  work_.clear();
  for (const Number set : list_)
    for (const Run run : runs_of(stencil_of(set)))
      work_.push_back({run.low + offset_of(set), run.high + offset_of(set)});
  const auto by_low = [](Run x, Run y) { return x.low < y.low; };
  if (!std::ranges::is_sorted(work_, by_low)) std::ranges::sort(work_, by_low);
  // The runs are joined in place: the end never overtakes the next run.
  Run *const begin = work_.data(), *end = begin;
  for (const Run run : work_) end = append(begin, end, run);
  const std::span<Run> united(begin, end);
  const std::int32_t low = move_to_zero(united);
  for (const Number set : list_)
    if (offset_of(set) == low && equals(stencil_of(set), united)) return set;
  return set_of(find_or_add(united), low);
}

/// Unites groups of sets. A group whose sets are those of the previous group, moved, has the same
/// union, moved.
class ElementSets::Groups {
 public:
  explicit Groups(ElementSets& sets) : sets_(sets) {}
  Number unite(std::span<const Number> group) {
    if (!is_moved(group)) {
      united_ = sets_.unite(group);
      previous_.assign(group.begin(), group.end());
    }
    return previous_.empty() ? united_ : united_ + (group[0] - previous_[0]);
  }

 private:
  bool is_moved(std::span<const Number> group) const {
    if (group.empty() || group.size() != previous_.size() || stencil_of(group[0]) != stencil_of(previous_[0]))
      return false;
    const Number moved = group[0] - previous_[0];
    for (std::size_t i = 1; i < group.size(); ++i)
      if (group[i] - previous_[i] != moved) return false;
    return true;
  }

  ElementSets& sets_;
  std::vector<Number> previous_;
  Number united_ = 0;
};

Tensor ElementSets::singletons(const Shape& shape, std::int32_t first) {
  const auto [x, numbers] = new_numbers(shape);
  std::iota(numbers, numbers + shape.elements(), set_of(one_element, first));
  return x;
}

// Neighbours mostly have the same stencils at the same distance. Then their union is the same, too,
// but for its offset.
void ElementSets::unite_rows(const Number* a, const Number* b, Number* united, std::size_t n) {
  constexpr std::size_t block = 16;
  for (std::size_t i = 0; i < n;) {
    united[i] = unite(a[i], b[i]);
    const Number first = a[i], apart = b[i] - first, moved = united[i] - first;
    for (++i; i + block <= n; i += block) {
      std::uint64_t differs = 0;
      for (std::size_t k = i; k < i + block; ++k) {
        united[k] = a[k] + moved;
        differs |= static_cast<std::uint64_t>(a[k] ^ first) >> 32 | static_cast<std::uint64_t>((b[k] - a[k]) ^ apart);
      }
      if (differs != 0) break;
    }
    for (; i < n && stencil_of(a[i]) == stencil_of(first) && b[i] - a[i] == apart; ++i) united[i] = a[i] + moved;
  }
}

Tensor ElementSets::unite(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  if (is_same_view(a, b)) return a;
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), "unite");
  const auto [result, united] = new_numbers(shape);
  const Rows x(broadcast_to(a, shape)), y(broadcast_to(b, shape));
  const std::size_t length = std::min(x.length(), y.length());
  bool is_left = true, is_right = true;
  for (std::size_t at = 0; at < static_cast<std::size_t>(shape.elements()); at += length) {
    const Number *const left = x.at(at), *const right = y.at(at);
    unite_rows(left, right, united + at, length);
    is_left = is_left && std::equal(left, left + length, united + at);
    is_right = is_right && std::equal(right, right + length, united + at);
  }
  if (is_left && a.shape() == shape) return a;
  if (is_right && b.shape() == shape) return b;
  return result;
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
  const auto [united, to] = new_numbers(result);
  const auto length = static_cast<std::size_t>(inner);
  Groups groups(*this);
  for (std::size_t i = 0; i < static_cast<std::size_t>(kept.elements()); ++i)
    to[i] = groups.unite(all.subspan(i * length, length));
  return united;
}

Tensor ElementSets::unite_running(const Tensor& numbers, int axis, bool reverse) {
  const Tensor x = contiguous(moveaxis(numbers, axis, -1));
  const std::span<const Number> all = elements_of(x);
  const auto n = static_cast<std::size_t>(x.shape(-1));
  const auto [united, to] = new_numbers(x.shape());
  for (std::size_t start = 0; start < all.size(); start += n) {
    Number set = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t at = start + (reverse ? n - 1 - i : i);
      to[at] = set = unite(set, all[at]);
    }
  }
  return moveaxis(united, -1, axis);
}

Tensor ElementSets::unite_at(const Tensor& numbers, const Tensor& places, Index count) {
  const Tensor sources = contiguous(numbers), targets = contiguous(places);
  const std::span<const Number> sets = elements_of(sources);
  const std::span<const std::int64_t> to = targets.data<std::int64_t>();
  // The elements in the order of their places: those that go to place p are grouped[begin[p]], ...,
  // grouped[begin[p + 1] - 1].
  std::vector<std::size_t> begin(static_cast<std::size_t>(count) + 2);
  for (const std::int64_t place : to) ++begin[static_cast<std::size_t>(place) + 2];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<Number> grouped(sets.size());
  for (std::size_t i = 0; i < sets.size(); ++i) grouped[begin[static_cast<std::size_t>(to[i]) + 1]++] = sets[i];
  const auto [result, united] = new_numbers(Shape(count));
  Groups groups(*this);
  for (std::size_t place = 0; place < static_cast<std::size_t>(count); ++place)
    united[place] = groups.unite(std::span(grouped).subspan(begin[place], begin[place + 1] - begin[place]));
  return result;
}

void ElementSets::collect(std::span<const Tensor> live) {
  std::vector<char> is_live(slots_.size());
  is_live[0] = is_live[one_element] = true;
  for (const Tensor& numbers : live) {
    const Tensor x = contiguous(without_repeats(numbers, all_axes_of(numbers.rank())));
    for (const Number set : elements_of(x)) is_live[static_cast<std::size_t>(stencil_of(set))] = true;
  }
  std::vector<Run> kept;
  free_.clear();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!is_live[i]) {
      free_.push_back(static_cast<std::int32_t>(i));
      slot = {};
      continue;
    }
    const auto first = runs_.begin() + slot.begin;
    slot.begin = static_cast<std::uint32_t>(kept.size());
    kept.insert(kept.end(), first, first + slot.count);
  }
  runs_ = std::move(kept);
  std::ranges::fill(memo_, Memo{});
  std::ranges::fill(recent_, Recent{});
  collect_at_ = std::max(std::size_t{1} << 21, 2 * (runs_.size() + slots_.size()));
}

Tensor DependsContext::set(std::size_t i) const {
  return has(i) ? inputs[i] : broadcast_to(zeros({}, dtype_of<Number>()), call.input(i).shape());
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
