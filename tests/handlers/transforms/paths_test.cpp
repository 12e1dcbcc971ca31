// Control flow on lanes' values: vmap of many functions against a loop over the lanes, in every
// nest of transforms.
#include <array>
#include <sstream>
#include <thread>

#include <stave/stave.h>

#include "lanes.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using T = const Tensor&;

// ---- functions of a number, with control flow ---------------------------------------------------

Tensor branch(T x) {
  if (x > 0) return x * x * x;
  return -2. * sin(x);
}
Tensor nested_branch(T x) {
  const Tensor y = x * 1.5;
  if (bool(y > 0)) return bool(y > 2) ? exp(-y) * x : y * y;
  return bool(x < -1) ? cos(y) : y * x;
}
Tensor heron(T x) {  // sqrt(|x| + 1)
  const Tensor a = abs(x) + 1.;
  Tensor root = a;
  while (bool(abs(root * root - a) > 1e-6 * a)) root = 0.5 * (root + a / root);
  return root;
}
Tensor power(T x, int n) { return n == 0 ? ones_like(x) : x * power(x, n - 1); }
Tensor recursive(T x) { return power(x, 1 + static_cast<int>(abs(x).item<double>())); }
Tensor by_item(T x) { return x * x.item<double>() + sin(x); }
Tensor by_vector(T x) {
  const Tensor pair = stack({floor(x), floor(x / 2.)});
  const std::vector<double> read = stop_gradient(pair).to_vector<double>();
  return read[0] > read[1] ? x * x : x / 3.;
}
Tensor by_data(T x) {
  const Tensor kept = stop_gradient(floor(x));
  const std::span<const double> first = kept.data<double>();
  const Tensor y = bool(x > 1) ? x * 2. : x;
  return y * first[0] + x;  // the span is still valid
}
Tensor late(T x) {  // many values are computed and released before lanes split
  Tensor y = x;
  for (int i = 0; i < 20; ++i) y = sin(y) + 0.5 * x;
  const Tensor kept = y * x;
  y = Tensor();
  const Tensor z = bool(kept > 0.5) ? kept * x : kept + exp(kept);
  return bool(z > 1) ? z * kept : z - x;
}
Tensor reread(T x) {  // reads one value several times
  const Tensor positive = x > 0, large = abs(x) > 1.5;
  Tensor y = x;
  for (int i = 0; i < 3; ++i) {
    if (positive) y = y * x;
    if (large) y = y - 0.1 * x;
    else if (positive) y = y + sin(x);
  }
  return y;
}
Tensor labelled(T x) {
  const Tensor y = label(x * x, "square"), flag = label(y > 1, "flag");
  return bool(flag) ? label(y * x, "cube") : y;
}
Tensor inner_vmap(T x) {  // lanes within a lane, which split as well
  const Tensor rows = stack({x, -x, x * 2.});
  return sum(vmap([&](T y) { return bool(y > x) ? y * y : y * x; })(rows));
}
Tensor gradient_inside(T x) {
  const Tensor slope = grad([&](T y) { return bool(y > 0.5) ? y * y * x : sin(y) * x; })(x);
  return bool(slope > 1) ? slope : slope * x;
}
auto checkpointed_part(T x) {
  return checkpoint([x](T y) { return bool(y > 0.3) ? y * sin(x) : y * y + x; });
}
Tensor checkpointed(T x) {
  const auto f = checkpointed_part(x);
  return f(x) * f(x * x);
}
// In the backward pass, lanes split first at the second checkpoint.
Tensor checkpointed_first(T x) {
  const auto f = checkpointed_part(x);
  const Tensor first = f(x), second = f(x * x);
  return first * second;
}
Tensor checkpointed_last(T x) {
  const auto f = checkpointed_part(x);
  const Tensor second = f(x * x), first = f(x);
  return first * second;
}
Tensor checkpointed_captured(T x) {  // the checkpoint returns a captured value for some lanes
  const Tensor cube = x * x * x;
  const auto f = checkpoint([x, cube](T y) { return bool(y > 0.3) ? cube : bool(y > -1) ? y * x : x; });
  const Tensor first = f(x), second = f(x * x), third = f(-x);
  return first * second + third * cube;
}
Tensor by_rule(T x) {
  const auto straight = custom_vjp([](T y) { return bool(y > 0) ? floor(y) : ceil(y); },
                                   [](T y) { return std::pair(bool(y > 0) ? floor(y) : ceil(y), y); },
                                   [](T y, T g) { return bool(y > 1) ? g * 2. : g; });
  return straight(x * 2.) * x;
}
Tensor replayed(T x) {
  return loop(6, [](T y) { return bool(y > 1) ? 0.5 * y : y * 1.7 + 0.1; })(x);
}

// ---- errors that some lanes catch ---------------------------------------------------------------

Tensor number(T x) { return astype(floor(abs(x)), int32); }
const Tensor two = tensor({1., 2.}, float64);
Tensor of_two(T x) { return take(two, number(x)); }  // throws from 2 on
Tensor definite(T x) { return cholesky(stack({stack({x, x * 0.1}), stack({x * 0.1, x + 1.})})); }

Tensor caught(T x) {
  try {
    return 10. * of_two(x) * x;
  } catch (const IndexError&) {
    return sin(x);
  }
}
// Values that were computed before the error, inside and outside the block, are used afterwards.
Tensor caught_after(T x) {
  const Tensor y = cos(x);
  Tensor z = x, last;
  try {
    z = z * y;
    last = exp(z) * x;
    z = z + of_two(x);
  } catch (const IndexError&) {
    z = z * 3. + last;
  }
  return z * y + x;
}
Tensor tried_again(T x) {  // tries again with a larger diagonal
  for (double e = 0;; e += 0.8) try {
      return sum(definite(x + e)) * (1. + e);
    } catch (const LinalgError&) {
    }
}
Tensor caught_by_type(T x) {
  try {
    const Tensor factor = bool(x > 2) ? x : sum(definite(x));
    return factor * of_two(x * 2.);
  } catch (const IndexError&) {
    return x * x;
  } catch (const LinalgError&) {
    return x * 3.;
  }
}
Tensor caught_in_a_loop(T x) {
  Tensor y = x;
  for (int i = 0; i < 4; ++i) try {
      y = y + of_two(y + 0.2 * i) * 0.4 * x;
    } catch (const Error&) {
      y = y * 0.5;
    }
  return y;
}
Tensor caught_in_a_catch(T x) {
  try {
    return of_two(x) * x;
  } catch (const IndexError&) {
    try {
      return of_two(x - 1.) * x * x;
    } catch (const IndexError&) {
      return cos(x);
    }
  }
}
Tensor thrown_for_all(T x) {
  Tensor y = x;
  try {
    y = y * of_two(abs(x) + 5.);
  } catch (const IndexError&) {
    y = y * sin(x);
  }
  return bool(x > 0) ? y : y * 2.;
}
Tensor caught_and_parted(T x) {
  Tensor y = x;
  try {
    if (x > 0) y = y * of_two(x);
    else y = y * sum(definite(x + 1.));
    if (y > 1) y = sin(y);
  } catch (const Error&) {
    y = y + x * x;
  }
  return bool(y > 0.5) ? y * x : y;
}
Tensor caught_unused(T x) {  // the value is not used, only the error
  try {
    of_two(x);
    return x * 2.;
  } catch (const IndexError&) {
    return x * x;
  }
}
Tensor caught_in_a_checkpoint(T x) {
  return checkpoint([x](T y) { return caught(y) * x + caught_in_a_catch(x); })(x * 1.1) * x;
}
Tensor caught_around_a_checkpoint(T x) {
  const Tensor y = sin(x);
  try {
    return checkpoint([x, y](T z) { return of_two(z) * exp(z) + y * x; })(x) * y;
  } catch (const IndexError&) {
    return y * x;
  }
}
// Lanes split inside the checkpoint. Each path throws an exception of another type.
Tensor caught_around_parts(T x) {
  try {
    return checkpoint([](T y) { return bool(y > 0.3) ? of_two(y) * y : sum(definite(y + 0.5)) * y; })(x) + x;
  } catch (const IndexError&) {
    return x * x;
  } catch (const LinalgError&) {
    return x * 5.;
  }
}
Tensor caught_around_a_rule(T x) {
  const auto halved =
      custom_vjp([](T y) { return of_two(y) * y; }, [](T y) { return std::pair(of_two(y) * y, of_two(y)); },
                 [](T slope, T g) { return g * slope; });
  try {
    return halved(x) * x;
  } catch (const IndexError&) {
    return x * 0.25;
  }
}
Tensor caught_around_tangents(T x) {
  const auto rule =
      custom_jvp([](T y) { return of_two(y) * y; }, [](T y, T dy) { return std::pair(of_two(y) * y, of_two(y) * dy); });
  try {
    return rule(x) * x;
  } catch (const IndexError&) {
    return x * 0.25;
  }
}
Tensor caught_around_a_gradient(T x) {
  try {
    return grad([](T y) { return caught(y) * of_two(y - 0.5) * y; })(x) * x;
  } catch (const IndexError&) {
    return x * x;
  }
}
Tensor caught_in_lanes(T x) {
  return sum(vmap([&](T y) {
    try {
      return of_two(y) * x * y;
    } catch (const IndexError&) {
      return y * x;
    }
  })(stack({x, -x * 0.5, x * 2.})));
}
Tensor caught_around_lanes(T x) {
  try {
    return sum(vmap([&](T y) { return of_two(y) * x; })(stack({x, -x * 0.5, x + 0.2})));
  } catch (const IndexError&) {
    return x * x * 3.;
  }
}
Tensor caught_of_all_kinds(T x) {
  Tensor y = x;
  for (const double step : {0.3, 1.1}) {
    const auto part = checkpoint([step](T z) { return bool(z > step) ? caught(z) : of_two(z * 1.4) * z; });
    try {
      y = part(y + step) * 0.7;
    } catch (const IndexError&) {
      y = caught_in_a_loop(y);
    }
  }
  return y;
}

using Function = Tensor (*)(T);
struct Named {
  const char* name;
  Function f;
  bool differentiable_twice = true;
};
const std::array functions{Named{"branch", branch},
                           Named{"nested_branch", nested_branch},
                           Named{"heron", heron},
                           Named{"recursive", recursive},
                           Named{"by_item", by_item},
                           Named{"by_vector", by_vector},
                           Named{"by_data", by_data},
                           Named{"late", late},
                           Named{"reread", reread},
                           Named{"labelled", labelled},
                           Named{"inner_vmap", inner_vmap},
                           Named{"gradient_inside", gradient_inside},
                           Named{"checkpointed", checkpointed},
                           Named{"checkpointed_first", checkpointed_first},
                           Named{"checkpointed_last", checkpointed_last},
                           Named{"checkpointed_captured", checkpointed_captured},
                           Named{"by_rule", by_rule, false},
                           Named{"replayed", replayed},
                           Named{"caught", caught},
                           Named{"caught_after", caught_after},
                           Named{"tried_again", tried_again},
                           Named{"caught_by_type", caught_by_type},
                           Named{"caught_in_a_loop", caught_in_a_loop},
                           Named{"caught_in_a_catch", caught_in_a_catch},
                           Named{"thrown_for_all", thrown_for_all},
                           Named{"caught_and_parted", caught_and_parted},
                           Named{"caught_unused", caught_unused},
                           Named{"caught_in_a_checkpoint", caught_in_a_checkpoint},
                           Named{"caught_around_a_checkpoint", caught_around_a_checkpoint},
                           Named{"caught_around_parts", caught_around_parts},
                           Named{"caught_around_a_rule", caught_around_a_rule, false},
                           Named{"caught_around_tangents", caught_around_tangents},
                           Named{"caught_around_a_gradient", caught_around_a_gradient},
                           Named{"caught_in_lanes", caught_in_lanes},
                           Named{"caught_around_lanes", caught_around_lanes},
                           Named{"caught_of_all_kinds", caught_of_all_kinds}};

const Tensor xs = tensor({-2.3, 0.4, 1.7, -0.6, 3.2, 0.4, -0.2, 2.1}, float64);

class Paths : public testing::TestWithParam<Named> {};
INSTANTIATE_TEST_SUITE_P(, Paths, testing::ValuesIn(functions), [](const auto& tested) { return tested.param.name; });

TEST_P(Paths, EqualALoopOverLanes) {
  const Function f = GetParam().f;
  EXPECT_THAT(vmap(f)(xs), IsNear(lane_by_lane(f, xs)));
  // Only one lane.
  EXPECT_THAT(vmap(f)(xs[slice(2, 3)]), IsNear(lane_by_lane(f, xs[slice(2, 3)])));
  // No lane splits off.
  EXPECT_THAT(vmap(f)(full({5}, 0.7, float64)), IsNear(lane_by_lane(f, full({5}, 0.7, float64))));
}

TEST_P(Paths, EqualALoopUnderAndAboveDerivatives) {
  const Function f = GetParam().f;
  const Tensor gradients = lane_by_lane(grad(f), xs);
  EXPECT_THAT(vmap(grad(f))(xs), IsNear(gradients));
  EXPECT_THAT(grad([&](T all) { return sum(vmap(f)(all)); })(xs), IsNear(gradients));
  const auto tangent = [&](T x) { return jvp(f, x, 2. * x).second; };
  EXPECT_THAT(vmap(tangent)(xs), IsNear(lane_by_lane(tangent, xs)));
  EXPECT_THAT(jvp([&](T all) { return vmap(f)(all); }, xs, 2. * xs).second, IsNear(lane_by_lane(tangent, xs)));
  const auto [ys, pullback] = vjp([&](T all) { return vmap(f)(all); }, xs);
  for (int i = 0; i < 2; ++i) EXPECT_THAT(std::get<0>(pullback(ones_like(ys))), IsNear(gradients));
  const auto [line, linear] = linearize([&](T all) { return vmap(f)(all); }, xs);
  EXPECT_THAT(linear(2. * xs), IsNear(lane_by_lane(tangent, xs)));
}

TEST_P(Paths, SecondDerivativesEqualALoop) {
  if (!GetParam().differentiable_twice) GTEST_SKIP() << "its rule reads what it would differentiate";
  const Function f = GetParam().f;
  const auto second = grad(grad(f));
  const Tensor expected = lane_by_lane(second, xs);
  EXPECT_THAT(vmap(second)(xs), IsNear(expected, 1e-10));
  EXPECT_THAT(vmap(hessian(f))(xs), IsNear(expected, 1e-10));
  EXPECT_THAT(grad([&](T all) { return sum(vmap(grad(f))(all)); })(xs), IsNear(expected, 1e-10));
  EXPECT_THAT(grad([&](T all) { return sum(grad([&](T a) { return sum(vmap(f)(a)); })(all)); })(xs),
              IsNear(expected, 1e-10));
  EXPECT_THAT(vmap([&](T x) { return jvp(grad(f), x, ones_like(x)).second; })(xs), IsNear(expected, 1e-10));
}

TEST_P(Paths, NestedVmapEqualsALoop) {
  const Function f = GetParam().f;
  const Tensor grid = reshape(xs, {2, 4});
  EXPECT_THAT(vmap(vmap(f))(grid), IsNear(reshape(lane_by_lane(f, xs), {2, 4})));
  EXPECT_THAT(vmap(vmap(f), {.in_axes = 1, .out_axes = 1})(grid), IsNear(reshape(lane_by_lane(f, xs), {2, 4})));
  EXPECT_THAT(vmap(vmap(grad(f)))(grid), IsNear(reshape(lane_by_lane(grad(f), xs), {2, 4})));
  EXPECT_THAT(vmap([&](T row) { return grad([&](T r) { return sum(vmap(f)(r)); })(row); })(grid),
              IsNear(reshape(lane_by_lane(grad(f), xs), {2, 4})));
}

TEST_P(Paths, EqualALoopUnderCheckpointsAndPrograms) {
  const Function f = GetParam().f;
  const Tensor values = lane_by_lane(f, xs), gradients = lane_by_lane(grad(f), xs);
  const auto all = [&](T a) { return sum(vmap(f)(a)); };
  EXPECT_THAT(grad(checkpoint(all))(xs), IsNear(gradients));
  EXPECT_THAT(vmap(grad(checkpoint(f)))(xs), IsNear(gradients));
  EXPECT_THAT(grad([&](T a) { return sum(vmap(checkpoint(f))(a)); })(xs), IsNear(gradients));
  EXPECT_THAT(vmap(grad(checkpoint(checkpoint(f))))(xs), IsNear(gradients));
  EXPECT_THAT(vmap(compile(f))(xs), IsNear(values));
  const auto compiled = compile([&](T a) { return vmap(f)(a); });
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(compiled(xs), IsNear(values));
    EXPECT_THAT(compiled(-xs), IsNear(lane_by_lane(f, -xs)));
  }
  const auto slope = compile(vmap(grad(f)));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(slope(xs), IsNear(gradients));
}

struct Passes : Handler {
  Outputs handle(Call& call) override { return perform(std::move(call)); }
};
struct Slowly : Controller {
  void handle(Call& call, Resumption<Call> rest) override {
    Outputs outputs;
    std::exception_ptr threw;  // rethrown in the program
    try {
      outputs = perform(call);
    } catch (...) {
      threw = std::current_exception();
    }
    if (threw) rest.resume_throwing(threw);
    else rest.resume_last(std::move(outputs));
  }
};

TEST_P(Paths, EqualALoopUnderUserHandlers) {
  const Function f = GetParam().f;
  const Tensor values = lane_by_lane(f, xs), gradients = lane_by_lane(grad(f), xs);
  // A shared handler, because functions of rules run under it again later.
  const auto passes = std::make_shared<Passes>();
  EXPECT_THAT(vmap([&](T x) { return with(passes, [&] { return f(x); }); })(xs), IsNear(values));
  EXPECT_THAT(with(passes, [&] { return vmap(grad(f))(xs); }), IsNear(gradients));
  EXPECT_THAT(vmap(grad([&](T x) { return with(passes, [&] { return f(x); }); }))(xs), IsNear(gradients));
  Slowly slowly;
  EXPECT_THAT(*with(slowly, [&] { return vmap(f)(xs); }), IsNear(values));
  EXPECT_THAT(vmap([&](T x) { return *with(slowly, [&] { return f(x); }); })(xs), IsNear(values));
  std::ostringstream text;
  EXPECT_THAT(vmap(debug(f, {.out = &text}))(xs), IsNear(values));
  EXPECT_THAT(debug(vmap(grad(f)), {.out = &text, .values = true, .trap_nan = true})(xs), IsNear(gradients));
  EXPECT_THAT(vmap(debug(grad(f), {.out = &text, .values = true, .trap_nan = true}))(xs), IsNear(gradients));
}

// ---- threads ------------------------------------------------------------------------------------

TEST(PathsThreads, PullbackThatSplitsLanesRunsOnSeveralThreads) {
  const auto [ys, pullback] = vjp([](T all) { return vmap(by_rule)(all); }, xs);
  const Tensor expected = lane_by_lane(grad(by_rule), xs);
  std::vector<std::thread> threads;
  std::array<Tensor, 4> found;
  for (Tensor& to : found)
    threads.emplace_back([&to, &pullback = pullback, &ys = ys] {
      for (int i = 0; i < 20; ++i) to = std::get<0>(pullback(ones_like(ys)));
    });
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& each : found) EXPECT_THAT(each, IsNear(expected));
}

}  // namespace
