// Axes and shapes in braces ({0}, {0, 1}, {}, {-1}), with integers of any type, in every function
// that takes them. {0} is a special case: 0 is also a null pointer and a bool, so a call can become
// ambiguous, or choose the wrong overload.
#include <gtest/gtest.h>

#include <stave/stave.h>

using namespace stave;

namespace {

const Tensor x = reshape(arange(1., 25.), {2, 3, 4});
const int one_int = 1;
const std::size_t one_size = 1;
const Index one_index = 1;
const unsigned short one_short = 1;

/// Expects `call` with axes in braces, of any integer type, to give the result of `by_list` with a
/// vector of them. `call` is a macro, because braces cannot be passed through a function parameter.
#define EXPECT_BRACES(call, by_list)                                        \
  do {                                                                      \
    const std::vector<int> none_of, zero{0}, one{1}, last{-1}, both{0, 1};  \
    EXPECT_TRUE(array_equal(call({}), by_list(none_of))) << #call;          \
    EXPECT_TRUE(array_equal(call({0}), by_list(zero))) << #call;            \
    EXPECT_TRUE(array_equal(call({-1}), by_list(last))) << #call;           \
    EXPECT_TRUE(array_equal(call({1}), by_list(one))) << #call;             \
    EXPECT_TRUE(array_equal(call({0L}), by_list(zero))) << #call;           \
    EXPECT_TRUE(array_equal(call({0U}), by_list(zero))) << #call;           \
    EXPECT_TRUE(array_equal(call({one_int}), by_list(one))) << #call;       \
    EXPECT_TRUE(array_equal(call({one_size}), by_list(one))) << #call;      \
    EXPECT_TRUE(array_equal(call({one_index}), by_list(one))) << #call;     \
    EXPECT_TRUE(array_equal(call({one_short}), by_list(one))) << #call;     \
    EXPECT_TRUE(array_equal(call({0, 1}), by_list(both))) << #call;         \
    EXPECT_TRUE(array_equal(call({0, one_size}), by_list(both))) << #call;  \
    EXPECT_TRUE(array_equal(call({0, one_index}), by_list(both))) << #call; \
  } while (false)

#define TEST_REDUCTION(name)                                                            \
  TEST(Braces, name) {                                                                  \
    const Tensor y = x;                                                                 \
    const auto list = [&](const Axes& axes) { return stave::name(y, axes); };           \
    const auto kept = [&](const Axes& axes) { return stave::name(y, axes, keepdims); }; \
    EXPECT_BRACES(PLAIN_##name, list);                                                  \
    EXPECT_BRACES(KEPT_##name, kept);                                                   \
  }
#define PLAIN_sum(...) stave::sum(y, __VA_ARGS__)
#define KEPT_sum(...) stave::sum(y, __VA_ARGS__, keepdims)
#define PLAIN_prod(...) stave::prod(y, __VA_ARGS__)
#define KEPT_prod(...) stave::prod(y, __VA_ARGS__, keepdims)
#define PLAIN_mean(...) stave::mean(y, __VA_ARGS__)
#define KEPT_mean(...) stave::mean(y, __VA_ARGS__, keepdims)
#define PLAIN_max(...) stave::max(y, __VA_ARGS__)
#define KEPT_max(...) stave::max(y, __VA_ARGS__, keepdims)
#define PLAIN_min(...) stave::min(y, __VA_ARGS__)
#define KEPT_min(...) stave::min(y, __VA_ARGS__, keepdims)
#define PLAIN_all(...) stave::all(y, __VA_ARGS__)
#define KEPT_all(...) stave::all(y, __VA_ARGS__, keepdims)
#define PLAIN_any(...) stave::any(y, __VA_ARGS__)
#define KEPT_any(...) stave::any(y, __VA_ARGS__, keepdims)
#define PLAIN_logsumexp(...) stave::logsumexp(y, __VA_ARGS__)
#define KEPT_logsumexp(...) stave::logsumexp(y, __VA_ARGS__, keepdims)
#define PLAIN_var(...) stave::var(y, __VA_ARGS__)
#define KEPT_var(...) stave::var(y, __VA_ARGS__, keepdims)
#define PLAIN_std(...) stave::std(y, __VA_ARGS__)
#define KEPT_std(...) stave::std(y, __VA_ARGS__, keepdims)
#define PLAIN_norm(...) stave::norm(y, __VA_ARGS__)
#define KEPT_norm(...) stave::norm(y, __VA_ARGS__, keepdims)
#define PLAIN_count_nonzero(...) stave::count_nonzero(y, __VA_ARGS__)
#define KEPT_count_nonzero(...) stave::count_nonzero(y, __VA_ARGS__, keepdims)
#define PLAIN_flip(...) stave::flip(y, __VA_ARGS__)
TEST_REDUCTION(sum)
TEST_REDUCTION(prod)
TEST_REDUCTION(mean)
TEST_REDUCTION(max)
TEST_REDUCTION(min)
TEST_REDUCTION(all)
TEST_REDUCTION(any)
TEST_REDUCTION(logsumexp)
TEST_REDUCTION(var)
TEST_REDUCTION(std)
TEST_REDUCTION(norm)
TEST_REDUCTION(count_nonzero)

// By hand: x is 1 ... 24 in [2, 3, 4].
TEST(Braces, ReductionsEqualValuesComputedByHand) {
  EXPECT_EQ(sum(x, {0}).shape(), Shape({3, 4}));
  EXPECT_EQ(sum(x, {0})(0, 0).item<float>(), 14);  // 1 + 13
  EXPECT_EQ(sum(x, {0}, keepdims).shape(), Shape({1, 3, 4}));
  EXPECT_EQ(sum(x, {}).shape(), x.shape());
  EXPECT_EQ(mean(x, {0})(0, 0).item<float>(), 7);
  EXPECT_EQ(max(x, {0})(0, 0).item<float>(), 13);
  EXPECT_EQ(max(x, {0, 1}).shape(), Shape({4}));
  EXPECT_EQ(vector_norm(x, 2, {0}).shape(), Shape({3, 4}));
  EXPECT_EQ(vector_norm(x, 2, {0, one_size}, keepdims).shape(), Shape({1, 1, 4}));
  EXPECT_EQ(sum(x, {0}, KeepDims(true)).shape(), Shape({1, 3, 4}));
}

TEST(Braces, LayoutFunctionsTakeAxesInBraces) {
  const Tensor y = x;
  const auto list = [&](const Axes& axes) { return flip(y, axes); };
  EXPECT_BRACES(PLAIN_flip, list);
  EXPECT_EQ(squeeze(ones({1, 3, 1}), {0}).shape(), Shape({3, 1}));
  EXPECT_EQ(squeeze(ones({1, 3, 1}), {0, -1}).shape(), Shape({3}));
  EXPECT_EQ(squeeze(ones({3, 1}), {one_size}).shape(), Shape({3}));
  EXPECT_EQ(squeeze(ones({3, 1}), {}).shape(), Shape({3, 1}));
  EXPECT_EQ(expand_dims(x, {0}).shape(), Shape({1, 2, 3, 4}));
  EXPECT_EQ(expand_dims(x, {one_size}).shape(), Shape({2, 1, 3, 4}));
  EXPECT_EQ(expand_dims(x, {0, -1}).shape(), Shape({1, 2, 3, 4, 1}));
  EXPECT_EQ(expand_dims(x, 0).shape(), Shape({1, 2, 3, 4}));
  EXPECT_EQ(moveaxis(x, {0}, {1}).shape(), Shape({3, 2, 4}));
  EXPECT_EQ(moveaxis(x, {0}, {-1}).shape(), Shape({3, 4, 2}));
  EXPECT_EQ(moveaxis(x, {one_size}, {0}).shape(), Shape({3, 2, 4}));
  EXPECT_EQ(moveaxis(x, {0, 1}, {1, 0}).shape(), Shape({3, 2, 4}));
  EXPECT_EQ(moveaxis(x, 0, -1).shape(), Shape({3, 4, 2}));
  EXPECT_TRUE(array_equal(roll(x, {1}, {0}), roll(x, 1, 0)));
  EXPECT_TRUE(array_equal(roll(x, {0}, {0}), x));
  EXPECT_TRUE(array_equal(roll(x, {1, 1}, {0, one_size}), roll(roll(x, 1, 0), 1, 1)));
  EXPECT_EQ(permute_dims(x, {2, 0, 1}).shape(), Shape({4, 2, 3}));
  EXPECT_EQ(permute_dims(ones({3}), {0}).shape(), Shape({3}));
  EXPECT_EQ(permute_dims(tensor(1.), {}).shape(), Shape());
  EXPECT_EQ(permute_dims(ones({2, 3}), {one_size, 0}).shape(), Shape({3, 2}));
}

TEST(Braces, FunctionsTakeShapesInBraces) {
  const std::size_t six = 6;
  EXPECT_EQ(reshape(ones({2, 3}), {6}).shape(), Shape({6}));
  EXPECT_EQ(reshape(ones({2, 3}), {six}).shape(), Shape({6}));
  EXPECT_EQ(reshape(ones({2, 3}), {one_index, six}).shape(), Shape({1, 6}));
  EXPECT_EQ(reshape(ones({2, 3}), {-1}).shape(), Shape({6}));
  EXPECT_EQ(reshape(ones({0, 3}), {0}).shape(), Shape({0}));
  EXPECT_EQ(reshape(ones({1}), {}).shape(), Shape());
  EXPECT_EQ(zeros({3}).shape(), Shape({3}));
  EXPECT_EQ(zeros({0}).shape(), Shape({0}));
  EXPECT_EQ(zeros({}).shape(), Shape());
  EXPECT_EQ(zeros({0, 2}).shape(), Shape({0, 2}));
  EXPECT_EQ(ones({six}).shape(), Shape({6}));
  EXPECT_EQ(full({0}, 1).shape(), Shape({0}));
  EXPECT_EQ(full({}, 1).shape(), Shape());
  EXPECT_EQ(full({2}, 0, float64).shape(), Shape({2}));
  EXPECT_EQ(broadcast_to(tensor(1.), {3}).shape(), Shape({3}));
  EXPECT_EQ(broadcast_to(tensor(1.), {0}).shape(), Shape({0}));
  EXPECT_EQ(broadcast_to(tensor(1.), {}).shape(), Shape());
  EXPECT_EQ(broadcast_to(ones({3}), {2, 3}).shape(), Shape({2, 3}));
  EXPECT_EQ(tile(ones({3}), {2}).shape(), Shape({6}));
  EXPECT_EQ(tile(ones({3}), {0}).shape(), Shape({0}));
  EXPECT_EQ(tile(ones({3}), {}).shape(), Shape({3}));
  EXPECT_EQ(repeat(ones({2}), {2}).shape(), Shape({4}));
  EXPECT_EQ(repeat(ones({2}), {0}).shape(), Shape({0}));
  EXPECT_EQ(repeat(ones({2}), {1, 2}).shape(), Shape({3}));
  EXPECT_EQ(repeat(ones({2}), {1, six}, 0).shape(), Shape({7}));
  EXPECT_EQ(repeat(ones({2, 2}), {0}, 0).shape(), Shape({0, 2}));
  EXPECT_EQ(pad(ones({2}), {{0, 1}}).shape(), Shape({3}));
  EXPECT_EQ(pad(ones({2}), {{0, 0}}).shape(), Shape({2}));
  EXPECT_EQ(pad(ones({2, 2}), {{0, 0}, {one_size, 0}}).shape(), Shape({2, 3}));
  EXPECT_EQ(from(std::vector<float>{1, 2}, {2}).shape(), Shape({2}));
  EXPECT_EQ(from(std::vector<float>{}, {0}).shape(), Shape({0}));
  EXPECT_EQ(uniform(Key(0), {0}).shape(), Shape({0}));
  EXPECT_EQ(normal(Key(0), {2}).shape(), Shape({2}));
  EXPECT_EQ(normal(Key(0), {}).shape(), Shape());
  EXPECT_EQ(bernoulli(Key(0), 0.5, {0}).shape(), Shape({0}));
  const Normal standard{0., 1.};
  EXPECT_EQ(standard.sample(Key(0), {0}).shape(), Shape({0}));
  EXPECT_EQ(dynamic_slice(x, {0, 0, 0}, {1, 1, 1}).shape(), Shape({1, 1, 1}));
  EXPECT_EQ(dynamic_slice(ones({3}), {0}, {2}).shape(), Shape({2}));
}

TEST(Braces, TensordotTakesTwoListsOfAxes) {
  const Tensor a = ones({2, 3}), b = ones({3, 2});
  EXPECT_EQ(tensordot(a, b, {1}, {0}).shape(), Shape({2, 2}));
  EXPECT_EQ(tensordot(a, b, {0}, {1}).shape(), Shape({3, 3}));
  EXPECT_EQ(tensordot(a, b, {one_size}, {0}).shape(), Shape({2, 2}));
  EXPECT_EQ(tensordot(a, b, {0, 1}, {1, 0}).shape(), Shape());
  EXPECT_EQ(tensordot(a, b, {}, {}).shape(), Shape({2, 3, 3, 2}));
  EXPECT_EQ(tensordot(a, b, std::vector<Index>{1}, std::vector<Index>{0}).shape(), Shape({2, 2}));
}

TEST(Braces, ConvolutionsTakeOptionsInBraces) {
  const Tensor image = ones({1, 1, 4, 4}), kernel = ones({1, 1, 2, 2});
  EXPECT_EQ(conv(image, kernel, {.stride = {2, one_size}, .padding = {0, 0}}).shape(), Shape({1, 1, 2, 3}));
  EXPECT_EQ(conv(image, kernel, {.padding = {1, 0}}).shape(), Shape({1, 1, 5, 3}));
  EXPECT_EQ(conv(image, kernel, {.padding = {0, one_size}}).shape(), Shape({1, 1, 3, 5}));
  EXPECT_EQ(conv(image, kernel, {.padding = {{1, 0}, {0, 0}}}).shape(), Shape({1, 1, 4, 3}));
  EXPECT_EQ(max_pool(image, {2, one_size}).shape(), max_pool(image, {2, 1}).shape());
  EXPECT_EQ(max_pool(ones({1, 1, 4}), {2}).shape(), max_pool(ones({1, 1, 4}), 2).shape());
}

TEST(Braces, VmapTakesAxesInBraces) {
  const auto f = [](const Tensor& y) { return sum(y); };
  EXPECT_EQ(vmap(f, {.in_axes = {0}})(x).shape(), Shape({2}));
  EXPECT_EQ(vmap(f, {.in_axes = {one_size}})(x).shape(), Shape({3}));
  EXPECT_EQ(vmap(f, {.in_axes = {-1}, .out_axes = {0}})(x).shape(), Shape({4}));
}

}  // namespace
