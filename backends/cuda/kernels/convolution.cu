#include <stave/backends/cuda/convolution.h>
#include <stave/backends/cuda/layout.h>
#include <stave/backends/cuda/matmul.h>
#include <stave/backends/cuda/kernels/convolution.cuh>

namespace stave_cuda {

namespace {

template <class Unit>
__global__ void __launch_bounds__(block_threads) lay_windows_kernel(const __grid_constant__ WindowLoop loop) {
  im2col<Unit>(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
template <class E>
__global__ void __launch_bounds__(block_threads) find_largest_kernel(const __grid_constant__ PoolLoop loop) {
  find_largest<E>(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}

void* scratch(const Launch& launch, Index elements, Index size) {
  return launch.scratch.allocate(static_cast<std::size_t>(elements * size));
}

/// Returns the data of w as contiguous matrices [groups, output channels, terms], copied if w is
/// not contiguous.
const void* matrices_of(const Launch& launch, const View& w, Index size) {
  const stave::Shape shape(w.shape);
  if (stave::is_contiguous(shape, stave::Strides(w.strides))) return w.data;
  void* dense = scratch(launch, shape.elements(), size);
  copy_strided(launch, {dense, contiguous_strides(shape)}, {w.data, w.strides}, shape, size);
  return dense;
}

}  // namespace

void run_convolution(const Launch& launch, const stave::ConvolutionAttributes& attributes, const View& x, const View& w,
                     const View& out) {
  const Index elements = stave::Shape(out.shape).elements();
  if (elements == 0) return;
  const ConvolutionPlan plan(attributes, x, w, out);
  const Index size = plan.size(), n = plan.n(), groups = plan.groups(), o = plan.results(), k = plan.terms(),
              places = plan.places();
  if (plan.empty())
    return check(cudaMemsetAsync(out.data, 0, static_cast<std::size_t>(elements * size), launch.stream), "convolution");
  void* matrices = const_cast<void*>(matrices_of(launch, w, size));
  void* panel = scratch(launch, plan.images() * groups * k * places, size);
  void* products = plan.images_inside() ? scratch(launch, plan.images() * groups * o * places, size) : nullptr;
  for (Index first = 0; first < n; first += plan.images()) {
    const Index count = std::min(plan.images(), n - first);
    const WindowLoop loop = plan.loop(panel, first, count);
    stave::visit_size(static_cast<std::size_t>(size), [&](auto unit) {
      lay_windows_kernel<decltype(unit)><<<blocks_for(loop.elements), block_threads, 0, launch.stream>>>(loop);
    });
    check_launch("convolution");
    void* to = static_cast<char*>(out.data) + first * groups * o * places * size;
    const Index inside = plan.images_inside() ? count : 1, outside = count / inside, columns = inside * places;
    const Index a_shape[] = {outside, groups, o, k}, a_strides[] = {0, o * k, k, 1};
    const Index b_shape[] = {outside, groups, k, columns},
                b_strides[] = {groups * k * columns, k * columns, columns, 1};
    const Index y_shape[] = {outside, groups, o, columns},
                y_strides[] = {groups * o * columns, o * columns, columns, 1};
    run_matmul(launch, {matrices, out.dtype, a_shape, a_strides}, {panel, out.dtype, b_shape, b_strides},
               {products ? products : to, out.dtype, y_shape, y_strides});
    if (!products) continue;
    const Index shape[] = {groups, o, count, places}, from[] = {o * columns, columns, places, 1},
                strides[] = {o * places, places, groups * o * places, 1};
    copy_strided(launch, {to, strides}, {products, from}, shape, size);
  }
}

void run_argmax_pool(const Launch& launch, const stave::PoolAttributes& attributes, const View& x, const View& out) {
  const stave::Shape shape(x.shape);
  if (shape.elements() == 0 || stave::Shape(out.shape).elements() == 0) return;
  const stave::Strides dense = contiguous_strides(shape);
  View planes{x.data, x.dtype, x.shape, dense};
  if (!stave::is_contiguous(shape, stave::Strides(x.strides))) {
    planes.data = scratch(launch, shape.elements(), static_cast<Index>(stave::size_of(x.dtype)));
    run_copy(launch, x, planes);
  }
  const PoolLoop loop = pool_loop(attributes, planes, out);
  stave::visit_real_dtype(x.dtype, [&](auto zero) {
    find_largest_kernel<decltype(zero)><<<blocks_for(loop.elements), block_threads, 0, launch.stream>>>(loop);
  });
  check_launch("argmax_pool");
}

}  // namespace stave_cuda
