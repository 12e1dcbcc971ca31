// Bodies of the kernels that gather, scatter and slice at computed places (index_plan.h).
#pragma once

#include <stave/backends/cuda/index_plan.h>
#include <stave/backends/cuda/kernels/fault.cuh>
#include <stave/backends/cuda/kernels/lane.cuh>

namespace stave_cuda {

/// Where a lane's slice starts.
struct SlicePlace {
  bool valid;
  Index whole, part;
};

/// Reads the lane's indices; one out of range is reported, and there is no place then.
STAVE_BOTH inline SlicePlace place_of(const SliceLoop& loop, std::uint64_t lane) {
  const Offsets<3> at = loop.lanes(lane);
  SlicePlace place{true, at[1], at[2]};
  for (int j = 0; j < loop.tuple; ++j) {
    const IndexedAxis& axis = loop.axis(j);
    const Index from = at[0] + j * loop.tuple_step;
    const Index index = loop.wide_indices ? static_cast<const std::int64_t*>(loop.indices)[from]
                                          : Index{static_cast<const std::int32_t*>(loop.indices)[from]};
    const Index first = index < 0 && loop.from_end ? index + axis.length : index;
    if (first < 0 || first > axis.length - axis.taken) {
      report(loop.fault, loop.ticket, loop.first_axis + j, index, axis.length);
      return {false, 0, 0};
    }
    place.whole += first * axis.step;
  }
  return place;
}

/// One unit of one slice by each thread: part = whole, or whole = part.
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

/// For slices without elements, whose indices are looked at all the same.
STAVE_BOTH inline void check_place(const SliceLoop& loop, Position p) {
  const std::uint64_t lane = p.block * p.threads + p.thread;
  if (lane < loop.lane_count) place_of(loop, lane);
}

// ---- scatter_add, in four steps: destinations, a stable sort by them, the sorted destinations, sums ---------

STAVE_BOTH inline void find_destinations(const ScatterLoop& loop, Position p) {
  const std::uint64_t i = p.block * p.threads + p.thread;
  if (i >= loop.lanes) return;
  const SlicePlace place = place_of(loop.slices, loop.first_lane + i);
  const std::uint64_t destination =
      place.valid ? loop.slices.slice_units.wide(static_cast<std::uint64_t>(place.whole)) : loop.nowhere;
  loop.destination[i] = destination;
  loop.key[i] = static_cast<std::uint32_t>(destination);
  loop.lane[i] = static_cast<std::uint32_t>(i);
}
/// For a second pass of the sort: the upper halves of the destinations, in the order so far.
STAVE_BOTH inline void take_upper_keys(const ScatterLoop& loop, Position p) {
  const std::uint64_t i = p.block * p.threads + p.thread;
  if (i >= loop.lanes) return;
  loop.key[i] = static_cast<std::uint32_t>(loop.destination[loop.order[i]] >> 32);
  loop.lane[i] = loop.order[i];
}
STAVE_BOTH inline void sort_destinations(const ScatterLoop& loop, Position p) {
  const std::uint64_t i = p.block * p.threads + p.thread;
  if (i < loop.lanes) loop.sorted[i] = loop.destination[loop.order[i]];
}
/// The first lane of each destination adds the updates of all of them, in their order; a thread for each element.
template <class T>
STAVE_BOTH void add_updates(const ScatterLoop& loop, Position p) {
  const SliceLoop& slices = loop.slices;
  const std::uint64_t i = p.block * p.threads + p.thread, head = slices.slice_units.wide(i);
  if (head >= loop.lanes) return;
  const std::uint64_t destination = loop.sorted[head];
  if (destination == loop.nowhere || (head > 0 && loop.sorted[head - 1] == destination)) return;
  const Index within = slices.slice(i - head * slices.slice_units.divisor)[1];
  T* to = static_cast<T*>(slices.whole) + destination * slices.slice_units.divisor +
          (i - head * slices.slice_units.divisor);
  const T* updates = static_cast<const T*>(slices.part) + within;
  Lane<T> sum(*to);
  for (std::uint64_t j = head; j < loop.lanes && loop.sorted[j] == destination; ++j)
    sum = sum + Lane<T>(updates[slices.lanes(loop.first_lane + loop.order[j])[2]]);
  *to = sum.value;
}

}  // namespace stave_cuda
