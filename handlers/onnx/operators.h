// The table of operators: each operator of ONNX that Stave has, with the function that performs it.
// Each family of operators is a file operators_FAMILY.cpp, whose table lists them in a line each.
#pragma once

#include <span>
#include <string_view>

#include <stave/handlers/onnx/node.h>

namespace stave_detail {

/// The operator of a domain by its name; null if there is none.
const OnnxOperator* find_onnx_operator(std::string_view domain, std::string_view name);
/// The newest version of a domain that the table follows; 0 for an unknown domain.
Index newest_onnx_opset(std::string_view domain);
/// The domains of the table: "" is ONNX's own.
struct OnnxDomain {
  std::string_view name;
  Index newest;
  std::vector<std::span<const OnnxOperator>> families;
};
const std::vector<OnnxDomain>& onnx_domains();

// The families.
std::span<const OnnxOperator> onnx_elementwise();
std::span<const OnnxOperator> onnx_cast();
std::span<const OnnxOperator> onnx_reduce();
std::span<const OnnxOperator> onnx_layout();
std::span<const OnnxOperator> onnx_index();
std::span<const OnnxOperator> onnx_products();
std::span<const OnnxOperator> onnx_convolution();
std::span<const OnnxOperator> onnx_pooling();
std::span<const OnnxOperator> onnx_normalize();
std::span<const OnnxOperator> onnx_recurrent();
std::span<const OnnxOperator> onnx_attention();
std::span<const OnnxOperator> onnx_control_flow();
std::span<const OnnxOperator> onnx_sequences();
std::span<const OnnxOperator> onnx_quantize();
std::span<const OnnxOperator> onnx_microsoft();
std::span<const OnnxOperator> onnx_signal();
std::span<const OnnxOperator> onnx_images();
std::span<const OnnxOperator> onnx_losses();
std::span<const OnnxOperator> onnx_random();
std::span<const OnnxOperator> onnx_training();
std::span<const OnnxOperator> onnx_ml();
std::span<const OnnxOperator> onnx_trees();
std::span<const OnnxOperator> onnx_preview();

}  // namespace stave_detail
