// NVRTC, NVIDIA's run-time compiler, loaded on first use. Without it, regions run more slowly but
// give the same results (fused.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace stave_cuda {

struct Nvrtc {
  int version;  // for example 12040 for 12.4
  // The architectures it compiles for, ascending; 90 is compute capability 9.0.
  std::vector<int> architectures;
};
/// Returns the compiler, or null if it cannot be loaded.
const Nvrtc* nvrtc();

/// Returns the target for a device of this compute capability. It is "sm_90", the device's own
/// code, or "compute_90", which the driver translates, if the device is newer than the compiler. It
/// is empty if the compiler has no suitable target.
std::string target_of(const Nvrtc& nvrtc, int capability);

/// Returns the maximum size in bytes of a kernel's arguments together.
inline std::size_t most_argument_bytes(const Nvrtc& nvrtc) { return nvrtc.version >= 12010 ? 32764 : 4096; }

/// Compiles the source text of a region and returns the code. Throws
/// stave::Error with the compiler's log.
std::string compile(const Nvrtc& nvrtc, const std::string& text, const std::string& target);
/// Returns everything besides the text that the code depends on: the
/// compiler, its options and the headers.
std::vector<std::string> compiled_with(const Nvrtc& nvrtc, const std::string& target);

}  // namespace stave_cuda
