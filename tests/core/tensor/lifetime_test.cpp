// After a transform all memory is as before: programs of every transform, programs that are too
// long for recursion, and threads.
#include <pthread.h>

#include <functional>
#include <thread>

#include <stave/stave.h>

#include "lifetime.h"
#include "matchers.h"

namespace lifetime_test {

using namespace stave;
using namespace stave_test;

TEST(Memory, IsReleasedAfterEveryTransform) {
  const Tensor x = linspace(0.1, 1, 300), rows = reshape(x, {30, 10});
  const auto f = [](T t) { return sum(sin(t) * exp(t) + square(t)); };
  const auto throws = [&](T t) { return f(t) + sum(t + zeros({7})); };
  const std::vector<std::pair<const char*, std::function<void()>>> programs{
      {"plain", [&] { f(x); }},
      {"grad", [&] { grad(f)(x); }},
      {"value_and_grad", [&] { value_and_grad(f)(x); }},
      {"vjp, not used", [&] { vjp(f, x); }},
      {"vjp, used twice",
       [&] {
         auto pull = vjp(f, x).second;
         pull(tensor(1.));
         pull(tensor(2.));
       }},
      {"jvp", [&] { jvp(f, x, x); }},
      {"vmap", [&] { vmap(f)(rows); }},
      {"jacfwd", [&] { jacfwd(f)(rows[0]); }},
      {"hessian", [&] { hessian(f)(rows[0]); }},
      {"hvp", [&] { hvp(f, x, x); }},
      {"grad of grad", [&] { grad([&](T t) { return sum(grad(f)(t)); })(x); }},
      {"vmap of grad", [&] { vmap(grad(f))(rows); }},
      {"grad of vmap", [&] { grad([&](T t) { return sum(vmap(f)(t)); })(rows); }},
      {"check_grads", [&] { check_grads(f, astype(x, float64), {.order = 2}); }},
      {"a throw", [&] { EXPECT_THROW(throws(x), ShapeError); }},
      {"a throw in grad", [&] { EXPECT_THROW(grad(throws)(x), ShapeError); }},
      {"a throw in jvp", [&] { EXPECT_THROW(jvp(throws, x, x), ShapeError); }},
      {"a throw in vmap", [&] { EXPECT_THROW(vmap(throws)(rows), ShapeError); }},
      {"a throw in vmap of grad of grad",
       [&] { EXPECT_THROW(vmap(grad([&](T t) { return sum(grad(throws)(t)); }))(rows), ShapeError); }},
      {"a throw in the backward pass", [&] {
         struct Throws : Handler {
           Outputs handle(Call& call) override {
             if (current_handlers().find("backward of") != std::string::npos && &call.op() == &op_cos)
               throw ShapeError("here");
             return perform(std::move(call));
           }
         } handler;
         EXPECT_THROW(with(handler, [&] { grad(f)(x); }), ShapeError);
       }}};
  for (const auto& [name, program] : programs) {
    program();  // The first run creates the objects that are made once.
    const std::size_t before = live();
    program();
    EXPECT_EQ(live(), before) << name;
    EXPECT_EQ(live_notes(x), 0) << name;
    EXPECT_EQ(error_context(), "") << name;
  }
}

TEST(Memory, PullbackWorksAfterAnExceptionInItsBackwardPass) {
  struct ThrowsOnce : Handler {
    bool thrown = false;
    Outputs handle(Call& call) override {
      if (!thrown && &call.op() == &op_scale) {
        thrown = true;
        throw ShapeError("here");
      }
      return perform(std::move(call));
    }
  } handler;
  const Tensor x = tensor({1., 2.});
  const auto [out, pullback] = vjp([](T t) { return sum(sin(t) * t + exp(t)); }, x);
  const Tensor expected = std::get<0>(pullback(tensor(1.)));
  EXPECT_THROW(with(handler, [&pullback = pullback] { pullback(tensor(1.)); }), ShapeError);
  // No cotangent was left behind.
  EXPECT_THAT(std::get<0>(pullback(tensor(1.))), Equals(expected));
}

TEST(Memory, ATapeLivesAsLongAsItsPullback) {
  const std::size_t before = live();
  {
    const Tensor x = ones(one_mib);
    auto made = vjp([](T t) { return sum(square(tanh(t))); }, x);
    EXPECT_GE(live(), before + 2 * MiB);  // x and tanh(x)
    auto copy = made.second;
    made.second = copy;
    made.first = Tensor();
    EXPECT_GE(live(), before + 2 * MiB);
  }
  EXPECT_EQ(live(), before);
}

TEST(Memory, AThousandStepsLeaveNoNotes) {
  const auto step = [](T x) {
    const Tensor y = x * 0.999 + 0.001;
    return std::pair(sum(y * y), y);
  };
  const auto unchanged = [](T x) { return std::pair(sum(x * x), x); };
  const auto all_notes = [](T x) {
    int count = 0;
    for (const Note* note = x.node().notes; note; note = note->next) ++count;
    return count;
  };
  Tensor x = ones({100}), same = x;
  const std::size_t before = live();
  for (int i = 0; i < 1000; ++i) {
    x = grad(step)(x).second;
    same = grad(unchanged)(same).second;
    ASSERT_EQ(live_notes(x), 0);
    ASSERT_EQ(live_notes(same), 0);
    ASSERT_LE(all_notes(same), 1);  // Ended notes do not accumulate either.
  }
  x = jvp([](T t) { return t * 2; }, x, x).first;
  EXPECT_EQ(live_notes(x), 0);
  EXPECT_LE(live(), before + 2 * 400);
}

// ---- long programs ------------------------------------------------------------------------------

/// Runs `body` on a stack of 8 MiB, whatever the limit of the machine is.
void on_an_8_mib_stack(std::function<void()> body) {
  pthread_attr_t attributes;
  pthread_t thread;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 8 * MiB), 0);
  const auto run = [](void* argument) -> void* {
    (*static_cast<std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &body), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

Tensor chain(T x, int length) {
  Tensor y = x;
  for (int i = 0; i < length; i += 2) y = (y + 1e-6) * 1;  // two operations
  return y;
}

constexpr int million = 1000000;

TEST(LongPrograms, GradOfAMillionOperations) {
  on_an_8_mib_stack([] {
    const std::size_t before = live();
    EXPECT_THAT(grad([](T x) { return square(chain(x, million)); })(tensor(1., float64)), IsNumber(2 * 1.5, 1e-9));
    EXPECT_EQ(live(), before);
  });
}

TEST(LongPrograms, UnusedTapeOfAMillionOperationsIsFreed) {
  on_an_8_mib_stack([] {
    const std::size_t before = live();
    vjp([](T x) { return chain(x, million); }, tensor(1.));
    EXPECT_EQ(live(), before);
    const auto throws = [](T x) {
      const Tensor y = chain(x, million / 4);
      return y + zeros({2}) + zeros({3});
    };
    EXPECT_THROW(grad(throws)(tensor(1.)), ShapeError);
    EXPECT_EQ(live(), before);
    Tensor kept;  // Its note is the last owner of the tape.
    EXPECT_THROW(grad([&](T x) -> Tensor {
                   kept = chain(x, million / 4);
                   throw ShapeError("here");
                 })(tensor(1.)),
                 ShapeError);
    EXPECT_EQ(live_notes(kept), 0);
    kept = Tensor();
    EXPECT_EQ(live(), before);
  });
}

TEST(LongPrograms, NestedTransformsOfLongProgramsNeedNoDeepStack) {
  constexpr int length = million / 10;
  on_an_8_mib_stack([] {
    const Tensor x = tensor(1., float64);
    const std::size_t before = live();
    const auto f = [](T t) { return square(chain(t, length)); };
    EXPECT_THAT(jvp(f, x, x).second, IsNumber(2 * 1.05, 1e-9));
    EXPECT_THAT(grad(grad(f))(x), IsNumber(2, 1e-9));
    EXPECT_THAT(jvp(grad(f), x, x).second, IsNumber(2, 1e-9));
    EXPECT_THAT(grad([&](T t) { return jvp(f, t, t).second; })(x), IsNumber(2 * 1.05 + 2, 1e-9));
    EXPECT_THAT(vmap(grad(f))(tensor({1., 2.}, float64)), IsNear(tensor({2.1, 4.1}, float64), 1e-9));
    EXPECT_THAT(grad([&](T t) { return sum(vmap(f)(t)); })(tensor({1., 2.}, float64)),
                IsNear(tensor({2.1, 4.1}, float64), 1e-9));
    EXPECT_EQ(live(), before);
  });
}

// Every value of this graph is used twice. The backward pass visits each entry once, not 2^n times.
TEST(LongPrograms, SharedValuesAreWalkedOnce) {
  const auto f = [](T x) {
    Tensor y = x;
    for (int i = 0; i < 1000; ++i) y = 0.5 * y + 0.5 * y;
    return y;
  };
  CountOps count;
  EXPECT_THAT(with(count, [&] { return grad(f)(tensor(1.)); }), IsNumber(1));
  EXPECT_LT(count.n, 20000);
}

// ---- threads ------------------------------------------------------------------------------------

TEST(Threads, RunTransformsIndependently) {
  const Tensor shared = linspace(0.1, 1, 50);
  const auto f = [](T x) { return sum(sin(x) * x); };
  const Tensor expected = hvp(f, shared, shared);
  std::vector<Tensor> results(4);
  std::vector<std::thread> threads;
  for (Tensor& result : results)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) result = hvp(f, shared, shared);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& result : results) EXPECT_THAT(result, Equals(expected));
}

// A value under grad that dies on another thread leaves its note to the tape.
TEST(Threads, MayDestroyValuesOfARunningTransform) {
  const std::size_t before = live();
  const Tensor g = grad([](T x) {
    Tensor y = x * 2.;
    std::thread([z = std::move(y)]() mutable { z = Tensor(); }).join();
    return sum(x * 3.);
  })(ones({100}));
  EXPECT_THAT(g, Equals(full({100}, 3.)));
  EXPECT_EQ(live(), before + 400);
}

}  // namespace lifetime_test
