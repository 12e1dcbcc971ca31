// Tests sparse Jacobians and Hessians: their values, the number of products, use under transforms,
// and errors.
#include "sparsity.h"

namespace sparsity_test {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

Tensor tridiagonal(const Tensor& v) {
  const Tensor u = pad(v, {{1, 1}});
  return u(slice(2, none)) * v - sin(u(slice(none, -2))) + exp(v);
}

Tensor laplacian(const Tensor& u) {
  const Tensor w = pad(u, {{1, 1}, {1, 1}});
  const Tensor::Slice inside = slice(1, -1);
  return w(slice(2, none), inside) + w(slice(none, -2), inside) + w(inside, slice(2, none)) +
         w(inside, slice(none, -2)) - 4. * u + exp(u);
}

// The Jacobian is an arrow: the first row and column, and the diagonal.
Tensor arrow(const Tensor& v) { return concat({sum(v * v)(newaxis), v(slice(1, none)) * v(slice(1, none)) * v(0)}); }

TEST(SparseJacobian, FindsManyColumnsAtOnce) {
  const Tensor x = drawn(1, {40});
  const auto jacobian = sparse_jacobian(tridiagonal, x);
  EXPECT_EQ(jacobian.jvps(), 3);
  EXPECT_EQ(jacobian.pullbacks(), 0);
  EXPECT_THAT(jacobian.dense(x), IsNear(dense_jacobian(tridiagonal, x), 1e-13));
  const Tensor other = drawn(2, {40});
  EXPECT_THAT(jacobian.dense(other), IsNear(dense_jacobian(tridiagonal, other), 1e-13));
}

// The least number of products is that of entries in a row.
TEST(SparseJacobian, TakesFewestProductsOnGrids) {
  const Tensor u = drawn(3, {12, 15});
  for (const SparseBy by : {SparseBy::automatic, SparseBy::rows}) {
    const auto grid = sparse_jacobian(laplacian, u, {.by = by});
    EXPECT_EQ(grid.jvps() + grid.pullbacks(), 5);
    EXPECT_THAT(grid.dense(u), IsNear(dense_jacobian(laplacian, u), 1e-13));
  }
  // Two fields, as one array and as two.
  const auto react = [](const Tensor& a, const Tensor& b) { return std::pair(laplacian(a) * b, laplacian(b) - a); };
  const auto stacked = [&](const Tensor& v) {
    const auto [a, b] = react(v(0), v(1));
    return stack({a, b});
  };
  const Tensor v = drawn(4, {2, 12, 15});
  const auto two = sparse_jacobian(react, std::tuple(v(0), v(1)), {.check = true});
  const auto one = sparse_jacobian(stacked, v, {.check = true});
  EXPECT_EQ(one.jvps(), two.jvps());
  EXPECT_LE(one.jvps(), 10);
  EXPECT_THAT(one.dense(v), IsNear(dense_jacobian(stacked, v), 1e-12));
  EXPECT_THAT(two.values(std::tuple(v(0), v(1))), IsNear(one.values(v), 1e-13));
}

TEST(SparseJacobian, FindsDenseRowsApart) {
  const Tensor x = drawn(1, {40});
  const auto jacobian = sparse_jacobian(arrow, x, {.check = true});
  EXPECT_EQ(jacobian.jvps(), 2);
  EXPECT_EQ(jacobian.pullbacks(), 1);
  EXPECT_THAT(jacobian.dense(x), IsNear(dense_jacobian(arrow, x), 1e-13));
  EXPECT_EQ(sparse_jacobian(arrow, x, {.by = SparseBy::columns}).jvps(), 40);
}

// The Jacobian of a function with many arguments and few results is found by rows, and a dense
// column of it on its own.
TEST(SparseJacobian, FindsRowsAtOnce) {
  const Tensor x = drawn(1, {40});
  const auto by_rows = [](const Tensor& v) { return sum(reshape(v * v, {4, 10}), 1); };
  const auto jacobian = sparse_jacobian(by_rows, x, {.check = true});
  EXPECT_EQ(jacobian.jvps(), 0);
  EXPECT_EQ(jacobian.pullbacks(), 1);
  EXPECT_THAT(jacobian.dense(x), IsNear(dense_jacobian(by_rows, x), 1e-13));
  const auto with_column = [](const Tensor& v) {
    return concat({sum(reshape(v(slice(1, none)), {3, 13}), 1), zeros({20}, float64)}) * v(0);
  };
  const auto mixed = sparse_jacobian(with_column, x, {.check = true});
  EXPECT_THAT(mixed.dense(x), IsNear(dense_jacobian(with_column, x), 1e-13));
  EXPECT_EQ(sparse_jacobian(with_column, x, {.by = SparseBy::rows}).jvps(), 0);
}

// More products than are computed at once: 30 columns of 60,000 rows.
TEST(SparseJacobian, ComputesProductsInChunks) {
  const Tensor x = drawn(1, {30});
  const auto f = [](const Tensor& v) { return reshape(broadcast_to(v * v, {2000, 30}), {60000}) * sum(v); };
  const auto jacobian = sparse_jacobian(f, x, {.by = SparseBy::columns, .check = true});
  EXPECT_EQ(jacobian.jvps(), 30);
  EXPECT_THAT(jacobian.dense(x), IsNear(dense_jacobian(f, x), 1e-12));
}

TEST(SparseJacobian, OfNothingIsEmpty) {
  const auto f = [](const Tensor& v) { return round(v); };
  const Tensor x = drawn(1, {5});
  EXPECT_THAT(sparse_jacobian(f, x).values(x), Equals(zeros({0}, float64)));
  EXPECT_THAT(sparse_jacobian(f, x, {.check = true}).values(x), Equals(zeros({0}, float64)));
  EXPECT_THAT(sparse_jacobian(f, x).dense(x), Equals(zeros({5, 5}, float64)));
}

TEST(SparseJacobian, OfComplexResults) {
  const auto f = [](const Tensor& v) { return complex(v * v, roll(v, 1)); };
  const Tensor x = drawn(1, {5});
  EXPECT_THAT(sparse_jacobian(f, x).dense(x), IsNear(reshape(jacfwd(f)(x), {5, 5}), 1e-13));
}

// ---- Hessians -----------------------------------------------------------------------------------

Tensor rosenbrock(const Tensor& u) {
  return sum(100. * square(u(slice(1, none)) - square(u(slice(none, -1)))) + square(1. - u(slice(none, -1))));
}
Tensor grid_energy(const Tensor& u) {
  return sum(square(u(slice(1, none)) - u(slice(none, -1))) * u(slice(1, none))) +
         sum(square(u(slice(), slice(1, none)) - u(slice(), slice(none, -1)))) + sum(exp(u));
}

TEST(SparseHessian, AgreesWithHessian) {
  const Tensor x = drawn(1, {20});
  const auto banded = sparse_hessian(rosenbrock, x, {.check = true});
  EXPECT_EQ(banded.jvps(), 3);
  EXPECT_THAT(banded.dense(x), IsNear(hessian(rosenbrock)(x), 1e-12));
  const Tensor u = drawn(2, {6, 6});
  const auto grid = sparse_hessian(grid_energy, u, {.check = true});
  EXPECT_LE(grid.jvps(), 6);
  EXPECT_LE(grid.jvps(), sparse_hessian(grid_energy, u, {.by = SparseBy::columns}).jvps());
  EXPECT_THAT(grid.dense(u), IsNear(reshape(hessian(grid_energy)(u), {36, 36}), 1e-12));
  EXPECT_THAT(sparse_hessian(grid_energy, u, {.by = SparseBy::rows}).dense(u),
              IsNear(reshape(hessian(grid_energy)(u), {36, 36}), 1e-12));
}

struct Pair {
  Tensor a, b;
};

TEST(SparseHessian, TakesTrees) {
  const auto f = [](const Pair& p) { return sum(p.a * p.a * p.b) + sum(exp(p.b)); };
  const Pair at{drawn(1, {4}), drawn(2, {4})};
  const auto flat = [&](const Tensor& v) { return f({v(slice(4)), v(slice(4, none))}); };
  EXPECT_THAT(sparse_hessian(f, at).dense(at), IsNear(hessian(flat)(concat({at.a, at.b})), 1e-13));
}

TEST(SparseJacobian, TakesSeveralArguments) {
  const auto f = [](const Tensor& a, const Tensor& b, double factor) { return std::pair(factor * a * b, sum(b)); };
  const std::tuple arguments(drawn(1, {4}), drawn(2, {4}), 3.);
  const auto jacobian = sparse_jacobian(f, arguments);
  EXPECT_EQ(jacobian.pattern().entries(), 12);
  const Tensor expected = concat({concat({diag(3. * std::get<1>(arguments)), diag(3. * std::get<0>(arguments))}, 1),
                                  concat({zeros({1, 4}, float64), ones({1, 4}, float64)}, 1)});
  EXPECT_THAT(jacobian.dense(arguments), IsNear(expected, 1e-14));
}

// ---- under transforms ---------------------------------------------------------------------------

TEST(SparseJacobian, ValuesAreOperations) {
  const Tensor x = drawn(1, {8}), xs = drawn(2, {3, 8});
  const auto jacobian = sparse_jacobian(tridiagonal, x, {.check = true});
  const auto values = [&](const Tensor& v) { return jacobian.values(v); };
  // vmap against a loop, grad against finite differences, compile against a plain call.
  const Tensor batch = vmap(values)(xs);
  for (Index i = 0; i < 3; ++i) EXPECT_THAT(batch(i), IsNear(values(xs(i)), 1e-13));
  check_grads(values, x, {.order = 2});
  const auto compiled = compile(values);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(compiled(xs(i)), IsNear(values(xs(i)), 1e-13));
  EXPECT_THAT(vmap(grad([&](const Tensor& v) { return sum(values(v)); }))(xs)(1),
              IsNear(grad([&](const Tensor& v) { return sum(values(v)); })(xs(1)), 1e-12));
}

TEST(SparseJacobian, RowsAndSymmetricValuesAreOperations) {
  const Tensor x = drawn(1, {8});
  const auto rows = sparse_jacobian(tridiagonal, x, {.by = SparseBy::rows});
  check_grads([&](const Tensor& v) { return rows.values(v); }, x, {.order = 1});
  const auto second = sparse_hessian(rosenbrock, x);
  check_grads([&](const Tensor& v) { return second.values(v) / 100.; }, x, {.order = 1});
  EXPECT_THAT(compile([&](const Tensor& v) { return second.values(v); })(x), IsNear(second.values(x), 1e-12));
}

// The function may capture a value that an outer transform differentiates or batches.
TEST(SparseJacobian, IsFoundInsideOfTransforms) {
  const Tensor x = drawn(1, {6});
  const auto f = [&](const Tensor& w) {
    const auto scaled = [&](const Tensor& v) { return w * tridiagonal(v); };
    return sum(sparse_jacobian(scaled, x).values(x));
  };
  check_grads(f, drawn(2, {6}), {.order = 1});
  const Tensor ws = drawn(3, {2, 6});
  EXPECT_THAT(vmap(f)(ws)(1), IsNear(f(ws(1)), 1e-13));
}

// ---- check --------------------------------------------------------------------------------------

// If the elements of v sum to a positive number, the entries outside the diagonal lie below it,
// else above it (and in a corner).
Tensor branch(const Tensor& v) { return sum(v) > 0 ? v * roll(v, 1) : v * roll(v, -1); }

TEST(SparseJacobian, CheckFindsAnotherPath) {
  const Tensor x = ones({6}, float64);
  for (const SparseBy by : {SparseBy::columns, SparseBy::rows}) {
    const auto checked = sparse_jacobian(branch, x, {.by = by, .check = true});
    EXPECT_TRUE(checked.pattern().depends_on_path);
    EXPECT_THAT(checked.dense(x), IsNear(dense_jacobian(branch, x), 1e-14));
    EXPECT_THAT(message_of<TransformError>([&] { checked.values(-x); }),
                HasSubstr("the pattern lacks an entry in " + std::string(by == SparseBy::rows ? "column" : "row") +
                          " 0: the function took another path than where the pattern was found (it reads values of "
                          "its argument)"));
    EXPECT_NO_THROW(sparse_jacobian(branch, x, {.by = by}).values(-x));
  }
}

TEST(SparseJacobian, CheckFindsAnotherPoint) {
  const auto f = [](const Tensor& v) { return where(v > 0, v, roll(v, 1) * v); };
  const Tensor x = ones({6}, float64);
  const auto here = sparse_jacobian(f, x, {.here = true, .check = true});
  EXPECT_EQ(here.pattern().entries(), 6);
  EXPECT_THROW(here.values(-x), TransformError);
}

TEST(SparseHessian, CheckFindsARuleThatIsNotSymmetric) {
  const auto f = [](const Tensor& v) {
    return sum(custom_vjp([](const Tensor& u) { return u * u; }, [](const Tensor& u) { return std::pair(u * u, u); },
                          [](const Tensor& u, const Tensor& g) { return g * u * roll(u, 1); })(v));
  };
  const Tensor x = drawn(1, {7});
  EXPECT_THROW(sparse_hessian(f, x, {.check = true}).values(x), TransformError);
  EXPECT_THAT(sparse_hessian(f, x, {.by = SparseBy::columns, .check = true}).dense(x), IsNear(hessian(f)(x), 1e-13));
}

// Where terms cancel, the product and the entries have different rounding errors.
TEST(SparseJacobian, CheckPassesRowsThatCancel) {
  const auto products = [](const Tensor& v) { return stack({v(0) * (v(1) * v(2)) - (v(0) * v(1)) * v(2), v(0)}); };
  const auto probabilities = [](const Tensor& v) { return stack({sum(softmax(v)), v(0) * v(1)}); };
  const auto identity = [](const Tensor& v) { return concat({square(sin(v)) + square(cos(v)), 1e-3 * sinh(v)}); };
  const auto check = [](auto f, Dtype dtype, double a, SparseBy by) {
    const Tensor v = tensor({a, 2.3, 0.7}, dtype);
    const Tensor found = sparse_jacobian(f, v, {.by = by, .check = true}).dense(v);
    EXPECT_THAT(found, IsNear(dense_jacobian(f, v), 64 * finfo(dtype).eps)) << a << dtype;
  };
  for (const Dtype dtype : {float64, float32})
    for (const SparseBy by : {SparseBy::columns, SparseBy::rows})
      for (double a = 0.1; a < 5; a += 0.5) {
        check(products, dtype, a, by);
        check(probabilities, dtype, a, by);
        check(identity, dtype, a, by);
      }
  // A missing entry is found in such a row, too, if it is small; also if another row overflows.
  const auto path = [](const Tensor& v) {
    const Tensor zero = sum(softmax(v(slice(0, 2))));
    return stack({v(2) > 0 ? zero : zero + 1e-9 * v(2), v(0), exp(v(1))});
  };
  const Tensor v = tensor({0.3, 2.3, 0.7}, float64);
  const auto jacobian = sparse_jacobian(path, v, {.check = true});
  EXPECT_NO_THROW(jacobian.values(v));
  EXPECT_THROW(jacobian.values(-v), TransformError);
  EXPECT_THROW(jacobian.values(tensor({0.3, 1e3, -0.7}, float64)), TransformError);
}

// ---- errors -------------------------------------------------------------------------------------

TEST(SparseJacobian, RefusesOtherArguments) {
  const auto jacobian = sparse_jacobian(tridiagonal, ones({4}));
  EXPECT_THAT(message_of<ShapeError>([&] { jacobian.values(ones({5})); }),
              HasSubstr("sparse_jacobian: argument 0 is float32 [5], but float32 [4] where the pattern was found"));
  EXPECT_THAT(message_of<DtypeError>([&] { jacobian.values(ones({4}, float64)); }),
              HasSubstr("sparse_jacobian: argument 0 is float64 [4], but float32 [4] where the pattern was found"));
  Index length = 2;
  const auto changing = [&](const Tensor& v) { return v(slice(length)); };
  const auto other = sparse_jacobian(changing, ones({4}));
  length = 3;
  EXPECT_THAT(message_of<ShapeError>([&] { other.values(ones({4})); }),
              HasSubstr("sparse_jacobian: the result is float32 [3], but float32 [2] where the pattern was found"));
  for (const SparseBy by : {SparseBy::columns, SparseBy::rows}) {
    Dtype dtype = float32;
    const auto retyped = [&](const Tensor& v) { return std::pair(sin(v), astype(v, dtype)); };
    const auto typed = sparse_jacobian(retyped, ones({4}), {.by = by});
    dtype = float64;
    EXPECT_THAT(message_of<DtypeError>([&] { typed.values(ones({4})); }),
                HasSubstr("sparse_jacobian: result 1 is float64 [4], but float32 [4] where the pattern was found"));
  }
}

TEST(SparseJacobian, RefusesIntegersByItsName) {
  const auto f = [](const Tensor& v) { return 1. * v; };
  const auto loss = [](const Tensor& v) { return sum(1. * v); };
  const Tensor v = tensor({1, 2});
  const char* const rest = ": argument 0 is int32 [2], which has no derivative";
  EXPECT_THAT(message_of<DtypeError>([&] { sparse_jacobian(f, v); }), HasSubstr("sparse_jacobian" + std::string(rest)));
  EXPECT_THAT(message_of<DtypeError>([&] { sparse_hessian(loss, v); }),
              HasSubstr("sparse_hessian" + std::string(rest)));
  EXPECT_THAT(message_of<DtypeError>([&] { jacobian_sparsity(f)(v); }),
              HasSubstr("jacobian_sparsity" + std::string(rest)));
}

TEST(SparseJacobian, RefusesWhatIsNotSquare) {
  const auto f = [](const Tensor& v) { return v(slice(2)); };
  EXPECT_THAT(message_of<ShapeError>([&] { sparse_jacobian(f, ones({4}), {.by = SparseBy::symmetric}); }),
              HasSubstr("SparseBy::symmetric needs a square Jacobian, but this one has 2 rows and 4 columns"));
  const auto z = [](const Tensor& v) { return complex(v, v); };
  EXPECT_THAT(message_of<DtypeError>([&] { sparse_jacobian(z, ones({4}), {.by = SparseBy::rows}); }),
              HasSubstr("returned complex64, which reverse mode cannot differentiate"));
  EXPECT_THAT(message_of<TransformError>([&] { sparse_hessian([](const Tensor& v) { return v; }, ones({4})); }),
              HasSubstr("sparse_hessian: the function must return one number"));
  EXPECT_THROW(jacobian_sparsity(tridiagonal)(ones({4}, complex64)), DtypeError);
}

}  // namespace sparsity_test
