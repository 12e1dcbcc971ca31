// Checks of the names of arrays, shared by the file formats.
#pragma once

#include <string>
#include <vector>

#include <stave/core/io/io.h>

namespace stave_detail {

/// Throws unless all names differ and all tensors are defined. `where` begins the error messages.
void check_names(const std::vector<NamedTensor>& arrays, const std::string& where);

}  // namespace stave_detail
