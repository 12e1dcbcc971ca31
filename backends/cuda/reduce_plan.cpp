#include <stave/backends/cuda/reduce_plan.h>

#include <algorithm>
#include <limits>
#include <utility>

#include <stave/core/op/all_ops.h>
#include <stave/backends/cuda/kernels/block.cuh>

namespace stave_cuda {

namespace {

// A thread folds up to this number of units alone, if there are enough threads without sharing.
constexpr Index most_serial_units = 8;
// The number of threads that hides the latency of memory.
constexpr Index enough_threads = 1 << 15;
// With this many tasks every multiprocessor has blocks, so outputs are not split.
constexpr Index enough_tasks = 512;
// The desired number of tasks if outputs are split. Several tasks per block balance the load.
constexpr Index most_tasks = 2048;
// The least number of units of a part that each thread folds.
constexpr Index least_units_per_thread = 16;
// The base-2 logarithm of the number of threads that read one cache line together.
constexpr unsigned line_bits = 5;

struct SortedAxis {
  Index length, in, out, position;
  bool kept;
};
using SortedAxes = stave::SmallVector<SortedAxis, 6>;

/// Returns the distance in memory of neighbouring elements along the axis. Broadcast axes count as
/// farthest: they become the outermost axes, and each pass over the other axes reads contiguously.
Index distance(const SortedAxis& axis) {
  Index step = axis.in < 0 ? -axis.in : axis.in;
  return step == 0 ? std::numeric_limits<Index>::max() : step;
}

/// Returns the axes without those of length 1, outermost in memory first. A reduced axis with a
/// negative stride is reversed. `origin` becomes the offset of the element at which the axes then
/// start, and `first_position` its position.
SortedAxes sorted_axes(const View& in, const Shape& reduced, Index& origin, Index& first_position) {
  SortedAxes axes;
  Index out_step = 1, position_step = 1;
  for (std::size_t i = in.shape.size(); i-- > 0;) {
    const bool kept = std::find(reduced.begin(), reduced.end(), static_cast<Index>(i)) == reduced.end();
    Index& step = kept ? out_step : position_step;
    SortedAxis axis{in.shape[i], in.strides[i], kept ? step : 0, kept ? 0 : step, kept};
    step *= axis.length;
    if (axis.length == 1) continue;
    if (!kept && axis.in < 0 && axis.length > 0) {
      origin += (axis.length - 1) * axis.in;
      first_position += (axis.length - 1) * axis.position;
      axis.in = -axis.in;
      axis.position = -axis.position;
    }
    axes.push_back(axis);
  }
  std::reverse(axes.begin(), axes.end());
  for (std::size_t i = 1; i < axes.size(); ++i)
    for (std::size_t j = i; j > 0 && distance(axes[j - 1]) < distance(axes[j]); --j) std::swap(axes[j - 1], axes[j]);
  return axes;
}

void push_merged(LoopAxes<2>& axes, LoopAxis<2> axis) {
  bool merges = !axes.empty();
  for (std::size_t k = 0; merges && k < 2; ++k) merges = axes.back().step[k] == axis.step[k] * axis.length;
  if (!merges) return axes.push_back(axis);
  axis.length *= axes.back().length;
  axes.back() = axis;
}

/// Returns the base-2 logarithm of the smallest power of two that is at least n, but at most
/// `most`.
unsigned bits_for(Index n, unsigned most) {
  unsigned bits = 0;
  while (bits < most && (Index{1} << bits) < n) ++bits;
  return bits;
}

Index quotient_up(Index n, Index d) { return (n + d - 1) / d; }

}  // namespace

struct ReducePlan::Loops {
  LoopAxes<2> kept, folded;
  LoopAxis<2> row{1, {1, 0}};
  Index origin = 0, first_position = 0;
  bool columns = false;

  Loops(stave::OpId op, const Shape& reduced, const View& in) {
    // Only argmax and argmin need positions. Without positions, more axes merge.
    const bool positions = op == stave::OpId::argmax || op == stave::OpId::argmin;
    const SortedAxes axes = sorted_axes(in, reduced, origin, first_position);
    for (const SortedAxis& axis : axes) {
      if (axis.kept) push_merged(kept, {axis.length, {axis.in, axis.out}});
      else push_merged(folded, {axis.length, {axis.in, positions ? axis.position : 0}});
    }
    columns = !axes.empty() && axes.back().kept;
    if (folded.empty()) return;
    row = folded.back();
    folded.pop_back();
  }
};

ReducePlan::ReducePlan(stave::OpId op, const Shape& reduced, const View& in, const View& out)
    : ReducePlan(Loops(op, reduced, in), in, out) {
  args_.mask = extreme_mask(op, in.dtype);
}

ReducePlan::ReducePlan(const Loops& loops, const View& in, const View& out) : kept_(loops.kept), folded_(loops.folded) {
  const Index size = static_cast<Index>(stave::size_of(in.dtype)), pack = vector_bytes / size;
  args_.in = static_cast<const char*>(in.data) + loops.origin * size;
  args_.out = out.data;
  args_.outputs = kept_.elements();
  args_.rows = folded_.elements();
  args_.row_length = loops.row.length;
  args_.row_step = loops.row.step[0];
  args_.row_position_step = loops.row.step[1];
  args_.first_position = loops.first_position;
  // Rows may begin at any alignment. The elements before the first and after the last aligned unit
  // are read one by one. So rows must be long enough that the time for these does not matter.
  args_.columns = loops.columns;
  args_.vectors = args_.row_step == 1 && !args_.columns && args_.row_length >= 4 * pack;
  args_.row_units = args_.vectors ? args_.row_length / pack : args_.row_length;
  args_.wide_positions = out.dtype == stave::int64;
  choose_lanes();
  choose_parts();
}

void ReducePlan::choose_lanes() {
  // With `columns`, a block has enough neighbouring outputs, if there are that many, that its
  // threads together read whole cache lines.
  const unsigned most = args_.columns ? block_bits - bits_for(args_.outputs, line_bits) : block_bits;
  const Index units = args_.row_units * args_.rows;
  while (args_.lane_bits < most && args_.lanes() < units &&
         (units > most_serial_units * args_.lanes() || args_.outputs * args_.lanes() < enough_threads))
    ++args_.lane_bits;
  while (args_.row_lane_bits < args_.lane_bits && 2 * args_.row_lanes() <= args_.row_units) ++args_.row_lane_bits;
}

void ReducePlan::choose_parts() {
  args_.tiles = quotient_up(args_.outputs, block_threads / args_.lanes());
  Index parts = 1;
  if (args_.tiles < enough_tasks && args_.tiles > 0)
    parts = std::min(quotient_up(most_tasks, args_.tiles),
                     std::max<Index>(1, args_.row_units * args_.rows / (args_.lanes() * least_units_per_thread)));
  // Returns the length of a part if n is split into `into` parts; a length is a multiple of
  // `multiple`.
  const auto split = [](Index n, Index into, Index multiple) {
    return std::max<Index>(1, quotient_up(quotient_up(n, into), multiple)) * multiple;
  };
  args_.rows_per_part =
      split(args_.rows, std::min(parts, args_.rows + (args_.rows == 0)), args_.lanes() / args_.row_lanes());
  args_.rows_parts = std::max<Index>(1, quotient_up(args_.rows, args_.rows_per_part));
  args_.units_per_part = split(args_.row_units, std::max<Index>(1, parts / args_.rows_parts), args_.row_lanes());
  args_.row_parts = std::max<Index>(1, quotient_up(args_.row_units, args_.units_per_part));
}

ReduceArgs ReducePlan::on_host() const {
  ReduceArgs args = args_;
  args.kept = kept_.on_host();
  args.folded = folded_.on_host();
  return args;
}

ReduceArgs ReducePlan::on_device(const Launch& launch) const {
  ReduceArgs args = args_;
  args.kept = kept_.on_device(launch);
  args.folded = folded_.on_device(launch);
  return args;
}

std::uint64_t extreme_mask(stave::OpId op, stave::Dtype dtype) {
  using stave::OpId;
  if (op == OpId::all) return 1;
  const bool smallest = op == OpId::min || op == OpId::argmin;
  if (!smallest && op != OpId::max && op != OpId::argmax) return 0;
  const std::uint64_t sign = std::uint64_t{1} << (8 * stave::size_of(dtype) - 1);
  if (stave::is_float(dtype)) return smallest ? sign : 0;
  return (smallest ? ~std::uint64_t{0} : 0) ^ (is_signed(dtype) ? sign : 0);
}

unsigned merge_lane_bits(Index parts) { return bits_for(parts, block_bits); }

}  // namespace stave_cuda
