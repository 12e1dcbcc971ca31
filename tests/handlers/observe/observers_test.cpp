// Profile, Graph and Timeline together: none sees another, and they change nothing.
#include <stave/stave.h>

#include "matchers.h"
#include "observers.h"

namespace {

using namespace stave;
using namespace stave_test;

TEST(Observers, PerformNothingAndChangeNoResult) {
  const auto f = [](const Tensor& x) {
    const Tensor columns = permute_dims(stack({x, x}), {1, 0});
    return sum(exp(sin(columns)));
  };
  const auto second = [](auto g) { return vmap(grad([g](const Tensor& x) { return sum(grad(g)(x)); })); };
  const Tensor x = tensor({{0.5, 1.}, {2., 3.}, {0., -1.}});
  CountOps plain, observed;
  const Tensor expected = with(plain, [&] { return second(f)(x); });
  Profile profile;
  Graph graph;
  Timeline timeline;
  const auto watched = [&](const Tensor& v) {
    return with(graph, [&] { return with(timeline, [&] { return f(v); }); });
  };
  const Tensor got = with(observed, [&] { return with(profile, [&] { return second(watched)(x); }); });
  EXPECT_THAT(got, Equals(expected));
  EXPECT_EQ(observed.n, plain.n);
  EXPECT_EQ(profile.total().calls, static_cast<std::uint64_t>(plain.n));
  EXPECT_EQ(graph.operations(), timeline.operations());
}

TEST(Observers, WorkInsideControllers) {
  struct AnswerLater : Controller {
    void handle(Call& call, Resumption<Call> rest) override { rest.resume_last(perform(call)); }
  };
  const Tensor x = ones({2});
  Profile inside, outside;
  Graph graph;
  Timeline timeline;
  AnswerLater controller;
  with(outside, [&] {
    return with(controller, [&] {
      return with(inside,
                  [&] { return with(graph, [&] { return with(timeline, [&] { return grad(two_layers)(x); }); }); });
    });
  });
  EXPECT_GT(inside.total().calls, 4u);
  EXPECT_EQ(inside.total().calls, outside.total().calls);
  EXPECT_EQ(outside.scope("backward of grad/layer1").calls, 2u);
  EXPECT_TRUE(Dot(graph).has_edge("sin", "exp"));
  EXPECT_EQ(timeline.operations(), graph.operations());
}

}  // namespace
