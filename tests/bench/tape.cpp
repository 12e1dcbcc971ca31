// The memory of a tape, and the cost of rematerialisation: a thousand squares of a million floats;
// and programs for which a rule that saves the ends of runs would save more than the plain tape.
#include <algorithm>

#include "programs.h"

namespace {

using namespace stave_bench;
using enum stave::Recompute;

void tape_recomputed(benchmark::State& state) {
  const Tensor x = make_squared();
  measure(state, [&] { return grad(squares)(x); });
}
void tape_save_all(benchmark::State& state) {
  const Tensor x = make_squared();
  measure(state, [&] { return grad(squares, {.recompute = never})(x); });
}

// Reports the figure in place of other benchmarks' nanoseconds.
void give(benchmark::State& state, double figure) {
  for (auto _ : state) state.SetIterationTime(figure * 1e-9);
}

// The peak in MiB, without the input.
void tape_peak(benchmark::State& state) {
  const Tensor x = make_squared();
  const auto before = static_cast<double>(memory_stats().live_bytes);
  reset_peak_memory();
  grad(squares)(x);
  give(state, (static_cast<double>(memory_stats().peak_bytes) - before) / (1 << 20));
}

// ---- saved bytes, relative to the plain tape ----------------------------------------------------

using Leaves = std::vector<Tensor>;
using Loss = Tensor (*)(const Leaves&);

Tensor products_then_exp(const Leaves& p) {
  Tensor total = p[0] * p[1];
  for (int i = 0; i < 5; ++i) total = total + p[0] * p[1] * static_cast<double>(i);
  return sum(exp(total * 0.01));
}
Tensor residual_tanh(const Leaves& p) {
  Tensor h = p[0];
  for (int i = 0; i < 20; ++i) h = h + tanh(h);
  return sum(h);
}
Tensor lstm(const Leaves& p) {
  Tensor h = p[0], c = p[1];
  for (int i = 0; i < 10; ++i) {
    const Tensor forget = sigmoid(matmul(h, p[2])), input = sigmoid(matmul(h, p[3])), output = sigmoid(matmul(h, p[4]));
    c = forget * c + input * tanh(matmul(h, p[5]));
    h = output * tanh(c);
  }
  return sum(h);
}
template <Tensor (*activation)(Tensor)>
Tensor layers(const Leaves& p) {
  Tensor h = p[0];
  for (std::size_t i = 0; i < 20; ++i) h = activation(matmul(h, p[2 + i % 4]) + p[6]);
  return sum(h);
}
Tensor gelu_written_out(Tensor z) { return 0.5 * z * (1 + tanh(0.7978845608 * (z + 0.044715 * z * z * z))); }
Tensor layer_norm_written_out(const Leaves& p) {
  Tensor h = p[0];
  for (int i = 0; i < 20; ++i) {
    const Tensor centred = h - mean(h, -1, keepdims);
    h = centred * rsqrt(mean(square(centred), -1, keepdims) + 1e-5) * p[6] + p[7];
  }
  return sum(h);
}

std::size_t kept_by(Loss f, const Leaves& p, Recompute when) {
  const std::size_t before = memory_stats().live_bytes;
  const auto made = vjp(f, {.recompute = when}, p);
  return memory_stats().live_bytes - before;
}

// The largest share of these programs.
void tape_kept_share(benchmark::State& state) {
  const auto large = [](std::uint64_t key) { return normal(Key(key), {1024, 64}); };
  const auto weight = [](std::uint64_t key) { return normal(Key(key), {64, 64}) * 0.1; };
  const Leaves p{
      large(1), large(2), weight(3), weight(4), weight(5), weight(6), normal(Key(7), {64}), normal(Key(8), {64})};
  double most = 0;
  for (const Loss f : {products_then_exp, residual_tanh, lstm, layers<tanh>, layers<relu>, layers<gelu>,
                       layers<gelu_written_out>, layer_norm_written_out})
    for (const Recompute when : {automatic, always})
      most = std::max(most, static_cast<double>(kept_by(f, p, when)) / static_cast<double>(kept_by(f, p, never)));
  give(state, most);
}

BENCHMARK(tape_recomputed)->UseRealTime();
BENCHMARK(tape_save_all)->UseRealTime();
BENCHMARK(tape_peak)->UseManualTime()->Iterations(1);
BENCHMARK(tape_kept_share)->UseManualTime()->Iterations(1);

}  // namespace
