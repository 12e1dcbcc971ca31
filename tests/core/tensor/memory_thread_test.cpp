// Threads that run different nests of handlers over the same tensors at the same time. The test is
// meant for the thread sanitizer: each program has only one right result, so the main check is that
// the sanitizer reports nothing.

#include <algorithm>
#include <atomic>
#include <functional>
#include <sstream>
#include <thread>

#include <stave/core/effects/sanitize.h>
#include <stave/stave.h>

#include "handlers/transforms/anew/jvp.h"
#include "handlers/transforms/anew/shift_reset.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using T = const Tensor&;

const Tensor shared_x = linspace(0.1, 1, 24) * 1;  // a global tensor
const Tensor shared_rows = reshape(shared_x, {4, 6});

Tensor f(T x) { return sum(sin(x) * x + square(x)); }
Tensor of_rows(const Tensor& rows, const std::function<Tensor(T)>& g) { return vmap(g)(rows); }

struct PassesOn : Controller {
  void handle(Call& call, Resumption<Call> rest) override { rest.resume_last(perform(std::move(call))); }
};

struct Ask {
  using Result = double;
};
struct Answers : Controls<Ask> {
  void handle(Ask&, Resumption<Ask> rest) override { rest.resume(2.); }
};

using Program = std::function<Tensor()>;

std::vector<Program> programs(std::ostream& lines) {
  return {[] { return grad(f)(shared_x); },
          [] { return of_rows(shared_rows, grad(f)); },
          [] { return jvp(grad(f), shared_x, shared_x).second; },
          [] {
            PassesOn controller;
            return *with(controller, [] { return vmap(grad(f))(shared_rows); });
          },
          [] {
            Answers answers;
            return *with(answers, [] { return grad([](T x) { return f(x) * perform(Ask{}); })(shared_x); });
          },
          [] { return grad([](T x) { return checkpoint(f)(x * shared_x); })(shared_x); },
          [&lines] { return debug(vmap(grad(f)), {.out = &lines, .values = true})(shared_rows); },
          [] { return jvp([](T x) { return anew::grad(f, x); }, shared_x, shared_x).second; }};
}

// The lines of `text`, sorted. Threads may interleave lines, but each line is written in one piece.
std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST(Threads, RunDifferentNestsOverTheSameTensors) {
  std::ostringstream alone;
  std::vector<Tensor> expected;
  for (const Program& program : programs(alone)) expected.push_back(program());

  constexpr int rounds = 20;
  std::ostringstream together;
  const std::vector<Program> all = programs(together);
  ASSERT_EQ(all.size(), 8u);
  std::vector<std::vector<Tensor>> results(all.size());
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < all.size(); ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < rounds * all.size(); ++i) results[t].push_back(all[(t + i) % all.size()]());
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < all.size(); ++t)
    for (std::size_t i = 0; i < results[t].size(); ++i)
      EXPECT_THAT(results[t][i], Equals(expected[(t + i) % all.size()])) << "thread " << t << ", run " << i;
  EXPECT_EQ(live_notes(shared_x), 0);

  std::string repeated;
  for (std::size_t i = 0; i < rounds * all.size(); ++i) repeated += alone.str();
  EXPECT_EQ(sorted_lines(together.str()), sorted_lines(repeated)) << "debug's lines were torn, or some are missing";
}

// After a thread's transforms have ended, other threads may read
// and destroy the values made under them.
TEST(Threads, MayUseTensorsOfEndedTransforms) {
  std::vector<Tensor> made(8);
  std::vector<std::thread> makers, readers;
  for (Tensor& tensor : made)
    makers.emplace_back([&tensor] {
      grad([&](T x) {
        tensor = x * 2.;
        return sum(tensor);
      })(shared_x);
    });
  for (std::thread& thread : makers) thread.join();
  for (std::size_t t = 0; t < made.size(); ++t)
    readers.emplace_back([&made, t] {
      for (std::size_t i = 0; i < made.size(); ++i)
        EXPECT_THAT(grad(f)(made[(t + i) % made.size()]), Equals(grad(f)(shared_x * 2.)));
    });
  for (std::thread& thread : readers) thread.join();
  readers.clear();
  for (Tensor& tensor : made) readers.emplace_back([dies = std::move(tensor)] {});
  for (std::thread& thread : readers) thread.join();
}

// ---- pullbacks ----------------------------------------------------------------------------------

/// Runs `body` on `count` threads at the same time and returns the sum of its
/// results, the number of wrong values.
template <class Body>
int wrong_on_threads(int count, Body body) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 1; t <= count; ++t) threads.emplace_back([&, t] { wrong += body(t); });
  for (std::thread& thread : threads) thread.join();
  return wrong;
}
constexpr int calls = STAVE_TSAN ? 50 : 1000;

bool is(T x, double value) { return array_equal(x, full_like(x, value)); }

TEST(Pullbacks, RunOnManyThreadsAtOnce) {
  // d (x^2 + 3 x) = 2 x + 3, which is 7 at 2.
  const auto pullback = vjp([](T x) { return x * x + x * 3; }, full({5}, 2.)).second;
  EXPECT_EQ(wrong_on_threads(4,
                             [&](int t) {
                               int wrong = 0;
                               for (int i = 0; i < calls; ++i)
                                 wrong += !is(std::get<0>(pullback(full({5}, 1. * t))), 7 * t);
                               return wrong;
                             }),
            0);
}

TEST(Pullbacks, OfLinearMapsRunOnManyThreadsAtOnce) {
  // The derivative is 12 dx.
  const auto [y, df] = linearize([](T x) { return x * x * x; }, full({5}, 2.));
  EXPECT_EQ(wrong_on_threads(4,
                             [&df = df](int t) {
                               int wrong = 0;
                               for (int i = 0; i < calls; ++i) wrong += !is(df(full({5}, 1. * t)), 12 * t);
                               return wrong;
                             }),
            0);
}

// The threads own the pullback together and end in any order. The last one destroys the tape.
TEST(Pullbacks, RunAndEndOnManyThreads) {
  for (int i = 0; i < calls / 10; ++i) {
    auto pullback = std::make_shared<decltype(vjp(f, shared_x).second)>(vjp(f, shared_x).second);
    const Tensor expected = grad(f)(shared_x);
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back(
          [pullback, &expected] { EXPECT_THAT(std::get<0>((*pullback)(tensor(1.f))), Equals(expected)); });
    pullback = nullptr;
    for (std::thread& thread : threads) thread.join();
  }
}

// A handler around the backward pass calls the same pullback again.
TEST(Pullbacks, MayBeCalledWithinTheirOwnBackwardPass) {
  struct Recurses : Handler {
    std::function<Tensor()> pull;
    std::vector<Tensor> found;
    Outputs handle(Call& call) override {
      if (std::function<Tensor()> once = std::exchange(pull, nullptr)) found.push_back(once());
      return perform(std::move(call));
    }
  } recurses;
  const auto pullback = vjp([](T x) { return x * x + x * 3; }, full({5}, 2.)).second;
  recurses.pull = [&] { return std::get<0>(pullback(full({5}, 10.))); };
  EXPECT_THAT(with(recurses, [&] { return std::get<0>(pullback(full({5}, 1.))); }), Equals(full({5}, 7.)));
  EXPECT_THAT(recurses.found, testing::ElementsAre(Equals(full({5}, 70.))));
}

// ---- notes --------------------------------------------------------------------------------------

// The pullback's Notes end on another thread, while the values that carry the notes
// end on the thread that made them.
TEST(NotesOnThreads, PullbackAndItsValuesMayEndOnDifferentThreads) {
  const std::size_t before = memory_stats().live_bytes;
  for (int i = 0; i < calls / 10; ++i) {
    std::vector<Tensor> kept;
    auto pullback = vjp(
                        [&](T x) {
                          Tensor y = x;
                          for (int j = 0; j < 100; ++j) kept.push_back(y = sin(y));
                          return y;
                        },
                        ones({8}))
                        .second;
    std::atomic<int> ready{0};
    std::thread other([&ready, last = std::move(pullback)]() mutable {
      for (++ready; ready < 2;) {
      }
      const auto ends = std::move(last);
    });
    for (++ready; ready < 2;) {
    }
    for (Tensor& value : kept) {
      static_cast<void>(clone_node(value));
      value = Tensor();
    }
    other.join();
  }
  EXPECT_EQ(memory_stats().live_bytes, before);
}

TEST(NotesOnThreads, NotesOfAHandlerMayEndOnAnotherThread) {
  for (int i = 0; i < calls / 10; ++i) {
    auto notes = std::make_unique<Notes<Tensor>>("test");
    std::vector<Tensor> noted;
    for (int j = 0; j < 100; ++j) noted.push_back(notes->put(ones({8}), j % 2 ? noted.back() : ones({8})));
    notes->owner().running = false;
    std::thread other([ends = std::move(notes)] {});
    noted.clear();
    other.join();
  }
}

TEST(NotesOnThreads, LabelsFollowTheirValuesAcrossThreads) {
  const auto one = [](const Tensor& x) { return grad([](const Tensor& y) { return sum(label(y * y, "square")); })(x); };
  const std::size_t before = stave_detail::pool_stats().live_bytes;
  for (int i = 0; i < calls; ++i) {
    std::vector<Tensor> labelled;
    for (int j = 0; j < 100; ++j) labelled.push_back(label(ones({2}), "of one thread"));
    std::thread other([&labelled, &one, mine = labelled]() mutable {
      EXPECT_EQ(label_of(mine[0]) + label_of(label(mine[1], "another")), "of one threadanother");
      EXPECT_EQ(label_of(one(mine[2])), "");
      mine.clear();
      labelled.clear();
    });
    other.join();
  }
  EXPECT_LT(stave_detail::pool_stats().live_bytes, before + 100 * 64 * static_cast<std::size_t>(calls) / 2);
}

TEST(NotesOnThreads, EndAtOnceThoughTheirInstallationEndsElsewhere) {
  auto notes = std::make_unique<Notes<Tensor>>("test");
  const std::size_t before = memory_stats().live_bytes;
  Tensor x = notes->put(tensor(1.), zeros({1000}));
  std::thread([&] { notes = nullptr; }).join();
  EXPECT_EQ(live_notes(x), 0);
  // The value that the note held is freed too.
  EXPECT_EQ(memory_stats().live_bytes, before + sizeof(float));
}

}  // namespace
