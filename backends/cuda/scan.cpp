#include <stave/backends/cuda/scan.h>

#include <stave/backends/cuda/kernels/scan_kernels.h>
#include <stave/backends/parts_apart.h>
#include <stave/core/op/op.h>
#include <stave/core/tensor/fail.h>

namespace stave_cuda {

using stave::OpId;

void run_scan(const Launch& launch, OpId op, const stave::ScanAttributes& attributes, std::span<const View> inputs,
              const View& out) {
  if (op == OpId::cumulative_sum && stave::is_complex(out.dtype)) {
    const stave_detail::PartsApart from(inputs[0]), to(out);
    return run_scan(launch, op, attributes, {&from.view, 1}, to.view);
  }
  const ScanLauncher launcher = op == OpId::cumulative_sum    ? cumulative_sum(out.dtype)
                                : op == OpId::cumulative_prod ? cumulative_prod(out.dtype)
                                : op == OpId::cummax          ? cummax(out.dtype)
                                : op == OpId::cummin          ? cummin(out.dtype)
                                                              : linear_recurrence(out.dtype);
  if (!launcher)
    stave_detail::fail<stave::DtypeError>("cuda: no kernel of {} for {}; convert with astype",
                                          stave::all_ops()[static_cast<std::size_t>(op)]->name, out.dtype);
  const ScanPlan plan(attributes, inputs, out);
  if (plan.args().row_count > 0 && plan.args().length > 0) launcher(launch, plan);
}

}  // namespace stave_cuda
