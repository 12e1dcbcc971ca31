// Where the table's operations are computed.
#pragma once

#include <stave/core/op/op.h>

#include "table/array.h"

namespace table {

/// Has all operations performed at place(): values that were made elsewhere go there first, and the results come back to them.
class AtPlace : public Handler {
 public:
  Outputs handle(Call& call) override;
  std::string describe() const override { return "operation_table --device"; }

 private:
  Outputs at_place(Call& call) const;
};

}  // namespace table
