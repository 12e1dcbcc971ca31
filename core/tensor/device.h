// Devices, on which tensors live.
#pragma once

#include <stave/core/effects/settings.h>

#include <cstdint>
#include <string>

namespace stave {

struct Device {
  enum class Kind : std::uint8_t { cpu, cuda };
  Kind kind = Kind::cpu;
  std::uint8_t index = 0;

  friend constexpr bool operator==(Device, Device) = default;
  /// The device as text: "cpu", "cuda:0".
  std::string str() const;
};

inline constexpr Device cpu{};
/// A GPU. Throws DeviceError for an index outside [0, 256). Whether the device exists is checked
/// when it is used.
Device cuda(int index = 0);

/// The number of usable CUDA devices: 0 if there is none, or if the library was built without CUDA.
int cuda_device_count();
inline bool cuda_available() { return cuda_device_count() > 0; }

class Backend;
/// The backend of a device. Throws DeviceError if there is none.
Backend& backend_of(Device device);

}  // namespace stave
