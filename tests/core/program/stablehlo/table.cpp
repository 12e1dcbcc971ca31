// stablehlo_table: writes all rows of the table of operations as StableHLO, with their gradients,
// runs them by jaxlib, and compares values with the table's references and gradients with the
// library's own. A program that is refused is counted and named.
//
//   stablehlo_table                 all operations, in all dtypes that the table has
//   stablehlo_table NAME            all programs of a row
//   stablehlo_table --part K/N      all programs of the rows K, K + N, ..., counted from 1
//   stablehlo_table --markdown      docs/stablehlo_operations.md
//   stablehlo_table --documented    checks that docs/stablehlo_operations.md is up to date
//
// Many programs are one module, since starting the compiler takes longer than a program of a row.
// The table has many more programs than operations. So without a NAME, a program runs only if it
// has an operation on dtypes that no earlier program had. --part 1/1 runs all programs.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>

#include <stave/core/program/fused.h>
#include <stave/core/program/passes/passes.h>
#include <stave/handlers/compile/record.h>
#include <stave/handlers/transforms/vjp_flat.h>

#include "core/program/stablehlo/modules.h"
#include "table/run.h"

namespace {

using namespace table;
using stave_test::HloProgram, stave_test::HloRun;

// What each operation becomes: the operations of StableHLO in the texts of single instructions.
class Documentation {
 public:
  void add(const stave::Program& program) {
    for (const stave::Program::Instruction& it : program.instructions)
      if (it.op && it.op->id < stave::OpId::call && !is_half(program, it)) add(program, it);
  }
  std::string markdown() const {
    std::string text = introduction;
    for (const Op* const op : stave::all_ops()) {
      if (op->id == stave::OpId::call) continue;
      const std::string of_reals = reals_.cell(op->name), of_complex = complex_.cell(op->name);
      const bool is_same = !of_complex.empty() && of_complex == of_reals;
      text += "| `" + std::string(op->name) + "` | " + of_reals + " | " + (is_same ? "the same" : of_complex) + " |\n";
    }
    return text;
  }

 private:
  static constexpr const char* introduction = R"(# Operations in StableHLO

What [write_stablehlo](guides/stablehlo.md) writes for each operation: the operations of StableHLO, besides constants, that its text
is made of, over all dtypes but those of sixteen bits, which are computed in float32. Written by `stablehlo_table --markdown >
docs/stablehlo_operations.md`: what stands here is found by writing each operation of the table of operations, and a test fails where it
no longer holds. The last column is for operands or results that are complex.

Loops become `while`, calls of functions `call`, and fused operations what their steps become.

| operation | StableHLO | of complex numbers |
|---|---|---|
)";

  // The operations of StableHLO that each operation becomes.
  struct Found {
    std::map<std::string, std::set<std::string>> operations{};
    std::map<std::string, std::string> refusals{};

    std::string cell(const char* name) const {
      if (const auto refusal = refusals.find(name); refusal != refusals.end()) return "refused: " + refusal->second;
      const auto found = operations.find(name);
      if (found == operations.end()) return "";
      return found->second.empty() ? "its operand, or a constant" : listed(found->second);
    }
  };

  static bool is_half(const stave::Program& program, const stave::Program::Instruction& it) {
    const auto half = [&](int variable) { return is_half_float(program.variable(variable).dtype); };
    return std::any_of(it.inputs.begin(), it.inputs.end(), half) ||
           std::any_of(it.outputs.begin(), it.outputs.end(), half);
  }
  static std::string listed(const std::set<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + ("`" + name + "`");
    return text;
  }

  void add(const stave::Program& program, const stave::Program::Instruction& it) {
    stave::Program one;
    stave::Program::Instruction step = it;
    step.barrier = 0;
    const auto variable = [&](int given) {
      return one.add_variable(program.variable(given).shape, program.variable(given).dtype);
    };
    for (int& input : step.inputs) one.inputs.push_back(input = variable(input));
    for (int& output : step.outputs) one.outputs.push_back(output = variable(output));
    one.instructions.push_back(step);
    const auto has_complex = [&](int given) { return is_complex(one.variable(given).dtype); };
    Found& found = std::any_of(step.inputs.begin(), step.inputs.end(), has_complex) ||
                           std::any_of(step.outputs.begin(), step.outputs.end(), has_complex)
                       ? complex_
                       : reals_;
    std::ostringstream out;
    try {
      write_stablehlo(out, one);
    } catch (const stave::TransformError& error) {
      const std::string text = error.what(), before = "as StableHLO: ";
      found.refusals[it.op->name] = text.substr(text.find(before) + before.size());
      return;
    }
    const std::string text = out.str(), prefix = "stablehlo.";
    // An operation that needs no others has an empty set.
    std::set<std::string>& operations = found.operations[it.op->name];
    for (std::size_t at = text.find(prefix); at != text.npos; at = text.find(prefix, at + 1)) {
      const std::size_t first = at + prefix.size(), end = text.find_first_of(" \"(<", first);
      const std::string name = text.substr(first, end - first);
      const bool is_attribute = at > 0 && text[at - 1] == '#';
      if (!is_attribute && name != "constant" && name != "return") operations.insert(name);
    }
  }

  Found reals_, complex_;
};

Documentation documentation;

/// A program, and what it must compute.
struct Compared {
  HloProgram program;
  Arrays expected;
  Kind kind;
  Real unit;
};

class Comparison {
 public:
  using Function = std::function<Outputs(std::span<const Tensor>)>;

  explicit Comparison(bool takes_all) : takes_all_(takes_all) {}

  // `expected` is called if the program runs.
  void add(const std::string& where, const Function& f, const std::vector<Tensor>& inputs, Kind kind, Real unit,
           const std::function<Arrays()>& expected) {
    stave::Program program = stave_detail::record("stablehlo_table", f, inputs).program;
    if (std::count(program.outputs.begin(), program.outputs.end(), -1) > 0) return;
    if (only_documents) return documentation.add(program);
    // A program is optimised in every other case, so that fused operations are written too.
    if (programs_.size() % 2 == 1) program = optimized(program);
    if (!has_new_instruction(program) && !takes_all_) return;
    const bool reads = stave_detail::has_read(program.instructions);
    HloProgram it{where, std::move(program), inputs, {.checks = reads}};
    try {
      std::ostringstream text;
      write_stablehlo(text, it.program, it.options);
    } catch (const stave::TransformError& error) {
      const std::string text = error.what();
      ++refused[text.substr(0, text.find(" ("))];
      return;
    }
    programs_.push_back({std::move(it), expected(), kind, unit});
  }

  // Runs the programs and compares what they compute. Returns false if there is no jax.
  bool compare_all() {
    if (!run(most)) return false;
    // The programs of modules that do not compile, one by one.
    const std::vector<Compared> all = std::exchange(programs_, std::exchange(again_, {}));
    if (!programs_.empty() && !run(1)) return false;
    for (const Compared& it : again_) report.fail(it.program.name, "the module does not compile or run");
    return true;
  }

  std::size_t size() const { return programs_.size(); }

  bool only_documents = false;  // the programs are documented, and not run
  int compared = 0;
  std::map<std::string, int> refused;  // for each reason, the number of programs
  Report report;

 private:
  static constexpr std::size_t most = 40;

  static std::string kind_of(const stave::Op& op, Dtype dtype) {
    return std::string(op.name) + " " + stave::name_of(dtype);
  }
  // The operations of an instruction, with the dtypes of their operands. The numbers in attributes
  // do not matter.
  static std::vector<std::string> kinds_of(const stave::Program& program, const stave::Program::Instruction& it) {
    std::vector<std::string> kinds;
    if (const auto* const fused = dynamic_cast<const stave::FusedAttributes*>(it.attributes.get())) {
      for (const stave::Region::Step& step : fused->region->steps())
        if (step.op) kinds.push_back(kind_of(*step.op, fused->region->dtype(step.operands[0])));
      for (const stave::Region::Reduction& reduction : fused->region->reductions())
        kinds.push_back("fused " + kind_of(*reduction.op, fused->region->dtype(reduction.value)));
      return kinds;
    }
    std::string text = it.op ? it.op->name : "read";
    for (const char c : it.attributes ? it.attributes->str() : "")
      if (std::isdigit(static_cast<unsigned char>(c)) == 0 && c != ',' && c != '-') text += c;
    for (const int input : it.inputs) text += std::string(" ") + stave::name_of(program.variable(input).dtype);
    return {text};
  }
  bool has_new_instruction(const stave::Program& program) {
    bool found = false;
    for (const auto& it : program.instructions)
      for (const std::string& kind : kinds_of(program, it)) found |= seen_.insert(kind).second;
    return found;
  }

  bool run(std::size_t per_module) {
    stave_test::HloModules modules;
    std::vector<std::vector<HloProgram>> batches;
    for (std::size_t i = 0; i < programs_.size(); i += per_module) {
      std::vector<HloProgram>& batch = batches.emplace_back();
      for (std::size_t k = i; k < std::min(i + per_module, programs_.size()); ++k)
        batch.push_back(programs_[k].program);
      modules.add("m" + std::to_string(batches.size()), batch);
    }
    if (!modules.run()) return false;
    std::size_t at = 0;
    for (std::size_t k = 0; k < batches.size(); ++k)
      for (const HloRun& run : modules.results("m" + std::to_string(k + 1), batches[k]))
        check(programs_[at++], run, per_module == 1);
    return true;
  }

  void check(const Compared& it, const HloRun& run, bool is_alone) {
    if (!run.error.empty()) {
      if (is_alone) report.fail(it.program.name, run.error);
      else again_.push_back(it);
      return;
    }
    ++compared;
    std::vector<Tensor> outputs = run.outputs;
    if (it.program.options.checks) {
      if (!static_cast<bool>(outputs.back())) report.fail(it.program.name, "a check failed");
      outputs.pop_back();
    }
    try {
      compare("StableHLO", it.kind, to_arrays(outputs), it.expected, it.unit);
    } catch (const std::exception& error) {
      report.fail(it.program.name, error.what());
    }
  }

  const bool takes_all_;
  std::set<std::string> seen_;
  std::vector<Compared> programs_, again_;
};

void run_case(const Case& c, const std::string& where, Comparison& comparison);

void document() {
  Comparison comparison(true);
  comparison.only_documents = true;
  for (const Row& row : all_rows())
    for (const Dtype dtype : row.dtypes)
      if (!is_half_float(dtype))
        for (const Variant& variant : row.variants(dtype))
          run_case(Case(row, variant, dtype, layouts_of(variant).front()), "", comparison);
}

int check_document() {
  const std::string path = STAVE_SOURCE_DIR "/docs/stablehlo_operations.md", expected = documentation.markdown();
  if (stave_test::bytes_of(path) == expected) return 0;
  std::printf("%s is out of date. Write it anew: stablehlo_table --markdown > docs/stablehlo_operations.md\n",
              path.c_str());
  return 1;
}

void run_case(const Case& c, const std::string& where, Comparison& comparison) {
  if (!c.variant.refusal.empty()) return;
  const Real unit = 2 * std::max<Real>(accuracy_here(c.row), 4);
  try {
    comparison.add(
        where, [&](std::span<const Tensor> xs) { return c.call(xs); }, c.tensors, Kind::value, unit,
        [&] { return c.variant.reference(c.arrays); });
    if (c.active.empty() || !is_float(c.dtype)) return;
    const std::vector<Tensor> primals = c.active_of(c.tensors);
    Random random(c.seed + "/stablehlo");
    const Arrays outputs = to_arrays(c.call_active(primals));
    const std::vector<Tensor> cotangents = cotangents_for(outputs, random.weights_like(outputs));
    if (std::any_of(cotangents.begin(), cotangents.end(), [](const Tensor& x) { return !x.defined(); })) return;
    const auto gradient = [&](std::span<const Tensor> xs) {
      stave::FlatVjp vjp = stave::vjp_flat([&](std::span<const Tensor> ys) { return c.call_active(ys); },
                                           xs.first(primals.size()), "vjp");
      const std::vector<Tensor> found = vjp.pullback.consume(xs.subspan(primals.size()));
      return Outputs(found.begin(), found.end());
    };
    const std::vector<Tensor> inputs = joined(primals, cotangents);
    comparison.add(where + ", vjp", gradient, inputs, Kind::first, unit, [&] { return to_arrays(gradient(inputs)); });
  } catch (const std::exception& error) {
    comparison.report.fail(where, error.what());
  }
}

void run_row(const Row& row, Comparison& comparison) {
  for (const Dtype dtype : row.dtypes) {
    for (const Variant& variant : row.variants(dtype)) {
      const Case c(row, variant, dtype, layouts_of(variant).front());
      run_case(c, row.name + " " + variant.name + ", " + stave::name_of(dtype), comparison);
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  std::setbuf(stdout, nullptr);
  const std::string_view only = argc > 1 ? argv[1] : "";
  int part = 0, parts = 0, number = 0;
  if (only == "--part" && (argc != 3 || std::sscanf(argv[2], "%d/%d", &part, &parts) != 2 || parts < 1))
    return std::fprintf(stderr, "stablehlo_table: --part needs K/N\n"), 2;
  if (only == "--markdown" || only == "--documented") {
    document();
    if (only == "--documented") return check_document();
    return std::fputs(documentation.markdown().c_str(), stdout) < 0;
  }
  Comparison comparison(!only.empty());
  for (const Row& row : all_rows())
    if (only.empty() || row.name == only || (parts > 0 && ++number % parts == part % parts)) run_row(row, comparison);
  std::printf("running %zu programs\n", comparison.size());
  if (!comparison.compare_all()) return stave_test::no_jax;
  for (const auto& [reason, programs] : comparison.refused) std::printf("%d times: %s\n", programs, reason.c_str());
  std::printf("programs %d  failures %d\n", comparison.compared, comparison.report.failures);
  return comparison.report.failures || comparison.compared == 0 ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "stablehlo_table: %s\n", error.what());
  return 2;
}
