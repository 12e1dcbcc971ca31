#include <stave/core/pool.h>

#include <new>

#include <stave/core/sanitize.h>

namespace stave_detail {
namespace {

constexpr bool pooling = !STAVE_ASAN && !STAVE_TSAN;  // sanitizers should see every block come and go

constexpr std::size_t granule = 16;
constexpr std::size_t largest = 512;
constexpr std::size_t kept_bytes = 1 << 20;  // of one size, by one thread

struct Block {
  Block* next;
};

// Blocks come from operator new one by one, so that any thread may free any of them in any way.
struct Pool {
  Block* free[largest / granule + 1];
  std::size_t bytes[largest / granule + 1];
  bool guarded;  // the thread's end will empty this pool
  bool closed;   // it has
};
constinit thread_local Pool pool{};

struct EmptyPoolAtThreadEnd {
  ~EmptyPoolAtThreadEnd() {
    pool.closed = true;
    for (Block*& list : pool.free)
      while (list) {
        Block* block = list;
        list = block->next;
        ::operator delete(block);
      }
  }
};

void guard_pool() {
  static thread_local EmptyPoolAtThreadEnd guard;
  static_cast<void>(guard);
  pool.guarded = true;
}

}  // namespace

void* pool_allocate(std::size_t bytes) {
  const std::size_t size = (bytes + granule - 1) / granule;
  if (!pooling || bytes > largest) return ::operator new(bytes);
  if (Block* block = pool.free[size]) {
    pool.free[size] = block->next;
    pool.bytes[size] -= size * granule;
    return block;
  }
  return ::operator new(size* granule);
}

void pool_free(void* block, std::size_t bytes) noexcept {
  const std::size_t size = (bytes + granule - 1) / granule;
  if (!pooling || bytes > largest || pool.closed || pool.bytes[size] >= kept_bytes) return ::operator delete(block);
  if (!pool.guarded) guard_pool();
  pool.free[size] = new (block) Block{pool.free[size]};
  pool.bytes[size] += size * granule;
}

}  // namespace stave_detail
