// compile with effects, under transforms: derivatives and lanes of compiled functions perform the
// same effects as those of the functions.
#include <string>

#include <stave/stave.h>

#include "compile_effects.h"
#include "matchers.h"
#include "programs.h"

namespace {

using namespace stave;
using namespace stave_test;

const Tensor x = tensor({1., 2., 3.});
const Tensor lanes = tensor({{1., 2., 3.}, {0.5, -1., 2.}});

// Returns true if a transform traces the derivative or the lanes of `a`.
bool is_followed(const Tensor& a) {
  for (const Note* note = a.node().notes; note; note = note->next)
    if (note->live() && note->owner->differentiates) return true;
  return !a.node().storage;
}

/// Expects `transform` of the compiled f to equal `transform` of f, with the same effects, at each
/// of three calls.
template <class F, class Transform, class Under>
void expect_same_under(F f, Transform transform, const Tensor& at, Under under) {
  const auto compiled = compile(f);
  for (int i = 1; i < 4; ++i) {
    const auto [wanted, wanted_effects] = under([&] { return transform(f)(at * i); });
    const auto [found, effects] = under([&] { return transform(compiled)(at * i); });
    EXPECT_THAT(found, IsNear(wanted));
    EXPECT_EQ(effects, wanted_effects);
  }
}

TEST(CompileEffects, DerivativesAndLanesPerformEffectsOnce) {
  bool inside = false;
  const auto answered = [&](const auto& body) {
    std::vector<std::string> happened;
    auto rates = by<Rate>([&](Rate&) { return happened.push_back("rate"), 0.5; });
    auto weights = by<Weights>([&](Weights& it) { return happened.push_back(it.name), x * 0.1; });
    // Logs whether a transform outside the function traces the value.
    auto logs =
        by<Log>([&](Log& it) { happened.push_back(it.name + (!inside && is_followed(it.value) ? ", followed" : "")); });
    auto through = by<Through>([&](Through& it) { return happened.push_back("through"), it.value; });
    const Tensor found =
        with(rates, [&] { return with(weights, [&] { return with(logs, [&] { return with(through, body); }); }); });
    return std::pair(found, happened);
  };
  const auto grads = [](auto f) { return grad(f); };
  const auto tangents = [](auto f) {
    return [f](const Tensor& a) { return jvp(f, std::tuple(a), std::tuple(a * 2.)).second; };
  };
  const auto in_lanes = [](auto f) { return vmap(f); };
  const auto each_grad = [](auto f) { return vmap(grad(f)); };
  const auto under_all = [&](auto f) {
    expect_same_under(f, grads, x, answered);
    expect_same_under(f, tangents, x, answered);
    expect_same_under(f, in_lanes, lanes, answered);
    expect_same_under(f, each_grad, lanes, answered);
    inside = true;
    expect_same_under([f](const Tensor& a) { return grad(f)(a); }, [](auto g) { return g; }, x, answered);
    inside = false;
  };
  under_all(
      [](const Tensor& a) { return sum(sin(a) * perform(Weights{"w"}) * perform(Rate{}) * perform(Weights{"v"})); });
  under_all([](const Tensor& a) {
    const Tensor y = sin(a) * perform(Rate{});
    perform(Log{"y", y});
    return sum(y * perform(Weights{"w"}));
  });
  under_all([](const Tensor& a) {
    const Tensor y = sin(a) * perform(Weights{"w"});
    perform(Log{"y", y});
    return sum(y * a);
  });
  under_all([](const Tensor& a) { return sum(sin(a) * perform(Weights{"w"}) + perform(Through{a * a})); });
  under_all(
      [](const Tensor& a) { return sum(checkpoint([](const Tensor& b) { return sin(b) * perform(Rate{}); })(a)); });
  // The backward pass runs the checkpoint again after the call is over.
  under_all([](const Tensor& a) {
    const Tensor y = a * perform(Rate{});
    return sum(checkpoint([](const Tensor& b) { return sin(b) * perform(Weights{"w"}); })(y));
  });
  // The exception that ends a recording is not an error of the function.
  under_all([](const Tensor& a) {
    try {
      return sum(perform(Through{a * a}));
    } catch (...) {
      return sum(a);
    }
  });
}

TEST(CompileEffects, RecordingUnderATransformIsReused) {
  int runs = 0;
  const auto f = compile([&](const Tensor& a) {
    ++runs;
    const Tensor y = sum(sin(a) * perform(Weights{"w"}) * perform(Rate{}));
    perform(Log{"y", y});
    return y;
  });
  double logged = 0;
  auto rates = by<Rate>([](Rate&) { return 0.5; });
  auto weights = by<Weights>([](Weights&) { return x; });
  auto logs = by<Log>([&](Log& it) { logged = it.value.item<double>(); });
  for (int i = 1; i < 4; ++i) {
    const Tensor a = x * i;
    const Tensor found =
        with(rates, [&] { return with(weights, [&] { return with(logs, [&] { return grad(f)(a); }); }); });
    EXPECT_THAT(found, IsNear(cos(a) * x * 0.5));
    EXPECT_FLOAT_EQ(static_cast<float>(logged), sum(sin(a) * x * 0.5).item<float>());
  }
  EXPECT_EQ(runs, 1);
}

TEST(CompileEffects, AnswersThatATransformTracesKeepTheirDerivatives) {
  // The handler runs inside grad: its answers depend on the differentiated value.
  const auto body = [](const Tensor& a) { return sum(sin(a) * perform(Weights{"w"}) * perform(Weights{"w"})); };
  const auto compiled = compile(body);
  const auto loss = [](const auto& f) {
    return [&f](const Tensor& w) {
      auto handler = by<Weights>([&](Weights&) { return w; });
      return with(handler, [&] { return f(x) + f(w); });
    };
  };
  auto constant = by<Weights>([](Weights&) { return x; });
  for (int i = 1; i < 4; ++i) {
    const Tensor w = x * (0.5 * i);
    EXPECT_THAT(grad(loss(compiled))(w), IsNear(grad(loss(body))(w)));
    EXPECT_THAT(jacfwd(loss(compiled))(w), IsNear(jacfwd(loss(body))(w)));
    EXPECT_THAT(hessian(loss(compiled))(w), IsNear(hessian(loss(body))(w)));
    EXPECT_THAT(vmap(loss(compiled))(lanes * i), IsNear(vmap(loss(body))(lanes * i)));
    EXPECT_THAT(vmap(grad(loss(compiled)))(lanes * i), IsNear(vmap(grad(loss(body)))(lanes * i)));
    EXPECT_THAT(with(constant, [&] { return compiled(w); }), Is(with(constant, [&] { return body(w); })));
    EXPECT_THAT(with(constant, [&] { return grad(compiled)(w); }),
                IsNear(with(constant, [&] { return grad(body)(w); })));
  }
}

TEST(CompileEffects, SideExitUnderATransformRepeatsNoEffect) {
  const auto body = [](const Tensor& a) {
    const double rate = perform(Rate{});
    const Tensor y = a * perform(Weights{"w"});
    return sum(y).item<float>() > 20 ? sum(y * rate) : sum(y * y * perform(Rate{}));
  };
  const auto compiled = compile(body);
  auto rates = by<Rate>([](Rate&) { return 0.5; });
  auto weights = by<Weights>([](Weights&) { return x; });
  for (const double scale : {1., 2., 1., 3., 2.}) {
    const auto call = [&](const auto& f) {
      return with(rates, [&] { return with(weights, [&] { return grad(f)(x * scale); }); });
    };
    const Tensor wanted = call(body);
    const int rated = std::exchange(rates.asked, 0), weighed = std::exchange(weights.asked, 0);
    EXPECT_THAT(call(compiled), IsNear(wanted));
    EXPECT_EQ(std::exchange(rates.asked, 0), rated);
    EXPECT_EQ(std::exchange(weights.asked, 0), weighed);
  }
}

}  // namespace
