#include <stave/backends/cuda/elementwise.h>

#include <algorithm>
#include <array>

#include <stave/backends/cuda/elementwise_plan.h>
#include <stave/backends/cuda/elementwise_table.h>
#include <stave/backends/cuda/layout.h>
#include <stave/core/op/op.h>
#include <stave/core/tensor/fail.h>

namespace stave_cuda {

namespace {

template <int inputs>
void launch_loop(const Launch& launch, const void* kernel, const View* given, const View& out, const char* what) {
  std::array<View, inputs> in;
  std::array<stave::Strides, inputs> dense;
  for (std::size_t k = 0; k < inputs; ++k) {
    in[k] = given[k];
    if (in[k].shape.size() > 1 && !in[k].is_host_constant) lay_out(launch, in[k], dense[k]);
  }
  std::size_t widest = stave::size_of(out.dtype);
  for (const View& input : in) widest = std::max(widest, stave::size_of(input.dtype));
  ElementwisePlan<inputs> plan(in.data(), out, lanes_of(widest));
  if (plan.elements() == 0) return;
  ElementwiseLoop<inputs> loop = plan.on_device(launch);
  void* arguments[] = {&loop};
  check(cudaLaunchKernel(kernel, dim3(plan.blocks()), dim3(block_threads), arguments, 0, launch.stream), what);
}

}  // namespace

const ElementwiseKernels& elementwise_kernels() {
  static const ElementwiseKernels table = [] {
    ElementwiseKernels kernels;
    fill_unary_floats(kernels);
    fill_unary_wholes(kernels);
    fill_binary_floats(kernels);
    fill_binary_wholes(kernels);
    fill_complex(kernels);
    fill_astype(kernels);
    fill_where(kernels);
    return kernels;
  }();
  return table;
}

void run_elementwise(const Launch& launch, stave::OpId op, std::span<const View> inputs, const View& out) {
  const stave::Dtype dtype = inputs[0].dtype;
  const void* kernel = elementwise_kernels().by_dtype[static_cast<int>(dtype)][static_cast<int>(op)];
  const char* name = stave::all_ops()[static_cast<std::size_t>(op)]->name;
  if (!kernel) stave_detail::fail<stave::DtypeError>("cuda: no kernel of {} for {}; convert with astype", name, dtype);
  if (inputs.size() == 1) launch_loop<1>(launch, kernel, inputs.data(), out, name);
  else launch_loop<2>(launch, kernel, inputs.data(), out, name);
}

void run_where(const Launch& launch, const View& condition, const View& x, const View& y, const View& out) {
  const View inputs[] = {condition, x, y};
  launch_loop<3>(launch, elementwise_kernels().where[stave::size_of(out.dtype)], inputs, out, "where");
}

void run_astype(const Launch& launch, const View& in, const View& out) {
  const void* kernel = elementwise_kernels().astype[static_cast<int>(in.dtype)][static_cast<int>(out.dtype)];
  launch_loop<1>(launch, kernel, &in, out, "astype");
}

}  // namespace stave_cuda
