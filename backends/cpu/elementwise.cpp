// Runs elementwise kernels on whole operands. There are three paths. The fastest one is for
// contiguous operands. The second one is for operands that are contiguous, one repeated value or
// short rows. The third one divides strided operands into tiles.
#include <stave/backends/cpu/elementwise.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::size_of;
using stave::View;

namespace {

constexpr int most_inputs = most_operands - 1;
constexpr Index block_bytes = 8192;  // The size of a buffer. The L1 cache holds several buffers.
constexpr Index most_block = 1024;   // the largest number of elements of a block

/// The operands of a call. Operand 0 is the output, the others are the inputs.
struct Operands {
  int count = 1;
  bool in_place = false;
  char* data[most_operands] = {};
  Index size[most_operands];
  // True if the operand is one value that is repeated for all elements.
  bool repeated[most_operands] = {};

  /// The number of elements that fit into a buffer, for every operand.
  Index block() const { return std::min(most_block, block_bytes / *std::max_element(size, size + count)); }
};

/// Computes n consecutive elements. If `stream` is true, the results are written with non-temporal
/// stores, in bursts of 256 bytes. With longer bursts, memory would be read and written alternately
/// instead of simultaneously (measured on Zen 5: bursts of 256 bytes take four fifths of the time
/// of bursts of 4 KiB).
void compute(BlockKernel kernel, const Operands& operands, char* out, const void* const* in, Index n, bool stream) {
  if (!stream) return kernel(out, in, n);
  constexpr Index line = 64, burst = 4 * line;
  alignas(line) char results[burst];
  Index size = operands.size[0];
  for (Index i = 0, count; i < n; i += count) {
    char* to = out + i * size;
    count = std::min(n - i, (burst - static_cast<Index>(reinterpret_cast<std::uintptr_t>(to) % line)) / size);
    const void* from[most_inputs];
    for (int k = 1; k < operands.count; ++k) from[k - 1] = static_cast<const char*>(in[k - 1]) + i * operands.size[k];
    kernel(results, from, count);
    kernels().stream_bytes(to, results, count * size);
  }
}

/// For each operand: its reader, unless it is contiguous or one repeated value.
using ShortRowReaders = std::array<std::optional<StridedReader>, most_operands>;

/// Runs a kernel on operands that are contiguous, one repeated value, or read by a reader. For a
/// repeated value, each part of the loop fills a buffer with copies of the value.
void run_flat(BlockKernel kernel, const Operands& operands, const ShortRowReaders& readers, Index n, Index grain,
              bool by_blocks) {
  Index size = operands.size[0];
  const Index block = operands.block();
  const bool stream = !operands.in_place && streams(n * size, stream_contiguous);
  parallel_for(n, grain, [&](Index first, Index last) {
    alignas(64) char buffers[most_inputs][block_bytes];
    const void* in[most_inputs];
    ShortRowReaders own = readers;
    for (int k = 1; k < operands.count; ++k)
      if (operands.repeated[k]) {
        fill_elements(buffers[k - 1], operands.data[k], std::min(block, last - first), operands.size[k]);
        in[k - 1] = buffers[k - 1];
      }
    Index step = by_blocks ? block : last - first;
    for (Index i = first; i < last; i += step) {
      const Index count = std::min(step, last - i);
      for (int k = 1; k < operands.count; ++k)
        if (auto& reader = own[static_cast<std::size_t>(k)]) in[k - 1] = reader->read(i, count, buffers[k - 1]);
        else if (!operands.repeated[k]) in[k - 1] = operands.data[k] + i * operands.size[k];
      compute(kernel, operands, operands.data[0] + i * size, in, count, stream);
    }
    if (stream) kernels().end_streams();
  });
}

// Up to this number of elements, planning a loop over tiles costs more than the arithmetic.
constexpr Index small_count = 256;

/// Copies a small strided operand into a contiguous buffer.
void gather(char* to, const View& from, Index size) {
  const auto rank = from.shape.size();
  const Index columns = rank > 0 ? from.shape[rank - 1] : 1, rows = rank > 1 ? from.shape[rank - 2] : 1;
  const Index column_step = rank > 0 ? from.strides[rank - 1] * size : 0;
  const Index row_step = rank > 1 ? from.strides[rank - 2] * size : 0;
  const char* at = static_cast<const char*>(from.data);
  Index position[8] = {};
  for (Index outer = rank > 2 ? element_count(from.shape.first(rank - 2)) : 1; outer > 0; --outer) {
    copy_tile(to, columns * size, size, at, row_step, column_step, rows, columns, size);
    to += rows * columns * size;
    for (std::size_t axis = rank - 2; rank > 2 && axis-- > 0;) {
      at += from.strides[axis] * size;
      if (++position[axis] < from.shape[axis]) break;
      // The position along this axis goes back to 0, and the next axis advances.
      at -= from.strides[axis] * size * std::exchange(position[axis], 0);
    }
  }
}

/// Runs a kernel on few elements; strided operands are copied first.
void run_small(BlockKernel kernel, const Operands& operands, std::span<const View> inputs, Index n) {
  alignas(64) char buffers[most_inputs][small_count * widest_element];
  const void* in[most_inputs];
  for (int k = 1; k < operands.count; ++k) {
    const View& input = inputs[static_cast<std::size_t>(k - 1)];
    in[k - 1] = operands.data[k];
    if (is_contiguous(input.shape, input.strides)) continue;
    if (operands.repeated[k]) fill_elements(buffers[k - 1], operands.data[k], n, operands.size[k]);
    else gather(buffers[k - 1], input, operands.size[k]);
    in[k - 1] = buffers[k - 1];
  }
  kernel(operands.data[0], in, n);
}

/// Returns readers for operands with short rows, or nothing if a loop over tiles is better: if rows
/// are long, if a tile would be transposed, or if an input repeats the same rows, of which a tile's
/// buffer then serves many tiles.
std::optional<ShortRowReaders> readers_of_short_rows(const Operands& operands, const Axes& axes) {
  constexpr Index most_columns = 32;
  const std::size_t last = axes.size() - 1;
  if (last == 0 || axes[last].length >= most_columns || dense_axis(axes, 1, operands.count, operands.size) >= 0)
    return std::nullopt;
  ShortRowReaders readers;
  for (int k = 0; k < operands.count; ++k) {
    Index dense = operands.size[k];
    bool is_dense = true;
    for (std::size_t a = axes.size(); a-- > 0; dense *= axes[a].length) is_dense &= axes[a].step[k] == dense;
    if (is_dense || operands.repeated[k]) continue;
    if (k == 0 || axes[0].step[k] == 0) return std::nullopt;
    readers[static_cast<std::size_t>(k)].emplace(operands.data[k], axes, k, operands.size[k]);
  }
  return readers;
}

/// A loop over tiles. An input is read in place if its rows are dense, and otherwise copied into a
/// buffer. The output is also computed into a buffer if its rows are too short for one kernel call
/// per row.
class TiledLoop {
 public:
  TiledLoop(BlockKernel kernel, const Operands& operands, const Axes& axes)
      : kernel_(kernel), operands_(operands), axes_(axes), inner_(static_cast<int>(axes.size()) - 1) {
    row_axis_ = dense_axis(axes, 1, operands.count, operands.size);
    bool transposing = row_axis_ >= 0;
    const Index block = operands.block();
    columns_ = std::min<Index>(axes.back().length, transposing ? 64 : block);
    if (!transposing) row_axis_ = companion_axis();
    Index widest = *std::max_element(operands.size, operands.size + operands.count);
    // A tile to transpose is larger, so that both operands are read and written in long runs.
    Index most = transposing ? tile_bytes / widest : block;
    if (row_axis_ >= 0) rows_ = std::min(axes[static_cast<std::size_t>(row_axis_)].length, most / columns_);
    Index bytes = operands.size[0];
    for (const Axis& axis : axes) bytes *= axis.length;
    stream_ = !operands.in_place && streams(bytes, transposing ? stream_scattered : stream_contiguous);
    down_ = transposing;
    whole_ = rows_ == 1 || (columns_ == axes.back().length && row_step(0) == columns_ * operands.size[0]);
    by_rows_ = !whole_ && columns_ >= 32 && !(transposing && stream_);
  }

  void run(Index grain) const {
    TileWalk tiles(axes_, operands_.count, row_axis_, rows_, columns_, down_);
    parallel_for(tiles.count(), std::max<Index>(1, grain / (rows_ * columns_)), [&](Index first, Index last) {
      TileWalk walk = tiles;
      Buffers buffers;
      walk.seek(first);
      for (Index t = first; t < last; ++t, walk.next()) run_tile(walk, buffers);
      if (stream_) kernels().end_streams();
    });
  }

 private:
  static constexpr Index tile_bytes = 2 * block_bytes;
  struct Buffers {
    alignas(64) char bytes[most_operands][tile_bytes];
    // The row whose copies fill the buffer: its address and its number of columns.
    const char* holds[most_operands] = {};
    Index columns[most_operands] = {};
  };
  /// Returns the row axis of a tile, whose column axis is the innermost one. It is the axis before
  /// the innermost one, or the longest axis if tiles would otherwise be too small. Returns -1 if
  /// there is none.
  int companion_axis() const {
    int axis = inner_ - 1;
    auto length = [&](int a) { return axes_[static_cast<std::size_t>(a)].length; };
    if (axis < 0 || length(axis) * columns_ >= 128) return axis;
    for (int a = 0; a < inner_; ++a)
      if (length(a) > length(axis)) axis = a;
    return axis;
  }
  Index row_step(int k) const { return row_axis_ < 0 ? 0 : axes_[static_cast<std::size_t>(row_axis_)].step[k]; }
  Index column_step(int k) const { return axes_.back().step[k]; }

  /// Returns the address from which the kernel reads operand k's rows, and sets `step`
  /// to the distance between the rows.
  const char* rows_of(int k, const TileWalk& walk, Buffers& buffers, Index& step) const {
    const char* at = operands_.data[k] + walk.offset(k);
    Index size = operands_.size[k], rows = walk.rows(), columns = walk.columns();
    bool dense = column_step(k) == size;
    if (dense && (by_rows_ || rows == 1 || row_step(k) == columns * size)) {
      step = row_step(k);
      return at;
    }
    char* buffer = buffers.bytes[k];
    step = columns * size;
    if (row_step(k) != 0) {
      copy_tile(buffer, step, size, at, row_step(k), column_step(k), rows, columns, size);
    } else if (buffers.holds[k] != at ||
               // A buffer repeats one row for all rows of a tile. The previous tile often had the
               // same row.
               buffers.columns[k] != columns) {
      if (column_step(k) == 0) fill_elements(buffer, at, rows_ * columns, size);
      else copy_tile(buffer, step, size, at, 0, column_step(k), rows_, columns, size);
      buffers.holds[k] = at;
      buffers.columns[k] = columns;
    }
    return buffer;
  }

  void run_tile(const TileWalk& walk, Buffers& buffers) const {
    const void* in[most_inputs];
    Index step[most_inputs];
    for (int k = 1; k < operands_.count; ++k) in[k - 1] = rows_of(k, walk, buffers, step[k - 1]);
    char* out = operands_.data[0] + walk.offset(0);
    Index rows = walk.rows(), columns = walk.columns(), size = operands_.size[0];
    if (whole_) return compute(kernel_, operands_, out, in, rows * columns, stream_);
    if (!by_rows_) {
      kernel_(buffers.bytes[0], in, rows * columns);
      return copy_tile(out, row_step(0), size, buffers.bytes[0], columns * size, size, rows, columns, size,
                       stream_ && down_);
    }
    for (Index r = 0; r < rows; ++r) {
      compute(kernel_, operands_, out + r * row_step(0), in, columns, stream_);
      for (int k = 1; k < operands_.count; ++k) in[k - 1] = static_cast<const char*>(in[k - 1]) + step[k - 1];
    }
  }

  BlockKernel kernel_;
  const Operands& operands_;
  const Axes& axes_;
  int inner_, row_axis_;
  Index rows_ = 1, columns_ = 1;
  // whole_: the output's tile is contiguous. by_rows_: the kernel is called once for each row.
  bool whole_, by_rows_;
  // stream_: the output is written with non-temporal stores. down_: consecutive tiles follow
  // each other along row_axis_.
  bool stream_, down_;
};

}  // namespace

void run_elementwise(BlockKernel kernel, std::span<const View> inputs, const View& out, Index grain) {
  Index sizes[most_operands] = {static_cast<Index>(size_of(out.dtype))};
  for (std::size_t k = 0; k < inputs.size(); ++k) sizes[k + 1] = static_cast<Index>(size_of(inputs[k].dtype));
  run_elementwise_sized(kernel, inputs, out, sizes, grain);
}

void run_elementwise_sized(BlockKernel kernel, std::span<const View> inputs, const View& out, const Index* sizes,
                           Index grain) {
  Operands operands;
  operands.data[0] = static_cast<char*>(out.data);
  operands.size[0] = sizes[0];
  bool all_contiguous = true, simple = true;
  for (const View& input : inputs) {
    int k = operands.count++;
    operands.data[k] = static_cast<char*>(input.data);
    operands.size[k] = sizes[k];
    operands.in_place |= input.data == out.data;
    if (is_contiguous(out.shape, input.strides)) continue;
    all_contiguous = false;
    operands.repeated[k] = is_repeated(out.shape, input.strides);
    simple &= operands.repeated[k];
  }
  Index n = element_count(out.shape);
  if (n == 0) return;
  if (all_contiguous && n <= grain) {
    const void* in[] = {operands.data[1], operands.data[2], operands.data[3]};
    return kernel(operands.data[0], in, n);
  }
  if (n <= small_count && out.shape.size() <= 8) return run_small(kernel, operands, inputs, n);
  if (simple) return run_flat(kernel, operands, {}, n, grain, !all_contiguous);

  const Index* strides[most_operands] = {out.strides.data()};
  for (std::size_t k = 0; k < inputs.size(); ++k) strides[k + 1] = inputs[k].strides.data();
  Axes axes = merged_axes(out.shape, std::span<const Index* const>(strides, inputs.size() + 1), operands.size);
  if (const auto readers = readers_of_short_rows(operands, axes))
    return run_flat(kernel, operands, *readers, n, grain, true);
  TiledLoop(kernel, operands, axes).run(grain);
}

}  // namespace stave_cpu
