// Kernels of a compiled program that run over blocks of rows: they must give the same bits as
// the function itself, for any shape.
#include <stave/core/program/row_blocks.h>
#include <stave/stave.h>

#include "matchers.h"
#include "programs.h"

namespace {

using namespace stave;
using namespace stave_test;

using Function = Tensor (*)(const Tensor&);

const Function functions[] = {
    [](const Tensor& x) {
      const Tensor e = exp(x - max(x, -1, keepdims));
      return e / sum(e, -1, keepdims);
    },
    [](const Tensor& x) {
      const Tensor c = x - mean(x, -1, keepdims);
      return c * rsqrt(mean(square(c), -1, keepdims) + 1e-5);
    },
    // Sums over both axes, and sums over rows between them.
    [](const Tensor& x) { return sum(sin(x) * sum(x, -1, keepdims)) + sum(cos(x) - max(x, 0, keepdims)); },
    // Intermediate values are read across the rows: in reverse order, or from another row.
    [](const Tensor& x) {
      const Tensor y = tanh(x * sum(x, -1, keepdims));
      return y + flip(y, 0) * sum(y, -1, keepdims);
    },
    [](const Tensor& x) {
      const Tensor y = x * sum(x, -1, keepdims), z = y(slice(1, none)) - y(slice(none, -1));
      return z / (1. + sum(square(z), -1, keepdims));
    },
    // Numbers, comparisons and other dtypes.
    [](const Tensor& x) {
      const Tensor n = astype(x * 10., int32), mask = n > 2;
      const Tensor y = where(mask, x, 0.5 * x) * astype(sum(n, -1, keepdims), x.dtype());
      return y - astype(argmax(y, 1), x.dtype())(ellipsis, newaxis) * prod(tanh(y), -1, keepdims);
    },
    // The argument is read again at the end, and an intermediate value is read twice.
    [](const Tensor& x) {
      const Tensor y = exp(-square(x - x(ellipsis, slice(0, 1))));
      return concat({y / sum(y, -1, keepdims), y * any(x > 3., -1, keepdims) + x}, 0);
    },
};

Tensor values(const Shape& shape, Dtype dtype) {
  return normal(Key(7), shape, float32) *
             astype(arange(1., 1. + static_cast<double>(shape[0]), 1.), float32)(slice(), newaxis) * 0.01 +
         zeros(shape, dtype);
}

TEST(ByRows, EqualsAllRowsAtOnce) {
  for (const Dtype dtype : {float32, float64})
    for (const Shape& shape : {Shape{64, 4096},
                               {65, 3001},
                               {1000, 300},
                               {4097, 129},
                               {300, 1000},
                               {70000, 3},
                               {64, 40000},
                               {63, 4096},
                               {512, 512}})
      for (std::size_t k = 0; k < std::size(functions); ++k) {
        const auto compiled = compile(functions[k]);
        const Tensor x = values(shape, dtype);
        for (int call = 0; call < 2; ++call)
          EXPECT_THAT(compiled(x), Is(functions[k](x))) << "function " << k << " of " << dtype << " " << shape;
      }
}

// Short rows run in blocks only if the arrays are larger than the last cache.
TEST(ByRows, ShortRowsBeyondTheCachesGiveTheSameBits) {
  const Tensor x = values({500000, 3}, float64);
  for (const Function f : functions) {
    const auto compiled = compile(f);
    compiled(x);
    EXPECT_THAT(compiled(x), Is(f(x)));
  }
}

TEST(ByRows, AnyStridesGiveTheSameBits) {
  const Tensor x = values({700, 400}, float32), long_rows = values({10000, 64}, float64);
  for (const Tensor& y : {matrix_transpose(x), matrix_transpose(long_rows), flip(x, 1), x(slice(none, none, 2)),
                          broadcast_to(x(slice(0, 1)), {700, 400}), broadcast_to(x(ellipsis, slice(0, 1)), {700, 400})})
    for (const Function f : functions) {
      const auto compiled = compile(f);
      compiled(y);
      EXPECT_THAT(compiled(y), Is(f(y)));
    }
}

TEST(ByRows, StacksOfMatricesGiveTheSameBits) {
  const auto f = [](const Tensor& x) {
    const Tensor c = x - mean(x, {-1, -2}, keepdims), columns = sum(square(c), -2, keepdims);
    return c / (1. + columns) + sum(c, -1, keepdims);
  };
  for (const Shape& shape : {Shape{100, 40, 50}, {64, 128, 128}, {2000, 3, 50}}) {
    const Tensor x = normal(Key(3), shape);
    const auto compiled = compile(f);
    compiled(x);
    EXPECT_THAT(compiled(x), Is(f(x))) << shape;
  }
}

TEST(ByRows, GradientsGiveTheSameBits) {
  const Tensor x = values({400, 700}, float32), w = normal(Key(2), {700});
  for (const Function f : functions) {
    const auto gradient = grad([&](const Tensor& a) { return sum(f(a * w) * 0.5); });
    const auto compiled = compile(gradient);
    compiled(x);
    EXPECT_THAT(compiled(x), Is(gradient(x)));
  }
}

}  // namespace
