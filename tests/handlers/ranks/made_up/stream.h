// The object behind a cudaStream_t of the simulated device.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

struct MadeUpStream {
  // Work that has not run yet.
  std::deque<std::function<void()>> work;

  void finish() {
    while (!work.empty()) {
      const auto next = std::move(work.front());
      work.pop_front();
      next();
    }
  }
};

/// The distance between an address of the device's memory and the address at which the host can use
/// it (separate_backend.h).
constexpr std::intptr_t made_up_distance = std::intptr_t{1} << 61;
/// The address at which the host can use this memory; null if `address` is not on the device.
inline void* on_host(const void* address) {
  const auto number = reinterpret_cast<std::intptr_t>(address);
  return number & made_up_distance ? reinterpret_cast<void*>(number - made_up_distance) : nullptr;
}
