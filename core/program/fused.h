// Many elementwise operations, and reductions of what they give, performed as one: memory is read and written once, whatever is
// between.
//
//   const RegionPtr region = ...;                        // core/program/region.h; elementwise_op (handlers/compile/elementwise_op.h) records one
//   Tensor y = fused(region, {x, bias})[0];
//
// It is an operation like any other: derivatives of any order and batching are regions again, derived from this one when they are
// first asked for. What it computes is, bit for bit, what its steps compute one after another. On a CUDA device it is a kernel that
// NVRTC makes when the region is first performed there; where there is no NVRTC, the kernels of its steps.
#pragma once

#include <string_view>

#include <stave/core/program/region.h>

namespace stave {

/// The region on inputs that broadcast to one shape, which is that of its outputs, or of what they reduce. Inputs as many, and of
/// the dtypes, as the region says: else a TransformError or DtypeError. ShapeError for shapes that do not broadcast, and where max or
/// min have nothing to choose from; IndexError for a shape without the axes that are reduced.
/// Inputs that nobody else holds may give their memory to outputs.
Outputs fused(const RegionPtr& region, Inputs inputs);
inline Outputs fused(const RegionPtr& region, std::span<const Tensor> inputs) {
  return fused(region, Inputs(inputs.begin(), inputs.end()));
}

/// The attributes of such an operation.
struct FusedAttributes final : Attributes {
  RegionPtr region;
  explicit FusedAttributes(RegionPtr region_) : region(std::move(region_)) {}
  /// "{multiply add tanh}", of long regions the beginning.
  std::string str() const override;
  bool equals(const Attributes& other) const override {
    return region->is_same_as(*static_cast<const FusedAttributes&>(other).region);
  }
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// The record of such operations that handlers show by this name; always the same for the same name.
const Op& fused_op(std::string_view name);
Outputs fused(const Op& op, const RegionPtr& region, Inputs inputs);

/// The steps of a region, performed one after another.
Outputs perform_steps(const Region& region, std::span<const Tensor> inputs);

/// Defined by backends/cpu; core knows it by this declaration only.
void run_fused(const Attributes* attributes, std::span<const View> inputs, std::span<const View> outputs);
/// Defined by handlers, likewise: of `region` the tangents of its outputs that are floats, by its inputs and then the tangents of those
/// in `by`.
RegionPtr tangents_of(const Region& region, const std::vector<bool>& by);
/// The cotangent of input i, by its inputs and then the cotangents of the outputs in `of`.
RegionPtr cotangent_of(const Region& region, int i, const std::vector<bool>& of);

}  // namespace stave_detail
