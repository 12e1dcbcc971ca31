#include <stave/backends/cuda/attention.h>
#include <stave/backends/cuda/kernels/attention.cuh>

namespace stave_cuda {

namespace {

template <class E>
__global__ void __launch_bounds__(block_threads) attention_kernel(const __grid_constant__ AttentionArgs args) {
  __shared__ AttentionShared<stave::Computed<E>> shared;
  attention_body<E>(DeviceBlock(), args, shared);
}

void launch_attention(const Launch& launch, const AttentionArgs& args, stave::Dtype dtype, const char* what) {
  if (args.tasks() == 0) return;
  stave::visit_real_dtype(dtype, [&](auto zero) {
    using E = decltype(zero);
    if constexpr (!std::is_integral_v<E>) {
      const unsigned blocks = grid_for(launch, &attention_kernel<E>, args.tasks());
      attention_kernel<E><<<blocks, block_threads, 0, launch.stream>>>(args);
    }
  });
  check_launch(what);
}

}  // namespace

void run_attention(const Launch& launch, const stave::AttentionAttributes& attention, std::span<const View> in,
                   std::span<const View> out) {
  AttentionArgs args = AttentionPlan(attention, AttentionResult::means, in, out[0]).on_device(launch);
  args.totals = out[1].data;
  launch_attention(launch, args, in[0].dtype, "attention");
}

void run_attention_gradient(const Launch& launch, const stave::AttentionAttributes& attention, std::span<const View> in,
                            std::span<const View> out) {
  for (const AttentionResult of : {AttentionResult::of_queries, AttentionResult::of_keys, AttentionResult::of_values}) {
    const AttentionPlan plan(attention, of, in, out[static_cast<std::size_t>(of)]);
    launch_attention(launch, plan.on_device(launch), in[0].dtype, "attention_gradient");
  }
}

}  // namespace stave_cuda
