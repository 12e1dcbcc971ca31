// Structs of options for functions, whose members are given only by name.
//
// A wrong name, as in vmap(f, {.in_axis = 0}), gives the error that no function matches.
// In C++ a braced list with an unknown name converts to no parameter ([over.ics.list]/2),
// so the compiler cannot say which name was wrong. With the struct's name in front,
// vmap(f, VmapOptions{.in_axis = 0}), compilers say that VmapOptions has no member named in_axis.
#pragma once

#include <stave/core/effects/settings.h>

namespace stave {

/// The first member of a struct of options. No argument converts to it, so f(x, {.axis = 1})
/// compiles and f(x, {1}) does not.
struct ByName {
  constexpr explicit ByName() = default;
};

}  // namespace stave
