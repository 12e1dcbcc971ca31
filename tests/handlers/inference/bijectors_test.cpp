// Bijectors and supports: inverses, determinants, combinations and trees.
#include <cmath>

#include <stave/stave.h>

#include "matchers.h"

namespace bijectors_test {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

using T = const Tensor&;

// Returns the independent elements of the result of a bijector: the numbers of a vector, the lower
// triangle of a matrix. A simplex leaves out its last part, a factor of a correlation matrix its
// diagonal.
Tensor lower_triangle(T y, Index below) {
  std::vector<Tensor> elements;
  for (Index i = 0; i < y.shape(0); ++i)
    for (Index j = 0; j + below <= i; ++j) elements.push_back(y(i, j));
  return stack(elements);
}

struct Case {
  const char* name;
  Bijector bijector;
  Tensor x;
  std::function<Tensor(T)> elements;
};
std::vector<Case> cases() {
  const Tensor x = tensor({-2., -0.25, 0.5, 3., 1., -1.}, float64), positive = abs(x);
  const Tensor l = tensor({{2., 0., 0.}, {1., 0.5, 0.}, {-1., 2., 4.}}, float64), three = x(slice(none, 3));
  const auto all = [](T y) { return reshape(y, {-1}); };
  const auto lower = [](T y) { return lower_triangle(y, 0); };
  const auto strictly_lower = [](T y) { return lower_triangle(y, 1); };
  return {{"identity", Bijector::identity(), x, all},
          {"exp", Bijector::exp(), x, all},
          {"affine", Bijector::affine(1, tensor(-3.)), x, all},
          {"sigmoid", Bijector::sigmoid(), x, all},
          {"interval", Bijector::interval(-1, 2.5), x, all},
          {"above", Bijector::above(2), x, all},
          {"below", Bijector::below(tensor(2.)), x, all},
          {"softplus", Bijector::softplus(), x, all},
          {"tanh", Bijector::tanh(), x, all},
          {"power", Bijector::power(-1.5), positive, all},
          {"stick_breaking", Bijector::stick_breaking(), x, [](T y) { return y(slice(none, -1)); }},
          {"lower_triangular_affine", Bijector::lower_triangular_affine(0.5, l), three, all},
          {"lower_cholesky", Bijector::lower_cholesky(), x, lower},
          {"positive_definite", Support::positive_definite().map(), x, lower},
          {"correlation_cholesky", Bijector::correlation_cholesky(), x, strictly_lower},
          {"chain",
           Bijector::chain({Bijector::lower_triangular_affine(0.5, l), Bijector::exp(), Bijector::stick_breaking()}),
           three, [](T y) { return y(slice(none, -1)); }},
          {"inverse_of", Bijector::inverse_of(Bijector::softplus()), positive, all}};
}

TEST(Bijectors, InvertAndHaveTheDeterminantOfTheJacobian) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Tensor y = c.bijector.forward(c.x);
    EXPECT_THAT(c.bijector.inverse(y), IsNear(c.x, 1e-9));
    const Tensor jacobian = jacfwd([&](T v) { return c.elements(c.bijector.forward(v)); })(c.x);
    EXPECT_THAT(sum(c.bijector.log_det(c.x)), IsNear(slogdet(jacobian).second, 1e-9));
  }
}

TEST(Bijectors, BatchCompileAndDifferentiate) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto both = [&](T v) { return sum(c.bijector.forward(v)) + sum(c.bijector.log_det(v)); };
    check_grads(both, c.x, {.order = 2, .tolerance = 1e-4});
    const Tensor rows = stack({c.x, c.x * 0.5 + 0.125});
    const Tensor lanes = vmap([&](T v) { return c.bijector.forward(v); })(rows);
    EXPECT_THAT(lanes, IsNear(c.bijector.forward(rows), 1e-12));
    EXPECT_THAT(compile(grad(both))(c.x), IsNear(grad(both)(c.x), 1e-10));
  }
}

TEST(Bijectors, OfAChainSumDeterminantsOverItsEvents) {
  const Bijector b = Bijector::chain({Bijector::exp(), Bijector::stick_breaking(), Bijector::affine(0, 2)});
  EXPECT_EQ(b.input_rank(), 1);
  EXPECT_EQ(b.output_rank(), 1);
  EXPECT_EQ(b.log_det(ones({4, 3})).shape(), Shape({4}));
  const Bijector matrices = Bijector::chain({Bijector::softplus(), Bijector::lower_cholesky()});
  EXPECT_EQ(matrices.input_rank(), 1);
  EXPECT_EQ(matrices.output_rank(), 2);
  EXPECT_EQ(matrices.forward(ones({4, 3})).shape(), Shape({4, 2, 2}));
  EXPECT_EQ(matrices.log_det(ones({4, 3})).shape(), Shape({4}));
  EXPECT_EQ(Bijector::inverse_of(matrices).input_rank(), 2);
  EXPECT_THAT(message_of<ShapeError>([&] { matrices.forward(ones({4})); }), HasSubstr("its length is n (n + 1) / 2"));
}

TEST(Bijectors, AreTreesOfTheirParameters) {
  const Bijector b = Bijector::chain({Bijector::exp(), Bijector::affine(tensor(1., float64), tensor(2., float64))});
  EXPECT_EQ(tree_leaves(b).size(), 2u);
  const Tensor x = tensor({0.5, 1.}, float64);
  const Bijector slope = grad([&](const Bijector& c) { return sum(c.forward(x)); })(b);
  EXPECT_THAT(tree_leaves(slope)[0], IsNumber(2));
  EXPECT_THAT(tree_leaves(slope)[1], IsNear(sum(exp(x))));
}

struct Cube {
  Tensor forward(T x) const { return x * x * x; }
  Tensor inverse(T y) const { return sign(y) * pow(abs(y), 1. / 3); }
  Tensor log_det(T x) const { return log(3 * square(x)); }
};

TEST(Bijectors, AreAlsoClassesOfUsers) {
  const Bijector b = Cube{};
  const Tensor x = tensor({-2., 0.5}, float64);
  EXPECT_THAT(b.inverse(b.forward(x)), IsNear(x));
  EXPECT_EQ(b.input_rank(), 0);
  const Transformed d{Normal{0, 1}, Cube{}};
  EXPECT_THAT(d.log_prob(b.forward(x)), IsNear(Normal{0, 1}.log_prob(x) - b.log_det(x)));
}

TEST(Support, OfInfiniteBoundsIsUnbounded) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Tensor u = tensor({-2., 3.}, float64);
  EXPECT_THAT(Support::interval(-infinity, infinity).constrain(u), Equals(u));
  EXPECT_THAT(Support::interval(1, infinity).constrain(u), IsNear(1 + exp(u)));
  EXPECT_THAT(Support::interval(-infinity, 1).constrain(u), IsNear(1 - exp(u)));
  EXPECT_TRUE(Support::discrete().is_discrete());
}

}  // namespace bijectors_test
