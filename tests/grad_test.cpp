// grad, value_and_grad, vjp, jvp, jacobians, hessians and check_grads, each alone. nesting_test.cpp
// tests nests of them.

#include <functional>
#include <memory>
#include <sstream>

#include <stave/stave.h>

#include "matchers.h"

namespace grad_test {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

Tensor number(double x) { return full({}, x, float64); }

// JAX's values below are for
//   f = lambda x: jnp.sum(jnp.tanh(x)**2 * jnp.exp(-x) / (1 + x**2))
//   x = jnp.array([.3, -1.2, 2.5])
Tensor f(const Tensor& x) { return sum(square(tanh(x)) * exp(-x) / (1 + square(x))); }
const Tensor at = tensor({.3, -1.2, 2.5}, float64);
const Tensor gradient = tensor({0.2729508991549907, -0.707505710778694, -0.018027574616019962}, float64);
const Tensor curvature = tensor({-0.14615243758847812, -0.7378701775663163, 0.03050186351000973}, float64);

//   loss = lambda w, x, y: jnp.mean(jnp.square(x @ w - y))
Tensor loss(const Tensor& w, const Tensor& x, const Tensor& y) { return mean(square(matmul(x, w) - y)); }
const Tensor W = tensor({{.1, .2}, {-.3, .4}, {.5, -.6}}, float64);
const Tensor X = tensor({{1., 2., 3.}, {4., 5., 6.}}, float64);
const Tensor Y = tensor({{.5, -1.}, {2., 0.}}, float64);
const Tensor dW = tensor({{.05, -1.5}, {.25, -1.8}, {.45, -2.1}}, float64);
const Tensor dX = tensor({{.045, -.035, .065}, {-.085, -.145, .215}}, float64);
const Tensor dY = tensor({{-.25, -.1}, {.05, .4}}, float64);

// ---- grad ---------------------------------------------------------------------------------------

TEST(Grad, OfClosedForms) {
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

TEST(Grad, ByChosenArguments) {
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

TEST(ValueAndGrad, GivesWhatElseTheFunctionReturned) {
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

TEST(Grad, OfAnythingCallable) {
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

TEST(Grad, OfOverloadedNames) {
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

TEST(Grad, IsZeroWhereTheLossDoesNotDepend) {
  const auto [ga, gb] = grad<0, 1>([](const Tensor& a, const Tensor&) { return sum(a); })(at, zeros({2, 2}));
  EXPECT_THAT(ga, IsNear(ones({3}, float64)));
  EXPECT_THAT(gb, Equals(zeros({2, 2})));
  EXPECT_THAT(grad([](const Tensor&) { return full({}, 3.); })(at), Equals(zeros({3}, float64)));
  EXPECT_THAT(grad([](const Tensor& t) { return sum(stop_gradient(t) * t); })(at), IsNear(at));
}

TEST(Grad, OfViews) {
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

TEST(Values, AreRealUnderGradAndJvp) {
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

TEST(Vjp, OfTreesAndSeveralResults) {
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

TEST(Vjp, OfOverloadedNames) {
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

// ---- jvp ----------------------------------------------------------------------------------------

TEST(Jvp, AgreesWithJax) {
  const Tensor v = tensor({1., -2., .5}, float64);
  const auto [value, tangent] = jvp(f, at, v);
  EXPECT_THAT(value, IsNumber(values(f(at))[0], 1e-12));
  EXPECT_THAT(tangent, IsNumber(1.67894853346, 1e-10));
}

TEST(Jvp, OfSeveralArguments) {
  const auto [out, tangent] =
      jvp(loss, std::make_tuple(W, X, Y), std::make_tuple(ones_like(W), zeros_like(X), 2 * ones_like(Y)));
  EXPECT_THAT(out, IsNumber(0.235, 1e-12));
  EXPECT_THAT(tangent, IsNumber(values(sum(dW) + 2 * sum(dY))[0], 1e-12));
  // A number among the arguments is no primal, so that it has no tangent.
  const auto scaled = [](const Tensor& x, int n) { return x * n; };
  EXPECT_THAT(jvp(scaled, std::tuple(at, 3), std::tuple(ones_like(at), 0)).second, IsNear(full({3}, 3., float64)));
}

TEST(Jvp, OfOneArgumentThatIsATree) {
  const auto product = [](const std::pair<Tensor, Tensor>& p) { return p.first * p.second; };
  EXPECT_THAT(jvp(product, std::pair(number(2), number(3)), std::pair(number(1), number(10))).second,
              IsNumber(23, 1e-12));
  const auto tuple = [](const std::tuple<Tensor, Tensor>& p) { return std::get<0>(p) * std::get<1>(p); };
  EXPECT_THAT(
      jvp(tuple, std::make_tuple(std::tuple(number(2), number(3))), std::make_tuple(std::tuple(number(1), number(10))))
          .second,
      IsNumber(23, 1e-12));
}

TEST(Jvp, OfSeveralResults) {
  const auto [out, tangent] =
      jvp([](const Tensor& x) { return std::tuple(x * x, sum(x), x > 0, full({2}, 7.)); }, at, ones_like(at));
  EXPECT_THAT(std::get<0>(tangent), IsNear(2 * at));
  EXPECT_THAT(std::get<1>(tangent), IsNumber(3, 1e-12));
  EXPECT_THAT(std::get<2>(tangent), Equals(full({3}, false)));
  EXPECT_THAT(std::get<3>(tangent), Equals(zeros({2})));
}

// An empty tangent stands for zero; an integer has no other tangent.
TEST(Jvp, EmptyTangentsAreZero) {
  struct Batch {
    Tensor x, labels;
  };
  const auto loss = [](const Batch& b) { return sum(take(b.x, b.labels)); };
  const auto [out, tangent] =
      jvp(loss, Batch{at, tensor({0, 2, 2})}, Batch{tensor({1., 10., 100.}, float64), Tensor()});
  EXPECT_THAT(out, IsNumber(5.3, 1e-12));
  EXPECT_THAT(tangent, IsNumber(201, 1e-12));
  EXPECT_THAT(jvp(loss, Batch{at, tensor({0})}, Batch{Tensor(), Tensor()}).second, IsNumber(0, 0));
}

TEST(Jvp, OfOverloadedNames) {
  EXPECT_THAT(jvp(sin, at, ones_like(at)).second, IsNear(cos(at)));
  EXPECT_THAT(jvp(sum, at, at).second, IsNumber(1.6, 1e-12));
}

// ---- jacobians ----------------------------------------------------------------------------------

// jax.jacfwd(lambda x: jnp.stack([x[0]*x[1], jnp.sin(x[1])*x[2], jnp.exp(x[0]-x[2]), x[2]**3]))(x)
Tensor four(const Tensor& x) { return stack({x[0] * x[1], sin(x[1]) * x[2], exp(x[0] - x[2]), pow(x[2], 3)}); }
const Tensor jacobian_of_four = tensor({{-1.2, 0.3, 0.0},
                                        {0.0, 0.905894386191684, -0.9320390859672263},
                                        {0.11080315836233387, 0.0, -0.11080315836233387},
                                        {0.0, 0.0, 18.75}},
                                       float64);

TEST(Jacobian, AgreesWithJaxInBothModes) {
  EXPECT_THAT(jacfwd(four)(at), IsNear(jacobian_of_four));
  EXPECT_THAT(jacrev(four)(at), IsNear(jacobian_of_four));
}

// jax.jacrev(lambda a: a @ a)(jnp.array([[1., 2.], [3., 4.]]))
TEST(Jacobian, HasTheResultsShapeThenTheArguments) {
  const Tensor a = tensor({{1., 2.}, {3., 4.}}, float64);
  const auto squared = [](const Tensor& m) { return matmul(m, m); };
  const Tensor expected =
      tensor({{{{2., 3.}, {2., 0.}}, {{2., 5.}, {0., 2.}}}, {{{3., 0.}, {5., 3.}}, {{0., 3.}, {2., 8.}}}}, float64);
  EXPECT_THAT(jacrev(squared)(a), IsNear(expected));
  EXPECT_THAT(jacfwd(squared)(a), IsNear(expected));
  const auto to_matrix = [](const Tensor& x) { return x * ones({4, 2}, float64); };
  EXPECT_EQ(jacfwd(to_matrix)(number(2)).shape(), Shape(4, 2));
  EXPECT_EQ(jacrev(to_matrix)(number(2)).shape(), Shape(4, 2));
  const auto wide = [](const Tensor& x) { return sum(x, 0, keepdims); };
  EXPECT_EQ(jacfwd(wide)(zeros({5, 3})).shape(), Shape(1, 3, 5, 3));
  EXPECT_EQ(jacrev(wide)(zeros({5, 3})).shape(), Shape(1, 3, 5, 3));
}

TEST(Jacobian, ByAnotherArgument) {
  const auto product = [](const Tensor& a, const Tensor& x) { return matmul(a, x); };
  EXPECT_THAT(jacfwd<1>(product)(X, at), IsNear(X));
  EXPECT_THAT(jacrev<1>(product)(X, at), IsNear(X));
  const auto quadratic = [](int n, const Tensor& x) { return sum(x * x) * n; };
  EXPECT_THAT(hessian<1>(quadratic)(3, at), IsNear(6 * eye(3, float64)));
}

TEST(Jacobian, OfConstantsAndOfNothing) {
  EXPECT_THAT(jacfwd([](const Tensor&) { return ones({2}, float64); })(at), Equals(zeros({2, 3}, float64)));
  EXPECT_THAT(jacrev([](const Tensor&) { return ones({2}, float64); })(at), Equals(zeros({2, 3}, float64)));
  EXPECT_EQ(jacfwd([](const Tensor& x) { return 2. * x; })(zeros({0})).shape(), Shape(0, 0));
  EXPECT_EQ(jacrev([](const Tensor& x) { return 2. * x; })(zeros({0})).shape(), Shape(0, 0));
}

TEST(Jacobian, OfIntegersIsAnError) {
  const auto whole = [](const Tensor& x) { return astype(x, int32); };
  const auto is = ThrowsMessage<DtypeError>(HasSubstr("the function returned int32, which has no derivative"));
  EXPECT_THAT([&] { jacfwd(whole)(at); }, is);
  EXPECT_THAT([&] { jacrev(whole)(at); }, is);
}

TEST(Jacobian, OfOverloadedNames) {
  EXPECT_THAT(jacfwd(sin)(number(0.)), IsNumber(1, 0));
  EXPECT_THAT(jacrev(sum)(at), IsNear(ones({3}, float64)));
}

TEST(Hessian, AgreesWithJax) {
  EXPECT_THAT(hessian(f)(at), IsNear(curvature * eye(3, float64)));
  // jax.hessian(lambda a: jnp.sum(a @ a @ a))(jnp.array([[1., 2.], [3., 4.]]))
  const auto cubed = [](const Tensor& a) { return sum(matmul(matmul(a, a), a)); };
  EXPECT_THAT(hessian(cubed)(tensor({{1., 2.}, {3., 4.}}, float64)),
              IsNear(tensor({{{{16., 15.}, {12., 5.}}, {{15., 6.}, {25., 18.}}},
                             {{{12., 25.}, {4., 15.}}, {{5., 18.}, {15., 34.}}}},
                            float64)));
  EXPECT_THAT(jacrev(jacfwd(f))(at), IsNear(curvature * eye(3, float64)));
  EXPECT_THAT(jacfwd(jacfwd(f))(at), IsNear(curvature * eye(3, float64)));
  EXPECT_THAT(jacrev(jacrev(f))(at), IsNear(curvature * eye(3, float64)));
}

TEST(Hessian, OfSeveralResultsHasTheirShapeFirst) {
  const Tensor h = hessian(four)(at);
  EXPECT_EQ(h.shape(), Shape(4, 3, 3));
  EXPECT_THAT(h[0], IsNear(tensor({{0., 1., 0.}, {1., 0., 0.}, {0., 0., 0.}}, float64)));  // x0 x1
  // x2^3 at 2.5
  EXPECT_THAT(h[3], IsNear(tensor({{0., 0., 0.}, {0., 0., 0.}, {0., 0., 15.}}, float64)));
}

// ---- jacobians of trees: blocks as in JAX -------------------------------------------------------

struct Coordinates {
  Tensor x, y;
};
Coordinates coordinates() { return {tensor({1., 2.}, float64), tensor(3., float64)}; }

// f = (x0 x1 y, x0 + y^2): df/dx = [[x1 y, x0 y], [1, 0]], df/dy = [x0 x1, 2 y]
TEST(JacobianOfTrees, IsATreeOfBlocksForOneResult) {
  const auto f = [](const Coordinates& c) { return stack({c.x[0] * c.x[1] * c.y, c.x[0] + c.y * c.y}); };
  for (const Coordinates& j : {jacfwd(f)(coordinates()), jacrev(f)(coordinates())}) {
    EXPECT_THAT(j.x, IsNear(tensor({{6., 3.}, {1., 0.}}, float64)));
    EXPECT_THAT(j.y, IsNear(tensor({2., 6.}, float64)));
  }
}

TEST(JacobianOfTrees, IsTheResultsTreeForOneTensor) {
  const auto f = [](const Tensor& x) { return Coordinates{x * x, sum(x)}; };
  for (const Coordinates& j : {jacfwd(f)(at), jacrev(f)(at)}) {
    EXPECT_THAT(j.x, IsNear(2 * at * eye(3, float64)));
    EXPECT_THAT(j.y, IsNear(ones({3}, float64)));
  }
}

TEST(JacobianOfTrees, IsTheResultsTreeOfTheArguments) {
  using Map = std::map<std::string, Tensor>;
  const auto f = [](const Coordinates& c) { return std::tuple(c.x * c.y, Map{{"s", sum(c.x)}}, std::vector{c.y}); };
  const auto check = [](const auto& jacobian) {
    const auto& [product, map, list] = jacobian;
    EXPECT_THAT(product.x, IsNear(3 * eye(2, float64)));
    EXPECT_THAT(product.y, IsNear(tensor({1., 2.}, float64)));
    EXPECT_THAT(map.at("s").x, IsNear(ones({2}, float64)));
    EXPECT_THAT(map.at("s").y, IsNumber(0));
    EXPECT_THAT(list.at(0).x, IsNear(zeros({2}, float64)));
    EXPECT_THAT(list.at(0).y, IsNumber(1));
  };
  check(jacfwd(f)(coordinates()));
  check(jacrev(f)(coordinates()));
}

TEST(JacobianOfTrees, BySeveralArguments) {
  const auto product = [](const Tensor& a, double, const Tensor& x) { return matmul(a, x); };
  const auto [by_a, by_x] = jacrev<0, 2>(product)(X, 0., at);
  EXPECT_EQ(by_a.shape(), Shape(X.shape(0), X.shape(0), X.shape(1)));
  EXPECT_THAT(by_x, IsNear(X));
}

// f = sum(x^2) y: d2/dx2 = 2 y I, d2/dx dy = 2 x, d2/dy2 = 0
TEST(HessianOfTrees, HasABlockForEachPair) {
  const auto f = [](const Coordinates& c) { return sum(c.x * c.x) * c.y; };
  const auto h = hessian(f)(coordinates());
  EXPECT_THAT(h[&Coordinates::x].x, IsNear(6 * eye(2, float64)));
  EXPECT_THAT(h[&Coordinates::x].y, IsNear(tensor({2., 4.}, float64)));
  EXPECT_THAT(h[&Coordinates::y].x, IsNear(tensor({2., 4.}, float64)));
  EXPECT_THAT(h[&Coordinates::y].y, IsNumber(0));
  EXPECT_EQ(h.rows.size(), 2u);
  const auto g = [](const Tensor& x, const Tensor& y) { return sum(x * x) * y; };
  const auto [x_row, y_row] = hessian<0, 1>(g)(coordinates().x, coordinates().y);
  EXPECT_THAT(std::get<0>(x_row), IsNear(6 * eye(2, float64)));
  EXPECT_THAT(std::get<1>(x_row), IsNear(tensor({2., 4.}, float64)));
  EXPECT_THAT(std::get<0>(y_row), IsNear(tensor({2., 4.}, float64)));
  // The third derivative: d3/dx dx dy = 2 I
  EXPECT_THAT(jacfwd(hessian(f))(coordinates()).rows[0].y, IsNear(2 * eye(2, float64)));
}

TEST(JacobianOfTrees, NamesTheMemberAtFault) {
  const auto f = [](const Coordinates& c) { return sum(c.x); };
  EXPECT_THAT(
      [&] {
        jacrev(f)(Coordinates{tensor(1.), tensor(1)});
      },
      ThrowsMessage<DtypeError>(HasSubstr("jacrev: argument 0 (its member 1) is int32 []")));
}

TEST(Hvp, IsTheHessianTimesAVector) {
  EXPECT_THAT(hvp(sum, at, at), IsNear(zeros({3}, float64)));
  const Tensor v = tensor({1., -2., .5}, float64);
  EXPECT_THAT(hvp(f, at, v), IsNear(curvature * v));
  struct Point {
    Tensor x, y;
  };
  // f = x^2 y: [[2y, 2x], [2x, 0]]
  const Point h =
      hvp([](const Point& p) { return p.x * p.x * p.y; }, Point{number(3), number(5)}, Point{number(1), number(10)});
  EXPECT_THAT(h.x, IsNumber(10 + 60, 1e-12));
  EXPECT_THAT(h.y, IsNumber(6, 1e-12));
}

// ---- check_grads --------------------------------------------------------------------------------

TEST(CheckGrads, PassesWhereRulesAreRight) {
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

TEST(CheckGrads, FindsASecondDerivativeThatWasCut) {
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
