// Functions that the operators of ai.onnx.ml share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <stave/handlers/onnx/node.h>

namespace stave_detail {

/// Applies a post_transform, by its name, to scores [..., classes].
Tensor onnx_post_transform(const NodeCall& n, const Tensor& scores, const std::string& how);
/// The labels of classes by their numbers. Throws FileError if the labels are strings.
Tensor onnx_labels(const NodeCall& n, const char* attribute, const Tensor& classes);
/// The scores of two classes [batch, 2] by that of the second one [batch].
Tensor onnx_two_scores(const Tensor& score, const std::string& how, bool is_share);

}  // namespace stave_detail
