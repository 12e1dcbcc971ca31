// Fibers alone: no operation, no handler. What controllers promise rests on this.

#include <stave/core/fiber.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <stave/backends/cpu/parallel.h>
#include <stave/core/error.h>
#include <stave/core/fiber_stack.h>
#include <stave/core/sanitize.h>
#include <stave/stave.h>

namespace fiber_test {

using namespace stave_detail;
using stave::Index;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::KilledBySignal;

constexpr bool sanitized = STAVE_ASAN || STAVE_TSAN;

// A fiber that runs any callable.
class Task {
 public:
  explicit Task(std::function<void()> body)
      : body_(std::move(body)), fiber_([](void* self) { static_cast<Task*>(self)->body_(); }, this) {}
  Fiber* operator->() { return &fiber_; }

 private:
  std::function<void()> body_;
  Fiber fiber_;
};

template <class F>
std::string error_of(F&& body) {
  try {
    body();
  } catch (const stave::Error& error) {
    return error.what();
  }
  return "no error";
}

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<std::size_t>(
      std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n'));
}

/// Recurses until the frames below `base` take `bytes`; returns how deep that was.
[[gnu::noinline]] int descend(std::size_t bytes, const void* base = __builtin_frame_address(0)) {
  volatile char frame[100] = {1};
  const auto used =
      static_cast<std::size_t>(static_cast<const char*>(base) - static_cast<const char*>(__builtin_frame_address(0)));
  const int deeper = used < bytes ? descend(bytes, base) : 0;
  return deeper + frame[0];
}

struct RestoreLimits {
  ~RestoreLimits() {
    set_most_guarded_stacks(16000);
    set_fiber_stack_size((sanitized ? 1024 : 256) << 10);
  }
};

// ---- suspending and resuming -------------------------------------------------------------------------------

TEST(Fiber, RunsInPieces) {
  std::vector<int> trace;
  Task* self = nullptr;
  Task task([&] {
    trace.push_back(1);
    (*self)->suspend();
    trace.push_back(3);
    (*self)->suspend();
    trace.push_back(5);
  });
  self = &task;
  EXPECT_FALSE(task->started());
  EXPECT_FALSE(task->suspended());
  task->resume();
  EXPECT_TRUE(task->started());
  EXPECT_TRUE(task->suspended());
  trace.push_back(2);
  task->resume();
  trace.push_back(4);
  EXPECT_FALSE(task->finished());
  task->resume();
  EXPECT_TRUE(task->finished());
  EXPECT_TRUE(task->started());
  EXPECT_FALSE(task->suspended());
  EXPECT_THAT(trace, ElementsAre(1, 2, 3, 4, 5));
}

TEST(Fiber, KnowsWhereCodeRuns) {
  EXPECT_FALSE(on_fiber());
  Task inner([&] { EXPECT_TRUE(on_fiber()); });
  Task* outer = nullptr;
  Task task([&] {
    EXPECT_TRUE(on_fiber());
    EXPECT_TRUE((*outer)->running());
    EXPECT_FALSE(inner->running());
    inner->resume();
    EXPECT_TRUE(on_fiber());
    (*outer)->suspend();
    EXPECT_TRUE((*outer)->running());
  });
  outer = &task;
  task->resume();
  EXPECT_FALSE(on_fiber());
  EXPECT_FALSE(task->running());
  task->resume();
}

TEST(Fiber, IsDestroyedUnstartedWithoutRunning) {
  bool ran = false;
  {
    Task task([&] { ran = true; });
  }
  EXPECT_FALSE(ran);
}

TEST(Fiber, ThreeLevelsStandStillAsOneAndContinueAtTheInnermost) {
  std::vector<std::string> trace;
  Task *outer = nullptr, *middle = nullptr;
  Task c([&] {
    trace.push_back("c1");
    (*outer)->suspend();
    trace.push_back("c2");
    (*middle)->suspend();
    trace.push_back("c3");
  });
  Task b([&] {
    trace.push_back("b1");
    c->resume();
    trace.push_back("b2");
  });
  Task a([&] {
    trace.push_back("a1");
    b->resume();
    trace.push_back("a2");
    b->resume();
    trace.push_back("a3");
  });
  outer = &a;
  middle = &b;
  a->resume();
  EXPECT_TRUE(a->suspended());
  EXPECT_FALSE(b->suspended());  // it waits for c, inside a
  EXPECT_FALSE(c->suspended());
  EXPECT_THAT(trace, ElementsAre("a1", "b1", "c1"));
  trace.clear();
  a->resume();
  EXPECT_THAT(trace, ElementsAre("c2", "a2", "c3", "b2", "a3"));
  EXPECT_TRUE(a->finished() && b->finished() && c->finished());
}

TEST(Fiber, InnerOnesAreSuspendedAlone) {
  std::vector<int> drawn;
  int next = 0;
  Task *generator = nullptr, *outer = nullptr;
  Task squares([&] {
    for (int i = 0; i < 6; ++i) {
      next = i * i;
      (*generator)->suspend();
    }
  });
  generator = &squares;
  Task task([&] {
    for (int i = 0; i < 4; ++i) {
      squares->resume();
      EXPECT_TRUE(on_fiber());
      EXPECT_TRUE((*outer)->running());
      EXPECT_FALSE(squares->running());
      drawn.push_back(next);
      if (i % 2) (*outer)->suspend();
    }
  });
  outer = &task;
  task->resume();
  EXPECT_THAT(drawn, ElementsAre(0, 1));
  squares->resume();  // the thread draws one as well
  task->resume();
  EXPECT_THAT(drawn, ElementsAre(0, 1, 9, 16));
  squares->resume();
  EXPECT_EQ(next, 25);
  squares->resume();
  EXPECT_TRUE(squares->finished());
  task->resume();
}

TEST(Fiber, ChainIsResumedUnderAnotherFiber) {
  std::vector<std::string> trace;
  Task *outer = nullptr, *second = nullptr;
  Task inner([&] {
    (*outer)->suspend();
    trace.push_back("inner again");
    (*second)->suspend();  // the new resumer: takes `outer` along
    trace.push_back("inner, third");
  });
  Task first([&] { inner->resume(); });
  outer = &first;
  first->resume();
  Task host([&] {
    first->resume();
    trace.push_back("host");
  });
  second = &host;
  host->resume();
  trace.push_back("thread");
  host->resume();
  EXPECT_THAT(trace, ElementsAre("inner again", "thread", "inner, third", "host"));
  EXPECT_TRUE(host->finished() && first->finished() && inner->finished());
}

TEST(Fiber, TenThousandNestedAreSuspendedTogether) {
  constexpr int depth = sanitized ? 50 : 10000;
  std::vector<std::unique_ptr<Task>> tasks;
  int ended = 0;
  for (int i = 0; i < depth; ++i)
    tasks.push_back(std::make_unique<Task>([&, i] {
      if (i + 1 < depth) (*tasks[static_cast<std::size_t>(i) + 1])->resume();
      else (*tasks[0])->suspend();
      ++ended;
    }));
  (*tasks[0])->resume();
  EXPECT_EQ(ended, 0);
  (*tasks[0])->resume();
  EXPECT_EQ(ended, depth);
}

TEST(Fiber, LocalsDieWhenTheComputationEndsNotBefore) {
  std::vector<std::string> trace;
  struct Local {
    std::vector<std::string>& trace;
    std::string name;
    ~Local() { trace.push_back("~" + name); }
  };
  Task* outer = nullptr;
  Task inner([&] {
    Local local{trace, "inner"};
    (*outer)->suspend();
  });
  Task task([&] {
    Local first{trace, "first"}, second{trace, "second"};
    inner->resume();
  });
  outer = &task;
  task->resume();
  EXPECT_THAT(trace, ElementsAre());
  task->resume();
  EXPECT_THAT(trace, ElementsAre("~inner", "~second", "~first"));
}

// ---- stacks ------------------------------------------------------------------------------------------------

TEST(FiberStack, HundredThousandAreSuspendedAtOnce) {
  constexpr int count = STAVE_TSAN ? 500 : STAVE_ASAN ? 5000 : 100000;  // sanitizers keep much for each stack
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
  EXPECT_LT(mappings(), before + 40000);                                            // Linux allows 65,530
  for (std::size_t i = 0; i < count; ++i) lanes[i * 7919 % count].fiber->resume();  // 7919 is prime: each once
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(lanes[i].fiber->finished());
    ASSERT_EQ(lanes[i].value, 3 * static_cast<std::int64_t>(i) + 1);
  }
  release_cached_stacks();
  if (STAVE_TSAN) return;              // it keeps some of its own
  EXPECT_LT(mappings(), before + 50);  // all went back
}

TEST(FiberStack, TwoHundredKibibytesDeep) {
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

TEST(FiberStack, SizesThatMakeNoSenseAreErrors) {
  EXPECT_THAT(error_of([] { set_fiber_stack_size(4096); }),
              HasSubstr("set_fiber_stack_size: 4096 bytes; a stack takes between 32768 and 1073741824"));
  EXPECT_THAT(error_of([] { set_fiber_stack_size(std::size_t{2} << 30); }),
              HasSubstr("2147483648 bytes; a stack takes"));
}

TEST(FiberStack, IsUsedAgain) {
  std::set<const void*> stacks;
  for (int i = 0; i < 100; ++i) {
    Task task([&] { stacks.insert(__builtin_frame_address(0)); });
    task->resume();
  }
  EXPECT_EQ(stacks.size(), 1u);
}

TEST(FiberStack, SlabsAreUsedAgainAndGoBack) {
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

TEST(FiberStack, ThreadsGiveTheirsBack) {
  release_cached_stacks();
  const std::size_t before = mappings();
  std::thread([] {
    std::vector<std::unique_ptr<Task>> tasks;
    for (int i = 0; i < 200; ++i) tasks.push_back(std::make_unique<Task>([] {}));
    for (auto& task : tasks) (*task)->resume();
  }).join();
  EXPECT_LT(mappings(), before + 50);  // the thread's own stack and heap may stay
}

TEST(FiberStack, NoMemoryIsBadAllocAndTheOthersRunOn) {
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

TEST(FiberDeathTest, OverflowOfASlabIsFoundAtTheSwitchAndAtTheEnd) {
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

TEST(FiberDeathTest, ExceptionsMustNotLeaveTheEntry) {
  auto run = [] {
    Task task([] { throw std::runtime_error("boom"); });
    task->resume();
  };
  EXPECT_DEATH(run(), "an exception left the entry function of a Fiber.*\n.*\n.*boom");
}

TEST(FiberDeathTest, SuspendedFibersMustNotBeDestroyed) {
  auto run = [] {
    Task* self = nullptr;
    Task task([&] { (*self)->suspend(); });
    self = &task;
    task->resume();
  };
  EXPECT_DEATH(run(), "a Fiber was destroyed before its computation had ended; resume it until it has");
}

TEST(FiberDeathTest, SanitizerSeesPointersIntoEndedStacks) {
  if (!STAVE_ASAN) GTEST_SKIP() << "for the address sanitizer";  // SEGV: its own stack of locals is unmapped
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

// ---- misuse ------------------------------------------------------------------------------------------------

TEST(FiberErrors, Resume) {
  Task *self = nullptr, *outer = nullptr;
  Task task([&] { EXPECT_THAT(error_of([&] { (*self)->resume(); }), HasSubstr("is running, and this is inside it")); });
  self = &task;
  task->resume();
  EXPECT_THAT(error_of([&] { task->resume(); }), HasSubstr("the computation has ended; it runs once"));

  Task inner([&] {
    EXPECT_THAT(error_of([&] { (*outer)->resume(); }), HasSubstr("is running, and this is inside it"));
    (*outer)->suspend();
  });
  Task chain([&] { inner->resume(); });
  outer = &chain;
  chain->resume();
  EXPECT_THAT(error_of([&] { inner->resume(); }), HasSubstr("waits for another one, which it resumed"));
  EXPECT_FALSE(inner->suspended());
  chain->resume();
}

TEST(FiberErrors, Suspend) {
  Task other([] {});
  EXPECT_THAT(error_of([&] { other->suspend(); }), HasSubstr("this is not inside the computation"));
  Task* self = nullptr;
  Task task([&] {
    EXPECT_THAT(error_of([&] { other->suspend(); }), HasSubstr("this is not inside the computation"));
    (*self)->suspend();
  });
  self = &task;
  task->resume();
  EXPECT_THAT(error_of([&] { task->suspend(); }), HasSubstr("this is not inside the computation"));
  task->resume();
  EXPECT_THAT(error_of([&] { task->suspend(); }), HasSubstr("this is not inside the computation"));
}

TEST(FiberErrors, AnotherThread) {
  Task* self = nullptr;
  Task task([&] { (*self)->suspend(); });
  self = &task;
  task->resume();
  EXPECT_TRUE(task->on_its_thread());
  std::thread([&] {
    EXPECT_FALSE(task->on_its_thread());
    EXPECT_THAT(error_of([&] { task->resume(); }), HasSubstr("was started on another thread, and stays there"));
    EXPECT_THAT(error_of([&] { task->suspend(); }), HasSubstr("this is not inside the computation"));
  }).join();
  task->resume();
  EXPECT_TRUE(task->finished());
}

// ---- exceptions --------------------------------------------------------------------------------------------

TEST(FiberExceptions, EachRethrowsItsOwn) {
  std::vector<std::string> rethrown;
  auto body = [&](Task*& self, const char* text) {
    return [&self, &rethrown, text] {
      try {
        try {
          throw std::runtime_error(text);
        } catch (...) {
          (*self)->suspend();
          throw;
        }
      } catch (const std::exception& error) {
        rethrown.push_back(error.what());
      }
    };
  };
  Task *a = nullptr, *b = nullptr;
  Task first(body(a, "first")), second(body(b, "second"));
  a = &first;
  b = &second;
  first->resume();
  second->resume();
  EXPECT_FALSE(std::current_exception());
  first->resume();
  second->resume();
  EXPECT_THAT(rethrown, ElementsAre("first", "second"));
}

struct AtExit {
  std::function<void()> body;
  ~AtExit() { body(); }
};

TEST(FiberExceptions, InFlightAreCountedByFiber) {
  std::vector<int> counts;
  std::string caught;
  Task* self = nullptr;
  Task task([&] {
    counts.push_back(std::uncaught_exceptions());
    try {
      AtExit suspend_while_unwinding{[&] {
        counts.push_back(std::uncaught_exceptions());
        (*self)->suspend();
        counts.push_back(std::uncaught_exceptions());
      }};
      throw std::runtime_error("in flight");
    } catch (const std::exception& error) {
      caught = error.what();
    }
    counts.push_back(std::uncaught_exceptions());
  });
  self = &task;
  try {
    AtExit start_while_unwinding{[&] {
      EXPECT_EQ(std::uncaught_exceptions(), 1);
      task->resume();
      EXPECT_EQ(std::uncaught_exceptions(), 1);
    }};
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  task->resume();
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  EXPECT_THAT(counts, ElementsAre(0, 1, 1, 0));
  EXPECT_EQ(caught, "in flight");
}

TEST(FiberExceptions, CrossFramesOfOneFiberWhileOthersAreCaught) {
  std::string caught;
  Task task([&] {
    EXPECT_FALSE(std::current_exception());  // the resumer's is not ours
    try {
      throw std::runtime_error("inside");
    } catch (const std::exception& error) {
      caught = error.what();
    }
  });
  try {
    throw std::runtime_error("outside");
  } catch (...) {
    task->resume();
    try {
      throw;
    } catch (const std::exception& error) {
      EXPECT_STREQ(error.what(), "outside");
    }
  }
  EXPECT_EQ(caught, "inside");
}

// ---- the thread's own stack --------------------------------------------------------------------------------

TEST(ThreadStack, IsAPlainCallWhereItIsAlready) {
  int calls = 0;
  on_thread_stack([&] { ++calls; });
  EXPECT_EQ(calls, 1);
  EXPECT_THROW(on_thread_stack([] { throw std::out_of_range("x"); }), std::out_of_range);
}

TEST(ThreadStack, RunsThereFromAnyDepthAndDoesNotGrow) {
  std::set<const void*> frames;
  auto hop = [&] {
    for (int i = 0; i < 1000; ++i)
      on_thread_stack([&] {
        EXPECT_FALSE(on_fiber());
        frames.insert(__builtin_frame_address(0));
      });
    EXPECT_TRUE(on_fiber());
  };
  Task inner(hop);
  Task task([&] {
    hop();
    inner->resume();
    hop();
  });
  const char* here = static_cast<const char*>(__builtin_frame_address(0));
  task->resume();
  ASSERT_EQ(frames.size(), 1u);
  const auto distance = here - static_cast<const char*>(*frames.begin());
  EXPECT_GT(distance, 0);
  EXPECT_LT(distance, 20000);
}

TEST(ThreadStack, ExceptionsComeBackAndTheCallersAreKnown) {
  std::vector<std::string> caught;
  Task task([&] {
    try {
      on_thread_stack([] { throw std::out_of_range("from below"); });
    } catch (const std::out_of_range& error) {
      caught.push_back(error.what());
    }
    try {
      throw std::runtime_error("the fiber's");
    } catch (...) {
      on_thread_stack([&] {
        try {
          throw;  // as in a plain call
        } catch (const std::exception& error) {
          caught.push_back(error.what());
        }
      });
      try {
        on_thread_stack([&] { throw; });
      } catch (const std::exception& error) {
        caught.push_back(error.what());
      }
    }
    EXPECT_FALSE(std::current_exception());
    EXPECT_EQ(std::uncaught_exceptions(), 0);
  });
  try {
    throw std::runtime_error("the thread's");
  } catch (...) {
    task->resume();
    EXPECT_THROW(
        try { throw; } catch (const std::runtime_error& error) {
          caught.push_back(error.what());
          throw;
        },
        std::runtime_error);
  }
  EXPECT_THAT(caught, ElementsAre("from below", "the fiber's", "the fiber's", "the thread's"));
}

TEST(ThreadStack, FibersRunInsideAndHopAgain) {
  std::vector<std::string> trace;
  Task* later = nullptr;
  Task kept([&] {
    trace.push_back("kept");
    (*later)->suspend();
    trace.push_back("kept again");
  });
  later = &kept;
  Task task([&] {
    on_thread_stack([&] {
      Task fresh([&] {
        on_thread_stack([&] { trace.push_back(on_fiber() ? "fiber" : "thread"); });
        EXPECT_TRUE(on_fiber());
      });
      fresh->resume();
      EXPECT_FALSE(on_fiber());
      kept->resume();
      on_thread_stack([&] { trace.push_back("plain"); });
    });
    EXPECT_TRUE(on_fiber());
    kept->resume();
    on_thread_stack([&] { trace.push_back("after"); });
  });
  task->resume();
  EXPECT_TRUE(task->finished());
  EXPECT_THAT(trace, ElementsAre("thread", "kept", "plain", "kept again", "after"));
}

TEST(ThreadStack, WhatWaitsForItCannotBeSuspended) {
  Task* self = nullptr;
  Task task([&] {
    on_thread_stack([&] {
      const char* text =
          "waits for a function that on_thread_stack runs, and this is inside it; return from the function";
      EXPECT_THAT(error_of([&] { (*self)->suspend(); }), HasSubstr(text));
      EXPECT_THAT(error_of([&] { (*self)->resume(); }), HasSubstr("or for a function on the thread's own stack"));
      Task inner([&] { EXPECT_THAT(error_of([&] { (*self)->suspend(); }), HasSubstr(text)); });
      inner->resume();
    });
    (*self)->suspend();  // and now it can
  });
  self = &task;
  task->resume();
  EXPECT_TRUE(task->suspended());
  EXPECT_THAT(error_of([&] { task->suspend(); }), HasSubstr("this is not inside the computation"));
  task->resume();
}

TEST(ThreadStack, ChainsAreSuspendedBetweenHops) {
  int hops = 0;
  Task* outer = nullptr;
  Task inner([&] {
    for (int i = 0; i < 10; ++i) {
      on_thread_stack([&] { ++hops; });
      (*outer)->suspend();
    }
  });
  Task task([&] { inner->resume(); });
  outer = &task;
  for (int i = 0; i < 10; ++i) {
    task->resume();
    EXPECT_EQ(hops, i + 1);
    Task between([&] { on_thread_stack([] {}); });
    between->resume();
  }
  task->resume();
  EXPECT_TRUE(task->finished());
}

// ---- floating point ----------------------------------------------------------------------------------------

#ifdef __x86_64__
TEST(FiberFloats, RoundingIsTheFibersFlagsAreTheThreads) {
  volatile double zero = 0, third = 3;
  Task* self = nullptr;
  Task task([&] {
    std::fesetround(FE_UPWARD);
    (*self)->suspend();
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
    EXPECT_TRUE(std::fetestexcept(FE_INEXACT));  // raised outside since
    third = third + 1 / zero;
  });
  self = &task;
  std::feclearexcept(FE_ALL_EXCEPT);
  task->resume();
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  third = 1 / third;
  task->resume();
  EXPECT_TRUE(std::fetestexcept(FE_DIVBYZERO));
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}
#endif

// ---- threads -----------------------------------------------------------------------------------------------

TEST(FiberThreads, EachRunsItsOwn) {
  RestoreLimits restore;
  set_most_guarded_stacks(20);  // both kinds of stacks
  std::vector<std::thread> threads;
  std::atomic<int> sum{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < (sanitized ? 3 : 30); ++round) {
        std::vector<std::unique_ptr<Task>> tasks;
        for (std::size_t i = 0; i < 30; ++i)
          tasks.push_back(std::make_unique<Task>([&, i] {
            try {
              throw static_cast<int>(i);
            } catch (int) {
              (*tasks[i])->suspend();
              on_thread_stack([&] { ++sum; });
            }
          }));
        for (auto& task : tasks) (*task)->resume();
        for (auto& task : tasks) (*task)->resume();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 4 * 30 * (sanitized ? 3 : 30));
}

TEST(FiberThreads, StacksEndWhereTheFiberDoes) {
  std::unique_ptr<Task> unstarted, finished;
  std::thread([&] {
    unstarted = std::make_unique<Task>([] {});
    finished = std::make_unique<Task>([] {});
    (*finished)->resume();
  }).join();
  EXPECT_TRUE((*unstarted)->on_its_thread());  // it has none yet
  (*unstarted)->resume();
  EXPECT_TRUE((*unstarted)->finished());
  auto another = std::make_unique<Task>([] {});
  std::thread([&] { another.reset(); }).join();
}

TEST(FiberThreads, ThreadLocalFibersOutliveTheCache) {
  const std::size_t before = mappings();
  for (int i = 0; i < 100; ++i)
    std::thread([] {
      // Made before the thread's first stack is cached, so it dies after the cache.
      static thread_local std::vector<std::unique_ptr<Task>> last;
      for (int j = 0; j < 3; ++j) last.push_back(std::make_unique<Task>([] {}));
      Task task([] {});
      task->resume();
    }).join();
  EXPECT_LT(mappings(), before + 50);
}

// ---- loops in parallel -------------------------------------------------------------------------------------

TEST(FiberParallel, LoopsRunOnTheThreadsStack) {
  constexpr Index n = 1 << 20;
  std::vector<int> touched(n, 0);
  const std::thread::id here = std::this_thread::get_id();
  std::atomic<Index> pieces{0}, on_fibers{0};
  Task task([&] {
    stave_cpu::parallel_for(n, 1 << 10, [&](Index first, Index last) {
      ++pieces;
      if (std::this_thread::get_id() == here && on_fiber()) ++on_fibers;
      for (Index i = first; i < last; ++i) ++touched[static_cast<std::size_t>(i)];
    });
  });
  task->resume();
  EXPECT_EQ(std::accumulate(touched.begin(), touched.end(), Index{0}), n);
  EXPECT_EQ(*std::min_element(touched.begin(), touched.end()), 1);
  EXPECT_GT(pieces, 1);
  EXPECT_EQ(on_fibers, 0);
}

TEST(FiberParallel, LoopsUseOtherThreads) {
  if (stave_cpu::thread_count() < 2) GTEST_SKIP() << "one core";
  std::mutex mutex;
  std::set<std::thread::id> threads;
  Task task([&] {
    stave_cpu::parallel_for(64, 1, [&](Index, Index) {
      for (int wait = 0; wait < 10000; ++wait) {  // until a second one has come
        {
          std::lock_guard lock(mutex);
          threads.insert(std::this_thread::get_id());
          if (threads.size() > 1) return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  });
  task->resume();
  EXPECT_GT(threads.size(), 1u);
}

TEST(FiberParallel, ExceptionsComeBack) {
  std::string caught;
  Task task([&] {
    try {
      stave_cpu::parallel_for(1 << 20, 1, [&](Index first, Index) {
        if (first == 0) throw std::runtime_error("of a piece");
      });
    } catch (const std::runtime_error& error) {
      caught = error.what();
    }
  });
  task->resume();
  EXPECT_EQ(caught, "of a piece");
}

TEST(FiberParallel, OperationsAreWhatTheyAreElsewhere) {
  using namespace stave;
  const Tensor x = reshape(sin(arange(1 << 20)), {1024, 1024});
  auto program = [&] { return std::pair(matmul(x, transpose(x)), sum(x * x, 0)); };
  const auto expected = program();
  bool same = false;
  Task task([&] {
    const auto got = program();
    same = array_equal(got.first, expected.first) && array_equal(got.second, expected.second);
  });
  task->resume();
  EXPECT_TRUE(same);
}

}  // namespace fiber_test
