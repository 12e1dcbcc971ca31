// FreeRanges: an allocator of offsets in one block of memory, so that arrays that are in use at
// different times can share a place.
#pragma once

#include <stave/core/effects/settings.h>

#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

namespace stave_detail {

/// The free ranges of a block of memory: their lengths by offset, in bytes. `take` returns the
/// offset of the smallest free range that is long enough, and enlarges the block if there is none.
class FreeRanges {
 public:
  std::size_t take(std::size_t bytes) {
    auto best = ranges_.end();
    for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
      if (range->second >= bytes && (best == ranges_.end() || range->second < best->second)) {
        best = range;
        if (range->second == bytes) break;
      }
    }
    if (best != ranges_.end()) {
      const auto [offset, length] = *best;
      ranges_.erase(best);
      if (length > bytes) ranges_.emplace(offset + bytes, length - bytes);
      return offset;
    }
    if (!ranges_.empty()) {  // a free range at the end of the block can be enlarged
      const auto last = std::prev(ranges_.end());
      if (last->first + last->second == end_) {
        const std::size_t offset = last->first;
        ranges_.erase(last);
        end_ = offset + bytes;
        return offset;
      }
    }
    return std::exchange(end_, end_ + bytes);
  }
  void give_back(std::size_t offset, std::size_t bytes) {
    if (bytes == 0) return;
    auto [at, is_new] = ranges_.emplace(offset, bytes);
    if (const auto next = std::next(at); next != ranges_.end() && offset + bytes == next->first) {
      at->second += next->second;
      ranges_.erase(next);
    }
    if (at != ranges_.begin())
      if (const auto before = std::prev(at); before->first + before->second == at->first) {
        before->second += at->second;
        ranges_.erase(at);
      }
  }
  /// The size that the block must have.
  std::size_t end() const { return end_; }

 private:
  std::map<std::size_t, std::size_t> ranges_;
  std::size_t end_ = 0;
};

}  // namespace stave_detail
