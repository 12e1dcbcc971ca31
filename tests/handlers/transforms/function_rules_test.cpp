// Custom rules that return something wrong, and several rules for the same function.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include <stave/stave.h>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

using List = std::vector<Tensor>;
using Two = std::pair<Tensor, Tensor>;

const Tensor x = tensor({1., 2., 3.}), y = tensor({4., 5., 6.});
Tensor product(const Tensor& a, const Tensor& b) { return a * b; }
std::pair<Tensor, Two> forward(const Tensor& a, const Tensor& b) { return {a * b, {a, b}}; }

// Expects this error from every way to differentiate f(a, b).
template <class F>
void expect_error(F f, const char* text) {
  const auto total = [&](const Tensor& a, const Tensor& b) { return sum(f(a, b)); };
  const auto error = ThrowsMessage<TransformError>(HasSubstr(text));
  const Tensor xs = stack({x, x}), ys = stack({y, y});
  EXPECT_THAT(([&] { grad<0, 1>(total)(x, y); }), error);
  EXPECT_THAT([&] { grad<1>(total)(x, y); }, error);
  EXPECT_THAT([&] { jvp([&](const Tensor& b) { return f(x, b); }, y, y); }, error);
  EXPECT_THAT([&] { jvp(f, std::tuple(x, y), std::tuple(x, y)); }, error);
  EXPECT_THAT([&] { vmap(grad(total))(xs, ys); }, error);
  EXPECT_THAT([&] { grad([&](const Tensor& a, const Tensor& b) { return sum(vmap(f)(a, b)); })(xs, ys); }, error);
}

TEST(BackwardRule, MustGiveACotangentForEachInput) {
  const auto with_backward = [](auto backward) { return custom_vjp(product, forward, backward); };
  expect_error(with_backward([](const Two& r, const Tensor& g) { return g * r.second; }), "1 cotangents for 2 inputs");
  expect_error(with_backward([](const Two& r, const Tensor& g) { return std::tuple(g * r.second, g * r.first, g); }),
               "3 cotangents for 2 inputs");
  expect_error(with_backward([](const Two&, const Tensor& g) { return std::tuple(sum(g), sum(g)); }),
               "gave a cotangent float32 [] for input 0, which is float32 [3]");
  expect_error(with_backward([](const Two& r, const Tensor& g) {
                 return std::tuple(astype(g * r.second, float64), g * r.first);
               }),
               "gave a cotangent float64 [3] for input 0, which is float32 [3]");
  const auto none = with_backward([](const Two&, const Tensor&) { return std::tuple(Tensor(), Tensor()); });
  EXPECT_TRUE(array_equal(grad([&](const Tensor& a) { return sum(none(a, y)); })(x), zeros({3})));
  EXPECT_TRUE(array_equal(jvp([&](const Tensor& a) { return none(a, y); }, x, x).second, zeros({3})));
}

TEST(TangentRule, MustGiveATangentForEachResult) {
  const auto with_tangent = [](auto tangent) {
    return custom_jvp(product, [tangent](const Tensor& a, const Tensor& b, const Tensor& da, const Tensor& db) {
      return std::pair(a * b, tangent(a * db + b * da));
    });
  };
  expect_error(with_tangent([](const Tensor& d) { return sum(d); }), "gave a tangent float32 [] for result 0");
  expect_error(with_tangent([](const Tensor& d) { return astype(d, float64); }),
               "gave a tangent float64 [3] for result 0");
  const auto lists = [](auto tangents) {
    const auto f = custom_jvp(
        [](const Tensor& a, const Tensor& b) {
          return List{a * b, a};
        },
        [tangents](const Tensor& a, const Tensor& b, const Tensor& da, const Tensor& db) {
          return std::pair(List{a * b, a}, tangents(a * db + b * da));
        });
    return [f](const Tensor& a, const Tensor& b) { return f(a, b)[0]; };
  };
  expect_error(lists([](const Tensor& d) { return List{d}; }), "2 results and 1 tangents");
  expect_error(lists([](const Tensor& d) { return List{d, d, d, d}; }), "2 results and 4 tangents");
  const auto zero = with_tangent([](const Tensor&) { return Tensor(); });
  EXPECT_TRUE(array_equal(jvp([&](const Tensor& a) { return zero(a, y); }, x, x).second, zeros({3})));
  EXPECT_TRUE(array_equal(grad([&](const Tensor& a) { return sum(zero(a, y)); })(x), zeros({3})));
}

TEST(ForwardRule, MustGiveDefinedTensors) {
  const auto empty = custom_vjp(
      product, [](const Tensor& a, const Tensor& b) { return std::pair(Tensor(), Two(a, b)); },
      [](const Two& r, const Tensor& g) { return std::tuple(g * r.second, g * r.first); });
  expect_error(empty, "custom_vjp: result 0 is an empty Tensor");
  const auto residual = custom_vjp(
      product, [](const Tensor& a, const Tensor& b) { return std::pair(a * b, Tensor()); },
      [](const Tensor&, const Tensor& g) { return std::tuple(g, g); });
  expect_error(residual, "custom_vjp: residual 0 is an empty Tensor");
}

TEST(BatchingRule, MustGiveDefinedTensors) {
  const auto f = custom_vmap([](const Tensor& a) { return sin(a); },
                             [](Index, const std::vector<bool>&, const Tensor&) { return Tensor(); });
  EXPECT_THAT(
      [&] {
        vmap(f)(stack({x, x}));
      },
      ThrowsMessage<TransformError>(HasSubstr("custom_vmap: result 0 is an empty Tensor")));
}

TEST(Checkpoint, MustGiveTheSameResultsEachTime) {
  const auto empty = checkpoint([](const Tensor&) { return Tensor(); });
  const auto error = ThrowsMessage<TransformError>(HasSubstr("checkpoint: result 0 is an empty Tensor"));
  EXPECT_THAT([&] { empty(x); }, error);
  EXPECT_THAT([&] { grad([&](const Tensor& a) { return sum(empty(a)); })(x); }, error);
  EXPECT_THAT([&] { jvp(empty, x, x); }, error);
  EXPECT_THAT([&] { vmap(empty)(x); }, error);
  int runs = 0;
  const auto later = checkpoint([&](const Tensor& a) { return ++runs == 1 ? sin(a) : Tensor(); });
  EXPECT_THAT([&] { grad([&](const Tensor& a) { return sum(later(a)); })(x); }, error);
  runs = 0;
  const auto more = checkpoint([&](const Tensor& a) { return ++runs == 1 ? List{sin(a)} : List{sin(a), cos(a)}; });
  EXPECT_THAT([&] { grad([&](const Tensor& a) { return sum(more(a)[0]); })(x); },
              ThrowsMessage<TransformError>(HasSubstr("checkpoint: the function returned 1 tensors at first, but 2")));
  const auto nothing = checkpoint([](const Tensor&) { return List(); });
  EXPECT_TRUE(array_equal(grad([&](const Tensor& a) {
                            nothing(a);
                            return sum(a);
                          })(x),
                          ones({3})));
}

TEST(CustomRules, ReturningACapturedValueIsAnError) {
  const auto captured = [](const Tensor& w) {
    return sum(custom_vjp([w](const Tensor&) { return w; }, [w](const Tensor& v) { return std::pair(w, v); },
                          [](const Tensor&, const Tensor& g) { return zeros_like(g); })(w * 3));
  };
  const auto residual = [](const Tensor& w) {
    return sum(custom_vjp([](const Tensor& v) { return v; }, [w](const Tensor& v) { return std::pair(v, w); },
                          [](const Tensor& r, const Tensor& g) { return g * r; })(w * 3));
  };
  const auto by_tangents = [](const Tensor& w) {
    return sum(custom_jvp([w](const Tensor&) { return w; },
                          [w](const Tensor&, const Tensor& d) { return std::pair(w, zeros_like(d)); })(w * 3));
  };
  const auto each = [](auto f, const char* name) {
    const auto error = ThrowsMessage<TransformError>(HasSubstr(std::string(name) + ": its function captures a value"));
    EXPECT_THAT([&] { grad(f)(x); }, error);
    EXPECT_THAT([&] { jvp(f, x, x); }, error);
    EXPECT_THAT([&] { vmap(grad(f))(stack({x, x})); }, error);
    EXPECT_THAT([&] { grad([&](const Tensor& v) { return f(v * 2); })(x); }, error);
  };
  each(captured, "custom_vjp");
  each(residual, "custom_vjp");
  each(by_tangents, "custom_jvp");
}

// argmax has neither a tangent nor a cotangent.
TEST(CustomVjp, MayHaveIntegerResultsAndArguments) {
  const auto f = custom_vjp(
      [](const Tensor& a, const Tensor& i) { return std::tuple(sin(a) * i, argmax(a)); },
      [](const Tensor& a, const Tensor& i) { return std::pair(std::tuple(sin(a) * i, argmax(a)), Two(a, i)); },
      [](const Two& r, const std::tuple<Tensor, Tensor>& g) {
        return std::tuple(std::get<0>(g) * cos(r.first) * r.second, Tensor());
      });
  const Tensor counts = tensor({1, 2, 3});
  const auto first = [&](const Tensor& a) { return std::get<0>(f(a, counts)); };
  const Tensor expected = cos(x) * tensor({1., 2., 3.});
  EXPECT_TRUE(allclose(grad([&](const Tensor& a) { return sum(first(a)); })(x), expected));
  EXPECT_TRUE(allclose(jvp(first, x, ones_like(x)).second, expected));
  EXPECT_TRUE(
      allclose(vmap([&](const Tensor& a) { return jvp(first, a, ones_like(a)).second; })(stack({x, x}))(0), expected));
}

// One function has rules for reverse mode, forward mode and batching; each rule is used where it
// applies.
TEST(CustomRules, OfOneFunctionCombine) {
  int batched = 0;
  const auto ruled =
      custom_vjp([](const Tensor& a) { return sin(a); }, [](const Tensor& a) { return std::pair(sin(a), a); },
                 [](const Tensor& a, const Tensor& g) { return 3 * g * cos(a); });
  const auto tangent =
      custom_jvp(ruled, [](const Tensor& a, const Tensor& d) { return std::pair(sin(a), 5 * cos(a) * d); });
  const auto all = custom_vmap(tangent, [&](Index, const std::vector<bool>&, const Tensor& a) {
    ++batched;
    return sin(a);
  });
  const Tensor xs = stack({x, y});
  const auto total = [&](const Tensor& a) { return sum(all(a)); };
  EXPECT_TRUE(allclose(all(x), sin(x)));
  EXPECT_EQ(batched, 0);
  EXPECT_TRUE(allclose(vmap(all)(xs), sin(xs)));
  EXPECT_EQ(batched, 1);
  EXPECT_TRUE(allclose(grad(total)(x), 3 * cos(x)));
  EXPECT_TRUE(allclose(jvp(all, x, ones_like(x)).second, 5 * cos(x)));
  EXPECT_TRUE(allclose(vmap(grad(total))(xs), 3 * cos(xs)));
  EXPECT_TRUE(allclose(grad([&](const Tensor& a) { return sum(vmap(all)(a)); })(xs), 3 * cos(xs)));
  EXPECT_TRUE(allclose(jvp([&](const Tensor& a) { return vmap(all)(a); }, xs, ones_like(xs)).second, 5 * cos(xs)));
  EXPECT_TRUE(allclose(vmap(vmap(all))(stack({xs, xs}))(1), sin(xs)));
}

// ---- observers ----------------------------------------------------------------------------------

TEST(Observers, ChangeNoDerivative) {
  const auto f = [](const Tensor& a) { return sum(checkpoint(sin)(a)); };
  std::ostringstream out;
  EXPECT_TRUE(allclose(grad(debug(f, {.out = &out}))(x), cos(x)));
  Profile profile;
  EXPECT_TRUE(allclose(grad([&](const Tensor& a) { return with(profile, [&] { return f(a); }); })(x), cos(x)));
  Graph graph;
  EXPECT_TRUE(allclose(grad([&](const Tensor& a) { return with(graph, [&] { return f(a); }); })(x), cos(x)));
  Timeline timeline;
  EXPECT_TRUE(allclose(grad([&](const Tensor& a) { return with(timeline, [&] { return f(a); }); })(x), cos(x)));
}

}  // namespace
