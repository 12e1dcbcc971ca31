// Moving tensors between devices.
#pragma once

#include <stave/core/tensor/tensor.h>

namespace stave {

/// x on `device`: the value itself if it is there, else a copy. An operation like any other: under grad the cotangent travels
/// back to where x lives. Throws DeviceError if there is no such device.
Tensor to(const Tensor& x, Device device);

}  // namespace stave
