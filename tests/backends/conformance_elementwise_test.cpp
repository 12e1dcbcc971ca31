// Arithmetic of every dtype in every layout, conversion, creation and layouts, on every backend.
#include "conformance.h"

namespace {

using namespace conformance;

STAVE_ON_BACKENDS(Elementwise);

// ---- arithmetic of every dtype, in every layout -------------------------------------------------

template <class T, class R = T>
void check_elementwise(OpId op, std::type_identity_t<R (*)(T, T)> exact, int arity) {
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{7}, Shape{3, 1, 5}, Shape{5, 40, 33}, Shape{130, 3, 2}, Shape{0, 4}})
    for (Lay x_lay : lays)
      for (Lay y_lay : lays) {
        Array<T> x = random_array<T>(shape, x_lay), y = random_array<T>(shape, y_lay);
        std::vector<View> in = {x.view(), y.view()};
        in.resize(static_cast<std::size_t>(arity), x.view());
        std::vector<R> got = run<R>(op, nullptr, in, shape);
        for (Index i = 0; i < shape.elements(); ++i)
          ASSERT_EQ(got[static_cast<std::size_t>(i)], exact(x.at(i), y.at(i)))
              << "op " << static_cast<int>(op) << " " << name_of(dtype_of<T>()) << " element " << i << " layouts "
              << static_cast<int>(x_lay) << static_cast<int>(y_lay);
        if (arity == 1) break;
      }
}
template <class T>
void check_arithmetic() {
  using W = std::conditional_t<std::is_integral_v<T>, std::uint64_t, Computed<T>>;
  check_elementwise<T>(
      OpId::add, [](T a, T b) { return static_cast<T>(static_cast<W>(a) + static_cast<W>(b)); }, 2);
  check_elementwise<T>(
      OpId::subtract, [](T a, T b) { return static_cast<T>(static_cast<W>(a) - static_cast<W>(b)); }, 2);
  check_elementwise<T>(
      OpId::multiply, [](T a, T b) { return static_cast<T>(static_cast<W>(a) * static_cast<W>(b)); }, 2);
  check_elementwise<T>(
      OpId::maximum, [](T a, T b) { return a < b ? b : a; }, 2);
  check_elementwise<T>(
      OpId::minimum, [](T a, T b) { return std::min(a, b); }, 2);
  check_elementwise<T>(
      OpId::negative, [](T a, T) { return static_cast<T>(W{} - static_cast<W>(a)); }, 1);
  check_elementwise<T>(
      OpId::abs, [](T a, T) { return a < T(0) ? static_cast<T>(-a) : a; }, 1);
  check_elementwise<T>(
      OpId::sign, [](T a, T) { return static_cast<T>((a > T(0)) - (a < T(0))); }, 1);
  check_elementwise<T>(
      OpId::relu, [](T a, T) { return std::max(a, T(0)); }, 1);
  check_elementwise<T>(
      OpId::square, [](T a, T) { return static_cast<T>(static_cast<W>(a) * static_cast<W>(a)); }, 1);
}
template <class T>
void check_predicates() {
  check_elementwise<T, bool>(
      OpId::equal, [](T a, T b) { return a == b; }, 2);
  check_elementwise<T, bool>(
      OpId::less, [](T a, T b) { return a < b; }, 2);
  check_elementwise<T, bool>(
      OpId::greater_equal, [](T a, T b) { return a >= b; }, 2);
  check_elementwise<T, bool>(
      OpId::isnan, [](T a, T) { return a != a; }, 1);
  check_elementwise<T, bool>(
      OpId::isfinite, [](T, T) { return true; }, 1);
}
TEST_P(Elementwise, Arithmetic) {
#define X(name, type) check_arithmetic<type>();
  STAVE_INTEGERS(X)
  STAVE_FLOATS(X)
#undef X
}
TEST_P(Elementwise, Predicates) {
#define X(name, type) check_predicates<type>();
  STAVE_REALS(X)
#undef X
  check_elementwise<bool>(
      OpId::logical_and, [](bool a, bool b) { return a && b; }, 2);
  check_elementwise<bool>(
      OpId::logical_or, [](bool a, bool b) { return a || b; }, 2);
  check_elementwise<bool>(
      OpId::logical_xor, [](bool a, bool b) { return a != b; }, 2);
  check_elementwise<bool>(
      OpId::logical_not, [](bool a, bool) { return !a; }, 1);
}

TEST_P(Elementwise, IntegersWrapAndNeverTrap) {
  constexpr std::int32_t least = std::numeric_limits<std::int32_t>::min(),
                         most = std::numeric_limits<std::int32_t>::max();
  using I = std::vector<std::int32_t>;
  EXPECT_EQ(map<std::int32_t>(OpId::add, I{most}, I{1}), I{least});
  EXPECT_EQ(map<std::int32_t>(OpId::negative, I{least}), I{least});
  EXPECT_EQ(map<std::int32_t>(OpId::abs, I{least}), I{least});
  EXPECT_EQ(map<std::int32_t>(OpId::remainder, I{7, -7, 7, -7, 5, least, 0}, I{3, 3, -3, -3, 0, -1, 4}),
            (I{1, 2, -2, -1, 0, 0, 0}));
  EXPECT_EQ(map<std::int32_t>(OpId::floor_divide, I{7, -7, 7, -7, 6, -6, 5, least, 0, most, least, least},
                              I{3, 3, -3, -3, 3, 3, 0, -1, 4, -1, 2, most}),
            (I{2, -3, -3, 2, 2, -2, 0, least, 0, -most, least / 2, -2}));
  EXPECT_EQ(map<std::int32_t>(OpId::pow, I{2, 3, -1, -1, 1, 2, 0, 0, -3, 2}, I{10, 4, -3, -4, -9, -1, -1, 0, 3, 33}),
            (I{1024, 81, -1, 1, 1, 0, 0, 1, -27, 0}));
  using L = std::vector<std::int64_t>;
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(map<std::int64_t>(OpId::remainder, L{lowest, lowest, 9}, L{-1, 0, -4}), (L{0, 0, -3}));
  EXPECT_EQ(map<std::int64_t>(OpId::floor_divide, L{lowest, lowest, 9, -9}, L{-1, 0, -4, 4}), (L{lowest, 0, -3, -3}));
  EXPECT_EQ(map<std::int64_t>(OpId::pow, L{3, -1, 10}, L{39, lowest, 18}),
            (L{4052555153018976267, 1, 1000000000000000000}));
  using B = std::vector<std::uint8_t>;
  EXPECT_EQ(map<std::uint8_t>(OpId::remainder, B{200, 200, 255}, B{255, 0, 16}), (B{200, 0, 15}));
  EXPECT_EQ(map<std::uint8_t>(OpId::floor_divide, B{200, 200, 255, 9}, B{255, 0, 16, 2}), (B{0, 0, 15, 4}));
  using U = std::vector<std::uint32_t>;
  EXPECT_EQ(map<std::uint32_t>(OpId::floor_divide, U{0xffffffff, 0xffffffff, 7}, U{0xffffffff, 2, 0}),
            (U{1, 0x7fffffff, 0}));
  EXPECT_EQ(map<std::uint8_t>(OpId::pow, B{3, 2}, B{200, 7}), (B{161, 128}));
  using S = std::vector<std::int8_t>;
  EXPECT_EQ(map<std::int8_t>(OpId::multiply, S{100, -128}, S{3, -1}), (S{44, -128}));
  EXPECT_EQ(map<std::int8_t>(OpId::floor_divide, S{-128, 7, 5, -7}, S{-1, -3, 0, 2}), (S{-128, -3, 0, -4}));
  EXPECT_EQ(map<std::int8_t>(OpId::remainder, S{-128, 7, 5, -7}, S{-1, -3, 0, 2}), (S{0, -2, 0, 1}));
  EXPECT_EQ(map<std::int8_t>(OpId::pow, S{-2, 3, -1}, S{7, 5, -3}), (S{-128, -13, -1}));
  using H = std::vector<std::int16_t>;
  EXPECT_EQ(map<std::int16_t>(OpId::multiply, H{300, -32768}, H{300, -1}), (H{24464, -32768}));
  EXPECT_EQ(map<std::int16_t>(OpId::floor_divide, H{-32768, -7}, H{-1, 2}), (H{-32768, -4}));
  using W = std::vector<std::uint16_t>;
  EXPECT_EQ(map<std::uint16_t>(OpId::floor_divide, W{65535, 65535, 7}, W{65535, 2, 0}), (W{1, 32767, 0}));
  using Q = std::vector<std::uint64_t>;
  constexpr std::uint64_t greatest = ~std::uint64_t{0};
  EXPECT_EQ(map<std::uint64_t>(OpId::floor_divide, Q{greatest, greatest, 7}, Q{greatest, 2, 0}),
            (Q{1, greatest / 2, 0}));
  EXPECT_EQ(map<std::uint64_t>(OpId::remainder, Q{greatest, greatest}, Q{10, greatest - 1}), (Q{5, 1}));
  EXPECT_EQ(map<std::uint64_t>(OpId::maximum, Q{greatest, 1}, Q{2, greatest - 1}), (Q{greatest, greatest - 1}));
  EXPECT_EQ(map<std::int32_t>(OpId::trunc, I{-5, most}), (I{-5, most}));
  EXPECT_EQ(map<std::uint32_t>(OpId::floor, std::vector<std::uint32_t>{5}), std::vector<std::uint32_t>{5});
}

template <class T>
void check_bits() {
  using U = std::make_unsigned_t<T>;
  constexpr int width = 8 * sizeof(T);
  check_elementwise<T>(
      OpId::bitwise_and, [](T a, T b) { return static_cast<T>(a & b); }, 2);
  check_elementwise<T>(
      OpId::bitwise_or, [](T a, T b) { return static_cast<T>(a | b); }, 2);
  check_elementwise<T>(
      OpId::bitwise_xor, [](T a, T b) { return static_cast<T>(a ^ b); }, 2);
  check_elementwise<T>(
      OpId::bitwise_invert, [](T a, T) { return static_cast<T>(~a); }, 1);
  // Shifts by every number of bits, and by numbers out of range, which leave only the sign bit.
  std::vector<T> a, places;
  for (const T x : {T(0), T(1), T(93), T(-1), T(-77), std::numeric_limits<T>::min(), std::numeric_limits<T>::max()})
    for (int p = 0; p < 2 * width; ++p) {
      a.push_back(x), places.push_back(static_cast<T>(p));
      a.push_back(x), places.push_back(static_cast<T>(-p));
      a.push_back(x), places.push_back(static_cast<T>(std::numeric_limits<T>::max() - static_cast<T>(p)));
    }
  const std::vector<T> left = map<T>(OpId::bitwise_left_shift, a, places);
  const std::vector<T> right = map<T>(OpId::bitwise_right_shift, a, places);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool far = places[i] < T(0) || static_cast<U>(places[i]) >= width;
    const int count = far ? 0 : static_cast<int>(places[i]);
    ASSERT_EQ(left[i], far ? T(0) : static_cast<T>(static_cast<std::uint64_t>(a[i]) << count))
        << +a[i] << " " << +places[i];
    ASSERT_EQ(right[i], far ? static_cast<T>(a[i] < T(0) ? -1 : 0) : static_cast<T>(a[i] >> count))
        << +a[i] << " " << +places[i];
  }
}
TEST_P(Elementwise, Bits) {
  check_bits<std::uint8_t>();
  check_bits<std::uint32_t>();
  check_bits<std::int32_t>();
  check_bits<std::int64_t>();
  check_elementwise<bool>(
      OpId::bitwise_and, [](bool a, bool b) { return a && b; }, 2);
  check_elementwise<bool>(
      OpId::bitwise_or, [](bool a, bool b) { return a || b; }, 2);
  check_elementwise<bool>(
      OpId::bitwise_xor, [](bool a, bool b) { return a != b; }, 2);
  check_elementwise<bool>(
      OpId::bitwise_invert, [](bool a, bool) { return !a; }, 1);
}

TEST_P(Elementwise, NansAndZeros) {
  float nan = NAN, inf = INFINITY;
  using F = std::vector<float>;
  auto at = [](const F& values, std::size_t i) { return values[i]; };
  EXPECT_TRUE(std::isnan(at(map<float>(OpId::maximum, F{nan}, F{1}), 0)));
  EXPECT_TRUE(std::isnan(at(map<float>(OpId::minimum, F{1}, F{nan}), 0)));
  EXPECT_TRUE(std::isnan(at(map<float>(OpId::relu, F{nan}), 0)));
  EXPECT_TRUE(std::isnan(at(map<float>(OpId::sign, F{nan}), 0)));
  EXPECT_EQ(map<float>(OpId::scale, F{0, nan, inf, 2}, F{nan, 0, 0, 3}), (F{0, 0, 0, 6}));
  EXPECT_EQ(map<float>(OpId::remainder, F{-1, 1, -1}, F{inf, -inf, -inf}), (F{inf, -inf, -1}));
  EXPECT_EQ(map<bool>(OpId::isinf, F{inf, -inf, nan, 1}), (std::vector<bool>{true, true, false, false}));
  EXPECT_EQ(map<bool>(OpId::isfinite, F{inf, -inf, nan, 1}), (std::vector<bool>{false, false, false, true}));
}

TEST_P(Elementwise, InPlace) {
  for (Index n : {1, 3, 16, 17, 100, 5000, 200000}) {
    Array<float> x = random_array<float>(Shape(n), Lay::contiguous);
    const std::vector<float> before = x.values();
    const DeviceOperand there(x.view());
    const View out = there.view();
    backend()->run(op_square, nullptr, std::vector<View>{out}, std::span<const View>(&out, 1));
    backend()->read(x.base(), out.data, before.size() * sizeof(float));
    for (Index i = 0; i < n; ++i)
      ASSERT_EQ(x.at(i), before[static_cast<std::size_t>(i)] * before[static_cast<std::size_t>(i)]);
  }
}

// ---- conversion, selection, creation, layout ----------------------------------------------------

template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (is_half<From>) {
    return converted<To, float>(x);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::isnan(x)) return 0;
    Real clamped = std::clamp<Real>(x, std::numeric_limits<To>::min(), std::numeric_limits<To>::max());
    return static_cast<To>(clamped);
  } else {
    return static_cast<To>(x);
  }
}
template <class From>
void check_conversions() {
  std::vector<From> x;
  if constexpr (!std::is_integral_v<From>) {
    for (const auto value : special_values<Computed<From>>()) x.push_back(From(value));
    for (double edge : {0x1p8, 0x1p31, 0x1p32, 0x1p63})
      for (double step : {-1.0, -0.5, 0.0, 1.0}) x.insert(x.end(), {From(edge + step), From(-edge + step)});
  } else {
    for (std::int64_t v : {0l, 1l, -1l, 255l, 256l, 1l << 31, -(1l << 31), 1l << 32, 0x123456789abcdefl})
      x.push_back(static_cast<From>(v));
  }
  auto check = [&](auto zero) {
    using To = decltype(zero);
    std::vector<To> got = map<To>(OpId::astype, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(static_cast<double>(got[i]))) continue;
      ASSERT_EQ(got[i], (converted<To, From>(x[i])))
          << name_of(dtype_of<From>()) << " " << x[i] << " to " << name_of(dtype_of<To>());
    }
  };
  for (int d = 0; d < real_dtype_count; ++d) visit_real_dtype(static_cast<Dtype>(d), check);
}
TEST_P(Elementwise, Conversions) {
  for (int d = 0; d < real_dtype_count; ++d)
    visit_real_dtype(static_cast<Dtype>(d), [](auto zero) { check_conversions<decltype(zero)>(); });
}

template <class T>
void check_where_and_copy(Lay lay) {
  Shape shape{6, 37, 70};
  Array<bool> c = random_array<bool>(shape, lay);
  Array<T> x = random_array<T>(shape, lay), y = random_array<T>(shape, Lay::broadcast);
  std::vector<T> chosen = run<T>(OpId::where, nullptr, {c.view(), x.view(), y.view()}, shape);
  for (Index i = 0; i < shape.elements(); ++i)
    ASSERT_EQ(chosen[static_cast<std::size_t>(i)], c.at(i) ? x.at(i) : y.at(i));
  ASSERT_EQ(run<T>(OpId::copy, nullptr, {x.view()}, shape), x.values());
  ASSERT_EQ(run<T>(OpId::reshape, nullptr, {x.view()}, Shape{37 * 3, 140}), x.values());

  PadAttributes pad(Shape{9, 75, 210}, Shape{1, 37, 2}, Shape{1, -1, 3}, 1);
  std::vector<T> padded = run<T>(OpId::pad, &pad, {x.view()}, pad.shape);
  std::vector<T> expected(padded.size(), T(1));
  Array<T> compare = of<T>(pad.shape, expected);
  for (Index i = 0; i < 6; ++i)
    for (Index j = 0; j < 37; ++j)
      for (Index k = 0; k < 70; ++k)
        compare.base()[(1 + i) * 75 * 210 + (37 - j) * 210 + 2 + 3 * k] = x.at((i * 37 + j) * 70 + k);
  ASSERT_EQ(padded, compare.values());

  Array<T> other = random_array<T>(Shape{6, 5, 70}, Lay::permuted);
  AxisAttributes along(1);
  std::vector<T> joined = run<T>(OpId::concat, &along, {x.view(), other.view()}, Shape{6, 42, 70});
  for (Index i = 0; i < 6; ++i)
    for (Index j = 0; j < 42; ++j)
      for (Index k = 0; k < 70; ++k)
        ASSERT_EQ(joined[static_cast<std::size_t>((i * 42 + j) * 70 + k)],
                  j < 37 ? x.at((i * 37 + j) * 70 + k) : other.at((i * 5 + j - 37) * 70 + k));
}
TEST_P(Elementwise, SelectionAndLayout) {
  for (Lay lay : lays) {
    check_where_and_copy<float>(lay);
    check_where_and_copy<double>(lay);
    check_where_and_copy<BFloat16>(lay);
    check_where_and_copy<std::uint8_t>(lay);
    check_where_and_copy<bool>(lay);
    check_where_and_copy<std::int64_t>(lay);
  }
}
TEST_P(Elementwise, Creation) {
  FullAttributes full(Shape{3}, float32, 2.5), wide(Shape{1}, int64, (Index{1} << 60) + 1),
      flags(Shape{2}, bool_, true);
  EXPECT_EQ(run<float>(OpId::full, &full, {}, Shape{3}), (std::vector<float>{2.5, 2.5, 2.5}));
  EXPECT_EQ(run<std::int64_t>(OpId::full, &wide, {}, Shape{1}), std::vector<std::int64_t>{(Index{1} << 60) + 1});
  EXPECT_EQ(run<bool>(OpId::full, &flags, {}, Shape{2}), (std::vector<bool>{true, true}));
  IotaAttributes iota(4, float32, 1, 0.5), down(3, int32, 2, -3), far(2, int64, (Index{1} << 60) + 1, Index{1} << 61);
  EXPECT_EQ(run<float>(OpId::iota, &iota, {}, Shape{4}), (std::vector<float>{1, 1.5, 2, 2.5}));
  EXPECT_EQ(run<std::int32_t>(OpId::iota, &down, {}, Shape{3}), (std::vector<std::int32_t>{2, -1, -4}));
  EXPECT_EQ(run<std::int64_t>(OpId::iota, &far, {}, Shape{2}),
            (std::vector<std::int64_t>{(Index{1} << 60) + 1, (Index{1} << 60) + (Index{1} << 61) + 1}));
  Array<std::int64_t> x = of<std::int64_t>(Shape{1}, {7});
  PadAttributes pad(Shape{3}, Shape{1}, Shape{1}, (Index{1} << 60) + 1);
  EXPECT_EQ(run<std::int64_t>(OpId::pad, &pad, {x.view()}, Shape{3}),
            (std::vector<std::int64_t>{(Index{1} << 60) + 1, 7, (Index{1} << 60) + 1}));
}

}  // namespace
