// Elementwise programs whose last axis is short, with operands that are broadcast along that axis
// or are parts of longer rows: plain and compiled, beside the same arithmetic on one long axis.
#include "bench.h"

namespace {

using namespace stave_bench;

// The number of elements of the first operand, of which a program of slices reads a part.
constexpr Index elements = 120'000, matrix_rows = elements / 11;

Tensor blend(const Tensor& x, const Tensor& s) { return x * s + (x - s) * x * s + s * x; }

// The layouts of the operands of `blend`.
std::pair<Tensor, Tensor> operands_of(Dtype dtype, const Shape& x, const Shape& s) {
  return {astype(scattered(x), dtype), astype(scattered(s, 2), dtype)};
}
std::pair<Tensor, Tensor> flat(Dtype dtype) { return operands_of(dtype, {elements}, {elements}); }
std::pair<Tensor, Tensor> broadcast(Dtype dtype) { return operands_of(dtype, {elements / 3, 3}, {elements / 3, 1}); }
std::pair<Tensor, Tensor> blocks(Dtype dtype) { return operands_of(dtype, {elements / 6, 2, 3}, {elements / 6, 1, 3}); }
std::pair<Tensor, Tensor> sliced(Dtype dtype) {
  const auto [x, s] = operands_of(dtype, {matrix_rows, 11}, {matrix_rows, 1});
  return {x(slice(), slice(0, 3)), s};
}
// One long axis with as many elements as the result of `sliced`.
std::pair<Tensor, Tensor> short_flat(Dtype dtype) { return operands_of(dtype, {3 * matrix_rows}, {3 * matrix_rows}); }

using Operands = std::pair<Tensor, Tensor> (*)(Dtype);
void plain_rows(benchmark::State& state, Operands operands, Dtype dtype) {
  const auto [x, s] = operands(dtype);
  measure(state, [&, &x = x, &s = s] { return blend(x, s); });
}
void compiled_rows(benchmark::State& state, Operands operands, Dtype dtype) {
  const auto [x, s] = operands(dtype);
  const auto f = compile(blend);
  const Tensor expected = blend(x, s);
  f(x, s), f(x, s);
  if (!array_equal(f(x, s), expected)) return state.SkipWithError("compiled and plain results differ");
  measure(state, [&, &x = x, &s = s] { return f(x, s); });
}

#define MEASURE(layout, suffix, dtype)                                                                \
  BENCHMARK_CAPTURE(plain_rows, layout, layout, dtype)->UseRealTime()->Name("plain_" #layout suffix); \
  BENCHMARK_CAPTURE(compiled_rows, layout, layout, dtype)->UseRealTime()->Name("compiled_" #layout suffix);
#define MEASURE_LAYOUT(layout)      \
  MEASURE(layout, "_rows", float64) \
  MEASURE(layout, "_rows_float32", float32)
MEASURE_LAYOUT(flat)
MEASURE_LAYOUT(broadcast)
MEASURE_LAYOUT(blocks)
MEASURE_LAYOUT(sliced)
MEASURE_LAYOUT(short_flat)
#undef MEASURE_LAYOUT
#undef MEASURE

// ---- programs of slices -------------------------------------------------------------------------

Tensor columns(const Tensor& c, Index first, Index last) { return c(slice(), slice(first, last)); }

Tensor products_of_columns(const Tensor& c) { return columns(c, 5, 7) * columns(c, 7, 9) + columns(c, 1, 3); }

// The residuals of bundle adjustment: the distance of a projected point from where it was seen. A
// camera has a rotation (an axis times an angle), a centre, a focal length, a principal point and
// two coefficients of radial distortion.
Tensor reprojection(const Tensor& cameras, const Tensor& points, const Tensor& seen, const Tensor& weights) {
  const Tensor rotation = columns(cameras, 0, 3), moved = points - columns(cameras, 3, 6);
  const Tensor angle = sqrt(sum(square(rotation), -1, keepdims)), axis = rotation / angle;
  const Tensor cosine = cos(angle), along = sum(axis * moved, -1, keepdims) * (1 - cosine);
  const Tensor turned = moved * cosine + cross(axis, moved) * sin(angle) + axis * along;
  const Tensor projected = columns(turned, 0, 2) / columns(turned, 2, 3);
  const Tensor r = sum(square(projected), -1, keepdims);
  const Tensor distortion = 1 + columns(cameras, 9, 10) * r + columns(cameras, 10, 11) * r * r;
  const Tensor pixels = projected * distortion * columns(cameras, 6, 7) + columns(cameras, 7, 9);
  return (pixels - seen) * weights;
}

template <class F>
void measure_columns(benchmark::State& state, const F& f) {
  const Tensor c = astype(scattered({elements / 3, 11}), float64);
  f(c), f(c);
  if (!array_equal(f(c), products_of_columns(c))) return state.SkipWithError("compiled and plain results differ");
  measure(state, [&] { return f(c); });
}
void plain_columns(benchmark::State& state) { measure_columns(state, products_of_columns); }
void compiled_columns(benchmark::State& state) { measure_columns(state, compile(products_of_columns)); }

template <class F>
void measure_reprojection(benchmark::State& state, const F& f) {
  constexpr Index n = elements / 3;
  const Tensor cameras = astype(scattered({n, 11}), float64), points = astype(scattered({n, 3}), float64) + 2;
  const Tensor seen = astype(scattered({n, 2}), float64), weights = astype(scattered({n, 1}), float64);
  f(cameras, points, seen, weights), f(cameras, points, seen, weights);
  if (!array_equal(f(cameras, points, seen, weights), reprojection(cameras, points, seen, weights)))
    return state.SkipWithError("compiled and plain results differ");
  measure(state, [&] { return f(cameras, points, seen, weights); });
}
void plain_reprojection(benchmark::State& state) { measure_reprojection(state, reprojection); }
void compiled_reprojection(benchmark::State& state) { measure_reprojection(state, compile(reprojection)); }

// Fifteen columns become the rows of a matrix, beside a copy of such a matrix.
void stack_columns(benchmark::State& state) {
  const Tensor column = astype(scattered({elements}), float64);
  const std::vector<Tensor> columns(15, column);
  measure(state, [&] { return stack(columns, 1); });
}
void copy_of_columns(benchmark::State& state) {
  const Tensor x = astype(scattered({elements, 15}), float64);
  measure(state, [&] { return x + 0.; });
}

BENCHMARK(stack_columns)->UseRealTime();
BENCHMARK(copy_of_columns)->UseRealTime();
BENCHMARK(plain_columns)->UseRealTime();
BENCHMARK(compiled_columns)->UseRealTime();
BENCHMARK(plain_reprojection)->UseRealTime();
BENCHMARK(compiled_reprojection)->UseRealTime();

}  // namespace
