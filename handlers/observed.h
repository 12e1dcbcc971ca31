// How an observer outside of grad knows of which operation of the function a backward pass performs the derivative.
//
// An observer numbers the operations that it sees. A tape remembers, with what it records of an operation, the number that the last
// operation below it was given; its backward pass says that number while it performs the operation's rule. All on one thread. Where
// nobody observes, both numbers stay 0.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <stave/core/effects/settings.h>

namespace stave_detail {

struct ObservedOperations {
  std::uint64_t last = 0;     // the operation that ended last
  std::uint64_t forward = 0;  // the operation whose rule is being performed; 0: none that was observed
};
inline constinit thread_local ObservedOperations observed_operations;

/// A number that no operation has: later ones are greater.
inline std::uint64_t next_observed_number() {
  static constinit std::atomic<std::uint64_t> numbers{0};
  return ++numbers;
}

/// While it stands, the rule of this operation is performed.
class ForwardOperation {
 public:
  explicit ForwardOperation(std::uint64_t number) noexcept
      : outer_(std::exchange(observed_operations.forward, number)) {}
  ~ForwardOperation() { observed_operations.forward = outer_; }
  ForwardOperation(const ForwardOperation&) = delete;
  ForwardOperation& operator=(const ForwardOperation&) = delete;

 private:
  const std::uint64_t outer_;
};

}  // namespace stave_detail
