// to(): moving tensors between devices.
#pragma once

#include <stave/core/tensor/tensor.h>

namespace stave {

/// Returns x on `device`: x's value itself if it is already there, else a copy.
/// This is an operation like any other: under grad the cotangent is moved back to the device of x.
/// Throws DeviceError if there is no such device.
Tensor to(const Tensor& x, Device device);

}  // namespace stave
