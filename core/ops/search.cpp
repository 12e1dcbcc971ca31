// Searching, counting and sets; interpolation and integration of functions given by samples.

#include <stave/core/ops/search.h>

#include <algorithm>

#include <stave/core/op/op.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/scan.h>
#include <stave/core/ops/sort.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

Tensor flattened(const Tensor& x) { return reshape(x, {x.size()}); }

void check_vector(const Tensor& x, const char* function, const char* what) {
  if (x.rank() != 1) fail<ShapeError>("{}: {} has shape {}: a vector is needed", function, what, x.shape());
}

// Returns whether a comes before b in sorted order, where NaN is the largest.
Tensor comes_before(const Tensor& a, const Tensor& b) {
  return logical_or(a < b, logical_and(isnan(b), logical_not(isnan(a))));
}

// Returns the positions of the true elements of a vector.
Tensor places_of(const Tensor& mask) {
  const Tensor order = argsort(logical_not(mask));  // Sorting is stable, so the positions ascend.
  return order(slice(count_nonzero(mask).item<Index>()));
}

}  // namespace

// ---- counting -------------------------------------------------------------------------------

Tensor count_nonzero(const Tensor& x, const Axes& axes, KeepDims keep) {
  return named(
      "count_nonzero", [&] { return sum(astype(astype(x, bool_), positions_dtype(x.size())), axes, keep); }, x);
}
Tensor count_nonzero(const Tensor& x) { return count_nonzero(x, all_axes); }
Tensor count_nonzero(const Tensor& x, KeepDims keep) { return count_nonzero(x, all_axes, keep); }

std::vector<Tensor> nonzero(const Tensor& x) {
  if (require_defined(x, "nonzero").rank() == 0) fail<ShapeError>("nonzero: a tensor of rank 0 has no positions");
  return named("nonzero", [&] {
    Tensor places = places_of(astype(flattened(x), bool_));
    std::vector<Tensor> indices(static_cast<std::size_t>(x.rank()));
    for (std::size_t axis = indices.size(); axis-- > 0;) {
      const Index length = std::max<Index>(x.shape()[axis], 1);
      indices[axis] = places % length;
      places = floor_divide(places, length);
    }
    return indices;
  });
}

Tensor bincount(const Tensor& x, Index length) {
  return named(
      "bincount", [&] { return bincount(x, length, ones(x.shape(), positions_dtype(x.size()), x.device())); }, x);
}

Tensor bincount(const Tensor& x, Index length, const Tensor& weights) {
  return named(
      "bincount",
      [&] {
        if (weights.shape() != x.shape())
          fail<ShapeError>("bincount: weights have shape {}, elements {}: one weight for each element is needed",
                           weights.shape(), x.shape());
        return segment_sum(flattened(weights), flattened(x), length);
      },
      x, weights);
}

Tensor histogram(const Tensor& x, const Tensor& edges) {
  return named(
      "histogram",
      [&] {
        check_vector(edges, "histogram", "edges");
        const Index bins = edges.size() - 1;
        if (bins < 1) fail<ShapeError>("histogram: {} edges enclose no bin: give at least 2", edges.size());
        const Tensor last = edges(bins);
        const Tensor after = where(x == last, bins, searchsorted(edges, x, {.right = true}));
        // An element outside all bins is counted in one more bin, which is dropped.
        const Tensor in_one = logical_and(after > 0, after <= bins);
        return bincount(where(in_one, after - 1, bins), bins + 1)(slice(bins));
      },
      x, edges);
}

// ---- order ----------------------------------------------------------------------------------

std::pair<Tensor, Tensor> topk(const Tensor& x, Index k, Index axis, TopkOptions options) {
  const int along = normalize_axis(axis, require_defined(x, "topk").rank(), "topk");
  if (k < 0 || k > x.shape(along))
    fail<ShapeError>("topk: {} entries are requested along axis {}, which has size {}", k, along, x.shape(along));
  return named("topk", [&] {
    const Tensor order = options.largest && x.device() == cpu
                             ? apply(op_argtopk, {x}, make_intrusive<TopkAttributes>(along, k))
                             : entries(argsort(x, along, {.descending = options.largest}), along, 0, k);
    return std::pair(take_along_axis(x, order, along), order);
  });
}

namespace {

void infer_searchsorted(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor &sorted = call.input(0), &values = call.input(1);
  const auto batch = static_cast<std::size_t>(call.as<SearchAttributes>().batch_dims);
  const Shape &s = sorted.shape(), &v = values.shape();
  if (s.size() != batch + 1 || v.size() < batch || !std::equal(s.begin(), s.end() - 1, v.begin()))
    fail<ShapeError>("searchsorted: the sorted tensor {} and values {} must share {} axes", s, v, batch);
  if (sorted.dtype() != values.dtype())
    fail<DtypeError>("searchsorted: the sorted tensor is {}, values are {}: convert with astype", sorted.dtype(),
                     values.dtype());
  outputs.push_back({v, positions_dtype(s.back())});
}

// If the sorted vector is the same for all lanes, the lanes become one more axis of the values.
Outputs batch_searchsorted(const BatchContext& c) {
  if (c.batched[0] || c.as<SearchAttributes>().batch_dims > 0) return batch_in_front(c);
  return perform(Call(op_searchsorted, {c.in(0), c.in(1)}, c.attributes()));
}

// Returns the result of searchsorted, found by bisection with other operations. Each step halves
// the range between `low` and `high`, which contains the result.
Tensor searched_by_steps(const Tensor& sorted, const Tensor& values, bool right) {
  const Index length = sorted.shape(-1);
  const Dtype dtype = positions_dtype(length);
  Tensor low = zeros(values.shape(), dtype, values.device()), high = full_like(low, length);
  for (Index left = length; left > 0; left /= 2) {
    const Tensor middle = low + bitwise_right_shift(high - low, 1), place = minimum(middle, length - 1);
    const Tensor element = sorted.rank() == 1 ? take(sorted, place) : take_along_axis(sorted, place, -1);
    const Tensor is_after = right ? logical_not(comes_before(values, element)) : comes_before(element, values);
    const Tensor is_open = low < high;
    low = where(logical_and(is_open, is_after), middle + 1, low);
    high = where(logical_and(is_open, logical_not(is_after)), middle, high);
  }
  return low;
}

}  // namespace

constinit const Op op_searchsorted{
    .id = OpId::searchsorted,
    .name = "searchsorted",
    .infer = infer_searchsorted,
    .derivative = Derivative::zero,
    .batch = batch_searchsorted,
};

Tensor searchsorted(const Tensor& given, const Tensor& values, SearchOptions options) {
  return named(
      "searchsorted",
      [&] {
        if (given.rank() == 0) check_vector(given, "searchsorted", "the sorted tensor");
        const Tensor sorted = options.sorter.defined() ? take_along_axis(given, options.sorter, -1) : given;
        const int stack = sorted.rank() - 1;
        if (stack > 0 && (values.rank() != sorted.rank() ||
                          !std::equal(sorted.shape().begin(), sorted.shape().end() - 1, values.shape().begin())))
          fail<ShapeError>(
              "searchsorted: a stack of sorted vectors {} and values {} must be equal but for the last axis",
              sorted.shape(), values.shape());
        if (values.device() != cpu) return searched_by_steps(sorted, values, options.right);
        const Dtype dtype = promote(sorted.dtype(), values.dtype());
        return apply(op_searchsorted, {astype(sorted, dtype), astype(values, dtype)},
                     make_intrusive<SearchAttributes>(options.right, stack));
      },
      given, values);
}

namespace {

// Returns the positions that sort a vector; complex numbers by their real part, then by the
// imaginary one.
Tensor order_of(const Tensor& flat) {
  if (!is_complex(flat.dtype())) return argsort(flat);
  // 0 is added because -0 and 0 are equal, and sorting may put one before the other.
  const Tensor by_imaginary = argsort(imag(flat) + 0.), re = real(flat) + 0.;
  return take(by_imaginary, argsort(take(re, by_imaginary)));
}
Tensor sorted_elements(const Tensor& flat) {
  return is_complex(flat.dtype()) ? take(flat, order_of(flat)) : sort(flat);
}

}  // namespace

Tensor isin(const Tensor& x, const Tensor& values) {
  return named(
      "isin",
      [&] {
        if (values.size() == 0) return zeros(x.shape(), bool_, x.device());
        if (is_complex(x.dtype()) || is_complex(values.dtype())) {
          const Dtype dtype = promote(x.dtype(), values.dtype());
          const Tensor both = concat({flattened(astype(values, dtype)), flattened(astype(x, dtype))});
          const Tensor set = unique_inverse(both).second;
          const Tensor is_there = scatter(zeros({both.size()}, bool_, x.device()),
                                          expand_dims(set(slice(values.size())), 1), ones({values.size()}, bool_));
          return reshape(take(is_there, set(slice(values.size(), none))), x.shape());
        }
        const Tensor sorted = sort(flattened(values));
        return take(sorted, minimum(searchsorted(sorted, x), values.size() - 1)) == x;
      },
      x, values);
}

// ---- sets -----------------------------------------------------------------------------------

namespace {

// Returns whether an element of a sorted vector differs from the one before it.
Tensor begins(const Tensor& sorted) {
  const Tensor first = ones({std::min<Index>(sorted.size(), 1)}, bool_, sorted.device());
  return concat({first, sorted(slice(1, none)) != sorted(slice(-1))});
}

}  // namespace

Tensor unique_values(const Tensor& x) {
  return named(
      "unique_values",
      [&] {
        const Tensor sorted = sorted_elements(flattened(x));
        return take(sorted, places_of(begins(sorted)));
      },
      x);
}

std::pair<Tensor, Tensor> unique_counts(const Tensor& x) {
  return named(
      "unique_counts",
      [&] {
        const Tensor sorted = sorted_elements(flattened(x)), places = places_of(begins(sorted));
        const Tensor end = full({1}, sorted.size(), places.dtype(), x.device());
        return std::pair(take(sorted, places), diff(concat({places, end})));
      },
      x);
}

std::pair<Tensor, Tensor> unique_inverse(const Tensor& x) {
  return named(
      "unique_inverse",
      [&] {
        const Tensor flat = flattened(x), order = order_of(flat), sorted = take(flat, order), first = begins(sorted);
        // The position of each sorted element among the distinct ones.
        const Tensor set = cumulative_sum(astype(first, order.dtype()), 0) - 1;
        const Tensor inverse = scatter_add(zeros_like(order), expand_dims(order, 1), set);
        return std::pair(take(sorted, places_of(first)), reshape(inverse, x.shape()));
      },
      x);
}

namespace {

// The distinct entries of x along its first axis, where `order` lists entries such that equal ones
// are neighbours, in the order of x among themselves, and `first` says where a run of equal ones
// begins.
UniqueAll distinct(const Tensor& x, const Tensor& order, const Tensor& first) {
  const Tensor places = places_of(first), indices = take(order, places);
  const Tensor end = full({1}, x.shape(0), places.dtype(), x.device());
  const Tensor set = cumulative_sum(astype(first, order.dtype()), 0) - 1;
  const Tensor inverse = scatter_add(zeros_like(order), expand_dims(order, Shape{1}), set);
  return {take(x, indices), indices, inverse, diff(concat({places, end}))};
}

// x as [entries along the axis, the elements of each].
Tensor entries_as_rows(const Tensor& x, int axis) {
  const Tensor first = moveaxis(x, Shape{axis}, Shape{0});
  return reshape(first, {x.shape(axis), x.shape(axis) == 0 ? 0 : x.size() / x.shape(axis)});
}

// Returns whether each row differs from the one before it.
Tensor row_begins(const Tensor& rows) {
  const Tensor first = ones({std::min<Index>(rows.shape(0), 1)}, bool_, rows.device());
  return concat({first, any(rows(slice(1, none)) != rows(slice(-1)), 1)});
}

UniqueAll distinct_along(const Tensor& x, int axis, const Tensor& order, const Tensor& first) {
  UniqueAll result = distinct(moveaxis(x, Shape{axis}, Shape{0}), order, first);
  result.values = moveaxis(result.values, Shape{0}, Shape{axis});
  return result;
}

Tensor all_positions(Index count, Device device) { return arange(0, count, 1, positions_dtype(count), device); }

}  // namespace

UniqueAll unique_all(const Tensor& x) {
  return named(
      "unique_all",
      [&] {
        const Tensor flat = flattened(x), order = order_of(flat);
        UniqueAll result = distinct(flat, order, begins(take(flat, order)));
        result.inverse_indices = reshape(result.inverse_indices, x.shape());
        return result;
      },
      x);
}

UniqueAll unique_all(const Tensor& x, Index axis) {
  return named(
      "unique_all",
      [&] {
        const int along = normalize_axis(axis, x.rank(), "unique_all");
        const Tensor rows = entries_as_rows(x, along);
        // Sorting is stable, so rows that are sorted by their last element first end up in
        // lexicographic order.
        Tensor order = all_positions(rows.shape(0), x.device());
        for (Index element = rows.shape(1); element-- > 0;)
          order = take(order, argsort(take(entries(rows, 1, element, 1), order)(slice(), 0)));
        return distinct_along(x, along, order, row_begins(take(rows, order)));
      },
      x);
}

UniqueAll unique_consecutive(const Tensor& x) {
  return named(
      "unique_consecutive",
      [&] {
        const Tensor flat = flattened(x);
        UniqueAll result = distinct(flat, all_positions(flat.size(), x.device()), begins(flat));
        result.inverse_indices = reshape(result.inverse_indices, x.shape());
        return result;
      },
      x);
}

UniqueAll unique_consecutive(const Tensor& x, Index axis) {
  return named(
      "unique_consecutive",
      [&] {
        const int along = normalize_axis(axis, x.rank(), "unique_consecutive");
        const Tensor order = all_positions(x.shape(along), x.device());
        return distinct_along(x, along, order, row_begins(entries_as_rows(x, along)));
      },
      x);
}

// ---- functions given by samples -------------------------------------------------------------

Tensor interp(const Tensor& x, const Tensor& xp, const Tensor& fp) {
  return named(
      "interp",
      [&] {
        check_vector(xp, "interp", "xp");
        if (fp.shape() != xp.shape() || xp.size() == 0)
          fail<ShapeError>("interp: xp {} and fp {} must be vectors of one length, which is not 0", xp.shape(),
                           fp.shape());
        const Index last = xp.size() - 1;
        if (last == 0) return interp(x, concat({xp, xp}), concat({fp, fp}));
        const Tensor right = clip(searchsorted(xp, x, {.right = true}), 1, last), left = right - 1;
        const Tensor x0 = take(xp, left), f0 = take(fp, left), f1 = take(fp, right), width = take(xp, right) - x0,
                     rise = f1 - f0;
        // True where two samples have the same position; the left one gives the value.
        const Tensor is_jump = width == 0;
        const Tensor share = (x - x0) / where(is_jump, 1, width);
        // If one sample is infinite, the line is computed from the other one. At that other sample
        // the rise of the line is 0.
        Tensor y = where(f0 == f1, f0, f1 - scale(1 - share, rise));
        y = where(isfinite(f0), f0 + scale(share, rise), y);
        y = where(is_jump, f0, y);
        y = where(x < xp(0), fp(0), y);
        return where(x > xp(last), fp(last), y);
      },
      x, xp, fp);
}

namespace {

// Returns y[i] + y[i + 1] along an axis.
Tensor pairs_along(const Tensor& y, Index axis) {
  const int along = normalize_axis(axis, y.rank(), "trapezoid");
  const Index length = y.shape(along), count = std::max<Index>(length - 1, 0);
  return entries(y, along, length - count, count) + entries(y, along, 0, count);
}

}  // namespace

Tensor trapezoid(const Tensor& y, double dx, Index axis) {
  return named(
      "trapezoid", [&] { return sum(pairs_along(y, axis), axis) * (dx / 2); }, y);
}

Tensor trapezoid(const Tensor& y, const Tensor& x, Index axis) {
  return named(
      "trapezoid",
      [&] {
        if (x.rank() != 1) return sum(diff(x, 1, axis) * pairs_along(y, axis), axis) * 0.5;
        const int along = normalize_axis(axis, y.rank(), "trapezoid");
        Shape widths(std::vector<Index>(static_cast<std::size_t>(y.rank()), 1));
        widths[static_cast<std::size_t>(along)] = std::max<Index>(x.size() - 1, 0);
        return sum(reshape(diff(x), widths) * pairs_along(y, axis), axis) * 0.5;
      },
      y, x);
}

}  // namespace stave
