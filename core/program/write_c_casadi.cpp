#include <stave/core/program/write_c_casadi.h>

#include <algorithm>
#include <map>
#include <ostream>

#include <stave/core/program/write_c_body.h>
#include <stave/core/program/write_c_text.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

constexpr const char* types = R"(#ifndef casadi_real
#define casadi_real double
#endif
#ifndef casadi_int
#define casadi_int long long int
#endif
)";
constexpr const char* visibility = R"(#ifndef CASADI_SYMBOL_EXPORT
#if defined(_WIN32) || defined(__CYGWIN__)
#define CASADI_SYMBOL_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define CASADI_SYMBOL_EXPORT __attribute__((visibility("default")))
#else
#define CASADI_SYMBOL_EXPORT
#endif
#endif
)";

// $f is the name of a function.
constexpr const char* prototypes =
    R"(int $f(const casadi_real** arg, casadi_real** res, casadi_int* iw, casadi_real* w, int mem);
int $f_alloc_mem(void);
int $f_init_mem(int mem);
void $f_free_mem(int mem);
int $f_checkout(void);
void $f_release(int mem);
void $f_incref(void);
void $f_decref(void);
casadi_int $f_n_in(void);
casadi_int $f_n_out(void);
casadi_real $f_default_in(casadi_int i);
const char* $f_name_in(casadi_int i);
const char* $f_name_out(casadi_int i);
const casadi_int* $f_sparsity_in(casadi_int i);
const casadi_int* $f_sparsity_out(casadi_int i);
int $f_work(casadi_int* sz_arg, casadi_int* sz_res, casadi_int* sz_iw, casadi_int* sz_w);
)";

// The generated function has no memory of its own, so nothing is allocated and no references are
// counted.
constexpr const char* memory = R"(CASADI_SYMBOL_EXPORT int $f_alloc_mem(void) { return 0; }
CASADI_SYMBOL_EXPORT int $f_init_mem(int mem) { (void)mem; return 0; }
CASADI_SYMBOL_EXPORT void $f_free_mem(int mem) { (void)mem; }
CASADI_SYMBOL_EXPORT int $f_checkout(void) { return 0; }
CASADI_SYMBOL_EXPORT void $f_release(int mem) { (void)mem; }
CASADI_SYMBOL_EXPORT void $f_incref(void) {}
CASADI_SYMBOL_EXPORT void $f_decref(void) {}
CASADI_SYMBOL_EXPORT casadi_real $f_default_in(casadi_int i) { (void)i; return 0; }
)";

constexpr const char* given = R"(/* x, or zeros if CasADi gave a null pointer. */
static const casadi_real* $f_given(const casadi_real* x, casadi_real* zeros, casadi_int n)
{
  casadi_int i;
  if (x != 0) return x;
  for (i = 0; i < n; ++i) zeros[i] = 0;
  return zeros;
}
)";

std::string with_name(std::string text, std::string_view name) {
  for (std::size_t at = 0; (at = text.find("$f", at)) != std::string::npos; at += name.size())
    text.replace(at, 2, name);
  return text;
}

class CasadiWriter {
 public:
  explicit CasadiWriter(const std::vector<CasadiFunction>& functions)
      : functions_(functions), prefix_(functions.front().name), c_functions_(prefix_) {}

  std::string text() {
    std::string bodies, text;
    for (const CasadiFunction& each : functions_) bodies += function(each);
    text += std::string("#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n\n") + types + "\n" +
            visibility + "\n";
    for (const CasadiFunction& each : functions_) text += with_name(prototypes, each.name);
    text += "\n";
    for (const std::string& part : {sparsities_, tables_, c_functions_.text(), with_name(given, prefix_)})
      if (!part.empty()) text += part + "\n";
    return text + bodies;
  }
  std::string declarations() const {
    std::string text = fmt::format("#ifndef STAVE_{0}_H\n#define STAVE_{0}_H\n\n{1}\n", prefix_, types);
    text += "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";
    for (const CasadiFunction& each : functions_) text += with_name(prototypes, each.name) + "\n";
    return text + "#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
  }

 private:
  static Index elements(const CasadiArgument& it) { return it.has_elements ? it.rows * it.columns : 0; }

  std::string function(const CasadiFunction& it) {
    return fmt::format("/* {} */\n", signature(it)) + computation(it) + entry(it) + with_name(memory, it.name) +
           list(it, "in", it.inputs) + list(it, "out", it.outputs) + "\n";
  }

  // "f:(x[4],u)->(next[4])", as CasADi prints it
  static std::string signature(const CasadiFunction& it) {
    const auto listed = [](const std::vector<CasadiArgument>& arguments) {
      std::string text;
      for (const CasadiArgument& each : arguments) {
        text += (text.empty() ? "" : ",") + each.name;
        if (each.columns != 1) text += fmt::format("[{}x{}]", each.rows, each.columns);
        else if (each.rows != 1) text += fmt::format("[{}]", each.rows);
      }
      return "(" + text + ")";
    };
    return it.name + ":" + listed(it.inputs) + "->" + listed(it.outputs);
  }

  // The static function f_compute, whose parameters are pointers to arrays.
  std::string computation(const CasadiFunction& it) {
    std::vector<std::string> inputs, outputs;
    std::string parameters;
    for (std::size_t i = 0; i < it.inputs.size(); ++i)
      if (it.inputs[i].has_elements) {
        inputs.push_back(fmt::format("in{}", i));
        parameters += fmt::format("const double* restrict in{}, ", i);
      }
    for (std::size_t i = 0; i < it.outputs.size(); ++i)
      if (it.outputs[i].has_elements) {
        outputs.push_back(fmt::format("out{}", i));
        parameters += fmt::format("double* restrict out{}, ", i);
      }
    std::string arrays;
    for (const CWorkspace& each : workspace_of(it.code))
      if (each.dtype != float64)
        arrays += fmt::format("  {} work_{}[{}];\n", c_type(each.dtype), each.name, each.elements);
    const CBody body = write_c_body(it.code, it.name, inputs, outputs, "work_{}", c_functions_);
    tables_ += body.tables;
    return fmt::format("static int {}_compute({}double* restrict work_float64)\n{{\n", it.name, parameters) + arrays +
           (work_elements(it.code) == 0 ? "  (void)work_float64;\n" : "") + body.statements + "}\n";
  }

  static Index work_elements(const Lowered& code) {
    for (const CWorkspace& each : workspace_of(code))
      if (each.dtype == float64) return each.elements;
    return 0;
  }

  // The function that CasADi calls, and f_work. The workspace w has that of f_compute, then zeros
  // that all null arguments share, then room for each result, which is used if CasADi gives a null
  // pointer for the result.
  std::string entry(const CasadiFunction& it) const {
    const Index zeros = work_elements(it.code);
    Index end = zeros;
    for (const CasadiArgument& each : it.inputs) end = std::max(end, zeros + elements(each));
    std::string arguments;
    for (std::size_t i = 0; i < it.inputs.size(); ++i)
      if (it.inputs[i].has_elements)
        arguments += fmt::format("{}_given(arg[{}], w + {}, {}), ", prefix_, i, zeros, elements(it.inputs[i]));
    for (std::size_t i = 0; i < it.outputs.size(); ++i)
      if (it.outputs[i].has_elements) {
        arguments += fmt::format("res[{0}] != 0 ? res[{0}] : w + {1}, ", i, end);
        end += elements(it.outputs[i]);
      }
    std::string text = fmt::format(
        "CASADI_SYMBOL_EXPORT int {}(const casadi_real** arg, casadi_real** res, casadi_int* iw, casadi_real* w, int "
        "mem)\n{{\n",
        it.name);
    if (arguments.find("arg[") == std::string::npos) text += "  (void)arg;\n";
    if (arguments.find("res[") == std::string::npos) text += "  (void)res;\n";
    text += fmt::format("  (void)iw;\n  (void)mem;\n  return {}_compute({}w);\n}}\n", it.name, arguments);
    text += fmt::format(
        "CASADI_SYMBOL_EXPORT int {}_work(casadi_int* sz_arg, casadi_int* sz_res, casadi_int* sz_iw, casadi_int* "
        "sz_w)\n{{\n",
        it.name);
    text += fmt::format("  if (sz_arg != 0) *sz_arg = {};\n  if (sz_res != 0) *sz_res = {};\n", it.inputs.size(),
                        it.outputs.size());
    return text + fmt::format("  if (sz_iw != 0) *sz_iw = 0;\n  if (sz_w != 0) *sz_w = {};\n  return 0;\n}}\n", end);
  }

  // The functions that describe the inputs ("in") or outputs ("out").
  std::string list(const CasadiFunction& it, const char* which, const std::vector<CasadiArgument>& arguments) {
    std::string names, patterns;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      names += fmt::format("    case {}: return {};\n", i, c_string(arguments[i].name));
      patterns += fmt::format("    case {}: return {};\n", i, sparsity(arguments[i]));
    }
    const auto by_number = [&](const char* type, const char* what, const std::string& cases) {
      return fmt::format(
          "CASADI_SYMBOL_EXPORT const {}* {}_{}_{}(casadi_int i)\n{{\n  switch (i) {{\n{}    default: return 0;\n  "
          "}}\n}}\n",
          type, it.name, what, which, cases);
    };
    return fmt::format("CASADI_SYMBOL_EXPORT casadi_int {}_n_{}(void) {{ return {}; }}\n", it.name, which,
                       arguments.size()) +
           by_number("char", "name", names) + by_number("casadi_int", "sparsity", patterns);
  }

  // Returns the name of the table of a sparsity pattern. The table has the numbers of rows and
  // columns, then 1 for a dense matrix, or the offsets of the columns, all 0, for a matrix without
  // elements.
  std::string sparsity(const CasadiArgument& it) {
    std::string numbers = fmt::format("{}, {}, ", it.rows, it.columns);
    if (it.has_elements) numbers += "1";
    else
      for (Index i = 0; i <= it.columns; ++i) numbers += i == 0 ? "0" : ", 0";
    const auto [found, is_new] = patterns_.try_emplace(numbers, fmt::format("{}_s{}", prefix_, patterns_.size()));
    if (is_new)
      sparsities_ += fmt::format("static const casadi_int {}[{}] = {{{}}};\n", found->second,
                                 std::count(numbers.begin(), numbers.end(), ',') + 1, numbers);
    return found->second;
  }

  const std::vector<CasadiFunction>& functions_;
  const std::string prefix_;
  CFunctions c_functions_;
  std::string sparsities_, tables_;
  std::map<std::string, std::string> patterns_;
};

}  // namespace

void write_c_casadi(std::ostream& out, std::ostream* header, const std::vector<CasadiFunction>& functions) {
  CasadiWriter writer(functions);
  const std::string title =
      fmt::format("/* {}: C99 with CasADi's interface, written by Stave. */\n", functions.front().name);
  out << title + "/* It rounds like the library only without -ffast-math and with -ffp-contract=off. */\n" +
             writer.text();
  if (header) *header << title + writer.declarations();
}

}  // namespace stave_detail
