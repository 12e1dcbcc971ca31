// Normalisation, embedding, dropout and losses against figures of PyTorch 2.15 in float64, at the
// limits of the float range, and their errors. tests/table tests every layout, dtype and transform.

#include <limits>

#include <stave/stave.h>

#include "matchers.h"

namespace network_test {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

using T = const Tensor&;
const double inf = std::numeric_limits<double>::infinity();

Tensor doubles(const std::vector<double>& values) { return from(values); }
Tensor counted(const Shape& shape) { return reshape(arange(0, shape.elements(), 1, float64), shape); }
bool all_finite(T x) { return static_cast<bool>(all(isfinite(x))); }

// ---- normalisation ------------------------------------------------------------------------------

// x = torch.linspace(-2, 2, 24).reshape(2, 4, 3) + torch.sin(torch.arange(24.)).reshape(2, 4, 3)
Tensor of_channels() { return reshape(linspace(-2, 2, 24, float64), {2, 4, 3}) + sin(counted({2, 4, 3})); }
const Tensor weight = tensor({0.5, 1.5, -1.0, 2.0}, float64), bias = tensor({0.1, -0.2, 0.3, 0.0}, float64);

TEST(Norms, EqualPyTorch) {
  const Tensor x = of_channels(), w = weight(slice(3)), b = bias(slice(3));
  EXPECT_THAT(group_norm(x, 2, {.weight = weight, .bias = bias})(0, ellipsis, 0),
              IsNear(doubles({-0.3272830829489246, 0.34880574706704287, 1.5671453010210883, 1.547081290565207})));
  EXPECT_THAT(layer_norm(x, {.weight = w, .bias = b})(1, 2),
              IsNear(doubles({-0.5258601927228368, -0.11617662448524987, -0.8958381351025071})));
  EXPECT_THAT(rms_norm(x, {.weight = w})(1, 2),
              IsNear(doubles({0.11635174491273255, 1.3377471541517, -1.466453083841237})));
  EXPECT_THAT(normalize(x, {.axes = 1})(0, ellipsis, 0),
              IsNear(doubles({-0.7394233166548749, -0.4943565653245214, -0.4569404056016696, -0.00837919066667752})));
}

TEST(BatchNorm, EqualsPyTorch) {
  const Tensor x = of_channels();
  const BatchStatistics running{zeros({4}, float64), ones({4}, float64)};
  const auto [y, now] = batch_norm(x, running, {.weight = weight, .bias = bias});
  EXPECT_THAT(y(0, ellipsis, 0),
              IsNear(doubles({-0.6398669252911714, -1.0337003772565319, 1.8472119235465758, -0.9248462400243181})));
  EXPECT_THAT(now.mean,
              IsNear(doubles({-0.034511371462639814, -0.06231395202671755, 0.05406636586777495, 0.05908905444642015})));
  EXPECT_THAT(now.variance,
              IsNear(doubles({1.0500883107417163, 1.0980337409942043, 1.0582188044511998, 1.1112546266003578})));
  EXPECT_THAT(batch_norm_inference(x, now, {.weight = weight, .bias = bias})(0, ellipsis, 0),
              IsNear(doubles({-0.85901535307794, -2.0248730639192005, 1.5540103877520468, -0.15510503428189354})));
  // A variance of 0 without epsilon.
  EXPECT_EQ(batch_norm_inference(ones({1, 1}), {zeros({1}), zeros({1})}, {.epsilon = 0}).item<float>(),
            std::numeric_limits<float>::infinity());
  const auto last = batch_norm(moveaxis(x, 1, -1), running, {.weight = weight, .bias = bias, .channels_last = true});
  EXPECT_THAT(moveaxis(last.first, -1, 1), IsNear(y, 1e-14));
}

TEST(BatchNorm, StateIsATree) {
  const auto step = [](const BatchStatistics& s, T x) { return batch_norm(x, s).second; };
  const BatchStatistics running{zeros({2}), ones({2})};
  const BatchStatistics lanes = vmap(step, {.in_axes = {unmapped, 0}})(running, normal(Key(0), {5, 3, 2}));
  EXPECT_EQ(lanes.variance.shape(), Shape(5, 2));
}

// The mean is rounded by up to half a unit in its last place, which is 2.4e-4. A variance computed
// as a difference of squares would keep no digits.
TEST(Norms, AreAccurateFarFromZero) {
  const Tensor near_zero = sin(counted({4, 64})), far = near_zero + 4096;
  const Tensor kept = astype(astype(far, float32), float64);
  EXPECT_THAT(astype(layer_norm(astype(far, float32)), float64), IsNear(layer_norm(kept), 2.5e-4));
}

// Over an axis that is not the last one, layer_norm is composed of other operations. Rows of many
// lengths must agree with that form, and so must their derivatives.
TEST(Norms, AlongRowsEqualThoseAlongColumns) {
  for (const Index length : {1, 15, 200, 1030}) {
    const Tensor x = sin(counted({37, length})) * 3 + 1, w = cos(counted({length})), b = sin(counted({length}));
    const Tensor ct = cos(counted({37, length}) / 3);
    const auto of_rows = [](T y, T u, T v) { return layer_norm(y, {.weight = u, .bias = v}); };
    const auto of_columns = [](T y, T u, T v) {
      return matrix_transpose(layer_norm(matrix_transpose(y), {.weight = u, .bias = v, .axes = 0}));
    };
    auto [rows, back] = vjp(of_rows, x, w, b);
    auto [columns, composed_back] = vjp(of_columns, x, w, b);
    EXPECT_THAT(rows, IsNear(columns, 1e-12));
    const auto [dx, dw, db] = back(ct);
    const auto [composed_dx, composed_dw, composed_db] = composed_back(ct);
    EXPECT_THAT(dx, IsNear(composed_dx, 1e-10));
    EXPECT_THAT(dw, IsNear(composed_dw, 1e-10));
    EXPECT_THAT(db, IsNear(composed_db, 1e-12));
  }
}

// A row that gets no cotangent may hold any values.
TEST(Norms, ZeroCotangentsGiveZeroGradientsAtInfinity) {
  const Tensor x = tensor({{1., inf, 3.}, {1., 2., 4.}}), mask = tensor({{0.}, {1.}});
  const auto loss = [&](T y) { return sum(where(mask != 0, layer_norm(y), 0)); };
  const Tensor gradient = grad(loss)(x);
  EXPECT_TRUE(all_finite(gradient));
  EXPECT_THAT(gradient[0], Equals(zeros({3})));
}

TEST(Norms, RoundHalfFloatsOnce) {
  for (const Dtype half : {float16, bfloat16}) {
    const Tensor x = astype(5 * sin(counted({3, 64})), half), w = astype(cos(counted({64})), half);
    EXPECT_THAT(layer_norm(x, {.weight = w}),
                Equals(astype(layer_norm(astype(x, float32), {.weight = astype(w, float32)}), half)));
    // The squares are beyond the range of float16.
    EXPECT_THAT(rms_norm(300 * x), Equals(astype(rms_norm(astype(300 * x, float32)), half)));
    EXPECT_EQ(layer_norm(x, {.weight = ones({64})}).dtype(), float32);
  }
}

TEST(Norms, AreFiniteForConstantRows) {
  const Tensor x = full({2, 3}, 7.f), zero = zeros({2, 3});
  for (const double epsilon : {1e-5, 0.0}) {
    const auto layer = [&](T y) { return layer_norm(y, {.epsilon = epsilon}); };
    const auto rms = [&](T y) { return rms_norm(y, {.epsilon = epsilon}); };
    const auto length = [&](T y) { return normalize(y, {.epsilon = epsilon}); };
    EXPECT_THAT(layer(x), Equals(zero));
    EXPECT_THAT(rms(zero), Equals(zero));
    EXPECT_THAT(length(zero), Equals(zero));
    EXPECT_TRUE(all_finite(grad([&](T y) { return sum(layer(y) * counted({2, 3})); })(x)));
    EXPECT_TRUE(all_finite(grad([&](T y) { return sum(rms(y)); })(zero)));
    EXPECT_TRUE(all_finite(grad([&](T y) { return sum(length(y)); })(zero)));
    EXPECT_TRUE(all_finite(jvp(layer, x, astype(counted({2, 3}), float32)).second));
  }
}

TEST(Norms, RefuseMismatchedWeightsAndOptions) {
  const Tensor x = ones({2, 3});
  EXPECT_THAT(
      [&] { layer_norm(x, {.weight = ones({2})}); },
      ThrowsMessage<ShapeError>(HasSubstr("layer_norm: weight has shape [2]: for axes [1] of [2,3] it must have [3]")));
  EXPECT_THAT(
      [&] {
        layer_norm(x, {.bias = ones({3}), .axes = {0, 1}});
      },
      ThrowsMessage<ShapeError>(
          HasSubstr("layer_norm: bias has shape [3]: for axes [0,1] of [2,3] it must have [2,3]")));
  EXPECT_THAT([&] { rms_norm(x, {.epsilon = -1}); },
              ThrowsMessage<Error>(HasSubstr("rms_norm: epsilon -1 is less than 0")));
  EXPECT_THAT([&] { rms_norm(x, {.axes = 2}); }, ThrowsMessage<IndexError>(HasSubstr("axis 2 is out of range")));
  EXPECT_THAT([&] { layer_norm(Tensor()); },
              ThrowsMessage<TransformError>(HasSubstr("layer_norm: operand 0 is an empty Tensor")));
  EXPECT_THAT([&] { group_norm(x, 0); }, ThrowsMessage<ShapeError>(HasSubstr("3 channels do not make 0 groups")));
  EXPECT_THAT(
      [&] {
        batch_norm(x, {ones({2}), ones({3})});
      },
      ThrowsMessage<ShapeError>(HasSubstr("batch_norm: a running statistic has shape [2]")));
  EXPECT_THAT([&] { batch_norm(x, {}); },
              ThrowsMessage<TransformError>(HasSubstr("batch_norm: operand 1 is an empty")));
}

// ---- embedding and dropout ----------------------------------------------------------------------

TEST(Embedding, GivesNoGradientToPadding) {
  const Tensor table = tensor({{1., 2.}, {3., 4.}, {5., 6.}}), ids = tensor({{2, 0}, {1, 1}});
  EXPECT_THAT(embedding(table, ids), Equals(take(table, ids)));
  const auto loss = [&](T t) { return sum(embedding(t, ids, {.padding = 1})); };
  EXPECT_THAT(embedding(table, ids, {.padding = 1}), Equals(take(table, ids)));
  EXPECT_THAT(grad(loss)(table), Equals(tensor({{1., 1.}, {0., 0.}, {1., 1.}})));
  EXPECT_THAT(jvp(loss, table, ones({3, 2})).second, IsNumber(4));
  EXPECT_THAT([&] { embedding(table, ids, {.padding = 3}); },
              ThrowsMessage<IndexError>(HasSubstr("embedding: the padding row 3 is not one of the 3 rows")));
  EXPECT_THAT(
      [&] {
        embedding(table, tensor({0, 3}));
      },
      ThrowsMessage<IndexError>(HasSubstr("index 3 is out of range")));
  EXPECT_THAT([&] { embedding(table, tensor({1.})); },
              ThrowsMessage<DtypeError>(HasSubstr("embedding: indices are float32")));
}

TEST(Dropout, KeepsTheMean) {
  const Tensor x = ones({10000}), y = dropout(Key(1), x, 0.25);
  EXPECT_NEAR(mean(y).item<double>(), 1, 0.02);
  EXPECT_TRUE(static_cast<bool>(all(logical_or(y == 0, y == 1 / 0.75f))));
  EXPECT_THAT(grad([&](T z) { return sum(dropout(Key(1), z, 0.25)); })(x), Equals(y));
  EXPECT_THAT(dropout(Key(1), x, 0), Equals(x));
  EXPECT_THAT(dropout(Key(1), x, 1), Equals(zeros({10000})));
  EXPECT_THAT(grad([&](T z) { return sum(dropout(Key(1), z, 1) + z); })(x), Equals(x));
  EXPECT_THAT([&] { dropout(Key(1), x, 1.5); },
              ThrowsMessage<Error>(HasSubstr("dropout: rate 1.5 is not a probability")));
}

TEST(Dropout, KeyOfALaneDecidesItsMask) {
  const Tensor x = ones({3, 50});
  const auto f = [](const Key& key, T row) { return dropout(key, row, 0.5); };
  const Tensor shared = vmap(f, {.in_axes = {unmapped, 0}})(Key(0), x), apart = vmap(f)(split(Key(0), 3), x);
  EXPECT_THAT(shared(0), Equals(shared(1)));
  EXPECT_FALSE(array_equal(apart(0), apart(1)));
  EXPECT_THAT(apart(2), Equals(f(Key(split(Key(0), 3)[2]), x(2))));
}

// ---- losses -------------------------------------------------------------------------------------

const Tensor logits = tensor({{2.0, -1.0, 0.5}, {0.1, 3.0, -2.0}, {1.0, 1.0, 1.0}, {-1.0, 0.0, 4.0}}, float64);
const Tensor labels = tensor({0, 2, 1, 2}), class_weights = tensor({1.0, 2.0, 0.5}, float64);
Tensor probabilities() { return softmax(0.3 * flip(logits, 0)); }

TEST(CrossEntropy, EqualsPyTorch) {
  using enum Reduction;
  EXPECT_THAT(cross_entropy(logits, labels), IsNumber(1.6061493708035206, 1e-14));
  EXPECT_THAT(cross_entropy(logits, labels, {.reduction = sum}), IsNumber(6.424597483214082, 1e-14));
  EXPECT_THAT(cross_entropy(logits, labels, {.reduction = none}),
              IsNear(doubles({0.24131129665715703, 5.059929007749993, 1.0986122886681098, 0.02474489013882259})));
  EXPECT_THAT(cross_entropy(transpose(logits), labels, {.axis = 0}), IsNumber(1.6061493708035206, 1e-14));
  EXPECT_THAT(cross_entropy(logits, labels, {.weights = class_weights}), IsNumber(1.2452182057344463, 1e-14));
  EXPECT_THAT(cross_entropy(logits, labels, {.label_smoothing = 0.1}), IsNumber(1.659482704136854, 1e-14));
  EXPECT_THAT(cross_entropy(logits, labels, {.label_smoothing = 0.2, .ignored = 1, .weights = class_weights}),
              IsNumber(1.9898242376043227, 1e-14));
  EXPECT_THAT(cross_entropy(logits, probabilities()), IsNumber(2.2190636890164437, 1e-14));
  EXPECT_THAT(cross_entropy(logits, probabilities(), {.label_smoothing = 0.1, .weights = class_weights}),
              IsNumber(2.391605812947959, 1e-14));
  EXPECT_THAT(nll_loss(log_softmax(logits), labels, {.ignored = 0, .weights = class_weights}),
              IsNumber(1.5798538420935426, 1e-14));
  EXPECT_THAT(kl_divergence(log_softmax(logits), probabilities()), IsNumber(1.2358213339961035, 1e-14));
  EXPECT_THAT(kl_divergence(log_softmax(logits), log(probabilities()), {.log_targets = true}),
              IsNumber(1.2358213339961035, 1e-14));
}

TEST(CrossEntropy, IsFiniteForLargeAndMaskedLogits) {
  const Tensor large = tensor({{1e4, -1e4, 0.}, {-1e4, 1e4, 0.}});
  const auto loss = [](T x) { return cross_entropy(x, tensor({0, 0})); };
  EXPECT_THAT(loss(large), IsNumber(1e4));
  EXPECT_THAT(grad(loss)(large), IsNear(tensor({{0., 0., 0.}, {-0.5, 0.5, 0.}})));

  const Tensor masked = tensor({{1., -inf, 2.}, {-inf, 0., -inf}});
  const auto by_label = [](T x) { return cross_entropy(x, tensor({2, 1})); };
  const auto by_probability = [](T x) { return cross_entropy(x, tensor({{0., 0., 1.}, {0., 1., 0.}})); };
  const double value = std::log1p(std::exp(-1.)) / 2, share = 1 / (1 + std::exp(1.)) / 2;
  const Tensor gradient = tensor({{share, 0., -share}, {0., 0., 0.}});
  EXPECT_THAT(by_label(masked), IsNumber(value));
  EXPECT_THAT(by_probability(masked), IsNumber(value));
  EXPECT_THAT(grad(by_label)(masked), IsNear(gradient));
  EXPECT_THAT(grad(by_probability)(masked), IsNear(gradient));
  EXPECT_TRUE(all_finite(hessian(by_label)(masked)));
  // The label has probability 0.
  EXPECT_THAT(by_label(tensor({{1., 1., -inf}, {0., 0., 0.}})), IsNumber(inf));
}

TEST(CrossEntropy, IgnoredLabelsHaveNoLossAndNoGradient) {
  const Tensor marked = tensor({0, -100, 1, -100});
  const auto loss = [&](T x) { return cross_entropy(x, marked, {.ignored = -100}); };
  EXPECT_THAT(loss(logits), IsNumber((0.24131129665715703 + 1.0986122886681098) / 2, 1e-14));
  EXPECT_THAT(grad(loss)(logits)(slice(1, none, 2)), Equals(zeros({2, 3}, float64)));
  const auto of_none = [](T x) { return cross_entropy(x, full({4}, 7), {.ignored = 7}); };
  EXPECT_THAT(of_none(logits), IsNumber(0));
  EXPECT_THAT(grad(of_none)(logits), Equals(zeros({4, 3}, float64)));
}

TEST(CrossEntropy, RefusesInvalidLabelsAndOptions) {
  const auto refuses = [](T given, CrossEntropyOptions options = {}) {
    return message_of<Error>([&] { cross_entropy(logits, given, options); });
  };
  EXPECT_THAT(refuses(tensor({0, 1, 2, 3})), HasSubstr("index 3 is out of range"));
  EXPECT_THAT(refuses(tensor({0, 1, -1, 2})), HasSubstr("index -1 is out of range"));
  EXPECT_THAT(
      refuses(tensor({0, 1})),
      HasSubstr("cross_entropy: labels have shape [2]: for shape [4,3] with classes along axis 1 they must have [4]"));
  EXPECT_THAT(refuses(tensor({0., 1., 0.})), HasSubstr("predictions [4,3] and targets [3] must have one shape"));
  EXPECT_THAT(refuses(zeros({4, 3}), {.ignored = 0}),
              HasSubstr("`ignored` needs integer labels, but labels are float32 (probabilities)"));
  EXPECT_THAT(refuses(labels, {.label_smoothing = 1.5}), HasSubstr("label_smoothing 1.5 must lie in [0, 1]"));
  EXPECT_THAT(refuses(labels, {.weights = ones({2})}), HasSubstr("weights have shape [2], for 3 classes"));
  EXPECT_THAT(refuses(labels, {.axis = 5}), HasSubstr("axis 5 is out of range"));
}

TEST(Losses, EqualPyTorch) {
  const Tensor x = tensor({0.5, -1.5, 3.0, 0.0}, float64), y = tensor({0.0, 1.0, 2.5, 0.0}, float64);
  const Tensor p = tensor({0.0, 1.0, 0.3, 0.5}, float64);
  EXPECT_THAT(mse_loss(x, y), IsNumber(1.6875, 1e-15));
  EXPECT_THAT(mae_loss(x, y), IsNumber(0.875, 1e-15));
  EXPECT_THAT(huber_loss(x, y, {.delta = 0.7}), IsNumber(0.43875, 1e-15));
  EXPECT_THAT(smooth_l1_loss(x, y, {.beta = 0.7}), IsNumber(0.6267857142857142, 1e-15));
  EXPECT_THAT(smooth_l1_loss(x, y, {.beta = 0}), IsNumber(0.875, 1e-15));
  EXPECT_THAT(binary_cross_entropy_with_logits(x, p, {.positive_weight = tensor(2.)}),
              IsNumber(1.8949469670078485, 1e-14));
  EXPECT_THAT(binary_cross_entropy(sigmoid(x), p, {.weights = tensor({1., 2., 3., 4.})}),
              IsNumber(3.3988135792766565, 1e-14));
  EXPECT_THAT(binary_cross_entropy(tensor({0., 1., 1.}), tensor({1., 1., 0.25}), {.reduction = Reduction::none}),
              IsNear(tensor({100., 0., 75.})));
  EXPECT_THAT(cosine_similarity(logits, flip(logits, 0)),
              IsNear(doubles({0.0, 0.1760732617184833, 0.1760732617184833, 0.0})));
  EXPECT_THAT(hinge_loss(tensor({0.5, -2., 3.}), tensor({1, 1, 1}), {.reduction = Reduction::none}),
              Equals(tensor({0.5, 3., 0.})));
}

TEST(Losses, HuberHasItsSecondDerivativeAtZero) {
  const auto huber = [](T x) { return huber_loss(x, zeros({}, x.dtype())); };
  EXPECT_THAT(grad(grad(huber))(tensor(0.)), IsNumber(1));
  EXPECT_THAT(grad(huber)(tensor(1.)), IsNumber(1));
  EXPECT_THAT(grad(huber)(tensor(1e30)), IsNumber(1));  // The square of 1e30 overflows.
}

TEST(Losses, AreFiniteForLargeLogits) {
  const Tensor x = tensor({1e4, -1e4, 1e4, -1e4, 0.}), y = tensor({1., 0., 0., 1., 0.5});
  const auto loss = [&](T z) { return binary_cross_entropy_with_logits(z, y, {.reduction = Reduction::sum}); };
  EXPECT_THAT(loss(x), IsNumber(2e4 + std::log(2.)));
  EXPECT_THAT(grad(loss)(x), Equals(tensor({0., 0., 1., -1., 0.})));
  EXPECT_THAT(binary_cross_entropy_with_logits(tensor({inf, -inf}), tensor({1., 0.})), IsNumber(0));
  EXPECT_THAT(grad([](T z) {
                return binary_cross_entropy_with_logits(z, tensor({1., 0.}));
              })(tensor({inf, -inf})),
              Equals(tensor({0., 0.})));
  EXPECT_TRUE(all_finite(grad([&](T p) { return binary_cross_entropy(p, y); })(tensor({1., 0., 1., 0., 0.5}))));
}

TEST(Losses, AreFiniteForZeroProbabilities) {
  const Tensor y = tensor({0., 1., 0.});
  const auto of_log = [&](T x) { return kl_divergence(x, y); };
  EXPECT_THAT(of_log(tensor({-inf, -0.5, -1.})), IsNumber(0.5));
  EXPECT_THAT(grad(of_log)(tensor({-inf, -0.5, -1.})), Equals(tensor({0., -1., 0.})));
  EXPECT_THAT(kl_divergence(tensor({-inf, -0.5, -1.}), log(y), {.log_targets = true}), IsNumber(0.5));
  const auto cosine = [](T a) { return cosine_similarity(a, tensor({1., 2.})); };
  EXPECT_THAT(cosine(zeros({2})), IsNumber(0));
  EXPECT_TRUE(all_finite(grad(cosine)(zeros({2}))));
  EXPECT_THAT(cosine(tensor({1e30, 2e30})), IsNumber(1));
}

TEST(Losses, RefuseMismatchedShapesAndInvalidOptions) {
  EXPECT_THAT(
      [] {
        mse_loss(ones({3}), ones({3, 1}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("mse_loss: predictions [3] and targets [3,1] must have one shape")));
  EXPECT_THAT([] { huber_loss(ones({3}), ones({3}), {.delta = 0}); },
              ThrowsMessage<Error>(HasSubstr("delta 0 is not positive")));
  EXPECT_THAT([] { smooth_l1_loss(ones({3}), ones({3}), {.beta = -1}); },
              ThrowsMessage<Error>(HasSubstr("beta -1 is less than 0")));
  EXPECT_THAT([] { binary_cross_entropy(ones({3}), ones({3}), {.positive_weight = ones({})}); },
              ThrowsMessage<Error>(HasSubstr("positive_weight is for logits")));
  EXPECT_THAT([] { binary_cross_entropy(ones({3}), ones({3}), {.weights = ones({2})}); },
              ThrowsMessage<ShapeError>(HasSubstr("binary_cross_entropy")));
  EXPECT_THAT([] { cosine_similarity(ones({3}), ones({3}), {.epsilon = 0}); },
              ThrowsMessage<Error>(HasSubstr("epsilon 0 is not positive")));
}

// The sum of 4096 losses near 40 is beyond the range of float16,
// and bfloat16 would keep few digits of it.
TEST(Losses, RoundHalfFloatsOnce) {
  for (const Dtype half : {float16, bfloat16}) {
    const Tensor x = astype(6 * sin(counted({4096})), half), y = astype(-0.5 * x, half);
    const auto wide = [](T z) { return astype(z, float32); };
    EXPECT_THAT(mse_loss(x, y), Equals(astype(mse_loss(wide(x), wide(y)), half)));
    const Tensor z = reshape(x, {64, 64}), ids = arange(0, 64);
    EXPECT_THAT(cross_entropy(z, ids), Equals(astype(cross_entropy(wide(z), ids), half)));
  }
}

}  // namespace network_test
