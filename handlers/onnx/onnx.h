// ONNX models as functions of tensors.
//
//   const OnnxModel model = load_onnx("classifier.onnx");
//   const Tensor logits = model({{"image", image}}).at("logits");
//
// A model is a plain function: each of its nodes performs Stave's operations. So all transforms and
// handlers apply to it.
//
//   const auto loss_of = [&](const NamedTensors& weights) {
//     return loss(model(weights, {{"image", image}}).at("logits"));
//   };
//   const NamedTensors slope = grad(loss_of)(model.weights());  // as optimizers take it
//   compile(model)(inputs)                   // one recorded program
//   const auto p = trace(model)(inputs);     // a Program: save_program, write_stablehlo, ...
//   vmap(model)(batch)                       // a new axis 0 of each input, whatever the file says
//   debug(model)(inputs)                     // operations, in scopes with the names of nodes
//   harvest(model, {.tag = "onnx"})(inputs)  // all floating-point values of the graph by name
//   plant(model, {{"relu_1", x}}, {.tag = "onnx"})(inputs)  // with a value replaced
//
// - Opsets 13 to 28, and older ones where the definition of an operator has not changed.
//   docs/onnx_operators.md lists all operators, and which of ONNX's own tests they pass.
// - Symbolic dimensions are bound at each call. Shapes, axes and the like are computed on the host,
//   where handlers do not see them. They may depend on the shapes of inputs. A shape that depends
//   on the elements of an input is read from them, as by item().
// - Operands that ONNX declares not differentiable and that are read, such as the scales of Resize,
//   are constants for derivatives.
// - If, Loop and Scan run as C++ does: conditions are read, and under vmap the lanes part. A Loop
//   whose number of steps is known, and a Scan, become Stave's scan, which trace and compile record
//   as one operation.
// - Nodes that draw random numbers take keys from next_key (handlers/model/keys.h).
// - Sequences and optionals among inputs and outputs are flattened: a sequence `s` has the entries
//   "s/0", "s/1", ...; an optional without a value has no entry.
// - There are no strings, and no maps: export classifiers of ai.onnx.ml with integer labels and
//   without ZipMap. Weights of two, four and eight bits (INT4, FLOAT8E4M3FN ...) are read where
//   they go into DequantizeLinear; other uses of these types are refused.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <stave/core/ops/named_tensors.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {
struct OnnxGraphPlan;
struct OnnxModelMaker;
}  // namespace stave_detail

namespace stave {

/// An input or output of a model, as the file declares it.
struct OnnxArgument {
  std::string name;
  std::optional<Dtype> dtype;  ///< none if the file does not say, or if Stave lacks the type
  /// A length of the shape: a number, the name of a symbolic length ("batch"), or neither.
  struct Dimension {
    std::optional<Index> length{};
    std::string symbol{};
  };
  std::optional<std::vector<Dimension>> shape{};  ///< none if the file does not say
  bool is_sequence = false, is_optional = false;

  /// "image: float32[batch,3,224,224]"
  std::string str() const;
};

/// A model: a function of named tensors. Copies share weights and graph.
class OnnxModel {
 public:
  /// Runs the model with its own weights. Inputs that have a default value may be left out. Throws
  /// ShapeError or DtypeError, naming the input, if an input is missing or unknown, or does not fit
  /// its declaration: where two inputs have a symbolic length in common, for example. Errors of
  /// operations name the node, its operator and the opset.
  NamedTensors operator()(const NamedTensors& inputs) const { return (*this)(*weights_, inputs); }
  /// Runs the model with other weights: of the same names, shapes and dtypes as weights().
  NamedTensors operator()(const NamedTensors& weights, const NamedTensors& inputs) const;

  /// The weights: the floating-point initializers of the main graph, and the learned attributes of
  /// nodes of ai.onnx.ml, such as the values of trees' leaves, by the names OUTPUT.ATTRIBUTE.
  /// Those in files of external data are views of the mapped files, which are read at the first
  /// use.
  const NamedTensors& weights() const noexcept { return *weights_; }
  const std::vector<OnnxArgument>& inputs() const noexcept { return about_->inputs; }
  const std::vector<OnnxArgument>& outputs() const noexcept { return about_->outputs; }
  const std::map<std::string, std::string>& metadata() const noexcept { return about_->metadata; }
  /// The program that made the file: "pytorch".
  const std::string& producer() const noexcept { return about_->producer; }

 private:
  struct About {
    std::vector<OnnxArgument> inputs, outputs;
    std::map<std::string, std::string> metadata;
    std::string producer;
  };
  friend struct stave_detail::OnnxModelMaker;

  std::shared_ptr<const stave_detail::OnnxGraphPlan> graph_;
  std::shared_ptr<const NamedTensors> weights_;
  std::shared_ptr<const About> about_;
};

/// Reads a model from a file. Initializers in files of external data must lie below the model's
/// folder. Files are mapped, not read: they may be replaced but must not be changed in place while
/// one of the tensors lives (see load_safetensors in core/io/io.h). Throws FileError, which names
/// the file and the fault: for a malformed file; and for operators, versions and types that are not
/// supported, all of which it lists with their nodes.
OnnxModel load_onnx(const std::string& path);
/// Reads a model from memory, which is not needed afterwards. It must not have external data.
OnnxModel read_onnx(std::string_view bytes);

}  // namespace stave
