// softmax, log_softmax and logsumexp over a strided input. The input is read from memory once if
// the elements along the softmax axis fit into a cache.
//
// If the softmax axis is the innermost one, the kernel computes whole rows. Otherwise it computes
// many adjacent columns together. An input that the kernels cannot read in place is first copied to
// the result, and computed there. Very short rows are transposed in a buffer and computed as
// columns. Long rows are read twice, piece by piece: once for the sums and once for the results.
// The division of a row into parts, and the order in which the parts are merged, depend on the
// shape alone, so results do not depend on the number of threads. A row of logsumexp has one
// result, so what needs a copy of the input is read piece by piece.
#include <stave/backends/cpu/softmax.h>

#include <algorithm>
#include <array>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::View;

namespace {

// The number of exponentials from which on a second thread pays.
constexpr Index softmax_grain = cheap_grain / 4;
// The bytes of rows or columns that one kernel call computes; they stay in the L2 cache.
constexpr Index tile_bytes = Index{1} << 18;
// The largest number of elements in a cache line. Columns are divided into multiples of this
// number, and this many rows are copied at a time.
constexpr Index line = 16;
constexpr Index short_row = 32;
constexpr Index most_beside = 7;  // Up to this number of adjacent columns do not fill a vector.
constexpr Index least_part = Index{1} << 15, most_parts = 64;

class SoftmaxLoop {
 public:
  SoftmaxLoop(const Softmax& softmax, std::size_t axis, const View& in, const View& out)
      : softmax_(softmax), size_(static_cast<Index>(stave::size_of(out.dtype))), length_(in.shape[axis]),
        results_(out.shape[axis]), in_step_(in.strides[axis] * size_), out_step_(out.strides[axis] * size_),
        in_(static_cast<char*>(in.data)), out_(static_cast<char*>(out.data)) {
    const stave::Strides in_strides = without(in.strides, axis), out_strides = without(out.strides, axis);
    const Index *strides[] = {in_strides.data(), out_strides.data()}, sizes[] = {size_, size_};
    kept_ = merged_axes(without(out.shape, axis), strides, sizes);
    side_by_side_ = !kept_.empty() && neighbour_distance(softmax.reduces ? 0 : 1) == size_;
    if (side_by_side_) beside_ = std::min(kept_.back().length, most_beside);
  }

  void run() const {
    if (side_by_side_ && (kept_.back().length > most_beside || length_ <= short_row)) return run_columns();
    if (side_by_side_ || length_ * size_ > tile_bytes) return run_pieces();
    if (length_ <= short_row && !kept_.empty()) return run_short_rows();
    if (softmax_.reduces && in_step_ != size_) return run_pieces();
    run_rows();
  }

 private:
  /// The distance, in operand k, between neighbours along the innermost of the axes other than the
  /// softmax axis.
  Index neighbour_distance(int k) const { return kept_.empty() ? 0 : kept_.back().step[k]; }

  /// Calls f(walk) for all tiles. A tile has `neighbours` neighbours along the innermost of the
  /// axes other than the softmax axis.
  template <class F>
  void for_tiles(Index neighbours, F f) const {
    const TileWalk tiles(kept_, 2, -1, 1, neighbours);
    parallel_for(tiles.count(), std::max<Index>(1, softmax_grain / (length_ * neighbours)),
                 [&](Index first, Index last) {
                   TileWalk walk = tiles;
                   walk.seek(first);
                   for (Index t = first; t < last; ++t, walk.next()) f(walk);
                 });
  }

  void run_columns() const {
    // Tiles are wide enough for contiguous reads, but narrow enough that every thread gets some
    // tiles. Results do not depend on the width. If a cache holds all columns, one tile has all
    // columns.
    const Index columns = kept_.back().length, enough = softmax_grain / length_ + line;
    const Index share = std::min(columns / (2 * thread_count()), enough) / line * line;
    const bool whole = columns <= softmax_columns && columns * length_ * size_ <= tile_bytes;
    const Index width = whole ? columns : std::clamp(share, 4 * line, softmax_columns);
    const bool in_place = neighbour_distance(0) == size_;
    for_tiles(width, [&](const TileWalk& walk) {
      const char* in = in_ + walk.offset(0);
      char* out = out_ + walk.offset(1);
      if (!in_place)
        copy_tile(out, out_step_, size_, in, in_step_, neighbour_distance(0), length_, walk.columns(), size_);
      softmax_.columns(in_place ? in : out, (in_place ? in_step_ : out_step_) / size_, length_, walk.columns(), out,
                       out_step_ / size_);
    });
  }

  void run_rows() const {
    const bool in_place = in_step_ == size_;
    for_tiles(in_place ? std::max<Index>(1, softmax_grain / length_) : line, [&](const TileWalk& walk) {
      const char* in = in_ + walk.offset(0);
      char* out = out_ + walk.offset(1);
      if (!in_place)
        copy_tile(out, neighbour_distance(1), size_, in, neighbour_distance(0), in_step_, walk.columns(), length_,
                  size_);
      softmax_.rows(in_place ? in : out, neighbour_distance(in_place ? 0 : 1) / size_, walk.columns(), length_, out,
                    neighbour_distance(1) / size_);
    });
  }

  void run_short_rows() const {
    constexpr Index together = 64;
    for_tiles(together, [&](const TileWalk& walk) {
      alignas(64) char columns[short_row * together * 8];
      const Index n = walk.columns();
      copy_tile(columns, n * size_, size_, in_ + walk.offset(0), in_step_, neighbour_distance(0), length_, n, size_);
      softmax_.columns(columns, n, length_, n, columns, n);
      copy_tile(out_ + walk.offset(1), neighbour_distance(1), size_, columns, size_, n * size_, n, results_, size_);
    });
  }

  // ---- long rows, and few tall columns ----------------------------------------------------------

  using Totals = std::array<SoftmaxTotal, most_beside>;

  /// Computes long rows, and columns that are too few to fill a vector. If there are few rows,
  /// each row is divided into parts, whose totals are merged in order.
  void run_pieces() const {
    const Index beside = beside_, count = TileWalk(kept_, 2, -1, 1, beside).count();
    const Index parts = std::clamp<Index>(length_ / least_part, 1, std::max<Index>(1, most_parts / count));
    if (parts == 1)
      return for_tiles(beside, [&](const TileWalk& tile) {
        Totals totals;
        fold(tile, 0, length_, totals);
        finish(tile, 0, length_, totals);
      });
    std::array<Totals, most_parts> totals;
    const auto for_parts = [&](auto f) {
      parallel_for(count * parts, 1, [&](Index first, Index last) {
        for (Index task = first; task < last; ++task) {
          TileWalk tile(kept_, 2, -1, 1, beside);
          tile.seek(task / parts);
          const Index part = task % parts;
          f(tile, length_ * part / parts, length_ * (part + 1) / parts, static_cast<std::size_t>(task));
        }
      });
    };
    for_parts([&](const TileWalk& tile, Index first, Index last, std::size_t task) {
      fold(tile, first, last, totals[task]);
    });
    const auto all = static_cast<std::size_t>(parts);
    for (std::size_t task = 0; task < static_cast<std::size_t>(count) * all; ++task)
      for (std::size_t c = 0; task % all != 0 && c < static_cast<std::size_t>(beside); ++c)
        softmax_.merge(&totals[task - task % all][c], &totals[task][c]);
    for_parts([&](const TileWalk& tile, Index first, Index last, std::size_t task) {
      finish(tile, first, last, totals[task - task % all]);
    });
  }

  bool dense() const { return beside_ == 1 && in_step_ == size_ && (softmax_.reduces || out_step_ == size_); }

  /// Copies elements [first, last) of a tile's rows into a buffer, block by block, and calls
  /// f(rows, distance of the rows, first element, number of elements) for each block.
  template <class F>
  void for_blocks(const TileWalk& tile, Index first, Index last, F f) const {
    constexpr Index elements = 2048;
    alignas(64) char buffer[elements * 8];
    const Index most = elements / beside_;
    for (Index i = first; i < last; i += most) {
      const Index n = std::min(most, last - i);
      copy_tile(buffer, most * size_, size_, in_ + tile.offset(0) + i * in_step_, neighbour_distance(0), in_step_,
                beside_, n, size_);
      f(buffer, most * size_, i, n);
    }
  }
  void fold(const TileWalk& tile, Index first, Index last, Totals& totals) const {
    if (dense()) return softmax_.fold(in_ + tile.offset(0) + first * size_, last - first, &totals[0]);
    for_blocks(tile, first, last, [&](const char* rows, Index distance, Index, Index n) {
      for (Index c = 0; c < beside_; ++c) softmax_.fold(rows + c * distance, n, &totals[static_cast<std::size_t>(c)]);
    });
  }
  void finish(const TileWalk& tile, Index first, Index last, const Totals& totals) const {
    char* out = out_ + tile.offset(1);
    if (softmax_.reduces) {
      for (Index c = 0; first == 0 && c < beside_; ++c)
        softmax_.finish(nullptr, 0, &totals[static_cast<std::size_t>(c)], out + c * neighbour_distance(1));
      return;
    }
    if (dense())
      return softmax_.finish(in_ + tile.offset(0) + first * size_, last - first, &totals[0], out + first * size_);
    for_blocks(tile, first, last, [&](char* rows, Index distance, Index i, Index n) {
      for (Index c = 0; c < beside_; ++c)
        softmax_.finish(rows + c * distance, n, &totals[static_cast<std::size_t>(c)], rows + c * distance);
      copy_tile(out + i * out_step_, out_step_, size_, rows, size_, distance, n, beside_, size_);
    });
  }

  const Softmax& softmax_;
  Index size_, length_, results_;  // A row has `length_` elements and `results_` results.
  Index in_step_, out_step_;       // Steps along the softmax axis, in bytes.
  const char* in_;
  char* out_;
  Axes kept_;
  bool side_by_side_;  // Rows are columns of memory, next to each other.
  Index beside_ = 1;   // the number of adjacent columns that run_pieces computes together, as rows
};

}  // namespace

void run_softmax(const Softmax& softmax, int axis, const View& in, const View& out) {
  if (element_count(out.shape) == 0) return;
  SoftmaxLoop(softmax, static_cast<std::size_t>(axis), in, out).run();
}

void run_softmax_gradient(SoftmaxGradient kernel, const View& x, const View& ct, const View& out) {
  if (element_count(out.shape) == 0) return;
  const Dense values(x), cotangents(ct);
  const Index n = out.shape.back(), size = n * static_cast<Index>(stave::size_of(out.dtype));
  const auto row = [&](const View& of, Index r) { return static_cast<char*>(of.data) + r * size; };
  parallel_for(element_count(out.shape) / n, std::max<Index>(1, softmax_grain / n), [&](Index first, Index last) {
    kernel(row(values.view(), first), row(cotangents.view(), first), last - first, n, row(out, first));
  });
}

}  // namespace stave_cpu
