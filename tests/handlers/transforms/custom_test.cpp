// custom_vjp, custom_jvp, custom_vmap and linearize through nests of transforms.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stave/stave.h>

namespace {

using namespace stave;
using testing::ElementsAre;
using testing::HasSubstr;

Tensor number(double x) { return tensor(x); }

// The derivative in forward mode of a function of one number.
template <class F>
auto derivative(F f) {
  return [f](const Tensor& x) { return jvp(f, x, ones_like(x)).second; };
}

// ---- custom_vjp ---------------------------------------------------------------------------------

// x^2 with the wrong backward rule 3 x g, which shows whether the rule was used.
const auto wrong_square =
    custom_vjp([](const Tensor& x) { return x * x; }, [](const Tensor& x) { return std::pair(x * x, x); },
               [](const Tensor& x, const Tensor& g) { return 3 * x * g; });

TEST(CustomVjp, TheInnermostDerivativeUsesTheRule) {
  EXPECT_EQ(wrong_square(number(2)).item<float>(), 4);
  EXPECT_EQ(grad(wrong_square)(number(2)).item<float>(), 6);
  EXPECT_EQ(grad([](const Tensor& x) { return value_and_grad(wrong_square)(x).value; })(number(2)).item<float>(), 4);
  EXPECT_EQ(grad(grad(wrong_square))(number(2)).item<float>(), 3);
  EXPECT_EQ(derivative(grad(wrong_square))(number(2)).item<float>(), 3);
  EXPECT_EQ(derivative(wrong_square)(number(2)).item<float>(), 6);
  EXPECT_EQ(grad(derivative(wrong_square))(number(2)).item<float>(), 3);
  EXPECT_EQ(grad(checkpoint(wrong_square))(number(2)).item<float>(), 6);
}

TEST(CustomVjp, WorksUnderVmap) {
  const Tensor xs = tensor({1., 2., 3.});
  EXPECT_THAT(vmap(wrong_square)(xs).to_vector<float>(), ElementsAre(1, 4, 9));
  EXPECT_THAT(vmap(grad(wrong_square))(xs).to_vector<float>(), ElementsAre(3, 6, 9));
  EXPECT_THAT(grad([](const Tensor& x) { return sum(vmap(wrong_square)(x)); })(xs).to_vector<float>(),
              ElementsAre(3, 6, 9));
  EXPECT_THAT(vmap(grad(grad(wrong_square)))(xs).to_vector<float>(), ElementsAre(3, 3, 3));
  EXPECT_THAT(jvp([](const Tensor& x) { return vmap(wrong_square)(x); }, xs, ones_like(xs)).second.to_vector<float>(),
              ElementsAre(3, 6, 9));
  const auto nested = vmap(vmap(grad(wrong_square)), {.in_axes = 1, .out_axes = 1});
  EXPECT_THAT(nested(tensor({{1., 2.}, {3., 4.}})).to_vector<float>(), ElementsAre(3, 6, 9, 12));
}

TEST(CustomVjp, UnmappedArgumentSumsCotangentsOfLanes) {
  const auto product = custom_vjp(
      [](const Tensor& w, const Tensor& x) { return w * x; },
      [](const Tensor& w, const Tensor& x) { return std::pair(w * x, std::pair(w, x)); },
      [](const std::pair<Tensor, Tensor>& r, const Tensor& g) { return std::tuple(g * r.second, g * r.first); });
  const Tensor xs = tensor({1., 2., 3.});
  const auto total = [&](const Tensor& w, const Tensor& v) {
    return sum(vmap(product, {.in_axes = {unmapped, 0}})(w, v));
  };
  EXPECT_EQ(grad(total)(number(2), xs).item<float>(), 6);
  EXPECT_THAT(grad<1>(total)(number(2), xs).to_vector<float>(), ElementsAre(2, 2, 2));
  const auto constant = custom_vjp([](const Tensor& w) { return w; }, [](const Tensor& w) { return std::pair(w, w); },
                                   [](const Tensor& w, const Tensor&) { return ones_like(w); });
  // Each of three lanes gives the same cotangent of an argument that no lane maps: 3.
  const auto lanes = [&](const Tensor& w) { return sum(vmap([&](const Tensor& x) { return constant(w) * x; })(xs)); };
  // Performed once for all lanes: one cotangent.
  EXPECT_EQ(grad(lanes)(number(2)).item<float>(), 1);
}

TEST(CustomVjp, MayCaptureConstantsAndLanesButNoDifferentiatedValues) {
  const Tensor w = number(5);
  const auto captures = [](const Tensor& c) {
    return custom_vjp([c](const Tensor& x) { return c * x; }, [c](const Tensor& x) { return std::pair(c * x, x); },
                      [c](const Tensor&, const Tensor& g) { return c * g; });
  };
  EXPECT_EQ(grad(captures(w))(number(2)).item<float>(), 5);
  EXPECT_THAT(vmap([&](const Tensor& c) { return grad(captures(c))(number(2)); })(tensor({1., 2.})).to_vector<float>(),
              ElementsAre(1, 2));
  EXPECT_THAT(vmap([&](const Tensor& c) { return captures(c)(number(2)); })(tensor({1., 2.})).to_vector<float>(),
              ElementsAre(2, 4));
  const Tensor cs = tensor({1., 2.});
  EXPECT_EQ(
      grad([&](const Tensor& x) { return sum(vmap([&](const Tensor& c) { return captures(c)(x); })(cs)); })(number(2))
          .item<float>(),
      3);
  for (const auto& f : {std::function<Tensor(Tensor)>([&](const Tensor& c) { return captures(c)(number(2)); }),
                        std::function<Tensor(Tensor)>([&](const Tensor& c) { return captures(c)(c); })}) {
    try {
      grad(f)(w);
      FAIL();
    } catch (const TransformError& error) {
      EXPECT_THAT(error.what(), HasSubstr("custom_vjp: its function captures a value that grad transforms"));
    }
    EXPECT_THROW(jvp(f, w, w), TransformError);
  }
}

TEST(CustomVjp, Errors) {
  const auto wrong_shape =
      custom_vjp([](const Tensor& x) { return sum(x); }, [](const Tensor& x) { return std::pair(sum(x), x); },
                 [](const Tensor&, const Tensor& g) { return g; });
  try {
    grad(wrong_shape)(tensor({1., 2.}));
    FAIL();
  } catch (const TransformError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("the VJP rule of custom_vjp gave a cotangent float32 [] for input 0, which is float32 [2]"));
  }
  const auto undefined =
      custom_vjp([](const Tensor& x) { return sum(x); }, [](const Tensor& x) { return std::pair(sum(x), x); },
                 [](const Tensor&, const Tensor&) { return Tensor(); });
  EXPECT_THAT(grad(undefined)(tensor({1., 2.})).to_vector<float>(), ElementsAre(0, 0));
}

// ---- custom_jvp ---------------------------------------------------------------------------------

TEST(CustomJvp, AppliesInBothModesAtAnyOrderAndUnderVmap) {
  const auto f = custom_jvp([](const Tensor& x) { return x * x; },
                            [](const Tensor& x, const Tensor& dx) { return std::pair(x * x, 3 * x * dx); });
  const Tensor xs = tensor({1., 2., 3.});
  EXPECT_EQ(derivative(f)(number(2)).item<float>(), 6);
  EXPECT_EQ(grad(f)(number(2)).item<float>(), 6);
  EXPECT_EQ(grad(grad(f))(number(2)).item<float>(), 3);
  EXPECT_EQ(derivative(grad(f))(number(2)).item<float>(), 3);
  EXPECT_EQ(grad(derivative(f))(number(2)).item<float>(), 3);
  EXPECT_EQ(derivative(derivative(f))(number(2)).item<float>(), 3);
  EXPECT_THAT(vmap(grad(f))(xs).to_vector<float>(), ElementsAre(3, 6, 9));
  EXPECT_THAT(vmap(derivative(f))(xs).to_vector<float>(), ElementsAre(3, 6, 9));
  EXPECT_THAT(grad([&](const Tensor& x) { return sum(vmap(f)(x)); })(xs).to_vector<float>(), ElementsAre(3, 6, 9));
  EXPECT_THAT(jvp([&](const Tensor& x) { return vmap(f)(x); }, xs, ones_like(xs)).second.to_vector<float>(),
              ElementsAre(3, 6, 9));
  EXPECT_THAT(vmap(vmap(grad(f)))(tensor({{1., 2.}})).to_vector<float>(), ElementsAre(3, 6));
}

TEST(CustomJvp, OneOfSeveralArgumentsMayBeUnmapped) {
  const auto f = custom_jvp([](const Tensor& w, const Tensor& x, int) { return w * x; },
                            [](const Tensor& w, const Tensor& x, int k, const Tensor& dw, const Tensor& dx) {
                              return std::pair(w * x, k * (dw * x + w * dx));
                            });
  const Tensor xs = tensor({1., 2., 3.});
  const auto total = [&](const Tensor& w) { return sum(vmap([&](const Tensor& x) { return f(w, x, 10); })(xs)); };
  EXPECT_EQ(grad(total)(number(2)).item<float>(), 60);
  EXPECT_EQ(derivative(total)(number(2)).item<float>(), 60);
  EXPECT_EQ(grad([&](const Tensor& w) { return f(w, number(3), 10); })(number(2)).item<float>(), 30);
  EXPECT_THROW(grad([](const Tensor& c) {
                 return custom_jvp(
                     [c](const Tensor& x) { return c * x; },
                     [c](const Tensor& x, const Tensor& dx) { return std::pair(c * x, c * dx); })(number(1));
               })(number(2)),
               TransformError);
}

// ---- custom_vmap --------------------------------------------------------------------------------

TEST(CustomVmap, VmapUsesTheRule) {
  int used = 0;
  const auto f = custom_vmap([](const Tensor& w, const Tensor& x) { return w * sin(x); },
                             [&](Index lanes, const std::vector<bool>& batched, const Tensor& w, const Tensor& x) {
                               ++used;
                               EXPECT_EQ(lanes, 3);
                               EXPECT_THAT(batched, ElementsAre(false, true));
                               return w * sin(x);
                             });
  const Tensor xs = tensor({1., 2., 3.}), w = number(2);
  const auto mapped = vmap(f, {.in_axes = {unmapped, 0}});
  const auto plain = vmap([](const Tensor& v, const Tensor& x) { return v * sin(x); }, {.in_axes = {unmapped, 0}});
  EXPECT_TRUE(allclose(mapped(w, xs), plain(w, xs)));
  EXPECT_EQ(used, 1);
  EXPECT_EQ(f(w, number(1)).item<float>(), (2 * sin(number(1))).item<float>());
  EXPECT_EQ(used, 1);
  EXPECT_TRUE(allclose(grad([&](const Tensor& v) { return sum(mapped(v, xs)); })(w), sum(sin(xs))));
  EXPECT_EQ(used, 2);
  EXPECT_TRUE(allclose(vmap(grad(f), {.in_axes = {unmapped, 0}})(w, xs), sin(xs)));
  EXPECT_TRUE(allclose(jvp([&](const Tensor& v) { return mapped(v, xs); }, w, ones_like(w)).second, sin(xs)));
}

TEST(CustomVmap, ErrorsNameTheRule) {
  const auto f = custom_vmap([](const Tensor& x) { return x; },
                             [](Index, const std::vector<bool>&, const Tensor& x) { return sum(x); });
  try {
    vmap(f)(tensor({1., 2., 3.}));
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("custom_vmap: the rule gave [] for 3 lanes, which must be its axis 0"));
  }
}

// ---- linearize ----------------------------------------------------------------------------------

TEST(Linearize, DoesNotRunTheFunctionAgain) {
  int runs = 0;
  const auto f = [&](const Tensor& x) {
    ++runs;
    return std::pair(sin(x) * x, sum(x * x));
  };
  const Tensor x = linspace(0.1, 1, 4), v = tensor({1., -1., 0.5, 2.}), u = tensor({0., 1., 0., 3.});
  const auto [value, df] = linearize(f, x);
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(allclose(value.first, sin(x) * x));
  for (const Tensor& t : {v, u}) {
    const auto tangent = df(t);
    EXPECT_TRUE(allclose(tangent.first, (cos(x) * x + sin(x)) * t));
    EXPECT_TRUE(allclose(tangent.second, sum(2 * x * t)));
  }
  EXPECT_EQ(runs, 1);
  const Tensor ts = stack({v, u});
  EXPECT_TRUE(allclose(vmap([&, &map = df](const Tensor& t) { return map(t).first; })(ts), (cos(x) * x + sin(x)) * ts));
}

TEST(Linearize, CombinesWithTransforms) {
  const auto f = [](const Tensor& x) { return x * x * x; };
  // 3 x^2
  const auto through = [&](const Tensor& x) { return linearize(f, x).second(ones_like(x)); };
  EXPECT_EQ(grad(through)(number(2)).item<float>(), 12);
  EXPECT_EQ(derivative(through)(number(2)).item<float>(), 12);
  EXPECT_EQ(grad(grad(through))(number(2)).item<float>(), 6);
  EXPECT_THAT(vmap(through)(tensor({1., 2.})).to_vector<float>(), ElementsAre(3, 12));
  EXPECT_THAT(vmap(grad(through))(tensor({1., 2.})).to_vector<float>(), ElementsAre(6, 12));
  EXPECT_EQ(linearize(grad(f), number(2)).second(number(1)).item<float>(), 12);
  EXPECT_EQ(linearize(checkpoint(f), number(2)).second(number(1)).item<float>(), 12);
  EXPECT_EQ(linearize(wrong_square, number(2)).second(number(1)).item<float>(), 6);
}

}  // namespace
