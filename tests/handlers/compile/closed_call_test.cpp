// Compiled functions under transforms: derivatives and lanes come from the recorded program and
// equal those of the function, which does not run again.
#include <thread>

#include <stave/handlers/compile/derive.h>
#include <stave/stave.h>

#include "matchers.h"
#include "programs.h"

namespace {

using namespace stave;
using namespace stave_test;

const Tensor x = tensor({1., 2., 3.});
const Tensor lanes = tensor({{1., 2., 3.}, {0.5, -1., 2.}, {3., 0., -2.}, {0.1, 0.2, 0.3}});

Tensor smooth(const Tensor& a) { return sum(sin(a) * a + exp(a * 0.1)); }

/// Expects `transform` of the compiled function to equal `transform` of f, and f to run only once.
template <class F, class Transform>
void expect_once(F f, Transform transform, const std::vector<Tensor>& inputs) {
  int runs = 0;
  const auto compiled = compile([&runs, f](const auto&... args) { return ++runs, f(args...); });
  const auto of_compiled = transform(compiled);
  const auto of_f = transform(f);
  for (const Tensor& input : inputs) EXPECT_THAT(of_compiled(input), Is(of_f(input)));
  EXPECT_EQ(runs, 1);
}

const auto along_itself = [](auto f) {
  return [f](const Tensor& a) { return jvp(f, std::tuple(a), std::tuple(a * 2.)).second; };
};

TEST(Whole, TransformsAndTheirNestsRunTheFunctionOnce) {
  const std::vector<Tensor> vectors = {x, x * 2., x - 1.}, batches = {lanes, lanes * 0.5};
  expect_once(
      smooth, [](auto f) { return grad(f); }, vectors);
  expect_once(smooth, along_itself, vectors);
  expect_once(
      smooth, [](auto f) { return vmap(f); }, batches);
  expect_once(
      smooth, [](auto f) { return vmap(grad(f)); }, batches);
  expect_once(
      smooth, [](auto f) { return vmap(along_itself(f)); }, batches);
  expect_once(
      smooth, [](auto f) { return hessian(f); }, vectors);
  expect_once(
      smooth, [](auto f) { return jacfwd(jacfwd(f)); }, vectors);
  expect_once(
      smooth, [](auto f) { return jacrev(grad(f)); }, vectors);
  expect_once(
      smooth, [](auto f) { return vmap(hessian(f)); }, batches);
  expect_once(
      smooth, [](auto f) { return grad([f](const Tensor& a) { return sum(vmap(f)(a)); }); }, batches);
  expect_once(
      smooth, [](auto f) { return grad([f](const Tensor& a) { return sum(square(vmap(grad(f))(a))); }); }, batches);
  expect_once(
      smooth,
      [](auto f) { return vmap([f](const Tensor& a) { return vmap([&](const Tensor& b) { return f(a * b); })(a); }); },
      batches);
  expect_once([](const Tensor& a) { return cumulative_sum(a) * a[0]; }, [](auto f) { return jacrev(f); }, vectors);
}

TEST(Whole, ThirdDerivativesOfAScalarAreRight) {
  const auto f = compile([](const Tensor& a) { return a * a * a * a; });
  EXPECT_THAT(grad(grad(grad(f)))(tensor(2.)), IsNumber(48., 1e-5));
  EXPECT_THAT(grad(grad(grad(f)))(tensor(3.)), IsNumber(72., 1e-5));
}

TEST(Whole, ArgumentsAndResultsMayBeTreesAndIntegers) {
  struct Params {
    Tensor w, b;
  };
  const auto net = [](const Params& p, const Tensor& rows, const Tensor& labels) {
    const Tensor y = tanh(take(p.w, rows, 0) + p.b);
    return std::tuple(sum(y * astype(labels, float32)), argmax(y, 1), y);
  };
  int runs = 0;
  const auto compiled =
      compile([&](const Params& p, const Tensor& rows, const Tensor& labels) { return ++runs, net(p, rows, labels); });
  const auto check = [&](double scale) {
    const Params params{reshape(arange(12.), {4, 3}) * 0.1 * scale, tensor({0.1, -0.2, 0.3})};
    const Tensor rows = tensor({0, 2}), labels = tensor({{1, 0, 2}, {0, 1, 1}});
    const auto loss = [&](const auto& f) {
      return [&](const Params& p) {
        const auto [l, best, y] = f(p, rows, labels);
        return l + sum(square(y)) * astype(best[0], float32);
      };
    };
    const Params found = grad(loss(compiled))(params), wanted = grad(loss(net))(params);
    EXPECT_THAT(found.w, IsNear(wanted.w));
    EXPECT_THAT(found.b, IsNear(wanted.b));
  };
  for (const double scale : {1., 2., -1.}) check(scale);
  EXPECT_EQ(runs, 1);
}

TEST(Whole, ReadsAreBranchesUnderDerivatives) {
  int runs = 0;
  const auto f = [](const Tensor& a) {
    Tensor y = a;
    int steps = 0;
    while (sum(square(y)).item<float>() > 1 && steps++ < 5) y = y * 0.5;
    return sum(sin(y) * a);
  };
  const auto compiled = compile([&](const Tensor& a) { return ++runs, f(a); });
  for (int again = 0; again < 3; ++again)
    for (const double scale : {1., 0.1, 8.}) {
      EXPECT_THAT(grad(compiled)(x * scale), IsNear(grad(f)(x * scale)));
      EXPECT_THAT(jacfwd(compiled)(x * scale), IsNear(jacfwd(f)(x * scale)));
      EXPECT_THAT(hessian(compiled)(x * scale), IsNear(hessian(f)(x * scale)));
    }
  // One run for each path, whatever the transform.
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(compiled.recordings(), 3u);
}

TEST(Whole, ReadingValuesOfLanesSplitsThem) {
  const auto f = [](const Tensor& a) { return sum(a).item<float>() > 0 ? a : -a; };
  const auto compiled = compile(f);
  const Tensor both = concat(std::vector<Tensor>{lanes, -lanes});
  std::vector<Tensor> each;
  for (Index i = 0; i < both.shape(0); ++i) each.push_back(f(both[i]));
  EXPECT_THAT(vmap(f)(both), Is(stack(each)));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(vmap(compiled)(both), Is(stack(each)));
  EXPECT_THAT(compiled(x), Is(x));
}

TEST(Whole, UnbatchedValuesMayBeRead) {
  const auto f = compile([](const Tensor& a, const Tensor& w) { return std::pair(sum(a * w), sum(square(w))); });
  const auto g = [&](const Tensor& a) {
    const auto [y, size] = f(a, x);
    return y * (size.item<float>() > 13 ? 2. : 1.);
  };
  EXPECT_THAT(vmap(g)(lanes), IsNear(matmul(lanes, x) * 2.));
  const auto in_it = compile(
      [](const Tensor& a, const Tensor& w) { return sum(a * w) * (sum(square(w)).item<float>() > 13 ? 2. : 1.); });
  int runs = 0;
  const auto counted = compile([&](const Tensor& a, const Tensor& w) { return ++runs, in_it(a, w); });
  for (int i = 1; i < 4; ++i)
    EXPECT_THAT(vmap([&](const Tensor& a) { return counted(a, x); })(lanes * i), IsNear(matmul(lanes, x) * 2. * i));
  EXPECT_EQ(runs, 1);
}

TEST(Whole, CustomRulesAreKept) {
  const auto straight =
      custom_vjp([](const Tensor& a) { return round(a); }, [](const Tensor& a) { return std::pair(round(a), a); },
                 [](const Tensor&, const Tensor& g) { return g * 3.; });
  const auto tangent = custom_jvp([](const Tensor& a) { return sign(a); },
                                  [](const Tensor& a, const Tensor& t) { return std::pair(sign(a), t * 5.); });
  const auto f = [=](const Tensor& a) {
    const Tensor captured = a * 2.;
    const Tensor y = checkpoint([=](const Tensor& b) { return sin(straight(b)) * captured; })(a);
    return sum(y * tangent(a));
  };
  int runs = 0;
  const auto compiled = compile([&](const Tensor& a) { return ++runs, f(a); });
  for (const double scale : {1., 0.7, -2.}) {
    EXPECT_THAT(grad(compiled)(x * scale), IsNear(grad(f)(x * scale)));
    EXPECT_THAT(vmap(grad(compiled))(lanes * scale), IsNear(vmap(grad(f))(lanes * scale)));
    EXPECT_THAT(along_itself(compiled)(x * scale), IsNear(along_itself(f)(x * scale)));
  }
  EXPECT_EQ(runs, 1);
}

TEST(Whole, CheckpointMayCaptureAValueOfSeveralTransforms) {
  // Under both gradients and the tangent of hvp, one value of the program, which the checkpoint
  // captures, appears as several tensors.
  const auto f = [](const Tensor& a) {
    const auto inner = [](const Tensor& p, const Tensor& b) {
      return hvp(
          [&](const Tensor& y) {
            return sum(checkpoint([b](const Tensor& z) {
              return sin(z) * b + concat({b(slice(0, 2)), z(slice(0, 1))});
            })(y));
          },
          p, b);
    };
    return sum(grad([&](const Tensor& p) { return sum(inner(p, p) * sin(p)); })(a));
  };
  const auto compiled = compile(f);
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(compiled(x), Is(f(x)));
    EXPECT_THAT(grad(compiled)(x), IsNear(grad(f)(x)));
    EXPECT_THAT(along_itself(compiled)(x), IsNear(along_itself(f)(x)));
  }
}

TEST(Whole, LoopsStayLoopsUnderDerivatives) {
  const auto f = [](const Tensor& a) {
    return sum(loop(50, [&](const Tensor& y) { return tanh(y * a) + y * 0.1; })(a));
  };
  expect_once(f, [](auto g) { return grad(g); }, {x, x * 0.5});
  expect_once(f, along_itself, {x, x * 0.5});
  const auto second = [](const auto& g) {
    return grad([g](const Tensor& p) { return sum(p * grad([g](const Tensor& y) { return g(y); })(p)); });
  };
  const auto compiled = compile(f);
  const auto of_second = compile(second(f));
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(second(compiled)(x), IsNear(second(f)(x)));
    EXPECT_THAT(of_second(x), IsNear(second(f)(x)));
    EXPECT_THAT(hessian(compiled)(x), IsNear(hessian(f)(x)));
  }
}

TEST(Whole, ValuesOfAnOuterTransformAreNotConstants) {
  const auto outer = [](const Tensor& w) {
    const auto inner = compile([&](const Tensor& a) { return sum(a * a * w); });
    return sum(grad(inner)(x)) + sum(grad(inner)(w));
  };
  const auto plain = [](const Tensor& w) {
    const auto inner = [&](const Tensor& a) { return sum(a * a * w); };
    return sum(grad(inner)(x)) + sum(grad(inner)(w));
  };
  for (int again = 0; again < 2; ++again) EXPECT_THAT(grad(outer)(x), IsNear(grad(plain)(x)));
}

struct CountOps : Handler {
  int n = 0;
  Outputs handle(Call& call) override { return ++n, perform(std::move(call)); }
};

TEST(Whole, UserHandlerSeesEachOperation) {
  const auto compiled = compile(smooth);
  grad(compiled)(x);
  CountOps of_compiled, of_f;
  with(of_compiled, [&] { grad(compiled)(x); });
  with(of_f, [&] { grad(smooth)(x); });
  EXPECT_EQ(of_compiled.n, of_f.n);
  CountOps inside, inside_f;
  grad([&](const Tensor& a) { return with(inside, [&] { return compiled(a); }); })(x);
  grad([&](const Tensor& a) { return with(inside_f, [&] { return smooth(a); }); })(x);
  EXPECT_EQ(inside.n, inside_f.n);
}

TEST(Whole, ThrowsTheErrorsOfTheFunction) {
  const auto f = compile([](const Tensor& a, const Tensor& i) { return sum(take(a, i, 0)); });
  const auto at = [&](std::int32_t i) { return grad([&](const Tensor& a) { return f(a, full({1}, i)); })(x); };
  EXPECT_THAT(at(1), Is(tensor({0., 1., 0.})));
  EXPECT_THROW(at(7), IndexError);
  EXPECT_THAT(at(2), Is(tensor({0., 0., 1.})));
  const auto no_rule = compile([](const Tensor& a) { return sum(astype(argsort(a), float32) * a); });
  EXPECT_THAT(grad(no_rule)(x), Is(tensor({0., 1., 2.})));
}

TEST(Whole, AcceptsZeroLanesAndOneLane) {
  const auto f = compile(smooth);
  EXPECT_EQ(vmap(f)(zeros({0, 3})).shape(), Shape({0}));
  EXPECT_EQ(vmap(grad(f))(zeros({0, 3})).shape(), Shape({0, 3}));
  EXPECT_THAT(vmap(grad(f))(reshape(x, {1, 3})), IsNear(reshape(grad(smooth)(x), {1, 3})));
}

TEST(Whole, CotangentsMayHaveAnyStrides) {
  const auto f = [](const Tensor& a) { return tanh(a) * a; };
  const auto compiled = compile(f);
  const Tensor m = reshape(arange(12.), {3, 4}) * 0.2;
  for (const auto& weigh : std::vector<std::function<Tensor(const Tensor&)>>{
           [](const Tensor& y) { return sum(y); }, [](const Tensor& y) { return sum(matrix_transpose(y)[0]); },
           [](const Tensor& y) { return sum(square(y)); }}) {
    const auto loss = [&](const auto& g) { return [&](const Tensor& a) { return weigh(g(a)); }; };
    EXPECT_THAT(grad(loss(compiled))(m), Is(grad(loss(f))(m)));
    EXPECT_THAT(grad(loss(compiled))(matrix_transpose(m)), Is(grad(loss(f))(matrix_transpose(m))));
  }
}

TEST(Whole, ThreadsMayCallItAtOnce) {
  const auto f = compile(smooth);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 1; i < 20; ++i) EXPECT_THAT(grad(f)(x * (t + i)), Is(grad(smooth)(x * (t + i))));
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Whole, CheapValuesAreRecomputedAndProductsSaved) {
  // The backward pass rematerialises chains of cheap operations from x, which the caller has, and
  // saves products.
  const Tensor big = ones({64, 128});
  const auto chain = trace([](const Tensor& a) {
    Tensor y = a;
    for (int i = 0; i < 10; ++i) y = y * y;
    return sum(y);
  })(big);
  const auto [forward, backward] = stave_detail::vjp_of(chain, {true}, std::vector{big});
  EXPECT_EQ(forward.outputs.size(), 2u) << forward;  // the sum, and `a`
  EXPECT_EQ(forward.outputs[1], forward.inputs[0]);
  const auto network = trace([](const Tensor& a, const Tensor& w) { return sum(tanh(matmul(tanh(matmul(a, w)), w))); })(
      big, ones({128, 128}));
  const auto parts = stave_detail::vjp_of(network, {false, true}, std::vector{big, ones({128, 128})});
  // The sum, a, w, the arguments of both tanh, and the inner tanh.
  EXPECT_EQ(parts.first.outputs.size(), 6u) << parts.first;
  EXPECT_EQ(parts.rest.outputs.size(), 1u);
  for (const auto& step : parts.rest.instructions) EXPECT_NE(step.op, &op_tanh);
}

}  // namespace
