// The kernels of all reductions, as bodies that run on the device and on the host. reduce_plan.h
// describes the division of work.
#pragma once

#include <stave/backends/cuda/kernels/block.cuh>
#include <stave/backends/cuda/kernels/fold.cuh>

namespace stave_cuda {

// ---- the fold of one thread -------------------------------------------------------------------

/// The elements in 16 bytes, which one memory access reads.
template <class T>
struct alignas(vector_bytes) VectorPack {
  static constexpr int count = static_cast<int>(vector_bytes / sizeof(T));
  T at[count];
};

/// Folds the elements first, first + stride, ... before `last` of the row that starts at `x`, with
/// several loads in flight.
template <class Fold>
STAVE_BOTH void fold_elements(const Fold& fold, typename Fold::Accumulator& total, const ReduceArgs& args,
                              const typename Fold::Element* x, Index position, Index first, Index last, Index stride) {
  constexpr int loads = 4;
  STAVE_UNROLL(1)
  for (Index i = first; i < last; i += loads * stride) {
    typename Fold::Element loaded[loads] = {};
    STAVE_UNROLL(loads)
    for (int k = 0; k < loads; ++k)
      if (i + k * stride < last) loaded[k] = x[(i + k * stride) * args.row_step];
    STAVE_UNROLL(loads)
    for (int k = 0; k < loads; ++k)
      if (i + k * stride < last) fold.add(total, loaded[k], position + (i + k * stride) * args.row_position_step);
  }
}

template <class Fold>
STAVE_BOTH void fold_packs(const Fold& fold, typename Fold::Accumulator& total, const ReduceArgs& args,
                           const typename Fold::Element* x, Index position, Index first, Index last, Index stride) {
  using P = VectorPack<typename Fold::Element>;
  constexpr int loads = P::count > 4 ? 2 : 4;
  const P* packs = reinterpret_cast<const P*>(x);
  STAVE_UNROLL(1)
  for (Index i = first; i < last; i += loads * stride) {
    P loaded[loads] = {};
    STAVE_UNROLL(loads)
    for (int k = 0; k < loads; ++k)
      if (i + k * stride < last) loaded[k] = packs[i + k * stride];
    STAVE_UNROLL(loads)
    for (int k = 0; k < loads; ++k)
      if (i + k * stride < last) {
        const Index at = position + (i + k * stride) * P::count * args.row_position_step;
        STAVE_UNROLL(P::count)
        for (int e = 0; e < P::count; ++e) fold.add(total, loaded[k].at[e], at + e * args.row_position_step);
      }
  }
}

/// How a contiguous row divides into `head` elements before the first aligned pack, `packs` packs,
/// and `tail` elements after them.
struct RowEnds {
  Index head, packs, tail;
  STAVE_BOTH RowEnds(const void* row, Index length, Index size, Index count) {
    const auto past =
        static_cast<Index>(reinterpret_cast<std::uintptr_t>(row) / static_cast<std::uintptr_t>(size)) % count;
    head = past == 0 ? 0 : count - past;
    packs = (length - head) / count;
    tail = (length - head) % count;
  }
};

/// Folds the elements of one thread in units [first, last) of a row. The thread has every
/// row_lanes()-th unit, from unit first + `lane` on.
template <class Fold>
STAVE_BOTH void fold_row(const Fold& fold, typename Fold::Accumulator& total, const ReduceArgs& args,
                         const typename Fold::Element* row, Index position, Index first, Index last, unsigned lane) {
  const Index stride = args.row_lanes();
  if (!args.vectors) return fold_elements(fold, total, args, row, position, first + lane, last, stride);
  constexpr int count = VectorPack<typename Fold::Element>::count;
  const RowEnds ends(row, args.row_length, sizeof *row, count);
  fold_packs(fold, total, args, row + ends.head, position + ends.head * args.row_position_step, first + lane,
             least_of(last, ends.packs), stride);
  // The threads of the first part of the row also fold the elements outside of the packs. The row
  // has at most row_units packs, so the parts cover all packs.
  if (first != 0) return;
  STAVE_UNROLL(1)
  for (Index e = lane; e < ends.head + ends.tail; e += stride) {
    const Index i = e < ends.head ? e : ends.packs * count + e;
    fold.add(total, row[i], position + i * args.row_position_step);
  }
}

/// Returns the accumulator of one lane for one part of an output, whose elements begin at `in`.
template <class Fold>
STAVE_BOTH typename Fold::Accumulator fold_part(const Fold& fold, const ReduceArgs& args,
                                                const typename Fold::Element* in, Index part, unsigned lane) {
  typename Fold::Accumulator total = fold.start();
  const unsigned row_lane = lane & (args.row_lanes() - 1);
  const auto parts = static_cast<unsigned>(args.row_parts), at_part = static_cast<unsigned>(part);
  const Index first = parts == 1 ? part : at_part / parts, first_row = first * args.rows_per_part;
  const Index first_unit = parts == 1 ? 0 : at_part % parts * args.units_per_part;
  const Index last_row = least_of(first_row + args.rows_per_part, args.rows);
  const Index last_unit = least_of(first_unit + args.units_per_part, args.row_units);
  STAVE_UNROLL(1)
  for (Index row = first_row + (lane >> args.row_lane_bits); row < last_row;
       row += args.lanes() >> args.row_lane_bits) {
    const Offsets<2> at = args.folded(static_cast<std::uint64_t>(row));
    fold_row(fold, total, args, in + at[0], args.first_position + at[1], first_unit, last_unit, row_lane);
  }
  return total;
}

// ---- bodies -----------------------------------------------------------------------------------

/// Merges the lanes of each output into its lane 0, in a tree.
template <class Fold, class Block>
STAVE_BOTH void merge_lanes(const Block& block, const Fold& fold, Lanes lanes, typename Fold::Accumulator* shared) {
  merge_lanes(block, lanes, [&](unsigned t, unsigned other) { fold.merge(shared[t], shared[other]); });
}

/// Reduces the elements of each output, or of each part of it. `shared` is an array of
/// block_threads accumulators.
template <class Fold, class Block>
STAVE_BOTH void reduce_body(const Block& block, const ReduceArgs& args, typename Fold::Accumulator* shared) {
  const Fold fold(args);
  const Lanes lanes{args.lane_bits, args.columns};
  const Index width = lanes.outputs();
  const Index parts = args.parts();
  STAVE_UNROLL(1)
  for (Index task = block.index(); task < args.tasks(); task += block.count()) {
    // Tasks are numbered so that neighbouring tasks read neighbouring memory.
    const Index part = parts == 1 ? 0 : args.columns ? task / args.tiles : task % parts;
    const Index tile = parts == 1 ? task : args.columns ? task % args.tiles : task / parts;
    block.for_threads([&](unsigned t) {
      const Index output = tile * width + lanes.output(t);
      if (output >= args.outputs) return;
      const Index offset = args.kept(static_cast<std::uint64_t>(output))[0];
      shared[t] =
          fold_part(fold, args, static_cast<const typename Fold::Element*>(args.in) + offset, part, lanes.lane(t));
    });
    merge_lanes(block, fold, lanes, shared);
    block.for_threads([&](unsigned t) {
      const Index output = tile * width + lanes.output(t);
      if (lanes.lane(t) != 0 || output >= args.outputs) return;
      const Index offset = args.kept(static_cast<std::uint64_t>(output))[1];
      if (parts == 1) fold.store(shared[t], args.out, offset);
      else static_cast<typename Fold::Accumulator*>(args.partials)[part * args.outputs + offset] = shared[t];
    });
  }
}

/// Merges the parts of each output, with 1 << lane_bits threads per output.
template <class Fold, class Block>
STAVE_BOTH void merge_body(const Block& block, const ReduceArgs& args, unsigned lane_bits,
                           typename Fold::Accumulator* shared) {
  const Fold fold(args);
  const auto* partials = static_cast<const typename Fold::Accumulator*>(args.partials);
  const Lanes lanes{lane_bits, false};
  const Index width = lanes.outputs();
  STAVE_UNROLL(1)
  for (Index first = block.index() * width; first < args.outputs; first += block.count() * width) {
    block.for_threads([&](unsigned t) {
      typename Fold::Accumulator total = fold.start();
      if (first + lanes.output(t) < args.outputs) {
        STAVE_UNROLL(1)
        for (Index part = lanes.lane(t); part < args.parts(); part += 1u << lane_bits)
          fold.merge(total, partials[part * args.outputs + first + lanes.output(t)]);
      }
      shared[t] = total;
    });
    merge_lanes(block, fold, lanes, shared);
    block.for_threads([&](unsigned t) {
      if (lanes.lane(t) == 0 && first + lanes.output(t) < args.outputs)
        fold.store(shared[t], args.out, first + lanes.output(t));
    });
  }
}

}  // namespace stave_cuda
