// Bodies of `where`, and of astype between all dtypes.
#pragma once

#include <stave/backends/cuda/kernels/elementwise.cuh>

namespace stave_cuda {

/// The body of `where`. It copies elements as bits; `Bits` is a type of the size of an element.
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
                                   Element<To>, Element<From>>;

// ReadAs and WrittenAs are the types whose kernel serves a conversion from From to To, so that
// conversions share kernels. Between integers the sign matters only if the integer becomes wider.
// An element that keeps its type is copied as bits.
template <class From, class To>
inline constexpr bool stays = std::is_same_v<From, To>;
template <class From, class To>
inline constexpr bool widens = !std::is_integral_v<To> || sizeof(To) > sizeof(From);
template <class From, class To>
using ReadAs = std::conditional_t<stays<From, To>, BitsOf<From>,
                                  std::conditional_t<widens<From, To>, Element<From>, Signless<From>>>;
template <class From, class To>
using WrittenAs =
    std::conditional_t<stays<From, To>, BitsOf<To>,
                       std::conditional_t<std::is_integral_v<From> && !std::is_same_v<To, bool>, Signless<To>, To>>;

}  // namespace stave_cuda
