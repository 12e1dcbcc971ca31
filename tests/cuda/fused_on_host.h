// A device that computes regions by the CUDA backend's driver of them, over a CUDA driver and a compiler that are made up: a text's code is
// the text itself, and to launch it runs what the host's compiler made of the same text (region_texts.cpp). All else is the CPU's.
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
/// What the driver and the compiler have, and what they were asked for.
struct MadeUp {
  std::mutex mutex;
  int device = 0, capability = 90;
  bool has_compiler = true, compiles = true, takes_code = true;
  stave_cuda::Nvrtc nvrtc{13000, {80, 90}};
  std::vector<std::string> compiled;  // for which target
  int loaded = 0, steps = 0, reductions = 0, uploads = 0;
  std::vector<Launched> launches;
};
extern MadeUp made_up;
inline const auto the_stream = reinterpret_cast<cudaStream_t>(0x5);

class FusedOnHost final : public SeparateBackend {
 public:
  using SeparateBackend::SeparateBackend;
  std::size_t scratch_bytes = 0;  // of the last region
  int regions = 0;

 protected:
  void compute(const stave::Op& op, const stave::Attributes* attributes, std::span<const stave::View> in,
               std::span<const stave::View> out) override;
};

}  // namespace stave_test
