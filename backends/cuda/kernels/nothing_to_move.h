// What gather, scatter and slices ask first.
#pragma once

#include <stave/backends/cuda/index_plan.h>
#include <stave/backends/cuda/launch.h>

namespace stave_cuda {

/// True if there is nothing to move; the indices are checked then.
bool nothing_to_move(const Launch& launch, const SlicePlan& plan, const char* what);

}  // namespace stave_cuda
