// softmax and log_softmax.
#include <stave/backends/cuda/kernels/softmax_kernels.h>
#include <stave/backends/cuda/kernels/softmax.cuh>

namespace stave_cuda {

namespace {

template <class T>
__global__ void __launch_bounds__(block_threads)
    softmax_kernel(const __grid_constant__ SoftmaxArgs args, SoftmaxStage stage) {
  __shared__ SoftmaxShared<T> shared;
  softmax_body<T>(DeviceBlock(), args, stage, shared);
}

template <class T>
void launch_softmax(const Launch& launch, const SoftmaxPlan& plan) {
  SoftmaxArgs args = plan.on_device(launch);
  const auto blocks = grid_for(launch, &softmax_kernel<T>, args.tasks());
  const auto run = [&](SoftmaxStage stage) {
    softmax_kernel<T><<<blocks, block_threads, 0, launch.stream>>>(args, stage);
    check_launch("softmax");
  };
  if (plan.partials() == 0) return run(SoftmaxStage::whole);
  args.partials = launch.scratch.allocate(static_cast<std::size_t>(plan.partials()) * sizeof(SoftmaxTotal<T>));
  run(SoftmaxStage::partials);
  run(SoftmaxStage::finish);
}

}  // namespace

SoftmaxLauncher softmax_of(stave::Dtype dtype) {
  if (dtype == stave::float32) return launch_softmax<float>;
  return dtype == stave::float64 ? launch_softmax<double> : nullptr;
}

}  // namespace stave_cuda
