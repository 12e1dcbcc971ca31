// The plan of copies between slices of a tensor `whole` and a tensor `part`, at positions that an
// integer tensor of indices [batch, at, tuple] gives. `batch`, `at`, `indexed` and `rest` stand for
// any number of axes.
//
//   gather                 whole = x [batch, indexed, rest],  part = out [batch, at, rest]
//   scatter ...            whole = out,                       part = updates
//   dynamic_slice          whole = x,                         part = out
//   dynamic_update_slice   whole = out,                       part = update
//
// In the last two there are no axes `at`, and a slice has all axes of `whole`, with shorter
// lengths.
//
// A lane is an element of [batch, at]. It has one tuple of indices and one slice.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <stave/backends/cuda/elementwise_plan.h>
#include <stave/core/op/attributes.h>

namespace stave_cuda {

/// An axis of `whole` on which one index of the tuple selects a position.
struct IndexedAxis {
  // The axis has `length` positions, and a slice takes `taken` of them.
  Index length, taken;
  Index step;
};
inline constexpr int inline_indexed_axes = 4;

/// Parameters of the kernels that copy slices. Offsets are in units; a unit is one or more
/// elements.
struct SliceLoop {
  const void* indices = nullptr;
  bool wide_indices = false;  // true if indices are int64, false if they are int32
  bool from_end = true;       // negative indices count from the end
  int tuple = 0;              // the number of indices per lane
  // The axis of `whole` that the first index selects on; errors name the axes by their numbers.
  int first_axis = 0;
  Index tuple_step = 0;
  IndexedAxis axes[inline_indexed_axes];
  const IndexedAxis* more = nullptr;  // the axes that do not fit in `axes`
  IndexMap<3> lanes;                  // maps a lane to offsets in the indices, `whole` and `part`
  IndexMap<2> slice;                  // maps a unit of a slice to offsets in `whole` and `part`
  std::uint64_t lane_count = 0;
  Divider slice_units;
  void* whole = nullptr;
  void* part = nullptr;
  IndexFault* fault = nullptr;
  unsigned ticket = 0;
};

class SlicePlan {
 public:
  struct Parts {
    std::size_t batch, at;         // the numbers of axes of each kind
    std::span<const Index> shape;  // the shape of a slice
    std::vector<IndexedAxis> indexed;
    // The strides of `whole` along the batch axes (`whole_lanes`) and along the axes of a slice
    // (`whole_slice`).
    std::span<const Index> whole_lanes, whole_slice;
    std::span<const Index> part_strides;
  };

  /// `most_unit` is the largest unit in bytes: 16, or the element size if the kernel does
  /// arithmetic on elements.
  SlicePlan(Parts parts, const View& whole, const View& part, const View& indices, Index most_unit)
      : parts_(std::move(parts)), size_(static_cast<Index>(stave::size_of(whole.dtype))) {
    loop_.indices = indices.data;
    loop_.wide_indices = indices.dtype == stave::int64;
    loop_.tuple = static_cast<int>(parts_.indexed.size());
    loop_.tuple_step = indices.strides.back();
    loop_.whole = whole.data;
    loop_.part = part.data;
    plan_axes(indices, part);
    unit_ = most_unit;
    while (unit_ > size_ && !divides(unit_ / size_)) unit_ /= 2;
    in_units();
  }
  static SlicePlan gather(const stave::GatherAttributes& attributes, const View& whole, const View& part,
                          const View& indices, Index most_unit = 16) {
    const auto batch = static_cast<std::size_t>(attributes.batch_dims);
    const auto k = static_cast<std::size_t>(indices.shape.back());
    Parts parts{batch,       indices.shape.size() - batch - 1, whole.shape.subspan(batch + k),
                {},          whole.strides.first(batch),       whole.strides.subspan(batch + k),
                part.strides};
    for (std::size_t j = 0; j < k; ++j) parts.indexed.push_back({whole.shape[batch + j], 1, whole.strides[batch + j]});
    SlicePlan plan(std::move(parts), whole, part, indices, most_unit);
    plan.loop_.from_end = attributes.from_end;
    plan.loop_.first_axis = attributes.batch_dims;
    return plan;
  }
  static SlicePlan dynamic(const stave::DynamicSliceAttributes& attributes, const View& whole, const View& part,
                           const View& starts) {
    const auto batch = static_cast<std::size_t>(attributes.batch_dims);
    Parts parts{batch,       0, part.shape.subspan(batch), {}, whole.strides.first(batch), whole.strides.subspan(batch),
                part.strides};
    for (std::size_t j = 0; j < attributes.sizes.size(); ++j)
      parts.indexed.push_back({whole.shape[batch + j], attributes.sizes[j], whole.strides[batch + j]});
    return SlicePlan(std::move(parts), whole, part, starts, 16);
  }

  Index lanes() const { return lanes_; }
  /// The number of units per slice.
  Index units() const { return units_; }
  /// The size of a unit in bytes.
  Index unit() const { return unit_; }
  unsigned blocks() const { return static_cast<unsigned>((lanes_ * units_ + block_threads - 1) / block_threads); }

  SliceLoop on_host() const {
    SliceLoop loop = with(lane_map().on_host(), slice_map().on_host());
    loop.more = parts_.indexed.data() + std::min<std::size_t>(inline_indexed_axes, parts_.indexed.size());
    return loop;
  }
  SliceLoop on_device(const Launch& launch) const {
    SliceLoop loop = with(lane_map().on_device(launch), slice_map().on_device(launch));
    loop.fault = launch.fault;
    loop.ticket = launch.ticket;
    if (parts_.indexed.size() <= inline_indexed_axes) return loop;
    const std::size_t bytes = (parts_.indexed.size() - inline_indexed_axes) * sizeof(IndexedAxis);
    void* memory = launch.scratch.allocate(bytes);
    check(cudaMemcpyAsync(memory, parts_.indexed.data() + inline_indexed_axes, bytes, cudaMemcpyHostToDevice,
                          launch.stream),
          "upload of indexed axes");
    loop.more = static_cast<const IndexedAxis*>(memory);
    return loop;
  }

 private:
  const IndexPlan<3>& lane_map() const { return maps_->first; }
  const IndexPlan<2>& slice_map() const { return maps_->second; }

  void plan_axes(const View& indices, const View& part) {
    const std::size_t lead = parts_.batch + parts_.at;
    stave::Strides whole(std::span<const Index>(parts_.whole_lanes));
    whole.resize(lead, 0);
    lane_axes_ = merged_axes<3>(part.shape.first(lead), {indices.strides.first(lead), std::span<const Index>(whole),
                                                         parts_.part_strides.first(lead)});
    slice_axes_ = merged_axes<2>(parts_.shape, {parts_.whole_slice, parts_.part_strides.subspan(lead)});
    for (const auto& axis : lane_axes_) lanes_ *= axis.length;
    for (const auto& axis : slice_axes_) units_ *= axis.length;
  }
  bool divides(Index ratio) const {
    if (slice_axes_.empty() || units_ == 0 || slice_axes_.back().length % ratio != 0) return false;
    if (slice_axes_.back().step != std::array<Index, 2>{1, 1}) return false;
    for (const void* data : {loop_.whole, loop_.part})
      if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(ratio * size_) != 0) return false;
    auto odd = [&](Index step) { return step % ratio != 0; };
    for (std::size_t i = 0; i + 1 < slice_axes_.size(); ++i)
      if (odd(slice_axes_[i].step[0]) || odd(slice_axes_[i].step[1])) return false;
    for (const auto& axis : lane_axes_)
      if (odd(axis.step[1]) || odd(axis.step[2])) return false;
    // If a slice covers a whole axis, its only position on that axis is 0, so any step will do.
    return std::none_of(parts_.indexed.begin(), parts_.indexed.end(),
                        [&](const auto& axis) { return axis.taken != axis.length && odd(axis.step); });
  }
  void in_units() {
    const Index ratio = unit_ / size_;
    if (ratio > 1) {
      slice_axes_.back().length /= ratio;
      for (std::size_t i = 0; i + 1 < slice_axes_.size(); ++i)
        for (Index& step : slice_axes_[i].step) step /= ratio;
      for (auto& axis : lane_axes_) axis.step[1] /= ratio, axis.step[2] /= ratio;
      for (auto& axis : parts_.indexed) axis.step /= ratio;
      units_ /= ratio;
    }
    maps_.emplace(IndexPlan<3>(std::move(lane_axes_)), IndexPlan<2>(std::move(slice_axes_)));
  }
  SliceLoop with(const IndexMap<3>& lanes, const IndexMap<2>& slice) const {
    SliceLoop loop = loop_;
    loop.lanes = lanes;
    loop.slice = slice;
    loop.lane_count = static_cast<std::uint64_t>(lanes_);
    loop.slice_units = Divider(std::max<Index>(1, units_));
    std::copy_n(parts_.indexed.begin(), std::min<std::size_t>(inline_indexed_axes, parts_.indexed.size()), loop.axes);
    return loop;
  }

  Parts parts_;
  Index size_, unit_ = 0, lanes_ = 1, units_ = 1;
  SliceLoop loop_;
  LoopAxes<3> lane_axes_;
  LoopAxes<2> slice_axes_;
  std::optional<std::pair<IndexPlan<3>, IndexPlan<2>>> maps_;
};

// ---- scatter ----------------------------------------------------------------------------------

/// The number of lanes that are sorted together, so that their indices fit in 32 bits. Further
/// lanes are sorted and merged afterwards, in order, so this limit does not change the result.
inline constexpr Index most_sorted = Index{1} << 30;

/// Parameters of the scatter kernels, which process lanes [first_lane, first_lane + lanes) of
/// `slices`. The result is contiguous. The destination of a lane is the number of the slice of the
/// result that the lane updates, or `nowhere` if an index is out of range.
struct ScatterLoop {
  SliceLoop slices;
  std::uint64_t first_lane, lanes;
  std::uint64_t nowhere;       // greater than every destination
  std::uint64_t* destination;  // the destination of each lane
  std::uint32_t* key;          // 32 bits of the destination, the sort key
  std::uint32_t* lane;         // the lane, relative to first_lane
  const std::uint32_t* order;  // lanes sorted by destination
  std::uint64_t* sorted;       // destinations in sorted order
  // The updates of one destination are divided into parts of 2^part_bits. The updates of each part
  // are merged first, and then the parts.
  unsigned part_bits;
  void* partials;  // the merged parts: [parts(), elements of a slice]

  /// Returns the number of slices in `partials`. Each part of a destination, except its first, is
  /// merged into a slice. If the part begins at sorted lane j, this is slice j >> part_bits. No two
  /// parts share a slice: two parts that are not first begin at least 2^part_bits lanes apart.
  STAVE_BOTH std::uint64_t parts() const { return ((lanes - 1) >> part_bits) + 1; }
};

/// Returns the base-2 logarithm of the number of updates per part. If all updates have one
/// destination, a part has about as many updates as there are parts. A destination with few updates
/// has one part, which is merged in the CPU's order. The number depends on shapes alone, so the
/// results of scatter do not depend on the machine.
inline unsigned scatter_part_bits(Index lanes) {
  unsigned bits = 6;
  while ((lanes >> bits) > (Index{1} << bits)) ++bits;
  return bits;
}

/// Returns the parameters, except for the arrays, `first_lane` and `lanes`, which the caller sets.
inline ScatterLoop scatter_loop(const SlicePlan& plan, const SliceLoop& slices, const View& out) {
  Index elements = 1;
  for (Index length : out.shape) elements *= length;
  ScatterLoop loop{};
  loop.slices = slices;
  loop.nowhere = static_cast<std::uint64_t>(elements / plan.units());
  loop.part_bits = scatter_part_bits(std::min(plan.lanes(), most_sorted));
  return loop;
}

}  // namespace stave_cuda
