// Results within a dtype's range whose intermediate values are outside of it: counts of ties,
// squares of large and of small numbers, factorials. Also products of bools and of small integers.
// Expected values are closed forms, or come from mpmath and PyTorch in float64.

#include <cmath>
#include <limits>
#include <sstream>

#include <stave/stave.h>

#include "matchers.h"

namespace counts_and_scales_test {

using namespace stave;
using namespace stave_test;

using T = const Tensor&;
using Function = std::function<Tensor(T)>;

constexpr double inf = std::numeric_limits<double>::infinity();

double number(T x) { return values(x).at(0); }
double total(T x) { return number(sum(astype(x, float64))); }
void expect_ratio(double got, double wanted, double tolerance, const std::string& what) {
  EXPECT_LE(std::abs(got - wanted), tolerance * std::abs(wanted)) << what << " is " << got << ", not " << wanted;
}

// ---- ties ---------------------------------------------------------------------------------------

// Functions of n equal numbers, which share the derivative equally.
std::vector<std::pair<std::string, Function>> choices_of(Index n) {
  const Tensor nowhere = zeros({n}, int32);
  return {
      {"max", [](T x) { return max(x); }},
      {"min", [](T x) { return min(x); }},
      {"max over axes",
       [n](T x) {
         return sum(max(reshape(x, {1, n}), 1));
       }},
      {"max of relu", [](T x) { return max(relu(x + 1) + x * 0); }},
      {"segment_max", [=](T x) { return sum(segment_max(x, nowhere, 1)); }},
      {"segment_min", [=](T x) { return sum(segment_min(x, nowhere, 1)); }},
      {"at().max", [=](T x) { return sum(full({1}, -9, x.dtype()).at(nowhere).max(x)); }},
      {"at().min", [=](T x) { return sum(full({1}, 9, x.dtype()).at(nowhere).min(x)); }},
      {"scatter_max", [=](T x) { return sum(scatter_max(full({1}, -9, x.dtype()), expand_dims(nowhere, -1), x)); }},
      {"vector_norm", [](T x) { return vector_norm(x + 1, inf); }},
      {"vector_norm -inf", [](T x) { return vector_norm(x + 1, -inf); }},
      {"matrix_norm",
       [n](T x) {
         return matrix_norm(reshape(x + 1, {n, 1}), inf);
       }},
      {"global maximum of lanes",
       [](T x) { return vmap([](T lane) { return pmax(lane, "i"); }, {.axis_name = "i"})(x)[0]; }},
  };
}

TEST(Ties, MayBeMoreThanTheDtypeCanCount) {
  struct Case {
    Dtype dtype;
    Index n;
    double tolerance;
  };
  for (const auto& [dtype, n, tolerance] :
       {Case{float16, 70000, 0.003}, Case{float16, 65000, 0.003}, Case{float16, 2049, 0.0005},
        Case{bfloat16, 257, 0.002}, Case{bfloat16, 1000, 0.004}, Case{float32, 70000, 1e-6}})
    for (const auto& [name, f] : choices_of(n)) {
      const std::string what = name + " of " + std::to_string(n) + " " + name_of(dtype);
      const Tensor x = zeros({n}, dtype), g = grad(f)(x);
      EXPECT_EQ(g.dtype(), dtype);
      expect_ratio(number(g[0]), 1. / static_cast<double>(n), tolerance, what);
      expect_ratio(number(g[n - 1]), 1. / static_cast<double>(n), tolerance, what);
      expect_ratio(total(g), 1, tolerance, "sum of " + what);
      expect_ratio(number(jvp(f, x, ones_like(x)).second), 1, 1e-6, "jvp of " + what);
    }
}

TEST(Ties, UnderVmapMayBeMoreThanTheDtypeCanCount) {
  const Tensor x = zeros({2, 70000}, float16);
  const Tensor g = vmap(grad([](T row) { return max(row); }))(x);
  expect_ratio(total(g), 2, 0.003, "vmap of grad");
  const Tensor share = grad([](T y) { return sum(vmap([](T row) { return max(row); })(y)); })(x);
  EXPECT_THAT(share, Equals(g));
  EXPECT_THAT(compile(grad([](T row) { return max(row); }))(x[0]), Equals(g[0]));
  const auto twice = grad([](T t) { return sum(grad([](T row) { return max(row) * max(row); })(t)); });
  expect_ratio(total(twice(x[0] + 1)), 2, 0.003, "second derivative of the square");
}

TEST(Means, Of16BitFloatsDoNotOverflow) {
  for (const Dtype dtype : {float16, bfloat16}) {
    const Tensor x = ones({100000}, dtype);
    EXPECT_THAT(mean(x), IsNumber(1));
    EXPECT_THAT(var(x), IsNumber(0));
    expect_ratio(total(grad([](T y) { return mean(y); })(x)), 1, 0.01, "derivative of mean");
    const Tensor planes = ones({1, 1, 300, 300}, dtype);
    EXPECT_THAT(avg_pool(planes, {300, 300}), Equals(ones({1, 1, 1, 1}, dtype)));
    EXPECT_THAT(avg_pool(planes, {299, 299}, {.stride = 300}), Equals(ones({1, 1, 1, 1}, dtype)));
    EXPECT_THAT(mse_loss(x, zeros_like(x)), IsNumber(1));
    EXPECT_THAT(scatter_add(zeros({1}, dtype), zeros({1000, 1}, int32), ones({1000}, dtype)),
                Equals(astype(tensor({1000.}), dtype)));
    const auto [y, now] = batch_norm(ones({100000, 1}, dtype), {zeros({1}), ones({1})});
    EXPECT_THAT(now.mean, IsNear(tensor({0.1f})));
  }
}

// ---- squares beyond the range of a dtype --------------------------------------------------------

struct Normal {
  std::string name;
  std::function<Tensor(T, double epsilon)> f;
  // Values at [1, 2, -3, 5], by PyTorch: the result, the gradient of its sum weighted by `weights`,
  // and the derivative of that gradient along `along`.
  std::vector<double> value, gradient, second;
};
const std::vector<double> weights{1, -2, 3, 0.5}, along{1, 0, -1, 2};

std::vector<Normal> normals() {
  const std::vector<double> y{-0.0873704056661038, 0.26211121699831136, -1.4852968963237645, 1.310556084991557},
      g{0.09737465058970352, -0.8163463857657332, 0.2574425693672982, 0.46152916580873143},
      h{0.050820545968128183, 0.16634030032765823, 0.007585915998047518, -0.22474676229383395};
  const auto on_channels = [](T x) { return reshape(x, {4, 1}); };
  return {
      {"layer_norm", [](T x, double e) { return layer_norm(x, {.epsilon = e}); }, y, g, h},
      {"layer_norm of rows of two",
       [](T x, double e) {
         return layer_norm(stack({x, x}), {.epsilon = e})[1];
       },
       y, g, h},
      {"layer_norm over the first axis",
       [](T x, double e) {
         return layer_norm(stack({x, -x}, 1), {.epsilon = e, .axes = 0})(ellipsis, 0);
       },
       y, g, h},
      {"layer_norm in lanes",
       [](T x, double e) {
         return vmap([e](T row) { return layer_norm(row, {.epsilon = e}); })(stack({x, x}))[0];
       },
       y, g, h},
      {"group_norm",
       [](T x, double e) {
         return reshape(group_norm(reshape(x, {1, 4}), 1, {.epsilon = e}), {4});
       },
       y, g, h},
      {"batch_norm",
       [=](T x, double e) {
         const Tensor zero = zeros({1}, x.dtype());
         return reshape(batch_norm(on_channels(x), {zero, zero + 1}, {.epsilon = e}).first, {4});
       },
       y, g, h},
      {"by std", [](T x, double) { return (x - mean(x)) / stave::std(x); }, y, g, {}},
      {"rms_norm",
       [](T x, double e) { return rms_norm(x, {.epsilon = e}); },
       {0.32025630761017426, 0.6405126152203485, -0.9607689228305227, 1.6012815380508714},
       {0.39826745946393466, -0.48449031151282773, 0.7267354672692417, 0.550183913073889},
       {-0.11275296037162938, 0.07832698647665014, -0.1955016315687356, -0.2804611451260697}},
      {"normalize",
       [](T x, double e) { return normalize(x, {.epsilon = e}); },
       {0.16012815380508713, 0.32025630761017426, -0.48038446141526137, 0.8006407690254357},
       {0.19913372973196733, -0.24224515575641387, 0.3633677336346208, 0.2750919565369445},
       {-0.0563764801858147, 0.039163493238325076, -0.09775081578436781, -0.14023057256303487}},
  };
}

void check_normal(const Normal& normal, Dtype dtype, double scale, double epsilon, double tolerance) {
  SCOPED_TRACE(normal.name + " of " + name_of(dtype) + " times " + std::to_string(std::log10(scale)));
  const auto given = [&](const std::vector<double>& numbers) { return astype(from(numbers), dtype); };
  const Tensor x = astype(from(std::vector{1., 2., -3., 5.}) * scale, dtype), w = given(weights);
  const auto f = [&](T t) { return normal.f(t, epsilon); };
  const Function loss = [&](T t) { return sum(f(t) * w); };
  EXPECT_THAT(f(x), IsNear(given(normal.value), tolerance));
  EXPECT_THAT(grad(loss)(x) * scale, IsNear(given(normal.gradient), tolerance));
  double forward = 0;
  for (std::size_t i = 0; i < 4; ++i) forward += normal.gradient[i] * along[i];
  const Tensor v = astype(from(along) * scale, dtype);
  EXPECT_THAT(jvp(loss, x, v).second, IsNumber(forward, tolerance));
  if (is_half_float(dtype) || normal.second.empty()) return;
  const Function slope = [&](T t) { return sum(grad(loss)(t) * v); };
  EXPECT_THAT(grad(slope)(x) * scale, IsNear(given(normal.second), 8 * tolerance));
  const Function forwards = [&](T t) { return jvp(loss, t, v).second; };
  EXPECT_THAT(grad(forwards)(x) * scale, IsNear(given(normal.second), 8 * tolerance));
  EXPECT_THAT(compile(f)(x), IsNear(given(normal.value), tolerance));
}

TEST(Normalization, LargeNumbersDoNotOverflow) {
  for (const Normal& normal : normals()) {
    check_normal(normal, float32, 1e20, 1e-5, 4e-6);
    check_normal(normal, float32, 3e37, 1e-5, 4e-6);
    check_normal(normal, bfloat16, 1e20, 1e-5, 0.02);
    check_normal(normal, float64, 1e200, 1e-5, 1e-13);
    check_normal(normal, float64, 1e300, 1e-5, 1e-13);
  }
}
TEST(Normalization, SmallNumbersDoNotUnderflow) {
  for (const Normal& normal : normals()) {
    check_normal(normal, float32, 1e-25, 0, 4e-6);
    check_normal(normal, bfloat16, 1e-25, 0, 0.02);
    check_normal(normal, float64, 1e-200, 0, 1e-13);
    check_normal(normal, float32, 1, 0, 4e-6);
    check_normal(normal, float64, 1, 0, 1e-13);
  }
}

// x / sqrt(epsilon), where epsilon outweighs the variance; and a row of equal elements beside other
// rows.
TEST(Normalization, EpsilonOutweighsSmallNumbers) {
  const Tensor x = tensor({1e-30, -1e-30}, float32);
  const double by = 1 / std::sqrt(1e-5);
  for (const auto& [function, slope] : std::vector<std::pair<Function, double>>{
           {[](T t) { return layer_norm(t, {.epsilon = 1e-5}); }, by / 2},
           {[](T t) { return layer_norm(expand_dims(t, 1), {.epsilon = 1e-5, .axes = 0})(ellipsis, 0); }, by / 2},
           {[](T t) { return rms_norm(t, {.epsilon = 1e-5}); }, by}}) {
    const auto& f = function;  // clang 14 does not let lambdas capture structured bindings
    EXPECT_THAT(f(x) * 1e30, IsNear(tensor({by, -by}, float32), 4e-6));
    EXPECT_THAT(grad([&](T t) { return f(t)[0]; })(x)[0], IsNumber(slope, 4e-6));
    const Tensor level = tensor({1e20, 1e20}, float32);
    if (slope < by) {
      EXPECT_THAT(f(level), Equals(zeros({2})));
      EXPECT_THAT(grad([&](T t) { return f(t)[0]; })(level)[0], IsNumber(slope, 4e-6));
    }
  }
  EXPECT_THAT(normalize(tensor({0., 0.}, float32)), Equals(zeros({2})));
  EXPECT_THAT(normalize(x) * 1e18, IsNear(tensor({1., -1.}, float32), 4e-6));
  EXPECT_THAT(normalize(tensor({3e38, -3e38}, float32)),
              IsNear(tensor({std::sqrt(.5), -std::sqrt(.5)}, float32), 4e-6));
}

TEST(Normalization, InfinityAndNanPropagate) {
  for (const double bad : {inf, std::nan("")}) {
    const Tensor x = tensor({1., bad, 2., 3.}, float32);
    EXPECT_TRUE(bool(all(isnan(layer_norm(x)))));
    EXPECT_TRUE(bool(all(isnan(layer_norm(expand_dims(x, 1), {.axes = 0})))));
  }
  EXPECT_TRUE(bool(all(isnan(rms_norm(tensor({1., std::nan(""), 2.}))))));
}

// The squares are within range, but their sum is not.
TEST(Spread, OverflowsOnlyWhereItsResultDoes) {
  const Index n = 1000;
  const Tensor sign = where(arange(n) % 2 == 0, 1., -1.);
  const Tensor x = astype(sign, float32) * 1e19;
  EXPECT_THAT(var(x) / 1e38, IsNumber(1));
  EXPECT_THAT(var(x, all_axes, drop_dims, 1) / 1e38, IsNumber(1000. / 999));
  EXPECT_THAT(grad([](T t) { return var(t); })(x)[0] / 1e16, IsNumber(2));
  const Tensor y = astype(sign, float32) * 1e38;
  EXPECT_THAT(stave::std(y) / 1e38, IsNumber(1));
  EXPECT_THAT(grad([](T t) { return stave::std(t); })(y)[1], IsNumber(-1e-3, 1e-8));
  EXPECT_THAT(stave::std(y * 1e-38 * 1e-38) * 1e38, IsNumber(1));
  EXPECT_THAT(var(astype(sign, float64) * 1e153) / 1e306, IsNumber(1, 1e-14));
}

// ---- norms at 0 ---------------------------------------------------------------------------------

TEST(MatrixNorm, DerivativeAtTheZeroMatrixIsZero) {
  for (const Dtype dtype : {float16, bfloat16, float32, float64})
    for (const Shape& shape : {Shape{2, 2}, Shape{3, 2}, Shape{2, 4}, Shape{2, 3, 3}})
      for (const MatrixOrder order : {MatrixOrder("nuc"), MatrixOrder("fro"), MatrixOrder(2), MatrixOrder(-2),
                                      MatrixOrder(1), MatrixOrder(-1), MatrixOrder(inf), MatrixOrder(-inf)}) {
        const auto f = [&](T x) { return sum(matrix_norm(x, order)); };
        const Tensor zero = zeros(shape, dtype);
        EXPECT_THAT(grad(f)(zero), Equals(zero)) << shape;
        EXPECT_THAT(jvp(f, zero, ones_like(zero)).second, IsNumber(0, 0));
        EXPECT_THAT(vmap(grad(f))(stack({zero, zero})), Equals(stack({zero, zero})));
      }
}

// The subgradient of the least norm: u v^T over the singular values that are not 0.
TEST(MatrixNorm, RankDeficientMatrixHasTheLeastSubgradient) {
  const auto of = [](MatrixOrder order, T a) { return grad([=](T x) { return matrix_norm(x, order); })(a); };
  const Tensor corner = tensor({{1., 0.}, {0., 0.}}, float64);
  EXPECT_THAT(of("nuc", corner), IsNear(corner));
  EXPECT_THAT(of(2, corner), IsNear(corner));
  EXPECT_THAT(of(-2, corner), IsNear(corner * 0));
  // [1 2]^T [1 2] has the one nonzero singular value 5: u v^T is the matrix divided by 5.
  const Tensor a = tensor({{1., 2.}, {2., 4.}}, float64);
  EXPECT_THAT(of("nuc", a), IsNear(a / 5));
  EXPECT_THAT(of(2, a), IsNear(a / 5));
  EXPECT_THAT(of(-2, a), IsNear(a * 0));
  EXPECT_THAT(of("nuc", astype(a, float32)), IsNear(astype(a / 5, float32)));
  const Tensor regular = tensor({{2., 0.}, {0., -3.}}, float64);
  EXPECT_THAT(of("nuc", regular), IsNear(tensor({{1., 0.}, {0., -1.}}, float64)));
  EXPECT_THAT(of(-2, regular), IsNear(tensor({{1., 0.}, {0., 0.}}, float64)));
}

template <class F>
bool is_trapped(F f, T x) {
  std::ostringstream lines;
  try {
    debug(f, {.out = &lines, .trap_nan = true, .print = false})(x);
  } catch (const TransformError&) {
    return true;
  }
  return false;
}

// There is no second derivative at 0, and derivatives that depend on it are wrong, so that the trap
// must stop there.
TEST(Norm, NanTrapReportsItsSecondDerivativeAtZero) {
  const std::vector<Function> norms = {[](T x) { return norm(x); }, [](T x) { return vector_norm(x); },
                                       [](T x) {
                                         return matrix_norm(reshape(x, {1, 2}));
                                       }};
  for (const Function& length : norms) {
    const auto bell = [&](T x) { return exp(-square(length(x))); };
    for (const Dtype dtype : {float32, float64}) {
      const Tensor zero = zeros({2}, dtype), elsewhere = tensor({1., -2.}, dtype);
      EXPECT_TRUE(is_trapped(hessian(bell), zero));
      EXPECT_TRUE(is_trapped(jacfwd(jacfwd(bell)), zero));
      EXPECT_TRUE(is_trapped(jacrev(jacfwd(bell)), zero));
      EXPECT_FALSE(is_trapped(grad(bell), zero));
      EXPECT_FALSE(is_trapped(hessian(bell), elsewhere));
      EXPECT_FALSE(is_trapped(grad(length), zero));
      const auto chosen = [&](T x) { return where(sum(abs(x)) > 0, length(x), 0); };
      EXPECT_FALSE(is_trapped(jacrev(grad(chosen)), zero));
      EXPECT_THAT(hessian(length)(zero), Equals(zeros({2, 2}, dtype)));
    }
  }
}

// ---- polygamma ----------------------------------------------------------------------------------

TEST(Polygamma, IsAccurateWhereZetaUnderflowsOrFactorialsOverflow) {
  struct Case {
    int n;
    double x, y;  // by mpmath
  };
  const std::vector<Case> cases = {{1, 2.5, 0.49035775610023486497},         {34, 40, -4.3722504662721269859e-18},
                                   {20, 200, -1.2191178556361741924e-29},    {160, 148, -2.763201555613159359e-65},
                                   {8, 1e30, -5.0399999999999991983e-237},   {9, 1e30, 4.0319999999999992784e-266},
                                   {9, 0.25, 380507297956.0486819},          {40, 100, -2.4755394386177308126e-34},
                                   {200, 1000, -4.3508192705971018437e-228}, {12, -1.5, -3256.69798040269786},
                                   {25, 1e8, 6.2044847928929301678e-177}};
  for (const auto& [n, x, y] : cases) {
    const std::string what = "polygamma(" + std::to_string(n) + ", " + std::to_string(x) + ")";
    expect_ratio(number(polygamma(n, tensor(x, float64))), y, 4e-15, what);
    if (std::abs(y) > 2e-38 && x == float(x)) expect_ratio(number(polygamma(n, tensor(x, float32))), y, 6e-8, what);
    if (n == 0) continue;
    const double slope = number(grad([n = n - 1](T t) { return polygamma(n, t); })(tensor(x, float64)));
    expect_ratio(slope, y, 2e-14, "derivative of " + std::to_string(n - 1));
  }
  EXPECT_EQ(number(polygamma(400, tensor(3.5, float64))), -inf);
  EXPECT_EQ(number(polygamma(200, tensor(inf, float64))), 0);
  EXPECT_EQ(number(polygamma(33, tensor(0., float64))), inf);
  EXPECT_EQ(number(polygamma(33, tensor(-2., float64))), inf);
  EXPECT_TRUE(std::isnan(number(polygamma(33, tensor(std::nan(""), float64)))));
  EXPECT_THAT(polygamma(2, tensor(1., float16)), IsNumber(-2.4041138063191886, 1e-3));
  EXPECT_THAT(polygamma(3, tensor(1.)), IsNumber(6.4939394022668291, 2e-7));
  EXPECT_THAT(vmap([](T t) { return polygamma(34, t); })(tensor({40., 41.}))[0] * 1e18, IsNumber(-4.3722504662721270));
}

// ---- bools and small integers -------------------------------------------------------------------

// In products and sums, true and false act as 1 and 0 of int32, as in + and *.
TEST(Bools, ActAsInt32InProductsAndSums) {
  const Tensor a = tensor({{true, true}, {false, true}}), v = tensor({true, true}), i = zeros({2, 1}, int32);
  const Tensor square = tensor({{1, 2}, {0, 1}});
  EXPECT_THAT(a * a, Equals(tensor({{1, 1}, {0, 1}})));
  EXPECT_THAT(matmul(a, a), Equals(square));
  EXPECT_THAT(matmul(v, v), Equals(tensor(2)));
  EXPECT_THAT(tensordot(a, a, 1), Equals(square));
  EXPECT_THAT(tensordot(v, v, 0), Equals(ones({2, 2}, int32)));
  EXPECT_THAT(einsum("ij,jk->ik", a, a), Equals(square));
  EXPECT_THAT(einsum("ij->j", a), Equals(tensor({1, 2})));
  EXPECT_THAT(einsum("ij->ji", a), Equals(tensor({{1, 0}, {1, 1}})));
  EXPECT_THAT(vecdot(v, v), Equals(tensor(2)));
  EXPECT_THAT(outer(v, v), Equals(ones({2, 2}, int32)));
  EXPECT_THAT(kron(v, v), Equals(ones({4}, int32)));
  EXPECT_THAT(matrix_power(a, 2), Equals(square));
  EXPECT_THAT(sum(a), Equals(tensor(3)));
  EXPECT_THAT(prod(a), Equals(tensor(0)));
  EXPECT_THAT(cumulative_sum(v), Equals(tensor({1, 2})));
  EXPECT_THAT(v.at(tensor({0, 0})).add(v), Equals(tensor({3, 1})));
  EXPECT_THAT(scatter_add(v, i, v), Equals(tensor({3, 1})));
  EXPECT_THAT(scatter_multiply(v, i, v), Equals(tensor({1, 1})));
  EXPECT_THAT(scatter_max(v, i, v), Equals(v.at(tensor({0, 0})).max(v)));
  EXPECT_THAT(segment_sum(v, zeros({2}, int32), 1), Equals(tensor({2})));
  EXPECT_THAT(segment_max(v, zeros({2}, int32), 1), Equals(tensor({1})));
  EXPECT_THAT(conv(ones({1, 1, 2}, bool_), ones({1, 1, 2}, bool_)), Equals(tensor({{{2}}})));
  EXPECT_THAT(matmul(a, ones({2}, float32)), Equals(tensor({2., 1.}, float32)));
  EXPECT_THAT(vmap([&](T row) { return matmul(a, row); })(a), Equals(tensor({{2, 1}, {1, 1}})));
  // The updates replace elements, so that the dtype stays.
  EXPECT_EQ(scatter(v, i, v).dtype(), bool_);
}

TEST(Integers, ProductsKeepTheirDtypeAndSumsWiden) {
  for (const Dtype dtype : {uint8, uint16, uint32, uint64, int8, int16, int32, int64}) {
    const Tensor x = full({3}, 10, dtype);
    for (const Tensor& y : {vecdot(x, x), matmul(x, x), einsum("i,i->", x, x), tensordot(x, x, 1)}) {
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_EQ(number(y), dtype == uint8 || dtype == int8 ? 300 - 256 : 300) << name_of(dtype);
    }
    const Dtype wide = dtype == int8 || dtype == int16 ? int32 : dtype == uint8 || dtype == uint16 ? uint32 : dtype;
    for (const Tensor& y :
         {sum(x), prod(x), cumulative_sum(x)[2], cumulative_prod(x)[2], segment_sum(x, zeros({3}, int32), 1)[0]})
      EXPECT_EQ(y.dtype(), wide);
  }
  EXPECT_EQ(vecdot(ones({2}, int8), ones({2}, uint8)).dtype(), int16);
}

// ---- a tolerance for each matrix ----------------------------------------------------------------

TEST(RankTolerance, MayDifferForEachMatrix) {
  const Tensor a = tensor({{{1., 0.}, {0., 1e-3}}, {{2., 0.}, {0., 1e-3}}}, float64),
               rtol = tensor({1e-2, 1e-4}, float64);
  const Tensor inverses = tensor({{{1., 0.}, {0., 0.}}, {{.5, 0.}, {0., 1000.}}}, float64);
  EXPECT_THAT(matrix_rank(a, {.rtol = rtol}), Equals(tensor({1, 2})));
  EXPECT_THAT(pinv(a, {.rtol = rtol}), IsNear(inverses));
  EXPECT_THAT(pinv(a, {.rtol = tensor(1e-2, float64)}), IsNear(pinv(a, {.rtol = 1e-2})));
  const auto ranks = vmap([](T x, T r) { return matrix_rank(x, {.rtol = r}); });
  EXPECT_THAT(ranks(a, rtol), Equals(tensor({1, 2})));
  EXPECT_THAT(vmap([](T x, T r) { return pinv(x, {.rtol = r}); })(a, rtol), IsNear(inverses));
  EXPECT_THAT(vmap([&](T r) { return pinv(a[0], {.rtol = r}); })(rtol)[1],
              IsNear(tensor({{1., 0.}, {0., 1000.}}, float64)));
  EXPECT_THAT(vmap([&](T r) { return matrix_rank(a, {.rtol = r}); })(rtol), Equals(tensor({{1, 1}, {2, 2}})));
  // Tolerances broadcast with the stack: [3, 1] with [2].
  const Tensor column = tensor({{1e-2}, {1e-4}, {2.}}, float64);
  EXPECT_THAT(matrix_rank(a, {.rtol = column}), Equals(tensor({{1, 1}, {2, 2}, {0, 0}})));
  EXPECT_EQ(pinv(a, {.rtol = column}).shape(), Shape(3, 2, 2, 2));
  EXPECT_THAT(pinv(a[0], {.rtol = rtol}), IsNear(tensor({{{1., 0.}, {0., 0.}}, {{1., 0.}, {0., 1000.}}}, float64)));
  EXPECT_THAT(lstsq(a[0], ones({2}, float64), {.rtol = rtol}), IsNear(tensor({{1., 0.}, {1., 1000.}}, float64)));
  EXPECT_THAT(lstsq(a[0], ones({2, 2, 1}, float64), {.rtol = rtol}),
              IsNear(tensor({{{1.}, {0.}}, {{1.}, {1000.}}}, float64)));
  // Derivatives use the rank that follows from the tolerance: d(1/s) = -ds / s^2 for singular
  // values that are not dropped.
  const Tensor g = grad([&](T x) { return sum(diagonal(pinv(x, {.rtol = rtol}))); })(a);
  EXPECT_THAT(g, IsNear(tensor({{{-1., 0.}, {0., 0.}}, {{-.25, 0.}, {0., -1e6}}}, float64)));
  EXPECT_THAT(compile([](T x, T r) { return matrix_rank(x, {.rtol = r}); })(a, rtol), Equals(tensor({1, 2})));
  EXPECT_THAT(matrix_rank(astype(a, float32), {.rtol = rtol}), Equals(tensor({1, 2})));
  EXPECT_THAT([&] { pinv(a, {.rtol = ones({3}, float64)}); }, ThrowsMessage<ShapeError>(testing::HasSubstr("pinv")));
  EXPECT_THAT([&] { matrix_rank(a, {.rtol = Tensor()}); }, ThrowsMessage<Error>(testing::HasSubstr("rtol")));
}

}  // namespace counts_and_scales_test
