#include <stave/handlers/onnx/write_onnx.h>

#include <algorithm>
#include <ostream>
#include <set>

#include <stave/core/op/all_ops.h>
#include <stave/core/op/attributes.h>
#include <stave/core/op/notation.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/dtypes.h>
#include <stave/core/program/dataflow.h>
#include <stave/core/program/fused.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/passes/passes.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/onnx/write_rules.h>

namespace stave_detail {

OnnxRule onnx_rule_of(OpId id) {
  for (const auto family : {onnx_rule_of_layout, onnx_rule_of_rows, onnx_rule_of_products})
    if (const OnnxRule rule = family(id)) return rule;
  return nullptr;
}

namespace {

constexpr Index written_opset = 21, written_ir_version = 10;

[[noreturn]] void refuse(const char* name, const OnnxOuts& results, const char* why) {
  fail<TransformError>("write_onnx: {} ({}) cannot be written as ONNX: {}", name,
                       results.empty() ? "" : notation(nullptr, results[0].dtype, results[0].shape, cpu), why);
}

class ModelWriter {
 public:
  ProtobufWriter model(const Program& given, const WriteOnnxOptions& options) {
    const Program program = without_dead_code(given);
    OnnxBuilder b(names_);
    OnnxOuts inputs, outputs;
    for (std::size_t i = 0; i < program.inputs.size(); ++i)
      inputs.push_back(argument(b, program.variable(program.inputs[i]), options.inputs, i, "input"));
    const OnnxOuts found = results_of(b, program, inputs);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Program::Variable& variable = program.variable(program.outputs[i]);
      OnnxOut output = argument(b, variable, options.outputs, i, "output");
      outputs.push_back(b.named("Identity", found[i], output.name));
    }
    ProtobufWriter model;
    model.integer(1, written_ir_version).text(2, "Stave").message(7, b.graph(options.name, inputs, outputs));
    return model.message(8, ProtobufWriter().text(1, "").integer(2, written_opset));
  }

 private:
  // A value with a name of its own: that of the options, or the label, or a number.
  OnnxOut argument(OnnxBuilder& b, const Program::Variable& variable, const std::vector<std::string>& given,
                   std::size_t i, const char* kind) {
    std::string name = i < given.size() ? given[i] : variable.label ? variable.label->text : "";
    if (i < given.size() && taken_.contains(name))
      fail<TransformError>("write_onnx: two values have the name '{}'", name);
    if (name.empty() || taken_.contains(name)) name = fmt::format("{}_{}", kind, i);
    while (taken_.contains(name)) name += "_";
    taken_.insert(name);
    return {&b, name, variable.dtype, variable.shape};
  }

  static bool all_empty(const OnnxOuts& types) {
    return !types.empty() &&
           std::all_of(types.begin(), types.end(), [](const OnnxOut& type) { return type.shape.elements() == 0; });
  }

  // Writes the instructions of a program. Values of graphs around can be among the inputs.
  OnnxOuts results_of(OnnxBuilder& b, const Program& program, const OnnxOuts& inputs) {
    PerVariable<OnnxOut> values(program);
    for (std::size_t i = 0; i < inputs.size(); ++i) values[program.inputs[i]] = inputs[i];
    for (const auto& [variable, value] : program.constants) values[variable] = b.constant(value);
    for (const Program::Instruction& step : program.instructions) {
      OnnxOuts operands, types;
      for (const int input : step.inputs) operands.push_back(values[input]);
      for (const int output : step.outputs)
        types.push_back({nullptr, "", program.variable(output).dtype, program.variable(output).shape});
      const OnnxOuts found = performed(b, step, operands, types);
      for (std::size_t i = 0; i < types.size(); ++i) values[step.outputs[i]] = found[i];
    }
    OnnxOuts outputs;
    for (const int output : program.outputs) {
      if (output < 0) fail<TransformError>("write_onnx: output {} of the program is an empty Tensor", outputs.size());
      outputs.push_back(values[output]);
    }
    return outputs;
  }

  OnnxOuts performed(OnnxBuilder& b, const Program::Instruction& step, const OnnxOuts& inputs, const OnnxOuts& types) {
    if (step.is_read())
      fail<TransformError>(
          "write_onnx: the program read the value {} and may have branched on it, and a model cannot throw where it "
          "finds another one: compute both branches, by `where`",
          step.read_value.str());
    const Op& op = *step.op;
    for (const OnnxOuts* all : {&inputs, &types})
      for (const OnnxOut& x : *all)
        if (is_complex(x.dtype)) refuse(op.name, types, "it has complex numbers");
    if (loop_of(step)) return loop(b, *loop_of(step), inputs, types);
    if (op.id == OpId::call) {
      const auto& functions = static_cast<const RecordedFunctions&>(*step.attributes);
      return results_of(b, *functions.function, inputs);
    }
    if (dynamic_cast<const FusedAttributes*>(step.attributes.get()))
      refuse(op.name, types, "it is a fused region: write the program before it is optimized");
    if (all_empty(types)) {
      OnnxOuts found;
      for (const OnnxOut& type : types) found.push_back(b.constant(zeros(type.shape, type.dtype)));
      return found;
    }
    const bool is_uint64 =
        std::any_of(inputs.begin(), inputs.end(), [](const OnnxOut& x) { return x.dtype == uint64; });
    if (is_uint64 && depends_on_order(op.id)) refuse(op.name, types, "onnxruntime does not order numbers of uint64");
    if (const OnnxRule rule = onnx_rule_of(op.id)) return rule({b, step, inputs, types});
    if (op.id == OpId::astype) return {converted(b, inputs[0], types[0].dtype)};
    if (op.id == OpId::where) return {selected(b, inputs, types[0].dtype)};
    if (op.elementwise && op.id != OpId::own) {
      const OnnxOut found = elementwise(b, op, inputs, types[0].dtype);
      if (found.builder) return {found};
    }
    refuse(op.name, types,
           op.id == OpId::own ? "it is an operation of the program's own or a call into C++" : "it has no counterpart");
  }

  static OnnxOut selected(OnnxBuilder& b, const OnnxOuts& inputs, Dtype dtype) {
    const Dtype wide = dtype == bool_ ? int32 : onnx_computed(dtype);
    return b.cast(b.where(b.cast(inputs[0], bool_), b.cast(inputs[1], wide), b.cast(inputs[2], wide)), dtype);
  }
  static OnnxOut elementwise(OnnxBuilder& b, const Op& op, const OnnxOuts& inputs, Dtype dtype) {
    const Dtype given = inputs.size() > 1 ? promote(inputs[0].dtype, inputs[1].dtype) : inputs[0].dtype;
    const Dtype wide = given == bool_ && !is_of_bits(op.id) ? int32 : onnx_computed(given);
    const OnnxOut x = b.cast(inputs[0], wide), y = b.cast(inputs.back(), wide);
    const OnnxOut found = write_onnx_elementwise(b, op.id, x, y);
    return found.builder ? b.cast(found, dtype) : found;
  }
  static bool depends_on_order(OpId id) {
    switch (id) {
      case OpId::less:
      case OpId::less_equal:
      case OpId::greater:
      case OpId::greater_equal:
      case OpId::maximum:
      case OpId::minimum:
      case OpId::floor_divide:
      case OpId::remainder:
      case OpId::max:
      case OpId::min:
      case OpId::argmax:
      case OpId::argmin:
      case OpId::sort:
      case OpId::argsort:
      case OpId::argtopk:
      case OpId::scatter_max:
      case OpId::scatter_min: return true;
      default: return false;
    }
  }
  // Operations that ONNX has for bools.
  static bool is_of_bits(OpId id) {
    switch (id) {
      case OpId::logical_not:
      case OpId::logical_and:
      case OpId::logical_or:
      case OpId::logical_xor:
      case OpId::bitwise_invert:
      case OpId::bitwise_and:
      case OpId::bitwise_or:
      case OpId::bitwise_xor:
      case OpId::equal:
      case OpId::not_equal: return true;
      default: return false;
    }
  }
  // Floats become the nearest integer towards 0 that the dtype has, and NaN becomes 0.
  static OnnxOut converted(OnnxBuilder& b, const OnnxOut& x, Dtype dtype) {
    if (!is_float(x.dtype) || !is_integer(dtype)) return b.cast(x, dtype);
    const auto limits = iinfo(dtype);
    const OnnxOut given = b.cast(x, float64);
    const OnnxOut wide = b.where(b.emit("IsNaN", {given}, bool_, given.shape), b.like(given, 0), given);
    const OnnxOut low = b.like(wide, limits.min), high = b.like(wide, limits.max);
    if (limits.bits < 64) return b.cast(b.binary("Max", b.binary("Min", wide, high), low), dtype);
    // The largest number is not a double: it is put where the next double would be.
    const OnnxOut inside = b.where(high <= wide, low, b.binary("Max", wide, low));
    return b.where(high <= wide, b.number(limits.max, dtype), b.cast(inside, dtype));
  }

  // A loop becomes a Scan. What is the same in every step is a value of the graph around. Scan
  // needs rows, so that a loop without any gets zeros.
  OnnxOuts loop(OnnxBuilder& b, const LoopAttributes& of, const OnnxOuts& inputs, const OnnxOuts& types) {
    const auto at = [&](std::size_t i) { return inputs.begin() + static_cast<std::ptrdiff_t>(i); };
    if (of.steps == 0) {
      OnnxOuts found(inputs.begin(), at(of.states));
      for (std::size_t k = of.states; k < types.size(); ++k)
        found.push_back(b.constant(zeros(types[k].shape, types[k].dtype)));
      return found;
    }
    OnnxBuilder inner(names_);
    OnnxOuts given(inputs.begin(), at(of.states + of.rows)), arguments;
    if (of.rows == 0) given.push_back(b.constant(zeros({of.steps}, int64)));
    for (std::size_t k = 0; k < given.size(); ++k) {
      Shape shape = given[k].shape;
      if (k >= of.states) shape = Shape(std::span<const Index>(shape).subspan(1));
      arguments.push_back({&inner, inner.new_name("argument"), given[k].dtype, shape});
    }
    OnnxOuts body_inputs(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(of.states + of.rows));
    for (auto still = at(of.states + of.rows); still != inputs.end(); ++still) {
      body_inputs.push_back(*still);
      body_inputs.back().builder = &inner;
    }
    OnnxOuts results;
    for (const OnnxOut& result : results_of(inner, *of.body, body_inputs))
      results.push_back(inner.named("Identity", result, inner.new_name("result")));
    const auto directions = [&](std::size_t n) { return Shape(std::vector<Index>(n, of.reverse ? 1 : 0)); };
    const std::size_t rows = given.size() - of.states, rows_given = results.size() - of.states;
    OnnxAttributes attributes{onnx_attribute("num_scan_inputs", static_cast<Index>(rows)),
                              onnx_attribute("scan_input_directions", directions(rows)),
                              onnx_graph_attribute("body", inner.graph("body", arguments, results))};
    if (rows_given > 0) attributes.push_back(onnx_attribute("scan_output_directions", directions(rows_given)));
    return b.emit("Scan", given, types, attributes);
  }

  int names_ = 0;
  std::set<std::string> taken_;
};

}  // namespace

}  // namespace stave_detail

namespace stave {

void write_onnx(std::ostream& out, const Program& program, const WriteOnnxOptions& options) {
  const std::string bytes = stave_detail::ModelWriter().model(program, options).bytes;
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace stave
