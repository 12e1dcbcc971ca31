// checkpoint: less memory for more time.
//
//   auto y = checkpoint(layer)(w, x);
//
// Under grad nothing of what `layer` computes is kept but its arguments; in the backward pass it runs again. It runs exactly
// twice, with bit-equal results, and user effects inside it get the same answers both times. Without a derivative it is
// layer(w, x). Works in any nest, at any order, and for captured values as for arguments.
#pragma once

#include <stave/handlers/carried_trees.h>

namespace stave_detail {

struct RunsAgain {
  static constexpr const char* name = "checkpoint";
  void add(FunctionAttributes& functions, const auto&, const auto&) const { functions.runs_again = true; }
};

}  // namespace stave_detail

namespace stave {

/// f, of which a derivative remembers the arguments alone. f is called again during the backward pass, so what it captures by
/// reference must live until then. Arguments and the result are trees; other arguments are copied.
template <class F>
auto checkpoint(F f) {
  return stave_detail::WithRule<F, stave_detail::RunsAgain>(std::move(f), {});
}

#define STAVE_NAMES(Name)                                                              \
  inline auto checkpoint(stave_detail::Name f) {                                       \
    return stave_detail::WithRule<stave_detail::Name, stave_detail::RunsAgain>(f, {}); \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
