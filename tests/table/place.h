// The device on which the table's operations are computed.
#pragma once

#include <stave/core/op/op.h>

#include "table/array.h"

namespace table {

/// Performs all operations at place(): values from other devices are copied there first,
/// and the results are copied back.
class AtPlace : public Handler {
 public:
  Outputs handle(Call& call) override;
  std::string describe() const override { return "operation_table --device"; }

 private:
  Outputs at_place(Call& call) const;
};

}  // namespace table
