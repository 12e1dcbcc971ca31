// Rows of special functions. The references are sums and integrals that define the functions, in
// long double.

#include <stave/core/ops/special.h>

#include <cmath>
#include <limits>
#include <numbers>

#include <stave/core/ops/layout.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

constexpr Real pi = std::numbers::pi_v<Real>, euler = std::numbers::egamma_v<Real>;

// ---- references ---------------------------------------------------------------------------------

/// The integral of f from 0 to 1, by the trapezoidal rule after u = 1 / (1 + exp(-pi sinh t)).
template <class F>
Real integral(F f) {
  constexpr Real step = 1 / 24.0L;
  Real sum = 0;
  for (int i = -100; i <= 100; ++i) {
    const Real t = i * step, e = std::exp(-pi * std::sinh(t)), u = 1 / (1 + e);
    if (e > 1e60L || u == 1) continue;
    sum += f(u) * pi * std::cosh(t) * u * u * e;
  }
  return sum * step;
}

/// The mean of f over a period 2 pi: exact to rounding for the entire functions here.
template <class F>
Real mean_of_period(F f) {
  constexpr int n = 96;
  Real sum = 0;
  for (int i = 0; i < n; ++i) sum += f(2 * pi * i / n);
  return sum / n;
}

/// The sum of terms, each the one before times ratio(k), until they no longer count.
template <class F>
Real series(Real first, F ratio) {
  Real term = first, sum = first;
  for (int k = 0; k < 2000 && std::abs(term) > 1e-22L * std::abs(sum); ++k) sum += term *= ratio(Real(k));
  return sum;
}

Real gamma_density_reference(Real a, Real x) { return std::exp((a - 1) * std::log(x) - x) / std::tgamma(a); }
Real gammainc_reference(Real a, Real x) {
  return series(gamma_density_reference(a, x) * x / a, [=](Real k) { return x / (a + 1 + k); });
}
Real beta_reference(Real a, Real b) { return std::tgamma(a) * std::tgamma(b) / std::tgamma(a + b); }
Real beta_density_reference(Real a, Real b, Real x) {
  return std::pow(x, a - 1) * std::pow(1 - x, b - 1) / beta_reference(a, b);
}
Real betainc_reference(Real a, Real b, Real x) {
  return series(beta_density_reference(a, b, x) * x * (1 - x) / a,
                [=](Real k) { return (a + b + k) / (a + 1 + k) * x; });
}

/// The derivative by s of the sum of (q + k)^-s. Beyond `far` it is the formula of Euler and
/// Maclaurin for f(t) = -log(t) t^-s, whose k-th derivative is t^(-s-k) (c_k + d_k log t).
Real zeta_by_s_reference(Real s, Real q) {
  Real sum = 0, far = q;
  for (; far < 40; far += 1) sum -= std::log(far) * std::pow(far, -s);
  const Real log_far = std::log(far);
  sum -= std::pow(far, 1 - s) * (log_far / (s - 1) + 1 / ((s - 1) * (s - 1)));
  sum -= log_far * std::pow(far, -s) / 2;
  const Real bernoulli[] = {1.0L / 12, -1.0L / 720, 1.0L / 30240, -1.0L / 1209600, 1.0L / 47900160};
  Real c = 0, d = -1;
  for (int k = 0; k < 10; ++k) {
    const Real next = -(s + k) * c + d;
    d *= -(s + k);
    c = next;
    if (k % 2 == 0) sum -= bernoulli[k / 2] * std::pow(far, -s - k - 1) * (c + d * log_far);
  }
  return sum;
}

/// The x with erfc(x) = y, by Newton's method.
Real erfcinv_reference(Real y) {
  Real x = 0;
  for (int i = 0; i < 60; ++i) {
    const Real step = (std::erfc(x) - y) * std::sqrt(pi) / 2 * std::exp(x * x);
    x += step / (1 + std::abs(x * step));
  }
  return x;
}

Real bessel_j_reference(int n, Real x) {
  return mean_of_period([=](Real t) { return std::cos(n * t - x * std::sin(t)); });  // DLMF 10.9.2
}
Real bessel_i_reference(int n, Real x) {
  // DLMF 10.32.3
  return mean_of_period([=](Real t) { return std::exp(x * std::cos(t)) * std::cos(n * t); });
}
Real bessel_k_reference(int n, Real x) {  // DLMF 10.32.9
  constexpr Real step = 1 / 32.0L;
  Real sum = std::exp(-x) / 2;
  for (int i = 1; i < 200; ++i) sum += std::exp(-x * std::cosh(i * step)) * std::cosh(n * i * step);
  return sum * step;
}
Real bessel_y_reference(int n, Real x) {  // DLMF 10.9.7
  const Real near = integral([=](Real u) { return std::sin(x * std::sin(pi * u) - n * pi * u); });
  const Real far = integral([=](Real u) {
    const Real t = 8 * u, growth = std::exp(n * t), sign = n % 2 ? -1 : 1;
    return 8 * (growth + sign / growth) * std::exp(-x * std::sinh(t));
  });
  return near - far / pi;
}

Real expi_reference(Real x) {  // DLMF 6.6.1
  return euler + std::log(std::abs(x)) + series(x, [=](Real k) { return x * (k + 1) / ((k + 2) * (k + 2)); });
}
Real expn_reference(int n, Real x) {  // DLMF 8.19.3, with 1 / u for t
  return integral([=](Real u) { return std::exp(-x / u) * std::pow(u, Real(n - 2)); });
}
Real spence_reference(Real z) {
  return -integral([=](Real u) { return std::log1p((z - 1) * u) / u; });
}
Real dawsn_reference(Real x) {
  return x * integral([=](Real u) { return std::exp(x * x * (u * u - 1)); });
}
Real sine_integral_reference(Real x) {
  return integral([=](Real u) { return std::sin(x * u) / u; });
}
Real cosine_integral_reference(Real x) {
  return euler + std::log(x) - integral([=](Real u) { return 2 * std::pow(std::sin(x * u / 2), 2) / u; });
}
Real lambertw_reference(int k, Real x) {
  Real w = k == 0 ? std::log1p(x) : std::log(-x) - std::log(-std::log(-x));
  for (int i = 0; i < 60; ++i) {  // Halley's method
    const Real e = std::exp(w), off = w * e - x;
    w -= off / (e * (w + 1) - (w + 2) * off / (2 * w + 2));
  }
  return w;
}

Real hyp1f1_reference(Real a, Real b, Real x) {
  return series(1, [=](Real k) { return (a + k) * x / ((b + k) * (k + 1)); });
}
Real hyp2f1_reference(Real a, Real b, Real c, Real x) {
  return series(1, [=](Real k) { return (a + k) * (b + k) * x / ((c + k) * (k + 1)); });
}

// ---- rows ---------------------------------------------------------------------------------------

using Numbers = std::vector<Real>;

struct Function {
  const char* name;
  std::function<Outputs(std::span<const Tensor>)> call;
  /// The results at one point, one for each output.
  std::function<Numbers(const Numbers&)> formula;
  std::vector<Domain> domains;
  bool differentiable = true;
  Real accuracy = 4;
  std::map<std::size_t, std::string> no_derivative = {};
  std::vector<std::string> also = {};
};

Variant variant_of(const Function& f, Dtype dtype, const std::vector<Shape>& shapes) {
  Variant variant;
  variant.call = f.call;
  variant.differentiable = f.differentiable;
  variant.elementwise = true;
  for (std::size_t i = 0; i < f.domains.size(); ++i) {
    const Shape& shape = shapes[i % shapes.size()];
    variant.name += shape.str();
    variant.inputs.push_back({dtype, shape, f.domains[i], !f.no_derivative.contains(i)});
  }
  variant.reference = [dtype, formula = f.formula](std::span<const Array> xs) {
    Shape shape;
    for (const Array& x : xs) shape = broadcast_shape(shape, x.shape);
    const auto at = [&](const Shape& p) {
      Numbers point;
      for (const Array& x : xs) point.push_back(x(broadcast_position(x.shape, p)));
      return formula(point);
    };
    const std::size_t outputs = formula(Numbers(xs.size(), 0.5L)).size();
    Arrays results;
    for (std::size_t k = 0; k < outputs; ++k)
      results.push_back(make(dtype, shape, [&](const Shape& p) { return at(p)[k]; }));
    return results;
  };
  return variant;
}

Row row_of(const Function& f) {
  return {.name = f.name,
          // Where an operand has no derivative, no conversion may stand before the operation.
          .dtypes = f.differentiable && !f.no_derivative.empty() ? std::vector{float32, float64} : float_dtypes,
          .variants =
              [f](Dtype dtype) {
                std::vector<std::vector<Shape>> shapes = {{{2, 3}}, {{7}}, {{0, 3}}, {{2, 0}}, {{}}};
                if (f.domains.size() == 1) shapes.push_back({{2, 1, 3}});
                else shapes.insert(shapes.end(), {{{2, 3}, {3}}, {{2, 1}, {1, 3}}, {{}, {2, 2}}});
                std::vector<Variant> variants;
                for (const auto& of_inputs : shapes) variants.push_back(variant_of(f, dtype, of_inputs));
                return variants;
              },
          .also = f.also,
          .accuracy = f.accuracy,
          .no_derivative = f.no_derivative};
}

Outputs both(std::pair<Tensor, Tensor> results) {
  Outputs outputs(std::move(results.first));
  outputs.push_back(std::move(results.second));
  return outputs;
}

std::vector<Function> functions() {
  using namespace stave;
  const std::string no_formula = "there is no formula by a parameter";
#define ONE(f) .name = #f, .call = [](auto x) { return Outputs(f(x[0])); }
#define TWO(f) .name = #f, .call = [](auto x) { return Outputs(f(x[0], x[1])); }
#define THREE(f) .name = #f, .call = [](auto x) { return Outputs(f(x[0], x[1], x[2])); }
#define FORMULA(...) .formula = [](const Numbers& v) -> Numbers { return {__VA_ARGS__}; }
  const Domain shape{0.7, 4}, argument{0.4, 5}, fraction{0.1, 0.8};
  return {
      {TWO(gammainc), FORMULA(gammainc_reference(v[0], v[1])), .domains = {shape, argument}, .accuracy = 10},
      {TWO(gammaincc), FORMULA(1 - gammainc_reference(v[0], v[1])), .domains = {shape, argument}, .accuracy = 10},
      {TWO(gamma_density), FORMULA(gamma_density_reference(v[0], v[1])), .domains = {shape, argument}},
      {THREE(betainc), FORMULA(betainc_reference(v[0], v[1], v[2])), .domains = {shape, {0.8, 3}, fraction},
       .accuracy = 10},
      {THREE(beta_density), FORMULA(beta_density_reference(v[0], v[1], v[2])), .domains = {shape, {0.8, 3}, fraction},
       .accuracy = 10},
      {TWO(betaln), FORMULA(std::lgamma(v[0]) + std::lgamma(v[1]) - std::lgamma(v[0] + v[1])),
       .domains = {{2, 4}, {2.3, 4.5}}},
      {TWO(poch), FORMULA(std::tgamma(v[0] + v[1]) / std::tgamma(v[0])), .domains = {{0.6, 4}, {0.3, 3}}},
      {.name = "multigammaln",
       .call = [](auto x) { return Outputs(multigammaln(x[0], 3)); },
       FORMULA(1.5L * std::log(pi) + std::lgamma(v[0]) + std::lgamma(v[0] - 0.5L) + std::lgamma(v[0] - 1)),
       .domains = {{3, 9}}},
      {ONE(gammasgn), FORMULA(v[0] > 0 || std::fmod(std::floor(v[0]), Real(2)) == 0 ? Real(1) : Real(-1)),
       .domains = {{.choices = {-3.5, -2.25, -1.75, -0.5, 0.5, 2}}}, .differentiable = false, .accuracy = 0,
       .no_derivative = {{0, "piecewise constant"}}},
      {.name = "zeta_derivative",
       .call = [](auto x) { return Outputs(zeta_derivative(1, x[0], x[1])); },
       FORMULA(zeta_by_s_reference(v[0], v[1])),
       .domains = {{1.5, 4}, {1.5, 4}}},
      {ONE(ndtri), FORMULA(-std::numbers::sqrt2_v<Real> * erfcinv_reference(2 * v[0])),
       .domains = {{.choices = {0.1, 0.2, 0.35, 0.6, 0.7, 0.9}}}},
      {ONE(log_ndtr), FORMULA(std::log(std::erfc(-v[0] / std::numbers::sqrt2_v<Real>) / 2)), .domains = {{-4, 3}}},
      {ONE(erfcx), FORMULA(std::exp(v[0] * v[0]) * std::erfc(v[0])), .domains = {{-2, 4}}},
      {ONE(erfcinv), FORMULA(erfcinv_reference(v[0])), .domains = {{.choices = {0.1, 0.3, 0.6, 1.3, 1.7, 1.9}}}},
      {ONE(dawsn), FORMULA(dawsn_reference(v[0])), .domains = {{-4, 4}}},
      {.name = "fresnel",
       .call = [](auto x) { return both(fresnel(x[0])); },
       FORMULA(v[0] * integral([x = v[0]](Real u) { return std::sin(pi / 2 * x * x * u * u); }),
               v[0] * integral([x = v[0]](Real u) { return std::cos(pi / 2 * x * x * u * u); })),
       .domains = {{0.3, 3}}},
      {ONE(bessel_j0), FORMULA(bessel_j_reference(0, v[0])), .domains = {{-2, 2}}},
      {ONE(bessel_j1), FORMULA(bessel_j_reference(1, v[0])), .domains = {{-3, 3}}},
      {.name = "bessel_jn",
       .call = [](auto x) { return Outputs(bessel_jn(3, x[0])); },
       FORMULA(bessel_j_reference(3, v[0])),
       .domains = {{0.5, 5}}},
      {ONE(bessel_y0), FORMULA(bessel_y_reference(0, v[0])), .domains = {{1.2, 3.5}}},
      {ONE(bessel_y1), FORMULA(bessel_y_reference(1, v[0])), .domains = {{2.5, 5}}},
      {ONE(bessel_i0), FORMULA(bessel_i_reference(0, v[0])), .domains = {{-4, 4}}},
      {ONE(bessel_i0e), FORMULA(std::exp(-std::abs(v[0])) * bessel_i_reference(0, v[0])), .domains = {{-4, 4}}},
      {ONE(bessel_i1), FORMULA(bessel_i_reference(1, v[0])), .domains = {{-4, 4}}},
      {ONE(bessel_i1e), FORMULA(std::exp(-std::abs(v[0])) * bessel_i_reference(1, v[0])), .domains = {{0.3, 4}}},
      {ONE(bessel_k0), FORMULA(bessel_k_reference(0, v[0])), .domains = {argument}},
      {ONE(bessel_k0e), FORMULA(std::exp(v[0]) * bessel_k_reference(0, v[0])), .domains = {argument}},
      {ONE(bessel_k1), FORMULA(bessel_k_reference(1, v[0])), .domains = {argument}},
      {ONE(bessel_k1e), FORMULA(std::exp(v[0]) * bessel_k_reference(1, v[0])), .domains = {argument}},
      {ONE(expi), FORMULA(expi_reference(v[0])), .domains = {{0.6, 4}}},
      {ONE(exp1), FORMULA(-expi_reference(-v[0])), .domains = {{0.4, 3}}},
      {.name = "expn",
       .call = [](auto x) { return Outputs(expn(3, x[0])); },
       FORMULA(expn_reference(3, v[0])),
       .domains = {argument}},
      {ONE(spence), FORMULA(spence_reference(v[0])), .domains = {{1.1, 4}}},
      {.name = "sici",
       .call = [](auto x) { return both(sici(x[0])); },
       FORMULA(sine_integral_reference(v[0]), cosine_integral_reference(v[0])),
       .domains = {{0.8, 3}}},
      {.name = "hyp1f1",
       .call = [](auto x) { return Outputs(hyp1f1(x[0], x[1], x[2])); },
       FORMULA(hyp1f1_reference(v[0], v[1], v[2])),
       .domains = {shape, {0.8, 3}, {-2, 3}},
       .no_derivative = {{0, no_formula}, {1, no_formula}}},
      {.name = "hyp2f1",
       .call = [](auto x) { return Outputs(hyp2f1(x[0], x[1], x[2], x[3])); },
       FORMULA(hyp2f1_reference(v[0], v[1], v[2], v[3])),
       .domains = {shape, {0.8, 3}, {1.5, 4}, {-0.6, 0.8}},
       .no_derivative = {{0, no_formula}, {1, no_formula}, {2, no_formula}}},
      {TWO(rel_entr), FORMULA(v[0] * std::log(v[0] / v[1])), .domains = {{0.3, 1}, {1.2, 3}}},
      {TWO(kl_div), FORMULA(v[0] * std::log(v[0] / v[1]) - v[0] + v[1]), .domains = {{0.3, 1}, {1.2, 3}}},
      {ONE(sinc), FORMULA(v[0] == 0 ? 1 : std::sin(pi * v[0]) / (pi * v[0])), .domains = {{-0.9, 0.9}}},
      {ONE(lambertw), FORMULA(lambertw_reference(0, v[0])), .domains = {{0.2, 4}}},
  };
#undef ONE
#undef TWO
#undef THREE
#undef FORMULA
}

// ---- sums with weights --------------------------------------------------------------------------

/// log |s| for the sum s of w e^x over the last axis, and with_sign its sign.
std::vector<Variant> weighted_variants(Dtype dtype, bool with_sign) {
  const auto of = [&](const Shape& shape, const Shape& of_weights) -> Variant {
    return {.name = shape.str() + of_weights.str(),
            .inputs = {{dtype, shape}, {dtype, of_weights, with_sign ? Domain{-3, -0.5} : Domain{0.3, 2}}},
            .call =
                [=](auto x) {
                  // A number is the sum over an axis of length 1.
                  const auto row = [](const Tensor& t) { return t.rank() == 0 ? reshape(t, {1}) : t; };
                  return with_sign ? both(signed_logsumexp(row(x[0]), row(x[1]), -1))
                                   : Outputs(logsumexp(row(x[0]), row(x[1]), -1));
                },
            .reference =
                [=](std::span<const Array> xs) {
                  const auto kept = [&](const Shape& p) {
                    return p.empty() ? p : without_axis(p, static_cast<Index>(p.size()) - 1);
                  };
                  Array sums = make(float64, kept(shape), [](const Shape&) { return Real(0); });
                  for_each_position(shape, [&](const Shape& p) {
                    sums(kept(p)) += xs[1](broadcast_position(of_weights, p)) * std::exp(xs[0](p));
                  });
                  const auto log_of = [](Real s) { return std::log(std::abs(s)); };
                  // The logarithm of a sum near 1 is small, and its error is relative to 1.
                  Arrays results = {sized(mapped(dtype, sums, log_of), 4)};
                  if (with_sign)
                    results.push_back(mapped(dtype, sums, [](Real s) { return Real(s > 0) - Real(s < 0); }));
                  return results;
                }};
  };
  return {of({2, 3}, {2, 3}), of({2, 5}, {5}), of({4}, {4}), of({0, 3}, {3}), of({}, {})};
}

}  // namespace

void add_special_rows(std::vector<Row>& rows) {
  for (const Function& f : functions()) rows.push_back(row_of(f));
  for (const bool with_sign : {false, true})
    rows.push_back({.name = with_sign ? "signed_logsumexp" : "logsumexp with weights",
                    .dtypes = float_dtypes,
                    .variants = [=](Dtype dtype) { return weighted_variants(dtype, with_sign); }});
}

}  // namespace table
