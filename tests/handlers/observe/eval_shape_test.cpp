// eval_shape gives the shapes and dtypes of the function itself, allocates nothing, and refuses
// reads.
#include <stave/stave.h>

#include <stave/handlers/observe/eval_shape.h>

#include "matchers.h"
#include "storage_peak.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;

std::string type_of(const Tensor& x) {
  return std::string(name_of(x.dtype())) + " " + x.shape().str() + " " + x.device().str();
}

struct Block {
  Tensor query, key, value, out, scale, shift, up, down;
};

Block block(Index width, Tensor (*make)(const Shape&)) {
  return {make({width, width}), make({width, width}), make({width, width}),     make({width, width}),
          make({width}),        make({width}),        make({width, 4 * width}), make({4 * width, width})};
}
Tensor abstract_of(const Shape& shape) { return abstract(shape); }
Tensor ones_of(const Shape& shape) { return full(shape, 0.1f); }

Tensor transformer(const Block& p, const Tensor& x) {
  const Tensor h = layer_norm(x) * p.scale + p.shift;
  const Tensor q = matmul(h, p.query), k = matmul(h, p.key), v = matmul(h, p.value);
  const Tensor weights = softmax(matmul(q, matrix_transpose(k)) / 8., -1);
  const Tensor y = x + matmul(matmul(weights, v), p.out);
  return mean(square(y + matmul(gelu(matmul(y, p.up)), p.down)));
}

TEST(EvalShape, AllocatesNothing) {
  const StoragePeak peak;
  const Tensor w = abstract({1000000, 1000000});
  EXPECT_EQ(type_of(eval_shape([](const Tensor& a, const Tensor& b) { return matmul(a, b); })(w, w)),
            "float32 [1000000,1000000] cpu");
  const Tensor x = abstract({512, 65536, 16384});
  const Block gradients = eval_shape(grad(transformer))(block(16384, abstract_of), x);
  EXPECT_EQ(type_of(gradients.up), "float32 [16384,65536] cpu");
  EXPECT_EQ(type_of(gradients.shift), "float32 [16384] cpu");
  const auto [values, per_example] =
      eval_shape(vmap(value_and_grad(transformer), {.in_axes = {unmapped, 0}}))(block(16384, abstract_of), x);
  EXPECT_EQ(type_of(values), "float32 [512] cpu");
  EXPECT_EQ(type_of(per_example.down), "float32 [512,65536,16384] cpu");
  // Single numbers, such as the 8 above, are tensors with memory.
  EXPECT_LE(peak.largest(), 16u);
}

TEST(EvalShape, ResultsAreArgumentsAgain) {
  const auto step = [](const Block& p, const Tensor& x) {
    const Block slope = grad(transformer)(p, x);
    return Block{p.query - 0.1 * slope.query, p.key, p.value - slope.value, p.out, p.scale * slope.scale, p.shift, p.up,
                 astype(p.down, float64)};
  };
  const Tensor x = ones({2, 3, 4});
  const Block real = step(block(4, ones_of), x);
  const Block shapes = eval_shape(step)(block(4, ones_of), x);
  const std::vector<Tensor> expected = tree_leaves(real), found = tree_leaves(shapes);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(type_of(found[i]), type_of(expected[i])) << i;
    EXPECT_TRUE(is_abstract(found[i])) << i;
    EXPECT_FALSE(is_abstract(expected[i])) << i;
  }
  EXPECT_EQ(type_of(eval_shape([](const Tensor& w, const Tensor& d) { return astype(w, float64) + d; })(
                shapes.query, abstract({4, 4}, float64))),
            "float64 [4,4] cpu");
  const std::vector<Tensor> copies(2, shapes.query);  // copies and containers need no care
  EXPECT_EQ(type_of(eval_shape([](const std::vector<Tensor>& xs) { return concat(xs, 0); })(copies)),
            "float32 [8,4] cpu");
  EXPECT_EQ(type_of(eval_shape(sin)(shapes.query)), "float32 [4,4] cpu");
}

// The function itself, given ones, has results of the same types.
template <class F, class... A>
void expect_same_types(const char* what, F f, const A&... args) {
  SCOPED_TRACE(what);
  const std::vector<Tensor> expected = tree_leaves(f(args...)), found = tree_leaves(eval_shape(f)(args...));
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(type_of(found[i]), type_of(expected[i])) << i;
}

TEST(EvalShape, Transforms) {
  const Tensor x = full({4, 3}, 0.5), w = full({3, 2}, 0.25f);
  const auto f = [](const Tensor& a, const Tensor& b) { return sum(tanh(matmul(a, b)), 0); };
  const auto loss = [f](const Tensor& a, const Tensor& b) { return sum(square(f(a, b))); };
  expect_same_types("grad", grad<0, 1>(loss), x, w);
  expect_same_types(
      "jvp", [&](const Tensor& a) { return jvp([&](const Tensor& v) { return f(v, w); }, a, a); }, x);
  expect_same_types("jacfwd", jacfwd(f), x, w);
  expect_same_types("jacrev", jacrev(f), x, w);
  expect_same_types("hessian", hessian(loss), x, w);
  expect_same_types(
      "hvp", [&](const Tensor& a) { return hvp([&](const Tensor& v) { return loss(v, w); }, a, a); }, x);
  expect_same_types("vmap", vmap([&](const Tensor& row) { return outer(row, row) + sum(w); }), x);
  expect_same_types("vmap of grad", vmap(grad(loss), {.in_axes = {0, unmapped}}), ones({5, 4, 3}), w);
  expect_same_types("vmap with a collective",
                    vmap([](const Tensor& row) { return row - pmean(row, "batch"); }, {.axis_name = "batch"}), x);
  expect_same_types("vmap over nested lanes", vmap(vmap([&](const Tensor& v) { return v * w; })), x);
  expect_same_types(
      "linearize", [&](const Tensor& a) { return linearize([&](const Tensor& v) { return f(v, w); }, a).second(a); },
      x);
  expect_same_types(
      "vjp",
      [&](const Tensor& a) {
        auto [y, pullback] = vjp(f, a, w);
        return pullback(y);
      },
      x);
  expect_same_types("checkpoint", grad(checkpoint(loss)), x, w);
  expect_same_types("hessian of checkpoint", hessian(checkpoint(loss)), x, w);
  const auto vjp_rule = custom_vjp([](const Tensor& v) { return log1p(exp(v)); },
                                   [](const Tensor& v) { return std::pair(log1p(exp(v)), v); },
                                   [](const Tensor& v, const Tensor& g) { return g * sigmoid(v); });
  expect_same_types("custom_vjp", vmap(grad([&](const Tensor& v) { return sum(vjp_rule(v)); })), x);
  const auto jvp_rule = custom_jvp([](const Tensor& v) { return sin(v); },
                                   [](const Tensor& v, const Tensor& dv) { return std::pair(sin(v), cos(v) * dv); });
  expect_same_types("custom_jvp", grad([&](const Tensor& v) { return sum(jvp_rule(v)); }), x);
  expect_same_types("compile", compile(grad<0, 1>(loss)), x, w);
  expect_same_types("grad of compile", grad(compile(loss)), x, w);
  expect_same_types("loop",
                    grad([](const Tensor& v) { return sum(loop(10, [](const Tensor& s) { return sin(s); })(v)); }), x);
  expect_same_types("loop with snapshots", grad([](const Tensor& v) {
                      return sum(loop(10, [](const Tensor& s) { return sin(s); }, {.snapshots = 3})(v));
                    }),
                    x);
  expect_same_types("scan", grad([&](const Tensor& rows) {
                      const auto step = [](const Tensor& s, const Tensor& row) { return std::pair(s * row, tanh(s)); };
                      const auto [last, outputs] = scan(step)(ones({3}), rows);
                      return sum(last) + sum(outputs);
                    }),
                    x);
  expect_same_types(
      "harvest",
      [](const Tensor& v) {
        return harvest([](const Tensor& u) { return sum(sow("hidden", exp(u))); })(v).second.at("hidden");
      },
      x);
  expect_same_types(
      "debug",
      [&](const Tensor& v) {
        std::ostringstream out;
        return debug(grad(loss), {.out = &out, .bytes = true})(v, w);
      },
      x);
}

TEST(EvalShape, RandomKeysAndSamplers) {
  const auto f = [](const Key& key, const Tensor& x) {
    const auto [a, b, c] = split<3>(key);
    const Tensor drawn = normal(a, {5}) + uniform(fold_in(b, 3), {5});
    const Tensor rows = vmap([](Key k) { return gumbel(k, {2}); })(split(c, 4));
    return std::tuple(drawn, rows, bernoulli(a, x), permutation(b, x), categorical(c, x), Key(split(a, 2)[0]).data());
  };
  expect_same_types(
      "keys", [f](const Tensor& x) { return f(Key(7), x); }, full({4, 3}, 0.5));
  const auto [drawn, rows, coin, shuffled, positions, key] =
      eval_shape(f)(Key(abstract({2}, uint32)), full({4, 3}, 0.5));
  EXPECT_EQ(type_of(drawn), "float32 [5] cpu");
  EXPECT_EQ(type_of(key), "uint32 [2] cpu");
  EXPECT_TRUE(is_abstract(key));
}

struct Width {
  using Result = Index;
};
struct Narrow : Handles<Width> {
  Index handle(Width&) override { return 7; }
};

TEST(EvalShape, EffectsReachTheirHandlers) {
  Narrow narrow;
  const auto f = [](const Tensor& x) { return broadcast_to(sum(x), {perform(Width{})}); };
  EXPECT_EQ(type_of(with(narrow, [&] { return eval_shape(f)(ones({2})); })), "float32 [7] cpu");
  EXPECT_EQ(type_of(eval_shape([&](const Tensor& x) { return with(narrow, [&] { return f(x); }); })(ones({2}))),
            "float32 [7] cpu");
  // Nobody listens, so nothing is read.
  EXPECT_EQ(type_of(eval_shape([](const Tensor& x) { return report("loss", sum(x)), exp(x); })(ones({2}))),
            "float32 [2] cpu");
}

template <class F>
std::string refused(F f, const Tensor& x = full({3}, 2.)) {
  return message_of<TransformError>([&] { eval_shape(f)(x); });
}

TEST(EvalShape, ReadsNameTheOperation) {
  const auto number = [](const Tensor& x) { return sum(exp(x)); };
  EXPECT_THAT(refused([&](const Tensor& x) { return x * number(x).item<float>(); }),
              AllOf(HasSubstr("sum: its elements (float32 []) are needed here"), HasSubstr("inside eval_shape")));
  EXPECT_THAT(refused([&](const Tensor& x) { return float(number(x)) > 0 ? x : -x; }), HasSubstr("sum: its elements"));
  EXPECT_THAT(refused([](const Tensor& x) { return exp(x).to_vector<float>().empty() ? x : -x; }),
              HasSubstr("exp: its elements (float32 [3])"));
  EXPECT_THAT(refused([](const Tensor& x) { return exp(x).data<float>().empty() ? x : -x; }), HasSubstr("exp: its"));
  EXPECT_THAT(refused([](const Tensor& x) { return exp(x).str().empty() ? x : -x; }), HasSubstr("exp: its elements"));
  EXPECT_THAT(refused([](const Tensor& x) {
                if (any(x > 0)) return x;
                return -x;
              }),
              HasSubstr("any: its elements (bool [])"));
  EXPECT_THAT(refused([](const Tensor& x) { return x[0].item<float>() > 0 ? x : -x; }),
              HasSubstr("its elements (float32 [])"));
  EXPECT_THAT(refused([](const Tensor& x) {
                return reshape(exp(x), {3, 1}).to_vector<float>().empty() ? x : -x;
              }),
              HasSubstr("reshape: its elements (float32 [3,1])"));
  EXPECT_THAT(refused([](const Tensor& x) { return x.to_vector<float>().empty() ? x : -x; }),
              HasSubstr("an abstract tensor: its elements (float32 [3])"));
  // A captured tensor has its elements; what is made of it has none.
  const Tensor captured = full({}, 2.);
  EXPECT_EQ(type_of(eval_shape([&](const Tensor& x) { return x * captured.item<float>(); })(ones({3}))),
            "float32 [3] cpu");
  EXPECT_THAT(refused([&](const Tensor& x) { return captured > 1 ? x : -x; }),
              HasSubstr("greater: its elements (bool [])"));
  EXPECT_THAT(refused([](const Tensor& x) { return nonzero(x)[0]; }), HasSubstr("its elements"));
}

// The functions of which tests/table has no row, because their results have a shape of values. They
// read the number of elements that they return.
TEST(EvalShape, ShapesThatDependOnValuesNameTheOperation) {
  const auto expect_refused = [](const char* name, auto f) {
    EXPECT_THAT(refused(f), HasSubstr("sum: its elements (int32 []) are needed here")) << name;
    EXPECT_THAT(refused(vmap(f), full({2, 3}, 2.)), HasSubstr("sum: its elements (int32 [2])")) << name;
  };
  expect_refused("nonzero", [](const Tensor& x) { return nonzero(x)[0]; });
  expect_refused("unique_values", [](const Tensor& x) { return unique_values(x); });
  expect_refused("unique_counts", [](const Tensor& x) { return unique_counts(x).first; });
  expect_refused("unique_inverse", [](const Tensor& x) { return unique_inverse(x).first; });
}

TEST(EvalShape, ReadsInsideTransformsNameTheOperation) {
  const auto branch = [](const Tensor& x) { return sum(x) > 0 ? sum(sin(x)) : sum(cos(x)); };
  EXPECT_THAT(refused(grad(branch)), HasSubstr("greater: its elements (bool [])"));
  EXPECT_THAT(refused(vmap(branch), ones({2, 3})), HasSubstr("greater: its elements (bool [2])"));
  EXPECT_THAT(refused(vmap(grad(branch)), ones({2, 3})), HasSubstr("greater: its elements (bool [2])"));
  EXPECT_THAT(refused([&](const Tensor& x) { return jvp(branch, x, x).second; }), HasSubstr("greater: its elements"));
  EXPECT_THAT(refused(compile(branch)), HasSubstr("greater: its elements"));
  EXPECT_THAT(refused(checkpoint(branch)), HasSubstr("greater: its elements"));
  EXPECT_THAT(refused(vmap([](const Tensor& x) { return x.str().empty() ? x : -x; }), ones({2, 3})),
              HasSubstr("an abstract tensor: its elements (float32 [2,3])"));
  EXPECT_THAT(refused(debug([](const Tensor& x) { return exp(x); }, {.trap_nan = true, .print = false})),
              HasSubstr("exp: its elements"));
}

TEST(EvalShape, AbstractTensorsAreNoOperandsOutside) {
  const Tensor y = eval_shape([](const Tensor& x) { return exp(x); })(ones({3}));
  for (const Tensor& x : {y, abstract({3})}) {
    const std::string by = message_of<TransformError>([&] { x + 1; });
    EXPECT_THAT(by, HasSubstr("an abstract tensor: its elements (float32 [3]) are needed here"));
    EXPECT_THAT(by, HasSubstr("outside, abstract tensors are arguments of eval_shape and cost only"));
    EXPECT_THROW(grad([](const Tensor& v) { return sum(v); })(x), TransformError);
    EXPECT_THROW(vmap([](const Tensor& v) { return v * v; })(x), TransformError);
    EXPECT_THROW(compile([](const Tensor& v) { return v * v; })(x), TransformError);
    EXPECT_THROW(matmul(x, ones({3, 3})), TransformError);
    EXPECT_THROW(static_cast<void>(x.to_vector<float>()), TransformError);
    EXPECT_THROW(static_cast<void>(x.str()), TransformError);
    EXPECT_EQ(label_of(label(x, "w")), "w");
  }
}

TEST(EvalShape, InvalidShapesAreTheErrorsOfTheFunction) {
  const auto f = [](const Tensor& x) { return matmul(x, ones({4, 5})); };
  const std::string itself = message_of<ShapeError>([&] { f(ones({2, 3})); });
  EXPECT_THAT(message_of<ShapeError>([&] { eval_shape(f)(abstract({2, 3})); }), HasSubstr(itself.substr(0, 60)));
  EXPECT_THROW(abstract({-1}), ShapeError);
  EXPECT_THROW(abstract({Index{1} << 40, Index{1} << 40}), ShapeError);
  const Tensor on_device = abstract({2}, float32, cuda(0));
  EXPECT_EQ(type_of(eval_shape([](const Tensor& x) { return sin(x); })(on_device)), "float32 [2] cuda:0");
  EXPECT_THROW(eval_shape([](const Tensor& x) { return x + abstract({2}); })(on_device), DeviceError);
}

TEST(EvalShape, StridesAreThoseOfTheFunction) {
  const auto f = [](const Tensor& x) {
    return std::tuple(matrix_transpose(x), x(slice(1, none)), broadcast_to(sum(x, 0), {7, 3}), reshape(x, {-1}),
                      reshape(matrix_transpose(x), {-1}), exp(x));
  };
  const Tensor x = ones({4, 3});
  const std::vector<Tensor> expected = tree_leaves(f(x)), found = tree_leaves(eval_shape(f)(x));
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].strides(), expected[i].strides()) << i;
}

}  // namespace
