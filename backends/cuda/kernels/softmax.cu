// Kernels of softmax, log_softmax and logsumexp.
#include <stave/backends/cuda/kernels/softmax_kernels.h>
#include <stave/backends/cuda/kernels/softmax.cuh>

namespace stave_cuda {

namespace {

template <class E>
__global__ void __launch_bounds__(block_threads)
    softmax_kernel(const __grid_constant__ SoftmaxArgs args, SoftmaxStage stage) {
  __shared__ SoftmaxShared<stave::Computed<E>> shared;
  softmax_body<E>(DeviceBlock(), args, stage, shared);
}

template <class E>
void launch_softmax(const Launch& launch, const SoftmaxPlan& plan) {
  SoftmaxArgs args = plan.on_device(launch);
  const auto blocks = grid_for(launch, &softmax_kernel<E>, args.tasks());
  const auto run = [&](SoftmaxStage stage) {
    softmax_kernel<E><<<blocks, block_threads, 0, launch.stream>>>(args, stage);
    check_launch("softmax");
  };
  if (plan.partials() == 0) return run(SoftmaxStage::whole);
  using Total = SoftmaxTotal<stave::Computed<E>>;
  args.partials = launch.scratch.allocate(static_cast<std::size_t>(plan.partials()) * sizeof(Total));
  run(SoftmaxStage::partials);
  run(SoftmaxStage::finish);
}

}  // namespace

SoftmaxLauncher softmax_of(stave::Dtype dtype) {
  return stave::visit_real_dtype(dtype, [](auto zero) -> SoftmaxLauncher {
    if constexpr (std::is_integral_v<decltype(zero)>) return nullptr;
    else return launch_softmax<decltype(zero)>;
  });
}

}  // namespace stave_cuda
