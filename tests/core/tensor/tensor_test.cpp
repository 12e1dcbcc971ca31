// Tensors as values: making them from data and from rules, reading them, and sharing storage.

#include <complex>
#include <limits>
#include <numeric>
#include <thread>

#include <stave/stave.h>

#include "matchers.h"

namespace tensor_test {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

const Tensor global = tensor({1., 2., 3.});  // made before main, freed after it

// ---- nested lists -------------------------------------------------------------------------------

TEST(NestedLists, GiveTheDtypeOfTheirNumbers) {
  EXPECT_EQ(tensor({1, 2}).dtype(), int32);
  EXPECT_EQ(tensor({1., 2.}).dtype(), float32);
  EXPECT_EQ(tensor({1.f, 2.f}).dtype(), float32);
  EXPECT_EQ(tensor({1, 2.5}).dtype(), float32);
  EXPECT_EQ(tensor({true, false}).dtype(), bool_);
  EXPECT_EQ(tensor({true, 2}).dtype(), int32);
  EXPECT_EQ(tensor({1L, 2L}).dtype(), int64);
  EXPECT_EQ(tensor({1, std::int64_t{1} << 40}).dtype(), int64);
  EXPECT_EQ(tensor({1., 2.}, float64).dtype(), float64);
  EXPECT_EQ(tensor({1, 2}, uint8).dtype(), uint8);
  EXPECT_EQ(tensor({0, 3}, bool_).to_vector<bool>(), (std::vector<bool>{false, true}));
}

TEST(NestedLists, GiveTheShapeOfTheirNesting) {
  EXPECT_EQ(tensor({5}).shape(), Shape(1));
  EXPECT_EQ(tensor({{1, 2, 3}, {4, 5, 6}}).shape(), Shape(2, 3));
  EXPECT_EQ(tensor({{1, 2}}).shape(), Shape(1, 2));
  EXPECT_EQ(tensor({{1}, {2}}).shape(), Shape(2, 1));
  EXPECT_EQ(tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}).shape(), Shape(2, 2, 2));
  EXPECT_THAT((tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}).to_vector<std::int32_t>()),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(tensor({}).shape(), Shape(0));
  EXPECT_EQ(tensor({}).dtype(), float32);
  EXPECT_EQ(tensor(5).shape(), Shape());
  EXPECT_EQ(tensor(5).dtype(), int32);
  EXPECT_EQ(tensor(2.5).dtype(), float32);
  EXPECT_EQ(tensor(2.5, float64).item<double>(), 2.5);
}

TEST(NestedLists, RaggedListsAreErrors) {
  EXPECT_THAT(
      [] {
        tensor({{1, 2}, {3}});
      },
      ThrowsMessage<ShapeError>("tensor: ragged list: 1 entries where the first list of axis 1 has 2"));
  EXPECT_THAT(
      [] {
        tensor({{{1}, {2}}, {{3}, {4}, {5}}});
      },
      ThrowsMessage<ShapeError>(HasSubstr("tensor: ragged list: 3 entries")));
  EXPECT_THAT(
      [] {
        tensor({{1, 2}, 3});
      },
      ThrowsMessage<ShapeError>(HasSubstr("tensor: ragged list: found a number, expected")));
  EXPECT_THAT(
      [] {
        tensor({1, {2, 3}});
      },
      ThrowsMessage<ShapeError>(HasSubstr("tensor: ragged list: found a list, expected a number")));
}

TEST(NestedLists, NumbersMustFitTheDtype) {
  EXPECT_THAT(
      [] {
        tensor({1, 300}, uint8);
      },
      ThrowsMessage<DtypeError>(HasSubstr("the number 300 does not fit uint8")));
  EXPECT_THAT([] { tensor({-1}, uint32); }, ThrowsMessage<DtypeError>(HasSubstr("the number -1 does not fit uint32")));
  EXPECT_THAT([] { tensor({1.5}, int32); }, ThrowsMessage<DtypeError>(HasSubstr("the number 1.5 does not fit int32")));
  EXPECT_EQ(tensor({2.}, int32).item<int>(), 2);
}

// ---- from host data -----------------------------------------------------------------------------

TEST(From, CopiesHostData) {
  std::vector<float> data{1, 2, 3, 4, 5, 6};
  const Tensor x = from(std::span<const float>(data), {2, 3});
  data[0] = 100;
  EXPECT_THAT(x, Equals(tensor({{1., 2., 3.}, {4., 5., 6.}})));
  EXPECT_THAT(from(data), Equals(tensor({100., 2., 3., 4., 5., 6.})));
  EXPECT_THAT(from(data, {3, 2}).shape(), Shape(3, 2));
  EXPECT_EQ(from(std::vector{1., 2.}).dtype(), float64);
  EXPECT_EQ(from(std::vector<std::int64_t>{1}).dtype(), int64);
  EXPECT_EQ(from(std::vector<long long>{1}).dtype(), int64);
  EXPECT_EQ(from(std::vector<std::uint8_t>{1}).dtype(), uint8);
  EXPECT_EQ(from(std::vector<std::uint32_t>{1}).dtype(), uint32);
  EXPECT_THAT(from(std::vector{true, false, true}), Equals(tensor({true, false, true})));
  EXPECT_EQ(from(std::vector<float>{}, {0, 3}).shape(), Shape(0, 3));
  EXPECT_EQ(from(std::vector{5.f}, Shape()).shape(), Shape());
}

TEST(From, CountMustFillTheShape) {
  EXPECT_THAT(
      [] {
        from(std::vector{1.f, 2.f, 3.f}, {2, 2});
      },
      ThrowsMessage<ShapeError>("from: 3 values do not fill shape [2,2], which holds 4"));
  EXPECT_THROW(from(std::vector{1.f}, {-1}), ShapeError);
}

// ---- reading ------------------------------------------------------------------------------------

TEST(Item, ConvertsAsStaticCast) {
  EXPECT_EQ(tensor(2.75).item<float>(), 2.75f);
  EXPECT_EQ(tensor(2.75).item<int>(), 2);
  EXPECT_EQ(tensor(-7).item<double>(), -7.);
  EXPECT_EQ(tensor({{3}}).item<short>(), 3);
  EXPECT_EQ(tensor(0.1, float64).item<long double>(), 0.1);
  EXPECT_EQ(tensor(1e9).item<signed char>(), 127);
  EXPECT_EQ(tensor(1e9).item<char>(), std::numeric_limits<char>::max());
  EXPECT_EQ(tensor(-1e9).item<char16_t>(), 0);
  EXPECT_EQ(tensor(1e9).item<char32_t>(), 1'000'000'000);
  EXPECT_EQ(tensor(7).item<unsigned long>(), 7u);
  EXPECT_EQ(tensor(3).item<bool>(), true);
  EXPECT_EQ(tensor(true).item<int>(), 1);
  EXPECT_EQ(tensor(std::int64_t{1} << 40).item<std::int64_t>(), std::int64_t{1} << 40);
  EXPECT_EQ(tensor(0.1, float64).item<double>(), 0.1);
  EXPECT_EQ(float(tensor(1.5)), 1.5f);
  EXPECT_EQ(int(tensor({4})), 4);
  EXPECT_FALSE(static_cast<bool>(tensor(0.)));
  EXPECT_TRUE(static_cast<bool>(tensor({{2}})));
}

TEST(Item, IsAlsoAFreeFunction) {
  EXPECT_EQ(item<int>(tensor(2.5)), 2);
  EXPECT_EQ(item<double>(tensor({{3}})), 3);
}

TEST(Item, OfSeveralElementsIsAnError) {
  EXPECT_THAT([] { global.item<float>(); },
              ThrowsMessage<ShapeError>("item: the tensor of shape [3] has 3 elements, not one"));
  EXPECT_THROW(zeros({0}).item<float>(), ShapeError);
}

TEST(Bool, OfAnArrayComparisonIsAnErrorWithARemedy) {
  const Tensor x = tensor({1., 2.}), y = tensor({1., 3.});
  EXPECT_THAT(
      [&] {
        if (x == y) FAIL();
      },
      ThrowsMessage<ShapeError>("bool: the truth of a tensor of shape [2] is ambiguous: use all(x) or any(x); to "
                                "compare tensors, array_equal(a, b) or allclose(a, b)"));
  EXPECT_THROW(static_cast<void>(!bool(x != y)), ShapeError);
  if (tensor(2) == 2) SUCCEED();
  else FAIL();
  EXPECT_FALSE(array_equal(x, y));
  EXPECT_TRUE(array_equal(x, tensor({1, 2})));
  EXPECT_FALSE(array_equal(x, tensor({{1., 2.}})));
}

TEST(ToVector, ReadsAnyLayoutInRowMajorOrder) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_THAT(x.to_vector<std::int32_t>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(transpose(x).to_vector<std::int32_t>(), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(x(slice(none, none, -1), slice(none, none, 2)).to_vector<std::int32_t>(), ElementsAre(4, 6, 1, 3));
  EXPECT_THAT(broadcast_to(x(0), {2, 3}).to_vector<std::int32_t>(), ElementsAre(1, 2, 3, 1, 2, 3));
  EXPECT_THAT(tensor({true, false}).to_vector<bool>(), ElementsAre(true, false));
  EXPECT_THAT(zeros({0, 4}).to_vector<float>(), IsEmpty());
}

TEST(ToVector, RequiresTheTypeOfTheDtype) {
  EXPECT_THAT(
      [] {
        tensor({1, 2}).to_vector<float>();
      },
      ThrowsMessage<DtypeError>(
          AllOf(HasSubstr("to_vector: the tensor is int32 [2], not float32"), HasSubstr("astype"))));
}

TEST(Data, IsTheContiguousHostMemory) {
  const Tensor x = tensor({{1., 2.}, {3., 4.}});
  const std::span<const float> data = x.data<float>();
  EXPECT_THAT(std::vector(data.begin(), data.end()), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(x.data<float>().data(), data.data());
  EXPECT_EQ(x(1).data<float>().data(), data.data() + 2);  // a contiguous view
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data.data()) % 16, 0u);
  // Storage of more than 16 bytes is aligned to 64 bytes.
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(zeros({5}).data<float>().data()) % 64, 0u);
  EXPECT_THAT(
      [&] { transpose(x).data<float>(); },
      ThrowsMessage<ShapeError>(AllOf(HasSubstr("data: the tensor of shape [2,2] is not contiguous (strides [1,2])"),
                                      HasSubstr("contiguous(x), or to_vector"))));
  EXPECT_THROW(x.data<double>(), DtypeError);
}

// ---- values -------------------------------------------------------------------------------------

TEST(Tensors, CopiesShareStorageAndAreIndependentValues) {
  Tensor a = tensor({1., 2.});
  const Tensor b = a;
  EXPECT_EQ(a.node_ptr().get(), b.node_ptr().get());
  a += 1;
  EXPECT_THAT(a, Equals(tensor({2., 3.})));
  EXPECT_THAT(b, Equals(tensor({1., 2.})));
  a = a * a;
  EXPECT_THAT(a, Equals(tensor({4., 9.})));
}

TEST(Tensors, KnowTheirLayout) {
  const Tensor x = zeros({2, 3, 4}, float64);
  EXPECT_EQ(x.rank(), 3);
  EXPECT_EQ(x.size(), 24);
  EXPECT_EQ(x.shape(1), 3);
  EXPECT_EQ(x.shape(-1), 4);
  EXPECT_EQ(x.device(), cpu);
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_EQ(permute_dims(x, {2, 0, 1}).strides(), Shape(1, 12, 4));
  EXPECT_FALSE(permute_dims(x, {2, 0, 1}).is_contiguous());
  EXPECT_THAT([&] { x.shape(3); }, ThrowsMessage<IndexError>("shape: axis 3 is out of range for rank 3"));
  EXPECT_THROW(x.shape(-4), IndexError);
}

TEST(Tensors, EmptyTensorsRefuseEveryUseButAssignment) {
  Tensor x;
  EXPECT_FALSE(x.defined());
  EXPECT_THAT([&] { x.shape(); }, ThrowsMessage<TransformError>(HasSubstr("an empty Tensor is used")));
  EXPECT_THROW(x.item<float>(), TransformError);
  EXPECT_THROW(x + 1, TransformError);
  EXPECT_THROW(sin(x), TransformError);
  EXPECT_THROW(matmul(x, global), TransformError);
  x = global;
  EXPECT_TRUE(x.defined());
  const Tensor y = std::move(x);
  EXPECT_FALSE(x.defined());  // NOLINT: moved from
  EXPECT_THAT(y, Equals(global));
}

TEST(Tensors, MayBeSharedBetweenThreads) {
  std::vector<std::thread> threads;
  std::vector<float> sums(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&sums, t, x = global] {
      Tensor mine = x;
      for (int i = 0; i < 500; ++i) mine = mine + global;
      sums[static_cast<std::size_t>(t)] = sum(mine).item<float>();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(sums, ElementsAre(3006, 3006, 3006, 3006));  // 501 * (1 + 2 + 3)
}

TEST(Tensors, MayBeDestroyedOnAnotherThread) {
  const std::size_t before = memory_stats().live_bytes;
  Tensor x = ones({1000});
  std::thread([y = std::move(x)]() mutable { y = Tensor(); }).join();
  EXPECT_EQ(memory_stats().live_bytes, before);
}

// ---- from a rule --------------------------------------------------------------------------------

TEST(Full, EveryElementIsTheValue) {
  EXPECT_THAT(zeros({2, 2}), Equals(tensor({{0., 0.}, {0., 0.}})));
  EXPECT_THAT(ones({2}, int64), Equals(tensor({1L, 1L})));
  EXPECT_THAT(full({2}, 7), Equals(tensor({7, 7})));
  EXPECT_THAT(full({2}, 0.5), Equals(tensor({0.5, 0.5})));
  EXPECT_THAT(full({1}, true), Equals(tensor({true})));
  EXPECT_EQ(full({1}, std::int64_t{1} << 33).dtype(), int64);
  EXPECT_THAT(full({}, 3, float64), Equals(tensor(3., float64)));
  EXPECT_EQ(full({}, (std::int64_t{1} << 60) + 1, int64).item<std::int64_t>(), (std::int64_t{1} << 60) + 1);
  EXPECT_THAT(full({}, std::numeric_limits<double>::infinity()), IsNumber(std::numeric_limits<double>::infinity()));
  EXPECT_EQ(zeros({0, 3}).shape(), Shape(0, 3));
  EXPECT_THAT([] { full({2}, -3, uint8); }, ThrowsMessage<DtypeError>(HasSubstr("-3 does not fit uint8")));
  EXPECT_THAT([] { zeros({2, -1}); }, ThrowsMessage<ShapeError>("zeros: shape [2,-1] has a negative length"));
  const Tensor x = zeros({2, 3}, int32);
  EXPECT_THAT(ones_like(x), Equals(ones({2, 3}, int32)));
  EXPECT_THAT(zeros_like(x), Equals(x));
  EXPECT_THAT(full_like(x, 4), Equals(full({2, 3}, 4)));
}

TEST(Arange, EqualsNumPy) {
  EXPECT_THAT(arange(4), Equals(tensor({0, 1, 2, 3})));
  EXPECT_THAT(arange(2, 5), Equals(tensor({2, 3, 4})));
  EXPECT_THAT(arange(5, 0, -2), Equals(tensor({5, 3, 1})));
  EXPECT_THAT(arange(0., 1., 0.25), Equals(tensor({0., 0.25, 0.5, 0.75})));
  EXPECT_THAT(arange(0, 5, 2), Equals(tensor({0, 2, 4})));
  EXPECT_EQ(arange(3.).dtype(), float32);
  EXPECT_EQ(arange(0, 3, 1, float64).dtype(), float64);
  EXPECT_EQ(arange(5, 2).shape(), Shape(0));
  EXPECT_THAT([] { arange(0, 3, 0); }, ThrowsMessage<ShapeError>("arange: step is 0"));
  EXPECT_THROW(arange(0, std::numeric_limits<double>::infinity(), 1), ShapeError);
  // Elements are not summed up step by step: np.arange(0, 1, 0.1)[9] is 9 * 0.1.
  EXPECT_EQ(arange(0, 1, 0.1, float64)(9).item<double>(), 9 * 0.1);
}

TEST(Arange, IsExactForIntegersBeyondDoublePrecision) {
  const std::int64_t two53 = std::int64_t{1} << 53, most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(arange(two53 + 1, two53 + 4), Equals(tensor({two53 + 1, two53 + 2, two53 + 3})));
  EXPECT_THAT(arange(0, two53 + 1, two53), Equals(tensor({std::int64_t{0}, two53})));
  EXPECT_THAT(arange(most, most - 4, -2), Equals(tensor({most, most - 2})));
  EXPECT_THAT(arange(-most - 1, most, most), Equals(tensor({-most - 1, std::int64_t{-1}, most - 1})));
  EXPECT_THAT(arange(two53 + 1, most, most, int64), Equals(tensor({two53 + 1})));
  EXPECT_THAT(arange(most - 1, most, 1, int64), Equals(tensor({most - 1})));
  EXPECT_EQ(arange(two53 + 1, two53).shape(), Shape(0));
  EXPECT_THROW(arange(-most, most), ShapeError);
}

TEST(Linspace, HasBothEnds) {
  EXPECT_THAT(linspace(0, 1, 5), Equals(tensor({0., 0.25, 0.5, 0.75, 1.})));
  EXPECT_THAT(linspace(2, 1, 3, float64), Equals(tensor({2., 1.5, 1.}, float64)));
  EXPECT_THAT(linspace(0, 1, 4, float32, cpu, false), Equals(tensor({0., 0.25, 0.5, 0.75})));
  EXPECT_THAT(linspace(3, 5, 1), Equals(tensor({3.})));
  EXPECT_EQ(linspace(0, 1, 0).shape(), Shape(0));
  // The last element is the exact end, whatever the rounding.
  EXPECT_EQ(linspace(0, 0.7, 8, float64)(7).item<double>(), 0.7);
  EXPECT_THROW(linspace(0, 1, -1), ShapeError);
  EXPECT_THROW(linspace(0, 1, 3, int32), DtypeError);
}

TEST(Eye, HasOnesOnADiagonal) {
  EXPECT_THAT(eye(2), Equals(tensor({{1., 0.}, {0., 1.}})));
  EXPECT_THAT(eye(2, 3, 1), Equals(tensor({{0., 1., 0.}, {0., 0., 1.}})));
  EXPECT_THAT(eye(3, 2, -1, int32), Equals(tensor({{0, 0}, {1, 0}, {0, 1}})));
  EXPECT_EQ(eye(0).shape(), Shape(0, 0));
  constexpr Index most = std::numeric_limits<Index>::max();
  for (Index k : {most, -most - 1, Index{1} << 31, -(Index{1} << 31)}) {
    EXPECT_THAT(eye(2, 3, k), Equals(zeros({2, 3}))) << k;
    EXPECT_THAT(tril(ones({2, 3}), k), Equals(full({2, 3}, k > 0 ? 1. : 0.))) << k;
    EXPECT_THAT(triu(ones({2, 3}), k), Equals(full({2, 3}, k > 0 ? 0. : 1.))) << k;
  }
}

TEST(Triangles, KeepOnePartOfEachMatrix) {
  const Tensor x = reshape(arange(1, 10), {3, 3});
  EXPECT_THAT(tril(x), Equals(tensor({{1, 0, 0}, {4, 5, 0}, {7, 8, 9}})));
  EXPECT_THAT(triu(x, 1), Equals(tensor({{0, 2, 3}, {0, 0, 6}, {0, 0, 0}})));
  EXPECT_THAT(tril(x, -1), Equals(tensor({{0, 0, 0}, {4, 0, 0}, {7, 8, 0}})));
  EXPECT_THAT(triu(ones({2, 2, 2}), 0), Equals(broadcast_to(tensor({{1., 1.}, {0., 1.}}), {2, 2, 2})));
  EXPECT_THROW(tril(tensor({1.})), ShapeError);
}

// ---- numbers keep the meaning that C++ gives them -----------------------------------------------

template <class T>
inline constexpr bool is_double = std::is_same_v<T, double>;
static_assert(is_double<decltype(asin(0.5))> && is_double<decltype(acosh(2))> && is_double<decltype(trunc(1.5))> &&
              is_double<decltype(atan2(1, 0.5))>);
static_assert(is_double<decltype(sin(0.5))> && is_double<decltype(sqrt(2))> && is_double<decltype(pow(2, 0.5))>);
static_assert(is_double<decltype(exp(1.))> && is_double<decltype(floor(1.5))> && is_double<decltype(log1p(0.))>);
static_assert(std::is_same_v<decltype(tanh(0.5f)), float> && std::is_same_v<decltype(abs(-3)), int>);
static_assert(std::is_same_v<decltype(isnan(0.5)), bool> && std::is_same_v<decltype(remainder(5., 3.)), double>);
static_assert(std::is_same_v<decltype(abs(std::complex<double>())), double>);
static_assert(std::is_same_v<decltype(sin(Tensor())), Tensor> && std::is_same_v<decltype(pow(Tensor(), 2)), Tensor>);
static_assert(std::is_same_v<decltype(1 + Tensor()), Tensor> && std::is_same_v<decltype(Tensor() == 1), Tensor>);
// The larger of two numbers is std::max, and the larger of two tensors is maximum.
template <class A, class B>
concept HasMax = requires(A a, B b) { max(a, b); };
static_assert(!HasMax<int, int> && !HasMax<double, float> && !HasMax<Tensor, Tensor> && HasMax<Tensor, int>);
template <class Third>
concept SumTakes = requires(Tensor x, Third third) { sum(x, third); };
static_assert(SumTakes<int> && SumTakes<Axes> && SumTakes<std::vector<int>> && !SumTakes<bool> && !SumTakes<double>);
// Numbers do not convert to tensors implicitly, nor tensors to numbers.
static_assert(!std::is_convertible_v<double, Tensor> && !std::is_convertible_v<Tensor, double>);
static_assert(!std::is_convertible_v<Tensor, bool> && std::is_constructible_v<bool, Tensor>);

TEST(Numbers, KeepTheirMeaningInCpp) {
  EXPECT_EQ(sin(0.5), std::sin(0.5));
  EXPECT_EQ(pow(2., 10), 1024.);
  EXPECT_EQ(abs(-3), 3);
  EXPECT_EQ(remainder(5., 3.), -1.);  // remainder of <cmath>, by the nearest quotient
  EXPECT_EQ((tensor(5) % 3).item<int>(), 2);
}

}  // namespace tensor_test
