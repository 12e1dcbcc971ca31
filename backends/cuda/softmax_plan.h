// The plan of softmax, log_softmax and logsumexp.
//
// A row is the set of elements that one sum covers. `lanes` threads of a block share a row, each
// with every lanes-th element, and several rows share a block. If the axis is the innermost one of
// the output, neighbouring threads have the lanes of one row. Otherwise (`columns`) they have the
// same lane of neighbouring rows. So neighbouring threads access whole cache lines together.
//
// A tile of rows that fits in the block's shared memory (`resident`) is read once. Otherwise the
// input is read twice: first for the maxima and sums together, then for the result. If there are
// then few rows, each row is split into parts. One kernel computes the total of each part (its
// maximum and sum), and a second kernel the result. The plan depends on shape and strides only, so
// results do not depend on the machine.
#pragma once

#include <stave/backends/cuda/index_map.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

using stave::View;

/// Parameters of the softmax kernels. Steps are in elements.
struct SoftmaxArgs {
  const void* in;
  void* out;  // may be `in`
  // The totals [parts, rows] of the parts, used if there are several parts.
  void* partials;
  // Maps a row to the offsets where it begins in `in` and `out`.
  IndexMap<2> rows;
  Index row_count, length;
  Index in_step, out_step;
  Index tiles, parts, per_part;
  unsigned lane_bits;
  bool columns;
  bool resident;
  bool logarithm;
  bool reduces;  // true for logsumexp: a row has one result

  STAVE_BOTH unsigned lanes() const { return 1u << lane_bits; }
  STAVE_BOTH Index tasks() const { return tiles * parts; }
};

/// The work of one kernel. `whole` computes the result. If rows are split, `partials` computes the
/// total of each part, and then `finish` computes the result.
enum class SoftmaxStage { whole, partials, finish };

/// The largest size of a resident tile in bytes.
inline constexpr Index softmax_tile_bytes = 32768;

class SoftmaxPlan {
 public:
  SoftmaxPlan(stave::OpId op, int axis, const View& in, const View& out);

  /// Return the kernel's parameters, for a kernel on the host or on the device. Their index map may
  /// point to memory of this plan or, on the device, to scratch memory of the launch. The caller
  /// sets `partials`.
  SoftmaxArgs on_host() const;
  SoftmaxArgs on_device(const Launch& launch) const;

  /// Returns the parameters, except for the index map `rows`, which on_host() and on_device() set.
  const SoftmaxArgs& args() const { return args_; }
  /// Returns the number of totals in `partials`.
  Index partials() const { return args_.parts > 1 ? args_.parts * args_.row_count : 0; }

 private:
  void choose_lanes(Index items);
  void choose_parts();

  SoftmaxArgs args_{};  // its index map is not set: see args()
  IndexPlan<2> rows_;
};

/// Returns true if neighbouring threads read neighbouring elements of `in`, or the same element.
bool reads_lines(const View& in);

}  // namespace stave_cuda
