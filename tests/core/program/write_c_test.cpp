// C source from lowered code: it compiles without warnings, and computes what the library's
// operations compute, at special and at random values.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <locale>
#include <random>

#include <stave/core/program/write_c_text.h>
#include <stave/stave.h>

#include "compiled_c.h"
#include "lowered.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using stave_detail::Lowered;
using stave_detail::LoweredBuilder;
using stave_detail::ScalarOp;
using testing::HasSubstr;

constexpr ScalarOp every_op[] = {
#define X(name, operands) ScalarOp::name,
    STAVE_SCALAR_OPS(X)
#undef X
};
constexpr Dtype every_dtype[] = {bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64, float32, float64};

// ---- what the operations are in the library -----------------------------------------------------

bool is_function(ScalarOp op) { return op >= ScalarOp::exp; }
bool takes(ScalarOp op, Dtype dtype) {
  switch (op) {
    case ScalarOp::equal:
    case ScalarOp::not_equal:
    case ScalarOp::less:
    case ScalarOp::less_equal:
    case ScalarOp::select:
    case ScalarOp::convert: return true;
    case ScalarOp::negative:
    case ScalarOp::abs:
    case ScalarOp::floor:
    case ScalarOp::ceil:
    case ScalarOp::rint:
    case ScalarOp::trunc:
    case ScalarOp::add:
    case ScalarOp::subtract:
    case ScalarOp::multiply:
    case ScalarOp::pow:
    case ScalarOp::floor_divide:
    case ScalarOp::remainder: return dtype != bool_;
    case ScalarOp::bit_and:
    case ScalarOp::bit_or:
    case ScalarOp::bit_xor:
    case ScalarOp::bit_not: return !is_float(dtype);
    case ScalarOp::shift_left:
    case ScalarOp::shift_right: return is_integer(dtype);
    default: return is_float(dtype);
  }
}

template <class T>
Tensor by_element(const Tensor& a, const Tensor& b, const Tensor& c, FunctionRef<long double(T, T, T)> f) {
  const std::vector<T> x = a.to_vector<T>(), y = b.to_vector<T>(), z = c.to_vector<T>();
  std::vector<T> results(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) results[i] = static_cast<T>(f(x[i], y[i], z[i]));
  return from(results);
}
Tensor by_float(const Tensor& a, const Tensor& b, const Tensor& c, FunctionRef<long double(double, double, double)> f) {
  if (a.dtype() == float64) return by_element<double>(a, b, c, f);
  return by_element<float>(a, b, c, [&](float x, float y, float z) { return f(x, y, z); });
}

// op(a, b, c) by the library. The result of a conversion has the dtype `result`.
Tensor expected(ScalarOp op, const Tensor& a, const Tensor& b, const Tensor& c, Dtype result) {
  switch (op) {
    case ScalarOp::select: return where(less(a, b), b, c);
    case ScalarOp::convert: return astype(a, result);
    case ScalarOp::fma:
      if (a.dtype() == float32)
        return by_element<float>(a, b, c, [](float x, float y, float z) { return std::fma(x, y, z); });
      return by_element<double>(a, b, c, [](double x, double y, double z) { return std::fma(x, y, z); });
    case ScalarOp::erfc_of_root_half:
      return by_float(a, b, c, [](double x, double, double) { return std::erfc(x / std::sqrt(2.0L)); });
    case ScalarOp::mantissa:
      return by_float(a, b, c, [](double x, double, double) {
        int unused;
        return std::isfinite(x) ? std::frexp(x, &unused) : x;
      });
    case ScalarOp::exponent:
      return by_float(a, b, c, [](double x, double, double) {
        int exponent = 0;
        if (std::isfinite(x)) std::frexp(x, &exponent);
        return static_cast<double>(exponent);
      });
    case ScalarOp::ldexp:
      return by_float(a, b, c, [](double x, double y, double) -> long double {
        return std::isnan(y) ? y : std::ldexp(static_cast<long double>(x), static_cast<int>(std::clamp(y, -1e4, 1e4)));
      });
    case ScalarOp::rint: return round(a);
    case ScalarOp::bit_and: return bitwise_and(a, b);
    case ScalarOp::bit_or: return bitwise_or(a, b);
    case ScalarOp::bit_xor: return bitwise_xor(a, b);
    case ScalarOp::bit_not: return bitwise_invert(a);
    case ScalarOp::shift_left: return bitwise_left_shift(a, b);
    case ScalarOp::shift_right: return bitwise_right_shift(a, b);
#define ONE(name) \
  case ScalarOp::name: return name(a);
#define TWO(name) \
  case ScalarOp::name: return name(a, b);
      ONE(negative)
      ONE(abs)
      // clang-format off
      ONE(sqrt) ONE(floor) ONE(ceil) ONE(trunc) ONE(signbit) ONE(exp) ONE(exp2) ONE(expm1) ONE(log) ONE(log2)
      ONE(log10) ONE(log1p) ONE(sin) ONE(cos) ONE(tan) ONE(asin) ONE(acos) ONE(atan) ONE(sinh) ONE(cosh)
      ONE(tanh) ONE(asinh) ONE(acosh) ONE(atanh) ONE(erf) ONE(erfc) ONE(erfinv) ONE(lgamma) ONE(digamma)
      TWO(add) TWO(subtract) TWO(multiply) TWO(divide) TWO(copysign) TWO(equal) TWO(not_equal) TWO(less)
      TWO(less_equal) TWO(pow) TWO(atan2) TWO(hypot) TWO(nextafter) TWO(zeta) TWO(floor_divide) TWO(remainder)
      // clang-format on
#undef ONE
#undef TWO
  }
  return {};
}

// ---- operands -----------------------------------------------------------------------------------

template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_same_v<T, bool>) {
    return {false, true};
  } else if constexpr (std::is_integral_v<T>) {
    std::vector<T> list = {0,
                           1,
                           2,
                           3,
                           7,
                           10,
                           100,
                           Limits::max(),
                           Limits::max() - 1,
                           Limits::max() / 2,
                           Limits::max() / 2 + 1,
                           Limits::min(),
                           static_cast<T>(Limits::min() + 1)};
    for (const int bits : {7, 8, 15, 16, 31, 32, 63, 64}) list.push_back(static_cast<T>(bits));
    for (const int negative : {-1, -2, -3, -7, -100}) list.push_back(static_cast<T>(negative));
    return list;
  } else {
    std::vector<T> list = {Limits::max(),     Limits::min(),      Limits::denorm_min(),
                           Limits::epsilon(), Limits::infinity(), T(1 - Limits::epsilon() / 2)};
    for (const double x : {0.,
                           0.1,
                           0.25,
                           0.5,
                           0.9,
                           0.999,
                           1.,
                           1.5,
                           2.,
                           2.5,
                           3.,
                           3.14159265358979,
                           3.7,
                           5.,
                           9.,
                           10.25,
                           20.,
                           50.5,
                           88.,
                           100.,
                           104.,
                           127.9,
                           128.,
                           200.,
                           255.5,
                           256.,
                           700.,
                           709.7,
                           1000.,
                           32768.,
                           65536.,
                           1e6,
                           2147483647.5,
                           2147483648.,
                           4294967296.,
                           9223372036854775808.,
                           18446744073709551616.,
                           1e20,
                           1e-5,
                           1e-30})
      list.push_back(static_cast<T>(x));
    for (std::size_t i = 0, n = list.size(); i < n; ++i) list.push_back(T(-list[i]));
    list.push_back(Limits::quiet_NaN());
    return list;
  }
}

// Three operands: all pairs of special values, and random numbers; the third one is a value further
// on.
template <class T>
std::vector<Tensor> operands_of(Dtype dtype) {
  const std::vector<T> values = special_values<T>();
  std::vector<T> a, b, c;
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = 0; j < values.size(); ++j) {
      a.push_back(values[i]);
      b.push_back(values[j]);
      c.push_back(values[(i + 2 * j + 1) % values.size()]);
    }
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i)
    for (std::vector<T>* const list : {&a, &b, &c}) {
      if constexpr (std::is_same_v<T, bool>) list->push_back(random() & 1);
      else if constexpr (std::is_integral_v<T>) list->push_back(static_cast<T>(random() >> (random() % 64)));
      else list->push_back(static_cast<T>(std::normal_distribution<double>(0, i % 2 ? 1 : 20)(random)));
    }
  EXPECT_EQ(dtype_of<T>(), dtype);
  return {from(a), from(b), from(c)};
}

// ---- comparison ---------------------------------------------------------------------------------

// The difference in units in the last place of b, or of `least` if that is larger.
template <class T>
double ulps(T a, T b, T least) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : HUGE_VAL;
  if (std::isinf(a) || std::isinf(b)) return a == b ? 0 : HUGE_VAL;
  if (a == 0 && b == 0) return std::signbit(a) == std::signbit(b) ? 0 : HUGE_VAL;
  const T size = std::max(std::abs(b), least);
  const T unit =
      std::max(std::nextafter(size, std::numeric_limits<T>::infinity()) - size, std::numeric_limits<T>::denorm_min());
  return static_cast<double>(std::abs(static_cast<long double>(a) - b) / unit);
}

// Returns the greatest difference in units in the last place; of integers, infinity for any.
// docs/accuracy.md says for which operands errors are absolute.
struct Difference {
  double ulps = 0;
  std::size_t place = 0;
};
template <class T>
Difference difference(const Tensor& found, const Tensor& expected, ScalarOp op, const std::vector<double>& operand) {
  const std::vector<T> a = found.to_vector<T>(), b = expected.to_vector<T>();
  Difference worst;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double d = a[i] == b[i] ? 0 : HUGE_VAL;
    if constexpr (std::is_floating_point_v<T>) {
      T least = 0;
      if (op == ScalarOp::lgamma && operand[i] < 0) least = 1;
      if (op == ScalarOp::digamma && operand[i] < 2) least = 32;
      d = ulps<T>(a[i], b[i], least);
    }
    if (!(d <= worst.ulps)) worst = {d, i};
  }
  return worst;
}

// The error of a function of libm and of the library, together: at most 1 in most, both.
double bound_of(ScalarOp op, Dtype dtype) {
  switch (op) {
    case ScalarOp::zeta: return 8;
    case ScalarOp::digamma:
    case ScalarOp::erfinv: return 5;
    case ScalarOp::erfc:
    case ScalarOp::erfc_of_root_half: return dtype == float64 ? 6 : 3;
    default: return is_function(op) ? 3 : 0;
  }
}

struct Column {
  ScalarOp op;
  Dtype result;
};

// The code of all operations on a dtype: a loop over the operands.
Lowered code_of(Dtype dtype, Index elements, std::vector<Column>& columns) {
  Lowered code;
  LoweredBuilder builder(code);
  for (int i = 0; i < 3; ++i) {
    builder.add_buffer({Lowered::Buffer::Kind::input, dtype, elements, i});
    code.input_shapes.push_back({elements});
    code.input_labels.emplace_back();
  }
  for (const ScalarOp op : every_op) {
    if (!takes(op, dtype)) continue;
    if (op == ScalarOp::convert)
      for (const Dtype to : every_dtype) columns.push_back({op, to});
    else {
      const bool is_bool = (op >= ScalarOp::equal && op <= ScalarOp::less_equal) || op == ScalarOp::signbit;
      columns.push_back({op, is_bool ? bool_ : dtype});
    }
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    builder.add_buffer({Lowered::Buffer::Kind::output, columns[i].result, elements, static_cast<int>(i)});
    code.output_shapes.push_back({elements});
  }
  const int index = builder.begin_loop(elements);
  int x[3];
  for (int i = 0; i < 3; ++i) x[i] = builder.load(i, index, 0);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const ScalarOp op = columns[i].op;
    int value;
    if (op == ScalarOp::select) value = builder.add(op, builder.add(ScalarOp::less, x[0], x[1]), x[1], x[2]);
    else {
      const int count = operand_count(op);
      value = builder.add(op, x[0], count > 1 ? x[1] : -1, count > 2 ? x[2] : -1, columns[i].result);
    }
    builder.store(3 + static_cast<int>(i), index, 0, value);
  }
  builder.end_loop();
  verify(code);
  return code;
}

class WriteCOperations : public testing::TestWithParam<Dtype> {
 protected:
  const Dtype dtype = GetParam();
  const std::vector<Tensor> operands =
      visit_real_dtype(dtype, [&](auto zero) { return operands_of<decltype(zero)>(dtype); });
  std::vector<Column> columns;
  const Lowered code = code_of(dtype, operands[0].size(), columns);
};

TEST_P(WriteCOperations, ComputesEachOperationAsTheLibraryDoes) {
  for (const std::string& compiler : c_compilers()) {
    CompiledC compiled(code, compiler);
    const std::vector<Tensor> found = compiled(operands);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const ScalarOp op = columns[i].op;
      const Dtype result = columns[i].result;
      const Tensor wanted = expected(op, operands[0], operands[1], operands[2], result);
      ASSERT_EQ(wanted.dtype(), result) << name_of(op);
      const Difference worst = visit_real_dtype(
          result, [&](auto zero) { return difference<decltype(zero)>(found[i], wanted, op, values(operands[0])); });
      const auto at = [&](const Tensor& x) { return x[static_cast<Index>(worst.place)].str(); };
      EXPECT_LE(worst.ulps, bound_of(op, dtype))
          << name_of(op) << " of " << name_of(dtype) << " to " << name_of(result) << " by " << compiler << ": ("
          << at(operands[0]) << ", " << at(operands[1]) << ", " << at(operands[2]) << ") is " << at(found[i])
          << ", not " << at(wanted);
    }
  }
}
TEST_P(WriteCOperations, HasNoUndefinedBehaviour) {
  for (const std::string& compiler : c_compilers()) {
    CompiledC compiled(code, compiler);
    EXPECT_NO_THROW(compiled.sanitized(operands)) << compiler;
  }
}
INSTANTIATE_TEST_SUITE_P(, WriteCOperations, testing::ValuesIn(every_dtype),
                         [](const auto& each) { return name_of(each.param); });

TEST(WriteC, NumbersAndTablesAreExact) {
  for (const Dtype dtype : every_dtype) {
    const Tensor numbers = visit_real_dtype(dtype, [](auto zero) -> Tensor {
      using T = decltype(zero);
      std::vector<T> list = special_values<T>();
      std::mt19937_64 random(3);
      if constexpr (std::is_floating_point_v<T>)
        for (int i = 0; i < 1000; ++i) {
          BitsOf<T> bits = static_cast<BitsOf<T>>(random());
          T x;
          std::memcpy(&x, &bits, sizeof x);
          if (x == x) list.push_back(x);
        }
      return from(list);
    });
    const Index n = numbers.size();
    const Lowered code = code_with({}, {{dtype, {n}}, {dtype, {n}}}, [&](Lowered&, LoweredBuilder& b) {
      const int table = b.add_buffer({Lowered::Buffer::Kind::constant, dtype, n, -1, numbers});
      const int i = b.begin_loop(n);
      b.store(0, i, 0, b.load(table, i, 0));
      b.end_loop();
      visit_real_dtype(dtype, [&](auto zero) {
        using T = decltype(zero);
        const std::vector<T> list = numbers.to_vector<T>();
        for (Index place = 0; place < n; ++place) {
          const T x = list[static_cast<std::size_t>(place)];
          std::int64_t bytes = 0;
          std::memcpy(&bytes, &x, sizeof x);
          b.store(1, -1, place, b.number_of_bytes(bytes, dtype));
        }
      });
    });
    for (const std::string& compiler : c_compilers()) {
      CompiledC compiled(code, compiler, "-O0");
      for (const Tensor& found : compiled({}))
        visit_real_dtype(dtype, [&](auto zero) {
          using T = decltype(zero);
          const std::vector<T> a = found.to_vector<T>(), b = numbers.to_vector<T>();
          for (std::size_t i = 0; i < a.size(); ++i) {
            const T x = a[i], y = b[i];
            if (x != x && y != y) continue;
            EXPECT_EQ(std::memcmp(&x, &y, sizeof x), 0) << compiler << " " << name_of(dtype) << " " << i;
          }
        });
    }
  }
}

// ---- other processors ---------------------------------------------------------------------------

bool succeeds(const std::string& command) {
  return std::system(("{ " + command + "; } > /dev/null 2>&1").c_str()) == 0;
}

// Debian's packages gcc-arm-none-eabi and libnewlib-arm-none-eabi, if they are installed.
TEST_P(WriteCOperations, CompilesForAProcessorWithoutAnOperatingSystem) {
  if (!succeeds("echo '#include <math.h>' | arm-none-eabi-gcc -E -"))
    GTEST_SKIP() << "there is no arm-none-eabi-gcc with newlib";
  std::vector<Column> columns;
  CompiledC compiled(code_of(GetParam(), 100, columns), "arm-none-eabi-gcc");
  EXPECT_NO_THROW(compiled.compile("arm-none-eabi-gcc" + strict_c +
                                   "-mcpu=cortex-m7 -mthumb -mfpu=fpv5-d16 -mfloat-abi=hard -O2 -c f.c"));
}

// On ARM, which contracts products and sums by default and converts out-of-range floats otherwise.
TEST_P(WriteCOperations, ComputesTheSameOnArm) {
  if (!succeeds("command -v aarch64-linux-gnu-gcc && command -v qemu-aarch64")) GTEST_SKIP() << "there is no ARM";
  const Dtype dtype = GetParam();
  const std::vector<Tensor> operands =
      visit_real_dtype(dtype, [&](auto zero) { return operands_of<decltype(zero)>(dtype); });
  std::vector<Column> columns;
  CompiledC compiled(code_of(dtype, operands[0].size(), columns), "gcc");
  const std::vector<Tensor> here = compiled(operands),
                            there = compiled.by_program(operands, "aarch64-linux-gnu-gcc -static -O2", "qemu-aarch64");
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const Difference worst = visit_real_dtype(columns[i].result, [&](auto zero) {
      return difference<decltype(zero)>(there[i], here[i], columns[i].op, values(operands[0]));
    });
    EXPECT_LE(worst.ulps, bound_of(columns[i].op, dtype)) << name_of(columns[i].op) << " of " << name_of(dtype);
  }
}

}  // namespace
