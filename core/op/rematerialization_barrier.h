// Rematerialisation barriers separate code that runs again on purpose, such as a checkpoint's
// function in the backward pass, from its first run.
#pragma once

#include <stave/core/effects/settings.h>

#include <cstdint>

namespace stave_detail {

/// The number of the current rerun of a function; 0 outside of reruns. Code that shares common
/// subexpressions must not share them across barriers.
std::uint64_t current_rematerialization_barrier() noexcept;

/// Returns a number that no rerun has had before.
std::uint64_t next_rematerialization_barrier() noexcept;

/// While this object lives, the calling thread's code counts as a new rerun, or as the rerun of
/// this number.
class RematerializationBarrier {
 public:
  RematerializationBarrier() noexcept : RematerializationBarrier(next_rematerialization_barrier()) {}
  explicit RematerializationBarrier(std::uint64_t number) noexcept;
  ~RematerializationBarrier();
  RematerializationBarrier(const RematerializationBarrier&) = delete;
  RematerializationBarrier& operator=(const RematerializationBarrier&) = delete;

 private:
  const std::uint64_t saved_;
};

}  // namespace stave_detail
