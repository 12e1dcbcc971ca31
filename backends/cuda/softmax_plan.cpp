#include <stave/backends/cuda/softmax_plan.h>

#include <algorithm>

#include <stave/core/op/all_ops.h>
#include <stave/backends/cuda/kernels/block.cuh>

namespace stave_cuda {

namespace {

// A thread has up to this number of elements, if there are enough threads without sharing the row
// further.
constexpr Index most_serial = 16;
// The base-2 logarithm of the number of elements in the smallest memory access, a sector.
constexpr unsigned sector_bits = 3;
// The base-2 logarithm of the number of elements in the best memory access, a cache line.
constexpr unsigned line_bits = 5;
constexpr Index enough_threads = 1 << 15;
constexpr Index enough_tasks = 2048;  // the desired number of tasks if rows are split
// The least number of elements of a part that each thread has.
constexpr Index least_part_serial = 32;
// The largest number of totals that one thread merges.
constexpr Index most_merged = 16;

stave::Shape without(std::span<const Index> all, std::size_t axis) {
  stave::Shape rest;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i != axis) rest.push_back(all[i]);
  return rest;
}

Index quotient_up(Index n, Index d) { return (n + d - 1) / d; }

IndexPlan<2> rows_of(std::size_t axis, const View& in, const View& out) {
  const stave::Shape shape = without(out.shape, axis),
                     steps[] = {without(in.strides, axis), without(out.strides, axis)};
  return IndexPlan<2>(shape, {steps[0], steps[1]});
}

/// Returns the innermost axis of more than one element, or axis 0.
std::size_t innermost(const View& view) {
  std::size_t axis = view.shape.size() - 1;
  while (axis > 0 && view.shape[axis] == 1) --axis;
  return axis;
}

/// Returns the base-2 logarithm of the smallest power of two that is at least n, but at most
/// `most`.
unsigned bits_for(Index n, unsigned most) {
  unsigned bits = 0;
  while (bits < most && (Index{1} << bits) < n) ++bits;
  return bits;
}

}  // namespace

bool reads_lines(const View& in) {
  if (in.shape.empty()) return true;
  const Index step = in.strides[innermost(in)];
  return in.shape[innermost(in)] == 1 || (-1 <= step && step <= 1);
}

SoftmaxPlan::SoftmaxPlan(stave::OpId op, int axis, const View& in, const View& out)
    : rows_(rows_of(static_cast<std::size_t>(axis), in, out)) {
  const auto along = static_cast<std::size_t>(axis);
  args_.in = in.data;
  args_.out = out.data;
  args_.row_count = rows_.elements();
  args_.length = in.shape[along];
  args_.in_step = in.strides[along];
  args_.out_step = out.strides[along];
  args_.reduces = op == stave::OpId::logsumexp;
  args_.logarithm = args_.reduces || op == stave::OpId::log_softmax;
  args_.columns = innermost(in) != along;
  // A tile in shared memory holds elements in the type of the arithmetic.
  const auto kept = std::max(sizeof(float), stave::size_of(out.dtype));
  choose_lanes(softmax_tile_bytes / static_cast<Index>(kept) / block_threads);
  choose_parts();
}

void SoftmaxPlan::choose_lanes(Index items) {
  const auto most_for = [&](unsigned neighbours) {
    return args_.columns ? block_bits - bits_for(args_.row_count, neighbours) : block_bits;
  };
  const auto fits = [&](unsigned lane_bits) { return args_.length <= items << lane_bits; };
  // If tiles of columns fit in shared memory with the width of a sector but not of a cache line,
  // the width of a sector is used, so that the input is still read once.
  const bool narrow = !fits(most_for(line_bits)) && fits(most_for(sector_bits));
  const unsigned most = most_for(narrow ? sector_bits : line_bits);
  const unsigned least = args_.columns ? 0 : bits_for(args_.length, sector_bits);
  args_.lane_bits = least;
  while (args_.lane_bits < most && args_.lanes() < args_.length &&
         (args_.length > most_serial * args_.lanes() || args_.row_count * args_.lanes() < enough_threads))
    ++args_.lane_bits;
  args_.resident = fits(args_.lane_bits);
}

void SoftmaxPlan::choose_parts() {
  const Index lanes = args_.lanes();
  args_.tiles = quotient_up(args_.row_count, block_threads / lanes);
  Index parts = 1;
  if (!args_.resident && args_.tiles > 0)
    parts = std::min(
        {quotient_up(enough_tasks, args_.tiles), args_.length / (least_part_serial * lanes), most_merged * lanes});
  parts = std::max<Index>(1, parts);
  args_.per_part = quotient_up(args_.length, parts);
  args_.parts = quotient_up(args_.length, args_.per_part);
}

SoftmaxArgs SoftmaxPlan::on_host() const {
  SoftmaxArgs args = args_;
  args.rows = rows_.on_host();
  return args;
}

SoftmaxArgs SoftmaxPlan::on_device(const Launch& launch) const {
  SoftmaxArgs args = args_;
  args.rows = rows_.on_device(launch);
  return args;
}

}  // namespace stave_cuda
