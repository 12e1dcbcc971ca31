// Where the table's operations are computed.
#pragma once

#include <stave/core/op.h>

#include "table/array.h"

namespace table {

/// Has all operations performed at place(): values that were made elsewhere go there first, and the results come back to them.
class AtPlace : public Handler {
 public:
  explicit AtPlace(bool has_linalg) : has_linalg_(has_linalg) {}
  Outputs handle(Call& call) override;
  std::string describe() const override { return "operation_table --device"; }

 private:
  Device place_of(const Op& op) const;
  Outputs at_place(Call& call) const;

  const bool has_linalg_;
};

}  // namespace table
