// Stacks for fibers (fiber.h). Memory is committed page by page as a stack grows, so a large size costs address space only.
//
//   guarded   a mapping of its own with an inaccessible page at the low end: an overflow faults
//   slab      many stacks in one mapping, a canary at the low end of each: an overflow is noticed at the next switch
//
// A guard splits a mapping in two, and Linux allows a process 65,530: guarded stacks alone would end near 32,000. So
// beyond `set_most_guarded_stacks` they come from slabs. Guarded ones are cached by thread, for a mapping and its first
// page faults cost several microseconds. A stack may be given back on another thread than the one that took it.
#pragma once

#include <stave/core/effects/settings.h>

#include <cstddef>

namespace stave_detail {

struct StackSlab;

struct FiberStack {
  char* low;  // the lowest usable byte
  std::size_t size;
  StackSlab* slab;  // null: guarded

  char* high() const noexcept { return low + size; }
  /// Whether the canary is untouched. Only for stacks of slabs.
  bool intact() const noexcept;
};

/// Throws std::bad_alloc.
FiberStack take_stack();
/// Terminates, saying so, if the stack has overflowed.
void give_stack(const FiberStack& stack) noexcept;
/// Gives back what this thread has cached.
void release_cached_stacks() noexcept;
[[noreturn]] void terminate_overflown(const FiberStack& stack) noexcept;

/// How many stacks of the process may have a guard page, cached ones included: 16,000, which leaves half of the mappings
/// to others. For tests.
void set_most_guarded_stacks(std::size_t count) noexcept;

}  // namespace stave_detail
