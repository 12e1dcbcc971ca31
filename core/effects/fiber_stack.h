// Stacks for fibers (fiber.h). Memory is committed page by page as a stack grows, so a large size
// costs only address space.
//
//   guarded   The stack has a mapping of its own with inaccessible pages at the low end:
//             an overflow faults.
//   slab      Many stacks share one mapping, with a canary at the low end of each: an overflow is
//             noticed at the next switch.
//
// A guard splits a mapping in two, and Linux allows a process 65,530 mappings: with guarded stacks
// alone the limit would be near 32,000. So stacks beyond `set_most_guarded_stacks` come from slabs.
// Each thread caches guarded stacks, because a mapping and its first page faults cost several
// microseconds. A stack may be given back on another thread than the one that took it.
#pragma once

#include <stave/core/effects/settings.h>

#include <cstddef>

namespace stave_detail {

struct StackSlab;

struct FiberStack {
  char* low;  // the lowest usable byte
  std::size_t size;
  StackSlab* slab;  // null: the stack is guarded

  char* high() const noexcept { return low + size; }
  /// Returns true if the canary is untouched. May be called only for stacks that lie in a slab.
  bool intact() const noexcept;
};

/// Returns a stack of the size that set_fiber_stack_size set. Throws std::bad_alloc.
FiberStack take_stack();
/// Gives a stack back. Terminates with a message if it has overflowed.
void give_stack(const FiberStack& stack) noexcept;
/// Frees the stacks that this thread has cached.
void release_cached_stacks() noexcept;
[[noreturn]] void terminate_overflown(const FiberStack& stack) noexcept;

/// Sets how many stacks of the process, cached ones included, may have a guard. The default
/// is 16,000, which leaves half of the mappings to other code. Only tests call this.
void set_most_guarded_stacks(std::size_t count) noexcept;

}  // namespace stave_detail
