#include <stave/backends/cuda/reduce.h>

#include <stave/backends/cuda/kernels/reduce_kernels.h>
#include <stave/backends/parts_apart.h>
#include <stave/core/op/op.h>
#include <stave/core/tensor/fail.h>

namespace stave_cuda {

using stave::OpId;

namespace {

void run(const Launch& launch, OpId op, ReduceLauncher launcher, const Shape& axes, const View& in, const View& out) {
  if (!launcher)
    stave_detail::fail<stave::DtypeError>("cuda: no kernel of {} for {}; convert with astype",
                                          stave::all_ops()[static_cast<std::size_t>(op)]->name, in.dtype);
  const ReducePlan plan(op, axes, in, out);
  if (plan.args().outputs > 0) launcher(launch, plan);
}

}  // namespace

void run_reduce(const Launch& launch, OpId op, const Shape& axes, const View& in, const View& out) {
  if (op == OpId::sum && stave::is_complex(in.dtype)) {
    const stave_detail::PartsApart from(in), to(out);
    return run_reduce(launch, op, axes, from.view, to.view);
  }
  const bool arithmetic = op == OpId::sum || op == OpId::prod;
  run(launch, op, arithmetic ? arithmetic_reduction(op, in.dtype) : extreme_reduction(op, in.dtype), axes, in, out);
}

void run_arg_reduce(const Launch& launch, OpId op, const Shape& axes, const View& in, const View& out) {
  run(launch, op, arg_reduction(in.dtype), axes, in, out);
}

}  // namespace stave_cuda
