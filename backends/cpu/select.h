// argtopk, which selects the largest entries, and searchsorted, which searches sorted vectors, on
// the CPU.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Writes the positions of the k largest entries. `out` is contiguous, and int32 or int64.
void run_argtopk(const stave::TopkAttributes& attributes, const stave::View& in, const stave::View& out);
void run_searchsorted(const stave::SearchAttributes& attributes, const stave::View& sorted, const stave::View& values,
                      const stave::View& out);

}  // namespace stave_cpu
