// softmax and log_softmax: values and derivatives against PyTorch in float64,
// the ends of the range, and the operations that handlers see. tests/table
// and conformance_softmax_test.cpp test every layout and dtype.

#include <limits>
#include <sstream>

#include <stave/stave.h>

#include "matchers.h"

namespace softmax_test {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();

using Along = Tensor (*)(const Tensor&, Index);

/// Every fifth element of results for an x and a cotangent of shape [2, 3, 4]: y, ct^T dy/dx, and
/// the gradient of |ct^T dy/dx|^2.
struct FromPyTorch {
  Along f;
  Index axis;
  std::vector<double> value, cotangent, second;
};
const FromPyTorch from_pytorch[] = {
    {softmax,
     0,
     {0.029312230751356316, 0.029312230751356316, 0.8807970779778823, 0.11920292202211755, 0.9706877692486436},
     {-0.11381209551894222, 0.08535907163920667, -0.41997434161402625, 0.419974341614026, -0.0853590716392067},
     {0.04877527646792487, 0.027436093013207742, -0.5373151797579, 0.5373151797578999, -0.027436093013207742}},
    {log_softmax,
     0,
     {-3.5297504182726205, -3.5297504182726205, -0.1269280110429726, -2.1269280110429727, -0.029750418272620652},
     {-2.9413755384972875, 1.0293122307513562, -2.0, 2.0, -1.9706877692486438},
     {-0.669528227489067, 0.11714818192508888, 0.0, -0.0, 0.2242881046317379}},
    {softmax,
     1,
     {0.043986480292057845, 0.030058887569574023, 0.07252144568074777, 0.3661922162818002, 0.6037488961486258},
     {-0.24912005592025777, 0.0071406895315182, -0.07045204873830986, 0.4531836233747792, -0.4603243129062974},
     {0.2343305200972452, -0.02339067134069667, 0.011516872856534742, 0.2063981292860497, -0.18300745794535309}},
    {log_softmax,
     1,
     {-3.1238729583693674, -3.5045969023422834, -2.6238729583693674, -1.0045969023422834, -0.5045969023422835},
     {-3.0879729605841155, 0.909823337291278, -1.7824356629577567, 0.9014233511545993, -1.0},
     {0.7347550585084494, -0.29684697113570824, -1.3563648029854416, -3.5978803758731233, 0.0}},
    {softmax,
     2,
     {0.005347299048748962, 0.02174565548913305, 0.11431809514987194, 0.09745726653298453, 0.5681232040593225},
     {-0.009362561645827619, 0.03280775195697736, -0.21363688511950565, 0.3729205113663331, -0.12613842397133762},
     {-0.01410856959322194, -0.007446397276169356, 0.10730418183070353, 0.44362152864896776, -0.10004059476848533}},
    {log_softmax,
     2,
     {-5.231163696255373, -3.8283412890257247, -2.168770407939234, -2.3283412890257247, -0.5654169752270999},
     {-2.983958102853753, 1.0, -2.3429542854496157, 2.0974572665329845, 0.13624640811864497},
     {-0.1193575129927136, -0.0, 0.020099233634787987, 0.6567845060053441, 0.0435765465841578}}};

Tensor every_fifth(const Tensor& x) { return reshape(x, {24})(slice(none, none, 5)); }

TEST(Softmax, ValuesAndDerivativesEqualPyTorch) {
  const Tensor i = reshape(arange(24), {2, 3, 4});
  const Tensor x = astype(i * 7 % 11, float64) / 2 - 2.5, ct = astype(i * 5 % 7 - 3, float64);
  for (const FromPyTorch& expected : from_pytorch) {
    const auto f = [&](const Tensor& t) { return expected.f(t, expected.axis - 3); };
    const auto pulled_back = [&](const Tensor& t) { return std::get<0>(vjp(f, t).second(ct)); };
    EXPECT_THAT(every_fifth(f(x)), IsNear(from(expected.value, {5})));
    EXPECT_THAT(every_fifth(pulled_back(x)), IsNear(from(expected.cotangent, {5})));
    const auto size = [&](const Tensor& t) { return sum(square(pulled_back(t))); };
    EXPECT_THAT(every_fifth(grad(size)(x)), IsNear(from(expected.second, {5})));
  }
}

TEST(Softmax, AcceptsFloatsAndIntegers) {
  EXPECT_THAT(softmax(tensor({1000., 0., -1000.})), IsNear(tensor({1., 0., 0.})));
  EXPECT_THAT(log_softmax(tensor({1000., 0.})), IsNear(tensor({0., -1000.})));
  EXPECT_THAT(softmax(tensor({0, 0})), Equals(tensor({0.5, 0.5})));
  EXPECT_EQ(log_softmax(tensor({true, false})).dtype(), float32);
  EXPECT_EQ(softmax(zeros({2}, float64)).dtype(), float64);
}

TEST(Softmax, EmptyInputGivesAnEmptyResult) {
  for (const Shape& shape : {Shape{0}, Shape{2, 0}, Shape{0, 3}}) {
    const Tensor x = zeros(shape);
    EXPECT_THAT(softmax(x), Equals(x));
    EXPECT_THAT(log_softmax(x, 0), Equals(x));
    EXPECT_THAT(grad([](const Tensor& t) { return sum(softmax(t)); })(x), Equals(x));
  }
}

TEST(Softmax, InfinitiesAndNan) {
  for (Dtype dtype : {float32, float64}) {
    const auto row = [&](std::vector<double> x) { return astype(from(x, {static_cast<Index>(x.size())}), dtype); };
    EXPECT_THAT(softmax(row({-inf, 0, 0})), Equals(row({0, 0.5, 0.5})));
    EXPECT_THAT(log_softmax(row({-inf, 0})), Equals(row({-inf, 0})));
    for (const auto& x : {row({-inf, -inf}), row({inf, 0}), row({nan, 0}), row({inf, -inf}), row({inf, 1000})}) {
      EXPECT_THAT(softmax(x), IsNear(row({nan, nan})));
      EXPECT_THAT(log_softmax(x), IsNear(row({nan, nan})));
    }
  }
}

// Elements masked by -inf have weight 0. No derivative flows to or from them,
// not even the derivative of their own logarithm.
TEST(Softmax, MaskedElementsLeakNoNan) {
  const Tensor x = tensor({-inf, 0., 0.}), ones = tensor({1., 1., 1.}), first = tensor({1., 0., 0.});
  const auto entropy = [](const Tensor& t) { return -sum(scale(log_softmax(t), softmax(t))); };
  EXPECT_THAT(grad(entropy)(x), IsNear(tensor({0., 0., 0.})));
  const auto weights = [](const Tensor& t) { return softmax(t); };
  for (const Tensor& tangent : {first, ones})
    EXPECT_THAT(jvp(weights, x, tangent).second, IsNear(tensor({0., 0., 0.})));
  const auto weight = [](const Tensor& t) { return log_softmax(t)(1); };
  EXPECT_THAT(grad(weight)(x), IsNear(tensor({0., 0.5, -0.5})));
  EXPECT_THAT(hessian(weight)(x), IsNear(tensor({{0., 0., 0.}, {0., -0.25, 0.25}, {0., 0.25, -0.25}})));
}

TEST(Softmax, Errors) {
  const Tensor x = zeros({2, 3});
  EXPECT_THAT([&] { softmax(x, 2); }, ThrowsMessage<IndexError>("softmax: axis 2 is out of range for rank 2"));
  EXPECT_THAT([] { log_softmax(tensor(1.)); },
              ThrowsMessage<IndexError>("log_softmax: axis -1 is out of range for rank 0"));
  EXPECT_THAT(
      [] {
        Call(op_softmax, {tensor({1, 2})}, make_intrusive<AxisAttributes>(0));
      },
      ThrowsMessage<DtypeError>("softmax: int32 is not a floating dtype: convert with astype"));
}

TEST(Softmax, IsOneOperation) {
  std::ostringstream trace, batched;
  debug([](const Tensor& x) { return softmax(x, 1); }, {.out = &trace})(zeros({2, 3}));
  EXPECT_THAT(trace.str(), HasSubstr("softmax axis=1 f32[2,3] -> f32[2,3]"));
  debug(vmap([](const Tensor& x) { return log_softmax(x); }), {.out = &batched})(zeros({2, 3}));
  EXPECT_THAT(batched.str(), HasSubstr("log_softmax axis=1 f32[2,3] -> f32[2,3]"));
}

}  // namespace softmax_test
