// What handlers and controllers answer is checked where they give it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stave/stave.h>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Answers sin in another way.
struct Wrong : Handler {
  std::function<Outputs(Call&)> answer;
  explicit Wrong(std::function<Outputs(Call&)> given) : answer(std::move(given)) {}
  Outputs handle(Call& call) override { return call.op().id == OpId::sin ? answer(call) : perform(std::move(call)); }
  std::string describe() const override { return "wrong"; }
};
struct WrongController : Controller {
  std::function<Outputs(Call&)> answer;
  explicit WrongController(std::function<Outputs(Call&)> given) : answer(std::move(given)) {}
  std::string error;
  void handle(Call& call, Resumption<Call> rest) override {
    if (call.op().id != OpId::sin) return rest.resume_last(perform(std::move(call)));
    try {
      Call copy = call;
      rest.resume_last(answer(copy));
    } catch (const TransformError& thrown) {  // where it was given
      error = thrown.what();
      rest.resume_last(perform(std::move(call)));  // it can still be used
    }
  }
};

const struct {
  const char* says;
  std::function<Outputs(Call&)> answer;
} answers[] = {
    {"0 output(s) instead of 1", [](Call&) { return Outputs(); }},
    {"2 output(s) instead of 1", [](Call& call) { return Outputs(2, call.input(0)); }},
    {"an empty Tensor for output 0", [](Call&) { return Outputs(Tensor()); }},
    {"float32 [] on cpu for output 0, which is float32 [3]", [](Call& call) { return Outputs(sum(call.input(0))); }},
    {"float32 [3,1] on cpu",
     [](Call& call) {
       return Outputs(reshape(call.input(0), {3, 1}));
     }},
    {"float64 [3] on cpu", [](Call& call) { return Outputs(astype(call.input(0), float64)); }},
    {"float32 [] on cpu",
     [](Call& call) {
       Call kept = std::move(call);
       return Outputs(sum(kept.input(0)));
     }},
};

TEST(Answer, OfAHandlerIsCheckedAndItIsNamed) {
  const Tensor x = tensor({1., 2., 3.});
  for (const auto& [says, answer] : answers) {
    Wrong wrong(answer);
    const auto f = [&](const Tensor& v) { return with(wrong, [&] { return sum(sin(v) * 2); }); };
    const auto error = ThrowsMessage<TransformError>(AllOf(HasSubstr("sin: wrong answered with"), HasSubstr(says)));
    EXPECT_THAT([&] { f(x); }, error);
    EXPECT_THAT([&] { grad(f)(x); }, error);
    EXPECT_THAT([&] { jvp(f, x, x); }, error);
    EXPECT_THAT([&] { vmap(f)(stack({x, x})); }, error);
    EXPECT_THAT([&] { with(wrong, [&] { return grad([](const Tensor& v) { return sum(sin(v)); })(x); }); }, error);
  }
}

TEST(Answer, OfAControllerIsCheckedWhereItResumes) {
  const Tensor x = tensor({1., 2., 3.});
  for (const auto& [says, answer] : answers) {
    WrongController wrong(answer);
    EXPECT_TRUE(array_equal(*with(wrong, [&] { return sin(x) * 2; }), sin(x) * 2));
    EXPECT_THAT(wrong.error, AllOf(HasSubstr("sin: resume answered with"), HasSubstr(says)));
  }
}

TEST(Answer, ToACallOfAFunction) {
  struct Replaces : Handler {
    Outputs outputs;
    bool runs;
    Replaces(Outputs given, bool performs) : outputs(std::move(given)), runs(performs) {}
    Outputs handle(Call& call) override {
      if (!call.op().carries_functions) return perform(std::move(call));
      if (runs) perform(call);
      return outputs;
    }
  };
  const auto f = [](const Tensor& x) { return sum(checkpoint(sin)(x)); };
  const Tensor x = ones({3});
  const auto fails = [&](Outputs outputs, bool runs, const char* text) {
    Replaces replaces(std::move(outputs), runs);
    EXPECT_THAT([&] { with(replaces, [&] { return f(x); }); }, ThrowsMessage<TransformError>(HasSubstr(text)));
    EXPECT_THAT([&] { with(replaces, [&] { return grad(f)(x); }); }, ThrowsMessage<TransformError>(HasSubstr(text)));
  };
  fails(Tensor(), true, "an empty Tensor");
  fails(Outputs(), true, "returned 1 tensors at first, and 0");
  fails(Outputs(2, x), true, "returned 1 tensors at first, and 2");
  fails(x, false, "without running its function");
}

TEST(Attributes, AreAskedForAsWhatTheyAre) {
  struct Asks : Handler {
    Outputs handle(Call& call) override {
      EXPECT_THROW(call.as<ShapeAttributes>(), TransformError);
      EXPECT_THROW(call.as<ReduceAttributes>(), TransformError);
      return perform(std::move(call));
    }
  } asks;
  with(asks, [] { return sin(ones({3})); });  // has none
  struct Right : Handler {
    Outputs handle(Call& call) override {
      if (call.op().id == OpId::reshape) {
        EXPECT_EQ(call.as<ShapeAttributes>().shape, (Shape{3, 1}));
        EXPECT_THAT([&] { call.as<DtypeAttributes>(); },
                    ThrowsMessage<TransformError>(HasSubstr("reshape: its attributes were asked for as")));
      }
      return perform(std::move(call));
    }
  } right;
  const Tensor x = ones({3});
  with(right, [&] { return reshape(x, {3, 1}); });
}

// Rules ask through their contexts: a rule that asks for what is not there must throw, not read it.
TEST(Attributes, AreAskedForByRulesAsWhatTheyAre) {
  const Call call(stave_detail::op_reshape, {ones({3})}, make_intrusive<ShapeAttributes>(Shape{3, 1}));
  const JvpContext jvp{call, {}, {}};
  const VjpContext vjp{call.op(), call.attributes(), call.inputs(), {}, call.abstract_outputs(), {}};
  const BatchContext batch{call, call.inputs(), {}, 1};
  const auto checks = [](const auto& context) {
    EXPECT_EQ(context.template as<ShapeAttributes>().shape, (Shape{3, 1}));
    EXPECT_THROW(context.template as<DtypeAttributes>(), TransformError);
    EXPECT_THROW(context.template as<AxisAttributes>(), TransformError);
  };
  checks(jvp);
  checks(vjp);
  checks(batch);
}

}  // namespace
