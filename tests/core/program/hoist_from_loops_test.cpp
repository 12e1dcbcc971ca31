// Work that moves in front of loops: which operations move, and that results keep their bits.
#include <algorithm>
#include <cstdlib>

#include <stave/core/program/loop.h>
#include <stave/stave.h>

#include "machine_code.h"
#include "matchers.h"
#include "programs.h"

namespace {

using namespace stave;
using namespace stave_test;
using Pair = std::pair<Tensor, Tensor>;

const Tensor start = tensor({0.25f, -0.5f, 0.75f}), weight = tensor({0.5f, -0.25f, 1.5f});
Tensor rows(Index n = 200) { return normal(Key(3), {n, 3}); }

std::ptrdiff_t count(const Program& program, const Op& op) {
  return std::ranges::count_if(program.instructions, [&](const auto& step) { return step.op == &op; });
}
const LoopAttributes& only_loop(const Program& program) {
  const auto found =
      std::ranges::find_if(program.instructions, [](const auto& step) { return stave_detail::loop_of(step); });
  if (found == program.instructions.end()) throw std::runtime_error("the program has no loop");
  return *stave_detail::loop_of(*found);
}

// The function, its gradient and its batch, compiled and as they are.
template <class F, class... A>
void expect_same_bits(F f, A... arguments) {
  const auto check = [&](auto g, auto... xs) {
    const auto compiled = compile(g);
    const std::vector<Tensor> expected = tree_leaves(g(xs...));
    const Outputs performed = with_work_hoisted_from_loops(trace(g)(xs...))(std::vector<Tensor>{xs...});
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_THAT(performed[i], Is(expected[i]));
    for (int call = 0; call < 3; ++call) {
      const std::vector<Tensor> found = tree_leaves(compiled(xs...));
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_THAT(found.at(i), Is(expected[i]));
    }
  };
  check(f, arguments...);
  check(grad<0, 1>(f), arguments...);
  check(vmap(f), stack({arguments, 0.5 * arguments})...);
  check(vmap(grad<0, 1>(f)), stack({arguments, 0.5 * arguments})...);
}

// A loss of all that a scan over the rows returns.
template <class Step>
auto loss_of(Step step, ScanOptions options = {}) {
  return [=](const Tensor& h, const Tensor& xs) {
    const auto [last, ys] = scan(step, options)(h, xs);
    return sum(square(ys)) + sum(last);
  };
}

TEST(HoistFromLoops, MovesExpensiveFunctionsOfRows) {
  const auto step = [](const Tensor& h, const Tensor& x) {
    const Tensor next = weight * h + tanh(2 * x + weight);
    return Pair(next, next);
  };
  const Program p = with_work_hoisted_from_loops(trace(loss_of(step))(start, rows()));
  EXPECT_EQ(count(p, op_tanh), 1);
  EXPECT_EQ(count(*only_loop(p).body, op_tanh), 0);
  EXPECT_EQ(only_loop(with_loops_narrowed(p)).rows, 1u);
  expect_same_bits(loss_of(step), start, rows());
  expect_same_bits(loss_of(step, {.reverse = true}), start, rows());
}

TEST(HoistFromLoops, KeepsFunctionsOfTheState) {
  const auto step = [](const Tensor& h, const Tensor& x) {
    const Tensor next = tanh(h * weight + x);
    return Pair(next, exp(next));
  };
  const Program p = with_work_hoisted_from_loops(trace(loss_of(step))(start, rows()));
  EXPECT_EQ(count(p, op_tanh) + count(p, op_exp), 0);
  expect_same_bits(loss_of(step), start, rows());
}

TEST(HoistFromLoops, ReturnsNewStacksThatAreResults) {
  const auto step = [](const Tensor& h, const Tensor& x) {
    const Tensor y = exp(x), z = 2 * x;
    return std::pair(h + y * z, std::tuple(y, y, sin(z)));
  };
  const auto all = [=](const Tensor& h, const Tensor& xs) {
    const auto [last, ys] = scan(step)(h, xs);
    const auto& [a, b, c] = ys;
    return sum(a * b) + sum(square(c)) + sum(last);
  };
  const Program p = with_work_hoisted_from_loops(trace(all)(start, rows()));
  EXPECT_EQ(count(p, op_exp), 1);
  EXPECT_EQ(count(p, op_sin), 1);
  EXPECT_EQ(only_loop(p).body->outputs.size(), 1u);
  expect_same_bits(all, start, rows());
}

TEST(HoistFromLoops, MovesTheNextState) {
  const auto step = [](const Tensor& h, const Tensor& x) { return Pair(cos(x), h * x); };
  const Program p = with_work_hoisted_from_loops(trace(loss_of(step))(start, rows()));
  EXPECT_EQ(count(p, op_cos), 1);
  EXPECT_EQ(count(*only_loop(p).body, op_cos), 0);
  expect_same_bits(loss_of(step), start, rows());
}

TEST(HoistFromLoops, KeepsFunctionsOfBroadcastRows) {
  const auto step = [](const Tensor& h, const Tensor& x) {
    const Tensor next = h + tanh(x * weight) + sin(x);
    return Pair(next, next);
  };
  const Tensor numbers = normal(Key(5), {150});
  const auto by_number = [=](const Tensor& h, const Tensor& xs) {
    const auto [last, ys] = scan(step)(h, reshape(stack({xs, xs, xs, xs}), {-1}));
    return sum(square(ys)) + sum(last);
  };
  const Program p = with_work_hoisted_from_loops(trace(by_number)(start, numbers));
  EXPECT_EQ(count(p, op_sin), 1);
  EXPECT_EQ(count(p, op_tanh), 0);
  expect_same_bits(by_number, start, numbers);
}

TEST(HoistFromLoops, MovesFunctionsOfRowsAndCapturedValues) {
  const auto all = [](const Tensor& h, const Tensor& xs) {
    const Tensor scale = sum(h);
    const auto step = [=](const Tensor& s, const Tensor& x) {
      const Tensor next = s + exp(x * (scale + 1) - weight) * cos(scale * 2);
      return Pair(next, next * scale);
    };
    const auto [last, ys] = scan(step)(h, xs);
    return sum(square(ys)) + sum(last);
  };
  const Program p = with_work_hoisted_from_loops(trace(all)(start, rows()));
  EXPECT_EQ(count(p, op_exp), 1);
  EXPECT_EQ(count(*only_loop(p).body, op_exp), 0);
  expect_same_bits(all, start, rows());
}

TEST(HoistFromLoops, MovesInvariantWork) {
  const auto f = [](const Tensor& h, const Tensor& w) {
    return loop(9, [w](const Tensor& s) {
      const Tensor half = 0.5 * w, square = matmul(half, half);
      return tanh(matmul(square, s) + sum(half, 1));
    })(h);
  };
  const Tensor matrix = normal(Key(7), {3, 3});
  const Program p = with_work_hoisted_from_loops(trace(f)(start, matrix));
  EXPECT_EQ(count(p, op_matmul), 1);
  EXPECT_EQ(count(p, op_sum), 1);
  EXPECT_EQ(count(*only_loop(p).body, op_matmul), 1);
  EXPECT_EQ(count(*only_loop(p).body, op_sum), 0);
  expect_same_bits([=](const Tensor& h, const Tensor& w) { return sum(square(f(h, w))); }, start, matrix);
}

TEST(HoistFromLoops, KeepsWhatMayThrow) {
  const auto f = [](const Tensor& h, const Tensor& w) {
    return loop(3, [w](const Tensor& s) { return s + take(w, tensor({0, 1, 2})); })(h);
  };
  const Program p = with_work_hoisted_from_loops(trace(f)(start, weight));
  EXPECT_EQ(count(p, op_gather), 0);
}

TEST(HoistFromLoops, KeepsTheBitsOfShortAndBroadcastRows) {
  for (const Dtype dtype : {float64, float32, float16}) {
    const auto step = [](const Tensor& h, const Tensor& x) {
      const Tensor row = x(slice(0, 1));
      const Tensor next = 0.5 * h + erf(x) * pow(abs(x), row) + log1p(abs(row)) / (1 + exp(-x));
      return Pair(next, next * sin(x) + row);
    };
    expect_same_bits(loss_of(step), astype(start, dtype), astype(rows(333), dtype));
  }
}

TEST(HoistFromLoops, KeepsFunctionsOfRowsInLoopsThatSaveMemory) {
  const auto step = [](const Tensor& h, const Tensor& x) { return Pair(h + exp(x), h); };
  const Program p = with_work_hoisted_from_loops(trace(loss_of(step, {.snapshots = 4}))(start, rows()));
  EXPECT_EQ(count(p, op_exp), 0);
}

TEST(HoistFromLoops, KeepsFunctionsOfFewRows) {
  const auto step = [](const Tensor& h, const Tensor& x) { return Pair(h + exp(x), h); };
  EXPECT_EQ(count(with_work_hoisted_from_loops(trace(loss_of(step))(start, rows(20))), op_exp), 0);
  EXPECT_EQ(count(with_work_hoisted_from_loops(trace(loss_of(step))(start, rows(200))), op_exp), 1);
}

TEST(HoistFromLoops, RequiredMachineCodeKeepsFunctionsOfManyRows) {
  if (native_setting().starts_with('0')) GTEST_SKIP() << "STAVE_NATIVE=0 forbids machine code";
  const auto step = [](const Tensor& h, const Tensor& x) {
    const Tensor next = 0.5 * h + tanh(x);
    return Pair(next, next);
  };
  const auto nested = [=](const Tensor& h, const Tensor& xs) {
    return loop(3, [=](const Tensor& s) { return s + scan(step)(s, xs).first; })(h);
  };
  const auto check = [](auto f) {
    const auto compiled = compile(f, {.native = Native::required});
    for (int call = 0; call < 3; ++call) EXPECT_THAT(compiled(start, rows(300)), Is(f(start, rows(300))));
  };
  const auto last = [=](const Tensor& h, const Tensor& xs) { return sum(scan(step)(h, xs).first); };
  check([=](const Tensor& h, const Tensor& xs) { return scan(step)(h, xs).second; });
  check(grad<1>(last));
  check(nested);
}

TEST(HoistFromLoops, KeepsTheNameOfTheLoop) {
  const auto step = [](const Tensor& h, const Tensor& x) { return Pair(h + exp(x), h); };
  const auto f = [=](const Tensor& h, const Tensor& xs) {
    const Scope scope("layer");
    return loss_of(step)(h, xs);
  };
  const Program p = with_work_hoisted_from_loops(trace(f)(start, rows()));
  const auto moved = std::ranges::find_if(p.instructions, [](const auto& it) { return it.op == &op_exp; });
  ASSERT_NE(moved, p.instructions.end());
  ASSERT_TRUE(moved->scopes);
  EXPECT_EQ(moved->scopes->names.front()->text, "layer");
}

TEST(HoistFromLoops, MovesInvariantWorkThoughStacksWouldBeLarge) {
  const auto all = [](const Tensor& h, const Tensor& xs) {
    const Tensor scale = sum(h);
    const auto step = [=](const Tensor& s, const Tensor& x) {
      Tensor next = exp(scale) * s;
      for (int i = 1; i <= 5; ++i) next = tanh(next * sin(i * x));
      return Pair(next, sum(next));
    };
    return sum(scan(step)(h, xs).second);
  };
  const Program p = with_work_hoisted_from_loops(trace(all)(zeros({10'000}), zeros({1000, 10'000})));
  EXPECT_EQ(count(p, op_sin), 0);
  EXPECT_EQ(count(p, op_exp), 1);
  EXPECT_EQ(count(*only_loop(p).body, op_exp), 0);
}

// Each of the many functions would need a stack of its own.
TEST(HoistFromLoops, KeepsFunctionsWhoseStacksWouldBeLarge) {
  const auto step = [](const Tensor& h, const Tensor& x) {
    Tensor next = h;
    for (int i = 1; i <= 5; ++i) next = tanh(next * sin(i * x));
    return Pair(next, sum(next));
  };
  const auto moved = [&](Index n) {
    const auto loss = [=](const Tensor& h, const Tensor& xs) { return sum(scan(step)(h, xs).second); };
    return count(with_work_hoisted_from_loops(trace(loss)(zeros({n}), zeros({1000, n}))), op_sin);
  };
  EXPECT_EQ(moved(100), 5);
  EXPECT_EQ(moved(10'000), 0);
}

}  // namespace
