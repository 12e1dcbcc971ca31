// Threads that run different nests of handlers at once, over the same tensors. Made for the thread sanitizer: each of these programs
// has one right result, so what this test asks is mostly that the sanitizer stays silent.

#include <algorithm>
#include <functional>
#include <sstream>
#include <thread>

#include <stave/stave.h>

#include "anew/jvp.h"
#include "anew/shift_reset.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using T = const Tensor&;

const Tensor shared_x = linspace(0.1, 1, 24) * 1;  // a global
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

// A part of a run's lines; each was written in one piece.
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

// Values made under one thread's transforms may be read and may die on others once these have ended.
TEST(Threads, HandTensorsOn) {
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

}  // namespace
