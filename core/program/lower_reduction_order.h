// The order in which the CPU's kernels (backends/cpu/reduce.h) reduce the elements of a small
// array. Sums of floats depend on it in their last bits.
#pragma once

#include <vector>

#include <stave/core/program/lower.h>

namespace stave_detail {

/// The order of a reduction that one thread computes at once: that of all arrays of at most 64
/// elements, and of many larger ones (is_that_of_kernels).
/// The axes are sorted by their strides. If the innermost one is reduced, each of its rows is
/// reduced on its own, in vectors, or short rows one element after the other. If it is kept, rows
/// are combined element by element.
class ReductionOrder {
 public:
  /// The order for an array of this shape and these strides, whose axes `reduced` are reduced.
  ReductionOrder(const Shape& shape, const Strides& strides, std::span<const std::size_t> reduced);

  /// The positions along the reduced axes, in the order in which their elements are reduced.
  std::vector<PositionList> positions() const;
  /// The reduced elements follow each other in rows of this length.
  std::size_t row_length() const noexcept { return static_cast<std::size_t>(row_); }
  /// True if the elements of a row are combined in vectors, and false if they are combined with the
  /// running result one after the other.
  bool combines_in_vectors() const noexcept { return in_vectors_; }
  /// Returns true if kernels reduce an array of this shape in this order. The array may have more
  /// than 64 elements, but at most 64 are reduced to one.
  bool is_that_of_kernels(const Shape& shape) const;

 private:
  struct Axis {
    std::size_t number;  // the index of the axis in the array's shape
    Index length, step, result_step;
    bool is_kept, is_reversed = false;
    // True if the axis and the one before it in axes_ form one axis in memory, with one stride.
    bool joins_previous = false;
  };
  static Index distance(const Axis& axis);
  // Returns the length of the axis that axes_[last] forms with the axes before it that join
  // (joins_previous), and sets `first` to the index of the first of them.
  Index merged(std::size_t last, std::size_t& first) const;

  std::vector<std::size_t> reduced_;
  std::vector<Axis> axes_;  // without axes of length 1, sorted from the largest stride
  Index row_ = 1;
  bool in_vectors_ = true;
};

/// Reduces floats by sum, prod, max or min, as kernels with vectors of `vector_bytes` bytes do. The
/// elements are those at ReductionOrder::positions(), in that order.
int reduce_in_order(Lowering& l, OpId op, std::span<const int> elements, const ReductionOrder& order,
                    Index vector_bytes);

}  // namespace stave_detail
