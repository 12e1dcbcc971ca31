// Draws that are functions of uniform, normal and gamma numbers.
//
// A function uses the same uniform, normal and gamma numbers, from the same keys, as jax.random, so
// that results are the same. Formulas avoid infinite derivatives in branches that are not chosen.

#include <stave/core/ops/random_samplers.h>

#include <cmath>
#include <numbers>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/ops/random_frontend.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/softmax.h>

namespace stave {

using namespace stave_detail;

namespace {

// Returns the smallest normal number of the dtype.
double smallest_normal(Dtype dtype) { return dtype == float64 ? 0x1p-1022 : 0x1p-126; }

// Returns uniform numbers in which u stands for 0.
Tensor uniform_above_zero(const Key& key, const Shape& shape, Dtype dtype, double u) {
  const Tensor drawn = uniform(key, shape, dtype);
  return where(drawn == 0, u, drawn);
}

// Returns -1 and 1 in a floating dtype, from uniform numbers of that dtype.
Tensor random_signs(const Key& key, const Shape& shape, Dtype dtype) {
  return where(uniform(key, shape, dtype) < 0.5, full({}, 1, dtype, key.data().device()), -1);
}

Shape with_last(Shape shape, Index length) {
  shape.push_back(length);
  return shape;
}
Tensor maxwell_numbers(const Key& key, const Shape& shape, Dtype dtype) {
  return sqrt(sum(square(normal(key, with_last(shape, 3), dtype)), -1));
}

Tensor generalized_normal_numbers(const Key& key, const Tensor& p, const Shape& shape) {
  const auto [first, second] = split(key);
  return random_signs(second, shape, p.dtype()) * pow(gamma(first, 1 / p, shape), 1 / p);
}

}  // namespace

// ---- without parameters -------------------------------------------------------------------------

Tensor exponential(const Key& key, const Shape& shape, Dtype dtype) {
  return drawn_in("exponential", key, dtype, [&](Dtype computed) { return -log1p(-uniform(key, shape, computed)); });
}

// sign(u) log1p(-|u|) of a u in (-1, 1)
Tensor laplace(const Key& key, const Shape& shape, Dtype dtype) {
  return drawn_in("laplace", key, dtype, [&](Dtype computed) {
    const Tensor u = uniform(key, shape, epsilon_of(computed) / 2 - 1, 1, computed);
    return sign(u) * log1p(-abs(u));
  });
}

Tensor logistic(const Key& key, const Shape& shape, Dtype dtype) {
  return drawn_in("logistic", key, dtype, [&](Dtype computed) {
    const Tensor u = uniform(key, shape, smallest_normal(computed), 1, computed);
    return log(u) - log1p(-u);
  });
}

Tensor cauchy(const Key& key, const Shape& shape, Dtype dtype) {
  return drawn_in("cauchy", key, dtype, [&](Dtype computed) {
    return tan(std::numbers::pi * (uniform(key, shape, epsilon_of(computed), 1, computed) - 0.5));
  });
}

Tensor maxwell(const Key& key, const Shape& shape, Dtype dtype) {
  return drawn_in("maxwell", key, dtype, [&](Dtype computed) { return maxwell_numbers(key, shape, computed); });
}

Tensor rademacher(const Key& key, const Shape& shape, Dtype dtype) {
  return named("rademacher", [&] {
    require_one_key(key, "rademacher");
    if (is_complex(dtype) || dtype == bool_ || is_unsigned(dtype))
      fail<DtypeError>("rademacher: {} does not hold -1 and 1 as real numbers", dtype);
    return astype(random_signs(key, shape, dtype == float64 ? float64 : float32), dtype);
  });
}

// ---- with parameters ----------------------------------------------------------------------------

Tensor lognormal(const Key& key, Operand sigma, const Shape& shape) {
  const auto draw = [&](const Drawing& d, const Tensor& s) { return exp(normal(key, d.shape, d.computed) * s); };
  return drawn("lognormal", key, shape, draw, std::move(sigma));
}

// A uniform number of 0 is replaced by half the distance between neighbouring uniform numbers.
Tensor rayleigh(const Key& key, Operand scale, const Shape& shape) {
  const auto draw = [&](const Drawing& d, const Tensor& s) {
    return s * sqrt(-2 * log(uniform_above_zero(key, d.shape, d.computed, epsilon_of(d.computed) / 2)));
  };
  return drawn("rayleigh", key, shape, draw, std::move(scale));
}

Tensor pareto(const Key& key, Operand b, const Shape& shape) {
  const auto draw = [&](const Drawing& d, const Tensor& y) { return exp(exponential(key, d.shape, d.computed) / y); };
  return drawn("pareto", key, shape, draw, std::move(b));
}

Tensor weibull_min(const Key& key, Operand scale, Operand concentration, const Shape& shape) {
  const auto draw = [&](const Drawing& d, const Tensor& s, const Tensor& c) {
    return pow(exponential(key, d.shape, d.computed), 1 / c) * s;
  };
  return drawn("weibull_min", key, shape, draw, std::move(scale), std::move(concentration));
}

// The inverse of the distribution function, which is quadratic on both sides of the mode.
Tensor triangular(const Key& key, Operand left, Operand mode, Operand right, const Shape& shape) {
  const auto draw = [&](const Drawing& d, const Tensor& l, const Tensor& m, const Tensor& r) {
    const Tensor u = uniform(key, d.shape, d.computed), width = r - l, is_below = u < (m - l) / width;
    const Tensor below = where(is_below, u * width * (m - l), 1);
    const Tensor above = where(is_below, 1, (1 - u) * width * (r - m));
    return where(is_below, l + sqrt(below), r - sqrt(above));
  };
  return drawn("triangular", key, shape, draw, std::move(left), std::move(mode), std::move(right));
}

// The method of Michael, Schucany and Haas, "Generating random variates using transformations with
// multiple roots", 1976. The product of both roots is mean^2; the larger root is a sum without
// cancellation.
Tensor wald(const Key& key, Operand mean, const Shape& shape) {
  const auto draw = [&](const Drawing& d, const Tensor& m) {
    const auto [first, second] = split(key);
    const Tensor y = m * square(normal(first, d.shape, d.computed));
    const Tensor larger = m * (1 + 0.5 * (y + sqrt(4 * y + square(y)))), smaller = square(m) / larger;
    return where(uniform(second, d.shape, d.computed) <= m / (m + smaller), smaller, larger);
  };
  return drawn("wald", key, shape, draw, std::move(mean));
}

Tensor double_sided_maxwell(const Key& key, Operand loc, Operand scale, const Shape& shape) {
  const auto draw = [&](const Drawing& d, const Tensor& center, const Tensor& s) {
    const auto [first, second] = split(key);
    return random_signs(second, d.shape, d.computed) * maxwell_numbers(first, d.shape, d.computed) * s + center;
  };
  return drawn("double_sided_maxwell", key, shape, draw, std::move(loc), std::move(scale));
}

// sqrt(2) erfinv(u) of a u between the values of erf at the bounds. The result is inside of the
// bounds even if it was rounded to one of them.
Tensor truncated_normal(const Key& key, Operand lower, Operand upper, const Shape& shape) {
  const auto draw = [&](const Drawing& d, const Tensor& low, const Tensor& high) {
    constexpr double root = std::numbers::sqrt2, infinity = std::numeric_limits<double>::infinity();
    const Tensor a = erf(low / root), b = erf(high / root);
    const Tensor u = maximum(uniform(key, d.shape, d.computed) * (b - a) + a, a);
    const Tensor first = nextafter(stop_gradient(low), infinity), last = nextafter(stop_gradient(high), -infinity);
    return clip(root * erfinv(u), first, last);
  };
  return drawn("truncated_normal", key, shape, draw, std::move(lower), std::move(upper));
}

Tensor generalized_normal(const Key& key, Operand p, const Shape& shape) {
  const auto draw = [&](const Drawing& d, const Tensor& q) { return generalized_normal_numbers(key, q, d.shape); };
  return drawn("generalized_normal", key, shape, draw, std::move(p));
}

// ---- gamma distributions ------------------------------------------------------------------------

// x / (x + y) of two gamma numbers, by their logarithms.
Tensor beta(const Key& key, Operand a, Operand b, const Shape& shape) {
  const auto draw = [&](const Drawing& d, const Tensor& p, const Tensor& q) {
    const auto [first, second] = split(key);
    return sigmoid(loggamma(first, p, d.shape) - loggamma(second, q, d.shape));
  };
  return drawn("beta", key, shape, draw, std::move(a), std::move(b));
}

Tensor chisquare(const Key& key, Operand df, const Shape& shape) {
  const auto draw = [&](const Drawing& d, const Tensor& n) { return 2 * gamma(key, 0.5 * n, d.shape); };
  return drawn("chisquare", key, shape, draw, std::move(df));
}

Tensor f_distribution(const Key& key, Operand numerator, Operand denominator, const Shape& shape) {
  const auto draw = [&](const Drawing& d, const Tensor& n, const Tensor& m) {
    const auto [below, above] = split(key);
    return (gamma(above, 0.5 * n, d.shape) / n) / (gamma(below, 0.5 * m, d.shape) / m);
  };
  return drawn("f_distribution", key, shape, draw, std::move(numerator), std::move(denominator));
}

Tensor student_t(const Key& key, Operand df, const Shape& shape) {
  const auto draw = [&](const Drawing& d, const Tensor& n) {
    const auto [first, second] = split(key);
    const Tensor half = 0.5 * n;
    return normal(first, d.shape, d.computed) * sqrt(half / gamma(second, half, d.shape));
  };
  return drawn("student_t", key, shape, draw, std::move(df));
}

Tensor dirichlet(const Key& key, const Tensor& concentrations, const Shape& shape) {
  require_defined(concentrations, "dirichlet", 1);
  if (concentrations.rank() == 0) fail<ShapeError>("dirichlet: concentrations of rank 0: they are vectors [..., n]");
  const Shape all = shape.empty() ? Shape() : with_last(shape, concentrations.shape(-1));
  const auto draw = [&](const Drawing& d, const Tensor& a) { return softmax(loggamma(key, a, d.shape), -1); };
  return drawn("dirichlet", key, all, draw, Operand(concentrations));
}

// ---- vectors and matrices -----------------------------------------------------------------------

Tensor multivariate_normal(const Key& key, const Tensor& mean, const Tensor& covariance, const Shape& shape) {
  require_defined(mean, "multivariate_normal", 1);
  require_defined(covariance, "multivariate_normal", 2);
  if (mean.rank() < 1 || covariance.rank() < 2 || covariance.shape(-1) != mean.shape(-1) ||
      covariance.shape(-2) != mean.shape(-1))
    fail<ShapeError>("multivariate_normal: a mean {} and a covariance {}: they are [..., n] and [..., n, n]",
                     mean.shape(), covariance.shape());
  return named("multivariate_normal", [&] {
    require_one_key(key, "multivariate_normal");
    const Dtype dtype = common_float(mean, covariance), computed = computed_in(dtype);
    const Tensor factor = cholesky(astype(covariance, computed)), center = astype(mean, computed);
    const Shape lines =
        broadcast_shapes(without_last(mean.shape(), 1), without_last(covariance.shape(), 2), "multivariate_normal");
    const Shape all = with_last(drawn_shape(lines, shape, "multivariate_normal"), mean.shape(-1));
    const Tensor z = expand_dims(normal(key, all, computed), -1);
    return astype(center + squeeze(matmul(factor, z), -1), dtype);
  });
}

// The method of Barthe, Guedon, Mendelson and Naor, "A probabilistic approach to the geometry of
// the l_p^n-ball", 2005.
Tensor ball(const Key& key, Index d, double p, const Shape& shape, Dtype dtype) {
  if (d < 1) fail<ShapeError>("ball: the dimension is {}: give 1 or more", d);
  return drawn_in("ball", key, dtype, [&](Dtype computed) {
    const auto [first, second] = split(key);
    const Tensor power = full({}, p, computed, key.data().device());
    const Tensor g = generalized_normal_numbers(first, power, with_last(shape, d));
    const Tensor size = sum(pow(abs(g), power), -1) + exponential(second, shape, computed);
    return g / expand_dims(pow(size, 1 / p), -1);
  });
}

Tensor orthogonal(const Key& key, Index n, const Shape& shape, Dtype dtype) {
  return orthogonal(key, n, n, shape, dtype);
}

// The method of Mezzadri, "How to generate random matrices from the classical compact groups",
// 2007: the result is the factor q of a normal matrix, with the signs for which r has a positive
// diagonal.
Tensor orthogonal(const Key& key, Index n, Index m, const Shape& shape, Dtype dtype) {
  if (n < 0 || m < 0) fail<ShapeError>("orthogonal: matrices of {} rows and {} columns", n, m);
  return drawn_in("orthogonal", key, dtype, [&](Dtype computed) {
    const Shape all = with_last(with_last(shape, std::max(n, m)), std::min(n, m));
    const auto [q, r] = qr(normal(key, all, computed));
    const Tensor x = q * expand_dims(sign(diagonal(r)), -2);
    return n < m ? matrix_transpose(x) : x;
  });
}

}  // namespace stave
