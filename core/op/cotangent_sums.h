// Operations that stand for many steps, of which a tape would add the cotangents one after the
// other to one sum for each value.
//
// The sum of an operation's own steps, added to what is there at the end, has other last bits: (s +
// a) + b is not s + (a + b). So the backward pass (vjp.cpp) gives such an operation the sums, and
// takes them back.
#pragma once

#include <cstddef>
#include <vector>

#include <stave/core/op/op.h>

namespace stave_detail {

using namespace stave;

/// The attributes of such an operation are this, too.
class AddsToCotangents {
 public:
  /// The sum for each input.
  struct Sums {
    std::vector<Tensor> so_far;        // the cotangents of what was performed later; undefined: there are none
    std::vector<std::size_t> same_as;  // the first input that is the same value: they share the sum of that one
  };
  /// The new sums: what the operation adds to each, in the order in which its steps would.
  /// Undefined: there is nothing yet. Where inputs are the same value, theirs are added.
  virtual std::vector<Tensor> pull_back(const VjpContext& c, const Sums& sums) const = 0;

 protected:
  ~AddsToCotangents() = default;
};

}  // namespace stave_detail
