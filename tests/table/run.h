// Running rows, and what is known of the table as a whole.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "table/cell.h"

namespace table {

/// What has been run, and what came out.
struct Report {
  int operations = 0, cells = 0, failures = 0;
  int not_differentiable = 0, integer = 0;  // the only reasons to skip a cell

  void fail(const std::string& where, const std::string& what);
  /// "operations 95  cells 12345  skips 678 (not differentiable 300, integer 378)"
  std::string summary() const;
};

enum class Columns { all, values };

/// All cells of a row; failures are printed.
void run_row(const Row& row, Columns columns, Report& report);

/// Sees which operations are performed, and that their VJP rules read what their records say (reads.cpp).
class ReadsCheck : public Handler {
 public:
  explicit ReadsCheck(Report& report) : report_(report) {}
  Outputs handle(Call& call) override;

  std::set<std::string> performed, checked;

 private:
  Report& report_;
};

/// That the table is complete: every row has each layout, every operation of all_ops() is performed by some row, and its VJP
/// rule reads what its record says; every public tensor function has a row.
void check_completeness(Report& report);

/// What docs/operations.md is to say, and whether it does; if not, where it differs is printed.
std::string markdown();
bool is_documented();

/// Public functions that need no row, and why.
const std::map<std::string, std::string>& functions_without_rows();

/// The names of the tensor functions that the headers in core/ops declare, with the header: read from the sources.
std::map<std::string, std::string> public_functions();

/// The layouts in which a variant is tested.
std::vector<Layout> layouts_of(const Variant& variant);

}  // namespace table
