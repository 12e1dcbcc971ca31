// Compiled programs on small arrays, whose operations are machine code, beside the same by kernels
// and in JAX (peer_models.py).
#include <chrono>
#include <cmath>

#include <stave/core/program/lower.h>

#include "models.h"

namespace {

using namespace stave_bench;

// ---- one call of a small program ----------------------------------------------------------------

Tensor cubic(const Tensor& x) { return x * (x * (x * 0.5 - 1) + 2) - 3; }
void compiled_cubic(benchmark::State& state) {
  compare(state, compile(cubic, {.native = Native::required}), tensor(0.3));
}

// ---- an arm of seven joints ---------------------------------------------------------------------

// The place of the hand, and two columns of its orientation: each link turns about the z axis of
// the one before, whose x axis is tilted (Denavit and Hartenberg, 1955).
Tensor hand(const Tensor& angles) {
  constexpr double tilts[] = {-1.5708, 1.5708, 1.5708, -1.5708, -1.5708, 1.5708, 0};
  constexpr double lengths[] = {0, 0, 0.0825, -0.0825, 0, 0.088, 0}, offsets[] = {0.333, 0, 0.316, 0, 0.384, 0, 0.107};
  Tensor pose = eye(4);
  for (Index k = 0; k < 7; ++k) {
    const double ct = std::cos(tilts[k]), st = std::sin(tilts[k]);
    const Tensor c = cos(angles(k)), s = sin(angles(k)), zero = zeros_like(c);
    const Tensor link =
        stack({stack({c, -s * ct, s * st, c * lengths[k]}), stack({s, c * ct, -c * st, s * lengths[k]}),
               stack({zero, zero + st, zero + ct, zero + offsets[k]}), stack({zero, zero, zero, zero + 1.})});
    pose = matmul(pose, link);
  }
  return concat({pose(slice(3), 3), pose(slice(3), 0), pose(slice(3), 1)});
}

void compiled_arm_jacobian(benchmark::State& state) {
  compare(state, compile(jacfwd(hand), {.native = Native::required}), 0.2 * arange(7) - 0.5);
}
void arm_jacobian_by_kernels(benchmark::State& state) {
  compare(state, compile(jacfwd(hand), {.native = Native::never}), 0.2 * arange(7) - 0.5);
}

// ---- lanes: small programs under vmap -----------------------------------------------------------

Tensor lorenz_path(const Tensor& start) { return lorenz_end(start, 0.002); }
// Its gradient for 64 starts.
template <Native native>
void lorenz_64_grad(benchmark::State& state) {
  compare(state, compile(vmap(grad(lorenz_path)), {.native = native}), scattered({64, 3}) + 1.);
}

// Hamiltonian Monte Carlo on a banana-shaped density (Rosenbrock) for 64 chains: a transition of
// ten leapfrog steps, with random numbers from a key of each chain.
Tensor banana(const Tensor& q) {
  const Tensor x = q(0), y = q(1);
  return -(square(1 - x) + 5 * square(y - square(x))) / 2;
}
Tensor hmc_transition(const Tensor& q, const Tensor& key) {
  constexpr double step = 0.1;
  constexpr int steps = 10;
  const auto [of_momentum, of_chance] = split<2>(Key(key));
  const Tensor momentum = normal(of_momentum, {2}, float64), chance = uniform(of_chance, {}, float64);
  const auto slope = grad(banana);
  const auto energy = [](const Tensor& at, const Tensor& p) { return vecdot(p, p) / 2 - banana(at); };
  Tensor at = q, p = momentum + step / 2 * slope(q);
  for (int i = 0; i < steps; ++i) {
    at = at + step * p;
    p = p + (i + 1 < steps ? step : step / 2) * slope(at);
  }
  return where(log(chance) < energy(q, momentum) - energy(at, p), at, q);
}
template <Native native>
void hmc_64(benchmark::State& state) {
  const Tensor keys = stack({astype(arange(64), uint32), full({64}, 7, uint32)}, 1);
  compare(state, compile(vmap(hmc_transition), {.native = native}), scattered({64, 2}), keys);
}

// ---- machine code beside kernels, where it pays least -------------------------------------------

// Functions of arrays of n elements, by which kernels work in vectors.
Tensor functions_of(const Tensor& x) { return exp(-x * x) * sin(x) + tanh(x); }
template <Native native>
void functions_of_few(benchmark::State& state) {
  const auto f = compile(functions_of, {.native = native});
  const Tensor x = scattered({state.range(0)});
  for (int i = 0; i < 20000; ++i) f(x);  // so that what pays is machine code
  measure(state, [&] { return f(x); });
}

// ---- compilation --------------------------------------------------------------------------------

// A thousand operations on single numbers, none of which repeats another.
Tensor thousand(const Tensor& x) {
  Tensor y = x;
  for (int i = 0; i < 500; ++i) y = y * x + 0.001 * (i + 1);
  return y;
}
template <Native native>
void planning_thousand(benchmark::State& state) {
  const Tensor x = tensor(0.5);
  for (auto _ : state) {
    const auto f = compile(thousand, {.native = native});
    f(x);
    const auto begin = std::chrono::steady_clock::now();
    f(x);
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
}

// The time for each instruction of a long program of small arrays: the gradient of 680 steps of
// Lorenz's equations, written out. It has about 150,000 instructions.
Tensor lorenz_written_out(const Tensor& start) {
  const auto velocity = [](const Tensor& s) {
    const Tensor x = s(0), y = s(1), z = s(2);
    return stack({10. * (y - x), x * (28. - z) - y, x * y - 8. / 3 * z});
  };
  constexpr double h = 0.01;
  Tensor y = start;
  for (int i = 0; i < 680; ++i) {
    const Tensor a = velocity(y), b = velocity(y + h / 2 * a), c = velocity(y + h / 2 * b), d = velocity(y + h * c);
    y = y + h / 6 * (a + 2. * b + 2. * c + d);
  }
  return sum(y);
}
void lowering(benchmark::State& state) {
  const Program program = trace(grad(lorenz_written_out))(tensor({1., 2., 20.}));
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    const stave_detail::Lowered code = stave_detail::lower(program, {.is_optimized = true});
    benchmark::DoNotOptimize(code.instructions.data());
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    state.SetIterationTime(time.count() / static_cast<double>(program.instructions.size()));
  }
}

BENCHMARK(compiled_cubic)->UseRealTime();
BENCHMARK(compiled_arm_jacobian)->UseRealTime();
BENCHMARK(arm_jacobian_by_kernels)->UseRealTime();
BENCHMARK(lorenz_64_grad<Native::automatic>)->Name("lorenz_64_grad")->UseRealTime();
BENCHMARK(lorenz_64_grad<Native::never>)->Name("lorenz_64_grad_by_kernels")->UseRealTime();
BENCHMARK(hmc_64<Native::automatic>)->Name("hmc_64")->UseRealTime();
BENCHMARK(hmc_64<Native::never>)->Name("hmc_64_by_kernels")->UseRealTime();
BENCHMARK(functions_of_few<Native::automatic>)->Name("functions_of_few")->Arg(2)->Arg(16)->Arg(64)->UseRealTime();
BENCHMARK(functions_of_few<Native::never>)
    ->Name("functions_of_few_by_kernels")
    ->Arg(2)
    ->Arg(16)
    ->Arg(64)
    ->UseRealTime();
BENCHMARK(planning_thousand<Native::required>)->Name("planning_thousand")->UseManualTime();
BENCHMARK(planning_thousand<Native::never>)->Name("planning_thousand_by_kernels")->UseManualTime();
BENCHMARK(lowering)->Iterations(3)->UseManualTime();

}  // namespace
