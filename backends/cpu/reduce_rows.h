// Reductions over the innermost axis: each row is reduced to one value.
#pragma once

#include <stave/backends/cpu/reduce_plan.h>

namespace stave_cpu::reducing {

class Rows {
  // The number of elements of a piece. Pieces are not split.
  static constexpr Index row_piece = 1 << 15;
  static constexpr Index buffer_elements = 1024;

 public:
  explicit Rows(const Plan& plan)
      : plan_(plan), kept_(plan.kept, 2, -1, 1, 1), folded_(plan.folded, 1, -1, 1, 1),
        chunks_((plan.inner.length + row_piece - 1) / row_piece),
        elements_(kept_.count() * folded_.count() * plan.inner.length),
        split_(kept_.count(), folded_.count() * chunks_, elements_) {}

  void run() const {
    if (short_rows()) return run_short_rows();
    run_split(split_, elements_, plan_.accumulator_bytes(), *this, *this);
  }

  /// Reduces pieces [first, last) of one output into a new accumulator.
  void operator()(Index output, Index first, Index last, char* accumulator) const {
    TileWalk kept = kept_;
    kept.seek(output);
    Reader reader(plan_);
    fold(reader, kept.offset(0), first, last, {plan_, 1, accumulator});
  }
  /// Computes whole outputs [first, last).
  void operator()(Index first, Index last) const {
    TileWalk kept = kept_;
    kept.seek(first);
    Reader reader(plan_);
    stave::SmallVector<double, 4> room(static_cast<std::size_t>(plan_.accumulator_bytes() + 7) / 8);
    const Accumulators accumulators(plan_, 1, reinterpret_cast<char*>(room.data()));
    for (Index output = first; output < last; ++output, kept.next()) {
      fold(reader, kept.offset(0), 0, split_.pieces, accumulators);
      finish(accumulators, kept.offset(1));
    }
  }
  /// Merges the parts of one output and writes its result.
  void operator()(Index output, char* partials) const {
    const Accumulators accumulators(plan_, 1, partials);
    for (Index part = 1; part < split_.parts; ++part)
      accumulators.merge({plan_, 1, partials + part * plan_.accumulator_bytes()}, 1);
    TileWalk kept = kept_;
    kept.seek(output);
    finish(accumulators, kept.offset(1));
  }

 private:
  void finish(const Accumulators& accumulators, Index place) const {
    for (std::size_t k = 0; k < plan_.folds.size(); ++k) {
      const Fold& fold = plan_.folds[k];
      fold.kernels.finish(accumulators[k], 1, fold.out + place * fold.size);
    }
  }
  void fold(Reader& reader, Index offset, Index first, Index last, const Accumulators& accumulators) const {
    accumulators.start(1);
    TileWalk folded = folded_;
    folded.seek(first / chunks_);
    Index chunk = first % chunks_;
    for (Index piece = first; piece < last; ++piece) {
      Index begin = chunk * row_piece, n = std::min(row_piece, plan_.inner.length - begin);
      reader.read(offset + folded.offset(0) + begin * plan_.inner.step[0], 1, n, n);
      for (std::size_t k = 0; k < plan_.folds.size(); ++k)
        fold_row(plan_.folds[k], reader.array(k), n, accumulators[k]);
      if (++chunk < chunks_) continue;
      chunk = 0;
      folded.next();
    }
  }
  void fold_row(const Fold& fold, const char* in, Index n, char* accumulator) const {
    Index size = fold.size, step = plan_.inner.step[0] * size;
    if (step == size) return fold.kernels.row(in, n, accumulator);
    alignas(64) char buffer[buffer_elements * widest_element];
    for (Index i = 0; i < n; i += buffer_elements) {
      Index count = std::min(buffer_elements, n - i);
      copy_tile(buffer, 0, size, in + i * step, 0, step, 1, count, size);
      fold.kernels.row(buffer, count, accumulator);
    }
  }

  // For rows of up to a few thousand elements, kernel calls would take most of the time, so one
  // call reduces many rows. Rows of a few elements are transposed in a buffer and reduced as
  // columns.
  static constexpr Index few = 16, short_row = 2048, together = 128;
  bool short_rows() const {
    bool dense = plan_.inner.step[0] == 1 && plan_.inner.length <= short_row;
    return plan_.folded.empty() && !plan_.kept.empty() && (dense || plan_.inner.length <= few) &&
           plan_.kept.back().length >= 4 && plan_.kept.back().step[1] == 1;
  }
  void run_short_rows() const {
    // An array that a region computes is read in pieces large enough for a tile of the region.
    Index length = plan_.inner.length, row_step = plan_.kept.back().step[0];
    Index at_once = std::max<Index>(1, read_elements / length), rows = std::max(together, at_once);
    TileWalk tiles(plan_.kept, 2, -1, 1, rows);
    parallel_for(tiles.count(), std::max<Index>(1, cheap_grain / (rows * length)), [&](Index first, Index last) {
      TileWalk walk = tiles;
      walk.seek(first);
      Reader reader(plan_);
      for (Index t = first; t < last; ++t, walk.next())
        for (Index r = 0; r < walk.columns(); r += at_once) {
          Index n = std::min(at_once, walk.columns() - r);
          Index apart = reader.read(walk.offset(0) + r * row_step, n, row_step, length);
          for (std::size_t k = 0; k < plan_.folds.size(); ++k)
            for (Index i = 0; i < n; i += together)
              fold_short_rows(plan_.folds[k], reader.array(k) + i * apart * plan_.folds[k].size,
                              std::min(together, n - i), apart, walk.offset(1) + r + i);
        }
    });
  }
  void fold_short_rows(const Fold& fold, const char* in, Index n, Index row_step, Index place) const {
    alignas(64) char buffer[few * together * widest_element];
    alignas(64) char accumulator[together * 16];
    Index length = plan_.inner.length, size = fold.size;
    fold.kernels.start(accumulator, n);
    if (length <= few) {
      copy_tile(buffer, n * size, size, in, plan_.inner.step[0] * size, row_step * size, length, n, size);
      fold.kernels.columns(buffer, length, n, n, accumulator);
    } else {
      fold.kernels.rows(in, n, row_step, length, accumulator);
    }
    fold.kernels.finish(accumulator, n, fold.out + place * size);
  }

  const Plan& plan_;
  TileWalk kept_, folded_;
  Index chunks_, elements_;
  Split split_;
};

}  // namespace stave_cpu::reducing
