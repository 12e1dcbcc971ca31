// Native code whose slots, constants, elements or branches are too far away for one instruction of
// some processor.
#include <numeric>
#include <random>

#include "native.h"

namespace native {
namespace {

NATIVE_FIXTURE(NativeFar);

Tensor ramp(Index n) { return astype(arange(n), float64) / n + 1; }

TEST_P(NativeFar, ManySlotsAndConstants) {
  constexpr Index n = 6000;
  for (const Dtype dtype : {float64, float32, int64}) {
    const Lowered code = stave_test::code_with({{dtype, {n}}}, {{dtype, {n}}}, [&](Lowered&, LoweredBuilder& b) {
      std::vector<int> values;
      for (Index k = 0; k < n; ++k) {
        const Scalar number = is_float(dtype) ? Scalar(static_cast<double>(k) + 0.125) : Scalar(k * 0x10001);
        values.push_back(b.add(ScalarOp::add, b.load(0, -1, k), b.number(number, dtype)));
      }
      for (std::size_t k = 0; k < values.size(); ++k)
        b.store(1, -1, static_cast<Index>(k), b.add(ScalarOp::multiply, values[k], values[values.size() - 1 - k]));
    });
    expect_same(std::string("many ") + name_of(dtype), code, {astype(ramp(n) * 100.0, dtype)});
  }
}

// A loop reverses the order of carried values: moves in cycles, between registers, between slots,
// and between a register and a slot.
TEST_P(NativeFar, ManyCarriedValues) {
  for (const Dtype dtype : {float64, int64})
    for (const Index n : {2, 13, 17, 20, 30, 40, 60, 5000}) {
      const Lowered code = stave_test::code_with({{dtype, {n}}}, {{dtype, {n}}}, [&](Lowered&, LoweredBuilder& b) {
        std::vector<int> initial, carried;
        for (Index k = 0; k < n; ++k) initial.push_back(b.load(0, -1, k));
        for (const int value : initial) carried.push_back(b.carried(value));
        b.begin_loop(3);
        for (std::size_t k = 0; k < carried.size(); ++k) b.next(carried[k], carried[carried.size() - 1 - k]);
        b.end_loop();
        for (Index k = 0; k < n; ++k) b.store(1, -1, k, carried[static_cast<std::size_t>(k)]);
      });
      expect_same(std::to_string(n) + " carried " + name_of(dtype), code, {astype(ramp(n) * 100, dtype)});
    }
}

// A value may be stored where the next step reads it, but not before the last instruction of the
// step that reads the value there.
TEST_P(NativeFar, CarriedValuesThatAreReadLate) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 60; ++trial) {
    const auto n = static_cast<std::size_t>(8 + random() % 40);
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    const Index size = static_cast<Index>(n);
    const Lowered code =
        stave_test::code_with({{float64, {size}}}, {{float64, {size}}}, [&](Lowered&, LoweredBuilder& b) {
          std::vector<int> initial, carried, next;
          for (std::size_t k = 0; k < n; ++k) initial.push_back(b.load(0, -1, static_cast<Index>(k)));
          for (const int value : initial) carried.push_back(b.carried(value));
          b.begin_loop(3);
          const int half = b.number(0.5, float64);
          for (std::size_t k = 0; k < n; ++k)
            next.push_back(
                b.add(ScalarOp::multiply, half, b.add(ScalarOp::add, carried[k], carried[random() % (k + 1)])));
          std::shuffle(order.begin(), order.end(), random);
          int sum = half;
          for (const std::size_t k : order)
            sum = b.add(ScalarOp::add, b.add(ScalarOp::multiply, sum, half),
                        random() % 2 ? b.add(ScalarOp::subtract, next[k], carried[k]) : carried[k]);
          next[0] = sum;
          for (std::size_t k = 0; k < n; ++k) b.next(carried[k], next[k]);
          b.end_loop();
          for (std::size_t k = 0; k < n; ++k) b.store(1, -1, static_cast<Index>(k), carried[k]);
        });
    expect_same("trial " + std::to_string(trial), code, {ramp(size) * 100});
  }
}

TEST_P(NativeFar, LongLoops) {
  const auto body = [](Lowered&, LoweredBuilder& b) {
    const int limit = b.number(Scalar(1e6), float64), x = b.load(0, -1, 0), y = b.load(0, -1, 1);
    const int carried = b.carried(x);
    b.begin_loop(2);
    int z = carried;
    for (int k = 0; k < 135'000; ++k) {
      z = b.add(ScalarOp::multiply, z, y);
      z = b.add(ScalarOp::add, z, x);
      if (k % 1000 == 0) b.check(b.add(ScalarOp::less, z, limit), "it is too large");
    }
    b.next(carried, z);
    b.end_loop();
    b.store(1, -1, 0, carried);
  };
  const Lowered code = stave_test::code_with({{float64, {2}}}, {{float64, {1}}}, body);
  expect_same("long", code, {tensor({0.25, 0.5}, float64)});
  expect_same("too large", code, {tensor({2.0, 1.5}, float64)});
}

TEST_P(NativeFar, FarElements) {
  constexpr Index n = 100'000;
  for (const Dtype dtype : {float64, float32, uint8}) {
    const Lowered code =
        stave_test::code_with({{dtype, {n}}}, {{dtype, {n}}, {dtype, {3}}}, [&](Lowered& lowered, LoweredBuilder& b) {
          Lowered::Buffer work{Lowered::Buffer::Kind::work, dtype, n};
          work.offset = 64 * 1001;
          lowered.work_bytes = work.offset + n * 8;
          const int buffer = b.add_buffer(work), half = b.number(Scalar(n / 2), int64);
          const int i = b.begin_loop(n / 2), j = b.add(ScalarOp::add, i, half);
          b.store(buffer, j, 0, b.load(0, i, 0));
          b.store(buffer, i, 0, b.load(0, j, 0));
          b.end_loop();
          const int k = b.begin_loop(n);
          b.store(1, k, 0, b.load(buffer, k, 0));
          b.end_loop();
          for (const Index at : {Index{0}, Index{1}, Index{2}})
            b.store(2, -1, at, b.load(buffer, -1, at * (n / 2) - at));
        });
    expect_same(std::string("large ") + name_of(dtype), code, {astype(ramp(n) * 100.0, dtype)});
  }
}

}  // namespace
}  // namespace native
