// Linear algebra beyond the table: every layout of a matrix in memory, sizes that LAPACK computes,
// stacks, matrices without elements, matrices without a result, repeated eigenvalues and singular
// values, and reference values of NumPy 2.4, SciPy 1.17 and JAX 0.10.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stave/stave.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();

Tensor doubles(std::initializer_list<NestedList> entries) { return tensor(entries, float64); }
Tensor random_matrix(const Shape& shape, std::uint64_t seed = 1, Dtype dtype = float64) {
  return normal(Key(seed), shape, dtype);
}
Tensor positive_matrix(const Shape& shape, Dtype dtype = float64) {
  const Tensor x = random_matrix(shape, 2, dtype);
  return matmul(x, matrix_transpose(x)) / shape.back() + eye(shape.back(), dtype);
}
Tensor symmetric_matrix(const Shape& shape, Dtype dtype = float64) {
  const Tensor x = random_matrix(shape, 3, dtype);
  return (x + matrix_transpose(x)) * 0.5;
}
double largest(const Tensor& x) { return x.size() == 0 ? 0 : max(abs(astype(x, float64))).item<double>(); }
/// The largest |x - y| in units of epsilon times n, relative to the largest |y| if that exceeds 1.
double error_of(const Tensor& x, const Tensor& y, Index n) {
  const double epsilon = x.dtype() == float64 ? 0x1p-52 : 0x1p-23;
  return largest(x - y) / (epsilon * static_cast<double>(n) * std::max(1., largest(y)));
}
Tensor from_diagonal(const Tensor& u, const Tensor& s, const Tensor& vh) { return matmul(u * expand_dims(s, -2), vh); }

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

TEST(Layouts, GiveWhatRowsGive) {
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

TEST_P(Sizes, OfAnyShape) {
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

TEST(Stacks, OfManyMatrices) {
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

// ---- nothing ------------------------------------------------------------------------------------

TEST(Empty, MatricesAndStacks) {
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

// ---- no result ----------------------------------------------------------------------------------

TEST(Errors, SayWhichMatrix) {
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

TEST(Errors, SayWhatDoesNotFit) {
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

TEST(NotFinite, GivesNanAndComesToAnEnd) {
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

TEST(Extremes, NeitherOverflowNorVanish) {
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

// ---- figures ------------------------------------------------------------------------------------

Tensor hilbert(Index n) {
  const Tensor i = arange(0, n, 1, float64);
  return 1 / (expand_dims(i, 1) + i + 1);
}
const Tensor symmetric_4 = doubles({{4, 1, -2, 2}, {1, 2, 0, 1}, {-2, 0, 3, -2}, {2, 1, -2, -1}});
const Tensor tall = doubles({{1, 2, 0}, {-1, 1, 3}, {2, 0, 1}, {0, 1, -2}});
const Tensor positive_4 =
    doubles({{6, 1.6, -3.6, 2.2}, {1.6, 2.2, -.8, .6}, {-3.6, -.8, 4.4, -1.6}, {2.2, .6, -1.6, 3}});

// The expected values are those of scipy.linalg.invhilbert(6), numpy.linalg.det and eigvalsh.
TEST(Figures, Hilbert) {
  const Tensor h = hilbert(6);
  EXPECT_NEAR(det(h).item<double>() / 5.367299887358688e-18, 1, 1e-9);  // 1 / 186313420339200000
  EXPECT_THAT(inv(h)(0), IsNear(doubles({36, -630, 3360, -7560, 7560, -2772}), 1e-6));
  EXPECT_THAT(eigvalsh(h), IsNear(doubles({1.0827994845192786e-07, 1.2570757122630690e-05, 6.1574835418259379e-04,
                                           1.6321521319875708e-02, 2.4236087057520930e-01, 1.6188998589243386e+00}),
                                  1e-15));
}

// The expected values are those of numpy.linalg.norm, matrix_power, lstsq and pinv,
// and of scipy.linalg.expm and lu_factor.
TEST(Figures, NumpyAndScipy) {
  const std::vector<std::pair<MatrixOrder, double>> norms = {
      {"fro", 5.0990195135927845}, {"nuc", 8.603303031567792}, {infinity, 5}, {-infinity, 3}, {1, 6}, {-1, 4},
      {2, 3.7705424763591124},     {-2, 2.187009244144089}};
  for (const auto& [order, expected] : norms) EXPECT_NEAR(matrix_norm(tall, order).item<double>(), expected, 1e-14);
  EXPECT_EQ(matrix_norm(tall, 2, keepdims).shape(), Shape(1, 1));
  EXPECT_THAT(
      matrix_power(symmetric_4, -3)(0),
      IsNear(doubles({0.32566679170039287, -0.26294592620377855, 0.2756006554399542, -0.05616646595463249}), 1e-14));
  EXPECT_THAT(matrix_power(tensor({{1, 1}, {1, 0}}), 30), Equals(tensor({{1346269, 832040}, {832040, 514229}})));
  EXPECT_THAT(expm(doubles({{0, 6, 0}, {-6, 0, 1}, {1, 2, -3}})),
              IsNear(doubles({{9.4945053397487322e-01, -4.4964409772446196e-01, -1.4993140192923202e-01},
                              {4.2465553073625673e-01, 8.9947339999846232e-01, 2.5018010538968925e-05},
                              {2.9988782186900298e-01, -1.4988136590815399e-01, -1.9006560854660786e-04}}),
                     1e-13));
  EXPECT_THAT(
      expm(doubles({{-49, 24}, {-64, 31}})),
      IsNear(doubles({{-0.7357587581447559, 0.5518190996580998}, {-1.4715175990882672, 1.1036382407155778}}), 1e-10));
  const auto [packed, exchanges, order] = lu_factor(tall(slice(3)));
  EXPECT_THAT(packed, IsNear(doubles({{2, 0, 1}, {0.5, 2, -0.5}, {-0.5, 0.5, 3.75}}), 1e-15));
  EXPECT_THAT(exchanges, Equals(tensor({2, 2, 2})));
  EXPECT_THAT(order, Equals(tensor({2, 0, 1})));
  const auto [q, r] = qr(tall, {.complete = true});
  EXPECT_THAT(q(0, slice(3)), IsNear(doubles({-0.40824829046386313, -0.7590721152765899, 0.05423261445466395}), 1e-14));
  EXPECT_THAT(diagonal(r), IsNear(doubles({-2.449489742783178, -2.41522945769824, -3.687817782917155}), 1e-14));
}

TEST(Figures, OfLessRank) {
  const Tensor a = doubles({{1, 2, 3}, {2, 4, 6}, {1, 0, 1}, {0, 2, 2}}), b = doubles({1, 2, 4, 3});
  EXPECT_EQ(matrix_rank(a).item<int>(), 2);
  EXPECT_THAT(lstsq(a, b), IsNear(doubles({0.8030303030303038, -0.3333333333333337, 0.4696969696969698}), 1e-14));
  EXPECT_THAT(pinv(a), IsNear(doubles({{1. / 22, 1. / 11, 29. / 66, -13. / 33},
                                       {0, 0, -1. / 3, 1. / 3},
                                       {1. / 22, 1. / 11, 7. / 66, -2. / 33}}),
                              1e-14));
  EXPECT_EQ(matrix_rank(doubles({{1, 0, 0}, {0, 1e-3, 0}, {0, 0, 1e-9}}), {.rtol = 1e-6}).item<int>(), 2);
  EXPECT_EQ(matrix_rank(zeros({3, 3})).item<int>(), 0);
}

// The expected values are those of jax.grad and jax.hessian in float64.
TEST(Figures, JaxDerivatives) {
  const auto of_eigh = [](const Tensor& a) {
    const auto [w, v] = eigh(a);
    return sum(square(v(slice(), 0)) * arange(1, 5, 1, float64)) + sum(sin(w));
  };
  EXPECT_THAT(grad(of_eigh)(symmetric_4),
              IsNear(doubles({{0.605539091796025, -0.12961004065961063, -0.2465049294302063, 0.21621289641507982},
                              {-0.12961004065961063, -0.2196629934058487, -0.5181607954269888, 0.14789237300264468},
                              {-0.2465049294302063, -0.5181607954269888, 0.1307972120979668, -0.359454342772211},
                              {0.21621289641507982, 0.14789237300264468, -0.359454342772211, -0.4316826552936849}}),
                     1e-13));
  const auto of_svd = [](const Tensor& a) {
    const auto [u, s, vh] = svd(a, {.full_matrices = false});
    return sum(square(u(slice(), 0)) * arange(1, 5, 1, float64)) + sum(log(s)) +
           sum(matmul(u, vh) * reshape(arange(0, 12, 1, float64), {4, 3}) / 7);
  };
  EXPECT_THAT(grad(of_svd)(tall), IsNear(doubles({{-0.11744866373935958, 0.012931260303664538, -0.19253594551757314},
                                                  {0.054295796189887446, -0.07212366791579147, 0.08727838855852163},
                                                  {0.5572040351259431, 0.012815613228908757, 0.49610401747478555},
                                                  {0.3996936763505609, 0.7738192372468213, -0.2859195582943255}}),
                                         1e-13));
  const auto of_qr = [](const Tensor& a) {
    const auto [q, r] = qr(a);
    return sum(q * reshape(arange(0, 12, 1, float64), {4, 3})) + sum(r * r * r);
  };
  EXPECT_THAT(grad(of_qr)(tall), IsNear(doubles({{-3.335735185114668, -12.163080684330694, 3.043809423555063},
                                                 {2.481524683101846, -2.137109152258195, -29.89590974542802},
                                                 {-19.136777750940347, 4.400613330340452, -17.082232020187334},
                                                 {2.316563546285717, -16.007369134031542, 21.913506132697187}}),
                                        1e-12));
  const auto of_cholesky = [](const Tensor& a) {
    return sum(cholesky(a) * reshape(arange(0, 16, 1, float64), {4, 4}));
  };
  EXPECT_THAT(grad(of_cholesky)(positive_4),
              IsNear(doubles({{-0.33606774368048353, 0.5826362574157826, 1.29798497826823, 2.6167883509014898},
                              {0.5826362574157826, 1.576059671023864, 2.975851452184466, 4.361150770589798},
                              {1.29798497826823, 2.975851452184466, 4.025963463566233, 5.337343294030287},
                              {2.6167883509014898, 4.361150770589798, 5.337343294030287, 5.105819534934313}}),
                     1e-13));
  const auto log_det = [](const Tensor& a) { return slogdet(a).second; };
  EXPECT_THAT(
      hessian(log_det)(positive_4)(0, 1),
      IsNear(doubles({{0.0726646670177671, -0.029987731985690453, 0.04565944002161187, -0.022938174737698123},
                      {-0.23822973110888201, 0.09831420992776997, -0.14969360715946167, 0.07520237034257994},
                      {0.017476312320728785, -0.007212239338330611, 0.010981384308995252, -0.005516776202737521},
                      {0.003679223646469216, -0.0015183661764906545, 0.0023118703808411045, -0.0011614265689973726}}),
             1e-14));
}

TEST(Expm, OfWhatIsFarFromNormal) {
  for (const double far : {1e3, 1e6, 1e10}) {  // The result is [e, far sinh(1); 0, 1 / e].
    const Tensor x = expm(doubles({{1, far}, {0, -1}}));
    EXPECT_NEAR(x(0, 0).item<double>(), std::exp(1.), 1e-14);
    EXPECT_NEAR(x(0, 1).item<double>() / far, std::sinh(1.), 1e-14);
    EXPECT_NEAR(x(1, 1).item<double>(), std::exp(-1.), 1e-14);
    EXPECT_NEAR(expm(tensor({{1., far}, {0., -1.}}))(0, 0).item<float>(), std::exp(1.f), 2e-6);
  }
  EXPECT_THAT(expm(doubles({{0, 1e200}, {0, 0}})), Equals(doubles({{1, 1e200}, {0, 1}})));
  EXPECT_THAT(expm(doubles({{-1e80, 0}, {0, -1e80}})), Equals(zeros({2, 2}, float64)));
  EXPECT_THAT(expm(tensor({{-1e30, 1.}, {0., -1e30}})), Equals(zeros({2, 2})));
  // The result is a rotation. The error may grow with the norm of the argument.
  for (const double turns : {1., 100., 1e4}) {
    const double angle = 2 * M_PI * turns + 0.5;
    const Tensor x = expm(doubles({{0, -angle}, {angle, 0}}));
    EXPECT_NEAR(x(1, 0).item<double>(), std::sin(0.5), 1e-14 * std::max(1., angle));
  }
}

// ---- determinants of singular matrices ----------------------------------------------------------

// The matrix of cofactors, from the determinants of `a` without one row and one column.
Tensor cofactors_of(const Tensor& a) {
  const Index n = a.shape(-1);
  std::vector<Tensor> entries;
  for (Index r = 0; r < n; ++r)
    for (Index c = 0; c < n; ++c) {
      const Tensor without_row = concat({a(slice(r)), a(slice(r + 1, none))});
      const Tensor rest = concat({without_row(slice(), slice(c)), without_row(slice(), slice(c + 1, none))}, 1);
      entries.push_back(det(rest) * ((r + c) % 2 == 0 ? 1 : -1));
    }
  return reshape(stack(entries), {n, n});
}

TEST(Det, HasCofactorsAsGradientAtAnyRank) {
  for (const Index n : {1, 2, 3, 4, 5, 6})
    for (Index rank = 0; rank <= n; ++rank) {
      const Tensor a = matmul(random_matrix({n, rank}, 11), random_matrix({rank, n}, 12));
      EXPECT_THAT(grad([](const Tensor& x) { return det(x); })(a), IsNear(cofactors_of(a), 1e-10)) << n << " " << rank;
    }
}

// det is a polynomial of degree n along any line, so its values give its first three derivatives.
TEST(Det, HasHigherDerivativesAtAnyRank) {
  for (const Index n : {3, 4, 5, 7})
    for (const Index rank : {0, 1, 2, 3, 4, 5, 7}) {
      if (rank > n) continue;
      const Tensor a = matmul(random_matrix({n, rank}, 13), random_matrix({rank, n}, 14)),
                   e = random_matrix({n, n}, 15);
      const auto along = [&](const Tensor& t) { return det(a + t * e); };
      const auto first = grad(along);
      const auto second = grad(first);
      const auto third = grad(second);
      // The coefficients come from interpolation at n + 1 points.
      std::vector<Tensor> powers, values;
      for (Index i = 0; i <= n; ++i) {
        const double t = std::cos(M_PI * (static_cast<double>(i) + 0.5) / static_cast<double>(n + 1));
        powers.push_back(pow(tensor(t, float64), arange(0, n + 1, 1, float64)));
        values.push_back(det(a + tensor(t, float64) * e));
      }
      const Tensor c = solve(stack(powers), stack(values));
      const double scale = std::max(1., largest(c)), tolerance = 1e-9 * scale;
      const Tensor zero = tensor(0., float64);
      EXPECT_NEAR(first(zero).item<double>(), c(1).item<double>(), tolerance) << n << " " << rank;
      EXPECT_NEAR(second(zero).item<double>(), 2 * c(2).item<double>(), tolerance) << n << " " << rank;
      EXPECT_NEAR(third(zero).item<double>(), 6 * c(3).item<double>(), tolerance) << n << " " << rank;
    }
}

TEST(Det, OfNothingAndOfSingular) {
  EXPECT_EQ(det(zeros({3, 3})).item<float>(), 0);
  const auto [sign, logarithm] = slogdet(doubles({{1, 2}, {2, 4}}));
  EXPECT_EQ(sign.item<double>(), 0);
  EXPECT_EQ(logarithm.item<double>(), -infinity);
  EXPECT_THAT(grad([](const Tensor& x) { return det(x); })(zeros({0, 0})), Equals(zeros({0, 0})));
}

// ---- values that repeat -------------------------------------------------------------------------

TEST(Repeated, SumsOfEigenvaluesAreSmooth) {
  const Tensor q = qr(random_matrix({5, 5}, 21)).first;
  const Tensor a = from_diagonal(q, doubles({1, 1, 1, 3, 3}), matrix_transpose(q));
  const auto trace_of = [](const Tensor& x) { return sum(eigh(x).first); };
  EXPECT_THAT(grad(trace_of)(a), IsNear(eye(5, float64), 1e-13));
  EXPECT_LE(largest(hessian(trace_of)(a)), 1e-12);
  // The projection onto the eigenspace of the value 1 has the derivative dp = p_1 e p_3 / (1 - 3)
  // plus its transpose, where p_1 and p_3 project onto the two eigenspaces.
  const auto projection = [](const Tensor& x) {
    const Tensor v = eigh(x).second(slice(), slice(3));
    return matmul(v, matrix_transpose(v));
  };
  const Tensor e = symmetric_matrix({5, 5}), p = projection(a), other = eye(5, float64) - p;
  const Tensor expected = matmul(p, e, other) / -2;
  EXPECT_THAT(jvp(projection, a, e).second, IsNear(expected + matrix_transpose(expected), 1e-13));
  // Compares second derivatives with differences, along a direction that
  // does not split the eigenvalues.
  const Tensor apart = e - matmul(p, e, p) - matmul(other, e, other) + p * 0.3;
  const auto weighed = [&](const Tensor& t) { return sum(projection(a + t * apart) * random_matrix({5, 5}, 22)); };
  const auto slope = grad(weighed);
  const double h = 1e-3;
  const double difference = (slope(tensor(h, float64)) - slope(tensor(-h, float64))).item<double>() / (2 * h);
  EXPECT_NEAR(grad(slope)(tensor(0., float64)).item<double>(), difference, 1e-4);
}

TEST(Repeated, PolarFactorsAreSmooth) {
  const auto polar = [](const Tensor& x) {
    const auto [u, s, vh] = svd(x, {.full_matrices = false});
    return matmul(u, vh);
  };
  // The singular values are 2, 2, 2.
  const Tensor a = eye(4, 3, 0, float64) * 2, e = random_matrix({4, 3}, 23);
  // The derivative at [2; 0] is the skew part of the square block, divided by 2 + 2,
  // and the rows below divided by 2.
  const Tensor top = e(slice(3)), expected = concat({(top - matrix_transpose(top)) / 4, e(slice(3, none)) / 2});
  EXPECT_THAT(jvp(polar, a, e).second, IsNear(expected, 1e-14));
  EXPECT_THAT(grad([&](const Tensor& x) { return sum(svdvals(x)); })(a), IsNear(eye(4, 3, 0, float64), 1e-14));
  EXPECT_THAT(grad([&](const Tensor& x) { return sum(std::get<1>(svd(x))); })(a), IsNear(eye(4, 3, 0, float64), 1e-14));
}

TEST(Repeated, ZeroIsFinite) {
  const Tensor zero = zeros({3, 2}, float64);
  for (const MatrixOrder order :
       {MatrixOrder("fro"), MatrixOrder("nuc"), MatrixOrder(2), MatrixOrder(-2), MatrixOrder(1), MatrixOrder(infinity)})
    EXPECT_TRUE(all(isfinite(grad([&](const Tensor& x) { return matrix_norm(x, order); })(zero))).item<bool>());
  for (const double order : {1., 2., 3., 0.5, -1., infinity})
    EXPECT_THAT(grad([&](const Tensor& x) { return vector_norm(x, order); })(zeros({3}, float64)),
                Equals(zeros({3}, float64)))
        << order;
  EXPECT_THAT(grad([](const Tensor& x) { return sum(pinv(x)); })(zero), Equals(zero));
}

// The derivatives are taken along a direction in which the rank stays the same.
TEST(PseudoInverse, HasTheDerivativeOfItsRank) {
  const Tensor x = random_matrix({5, 2}, 31), y = random_matrix({2, 4}, 32), dx = random_matrix({5, 2}, 33),
               dy = random_matrix({2, 4}, 34);
  const Tensor b = random_matrix({5, 3}, 35);
  const auto along = [&](const Tensor& t) { return matmul(x + t * dx, y + t * dy); };
  const auto solution = [&](const Tensor& t) { return sum(square(lstsq(along(t), b))) + sum(pinv(along(t)) * 0.5); };
  const auto exact = [&](double t) {  // (x y)^+ = y^+ x^+ if both have full rank
    const Tensor left = x + dx * t, right = y + dy * t;
    const Tensor inverse = matmul(matmul(matrix_transpose(right), inv(matmul(right, matrix_transpose(right)))),
                                  matmul(inv(matmul(matrix_transpose(left), left)), matrix_transpose(left)));
    return (sum(square(matmul(inverse, b))) + sum(inverse) * 0.5).item<double>();
  };
  const Tensor zero = tensor(0., float64);
  const double h = 1e-5, g = 1e-3;
  EXPECT_NEAR(solution(zero).item<double>(), exact(0), 1e-11);
  EXPECT_NEAR(grad(solution)(zero).item<double>(), (exact(h) - exact(-h)) / (2 * h), 1e-5);
  EXPECT_NEAR(jvp(solution, zero, ones({}, float64)).second.item<double>(), (exact(h) - exact(-h)) / (2 * h), 1e-5);
  const double second = (exact(g) - 2 * exact(0) + exact(-g)) / (g * g);
  EXPECT_NEAR(grad(grad(solution))(zero).item<double>(), second, 1e-3 * std::max(1., std::abs(second)));
}

// ---- transforms, dtypes -------------------------------------------------------------------------

TEST(Solve, OfOneMatrixAndManyLanesIsOneSystem) {
  const Tensor a = random_matrix({5, 5}, 41), b = random_matrix({7, 5}, 42);
  const Tensor each = vmap([&](const Tensor& side) { return solve(a, side); })(b);
  EXPECT_THAT(each, IsNear(matrix_transpose(solve(a, matrix_transpose(b))), 1e-12));
  EXPECT_THAT(solve(a, reshape(b, {7, 5, 1}))(slice(), slice(), 0), IsNear(each, 1e-12));
  // The derivative by the matrix is the sum over the lanes.
  const auto total = [&](const Tensor& m) {
    return sum(square(vmap([&](const Tensor& side) { return solve(m, side); })(b)));
  };
  const auto plain = [&](const Tensor& m) { return sum(square(solve(m, matrix_transpose(b)))); };
  EXPECT_THAT(grad(total)(a), IsNear(grad(plain)(a), 1e-9 * largest(grad(plain)(a))));
}

TEST(Solve, TakesItsFactorsOnce) {
  struct Count : Handler {
    int factored = 0;
    Outputs handle(Call& call) override {
      factored += call.op().id == OpId::lu;
      return perform(std::move(call));
    }
  } count;
  const Tensor a = random_matrix({4, 4}, 43), b = random_matrix({4}, 44);
  with(count, [&] { hessian([&](const Tensor& x) { return sum(square(solve(x, b))); })(a); });
  EXPECT_EQ(count.factored, 1);
}

TEST(Halves, AreComputedInFloat32AndRoundedOnce) {
  const Tensor a = astype(positive_matrix({4, 4}), float16), b = astype(random_matrix({4}), float16);
  EXPECT_THAT(solve(a, b), Equals(astype(solve(astype(a, float32), astype(b, float32)), float16)));
  EXPECT_THAT(expm(a), Equals(astype(expm(astype(a, float32)), float16)));
  EXPECT_EQ(std::get<1>(svd(astype(a, bfloat16))).dtype(), bfloat16);
  EXPECT_EQ(det(tensor({{1, 2}, {3, 4}})).dtype(), float32);
  EXPECT_NEAR(det(tensor({{1, 2}, {3, 4}})).item<float>(), -2, 1e-6);
  EXPECT_EQ(solve(tensor({{2, 0}, {0, 4}}), astype(ones({2}), float64)).dtype(), float64);
}

TEST(Errors, OfDerivativesThatAreNone) {
  EXPECT_THAT(
      [] {
        grad([](const Tensor& x) { return sum(std::get<1>(lu(x))); })(zeros({2, 2}));
      },
      ThrowsMessage<LinalgError>(HasSubstr("triangular_solve: the matrix is singular")));
  EXPECT_THAT(
      [] {
        grad([](const Tensor& x) { return sum(qr(x).first); })(zeros({2, 2}));
      },
      ThrowsMessage<LinalgError>(HasSubstr("is singular")));
}

}  // namespace
