// Stave checks the answers of handlers and controllers at the point where they are given.

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

// Answers sin by `answer`, which may be wrong.
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
    } catch (const TransformError& thrown) {  // thrown where the answer was given
      error = thrown.what();
      rest.resume_last(perform(std::move(call)));  // the resumption is still usable after the error
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

TEST(Answer, WrongAnswerIsAnErrorThatNamesTheHandler) {
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

TEST(Answer, WrongAnswerOfAControllerThrowsWhereItResumes) {
  const Tensor x = tensor({1., 2., 3.});
  for (const auto& [says, answer] : answers) {
    WrongController wrong(answer);
    EXPECT_TRUE(array_equal(*with(wrong, [&] { return sin(x) * 2; }), sin(x) * 2));
    EXPECT_THAT(wrong.error, AllOf(HasSubstr("sin: resume answered with"), HasSubstr(says)));
  }
}

TEST(Answer, WrongAnswerToACheckpointIsAnError) {
  struct Replaces : Handler {
    Outputs outputs;
    bool runs;
    Replaces(Outputs given, bool performs) : outputs(std::move(given)), runs(performs) {}
    Outputs handle(Call& call) override {
      if (!call.op().is_higher_order) return perform(std::move(call));
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
  fails(Outputs(), true, "answered with 0 output(s) instead of 1");
  fails(Outputs(2, x), true, "answered with 2 output(s) instead of 1");
  fails(x, false, "without running its function");
}

// ---- higher-order operations --------------------------------------------------------------------

using T = const Tensor&;
using Fn = std::function<Tensor(T)>;

// All higher-order operations, each as a function of a vector.
std::vector<std::pair<const char*, Fn>> carrying() {
  const auto f = [](T x) { return sin(x) * x; };
  const auto jvp_rule = [](T x, T d) { return std::pair(sin(x) * x, (cos(x) * x + sin(x)) * d); };
  const auto forward = [](T x) { return std::pair(sin(x) * x, x); };
  const auto backward = [](T x, T g) { return (cos(x) * x + sin(x)) * g; };
  return {
      {"checkpoint", [f](T x) { return checkpoint(f)(x); }},
      {"checkpoint with a policy", [f](T x) { return checkpoint(f, save_only_these_labels("none"))(x); }},
      {"checkpoint that captures", [](T x) { return checkpoint([x](T y) { return sin(x) * y; })(x); }},
      {"custom_jvp", [=](T x) { return custom_jvp(f, jvp_rule)(x); }},
      {"custom_vjp", [=](T x) { return custom_vjp(f, forward, backward)(x); }},
      {"custom_jvp of custom_vjp", [=](T x) { return custom_jvp(custom_vjp(f, forward, backward), jvp_rule)(x); }},
      {"checkpoint of custom_vjp", [=](T x) { return checkpoint(custom_vjp(f, forward, backward))(x); }},
      {"loop", [](T x) { return loop(3, [](T y) { return sin(y); }, {.snapshots = 1})(x); }},
      {"host_call",
       [](T x) {
         const auto same = [](T y) { return from(y.to_vector<float>(), y.shape()); };
         const auto called = [same](T y) { return host_call(same, {{Shape{3}, float32}})(y); };
         return custom_jvp(called, [](T y, T d) { return std::pair(y, d); })(x);
       }},
  };
}

// Functions that turn a right answer into a wrong one.
const struct {
  const char* name;
  std::function<Outputs(const Outputs&)> answer;
} wrong_answers[] = {
    {"rank 0", [](const Outputs& right) { return Outputs(right.size(), sum(right[0])); }},
    {"a longer rank", [](const Outputs& right) { return Outputs(right.size(), expand_dims(right[0], 0)); }},
    {"another shape",
     [](const Outputs& right) {
       return Outputs(right.size(), concat({right[0], right[0]}, 0));
     }},
    {"another dtype", [](const Outputs& right) { return Outputs(right.size(), astype(right[0], float64)); }},
    {"too few", [](const Outputs&) { return Outputs(); }},
    {"too many",
     [](const Outputs& right) {
       Outputs more = right;
       more.push_back(right[0]);
       return more;
     }},
    {"an empty one",
     [](const Outputs& right) {
       Outputs with_empty = right;
       with_empty[0] = Tensor();
       return with_empty;
     }},
};

struct WrongToCalls : Handler {
  const std::function<Outputs(const Outputs&)>& answer;
  int calls = 0;
  explicit WrongToCalls(const std::function<Outputs(const Outputs&)>& given) : answer(given) {}
  Outputs handle(Call& call) override {
    if (!call.op().is_higher_order) return perform(std::move(call));
    ++calls;
    return answer(perform(std::move(call)));
  }
  std::string describe() const override { return "wrong"; }
};
struct WrongControllerOfCalls : Controller {
  const std::function<Outputs(const Outputs&)>& answer;
  int calls = 0;
  explicit WrongControllerOfCalls(const std::function<Outputs(const Outputs&)>& given) : answer(given) {}
  void handle(Call& call, Resumption<Call> rest) override {
    if (!call.op().is_higher_order) return rest.resume_last(perform(std::move(call)));
    ++calls;
    rest.resume_last(answer(perform(call)));
  }
};

const struct {
  const char* name;
  std::function<Tensor(const Fn&, T)> of;
} around_calls[] = {
    {"no transform", [](const Fn& f, T x) { return f(x); }},
    {"vmap",
     [](const Fn& f, T x) {
       return vmap(f)(stack({x, -x}));
     }},
    {"grad", [](const Fn& f, T x) { return grad([&](T y) { return sum(f(y)); })(x); }},
    {"jvp", [](const Fn& f, T x) { return jvp(f, x, x).second; }},
    {"linearize", [](const Fn& f, T x) { return linearize(f, x).second(x); }},
    {"vmap of grad",
     [](const Fn& f, T x) {
       return vmap(grad([&](T y) { return sum(f(y)); }))(stack({x, -x}));
     }},
    {"grad of vmap",
     [](const Fn& f, T x) {
       return grad([&](T y) { return sum(vmap(f)(y)); })(stack({x, -x}));
     }},
    {"vmap of jvp",
     [](const Fn& f, T x) {
       return vmap([&](T y) { return jvp(f, y, y).second; })(stack({x, -x}));
     }},
    {"hessian", [](const Fn& f, T x) { return hessian([&](T y) { return sum(f(y)); })(x); }},
    {"compile", [](const Fn& f, T x) { return compile(f)(x); }},
    {"vmap, of lanes that part",
     [](const Fn& f, T x) {
       return vmap([&](T y) { return bool(y(0) > 0) ? f(y) : f(y * 2); })(stack({x, -x}));
     }},
};

TEST(Answer, ToHigherOrderOperationsIsCheckedUnderEveryTransform) {
  const Tensor x = tensor({1., 2., 3.});
  for (const auto& [operation, carried] : carrying())
    for (const auto& [transform, around] : around_calls)
      for (const auto& [kind, answer] : wrong_answers) {
        const auto& f = carried;  // clang 14 does not let lambdas capture structured bindings
        const auto& of = around;
        SCOPED_TRACE(std::string(operation) + ", " + transform + ", " + kind);
        const auto error = AllOf(HasSubstr("wrong answered with"), HasSubstr(": "));
        WrongToCalls outside(answer), inside(answer);
        const std::string text = message_of<TransformError>([&] { with(outside, [&] { return of(f, x); }); });
        if (outside.calls > 0) {
          EXPECT_THAT(text, error);
        }
        EXPECT_THAT(message_of<TransformError>([&] { of([&](T y) { return with(inside, [&] { return f(y); }); }, x); }),
                    error);
        EXPECT_GT(inside.calls, 0);
        WrongControllerOfCalls controller(answer);
        EXPECT_THAT(
            message_of<TransformError>([&] { of([&](T y) { return *with(controller, [&] { return f(y); }); }, x); }),
            HasSubstr("resume answered with"));
      }
}

// An answer of the right shape and dtype is accepted, whatever its values.
TEST(Answer, ToHigherOrderOperationsMayHaveOtherValues) {
  const std::function<Outputs(const Outputs&)> zero = [](const Outputs& right) {
    return Outputs(zeros_like(right[0]));
  };
  WrongToCalls replaces(zero);
  for (const auto& [operation, f] : carrying()) {
    SCOPED_TRACE(operation);
    const auto replaced = [&, g = &f](T y) { return with(replaces, [&] { return (*g)(y); }); };
    EXPECT_THAT(replaced(ones({3})), Equals(zeros({3})));
    EXPECT_THAT(vmap(replaced)(ones({2, 3})), Equals(zeros({2, 3})));
    EXPECT_THAT(grad([&](T y) { return sum(replaced(y)); })(ones({3})), Equals(zeros({3})));
  }
}

// The shapes and dtypes of host_call's results are declared, so a handler can answer for it without
// running it.
TEST(Answer, MayReplaceAHostCall) {
  struct Mock : Handler {
    Tensor value;
    explicit Mock(Tensor given) : value(std::move(given)) {}
    Outputs handle(Call& call) override {
      return call.op().is_higher_order ? Outputs(value) : perform(std::move(call));
    }
  };
  const auto foreign = host_call([](T) -> Tensor { throw std::runtime_error("runs"); }, {{Shape{2}, float32}});
  Mock right(ones({2})), wrong(ones({3}));
  EXPECT_THAT(with(right, [&] { return foreign(ones({5})); }), Equals(ones({2})));
  EXPECT_THAT(
      [&] { with(wrong, [&] { return foreign(ones({5})); }); },
      ThrowsMessage<TransformError>(AllOf(HasSubstr("host_call: "), HasSubstr("Mock answered with float32 [3]"))));
}

TEST(Attributes, AskingForTheWrongTypeThrows) {
  struct Asks : Handler {
    Outputs handle(Call& call) override {
      EXPECT_THROW(call.as<ShapeAttributes>(), TransformError);
      EXPECT_THROW(call.as<ReduceAttributes>(), TransformError);
      return perform(std::move(call));
    }
  } asks;
  with(asks, [] { return sin(ones({3})); });  // sin has no attributes
  struct Right : Handler {
    Outputs handle(Call& call) override {
      if (call.op().id == OpId::reshape) {
        EXPECT_EQ(call.as<ShapeAttributes>().shape, (Shape{3, 1}));
        EXPECT_THAT([&] { call.as<DtypeAttributes>(); },
                    ThrowsMessage<TransformError>(HasSubstr("reshape: its attributes were requested as")));
      }
      return perform(std::move(call));
    }
  } right;
  const Tensor x = ones({3});
  with(right, [&] { return reshape(x, {3, 1}); });
}

// Rules read attributes through their contexts: a rule that asks for attributes of the wrong type
// must throw.
TEST(Attributes, AskingForTheWrongTypeInARuleThrows) {
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
