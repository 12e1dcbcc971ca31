// The device on which the table's operations are computed.
#pragma once

#include <set>
#include <string>

#include <stave/core/op/op.h>

#include "table/array.h"

namespace table {

/// Performs all operations at place(): values from other devices are copied there first,
/// and the results are copied back. An operation that the device has no kernel of, such as eig or a
/// special function on a GPU, is computed on the CPU, so that the rows which use it still test the
/// other operations.
class AtPlace : public Handler {
 public:
  Outputs handle(Call& call) override;
  std::string describe() const override { return "operation_table --device"; }
  /// The names of the operations that were computed on the CPU.
  const std::set<std::string>& without_kernel() const { return without_kernel_; }

 private:
  Outputs at_place(Call& call);
  Outputs on_cpu(Call& call, const DeviceError& error);

  std::set<std::string> without_kernel_;
};

}  // namespace table
