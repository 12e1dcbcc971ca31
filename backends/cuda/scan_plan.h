// The plan of a scan.
//
// If rows along the axis are long and contiguous in the output, a block scans a row, or a part of a
// row, tile by tile (`tiles`). Otherwise a thread scans a row, element by element, and neighbouring
// threads have neighbouring rows. They read whole cache lines together, unless the axis is the
// innermost one.
//
// If there are few rows, they are split into parts and scanned in three stages:
//   summaries   the effect of each part on the state that enters it
//   carries     the state that enters each part
//   scan        the scan itself
// The split depends on the shape only, so results depend neither on the
// machine nor on the number of blocks.
#pragma once

#include <stave/backends/cuda/index_map.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

using stave::View;

/// Parameters of all scan kernels. Steps are in elements, in the direction of the scan.
struct ScanArgs {
  // The first element of the first row of each input. If the operation has one input, both are
  // equal.
  const void* in[2];
  void* out;
  // Maps a row to the offsets where it begins in the inputs and the output.
  IndexMap<3> rows;
  Index row_count, length;
  Index step[3];
  Index parts, per_part;
  // Two arrays [parts, rows], used if there are several parts: the effect of each part on the state
  // (Step::Map), and the state that enters each part (Step::State).
  void* summaries;
  void* carries;
  bool tiles;
};

enum class ScanStage { summaries, carries, scan };

/// With tiles, the length of a part is a multiple of this number. The number is a multiple of the
/// length of every tile.
inline constexpr Index scan_part = 2048;

class ScanPlan {
 public:
  ScanPlan(const stave::ScanAttributes& attributes, std::span<const View> inputs, const View& out);

  /// Return the kernel's parameters, for a kernel on the host or on the device. Their index map may
  /// point to memory of this plan or, on the device, to scratch memory of the launch. The caller
  /// sets `summaries` and `carries`.
  ScanArgs on_host() const;
  ScanArgs on_device(const Launch& launch) const;

  /// Returns the parameters, except for the index map `rows`, which on_host() and on_device() set.
  const ScanArgs& args() const { return args_; }
  /// Returns the number of summaries, which is also the number of carries.
  Index partials() const { return args_.parts > 1 ? args_.parts * args_.row_count : 0; }
  /// Returns the number of blocks that a stage keeps busy.
  Index tasks(ScanStage stage) const;

 private:
  void choose_parts();

  ScanArgs args_{};  // its index map is not set: see args()
  IndexPlan<3> rows_;
};

}  // namespace stave_cuda
