// Several operations on some rows at a time, which stay in cache from one to the next.
#include <algorithm>

#include <stave/backends/cpu/cpu_backend.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/core/small_vector.h>

namespace stave_cpu {

using namespace stave;

namespace {

constexpr Index cached_bytes = 1 << 18;           // of the rows of all arrays: they fit the second cache
constexpr Index most_elements = cheap_grain - 1;  // of an array, so that no operation divides its work

Index elements_in_row(const View& view) {
  Index elements = 1;
  for (std::size_t axis = 1; axis < view.shape.size(); ++axis)
    if (view.strides[axis] != 0) elements *= view.shape[axis];
  return elements;
}

// How many rows are taken at a time; not one, for operations reduce one row in another order than several.
Index rows_at_a_time(std::span<const Backend::Step> steps) {
  SmallVector<const void*, 16> seen;
  Index bytes = 1, most = 1;
  for (const Backend::Step& step : steps)
    for (const std::span<const View> views : {step.inputs, step.outputs})
      for (const View& view : views) {
        Index all = 1;
        for (const Index length : view.shape.subspan(1)) all *= length;
        most = std::max(most, all);
        if (std::find(seen.begin(), seen.end(), view.data) != seen.end()) continue;
        seen.push_back(view.data);
        bytes += elements_in_row(view) * static_cast<Index>(size_of(view.dtype));
      }
  return std::min(cached_bytes / bytes, most_elements / most);
}

// Some rows of an array.
struct Part {
  View view;
  Shape shape;
};

}  // namespace

void CpuBackend::run_by_rows(std::span<const Step> steps, Index rows) {
  const Index at_a_time = rows_at_a_time(steps);
  if (at_a_time < 2) return Backend::run_by_rows(steps, rows);
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
            views.push_back({data, view.dtype, {shape, view.shape.size()}, view.strides, view.number});
            shape += view.shape.size();
          }
        const std::span<const View> parts(views);
        run(*step.op, step.attributes, parts.first(step.inputs.size()), parts.subspan(step.inputs.size()));
      }
    }
  });
}

}  // namespace stave_cpu
