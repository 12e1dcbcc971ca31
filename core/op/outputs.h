// Where an operation's outputs go: their device, and operands whose memory they may take over. The
// backend's path (call.cpp) and eval_shape decide alike by these functions.
#pragma once

#include <cstddef>
#include <span>

#include <stave/core/effects/function_ref.h>
#include <stave/core/op/op.h>

namespace stave_detail {

/// Returns true if the elements of a node are all of a storage of this many bytes, in row-major
/// order, and a result of this shape and dtype is as large. Then the result may take the storage.
bool fills_storage(const Node& node, std::size_t bytes, const Shape& shape, Dtype dtype) noexcept;
/// Returns true if a result of this shape and dtype may take the storage of x: if x fills it, a
/// backend owns it, and no other code can see it.
bool may_donate(const Tensor& x, const Shape& shape, Dtype dtype) noexcept;
/// Returns the number of the first input whose buffer an output may take, given which tensors may
/// donate theirs; the number of inputs if there is none. `borrowed`: a mask of inputs with another
/// owner.
std::size_t donor_of(const Op& op, const Attributes* attributes, std::span<const Tensor> inputs, unsigned borrowed,
                     Device device, FunctionRef<bool(const Tensor&)> may_donate);
/// The device of a call's outputs. Throws DeviceError if its inputs are on several devices.
Device device_of_outputs(const Call& call);

}  // namespace stave_detail
