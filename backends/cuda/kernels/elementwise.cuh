// Elementwise kernels. There is one for each struct and dtype, which serves every layout
// (elementwise_plan.h describes the division of work among threads).
#pragma once

#include <cstring>

#include <stave/backends/cuda/elementwise_plan.h>
#include <stave/backends/cuda/elementwise_table.h>
#include <stave/backends/cuda/kernels/apply.cuh>

namespace stave_cuda {

/// The elements of one input that one thread loads.
template <class T, int lanes>
struct Loaded {
  T lane[lanes];

  STAVE_BOTH void one(const void* from, Index offset, int j) { lane[j] = static_cast<const T*>(from)[offset]; }
  STAVE_BOTH void repeat(const void* from, Index offset) {
    T value = static_cast<const T*>(from)[offset];
    for (int j = 0; j < lanes; ++j) lane[j] = value;
  }
  STAVE_BOTH void number(const stave::Bytes16& element) {
    T value;
    memcpy(&value, &element, sizeof value);
    for (int j = 0; j < lanes; ++j) lane[j] = value;
  }
  STAVE_BOTH void vector(const void* from, Index offset) {
    auto pack = *reinterpret_cast<const Pack<T, lanes>*>(static_cast<const T*>(from) + offset);
    for (int j = 0; j < lanes; ++j) lane[j] = pack.lane[j];
  }
};

/// The elements of all inputs that one thread loads.
template <int lanes, class... In>
struct Inputs;
template <int lanes, class A>
struct Inputs<lanes, A> {
  Loaded<A, lanes> a;
  template <class F>
  STAVE_BOTH void each(F f) {
    f(a, 0);
  }
  template <class F>
  STAVE_BOTH auto apply(int j) const {
    return F::apply(a.lane[j]);
  }
};
template <int lanes, class A, class B>
struct Inputs<lanes, A, B> {
  Loaded<A, lanes> a;
  Loaded<B, lanes> b;
  template <class F>
  STAVE_BOTH void each(F f) {
    f(a, 0);
    f(b, 1);
  }
  template <class F>
  STAVE_BOTH auto apply(int j) const {
    return F::apply(a.lane[j], b.lane[j]);
  }
};
template <int lanes, class A, class B, class C>
struct Inputs<lanes, A, B, C> {
  Loaded<A, lanes> a;
  Loaded<B, lanes> b;
  Loaded<C, lanes> c;
  template <class F>
  STAVE_BOTH void each(F f) {
    f(a, 0);
    f(b, 1);
    f(c, 2);
  }
  template <class F>
  STAVE_BOTH auto apply(int j) const {
    return F::apply(a.lane[j], b.lane[j], c.lane[j]);
  }
};

// The functions that read elements are inlined into every kernel. So the map and the other fields
// of the loop stay among the kernel's parameters, which are constants. A function that is not
// inlined would receive their address and read them from memory at each step.

template <int operands>
STAVE_BOTH Offsets<operands> locate(const IndexMap<operands>& map, std::uint64_t index) {
  return map(index);
}
/// Loads vectors that are not adjacent in memory.
template <int lanes, class... In>
STAVE_BOTH Inputs<lanes, In...> load_vectors(const ElementwiseLoop<sizeof...(In)>& loop, std::uint64_t vector) {
  Inputs<lanes, In...> in;
  const Offsets<sizeof...(In)> at = locate(loop.map, vector);
  in.each([&](auto& input, int k) {
    if (!loop.in[k]) input.number(loop.number[k]);
    else if (loop.repeated[k]) input.repeat(loop.in[k], at[k]);
    else input.vector(loop.in[k], at[k]);
  });
  return in;
}
/// Loads elements one by one. It sets elements past the end to 0.
template <int lanes, class... In>
STAVE_BOTH Inputs<lanes, In...> load_elements(const ElementwiseLoop<sizeof...(In)>& loop, std::uint64_t first,
                                              unsigned stride) {
  Inputs<lanes, In...> in{};
  in.each([&](auto& input, int k) {
    if (!loop.in[k]) input.number(loop.number[k]);
  });
  Offsets<sizeof...(In)> at;
  // A loop by vectors comes here only for its last, incomplete vector.
  if (loop.by_vectors) at = locate(loop.map, first / lanes);
  for (int j = 0; j < lanes; ++j) {
    const std::uint64_t i = first + j * std::uint64_t{stride};
    if (i >= loop.elements) break;
    if (!loop.by_vectors) at = locate(loop.map, i);
    in.each([&](auto& input, int k) {
      if (loop.in[k]) input.one(loop.in[k], at[k] + (loop.by_vectors && !loop.repeated[k] ? j : 0), j);
    });
  }
  return in;
}
template <class Out, int lanes>
STAVE_BOTH STAVE_OUTLINE void store_elements(Out* to, std::uint64_t elements, std::uint64_t first, unsigned stride,
                                             Pack<Out, lanes> out) {
  for (int j = 0; j < lanes; ++j)
    if (std::uint64_t i = first + j * std::uint64_t{stride}; i < elements) to[i] = out.lane[j];
}

/// Computes out = F::apply(in...). `Out` and `In` are the types of elements in memory.
template <int lanes, class F, class Out, class... In>
struct ElementwiseBody {
  static constexpr int inputs = sizeof...(In);

  static STAVE_BOTH void run(const ElementwiseLoop<inputs>& loop, Position p) {
    const std::uint64_t first = loop.first(p, lanes);
    if (first >= loop.elements) return;
    const bool whole = loop.by_vectors && first + lanes <= loop.elements;
    Inputs<lanes, In...> in;
    if (!whole) in = load_elements<lanes, In...>(loop, first, loop.stride(p));
    else if (!loop.flat) in = load_vectors<lanes, In...>(loop, first / lanes);
    else in.each([&](auto& input, int k) { input.vector(loop.in[k], static_cast<Index>(first)); });

    Pack<Out, lanes> out;
    for (int j = 0; j < lanes; ++j) out.lane[j] = in.template apply<F>(j);

    Out* to = static_cast<Out*>(loop.out);
    if (whole) *reinterpret_cast<Pack<Out, lanes>*>(to + first) = out;
    else store_elements(to, loop.elements, first, loop.stride(p), out);
  }
};

// ---- operations as structs --------------------------------------------------------------------

template <class S, class T>
using UnaryBody = ElementwiseBody<lanes_of(sizeof(T)), Apply<S, T>, OutOf<S, T>, Element<T>>;
template <class S, class T>
using BinaryBody = ElementwiseBody<lanes_of(sizeof(T)), Apply<S, T>, OutOf<S, T>, Element<T>, Element<T>>;

#ifdef __CUDACC__
// The number of blocks per multiprocessor that hides the latency of memory, if each thread loads 16
// bytes of each input. (Six blocks leave 40 registers per thread, which the longest unary kernel
// needs. With elements of two bytes a thread holds eight floats, which need a few more registers.)
template <class S, class T>
__global__ void __launch_bounds__(block_threads, sizeof(T) == 2 ? 5 : 6)
    unary_kernel(const __grid_constant__ ElementwiseLoop<1> loop) {
  UnaryBody<S, T>::run(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
template <class S, class T>
__global__ void __launch_bounds__(block_threads, 4) binary_kernel(const __grid_constant__ ElementwiseLoop<2> loop) {
  BinaryBody<S, T>::run(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}

/// Sets kernels[operation] for the operations that accept T.
template <class T>
void fill_unary(KernelRow& kernels) {
#define X(name, Struct)                                                  \
  if constexpr (stave_detail::admits<T>(stave_detail::Struct::operands)) \
    kernels[static_cast<int>(stave::OpId::name)] =                       \
        reinterpret_cast<const void*>(&unary_kernel<stave_detail::Struct, KernelType<stave_detail::Struct, T>>);
  STAVE_UNARY_OPS(X)
#undef X
}
template <class T>
void fill_binary(KernelRow& kernels) {
#define X(name, Struct)                                                  \
  if constexpr (stave_detail::admits<T>(stave_detail::Struct::operands)) \
    kernels[static_cast<int>(stave::OpId::name)] =                       \
        reinterpret_cast<const void*>(&binary_kernel<stave_detail::Struct, KernelType<stave_detail::Struct, T>>);
  STAVE_BINARY_OPS(X)
#undef X
}
#endif

}  // namespace stave_cuda
