// Stacks of fibers: their number, their depth, and where their memory comes from and returns to.

#include "fiber_task.h"

#include <sys/resource.h>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace fiber_test {

using testing::KilledBySignal;

TEST(FiberStack, HundredThousandAreSuspendedAtOnce) {
  // Sanitizers keep a lot of memory for each stack.
  constexpr int count = STAVE_TSAN ? 500 : STAVE_ASAN ? 5000 : 100000;
  RestoreLimits restore;
  if (sanitized) set_most_guarded_stacks(200);
  release_cached_stacks();
  const std::size_t before = mappings();
  struct Lane {
    std::unique_ptr<Fiber> fiber;
    std::int64_t value;
    static void run(void* self) {
      auto& lane = *static_cast<Lane*>(self);
      const std::int64_t local = lane.value * 3;
      lane.fiber->suspend();
      lane.value = local + 1;
    }
  };
  std::vector<Lane> lanes(count);
  for (int i = 0; i < count; ++i) {
    lanes[static_cast<std::size_t>(i)].value = i;
    lanes[static_cast<std::size_t>(i)].fiber = std::make_unique<Fiber>(Lane::run, &lanes[static_cast<std::size_t>(i)]);
    lanes[static_cast<std::size_t>(i)].fiber->resume();
  }
  // Linux allows 65,530 mappings.
  EXPECT_LT(mappings(), before + 40000);
  // 7919 is prime, so that each fiber is resumed once.
  for (std::size_t i = 0; i < count; ++i) lanes[i * 7919 % count].fiber->resume();
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(lanes[i].fiber->finished());
    ASSERT_EQ(lanes[i].value, 3 * static_cast<std::int64_t>(i) + 1);
  }
  release_cached_stacks();
  if (STAVE_TSAN) return;  // ThreadSanitizer keeps some mappings of its own
  // All stacks were returned.
  EXPECT_LT(mappings(), before + 50);
}

TEST(FiberStack, HoldsTwoHundredKibibytesOfFrames) {
  int depth = 0;
  Task task([&] { depth = descend(200 << 10); });
  task->resume();
  EXPECT_GT(depth, 100);
}

TEST(FiberStack, SizeCanBeSet) {
  RestoreLimits restore;
  Task before([] {});
  before->resume();  // leaves a stack of the old size in the cache
  set_fiber_stack_size(4 << 20);
  int depth = 0;
  Task task([&] { depth = descend(3900 << 10); });
  task->resume();
  EXPECT_GT(depth, 1000);
}

TEST(FiberStack, InvalidSizesAreErrors) {
  EXPECT_THAT(error_of([] { set_fiber_stack_size(4096); }),
              HasSubstr("set_fiber_stack_size: 4096 bytes; a stack takes between 32768 and 1073741824"));
  EXPECT_THAT(error_of([] { set_fiber_stack_size(std::size_t{2} << 30); }),
              HasSubstr("2147483648 bytes; a stack takes"));
}

TEST(FiberStack, IsReused) {
  std::set<const void*> stacks;
  for (int i = 0; i < 100; ++i) {
    Task task([&] { stacks.insert(__builtin_frame_address(0)); });
    task->resume();
  }
  EXPECT_EQ(stacks.size(), 1u);
}

TEST(FiberStack, SlabsAreReusedAndReturnedToTheSystem) {
  if (STAVE_TSAN) GTEST_SKIP() << "the thread sanitizer's own mappings of each fiber are counted as well";
  RestoreLimits restore;
  release_cached_stacks();
  set_most_guarded_stacks(0);
  {
    Task warm([] {});
  }  // one slab stays
  const std::size_t before = mappings();
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Task>> tasks;
    for (int i = 0; i < 300; ++i) tasks.push_back(std::make_unique<Task>([] { descend(20 << 10); }));
    for (auto& task : tasks) (*task)->resume();
  }
  EXPECT_LE(mappings(), before + 2);
}

TEST(FiberStack, IsReturnedWhenItsThreadEnds) {
  if (STAVE_TSAN) GTEST_SKIP() << "the thread sanitizer's own mappings of each fiber are counted as well";
  release_cached_stacks();
  const std::size_t before = mappings();
  std::thread([] {
    std::vector<std::unique_ptr<Task>> tasks;
    for (int i = 0; i < 200; ++i) tasks.push_back(std::make_unique<Task>([] {}));
    for (auto& task : tasks) (*task)->resume();
  }).join();
  EXPECT_LT(mappings(), before + 50);  // the thread's own stack and heap may stay
}

TEST(FiberStack, NoMemoryThrowsBadAllocAndOtherFibersRunOn) {
  if (sanitized) GTEST_SKIP() << "sanitizers need the address space";
  auto exhaust = [] {
    const rlimit limit{std::size_t{1} << 30, std::size_t{1} << 30};
    setrlimit(RLIMIT_AS, &limit);
    std::vector<std::unique_ptr<Task>> tasks;
    tasks.reserve(100000);
    int ended = 0;
    try {
      for (int i = 0; i < 100000; ++i) {
        tasks.push_back(std::make_unique<Task>([&tasks, &ended, i] {
          (*tasks[static_cast<std::size_t>(i)])->suspend();
          ++ended;
        }));
        (*tasks.back())->resume();
      }
    } catch (const std::bad_alloc&) {
      const int made = static_cast<int>(tasks.size());
      for (auto& task : tasks) (*task)->resume();
      tasks.clear();
      Task again([&] { ++ended; });  // there is room again
      again->resume();
      if (made > 1000 && ended == made + 1) std::exit(0);
    }
    std::exit(1);
  };
  EXPECT_EXIT(exhaust(), testing::ExitedWithCode(0), "");
}

using FiberDeathTest = testing::Test;

TEST(FiberDeathTest, OverflowHitsTheGuard) {
  if (sanitized) GTEST_SKIP() << "the sanitizers have a message of their own";
  auto overflow = [] {
    Task task([] { descend((256 + 8) << 10); });
    task->resume();
  };
  EXPECT_EXIT(overflow(), KilledBySignal(SIGSEGV), "");
}

TEST(FiberDeathTest, SlabOverflowIsDetectedAtSuspensionAndAtTheEnd) {
  if (sanitized) GTEST_SKIP() << "the sanitizers have a message of their own";
  auto overflow = [](bool suspended) {
    set_most_guarded_stacks(0);
    Task* self = nullptr;
    Task task([&] {
      descend(257 << 10);
      if (suspended) (*self)->suspend();
    });
    self = &task;
    task->resume();
    std::exit(0);
  };
  EXPECT_DEATH(overflow(true), "stave: a fiber has overflowed its stack of 262144 bytes .* set_fiber_stack_size");
  EXPECT_DEATH(overflow(false), "stave: a fiber has overflowed its stack of 262144 bytes .* set_fiber_stack_size");
}

TEST(FiberDeathTest, ExceptionLeavingTheEntryFunctionTerminates) {
  auto run = [] {
    Task task([] { throw std::runtime_error("boom"); });
    task->resume();
  };
  EXPECT_DEATH(run(), "an exception left the entry function of a Fiber.*\n.*\n.*boom");
}

TEST(FiberDeathTest, DestroyingASuspendedFiberTerminates) {
  auto run = [] {
    Task* self = nullptr;
    Task task([&] { (*self)->suspend(); });
    self = &task;
    task->resume();
  };
  EXPECT_DEATH(run(), "a Fiber was destroyed before its computation had ended; resume it until it has");
}

TEST(FiberDeathTest, SanitizerSeesPointersIntoEndedStacks) {
  // Otherwise SIGSEGV: the address sanitizer's own stack of locals is unmapped.
  if (!STAVE_ASAN) GTEST_SKIP() << "for the address sanitizer";
  auto read = [] {
    volatile int* escaped = nullptr;
    Task task([&] {
      volatile int local = 1;
      escaped = &local;
    });
    task->resume();
    std::exit(*escaped);
  };
  EXPECT_DEATH(read(), "AddressSanitizer: (use-after-poison|SEGV)");
}

}  // namespace fiber_test
