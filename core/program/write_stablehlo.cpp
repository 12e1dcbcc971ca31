#include <stave/core/program/write_stablehlo.h>

#include <map>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

#include <stave/core/op/notation.h>
#include <stave/core/ops/create.h>
#include <stave/core/program/dataflow.h>
#include <stave/core/program/fused.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/passes/passes.h>
#include <stave/core/program/stablehlo_rules.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

const char* hlo_reason_of_refusal(OpId id) {
  switch (id) {
    case OpId::eig:
    case OpId::eigh:
    case OpId::eigvals:
    case OpId::eigvalsh:
    case OpId::schur:
    case OpId::svd:
    case OpId::svdvals: return "StableHLO has no decomposition into eigenvalues or singular values";
    case OpId::lstsq: return "StableHLO has no singular value decomposition, by which it is computed";
    case OpId::own: return "it is an operation of the program's own or a call into C++";
    default: return "it has no counterpart";
  }
}

namespace {

HloRule hlo_rule_of(OpId id) {
  for (const auto family :
       {hlo_rule_of_layout, hlo_rule_of_reduction, hlo_rule_of_rows, hlo_rule_of_scan, hlo_rule_of_index,
        hlo_rule_of_product, hlo_rule_of_fourier, hlo_rule_of_linalg, hlo_rule_of_factor, hlo_rule_of_random})
    if (const HloRule rule = family(id)) return rule;
  return nullptr;
}

class ModuleWriter {
 public:
  ModuleWriter(std::string name, const StableHloOptions& options) : name_(std::move(name)), options_(options) {}

  /// The text of all functions. The first one is that of the program.
  std::string text(const Program& program) {
    const Function main = function(without_dead_code(program), name_, true);
    return main.text + others_;
  }

 private:
  struct Function {
    std::string name, text = {};
    bool is_checked = false;  // its last result says whether its checks hold
  };

  // Values of a function by the variables of its program, and copies behind barriers.
  struct Values {
    HloBuilder b;
    PerVariable<HloValue> of;
    PerVariable<std::uint64_t> made_behind;
    std::map<std::pair<int, std::uint64_t>, HloValue> copies = {};
    Values(const Program& program, const StableHloOptions& options) : b(options), of(program), made_behind(program) {}
  };

  Function function(const Program& program, const std::string& name, bool is_main) {
    Values values(program, options_);
    HloBuilder& b = values.b;
    std::string arguments, comments;
    for (const int input : program.inputs) {
      const Program::Variable& variable = program.variable(input);
      values.of[input] = b.value({variable.dtype, variable.shape});
      const std::string argument = fmt::format("%{}", values.of[input].id);
      arguments += (arguments.empty() ? "" : ", ") + argument + ": " + hlo_type(variable.dtype, variable.shape);
      if (is_main)
        comments +=
            fmt::format("  // {}: {}\n", argument, notation(variable.label, variable.dtype, variable.shape, cpu));
    }
    for (const auto& [variable, value] : program.constants) values.of[variable] = b.constant(value);
    for (const Program::Instruction& step : program.instructions) write(program, step, values);
    HloValues results;
    for (const int output : program.outputs) {
      if (output < 0)
        fail<TransformError>("write_stablehlo: output {} of the program is an empty Tensor", results.size());
      results.push_back(values.of[output]);
    }
    const bool is_checked = b.checked().id >= 0 || (is_main && options_.checks);
    if (is_checked) results.push_back(b.checked().id >= 0 ? b.checked() : b.number(true, bool_));
    std::string names, types;
    for (const HloValue& result : results) {
      names += fmt::format("{}%{}", names.empty() ? "" : ", ", result.id);
      types += (types.empty() ? "" : ", ") + hlo_type(result.dtype, result.shape);
    }
    const std::string ending = results.empty() ? "return" : fmt::format("return {} : {}", names, types);
    return {name,
            fmt::format("{}  func.func {} @{}({}) -> ({}) {{\n{}    {}\n  }}\n", comments,
                        is_main ? "public" : "private", name, arguments, types, b.text(), ending),
            is_checked};
  }

  // The function of a program that instructions call: a program is written once.
  const Function& called(const std::shared_ptr<const Program>& program, const char* what) {
    if (const auto found = functions_.find(program); found != functions_.end()) return found->second;
    Function made = function(*program, fmt::format("{}_{}_{}", name_, what, ++count_), false);
    others_ += std::exchange(made.text, {});
    return functions_.emplace(program, std::move(made)).first->second;
  }
  static HloValues call(HloBuilder& b, const Function& function, HloSpan inputs, std::vector<HloType> results) {
    if (function.is_checked) results.push_back({bool_, {}});
    return b.call(function.name, inputs, results);
  }

  void write(const Program& program, const Program::Instruction& step, Values& values) {
    HloValues inputs;
    for (const int input : step.inputs) inputs.push_back(operand(input, step.barrier, values));
    if (step.is_read()) return write_read(step, inputs[0], values.b);
    std::vector<HloType> types;
    for (const int output : step.outputs)
      types.push_back({program.variable(output).dtype, program.variable(output).shape});
    const HloValues results = performed(values.b, step, inputs, types);
    for (std::size_t i = 0; i < types.size(); ++i) {
      values.of[step.outputs[i]] = results[i];
      values.made_behind[step.outputs[i]] = step.barrier;
    }
  }

  // Returns an operand of an instruction. An instruction behind a barrier reads a copy of a value
  // that was computed before the barrier, so that XLA does not merge the instruction with the
  // earlier one that it repeats.
  static const HloValue& operand(int variable, std::uint64_t barrier, Values& values) {
    const HloValue& given = values.of[variable];
    if (barrier == 0 || values.made_behind[variable] == barrier) return given;
    const auto [at, is_new] = values.copies.try_emplace({variable, barrier});
    if (is_new) at->second = values.b.unary("optimization_barrier", given);
    return at->second;
  }

  void write_read(const Program::Instruction& step, const HloValue& found, HloBuilder& b) const {
    if (!options_.checks)
      fail<TransformError>(
          "write_stablehlo: the program read the value {} and may have branched on it, and StableHLO text cannot throw "
          "where it finds another one: compute both branches, by `where`, or set .checks for a result that tells",
          step.read_value.str());
    b.check([&] { return has_bits(b, found, b.constant(step.read_value)); });
  }
  static HloValue has_bits(HloBuilder& b, const HloValue& found, const HloValue& recorded) {
    if (is_complex(found.dtype))
      return b.both(has_bits(b, b.real(found), b.real(recorded)), has_bits(b, b.imag(found), b.imag(recorded)));
    if (!is_float(found.dtype)) return b.compare("EQ", found, recorded);
    const std::size_t size = size_of(found.dtype);
    const Dtype bits = size == 8 ? int64 : size == 4 ? int32 : int16;
    return b.compare("EQ", b.bitcast(found, bits), b.bitcast(recorded, bits));
  }

  HloValues performed(HloBuilder& b, const Program::Instruction& step, HloSpan inputs,
                      const std::vector<HloType>& types) {
    const Op& op = *step.op;
    if (loop_of(step)) return loop(b, *loop_of(step), inputs, types);
    if (op.id == OpId::call) {
      const auto& functions = static_cast<const RecordedFunctions&>(*step.attributes);
      HloValues results = call(b, called(functions.function, "function"), inputs, types);
      return without_check(b, std::move(results), types.size());
    }
    if (all_empty(types)) {
      HloValues results;
      for (const HloType& type : types) results.push_back(b.number(0, type.dtype, type.shape));
      return results;
    }
    const HloContext context{b, step, inputs, types};
    if (dynamic_cast<const FusedAttributes*>(step.attributes.get())) return hlo_fused(context);
    if (const HloRule rule = hlo_rule_of(op.id)) return rule(context);
    if (op.id != OpId::own && (op.elementwise || op.id == OpId::astype || is_of_parts(op)))
      return {hlo_elementwise(b, op, inputs, types[0].dtype)};
    fail<TransformError>("write_stablehlo: {} ({}) cannot be written as StableHLO: {}", op.name,
                         types.empty() ? "" : notation(nullptr, types[0].dtype, types[0].shape, cpu),
                         hlo_reason_of_refusal(op.id));
  }
  static bool all_empty(const std::vector<HloType>& types) {
    for (const HloType& type : types)
      if (type.shape.elements() > 0) return false;
    return !types.empty();
  }
  // The results without the last one, which says whether checks hold, if there is one.
  static HloValues without_check(HloBuilder& b, HloValues results, std::size_t count) {
    if (results.size() > count) {
      const HloValue holds = results.back();
      results.pop_back();
      b.check([&] { return holds; });
    }
    return results;
  }

  // A loop carries its states, the stacks that it fills, those that it reads, and the still values.
  HloValues loop(HloBuilder& b, const LoopAttributes& of, HloSpan inputs, const std::vector<HloType>& types) {
    if (of.steps == 0) {
      HloValues found(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(of.states));
      for (std::size_t k = of.states; k < types.size(); ++k)
        found.push_back(b.number(0, types[k].dtype, types[k].shape));
      return found;
    }
    const Function& body = called(of.body, "body");
    const std::size_t states = of.states, rows = of.rows, given = of.rows_given();
    HloValues carried(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(states));
    for (std::size_t k = 0; k < given; ++k)
      carried.push_back(b.number(0, types[states + k].dtype, types[states + k].shape));
    carried.insert(carried.end(), inputs.begin() + static_cast<std::ptrdiff_t>(states), inputs.end());
    if (body.is_checked) carried.push_back(b.number(true, bool_));
    std::vector<HloType> body_types;
    for (std::size_t k = 0; k < states; ++k) body_types.push_back(types[k]);
    for (std::size_t k = 0; k < given; ++k)
      body_types.push_back({types[states + k].dtype, row_shape(types[states + k].shape)});
    HloValues found = hlo_loop(b, b.number(of.steps, int64), carried, [&](const HloValue& step, HloSpan now) {
      const HloValue at = of.reverse ? b.subtract(b.number(of.steps - 1, int64), step) : step;
      const auto starts = [&](const HloValue& stack) {
        HloValues list(stack.shape.size(), b.number(0, int64));
        list[0] = at;
        return list;
      };
      HloValues arguments(now.begin(), now.begin() + static_cast<std::ptrdiff_t>(states));
      const HloSpan read = now.subspan(states + given, rows),
                    still = now.subspan(states + given + rows, inputs.size() - states - rows);
      for (const HloValue& stack : read)
        arguments.push_back(
            b.reshape(b.dynamic_slice(stack, starts(stack), hlo_with(stack.shape, 0, 1)), row_shape(stack.shape)));
      arguments.insert(arguments.end(), still.begin(), still.end());
      HloValues next = call(b, body, arguments, body_types);
      for (std::size_t k = 0; k < given; ++k) {
        const HloValue& stack = now[states + k];
        const HloValue row = b.reshape(next[states + k], hlo_with(stack.shape, 0, 1));
        next[states + k] = b.dynamic_update_slice(stack, row, starts(stack));
      }
      const HloValue holds = body.is_checked ? next.back() : HloValue();
      next.resize(states + given);
      next.insert(next.end(), read.begin(), read.end());
      next.insert(next.end(), still.begin(), still.end());
      if (body.is_checked) next.push_back(b.both(now.back(), holds));
      return next;
    });
    if (body.is_checked) b.check([&] { return found.back(); });
    found.resize(types.size());
    return found;
  }
  static Shape row_shape(const Shape& stack) { return Shape(std::span<const Index>(stack.begin() + 1, stack.end())); }

  const std::string name_;
  const StableHloOptions& options_;
  // The key keeps the program alive, so that its address names no other program.
  std::map<std::shared_ptr<const Program>, Function> functions_;
  std::string others_;
  int count_ = 0;
};

// A name of MLIR without quotes.
std::string identifier(const std::string& name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  bool is_good = !name.empty() && !(name[0] >= '0' && name[0] <= '9');
  for (const char c : name) is_good = is_good && is_allowed(c);
  if (!is_good)
    fail<TransformError>("write_stablehlo: the name \"{}\" is not made of letters, digits and underscores", name);
  return name;
}

}  // namespace

void write_stablehlo_functions(std::ostream& out, const Program& program, const std::string& name,
                               const StableHloOptions& options) {
  out << ModuleWriter(identifier(name), options).text(program);
}

}  // namespace stave_detail

namespace stave {

void write_stablehlo(std::ostream& out, const Program& program, const StableHloOptions& options) {
  const std::string name = stave_detail::identifier(options.name);
  // Nothing is written if the program is refused.
  const std::string functions = stave_detail::ModuleWriter("main", options).text(program);
  out << "module @" << name << " {\n" << functions << "}\n";
}

}  // namespace stave
