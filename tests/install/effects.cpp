// Effects without tensors: an interceptor, a controller that stops the program, and a generator.
#include <cstdio>
#include <memory>

#include <stave/core/effects/controller.h>
#include <stave/core/effects/error.h>
#include <stave/core/effects/scope.h>

namespace {

struct Rate {
  using Result = double;
};
struct Constant : stave::Handles<Rate> {
  double handle(Rate&) override { return 0.5; }
};
struct Yield {
  using Result = void;
  int value;
};
struct Generator : stave::Controls<Yield> {
  int value = 0;
  stave::Resumption<Yield> rest;
  void handle(Yield& yield, stave::Resumption<Yield> given) override {
    value = yield.value;
    rest = std::move(given);
  }
};

}  // namespace

int main() {
  Constant constant;
  const stave::Scope scope("main");
  bool right = stave::with(constant, [] { return stave::perform(Rate{}); }) == 0.5;
  const auto squares = std::make_shared<Generator>();
  stave::with(squares, [] {
    for (int i = 1;; ++i) stave::perform(Yield{i * i});
  });
  for (int i = 1; i <= 3; ++i) {
    right = right && squares->value == i * i;
    squares->rest.resume();
  }
  squares->rest = {};
  try {
    stave::perform(Rate{});
    right = false;
  } catch (const stave::TransformError&) {
  }
  std::puts(right ? "right" : "wrong");
  return right ? 0 : 1;
}
