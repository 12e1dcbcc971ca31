// Options of functions: structs that are given by the names of their members alone.
#pragma once

namespace stave {

/// The first member of a struct of options. Nothing that is written in its place converts to it, so f(x, {.axis = 1}) compiles
/// and f(x, {1}) does not.
struct ByName {
  constexpr explicit ByName() = default;
};

}  // namespace stave
