// Attributes as the drivers of an operation know them.
#pragma once

#include <stave/core/op/attributes.h>

namespace stave_detail {

/// Those of an operation whose attributes are of type A.
template <class A>
const A& as(const stave::Attributes* attributes) {
  return *static_cast<const A*>(attributes);
}

}  // namespace stave_detail
