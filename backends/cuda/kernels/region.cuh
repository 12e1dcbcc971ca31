// Functions and macros that the generated source of a region's kernel uses (region_text.h). A
// thread computes `lanes` neighbouring elements of the outputs. It runs all steps for one element
// before the next, in registers. Each value is rounded as the step's own kernel would store it.
#pragma once

#include <stave/backends/cuda/region_input.h>
#include <stave/backends/cuda/kernels/apply.cuh>

namespace stave_cuda {

/// The range of elements that a thread computes: `count` elements from index `first` on.
struct Run {
  std::uint64_t first;
  int count;  // less than `lanes` only at the end of the outputs
};
template <int lanes>
STAVE_BOTH Run run_of(std::uint64_t thread, std::uint64_t elements) {
  const std::uint64_t first = thread * lanes;
  if (first >= elements) return {first, 0};
  return {first, elements - first < lanes ? static_cast<int>(elements - first) : lanes};
}

/// Loads elements one by one. It is not inlined, because the map, repeated for
/// each lane, takes long to compile.
template <class T, int lanes>
STAVE_BOTH STAVE_OUTLINE Pack<T, lanes> load_scattered(const RegionInput& in, Run run) {
  Pack<T, lanes> pack{};
  const T* data = static_cast<const T*>(in.data);
  STAVE_UNROLLED
  for (int j = 0; j < lanes; ++j)
    if (j < run.count) pack.lane[j] = data[in.map(run.first + static_cast<unsigned>(j))[0]];
  return pack;
}
template <class T, int lanes>
STAVE_BOTH Pack<T, lanes> load(const RegionInput& in, Run run) {
  if (in.neighbours == Neighbours::scattered) return load_scattered<T, lanes>(in, run);
  Pack<T, lanes> pack{};
  const T* data = static_cast<const T*>(in.data);
  data += in.neighbours == Neighbours::flat ? static_cast<Index>(run.first) : in.map(run.first)[0];
  if (in.neighbours == Neighbours::broadcast) {
    const T value = *data;
    STAVE_UNROLLED
    for (int j = 0; j < lanes; ++j) pack.lane[j] = value;
  } else if (run.count == lanes) {
    pack = *reinterpret_cast<const Pack<T, lanes>*>(data);
  } else {
    STAVE_UNROLLED
    for (int j = 0; j < lanes; ++j)
      if (j < run.count) pack.lane[j] = data[j];
  }
  return pack;
}
/// Loads as `load` does, but is not inlined. Kernels with many inputs call it.
template <class T, int lanes>
STAVE_BOTH STAVE_OUTLINE Pack<T, lanes> load_by_call(const RegionInput& in, Run run) {
  return load<T, lanes>(in, run);
}

template <class T, int lanes>
STAVE_BOTH void store(T* out, Run run, const Pack<T, lanes>& pack) {
  if (run.count == lanes) {
    *reinterpret_cast<Pack<T, lanes>*>(out + run.first) = pack;
    return;
  }
  STAVE_UNROLLED
  for (int j = 0; j < lanes; ++j)
    if (j < run.count) out[run.first + static_cast<unsigned>(j)] = pack.lane[j];
}

/// Applies an operation to elements of T.
template <class S, class T>
STAVE_BOTH OutOf<S, T> step(Element<T> a) {
  return static_cast<OutOf<S, T>>(Apply<S, KernelType<S, T>>::apply(a));
}
template <class S, class T>
STAVE_BOTH OutOf<S, T> step(Element<T> a, Element<T> b) {
  return static_cast<OutOf<S, T>>(Apply<S, KernelType<S, T>>::apply(a, b));
}

}  // namespace stave_cuda

// On a device the generated source defines a kernel. On the host, for tests, it defines a function
// that does the work of one thread. The caller first sets the number of this thread in the grid.
#ifdef __CUDACC__
#define STAVE_REGION_KERNEL extern "C" __global__ void __launch_bounds__(stave_cuda::region_threads)
#define STAVE_PARAMETER const __grid_constant__
#define STAVE_REGION_THREAD (std::uint64_t{blockIdx.x} * stave_cuda::region_threads + threadIdx.x)
#else
namespace stave_cuda {
inline thread_local std::uint64_t region_thread = 0;
}
#define STAVE_REGION_KERNEL static void
#define STAVE_PARAMETER const
#define STAVE_REGION_THREAD stave_cuda::region_thread
#endif
