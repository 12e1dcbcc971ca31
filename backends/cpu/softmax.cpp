// Softmax and log_softmax over a strided input, which is read from memory once where what belongs together fits into a cache.
//
// Where the axis is the innermost one, rows are computed in one go; where it is not, columns are, many side by side. An input
// that the kernels cannot read in place is first laid out in the result, and computed there. Very short rows are transposed in a
// buffer and computed as columns; long rows go piece by piece, twice. Each row is cut, and its parts merged, as its length says,
// so results do not depend on the number of threads.
#include <stave/backends/cpu/softmax.h>

#include <algorithm>
#include <array>

#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::View;

namespace {

constexpr Index softmax_grain = cheap_grain / 4;  // of exponentials
constexpr Index tile_bytes = Index{1} << 18;      // of what is computed in one go: it stays in the second cache
constexpr Index line = 16;  // elements: columns are cut, and rows transposed, by whole lines of memory
constexpr Index short_row = 32;
constexpr Index block = 1024;  // of a long row that is not contiguous
constexpr Index least_part = Index{1} << 15, most_parts = 256;

class SoftmaxLoop {
 public:
  SoftmaxLoop(const Softmax& softmax, std::size_t axis, const View& in, const View& out)
      : softmax_(softmax), size_(static_cast<Index>(stave::size_of(out.dtype))), length_(out.shape[axis]),
        in_step_(in.strides[axis] * size_), out_step_(out.strides[axis] * size_), in_(static_cast<char*>(in.data)),
        out_(static_cast<char*>(out.data)) {
    const stave::Strides in_strides = without(in.strides, axis), out_strides = without(out.strides, axis);
    const Index *strides[] = {in_strides.data(), out_strides.data()}, sizes[] = {size_, size_};
    kept_ = merged_axes(without(out.shape, axis), strides, sizes);
  }

  void run() const {
    const bool side_by_side = !kept_.empty() && kept_.back().step[1] == size_;
    if (side_by_side && (kept_.back().length >= line / 2 || length_ <= short_row)) return run_columns();
    if (side_by_side || length_ * size_ > tile_bytes) return run_pieces();
    if (length_ <= short_row && !kept_.empty()) return run_short_rows();
    run_rows();
  }

 private:
  static stave::Shape without(std::span<const Index> all, std::size_t axis) {
    stave::Shape rest;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i != axis) rest.push_back(all[i]);
    return rest;
  }
  /// How far neighbours along the innermost other axis are apart in operand k.
  Index apart(int k) const { return kept_.empty() ? 0 : kept_.back().step[k]; }

  /// f(walk) for all tiles of so many neighbours along the innermost other axis.
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
    // Wide enough that memory is read along itself; but all threads are to have some, of which no result depends.
    const Index columns = kept_.back().length, enough = softmax_grain / length_ + line;
    const Index width =
        std::clamp(std::min(columns / (2 * thread_count()), enough) / line * line, 4 * line, softmax_columns);
    const bool in_place = apart(0) == size_;
    for_tiles(width, [&](const TileWalk& walk) {
      const char* in = in_ + walk.offset(0);
      char* out = out_ + walk.offset(1);
      if (!in_place) copy_tile(out, out_step_, size_, in, in_step_, apart(0), length_, walk.columns(), size_);
      softmax_.columns(in_place ? in : out, (in_place ? in_step_ : out_step_) / size_, length_, walk.columns(), out,
                       out_step_ / size_);
    });
  }

  void run_rows() const {
    const bool in_place = in_step_ == size_;
    for_tiles(in_place ? std::max<Index>(1, softmax_grain / length_) : line, [&](const TileWalk& walk) {
      const char* in = in_ + walk.offset(0);
      char* out = out_ + walk.offset(1);
      if (!in_place) copy_tile(out, apart(1), size_, in, apart(0), in_step_, walk.columns(), length_, size_);
      softmax_.rows(in_place ? in : out, apart(in_place ? 0 : 1) / size_, walk.columns(), length_, out,
                    apart(1) / size_);
    });
  }

  void run_short_rows() const {
    constexpr Index together = 64;
    for_tiles(together, [&](const TileWalk& walk) {
      alignas(64) char columns[short_row * together * 8];
      const Index n = walk.columns();
      copy_tile(columns, n * size_, size_, in_ + walk.offset(0), in_step_, apart(0), length_, n, size_);
      softmax_.columns(columns, n, length_, n, columns, n);
      copy_tile(out_ + walk.offset(1), apart(1), size_, columns, size_, n * size_, n, length_, size_);
    });
  }

  // ---- long rows -------------------------------------------------------------------------------------------

  void run_pieces() const {
    const TileWalk rows(kept_, 2, -1, 1, 1);
    const Index count = rows.count();
    const Index parts = std::clamp<Index>(length_ / least_part, 1, std::max<Index>(1, most_parts / count));
    if (parts == 1)
      return for_tiles(1, [&](const TileWalk& row) {
        SoftmaxTotal total;
        fold(row, 0, length_, total);
        finish(row, 0, length_, total);
      });
    std::array<SoftmaxTotal, most_parts> totals;
    const auto for_parts = [&](auto f) {
      parallel_for(count * parts, 1, [&](Index first, Index last) {
        for (Index task = first; task < last; ++task) {
          TileWalk row = rows;
          row.seek(task / parts);
          const Index part = task % parts;
          f(row, length_ * part / parts, length_ * (part + 1) / parts, task);
        }
      });
    };
    const auto total_at = [&](Index task) -> SoftmaxTotal& { return totals[static_cast<std::size_t>(task)]; };
    for_parts(
        [&](const TileWalk& row, Index first, Index last, Index task) { fold(row, first, last, total_at(task)); });
    for (Index task = 0; task < count * parts; ++task)
      if (task % parts != 0) softmax_.merge(&total_at(task - task % parts), &total_at(task));
    for_parts([&](const TileWalk& row, Index first, Index last, Index task) {
      finish(row, first, last, total_at(task - task % parts));
    });
  }

  /// f(elements, how many, their place in the output) for [first, last) of a row; gathered, where they are not contiguous.
  template <class F>
  void for_blocks(const TileWalk& row, Index first, Index last, F f) const {
    alignas(64) char buffer[block * 8];
    const char* in = in_ + row.offset(0);
    char* out = out_ + row.offset(1);
    if (in_step_ == size_ && out_step_ == size_) return f(in + first * size_, last - first, out + first * size_);
    for (Index i = first; i < last; i += block) {
      const Index n = std::min(block, last - i);
      copy_tile(buffer, 0, size_, in + i * in_step_, 0, in_step_, 1, n, size_);
      f(buffer, n, out + i * out_step_);
    }
  }
  void fold(const TileWalk& row, Index first, Index last, SoftmaxTotal& total) const {
    for_blocks(row, first, last, [&](const char* in, Index n, char*) { softmax_.fold(in, n, &total); });
  }
  void finish(const TileWalk& row, Index first, Index last, const SoftmaxTotal& total) const {
    alignas(64) char buffer[block * 8];
    for_blocks(row, first, last, [&](const char* in, Index n, char* out) {
      softmax_.finish(in, n, &total, out_step_ == size_ ? out : buffer);
      if (out_step_ != size_) copy_tile(out, 0, out_step_, buffer, 0, size_, 1, n, size_);
    });
  }

  const Softmax& softmax_;
  Index size_, length_;
  Index in_step_, out_step_;  // along the axis, in bytes
  const char* in_;
  char* out_;
  Axes kept_;
};

}  // namespace

void run_softmax(const Softmax& softmax, int axis, const View& in, const View& out) {
  if (element_count(out.shape) == 0) return;
  SoftmaxLoop(softmax, static_cast<std::size_t>(axis), in, out).run();
}

}  // namespace stave_cpu
