// Fibers alone, without operations or handlers. The guarantees of controllers rest on these.

#include "fiber_task.h"

#include <cfenv>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace fiber_test {

// ---- suspending and resuming --------------------------------------------------------------------

TEST(Fiber, RunsUntilItSuspendsAndResumes) {
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

TEST(Fiber, ReportsWhichFiberIsRunning) {
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

TEST(Fiber, UnstartedFiberIsDestroyedWithoutRunning) {
  bool ran = false;
  {
    Task task([&] { ran = true; });
  }
  EXPECT_FALSE(ran);
}

TEST(Fiber, NestedFibersSuspendTogetherAndResumeAtTheInnermost) {
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

TEST(Fiber, InnerFibersCanBeSuspendedAlone) {
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
  squares->resume();  // the thread takes a number as well
  task->resume();
  EXPECT_THAT(drawn, ElementsAre(0, 1, 9, 16));
  squares->resume();
  EXPECT_EQ(next, 25);
  squares->resume();
  EXPECT_TRUE(squares->finished());
  task->resume();
}

TEST(Fiber, SuspendedChainMayBeResumedByAnotherFiber) {
  std::vector<std::string> trace;
  Task *outer = nullptr, *second = nullptr;
  Task inner([&] {
    (*outer)->suspend();
    trace.push_back("inner again");
    (*second)->suspend();  // suspends to the new resumer, and takes `outer` along
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

TEST(Fiber, LocalsAreDestroyedOnlyWhenTheComputationEnds) {
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

// ---- misuse -------------------------------------------------------------------------------------

TEST(FiberErrors, ResumingInAWrongStateIsAnError) {
  Task *self = nullptr, *outer = nullptr;
  Task task(
      [&] { EXPECT_THAT(error_of([&] { (*self)->resume(); }), HasSubstr("is running, and this call is inside it")); });
  self = &task;
  task->resume();
  EXPECT_THAT(error_of([&] { task->resume(); }), HasSubstr("the computation has ended, and a Fiber runs only once"));

  Task inner([&] {
    EXPECT_THAT(error_of([&] { (*outer)->resume(); }), HasSubstr("is running, and this call is inside it"));
    (*outer)->suspend();
  });
  Task chain([&] { inner->resume(); });
  outer = &chain;
  chain->resume();
  EXPECT_THAT(error_of([&] { inner->resume(); }), HasSubstr("waits for a computation that it resumed"));
  EXPECT_FALSE(inner->suspended());
  chain->resume();
}

TEST(FiberErrors, SuspendingFromOutsideIsAnError) {
  Task other([] {});
  EXPECT_THAT(error_of([&] { other->suspend(); }), HasSubstr("this call is not inside the computation"));
  Task* self = nullptr;
  Task task([&] {
    EXPECT_THAT(error_of([&] { other->suspend(); }), HasSubstr("this call is not inside the computation"));
    (*self)->suspend();
  });
  self = &task;
  task->resume();
  EXPECT_THAT(error_of([&] { task->suspend(); }), HasSubstr("this call is not inside the computation"));
  task->resume();
  EXPECT_THAT(error_of([&] { task->suspend(); }), HasSubstr("this call is not inside the computation"));
}

TEST(FiberErrors, UseOnAnotherThreadIsAnError) {
  Task* self = nullptr;
  Task task([&] { (*self)->suspend(); });
  self = &task;
  task->resume();
  EXPECT_TRUE(task->on_its_thread());
  std::thread([&] {
    EXPECT_FALSE(task->on_its_thread());
    EXPECT_THAT(error_of([&] { task->resume(); }),
                HasSubstr("was started on another thread; resume it on that thread"));
    EXPECT_THAT(error_of([&] { task->suspend(); }), HasSubstr("this call is not inside the computation"));
  }).join();
  task->resume();
  EXPECT_TRUE(task->finished());
}

// ---- exceptions ---------------------------------------------------------------------------------

TEST(FiberExceptions, EachFiberRethrowsItsOwnException) {
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

TEST(FiberExceptions, UncaughtExceptionsAreCountedPerFiber) {
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

TEST(FiberExceptions, AreIndependentOfTheResumersCaughtException) {
  std::string caught;
  Task task([&] {
    // The resumer's exception is not visible in the fiber.
    EXPECT_FALSE(std::current_exception());
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

// ---- floating point -----------------------------------------------------------------------------

#ifdef __x86_64__
TEST(FiberFloats, RoundingModeIsPerFiberAndFlagsArePerThread) {
  volatile double zero = 0, third = 3;
  Task* self = nullptr;
  Task task([&] {
    std::fesetround(FE_UPWARD);
    (*self)->suspend();
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
    EXPECT_TRUE(std::fetestexcept(FE_INEXACT));  // raised outside meanwhile
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

}  // namespace fiber_test
