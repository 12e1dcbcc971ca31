// Whole programs under vmap as native code for lanes: they have the bits of the kernels.
#include <gmock/gmock.h>

#include <fmt/format.h>

#include <stave/backends/cpu/native/lane_code.h>
#include <stave/core/program/native.h>
#include <stave/core/program/passes/passes.h>

#include "machine_code.h"
#include "native.h"

namespace native {
namespace {

using stave_cpu::LaneCode;
using stave_test::replayed;
using stave_test::tensors_of;

NATIVE_FIXTURE(NativeLanePrograms);

bool has_lanes() {
  if (stave_test::native_setting() == "0") return false;
  std::string reason;
  return LaneCode::compile(Lowered{}, {}, &reason) != nullptr;
}

/// The program with machine code, as text: groups of lanes say "for 64 lanes".
template <class F, class... Xs>
std::string groups(const F& f, const Xs&... xs) {
  const Program program = stave_detail::optimized(stave_detail::with_calls_inlined(trace(f)(xs...)));
  std::vector<Strides> strides;
  for (const Tensor& x : {xs...}) strides.push_back(x.node().strides);
  return stave_detail::with_native_code(program, strides, stave::Native::automatic, 1e9).program.str();
}
std::string lanes_text(Index lanes) { return "for " + std::to_string(lanes) + " lanes"; }

/// Expects that all operations are one group of lanes.
template <class F, class... Xs>
void expect_one_group(Index lanes, const F& f, const Xs&... xs) {
  const std::string text = groups(f, xs...);
  EXPECT_THAT(text, testing::HasSubstr(lanes_text(lanes)));
  int instructions = 0, constants = 0;
  for (std::size_t at = 0; (at = text.find(" = ", at)) != std::string::npos; ++at) {
    ++instructions;
    constants += text.compare(at, 11, " = constant") == 0;
  }
  EXPECT_EQ(instructions - constants, 1) << text;
}

template <class F, class... Xs>
std::vector<Tensor> by_machine_code(const F& f, const Xs&... xs) {
  try {
    return tensors_of(replayed(compile(f, {.native = stave::Native::required}), xs...));
  } catch (const stave_detail::NativeCodeError&) {  // Kernels run a part of the program.
    return tensors_of(replayed(compile(f), xs...));
  }
}

template <class F, class... Xs>
void expect_bits_of_kernels(const std::string& name, const F& f, const Xs&... xs) {
  const auto native = by_machine_code(f, xs...);
  const auto kernels = tensors_of(replayed(compile(f, {.native = stave::Native::never}), xs...));
  ASSERT_EQ(native.size(), kernels.size());
  for (std::size_t k = 0; k < native.size(); ++k)
    EXPECT_TRUE(same_numbers(contiguous(native[k]), contiguous(kernels[k])))
        << name << ": " << native[k] << " by machine code, " << kernels[k] << " by kernels";
}

constexpr Index counts[] = {1, 2, 3, 7, 8, 9, 63, 64, 65, 1000};
Tensor random_tensor(unsigned seed, const Shape& shape, Dtype dtype = float64) {
  return astype(normal(Key(seed), shape, float64), dtype);
}

// ---- models -------------------------------------------------------------------------------------

Tensor lorenz(const Tensor& s) {
  const auto [x, y, z] = unstack<3>(s);
  return stack({10 * (y - x), x * (28 - z) - y, x * y - 8. / 3 * z});
}
Tensor runge_kutta(const Tensor& s) {
  constexpr double h = 0.01;
  const Tensor k1 = lorenz(s), k2 = lorenz(s + h / 2 * k1), k3 = lorenz(s + h / 2 * k2), k4 = lorenz(s + h * k3);
  return s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
}
Tensor lorenz_path(const Tensor& start) { return sum(loop(20, runge_kutta)(start)); }

TEST_P(NativeLanePrograms, LorenzAndItsGradient) {
  if (!has_lanes()) GTEST_SKIP() << "no lanes with these kernels";
  for (const Dtype dtype : {float64, float32})
    for (const Index lanes : counts) {
      const Tensor starts = random_tensor(1, {lanes, 3}, dtype) + 1;
      const std::string name = std::string(stave::name_of(dtype)) + " " + std::to_string(lanes);
      expect_bits_of_kernels(name, vmap(lorenz_path), starts);
      expect_bits_of_kernels(name, vmap(grad(lorenz_path)), starts);
      if (HasFailure()) return;
    }
  const Tensor starts = random_tensor(1, {64, 3}) + 1;
  expect_one_group(64, vmap(lorenz_path), starts);
  expect_one_group(64, vmap(grad(lorenz_path)), starts);
}

Tensor banana(const Tensor& q) {
  const Tensor x = q(0), y = q(1);
  return -(square(1 - x) + 5 * square(y - square(x))) / 2;
}
Tensor hmc_transition(const Tensor& q, const Tensor& key) {
  constexpr double step = 0.1;
  const auto [of_momentum, of_chance] = split<2>(Key(key));
  const Tensor momentum = normal(of_momentum, {2}, q.dtype()), chance = uniform(of_chance, {}, q.dtype());
  const auto slope = grad(banana);
  const auto energy = [](const Tensor& at, const Tensor& p) { return vecdot(p, p) / 2 - banana(at); };
  Tensor at = q, p = momentum + step / 2 * slope(q);
  for (int i = 0; i < 4; ++i) {
    at = at + step * p;
    p = p + step * slope(at);
  }
  return where(log(chance) < energy(q, momentum) - energy(at, p), at, q);
}

TEST_P(NativeLanePrograms, HamiltonianMonteCarlo) {
  if (!has_lanes()) GTEST_SKIP() << "no lanes with these kernels";
  for (const Dtype dtype : {float64, float32})
    for (const Index lanes : counts) {
      const Tensor keys = stack({astype(arange(lanes), uint32), full({lanes}, 7, uint32)}, 1);
      expect_bits_of_kernels(std::string(stave::name_of(dtype)) + " " + std::to_string(lanes), vmap(hmc_transition),
                             random_tensor(2, {lanes, 2}, dtype), keys);
      if (HasFailure()) return;
    }
  const Tensor keys = stack({astype(arange(64), uint32), full({64}, 7, uint32)}, 1);
  expect_one_group(64, vmap(hmc_transition), random_tensor(2, {64, 2}), keys);
}

// A step of an extended Kalman filter.
Tensor filtered(const Tensor& state, const Tensor& seen) {
  const auto move = [](const Tensor& s) {
    return stack({s(0) + 0.1 * s(2) * cos(s(3)), s(1) + 0.1 * s(2) * sin(s(3)), s(2), s(3) + 0.03});
  };
  const auto look = [](const Tensor& s) { return stack({hypot(s(0), s(1)), atan2(s(1), s(0))}); };
  const Tensor f = jacfwd(move)(state), p = matmul(f, matrix_transpose(f)) + 0.1 * eye(4, state.dtype());
  const Tensor next = move(state), h = jacfwd(look)(next), hp = matmul(h, p);
  const Tensor spread = matmul(hp, matrix_transpose(h)) + 0.01 * eye(2, state.dtype());
  const Tensor gain = matrix_transpose(solve(spread, hp)), surprise = seen - look(next);
  return concat({next + matmul(gain, surprise), reshape(p - matmul(gain, hp), {16}),
                 reshape(slogdet(spread).second, {1}), reshape(cholesky(spread), {4})});
}

TEST_P(NativeLanePrograms, KalmanFilter) {
  if (!has_lanes()) GTEST_SKIP() << "no lanes with these kernels";
  for (const Dtype dtype : {float64, float32})
    for (const Index lanes : counts) {
      expect_bits_of_kernels(std::string(stave::name_of(dtype)) + " " + std::to_string(lanes), vmap(filtered),
                             random_tensor(3, {lanes, 4}, dtype) + 2, random_tensor(4, {lanes, 2}, dtype));
      if (HasFailure()) return;
    }
  expect_one_group(64, vmap(filtered), random_tensor(3, {64, 4}) + 2, random_tensor(4, {64, 2}));
}

// ---- the parts of programs ----------------------------------------------------------------------

TEST_P(NativeLanePrograms, ConditionsIntegersAndBools) {
  if (!has_lanes()) GTEST_SKIP() << "no lanes with these kernels";
  const auto collatz = [](const Tensor& n) {
    return loop(30, [](const Tensor& m) { return where(m % 2 == 0, m / 2, where(m == 1, m, 3 * m + 1)); })(n);
  };
  const auto shifts = [](const Tensor& n) {
    Tensor x = n;
    for (int k = 1; k < 6; ++k)
      x = bitwise_left_shift(x, k) ^ bitwise_right_shift(x, 2 * k) ^ (x * 7 - (x & 12345)) ^ abs(x | 3);
    return x;
  };
  const auto bools = [](const Tensor& x) {
    const Tensor a = x > 0, b = isfinite(x) & (x < 1), c = (a ^ b) | signbit(x);
    return stack({all(c & b), any(a == b), any(~c), all(a | b)});
  };
  for (const Index lanes : counts) {
    const std::string name = std::to_string(lanes);
    const Tensor floats = 3 * random_tensor(5, {lanes, 4});
    for (const Dtype dtype : {int64, int32, uint32, uint64}) {
      const Tensor n = astype(abs(floats) * 1000, dtype);
      if (is_signed(dtype)) expect_bits_of_kernels(name + " collatz", vmap(collatz), n);
      expect_bits_of_kernels(name + " shifts", vmap(shifts), n);
      expect_bits_of_kernels(name + " conversions", vmap([](const Tensor& x) {
                               return astype(astype(x, float64) * 0.5, float32) + astype(x % 2 == 0, float32);
                             }),
                             n);
    }
    expect_bits_of_kernels(name + " bools", vmap(bools), floats);
    expect_bits_of_kernels(
        name + " argmax", vmap([](const Tensor& x) { return argmax(x) * 3 + argmin(x * x) + astype(x(1) * 7, int64); }),
        floats);
    if (HasFailure()) return;
  }
}

TEST_P(NativeLanePrograms, ReductionsInTheOrderOfTheKernels) {
  if (!has_lanes()) GTEST_SKIP() << "no lanes with these kernels";
  const Shape shapes[] = {{1},  {2},  {3},    {7},    {8},    {9},       {16},   {17},
                          {33}, {64}, {2, 3}, {4, 8}, {8, 4}, {3, 3, 3}, {2, 16}};
  unsigned seed = 10;
  for (const Dtype dtype : {float64, float32})
    for (const Index lanes : {3, 8, 9, 64, 65, 200, 1000})
      for (const Shape& shape : shapes)
        for (const int lane_axis : {0, 1}) {
          if (lane_axis > static_cast<int>(shape.size())) continue;
          Shape all = shape;
          all.push_back(lanes);
          std::rotate(all.begin() + lane_axis, all.end() - 1, all.end());
          ++seed;
          const Tensor x = astype(random_tensor(seed, all) * exp(8 * random_tensor(seed + 1000, all)), dtype);
          const auto check = [&](const char* what, auto f) {
            expect_bits_of_kernels(fmt::format("{} of {} in {} lanes along {}, {}", what, shape.size(), lanes,
                                               lane_axis, stave::name_of(dtype)),
                                   vmap(f, {.in_axes = {lane_axis}}), x);
          };
          check("sum", [](const Tensor& v) { return sum(v * v - 0.5 * v); });
          check("sum of an input", [](const Tensor& v) { return sum(v); });
          check("sum of the last axis", [](const Tensor& v) { return sum(v + 1, -1); });
          check("prod", [](const Tensor& v) { return prod(v, 0) + max(v, 0) - min(-v, 0); });
          if (HasFailure()) return;
        }
}

TEST_P(NativeLanePrograms, AxesLayoutsAndSharedInputs) {
  if (!has_lanes()) GTEST_SKIP() << "no lanes with these kernels";
  const auto f = [](const Tensor& x, const Tensor& w) {
    const Tensor y = tanh(matmul(w, x)) + x(slice(none, none, -1)) * w(0), z = concat({y, 2 * x});
    return stack({sum(z * z), z(1) - max(y), sum(y) * w(1, 1)});
  };
  for (const Index lanes : {5, 16, 64, 77}) {
    const std::string name = std::to_string(lanes);
    const Tensor first = random_tensor(20, {lanes, 3}), w = random_tensor(21, {3, 3}),
                 ws = random_tensor(22, {lanes, 3, 3});
    const Tensor last = contiguous(transpose(first));
    expect_bits_of_kernels(name + " first", vmap(f, {.in_axes = {0, unmapped}}), first, w);
    expect_bits_of_kernels(name + " last", vmap(f, {.in_axes = {1, unmapped}}), last, w);
    expect_bits_of_kernels(name + " out last", vmap(f, {.in_axes = {0, 0}, .out_axes = {1}}), first, ws);
    expect_bits_of_kernels(name + " transposed", vmap(f, {.in_axes = {0, 0}}), transpose(last), ws);
    expect_bits_of_kernels(name + " strided", vmap(f, {.in_axes = {0, unmapped}}),
                           random_tensor(23, {2 * lanes, 3})(slice(none, none, 2)), w);
    expect_bits_of_kernels(name + " broadcast", vmap(f, {.in_axes = {0, 0}}), broadcast_to(first(0), {lanes, 3}), ws);
    expect_bits_of_kernels(name + " shared", vmap(f, {.in_axes = {unmapped, 0}}), first(1), ws);
    if (HasFailure()) return;
  }
}

TEST_P(NativeLanePrograms, ComputedPositionsAndLargeStates) {
  if (!has_lanes()) GTEST_SKIP() << "no lanes with these kernels";
  const auto f = [](const Tensor& x, const Tensor& i, const Tensor& table) {
    const Tensor picked = take(table, i) + take(x, i), part = dynamic_slice(x, {i}, {2});
    const Tensor moved = dynamic_update_slice(x, part * 2, {i});
    const Tensor grown =
        loop(7, [](const Tensor& s) { return 0.5 * s + sin(s) * roll(s, 1); })(concat({moved, x, x, x, x, x}));
    return sum(grown(slice(0, 40)) * 0.25) + picked + sum(part);
  };
  for (const Index lanes : {4, 31, 64}) {
    const Tensor x = random_tensor(30, {lanes, 16}), i = arange(lanes) * 5 % 14, table = random_tensor(31, {100});
    expect_bits_of_kernels(std::to_string(lanes), vmap(f, {.in_axes = {0, 0, unmapped}}), x, i, table);
    if (HasFailure()) return;
  }
}

TEST_P(NativeLanePrograms, LoopsWithRows) {
  if (!has_lanes()) GTEST_SKIP() << "no lanes with these kernels";
  const auto f = [](const Tensor& start, const Tensor& xs) {
    const auto [carry, ys] = scan([](const Tensor& s, const Tensor& x) {
      const Tensor next = 0.9 * s + tanh(x - s);
      return std::pair(next, next * x);
    })(start, xs);
    return sum(carry) + sum(ys(-1)) - sum(ys(0) * ys(3));
  };
  for (const Index lanes : {6, 64}) {
    const Tensor starts = random_tensor(40, {lanes, 2}), xs = random_tensor(41, {lanes, 12, 2});
    expect_bits_of_kernels(std::to_string(lanes), vmap(f), starts, xs);
    expect_bits_of_kernels("derivative", vmap(grad<0, 1>(f)), starts, xs);
  }
}

TEST_P(NativeLanePrograms, ConstantsThatDifferBetweenLanes) {
  if (!has_lanes()) GTEST_SKIP() << "no lanes with these kernels";
  const Tensor x = random_tensor(45, {64, 3}), offsets = random_tensor(46, {64, 3});
  const auto f = [&](const Tensor& v) {
    return vmap([](const Tensor& s, const Tensor& c) { return runge_kutta(runge_kutta(s + c)); })(v, offsets);
  };
  expect_bits_of_kernels("outside of loops", f, x);
  EXPECT_THAT(groups(f, x), testing::HasSubstr(lanes_text(64)));
  const auto in_loop = [&](const Tensor& v) {
    return loop(9, [&](const Tensor& s) { return runge_kutta(s(0)) * 0.1 + offsets * s; })(v);
  };
  expect_bits_of_kernels("in a loop", in_loop, x);
}

// ---- errors and choices -------------------------------------------------------------------------

TEST_P(NativeLanePrograms, ThrowsTheErrorOfOneLane) {
  if (!has_lanes()) GTEST_SKIP() << "no lanes with these kernels";
  const auto f = vmap([](const Tensor& a, const Tensor& b) {
    Tensor x = solve(a, b);
    for (int k = 0; k < 8; ++k) x = sin(x) * cos(x) + exp(-x * x);
    return x;
  });
  const auto compiled = compile(f, {.native = stave::Native::required});
  const Tensor b = random_tensor(50, {64, 2});
  const Tensor good = broadcast_to(eye(2, float64), {64, 2, 2}) + 0.1 * random_tensor(51, {64, 2, 2});
  EXPECT_TRUE(same_numbers(replayed(compiled, good, b), f(good, b)));
  const Tensor bad = where(reshape(arange(64) == 63, {64, 1, 1}), zeros({64, 2, 2}, float64), good);
  std::string expected;
  try {
    f(bad, b);
  } catch (const Error& error) {
    expected = error.what();
  }
  ASSERT_NE(expected, "");
  try {
    compiled(bad, b);
    ADD_FAILURE() << "it does not throw";
  } catch (const Error& error) {
    EXPECT_THAT(expected, testing::HasSubstr("singular"));
    EXPECT_THAT(error.what(), testing::HasSubstr("singular"));
  }
  EXPECT_TRUE(same_numbers(compiled(good, b), f(good, b)));
}

TEST_P(NativeLanePrograms, WhatMixesLanesEndsAGroup) {
  if (!has_lanes()) GTEST_SKIP() << "no lanes with these kernels";
  const auto each = [](const Tensor& x) { return runge_kutta(runge_kutta(x)); };
  const auto f = [&](const Tensor& x) {
    const Tensor y = vmap(each)(x);
    return vmap(each)(y - sum(y, 0) / 64) + cumulative_sum(x, 0);
  };
  const Tensor x = random_tensor(60, {64, 3});
  const auto native = replayed(compile(f), x), kernels = replayed(compile(f, {.native = stave::Native::never}), x);
  EXPECT_TRUE(same_numbers(native, kernels));
  const std::string text = groups(f, x);
  EXPECT_THAT(text, testing::HasSubstr(lanes_text(64)));
  EXPECT_THAT(text, testing::HasSubstr("cumulative_sum"));
}

TEST_P(NativeLanePrograms, ShortProgramsOnLargeArraysStayKernels) {
  const Tensor x = random_tensor(70, {100000});
  EXPECT_THAT(groups([](const Tensor& v) { return sin(v) * 2 + 1; }, x), testing::Not(testing::HasSubstr("lanes")));
}

}  // namespace
}  // namespace native
