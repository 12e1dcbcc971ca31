// Native code of every operation and dtype, at special and random values.
#include <limits>
#include <random>

#include "native.h"

namespace native {
namespace {

NATIVE_FIXTURE(NativeOperations);

using Random = std::mt19937_64;

// Numbers at which operations tend to go wrong, and random ones.
template <class T>
std::vector<T> values_of() {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_same_v<T, bool>) return {};
  else {
    std::vector<T> values{0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 100, Limits::max(), Limits::lowest()};
    Random random(11);
    if constexpr (std::is_floating_point_v<T>) {
      for (const double x :
           {-0.0, 0.5, 1.5, 2.5, -0.5, -1.0, -2.5, -3.7, 0.1, 1e10, -1e10, 3e9, 1e19, -1e19, 1e-30, 100.25})
        values.push_back(static_cast<T>(x));
      for (const T x :
           {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), Limits::min(), Limits::denorm_min()})
        values.push_back(x);
      for (int k = 0; k < 10; ++k) values.push_back(static_cast<T>(std::normal_distribution<double>(0, 3)(random)));
    } else {
      for (const int x : {-1, -2, -3, -7, -64}) values.push_back(static_cast<T>(x));
      for (int k = 0; k < 10; ++k) values.push_back(static_cast<T>(random()));
    }
    return values;
  }
}

// Three arrays that pair each value with each.
std::vector<Tensor> pairs_of(Dtype dtype) {
  return visit_real_dtype(dtype, [&](auto zero) -> std::vector<Tensor> {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      const std::vector<unsigned char> a{0, 0, 1, 1, 0, 0, 1, 1}, b{0, 1, 0, 1, 0, 1, 0, 1}, c{0, 0, 0, 0, 1, 1, 1, 1};
      std::vector<Tensor> tensors;
      for (const auto* bytes : {&a, &b, &c}) tensors.push_back(stave::from_bytes(bytes->data(), 8, bool_, {8}));
      return tensors;
    } else if constexpr (is_half<T>) {
      return {};
    } else {
      const std::vector<T> values = values_of<T>();
      std::vector<T> columns[3];
      for (std::size_t i = 0; i < values.size(); ++i)
        for (std::size_t j = 0; j < values.size(); ++j) {
          columns[0].push_back(values[i]);
          columns[1].push_back(values[j]);
          columns[2].push_back(values[(3 * i + 5 * j) % values.size()]);
        }
      std::vector<Tensor> tensors;
      for (const std::vector<T>& column : columns) {
        const auto size = static_cast<Index>(column.size());
        tensors.push_back(stave::from_bytes(column.data(), column.size(), dtype, {size}));
      }
      return tensors;
    }
  });
}

// out[i] = op(in0[i], in1[i], in2[i]); a select reads a bool that compares in0 and in1.
Lowered code_of(ScalarOp op, const std::vector<Tensor>& inputs, Dtype to) {
  Lowered code;
  LoweredBuilder builder(code);
  const Index size = inputs[0].size();
  for (int k = 0; k < 3; ++k) {
    builder.add_buffer({Lowered::Buffer::Kind::input, inputs[0].dtype(), size, k});
    code.input_shapes.push_back({size});
  }
  builder.add_buffer({Lowered::Buffer::Kind::output, to, size, 0});
  code.output_shapes.push_back({size});
  code.input_labels.resize(3);
  const int i = builder.begin_loop(size);
  const int a = builder.load(0, i, 0), b = builder.load(1, i, 0), c = builder.load(2, i, 0);
  int result = -1;
  if (op == ScalarOp::select) result = builder.add(op, builder.add(ScalarOp::less, a, b), b, c);
  else {
    const int count = stave_detail::operand_count(op);
    result = builder.add(op, a, count > 1 ? b : -1, count > 2 ? c : -1, to);
  }
  builder.store(3, i, 0, result);
  builder.end_loop();
  return code;
}

bool gives_bool(ScalarOp op) {
  return op == ScalarOp::signbit || (op >= ScalarOp::equal && op <= ScalarOp::less_equal);
}

constexpr Dtype dtypes[] = {bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64, float32, float64};
constexpr ScalarOp ops[] = {
#define X(name, operands) ScalarOp::name,
    STAVE_SCALAR_OPS(X)
#undef X
};

TEST_P(NativeOperations, EveryOperationAndDtypeEqualsTheInterpreter) {
  int compared = 0;
  for (const Dtype dtype : dtypes) {
    const std::vector<Tensor> inputs = pairs_of(dtype);
    for (const ScalarOp op : ops) {
      if (op == ScalarOp::convert || op == ScalarOp::erfc_of_root_half) continue;
      const Lowered code = code_of(op, inputs, gives_bool(op) ? bool_ : dtype);
      try {
        stave_test::LoweredRun interpreter(code);
        interpreter(inputs);
      } catch (const std::exception&) {
        continue;  // no such operation of the dtype
      }
      expect_same(std::string(stave_detail::name_of(op)) + " of " + name_of(dtype), code, inputs);
      ++compared;
    }
  }
  EXPECT_GT(compared, 200);
}

// The interpreter computes this function in another way. The kernel of gelu has its bits: for a
// positive x, gelu(-x) = -x (0.5 erfc(x / sqrt(2))).
TEST_P(NativeOperations, ErfcOfRootHalfHasTheBitsOfGelu) {
  for (const Dtype dtype : {float32, float64}) {
    const std::vector<Tensor> inputs = pairs_of(dtype);
    const Lowered code = code_of(ScalarOp::erfc_of_root_half, inputs, dtype);
    const std::unique_ptr<const NativeCode> native = compiled(code);
    const Tensor x = inputs[0], y = run(*native, code, inputs).outputs[0];
    const Tensor is_normal = logical_and(x > 0, x < 1e9);
    EXPECT_TRUE(same_numbers(where(is_normal, -x * (0.5 * y), 0), where(is_normal, gelu(-x), 0)));
  }
}

TEST_P(NativeOperations, EveryConversionEqualsTheInterpreter) {
  for (const Dtype from : dtypes)
    for (const Dtype to : dtypes) {
      if (from == to) continue;
      const std::vector<Tensor> inputs = pairs_of(from);
      expect_same(std::string(name_of(from)) + " to " + name_of(to), code_of(ScalarOp::convert, inputs, to), inputs);
    }
}

// Operands that are numbers are immediate ones, or in the table of constants.
TEST_P(NativeOperations, OperandsMayBeNumbers) {
  for (const Dtype dtype : {uint8, int16, int32, uint32, int64, uint64, float32, float64})
    for (const ScalarOp op : {ScalarOp::add, ScalarOp::subtract, ScalarOp::multiply, ScalarOp::less, ScalarOp::equal,
                              ScalarOp::less_equal, ScalarOp::shift_left, ScalarOp::shift_right, ScalarOp::bit_and}) {
      if (is_float(dtype) && op >= ScalarOp::bit_and) continue;
      for (const std::int64_t number : {0LL, 1LL, 5LL, 40LL, 200LL, -3LL, 0x123456789LL}) {
        if (size_of(dtype) < 8 && number > 200) continue;
        const std::vector<Tensor> inputs = pairs_of(dtype);
        for (const bool left : {false, true}) {
          Lowered code;
          LoweredBuilder builder(code);
          const Index size = inputs[0].size();
          const Dtype to = gives_bool(op) ? bool_ : dtype;
          builder.add_buffer({Lowered::Buffer::Kind::input, dtype, size, 0});
          builder.add_buffer({Lowered::Buffer::Kind::output, to, size, 0});
          code.input_shapes = code.output_shapes = {{size}};
          code.input_labels.resize(1);
          const int i = builder.begin_loop(size);
          const int x = builder.load(0, i, 0), n = builder.number(Scalar(number), dtype);
          builder.store(1, i, 0, left ? builder.add(op, n, x) : builder.add(op, x, n));
          builder.end_loop();
          expect_same(std::string(stave_detail::name_of(op)) + " with a number, of " + name_of(dtype), code,
                      {inputs[0]});
        }
      }
    }
}

}  // namespace
}  // namespace native
