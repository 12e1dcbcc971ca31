// What an operator of ONNX gets and gives: its row in the table of operators, and a call of it.
//
// An operator is a function of a NodeCall, which has the inputs and the attributes. It is written
// with public operations, so that handlers see what a model computes:
//
//   {"Elu", 6, [](const NodeCall& n) { return elu(n(0), n.number("alpha", 1)); }},
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stave/core/effects/name.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/tensor.h>
#include <stave/handlers/onnx/messages.h>

namespace stave_detail {

/// A value in a graph: a tensor, a sequence of tensors, or nothing. An optional is its content.
struct OnnxValue {
  Tensor tensor;
  std::shared_ptr<const std::vector<Tensor>> sequence;  // null: not a sequence
  // The elements are known before the model runs: they depend on no input but by its shape. Shapes
  // and axes are computed from such values. These computations are performed below all handlers,
  // which thus see only what is computed from elements of inputs and weights.
  bool known = false;

  OnnxValue() = default;
  OnnxValue(Tensor x, bool known_ = false) : tensor(std::move(x)), known(known_) {}
  OnnxValue(std::vector<Tensor> xs) : sequence(std::make_shared<const std::vector<Tensor>>(std::move(xs))) {}
  bool defined() const noexcept { return tensor.defined() || sequence; }
};
using OnnxValues = std::vector<OnnxValue>;

class NodeCall;

/// An operator: a row of the table of operators.
struct OnnxOperator {
  /// Which results of an operator are known.
  enum class Known : std::uint8_t {
    from_inputs,  // all, if all inputs are known
    always,       // all, because they depend only on the shapes of inputs
    never         // none, because the operator performs an effect, or decides itself
  };
  const char* name;
  /// The first version of the domain whose definition the function implements.
  Index since;
  Tensor (*one)(const NodeCall&) = nullptr;          // an operator with one result
  OnnxValues (*several)(const NodeCall&) = nullptr;  // any other operator
  Known known = Known::from_inputs;

  constexpr OnnxOperator(const char* name_, Index since_, Tensor (*function)(const NodeCall&),
                         Known known_ = Known::from_inputs)
      : name(name_), since(since_), one(function), known(known_) {}
  constexpr OnnxOperator(const char* name_, Index since_, OnnxValues (*function)(const NodeCall&),
                         Known known_ = Known::from_inputs)
      : name(name_), since(since_), several(function), known(known_) {}
};

struct OnnxGraphPlan;

/// A value as a node reads it: its place in the environment `depth` graphs further out.
struct OnnxReference {
  int depth = 0;
  int place = -1;  // -1: an input that is left out
};
/// A node, ready to run.
struct OnnxNodePlan {
  OnnxNode message;                                    // without tensors and graphs
  std::map<std::string, Tensor, std::less<>> tensors;  // the tensors among the attributes
  std::map<std::string, std::shared_ptr<const OnnxGraphPlan>, std::less<>> graphs;
  std::map<std::string, int, std::less<>> parameters;  // attributes that are weights: their places
  const OnnxOperator* op = nullptr;                    // null: a call of `function`
  std::shared_ptr<const OnnxGraphPlan> function;
  Index opset = 0;
  NamePtr name;  // names the operations that the node performs
  std::vector<OnnxReference> inputs;
  std::vector<int> outputs;    // their places; -1: an output that is left out
  std::vector<int> last_uses;  // the places of values that no later node reads
};
/// A graph or function, ready to run.
struct OnnxGraphPlan {
  int places = 0;  // the number of values
  std::vector<int> inputs;
  std::vector<std::string> input_names, output_names;
  std::vector<OnnxReference> outputs;
  std::vector<std::pair<int, OnnxValue>> constants;
  std::vector<std::pair<int, std::string>> weights;  // of the main graph
  std::vector<OnnxNodePlan> nodes;
  std::vector<OnnxAttribute> defaults;  // of a function's attributes
  std::vector<NamePtr> labels;          // the names of values, by their places
  // The number of nodes, those of the functions that they call included.
  double size = 0;

  /// Returns true if the input at this place has a default value.
  bool has_default(int place) const {
    for (const auto& [constant, value] : constants)
      if (constant == place) return true;
    return false;
  }
};

/// The values of a graph that is running.
struct OnnxEnvironment {
  const OnnxGraphPlan& plan;
  OnnxEnvironment* outer = nullptr;  // of the graph around
  const NodeCall* caller = nullptr;  // the call of the function that the graph belongs to
  std::vector<OnnxValue> values = {};
};

/// One execution of a node.
class NodeCall {
 public:
  NodeCall(const OnnxNodePlan& node, OnnxValues inputs, OnnxEnvironment& environment)
      : node_(node), inputs_(std::move(inputs)), environment_(environment) {}

  // ---- inputs -----------------------------------------------------------------------------------

  std::size_t size() const noexcept { return inputs_.size(); }
  bool has(std::size_t i) const noexcept { return i < inputs_.size() && inputs_[i].defined(); }
  /// Input i, which must be a tensor. Throws ShapeError if it is missing.
  const Tensor& operator()(std::size_t i) const;
  /// Input i, which may be left out but for its place. Throws ShapeError if there is no such place.
  const OnnxValue& value(std::size_t i) const;
  const OnnxValues& values() const noexcept { return inputs_; }
  /// All inputs, which must be tensors.
  std::vector<Tensor> tensors() const;
  const std::vector<Tensor>& sequence(std::size_t i) const;

  // The elements of an input that has the place of an attribute, such as a shape. These are read.
  std::vector<Index> integers(std::size_t i) const;
  Index integer(std::size_t i) const;
  std::vector<double> numbers(std::size_t i) const;
  double number(std::size_t i) const;
  /// The same for an input that ONNX declares not differentiable: a constant for derivatives.
  std::vector<double> fixed_numbers(std::size_t i) const;
  double fixed_number(std::size_t i) const;

  // ---- attributes -------------------------------------------------------------------------------

  bool has(std::string_view name) const { return attribute(name) != nullptr; }
  Index integer(std::string_view name, Index otherwise) const;
  Index integer(std::string_view name) const;
  double number(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  /// The integers of an attribute, a list or a tensor; none if it is missing.
  std::optional<std::vector<Index>> integers(std::string_view name) const;
  /// The integers of input i from opset `since` on, and of an attribute before; none if they are
  /// missing.
  std::optional<std::vector<Index>> integers(std::string_view name, std::size_t i, Index since) const {
    if (opset() < since) return integers(name);
    return has(i) ? std::optional(integers(i)) : std::nullopt;
  }
  /// The numbers of an attribute, a list or a tensor; no numbers if it is missing.
  std::vector<double> numbers(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  Tensor tensor(std::string_view name) const;  // an empty Tensor if it is missing
  /// The numbers of an attribute NAME, as float32, or of a tensor NAME_as_tensor; empty if both are
  /// missing. In the main graph they are weights of the model (onnx_parameters).
  Tensor parameter(const std::string& name) const;
  /// The dtype that an attribute names by its number.
  Dtype dtype(std::string_view name, std::optional<Dtype> otherwise = {}) const;
  /// Runs the graph of an attribute with these inputs.
  OnnxValues run(std::string_view name, OnnxValues inputs) const;
  const OnnxGraphPlan& graph(std::string_view name) const;
  /// Runs the function that the node calls.
  OnnxValues run_function() const;

  // ---- the node ---------------------------------------------------------------------------------

  Index opset() const noexcept { return node_.opset; }
  const OnnxEnvironment* environment() const noexcept { return &environment_; }
  std::size_t outputs() const noexcept { return node_.message.outputs.size(); }
  bool wants(std::size_t output) const { return output < outputs() && !node_.message.outputs[output].empty(); }
  /// Throws FileError: the node asks for something that is not supported, or that is wrong. The
  /// text gets the name of the node from run_onnx_graph.
  template <class... A>
  [[noreturn]] void refuse(fmt::format_string<A...> text, A&&... args) const {
    fail<FileError>(text, std::forward<A>(args)...);
  }

 private:
  const OnnxAttribute* attribute(std::string_view name) const;
  const OnnxAttribute& required(std::string_view name) const;

  const OnnxNodePlan& node_;
  OnnxValues inputs_;
  OnnxEnvironment& environment_;
};

/// The attributes of operators of ai.onnx.ml whose numbers are learned, as weights are.
std::span<const std::string_view> onnx_parameters();

/// The name of a node, or of its first output if it has none.
std::string name_of_node(const OnnxNode& node);
/// "node 'conv1' (Conv, opset 17)", for error messages.
std::string shown_node(const OnnxNode& node, Index opset);

/// The most functions of a model that call each other. Each takes some of the thread's stack.
inline constexpr int most_onnx_calls = 100;
/// The most nodes of a model, those of functions counted for each call.
inline constexpr double most_onnx_nodes = 1e8;

/// Runs a graph with these inputs, of which the last ones may be missing. `weights` are those of
/// the main graph.
OnnxValues run_onnx_graph(OnnxEnvironment environment, OnnxValues inputs,
                          const std::map<std::string, Tensor>* weights = nullptr);

/// Results of an operator, of which the last ones may be missing.
inline OnnxValues results(std::initializer_list<Tensor> tensors) { return {tensors.begin(), tensors.end()}; }

/// x as int64, the type of positions in ONNX.
Tensor as_int64(const Tensor& x);
/// The nearest numbers of an integer dtype.
Tensor saturated(const Tensor& x, Dtype dtype);
/// The numbers from `begin` to end - 1: axes, where a node does not name any.
std::vector<Index> axes_between(Index begin, Index end);
/// x as a matrix, whose rows run over the axes before `axis`: -1 is the last axis.
Tensor as_matrix(const Tensor& x, Index axis);
/// The elements of x along one of `rank` axes, of which the others have length 1.
Tensor vector_along(const Tensor& x, Index axis, int rank);
/// Throws ShapeError if the product of these lengths is more than 2^27: an operator that computes
/// so many numbers one by one, such as positions or weights, would not come to an end.
void check_host_numbers(std::initializer_list<Index> lengths);
/// The parts of x along an axis, of these lengths. Throws ShapeError if one does not fit.
std::vector<Tensor> parts_along(const Tensor& x, Index axis, const std::vector<Index>& lengths);

}  // namespace stave_detail
