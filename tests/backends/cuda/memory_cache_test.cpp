// Tests the cache of a device's memory over a source that counts calls.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <stave/backends/cuda/faults.h>
#include <stave/backends/cuda/memory_cache.h>
#include <stave/core/effects/error.h>
#include <stave/core/op/all_ops.h>

namespace {

using namespace stave_cuda;

/// A source that gives out at most `limit` bytes. Its addresses are never dereferenced.
struct Source final : MemorySource {
  std::size_t limit = std::size_t{1} << 40, given_out = 0;
  int takes = 0, settles = 0;
  bool breaks = false;
  std::map<void*, std::size_t> blocks;
  std::uintptr_t next = 4096;
  std::mutex mutex;

  void* take(std::size_t bytes) override {
    const std::lock_guard lock(mutex);
    if (given_out + bytes > limit) return nullptr;
    ++takes;
    given_out += bytes;
    void* const block = reinterpret_cast<void*>(next);
    next += bytes + 4096;
    blocks[block] = bytes;
    return block;
  }
  void give(void* block, std::size_t bytes) noexcept override {
    const std::lock_guard lock(mutex);
    if (blocks.at(block) != bytes) std::abort();
    given_out -= bytes;
    blocks.erase(block);
  }
  void settle() override {
    ++settles;
    if (breaks) throw stave::Error("cuda: a kernel has broken off");
  }
  std::string free_memory() const override { return "of 2.0 GiB 0.5 GiB are free"; }
};

TEST(SizeClass, HoldsTheRequestWithLittleWaste) {
  int last = -1;
  for (std::size_t bytes = 0; bytes < (std::size_t{1} << 46); bytes += 1 + bytes / 997) {
    const SizeClass size = SizeClass::of(bytes);
    EXPECT_GE(size.bytes, bytes);
    EXPECT_LE(size.bytes, std::max<std::size_t>(bytes + 256, bytes + bytes / (bytes <= 16 << 20 ? 8 : 100))) << bytes;
    EXPECT_EQ(size.bytes % 256, 0u);
    EXPECT_GE(size.index, last);
    last = size.index;
    const SizeClass again = SizeClass::of(size.bytes);  // the size of a class is in that class
    EXPECT_EQ(again.index, size.index);
    EXPECT_EQ(again.bytes, size.bytes);
    EXPECT_EQ(SizeClass::at(size.index).bytes, size.bytes);
  }
  EXPECT_LT(SizeClass::of(std::size_t{1} << 46).index, SizeClass::count);
}

TEST(SizeClass, AdjacentClassesDiffer) {
  EXPECT_EQ(SizeClass::of(0).bytes, 256u);
  EXPECT_EQ(SizeClass::of(4096).index + 1, SizeClass::of(4097).index);
  EXPECT_EQ(SizeClass::of(4097).bytes, 4608u);
  EXPECT_EQ(SizeClass::of(8192).index + 1, SizeClass::of(8193).index);
  EXPECT_EQ(SizeClass::of(16 << 20).index + 1, SizeClass::of((16 << 20) + 1).index);
  EXPECT_EQ(SizeClass::of(std::size_t{1} << 46).index, SizeClass::count - 1);
}

TEST(MemoryCache, ReusesFreedBlocks) {
  Source source;
  MemoryCache cache(source, "cuda:0");
  void* const first = cache.take(1000);
  cache.give(first, 1000);
  EXPECT_EQ(cache.take(900), first);  // the same size class
  EXPECT_NE(cache.take(900), first);
  EXPECT_EQ(source.takes, 2);
}

TEST(MemoryCache, CountsLivePeakAndCachedBytes) {
  Source source;
  MemoryCache cache(source, "cuda:0");
  void* const a = cache.take(1000);
  void* const b = cache.take(5000);
  EXPECT_EQ(cache.stats().live_bytes, 6000u);
  cache.give(b, 5000);
  EXPECT_EQ(cache.stats().live_bytes, 1000u);
  EXPECT_EQ(cache.stats().peak_bytes, 6000u);
  EXPECT_EQ(cache.stats().cached_bytes, 5120u);
  cache.reset_peak();
  EXPECT_EQ(cache.stats().peak_bytes, 1000u);
  cache.release();
  EXPECT_EQ(cache.stats().cached_bytes, 0u);
  EXPECT_EQ(source.given_out, 1024u);
  EXPECT_EQ(source.settles, 1);
  cache.give(a, 1000);
}

TEST(MemoryCache, ReleasesBlocksOfEverySize) {
  Source source;  // aborts if a returned size differs from the size taken
  MemoryCache cache(source, "cuda:0");
  std::map<void*, std::size_t> taken;
  for (std::size_t bytes = 0; bytes < (std::size_t{1} << 30); bytes += 1 + bytes / 31) taken[cache.take(bytes)] = bytes;
  for (const auto& [block, bytes] : taken) cache.give(block, bytes);
  cache.release();
  EXPECT_EQ(source.given_out, 0u);
  EXPECT_TRUE(source.blocks.empty());
}

TEST(MemoryCache, GivesCachedMemoryBackBeforeItFails) {
  Source source;
  source.limit = 10000;
  MemoryCache cache(source, "cuda:3");
  cache.give(cache.take(8000), 8000);
  void* const block = cache.take(9000);  // the cached 8192 bytes + 9216 exceed the limit
  EXPECT_EQ(source.settles, 1);
  try {
    cache.take(3 << 20);
    FAIL();
  } catch (const stave::DeviceError& error) {
    EXPECT_STREQ(
        error.what(),
        "cuda:3: out of memory: 3.0 MiB (3145728 bytes) are requested, tensors hold 0.0 MiB; of 2.0 GiB 0.5 GiB "
        "are free: free tensors, use smaller batches, or checkpoint");
  }
  EXPECT_EQ(cache.stats().live_bytes, 9000u);  // no memory is lost
  cache.give(block, 9000);
  EXPECT_EQ(cache.take(9000), block);
  EXPECT_THROW(cache.take(~std::size_t{0}), stave::DeviceError);
}

TEST(MemoryCache, OtherErrorsAreNotReportedAsOutOfMemory) {
  Source source;
  source.limit = 10000;
  source.breaks = true;
  MemoryCache cache(source, "cuda:0");
  try {
    cache.take(20000);
    FAIL();
  } catch (const stave::Error& error) {
    EXPECT_STREQ(error.what(), "cuda: a kernel has broken off");
  }
  EXPECT_EQ(cache.stats().live_bytes, 0u);
}

TEST(MemoryCache, ThreadsShareIt) {
  Source source;
  MemoryCache cache(source, "cuda:0");
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<void*, std::size_t>> mine;
    for (int i = 0; i < 5000; ++i) {
      if (random() % 2 || mine.empty()) {
        const std::size_t bytes = random() % 20000;
        mine.emplace_back(cache.take(bytes), bytes);
      } else {
        cache.give(mine.back().first, mine.back().second);
        mine.pop_back();
      }
    }
    for (const auto& [block, bytes] : mine) cache.give(block, bytes);
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.stats().live_bytes, 0u);
  EXPECT_EQ(cache.stats().cached_bytes, source.given_out);
}

// ---- faults ------------------------------------------------------------------------------------

std::string raised(Faults& faults) {
  try {
    faults.raise();
  } catch (const stave::IndexError& error) {
    return error.what();
  }
  return "";
}

TEST(Faults, NameTheOperationOnce) {
  IndexFault fault;
  Faults faults({&fault, 1});
  const unsigned first = faults.ticket(stave::OpId::gather), second = faults.ticket(stave::OpId::dynamic_slice);
  EXPECT_NE(first, 0u);
  EXPECT_NE(first, second);
  EXPECT_EQ(raised(faults), "");
  fault = {first, 2, -7, 5};
  EXPECT_EQ(raised(faults),
            "gather: index -7 is out of range for axis 2 with size 5 (found on the device, and reported by the first "
            "wait for the device since then)");
  EXPECT_EQ(raised(faults), "");
  fault = {second, 0, 9, 4};
  EXPECT_EQ(raised(faults).substr(0, 83),
            "dynamic_slice: a slice that starts at index 9 is out of range for axis 0 with size ");
}

TEST(Faults, OldLaunchesAreReportedWithoutTheirName) {
  IndexFault fault;
  Faults faults({&fault, 1});
  const unsigned old = faults.ticket(stave::OpId::gather);
  for (int i = 0; i < 20000; ++i) faults.ticket(stave::OpId::scatter_add);
  fault = {old, 1, 3, 3};
  EXPECT_EQ(raised(faults).substr(0, 62), "an operation on indices: index 3 is out of range for axis 1 wi");
}

TEST(Faults, AreReportedToTheLaunchingThread) {
  std::vector<IndexFault> places(8);
  Faults faults(places);
  const unsigned ticket = faults.ticket(stave::OpId::gather);
  std::string to_the_other, to_its_own;
  IndexFault* mine = faults.place();
  std::promise<void> met, asked;
  std::thread other([&] {
    EXPECT_NE(faults.place(), mine);
    *faults.place() = {ticket, 0, 5, 4};
    met.set_value();
    asked.get_future().wait();
    to_its_own = raised(faults);
  });
  met.get_future().wait();
  EXPECT_EQ(raised(faults), "");
  *mine = {ticket, 0, 6, 4};  // this fault is still reported, although the other place has one too
  EXPECT_EQ(raised(faults).substr(0, 32), "gather: index 6 is out of range ");
  asked.set_value();
  other.join();
  EXPECT_EQ(to_its_own.substr(0, 32), "gather: index 5 is out of range ");
  EXPECT_EQ(raised(faults), "");
}

TEST(Faults, OfEndedThreadsAreReportedToAnyThread) {
  std::vector<IndexFault> places(8);
  Faults faults(places);
  std::thread([&] { *faults.place() = {faults.ticket(stave::OpId::gather), 0, 5, 4}; }).join();
  EXPECT_EQ(raised(faults).substr(0, 32), "gather: index 5 is out of range ");
  EXPECT_EQ(raised(faults), "");
}

TEST(Faults, ManyThreadsMayShareSlots) {
  std::vector<IndexFault> places(2);
  Faults faults(places);
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::vector<std::thread> threads;
  std::atomic<int> met = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      EXPECT_GE(faults.place(), &places[0]);
      EXPECT_LE(faults.place(), &places[1]);
      ++met;
      ended.wait();
    });
  while (met < 4) std::this_thread::yield();
  places[1] = {faults.ticket(stave::OpId::gather), 0, 5, 4};
  EXPECT_EQ(raised(faults).substr(0, 32), "gather: index 5 is out of range ");
  end.set_value();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
