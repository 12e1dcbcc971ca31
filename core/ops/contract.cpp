// Contractions: the operation matmul, on stacks of matrices, and the functions that arrange their
// operands for this operation.

#include <stave/core/ops/contract.h>

#include <algorithm>

#include <stave/core/op/op.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/sort.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using stave_detail::fail, stave_detail::require_defined, stave_detail::named, stave_detail::joined,
    stave_detail::multiplied_in;

namespace {

Shape batch_of(const Shape& matrices) { return Shape(std::span<const Index>(matrices.begin(), matrices.end() - 2)); }

Index rows_of(const Tensor& x) { return x.shape(-2); }
Index columns_of(const Tensor& x) { return x.shape(-1); }

// Throws unless the lengths k agree in a [..., m, k] or [k] and b [..., k, n] or [k].
void check_inner(const Shape& a, const Shape& b) {
  const Index left = a.back(), right = b[b.size() - std::min<std::size_t>(b.size(), 2)];
  if (left != right)
    fail<ShapeError>(
        "matmul: shapes {} and {} do not fit: the last length of the left, {}, must equal the {} of the right, {}", a,
        b, left, b.size() == 1 ? "only one" : "second last", right);
}

void infer_matmul(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor &a = call.input(0), &b = call.input(1);
  if (a.dtype() != b.dtype())
    fail<DtypeError>("matmul: dtypes {} and {} differ: convert with astype", a.dtype(), b.dtype());
  if (a.dtype() == bool_) fail<DtypeError>("matmul: bool has no products to sum: convert to int32 with astype");
  if (a.rank() < 2 || b.rank() < 2 || batch_of(a.shape()) != batch_of(b.shape()))
    fail<ShapeError>("matmul: shapes {} and {} must be matrices with equal leading axes here", a.shape(), b.shape());
  check_inner(a.shape(), b.shape());
  Shape shape = a.shape();
  shape.back() = b.shape().back();
  outputs.push_back({std::move(shape), a.dtype()});
}

// c = a b: the cotangents are da = dc b^T and db = a^T dc.
Tensor vjp_matmul(const VjpContext& c, int input) {
  return input == 0 ? matmul(c.ct(), matrix_transpose(c.in(1))) : matmul(matrix_transpose(c.in(0)), c.ct());
}

// Returns whether the transposed matrices are in row-major order. Then their columns can serve
// as rows.
bool transposes_are_contiguous(const Tensor& x) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  std::swap(shape.back(), shape[shape.size() - 2]);
  std::swap(strides.back(), strides[strides.size() - 2]);
  return is_contiguous(shape, strides);
}

// [B..., m, k] x [k, n]: a stack of matrices times one matrix is computed as a single product of
// two matrices, and so are its derivatives.
Tensor stack_by_matrix(const Tensor& a, const Tensor& b) {
  Shape shape = a.shape();
  shape.back() = columns_of(b);
  return reshape(apply(op_matmul, {reshape(a, {a.size() / std::max<Index>(columns_of(a), 1), columns_of(a)}), b}),
                 shape);
}

// The product of operands of rank 2 or more. If one operand is a single matrix and the rows
// (columns) of the other follow one another in memory, the stack is treated as one matrix.
// Otherwise the single matrix is repeated, as a view.
Tensor matmul_of_stacks(const Tensor& a, const Tensor& b) {
  if (a.rank() > 2 && b.rank() == 2 && columns_of(a) > 0 && a.is_contiguous()) return stack_by_matrix(a, b);
  if (a.rank() == 2 && b.rank() > 2 && rows_of(b) > 0 && transposes_are_contiguous(b))
    // a b = (b^T a^T)^T, in which the stack comes first.
    return matrix_transpose(stack_by_matrix(matrix_transpose(b), matrix_transpose(a)));
  const Shape batch = broadcast_shapes(batch_of(a.shape()), batch_of(b.shape()), "matmul");
  const auto repeated = [&](const Tensor& x) {
    Shape shape = batch;
    shape.append(x.shape().end() - 2, x.shape().end());
    return broadcast_to(x, shape);
  };
  return apply(op_matmul, {repeated(a), repeated(b)});
}

Index product(std::span<const Index> lengths) { return Shape(lengths).elements(); }

// The axes of x other than `axes`, in order.
Shape free_axes(const Tensor& x, const Shape& axes) {
  Shape others;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) others.push_back(axis);
  return others;
}

Shape lengths_of(const Tensor& x, const Shape& axes) {
  Shape lengths = axes;
  for (Index& length : lengths) length = x.shape(length);
  return lengths;
}

bool repeats(Shape axes) {
  std::sort(axes.begin(), axes.end());
  return std::adjacent_find(axes.begin(), axes.end()) != axes.end();
}

// Returns the element sets (element_sets.h) of a matrix product a b. `a` has the sets of a, [...,
// m, k]; b is a constant, [..., k, n]. If most elements of b are zeros, element (i, j) of the
// product depends on those a_il for which b_lj is not zero. Otherwise, or if b is undefined, it
// depends on row i of a.
Tensor depends_matrix_product(ElementSets& sets, Tensor a, const Tensor& b) {
  const Index k = a.shape(-1);
  const Tensor row = sets.unite_over(a, Shape(a.rank() - 1));
  if (!b.defined() || b.size() == 0 || a.size() == 0) return row;
  Tensor entries = matrix_transpose(b != 0);  // [..., n, k]
  const Index most = max(sum(astype(entries, int64), -1)).item<Index>();
  if (2 * most > k) return row;
  while (entries.rank() < a.rank()) entries = expand_dims(entries, 0);
  while (a.rank() < entries.rank()) a = expand_dims(a, 0);
  const Tensor order = argsort(astype(logical_not(entries), int32), -1)(ellipsis, slice(most));
  const Tensor is_entry = expand_dims(take_along_axis(entries, order), -3), places = expand_dims(order, -3);
  const Index m = a.shape(-2), block = std::max<Index>(1, (Index{1} << 22) / std::max<Index>(1, order.size()));
  std::vector<Tensor> blocks;
  for (Index start = 0; start < m; start += block) {
    const Tensor rows = expand_dims(a(ellipsis, slice(start, std::min(m, start + block)), slice()), -2);
    // [..., rows, n, most]
    const Tensor chosen = where(is_entry, take_along_axis(rows, places), 0);
    blocks.push_back(squeeze(sets.unite_over(chosen, Shape(chosen.rank() - 1)), -1));
  }
  return concat(blocks, -2);
}

Outputs depends_matmul(const DependsContext& c) {
  Tensor all;
  if (c.has(0)) all = depends_matrix_product(c.sets, c.set(0), c.constant(1));
  if (c.has(1)) {
    const Tensor a = c.constant(0);
    all = c.sets.unite(all, matrix_transpose(depends_matrix_product(c.sets, matrix_transpose(c.set(1)),
                                                                    a.defined() ? matrix_transpose(a) : a)));
  }
  return all;
}

}  // namespace

constinit const Op op_matmul{
    .id = OpId::matmul,
    .name = "matmul",
    .takes_complex = true,
    .infer = infer_matmul,
    .derivative = Derivative::bilinear,
    .vjp = vjp_matmul,
    // An operand that is the same in all lanes lacks the batch axis, so matmul broadcasts it.
    .batch = [](const BatchContext& c) { return Outputs(matmul(c.in(0), c.in(1))); },
    .depends = depends_matmul,
    .flops =
        [](const Attributes*, std::span<const Shape> inputs, const Shape& output) {
          return 2 * static_cast<std::uint64_t>(output.elements()) * static_cast<std::uint64_t>(inputs[0].back());
        },
};

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (require_defined(a, "matmul", 0).rank() == 0 || require_defined(b, "matmul", 1).rank() == 0)
    fail<ShapeError>("matmul: shapes {} and {}: an operand of rank 0 has no axis to sum over: use multiply", a.shape(),
                     b.shape());
  check_inner(a.shape(), b.shape());
  const Dtype dtype = multiplied_in(promote(a.dtype(), b.dtype()));
  const Tensor left = astype(a.rank() == 1 ? expand_dims(a, 0) : a, dtype);
  const Tensor right = astype(b.rank() == 1 ? expand_dims(b, 1) : b, dtype);
  const Tensor result = matmul_of_stacks(left, right);
  if (a.rank() > 1 && b.rank() > 1) return result;
  Shape shape = result.shape();  // Drops the axes that were added to vectors.
  if (b.rank() == 1) shape.pop_back();
  if (a.rank() == 1) shape.erase(shape.end() - (b.rank() == 1 ? 1 : 2));
  return reshape(result, shape);
}

Tensor tensordot(const Tensor& a, const Tensor& b, const Shape& a_axes, const Shape& b_axes) {
  require_defined(a, "tensordot", 0), require_defined(b, "tensordot", 1);
  if (a_axes.size() != b_axes.size())
    fail<ShapeError>("tensordot: {} axes of the left operand cannot be paired with {} axes of the right operand",
                     a_axes.size(), b_axes.size());
  Shape left = a_axes, right = b_axes;
  for (Index& axis : left) axis = normalize_axis(axis, a.rank(), "tensordot");
  for (Index& axis : right) axis = normalize_axis(axis, b.rank(), "tensordot");
  if (repeats(left) || repeats(right)) fail<ShapeError>("tensordot: axes {} and {} name an axis twice", left, right);
  if (lengths_of(a, left) != lengths_of(b, right))
    fail<ShapeError>("tensordot: axes {} of shape {} and axes {} of shape {} differ in length", left, a.shape(), right,
                     b.shape());
  const Shape a_free = free_axes(a, left), b_free = free_axes(b, right);
  const Shape a_shape = lengths_of(a, a_free), b_shape = lengths_of(b, b_free);
  return named("tensordot", [&] {
    const Index summed = product(lengths_of(a, left));
    const Tensor rows = reshape(permute_dims(a, joined({a_free, left})), {product(a_shape), summed});
    const Tensor columns = reshape(permute_dims(b, joined({right, b_free})), {summed, product(b_shape)});
    return reshape(matmul(rows, columns), joined({a_shape, b_shape}));
  });
}

Tensor tensordot(const Tensor& a, const Tensor& b, int axes) {
  require_defined(a, "tensordot", 0), require_defined(b, "tensordot", 1);
  if (axes < 0 || axes > a.rank() || axes > b.rank())
    fail<ShapeError>("tensordot: shapes {} and {} do not both have {} axes", a.shape(), b.shape(), axes);
  std::vector<Index> last, first;
  for (int axis = 0; axis < axes; ++axis) {
    last.push_back(a.rank() - axes + axis);
    first.push_back(axis);
  }
  return tensordot(a, b, last, first);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  return named(
      "outer",
      [&] {
        return reshape(a, {a.size(), 1}) * reshape(b, {1, b.size()});
      },
      a, b);
}

}  // namespace stave
