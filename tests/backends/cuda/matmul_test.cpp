// Tests how operands of any layout are passed to BLAS, and the backend's own kernel. The plan
// is executed by loops that read memory as BLAS would; the kernel's body is executed on the host.
// Results are compared with a product by definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include <stave/backends/cuda/matmul_plan.h>
#include <stave/backends/cuda/kernels/matmul.cuh>

#include "cuda/rounding.h"

namespace {

using namespace stave_cuda;
using stave::Shape, stave::Strides, stave::View;

template <class T>
struct Operand {
  Shape shape;
  Strides strides;
  std::vector<T> memory;
  Index origin = 0;

  View view() { return {memory.data() + origin, stave::dtype_of<T>(), shape, strides}; }
};

using Random = std::mt19937;

/// An operand of integers in a random layout: axes in any order, broadcast, reversed, with gaps.
template <class T>
Operand<T> operand(const Shape& shape, Random& random) {
  Operand<T> x{shape, shape, {}, 0};
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  if (random() % 2) std::swap(order[shape.size() - 1], order[shape.size() - 2]);
  if (random() % 4 == 0) std::shuffle(order.begin(), order.end(), random);
  Index step = 1, reach = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::size_t axis = order[i];
    const bool inner = i + 1 == order.size();
    if (random() % 8 == 0 && inner) step = 2;
    x.strides[axis] = step;
    step *= shape[axis];
    if (random() % 4 == 0) step += static_cast<Index>(random() % 3);
    const unsigned kind = random() % 12;
    if (kind == 0 || (kind < 5 && axis + 2 < shape.size())) x.strides[axis] = 0;
    if (kind == 11) {
      x.origin += (shape[axis] - 1) * x.strides[axis];
      x.strides[axis] = -x.strides[axis];
    }
    reach += (shape[axis] - 1) * std::abs(x.strides[axis]);
  }
  x.memory.resize(static_cast<std::size_t>(reach));
  const auto number = [&] { return static_cast<int>(random() % 19) - 9; };
  for (T& value : x.memory) {
    value = static_cast<T>(number());
    if constexpr (stave::ComplexNumber<T>) value.im = static_cast<typename T::Real>(number());
  }
  return x;
}

template <class F>
// Calls f(position of the leading axes).
void for_each_matrix(const Shape& shape, F f) {
  Shape batch(std::span<const Index>(shape.begin(), shape.end() - 2)), at = batch;
  std::fill(at.begin(), at.end(), 0);
  for (Index left = batch.elements(); left > 0; --left) {
    f(at);
    for (std::size_t axis = batch.size(); axis-- > 0;) {
      if (++at[axis] < batch[axis]) break;
      at[axis] = 0;
    }
  }
}

Index offset(const Shape& at, std::span<const Index> strides) {
  Index sum = 0;
  for (std::size_t i = 0; i < at.size(); ++i) sum += at[i] * strides[i];
  return sum;
}

/// The type of sums. Integers wrap around; 16-bit floats are added in float and rounded once.
template <class T>
using SumType = std::conditional_t<std::is_integral_v<T>, std::uint64_t, stave::Computed<T>>;

template <class T>
std::vector<T> by_definition(const View& a, const View& b, const Shape& out) {
  const std::size_t rank = out.size();
  std::vector<T> result;
  for_each_matrix(out, [&](const Shape& at) {
    const T* x = static_cast<const T*>(a.data) + offset(at, a.strides);
    const T* y = static_cast<const T*>(b.data) + offset(at, b.strides);
    for (Index i = 0; i < out[rank - 2]; ++i)
      for (Index j = 0; j < out[rank - 1]; ++j) {
        SumType<T> sum(0);
        for (Index q = 0; q < a.shape[rank - 1]; ++q)
          sum = sum + static_cast<SumType<T>>(x[i * a.strides[rank - 2] + q * a.strides[rank - 1]]) *
                          static_cast<SumType<T>>(y[q * b.strides[rank - 2] + j * b.strides[rank - 1]]);
        if constexpr (std::is_integral_v<T> || stave::ComplexNumber<T>) result.push_back(static_cast<T>(sum));
        else result.push_back(stave_test::rounded<T>(sum));
      }
  });
  return result;
}

struct Shapes {
  Shape a, b, out;
};
Shapes random_shapes(Random& random) {
  Shapes s;
  for (unsigned axes = random() % 4; axes > 0; --axes) s.out.push_back(1 + static_cast<Index>(random() % 5));
  const Index m = 1 + static_cast<Index>(random() % 5), k = 1 + static_cast<Index>(random() % 5),
              n = 1 + static_cast<Index>(random() % 5);
  s.a = s.b = s.out;
  for (Index length : {m, k}) s.a.push_back(length);
  for (Index length : {k, n}) s.b.push_back(length);
  for (Index length : {m, n}) s.out.push_back(length);
  return s;
}

// ---- the plan ----------------------------------------------------------------------------------

/// The memory that BLAS gets for an operand: the operand itself, or the copy that the driver would
/// make.
std::vector<double> packed(const View& x, Packed how) {
  const PackedLayout layout = packed_layout(x, how);
  std::vector<double> copy(static_cast<std::size_t>(layout.shape.elements()));
  Shape at = layout.shape;
  std::fill(at.begin(), at.end(), 0);
  for (double& value : copy) {
    value = static_cast<const double*>(x.data)[offset(at, x.strides)];
    for (std::size_t axis = at.size(); axis-- > 0;) {
      if (++at[axis] < layout.shape[axis]) break;
      at[axis] = 0;
    }
  }
  return copy;
}

/// The element that BLAS reads at (row, column) of matrix i of the batch.
double element(const double* x, const MatmulOperand& operand, Index i, Index row, Index column) {
  const double* matrix = x + i * operand.batch_step;
  return operand.by_columns ? matrix[column * operand.leading + row] : matrix[row * operand.leading + column];
}

void carry_out(const MatmulPlan& plan, const double* a, const double* b, double* out, std::size_t loop = 0) {
  if (loop < plan.loops.size()) {
    const LoopAxis<3>& axis = plan.loops[loop];
    for (Index i = 0; i < axis.length; ++i)
      carry_out(plan, a + i * axis.step[1], b + i * axis.step[2], out + i * axis.step[0], loop + 1);
    return;
  }
  for (Index i = 0; i < plan.batch; ++i)
    for (Index row = 0; row < plan.m; ++row)
      for (Index column = 0; column < plan.n; ++column) {
        double sum = 0;
        for (Index q = 0; q < plan.k; ++q) sum += element(a, plan.a, i, row, q) * element(b, plan.b, i, q, column);
        // Each element must be written only once, or the sum is wrong.
        out[i * plan.out_step + row * plan.n + column] += sum;
      }
}

void check_blas_accepts(const MatmulOperand& x, Index rows, Index columns, Index batch) {
  EXPECT_GE(x.leading, std::max<Index>(1, x.by_columns ? rows : columns));
  if (batch > 1) {
    EXPECT_GE(x.batch_step, 0);
  }
}

void check_plan(Operand<double>& a, Operand<double>& b, const Shape& out_shape) {
  std::vector<double> result(static_cast<std::size_t>(out_shape.elements()));
  const Strides dense = stave::contiguous_strides(out_shape);
  const View x = a.view(), y = b.view(), out{result.data(), stave::Dtype::float64, out_shape, dense};
  const MatmulPlan plan = plan_matmul(x, y, out);
  check_blas_accepts(plan.a, plan.m, plan.k, plan.batch);
  check_blas_accepts(plan.b, plan.k, plan.n, plan.batch);
  const std::vector<double> a_copy = packed(x, plan.a.packed), b_copy = packed(y, plan.b.packed);
  carry_out(plan, plan.a.packed == Packed::no ? static_cast<const double*>(x.data) : a_copy.data(),
            plan.b.packed == Packed::no ? static_cast<const double*>(y.data) : b_copy.data(), result.data());
  EXPECT_EQ(result, by_definition<double>(x, y, out_shape))
      << "a " << a.shape.str() << " strides " << a.strides.str() << ", b " << b.shape.str() << " strides "
      << b.strides.str();
}

TEST(MatmulPlan, ComputesTheProductOfAnyLayouts) {
  Random random(1);
  for (int i = 0; i < 20000 && !testing::Test::HasFailure(); ++i) {
    const Shapes shapes = random_shapes(random);
    Operand<double> a = operand<double>(shapes.a, random), b = operand<double>(shapes.b, random);
    check_plan(a, b, shapes.out);
  }
}

MatmulPlan plan_of(const Shape& a, const Strides& a_strides, const Shape& b, const Strides& b_strides) {
  Shape out = a;
  out.back() = b.back();
  const Strides dense = stave::contiguous_strides(out);
  return plan_matmul({nullptr, stave::Dtype::float32, a, a_strides}, {nullptr, stave::Dtype::float32, b, b_strides},
                     {nullptr, stave::Dtype::float32, out, dense});
}

TEST(MatmulPlan, TransposedOperandsAreReadInPlace) {
  const MatmulPlan plan = plan_of({64, 32}, {1, 64}, {32, 16}, {1, 40});
  EXPECT_EQ(plan.a.packed, Packed::no);
  EXPECT_TRUE(plan.a.by_columns);
  EXPECT_EQ(plan.a.leading, 64);
  EXPECT_TRUE(plan.b.by_columns);
  EXPECT_EQ(plan.b.leading, 40);
  EXPECT_EQ(plan.batch, 1);
}

TEST(MatmulPlan, SlicesKeepTheirLeadingDimension) {
  const MatmulPlan plan = plan_of({8, 4}, {100, 1}, {4, 8}, {50, 1});
  EXPECT_EQ(plan.a.packed, Packed::no);
  EXPECT_EQ(plan.a.leading, 100);
  EXPECT_EQ(plan.b.leading, 50);
}

TEST(MatmulPlan, OperandsThatBlasCannotReadAreCopied) {
  // Every second element.
  EXPECT_EQ(plan_of({8, 4}, {8, 2}, {4, 8}, {8, 1}).a.packed, Packed::once);
  // Reversed rows.
  EXPECT_EQ(plan_of({8, 4}, {-4, 1}, {4, 8}, {8, 1}).a.packed, Packed::once);
  // One row, broadcast.
  EXPECT_EQ(plan_of({8, 4}, {0, 1}, {4, 8}, {8, 1}).a.packed, Packed::once);
  // Reversed columns.
  EXPECT_EQ(plan_of({8, 4}, {4, 1}, {4, 8}, {8, -1}).b.packed, Packed::once);
  // Overlapping rows.
  EXPECT_EQ(plan_of({8, 4}, {2, 1}, {4, 8}, {8, 1}).a.packed, Packed::once);
  // With one row, the row stride has no meaning.
  EXPECT_EQ(plan_of({1, 4}, {-9, 1}, {4, 1}, {1, -5}).a.packed, Packed::no);
  EXPECT_EQ(plan_of({1, 4}, {-9, 1}, {4, 1}, {1, -5}).b.packed, Packed::no);
}

TEST(MatmulPlan, ARepeatedMatrixIsCopiedOnce) {
  const Shape a{10, 8, 4}, b{10, 4, 8};
  const Strides repeated{0, 8, 2};
  const MatmulPlan plan = plan_of(a, repeated, b, {32, 8, 1});
  EXPECT_EQ(plan.a.packed, Packed::once);
  EXPECT_EQ(plan.a.batch_step, 0);
  EXPECT_EQ(packed_layout({nullptr, stave::Dtype::float32, a, repeated}, Packed::once).shape, Shape({1, 8, 4}));
}

TEST(MatmulPlan, SharedRightMatrixMakesOneTallProduct) {
  const MatmulPlan plan = plan_of({5, 7, 8, 4}, {224, 32, 4, 1}, {5, 7, 4, 3}, {0, 0, 3, 1});
  EXPECT_EQ(plan.m, 5 * 7 * 8);
  EXPECT_EQ(plan.batch, 1);
  EXPECT_TRUE(plan.loops.empty());
  const MatmulPlan vectors = plan_of({5, 1, 4}, {9, 4, 1}, {5, 4, 3}, {0, 3, 1});
  EXPECT_EQ(vectors.m, 5);
  EXPECT_EQ(vectors.a.leading, 9);
}

TEST(MatmulPlan, BatchesAreOneCall) {
  const MatmulPlan plan = plan_of({5, 7, 8, 4}, {224, 32, 4, 1}, {5, 7, 4, 3}, {84, 12, 3, 1});
  EXPECT_EQ(plan.batch, 35);
  EXPECT_EQ(plan.a.batch_step, 32);
  EXPECT_EQ(plan.b.batch_step, 12);
  EXPECT_EQ(plan.out_step, 24);
  EXPECT_TRUE(plan.loops.empty());
}

TEST(MatmulPlan, IrregularBatchesUseFewLoopsOrCopies) {
  const MatmulPlan few = plan_of({4, 100, 8, 4}, {32, 0, 4, 1}, {4, 100, 4, 3}, {0, 12, 3, 1});
  EXPECT_EQ(few.batch, 100);
  ASSERT_EQ(few.loops.size(), 1u);
  EXPECT_EQ(few.loops[0].length, 4);
  EXPECT_EQ(few.a.packed, Packed::no);
  const MatmulPlan many = plan_of({40, 100, 8, 4}, {32, 0, 4, 1}, {40, 100, 4, 3}, {0, 12, 3, 1});
  EXPECT_EQ(many.batch, 4000);
  EXPECT_TRUE(many.loops.empty());
  EXPECT_EQ(many.a.packed, Packed::entirely);
}

// ---- the kernel --------------------------------------------------------------------------------

template <class T>
void check_kernel(Operand<T>& a, Operand<T>& b, const Shape& out_shape, Index blocks) {
  using Word = Signless<T>;
  const auto count = static_cast<std::size_t>(out_shape.elements());
  // Extra elements, which show if a block writes outside the result.
  std::vector<T> result(count + 1000, T(77));
  const Strides dense = stave::contiguous_strides(out_shape);
  const View x = a.view(), y = b.view(), out{result.data(), stave::dtype_of<T>(), out_shape, dense};
  const std::size_t leading = out_shape.size() - 2;
  const IndexPlan<2> batch(out.shape.first(leading), {x.strides.first(leading), y.strides.first(leading)});
  const TiledProduct<Word> product = tiled_product<Word>(x, y, out, batch.on_host());
  run_on_host(std::min(blocks, product.tasks), [&](HostBlock block) {
    ProductTiles<Word> shared;
    tiled_product_body(block, product, shared);
  });
  std::vector<T> expected = by_definition<T>(x, y, out_shape);
  expected.resize(count + 1000, T(77));
  EXPECT_EQ(std::memcmp(result.data(), expected.data(), result.size() * sizeof(T)), 0) << out_shape.str();
}

template <class T>
void check_kernels(unsigned seed) {
  Random random(seed);
  for (int i = 0; i < 60 && !testing::Test::HasFailure(); ++i) {
    const Shapes shapes = random_shapes(random);
    Operand<T> a = operand<T>(shapes.a, random), b = operand<T>(shapes.b, random);
    check_kernel(a, b, shapes.out, 1 + static_cast<Index>(random() % 7));
  }
  for (const auto& [m, k, n] : {std::array<Index, 3>{33, 65, 40}, {1, 70, 64}, {64, 1, 1}, {32, 32, 32}}) {
    Operand<T> a = operand<T>({2, m, k}, random), b = operand<T>({2, k, n}, random);
    check_kernel(a, b, {2, m, n}, 3);
  }
}

TEST(TiledProduct, SupportsEveryType) {
#define X(name, type) check_kernels<type>(static_cast<unsigned>(stave::name));
  STAVE_INTEGERS(X)
  STAVE_FLOATS(X)
  STAVE_COMPLEX(X)
#undef X
}

TEST(TiledProduct, IntegersWrap) {
  Operand<std::int64_t> a{{1, 2}, {2, 1}, {std::int64_t{1} << 62, 3}, 0}, b{{2, 1}, {1, 1}, {6, 5}, 0};
  std::int64_t out = 0;
  const Shape shape{1, 1};
  const TiledProduct<std::uint64_t> product =
      tiled_product<std::uint64_t>(a.view(), b.view(), {&out, stave::Dtype::int64, shape, shape}, {});
  ProductTiles<std::uint64_t> shared;
  tiled_product_body(HostBlock{0, 1}, product, shared);
  // 6 * 2^62 = 2^63 (mod 2^64).
  EXPECT_EQ(out, static_cast<std::int64_t>((std::uint64_t{1} << 63) + 15));
}

/// The kernel's product of a row of `a` and a column of `b`.
template <class T>
T dot(const std::vector<double>& a, const std::vector<double>& b) {
  const auto k = static_cast<Index>(a.size());
  Operand<T> x{{1, k}, {k, 1}, {}, 0}, y{{k, 1}, {1, 1}, {}, 0};
  for (double value : a) x.memory.push_back(static_cast<T>(value));
  for (double value : b) y.memory.push_back(static_cast<T>(value));
  T out{};
  const Shape shape{1, 1};
  const TiledProduct<Signless<T>> product =
      tiled_product<Signless<T>>(x.view(), y.view(), {&out, stave::dtype_of<T>(), shape, shape}, {});
  ProductTiles<Signless<T>> shared;
  tiled_product_body(HostBlock{0, 1}, product, shared);
  return out;
}

// The product of two 16-bit integers can exceed the range of int.
TEST(TiledProduct, ShortIntegersWrap) {
  EXPECT_EQ(dot<std::uint16_t>({65535, 65535, 2}, {65535, 65534, 5}), 1 + 2 + 10);
  EXPECT_EQ(dot<std::int16_t>({-32768, 300}, {-32768, 300}), 90000 - 65536);
  EXPECT_EQ(dot<std::int8_t>({-128, 100}, {127, 3}), -16256 + 300 + 62 * 256);
}

// 2048 + 1 + 1 in float. If each sum were rounded to 16 bits, the result would be 2048.
TEST(TiledProduct, FloatsOf16BitsAccumulateInFloat) {
  EXPECT_EQ(dot<stave::Float16>({2048, 1, 1}, {1, 1, 1}), 2050);
  // 10^6 is an intermediate value
  EXPECT_EQ(dot<stave::Float16>({1000, -1000, 3}, {1000, 999, 1}), 1003);
  EXPECT_EQ(dot<stave::BFloat16>(std::vector<double>(1000, 1), std::vector<double>(1000, 1)), 1000);
}

}  // namespace
