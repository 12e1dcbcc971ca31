// What it costs to hold the rest of a program: to suspend it and go on, and to begin it and drop it.
#include "bench.h"

namespace {

using namespace stave_bench;

struct Question {
  using Result = int;
};
struct Answers : Controls<Question> {
  void handle(Question&, Resumption<Question> rest) override { rest.resume_last(42); }
};
struct Drops : Controls<Question> {
  void handle(Question&, Resumption<Question> rest) override { rest.drop(); }
};

void suspend_resume(benchmark::State& state) {
  constexpr int length = 1000;
  Answers controller;
  const auto converse = [] {
    int sum = 0;
    for (int i = 0; i < length; ++i) sum += perform(Question());
    return sum;
  };
  measure(
      state, [&] { return with(controller, converse); }, length);
}

void drop(benchmark::State& state) {
  Drops controller;
  measure(state, [&] { return with(controller, [] { return perform(Question()); }); });
}

BENCHMARK(suspend_resume)->UseRealTime();
BENCHMARK(drop)->UseRealTime();

}  // namespace
