#include <stave/backends/cuda/softmax.h>

#include <stave/backends/cuda/kernels/softmax_kernels.h>
#include <stave/backends/cuda/layout.h>
#include <stave/core/op/op.h>
#include <stave/core/tensor/fail.h>

namespace stave_cuda {

using stave::OpId, stave::View;

void run_softmax(const Launch& launch, OpId op, int axis, const View& in, const View& out) {
  const SoftmaxLauncher launcher = softmax_of(in.dtype);
  if (!launcher)
    stave_detail::fail<stave::DtypeError>("cuda: no kernel of {} for {}; convert with astype",
                                          stave::all_ops()[static_cast<std::size_t>(op)]->name, in.dtype);
  for (const stave::Index length : out.shape)
    if (length == 0) return;
  if (reads_lines(in)) return launcher(launch, SoftmaxPlan(op, axis, in, out));
  // Neighbouring threads would not read neighbouring elements of the input, so it is first copied,
  // to the output if it has the same shape.
  const bool reduces = op == OpId::logsumexp;
  const stave::Strides strides = stave::contiguous_strides(stave::Shape(in.shape));
  const auto bytes = static_cast<std::size_t>(stave::Shape(in.shape).elements()) * stave::size_of(in.dtype);
  const View copy = reduces ? View{launch.scratch.allocate(bytes), in.dtype, in.shape, strides} : out;
  run_copy(launch, in, copy);
  launcher(launch, SoftmaxPlan(op, axis, copy, out));
}

}  // namespace stave_cuda
