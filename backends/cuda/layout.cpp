#include <stave/backends/cuda/layout.h>

#include <stave/backends/cuda/layout_plan.h>

namespace stave_cuda {

void lay_out(const Launch& launch, stave::View& in, stave::Strides& dense) {
  constexpr Index least_bytes = Index{1} << 20;
  const auto size = static_cast<Index>(stave::size_of(in.dtype));
  Index bytes = size;
  for (const Index length : in.shape) bytes *= length;
  if (bytes < least_bytes) return;
  dense = contiguous_strides(stave::Shape(in.shape));
  const CopyPlan plan({nullptr, dense}, {in.data, in.strides}, in.shape, size);
  if (plan.kind() != CopyPlan::CopyKind::tiles) return;
  void* copy = launch.scratch.allocate(static_cast<std::size_t>(bytes));
  copy_strided(launch, {copy, dense}, {in.data, in.strides}, in.shape, size);
  in.data = copy;
  in.strides = dense;
}

}  // namespace stave_cuda
