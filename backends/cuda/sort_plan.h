// The plan of a sort of all rows along an axis at once.
//
// Each element becomes a pair of an unsigned key, which has the order of the elements, and
// its place. The pairs of many rows are sorted together by stable sorts of 32-bit keys,
// least significant bits first: first by the bits of the element's key, then by the number
// of its row (in one sort if both fit). Finally each element, or its position, is moved to
// the place that the sort gives it.
//
// -0 and 0 have the same key, and all NaNs have one key, the largest. So these keep
// the order they had in the input.
#pragma once

#include <stave/backends/cuda/index_map.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

using stave::View;

/// One stable sort. Its key is `bits` bits wide: bits of the elements' keys from `shift` on and,
/// above them, the row number; or the row number alone.
struct SortPass {
  int shift = 0, bits = 0;
  bool elements = true, rows = false;
  int element_bits = 0;
  friend bool operator==(const SortPass&, const SortPass&) = default;
};

/// Parameters of the sort kernels for some rows, which have `count` elements in all.
struct SortArgs {
  const void* in;
  void* out;
  // Maps an element to its offsets in `in` and `out`. The rows' axes come
  // first and the sorted axis last.
  IndexMap<2> elements;
  // The number of elements before these rows and in them.
  Index first, count;
  std::uint32_t length;  // length of a row
  std::uint64_t mask;    // bits of the keys that are flipped (XOR)
  std::uint32_t* keys;
  // Indices of elements within these rows, in the order so far.
  std::uint32_t* places;
  bool wide_positions;  // positions are int64
};

class SortPlan {
 public:
  static constexpr Index most_in_batch = Index{1} << 26;  // elements; each needs 16 bytes of memory

  /// Throws stave::Error if positions along the axis do not fit in 32
  /// bits. A batch has at least one row.
  SortPlan(const stave::SortAttributes& attributes, const View& in, const View& out, Index most = most_in_batch);

  /// Returns the number of batches. Rows are sorted in batches to limit the memory.
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
