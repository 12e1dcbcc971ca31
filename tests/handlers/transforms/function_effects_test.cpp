// Effects inside the functions of higher-order operations: which handler answers them, on the first
// run and when the function runs again, and that answers keep their derivatives.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stave/stave.h>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Ask {
  using Result = double;
  double unhandled() const { return 1; }
};
struct Answers : Handles<Ask> {
  double value;
  explicit Answers(double v) : value(v) {}
  double handle(Ask&) override { return value; }
  std::string describe() const override { return "answers"; }
};
struct Controls2 : Controls<Ask> {
  void handle(Ask&, Resumption<Ask> rest) override { rest.resume_last(2.); }
  std::string describe() const override { return "the controller"; }
};
struct Passes : Controller {
  int count = 0;
  void handle(Call& call, Resumption<Call> rest) override {
    ++count;
    rest.resume_last(perform(call));
  }
};

const Tensor x = tensor({1., 2., 3.}), doubled = tensor({2., 4., 6.});
Tensor times_answer(const Tensor& v) { return v * perform(Ask{}); }

// ---- controllers --------------------------------------------------------------------------------

TEST(Effects, OfACheckpointAreAnsweredByItsOwnController) {
  const auto f = checkpoint(times_answer);
  const auto inside = [&](const Tensor& v) {
    Controls2 two;
    return *with(two, [&] { return f(v); });
  };
  Passes outside;
  EXPECT_TRUE(array_equal(**with(outside, [&] { return std::optional(inside(x)); }), doubled));
  auto operations = operations_of(inside, x);
  for (PendingOperation& operation : operations) static_cast<void>(operation);
  EXPECT_TRUE(array_equal(*operations.result(), doubled));
  struct Later : Controller {
    Call* call = nullptr;
    Resumption<Call> rest;
    void handle(Call& given, Resumption<Call> r) override {
      call = &given;
      rest = std::move(r);
    }
  };
  const auto later = std::make_shared<Later>();
  const auto result = with(later, [&] { return inside(x); });
  while (later->rest) {
    Outputs outputs = perform(*later->call);
    std::exchange(later->rest, {}).resume(std::move(outputs));
  }
  EXPECT_TRUE(array_equal(*result, doubled));
}

TEST(Effects, SharedControllerLivesAsLongAsItsComputations) {
  struct Counts : Controller {
    std::vector<std::string>& log;
    explicit Counts(std::vector<std::string>& names) : log(names) {}
    ~Counts() override { log.push_back("destroyed"); }
    void handle(Call& call, Resumption<Call> rest) override {
      log.push_back(call.op().name);
      rest.resume_last(perform(call));
    }
  };
  std::vector<std::string> log;
  const auto nested = [](const Tensor& v) {
    return checkpoint([](const Tensor& y) { return checkpoint([](const Tensor& z) { return sin(z); })(y); })(v);
  };
  const auto f = [&](const Tensor& v) {
    return sum(**with(std::make_shared<Counts>(log), [=] { return std::optional(nested(v)); }));
  };
  EXPECT_TRUE(allclose(grad(f)(x), cos(x)));
  EXPECT_EQ(log.back(), "destroyed");
  EXPECT_EQ(std::count(log.begin(), log.end(), "destroyed"), 1);
  // Forward, again for the outer one, again for the inner one.
  EXPECT_EQ(std::count(log.begin(), log.end(), "sin"), 3);
}

// ---- rules --------------------------------------------------------------------------------------

const auto ruled = custom_vjp([](const Tensor& v) { return v * perform(Ask{}); },
                              [](const Tensor& v) { return std::pair(v * perform(Ask{}), v); },
                              [](const Tensor&, const Tensor& g) { return g * perform(Ask{}); });
Tensor under_shared(const Tensor& v) {
  return with(std::make_shared<Answers>(2), [&] { return sum(ruled(v)); });
}
Tensor under_lent(const Tensor& v) {
  Answers two(2);
  return with(two, [&] { return sum(ruled(v)); });
}
Tensor under_shared_controller(const Tensor& v) {
  return **with(std::make_shared<Controls2>(), [v] { return std::optional(sum(ruled(v))); });
}
Tensor under_lent_controller(const Tensor& v) {
  Controls2 two;
  return *with(two, [&] { return sum(ruled(v)); });
}

TEST(Effects, OfABackwardRuleAreAnsweredByTheFunctionsHandlers) {
  const Tensor two = full({3}, 2);
  EXPECT_TRUE(array_equal(grad(under_shared)(x), two));
  EXPECT_TRUE(array_equal(grad(under_shared_controller)(x), two));
  EXPECT_EQ(jvp(under_lent, x, ones_like(x)).second.item<float>(), 6);
  EXPECT_EQ(jvp(under_lent_controller, x, ones_like(x)).second.item<float>(), 6);
  Answers ten(10);
  // No other handler answers.
  EXPECT_TRUE(array_equal(with(ten, [&] { return grad(under_shared)(x); }), two));
  EXPECT_TRUE(array_equal(with(ten, [&] { return grad([](const Tensor& v) { return sum(ruled(v)); })(x); }), two * 5));
  const auto in_checkpoint = [](const Tensor& v) {
    return with(std::make_shared<Answers>(2),
                [&] { return sum(checkpoint([](const Tensor& y) { return ruled(y); })(v)); });
  };
  EXPECT_TRUE(array_equal(with(ten, [&] { return grad(in_checkpoint)(x); }), two));
  const auto by_tangents = custom_jvp(
      times_answer, [](const Tensor& v, const Tensor& d) { return std::pair(v * perform(Ask{}), d * perform(Ask{})); });
  EXPECT_TRUE(array_equal(grad([&](const Tensor& v) {
                            // The rule runs in the forward pass and is transposed later.
                            Answers lent(2);
                            return with(lent, [&] { return sum(by_tangents(v)); });
                          })(x),
                          two));
}

TEST(Effects, OfABackwardRuleWhoseHandlerHasEndedAreErrors) {
  Answers ten(10);
  for (const bool another : {false, true})
    for (const auto& f : {under_lent, under_lent_controller})
      EXPECT_THAT([&] { another ? with(ten, [&] { return grad(f)(x); }) : grad(f)(x); },
                  ThrowsMessage<TransformError>(
                      HasSubstr(f == under_lent ? "but the handler that answered it, answers, has ended"
                                                : "but the handler that answered it, the controller, has ended")));
}

// ---- derivatives of answers ---------------------------------------------------------------------

struct Factor {
  using Result = Tensor;
};
struct ByWeight : Handles<Factor> {  // a handler that computes its answer
  Tensor w;
  explicit ByWeight(Tensor weight) : w(std::move(weight)) {}
  Tensor handle(Factor&) override { return 2 * w; }
};
struct Same {
  using Result = Tensor;
  Tensor value;
};
struct Identity : Handles<Same> {
  Tensor handle(Same& same) override { return same.value; }
};
struct Square : Handles<Same> {
  Tensor handle(Same& same) override { return same.value * same.value; }
};

template <class F>
void expect_derivatives(F f, const Tensor& at, const Tensor& gradient) {
  EXPECT_TRUE(allclose(grad(f)(at), gradient));
  EXPECT_TRUE(allclose(jvp(f, at, ones_like(at)).second, sum(gradient)));
  EXPECT_TRUE(allclose(vmap(grad(f))(stack({at, at}))(1), gradient));
  EXPECT_TRUE(allclose(grad([&](const Tensor& xs) { return sum(vmap(f)(xs)); })(stack({at, at}))(0), gradient));
  EXPECT_TRUE(
      allclose(grad([&](const Tensor& v) { return jvp(f, v, v).second; })(at), jvp(grad(f), at, at).second + gradient));
}

// A backward pass under vmap runs the function once more, and not once for each group of lanes that
// split later.
TEST(Answers, AreGivenOnceThoughThePullbackIsMapped) {
  struct Counts : Handles<Ask> {
    double count = 0;
    double handle(Ask&) override { return ++count; }
  };
  const auto asks = checkpoint([](const Tensor& v) { return v * v * v * perform(Ask{}); });
  const auto total = [&](const Tensor& v) { return sum(asks(v)); };
  const Tensor at = tensor({1., 2., -3.}, float64), once = diag(3. * at * at), twice = diag(6. * at);
  const auto with_counts = [](auto f) {
    Counts counts;
    const Tensor result = with(counts, f);
    EXPECT_EQ(counts.count, 1);
    return result;
  };
  EXPECT_THAT(with_counts([&] { return jacrev(asks)(at); }), IsNear(once));
  EXPECT_THAT(with_counts([&] { return hessian(total)(at); }), IsNear(twice));
  EXPECT_THAT(with_counts([&] { return jacrev(grad(total))(at); }), IsNear(twice));
  EXPECT_THAT(with_counts([&] { return vmap(jacrev(asks))(stack({at, at})); }), IsNear(stack({once, once})));
}

TEST(Answers, InACheckpointKeepTheirDerivatives) {
  const auto by_weight = [](const Tensor& w) {  // d sum(x 2 w) = 2 x
    ByWeight handler(w);
    return with(handler, [&] { return checkpoint([](const Tensor& v) { return sum(v * perform(Factor{})); })(x); });
  };
  expect_derivatives(by_weight, x, 2 * x);
  const auto both = [](const Tensor& w) {  // d sum(w 2 w) = 4 w
    ByWeight handler(w);
    return with(handler, [&] { return checkpoint([](const Tensor& v) { return sum(v * perform(Factor{})); })(w); });
  };
  expect_derivatives(both, x, 4 * x);
  const auto nested = [](const Tensor& w) {
    ByWeight handler(w);
    const auto inner = [](const Tensor& v) { return v * perform(Factor{}); };
    return with(handler, [&] { return checkpoint([&](const Tensor& v) { return sum(checkpoint(inner)(v)); })(w); });
  };
  EXPECT_TRUE(allclose(grad(nested)(x), 4 * x));
}

TEST(Answers, ThatAreAnArgumentKeepTheirDerivatives) {
  const auto f = checkpoint([](const Tensor& v) { return sum(v * perform(Same{v})); });
  Identity identity;
  with(identity, [&] { expect_derivatives(f, x, 2 * x); });  // d sum(v v)
  const auto inside = [&](const Tensor& v) {                 // d sum(v v^2)
    Square square_of;
    return with(square_of, [&] { return f(v); });
  };
  expect_derivatives(inside, x, 3 * square(x));
}

// If an intermediate value comes back as the answer, the rerun uses its own value of it.
TEST(Answers, ThatAreAnIntermediateValueKeepTheirDerivatives) {
  const auto f = checkpoint([](const Tensor& v) { return sum(v * perform(Same{sin(v)})); });
  Identity identity;
  with(identity, [&] { expect_derivatives(f, x, sin(x) + x * cos(x)); });
}

// The first run of a checkpoint's function is not recorded, and an answer made from its values is
// logged. Its derivative is lost, which is an error, not a zero.
TEST(Answers, ComputedFromAnIntermediateValueAreErrors) {
  const auto f = checkpoint([](const Tensor& v) { return sum(v * perform(Same{sin(v)})); });
  Square square_of;
  const auto error =
      ThrowsMessage<TransformError>(HasSubstr("a value that a checkpoint's function computed left the function"));
  EXPECT_THAT([&] { grad([&](const Tensor& v) { return with(square_of, [&] { return f(v); }); })(x); }, error);
  EXPECT_THAT([&] { with(square_of, [&] { return grad(f)(x); }); },
              ThrowsMessage<TransformError>(HasSubstr("its derivative would be lost")));
  Tensor seen;
  struct Looks : Handles<Same> {
    Tensor& seen;
    explicit Looks(Tensor& to) : seen(to) {}
    Tensor handle(Same& same) override {
      seen = sum(same.value);
      return zeros({});
    }
  } looks(seen);
  const auto reports = checkpoint([](const Tensor& v) {
    perform(Same{sin(v)});
    return sum(v * v);
  });
  EXPECT_TRUE(allclose(with(looks, [&] { return grad(reports)(x); }), 2 * x));
  EXPECT_TRUE(allclose(seen, sum(sin(x))));
  Tensor kept;
  const auto escapes = [&](const Tensor& v) {
    checkpoint([&](const Tensor& y) { return kept = sin(y); })(v);
    return sum(kept * v);
  };
  EXPECT_THAT([&] { grad(escapes)(x); }, error);
}

}  // namespace
