// Tests the patterns of random programs: a few vectors, to which random operations are applied. The
// pattern that is found at one point must have all entries of the Jacobian at others.
#include <random>

#include "sparsity.h"

namespace sparsity_test {

using namespace stave;
using namespace stave_test;

constexpr Index n = 6;

/// Applies random steps to vectors of n elements and returns the last result. The same seed gives
/// the same program.
Tensor random_program(unsigned seed, const Tensor& x) {
  std::mt19937 engine(seed);
  std::vector<Tensor> values{x, tanh(roll(x, 1))};
  const auto below = [&](std::size_t count) { return engine() % count; };
  const auto any = [&]() -> const Tensor& { return values[below(values.size())]; };
  const auto mask = [&] {
    std::vector<double> elements;
    for (Index i = 0; i < n; ++i) elements.push_back(static_cast<double>(below(3)) - 1);
    return from(elements);
  };
  const auto places = [&] {
    std::vector<std::int32_t> at;
    for (Index i = 0; i < n; ++i) at.push_back(static_cast<std::int32_t>(below(n)));
    return from(at);
  };
  const auto step = [&]() -> Tensor {
    const Tensor a = any(), b = any();
    switch (below(26)) {
      case 0: return sin(a);
      case 1: return a * b;
      case 2: return a + b;
      case 3: return a * mask();
      case 4: return where(mask() > 0, a, b);
      case 5: return where(a > b, a, b * b);
      case 6: return maximum(a, b);
      case 7: return roll(a, static_cast<Index>(below(n)));
      case 8: return flip(a);
      case 9: return take(a, places());
      case 10: return a.at(places()).add(b);
      case 11: return a.at(places()).set(b);
      case 12: return cumulative_sum(a) / 4.;
      case 13: return pad(a(slice(2, none)), {{1, 1}});
      case 14: return concat({a(slice(3)), b(slice(3))});
      case 15: return tanh(broadcast_to(sum(a(slice(static_cast<Index>(below(n))))), {n}));
      case 16: return softmax(a(slice(3)))(tensor({0, 1, 2, 2, 1, 0}));
      case 17: return matmul(eye(n, n, static_cast<Index>(below(3)) - 1, float64), a);
      case 18: return reshape(transpose(reshape(a, {2, 3})), {n});
      case 19: return sort(a);
      case 20: return take(a, argsort(b));
      case 21: return reshape(cumulative_prod(reshape(tanh(a), {2, 3}), 1), {n});
      case 22:
        return vmap([](const Tensor& r) { return r * sum(r); })(reshape(a, {3, 2}))(slice(),
                                                                                    0)(tensor({0, 1, 2, 0, 1, 2}));
      case 23: return grad([&](const Tensor& v) { return sum(v * v * roll(v, 1)) / 3.; })(a);
      case 24: return checkpoint([](const Tensor& u, const Tensor& v) { return u * cos(v); })(a, b);
      default: return a / (1. + b * b);
    }
  };
  const std::size_t steps = 2 + below(6);
  for (std::size_t i = 0; i < steps; ++i) values.push_back(step());
  return values.back();
}

class RandomPrograms : public testing::TestWithParam<unsigned> {};

TEST_P(RandomPrograms, MissNoEntry) {
  for (unsigned k = 0; k < 50; ++k) {
    const unsigned seed = 50 * GetParam() + k;
    const Function f = [seed](const Tensor& x) { return random_program(seed, x); };
    const Tensor x = drawn(static_cast<int>(seed), {n});
    const SparsityPattern path = jacobian_sparsity(f)(x), here = jacobian_sparsity(f, {.here = true})(x);
    EXPECT_FALSE(path.depends_on_path);
    EXPECT_EQ(missed(here, dense_jacobian(f, x)), 0) << "seed " << seed;
    EXPECT_LE(here.entries(), path.entries()) << "seed " << seed;
    for (int i = 0; i < 5; ++i) {
      const Tensor other = drawn(1000 + static_cast<int>(seed) + i, {n});
      EXPECT_EQ(missed(path, dense_jacobian(f, other)), 0) << "seed " << seed;
    }
    const auto sparse = sparse_jacobian(f, x, {.check = true});
    EXPECT_THAT(sparse.dense(x), IsNear(dense_jacobian(f, x), 1e-9)) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, testing::Range(0u, 8u));

}  // namespace sparsity_test
