// A map from a linear index to the offsets of several strided operands of one shape.
//
//   IndexPlan   on the host: drops axes of length 1, and merges neighbouring axes that every
//               operand traverses with one constant step
//   IndexMap    a kernel's parameter, for host and device: maps an index to the offset of each
//               operand, in elements
//
// Indices run row-major over the shape, which is the order of an output's memory: pass the output
// as operand 0, or omit it. The rank is unlimited. A map holds its innermost axes itself, which
// keeps a kernel's parameters short. Any further axes are in an array that on_device() uploads to
// scratch memory. This case is so rare that its cost does not matter. Neither the kernels nor the
// host functions that launch them need a second code path for it.
#pragma once

#include <array>
#include <span>
#include <vector>

#include <stave/backends/cuda/index_walk.h>
#include <stave/backends/cuda/launch.h>
#include <stave/core/tensor/small_vector.h>

namespace stave_cuda {

/// One axis of a loop: its length and the step of each operand along it, in elements.
template <int operands>
struct LoopAxis {
  Index length = 1;
  std::array<Index, operands> step{};
  friend bool operator==(const LoopAxis&, const LoopAxis&) = default;
};
template <int operands>
using LoopAxes = stave::SmallVector<LoopAxis<operands>, 6>;

template <int operands>
using OperandStrides = std::array<std::span<const Index>, static_cast<std::size_t>(operands)>;

/// Returns the merged axes of a loop over `shape`, outermost first. A single element gives no axes,
/// and an empty shape gives one axis of length 0.
template <int operands>
LoopAxes<operands> merged_axes(std::span<const Index> shape, const OperandStrides<operands>& strides) {
  LoopAxes<operands> axes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    LoopAxis<operands> axis{shape[i]};
    for (std::size_t k = 0; k < operands; ++k) axis.step[k] = strides[k][i];
    if (axis.length == 0) {
      axes.clear();
      axes.push_back(axis);
      return axes;
    }
    if (axis.length == 1) continue;
    bool merges = !axes.empty();
    for (std::size_t k = 0; merges && k < operands; ++k) merges = axes.back().step[k] == axis.step[k] * axis.length;
    if (merges) {
      axis.length *= axes.back().length;
      axes.back() = axis;
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

/// The axes of a loop, on the host. It makes the IndexMap for the loop's kernel.
template <int operands>
class IndexPlan {
 public:
  explicit IndexPlan(LoopAxes<operands> axes) : axes_(std::move(axes)) {
    Index reach[operands] = {};
    for (const LoopAxis<operands>& axis : axes_) {
      elements_ *= axis.length;
      for (std::size_t k = 0; k < operands; ++k)
        reach[k] += (axis.length - 1) * (axis.step[k] < 0 ? -axis.step[k] : axis.step[k]);
    }
    map_.rank = static_cast<int>(axes_.size());
    map_.wide = elements_ > Divider::most_narrow;
    for (Index r : reach) map_.wide |= r > Divider::most_narrow;
    if (elements_ > 0) fill_map();
  }
  IndexPlan(std::span<const Index> shape, const OperandStrides<operands>& strides)
      : IndexPlan(merged_axes<operands>(shape, strides)) {}

  Index elements() const { return elements_; }
  /// Returns the axes, outermost first.
  const LoopAxes<operands>& axes() const { return axes_; }
  bool wide() const { return map_.wide; }
  /// Returns true if the operand's elements are contiguous in the order of the indices.
  bool is_contiguous(int operand) const {
    return axes_.empty() || elements_ == 0 || (axes_.size() == 1 && step(axes_[0], operand) == 1);
  }
  /// Returns true if the operand has the same element at every index.
  bool is_scalar(int operand) const {
    for (const LoopAxis<operands>& axis : axes_)
      if (step(axis, operand) != 0) return elements_ == 0;
    return true;
  }
  /// Returns the map for use on the host. It is valid while the plan lives.
  IndexMap<operands> on_host() const {
    IndexMap<operands> map = map_;
    map.more = more_.data();
    return map;
  }
  /// Returns the map for a kernel of this launch.
  IndexMap<operands> on_device(const Launch& launch) const {
    IndexMap<operands> map = map_;
    if (more_.empty()) return map;
    const std::size_t bytes = more_.size() * sizeof more_[0];
    void* memory = launch.scratch.allocate(bytes);
    // From pageable memory, CUDA reads the source before this call returns,
    // without waiting for the stream.
    check(cudaMemcpyAsync(memory, more_.data(), bytes, cudaMemcpyHostToDevice, launch.stream),
          "upload of a loop's axes");
    map.more = static_cast<const MapAxis<operands>*>(memory);
    return map;
  }

 private:
  static Index step(const LoopAxis<operands>& axis, int operand) {
    return axis.step[static_cast<std::size_t>(operand)];
  }
  void fill_map() {
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const LoopAxis<operands>& from = axes_[axes_.size() - 1 - i];
      MapAxis<operands> axis{Divider(from.length), {}};
      for (std::size_t k = 0; k < operands; ++k) axis.step[k] = from.step[k];
      if (i < inline_axes) map_.axes[i] = axis;
      else more_.push_back(axis);
    }
  }

  LoopAxes<operands> axes_;
  Index elements_ = 1;
  IndexMap<operands> map_;
  std::vector<MapAxis<operands>> more_;
};

}  // namespace stave_cuda
