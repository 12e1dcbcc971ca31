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
  if (op == OpId::logsumexp) {
    View from = in;
    stave::Strides dense;
    lay_out(launch, from, dense);
    return launcher(launch, SoftmaxPlan(op, axis, from, out));
  }
  // If neighbouring threads would not read neighbouring elements of the input, the input is first
  // copied to the output, and softmax is computed there in place.
  const bool laid_out = !reads_lines(in);
  if (laid_out) run_copy(launch, in, out);
  launcher(launch, SoftmaxPlan(op, axis, laid_out ? out : in, out));
}

}  // namespace stave_cuda
