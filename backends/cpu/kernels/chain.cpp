// The kernel that interprets chains: sequences of fused elementwise operations (chain.h). A few
// vectors of elements go through all operations before the next vectors are loaded. They stay in
// registers between operations. Only results that something outside the chain reads are stored. The
// interpreter dispatches an operation once for several vectors, so that dispatching takes no longer
// than the computation.
#include <stave/backends/cpu/kernels/fill.h>
#include <stave/backends/cpu/kernels/vec_math.h>
#include <stave/core/ops/elementwise_ops.h>

namespace STAVE_KERNELS {

using stave_cpu::Dtype;
using stave_cpu::Index;
using stave_cpu::Link;
using stave_cpu::LinkCode;

// The number of vectors that are processed together. They use half of the registers.
constexpr int most_ways = STAVE_VECTOR_BYTES == 64 ? 16 : 8;
#define STAVE_EACH_WAY _Pragma("GCC unroll 16") for (int way = 0; way < ways; ++way)

/// Runs a chain on `ways` vectors, from element `at` on. If `ways` is 1, the vector may be partial
/// and has n elements.
template <class T, int ways>
STAVE_INLINE void run_links(const Link* links, Index count, char* const* arrays, Index at, Index n) {
  using V = Vec<T>;
  V x[ways];
  STAVE_EACH_WAY x[way] = V(0);
  for (const Link* link = links; link != links + count; ++link) {
    const auto array = [&](int number) __attribute__((always_inline)) {
      T* from = reinterpret_cast<T*>(arrays[number]) + at;
      // The statement hides the address from GCC. Otherwise GCC would keep one offset for each
      // vector in a register, and there are not enough registers.
      __asm__("" : "+r"(from));
      return from;
    };
    const auto loaded = [&](const T* from, int way) __attribute__((always_inline)) {
      if constexpr (ways == 1)
        if (n < V::lanes) return load_some<T>(from, n);
      return V::load(from + way * V::lanes);
    };
    const auto number = [&]() __attribute__((always_inline)) {
      T value;
      __builtin_memcpy(&value, arrays[link->operand], sizeof value);
      return V(value);
    };
    switch (link->code) {
#define STAVE_LINK(code, given, ...)       \
  case LinkCode::code: {                   \
    [[maybe_unused]] const auto y = given; \
    STAVE_EACH_WAY x[way] = __VA_ARGS__;   \
    break;                                 \
  }
      STAVE_LINK(load_array, array(link->operand), loaded(y, way))
      STAVE_LINK(load_number, number(), y)
#define X(name, S) STAVE_LINK(name, 0, stave_detail::S::value(x[way]))
      STAVE_CHAINED_UNARY_OPS(X)
#undef X
#define X(name, S)                                                                                 \
  STAVE_LINK(name##_x_array, array(link->operand), stave_detail::S::value(x[way], loaded(y, way))) \
  STAVE_LINK(name##_array_x, array(link->operand), stave_detail::S::value(loaded(y, way), x[way])) \
  STAVE_LINK(name##_x_number, number(), stave_detail::S::value(x[way], y))                         \
  STAVE_LINK(name##_number_x, number(), stave_detail::S::value(y, x[way]))                         \
  STAVE_LINK(name##_x_x, 0, stave_detail::S::value(x[way], x[way]))
      STAVE_CHAINED_BINARY_OPS(X)
#undef X
#undef STAVE_LINK
    }
    if (link->to < 0) continue;
    T* const to = array(link->to);
    if constexpr (ways == 1) {
      if (n < V::lanes) store_some(x[0], to, n);
      else x[0].store(to);
    } else {
      STAVE_EACH_WAY x[way].store(to + way * V::lanes);
    }
  }
}

template <class T>
void chain(const Link* links, Index count, char* const* arrays, Index n) {
  constexpr Index lanes = Vec<T>::lanes;
  Index i = 0;
  const auto run_while = [&]<int ways>(std::integral_constant<int, ways>) __attribute__((always_inline)) {
    for (; i + ways * lanes <= n; i += ways * lanes) run_links<T, ways>(links, count, arrays, i, lanes);
  };
  run_while(std::integral_constant<int, most_ways>());
  run_while(std::integral_constant<int, most_ways / 2>());
  if constexpr (most_ways > 8) run_while(std::integral_constant<int, most_ways / 4>());
  for (; i < n; i += lanes) run_links<T, 1>(links, count, arrays, i, n - i);
}

void fill_chain(stave_cpu::Kernels& table) {
  table.chain[static_cast<int>(Dtype::float32)] = chain<float>;
  table.chain[static_cast<int>(Dtype::float64)] = chain<double>;
}

}  // namespace STAVE_KERNELS
