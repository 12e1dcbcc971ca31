// operations_of: the operations of a function as a range. Reading, answering and leaving the range,
// under transforms and around them.
#include <ranges>

#include <stave/stave.h>

#include "matchers.h"
#include "witness.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;

static_assert(std::ranges::input_range<OperationRange<Tensor>>);

Tensor f(const Tensor& x) {
  const Tensor s = sin(x);
  return sum(s * x);
}

template <class R>
std::vector<std::string> names_of(R&& operations) {
  std::vector<std::string> names;
  for (PendingOperation& op : operations) names.push_back(op.call().op().name);
  return names;
}

const Tensor x3 = tensor({0.5, 1., 2.}, float64);

// ---- listing operations -------------------------------------------------------------------------

TEST(OperationsOf, ListsOperationsInOrder) {
  auto operations = operations_of(f, x3);
  EXPECT_THAT(names_of(operations), ElementsAre("sin", "multiply", "sum"));
  ASSERT_TRUE(operations.result());
  EXPECT_THAT(*operations.result(), Equals(f(x3)));
}

TEST(OperationsOf, ResultIsEmptyUntilTheEnd) {
  auto operations = operations_of(f, x3);
  EXPECT_FALSE(operations.result());
  for (const PendingOperation& op : operations) {
    EXPECT_FALSE(operations.result()) << op.call().op().name;
    EXPECT_EQ(op.call().input(0).dtype(), float64);
  }
  EXPECT_TRUE(operations.result());
}

TEST(OperationsOf, FunctionWithoutOperationsGivesAnEmptyRange) {
  auto operations = operations_of([](int n) { return n + 1; }, 2);
  EXPECT_TRUE(operations.begin() == operations.end());
  EXPECT_EQ(operations.result(), 3);
}

TEST(OperationsOf, OfVoidGivesMonostate) {
  Tensor y;
  auto operations = operations_of([&] { y = sin(x3); });
  EXPECT_THAT(names_of(operations), ElementsAre("sin"));
  EXPECT_EQ(operations.result(), std::monostate());
  EXPECT_THAT(y, Equals(sin(x3)));
}

TEST(OperationsOf, AcceptsOperationNames) {
  EXPECT_THAT(names_of(operations_of(sin, x3)), ElementsAre("sin"));
  EXPECT_THAT(names_of(operations_of(add, x3, x3)), ElementsAre("add"));
}

TEST(OperationsOf, FunctionRunsInterleavedWithTheLoop) {
  std::vector<std::string> log;
  auto operations = operations_of(
      [&](const Tensor& x) {
        log.push_back("starts");
        const Tensor y = sin(x);
        log.push_back("between");
        return cos(y);
      },
      x3);
  log.push_back("range");
  for (const PendingOperation& op : operations) log.push_back(op.call().op().name);
  EXPECT_THAT(log, ElementsAre("range", "starts", "sin", "between", "cos"));
}

TEST(OperationsOf, MillionOperationsNeedConstantStack) {
  const auto steps = [](Tensor x) {
    for (int i = 0; i < 1'000'000; ++i) x = -std::move(x);
    return x;
  };
  int count = 0;
  auto operations = operations_of(steps, tensor(1.));
  for ([[maybe_unused]] const PendingOperation& op : operations) ++count;
  EXPECT_EQ(count, 1'000'000);
  EXPECT_EQ(operations.result()->item<float>(), 1);
}

// ---- answering operations -----------------------------------------------------------------------

TEST(OperationsOf, AnswerReplacesTheOperation) {
  auto operations = operations_of(f, x3);
  CountOps below;
  with(below, [&] {
    for (PendingOperation& op : operations)
      if (op.call().op().id == OpId::sin) op.answer(op.call().input(0));
  });
  EXPECT_THAT(*operations.result(), IsNumber(0.25 + 1 + 4));  // sum(x * x)
  EXPECT_EQ(below.n, 2);                                      // sin was never computed
}

TEST(OperationsOf, TheLastAnswerCounts) {
  auto operations = operations_of(sin, x3);
  for (PendingOperation& op : operations) {
    op.answer(zeros_like(x3));
    op.answer(2 * x3);
  }
  EXPECT_THAT(*operations.result(), Equals(2 * x3));
}

TEST(OperationsOf, AnswersMayHaveAnyLayoutAndDtype) {
  const Tensor x = from(std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor flipped = matrix_transpose(from(std::vector<std::int32_t>{6, 3, 5, 2, 4, 1}, {3, 2}));
  for (const Tensor& answer : {flipped, x(slice(none, none, -1), slice(none, none, -1)), broadcast_to(x[0], {2, 3})}) {
    auto operations = operations_of([](const Tensor& y) { return 2 * -y; }, x);
    for (PendingOperation& op : operations)
      if (op.call().op().id == OpId::negative) op.answer(answer);
    EXPECT_THAT(*operations.result(), Equals(2 * answer));
  }
  auto empty = operations_of([](const Tensor& y) { return sum(-y); }, zeros({0, 3}, int64));
  for (PendingOperation& op : empty)
    if (op.call().op().id == OpId::negative) op.answer(zeros({0, 3}, int64));
  EXPECT_THAT(*empty.result(), Equals(zeros({}, int64)));
}

TEST(OperationsOf, WrongAnswersAreErrorsAndChangeNothing) {
  auto operations = operations_of(f, x3);
  auto op = operations.begin();
  EXPECT_THAT(
      message_of<TransformError>([&] { op->answer(zeros({2}, float64)); }),
      HasSubstr("operations_of: sin has 1 output(s), the first float64 [3]; the answer has 1, the first float64 [2]"));
  EXPECT_THAT(message_of<TransformError>([&] { op->answer(zeros({3}, float32)); }),
              HasSubstr("the answer has 1, the first float32 [3]"));
  EXPECT_THAT(message_of<TransformError>([&] { op->answer(Outputs{}); }),
              HasSubstr("the answer has 0, the first none"));
  Outputs two;
  two.push_back(x3);
  two.push_back(x3);
  EXPECT_THAT(message_of<TransformError>([&] { op->answer(two); }),
              HasSubstr("the answer has 2, the first float64 [3]"));
  EXPECT_THAT(message_of<TransformError>([&] { op->answer(Tensor()); }),
              HasSubstr("operations_of: output 0 of the answer to sin is an undefined tensor"));
  while (op != operations.end()) ++op;
  EXPECT_THAT(*operations.result(), Equals(f(x3)));
}

TEST(OperationsOf, UseAfterTheEndIsAnError) {
  auto operations = operations_of(f, x3);
  auto op = operations.begin();
  while (op != operations.end()) ++op;
  const auto ended = HasSubstr("operations_of: the function has ended, and there is no current operation");
  EXPECT_THAT(message_of<TransformError>([&] { op->call(); }), ended);
  EXPECT_THAT(message_of<TransformError>([&] { op->answer(x3); }), ended);
  EXPECT_THAT(message_of<TransformError>([&] { ++op; }), ended);
  EXPECT_TRUE(operations.begin() == operations.end());
  EXPECT_THAT(*operations.result(), Equals(f(x3)));
}

// ---- leaving the loop ---------------------------------------------------------------------------

TEST(OperationsOf, DestroyingTheRangeUnwindsTheFunction) {
  int destroyed = 0;
  bool reached = false;
  {
    auto operations = operations_of(
        [&](const Tensor& x) {
          const Witness witness{destroyed};
          const Tensor y = cos(sin(x));
          reached = true;
          return y;
        },
        x3);
    for (PendingOperation& op : operations)
      if (op.call().op().id == OpId::cos) break;
    EXPECT_EQ(destroyed, 0);
    EXPECT_FALSE(operations.result());
  }
  EXPECT_EQ(destroyed, 1);
  EXPECT_FALSE(reached);
}

TEST(OperationsOf, LoopMayBeContinued) {
  auto operations = operations_of(f, x3);
  for (PendingOperation& op : operations)
    if (op.call().op().id == OpId::multiply) break;
  EXPECT_THAT(names_of(operations), ElementsAre("multiply", "sum"));
  EXPECT_THAT(*operations.result(), Equals(f(x3)));
}

TEST(OperationsOf, ExceptionInTheLoopUnwindsTheFunction) {
  int destroyed = 0;
  const auto loop = [&] {
    auto operations = operations_of(
        [&](const Tensor& x) {
          const Witness witness{destroyed};
          return sin(x);
        },
        x3);
    for (PendingOperation& op : operations) throw std::out_of_range(op.call().op().name);
  };
  Frame* const top = stave_detail::current;
  EXPECT_THROW(loop(), std::out_of_range);
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(stave_detail::current, top);
}

TEST(OperationsOf, UnstartedRangeRunsNothing) {
  bool ran = false;
  const std::size_t before = memory_stats().live_bytes;
  {
    auto operations = operations_of(
        [&](const Tensor& x) {
          ran = true;
          return sin(x);
        },
        ones({1 << 12}));
    auto moved = std::move(operations);
    EXPECT_FALSE(moved.result());
  }
  EXPECT_FALSE(ran);
  EXPECT_EQ(memory_stats().live_bytes, before);
}

TEST(OperationsOf, KeepsNoTensorsAlive) {
  const std::size_t before = memory_stats().live_bytes;
  {
    auto operations = operations_of(f, ones({1 << 12}));
    for (PendingOperation& op : operations)
      if (op.call().op().id == OpId::sum) break;
    EXPECT_GT(memory_stats().live_bytes, before);
  }
  EXPECT_EQ(memory_stats().live_bytes, before);
}

// ---- exceptions ---------------------------------------------------------------------------------

TEST(OperationsOf, ExceptionsOfTheFunctionPropagate) {
  auto operations = operations_of(
      [](const Tensor& x) -> Tensor {
        sin(x);
        throw std::out_of_range("of f");
      },
      x3);
  auto op = operations.begin();
  EXPECT_EQ(message_of<std::out_of_range>([&] { ++op; }), "of f");
  EXPECT_TRUE(op == operations.end());
  EXPECT_FALSE(operations.result());

  auto at_once = operations_of([]() -> int { throw std::out_of_range("at once"); });
  EXPECT_EQ(message_of<std::out_of_range>([&] { at_once.begin(); }), "at once");
  EXPECT_TRUE(at_once.begin() == at_once.end());
}

// Throws at every sine.
struct NoSin : Handler {
  Outputs handle(Call& call) override {
    if (call.op().id == OpId::sin) throw std::domain_error("no sin");
    return perform(std::move(call));
  }
};

TEST(OperationsOf, FunctionMayCatchErrorsOfOperations) {
  auto operations = operations_of(
      [](const Tensor& x) {
        try {
          return sin(x);
        } catch (const std::domain_error&) {
          return cos(x);
        }
      },
      x3);
  NoSin no_sin;
  EXPECT_THAT(with(no_sin, [&] { return names_of(operations); }), ElementsAre("sin", "cos"));
  EXPECT_THAT(*operations.result(), Equals(cos(x3)));
}

TEST(OperationsOf, UncaughtErrorsOfOperationsPropagate) {
  int destroyed = 0;
  auto operations = operations_of(
      [&](const Tensor& x) {
        const Witness witness{destroyed};
        return sin(x);
      },
      x3);
  NoSin no_sin;
  auto op = operations.begin();
  EXPECT_EQ(message_of<std::domain_error>([&] { with(no_sin, [&] { ++op; }); }), "no sin");
  EXPECT_EQ(destroyed, 1);
  EXPECT_TRUE(op == operations.end());
}

TEST(OperationsOf, DropByAnOuterControllerUnwindsIt) {
  struct StopAtCos : Controller {
    void handle(Call& call, Resumption<Call> rest) override {
      if (call.op().id != OpId::cos) rest.resume_last(perform(std::move(call)));
    }
  } stop;
  int of_function = 0, of_loop = 0;
  EXPECT_FALSE(with(stop, [&] {
    const Witness loop{of_loop};
    auto operations = operations_of(
        [&](const Tensor& x) {
          const Witness function{of_function};
          return cos(sin(x));
        },
        x3);
    return names_of(operations);
  }));
  EXPECT_EQ(of_function, 1);
  EXPECT_EQ(of_loop, 1);
}

// ---- transforms ---------------------------------------------------------------------------------

// f with sin(x) replaced by x, so d sum(x * x) / dx = 2 x, while f' = x cos x + sin x.
Tensor without_sin(const Tensor& x) {
  auto operations = operations_of(f, x);
  for (PendingOperation& op : operations)
    if (op.call().op().id == OpId::sin) op.answer(op.call().input(0));
  return *operations.result();
}
Tensor untouched(const Tensor& x) {
  auto operations = operations_of(f, x);
  names_of(operations);
  return *operations.result();
}

TEST(OperationsOf, WorksInsideTransforms) {
  const Tensor xs = stack({x3, x3 + 1}), slope = x3 * cos(x3) + sin(x3), v = tensor({1., -1., 0.5}, float64);
  EXPECT_THAT(grad(untouched)(x3), IsNear(slope));
  EXPECT_THAT(grad(without_sin)(x3), IsNear(2 * x3));
  EXPECT_THAT(jvp(untouched, x3, v).second, IsNear(sum(slope * v)));
  EXPECT_THAT(jvp(without_sin, x3, v).second, IsNear(sum(2 * x3 * v)));
  EXPECT_THAT(vmap(without_sin)(xs), IsNear(sum(xs * xs, 1)));
  EXPECT_THAT(vmap(grad(without_sin))(xs), IsNear(2 * xs));
  EXPECT_THAT(vmap(grad(untouched))(xs), IsNear(xs * cos(xs) + sin(xs)));
  EXPECT_THAT(hvp(without_sin, x3, v), IsNear(2 * v));
}

TEST(OperationsOf, ListsOperationsOfTransforms) {
  const Tensor xs = stack({x3, x3 + 1});
  auto gradient = operations_of([](const Tensor& x) { return grad(f)(x); }, x3);
  std::vector<std::string> names = names_of(gradient);
  EXPECT_THAT(std::vector(names.begin(), names.begin() + 3), ElementsAre("sin", "multiply", "sum"));
  EXPECT_THAT(names, testing::Contains("cos"));
  EXPECT_THAT(*gradient.result(), IsNear(x3 * cos(x3) + sin(x3)));

  // An answer applies to all lanes at once: cos in the backward pass becomes 0, which leaves sin x.
  auto batched = operations_of([](const Tensor& x) { return vmap(grad(f))(x); }, xs);
  for (PendingOperation& op : batched)
    if (op.call().op().id == OpId::cos) op.answer(zeros_like(op.call().input(0)));
  EXPECT_THAT(*batched.result(), IsNear(sin(xs)));

  auto forward = operations_of([](const Tensor& x) { return jvp(f, x, ones_like(x)).second; }, x3);
  names_of(forward);
  EXPECT_THAT(*forward.result(), IsNear(sum(x3 * cos(x3) + sin(x3))));
}

TEST(OperationsOf, MayBeNested) {
  auto operations = operations_of(without_sin, x3);
  // The inner range answers sin.
  EXPECT_THAT(names_of(operations), ElementsAre("multiply", "sum"));
  EXPECT_THAT(*operations.result(), IsNumber(5.25));
}

TEST(OperationsOf, TwoRangesMayInterleave) {
  auto first = operations_of([](const Tensor& x) { return sum(exp(sin(x))); }, x3);
  auto second = operations_of(f, x3 + 1);
  std::vector<std::string> names;
  auto a = first.begin();
  for (PendingOperation& b : second) {
    names.push_back(a->call().op().name);
    names.push_back(b.call().op().name);
    ++a;
  }
  EXPECT_THAT(names, ElementsAre("sin", "sin", "exp", "multiply", "sum", "sum"));
  EXPECT_TRUE(a == first.end());
  EXPECT_THAT(*first.result(), Equals(sum(exp(sin(x3)))));
  EXPECT_THAT(*second.result(), Equals(f(x3 + 1)));
}

TEST(OperationsOf, RangesMayBeUnderDifferentTransforms) {
  const Tensor slope = grad([&](const Tensor& x) {
    auto a = operations_of(f, x);
    auto b = operations_of(f, x3);  // x3 is a constant here.
    auto j = b.begin();
    for ([[maybe_unused]] PendingOperation& op : a) ++j;
    return *a.result() + *b.result();
  })(x3);
  EXPECT_THAT(slope, IsNear(x3 * cos(x3) + sin(x3)));
}

// ---- higher-order operations --------------------------------------------------------------------

TEST(OperationsOf, ACheckpointIsOneOperation) {
  const auto g = [](const Tensor& x) { return cos(checkpoint(f)(x)); };
  auto operations = operations_of(g, x3);
  CountOps below;
  const auto names = with(below, [&] { return names_of(operations); });
  EXPECT_THAT(names, ElementsAre("call", "cos"));
  EXPECT_THAT(*operations.result(), Equals(g(x3)));
  EXPECT_EQ(below.n, 1 + 3 + 1);

  // With grad inside the program, the function runs again as ordinary operations of the program.
  // With grad outside, it runs again after the range has ended.
  auto gradient = operations_of([&](const Tensor& x) { return grad(g)(x); }, x3);
  EXPECT_THAT(names_of(gradient), testing::IsSupersetOf({"call", "cos", "sin", "multiply", "sum"}));
  EXPECT_THAT(*gradient.result(), IsNear(grad(g)(x3)));
  const auto range = [&](const Tensor& x) {
    auto inner = operations_of(g, x);
    names_of(inner);
    return *inner.result();
  };
  EXPECT_THAT(grad(range)(x3), IsNear(grad(g)(x3)));
}

TEST(OperationsOf, ACustomRuleIsOneOperation) {
  const auto g =
      custom_vjp([](const Tensor& x) { return sum(x * x); }, [](const Tensor& x) { return std::pair(sum(x * x), x); },
                 [](const Tensor& x, const Tensor& ct) { return 3 * x * ct; });
  const auto range = [&](const Tensor& x) {
    auto operations = operations_of(g, x);
    EXPECT_THAT(names_of(operations), ElementsAre("call"));
    return *operations.result();
  };
  EXPECT_THAT(range(x3), IsNumber(5.25));
  EXPECT_THAT(grad(range)(x3), IsNear(3 * x3));
}

TEST(OperationsOf, ACheckpointCannotBeAnswered) {
  auto operations = operations_of(checkpoint(f), x3);
  auto op = operations.begin();
  EXPECT_THAT(
      message_of<TransformError>([&] { op->answer(Tensor(1.)); }),
      HasSubstr("operations_of: call calls a function, and its outputs are known only after that has run: perform it"));
}

}  // namespace
