// Parameters of the random-number kernels. If a key gives n numbers, element i of an output is
// number i % n of key i / n.
#pragma once

#include <algorithm>
#include <cstdint>

#include <stave/backends/cuda/elementwise_plan.h>

namespace stave_cuda {

/// Keys of shape [batch..., 2] and any strides.
class KeyPlan {
 public:
  explicit KeyPlan(const View& keys)
      : words_(static_cast<const std::uint32_t*>(keys.data)), second_(keys.strides.back()),
        lead_(keys.shape.first(keys.shape.size() - 1), {keys.strides.first(keys.strides.size() - 1)}) {}
  Index count() const { return lead_.elements(); }
  const IndexPlan<1>& lead() const { return lead_; }

  /// The keys as a kernel receives them.
  struct Keys {
    const std::uint32_t* words;
    Index second;  // the offset of a key's second word from its first word
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
  IndexMap<1> places;  // maps an element to its offset in `data`
  std::uint64_t elements;
  std::uint32_t* out;
};
struct DrawLoop {
  KeyPlan::Keys keys;
  std::uint64_t elements;
  Divider each;  // the number of random numbers per key
  void* out;
  double low, high;
};

/// Parameters of the random_permutation kernels. Each key permutes one row. The rows of several
/// keys are sorted together: first by random bits drawn for each element, then stably by row.
struct PermutationLoop {
  KeyPlan::Keys keys;
  std::uint64_t first_row = 0, elements = 0;
  Divider length = {};  // length of a row
  int rounds_done = 0;
  std::uint32_t* key = nullptr;       // the sort key
  std::uint32_t* position = nullptr;  // position of each element before the sort
  const std::uint32_t* order = nullptr;
  // The rows after the previous round; null in the first round, where they are 0, 1, ...
  const std::int32_t* from = nullptr;
  std::int32_t* to = nullptr;
};
/// Returns the number of rows that are sorted together, so that positions in them fit in 32 bits.
inline Index rows_at_once(Index rows, Index length) {
  return std::min(rows, std::max<Index>(1, (Index{1} << 30) / length));
}

}  // namespace stave_cuda
