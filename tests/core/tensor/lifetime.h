// Measures of live memory for the tests of lifetimes.
#pragma once

#include <stave/stave.h>

namespace lifetime_test {

using namespace stave;

using T = const Tensor&;

constexpr std::size_t MiB = std::size_t{1} << 20;
inline const Shape one_mib{256, 1024};  // in float32

inline std::size_t live() { return memory_stats().live_bytes; }

/// The peak of live bytes while `body` runs, less the bytes that were live before.
template <class Body>
std::size_t peak_of(Body&& body) {
  const std::size_t before = live();
  reset_peak_memory();
  body();
  return memory_stats().peak_bytes - before;
}

}  // namespace lifetime_test
