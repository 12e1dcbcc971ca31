#include <stave/handlers/structure/sparse_jacobian.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include <stave/core/ops/bools.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/dtypes.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/note.h>
#include <stave/handlers/transforms/jvp_flat.h>
#include <stave/handlers/transforms/vmap_flat.h>

namespace stave_detail {

namespace {

using Numbers32 = std::vector<std::int32_t>;

Index size_of(const std::vector<Abstract>& leaves) {
  Index size = 0;
  for (const Abstract& leaf : leaves) size += leaf.shape.elements();
  return size;
}

// ---- which products are computed ----------------------------------------------------------------

/// Columns with their colours, and the rows that are found one by one in the other mode. With
/// `by_rows`, it is the plan of the transpose.
struct Plan {
  bool by_rows = false;
  Coloring coloring;
  Numbers32 apart;
  Index cost = 0;  // in jvps; a pullback takes about as long as two
};

/// The rows that are better found one by one: those without which columns need far fewer colours. A
/// row with n entries needs n colours. `widths` are the numbers of entries of the rows.
Numbers32 dense_rows(const Numbers32& widths, Index cost_of_color, Index cost_of_row) {
  constexpr std::size_t most = 8;
  Numbers32 rows(widths.size());
  std::iota(rows.begin(), rows.end(), 0);
  const auto width = [&](std::int32_t r) { return static_cast<Index>(widths[static_cast<std::size_t>(r)]); };
  const auto head = std::min(most + 1, rows.size());
  std::partial_sort(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(head), rows.end(),
                    [&](std::int32_t a, std::int32_t b) { return std::pair(-width(a), a) < std::pair(-width(b), b); });
  std::size_t best = 0;
  Index best_cost = head ? cost_of_color * width(rows[0]) / 2 : 0;
  for (std::size_t k = 1; k < head; ++k) {
    const Index cost = cost_of_color * width(rows[k]) + cost_of_row * static_cast<Index>(k);
    if (cost < best_cost) best = k, best_cost = cost;
  }
  rows.resize(best);
  return rows;
}

Numbers32 row_counts(const CsrPattern& pattern) {
  Numbers32 counts;
  for (std::size_t r = 0; r < static_cast<std::size_t>(pattern.rows); ++r)
    counts.push_back(static_cast<std::int32_t>(pattern.row(r).size()));
  return counts;
}

/// The shape of an array that holds all elements of some tensors: these stacked, if they have one
/// shape, and a vector otherwise.
Shape grid_of(const std::vector<Abstract>& leaves) {
  Shape grid = leaves[0].shape;
  grid.insert(grid.begin(), static_cast<Index>(leaves.size()));
  const auto fits = [&](const Abstract& leaf) { return leaf.shape == leaves[0].shape; };
  return std::ranges::all_of(leaves, fits) ? grid : Shape(size_of(leaves));
}

/// `columns` are the tensors whose elements are the columns of the pattern.
Plan plan_columns(const CsrPattern& pattern, const std::vector<Abstract>& columns, bool by_rows, bool one_mode) {
  const Index color = by_rows ? 2 : 1, row = 3 - color;
  Plan plan{by_rows, {}, {}, 0};
  if (!one_mode) plan.apart = dense_rows(row_counts(pattern), color, row);
  std::vector<bool> left_out(plan.apart.empty() ? 0 : static_cast<std::size_t>(pattern.rows));
  for (const std::int32_t r : plan.apart) left_out[static_cast<std::size_t>(r)] = true;
  plan.coloring = color_columns(pattern, grid_of(columns), left_out);
  plan.cost = color * plan.coloring.count + row * static_cast<Index>(plan.apart.size());
  return plan;
}

Plan plan_for(const CsrPattern& pattern, const std::vector<Abstract>& inputs, const std::vector<Abstract>& outputs,
              SparseBy by, bool has_reverse) {
  if (by == SparseBy::symmetric) return {false, color_symmetric(pattern, grid_of(inputs)), {}, 0};
  if (by == SparseBy::columns || !has_reverse) return plan_columns(pattern, inputs, false, true);
  if (by == SparseBy::rows) return plan_columns(pattern.transposed(), outputs, true, true);
  Plan columns = plan_columns(pattern, inputs, false, false);
  const Numbers32 widths = pattern.column_counts();
  const Index widest = widths.empty() ? 0 : *std::ranges::max_element(widths);
  if (2 * widest >= columns.cost && dense_rows(widths, 2, 1).empty()) return columns;
  Plan rows = plan_columns(pattern.transposed(), outputs, true, false);
  return rows.cost < columns.cost ? rows : columns;
}

/// The place of each entry in the list of all products: first one product for each colour, then,
/// from `second` on, one for each row that is found apart.
template <class Number>
std::vector<Number> places_of(const CsrPattern& pattern, const Plan& plan, bool symmetric, Index second) {
  const Index rows = pattern.rows, columns = pattern.columns;
  const Numbers32& colors = plan.coloring.colors;
  std::vector<Index> apart(static_cast<std::size_t>(plan.by_rows ? columns : rows), -1);
  for (std::size_t k = 0; k < plan.apart.size(); ++k)
    apart[static_cast<std::size_t>(plan.apart[k])] = static_cast<Index>(k);
  std::vector<Index> with_color(static_cast<std::size_t>(plan.coloring.count));
  const auto color_of = [&](std::int32_t c) { return Index{colors[static_cast<std::size_t>(c)]}; };
  const auto place = [&](Index row, std::int32_t column) {
    const auto r = static_cast<std::size_t>(row), c = static_cast<std::size_t>(column);
    // Another entry of row r has column c's colour, so the equal entry (c, r) is taken: no other
    // column in row c has the colour of r.
    if (symmetric && with_color[static_cast<std::size_t>(color_of(column))] > 1) return colors[r] * rows + column;
    if (plan.by_rows) return apart[c] < 0 ? colors[r] * columns + column : second + apart[c] * rows + row;
    return apart[r] < 0 ? colors[c] * rows + row : second + apart[r] * columns + column;
  };
  std::vector<Number> places(pattern.indices.size());
  for (Index row = 0; row < rows; ++row) {
    const auto entries = pattern.row(static_cast<std::size_t>(row));
    const std::int64_t first = pattern.offsets[static_cast<std::size_t>(row)];
    if (symmetric)
      for (const std::int32_t c : entries) ++with_color[static_cast<std::size_t>(color_of(c))];
    std::ranges::transform(entries, places.begin() + first,
                           [&](std::int32_t column) { return static_cast<Number>(place(row, column)); });
    if (symmetric)
      for (const std::int32_t c : entries) with_color[static_cast<std::size_t>(color_of(c))] = 0;
  }
  return places;
}

Coloring each_apart(const Numbers32& apart, Index n) {
  Coloring coloring{static_cast<std::int32_t>(apart.size()), Numbers32(static_cast<std::size_t>(n), -1)};
  for (std::size_t k = 0; k < apart.size(); ++k)
    coloring.colors[static_cast<std::size_t>(apart[k])] = static_cast<std::int32_t>(k);
  return coloring;
}

Tensor random_direction(Index n) {
  std::mt19937_64 engine(1);
  std::vector<double> values(static_cast<std::size_t>(n));
  for (double& value : values) value = 0.5 + static_cast<double>(engine() >> 11) * 0x1p-53;
  return from(values);
}

}  // namespace

// ---- construction -------------------------------------------------------------------------------

SparseJacobianCore::SparseJacobianCore(FlatFunction f, std::span<const Tensor> xs, InputNames names,
                                       SparseOptions options, const char* transform)
    : transform_(transform), device_(xs[0].device()) {
  FoundSparsity found = find_sparsity(f, xs, options.here, transform, names);
  const UnderFrame outside(nullptr);
  const bool symmetric = options.by == SparseBy::symmetric;
  if (symmetric && found.pattern.rows != found.pattern.columns)
    fail<ShapeError>("{}: SparseBy::symmetric needs a square Jacobian, but this one has {} rows and {} columns",
                     transform, found.pattern.rows, found.pattern.columns);
  if (symmetric) found.pattern = found.pattern.symmetric();
  pattern = public_pattern(found);
  for (const Tensor& x : xs) inputs_.push_back({x.shape(), x.dtype()});
  outputs_ = found.outputs;
  bool is_real = true;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    dtype_ = i == 0 ? outputs_[i].dtype : promote(dtype_, outputs_[i].dtype);
    is_real &= !is_complex(outputs_[i].dtype);
  }
  if (pattern.entries() == 0 && !options.check) return;
  if (!is_real && options.by == SparseBy::rows)
    fail<DtypeError>(
        "{}: the function returned {}, which reverse mode cannot differentiate: return real(z) and "
        "imag(z), or use SparseBy::columns",
        transform, dtype_);
  const Plan plan = plan_for(found.pattern, inputs_, outputs_, options.by, is_real);
  const Index count = plan.coloring.count, apart = static_cast<Index>(plan.apart.size());
  const Index length = plan.by_rows ? pattern.columns : pattern.rows;  // the length of a product
  jvps = plan.by_rows ? apart : count;
  pullbacks = plan.by_rows ? count : apart;
  if (options.check) {
    direction_ = random_direction(plan.by_rows ? pattern.rows : pattern.columns);
    direction_place_ = count * length;
    multiplied_ = plan.by_rows ? pattern.row_indices() : pattern.column_indices;
    summed_ = plan.by_rows ? pattern.column_indices : pattern.row_indices();
  }
  add_products(plan.coloring, plan.by_rows, direction_);
  if (apart > 0) add_products(each_apart(plan.apart, plan.by_rows ? pattern.columns : pattern.rows), !plan.by_rows, {});
  const Index second = (count + options.check) * length;
  const Index all = second + apart * (plan.by_rows ? pattern.rows : pattern.columns);
  const bool is_short = all <= std::numeric_limits<std::int32_t>::max();
  places_ = is_short ? from(places_of<std::int32_t>(found.pattern, plan, symmetric, second))
                     : from(places_of<std::int64_t>(found.pattern, plan, symmetric, second));
  places_ = to(places_, device_);
}

// Adds the products with the sum of the unit vectors of each colour, and with a direction if there
// is one. A chunk has so many products that their values have some 300,000 elements: more take
// memory out of the caches, fewer are slower for each, since each chunk computes the function anew.
void SparseJacobianCore::add_products(const Coloring& coloring, bool by_rows, Tensor direction) {
  constexpr Index elements_of_chunk = 300000;
  const Index count = coloring.count, all = count + direction.defined();
  const Index width = std::max<Index>({1, pattern.rows, pattern.columns});
  const Index chunks = std::clamp<Index>((all * width + elements_of_chunk / 2) / elements_of_chunk, 1, all);
  const Index chunk = (all + chunks - 1) / chunks;
  Products products{by_rows, {}};
  for (Index start = 0; start < all; start += chunk) {
    const Index stop = std::min(all, start + chunk);
    Index first = 0;  // the element of the argument, or of the result, with which a leaf begins
    std::vector<Tensor>& seeds = products.chunks.emplace_back();
    for (const Abstract& leaf : by_rows ? outputs_ : inputs_) {
      const Index size = leaf.shape.elements();
      std::vector<char> has_color(static_cast<std::size_t>((std::min(stop, count) - std::min(start, count)) * size));
      for (Index i = 0; i < size; ++i) {
        const Index color = coloring.colors[static_cast<std::size_t>(first + i)];
        if (color >= start && color < stop) has_color[static_cast<std::size_t>((color - start) * size + i)] = true;
      }
      Tensor seed =
          from_bytes(has_color.data(), has_color.size(), bool_, {std::min(stop, count) - std::min(start, count), size});
      seed = astype(seed, leaf.dtype);
      if (stop > count)
        seed = concat({seed, astype(expand_dims(direction(slice(first, first + size)), 0), leaf.dtype)});
      Shape shape = leaf.shape;
      shape.insert(shape.begin(), stop - start);
      seeds.push_back(to(reshape(seed, shape), device_));
      first += size;
    }
  }
  products_.push_back(std::move(products));
}

// ---- values -------------------------------------------------------------------------------------

void SparseJacobianCore::check_inputs(std::span<const Tensor> xs, InputNames names) const {
  if (xs.size() != inputs_.size())
    fail<ShapeError>("{}: the argument has {} tensors, but {} where the pattern was found", transform_, xs.size(),
                     inputs_.size());
  for (std::size_t i = 0; i < xs.size(); ++i) check_type(xs[i], inputs_[i], names(i));
}

void SparseJacobianCore::check_outputs(const Outputs& outputs) const {
  if (outputs.size() != outputs_.size())
    fail<ShapeError>("{}: the function returned {} tensors, but {} where the pattern was found", transform_,
                     outputs.size(), outputs_.size());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    check_type(outputs[i], outputs_[i], outputs.size() == 1 ? "the result" : fmt::format("result {}", i));
}

void SparseJacobianCore::check_type(const Tensor& x, const Abstract& expected, const std::string& name) const {
  const bool same_shape = x.shape() == expected.shape;
  if (same_shape && x.dtype() == expected.dtype) return;
  const std::string text = fmt::format("{}: {} is {} {}, but {} {} where the pattern was found: find the pattern anew",
                                       transform_, name, x.dtype(), x.shape(), expected.dtype, expected.shape);
  if (same_shape) fail<DtypeError>("{}", text);
  fail<ShapeError>("{}", text);
}

// Returns products as one list. Each leaf is [count, shape...].
Tensor SparseJacobianCore::flat(std::span<const Tensor> leaves, const std::vector<Abstract>& expected,
                                Index count) const {
  std::vector<Tensor> rows;
  for (std::size_t i = 0; i < leaves.size(); ++i)
    rows.push_back(astype(reshape(leaves[i], {count, expected[i].shape.elements()}), dtype_));
  return reshape(rows.size() == 1 ? rows[0] : concat(rows, 1), {count * size_of(expected)});
}

Tensor SparseJacobianCore::compute(const Products& products, FlatFunction f, std::span<const Tensor> xs,
                                   InputNames names) const {
  std::optional<FlatVjp> vjp;
  if (products.by_rows) {
    vjp.emplace(vjp_flat(f, xs, transform_, names));
    check_outputs(vjp->outputs);
  }
  const auto one = [&](std::span<const Tensor> direction) -> Outputs {
    if (!vjp) {
      FlatJvp found = jvp_flat(f, xs, direction, names);
      check_outputs(found.outputs);
      return std::move(found.tangents);
    }
    const std::vector<Tensor> found = vjp->pullback(direction);
    return Outputs(found.begin(), found.end());
  };
  const std::vector<Abstract>& expected = products.by_rows ? inputs_ : outputs_;
  std::vector<Tensor> chunks;
  for (const std::vector<Tensor>& seeds : products.chunks) {
    const std::vector<MapAxis> axes(seeds.size());
    const FlatVmap lanes = vmap_flat(one, seeds, axes, std::nullopt);
    const Outputs leaves = vmap_outputs(lanes, std::vector<MapAxis>(lanes.outputs.size()));
    chunks.push_back(flat(leaves, expected, lanes.size));
  }
  return chunks.size() == 1 ? chunks[0] : concat(chunks);
}

Tensor SparseJacobianCore::values(FlatFunction f, std::span<const Tensor> xs, InputNames names) const {
  check_inputs(xs, names);
  if (products_.empty()) return zeros({0}, dtype_, device_);
  std::vector<Tensor> lists;
  for (const Products& products : products_) lists.push_back(compute(products, f, xs, names));
  const Tensor all = lists.size() == 1 ? lists[0] : concat(lists);
  const Tensor values = take(all, places_);
  if (direction_.defined()) check_direction(values, all);
  return values;
}

// Compares the product with the random direction to the sum of the entries times its elements.
void SparseJacobianCore::check_direction(const Tensor& values, const Tensor& all) const {
  const bool by_rows = products_[0].by_rows;
  const Index length = by_rows ? pattern.columns : pattern.rows;
  if (length == 0) return;
  const Dtype real = real_of(dtype_);
  const Tensor seen = stop_gradient(all(slice(direction_place_, direction_place_ + length)));
  const Tensor direction = astype(to(direction_, device_), real), places = to(summed_, device_);
  const Tensor terms = stop_gradient(values) * take(direction, to(multiplied_, device_));
  const Tensor size = segment_sum(abs(terms), places, length) + abs(seen);
  const Tensor off = abs(segment_sum(terms, places, length) - seen);
  // An entry that the pattern lacks is about as large as `size`. Rounding errors are far smaller,
  // also where the function computes in a shorter dtype, unless the terms of an element cancel: it
  // has the rounding errors of these terms, which are not known here. They are taken to be at most
  // `terms_cancel` times as large as the largest element.
  constexpr double terms_cancel = 1e4;
  const double tolerance = real == float64 || real == float32 ? 1e-3 : 1e-1;
  const double rounding = std::min(tolerance, terms_cancel * finfo(real).eps);
  const Tensor largest = (max)(where(isfinite(size), size, 0.));
  const Tensor lacks = off > maximum(tolerance * size, rounding * largest);
  if (!any(lacks).item<bool>()) return;
  fail<TransformError>(
      "{}: the pattern lacks an entry in {} {}: the function took another path than where the pattern was found{}. "
      "Find the pattern at this argument",
      transform_, by_rows ? "column" : "row", argmax(astype(lacks, int32)).item<Index>(),
      pattern.depends_on_path ? " (it reads values of its argument)" : "");
}

}  // namespace stave_detail
