#include <stave/backends/cuda/random.h>
#include <stave/backends/cuda/sort_pairs.h>
#include <stave/backends/cuda/kernels/random.cuh>

#include <bit>
#include <utility>

namespace stave_cuda {

namespace {

__global__ void __launch_bounds__(block_threads) fold_in_kernel(const __grid_constant__ FoldLoop loop) {
  fold_in(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
template <class Draw>
__global__ void __launch_bounds__(block_threads) draw_kernel(const __grid_constant__ DrawLoop loop) {
  draw<Draw>(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
__global__ void __launch_bounds__(block_threads) draw_sort_keys_kernel(const __grid_constant__ PermutationLoop loop) {
  draw_sort_keys(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
__global__ void __launch_bounds__(block_threads) take_rows_kernel(const __grid_constant__ PermutationLoop loop) {
  take_rows(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
__global__ void __launch_bounds__(block_threads) move_elements_kernel(const __grid_constant__ PermutationLoop loop) {
  move_elements(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}

Index elements_of(const View& view) {
  Index n = 1;
  for (Index length : view.shape) n *= length;
  return n;
}

template <class Draw>
void launch_draw(const Launch& launch, const View& keys_view, const View& out, double low, double high,
                 const char* what) {
  const Index elements = elements_of(out);
  if (elements == 0) return;
  const KeyPlan keys(keys_view);
  const DrawLoop loop{keys.with(keys.lead().on_device(launch)),
                      static_cast<std::uint64_t>(elements),
                      Divider(elements / keys.count()),
                      out.data,
                      low,
                      high};
  draw_kernel<Draw><<<blocks_for(loop.elements), block_threads, 0, launch.stream>>>(loop);
  check_launch(what);
}

/// Permutes rows in several rounds. Each round sorts the rows by new random bits, and the last
/// round writes to `out`.
class Permutation {
 public:
  Permutation(const Launch& launch, Index elements)
      : launch_(launch), sorted_(array(elements)), order_(array(elements)), by_rows_(array(elements)),
        rows_(reinterpret_cast<std::int32_t*>(array(elements))) {}

  static std::uint32_t* array(const Launch& launch, Index n) {
    return static_cast<std::uint32_t*>(launch.scratch.allocate(static_cast<std::size_t>(n) * sizeof(std::uint32_t)));
  }
  void run(PermutationLoop loop, Index rows, int rounds, std::int32_t* out) {
    const unsigned blocks = blocks_for(loop.elements);
    const auto n = static_cast<std::uint32_t>(loop.elements);
    for (loop.rounds_done = 0; loop.rounds_done < rounds; ++loop.rounds_done) {
      draw_sort_keys_kernel<<<blocks, block_threads, 0, launch_.stream>>>(loop);
      sort_pairs(launch_, loop.key, sorted_, loop.position, order_, n);
      loop.order = order_;
      if (rows > 1) {
        take_rows_kernel<<<blocks, block_threads, 0, launch_.stream>>>(loop);
        sort_pairs(launch_, loop.key, sorted_, loop.position, by_rows_, n,
                   static_cast<int>(std::bit_width(static_cast<std::uint64_t>(rows - 1))));
        loop.order = by_rows_;
      }
      loop.to = (rounds - loop.rounds_done) % 2 == 1 ? out : rows_;
      move_elements_kernel<<<blocks, block_threads, 0, launch_.stream>>>(loop);
      loop.from = loop.to;
    }
    check_launch("random_permutation");
  }

 private:
  std::uint32_t* array(Index n) const { return array(launch_, n); }

  const Launch& launch_;
  std::uint32_t *sorted_, *order_, *by_rows_;
  std::int32_t* rows_;
};

}  // namespace

void run_fold_in(const Launch& launch, const View& keys_view, const View& data, const View& out) {
  const KeyPlan keys(keys_view);
  const IndexPlan<1> places(data.shape, {data.strides});
  if (places.elements() == 0) return;
  const FoldLoop loop{keys.with(keys.lead().on_device(launch)), static_cast<const std::uint32_t*>(data.data),
                      places.on_device(launch), static_cast<std::uint64_t>(places.elements()),
                      static_cast<std::uint32_t*>(out.data)};
  fold_in_kernel<<<blocks_for(loop.elements), block_threads, 0, launch.stream>>>(loop);
  check_launch("fold_in");
}

void run_random_bits(const Launch& launch, const View& keys, const View& out) {
  launch_draw<DrawBits>(launch, keys, out, 0, 0, "random_bits");
}

void run_random_uniform(const Launch& launch, const stave::UniformAttributes& attributes, const View& keys,
                        const View& out) {
  stave::visit_real_dtype(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_integral_v<T>)
      launch_draw<DrawUniform<T>>(launch, keys, out, attributes.low, attributes.high, "random_uniform");
  });
}

void run_random_permutation(const Launch& launch, const View& keys_view, const View& out) {
  const Index elements = elements_of(out);
  if (elements == 0) return;
  const Index length = out.shape.back(), rows = elements / length, at_once = rows_at_once(rows, length);
  const int rounds = stave::permutation_rounds(length);
  if (rounds == 0)  // Each row has one element, which is 0.
    return check(cudaMemsetAsync(out.data, 0, static_cast<std::size_t>(elements) * sizeof(std::int32_t), launch.stream),
                 "random_permutation");
  const KeyPlan keys(keys_view);
  PermutationLoop loop{keys.with(keys.lead().on_device(launch))};
  loop.length = Divider(length);
  loop.key = Permutation::array(launch, at_once * length);
  loop.position = Permutation::array(launch, at_once * length);
  Permutation permutation(launch, at_once * length);
  for (Index first = 0; first < rows; first += at_once) {
    const Index count = std::min(at_once, rows - first);
    loop.first_row = static_cast<std::uint64_t>(first);
    loop.elements = static_cast<std::uint64_t>(count * length);
    permutation.run(loop, count, rounds, static_cast<std::int32_t*>(out.data) + first * length);
  }
}

}  // namespace stave_cuda
