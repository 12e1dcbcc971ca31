// Host functions that launch sort and argsort.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

void run_sort(const Launch& launch, const stave::SortAttributes& attributes, const stave::View& in,
              const stave::View& out);
/// `out` is int32 or int64.
void run_argsort(const Launch& launch, const stave::SortAttributes& attributes, const stave::View& in,
                 const stave::View& out);

}  // namespace stave_cuda
