// Records a function of tensors as a region of elementwise operations.
#pragma once

#include <span>
#include <vector>

#include <stave/core/program/fused.h>
#include <stave/handlers/transforms/vjp_flat.h>

namespace stave_detail {

using namespace stave;

/// Returns the region of operations that f performs on values of these dtypes. f runs once,
/// under no other handler, on placeholders that stand for each element and have no value. Only
/// WhichFloat (default_dtype.h) goes to the caller's handlers. All elements of a tensor that f
/// captures must be one element (as in a broadcast number), which becomes a number of the region.
/// Throws TransformError, with `name`, for another captured tensor or one that a transform traces,
/// and if f performs an operation on placeholders that is not elementwise, or reads a placeholder's
/// value. `name` must outlive the call's result.
RegionPtr record_region(const char* name, FlatFunction f, std::span<const Dtype> inputs);

/// Returns the element of a tensor whose elements are all the same one.
Scalar number_of(const Tensor& x);

}  // namespace stave_detail
