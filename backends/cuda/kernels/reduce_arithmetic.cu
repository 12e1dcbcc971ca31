// sum and prod.
#include <stave/core/ops/all_ops.h>
#include <stave/backends/cuda/kernels/reduce_launch.cuh>

namespace stave_cuda {

using stave::Dtype;
using stave::OpId;

namespace {

template <template <class, class> class Fold>
ReduceLauncher arithmetic(Dtype dtype) {
  switch (dtype) {
    case Dtype::uint8: return launch_reduction<Fold<std::uint8_t, std::uint32_t>>;
    case Dtype::uint32:
    case Dtype::int32: return launch_reduction<Fold<std::uint32_t, std::uint32_t>>;
    case Dtype::int64: return launch_reduction<Fold<std::uint64_t, std::uint64_t>>;
    case Dtype::float32: return launch_reduction<Fold<float, double>>;
    case Dtype::float64:
      if constexpr (std::is_same_v<Fold<double, double>, Sum<double, double>>) return launch_reduction<CompensatedSum>;
      else return launch_reduction<Fold<double, double>>;
    case Dtype::bool_: break;
  }
  return nullptr;
}

}  // namespace

ReduceLauncher arithmetic_reduction(OpId op, Dtype dtype) {
  return op == OpId::sum ? arithmetic<Sum>(dtype) : arithmetic<Product>(dtype);
}

}  // namespace stave_cuda
