// The plan of a reduction. It decides which elements a thread reads, which threads share an output,
// and which partial results a second kernel merges.
//
// The axes are sorted by their distance in memory and merged, as on the CPU. If the innermost axis
// is reduced, neighbouring threads read along it. If it is kept (`columns`), they read neighbouring
// outputs. Each output folds a number of rows along the innermost reduced axis. `lanes` threads
// share these rows, `row_lanes` of them side by side along a row, and then combine their results in
// a tree. A unit of a row is one element or, if rows are contiguous and long, 16 aligned bytes.
//
// A task computes a tile of outputs over one part of the elements that are folded into each output.
// If outputs have several parts, each task writes partial accumulators, and a second kernel merges
// them.
// The plan depends on shape, strides and alignment only, so results depend neither on the machine
// nor on the number of blocks.
#pragma once

#include <stave/backends/cuda/index_map.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

using stave::Shape;
using stave::View;

/// Parameters of all reduction kernels. Offsets and steps are in elements.
struct ReduceArgs {
  const void* in;  // the element at which the axes `kept`, `folded` and the row start
  void* out;       // contiguous
  // Accumulators [parts, outputs], if there are several parts.
  void* partials;
  // Maps an output, in the order of the input's memory, to offsets in `in` and `out`.
  IndexMap<2> kept;
  IndexMap<2> folded;  // maps a row to its offset in `in` and its position
  Index outputs, rows;
  Index row_length, row_units, row_step;
  // The position of an element is its row-major index over the reduced axes.
  Index row_position_step, first_position;
  Index row_parts, units_per_part;  // how each row is split into parts
  Index rows_parts, rows_per_part;  // how the rows of an output are split into parts
  Index tiles;
  // The base-2 logarithms of lanes() and row_lanes().
  unsigned lane_bits, row_lane_bits;
  // The mask of the fold, from extreme_mask().
  std::uint64_t mask;
  bool columns;  // true if neighbouring threads have neighbouring outputs
  bool vectors;
  bool wide_positions;  // true if positions are int64, false if they are int32

  STAVE_BOTH unsigned lanes() const { return 1u << lane_bits; }
  STAVE_BOTH unsigned row_lanes() const { return 1u << row_lane_bits; }
  STAVE_BOTH Index parts() const { return row_parts * rows_parts; }
  STAVE_BOTH Index tasks() const { return tiles * parts(); }
};

/// The size of a unit in bytes if `vectors` is set.
inline constexpr Index vector_bytes = 16;

class ReducePlan {
 public:
  ReducePlan(stave::OpId op, const Shape& reduced, const View& in, const View& out);

  /// Return the kernel's parameters, for a kernel on the host or on the device. Their index maps
  /// may point to memory of this plan or, on the device, to scratch memory of the launch. The
  /// caller sets `partials`.
  ReduceArgs on_host() const;
  ReduceArgs on_device(const Launch& launch) const;

  /// Returns the parameters, except for the index maps `kept` and `folded`, which on_host() and
  /// on_device() set.
  const ReduceArgs& args() const { return args_; }
  const IndexPlan<2>& kept() const { return kept_; }
  const IndexPlan<2>& folded() const { return folded_; }
  /// Returns the number of partial accumulators.
  Index partials() const { return args_.parts() > 1 ? args_.parts() * args_.outputs : 0; }

 private:
  struct Loops;
  ReducePlan(const Loops& loops, const View& in, const View& out);
  void choose_lanes();
  void choose_parts();

  ReduceArgs args_{};  // its index maps are not set: see args()
  IndexPlan<2> kept_;
  IndexPlan<2> folded_;
};

/// Returns the bits to flip (XOR) in each element so that the extreme element becomes the largest
/// one, where integers are compared as unsigned numbers:
///   max of floats           none           min of floats           the sign
///   max of unsigned         none           min of unsigned         all bits
///   max of signed           the sign       min of signed           all bits but the sign
///   any                     none           all                     the bit of true and false
std::uint64_t extreme_mask(stave::OpId op, stave::Dtype dtype);

/// Returns the base-2 logarithm of the number of threads that merge the parts of one output.
unsigned merge_lane_bits(Index parts);

}  // namespace stave_cuda
