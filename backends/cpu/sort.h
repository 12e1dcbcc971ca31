// sort and argsort on the CPU.
#pragma once

#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

void run_sort(const stave::SortAttributes& attributes, const stave::View& in, const stave::View& out);
/// Writes the permutation that sorts `in`; `out` is int32 or int64.
void run_argsort(const stave::SortAttributes& attributes, const stave::View& in, const stave::View& out);

}  // namespace stave_cpu
