// fused: performs many elementwise operations, and reductions of their values, as one operation,
// which reads its inputs from memory once and writes its outputs once.
//
//   const RegionPtr region = ...;          // core/program/region.h; elementwise_op records one
//                                          // (handlers/compile/elementwise_op.h)
//   Tensor y = fused(region, {x, bias})[0];
//
// A fused operation is an operation like any other. Its derivatives of any order and its batched
// form are regions too, derived from its region at their first use. It computes, bit for bit, what
// its steps compute one after another. On a CUDA device, NVRTC compiles a kernel when the region
// first runs there; without NVRTC, each step runs the kernel of its operation.
#pragma once

#include <string_view>

#include <stave/core/program/region.h>

namespace stave {

/// Performs a region on inputs that broadcast to one shape. Each output has that shape, or that
/// shape reduced. Throws TransformError for a wrong number of inputs, or none, DtypeError for
/// dtypes other than the region's, ShapeError for shapes that do not broadcast and for max or min
/// over no elements, and IndexError if the shape lacks an axis that is reduced. Outputs may reuse
/// the memory of inputs that nothing else holds.
Outputs fused(const RegionPtr& region, Inputs inputs);
inline Outputs fused(const RegionPtr& region, std::span<const Tensor> inputs) {
  return fused(region, Inputs(inputs.begin(), inputs.end()));
}

/// The attributes of a fused operation.
struct FusedAttributes final : Attributes {
  RegionPtr region;
  explicit FusedAttributes(RegionPtr region_) : region(std::move(region_)) {}
  /// The names of the operations: "{multiply add tanh sum}". At most 8 elementwise operations are
  /// listed, and all reductions.
  std::string str() const override;
  bool equals(const Attributes& other) const override {
    return region->is_same_as(*static_cast<const FusedAttributes&>(other).region);
  }
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// Returns the record (Op) of a fused operation with this name, under which handlers show it. One
/// name always has the same record. Thread-safe.
const Op& fused_op(std::string_view name);
Outputs fused(const Op& op, const RegionPtr& region, Inputs inputs);

/// Performs the steps and reductions of a region one after another, as separate operations. There
/// must be at least one input, and all inputs must have one shape.
Outputs perform_steps(const Region& region, std::span<const Tensor> inputs);

/// Runs the region on the CPU. The CPU backend (backends/cpu) defines it; core only declares it.
void run_fused(const Attributes* attributes, std::span<const View> inputs, std::span<const View> outputs);
/// Returns the region that computes the tangents of the float outputs of `region`, which must have
/// no reductions. The inputs are those of `region`, then the tangents of the inputs i with by[i];
/// the tangents of the other inputs are zero. It and cotangent_of are defined in
/// handlers/transforms/record_region.cpp.
RegionPtr tangents_of(const Region& region, const std::vector<bool>& by);
/// Returns the region that computes the cotangent of input i of `region`, which must have no
/// reductions. The inputs are those of `region`, then the cotangents of the outputs k with of[k];
/// the cotangents of the other outputs are zero.
RegionPtr cotangent_of(const Region& region, int i, const std::vector<bool>& of);

}  // namespace stave_detail
