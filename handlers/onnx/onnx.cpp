// The public functions: reading models, and running them on named tensors.
#include <stave/handlers/onnx/onnx.h>

#include <filesystem>
#include <utility>

#include <stave/core/io/file.h>
#include <stave/core/io/mapping.h>
#include <stave/handlers/onnx/plan.h>

namespace stave_detail {

// Makes a model of a file's contents.
struct OnnxModelMaker {
  static OnnxModel make(OnnxFile file, OnnxFiles& files) {
    OnnxModel model;
    OnnxModel::About about{arguments_of(file.graph.inputs, files), arguments_of(file.graph.outputs, files),
                           std::move(file.metadata), std::move(file.producer)};
    OnnxPlan plan = plan_onnx(std::move(file), files);
    model.graph_ = std::move(plan.graph);
    model.weights_ = std::make_shared<const NamedTensors>(std::move(plan.weights));
    std::erase_if(about.inputs, [&](const OnnxArgument& input) { return model.weights_->contains(input.name); });
    model.about_ = std::make_shared<const OnnxModel::About>(std::move(about));
    return model;
  }

  static std::vector<OnnxArgument> arguments_of(const std::vector<OnnxValueInfo>& infos, const OnnxFiles& files) {
    std::vector<OnnxArgument> all;
    for (const OnnxValueInfo& info : infos) {
      if (!info.refused.empty())
        fail<FileError>("{}: {} is a {}, which Stave does not have{}", files.where(), shown_name(info.name),
                        info.refused,
                        info.refused == "map" ? ": export the model without ZipMap (zipmap=False in skl2onnx)" : "");
      OnnxArgument argument{info.name, dtype_of_onnx(info.type), {}, info.is_sequence, info.is_optional};
      if (info.type != OnnxType::undefined && !argument.dtype)
        fail<FileError>("{}: {} has elements of type {}, which Stave does not have", files.where(),
                        shown_name(info.name), name_of_onnx(info.type));
      if (info.shape) {
        argument.shape.emplace();
        // Some exporters write -1 or "?" for a length that is not known.
        for (const OnnxValueInfo::Dimension& d : *info.shape)
          argument.shape->push_back(
              {d.length && *d.length < 0 ? std::nullopt : d.length, d.symbol == "?" ? "" : d.symbol});
      }
      all.push_back(std::move(argument));
    }
    return all;
  }
};

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

namespace {

// The lengths that symbolic dimensions have in one call.
using Bound = std::map<std::string, std::pair<Index, std::string>>;

void check_input(const OnnxArgument& declared, const Tensor& x, Bound& bound) {
  if (declared.dtype && x.dtype() != *declared.dtype)
    fail<DtypeError>("onnx: the input {} is {}{}: the model declares {}", shown_name(declared.name), x.dtype(),
                     x.shape(), declared.str());
  if (!declared.shape) return;
  const auto& shape = *declared.shape;
  bool fits = x.shape().size() == shape.size();
  for (std::size_t axis = 0; fits && axis < shape.size(); ++axis) {
    const Index length = x.shape()[axis];
    if (shape[axis].length) fits = *shape[axis].length == length;
    if (shape[axis].symbol.empty()) continue;
    const auto [known, is_new] = bound.emplace(shape[axis].symbol, std::pair(length, declared.name));
    if (!is_new && known->second.first != length)
      fail<ShapeError>("onnx: the input {} has the length {} for '{}', which is {} in the input {}",
                       shown_name(declared.name), length, shape[axis].symbol, known->second.first,
                       shown_name(known->second.second));
  }
  if (!fits)
    fail<ShapeError>("onnx: the input {} is {}{}: the model declares {}", shown_name(declared.name), x.dtype(),
                     x.shape(), declared.str());
}

// Returns the value of an input: a tensor, or the entries "name/0", "name/1" ... of a sequence.
OnnxValue input_value(const OnnxArgument& declared, const NamedTensors& inputs, Bound& bound) {
  if (!declared.is_sequence) {
    const auto found = inputs.find(declared.name);
    if (found == inputs.end()) return {};
    check_input(declared, found->second, bound);
    return found->second;
  }
  std::vector<Tensor> entries;
  for (;;) {
    const auto found = inputs.find(fmt::format("{}/{}", declared.name, entries.size()));
    if (found == inputs.end()) break;
    entries.push_back(found->second);
  }
  if (entries.empty() && declared.is_optional) return {};
  return entries;
}

void check_known(const std::vector<OnnxArgument>& declared, const NamedTensors& inputs) {
  for (const auto& [name, x] : inputs) {
    bool known = false;
    for (const OnnxArgument& input : declared)
      known |= input.is_sequence ? name.starts_with(input.name + "/") : name == input.name;
    if (known) continue;
    std::vector<std::string> all;
    for (const OnnxArgument& input : declared) all.push_back(input.str());
    fail<ShapeError>("onnx: the model has no input {}: it takes {}", shown_name(name), fmt::join(all, ", "));
  }
}

void check_weights(const NamedTensors& own, const NamedTensors& given) {
  for (const auto& [name, x] : own) {
    const auto found = given.find(name);
    if (found == given.end()) fail<ShapeError>("onnx: the weight {} is missing", shown_name(name));
    if (found->second.dtype() != x.dtype())
      fail<DtypeError>("onnx: the weight {} is {} and should be {}", shown_name(name), found->second.dtype(),
                       x.dtype());
    if (found->second.shape() != x.shape())
      fail<ShapeError>("onnx: the weight {} has the shape {} and should have {}", shown_name(name),
                       found->second.shape(), x.shape());
  }
  for (const auto& [name, x] : given)
    if (!own.contains(name)) fail<ShapeError>("onnx: the model has no weight {}", shown_name(name));
}

}  // namespace

std::string OnnxArgument::str() const {
  std::string text = name + ": " + (is_optional ? "optional " : "") + (is_sequence ? "sequence of " : "") +
                     (dtype ? name_of(*dtype) : "any dtype");
  if (!shape) return text;
  std::vector<std::string> lengths;
  for (const Dimension& d : *shape)
    lengths.push_back(d.length ? std::to_string(*d.length) : d.symbol.empty() ? "?" : d.symbol);
  return text + fmt::format("[{}]", fmt::join(lengths, ","));
}

NamedTensors OnnxModel::operator()(const NamedTensors& weights, const NamedTensors& inputs) const {
  check_known(about_->inputs, inputs);
  if (&weights != weights_.get()) check_weights(*weights_, weights);
  Bound bound;
  OnnxValues values(graph_->inputs.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    for (const OnnxArgument& declared : about_->inputs) {
      if (declared.name != graph_->input_names[i]) continue;
      values[i] = input_value(declared, inputs, bound);
      if (values[i].defined() || declared.is_optional || graph_->has_default(graph_->inputs[i])) continue;
      fail<ShapeError>("onnx: the input {} is missing", declared.str());
    }
  const OnnxValues found = run_onnx_graph({*graph_}, std::move(values), &weights);
  NamedTensors outputs;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string& name = graph_->output_names[i];
    if (found[i].tensor.defined()) outputs.emplace(name, found[i].tensor);
    if (!found[i].sequence) continue;
    for (std::size_t entry = 0; entry < found[i].sequence->size(); ++entry)
      outputs.emplace(fmt::format("{}/{}", name, entry), (*found[i].sequence)[entry]);
  }
  return outputs;
}

OnnxModel load_onnx(const std::string& path) {
  const InputFile file("load_onnx", path);
  const StoragePtr mapping = file.size() > 0 ? map_file(file) : StoragePtr();
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  OnnxFiles files(file.where(), folder);
  const std::string_view bytes =
      mapping ? std::string_view(static_cast<const char*>(mapping->data), mapping->bytes) : std::string_view();
  return OnnxModelMaker::make(read_onnx_file(bytes, files.where()), files);
}

OnnxModel read_onnx(std::string_view bytes) {
  OnnxFiles files("read_onnx");
  return OnnxModelMaker::make(read_onnx_file(bytes, files.where()), files);
}

}  // namespace stave
