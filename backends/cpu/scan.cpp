// Scans over strided operands. If the scanned axis is the innermost one, one row is scanned at a
// time; otherwise many adjacent columns are scanned together, so that memory is read in order. One
// thread computes a row or column from its first element to its last, so the result depends neither
// on the number of threads nor on neighbouring columns.
#include <stave/backends/cpu/scan.h>

#include <algorithm>

#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::View;

namespace {

constexpr Index chunk_length = 1024;
constexpr Index most_columns = 512;
constexpr int most_inputs = 2;
// Scans are slower than cheap operations, because each element waits for the one before it.
constexpr Index scan_grain = cheap_grain / 4;

class ScanLoop {
 public:
  ScanLoop(const Scan& scan, const stave::ScanAttributes& attributes, std::span<const View> inputs, const View& out)
      : scan_(scan), inputs_(static_cast<int>(inputs.size())), size_(static_cast<Index>(stave::size_of(out.dtype))),
        length_(out.shape[static_cast<std::size_t>(attributes.axis)]) {
    const auto axis = static_cast<std::size_t>(attributes.axis);
    stave::Strides others[most_inputs + 1];
    const Index* strides[most_inputs + 1];
    Index sizes[most_inputs + 1];
    for (int k = 0; k <= inputs_; ++k) {
      const View& view = k < inputs_ ? inputs[static_cast<std::size_t>(k)] : out;
      step_[k] = view.strides[axis] * size_;
      data_[k] = static_cast<char*>(view.data);
      if (attributes.reverse) {
        data_[k] += (length_ - 1) * step_[k];
        step_[k] = -step_[k];
      }
      others[k] = without(view.strides, axis);
      strides[k] = others[k].data();
      sizes[k] = size_;
    }
    const std::size_t operands = inputs.size() + 1;
    kept_ = merged_axes(without(out.shape, axis), std::span<const Index* const>(strides, operands), sizes);
  }

  void run() const {
    const bool columns = !kept_.empty() && kept_.back().step[inputs_] == size_ && step_[inputs_] != size_;
    const Index width = columns ? std::min(most_columns, kept_.back().length) : 1;
    const TileWalk tiles(kept_, inputs_ + 1, -1, 1, width);
    parallel_for(tiles.count(), std::max<Index>(1, scan_grain / (length_ * width)), [&](Index first, Index last) {
      TileWalk walk = tiles;
      walk.seek(first);
      for (Index t = first; t < last; ++t, walk.next()) columns ? scan_columns(walk) : scan_row(walk);
    });
  }

 private:
  /// Returns n elements of operand k as a dense array: in place, or gathered into `buffer`. In
  /// memory they begin at `from`, and are `step` apart.
  const char* dense(const char* from, Index step, Index n, char* buffer) const {
    if (step == size_) return from;
    copy_tile(buffer, 0, size_, from, 0, step, 1, n, size_);
    return buffer;
  }

  void scan_row(const TileWalk& walk) const {
    alignas(64) char buffers[most_inputs + 1][chunk_length * widest_element], state[16];
    const void* in[most_inputs];
    const Index out_step = step_[inputs_];
    scan_.start(state, 1);
    for (Index i = 0; i < length_; i += chunk_length) {
      const Index n = std::min(chunk_length, length_ - i);
      for (int k = 0; k < inputs_; ++k)
        in[k] = dense(data_[k] + walk.offset(k) + i * step_[k], step_[k], n, buffers[k]);
      char* out = data_[inputs_] + walk.offset(inputs_) + i * out_step;
      scan_.row(in, n, state, out_step == size_ ? out : buffers[inputs_]);
      if (out_step != size_) copy_tile(out, 0, out_step, buffers[inputs_], 0, size_, 1, n, size_);
    }
  }

  void scan_columns(const TileWalk& walk) const {
    alignas(64) char buffers[most_inputs][most_columns * widest_element], state[most_columns * 16];
    const void* in[most_inputs];
    const Index n = walk.columns();
    scan_.start(state, n);
    for (Index i = 0; i < length_; ++i) {
      for (int k = 0; k < inputs_; ++k)
        in[k] = dense(data_[k] + walk.offset(k) + i * step_[k], kept_.back().step[k], n, buffers[k]);
      scan_.columns(in, n, state, data_[inputs_] + walk.offset(inputs_) + i * step_[inputs_]);
    }
  }

  const Scan& scan_;
  int inputs_;
  Index size_, length_;
  // The first element in the direction of the scan. The output is the last operand.
  char* data_[most_inputs + 1];
  // The distance in bytes of neighbouring elements, in the direction of the scan.
  Index step_[most_inputs + 1];
  Axes kept_;
};

}  // namespace

void run_scan(const Scan& scan, const stave::ScanAttributes& attributes, std::span<const View> inputs,
              const View& out) {
  if (element_count(out.shape) == 0) return;
  ScanLoop(scan, attributes, inputs, out).run();
}

}  // namespace stave_cpu
