// jet and taylor: arguments and results, compositions with the other transforms, errors.
#include <stave/handlers/taylor/jet.h>

#include <cmath>

#include <stave/stave.h>

#include "handlers/taylor/functions.h"
#include "matchers.h"

namespace {

using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;

const Tensor x = tensor(0.3, float64), one = tensor(1., float64);

// Coefficients of f along t by jvp of jvp: f(x + v t), orders 1 to 3.
template <class F>
std::vector<Tensor> nested(F f, const Tensor& at, const Tensor& v) {
  const auto first = [&](const Tensor& y) { return jvp(f, y, v).second; };
  const auto second = [&](const Tensor& y) { return jvp(first, y, v).second; };
  return {f(at), first(at), second(at) / 2., jvp(second, at, v).second / 6.};
}
template <class F>
void expect_nested(F f, const Tensor& at, const Tensor& v, double tolerance = 1e-12) {
  const std::vector<Tensor> found = taylor(f, 3)(at, v), expected = nested(f, at, v);
  for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_THAT(found[k], IsNear(expected[k], tolerance)) << k;
}

// ---- arguments and results ----------------------------------------------------------------------

// exp(x + x1 t + x2 t^2): y1 = y x1, y2 = y (x2 + x1^2 / 2).
TEST(Jet, ReturnsTheValueAndTaylorCoefficients) {
  const auto [y, ys] = jet([](const Tensor& u) { return exp(u); }, x, {tensor(2., float64), tensor(5., float64)});
  EXPECT_THAT(y, IsNumber(std::exp(0.3), 1e-15));
  ASSERT_EQ(ys.size(), 2u);
  EXPECT_THAT(ys[0], IsNumber(2 * std::exp(0.3), 1e-15));
  EXPECT_THAT(ys[1], IsNumber((5 + 2) * std::exp(0.3), 1e-15));
}

TEST(Jet, AnUndefinedCoefficientIsZero) {
  const auto [y, ys] = jet(exp, x, {Tensor(), one, Tensor()});  // exp(x + t^2)
  EXPECT_THAT(ys[0], IsNumber(0, 0.));
  EXPECT_THAT(ys[1], IsNumber(std::exp(0.3), 1e-15));
  EXPECT_THAT(ys[2], IsNumber(0, 0.));
}

TEST(Jet, WithoutCoefficientsIsTheValue) {
  EXPECT_TRUE(jet(exp, x, {}).second.empty());
  EXPECT_THAT(jet(exp, x, {}).first, Equals(exp(x)));
}

struct Pair {
  Tensor sum, product;
};
TEST(Jet, ArgumentsAndResultsAreTrees) {
  const auto f = [](const Pair& p, const Tensor& u) { return Pair{p.sum + u, p.product * u}; };
  // (1 + t + u, (2 + 3 t) u) with u = 4 + 5 t + t^2
  const auto number = [](double v) { return tensor(v, float64); };
  const auto [y, ys] =
      jet(f, std::make_tuple(Pair{number(1), number(2)}, number(4)),
          {std::make_tuple(Pair{number(1), number(3)}, number(5)), std::make_tuple(Pair{}, number(1))});
  EXPECT_THAT(y.product, IsNumber(8, 0.));
  EXPECT_THAT(ys[0].sum, IsNumber(6, 0.));
  EXPECT_THAT(ys[0].product, IsNumber(2 * 5 + 3 * 4, 0.));
  EXPECT_THAT(ys[1].product, IsNumber(2 + 15, 0.));
}

TEST(Jet, PassesOtherArgumentsThrough) {
  const auto f = [](const Tensor& u, int n) { return pow(u, static_cast<double>(n)); };
  const auto [y, ys] = jet(f, std::make_tuple(x, 2), {std::make_tuple(one, 2), std::make_tuple(Tensor(), 2)});
  EXPECT_THAT(ys[0], IsNumber(0.6, 1e-15));
  EXPECT_THAT(ys[1], IsNumber(1, 1e-15));
}

TEST(Taylor, IsTheSeriesAlongADirection) {
  const std::vector<Tensor> c = taylor(sin, 5)(x, 2. * one);
  double factor = 1;
  const double slopes[] = {std::sin(.3), std::cos(.3), -std::sin(.3), -std::cos(.3), std::sin(.3), std::cos(.3)};
  for (std::size_t k = 0; k <= 5; factor *= 2. / static_cast<double>(++k))
    EXPECT_THAT(c[k], IsNumber(factor * slopes[k], 1e-15)) << k;
  EXPECT_THAT(evaluate_series(taylor(sin, 15)(x, one), 0.2), IsNumber(std::sin(0.5), 1e-15));
}

TEST(Taylor, OfIntegersAndOfWhatDoesNotDependOnTheArgumentAreZero) {
  const auto f = [](const Tensor& u) { return std::pair(astype(u * 10., int32), sin(x) * ones_like(u)); };
  const auto c = taylor(f, 2)(x, one);
  EXPECT_THAT(c[1].first, Equals(tensor(0, int32)));
  EXPECT_THAT(c[1].second, IsNumber(0, 0.));
}

TEST(Taylor, WorksInEveryFloatDtype) {
  for (const Dtype dtype : {float16, bfloat16, float32, float64}) {
    const std::vector<Tensor> c =
        taylor([](const Tensor& u) { return exp(sin(u)); }, 4)(astype(x, dtype), astype(one, dtype));
    const std::vector<Tensor> exact = taylor([](const Tensor& u) { return exp(sin(u)); }, 4)(x, one);
    const double unit = dtype == float64 ? 1e-15 : dtype == float32 ? 1e-6 : dtype == float16 ? 4e-3 : 3e-2;
    for (std::size_t k = 0; k < c.size(); ++k) {
      EXPECT_EQ(c[k].dtype(), dtype);
      EXPECT_NEAR(values(c[k])[0], values(exact[k])[0], 4 * unit) << name_of(dtype) << k;
    }
  }
}

TEST(Taylor, OfComplexNumbers) {
  const Tensor z = complex(x, 0.2 * one), v = complex(one, -one);
  expect_nested([](const Tensor& u) { return exp(u) * u / (2. + u); }, z, v);
  expect_nested([](const Tensor& u) { return real(u * conj(u)) + abs(u); }, z, v);
}

// ---- control flow -------------------------------------------------------------------------------

Tensor power(const Tensor& u, int n) { return n == 0 ? ones_like(u) : u * power(u, n - 1); }

TEST(Taylor, OfBranchesLoopsAndRecursion) {
  const auto f = [](const Tensor& u) {
    Tensor y = u > 0. ? sin(u) : cos(u);
    while (y < 5.) y = y * 2. + u;
    return y + power(u, 4);
  };
  expect_nested(f, x, one);
}

TEST(Taylor, OfRecordedLoops) {
  const auto f = [](const Tensor& u) { return loop(8, [](const Tensor& y) { return sin(y) * y + 0.1; })(u); };
  expect_nested(f, x, one);
  const auto recorded = compile([&](const Tensor& u) { return taylor(f, 6)(u, one); });
  const std::vector<Tensor> expected = taylor(f, 6)(x, one), found = recorded(x), again = recorded(x);
  for (std::size_t k = 0; k < expected.size(); ++k) {
    EXPECT_THAT(found[k], IsNear(expected[k], 1e-13)) << k;
    EXPECT_THAT(again[k], IsNear(expected[k], 1e-13)) << k;
  }
}

// A recorder discards the steps of a loop, and what a checkpoint computes stays inside. So what
// they compute for a value from outside, such as its coefficients, must not be used after them.
TEST(Taylor, OfValuesUsedInAFunctionThatIsRecordedApartAndAfterIt) {
  using State = std::pair<Tensor, Tensor>;
  const auto check = [](const char* name, auto f) {
    const auto coefficients = [&](const Tensor& u) { return stack(taylor(f, 3)(u, one)); };
    const Tensor expected = stack(nested(f, x, one));
    const Tensor us = stack({x, 2. * x}), both = stack({expected, stack(nested(f, 2. * x, one))});
    const auto slope = [&](const Tensor& u) { return jvp(coefficients, u, one).second; };
    EXPECT_THAT(compile(coefficients)(x), IsNear(expected, 1e-12)) << name;
    EXPECT_THAT(trace(coefficients)(x)(x), IsNear(expected, 1e-12)) << name;
    EXPECT_THAT(compile([&](const Tensor& u) { return vmap(coefficients)(u); })(us), IsNear(both, 1e-12)) << name;
    EXPECT_THAT(compile(slope)(x), IsNear(slope(x), 1e-12)) << name;
    EXPECT_THAT(grad([&](const Tensor& u) { return sum(coefficients(u)); })(x), IsNear(sum(slope(x)), 1e-12)) << name;
    const Tensor w = compile([&](const Tensor& u) { return jet(f, u, {one, u, one}).second[2]; })(x);
    EXPECT_THAT(w, IsNear(jet(f, x, {one, x, one}).second[2], 1e-12)) << name;
  };
  check("state", [](const Tensor& u) {
    const Tensor y = tanh(u);
    return loop(3, [](const Tensor& s) { return sin(s); })(y) + cos(y);
  });
  check("captured", [](const Tensor& u) {
    const Tensor y = tanh(u);
    return loop(3, [y](const Tensor& s) { return s * sin(y); })(u) + cos(y);
  });
  check("leaf", [](const Tensor& u) { return loop(3, [u](const Tensor& s) { return s * sin(u); })(u) + cos(u); });
  check("nested", [](const Tensor& u) {
    const Tensor y = tanh(u);
    const auto inner = [y](const Tensor& s) { return loop(3, [y](const Tensor& r) { return cos(r) * sinh(y); })(s); };
    return loop(4, inner)(y) + cosh(y) * sin(y);
  });
  check("scan", [](const Tensor& u) {
    const Tensor y = tanh(u);
    const auto [last, all] = scan([](const Tensor& s) { return std::pair(sin(s), s); }, {.length = 4})(y);
    return last + cos(y) + sum(all);
  });
  check("snapshots", [](const Tensor& u) {
    const Tensor y = tanh(u);
    return loop(8, [y](const Tensor& s) { return s * sin(y); }, {.snapshots = 2})(u) + cos(y);
  });
  check("checkpoint", [](const Tensor& u) {
    const Tensor y = tanh(u);
    return checkpoint([y](const Tensor& s) { return s * sin(y); })(u) + cos(y);
  });
  check("custom rule", [](const Tensor& u) {
    const auto wave = custom_jvp([](const Tensor& v) { return sin(v); },
                                 [](const Tensor& v, const Tensor& dv) { return std::pair(sin(v), cos(v) * dv); });
    const Tensor y = tanh(u);
    return checkpoint([y, wave](const Tensor& s) { return s * wave(y); })(u) * cos(y) + wave(y);
  });
  check("jvp in steps", [](const Tensor& u) {
    const Tensor y = tanh(u);
    const auto step = [y](const State& s) {
      const auto [value, slope] = jvp([y](const Tensor& r) { return sin(r) * cos(y); }, s.first, s.second);
      return State(value, slope);
    };
    const auto [value, slope] = loop(3, step)(State(y, u));
    return value * slope + cos(y) * sinh(y);
  });
}

// A program that was recorded has the loop as one operation, over rows and still values too.
TEST(Taylor, OfAScanInsideAProgram) {
  const Tensor rows = tensor({0.1, -0.2, 0.3, 0.5, 0.7}, float64);
  const auto f = [&](const Tensor& u) {
    const auto step = [&](const Tensor& state, const Tensor& row) {
      const Tensor next = sin(state) * u + row;
      return std::pair(next, exp(next));
    };
    const auto [last, all] = scan(step)(u, rows * u);
    return last + sum(all);
  };
  const auto program = trace(f)(x);
  const auto by_program = [&](const Tensor& u) { return program(u); };
  const std::vector<Tensor> expected = taylor(f, 5)(x, one), found = taylor(by_program, 5)(x, one);
  for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_THAT(found[k], IsNear(expected[k], 1e-12)) << k;
  expect_nested(f, x, one);
}

// ---- other transforms ---------------------------------------------------------------------------

const auto smooth = [](const Tensor& u) { return tanh(sin(u) * exp(u)); };

TEST(Taylor, OfGrad) {
  const auto f = [](const Tensor& u) { return grad([](const Tensor& w) { return sum(smooth(w)); })(u); };
  const std::vector<Tensor> slopes = taylor(f, 3)(x, one), series = taylor(smooth, 4)(x, one);
  for (std::size_t k = 0; k < slopes.size(); ++k)
    EXPECT_THAT(slopes[k], IsNear(series[k + 1] * static_cast<double>(k + 1), 1e-12)) << k;
}

TEST(Taylor, OfJvp) {
  expect_nested([](const Tensor& u) { return jvp(smooth, u, u).second; }, x, one);
}

TEST(Taylor, ACoefficientHasAGradient) {
  // d/dx of coefficient k is (k + 1) times coefficient k + 1.
  const std::vector<Tensor> series = taylor(smooth, 5)(x, one);
  for (std::size_t k = 0; k <= 4; ++k) {
    const auto coefficient = [&](const Tensor& u) { return taylor(smooth, 4)(u, one)[k]; };
    EXPECT_THAT(grad(coefficient)(x), IsNear(series[k + 1] * static_cast<double>(k + 1), 1e-12)) << k;
    EXPECT_THAT(jvp(coefficient, x, one).second, IsNear(series[k + 1] * static_cast<double>(k + 1), 1e-12)) << k;
  }
}

TEST(Taylor, OfTaylor) {
  // Coefficient 2 of coefficient 2 is 6 times coefficient 4.
  const auto inner = [](const Tensor& u) { return taylor(smooth, 2)(u, one)[2]; };
  EXPECT_THAT(taylor(inner, 2)(x, one)[2], IsNear(6. * taylor(smooth, 4)(x, one)[4], 1e-12));
}

const Tensor points = tensor({0.3, -0.5, 1.2, 2.}, float64), directions = tensor({1., 2., -1., 0.5}, float64);

TEST(Taylor, UnderVmapEqualsALoop) {
  // Lanes take different branches, and different numbers of steps.
  const auto f = [](const Tensor& u) {
    Tensor y = u > 0.5 ? exp(-u) : sin(u) * u;
    while (y < 2.) y = y + square(u) + 0.5;
    return y * u;
  };
  const auto series = [&](const Tensor& u, const Tensor& v) { return taylor(f, 4)(u, v); };
  const std::vector<Tensor> all = vmap(series)(points, directions);
  for (Index lane = 0; lane < 4; ++lane) {
    const std::vector<Tensor> expected = series(points(lane), directions(lane));
    for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_THAT(all[k](lane), IsNear(expected[k])) << k;
  }
  const std::vector<Tensor> outside = taylor([&](const Tensor& us) { return vmap(f)(us); }, 4)(points, directions);
  for (std::size_t k = 0; k < all.size(); ++k) EXPECT_THAT(outside[k], IsNear(all[k])) << k;
}

TEST(Taylor, OfCheckpoint) {
  const Tensor w = tensor(1.5, float64);
  const auto f = [](const Tensor& u) { return checkpoint([u](const Tensor& v) { return sin(u * v) * v; })(exp(u)); };
  expect_nested(f, x, one);
  const auto coefficient = [&](const Tensor& u) { return taylor(f, 3)(u, one)[3]; };
  EXPECT_THAT(grad(coefficient)(x), IsNear(4. * taylor(f, 4)(x, one)[4], 1e-11));
}

TEST(Taylor, OfCustomRulesUsesTheRules) {
  // The rules say that the derivative is 3 cos, so that it shows which one was used.
  const auto by_jvp = custom_jvp([](const Tensor& u) { return sin(u); },
                                 [](const Tensor& u, const Tensor& du) { return std::pair(sin(u), 3. * cos(u) * du); });
  const auto by_vjp =
      custom_vjp([](const Tensor& u) { return sin(u); }, [](const Tensor& u) { return std::pair(sin(u), u); },
                 [](const Tensor& u, const Tensor& ct) { return 3. * cos(u) * ct; });
  const double s = std::sin(0.3), c = std::cos(0.3);
  const auto check = [&](const std::vector<Tensor>& found) {
    EXPECT_THAT(found[0], IsNumber(s, 1e-15));
    EXPECT_THAT(found[1], IsNumber(3 * c, 1e-15));
    EXPECT_THAT(found[2], IsNumber(-3 * s / 2, 1e-15));
    EXPECT_THAT(found[3], IsNumber(-3 * c / 6, 1e-15));
  };
  check(taylor(by_jvp, 3)(x, one));
  check(taylor(by_vjp, 3)(x, one));
  // Rules that are true, in a composed function.
  const auto true_jvp = custom_jvp([](const Tensor& u) { return sin(u); },
                                   [](const Tensor& u, const Tensor& du) { return std::pair(sin(u), cos(u) * du); });
  const auto true_vjp =
      custom_vjp([](const Tensor& u) { return sin(u); }, [](const Tensor& u) { return std::pair(sin(u), u); },
                 [](const Tensor& u, const Tensor& ct) { return cos(u) * ct; });
  expect_nested([&](const Tensor& u) { return true_vjp(exp(u)) * true_jvp(u); }, x, one);
}

TEST(Taylor, OfARuleThatCallsItsOwnFunction) {
  struct Exp {
    Tensor operator()(const Tensor& u) const {
      return custom_jvp([](const Tensor& v) { return exp(v); },
                        [](const Tensor& v, const Tensor& dv) {
                          const Tensor y = Exp()(v);
                          return std::pair(y, y * dv);
                        })(u);
    }
  };
  CountOps ops;
  const std::vector<Tensor> found = with(ops, [] { return taylor(Exp(), 12)(x, one); });
  const std::vector<Tensor> expected = taylor(exp, 12)(x, one);
  for (std::size_t k = 0; k < found.size(); ++k) EXPECT_THAT(found[k], IsNear(expected[k], 1e-13)) << k;
  EXPECT_LT(ops.n, 2000);  // not 2^12 evaluations of the rule
}

TEST(Taylor, OfElementwiseRegionsAndCompiledFunctions) {
  const auto compiled = compile([](const Tensor& u) { return tanh(u) * sin(u) + u; });
  compiled(x);
  expect_nested([&](const Tensor& u) { return compiled(u); }, x, one);
  const auto own = elementwise_op("swing", [](const Tensor& u) { return tanh(u) * sin(u) + u; });
  expect_nested([&](const Tensor& u) { return own(u); }, x, one);
}

TEST(Taylor, IsCompiled) {
  const auto f = [](const Tensor& u) { return curves().at("composed")(u); };
  const auto compiled = compile([&](const Tensor& u) { return taylor(f, 8)(u, ones_like(u)); });
  for (const double at : {0.3, 0.1, 0.4}) {
    const Tensor u = tensor(at, float64);
    const std::vector<Tensor> found = compiled(u), expected = taylor(f, 8)(u, ones_like(u));
    for (std::size_t k = 0; k < found.size(); ++k) EXPECT_THAT(found[k], Equals(expected[k])) << at << " " << k;
  }
}

struct Factor {
  using Result = Tensor;
  Tensor of;
};
struct Answers : Handles<Factor> {
  Tensor handle(Factor& f) override { return f.of; }
};
struct Computes : Handles<Factor> {
  Tensor handle(Factor& f) override { return 2. * f.of; }
};

TEST(Taylor, KeepsWhatEffectsReturn) {
  Answers answers;
  const auto f = [](const Tensor& u) { return sin(perform(Factor{u})) * u; };
  with(answers, [&] { expect_nested(f, x, one); });
  Computes computes;
  EXPECT_THAT(message_of<TransformError>([&] { with(computes, [&] { taylor(f, 2)(x, one); }); }),
              AllOf(HasSubstr("jet"), HasSubstr("Factor")));
}

// ---- errors -------------------------------------------------------------------------------------

TEST(Jet, RefusesCoefficientsThatDoNotMatch) {
  const auto f = [](const Tensor& u) { return u + 1; };
  EXPECT_THAT(message_of<DtypeError>([&] { jet(f, tensor(3), {tensor(1)}); }),
              AllOf(HasSubstr("jet: argument 0 is int32 []"), HasSubstr("no derivative")));
  EXPECT_THAT(message_of<ShapeError>([&] {
                jet(f, x, {one, tensor({1.}, float64)});
              }),
              HasSubstr("jet: coefficient 2 of argument 0 has shape [1], the input []"));
  EXPECT_THAT(message_of<DtypeError>([&] { jet(f, x, {tensor(1., float32)}); }),
              HasSubstr("jet: coefficient 1 of argument 0 is float32, the input float64"));
  EXPECT_THAT(
      message_of<ShapeError>([&] {
        jet([](const std::vector<Tensor>& u) { return u[0]; }, std::vector<Tensor>{x}, {std::vector<Tensor>{one, one}});
      }),
      HasSubstr("primals and coefficients"));
  EXPECT_THAT(message_of<TransformError>([&] { taylor(f, -1); }), HasSubstr("the order is -1"));
  EXPECT_THAT(message_of<TransformError>([&] { evaluate_series(std::vector<Tensor>(), 1.); }),
              HasSubstr("no coefficients"));
}

TEST(Jet, RefusesSeriesThatACustomRuleCaptures) {
  const auto f = [](const Tensor& u) {
    const auto times = custom_jvp([u](const Tensor& v) { return u * v; },
                                  [u](const Tensor& v, const Tensor& dv) { return std::pair(u * v, u * dv); });
    return times(2. * u);
  };
  EXPECT_THAT(message_of<TransformError>([&] { taylor(f, 2)(x, one); }),
              AllOf(HasSubstr("jet"), HasSubstr("custom_jvp")));
  // The function may be fine, and the rule not.
  const auto g = [](const Tensor& u) {
    const auto times = custom_jvp([](const Tensor& v) { return sin(v); },
                                  [u](const Tensor& v, const Tensor& dv) { return std::pair(sin(v), cos(u) * dv); });
    return times(u);
  };
  EXPECT_THAT(message_of<TransformError>([&] { taylor(g, 2)(x, one); }),
              AllOf(HasSubstr("jet"), HasSubstr("custom_jvp")));
}

TEST(Jet, RefusesAValueThatLeavesARule) {
  Tensor escaped;
  const auto f = [&](const Tensor& u) {
    const Tensor y = custom_jvp([](const Tensor& v) { return sin(v); },
                                [&](const Tensor& v, const Tensor& dv) {
                                  escaped = cos(v);
                                  return std::pair(sin(v), escaped * dv);
                                })(u);
    return y * escaped;
  };
  EXPECT_THAT(message_of<TransformError>([&] { taylor(f, 3)(x, one); }), AllOf(HasSubstr("jet"), HasSubstr("rule")));
}

// f' = f(2x) + f(3x) is not a rule of sin, but its calls branch.
Tensor branching(const Tensor& u) {
  return custom_jvp([](const Tensor& v) { return sin(v); },
                    [](const Tensor& v, const Tensor& dv) {
                      return std::pair(sin(v), (branching(2. * v) + branching(3. * v)) * dv);
                    })(u);
}
TEST(Jet, RefusesRulesThatGrowExponentially) {
  EXPECT_NO_THROW(taylor(branching, 4)(x, one));
  EXPECT_THAT(message_of<TransformError>([&] { taylor(branching, 40)(x, one); }),
              AllOf(HasSubstr("custom_jvp"), HasSubstr("exponentially")));
}

const Op op_without_rule = define_op({
    .name = "without_rule",
    .infer = [](const Call& call, SmallVector<Abstract, 1>& outputs) { outputs.push_back(abstract(call.input(0))); },
    .cpu = [](const Attributes*, std::span<const View>, std::span<const View>) {},
});
TEST(Jet, NamesAnOperationWithoutARule) {
  EXPECT_THAT(message_of<TransformError>(
                  [&] { taylor([](const Tensor& u) { return apply(op_without_rule, {u}); }, 2)(x, one); }),
              AllOf(HasSubstr("jet: the operation without_rule has no JVP rule"), HasSubstr("stop_gradient")));
}

}  // namespace
