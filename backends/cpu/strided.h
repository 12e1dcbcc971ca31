// Loops over strided operands: dimensions merged where memory allows it, then walked in two-dimensional tiles.
//
// A tile is `rows` x `columns` elements of two chosen axes, small enough for the first cache. Drivers handle one tile at
// a time: they copy what is not contiguous into short buffers (copy_tile), and never make a copy of a whole operand.
// Strides are in bytes here, so that operands of different dtypes go together.
#pragma once

#include <memory>

#include <stave/core/tensor/backend.h>
#include <stave/core/tensor/small_vector.h>

namespace stave_cpu {

using stave::Index;
using stave::View;

inline constexpr int most_operands = 4;

/// One axis of a loop: its length and the step of each operand along it.
struct Axis {
  Index length = 1;
  Index step[most_operands] = {};
};
using Axes = stave::SmallVector<Axis, 6>;

/// The axes over `shape` of operands with these strides (in elements of `sizes` bytes), outermost first: those of
/// length 1 dropped, neighbours merged where every operand steps evenly across them. An empty shape gives one axis of
/// length 0.
Axes merged_axes(std::span<const Index> shape, std::span<const Index* const> strides, const Index* sizes);

/// Walks tiles: where each operand stands, and how large the tile is there.
class TileWalk {
 public:
  /// Tiles of at most rows x columns over the axes row_axis (-1: none) and the last one, along the last one first or, if
  /// `down`, along row_axis.
  TileWalk(const Axes& axes, int operands, int row_axis, Index rows, Index columns, bool down = false);
  /// How many tiles there are.
  Index count() const { return count_; }
  void seek(Index tile);
  void next();

  Index rows() const { return extent(row_digit_); }
  Index columns() const { return extent(column_digit_); }
  Index offset(int operand) const { return offset_[operand]; }

 private:
  struct Digit {
    Index position, count;  // tiles (or elements) along this axis
    Index tile, length;     // elements of a tile, and of the whole axis
    Index step[most_operands];
  };
  Index extent(int d) const {
    const Digit& digit = digits_[static_cast<std::size_t>(d)];
    Index left = digit.length - digit.position * digit.tile;
    return left < digit.tile ? left : digit.tile;
  }
  void push(const Axis& axis, Index tile);

  stave::SmallVector<Digit, 6> digits_;
  Index offset_[most_operands] = {};
  Index count_ = 1;
  int operands_, row_digit_ = 0, column_digit_ = 0;
};

/// The axis, other than the last, along which an operand in [first, operands) that does not run along the last axis is
/// densest; -1 if all run along the last axis or stand still.
int dense_axis(const Axes& axes, int first, int operands, const Index* sizes);

/// dst[r, c] = src[r, c] for elements of so many bytes as visit_size knows; past the caches where dense rows allow it and `stream` is set.
void copy_tile(char* dst, Index dst_row, Index dst_column, const char* src, Index src_row, Index src_column, Index rows,
               Index columns, Index size, bool stream = false);

/// Whether a result of so many bytes is written past the caches: it pays (measured) from these sizes on, contiguous, and in pieces
/// far apart.
bool streams(Index bytes, Index from);
inline constexpr Index stream_contiguous = Index{32} << 20, stream_scattered = Index{4} << 20;

/// Fills dst[0 .. n) with the element at `value`.
void fill_elements(void* dst, const void* value, Index n, Index size);

/// A view with strides of its own for the copies of pad and concat.
struct Placed {
  char* data;
  std::span<const Index> strides;  // in elements
};
/// dst = src elementwise, both of `shape`; dst's elements are distinct. Parallel.
void copy_strided(Placed dst, Placed src, std::span<const Index> shape, Index size);

/// A view's elements in row-major order: as they lie, or a copy.
class Dense {
 public:
  explicit Dense(const View& x);
  Dense(const Dense&) = delete;  // the view refers to the strides
  const View& view() const { return view_; }

 private:
  std::unique_ptr<char[]> copy_;
  stave::Strides strides_;
  View view_;
};

bool is_contiguous(std::span<const Index> shape, std::span<const Index> strides);
/// Lengths or strides but for those of one axis.
stave::Shape without(std::span<const Index> all, std::size_t axis);
Index element_count(std::span<const Index> shape);

}  // namespace stave_cpu
