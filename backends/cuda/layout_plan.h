// The plan of copies. This is host arithmetic, tested without a device.
//
//   flat      both sides are contiguous: cudaMemcpyAsync copies them
//   units     each thread moves four units; a unit has 16, 8, 4, 2 or 1 bytes, the largest size
//             that divides the contiguous runs of both sides
//   tiles     the source is contiguous along another axis than the destination (a transpose):
//             32 x 32 elements at a time go through shared memory, so both sides are accessed in
//             contiguous runs
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include <stave/backends/cuda/elementwise_plan.h>
#include <stave/backends/cuda/layout.h>
#include <stave/core/op/attributes.h>

namespace stave_cuda {

inline constexpr int units_per_thread = 4;
inline constexpr int tile_side = 32;
// The number of rows of a tile that the threads of a block move in one step.
inline constexpr unsigned tile_rows = block_threads / tile_side;

/// Parameters of the copy kernels. Operand 0 is the destination and operand 1 the source.
struct UnitLoop {
  void* to;
  const void* from;
  std::uint64_t units;
  IndexMap<2> map;  // maps a unit's number to offsets in units
};
struct TileLoop {
  void* to;
  const void* from;
  // Maps a tile's number to its offsets and to its first row and column.
  IndexMap<4> map;
  // The size of the matrix that the tiles cover, in elements.
  Index rows, columns;
  // Steps in elements. `from_row` and `to_column` are 1 or -1.
  Index to_row, from_row;
  Index to_column, from_column;
};

class CopyPlan {
 public:
  enum class CopyKind { nothing, flat, units, tiles };

  CopyPlan(Placed to, Placed from, std::span<const Index> shape, Index size)
      : to_(to.data), from_(from.data), size_(size), axes_(merged_axes<2>(shape, {to.strides, from.strides})) {
    for (const LoopAxis<2>& axis : axes_) elements_ *= axis.length;
    if (elements_ == 0) kind_ = CopyKind::nothing;
    else if (axes_.empty() || (axes_.size() == 1 && axes_[0].step == std::array<Index, 2>{1, 1}))
      kind_ = CopyKind::flat;
    else if (find_rows()) plan_tiles();
    else plan_units();
  }

  CopyKind kind() const { return kind_; }
  Index bytes() const { return elements_ * size_; }
  /// The size of a unit in bytes. A unit may be several elements.
  Index unit() const { return unit_; }
  unsigned blocks() const { return blocks_; }
  UnitLoop units(const IndexMap<2>& map) const {
    return {to_, from_, static_cast<std::uint64_t>(units_->elements()), map};
  }
  TileLoop tiles(const IndexMap<4>& map) const {
    const LoopAxis<2>&row = axes_[row_axis_], &column = axes_.back();
    return {to_, from_, map, row.length, column.length, row.step[0], row.step[1], column.step[0], column.step[1]};
  }
  const IndexPlan<2>& unit_plan() const { return *units_; }
  const IndexPlan<4>& tile_plan() const { return *tiles_; }

 private:
  /// Finds the row axis of the tiles: the source has step 1 or -1 along it, and the destination has
  /// step 1 or -1 along the last axis. Returns false if there is no such axis, or if the tiles
  /// would be mostly empty.
  bool find_rows() {
    constexpr Index least = 8;
    const LoopAxis<2>& inner = axes_.back();
    auto dense = [](Index step) { return step == 1 || step == -1; };
    if (!dense(inner.step[0]) || dense(inner.step[1]) || inner.step[1] == 0 || inner.length < least) return false;
    for (row_axis_ = 0; row_axis_ + 1 < axes_.size(); ++row_axis_)
      if (dense(axes_[row_axis_].step[1]) && axes_[row_axis_].length >= least) return true;
    return false;
  }
  void plan_tiles() {
    kind_ = CopyKind::tiles;
    LoopAxes<4> axes;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const LoopAxis<2>& axis = axes_[i];
      LoopAxis<4> tile{axis.length, {axis.step[0], axis.step[1], 0, 0}};
      if (i == row_axis_ || i + 1 == axes_.size()) {
        tile.length = (axis.length + tile_side - 1) / tile_side;
        tile.step = {axis.step[0] * tile_side, axis.step[1] * tile_side, i == row_axis_ ? tile_side : 0,
                     i == row_axis_ ? 0 : tile_side};
      }
      if (tile.length > 1) axes.push_back(tile);
    }
    tiles_.emplace(std::move(axes));
    blocks_ = static_cast<unsigned>(tiles_->elements());
  }
  bool divides(Index unit) const {
    const Index ratio = unit / size_;
    if (ratio == 1) return true;
    for (const void* data : {static_cast<const void*>(to_), from_})
      if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(unit) != 0) return false;
    const LoopAxis<2>& inner = axes_.back();
    if (inner.step != std::array<Index, 2>{1, 1} || inner.length % ratio != 0) return false;
    for (std::size_t i = 0; i + 1 < axes_.size(); ++i)
      if (axes_[i].step[0] % ratio != 0 || axes_[i].step[1] % ratio != 0) return false;
    return true;
  }
  void plan_units() {
    kind_ = CopyKind::units;
    for (unit_ = 16; unit_ > size_ && !divides(unit_);) unit_ /= 2;
    const Index ratio = unit_ / size_;
    LoopAxes<2> axes = axes_;
    for (std::size_t i = 0; i + 1 < axes.size(); ++i)
      for (Index& step : axes[i].step) step /= ratio;
    axes.back().length /= ratio;
    units_.emplace(std::move(axes));
    const Index each = Index{block_threads} * units_per_thread;
    blocks_ = static_cast<unsigned>((units_->elements() + each - 1) / each);
  }

  void* to_;
  const void* from_;
  Index size_, elements_ = 1, unit_ = 0;
  LoopAxes<2> axes_;
  std::size_t row_axis_ = 0;
  CopyKind kind_ = CopyKind::nothing;
  unsigned blocks_ = 0;
  std::optional<IndexPlan<2>> units_;
  std::optional<IndexPlan<4>> tiles_;
};

/// The elements of the output where pad writes its input: their first address and strides.
struct PadPlace {
  void* data;
  stave::Strides strides;
  PadPlace(const stave::PadAttributes& attributes, const View& out) : strides(out.strides) {
    Index start = 0;
    for (std::size_t i = 0; i < strides.size(); ++i) {
      start += attributes.starts[i] * strides[i];
      strides[i] *= attributes.steps[i];
    }
    data = static_cast<char*>(out.data) + start * static_cast<Index>(stave::size_of(out.dtype));
  }
};

/// One element, repeated in sixteen bytes. A fill kernel writes these bytes again and again.
struct alignas(16) Pattern {
  std::uint8_t bytes[16];
};
struct FillLoop {
  void* to;  // aligned to 16 bytes
  std::uint64_t bytes;
  Pattern pattern;
};
struct IotaLoop {
  void* to;
  std::uint64_t elements;
  double start, step;                         // for floats
  std::uint64_t start_integer, step_integer;  // for integers, which wrap around
};
inline IotaLoop iota_loop(const stave::IotaAttributes& attributes, const View& out) {
  return {out.data,
          static_cast<std::uint64_t>(attributes.length),
          attributes.start.floating,
          attributes.step.floating,
          static_cast<std::uint64_t>(attributes.start.integer),
          static_cast<std::uint64_t>(attributes.step.integer)};
}

inline Pattern pattern_of(stave::Dtype dtype, stave::Scalar value) {
  Pattern pattern;
  stave::visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    T element;
    if constexpr (std::is_same_v<T, bool>) element = value.integer != 0;
    else if constexpr (std::is_integral_v<T>) element = static_cast<T>(value.integer);
    else if constexpr (stave::ComplexNumber<T>) element = static_cast<T>(value.complex());
    else element = static_cast<T>(value.floating);
    for (std::size_t i = 0; i < sizeof pattern; i += sizeof element)
      std::memcpy(pattern.bytes + i, &element, sizeof element);
  });
  return pattern;
}
/// Returns a scalar, which lies in host memory, repeated in sixteen bytes.
inline Pattern pattern_of(const View& number) {
  Pattern pattern;
  const std::size_t size = stave::size_of(number.dtype);
  for (std::size_t i = 0; i < sizeof pattern; i += size) std::memcpy(pattern.bytes + i, number.data, size);
  return pattern;
}

}  // namespace stave_cuda
