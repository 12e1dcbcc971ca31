// A device whose linear algebra and attention are those of the CUDA backend: its drivers, and the bodies of its kernels, executed on the host,
// over a cuSOLVER and a cuBLAS that are LAPACK and BLAS. All else is the CPU's.
#pragma once

#include <memory>

#include "separate_backend.h"

namespace stave_test {

/// How often a library was called, and kernels launched.
struct OnHost {
  int solver_calls = 0, batches = 0, launches = 0;
  bool iteration_ends = true;  // of the library's eigh and svd
};
OnHost& on_host();

class KernelsOnHost final : public SeparateBackend {
 public:
  explicit KernelsOnHost(int index);
  ~KernelsOnHost() override;

 protected:
  void compute(const stave::Op& op, const stave::Attributes* attributes, std::span<const stave::View> in,
               std::span<const stave::View> out) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stave_test
