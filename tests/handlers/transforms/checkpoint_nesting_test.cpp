// checkpoint through nests of transforms and handlers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <sstream>

#include <stave/stave.h>

namespace {

using namespace stave;
using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;
using testing::Pointwise;

Tensor number(double x) { return tensor(x); }
Tensor doubles(std::initializer_list<double> values) { return astype(from(std::vector<double>(values)), float64); }
double at(const Tensor& x) { return x.item<double>(); }

// The derivative in forward mode of a function of one number.
template <class F>
auto derivative(F f) {
  return [f](const Tensor& x) { return jvp(f, x, ones_like(x)).second; };
}

struct Count : Handler {
  int operations = 0;
  std::vector<std::string> names;
  Outputs handle(Call& call) override {
    ++operations;
    names.push_back(call.op().name);
    return perform(std::move(call));
  }
};

// d^n/dw^n sin(w x) at w = 2, x = 3: 3 cos 6, -9 sin 6, -27 cos 6.
TEST(Checkpoint, CapturedValuesKeepTheirDerivativesAtAnyOrder) {
  const auto f = [](const Tensor& w) { return checkpoint([w](const Tensor& x) { return sin(w * x); })(tensor(3.)); };
  const Tensor w = astype(number(2), float64);
  EXPECT_NEAR(at(grad(f)(w)), 2.880511, 1e-6);
  EXPECT_NEAR(at(derivative(f)(w)), 2.880511, 1e-6);
  EXPECT_NEAR(at(grad(grad(f))(w)), 2.514739, 1e-6);
  EXPECT_NEAR(at(derivative(grad(f))(w)), 2.514739, 1e-6);
  EXPECT_NEAR(at(grad(derivative(f))(w)), 2.514739, 1e-6);
  EXPECT_NEAR(at(derivative(derivative(f))(w)), 2.514739, 1e-6);
  EXPECT_NEAR(at(hessian(f)(w)), 2.514739, 1e-6);
  EXPECT_NEAR(at(grad(grad(grad(f)))(w)), -25.924598, 1e-5);
  EXPECT_NEAR(at(grad(derivative(grad(f)))(w)), -25.924598, 1e-5);
  EXPECT_NEAR(at(derivative(grad(derivative(f)))(w)), -25.924598, 1e-5);
  EXPECT_NEAR(at(derivative(derivative(derivative(f)))(w)), -25.924598, 1e-5);
}

TEST(Checkpoint, ArgumentsAndCapturesMayBeVmapped) {
  const Tensor ws = doubles({2, 1, 0.5}), xs = doubles({3, 4, 5});
  const auto f = [](const Tensor& w, const Tensor& x) {
    return checkpoint([w](const Tensor& y) { return sin(w * y) * y; })(x);
  };
  std::vector<double> dw, dx, dwdx;
  for (int i = 0; i < 3; ++i) {
    const double w = at(ws(i)), x = at(xs(i));
    dw.push_back(x * x * std::cos(w * x));
    dx.push_back(w * x * std::cos(w * x) + std::sin(w * x));
    dwdx.push_back(2 * x * std::cos(w * x) - w * x * x * std::sin(w * x));
  }
  const auto near = Pointwise(testing::DoubleNear(1e-9), dw);
  EXPECT_THAT(vmap(grad(f))(ws, xs).to_vector<double>(), near);
  // grad is outside: one checkpoint of all lanes.
  const auto total = [&](const Tensor& v) { return sum(vmap(f)(v, xs)); };
  EXPECT_THAT(grad(total)(ws).to_vector<double>(), near);
  EXPECT_THAT(jvp(total, ws, ws).second.to_vector<double>().size(), 1u);
  EXPECT_NEAR(at(jvp(total, ws, ones_like(ws)).second), dw[0] + dw[1] + dw[2], 1e-9);
  EXPECT_THAT(vmap(grad<1>(f))(ws, xs).to_vector<double>(), Pointwise(testing::DoubleNear(1e-9), dx));
  const auto mixed = [&](const Tensor& w, const Tensor& x) { return grad<1>(f)(w, x); };
  EXPECT_THAT(vmap(grad(mixed))(ws, xs).to_vector<double>(), Pointwise(testing::DoubleNear(1e-9), dwdx));
  EXPECT_THAT(vmap(derivative([&](const Tensor& x) { return x * 2; }))(xs).to_vector<double>(), ElementsAre(2, 2, 2));
}

TEST(Checkpoint, RunsExactlyTwiceAndIsBitEqual) {
  int runs = 0;
  const auto f = [&](const Tensor& x) {
    ++runs;
    return sum(exp(sin(x) * x) / (1 + x * x));
  };
  const Tensor x = linspace(-2, 2, 50);
  const auto plain = value_and_grad(f)(x);
  runs = 0;
  const auto again = value_and_grad(checkpoint(f))(x);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(plain.value.to_vector<float>(), again.value.to_vector<float>());
  EXPECT_EQ(plain.grad.to_vector<float>(), again.grad.to_vector<float>());
  runs = 0;
  checkpoint(f)(x);
  EXPECT_EQ(runs, 1);
}

TEST(Checkpoint, KeepsOnlyItsArguments) {
  const Tensor x = ones({1 << 18});  // 1 MiB
  const auto deep = [](const Tensor& y) {
    Tensor z = y;
    for (int i = 0; i < 20; ++i) z = sin(z);
    return z;
  };
  const auto peak_of = [&](auto f) {
    release_cached_memory();
    const auto before = memory_stats().live_bytes;
    reset_peak_memory();
    const auto [out, pullback] = vjp(f, x);
    return (memory_stats().live_bytes - before) >> 20;
  };
  EXPECT_GE(peak_of(deep), 20u);
  EXPECT_LE(peak_of(checkpoint(deep)), 2u);
}

TEST(Checkpoint, AcceptsTreesAndRepeatedPullbacks) {
  struct Layer {
    Tensor w, b;
  };
  const auto layer = checkpoint([](const Layer& l, const Tensor& x, int power) {
    Tensor y = l.w * x + l.b;
    for (int i = 1; i < power; ++i) y = y * (l.w * x + l.b);
    return std::pair(y, std::vector<Tensor>{y * 2});
  });
  const Layer l{number(2), number(1)};
  const auto [out, pullback] = vjp([&](const Layer& m, const Tensor& x) { return layer(m, x, 3); }, l, number(3));
  EXPECT_EQ(out.first.item<float>(), 343);
  EXPECT_EQ(out.second[0].item<float>(), 686);
  for (int twice = 0; twice < 2; ++twice) {
    const auto [dl, dx] = pullback({number(1), {number(10)}});  // 21 * 3 * 49 * (x, 1, w)
    EXPECT_EQ(dl.w.item<float>(), 21 * 3 * 49 * 3);
    EXPECT_EQ(dl.b.item<float>(), 21 * 3 * 49);
    EXPECT_EQ(dx.item<float>(), 21 * 3 * 49 * 2);
  }
}

TEST(Checkpoint, MayBeNested) {
  const auto inner = [](const Tensor& x) { return checkpoint([x](const Tensor& y) { return sin(x * y); })(x); };
  const auto f = checkpoint([&](const Tensor& x) { return inner(x) * checkpoint(cos)(x); });
  const auto plain = [](const Tensor& x) { return sin(x * x) * cos(x); };
  const Tensor x = astype(number(0.7), float64);
  EXPECT_NEAR(at(grad(f)(x)), at(grad(plain)(x)), 1e-12);
  EXPECT_NEAR(at(grad(grad(f))(x)), at(grad(grad(plain))(x)), 1e-12);
  EXPECT_NEAR(at(grad(derivative(grad(f)))(x)), at(grad(derivative(grad(plain)))(x)), 1e-11);
}

// The recorders of a rerun function must live as long as the recordings made under them.
TEST(Checkpoint, MayBeNestedToAnyDepth) {
  const auto deep = [](const Tensor& x) {
    return checkpoint([](const Tensor& p) {
      return checkpoint([](const Tensor& q) {
        const Tensor captured = exp(q);
        return checkpoint([captured](const Tensor& r) {
          return checkpoint([captured](const Tensor& s) { return captured * square(s); })(cos(r));
        })(q * 2.);
      })(sin(p));
    })(x);
  };
  const auto plain = [](const Tensor& x) { return exp(sin(x)) * square(cos(sin(x) * 2.)); };
  const Tensor x = tensor({0.3, 1.2}, float64);
  const auto close = [](const Tensor& a, const Tensor& b) { return allclose(a, b, 1e-11, 1e-13); };
  const auto total = [](auto f) { return [f](const Tensor& y) { return sum(f(y)); }; };
  EXPECT_TRUE(close(grad(total(deep))(x), grad(total(plain))(x)));
  EXPECT_TRUE(close(hessian(total(deep))(x), hessian(total(plain))(x)));
  const auto pullback = vjp(deep, x).second;
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(close(std::get<0>(pullback(ones_like(x))), grad(total(plain))(x)));
  EXPECT_TRUE(close(vmap(grad(total(deep)))(stack({x, -x})), vmap(grad(total(plain)))(stack({x, -x}))));
}

// Tangents that a rule inside the checkpoint passes to outer handlers leave the checkpoint beside
// its results; grad does not trace them.
TEST(Checkpoint, RulesInsideMayPassTangentsToOuterHandlers) {
  const auto product = [](const Tensor& a, const Tensor& b) { return a * b; };
  const auto ruled_jvp = custom_jvp(product, [](const Tensor& a, const Tensor& b, const Tensor& da, const Tensor& db) {
    return std::pair(a * b, da * b + a * db);
  });
  const auto ruled_vjp = custom_vjp(
      product, [](const Tensor& a, const Tensor& b) { return std::pair(a * b, std::pair(a, b)); },
      [](const std::pair<Tensor, Tensor>& at, const Tensor& ct) { return std::pair(ct * at.second, ct * at.first); });
  const auto within = [](auto rule) {
    return [rule](const Tensor& a) {
      const Tensor p = checkpoint([rule, a](const Tensor& x) { return rule(x, a); })(a);
      return rule(p, a);
    };
  };
  const auto plain = [](const Tensor& a) { return a * a * a; };
  const Tensor x = tensor({0.7, -1.1, 1.3}, float64), t = tensor({0.4, 0.5, -2.}, float64);
  const auto check = [&](auto f) {
    const auto through = [&](auto g) { return [g](const Tensor& a) { return matmul(jacrev(g)(a), a); }; };
    const auto [out, tangent] = jvp(through(f), std::tuple(x), std::tuple(t));
    const auto [wanted, wanted_tangent] = jvp(through(plain), std::tuple(x), std::tuple(t));
    EXPECT_TRUE(allclose(out, wanted, 1e-12)) << out;
    EXPECT_TRUE(allclose(tangent, wanted_tangent, 1e-12)) << tangent;
    EXPECT_TRUE(allclose(jacrev(through(f))(x), jacrev(through(plain))(x), 1e-12));
    EXPECT_TRUE(allclose(jacfwd(through(f))(x), jacfwd(through(plain))(x), 1e-12));
  };
  check(within(ruled_jvp));
  check(within(ruled_vjp));
  const auto batched = [](Index, const std::vector<bool>& mapped, const Tensor& a, const Tensor& b) {
    return (mapped[0] ? a : expand_dims(a, 0)) * (mapped[1] ? b : expand_dims(b, 0));
  };
  const auto lanes = [&](auto f) { return vmap([=](const Tensor& a) { return sum(jacrev(f)(a)); }); };
  const Tensor xs = stack({x, t});
  EXPECT_TRUE(allclose(lanes(within(custom_vmap(product, batched)))(xs), lanes(plain)(xs), 1e-12));
  const auto both = custom_vjp(
      ruled_jvp, [&](const Tensor& a, const Tensor& b) { return std::pair(ruled_jvp(a, b), std::pair(a, b)); },
      [&](const std::pair<Tensor, Tensor>& at, const Tensor& ct) {
        return vjp(ruled_jvp, at.first, at.second).second(ct);
      });
  check(within(both));
  check([&](const Tensor& a) {
    return both(checkpoint([ruled_jvp, a](const Tensor& y) { return ruled_jvp(y, a); })(a), a);
  });
}

TEST(Checkpoint, InnerHandlersSeeTheOperationsInside) {
  auto count = std::make_shared<Count>();
  const auto f = [&](const Tensor& x) {
    return with(count, [&] { return checkpoint([](const Tensor& y) { return sin(y) * y; })(x); });
  };
  f(number(1));
  EXPECT_THAT(count->names, ElementsAre("call", "sin", "multiply"));
  count->names.clear();
  // Twice inside; the backward operations are performed outside it.
  grad(f)(number(1));
  EXPECT_THAT(count->names, ElementsAre("call", "sin", "multiply", "sin", "multiply"));
}

TEST(Checkpoint, EndedHandlerIsAnErrorWhenItRunsAgain) {
  Count count;  // lent, and gone when the function runs again
  const auto f = [&](const Tensor& x) { return with(count, [&] { return checkpoint(sin)(x); }); };
  try {
    grad(f)(number(1));
    FAIL();
  } catch (const TransformError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("has ended: install it outside of grad, or give `with` a std::shared_ptr of it"));
  }
  with(count, [&] { return grad(checkpoint(sin))(number(1)); });
}

struct Draw {
  using Result = double;
};
struct Draws : Handles<Draw> {
  int count = 0;
  double handle(Draw&) override { return ++count; }
};

TEST(Checkpoint, SecondRunGetsTheFirstAnswers) {
  const auto f = checkpoint([](const Tensor& x) {
    const double a = perform(Draw{}), b = perform(Draw{});
    return x * x * a + x * b;
  });
  Draws outside;
  EXPECT_EQ(with(outside, [&] { return grad(f)(number(3)).item<float>(); }), 8);  // 2 * 3 * 1 + 2
  EXPECT_EQ(outside.count, 2);
  Draws inside;  // gone when the function runs again
  EXPECT_EQ(grad([&](const Tensor& x) { return with(inside, [&] { return f(x); }); })(number(3)).item<float>(), 8);
  Draws nested;
  EXPECT_EQ(with(nested,
                 [&] {
                   return grad(checkpoint([&](const Tensor& x) {
                            const Tensor y = f(x);
                            return y * perform(Draw{});
                          }))(number(3))
                       .item<float>();
                 }),
            24);
  EXPECT_EQ(nested.count, 3);
}

TEST(Checkpoint, WorksUnderControllers) {
  struct Passes : Controller {
    int count = 0;
    void handle(Call& call, Resumption<Call> rest) override {
      ++count;
      rest.resume_last(perform(std::move(call)));
    }
  };
  const auto f = checkpoint([](const Tensor& x) { return sin(x) * x; });
  const float expected = std::cos(2.f) * 2 + std::sin(2.f);
  Passes around;
  EXPECT_THAT(with(around, [&] { return grad(f)(number(2)).item<float>(); }), testing::Optional(FloatEq(expected)));
  auto inside = std::make_shared<Passes>();
  EXPECT_THAT(grad([&](const Tensor& x) { return *with(inside, [&] { return f(x); }); })(number(2)).item<float>(),
              FloatEq(expected));
  EXPECT_EQ(inside->count, 1 + 2 + 2);
  Passes lent;
  EXPECT_THROW(grad([&](const Tensor& x) { return *with(lent, [&] { return f(x); }); })(number(2)), TransformError);
  struct Stops : Controller {
    void handle(Call& call, Resumption<Call> rest) override {
      if (call.op().id != OpId::multiply) rest.resume_last(perform(std::move(call)));
    }
  } stops;
  EXPECT_FALSE(with(stops, [&] { return f(number(2)); }));  // stopped inside
  struct Keeps : Controller {
    Resumption<Call> rest;
    void handle(Call& call, Resumption<Call> given) override {
      if (call.op().id == OpId::sin) rest = std::move(given);
      else given.resume_last(perform(std::move(call)));
    }
  } keeps;
  try {
    with(keeps, [&] { return f(number(2)); });
    FAIL();
  } catch (const TransformError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a controller kept the continuation of a function that an operation runs"));
  }
}

struct Ask {
  using Result = double;
};

TEST(Checkpoint, ControllerMaySuspendInside) {
  struct Later : Controls<Ask> {
    Resumption<Ask> rest;
    void handle(Ask&, Resumption<Ask> given) override { rest = std::move(given); }
  };
  auto later = std::make_shared<Later>();
  float derivative = 0;
  with(later, [&derivative] {
    derivative = grad(checkpoint([](const Tensor& x) { return x * x * perform(Ask{}); }))(number(3)).item<float>();
  });
  EXPECT_EQ(derivative, 0);  // suspended inside the checkpoint
  std::exchange(later->rest, {}).resume(10);
  // The rerun uses the logged answer.
  EXPECT_EQ(derivative, 60);
}

TEST(Checkpoint, InnerScopesAppearOnce) {
  std::ostringstream trace;
  debug(grad([](const Tensor& x) {
          Scope outer("outer");
          return checkpoint([](const Tensor& y) {
            Scope inner("inner");
            return sin(y);
          })(x);
        }),
        {.out = &trace})(number(1));
  EXPECT_THAT(trace.str(), HasSubstr("cos f32[] -> f32[]  [inner]  [outer]  [backward of grad]\n"));
}

TEST(Checkpoint, MovedArgumentsAreKept) {
  const auto f = checkpoint([](const Tensor& x, const std::unique_ptr<float>& factor) { return x * x * *factor; });
  EXPECT_EQ(grad([&](const Tensor& x) { return f(x, std::make_unique<float>(5.f)); })(number(3)).item<float>(), 30);
}

}  // namespace
