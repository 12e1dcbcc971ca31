// Functions recorded as operations, and functions that cannot be recorded.
#include <sstream>
#include <thread>

#include <stave/stave.h>

#include "matchers.h"
#include "separate_backend.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

TEST(ElementwiseOp, RunsItsFunctionOnceForEachCombinationOfDtypes) {
  int runs = 0;
  const auto f = elementwise_op("f", [&](const Tensor& x) {
    ++runs;
    return sqrt(x) + 1;
  });
  const Tensor x = tensor({4.f, 9.f});
  for (int i = 0; i < 3; ++i) EXPECT_THAT(f(x), IsNear(tensor({3.f, 4.f}), 0));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(f(astype(x, int32)).dtype(), float32);
  EXPECT_EQ(f(astype(x, float64)).dtype(), float64);
  EXPECT_EQ(runs, 3);
  with(DefaultDtype(float64), [&] { EXPECT_EQ(f(astype(x, int32)).dtype(), float64); });
}

TEST(ElementwiseOp, TakesNumbersAndBroadcasts) {
  const auto power_mean =
      elementwise_op("power_mean", [](const Tensor& x, const Tensor& y) { return sqrt((x * x + y * y) / 2); });
  EXPECT_THAT(power_mean(tensor({1.f, 7.f}), 1), IsNear(tensor({1.f, 5.f}), 1e-6));
  EXPECT_EQ(power_mean(tensor({1.f, 7.f}), 1).dtype(), float32);
  EXPECT_EQ(power_mean(zeros({3, 1}), zeros({1, 4})).shape(), (Shape{3, 4}));
  EXPECT_THAT(message_of<ShapeError>([&] { power_mean(zeros({3}), zeros({4})); }), HasSubstr("power_mean"));
}

TEST(ElementwiseOp, UnrecordableFunctionsAreErrorsWithAReason) {
  const Tensor x = tensor({1.f, 2.f});
  const auto expect = [&](const auto& f, const char* words) {
    EXPECT_THAT(message_of<TransformError>([&] { elementwise_op("f", f)(x); }), HasSubstr(words));
  };
  expect([](const Tensor& t) { return t / sum(t); }, "sum is not an elementwise operation");
  expect([](const Tensor& t) { return t.item<float>() > 0 ? t : -t; }, "use where(condition, a, b) instead of if");
  expect([](const Tensor& t) { return t * (t.to_vector<float>().empty() ? 1 : 2); }, "is read on the host");
  expect([&](const Tensor& t) { return t * x; },
         "with a tensor of shape [2], but it sees one element at a time: make the tensor an argument");
  expect([](const Tensor&) { return Tensor(); }, "returns an empty Tensor");
  Tensor kept;
  elementwise_op("f", [&](const Tensor& t) { return kept = t; })(x);
  EXPECT_THAT(message_of<TransformError>([&] { kept + 1; }), HasSubstr("used outside of it"));
  grad([&](const Tensor& outer) {
    expect([&](const Tensor& t) { return t * outer; }, "captures a value that a transform traces");
    return sum(outer);
  })(Tensor(1.f));
  const Tensor scale(3.f);
  EXPECT_THAT(elementwise_op("f", [&](const Tensor& t) { return t * scale; })(x), IsNear(tensor({3.f, 6.f}), 0));
}

TEST(ElementwiseOp, AppearsAsOneNamedOperation) {
  const auto hardshrink = elementwise_op("hardshrink", [](const Tensor& x) { return where(abs(x) > 0.5, x, 0); });
  std::ostringstream text;
  debug([&](const Tensor& x) { return hardshrink(x); }, {.out = &text})(tensor({1.f, 0.2f}));
  EXPECT_THAT(text.str(), HasSubstr("hardshrink {abs greater where} f32[2]"));
  check_op(hardshrink.op(), {});
}

TEST(ElementwiseOp, OnADeviceItsStepsRunOneByOne) {
  SeparateBackend backend(0);
  const auto f = elementwise_op("f", [](const Tensor& x) { return exp(x) * x; });
  const Tensor x = tensor({1.f, 0.2f});
  EXPECT_THAT(to(f(to(x, cuda(0))), cpu), IsNear(f(x), 0));
}

TEST(ElementwiseOp, MayBeUsedOnSeveralThreads) {
  const auto f = elementwise_op("f", [](const Tensor& x) { return exp(x) * x + 1; });
  const auto work = [&] {
    for (int i = 0; i < 50; ++i) {
      const Tensor x = full({10}, 0.5, i % 2 ? float32 : float64);
      EXPECT_EQ(grad([&](const Tensor& t) { return sum(f(t)); })(x).dtype(), x.dtype());
    }
  };
  std::thread other(work);
  work();
  other.join();
}

}  // namespace
