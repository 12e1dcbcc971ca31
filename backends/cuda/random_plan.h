// What kernels of random numbers are given. Element i of an output under n numbers a key is number i % n of key i / n.
#pragma once

#include <algorithm>
#include <cstdint>

#include <stave/backends/cuda/elementwise_plan.h>

namespace stave_cuda {

/// Keys [batch..., 2] of any strides.
class KeyPlan {
 public:
  explicit KeyPlan(const View& keys)
      : words_(static_cast<const std::uint32_t*>(keys.data)), second_(keys.strides.back()),
        lead_(keys.shape.first(keys.shape.size() - 1), {keys.strides.first(keys.strides.size() - 1)}) {}
  Index count() const { return lead_.elements(); }
  const IndexPlan<1>& lead() const { return lead_; }

  /// As a kernel has them.
  struct Keys {
    const std::uint32_t* words;
    Index second;  // word, after the first
    IndexMap<1> lead;
  };
  Keys with(const IndexMap<1>& lead) const { return {words_, second_, lead}; }

 private:
  const std::uint32_t* words_;
  Index second_;
  IndexPlan<1> lead_;
};

struct FoldLoop {
  KeyPlan::Keys keys;
  const std::uint32_t* data;
  IndexMap<1> places;  // of data
  std::uint64_t elements;
  std::uint32_t* out;
};
struct DrawLoop {
  KeyPlan::Keys keys;
  std::uint64_t elements;
  Divider each;  // numbers of a key
  void* out;
  double low, high;
};

/// random_permutation sorts the rows of several keys at once: by their bits, then, stably, by their rows.
struct PermutationLoop {
  KeyPlan::Keys keys;
  std::uint64_t first_row = 0, elements = 0;
  Divider length = {};  // of a row
  int rounds_done = 0;
  std::uint32_t* key = nullptr;       // to sort by
  std::uint32_t* position = nullptr;  // of each element before the sort
  const std::uint32_t* order = nullptr;
  const std::int32_t* from = nullptr;  // the rows after the last round; null: 0, 1, ...
  std::int32_t* to = nullptr;
};
/// Rows of a pass: positions in it fit 32 bits.
inline Index rows_at_once(Index rows, Index length) {
  return std::min(rows, std::max<Index>(1, (Index{1} << 30) / length));
}

}  // namespace stave_cuda
