#include <stave/core/program/write_c_plain.h>

#include <algorithm>
#include <ostream>

#include <stave/core/program/write_c_body.h>
#include <stave/core/program/write_c_text.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

std::vector<std::string> chosen_names(CNames& names, const std::vector<std::string>& given, std::size_t count,
                                      const std::vector<std::string>& labels, const char* base, const char* what,
                                      const std::string& prefix) {
  if (!given.empty() && given.size() != count)
    fail<TransformError>("write_c: {} names of {} are given, but there are {}", given.size(), what, count);
  std::vector<std::string> chosen;
  for (std::size_t i = 0; i < count; ++i) {
    std::string name = i < given.size() ? given[i] : "";
    if (name.empty() && i < labels.size()) name = labels[i];
    const bool is_own = name.starts_with(prefix);  // perhaps the name of a function in the file
    chosen.push_back(names.choose(name.empty() ? fmt::format("{}{}", base, i) : (is_own ? "x_" : "") + name));
  }
  return chosen;
}

class PlainWriter {
 public:
  PlainWriter(const Lowered& code, const CSignature& signature)
      : code_(code), signature_(signature), name_(signature.name), workspace_(workspace_of(code)) {}

  // The text of a header between its include guards.
  std::string declarations() const {
    std::string text = "#include <stdbool.h>\n#include <stdint.h>\n\n";
    text += "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";
    text += constants();
    text += "/* Memory that a call may use as it likes. */\ntypedef struct " + name_ + "_workspace {\n";
    for (const CWorkspace& it : workspace_)
      text += fmt::format("  {} {}[{}];\n", c_type(it.dtype), it.name, it.elements);
    if (workspace_.empty()) text += "  char unused;\n";
    text += fmt::format("}} {0}_workspace;\n#define {0}_work_size sizeof({0}_workspace)\n\n", name_);
    text += contract() + prototype(false) + ";\n";
    if (!code_.errors.empty())
      text += fmt::format(
          "\n/* What a nonzero result of {0} means; \"\" for others. */\nconst char* {0}_error(int error);\n", name_);
    return text + "\n#ifdef __cplusplus\n}\n#endif\n";
  }
  std::string guarded_declarations() const {
    const std::string guard = "STAVE_" + name_ + "_H";
    return fmt::format("#ifndef {0}\n#define {0}\n\n{1}\n#endif\n", guard, declarations());
  }
  std::string definitions() const {
    CFunctions functions(name_);
    const CBody body = write_c_body(code_, name_, signature_.inputs, signature_.outputs, "work->{}", functions);
    std::string text;
    for (const std::string& part : {body.tables, functions.text()})
      if (!part.empty()) text += part + "\n";
    text += prototype(true) + "\n{\n";
    if (workspace_.empty()) text += "  (void)work;\n";
    text += body.statements + "}\n";
    return text + errors();
  }

 private:
  std::string constants() const {
    std::string text =
        "/* The numbers of arguments, of the elements of each, and the lengths of its axes. Arrays are\n   row-major. "
        "*/\n";
    text += fmt::format("#define {}_inputs {}\n#define {}_outputs {}\n", name_, code_.inputs(), name_, code_.outputs());
    each_argument([&](const std::string& name, Dtype dtype, const Shape& shape, bool, bool is_complex_array) {
      text += fmt::format("#define {}_{}_size {} /* {} */\n", name_, name, shape.elements(),
                          is_complex_array ? complex_text(dtype, shape) : type_text(dtype, shape));
      if (shape.rank() == 0) return;
      text += fmt::format("#define {}_{}_shape {{", name_, name);
      for (int axis = 0; axis < shape.rank(); ++axis)
        text += fmt::format("{}{}", axis > 0 ? ", " : "", shape[static_cast<std::size_t>(axis)]);
      text += "}\n";
    });
    text += names_of("input", signature_.inputs) + names_of("output", signature_.outputs);
    return text + "\n";
  }
  // "complex128[3] as pairs of double"
  static std::string complex_text(Dtype parts, Shape shape) {
    shape.pop_back();
    return fmt::format("{} as pairs of {}", type_text(complex_of(parts), shape), c_type(parts));
  }
  std::string names_of(const char* what, const std::vector<std::string>& names) const {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + c_string(name);
    return text.empty() ? "" : fmt::format("#define {}_{}_names {{{}}}\n", name_, what, text);
  }

  std::string contract() const {
    std::string text = "/* ";
    if (!code_.outputs()) text += "Computes nothing.\n";
    else
      text += "Computes " + listed(signature_.outputs) + (code_.inputs() ? " from " + listed(signature_.inputs) : "") +
              ".\n";
    if (code_.errors.empty()) text += "   Returns 0.";
    else text += "   Returns 0, or the number of an error; then the outputs are undefined:";
    for (std::size_t i = 0; i < code_.errors.size(); ++i)
      text += fmt::format("\n     {}  {}", i + 1, c_comment(code_.errors[i]));
    const auto has_complex = [](const std::vector<bool>& is_complex_array) {
      return std::find(is_complex_array.begin(), is_complex_array.end(), true) != is_complex_array.end();
    };
    if (has_complex(code_.complex_inputs) || has_complex(code_.complex_outputs))
      text +=
          "\n   The last axis of a complex array is the real and the imaginary part: the memory is that of\n   C's "
          "double _Complex or float _Complex, to which a pointer may be converted.";
    text += "\n   No output may overlap another array.";
    if (workspace_.empty()) text += " `work` is not used and may be a null pointer.";
    return text + " */\n";
  }
  static std::string listed(const std::vector<std::string>& names) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i)
      text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
    return text;
  }

  std::string prototype(bool is_definition) const {
    std::string text = "int " + name_ + "(";
    const char* const pointer = is_definition ? "* restrict " : "* ";
    each_argument([&](const std::string& name, Dtype dtype, const Shape&, bool is_input, bool) {
      text += fmt::format("{}{}{}{}, ", is_input ? "const " : "", c_type(dtype), pointer, name);
    });
    return text + name_ + "_workspace" + pointer + "work)";
  }

  std::string errors() const {
    if (code_.errors.empty()) return {};
    std::string text = fmt::format("\nconst char* {}_error(int error)\n{{\n  switch (error) {{\n", name_);
    for (std::size_t i = 0; i < code_.errors.size(); ++i)
      text += fmt::format("    case {}: return {};\n", i + 1, c_string(code_.errors[i]));
    return text + "    default: return \"\";\n  }\n}\n";
  }

  static bool is_true(const std::vector<bool>& flags, std::size_t i) { return i < flags.size() && flags[i]; }
  template <class F>
  void each_argument(F&& f) const {
    for (std::size_t i = 0; i < code_.inputs(); ++i)
      f(signature_.inputs[i], code_.buffers[i].dtype, code_.input_shapes[i], true, is_true(code_.complex_inputs, i));
    for (std::size_t i = 0; i < code_.outputs(); ++i)
      f(signature_.outputs[i], code_.buffers[code_.inputs() + i].dtype, code_.output_shapes[i], false,
        is_true(code_.complex_outputs, i));
  }

  const Lowered& code_;
  const CSignature& signature_;
  const std::string& name_;
  const std::vector<CWorkspace> workspace_;
};

}  // namespace

CSignature checked(CSignature signature, const std::vector<std::string>& input_labels, std::size_t outputs) {
  if (!is_c_identifier(signature.name))
    fail<TransformError>("write_c: \"{}\" is not a name of C: give one as .name", signature.name);
  if (is_taken_by_c_library(signature.name))
    fail<TransformError>("write_c: \"{}\" is a name of the C library: give another one as .name", signature.name);
  CNames names;
  signature.inputs =
      chosen_names(names, signature.inputs, input_labels.size(), input_labels, "in", "inputs", signature.name + "_");
  signature.outputs = chosen_names(names, signature.outputs, outputs, {}, "out", "outputs", signature.name + "_");
  return signature;
}

void write_c_plain(std::ostream& out, std::ostream* header, const Lowered& code, CSignature signature) {
  signature = checked(std::move(signature), code.input_labels, code.outputs());
  const PlainWriter writer(code, signature);
  const std::string title = fmt::format("/* {}: C99, written by Stave. */\n", signature.name);
  const std::string declarations = writer.guarded_declarations();
  out << title + "/* It rounds like the library only without -ffast-math and with -ffp-contract=off. */\n" +
             declarations + "\n#include <math.h>\n\n" + writer.definitions();
  if (header) *header << title + declarations;
}

}  // namespace stave_detail
