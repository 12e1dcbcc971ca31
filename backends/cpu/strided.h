// Loops over strided operands. Axes are merged where the memory layout allows it,
// and then visited in two-dimensional tiles.
//
// A tile is `rows` x `columns` elements of two chosen axes, small enough for the L1 cache. The code
// of an operation processes one tile at a time. It copies operands that are not contiguous tile by
// tile into short buffers (copy_tile), and never copies a whole operand. Steps along axes are in
// bytes, so that operands may have different dtypes.
#pragma once

#include <cstdlib>
#include <memory>

#include <stave/core/tensor/backend.h>
#include <stave/core/tensor/small_vector.h>

namespace stave_cpu {

using stave::Index;
using stave::View;

inline constexpr int most_operands = 4;
/// The bytes of the largest element, that of complex128.
inline constexpr Index widest_element = sizeof(stave::Bytes16);

/// Returns whether an operand of these strides is a single value, repeated for all elements.
inline bool is_repeated(std::span<const Index> shape, std::span<const Index> strides) {
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (strides[i] != 0 && shape[i] != 1) return false;
  return true;
}

/// One axis of a loop: its length and the step of each operand along it.
struct Axis {
  Index length = 1;
  Index step[most_operands] = {};
};
using Axes = stave::SmallVector<Axis, 6>;

/// Returns the loop axes over `shape`, outermost first, for operands with these strides, which are
/// in elements of `sizes` bytes. Axes of length 1 are dropped. Two neighbouring axes are merged if
/// a single step per operand visits the elements of both. If the shape has no elements, the result
/// is one axis of length 0.
Axes merged_axes(std::span<const Index> shape, std::span<const Index* const> strides, const Index* sizes);

/// An iterator over tiles, which gives the offset of each operand and the size of the current tile.
class TileWalk {
 public:
  /// Makes tiles of at most rows x columns over row_axis and the last axis; row_axis is -1 for
  /// tiles of one row. Consecutive tiles follow each other along the last axis or, if `down`, along
  /// row_axis.
  TileWalk(const Axes& axes, int operands, int row_axis, Index rows, Index columns, bool down = false);
  /// The number of tiles.
  Index count() const { return count_; }
  void seek(Index tile);
  void next();

  Index rows() const { return extent(row_digit_); }
  Index columns() const { return extent(column_digit_); }
  Index offset(int operand) const { return offset_[operand]; }

 private:
  struct Digit {
    Index position, count;  // Position and number of tiles (or elements) along this axis.
    Index tile, length;     // Elements of a tile, and of the whole axis.
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

/// Finds the first of operands [first, operands) whose smallest step is along another axis than the
/// last one, and returns that axis. Returns -1 if every operand is dense along the last axis,
/// constant along it, or has its smallest step there.
int dense_axis(const Axes& axes, int first, int operands, const Index* sizes);

/// Copies a tile: dst[r, c] = src[r, c] for elements of a size that visit_size supports.
/// If `stream` is true, the copy uses non-temporal stores, which bypass the caches, for dense rows.
void copy_tile(char* dst, Index dst_row, Index dst_column, const char* src, Index src_row, Index src_column, Index rows,
               Index columns, Index size, bool stream = false);

/// Returns true if a result of `bytes` bytes should be written with non-temporal stores, which
/// bypass the caches: if it has at least `from` bytes, and the instruction set has such stores.
/// Such stores pay (measured) from `stream_contiguous` bytes on for contiguous writes, and from
/// `stream_scattered` bytes on for pieces that are far apart.
bool streams(Index bytes, Index from);
inline constexpr Index stream_contiguous = Index{32} << 20, stream_scattered = Index{4} << 20;

/// Sets dst[0 .. n) to the element at `value`.
void fill_elements(void* dst, const void* value, Index n, Index size);

/// Reads a strided operand in row-major order, piece by piece, as dense elements.
class StridedReader {
 public:
  /// A reader of operand `operand` of a loop over `axes`, of which there is at least one. `data` is
  /// the address of the operand's first element.
  StridedReader(const char* data, const Axes& axes, int operand, Index size);
  /// Returns elements first, ..., first + count - 1: in place if they are dense in one row, or else
  /// copied into `buffer`. A piece that follows the piece read before needs no search.
  const char* read(Index first, Index count, char* buffer);
  /// Returns the address of an element.
  const char* element(Index position) const;
  /// Returns true if less than half of the memory that the rows span belongs to them.
  bool is_sparse() const { return std::abs(outer_[0].step) > 2 * block_ * length_ * size_; }

 private:
  struct Digit {
    Index position, length, step;
  };
  // Outer axes of fewer positions are part of a block.
  static constexpr Index many_rows = 16, most_offsets = 128;
  void repeat_offsets(Index count, Index step);
  void seek(Index first);
  void pass(Index rows);
  const char* row() const { return start_ + offsets_[static_cast<std::size_t>(row_)]; }
  template <class T>
  char* read_columns(char* to, Index count);
  template <class T>
  char* read_rows(char* to, Index rows);

  const char *data_, *start_;   // The addresses of the first element and of the current block.
  Index size_, length_, step_;  // The last axis: its length, and the step along it in bytes.
  // The next element: its position in the operand, in its row, and its row in the block. A block is
  // the rows of the innermost outer axes, if these are short.
  Index next_ = 0, column_ = 0, row_ = 0, block_ = 1;
  stave::SmallVector<Index, 1> offsets_;  // The offsets of rows from a block's start, in bytes.
  stave::SmallVector<Digit, 4> outer_;    // The axes around a block, innermost first; at least one.
};

/// An operand of a strided copy: the address of the first element, and the strides.
struct Placed {
  char* data;
  std::span<const Index> strides;  // in elements
};
/// Copies elements in parallel: dst = src, both of `shape`. The elements of dst are distinct.
void copy_strided(Placed dst, Placed src, std::span<const Index> shape, Index size);

/// A view's elements in row-major order: the view itself if it is contiguous, or else a copy.
class Dense {
 public:
  explicit Dense(const View& x);
  Dense(const Dense&) = delete;  // The view refers to the strides, which are members.
  const View& view() const { return view_; }

 private:
  std::unique_ptr<char[]> copy_;
  stave::Strides strides_;
  View view_;
};

bool is_contiguous(std::span<const Index> shape, std::span<const Index> strides);
/// Returns lengths or strides without those of one axis.
stave::Shape without(std::span<const Index> all, std::size_t axis);
Index element_count(std::span<const Index> shape);

}  // namespace stave_cpu
