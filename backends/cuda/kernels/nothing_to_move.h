// The check that gather, scatter and slices make first.
#pragma once

#include <stave/backends/cuda/index_plan.h>
#include <stave/backends/cuda/launch.h>

namespace stave_cuda {

/// Returns true if there are no elements to move. In this case it launches a kernel that checks the
/// indices, if there are any; otherwise the kernel that copies the elements checks them.
bool nothing_to_move(const Launch& launch, const SlicePlan& plan, const char* what);

}  // namespace stave_cuda
