// Reductions over any axes of a strided input, reading it once and in memory order, and writing only the result.
//
// The axes are sorted by their distance in memory and merged. Then either the innermost one is reduced, and contiguous
// rows fold into one value each; or it is kept, and rows add up to columns. Work is split over outputs, and over parts
// of the reduced elements where outputs are few. How it is cut depends on shapes alone, and parts are merged in order,
// so results do not depend on the number of threads.
#include <stave/backends/cpu/reduce.h>

#include <algorithm>
#include <limits>
#include <memory>

#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::Shape;
using stave::View;

namespace {

constexpr Index few_outputs = 64;        // from here on there is work for all threads without splitting outputs
constexpr Index row_piece = 1 << 15;     // elements of a row that are never split
constexpr Index most_columns = 2048;     // their accumulators stay in the second cache
constexpr Index gathered_columns = 128;  // of rows that have to be copied together first
constexpr Index buffer_elements = 1024;

/// Operand 0 is the input, 1 the output (step 0 along reduced axes).
struct Plan {
  const Reduction& reduction;
  const char* in;
  char* out;
  Index size;         // of an element
  Axes kept, folded;  // outermost first; without the innermost of all
  Axis inner;
  bool inner_kept;

  Index accumulator_bytes() const { return Index{reduction.planes} * reduction.plane_bytes; }
};

Index length_of(const Axes& axes) {
  Index n = 1;
  for (const Axis& axis : axes) n *= axis.length;
  return n;
}

// ---- sorting axes ------------------------------------------------------------------------------------------

struct SortedAxis : Axis {
  bool kept = false;
};
using SortedAxes = stave::SmallVector<SortedAxis, 6>;

Index distance(const Axis& axis) {  // broadcast axes count as far: what lies inside them is then read contiguously
  Index step = axis.step[0] < 0 ? -axis.step[0] : axis.step[0];
  return step == 0 ? std::numeric_limits<Index>::max() : step;
}

/// Axes of length 1 dropped; reduced ones walked upwards in memory (`in` moves to their lowest element).
SortedAxes sorted_axes(const View& in, const Shape& reduced, Index size, Index out_size, const char*& data) {
  SortedAxes axes;
  const Index* next_reduced = reduced.end();
  Index out_step = out_size;
  for (std::size_t i = in.shape.size(); i-- > 0;) {
    SortedAxis axis;
    axis.length = in.shape[i];
    axis.step[0] = in.strides[i] * size;
    axis.kept = next_reduced == reduced.begin() || next_reduced[-1] != static_cast<Index>(i);
    if (axis.kept) {
      axis.step[1] = out_step;
      out_step *= axis.length;
    } else {
      --next_reduced;
    }
    if (axis.length == 1) continue;
    if (!axis.kept && axis.step[0] < 0) {
      data += (axis.length - 1) * axis.step[0];
      axis.step[0] = -axis.step[0];
    }
    axes.push_back(axis);
  }
  std::reverse(axes.begin(), axes.end());
  for (std::size_t i = 1; i < axes.size(); ++i)  // std::stable_sort would allocate
    for (std::size_t j = i; j > 0 && distance(axes[j - 1]) < distance(axes[j]); --j) std::swap(axes[j - 1], axes[j]);
  return axes;
}

void merge_neighbours(SortedAxes& axes) {
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

Plan make_plan(const Reduction& reduction, const Shape& reduced, const View& in, const View& out) {
  Index size = static_cast<Index>(stave::size_of(in.dtype));
  Plan plan{reduction, static_cast<const char*>(in.data), static_cast<char*>(out.data), size, {}, {}, {}, false};
  SortedAxes axes = sorted_axes(in, reduced, size, size, plan.in);
  merge_neighbours(axes);
  if (axes.empty()) {
    plan.inner.step[0] = size;
    return plan;
  }
  plan.inner = axes.back();
  plan.inner_kept = axes.back().kept;
  axes.pop_back();
  for (const SortedAxis& axis : axes) (axis.kept ? plan.kept : plan.folded).push_back(axis);
  return plan;
}

// ---- splitting work ----------------------------------------------------------------------------------------

/// Outputs (or tiles of them) times parts of what folds into each: a function of the shape alone.
struct Split {
  Index outputs, pieces, parts;
  Split(Index results, Index divisible, Index elements) : outputs(results), pieces(divisible), parts(1) {
    if (outputs < few_outputs)
      parts = std::max<Index>(1, std::min({pieces, 4 * few_outputs / outputs, elements / cheap_grain}));
  }
  Index tasks() const { return outputs * parts; }
  Index first_piece(Index part) const { return pieces * part / parts; }
};

/// Runs fold(output, first piece, last piece, accumulator) and finish(output, accumulator) for all of them.
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

// ---- the innermost axis is reduced: rows -------------------------------------------------------------------

class Rows {
 public:
  explicit Rows(const Plan& plan)
      : plan_(plan), kept_(plan.kept, 2, -1, 1, 1), folded_(plan.folded, 1, -1, 1, 1),
        chunks_((plan.inner.length + row_piece - 1) / row_piece),
        elements_(kept_.count() * folded_.count() * plan.inner.length),
        split_(kept_.count(), folded_.count() * chunks_, elements_) {}

  void run() const {
    if (short_rows()) return run_short_rows();
    run_split(split_, elements_, 16, *this, *this);
  }

  /// Pieces [first, last) of one output into a fresh accumulator.
  void operator()(Index output, Index first, Index last, char* accumulator) const {
    TileWalk kept = kept_;
    kept.seek(output);
    fold(plan_.in + kept.offset(0), first, last, accumulator);
  }
  /// Whole outputs.
  void operator()(Index first, Index last) const {
    TileWalk kept = kept_;
    kept.seek(first);
    for (Index output = first; output < last; ++output, kept.next()) {
      alignas(16) char accumulator[16];
      fold(plan_.in + kept.offset(0), 0, split_.pieces, accumulator);
      plan_.reduction.finish(accumulator, 1, plan_.out + kept.offset(1));
    }
  }
  /// The parts of one output.
  void operator()(Index output, char* partials) const {
    for (Index part = 1; part < split_.parts; ++part) plan_.reduction.merge(partials, partials + 16 * part, 1);
    TileWalk kept = kept_;
    kept.seek(output);
    plan_.reduction.finish(partials, 1, plan_.out + kept.offset(1));
  }

 private:
  void fold(const char* in, Index first, Index last, char* accumulator) const {
    plan_.reduction.start(accumulator, 1);
    TileWalk folded = folded_;
    folded.seek(first / chunks_);
    Index chunk = first % chunks_;
    for (Index piece = first; piece < last; ++piece) {
      Index begin = chunk * row_piece, n = std::min(row_piece, plan_.inner.length - begin);
      fold_row(in + folded.offset(0) + begin * plan_.inner.step[0], n, accumulator);
      if (++chunk < chunks_) continue;
      chunk = 0;
      folded.next();
    }
  }
  void fold_row(const char* in, Index n, char* accumulator) const {
    Index step = plan_.inner.step[0];
    if (step == plan_.size) return plan_.reduction.row(in, n, accumulator);
    alignas(64) char buffer[buffer_elements * 8];
    for (Index i = 0; i < n; i += buffer_elements) {
      Index count = std::min(buffer_elements, n - i);
      copy_tile(buffer, 0, plan_.size, in + i * step, 0, step, 1, count, plan_.size);
      plan_.reduction.row(buffer, count, accumulator);
    }
  }

  // Rows of a few hundred elements would spend their time in calls: many go to one. Those of a few elements are even
  // transposed in a buffer, and added up as columns.
  static constexpr Index few = 16, short_row = 512, together = 128;
  bool short_rows() const {
    bool dense = plan_.inner.step[0] == plan_.size && plan_.inner.length <= short_row;
    return plan_.folded.empty() && !plan_.kept.empty() && (dense || plan_.inner.length <= few) &&
           plan_.kept.back().length >= 4 && plan_.kept.back().step[1] == plan_.size;
  }
  void run_short_rows() const {
    TileWalk tiles(plan_.kept, 2, -1, 1, together);
    Index length = plan_.inner.length, size = plan_.size, step = plan_.kept.back().step[0];
    parallel_for(tiles.count(), std::max<Index>(1, cheap_grain / (together * length)), [&](Index first, Index last) {
      alignas(64) char buffer[few * together * 8];
      alignas(64) char accumulator[together * 16];
      TileWalk walk = tiles;
      walk.seek(first);
      for (Index t = first; t < last; ++t, walk.next()) {
        Index n = walk.columns();
        const char* in = plan_.in + walk.offset(0);
        plan_.reduction.start(accumulator, n);
        if (length <= few) {
          copy_tile(buffer, n * size, size, in, plan_.inner.step[0], step, length, n, size);
          plan_.reduction.columns(buffer, length, n, n, accumulator);
        } else {
          plan_.reduction.rows(in, n, step / size, length, accumulator);
        }
        plan_.reduction.finish(accumulator, n, plan_.out + walk.offset(1));
      }
    });
  }

  const Plan& plan_;
  TileWalk kept_, folded_;
  Index chunks_, elements_;
  Split split_;
};

// ---- the innermost axis is kept: columns -------------------------------------------------------------------

/// The reduced axis whose rows are added up at one go: the innermost one.
Axis take_rows(Axes& folded) {
  Axis rows;
  if (folded.empty()) return rows;
  rows = folded.back();
  folded.pop_back();
  return rows;
}

class Columns {
 public:
  explicit Columns(Plan& plan)
      : plan_(plan), rows_(take_rows(plan.folded)), dense_(plan.inner.step[0] == plan.size),
        width_(std::min(plan.inner.length, dense_ ? most_columns : gathered_columns)),
        kept_(with_inner(plan), 2, -1, 1, width_), folded_(plan.folded, 1, -1, 1, 1),
        row_chunk_(std::max<Index>(64, cheap_grain / width_)), chunks_((rows_.length + row_chunk_ - 1) / row_chunk_),
        elements_(length_of(plan.kept) * plan.inner.length * folded_.count() * rows_.length),
        split_(kept_.count(), folded_.count() * chunks_, elements_) {
    // Narrow contiguous rows, if there are many, are joined to wide ones, whose columns are then folded.
    if (rows_.length * width_ >= 2048 && dense_ && kept_.count() == length_of(plan.kept) && width_ <= 64 &&
        rows_.step[0] == width_ * plan.size)
      while (2 * joined_ * width_ <= 512 && 2 * joined_ <= rows_.length) joined_ *= 2;
  }

  void run() const { run_split(split_, elements_, most_bytes(), *this, *this); }

  void operator()(Index output, Index first, Index last, char* accumulator) const {
    TileWalk kept = kept_;
    kept.seek(output);
    fold(kept, first, last, accumulator);
  }
  void operator()(Index first, Index last) const {
    auto accumulator = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(most_bytes()));
    TileWalk kept = kept_;
    kept.seek(first);
    for (Index output = first; output < last; ++output, kept.next()) {
      fold(kept, 0, split_.pieces, accumulator.get());
      finish(kept, accumulator.get());
    }
  }
  void operator()(Index output, char* partials) const {
    TileWalk kept = kept_;
    kept.seek(output);
    for (Index part = 1; part < split_.parts; ++part)
      plan_.reduction.merge(partials, partials + part * most_bytes(), kept.columns());
    finish(kept, partials);
  }

 private:
  static Axes with_inner(const Plan& plan) {
    Axes axes = plan.kept;
    axes.push_back(plan.inner);
    return axes;
  }
  Index most_bytes() const { return plan_.accumulator_bytes() * width_; }

  void fold(const TileWalk& kept, Index first, Index last, char* accumulator) const {
    if (joined_ > 1) return fold_joined(kept, first, last, accumulator);
    plan_.reduction.start(accumulator, kept.columns());
    for_pieces(kept, first, last, [&](const char* in, Index rows) { add(in, rows, kept.columns(), accumulator); });
  }
  template <class F>
  void for_pieces(const TileWalk& kept, Index first, Index last, F f) const {
    TileWalk folded = folded_;
    folded.seek(first / chunks_);
    Index chunk = first % chunks_;
    for (Index piece = first; piece < last; ++piece) {
      Index begin = chunk * row_chunk_;
      f(plan_.in + kept.offset(0) + folded.offset(0) + begin * rows_.step[0],
        std::min(row_chunk_, rows_.length - begin));
      if (++chunk < chunks_) continue;
      chunk = 0;
      folded.next();
    }
  }

  void add(const char* in, Index rows, Index n, char* accumulator) const {
    Index size = plan_.size;
    if (dense_) {
      // The step between rows is whole elements: strides are given in elements.
      return plan_.reduction.columns(in, rows, rows_.step[0] / size, n, accumulator);
    }
    alignas(64) char buffer[8 * gathered_columns * 8];
    for (Index r = 0; r < rows; r += 8) {
      Index count = std::min<Index>(8, rows - r);
      copy_tile(buffer, n * size, size, in + r * rows_.step[0], rows_.step[0], plan_.inner.step[0], count, n, size);
      plan_.reduction.columns(buffer, count, n, n, accumulator);
    }
  }

  /// joined_ rows as one: its columns c, c + n, c + 2 n, ... belong together.
  void fold_joined(const TileWalk& kept, Index first, Index last, char* accumulator) const {
    Index n = kept.columns(), wide = n * joined_;
    alignas(64) char joined[512 * 16];
    plan_.reduction.start(joined, wide);
    for_pieces(kept, first, last, [&](const char* in, Index rows) {
      Index whole = rows / joined_, rest = rows % joined_;
      plan_.reduction.columns(in, whole, wide, wide, joined);
      if (rest == 0) return;
      alignas(64) char padded[512 * 16];  // the rest as a wide row of its own: neutral elements behind it
      plan_.reduction.start(padded, wide);
      fold_rest(in + whole * wide * plan_.size, rest * n, wide, padded);
      plan_.reduction.merge(joined, padded, wide);
    });
    for (; wide > n; wide /= 2) {  // the second half onto the first
      alignas(64) char halves[2][256 * 16];
      slice(joined, wide, 0, wide / 2, halves[0]);
      slice(joined, wide, wide / 2, wide / 2, halves[1]);
      plan_.reduction.merge(halves[0], halves[1], wide / 2);
      std::copy_n(halves[0], wide / 2 * plan_.accumulator_bytes(), joined);
    }
    std::copy_n(joined, n * plan_.accumulator_bytes(), accumulator);
  }
  void fold_rest(const char* in, Index n, Index wide, char* padded) const {
    alignas(64) char part[512 * 16];
    plan_.reduction.start(part, n);
    plan_.reduction.columns(in, 1, n, n, part);
    Index bytes = plan_.reduction.plane_bytes;
    for (Index p = 0; p < plan_.reduction.planes; ++p)
      std::copy_n(part + p * n * bytes, n * bytes, padded + p * wide * bytes);
  }
  /// Columns [first, first + n) of an accumulator of `wide` ones.
  void slice(const char* accumulator, Index wide, Index first, Index n, char* to) const {
    Index bytes = plan_.reduction.plane_bytes;
    for (Index p = 0; p < plan_.reduction.planes; ++p)
      std::copy_n(accumulator + (p * wide + first) * bytes, n * bytes, to + p * n * bytes);
  }

  void finish(const TileWalk& kept, const char* accumulator) const {
    Index n = kept.columns(), size = plan_.size;
    char* out = plan_.out + kept.offset(1);
    if (plan_.inner.step[1] == size) return plan_.reduction.finish(accumulator, n, out);
    alignas(64) char buffer[most_columns * 8];
    plan_.reduction.finish(accumulator, n, buffer);
    copy_tile(out, 0, plan_.inner.step[1], buffer, 0, size, 1, n, size);
  }

  const Plan& plan_;
  Axis rows_;
  bool dense_;
  Index width_;
  TileWalk kept_, folded_;
  Index row_chunk_, chunks_, elements_;
  Split split_;
  Index joined_ = 1;
};

void fill_neutral(const Reduction& reduction, const View& out, Index n) {
  alignas(16) char accumulator[16];
  reduction.start(accumulator, 1);
  char* to = static_cast<char*>(out.data);
  Index size = static_cast<Index>(stave::size_of(out.dtype));
  for (Index i = 0; i < n; ++i) reduction.finish(accumulator, 1, to + i * size);
}

/// A short contiguous vector to one value: no axes to look at.
void fold_small(const Reduction& reduction, const View& in, Index n, const View& out) {
  alignas(16) char accumulator[16];
  reduction.start(accumulator, 1);
  reduction.row(in.data, n, accumulator);
  reduction.finish(accumulator, 1, out.data);
}

}  // namespace

void run_reduce(const Reduction& reduction, const Shape& axes, const View& in, const View& out) {
  Index outputs = element_count(out.shape);
  if (outputs == 0) return;
  if (element_count(in.shape) == 0) return fill_neutral(reduction, out, outputs);
  Index n = element_count(in.shape);
  if (outputs == 1 && n <= cheap_grain && is_contiguous(in.shape, in.strides)) return fold_small(reduction, in, n, out);
  Plan plan = make_plan(reduction, axes, in, out);
  if (plan.inner_kept) Columns(plan).run();
  else Rows(plan).run();
}

}  // namespace stave_cpu
