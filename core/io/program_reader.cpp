// Reads a program from its text: see program_text.h.
//
// Programs come in the order in which they use each other, and each may use only earlier ones, so
// that reading needs no recursion. Each instruction is checked as soon as it has been read.
#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>

#include <stave/core/io/elements.h>
#include <stave/core/io/file.h>
#include <stave/core/io/program_attributes.h>
#include <stave/core/io/program_checks.h>
#include <stave/core/io/program_text.h>
#include <stave/core/io/program_values.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/program/fused.h>
#include <stave/core/tensor/print.h>
#include <stave/core/tensor/storage.h>

namespace stave_detail {

namespace {

using ProgramPtr = std::shared_ptr<const Program>;

// The most instructions of a program, including the programs that it uses, counted at each use; and
// the deepest nesting of loops and calls.
constexpr std::uint64_t most_instructions = std::uint64_t{1} << 24;
constexpr int deepest = 64;

// Returns the record of the operation of this name; null if there is none.
const Op* op_named(std::string_view name) {
  static const auto& records = *new std::map<std::string_view, const Op*>([] {
    std::map<std::string_view, const Op*> all;
    for (const Op* op : all_ops()) all.emplace(op->name, op);
    return all;
  }());
  const auto found = records.find(name);
  return found == records.end() ? nullptr : found->second;
}

// Returns a copy of the name that exists until the process ends. A call holds the name of the
// transform that made it as a pointer.
const char* interned(const std::string& name) {
  static std::mutex mutex;
  static auto& names = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return names.insert(name).first->c_str();
}

class ProgramReader {
 public:
  ProgramReader(const std::map<std::string, Tensor>& tensors, const std::string& where)
      : place_{where}, tensors_(tensors) {}

  Program read(const Json& text) {
    place_.check_members(text, {"version", "regions", "scopes", "programs"});
    for (const Json& region : place_.list(text, "regions")) read_region(region);
    for (const Json& path : place_.list(text, "scopes")) read_path(path);
    for (const Json& program : place_.list(text, "programs")) read_program(program);
    place_.at.clear();
    if (programs_.empty()) place_.refuse("there is no program");
    for (const auto& tensor : tensors_)
      if (!used_.contains(tensor.first)) place_.refuse(fmt::format("the program has no constant '{}'", tensor.first));
    return *programs_.back().program;
  }

 private:
  struct Read {
    ProgramPtr program;
    int depth = 0;                   // the depth of nested programs; 1: it uses no other program
    std::uint64_t instructions = 0;  // with those of the programs that it uses, counted at each use
  };

  // Calls read(). Turns an Error that is not a FileError into a FileError that names the place in
  // the file.
  template <class F>
  void at_place(F read) {
    try {
      read();
    } catch (const FileError&) {
      throw;
    } catch (const Error& error) {
      place_.refuse(error.what());
    }
  }

  // ---- parts that instructions share ------------------------------------------------------------

  void read_region(const Json& text) {
    place_.at = fmt::format("region {}", regions_.size());
    at_place([&] {
      place_.check_members(text, {"inputs", "steps", "reductions", "outputs"});
      const auto region = make_intrusive<Region>(place_.get<std::vector<Dtype>>(text, "inputs"));
      if (region->inputs().empty()) place_.refuse("it has no inputs");
      for (const Json& step : place_.list(text, "steps")) add_step(*region, step);
      for (const Json& reduction : place_.list(text, "reductions")) add_reduction(*region, reduction);
      region->set_outputs(place_.get<std::vector<int>>(text, "outputs"));
      regions_.push_back(region);
    });
  }
  void add_step(Region& region, const Json& text) {
    if (text.is_object() && text.contains("number")) {
      place_.check_members(text, {"number", "dtype"});
      Scalar number(0);
      place_.read(text["number"], "number", number);
      region.add(number, place_.get<Dtype>(text, "dtype"));
      return;
    }
    place_.check_members(text, {"op", "operands"}, {"dtype"});
    const Op& op = operation(text);
    if ((op.id == OpId::astype) != text.contains("dtype")) place_.refuse("only astype has a dtype");
    region.add(op, place_.get<std::vector<int>>(text, "operands"),
               text.contains("dtype") ? place_.get<Dtype>(text, "dtype") : bool_);
  }
  void add_reduction(Region& region, const Json& text) {
    place_.check_members(text, {"op", "value", "axes", "keepdims"});
    region.reduce(operation(text), place_.get<int>(text, "value"), place_.get<Shape>(text, "axes"),
                  place_.get<bool>(text, "keepdims"));
  }

  void read_path(const Json& text) {
    place_.at = fmt::format("scope {}", scopes_.size());
    if (!text.is_array() || text.empty()) place_.refuse("it is not a list of names");
    const auto path = make_intrusive<ScopePath>();
    for (const Json& name : text) path->names.push_back(read_name(name));
    scopes_.push_back(path);
  }
  NamePtr read_name(const Json& text) {
    const bool backward = text.is_object();
    if (backward) place_.check_members(text, {"backward"});
    std::string name;
    place_.read(backward ? text["backward"] : text, "name", name);
    return make_intrusive<const SharedName>(std::move(name), backward);
  }

  // ---- programs ---------------------------------------------------------------------------------

  void read_program(const Json& text) {
    const std::size_t number = programs_.size();
    place_.at = fmt::format("program {}", number);
    const auto made = std::make_shared<Program>();
    reading_ = {made, 1, 0};
    at_place([&] {
      place_.check_members(text, {"variables", "inputs", "constants", "instructions", "outputs"});
      for (const Json& variable : place_.list(text, "variables")) made->variables.push_back(read_variable(variable));
      assigned_.assign(made->variables.size(), false);
      place_.read(text["inputs"], "inputs", made->inputs);
      for (const int input : made->inputs) assign(input);
      for (const Json& constant : place_.list(text, "constants")) read_constant(*made, constant);
    });
    const Json& instructions = place_.list(text, "instructions");
    made->instructions.reserve(instructions.size());
    for (std::size_t k = 0; k < instructions.size(); ++k) {
      place_.at = fmt::format("instruction {} of program {}", k, number);
      at_place([&] { made->instructions.push_back(read_instruction(*made, instructions[k])); });
    }
    place_.at = fmt::format("program {}", number);
    at_place([&] {
      place_.read(text["outputs"], "outputs", made->outputs);
      for (const int output : made->outputs)
        if (output != -1) check_assigned(output);
    });
    reading_.instructions += made->instructions.size();
    if (reading_.depth > deepest || reading_.instructions > most_instructions)
      place_.refuse(fmt::format("loops and calls are {} deep and run {} instructions, more than {} or {}",
                                reading_.depth, reading_.instructions, deepest, most_instructions));
    programs_.push_back(reading_);
  }

  Program::Variable read_variable(const Json& text) {
    place_.check_members(text, {"shape", "dtype"}, {"device", "label"});
    Program::Variable it{place_.get<Shape>(text, "shape"), place_.get<Dtype>(text, "dtype"), cpu, nullptr};
    check_shape(it.shape, it.dtype);
    if (text.contains("device")) it.device = place_.get<Device>(text, "device");
    check_device(it.device);
    if (text.contains("label")) it.label = read_name(text["label"]);
    return it;
  }
  void check_shape(const Shape& shape, Dtype dtype) {
    const bool fits = shape.size() <= most_axes &&
                      std::all_of(shape.begin(), shape.end(), [](Index length) { return length >= 0; }) &&
                      bytes_of(dtype, shape);
    if (!fits) place_.refuse(fmt::format("the shape {} has too many axes or elements, or negative lengths", shape));
    static_cast<void>(shape.elements());  // throws if there are too many
  }
  void check_device(Device device) {
    if (device == checked_device_) return;
    try {
      static_cast<void>(backend_of(device));
    } catch (const DeviceError& error) {
      fail<FileError>("{}: the program computes on {}: {}", place_.where, device.str(), error.what());
    }
    checked_device_ = device;
  }

  void check_number(int variable) {
    if (variable < 0 || static_cast<std::size_t>(variable) >= assigned_.size())
      place_.refuse(fmt::format("there is no variable {}", variable));
  }
  void check_assigned(int variable) {
    check_number(variable);
    if (!assigned_[static_cast<std::size_t>(variable)])
      place_.refuse(fmt::format("variable {} is read, but nothing assigns it before", variable));
  }
  void assign(int variable) {
    check_number(variable);
    if (assigned_[static_cast<std::size_t>(variable)])
      place_.refuse(fmt::format("variable {} is assigned twice", variable));
    assigned_[static_cast<std::size_t>(variable)] = true;
  }

  void read_constant(Program& program, const Json& text) {
    place_.check_members(text, {"variable", "value"});
    const int variable = place_.get<int>(text, "variable");
    assign(variable);
    program.constants.push_back({variable, read_tensor(text["value"], program.variable(variable))});
  }

  // Returns the tensor that `text` refers to, on the device of `type`. Its shape and dtype must be
  // those of `type`.
  Tensor read_tensor(const Json& text, const Program::Variable& type) {
    place_.check_members(text, {"tensor"}, {"repeated"});
    const std::string name = std::to_string(place_.get<std::uint64_t>(text, "tensor"));
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) place_.refuse(fmt::format("there is no tensor '{}'", name));
    used_.insert(name);
    const UnderFrame past_all_handlers(nullptr);
    Tensor x = to(found->second, cpu);
    if (text.contains("repeated")) {
      const auto shape = place_.get<Shape>(text, "repeated");
      check_shape(shape, x.dtype());
      if (x.rank() != 0) place_.refuse(fmt::format("tensor '{}' is not one number, but is repeated", name));
      x = repeated_number(x, shape, type.device);
    } else {
      x = to(x, type.device);
    }
    if (x.shape() != type.shape || x.dtype() != type.dtype)
      place_.refuse(
          fmt::format("tensor '{}' is {} {}, and its variable is {}", name, x.dtype(), x.shape(), type_text(type)));
    return x;
  }
  static Tensor repeated_number(const Tensor& number, const Shape& shape, Device device) {
    StoragePtr storage = device == cpu ? number.node().storage : host_constant_storage();
    if (device != cpu) std::memcpy(storage->data, number.node().data(), size_of(number.dtype()));
    NodePtr node(new Node(number.dtype(), device, shape, std::move(storage)));
    node->offset = device == cpu ? number.node().offset : 0;
    for (Index& stride : node->strides) stride = 0;
    return Tensor(std::move(node));
  }

  // ---- instructions -----------------------------------------------------------------------------

  Program::Instruction read_instruction(const Program& program, const Json& text) {
    if (!text.is_object() || text.contains("read") == text.contains("op"))
      place_.refuse("it has neither an operation nor a value that was read");
    Program::Instruction step;
    if (text.contains("read")) place_.check_members(text, {"read", "inputs", "outputs"}, {"scope", "barrier"});
    else place_.check_members(text, {"op", "inputs", "outputs"}, {"attributes", "scope", "barrier"});
    place_.read(text["inputs"], "inputs", step.inputs);
    place_.read(text["outputs"], "outputs", step.outputs);
    if (text.contains("scope")) step.scopes = scopes_[place_.index(text, "scope", scopes_.size())];
    if (text.contains("barrier")) step.barrier = place_.get<std::uint64_t>(text, "barrier");
    std::vector<Program::Variable> inputs;
    for (const int input : step.inputs) {
      check_assigned(input);
      inputs.push_back(program.variable(input));
    }
    if (text.contains("read")) {
      if (inputs.size() != 1) place_.refuse("it reads one value, not several or none");
      step.read_value = read_tensor(text["read"], {inputs[0].shape, inputs[0].dtype, cpu, nullptr});
      check_outputs(program, step, {});
    } else {
      check_outputs(program, step, read_operation(step, text, inputs));
    }
    return step;
  }

  void check_outputs(const Program& program, const Program::Instruction& step,
                     const std::vector<Program::Variable>& types) {
    if (step.outputs.size() != types.size())
      place_.refuse(fmt::format("it has {} outputs, but gives {} values", step.outputs.size(), types.size()));
    for (std::size_t i = 0; i < types.size(); ++i) {
      assign(step.outputs[i]);
      if (const Program::Variable& it = program.variable(step.outputs[i]); !same_type(it, types[i]))
        place_.refuse(
            fmt::format("output {} is {}, but the operation gives {}", i, type_text(it), type_text(types[i])));
    }
  }

  // Sets the operation and the attributes of `step`, and returns the types of the outputs.
  std::vector<Program::Variable> read_operation(Program::Instruction& step, const Json& text,
                                                const std::vector<Program::Variable>& inputs) {
    const auto name = place_.get<std::string>(text, "op");
    place_.at += fmt::format(" ('{}')", shown(name));
    static const Json none = Json::object();
    const bool has_attributes = text.contains("attributes");
    const Json& attributes = has_attributes ? text["attributes"] : none;
    if (name == "loop") {
      const auto loop = read_loop(attributes);
      check_loop(*loop);
      const Program::Instruction instruction = instruction_of(loop);
      step.op = instruction.op;
      step.attributes = instruction.attributes;
      return inferred_outputs(*step.op, step.attributes, inputs);
    }
    if (name == "fused") {
      place_.check_members(attributes, {"name", "region"});
      const std::size_t region = place_.index(attributes, "region", regions_.size());
      step.op = &fused_op(place_.get<std::string>(attributes, "name"));
      step.attributes = make_intrusive<FusedAttributes>(regions_[region]);
      return inferred_outputs(*step.op, step.attributes, inputs);
    }
    step.op = &operation(text);
    if (step.op->id == OpId::call) {
      const auto call = read_call(attributes);
      step.attributes = call;
      return outputs_of_call(*call, inputs);
    }
    visit_attributes_type(step.op->id, [&]<class A>(std::type_identity<A>) {
      if constexpr (std::is_same_v<A, NoAttributes>) {
        if (has_attributes) place_.refuse("this operation has no attributes");
      } else step.attributes = read_fields<A>(attributes);
    });
    return inferred_outputs(*step.op, step.attributes, inputs);
  }

  const Op& operation(const Json& text) {
    const auto name = place_.get<std::string>(text, "op");
    const Op* const op = op_named(name);
    if (!op)
      fail<FileError>(
          "{}: {}: this version of the library has no operation '{}': load the program with the version that saved it",
          place_.where, place_.at, shown(name));
    return *op;
  }

  template <class A>
  AttributesPtr read_fields(const Json& text) {
    using F = Fields<A>;
    const auto made = F::make();
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      place_.check_members(text, {F::names[i]...});
      const auto fields = F::of(*made);
      (place_.read(text[F::names[i]], F::names[i], std::get<i>(fields)), ...);
    }(std::make_index_sequence<F::count>());
    if constexpr (requires { made->device; }) check_device(made->device);
    return made;
  }

  // Returns an earlier program that the current one uses, and counts its depth and instructions.
  ProgramPtr used_program(const Json& text, const char* name) {
    const Read& used = programs_[place_.index(text, name, programs_.size())];
    reading_.depth = std::max(reading_.depth, used.depth + 1);
    reading_.instructions = std::min(reading_.instructions + used.instructions, most_instructions + 1);
    return used.program;
  }

  IntrusivePtr<const LoopAttributes> read_loop(const Json& text) {
    place_.check_members(text, {"steps", "reverse", "states", "rows", "snapshots", "rematerializes", "body"},
                         {"also_body", "also_inputs", "also_outputs"});
    const auto loop = make_intrusive<LoopAttributes>();
    loop->steps = place_.get<Index>(text, "steps");
    loop->reverse = place_.get<bool>(text, "reverse");
    loop->states = place_.get<std::uint64_t>(text, "states");
    loop->rows = place_.get<std::uint64_t>(text, "rows");
    loop->snapshots = place_.get<Index>(text, "snapshots");
    loop->rematerializes = place_.get<bool>(text, "rematerializes");
    loop->body = used_program(text, "body");
    if (!text.contains("also_body")) return loop;
    place_.check_members(text, {"steps", "reverse", "states", "rows", "snapshots", "rematerializes", "body",
                                "also_body", "also_inputs", "also_outputs"});
    loop->also_body = used_program(text, "also_body");
    loop->also_inputs = place_.get<std::vector<std::size_t>>(text, "also_inputs");
    loop->also_outputs = place_.get<std::vector<std::size_t>>(text, "also_outputs");
    return loop;
  }

  IntrusivePtr<const RecordedFunctions> read_call(const Json& text) {
    place_.check_members(text, {"name", "rematerializes", "captured", "function"}, {"saves", "again"});
    const auto call = make_intrusive<RecordedFunctions>();
    call->name = interned(place_.get<std::string>(text, "name"));
    call->rematerializes = place_.get<bool>(text, "rematerializes");
    call->captured = place_.get<std::uint64_t>(text, "captured");
    call->function = used_program(text, "function");
    if (text.contains("again")) call->again = used_program(text, "again");
    if (text.contains("saves"))
      call->saves =
          std::make_shared<const Saveable>(Saveable{nullptr, place_.get<std::vector<std::string>>(text, "saves")});
    return call;
  }

  JsonReader place_;
  const std::map<std::string, Tensor>& tensors_;
  std::set<std::string> used_;
  std::vector<RegionPtr> regions_;
  std::vector<ScopePathPtr> scopes_;
  std::vector<Read> programs_;
  Read reading_;                // the program that is being read
  std::vector<bool> assigned_;  // for each of its variables, whether it has a value already
  Device checked_device_ = cpu;
};

}  // namespace

Program program_of(std::string_view text, const std::map<std::string, Tensor>& tensors, const std::string& where) {
  const JsonReader place{where};
  const Json json = parse_json(text, where, "the program");
  if (!json.is_object() || !json.contains("version")) place.refuse("it has no version");
  const auto version = place.get<std::uint64_t>(json, "version");
  if (version < 1 || version > program_version)
    fail<FileError>(
        "{}: it has version {} of the format of programs, and this version of the library reads versions 1 to {}: load "
        "it with a later version of the library",
        where, version, program_version);
  return ProgramReader(tensors, where).read(json);
}

}  // namespace stave_detail
