// Tests the linear algebra of the CUDA backend, with its kernels executed on the host
// (kernels_on_host.h), against the CPU backend and against the defining properties of the factors.
// The test cuda.table_on_host runs it under the table of operations as well.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <span>
#include <string>

#include <stave/stave.h>

#include "cuda/kernels_on_host.h"

namespace {

using namespace stave;
using stave_test::on_host;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Linalg : public testing::Test {
 protected:
  const Device there = cuda(0);
  Tensor sent(const Tensor& x) const { return to(x, there); }

 private:
  stave_test::KernelsOnHost device_{0};
};

constexpr Index sizes[] = {1, 2, 3, 4, 5, 8, 17, 31, 32, 33, 40};
constexpr Dtype dtypes[] = {float32, float64, complex64, complex128};
constexpr Dtype wide_dtypes[] = {float64, complex128};
double tolerance(Dtype dtype) { return real_of(dtype) == float64 ? 1e-11 : 3e-4; }
Shape stack_with(const Shape& stack, Index m, Index n) {
  Shape shape = stack;
  shape.push_back(m);
  shape.push_back(n);
  return shape;
}
Tensor random_matrices(std::uint64_t seed, const Shape& stack, Index m, Index n, Dtype dtype) {
  const Shape shape = stack_with(stack, m, n);
  const Tensor x = normal(Key(seed), shape, real_of(dtype));
  return is_complex(dtype) ? stave::complex(x, normal(Key(seed + 1000), shape, real_of(dtype))) : x;
}
Tensor positive(std::uint64_t seed, const Shape& stack, Index n, Dtype dtype) {
  const Tensor x = random_matrices(seed, stack, n, n, dtype);
  return matmul(x, conj_transpose(x)) / static_cast<double>(n) + eye(n, dtype);
}
/// A skew-Hermitian matrix. Adding it to a Hermitian matrix does not change the Hermitian part.
Tensor skew(const Tensor& a) {
  const Shape stack(std::span<const Index>(a.shape().begin(), a.shape().end() - 2));
  const Tensor x = random_matrices(99, stack, a.shape(-2), a.shape(-1), a.dtype());
  return (x - conj_transpose(x)) * 0.2;
}
void expect_close(const Tensor& got, const Tensor& expected, double bound, const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  EXPECT_TRUE(allclose(to(got, cpu), expected, bound, bound)) << what;
}
std::string name_of_case(const Shape& shape, Dtype dtype) { return shape.str() + " " + name_of(dtype); }

/// Calls f(stack, m, n, dtype) for small and large matrices: single ones, empty stacks,
/// and stacks of many.
template <class F>
void for_shapes(F f) {
  for (const Dtype dtype : dtypes) {
    for (const Index m : sizes)
      for (const Index n : sizes) f(Shape{}, m, n, dtype);
    for (const Index n : {Index{1}, Index{3}, Index{9}, Index{33}}) {
      f(Shape{0}, n, n, dtype);
      f(Shape{37}, n, n, dtype);
      f(Shape{2, 3}, n + 1, n, dtype);
      f(Shape{3, 2}, n, n + 2, dtype);
    }
  }
}
template <class F>
void for_squares(F f) {
  for_shapes([&](const Shape& stack, Index m, Index n, Dtype dtype) {
    if (m == n) f(stack, n, dtype);
  });
}
/// Several layouts of the same matrices.
std::vector<Tensor> layouts(const Tensor& x) {
  const Tensor dense = contiguous(x), twice = contiguous(repeat(dense, 2, -1));
  return {dense, matrix_transpose(contiguous(matrix_transpose(x))), flip(contiguous(flip(dense, -1)), -1),
          twice(ellipsis, slice(none, none, 2))};
}
template <class F>
void for_layouts(const Tensor& x, Device there, F f) {
  for (const Tensor& layout : layouts(to(x, there))) f(layout);
}
void expect_orthonormal(const Tensor& q, double bound, const std::string& what) {
  const Tensor x = to(q, cpu), gram = matmul(conj_transpose(x), x);
  expect_close(gram, broadcast_to(eye(x.shape(-1), x.dtype()), gram.shape()), bound, what);
}

// ---- against the CPU, and properties of factors ------------------------------------------------

TEST_F(Linalg, Cholesky) {
  for_squares([&](const Shape& stack, Index n, Dtype dtype) {
    const Tensor a = positive(1, stack, n, dtype);
    for_layouts(a + skew(a), there, [&](const Tensor& x) {
      expect_close(cholesky(x), cholesky(a), tolerance(dtype), name_of_case(a.shape(), dtype));
    });
  });
}

TEST_F(Linalg, LuTakesThePivotsOfTheCpu) {
  for_shapes([&](const Shape& stack, Index m, Index n, Dtype dtype) {
    const Tensor a = random_matrices(2, stack, m, n, dtype);
    const auto [packed, exchanges, order] = lu_factor(a);
    const auto [p, e, o] = lu_factor(sent(a));
    const std::string what = name_of_case(a.shape(), dtype);
    expect_close(p, packed, tolerance(dtype), what);
    EXPECT_TRUE(array_equal(to(e, cpu), exchanges)) << what;
    EXPECT_TRUE(array_equal(to(o, cpu), order)) << what;
  });
}

TEST_F(Linalg, SolutionsSatisfyTheSystem) {
  for_squares([&](const Shape& stack, Index n, Dtype dtype) {
    const Tensor a = positive(3, stack, n, dtype) + random_matrices(5, stack, n, n, dtype) * 0.1;
    for (const Index k : {Index{0}, Index{1}, Index{3}, Index{35}}) {
      const Tensor b = random_matrices(4, stack, n, k, dtype);
      for_layouts(b, there, [&](const Tensor& sides) {
        expect_close(matmul(a, to(solve(sent(a), sides), cpu)), b, 10 * tolerance(dtype),
                     name_of_case(b.shape(), dtype));
      });
      for (const bool lower : {false, true})
        for (const bool transpose : {false, true})
          for (const bool unit : {false, true}) {
            const TriangularOptions options{.lower = lower, .transpose = transpose, .unit_diagonal = unit};
            const Tensor t = a / static_cast<double>(n);
            for_layouts(t, there, [&](const Tensor& matrices) {
              expect_close(triangular_solve(matrices, sent(b), options), triangular_solve(t, b, options),
                           100 * tolerance(dtype), name_of_case(b.shape(), dtype));
            });
          }
    }
  });
}

TEST_F(Linalg, SolutionsSatisfyTheTransposedSystem) {
  for (const Dtype dtype : wide_dtypes)
    for (const Index n : {Index{3}, Index{32}, Index{34}}) {
      const Tensor a = positive(3, {2}, n, dtype) + random_matrices(5, {2}, n, n, dtype);
      const Tensor b = random_matrices(6, {2}, n, 2, dtype);
      const auto loss = [&](const Tensor& x) { return sum(real(sin(solve(to(a, x.device()), x)))); };
      expect_close(grad(loss)(sent(b)), grad(loss)(b), 1e-9, name_of_case(a.shape(), dtype));
    }
}

TEST_F(Linalg, Determinants) {
  for_squares([&](const Shape& stack, Index n, Dtype dtype) {
    const Tensor a = random_matrices(7, stack, n, n, dtype) / std::sqrt(static_cast<double>(n));
    expect_close(det(sent(a)), det(a), 10 * tolerance(dtype), name_of_case(a.shape(), dtype));
    const auto [sign, logarithm] = slogdet(a);
    const auto [s, l] = slogdet(sent(a));
    if (is_complex(dtype)) expect_close(s, sign, 10 * tolerance(dtype), name_of_case(a.shape(), dtype));
    else EXPECT_TRUE(array_equal(to(s, cpu), sign));
    expect_close(l, logarithm, 10 * tolerance(dtype), name_of_case(a.shape(), dtype));
  });
  EXPECT_EQ(det(sent(zeros({0, 0}))).item<float>(), 1);
  EXPECT_EQ(det(sent(full({60, 60}, 0., float64) + eye(60, float64) * 1e-30)).item<double>(), 0);
  for (const Dtype dtype : wide_dtypes) {
    const Tensor tiny = eye(60, dtype) * 1e-30;
    EXPECT_EQ(slogdet(sent(tiny)).second.item<double>(), slogdet(tiny).second.item<double>());
  }
  // The determinant of i times the identity is i^n.
  const Tensor turned = eye(34, complex64) * std::complex<float>(0, 1);
  EXPECT_EQ(det(sent(turned)).item<std::complex<float>>(), std::complex<float>(-1, 0));
  EXPECT_EQ(slogdet(sent(turned[slice(0, 3)](slice(), slice(0, 3)))).first.item<std::complex<float>>(),
            std::complex<float>(0, -1));
}

TEST_F(Linalg, QrHasTheSignsOfTheCpu) {
  for_shapes([&](const Shape& stack, Index m, Index n, Dtype dtype) {
    for (const bool complete : {false, true}) {
      const Tensor a = random_matrices(8, stack, m, n, dtype);
      const auto [q, r] = qr(sent(a), {.complete = complete});
      const auto [q0, r0] = qr(a, {.complete = complete});
      const std::string what = name_of_case(a.shape(), dtype);
      expect_orthonormal(q, tolerance(dtype), what);
      expect_close(matmul(to(q, cpu), to(r, cpu)), a, 10 * tolerance(dtype), what);
      EXPECT_TRUE(array_equal(to(tril(r, -1), cpu), zeros_like(r0))) << what;
      EXPECT_TRUE(allclose(abs(to(r, cpu)), abs(r0), 1e-2, 1e-2)) << what;
      const auto first_row = [](const Tensor& x) { return x(ellipsis, slice(0, 1), slice()); };
      if (is_complex(dtype)) expect_close(first_row(r), first_row(r0), 1e-3, what);
      else EXPECT_TRUE(array_equal(sign(to(first_row(r), cpu)), sign(first_row(r0)))) << what;
      EXPECT_TRUE(array_equal(imag(to(diagonal(r), cpu)), zeros_like(imag(diagonal(r0))))) << what;
    }
  });
}

void check_eigh(const Tensor& a, const Tensor& x, double bound) {
  const auto [w, v] = eigh(x);
  const std::string what = name_of_case(a.shape(), a.dtype());
  expect_orthonormal(v, bound, what);
  const Tensor values = to(w, cpu), vectors = to(v, cpu);
  expect_close(matmul(vectors * expand_dims(values, -2), conj_transpose(vectors)), a, bound, what);
  expect_close(eigvalsh(x), values, bound, what);
  expect_close(values, eigvalsh(a), bound, what);
}

TEST_F(Linalg, Eigenvalues) {
  for_squares([&](const Shape& stack, Index n, Dtype dtype) {
    const Tensor x = random_matrices(9, stack, n, n, dtype), a = (x + conj_transpose(x)) / 2;
    for_layouts(a + skew(a), there, [&](const Tensor& layout) { check_eigh(a, layout, 10 * tolerance(dtype)); });
  });
}

TEST_F(Linalg, RepeatedAndZeroEigenvaluesAreAccurate) {
  for (const Dtype dtype : dtypes)
    for (const Index n : {Index{2}, Index{5}, Index{32}, Index{36}}) {
      const Tensor column = arange(0., static_cast<double>(n)), one = ones({n, n}, dtype);
      const Tensor block = astype(where(expand_dims(column, 1) < 2., 1., 0.) * where(column < 2., 1., 0.), dtype);
      for (const Tensor& a : {eye(n, dtype), zeros({n, n}, dtype), one, eye(n, dtype) * 3 + one, block,
                              eye(n, n, 1, dtype) + eye(n, n, -1, dtype)})
        check_eigh(a, sent(a), 30 * tolerance(dtype));
      if (!is_complex(dtype)) continue;
      const std::complex<double> i(0, 1);
      check_eigh(eye(n, n, 1, dtype) * i - eye(n, n, -1, dtype) * i + eye(n, dtype),
                 sent(eye(n, n, 1, dtype) * i - eye(n, n, -1, dtype) * i + eye(n, dtype)), 30 * tolerance(dtype));
    }
}

void check_svd(const Tensor& a, const Tensor& x, bool full, double bound) {
  const auto [u, s, vh] = svd(x, {.full_matrices = full});
  const std::string what = name_of_case(a.shape(), a.dtype()) + (full ? " full" : "");
  expect_orthonormal(u, bound, what);
  expect_orthonormal(conj_transpose(vh), bound, what);
  const Tensor values = to(s, cpu);
  const Index k = values.shape(-1);
  const Tensor product =
      matmul(to(u, cpu)(ellipsis, slice(0, k)) * expand_dims(values, -2), to(vh, cpu)(ellipsis, slice(0, k), slice()));
  expect_close(product, a, bound, what);
  expect_close(values, svdvals(a), bound, what);
  expect_close(svdvals(x), values, bound, what);
  const Tensor falls = values(ellipsis, slice(1, none)) <= values(ellipsis, slice(0, -1));
  EXPECT_TRUE(static_cast<bool>(all(falls))) << what;
}

TEST_F(Linalg, SingularValues) {
  for_shapes([&](const Shape& stack, Index m, Index n, Dtype dtype) {
    const Tensor a = random_matrices(10, stack, m, n, dtype);
    for (const bool full : {false, true}) check_svd(a, sent(a), full, 10 * tolerance(dtype));
  });
}

TEST_F(Linalg, SingularValuesOfRankDeficientMatricesAreAccurate) {
  for (const Dtype dtype : dtypes)
    for (const auto& [m, n] : {std::pair<Index, Index>{4, 4}, {7, 3}, {3, 7}, {32, 31}, {33, 5}, {5, 40}}) {
      const Tensor thin = random_matrices(11, {}, m, 2, dtype), wide = random_matrices(12, {}, 2, n, dtype);
      for (const Tensor& a : {matmul(thin, wide), zeros({m, n}, dtype), ones({m, n}, dtype), eye(m, n, 0, dtype)})
        for (const bool full : {false, true}) check_svd(a, sent(a), full, 30 * tolerance(dtype));
    }
}

TEST_F(Linalg, ScaledMatricesGiveScaledResults) {
  for (const Dtype dtype : wide_dtypes)
    for (const Index n : {Index{4}, Index{35}})
      for (const double factor : {1e-150, 1e150, 1e-300, 1e300}) {
        const Tensor x = random_matrices(13, {}, n, n, dtype), a = x + conj_transpose(x), scaled = a * factor;
        expect_close(svdvals(sent(scaled)) / factor, svdvals(a), 1e-10, "svdvals");
        expect_close(eigvalsh(sent(scaled)) / factor, eigvalsh(a), 1e-10, "eigvalsh");
        const auto [q, r] = qr(sent(scaled));
        expect_orthonormal(q, 1e-10, "qr");
        expect_close(matmul(to(q, cpu), to(r, cpu) / factor), a, 1e-10, "qr");
      }
}

TEST_F(Linalg, LeastSquares) {
  for (const Dtype dtype : wide_dtypes)
    for (const auto& [m, n] : {std::pair<Index, Index>{6, 3}, {3, 6}, {40, 5}, {5, 40}, {4, 4}, {0, 3}, {3, 0}}) {
      const Tensor a = random_matrices(14, {3}, m, n, dtype), b = random_matrices(15, {3}, m, 2, dtype);
      expect_close(lstsq(sent(a), sent(b)), lstsq(a, b), 1e-9, name_of_case(a.shape(), dtype));
      expect_close(pinv(sent(a)), pinv(a), 1e-9, name_of_case(a.shape(), dtype));
    }
}

TEST_F(Linalg, Exponentials) {
  for_squares([&](const Shape& stack, Index n, Dtype dtype) {
    for (const double norm : {1e-4, 0.3, 1., 3., 30.}) {
      const Tensor x = random_matrices(16, stack, n, n, dtype),
                   a = (x - conj_transpose(x)) * (norm / static_cast<double>(n));
      expect_close(expm(sent(a)), expm(a), 10 * tolerance(dtype), name_of_case(a.shape(), dtype));
    }
  });
  // exp [0 x; 0 0] = [1 x; 0 1], however large x is. The large x makes the matrix far from normal.
  for (const Dtype dtype : wide_dtypes)
    for (const Index n : {Index{2}, Index{40}}) {
      const Tensor corner = eye(n, n, n - 1, dtype) * 1e6;
      expect_close(expm(sent(corner)), eye(n, dtype) + corner, 1e-12, "corner");
    }
  // exp(i t) = cos t + i sin t
  for (const Index n : {Index{3}, Index{34}}) {
    const Tensor angle = eye(n, complex128) * std::complex<double>(0, 30);
    expect_close(expm(sent(angle)), eye(n, complex128) * std::complex<double>(std::cos(30.), std::sin(30.)), 1e-12,
                 "angle");
  }
  // exp [1 x; 0 -1] = [e x sinh 1; 0 1/e]. Scaling by the size of x alone would lose seven digits
  // (Al-Mohy and Higham, 2009).
  for (const Index n : {Index{2}, Index{34}}) {
    const double x = 1e9;
    const auto corner = [&](double first, double beside, double last) {
      return pad(tensor({{first, beside}, {0., last}}, float64), {{0, n - 2}, {0, n - 2}});
    };
    const Tensor rest = eye(n, float64) - corner(1, 0, 1);
    expect_close(expm(sent(corner(1, x, -1))), corner(std::exp(1.), x * std::sinh(1.), std::exp(-1.)) + rest, 1e-12,
                 "far from normal");
  }
  // Each matrix of the stack is scaled as often as it needs.
  for (const Index n : {Index{3}, Index{34}}) {
    const Tensor rates = from(std::vector{0., -1e3, 2., -1e-9}), a = expand_dims(rates, {1, 2}) * eye(n, float64);
    expect_close(expm(sent(a)), expand_dims(exp(rates), {1, 2}) * eye(n, float64), 1e-12, "diagonal");
  }
}

// ---- errors ------------------------------------------------------------------------------------

class LinalgErrors : public Linalg, public testing::WithParamInterface<Dtype> {};
INSTANTIATE_TEST_SUITE_P(, LinalgErrors, testing::ValuesIn(wide_dtypes),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(LinalgErrors, NameTheFirstMatrix) {
  const Dtype dtype = GetParam();
  for (const Index n : {Index{3}, Index{33}}) {
    const Tensor good = eye(n, dtype), bad = -good, zero = zeros({n, n}, dtype);
    const Tensor stacked = reshape(stack({good, good, good, bad, good, bad}), {2, 3, n, n});
    const auto fails = [](auto f, const char* text) { EXPECT_THAT(f, ThrowsMessage<LinalgError>(HasSubstr(text))); };
    fails([&] { cholesky(sent(stacked)); }, "cholesky: matrix [1,0] of the stack [2,3] is not positive definite");
    fails([&] { cholesky(sent(bad)); }, "cholesky: the matrix is not positive definite");
    const Tensor expected = where(isnan(stacked), 0., cholesky(stacked, {.nan_if_indefinite = true}));
    EXPECT_TRUE(array_equal(isnan(to(cholesky(sent(stacked), {.nan_if_indefinite = true}), cpu)), isnan(expected)));
    const Tensor some = stack({good, zero, good});
    fails([&] { solve(sent(some), sent(ones({3, n, 1}, dtype))); }, "matrix [1] of the stack [3] is singular");
    fails([&] { inv(sent(zero)); }, "the matrix is singular");
    fails(
        [&] {
          triangular_solve(sent(some), sent(ones({3, n, 2}, dtype)));
        },
        "triangular_solve: matrix [1] of the stack [3] is singular: its diagonal has a 0");
    EXPECT_NO_THROW(triangular_solve(sent(some), sent(ones({3, n, 2}, dtype)), {.unit_diagonal = true}));
    // The error is reported only once.
    EXPECT_NO_THROW(inv(sent(good)));
  }
}

TEST_P(LinalgErrors, FailureToConverge) {
  const Tensor a = sent(random_matrices(18, {2}, 33, 33, GetParam()));
  on_host().iteration_ends = false;
  const auto fails = [](auto f, const char* text) { EXPECT_THAT(f, ThrowsMessage<LinalgError>(HasSubstr(text))); };
  fails([&] { eigh(a); }, "eigh: matrix [0] of the stack [2] has a factorization that did not converge");
  fails([&] { eigvalsh(a[1]); }, "eigvalsh: the matrix has a factorization that did not converge");
  fails([&] { svd(a); }, "svd: matrix [0] of the stack [2] has a factorization that did not converge");
  on_host().iteration_ends = true;
  EXPECT_NO_THROW(svd(a));
}

TEST_P(LinalgErrors, NonfiniteMatricesGiveNan) {
  const Dtype dtype = GetParam();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  std::vector<Tensor> elements = {tensor(nan, dtype), tensor(infinity, dtype)};
  if (is_complex(dtype)) elements.push_back(tensor(std::complex<double>(1, nan)));
  for (const Index n : {Index{4}, Index{33}})
    for (const Tensor& what : elements) {
      const Tensor good = positive(17, {}, n, dtype);
      const Tensor a = sent(stack({good, where(eye(n, bool_), what, good), good}));
      const auto expect_middle = [&](const Tensor& x, const char* name) {
        const Tensor nan = isnan(to(x, cpu));
        EXPECT_TRUE(static_cast<bool>(all(nan[1]))) << name << " " << n;
        EXPECT_FALSE(static_cast<bool>(any(nan[0])) || static_cast<bool>(any(nan[2]))) << name << " " << n;
      };
      expect_middle(cholesky(a), "cholesky");
      expect_middle(std::get<0>(lu_factor(a)), "lu");
      expect_middle(det(a), "det");
      expect_middle(slogdet(a).second, "slogdet");
      const auto [q, r] = qr(a);
      expect_middle(q, "q"), expect_middle(r, "r");
      const auto [w, v] = eigh(a);
      expect_middle(w, "w"), expect_middle(v, "v");
      const auto [u, s, vh] = svd(a);
      expect_middle(u, "u"), expect_middle(s, "s"), expect_middle(vh, "vh");
      expect_middle(svdvals(a), "svdvals");
      expect_middle(expm(a / 100), "expm");
    }
}

TEST_F(Linalg, LargeMatricesUseTheLibraryAndItsBatches) {
  const auto calls = [&](auto f) {
    on_host() = {};
    f();
    return std::pair(on_host().solver_calls, on_host().batches);
  };
  using Counts = std::pair<int, int>;
  EXPECT_EQ(calls([&] { cholesky(sent(positive(1, {5}, 32, float32))); }), Counts(0, 0));
  EXPECT_EQ(calls([&] { cholesky(sent(positive(1, {5}, 33, float32))); }), Counts(5, 1));
  EXPECT_EQ(calls([&] { cholesky(sent(positive(1, {2}, 300, float32))); }), Counts(2, 0));
  EXPECT_EQ(calls([&] { svdvals(sent(ones({3, 32, 33}))); }), Counts(3, 0));
  for (const Dtype dtype : {complex64, complex128}) {
    const Tensor a = positive(1, {5}, 33, dtype), small = positive(1, {5}, 32, dtype);
    EXPECT_EQ(calls([&] { cholesky(sent(small)); }), Counts(0, 0));
    EXPECT_EQ(calls([&] { cholesky(sent(a)); }), Counts(5, 1));
    EXPECT_EQ(calls([&] { lu_factor(sent(a)); }), Counts(5, 1));
    EXPECT_EQ(calls([&] { triangular_solve(sent(a), sent(a)); }), Counts(5, 1));
    EXPECT_EQ(calls([&] { qr(sent(a)); }), Counts(10, 0));
    EXPECT_EQ(calls([&] { eigh(sent(a)); }), Counts(5, 0));
    EXPECT_EQ(calls([&] { svd(sent(small)); }), Counts(0, 0));
  }
}

}  // namespace
