// concurrently in nests: under transforms and around them, with errors, with controllers, and with
// computations that are suspended or dropped.
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <stave/stave.h>

#include "by_turns.h"
#include "separate_backend.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;

// ---- transforms ---------------------------------------------------------------------------------

// sin(cos(v) v) + exp(v)^2, by two computations that take turns.
Tensor shared(const Tensor& v) {
  Tensor left = v, right = v;
  concurrently([&] { left = cos(left), left = left * v, left = sin(left); },
               [&] { right = exp(right), right = right * right; });
  return left + right;
}
Tensor alone(const Tensor& v) { return sin(cos(v) * v) + exp(v) * exp(v); }

TEST(ConcurrentlyNested, WorksUnderTransforms) {
  EXPECT_THAT(grad(shared)(x), IsNear(grad(alone)(x)));
  EXPECT_THAT(grad(grad(shared))(x), IsNear(grad(grad(alone))(x)));
  EXPECT_THAT(jvp(shared, x, x).second, IsNear(jvp(alone, x, x).second));
  EXPECT_THAT(vmap(shared)(xs), IsNear(alone(xs)));
  EXPECT_THAT(vmap(grad(shared))(xs), IsNear(vmap(grad(alone))(xs)));
  EXPECT_THAT(hessian(shared)(x), IsNear(hessian(alone)(x)));
  EXPECT_THAT(linearize(shared, x).second(x), IsNear(jvp(alone, x, x).second));
}

TEST(ConcurrentlyNested, EachMayRunTransforms) {
  const auto [a, b, c] = concurrently([] { return grad(alone)(x); }, [] { return jvp(alone, x, x).second; },
                                      [] { return vmap(grad(alone))(xs); });
  EXPECT_THAT(a, IsNear(grad(alone)(x)));
  EXPECT_THAT(b, IsNear(jvp(alone, x, x).second));
  EXPECT_THAT(c, IsNear(vmap(grad(alone))(xs)));
}

TEST(ConcurrentlyNested, MayDifferentiateValuesOfAnOuterTransform) {
  const auto f = [](const Tensor& v) {
    const auto [a, b] = concurrently([&] { return grad([&](const Tensor& u) { return sin(u * v); })(v); },
                                     [&] { return grad(alone)(v); });
    return a * b;
  };
  const auto plain = [](const Tensor& v) {
    return v * cos(v * v) * (cos(cos(v) * v) * (cos(v) - sin(v) * v) + 2. * exp(2. * v));
  };
  EXPECT_THAT(grad(f)(x), IsNear(grad(plain)(x)));
}

// Each computation runs as many rounds as its value says, so that lanes split in both.
Tensor rounds(const Tensor& v) {
  const auto count = [](Tensor y, double by) {
    while (y < 2.) y = y * by;
    return y;
  };
  const auto [a, b] = concurrently([&] { return count(v, 1.5); }, [&] { return count(v * v, 1.25); });
  return a - b;
}

TEST(ConcurrentlyNested, LanesMaySplit) {
  const Tensor at = tensor({0.3, 0.9, 1.7, 0.31, 5.}, float64);
  std::vector<Tensor> values, slopes;
  for (Index i = 0; i < at.size(); ++i) values.push_back(rounds(at(i))), slopes.push_back(grad(rounds)(at(i)));
  EXPECT_THAT(vmap(rounds)(at), IsNear(stack(values)));
  EXPECT_THAT(vmap(grad(rounds))(at), IsNear(stack(slopes)));
  const auto [a, b] = concurrently([&] { return vmap(rounds)(at); }, [&] { return vmap(grad(rounds))(at); });
  EXPECT_THAT(a, IsNear(stack(values)));
  EXPECT_THAT(b, IsNear(stack(slopes)));
}

TEST(ConcurrentlyNested, WorksInsideAndAroundCheckpoints) {
  EXPECT_THAT(grad(checkpoint(shared))(x), IsNear(grad(alone)(x)));
  const auto around = [](const Tensor& v) {
    const auto [a, b] = concurrently([&] { return checkpoint([v](const Tensor& u) { return sin(u) * v; })(v); },
                                     [&] { return checkpoint(alone)(exp(v)); });
    return a * b;
  };
  const auto plain = [](const Tensor& v) { return sin(v) * v * alone(exp(v)); };
  EXPECT_THAT(grad(around)(x), IsNear(grad(plain)(x)));
  EXPECT_THAT(grad(grad(around))(x), IsNear(grad(grad(plain))(x)));
  EXPECT_THAT(vmap(grad(around))(xs), IsNear(vmap(grad(plain))(xs)));
}

TEST(ConcurrentlyNested, CheckpointIsOneTurn) {
  Names names;
  with(names, [] { concurrently([] { checkpoint(three_of)(x), yield(); }, [] { two_of(x); }); });
  EXPECT_THAT(names.names, ElementsAre("call", "sin", "cos", "tan", "exp", "log1p"));
}

// A pullback from one computation runs a function of another computation, which is suspended or has
// ended.
TEST(ConcurrentlyNested, PullbackOfOneMayBeCalledInAnother) {
  const auto both = [](const Tensor& v) {
    std::optional<Tensor> first;
    const auto made = vjp(
        [&](const Tensor& u) {
          concurrently([&] { first = checkpoint(three_of)(u), yield(), yield(); }, [&] { two_of(u); });
          return *first;
        },
        v);
    const auto [slope, nothing] =
        concurrently([&] { return std::get<0>(made.second(made.first)); }, [&] { two_of(v); });
    return slope;
  };
  EXPECT_THAT(both(x), IsNear(three_of(x) * grad(three_of)(x)));
}

TEST(ConcurrentlyNested, CanBeRecordedAndReplayed) {
  const auto program = trace(shared)(x);
  EXPECT_THAT(program(tensor(0.8, float64)), IsNear(alone(tensor(0.8, float64))));
  const auto compiled = compile(shared);
  for (const double at : {0.1, 0.2, -0.6})
    EXPECT_THAT(compiled(tensor(at, float64)), IsNear(alone(tensor(at, float64))));
  const auto ways = compile(rounds);
  for (const double at : {0.3, 0.9, 0.3, 1.7})
    EXPECT_THAT(ways(tensor(at, float64)), IsNear(rounds(tensor(at, float64))));
  EXPECT_THAT(grad(compiled)(x), IsNear(grad(alone)(x)));
}

TEST(ConcurrentlyNested, EachMayCallCompiledFunctions) {
  const auto compiled = compile(alone);
  static_cast<void>(compiled(x));
  const auto [a, b, c] =
      concurrently([&] { return compiled(x); }, [&] { return compiled(x + 1.); }, [&] { return grad(compiled)(x); });
  EXPECT_THAT(a, IsNear(alone(x)));
  EXPECT_THAT(b, IsNear(alone(x + 1.)));
  EXPECT_THAT(c, IsNear(grad(alone)(x)));
}

// ---- exceptions ---------------------------------------------------------------------------------

TEST(ConcurrentlyNested, FirstExceptionPropagatesAndOthersUnwindInOrder) {
  struct Ends {
    std::string& order;
    char name;
    ~Ends() { order += name; }
  };
  std::string order;
  const auto goes_on = [&](char name) {
    return [&order, name] {
      const Ends ends{order, name};
      for (;;) sin(x);
    };
  };
  const auto throws = [&] {
    const Ends ends{order, 'b'};
    cos(x);
    throw Oops{7};
  };
  try {
    concurrently(goes_on('a'), throws, goes_on('c'), goes_on('d'));
    FAIL();
  } catch (const Oops& oops) {
    EXPECT_EQ(oops.value, 7);
  }
  EXPECT_EQ(order, "bacd");
  EXPECT_EQ(current_handlers(), "");
}

TEST(ConcurrentlyNested, ComputationsNotStartedDoNotRunAfterAnException) {
  bool began = false;
  EXPECT_THROW(concurrently([] { throw Oops{1}; }, [&] { began = true; }), Oops);
  EXPECT_FALSE(began);
}

TEST(ConcurrentlyNested, ExceptionsOfCancelledComputationsAreLost) {
  int destroyed = 0;
  Names names;
  const auto throws_first = [](auto... others) { concurrently(others..., [] { sin(x), throw Oops{1}; }); };
  for (const auto& other : std::initializer_list<std::function<void()>>{
           [&] {
             const Witness witness{destroyed};
             try {
               for (;;) sin(x);
             } catch (const Cancelled&) {
               throw Oops{2};
             }
           },
           [&] {
             const Witness witness{destroyed};
             try {
               for (;;) sin(x);
             } catch (...) {  // swallows the exception: the next operation throws it again
             }
             tan(x);
             ADD_FAILURE();
           },
           [&] {
             const Witness witness{destroyed};
             struct Performs {
               ~Performs() {
                 const Uncancellable guard;
                 EXPECT_THAT(sin(x), IsNumber(std::sin(0.5)));
                 yield();
               }
             } performs;
             for (;;) sin(x);
           }})
    try {
      with(names, [&] { throws_first(other); });
      ADD_FAILURE();
    } catch (const Oops& oops) {
      EXPECT_EQ(oops.value, 1);
    }
  EXPECT_EQ(destroyed, 3);
  // An operation that throws Cancelled is not performed.
  EXPECT_THAT(names.names, testing::Each("sin"));
}

TEST(ConcurrentlyNested, ErrorOfAnOperationMayBeCaughtAndEndsNoTurn) {
  Names names;
  with(names, [] {
    concurrently(
        [] {
          EXPECT_THROW(matmul(xs, zeros({5}, float64)), ShapeError);
          cos(x);
        },
        [] { exp(x); });
  });
  struct Fails : Handler {
    Outputs handle(Call& call) override {
      if (call.op().id == OpId::sin) throw Oops{3};
      return perform(std::move(call));
    }
  } fails;
  names.names.clear();
  with(names, [&] {
    with(fails, [] {
      concurrently(
          [] {
            EXPECT_THROW(sin(x), Oops);
            cos(x);
          },
          [] { exp(x); });
    });
  });
  EXPECT_THAT(names.names, ElementsAre("cos", "exp"));
}

TEST(ConcurrentlyNested, ErrorsNameTheNest) {
  const auto f = [](const Tensor& v) {
    return std::get<0>(concurrently([&] { return matmul(v, zeros({5}, float64)); }));
  };
  EXPECT_THAT(message_of<ShapeError>([&] { vmap(f)(stack({xs, xs})); }), HasSubstr("inside concurrently, inside vmap"));
}

// ---- controllers --------------------------------------------------------------------------------

TEST(ConcurrentlyNested, OuterControllerMayDropAll) {
  struct DropsAt : Controller {
    int left;
    explicit DropsAt(int n) : left(n) {}
    void handle(Call& call, Resumption<Call> rest) override {
      if (left-- == 0) return rest.drop();
      rest.resume_last(perform(std::move(call)));
    }
  };
  for (int n = 0; n <= 6; ++n) {
    DropsAt drops(n);
    int destroyed = 0;
    const auto body = [&] {
      const auto f = [&] {
        const Witness witness{destroyed};
        return three_of(x);
      };
      const auto [a, b] = concurrently(f, f);
      return a + b;
    };
    const std::optional<Tensor> result = with(drops, body);
    EXPECT_EQ(result.has_value(), false) << n;
    EXPECT_EQ(destroyed, n == 0 ? 1 : 2) << n;
  }
}

TEST(ConcurrentlyNested, SuspendsAsAWholeAndResumesUnderOtherHandlers) {
  const auto keeps = std::make_shared<Keeps>();
  const auto result = with(keeps, [] {
    const auto [a, b] =
        concurrently([] { return sin(x), perform(Ask{}) + perform(Ask{}); }, [] { return sin(x), cos(x), 1; });
    return a + b;
  });
  EXPECT_FALSE(result);
  Names names;
  with(names, [&] { std::exchange(keeps->rest, {}).resume(10); });
  EXPECT_TRUE(names.names.empty());
  with(names, [&] { std::exchange(keeps->rest, {}).resume(100); });
  EXPECT_THAT(names.names, ElementsAre("cos"));
  EXPECT_EQ(*result, 111);
}

TEST(ConcurrentlyNested, SuspendedComputationsMayBeDropped) {
  int destroyed = 0;
  const auto keeps = std::make_shared<Keeps>();
  with(keeps, [&] {
    concurrently(
        [&] {
          const Witness witness{destroyed};
          sin(x);
          perform(Ask{});
        },
        [&] {
          const Witness witness{destroyed};
          for (;;) sin(x);
        });
  });
  EXPECT_EQ(destroyed, 0);
  keeps->rest = {};
  EXPECT_EQ(destroyed, 2);
}

TEST(ConcurrentlyNested, SuspendedComputationsEndWithTheirThread) {
  int destroyed = 0;
  const auto keeps = std::make_shared<Keeps>();
  std::thread([&] {
    with(keeps, [&] {
      const auto waits = [&] {
        const Witness witness{destroyed};
        sin(x);
        perform(Ask{});
      };
      concurrently(waits, [&] { concurrently(waits, waits); });
    });
    EXPECT_EQ(destroyed, 0);
  }).join();
  // The third computation has not begun.
  EXPECT_EQ(destroyed, 2);
  EXPECT_THROW(keeps->rest.resume(1), TransformError);
  keeps->rest = {};
}

TEST(ConcurrentlyNested, ComputationSuspendedInACheckpointEndsWithIt) {
  int destroyed = 0;
  const auto keeps = std::make_shared<Keeps>();
  const auto asks = checkpoint([&](const Tensor& v) {
    const Witness witness{destroyed};
    perform(Ask{});
    return sin(v);
  });
  concurrently([&] { with(keeps, [&] { asks(x); }); },
               [&] {
                 EXPECT_EQ(destroyed, 1);
                 EXPECT_THAT(message_of<TransformError>([&] { keeps->rest.resume(1); }),
                             HasSubstr("was suspended inside concurrently, which has ended"));
                 keeps->rest = {};
               });
}

TEST(ConcurrentlyNested, GeneratorOfOneMayBeResumedByAnother) {
  const auto keeps = std::make_shared<Keeps>();
  std::vector<int> got;
  Names names;
  with(names, [&] {
    concurrently(
        [&] {
          with(keeps, [&] {
            for (;;) {
              sin(x);
              got.push_back(perform(Ask{}));
            }
          });
          yield();
        },
        [&] {
          exp(x);
          for (int i = 0; i < 3; ++i) std::exchange(keeps->rest, {}).resume(i);
          keeps->rest = {};
        });
  });
  EXPECT_THAT(got, ElementsAre(0, 1, 2));
  EXPECT_THAT(names.names, ElementsAre("sin", "exp", "sin", "sin", "sin"));
}

TEST(ConcurrentlyNested, WorksUnderStepperAndOperationsOf) {
  const auto body = [] {
    const auto [a, b] = concurrently([] { return three_of(x); }, [] { return two_of(x); });
    return a + b;
  };
  std::vector<std::string> seen;
  Stepper stepper(body);
  while (stepper.step()) seen.push_back(stepper.at().call().op().name);
  EXPECT_THAT(seen, ElementsAre("sin", "exp", "cos", "log1p", "tan", "add"));
  EXPECT_THAT(stepper.result().value(), IsNear(three_of(x) + two_of(x)));
  auto operations = operations_of(body);
  seen.clear();
  for (PendingOperation& operation : operations) seen.push_back(operation.call().op().name);
  EXPECT_THAT(seen, ElementsAre("sin", "exp", "cos", "log1p", "tan", "add"));
  Stepper left(body);
  left.step(), left.step();  // each is suspended in the middle of both computations
}

TEST(ConcurrentlyNested, LanesMaySplitOnADevice) {
  SeparateBackend device(0);
  const Tensor at = tensor({0.3, 0.9, 1.7, 0.31, 5.}, float64);
  const auto f = [&] { return to(vmap(rounds)(to(at, cuda(0))), cpu); };
  const Tensor expected = vmap(rounds)(at);
  const auto [a, b] = concurrently(f, f);
  EXPECT_THAT(a, IsNear(expected));
  EXPECT_THAT(b, IsNear(expected));
}

}  // namespace
