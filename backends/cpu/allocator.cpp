// The caching allocator. Start with `allocate` and `deallocate` at the end.
#include <stave/backends/cpu/allocator.h>

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include <stave/core/effects/fork.h>
#include <stave/core/effects/sanitize.h>
#include <stave/core/tensor/pool.h>

namespace stave_cpu {

using stave::Backend;
using stave::MemoryStats;
using stave::Storage;

namespace {

constexpr bool caching = !STAVE_ASAN && !STAVE_TSAN;

constexpr std::size_t line = 64;
constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t header_bytes = line;
// The last bytes of the header's cache line, which hold payloads of up to this size.
constexpr std::size_t tiny_payload = 16;
static_assert(sizeof(Storage) <= header_bytes - tiny_payload && std::is_trivially_destructible_v<Storage>);

// ---- memory from the system ---------------------------------------------------------------------

/// Maps memory in huge pages, or returns null. Huge pages cause fewer TLB misses,
/// and the first use of fresh memory causes one page fault for every 2 MiB only.
void* map_huge(std::size_t bytes) noexcept {
  std::size_t mapped = bytes + huge_page;
  void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto start = reinterpret_cast<std::uintptr_t>(raw);
  std::uintptr_t aligned = (start + huge_page - 1) & ~(huge_page - 1);
  if (aligned > start) munmap(raw, aligned - start);
  std::uintptr_t end = start + mapped, used = aligned + bytes;
  if (end > used) munmap(reinterpret_cast<void*>(used), end - used);
  madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(aligned);
}
void* take_from_system(std::size_t bytes) noexcept {
  if (caching && bytes >= huge_page) return map_huge(bytes);
  void* data = nullptr;
  return posix_memalign(&data, line, bytes) == 0 ? data : nullptr;
}
void give_to_system(void* data, std::size_t bytes) noexcept {
  if (caching && bytes >= huge_page) munmap(data, bytes);
  else std::free(data);
}

// ---- size classes -------------------------------------------------------------------------------

constexpr std::size_t small_payload = 1024;
// The classes have 0, 64, ..., 1024 bytes of payload.
constexpr int small_classes = static_cast<int>(small_payload / line) + 1;

constexpr std::size_t page = 4096;
constexpr int large_classes = 8 * 50;
/// The size class of a large payload. There are eight classes for each power of two. Payloads that
/// mmap provides have a whole number of pages.
struct LargeClass {
  int index;
  std::size_t bytes;
};
LargeClass large_class(std::size_t bytes) {
  int power = std::bit_width(bytes - 1);  // 2^(power - 1) < bytes <= 2^power
  std::size_t step = std::size_t{1} << (power - 4);
  std::size_t steps = (bytes + step - 1) / step;  // 9 ... 16
  return {8 * power + static_cast<int>(steps) - 9, steps * step};
}
static_assert((std::size_t{1} << 21 >> 4) % page == 0);

struct FreeBlock {
  FreeBlock* next;
};
struct FreeList {
  FreeBlock* first = nullptr;
  std::uint32_t count = 0;
  void push(void* block) noexcept {
    first = ::new (block) FreeBlock{first};
    ++count;
  }
  void* pop() noexcept {
    FreeBlock* block = first;
    first = block->next;
    __builtin_prefetch(first, 1);
    --count;
    return block;
  }
};

// ---- state of threads and of the process --------------------------------------------------------

/// The free lists of one thread, and the counts of its allocations. A pool is trivially
/// destructible, because it must outlive every destructor that may still free a tensor.
struct Pool {
  enum class State : std::uint8_t { fresh, open, closed };
  State state = State::fresh;
  std::uint32_t workspace_lines = 0;  // the size of `workspace` in cache lines
  void* workspace = nullptr;          // thread_workspace's memory
  FreeList lists[small_classes];
  // The bytes that this thread has allocated, less those that it has freed, since its last report
  // to the counts of the process, and the maximum of that difference. Only this thread writes them,
  // so relaxed loads and stores suffice, which compile to ordinary move instructions.
  std::atomic<std::int64_t> pending{0}, most_pending{0};
  Pool* next = nullptr;  // in the list of open pools
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Pool thread_pool;

constinit std::mutex shared_mutex;  // guards all members of `shared` except the atomics
struct Shared {
  FreeList small[small_classes];
  FreeList large[large_classes];
  std::size_t cached_large = 0;
  Pool* pools = nullptr;
  std::atomic<std::int64_t> live{0}, peak{0};
};
constinit Shared shared;
// Called in a child of fork(), where only one thread exists: removes the pools of all other
// threads. The blocks in their lists are lost, but their counts are added to the live bytes.
void lose_other_pools() {
  for (const Pool* pool = std::exchange(shared.pools, nullptr); pool; pool = pool->next)
    if (pool != &thread_pool) shared.live += pool->pending.load(std::memory_order_relaxed);
  thread_pool.next = nullptr;
  if (thread_pool.state == Pool::State::open) shared.pools = &thread_pool;
}
const auto shared_over_fork = [] {
  // While a thread frees memory under shared_mutex, it also locks the pool for small objects. So
  // fork() must hold that pool's mutex as well.
  stave_detail::hold_pool_over_fork();
  return stave_detail::HeldOverFork<shared_mutex, lose_other_pools>();
}();

// The number of bytes that a thread may allocate or free before it reports them to the process.
constexpr std::int64_t report_threshold = 64 << 10;
// The maximal length of a thread's free list. A longer list gives half of its blocks to the shared
// list.
constexpr std::uint32_t most_kept = 512;
constexpr std::int64_t always_cached = std::int64_t{256} << 20;

void raise_peak(std::int64_t candidate) noexcept {
  std::int64_t peak = shared.peak.load(std::memory_order_relaxed);
  while (candidate > peak && !shared.peak.compare_exchange_weak(peak, candidate, std::memory_order_relaxed)) {
  }
}
/// Adds the thread's count, and `bytes` more, to the counts of the process.
void flush_counts(Pool& pool, std::int64_t bytes) noexcept {
  std::int64_t pending = pool.pending.load(std::memory_order_relaxed);
  std::int64_t before = shared.live.fetch_add(pending + bytes, std::memory_order_relaxed);
  raise_peak(before + std::max(pool.most_pending.load(std::memory_order_relaxed), pending + bytes));
  pool.pending.store(0, std::memory_order_relaxed);
  pool.most_pending.store(0, std::memory_order_relaxed);
}
void count(Pool& pool, std::int64_t bytes) noexcept {
  std::int64_t pending = pool.pending.load(std::memory_order_relaxed) + bytes;
  if (pending > report_threshold || pending < -report_threshold || pool.state != Pool::State::open)
    return flush_counts(pool, bytes);
  pool.pending.store(pending, std::memory_order_relaxed);
  if (pending > pool.most_pending.load(std::memory_order_relaxed))
    pool.most_pending.store(pending, std::memory_order_relaxed);
}

/// Moves the pool's free blocks to the shared lists, and removes the pool from the list of pools.
/// The caller holds the mutex.
void close(Pool& pool) noexcept {
  for (int c = 0; c < small_classes; ++c)
    while (pool.lists[c].count) shared.small[c].push(pool.lists[c].pop());
  Pool** link = &shared.pools;
  while (*link && *link != &pool) link = &(*link)->next;
  if (*link) *link = pool.next;
  pool.state = Pool::State::closed;
}
/// Opens the pool of a thread when constructed, and closes it when the thread ends.
struct ThreadExit {
  ThreadExit() noexcept {
    std::lock_guard lock(shared_mutex);
    thread_pool.next = shared.pools;
    shared.pools = &thread_pool;
    thread_pool.state = Pool::State::open;
  }
  ~ThreadExit() {
    flush_counts(thread_pool, 0);
    std::free(std::exchange(thread_pool.workspace, nullptr));
    thread_pool.workspace_lines = 0;
    std::lock_guard lock(shared_mutex);
    close(thread_pool);
  }
  void touch() const noexcept {}
};
void open(Pool& pool) noexcept {
  if (pool.state != Pool::State::fresh) return;
  thread_local ThreadExit exit;
  exit.touch();
}

// ---- small blocks: header and payload in one ----------------------------------------------------

std::size_t small_bytes(int c) { return header_bytes + static_cast<std::size_t>(c) * line; }

// Allocates a block of size class c. Blocks of class 0 have the size of a header, such as those of
// scalars, and come from the pool for small objects. malloc would need twice the memory to align
// them to a cache line.
void* new_small(int c) noexcept {
  if (c > 0) return take_from_system(small_bytes(c));
  try {
    return stave_detail::pool_allocate(small_bytes(0));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void delete_small(void* block, int c) noexcept {
  c > 0 ? give_to_system(block, small_bytes(c)) : stave_detail::pool_free(block, small_bytes(0));
}

/// Returns a block of class c when the thread's list is empty: from the shared list, which also
/// refills the thread's list, or newly allocated. Returns null if memory is exhausted.
[[gnu::noinline]] void* small_miss(Pool& pool, int c) noexcept {
  open(pool);
  {
    std::lock_guard lock(shared_mutex);
    FreeList& theirs = shared.small[c];
    if (theirs.count) {
      void* block = theirs.pop();
      for (std::uint32_t i = 0; i < 64 && theirs.count && pool.state == Pool::State::open; ++i)
        pool.lists[c].push(theirs.pop());
      return block;
    }
  }
  return new_small(c);
}
void* take_small(Pool& pool, int c) {
  if (pool.lists[c].count) [[likely]]
    return pool.lists[c].pop();
  if (void* block = small_miss(pool, c)) return block;
  release_cached_memory();
  if (void* block = small_miss(pool, c)) return block;
  throw std::bad_alloc();
}
/// Moves blocks of class c to the shared list, because the thread's list is full or the thread is
/// ending.
[[gnu::noinline]] void share_small(Pool& pool, int c, void* block) noexcept {
  open(pool);
  if (pool.state == Pool::State::open && pool.lists[c].count < most_kept) return pool.lists[c].push(block);
  std::lock_guard lock(shared_mutex);
  shared.small[c].push(block);
  while (pool.lists[c].count > most_kept / 2) shared.small[c].push(pool.lists[c].pop());
}
void give_small(Pool& pool, int c, void* block) noexcept {
  if (!caching) return std::free(block);
  if (pool.state == Pool::State::open && pool.lists[c].count < most_kept) [[likely]]
    return pool.lists[c].push(block);
  share_small(pool, c, block);
}

// ---- large payloads -----------------------------------------------------------------------------

void* take_large(LargeClass size) {
  {
    std::lock_guard lock(shared_mutex);
    if (shared.large[size.index].count) {
      shared.cached_large -= size.bytes;
      return shared.large[size.index].pop();
    }
  }
  if (void* data = take_from_system(size.bytes)) return data;
  release_cached_memory();
  if (void* data = take_from_system(size.bytes)) return data;
  throw std::bad_alloc();
}
/// Caches a payload, unless the cache would then hold more bytes than the peak of live bytes, or
/// more than 256 MiB if the peak is lower.
void give_large(void* data, LargeClass size) noexcept {
  auto limit = static_cast<std::size_t>(std::max(always_cached, shared.peak.load(std::memory_order_relaxed)));
  {
    std::lock_guard lock(shared_mutex);
    if (shared.cached_large + size.bytes <= limit) {
      shared.cached_large += size.bytes;
      return shared.large[size.index].push(data);
    }
  }
  give_to_system(data, size.bytes);
}

Storage* make_storage(void* block, Backend* owner, void* data, std::size_t bytes, std::size_t capacity) {
  Storage* storage = ::new (block) Storage;
  storage->owner = owner;
  storage->data = data;
  storage->bytes = bytes;
  storage->capacity = capacity;
  return storage;
}

/// Allocates in a build with sanitizers: the header and the payload separately, and the payload
/// with exactly the requested size.
Storage* allocate_plain(Backend* owner, std::size_t bytes) {
  void* data = take_from_system(std::max<std::size_t>(bytes, 1));
  void* block = data ? take_from_system(header_bytes) : nullptr;
  if (!block) {
    std::free(data);
    throw std::bad_alloc();
  }
  return make_storage(block, owner, data, bytes, bytes);
}

}  // namespace

Storage* allocate(Backend* owner, std::size_t bytes) {
  Pool& pool = thread_pool;
  if (bytes > std::size_t{1} << 46) throw std::bad_alloc();
  Storage* storage;
  if (!caching) {
    open(pool);
    storage = allocate_plain(owner, bytes);
  } else if (bytes <= tiny_payload) {
    char* block = static_cast<char*>(take_small(pool, 0));
    storage = make_storage(block, owner, block + header_bytes - tiny_payload, bytes, tiny_payload);
  } else if (bytes <= small_payload) {
    int c = static_cast<int>((bytes + line - 1) / line);
    char* block = static_cast<char*>(take_small(pool, c));
    storage = make_storage(block, owner, block + header_bytes, bytes, static_cast<std::size_t>(c) * line);
  } else {
    LargeClass size = large_class(bytes);
    void* block = take_small(pool, 0);
    void* data;
    try {
      data = take_large(size);
    } catch (...) {
      give_small(pool, 0, block);
      throw;
    }
    storage = make_storage(block, owner, data, bytes, size.bytes);
  }
  count(pool, static_cast<std::int64_t>(bytes));
  return storage;
}

void deallocate(Storage* storage) noexcept {
  Pool& pool = thread_pool;
  count(pool, -static_cast<std::int64_t>(storage->bytes));
  char* block = reinterpret_cast<char*>(storage);
  if (!caching) {
    std::free(storage->data);
    std::free(block);
  } else if (storage->data < block + header_bytes && storage->data > block) {
    give_small(pool, 0, block);
  } else if (storage->data == block + header_bytes) {
    give_small(pool, static_cast<int>(storage->capacity / line), block);
  } else {
    give_large(storage->data, large_class(storage->capacity));
    give_small(pool, 0, block);
  }
}

void* thread_workspace(std::size_t bytes) {
  Pool& pool = thread_pool;
  const std::size_t lines = (bytes + line - 1) / line;
  if (lines > pool.workspace_lines) {
    open(pool);
    std::free(std::exchange(pool.workspace, nullptr));
    pool.workspace_lines = 0;
    pool.workspace = std::aligned_alloc(line, lines * line);
    if (!pool.workspace) throw std::bad_alloc();
    pool.workspace_lines = static_cast<std::uint32_t>(lines);
  }
  return pool.workspace;
}

MemoryStats memory_stats() {
  flush_counts(thread_pool, 0);
  std::lock_guard lock(shared_mutex);
  std::int64_t live = shared.live.load(std::memory_order_relaxed);
  std::size_t cached = shared.cached_large;
  for (int c = 0; c < small_classes; ++c)
    cached += (thread_pool.lists[c].count + shared.small[c].count) * small_bytes(c);
  for (const Pool* pool = shared.pools; pool; pool = pool->next) live += pool->pending.load(std::memory_order_relaxed);
  raise_peak(live);
  return {static_cast<std::size_t>(live), static_cast<std::size_t>(shared.peak.load(std::memory_order_relaxed)),
          cached};
}

void reset_peak_memory() {
  std::size_t live = memory_stats().live_bytes;
  shared.peak.store(static_cast<std::int64_t>(live), std::memory_order_relaxed);
}

void release_cached_memory() {
  std::lock_guard lock(shared_mutex);
  for (int c = 0; c < small_classes; ++c) {
    while (thread_pool.lists[c].count) delete_small(thread_pool.lists[c].pop(), c);
    while (shared.small[c].count) delete_small(shared.small[c].pop(), c);
  }
  for (int index = 0; index < large_classes; ++index) {
    std::size_t power = static_cast<std::size_t>(index) / 8, steps = static_cast<std::size_t>(index) % 8 + 9;
    while (shared.large[index].count) give_to_system(shared.large[index].pop(), power >= 4 ? steps << (power - 4) : 0);
  }
  shared.cached_large = 0;
}

}  // namespace stave_cpu
