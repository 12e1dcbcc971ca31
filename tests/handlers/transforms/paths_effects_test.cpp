// Effects of functions under vmap. They are answered once where lanes run together,
// or as their type declares across lanes.
#include <memory>

#include <stave/stave.h>

#include "lanes.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;
using testing::ThrowsMessage;
using T = const Tensor&;

const Tensor xs = tensor({-2.5, -1.25, -0.5, 0.25, 3.25, 1.5, 2.25, 0.75});

struct Ask {
  using Result = double;
};
struct AskOnce {
  using Result = std::unique_ptr<double>;
};
struct Tell {
  using Result = void;
  int what;
};
struct World : Handles<Ask, AskOnce, Tell> {
  double asked = 0;
  std::vector<int> told;
  double handle(Ask&) override { return ++asked; }
  std::unique_ptr<double> handle(AskOnce&) override { return std::make_unique<double>(++asked); }
  void handle(Tell& tell) override { told.push_back(tell.what); }
};

Tensor asking(T x) {
  const double a = perform(Ask{});
  perform(Tell{1});
  if (x > 0) {
    perform(Tell{2});
    return x * a + perform(Ask{});
  }
  perform(Tell{3});
  const double b = perform(Ask{}), c = perform(Ask{});
  return x * a * b + c;
}

TEST(PathsEffects, BeforeASplitAreAnsweredOnce) {
  World world;
  // The path of lane 0 continues first. The answer 1 goes to all lanes,
  // 2 and 3 to the negative ones, and 4 to the others.
  EXPECT_THAT(with(world, [] { return vmap(asking)(xs); }), IsNear(where(xs > 0, xs + 4., xs * 2. + 3.)));
  EXPECT_THAT(world.told, ElementsAre(1, 3, 2));
  World again;
  EXPECT_THAT(with(again, [] { return vmap(grad(checkpoint(asking)))(xs); }),
              IsNear(where(xs > 0, ones_like(xs), 2. * ones_like(xs))));
  EXPECT_EQ(again.asked, 4);
  World outside;
  EXPECT_THAT(with(outside, [] { return grad([](T a) { return sum(vmap(checkpoint(asking))(a)); })(xs); }),
              IsNear(where(xs > 0, ones_like(xs), 2. * ones_like(xs))));
  EXPECT_EQ(outside.asked, 4);
}

TEST(PathsEffects, OfLanesThatSplitTwiceAreAnsweredOnce) {
  const auto f = [](T x) {
    if (x < 0) return x * perform(Ask{});
    const double a = perform(Ask{});  // one answer for the lanes that split next
    return bool(x > 2) ? x * a * perform(Ask{}) : -x * a;
  };
  for (const bool again : {false, true}) {
    World world;
    const Tensor ys = with(world, [&] { return again ? vmap(grad(checkpoint(f)))(xs) : vmap(f)(xs); });
    EXPECT_EQ(world.asked, 3);
    const Tensor slope = where(xs < 0, ones_like(xs), where(xs > 2, 6. * ones_like(xs), -2. * ones_like(xs)));
    EXPECT_THAT(ys, IsNear(again ? slope : slope * xs));
  }
}

TEST(PathsEffects, NoncopyableAnswersAreErrorsOnlyIfLanesSplit) {
  World world;
  const auto f = [](T x) {
    const double a = *perform(AskOnce{});
    return bool(x > 0) ? x * a : -x;
  };
  EXPECT_THAT(with(world, [&] { return vmap(f)(abs(xs)); }), IsNear(abs(xs)));
  EXPECT_THAT([&] { with(world, [&] { return vmap(f)(xs); }); },
              ThrowsMessage<TransformError>(AllOf(HasSubstr("AskOnce"), HasSubstr("cannot be copied"))));
}

TEST(PathsEffects, ErrorsAreThrownAgain) {
  struct Refuses : Handles<Ask> {
    int times = 0;
    double handle(Ask&) override { throw std::runtime_error("refused " + std::to_string(++times)); }
  } refuses;
  const auto f = [](T x) {
    double a = 1;
    try {
      a = perform(Ask{});
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "refused 1");
      a = 5;
    }
    return bool(x > 0) ? x * a : x;
  };
  EXPECT_THAT(with(refuses, [&] { return vmap(f)(xs); }), IsNear(where(xs > 0, xs * 5., xs)));
  EXPECT_EQ(refuses.times, 1);
}

// ---- across lanes -------------------------------------------------------------------------------

struct Measure {
  static constexpr AcrossLanes across_lanes = AcrossLanes::each;
  using Result = Tensor;
  Tensor where;
};
// Answers with a field that only the host can compute.
struct Instrument : Handles<Measure> {
  std::vector<double> asked;
  Tensor handle(Measure& measure) override {
    asked.push_back(measure.where.item<double>());
    return tensor(std::exp(asked.back()));
  }
};
struct Evaluate {
  static constexpr AcrossLanes across_lanes = AcrossLanes::together;
  using Result = std::pair<Tensor, Tensor>;
  Tensor at, scale;
};
// Answers many lanes at a time: `at` has rows [..., 2], and `scale` has as many numbers.
struct Server : Handles<Evaluate> {
  std::vector<Index> batches;
  std::pair<Tensor, Tensor> handle(Evaluate& evaluate) override {
    if (evaluate.at.rank() > 1) batches.push_back(evaluate.at.shape(0));
    return {sum(evaluate.at, -1) * evaluate.scale, evaluate.scale * 1.};
  }
};

Tensor measured(T x) { return perform(Measure{x}) * x; }
Tensor measured_by_the_way(T x) {
  const Tensor first = perform(Measure{x});
  if (x > 0) return first + perform(Measure{x * 2.}) * x;
  return bool(x < -1) ? first * 2. : first;
}
Tensor served(T x) {
  const auto [y, scale] = perform(Evaluate{stack({x, x * 3.}), x > 100 ? x : tensor(2.f)});
  return y + scale;
}
Tensor served_by_the_way(T x) {
  const auto [y, scale] = perform(Evaluate{stack({x, x}), x * x});
  return bool(x > 0) ? y : perform(Evaluate{stack({y, x}), x}).first + scale;
}

// `computes` is true if H computes its answer from the tensors that it gets. Transforms inside
// would lose the derivative of such an answer, which is an error.
template <class H, class F>
void expect_loops(F f, bool computes = false) {
  const auto under = [](auto g, T x) { return with(H(), [&] { return g(x); }); };
  EXPECT_THAT(under(vmap(f), xs), IsNear(lane_by_lane([&](T x) { return under(f, x); }, xs)));
  const Tensor rows = reshape(xs, {2, 4});
  EXPECT_THAT(under(vmap(vmap(f)), rows), IsNear(reshape(under(vmap(f), xs), {2, 4})));
  EXPECT_THAT(under(vmap(checkpoint(f)), xs), IsNear(under(vmap(f), xs)));
  if (computes) {
    const auto error = ThrowsMessage<TransformError>(HasSubstr("its derivative would be lost"));
    EXPECT_THAT([&] { under(grad(f), xs[0]); }, error);
    EXPECT_THAT([&] { under(vmap(grad(f)), xs); }, error);
    EXPECT_THAT([&] { under(vmap(grad(checkpoint(f))), xs); }, error);
    return;
  }
  const Tensor slope = lane_by_lane([&](T x) { return under(grad(f), x); }, xs);
  EXPECT_THAT(under(vmap(grad(f)), xs), IsNear(slope));
  EXPECT_THAT(under(vmap(grad(checkpoint(f))), xs), IsNear(slope));
}

TEST(PathsAcrossLanes, PerLaneEffectsAreAskedForEachLane) {
  expect_loops<Instrument>(measured);
  Instrument instrument;
  with(instrument, [] { return vmap(measured)(xs); });
  EXPECT_THAT(instrument.asked, Pointwise(DoubleEq(), xs.to_vector<float>()));
}

TEST(PathsAcrossLanes, OnlyLanesOfThePathAreAsked) {
  expect_loops<Instrument>(measured_by_the_way);
  Instrument instrument;
  // The five positive lanes ask a second time.
  with(instrument, [] { return vmap(measured_by_the_way)(xs); });
  EXPECT_EQ(instrument.asked.size(), 8u + 5u);
}

TEST(PathsAcrossLanes, BatchedEffectsAreAskedAtOnce) {
  expect_loops<Server>(served, true);
  expect_loops<Server>(served_by_the_way, true);
  Server server;
  with(server, [] { return vmap(served)(xs); });
  EXPECT_THAT(server.batches, ElementsAre(8));
  Server parted;
  with(parted, [] { return vmap(served_by_the_way)(xs); });
  EXPECT_THAT(parted.batches, ElementsAre(8, 3));
}

TEST(PathsAcrossLanes, WorkForASingleLane) {
  Instrument instrument;
  EXPECT_THAT(with(instrument, [] { return vmap(measured)(tensor({2.})); }), IsNear(tensor({2 * std::exp(2.)})));
  Server server;
  EXPECT_THAT(with(server, [] { return vmap(served)(tensor({2.})); }), IsNear(tensor({18.})));
}

TEST(PathsAcrossLanes, AnswersOfDifferentShapesAreErrors) {
  struct Grows : Handles<Measure> {
    Index n = 0;
    Tensor handle(Measure&) override { return zeros({++n}); }
  };
  EXPECT_THAT([] { with(Grows(), [] { return vmap(measured)(xs); }); },
              ThrowsMessage<TransformError>(AllOf(HasSubstr("Measure"), HasSubstr("in lanes 0 and 1"))));
  struct Drops : Handles<Evaluate> {
    std::pair<Tensor, Tensor> handle(Evaluate&) override { return {tensor(1.), tensor(1.)}; }
  };
  EXPECT_THAT([] { with(Drops(), [] { return vmap(served)(xs); }); },
              ThrowsMessage<ShapeError>(HasSubstr("must have the 8 lanes as axis 0, but has shape []")));
  EXPECT_THAT([] { with(Instrument(), [] { return vmap(measured)(zeros({0})); }); },
              ThrowsMessage<TransformError>(HasSubstr("there are no lanes")));
}

// By default an effect belongs to no lane. Its tensors pass as they are.
// If the answer is one of these tensors, each path gets that tensor back.
struct Passes {
  using Result = Tensor;
  Tensor x;
};
struct PassesEach {
  static constexpr AcrossLanes across_lanes = AcrossLanes::each;
  using Result = Tensor;
  Tensor x;
};
struct PassesTogether {
  static constexpr AcrossLanes across_lanes = AcrossLanes::together;
  using Result = Tensor;
  Tensor x;
};
struct Gate : Handles<Passes, PassesEach, PassesTogether> {
  Tensor handle(Passes& passes) override { return passes.x; }
  Tensor handle(PassesEach& passes) override { return passes.x; }
  Tensor handle(PassesTogether& passes) override { return passes.x; }
};

template <class P>
void expect_tensors_come_back() {
  const auto f = [](T x) {
    const Tensor y = perform(P{x * 2.});
    return bool(x > 0) ? y * x : bool(x < -2) ? y : -y;
  };
  const auto under = [](auto g, T x) { return with(Gate(), [&] { return g(x); }); };
  EXPECT_THAT(under(vmap(f), xs), IsNear(where(xs > 0, xs * xs * 2., where(xs < -2, xs * 2., xs * -2.))));
  EXPECT_THAT(under(vmap(grad(f)), xs),
              IsNear(where(xs > 0, xs * 4., where(xs < -2, 2. * ones_like(xs), -2. * ones_like(xs)))));
  EXPECT_THAT(under(vmap(vmap(grad(f))), reshape(xs, {2, 4})), IsNear(reshape(under(vmap(grad(f)), xs), {2, 4})));
}

TEST(PathsAcrossLanes, ReturnedTensorsAreTheSameTensors) {
  expect_tensors_come_back<Passes>();
  expect_tensors_come_back<PassesEach>();
  expect_tensors_come_back<PassesTogether>();
}

// ---- values sown on several paths ---------------------------------------------------------------

Tensor sowing(T x) {
  const Scope scope("layer");
  const Tensor before = sow("before", x * 2.);
  const Tensor h = bool(x > 0) ? sow("h", before * x) : sow("h", sin(x));
  const Scope deeper("deeper");
  if (x > 2) return sow("y", -h);
  const Tensor unused = sow("late", tensor(3.f));
  return sow("y", h + unused);
}
Tensor sowing_alike(T x) {
  const Tensor h = bool(x > 0) ? sow("h", x * x) : sow("h", sin(x));
  return bool(x > 2) ? sow("y", -h) : sow("y", h * 3.);
}

template <class F>
void expect_harvest(F f, T at) {
  const auto [result, sown] = harvest(vmap(f))(at);
  EXPECT_THAT(result, IsNear(lane_by_lane(f, at)));
  for (const auto& [name, value] : sown)
    EXPECT_THAT(value, IsNear(lane_by_lane([&, &name = name](T x) { return harvest(f)(x).second.at(name); }, at)))
        << name;
}

TEST(PathsSown, ValuesOfAllPathsAreJoined) {
  expect_harvest(sowing_alike, xs);
  expect_harvest(grad(sowing_alike), xs);
  expect_harvest(checkpoint(sowing_alike), xs);
  expect_harvest(grad(checkpoint(sowing_alike)), xs);
  expect_harvest(vmap(sowing_alike), reshape(xs, {2, 4}));
  expect_harvest(vmap(sowing_alike), reshape(xs, {4, 2}));
  const auto outside = [](T all) { return harvest(vmap(sowing_alike))(all).second.at("y"); };
  EXPECT_THAT(grad([&](T all) { return sum(square(outside(all))); })(xs),
              IsNear(lane_by_lane(grad([](T x) { return square(sowing_alike(x)); }), xs)));
}

TEST(PathsSown, NameMissingInSomeLanesIsAnError) {
  const Tensor few = tensor({-1., 0.5, 1.5});
  const auto [result, sown] = harvest(vmap(sowing))(few);
  ASSERT_EQ(sown.size(), 4u);
  EXPECT_THAT(sown.at("layer/before"), IsNear(few * 2.));
  EXPECT_THAT(sown.at("layer/h"), IsNear(where(few > 0, few * few * 2., sin(few))));
  EXPECT_THAT(sown.at("layer/deeper/late"), IsNear(3. * ones({3})));
  EXPECT_THAT(
      [] { harvest(vmap(sowing))(xs); },
      ThrowsMessage<TransformError>(AllOf(HasSubstr("\"layer/deeper/late\""), HasSubstr("but not by lanes 4, 6"))));
}

TEST(PathsSown, Errors) {
  const auto twice = [](T x) {
    if (x > 0) sow("h", x);
    return sow("h", x);
  };
  EXPECT_THAT([&] { harvest(vmap(twice))(xs); }, ThrowsMessage<Error>(HasSubstr("\"h\" is sown twice")));
  const auto shapes = [](T x) { return bool(x > 0) ? sow("h", x) : sum(sow("h", stack({x, x}))); };
  EXPECT_THAT([&] { harvest(vmap(shapes))(xs); }, ThrowsMessage<ShapeError>(HasSubstr("sow: \"h\" is float32 [2]")));
  EXPECT_THAT(
      [] {
        plant(vmap(sowing_alike), {{"h", xs}})(xs);
      },
      ThrowsMessage<TransformError>(HasSubstr("\"h\" is sown where lanes of vmap have split")));
}

}  // namespace
