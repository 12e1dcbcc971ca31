// Tensors by name: parameters, what is sown, the values of sites.
#pragma once

#include <map>
#include <string>

#include <stave/core/tensor/tensor.h>

namespace stave {

/// A tree.
using NamedTensors = std::map<std::string, Tensor>;

}  // namespace stave
