// The arrays of a program of many lanes, block by block.
#include <stave/backends/cpu/native/lane_code.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::Dtype;
using stave::View;

namespace {

constexpr Index alignment = 64;
Index aligned(Index bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// The layout of an array with an axis of lanes, and its place in the workspace of a block.
class LaneArray {
 public:
  LaneArray(Dtype dtype, const stave::Shape& shape, const stave::Strides& strides, int axis, Index place)
      : place_(place), size_(static_cast<Index>(stave::size_of(dtype))) {
    for (std::size_t k = 0; k < shape.size(); ++k) {
      if (static_cast<int>(k) == axis) {
        lane_step_ = strides[k] * size_;
        continue;
      }
      if (shape[k] != 1) axes_.push_back({shape[k], {strides[k] * size_}});
      elements_ *= shape[k];
    }
    if (axes_.empty()) axes_.push_back({1, {0}});
  }

  Index place() const { return place_; }
  Index bytes(Index lanes) const { return aligned(elements_ * size_ * lanes); }
  /// Copies lanes [first, first + count) of the array to the block of `lanes` lanes in a workspace.
  /// The other lanes of the block repeat the first one, as unusual numbers would slow functions
  /// down.
  void read(const char* array, char* work, Index first, Index count, Index lanes) const {
    char* const block = work + place_;
    const auto source = reinterpret_cast<std::uintptr_t>(array + first * lane_step_);
    each_row(source, [&](Index element, std::uintptr_t row, const Axis& axis) {
      copy(block + element * lanes * size_, lanes * size_, size_, reinterpret_cast<const char*>(row), axis.step[0],
           lane_step_, axis.length, count);
    });
    for (Index e = 0; count < lanes && e < elements_; ++e)
      for (Index lane = count; lane < lanes; ++lane)
        std::memcpy(block + (e * lanes + lane) * size_, block + e * lanes * size_, static_cast<std::size_t>(size_));
  }
  /// Copies lanes back from the block.
  void write(char* array, const char* work, Index first, Index count, Index lanes) const {
    const char* const block = work + place_;
    const auto target = reinterpret_cast<std::uintptr_t>(array + first * lane_step_);
    each_row(target, [&](Index element, std::uintptr_t row, const Axis& axis) {
      copy(reinterpret_cast<char*>(row), axis.step[0], lane_step_, block + element * lanes * size_, lanes * size_,
           size_, axis.length, count);
    });
  }

 private:
  // Calls f(first element, its address, the axis) for each row of the innermost axis.
  template <class F>
  void each_row(std::uintptr_t row, F f) const {
    if (elements_ == 0) return;
    const Axis& inner = axes_.back();
    stave::SmallVector<Index, 6> at(axes_.size());
    for (Index element = 0; element < elements_; element += inner.length) {
      f(element, row, inner);
      for (std::size_t k = axes_.size() - 1; k-- > 0;) {
        row += static_cast<std::uintptr_t>(axes_[k].step[0]);
        if (++at[k] < axes_[k].length) break;
        row -= static_cast<std::uintptr_t>(axes_[k].step[0] * axes_[k].length);
        at[k] = 0;
      }
    }
  }
  void copy(char* to, Index to_row, Index to_column, const char* from, Index from_row, Index from_column, Index rows,
            Index columns) const {
    // For few rows, copy_tile takes longer to choose a way than to copy.
    constexpr Index few_rows = 4;
    if (rows >= few_rows) return copy_tile(to, to_row, to_column, from, from_row, from_column, rows, columns, size_);
    stave::visit_size(static_cast<std::size_t>(size_), [&](auto element) {
      for (Index r = 0; r < rows; ++r)
        for (Index c = 0; c < columns; ++c)
          std::memcpy(to + r * to_row + c * to_column, from + r * from_row + c * from_column, sizeof element);
    });
  }

  Index place_, size_, lane_step_ = 0, elements_ = 1;
  Axes axes_;
};

class LaneMachineCode final : public stave::MachineCode {
 public:
  LaneMachineCode(std::unique_ptr<const LaneCode> code, const LaneLayout& layout)
      : code_(std::move(code)), lanes_(layout.lanes) {
    bytes_ = aligned(static_cast<Index>(code_->work_bytes()));
    for (const auto& [dtype, shape, strides, axis] : layout.inputs) add(inputs_, dtype, shape, strides, axis);
    for (const auto& [dtype, shape, strides, axis] : layout.outputs) add(outputs_, dtype, shape, strides, axis);
  }

  bool run(std::span<const View> inputs, std::span<const View> outputs) const override {
    const Index block = code_->lanes(), blocks = (lanes_ + block - 1) / block;
    const Index grain = std::max<Index>(1, static_cast<Index>(least_work / std::max(1.0, code_->cost())));
    std::atomic<bool> failed = false;
    parallel_for(blocks, grain, [&](Index first, Index last) {
      constexpr Index small = 8192;
      if (bytes_ <= small) {
        alignas(alignment) char work[small];
        run_blocks(inputs, outputs, work, first, last, failed);
      } else {
        const Scratch<char> memory = scratch<char>(static_cast<std::size_t>(bytes_ + alignment));
        const auto rest = static_cast<Index>(reinterpret_cast<std::uintptr_t>(memory.get()) % alignment);
        run_blocks(inputs, outputs, memory.get() + (alignment - rest) % alignment, first, last, failed);
      }
    });
    return !failed;
  }

 private:
  // The least work, in nanoseconds, for which a separate task pays.
  static constexpr double least_work = 20000;

  void add(std::vector<std::optional<LaneArray>>& arrays, Dtype dtype, const stave::Shape& shape,
           const stave::Strides& strides, int axis) {
    arrays.emplace_back();
    if (axis < 0) return;
    arrays.back().emplace(dtype, shape, strides, axis, bytes_);
    bytes_ += arrays.back()->bytes(code_->lanes());
  }

  void run_blocks(std::span<const View> inputs, std::span<const View> outputs, char* work, Index first, Index last,
                  std::atomic<bool>& failed) const {
    stave::SmallVector<const void*, 16> from;
    stave::SmallVector<void*, 16> to;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      from.push_back(inputs_[i] ? work + inputs_[i]->place() : inputs[i].data);
    for (const std::optional<LaneArray>& output : outputs_) to.push_back(work + output->place());
    const Index lanes = code_->lanes();
    for (Index block = first; block < last && !failed; ++block) {
      const Index lane = block * lanes, count = std::min(lanes, lanes_ - lane);
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (inputs_[i]) inputs_[i]->read(static_cast<const char*>(inputs[i].data), work, lane, count, lanes);
      if ((*code_)(from.data(), to.data(), work) != 0) failed = true;
      for (std::size_t k = 0; k < outputs.size(); ++k)
        outputs_[k]->write(static_cast<char*>(outputs[k].data), work, lane, count, lanes);
    }
  }

  const std::unique_ptr<const LaneCode> code_;
  const Index lanes_;
  std::vector<std::optional<LaneArray>> inputs_, outputs_;  // nothing: the same for all lanes
  Index bytes_;                                             // of a workspace
};

}  // namespace

std::shared_ptr<const stave::MachineCode> machine_code_of_lanes(std::unique_ptr<const LaneCode> code,
                                                                const LaneLayout& layout) {
  return std::make_shared<const LaneMachineCode>(std::move(code), layout);
}

}  // namespace stave_cpu
