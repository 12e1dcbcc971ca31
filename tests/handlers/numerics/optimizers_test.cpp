// Optimizers and schedules against Optax's figures (tests/data/optimizers.csv),
// under transforms, and in edge cases.

#include <map>
#include <memory>

#include <stave/stave.h>

#include "matchers.h"
#include "rows_by_name.h"

namespace optimizers_test {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

using T = const Tensor&;

struct Parameters {
  Tensor w, b;
};

Parameters start(Dtype dtype) {
  return {tensor({{0.5, 1.0, -0.3}, {2.0, 0.1, -0.7}}, dtype), tensor({0.9, -1.1, 0.4}, dtype)};
}

Tensor loss(const Parameters& p) {
  const Tensor aim = tensor({{1.0, -2.0, 0.5}, {0.0, 3.0, -1.0}}, p.w.dtype());
  const Tensor weight = tensor({{1.0, 0.1, 5.0}, {0.5, 2.0, 0.01}}, p.w.dtype());
  return 0.5 * sum(weight * square(p.w - aim)) + 0.25 * sum(square(square(p.b))) + sum(p.w(0) * p.b);
}

template <class Optimizer, class Clip>
Parameters trained(const Optimizer& optimizer, Clip clip, Parameters p, int steps = 100) {
  auto state = optimizer.init(p);
  for (int i = 0; i < steps; ++i) std::tie(p, state) = optimizer.update(p, clip(grad(loss)(p)), state);
  EXPECT_THAT(state.step, Equals(tensor(steps)));
  return p;
}

const auto as_it_is = [](const Parameters& gradient) { return gradient; };

template <class Optimizer, class Clip>
void expect_optax(const std::string& name, const Optimizer& optimizer, Clip clip) {
  static const auto figures = rows_by_name("optimizers.csv");
  for (const Dtype dtype : {float64, float32}) {
    const std::string row = name + " " + name_of(dtype);
    ASSERT_TRUE(figures.contains(row)) << row;
    const Tensor all = from(figures.at(row));
    const Parameters p = trained(optimizer, clip, start(dtype));
    // The tolerance covers the rounding errors of a hundred steps.
    const double tolerance = dtype == float64 ? 1e-13 : 2e-5;
    EXPECT_THAT(p.w, IsNear(astype(reshape(all(slice(6)), {2, 3}), dtype), tolerance)) << row;
    EXPECT_THAT(p.b, IsNear(astype(all(slice(6, none)), dtype), tolerance)) << row;
  }
}

TEST(Optimizers, EqualOptaxOverAHundredSteps) {
  expect_optax("sgd", sgd({.learning_rate = 0.05}), as_it_is);
  expect_optax("sgd linear", sgd({.learning_rate = linear_schedule(0.1, 0.01, 60, 5)}), as_it_is);
  expect_optax("momentum", momentum({.learning_rate = 0.02}), as_it_is);
  expect_optax("nesterov", momentum({.learning_rate = 0.02, .decay = 0.8, .nesterov = true}), as_it_is);
  expect_optax("adam", adam({.learning_rate = 0.1}), as_it_is);
  expect_optax("adam warmup",
               adam({.learning_rate = warmup_cosine_schedule(0.01, 0.3, 10, 80, 0.02),
                     .beta1 = 0.8,
                     .beta2 = 0.99,
                     .epsilon = 1e-6}),
               as_it_is);
  expect_optax("adamw", adamw({.learning_rate = 0.05, .weight_decay = 0.1}), as_it_is);
  expect_optax("adamw masked",
               adamw({.learning_rate = exponential_schedule(0.1, 20, 0.5),
                      .weight_decay = 0.1,
                      .decays = [](T x) { return x.rank() > 1; }}),
               as_it_is);
  expect_optax("lamb", lamb({.learning_rate = 0.02, .weight_decay = 0.05}), as_it_is);
  expect_optax("clipped by norm", sgd({.learning_rate = 0.1}),
               [](const Parameters& g) { return clip_by_global_norm(g, 1.5); });
  expect_optax("clipped by value", adam({.learning_rate = 0.1}),
               [](const Parameters& g) { return clip_by_value(g, 0.7); });
}

TEST(Schedules, EqualOptax) {
  const auto figures = rows_by_name("optimizers.csv");
  const std::vector<int> steps = {0, 1, 4, 5, 6, 10, 19, 20, 21, 49, 50, 80, 200};
  const std::map<std::string, Schedule> schedules = {
      {"linear", linear_schedule(0.1, 0.01, 60, 5)},
      {"cosine", cosine_schedule(0.3, 70, 0.1, 1.5)},
      {"warmup cosine", warmup_cosine_schedule(0.01, 0.3, 10, 80, 0.02)},
      {"exponential", exponential_schedule(0.1, 20, 0.5, {.begin = 10})},
      {"staircase", exponential_schedule(0.1, 20, 0.5, {.begin = 10, .staircase = true, .end = 0.03})},
      {"piecewise", piecewise_schedule(0.5, {{5, 0.5}, {50, 0.1}})},
      {"joined", joined_schedule({0.2, linear_schedule(0.2, 0, 30)}, {20})},
  };
  for (const auto& [name, schedule] : schedules)
    for (std::size_t i = 0; i < steps.size(); ++i)
      EXPECT_NEAR(schedule(tensor(steps[i])).item<double>(), figures.at(name)[i], 1e-15) << name << " at " << steps[i];
}

TEST(Schedules, MayBeFunctionsAndTensors) {
  const Schedule halves = [](T step) { return pow(0.5, astype(step, float32)); };
  EXPECT_THAT(halves(tensor(3)), IsNumber(0.125));
  EXPECT_THAT(Schedule(tensor(0.3))(tensor(7)), IsNumber(0.3));
  EXPECT_THAT(Schedule(2)(tensor(7)), IsNumber(2));
}

TEST(Schedules, RefuseInvalidArguments) {
  EXPECT_THAT([] { Schedule(ones({3}))(tensor(0)); },
              ThrowsMessage<ShapeError>(HasSubstr("a schedule gave shape [3]")));
  EXPECT_THAT([] { Schedule([](T) { return Tensor(); })(tensor(0)); },
              ThrowsMessage<ShapeError>(HasSubstr("a schedule gave an empty Tensor")));
  EXPECT_THAT([] { linear_schedule(1, 0, 0); }, ThrowsMessage<Error>(HasSubstr("linear_schedule: 0 steps")));
  EXPECT_THAT([] { cosine_schedule(1, -1); }, ThrowsMessage<Error>(HasSubstr("cosine_schedule: -1 steps")));
  EXPECT_THAT([] { warmup_cosine_schedule(0, 1, 10, 10); },
              ThrowsMessage<Error>(HasSubstr("10 steps, 10 of which are for warming up")));
  EXPECT_THAT([] { exponential_schedule(1, 10, 0); }, ThrowsMessage<Error>(HasSubstr("rate 0 is not positive")));
  EXPECT_THAT(
      [] {
        joined_schedule({1., 2.}, {});
      },
      ThrowsMessage<ShapeError>(HasSubstr("2 schedules and 0 boundaries")));
}

// ---- transforms ---------------------------------------------------------------------------------

// Returns the loss after `steps` steps as a function of the learning rate.
template <class Make>
auto after_training(Make make, int steps) {
  return [=](T rate) { return loss(trained(make(rate), as_it_is, start(float64), steps)); };
}

template <class Make>
void expect_meta_gradient(Make make) {
  const auto f = after_training(make, 5);
  const Tensor rate = tensor(0.03, float64), one = tensor(1., float64);
  const double h = 1e-5,
               central = (f(rate + h).template item<double>() - f(rate - h).template item<double>()) / (2 * h);
  EXPECT_THAT(grad(f)(rate), IsNumber(central, 1e-7));
  EXPECT_THAT(jvp(f, rate, one).second, IsNumber(central, 1e-7));
  const Tensor rates = tensor({0.01, 0.03, 0.1}, float64), losses = vmap(f)(rates);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(losses(i), IsNear(f(rates(i)), 1e-14));
}

TEST(Optimizers, CanBeDifferentiatedByTheRateAndVmapped) {
  expect_meta_gradient([](T rate) { return sgd({.learning_rate = rate}); });
  expect_meta_gradient([](T rate) { return momentum({.learning_rate = rate, .nesterov = true}); });
  expect_meta_gradient([](T rate) { return adam({.learning_rate = rate}); });
  expect_meta_gradient([](T rate) { return adamw({.learning_rate = 0.1, .weight_decay = rate}); });
  expect_meta_gradient([](T rate) { return lamb({.learning_rate = rate}); });
}

// The second moment starts at 0, where sqrt has an infinite derivative.
TEST(Optimizers, HaveFiniteMetaGradientsWhereGradientsAreZero) {
  const auto moved = [](T x) {
    const auto optimizer = adam({.learning_rate = 0.1});
    return sum(optimizer.update(x, 0 * x, optimizer.init(x)).first);
  };
  EXPECT_THAT(grad(moved)(ones({2})), Equals(ones({2})));
}

// ---- trees and dtypes ---------------------------------------------------------------------------

struct Model {
  std::vector<Tensor> layers;
  Tensor ids;
  int depth = 2;
};

TEST(Optimizers, DoNotChangeNonfloatMembers) {
  const Model model{{ones({2}), tensor({2.}, float16)}, tensor({1, 2}), 7};
  const Model gradient{{ones({2}), tensor({1.}, float16)}, zeros({2}, int32), 0};
  const auto optimizer = adamw({.learning_rate = 0.5});
  auto [next, state] =
      optimizer.update(model, clip_by_value(clip_by_global_norm(gradient, 100), 1), optimizer.init(model));
  EXPECT_EQ(next.depth, 7);
  EXPECT_THAT(next.ids, Equals(model.ids));
  EXPECT_THAT(next.layers[0], IsNear(full({2}, 0.49995f)));
  EXPECT_EQ(next.layers[1].dtype(), float16);
  EXPECT_EQ(state.mean.layers[1].dtype(), float32);
  EXPECT_THAT(sgd({.learning_rate = 1}).update(gradient, model, {tensor(0)}).first.ids, Equals(gradient.ids));
}

struct Owning {
  std::unique_ptr<Tensor> w;
  std::map<std::string, Tensor> others;
};

TEST(Optimizers, AcceptNoncopyableTrees) {
  Owning tree{std::make_unique<Tensor>(ones({2})), {{"b", ones({})}}};
  const Owning gradient{std::make_unique<Tensor>(ones({2})), {{"b", ones({})}}};
  const auto adaptive = adam({.learning_rate = 0.5});
  auto state = adaptive.init(tree);
  std::tie(tree, state) = adaptive.update(tree, gradient, state);
  const auto moving = momentum({.learning_rate = 0.25});
  tree = moving.update(tree, gradient, moving.init(tree)).first;
  tree = sgd({.learning_rate = 0.25}).update(tree, clip_by_value(gradient, 1), sgd().init(tree)).first;
  EXPECT_THAT(*tree.w, IsNear(zeros({2})));
  EXPECT_THAT(tree.others["b"], IsNear(zeros({})));
}

// In float16 every step would be rounded away, because 1 - 2^-12 rounds to 1.
TEST(Optimizers, KeepMomentsOfHalfFloatsInFloat32) {
  Tensor x = ones({1}, float16);
  const auto optimizer = momentum({.learning_rate = 1, .decay = 1});
  auto state = optimizer.init(x);
  for (int i = 0; i < 4; ++i) std::tie(x, state) = optimizer.update(x, full({1}, 0x1p-14, float16), state);
  EXPECT_THAT(state.velocity, Equals(full({1}, 0x1p-12f)));
}

TEST(Optimizers, RefuseGradientsOfOtherShapes) {
  const auto optimizer = adam();
  EXPECT_THAT([&] { optimizer.update(ones({3}), ones({2}), optimizer.init(ones({3}))); },
              ThrowsMessage<ShapeError>(HasSubstr("adam: a parameter has shape [3], its gradient [2]")));
  const std::vector<Tensor> two(2, ones({1})), one(1, ones({1}));
  EXPECT_THAT([&] { sgd().update(two, one, sgd().init(two)); }, ThrowsMessage<ShapeError>(HasSubstr("tree_map")));
}

TEST(Clipping, KeepsSmallGradientsAndBoundsLargeOnes) {
  const std::vector<Tensor> tree{tensor({3., 0.}), tensor({{4.}})};
  EXPECT_THAT(clip_by_global_norm(tree, 5)[0], Equals(tree[0]));
  EXPECT_THAT(clip_by_global_norm(tree, 10)[1], Equals(tree[1]));
  EXPECT_THAT(clip_by_global_norm(tree, tensor(1.))[0], IsNear(tensor({0.6, 0.})));
  EXPECT_THAT(clip_by_value(tree, 3.5)[1], Equals(tensor({{3.5}})));
  EXPECT_THAT(clip_by_value(tree, tensor(2.))[0], Equals(tensor({2., 0.})));
  EXPECT_THAT(clip_by_global_norm(std::vector<Tensor>{zeros({2})}, 1)[0], Equals(zeros({2})));
  EXPECT_THAT(clip_by_global_norm(std::vector<Tensor>{}, 1), testing::IsEmpty());
  const Tensor large = full({4}, 4e4, float16);  // The norm is beyond the range of float16.
  EXPECT_THAT(clip_by_global_norm(large, 2), Equals(ones({4}, float16)));
  const auto clipped_sum = [](T x) { return sum(clip_by_global_norm(x, 1)); };
  EXPECT_THAT(grad(clipped_sum)(zeros({3})), Equals(ones({3})));
  check_grads(clipped_sum, tensor({3., 4.}, float64));
}

}  // namespace optimizers_test
