// Checks graphs, and replaces the names of their values by places.
#include <stave/handlers/onnx/plan.h>

#include <algorithm>
#include <set>

#include <stave/core/ops/create.h>
#include <stave/handlers/onnx/operators.h>

namespace stave_detail {

namespace {

class Planner {
 public:
  Planner(OnnxFile& file, OnnxFiles& files) : file_(file), files_(files) {
    for (OnnxFunction& function : file.functions)
      functions_.try_emplace({function.domain, function.name, function.overload}, FunctionState{&function});
  }

  OnnxPlan plan() {
    OnnxPlan plan;
    plan.graph = plan_graph(file_.graph, nullptr, file_.opsets, &plan.weights);
    if (!refused_.empty()) {
      const std::vector<std::string> all(refused_.begin(), refused_.end());
      fail<FileError>("{}: the model needs what Stave does not support: {}", where(), fmt::join(all, "; "));
    }
    return plan;
  }

 private:
  using Key = std::array<std::string, 3>;
  struct FunctionState {
    OnnxFunction* function;
    std::shared_ptr<const OnnxGraphPlan> plan = nullptr;
    bool in_progress = false;
  };
  // The values of the graph that is being planned, and of those around it.
  struct Values {
    OnnxGraphPlan& plan;
    Values* outer;
    std::map<std::string, int> places = {};
    std::vector<int> last_uses = {};      // for each place, the number of a node; -1: none
    int node = -1;                        // the number of the current node
    std::map<int, OnnxType> narrow = {};  // the places of constants of narrow types

    // The weights of the main graph; null in another graph.
    std::map<std::string, Tensor>* weights = nullptr;

    int define(const std::string& name, const std::string& where) {
      if (!places.emplace(name, plan.places).second)
        fail<FileError>("{}: the value {} is defined twice", where, shown_name(name));
      plan.labels.push_back(make_intrusive<const SharedName>(name));
      last_uses.push_back(-1);
      return plan.places++;
    }
  };

  const std::string& where() const { return files_.where(); }

  // Finds a value by its name, and notes that the current node uses it. Only DequantizeLinear knows
  // what constants of narrow types mean.
  OnnxReference resolve(const std::string& name, Values& values, const std::string& reader, bool takes_narrow = false) {
    OnnxReference reference;
    for (Values* at = &values; at; at = at->outer, ++reference.depth)
      if (const auto found = at->places.find(name); found != at->places.end()) {
        reference.place = found->second;
        at->last_uses[static_cast<std::size_t>(reference.place)] = at->node;
        if (const auto narrow = at->narrow.find(reference.place); narrow != at->narrow.end() && !takes_narrow)
          refused_.insert(fmt::format("{} reads {} of type {}, which only DequantizeLinear takes", reader,
                                      shown_name(name), name_of_onnx(narrow->second)));
        return reference;
      }
    fail<FileError>(
        "{}: {} reads the value {}, which no input, initializer or earlier node defines: nodes must be in the order of "
        "their execution",
        where(), reader, shown_name(name));
  }

  std::shared_ptr<OnnxGraphPlan> plan_graph(OnnxGraph& graph, Values* outer, const OnnxOpsets& opsets,
                                            std::map<std::string, Tensor>* weights) {
    auto plan = std::make_shared<OnnxGraphPlan>();
    Values values{*plan, outer};
    values.weights = weights;
    for (const OnnxValueInfo& input : graph.inputs) {
      plan->inputs.push_back(values.define(input.name, where()));
      plan->input_names.push_back(input.name);
    }
    const auto add_initializer = [&](const std::string& name, const Tensor& x, OnnxType type) {
      // An initializer of the name of an input is the input's default value.
      const auto input = values.places.find(name);
      const bool is_default = input != values.places.end() && input->second < static_cast<int>(plan->inputs.size());
      const int place = is_default ? input->second : values.define(name, where());
      if (is_narrow(type)) values.narrow.emplace(place, type);
      if (weights && is_inexact(x.dtype()) && !is_narrow(type)) {
        if (!weights->emplace(name, x).second)
          fail<FileError>("{}: there are two initializers {}", where(), shown_name(name));
        plan->weights.emplace_back(place, name);
      } else {
        plan->constants.emplace_back(place, OnnxValue(x, !is_default));
      }
    };
    for (const OnnxTensor& tensor : graph.initializers) add_initializer(tensor.name, files_.read(tensor), tensor.type);
    for (const OnnxSparseTensor& tensor : graph.sparse_initializers)
      add_initializer(tensor.values.name, files_.read(tensor), OnnxType::undefined);
    plan_nodes(graph.nodes, values, opsets);
    std::vector<std::string> outputs;
    for (const OnnxValueInfo& output : graph.outputs) outputs.push_back(output.name);
    finish(values, outputs);
    return plan;
  }

  void plan_nodes(std::vector<OnnxNode>& nodes, Values& values, const OnnxOpsets& opsets) {
    for (OnnxNode& node : nodes) {
      ++values.node;
      const OnnxNodePlan& plan = values.plan.nodes.emplace_back(plan_node(node, values, opsets));
      values.plan.size += plan.function ? 1 + plan.function->size : 1;
      for (const auto& [name, graph] : plan.graphs) values.plan.size += graph->size;
    }
    if (values.plan.size > most_onnx_nodes)
      fail<FileError>("{}: the functions of the model come to more than {} nodes", where(), most_onnx_nodes);
  }

  // Resolves the outputs, and notes where values are used for the last time.
  void finish(Values& values, const std::vector<std::string>& outputs) {
    OnnxGraphPlan& plan = values.plan;
    values.node = -1;  // no node is the last one to use an output
    for (const std::string& output : outputs) {
      plan.outputs.push_back(resolve(output, values, "the graph's list of outputs"));
      plan.output_names.push_back(output);
    }
    for (std::size_t place = 0; place < values.last_uses.size(); ++place)
      if (const int node = values.last_uses[place]; node >= 0)
        plan.nodes[static_cast<std::size_t>(node)].last_uses.push_back(static_cast<int>(place));
  }

  OnnxNodePlan plan_node(OnnxNode& node, Values& values, const OnnxOpsets& opsets) {
    OnnxNodePlan plan;
    const auto version = opsets.find(node.domain);
    plan.opset = version == opsets.end() ? 0 : version->second;
    plan.name = make_intrusive<const SharedName>(name_of_node(node));
    find_operator(node, plan);
    const bool takes_narrow = plan.op && node.domain.empty() && node.operation == "DequantizeLinear";
    for (const std::string& input : node.inputs)
      plan.inputs.push_back(input.empty() ? OnnxReference()
                                          : resolve(input, values, shown_node(node, plan.opset), takes_narrow));
    const bool is_constant = plan.op && node.domain.empty() && node.operation == "Constant";
    OnnxType narrow = OnnxType::undefined;
    for (OnnxAttribute& attribute : node.attributes) {
      for (const OnnxTensor& tensor : attribute.tensors)
        if (is_narrow(tensor.type)) narrow = tensor.type;
      plan_attribute(attribute, node, plan, values, opsets);
    }
    for (const std::string& output : node.outputs) {
      plan.outputs.push_back(output.empty() ? -1 : values.define(output, where()));
      if (narrow == OnnxType::undefined) continue;
      if (is_constant) values.narrow.emplace(plan.outputs.back(), narrow);
      else
        refused_.insert(
            fmt::format("{} has an attribute of type {}", shown_node(node, plan.opset), name_of_onnx(narrow)));
    }
    if (values.weights && node.domain == "ai.onnx.ml" && !node.outputs.empty()) plan_parameters(node, plan, values);
    plan.message = std::move(node);
    return plan;
  }

  // Makes weights of attributes: OUTPUT.ATTRIBUTE, where OUTPUT is the node's first one.
  void plan_parameters(const OnnxNode& node, OnnxNodePlan& plan, Values& values) {
    for (const OnnxAttribute& attribute : node.attributes) {
      const std::string_view name = attribute.name;
      const auto names = onnx_parameters();
      const auto matches = [&](std::string_view known) {
        return name == known || name == std::string(known) + "_as_tensor";
      };
      if (std::none_of(names.begin(), names.end(), matches)) continue;
      const auto given = plan.tensors.find(name);
      if (given == plan.tensors.end() && attribute.numbers.empty()) continue;
      const Tensor x = given != plan.tensors.end() ? given->second : from(attribute.numbers);
      if (!is_inexact(x.dtype())) continue;
      const std::string weight = node.outputs[0] + "." + attribute.name;
      plan.parameters[attribute.name] = values.define(weight, where());
      values.plan.weights.emplace_back(plan.parameters[attribute.name], weight);
      values.weights->emplace(weight, x);
    }
  }

  void plan_attribute(OnnxAttribute& attribute, const OnnxNode& node, OnnxNodePlan& plan, Values& values,
                      const OnnxOpsets& opsets) {
    try {
      if (!attribute.tensors.empty()) plan.tensors[attribute.name] = files_.read(attribute.tensors[0]);
      if (!attribute.sparse_tensors.empty()) plan.tensors[attribute.name] = files_.read(attribute.sparse_tensors[0]);
    } catch (const DtypeError& error) {
      refused_.insert(fmt::format("{}: {}", shown_node(node, plan.opset), error.what()));
    }
    if (!attribute.graphs.empty())
      plan.graphs[attribute.name] = plan_graph(attribute.graphs[0], &values, opsets, nullptr);
    attribute.tensors.clear();
    attribute.sparse_tensors.clear();
    attribute.graphs.clear();
  }

  void find_operator(const OnnxNode& node, OnnxNodePlan& plan) {
    const auto function = functions_.find({node.domain, node.operation, node.overload});
    if (function != functions_.end()) {
      plan.function = plan_function(function->second);
      return;
    }
    plan.op = find_onnx_operator(node.domain, node.operation);
    const std::string shown = shown_node(node, plan.opset);
    if (!plan.op) refused_.insert(fmt::format("{}: there is no such operator", shown));
    else if (plan.opset == 0)
      refused_.insert(fmt::format("{}: the file does not say which version of the domain it needs", shown));
    else if (plan.opset < plan.op->since)
      refused_.insert(fmt::format("{}: it is supported from opset {} on", shown, plan.op->since));
    else if (plan.opset > newest_onnx_opset(node.domain))
      refused_.insert(fmt::format("{}: opsets are supported up to {}", shown, newest_onnx_opset(node.domain)));
  }

  std::shared_ptr<const OnnxGraphPlan> plan_function(FunctionState& state) {
    if (state.plan) return state.plan;
    OnnxFunction& function = *state.function;
    if (functions_in_progress_ == most_onnx_calls)
      fail<FileError>("{}: more than {} functions call each other", where(), most_onnx_calls);
    if (state.in_progress) fail<FileError>("{}: the function {} calls itself", where(), shown_name(function.name));
    state.in_progress = true;
    ++functions_in_progress_;
    auto plan = std::make_shared<OnnxGraphPlan>();
    Values values{*plan, nullptr};
    for (const std::string& input : function.inputs) plan->inputs.push_back(values.define(input, where()));
    OnnxOpsets opsets = function.opsets;
    opsets.insert(file_.opsets.begin(), file_.opsets.end());
    plan_nodes(function.nodes, values, opsets);
    finish(values, function.outputs);
    plan->defaults = function.defaults;
    state.in_progress = false;
    --functions_in_progress_;
    return state.plan = plan;
  }

  OnnxFile& file_;
  OnnxFiles& files_;
  std::map<Key, FunctionState> functions_;
  std::set<std::string> refused_;
  int functions_in_progress_ = 0;
};

}  // namespace

OnnxPlan plan_onnx(OnnxFile file, OnnxFiles& files) { return Planner(file, files).plan(); }

}  // namespace stave_detail
