// Resize, which has a file of its own.
#pragma once

#include <stave/handlers/onnx/node.h>

namespace stave_detail {

/// Performs Resize and Upsample.
Tensor onnx_resize(const NodeCall& n);

}  // namespace stave_detail
