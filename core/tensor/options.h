// Options of functions: structs that are given by the names of their members alone.
//
// A name that such a struct has not, as in vmap(f, {.in_axis = 0}), makes the call one without a
// matching function: the language lets no function be called with a list whose names its parameter
// lacks ([over.ics.list]/2), and so none can say which name it was. With the struct's name in
// front, vmap(f, VmapOptions{.in_axis = 0}), compilers say that VmapOptions has no member named
// in_axis.
#pragma once

#include <stave/core/effects/settings.h>

namespace stave {

/// The first member of a struct of options. Nothing that is written in its place converts to it, so f(x, {.axis = 1}) compiles
/// and f(x, {1}) does not.
struct ByName {
  constexpr explicit ByName() = default;
};

}  // namespace stave
