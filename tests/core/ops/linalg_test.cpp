// Linear algebra beyond the table: every layout of a matrix in memory, sizes that LAPACK computes,
// stacks, matrices without elements, and matrices without a result.
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stave/stave.h>

#include "linalg.h"
#include "matchers.h"

namespace {

using namespace linalg_test;
using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

const double nan = std::numeric_limits<double>::quiet_NaN();

// ---- every layout, and all sizes ----------------------------------------------------------------

using Results = std::vector<Tensor>;
struct Named {
  const char* name;
  std::function<Results(const Tensor&)> f;
};

/// Functions of matrices [..., n, n]. Every finite matrix that they are tested with is nonsingular.
const std::vector<Named> functions = {
    {"cholesky", [](const Tensor& a) { return Results{cholesky(a)}; }},
    {"solve", [](const Tensor& a) { return Results{solve(a, a * 2 + 1)}; }},
    {"solve the transposed", [](const Tensor& a) { return Results{solve(matrix_transpose(a), a)}; }},
    {"right sides", [](const Tensor& a) { return Results{solve(contiguous(a), a)}; }},
    {"triangular_solve", [](const Tensor& a) { return Results{triangular_solve(a, a, {.lower = true})}; }},
    {"triangular_solve, transpose",
     [](const Tensor& a) { return Results{triangular_solve(a, a, {.transpose = true})}; }},
    {"lu",
     [](const Tensor& a) {
       auto [x, y, z] = lu_factor(a);
       return Results{x, y, z};
     }},
    {"det",
     [](const Tensor& a) {
       return Results{det(a), slogdet(a).second};
     }},
    {"qr",
     [](const Tensor& a) {
       auto [q, r] = qr(a);
       return Results{q, r};
     }},
    {"eigh",
     [](const Tensor& a) {
       auto [w, v] = eigh(a);
       return Results{w, v, eigvalsh(a)};
     }},
    {"svd",
     [](const Tensor& a) {
       auto [u, s, vh] = svd(a);
       return Results{u, s, vh, svdvals(a)};
     }},
    {"lstsq", [](const Tensor& a) { return Results{lstsq(a, a)}; }},
    {"expm", [](const Tensor& a) { return Results{expm(a)}; }},
};

TEST(Layouts, GiveTheResultsOfRowMajorOrder) {
  for (const Index n : {1, 3, 16, 33, 40})
    for (const Dtype dtype : {float32, float64}) {
      const Tensor a = contiguous(positive_matrix({2, n, n}, dtype) + random_matrix({2, n, n}, 4, dtype) * 0.01);
      const Tensor wide = pad(a, {{0, 0}, {0, 0}, {1, 2}}), apart = repeat(repeat(a, 2, -1), 3, -2);
      const std::vector<std::pair<const char*, Tensor>> layouts = {
          {"columns", matrix_transpose(contiguous(matrix_transpose(a)))},
          {"with gaps", wide(ellipsis, slice(1, 1 + n))},
          {"every second", apart(ellipsis, slice(none, none, 3), slice(none, none, 2))},
          {"reversed", flip(contiguous(flip(a)))},
          {"stack last", moveaxis(contiguous(moveaxis(a, 0, -1)), -1, 0)}};
      for (const Named& function : functions) {
        const Results expected = function.f(a);
        for (const auto& [layout, x] : layouts) {
          const Results got = function.f(x);
          for (std::size_t i = 0; i < got.size(); ++i)
            EXPECT_LE(error_of(got[i], expected[i], n), 64)
                << function.name << " " << layout << " " << n << " result " << i;
        }
        const Results both = function.f(broadcast_to(a(0), {3, 2, n, n})), one = function.f(contiguous(a(0)));
        for (std::size_t i = 0; i < both.size(); ++i) {
          ASSERT_EQ(both[i].shape(0), 3) << function.name;
          EXPECT_LE(error_of(both[i](2, 1), one[i], n), 64) << function.name << " repeated " << n;
        }
      }
    }
}

class Sizes : public testing::TestWithParam<std::tuple<Index, Dtype>> {};
INSTANTIATE_TEST_SUITE_P(Linalg, Sizes,
                         testing::Combine(testing::Values(1, 2, 3, 5, 8, 17, 31, 32, 33, 64, 200),
                                          testing::Values(float32, float64)));

TEST_P(Sizes, SystemsAreSolved) {
  const auto [n, dtype] = GetParam();
  const Tensor a = random_matrix({3, n, n}, 5, dtype) + eye(n, dtype) * 4 * std::sqrt(n),
               b = random_matrix({3, n, 2}, 6, dtype);
  EXPECT_LE(error_of(matmul(a, solve(a, b)), b, n), 20);
  EXPECT_LE(error_of(matmul(a, inv(a)), broadcast_to(eye(n, dtype), a.shape()), n), 20);
  EXPECT_LE(error_of(matmul(a, lstsq(a, b)), b, n), 60);
  const auto [p, l, u] = lu(a);
  EXPECT_LE(error_of(matmul(p, l, u), a, n), 8);
  const auto [sign, logarithm] = slogdet(a);
  EXPECT_LE(std::abs(1 - largest(sign * exp(logarithm - slogdet(matrix_transpose(a)).second))), 1e-3);
  if (n <= 17) {
    EXPECT_LE(error_of(sign * exp(logarithm) / det(a), ones_like(sign), n), 200);
  }
}

TEST_P(Sizes, FactorsMultiplyToTheMatrix) {
  const auto [n, dtype] = GetParam();
  const Tensor symmetric = symmetric_matrix({2, n, n}, dtype), positive = positive_matrix({2, n, n}, dtype);
  const Tensor identity = broadcast_to(eye(n, dtype), positive.shape());
  const Tensor l = cholesky(positive);
  EXPECT_LE(error_of(matmul(l, matrix_transpose(l)), positive, n), 4);
  EXPECT_EQ(largest(triu(l, 1)), 0);
  const auto [w, v] = eigh(symmetric);
  EXPECT_LE(error_of(from_diagonal(v, w, matrix_transpose(v)), symmetric, n), 30);
  EXPECT_LE(error_of(matmul(matrix_transpose(v), v), identity, n), 30);
  EXPECT_TRUE(all(w(ellipsis, slice(1, none)) >= w(ellipsis, slice(-1))).item<bool>());
  EXPECT_LE(error_of(eigvalsh(symmetric), w, n), 30);
}

TEST_P(Sizes, FactorsOfRectangularMatricesMultiplyToThem) {
  const auto [n, dtype] = GetParam();
  for (const auto& [rows, columns] :
       {std::pair<Index, Index>{n, n}, {n + 3, n}, {n, n + 2}, {2 * n, n}, {n, 1}, {1, n}}) {
    const Tensor a = random_matrix({2, rows, columns}, 7, dtype);
    const Index k = std::min(rows, columns), longer = std::max(rows, columns);
    const auto orthonormal = [&](const Tensor& q) {
      return error_of(matmul(matrix_transpose(q), q),
                      broadcast_to(eye(q.shape(-1), q.dtype()), {2, q.shape(-1), q.shape(-1)}), longer);
    };
    for (const bool full : {false, true}) {
      const auto [u, s, vh] = svd(a, {.full_matrices = full});
      ASSERT_EQ(u.shape(), Shape(2, rows, full ? rows : k));
      ASSERT_EQ(vh.shape(), Shape(2, full ? columns : k, columns));
      EXPECT_LE(error_of(from_diagonal(u(ellipsis, slice(k)), s, vh(ellipsis, slice(k), slice())), a, longer), 30);
      EXPECT_LE(orthonormal(u), 30) << rows << " " << columns;
      EXPECT_LE(orthonormal(matrix_transpose(vh)), 30) << rows << " " << columns;
      EXPECT_TRUE(all(s(ellipsis, slice(1, none)) <= s(ellipsis, slice(-1))).item<bool>());
      EXPECT_LE(error_of(svdvals(a), s, longer), 30);
      const auto [q, r] = qr(a, {.complete = full});
      ASSERT_EQ(q.shape(), Shape(2, rows, full ? rows : k));
      ASSERT_EQ(r.shape(), Shape(2, full ? rows : k, columns));
      EXPECT_LE(error_of(matmul(q, r), a, longer), 30);
      EXPECT_LE(orthonormal(q), 30);
      EXPECT_EQ(largest(tril(r, -1)), 0);
    }
    const auto [p, l, u] = lu(a);
    EXPECT_LE(error_of(matmul(p, l, u), a, longer), 8);
    const Tensor inverse = pinv(a);
    EXPECT_LE(error_of(matmul(a, inverse, a), a, longer), 100);
    EXPECT_THAT(matrix_rank(a), Equals(full({2}, k, int32)));
  }
}

TEST(Large, ResidualsAreSmall) {
  const Index n = 512;
  const Tensor a = random_matrix({n, n}), s = symmetric_matrix({n, n});
  EXPECT_LE(error_of(matmul(a, solve(a, s)), s, n), 1000);
  const auto [w, v] = eigh(s);
  EXPECT_LE(error_of(from_diagonal(v, w, matrix_transpose(v)), s, n), 1);
  const auto [u, values, vh] = svd(a);
  EXPECT_LE(error_of(from_diagonal(u, values, vh), a, n), 1);
  EXPECT_LE(error_of(sum(log(values)), slogdet(a).second, n), 10);
  const auto [q, r] = qr(a);
  EXPECT_LE(error_of(matmul(q, r), a, n), 1);
  // BLAS uses its own threads for this size.
  const Tensor p = positive_matrix({2100, 2100}, float32), l = cholesky(p);
  EXPECT_LE(error_of(matmul(l, matrix_transpose(l)), p, 2100), 1);
}

TEST(Stacks, OfManyMatricesHaveSmallResiduals) {
  const Tensor a = random_matrix({20000, 3, 3}), b = random_matrix({20000, 3}, 9);
  const Tensor x = solve(a, expand_dims(b, -1));
  EXPECT_LE(largest(matmul(a, x) - expand_dims(b, -1)), 1e-9);
  EXPECT_LE(
      largest(det(a) - sum(a(ellipsis, 0, slice()) * cross(a(ellipsis, 1, slice()), a(ellipsis, 2, slice())), -1)),
      1e-12);
  const auto [w, v] = eigh(a);
  EXPECT_LE(largest(from_diagonal(v, w, matrix_transpose(v)) - (a + matrix_transpose(a)) * 0.5), 1e-13);
  // LAPACK computes these matrices in parallel.
  const Tensor middle = symmetric_matrix({30, 40, 40});
  const auto [values, vectors] = eigh(middle);
  EXPECT_LE(largest(from_diagonal(vectors, values, matrix_transpose(vectors)) - middle), 1e-12);
}

// ---- empty matrices -----------------------------------------------------------------------------

TEST(Empty, MatricesAndStacksAreAccepted) {
  const Tensor none_by_none = zeros({2, 0, 0});
  EXPECT_THAT(det(none_by_none), Equals(ones({2})));
  EXPECT_THAT(slogdet(none_by_none).second, Equals(zeros({2})));
  EXPECT_EQ(inv(none_by_none).shape(), Shape(2, 0, 0));
  EXPECT_EQ(cholesky(zeros({0, 3, 3})).shape(), Shape(0, 3, 3));
  EXPECT_EQ(solve(none_by_none, zeros({2, 0, 4})).shape(), Shape(2, 0, 4));
  EXPECT_EQ(solve(eye(3), zeros({3, 0})).shape(), Shape(3, 0));
  EXPECT_EQ(solve(eye(3), zeros({0, 3, 2})).shape(), Shape(0, 3, 2));
  EXPECT_THAT(lstsq(zeros({0, 3}), zeros({0, 2})), Equals(zeros({3, 2})));
  EXPECT_THAT(lstsq(zeros({3, 0}), ones({3})), Equals(zeros({0})));
  EXPECT_EQ(pinv(zeros({4, 0, 3})).shape(), Shape(4, 3, 0));
  const auto [u, s, vh] = svd(zeros({3, 0}));
  EXPECT_THAT(u, Equals(eye(3)));
  EXPECT_EQ(s.shape(), Shape(0));
  EXPECT_EQ(vh.shape(), Shape(0, 0));
  const auto [q, r] = qr(zeros({3, 0}), {.complete = true});
  EXPECT_THAT(q, Equals(eye(3)));
  EXPECT_EQ(r.shape(), Shape(3, 0));
  EXPECT_EQ(qr(zeros({0, 3})).second.shape(), Shape(0, 3));
  EXPECT_EQ(eigh(none_by_none).first.shape(), Shape(2, 0));
  EXPECT_EQ(eigvalsh(zeros({0, 2, 2})).shape(), Shape(0, 2));
  EXPECT_THAT(std::get<2>(lu_factor(zeros({2, 0}))), Equals(tensor({0, 1})));
  EXPECT_EQ(expm(none_by_none).shape(), Shape(2, 0, 0));
  EXPECT_THAT(matrix_rank(zeros({2, 0, 3})), Equals(tensor({0, 0})));
  EXPECT_EQ(matrix_norm(zeros({0, 3}), "nuc").item<float>(), 0);
  EXPECT_EQ(matrix_power(none_by_none, 0).shape(), Shape(2, 0, 0));
  for (const Named& function : functions) {
    const auto of_sum = [&](const Tensor& x) {
      Tensor total = zeros({});
      for (const Tensor& y : function.f(x))
        if (is_float(y.dtype())) total = total + sum(y);
      return total;
    };
    EXPECT_EQ(grad(of_sum)(zeros({2, 0, 0})).shape(), Shape(2, 0, 0)) << function.name;
    EXPECT_EQ(grad(of_sum)(zeros({0, 4, 4})).shape(), Shape(0, 4, 4)) << function.name;
  }
}

// ---- errors -------------------------------------------------------------------------------------

TEST(Errors, NameTheMatrixOfTheStack) {
  const Tensor one_bad = stack({eye(2), zeros({2, 2}), eye(2)});
  const auto says = [](const std::string& text) { return ThrowsMessage<LinalgError>(HasSubstr(text)); };
  EXPECT_THAT([&] { solve(one_bad, ones({2, 1})); }, says("solve: matrix [1] of the stack [3] is singular"));
  EXPECT_THAT([&] { inv(reshape(one_bad, {3, 1, 2, 2})); }, says("inv: matrix [1,0] of the stack [3,1] is singular"));
  EXPECT_THAT([&] { inv(tensor({{1., 2.}, {2., 4.}})); }, says("inv: the matrix is singular"));
  EXPECT_THAT([&] { matrix_power(zeros({2, 2}), -1); }, says("matrix_power: the matrix is singular"));
  EXPECT_THAT([&] { triangular_solve(one_bad, ones({2})); },
              says("triangular_solve: matrix [1] of the stack [3] is singular: its diagonal has a 0"));
  EXPECT_THAT([&] { cholesky(-one_bad); }, says("cholesky: matrix [0] of the stack [3] is not positive definite"));
  EXPECT_THAT([&] { cholesky(zeros({40, 40})); }, says("cholesky: the matrix is not positive definite"));
  EXPECT_THAT([&] { inv(zeros({40, 40})); }, says("inv: the matrix is singular"));
  EXPECT_THAT([&] { vmap([](const Tensor& a) { return inv(a); })(one_bad); },
              says("inv: the matrix is singular\n  inside vmap, lane 1 of 3"));
  EXPECT_THAT(
      [&] {
        grad([](const Tensor& a) { return slogdet(a).second; })(zeros({2, 2}));
      },
      says("inv: the matrix is singular"));
  EXPECT_NO_THROW(triangular_solve(zeros({2, 2}), ones({2}), {.unit_diagonal = true}));
}

TEST(Errors, NameMismatchedShapes) {
  const auto says = [](const std::string& text) { return ThrowsMessage<ShapeError>(HasSubstr(text)); };
  EXPECT_THAT([] { cholesky(ones({2, 3})); }, says("cholesky: shape [2,3] is not of square matrices"));
  EXPECT_THAT([] { det(ones({2})); }, says("det: shape [2] has fewer than the 2 axes of a matrix"));
  EXPECT_THAT([] { solve(eye(2), ones({3})); },
              says("solve: right sides [3] do not fit matrices [2,2]: they need 2 rows"));
  EXPECT_THAT([] { solve(ones({2, 3}), ones({2})); }, says("solve: shape [2,3] is not of square matrices"));
  EXPECT_THAT([] { solve(ones({3, 2, 2}), ones({4, 2, 1})); }, says("solve: "));
  EXPECT_THAT([] { lstsq(eye(2), tensor(1.)); }, says("lstsq: the right side is a number"));
  EXPECT_THAT([] { matrix_norm(eye(2), 3); }, ThrowsMessage<Error>(HasSubstr("there is no order 3")));
  EXPECT_THAT([] { matrix_norm(eye(2), "frobenius"); },
              ThrowsMessage<Error>(HasSubstr("there is no order \"frobenius\"")));
  EXPECT_THAT([] { inv(Tensor()); }, ThrowsMessage<TransformError>(HasSubstr("inv: operand 0 is an empty Tensor")));
  EXPECT_THAT([] { apply(op_det, {eye(2, float16)}); },
              ThrowsMessage<DtypeError>(HasSubstr("det: float16 is neither float32 nor float64")));
}

TEST(Cholesky, GivesNanIfAsked) {
  const Tensor x = cholesky(stack({eye(2) * 4, -eye(2)}), {.nan_if_indefinite = true});
  EXPECT_THAT(x(0), Equals(eye(2) * 2));
  EXPECT_TRUE(all(isnan(x(1))).item<bool>());
  EXPECT_TRUE(all(isnan(cholesky(-eye(50), {.nan_if_indefinite = true}))).item<bool>());
}

TEST(NotFinite, InputsGiveNanAndIterationsEnd) {
  for (const double bad : {nan, infinity})
    for (const Index n : {2, 5, 40}) {
      const Tensor x = where(eye(n, bool_) * (arange(n) == n - 1), bad, eye(n, float64) * 2);
      for (const Named& function : functions) {
        // The triangular solvers are plain arithmetic and do not turn the whole result into NaN.
        if (std::string(function.name).starts_with("triangular")) continue;
        const Results found = function.f(stack({x, eye(n, float64) * 2}));
        const bool sides = std::string(function.name) == "right sides";
        if (!sides) {
          EXPECT_TRUE(all(isnan(found[0](0))).item<bool>()) << function.name << " " << n;
        }
        EXPECT_FALSE(any(isnan(found[0](1))).item<bool>()) << function.name << " " << n;
      }
      EXPECT_TRUE(isnan(slogdet(x).first).item<bool>());
      EXPECT_TRUE(isnan(matrix_norm(x, 2)).item<bool>());
      EXPECT_TRUE(all(isnan(pinv(x))).item<bool>());
    }
}

TEST(Extremes, NeitherOverflowNorUnderflow) {
  for (const double unit : {1e-200, 1e200}) {
    const Tensor a = symmetric_matrix({4, 4}) * unit;
    const auto [w, v] = eigh(a);
    EXPECT_LE(largest(from_diagonal(v, w, matrix_transpose(v)) - a), 1e-14 * unit);
    const auto [u, s, vh] = svd(a);
    EXPECT_LE(largest(from_diagonal(u, s, vh) - a), 1e-14 * unit);
    const auto [q, r] = qr(a);
    EXPECT_LE(largest(matmul(q, r) - a), 1e-14 * unit);
    EXPECT_LE(largest(matmul(a, inv(a)) - eye(4, float64)), 1e-12);
    EXPECT_NEAR(vector_norm(full({8}, unit, float64), 3).item<double>() / unit, 2, 1e-14);
  }
  const Tensor d = doubles({{1e-200, 0, 0}, {0, 1e-200, 0}, {0, 0, 1e300}});
  EXPECT_NEAR(det(d).item<double>() / 1e-100, 1, 1e-14);
  EXPECT_NEAR(slogdet(eye(300, float64) * 1e-10).second.item<double>(), 300 * std::log(1e-10), 1e-9);
}

}  // namespace
