// Stacks for fibers. Start reading at take_stack and give_stack, at the end.
#include <stave/core/effects/fiber_stack.h>

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include <stave/core/effects/error.h>
#include <stave/core/effects/fiber.h>
#include <stave/core/effects/fork.h>
#include <stave/core/effects/sanitize.h>

#if STAVE_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace stave_detail {

// A slab of 64 stacks. The doubly linked list of slabs holds the slabs with a free stack.
struct StackSlab {
  StackSlab* next;
  StackSlab* previous;
  char* low;
  std::size_t stack_size;
  std::uint64_t free;  // bit i: the stack at low + i * stack_size is free
};

namespace {

// The default size holds deep user code (printing, oneTBB, BLAS on one thread, some thousand frames
// of a recursion). 100,000 such stacks take 1/5000 of the address space. Frames that sanitizers
// instrument are larger.
constexpr std::size_t default_size = (STAVE_ASAN || STAVE_TSAN ? 1024 : 256) << 10;
constexpr std::size_t least_size = 32 << 10, most_size = std::size_t{1} << 30;
// A guard takes only address space, so it is wide enough for functions with large arrays,
// which may step over a single page. Stacks are an odd number of pages apart, or they would compete
// for a few entries of the TLB.
constexpr std::size_t guard_bytes = 68 << 10;
// The canary is memory as the kernel gave it: zeros. Reading it commits no memory, while any other
// pattern would commit a page per stack.
constexpr std::size_t canary_bytes = 256;
constexpr unsigned most_cached = 256;  // per thread
constexpr std::size_t slab_stacks = 64;

constinit std::atomic<std::size_t> stack_size{default_size};
constinit std::atomic<std::size_t> most_guarded{16000};
// The number of guarded stacks that are mapped now, cached ones included.
constinit std::atomic<std::size_t> guarded{0};

// ---- memory -------------------------------------------------------------------------------------

/// Maps `bytes` of memory above a guard; null if there is no memory. The mapping never uses huge
/// pages, which would commit 2 MiB at once.
char* map_above_guard(std::size_t bytes) noexcept {
  void* memory = mmap(nullptr, guard_bytes + bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, guard_bytes + bytes, MADV_NOHUGEPAGE);
  if (mprotect(memory, guard_bytes, PROT_NONE) == 0) return static_cast<char*>(memory) + guard_bytes;
  munmap(memory, guard_bytes + bytes);
  return nullptr;
}
void unmap(char* low, std::size_t bytes) noexcept { munmap(low - guard_bytes, guard_bytes + bytes); }

// A free stack is poisoned, so that ASan finds a pointer into a stack that ended.
// `unpoison` also removes poison that abandoned frames left behind.
void poison([[maybe_unused]] char* low, [[maybe_unused]] std::size_t bytes) noexcept {
#if STAVE_ASAN
  ASAN_POISON_MEMORY_REGION(low, bytes);
#endif
}
void unpoison([[maybe_unused]] const FiberStack& stack) noexcept {
#if STAVE_ASAN
  ASAN_UNPOISON_MEMORY_REGION(stack.low, stack.size);
#endif
}

// ---- guarded stacks -----------------------------------------------------------------------------

bool map_guarded(FiberStack& stack) noexcept {
  if (guarded.fetch_add(1, std::memory_order_relaxed) < most_guarded.load(std::memory_order_relaxed)) {
    stack.low = map_above_guard(stack.size);
    if (stack.low) return true;
  }
  guarded.fetch_sub(1, std::memory_order_relaxed);
  return false;
}
void unmap_guarded(const FiberStack& stack) noexcept {
  unpoison(stack);
  unmap(stack.low, stack.size);
  guarded.fetch_sub(1, std::memory_order_relaxed);
}

// An entry of the cache, stored at the high end of the cached stack, in the page that every fiber
// has touched.
struct CachedStack {
  CachedStack* next;
  FiberStack stack;
};

// This type is trivially destructible, because fibers may be thread-local or global objects and may
// end after all other objects.
struct Cache {
  CachedStack* first;
  unsigned count;
  bool guarded;  // the thread's end will empty this cache
  bool closed;   // the thread's end has emptied it
};
constinit thread_local Cache cache{};

FiberStack pop_cached() noexcept {
  const FiberStack stack = cache.first->stack;
  cache.first = cache.first->next;
  --cache.count;
  unpoison(stack);
  return stack;
}
void push_cached(const FiberStack& stack) noexcept {
  cache.first = new (stack.high() - sizeof(CachedStack)) CachedStack{cache.first, stack};
  ++cache.count;
  poison(stack.low, stack.size - sizeof(CachedStack));
}

struct EmptyCacheAtThreadEnd {
  ~EmptyCacheAtThreadEnd() {
    cache.closed = true;
    release_cached_stacks();
  }
};
[[gnu::noinline]] void guard_cache() {
  static thread_local EmptyCacheAtThreadEnd guard;
  static_cast<void>(guard);
  cache.guarded = true;
}

// ---- slabs --------------------------------------------------------------------------------------

constexpr std::uint64_t all_free = ~std::uint64_t{0};
static_assert(slab_stacks == 64);

constinit std::mutex slab_mutex;
const HeldOverFork<slab_mutex> held_over_fork;
constinit StackSlab* slabs = nullptr;

void link(StackSlab* slab) noexcept {
  slab->next = slabs;
  slab->previous = nullptr;
  if (slabs) slabs->previous = slab;
  slabs = slab;
}
void unlink(StackSlab* slab) noexcept {
  (slab->previous ? slab->previous->next : slabs) = slab->next;
  if (slab->next) slab->next->previous = slab->previous;
}

StackSlab* slab_with_free_stack(std::size_t size) {
  for (StackSlab* slab = slabs; slab; slab = slab->next)
    if (slab->stack_size == size) return slab;
  auto slab = std::make_unique<StackSlab>();
  slab->low = map_above_guard(slab_stacks * size);
  if (!slab->low) throw std::bad_alloc();
  slab->stack_size = size;
  slab->free = all_free;
  link(slab.get());
  return slab.release();
}

FiberStack take_from_slab(std::size_t size) {
  std::lock_guard lock(slab_mutex);
  StackSlab* slab = slab_with_free_stack(size);
  const int index = std::bit_width(slab->free) - 1;
  slab->free &= ~(std::uint64_t{1} << index);
  if (!slab->free) unlink(slab);
  const FiberStack stack{slab->low + static_cast<std::size_t>(index) * size, size, slab};
  unpoison(stack);
  return stack;
}

void give_to_slab(const FiberStack& stack) noexcept {
  if (!stack.intact()) terminate_overflown(stack);
  StackSlab* const slab = stack.slab;
  poison(stack.low, stack.size);
  std::lock_guard lock(slab_mutex);
  if (!slab->free) link(slab);
  slab->free |= std::uint64_t{1} << (static_cast<std::size_t>(stack.low - slab->low) / slab->stack_size);
  if (slab->free != all_free || (slabs == slab && !slab->next)) return;  // one empty slab is kept
  unlink(slab);
  unpoison({slab->low, slab_stacks * slab->stack_size, nullptr});
  unmap(slab->low, slab_stacks * slab->stack_size);
  delete slab;
}

[[gnu::noinline]] FiberStack make_stack(std::size_t size) {
  FiberStack stack{nullptr, size, nullptr};
  return map_guarded(stack) ? stack : take_from_slab(size);
}

}  // namespace

bool FiberStack::intact() const noexcept {
  std::uint64_t words[canary_bytes / sizeof(std::uint64_t)], damage = 0;
  std::memcpy(words, low, sizeof words);
  for (std::uint64_t word : words) damage |= word;
  return damage == 0;
}

void terminate_overflown(const FiberStack& stack) noexcept {
  std::fprintf(stderr,
               "stave: a fiber has overflowed its stack of %zu bytes and overwritten what lies below: recurse less "
               "deeply, or enlarge the stacks with set_fiber_stack_size\n",
               stack.size);
  std::terminate();
}

FiberStack take_stack() {
  const std::size_t size = stack_size.load(std::memory_order_relaxed);
  while (cache.first) {
    const FiberStack stack = pop_cached();
    if (stack.size == size) return stack;
    unmap_guarded(stack);
  }
  return make_stack(size);
}

void give_stack(const FiberStack& stack) noexcept {
  if (stack.slab) return give_to_slab(stack);
  if (cache.closed || cache.count >= most_cached) return unmap_guarded(stack);
  if (!cache.guarded) guard_cache();
  push_cached(stack);
}

void release_cached_stacks() noexcept {
  while (cache.first) unmap_guarded(pop_cached());
}

void set_most_guarded_stacks(std::size_t count) noexcept { most_guarded.store(count, std::memory_order_relaxed); }

void set_fiber_stack_size(std::size_t bytes) {
  if (bytes < least_size || bytes > most_size)
    throw stave::Error("set_fiber_stack_size: " + std::to_string(bytes) + " bytes; a stack takes between " +
                       std::to_string(least_size) + " and " + std::to_string(most_size));
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  stack_size.store((bytes + page - 1) / page * page, std::memory_order_relaxed);
}

}  // namespace stave_detail
