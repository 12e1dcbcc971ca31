// Transforms nested in each other in every order.
#include <numbers>
#include <sstream>

#include <stave/stave.h>

#include "matchers.h"
#include "nesting.h"

namespace nesting_test {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

// Each transform below maps a function of a number to another such function, so transforms
// compose in any order. The expected result has a closed form. Starting from s(x) = x sin x,
// it is a sum of terms c s^(n)(a x), where s^(n) is the n-th derivative:
//   s^(n)(x) = x sin(x + n pi/2) + n sin(x + (n - 1) pi/2)

struct Term {
  double c;
  int n;
  double a;
};
using Terms = std::vector<Term>;

double at(const Terms& terms, double x) {
  double total = 0;
  const auto quarter = std::numbers::pi / 2;
  for (const auto& [c, n, a] : terms)
    total += c * (a * x * std::sin(a * x + n * quarter) + n * std::sin(a * x + (n - 1) * quarter));
  return total;
}
Terms derivative(Terms terms) {
  for (Term& term : terms) term = {term.c * term.a, term.n + 1, term.a};
  return terms;
}
Terms over_lanes(const Terms& terms) {  // g(x) + g(2x) + g(3x)
  Terms result;
  for (double k : {1., 2., 3.})
    for (const auto& [c, n, a] : terms) result.push_back({c, n, a * k});
  return result;
}

CountOps counter;
std::ostringstream trace;
const Tensor lanes = tensor({1., 2., 3.}, float64);

struct Transform {
  const char* name;
  Function (*apply)(Function);
  Terms (*expected)(Terms);
};
const Transform transforms[] = {
    {"grad", [](Function f) -> Function { return grad(f); }, derivative},
    {"jvp", [](Function f) -> Function { return [f](T x) { return jvp(f, x, ones_like(x)).second; }; }, derivative},
    {"vmap", [](Function f) -> Function { return [f](T x) { return sum(vmap(f)(lanes * x)); }; },
     [](Terms terms) { return over_lanes(terms); }},
    {"vmap with x captured",
     [](Function f) -> Function { return [f](T x) { return sum(vmap([&](T k) { return f(k * x); })(lanes)); }; },
     [](Terms terms) { return over_lanes(terms); }},
    {"debug", [](Function f) -> Function { return [f](T x) { return debug(f, {.out = &trace, .values = true})(x); }; },
     [](Terms terms) { return terms; }},
    {"count", [](Function f) -> Function { return [f](T x) { return with(counter, [&] { return f(x); }); }; },
     [](Terms terms) { return terms; }},
};

// Checks all sequences of `depth` transforms, outermost first, applied to f.
void expect_all(int depth, const Function& f, const Terms& terms, const std::string& name) {
  if (depth == 0) {
    EXPECT_THAT(f(number(0.4)), IsNumber(at(terms, 0.4), 1e-11)) << name;
    return;
  }
  for (const Transform& transform : transforms)
    expect_all(depth - 1, transform.apply(f), transform.expected(terms),
               std::string(transform.name) + "(" + name + ")");
}

class AllSequences : public testing::TestWithParam<int> {
 protected:
  ~AllSequences() override { trace.str(""); }
};
TEST_P(AllSequences, GiveTheClosedForm) { expect_all(GetParam(), s, {{1, 0, 1}}, "s"); }
INSTANTIATE_TEST_SUITE_P(OfLength, AllSequences, testing::Values(1, 2, 3, 4), testing::PrintToStringParamName());

// ---- named nests --------------------------------------------------------------------------------

Tensor quartic(T x) { return sum(square(square(x))); }  // gradient 4x^3, Hessian diag(12x^2)

TEST(Nest, VmapOfGradOfVmap) {  // per-model gradients of a loss over a batch
  const Tensor ws = tensor({{.1, .2, -.3}, {.5, -.4, .6}}, float64),
               xs = reshape(sin(arange(0, 12, 1, float64)), {4, 3});
  const auto total = [&](T w) { return sum(vmap([&](T x) { return tanh(sum(w * x)); })(xs)); };
  const Tensor p = matmul(ws, transpose(xs));
  EXPECT_THAT(vmap(grad(total))(ws), IsNear(matmul(1 - square(tanh(p)), xs)));
}

TEST(Nest, GradOfVmapOfJvp) {  // the derivative of the sum of t cos t
  const auto directional = [](T t) { return jvp(sin, t, t).second; };
  EXPECT_THAT(grad([&](T x) { return sum(vmap(directional)(x)); })(x3), IsNear(cos(x3) - x3 * sin(x3)));
}

TEST(Nest, JvpOfJvpOfJvp) {
  const auto d = [](Function f) -> Function { return [f](T x) { return jvp(f, x, ones_like(x)).second; }; };
  EXPECT_THAT(d(d(d([](T x) { return sin(x); })))(x3), IsNear(-cos(x3)));
}

TEST(Nest, GradGradGrad) {
  const auto fifth = [](T x) { return pow(x, 5); };
  EXPECT_THAT(grad(grad(grad(fifth)))(number(1.5)), IsNumber(60 * 1.5 * 1.5, 1e-11));
  EXPECT_THAT(grad(grad(grad(fifth)))(number(-1.5)), IsNumber(60 * 1.5 * 1.5, 1e-11));
}

TEST(Nest, DebugOfVmapOfGrad) {
  std::ostringstream outside, inside;
  const Tensor x = tensor({{1., 2., 3.}, {4., 5., 6.}});
  const auto f = [](T row) { return sum(row * row); };
  EXPECT_THAT(debug(vmap(grad(f)), {.out = &outside})(x), IsNear(2 * x));
  EXPECT_THAT(outside.str(), HasSubstr("multiply f32[2,3], f32[2,3] -> f32[2,3]"));  // all lanes
  EXPECT_THAT(outside.str(), HasSubstr("backward of grad"));
  EXPECT_THAT(vmap(debug(grad(f), {.out = &inside}))(x), IsNear(2 * x));
  EXPECT_THAT(inside.str(), HasSubstr("multiply f32[3], f32[3] -> f32[3]"));  // one lane
  EXPECT_THAT(inside.str(), Not(HasSubstr("f32[2,3]")));
}

TEST(Nest, GradOfDebugSeesNoBackward) {
  std::ostringstream out;
  grad(debug([](T x) { return sum(x * x); }, {.out = &out}))(x3);
  EXPECT_EQ(out.str(), "multiply f64[3], f64[3] -> f64[3]\nsum axes=[0] f64[3] -> f64[]\n");
}

TEST(Nest, VmapOfJvpOfGrad) {  // Hessian-vector products
  const Tensor vs = stack({v3, 2 * v3, x3, ones_like(v3)});
  EXPECT_THAT(vmap([](T v) { return hvp(quartic, x3, v); })(vs), IsNear(12 * x3 * x3 * vs));
  EXPECT_THAT(vmap([](T x, T v) { return hvp(quartic, x, v); })(vs, vs), IsNear(12 * vs * vs * vs));
}

TEST(Nest, JvpOfVmapOfGrad) {  // s'' v
  EXPECT_THAT(jvp(vmap(grad(s)), x3, v3).second, IsNear((2 * cos(x3) - x3 * sin(x3)) * v3));
}

TEST(Nest, GradOfJvpOfGrad) {  // the gradient of v H v
  EXPECT_THAT(grad([](T x) { return sum(v3 * jvp(grad(quartic), x, v3).second); })(x3), IsNear(24 * v3 * v3 * x3));
  // This is the gradient by the vector.
  EXPECT_THAT(grad([](T v) { return sum(v * hvp(quartic, x3, v)); })(v3), IsNear(24 * x3 * x3 * v3));
}

TEST(Nest, VmapOfVmapOfGrad) {  // a kernel: d/da exp(-(a - b)^2)
  const auto kernel = [](T a, T b) { return exp(-square(a - b)); };
  const auto table = vmap(vmap(grad(kernel), {.in_axes = {unmapped, 0}}), {.in_axes = {0, unmapped}});
  const Tensor difference = expand_dims(x3, 1) - v3;
  EXPECT_THAT(table(x3, v3), IsNear(-2 * difference * exp(-square(difference))));
}

TEST(Nest, GradOfGradOfVmap) {  // sin x + sin 2x + sin 3x
  const auto waves = [](T x) { return sum(vmap([&](T k) { return sin(k * x); })(lanes)); };
  double expected = 0;
  for (int k = 1; k <= 3; ++k) expected -= k * k * std::sin(k * 0.7);
  EXPECT_THAT(grad(grad(waves))(number(0.7)), IsNumber(expected, 1e-11));
}

TEST(Nest, VmapOfGradOfGrad) { EXPECT_THAT(vmap(grad(grad(s)))(x3), IsNear(2 * cos(x3) - x3 * sin(x3))); }

TEST(Nest, JvpOfGradOfVmap) {
  const auto total = [](T x) { return sum(vmap(s)(x)); };
  EXPECT_THAT(jvp(grad(total), x3, v3).second, IsNear((2 * cos(x3) - x3 * sin(x3)) * v3));
}

TEST(Nest, FourthDerivativeOfSin) {
  const auto sine = [](T x) { return sin(x); };
  EXPECT_THAT(grad(grad(grad(grad(sine))))(number(0.8)), IsNumber(std::sin(0.8), 1e-12));
  EXPECT_THAT(hessian(hessian(sine))(number(0.8)), IsNumber(std::sin(0.8), 1e-12));
  EXPECT_THAT(vmap(hessian(hessian(sine)))(x3), IsNear(sin(x3)));
  EXPECT_THAT(jacfwd(jacrev(jacfwd(jacrev(sine))))(number(0.8)), IsNumber(std::sin(0.8), 1e-12));
}

// Compares the Hessians of a function of many operations with second differences of its value.
TEST(Nest, HessiansInAllModesAgreeWithDifferences) {
  const Tensor x = reshape(sin(arange(0, 8, 1, float64)), {4, 2}), y = cos(arange(0, 12, 1, float64)),
               pick = tensor({2, 0, 2});
  const auto model = [&](T w) {
    const Tensor h = tanh(matmul(x, reshape(w, {2, 3})));
    const Tensor z = concat({h, transpose(h(slice(0, 3)))}, 0) * sigmoid(w(slice(0, 3)));
    const Tensor picked = take(z, pick, 0) / sqrt(1 + square(w[5]));
    return sum(square(picked)) + logsumexp(z) + prod(w) + max(z) + sum(reshape(h, {12}) * y) + norm(w);
  };
  const Tensor w = tensor({.3, -.2, .5, .7, -.9, .4}, float64);
  const double step = 1e-4;
  const auto value = [&](int i, double di, int j, double dj) {
    std::vector<double> moved = values(w);
    moved[static_cast<std::size_t>(i)] += di;
    moved[static_cast<std::size_t>(j)] += dj;
    return model(from(moved)).item<double>();
  };
  std::vector<double> second;
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 6; ++j)
      second.push_back(
          (value(i, step, j, step) - value(i, step, j, -step) - value(i, -step, j, step) + value(i, -step, j, -step)) /
          (4 * step * step));
  const Tensor expected = from(second, {6, 6});
  EXPECT_THAT(jacfwd(jacfwd(model))(w), IsNear(expected, 1e-6));
  EXPECT_THAT(jacfwd(jacrev(model))(w), IsNear(expected, 1e-6));
  EXPECT_THAT(jacrev(jacfwd(model))(w), IsNear(expected, 1e-6));
  EXPECT_THAT(jacrev(jacrev(model))(w), IsNear(expected, 1e-6));
  EXPECT_THAT(jacfwd(grad(model))(w), IsNear(expected, 1e-6));
  EXPECT_THAT(jacrev(jacrev(model))(w), IsNear(jacfwd(jacfwd(model))(w), 1e-11));
  check_grads(model, w, {.order = 2});
}

// ---- perturbation confusion ---------------------------------------------------------------------

TEST(PerturbationConfusion, DoesNotHappen) {
  const auto by_grad = [](Function f, T x) { return grad(f)(x); };
  const auto by_jvp = [](Function f, T x) { return jvp(f, x, ones_like(x)).second; };
  const auto check = [](auto outer, auto inner) {
    const Tensor one = number(1), three = number(3);
    // d/dx [x d/dy (x + y)] = 1 (Siskind and Pearlmutter 2005).
    EXPECT_THAT(outer([&](T x) { return x * inner([&](T y) { return x + y; }, one); }, one), IsNumber(1, 0));
    // d/dx [x d/dy (x y)] = d/dx x^2.
    EXPECT_THAT(outer([&](T x) { return x * inner([&](T y) { return x * y; }, one); }, three), IsNumber(6, 0));
    // Both derivatives are at the same tensor: d/dx [d/dy (x y^2) at y = x] = d/dx 2x^2.
    EXPECT_THAT(outer([&](T x) { return inner([&](T y) { return x * y * y; }, x); }, three), IsNumber(12, 0));
    // x is hidden in a captured intermediate value.
    EXPECT_THAT(outer(
                    [&](T x) {
                      const Tensor z = x * x;
                      return inner([&](T y) { return z * y * y; }, z);  // 2 z^2 = 2 x^4
                    },
                    three),
                IsNumber(8 * 27, 0));
    // The inner function does not depend on its variable.
    EXPECT_THAT(outer([&](T x) { return x + inner([&](T) { return x * x; }, x); }, three), IsNumber(1, 0));
  };
  check(by_grad, by_grad);
  check(by_grad, by_jvp);
  check(by_jvp, by_grad);
  check(by_jvp, by_jvp);
}

TEST(PerturbationConfusion, DoesNotHappenForOneFunctionObject) {
  const auto cube = [](T x) { return x * x * x; };
  const auto d = grad(cube);
  // d/dx (x^3 times 3x^2) = 15 x^4.
  EXPECT_THAT(grad([&](T x) { return cube(x) * d(x); })(number(2)), IsNumber(15 * 16, 1e-12));
}

// ---- pullbacks that outlive a transform ---------------------------------------------------------

using Pull = Pullback<Tensor, Tensor>;

TEST(Pullbacks, OfAnInnerVjpWorkAfterTheOuterTransform) {
  std::optional<Pull> kept;
  const auto f = [&](T x) {
    auto [out, pullback] = vjp([&](T y) { return x * sin(y); }, x);
    kept = std::move(pullback);
    return sum(out);
  };
  grad(f)(x3);
  EXPECT_THAT(std::get<0>((*kept)(v3)), IsNear(v3 * x3 * cos(x3)));  // x has become a constant.
  EXPECT_THAT(grad([&](T ct) { return sum(std::get<0>((*kept)(ct))); })(v3), IsNear(x3 * cos(x3)));
}

TEST(Pullbacks, OfLanesAreAnErrorOutsideOfTheVmap) {
  std::optional<Pull> kept;
  vmap([&](T x) {
    kept = vjp([](T y) { return sin(y); }, x).second;
    return x;
  })(x3);
  EXPECT_THAT([&] { (*kept)(number(1)); },
              ThrowsMessage<TransformError>(HasSubstr("a value of vmap (float64 []) is used outside")));
}

// ---- values are concrete at any depth -----------------------------------------------------------

Tensor newton(T x) {
  Tensor y = x;
  while (std::abs((y * y - x).item<double>()) > 1e-14) y = (y + x / y) / 2;
  for (int i = 0; i < 3; ++i) y = (y + x / y) / 2;  // Derivatives converge after the value.
  return y;
}
Tensor ackermannish(T x, int depth) {
  if (depth == 0 || bool(x > 5)) return x * x;
  std::ostringstream out;
  out << x;
  EXPECT_FALSE(out.str().empty());
  return ackermannish(x * 1.5, depth - 1) + x;
}

TEST(Values, AreConcreteInNests) {
  const Tensor x = number(1.7);
  const double root = std::sqrt(1.7);
  EXPECT_THAT(grad(grad(newton))(x), IsNumber(-0.25 / (1.7 * root), 1e-10));
  EXPECT_THAT(jvp(grad(newton), x, number(1)).second, IsNumber(-0.25 / (1.7 * root), 1e-10));
  EXPECT_THAT(grad([](T t) { return jvp(newton, t, ones_like(t)).second; })(x), IsNumber(-0.25 / (1.7 * root), 1e-10));
  EXPECT_THAT(grad(grad(grad(newton)))(x), IsNumber(0.375 / (1.7 * 1.7 * root), 1e-9));
  // The sequence is 1.7, 2.55, 3.825, 5.7375 > 5. The result squares 1.5^3 x,
  // so its second derivative is 2 * 1.5^6.
  EXPECT_THAT(grad(grad([](T t) { return ackermannish(t, 10); }))(x), IsNumber(2 * std::pow(1.5, 6), 1e-11));
}

TEST(Values, ReadsOfLanesGoToTheInnermostHandler) {
  struct Representative : Handles<ReadStorage> {
    Tensor handle(ReadStorage& read) override { return full(read.value.shape(), 4, read.value.dtype()); }
  } representative;
  const auto f = [](T x) { return x * x.item<double>(); };
  EXPECT_THAT(vmap([&](T x) { return with(representative, [&] { return f(x); }); })(tensor({1., 2.})),
              IsNear(tensor({4., 8.})));
  EXPECT_THAT(with(representative, [&] { return vmap(f)(tensor({1., 2.})); }), IsNear(tensor({1., 4.})));
}

}  // namespace nesting_test
