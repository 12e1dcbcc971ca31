// Checks that the table is complete. Operations and functions are found anew in each run;
// no list of them is kept here.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "table/run.h"
#include "table/tried.h"

#ifndef STAVE_SOURCE_DIR
#error "define STAVE_SOURCE_DIR: the folder with core/ops"
#endif

namespace table {

namespace {

const std::map<std::string, std::string> exceptions = {
    {"nonzero", "a shape of values: search_test"},
    {"unique_values", "a shape of values: search_test"},
    {"unique_counts", "a shape of values: search_test"},
    {"unique_inverse", "a shape of values: search_test"},
};

// Matches a declaration at the start of a line whose result contains a Tensor or Key:
// `Tensor sin(`, `std::pair<Tensor, Tensor> qr(`.
const std::regex declaration(
    R"(^(?:inline )?(?:const )?(?:[\w:]+<.*\b(?:Tensor|Key)\b.*>|Tensor|Key)&? (operator[^\s\w(]+|\w+)\(.*)");
const std::regex reduction(R"(^STAVE_REDUCTION\((\w+)\).*)");
const std::regex opened(R"(^namespace (\w+) \{.*)");

void scan(const std::filesystem::path& header, std::map<std::string, std::string>& found) {
  std::ifstream file(header);
  std::string space, line;
  std::smatch match;
  while (std::getline(file, line)) {
    if (std::regex_match(line, match, opened)) space = match[1];
    else if (line.starts_with("}  // namespace")) space.clear();
    else if (space == "stave" &&
             (std::regex_match(line, match, declaration) || std::regex_match(line, match, reduction)))
      found.emplace(match[1], header.filename().string());
  }
}

/// Calls every variant of a row. Results and errors are ignored here; other tests check them.
void perform_all(const Row& row) {
  for_each_case(
      row, [](Dtype) { return true; },
      [](const Case& c, const std::string&) {
        try {
          c.call(c.tensors);
        } catch (const Error&) {
        }
      });
}

/// Checks that some variant of the row is tested in each layout. Functions without operands need
/// only the layouts `contiguous` and `zero_size`; `mixed` needs two operands.
void check_layouts(const Row& row, Report& report) {
  std::set<Layout> seen;
  std::size_t operands = 0;
  for (Dtype dtype : row.dtypes)
    for (const Variant& variant : row.variants(dtype)) {
      operands = std::max(operands, variant.inputs.size());
      for (Layout layout : layouts_of(variant)) seen.insert(layout);
    }
  for (Layout layout : layouts) {
    if (operands == 0 && layout != Layout::contiguous && layout != Layout::zero_size) continue;
    if (operands < 2 && layout == Layout::mixed) continue;
    if (!seen.contains(layout)) report.fail("completeness", "no variant of " + row.name + " is " + name_of(layout));
  }
}

}  // namespace

const std::map<std::string, std::string>& functions_without_rows() { return exceptions; }

std::map<std::string, std::string> public_functions() {
  std::map<std::string, std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(STAVE_SOURCE_DIR "/core/ops"))
    // tests/core/ops/tree_test.cpp tests trees.
    if (entry.path().extension() == ".h" && entry.path().filename() != "tree.h") scan(entry.path(), found);
  return found;
}

void check_completeness(Report& report) {
  const auto incomplete = [&](const std::string& what) { report.fail("completeness", what); };
  std::set<std::string> names;
  for (const Row& row : all_rows()) {
    if (!names.insert(row.name).second) incomplete(row.name + " has two rows");
    check_layouts(row, report);
    for (const std::string& fault : faults_of_derivatives(row, tried(row))) incomplete(fault);
  }
  for (const Row& row : all_rows()) names.insert(row.also.begin(), row.also.end());

  ReadsCheck seen(report);
  with(seen, [] {
    for (const Row& row : all_rows()) perform_all(row);
  });
  for (const Op* op : all_ops()) {
    if (!seen.performed.contains(op->name)) incomplete(std::string("no row performs the operation ") + op->name);
    if (op->vjp && !seen.checked.contains(op->name))
      incomplete(std::string("no row checks what the rule of ") + op->name + " reads");
  }

  const std::map<std::string, std::string> functions = public_functions();
  if (functions.size() < 50)
    incomplete("only " + std::to_string(functions.size()) + " functions are found in " STAVE_SOURCE_DIR "/core/ops");
  for (const auto& [function, header] : functions)
    if (!names.contains(function) && !exceptions.contains(function))
      incomplete(function + " of " + header + " has no row");
  for (const auto& [function, reason] : exceptions)
    if (!functions.contains(function)) incomplete("the exception " + function + " is declared nowhere");
  std::printf("rows %zu  operations performed %zu of %zu  public functions %zu\n", all_rows().size(),
              seen.performed.size(), all_ops().size(), functions.size());
}

}  // namespace table
