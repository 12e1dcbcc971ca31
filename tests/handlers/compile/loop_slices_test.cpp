// Gradients of loops whose steps read slices of captured values: that they have the bits of a loop
// over the steps, and that no step of the backward loop pads or updates a larger array.
#include <algorithm>
#include <string>
#include <vector>

#include <stave/core/program/loop.h>
#include <stave/stave.h>

#include "matchers.h"
#include "programs.h"

namespace {

using namespace stave;
using namespace stave_test;
using Tensors = std::vector<Tensor>;

constexpr int steps = 7;
const Tensor state = linspace(-0.6, 0.8, 4, float64);
const Tensor matrix = reshape(sin(linspace(0., 40., 24, float64)), {6, 4});
const Tensor wide = reshape(cos(linspace(0., 90., 48, float64)), {3, 16});

// A loss that reads a loop from the state v[0] with the captured values v[1] and v[2].
template <class Step>
auto loss_of(Step step, LoopOptions options = {}) {
  return [=](const Tensors& v) {
    const Tensor last = loop(
        steps, [=](const Tensor& s) { return step(s, v[1], v[2]); }, options)(v[0]);
    return sum(square(last));
  };
}

template <class F>
Tensors expect_bits_of_steps(const F& loss, const Tensors& at = {state, matrix, wide}) {
  const Tensors expected = grad(loss)(at);
  const auto compiled = compile(grad(loss), {.check = true});
  for (int call = 0; call < 3; ++call) {
    const Tensors found = compiled(at);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_THAT(found[i], Is(expected[i])) << "by argument " << i;
  }
  return expected;
}

// The number of instructions in the loops of a program that pad, or replace parts of arrays.
std::ptrdiff_t count_updates(const Program& program) {
  std::ptrdiff_t found = 0;
  for (const Program::Instruction& step : program.instructions) {
    const LoopAttributes* const loop = stave_detail::loop_of(step);
    if (!loop) continue;
    found += count_updates(*loop->body);
    for (const Program::Instruction& it : loop->body->instructions)
      found += it.op == &op_pad || it.op == &op_dynamic_update_slice;
  }
  return found;
}
template <class F>
std::ptrdiff_t updates_in_loops(const F& loss) {
  return count_updates(trace(grad(loss))(Tensors{state, matrix, wide}));
}

Tensor rows(const Tensor& s, const Tensor& w, const Tensor&) { return tanh(w(0) * s + w(1)) + s * square(w(3)); }
// A step reads some rows several times.
Tensor repeated_rows(const Tensor& s, const Tensor& w, const Tensor& u) {
  const Tensor a = tanh(w(0) * s + w(1)) + s * w(3) * w(3);
  return a * sigmoid(w(1) * a + w(0)) + 0.1 * square(w(0)) + u(1)(slice(0, 4)) * a + u(1)(slice(4, 8));
}
// Slices of reshaped slices, one of which has two readers.
Tensor gates(const Tensor& s, const Tensor& w, const Tensor& u) {
  const Tensor a = reshape(u(0), {4, 4}), b = reshape(u(2), {4, 4});
  const Tensor in = sigmoid(s * a(0) + b(0)), out = sigmoid(s * a(1) + b(1));
  const Tensor last = a(3);
  return in * tanh(s * last + w(5)) + out * s * b(3) + 0.1 * last;
}
// Columns, which are no interval of the memory.
Tensor columns(const Tensor& s, const Tensor& w, const Tensor&) {
  return tanh(matmul(w(slice(0, 4), slice(0, 2)), s(slice(0, 2))) +
              matmul(w(slice(0, 4), slice(2, 4)), s(slice(2, 4))));
}

TEST(LoopSlices, GradientsHaveTheBitsOfTheSteps) {
  expect_bits_of_steps(loss_of(rows));
  expect_bits_of_steps(loss_of(repeated_rows));
  expect_bits_of_steps(loss_of(gates));
  expect_bits_of_steps(loss_of(columns));
}

TEST(LoopSlices, StepsDoNotUpdateTheWholeValue) {
  EXPECT_EQ(updates_in_loops(loss_of(rows)), 0);
  EXPECT_EQ(updates_in_loops(loss_of(repeated_rows)), 0);
  EXPECT_EQ(updates_in_loops(loss_of(gates)), 0);
  EXPECT_EQ(updates_in_loops(loss_of([](const Tensor& s, const Tensor& w, const Tensor&) {
              return tanh(w(2) * s) + sum(matmul(w(slice(0, 2), slice(0, 4)), s));
            })),
            0);
}

// Parts that are not read have a cotangent of 0.
TEST(LoopSlices, PartsThatNoStepReadsHaveNoCotangent) {
  const Tensor found = expect_bits_of_steps(loss_of(rows)).at(1);
  EXPECT_THAT(found(2), Equals(zeros({4}, float64)));
  EXPECT_THAT(found(slice(4, 6)), Equals(zeros({2, 4}, float64)));
  EXPECT_THAT(found(3), testing::Not(Equals(zeros({4}, float64))));
}

// An element that two slices read is added to in the order of the steps, so the slices have no sums
// of their own.
TEST(LoopSlices, SlicesThatOverlapHaveOneSum) {
  const auto overlapping = [](const Tensor& s, const Tensor& w, const Tensor&) {
    return tanh(w(0) * s) + sum(w(slice(0, 3)), 0) * 0.1 + w(1);
  };
  const auto twice = [](const Tensor& s, const Tensor& w, const Tensor&) { return sin(w(1) * s) + w(1) * w(0); };
  const auto with_whole = [](const Tensor& s, const Tensor& w, const Tensor&) { return sin(w(1) * s) + 0.1 * sum(w); };
  expect_bits_of_steps(loss_of(overlapping));
  expect_bits_of_steps(loss_of(twice));
  expect_bits_of_steps(loss_of(with_whole));
  EXPECT_GT(updates_in_loops(loss_of(overlapping)), 0);
}

TEST(LoopSlices, SumsGoOnFromReadersOutsideOfTheLoop) {
  const auto loss = [](const Tensors& v) {
    const Tensor before = v[0] * v[1](3) + v[2](0)(slice(0, 4));
    const Tensor last =
        loop(steps, [=](const Tensor& s) { return rows(s, v[1], v[2]) + gates(s, v[1], v[2]); })(before);
    return sum(square(last) * v[1](1)) + sum(last * v[1]) + sum(v[2] * v[2]);
  };
  expect_bits_of_steps(loss);
}

// The first step has a tape of its own if the initial state has other readers.
TEST(LoopSlices, TheInitialStateMayBeThatValue) {
  const auto step = [](const Tensors& v, const Tensor& s) { return s * 0.9 + 0.1 * sin(s) * v[1](2) * v[1](0); };
  const auto loss = [=](const Tensors& v) {
    return sum(square(loop(steps, [=](const Tensor& s) { return step(v, s); })(v[1])) * v[1]);
  };
  expect_bits_of_steps(loss);
}

// A zero may have the other sign there (loop.h).
TEST(LoopSlices, LoopsOfLoopsHaveTheNumbersOfTheSteps) {
  const auto expect_numbers = [](const auto& loss) {
    const Tensors at{state, matrix, wide}, expected = grad(loss)(at), found = compile(grad(loss))(at);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_THAT(found[i], Equals(expected[i])) << "by argument " << i;
  };
  for (const Index snapshots : {1, 2, 3}) {
    expect_numbers(loss_of(rows, {.snapshots = snapshots}));
    expect_numbers(loss_of(gates, {.snapshots = snapshots}));
  }
  expect_numbers([](const Tensors& v) {
    const auto outer = [=](const Tensor& s) {
      return loop(4, [=](const Tensor& t) { return rows(t, v[1], v[2]) * 0.5; })(s) + v[1](4);
    };
    return sum(square(loop(steps, outer)(v[0])));
  });
}

TEST(LoopSlices, ScansAndConstantSlicesHaveTheBitsOfTheSteps) {
  const auto loss = [](const Tensors& v) {
    const auto step = [=](const Tensor& s, const Tensor& x) {
      const Tensor next = tanh(s * v[1](0) + x * stop_gradient(v[1](1)) + where(v[1](2) > 0, v[1](3), x));
      return std::pair(next, next * v[1](5));
    };
    const auto [last, all] = scan(step)(v[0], reshape(v[2], {12, 4}));
    return sum(square(all)) + sum(last);
  };
  expect_bits_of_steps(loss);
  EXPECT_EQ(count_updates(trace(grad(loss))(Tensors{state, matrix, wide})), 0);
}

TEST(LoopSlices, LanesAndSecondDerivatives) {
  const auto loss = [](const Tensor& s, const Tensor& w) { return loss_of(rows)({s, w, wide}); };
  const Tensor ss = stack({state, -state, 0.5 * state}), ws = stack({matrix, 0.5 * matrix, -matrix});
  const auto gradients = vmap(grad<0, 1>(loss));
  const auto [ds, dw] = gradients(ss, ws);
  const auto compiled = compile(gradients);
  const auto by_matrix = [=](const Tensor& w) { return sum(sin(grad<1>(loss)(state, w))); };
  const auto compiled_second = compile(grad(by_matrix));
  const Tensor second = grad(by_matrix)(matrix);
  for (int call = 0; call < 3; ++call) {
    EXPECT_THAT(std::get<0>(compiled(ss, ws)), Is(ds));
    EXPECT_THAT(std::get<1>(compiled(ss, ws)), Is(dw));
    EXPECT_TRUE(allclose(compiled_second(matrix), second, 1e-9, 1e-12));
  }
  const auto of_lanes = [=](const Tensor& w) { return sum(vmap([=](const Tensor& s) { return loss(s, w); })(ss)); };
  const Tensor expected = grad(of_lanes)(matrix);
  EXPECT_TRUE(allclose(compile(grad(of_lanes))(matrix), expected, 1e-12, 1e-14));
}

TEST(LoopSlices, ValueAndGradientShareOneForwardLoop) {
  EXPECT_EQ(count_loops(optimized(trace(value_and_grad(loss_of(gates)))(Tensors{state, matrix, wide}))), 2u);
}

}  // namespace
