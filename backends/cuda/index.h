// Drivers of gather, the scatter operations, and slices at computed positions.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Computes gather. Like the operations below, it is declared in core/op/attributes.h. An index out
/// of range is recorded in launch.fault, and nothing is read or written for it.
void run_gather(const Launch& launch, const stave::GatherAttributes& attributes, const stave::View& x,
                const stave::View& indices, const stave::View& out);
/// Computes scatter, scatter_add, scatter_multiply, scatter_min or scatter_max, deterministically.
/// Integers of four bytes or more are added atomically, because their sums do not depend on the
/// order. All other updates are sorted stably by destination, and the first update of each
/// destination writes its whole result. A few updates to one place are merged in their order, as on
/// the CPU; many are merged in parts. (Atomic additions of floats would differ from run to run.)
/// float16 and bfloat16 are accumulated as floats, and the complete result is rounded once.
void run_scatter(const Launch& launch, stave::OpId op, const stave::GatherAttributes& attributes, const stave::View& x,
                 const stave::View& indices, const stave::View& updates, const stave::View& out);
void run_dynamic_slice(const Launch& launch, const stave::DynamicSliceAttributes& attributes, const stave::View& x,
                       const stave::View& starts, const stave::View& out);
void run_dynamic_update_slice(const Launch& launch, const stave::DynamicSliceAttributes& attributes,
                              const stave::View& x, const stave::View& update, const stave::View& starts,
                              const stave::View& out);

}  // namespace stave_cuda
