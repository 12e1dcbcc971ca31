// jvp, Jacobians, Hessians and their products with vectors, each alone, also of trees.
#include <stave/stave.h>

#include "grad_functions.h"
#include "matchers.h"

namespace grad_test {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Jvp, AgreesWithJax) {
  const Tensor v = tensor({1., -2., .5}, float64);
  const auto [value, tangent] = jvp(f, at, v);
  EXPECT_THAT(value, IsNumber(values(f(at))[0], 1e-12));
  EXPECT_THAT(tangent, IsNumber(1.67894853346, 1e-10));
}

TEST(Jvp, AcceptsSeveralArguments) {
  const auto [out, tangent] =
      jvp(loss, std::make_tuple(W, X, Y), std::make_tuple(ones_like(W), zeros_like(X), 2 * ones_like(Y)));
  EXPECT_THAT(out, IsNumber(0.235, 1e-12));
  EXPECT_THAT(tangent, IsNumber(values(sum(dW) + 2 * sum(dY))[0], 1e-12));
  // A number among the arguments is no primal, so that it has no tangent.
  const auto scaled = [](const Tensor& x, int n) { return x * n; };
  EXPECT_THAT(jvp(scaled, std::tuple(at, 3), std::tuple(ones_like(at), 0)).second, IsNear(full({3}, 3., float64)));
}

TEST(Jvp, AcceptsATreeArgument) {
  const auto product = [](const std::pair<Tensor, Tensor>& p) { return p.first * p.second; };
  EXPECT_THAT(jvp(product, std::pair(number(2), number(3)), std::pair(number(1), number(10))).second,
              IsNumber(23, 1e-12));
  const auto tuple = [](const std::tuple<Tensor, Tensor>& p) { return std::get<0>(p) * std::get<1>(p); };
  EXPECT_THAT(
      jvp(tuple, std::make_tuple(std::tuple(number(2), number(3))), std::make_tuple(std::tuple(number(1), number(10))))
          .second,
      IsNumber(23, 1e-12));
}

TEST(Jvp, GivesTangentsOfSeveralResults) {
  const auto [out, tangent] =
      jvp([](const Tensor& x) { return std::tuple(x * x, sum(x), x > 0, full({2}, 7.)); }, at, ones_like(at));
  EXPECT_THAT(std::get<0>(tangent), IsNear(2 * at));
  EXPECT_THAT(std::get<1>(tangent), IsNumber(3, 1e-12));
  EXPECT_THAT(std::get<2>(tangent), Equals(full({3}, false)));
  EXPECT_THAT(std::get<3>(tangent), Equals(zeros({2})));
}

// An empty tangent stands for zero; an integer has no other tangent.
TEST(Jvp, EmptyTangentsAreZero) {
  struct Batch {
    Tensor x, labels;
  };
  const auto loss = [](const Batch& b) { return sum(take(b.x, b.labels)); };
  const auto [out, tangent] =
      jvp(loss, Batch{at, tensor({0, 2, 2})}, Batch{tensor({1., 10., 100.}, float64), Tensor()});
  EXPECT_THAT(out, IsNumber(5.3, 1e-12));
  EXPECT_THAT(tangent, IsNumber(201, 1e-12));
  EXPECT_THAT(jvp(loss, Batch{at, tensor({0})}, Batch{Tensor(), Tensor()}).second, IsNumber(0, 0));
}

TEST(Jvp, AcceptsOverloadedNames) {
  EXPECT_THAT(jvp(sin, at, ones_like(at)).second, IsNear(cos(at)));
  EXPECT_THAT(jvp(sum, at, at).second, IsNumber(1.6, 1e-12));
}

// ---- jacobians ----------------------------------------------------------------------------------

// jax.jacfwd(lambda x: jnp.stack([x[0]*x[1], jnp.sin(x[1])*x[2], jnp.exp(x[0]-x[2]), x[2]**3]))(x)
Tensor four(const Tensor& x) { return stack({x[0] * x[1], sin(x[1]) * x[2], exp(x[0] - x[2]), pow(x[2], 3)}); }
const Tensor jacobian_of_four = tensor({{-1.2, 0.3, 0.0},
                                        {0.0, 0.905894386191684, -0.9320390859672263},
                                        {0.11080315836233387, 0.0, -0.11080315836233387},
                                        {0.0, 0.0, 18.75}},
                                       float64);

TEST(Jacobian, AgreesWithJaxInBothModes) {
  EXPECT_THAT(jacfwd(four)(at), IsNear(jacobian_of_four));
  EXPECT_THAT(jacrev(four)(at), IsNear(jacobian_of_four));
}

// jax.jacrev(lambda a: a @ a)(jnp.array([[1., 2.], [3., 4.]]))
TEST(Jacobian, ShapeIsThatOfTheResultThenTheArgument) {
  const Tensor a = tensor({{1., 2.}, {3., 4.}}, float64);
  const auto squared = [](const Tensor& m) { return matmul(m, m); };
  const Tensor expected =
      tensor({{{{2., 3.}, {2., 0.}}, {{2., 5.}, {0., 2.}}}, {{{3., 0.}, {5., 3.}}, {{0., 3.}, {2., 8.}}}}, float64);
  EXPECT_THAT(jacrev(squared)(a), IsNear(expected));
  EXPECT_THAT(jacfwd(squared)(a), IsNear(expected));
  const auto to_matrix = [](const Tensor& x) { return x * ones({4, 2}, float64); };
  EXPECT_EQ(jacfwd(to_matrix)(number(2)).shape(), Shape(4, 2));
  EXPECT_EQ(jacrev(to_matrix)(number(2)).shape(), Shape(4, 2));
  const auto wide = [](const Tensor& x) { return sum(x, 0, keepdims); };
  EXPECT_EQ(jacfwd(wide)(zeros({5, 3})).shape(), Shape(1, 3, 5, 3));
  EXPECT_EQ(jacrev(wide)(zeros({5, 3})).shape(), Shape(1, 3, 5, 3));
}

TEST(Jacobian, MayBeByAnotherArgument) {
  const auto product = [](const Tensor& a, const Tensor& x) { return matmul(a, x); };
  EXPECT_THAT(jacfwd<1>(product)(X, at), IsNear(X));
  EXPECT_THAT(jacrev<1>(product)(X, at), IsNear(X));
  const auto quadratic = [](int n, const Tensor& x) { return sum(x * x) * n; };
  EXPECT_THAT(hessian<1>(quadratic)(3, at), IsNear(6 * eye(3, float64)));
}

TEST(Jacobian, OfConstantsAndEmptyTensors) {
  EXPECT_THAT(jacfwd([](const Tensor&) { return ones({2}, float64); })(at), Equals(zeros({2, 3}, float64)));
  EXPECT_THAT(jacrev([](const Tensor&) { return ones({2}, float64); })(at), Equals(zeros({2, 3}, float64)));
  EXPECT_EQ(jacfwd([](const Tensor& x) { return 2. * x; })(zeros({0})).shape(), Shape(0, 0));
  EXPECT_EQ(jacrev([](const Tensor& x) { return 2. * x; })(zeros({0})).shape(), Shape(0, 0));
}

TEST(Jacobian, OfIntegersIsAnError) {
  const auto whole = [](const Tensor& x) { return astype(x, int32); };
  const auto is = ThrowsMessage<DtypeError>(HasSubstr("the function returned int32, which has no derivative"));
  EXPECT_THAT([&] { jacfwd(whole)(at); }, is);
  EXPECT_THAT([&] { jacrev(whole)(at); }, is);
}

TEST(Jacobian, AcceptsOverloadedNames) {
  EXPECT_THAT(jacfwd(sin)(number(0.)), IsNumber(1, 0));
  EXPECT_THAT(jacrev(sum)(at), IsNear(ones({3}, float64)));
}

TEST(Hessian, AgreesWithJax) {
  EXPECT_THAT(hessian(f)(at), IsNear(curvature * eye(3, float64)));
  // jax.hessian(lambda a: jnp.sum(a @ a @ a))(jnp.array([[1., 2.], [3., 4.]]))
  const auto cubed = [](const Tensor& a) { return sum(matmul(matmul(a, a), a)); };
  EXPECT_THAT(hessian(cubed)(tensor({{1., 2.}, {3., 4.}}, float64)),
              IsNear(tensor({{{{16., 15.}, {12., 5.}}, {{15., 6.}, {25., 18.}}},
                             {{{12., 25.}, {4., 15.}}, {{5., 18.}, {15., 34.}}}},
                            float64)));
  EXPECT_THAT(jacrev(jacfwd(f))(at), IsNear(curvature * eye(3, float64)));
  EXPECT_THAT(jacfwd(jacfwd(f))(at), IsNear(curvature * eye(3, float64)));
  EXPECT_THAT(jacrev(jacrev(f))(at), IsNear(curvature * eye(3, float64)));
}

TEST(Hessian, OfSeveralResultsHasTheirShapeFirst) {
  const Tensor h = hessian(four)(at);
  EXPECT_EQ(h.shape(), Shape(4, 3, 3));
  EXPECT_THAT(h[0], IsNear(tensor({{0., 1., 0.}, {1., 0., 0.}, {0., 0., 0.}}, float64)));  // x0 x1
  // x2^3 at 2.5
  EXPECT_THAT(h[3], IsNear(tensor({{0., 0., 0.}, {0., 0., 0.}, {0., 0., 15.}}, float64)));
}

// ---- jacobians of trees: blocks as in JAX -------------------------------------------------------

// f = (x0 x1 y, x0 + y^2): df/dx = [[x1 y, x0 y], [1, 0]], df/dy = [x0 x1, 2 y]
TEST(JacobianOfTrees, IsATreeOfBlocksForOneResult) {
  const auto f = [](const Coordinates& c) { return stack({c.x[0] * c.x[1] * c.y, c.x[0] + c.y * c.y}); };
  for (const Coordinates& j : {jacfwd(f)(coordinates()), jacrev(f)(coordinates())}) {
    EXPECT_THAT(j.x, IsNear(tensor({{6., 3.}, {1., 0.}}, float64)));
    EXPECT_THAT(j.y, IsNear(tensor({2., 6.}, float64)));
  }
}

TEST(JacobianOfTrees, IsTheResultsTreeForOneTensor) {
  const auto f = [](const Tensor& x) { return Coordinates{x * x, sum(x)}; };
  for (const Coordinates& j : {jacfwd(f)(at), jacrev(f)(at)}) {
    EXPECT_THAT(j.x, IsNear(2 * at * eye(3, float64)));
    EXPECT_THAT(j.y, IsNear(ones({3}, float64)));
  }
}

TEST(JacobianOfTrees, IsTheResultsTreeOfTheArguments) {
  using Map = std::map<std::string, Tensor>;
  const auto f = [](const Coordinates& c) { return std::tuple(c.x * c.y, Map{{"s", sum(c.x)}}, std::vector{c.y}); };
  const auto check = [](const auto& jacobian) {
    const auto& [product, map, list] = jacobian;
    EXPECT_THAT(product.x, IsNear(3 * eye(2, float64)));
    EXPECT_THAT(product.y, IsNear(tensor({1., 2.}, float64)));
    EXPECT_THAT(map.at("s").x, IsNear(ones({2}, float64)));
    EXPECT_THAT(map.at("s").y, IsNumber(0));
    EXPECT_THAT(list.at(0).x, IsNear(zeros({2}, float64)));
    EXPECT_THAT(list.at(0).y, IsNumber(1));
  };
  check(jacfwd(f)(coordinates()));
  check(jacrev(f)(coordinates()));
}

TEST(JacobianOfTrees, MayBeBySeveralArguments) {
  const auto product = [](const Tensor& a, double, const Tensor& x) { return matmul(a, x); };
  const auto [by_a, by_x] = jacrev<0, 2>(product)(X, 0., at);
  EXPECT_EQ(by_a.shape(), Shape(X.shape(0), X.shape(0), X.shape(1)));
  EXPECT_THAT(by_x, IsNear(X));
}

// f = sum(x^2) y: d2/dx2 = 2 y I, d2/dx dy = 2 x, d2/dy2 = 0
TEST(HessianOfTrees, HasABlockForEachPair) {
  const auto f = [](const Coordinates& c) { return sum(c.x * c.x) * c.y; };
  const auto h = hessian(f)(coordinates());
  EXPECT_THAT(h[&Coordinates::x].x, IsNear(6 * eye(2, float64)));
  EXPECT_THAT(h[&Coordinates::x].y, IsNear(tensor({2., 4.}, float64)));
  EXPECT_THAT(h[&Coordinates::y].x, IsNear(tensor({2., 4.}, float64)));
  EXPECT_THAT(h[&Coordinates::y].y, IsNumber(0));
  EXPECT_EQ(h.rows.size(), 2u);
  const auto g = [](const Tensor& x, const Tensor& y) { return sum(x * x) * y; };
  const auto [x_row, y_row] = hessian<0, 1>(g)(coordinates().x, coordinates().y);
  EXPECT_THAT(std::get<0>(x_row), IsNear(6 * eye(2, float64)));
  EXPECT_THAT(std::get<1>(x_row), IsNear(tensor({2., 4.}, float64)));
  EXPECT_THAT(std::get<0>(y_row), IsNear(tensor({2., 4.}, float64)));
  // The third derivative: d3/dx dx dy = 2 I
  EXPECT_THAT(jacfwd(hessian(f))(coordinates()).rows[0].y, IsNear(2 * eye(2, float64)));
}

TEST(JacobianOfTrees, ErrorNamesTheMember) {
  const auto f = [](const Coordinates& c) { return sum(c.x); };
  EXPECT_THAT(
      [&] {
        jacrev(f)(Coordinates{tensor(1.), tensor(1)});
      },
      ThrowsMessage<DtypeError>(HasSubstr("jacrev: argument 0 (its member 1) is int32 []")));
}

TEST(Hvp, IsTheHessianTimesAVector) {
  EXPECT_THAT(hvp(sum, at, at), IsNear(zeros({3}, float64)));
  const Tensor v = tensor({1., -2., .5}, float64);
  EXPECT_THAT(hvp(f, at, v), IsNear(curvature * v));
  struct Point {
    Tensor x, y;
  };
  // f = x^2 y: [[2y, 2x], [2x, 0]]
  const Point h =
      hvp([](const Point& p) { return p.x * p.x * p.y; }, Point{number(3), number(5)}, Point{number(1), number(10)});
  EXPECT_THAT(h.x, IsNumber(10 + 60, 1e-12));
  EXPECT_THAT(h.y, IsNumber(6, 1e-12));
}

}  // namespace grad_test
