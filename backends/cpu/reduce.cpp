// Reductions over any axes of a strided input. Each input is read once and in memory order,
// and only the result is written.
//
// The axes are sorted by their strides and merged. If the innermost axis is reduced, each
// contiguous row is reduced to one value (reduce_rows.h). If it is kept, rows are added
// elementwise, so that each column gives one result (reduce_columns.h). The work is divided into
// outputs and, if there are few outputs, also into parts of the reduced elements. The division
// depends on shapes alone, and parts are merged in order, so results do not depend on the number of
// threads.
#include <stave/backends/cpu/reduce.h>

#include <stave/backends/cpu/reduce_columns.h>
#include <stave/backends/cpu/reduce_rows.h>

namespace stave_cpu {

using namespace reducing;
using stave::View;

namespace {

void fill_neutral(const Fold& fold, Index outputs) {
  alignas(16) char accumulator[16];
  fold.kernels.start(accumulator, 1);
  for (Index i = 0; i < outputs; ++i) fold.kernels.finish(accumulator, 1, fold.out + i * fold.size);
}

/// Reduces a short contiguous vector to one value, without a plan.
void fold_small(const Fold& fold, const char* in, Index n) {
  alignas(16) char accumulator[16];
  fold.kernels.start(accumulator, 1);
  fold.kernels.row(in, n, accumulator);
  fold.kernels.finish(accumulator, 1, fold.out);
}

void run_planned(Plan plan) {
  if (plan.inner_kept) Columns(plan).run();
  else Rows(plan).run();
}

}  // namespace

void run_reduce(const Reduction& reduction, const Shape& axes, const View& in, const View& out) {
  const Index outputs = element_count(out.shape), n = element_count(in.shape);
  const Fold fold{reduction, static_cast<Index>(stave::size_of(in.dtype)), static_cast<char*>(out.data)};
  if (outputs == 0) return;
  if (n == 0) return fill_neutral(fold, outputs);
  const char* const data = static_cast<const char*>(in.data);
  if (outputs == 1 && n <= cheap_grain && is_contiguous(in.shape, in.strides)) return fold_small(fold, data, n);
  run_planned(make_plan({&fold, 1}, axes, in.shape, in.strides, data, nullptr));
}

void run_reduce(std::span<const Fold> folds, const Shape& axes, std::span<const Index> shape, const Computed& arrays) {
  const Index n = element_count(shape);
  Index outputs = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (std::find(axes.begin(), axes.end(), static_cast<Index>(axis)) == axes.end()) outputs *= shape[axis];
  if (outputs == 0) return;
  if (n == 0) {
    for (const Fold& fold : folds) fill_neutral(fold, outputs);
    return;
  }
  const stave::Strides strides = stave::contiguous_strides(Shape(shape));
  const Plan plan = make_plan(folds, axes, shape, strides, nullptr, &arrays);
  if (outputs > 1 || n > cheap_grain) return run_planned(plan);
  Reader reader(plan);
  reader.read(0, 1, n, n);
  for (std::size_t k = 0; k < folds.size(); ++k) fold_small(folds[k], reader.array(k), n);
}

}  // namespace stave_cpu
