// Operations that stand for many steps, whose cotangents a tape would add one by one to a running
// sum for each value.
//
// If the operation summed the cotangents of its own steps first and added the result at the end,
// the last bits would differ: (s + a) + b is not s + (a + b). So the backward pass (vjp.cpp) passes
// the running sums to such an operation, and takes them back.
#pragma once

#include <cstddef>
#include <vector>

#include <stave/core/op/op.h>

namespace stave_detail {

using namespace stave;

/// A second base of the attributes of such an operation.
class AddsToCotangents {
 public:
  /// The running sum for each input.
  struct Sums {
    // The cotangents of operations that were performed later; undefined: there are none.
    std::vector<Tensor> so_far;
    // The index of the first input with the same value: they share its sum.
    std::vector<std::size_t> same_as;
  };
  /// Returns the new sums. The operation adds its cotangents to each in the order in which
  /// its steps would. Undefined: there is no cotangent yet. For inputs with the same value
  /// the cotangents go to the same sum.
  virtual std::vector<Tensor> pull_back(const VjpContext& c, const Sums& sums) const = 0;

 protected:
  ~AddsToCotangents() = default;
};

}  // namespace stave_detail
