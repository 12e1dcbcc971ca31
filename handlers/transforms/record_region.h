// From a function of tensors to the region that it performs.
#pragma once

#include <span>
#include <vector>

#include <stave/core/program/fused.h>
#include <stave/handlers/transforms/vjp_flat.h>

namespace stave_detail {

using namespace stave;

/// What f performs on values of these dtypes: it runs once, on values that stand for each element and have none of their own, with no
/// handler but this around it. Tensors that f captures must have one element, which becomes a number of the region. Throws
/// TransformError, naming `name`, where f performs anything but elementwise operations, or looks at a value. `name` outlives all.
RegionPtr record_region(const char* name, FlatFunction f, std::span<const Dtype> inputs);

/// The element of a tensor whose elements are all the same one.
Scalar number_of(const Tensor& x);

}  // namespace stave_detail
