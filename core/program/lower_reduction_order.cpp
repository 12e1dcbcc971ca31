#include <stave/core/program/lower_reduction_order.h>

#include <algorithm>
#include <limits>

#include <stave/core/program/lower_rows.h>

namespace stave_detail {

// ---- the order: make_plan (backends/cpu/reduce_plan.h) for small arrays -------------------------

Index ReductionOrder::distance(const Axis& axis) {
  return axis.step == 0 ? std::numeric_limits<Index>::max() : std::abs(axis.step);
}

ReductionOrder::ReductionOrder(const Shape& shape, const Strides& strides, std::span<const std::size_t> reduced)
    : reduced_(reduced.begin(), reduced.end()) {
  Index result_step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    const bool is_kept = std::find(reduced.begin(), reduced.end(), i) == reduced.end();
    Axis axis{i, shape[i], strides[i], is_kept ? result_step : 0, is_kept};
    if (is_kept) result_step *= shape[i];
    if (shape[i] == 1) continue;
    if (!is_kept && axis.step < 0) {
      axis.is_reversed = true;
      axis.step = -axis.step;
    }
    axes_.push_back(axis);
  }
  std::reverse(axes_.begin(), axes_.end());
  std::stable_sort(axes_.begin(), axes_.end(), [](const Axis& a, const Axis& b) { return distance(a) > distance(b); });
  for (std::size_t i = 1; i < axes_.size(); ++i) {
    const Axis &outer = axes_[i - 1], &inner = axes_[i];
    axes_[i].joins_previous = outer.is_kept == inner.is_kept && outer.step == inner.step * inner.length &&
                              outer.result_step == inner.result_step * inner.length;
  }
  if (axes_.empty()) return;

  const Axis& inner = axes_.back();
  std::size_t first = 0, first_other = 0;
  const Index length = merged(axes_.size() - 1, first);
  if (inner.is_kept) {  // The reduction combines columns (reduce_columns.h).
    in_vectors_ = false;
    for (std::size_t i = first; i-- > 0;)
      if (!axes_[i].is_kept) {
        row_ = merged(i, first_other);
        break;
      }
    return;
  }
  row_ = length;  // The reduction combines the elements of rows (reduce_rows.h).
  constexpr Index few = 16;
  const bool has_outer_sums = std::any_of(axes_.begin(), axes_.begin() + static_cast<std::ptrdiff_t>(first),
                                          [](const Axis& axis) { return !axis.is_kept; });
  if (has_outer_sums || first == 0 || length > few) return;
  const Index kept = merged(first - 1, first_other);
  if (kept < 4 || axes_[first - 1].result_step != 1) return;
  in_vectors_ = false;  // short rows are transposed
}

Index ReductionOrder::merged(std::size_t last, std::size_t& first) const {
  Index length = axes_[last].length;
  for (first = last; axes_[first].joins_previous; --first) length *= axes_[first - 1].length;
  return length;
}

std::vector<PositionList> ReductionOrder::positions() const {
  PositionList place(reduced_.size());
  std::vector<const Axis*> reduced;
  Index count = 1;
  for (const Axis& axis : axes_)
    if (!axis.is_kept) {
      reduced.push_back(&axis);
      count *= axis.length;
    }
  std::vector<PositionList> all;
  for (Index k = 0; k < count; ++k) {
    Index rest = k;
    for (std::size_t i = reduced.size(); i-- > 0; rest /= reduced[i]->length) {
      const Axis& axis = *reduced[i];
      const auto number = std::find(reduced_.begin(), reduced_.end(), axis.number) - reduced_.begin();
      const Index along = rest % axis.length;
      place[static_cast<std::size_t>(number)] = Position(axis.is_reversed ? axis.length - 1 - along : along);
    }
    all.push_back(place);
  }
  return all;
}

bool ReductionOrder::is_that_of_kernels(const Shape& shape) const {
  // If an array has at least this many elements, kernels may divide its reduction into parts.
  constexpr Index split_from = Index{1} << 17;
  // Many short rows are joined.
  constexpr Index joined_from = 1024, most_joined = 64;
  Index groups = 0, reduced = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (!axes_[i].is_kept) {
      groups += !axes_[i].joins_previous;
      reduced *= axes_[i].length;
    }
  if (reduced > most_elements || (groups > 1 && shape.elements() >= split_from)) return false;
  if (axes_.empty() || in_vectors_) return true;
  std::size_t first = 0;
  const Index width = merged(axes_.size() - 1, first);
  return !(axes_.back().is_kept && row_ * width >= joined_from && width <= most_joined);
}

// ---- the kernels of one row and of columns (backends/cpu/kernels/reduce.cpp) --------------------

namespace {

// Combines the second half with the first half until one number is left.
template <class Both>
int fold_halves(std::vector<int> x, Both both) {
  for (std::size_t half = x.size() / 2; half > 0; half /= 2)
    for (std::size_t k = 0; k < half; ++k) x[k] = both(x[k], x[k + half]);
  return x[0];
}

// Returns the reduction of a row combined with `total`, the reduction of the rows before it.
int reduce_row(const PlainReduction& reduction, std::span<const int> x, int total, std::size_t lanes) {
  constexpr std::size_t ways = 8;
  const auto both = [&](int a, int b) { return reduction.both(a, b); };
  std::size_t i = 0;
  if (x.size() >= ways * lanes) {
    std::vector<int> sums(ways * lanes, reduction.neutral());
    for (; i + ways * lanes <= x.size(); i += ways * lanes)
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] = both(sums[k], reduction.read(x[i + k]));
    // The eight vectors in `sums` are combined into one, then the lanes of that vector.
    total = both(total, fold_halves(std::move(sums), both));
  }
  if (i + lanes <= x.size()) {
    std::vector<int> sum;
    for (std::size_t k = 0; k < lanes; ++k) sum.push_back(reduction.read(x[i + k]));
    for (i += lanes; i + lanes <= x.size(); i += lanes)
      for (std::size_t k = 0; k < lanes; ++k) sum[k] = both(sum[k], reduction.read(x[i + k]));
    total = both(total, fold_halves(std::move(sum), both));
  }
  for (; i < x.size(); ++i) total = both(total, reduction.read(x[i]));
  return total;
}

int sum_of_eight(Lowering& l, std::span<const int> x) {
  const auto add = [&](int a, int b) { return l.add(ScalarOp::add, a, b); };
  return add(add(add(x[0], x[1]), add(x[2], x[3])), add(add(x[4], x[5]), add(x[6], x[7])));
}

// Adds a row of float64 to the compensated sum in `state`.
void sum_row(const LoweredSum& sum, std::span<const int> x, std::span<int> state, std::size_t lanes) {
  Lowering& l = sum.l;
  const auto add = [&](int a, int b) { return l.add(ScalarOp::add, a, b); };
  std::size_t i = 0;
  if (x.size() >= lanes) {
    std::vector<std::vector<int>> wide(lanes, sum.start());
    for (; i + 8 * lanes <= x.size(); i += 8 * lanes)
      for (std::size_t k = 0; k < lanes; ++k) {
        std::vector<int> eight;
        for (std::size_t j = 0; j < 8; ++j) eight.push_back(x[i + j * lanes + k]);
        sum.step(wide[k], sum_of_eight(l, eight));
      }
    for (; i + lanes <= x.size(); i += lanes)
      for (std::size_t k = 0; k < lanes; ++k) sum.step(wide[k], x[i + k]);
    std::vector<int> lost;
    for (const std::vector<int>& lane : wide) {
      sum.step(state, lane[0]);
      lost.push_back(lane[1]);
    }
    state[1] = add(state[1], fold_halves(std::move(lost), add));
  }
  for (; i < x.size(); ++i) sum.step(state, x[i]);
}

}  // namespace

int reduce_in_order(Lowering& l, OpId op, std::span<const int> elements, const ReductionOrder& order,
                    Index vector_bytes) {
  const Dtype dtype = l.builder().dtype(elements[0]);
  const std::size_t row = order.row_length();
  if (op != OpId::sum || dtype != float64) {
    const PlainReduction reduction{l, op, dtype};
    const std::size_t lanes = static_cast<std::size_t>(vector_bytes) / size_of(reduction.accumulator());
    int total = reduction.neutral();
    for (; !elements.empty(); elements = elements.subspan(row)) {
      if (order.combines_in_vectors()) total = reduce_row(reduction, elements.first(row), total, lanes);
      else
        for (const int x : elements.first(row)) total = reduction.both(total, reduction.read(x));
    }
    return l.convert(total, dtype);
  }
  const LoweredSum sum{l, dtype};
  const Index lanes = vector_bytes / 8;
  std::vector<int> state = sum.start();
  for (; !elements.empty(); elements = elements.subspan(row)) {
    std::span<const int> x = elements.first(row);
    if (order.combines_in_vectors()) {
      sum_row(sum, x, state, static_cast<std::size_t>(lanes));
      continue;
    }
    for (; x.size() >= 8; x = x.subspan(8)) sum.step(state, sum_of_eight(l, x.first(8)));
    for (const int value : x) sum.step(state, value);
  }
  return sum.finish(state);
}

}  // namespace stave_detail
