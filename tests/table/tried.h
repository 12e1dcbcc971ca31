// Properties of a row that are found by trying it; no list is kept by hand.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "table/row.h"

namespace table {

/// Whether some input gives a nonzero derivative, by jvp and by vjp; for one operand,
/// or for a whole function.
struct TriedDerivatives {
  bool jvp = false, vjp = false;
  bool operator==(const TriedDerivatives&) const = default;
};

struct Tried {
  // The dtypes that some variant admits.
  std::set<Dtype> dtypes;
  // The derivatives with respect to each operand that is a float.
  std::map<std::size_t, TriedDerivatives> by_operand;
  bool float_results = false;
  // True if a variant was computed under vmap.
  bool batches = false;
  // The operations that are performed on the CPU.
  std::set<std::string> performed;
};

/// The dtypes in which an operation was performed.
struct Performed {
  std::set<Dtype> dtypes;
  // True if some call had operands.
  bool operands = false;
};
using PerformedByOperation = std::map<std::string, Performed>;

/// Tries a row in all dtypes, and under transforms in float64 (if the row has it, else in its first
/// dtype). If `operations` is given, the operations that are performed are added to it.
Tried tried(const Row& row, PerformedByOperation* operations = nullptr);

/// For each row, the operations that request a kernel from the backend of a device
/// that is not the CPU. Operations that give views are not among them.
class Elsewhere {
 public:
  Elsewhere();
  const std::set<std::string>& of(const Row& row) const { return kernels_.at(row.name); }
  bool anywhere(const std::string& operation) const;

 private:
  std::map<std::string, std::set<std::string>> kernels_;
};

/// Checks that a row gives a reason for each operand without a derivative,
/// and for no other operand. Returns the errors; the list is empty if there are none.
std::vector<std::string> faults_of_derivatives(const Row& row, const Tried& tried);

}  // namespace table
