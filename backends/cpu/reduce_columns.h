// Reductions that keep the innermost axis: rows are added elementwise, and each column gives one
// result.
#pragma once

#include <stave/backends/cpu/reduce_plan.h>
#include <stave/backends/cpu/scratch.h>

namespace stave_cpu::reducing {

/// Removes the innermost reduced axis and returns it. One kernel call adds rows along this axis.
inline Axis take_rows(Axes& folded) {
  Axis rows;
  if (folded.empty()) return rows;
  rows = folded.back();
  folded.pop_back();
  return rows;
}

class Columns {
  // The L2 cache holds the accumulators of this number of columns.
  static constexpr Index most_columns = 2048;
  static constexpr Index gathered_columns = 128;  // The limit for rows that are not contiguous.
  static constexpr Index most_joined = 512;

 public:
  explicit Columns(Plan& plan)
      : plan_(plan), rows_(take_rows(plan.folded)), dense_(plan.inner.step[0] == 1),
        width_(std::min(plan.inner.length, dense_ ? most_columns : gathered_columns)),
        kept_(with_inner(plan), 2, -1, 1, width_), folded_(plan.folded, 1, -1, 1, 1),
        row_chunk_(std::max<Index>(64, cheap_grain / width_)), chunks_((rows_.length + row_chunk_ - 1) / row_chunk_),
        elements_(length_of(plan.kept) * plan.inner.length * folded_.count() * rows_.length),
        split_(kept_.count(), folded_.count() * chunks_, elements_) {
    // If there are many short rows that follow each other in memory, several are treated as one
    // long row. At the end, the columns of the long row that belong to one output are added.
    if (dense_ && kept_.count() == length_of(plan.kept) && width_ <= 64 && rows_.step[0] == width_ &&
        rows_.length * width_ >= 1024) {
      // Kernels add eight rows at a time.
      const Index most = std::min(most_joined, rows_.length * width_ / 8);
      while (!is_fast(joined_ * width_) && 2 * joined_ * width_ <= most) joined_ *= 2;
    }
  }

  void run() const { run_split(split_, elements_, most_bytes(), *this, *this); }

  void operator()(Index output, Index first, Index last, char* accumulator) const {
    TileWalk kept = kept_;
    kept.seek(output);
    Reader reader(plan_);
    fold(reader, kept, first, last, accumulator);
  }
  void operator()(Index first, Index last) const {
    auto accumulator = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(most_bytes()));
    TileWalk kept = kept_;
    kept.seek(first);
    Reader reader(plan_);
    for (Index output = first; output < last; ++output, kept.next()) {
      fold(reader, kept, 0, split_.pieces, accumulator.get());
      finish(kept, accumulator.get());
    }
  }
  void operator()(Index output, char* partials) const {
    TileWalk kept = kept_;
    kept.seek(output);
    const Accumulators accumulators(plan_, width_, partials);
    for (Index part = 1; part < split_.parts; ++part)
      accumulators.merge({plan_, width_, partials + part * most_bytes()}, kept.columns());
    finish(kept, partials);
  }

 private:
  /// Returns true if rows of n elements fill several vectors.
  static constexpr bool is_fast(Index n) { return n >= 64 && n % 16 == 0; }
  static Axes with_inner(const Plan& plan) {
    Axes axes = plan.kept;
    axes.push_back(plan.inner);
    return axes;
  }
  Index most_bytes() const { return plan_.accumulator_bytes() * width_; }

  void fold(Reader& reader, const TileWalk& kept, Index first, Index last, char* accumulator) const {
    const Accumulators accumulators(plan_, width_, accumulator);
    if (joined_ > 1) return fold_joined(reader, kept, first, last, accumulators);
    accumulators.start(kept.columns());
    // Kernels add eight rows at a time, so all pieces of a chunk but the last one have a multiple
    // of eight rows.
    const Index n = kept.columns(), at_once = dense_ ? std::max<Index>(8, read_elements / n / 8 * 8) : 8;
    for_pieces(reader, kept, first, last, at_once, [&](Index rows, Index apart) {
      for (std::size_t k = 0; k < plan_.folds.size(); ++k)
        add(plan_.folds[k], reader.array(k), rows, apart, n, accumulators[k]);
    });
  }
  /// Divides the rows into pieces of at most `at_once` rows, and calls f(rows, row step) for each.
  template <class F>
  void for_pieces(Reader& reader, const TileWalk& kept, Index first, Index last, Index at_once, F f) const {
    TileWalk folded = folded_;
    folded.seek(first / chunks_);
    Index chunk = first % chunks_;
    for (Index piece = first; piece < last; ++piece) {
      const Index end = std::min((chunk + 1) * row_chunk_, rows_.length);
      for (Index row = chunk * row_chunk_; row < end; row += at_once) {
        const Index rows = std::min(at_once, end - row);
        f(rows,
          reader.read(kept.offset(0) + folded.offset(0) + row * rows_.step[0], rows, rows_.step[0], kept.columns()));
      }
      if (++chunk < chunks_) continue;
      chunk = 0;
      folded.next();
    }
  }

  void add(const Fold& fold, const char* in, Index rows, Index row_step, Index n, char* accumulator) const {
    if (dense_) return fold.kernels.columns(in, rows, row_step, n, accumulator);
    alignas(64) char buffer[8 * gathered_columns * widest_element];
    Index size = fold.size;
    copy_tile(buffer, n * size, size, in, row_step * size, plan_.inner.step[0] * size, rows, n, size);
    fold.kernels.columns(buffer, rows, n, n, accumulator);
  }

  /// Treats joined_ rows of n elements as one long row of joined_ * n columns. Columns c, c + n,
  /// c + 2 n, ... belong to output c.
  void fold_joined(Reader& reader, const TileWalk& kept, Index first, Index last,
                   const Accumulators& accumulators) const {
    const Index n = kept.columns(), wide = n * joined_;
    const Scratch<char> room = scratch<char>(static_cast<std::size_t>(plan_.accumulator_bytes() * wide));
    const Accumulators joined(plan_, wide, room.get());
    accumulators.start(n);
    joined.start(wide);
    for_pieces(reader, kept, first, last, std::max<Index>(8, read_elements / wide / 8 * 8) * joined_,
               [&](Index rows, Index) {
                 const Index whole = rows / joined_, rest = rows % joined_;
                 for (std::size_t k = 0; k < plan_.folds.size(); ++k) {
                   const Fold& fold = plan_.folds[k];
                   fold.kernels.columns(reader.array(k), whole, wide, wide, joined[k]);
                   fold.kernels.columns(reader.array(k) + whole * wide * fold.size, rest, n, n, accumulators[k]);
                 }
               });
    for (std::size_t k = 0; k < plan_.folds.size(); ++k) {
      const Reduction& kernels = plan_.folds[k].kernels;
      for (Index half = wide / 2; half >= n; half /= 2)
        kernels.merge(joined[k], wide, joined[k] + half * kernels.plane_bytes, wide, half);
      kernels.merge(accumulators[k], n, joined[k], wide, n);
    }
  }

  void finish(const TileWalk& kept, char* accumulator) const {
    const Accumulators accumulators(plan_, width_, accumulator);
    for (std::size_t k = 0; k < plan_.folds.size(); ++k)
      finish(plan_.folds[k], kept.columns(), accumulators[k], kept.offset(1));
  }
  void finish(const Fold& fold, Index n, const char* accumulator, Index place) const {
    Index size = fold.size, step = plan_.inner.step[1];
    char* out = fold.out + place * size;
    if (step == 1) return fold.kernels.finish(accumulator, n, out);
    alignas(64) char buffer[most_columns * widest_element];
    fold.kernels.finish(accumulator, n, buffer);
    copy_tile(out, 0, step * size, buffer, 0, size, 1, n, size);
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

}  // namespace stave_cpu::reducing
