// Tests that every operation with a CPU kernel has a driver in the CUDA backend,
// and that the CUDA libraries have the functions that drivers call.
#include <gtest/gtest.h>

#include <string>

#include <stave/backends/cuda/cublas.h>
#include <stave/backends/cuda/cuda_backend.h>
#include <stave/backends/cuda/cufft.h>
#include <stave/backends/cuda/cusolver.h>
#include <stave/core/effects/error.h>
#include <stave/core/op/op.h>

#include "cuda_drivers.h"

namespace {

using namespace stave;

/// The error text of the CPU backend for an operation that has no CPU kernel.
/// Call this for such operations only.
std::string refused_by_cpu(OpId op) {
  const View nothing{nullptr, float32, {}, {}};
  try {
    cpu_backend().run(record_of(op), nullptr, {}, {&nothing, 1});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Returns true for operations without a CUDA kernel whose functions use other operations instead.
bool is_composed(OpId op) {
  switch (op) {
    case OpId::softmax_gradient:
    case OpId::log_softmax_gradient:
    case OpId::layer_norm:
    case OpId::layer_norm_gradient:
    case OpId::max_pool:
    case OpId::quantized_matmul:
    case OpId::argtopk:
    case OpId::searchsorted: return true;
    default: return false;
  }
}

// Returns true for operations that CUDA refuses: factorisations that cuSOLVER does not have, and
// what is made of them.
bool is_only_on_cpu(OpId op) {
  switch (op) {
    case OpId::eig:
    case OpId::eigvals:
    case OpId::schur:
    case OpId::sqrtm:
    case OpId::logm:
    case OpId::sylvester:
    case OpId::solve_banded:
    case OpId::ldl: return true;
    default: return false;
  }
}

TEST(Dispatch, EveryOperationHasADriver) {
  int drivers = 0;
  for (const Op* op : all_ops()) {
    if (stave_cuda::driver_of(op->id)) {
      ++drivers;
      continue;
    }
    if (is_composed(op->id) || is_special(op->id) || is_sampler(op->id) || is_only_on_cpu(op->id)) continue;
    if (!op->view && !op->is_higher_order) ADD_FAILURE() << op->name << " has no driver";
    else
      EXPECT_EQ(refused_by_cpu(op->id),
                std::string("cpu: ") + op->name + ": a view or an unknown operation has no kernel");
  }
  constexpr int special = static_cast<int>(OpId::lambertw) - static_cast<int>(OpId::gammainc) + 1;
  constexpr int samplers = static_cast<int>(OpId::random_hypergeometric) - static_cast<int>(OpId::random_gamma) + 1;
  EXPECT_EQ(drivers, op_count - 13 - 8 - special - samplers)
      << "all but those that are views, composed, special, samplers or on the CPU";
}

// The libraries can be loaded without a device.
TEST(Dispatch, LibrariesHaveTheCalledFunctions) {
  try {
    EXPECT_NE(stave_cuda::cublas().Matmul, nullptr);
    EXPECT_NE(stave_cuda::cublas_of_solver().DtrsmBatched, nullptr);
    EXPECT_NE(stave_cuda::cusolver().Dgesvd, nullptr);
    EXPECT_NE(stave_cuda::cufft().XtExec, nullptr);
  } catch (const DeviceError& error) {
    if (std::string(error.what()).find("cannot be loaded") == std::string::npos) throw;
    GTEST_SKIP() << error.what();
  }
}

// docs/operations.md lists the operations with a CUDA kernel from the source,
// also in builds without CUDA.
TEST(Dispatch, DriversEqualThoseReadFromTheSource) {
  const std::set<std::string> said = stave_test::cuda_drivers();
  for (const Op* op : all_ops())
    EXPECT_EQ(said.contains(op->name), stave_cuda::driver_of(op->id) != nullptr) << op->name;
}

}  // namespace
