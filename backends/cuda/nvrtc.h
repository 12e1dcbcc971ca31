// NVRTC, NVIDIA's run-time compiler, loaded on first use. Without it, regions run more slowly but
// give the same results (fused.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace stave_cuda {

struct Nvrtc {
  int version;  // for example 12040 for 12.4
  // The architectures that it compiles for, in ascending order; 90 is compute capability 9.0.
  std::vector<int> architectures;
};
/// Returns the compiler, or null if it cannot be loaded.
const Nvrtc* nvrtc();

/// Returns the compiler's target for a device of this compute capability. The target is machine
/// code ("sm_90") or, if the device is newer than the compiler, PTX, which the CUDA driver
/// translates ("compute_90"). It is empty if the compiler has no suitable target.
std::string target_of(const Nvrtc& nvrtc, int capability);

/// Returns the maximum total size of a kernel's arguments in bytes.
inline std::size_t most_argument_bytes(const Nvrtc& nvrtc) { return nvrtc.version >= 12010 ? 32764 : 4096; }

/// Compiles the source text of a region and returns the code. Throws
/// stave::Error with the compiler's log.
std::string compile(const Nvrtc& nvrtc, const std::string& text, const std::string& target);
/// Returns everything on which the compiled code depends, besides the source text: the compiler,
/// its options and the headers.
std::vector<std::string> compiled_with(const Nvrtc& nvrtc, const std::string& target);

}  // namespace stave_cuda
