// What a cudaStream_t of the made-up device points at.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

struct MadeUpStream {
  std::deque<std::function<void()>> work;  // that nobody has waited for yet

  void finish() {
    while (!work.empty()) {
      const auto next = std::move(work.front());
      work.pop_front();
      next();
    }
  }
};

/// Addresses of its memory are moved by this from those that the host can use (separate_backend.h).
constexpr std::intptr_t made_up_distance = std::intptr_t{1} << 61;
/// One that the host can use; null: it was none of the device.
inline void* on_host(const void* address) {
  const auto number = reinterpret_cast<std::intptr_t>(address);
  return number & made_up_distance ? reinterpret_cast<void*>(number - made_up_distance) : nullptr;
}
