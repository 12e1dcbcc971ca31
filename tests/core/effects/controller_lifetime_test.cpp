// Computations that outlive their surroundings: transforms, handlers, threads, the controller that
// dropped them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include <stave/core/effects/sanitize.h>
#include <stave/stave.h>

#include "matchers.h"
#include "witness.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Pause {
  using Result = void;
};
struct Keeper : Controls<Pause> {
  Resumption<Pause> rest;
  void handle(Pause&, Resumption<Pause> given) override { rest = std::move(given); }
};

// Suspends a computation inside the `handle` of a transform, which runs the function of a
// higher-order operation.
template <class Function, class Transform>
void expect_end_with(const char* name, Function function, Transform transform) {
  const auto keeper = std::make_shared<Keeper>();
  int destroyed = 0;
  bool went_on = false;
  transform([&](const Tensor& x) {
    with(keeper, [&, x] {
      const Witness witness{destroyed};
      function(x);
      went_on = true;
    });
    return x * x;
  });
  EXPECT_EQ(destroyed, 1) << name;  // it unwound when the transform ended
  EXPECT_FALSE(went_on) << name;
  EXPECT_THAT([&] { std::exchange(keeper->rest, {}).resume(); },
              ThrowsMessage<TransformError>(HasSubstr(std::string("was suspended inside ") + name)));
}

TEST(Outlives, ComputationSuspendedInATransformEndsWithIt) {
  const auto body = [](const Tensor& v) {
    const Tensor s = sin(v);
    perform(Pause{});
    return s * v;
  };
  const auto ruled = custom_vjp(
      body, [body](const Tensor& v) { return std::pair(body(v), v); },
      [](const Tensor& v, const Tensor& g) { return g * v; });
  const auto tangent = custom_jvp(body, [body](const Tensor& v, const Tensor& d) { return std::pair(body(v), d); });
  const Tensor x = tensor(3., float64), xs = tensor({3., 4.}, float64);
  const auto under_grad = [&](auto f) { EXPECT_EQ(grad(f)(x).template item<double>(), 6); };
  const auto under_jvp = [&](auto f) { EXPECT_EQ(jvp(f, x, ones_like(x)).second.template item<double>(), 6); };
  const auto under_vmap = [&](auto f) { EXPECT_THAT(vmap(f)(xs).template to_vector<double>(), ElementsAre(9, 16)); };
  const auto each = [&](const auto& function) {
    expect_end_with("grad", function, under_grad);
    expect_end_with("jvp", function, under_jvp);
    expect_end_with("vmap", function, under_vmap);
  };
  each(checkpoint(body));
  each(ruled);
  each(tangent);
}

struct Ask {
  using Result = int;
};
// The end of a user's handler that is lent (by reference) ends the computation; a shared handler
// lives on.
TEST(Outlives, ComputationEndsWithABorrowedHandlerNotWithASharedOne) {
  struct Passes : Handler {
    int finished = 0;
    Outputs handle(Call& call) override {
      Outputs outputs = perform(std::move(call));
      finished += outputs[0].defined();
      return outputs;
    }
    std::string describe() const override { return "passes"; }
  };
  const auto body = [](const Tensor& v) {
    perform(Pause{});
    return v + 1;
  };
  {
    const auto keeper = std::make_shared<Keeper>();
    Passes lent;
    with(lent, [&] { with(keeper, [&] { return checkpoint(body)(tensor(1.)); }); });
    EXPECT_THAT([&] { std::exchange(keeper->rest, {}).resume(); },
                ThrowsMessage<TransformError>(HasSubstr("was suspended inside passes, which has ended")));
  }
  const auto keeper = std::make_shared<Keeper>();
  const auto shared = std::make_shared<Passes>();
  Tensor result;
  with(shared, [&] {
    with(keeper, [&] {
      result = checkpoint(body)(tensor(1.));
      return 0;
    });
  });
  std::exchange(keeper->rest, {}).resume();
  EXPECT_EQ(result.item<int>(), 2);
  EXPECT_EQ(shared->finished, 2);  // the addition, and the checkpoint
}

TEST(Outlives, ResumingAfterAnOuterControllerEndedIsAnError) {
  struct Question {
    using Result = int;
  };
  struct Other : Controls<Question> {
    void handle(Question&, Resumption<Question> rest) override { rest.resume_last(1); }
    std::string describe() const override { return "Other"; }
  };
  const auto keeper = std::make_shared<Keeper>();
  int destroyed = 0;
  const auto paused = checkpoint([&](const Tensor& x) {
    const Witness witness{destroyed};
    perform(Pause{});
    return sin(x);
  });
  {
    Other other;
    with(other, [&] { with(keeper, [&] { paused(tensor(0.5)); }); });
  }
  EXPECT_EQ(destroyed, 1);
  EXPECT_THAT([&] { keeper->rest.resume(); },
              ThrowsMessage<TransformError>(HasSubstr("was suspended inside Other, which has ended")));
  keeper->rest = {};
}

TEST(Outlives, WithSharedControllerGivesItsResultLater) {
  const auto keeper = std::make_shared<Keeper>();
  const auto result = with(keeper, [] {
    perform(Pause{});
    return 7;
  });
  EXPECT_FALSE(result);
  std::exchange(keeper->rest, {}).resume();
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, 7);
}

// ---- threads ------------------------------------------------------------------------------------

TEST(Threads, ResumptionMayBeDestroyedOnAnotherThread) {
  int destroyed = 0;
  const auto keeper = std::make_shared<Keeper>();
  with(keeper, [&destroyed] {
    const Witness witness{destroyed};
    perform(Pause{});
  });
  std::thread([rest = std::move(keeper->rest)]() mutable { rest = {}; }).join();
  EXPECT_EQ(destroyed, 0);
  with(keeper, [] {});  // this thread begins another computation
  EXPECT_EQ(destroyed, 1);
}

TEST(Threads, SuspendedComputationUnwindsWhenItsThreadEnds) {
  int destroyed = 0;
  const auto keeper = std::make_shared<Keeper>();
  std::thread([&] {
    with(keeper, [&destroyed] {
      const Witness witness{destroyed};
      perform(Pause{});
    });
  }).join();
  EXPECT_EQ(destroyed, 1);
  EXPECT_THAT([&] { keeper->rest.resume(); }, ThrowsMessage<TransformError>(HasSubstr("another thread")));
  EXPECT_THAT([&] { keeper->rest.drop(); }, ThrowsMessage<TransformError>(HasSubstr("another thread")));
  keeper->rest = {};
}

TEST(Threads, ThreadsMayDestroyResumptionsOfEachOther) {
  constexpr int count = 4, each = 200;
  std::atomic<int> destroyed{0};
  struct Counts {
    std::atomic<int>& destroyed;
    ~Counts() { ++destroyed; }
  };
  std::mutex mutex;
  std::vector<Resumption<Pause>> common;
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t)
    threads.emplace_back([&] {
      const auto keeper = std::make_shared<Keeper>();
      for (int i = 0; i < each; ++i) {
        with(keeper, [&destroyed] {
          const Counts counts{destroyed};
          perform(Pause{});
        });
        std::vector<Resumption<Pause>> old;
        const std::lock_guard lock(mutex);
        common.push_back(std::move(keeper->rest));
        if (i % 7 == 6) old.swap(common);  // destroys resumptions of other threads as well
      }
    });
  for (std::thread& thread : threads) thread.join();
  common.clear();
  EXPECT_EQ(destroyed, count * each);
}

// ---- the stack ----------------------------------------------------------------------------------

struct Resumes : Controls<Ask> {
  int handled = 0;
  void handle(Ask&, Resumption<Ask> rest) override {
    ++handled;
    rest.resume(1);  // the rest runs inside this call
  }
};

TEST(Stack, EndlessResumeInHandleThrowsBeforeTheStackOverflows) {
  const auto forever = [] {
    for (int i = 0; i < 1'000'000; ++i) perform(Ask{});
  };
  Resumes resumes;
  // ThreadSanitizer tracks at most 65,536 calls.
  if (!STAVE_TSAN) {
    EXPECT_THAT([&] { with(resumes, forever); }, ThrowsMessage<TransformError>(HasSubstr("resume_last")));
    EXPECT_GT(resumes.handled, 1000);
  }
  Keeper keeper;  // `with` runs the body on a fiber's stack
  Resumes inside;
  with(keeper,
       [&] { EXPECT_THAT([&] { with(inside, forever); }, ThrowsMessage<TransformError>(HasSubstr("resume_last"))); });
  EXPECT_GT(inside.handled, 10);
  // The handler still works.
  EXPECT_EQ(*with(resumes, [] { return perform(Ask{}); }), 1);
}

// ---- cancelling ---------------------------------------------------------------------------------

// A destructor that runs because of an outer drop is suspended by an inner controller, and resumes
// when the outer computation is gone.
TEST(Cancelled, IsThrownOnlyInDroppedComputations) {
  struct Stop {
    using Result = void;
  };
  struct Drops : Controls<Stop> {
    void handle(Stop&, Resumption<Stop> rest) override { rest.drop(); }
  } outer;
  const auto inner = std::make_shared<Keeper>();
  bool went_on = false;
  EXPECT_FALSE(with(outer, [&] {
    with(inner, [] {
      struct AtEnd {
        ~AtEnd() { perform(Pause{}); }
      } at_end;
      perform(Stop{});
    });
    went_on = true;
  }));
  EXPECT_FALSE(went_on);
  EXPECT_NO_THROW(std::exchange(inner->rest, {}).resume());
}

}  // namespace
