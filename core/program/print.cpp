// Writes a Program as text for people, as a graph for Graphviz, and as JSON for other programs.
#include <ostream>

#include <stave/core/op/notation.h>
#include <stave/core/program/dataflow.h>
#include <stave/core/program/fused.h>
#include <stave/core/program/loop.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>
#include <stave/core/tensor/utf8.h>

namespace stave {

using namespace stave_detail;

namespace {

class Writer {
 public:
  explicit Writer(const Program& program) : program_(program), names_(program) {
    int next = 0;
    for (const Program::Constant& constant : program.constants)
      if (is_one_number(constant.value)) names_[constant.variable] = number(constant.value);
    const auto give = [&](int variable) {
      if (std::string& given = names_[variable]; given.empty()) given = name_of_value(next++);
    };
    for (const int input : program.inputs) give(input);
    for (const Program::Constant& constant : program.constants) give(constant.variable);
    for (const auto& step : program.instructions)
      for (const int output : step.outputs) give(output);
  }

  std::string text(const std::string& indent) const {
    std::string lines = indent;
    for (const int input : program_.inputs) lines += typed(input) + " ";
    lines += "->\n";
    for (const Program::Constant& constant : program_.constants)
      if (!is_one_number(constant.value)) lines += fmt::format("{}  {} = constant\n", indent, typed(constant.variable));
    for (const auto& step : program_.instructions) lines += line(step, indent + "  ");
    lines += indent + "  in";
    for (const int output : program_.outputs) lines += " " + (output < 0 ? "nothing" : names_[output]);
    return lines + "\n";
  }

  void dot(std::ostream& out) const {
    out << "digraph stave {\n  node [fontname=\"Helvetica\", fontsize=10];\n";
    const auto oval = [&](int variable, const char* what) {
      out << "  v" << variable << " [shape=oval, label=" << in_dot_quotes(what + typed(variable)) << "];\n";
    };
    for (const int input : program_.inputs) oval(input, "");
    for (const Program::Constant& constant : program_.constants) oval(constant.variable, "constant ");
    PerVariable<std::string> made_by(program_);
    for (const int input : program_.inputs) made_by[input] = fmt::format("v{}", input);
    for (const Program::Constant& constant : program_.constants)
      made_by[constant.variable] = fmt::format("v{}", constant.variable);
    for (std::size_t k = 0; k < program_.instructions.size(); ++k) {
      const auto& step = program_.instructions[k];
      std::string box = what(step);
      for (const int output : step.outputs) box += "\n" + typed(output);
      out << "  n" << k << " [shape=box, label=" << in_dot_quotes(box) << "];\n";
      for (const int input : step.inputs) out << "  " << made_by[input] << " -> n" << k << ";\n";
      for (const int output : step.outputs) made_by[output] = fmt::format("n{}", k);
    }
    for (std::size_t i = 0; i < program_.outputs.size(); ++i)
      if (const int output = program_.outputs[i]; output >= 0)
        out << "  o" << i << " [shape=oval, label=" << in_dot_quotes(fmt::format("result {}", i)) << "];\n  "
            << made_by[output] << " -> o" << i << ";\n";
    out << "}\n";
  }

  void json(std::ostream& out) const {
    out << "{\"inputs\": " << variables(program_.inputs) << ",\n \"constants\": [";
    for (std::size_t i = 0; i < program_.constants.size(); ++i)
      out << (i ? ", " : "") << described(program_.constants[i].variable);
    out << "],\n \"instructions\": [";
    for (std::size_t k = 0; k < program_.instructions.size(); ++k) {
      const auto& step = program_.instructions[k];
      out << (k ? ",\n  " : "\n  ") << "{\"op\": " << in_json_quotes(step.is_read() ? "read" : step.op->name);
      if (step.attributes) out << ", \"attributes\": " << in_json_quotes(step.attributes->str());
      out << ", \"inputs\": " << numbers(step.inputs) << ", \"outputs\": " << variables(step.outputs);
      if (step.scopes) out << ", \"scope\": " << in_json_quotes(scope(step));
      if (const LoopAttributes* loop = loop_of(step)) {
        out << ", \"body\": ";
        Writer(*loop->body).json(out);
      }
      out << "}";
    }
    out << "],\n \"outputs\": " << numbers(program_.outputs) << "}\n";
  }

 private:
  std::string typed(int variable) const {
    const Program::Variable& it = program_.variable(variable);
    return fmt::format("{}:{}{}", names_[variable], notation(nullptr, it.dtype, it.shape, it.device),
                       it.label ? fmt::format(" \"{}\"", it.label->text) : "");
  }
  static std::string number(const Tensor& value) { return one_number(value).str(); }
  static std::string what(const Program::Instruction& step) {
    if (step.is_read()) return "read";
    const std::string attributes = step.attributes ? step.attributes->str() : "";
    return step.op->name + (attributes.empty() ? "" : " " + attributes);
  }
  static std::string scope(const Program::Instruction& step) {
    std::string path;
    for (auto at = step.scopes->names.rbegin(); at != step.scopes->names.rend(); ++at)
      path += (path.empty() ? "" : "/") + (*at)->text;
    return path;
  }

  std::string line(const Program::Instruction& step, const std::string& indent) const {
    std::string text = indent;
    if (step.is_read()) {
      text += fmt::format("read {}: {}", names_[step.inputs[0]],
                          step.read_value.size() <= 8 ? step.read_value.str() : "an array of that time");
    } else {
      for (const int output : step.outputs) text += typed(output) + " ";
      text += fmt::format("= {}", step.op->name);
      for (const int input : step.inputs) text += " " + names_[input];
      if (step.attributes)
        if (const std::string attributes = step.attributes->str(); !attributes.empty()) text += " " + attributes;
    }
    if (step.scopes) text += " @" + scope(step);
    text += "\n";
    if (const auto* functions = dynamic_cast<const RecordedFunctions*>(step.attributes.get()))
      text += Writer(*functions->function).text(indent + "  ");
    if (const LoopAttributes* loop = loop_of(step)) text += Writer(*loop->body).text(indent + "  ");
    return text;
  }

  std::string described(int variable) const {
    const Program::Variable& it = program_.variable(variable);
    return fmt::format(R"({{"variable": {}, "dtype": "{}", "shape": {}, "device": "{}"{}}})", variable,
                       name_of(it.dtype), it.shape.str(), it.device.str(),
                       it.label ? ", \"label\": " + in_json_quotes(it.label->text) : "");
  }
  template <class Variables>
  std::string variables(const Variables& numbers) const {
    std::string list = "[";
    for (const int variable : numbers) list += (list.size() > 1 ? ", " : "") + described(variable);
    return list + "]";
  }
  template <class Variables>
  static std::string numbers(const Variables& numbers) {
    std::string list = "[";
    for (const int variable : numbers) list += (list.size() > 1 ? ", " : "") + std::to_string(variable);
    return list + "]";
  }

  const Program& program_;
  PerVariable<std::string> names_;
};

}  // namespace

std::string Program::str() const { return Writer(*this).text(""); }
void Program::write_dot(std::ostream& out) const { Writer(*this).dot(out); }
void Program::write_json(std::ostream& out) const { Writer(*this).json(out); }
std::ostream& operator<<(std::ostream& out, const Program& program) { return out << program.str(); }

}  // namespace stave
