// Elementwise operations on a dense array and a value for each of its rows, which goes through no buffer: x / sum(x, -1, keepdims).
#pragma once

#include <optional>

#include <stave/backends/cpu/fused_tiles.h>

namespace stave_cpu {

class RowValues {
 public:
  /// None: it is not such an operation, or not one that chains have, or the rows are too short.
  static std::optional<RowValues> of(OpId op, std::span<const View> inputs, const View& out);
  /// The elements of a row, of which the value is the same.
  Index length() const { return values_.repeats(); }
  void run(Index first_row, Index end_row) const;
  /// All of them, in parts of at least about `grain` elements for each thread.
  void run_all(Index grain) const;

 private:
  RowValues(LinkCode code, const View& array, const View& values, const View& out);
  void run_piece(Index row, Index first, Index count) const;

  Source values_;
  Link links_[2];
  decltype(PreparedRegion::Step::chain) chain_;
  char *array_, *out_;
  Index n_;
};

}  // namespace stave_cpu
