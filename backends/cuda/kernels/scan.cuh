// The kernels of all scans, as bodies that run on the device and on the host (see scan_plan.h).
#pragma once

#include <stave/backends/cuda/scan_plan.h>
#include <stave/backends/cuda/kernels/block.cuh>
#include <stave/backends/cuda/kernels/scan_steps.cuh>

namespace stave_cuda {

/// Where the elements of one row are in memory.
template <class Step>
struct ScanRow {
  using T = typename Step::Element;
  const T *x, *y;
  T* out;
  Index x_step, y_step, out_step;

  STAVE_BOTH ScanRow(const ScanArgs& args, Index row)
      : x_step(args.step[0]), y_step(args.step[1]), out_step(args.step[2]) {
    const Offsets<3> at = args.rows(static_cast<std::uint64_t>(row));
    x = static_cast<const T*>(args.in[0]) + at[0];
    y = static_cast<const T*>(args.in[1]) + at[1];
    out = static_cast<T*>(args.out) + at[2];
  }
  STAVE_BOTH T first(Index i) const { return x[i * x_step]; }
  STAVE_BOTH T second(Index i) const { return Step::inputs == 2 ? y[i * y_step] : T(0); }
};

// ---- one thread per row -----------------------------------------------------------------------

/// Calls f(i, x, y) for the elements [first, last) of a row, in order. It reads a few elements
/// before it calls f for them, so reads do not wait for the writes of f.
template <class Step, class F>
STAVE_BOTH void for_elements(const ScanRow<Step>& row, Index first, Index last, F f) {
  constexpr int ahead = 4;
  STAVE_UNROLL(1)
  for (Index i = first; i < last; i += ahead) {
    typename Step::Element x[ahead] = {}, y[ahead] = {};
    STAVE_UNROLL(ahead)
    for (int k = 0; k < ahead; ++k) {
      if (i + k >= last) continue;
      x[k] = row.first(i + k);
      y[k] = row.second(i + k);
    }
    STAVE_UNROLL(ahead)
    for (int k = 0; k < ahead; ++k)
      if (i + k < last) f(i + k, x[k], y[k]);
  }
}

template <class Step>
STAVE_BOTH typename Step::Map summary_of(const ScanRow<Step>& row, Index first, Index last) {
  typename Step::Map map = Step::identity();
  for_elements(row, first, last, [&](Index, auto x, auto y) { map = Step::then(map, Step::of(x, y)); });
  return map;
}

/// Returns the state after elements [first, last), where `state` is the state before them. If
/// `write` is true, it also writes the output.
template <class Step>
STAVE_BOTH typename Step::State walk(const ScanRow<Step>& row, Index first, Index last, typename Step::State state,
                                     bool write) {
  for_elements(row, first, last, [&](Index i, auto x, auto y) {
    state = Step::next(state, x, y);
    if (write) row.out[i * row.out_step] = Step::value(state);
  });
  return state;
}

template <class Step>
STAVE_BOTH void carry_over_parts(const ScanArgs& args, Index row_index) {
  const ScanRow<Step> row(args, row_index);
  typename Step::State state = Step::start();
  for (Index part = 0; part < args.parts; ++part) {
    const Index at = part * args.row_count + row_index, first = part * args.per_part;
    static_cast<typename Step::State*>(args.carries)[at] = state;
    const typename Step::Map map = static_cast<const typename Step::Map*>(args.summaries)[at];
    state = Step::fits(map, state) ? Step::apply(state, map)
                                   : walk(row, first, least_of(first + args.per_part, args.length), state, false);
  }
}

template <class Step, class Block>
STAVE_BOTH void scan_rows_body(const Block& block, const ScanArgs& args, ScanStage stage) {
  const Index parts = stage == ScanStage::carries ? 1 : args.parts, tasks = args.row_count * parts;
  STAVE_UNROLL(1)
  for (Index first_task = block.index() * block_threads; first_task < tasks;
       first_task += block.count() * block_threads)
    block.for_threads([&](unsigned t) {
      const Index task = first_task + t;
      if (task >= tasks) return;
      if (stage == ScanStage::carries) return carry_over_parts<Step>(args, task);
      const Index part = parts == 1 ? 0 : task / args.row_count, row_index = task - part * args.row_count;
      const ScanRow<Step> row(args, row_index);
      const Index first = part * args.per_part, last = least_of(first + args.per_part, args.length);
      if (stage == ScanStage::summaries) {
        static_cast<typename Step::Map*>(args.summaries)[task] = summary_of(row, first, last);
      } else {
        const bool enters = parts > 1;
        walk(row, first, last, enters ? static_cast<const typename Step::State*>(args.carries)[task] : Step::start(),
             true);
      }
    });
}

// ---- one block per row, tile by tile ----------------------------------------------------------

template <class Step>
struct ScanShared {
  using T = typename Step::Element;
  // The number of adjacent elements that a thread scans.
  static constexpr std::size_t bytes = sizeof(T) * Step::inputs;
  static constexpr unsigned items = bytes >= 32 ? 1 : bytes >= 16 ? 4 : 8;
  static constexpr unsigned tile = items * block_threads;
  static_assert(scan_part % tile == 0);

  T x[tile + block_threads], y[Step::inputs == 2 ? tile + block_threads : 1];
  // First the map of each thread's items, then the map of the items of all threads up to it. Passes
  // alternate between the two arrays.
  typename Step::Map maps[2][block_threads];
  typename Step::Map part_summaries[block_threads];
  typename Step::Map total;
  typename Step::State carry, next_carry;
  bool serial;
  unsigned fitting;

  /// Returns the padded position of element i in x and y. Threads read elements that are `items`
  /// apart. Without padding, these elements would be in few banks.
  STAVE_BOTH static unsigned place(unsigned i) { return i + i / items; }
  STAVE_BOTH T second(unsigned i) const { return Step::inputs == 2 ? y[place(i)] : T(0); }
};

/// Reads a tile: `count` elements from `first` on. Afterwards maps[0][t] is the effect, on the
/// state before the tile, of the items of threads 0, ..., t.
template <class Step, class Block>
STAVE_BOTH void read_tile(const Block& block, const ScanRow<Step>& row, Index first, unsigned count,
                          ScanShared<Step>& shared) {
  constexpr unsigned items = ScanShared<Step>::items;
  block.for_threads([&](unsigned t) {
    if (t == 0) shared.serial = false;
    STAVE_UNROLL(items)
    for (unsigned k = 0; k < items; ++k) {
      const unsigned i = t + k * block_threads;
      if (i >= count) continue;
      shared.x[shared.place(i)] = row.first(first + i);
      if (Step::inputs == 2) shared.y[shared.place(i)] = row.second(first + i);
    }
  });
  block.for_threads([&](unsigned t) {
    typename Step::Map map = Step::identity();
    STAVE_UNROLL(1)
    for (unsigned i = t * items; i < (t + 1) * items && i < count; ++i)
      map = Step::then(map, Step::of(shared.x[shared.place(i)], shared.second(i)));
    shared.maps[0][t] = map;
  });
  // Hillis and Steele, "Data parallel algorithms", 1986: each pass doubles the
  // number of threads that a map covers.
  unsigned from = 0;
  STAVE_UNROLL(1)
  for (unsigned distance = 1; distance < block_threads; distance *= 2, from ^= 1)
    block.for_threads([&](unsigned t) {
      const auto* maps = shared.maps[from];
      shared.maps[from ^ 1][t] = t >= distance ? Step::then(maps[t - distance], maps[t]) : maps[t];
    });
  static_assert(block_bits % 2 == 0, "an even number of passes ends where it began");
}

/// Scans a tile that read_tile has read, from the state shared.carry. Sets shared.carry to the
/// state after the tile. If `write` is true, writes the output.
template <class Step, class Block>
STAVE_BOTH void scan_tile(const Block& block, const ScanRow<Step>& row, Index first, unsigned count, bool write,
                          ScanShared<Step>& shared) {
  constexpr unsigned items = ScanShared<Step>::items;
  block.for_threads([&](unsigned t) {
    if (!Step::fits(shared.maps[0][t], shared.carry)) shared.serial = true;
  });
  block.for_threads([&](unsigned t) {
    if (shared.serial && t != 0) return;
    typename Step::State state = t == 0 ? shared.carry : Step::apply(shared.carry, shared.maps[0][t - 1]);
    const unsigned end = shared.serial ? count : (t + 1) * items;
    STAVE_UNROLL(1)
    for (unsigned i = t * items; i < end && i < count; ++i) {
      state = Step::next(state, shared.x[shared.place(i)], shared.second(i));
      shared.x[shared.place(i)] = Step::value(state);
    }
    if (shared.serial || t == block_threads - 1) shared.next_carry = state;
  });
  block.for_threads([&](unsigned t) {
    if (t == 0) shared.carry = shared.next_carry;
    STAVE_UNROLL(items)
    for (unsigned k = 0; k < items; ++k) {
      const unsigned i = t + k * block_threads;
      if (write && i < count) row.out[(first + i) * row.out_step] = shared.x[shared.place(i)];
    }
  });
}

/// Processes a part of a row, tile by tile. In the stage `summaries`, stores the effect of the part
/// in shared.total. In the other stages, scans the part from the state shared.carry.
template <class Step, class Block>
STAVE_BOTH void process_part(const Block& block, const ScanArgs& args, const ScanRow<Step>& row, Index part,
                             ScanStage stage, ScanShared<Step>& shared) {
  const Index begin = part * args.per_part, end = least_of(begin + args.per_part, args.length);
  STAVE_UNROLL(1)
  for (Index first = begin; first < end; first += ScanShared<Step>::tile) {
    const auto count = static_cast<unsigned>(least_of(end - first, ScanShared<Step>::tile));
    read_tile(block, row, first, count, shared);
    if (stage != ScanStage::summaries) {
      scan_tile(block, row, first, count, stage == ScanStage::scan, shared);
      continue;
    }
    block.for_threads([&](unsigned t) {
      const typename Step::Map& map = shared.maps[0][block_threads - 1];
      if (t == 0) shared.total = first == begin ? map : Step::then(shared.total, map);
    });
  }
}

/// Stores the states that enter the parts from `part` on. One thread applies their summaries in
/// order, up to the first summary that does not fit (scan_steps.cuh). Returns the part of that
/// summary, whose elements must then be scanned, or args.parts if all fit.
template <class Step, class Block>
STAVE_BOTH Index carry_while_fitting(const Block& block, const ScanArgs& args, Index row_index, Index part,
                                     ScanShared<Step>& shared) {
  auto* carries = static_cast<typename Step::State*>(args.carries) + row_index;
  const auto* summaries = static_cast<const typename Step::Map*>(args.summaries) + row_index;
  STAVE_UNROLL(1)
  for (; part < args.parts; part += block_threads) {
    const auto count = static_cast<unsigned>(least_of(args.parts - part, block_threads));
    block.for_threads([&](unsigned t) {
      if (t < count) shared.part_summaries[t] = summaries[(part + t) * args.row_count];
    });
    block.for_threads([&](unsigned t) {
      if (t != 0) return;
      unsigned p = 0;
      STAVE_UNROLL(1)
      for (; p < count; ++p) {
        carries[(part + p) * args.row_count] = shared.carry;
        if (!Step::fits(shared.part_summaries[p], shared.carry)) break;
        shared.carry = Step::apply(shared.carry, shared.part_summaries[p]);
      }
      shared.fitting = p;
    });
    if (shared.fitting < count) return part + shared.fitting;
  }
  return args.parts;
}

template <class Step, class Block>
STAVE_BOTH void scan_tiles_body(const Block& block, const ScanArgs& args, ScanStage stage, ScanShared<Step>& shared) {
  const bool carries = stage == ScanStage::carries;
  const Index parts = carries ? 1 : args.parts;
  STAVE_UNROLL(1)
  for (Index task = block.index(); task < args.row_count * parts; task += block.count()) {
    const Index row_index = parts == 1 ? task : task / parts;
    Index part = task - row_index * parts;
    const Index at = part * args.row_count + row_index;
    const ScanRow<Step> row(args, row_index);
    const bool enters = stage == ScanStage::scan && parts > 1;
    block.for_threads([&](unsigned t) {
      if (t == 0) shared.carry = enters ? static_cast<const typename Step::State*>(args.carries)[at] : Step::start();
    });
    const Index end = carries ? args.parts : part + 1;
    STAVE_UNROLL(1)
    // This loop scans one part or, in the stage `carries`, each part whose summary does not fit.
    for (; part < end; ++part) {
      if (carries) part = carry_while_fitting(block, args, row_index, part, shared);
      if (part < end) process_part(block, args, row, part, stage, shared);
    }
    block.for_threads([&](unsigned t) {
      if (t == 0 && stage == ScanStage::summaries) static_cast<typename Step::Map*>(args.summaries)[at] = shared.total;
    });
  }
}

}  // namespace stave_cuda
