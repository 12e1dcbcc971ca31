// check_op: the record of an operation and its kernels, held against each other.
//
//   check_op(nearest, {{.inputs = {x, positions}}, {.inputs = {empty, positions}, .attributes = periodic}});
#pragma once

#include <vector>

#include <stave/core/op/define.h>
#include <stave/core/tensor/options.h>

namespace stave {

/// One use of an operation. Floating inputs stand where the derivative is smooth, and stay so if they shrink by a sixteenth;
/// float64 is compared most closely.
struct OpCase {
  std::vector<Tensor> inputs;
  AttributesPtr attributes = nullptr;
};

struct CheckOpOptions {
  [[no_unique_address]] ByName by_name{};
  int order = 2;         ///< derivatives of derivatives up to this order
  double tolerance = 0;  ///< relative to the size of the values; 0: 1e-6 for float64, 1e-2 for float32
};

/// Performs the operation in each case, and throws TransformError for the first of these that does not hold:
///   value     computed again, and from inputs of other strides, it is the same; the inputs stay as they were
///   rules     the derivatives that the record's rules give agree with differences, and with each other; so they do under vmap
///   batching  vmap over every set of inputs is a loop over the lanes: of the operation, of its jvp and of its vjp
/// What the record has no rule for is not asked of it.
void check_op(const Op& op, const std::vector<OpCase>& cases, const CheckOpOptions& options = {});

}  // namespace stave
