// Rows of draws of vectors and matrices.

#include <stave/core/ops/random_samplers.h>

#include <algorithm>
#include <cmath>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>

#include "table/draws.h"
#include "table/row.h"

namespace table {

namespace {

using Matrix = std::vector<std::vector<Real>>;

const Input a_key{uint32, {2}, {0, 4294967295.0}};

std::vector<Variant> dirichlet_variants(Dtype dtype) {
  const auto of = [=](const Shape& concentrations, const Shape& shape, const Shape& result) {
    const auto reference = [=](std::span<const Array> at, std::span<const Array> xs) {
      std::uint32_t i = 0;
      Array gammas = make(dtype, result, [&](const Shape& p) {
        const Shape q = broadcast_position(concentrations, p);
        return gamma_number(key_of(xs[0]), i++, at[1](q), xs[1](q), drawn_in(dtype));
      });
      const Array y = make(dtype, result, [&](Shape p) {
        const Real own = gammas(p);
        Real sum = 0;
        for (Index k = 0; k < result.back(); ++k) p[p.size() - 1] = k, sum += gammas(p);
        return own / sum;
      });
      return Arrays{sized(y, 1)};
    };
    return Variant{.name = concentrations.str() + " to " + result.str(),
                   .inputs = {a_key, {dtype, concentrations, positive}},
                   .call = [=](auto xs) { return Outputs(dirichlet(Key(xs[0]), xs[1], shape)); },
                   .reference = [=](auto xs) { return reference(xs, xs); },
                   .smooth = reference};
  };
  return with_bad_keys({of({2, 3}, {}, {2, 3}),
                        of({4}, {2}, {2, 4}),
                        of({0, 3}, {}, {0, 3}),
                        {.name = "rank 0",
                         .inputs = {a_key, {dtype, {}}},
                         .call = [](auto xs) { return Outputs(dirichlet(Key(xs[0]), xs[1])); },
                         .refusal = "concentrations of rank 0"}});
}

/// The lower triangular l with l l^T = a.
Matrix cholesky_of(const Matrix& a) {
  Matrix l(a.size(), std::vector<Real>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      Real rest = a[i][j];
      for (std::size_t k = 0; k < j; ++k) rest -= l[i][k] * l[j][k];
      l[i][j] = i == j ? std::sqrt(rest) : rest / l[j][j];
    }
  return l;
}

/// The covariance is a a^T + 2 for an input a.
std::vector<Variant> multivariate_normal_variants(Dtype dtype) {
  const auto of = [=](const Shape& means, const Shape& shape, const Shape& result) {
    const auto reference = [=](std::span<const Array> xs) {
      Matrix covariance(2, std::vector<Real>(2));
      for (Index i = 0; i < 2; ++i)
        for (Index j = 0; j < 2; ++j)
          covariance[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] =
              xs[2]({i, 0}) * xs[2]({j, 0}) + xs[2]({i, 1}) * xs[2]({j, 1}) + (i == j ? 2 : 0);
      const Matrix l = cholesky_of(covariance);
      std::uint32_t i = 0;
      const Array y = make(dtype, result, [&](const Shape& p) {
        const std::uint32_t first = i / 2 * 2;
        const auto row = static_cast<std::size_t>(i++ % 2);
        Real sum = xs[1](broadcast_position(means, p));
        for (std::uint32_t k = 0; k <= row; ++k)
          sum += l[row][k] * normal_number(key_of(xs[0]), first + k, drawn_in(dtype));
        return sum;
      });
      return Arrays{sized(y, 4)};
    };
    return Variant{.name = means.str() + " to " + result.str(),
                   .inputs = {a_key, {dtype, means}, {dtype, {2, 2}}},
                   .call =
                       [=](auto xs) {
                         const Tensor a = astype(xs[2], drawn_in(dtype));
                         const Tensor covariance = matmul(a, matrix_transpose(a)) + 2 * eye(2, a.dtype());
                         return Outputs(astype(multivariate_normal(Key(xs[0]), xs[1], covariance, shape), dtype));
                       },
                   .reference = reference};
  };
  return with_bad_keys({of({3, 2}, {}, {3, 2}),
                        of({2}, {3}, {3, 2}),
                        of({0, 2}, {}, {0, 2}),
                        {.name = "rank 0",
                         .inputs = {a_key, {dtype, {}}, {dtype, {2, 2}}},
                         .call = [](auto xs) { return Outputs(multivariate_normal(Key(xs[0]), xs[1], xs[2])); },
                         .refusal = "they are [..., n] and [..., n, n]"}});
}

Real ball_number(Words key, std::uint32_t i, Dtype dtype) {
  const Words numbers = child(key, 0), gammas = child(numbers, 0), signs = child(numbers, 1);
  const auto g = [&](std::uint32_t k) {
    return sign_number(signs, k, dtype) * std::sqrt(gamma_number(gammas, k, 0.5L, 0.5L, dtype));
  };
  const std::uint32_t first = i / 2 * 2;
  return g(i) /
         std::sqrt(g(first) * g(first) + g(first + 1) * g(first + 1) + exponential_number(child(key, 1), i / 2, dtype));
}

/// Element i of orthogonal 2 x 2 matrices: normal columns, made orthonormal one after the other.
Real orthogonal_number(Words key, std::uint32_t i, Dtype dtype) {
  Real z[4];
  for (std::uint32_t k = 0; k < 4; ++k) z[k] = normal_number(key, i / 4 * 4 + k, dtype);
  const Real length = std::hypot(z[0], z[2]), c = z[0] / length, s = z[2] / length;
  const Real inside = c * z[1] + s * z[3], x = z[1] - inside * c, y = z[3] - inside * s, rest = std::hypot(x, y);
  const Real q[4] = {c, x / rest, s, y / rest};
  return q[i % 4];
}

Shape with_lengths(Shape shape, std::initializer_list<Index> lengths) {
  for (Index length : lengths) shape.push_back(length);
  return shape;
}

/// A row for draws of a dtype that have axes after those of `shape`.
std::vector<Variant> with_axes(Dtype dtype, std::initializer_list<Index> lengths,
                               const std::function<Tensor(const Key&, const Shape&, Dtype)>& call,
                               const std::function<Real(Words, std::uint32_t, Dtype)>& number) {
  std::vector<Variant> variants;
  for (const Shape& shape : {Shape(3), Shape(), Shape(0)}) {
    const Shape result = with_lengths(shape, lengths);
    variants.push_back(
        {.name = shape.str(),
         .inputs = {a_key},
         .call = [=](auto xs) { return Outputs(call(Key(xs[0]), shape, dtype)); },
         .reference =
             [=](auto xs) {
               return Arrays{sized(
                   counted(dtype, result, [&](std::uint32_t i) { return number(key_of(xs[0]), i, drawn_in(dtype)); }),
                   1)};
             },
         .differentiable = false});
  }
  return with_bad_keys(std::move(variants));
}

}  // namespace

void add_sampler_vector_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "dirichlet", .dtypes = float_dtypes, .variants = dirichlet_variants, .accuracy = 64});
  rows.push_back({.name = "multivariate_normal",
                  .dtypes = float_dtypes,
                  .variants = multivariate_normal_variants,
                  .accuracy = 64,
                  .bitwise = false});
  rows.push_back({.name = "ball",
                  .dtypes = float_dtypes,
                  .variants =
                      [](Dtype dtype) {
                        const auto call = [](const Key& key, const Shape& s, Dtype d) { return ball(key, 2, 2, s, d); };
                        return with_axes(dtype, {2}, call, ball_number);
                      },
                  .accuracy = 64});
  rows.push_back({.name = "orthogonal",
                  .dtypes = float_dtypes,
                  .variants =
                      [](Dtype dtype) {
                        const auto call = [](const Key& key, const Shape& s, Dtype d) {
                          return orthogonal(key, 2, s, d);
                        };
                        return with_axes(dtype, {2, 2}, call, orthogonal_number);
                      },
                  .accuracy = 256,
                  .bitwise = false});
}

}  // namespace table
