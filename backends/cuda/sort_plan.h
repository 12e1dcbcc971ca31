// How rows along an axis are sorted all at once: each element becomes a pair of an unsigned key, in the elements' order, and
// its place; the pairs of many rows are sorted together by stable sorts of 32-bit keys, the least significant bits first: those
// of the element's key, then the number of its row (in one sort, where both fit). Then elements, or their positions, go where
// their places say.
//
// So -0 and 0, which have one key, and all NaNs, which have the largest, come out as they went in: in their order.
#pragma once

#include <stave/backends/cuda/index_map.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

using stave::View;

/// One stable sort: by `bits` bits of elements' keys from `shift` on and, above them, of the number of the row; or by that alone.
struct SortPass {
  int shift = 0, bits = 0;
  bool elements = true, rows = false;
  int element_bits = 0;
  friend bool operator==(const SortPass&, const SortPass&) = default;
};

/// What the kernels of sorts are given: some rows, of `count` elements in all.
struct SortArgs {
  const void* in;
  void* out;
  IndexMap<2> elements;  // of an element, the rows' axes first and the sorted one last: offsets in `in` and `out`
  Index first, count;    // elements before these rows, and in them
  std::uint32_t length;  // of a row
  std::uint64_t mask;    // exchanged bits of keys
  std::uint32_t* keys;
  std::uint32_t* places;  // indices within these rows, in the order so far
  bool wide_positions;    // argsort gives int64
};

class SortPlan {
 public:
  static constexpr Index most_in_batch = Index{1} << 26;  // elements: 16 bytes of memory for each

  /// Throws stave::Error for an axis whose places 32 bits do not hold. A batch is one row at least.
  SortPlan(const stave::SortAttributes& attributes, const View& in, const View& out, Index most = most_in_batch);

  /// Rows are sorted so many at a time, for memory's sake.
  Index batches() const { return batch_rows_ == 0 ? 0 : (rows_ + batch_rows_ - 1) / batch_rows_; }
  Index batch_elements() const { return batch_rows_ * args_.length; }
  /// The rows of a batch; `elements`, `keys` and `places` still to be set.
  SortArgs batch(Index index) const;
  const IndexPlan<2>& elements() const { return elements_; }

  /// In turn. None where rows have one element.
  std::span<const SortPass> passes() const { return {passes_, pass_count_}; }

 private:
  void choose_passes(int key_bits, int row_bits);

  SortArgs args_{};
  IndexPlan<2> elements_;
  Index rows_, batch_rows_ = 0;
  SortPass passes_[3];
  std::size_t pass_count_ = 0;
};

}  // namespace stave_cuda
