// Functions with custom rules in programs: rules that call their own function or each other's,
// rules that capture values, and rules that read values. Each is compared with the function without
// trace and compile, or with a closed form.
#include <thread>

#include <stave/stave.h>

#include "matchers.h"

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

namespace {

using F = std::function<Tensor(const Tensor&)>;

// ---- recursive rules ----------------------------------------------------------------------------

Tensor contraction(const Tensor& a) {
  return fixed_point([](const Tensor& x, const Tensor& c) { return 0.3 * sin(x) + c; })(zeros_like(a), a);
}
Tensor newton(const Tensor& a) {
  Tensor y = a;
  for (int i = 0; i < 12; ++i) y = y - (y * y * y + y - a) / (3 * y * y + 1);
  return y;
}
Tensor root(const Tensor& a) {
  return custom_root([](const Tensor& y, const Tensor& b) { return y * y * y + y - b; }, newton)(a);
}
Tensor linear(const Tensor& a) {
  return custom_linear_solve([](const Tensor& x, const Tensor& d) { return d * x; },
                             [](const Tensor& b, const Tensor& d) { return b / d; })(a, a * a + 1.);
}
Tensor decay(const Tensor& a) {
  return odeint([](const Tensor& y, const Tensor&, const Tensor& rate) { return -rate * y; },
                {.rtol = 1e-3, .atol = 1e-3})(a, tensor({0., 0.5}, float64), a)(1);
}
// sin and cos. The rule of each calls the other function.
Tensor my_cos(const Tensor& x);
Tensor my_sin(const Tensor& x) {
  return custom_jvp([](const Tensor& y) { return sin(y); },
                    [](const Tensor& y, const Tensor& dy) { return std::pair(my_sin(y), my_cos(y) * dy); })(x);
}
Tensor my_cos(const Tensor& x) {
  return custom_vjp([](const Tensor& y) { return cos(y); },
                    [](const Tensor& y) { return std::pair(my_cos(y), my_sin(y)); },
                    [](const Tensor& s, const Tensor& ct) { return -(s * ct); })(x);
}
Tensor my_exp(const Tensor& x) {
  return custom_jvp([](const Tensor& y) { return exp(y); },
                    [](const Tensor& y, const Tensor& dy) {
                      const Tensor e = my_exp(y);
                      return std::pair(e, e * dy);
                    })(x);
}
Tensor my_exp_back(const Tensor& x) {
  return custom_vjp([](const Tensor& y) { return exp(y); },
                    [](const Tensor& y) {
                      const Tensor e = my_exp_back(y);
                      return std::pair(e, e);
                    },
                    [](const Tensor& e, const Tensor& ct) { return ct * e; })(x);
}
// The function and its rules capture a value computed from the argument.
// stop_gradient stops the derivative by that value.
Tensor scaled_exp(const Tensor& x, const Tensor& scale) {
  return custom_jvp([scale](const Tensor& y) { return exp(scale * y); },
                    [scale](const Tensor& y, const Tensor& dy) {
                      const Tensor e = scaled_exp(y, scale);
                      return std::pair(e, scale * e * dy);
                    })(x);
}
Tensor captures(const Tensor& x) { return scaled_exp(x, stop_gradient(sum(x * x))) + x; }
Tensor in_checkpoint(const Tensor& x) {
  const Tensor scale = stop_gradient(sum(x));
  return checkpoint([scale](const Tensor& y) { return my_exp(scaled_exp(y, scale) * 0.1) * y; })(x);
}
// A function whose rule contains a checkpoint.
Tensor checkpoint_in_rule(const Tensor& x) {
  return custom_jvp([](const Tensor& y) { return exp(y); },
                    [](const Tensor& y, const Tensor& dy) {
                      const Tensor e = checkpoint([](const Tensor& z) { return checkpoint_in_rule(z); })(y);
                      return std::pair(e, e * dy);
                    })(x);
}
Tensor batched_exp(const Tensor& x) {
  const auto f = custom_vjp([](const Tensor& y) { return exp(y); },
                            [](const Tensor& y) {
                              const Tensor e = batched_exp(y);
                              return std::pair(e, e);
                            },
                            [](const Tensor& e, const Tensor& ct) { return ct * e; });
  return custom_vmap(f, [](Index lanes, const std::vector<bool>&, const Tensor& y) {
    std::vector<Tensor> each;
    for (Index lane = 0; lane < lanes; ++lane) each.push_back(batched_exp(y(lane)));
    return stack(each);
  })(x);
}
// A rule that reads a value that differs between lanes.
Tensor reads(const Tensor& x) {
  return custom_jvp([](const Tensor& y) { return y * abs(y); },
                    [](const Tensor& y, const Tensor& dy) {
                      return std::pair(y * abs(y), bool(sum(y) > 1.2) ? 2. * y * dy : 2. * abs(y) * dy);
                    })(x);
}

struct Function {
  const char* name;
  Tensor (*f)(const Tensor&);
  int orders = 3;
};
const Function functions[] = {
    {"fixed_point", contraction}, {"custom_root", root},  {"custom_linear_solve", linear},
    {"odeint", decay, 1},         {"my_exp", my_exp},     {"my_exp_back", my_exp_back},
    {"mutual", my_sin},           {"captures", captures}, {"in_checkpoint", in_checkpoint},
    {"custom_vmap", batched_exp}, {"reads", reads},       {"checkpoint_in_rule", checkpoint_in_rule, 2},
};

class RuleWithoutEnd : public testing::TestWithParam<Function> {
 protected:
  const Tensor a = tensor({0.5, 0.75, 1.25}, float64), v = tensor({1., -0.5, 0.25}, float64);
  const Tensor b = tensor({0.25, 1., 0.125}, float64);
  const Tensor as = stack({a, b});
  const F f = GetParam().f;

  static F gradient(F g) {
    return [g](const Tensor& x) { return grad([g](const Tensor& y) { return sum(g(y) * cos(y)); })(x); };
  }
  F tangent(F g) const {
    return [g, w = v](const Tensor& x) { return jvp(g, x, w).second; };
  }
  static F lanes(F g) { return vmap(g); }
  void expect_same(const F& found, const F& expected, const Tensor& at, const char* what) {
    EXPECT_THAT(found(at), IsNear(expected(at), 1e-9)) << GetParam().name << ", " << what;
  }
};

TEST_P(RuleWithoutEnd, IsTraced) {
  const auto check = [&](const F& g, const Tensor& at, const char* what) {
    const auto p = trace(g)(at);
    EXPECT_THAT(p(at), IsNear(g(at), 1e-12)) << GetParam().name << ", " << what;
    EXPECT_FALSE(p.str().empty());
  };
  check(f, a, "trace");
  check(gradient(f), a, "trace(grad)");
  check(tangent(f), a, "trace(jvp)");
  check(lanes(f), as, "trace(vmap)");
  check(lanes(gradient(f)), as, "trace(vmap(grad))");
  if (GetParam().orders >= 2) check(gradient(gradient(f)), a, "trace(grad(grad))");
}

TEST_P(RuleWithoutEnd, DerivativesEqualThoseOfItsTrace) {
  const auto p = trace(f)(a);
  const F replay = [&](const Tensor& x) { return p(x); };
  expect_same(gradient(replay), gradient(f), a, "grad(trace)");
  expect_same(tangent(replay), tangent(f), a, "jvp(trace)");
  const auto q = trace(gradient(replay))(a);
  EXPECT_THAT(q(a), IsNear(gradient(f)(a), 1e-9)) << GetParam().name;
  if (GetParam().orders < 2) return;
  expect_same(gradient(gradient(replay)), gradient(gradient(f)), a, "grad(grad(trace))");
  expect_same(tangent(gradient(replay)), tangent(gradient(f)), a, "jvp(grad(trace))");
  expect_same(gradient(tangent(replay)), gradient(tangent(f)), a, "grad(jvp(trace))");
  if (GetParam().orders < 3) return;
  expect_same(gradient(gradient(gradient(replay))), gradient(gradient(gradient(f))), a, "grad(grad(grad(trace)))");
}

TEST_P(RuleWithoutEnd, IsCompiled) {
  const auto check = [&](auto transformed, const Tensor& at, const char* what) {
    const F c = compile(f);
    for (int call = 0; call < 2; ++call) expect_same(transformed(c), transformed(f), at, what);
  };
  const auto g = [](const F& h) { return gradient(h); };
  const auto t = [this](const F& h) { return tangent(h); };
  check([](const F& h) { return h; }, a, "compile");
  check(g, a, "grad(compile)");
  check(t, a, "jvp(compile)");
  check([](const F& h) { return lanes(h); }, as, "vmap(compile)");
  check([](const F& h) { return lanes(gradient(h)); }, as, "vmap(grad(compile))");
  check([](const F& h) { return gradient(lanes(h)); }, as, "grad(vmap(compile))");
  check([this](const F& h) { return lanes(tangent(h)); }, as, "vmap(jvp(compile))");
  if (GetParam().orders < 2) return;
  check([](const F& h) { return gradient(gradient(h)); }, a, "grad(grad(compile))");
  check([this](const F& h) { return tangent(gradient(h)); }, a, "jvp(grad(compile))");
  check([this](const F& h) { return gradient(tangent(h)); }, a, "grad(jvp(compile))");
  check([](const F& h) { return lanes(gradient(gradient(h))); }, as, "vmap(grad(grad(compile)))");
  if (GetParam().orders < 3) return;
  check([](const F& h) { return gradient(gradient(gradient(h))); }, a, "grad(grad(grad(compile)))");
}

TEST_P(RuleWithoutEnd, IsCompiledWithItsDerivative) {
  const F first = compile(gradient(f)), inner = compile(f), of_inner = compile(gradient(inner));
  for (const Tensor& x : {a, b, a}) {
    EXPECT_THAT(first(x), IsNear(gradient(f)(x), 1e-9)) << GetParam().name;
    EXPECT_THAT(of_inner(x), IsNear(gradient(f)(x), 1e-9)) << GetParam().name;
  }
  if (GetParam().orders < 2) return;
  expect_same(gradient(first), gradient(gradient(f)), a, "grad(compile(grad))");
}

INSTANTIATE_TEST_SUITE_P(Rules, RuleWithoutEnd, testing::ValuesIn(functions),
                         [](const auto& row) { return std::string(row.param.name); });

// ---- when rules are recorded --------------------------------------------------------------------

int runs = 0;
Tensor counted(const Tensor& x) {
  return custom_jvp([](const Tensor& y) { return exp(y); },
                    [](const Tensor& y, const Tensor& dy) {
                      ++runs;
                      const Tensor e = counted(y);
                      return std::pair(e, e * dy);
                    })(x);
}
const F counted_slope = [](const Tensor& x) { return grad([](const Tensor& y) { return sum(counted(y)); })(x); };

TEST(Rules, AreRecordedWhenADerivativeNeedsThem) {
  const Tensor x = tensor({0.5, -1.}, float64);
  runs = 0;
  const auto p = trace(counted)(x);
  EXPECT_THAT(p(x), IsNear(exp(x)));
  EXPECT_THAT(vmap(p)(stack({x, 2. * x})), IsNear(stack({exp(x), exp(2. * x)})));
  EXPECT_EQ(runs, 0);
  const auto by_grad = [&](const Tensor& y) { return grad([&](const Tensor& z) { return sum(p(z)); })(y); };
  EXPECT_THAT(by_grad(x), IsNear(exp(x)));
  EXPECT_EQ(runs, 1);
  EXPECT_THAT(by_grad(2. * x), IsNear(exp(2. * x)));
  EXPECT_EQ(runs, 1);  // the recorded rule is kept
  EXPECT_THAT(grad([&](const Tensor& y) { return sum(by_grad(y)); })(x), IsNear(exp(x)));
  EXPECT_EQ(runs, 2);
}

TEST(Rules, CompileRecordsOnlyRulesOfRequestedOrders) {
  const Tensor x = tensor({0.5, -1.}, float64);
  runs = 0;
  const auto c = compile(counted);
  EXPECT_THAT(vmap(c)(stack({x, 2. * x})), IsNear(stack({exp(x), exp(2. * x)})));
  EXPECT_EQ(runs, 0);
  const auto by_grad = [&](const Tensor& y) { return grad([&](const Tensor& z) { return sum(c(z)); })(y); };
  EXPECT_THAT(by_grad(x), IsNear(exp(x)));
  EXPECT_EQ(runs, 1);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(by_grad(i * x), IsNear(exp(i * x)));
  EXPECT_EQ(runs, 1);
}

TEST(Rules, ThrowingRuleIsAnErrorOnlyWhenNeeded) {
  const auto f = custom_vjp([](const Tensor& y) { return 2. * y; },
                            [](const Tensor& y) -> std::pair<Tensor, Tensor> {
                              if (y.size() > 0) throw std::runtime_error("there is no derivative");
                              return {y, y};
                            },
                            [](const Tensor&, const Tensor& ct) { return ct; });
  const Tensor x = tensor({1., 2.});
  const auto p = trace(f)(x);
  EXPECT_THAT(p(x), IsNear(2. * x));
  const auto has_none = ThrowsMessage<std::runtime_error>(HasSubstr("there is no derivative"));
  EXPECT_THAT([&] { grad([&](const Tensor& y) { return sum(p(y)); })(x); }, has_none);
  EXPECT_THAT([&] { grad([c = compile(f)](const Tensor& y) { return sum(c(y)); })(x); }, has_none);
}

// ---- what rules capture -------------------------------------------------------------------------

// y = exp(s x) with s = sum(x x), which the rule captures: dy = s y dx.
TEST(Rules, CapturedValuesAreThoseOfTheReplay) {
  const auto p = trace(captures)(tensor({0.5, 0.25}, float64));
  for (const Tensor& x : {tensor({0.5, 0.25}, float64), tensor({-1., 0.75}, float64), tensor({0.125, 2.}, float64)}) {
    const Tensor s = sum(x * x), e = exp(s * x);
    EXPECT_THAT(p(x), IsNear(e + x));
    const auto first = [&](const Tensor& y) { return grad([&](const Tensor& z) { return sum(p(z)); })(y); };
    EXPECT_THAT(first(x), IsNear(s * e + 1.));
    EXPECT_THAT(grad([&](const Tensor& y) { return sum(first(y)); })(x), IsNear(s * s * e));
    EXPECT_THAT(jvp(p, x, x).second, IsNear((s * e + 1.) * x));
  }
}

TEST(Rules, EachCallCapturesItsOwnValues) {
  const auto f = [](const Tensor& x) {
    const Tensor one = stop_gradient(sum(x)), first = scaled_exp(x, one);
    const Tensor two = stop_gradient(sum(first)), second = scaled_exp(x, two);
    return first * 2. + second;
  };
  const auto slope = [](const auto& g) {
    return F([g](const Tensor& x) { return grad([g](const Tensor& y) { return sum(g(y)); })(x); });
  };
  const Tensor x = tensor({0.5, -0.25}, float64), other = tensor({-0.5, 0.125}, float64);
  const auto p = trace(f)(x);
  for (const Tensor& at : {x, other}) {
    EXPECT_THAT(p(at), IsNear(f(at)));
    EXPECT_THAT(slope(p)(at), IsNear(slope(f)(at)));
    EXPECT_THAT(slope(slope(p))(at), IsNear(slope(slope(f))(at)));
    EXPECT_THAT(vmap(slope(p))(stack({at, x})), IsNear(stack({slope(f)(at), slope(f)(x)})));
  }
}

TEST(Rules, CapturingADifferentiatedValueIsAnError) {
  const auto f = [](const Tensor& x) { return scaled_exp(x, sum(x)); };
  const Tensor x = tensor({0.5, -0.25}, float64);
  const auto captured = ThrowsMessage<TransformError>(HasSubstr("captures a value that grad transforms"));
  EXPECT_THAT([&] { grad([&](const Tensor& y) { return sum(f(y)); })(x); }, captured);
  EXPECT_THAT([&] { grad([p = trace(f)(x)](const Tensor& y) { return sum(p(y)); })(x); }, captured);
}

// The rule captures local variables of the compiled function by reference. This is valid because
// the rule is recorded while the function runs.
TEST(Rules, MayReferToLocalsOfACompiledFunction) {
  const auto f = [](const Tensor& x, const Tensor& scale) {
    const Tensor twice = 2. * scale;
    const auto scaled =
        custom_jvp([&](const Tensor& y) { return sin(y) * twice; },
                   [&](const Tensor& y, const Tensor& dy) { return std::pair(sin(y) * twice, cos(y) * twice * dy); });
    return sum(scaled(x));
  };
  const Tensor x = tensor({0.5, 1.5}, float64), scale = tensor(3., float64);
  const auto c = compile(f);
  for (const Tensor& s : {scale, 2. * scale}) {
    EXPECT_THAT(grad(c)(x, s), IsNear(2. * cos(x) * s));
    EXPECT_THAT(vmap(grad(c), {.in_axes = {0, unmapped}})(stack({x, 2. * x}), s),
                IsNear(stack({2. * cos(x) * s, 2. * cos(2. * x) * s})));
    EXPECT_THAT(hessian(c)(x, s), IsNear(diag(-2. * sin(x) * s)));
  }
}

// ---- rules of vmap ------------------------------------------------------------------------------

TEST(Rules, CustomVmapRulesArePartOfPrograms) {
  const auto f = custom_vmap([](const Tensor& y) { return sin(y); },
                             [](Index, const std::vector<bool>&, const Tensor& y) { return sin(y) + 1.; });
  const Tensor xs = tensor({0.5, 1., 1.5});
  EXPECT_THAT(vmap(trace(f)(xs(0)))(xs), IsNear(sin(xs) + 1.));
  EXPECT_THAT(vmap(compile(f))(xs), IsNear(sin(xs) + 1.));
  const auto c = compile(f);
  for (int i = 0; i < 2; ++i) EXPECT_THAT(vmap(c)(xs), IsNear(sin(xs) + 1.));
  EXPECT_THAT(trace(vmap(trace(f)(xs(0))))(xs)(2. * xs), IsNear(sin(2. * xs) + 1.));
  EXPECT_THAT(vmap(grad(c))(xs), IsNear(cos(xs)));
  const auto scaled = [](const Tensor& x) {  // captures a value
    const Tensor s = sum(x);
    return custom_vmap([s](const Tensor& y) { return s * y; },
                       [s](Index, const std::vector<bool>&, const Tensor& y) { return s * y + 1.; });
  };
  const auto g = [&](const Tensor& x, const Tensor& z) { return scaled(x)(z); };
  const auto p = trace(g)(tensor({1., 2.}), tensor(3.));
  EXPECT_THAT(vmap(p, {.in_axes = {unmapped, 0}})(tensor({2., 3.}), xs), IsNear(5. * xs + 1.));
}

// The rule of vmap is part of a compiled function in any nest of transforms. f(x) = sin(x), by its
// rule 2 sin(x): so the results show where vmap uses the rule.
TEST(Rules, CustomVmapRulesApplyInTransformedCompiledFunctions) {
  const auto f = custom_vmap([](const Tensor& y) { return sin(y); },
                             [](Index, const std::vector<bool>&, const Tensor& y) { return 2. * sin(y); });
  const Tensor x = tensor({0.5, 1., 1.5}, float64), xs = stack({x, 2. * x}), one = ones_like(x);
  const auto lanes = [](const auto& g) { return F([g](const Tensor& y) { return vmap(g)(y); }); };
  const auto slope = [](const auto& g) {
    return F([g](const Tensor& y) { return grad([&](const Tensor& z) { return sum(g(z)); })(y); });
  };
  const auto tangent = [](const auto& g) { return F([g](const Tensor& y) { return jvp(g, y, ones_like(y)).second; }); };
  const auto check = [&](const auto& g, const char* what) {
    for (int call = 0; call < 2; ++call) {
      EXPECT_THAT(lanes(g)(x), IsNear(2. * sin(x))) << what;
      EXPECT_THAT(slope(lanes(g))(x), IsNear(2. * cos(x))) << what;
      EXPECT_THAT(tangent(lanes(g))(x), IsNear(2. * cos(x))) << what;
      EXPECT_THAT(slope(slope(lanes(g)))(x), IsNear(-2. * sin(x))) << what;
      // The derivative inside of vmap is that of the function.
      EXPECT_THAT(lanes(slope(g))(x), IsNear(cos(x))) << what;
      EXPECT_THAT(slope(lanes(slope(g)))(x), IsNear(-sin(x))) << what;
      EXPECT_THAT(lanes(lanes(g))(xs), IsNear(2. * sin(xs))) << what;
      EXPECT_THAT(lanes(slope(lanes(g)))(xs), IsNear(2. * cos(xs))) << what;
      EXPECT_THAT(slope(lanes(lanes(g)))(xs), IsNear(2. * cos(xs))) << what;
    }
  };
  check(f, "f");
  check(compile(f), "compile(f)");
  check(compile(compile(f)), "compile(compile(f))");
  check(trace(f)(x(0)), "trace(f)");
  for (int call = 0; call < 2; ++call) {
    EXPECT_THAT(compile(lanes(compile(f)))(x), IsNear(2. * sin(x)));
    EXPECT_THAT(slope(compile(lanes(compile(f))))(x), IsNear(2. * cos(x)));
    EXPECT_THAT(compile(slope(lanes(compile(f))))(x), IsNear(2. * cos(x)));
    EXPECT_THAT(compile(lanes(slope(compile(f))))(x), IsNear(cos(x)));
    EXPECT_THAT(lanes(compile(slope(compile(f))))(x), IsNear(cos(x)));
    EXPECT_THAT(lanes(compile(slope(lanes(compile(f)))))(xs), IsNear(2. * cos(xs)));
  }
}

// f(a, x) = a sin(x) has rules for a derivative and for vmap, each of which scales the result.
TEST(Rules, CustomVmapAndDerivativeRulesCombineInCompiledFunctions) {
  const auto rules = custom_jvp([](const Tensor& a, const Tensor& x) { return a * sin(x); },
                                [](const Tensor& a, const Tensor& x, const Tensor& da, const Tensor& dx) {
                                  return std::pair(a * sin(x), 3. * (da * sin(x) + a * cos(x) * dx));
                                });
  std::vector<bool> masks;
  const auto f = custom_vmap(rules, [&](Index, const std::vector<bool>& batched, const Tensor& a, const Tensor& x) {
    masks = batched;
    return 2. * a * sin(x);
  });
  const Tensor a = tensor(0.5, float64), x = tensor({0.5, 1., 1.5}, float64);
  const auto check = [&](const auto& g, const char* what) {
    const auto lanes = [g](const Tensor& y, const Tensor& z) { return vmap(g, {.in_axes = {unmapped, 0}})(y, z); };
    const auto total = [&](const Tensor& y, const Tensor& z) { return sum(lanes(y, z)); };
    masks.clear();
    for (int call = 0; call < 2; ++call) {
      EXPECT_THAT(lanes(a, x), IsNear(2. * a * sin(x))) << what;
      EXPECT_THAT(grad(total)(a, x), IsNear(3. * sum(sin(x)))) << what;
      EXPECT_THAT(vmap(grad(g), {.in_axes = {unmapped, 0}})(a, x), IsNear(3. * sin(x))) << what;
    }
    EXPECT_EQ(masks, (std::vector{false, true})) << what;
  };
  check(f, "f");
  check(trace(f)(a, x(0)), "trace(f)");
  check(compile(f), "compile(f)");
}

// A rule that calls another function with a rule keeps that function's rule,
// also under a second derivative.
TEST(Rules, RulesCalledInAJvpRuleAreKept) {
  const auto straight =
      custom_vjp([](const Tensor& y) { return round(y); }, [](const Tensor& y) { return std::pair(round(y), y); },
                 [](const Tensor&, const Tensor& ct) { return ct; });
  const auto f =
      custom_jvp([=](const Tensor& y) { return straight(y) * y; },
                 [=](const Tensor& y, const Tensor& dy) { return std::pair(straight(y) * y, straight(y) * dy); });
  const Tensor x = tensor({0.75, 2.25}, float64), one = ones_like(x);
  const auto second = [&](const auto& g) {
    return grad([&](const Tensor& y) { return sum(jvp(g, y, one).second); })(x);
  };
  EXPECT_THAT(second(f), IsNear(one));
  EXPECT_THAT(second(compile(f)), IsNear(one));
  EXPECT_THAT(second(trace(f)(x)), IsNear(one));
}

// ---- threads ------------------------------------------------------------------------------------

TEST(Rules, AreRecordedByOneOfManyThreads) {
  const Tensor x = tensor({0.5, -1., 0.25}, float64);
  for (int round = 0; round < 20; ++round) {
    const auto p = trace([](const Tensor& y) { return captures(y) * my_exp_back(y); })(x);
    const auto c = compile([](const Tensor& y) { return my_exp_back(y) * my_sin(y); });
    std::vector<Tensor> traced(4), compiled(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < traced.size(); ++i)
      threads.emplace_back([&, i] {
        traced[i] = grad([&](const Tensor& y) { return sum(p(y)); })(x);
        compiled[i] = grad([&](const Tensor& y) { return sum(c(y)); })(x);
      });
    for (std::thread& thread : threads) thread.join();
    const Tensor s = sum(x * x), e = exp(s * x), m = exp(x);
    for (const Tensor& found : traced) ASSERT_THAT(found, IsNear((s * e + 1.) * m + (e + x) * m));
    for (const Tensor& found : compiled) ASSERT_THAT(found, IsNear(exp(x) * (sin(x) + cos(x))));
  }
}

// ---- names --------------------------------------------------------------------------------------

struct CountOps : Handler {
  int n = 0;
  Outputs handle(Call& call) override {
    ++n;
    return perform(std::move(call));
  }
};

TEST(CompileName, AppearsInErrors) {
  double factor = 1;
  const auto c = compile([&](const Tensor& x) { return x * factor; }, {.check = true, .name = "ik"});
  const Tensor x = tensor({1., 2.});
  c(x);
  factor = 2;
  EXPECT_THAT([&] { c(x); }, ThrowsMessage<TransformError>(HasSubstr("compile(ik): the replay gives another result")));
}

TEST(CompileNameDeathTest, ExplanationsShowTheNameAndTheOuterHandler) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("STAVE_EXPLAIN", "1", 1);
        CountOps count;
        const auto c = compile([](const Tensor& x) { return sin(x) * x; }, {.name = "ik"});
        for (int i = 0; i < 3; ++i) with(count, [&] { return c(tensor({1., 2.})); });
        std::exit(count.n == 6 ? 0 : 1);
      },
      testing::ExitedWithCode(0),
      "stave: compile\\(ik\\): the function itself is called: .*CountOps is installed around it and must see each "
      "operation.* put the handler inside");
  EXPECT_EXIT(
      {
        setenv("STAVE_EXPLAIN", "1", 1);
        const auto c = compile(
            [](const Tensor& x) {
              CountOps count;
              return with(count, [&] { return sin(x) * x; });
            },
            {.name = "ik"});
        for (int i = 0; i < 3; ++i) c(tensor({1., 2.}));
        std::exit(c.recordings() == 1 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "^(stave: compile\\(ik\\): machine code of [^\n]*\n)?$");
}

}  // namespace
