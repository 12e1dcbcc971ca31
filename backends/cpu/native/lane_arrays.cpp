// The arrays of a program of many lanes, block by block.
#include <stave/backends/cpu/native/lane_code.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::View;

namespace {

constexpr Index alignment = 64;
Index aligned(Index bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// An array with an axis of lanes.
class LaneArray {
 public:
  LaneArray(const View& view, int axis)
      : data_(static_cast<char*>(view.data)), size_(static_cast<Index>(stave::size_of(view.dtype))) {
    for (std::size_t k = 0; k < view.shape.size(); ++k) {
      if (static_cast<int>(k) == axis) {
        lane_step_ = view.strides[k] * size_;
        continue;
      }
      axes_.push_back({view.shape[k], {view.strides[k] * size_}});
      elements_ *= view.shape[k];
    }
    if (axes_.empty()) axes_.push_back({1, {0}});
  }

  Index elements() const { return elements_; }
  Index size() const { return size_; }
  /// Copies lanes [first, first + count) to a block of `lanes` lanes. The other lanes of the block
  /// repeat the first one, as unusual numbers would slow functions down.
  void read(char* block, Index first, Index count, Index lanes) const {
    each_row([&](Index element, char* row, Index length, Index step) {
      char* const to = block + element * lanes * size_;
      copy_tile(to, lanes * size_, size_, row + first * lane_step_, step, lane_step_, length, count, size_);
    });
    for (Index e = 0; count < lanes && e < elements_; ++e)
      for (Index lane = count; lane < lanes; ++lane)
        std::memcpy(block + (e * lanes + lane) * size_, block + e * lanes * size_, static_cast<std::size_t>(size_));
  }
  /// Copies lanes back from a block.
  void write(const char* block, Index first, Index count, Index lanes) const {
    each_row([&](Index element, char* row, Index length, Index step) {
      const char* const from = block + element * lanes * size_;
      copy_tile(row + first * lane_step_, step, lane_step_, from, lanes * size_, size_, length, count, size_);
    });
  }

 private:
  // Calls f(first element, its address in lane 0, length, step) for each row of the innermost axis.
  template <class F>
  void each_row(F f) const {
    if (elements_ == 0) return;
    const Axis& inner = axes_.back();
    stave::SmallVector<Index, 6> at(axes_.size());
    char* row = data_;
    for (Index element = 0; element < elements_; element += inner.length) {
      f(element, row, inner.length, inner.step[0]);
      for (std::size_t k = axes_.size() - 1; k-- > 0;) {
        row += axes_[k].step[0];
        if (++at[k] < axes_[k].length) break;
        row -= axes_[k].step[0] * axes_[k].length;
        at[k] = 0;
      }
    }
  }

  char* data_;
  Index size_, lane_step_ = 0, elements_ = 1;
  Axes axes_;
};

class LaneMachineCode final : public stave::MachineCode {
 public:
  LaneMachineCode(std::unique_ptr<const LaneCode> code, LaneAxes axes) : code_(std::move(code)), axes_(std::move(axes)) {}

  bool run(std::span<const View> inputs, std::span<const View> outputs) const override {
    const Index lanes = code_->lanes(), blocks = (axes_.lanes + lanes - 1) / lanes;
    std::vector<LaneArray> from, to;
    Index bytes = aligned(static_cast<Index>(code_->work_bytes()));
    std::vector<Index> places;  // of the blocks of inputs and outputs, in the workspace
    const auto add = [&](std::vector<LaneArray>& all, const View& view, int axis) {
      all.emplace_back(view, axis);
      places.push_back(bytes);
      bytes += aligned(all.back().elements() * all.back().size() * lanes);
    };
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (axes_.inputs[i] >= 0) add(from, inputs[i], axes_.inputs[i]);
    for (std::size_t k = 0; k < outputs.size(); ++k) add(to, outputs[k], axes_.outputs[k]);
    const Index grain = std::max<Index>(1, static_cast<Index>(paying / code_->cost()));
    std::atomic<bool> failed = false;
    parallel_for(blocks, grain, [&](Index first, Index last) {
      const Scratch<char> memory = scratch<char>(static_cast<std::size_t>(bytes + alignment));
      char* const work = memory.get() + (alignment - static_cast<Index>(reinterpret_cast<std::uintptr_t>(memory.get()) %
                                                                        static_cast<std::uintptr_t>(alignment))) %
                                            alignment;
      std::vector<const void*> in;
      std::vector<void*> out;
      std::size_t place = 0;
      for (std::size_t i = 0; i < inputs.size(); ++i)
        in.push_back(axes_.inputs[i] >= 0 ? work + places[place++] : inputs[i].data);
      for (std::size_t k = 0; k < outputs.size(); ++k) out.push_back(work + places[place++]);
      for (Index block = first; block < last && !failed; ++block) {
        const Index lane = block * lanes, count = std::min(lanes, axes_.lanes - lane);
        for (std::size_t i = 0; i < from.size(); ++i) from[i].read(work + places[i], lane, count, lanes);
        if ((*code_)(in.data(), out.data(), work) != 0) failed = true;
        for (std::size_t k = 0; k < to.size(); ++k) to[k].write(work + places[from.size() + k], lane, count, lanes);
      }
    });
    return !failed;
  }

 private:
  // The work in nanoseconds from which on a task of its own pays.
  static constexpr double paying = 20000;

  const std::unique_ptr<const LaneCode> code_;
  const LaneAxes axes_;
};

}  // namespace

std::shared_ptr<const stave::MachineCode> machine_code_of_lanes(std::unique_ptr<const LaneCode> code, LaneAxes axes) {
  return std::make_shared<const LaneMachineCode>(std::move(code), std::move(axes));
}

}  // namespace stave_cpu
