// stablehlo_programs: whole programs as StableHLO, gradients among them, compiled and run by
// jaxlib. Their results are compared with the library's, and those of oracles.py with jax's own.
//
//   stablehlo_programs          all programs
//   stablehlo_programs NAME     one of them, whose text is printed
#include <cmath>
#include <cstdio>
#include <functional>
#include <string_view>

#include <stave/core/program/passes/passes.h>
#include <stave/stave.h>

#include "core/program/stablehlo/modules.h"

namespace {

using namespace stave;
using stave_test::HloModules, stave_test::HloProgram, stave_test::HloRun;

std::vector<HloProgram> programs;

template <class F, class... Inputs>
void add(const char* name, F f, const Inputs&... inputs) {
  const auto traced = trace(f)(inputs...);
  std::vector<Tensor> flat;
  const auto append = [&](const auto& x) { visit_tensors(x, [&](const Tensor& t) { flat.push_back(t); }); };
  (append(inputs), ...);
  programs.push_back({name, traced, flat});
}

Tensor some(const Shape& shape, double phase, Dtype dtype = float64) {
  return astype(reshape(sin(arange(0., static_cast<double>(shape.elements()), 1., float64) * 0.7 + phase), shape), dtype);
}

// ---- models -------------------------------------------------------------------------------------

Tensor mlp_loss(const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& x, const Tensor& y) {
  return mean(square(matmul(tanh(matmul(x, w1) + b1), w2) - y));
}

void add_models() {
  const Tensor w1 = some({3, 8}, 0), b1 = some({8}, 1), w2 = some({8, 2}, 2), x = some({5, 3}, 3), y = some({5, 2}, 4);
  add("mlp_gradient", grad<0, 1, 2>(mlp_loss), w1, b1, w2, x, y);
  const auto per_example = vmap(grad(mlp_loss), {.in_axes = {unmapped, unmapped, unmapped, 0, 0}});
  add("per_example_gradients", per_example, w1, b1, w2, x, y);
  add("mlp_hessian", hessian([=](const Tensor& b) { return mlp_loss(w1, b, w2, x, y); }), b1);
  programs.push_back({"mlp_gradient_optimized",
                      optimized(trace(grad(mlp_loss))(w1, b1, w2, x, y)),
                      {w1, b1, w2, x, y}});

  const auto norm_loss = [](const Tensor& t, const Tensor& w, const Tensor& b) {
    return sum(sin(layer_norm(t, {.weight = w, .bias = b})));
  };
  add("layer_norm_gradient", grad<0, 1, 2>(norm_loss), some({4, 6}, 0), some({6}, 1), some({6}, 2));

  const auto attend = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return sum(sin(scaled_dot_product_attention(q, k, v, {.causal = true})));
  };
  add("attention_gradient", grad<0, 1, 2>(attend), some({2, 5, 4}, 0), some({2, 5, 4}, 1), some({2, 5, 3}, 2));

  const auto network = [](const Tensor& w, const Tensor& image) {
    return sum(square(max_pool(relu(conv(image, w, {.padding = 1})), 2)));
  };
  add("convolution_gradient", grad<0, 1>(network), some({4, 3, 3, 3}, 0), some({2, 3, 8, 8}, 1));
  const auto grouped = [](const Tensor& w, const Tensor& signal) {
    return sum(sin(conv(signal, w, {.stride = 2, .dilation = 2, .groups = 2})));
  };
  add("grouped_convolution_gradient", grad<0, 1>(grouped), some({4, 2, 3}, 0), some({2, 4, 17}, 1));

  const auto classify = [](const Tensor& logits, const Tensor& labels) { return cross_entropy(logits, labels); };
  add("cross_entropy_gradient", grad(classify), some({4, 5}, 0), tensor({1, 0, 4, 2}));
  const auto look_up = [](const Tensor& table, const Tensor& ids) { return sum(square(sin(embedding(table, ids)))); };
  add("embedding_gradient", grad(look_up), some({6, 3}, 0), tensor({{1, 5, 1}, {0, 1, 2}}));
}

// ---- loops --------------------------------------------------------------------------------------

Tensor lorenz_slope(const Tensor& s) {
  const Tensor x = s[0], y = s[1], z = s[2];
  return stack({10. * (y - x), x * (28. - z) - y, x * y - 8. / 3. * z});
}
Tensor lorenz(const Tensor& start) {
  const auto step = [](const Tensor& s) {
    const double h = 0.01;
    const Tensor k1 = lorenz_slope(s), k2 = lorenz_slope(s + h / 2 * k1), k3 = lorenz_slope(s + h / 2 * k2),
                 k4 = lorenz_slope(s + h * k3);
    return s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
  };
  return loop(50, step)(start);
}

void add_loops() {
  const Tensor start = tensor({1., 2., 20.}, float64);
  add("lorenz", lorenz, start);
  add("lorenz_jacobian", jacrev(lorenz), start);
  const auto recurrent = [](const Tensor& w, const Tensor& xs) {
    const auto step = [&](const Tensor& state, const Tensor& x) {
      const Tensor next = tanh(matmul(w, state) + x);
      return std::pair(next, sum(next));
    };
    const auto [last, sums] = scan(step)(zeros({3}, float64), xs);
    return sum(last) + sum(square(sums));
  };
  add("scan_gradient", grad<0, 1>(recurrent), some({3, 3}, 0), some({7, 3}, 1));
  const auto backwards = [](const Tensor& xs) {
    const auto step = [](const Tensor& state, const Tensor& x) { return std::pair(0.5 * state + x, state * x); };
    return scan(step, {.reverse = true})(zeros({2}, float64), xs);
  };
  add("reverse_scan", backwards, some({6, 2}, 0));
  const auto nested = [](const Tensor& x) {
    const auto inner = [](const Tensor& y) { return sin(y) + 0.1 * y; };
    return sum(loop(5, [&](const Tensor& y) { return loop(4, inner)(y) * 0.9; })(x));
  };
  add("nested_loops_gradient", grad(nested), some({3}, 0));
  add("vmapped_loop_gradient", vmap(grad([](const Tensor& s) { return sum(lorenz(s)); })),
      stack({start, 1.1 * start, 0.9 * start}));

  // One step of an extended Kalman filter, whose measurement is the distance.
  const auto filter = [](const Tensor& state, const Tensor& covariance, const Tensor& seen) {
    const auto measure = [](const Tensor& s) { return stack({norm(s(slice(0, 2))), s[2]}); };
    const Tensor h = jacfwd(measure)(state), noise = 0.1 * eye(2, float64);
    const Tensor spread = matmul(matmul(h, covariance), matrix_transpose(h)) + noise;
    const Tensor gain = matrix_transpose(solve(spread, matmul(h, covariance)));
    const Tensor moved = state + matmul(gain, seen - measure(state));
    return sum(square(moved)) + sum(matmul(covariance - matmul(gain, matmul(h, covariance)), moved));
  };
  add("kalman_gradient", grad<0, 1, 2>(filter), tensor({1., 2., 0.5}, float64), eye(3, float64) + 0.1,
      tensor({2., 0.4}, float64));
}

// ---- transforms and rules -----------------------------------------------------------------------

void add_transforms() {
  const auto block = [](const Tensor& x) { return sum(square(checkpoint([](const Tensor& y) { return exp(sin(y)); })(x))); };
  add("checkpoint_gradient", grad(block), some({5}, 0));
  const auto own = custom_vjp([](const Tensor& x) { return log1p(exp(x)); },
                              [](const Tensor& x) { return std::pair(log1p(exp(x)), x); },
                              [](const Tensor& x, const Tensor& g) { return 2 * g * sigmoid(x); });
  add("custom_rule", [=](const Tensor& x) { return std::tuple(own(x), grad([&](const Tensor& y) { return sum(own(y)); })(x)); },
      some({5}, 0));
  add("jacobians", [](const Tensor& x) {
    const auto f = [](const Tensor& y) { return cumulative_sum(y * y) / (1. + abs(y)); };
    return std::tuple(jacfwd(f)(x), jacrev(f)(x));
  }, some({4}, 0.3));
  add("hessian_product", [](const Tensor& x, const Tensor& v) {
    return hvp([](const Tensor& y) { return sum(exp(0.1 * y) * roll(y, 1)); }, x, v);
  }, some({5}, 0), some({5}, 1));
}

// ---- linear algebra, sorting, random numbers, integers ------------------------------------------

void add_others() {
  const auto evidence = [](const Tensor& xs, const Tensor& ys, const Tensor& scale) {
    const Tensor off = (expand_dims(xs, 1) - expand_dims(xs, 0)) / scale;
    const Tensor l = cholesky(exp(-0.5 * square(off)) + 0.1 * eye(6, float64));
    return sum(square(triangular_solve(l, ys, {.lower = true}))) + 2 * sum(log(diagonal(l)));
  };
  add("gaussian_process_gradient", grad<0, 1, 2>(evidence), some({6}, 0), some({6}, 1), tensor(0.8, float64));
  const Tensor matrices = some({2, 4, 4}, 0) + 3 * eye(4, float64);
  add("determinant_gradients", grad([](const Tensor& a) { return sum(slogdet(a).second) + sum(det(a)) + sum(inv(a)); }),
      matrices);
  add("qr_gradient", grad([](const Tensor& a) {
    const auto [q, r] = qr(a);
    return sum(sin(q)) + sum(square(r));
  }), some({5, 3}, 0) + eye(5, 3, 0, float64));
  add("expm_gradient", grad([](const Tensor& a) { return sum(square(expm(a))); }), 2 * some({3, 3}, 0));

  add("sorting", [](const Tensor& x, const Tensor& at) {
    const auto [values, positions] = topk(x, 2);
    return std::tuple(sort(x), argsort(x, -1, {.descending = true}), values, positions,
                      searchsorted(sort(x[0]), at), cummax(x, 1), argmax(x, 1));
  }, some({3, 7}, 0), some({4}, 1));
  add("random_numbers", [](const Tensor& words) {
    const Key key(words);
    const auto [a, b] = split<2>(key);
    return std::tuple(normal(a, {3, 4}, float64), uniform(b, {5}, -1, 2, float64), permutation(key, 50),
                      random_bits(b, {3}), bernoulli(a, 0.3, {6}));
  }, tensor({0, 42}, uint32));
  add("integers", [](const Tensor& a, const Tensor& b) {
    return std::tuple(floor_divide(a, b), remainder(a, b), bitwise_left_shift(a, abs(b)), bitwise_right_shift(a, abs(b)), pow(a, abs(b)), astype(a, bool_),
                      astype(astype(a, float32) * 1e9f, int32), sum(a), bitwise_xor(a, b));
  }, tensor({7, -7, 0, -2147483647 - 1, 5}), tensor({-2, 2, 0, -1, 0}));
  add("special_functions", [](const Tensor& x) {
    return std::tuple(erf(x), erfc(x), erfinv(x / 4), lgamma(x + 0.05), digamma(x + 0.05), gelu(x), zeta(2., abs(x) + 1));
  }, 3 * some({20}, 0));
  const auto block = [](const Tensor& w, const Tensor& x) {
    const Tensor h = layer_norm(x), q = matmul(h, w);
    return mean(square(x + gelu(scaled_dot_product_attention(q, h, h)) - softmax(q, -1)));
  };
  add("transformer_block_float32", grad(block), some({4, 4}, 0, float32), some({2, 6, 4}, 1, float32));
}

// Returns what differs, or "".
std::string compared(const HloProgram& it, const HloRun& run) {
  if (!run.error.empty()) return run.error;
  const Outputs expected = it.program(it.inputs);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double tolerance = expected[i].dtype() == float64 ? 1e-11 : expected[i].dtype() == float32 ? 2e-5 : 0;
    if (!allclose(run.outputs[i], expected[i], tolerance, tolerance))
      return "result " + std::to_string(i) + " is\n" + run.outputs[i].str() + "\nexpected\n" + expected[i].str();
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) try {
  std::setbuf(stdout, nullptr);
  add_models();
  add_loops();
  add_transforms();
  add_others();
  const std::string_view only = argc > 1 ? argv[1] : "";
  HloModules modules;
  for (const HloProgram& it : programs)
    if (only.empty() || it.name == only) modules.add(it);
  if (!only.empty()) std::printf("%s\n", modules.text(std::string(only)).c_str());
  if (!modules.run()) return stave_test::no_jax;
  int failures = 0, count = 0;
  for (const HloProgram& it : programs) {
    if (!only.empty() && it.name != only) continue;
    const std::string wrong = compared(it, modules.results(it.name, {&it, 1})[0]);
    ++count;
    failures += !wrong.empty();
    if (!wrong.empty()) std::printf("FAIL %s: %s\n", it.name.c_str(), wrong.c_str());
  }
  std::printf("programs %d  failures %d\n", count, failures);
  return failures || count == 0 ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "stablehlo_programs: %s\n", error.what());
  return 2;
}
