// Writes a program as text: see program_text.h.
#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include <stave/core/io/program_attributes.h>
#include <stave/core/io/program_text.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/program/fused.h>
#include <stave/core/program/loop.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>
#include <stave/core/tensor/storage.h>
#include <stave/core/tensor/utf8.h>

namespace stave_detail {

namespace {

// ---- values -------------------------------------------------------------------------------------

std::string json(bool value) { return value ? "true" : "false"; }
std::string json(int value) { return std::to_string(value); }
std::string json(Index value) { return std::to_string(value); }
std::string json(std::size_t value) { return std::to_string(value); }
// JSON has no infinities and NaNs, and readers may lose the sign of -0: these are written as bits.
std::string json(double value) {
  if (std::isfinite(value) && (value != 0 || !std::signbit(value))) return fmt::format("{}", value);
  return fmt::format("\"0x{:016x}\"", std::bit_cast<std::uint64_t>(value));
}
std::string json(const std::string& text) { return in_json_quotes(text); }
std::string json(Dtype dtype) { return fmt::format("\"{}\"", name_of(dtype)); }
std::string json(Device device) { return fmt::format("\"{}\"", device.str()); }
// A floating-point number is in an object, since JSON does not tell 1.0 from 1.
std::string json(Scalar number) {
  switch (number.kind) {
    case Scalar::Kind::boolean: return json(number.integer != 0);
    case Scalar::Kind::integer:
      return number.beyond_int64 ? std::to_string(static_cast<std::uint64_t>(number.integer)) : json(number.integer);
    case Scalar::Kind::floating: return fmt::format("{{\"float\":{}}}", json(number.floating));
    case Scalar::Kind::complex: break;
  }
  return fmt::format("{{\"complex\":[{},{}]}}", json(number.floating), json(number.imaginary));
}
template <class List>
  requires requires(const List& list) { list.begin() != list.end(); } && (!std::is_convertible_v<List, std::string>)
std::string json(const List& list) {
  std::string text = "[";
  for (const auto& value : list) text += (text.size() > 1 ? "," : "") + json(value);
  return text + "]";
}

// A JSON object that is being written.
class Members {
 public:
  template <class Value>
  Members& add(const char* name, const Value& value) {
    return add_text(name, json(value));
  }
  Members& add_text(const char* name, const std::string& text) {
    text_ += fmt::format("{}\"{}\":{}", text_.empty() ? "" : ",", name, text);
    return *this;
  }
  std::string str() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

template <class A>
std::string fields_text(const A& attributes) {
  Members members;
  const auto fields = Fields<A>::of(attributes);
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (members.add(Fields<A>::names[i], std::get<i>(fields)), ...);
  }(std::make_index_sequence<Fields<A>::count>());
  return members.str();
}

// ---- programs -----------------------------------------------------------------------------------

class ProgramWriter {
 public:
  explicit ProgramWriter(const std::string& where) : where_(where) {}

  ProgramText write(const Program& program) {
    add(program);
    ProgramText result;
    result.text =
        fmt::format("{{\"version\":{},\n\"regions\":[{}],\n\"scopes\":[{}],\n\"programs\":[{}]}}", program_version,
                    fmt::join(regions_.texts, ",\n"), fmt::join(scopes_.texts, ","), fmt::join(programs_.texts, ",\n"));
    result.tensors = std::move(tensors_);
    return result;
  }

 private:
  // The texts and numbers of objects that several instructions may share. Each is written once.
  struct Shared {
    std::unordered_map<const void*, std::size_t> numbers;
    std::vector<std::string> texts;

    template <class Write>
    std::size_t number_of(const void* object, Write text) {
      if (const auto found = numbers.find(object); found != numbers.end()) return found->second;
      texts.push_back(text());
      numbers.emplace(object, texts.size() - 1);
      return texts.size() - 1;
    }
  };

  void add(const Program& program) {
    std::string text = text_of_program(program);  // first adds the programs that this one uses
    programs_.texts.push_back(std::move(text));
  }
  std::size_t number_of(const Program& program) {
    if (const auto found = programs_.numbers.find(&program); found != programs_.numbers.end()) return found->second;
    add(program);
    programs_.numbers.emplace(&program, programs_.texts.size() - 1);
    return programs_.texts.size() - 1;
  }

  std::string text_of_program(const Program& program) {
    std::vector<std::string> variables, constants, instructions;
    for (const Program::Variable& it : program.variables) variables.push_back(text_of_variable(it));
    for (const Program::Constant& constant : program.constants)
      constants.push_back(fmt::format("{{\"variable\":{},\"value\":{}}}", constant.variable, tensor(constant.value)));
    for (const Program::Instruction& step : program.instructions) instructions.push_back(text_of_instruction(step));
    return fmt::format(
        "{{\"variables\":[{}],\n\"inputs\":{},\n\"constants\":[{}],\n\"instructions\":[{}],\n\"outputs\":{}}}",
        fmt::join(variables, ","), json(program.inputs), fmt::join(constants, ","), fmt::join(instructions, ",\n"),
        json(program.outputs));
  }

  static std::string text_of_variable(const Program::Variable& it) {
    Members members;
    members.add("shape", it.shape).add("dtype", it.dtype);
    if (it.device != cpu) members.add("device", it.device);
    if (it.label) members.add_text("label", name(*it.label));
    return members.str();
  }

  // The text of a name. The name of a backward pass's scope is inside an object.
  static std::string name(const SharedName& it) {
    return it.backward ? fmt::format("{{\"backward\":{}}}", json(it.text)) : json(it.text);
  }
  static std::string text_of_path(const ScopePath& path) {
    std::string text = "[";
    for (const NamePtr& scope : path.names) text += (text.size() > 1 ? "," : "") + name(*scope);
    return text + "]";
  }

  std::string text_of_instruction(const Program::Instruction& step) {
    Members members;
    if (step.is_read()) members.add_text("read", tensor(step.read_value));
    else add_operation(members, step);
    members.add("inputs", step.inputs).add("outputs", step.outputs);
    if (step.scopes)
      members.add("scope", scopes_.number_of(step.scopes.get(), [&] { return text_of_path(*step.scopes); }));
    if (step.barrier) members.add("barrier", static_cast<std::size_t>(step.barrier));
    return members.str();
  }

  void add_operation(Members& members, const Program::Instruction& step) {
    const Op& op = *step.op;
    const Attributes* const attributes = step.attributes.get();
    if (const LoopAttributes* const loop = loop_of(step))
      return static_cast<void>(members.add_text("op", "\"loop\"").add_text("attributes", text_of_loop(*loop)));
    if (const auto* const fused = dynamic_cast<const FusedAttributes*>(attributes);
        fused && &op == &fused_op(op.name)) {
      const std::size_t region =
          regions_.number_of(fused->region.get(), [&] { return text_of_region(*fused->region); });
      members.add_text("op", "\"fused\"")
          .add_text("attributes", fmt::format("{{\"name\":{},\"region\":{}}}", json(std::string(op.name)), region));
      return;
    }
    if (op.id == OpId::own)
      fail<TransformError>(
          "{}: the operation '{}' is not one of all_ops.h, and a file cannot hold its code: save a program that "
          "computes the same by the library's operations",
          where_, op.name);
    members.add("op", std::string(op.name));
    if (op.id == OpId::call)
      return static_cast<void>(
          members.add_text("attributes", text_of_call(static_cast<const RecordedFunctions&>(*attributes))));
    visit_attributes_type(op.id, [&]<class A>(std::type_identity<A>) {
      if constexpr (std::is_same_v<A, NoAttributes>) {
        if (attributes) refuse_attributes(op);
      } else {
        if (!attributes || typeid(*attributes) != typeid(A)) refuse_attributes(op);
        members.add_text("attributes", fields_text(static_cast<const A&>(*attributes)));
      }
    });
  }
  [[noreturn]] void refuse_attributes(const Op& op) const {
    fail<TransformError>("{}: the operation '{}' has attributes of another type than the library gives it", where_,
                         op.name);
  }

  std::string text_of_loop(const LoopAttributes& loop) {
    Members members;
    members.add("steps", loop.steps).add("reverse", loop.reverse).add("states", loop.states).add("rows", loop.rows);
    members.add("snapshots", loop.snapshots).add("rematerializes", loop.rematerializes);
    members.add("body", number_of(*loop.body));
    if (!loop.also_body) return members.str();
    members.add("also_body", number_of(*loop.also_body));
    return members.add("also_inputs", loop.also_inputs).add("also_outputs", loop.also_outputs).str();
  }

  std::string text_of_call(const RecordedFunctions& call) {
    if (call.rules)
      fail<TransformError>(
          "{}: the function that {} called has rules that are C++ functions, which a file cannot hold: save a program "
          "that is differentiated or batched already, as trace(grad(f)) is, or with_calls_inlined(program), without "
          "the rules",
          where_, call.name);
    if (call.saves && call.saves->operations)
      fail<TransformError>(
          "{}: the policy of {} is a C++ function, which a file cannot hold: choose the saved values by their labels, "
          "or save a program that is differentiated already",
          where_, call.name);
    Members members;
    members.add("name", std::string(call.name)).add("rematerializes", call.rematerializes);
    if (call.saves) members.add("saves", call.saves->labels);
    members.add("captured", call.captured).add("function", number_of(*call.function));
    if (call.again) members.add("again", number_of(*call.again));
    return members.str();
  }

  static std::string text_of_region(const Region& region) {
    std::vector<std::string> steps, reductions;
    for (const Region::Step& step : region.steps()) {
      Members members;
      if (step.op) members.add("op", std::string(step.op->name)).add("operands", step.operands);
      else members.add("number", step.number);
      if (!step.op || step.op->id == OpId::astype) members.add("dtype", step.dtype);
      steps.push_back(members.str());
    }
    for (const Region::Reduction& it : region.reductions())
      reductions.push_back(Members()
                               .add("op", std::string(it.op->name))
                               .add("value", it.value)
                               .add("axes", it.axes)
                               .add("keepdims", it.keepdims)
                               .str());
    return fmt::format("{{\"inputs\":{},\"steps\":[{}],\"reductions\":[{}],\"outputs\":{}}}", json(region.inputs()),
                       fmt::join(steps, ","), fmt::join(reductions, ","), json(region.outputs()));
  }

  // A reference to a tensor. If all elements are one repeated number, the file stores that number
  // once, and the text has the shape.
  std::string tensor(const Tensor& x) {
    if (!x.defined()) fail<TransformError>("{}: a constant of the program is an empty Tensor", where_);
    if (!x.node().storage)
      fail<TransformError>("{}: a constant of the program is the value of one lane of vmap: save the program outside",
                           where_);
    // A number of a device whose element lies in the host's memory is one again after it is read.
    const bool is_number = (x.rank() > 0 || x.device() != cpu) && is_one_number(x);
    const std::size_t number = number_of_tensor(is_number ? one_number(x) : x);
    return is_number ? fmt::format("{{\"tensor\":{},\"repeated\":{}}}", number, json(x.shape()))
                     : fmt::format("{{\"tensor\":{}}}", number);
  }
  // Equal views of the same memory are written once.
  std::size_t number_of_tensor(const Tensor& x) {
    const Node& node = x.node();
    std::vector<std::size_t>& known = by_storage_[node.storage.get()];
    for (const std::size_t number : known) {
      const Node& other = tensors_[number].node();
      if (other.offset == node.offset && other.dtype == node.dtype && other.shape == node.shape &&
          other.strides == node.strides)
        return number;
    }
    tensors_.push_back(x);
    known.push_back(tensors_.size() - 1);
    return tensors_.size() - 1;
  }

  const std::string& where_;
  Shared regions_, scopes_, programs_;
  std::vector<Tensor> tensors_;
  std::unordered_map<const void*, std::vector<std::size_t>> by_storage_;
};

}  // namespace

ProgramText text_of(const Program& program, const std::string& where) { return ProgramWriter(where).write(program); }

}  // namespace stave_detail
