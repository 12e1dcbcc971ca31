// What is found out of a row by trying it: nothing here is a list that somebody keeps.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "table/row.h"

namespace table {

/// Of one operand, or of a whole function: whether some input gave a derivative that is not zero.
struct Derivatives {
  bool jvp = false, vjp = false;
  bool operator==(const Derivatives&) const = default;
};

struct Tried {
  std::set<Dtype> dtypes;                         // that some variant admits
  std::map<std::size_t, Derivatives> by_operand;  // of the floats among them
  bool float_results = false;
  bool batches = false;             // it has been computed under vmap
  std::set<std::string> performed;  // operations, on the CPU
};

/// How an operation has been performed.
struct Performed {
  std::set<Dtype> dtypes;
  bool operands = false;  // there were some
};
using PerformedByOperation = std::map<std::string, Performed>;

/// Tries all dtypes, and transforms in float64 (if the row has it, else in its first dtype). `operations`, if given, learns which
/// operations are performed.
Tried tried(const Row& row, PerformedByOperation* operations = nullptr);

/// The operations that ask the backend of a device that is not the CPU for a kernel, by row; those that do not give views.
class Elsewhere {
 public:
  Elsewhere();
  const std::set<std::string>& of(const Row& row) const { return kernels_.at(row.name); }
  bool anywhere(const std::string& operation) const;

 private:
  std::map<std::string, std::set<std::string>> kernels_;
};

/// That a row says why there is no derivative by an operand where there is none, and nowhere else: what is wrong, empty if nothing.
std::vector<std::string> faults_of_derivatives(const Row& row, const Tried& tried);

}  // namespace table
