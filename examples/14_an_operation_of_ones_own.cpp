// Operations of your own. The library has no solver of tridiagonal systems. This program adds one
// with a kernel, and every transform and handler treats it like an operation of the library. An
// elementwise operation needs only a function.
#include <iostream>
#include <tuple>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

// Returns x with lower[i] x[i-1] + diagonal[i] x[i] + upper[i] x[i+1] = b[i], along the last axis.
// All tensors have the same shape.
Tensor solve_tridiagonal(const Tensor& lower, const Tensor& diagonal, const Tensor& upper, const Tensor& b);

// Thomas' algorithm: forward elimination, then back substitution.
template <class T>
void thomas(std::span<const T> lower, std::span<const T> diagonal, std::span<const T> upper, std::span<const T> b,
            std::span<T> x) {
  std::vector<T> factor(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const T above = i ? lower[i] : T(0), pivot = diagonal[i] - (i ? above * factor[i - 1] : T(0));
    factor[i] = upper[i] / pivot;
    x[i] = (b[i] - (i ? above * x[i - 1] : T(0))) / pivot;
  }
  for (std::size_t i = x.size(); i-- > 1;) x[i - 1] -= factor[i - 1] * x[i];
}

void run_on_cpu(const Attributes*, std::span<const View> in, std::span<const View> out) {
  const auto each_row = [&]<class T>(T) {
    const auto n = static_cast<std::size_t>(out[0].shape.back());
    const auto x = elements<T>(out[0]);
    for (std::size_t at = 0; at < x.size(); at += n) {
      const auto row = [&](int i) { return elements<const T>(in[i]).subspan(at, n); };
      thomas<T>(row(0), row(1), row(2), row(3), x.subspan(at, n));
    }
  };
  if (out[0].dtype == float32) each_row(float());
  else each_row(double());
}

void infer(const Call& call, SmallVector<Abstract, 1>& outputs) {
  for (const Tensor& input : call.inputs()) {
    if (input.shape() != call.input(3).shape() || input.rank() == 0)
      throw ShapeError("solve_tridiagonal: the diagonals and b must be vectors of one length, or stacks of such");
    if (input.dtype() != call.input(3).dtype() || !is_float(input.dtype()))
      throw DtypeError("solve_tridiagonal: the diagonals and b must be of one floating dtype");
  }
  outputs.push_back(abstract(call.input(3)));
}

// before(x)[i] is x[i-1] and after(x)[i] is x[i+1]; beyond the ends they are 0.
Tensor before(const Tensor& x) {
  const Tensor edge = zeros_like(x(ellipsis, slice(0, 1)));
  return concat({edge, x(ellipsis, slice(0, -1))}, -1);
}
Tensor after(const Tensor& x) {
  const Tensor edge = zeros_like(x(ellipsis, slice(0, 1)));
  return concat({x(ellipsis, slice(1, none)), edge}, -1);
}

// A dx = db - dA x
Outputs jvp_rule(const JvpContext& c) {
  const Tensor x = c.out();
  const Tensor moved = c.tangent(0) * before(x) + c.tangent(1) * x + c.tangent(2) * after(x);
  return solve_tridiagonal(c.in(0), c.in(1), c.in(2), c.tangent(3) - moved);
}

// For the cotangent g of x, the cotangent of b is w with A^T w = g, and that of A is -w x^T, of
// which only the three diagonals are needed.
Tensor vjp_rule(const VjpContext& c, int input) {
  const Tensor w = solve_tridiagonal(before(c.in(2)), c.in(1), after(c.in(0)), c.ct()), x = c.out();
  if (input == 3) return w;
  return -w * (input == 0 ? before(x) : input == 1 ? x : after(x));
}

constexpr unsigned diagonals_and_x = 0b0111 | ValueSet::outputs;
const Op op_solve_tridiagonal = define_op({
    .name = "solve_tridiagonal",
    .infer = infer,                               // checks the inputs; returns shapes and dtypes
    .reads = {diagonals_and_x, diagonals_and_x},  // the values that the VJP rule reads
    .jvp = jvp_rule,
    .vjp = vjp_rule,
    .batch = batch_in_front,  // lanes are leading axes, which the kernel supports
    .cpu = run_on_cpu,
});

Tensor solve_tridiagonal(const Tensor& lower, const Tensor& diagonal, const Tensor& upper, const Tensor& b) {
  return apply(op_solve_tridiagonal, {lower, diagonal, upper, b});
}

const auto hardshrink = elementwise_op("hardshrink", [](const Tensor& x) { return where(abs(x) > 0.5, x, 0); });

int main() {
  // Heat in a rod of 64 cells. An implicit step solves (1 + 2 k) x[i] - k x[i-1] - k x[i+1] = b[i].
  const Index cells = 64;
  const auto step = [&](const Tensor& heat, const Tensor& k) {
    const Tensor side = -k * ones({cells}, float64);
    return solve_tridiagonal(side, 1. - 2. * side, side, heat);
  };
  const auto after_an_hour = [&](const Tensor& k) {
    Tensor heat = exp(-square(linspace(-4, 4, cells, float64)));
    for (int i = 0; i < 60; ++i) heat = step(heat, k);
    return max(heat);
  };
  const Tensor k = tensor(0.8, float64);
  const auto [peak, slope] = value_and_grad(after_an_hour)(k);
  std::cout << "the peak " << peak << " falls by " << -slope << " for each unit of conductivity\n";
  check_grads(after_an_hour, k, {.order = 2});

  const Tensor each = vmap(grad(after_an_hour))(tensor({0.4, 0.8, 1.6}, float64));
  std::cout << "at three conductivities: " << -each << "\n";
  check(allclose(each(1), slope), "a lane is what it is alone");

  // Checks the record and the kernel against each other: strides, derivatives, and lanes in each
  // input.
  const Tensor b = tensor({1., -2., 3., 0.5}, float64), side = tensor({0.3, -0.2, 0.4, 0.1}, float64);
  check_op(op_solve_tridiagonal, {{.inputs = {side, b + 8., 2. * side, b}}});

  const Tensor noisy = tensor({-2.f, 0.1f, 0.7f});
  std::cout << "shrunk: " << hardshrink(noisy) << "\n";
  // hardshrink {abs greater where} f32[3] -> f32[3]
  debug([](const Tensor& x) { return hardshrink(x); })(noisy);
  check_grads([](const Tensor& x) { return sum(square(hardshrink(x))); }, astype(noisy, float64), {.order = 2});
}
