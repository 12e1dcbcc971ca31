// Batching over flat lists of tensors: the core under vmap (vmap.h).
//
// The function sees one lane's values: tensors of the logical shape that have no storage. What stands behind each is a note:
// all lanes in one tensor, the batch as axis 0. The `vmap` handler performs, for each operation that touches such a value, its
// batching rule on the tensors behind. Values without a lane in them pass by: they are the same in every lane. Where the function
// reads a lane's value, lanes that differ part: it runs again for each class of them (paths.h).
#pragma once

#include <optional>
#include <span>
#include <string>

#include <stave/handlers/transforms/vjp_flat.h>

namespace stave {

/// Along which axis a tensor is mapped; `unmapped` (or `none`): the same for every lane.
struct MapAxis {
  Index axis = 0;
  bool mapped = true;
  constexpr MapAxis() = default;
  template <std::integral Integer>
  constexpr MapAxis(Integer axis_) : axis(static_cast<Index>(axis_)) {}
  struct Unmapped {};
  constexpr MapAxis(Unmapped) : mapped(false) {}
  constexpr MapAxis(Tensor::NoneType) : mapped(false) {}
  /// The same axis of an array of keys, as one of their data, of which the last axis is the keys' words.
  constexpr MapAxis of_keys() const { return mapped && axis < 0 ? MapAxis(axis - 1) : *this; }
};
inline constexpr MapAxis::Unmapped unmapped{};

/// f for each lane. in_axes has an entry for each input; `size` gives the number of lanes where no input is mapped; collectives
/// (core/ops/collective.h) find the lanes by `axis_name`. Results carry the lanes as axis 0; `batched[i]` says whether result i depends
/// on the lane at all: if not, it is one lane's.
struct FlatVmap {
  Outputs outputs;
  SmallVector<bool, 4> batched;
  Index size = 0;
  bool divided = false;  // lanes went different ways
};
FlatVmap vmap_flat(FlatFunction f, std::span<const Tensor> inputs, std::span<const MapAxis> in_axes,
                   std::optional<Index> size, InputNames names = numbered_inputs, const std::string& axis_name = {});

/// Result i of a vmap with its lanes along `axis`; `unmapped`: one for all, which is an error where they differ.
Tensor vmap_output(const FlatVmap& result, std::size_t i, MapAxis axis);
/// All of them.
Outputs vmap_outputs(const FlatVmap& result, std::span<const MapAxis> axes);

}  // namespace stave
