// Native code for lanes: a block of lanes at once has, in each lane, what the interpreter of lowered
// code computes for that lane alone.
#include <limits>

#include <stave/backends/cpu/native/lane_code.h>

#include "native.h"
#include "random_code.h"

namespace native {
namespace {

using stave_cpu::LaneCode;
using stave_cpu::LaneLayout;

/// As Native, for the instruction sets that have lanes.
class NativeLanes : public Native {
 protected:
  void SetUp() override {
    Native::SetUp();
    if (IsSkipped()) return;
    std::string reason;
    if (!LaneCode::compile(Lowered{}, {}, &reason)) GTEST_SKIP() << reason;
  }
};
STAVE_ON_EACH_ISA(NativeLanes);

/// An array of all lanes, along axis 0; the same for all of them if it is uniform.
struct LaneInput {
  std::vector<Tensor> lanes;
  bool is_uniform;
};

// Runs the code for all lanes. Returns false if a check failed.
bool run_lanes(const Lowered& code, const std::vector<LaneInput>& inputs, Index lanes, std::vector<Tensor>& outputs) {
  std::vector<bool> is_uniform;
  LaneLayout layout{lanes, {}, {}};
  std::vector<Tensor> all;
  for (const LaneInput& input : inputs) {
    is_uniform.push_back(input.is_uniform);
    all.push_back(contiguous(input.is_uniform ? input.lanes[0] : stack(input.lanes)));
    const Tensor& x = all.back();
    layout.inputs.push_back({x.dtype(), x.shape(), x.node().strides, input.is_uniform ? -1 : 0});
  }
  for (std::size_t k = 0; k < code.outputs(); ++k) {
    const Lowered::Buffer& buffer = code.buffers[code.inputs() + k];
    const auto elements = static_cast<std::size_t>(lanes * buffer.elements);
    const std::vector<unsigned char> zeros(elements * size_of(buffer.dtype));
    outputs.push_back(from_bytes(zeros.data(), elements, buffer.dtype, {lanes, buffer.elements}));
    layout.outputs.push_back({buffer.dtype, outputs.back().shape(), outputs.back().node().strides, 0});
  }
  std::string reason;
  std::unique_ptr<const LaneCode> native = LaneCode::compile(code, is_uniform, &reason);
  if (!native) {
    ADD_FAILURE() << reason;
    return false;
  }
  const auto view = [](const Tensor& x) {
    const auto& node = x.node();
    return View{node.data(), node.dtype, node.shape, node.strides};
  };
  std::vector<View> from, to;
  for (const Tensor& x : all) from.push_back(view(x));
  for (const Tensor& x : outputs) to.push_back(view(x));
  return machine_code_of_lanes(std::move(native), layout)->run(from, to);
}

void expect_lanes(const std::string& name, const Lowered& code, const std::vector<LaneInput>& inputs, Index lanes) {
  std::vector<Tensor> outputs;
  const bool succeeded = run_lanes(code, inputs, lanes, outputs);
  bool all_succeed = true;
  for (Index lane = 0; lane < lanes && !testing::Test::HasFailure(); ++lane) {
    std::vector<Tensor> of_lane;
    for (const LaneInput& input : inputs)
      of_lane.push_back(input.lanes[input.is_uniform ? 0 : static_cast<std::size_t>(lane)]);
    stave_test::LoweredRun interpreter(code);
    const std::vector<Tensor> expected = interpreter(of_lane);
    all_succeed &= interpreter.error.empty();
    for (std::size_t k = 0; succeeded && k < expected.size(); ++k) {
      const Tensor found = reshape(contiguous(outputs[k](lane)), expected[k].shape());
      EXPECT_TRUE(same_numbers(found, expected[k])) << name << ", lane " << lane << " of " << lanes << ", output " << k
                                                    << ": " << found << "\nexpected " << expected[k];
    }
  }
  EXPECT_EQ(succeeded, all_succeed) << name;
}

const std::vector<Dtype> wide{float64, float32, int64, int32, uint32, bool_};

std::vector<LaneInput> random_lanes(const std::vector<Dtype>& dtypes, unsigned seed, Index lanes) {
  std::vector<LaneInput> inputs(dtypes.size());
  for (Index lane = 0; lane < lanes; ++lane) {
    const std::vector<Tensor> of_lane = random_inputs(dtypes, seed * 100 + static_cast<unsigned>(lane));
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].lanes.push_back(of_lane[i]);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].is_uniform = (seed >> i & 1) && (seed % 3 == 0);
  return inputs;
}

TEST_P(NativeLanes, RandomCodeEqualsTheInterpreterInEachLane) {
  const Index counts[] = {1, 2, 3, 7, 8, 9, 17};
  for (unsigned seed = 0; seed < 600; ++seed) {
    const std::vector<Dtype> dtypes =
        seed % 5 == 0 ? std::vector<Dtype>{float64, float32, int64, uint64, int32, bool_} : wide;
    const Lowered code = Generator(seed, dtypes, false).run(seed % 3 == 0 ? 20 : seed % 3 == 1 ? 80 : 300);
    const Index lanes = counts[seed % 7];
    expect_lanes("seed " + std::to_string(seed), code, random_lanes(dtypes, seed, lanes), lanes);
    if (HasFailure()) {
      std::cout << code.str();
      return;
    }
  }
}

// ---- each operation -----------------------------------------------------------------------------

template <class T>
std::vector<T> unusual() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> all{T(0), T(1), T(2), T(3), T(7), T(31), T(33), T(64), Limits::max(), Limits::lowest()};
  if constexpr (std::is_floating_point_v<T>) {
    for (const T x : {T(0.5), T(1.5), T(-0.7), T(1e10), T(3e9), T(-3e9), T(5e18), T(1e-30)}) all.push_back(x);
    for (const T x : {-T(0), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), Limits::denorm_min()})
      all.push_back(x);
  } else if constexpr (!std::is_same_v<T, bool>) {
    for (const T x : {T(-1), T(-2), T(-64), T(Limits::max() / 3), T(Limits::lowest() / 2 + 1), T(0x7fffffff)})
      all.push_back(x);
  }
  return all;
}
Tensor unusual(Dtype dtype, unsigned rotated) {
  return visit_real_dtype(dtype, [&](auto zero) -> Tensor {
    using T = decltype(zero);
    if constexpr (stave::is_half<T>) return {};
    else {
      std::vector<T> values = unusual<T>();
      std::rotate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(rotated % values.size()), values.end());
      std::vector<unsigned char> bytes(values.size() * sizeof(T));
      for (std::size_t k = 0; k < values.size(); ++k) {
        const T value = values[k];
        std::memcpy(bytes.data() + k * sizeof(T), &value, sizeof(T));
      }
      return from_bytes(bytes.data(), values.size(), dtype, {static_cast<Index>(values.size())});
    }
  });
}

// Code with one operation on elements of its inputs; the position is that of a loop.
Lowered of_one_operation(ScalarOp op, std::span<const Dtype> dtypes, Dtype result, Index elements, bool has_double) {
  Lowered code;
  LoweredBuilder builder(code);
  using Kind = Lowered::Buffer::Kind;
  int number = 0;
  for (const Dtype dtype : dtypes) {
    builder.add_buffer({Kind::input, dtype, elements, number++});
    code.input_shapes.push_back({elements});
  }
  code.input_labels.resize(dtypes.size());
  const int out = builder.add_buffer({Kind::output, result, elements, 0});
  code.output_shapes.push_back({elements});
  int extra = -1;
  if (has_double) {
    extra = builder.add_buffer({Kind::output, float64, 1, 1});
    code.output_shapes.push_back({1});
  }
  if (extra >= 0) builder.store(extra, -1, 0, builder.number(Scalar(1.5), float64));
  const int i = builder.begin_loop(elements);
  int operands[3] = {-1, -1, -1};
  for (std::size_t k = 0; k < dtypes.size(); ++k) operands[k] = builder.load(static_cast<int>(k), i, 0);
  builder.store(out, i, 0, builder.add(op, operands[0], operands[1], operands[2], result));
  builder.end_loop();
  return code;
}

void expect_operation(ScalarOp op, const std::vector<Dtype>& dtypes, Dtype result) {
  const Index elements = unusual(dtypes.back(), 0).size();
  for (const bool has_double : {false, true})
    for (unsigned uniform = 0; uniform < 1u << dtypes.size(); ++uniform) {
      const Lowered code = of_one_operation(op, dtypes, result, elements, has_double);
      constexpr Index lanes = 23;
      std::vector<LaneInput> inputs;
      for (std::size_t k = 0; k < dtypes.size(); ++k) {
        inputs.push_back({{}, (uniform >> k & 1) != 0});
        for (Index lane = 0; lane < lanes; ++lane) {
          Tensor x = unusual(dtypes[k], static_cast<unsigned>((k + 1) * static_cast<std::size_t>(lane)));
          while (x.size() < elements) x = concat({x, x});
          inputs.back().lanes.push_back(x(slice(0, elements)));
        }
      }
      std::string name = std::string(stave_detail::name_of(op)) + " to " + stave::name_of(result);
      for (const Dtype dtype : dtypes) name += std::string(" of ") + stave::name_of(dtype);
      expect_lanes(name + (has_double ? ", beside a double" : ""), code, inputs, lanes);
      if (testing::Test::HasFailure()) return;
    }
}

bool takes(ScalarOp op, Dtype dtype) {
  using Op = ScalarOp;
  const bool is_bits = op >= Op::bit_and && op <= Op::bit_not, is_shift = op == Op::shift_left || op == Op::shift_right;
  if (op == Op::convert || op == Op::select) return false;
  if (dtype == bool_) return is_bits || op == Op::equal || op == Op::not_equal;
  if (is_float(dtype)) return !is_bits && !is_shift;
  return is_bits || is_shift || (op >= Op::floor && op <= Op::multiply) || op == Op::negative || op == Op::abs ||
         (op >= Op::equal && op <= Op::less_equal) || op == Op::floor_divide || op == Op::remainder;
}

TEST_P(NativeLanes, EachOperationEqualsTheInterpreter) {
  using Op = ScalarOp;
  const std::vector<Dtype> dtypes{float64, float32, int64, int32, uint64, uint32, bool_};
  for (int k = 0; k <= static_cast<int>(Op::remainder); ++k) {
    const auto op = static_cast<Op>(k);
    if (op == Op::erfc_of_root_half) continue;  // The interpreter computes it in another way.
    for (const Dtype dtype : dtypes) {
      if (!takes(op, dtype)) continue;
      const bool is_comparison = (op >= Op::equal && op <= Op::less_equal) || op == Op::signbit;
      const auto operands = static_cast<std::size_t>(stave_detail::operand_count(op));
      expect_operation(op, std::vector<Dtype>(operands, dtype), is_comparison ? bool_ : dtype);
    }
  }
  for (const Dtype from : dtypes) {
    expect_operation(Op::select, {bool_, from, from}, from);
    for (const Dtype to : dtypes)
      if (from != to) expect_operation(Op::convert, {from}, to);
  }
}

// ---- what lanes refuse --------------------------------------------------------------------------

TEST_P(NativeLanes, RefusesStepsThatDifferAndSmallIntegers) {
  Lowered code;
  LoweredBuilder builder(code);
  builder.add_buffer({Lowered::Buffer::Kind::input, int64, 1, 0});
  builder.add_buffer({Lowered::Buffer::Kind::output, int64, 1, 0});
  const int steps = builder.load(0, -1, 0), first = builder.number(Scalar(1), int64);
  const int carried = builder.carried(first);
  builder.begin_loop_of(steps);
  builder.next(carried, builder.add(ScalarOp::add, carried, carried));
  builder.end_loop();
  builder.store(1, -1, 0, carried);
  code.input_shapes = code.output_shapes = {{1}};
  std::string reason;
  EXPECT_FALSE(LaneCode::compile(code, {false}, &reason));
  EXPECT_EQ(reason, "lanes have different numbers of steps of a loop");
  EXPECT_TRUE(LaneCode::compile(code, {true}, &reason));

  Lowered bytes;
  LoweredBuilder of_bytes(bytes);
  of_bytes.add_buffer({Lowered::Buffer::Kind::input, uint8, 1, 0});
  of_bytes.add_buffer({Lowered::Buffer::Kind::output, uint8, 1, 0});
  of_bytes.store(1, -1, 0, of_bytes.load(0, -1, 0));
  bytes.input_shapes = bytes.output_shapes = {{1}};
  EXPECT_FALSE(LaneCode::compile(bytes, {false}, &reason));
  EXPECT_EQ(reason, "native code has no lanes of uint8");
}

}  // namespace
}  // namespace native
