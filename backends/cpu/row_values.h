// Elementwise operations on a dense array and one value per row, such as x / sum(x, -1, keepdims).
// Chains (kernels/chain.h) read the row's value as a number, which is not expanded to an array.
#pragma once

#include <optional>

#include <stave/backends/cpu/fused_tiles.h>

namespace stave_cpu {

class RowValues {
 public:
  /// Returns std::nullopt if the operation has another form, if chains do not support it, or if the
  /// rows are too short.
  static std::optional<RowValues> of(OpId op, std::span<const View> inputs, const View& out);
  /// The number of elements of a row. One value applies to all of them.
  Index length() const { return values_.repeats(); }
  void run(Index first_row, Index end_row) const;
  /// Computes all rows. The work is divided among threads in parts of at least about `grain`
  /// elements.
  void run_all(Index grain) const;

 private:
  RowValues(LinkCode code, const View& array, const View& values, const View& out);
  void run_piece(Index row, Index first, Index count) const;

  Readers readers_;
  Source values_;
  Link links_[2];
  decltype(PreparedRegion::Step::chain) chain_;
  char *array_, *out_;
  Index n_;
};

}  // namespace stave_cpu
