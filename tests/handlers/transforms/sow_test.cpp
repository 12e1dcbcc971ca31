// sow, harvest and plant: the values gathered under each transform and in nests of transforms.
#include <sstream>

#include <stave/stave.h>

#include "matchers.h"

namespace sow_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;

using T = const Tensor&;

std::vector<std::string> names_of(const NamedTensors& sown) {
  std::vector<std::string> names;
  for (const auto& [name, value] : sown) names.push_back(name);
  return names;
}

Tensor f(T x) {
  const Tensor h = sow("hidden", tanh(x));
  return sum(h * h);
}
Tensor point() { return tensor({0.5, -1., 2.}, float64); }

TEST(Sow, ReturnsItsOperandWithoutHarvest) {
  CountOps count;
  const Tensor x = point();
  const Tensor y = with(count, [&] { return sow("x", x); });
  EXPECT_EQ(count.n, 0);
  EXPECT_EQ(y.node_ptr(), x.node_ptr());
}

TEST(Harvest, GivesTheResultAndWhatIsSown) {
  const auto [y, sown] = harvest(f)(point());
  EXPECT_THAT(y, Equals(f(point())));
  EXPECT_THAT(names_of(sown), ElementsAre("hidden"));
  EXPECT_THAT(sown.at("hidden"), Equals(tanh(point())));
}

TEST(Harvest, AcceptsVoidFunctions) {
  const NamedTensors sown = harvest([](T x) { sow("x", x); })(point());
  EXPECT_THAT(sown.at("x"), Equals(point()));
}

TEST(Harvest, SupportsEveryDtypeAndLayout) {
  for (const Dtype dtype : {bool_, uint8, int32, int64, float16, bfloat16, float32, float64}) {
    const Tensor x = transpose(astype(tensor({{0, 1, 1}, {1, 0, 1}}), dtype));
    const auto [y, sown] = harvest([](T v) { return sow("x", v); })(x);
    EXPECT_THAT(y, Equals(x)) << dtype;
    EXPECT_THAT(sown.at("x"), Equals(x)) << dtype;
  }
}

TEST(Harvest, NamesIncludeInnerScopes) {
  const auto layers = [](T x) {
    const Scope layer("layer1");
    Tensor y = sow("out", sin(x));
    const Scope inner("inner");
    return sow("out", cos(y));
  };
  const Scope outside("outside");
  const auto [y, sown] = harvest(layers)(point());
  EXPECT_THAT(names_of(sown), ElementsAre("layer1/inner/out", "layer1/out"));
}

TEST(Harvest, NamesIncludeScopesUnderTransforms) {
  const auto layer = [](T x) {
    const Scope scope("inner");
    return sum(sow("out", sin(x)));
  };
  const auto all = [&](T x) {
    const Scope scope("layer");
    return checkpoint(layer)(x) + sum(vmap(checkpoint(layer))(stack({x, x})));
  };
  EXPECT_THAT(message_of<Error>([&] { harvest(all)(point()); }), HasSubstr("\"layer/inner/out\" is sown twice"));
  const auto one = [&](T x) {
    const Scope scope("layer");
    return sum(vmap(checkpoint(layer))(stack({x, x})));
  };
  const Scope outside("outside");
  EXPECT_THAT(names_of(harvest(one)(point()).second), ElementsAre("layer/inner/out"));
  EXPECT_THAT(names_of(harvest(grad(one))(point()).second), ElementsAre("layer/inner/out"));
  EXPECT_THAT(names_of(value_and_grad(harvest(one))(point()).aux), ElementsAre("layer/inner/out"));
}

TEST(Harvest, OutsideOfVmapStacksLanes) {
  const Tensor xs = tensor({{1., 2.}, {3., 4.}, {5., 6.}}, float64);
  const auto [y, sown] = harvest(vmap(f))(xs);
  EXPECT_THAT(y, Equals(vmap(f)(xs)));
  EXPECT_THAT(sown.at("hidden"), Equals(tanh(xs)));
  const auto along_1 = harvest(vmap(f, {.in_axes = 1}))(xs).second;
  EXPECT_THAT(along_1.at("hidden"), Equals(tanh(transpose(xs))));
  const auto nested = harvest(vmap(vmap(f)))(stack({xs, 2. * xs})).second;
  EXPECT_THAT(nested.at("hidden"), Equals(tanh(stack({xs, 2. * xs}))));
}

TEST(Harvest, InsideOfVmapGathersTheLane) {
  const Tensor xs = tensor({{1., 2.}, {3., 4.}, {5., 6.}}, float64);
  const auto [y, sown] = vmap(harvest(f))(xs);
  EXPECT_THAT(y, Equals(vmap(f)(xs)));
  EXPECT_THAT(sown.at("hidden"), Equals(tanh(xs)));
}

TEST(Harvest, UnbatchedValuesAreGatheredOnce) {
  const auto g = [](T x) { return x + sow("constant", tensor(2.)); };
  EXPECT_THAT(harvest(vmap(g))(tensor({1., 2.})).second.at("constant"), IsNumber(2));
}

TEST(Harvest, InsideOfGradHasDerivatives) {
  // d/dx sum(tanh(x)^3), where tanh(x) was gathered.
  const auto loss = [](T x) {
    const auto [y, sown] = harvest(f)(x);
    return sum(pow(sown.at("hidden"), 3));
  };
  const auto plain = [](T x) { return sum(pow(tanh(x), 3)); };
  EXPECT_THAT(grad(loss)(point()), IsNear(grad(plain)(point())));
  EXPECT_THAT(hessian(loss)(point()), IsNear(hessian(plain)(point())));
  EXPECT_THAT(jvp(loss, point(), ones_like(point())).second, IsNear(jvp(plain, point(), ones_like(point())).second));
}

TEST(Harvest, InsideOfGradOfACheckpointHasDerivatives) {
  const auto by = [](auto through) {
    return [through](T x) {
      const auto [y, sown] = harvest(through(f))(2. * x);
      return sum(pow(sown.at("hidden"), 3)) + y;
    };
  };
  const auto loss = by([](auto g) { return checkpoint(g); });
  const auto plain = by([](auto g) { return g; });
  EXPECT_THAT(grad(loss)(point()), IsNear(grad(plain)(point())));
  EXPECT_THAT(hessian(loss)(point()), IsNear(hessian(plain)(point())));
  EXPECT_THAT(vmap(grad(loss))(stack({point(), -point()})), IsNear(vmap(grad(plain))(stack({point(), -point()}))));
  EXPECT_THAT(jvp(loss, point(), point()).second, IsNear(jvp(plain, point(), point()).second));
}

TEST(Harvest, WorksInNestedCheckpointsAndLoops) {
  const auto inner = checkpoint([](T x) { return sow("inner", sin(x)); });
  const auto outer = checkpoint([inner](T x) { return sow("outer", inner(x) * x); });
  const auto loss = [&](T x) {
    const auto [y, sown] = harvest(outer)(x);
    return sum(sown.at("inner") * sown.at("outer") + y);
  };
  const auto plain = [](T x) { return sum(sin(x) * sin(x) * x + sin(x) * x); };
  EXPECT_THAT(grad(loss)(point()), IsNear(grad(plain)(point())));
  const auto sown = harvest(grad([&](T x) { return sum(outer(x)); }))(point()).second;
  EXPECT_THAT(names_of(sown), ElementsAre("inner", "outer"));
  const auto steps = [](T x) {
    int i = 0;
    return loop(3, [&](T y) { return sow("step" + std::to_string(i++), sin(y)); })(x);
  };
  EXPECT_THAT(names_of(harvest(steps)(point()).second), ElementsAre("step0", "step1", "step2"));
}

TEST(Harvest, WorksInALoopWithSnapshots) {
  const auto loss_by = [](LoopOptions options) {
    return [options](T x) {
      // The body runs again after this function has ended.
      const auto i = std::make_shared<int>(0);
      const auto steps = loop(
          6, [i](T y) { return sow("step" + std::to_string((*i)++), sin(y) * 1.5); }, options);
      const auto [y, sown] = harvest(steps)(x);
      return sum(y * sown.at("step2") + square(sown.at("step4")));
    };
  };
  const Tensor expected = grad([](T x) {
    std::vector<Tensor> ys{x};
    for (int i = 0; i < 6; ++i) ys.push_back(sin(ys.back()) * 1.5);
    return sum(ys[6] * ys[3] + square(ys[5]));
  })(point());
  EXPECT_THAT(grad(loss_by({}))(point()), IsNear(expected));
  EXPECT_THAT(grad(loss_by({.snapshots = 2}))(point()), IsNear(expected));
}

TEST(Harvest, WorksUnderOtherTransforms) {
  const auto both = [](T x) {
    const auto [y, sown] = harvest(f)(x);
    return stack({y, sum(pow(sown.at("hidden"), 3))});
  };
  const auto plain = [](T x) { return stack({sum(square(tanh(x))), sum(pow(tanh(x), 3))}); };
  EXPECT_THAT(jacrev(both)(point()), IsNear(jacrev(plain)(point())));
  EXPECT_THAT(jacfwd(both)(point()), IsNear(jacrev(plain)(point())));
  EXPECT_THAT(linearize(both, point()).second(point()), IsNear(matmul(jacrev(plain)(point()), point())));
  const auto [y, pullback] = vjp(both, point());
  EXPECT_THAT(std::get<0>(pullback(ones({2}, float64))), IsNear(sum(jacrev(plain)(point()), 0)));
  const auto outside = harvest([&](T x) { return jacrev(f)(x); })(point()).second;
  EXPECT_THAT(outside.at("hidden"), Equals(tanh(point())));
  const auto without_lanes = harvest(vmap(f))(zeros({0, 3})).second;
  EXPECT_EQ(without_lanes.at("hidden").shape(), Shape({0, 3}));
}

TEST(Harvest, OutsideOfGradGivesConstants) {
  const auto [slope, sown] = harvest(grad(f))(point());
  EXPECT_THAT(slope, Equals(grad(f)(point())));
  EXPECT_THAT(sown.at("hidden"), Equals(tanh(point())));
  // Reading a value that a transform still differentiates would be an error.
  EXPECT_EQ(sown.at("hidden").to_vector<double>().size(), 3u);
  const auto [hessian_, of_both] = harvest(hessian(f))(point());
  EXPECT_THAT(hessian_, IsNear(hessian(f)(point())));
  const auto [tangents, of_jvp] = harvest([](T x) { return jvp(f, x, ones_like(x)); })(point());
  EXPECT_THAT(of_jvp.at("hidden"), Equals(tanh(point())));
}

TEST(Harvest, OutsideOfAnInnerGradHasTheOuterDerivative) {
  const auto loss = [](T x) { return sum(square(harvest(grad(f))(x).second.at("hidden"))); };
  EXPECT_THAT(grad(loss)(point()), IsNear(grad([](T x) { return sum(square(tanh(x))); })(point())));
}

TEST(Harvest, OutsideOfACheckpointUnderGradGathersOnce) {
  const auto [slope, sown] = harvest(grad(checkpoint(f)))(point());
  EXPECT_THAT(slope, IsNear(grad(f)(point())));
  EXPECT_THAT(sown.at("hidden"), Equals(tanh(point())));
  EXPECT_THAT(harvest(vmap(grad(checkpoint(f))))(stack({point(), point()})).second.at("hidden"),
              Equals(tanh(stack({point(), point()}))));
}

TEST(Harvest, WorksInsideAndOutsideCompile) {
  const auto over = harvest(compile(f));
  const auto compiled = compile(harvest(f));
  const auto compiled_checkpoint = compile(grad([](T x) {
    const auto [y, sown] = harvest(checkpoint(f))(x);
    return sum(sown.at("hidden")) + y;
  }));
  for (int i = 0; i < 3; ++i) {
    const Tensor x = point() * (1. + i);
    EXPECT_THAT(over(x).second.at("hidden"), Equals(tanh(x)));
    EXPECT_THAT(compiled(x).second.at("hidden"), Equals(tanh(x)));
    EXPECT_THAT(compiled_checkpoint(x), IsNear(grad([](T v) { return sum(tanh(v)) + f(v); })(x)));
  }
  EXPECT_EQ(compiled.recordings(), 1u);
  EXPECT_EQ(compiled_checkpoint.recordings(), 1u);
  // No handler gathers, so the recording is replayed.
  const auto alone = compile(f);
  EXPECT_THAT(alone(point()), Equals(f(point())));
  EXPECT_THAT(alone(2. * point()), IsNear(f(2. * point())));
  EXPECT_EQ(alone.recordings(), 1u);
  // The checkpoint's log performs the effect of sow, so each call runs the function itself.
  const auto in_a_checkpoint = compile(grad(checkpoint(f)));
  EXPECT_THAT(in_a_checkpoint(point()), IsNear(grad(f)(point())));
  EXPECT_THAT(in_a_checkpoint(2. * point()), IsNear(grad(f)(2. * point())));
}

TEST(Harvest, TraceInsideKeepsSow) {
  const auto traced = [](T x) {
    const auto program = trace(f)(x);
    return program(2. * x) + program(3. * x);
  };
  EXPECT_THAT(harvest(traced)(point()).first, IsNear(traced(point())));
}

TEST(Harvest, GathersOnlyItsOwnTag) {
  const auto g = [](T x) { return sow("b", sow("a", x, "mine") * 2., "theirs"); };
  const auto [inner, theirs] = harvest(harvest(g, {.tag = "mine"}), {.tag = "theirs"})(point());
  EXPECT_THAT(names_of(inner.second), ElementsAre("a"));
  EXPECT_THAT(names_of(theirs), ElementsAre("b"));
  EXPECT_TRUE(harvest(g)(point()).second.empty());
}

TEST(Harvest, OuterHarvestGathersToo) {
  const auto g = [](T x) {
    const Scope scope("layer");
    return harvest(f)(x).first;
  };
  EXPECT_THAT(names_of(harvest(g)(point()).second), ElementsAre("layer/hidden"));
  EXPECT_THAT(names_of(harvest(grad(checkpoint(g)))(point()).second), ElementsAre("layer/hidden"));
}

TEST(Harvest, SaysWhatItCannotGather) {
  const auto twice = [](T x) { return sow("a", x) + sow("a", x); };
  EXPECT_THAT(message_of<Error>([&] { harvest(twice)(point()); }), HasSubstr("harvest: \"a\" is sown twice"));
  const auto ruled = custom_vjp([](T x) { return sow("inside", x); },
                                [](T x) { return std::pair(sow("inside", x), x); }, [](T, T g) { return g; });
  EXPECT_THAT(message_of<TransformError>([&] { harvest(ruled)(point()); }),
              HasSubstr("sow: \"inside\" is sown inside a function of custom_vjp"));
  EXPECT_THAT(message_of<TransformError>([&] { grad([&](T x) { return sum(harvest(ruled)(x).first); })(point()); }),
              HasSubstr("sow: \"inside\" is sown inside a function of custom_vjp"));
  // Outside grad, which uses the rules, sown values in rules are gathered like any others.
  const auto slope = grad([&](T x) { return sum(ruled(x)); });
  EXPECT_THAT(harvest(slope)(point()).second.at("inside"), Equals(point()));
  EXPECT_THAT(message_of<Error>([] { sow("a", Tensor()); }), HasSubstr("sow"));
}

// ---- cotangents ---------------------------------------------------------------------------------

TEST(SowCotangent, IsGatheredOutsideOfGrad) {
  const auto loss = [](T x) { return sum(square(sow_cotangent("dh", sin(x)))); };
  const auto [slope, sown] = harvest(grad(loss))(point());
  EXPECT_THAT(slope, IsNear(grad([](T x) { return sum(square(sin(x))); })(point())));
  EXPECT_THAT(sown.at("dh"), IsNear(2. * sin(point())));
  const Tensor xs = stack({point(), -point()});
  EXPECT_THAT(harvest(vmap(grad(loss)))(xs).second.at("dh"), IsNear(2. * sin(xs)));
  EXPECT_THAT(harvest(grad(checkpoint(loss)))(point()).second.at("dh"), IsNear(2. * sin(point())));
  EXPECT_THAT(vmap(harvest(grad(loss)))(xs).second.at("dh"), IsNear(2. * sin(xs)));
}

TEST(SowCotangent, NestedDerivativesGiveTheInnermostCotangent) {
  const auto loss = [](T x) { return sum(pow(sow_cotangent("dh", x), 3)); };
  const auto second = grad([&](T x) { return sum(grad(loss)(x)); });
  const auto [curvature, sown] = harvest(second)(point());
  EXPECT_THAT(curvature, IsNear(6. * point()));
  EXPECT_THAT(sown.at("dh"), IsNear(3. * square(point())));
  // A transform outside the harvest can differentiate the gathered cotangents.
  const auto by_cotangent = [&](T x) { return sum(harvest(grad(loss))(x).second.at("dh")); };
  EXPECT_THAT(grad(by_cotangent)(point()), IsNear(6. * point()));
}

TEST(SowCotangent, ChangesNoResult) {
  const auto loss = [](T x) { return sum(square(sow_cotangent("dh", sin(x)))); };
  const auto plain = [](T x) { return sum(square(sin(x))); };
  EXPECT_THAT(loss(point()), Equals(plain(point())));
  EXPECT_THAT(jvp(loss, point(), point()).second, IsNear(jvp(plain, point(), point()).second));
  EXPECT_THAT(hessian(loss)(point()), IsNear(hessian(plain)(point())));
  // A harvest inside grad has ended when the cotangents are computed.
  const auto inside = [&](T x) { return harvest(loss)(x).first; };
  EXPECT_THAT(grad(inside)(point()), IsNear(grad(plain)(point())));
  const auto compiled = compile(grad(loss));
  EXPECT_THAT(compiled(point()), IsNear(grad(plain)(point())));
  EXPECT_THAT(compiled(2. * point()), IsNear(grad(plain)(2. * point())));
}

TEST(SowCotangent, HasTheScopesWhereItWasSown) {
  const auto loss = [](T x) {
    const Scope scope("layer");
    return sum(square(sow_cotangent("dh", x)));
  };
  EXPECT_THAT(names_of(harvest(grad(loss))(point()).second), ElementsAre("layer/dh"));
}

// ---- plant --------------------------------------------------------------------------------------

TEST(Plant, ReplacesSownValues) {
  const Tensor value = tensor({1., 2., 3.}, float64);
  EXPECT_THAT(plant(f, {{"hidden", value}})(point()), IsNumber(14));
  const auto [y, sown] = harvest(plant(f, {{"hidden", value}}))(point());
  EXPECT_THAT(y, IsNumber(14));
  EXPECT_THAT(sown.at("hidden"), Equals(value));
}

TEST(Plant, IsTheInverseOfHarvest) {
  const Tensor xs = stack({point(), -point()});
  const NamedTensors sown = harvest(vmap(f))(xs).second;
  EXPECT_THAT(plant(vmap(f), sown)(zeros_like(xs)), Equals(vmap(f)(xs)));
  const auto lanes = vmap([&](T x, const NamedTensors& values) { return plant(f, values)(x); });
  EXPECT_THAT(lanes(zeros_like(xs), sown), Equals(vmap(f)(xs)));
}

TEST(Plant, IsAConstantToTransformsInside) {
  const auto g = [](T x) { return sum(sow("a", sin(x)) * x); };
  const Tensor value = tensor({1., 2., 3.}, float64);
  // The function is sum(value x).
  EXPECT_THAT(plant(grad(g), {{"a", value}})(point()), Equals(value));
  EXPECT_THAT(plant(grad(checkpoint(g)), {{"a", value}})(point()), Equals(value));
  const auto tangent = [&](T x) { return jvp(g, x, ones_like(x)).second; };
  EXPECT_THAT(plant(tangent, {{"a", value}})(point()), IsNumber(6));
}

TEST(Plant, FindsNamesUnderTransformsAndCheckpoints) {
  const auto inner = [](T x) {
    const Scope scope("inner");
    return sum(sow("a", sin(x)) * x);
  };
  const auto all = [&](T xs) {
    const Scope scope("outer");
    return sum(vmap(checkpoint(inner))(xs));
  };
  const Tensor values = tensor({{1., 2.}, {3., 4.}}, float64);
  EXPECT_THAT(plant(grad(all), {{"outer/inner/a", values}})(ones({2, 2}, float64)), Equals(values));
  EXPECT_THAT(plant(grad(checkpoint(all)), {{"outer/inner/a", values}})(ones({2, 2}, float64)), Equals(values));
}

TEST(Plant, HasDerivativesByWhatIsPlanted) {
  const auto loss = [](T value) { return plant(f, {{"hidden", value}})(point()); };
  EXPECT_THAT(grad(loss)(point()), IsNear(2. * point()));
  const auto through = [](T value) { return plant(checkpoint(f), {{"hidden", value}})(point()); };
  EXPECT_THAT(grad(through)(point()), IsNear(2. * point()));
  EXPECT_THAT(hessian(through)(point()), IsNear(2. * eye(3, float64)));
  EXPECT_THAT(jvp(through, point(), point()).second, IsNear(sum(2. * square(point()))));
  const auto compiled = compile(loss);
  EXPECT_THAT(compiled(point()), IsNear(loss(point())));
  EXPECT_THAT(compiled(2. * point()), IsNear(loss(2. * point())));
}

TEST(Plant, ErrorsNameMismatches) {
  EXPECT_THAT(message_of<Error>([] {
                plant(f, {{"hiden", point()}})(point());
              }),
              HasSubstr("plant: nothing is sown under the name \"hiden\""));
  EXPECT_THAT(message_of<ShapeError>([] {
                plant(f, {{"hidden", tensor(1., float64)}})(point());
              }),
              HasSubstr("plant: \"hidden\" has shape [], but the value sown there has [3]"));
  EXPECT_THAT(message_of<DtypeError>([] {
                plant(f, {{"hidden", astype(point(), float32)}})(point());
              }),
              HasSubstr("plant: \"hidden\" is float32, but the value sown there is float64"));
}

TEST(Sow, IsShownByDebug) {
  std::ostringstream shown;
  harvest(debug(f, {.out = &shown}))(point());
  EXPECT_THAT(shown.str(), HasSubstr("sow \"hidden\" f64[3] -> f64[3]"));
}

}  // namespace sow_test
