// Gathering by integer tensors, and its transpose; slices at computed places.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/backend.h>

namespace stave_cuda {

/// As declared in core/ops/attributes.h. An index out of range goes to launch.fault; nothing is read or written in its place.
void run_gather(const Launch& launch, const stave::GatherAttributes& attributes, const stave::View& x,
                const stave::View& indices, const stave::View& out);
/// Deterministic. Integers, whose sums do not depend on the order, are added atomically, if they have four bytes or more. Updates
/// of floats to one place are added in their order, as the CPU does, where they are few, and in sums of parts of them where they are
/// many: so the destinations are sorted, stably, and the first update of each adds all of its place. (Atomic additions would differ
/// from run to run.) float16 and bfloat16 are added as floats, and a sum is rounded when it is complete.
void run_scatter_add(const Launch& launch, const stave::GatherAttributes& attributes, const stave::View& x,
                     const stave::View& indices, const stave::View& updates, const stave::View& out);
void run_dynamic_slice(const Launch& launch, const stave::DynamicSliceAttributes& attributes, const stave::View& x,
                       const stave::View& starts, const stave::View& out);
void run_dynamic_update_slice(const Launch& launch, const stave::DynamicSliceAttributes& attributes,
                              const stave::View& x, const stave::View& update, const stave::View& starts,
                              const stave::View& out);

}  // namespace stave_cuda
