// Host functions that launch gather, the scatter operations, and slices at positions that a tensor
// gives.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Computes gather. core/op/attributes.h defines the operations of this file. All of them record an
/// index out of range in launch.fault, and read or write nothing for it.
void run_gather(const Launch& launch, const stave::GatherAttributes& attributes, const stave::View& x,
                const stave::View& indices, const stave::View& out);
/// Computes scatter, scatter_add, scatter_multiply, scatter_min or scatter_max, deterministically.
/// Integers of four bytes or more are added atomically, because their sums do not depend on the
/// order. (Atomic additions of floats would differ from run to run.) All other updates are sorted
/// stably by destination. If an element has few updates, one thread merges them in their order, as
/// on the CPU. Many updates are divided into parts. One thread merges each part, and then the
/// thread of the first part merges the results of the other parts in order. float16 and bfloat16
/// are accumulated as floats, and the complete result is rounded once.
void run_scatter(const Launch& launch, stave::OpId op, const stave::GatherAttributes& attributes, const stave::View& x,
                 const stave::View& indices, const stave::View& updates, const stave::View& out);
void run_dynamic_slice(const Launch& launch, const stave::DynamicSliceAttributes& attributes, const stave::View& x,
                       const stave::View& starts, const stave::View& out);
void run_dynamic_update_slice(const Launch& launch, const stave::DynamicSliceAttributes& attributes,
                              const stave::View& x, const stave::View& update, const stave::View& starts,
                              const stave::View& out);

}  // namespace stave_cuda
