// Compares values with the reference, and derivatives with the reference's central differences
// in long double, element by element.
//
// L(x) = sum over outputs k of <w_k, f_k(x)> with weights w that are not uniform; H is its Hessian.
// Then
//   jvp          (f(x + hv) - f(x - hv)) / 2h
//   vjp          dL/dx, and the adjoint identity <w, Jv> = <J'w, v>
//   jvp of jvp   (x, v) -> Jv along (u, dv):    f''(u, v) + J dv
//   jvp of vjp   (x, w) -> J'w along (u, dw):   Hu + J'dw, and <u2, H u1> = <u1, H u2>
//   vjp of jvp   (x, v) -> Jv, cotangent w:     (Hv, J'w)
//   vjp of vjp   (x, w) -> J'w, cotangent u:    (Hu, Ju)

#include <algorithm>
#include <cmath>
#include <limits>

#include <stave/handlers/transforms/jvp_flat.h>
#include <stave/handlers/transforms/vjp_flat.h>

#include "table/cell.h"

namespace table {

// ---- differences of the reference --------------------------------------------------------------

namespace {

/// The inner product <a, b>, and the sum of its terms' absolute values.
struct Inner {
  Real value = 0, size = 0;
};
Inner inner(const Arrays& a, const Arrays& b) {
  Inner result;
  for (std::size_t k = 0; k < a.size(); ++k)
    for (std::size_t i = 0; is_float(a[k].dtype) && i < a[k].values.size(); ++i) {
      result.value += a[k].values[i] * b[k].values[i];
      result.size += std::abs(a[k].values[i] * b[k].values[i]);
    }
  return result;
}

/// Central differences of a case's reference with respect to its active inputs.
class Differences {
 public:
  explicit Differences(const Case& c) : c_(c) {}

  /// (f(x + hv) - f(x - hv)) / 2h
  Arrays along(const Arrays& v) const {
    const Real h = std::cbrt(epsilon);
    return combined({{1, at({{h, &v}})}, {-1, at({{-h, &v}})}}, 2 * h);
  }

  /// f''(u, v)
  Arrays along(const Arrays& u, const Arrays& v) const {
    const Real h = std::pow(epsilon, Real(0.25));
    return combined({{1, at({{h, &u}, {h, &v}})},
                     {1, at({{-h, &u}, {-h, &v}})},
                     {-1, at({{h, &u}, {-h, &v}})},
                     {-1, at({{-h, &u}, {h, &v}})}},
                    4 * h * h);
  }

  /// df/de for the unit vector e of each input element in turn.
  std::vector<Arrays> columns() const {
    return for_each_element([&](const Arrays& e) { return along(e); });
  }

  /// f''(e, u) for the unit vector e of each input element in turn.
  std::vector<Arrays> columns_along(const Arrays& u) const {
    return for_each_element([&](const Arrays& e) { return along(e, u); });
  }

 private:
  static constexpr Real epsilon = std::numeric_limits<Real>::epsilon();
  struct Step {
    Real length;
    // One array for each active input.
    const Arrays* direction;
  };

  Arrays at(std::initializer_list<Step> steps) const {
    Arrays x = c_.arrays;
    for (const Step& step : steps)
      for (std::size_t k = 0; k < c_.active.size(); ++k) {
        std::vector<Real>& values = x[c_.active[k]].values;
        for (std::size_t i = 0; i < values.size(); ++i) values[i] += step.length * (*step.direction)[k].values[i];
      }
    return c_.variant.smooth ? c_.variant.smooth(c_.arrays, x) : c_.variant.reference(x);
  }

  struct Term {
    int sign;
    Arrays outputs;
  };
  // The weighted sum of the terms, divided by `divisor`. Outputs that are not floats give zeros.
  static Arrays combined(const std::vector<Term>& terms, Real divisor) {
    Arrays result = terms[0].outputs;
    for (std::size_t k = 0; k < result.size(); ++k)
      for (std::size_t i = 0; i < result[k].values.size(); ++i) {
        Real sum = 0;
        for (const Term& term : terms) sum += term.sign * term.outputs[k].values[i];
        result[k].values[i] = is_float(result[k].dtype) ? sum / divisor : 0;
      }
    return result;
  }

  // The result of f for each unit vector.
  template <class F>
  std::vector<Arrays> for_each_element(F f) const {
    Arrays unit = c_.active_of(c_.arrays);
    for (Array& x : unit) std::fill(x.values.begin(), x.values.end(), 0);
    std::vector<Arrays> result;
    for (Array& x : unit) {
      if (c_.variant.elementwise) {
        std::fill(x.values.begin(), x.values.end(), 1);
        for (Arrays& column : parted(f(unit), x.shape)) result.push_back(std::move(column));
        std::fill(x.values.begin(), x.values.end(), 0);
        continue;
      }
      for (Real& value : x.values) {
        value = 1;
        result.push_back(f(unit));
        value = 0;
      }
    }
    return result;
  }

  // The columns of a function whose outputs depend on one element of the input each: column i has
  // the outputs at the positions to which element i is broadcast, and zeros elsewhere.
  static std::vector<Arrays> parted(const Arrays& outputs, const Shape& input) {
    Arrays zeros = outputs;
    for (Array& y : zeros) std::fill(y.values.begin(), y.values.end(), 0);
    std::vector<Arrays> result(static_cast<std::size_t>(input.elements()), zeros);
    Real count = 0;
    const Array numbers = make(float64, input, [&](const Shape&) { return count++; });
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      std::size_t at = 0;
      for_each_position(outputs[k].shape, [&](const Shape& position) {
        const auto element = static_cast<std::size_t>(numbers(broadcast_position(input, position)));
        result[element][k].values[at] = outputs[k].values[at];
        ++at;
      });
    }
    return result;
  }

  const Case& c_;
};

}  // namespace

/// The active inputs, the random directions and weights that the checks of their derivatives use,
/// and the expected derivatives. Most of the time goes to the columns of differences, so the checks
/// of a case share them.
class Derivatives {
 public:
  std::vector<Tensor> primals;
  Arrays outputs;
  // Directions of the primals.
  Arrays direction, other_direction;
  // Weights of the outputs, and their direction.
  Arrays weights, weights_direction;

  explicit Derivatives(const Case& c)
      : primals(c.active_of(c.tensors)), outputs(to_arrays(c.call(c.tensors))), case_(c), differences_(c) {
    expect_shapes(c);
    Random random(c.seed + "/derivative");
    const Arrays x = c.active_of(c.arrays);
    direction = random.weights_like(x);
    other_direction = random.weights_like(x);
    weights = random.weights_like(outputs);
    weights_direction = random.weights_like(outputs);
  }

  /// J v
  Arrays jvp(const Arrays& v) const { return differences_.along(v); }

  /// f''(u, v)
  Arrays second(const Arrays& u, const Arrays& v) const { return differences_.along(u, v); }

  /// dL/dx for weights w.
  Arrays gradient(const Arrays& w) const {
    if (columns_.empty()) columns_ = differences_.columns();
    return weighted(columns_, w);
  }

  /// H times `direction`, for `weights`.
  Arrays hessian_along_direction() const {
    if (second_columns_.empty()) second_columns_ = differences_.columns_along(direction);
    return weighted(second_columns_, weights);
  }

 private:
  // Checks the shapes first, because the checks below pair elements of outputs
  // and of the reference.
  void expect_shapes(const Case& c) const {
    const Arrays expected = c.variant.reference(c.arrays);
    bool agree = outputs.size() == expected.size();
    for (std::size_t k = 0; agree && k < expected.size(); ++k)
      agree = outputs[k].shape == expected[k].shape && outputs[k].dtype == expected[k].dtype;
    if (!agree) throw Mismatch("the outputs have other shapes or dtypes than the reference: see the cell `value`");
  }

  // <w, column> for each input element.
  Arrays weighted(const std::vector<Arrays>& columns, const Arrays& w) const {
    Arrays result = case_.active_of(case_.arrays);
    auto column = columns.begin();
    for (Array& x : result)
      for (Real& value : x.values) value = inner(w, *column++).value;
    return result;
  }

  const Case& case_;
  Differences differences_;
  mutable std::vector<Arrays> columns_, second_columns_;  // empty until they are needed
};

namespace {

const Derivatives& derivatives_of(const Case& c) {
  if (!c.derivatives) c.derivatives = std::make_shared<Derivatives>(c);
  return *c.derivatives;
}

/// The float dtype with the lowest precision that a derivative passes through.
Dtype precision_of(const Case& c, const Derivatives& d) {
  Dtype coarsest = float64;
  for (const Array& x : joined(c.active_of(c.arrays), d.outputs))
    if (is_float(x.dtype) && float_shape(x.dtype).digits < float_shape(coarsest).digits) coarsest = x.dtype;
  return coarsest;
}

void check_adjoint(const std::string& what, Dtype precision, const Inner& a, const Inner& b) {
  compare(what, Kind::adjoint, precision, a.value, b.value, 1 + a.size + b.size);
}

Arrays sum_of(Arrays a, const Arrays& b) {
  for (std::size_t k = 0; k < a.size(); ++k)
    for (std::size_t i = 0; i < a[k].values.size(); ++i) a[k].values[i] += b[k].values[i];
  return a;
}

}  // namespace

// ---- the checks --------------------------------------------------------------------------------

void check_value(const Case& c) {
  compare("value", Kind::value, to_arrays(c.call(c.tensors)), c.variant.reference(c.arrays), accuracy_here(c.row));
}

void check_jvp(const Case& c) {
  const Derivatives& d = derivatives_of(c);
  const FlatJvp jvp = jvp_flat([&](auto xs) { return c.call_active(xs); }, d.primals, to_tensors(d.direction));
  compare("the primal output", Kind::value, to_arrays(jvp.outputs), d.outputs, 0);
  compare("tangent", Kind::first, to_arrays(jvp.tangents), d.jvp(d.direction));
}

void check_vjp(const Case& c) {
  const Derivatives& d = derivatives_of(c);
  const auto function = [&](std::span<const Tensor> xs) { return c.call_active(xs); };
  const FlatVjp vjp = vjp_flat(function, d.primals, "vjp");
  compare("the primal output", Kind::value, to_arrays(vjp.outputs), d.outputs, 0);
  const std::vector<Tensor> cotangents = cotangents_for(d.outputs, d.weights);
  const Arrays gradient = to_arrays(vjp.pullback(cotangents));
  compare("cotangent", Kind::first, gradient, d.gradient(d.weights));
  compare("cotangent, the second time", Kind::value, to_arrays(vjp.pullback(cotangents)), gradient, 0);

  const Arrays tangents = to_arrays(jvp_flat(function, d.primals, to_tensors(d.direction)).tangents);
  check_adjoint("<w, Jv> and <J'w, v>", precision_of(c, d), inner(d.weights, tangents), inner(gradient, d.direction));
}

namespace {

/// (x, w) -> J'w
auto pulled_back(const Case& c, const Derivatives& d) {
  return [&c, &d](std::span<const Tensor> inputs) {
    const FlatVjp vjp = vjp_flat([&](auto xs) { return c.call_active(xs); }, inputs.first(d.primals.size()), "vjp");
    const std::vector<Tensor> gradient = vjp.pullback(inputs.subspan(d.primals.size()));
    return Outputs(gradient.begin(), gradient.end());
  };
}

/// (x, v) -> Jv
auto pushed_forward(const Case& c, const Derivatives& d) {
  return [&c, &d](std::span<const Tensor> inputs) {
    const std::size_t n = d.primals.size();
    return jvp_flat([&](auto xs) { return c.call_active(xs); }, inputs.first(n), inputs.subspan(n)).tangents;
  };
}

}  // namespace

void check_jvp_of_jvp(const Case& c) {
  const Derivatives& d = derivatives_of(c);
  const FlatJvp jvp = jvp_flat(pushed_forward(c, d), joined(d.primals, to_tensors(d.direction)),
                               joined(to_tensors(d.other_direction), to_tensors(d.direction)));
  const Arrays expected = sum_of(d.second(d.other_direction, d.direction), d.jvp(d.direction));
  compare("tangent of the tangent", Kind::second, to_arrays(jvp.tangents), expected);
}

void check_jvp_of_vjp(const Case& c) {
  const Derivatives& d = derivatives_of(c);
  const std::vector<Tensor> at = joined(d.primals, cotangents_for(d.outputs, d.weights));
  const auto along = [&](const Arrays& u, const std::vector<Tensor>& dw) {
    return to_arrays(jvp_flat(pulled_back(c, d), at, joined(to_tensors(u), dw)).tangents);
  };
  const Arrays expected = sum_of(d.hessian_along_direction(), d.gradient(d.weights_direction));
  compare("tangent of the cotangent", Kind::second, along(d.direction, cotangents_for(d.outputs, d.weights_direction)),
          expected);

  const std::vector<Tensor> zero(d.outputs.size());
  check_adjoint("<u2, H u1> and <u1, H u2>", precision_of(c, d), inner(d.other_direction, along(d.direction, zero)),
                inner(d.direction, along(d.other_direction, zero)));
}

void check_vjp_of_jvp(const Case& c) {
  const Derivatives& d = derivatives_of(c);
  const FlatVjp vjp = vjp_flat(pushed_forward(c, d), joined(d.primals, to_tensors(d.direction)), "vjp");
  const Arrays expected = joined(d.hessian_along_direction(), d.gradient(d.weights));
  compare("cotangent of the tangent", Kind::second, to_arrays(vjp.pullback(cotangents_for(d.outputs, d.weights))),
          expected);
}

void check_vjp_of_vjp(const Case& c) {
  const Derivatives& d = derivatives_of(c);
  const FlatVjp vjp = vjp_flat(pulled_back(c, d), joined(d.primals, cotangents_for(d.outputs, d.weights)), "vjp");
  const Arrays expected = joined(d.hessian_along_direction(), d.jvp(d.direction));
  compare("cotangent of the cotangent", Kind::second, to_arrays(vjp.pullback(to_tensors(d.direction))), expected);
}

void check_zero_derivative(const Case& c) {
  const Derivatives& d = derivatives_of(c);
  const auto function = [&](std::span<const Tensor> xs) { return c.call_active(xs); };
  const auto zeros = [](Arrays xs) {
    for (Array& x : xs) std::fill(x.values.begin(), x.values.end(), 0);
    return xs;
  };
  const FlatJvp jvp = jvp_flat(function, d.primals, to_tensors(d.direction));
  compare("tangent", Kind::value, to_arrays(jvp.tangents), zeros(d.outputs), 0);
  const FlatVjp vjp = vjp_flat(function, d.primals, "vjp");
  const Arrays gradient = to_arrays(vjp.pullback(cotangents_for(d.outputs, d.weights)));
  compare("cotangent", Kind::value, gradient, zeros(c.active_of(c.arrays)), 0);
}

}  // namespace table
