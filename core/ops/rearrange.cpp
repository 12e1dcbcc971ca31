// Functions of layout.h that are composed of layout operations: they move, repeat or separate
// entries.

#include <algorithm>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/entries_along.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

using namespace stave;

void check_entries(const Tensor& x, Index axis, std::size_t found, std::size_t n) {
  if (found != n)
    fail<ShapeError>("unstack<{}>: x of shape {} has {} entries along axis {}", n, x.shape(), found, axis);
}

EntriesAlong::EntriesAlong(const Tensor& x, int axis) : x_(x), axis_(axis), entry_(x.shape()) {
  entry_.erase(entry_.begin() + axis);
  if (axis + 1 == x.rank() || x.size() == 0 || !x.is_contiguous()) return;
  length_ = x.shape(axis + 1);
  Shape merged = entry_;
  merged[static_cast<std::size_t>(axis)] *= x.shape(axis);
  x_ = reshape(x, merged);
}

Tensor EntriesAlong::operator()(Index i) const {
  return length_ < 0 ? reshape(entries(x_, axis_, i, 1), entry_) : entries(x_, axis_, i * length_, length_);
}

Tensor entries(const Tensor& x, int axis, Index first, Index count) {
  Shape starts(std::vector<Index>(x.shape().size(), 0)), steps(std::vector<Index>(x.shape().size(), 1));
  Shape lengths = x.shape();
  starts[static_cast<std::size_t>(axis)] = first;
  lengths[static_cast<std::size_t>(axis)] = count;
  return apply(op_slice, {x}, make_intrusive<SliceAttributes>(std::move(starts), std::move(lengths), std::move(steps)));
}

}  // namespace stave_detail

namespace stave {

using stave_detail::entries, stave_detail::fail, stave_detail::require_defined, stave_detail::named;

namespace {

Tensor rolled(const Tensor& x, Index shift, int axis) {
  const Index length = x.shape(axis);
  if (length == 0 || shift % length == 0) return x;
  // The number of entries that move from the end to the front.
  const Index moved = (shift % length + length) % length;
  return concat({entries(x, axis, length - moved, moved), entries(x, axis, 0, length - moved)}, axis);
}

Shape normalized(const Shape& axes, int rank, const char* operation) {
  Shape result = axes;
  for (Index& axis : result) axis = normalize_axis(axis, rank, operation);
  return result;
}

}  // namespace

Tensor moveaxis(const Tensor& x, const Shape& sources, const Shape& destinations) {
  require_defined(x, "moveaxis");
  if (sources.size() != destinations.size())
    fail<ShapeError>("moveaxis: {} sources {} for {} destinations {}", sources.size(), sources, destinations.size(),
                     destinations);
  const Shape from = normalized(sources, x.rank(), "moveaxis"), to = normalized(destinations, x.rank(), "moveaxis");
  // The axis of x at each position of the result.
  Shape order(std::vector<Index>(x.shape().size(), -1));
  std::vector<bool> moved(x.shape().size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto source = static_cast<std::size_t>(from[i]), destination = static_cast<std::size_t>(to[i]);
    if (moved[source] || order[destination] != -1)
      fail<ShapeError>("moveaxis: an axis is given twice in {} to {}", sources, destinations);
    moved[source] = true;
    order[destination] = from[i];
  }
  Index next = 0;
  for (Index& axis : order) {
    if (axis != -1) continue;
    while (moved[static_cast<std::size_t>(next)]) ++next;
    axis = next++;
  }
  return permute_dims(x, order);
}

Tensor diagonal(const Tensor& x, Index offset, Index axis1, Index axis2) {
  if (require_defined(x, "diagonal").rank() < 2)
    fail<ShapeError>("diagonal: shape {} has fewer than 2 axes", x.shape());
  const int rows_axis = normalize_axis(axis1, x.rank(), "diagonal"),
            columns_axis = normalize_axis(axis2, x.rank(), "diagonal");
  if (rows_axis == columns_axis)
    fail<ShapeError>("diagonal: axes {} and {} of shape {} are the same", axis1, axis2, x.shape());
  const Tensor matrices = moveaxis(x, {rows_axis, columns_axis}, {-2, -1});
  const Index rows = matrices.shape(-2), columns = matrices.shape(-1);
  const Index first_row = offset < 0 ? (offset <= -rows ? rows : -offset) : 0;
  const Index first_column = offset > 0 ? std::min(offset, columns) : 0;
  const Index length = std::min(rows - first_row, columns - first_column);
  // The next element of the diagonal is one row and one column further.
  Shape flat = matrices.shape();
  flat.pop_back();
  flat.back() = rows * columns;
  Shape starts(std::vector<Index>(flat.size(), 0)), steps(std::vector<Index>(flat.size(), 1)), lengths = flat;
  starts.back() = length > 0 ? first_row * columns + first_column : 0;
  steps.back() = columns + 1;
  lengths.back() = length;
  return named("diagonal", [&] {
    return apply(op_slice, {reshape(matrices, flat)},
                 make_intrusive<SliceAttributes>(std::move(starts), std::move(lengths), std::move(steps)));
  });
}

// The matrix is laid out in rows of length n + 1, each of which begins with an element of x.
// In rows of length n these elements are on the diagonal.
Tensor diag(const Tensor& x, Index k) {
  if (require_defined(x, "diag").rank() != 1) return named("diag", [&] { return diagonal(x, k); });
  return named("diag", [&] {
    const Index rows_below = std::max<Index>(-k, 0), columns_beside = std::max<Index>(k, 0);
    const Index n = x.size() + rows_below + columns_beside, front = rows_below * n + columns_beside;
    const Tensor spread = reshape(pad(expand_dims(x, 1), {{0, 0}, {0, n}}), {x.size() * (n + 1)});
    return reshape(pad(spread, {{front, n * n - front - spread.size()}}), {n, n});
  });
}

Tensor trace(const Tensor& x, Index offset, Index axis1, Index axis2) {
  return named(
      "trace", [&] { return sum(diagonal(x, offset, axis1, axis2), -1); }, x);
}

Tensor diff(const Tensor& x, Index n, Index axis) {
  if (n < 0) fail<ShapeError>("diff: n is {}: it must not be negative", n);
  const int along = normalize_axis(axis, require_defined(x, "diff").rank(), "diff");
  return named("diff", [&] {
    Tensor result = x;
    for (Index left = n; left > 0 && result.shape(along) > 0; --left) {
      const Index count = result.shape(along) - 1;
      const Tensor next = entries(result, along, 1, count), here = entries(result, along, 0, count);
      result = x.dtype() == bool_ ? not_equal(next, here) : subtract(next, here);
    }
    return result;
  });
}

Tensor roll(const Tensor& x, Index shift) {
  return named(
      "roll", [&] { return reshape(rolled(reshape(x, {-1}), shift, 0), x.shape()); }, x);
}

Tensor roll(const Tensor& x, const Shape& shifts, const Shape& axes) {
  if (shifts.size() != axes.size() && shifts.size() != 1 && axes.size() != 1)
    fail<ShapeError>("roll: {} shifts {} for {} axes {}: give one for each, or one for all", shifts.size(), shifts,
                     axes.size(), axes);
  const Shape along = normalized(axes, require_defined(x, "roll").rank(), "roll");
  // An axis that is named twice is rolled twice.
  Shape totals(std::vector<Index>(x.shape().size(), 0));
  for (std::size_t i = 0; i < std::max(shifts.size(), along.size()); ++i) {
    const auto axis = static_cast<std::size_t>(along[along.size() == 1 ? 0 : i]);
    const Index length = std::max<Index>(x.shape()[axis], 1);
    totals[axis] = (totals[axis] + shifts[shifts.size() == 1 ? 0 : i] % length) % length;
  }
  return named("roll", [&] {
    Tensor result = x;
    for (int axis = 0; axis < x.rank(); ++axis) result = rolled(result, totals[static_cast<std::size_t>(axis)], axis);
    return result;
  });
}

// All axes are repeated together, each as follows: [d] -> [1, d] -> [count, d] -> [count * d].
Tensor tile(const Tensor& x, const Shape& counts) {
  for (Index count : counts)
    if (count < 0) fail<ShapeError>("tile: counts {} have a negative one", counts);
  const std::size_t rank = std::max(counts.size(), require_defined(x, "tile").shape().size());
  Shape apart, repeated, together;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::size_t ahead_of_x = rank - x.shape().size(), ahead_of_counts = rank - counts.size();
    const Index length = axis < ahead_of_x ? 1 : x.shape()[axis - ahead_of_x];
    const Index count = axis < ahead_of_counts ? 1 : counts[axis - ahead_of_counts];
    for (Index one_or_length : {Index{1}, length}) apart.push_back(one_or_length);
    for (Index count_or_length : {count, length}) repeated.push_back(count_or_length);
  }
  return named("tile", [&] {
    static_cast<void>(repeated.elements());  // Throws if there are too many elements.
    for (std::size_t axis = 0; axis < rank; ++axis) together.push_back(repeated[2 * axis] * repeated[2 * axis + 1]);
    return reshape(broadcast_to(reshape(x, apart), repeated), together);
  });
}

namespace {

// Returns x with each entry along the axis repeated `count` times:
//   [..., d, ...] -> [..., d, 1, ...] -> [..., d, count, ...] -> [..., d * count, ...]
Tensor repeat_each(const Tensor& x, Index count, Index axis) {
  if (count < 0) fail<ShapeError>("repeat: the count {} is negative", count);
  const int along = normalize_axis(axis, require_defined(x, "repeat").rank(), "repeat");
  return named("repeat", [&] {
    const Tensor apart = expand_dims(x, along + 1);
    Shape repeated = apart.shape(), together = x.shape();
    repeated[static_cast<std::size_t>(along) + 1] = count;
    static_cast<void>(repeated.elements());  // Throws if there are too many elements.
    together[static_cast<std::size_t>(along)] *= count;
    return reshape(broadcast_to(apart, repeated), together);
  });
}

}  // namespace

Tensor repeat(const Tensor& x, const Shape& counts) {
  return repeat(reshape(require_defined(x, "repeat"), {-1}), counts, 0);
}

Tensor repeat(const Tensor& x, const Shape& counts, Index axis) {
  if (counts.size() == 1) return repeat_each(x, counts[0], axis);
  const int along = normalize_axis(axis, require_defined(x, "repeat").rank(), "repeat");
  if (static_cast<Index>(counts.size()) != x.shape(along))
    fail<ShapeError>("repeat: {} counts for axis {} of shape {}: give one for each of its {} entries, or a single one",
                     counts.size(), along, x.shape(), x.shape(along));
  return named("repeat", [&] {
    Shape repeated = x.shape();
    Index& total = repeated[static_cast<std::size_t>(along)] = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] < 0) fail<ShapeError>("repeat: the count {} of entry {} is negative", counts[i], i);
      if (__builtin_add_overflow(total, counts[i], &total)) total = std::numeric_limits<Index>::max();
      static_cast<void>(repeated.elements());  // Throws if there are too many elements.
    }
    std::vector<Index> sources;
    sources.reserve(static_cast<std::size_t>(total));
    for (std::size_t i = 0; i < counts.size(); ++i)
      sources.insert(sources.end(), static_cast<std::size_t>(counts[i]), static_cast<Index>(i));
    return take(x, from(sources, x.device()), along);
  });
}

std::vector<Tensor> unstack(const Tensor& x, Index axis) {
  if (require_defined(x, "unstack").rank() == 0) fail<ShapeError>("unstack: a tensor of rank 0 has no axis to unstack");
  const int along = normalize_axis(axis, x.rank(), "unstack");
  const stave_detail::EntriesAlong entry(x, along);
  std::vector<Tensor> parts;
  for (Index i = 0; i < x.shape(along); ++i) parts.push_back(entry(i));
  return parts;
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& xs, std::string_view indexing) {
  stave_detail::check_defined(xs, "meshgrid");
  if (indexing != "xy" && indexing != "ij")
    fail<ShapeError>("meshgrid: the indexing \"{}\" is neither \"xy\" nor \"ij\"", indexing);
  Shape order;  // the axis of the grids along which each input varies
  for (std::size_t i = 0; i < xs.size(); ++i) order.push_back(static_cast<Index>(i));
  if (indexing == "xy" && xs.size() > 1) std::swap(order[0], order[1]);
  Shape grid = order;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (xs[i].rank() > 1) fail<ShapeError>("meshgrid: input {} of shape {} has more than 1 axis", i, xs[i].shape());
    grid[static_cast<std::size_t>(order[i])] = xs[i].size();
  }
  // Throws if there are too many elements.
  static_cast<void>(named("meshgrid", [&] { return grid.elements(); }));
  std::vector<Tensor> grids;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    Shape along(std::vector<Index>(xs.size(), 1));
    along[static_cast<std::size_t>(order[i])] = xs[i].size();
    grids.push_back(broadcast_to(reshape(xs[i], along), grid));
  }
  return grids;
}

}  // namespace stave
