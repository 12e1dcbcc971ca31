// The arrays of a file on their way between it and a tree.
#pragma once

#include <string>
#include <vector>

#include <stave/core/io/io.h>

namespace stave_detail {

/// Throws unless the names differ and all tensors have values. `where` begins the errors.
void check_names(const std::vector<NamedTensor>& arrays, const std::string& where);

}  // namespace stave_detail
