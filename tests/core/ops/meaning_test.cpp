// Cases in which array libraries differ, and the result that Stave gives in each.

#include <functional>
#include <limits>
#include <thread>

#include <stave/stave.h>

#include "matchers.h"

namespace meaning_test {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

using T = const Tensor&;
using Function = std::function<Tensor(T)>;  // one type: transforms are instantiated once
const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();

Tensor number(double x) { return full({}, x, float64); }

/// f'(x) for an elementwise function f, in forward and reverse mode. Checks that both agree.
Tensor slope(const Function& f, const Tensor& x) {
  const Tensor forward = jvp(f, x, ones_like(x)).second, reverse = grad([&](T t) { return sum(f(t)); })(x);
  EXPECT_THAT(forward, IsNear(reverse, 0)) << "jvp and vjp differ";
  return reverse;
}
/// f''(x) in all four pairs of modes. Checks that all agree.
Tensor curvature(const Function& f, const Tensor& x) {
  const auto forward = [&](T t) { return jvp(f, t, ones_like(t)).second; };
  const auto reverse = [&](T t) { return grad([&](T u) { return sum(f(u)); })(t); };
  const Tensor result = slope(forward, x);
  EXPECT_THAT(slope(reverse, x), IsNear(result, 1e-12)) << "forward or reverse over reverse";
  return result;
}
Tensor doubles(std::initializer_list<NestedList> list) { return tensor(list, float64); }

// ---- kinks and ties -----------------------------------------------------------------------------

TEST(Kinks, HaveTheChosenSubgradients) {
  const Tensor x = doubles({-1., 0., 2.});
  EXPECT_THAT(slope([](T t) { return relu(t); }, x), IsNear(doubles({0., 0., 1.})));
  EXPECT_THAT(slope([](T t) { return abs(t); }, x), IsNear(doubles({-1., 0., 1.})));
  EXPECT_THAT(slope([](T t) { return abs(t); }, -x), IsNear(doubles({1., 0., -1.})));
  EXPECT_THAT(slope([](T t) { return sqrt(t); }, doubles({0., 4.})), IsNear(doubles({inf, 0.25})));
  EXPECT_THAT(slope([](T t) { return sign(t); }, x), Equals(zeros({3}, float64)));
  EXPECT_THAT(slope([](T t) { return floor(t) + ceil(t) + round(t) + trunc(t); }, x), Equals(zeros({3}, float64)));
  EXPECT_THAT(slope([](T t) { return floor_divide(t, 2) + floor_divide(3, t); }, x), Equals(zeros({3}, float64)));
}

TEST(Kinks, InverseFunctionsHaveInfiniteSlopesAtTheirEnds) {
  EXPECT_THAT(slope([](T t) { return asin(t); }, doubles({-1., 0., 1.})), IsNear(doubles({inf, 1., inf})));
  EXPECT_THAT(slope([](T t) { return acos(t); }, doubles({-1., 0., 1.})), IsNear(doubles({-inf, -1., -inf})));
  EXPECT_THAT(slope([](T t) { return acosh(t); }, doubles({1., 2.})), IsNear(doubles({inf, 1 / std::sqrt(3.)})));
  EXPECT_THAT(slope([](T t) { return acosh(t); }, doubles({-2., 0.})), IsNear(doubles({nan, nan})));
  EXPECT_THAT(slope([](T t) { return atanh(t); }, doubles({-1., 0., 1.})), IsNear(doubles({inf, 1., inf})));
}

TEST(Kinks, Atan2HasDerivativeZeroAtTheOrigin) {
  const auto angle = [](T y, T x) { return atan2(y, x); };
  const Tensor ys = doubles({0., 0., 2., 1., 1e200, 1e-200, 3e-310, inf, 1.});
  const Tensor xs = doubles({0., -2., 0., 2., 1e200, -1e-200, 0., 1., -inf});
  const auto [dy, dx] = grad<0, 1>([&](T y, T x) { return sum(angle(y, x)); })(ys, xs);
  // The derivatives are x / (x^2 + y^2) and -y / (x^2 + y^2).
  EXPECT_THAT(dy, IsNear(doubles({0., -.5, 0., .4, .5e-200, -.5e200, 0., 0., 0.})));
  EXPECT_THAT(dx, IsNear(doubles({0., 0., -.5, -.2, -.5e-200, -.5e200, -1 / 3e-310, 0., 0.})));
  for (const auto& [vy, vx] : {std::pair(1., 0.), {0., 1.}, {.5, -2.}})
    EXPECT_THAT(jvp(angle, std::tuple(ys, xs), std::tuple(full_like(ys, vy), full_like(xs, vx))).second,
                IsNear(scale(dy, vy) + scale(dx, vx)));
  // The second derivative with respect to y is -2 x y / (x^2 + y^2)^2.
  // At the origin it is 0 in every pair of modes.
  const auto along_y = [&](T t) { return angle(t, doubles({0., 2., -1.})); };
  EXPECT_THAT(curvature(along_y, doubles({0., 1., 1.})), IsNear(doubles({0., -4. / 25, .5})));
  // A lane at the origin does not affect the angle of another lane.
  EXPECT_THAT(vmap(grad(angle))(doubles({0., 1.}), doubles({0., 2.})), IsNear(doubles({0., .4})));
}

TEST(Kinks, NormHasDerivativeZeroAtZero) {
  EXPECT_THAT(grad(norm)(zeros({3})), Equals(zeros({3})));
  EXPECT_THAT(jvp(norm, zeros({3}), ones({3})).second, IsNumber(0, 0));
  EXPECT_THAT(grad([](T x) { return sum(norm(x, 1)); })(doubles({{3., 4.}, {0., 0.}})),
              IsNear(doubles({{.6, .8}, {0., 0.}})));
}

TEST(Ties, AreSharedEqually) {
  const Tensor a = doubles({1., 2., 3.}), b = doubles({1., 5., 3.});
  for (const auto& larger : {maximum, minimum}) {
    const auto [ga, gb] = grad<0, 1>([&](T p, T q) { return sum(larger(p, q)); })(a, b);
    const double won = larger == &maximum ? 0 : 1;
    EXPECT_THAT(ga, IsNear(doubles({.5, won, .5})));
    EXPECT_THAT(gb, IsNear(doubles({.5, 1 - won, .5})));
    const Tensor va = doubles({10., 10., 10.}), vb = doubles({2., 2., 2.});
    EXPECT_THAT(jvp([&](T p, T q) { return larger(p, q); }, std::tuple(a, b), std::tuple(va, vb)).second,
                IsNear(ga * va + gb * vb));
  }
}

TEST(Ties, InReductionsAreSharedEqually) {
  const Tensor x = doubles({{3., 1., 3.}, {2., 2., 2.}});
  const Tensor shares = doubles({{.5, 0., .5}, {1. / 3, 1. / 3, 1. / 3}});
  const Tensor v = doubles({{1., 10., 2.}, {3., 6., 0.}});
  EXPECT_THAT(grad([](T t) { return sum(max(t, 1)); })(x), IsNear(shares));
  EXPECT_THAT(jvp([](T t) { return max(t, 1); }, x, v).second, IsNear(sum(shares * v, 1)));
  EXPECT_THAT(grad(min)(-x), IsNear(doubles({{.5, 0., .5}, {0., 0., 0.}})));
  EXPECT_THAT(grad(max)(full({4}, 7.)), IsNear(full({4}, .25)));
}

TEST(Ties, HalveTheDerivativeAtBoundsOfClip) {
  EXPECT_THAT(slope([](T t) { return clip(t, -1, 1); }, doubles({-2., -1., 0., 1., 2.})),
              IsNear(doubles({0., .5, 1., .5, 0.})));
}

// ---- branches not taken -------------------------------------------------------------------------

TEST(Where, LeaksNoNanFromTheBranchNotTaken) {
  const Tensor x = doubles({-4., 0., 4.});
  // Each inner function is NaN or infinite somewhere on the branch that is not taken.
  const auto root = [](T t) { return where(t > 0, sqrt(t), 0.); };
  EXPECT_THAT(slope(root, x), IsNear(doubles({0., 0., 0.25})));
  EXPECT_THAT(curvature(root, x), IsNear(doubles({0., 0., -1. / 32})));
  const auto logarithm = [](T t) { return where(t > 0, log(t), t); };
  EXPECT_THAT(slope(logarithm, x), IsNear(doubles({1., 1., .25})));
  EXPECT_THAT(curvature(logarithm, x), IsNear(doubles({0., 0., -1. / 16})));
  const auto quotient = [](T t) { return where(t == 0, 1., sin(t) / t); };
  EXPECT_THAT(slope(quotient, doubles({0., 2.})), IsNear(doubles({0., std::cos(2.) / 2 - std::sin(2.) / 4})));
  const auto power = [](T t) { return where(t > 0, pow(t, 0.5), t * t); };
  EXPECT_THAT(curvature(power, x), IsNear(doubles({2., 2., -.25 / 8})));
  const auto deeper = [](T t) { return where(t > 0, log(sqrt(t)) / sqrt(t), -t); };
  EXPECT_THAT(slope(deeper, x)(slice(0, 2)), IsNear(doubles({-1., -1.})));
  EXPECT_THAT(curvature(deeper, x)(slice(0, 2)), IsNear(doubles({0., 0.})));
  // The third derivative, in reverse mode.
  const auto once = [&](T t) { return grad([&](T u) { return sum(root(u)); })(t); };
  EXPECT_THAT(curvature(once, x), IsNear(doubles({0., 0., 3. / 256})));  // 3/8 x^-5/2
}

TEST(Where, LeaksNoNanUnderVmap) {
  const auto root = [](T t) { return where(t > 0, sqrt(t), 0.); };
  EXPECT_THAT(vmap(grad(root))(doubles({-4., 0., 4.})), IsNear(doubles({0., 0., .25})));
  EXPECT_THAT(vmap(grad(grad(root)))(doubles({-4., 0., 4.})), IsNear(doubles({0., 0., -1. / 32})));
}

TEST(UntakenBranches, OfMaximumSlicesAndMasksLeakNoNan) {
  // maximum takes the constant, so the logarithm's derivative is not used.
  EXPECT_THAT(slope([](T t) { return maximum(log(t), -10); }, doubles({0., 1.})), IsNear(doubles({0., 1.})));
  // One element is sliced away, or masked out of a sum.
  EXPECT_THAT(grad([](T t) { return sum(sqrt(t)(slice(1, none))); })(doubles({0., 4.})), IsNear(doubles({0., .25})));
  EXPECT_THAT(grad([](T t) {
                return sum(sqrt(t) * doubles({0., 1.}));
              })(doubles({0., 4.})),
              IsNear(doubles({0., .25})));
}

TEST(Scale, KeepsSecondDerivativesOfProductsThatAreZero) {
  const Tensor zero = doubles({0.});
  EXPECT_THAT(curvature([](T t) { return square(sin(t)); }, zero), IsNear(doubles({2.})));
  EXPECT_THAT(curvature([](T t) { return pow(sin(t), 2); }, zero), IsNear(doubles({2.})));
  EXPECT_THAT(curvature([](T t) { return sin(t) * sin(t); }, zero), IsNear(doubles({2.})));
  EXPECT_THAT(curvature([](T t) { return t * t; }, zero), IsNear(doubles({2.})));
  EXPECT_THAT(curvature([](T t) { return t * sin(t); }, zero), IsNear(doubles({2.})));
  EXPECT_THAT(slope([](T t) { return sqrt(t * t); }, zero), IsNear(doubles({0.})));
  EXPECT_THAT(slope([](T t) { return sqrt(square(t)); }, zero), IsNear(doubles({0.})));
}

// IEEE rules apply to values that are taken: their NaN is not hidden.
TEST(Scale, DoesNotHideNanOfSelectedValues) {
  EXPECT_THAT(slope([](T t) { return sqrt(t); }, doubles({-1.})), IsNear(doubles({nan})));
  EXPECT_THAT(slope([](T t) { return t * nan; }, doubles({1.})), IsNear(doubles({nan})));
  EXPECT_THAT(doubles({0.}) * nan, IsNear(doubles({nan})));
}

// ---- pow ----------------------------------------------------------------------------------------

TEST(Pow, HasItsDerivativesByTheBase) {
  EXPECT_THAT(slope([](T t) { return pow(t, 0); }, doubles({0., 2.})), IsNear(doubles({0., 0.})));
  EXPECT_THAT(slope([](T t) { return pow(t, 0.); }, doubles({0., 2.})), IsNear(doubles({0., 0.})));
  EXPECT_THAT(slope([](T t) { return pow(t, 3); }, doubles({-2., 0.})), IsNear(doubles({12., 0.})));
  EXPECT_THAT(slope([](T t) { return pow(t, doubles({3., 3.})); }, doubles({-2., 0.})), IsNear(doubles({12., 0.})));
  EXPECT_THAT(curvature([](T t) { return pow(t, 3); }, doubles({-2., 0.})), IsNear(doubles({-12., 0.})));
  EXPECT_THAT(curvature([](T t) { return pow(t, 2); }, doubles({0., -1.})), IsNear(doubles({2., 2.})));
  EXPECT_THAT(curvature([](T t) { return pow(t, 1); }, doubles({0.})), IsNear(doubles({0.})));
  EXPECT_THAT(slope([](T t) { return pow(t, -1); }, doubles({-2.})), IsNear(doubles({-.25})));
}

TEST(Pow, HasItsDerivativesByTheExponent) {
  EXPECT_THAT(slope([](T y) { return pow(0., y); }, doubles({1., 2.5})), IsNear(doubles({0., 0.})));
  EXPECT_THAT(slope(
                  [](T y) {
                    return pow(doubles({0., 3.}), y);
                  },
                  doubles({2., 2.})),
              IsNear(doubles({0., 9 * std::log(3.)})));
  EXPECT_THAT(curvature([](T y) { return pow(0., y); }, doubles({2.})), IsNear(doubles({0.})));
  // x^x has both the base and the exponent as variables.
  EXPECT_THAT(slope([](T x) { return pow(x, x); }, doubles({2.})), IsNear(doubles({4 * (std::log(2.) + 1)})));
}

// ---- prod ---------------------------------------------------------------------------------------

// jax.grad(jnp.prod), jax.hessian(jnp.prod) and a calculation by hand give these values:
// the derivative is the product of all other elements.
TEST(Prod, IsExactWithZeros) {
  const auto product = [](T t) { return prod(t); };
  const Tensor one_zero = doubles({2., 0., 3., .5}), two_zeros = doubles({2., 0., 0., .5}),
               three = doubles({0., 0., 0., 5.});
  EXPECT_THAT(grad(product)(one_zero), IsNear(doubles({0., 3., 0., 0.}), 0));
  EXPECT_THAT(grad(product)(two_zeros), IsNear(doubles({0., 0., 0., 0.}), 0));
  EXPECT_THAT(hessian(product)(one_zero),
              IsNear(doubles({{0., 1.5, 0., 0.}, {1.5, 0., 1., 6.}, {0., 1., 0., 0.}, {0., 6., 0., 0.}}), 0));
  EXPECT_THAT(hessian(product)(two_zeros),
              IsNear(doubles({{0., 0., 0., 0.}, {0., 0., 1., 0.}, {0., 1., 0., 0.}, {0., 0., 0., 0.}}), 0));
  EXPECT_THAT(hessian(product)(three), IsNear(zeros({4, 4}, float64), 0));
  EXPECT_THAT(jacrev(jacrev(product))(two_zeros), IsNear(hessian(product)(two_zeros), 0));
  EXPECT_THAT(jacfwd(jacfwd(product))(two_zeros), IsNear(hessian(product)(two_zeros), 0));
  EXPECT_THAT(grad([](T t) { return sum(prod(t, 0)); })(doubles({{0., 2.}, {3., 0.}, {5., 0.}})),
              IsNear(doubles({{15., 0.}, {0., 0.}, {0., 0.}}), 0));
  EXPECT_THAT(jvp(product, one_zero, ones({4}, float64)).second, IsNumber(3, 0));
}

// ---- integers and bools -------------------------------------------------------------------------

TEST(Integers, HaveDerivativeZero) {
  const Tensor x = doubles({1.5, -2.5});
  EXPECT_THAT(slope([](T t) { return astype(astype(t, int32), float64) * 3; }, x), Equals(zeros({2}, float64)));
  EXPECT_THAT(slope([](T t) { return t * astype(astype(t, int32), float64); }, x), IsNear(doubles({1., -2.})));
  EXPECT_THAT(slope([](T t) { return astype(astype(t, bool_), float64); }, x), Equals(zeros({2}, float64)));
  EXPECT_THAT(slope([](T t) { return where(t > 0, 1., 2.) + astype(t == t, float64); }, x),
              Equals(zeros({2}, float64)));
  EXPECT_THAT(slope([](T t) { return astype(argmax(t), float64) + t; }, x), IsNear(doubles({1., 1.})));
  EXPECT_THAT(grad([](T t) { return sum(take(t, argmax(t))); })(x), IsNear(doubles({1., 0.})));
}

TEST(Integers, DifferentiatingByThemIsAnError) {
  const auto f = [](T t) { return sum(t * 1.5); };
  const std::string remedy =
      "which has no derivative: make it a floating tensor (write 1. instead of 1, or astype(x, float32))";
  EXPECT_THAT(
      [&] {
        grad(f)(tensor({1, 2}));
      },
      ThrowsMessage<DtypeError>(AllOf(HasSubstr("grad: argument 0 is int32 [2], "), HasSubstr(remedy))));
  EXPECT_THAT([&] { vjp(f, tensor({true})); },
              ThrowsMessage<DtypeError>(AllOf(HasSubstr("vjp: argument 0 is bool [1], "), HasSubstr(remedy))));
  EXPECT_THAT(
      [&] {
        jvp(f, tensor({1, 2}), tensor({1, 0}));
      },
      ThrowsMessage<DtypeError>(HasSubstr("jvp: argument 0 is int32 [2], which has no derivative")));
  EXPECT_THAT([&] { jacfwd(f)(tensor({1, 2})); }, ThrowsMessage<DtypeError>(HasSubstr("int32")));
  EXPECT_THAT([&] { grad([](T t) { return sum(astype(t, int32)); })(ones({2})); },
              ThrowsMessage<DtypeError>(
                  "grad: the function returned int32, which has no derivative: return a floating number"));
}

TEST(GradientDtype, EqualsTheDtypeOfTheInput) {
  const auto mixed = [](T a, T b) { return sum(a * b) + sum(astype(a, float64)); };
  const auto [ga, gb] = grad<0, 1>(mixed)(tensor({1., 2.}), tensor({3., 4.}, float64));
  EXPECT_THAT(ga, IsNear(tensor({4., 5.})));
  EXPECT_THAT(gb, IsNear(doubles({1., 2.})));
  const auto [out, tangent] =
      jvp(mixed, std::tuple(tensor({1., 2.}), doubles({3., 4.})), std::tuple(ones({2}), zeros({2}, float64)));
  EXPECT_EQ(tangent.dtype(), float64);
  EXPECT_EQ(grad([](T x) { return sum(x) * 2.5; })(ones({2}, float64)).dtype(), float64);
}

// ---- sums of floats -----------------------------------------------------------------------------

TEST(Sum, OfManyOnesIsExact) {
  const Tensor x = ones({1 << 25});
  EXPECT_EQ(sum(x).item<float>(), 33554432.f);
  EXPECT_EQ(sum(reshape(x, {1 << 12, 1 << 13})).item<float>(), 33554432.f);
  EXPECT_TRUE(array_equal(sum(reshape(x, {1 << 25, 1}), 0), tensor({33554432.})));
  EXPECT_TRUE(array_equal(sum(reshape(x, {1 << 24, 2}), 0), tensor({16777216., 16777216.})));
  EXPECT_EQ(sum(broadcast_to(tensor(1.), {1 << 25})).item<float>(), 33554432.f);
  EXPECT_EQ(mean(x).item<float>(), 1.f);
}

TEST(Sum, OfManyTenthsIsAccurate) {
  const double expected = (1 << 24) * static_cast<double>(0.1f);
  const Tensor x = full({1 << 24}, 0.1f);
  EXPECT_NEAR(sum(x).item<double>() / expected, 1, 1e-6);
  EXPECT_NEAR(sum(reshape(x, {1 << 23, 2}), 0)(1).item<double>() / (expected / 2), 1, 1e-6);
  EXPECT_NEAR(sum(transpose(reshape(x, {1 << 12, 1 << 12}))).item<double>() / expected, 1, 1e-6);
}

// ---- indices ------------------------------------------------------------------------------------

TEST(Indices, OutOfRangeAreAnErrorThatNamesThem) {
  const Tensor x = zeros({3, 4});
  const auto all = [](const char* index, const char* axis, const char* size) {
    return ThrowsMessage<IndexError>(AllOf(HasSubstr(index), HasSubstr(axis), HasSubstr(size)));
  };
  EXPECT_THAT([&] { take(x, tensor({0, 3})); }, all("index 3", "axis 0", "3"));
  EXPECT_THAT([&] { take(x, tensor({0, -5}), 1); }, all("index -5", "axis 1", "4"));
  EXPECT_THAT([&] { take_along_axis(x, tensor({{0}, {1}, {4}}), 1); }, all("index 4", "axis", "4"));
  EXPECT_THAT([&] { gather(x, tensor({{0, 0}, {2, 7}})); }, all("index 7", "axis 1", "4"));
  EXPECT_THAT([&] { scatter_add(x, tensor({{9}}), ones({1, 4})); }, all("index 9", "axis 0", "3"));
  EXPECT_THAT([&] { dynamic_slice(x, tensor({0, 3}), {3, 2}); }, all("index 3", "axis 1", "4"));
  EXPECT_THAT([&] { dynamic_update_slice(x, ones({1, 1}), {-4, 0}); }, all("index -4", "axis 0", "3"));
  EXPECT_THAT([&] { x[3]; }, all("index 3", "axis 0", "3"));
  EXPECT_THAT([&] { vmap([&](T i) { return take(x, i); })(tensor({0, 5})); }, all("index 5", "axis", "3"));
  EXPECT_THAT([&] { grad([](T t) { return sum(take(t, tensor({-4}))); })(x); }, all("index -4", "axis 0", "3"));
}

TEST(ScatterAdd, AccumulatesDuplicates) {
  const Tensor i = tensor({{1}, {0}, {1}, {1}}), updates = tensor({1., 2., 4., 8.});
  EXPECT_THAT(scatter_add(zeros({3}), i, updates), Equals(tensor({2., 13., 0.})));
  EXPECT_THAT(scatter_add(tensor({1, 1}), tensor({{0}, {0}}), tensor({5, 6})), Equals(tensor({12, 1})));
  // The cotangent of each update is that of its place. Derivatives of repeated reads add up.
  EXPECT_THAT(grad([&](T u) {
                return sum(scatter_add(zeros({3}), i, u) * tensor({1., 10., 100.}));
              })(updates),
              IsNear(tensor({10., 1., 10., 10.})));
  EXPECT_THAT(grad([](T x) { return sum(take(x, tensor({1, 1, 0}))); })(ones({3})), Equals(tensor({1., 2., 0.})));
  // The result is deterministic, although float sums depend on the order of the additions.
  const Tensor many = uniform(Key(1), {100000}), same = zeros({100000, 1}, int32);
  const Tensor first = scatter_add(zeros({1}), same, many);
  for (int run = 0; run < 5; ++run) EXPECT_THAT(scatter_add(zeros({1}), same, many), Equals(first));
}

// ---- vmap ---------------------------------------------------------------------------------------

TEST(Vmap, AcceptsZeroLanes) {
  EXPECT_THAT(vmap([](T x) { return sum(sin(x)) * 2; })(zeros({0, 3})), Equals(zeros({0})));
  EXPECT_THAT(vmap(grad([](T x) { return sum(x * x); }))(zeros({0, 3})), Equals(zeros({0, 3})));
}

TEST(Vmap, TheSameKeyGivesTheSameNumberInEveryLane) {
  const Key key(5);
  const Tensor drawn = vmap([&](T x) { return x + uniform(key); })(zeros({4}));
  EXPECT_THAT(drawn, Equals(broadcast_to(uniform(key), {4})));
  const Tensor keys = split(key, 4), lanes = vmap([](T k) { return uniform(Key(k), {3}); })(keys);
  for (Index i = 0; i < 4; ++i) EXPECT_THAT(lanes[i], Equals(uniform(Key(keys[i]), {3})));
}

TEST(Vmap, InnerVmapMayCaptureValuesOfAnOuterLane) {
  const Tensor xs = doubles({1., 2., 3.}), ys = doubles({10., 20.});
  const auto result =
      vmap([&](T x) { return vmap([&](T y) { return grad([&](T z) { return x * y * z * z; })(x); })(ys); })(xs);
  EXPECT_THAT(result, IsNear(2 * expand_dims(xs * xs, 1) * ys));
}

// ---- values that leave their transform ----------------------------------------------------------

TEST(Escaped, ValuesOfLanesAreAnErrorThatNamesTheTransform) {
  Tensor leaked;
  const auto leak = [&](T x) {
    leaked = x * 2;
    return x;
  };
  vmap(leak)(zeros({3, 2}));
  const auto fails = ThrowsMessage<TransformError>(AllOf(
      HasSubstr("a value of vmap (float32 [2]) is used outside of it"), HasSubstr("Return it from the function")));
  EXPECT_THAT([&] { leaked + 1; }, fails);
  EXPECT_THAT([&] { sum(leaked); }, fails);
  EXPECT_THAT([&] { reshape(leaked, {1, 2}); }, fails);
  EXPECT_THAT([&] { leaked.to_vector<float>(); }, fails);
  EXPECT_THAT([&] { leaked.data<float>(); }, fails);
  EXPECT_THAT([&] { leaked.str(); }, fails);
  EXPECT_THAT([&] { grad([](T x) { return sum(x); })(leaked); }, fails);
  EXPECT_THAT([&] { jvp(sin, ones({2}), leaked); }, testing::Throws<TransformError>());
  EXPECT_THAT([&] { vmap([](T x) { return x + 1; })(leaked); }, fails);
  EXPECT_THAT([&] { vmap([&](T x) { return x + leaked; })(zeros({3, 2})); }, fails);
  EXPECT_THAT([&] { grad([&](T x) { return sum(x + leaked); })(zeros({2})); }, fails);
  // The shape does not depend on the value, so it is still known.
  EXPECT_EQ(leaked.shape(), Shape(2));
}

// A handler outside vmap sees all lanes at once and must not use the value of a lane.
TEST(Escaped, ValuesOfLanesAreAnErrorInHandlersOutsideTheirVmap) {
  struct Meddles : Handler {
    Tensor* lane = nullptr;
    Outputs handle(Call& call) override {
      if (lane->defined()) return *lane + 1;
      return perform(std::move(call));
    }
  } meddles;
  Tensor lane;
  meddles.lane = &lane;
  EXPECT_THAT([&] { with(meddles, [&] {
                      vmap([&](T x) { return cos(lane = sin(x)); })(ones({3, 2}));
                    }); },
              ThrowsMessage<TransformError>(HasSubstr("a value of vmap (float32 [2]) is used outside of it")));
}

TEST(Escaped, ValuesOfLanesInNestsNameTheVmap) {
  Tensor leaked;
  const auto leak = [&](T x) {
    leaked = x * 2;
    return sum(x * x);
  };
  vmap(grad(leak))(zeros({3, 2}));
  EXPECT_THAT([&] { leaked + 1; }, ThrowsMessage<TransformError>(HasSubstr("a value of vmap (float32 [2])")));
  vmap([&](T x) { return jvp(leak, x, x).second; })(zeros({3, 2}));
  EXPECT_THAT([&] { leaked + 1; }, ThrowsMessage<TransformError>(HasSubstr("a value of vmap (float32 [2])")));
  // The value leaves the inner vmap while the outer vmap runs.
  EXPECT_THAT(
      [&] {
        vmap([&](T row) {
          vmap(leak)(row);
          return row + leaked;
        })(zeros({4, 3, 2}));
      },
      ThrowsMessage<TransformError>(AllOf(HasSubstr("a value of vmap"), HasSubstr("is used outside of it"))));
}

TEST(Escaped, ValuesOfGradAndJvpAreConstants) {
  Tensor leaked;
  const auto leak = [&](T x) {
    leaked = sin(x);
    return sum(leaked);
  };
  const Tensor x = doubles({.5, 1.});
  grad(leak)(x);
  EXPECT_THAT(leaked, IsNear(sin(x)));
  EXPECT_THAT(leaked * 2, IsNear(2 * sin(x)));
  EXPECT_EQ(live_notes(leaked), 0);
  EXPECT_THAT(grad([&](T y) { return sum(y * leaked); })(x), IsNear(sin(x)));
  EXPECT_THAT(grad([&](T y) { return sum(leaked) + sum(y); })(x), IsNear(ones({2}, float64)));
  jvp(leak, x, x);
  EXPECT_THAT(jvp([&](T y) { return y * leaked; }, x, ones({2}, float64)).second, IsNear(sin(x)));
  // The value leaves an inner transform for a running outer one.
  // The note of the outer transform counts.
  const auto outer = [&](T y) {
    grad([&](T z) {
      leaked = y * z;
      return sum(z);
    })(x);
    return sum(leaked);
  };
  EXPECT_THAT(grad(outer)(x), IsNear(x));
}

TEST(Escaped, ValuesUsedOnAnotherThreadAreAnError) {
  const auto elsewhere = [](auto body) {
    std::string message = "nothing was thrown";
    std::thread([&] { message = message_of<TransformError>(body); }).join();
    return message;
  };
  const auto check = [&](const char* transform, T x) {
    const std::string text = std::string("a value of ") + transform +
                             " (float32 [2]) is used on another thread while " + transform + " runs";
    EXPECT_THAT(elsewhere([&] { x * 2; }), HasSubstr(text));
    EXPECT_THAT(elsewhere([&] { x.to_vector<float>(); }), HasSubstr(std::string("a value of ") + transform));
    EXPECT_THAT(elsewhere([&] { grad([](T t) { return sum(t); })(x); }), HasSubstr(text));
    EXPECT_THAT(elsewhere([&] { vmap([](T t) { return t + 1; })(x); }), HasSubstr(text));
  };
  Tensor leaked;
  grad([&](T x) {
    check("grad", x);
    check("grad", leaked = x * 2);
    return sum(x);
  })(ones({2}));
  // grad has ended, so the value is a constant.
  EXPECT_EQ(elsewhere([&] { leaked * 2; }), "nothing was thrown");
  jvp([&](T x) { return check("jvp", leaked = x * 2), x; }, ones({2}), ones({2}));
  EXPECT_EQ(elsewhere([&] { leaked * 2; }), "nothing was thrown");
  vmap([&](T x) { return check("vmap", leaked = x * 2), x; })(ones({3, 2}));
  EXPECT_THAT(elsewhere([&] { leaked * 2; }), HasSubstr("a value of vmap (float32 [2]) is used outside of it"));
}

// ---- exceptions ---------------------------------------------------------------------------------

TEST(Exceptions, NameTheTransformsAndRestoreTheHandlerStack) {
  const auto bad = [](T x) { return sum(x + ones({5})); };
  const std::string message = message_of<ShapeError>([&] {
    grad([&](T m) { return sum(vmap(bad)(m)); })(zeros({3, 4}));
  });
  EXPECT_THAT(message, HasSubstr("add: shapes [4] and [5] do not broadcast"));
  EXPECT_THAT(message, HasSubstr("\n  inside vmap over 3 lanes, inside grad"));
  EXPECT_EQ(error_context(), "");
}

}  // namespace meaning_test
