// check_op: checks the record of an operation (its rules and properties) against its kernels.
//
//   check_op(nearest, {{.inputs = {x, positions}},
//                      {.inputs = {empty, positions}, .attributes = periodic}});
#pragma once

#include <vector>

#include <stave/core/op/define.h>
#include <stave/core/tensor/options.h>

namespace stave {

/// One use of an operation. Floating inputs must lie where the derivative is smooth, also after
/// they shrink by up to a sixteenth. If all are float64, the tolerance is the smallest.
struct OpCase {
  std::vector<Tensor> inputs;
  AttributesPtr attributes = nullptr;
};

struct CheckOpOptions {
  [[no_unique_address]] ByName by_name{};
  /// Highest order of derivatives that is checked, at least 1. Under vmap only order 1 is checked.
  int order = 2;
  /// Tolerance relative to the size of the values, and absolute for values below 1. 0: 1e-6 if all
  /// floating inputs are float64, else 1e-2.
  double tolerance = 0;
};

/// Performs the operation in each case, and throws TransformError for the first of these properties
/// that does not hold:
///   value        The value has the same bits when it is computed again, and is nearly the same
///                from inputs of other strides. The inputs keep their values.
///   derivatives  The derivatives that the record's rules give agree with finite differences
///                and with each other, also under vmap.
///   series       The number of operations for Taylor coefficients (handlers/taylor) does not grow
///                exponentially with the order.
///   vmap         vmap over every set of inputs equals a loop over the lanes, for the operation,
///                for its jvp and for its vjp. With more than 4 inputs, the sets are each input
///                alone and all inputs.
///   depends      The dependence rule finds each element of the inputs by which an element of the
///                outputs has a derivative other than zero (not for complex inputs).
/// Other errors in a case are also thrown as TransformError. Derivatives, vmap and dependences are
/// not checked if the record has no rule for them.
void check_op(const Op& op, const std::vector<OpCase>& cases, const CheckOpOptions& options = {});

}  // namespace stave
