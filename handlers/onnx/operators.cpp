#include <stave/handlers/onnx/operators.h>

#include <map>
#include <utility>

namespace stave_detail {

const std::vector<OnnxDomain>& onnx_domains() {
  static const std::vector<OnnxDomain> domains{
      {"",
       28,
       {onnx_elementwise(), onnx_cast(), onnx_reduce(), onnx_layout(), onnx_index(), onnx_products(),
        onnx_convolution(), onnx_pooling(), onnx_normalize(), onnx_recurrent(), onnx_attention(), onnx_control_flow(),
        onnx_sequences(), onnx_quantize(), onnx_signal(), onnx_images(), onnx_losses(), onnx_random()}},
      {"ai.onnx.ml", 5, {onnx_ml(), onnx_trees()}},
      {"ai.onnx.preview", 1, {onnx_preview()}},
      {"ai.onnx.preview.training", 1, {onnx_training()}},
      {"com.microsoft", 1, {onnx_microsoft()}}};
  return domains;
}

Index newest_onnx_opset(std::string_view domain) {
  for (const OnnxDomain& known : onnx_domains())
    if (known.name == domain) return known.newest;
  return 0;
}

const OnnxOperator* find_onnx_operator(std::string_view domain, std::string_view name) {
  static const auto table = [] {
    std::map<std::pair<std::string_view, std::string_view>, const OnnxOperator*> all;
    for (const OnnxDomain& known : onnx_domains())
      for (const auto family : known.families)
        for (const OnnxOperator& op : family) all.emplace(std::pair(known.name, std::string_view(op.name)), &op);
    return all;
  }();
  const auto found = table.find({domain, name});
  return found == table.end() ? nullptr : found->second;
}

}  // namespace stave_detail
