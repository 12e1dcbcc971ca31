// A device that computes regions with the CUDA backend's driver, over a simulated CUDA
// driver and a simulated compiler. The compiled code of a text is the text itself;
// a launch runs the function that the host's compiler made of the same text (region_texts.cpp).
// The CPU backend computes everything else.
#pragma once

#include <cuda_runtime_api.h>

#include <mutex>
#include <string>
#include <vector>

#include <stave/backends/cuda/nvrtc.h>

#include "separate_backend.h"

namespace stave_test {

struct Launched {
  unsigned blocks, threads;
  cudaStream_t stream;
};
/// The capabilities of the simulated driver and compiler, and records of their calls.
struct MadeUp {
  std::mutex mutex;
  int device = 0, capability = 90;
  bool has_compiler = true, compiles = true, takes_code = true;
  stave_cuda::Nvrtc nvrtc{13000, {80, 90}};
  // The target of each compilation.
  std::vector<std::string> compiled;
  int loaded = 0, steps = 0, reductions = 0, uploads = 0;
  std::vector<Launched> launches;
};
extern MadeUp made_up;
inline const auto the_stream = reinterpret_cast<cudaStream_t>(0x5);

class FusedOnHost final : public SeparateBackend {
 public:
  using SeparateBackend::SeparateBackend;
  // The scratch memory of the last region.
  std::size_t scratch_bytes = 0;
  int regions = 0;

 protected:
  void compute(const stave::Op& op, const stave::Attributes* attributes, std::span<const stave::View> in,
               std::span<const stave::View> out) override;
};

}  // namespace stave_test
