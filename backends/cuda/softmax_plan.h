// How softmax is laid out over a machine.
//
// A row is what one sum goes over. `lanes` threads of a block share it, each with every lanes-th element; several rows share a
// block. Where the axis is the innermost one of the output, a row's lanes are neighbours; where it is not (`columns`), the same
// lanes of neighbouring rows are. So memory is read and written in lines.
//
// A tile of rows that fits into the block's shared memory (`resident`) is read once. Else the input is read twice: for the
// maxima and sums, together, then for the result; where rows are few, in parts, in two stages with the totals of all parts between
// them. All of this is a function of shape and strides, and not of the machine, on which results therefore do not depend.
#pragma once

#include <stave/backends/cuda/index_map.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

using stave::View;

/// What the kernels are given. Steps in elements.
struct SoftmaxArgs {
  const void* in;
  void* out;         // may be `in`
  void* partials;    // [parts, rows] totals, if there are several parts
  IndexMap<2> rows;  // where a row begins in `in` and `out`
  Index row_count, length;
  Index in_step, out_step;
  Index tiles, parts, per_part;
  unsigned lane_bits;
  bool columns;
  bool resident;
  bool logarithm;

  STAVE_BOTH unsigned lanes() const { return 1u << lane_bits; }
  STAVE_BOTH Index tasks() const { return tiles * parts; }
};

/// whole: all of it. partials: what each part comes to; then finish: the result.
enum class SoftmaxStage { whole, partials, finish };

/// Of a tile that is resident.
inline constexpr Index softmax_tile_bytes = 32768;

class SoftmaxPlan {
 public:
  SoftmaxPlan(stave::OpId op, int axis, const View& in, const View& out);

  /// With pointers into this plan's memory, or the device's; `partials` still to be set.
  SoftmaxArgs on_host() const;
  SoftmaxArgs on_device(const Launch& launch) const;

  const SoftmaxArgs& args() const { return args_; }  // without the map
  /// How many totals of parts there are.
  Index partials() const { return args_.parts > 1 ? args_.parts * args_.row_count : 0; }

 private:
  void choose_lanes(Index items);
  void choose_parts();

  SoftmaxArgs args_{};
  IndexPlan<2> rows_;
};

/// Whether threads that write neighbouring elements of `out` read neighbouring ones of `in`, or the same.
bool reads_lines(const View& in, const View& out);

}  // namespace stave_cuda
