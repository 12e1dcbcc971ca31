// The operations of operations.h on the CPU. The counter `norm` is the norm of their results, with
// which the peers' norms must agree.
#include <cmath>
#include <functional>
#include <vector>

#include "bench.h"
#include "operations.h"

namespace {

using namespace stave_bench;

using Results = std::vector<Tensor>;
using Computation = std::function<Results()>;  // owns its inputs

// ---- inputs: peer_operations.py makes the same ones ---------------------------------------------

/// Returns numbers from -1/2 to 1/2, with a long period.
Tensor mixed(const Shape& shape) {
  const Tensor i = arange(0, shape.elements(), 1, int64);
  return reshape(astype((i % 65537) * (i % 65521) % 10007, float32) / 10007 - 0.5, shape);
}
/// Returns `count` rows; each is the same row plus a number of its own.
Tensor mixed_rows(Index count, Index width) { return mixed({count, 1}) + mixed({width}); }
/// Returns indices in [0, n) in an irregular order.
Tensor places(Index count, Index n) { return arange(0, count, 1, int64) * 611953 % 1000003 % n; }

Tensor general(const Shape& shape) {  // matrices that are far from singular
  return mixed(shape) + 2 * std::sqrt(static_cast<double>(shape.back())) * eye(shape.back());
}
Tensor symmetric(const Shape& shape) {
  const Tensor x = mixed(shape);
  return (x + matrix_transpose(x)) / 2;
}
Tensor positive(const Shape& shape) { return symmetric(shape) + static_cast<double>(shape.back()) * eye(shape.back()); }

Shape stack(Index n) { return n == 3 ? Shape{100000, 3, 3} : n == 16 ? Shape{64, 16, 16} : Shape{n, n}; }

// ---- computations -------------------------------------------------------------------------------

template <class F, class... X>
Computation value(F f, X... x) {
  return [=] { return Results{f(x...)}; };
}
/// Returns a computation of the value and the cotangents of the inputs.
template <class F, class... X>
Computation gradients(F f, X... x) {
  const Tensor y = f(x...), ct = reshape(mixed({y.size()}), y.shape());
  return [=] {
    auto [value, pullback] = vjp(f, x...);
    Results results = tree_leaves(pullback(ct));
    results.push_back(value);
    return results;
  };
}
template <class F>
Computation leaves(F f, Tensor x) {
  return [=] { return tree_leaves(f(x)); };
}

const auto convolved = [](const Tensor& x, const Tensor& w) { return conv(x, w, {.padding = 1}); };
const auto convolved_wide = [](const Tensor& x, const Tensor& w) { return conv(x, w, {.stride = 2, .padding = 3}); };
const auto pooled = [](const Tensor& x) { return max_pool(x, 3, {.stride = 2, .padding = 1}); };
const auto normalized = [](const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return layer_norm(x, {.weight = weight, .bias = bias});
};
const auto attended = [](const Tensor& q, const Tensor& k, const Tensor& v) {
  return scaled_dot_product_attention(q, k, v, {.causal = true});
};
const Shape heads{8, 8, 512, 64};

Computation conv2d() { return value(convolved, mixed({32, 16, 32, 32}), mixed({32, 16, 3, 3})); }
Computation conv2d_grad() { return gradients(convolved, mixed({32, 16, 32, 32}), mixed({32, 16, 3, 3})); }
Computation conv2d_wide() { return value(convolved_wide, mixed({8, 3, 224, 224}), mixed({64, 3, 7, 7})); }
Computation conv2d_wide_grad() { return gradients(convolved_wide, mixed({8, 3, 224, 224}), mixed({64, 3, 7, 7})); }
Computation max_pool() { return value(pooled, mixed({8, 64, 112, 112})); }
Computation max_pool_grad() { return gradients(pooled, mixed({8, 64, 112, 112})); }

Computation layer_norm() { return value(normalized, mixed({4096, 1024}), mixed({1024}), mixed({1024})); }
Computation layer_norm_grad() { return gradients(normalized, mixed({4096, 1024}), mixed({1024}), mixed({1024})); }
Computation cross_entropy() {
  return value([](auto& x, auto& labels) { return cross_entropy(x, labels); }, 8 * mixed({4096, 1000}),
               places(4096, 1000));
}
Computation cross_entropy_grad() {
  const Tensor labels = places(4096, 1000);
  const auto loss = [=](const Tensor& x) { return cross_entropy(x, labels); };
  return [=, x = 8 * mixed({4096, 1000})] {
    auto [value, gradient] = value_and_grad(loss)(x);
    return Results{gradient, value};
  };
}
Computation attention() { return value(attended, mixed(heads), 2 * mixed(heads), 3 * mixed(heads)); }
Computation attention_grad() { return gradients(attended, mixed(heads), 2 * mixed(heads), 3 * mixed(heads)); }

Computation topk() {
  return value([](auto& x) { return topk(x, 100).first; }, mixed({1000000}));
}
Computation unique() {
  return value([](auto& x) { return unique_values(x); }, mixed({1000000}));
}
Computation histogram() {
  return value([](auto& x, auto& edges) { return histogram(x, edges); }, mixed({1000000}), linspace(-0.5, 0.5, 101));
}
const auto taken = [](const Tensor& x, const Tensor& indices) { return take(x, indices); };
const auto added_at = [](const Tensor& x, const Tensor& indices, const Tensor& updates) {
  return scatter_add(x, expand_dims(indices, 1), updates);
};
Computation gather_rows() { return value(taken, mixed_rows(1000000, 64), places(1000000, 1000000)); }
Computation gather_numbers() { return value(taken, mixed({1000000}), places(1000000, 1000000)); }
Computation scatter_add_rows() {
  return value(added_at, zeros({1000000, 64}), places(1000000, 1000000), mixed_rows(1000000, 64));
}
Computation scatter_add_numbers() {
  return value(added_at, zeros({1000000}), places(1000000, 1000000), mixed({1000000}));
}

Computation einsum() {
  return value([](auto& q, auto& k) { return einsum("bhqd,bhkd->bhqk", q, k); }, mixed(heads), 2 * mixed(heads));
}
Computation sum_of(Dtype dtype) {
  const Tensor x = astype(mixed({1 << 22}), dtype);
  return value([](auto& a, auto& b) { return a + b; }, x, 2 * x);
}
Computation product_of(Dtype dtype) {
  const Tensor x = astype(mixed({1024, 1024}), dtype);
  return value([](auto& a, auto& b) { return matmul(a, b); }, x, 2 * x);
}
Computation add_float16() { return sum_of(float16); }
Computation add_bfloat16() { return sum_of(bfloat16); }
Computation matmul_float16() { return product_of(float16); }
Computation matmul_bfloat16() { return product_of(bfloat16); }

template <Index n>
Computation cholesky() {
  return value([](auto& a) { return stave::cholesky(a); }, positive(stack(n)));
}
template <Index n>
Computation solve() {
  Shape right = stack(n);
  right.back() = 8;
  return value([](auto& a, auto& b) { return stave::solve(a, b); }, general(stack(n)), mixed(right));
}
template <Index n>
Computation eigh() {
  return leaves([](auto& a) { return stave::eigh(a); }, symmetric(stack(n)));
}
template <Index n>
Computation svd() {
  return leaves([](auto& a) { return stave::svd(a, {.full_matrices = false}); }, mixed(stack(n)));
}
#define STAVE_BY_SIZE(name)                        \
  Computation name##_3() { return name<3>(); }     \
  Computation name##_16() { return name<16>(); }   \
  Computation name##_256() { return name<256>(); } \
  Computation name##_1024() { return name<1024>(); }
STAVE_BY_SIZE(cholesky)
STAVE_BY_SIZE(solve)
STAVE_BY_SIZE(eigh)
STAVE_BY_SIZE(svd)
#undef STAVE_BY_SIZE

// ---- measuring ----------------------------------------------------------------------------------

double norm_of(const Results& results) {
  double squares = 0;
  for (const Tensor& x : results) squares += std::pow(norm(astype(x, float32)).item<double>(), 2);
  return std::sqrt(squares);
}

void compare(benchmark::State& state, Computation (*make)()) {
  const Computation compute = make();
  state.counters["norm"] = norm_of(compute());
  measure(state, compute);
}

[[maybe_unused]] const bool registered = [] {
#define X(name) benchmark::RegisterBenchmark(#name, compare, name)->UseRealTime();
  STAVE_COMPARED_OPERATIONS(X)
#undef X
  return true;
}();

}  // namespace
