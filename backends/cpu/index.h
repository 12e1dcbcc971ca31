// Gathering by integer tensors, and its transpose; slices at computed places.
#pragma once

#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// As declared in core/op/attributes.h. All throw stave::IndexError before anything is written.
void run_gather(const stave::GatherAttributes& attributes, const stave::View& x, const stave::View& indices,
                const stave::View& out);
/// scatter scatter_add scatter_multiply scatter_min scatter_max.
void run_scatter(stave::OpId scatter, const stave::GatherAttributes& attributes, const stave::View& x,
                 const stave::View& indices, const stave::View& updates, const stave::View& out);
void run_dynamic_slice(const stave::DynamicSliceAttributes& attributes, const stave::View& x, const stave::View& starts,
                       const stave::View& out);
void run_dynamic_update_slice(const stave::DynamicSliceAttributes& attributes, const stave::View& x,
                              const stave::View& update, const stave::View& starts, const stave::View& out);

}  // namespace stave_cpu
