// A device whose linear algebra, attention and functions of complex numbers are those of the CUDA
// backend: its drivers and the bodies of its kernels are executed on the host.
// LAPACK and BLAS stand in for cuSOLVER and cuBLAS. The CPU backend computes everything else.
#pragma once

#include <memory>

#include "separate_backend.h"

namespace stave_test {

/// Counts of library calls and kernel launches.
struct OnHost {
  int solver_calls = 0, batches = 0, launches = 0;
  // If false, the library's eigh and svd report that their iteration does not converge.
  bool iteration_ends = true;
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
