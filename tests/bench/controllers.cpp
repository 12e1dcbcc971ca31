// The cost of effects without tensors: an answer in place, and controllers that hold the rest of a
// program: to suspend and resume a computation, to start and end one, and to drop one.
#include "bench.h"

namespace {

using namespace stave_bench;

struct Question {
  using Result = int;
};
struct AnswersInPlace : Handles<Question> {
  int handle(Question&) override { return 42; }
};
struct Other {
  using Result = int;
};
struct Idle : Handles<Other> {
  int handle(Other&) override { return 42; }
};
struct Answers : Controls<Question> {
  void handle(Question&, Resumption<Question> rest) override { rest.resume_last(42); }
};
struct Drops : Controls<Question> {
  void handle(Question&, Resumption<Question> rest) override { rest.drop(); }
};

constexpr int length = 1000;

// Not inlined, so that the compiler does not see the handler.
[[gnu::noinline]] int converse() {
  int sum = 0;
  for (int i = 0; i < length; ++i) sum += perform(Question());
  return sum;
}

/// Runs `converse` under `idle` handlers of another effect.
int converse_under(int idle) {
  if (idle == 0) return converse();
  Idle handler;
  return with(handler, [idle] { return converse_under(idle - 1); });
}

void perform_in_place(benchmark::State& state) {
  AnswersInPlace handler;
  measure(
      state, [&] { return with(handler, [&] { return converse_under(static_cast<int>(state.range(0))); }); }, length);
}

void suspend_resume(benchmark::State& state) {
  Answers controller;
  measure(
      state, [&] { return with(controller, converse); }, length);
}

void create_run_end(benchmark::State& state) {
  Answers controller;
  measure(state, [&] { return with(controller, [] { return 42; }); });
}

void drop(benchmark::State& state) {
  Drops controller;
  measure(state, [&] { return with(controller, [] { return perform(Question()); }); });
}

BENCHMARK(perform_in_place)->Arg(0)->Arg(9)->UseRealTime();
BENCHMARK(suspend_resume)->UseRealTime();
BENCHMARK(create_run_end)->UseRealTime();
BENCHMARK(drop)->UseRealTime();

}  // namespace
