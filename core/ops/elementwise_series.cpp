// Series rules of elementwise operations. The comments write x_k for coefficient k of x, and x'
// for the derivative, whose coefficient k - 1 is k x_k.
#include <stave/core/ops/series.h>

namespace stave_detail {

namespace {

// The solution of v' = w x', where w = f(v) is a quadratic function with the leading coefficient
// -1. With b = f'(v_0),
//   v_k = sum_{j=1..k} (j x_j) w_(k-j) / k        w_k = b v_k - sum_{0<i<k} v_i v_(k-i)
// v_1, v_2, ... have all their digits if w_0 has, and w_1, w_2, ... have all theirs if b has.
// Returns coefficient k of v (part 1) or of w (part 2). `start` returns b, v_0 and w_0.
template <class Start>
Outputs series_of_quadratic(const SeriesContext& c, std::size_t part, Start start) {
  if (c.kept.empty()) c.kept = start(c.call.input(0), c.outputs[0]);
  // `kept` holds b, v_0, w_0, x_1, v_1, w_1, 2 x_2, v_2, w_2, ...
  const auto kept = [&](int k, std::size_t i) { return c.kept[3 * static_cast<std::size_t>(k) + i]; };
  const auto v = [&](int k) { return kept(k, 1); };
  const auto w = [&](int k) { return kept(k, 2); };
  const auto slope = [&](int k) { return kept(k + 1, 0); };
  return keep_up_to(c, 3 * static_cast<std::size_t>(c.order) + part, [&](std::size_t place) {
    const int k = static_cast<int>(place / 3);
    if (place % 3 == 0) return times_order(c.in(0, k), k);
    if (place % 3 == 1) return over_order(coefficient_of_product(k - 1, slope, w), k);
    const Tensor first = nonzero(v(k), [&](const Tensor& x) { return scale(c.kept[0], x); });
    return subtract_coefficient(first, coefficient_of_square(k, v, 1));
  });
}

}  // namespace

// v = tanh(x), w = 1 - v^2 = sech_squared(x), b = -2 v_0
Outputs series_tanh(const SeriesContext& c) {
  return series_of_quadratic(c, 1, [](const Tensor& x, const Tensor& y) {
    return std::vector<Tensor>{-2 * y, y, sech_squared(x)};
  });
}
Outputs series_sech_squared(const SeriesContext& c) {
  return series_of_quadratic(c, 2, [](const Tensor& x, const Tensor& y) {
    const Tensor v = tanh(x);
    return std::vector<Tensor>{-2 * v, v, y};
  });
}
// v = sigmoid(x), w = v - v^2 = logistic_density(x), b = 1 - 2 v_0 = -tanh(x / 2)
Outputs series_sigmoid(const SeriesContext& c) {
  return series_of_quadratic(c, 1, [](const Tensor& x, const Tensor& y) {
    return std::vector<Tensor>{-tanh(0.5 * x), y, logistic_density(x)};
  });
}
Outputs series_logistic_density(const SeriesContext& c) {
  return series_of_quadratic(c, 2, [](const Tensor& x, const Tensor& y) {
    return std::vector<Tensor>{-tanh(0.5 * x), sigmoid(x), y};
  });
}

// y' = log(2) x' y. (The JVP rule performs exp2 again, at x - 1.) `kept` holds the coefficients of
// log(2) x'.
Outputs series_exp2(const SeriesContext& c) {
  const auto slope = [&](int k) { return c.kept[static_cast<std::size_t>(k)]; };
  keep_up_to(c, static_cast<std::size_t>(c.order - 1), [&](std::size_t place) {
    const int k = static_cast<int>(place) + 1;
    return nonzero(c.in(0, k), [&](const Tensor& x) { return (0.6931471805599453 * k) * x; });
  });
  return over_order(coefficient_of_product(c.order - 1, slope, [&](int k) { return c.out(k); }), c.order);
}

// The quotient y = a / b solves b y = a.
Outputs series_divide(const SeriesContext& c) {
  return nonzero(rest_of_quotient(c, c.in(0, c.order), 1, scale),
                 [&](Tensor rest) { return scale_by_inverse(std::move(rest), c.call.input(1)); });
}
// The inverse y = 1 / x solves x y = 1.
Outputs series_reciprocal(const SeriesContext& c) {
  return nonzero(rest_of_quotient(c, {}, 0, scale), [&](Tensor rest) { return scale(std::move(rest), c.outputs[0]); });
}
Outputs series_square(const SeriesContext& c) {
  return coefficient_of_square(c.order, [&](int k) { return c.in(0, k); });
}
// The root y solves y^2 = x, so that 2 y_0 y_k = x_k - sum_{0<i<k} y_i y_(k-i).
Outputs series_sqrt(const SeriesContext& c) {
  if (c.kept.empty()) c.kept = {2 * c.outputs[0]};
  const Tensor rest = subtract_coefficient(c.in(0, c.order), coefficient_of_square(
                                                                 c.order, [&](int k) { return c.out(k); }, 1));
  return nonzero(rest, [&](const Tensor& x) { return scale_by_inverse(x, c.kept[0]); });
}

}  // namespace stave_detail
