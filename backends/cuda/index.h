// Gathering by integer tensors, and its transpose; slices at computed places.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// As declared in core/op/attributes.h. An index out of range goes to launch.fault; nothing is read or written in its place.
void run_gather(const Launch& launch, const stave::GatherAttributes& attributes, const stave::View& x,
                const stave::View& indices, const stave::View& out);
/// scatter, scatter_add, scatter_multiply, scatter_min, scatter_max. Deterministic. Integers, whose sums do not depend on the order, are
/// added atomically, if they have four bytes or more. Else updates to one place are taken in their order, as the CPU does, where they
/// are few, and by parts of them where they are many: so the destinations are sorted, stably, and the first update of each takes all
/// of its place. (Atomic additions would differ from run to run.) float16 and bfloat16 are computed as floats, and what they come to
/// is rounded when it is complete.
void run_scatter(const Launch& launch, stave::OpId op, const stave::GatherAttributes& attributes, const stave::View& x,
                 const stave::View& indices, const stave::View& updates, const stave::View& out);
void run_dynamic_slice(const Launch& launch, const stave::DynamicSliceAttributes& attributes, const stave::View& x,
                       const stave::View& starts, const stave::View& out);
void run_dynamic_update_slice(const Launch& launch, const stave::DynamicSliceAttributes& attributes,
                              const stave::View& x, const stave::View& update, const stave::View& starts,
                              const stave::View& out);

}  // namespace stave_cuda
