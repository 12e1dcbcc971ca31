// How rows along an axis are sorted all at once: each element becomes a pair of an unsigned key, in the elements' order, and
// its place; the pairs of many rows are sorted together, by key and then, stably, by row. Where both fit into 64 bits, a key has
// the row's number above it and one sort does. Then elements, or their positions, go where their places say.
//
// So -0 and 0, which have one key, and all NaNs, which have the largest, come out as they went in: in their order.
#pragma once

#include <stave/backends/cuda/index_map.h>
#include <stave/core/backend.h>

namespace stave_cuda {

using stave::View;

/// What the kernels of sorts are given: some rows, of `count` elements in all.
struct SortArgs {
  const void* in;
  void* out;
  IndexMap<2> elements;  // of an element, the rows' axes first and the sorted one last: offsets in `in` and `out`
  Index first, count;    // elements before these rows, and in them
  std::uint32_t length;  // of a row
  int row_shift;         // where the row's number stands in a key; 0: apart, by a second sort
  std::uint64_t mask;    // exchanged bits of keys
  std::uint64_t* keys;
  std::uint32_t* values;  // places: indices within these rows
  bool wide_positions;    // argsort gives int64
};

class SortPlan {
 public:
  static constexpr Index most_in_batch = Index{1} << 26;  // elements: 24 bytes of memory for each

  /// Throws stave::Error for an axis whose places 32 bits do not hold. A batch is one row at least.
  SortPlan(const stave::SortAttributes& attributes, const View& in, const View& out, Index most = most_in_batch);

  /// Rows are sorted so many at a time, for memory's sake.
  Index batches() const { return batch_rows_ == 0 ? 0 : (rows_ + batch_rows_ - 1) / batch_rows_; }
  Index batch_elements() const { return batch_rows_ * args_.length; }
  /// The rows of a batch; `elements`, `keys` and `values` still to be set.
  SortArgs batch(Index index) const;
  const IndexPlan<2>& elements() const { return elements_; }

  /// Bits of an element's key, and of a row's number.
  int key_bits() const { return key_bits_; }
  int row_bits() const { return row_bits_; }

 private:
  SortArgs args_{};
  IndexPlan<2> elements_;
  Index rows_, batch_rows_ = 0;
  int key_bits_, row_bits_ = 0;
};

}  // namespace stave_cuda
