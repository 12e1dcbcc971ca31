// What is computed again on purpose: a checkpoint's function, in the backward pass.
#pragma once

#include <stave/core/effects/settings.h>

#include <cstdint>

namespace stave_detail {

/// Not 0 while a function runs again: one number for each time. Who shares what two operations have in common keeps those of
/// different epochs apart.
std::uint64_t current_epoch() noexcept;

/// While it stands, what runs does so again.
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
