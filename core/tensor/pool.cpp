// The memory pool. Start with `pool_allocate` and `pool_free`, at the end.
#include <stave/core/tensor/pool.h>

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>

#include <stave/core/effects/fork.h>
#include <stave/core/effects/sanitize.h>

namespace stave_detail {
namespace {

// Under a sanitizer there is no pool, so that the sanitizer sees each allocation.
constexpr bool pooling = !STAVE_ASAN && !STAVE_TSAN;

constexpr std::size_t granule = 16;
constexpr std::size_t largest = 256;
constexpr std::size_t sizes = largest / granule + 1;
constexpr std::uint32_t chain_length = 256;  // the number of blocks in a full chain

// ---- slabs: where blocks come from --------------------------------------------------------------

constexpr std::size_t slab_bytes = 64 << 10;
constexpr std::size_t region_bytes = 16 * slab_bytes;  // bytes requested from the system at once

/// The header of a slab of blocks of one size. A slab is aligned to slab_bytes, so a block's
/// address gives its slab.
struct Slab {
  std::uint32_t blocks;
  std::uint32_t free;   // the number of free blocks; valid only while memory is released
  Slab* next_to_unmap;  // links the slabs that are returned to the system
};
constexpr std::size_t slab_header = 64;
static_assert(sizeof(Slab) <= slab_header);

/// A block in a free list, which links to the next one.
struct FreeBlock {
  FreeBlock* next;
};
/// A chain of free blocks: its first block links to the next chain.
struct ChainHead : FreeBlock {
  ChainHead* next_chain;
  std::size_t count;
};
constexpr std::size_t smallest = 2 * granule;
static_assert(sizeof(ChainHead) <= smallest);

Slab* slab_of(void* block) noexcept {
  return reinterpret_cast<Slab*>(reinterpret_cast<std::uintptr_t>(block) & ~(slab_bytes - 1));
}

// ---- memory of a thread, and shared memory ------------------------------------------------------

// The free lists of a thread. They are trivially destructible, so that they outlive every
// destructor that may still free a block. Only the thread itself writes the counters, with plain
// stores instead of atomic read-modify-writes.
struct Pool {
  enum class State : std::uint8_t { fresh, open, closed };
  FreeBlock* first[sizes];
  std::atomic<std::uint32_t> count[sizes];
  // A second, full chain. Without it, a thread whose list alternates between full and empty would
  // lock the mutex for each block.
  ChainHead* spare[sizes];
  Pool* next;  // the next of the open pools
  std::atomic<std::uint32_t> spares[sizes];
  State state;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Pool thread_pool{};

constinit std::mutex mutex;  // protects `shared` and the list of pools
struct Shared {
  ChainHead* chains[sizes];
  std::size_t free[sizes];  // the number of blocks in the chains
  std::size_t made[sizes];  // the number of blocks in slabs
  Pool* pools;
  char *fresh, *fresh_end;  // the part of the last region that is not a slab yet
};
constinit Shared shared{};
constinit std::atomic<std::int64_t> unpooled{0};  // bytes in blocks outside the pool

void push_chain(std::size_t size, FreeBlock* first, std::size_t count) noexcept {
  auto* const head = static_cast<ChainHead*>(first);
  head->next_chain = std::exchange(shared.chains[size], head);
  head->count = count;
  shared.free[size] += count;
}

/// Returns a new slab; null if there is no memory.
char* allocate_slab() noexcept {
  if (shared.fresh == shared.fresh_end) {
    const std::size_t mapped = region_bytes + slab_bytes;
    void* const raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return nullptr;
    char* const start = static_cast<char*>(raw);
    shared.fresh = reinterpret_cast<char*>(slab_of(start + slab_bytes - 1));
    shared.fresh_end = shared.fresh + region_bytes;
    if (shared.fresh > start) munmap(start, static_cast<std::size_t>(shared.fresh - start));
    if (start + mapped > shared.fresh_end)
      munmap(shared.fresh_end, static_cast<std::size_t>(start + mapped - shared.fresh_end));
  }
  return std::exchange(shared.fresh, shared.fresh + slab_bytes);
}

/// Makes chains of the blocks of a new slab, in the order of their addresses. Returns false if
/// there is no memory.
bool carve_slab(std::size_t size) noexcept {
  char* const slab = allocate_slab();
  if (!slab) return false;
  const std::size_t bytes = size * granule, blocks = (slab_bytes - slab_header) / bytes;
  ::new (slab) Slab{static_cast<std::uint32_t>(blocks), 0, nullptr};
  shared.made[size] += blocks;
  // The last chain is pushed first, so that the first one is on top.
  for (std::size_t end = blocks; end > 0;) {
    const std::size_t begin = (end - 1) / chain_length * chain_length;
    FreeBlock* next = nullptr;
    for (std::size_t i = end; i-- > begin;) next = ::new (slab + slab_header + i * bytes) FreeBlock{next};
    push_chain(size, next, end - begin);
    end = begin;
  }
  return true;
}

// ---- a thread's lists ---------------------------------------------------------------------------

std::uint32_t count_of(std::atomic<std::uint32_t>& count) noexcept { return count.load(std::memory_order_relaxed); }
void set(std::atomic<std::uint32_t>& count, std::uint32_t value) noexcept {
  count.store(value, std::memory_order_relaxed);
}

/// Moves the lists of a thread to the shared chains. The caller holds the mutex.
void give_all(Pool& pool) noexcept {
  for (std::size_t size = 0; size < sizes; ++size) {
    if (FreeBlock* const first = std::exchange(pool.first[size], nullptr))
      push_chain(size, first, count_of(pool.count[size]));
    if (ChainHead* const spare = std::exchange(pool.spare[size], nullptr)) push_chain(size, spare, chain_length);
    set(pool.count[size], 0);
    set(pool.spares[size], 0);
  }
}

struct ThreadExit {
  ThreadExit() noexcept {
    const std::lock_guard lock(mutex);
    thread_pool.next = std::exchange(shared.pools, &thread_pool);
    thread_pool.state = Pool::State::open;
  }
  ~ThreadExit() {
    const std::lock_guard lock(mutex);
    give_all(thread_pool);
    Pool** link = &shared.pools;
    while (*link != &thread_pool) link = &(*link)->next;
    *link = thread_pool.next;
    thread_pool.state = Pool::State::closed;
  }
  void touch() const noexcept {}
};
void open(Pool& pool) noexcept {
  if (pool.state != Pool::State::fresh) return;
  static thread_local ThreadExit exit;
  exit.touch();
}

/// Returns a block when the thread has no block of this size: its spare chain, or a shared one,
/// becomes its list.
[[gnu::noinline]] void* refill(Pool& pool, std::size_t size) {
  open(pool);
  ChainHead* chain = std::exchange(pool.spare[size], nullptr);
  std::size_t count = chain_length;
  if (!chain) {
    const std::lock_guard lock(mutex);
    if (!shared.chains[size] && !carve_slab(size)) throw std::bad_alloc();
    chain = shared.chains[size];
    count = chain->count;
    shared.chains[size] = chain->next_chain;
    shared.free[size] -= count;
    if (pool.state == Pool::State::closed) {  // a closed pool keeps nothing
      if (chain->next) push_chain(size, chain->next, count - 1);
      return chain;
    }
  }
  set(pool.spares[size], 0);
  set(pool.count[size], static_cast<std::uint32_t>(count - 1));
  pool.first[size] = chain->next;
  return chain;
}

/// Frees a block when the thread's list of this size is a full chain, or when the thread has ended
/// and its pool is closed.
[[gnu::noinline]] void free_slow(Pool& pool, std::size_t size, void* block) noexcept {
  open(pool);
  if (pool.state == Pool::State::closed) {
    const std::lock_guard lock(mutex);
    return push_chain(size, ::new (block) ChainHead{{nullptr}, nullptr, 1}, 1);
  }
  if (count_of(pool.count[size]) == chain_length) {
    auto* const chain = static_cast<ChainHead*>(pool.first[size]);
    if (ChainHead* const spare = std::exchange(pool.spare[size], chain)) {
      const std::lock_guard lock(mutex);
      push_chain(size, spare, chain_length);
    }
    set(pool.spares[size], 1);
    set(pool.count[size], 0);
    pool.first[size] = nullptr;
  }
  pool.first[size] = ::new (block) FreeBlock{pool.first[size]};
  set(pool.count[size], count_of(pool.count[size]) + 1);
}

/// Runs in a child of fork(): forgets the lists of the other threads, which do not exist there.
void lose_other_threads() noexcept {
  thread_pool.next = nullptr;
  shared.pools = thread_pool.state == Pool::State::open ? &thread_pool : nullptr;
}

std::size_t size_of_block(std::size_t bytes) noexcept {
  return (bytes < smallest ? smallest : bytes + granule - 1) / granule;
}

}  // namespace

void hold_pool_over_fork() noexcept { [[maybe_unused]] static const HeldOverFork<mutex, lose_other_threads> held{}; }

PoolStats pool_stats() noexcept {
  const std::lock_guard lock(mutex);
  PoolStats stats;
  std::size_t idle[sizes];
  for (std::size_t size = 0; size < sizes; ++size) idle[size] = shared.free[size];
  for (Pool* pool = shared.pools; pool; pool = pool->next)
    for (std::size_t size = 0; size < sizes; ++size)
      idle[size] += count_of(pool->count[size]) + count_of(pool->spares[size]) * chain_length;
  for (std::size_t size = 0; size < sizes; ++size) {
    stats.live_bytes += (shared.made[size] - idle[size]) * size * granule;
    stats.cached_bytes += idle[size] * size * granule;
  }
  stats.live_bytes += static_cast<std::size_t>(unpooled.load(std::memory_order_relaxed));
  return stats;
}

void release_pool() noexcept {
  const std::lock_guard lock(mutex);
  give_all(thread_pool);
  for (std::size_t size = 0; size < sizes; ++size) {
    ChainHead* const chains = std::exchange(shared.chains[size], nullptr);
    shared.free[size] = 0;
    Slab* empty = nullptr;  // slabs in which all blocks are free
    for (ChainHead* chain = chains; chain; chain = chain->next_chain)
      for (FreeBlock* block = chain; block; block = block->next)
        if (Slab* const slab = slab_of(block); ++slab->free == slab->blocks)
          slab->next_to_unmap = std::exchange(empty, slab);
    for (ChainHead* chain = chains; chain;) {
      ChainHead* const next_chain = chain->next_chain;
      FreeBlock* kept = nullptr;
      std::size_t count = 0;
      for (FreeBlock* block = chain; block;) {
        FreeBlock* const next = block->next;
        if (slab_of(block)->free < slab_of(block)->blocks) {
          block->next = std::exchange(kept, block);
          ++count;
        }
        block = next;
      }
      if (kept) push_chain(size, kept, count);
      chain = next_chain;
    }
    for (ChainHead* chain = shared.chains[size]; chain; chain = chain->next_chain)
      for (FreeBlock* block = chain; block; block = block->next) slab_of(block)->free = 0;
    while (Slab* const slab = empty) {
      empty = slab->next_to_unmap;
      shared.made[size] -= slab->blocks;
      munmap(slab, slab_bytes);
    }
  }
}

void* pool_allocate(std::size_t bytes) {
  if (!pooling || bytes > largest) {
    void* const block = ::operator new(bytes);
    unpooled.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    return block;
  }
  const std::size_t size = size_of_block(bytes);
  Pool& pool = thread_pool;
  FreeBlock* const block = pool.first[size];
  if (!block) [[unlikely]]
    return refill(pool, size);
  char* const next = reinterpret_cast<char*>(block->next);
  // Prefetches the block of the next allocation: in a long program,
  // freed blocks have left the caches.
  __builtin_prefetch(next, 1);
  if (bytes > 64) __builtin_prefetch(next + 64, 1);
  pool.first[size] = block->next;
  set(pool.count[size], count_of(pool.count[size]) - 1);
  return block;
}

void pool_free(void* block, std::size_t bytes) noexcept {
  if (!pooling || bytes > largest) {
    unpooled.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    return ::operator delete(block);
  }
  const std::size_t size = size_of_block(bytes);
  Pool& pool = thread_pool;
  const std::uint32_t count = count_of(pool.count[size]);
  if (pool.state != Pool::State::open || count == chain_length) [[unlikely]]
    return free_slow(pool, size, block);
  pool.first[size] = ::new (block) FreeBlock{pool.first[size]};
  set(pool.count[size], count + 1);
}

}  // namespace stave_detail
