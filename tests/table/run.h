// Running rows of the table, and checks of the table as a whole.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "table/cell.h"

namespace table {

/// Counts of operations, cells and failures.
struct Report {
  int operations = 0, cells = 0, failures = 0;
  // The number of skipped cells, by reason; there are no other reasons.
  int not_differentiable = 0, integer = 0;

  void fail(const std::string& where, const std::string& what);
  /// A line such as
  /// "operations 95  cells 12345  skips 678 (not differentiable 300, integer 378)".
  std::string summary() const;
};

enum class Columns { all, values };

/// Runs all cells of a row and prints failures.
void run_row(const Row& row, Columns columns, Report& report);

/// Records which operations are performed, and checks that their VJP rules read exactly the values
/// that their records declare (reads.cpp).
class ReadsCheck : public Handler {
 public:
  explicit ReadsCheck(Report& report) : report_(report) {}
  Outputs handle(Call& call) override;

  std::set<std::string> performed, checked;

 private:
  Report& report_;
};

/// Checks that the table is complete: every row has each layout; some row performs every
/// operation of all_ops(), and its VJP rule reads exactly the values that its record declares;
/// every public tensor function has a row.
void check_completeness(Report& report);

/// `markdown` returns the expected text of docs/operations.md. `is_documented` returns true
/// if the file has that text; else it prints the differences.
std::string markdown();
bool is_documented();

/// Public functions that need no row, each with the reason.
const std::map<std::string, std::string>& functions_without_rows();

/// The names of the tensor functions that the headers in core/ops declare, each with its header.
/// They are read from the sources.
std::map<std::string, std::string> public_functions();

/// The layouts in which a variant is tested.
std::vector<Layout> layouts_of(const Variant& variant);
/// float32 if the row has it, else the row's first dtype.
Dtype first_float(const Row& row);
/// Calls f(case, its name) for each variant and layout of the row, in the dtypes that `runs`
/// admits.
void for_each_case(const Row& row, stave::FunctionRef<bool(Dtype)> runs,
                   stave::FunctionRef<void(const Case&, const std::string&)> f);

}  // namespace table
