// A text that all its owners share: the name of a scope, the label of a value.
#pragma once

#include <string>
#include <utility>

#include <stave/core/effects/intrusive.h>

namespace stave {

struct SharedName : RefCounted {
  const std::string text;
  const bool backward;  // true for the scope of a backward pass
  explicit SharedName(std::string name, bool of_backward = false) : text(std::move(name)), backward(of_backward) {}
};
using NamePtr = IntrusivePtr<const SharedName>;

}  // namespace stave
