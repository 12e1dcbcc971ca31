// Fibers and threads: the thread's own stack, several threads, parallel loops.

#include "fiber_task.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
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
#include <stave/stave.h>

namespace fiber_test {

using stave::Index;

// ---- the thread's own stack ---------------------------------------------------------------------

TEST(ThreadStack, IsAPlainCallOnTheThreadsOwnStack) {
  int calls = 0;
  on_thread_stack([&] { ++calls; });
  EXPECT_EQ(calls, 1);
  EXPECT_THROW(on_thread_stack([] { throw std::out_of_range("x"); }), std::out_of_range);
}

TEST(ThreadStack, RepeatedCallsFromNestedFibersDoNotGrowTheStack) {
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

TEST(ThreadStack, ExceptionsPropagateInBothDirections) {
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

TEST(ThreadStack, FibersMayRunInsideAndUseItAgain) {
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

TEST(ThreadStack, WaitingFiberCannotBeSuspended) {
  Task* self = nullptr;
  Task task([&] {
    on_thread_stack([&] {
      const char* text =
          "waits for a function that on_thread_stack runs, and this call is inside that function; return";
      EXPECT_THAT(error_of([&] { (*self)->suspend(); }), HasSubstr(text));
      EXPECT_THAT(error_of([&] { (*self)->resume(); }),
                  HasSubstr("or for a function that runs on the thread's own stack"));
      Task inner([&] { EXPECT_THAT(error_of([&] { (*self)->suspend(); }), HasSubstr(text)); });
      inner->resume();
    });
    (*self)->suspend();  // now it can be suspended
  });
  self = &task;
  task->resume();
  EXPECT_TRUE(task->suspended());
  EXPECT_THAT(error_of([&] { task->suspend(); }), HasSubstr("this call is not inside the computation"));
  task->resume();
}

TEST(ThreadStack, ChainsOfFibersMaySuspendBetweenCalls) {
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

// ---- threads ------------------------------------------------------------------------------------

TEST(FiberThreads, EachThreadRunsItsOwnFibers) {
  RestoreLimits restore;
  set_most_guarded_stacks(20);  // so that both kinds of stacks occur
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

TEST(FiberThreads, FibersThatAreNotSuspendedMayEndOnAnotherThread) {
  std::unique_ptr<Task> unstarted, finished;
  std::thread([&] {
    unstarted = std::make_unique<Task>([] {});
    finished = std::make_unique<Task>([] {});
    (*finished)->resume();
  }).join();
  EXPECT_TRUE((*unstarted)->on_its_thread());  // it has not started, so that it has no thread yet
  (*unstarted)->resume();
  EXPECT_TRUE((*unstarted)->finished());
  auto another = std::make_unique<Task>([] {});
  std::thread([&] { another.reset(); }).join();
}

TEST(FiberThreads, ThreadLocalFibersOutliveTheCache) {
  const std::size_t before = mappings();
  for (int i = 0; i < 100; ++i)
    std::thread([] {
      // Constructed before the thread's first stack is cached, so that its destructor runs after
      // the cache's.
      static thread_local std::vector<std::unique_ptr<Task>> last;
      for (int j = 0; j < 3; ++j) last.push_back(std::make_unique<Task>([] {}));
      Task task([] {});
      task->resume();
    }).join();
  // None of the 400 stacks stayed; sanitizers map some memory of their own.
  EXPECT_LT(mappings(), before + 100);
}

// ---- loops in parallel --------------------------------------------------------------------------

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
      // Waits until a second thread has come.
      for (int wait = 0; wait < 10000; ++wait) {
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

TEST(FiberParallel, ExceptionsPropagateOutOfParallelLoops) {
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

TEST(FiberParallel, OperationsGiveTheSameResultsInAFiber) {
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
