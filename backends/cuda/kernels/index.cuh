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

/// Goes along an axis by the j-th of the indices that lie at `from`. False: it is out of range, which is reported.
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
/// Reads the lane's indices; where one is out of range there is no place. Two loops: see IndexMap::walk.
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

// ---- scatter_add of integers, whose sums do not depend on the order ------------------------------------------

template <class T>
STAVE_BOTH void add_atomically(T* to, T value) {
#ifdef __CUDA_ARCH__
  using Word = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;
  atomicAdd(reinterpret_cast<Word*>(to), static_cast<Word>(value));
#else
  *to += value;
#endif
}
/// One element of one update by each thread.
template <class T>
STAVE_BOTH void add_slices(const SliceLoop& loop, Position p) {
  static_assert(std::is_unsigned_v<T>);
  const std::uint64_t i = p.block * p.threads + p.thread, lane = loop.slice_units.wide(i);
  if (lane >= loop.lane_count) return;
  const SlicePlace place = place_of(loop, lane);
  if (!place.valid) return;
  const Offsets<2> at = loop.slice(i - lane * loop.slice_units.divisor);
  add_atomically(static_cast<T*>(loop.whole) + place.whole + at[0],
                 static_cast<const T*>(loop.part)[place.part + at[1]]);
}

// ---- scatter_add, in five steps: destinations, a stable sort by them, the sorted destinations, sums of parts, sums ----

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
/// What updates of T are added in; the result is rounded from it.
template <class T>
using UpdateSum = Lane<stave::Computed<T>>;
/// `sum`, and the updates of a destination from the j-th of the sorted ones on, as many as are in a part.
template <class T>
STAVE_BOTH UpdateSum<T> add_part(const ScatterLoop& loop, std::uint64_t j, std::uint64_t unit, UpdateSum<T> sum) {
  const SliceLoop& slices = loop.slices;
  const T* updates = static_cast<const T*>(slices.part) + slices.slice(unit)[1];
  const std::uint64_t destination = loop.sorted[j], end = j + (std::uint64_t{1} << loop.part_bits);
  for (; j < end && j < loop.lanes && loop.sorted[j] == destination; ++j)
    sum = sum + UpdateSum<T>(computed(updates[slices.lanes(loop.first_lane + loop.order[j])[2]]));
  return sum;
}
/// Where the destination of the j-th sorted lane begins.
STAVE_BOTH inline std::uint64_t head_of(const ScatterLoop& loop, std::uint64_t j) {
  const std::uint64_t destination = loop.sorted[j];
  std::uint64_t low = 0;
  while (low < j) {
    const std::uint64_t middle = low + (j - low) / 2;
    if (loop.sorted[middle] < destination) low = middle + 1;
    else j = middle;
  }
  return j;
}
/// A destination's second and later parts, which begin a whole number of parts after it: of those that overlap one another so many
/// lanes from 0 on, at most one begins within each, and it belongs to the destination that the stretch begins with. A thread for
/// each element of each stretch.
template <class T>
STAVE_BOTH void sum_parts(const ScatterLoop& loop, Position p) {
  const std::uint64_t i = p.block * p.threads + p.thread, stretch = loop.slices.slice_units.wide(i);
  if (stretch >= loop.parts()) return;
  const std::uint64_t first = stretch << loop.part_bits, destination = loop.sorted[first];
  const std::uint64_t head = head_of(loop, first), whole = (std::uint64_t{1} << loop.part_bits) - 1;
  const std::uint64_t begin = head + ((first - head + whole) & ~whole);
  if (destination == loop.nowhere || begin == head || begin >= loop.lanes || loop.sorted[begin] != destination) return;
  const std::uint64_t unit = i - stretch * loop.slices.slice_units.divisor;
  static_cast<UpdateSum<T>*>(loop.partials)[i] = add_part<T>(loop, begin, unit, UpdateSum<T>(0));
}
/// The first lane of each destination adds the updates of its first part, and the sums of the others, in their order; a thread for
/// each element.
template <class T>
STAVE_BOTH void add_updates(const ScatterLoop& loop, Position p) {
  const std::uint64_t units = loop.slices.slice_units.divisor;
  const std::uint64_t i = p.block * p.threads + p.thread, head = loop.slices.slice_units.wide(i);
  if (head >= loop.lanes) return;
  const std::uint64_t destination = loop.sorted[head], unit = i - head * units;
  if (destination == loop.nowhere || (head > 0 && loop.sorted[head - 1] == destination)) return;
  T* to = static_cast<T*>(loop.slices.whole) + destination * units + unit;
  UpdateSum<T> sum = add_part<T>(loop, head, unit, UpdateSum<T>(computed(*to)));
  const std::uint64_t step = std::uint64_t{1} << loop.part_bits;
  for (std::uint64_t j = head + step; j < loop.lanes && loop.sorted[j] == destination; j += step)
    sum = sum + static_cast<const UpdateSum<T>*>(loop.partials)[(j >> loop.part_bits) * units + unit];
  *to = element_of<T>(sum.value);
}

}  // namespace stave_cuda
