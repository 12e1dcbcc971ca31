// Values that leave the library: elements read on the host, and foreign code that computes with
// elements.
#include <numeric>
#include <sstream>

#include <stave/stave.h>

#include "files.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using T = const Tensor&;

// ---- reading ------------------------------------------------------------------------------------

Tensor by_elements(T x) { return sum(from(x.to_vector<float>(), x.shape()) * x); }

TEST(Reading, ThatWouldLoseADerivativeIsAnError) {
  const Tensor x = tensor({1., 2., 3.});
  const auto loses = [](const std::string& what, const std::string& transform) {
    return AllOf(HasSubstr(what + ": " + transform + " differentiates this value (float32 [3])"),
                 HasSubstr("stop_gradient(x)." + what));
  };
  EXPECT_THAT(message_of<TransformError>([&] { grad(by_elements)(x); }), loses("to_vector", "grad"));
  EXPECT_THAT(message_of<TransformError>([&] { vjp(by_elements, x); }), loses("to_vector", "vjp"));
  EXPECT_THAT(message_of<TransformError>([&] { jvp(by_elements, x, x); }), loses("to_vector", "jvp"));
  EXPECT_THAT(message_of<TransformError>([&] { linearize(by_elements, x); }), loses("to_vector", "linearize"));
  EXPECT_THAT(message_of<TransformError>([&] { hessian(by_elements)(x); }), HasSubstr("differentiates this value"));
  EXPECT_THAT(message_of<TransformError>([&] { grad([](T v) { return v(0) * v.data<float>()[0]; })(x); }),
              loses("data", "grad"));
  EXPECT_THAT(message_of<TransformError>([&] { grad([](T v) { return by_elements(sin(v)); })(x); }),
              loses("to_vector", "grad"));
}

// Reading a value that the outer transform traces loses a derivative, although the inner transform
// does not trace it.
TEST(Reading, IsAnErrorForEachTransformAroundIt) {
  const Tensor x = tensor({1., 2., 3.});
  const auto inner = [](T outer) { return grad([&](T v) { return by_elements(outer) * sum(v); })(ones({2}))(0); };
  EXPECT_THAT(message_of<TransformError>([&] { grad(inner)(x); }), HasSubstr("differentiates this value"));
}

TEST(Reading, OfConstantsAndStoppedValuesIsAllowed) {
  const Tensor x = tensor({1., 2., 3.});
  const auto stopped = [](T v) {
    const Tensor constant = stop_gradient(v);
    EXPECT_EQ(constant.data<float>()[2], 3);
    return sum(from(constant.to_vector<float>(), v.shape()) * v);
  };
  EXPECT_THAT(grad(stopped)(x), Equals(x));
  const auto captured = [&](T v) { return sum(from(x.to_vector<float>(), x.shape()) * v); };
  EXPECT_THAT(grad(captured)(x), Equals(x));
  const auto index = [](T v) { return take(v, from(argsort(v).to_vector<int>(), v.shape()))(0); };
  EXPECT_THAT(grad(index)(x), Equals(tensor({1., 0., 0.})));
  Tensor kept;  // a value of a transform that has ended
  grad([&](T v) { return sum(kept = v * 2.); })(x);
  EXPECT_THAT(kept.to_vector<float>(), ElementsAre(2, 4, 6));
  auto [y, pullback] = vjp([&](T v) { return kept = v * 3.; }, x);
  EXPECT_THAT(kept.to_vector<float>(), ElementsAre(3, 6, 9));
}

TEST(Reading, OfSingleElementsAndPrintingAreAllowed) {
  const Tensor x = tensor({1., 2., 3.});
  std::ostringstream out;
  const auto f = [&](T v) {
    out << v << "\n";
    Tensor y = sum(v);
    while (y.item<float>() < 20 && bool(y > 0)) y = y * 2.;
    return y;
  };
  EXPECT_THAT(grad(f)(x), Equals(full({3}, 4.)));
  EXPECT_EQ(out.str(), "[1. 2. 3.]\n");
}

// A handler reads the inputs of each operation. Outside the transform (`below`) no derivative is
// lost; inside it (`above`) the derivative would be lost, which is an error.
TEST(Reading, InHandlersOutsideTheTransformIsAllowed) {
  struct Reads : Handler {
    std::vector<float> seen;
    Outputs handle(Call& call) override {
      for (T input : call.inputs()) seen.push_back(input.to_vector<float>().at(0));
      return perform(std::move(call));
    }
  } below, above;
  const Tensor x = tensor({1., 2., 3.});
  const auto f = [](T v) { return sum(v * v); };
  EXPECT_THAT(with(below, [&] { return grad(f)(x); }), Equals(tensor({2., 4., 6.})));
  EXPECT_GE(below.seen.size(), 3u);
  EXPECT_THAT(message_of<TransformError>([&] { grad([&](T v) { return with(above, [&] { return f(v); }); })(x); }),
              HasSubstr("to_vector: grad differentiates this value"));
}

TEST(Reading, ByObserversIsAllowed) {
  const Tensor x = tensor({1., 2., 3.});
  const Folder folder;
  const std::string path = folder / "values.npz";
  std::ostringstream trace;
  Profile profile;
  const auto f = [&](T v) {
    const TensorTracking tracking;
    const Tensor y = v * v;
    save_npz(path, std::vector<Tensor>{y});
    EXPECT_FALSE(whos().str().empty());
    return with(profile, [&] { return debug([&] { return sum(y); }, {.out = &trace, .values = true})(); });
  };
  EXPECT_THAT(grad(f)(x), Equals(tensor({2., 4., 6.})));
  EXPECT_THAT(load_npz<std::vector<Tensor>>(path)[0], Equals(tensor({1., 4., 9.})));
  check_grads([](T v) { return sum(v * v); }, astype(x, float64));
}

TEST(Reading, OfALaneMayNotLoseADerivative) {
  const Tensor rows = tensor({{1., 2., 3.}, {4., 5., 6.}});
  EXPECT_THAT(vmap(by_elements)(rows), Equals(stack({by_elements(rows[0]), by_elements(rows[1])})));
  EXPECT_THAT(message_of<TransformError>([&] { vmap(grad(by_elements))(rows); }),
              HasSubstr("to_vector: grad differentiates this value (float32 [3])"));
  EXPECT_THAT(message_of<TransformError>([&] { grad([](T v) { return sum(vmap(by_elements)(v)); })(rows); }),
              HasSubstr("to_vector: grad differentiates this value (float32 [2,3])"));
}

// ---- host_call ----------------------------------------------------------------------------------

// Sums along the last axis, and counts its calls.
struct SumsRows {
  std::shared_ptr<int> calls = std::make_shared<int>(0);
  Tensor operator()(T x) const {
    ++*calls;
    const std::span<const float> in = x.data<float>();
    const auto width = static_cast<std::size_t>(x.shape(-1));
    std::vector<float> out(in.size() / width);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = std::accumulate(in.begin() + static_cast<std::ptrdiff_t>(i * width),
                               in.begin() + static_cast<std::ptrdiff_t>((i + 1) * width), 0.f);
    Shape shape = x.shape();
    shape.pop_back();
    return from(out, shape);
  }
};
const Abstract number{Shape{}, float32};

TEST(HostCall, ComputesOnArraysOfTheHost) {
  const SumsRows rows;
  const auto f = host_call(rows, {number});
  EXPECT_THAT(f(tensor({1., 2., 3.})), IsNumber(6));
  EXPECT_THAT(f(tensor({{1., 2.}, {3., 4.}})(slice(), 1)), IsNumber(6)) << "contiguous, whatever the layout was";
  EXPECT_EQ(*rows.calls, 2);
}

TEST(HostCall, AcceptsTreesAndOtherArguments) {
  const auto f = host_call(
      [](const std::pair<Tensor, Tensor>& both, double scale) {
        return std::pair(full({}, both.first.to_vector<float>()[0] * scale), full({2}, both.second.data<int>()[1]));
      },
      {{Shape{}, float32}, {Shape{2}, int32}});
  const auto [a, b] = f(std::pair(tensor({2., 1.}), tensor({7, 8})), 1.5);
  EXPECT_THAT(a, IsNumber(3));
  EXPECT_THAT(b, Equals(tensor({8, 8})));
}

TEST(HostCall, HasNoDerivativeOfItsOwn) {
  const auto f = host_call(SumsRows(), {number});
  const Tensor x = tensor({1., 2., 3.});
  const auto says = AllOf(HasSubstr("host_call: "), HasSubstr(" differentiates this value"), HasSubstr("custom_vjp"));
  EXPECT_THAT(message_of<TransformError>([&] { grad([&](T v) { return f(v); })(x); }), says);
  EXPECT_THAT(message_of<TransformError>([&] { jvp([&](T v) { return f(v); }, x, x); }), says);
  EXPECT_THAT(message_of<TransformError>([&] { vmap(grad([&](T v) { return f(v); }))(ones({2, 3})); }), says);
  EXPECT_THAT(message_of<TransformError>([&] { grad([&](T v) { return sum(vmap(f)(v)); })(ones({2, 3})); }), says);
  EXPECT_THAT(grad([&](T v) { return f(stop_gradient(v)) * v(0); })(x), Equals(tensor({6., 0., 0.})));
  EXPECT_THAT(grad([&](T v) { return f(x) * v(0); })(x), Equals(tensor({6., 0., 0.})));
}

TEST(HostCall, UsesTheGivenDerivative) {
  const auto host = host_call(SumsRows(), {number});
  const auto f = custom_vjp([=](T x) { return host(x); }, [=](T x) { return std::pair(host(x), x); },
                            [](T x, T g) { return broadcast_to(g, x.shape()); });
  const Tensor x = tensor({1., 2., 3.});
  EXPECT_THAT(grad([&](T v) { return f(v * v); })(x), Equals(tensor({2., 4., 6.})));
  EXPECT_THAT(jvp([&](T v) { return f(v * v); }, x, ones({3})).second, IsNumber(12));
  EXPECT_THAT(vmap(grad([&](T v) { return f(v * v); }))(stack({x, x})), Equals(stack({x, x}) * 2.));
}

TEST(HostCall, IsCalledForEachLaneOrOnceForAll) {
  const Tensor x = linspace(0, 1, 24), cube = reshape(x, {4, 3, 2});
  for (const VmapMethod method : {VmapMethod::sequential, VmapMethod::broadcast_all}) {
    const bool each = method == VmapMethod::sequential;
    const SumsRows rows;
    const auto f = host_call(rows, {number}, {.vmap_method = method});
    EXPECT_THAT(vmap(f)(reshape(x, {12, 2})), IsNear(sum(reshape(x, {12, 2}), 1)));
    EXPECT_EQ(*rows.calls, each ? 12 : 1);
    EXPECT_THAT(vmap(vmap(f))(cube), IsNear(sum(cube, 2)));
    EXPECT_EQ(*rows.calls, each ? 24 : 2);
    EXPECT_THAT(vmap(f)(zeros({0, 2})), Equals(zeros({0})));
  }
}

TEST(HostCall, AcceptsUnbatchedArguments) {
  const auto dot = [](T a, T b) {
    const std::vector<float> x = a.to_vector<float>(), y = b.to_vector<float>();
    const std::size_t width = static_cast<std::size_t>(a.shape(-1));
    std::vector<float> out(x.size() / width);
    for (std::size_t i = 0; i < x.size(); ++i) out[i / width] += x[i] * y[i];
    return a.rank() == 1 ? full({}, out[0]) : from(out, Shape{out.size()});
  };
  const Tensor a = tensor({1., 2.}), bs = tensor({{1., 0.}, {0., 1.}, {1., 1.}});
  for (const VmapMethod method : {VmapMethod::sequential, VmapMethod::broadcast_all})
    EXPECT_THAT(vmap(host_call(dot, {number}, {.vmap_method = method}), {.in_axes = {unmapped, 0}})(a, bs),
                Equals(tensor({1., 2., 3.})));
}

TEST(HostCall, ReturningAnUndeclaredResultIsAnError) {
  const Tensor x = ones({3});
  const auto returning = [&](Tensor y, Abstract announced) {
    return [=] { host_call([=](T) { return y; }, {announced})(x); };
  };
  EXPECT_EQ(message_of<ShapeError>(returning(ones({2}), number)),
            "host_call: result 0 of the function has shape [2], but [] was declared");
  EXPECT_EQ(message_of<DtypeError>(returning(full({}, 1), number)),
            "host_call: result 0 of the function is int32, but float32 was declared");
  EXPECT_THAT(message_of<TransformError>(returning(Tensor(), number)),
              HasSubstr("result 0 of the function is an empty"));
  EXPECT_THAT(message_of<TransformError>([&] { host_call([](T v) { return std::pair(v, v); }, {number})(x); }),
              HasSubstr("returned 2 tensors, but 1 were declared"));
}

TEST(HostCall, HandlersSeeOneOperation) {
  CountOps count;
  const Tensor x = ones({3});
  with(count, [&] { return host_call([](T v) { return sum(v * 2. + 1.); }, {number})(x); });
  EXPECT_EQ(count.n, 1);
}

}  // namespace
