// repeat(n, body): the former name of loop(n, body).
#pragma once

#include <stave/handlers/transforms/loop.h>

namespace stave {

using RepeatOptions [[deprecated("is now LoopOptions")]] = LoopOptions;

/// The former name of loop(n, body).
template <std::integral N, class Body>
[[deprecated("repeat(n, body) is now loop(n, body)")]] auto repeat(N n, Body body, LoopOptions options = {}) {
  return loop(n, std::move(body), options);
}

#define STAVE_NAMES(Name)                                                                          \
  template <std::integral N>                                                                       \
  [[deprecated("repeat(n, body) is now loop(n, body)")]] auto repeat(N n, stave_detail::Name body, \
                                                                     LoopOptions options = {}) {   \
    return loop<N, stave_detail::Name>(n, std::move(body), options);                               \
  }
STAVE_NAMES(Unary)
STAVE_NAMES(UnaryRef)
#undef STAVE_NAMES

}  // namespace stave
