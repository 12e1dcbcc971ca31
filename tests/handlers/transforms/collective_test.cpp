// Collectives over the lanes of vmap, in combinations that the table of operations does not cover:
// control flow, checkpoints, programs, axis names. Expected values are closed forms, or values of
// jax.vmap(f, axis_name=...) where a comment says so.
#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stave/stave.h>

#include "matchers.h"

using namespace stave;
using namespace stave_test;
using testing::ElementsAre, testing::HasSubstr;

namespace {

Tensor numbers(std::vector<double> values) { return from(values, {static_cast<Index>(values.size())}); }

TEST(Collective, GradientsInsideTheAxisAreThoseOfTheSumOverLanes) {
  const Tensor x = numbers({1, 2, 3, 4});
  // jax.vmap(jax.grad(lambda x: jnp.sin(lax.psum(x, 'i')) * x), axis_name='i')([1, 2, 3, 4]) is
  // -8.934736 in each lane.
  const auto f = [](const Tensor& y) { return sin(psum(y, "i")) * y; };
  const double expected = std::sin(10.) + 10 * std::cos(10.);
  EXPECT_THAT(values(vmap(grad(f), {.axis_name = "i"})(x)), testing::Each(testing::DoubleNear(expected, 1e-12)));
  EXPECT_THAT(values(grad([&](const Tensor& y) { return sum(vmap(f, {.axis_name = "i"})(y)); })(x)),
              testing::Each(testing::DoubleNear(expected, 1e-12)));
  // jax.vmap(jax.grad(lambda x: lax.psum(x, 'i')), axis_name='i') gives 4 in each lane.
  EXPECT_THAT(values(vmap(grad([](const Tensor& y) { return psum(y, "i"); }), {.axis_name = "i"})(x)),
              ElementsAre(4, 4, 4, 4));
}

TEST(Collective, SecondDerivativesPassTheAxis) {
  const Tensor x = numbers({1, 2, 3});
  const auto f = [](const Tensor& y) {
    return sum(vmap([](const Tensor& z) { return pow(psum(z, "i"), 3) * z; }, {.axis_name = "i"})(y));
  };
  // The function is s^3 s, with the second derivative 12 s^2 at every entry.
  EXPECT_THAT(values(hessian(f)(x)), testing::Each(testing::DoubleNear(12. * 36, 1e-9)));
}

TEST(Collective, TiedLanesShareTheDerivative) {
  const Tensor x = numbers({2, 5, 5, 1});
  EXPECT_THAT(values(vmap(grad([](const Tensor& y) { return pmax(y, "i") * 3; }), {.axis_name = "i"})(x)),
              ElementsAre(0, 6, 6, 0));
  const auto [y, dy] =
      jvp([](const Tensor& z) { return vmap([](const Tensor& w) { return pmin(w, "i"); }, {.axis_name = "i"})(z); }, x,
          numbers({1, 2, 3, 7}));
  EXPECT_THAT(values(y), testing::Each(1));
  EXPECT_THAT(values(dy), testing::Each(7));
}

TEST(Collective, UnbatchedValuesCountOncePerLane) {
  const Tensor x = numbers({1, 2, 3});
  const auto f = [](const Tensor& y) { return y * 0 + psum(full({}, 2.0, float64), "i"); };
  EXPECT_THAT(values(vmap(f, {.axis_name = "i"})(x)), ElementsAre(6, 6, 6));
  const auto g = [](const Tensor&) { return all_gather(full({}, 2.0, float64), "i"); };
  EXPECT_EQ(vmap(g, {.axis_name = "i"})(x).shape(), Shape({3, 3}));
}

TEST(Collective, ResultsEqualInAllLanesAreComputedOnce) {
  const Tensor x = ones({4, 3}, float64);
  const auto f = [](const Tensor& y) { return y * exp(psum(y, "i")); };
  std::vector<Shape> exps;
  struct Shapes : Handler {
    std::vector<Shape>& shapes;
    explicit Shapes(std::vector<Shape>& to) : shapes(to) {}
    Outputs handle(Call& call) override {
      if (&call.op() == &op_exp) shapes.push_back(call.input(0).shape());
      return perform(std::move(call));
    }
  } shapes(exps);
  with(shapes, [&] { return vmap(f, {.axis_name = "i"})(x); });
  EXPECT_THAT(exps, ElementsAre(Shape({3})));
}

TEST(Collective, NamesChooseAmongNestedAxes) {
  const Tensor x = reshape(arange(0, 6, 1, float64), {2, 3});
  const auto f = [](const Tensor& y) { return psum(y, "rows") + 100 * psum(y, "columns"); };
  const Tensor result = vmap(vmap(f, {.axis_name = "columns"}), {.axis_name = "rows"})(x);
  EXPECT_THAT(values(result), ElementsAre(303, 305, 307, 1203, 1205, 1207));
  const auto both = [](const Tensor& y) { return psum(psum(y, "rows"), "columns"); };
  EXPECT_THAT(values(vmap(vmap(both, {.axis_name = "columns"}), {.axis_name = "rows"})(x)), testing::Each(15));
  // If two axes have the same name, the inner one answers.
  const auto inner = [](const Tensor& y) { return psum(y, "i"); };
  EXPECT_THAT(values(vmap(vmap(inner, {.axis_name = "i"}), {.axis_name = "i"})(x)), ElementsAre(3, 3, 3, 12, 12, 12));
}

TEST(Collective, AxisIndexAndSizeAreKnown) {
  const auto f = [](const Tensor& y) { return y * axis_index("i") + axis_size("i"); };
  EXPECT_THAT(values(vmap(f, {.axis_name = "i"})(numbers({5, 6, 7}))), ElementsAre(3, 9, 17));
  EXPECT_EQ(vmap([](const Tensor&) { return axis_index("i"); }, {.axis_name = "i"})(numbers({5})).dtype(), int32);
}

TEST(Collective, AcceptTrees) {
  struct Pair {
    Tensor a, b;
  };
  const auto f = [](const Pair& p) { return pmean(p, "i"); };
  const Pair mean = vmap(f, {.axis_name = "i"})(Pair{numbers({1, 3}), numbers({10, 30})});
  EXPECT_THAT(values(mean.a), ElementsAre(2, 2));
  EXPECT_THAT(values(mean.b), ElementsAre(20, 20));
}

// ---- control flow -------------------------------------------------------------------------------

TEST(Collective, LanesMaySplitAfterACollective) {
  const Tensor x = numbers({1, 2, 3, 4});
  const auto f = [](const Tensor& y) {
    const Tensor total = psum(y, "i"), next = ppermute(y, "i", {{0, 1}, {1, 2}, {2, 3}, {3, 0}});
    const Tensor place = axis_index("i");
    if (y > 1.5) return total * y + next;  // three lanes
    return total - next + place;           // one lane
  };
  EXPECT_THAT(values(vmap(f, {.axis_name = "i"})(x)), ElementsAre(6, 21, 32, 43));
  const auto total = [&](const Tensor& y) { return sum(vmap(f, {.axis_name = "i"})(y)); };
  // total is 10. d/dx_j is 1 + 2 + 3 + 4 through total, its own 10 where it multiplies total, and
  // +-1 where it is another lane's next.
  EXPECT_THAT(values(grad(total)(x)), ElementsAre(11, 21, 21, 19));
}

TEST(Collective, BranchingOnACollectiveDoesNotSplitLanes) {
  int runs = 0;
  const auto f = [&](Tensor y) {
    ++runs;
    while (psum(square(y), "i") > 1e-3) y = y / 2.;
    return y;
  };
  const Tensor y = vmap(f, {.axis_name = "i"})(numbers({1, 2}));
  EXPECT_EQ(runs, 1);
  EXPECT_THAT(values(y), ElementsAre(1. / 128, 2. / 128));
}

TEST(Collective, CollectiveAfterASplitIsAnError) {
  const auto f = [](const Tensor& y) { return y > 1.5 ? psum(y, "i") : y; };
  const std::string error = message_of<Error>([&] { vmap(f, {.axis_name = "i"})(numbers({1, 2, 3, 4})); });
  EXPECT_THAT(
      error,
      HasSubstr("psum: all 4 lanes of \"i\" must take part, but they have split, and only lanes 1, 2, 3 came here"));
  const auto alone = [](const Tensor& y) { return y > 3.5 ? pmax(y, "i") : y; };
  EXPECT_THAT(message_of<Error>([&] {
                vmap(alone, {.axis_name = "i"})(numbers({1, 2, 3, 4}));
              }),
              HasSubstr("and only lane 3 came here"));
}

TEST(Collective, LanesOfAnOuterVmapMaySplit) {
  const Tensor x = reshape(arange(1, 7, 1, float64), {2, 3});
  const auto f = [](const Tensor& row) {  // a row of 3
    const Tensor total = vmap([](const Tensor& y) { return psum(y, "i"); }, {.axis_name = "i"})(row);
    return sum(row) > 10 ? total : -total;
  };
  EXPECT_THAT(values(vmap(f)(x)), ElementsAre(-6, -6, -6, 15, 15, 15));
  const auto inside = [](const Tensor& row) {
    return vmap([&](const Tensor& y) { return sum(row) > 10 ? psum(y, "i") : y; }, {.axis_name = "i"})(row);
  };
  EXPECT_THAT(values(vmap(inside)(x)), ElementsAre(1, 2, 3, 15, 15, 15));
}

TEST(Collective, OneLaneIsAnAxisToo) {
  EXPECT_THAT(
      values(vmap([](const Tensor& y) { return pmean(y, "i") + axis_index("i"); }, {.axis_name = "i"})(numbers({7}))),
      ElementsAre(7));
}

// ---- higher-order operations and programs -------------------------------------------------------

TEST(Collective, WorkInsideACheckpoint) {
  const Tensor x = numbers({1, 2, 3, 4});
  const auto f = [](const Tensor& y) { return sin(psum(y, "i")) * y; };
  const auto kept = [&](const Tensor& y) { return checkpoint(f)(y); };
  const double expected = std::sin(10.) + 10 * std::cos(10.);
  EXPECT_THAT(values(vmap(grad(kept), {.axis_name = "i"})(x)), testing::Each(testing::DoubleNear(expected, 1e-12)));
  const auto total = [&](const Tensor& y) { return sum(vmap(kept, {.axis_name = "i"})(y)); };
  EXPECT_THAT(values(grad(total)(x)), testing::Each(testing::DoubleNear(expected, 1e-12)));
  const auto around = [&](const Tensor& y) {
    return sum(checkpoint([&](const Tensor& z) { return vmap(f, {.axis_name = "i"})(z); })(y));
  };
  EXPECT_THAT(values(grad(around)(x)), testing::Each(testing::DoubleNear(expected, 1e-12)));
}

TEST(Collective, WorkInsideAProgram) {
  const Tensor x = numbers({1, 2, 3, 4});
  const auto f = [](const Tensor& y) { return sin(psum(y, "i")) * y; };
  const double expected = std::sin(10.) + 10 * std::cos(10.);
  const auto around = compile([&](const Tensor& y) { return vmap(grad(f), {.axis_name = "i"})(y); });
  const auto within = vmap(compile(grad(f)), {.axis_name = "i"});
  const auto both = vmap(grad(compile(f)), {.axis_name = "i"});
  for (int call = 0; call < 4; ++call) {
    EXPECT_THAT(values(around(x)), testing::Each(testing::DoubleNear(expected, 1e-12)));
    EXPECT_THAT(values(within(x)), testing::Each(testing::DoubleNear(expected, 1e-12)));
    EXPECT_THAT(values(both(x)), testing::Each(testing::DoubleNear(expected, 1e-12)));
  }
  // The same compiled function under axes of other sizes, and at another position of the nest.
  const auto g = compile([](const Tensor& y) { return psum(y, "i"); });
  EXPECT_THAT(values(vmap([&](const Tensor& y) { return g(y); }, {.axis_name = "i"})(x)), testing::Each(10));
  EXPECT_THAT(values(vmap([&](const Tensor& y) { return g(y); }, {.axis_name = "i"})(numbers({1, 2}))),
              testing::Each(3));
  const Tensor pairs = reshape(x, {2, 2});
  const auto of_rows = vmap(vmap([&](const Tensor& y) { return g(y); }), {.axis_name = "i"});
  EXPECT_THAT(values(of_rows(pairs)), ElementsAre(4, 6, 4, 6));
  const auto of_columns = vmap(vmap([&](const Tensor& y) { return g(y); }, {.axis_name = "i"}));
  EXPECT_THAT(values(of_columns(pairs)), ElementsAre(3, 3, 7, 7));
}

// When lanes split after a higher-order operation, each group runs again from the start, and
// receives the collective's result that all lanes computed together.
TEST(Collective, ResultsBeforeASplitAreReused) {
  const Tensor x = numbers({1, -0.5, 0.5, -1});
  const std::vector<double> at = values(x);
  const auto g = [](const Tensor& v) { return bool(v > 0) ? sin(v) : v * v; };
  const auto plain_g = [](double v) { return v > 0 ? std::sin(v) : v * v; };
  const auto same = [](const Tensor& y) { return y * 1.; };
  const auto rule = [=](const Tensor& y) {
    return custom_jvp(same, [](const Tensor& z, const Tensor& d) { return std::pair(z * 1., d); })(y);
  };
  const auto sum_of_squares = [](const Tensor& y) { return psum(y * y, "i"); };  // its value is 2.5
  using F = std::function<Tensor(const Tensor&)>;
  const std::pair<const char*, F> functions[] = {
      {"none",
       [=](const Tensor& y) {
         // This is evaluated first: a compiler may compute either factor of a product first.
         const Tensor s = sum_of_squares(y);
         return g(y) * s;
       }},
      {"checkpoint after",
       [=](const Tensor& y) {
         const Tensor s = sum_of_squares(y);
         return g(checkpoint(same)(y)) * s;
       }},
      {"checkpoint before",
       [=](const Tensor& y) {
         const Tensor z = checkpoint(same)(y), s = sum_of_squares(y);
         return g(z) * s;
       }},
      {"checkpoint around",
       [=](const Tensor& y) {
         const Tensor s = checkpoint(sum_of_squares)(y);
         return g(y) * s;
       }},
      {"a rule",
       [=](const Tensor& y) {
         const Tensor s = sum_of_squares(y);
         return g(rule(y)) * s;
       }},
      {"lanes part in a checkpoint, and after it",
       [=](const Tensor& y) {
         const Tensor s = sum_of_squares(y), z = checkpoint(g)(y);
         return (bool(y > 0.75) ? z * 1. : z) * s;
       }},
      {"a checkpoint of all of it",
       [=](const Tensor& y) {
         return checkpoint([=](const Tensor& z) {
           const Tensor s = checkpoint(sum_of_squares)(z);
           return g(z) * s;
         })(y);
       }},
      {"two, of which one follows",
       [=](const Tensor& y) {
         const Tensor s = sum_of_squares(y), z = checkpoint(same)(y), t = psum(s * 0.25 - s * 0.25 + 1, "i");
         return g(z) * s * t * 0.25;
       }},
  };
  for (const auto& [name, function] : functions) {
    const auto& f = function;  // clang 14 does not let lambdas capture structured bindings
    SCOPED_TRACE(name);
    const std::vector<double> found = values(vmap(f, {.axis_name = "i"})(x));
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], plain_g(at[i]) * 2.5, 1e-12);
    if (std::string(name).find("around") != std::string::npos ||
        std::string(name).find("all of it") != std::string::npos)
      // Reverse mode runs the function again for each group of split lanes, where psum is an error.
      continue;
    const std::vector<double> slopes =
        values(grad([&](const Tensor& y) { return sum(vmap(f, {.axis_name = "i"})(y)); })(x));
    double others = 0;
    for (const double v : at) others += plain_g(v);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(slopes[i], (at[i] > 0 ? std::cos(at[i]) : 2 * at[i]) * 2.5 + 2 * at[i] * others, 1e-12);
  }
  // A collective after a split is an error.
  EXPECT_THAT(message_of<TransformError>([&] {
                vmap([&](const Tensor& y) { return psum(g(checkpoint(same)(y)), "i"); }, {.axis_name = "i"})(x);
              }),
              HasSubstr("they have split"));
}

TEST(Collective, WorkInsideALoop) {
  const Tensor x = numbers({1, 2, 3});
  const auto f = [](const Tensor& y) {
    return loop(5, [](const Tensor& z) { return z - 0.5 * (z - pmean(z, "i")); })(y);
  };
  const std::vector<double> y = values(vmap(f, {.axis_name = "i"})(x));
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(y[static_cast<std::size_t>(i)], 2 + (i - 1) / 32., 1e-14);
  const auto compiled = compile([&](const Tensor& z) { return vmap(f, {.axis_name = "i"})(z); });
  for (int call = 0; call < 3; ++call) EXPECT_EQ(values(compiled(x)), y);
}

TEST(Collective, AppearInTraces) {
  const auto f = [](const Tensor& y) { return psum(y, "i"); };
  std::ostringstream shown;
  vmap(debug(f, {.out = &shown}), {.axis_name = "i"})(numbers({1, 2}));
  EXPECT_THAT(shown.str(), HasSubstr("psum \"i\" of 2 f64[] -> f64[]"));
}

// ---- errors -------------------------------------------------------------------------------------

TEST(Collective, UnknownAxisIsAnError) {
  const Tensor x = numbers({1, 2});
  for (const std::string& error :
       {message_of<Error>([&] { psum(x, "batch"); }),
        message_of<Error>([&] { vmap([](const Tensor& y) { return psum(y, "batch"); }, {.axis_name = "other"})(x); }),
        message_of<Error>([&] { vmap([](const Tensor& y) { return psum(y, "batch"); })(x); })})
    EXPECT_THAT(error, HasSubstr("psum: no axis named \"batch\" exists here: call it inside vmap(f, {.axis_name = "
                                 "\"batch\"})"));
  EXPECT_THAT(message_of<Error>([&] { axis_size("batch"); }), HasSubstr("axis_size: no axis named"));
  EXPECT_THAT(message_of<Error>([&] { psum(Tensor(), "batch"); }), HasSubstr("psum"));
}

TEST(Collective, ErrorsNameWrongAxesAndPlaces) {
  const Tensor x = ones({2, 3}, float64);
  const auto in_lanes = [&](auto f) { return message_of<Error>([&] { vmap(f, {.axis_name = "i"})(x); }); };
  EXPECT_THAT(in_lanes([](const Tensor& y) { return all_gather(y, "i", {.axis = 2}); }),
              HasSubstr("all_gather: axis 2 is out of range for rank 2"));
  EXPECT_THAT(in_lanes([](const Tensor& y) { return all_to_all(y, "i"); }),
              HasSubstr("all_to_all: axis 0 of shape [3] is to be as long as there are the 2 places of \"i\""));
  EXPECT_THAT(in_lanes([](const Tensor& y) { return ppermute(y, "i", {{0, 1}, {0, 0}}); }), HasSubstr("a second time"));
}

}  // namespace
