// The examples on the site's page of each operation: their source, and the output it prints.
//
//   operation_examples                  prints every example and its output
//   operation_examples --check FILE     compares them with FILE, numbers up to 1e-4 relatively
//
// docs/site/operation_examples.txt holds the output, and a test compares it. operation_pages.py
// reads the examples from that file, so the site is built without a compiler. After a change, run:
//
//   build/release/tests/operation_examples > docs/site/operation_examples.txt
#include <stave/stave.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

using namespace stave;

namespace {

std::ostringstream out;

/// Prints every tensor of a result, and a number as it is.
template <class Result>
void print(const Result& result) {
  if constexpr (std::is_arithmetic_v<Result>) {
    out << result << "\n";
  } else {
    for (const Tensor& leaf : tree_leaves(result)) out << leaf << "\n";
  }
}

/// A block of the text: the operation's name, the code, and a line before the output.
void begin(const char* name, std::string code) {
  int depth = 0;
  for (std::size_t i = 0; i + 1 < code.size(); ++i) {
    depth += (code[i] == '(' || code[i] == '{') - (code[i] == ')' || code[i] == '}');
    if (depth == 0 && code[i] == ';') code[i + 1] = '\n';  // a line for each statement
  }
  out << "## " << name << "\n" << code << "\n->\n";
}

// An expression, whose value is printed; statements, which print.
#define SHOW(name, ...)      \
  begin(name, #__VA_ARGS__); \
  print(__VA_ARGS__);
#define RUN(name, ...)       \
  begin(name, #__VA_ARGS__); \
  { __VA_ARGS__ }

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// clang-format off
void create() {
  SHOW("tensor", tensor({{1, 2}, {3, 4}}))
  SHOW("from", from(std::vector<float>{1, 2, 3, 4}, {2, 2}))
  RUN("from_bytes", const float values[] = {1, 2, 3}; print(from_bytes(values, 3, float32, {3}));)
  SHOW("zeros", zeros({2, 3}))
  SHOW("ones", ones({2, 2}, int32))
  SHOW("full", full({3}, 7))
  SHOW("zeros_like", zeros_like(tensor({1., 2.})))
  SHOW("ones_like", ones_like(tensor({4, 5})))
  SHOW("full_like", full_like(tensor({1., 2.}), 7))
  SHOW("arange", arange(2, 10, 3))
  SHOW("linspace", linspace(0, 1, 5))
  SHOW("eye", eye(3))
  SHOW("tril", tril(ones({3, 3})))
  SHOW("triu", triu(ones({3, 3}), 1))
}

void elementwise() {
  SHOW("abs", abs(tensor({-2., 0., 3.})))
  SHOW("negative", -tensor({1., -2.}))
  SHOW("sign", sign(tensor({-2., 0., 3.})))
  SHOW("sqrt", sqrt(tensor({1., 2., 4.})))
  SHOW("rsqrt", rsqrt(tensor({1., 4., 16.})))
  SHOW("square", square(tensor({-3., 2.})))
  SHOW("reciprocal", reciprocal(tensor({1., 2., 4.})))
  SHOW("exp", exp(tensor({0., 1., 2.})))
  SHOW("exp2", exp2(tensor({0., 1., 3.})))
  SHOW("expm1", expm1(tensor({1e-6, 1.})))
  SHOW("log", log(tensor({1., 10.})))
  SHOW("log2", log2(tensor({1., 8.})))
  SHOW("log10", log10(tensor({1., 1000.})))
  SHOW("log1p", log1p(tensor({1e-6, 1.})))
  SHOW("sin", sin(tensor({0., 1., 2.})))
  SHOW("cos", cos(tensor({0., 1., 2.})))
  SHOW("tan", tan(tensor({0., 1.})))
  SHOW("asin", asin(tensor({-1., 0., 0.5})))
  SHOW("acos", acos(tensor({-1., 0., 0.5})))
  SHOW("atan", atan(tensor({-1., 0., 1.})))
  SHOW("sinh", sinh(tensor({-1., 0., 1.})))
  SHOW("cosh", cosh(tensor({-1., 0., 1.})))
  SHOW("tanh", tanh(tensor({-1., 0., 1.})))
  SHOW("sech_squared", sech_squared(tensor({0., 1.})))
  SHOW("asinh", asinh(tensor({-1., 0., 1.})))
  SHOW("acosh", acosh(tensor({1., 2.})))
  SHOW("atanh", atanh(tensor({-0.5, 0., 0.5})))
  SHOW("sigmoid", sigmoid(tensor({-2., 0., 2.})))
  SHOW("logistic_density", logistic_density(tensor({-2., 0., 2.})))
  SHOW("logit", logit(tensor({0.1, 0.5, 0.9})))
  SHOW("erf", erf(tensor({-1., 0., 1.})))
  SHOW("erfc", erfc(tensor({0., 1., 4.})))
  SHOW("erfinv", erfinv(tensor({-0.5, 0., 0.5})))
  SHOW("relu", relu(tensor({-1., 0., 2.})))
  SHOW("softplus", softplus(tensor({-1., 0., 100.})))
  SHOW("silu", silu(tensor({-1., 0., 1.})))
  SHOW("gelu", gelu(tensor({-1., 0., 1.})))
  SHOW("gelu_tanh", gelu_tanh(tensor({-1., 0., 1.})))
  SHOW("lgamma", lgamma(tensor({0.5, 1., 5.})))
  SHOW("digamma", digamma(tensor({0.5, 1., 5.})))
  SHOW("polygamma", polygamma(1, tensor({0.5, 1., 5.})))
  SHOW("log_sigmoid", log_sigmoid(tensor({-100., 0., 2.})))
  SHOW("mish", mish(tensor({-1., 0., 1.})))
  SHOW("leaky_relu", leaky_relu(tensor({-1., 0., 2.})))
  SHOW("elu", elu(tensor({-1., 0., 2.})))
  SHOW("celu", celu(tensor({-1., 0., 2.}), 2))
  SHOW("selu", selu(tensor({-1., 0., 2.})))
  SHOW("hardtanh", hardtanh(tensor({-2., 0.5, 2.})))
  SHOW("hardsigmoid", hardsigmoid(tensor({-4., 0., 1.})))
  SHOW("hardswish", hardswish(tensor({-4., 0., 1.})))
  SHOW("entr", entr(tensor({0., 0.25, 0.5})))
  SHOW("floor", floor(tensor({-1.5, 1.5})))
  SHOW("ceil", ceil(tensor({-1.5, 1.5})))
  SHOW("round", round(tensor({0.5, 1.5, 2.4})))
  SHOW("trunc", trunc(tensor({-1.5, 1.5})))
  SHOW("logical_not", !tensor({true, false}))
  SHOW("isnan", isnan(tensor({1., nan})))
  SHOW("isinf", isinf(tensor({1., -inf})))
  SHOW("isfinite", isfinite(tensor({1., inf, nan})))
  SHOW("signbit", signbit(tensor({-0., 0., -1.})))
  SHOW("bitwise_invert", ~tensor({0, 5}))
  SHOW("astype", astype(tensor({-1.7, 0., 2.5}), int32))
  SHOW("stop_gradient", grad([](Tensor x) { return x * stop_gradient(x); })(tensor(3.)))
  SHOW("add", tensor({1., 2.}) + tensor({{10.}, {20.}}))
  SHOW("subtract", tensor({5., 7.}) - 1)
  SHOW("multiply", tensor({1., 2.}) * tensor({3., 4.}))
  SHOW("scale", scale(tensor({0., 2.}), tensor({inf, 3.})))
  SHOW("divide", tensor({1, 2}) / 4)
  SHOW("floor_divide", floor_divide(tensor({-7, 7}), 2))
  SHOW("remainder", tensor({-7, 7}) % 3)
  SHOW("pow", pow(tensor({1., 2., 3.}), 2))
  SHOW("atan2", atan2(tensor({1., -1.}), tensor({-1., -1.})))
  SHOW("hypot", hypot(tensor({3., 1e30}), tensor({4., 1e30})))
  SHOW("scale_by_inverse", scale_by_inverse(tensor({0., 1.}), tensor({0., 4.})))
  SHOW("exp_of_product", exp_of_product(tensor({2., 3.}), 0.5))
  SHOW("direction_cosine", direction_cosine(tensor({3., 0.}), tensor({4., 0.})))
  SHOW("over_squared_radius", over_squared_radius(tensor({3., 0.}), tensor({4., 0.})))
  SHOW("power_rule", power_rule(tensor({2., 3.}), 3))
  SHOW("copysign", copysign(tensor({1., 2.}), tensor({-0., 5.})))
  SHOW("logaddexp", logaddexp(tensor({0., 1000.}), tensor({0., 1000.})))
  SHOW("xlogy", xlogy(tensor({0., 2.}), tensor({0., 3.})))
  SHOW("xlog1py", xlog1py(tensor({0., 2.}), tensor({-1., 1e-6})))
  SHOW("zeta", zeta(2, tensor({1., 2.})))
  SHOW("maximum", maximum(tensor({1., 5.}), 3))
  SHOW("minimum", minimum(tensor({1., 5.}), 3))
  SHOW("equal", tensor({1, 2, 3}) == 2)
  SHOW("not_equal", tensor({1, 2, 3}) != 2)
  SHOW("less", tensor({1, 2, 3}) < 2)
  SHOW("less_equal", tensor({1, 2, 3}) <= 2)
  SHOW("greater", tensor({1, 2, 3}) > 2)
  SHOW("greater_equal", tensor({1, 2, 3}) >= 2)
  SHOW("logical_and", tensor({true, true}) && tensor({true, false}))
  SHOW("logical_or", tensor({true, false}) || tensor({false, false}))
  SHOW("logical_xor", logical_xor(tensor({true, true}), tensor({true, false})))
  SHOW("bitwise_and", tensor({12, 10}) & 6)
  SHOW("bitwise_or", tensor({12, 10}) | 6)
  SHOW("bitwise_xor", tensor({12, 10}) ^ 6)
  SHOW("bitwise_left_shift", bitwise_left_shift(tensor({1, 3}), 2))
  SHOW("bitwise_right_shift", bitwise_right_shift(tensor({8, -8}), 2))
  SHOW("nextafter", nextafter(tensor(1., float64), 2) - 1)
  RUN("where", const Tensor x = tensor({-1., 4.}); print(where(x > 0, sqrt(x), 0));)
  SHOW("clip", clip(tensor({-2., 0.5, 3.}), 0, 1))
}

void complex_and_special() {
  SHOW("complex", complex(tensor({1., 2.}), tensor({0., -1.})))
  SHOW("real", real(complex(tensor({1., 2.}), 3)))
  SHOW("imag", imag(complex(tensor({1., 2.}), 3)))
  SHOW("conj", conj(complex(tensor({1., 2.}), 3)))
  SHOW("angle", angle(complex(tensor({1., 0., -1.}), 1)))
  SHOW("gammainc", gammainc(2, tensor({0.5, 1., 4.})))
  SHOW("gammaincc", gammaincc(2, tensor({0.5, 1., 4.})))
  SHOW("gamma_density", gamma_density(2, tensor({0.5, 1., 4.})))
  SHOW("betainc", betainc(2, 3, tensor({0.1, 0.5, 0.9})))
  SHOW("beta_density", beta_density(2, 3, tensor({0.1, 0.5, 0.9})))
  SHOW("betaln", betaln(2, tensor({1., 3.})))
  SHOW("poch", poch(tensor({2., 0.5}), 3))
  SHOW("multigammaln", multigammaln(tensor({2., 5.}), 2))
  SHOW("gammasgn", gammasgn(tensor({-1.5, -0.5, 2.})))
  SHOW("zeta_derivative", zeta_derivative(1, 2, tensor({1., 2.})))
  SHOW("ndtri", ndtri(tensor({0.025, 0.5, 0.975})))
  SHOW("log_ndtr", log_ndtr(tensor({-10., 0., 2.})))
  SHOW("erfcx", erfcx(tensor({0., 10.})))
  SHOW("erfcinv", erfcinv(tensor({0.1, 1.})))
  SHOW("dawsn", dawsn(tensor({0., 1., 10.})))
  SHOW("bessel_j0", bessel_j0(tensor({0., 1., 10.})))
  SHOW("bessel_j1", bessel_j1(tensor({0., 1., 10.})))
  SHOW("bessel_jn", bessel_jn(3, tensor({0., 1., 10.})))
  SHOW("bessel_y0", bessel_y0(tensor({1., 10.})))
  SHOW("bessel_y1", bessel_y1(tensor({1., 10.})))
  SHOW("bessel_i0", bessel_i0(tensor({0., 1.})))
  SHOW("bessel_i0e", bessel_i0e(tensor({0., 1.})))
  SHOW("bessel_i1", bessel_i1(tensor({0., 1.})))
  SHOW("bessel_i1e", bessel_i1e(tensor({0., 1.})))
  SHOW("bessel_k0", bessel_k0(tensor({0.1, 1.})))
  SHOW("bessel_k0e", bessel_k0e(tensor({0.1, 1.})))
  SHOW("bessel_k1", bessel_k1(tensor({0.1, 1.})))
  SHOW("bessel_k1e", bessel_k1e(tensor({0.1, 1.})))
  SHOW("expi", expi(tensor({-1., 1.})))
  SHOW("exp1", exp1(tensor({0.1, 1.})))
  SHOW("expn", expn(2, tensor({0., 1.})))
  SHOW("spence", spence(tensor({0., 1., 2.})))
  SHOW("hyp1f1", hyp1f1(1, 2, tensor({0., 1.})))
  SHOW("hyp2f1", hyp2f1(1, 2, 3, tensor({0., 0.5})))
  SHOW("rel_entr", rel_entr(tensor({0., 0.5}), 0.25))
  SHOW("kl_div", kl_div(tensor({0., 0.5}), 0.25))
  SHOW("sinc", sinc(tensor({0., 0.5, 1.})))
  SHOW("lambertw", lambertw(tensor({0., 1., 2.718281828})))
  RUN("fresnel", const auto [s, c] = fresnel(tensor({0., 1.})); print(s); print(c);)
  RUN("sici", const auto [s, c] = sici(tensor({0.5, 1.})); print(s); print(c);)
  RUN("signed_logsumexp", const auto [size, sign] = signed_logsumexp(tensor({0., 1.}), tensor({1., -1.}), 0); print(size); print(sign);)
}

void fourier() {
  SHOW("fft", fft(tensor({1., 2., 3., 4.})))
  SHOW("ifft", ifft(tensor({10., 0., 0., 0.})))
  SHOW("rfft", rfft(tensor({1., 2., 3., 4.})))
  SHOW("irfft", irfft(rfft(tensor({1., 2., 3., 4.}))))
  SHOW("hfft", hfft(tensor({1., 2., 1.})))
  SHOW("ihfft", ihfft(tensor({6., 0., -2., 0.})))
  SHOW("fftn", fftn(tensor({{1., 2.}, {3., 4.}})))
  SHOW("ifftn", ifftn(tensor({{10., -2.}, {-4., 0.}})))
  SHOW("rfftn", rfftn(tensor({{1., 2.}, {3., 4.}})))
  SHOW("irfftn", irfftn(tensor({{10., -2.}, {-4., 0.}})))
  SHOW("fft2", fft2(tensor({{1., 2.}, {3., 4.}})))
  SHOW("ifft2", ifft2(tensor({{10., -2.}, {-4., 0.}})))
  SHOW("rfft2", rfft2(tensor({{1., 2.}, {3., 4.}})))
  SHOW("irfft2", irfft2(tensor({{10., -2.}, {-4., 0.}})))
  SHOW("fftfreq", fftfreq(5))
  SHOW("rfftfreq", rfftfreq(5))
  SHOW("fftshift", fftshift(fftfreq(5)))
  SHOW("ifftshift", ifftshift(tensor({-2., -1., 0., 1., 2.})))
  SHOW("convolve", convolve(tensor({1, 2, 3}), tensor({0, 1, 1})))
  SHOW("fftconvolve", fftconvolve(tensor({1., 2., 3.}), tensor({0., 1., 1.}), {.mode = ConvolveMode::same}))
  SHOW("dct", dct(tensor({1., 2., 3.})))
  SHOW("idct", idct(dct(tensor({1., 2., 3.}))))
  SHOW("stft", stft(tensor({1., 2., 3., 4.}), ones({2})))
  SHOW("istft", istft(stft(tensor({1., 2., 3., 4.}), ones({2})), ones({2}), 4))
}

void along_axes() {
  SHOW("sum", sum(tensor({{1., 2.}, {3., 4.}}), 0))
  SHOW("prod", prod(tensor({{1., 2.}, {3., 4.}}), 1))
  SHOW("max", max(tensor({{1., 2.}, {4., 3.}}), 1))
  SHOW("min", min(tensor({{1., 2.}, {4., 3.}}), 1, keepdims))
  SHOW("all", all(tensor({{true, true}, {true, false}}), 1))
  SHOW("any", any(tensor({{true, false}, {false, false}}), 1))
  SHOW("mean", mean(tensor({{1., 2.}, {3., 4.}}), {0, 1}))
  SHOW("logsumexp", logsumexp(tensor({1000., 1000.})))
  SHOW("norm", norm(tensor({3., 4.})))
  SHOW("var", var(tensor({1., 2., 3., 4.})))
  SHOW("std", stave::std(tensor({1., 2., 3., 4.})))
  SHOW("argmax", argmax(tensor({{1, 9, 3}, {4, 5, 6}}), 1))
  SHOW("argmin", argmin(tensor({3, 1, 2})))
  SHOW("softmax", softmax(tensor({1., 2., 3.})))
  SHOW("log_softmax", log_softmax(tensor({1., 2., 3.})))
  SHOW("cumulative_sum", cumulative_sum(tensor({1, 2, 3, 4})))
  SHOW("cumulative_prod", cumulative_prod(tensor({1, 2, 3, 4}), 0, {.reverse = true}))
  SHOW("cummax", cummax(tensor({1, 3, 2, 5})))
  SHOW("cummin", cummin(tensor({4, 3, 5, 1})))
  SHOW("logcumsumexp", logcumsumexp(tensor({0., 0., 1000.})))
  SHOW("linear_recurrence", linear_recurrence(tensor({0.5, 0.5, 0.5}), tensor({1., 1., 1.}), 0))
  SHOW("sort", sort(tensor({3, 1, 2})))
  SHOW("argsort", argsort(tensor({3, 1, 2}), 0, {.descending = true}))
  SHOW("count_nonzero", count_nonzero(tensor({{0, 1}, {2, 3}}), 1))
  SHOW("bincount", bincount(tensor({0, 2, 2, 1}), 4))
  SHOW("histogram", histogram(tensor({0.1, 0.4, 0.6, 1.}), tensor({0., 0.5, 1.})))
  SHOW("topk", topk(tensor({3., 1., 2.}), 2))
  SHOW("searchsorted", searchsorted(tensor({1., 3., 5.}), tensor({0., 3., 4.})))
  SHOW("isin", isin(tensor({1, 2, 3}), tensor({2, 5})))
  SHOW("interp", interp(tensor({0.5, 1.5, 9.}), tensor({0., 1., 2.}), tensor({0., 10., 0.})))
  SHOW("trapezoid", trapezoid(tensor({0., 1., 4.}), 0.5))
  SHOW("nonzero", nonzero(tensor({{0, 7}, {8, 0}})))
  SHOW("unique_values", unique_values(tensor({3, 1, 3})))
  SHOW("unique_counts", unique_counts(tensor({3, 1, 3})))
  SHOW("unique_inverse", unique_inverse(tensor({3, 1, 3})))
}

void layout() {
  SHOW("reshape", reshape(arange(6), {2, -1}))
  SHOW("expand_dims", expand_dims(tensor({1, 2}), {1}))
  SHOW("squeeze", squeeze(tensor({{{1, 2}}})))
  SHOW("contiguous", contiguous(transpose(tensor({{1, 2}, {3, 4}}))))
  SHOW("permute_dims", permute_dims(zeros({2, 3, 4}), {2, 0, 1}).shape(0))
  SHOW("transpose", transpose(tensor({{1, 2, 3}, {4, 5, 6}})))
  SHOW("matrix_transpose", matrix_transpose(tensor({{{1, 2}, {3, 4}}})))
  SHOW("moveaxis", moveaxis(zeros({2, 3, 4}), 0, -1).shape(2))
  SHOW("broadcast_to", broadcast_to(tensor({1, 2}), {2, 2}))
  SHOW("flip", flip(tensor({{1, 2}, {3, 4}}), 1))
  RUN("index", const Tensor x = reshape(arange(6), {2, 3}); print(x(1, slice(none, none, -1))); print(x(ellipsis, 0));)
  SHOW("concat", concat({tensor({1, 2}), tensor({3})}))
  SHOW("stack", stack({tensor({1, 2}), tensor({3, 4})}, 1))
  SHOW("pad", pad(tensor({1, 2}), {{1, 2}}))
  SHOW("diag", diag(tensor({1, 2})))
  SHOW("diagonal", diagonal(tensor({{1, 2}, {3, 4}})))
  SHOW("trace", trace(tensor({{1, 2}, {3, 4}})))
  RUN("unstack", const auto [mean, deviation] = unstack<2>(tensor({{1., 2.}, {3., 4.}}), -1); print(mean); print(deviation);)
  SHOW("diff", diff(tensor({1, 4, 9, 16})))
  SHOW("roll", roll(tensor({1, 2, 3, 4}), 1))
  SHOW("tile", tile(tensor({1, 2}), {2, 2}))
  SHOW("repeat", repeat(tensor({1, 2}), 2))
  SHOW("meshgrid", meshgrid({tensor({1, 2}), tensor({3, 4, 5})}))
}

void indices() {
  SHOW("take", take(tensor({10, 20, 30}), tensor({2, 0, -1})))
  SHOW("take_along_axis", take_along_axis(tensor({{10, 20}, {30, 40}}), tensor({{1}, {0}}), 1))
  SHOW("put_along_axis", put_along_axis(tensor({{10, 20}, {30, 40}}), tensor({{1}, {0}}), 7, 1))
  SHOW("dynamic_slice", dynamic_slice(reshape(arange(6), {2, 3}), {tensor(1), 0}, {1, 2}))
  SHOW("dynamic_update_slice", dynamic_update_slice(zeros({2, 3}), ones({1, 2}), {tensor(1), 0}))
  SHOW("one_hot", one_hot(tensor({0, 2}), 3))
  SHOW("gather", gather(tensor({{1, 2}, {3, 4}}), tensor({{1, 0}, {0, 0}})))
  SHOW("scatter", scatter(zeros({4}), tensor({{1}, {3}}), tensor({5., 6.})))
  SHOW("scatter_add", scatter_add(ones({3}), tensor({{0}, {0}}), tensor({1., 2.})))
  SHOW("scatter_multiply", scatter_multiply(ones({3}), tensor({{0}, {0}}), tensor({2., 3.})))
  SHOW("scatter_min", scatter_min(ones({3}), tensor({{0}, {1}}), tensor({-2., 3.})))
  SHOW("scatter_max", scatter_max(ones({3}), tensor({{0}, {1}}), tensor({-2., 3.})))
  SHOW("segment_sum", segment_sum(tensor({1., 2., 3.}), tensor({0, 0, 2}), 3))
  SHOW("segment_prod", segment_prod(tensor({1., 2., 3.}), tensor({0, 0, 2}), 3))
  SHOW("segment_min", segment_min(tensor({1., 2., 3.}), tensor({0, 0, 2}), 3))
  SHOW("segment_max", segment_max(tensor({1., 2., 3.}), tensor({0, 0, 2}), 3))
  RUN("x.at", const Tensor x = tensor({10., 20., 30.}); print(x.at(tensor({0, 2})).get()); print(x.at(tensor({0, 7})).get(-1));)
  RUN("x.at.set", const Tensor x = tensor({-1., 2., -3.}); print(x.at(x < 0).set(0));)
  SHOW("x.at.add", zeros({3}).at(tensor({0, 0, 2})).add(1))
  SHOW("x.at.multiply", ones({2, 2}).at(0, slice()).multiply(5))
  SHOW("x.at.min", tensor({1., 5.}).at(1).min(3))
  SHOW("x.at.max", tensor({1., 5.}).at(0).max(3))
}

void algebra() {
  SHOW("matmul", matmul(tensor({{1., 2.}, {3., 4.}}), tensor({1., 1.})))
  SHOW("tensordot", tensordot(ones({2, 3}), ones({3, 2}), 1))
  SHOW("einsum", einsum("ij,kj->ik", tensor({{1., 2.}, {3., 4.}}), tensor({{1., 0.}, {0., 1.}})))
  SHOW("outer", outer(tensor({1, 2}), tensor({3, 4, 5})))
  SHOW("solve", solve(tensor({{2., 1.}, {1., 3.}}), tensor({3., 5.})))
  SHOW("inv", inv(tensor({{2., 0.}, {0., 4.}})))
  SHOW("triangular_solve", triangular_solve(tensor({{2., 0.}, {1., 4.}}), tensor({2., 9.}), {.lower = true}))
  SHOW("lstsq", lstsq(tensor({{1., 0.}, {1., 1.}, {1., 2.}}), tensor({1., 3., 5.})))
  SHOW("pinv", pinv(tensor({{2.}, {0.}})))
  SHOW("cholesky", cholesky(tensor({{4., 2.}, {2., 5.}})))
  RUN("lu", const auto [p, l, u] = lu(tensor({{1., 2.}, {4., 4.}})); print(p); print(l); print(u);)
  RUN("qr", const auto [q, r] = qr(tensor({{3., 0.}, {4., 5.}})); print(matmul(q, r)); print(matmul(transpose(q), q) - eye(2) < 1e-6);)
  RUN("eigh", const auto [w, v] = eigh(tensor({{2., 0.}, {0., 1.}})); print(w); print(abs(v));)
  SHOW("eigvalsh", eigvalsh(tensor({{2., 1.}, {1., 2.}})))
  RUN("svd", const auto [u, s, vh] = svd(tensor({{0., 2.}, {1., 0.}})); print(s); print(matmul(u * s, vh));)
  SHOW("svdvals", svdvals(tensor({{3., 0.}, {0., 4.}})))
  RUN("eig", const auto [w, v] = eig(tensor({{0., -1.}, {1., 0.}})); print(w); print(abs(v));)
  SHOW("eigvals", eigvals(tensor({{0., -1.}, {1., 0.}})))
  RUN("schur", const auto [t, z] = schur(tensor({{1., 2.}, {0., 3.}})); print(t); print(z);)
  SHOW("eigh_tridiagonal", eigh_tridiagonal(tensor({2., 2.}), tensor({1.})).first)
  RUN("ldl", const auto [l, d, order] = ldl(tensor({{4., 2.}, {2., 0.}})); print(l); print(d); print(order);)
  RUN("polar", const auto [u, p] = polar(tensor({{0., -2.}, {3., 0.}})); print(u); print(p);)
  SHOW("cholesky_update", cholesky_update(tensor({{2., 0.}, {1., 2.}}), tensor({0., 1.})))
  SHOW("solve_sylvester", solve_sylvester(tensor({{1., 0.}, {0., 2.}}), tensor({{1.}}), tensor({{2.}, {6.}})))
  SHOW("solve_banded", solve_banded(tensor({{0., 1.}, {2., 4.}}), tensor({5., 8.}), {.upper = 1}))
  SHOW("tridiagonal_solve", tridiagonal_solve(tensor({0., 1.}), tensor({2., 4.}), tensor({1., 0.}), tensor({3., 5.})))
  SHOW("det", det(tensor({{1., 2.}, {3., 4.}})))
  SHOW("slogdet", slogdet(tensor({{1., 2.}, {3., 4.}})))
  SHOW("matrix_rank", matrix_rank(tensor({{1., 2.}, {2., 4.}})))
  SHOW("matrix_norm", matrix_norm(tensor({{3., 0.}, {0., 4.}}), "nuc"))
  SHOW("vector_norm", vector_norm(tensor({3., -4.}), 1))
  SHOW("matrix_power", matrix_power(tensor({{1, 1}, {1, 0}}), 10))
  SHOW("expm", expm(tensor({{0., 1.}, {0., 0.}})))
  SHOW("sqrtm", sqrtm(tensor({{4., 0.}, {0., 9.}})))
  SHOW("logm", logm(tensor({{1., 2.}, {0., 1.}})))
  SHOW("conj_transpose", conj_transpose(tensor({{1, 2}, {3, 4}})))
  SHOW("toeplitz", toeplitz(tensor({1, 2, 3}), tensor({1, 5})))
  SHOW("block_diag", block_diag({tensor({{1, 2}}), tensor({{3}})}))
  SHOW("cond", cond(tensor({{3., 0.}, {0., 6.}})))
  SHOW("cross", cross(tensor({1., 0., 0.}), tensor({0., 1., 0.})))
  SHOW("vecdot", vecdot(tensor({{1., 2.}, {3., 4.}}), tensor({1., 1.})))
  SHOW("vdot", vdot(tensor({{1, 2}, {3, 4}}), tensor({1, 1, 1, 1})))
  SHOW("kron", kron(tensor({1, 2}), tensor({1, 10})))
}

void networks() {
  SHOW("conv", conv(reshape(arange(5.), {1, 1, 5}), tensor({{{1., 0., -1.}}}), {.padding = 1}))
  SHOW("conv_transpose", conv_transpose(tensor({{{1., 2.}}}), tensor({{{1., 10.}}}), {.stride = 2}))
  SHOW("sum_pool", sum_pool(tensor({{{1., 2., 3., 4.}}}), 2))
  SHOW("avg_pool", avg_pool(tensor({{{1., 2., 3., 4.}}}), 2))
  SHOW("max_pool", max_pool(tensor({{{1., 4., 3., 2.}}}), 3, {.stride = 1}))
  SHOW("argmax_pool", argmax_pool(tensor({{{1., 4., 3., 2.}}}), 2))
  SHOW("layer_norm", layer_norm(tensor({1., 2., 3.})))
  SHOW("rms_norm", rms_norm(tensor({3., 4.})))
  SHOW("group_norm", group_norm(tensor({{1., 3., 10., 30.}}), 2))
  RUN("batch_norm", const BatchStatistics running{zeros({1}), ones({1})}; const auto [y, statistics] = batch_norm(tensor({{1.}, {3.}}), running); print(y); print(statistics.mean);)
  SHOW("batch_norm_inference", batch_norm_inference(tensor({{1.}, {3.}}), {tensor({1.}), tensor({4.})}))
  SHOW("normalize", normalize(tensor({3., 4.})))
  SHOW("embedding", embedding(tensor({{0., 1.}, {2., 3.}}), tensor({1, 1, 0})))
  SHOW("cross_entropy", cross_entropy(tensor({{2., 0.}, {0., 1.}}), tensor({0, 1})))
  SHOW("nll_loss", nll_loss(log_softmax(tensor({{2., 0.}, {0., 1.}})), tensor({0, 1})))
  SHOW("kl_divergence", kl_divergence(log(tensor({{0.5, 0.5}})), tensor({{0.25, 0.75}})))
  SHOW("mse_loss", mse_loss(tensor({1., 2.}), tensor({1., 4.})))
  SHOW("mae_loss", mae_loss(tensor({1., 2.}), tensor({1., 4.}), {.reduction = Reduction::none}))
  SHOW("huber_loss", huber_loss(tensor({0.5, 3.}), zeros({2}), {.reduction = Reduction::none}))
  SHOW("smooth_l1_loss", smooth_l1_loss(tensor({0.5, 3.}), zeros({2}), {.beta = 2, .reduction = Reduction::none}))
  SHOW("hinge_loss", hinge_loss(tensor({0.5, 2.}), tensor({1., -1.}), {.reduction = Reduction::none}))
  SHOW("binary_cross_entropy", binary_cross_entropy(tensor({0.9, 0.2}), tensor({1., 0.})))
  SHOW("binary_cross_entropy_with_logits", binary_cross_entropy_with_logits(tensor({2., -1.}), tensor({1., 0.})))
  SHOW("cosine_similarity", cosine_similarity(tensor({1., 0.}), tensor({1., 1.})))
  SHOW("scaled_dot_product_attention", scaled_dot_product_attention(eye(2), eye(2), tensor({{1.}, {3.}}), {.causal = true}))
  SHOW("quantize", quantize(tensor({{0., 1., 2., 15.}}), {.bits = 4, .group_size = 4}))
  SHOW("dequantize", dequantize(quantize(tensor({{0.1, 1.2, 7.}}), {.bits = 8, .group_size = 3, .symmetric = true})))
  SHOW("quantized_matmul", quantized_matmul(tensor({1., 1., 1., 1.}), quantize(tensor({{0., 1., 2., 15.}}), {.group_size = 4})))
}

void draws() {
  SHOW("split", vmap([](Key key) { return uniform(key); })(split(Key(0), 3)))
  SHOW("fold_in", uniform(fold_in(Key(0), 7)))
  SHOW("random_bits", random_bits(Key(0), {2}))
  SHOW("uniform", uniform(Key(0), {3}, -1, 1))
  SHOW("normal", normal(Key(0), {3}))
  SHOW("gumbel", gumbel(Key(0), {3}))
  SHOW("categorical", categorical(Key(0), tensor({{0., 9.}, {9., 0.}})))
  SHOW("bernoulli", bernoulli(Key(0), 0.5, {4}))
  SHOW("dropout", dropout(Key(0), ones({5}), 0.4))
  SHOW("permutation", permutation(Key(0), 5))
  SHOW("exponential", exponential(Key(0), {3}))
  SHOW("laplace", laplace(Key(0), {3}))
  SHOW("logistic", logistic(Key(0), {3}))
  SHOW("cauchy", cauchy(Key(0), {3}))
  SHOW("maxwell", maxwell(Key(0), {3}))
  SHOW("rademacher", rademacher(Key(0), {4}))
  SHOW("lognormal", lognormal(Key(0), 0.5, {3}))
  SHOW("rayleigh", rayleigh(Key(0), tensor({1., 2.})))
  SHOW("pareto", pareto(Key(0), 3, {3}))
  SHOW("weibull_min", weibull_min(Key(0), 1, 2, {3}))
  SHOW("triangular", triangular(Key(0), 0, 1, 3, {3}))
  SHOW("wald", wald(Key(0), 2, {3}))
  SHOW("double_sided_maxwell", double_sided_maxwell(Key(0), 0, 1, {3}))
  SHOW("truncated_normal", truncated_normal(Key(0), -1, 1, {3}))
  SHOW("generalized_normal", generalized_normal(Key(0), 1, {3}))
  SHOW("gamma", gamma(Key(0), tensor({0.5, 2., 9.})))
  SHOW("loggamma", loggamma(Key(0), 0.001, {3}))
  SHOW("beta", beta(Key(0), 2, 3, {3}))
  SHOW("chisquare", chisquare(Key(0), 4, {3}))
  SHOW("f_distribution", f_distribution(Key(0), 3, 8, {3}))
  SHOW("student_t", student_t(Key(0), 5, {3}))
  SHOW("dirichlet", dirichlet(Key(0), tensor({1., 2., 3.})))
  SHOW("von_mises", von_mises(Key(0), 0, 4, {3}))
  SHOW("multivariate_normal", multivariate_normal(Key(0), zeros({2}), tensor({{1., 0.5}, {0.5, 1.}}), {2}))
  SHOW("ball", ball(Key(0), 2, 2, {2}))
  SHOW("orthogonal", orthogonal(Key(0), 2))
  SHOW("randint", randint(Key(0), {4}, 0, 10))
  SHOW("geometric", geometric(Key(0), 0.25, {4}))
  SHOW("poisson", poisson(Key(0), tensor({1., 5., 100.})))
  SHOW("binomial", binomial(Key(0), 10, 0.5, {4}))
  SHOW("multinomial", multinomial(Key(0), 10, tensor({0.2, 0.3, 0.5})))
  SHOW("hypergeometric", hypergeometric(Key(0), 30, 20, 10, {4}))
  SHOW("choice", choice(Key(0), tensor({1., 2., 3., 4.}), {2}, {.replace = false}))
  SHOW("shuffle", shuffle(Key(0), tensor({{1., 2.}, {3., 4.}, {5., 6.}})))
  SHOW("categorical_without_replacement", categorical_without_replacement(Key(0), tensor({0., 1., 2.}), 2))
  SHOW("to", to(tensor({1., 2.}), cpu))
}

void collectives() {
  SHOW("psum", vmap([](Tensor x) { return x / psum(x, "i"); }, {.axis_name = "i"})(tensor({1., 2., 5.})))
  SHOW("pmean", vmap([](Tensor x) { return x - pmean(x, "i"); }, {.axis_name = "i"})(tensor({1., 2., 6.})))
  SHOW("pmax", vmap([](Tensor x) { return pmax(x, "i"); }, {.axis_name = "i"})(tensor({1., 2., 5.})))
  SHOW("pmin", vmap([](Tensor x) { return pmin(x, "i"); }, {.axis_name = "i"})(tensor({1., 2., 5.})))
  SHOW("all_gather", vmap([](Tensor x) { return all_gather(x, "i"); }, {.axis_name = "i"})(tensor({1., 2.})))
  SHOW("reduce_scatter", vmap([](Tensor x) { return reduce_scatter(x, "i"); }, {.axis_name = "i"})(tensor({{1., 2.}, {3., 4.}})))
  SHOW("all_to_all", vmap([](Tensor x) { return all_to_all(x, "i"); }, {.axis_name = "i"})(tensor({{1., 2.}, {3., 4.}})))
  SHOW("ppermute", vmap([](Tensor x) { return ppermute(x, "i", {{0, 1}, {1, 2}, {2, 0}}); }, {.axis_name = "i"})(tensor({1., 2., 3.})))
  SHOW("axis_index", vmap([](Tensor x) { return x + axis_index("i"); }, {.axis_name = "i"})(tensor({10., 20.})))
}

void functions() {
  RUN("checkpoint", const auto f = checkpoint([](Tensor x) { return sum(sin(exp(x))); }); print(grad(f)(tensor({0., 1.})));)
  RUN("custom_vjp", const auto log1pexp = custom_vjp([](const Tensor& x) { return log1p(exp(x)); }, [](const Tensor& x) { return std::pair(log1p(exp(x)), x); }, [](const Tensor& x, const Tensor& ct) { return ct * sigmoid(x); }); print(grad(log1pexp)(tensor(100.)));)
  RUN("custom_jvp", const auto f = custom_jvp([](const Tensor& x) { return floor(x); }, [](const Tensor& x, const Tensor& dx) { return std::pair(floor(x), dx); }); print(grad(f)(tensor(1.5)));)
  RUN("custom_vmap", const auto f = custom_vmap([](const Tensor& x) { return sum(x); }, [](Index, const std::vector<bool>&, const Tensor& x) { return sum(x, 1); }); print(vmap(f)(ones({3, 2})));)
  RUN("linearize", const auto [y, df] = linearize([](const Tensor& x) { return square(x); }, tensor(3.)); print(y); print(df(tensor(1.)));)
  RUN("elementwise_op", const auto shrink = elementwise_op("shrink", [](Tensor x) { return where(abs(x) > 0.5, x, 0); }); print(shrink(tensor({0.2, -3.})));)
}

void composed() {
  SHOW("logspace", logspace(0, 2, 3))
  SHOW("geomspace", geomspace(1, 1000, 4))
  SHOW("vander", vander(tensor({1, 2, 3})))
  SHOW("positive", positive(tensor({true, false})))
  SHOW("fmax", fmax(tensor({1., nan}), tensor({nan, 2.})))
  SHOW("fmin", fmin(tensor({1., nan}), 0.5))
  SHOW("heaviside", heaviside(tensor({-1., 0., 2.}), 0.5))
  SHOW("divmod", divmod(tensor({7, -7}), 3))
  SHOW("float_power", float_power(tensor({2, 3}), -1))
  SHOW("gcd", gcd(tensor({12, 7}), 18))
  SHOW("lcm", lcm(tensor({4, 6}), 10))
  SHOW("ldexp", ldexp(tensor({1., 3.}), tensor({4, -1})))
  SHOW("frexp", frexp(tensor({3., 0.3})))
  SHOW("modf", modf(tensor({2.25, -1.5})))
  SHOW("nan_to_num", nan_to_num(tensor({nan, 1., inf}), {.posinf = 9}))
  SHOW("real_if_close", real_if_close(tensor({1., 2.})))
  SHOW("deg2rad", deg2rad(tensor({90., 180.})))
  SHOW("rad2deg", rad2deg(tensor({1.5707963})))
  SHOW("isclose", isclose(tensor({1., 2.}), tensor({1.000001, 2.1})))
  SHOW("quantile", quantile(tensor({3., 1., 4., 2.}), 0.3))
  SHOW("percentile", percentile(tensor({3., 1., 4., 2.}), tensor({25., 50.})))
  SHOW("median", median(tensor({{3., 1., 2.}, {9., 7., 8.}}), 1))
  SHOW("nanquantile", nanquantile(tensor({3., 1., nan, 2.}), 0.25))
  SHOW("nanpercentile", nanpercentile(tensor({3., 1., nan, 2.}), 25.))
  SHOW("nanmedian", nanmedian(tensor({3., 1., nan, 2.})))
  SHOW("kthvalue", kthvalue(tensor({3., 1., 2.}), 2))
  SHOW("mode", mode(tensor({2, 3, 2, 1})))
  SHOW("masked_sum", masked_sum(tensor({1., 2., 4.}), tensor({true, false, true})))
  SHOW("nansum", nansum(tensor({3., 1., nan, 2.})))
  SHOW("masked_prod", masked_prod(tensor({1., 2., 4.}), tensor({true, false, true})))
  SHOW("nanprod", nanprod(tensor({3., 1., nan, 2.})))
  SHOW("masked_mean", masked_mean(tensor({1., 2., 4.}), tensor({true, false, true})))
  SHOW("nanmean", nanmean(tensor({3., 1., nan, 2.})))
  SHOW("masked_max", masked_max(tensor({1., 2., 4.}), tensor({true, false, true})))
  SHOW("nanmax", nanmax(tensor({3., 1., nan, 2.})))
  SHOW("masked_min", masked_min(tensor({1., 2., 4.}), tensor({true, false, true})))
  SHOW("nanmin", nanmin(tensor({3., 1., nan, 2.})))
  SHOW("masked_var", masked_var(tensor({1., 2., 4.}), tensor({true, false, true})))
  SHOW("nanvar", nanvar(tensor({3., 1., nan, 2.})))
  SHOW("masked_std", masked_std(tensor({1., 2., 4.}), tensor({true, false, true})))
  SHOW("nanstd", nanstd(tensor({3., 1., nan, 2.})))
  SHOW("cov", cov(tensor({{1., 2., 4.}, {3., 1., 0.}})))
  SHOW("corrcoef", corrcoef(tensor({{1., 2., 4.}, {3., 1., 0.}})))
  SHOW("cdist", cdist(tensor({{0., 0.}}), tensor({{3., 4.}, {1., 0.}})))
  SHOW("gradient", gradient(tensor({1., 4., 9., 16.})))
  SHOW("gradients", gradients(tensor({{1., 2.}, {4., 8.}}), {0.5, 1}))
  SHOW("scatter_reduce", scatter_reduce(tensor({1., 2., 3.}), 0, tensor({0, 0, 2}), tensor({5., 6., 7.}), ScatterReduction::mean))
  SHOW("index_reduce", index_reduce(zeros({2, 2}), 0, tensor({1, 1}), tensor({{1., 2.}, {3., 1.}}), ScatterReduction::max))
  SHOW("segment_mean", segment_mean(tensor({1., 2., 6.}), tensor({0, 0, 1}), 2))
  SHOW("pad_between", pad_between(tensor({1, 2, 3}), {{1, 0, 1}}))
  SHOW("broadcast_arrays", broadcast_arrays({tensor({1, 2}), tensor({{3}, {4}})}))
  SHOW("swapaxes", swapaxes(tensor({{1, 2, 3}}), 0, 1))
  SHOW("rot90", rot90(tensor({{1, 2}, {3, 4}})))
  RUN("lu_solve", const auto [lu, pivots, permutation] = lu_factor(tensor({{0., 2.}, {1., 1.}})); print(lu_solve(lu, permutation, tensor({4., 3.})));)
  SHOW("householder_product", householder_product(tensor({{1.}, {2.}}), tensor({0.4})))
  SHOW("ormqr", ormqr(tensor({{1.}, {2.}}), tensor({0.4}), tensor({{1.}, {0.}})))
  SHOW("tensorinv", tensorinv(reshape(2 * eye(4), {2, 2, 4}), 2))
  SHOW("tensorsolve", tensorsolve(reshape(2 * eye(4), {2, 2, 4}), tensor({{1., 2.}, {3., 4.}})))
  SHOW("adaptive_avg_pool", adaptive_avg_pool(tensor({{1., 2., 3., 4., 5.}}), {2}))
  SHOW("adaptive_max_pool", adaptive_max_pool(tensor({{1., 2., 3., 4., 5.}}), {2}))
  SHOW("resize", resize(tensor({{0., 2.}}), {4}, {.method = ResizeMethod::linear}))
  SHOW("resize_by", resize_by(tensor({{1, 2}}), {2.}))
  SHOW("grid_sample", grid_sample(tensor({{0., 1., 2.}}), tensor({{0.}, {0.5}})))
  SHOW("unfold", unfold(tensor({{1, 2, 3}}), {2}))
  SHOW("fold", fold(tensor({{1, 2}, {2, 3}}), {3}, {2}))
  SHOW("soft_margin_loss", soft_margin_loss(tensor({0.5, -1.}), tensor({1., 1.})))
  SHOW("margin_ranking_loss", margin_ranking_loss(tensor({1., 2.}), tensor({2., 1.}), tensor({1., 1.})))
  SHOW("cosine_embedding_loss", cosine_embedding_loss(tensor({{1., 0.}}), tensor({{1., 1.}}), tensor({-1.})))
  SHOW("hinge_embedding_loss", hinge_embedding_loss(tensor({0.5, 0.2}), tensor({1., -1.})))
  SHOW("multi_margin_loss", multi_margin_loss(tensor({{0.2, 0.5, 0.1}}), tensor({1})))
  SHOW("multilabel_margin_loss", multilabel_margin_loss(tensor({{0.2, 0.5, 0.1}}), tensor({{1, -1, 0}})))
  SHOW("multilabel_soft_margin_loss", multilabel_soft_margin_loss(tensor({{0.5, -1.}}), tensor({{1., 0.}})))
  SHOW("triplet_margin_loss", triplet_margin_loss(tensor({{0., 0.}}), tensor({{1., 0.}}), tensor({{0., 1.5}})))
  SHOW("poisson_nll_loss", poisson_nll_loss(tensor({0.5}), tensor({2.})))
  SHOW("gaussian_nll_loss", gaussian_nll_loss(tensor({1.}), tensor({2.}), tensor({0.5})))
  SHOW("ctc_loss", ctc_loss(log_softmax(ones({3, 1, 2})), tensor({{1}}), tensor({3}), tensor({1})))
}
// clang-format on

/// Returns the first line in which two texts differ by more than the last digits of a number.
/// Returns an empty text if there is no such line.
std::string difference(const std::string& is, const std::string& expected) {
  std::istringstream a(is), b(expected);
  std::string line, other;
  for (int number = 1;; ++number) {
    const bool more = bool(std::getline(a, line)), others = bool(std::getline(b, other));
    if (!more && !others) return "";
    const auto words = [](std::string text) {
      for (char& c : text)
        if (c == '[' || c == ']') c = ' ';
      std::istringstream in(text);
      return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
    };
    const auto xs = words(line), ys = words(other);
    bool same = more && others && xs.size() == ys.size();
    for (std::size_t i = 0; same && i < xs.size(); ++i) {
      char *end = nullptr, *other_end = nullptr;
      const double x = std::strtod(xs[i].c_str(), &end), y = std::strtod(ys[i].c_str(), &other_end);
      const bool numbers = *end == 0 && *other_end == 0;
      same = xs[i] == ys[i] || (numbers && std::abs(x - y) <= 1e-4 * std::max(1e-3, std::abs(y)));
    }
    if (!same) return "line " + std::to_string(number) + ":\n  is        " + line + "\n  expected  " + other;
  }
}

}  // namespace

int main(int count, char** arguments) {
  for (const auto family : {create, elementwise, complex_and_special, fourier, along_axes, layout, indices, algebra,
                            networks, draws, collectives, functions, composed})
    family();
  if (count == 1) {
    std::cout << out.str();
    return 0;
  }
  std::ifstream file(arguments[count - 1]);
  std::ostringstream text;
  text << file.rdbuf();
  const std::string differs = difference(out.str(), text.str());
  if (!differs.empty()) {
    std::cerr << arguments[count - 1] << " is not what operation_examples prints (it is written by\n"
              << "operation_examples > docs/site/operation_examples.txt), " << differs << "\n";
    return 1;
  }
}
