// Bodies of the scatter kernels (index_plan.h).
#pragma once

#include <stave/backends/cuda/kernels/index.cuh>

namespace stave_cuda {

// ---- scatter_add of integers, whose sums do not depend on the order ---------------------------

template <class T>
STAVE_BOTH void add_atomically(T* to, T value) {
#ifdef __CUDA_ARCH__
  using Word = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;
  atomicAdd(reinterpret_cast<Word*>(to), static_cast<Word>(value));
#else
  *to += value;
#endif
}
/// Adds one element of one update per thread.
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

// ---- the other scatters -----------------------------------------------------------------------
// They take five steps: find the destination of each lane, sort the lanes stably by destination,
// store the sorted destinations, merge each later part of a destination to a partial result, and
// merge the first part and the partial results into the destination.

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
/// Makes the keys of the second sort, which are the upper 32 bits of the destinations. Lanes are in
/// the order that the first sort, by the lower 32 bits, has given.
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
/// How a scatter merges a value with an update, or two updates. `a` comes before `b`. This struct
/// serves scatter_add, and the following ones the other scatter operations.
struct Adding {
  template <class S>
  static STAVE_BOTH S merge(S a, S b) {
    return a + b;
  }
};
struct Multiplying {
  template <class S>
  static STAVE_BOTH S merge(S a, S b) {
    return a * b;
  }
};
struct Least {
  template <class S>
  static STAVE_BOTH S merge(S a, S b) {
    return select((a < b) | (a != a), a, b);
  }
};
struct Greatest {
  template <class S>
  static STAVE_BOTH S merge(S a, S b) {
    return select((a > b) | (a != a), a, b);
  }
};
struct Latest {
  template <class S>
  static STAVE_BOTH S merge(S, S b) {
    return b;
  }
};

/// A complex number in the arithmetic of scatter_multiply.
template <class T>
struct ComplexLane {
  T value;
  ComplexLane() = default;
  STAVE_BOTH explicit ComplexLane(T z) : value(z) {}
  friend STAVE_BOTH ComplexLane operator*(ComplexLane a, ComplexLane b) { return ComplexLane(a.value * b.value); }
};

/// The type in which updates of T are merged. The complete result is rounded to T.
template <class T>
struct MergedOf {
  using Type = Lane<stave::Computed<T>>;
};
template <class T>
struct MergedOf<stave::ComplexElement<T>> {
  using Type = ComplexLane<stave::ComplexElement<T>>;
};
template <class T>
using Merged = typename MergedOf<T>::Type;
/// Returns element `unit` of the update of the j-th sorted lane.
template <class T>
STAVE_BOTH Merged<T> update_of(const ScatterLoop& loop, std::uint64_t j, std::uint64_t unit) {
  const SliceLoop& slices = loop.slices;
  const T* updates = static_cast<const T*>(slices.part) + slices.slice(unit)[1];
  return Merged<T>(computed(updates[slices.lanes(loop.first_lane + loop.order[j])[2]]));
}
/// Merges `state` with the updates of sorted lanes j, j + 1, ..., end - 1 that have the same
/// destination as sorted lane j - 1. It merges element `unit` only.
template <class How, class T>
STAVE_BOTH Merged<T> merge_part(const ScatterLoop& loop, std::uint64_t j, std::uint64_t end, std::uint64_t unit,
                                Merged<T> state) {
  const std::uint64_t destination = loop.sorted[j - 1];
  for (; j < end && j < loop.lanes && loop.sorted[j] == destination; ++j)
    state = How::merge(state, update_of<T>(loop, j, unit));
  return state;
}
/// Returns the index of the first sorted lane that has the same destination as the j-th one.
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
/// Merges the second and later parts of destinations to partial results. Such a part begins a
/// multiple of 2^part_bits lanes after the first sorted lane of its destination. The sorted lanes
/// are divided into stretches of 2^part_bits lanes. At most one such part begins in a stretch, and
/// it belongs to the destination of the first lane of the stretch. There is a thread for each
/// stretch and each element of a slice.
template <class How, class T>
STAVE_BOTH void merge_parts(const ScatterLoop& loop, Position p) {
  const std::uint64_t i = p.block * p.threads + p.thread, stretch = loop.slices.slice_units.wide(i);
  if (stretch >= loop.parts()) return;
  const std::uint64_t first = stretch << loop.part_bits, destination = loop.sorted[first];
  const std::uint64_t head = head_of(loop, first), whole = (std::uint64_t{1} << loop.part_bits) - 1;
  const std::uint64_t begin = head + ((first - head + whole) & ~whole);
  if (destination == loop.nowhere || begin == head || begin >= loop.lanes || loop.sorted[begin] != destination) return;
  const std::uint64_t unit = i - stretch * loop.slices.slice_units.divisor;
  static_cast<Merged<T>*>(loop.partials)[i] =
      merge_part<How, T>(loop, begin + 1, begin + whole + 1, unit, update_of<T>(loop, begin, unit));
}
/// Merges all updates into the destinations. There is a thread for each sorted lane and each
/// element of a slice. If the lane is the first of its destination, the thread merges the updates
/// of the first part, and then the partial results of the other parts in order.
template <class How, class T>
STAVE_BOTH void merge_updates(const ScatterLoop& loop, Position p) {
  const std::uint64_t units = loop.slices.slice_units.divisor;
  const std::uint64_t i = p.block * p.threads + p.thread, head = loop.slices.slice_units.wide(i);
  if (head >= loop.lanes) return;
  const std::uint64_t destination = loop.sorted[head], unit = i - head * units;
  if (destination == loop.nowhere || (head > 0 && loop.sorted[head - 1] == destination)) return;
  T* to = static_cast<T*>(loop.slices.whole) + destination * units + unit;
  const std::uint64_t step = std::uint64_t{1} << loop.part_bits;
  Merged<T> state = How::merge(Merged<T>(computed(*to)), update_of<T>(loop, head, unit));
  state = merge_part<How, T>(loop, head + 1, head + step, unit, state);
  for (std::uint64_t j = head + step; j < loop.lanes && loop.sorted[j] == destination; j += step)
    state = How::merge(state, static_cast<const Merged<T>*>(loop.partials)[(j >> loop.part_bits) * units + unit]);
  *to = element_of<T>(state.value);
}

}  // namespace stave_cuda
