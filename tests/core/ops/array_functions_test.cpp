// Functions composed of operations, against values of NumPy 2 and PyTorch 2 that the calls in
// the comments gave. The table of operations tests their formulas, derivatives and lanes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stave/core/ops/complex.h>
#include <stave/stave.h>

#include <cmath>
#include <complex>
#include <limits>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

const double nan = std::numeric_limits<double>::quiet_NaN();
const double infinity = std::numeric_limits<double>::infinity();

Tensor numbers(std::initializer_list<NestedList> entries) { return tensor(entries, float64); }
// The image [[1, 2, 3], [4, 5, 6]] with one channel, in a batch of one.
Tensor image() { return reshape(arange(1, 7, 1, float64), {1, 1, 2, 3}); }
Tensor flat(const Tensor& x) { return reshape(x, {x.size()}); }

// ---- statistics --------------------------------------------------------------------------------

// numpy.quantile([3, 1, 4, 1, 5], 0.3, method=...)
TEST(Quantile, HasNumpysMethods) {
  const Tensor x = numbers({3, 1, 4, 1, 5});
  using M = QuantileMethod;
  EXPECT_THAT(quantile(x, 0.3), IsNear(numbers({1.4})[0]));
  EXPECT_THAT(quantile(x, 0.3, 0, {.method = M::lower}), IsNear(numbers({1})[0]));
  EXPECT_THAT(quantile(x, 0.3, 0, {.method = M::higher}), IsNear(numbers({3})[0]));
  EXPECT_THAT(quantile(x, 0.3, 0, {.method = M::midpoint}), IsNear(numbers({2})[0]));
  EXPECT_THAT(quantile(x, 0.3, 0, {.method = M::nearest}), IsNear(numbers({1})[0]));
  // numpy.quantile([[3, 1, 4], [1, 5, 9]], [.1, .5], axis=1)
  EXPECT_THAT(quantile(numbers({{3, 1, 4}, {1, 5, 9}}), numbers({0.1, 0.5}), 1), IsNear(numbers({{1.4, 1.8}, {3, 5}})));
  EXPECT_THAT(percentile(x, 30., 0, {.keep = keepdims}), IsNear(numbers({1.4})));
  EXPECT_THAT(nanquantile(numbers({3, nan, 4, 1}), 0.3), IsNear(numbers({2.2})[0]));
  EXPECT_THAT(median(numbers({3, 1, 4, 1})), IsNear(numbers({2})[0]));
  EXPECT_THAT(median(numbers({3, nan})), IsNear(numbers({nan})[0]));
  EXPECT_THAT(quantile(x, numbers({-0.1, 0.5, 1.1})), IsNear(numbers({nan, 3, nan})));
}

TEST(Quantile, Errors) {
  EXPECT_THAT([] { quantile(ones({3}), 1.5); }, ThrowsMessage<Error>("quantile: q is 1.5, and must be in [0, 1]"));
  EXPECT_THAT([] { percentile(ones({3}), 101.); },
              ThrowsMessage<Error>("percentile: q is 101, and must be in [0, 100]"));
  EXPECT_THAT([] { median(ones({0})); }, ThrowsMessage<ShapeError>("median: shape [0] has no elements to reduce"));
}

// An infinite neighbour has no part in an element's own position.
TEST(Quantile, OfInfinities) {
  const Tensor x = numbers({-infinity, 1, infinity, infinity, infinity});
  EXPECT_THAT(quantile(x, numbers({0, 0.25, 0.5, 0.6, 1})),
              Equals(numbers({-infinity, 1, infinity, infinity, infinity})));
}

// numpy.cov(x), numpy.corrcoef(x), numpy.cov(x, fweights=[1, 2, 1], aweights=[.5, 1, 2])
TEST(Cov, EqualsNumpys) {
  const Tensor x = numbers({{1, 2, 4}, {3, 1, 0}});
  EXPECT_THAT(cov(x),
              IsNear(numbers({{2.3333333333333335, -2.166666666666667}, {-2.166666666666667, 2.3333333333333335}})));
  EXPECT_THAT(corrcoef(x), IsNear(numbers({{1, -0.9285714285714286}, {-0.9285714285714286, 1}})));
  EXPECT_THAT(cov(x, {.frequencies = tensor({1, 2, 1}), .weights = numbers({0.5, 1, 2})}),
              IsNear(numbers({{1.857142857142857, -1.357142857142857}, {-1.357142857142857, 1.2142857142857142}})));
  EXPECT_THAT(
      [&] {
        cov(x, {.weights = numbers({1, 2})});
      },
      ThrowsMessage<ShapeError>("cov: weights have shape [2], for 3 observations"));
}

// numpy.cov([[1+2j, 3-1j, .5j], [2, 1j, 1-1j]])
TEST(Cov, OfComplexNumbersConjugatesTheSecondFactor) {
  const Tensor z = complex(numbers({{1, 3, 0}, {2, 0, 1}}), numbers({{2, -1, 0.5}, {0, 1, -1}})), c = cov(z);
  EXPECT_THAT(real(c), IsNear(numbers({{4.583333333333334, -1.75}, {-1.75, 2}})));
  EXPECT_THAT(imag(c), IsNear(zeros({2, 2}, float64)));
}

// |3 + 4i| = 5, |5 + 12i| = 13
TEST(Cdist, OfComplexNumbersIsReal) {
  const Tensor zero = zeros({1, 1}, complex128), z = complex(numbers({{3}, {5}}), numbers({{4}, {12}}));
  EXPECT_THAT(cdist(zero, z), IsNear(numbers({{5, 13}})));
}

// numpy.gradient([1, 4, 9, 16], [0, 1, 3, 4], edge_order=2)
TEST(Gradient, OfUnevenSamples) {
  EXPECT_THAT(gradient(numbers({1, 4, 9, 16}), numbers({0, 1, 3, 4}), -1, {.edge_order = 2}),
              IsNear(numbers({3.166666666666667, 2.8333333333333335, 5.5, 8.5})));
  EXPECT_THAT([] { gradient(ones({2}), 1, 0, {.edge_order = 2}); }, ThrowsMessage<ShapeError>(HasSubstr("at least 3")));
}

// numpy.gradient([[1, 2, 4], [3, 8, 2]], 0.5, [0, 1, 3])
TEST(Gradients, HaveADistanceOrPositionsForEachAxis) {
  const Tensor y = numbers({{1, 2, 4}, {3, 8, 2}});
  const std::vector<Tensor> ys = gradients(y, {0.5, numbers({0, 1, 3})});
  EXPECT_THAT(ys[0], IsNear(numbers({{4, 12, -4}, {4, 12, -4}})));
  EXPECT_THAT(ys[1], IsNear(numbers({{1, 1, 1}, {5, 2.3333333333333335, -3}})));
  EXPECT_THAT(gradients(y, {2}, {1})[0], IsNear(numbers({{0.5, 0.75, 1}, {2.5, -0.25, -3}})));
}

// The array API standard: NaN if the number of elements minus the correction is not positive.
TEST(Variance, WithoutFreedomIsNaN) {
  const Tensor x = numbers({1, 2});
  for (const double correction : {2., 2.5, 3.}) {
    EXPECT_TRUE(isnan(var(x, all_axes, drop_dims, correction)).item<bool>());
    EXPECT_TRUE(isnan(stave::std(x, all_axes, drop_dims, correction)).item<bool>());
  }
  EXPECT_NEAR(var(x, all_axes, drop_dims, 1.5).item<double>(), 1, 1e-15);
}

TEST(VectorNorm, OfNoElements) {
  EXPECT_EQ(vector_norm(zeros({0}), infinity).item<float>(), 0);
  EXPECT_EQ(vector_norm(zeros({0}), -1).item<float>(), infinity);
  EXPECT_EQ(vector_norm(zeros({0}), 3).item<float>(), 0);
}

TEST(BroadcastShapes, OfAnyNumber) {
  EXPECT_EQ(broadcast_shapes({Shape(2, 1), Shape(3), Shape()}), Shape(2, 3));
  EXPECT_EQ(broadcast_shapes(std::span<const Shape>()), Shape());
  EXPECT_THAT([] { broadcast_shapes({Shape(2), Shape(3)}); }, ThrowsMessage<ShapeError>(HasSubstr("broadcast_shapes")));
}

TEST(FullLike, TakesADtype) {
  const Tensor x = ones({2, 3}, int8);
  EXPECT_THAT(zeros_like(x, float64), Equals(zeros({2, 3}, float64)));
  EXPECT_THAT(ones_like(x, complex64), Equals(ones({2, 3}, complex64)));
  EXPECT_THAT(full_like(x, 2.5, float32), Equals(full({2, 3}, 2.5, float32)));
}

TEST(Fftn, AllElementsByMinusOne) {
  const Tensor x = normal(Key(1), {3, 4}, complex128);
  EXPECT_THAT(fftn(x, {.s = Shape(-1, 2)}), IsNear(fftn(x, {.s = Shape(3, 2)})));
  EXPECT_THAT(irfftn(x, {.s = Shape(2, -1)}), IsNear(irfftn(x, {.s = Shape(2, 6)})));
}

TEST(MaskedMax, OfNoElementsIsTheLeastValue) {
  EXPECT_THAT(masked_max(ones({0, 2}), ones({0, 2}, bool_), 0), Equals(tensor({-infinity, -infinity})));
  EXPECT_THAT(masked_min(tensor({3, 4}), tensor({false, false})),
              Equals(tensor(std::numeric_limits<std::int32_t>::max())));
  EXPECT_THAT(nanmax(numbers({{nan, nan}, {nan, 2}}), 1), IsNear(numbers({nan, 2})));
}

// ---- elementwise -------------------------------------------------------------------------------

// math.frexp and math.ldexp, also where numbers or powers of two are subnormal
TEST(Frexp, EqualsThatOfC) {
  const std::vector<double> xs = {0.3, -8, 1, 5e-324, -1e-310, 0x1p-1022, 1.7976931348623157e308, 0.9999999999999999};
  const auto [mantissa, exponent] = frexp(from(xs));
  for (std::size_t i = 0; i < xs.size(); ++i) {
    int e = 0;
    EXPECT_EQ(mantissa[i].item<double>(), std::frexp(xs[i], &e)) << xs[i];
    EXPECT_EQ(exponent[i].item<int>(), e) << xs[i];
    for (const int by : {-2098, -1074, -1060, -3, 1023, 2098})
      EXPECT_EQ(ldexp(from(xs), by)[i].item<double>(), std::ldexp(xs[i], by)) << xs[i] << " " << by;
  }
  EXPECT_THAT([] { ldexp(ones({2}), 0.5); }, ThrowsMessage<DtypeError>("ldexp: the exponent must be an integer"));
}

TEST(Gcd, OfTheWorstNumbers) {
  // Consecutive Fibonacci numbers take the most steps of Euclid's algorithm.
  const std::int64_t a = 7540113804746346429, b = 4660046610375530309;
  EXPECT_THAT(gcd(tensor({a}), tensor({b})), Equals(tensor({std::int64_t{1}})));
  EXPECT_THAT(gcd(tensor({12, 0, -18}), 18), Equals(tensor({6, 18, 18})));
  EXPECT_THAT([] { gcd(ones({2}), 2); }, ThrowsMessage<DtypeError>(HasSubstr("float32 is not an integer dtype")));
}

TEST(RealIfClose, DropsSmallImaginaryParts) {
  const Tensor re = numbers({1, 2});
  EXPECT_THAT(real_if_close(complex(re, numbers({1e-15, 0}))), Equals(re));
  EXPECT_EQ(real_if_close(complex(re, numbers({1e-3, 0}))).dtype(), complex128);
  EXPECT_THAT(imag(nan_to_num(complex(re, numbers({nan, infinity})), {.posinf = 9})), Equals(numbers({0, 9})));
}

// numpy.linspace(1j, 2 + 3j, 3)
TEST(Linspace, OfComplexNumbers) {
  EXPECT_THAT(linspace(0., 1., 3, complex128), Equals(astype(linspace(0., 1., 3, float64), complex128)));
  const Tensor z = linspace(std::complex<double>(0, 1), std::complex<double>(2, 3), 3, complex128);
  EXPECT_THAT(real(z), Equals(numbers({0, 1, 2})));
  EXPECT_THAT(imag(z), Equals(numbers({1, 2, 3})));
  EXPECT_THAT([] { geomspace(-1, 2, 3); },
              ThrowsMessage<Error>("geomspace: -1 and 2 must have the same sign and not be 0"));
}

// ---- images ------------------------------------------------------------------------------------

// torch.nn.functional.interpolate
TEST(Resize, EqualsPytorchs) {
  EXPECT_THAT(resize(image(), {3, 2}, {.method = ResizeMethod::cubic})[0][0],
              IsNear(numbers({{0.9309895833333343, 2.5481770833333344},
                              {2.69140625, 4.30859375},
                              {4.451822916666668, 6.069010416666668}})));
  EXPECT_THAT(
      resize_by(image(), {1.5, 2}, {.method = ResizeMethod::linear})[0][0],
      IsNear(numbers(
          {{1, 1.25, 1.75, 2.25, 2.75, 3}, {2.5, 2.75, 3.25, 3.75, 4.25, 4.5}, {4, 4.25, 4.75, 5.25, 5.75, 6}})));
  EXPECT_THAT([] { resize_by(image(), {-1.}); }, ThrowsMessage<Error>("resize_by: -1 is no factor"));
}

// torch.nn.functional.grid_sample, and its gradients
TEST(GridSample, EqualsPytorchs) {
  const Tensor grid = numbers({{{{-1.2, -0.6}, {0.1, 0.3}, {2.3, 0.9}}}});
  EXPECT_THAT(flat(grid_sample(image(), grid)), IsNear(numbers({0.18, 4.55, 0})));
  EXPECT_THAT(flat(grid_sample(image(), grid, {.padding = GridPadding::border})), IsNear(numbers({1, 4.55, 6})));
  EXPECT_THAT(flat(grid_sample(image(), grid, {.padding = GridPadding::reflection})), IsNear(numbers({1, 4.55, 4.55})));
  EXPECT_THAT(
      flat(grid_sample(image(), grid,
                       {.method = ResizeMethod::cubic, .padding = GridPadding::reflection, .align_corners = true})),
      IsNear(numbers({1.368, 4.30425, 4.54175})));
  const auto total = [](const Tensor& x, const Tensor& g) { return sum(grid_sample(x, g)); };
  const auto [by_x, by_grid] = grad<0, 1>(total)(image(), grid);
  EXPECT_THAT(by_x[0][0], IsNear(numbers({{0.18, 0.17, 0.03}, {0, 0.68, 0.12}})));
  EXPECT_THAT(by_grid[0][0], IsNear(numbers({{1.35, 0.2}, {1.5, 3}, {0, 0}})));
}

// torch.nn.functional.unfold and fold
TEST(Unfold, EqualsPytorchs) {
  EXPECT_THAT(unfold(image(), 2, {.stride = {1, 2}, .padding = {0, 1}})[0],
              Equals(numbers({{0, 2}, {1, 3}, {0, 5}, {4, 6}})));
  EXPECT_THAT(flat(fold(unfold(image(), 2), {2, 3}, 2)), Equals(numbers({1, 4, 3, 4, 10, 6})));
}

// torch.nn.functional.adaptive_avg_pool2d, max_pool2d(ceil_mode=True),
// avg_pool2d(divisor_override=3)
TEST(Pooling, HasPytorchsOptions) {
  const Tensor x = reshape(arange(35.), {1, 1, 5, 7});
  EXPECT_THAT(flat(adaptive_avg_pool(x, {2, 3})), IsNear(tensor({8., 10., 12., 22., 24., 26.})));
  EXPECT_THAT(flat(adaptive_max_pool(x, {2, 3})), Equals(tensor({16., 18., 20., 30., 32., 34.})));
  EXPECT_THAT(flat(max_pool(x, 2, {.ceil_mode = true})),
              Equals(tensor({8., 10., 12., 13., 22., 24., 26., 27., 29., 31., 33., 34.})));
  const Tensor part = x(ellipsis, slice(2), slice(4));
  EXPECT_THAT(flat(avg_pool(part, 2, {.stride = 3, .padding = 1, .ceil_mode = true})), IsNear(tensor({0., 1.25})));
  EXPECT_THAT(flat(avg_pool(x(ellipsis, slice(2), slice(2)), 2, {.divisor_override = 3})), IsNear(tensor({16 / 3.})));
}

// ---- losses ------------------------------------------------------------------------------------

// torch.nn.functional.ctc_loss
TEST(CtcLoss, EqualsPytorchs) {
  const Tensor log_p =
      log_softmax(numbers({{{0.1, 0.2, 0.3}}, {{0.5, -0.1, 0.2}}, {{-0.3, 0.4, 0.1}}, {{0.2, 0.2, 0.6}}}));
  const Tensor four = tensor({4}), two = tensor({2});
  EXPECT_THAT(ctc_loss(log_p, tensor({{1, 1}}), four, two, {.reduction = Reduction::none}),
              IsNear(numbers({2.882236868189111})));
  EXPECT_THAT(ctc_loss(log_p, tensor({{1, 2}}), four, two), IsNear(numbers({0.844960656668732})[0]));
  // The target needs three steps.
  const auto impossible = [&](bool zero) {
    return [=](const Tensor& x) {
      return ctc_loss(x, tensor({{1, 1}}), two, two, {.zero_infinity = zero, .reduction = Reduction::sum});
    };
  };
  EXPECT_THAT(impossible(false)(log_p), IsNumber(infinity));
  EXPECT_THAT(impossible(true)(log_p), IsNumber(0));
  EXPECT_THAT(grad(impossible(true))(log_p), Equals(zeros_like(log_p)));
}

// torch.nn.functional.margin_ranking_loss and the others
TEST(MarginLosses, EqualPytorchs) {
  const Tensor p = numbers({0.2, -1, 0.7}), q = numbers({0.5, 0.3, -0.2}), s = numbers({1, -1, 1});
  const auto is = [](double value) { return IsNear(tensor(value, float64)); };
  EXPECT_THAT(margin_ranking_loss(p, q, s, {.margin = 0.3}), is(0.2));
  EXPECT_THAT(soft_margin_loss(p, s), is(0.43819553526175753));
  EXPECT_THAT(hinge_embedding_loss(p, s), is(0.9666666666666668));
  EXPECT_THAT(cosine_embedding_loss(p, q, tensor(-1), {.margin = 0.05}), is(0));
  EXPECT_THAT(multi_margin_loss(p, tensor(1)), is(1.6333333333333335));
  EXPECT_THAT(multilabel_margin_loss(p, tensor({2, 0, -1})), is(0));
  EXPECT_THAT(triplet_margin_loss(p, q, s), is(1.7549481719052253));
  EXPECT_THAT(multilabel_soft_margin_loss(p, numbers({1, 0, 1})), is(0.43819553526175753));
  EXPECT_THAT(poisson_nll_loss(p, numbers({2, 0, 1}), {.full = true}), is(1.0516137971355415));
  EXPECT_THAT(gaussian_nll_loss(p, q, numbers({0.5, 1, 2}), {.full = true}), is(1.2981051998713395));
}

// ---- attention ---------------------------------------------------------------------------------

// torch.nn.functional.scaled_dot_product_attention(q, k, k, enable_gqa=True)
TEST(Attention, GroupedQueries) {
  const Tensor q = reshape(arange(0, 16, 1, float64), {4, 2, 2}) / 10,
               k = reshape(arange(0, 12, 1, float64), {2, 3, 2}) / 5;
  const Tensor out = scaled_dot_product_attention(q, k, k, {.grouped_queries = true});
  EXPECT_THAT(flat(out),
              IsNear(numbers({0.40754146684396236, 0.6075414668439623, 0.43758719608199464, 0.6375871960819947,
                              0.46715926772868566, 0.6671592677286856, 0.4959055081954602, 0.6959055081954602,
                              1.7235164624620651, 1.9235164624620653, 1.749738012552855, 1.9497380125528552,
                              1.7743784400687934, 1.9743784400687936, 1.7973099381247872, 1.9973099381247874})));
  EXPECT_THAT([&] { scaled_dot_product_attention(q(slice(3)), k, k, {.grouped_queries = true}); },
              ThrowsMessage<ShapeError>(HasSubstr("must have a multiple of the heads")));
}

TEST(Attention, DropoutPreservesTheMean) {
  const Tensor q = reshape(arange(0, 8, 1, float64), {2, 2, 2}) / 10;
  const auto dropped = [&](const Key& key) {
    return scaled_dot_product_attention(q, q, q, {.dropout = 0.25, .key = key});
  };
  const Tensor all = vmap(dropped)(split(Key(1), 20000)), plain = scaled_dot_product_attention(q, q, q);
  EXPECT_LT((max)(abs(mean(all, 0) - plain)).item<double>(), 0.02);
  EXPECT_GT((min)(stave::std(all, 0)).item<double>(), 0.01);
  // Both keys of a query are dropped with a probability of 1/16.
  EXPECT_NEAR(mean(all(slice(), 0, 1, 1) == 0).item<double>(), 0.0625, 0.01);
  EXPECT_THAT([&] { scaled_dot_product_attention(q, q, q, {.dropout = 0.1}); },
              ThrowsMessage<Error>(HasSubstr("needs a key")));
}

// ---- sets and searches -------------------------------------------------------------------------

// numpy.unique(x, axis=0, return_index=True, return_inverse=True, return_counts=True) and
// torch.unique_consecutive
TEST(UniqueAll, AlongAnAxis) {
  const Tensor x = tensor({{1, 0, 1}, {0, 2, 0}, {1, 0, 1}, {1, 0, 1}, {0, 1, 5}});
  const UniqueAll rows = unique_all(x, 0);
  EXPECT_THAT(rows.values, Equals(tensor({{0, 1, 5}, {0, 2, 0}, {1, 0, 1}})));
  EXPECT_THAT(rows.indices, Equals(tensor({4, 1, 0})));
  EXPECT_THAT(rows.inverse_indices, Equals(tensor({2, 1, 2, 2, 0})));
  EXPECT_THAT(rows.counts, Equals(tensor({1, 1, 3})));
  EXPECT_THAT(unique_consecutive(x, 0).counts, Equals(tensor({1, 1, 2, 1})));
  EXPECT_THAT(unique_consecutive(tensor({3, 3, 1, 3})).values, Equals(tensor({3, 1, 3})));
  const UniqueAll elements = unique_all(x);
  EXPECT_THAT(elements.values, Equals(tensor({0, 1, 2, 5})));
  EXPECT_THAT(elements.indices, Equals(tensor({1, 0, 4, 14})));
  EXPECT_EQ(elements.inverse_indices.shape(), x.shape());
}

TEST(Searchsorted, OfStacksAndOfTensorsThatAreNotSorted) {
  const Tensor rows = tensor({{1, 3, 5}, {2, 4, 6}}), values = tensor({{3, 0}, {3, 7}});
  EXPECT_THAT(searchsorted(rows, values), Equals(tensor({{1, 0}, {1, 3}})));
  EXPECT_THAT(searchsorted(flip(rows, 1), values, {.right = true, .sorter = tensor({{2, 1, 0}})}),
              Equals(tensor({{2, 0}, {1, 3}})));
  EXPECT_THAT(
      [&] {
        searchsorted(rows, tensor({3, 0}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("a stack of sorted vectors")));
}

TEST(Topk, OfTheSmallest) {
  const auto [values, places] = topk(tensor({3., nan, 1., 1., 2.}), 3, -1, {.largest = false});
  EXPECT_THAT(values, Equals(tensor({1., 1., 2.})));
  EXPECT_THAT(places, Equals(tensor({2, 3, 4})));
}

// ---- linear algebra ----------------------------------------------------------------------------

// v, tau = torch.geqrf([[1, 2], [3, 4], [5, 6]]); torch.linalg.householder_product(v, tau);
// torch.ormqr(v, tau, [[1], [2], [3]], transpose=True)
TEST(HouseholderProduct, EqualsPytorchs) {
  const Tensor v = numbers({{-5.916079783099615, -7.437357441610946},
                            {0.4337717455676132, 0.828078671210825},
                            {0.7229529092793553, 0.8926238280228976}});
  const Tensor tau = numbers({1.1690308509457032, 1.1131040011646904});
  EXPECT_THAT(householder_product(v, tau), IsNear(numbers({{-0.16903085094570325, 0.8970852271450607},
                                                           {-0.50709255283711, 0.27602622373694136},
                                                           {-0.8451542547285166, -0.34503277967117696}})));
  EXPECT_THAT(ormqr(v, tau, numbers({{1}, {2}, {3}}), {.transpose = true}),
              IsNear(numbers({{-3.718678720805473}, {0.41403933560541256}, {0}})));
}

}  // namespace
