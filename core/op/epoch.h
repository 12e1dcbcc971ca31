// Rematerialisation barriers: code that is computed again on purpose, such as a checkpoint's
// function in the backward pass.
#pragma once

#include <stave/core/effects/settings.h>

#include <cstdint>

namespace stave_detail {

/// The number of the current rerun of a function; 0 outside of reruns. Code that shares common
/// subexpressions must not share them between different epochs.
std::uint64_t current_epoch() noexcept;

/// While this object lives, the code that runs belongs to a new epoch.
class Epoch {
 public:
  Epoch() noexcept;
  ~Epoch();
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

 private:
  const std::uint64_t saved_;
};

}  // namespace stave_detail
