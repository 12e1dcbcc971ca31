// Row blocking: runs several operations on a few rows at a time, so that the rows stay in a cache
// from one operation to the next.
#include <algorithm>

#include <stave/backends/cpu/cpu_backend.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/row_steps.h>
#include <stave/core/tensor/small_vector.h>

namespace stave_cpu {

using namespace stave;

namespace {

// The limit in bytes for the rows of all arrays that are in use at a time. They fit into the L2
// cache.
constexpr Index cached_bytes = 1 << 18;
// The limit in bytes for rows that must fit into the L1 cache together with the temporary data of
// kernels (measured).
constexpr Index first_cached_bytes = 1 << 14;
// The arrays together must have at least this many bytes. Smaller arrays stay in the last-level
// cache. Reading them again from there takes less time than starting each operation for each block
// (measured: a program of twelve operations on arrays of 8 MB takes 15 % longer in blocks of a
// thousand rows).
constexpr Index least_bytes = 1 << 25;
// The limit for the number of elements of one array in a block. A cheap operation does not divide
// so few elements among threads. Operations with more work per element, such as exp and softmax,
// may divide them.
constexpr Index most_array_elements = cheap_grain - 1;

Index elements_in_row(const View& view) {
  Index elements = 1;
  for (std::size_t axis = 1; axis < view.shape.size(); ++axis)
    if (view.strides[axis] != 0) elements *= view.shape[axis];
  return elements;
}

struct Row {
  // The size of one row of all arrays together, and the number of elements of the longest row.
  Index bytes, elements;
};
Row row_of(std::span<const Backend::Step> steps) {
  SmallVector<const void*, 16> seen;
  Row row{1, 1};
  for (const Backend::Step& step : steps)
    for (const std::span<const View> views : {step.inputs, step.outputs})
      for (const View& view : views) {
        Index all = 1;
        for (const Index length : view.shape.subspan(1)) all *= length;
        row.elements = std::max(row.elements, all);
        if (std::find(seen.begin(), seen.end(), view.data) != seen.end()) continue;
        seen.push_back(view.data);
        row.bytes += elements_in_row(view) * static_cast<Index>(size_of(view.dtype));
      }
  return row;
}

// Plans all operations and runs them on as many rows at a time as the L1 cache holds, at least one.
// Returns false if an operation cannot be planned, or if a row is too long.
bool run_planned(std::span<const Backend::Step> steps, Index rows, const Row& row) {
  if (row.bytes > cached_bytes) return false;
  const Index at_a_time = std::max<Index>(1, first_cached_bytes / row.bytes);
  SmallVector<std::unique_ptr<RowStep>, 8> planned;
  for (const Backend::Step& step : steps) {
    planned.push_back(row_step(step, at_a_time));
    if (!planned.back()) return false;
  }
  parallel_for((rows + at_a_time - 1) / at_a_time, std::max<Index>(1, cheap_grain / (at_a_time * row.elements)),
               [&](Index first, Index last) {
                 for (Index block = first; block < last; ++block)
                   for (const std::unique_ptr<RowStep>& step : planned)
                     step->run(block * at_a_time, std::min(at_a_time, rows - block * at_a_time));
               });
  return true;
}

// Some consecutive rows of an array.
struct RowBlock {
  View view;
  Shape shape;
};

}  // namespace

void CpuBackend::run_row_blocks(std::span<const Step> steps, Index rows) {
  const Row row = row_of(steps);
  if (run_planned(steps, rows, row)) return;
  // A block has at least two rows, because operations reduce a single row in another order.
  const Index at_a_time = std::min(cached_bytes / row.bytes, most_array_elements / row.elements);
  if (at_a_time < 2 || rows * row.bytes < least_bytes) return Backend::run_row_blocks(steps, rows);
  const Index blocks = std::max<Index>(1, rows / at_a_time);
  parallel_for(blocks, 1, [&](Index first, Index last) {
    SmallVector<Index, 8> lengths;
    SmallVector<View, 8> views;
    for (Index block = first; block < last; ++block) {
      const Index begin = rows * block / blocks, count = rows * (block + 1) / blocks - begin;
      for (const Step& step : steps) {
        lengths.clear();
        views.clear();
        for (const std::span<const View> all : {step.inputs, step.outputs})
          for (const View& view : all) {
            lengths.push_back(count);
            lengths.append(view.shape.begin() + 1, view.shape.end());
          }
        const Index* shape = lengths.begin();
        for (const std::span<const View> all : {step.inputs, step.outputs})
          for (const View& view : all) {
            char* const data =
                static_cast<char*>(view.data) + begin * view.strides[0] * static_cast<Index>(size_of(view.dtype));
            views.push_back({data, view.dtype, {shape, view.shape.size()}, view.strides, view.is_host_constant});
            shape += view.shape.size();
          }
        const std::span<const View> parts(views);
        run(*step.op, step.attributes, parts.first(step.inputs.size()), parts.subspan(step.inputs.size()));
      }
    }
  });
}

}  // namespace stave_cpu
