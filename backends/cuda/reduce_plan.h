// How a reduction is laid out over a machine: which elements a thread reads, which threads share an output, and what is left
// for a second kernel.
//
// The axes are sorted by their distance in memory and merged, as on the CPU. If the innermost one is reduced, neighbouring
// threads read along it; if it is kept (`columns`), they read neighbouring outputs. What folds into an output is a number of
// rows, along the innermost reduced axis; `lanes` threads share them, row_lanes side by side along a row, and then fold what
// they have in a tree. A unit of a row is one element, or, where rows are contiguous and long, 16 aligned bytes.
//
// A task is a tile of outputs times a part of what folds into each. Outputs of several parts go through partial accumulators,
// which a second kernel merges in order. All of this is a function of shape, strides and alignment, and not of the machine, on
// which results therefore do not depend; nor do they on the number of blocks.
#pragma once

#include <stave/backends/cuda/index_map.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

using stave::Shape;
using stave::View;

/// What the kernels of all reductions are given. Offsets and steps in elements.
struct ReduceArgs {
  const void* in;      // element (0, ..., 0) of the axes below
  void* out;           // contiguous
  void* partials;      // [parts, outputs] accumulators, if there are several parts
  IndexMap<2> kept;    // of an output, in the order of the input's memory: offsets in `in` and `out`
  IndexMap<2> folded;  // of a row: its offset in `in`, and its position
  Index outputs, rows;
  Index row_length, row_units, row_step;
  Index row_position_step, first_position;  // positions count row-major over the reduced axes
  Index row_parts, units_per_part;          // how a row is split
  Index rows_parts, rows_per_part;          // how the rows are split
  Index tiles;
  unsigned lane_bits, row_lane_bits;  // threads of an output, and those of them along a row: logarithms
  std::uint64_t mask;                 // of the fold: extreme_mask()
  bool columns;                       // neighbouring threads have neighbouring outputs
  bool vectors;
  bool wide_positions;  // argmax and argmin give int64

  STAVE_BOTH unsigned lanes() const { return 1u << lane_bits; }
  STAVE_BOTH unsigned row_lanes() const { return 1u << row_lane_bits; }
  STAVE_BOTH Index parts() const { return row_parts * rows_parts; }
  STAVE_BOTH Index tasks() const { return tiles * parts(); }
};

/// Bytes of a unit, with `vectors`.
inline constexpr Index vector_bytes = 16;

class ReducePlan {
 public:
  ReducePlan(stave::OpId op, const Shape& reduced, const View& in, const View& out);

  /// With pointers into this plan's memory, or the device's; `partials` still to be set.
  ReduceArgs on_host() const;
  ReduceArgs on_device(const Launch& launch) const;

  const ReduceArgs& args() const { return args_; }  // without maps
  const IndexPlan<2>& kept() const { return kept_; }
  const IndexPlan<2>& folded() const { return folded_; }
  /// How many partial accumulators there are.
  Index partials() const { return args_.parts() > 1 ? args_.parts() * args_.outputs : 0; }

 private:
  struct Loops;
  ReducePlan(const Loops& loops, const View& in, const View& out);
  void choose_lanes();
  void choose_parts();

  ReduceArgs args_{};
  IndexPlan<2> kept_;
  IndexPlan<2> folded_;
};

/// Which bits of elements are exchanged so that the largest of what results tells the extreme: for the smallest element all of
/// an integer's and the sign of a float; and the sign of signed integers, which are compared as unsigned ones. For `all`, the
/// bit that makes true false.
std::uint64_t extreme_mask(stave::OpId op, stave::Dtype dtype);

/// Threads that merge the parts of one output: the logarithm.
unsigned merge_lane_bits(Index parts);

}  // namespace stave_cuda
