// NamedTensors: tensors by name, such as parameters, sown values and the values of sites.
#pragma once

#include <map>
#include <string>

#include <stave/core/tensor/tensor.h>

namespace stave {

/// A map from names to tensors, which is a tree.
using NamedTensors = std::map<std::string, Tensor>;

}  // namespace stave
