// Promotion of dtypes, elementwise functions where NumPy's meaning is easily missed, and
// reductions. tests/table covers every operation's values, derivatives and batching.

#include <limits>

#include <stave/stave.h>

#include "matchers.h"

namespace elementwise_test {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
constexpr Dtype dtypes[] = {bool_, uint8, uint16,  uint32,   uint64,  int8,   int16,
                            int32, int64, float16, bfloat16, float32, float64};
std::string name(Dtype dtype) { return name_of(dtype); }

// ---- promotion ----------------------------------------------------------------------------------

// jnp.promote_types(row, column), with 64-bit types enabled; "none" where JAX promotes two integers
// to a float.
// clang-format off
const char* const promoted[real_dtype_count][real_dtype_count] = {
    // bool
    {"bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"},
    // uint8
    {"uint8", "uint8", "uint16", "uint32", "uint64", "int16", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"},
    // uint16
    {"uint16", "uint16", "uint16", "uint32", "uint64", "int32", "int32", "int32", "int64", "float16", "bfloat16", "float32", "float64"},
    // uint32
    {"uint32", "uint32", "uint32", "uint32", "uint64", "int64", "int64", "int64", "int64", "float16", "bfloat16", "float32", "float64"},
    // uint64
    {"uint64", "uint64", "uint64", "uint64", "uint64", "none", "none", "none", "none", "float16", "bfloat16", "float32", "float64"},
    // int8
    {"int8", "int16", "int32", "int64", "none", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"},
    // int16
    {"int16", "int16", "int32", "int64", "none", "int16", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"},
    // int32
    {"int32", "int32", "int32", "int64", "none", "int32", "int32", "int32", "int64", "float16", "bfloat16", "float32", "float64"},
    // int64
    {"int64", "int64", "int64", "int64", "none", "int64", "int64", "int64", "int64", "float16", "bfloat16", "float32", "float64"},
    // float16
    {"float16", "float16", "float16", "float16", "float16", "float16", "float16", "float16", "float16", "float16", "float32", "float32", "float64"},
    // bfloat16
    {"bfloat16", "bfloat16", "bfloat16", "bfloat16", "bfloat16", "bfloat16", "bfloat16", "bfloat16", "bfloat16", "float32", "bfloat16", "float32", "float64"},
    // float32
    {"float32", "float32", "float32", "float32", "float32", "float32", "float32", "float32", "float32", "float32", "float32", "float32", "float64"},
    // float64
    {"float64", "float64", "float64", "float64", "float64", "float64", "float64", "float64", "float64", "float64", "float64", "float64", "float64"},
};
// clang-format on

TEST(Promotion, OfTwoTensorsEqualsJax) {
  for (int i = 0; i < real_dtype_count; ++i)
    for (int j = 0; j < real_dtype_count; ++j) {
      const Tensor a = ones({2}, dtypes[i]), b = ones({2}, dtypes[j]);
      const std::string want = promoted[i][j], numbers = want == "bool" ? "int32" : want;
      if (want == "none") {
        EXPECT_THAT([&] { a + b; },
                    ThrowsMessage<DtypeError>("add: no dtype holds the numbers of both " + name(dtypes[i]) + " and " +
                                              name(dtypes[j]) + ": convert one of the operands with astype"));
        EXPECT_THAT([&] { concat({a, b}); }, ThrowsMessage<DtypeError>(HasSubstr("no dtype holds")));
        continue;
      }
      const std::string floats = is_float(dtypes[i]) || is_float(dtypes[j]) ? want : "float32";
      SCOPED_TRACE(name(dtypes[i]) + " with " + name(dtypes[j]));
      EXPECT_EQ(name(promote(dtypes[i], dtypes[j])), want);
      for (const Tensor& result : {a + b, a - b, a * b, a % b, pow(a, b), maximum(a, b), minimum(a, b)})
        EXPECT_EQ(name(result.dtype()), numbers);
      EXPECT_EQ(name((a / b).dtype()), floats);
      for (const Tensor& result : {a == b, a != b, a<b, a <= b, a> b, a >= b, a && b, a || b, logical_xor(a, b)})
        EXPECT_EQ(result.dtype(), bool_);
      EXPECT_EQ(name(where(true, a, b).dtype()), want);
      EXPECT_EQ(name(concat({a, b}).dtype()), want);
      EXPECT_THAT(a + b, IsNear(full({2}, 2, (a + b).dtype())));
    }
}

TEST(Promotion, NumbersAreWeakWithinTheirKind) {
  // A dtype, and its promotion with true, 2 and 0.5.
  std::vector<std::array<Dtype, 4>> weak = {{bool_, int32, int32, float32}};
  for (const Dtype dtype : dtypes)
    if (dtype != bool_) weak.push_back({dtype, dtype, dtype, is_float(dtype) ? dtype : float32});
  for (const auto& row : weak) {
    const Tensor x = ones({2}, row[0]);
    SCOPED_TRACE(name(row[0]));
    EXPECT_EQ(name((x * true).dtype()), name(row[1]));
    EXPECT_EQ(name((x * 2).dtype()), name(row[2]));
    EXPECT_EQ(name((2L - x).dtype()), name(row[2]));
    EXPECT_EQ(name((x * 0.5).dtype()), name(row[3]));
    EXPECT_EQ(name((0.5f + x).dtype()), name(row[3]));
    EXPECT_EQ(name(maximum(x, 2).dtype()), name(row[2]));
    EXPECT_EQ(name(pow(x, 0.5).dtype()), name(row[3]));
    EXPECT_EQ(name((x / 2).dtype()), name(is_float(row[0]) ? row[0] : float32));
    EXPECT_EQ((x < 2).dtype(), bool_);
    EXPECT_EQ(name(where(x, 2, x).dtype()), name(row[0] == bool_ ? int32 : row[2]));
  }
  EXPECT_THAT(tensor({1, 2}) * 0.1, IsNear(tensor({0.1, 0.2})));
  EXPECT_THAT(tensor({1., 2.}) + 1.0, Equals(tensor({2., 3.})));
  // The number is converted to the tensor's precision before the comparison.
  EXPECT_TRUE(bool(all(tensor({0.1}) == 0.1)));
  EXPECT_TRUE(bool(all(tensor({0.1}, float64) == 0.1)));
  EXPECT_FALSE(bool(all(tensor({0.1}) == tensor({0.1}, float64))));
}

TEST(Promotion, NumbersThatDoNotFitAreAnError) {
  const Tensor x = ones({2}, uint8);
  EXPECT_THAT([&] { x + 300; },
              ThrowsMessage<DtypeError>("add: the number 300 does not fit uint8: give a wider dtype"));
  EXPECT_THAT([&] { x * -1; }, ThrowsMessage<DtypeError>(HasSubstr("-1 does not fit uint8")));
  EXPECT_THROW(ones({2}, int32) + (std::int64_t{1} << 31), DtypeError);
  EXPECT_THROW(ones({2}, uint32) - (-1), DtypeError);
  EXPECT_THAT(ones({2}, int64) + (std::int64_t{1} << 31), Equals(full({2}, (std::int64_t{1} << 31) + 1)));
  EXPECT_THAT(x + 254, Equals(full({2}, 255, uint8)));
  EXPECT_THAT(x + 255, Equals(full({2}, 0, uint8)));  // integers wrap around
}

TEST(Promotion, UnaryFloatFunctionsConvertIntegers) {
  EXPECT_THAT(sin(tensor({0, 1})), IsNear(tensor({0., std::sin(1.)})));
  EXPECT_EQ(sqrt(ones({1}, int64)).dtype(), float32);
  EXPECT_EQ(exp(ones({1}, bool_)).dtype(), float32);
  EXPECT_EQ(exp(ones({1}, float64)).dtype(), float64);
  EXPECT_EQ(abs(ones({1}, int64)).dtype(), int64);
  EXPECT_EQ(negative(ones({1}, bool_)).dtype(), int32);
}

// ---- elementwise --------------------------------------------------------------------------------

TEST(Elementwise, BroadcastsLikeNumPy) {
  const Tensor column = tensor({{1.}, {2.}}), row = tensor({10., 20., 30.});
  EXPECT_THAT(column + row, Equals(tensor({{11., 21., 31.}, {12., 22., 32.}})));
  EXPECT_EQ((zeros({4, 1, 3}) + zeros({2, 1})).shape(), Shape(4, 2, 3));
  EXPECT_EQ((zeros({0, 3}) + zeros({1, 3})).shape(), Shape(0, 3));
  EXPECT_EQ((zeros({0}) * zeros({1})).shape(), Shape(0));
  EXPECT_EQ(where(tensor({true, false}), column, 0).shape(), Shape(2, 2));
  EXPECT_THAT(
      [&] {
        zeros({2, 3}) * zeros({2, 4});
      },
      ThrowsMessage<ShapeError>(
          "multiply: shapes [2,3] and [2,4] do not broadcast: lengths 3 and 4 at axis -1 differ and neither is 1"));
}

TEST(Elementwise, ReadsStridedViews) {
  const Tensor x = reshape(arange(0, 12, 1, float32), {3, 4});
  EXPECT_THAT(transpose(x) + transpose(x), Equals(transpose(2 * x)));
  EXPECT_THAT(x(slice(none, none, -1), slice(none, none, 2)) - x(slice(), slice(1, none, 2)),
              Equals(tensor({{7., 7.}, {-1., -1.}, {-9., -9.}})));
  EXPECT_TRUE((transpose(x) + 1).is_contiguous());
}

// Rows that are long enough for kernels of their own, each with one value, give the same as a full
// array of these values.
TEST(Elementwise, OneValuePerRowEqualsAFullArray) {
  for (const Op* op :
       {&op_add, &op_subtract, &op_multiply, &op_scale, &op_divide, &op_maximum, &op_minimum, &op_copysign, &op_atan2})
    for (const Dtype dtype : {float32, float64, float16, int32})
      for (const Shape& shape : {Shape{5, 130}, Shape{3, 4, 1000}, Shape{2, 9000}, Shape{0, 300}, Shape{40000}}) {
        if ((op == &op_divide || op == &op_copysign || op == &op_atan2) && dtype == int32) continue;
        const Tensor rows = astype(normal(Key(1), shape, float32) * 4, dtype);
        for (int axes = 0; axes < 1 << (shape.rank() - 1); ++axes) {
          Shape short_shape = shape;
          short_shape.back() = 1;
          for (Index axis = 0; axis + 1 < shape.rank(); ++axis)
            if (axes >> axis & 1) short_shape[static_cast<std::size_t>(axis)] = 1;
          const Tensor values = astype(abs(normal(Key(2), short_shape, float32)) * 3, dtype);
          const Tensor each = broadcast_to(values, shape), all = contiguous(each);
          const auto performed = [&](const Tensor& a, const Tensor& b) {
            return perform(stave_detail::Call(*op, {a, b}))[0];
          };
          EXPECT_TRUE(array_equal(performed(rows, each), performed(rows, all))) << op->name << shape.str();
          EXPECT_TRUE(array_equal(performed(each, rows), performed(all, rows))) << op->name << shape.str();
        }
      }
}

TEST(Elementwise, IntegerArithmeticFollowsPython) {
  const Tensor a = tensor({7, -7, 7, -7}), b = tensor({3, 3, -3, -3});
  EXPECT_THAT(a / b, IsNear(tensor({7. / 3, -7. / 3, -7. / 3, 7. / 3})));
  EXPECT_THAT(a % b, Equals(tensor({1, 2, -2, -1})));  // Python's sign
  EXPECT_THAT(tensor({7.5, -7.5, 7.5, -7.5}) % tensor({2., 2., -2., -2.}), Equals(tensor({1.5, 0.5, -0.5, -1.5})));
  EXPECT_THAT(pow(tensor({2, -3, 5}), tensor({10, 3, 0})), Equals(tensor({1024, -27, 1})));
  EXPECT_THAT(tensor({1, 2}) % 0, Equals(tensor({0, 0})));
  EXPECT_THAT(tensor({1, -2, 0}) / 0, IsNear(tensor({inf, -inf, nan})));
}

TEST(Elementwise, SpecialValues) {
  const Tensor x = tensor({1., nan, -inf, 0.});
  EXPECT_THAT(maximum(x, tensor({nan, 1., 1., -0.})), IsNear(tensor({nan, nan, 1., 0.})));
  EXPECT_THAT(minimum(x, tensor({nan, 1., 1., 5.})), IsNear(tensor({nan, nan, -inf, 0.})));
  EXPECT_THAT(sign(x), IsNear(tensor({1., nan, -1., 0.})));
  EXPECT_THAT(1 / sign(tensor({-0., 0.})), IsNear(tensor({inf, inf})));  // 0 for both zeros
  EXPECT_THAT(1 / sign(tensor({-0., 0.}, float64)), IsNear(tensor({inf, inf}, float64)));
  EXPECT_THAT(relu(x), IsNear(tensor({1., nan, 0., 0.})));
  EXPECT_THAT(clip(x, -1, 0.5), IsNear(tensor({0.5, nan, -1., 0.})));
  EXPECT_THAT(isnan(x), Equals(tensor({false, true, false, false})));
  EXPECT_THAT(isinf(x), Equals(tensor({false, false, true, false})));
  EXPECT_THAT(isfinite(x), Equals(tensor({true, false, false, true})));
  EXPECT_THAT(isfinite(tensor({1, 2})), Equals(tensor({true, true})));
  // Halves round to even.
  EXPECT_THAT(round(tensor({0.5, 1.5, 2.5, -0.5, -1.5})), Equals(tensor({0., 2., 2., -0., -2.})));
  EXPECT_THAT(log(tensor({0., -1.})), IsNear(tensor({-inf, nan})));
  EXPECT_THAT(tensor({1., -1., 0.}) / 0., IsNear(tensor({inf, -inf, nan})));
  EXPECT_THAT(sigmoid(tensor({-200., 0., 200.})), IsNear(tensor({0., 0.5, 1.})));
  EXPECT_THAT(softplus(tensor({-200., 0., 200.})), IsNear(tensor({0., std::log(2.), 200.})));
  EXPECT_THAT(log1p(tensor({1e-7})), IsNear(tensor({1e-7}), 1e-13));
  EXPECT_THAT(expm1(tensor({1e-7})), IsNear(tensor({1e-7}), 1e-13));
}

// exp of arguments whose results are denormal, down to half the smallest number, beside arguments
// whose results are not.
TEST(Elementwise, ExpRoundsDenormalResults) {
  const Tensor x = concat({linspace(-104.5, -86, 20011), tensor({-inf, -200.f, 0.f, 88.f, inf})});
  const std::vector<double> at = values(x), got = values(exp(x));
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double expected = std::exp(at[i]);
    if (std::isinf(expected)) EXPECT_EQ(got[i], expected);
    else EXPECT_NEAR(got[i], expected, 0x1p-150 + expected * 0x1p-23) << "exp(" << at[i] << ")";
  }
}

// numpy.floor_divide gives the values where it is exact. 10000001 / 1.5 is 6666667.3, for which
// NumPy's float32 gives 6666666.
TEST(Elementwise, FloorDivideRoundsDown) {
  const Tensor a = tensor({7., -7., 7., -7., 1., -1., 0., 1., -1., inf, nan, 1e30, 0.3, 6., 10000001.}),
               b = tensor({2., 2., -2., -2., 0., 0., 0., inf, inf, 2., 1., 1e-30, 0.1, 0.1, 1.5});
  EXPECT_THAT(floor_divide(a, b),
              IsNear(tensor({3., -4., -4., 3., inf, -inf, nan, 0., -1., nan, nan, inf, 3., 59., 6666667.}), 0));
  EXPECT_TRUE(std::signbit(floor_divide(tensor(-0.), 3).item<float>()));
  EXPECT_THAT(floor_divide(tensor({7, -7, 7, -7, 5}), tensor({3, 3, -3, -3, 0})), Equals(tensor({2, -3, -3, 2, 0})));
  EXPECT_EQ(floor_divide(ones({2}, uint8), ones({2}, uint32)).dtype(), uint32);
  EXPECT_EQ(floor_divide(ones({2}, bool_), ones({2}, bool_)).dtype(), int32);
  EXPECT_EQ(floor_divide(tensor({5, 6}), 2).dtype(), int32);
  EXPECT_EQ(floor_divide(tensor({5, 6}), 2.).dtype(), float32);
}

TEST(Elementwise, FloorDivideAndRemainderAreConsistent) {
  for (Dtype dtype : {uint8, uint32, int32, int64, float64}) {
    const Tensor a = astype(tensor({0, 1, 7, 100, -1, -7, -100, 2147483647}), dtype);
    const Tensor b = expand_dims(astype(tensor({1, 3, 8, 99, -1, -3, -8}), dtype), 1);
    EXPECT_TRUE(array_equal(floor_divide(a, b) * b + a % b, broadcast_to(a, {7, 8}))) << name(dtype);
  }
}

// numpy's arcsin and so on, of the same numbers.
TEST(Elementwise, InverseAndHyperbolicFunctionsEqualNumPy) {
  const Tensor t = tensor({-0.9, -0.2, 0.3, 0.8}, float64);
  const auto expected = [](std::initializer_list<NestedList> list) { return IsNear(tensor(list, float64)); };
  EXPECT_THAT(asin(t), expected({-1.1197695149986342, -0.2013579207903308, 0.30469265401539747, 0.9272952180016123}));
  EXPECT_THAT(acos(t), expected({2.6905658417935308, 1.7721542475852274, 1.2661036727794992, 0.6435011087932843}));
  EXPECT_THAT(atan(t), expected({-0.7328151017865066, -0.19739555984988078, 0.2914567944778671, 0.6747409422235527}));
  EXPECT_THAT(sinh(t), expected({-1.0265167257081753, -0.201336002541094, 0.3045202934471426, 0.888105982187623}));
  EXPECT_THAT(cosh(t), expected({1.4330863854487743, 1.020066755619076, 1.0453385141288605, 1.3374349463048447}));
  EXPECT_THAT(asinh(t), expected({-0.8088669356527824, -0.19869011034924142, 0.29567304756342244, 0.7326682560454109}));
  EXPECT_THAT(atanh(t), expected({-1.4722194895832204, -0.2027325540540822, 0.3095196042031117, 1.0986122886681098}));
  EXPECT_THAT(acosh(tensor({1.1, 2., 30.}, float64)),
              expected({0.4435682543851154, 1.3169578969248168, 4.0940666686320855}));
  EXPECT_THAT(atan2(tensor({1., -3., 0., 2., 0.}, float64), tensor({2., -1., -2., 0., 0.}, float64)),
              expected({0.4636476090008061, -1.8925468811915387, 3.141592653589793, 1.5707963267948966, 0.}));
  EXPECT_THAT(asin(tensor({1.5, -2., nan})), IsNear(tensor({nan, nan, nan})));
  EXPECT_THAT(acosh(tensor({0.5, inf})), IsNear(tensor({nan, inf})));
  EXPECT_THAT(trunc(tensor({1.7, -1.7, -0.2, inf})), IsNear(tensor({1., -1., -0., inf}), 0));
  EXPECT_EQ(atan2(tensor({1, 2}), tensor({3, 4})).dtype(), float32);
  EXPECT_EQ(trunc(ones({2}, uint8)).dtype(), uint8);
  EXPECT_EQ(atan2(1, 0.5), std::atan2(1, 0.5));  // the number stays the first operand
}

TEST(Elementwise, LogicTreatsNonzeroNumbersAsTrue) {
  const Tensor a = tensor({0, 1, 0, 2}), b = tensor({0., 0., 0.5, -1.});
  EXPECT_THAT(a && b, Equals(tensor({false, false, false, true})));
  EXPECT_THAT(a || b, Equals(tensor({false, true, true, true})));
  EXPECT_THAT(logical_xor(a, b), Equals(tensor({false, true, true, false})));
  EXPECT_THAT(!a, Equals(tensor({true, false, true, false})));
  EXPECT_THAT(where(a, 1, -1), Equals(tensor({-1, 1, -1, 1})));
}

TEST(Astype, TruncatesAndSaturates) {
  EXPECT_THAT(astype(tensor({1.9, -1.9, 0.5}), int32), Equals(tensor({1, -1, 0})));
  EXPECT_THAT(astype(tensor({1e20, -1e20, nan}), int32), Equals(tensor({2147483647, -2147483647 - 1, 0})));
  EXPECT_THAT(astype(tensor({300., -5., 7.}), uint8), Equals(tensor({255, 0, 7}, uint8)));
  EXPECT_THAT(astype(tensor({0., 0.5, nan}), bool_), Equals(tensor({false, true, true})));
  EXPECT_THAT(astype(tensor({3, 4}), float64), Equals(tensor({3., 4.}, float64)));
  const Tensor x = tensor({1.});
  EXPECT_EQ(astype(x, float32).node_ptr().get(), x.node_ptr().get());
}

TEST(InPlaceOperators, AssignANewValue) {
  Tensor x = tensor({1., 2.});
  x += 1;
  x *= tensor({2., 3.});
  x -= tensor({1., 1.});
  x /= 2;
  EXPECT_THAT(x, Equals(tensor({1.5, 4.})));
  EXPECT_THROW(x += zeros({3}), ShapeError);
  // x keeps its value when the operation throws.
  EXPECT_THAT(x, Equals(tensor({1.5, 4.})));
  EXPECT_THAT(-x, Equals(tensor({-1.5, -4.})));
  EXPECT_THAT(+x, Equals(x));
}

TEST(Comparisons, ArrayEqualAndAllcloseFollowNumPy) {
  const Tensor x = tensor({1., 2., nan});
  // As in NumPy, NaN equals nothing.
  EXPECT_FALSE(array_equal(x, x));
  EXPECT_FALSE(allclose(x, x));
  EXPECT_TRUE(allclose(x, x, 1e-5, 1e-8, true));
  EXPECT_TRUE(allclose(tensor({1., inf}), tensor({1.000001, inf})));
  EXPECT_FALSE(allclose(tensor({1., inf}), tensor({1., -inf})));
  EXPECT_FALSE(allclose(tensor({1.}), tensor({1.1})));
  EXPECT_TRUE(allclose(tensor({1.}), tensor({1.1}), 0.1));
  EXPECT_FALSE(allclose(tensor({100.}), tensor({inf})));
}

// ---- reductions ---------------------------------------------------------------------------------

const Tensor x = tensor({{1., -2., 3.}, {0., 5., -6.}});

TEST(Reductions, ReduceTheGivenAxes) {
  EXPECT_THAT(sum(x), IsNumber(1));
  EXPECT_THAT(sum(x, 0), IsNear(tensor({1., 3., -3.})));
  EXPECT_THAT(sum(x, -1), IsNear(tensor({2., -1.})));
  EXPECT_THAT(sum(x, {0, 1}), IsNumber(1));
  EXPECT_THAT(sum(x, {-1, 0}, keepdims), IsNear(tensor({{1.}})));
  EXPECT_THAT(sum(x, std::vector{1}, keepdims), IsNear(tensor({{2.}, {-1.}})));
  EXPECT_THAT(sum(x, all_axes, keepdims), IsNear(tensor({{1.}})));
  EXPECT_THAT(sum(x, std::vector<int>{}), IsNear(x));
  EXPECT_THAT(sum(x, {}), Equals(x));  // NumPy's axis=()
  EXPECT_THAT(max(x, {}, keepdims), Equals(x));
  EXPECT_THAT(sum(x, keepdims), IsNear(tensor({{1.}})));
  EXPECT_THAT(norm(x, keepdims), IsNear(reshape(norm(x), {1, 1})));
  EXPECT_EQ(stave::std(x, keepdims).shape(), Shape(1, 1));
  EXPECT_EQ(any(x, keepdims).shape(), Shape(1, 1));
  EXPECT_THAT(max(x, 1), IsNear(tensor({3., 5.})));
  EXPECT_THAT(min(x, 0, keepdims), IsNear(tensor({{0., -2., -6.}})));
  EXPECT_THAT(prod(x, 1), IsNear(tensor({-6., -0.})));
  EXPECT_THAT(mean(x, 0), IsNear(tensor({0.5, 1.5, -1.5})));
  EXPECT_THAT(sum(tensor(5.)), IsNumber(5));
  EXPECT_THAT(sum(transpose(x), 0), IsNear(tensor({2., -1.})));
  const Tensor cube = reshape(arange(24), {2, 3, 4});
  EXPECT_THAT(sum(cube, {0, 2}), Equals(tensor({60, 92, 124})));
  EXPECT_THAT(max(permute_dims(cube, {2, 0, 1}), {0, 1}), Equals(tensor({15, 19, 23})));
}

TEST(Reductions, HaveTheirResultDtypes) {
  EXPECT_THAT(sum(tensor({200, 100}, uint8)), Equals(tensor(300, uint32)));
  EXPECT_THAT(prod(tensor({20, 20}, uint8)), Equals(tensor(400, uint32)));
  EXPECT_THAT(sum(tensor({true, true, false})), Equals(tensor(2)));
  EXPECT_EQ(sum(ones({2}, int64)).dtype(), int64);
  EXPECT_EQ(sum(ones({2}, int32)).dtype(), int32);
  EXPECT_THAT(mean(tensor({1, 2})), Equals(tensor(1.5)));
  EXPECT_EQ(mean(ones({2}, float64)).dtype(), float64);
  EXPECT_THAT(max(tensor({false, true})), Equals(tensor(true)));
  EXPECT_THAT(min(tensor({3, 1}, uint8)), Equals(tensor(1, uint8)));
  EXPECT_EQ(argmax(ones({2}, float64)).dtype(), int32);
  EXPECT_THAT(all(tensor({1, 0})), Equals(tensor(false)));
  EXPECT_THAT(any(tensor({0., nan})), Equals(tensor(true)));
}

TEST(Reductions, OfEmptyArraysGiveTheNeutralElementOrAnError) {
  const Tensor none_at_all = zeros({0, 3});
  EXPECT_THAT(sum(none_at_all, 0), Equals(zeros({3})));
  EXPECT_THAT(prod(none_at_all, 0), Equals(ones({3})));
  EXPECT_THAT(all(none_at_all), Equals(tensor(true)));
  EXPECT_THAT(any(none_at_all), Equals(tensor(false)));
  EXPECT_THAT(mean(none_at_all), IsNumber(nan));
  EXPECT_THAT(logsumexp(none_at_all, 0), IsNear(full({3}, -inf)));
  EXPECT_EQ(max(none_at_all, 1).shape(), Shape(0));
  EXPECT_THAT([&] { max(none_at_all, 0); },
              ThrowsMessage<ShapeError>("max: shape [0,3] has no elements to choose from along the reduced axes"));
  EXPECT_THAT([&] { argmin(none_at_all); },
              ThrowsMessage<ShapeError>("argmin: shape [0,3] has no elements to choose from along the reduced axes"));
}

TEST(Reductions, PropagateNan) {
  const Tensor with_nan = tensor({{1., nan}, {3., 2.}});
  EXPECT_THAT(max(with_nan, 1), IsNear(tensor({nan, 3.})));
  EXPECT_THAT(min(with_nan), IsNumber(nan));
  EXPECT_THAT(sum(with_nan, 0), IsNear(tensor({4., nan})));
  EXPECT_THAT(argmax(tensor({1., nan, 3., nan})), IsNumber(1));  // as in NumPy, the first NaN
}

TEST(Reductions, ArgmaxGivesTheFirstOfEqualElements) {
  EXPECT_THAT(argmax(tensor({1, 3, 2, 3})), Equals(tensor(1)));
  EXPECT_THAT(argmin(x), Equals(tensor(5)));  // the index in the flattened array
  EXPECT_THAT(argmax(x, 0), Equals(tensor({0, 1, 0})));
  EXPECT_THAT(argmax(x, -1, keepdims), Equals(tensor({{2}, {1}})));
  // Row-major in the view: [1,0],[-2,5],[3,-6].
  EXPECT_THAT(argmin(transpose(x)), Equals(tensor(5)));
}

// Only the dtype is inferred, so that no array of this length is computed.
TEST(Reductions, PositionsBeyondInt32AreInt64) {
  const Index most = std::numeric_limits<std::int32_t>::max();
  const auto inferred = [](const Op& op, const Shape& shape, const Shape& axes) {
    const Tensor wide = broadcast_to(zeros({}, uint8), shape);
    return Call(op, {wide}, make_intrusive<ReduceAttributes>(axes, false)).abstract_outputs()[0].dtype;
  };
  for (const Op* op : {&op_argmax, &op_argmin}) {
    EXPECT_EQ(inferred(*op, {most}, {0}), int32);
    EXPECT_EQ(inferred(*op, {most + 1}, {0}), int64);
    EXPECT_EQ(inferred(*op, {2, most}, {1}), int32);
    EXPECT_EQ(inferred(*op, {2, most}, {0, 1}), int64);
  }
}

TEST(Reductions, AxisErrors) {
  EXPECT_THAT([] { sum(x, 2); }, ThrowsMessage<IndexError>("sum: axis 2 is out of range for rank 2"));
  EXPECT_THAT([] { mean(x, -3); }, ThrowsMessage<IndexError>(HasSubstr("axis -3 is out of range for rank 2")));
  EXPECT_THAT([] { max(x, {0, -2}); }, ThrowsMessage<ShapeError>("max: an axis is given twice in [0,-2]"));
}

// The values of NumPy and scipy.special at the same x.
TEST(Reductions, VarStdNormAndLogsumexpEqualNumPy) {
  EXPECT_THAT(var(x), IsNumber(12.472222222222223));
  EXPECT_THAT(var(x, 0, drop_dims, 1), IsNear(tensor({0.5, 24.5, 40.5})));
  EXPECT_THAT(stave::std(x, 1), IsNear(tensor({2.0548046676563256, 4.4969125210773475})));
  EXPECT_THAT(logsumexp(x, 1), IsNear(tensor({3.1328452337275756, 5.0067319382703035})));
  EXPECT_THAT(norm(x), IsNumber(8.660254037844387));
  EXPECT_THAT(norm(x, 0, keepdims), IsNear(tensor({{1.0, 5.385164807134504, 6.708203932499369}})));
}

TEST(Reductions, LogsumexpNeitherOverflowsNorTurnsInfinityIntoNan) {
  EXPECT_THAT(logsumexp(tensor({1000., 1000.})), IsNumber(1000 + std::log(2.)));
  EXPECT_THAT(logsumexp(tensor({-1000., -1000.})), IsNumber(-1000 + std::log(2.)));
  EXPECT_THAT(logsumexp(tensor({-inf, -inf})), IsNumber(-inf));
  EXPECT_THAT(logsumexp(tensor({-inf, 0.})), IsNumber(0));
  EXPECT_THAT(logsumexp(tensor({inf, 0.})), IsNumber(inf));
  EXPECT_THAT(grad([](const Tensor& t) { return logsumexp(t); })(tensor({1000., 1000.})), IsNear(tensor({0.5, 0.5})));
}

}  // namespace elementwise_test
