// Operations that stave_add_kernels compiles (own_kernels/) give the same bits as their steps, with
// every instruction set, size and layout.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/own_kernels.h>
#include <stave/stave.h>

#include "bits.h"
#include "isas.h"
#include "matchers.h"
#include "own_kernels/functions.h"

namespace own {

using stave::ElementwiseOperation;
#define X(name, operands, ...) extern const ElementwiseOperation<operands> name;
STAVE_OWN_FUNCTIONS(X)
#undef X
#define X(name, Struct) extern const ElementwiseOperation<1> own_##name;
STAVE_UNARY_OPS(X)
#undef X
#define X(name, Struct) extern const ElementwiseOperation<2> own_##name;
STAVE_BINARY_OPS(X)
#undef X

}  // namespace own

namespace {

using namespace stave;
using namespace stave_test;

namespace plain {

#define X(name, operands, ...) const auto name = elementwise_op(#name, __VA_ARGS__);
STAVE_OWN_FUNCTIONS(X)
#undef X

}  // namespace plain

/// Replaces every NaN by the same one, because the product of two NaNs may be either of them.
Tensor one_nan(const Tensor& x) {
  return is_float(x.dtype()) ? where(isnan(x), std::numeric_limits<double>::quiet_NaN(), x) : x;
}
MATCHER_P(HasBitsOf, expected, "") {
  return arg.dtype() == expected.dtype() && arg.shape() == expected.shape() &&
         bytes_of(one_nan(arg)) == bytes_of(one_nan(expected));
}

/// Records the region of a fused call.
struct SeesRegion : Handler {
  RegionPtr region;
  Outputs handle(Call& call) override {
    if (const auto* fused = dynamic_cast<const FusedAttributes*>(call.attributes())) region = fused->region;
    return perform(std::move(call));
  }
};
template <class F>
bool takes_loop(F f) {
  SeesRegion sees;
  with(sees, f);
  return sees.region && sees.region->loop(stave_cpu::kernels().isa);
}

/// Numbers near which functions switch formulas, overflow or underflow.
Tensor special(Dtype dtype) {
  std::vector<double> numbers;
  for (const double x : {0.,         1e-320, 1e-42, 1e-8, 0.25,   0.5,  0.9, 1.,   1.5,  2.,    3.,
                         10.,        87.5,   89.,   104., 709.78, 711., 1e8, 2e19, 3e38, 1e300, double(INFINITY),
                         double(NAN)})
    numbers.insert(numbers.end(), {x, -x});
  return astype(from(numbers), dtype);
}
Tensor scattered(Shape shape, Dtype dtype, unsigned seed) { return 3 * normal(Key(seed), std::move(shape), dtype); }

class OwnKernels : public stave_test::OnEachIsa {};
STAVE_ON_EACH_ISA(OwnKernels);

/// Returns true if a region can apply the operation to float32 operands.
bool takes_floats(OpId id, std::initializer_list<int> operands) {
  try {
    Region({float32}).add(record_of(id), operands);
    return true;
  } catch (const DtypeError&) {
    return false;
  }
}

TEST_P(OwnKernels, EqualTheLibraryForEachFunction) {
  int loops = 0;
  for (const Dtype dtype : {float32, float64}) {
    const Tensor x = special(dtype), grid = broadcast_to(x, {x.size(), x.size()});
    const Tensor a = contiguous(grid), b = contiguous(permute_dims(grid, {1, 0}));
#define X(name, Struct)                                                                    \
  if (takes_floats(OpId::name, {0})) {                                                     \
    EXPECT_THAT(own::own_##name(a), HasBitsOf(name(a))) << #name << " " << name_of(dtype); \
    EXPECT_TRUE(takes_loop([&] { own::own_##name(a); })) << #name;                         \
    ++loops;                                                                               \
  }
    STAVE_UNARY_OPS(X)
#undef X
#define X(name, Struct)                                                                          \
  if (takes_floats(OpId::name, {0, 0})) {                                                        \
    EXPECT_THAT(own::own_##name(a, b), HasBitsOf(name(a, b))) << #name << " " << name_of(dtype); \
    EXPECT_TRUE(takes_loop([&] { own::own_##name(a, b); })) << #name;                            \
    ++loops;                                                                                     \
  }
    STAVE_BINARY_OPS(X)
#undef X
  }
  EXPECT_GT(loops, 2 * 60);
}

/// Calls check(operation with a compiled loop, operation without one, the function, the indices
/// of its operands) for each function.
template <class Check>
void for_each_function(Check check) {
#define X(name, operands, ...)                                                        \
  {                                                                                   \
    SCOPED_TRACE(#name);                                                              \
    check(own::name, plain::name, __VA_ARGS__, std::make_index_sequence<operands>()); \
  }
  STAVE_OWN_FUNCTIONS(X)
#undef X
}
template <class F, std::size_t... i>
Tensor call(const F& f, std::span<const Tensor> xs, std::index_sequence<i...>) {
  return f(xs[i]...);
}

/// Checks that each compiled operation gives the same bits as the function's operations performed
/// one by one. Each function takes the first of these operands.
void expect_same(const std::vector<Tensor>& xs) {
  for_each_function([&](const auto& with_loop, const auto&, const auto& f, auto operands) {
    const Tensor expected = call(f, xs, operands);
    EXPECT_THAT(call(with_loop, xs, operands), HasBitsOf(expected)) << xs[0].shape() << " " << name_of(xs[0].dtype());
  });
}

TEST_P(OwnKernels, EqualPlainOperationsForSizesAndDtypes) {
  for (const Dtype dtype : {float32, float64})
    for (const Index n : {0, 1, 7, 64, 1000, (1 << 16) + 3}) {
      std::vector<Tensor> xs;
      for (unsigned i = 0; i < 8; ++i) xs.push_back(scattered({n}, dtype, i));
      expect_same(xs);
      if (n > 0)
        for_each_function([&](const auto& with_loop, const auto& without, const auto&, auto operands) {
          EXPECT_TRUE(takes_loop([&] { call(with_loop, xs, operands); }));
          EXPECT_FALSE(takes_loop([&] { call(without, xs, operands); }));
        });
    }
}

TEST_P(OwnKernels, EqualPlainOperationsForSpecialNumbers) {
  for (const Dtype dtype : {float32, float64}) {
    std::vector<Tensor> xs;
    for (int i = 0; i < 8; ++i) xs.push_back(roll(special(dtype), i * i));
    expect_same(xs);
  }
}

TEST_P(OwnKernels, EqualPlainOperationsInEveryLayout) {
  const Tensor rows = scattered({37, 300}, float32, 1),
               columns = permute_dims(scattered({300, 37}, float32, 2), {1, 0});
  const Tensor every_second = scattered({37, 600}, float32, 3)(ellipsis, slice(0, 600, 2));
  const Tensor backwards = flip(rows, 1), row = scattered({300}, float32, 4), column = scattered({37, 1}, float32, 5);
  const Tensor within = scattered({40, 301}, float32, 6)(slice(1, 38), slice(1, 301)), number(0.75f);
  std::vector<Tensor> xs = {rows, columns, every_second, backwards, row, column, within, number};
  for (std::size_t i = 0; i < xs.size(); ++i) {
    expect_same(xs);
    std::rotate(xs.begin(), xs.begin() + 1, xs.end());
  }
}

TEST_P(OwnKernels, OperandsMayBeNumbers) {
  const Tensor x = scattered({1000}, float64, 1);
  EXPECT_THAT(own::shrink(x, 0.1), HasBitsOf(plain::shrink(x, 0.1)));
  EXPECT_THAT(own::within(-1, x, 1), HasBitsOf(plain::within(-1, x, 1)));
  EXPECT_THAT(own::logistic(0.3), HasBitsOf(plain::logistic(0.3)));
}

// Tests sizes that fit the caches and a size whose results are written by non-temporal stores.
TEST_P(OwnKernels, ResultMayOverwriteItsOperand) {
  for (const Index n : {5, 1000, 1 << 21}) {
    Tensor x = scattered({n}, float32, 1), y = scattered({n}, float32, 2);
    const Tensor expected = plain::soft_maximum(x, y);
    EXPECT_THAT(own::soft_maximum(x, y), HasBitsOf(expected));
    const void* const memory = y.node().data();
    const Tensor found = own::soft_maximum(x, std::move(y));
    EXPECT_EQ(found.node().data(), memory);
    EXPECT_THAT(found, HasBitsOf(expected));
  }
}

TEST_P(OwnKernels, OtherDtypesUseTheRegion) {
  const Tensor x = scattered({1000}, float32, 1), y = scattered({1000}, float32, 2);
  for (const Dtype dtype : {float16, bfloat16, int32, bool_}) {
    EXPECT_THAT(own::logistic(astype(x, dtype)), HasBitsOf(plain::logistic(astype(x, dtype))));
    EXPECT_FALSE(takes_loop([&] { own::logistic(astype(x, dtype)); }));
  }
  EXPECT_THAT(own::shrink(x, astype(y, float64)), HasBitsOf(plain::shrink(x, astype(y, float64))));
  EXPECT_FALSE(takes_loop([&] { own::shrink(x, astype(y, float64)); }));
}

TEST_P(OwnKernels, WorkUnderTransforms) {
  const std::vector<Tensor> xs = {scattered({70, 30}, float32, 1), scattered({70, 30}, float32, 2)};
  const auto expect = [&](const auto& f, const auto& g) { EXPECT_THAT(f(xs[0], xs[1]), HasBitsOf(g(xs[0], xs[1]))); };
  const auto with_all = [&](const auto& transform) {
    expect(transform(own::soft_maximum), transform(plain::soft_maximum));
    expect(transform(own::shrink), transform(plain::shrink));
  };
  const auto total = [](const auto& f) { return [&f](const Tensor& x, const Tensor& y) { return sum(f(x, y)); }; };
  const auto plainly = [](const auto& f) { return [&f](const Tensor& x, const Tensor& y) { return f(x, y); }; };
  with_all([&](const auto& f) { return grad(total(f)); });
  with_all([&](const auto& f) {
    return grad([=, of = grad(total(f))](const Tensor& x, const Tensor& y) { return sum(square(of(x, y))); });
  });
  with_all([&](const auto& f) { return vmap(plainly(f)); });
  with_all([&](const auto& f) { return vmap(plainly(f), {.in_axes = {1, 1}, .out_axes = 1}); });
  with_all([&](const auto& f) { return vmap(plainly(f), {.in_axes = {0, unmapped}}); });
  with_all([&](const auto& f) { return vmap(grad(total(f))); });
  with_all([&](const auto& f) { return compile(plainly(f)); });
  with_all(
      [&](const auto& f) { return compile([&f](const Tensor& x, const Tensor& y) { return tanh(f(x, y)) + x; }); });
  with_all([&](const auto& f) { return compile(grad(total(f))); });
}

// This file is not passed to stave_add_kernels.
STAVE_ELEMENTWISE_OPERATION(not_added, [](const auto& x) { return x * 2 + 1; });

TEST(OwnLoops, FileWithoutAddedKernelsHasNone) {
  const Tensor x = scattered({1000}, float32, 1);
  EXPECT_THAT(not_added(x), HasBitsOf(x * 2 + 1));
  EXPECT_FALSE(takes_loop([&] { not_added(x); }));
}

// A loop whose results differ from those of the region's steps.
void put_sevens(void* out, const void* const*, std::int64_t n) { std::fill_n(static_cast<float*>(out), n, 7.f); }

TEST(OwnLoops, RegionUsesOnlyMatchingLoops) {
  const auto twice = [](std::span<const stave_detail::Loop> loops) {
    const IntrusivePtr<Region> region(new Region({float32}));
    region->set_outputs({region->add(op_add, {0, 0})});
    region->set_loops(loops);
    return region;
  };
  const char* const isa = stave_cpu::kernels().isa;
  const stave_detail::Loop right{isa, 1, float32, float32, put_sevens};
  auto no_isa = right, two_operands = right, doubles = right, condition = right;
  no_isa.isa = "none";
  two_operands.operands = 2;
  doubles.dtype = doubles.result = float64;
  condition.result = bool_;
  const Tensor x = ones({1000});
  EXPECT_THAT(fused(twice({&right, 1}), {x})[0], IsNear(full({1000}, 7.f), 0));
  const stave_detail::Loop wrong[] = {no_isa, two_operands, doubles, condition};
  EXPECT_THAT(fused(twice(wrong), {x})[0], IsNear(full({1000}, 2.f), 0));
  // A reopened region has no loops, because other outputs may follow.
  EXPECT_EQ(twice({&right, 1})->reopened()->loop(isa), nullptr);
}

}  // namespace
