// Batching over flat lists of tensors: the core of vmap (vmap.h).
//
// The function sees one lane's values: tensors of the logical shape that have no storage. A note on
// each holds the physical tensor: the values of all lanes in one tensor, with the lanes as axis 0.
// (A single lane that has split from the others may run on its real values instead.)
// For each operation on such a value, the `vmap` handler performs the operation's batching rule on
// the physical tensors. Operations on values that do not depend on a lane are passed on unchanged:
// they are the same in every lane. If the function reads a value that differs between lanes,
// the lanes split, and the function runs again for each group of them (paths.h).
#pragma once

#include <optional>
#include <span>
#include <string>

#include <stave/handlers/transforms/vjp_flat.h>

namespace stave {

/// The axis along which a tensor is mapped; `unmapped` (or `none`) means that it is
/// the same for every lane.
struct MapAxis {
  Index axis = 0;
  bool mapped = true;
  constexpr MapAxis() = default;
  template <std::integral Integer>
  constexpr MapAxis(Integer axis_) : axis(static_cast<Index>(axis_)) {}
  struct Unmapped {};
  constexpr MapAxis(Unmapped) : mapped(false) {}
  constexpr MapAxis(Tensor::NoneType) : mapped(false) {}
  /// Converts an axis of an array of random-number keys to the axis of the keys' data. The data has
  /// one more axis, the last one, which holds the words of a key.
  constexpr MapAxis of_keys() const { return mapped && axis < 0 ? MapAxis(axis - 1) : *this; }
};
inline constexpr MapAxis::Unmapped unmapped{};

/// The results of f for each lane, with the lanes as axis 0. `batched[i]` is true if result i
/// depends on the lane; if not, the result is that of one lane, without the axis.
struct FlatVmap {
  Outputs outputs;
  SmallVector<bool, 4> batched;
  Index size = 0;
  bool divided = false;  // whether lanes took different paths
};
/// Runs f for each lane. in_axes has an entry for each input. `size` gives the number of lanes
/// if no input is mapped, and is checked otherwise. Collectives (core/ops/collective.h) find the
/// lanes by `axis_name`.
FlatVmap vmap_flat(FlatFunction f, std::span<const Tensor> inputs, std::span<const MapAxis> in_axes,
                   std::optional<Index> size, InputNames names = numbered_inputs, const std::string& axis_name = {});

/// Returns result i of a vmap with its lanes along `axis`. `unmapped` returns one value for all
/// lanes. It throws TransformError for a batched result; but if lanes took different paths, only if
/// their values differ. Throws IndexError if the axis is out of range.
Tensor vmap_output(const FlatVmap& result, std::size_t i, MapAxis axis);
/// Returns all results of a vmap, each with its lanes along its axis.
Outputs vmap_outputs(const FlatVmap& result, std::span<const MapAxis> axes);

}  // namespace stave
