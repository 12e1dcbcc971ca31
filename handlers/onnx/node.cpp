// Runs graphs: one node after the other, each by the function of its operator.
#include <stave/handlers/onnx/node.h>

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include <stave/core/effects/effect.h>
#include <stave/core/effects/scope.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/dtypes.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/layout_rules.h>
#include <stave/core/tensor/label.h>
#include <stave/handlers/transforms/sow.h>

namespace stave_detail {

namespace {

int calls_around(const OnnxEnvironment& environment) {
  int calls = 0;
  for (const OnnxEnvironment* at = &environment; at && at->caller; at = at->caller->environment()) ++calls;
  return calls;
}

OnnxValue& value_at(OnnxEnvironment& environment, OnnxReference reference) {
  OnnxEnvironment* at = &environment;
  for (int depth = reference.depth; depth > 0; --depth) at = at->outer;
  return at->values[static_cast<std::size_t>(reference.place)];
}

OnnxValues call(const OnnxNodePlan& node, const NodeCall& n) {
  if (node.op && node.op->one) return {OnnxValue(node.op->one(n))};
  if (node.op) return node.op->several(n);
  return n.run_function();
}

OnnxValues perform_node(const OnnxNodePlan& node, OnnxValues inputs, OnnxEnvironment& environment) {
  using Known = OnnxOperator::Known;
  const Known rule = node.op ? node.op->known : Known::never;
  const auto is_known = [](const OnnxValue& x) { return x.known || !x.defined(); };
  const bool known = rule == Known::always || (rule == Known::from_inputs && node.parameters.empty() &&
                                               std::all_of(inputs.begin(), inputs.end(), is_known));
  const NodeCall n(node, std::move(inputs), environment);
  if (!known) return call(node, n);
  const UnderFrame below_all_handlers(nullptr);
  OnnxValues found = call(node, n);
  for (OnnxValue& x : found) x.known = true;
  return found;
}

// Gives a value of the main graph its name, by which it can be observed and replaced.
OnnxValue named_value(OnnxValue x, const NamePtr& name) {
  if (!x.tensor.defined() || x.known || !name) return x;
  if (current && is_inexact(x.tensor.dtype())) x.tensor = sow(name->text, x.tensor, "onnx");
  x.tensor = relabel(std::move(x.tensor), name);
  return x;
}

void run_node(const OnnxNodePlan& node, OnnxEnvironment& environment) {
  OnnxValues inputs;
  for (const OnnxReference reference : node.inputs)
    inputs.push_back(reference.place < 0 ? OnnxValue() : value_at(environment, reference));
  OnnxValues found;
  {
    const Scope scope(node.name);
    try {
      found = perform_node(node, std::move(inputs), environment);
    } catch (Error& error) {
      const std::string text = static_cast<const std::runtime_error&>(error).std::runtime_error::what();
      static_cast<std::runtime_error&>(error) = std::runtime_error(shown_node(node.message, node.opset) + ": " + text);
      throw;
    }
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const int place = node.outputs[i];
    if (place < 0) continue;
    if (i >= found.size())
      fail<FileError>("{}: it has the output '{}', but gives {} results", shown_node(node.message, node.opset),
                      node.message.outputs[i], found.size());
    OnnxValue x = std::move(found[i]);
    if (!environment.outer && !environment.caller)
      x = named_value(std::move(x), environment.plan.labels[static_cast<std::size_t>(place)]);
    environment.values[static_cast<std::size_t>(place)] = std::move(x);
  }
  for (const int place : node.last_uses) environment.values[static_cast<std::size_t>(place)] = OnnxValue();
}

}  // namespace

std::string name_of_node(const OnnxNode& node) {
  return !node.name.empty() ? node.name : node.outputs.empty() ? node.operation : node.outputs[0];
}

std::string shown_node(const OnnxNode& node, Index opset) {
  return fmt::format("node '{}' ({}{}{}, opset {})", name_of_node(node), node.domain, node.domain.empty() ? "" : ".",
                     node.operation, opset);
}

OnnxValues run_onnx_graph(OnnxEnvironment environment, OnnxValues inputs,
                          const std::map<std::string, Tensor>* weights) {
  const OnnxGraphPlan& plan = environment.plan;
  if (calls_around(environment) > most_onnx_calls)
    fail<FileError>("more than {} functions of the model call each other", most_onnx_calls);
  environment.values.resize(static_cast<std::size_t>(plan.places));
  const auto put = [&](int place, const OnnxValue& x) { environment.values[static_cast<std::size_t>(place)] = x; };
  for (const auto& [place, constant] : plan.constants) put(place, constant);
  if (weights)
    for (const auto& [place, name] : plan.weights)
      put(place, relabel(weights->at(name), plan.labels[static_cast<std::size_t>(place)]));
  for (std::size_t i = 0; i < plan.inputs.size() && i < inputs.size(); ++i)
    if (inputs[i].defined()) put(plan.inputs[i], inputs[i]);
  inputs.clear();
  for (const OnnxNodePlan& node : plan.nodes) run_node(node, environment);
  OnnxValues outputs;
  for (const OnnxReference reference : plan.outputs) outputs.push_back(value_at(environment, reference));
  return outputs;
}

// ---- the inputs and attributes of a call -------------------------------------------------------

const Tensor& NodeCall::operator()(std::size_t i) const {
  if (i >= inputs_.size() || !inputs_[i].defined()) fail<ShapeError>("input {} is missing", i);
  if (!inputs_[i].tensor.defined()) fail<ShapeError>("input {} is a sequence and not a tensor", i);
  return inputs_[i].tensor;
}

const OnnxValue& NodeCall::value(std::size_t i) const {
  if (i >= inputs_.size()) fail<ShapeError>("input {} is missing", i);
  return inputs_[i];
}

std::vector<Tensor> NodeCall::tensors() const {
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < size(); ++i) all.push_back((*this)(i));
  return all;
}

const std::vector<Tensor>& NodeCall::sequence(std::size_t i) const {
  if (i >= inputs_.size() || !inputs_[i].sequence) fail<ShapeError>("input {} is not a sequence", i);
  return *inputs_[i].sequence;
}

namespace {

constexpr int attribute_of_tensor = 4;  // AttributeProto.TENSOR

template <class T>
std::vector<T> elements_of(const OnnxValue& value, const Tensor& x, Dtype dtype) {
  if (!value.known) return astype(x, dtype).to_vector<T>();
  const UnderFrame below_all_handlers(nullptr);
  return astype(x, dtype).to_vector<T>();
}

double only(const std::vector<double>& all, std::size_t i) {
  if (all.size() != 1) fail<ShapeError>("input {} should be one number, and has {} elements", i, all.size());
  return all[0];
}

}  // namespace

std::vector<Index> NodeCall::integers(std::size_t i) const {
  const Tensor& x = (*this)(i);
  if (!is_integer(x.dtype()) && x.dtype() != bool_)
    fail<DtypeError>("input {} should be integers, not {}", i, x.dtype());
  return elements_of<Index>(value(i), x, int64);
}

Index NodeCall::integer(std::size_t i) const {
  const Tensor& x = (*this)(i);
  if (x.size() != 1) fail<ShapeError>("input {} should be one integer, and has {} elements", i, x.size());
  // Reading one element, unlike several, is possible under vmap.
  return value(i).known ? integers(i)[0] : x.item<Index>();
}

std::vector<double> NodeCall::numbers(std::size_t i) const {
  return elements_of<double>(value(i), (*this)(i), float64);
}

std::vector<double> NodeCall::fixed_numbers(std::size_t i) const {
  return elements_of<double>(value(i), stop_gradient((*this)(i)), float64);
}

double NodeCall::number(std::size_t i) const { return only(numbers(i), i); }
double NodeCall::fixed_number(std::size_t i) const { return only(fixed_numbers(i), i); }

const OnnxAttribute* NodeCall::attribute(std::string_view name) const {
  const auto find = [](const std::vector<OnnxAttribute>& all, std::string_view wanted) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const OnnxAttribute& a) { return a.name == wanted; });
    return found == all.end() ? nullptr : &*found;
  };
  const OnnxAttribute* const own = find(node_.message.attributes, name);
  if (!own || own->reference.empty()) return own;
  const NodeCall* const caller = environment_.caller;
  if (!caller) return nullptr;
  if (const OnnxAttribute* given = caller->attribute(own->reference)) return given;
  return find(caller->node_.function->defaults, own->reference);
}

const OnnxAttribute& NodeCall::required(std::string_view name) const {
  if (const OnnxAttribute* found = attribute(name)) return *found;
  fail<FileError>("the attribute '{}' is missing", name);
}

Index NodeCall::integer(std::string_view name, Index otherwise) const {
  const OnnxAttribute* const found = attribute(name);
  return found ? found->integer : otherwise;
}
Index NodeCall::integer(std::string_view name) const { return required(name).integer; }

double NodeCall::number(std::string_view name, double otherwise) const {
  const OnnxAttribute* const found = attribute(name);
  return found ? static_cast<double>(found->number) : otherwise;
}

std::string NodeCall::text(std::string_view name, std::string_view otherwise) const {
  const OnnxAttribute* const found = attribute(name);
  return found ? found->text : std::string(otherwise);
}

std::optional<std::vector<Index>> NodeCall::integers(std::string_view name) const {
  const OnnxAttribute* const found = attribute(name);
  if (!found) return std::nullopt;
  if (found->type == attribute_of_tensor) return elements_of<Index>(OnnxValue({}, true), tensor(name), int64);
  return std::vector<Index>(found->integers.begin(), found->integers.end());
}

std::vector<double> NodeCall::numbers(std::string_view name) const {
  const OnnxAttribute* const found = attribute(name);
  if (!found) return {};
  if (found->type == attribute_of_tensor) return elements_of<double>(OnnxValue({}, true), tensor(name), float64);
  return {found->numbers.begin(), found->numbers.end()};
}

std::vector<std::string> NodeCall::texts(std::string_view name) const {
  const OnnxAttribute* const found = attribute(name);
  return found ? found->texts : std::vector<std::string>();
}

Tensor NodeCall::tensor(std::string_view name) const {
  const OnnxAttribute* const own = attribute(name);
  if (!own) return {};
  const NodeCall* at = this;
  std::string wanted(name);
  // The attribute of a function lies in the node that calls it.
  for (; at; at = at->environment_.caller) {
    if (const auto found = at->node_.tensors.find(wanted); found != at->node_.tensors.end()) return found->second;
    for (const OnnxAttribute& a : at->node_.message.attributes)
      if (a.name == wanted && !a.reference.empty()) wanted = a.reference;
  }
  fail<FileError>("the attribute '{}' is not a tensor", name);
}

Tensor NodeCall::parameter(const std::string& name) const {
  for (const std::string& given : {name, name + "_as_tensor"}) {
    if (const auto weight = node_.parameters.find(given); weight != node_.parameters.end())
      return environment_.values[static_cast<std::size_t>(weight->second)].tensor;
    const OnnxAttribute* const found = attribute(given);
    if (found && !found->numbers.empty()) return from(found->numbers);
    if (found && found->type == attribute_of_tensor) return tensor(given);
  }
  return {};
}

std::span<const std::string_view> onnx_parameters() {
  static constexpr std::string_view names[] = {"base_values",     "class_weights", "coefficients", "intercepts",
                                               "leaf_weights",    "offset",        "rho",          "scale",
                                               "support_vectors", "target_weights"};
  return names;
}

Dtype NodeCall::dtype(std::string_view name, std::optional<Dtype> otherwise) const {
  const OnnxAttribute* const found = attribute(name);
  if (!found && otherwise) return *otherwise;
  const auto type = static_cast<OnnxType>(required(name).integer);
  if (const auto known = dtype_of_onnx(type)) return *known;
  fail<DtypeError>("the type {} is asked for, which Stave does not have", name_of_onnx(type));
}

const OnnxGraphPlan& NodeCall::graph(std::string_view name) const {
  const auto found = node_.graphs.find(name);
  if (found == node_.graphs.end()) fail<FileError>("the attribute '{}' should be a graph", name);
  return *found->second;
}

OnnxValues NodeCall::run(std::string_view name, OnnxValues inputs) const {
  const OnnxGraphPlan& plan = graph(name);
  if (inputs.size() > plan.inputs.size())
    fail<FileError>("the graph '{}' takes {} inputs, and gets {}", name, plan.inputs.size(), inputs.size());
  return run_onnx_graph({plan, &environment_, environment_.caller}, std::move(inputs));
}

OnnxValues NodeCall::run_function() const { return run_onnx_graph({*node_.function, nullptr, this}, inputs_); }

Tensor as_int64(const Tensor& x) { return astype(x, int64); }

Tensor saturated(const Tensor& x, Dtype dtype) {
  const auto limits = iinfo(dtype);
  return astype(clip(round(x), static_cast<double>(limits.min), static_cast<double>(limits.max)), dtype);
}

std::vector<Index> axes_between(Index begin, Index end) {
  std::vector<Index> axes;
  for (Index axis = begin; axis < end; ++axis) axes.push_back(axis);
  return axes;
}

Tensor as_matrix(const Tensor& x, Index given) {
  const int axis = given == x.rank() ? x.rank() : normalize_axis(given, x.rank(), "axis");
  Index rows = 1, columns = 1;
  for (int i = 0; i < x.rank(); ++i) (i < axis ? rows : columns) *= x.shape(i);
  return reshape(x, {rows, columns});
}

Tensor vector_along(const Tensor& x, Index axis, int rank) {
  Shape lengths = repeated(rank, 1);
  lengths[static_cast<std::size_t>(axis)] = x.size();
  return reshape(x, lengths);
}

void check_host_numbers(std::initializer_list<Index> lengths) {
  double count = 1;
  for (const Index length : lengths) count *= static_cast<double>(std::max<Index>(length, 0));
  if (count > 0x1p27)
    fail<ShapeError>("{} numbers would be computed one by one, more than 2^27", fmt::join(lengths, " x "));
}

std::vector<Tensor> parts_along(const Tensor& x, Index axis, const std::vector<Index>& lengths) {
  std::vector<Tensor> parts;
  std::vector<Tensor::Subscript> subscripts(static_cast<std::size_t>(x.rank()), slice());
  Index begin = 0;
  for (const Index part : lengths) {
    if (part < 0 || begin + part > x.shape(axis))
      fail<ShapeError>("parts of {} elements do not fit {}", fmt::join(lengths, ", "), x.shape());
    subscripts[static_cast<std::size_t>(axis)] = slice(begin, begin + part);
    parts.push_back(x(subscripts));
    begin += part;
  }
  return parts;
}

}  // namespace stave_detail
