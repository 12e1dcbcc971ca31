// max, min, all and any.
#include <stave/core/ops/all_ops.h>
#include <stave/backends/cuda/kernels/reduce_launch.cuh>

namespace stave_cuda {

using stave::Dtype;
using stave::OpId;

namespace {

ReduceLauncher extreme(Dtype dtype) {
  switch (dtype) {
    case Dtype::bool_:
    case Dtype::uint8: return launch_reduction<Extreme<std::uint8_t>>;
    case Dtype::uint32:
    case Dtype::int32: return launch_reduction<Extreme<std::uint32_t>>;
    case Dtype::int64: return launch_reduction<Extreme<std::uint64_t>>;
    case Dtype::float32: return launch_reduction<Extreme<float>>;
    case Dtype::float64: return launch_reduction<Extreme<double>>;
  }
  return nullptr;
}

}  // namespace

ReduceLauncher extreme_reduction(OpId op, Dtype dtype) {
  if (op == OpId::max || op == OpId::min) return extreme(dtype);
  return dtype == Dtype::bool_ ? launch_reduction<Logical> : nullptr;
}

}  // namespace stave_cuda
