// How a scan is laid out over a machine.
//
// Where rows along the axis are contiguous in the output and long, a block takes a row, or a part of it, tile by tile
// (`tiles`). Else a thread takes one, element by element, and neighbouring threads have neighbouring rows: memory is read in
// lines where the axis is not the innermost one.
//
// Where rows are few, they are split into parts, in three stages: what each part does to the state that enters it
// (`summaries`), the states that enter them (`carries`), then the scan itself. The split is a function of the shape: results
// depend neither on the machine nor on the number of blocks.
#pragma once

#include <stave/backends/cuda/index_map.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

using stave::View;

/// What the kernels of all scans are given. Steps in elements, in the direction of the scan.
struct ScanArgs {
  const void* in[2];  // the first element of the first row; the second input is the first where there is one
  void* out;
  IndexMap<3> rows;  // where a row begins in the inputs and the output
  Index row_count, length;
  Index step[3];
  Index parts, per_part;
  void* summaries;  // [parts, rows], if there are several parts
  void* carries;    // likewise
  bool tiles;
};

enum class ScanStage { summaries, carries, scan };

/// Parts are multiples of this long: a multiple of every tile.
inline constexpr Index scan_part = 2048;

class ScanPlan {
 public:
  ScanPlan(const stave::ScanAttributes& attributes, std::span<const View> inputs, const View& out);

  /// With pointers into this plan's memory, or the device's; `summaries` and `carries` still to be set.
  ScanArgs on_host() const;
  ScanArgs on_device(const Launch& launch) const;

  const ScanArgs& args() const { return args_; }  // without the map
  /// How many summaries and carries there are.
  Index partials() const { return args_.parts > 1 ? args_.parts * args_.row_count : 0; }
  /// Blocks that a stage keeps busy.
  Index tasks(ScanStage stage) const;

 private:
  void choose_parts();

  ScanArgs args_{};
  IndexPlan<3> rows_;
};

}  // namespace stave_cuda
