// Scopes and labels: where they show, and that they change nothing else.
#include <stave/core/effects/scope.h>
#include <stave/core/tensor/label.h>
#include <stave/stave.h>

#include <sstream>
#include <thread>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

template <class Body>
std::vector<std::string> trace(Body body) {
  std::ostringstream out;
  with(Debug({.out = &out}), body);
  std::vector<std::string> lines;
  std::istringstream stream(out.str());
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> only(const std::string& word, const std::vector<std::string>& lines) {
  std::vector<std::string> found;
  for (const std::string& line : lines)
    if (line.find(word) != std::string::npos) found.push_back(line);
  return found;
}

Tensor two_layers(const Tensor& x) {
  Tensor h;
  {
    const Scope layer("layer1");
    h = sin(x);
  }
  const Scope layer("layer2");
  const Scope part(std::string("head"));
  return sum(exp(h));
}

// ---- scopes -------------------------------------------------------------------------------------

TEST(Scope, CopiesItsName) {
  std::string name = "of a name longer than what a string keeps in place";
  const Scope scope(name);
  name = "changed";
  EXPECT_EQ(current_handlers(), "of a name longer than what a string keeps in place");
}

TEST(Scope, ShowsInErrors) {
  EXPECT_THAT(message_of<TransformError>([] {
                const Scope layer("layer1");
                sin(Tensor());
              }),
              EndsWith("\n  inside layer1"));
}

TEST(Scope, EndsWithItsBlockAndWithExceptions) {
  try {
    const Scope scope("s");
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(current_handlers(), "");
  EXPECT_EQ(stave_detail::open_scopes, 0);
}

TEST(Scope, BackwardOperationsHaveTheScopeOfTheirForwardOperation) {
  const Tensor x = tensor({0.5, 1.});
  const std::vector<std::string> lines = trace([&] { return grad(two_layers)(x); });
  EXPECT_THAT(only("cos", lines), ElementsAre("    cos f32[2] -> f32[2]  [layer1]  [backward of grad]"));
  EXPECT_THAT(only("broadcast_to", lines), ElementsAre(HasSubstr("[head]  [layer2]  [backward of grad]")));
  EXPECT_THAT(only("[backward of grad]", only("scale", lines)),
              ElementsAre(EndsWith("[head]  [layer2]  [backward of grad]"), EndsWith("[layer1]  [backward of grad]")));
}

TEST(Scope, BackwardOperationsUnderVmapHaveTheScopeToo) {
  const std::vector<std::string> lines = trace([&] { return vmap(grad(two_layers))(ones({3, 2})); });
  EXPECT_THAT(only("cos", lines), ElementsAre(EndsWith("cos f32[3,2] -> f32[3,2]  [layer1]  [backward of grad]")));
}

TEST(Scope, TangentOperationsHaveTheScopeOfTheirOperation) {
  const Tensor x = ones({2});
  const std::vector<std::string> lines = trace([&] { return jvp(two_layers, x, x); });
  EXPECT_THAT(only("cos", lines), ElementsAre("    cos f32[2] -> f32[2]  [layer1]"));
}

// The inner backward pass performs cos within layer1. The outer backward pass therefore performs
// sin within layer1 and both backward passes.
TEST(Scope, SecondDerivativesNameScopesAndBothBackwardPasses) {
  const auto f = [](const Tensor& x) {
    const Scope layer("layer1");
    return sin(x);
  };
  const std::vector<std::string> lines = trace([&] { return grad(grad(f))(tensor(0.5)); });
  EXPECT_THAT(only("-> f32[]  [layer1]  [backward of grad]  [backward of grad]", only("sin", lines)),
              testing::SizeIs(1));
}

// The operations of a transform already run in the scopes around the transform. A pullback that is
// called elsewhere runs in the scopes of its caller.
TEST(Scope, PullbackRunsInTheOuterScopesOfItsCaller) {
  const Tensor x = tensor({0.5, 1.});
  const std::vector<std::string> lines = trace([&] {
    auto [y, pullback] = [&] {
      const Scope outer("outer");
      return vjp(two_layers, x);
    }();
    const Scope later("later");
    return pullback(y);
  });
  EXPECT_THAT(only("cos", lines), ElementsAre(EndsWith("[layer1]  [backward of vjp]  [later]")));
}

TEST(Scope, ErrorInAVjpRuleNamesTheScope) {
  struct NoCosines : Handler {
    Outputs handle(Call& call) override {
      if (call.op().id == OpId::cos) throw TransformError(error_context());
      return perform(std::move(call));
    }
    std::string describe() const override { return "no cosines"; }
  };
  EXPECT_EQ(message_of<TransformError>([&] { with(NoCosines(), [] { grad(two_layers)(ones({2})); }); }),
            "\n  inside layer1, inside backward of grad, inside no cosines");
  EXPECT_EQ(stave_detail::open_scopes, 0);
}

TEST(Scope, StaysWithAComputationThatAControllerResumes) {
  struct AnswerLater : Controller {
    void handle(Call& call, Resumption<Call> rest) override { rest.resume(perform(call)); }
  };
  const Tensor x = tensor({0.5, 1.});
  const std::vector<std::string> lines = trace([&] {
    AnswerLater controller;
    return with(controller, [&] { return grad(two_layers)(x); });
  });
  EXPECT_THAT(only("cos", lines), ElementsAre(EndsWith("[layer1]  [backward of grad]")));
}

TEST(Scope, ChangesNoDerivative) {
  const Tensor x = tensor({0.5, 1.});
  const auto plain = [](const Tensor& v) { return sum(exp(sin(v))); };
  EXPECT_THAT(grad(two_layers)(x), Equals(grad(plain)(x)));
  EXPECT_THAT(hessian(two_layers)(x), Equals(hessian(plain)(x)));
}

TEST(Scope, OperationsOfAScopeShareOneRecord) {
  struct Paths : Handler {
    stave_detail::ScopePathPtr last;
    std::vector<stave_detail::ScopePathPtr> seen;
    Outputs handle(Call& call) override {
      seen.push_back(stave_detail::scopes_of_performer(last));
      return perform(std::move(call));
    }
  } paths;
  const Tensor x = ones({2});
  const Scope around("around");
  with(paths, [&] {
    sin(x);
    const Scope layer("layer");
    sin(x);
    cos(x);
  });
  EXPECT_FALSE(paths.seen[0]);
  ASSERT_TRUE(paths.seen[1]);
  EXPECT_EQ(paths.seen[1]->names.size(), 1u);
  EXPECT_EQ(paths.seen[1], paths.seen[2]);
}

// ---- labels -------------------------------------------------------------------------------------

TEST(Label, NamesAValueInTraces) {
  const Tensor w = label(ones({2}), "w"), x = ones({2});
  EXPECT_EQ(label_of(w), "w");
  EXPECT_EQ(label_of(x), "");
  EXPECT_THAT(trace([&] { return x * w; }), ElementsAre("multiply f32[2], w:f32[2] -> f32[2]"));
}

TEST(Label, DoesNotAffectOtherHandlesOfTheTensor) {
  const Tensor x = ones({2}), w = label(x, "w"), v = label(w, "v"), none = label(v, "");
  EXPECT_EQ(label_of(x) + label_of(w) + label_of(v) + label_of(none), "wv");
  EXPECT_EQ(w.data<float>().data(), x.data<float>().data());
}

TEST(Label, PerformsNothing) {
  CountOps count;
  const Tensor lanes = ones({2, 3});
  with(count, [&] { vmap([](const Tensor& x) { return label(x, "x"); })(lanes); });
  EXPECT_EQ(count.n, 0);
}

TEST(Label, IsNotInheritedByResults) {
  const Tensor w = label(ones({2, 2}), "w");
  EXPECT_EQ(label_of(sin(w)), "");
  EXPECT_EQ(label_of(permute_dims(w, {1, 0})), "");
  EXPECT_EQ(label_of(w[0]), "");
  Tensor sole = label(contiguous(tensor({1., 2.})) + 1, "sole");
  EXPECT_EQ(label_of(sin(std::move(sole))), "");  // the result uses the same buffer
}

TEST(Label, ArgumentsKeepTheirLabelUnderTransforms) {
  const Tensor w = label(ones({3, 2}), "w");
  std::string under_grad, under_jvp, under_vmap;
  grad([&](const Tensor& v) { return under_grad = label_of(v), sum(v); })(w);
  jvp([&](const Tensor& v) { return under_jvp = label_of(v), sum(v); }, w, w);
  vmap([&](const Tensor& v) { return under_vmap = label_of(v), sum(v); }, {.in_axes = 1})(w);
  EXPECT_EQ(under_grad + under_jvp + under_vmap, "www");
}

TEST(Label, KeepsDerivatives) {
  const auto f = [](const Tensor& x) {
    const Tensor h = label(sin(x), "h");
    return h * label(h, "again");
  };
  const auto plain = [](const Tensor& x) { return square(sin(x)); };
  const Tensor x = tensor(0.5);
  EXPECT_THAT(grad(f)(x), IsNear(grad(plain)(x)));
  EXPECT_THAT(grad(grad(f))(x), IsNear(grad(grad(plain))(x)));
  EXPECT_THAT(jvp(f, x, x).second, IsNear(jvp(plain, x, x).second));
  EXPECT_THAT(vmap(grad(f))(tensor({0.5, 1.})), IsNear(vmap(grad(plain))(tensor({0.5, 1.}))));
}

TEST(Label, ShowsInTracesInsideAndOutsideOfTransforms) {
  const auto f = [](const Tensor& x) {
    const Tensor h = label(sin(x), "h");
    return sum(exp(h));
  };
  std::ostringstream inside;
  const std::vector<std::string> lines = trace([&] {
    return vmap(vmap(grad(debug(f, {.out = &inside}))))(ones({4, 3, 2}));
  });
  EXPECT_THAT(inside.str(), HasSubstr("exp h:f32[2] -> f32[2]\n"));
  EXPECT_THAT(only("exp", lines)[0], HasSubstr("exp h:f32[4,3,2] -> f32[4,3,2]"));
}

TEST(Label, ResultsOfTransformsKeepTheirLabel) {
  const auto f = [](const Tensor& x) { return label(sin(x), "y"); };
  EXPECT_EQ(label_of(vmap(f)(ones({2}))), "y");
  EXPECT_EQ(label_of(jvp(f, ones({2}), ones({2})).first), "y");
  EXPECT_EQ(label_of(std::get<0>(vjp(f, ones({2})))), "y");
}

TEST(Label, MayBeReadAndSetOnAnotherThread) {
  Tensor w = label(ones({2}), "w"), given;
  std::thread([&] {
    EXPECT_EQ(label_of(w), "w");
    given = label(w, "given");
  }).join();
  EXPECT_EQ(label_of(given), "given");
}

TEST(Label, LabellingAnEmptyTensorIsAnError) {
  EXPECT_THAT(message_of<TransformError>([] { label(Tensor(), "w"); }), HasSubstr("an empty Tensor is used"));
  EXPECT_THAT(message_of<TransformError>([] { label_of(Tensor()); }), HasSubstr("an empty Tensor is used"));
}

TEST(Debug, ShowsBytes) {
  const auto bytes = [](auto body) {
    std::ostringstream out;
    with(Debug({.out = &out, .bytes = true}), body);
    return out.str();
  };
  const Tensor x = ones({3}, float64), wide = ones({300, 256});
  EXPECT_THAT(bytes([&] { return sin(x); }), EndsWith("  24 B\n"));
  EXPECT_THAT(bytes([&] { return x > 0; }), EndsWith("  3 B\n"));
  EXPECT_THAT(bytes([&] { return sin(wide); }), EndsWith("  300.0 KiB\n"));
  EXPECT_THAT(bytes([&] { return broadcast_to(x, {Index(1) << 40, 3}); }), EndsWith("  24 B\n"));
  EXPECT_THAT(bytes([&] { return broadcast_to(x, {0, 3}); }), EndsWith("  0 B\n"));
  std::ostringstream lane;
  vmap(debug(sin, {.out = &lane, .bytes = true}))(ones({5, 3}));
  EXPECT_THAT(lane.str(), EndsWith("  60 B\n"));
}

// Handlers can read scopes() and in_backward_pass(). A handler inside grad sees only the forward
// pass, and a handler around grad also sees the backward pass.
TEST(Scopes, HandlersCanReadScopesAndTheBackwardPass) {
  struct Asks : Handler {
    std::vector<std::string> seen;
    Outputs handle(Call& call) override {
      std::string line = call.op().name;
      for (const std::string& scope : scopes()) line += " " + scope;
      seen.push_back(line + (in_backward_pass() ? " back" : ""));
      return perform(std::move(call));
    }
  } around, inside;
  const auto f = [](const Tensor& x) {
    const Scope outer("outer");
    const Tensor y = sin(x);
    const Scope inner("inner");
    return sum(y);
  };
  const Tensor x = ones({2});
  with(around, [&] { return grad(f)(x); });
  EXPECT_THAT(around.seen, testing::IsSupersetOf({"sin outer", "sum inner outer", "cos outer backward of grad back"}));
  grad([&](const Tensor& v) { return with(inside, [&] { return f(v); }); })(x);
  EXPECT_THAT(inside.seen, testing::ElementsAre("sin outer", "sum inner outer"));
  EXPECT_FALSE(in_backward_pass());
}

}  // namespace
