// Operations that stand for many steps, such as a loop, and add their cotangents to running sums.
//
// If the steps were performed one by one, a tape would add their cotangents one by one to a running
// sum for each value. If the operation summed the cotangents of its steps first, the last bits
// would differ: (s + a) + b is not s + (a + b). So the backward pass (vjp.cpp) passes the running
// sums to such an operation, and takes them back.
#pragma once

#include <cstddef>
#include <vector>

#include <stave/core/op/op.h>

namespace stave_detail {

using namespace stave;

/// A second base class for the attributes of such an operation.
class AddsToCotangents {
 public:
  /// The running sum for each input.
  struct Sums {
    // The sums of the cotangents from operations that were performed later; undefined: none yet.
    std::vector<Tensor> so_far;
    // The index of the first input with the same value, with which this input shares its sum.
    std::vector<std::size_t> same_as;
  };
  /// Returns the new sums: for each input, the old sum plus the operation's cotangents, added in
  /// the order in which its steps would add them. An undefined sum means: no cotangent yet.
  /// Inputs with the same value share one sum.
  virtual std::vector<Tensor> pull_back(const VjpContext& c, const Sums& sums) const = 0;

 protected:
  ~AddsToCotangents() = default;
};

}  // namespace stave_detail
