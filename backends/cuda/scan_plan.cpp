#include <stave/backends/cuda/scan_plan.h>

#include <algorithm>

#include <stave/backends/cuda/kernels/block.cuh>

namespace stave_cuda {

namespace {

// A row shorter than this is scanned by one thread.
constexpr Index least_tiled = 64;
// Without tiles: the number of threads that hides the latency of memory.
constexpr Index enough_threads = 1 << 17;
// Without tiles: the least number of elements of a part.
constexpr Index least_serial = 64;
// With tiles: the number of blocks that keeps the device busy.
constexpr Index enough_blocks = 2048;
// The number of parts is limited because their carries are computed one after the other.
constexpr Index most_parts = 512;

stave::Shape without(std::span<const Index> all, std::size_t axis) {
  stave::Shape rest;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i != axis) rest.push_back(all[i]);
  return rest;
}

Index quotient_up(Index n, Index d) { return (n + d - 1) / d; }

IndexPlan<3> rows_of(std::size_t axis, const View& a, const View& b, const View& out) {
  const stave::Shape shape = without(out.shape, axis),
                     steps[] = {without(a.strides, axis), without(b.strides, axis), without(out.strides, axis)};
  return IndexPlan<3>(shape, {steps[0], steps[1], steps[2]});
}

}  // namespace

ScanPlan::ScanPlan(const stave::ScanAttributes& attributes, std::span<const View> inputs, const View& out)
    : rows_(rows_of(static_cast<std::size_t>(attributes.axis), inputs.front(), inputs.back(), out)) {
  const auto axis = static_cast<std::size_t>(attributes.axis);
  const View* const operands[] = {&inputs.front(), &inputs.back(), &out};
  const Index size = static_cast<Index>(stave::size_of(out.dtype));
  args_.length = out.shape[axis];
  args_.row_count = rows_.elements();
  char* begin[3];
  for (std::size_t k = 0; k < 3; ++k) {
    begin[k] = static_cast<char*>(operands[k]->data);
    args_.step[k] = operands[k]->strides[axis];
    if (!attributes.reverse) continue;
    begin[k] += (args_.length - 1) * args_.step[k] * size;
    args_.step[k] = -args_.step[k];
  }
  args_.in[0] = begin[0];
  args_.in[1] = begin[1];
  args_.out = begin[2];
  const bool along_memory = args_.step[2] == 1 || args_.step[2] == -1;
  args_.tiles = along_memory && args_.length >= least_tiled;
  choose_parts();
}

void ScanPlan::choose_parts() {
  const Index rows = std::max<Index>(1, args_.row_count);
  const Index wanted = quotient_up(args_.tiles ? enough_blocks : enough_threads, rows);
  const Index most = args_.length / (args_.tiles ? 2 * scan_part : least_serial);
  const Index parts = std::max<Index>(1, std::min({wanted, most, most_parts}));
  args_.per_part = std::max<Index>(1, quotient_up(args_.length, parts));
  if (args_.tiles) args_.per_part = quotient_up(args_.per_part, scan_part) * scan_part;
  args_.parts = std::max<Index>(1, quotient_up(args_.length, args_.per_part));
}

Index ScanPlan::tasks(ScanStage stage) const {
  const Index tasks = stage == ScanStage::carries ? args_.row_count : args_.row_count * args_.parts;
  return args_.tiles ? tasks : quotient_up(tasks, block_threads);
}

ScanArgs ScanPlan::on_host() const {
  ScanArgs args = args_;
  args.rows = rows_.on_host();
  return args;
}

ScanArgs ScanPlan::on_device(const Launch& launch) const {
  ScanArgs args = args_;
  args.rows = rows_.on_device(launch);
  return args;
}

}  // namespace stave_cuda
