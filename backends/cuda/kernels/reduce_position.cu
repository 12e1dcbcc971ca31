// argmax and argmin.
#include <stave/backends/cuda/kernels/reduce_launch.cuh>

namespace stave_cuda {

using stave::Dtype;

ReduceLauncher arg_reduction(Dtype dtype) {
  switch (dtype) {
    case Dtype::bool_:
    case Dtype::uint8: return launch_reduction<ArgExtreme<std::uint8_t>>;
    case Dtype::uint32:
    case Dtype::int32: return launch_reduction<ArgExtreme<std::uint32_t>>;
    case Dtype::int64: return launch_reduction<ArgExtreme<std::uint64_t>>;
    case Dtype::float32: return launch_reduction<ArgExtreme<float>>;
    case Dtype::float64: return launch_reduction<ArgExtreme<double>>;
  }
  return nullptr;
}

}  // namespace stave_cuda
