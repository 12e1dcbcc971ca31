// where, and astype between all dtypes.
#pragma once

#include <stave/backends/cuda/kernels/elementwise.cuh>

namespace stave_cuda {

struct Choose {
  template <class T>
  static STAVE_BOTH T apply(std::uint8_t condition, T x, T y) {
    return condition ? x : y;
  }
};
/// Moves bits of that many bytes.
template <class Bits>
using WhereBody = ElementwiseBody<lanes_of(sizeof(Bits)), Choose, Bits, std::uint8_t, Bits, Bits>;

template <class To>
struct Convert {
  template <class From>
  static STAVE_BOTH auto apply(From x) {
    return converted<To>(x);
  }
};
template <class From, class To>
using AstypeBody = ElementwiseBody<lanes_of(sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To)), Convert<To>,
                                   typename Lane<To>::Value, typename Lane<From>::Value>;

}  // namespace stave_cuda
