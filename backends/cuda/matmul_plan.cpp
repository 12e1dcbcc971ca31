#include <stave/backends/cuda/matmul_plan.h>

#include <algorithm>

namespace stave_cuda {

using stave::Shape, stave::Strides, stave::View;

namespace {

// Up to this number of launches cost less than a copy of an operand.
constexpr Index most_loops = 16;

/// The layout of one matrix of an operand.
struct Matrix {
  Index rows, columns, row_step, column_step;
};

Matrix matrix_of(const View& view) {
  const std::size_t rank = view.shape.size();
  return {view.shape[rank - 2], view.shape[rank - 1], view.strides[rank - 2], view.strides[rank - 1]};
}

// BLAS requires that the elements of a row (column) are adjacent and that
// rows (columns) do not overlap.
bool reads_rows(const Matrix& x) {
  return (x.columns == 1 || x.column_step == 1) && (x.rows == 1 || x.row_step >= x.columns);
}
bool reads_columns(const Matrix& x) { return reads_rows({x.columns, x.rows, x.column_step, x.row_step}); }

MatmulOperand operand_of(const Matrix& x) {
  const bool by_columns = !reads_rows(x);
  const Index lines = by_columns ? x.columns : x.rows, length = by_columns ? x.rows : x.columns;
  const Index step = by_columns ? x.column_step : x.row_step;
  return {Packed::no, by_columns, lines == 1 ? length : step, 0};
}

std::span<const Index> batch_part(std::span<const Index> all) { return all.first(all.size() - 2); }

// Returns true if the operand's leading axes form one axis with a constant step, or if the operand
// is a single matrix. Such an operand does not prevent batching.
bool is_even(const View& x) { return merged_axes<1>(batch_part(x.shape), {batch_part(x.strides)}).size() <= 1; }

LoopAxes<3> batch_axes(const View& out, std::span<const Index> a_strides, std::span<const Index> b_strides) {
  return merged_axes<3>(batch_part(out.shape), {batch_part(out.strides), batch_part(a_strides), batch_part(b_strides)});
}

Index loops_of(const LoopAxes<3>& axes) {
  Index all = 1, longest = 1;
  for (const LoopAxis<3>& axis : axes) {
    all *= axis.length;
    longest = std::max(longest, axis.length);
  }
  return all / longest;
}

Packed packing_of(const View& x) {
  for (std::size_t axis = 0; axis + 2 < x.shape.size(); ++axis)
    // A BLAS batch cannot have a negative step.
    if (x.strides[axis] < 0 && x.shape[axis] > 1) return Packed::once;
  const Matrix matrix = matrix_of(x);
  return reads_rows(matrix) || reads_columns(matrix) ? Packed::no : Packed::once;
}

// Merges the matrices of a along a leading axis into one tall matrix, if all of them multiply the
// same matrix b and the step from one matrix to the next continues the step between rows.
void merge_into_rows(MatmulPlan& plan, LoopAxes<3>& axes) {
  while (!axes.empty() && !plan.a.by_columns) {
    const LoopAxis<3>& axis = axes.back();
    const bool follow = plan.m == 1 ? axis.step[1] >= plan.k : axis.step[1] == plan.m * plan.a.leading;
    if (axis.step[2] != 0 || !follow || axis.step[0] != plan.m * plan.n) return;
    if (plan.m == 1) plan.a.leading = axis.step[1];
    plan.m *= axis.length;
    axes.pop_back();
  }
}

// Makes the longest axis BLAS's batch.
void take_batch(MatmulPlan& plan, LoopAxes<3>& axes) {
  if (axes.empty()) return;
  auto* const longest =
      std::max_element(axes.begin(), axes.end(), [](const auto& x, const auto& y) { return x.length < y.length; });
  plan.batch = longest->length;
  plan.out_step = longest->step[0];
  plan.a.batch_step = longest->step[1];
  plan.b.batch_step = longest->step[2];
  axes.erase(longest);
}

}  // namespace

PackedLayout packed_layout(const View& operand, Packed packed) {
  PackedLayout layout{Shape(operand.shape), {}};
  if (packed == Packed::once)
    // Broadcast leading axes get length 1. Rows of a matrix are copied in full, because BLAS reads
    // no matrix with repeated rows.
    for (std::size_t axis = 0; axis + 2 < layout.shape.size(); ++axis)
      if (operand.strides[axis] == 0) layout.shape[axis] = 1;
  layout.strides = stave::contiguous_strides(layout.shape);
  for (std::size_t axis = 0; axis < layout.shape.size(); ++axis)
    if (layout.shape[axis] != operand.shape[axis]) layout.strides[axis] = 0;
  return layout;
}

MatmulPlan plan_matmul(const View& a, const View& b, const View& out) {
  MatmulPlan plan;
  plan.m = matrix_of(a).rows;
  plan.k = matrix_of(a).columns;
  plan.n = matrix_of(b).columns;
  const View* views[] = {&a, &b};
  Packed packed[] = {packing_of(a), packing_of(b)};
  Strides strides[2];
  const auto lay_out = [&](int i) {
    strides[i] = packed[i] == Packed::no ? Strides(views[i]->strides) : packed_layout(*views[i], packed[i]).strides;
  };
  const auto axes_now = [&] { return batch_axes(out, strides[0], strides[1]); };
  lay_out(0);
  lay_out(1);
  LoopAxes<3> axes = axes_now();
  for (int i = 0; i < 2 && loops_of(axes) > most_loops; ++i) {
    if (is_even({nullptr, views[i]->dtype, views[i]->shape, strides[i]})) continue;
    packed[i] = Packed::entirely;
    lay_out(i);
    axes = axes_now();
  }
  plan.a = operand_of(matrix_of({nullptr, a.dtype, a.shape, strides[0]}));
  plan.b = operand_of(matrix_of({nullptr, b.dtype, b.shape, strides[1]}));
  plan.a.packed = packed[0];
  plan.b.packed = packed[1];
  merge_into_rows(plan, axes);
  take_batch(plan, axes);
  plan.loops = std::move(axes);
  return plan;
}

}  // namespace stave_cuda
