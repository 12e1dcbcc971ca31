#include <stave/backends/cuda/kernels/complex.cuh>

namespace stave_cuda {

namespace {

template <class Body>
__global__ void __launch_bounds__(block_threads)
    complex_kernel(const __grid_constant__ ElementwiseLoop<Body::inputs> loop) {
  Body::run(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
template <class Body>
const void* address_of() {
  return reinterpret_cast<const void*>(&complex_kernel<Body>);
}

template <OpId op, class... In>
void fill(KernelRow& row) {
  if constexpr (stave::takes_complex(op) || op == OpId::conj || op == OpId::real || op == OpId::imag)
    row[static_cast<int>(op)] = address_of<ComplexBody<op, In...>>();
}

template <class T>
void fill_row(KernelRow& row) {
  using C = ComplexElement<T>;
#define X(name, Struct) fill<OpId::name, C>(row);
  STAVE_UNARY_OPS(X)
#undef X
#define X(name, Struct) fill<OpId::name, C, C>(row);
  STAVE_BINARY_OPS(X)
#undef X
  fill<OpId::conj, C>(row);
  fill<OpId::real, C>(row);
  fill<OpId::imag, C>(row);
}

/// Sets the kernels that make complex numbers of other ones, and compare them with zero.
template <class T>
void fill_conversions(ElementwiseKernels& table, stave::Dtype dtype) {
  using C = ComplexElement<T>;
  const auto to = static_cast<int>(dtype);
#define X(name, From) table.astype[static_cast<int>(stave::name)][to] = address_of<ComplexConversion<From, C>>();
  STAVE_DTYPES(X)
#undef X
  table.astype[to][static_cast<int>(stave::bool_)] = address_of<ComplexConversion<C, bool>>();
  table.by_dtype[static_cast<int>(stave::real_of(dtype))][static_cast<int>(OpId::complex)] =
      address_of<ComplexBody<OpId::complex, T, T>>();
}

}  // namespace

void fill_complex(ElementwiseKernels& table) {
  fill_row<float>(table.by_dtype[static_cast<int>(stave::complex64)]);
  fill_row<double>(table.by_dtype[static_cast<int>(stave::complex128)]);
  fill_conversions<float>(table, stave::complex64);
  fill_conversions<double>(table, stave::complex128);
}

}  // namespace stave_cuda
