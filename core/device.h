// Where a tensor lives.
#pragma once

#include <cstdint>
#include <string>

namespace stave {

struct Device {
  enum class Kind : std::uint8_t { cpu, cuda };
  Kind kind = Kind::cpu;
  std::uint8_t index = 0;

  friend constexpr bool operator==(Device, Device) = default;
  /// "cpu", "cuda:0"
  std::string str() const;
};

inline constexpr Device cpu{};

class Backend;
/// The backend of a device. Throws DeviceError where there is none.
Backend& backend_of(Device device);

}  // namespace stave
