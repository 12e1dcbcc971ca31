// param, init_params and functional_call: networks as plain functions.
#include <set>

#include <stave/stave.h>

#include "matchers.h"

namespace param_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;

using T = const Tensor&;

Tensor dense(const std::string& name, T x, Index features) {
  const Scope scope(name);
  const Tensor w = param("w", {x.shape(-1), features}, glorot_uniform), b = param("b", zeros({features}));
  return matmul(x, w) + b;
}
Tensor network(T x) { return dense("out", tanh(dense("hidden", x, 4)), 2); }
Tensor by_hand(const NamedTensors& p, T x) {
  return matmul(tanh(matmul(x, p.at("hidden/w")) + p.at("hidden/b")), p.at("out/w")) + p.at("out/b");
}
Tensor inputs() { return normal(Key(7), {5, 3}); }
NamedTensors some_params(std::uint64_t seed = 1) {
  NamedTensors params = init_params(network)(Key(seed), inputs());
  for (auto& [name, value] : params) value = value + 0.1;
  return params;
}
std::vector<std::string> names_of(const NamedTensors& params) {
  std::vector<std::string> names;
  for (const auto& [name, value] : params) names.push_back(name);
  return names;
}
void expect_near(const NamedTensors& got, const NamedTensors& expected) {
  ASSERT_EQ(names_of(got), names_of(expected));
  for (const auto& [name, value] : expected) EXPECT_THAT(got.at(name), IsNear(value, 1e-5)) << name;
}

TEST(Init, GivesParametersByFullNames) {
  const Scope outside("outside");
  const NamedTensors params = init_params(network)(Key(0), inputs());
  EXPECT_THAT(names_of(params), ElementsAre("hidden/b", "hidden/w", "out/b", "out/w"));
  EXPECT_EQ(params.at("hidden/w").shape(), Shape({3, 4}));
  EXPECT_THAT(params.at("out/b"), Equals(zeros({2})));
}

TEST(Init, AddingALayerDoesNotChangeOthers) {
  const auto larger = [](T x) { return dense("out", tanh(dense("between", tanh(dense("hidden", x, 4)), 4)), 2); };
  const NamedTensors small = init_params(network)(Key(3), inputs()), large = init_params(larger)(Key(3), inputs());
  for (const char* name : {"hidden/w", "out/w"}) EXPECT_THAT(large.at(name), Equals(small.at(name)));
  const auto equal = [](T a, T b) { return array_equal(a, b); };
  EXPECT_FALSE(equal(init_params(network)(Key(4), inputs()).at("out/w"), small.at("out/w")));
  const auto same_shapes = [](T x) { return dense("a", dense("b", x, 3), 3); };
  const NamedTensors squares = init_params(same_shapes)(Key(3), inputs());
  EXPECT_FALSE(equal(squares.at("a/w"), squares.at("b/w")));
}

// The key of "w" folds in the 64 bits of FNV-1a, which Python computes by:
//   h = 0xcbf29ce484222325; h = ((h ^ ord("w")) * 0x100000001b3) % 2**64   ->   0xaf63ea4c86020456
TEST(Init, FoldsTheNamesHashIntoTheKey) {
  const auto f = [](T x) { return x * param("w", {2, 2}, glorot_uniform); };
  const Key expected = fold_in(fold_in(Key(5), 0xaf63ea4cu), 0x86020456u);
  EXPECT_THAT(init_params(f)(Key(5), tensor(1.)).at("w"), Equals(glorot_uniform(expected, {2, 2})));
}

TEST(Init, NamesDoNotDependOnTransforms) {
  const auto inner = [](T x) { return dense("inner", x, 3); };
  const auto all = [&](T x) {
    const Scope scope("outer");
    const auto layer = checkpoint([&](T v) { return sum(vmap(checkpoint(inner))(v)); });
    return grad(layer)(x);
  };
  const NamedTensors params = init_params(all)(Key(0), inputs());
  EXPECT_THAT(names_of(params), ElementsAre("outer/inner/b", "outer/inner/w"));
  EXPECT_THAT(functional_call(all, params)(inputs())[0], IsNear(sum(params.at("outer/inner/w"), 1)));
}

TEST(Init, WorksUnderTransforms) {
  const auto lanes = [](T xs) { return vmap([](T x) { return network(x); })(xs); };
  const auto again = checkpoint(network);
  const auto slope = [](T x) { return grad([](T v) { return sum(network(v)); })(x); };
  const NamedTensors params = init_params(network)(Key(0), inputs());
  for (const NamedTensors& other : {init_params(lanes)(Key(0), inputs()), init_params(again)(Key(0), inputs()),
                                    init_params(slope)(Key(0), inputs())})
    expect_near(other, params);
  const auto ensemble =
      vmap([](const Key& key, T x) { return init_params(network)(key, x); }, {.in_axes = {0, unmapped}});
  const Tensor keys = split(Key(9), 3);
  const NamedTensors many = ensemble(Key(keys), inputs());
  for (Index i = 0; i < 3; ++i)
    EXPECT_THAT(many.at("out/w")[i], Equals(init_params(network)(Key(keys[i]), inputs()).at("out/w")));
}

TEST(Apply, GivesParametersToTheFunction) {
  const NamedTensors params = some_params();
  EXPECT_THAT(functional_call(network, params)(inputs()), Equals(by_hand(params, inputs())));
}

TEST(Apply, IsDifferentiableByParameters) {
  const auto loss = [](auto f) { return [f](const NamedTensors& p, T x) { return mean(square(f(p, x))); }; };
  const auto of = [](auto g) { return [g](const NamedTensors& p, T x) { return functional_call(g, p)(x); }; };
  const NamedTensors params = some_params(), expected = grad(loss(by_hand))(params, inputs());
  expect_near(grad(loss(of(network)))(params, inputs()), expected);
  expect_near(grad(loss(of(checkpoint(network))))(params, inputs()), expected);
  const auto lanes = vmap([](T x) { return network(x); });
  expect_near(grad(loss(of(lanes)))(params, inputs()), expected);
  const auto inner_checkpoint = [](T x) {
    return dense("out", tanh(checkpoint([](T v) { return dense("hidden", v, 4); })(x)), 2);
  };
  expect_near(grad(loss(of(inner_checkpoint)))(params, inputs()), expected);
  expect_near(jvp([&](const NamedTensors& p) { return grad(loss(of(network)))(p, inputs()); }, params, params).second,
              jvp([&](const NamedTensors& p) { return grad(loss(by_hand))(p, inputs()); }, params, params).second);
}

TEST(Apply, VmapOverParametersGivesAnEnsemble) {
  const auto predict = [](const NamedTensors& p, T x) { return functional_call(network, p)(x); };
  const NamedTensors a = some_params(1), b = some_params(2);
  const NamedTensors both = tree_map([](T x, T y) { return stack({x, y}); }, a, b);
  EXPECT_THAT(vmap(predict, {.in_axes = {0, unmapped}})(both, inputs()),
              IsNear(stack({by_hand(a, inputs()), by_hand(b, inputs())})));
  const auto slopes = vmap(grad([&](const NamedTensors& p) { return sum(predict(p, inputs())); }))(both);
  EXPECT_THAT(slopes.at("out/w")[1],
              IsNear(grad([&](const NamedTensors& p) { return sum(by_hand(p, inputs())); })(b).at("out/w")));
}

TEST(Apply, IsCompiled) {
  const auto step = compile([](const NamedTensors& p, T x) {
    const NamedTensors slope =
        grad([&](const NamedTensors& q) { return mean(square(functional_call(network, q)(x))); })(p);
    return tree_map([](T w, T g) { return w - 0.1 * g; }, p, slope);
  });
  NamedTensors params = some_params();
  for (int i = 0; i < 3; ++i) {
    const NamedTensors slope = grad([](const NamedTensors& q) { return mean(square(by_hand(q, inputs()))); })(params);
    const NamedTensors expected = tree_map([](T w, T g) { return w - 0.1 * g; }, params, slope);
    params = step(params, inputs());
    expect_near(params, expected);
  }
  EXPECT_EQ(step.recordings(), 1u);
  // functional_call answers `param` from outside the compiled function,
  // so each call runs the function itself.
  const auto inside = functional_call(compile(network), params);
  EXPECT_THAT(inside(inputs()), IsNear(by_hand(params, inputs())));
  EXPECT_THAT(inside(2. * inputs()), IsNear(by_hand(params, 2. * inputs())));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
TEST(Param, ApplyIsAnAliasOfFunctionalCall) {
  const NamedTensors params = init_params(network)(Key(0), inputs());
  EXPECT_THAT(apply(network, params)(inputs()), Equals(functional_call(network, params)(inputs())));
}
#pragma GCC diagnostic pop

TEST(Param, UsesOfOneNameShareAParameter) {
  const auto twice = [](T x) { return dense("layer", tanh(dense("layer", x, 3)), 3); };
  const NamedTensors params = init_params(twice)(Key(0), inputs());
  EXPECT_THAT(names_of(params), ElementsAre("layer/b", "layer/w"));
  const Tensor w = params.at("layer/w");
  EXPECT_THAT(functional_call(twice, params)(inputs()), IsNear(matmul(tanh(matmul(inputs(), w)), w)));
  const auto misshapen = [](T x) { return dense("layer", tanh(dense("layer", x, 4)), 2); };
  EXPECT_THAT(message_of<ShapeError>([&] { init_params(misshapen)(Key(0), inputs()); }),
              HasSubstr("param \"layer/w\": it was made before with shape [3,4], but [4,2] is requested"));
}

TEST(Param, ErrorsNameTheParameter) {
  NamedTensors params = some_params();
  EXPECT_THAT(message_of<Error>([] { network(inputs()); }), HasSubstr("param: no handler provides \"w\""));
  EXPECT_THAT(message_of<ShapeError>([&] {
                functional_call(network, params)(zeros({5, 2}));
              }),
              HasSubstr("param \"hidden/w\": functional_call was given shape [3,4], but [2,4] is requested"));
  params["more"] = tensor(1.);
  EXPECT_THAT(message_of<Error>([&] { functional_call(network, params)(inputs()); }),
              HasSubstr("functional_call: the function does not request the param \"more\""));
  params.erase("more");
  params.erase("hidden/w");
  EXPECT_THAT(
      message_of<Error>([&] { functional_call(network, params)(inputs()); }),
      HasSubstr("param \"hidden/w\": it is not among the parameters given to functional_call: hidden/b, out/b, out/w"));
  const auto wrong = [](T x) {
    return x * param("w", {2}, [](const Key& key, const Shape&) { return normal(key, {3}); });
  };
  EXPECT_THAT(message_of<ShapeError>([&] { init_params(wrong)(Key(0), tensor(1.)); }),
              HasSubstr("param \"w\": its initializer gives shape [3], but [2] is requested"));
  EXPECT_THAT(message_of<ShapeError>([] { glorot_uniform(Key(0), {3}); }),
              HasSubstr("glorot_uniform: a kernel needs at least two axes, [..., inputs, outputs], but has shape [3]"));
}

// The variances for a 3 x 3 window with 16 inputs and 32 outputs,
// within a few standard errors of 4608 draws.
TEST(Initializers, HaveTheirVariances) {
  const Shape shape{3, 3, 16, 32};
  const auto variance = [&](const Initializer& make) { return var(make(Key(1), shape)).item<double>(); };
  EXPECT_NEAR(variance(lecun_normal) * 9 * 16, 1, 0.08);
  EXPECT_NEAR(variance(he_normal) * 9 * 16, 2, 0.16);
  EXPECT_NEAR(variance(glorot_uniform) * 9 * (16 + 32), 2, 0.12);
  // The expected values are those of
  // jax.nn.initializers.glorot_uniform()(jax.random.key(0), (2, 3)).
  EXPECT_THAT(glorot_uniform(Key(0), {2, 3}),
              IsNear(tensor({{0.980789303779602, 1.048516035079956, -0.3674309551715851},
                             {-0.0686439648270607, 0.15311850607395172, -0.732846200466156}}),
                     1e-6));
}

}  // namespace param_test
