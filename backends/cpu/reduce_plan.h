// The plan of a reduction: how it is divided into pieces, and in which order it reads and writes.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>

#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/reduce.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu::reducing {

using stave::Shape;

// With at least this many outputs, all threads have work even if outputs are not split.
inline constexpr Index few_outputs = 64;
// The number of elements of several rows that are read at a time; the L1 cache holds them.
inline constexpr Index read_elements = 1 << 13;

/// A reduction with its sorted axes. Operand 0 is the input, and operand 1 is the output, whose
/// step along reduced axes is 0. Steps are in elements. The last axis, `inner`, is kept or reduced.
struct Plan {
  std::span<const Fold> folds;
  const Computed* computed;  // Null if the input is in memory; there is then one fold.
  const char* in;
  Axes kept, folded;  // The kept and the reduced axes without `inner`, outermost first.
  Axis inner;
  bool inner_kept;

  Index accumulator_bytes() const { return accumulators_before(folds.size()); }
  /// Returns the size of the accumulators of the folds before this one, in bytes for each column.
  Index accumulators_before(std::size_t fold) const {
    Index bytes = 0;
    for (std::size_t k = 0; k < fold; ++k)
      bytes += (bytes_of(folds[k].kernels) + 7) / 8 * 8;  // Accumulators are aligned to 8 bytes.
    return bytes;
  }
  static Index bytes_of(const Reduction& reduction) { return Index{reduction.planes} * reduction.plane_bytes; }
};

/// Reads rows of the arrays that are reduced, for one thread.
class Reader {
 public:
  explicit Reader(const Plan& plan) : in_(plan.in), size_(plan.folds[0].size), arrays_(plan.folds.size()) {
    if (plan.computed) computed_ = plan.computed->reader();
  }
  /// Provides `rows` rows of n elements that are row_step apart in the input; array() then points
  /// to them. Returns the distance between the rows there.
  Index read(Index offset, Index rows, Index row_step, Index n) {
    if (!computed_) {
      arrays_[0] = in_ + offset * size_;
      return row_step;
    }
    computed_->read(offset, rows, row_step, n, arrays_.data());
    return n;
  }
  const char* array(std::size_t fold) const { return arrays_[fold]; }

 private:
  const char* in_;
  Index size_;
  std::unique_ptr<Computed::Reader> computed_;
  stave::SmallVector<const char*, 2> arrays_;
};

/// The accumulators of all folds, with `width` columns each.
class Accumulators {
 public:
  Accumulators(const Plan& plan, Index width, char* data) : plan_(plan), width_(width), data_(data) {}
  char* operator[](std::size_t fold) const { return data_ + plan_.accumulators_before(fold) * width_; }

  void start(Index n) const {
    for (std::size_t k = 0; k < plan_.folds.size(); ++k) plan_.folds[k].kernels.start((*this)[k], n);
  }
  void merge(const Accumulators& other, Index n) const {
    for (std::size_t k = 0; k < plan_.folds.size(); ++k) plan_.folds[k].kernels.merge((*this)[k], n, other[k], n, n);
  }

 private:
  const Plan& plan_;
  Index width_;
  char* data_;
};

inline Index length_of(const Axes& axes) {
  Index n = 1;
  for (const Axis& axis : axes) n *= axis.length;
  return n;
}

// ---- sorting axes -------------------------------------------------------------------------------

struct SortedAxis : Axis {
  bool kept = false;
};
using SortedAxes = stave::SmallVector<SortedAxis, 6>;

inline Index distance(
    // The step of a broadcast axis counts as the largest, so that the axes inside of it are read
    // contiguously.
    const Axis& axis) {
  Index step = axis.step[0] < 0 ? -axis.step[0] : axis.step[0];
  return step == 0 ? std::numeric_limits<Index>::max() : step;
}

/// Returns the axes in descending order of their strides, without axes of length 1. Reduced axes
/// with negative strides are reversed, so that memory is read in ascending order. `first` becomes
/// the offset of the element at which the axes then start.
inline SortedAxes sorted_axes(std::span<const Index> shape, std::span<const Index> strides, const Shape& reduced,
                              Index& first) {
  SortedAxes axes;
  const Index* next_reduced = reduced.end();
  Index out_step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    SortedAxis axis;
    axis.length = shape[i];
    axis.step[0] = strides[i];
    axis.kept = next_reduced == reduced.begin() || next_reduced[-1] != static_cast<Index>(i);
    if (axis.kept) {
      axis.step[1] = out_step;
      out_step *= axis.length;
    } else {
      --next_reduced;
    }
    if (axis.length == 1) continue;
    if (!axis.kept && axis.step[0] < 0) {
      first += (axis.length - 1) * axis.step[0];
      axis.step[0] = -axis.step[0];
    }
    axes.push_back(axis);
  }
  std::reverse(axes.begin(), axes.end());
  // An insertion sort, because std::stable_sort would allocate.
  for (std::size_t i = 1; i < axes.size(); ++i)
    for (std::size_t j = i; j > 0 && distance(axes[j - 1]) < distance(axes[j]); --j) std::swap(axes[j - 1], axes[j]);
  return axes;
}

inline void merge_neighbours(SortedAxes& axes) {
  SortedAxes merged;
  for (const SortedAxis& axis : axes) {
    bool merges = !merged.empty() && merged.back().kept == axis.kept &&
                  merged.back().step[0] == axis.step[0] * axis.length &&
                  merged.back().step[1] == axis.step[1] * axis.length;
    if (!merges) {
      merged.push_back(axis);
    } else {
      SortedAxis both = axis;
      both.length *= merged.back().length;
      merged.back() = both;
    }
  }
  axes = std::move(merged);
}

/// Makes the plan of a reduction. `in` points to element (0, ..., 0).
inline Plan make_plan(std::span<const Fold> folds, const Shape& reduced, std::span<const Index> shape,
                      std::span<const Index> strides, const char* in, const Computed* computed) {
  Plan plan{folds, computed, in, {}, {}, {}, false};
  Index first = 0;
  SortedAxes axes = sorted_axes(shape, strides, reduced, first);
  plan.in += first * folds[0].size;
  merge_neighbours(axes);
  if (axes.empty()) {
    plan.inner.step[0] = 1;
    return plan;
  }
  plan.inner = axes.back();
  plan.inner_kept = axes.back().kept;
  axes.pop_back();
  for (const SortedAxis& axis : axes) (axis.kept ? plan.kept : plan.folded).push_back(axis);
  return plan;
}

// ---- splitting work -----------------------------------------------------------------------------

/// The division of a reduction into tasks. The elements that are reduced to one output, or to one
/// tile of outputs, are divided into `pieces` pieces, and the pieces into `parts` parts. A task
/// computes one part of one output. The division depends on the shape alone.
struct Split {
  Index outputs, pieces, parts;
  Split(Index results, Index divisible, Index elements) : outputs(results), pieces(divisible), parts(1) {
    if (outputs < few_outputs)
      parts = std::max<Index>(1, std::min({pieces, 4 * few_outputs / outputs, elements / cheap_grain}));
  }
  Index tasks() const { return outputs * parts; }
  Index first_piece(Index part) const { return pieces * part / parts; }
};

/// Runs all tasks of a split. If outputs have one part, it calls finish(first output, last output),
/// which computes whole outputs. Otherwise it calls fold(output, first piece, last piece,
/// accumulator) for each part, and then finish(output, accumulators) for each output.
template <class Fold, class Finish>
void run_split(const Split& split, Index elements, Index accumulator_bytes, Fold fold, Finish finish) {
  Index grain = std::max<Index>(1, cheap_grain / std::max<Index>(1, elements / split.tasks()));
  if (split.parts == 1)
    return parallel_for(split.outputs, grain, [&](Index first, Index last) { finish(first, last); });
  auto partials = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(split.tasks() * accumulator_bytes));
  parallel_for(split.tasks(), grain, [&](Index first, Index last) {
    for (Index t = first; t < last; ++t) {
      Index part = t % split.parts;
      fold(t / split.parts, split.first_piece(part), split.first_piece(part + 1),
           partials.get() + t * accumulator_bytes);
    }
  });
  for (Index output = 0; output < split.outputs; ++output)
    finish(output, partials.get() + output * split.parts * accumulator_bytes);
}

}  // namespace stave_cpu::reducing
