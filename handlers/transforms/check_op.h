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
/// they shrink by a sixteenth. float64 inputs are compared with the smallest tolerance.
struct OpCase {
  std::vector<Tensor> inputs;
  AttributesPtr attributes = nullptr;
};

struct CheckOpOptions {
  [[no_unique_address]] ByName by_name{};
  int order = 2;  ///< highest order of derivatives that is checked
  /// Tolerance relative to the size of the values; 0: 1e-6 for float64, 1e-2 for float32.
  double tolerance = 0;
};

/// Performs the operation in each case, and throws TransformError for the first of these properties
/// that does not hold:
///   value     The value is the same when it is computed again, and from inputs of other strides.
///             The inputs keep their values.
///   rules     The derivatives that the record's rules give agree with finite differences and with
///             each other, also under vmap.
///   batching  vmap over every set of inputs equals a loop over the lanes, for the operation,
///             for its jvp and for its vjp.
/// A property without a rule in the record is not checked.
void check_op(const Op& op, const std::vector<OpCase>& cases, const CheckOpOptions& options = {});

}  // namespace stave
