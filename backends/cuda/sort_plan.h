// The plan of a sort of the rows along an axis. The rows of a batch are sorted together.
//
// Each element becomes a pair of an unsigned key, whose order is that of the elements, and its
// place, which is its index in the batch. Stable sorts of pairs by 32-bit keys sort all rows of the
// batch, least significant bits first: first by the bits of the element's key, then by the number
// of its row (in one sort if both fit). Finally each element, or its position, is moved to its
// sorted place.
//
// -0 and 0 have the same key, and all NaNs have the same key, the largest. So the sort keeps the
// order in which equal elements and NaNs occur in the input.
#pragma once

#include <stave/backends/cuda/index_map.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

using stave::View;

/// One stable sort by a key of `bits` bits. If `elements`, the low bits of the key are bits of the
/// element's key from bit `shift` on. If `rows`, the row number is in the bits above
/// `element_bits`.
struct SortPass {
  int shift = 0, bits = 0;
  bool elements = true, rows = false;
  int element_bits = 0;
  friend bool operator==(const SortPass&, const SortPass&) = default;
};

/// Parameters of the sort kernels for one batch of rows.
struct SortArgs {
  const void* in;
  void* out;
  // Maps an element to its offsets in `in` and `out`. The rows' axes come
  // first and the sorted axis last.
  IndexMap<2> elements;
  // The number of elements before the batch, and in the batch.
  Index first, count;
  std::uint32_t length;  // length of a row
  std::uint64_t mask;    // the bits to flip (XOR) in every key
  std::uint32_t* keys;
  // The place (the index in the batch) of each element, in the order that the sorts so far give.
  std::uint32_t* places;
  bool wide_positions;  // true if positions are int64, false if they are int32
};

class SortPlan {
 public:
  // The largest number of elements in a batch of several rows. An element needs 16 bytes of memory.
  static constexpr Index most_in_batch = Index{1} << 26;

  /// Throws stave::Error if positions along the axis do not fit in 32 bits. `most` is the largest
  /// number of elements in a batch, but a batch has at least one row.
  SortPlan(const stave::SortAttributes& attributes, const View& in, const View& out, Index most = most_in_batch);

  /// Returns the number of batches. Rows are sorted in batches to limit the use of memory.
  Index batches() const { return batch_rows_ == 0 ? 0 : (rows_ + batch_rows_ - 1) / batch_rows_; }
  Index batch_elements() const { return batch_rows_ * args_.length; }
  /// Returns the parameters for the rows of a batch. The caller sets
  /// `elements`, `keys` and `places`.
  SortArgs batch(Index index) const;
  const IndexPlan<2>& elements() const { return elements_; }

  /// Returns the passes in order. There are none if rows have one element.
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
