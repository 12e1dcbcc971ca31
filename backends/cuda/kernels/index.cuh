// Bodies of the kernels that copy slices at positions given by a tensor (index_plan.h).
#pragma once

#include <stave/backends/cuda/index_plan.h>
#include <stave/backends/cuda/kernels/fault.cuh>
#include <stave/backends/cuda/kernels/lane.cuh>

namespace stave_cuda {

/// The offsets at which a lane's slice starts in `whole` and `part`.
struct SlicePlace {
  bool valid;
  Index whole, part;
};

/// Moves place.whole along an axis by the j-th index of the tuple that starts at offset `from`. If
/// the index is out of range, reports it and returns false.
STAVE_BOTH inline bool go_along(const SliceLoop& loop, const IndexedAxis& axis, int j, Index from, SlicePlace& place) {
  from += j * loop.tuple_step;
  const Index index = loop.wide_indices ? static_cast<const std::int64_t*>(loop.indices)[from]
                                        : Index{static_cast<const std::int32_t*>(loop.indices)[from]};
  const Index first = index < 0 && loop.from_end ? index + axis.length : index;
  if (first < 0 || first > axis.length - axis.taken) {
    report(loop.fault, loop.ticket, loop.first_axis + j, index, axis.length);
    return place.valid = false;
  }
  place.whole += first * axis.step;
  return true;
}
/// Reads the indices of a lane and returns the place of its slice. The place is invalid if an index
/// is out of range. There are two loops for the reason given in IndexMap::walk.
STAVE_BOTH inline SlicePlace place_of(const SliceLoop& loop, std::uint64_t lane) {
  const Offsets<3> at = loop.lanes(lane);
  SlicePlace place{true, at[1], at[2]};
  STAVE_ROLLED
  for (int j = 0; j < inline_indexed_axes && j < loop.tuple; ++j)
    if (!go_along(loop, loop.axes[j], j, at[0], place)) return place;
  STAVE_ROLLED
  for (int j = inline_indexed_axes; j < loop.tuple; ++j)
    if (!go_along(loop, loop.more[j - inline_indexed_axes], j, at[0], place)) return place;
  return place;
}

/// Moves one unit of one slice per thread: part = whole, or whole = part.
template <class Unit, bool to_part>
STAVE_BOTH void move_slices(const SliceLoop& loop, Position p) {
  const std::uint64_t i = p.block * p.threads + p.thread, lane = loop.slice_units.wide(i);
  if (lane >= loop.lane_count) return;
  const SlicePlace place = place_of(loop, lane);
  if (!place.valid) return;
  const Offsets<2> at = loop.slice(i - lane * loop.slice_units.divisor);
  Unit* whole = static_cast<Unit*>(loop.whole) + place.whole + at[0];
  Unit* part = static_cast<Unit*>(loop.part) + place.part + at[1];
  if constexpr (to_part) *part = *whole;
  else *whole = *part;
}

/// Checks the indices of a lane whose slice has no elements.
STAVE_BOTH inline void check_place(const SliceLoop& loop, Position p) {
  const std::uint64_t lane = p.block * p.threads + p.thread;
  if (lane < loop.lane_count) place_of(loop, lane);
}

}  // namespace stave_cuda
