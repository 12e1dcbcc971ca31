// NVIDIA's compiler at run time, NVRTC, loaded when it is first needed. Without it nothing is missing but speed (fused.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace stave_cuda {

struct Nvrtc {
  int version;                     // 12040: 12.4
  std::vector<int> architectures;  // that it makes code for, ascending. 90: compute capability 9.0
};
/// Null where it cannot be loaded.
const Nvrtc* nvrtc();

/// What code for a device of this compute capability is made for: "sm_90", its own; or "compute_90", which the driver translates, for
/// devices younger than the compiler. Empty where there is none.
std::string target_of(const Nvrtc& nvrtc, int capability);

/// What a kernel's arguments may take together.
inline std::size_t most_argument_bytes(const Nvrtc& nvrtc) { return nvrtc.version >= 12010 ? 32764 : 4096; }

/// The code of a region's text. Throws stave::Error with what the compiler says.
std::string compile(const Nvrtc& nvrtc, const std::string& text, const std::string& target);
/// All that the code of a text depends on besides: the compiler, its options, and headers.
std::vector<std::string> compiled_with(const Nvrtc& nvrtc, const std::string& target);

}  // namespace stave_cuda
