// gather and scatter (indexing by integer tensors), and slices at computed positions, on the CPU.
#pragma once

#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Runs gather, as core/op/attributes.h describes it. Throws stave::IndexError if an index is out
/// of range, perhaps after it has written a part of `out`. The other functions of this header throw
/// IndexError before they write anything.
void run_gather(const stave::GatherAttributes& attributes, const stave::View& x, const stave::View& indices,
                const stave::View& out);
/// Runs scatter, scatter_add, scatter_multiply, scatter_min or scatter_max.
void run_scatter(stave::OpId scatter, const stave::GatherAttributes& attributes, const stave::View& x,
                 const stave::View& indices, const stave::View& updates, const stave::View& out);
void run_dynamic_slice(const stave::DynamicSliceAttributes& attributes, const stave::View& x, const stave::View& starts,
                       const stave::View& out);
void run_dynamic_update_slice(const stave::DynamicSliceAttributes& attributes, const stave::View& x,
                              const stave::View& update, const stave::View& starts, const stave::View& out);

}  // namespace stave_cpu
