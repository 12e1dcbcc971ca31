// Operators of classical machine learning (domain ai.onnx.ml), those without strings.
#include <stave/handlers/onnx/ml.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/search.h>
#include <stave/core/ops/softmax.h>
#include <stave/core/ops/special.h>
#include <stave/handlers/onnx/operators.h>

namespace stave_detail {

Tensor onnx_post_transform(const NodeCall& n, const Tensor& scores, const std::string& how) {
  if (how == "NONE") return scores;
  if (how == "SOFTMAX") return softmax(scores);
  if (how == "LOGISTIC") return sigmoid(scores);
  if (how == "PROBIT") return ndtri(scores);
  if (how != "SOFTMAX_ZERO") n.refuse("there is no post_transform '{}'", how);
  // Scores of 0 stay 0, and the others have the sum 1.
  const Tensor is_zero = abs(scores) <= 1e-7;
  const Tensor shares = softmax(where(is_zero, full_like(scores, -std::numeric_limits<double>::infinity()), scores));
  return where(is_zero, zeros_like(scores), shares);
}

Tensor onnx_labels(const NodeCall& n, const char* attribute, const Tensor& classes) {
  const auto labels = n.integers(attribute);
  if (!labels || labels->empty())
    n.refuse("the labels of classes are strings, which Stave does not have: export a model with integer labels");
  return take(from(*labels), as_int64(classes));
}

Tensor onnx_two_scores(const Tensor& score, const std::string& how, bool is_share) {
  if (how == "LOGISTIC") return stack({sigmoid(-score), sigmoid(score)}, -1);
  return stack({is_share ? 1 - score : -score, score}, -1);
}

namespace {

Tensor feature_extractor(const NodeCall& n) {
  const Tensor& x = n(0);
  return take(x.rank() == 1 ? reshape(x, {1, x.size()}) : x, reshape(n(1), -1), -1);
}

Tensor binarized(const NodeCall& n) { return astype(n(0) > n.number("threshold", 0), n(0).dtype()); }

Tensor scaled(const NodeCall& n) {
  Tensor x = astype(n(0), float32);
  if (const Tensor offset = n.parameter("offset"); offset.defined()) x = x - offset;
  const Tensor scale = n.parameter("scale");
  return scale.defined() ? x * scale : x;
}

// Replaces elements that are missing: NaN, or another number.
Tensor imputed(const NodeCall& n) {
  const Tensor& x = n(0);
  if (is_float(x.dtype())) {
    const std::vector<double> values = n.numbers("imputed_value_floats");
    const double missing = n.number("replaced_value_float", 0);
    return where(std::isnan(missing) ? isnan(x) : x == missing, astype(from(values), x.dtype()), x);
  }
  const auto values = n.integers("imputed_value_int64s");
  if (!values) n.refuse("there are no imputed_value_int64s for elements of type {}", x.dtype());
  return where(x == n.integer("replaced_value_int64", 0), astype(from(*values), x.dtype()), x);
}

Tensor linear_scores(const NodeCall& n, Index rows) {
  const Tensor coefficients = n.parameter("coefficients"), intercepts = n.parameter("intercepts");
  if (!coefficients.defined()) n.refuse("there are no coefficients");
  const Tensor y = matmul(astype(n(0), float32), transpose(reshape(coefficients, {rows, -1})));
  return intercepts.defined() ? y + intercepts : y;
}

Tensor linear_regressor(const NodeCall& n) {
  return onnx_post_transform(n, linear_scores(n, n.integer("targets", 1)), n.text("post_transform", "NONE"));
}

// The scores of all classes, or that of the second one of two.
OnnxValues linear_classifier(const NodeCall& n) {
  const std::string how = n.text("post_transform", "NONE");
  const Index features = n(0).shape(-1),
              all = n.parameter("coefficients").defined() ? n.parameter("coefficients").size() : 0;
  const Index rows = features == 0 ? 1 : all / features;
  const Tensor scores = linear_scores(n, rows);
  if (rows > 1)
    return results({onnx_labels(n, "classlabels_ints", argmax(scores, -1)), onnx_post_transform(n, scores, how)});
  const Tensor score = scores(ellipsis, 0);
  return results({onnx_labels(n, "classlabels_ints", score > 0), onnx_two_scores(score, how, true)});
}

Tensor normalizer(const NodeCall& n) {
  const Tensor x = astype(n(0), float32);
  const std::string how = n.text("norm", "MAX");
  const Tensor size = how == "L1"   ? sum(abs(x), -1, keepdims)
                      : how == "L2" ? norm(x, -1, keepdims)
                                    : (max)(x, -1, keepdims);
  return where(size == 0, x, x / size);
}

// 1 at the category of each element.
Tensor one_hot_encoder(const NodeCall& n) {
  const auto categories = n.integers("cats_int64s");
  if (!categories) n.refuse("the categories are strings, which Stave does not have: encode integers");
  const Tensor hot = expand_dims(as_int64(n(0)), -1) == from(*categories);
  if (n.integer("zeros", 1) == 0 && !bool(all(any(hot, -1)))) n.refuse("an element belongs to no category");
  return astype(hot, float32);
}

Tensor feature_vectorizer(const NodeCall& n) {
  std::vector<Tensor> parts;
  for (const Tensor& x : n.tensors()) parts.push_back(astype(x.rank() == 1 ? reshape(x, {1, x.size()}) : x, float32));
  return concat(parts, -1);
}

// The kernel of a support vector machine, of examples [batch, features] and vectors.
Tensor kernel_of(const NodeCall& n, const Tensor& x, const Tensor& vectors) {
  const std::string type = n.text("kernel_type", "LINEAR");
  std::vector<double> p = n.numbers("kernel_params");  // gamma, coef0, degree
  p.resize(3, 0);
  const Tensor products = matmul(x, transpose(vectors));
  if (type == "LINEAR") return products;
  if (type == "POLY") return pow(p[0] * products + p[1], p[2]);
  if (type == "SIGMOID") return tanh(p[0] * products + p[1]);
  if (type != "RBF") n.refuse("there is no kernel_type '{}'", type);
  return exp(-p[0] * (sum(square(x), 1, keepdims) - 2 * products + sum(square(vectors), 1)));
}

Tensor vectors_of(const NodeCall& n, Index count) {
  const Tensor vectors = n.parameter("support_vectors");
  if (!vectors.defined() || count < 1 || vectors.size() % count != 0)
    n.refuse("there are no {} support_vectors", count);
  return reshape(vectors, {count, -1});
}

Tensor svm_regressor(const NodeCall& n) {
  const Tensor x = astype(n(0), float32), coefficients = n.parameter("coefficients"), rho = n.parameter("rho");
  if (!coefficients.defined() || !rho.defined()) n.refuse("there are no coefficients, or there is no rho");
  const Index count = n.integer("n_supports", 0);
  const Tensor kernel = count == 0 ? x : kernel_of(n, x, vectors_of(n, count));
  const Tensor y = expand_dims(matmul(kernel, coefficients), -1) + rho;
  if (n.integer("one_class", 0) != 0) return where(y > 0, ones_like(y), -ones_like(y));
  return onnx_post_transform(n, y, n.text("post_transform", "NONE"));
}

// The probabilities p [batch, k] of classes by those of pairs, r[i][j] that of i against j: the p
// of the sum 1 that minimise sum_ij (r_ji p_i - r_ij p_j)^2. Wu, Lin and Weng, "Probability
// estimates for multi-class classification by pairwise coupling" (2004), method 2. Their iteration
// ends with an error of up to 0.005 / k; here the linear equations are solved.
Tensor coupled(const std::vector<std::vector<Tensor>>& r) {
  const std::size_t k = r.size();
  std::vector<Tensor> rows;
  const Tensor one = ones_like(r[0][1]), zero = zeros_like(one);
  for (std::size_t i = 0; i <= k; ++i) {
    std::vector<Tensor> row;
    for (std::size_t j = 0; j <= k; ++j) {
      Tensor q = i == k && j == k ? zero : one;
      if (i < k && i == j) {
        q = zero;
        for (std::size_t s = 0; s < k; ++s)
          if (s != i) q = q + square(r[s][i]);
      } else if (i < k && j < k) q = -r[j][i] * r[i][j];
      row.push_back(q);
    }
    rows.push_back(stack(row, -1));
  }
  std::vector<Tensor> right(k, zero);
  right.push_back(one);
  return solve(stack(rows, -2), expand_dims(stack(right, -1), -1))(ellipsis, slice(static_cast<Index>(k)), 0);
}

// Each pair of classes has a score, which is positive for the first one. The class is the one that
// most pairs favour. Scores are those of the pairs; with prob_a and prob_b, probabilities.
OnnxValues svm_classifier(const NodeCall& n) {
  const std::vector<Index> counts = n.integers("vectors_per_class").value_or(std::vector<Index>());
  const auto classes = static_cast<Index>(counts.size());
  if (classes < 2) n.refuse("there are vectors of {} classes: linear machines are not supported", classes);
  const Tensor given = n.parameter("coefficients"), rho = n.parameter("rho");
  if (!given.defined() || !rho.defined()) n.refuse("there are no coefficients, or there is no rho");
  const Tensor coefficients = reshape(given, {classes - 1, -1});
  const std::vector<double> a = n.numbers("prob_a"), b = n.numbers("prob_b");
  const std::size_t pairs = counts.size() * (counts.size() - 1) / 2;
  if (rho.size() != static_cast<Index>(pairs) || (!a.empty() && (a.size() != pairs || b.size() != pairs)))
    fail<ShapeError>("{} and {} numbers are given for {} pairs of classes", rho.size(), a.size(), pairs);
  const Tensor kernel = kernel_of(n, astype(n(0), float32), vectors_of(n, coefficients.shape(1)));
  std::vector<Tensor> parts;  // for each class, what its vectors add to the scores of its pairs
  const std::vector<Tensor> kernels = parts_along(kernel, 1, counts), factors = parts_along(coefficients, 1, counts);
  for (std::size_t i = 0; i < counts.size(); ++i) parts.push_back(matmul(kernels[i], transpose(factors[i])));
  std::vector<Tensor> scores, votes(counts.size(), zeros({n(0).shape(0)}, int32));
  std::vector<std::vector<Tensor>> shares(counts.size(), std::vector<Tensor>(counts.size()));
  for (std::size_t i = 0; i < counts.size(); ++i)
    for (std::size_t j = i + 1; j < counts.size(); ++j) {
      const std::size_t pair = scores.size();
      const auto row = static_cast<Index>(pair);
      const Tensor score = parts[i](ellipsis, j - 1) + parts[j](ellipsis, i) + rho[row];
      votes[i] = votes[i] + (score > 0);
      votes[j] = votes[j] + (score <= 0);
      scores.push_back(score);
      if (a.empty()) continue;
      shares[i][j] = clip(sigmoid(-(a[pair] * score + b[pair])), 1e-7, 1 - 1e-7);
      shares[j][i] = 1 - shares[i][j];
    }
  const std::string how = n.text("post_transform", "NONE");
  const Tensor labels = onnx_labels(n, "classlabels_ints", argmax(stack(votes, -1), -1));
  if (!a.empty()) return results({labels, onnx_post_transform(n, coupled(shares), how)});
  if (classes == 2) return results({labels, onnx_two_scores(scores[0], how, how != "NONE")});
  return results({labels, onnx_post_transform(n, stack(scores, -1), how)});
}

// Replaces each key by its value, and other elements by a default.
template <class K>
Tensor looked_up(const Tensor& x, const std::vector<K>& keys, const Tensor& values, const Tensor& otherwise) {
  std::map<K, Index> places;  // in the order of keys
  Tensor of_nan;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (keys[i] != keys[i]) of_nan = values[static_cast<Index>(i)];
    else places.emplace(keys[i], static_cast<Index>(i));
  std::vector<K> sorted;
  std::vector<Index> order;
  for (const auto& [key, place] : places) {
    sorted.push_back(key);
    order.push_back(place);
  }
  Tensor y = broadcast_to(otherwise, x.shape());
  if (!sorted.empty()) {
    const Tensor known = astype(from(sorted), x.dtype());
    const Tensor at = minimum(searchsorted(known, x), std::ssize(sorted) - 1);
    y = where(take(known, at) == x, take(take(values, from(order)), at), y);
  }
  return of_nan.defined() ? where(isnan(x), of_nan, y) : y;
}

Tensor label_encoder(const NodeCall& n) {
  if (n.has("keys_strings") || n.has("values_strings")) n.refuse("strings are not supported");
  const auto are_integers = [&](const std::string& kind) {
    return n.has(kind + "_int64s") || (n.has(kind + "_tensor") && is_integer(n.tensor(kind + "_tensor").dtype()));
  };
  const auto attribute = [&](const std::string& kind) {
    return kind + (n.has(kind + "_tensor") ? "_tensor" : are_integers(kind) ? "_int64s" : "_floats");
  };
  const bool integers = are_integers("values");
  const Tensor values = n.has("values_tensor") ? n.tensor("values_tensor")
                        : integers             ? from(*n.integers("values_int64s"))
                                               : from(n.numbers("values_floats"));
  const Tensor otherwise = n.has("default_tensor") ? n.tensor("default_tensor")
                           : integers              ? tensor(n.integer("default_int64", -1))
                                                   : tensor(n.number("default_float", -0.));
  const auto look_up = [&](const auto& keys) {
    if (std::ssize(keys) != values.size())
      fail<ShapeError>("there are {} keys and {} values", keys.size(), values.size());
    const Tensor y = looked_up(n(0), keys, values, reshape(otherwise, Shape()));
    return astype(y, n.has("values_tensor") ? values.dtype() : integers ? int64 : float32);
  };
  return are_integers("keys") ? look_up(*n.integers(attribute("keys"))) : look_up(n.numbers(attribute("keys")));
}

constexpr OnnxOperator ml_rows[] = {
    {"ArrayFeatureExtractor", 1, feature_extractor},
    {"Binarizer", 1, binarized},
    {"FeatureVectorizer", 1, feature_vectorizer},
    {"Imputer", 1, imputed},
    {"LabelEncoder", 2, label_encoder},
    {"LinearClassifier", 1, linear_classifier},
    {"LinearRegressor", 1, linear_regressor},
    {"Normalizer", 1, normalizer},
    {"OneHotEncoder", 1, one_hot_encoder},
    {"SVMClassifier", 1, svm_classifier},
    {"SVMRegressor", 1, svm_regressor},
    {"Scaler", 1, scaled},
};

}  // namespace

std::span<const OnnxOperator> onnx_ml() { return ml_rows; }

}  // namespace stave_detail
