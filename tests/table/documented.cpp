// Generates docs/operations.md: what each function and operation admits, found by trying.
// Start reading at `markdown`.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

#include "cuda_drivers.h"
#include "table/run.h"
#include "table/tried.h"

namespace table {

namespace {

const char* const path = STAVE_SOURCE_DIR "/docs/operations.md";

const char* const introduction = R"(# Operations

Written by `operation_table --markdown > docs/operations.md`: what stands here is found by trying, and a test fails where it no longer holds.

)";

const char* const about_functions = R"(## Functions

For each function of [core/ops](../core/ops) the dtypes that it admits; by which operands it has derivatives, counted from 0, in both
modes (one that is zero everywhere is none); whether it can be computed under `vmap`; and what computes it on each backend: a
**kernel** of its own, a **view** of its operand, or what it is **composed** of. Where CUDA has **none**, the inputs go to the CPU by
`to(x, cpu)`. **all** are the real dtypes. **complex** stands where the table of tests has rows of complex operands; functions that only
create, move or select elements take them, too.
)";

const char* const about_operations = R"(
## Operations

What handlers see ([core/op/all_ops.h](../core/op/all_ops.h)), in which dtypes the functions above perform it, and the rules of its
record. Where a record declares the structure, no rule is needed: the tangent of a **linear** operation is the operation itself on the
tangent, of a **bilinear** one the sum of two; **zero** are derivatives of what is piecewise constant or gives no floats; **itself** is a
batching rule that performs the operation itself on all lanes.

| operation | dtypes | JVP | VJP | batching | CPU | CUDA |
|---|---|---|---|---|---|---|
)";

// ---- words -------------------------------------------------------------------------------------

/// "all" for the real dtypes, "numbers", or the names of the groups and dtypes in the set.
std::string words_for(std::set<Dtype> dtypes) {
  const auto take = [&](const std::vector<Dtype>& group) {
    const auto has = [&](Dtype dtype) { return dtypes.contains(dtype); };
    if (!std::ranges::all_of(group, has)) return false;
    for (Dtype dtype : group) dtypes.erase(dtype);
    return true;
  };
  const bool has_complex = take({stave::complex64, stave::complex128});
  if (take(all_dtypes)) return has_complex ? "all, complex" : "all";
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : ", ") + word; };
  if (dtypes.erase(stave::bool_)) add("bool");
  if (take(number_dtypes)) add("numbers");
  if (take(integer_dtypes)) add("integers");
  if (take(float_dtypes)) add("floats");
  for (Dtype dtype : dtypes) add(stave::name_of(dtype));
  if (has_complex) add("complex");
  return words.empty() ? "none" : words;
}

std::string words_for_derivatives(const Row& row, const Tried& tried) {
  if (tried.by_operand.empty()) return "no operand of floats";
  if (!tried.float_results) return "none: no result of floats";
  std::string with, without;
  for (const auto& [operand, found] : tried.by_operand) {
    std::string& list = found.jvp && found.vjp ? with : without;
    list += (list.empty() ? "" : ", ") + std::to_string(operand);
  }
  std::map<std::string, std::string> reasons;
  for (const auto& [operand, why] : row.no_derivative)
    reasons[why] += (reasons[why].empty() ? "" : ", ") + std::to_string(operand);
  std::string words = without.empty() ? "yes" : with.empty() ? "none" : "by operand " + with;
  for (const auto& [why, operands] : reasons) words += (with.empty() ? ": " : "; none by " + operands + ": ") + why;
  return words;
}

std::string line(std::initializer_list<std::string> cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += " " + cell + " |";
  return text + "\n";
}

/// The name as code in a table cell, where an unescaped bar would end the cell.
std::string code(const std::string& name) {
  std::string text;
  for (char c : name) text += c == '|' ? std::string("\\|") : std::string(1, c);
  return "`" + text + "`";
}

// ---- backends ----------------------------------------------------------------------------------

bool is_listed(const std::string& name) {
  return std::ranges::any_of(all_ops(), [&](const Op* op) { return op->name == name; });
}

class Backends {
 public:
  /// The word for an operation. An operation that has a view, and never requests a kernel,
  /// needs no kernel.
  std::string cpu(const Op& op) const {
    if (op.is_higher_order) return "composed";
    return op.view && !elsewhere_.anywhere(op.name) ? "view" : "kernel";
  }
  std::string cuda(const Op& op) const {
    const std::string on_cpu = cpu(op);
    return on_cpu != "kernel" || drivers_.contains(op.name) ? on_cpu : "none";
  }

  /// The word for a function.
  std::string cpu(const Row& row, const Tried& tried) const {
    if (is_region(tried)) return "kernel";
    return words(row, tried, [this](const Op& op) { return cpu(op); });
  }
  std::string cuda(const Row& row, const Tried& tried) const {
    for (const std::string& operation : elsewhere_.of(row))
      if (!drivers_.contains(operation)) return "none";
    if (is_region(tried)) return "kernel";
    // Where the operation that a function performs on the CPU has no kernel,
    // the function may perform other operations.
    return words(row, tried, [this](const Op& op) { return cuda(op) == "none" ? "composed" : cuda(op); });
  }

 private:
  static bool is_region(const Tried& tried) {
    return !std::ranges::all_of(tried.performed, [](const std::string& name) { return is_listed(name); });
  }
  template <class F>
  std::string words(const Row& row, const Tried& tried, F word_for) const {
    bool views = true;
    for (const Op* op : all_ops()) {
      if (!tried.performed.contains(op->name)) continue;
      if (op->name == row.name) return word_for(*op);
      views = views && cpu(*op) == "view";
    }
    return tried.performed.empty() ? "no operation" : views ? "view" : "composed";
  }

  const Elsewhere elsewhere_;
  const std::set<std::string> drivers_ = stave_test::cuda_drivers();
};

// ---- rules -------------------------------------------------------------------------------------

std::string jvp_of(const Op& op) {
  using enum stave::Derivative;
  if (op.is_higher_order) return "of its functions";
  if (op.derivative == zero) return "zero";
  if (op.derivative == linear) return "linear";
  if (op.derivative == bilinear) return "bilinear";
  return op.jvp ? "rule" : "none";
}
std::string vjp_of(const Op& op) {
  if (op.is_higher_order) return "of its functions";
  if (op.derivative == stave::Derivative::zero) return "zero";
  return op.vjp ? "rule" : "none";
}
std::string batching_of(const Op& op, bool operands) {
  if (!operands) return "no operand";
  if (op.is_higher_order) return "of its functions";
  if (op.batch == stave::batch_in_front || op.batch == stave::batch_elementwise) return "itself";
  return op.batch ? "rule" : "none";
}

std::string names_of(const Row& row) {
  std::string names = code(row.name);
  for (const std::string& name : row.also) names += ", " + code(name);
  return names;
}

}  // namespace

std::string markdown() {
  const Backends backends;
  PerformedByOperation performed;
  std::string text = std::string(introduction) + about_functions, family;
  std::set<std::string> of_complex;
  for (const Row& row : all_rows())
    if (!row.is_documented) of_complex.insert(row.name);
  for (const Row& row : all_rows()) {
    Tried found = tried(row, &performed);
    if (!row.is_documented) continue;
    if (row.family == "complex" || of_complex.contains("complex_" + row.name))
      found.dtypes.insert({stave::complex64, stave::complex128});
    if (row.family != family)
      text += "\n### " + (family = row.family) +
              "\n\n| function | dtypes | derivative | vmap | CPU | CUDA |\n|---|---|---|---|---|---|\n";
    text += line({names_of(row), words_for(found.dtypes), words_for_derivatives(row, found), found.batches ? "yes" : "",
                  backends.cpu(row, found), backends.cuda(row, found)});
  }
  text += "\nNot in this table:";
  for (const auto& [function, why] : functions_without_rows())
    text += (text.ends_with(":") ? " " : "; ") + code(function) + " (" + why + ")";
  text += std::string(".\n") + about_operations;
  for (const Op* op : all_ops())
    text += line({code(op->name), words_for(performed[op->name].dtypes), jvp_of(*op), vjp_of(*op),
                  batching_of(*op, performed[op->name].operands), backends.cpu(*op), backends.cuda(*op)});
  return text;
}

bool is_documented() {
  std::ifstream file(path);
  std::istringstream expected(markdown());
  int number = 0;
  for (std::string said, found; ++number;) {
    const bool more_said = static_cast<bool>(std::getline(file, said));
    const bool more_found = static_cast<bool>(std::getline(expected, found));
    if (!more_said && !more_found) return true;
    if (more_said && more_found && said == found) continue;
    std::printf("%s:%d says\n  %s\nbut it is\n  %s\nWrite it anew: operation_table --markdown > docs/operations.md\n",
                path, number, more_said ? said.c_str() : "(nothing)", more_found ? found.c_str() : "(nothing)");
    return false;
  }
  return false;
}

}  // namespace table
