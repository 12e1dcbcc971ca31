// grad, value_and_grad, vjp and check_grads, each alone. nesting_test.cpp tests nests of them.
#include <functional>
#include <memory>
#include <sstream>

#include <stave/stave.h>

#include "grad_functions.h"
#include "matchers.h"

namespace grad_test {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Grad, EqualsClosedForms) {
  const Tensor x = number(0.7);
  EXPECT_THAT(grad([](const Tensor& t) { return t * t * t; })(x), IsNumber(3 * 0.49, 1e-12));
  EXPECT_THAT(grad([](const Tensor& t) { return sin(t); })(x), IsNumber(std::cos(0.7), 1e-12));
  EXPECT_THAT(grad([](const Tensor& t) { return exp(2 * t) / t; })(x),
              IsNumber(std::exp(1.4) * (2 / 0.7 - 1 / 0.49), 1e-12));
  EXPECT_THAT(grad([](const Tensor& t) { return t; })(x), IsNumber(1, 0));
}

TEST(Grad, AgreesWithJax) {
  EXPECT_THAT(grad(f)(at), IsNear(gradient));
  EXPECT_THAT(grad(loss)(W, X, Y), IsNear(dW));
}

TEST(Grad, MayBeByChosenArguments) {
  EXPECT_THAT(grad<1>(loss)(W, X, Y), IsNear(dX));
  EXPECT_THAT(grad<2>(loss)(W, X, Y), IsNear(dY));
  const auto [gw, gy] = grad<0, 2>(loss)(W, X, Y);
  EXPECT_THAT(gw, IsNear(dW));
  EXPECT_THAT(gy, IsNear(dY));
  const std::tuple<Tensor, Tensor, Tensor> all = grad<0, 1, 2>(loss)(W, X, Y);
  EXPECT_THAT(std::get<1>(all), IsNear(dX));
}

TEST(ValueAndGrad, GivesBoth) {
  const auto [value, g] = value_and_grad(loss)(W, X, Y);
  EXPECT_THAT(value, IsNumber(0.235, 1e-12));
  EXPECT_THAT(g, IsNear(dW));
  const auto both = value_and_grad<0, 1>(loss)(W, X, Y);
  EXPECT_THAT(std::get<1>(both.grad), IsNear(dX));
}

TEST(ValueAndGrad, GivesAuxiliaryResults) {
  const auto with_aux = [](const Tensor& x, int n) {
    return std::pair(sum(x * x), std::tuple(x + 1, n + 1, std::string("text")));
  };
  const auto [value, g, aux] = value_and_grad(with_aux)(at, 4);
  EXPECT_THAT(g, IsNear(2 * at));
  EXPECT_THAT(std::get<0>(aux), IsNear(at + 1));
  EXPECT_EQ(std::get<1>(aux), 5);
  EXPECT_EQ(std::get<2>(aux), "text");
  const auto [g2, aux2] = grad(with_aux)(at, 7);
  EXPECT_THAT(g2, IsNear(2 * at));
  EXPECT_EQ(std::get<1>(aux2), 8);
}

struct Functor {
  Tensor scale;
  Tensor operator()(const Tensor& x) const { return sum(scale * x * x); }
};
struct Linear {
  Tensor weight;
  Tensor loss(const Tensor& x) const { return sum(square(weight * x)); }
};

TEST(Grad, AcceptsAnyCallable) {
  const Tensor x = tensor({1., 2., 3.});
  EXPECT_THAT(grad(Functor{tensor(0.5)})(x), IsNear(x));
  EXPECT_THAT(grad(&f)(at), IsNear(gradient));
  const std::function<Tensor(const Tensor&)> erased = f;
  EXPECT_THAT(grad(erased)(at), IsNear(gradient));
  EXPECT_THAT(grad([](auto t) { return sum(t); })(x), IsNear(ones({3})));
  EXPECT_THAT(grad([](Tensor t) { return sum(std::move(t)); })(x), IsNear(ones({3})));
  EXPECT_THAT(grad(&Linear::loss)(Linear{x}, tensor(2.)).weight, IsNear(8 * x));
  const auto kept = grad(f);
  EXPECT_THAT(kept(at), IsNear(gradient));
  EXPECT_THAT(kept(at), IsNear(gradient));  // it may be called again
}

TEST(Grad, AcceptsOverloadedNames) {
  const Tensor x = tensor({1., 4.}), a = tensor(1.), b = tensor(3.);
  EXPECT_THAT(grad(sum)(x), IsNear(tensor({1., 1.})));
  EXPECT_THAT(grad(prod)(x), IsNear(tensor({4., 1.})));
  EXPECT_THAT(grad(sin)(tensor(0.)), IsNumber(1));
  EXPECT_THAT(grad<1>(maximum)(a, b), IsNumber(1));
  EXPECT_THAT(grad(multiply)(a, b), IsNumber(3));
  EXPECT_THAT(grad(norm)(tensor({3., 4.})), IsNear(tensor({0.6, 0.8})));
  const auto [value, g] = value_and_grad(sum)(x);
  EXPECT_THAT(value, IsNumber(5));
}

TEST(Grad, UsesOfAValueAddUp) {
  const Tensor x = number(2);
  EXPECT_THAT(grad([](const Tensor& t) { return t + t * t + (t + t) * t; })(x), IsNumber(1 + 4 + 8, 1e-12));
  EXPECT_THAT(grad([](const Tensor& t) {
                Tensor y = t;
                for (int i = 0; i < 10; ++i) y = y + y;
                return y;
              })(x),
              IsNumber(1024, 1e-12));
  EXPECT_THAT(grad([](const Tensor& t) { return sum(concat({t, t, 3. * t})); })(at), IsNear(full({3}, 5., float64)));
}

TEST(Grad, IsZeroForUnusedArguments) {
  const auto [ga, gb] = grad<0, 1>([](const Tensor& a, const Tensor&) { return sum(a); })(at, zeros({2, 2}));
  EXPECT_THAT(ga, IsNear(ones({3}, float64)));
  EXPECT_THAT(gb, Equals(zeros({2, 2})));
  EXPECT_THAT(grad([](const Tensor&) { return full({}, 3.); })(at), Equals(zeros({3}, float64)));
  EXPECT_THAT(grad([](const Tensor& t) { return sum(stop_gradient(t) * t); })(at), IsNear(at));
}

TEST(Grad, DifferentiatesViews) {
  const Tensor a = reshape(arange(0, 6, 1, float64), {2, 3});
  const auto weighted = [&](const Tensor& t) { return sum(square(t) * reshape(arange(6), {3, 2})); };
  EXPECT_THAT(grad(weighted)(transpose(a)), IsNear(2 * transpose(a) * reshape(arange(6), {3, 2})));
  EXPECT_THAT(grad([](const Tensor& t) { return sum(square(transpose(t)(slice(1, 3), 0))); })(a),
              IsNear(tensor({{0., 2., 4.}, {0., 0., 0.}}, float64)));
  EXPECT_THAT(grad([](const Tensor& t) {
                return sum(broadcast_to(t, {4, 2, 3}));
              })(a),
              IsNear(full({2, 3}, 4., float64)));
}

TEST(Grad, DoesNotConfuseAnArgumentWithACapturedValue) {
  const Tensor x = number(3);
  EXPECT_THAT(grad([&](const Tensor& y) { return x * y; })(x), IsNumber(3, 0));  // not 6
  EXPECT_THAT(jvp([&](const Tensor& y) { return x * y; }, x, number(1)).second, IsNumber(3, 0));
  const auto [ga, gb] = grad<0, 1>([](const Tensor& a, const Tensor& b) { return a * b * b; })(x, x);
  EXPECT_THAT(ga, IsNumber(9, 0));
  EXPECT_THAT(gb, IsNumber(18, 0));
  EXPECT_THAT(jvp([](const Tensor& a, const Tensor& b) { return a * b * b; }, std::tuple(x, x),
                  std::tuple(number(1), number(0)))
                  .second,
              IsNumber(9, 0));
}

// ---- traced values are concrete -----------------------------------------------------------------

// x^n by repeated squaring.
Tensor power(const Tensor& x, int n) {
  if (n == 0) return ones_like(x);
  const Tensor half = power(x, n / 2);
  return n % 2 ? half * half * x : half * half;
}
// Returns sqrt(x) by Newton's method, until its steps stop changing.
Tensor newton(const Tensor& x) {
  Tensor y = x;
  while (std::abs((y * y - x).item<double>()) > 1e-14) y = (y + x / y) / 2;
  return y;
}
Tensor branches(const Tensor& x) { return bool(x > 0) ? x * x : -x; }

TEST(Values, AreConcreteUnderGradAndJvp) {
  const Tensor x = number(1.5);
  EXPECT_THAT(grad([](const Tensor& t) { return power(t, 5); })(x), IsNumber(5 * std::pow(1.5, 4), 1e-12));
  EXPECT_THAT(grad(newton)(x), IsNumber(0.5 / std::sqrt(1.5), 1e-9));
  EXPECT_THAT(grad(branches)(x), IsNumber(3, 0));
  EXPECT_THAT(grad(branches)(-x), IsNumber(-1, 0));
  EXPECT_THAT(jvp(newton, x, number(1)).second, IsNumber(0.5 / std::sqrt(1.5), 1e-9));
  EXPECT_THAT(jvp(branches, -x, number(2)).second, IsNumber(-2, 0));
  // The number is a constant.
  EXPECT_THAT(grad([](const Tensor& t) { return t * t.item<double>(); })(x), IsNumber(1.5, 0));
}

TEST(Values, ArePrintedUnderGradAndJvp) {
  std::ostringstream out;
  const auto prints = [&](const Tensor& t) {
    out << t * 2 << ";";
    return sum(t);
  };
  grad(prints)(tensor({1., 2.}));
  jvp(prints, tensor({1., 2.}), tensor({1., 0.}));
  EXPECT_EQ(out.str(), "[2. 4.];[2. 4.];");
}

TEST(Values, MayBeComparedUnderGradAndJvp) {
  const auto reads = [](const Tensor& t) {
    const Tensor y = 2. * t;
    EXPECT_TRUE(array_equal(y, y));
    return sum(y);
  };
  grad(reads)(at);
  jvp(reads, at, at);
}

// ---- vjp ----------------------------------------------------------------------------------------

TEST(Vjp, ThePullbackMayBeCalledAgain) {
  const auto [out, pullback] = vjp([](const Tensor& x, const Tensor& y) { return x * sin(y); }, number(2), number(0.5));
  EXPECT_THAT(out, IsNumber(2 * std::sin(0.5), 1e-12));
  for (const double ct : {1., -3., 0., 1.}) {
    const auto [dx, dy] = pullback(number(ct));
    EXPECT_THAT(dx, IsNumber(ct * std::sin(0.5), 1e-12));
    EXPECT_THAT(dy, IsNumber(ct * 2 * std::cos(0.5), 1e-12));
  }
}

TEST(Vjp, CopiesOfThePullbackShareTheTape) {
  auto made = std::make_unique<std::pair<Tensor, Pullback<Tensor, Tensor>>>(vjp(f, at));
  const auto copy = made->second;
  made.reset();
  EXPECT_THAT(std::get<0>(copy(number(2))), IsNear(2 * gradient));
}

TEST(Vjp, AcceptsTreesAndSeveralResults) {
  const auto [out, pullback] =
      vjp([](const Tensor& x, int n) { return std::tuple(x * x, sum(x) * n, astype(x, int32)); }, at, 3);
  EXPECT_THAT(std::get<1>(out), IsNumber(4.8, 1e-12));
  EXPECT_EQ(std::get<2>(out).dtype(), int32);
  const Tensor ct = tensor({1., 0., -1.}, float64);
  const auto [dx, nothing] = pullback(std::tuple(ct, number(10), Tensor()));
  static_assert(std::is_same_v<decltype(nothing), const std::monostate>);
  EXPECT_THAT(dx, IsNear(2 * at * ct + 30));
  // An empty cotangent is zero.
  EXPECT_THAT(std::get<0>(pullback(std::tuple(Tensor(), number(1), Tensor()))), IsNear(full({3}, 3., float64)));
}

TEST(Vjp, AcceptsOverloadedNames) {
  const auto [out, pullback] = vjp(sin, at);
  EXPECT_THAT(std::get<0>(pullback(ones({3}, float64))), IsNear(cos(at)));
}

// The pullback is linear, so its derivative by the cotangent is the pullback itself. Its derivative
// by the primal is <ct, f''>.
TEST(Vjp, ThePullbackCanBeDifferentiated) {
  const auto [out, pullback] = vjp([](const Tensor& x) { return sin(x); }, at);
  const auto through = [&pullback = pullback](const Tensor& ct) { return sum(std::get<0>(pullback(ct)) * at); };
  EXPECT_THAT(grad(through)(ones({3}, float64)), IsNear(cos(at) * at));
  const auto inside = [](const Tensor& x) { return sum(std::get<0>(vjp(f, x).second(number(1)))); };
  EXPECT_THAT(grad(inside)(at), IsNear(curvature));
}

// ---- check_grads --------------------------------------------------------------------------------

TEST(CheckGrads, RefusesAnOrderBelowOne) {
  for (const int order : {0, -1})
    EXPECT_THAT([&] { check_grads(sin, at, {.order = order}); },
                ThrowsMessage<TransformError>(HasSubstr("should be at least 1")));
}

TEST(CheckGrads, PassesCorrectRules) {
  check_grads(sin, at);
  check_grads(pow, std::tuple(exp(at), at));
  check_grads([](const Coordinates& c) { return sum(c.x * c.y); }, coordinates());
  check_grads(f, at, {.order = 3});
  check_grads(loss, std::tuple(W, X, Y), {.order = 2});
  check_grads([](const Tensor& x, int n) { return std::tuple(x * n, sin(x)); }, std::tuple(at, 3));
  // float32, with its own tolerance.
  check_grads([](const Tensor& x) { return x * x; }, tensor({1., 2.}));
}

// Answers `op` with twice its value, where the handler stack's description contains `when`.
struct Corrupt : Handler {
  const Op& op;
  std::string when;
  Corrupt(const Op& op, std::string when) : op(op), when(std::move(when)) {}
  Outputs handle(Call& call) override {
    const bool wrong = &call.op() == &op && current_handlers().find(when) != std::string::npos;
    Outputs outputs = perform(std::move(call));
    if (wrong) outputs[0] = 2 * outputs[0];
    return outputs;
  }
};

TEST(CheckGrads, FindsAWrongRule) {
  Corrupt corrupt(op_cos, "");  // cos occurs only in the rule of sin
  EXPECT_THAT(
      [&] { with(corrupt, [] { check_grads([](const Tensor& x) { return sin(x); }, at); }); },
      ThrowsMessage<TransformError>(AllOf(
          HasSubstr("check_grads: jvp and the central difference at order 1 disagree: "), HasSubstr("tolerance"))));
}

TEST(CheckGrads, FindsAWrongVjpRule) {
  Corrupt corrupt(op_cos, "backward of");
  EXPECT_THAT([&] { with(corrupt, [] { check_grads([](const Tensor& x) { return sin(x); }, at); }); },
              ThrowsMessage<TransformError>(
                  HasSubstr("check_grads: vjp and jvp (the adjoint identity) at order 1 disagree: ")));
}

// Stops the derivative of `scale`, and with it second derivatives.
struct CutScale : Handler {
  Outputs handle(Call& call) override {
    const bool cut = &call.op() == &op_scale;
    Outputs outputs = perform(std::move(call));
    return cut ? Outputs(stop_gradient(outputs[0])) : outputs;
  }
};

TEST(CheckGrads, FindsAMissingSecondDerivative) {
  CutScale cut;
  const auto value = [&](const Tensor& x) { return with(cut, [&] { return sin(x); }); };
  check_grads(value, at, {.order = 2});  // the rules are performed outside the handler
  const auto derivative = [&](const Tensor& x) { return with(cut, [&] { return jvp(sin, x, ones_like(x)).second; }); };
  EXPECT_THAT([&] { check_grads(derivative, at); },
              ThrowsMessage<TransformError>(HasSubstr("central difference at order 1")));
  const auto second = [&](const Tensor& x) { return sum(square(derivative(x))); };
  EXPECT_THROW(check_grads(second, at), TransformError);
}

}  // namespace grad_test
