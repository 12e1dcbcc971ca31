// A text shared by all who remember it: the name of a scope, the label of a tensor.
#pragma once

#include <string>
#include <utility>

#include <stave/core/intrusive.h>

namespace stave {

struct Name : RefCounted {
  const std::string text;
  explicit Name(std::string name) : text(std::move(name)) {}
};
using NamePtr = IntrusivePtr<const Name>;

}  // namespace stave
