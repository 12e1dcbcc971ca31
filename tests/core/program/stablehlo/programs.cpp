// stablehlo_programs: whole programs as StableHLO, gradients among them, compiled and run by
// jaxlib. Their results are compared with the library's, and those of oracles.py with jax's own.
//
//   stablehlo_programs          all programs
//   stablehlo_programs NAME     one of them, whose text is printed
#include <cmath>
#include <complex>
#include <cstdio>
#include <limits>
#include <string_view>

#include <stave/core/program/passes/passes.h>
#include <stave/stave.h>

#include "core/program/stablehlo/modules.h"

namespace {

using namespace stave;
using namespace std::complex_literals;
using stave_test::HloModules, stave_test::HloProgram, stave_test::HloRun;

// A program and what it must compute.
struct Compared {
  HloProgram program;
  std::vector<Tensor> expected;
  bool bitwise = false;  // all bits, but those of NaN
};
std::vector<Compared> programs;

std::vector<Tensor> list_of(const Outputs& outputs) { return {outputs.begin(), outputs.end()}; }

template <class F, class... Inputs>
void add(const char* name, F f, const Inputs&... inputs) {
  const Program program = trace(f)(inputs...);
  const std::vector<Tensor> given{inputs...};
  programs.push_back({{name, program, given}, list_of(program(given))});
}
template <class F, class... Inputs>
void add_bitwise(const char* name, F f, const Inputs&... inputs) {
  add(name, f, inputs...);
  programs.back().bitwise = true;
}
// A program with .checks, traced with `at` and called with `given`.
template <class F>
void add_checked(const char* name, F f, const Tensor& at, const Tensor& given, const Tensor& expected, bool holds) {
  programs.push_back({{name, trace(f)(at), {given}, {.checks = true}}, {expected, Tensor(holds)}});
}

Tensor some(const Shape& shape, double phase, Dtype dtype = float64) {
  return astype(reshape(sin(arange(0., static_cast<double>(shape.elements()), 1., float64) * 0.7 + phase), shape),
                dtype);
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
  const std::vector<Tensor> all{w1, b1, w2, x, y};
  const Program shorter = optimized(trace(grad(mlp_loss))(w1, b1, w2, x, y));
  programs.push_back({{"mlp_gradient_optimized", shorter, all}, list_of(shorter(all))});

  const auto norm_loss = [](const Tensor& t, const Tensor& w, const Tensor& b) {
    return sum(sin(layer_norm(t, {.weight = w, .bias = b})));
  };
  add("layer_norm_gradient", grad<0, 1, 2>(norm_loss), some({4, 6}, 0), some({6}, 1), some({6}, 2));

  const auto attend = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return sum(sin(scaled_dot_product_attention(q, k, v, {.causal = true})));
  };
  add("attention_gradient", grad<0, 1, 2>(attend), some({2, 5, 4}, 0), some({2, 5, 4}, 1), some({2, 5, 3}, 2));
  const auto quantized = [](const Tensor& t, const Tensor& codes, const Tensor& scales, const Tensor& biases) {
    return quantized_matmul(t, {codes, scales, biases, 4});
  };
  add("quantized_matmul", quantized, some({2, 8}, 0), astype(random_bits(Key(1), {3, 4}), uint8), some({3, 2}, 1),
      some({3, 2}, 2));

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
  const auto block = [](const Tensor& x) {
    return sum(square(checkpoint([](const Tensor& y) { return exp(sin(y)); })(x)));
  };
  add("checkpoint_gradient", grad(block), some({5}, 0));
  const auto own = custom_vjp([](const Tensor& x) { return log1p(exp(x)); },
                              [](const Tensor& x) { return std::pair(log1p(exp(x)), x); },
                              [](const Tensor& x, const Tensor& g) { return 2 * g * sigmoid(x); });
  add(
      "custom_rule",
      [=](const Tensor& x) { return std::tuple(own(x), grad([&](const Tensor& y) { return sum(own(y)); })(x)); },
      some({5}, 0));
  add(
      "jacobians",
      [](const Tensor& x) {
        const auto f = [](const Tensor& y) { return cumulative_sum(y * y) / (1. + abs(y)); };
        return std::tuple(jacfwd(f)(x), jacrev(f)(x));
      },
      some({4}, 0.3));
  add(
      "hessian_product",
      [](const Tensor& x, const Tensor& v) {
        return hvp([](const Tensor& y) { return sum(exp(0.1 * y) * roll(y, 1)); }, x, v);
      },
      some({5}, 0), some({5}, 1));
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
      }),
      some({5, 3}, 0) + eye(5, 3, 0, float64));
  add("expm_gradient", grad([](const Tensor& a) { return sum(square(expm(a))); }), 2 * some({3, 3}, 0));

  add(
      "sorting",
      [](const Tensor& x, const Tensor& at) {
        const auto [values, positions] = topk(x, 2);
        return std::tuple(sort(x), argsort(x, -1, {.descending = true}), values, positions,
                          searchsorted(sort(x[0]), at), cummax(x, 1), argmax(x, 1));
      },
      some({3, 7}, 0), some({4}, 1));
  add(
      "random_numbers",
      [](const Tensor& words) {
        const Key key(words);
        const auto [a, b] = split<2>(key);
        return std::tuple(normal(a, {3, 4}, float64), uniform(b, {5}, -1, 2, float64), permutation(key, 50),
                          random_bits(b, {3}), bernoulli(a, 0.3, {6}));
      },
      tensor({0, 42}, uint32));
  add(
      "integers",
      [](const Tensor& a, const Tensor& b) {
        return std::tuple(floor_divide(a, b), remainder(a, b), bitwise_left_shift(a, abs(b)),
                          bitwise_right_shift(a, abs(b)), pow(a, abs(b)), astype(a, bool_),
                          astype(astype(a, float32) * 1e9f, int32), sum(a), bitwise_xor(a, b));
      },
      tensor({7, -7, 0, -2147483647 - 1, 5}), tensor({-2, 2, 0, -1, 0}));
  add(
      "special_functions",
      [](const Tensor& x) {
        return std::tuple(erf(x), erfc(x), erfinv(x / 4), lgamma(x + 0.05), digamma(x + 0.05), gelu(x),
                          zeta(2., abs(x) + 1));
      },
      3 * some({20}, 0));
  const auto block = [](const Tensor& w, const Tensor& x) {
    const Tensor h = layer_norm(x), q = matmul(h, w);
    return mean(square(x + gelu(scaled_dot_product_attention(q, h, h)) - softmax(q, -1)));
  };
  add("transformer_block_float32", grad(block), some({4, 4}, 0, float32), some({2, 6, 4}, 1, float32));
}

// ---- complex numbers ----------------------------------------------------------------------------

Tensor some_complex(const Shape& shape, double phase) { return complex(some(shape, phase), some(shape, phase + 2)); }

void add_complex() {
  // A state of two qubits, turned by a circuit, and the gradient of a probability.
  const auto circuit = [](const Tensor& angles, const Tensor& state) {
    const auto turn = [&](const Tensor& angle) {
      const Tensor c = complex(cos(angle / 2), 0), s = complex(0, -sin(angle / 2));
      return stack({stack({c, s}), stack({s, c})});
    };
    const Tensor controlled =
        tensor({{1. + 0i, 0i, 0i, 0i}, {0i, 1. + 0i, 0i, 0i}, {0i, 0i, 0i, 1i}, {0i, 0i, 1i, 0i}}, complex128);
    return matmul(controlled, matmul(kron(turn(angles[0]), turn(angles[1])), state));
  };
  const auto probability = [=](const Tensor& angles, const Tensor& state) {
    return square(abs(circuit(angles, state)[3]));
  };
  add("circuit", circuit, tensor({0.3, 1.1}, float64), some_complex({4}, 0));
  add("circuit_gradient", grad<0, 1>(probability), tensor({0.3, 1.1}, float64), some_complex({4}, 0));

  const auto turning = [](const Tensor& z) {
    const auto step = [](const Tensor& x) { return x * (0.999 + 0.01i) + 0.001 * conj(x) / (1 + x * conj(x)); };
    return loop(100, step)(z);
  };
  add("oscillator", turning, some_complex({3}, 0));
  add("oscillator_gradient", grad([=](const Tensor& z) { return sum(real(turning(z) * turning(z))); }),
      some_complex({3}, 0));

  const auto filter = [](const Tensor& weights, const Tensor& signal) {
    const Tensor found = irfft(rfft(signal) * weights);
    return sum(square(found)) + sum(square(abs(fft(signal, {.n = 5, .axis = 0, .norm = FftNorm::ortho}))));
  };
  add("filter_gradient", grad<0, 1>(filter), some_complex({5}, 0), some({3, 8}, 1));
  add(
      "fourier",
      [](const Tensor& z) { return std::tuple(fft(z, {.axis = 0}), ifft(z), fft2(z), hfft(z), ihfft(real(z))); },
      some_complex({3, 4}, 0));
  add(
      "complex_functions",
      [](const Tensor& z) {
        return std::tuple(exp(z), log(z), sqrt(z), sin(z), cos(z), tan(z), asin(z), acos(z), atan(z), sinh(z), cosh(z),
                          tanh(z), asinh(z), acosh(z), atanh(z), log1p(z), expm1(z), pow(z, 2.5 - 1i), 1 / z, abs(z),
                          angle(z), prod(z), cumulative_prod(z));
      },
      2 * some_complex({12}, 0.3));
  const auto linear = [](const Tensor& a, const Tensor& b) {
    const auto [q, r] = qr(a);
    const auto [sign, logarithm] = slogdet(a);
    return std::tuple(solve(a, b), det(a), sign, logarithm, abs(r), matmul(q, r), inv(a), expm(0.3 * a),
                      cholesky(matmul(a, conj(matrix_transpose(a)))));
  };
  add("complex_linear_algebra", linear, some_complex({2, 4, 4}, 0) + 2 * eye(4, complex128),
      some_complex({2, 4, 3}, 1));
  add(
      "complex_updates",
      [](const Tensor& z, const Tensor& at) {
        return std::tuple(z[at], z.at(at).add(1i), z.at(at).set(2. - 1i), z.at(at).multiply(1i), pad(z, {{1, 2}}, 1i),
                          z(slice(none, none, -1)), where(real(z) > 0, z, 0), z == conj(z), astype(z, bool_),
                          astype(astype(z, complex64), complex128), sign(z), sum(z));
      },
      some_complex({6}, 0), tensor({1, -1, 1}));
}

// ---- values where processors differ, and errors -------------------------------------------------

void add_edges() {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> numbers{0., -0., 1., -1., 0.5, -2.5, 3.5, 7., -7., 1e300, -1e300, infinity, -infinity, nan};
  std::vector<double> left, right;
  for (const double x : numbers)
    for (const double y : numbers) {
      left.push_back(x);
      right.push_back(y);
    }
  const Tensor a = from(left), b = from(right);
  const auto floats = [](const Tensor& x, const Tensor& y) {
    return std::tuple(maximum(x, y), minimum(x, y), sign(x), round(x), trunc(x), floor_divide(x, y), remainder(x, y),
                      copysign(x, y), nextafter(x, y), x < y, x == y, relu(x), abs(x), signbit(x), isinf(x), x / y);
  };
  add_bitwise("edges_float64", floats, a, b);
  add_bitwise("edges_float32", floats, astype(a, float32), astype(b, float32));
  add_bitwise(
      "edges_conversions",
      [](const Tensor& x) {
        return std::tuple(astype(x, int8), astype(x, uint8), astype(x, int32), astype(x, uint32), astype(x, int64),
                          astype(x, uint64), astype(x, bool_), astype(x, float32), astype(x, float16),
                          astype(x, bfloat16));
      },
      from(std::vector<double>{0., -0., 1.5, -1.5, 255.9, 256., 2147483647., 2147483648., -2147483649., 1e19, -1e19,
                               65519., 1e-5, infinity, -infinity, nan}));
  const auto wholes = [](const Tensor& x, const Tensor& y) {
    return std::tuple(floor_divide(x, y), remainder(x, y), x + y, x * y, x - y, pow(x, y), bitwise_left_shift(x, y),
                      bitwise_right_shift(x, y), abs(x), negative(x), bitwise_invert(x), sign(x), maximum(x, y));
  };
  for (const auto& [name, dtype] : {std::pair("edges_int8", int8), std::pair("edges_int64", int64),
                                    std::pair("edges_uint16", uint16), std::pair("edges_uint64", uint64)}) {
    const Tensor some_numbers =
        astype(tensor({0, 1, 2, 3, 7, 8, 64, 127, -1, -2, -3, -7, -127, -128, 255, 65535}), dtype);
    const Tensor least =
        reshape(bitwise_left_shift(astype(tensor(1), dtype), static_cast<int>(8 * size_of(dtype) - 1)), {1});
    const Tensor all = concat({some_numbers, least, bitwise_invert(least)});
    const Index n = all.shape(0);
    add_bitwise(name, wholes, reshape(broadcast_to(expand_dims(all, 1), {n, n}), {n * n}),
                reshape(broadcast_to(all, {n, n}), {n * n}));
  }
  add_bitwise(
      "edges_reductions",
      [](const Tensor& x) {
        return std::tuple(max(x, 1), min(x, 1), argmax(x, 1), argmin(x, 1), sort(x), argsort(x), cummax(x, 1),
                          any(isnan(x), 1), max(x), argmax(x));
      },
      from(std::vector<double>{1, nan, 3, -infinity, -infinity, -infinity, 0., 1., 0., nan, nan, 2}, {4, 3}));
  add_bitwise(
      "edges_scatter",
      [](const Tensor& x, const Tensor& at) {
        return std::tuple(x.at(at).set(arange(0., 6., 1., float64)), x.at(at).add(1.), x.at(at).max(0.5), x[at]);
      },
      zeros({4}, float64), tensor({1, -1, 1, 0, 3, 1}));
  add_bitwise(
      "edges_empty",
      [](const Tensor& x) {
        return std::tuple(sum(x), prod(x, 1), concat({x, x}, 1), matmul(matrix_transpose(x), x), sort(x, 0), exp(x));
      },
      zeros({3, 0}, float64));

  // What the library throws for.
  const Tensor row = tensor({1., 2., 3., 4.}, float64), good = tensor({1, 3}), bad = tensor({1, 9});
  const auto gather = [=](const Tensor& at) { return row[at]; };
  add_checked("check_index", gather, good, good, tensor({2., 4.}, float64), true);
  add_checked("check_index_out_of_range", gather, good, bad, tensor({2., 4.}, float64), false);
  const auto update = [=](const Tensor& at) { return row.at(at).set(0.); };
  add_checked("check_update_out_of_range", update, good, bad, tensor({1., 0., 3., 4.}, float64), false);
  const auto root = [](const Tensor& a2) { return cholesky(a2); };
  add_checked("check_definite", root, eye(2, float64), eye(2, float64), eye(2, float64), true);
  add_checked("check_indefinite", root, eye(2, float64), -eye(2, float64), full({2, 2}, nan, float64), false);
  const auto branch = [](const Tensor& x) { return x > 0 ? 2 * x : -x; };
  const Tensor up = tensor(1.5, float64), down = tensor(-1.5, float64);
  add_checked("check_branch", branch, up, up, tensor(3., float64), true);
  add_checked("check_other_branch", branch, up, down, tensor(-3., float64), false);
  const auto in_loop = [=](const Tensor& at) {
    return loop(5, [&](const Tensor& x) { return row[at] + 0.5 * x; })(zeros({2}, float64));
  };
  add_checked("check_in_loop", in_loop, good, bad, list_of(Program(trace(in_loop)(good))(std::vector{good}))[0], false);
}

// Returns what differs, or "".
std::string difference(const Compared& it, const HloRun& run) {
  if (!run.error.empty()) return run.error;
  for (std::size_t i = 0; i < it.expected.size(); ++i) {
    const Tensor &found = run.outputs[i], &expected = it.expected[i];
    const double tolerance = it.bitwise                             ? 0
                             : real_of(expected.dtype()) == float64 ? 1e-11
                             : expected.dtype() == float32          ? 2e-5
                                                                    : 0;
    bool same = found.dtype() == expected.dtype() && found.shape() == expected.shape() &&
                allclose(found, expected, tolerance, tolerance, true);
    if (same && it.bitwise && is_float(found.dtype()))
      same = array_equal(logical_or(signbit(found), isnan(found)), logical_or(signbit(expected), isnan(expected)));
    if (!same) return "result " + std::to_string(i) + " is\n" + found.str() + "\nexpected\n" + expected.str();
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
  add_complex();
  add_edges();
  const std::string_view only = argc > 1 ? argv[1] : "";
  HloModules modules;
  for (const Compared& it : programs)
    if (only.empty() || it.program.name == only) modules.add(it.program);
  if (!only.empty()) std::printf("%s\n", modules.text(std::string(only)).c_str());
  if (!modules.run()) return stave_test::no_jax;
  int failures = 0, count = 0;
  for (const Compared& it : programs) {
    const std::string& name = it.program.name;
    if (!only.empty() && name != only) continue;
    const std::string wrong = difference(it, modules.results(name, {&it.program, 1})[0]);
    ++count;
    failures += !wrong.empty();
    if (!wrong.empty()) std::printf("FAIL %s: %s\n", name.c_str(), wrong.c_str());
  }
  std::printf("programs %d  failures %d\n", count, failures);
  return failures || count == 0 ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "stablehlo_programs: %s\n", error.what());
  return 2;
}
