// Operators of classical machine learning (domain ai.onnx.ml), those without strings.
#include <algorithm>
#include <map>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/softmax.h>
#include <stave/handlers/onnx/operators.h>

namespace stave_detail {

namespace {

Tensor floats_of(const NodeCall& n, std::string_view name) {
  const std::vector<double> values = n.numbers(name);
  return from(std::vector<float>(values.begin(), values.end()));
}

Tensor feature_extractor(const NodeCall& n) {
  const Tensor& x = n(0);
  return take(x.rank() == 1 ? reshape(x, {1, x.size()}) : x, reshape(n(1), -1), -1);
}

Tensor binarized(const NodeCall& n) { return astype(n(0) > n.number("threshold", 0), n(0).dtype()); }

Tensor scaled(const NodeCall& n) { return (astype(n(0), float32) - floats_of(n, "offset")) * floats_of(n, "scale"); }

Tensor post_transformed(const NodeCall& n, const Tensor& scores) {
  const std::string how = n.text("post_transform", "NONE");
  if (how == "NONE") return scores;
  if (how == "SOFTMAX") return softmax(scores);
  if (how == "LOGISTIC") return sigmoid(scores);
  n.refuse("the post_transform '{}' is not supported", how);
}

Tensor linear_regressor(const NodeCall& n) {
  const Index targets = n.integer("targets", 1);
  const Tensor w = reshape(floats_of(n, "coefficients"), {targets, -1});
  Tensor y = matmul(astype(n(0), float32), transpose(w));
  if (n.has("intercepts")) y = y + floats_of(n, "intercepts");
  return post_transformed(n, y);
}

Tensor normalizer(const NodeCall& n) {
  const Tensor x = astype(n(0), float32);
  const std::string how = n.text("norm", "MAX");
  const Tensor size = how == "L1"   ? sum(abs(x), -1, keepdims)
                      : how == "L2" ? norm(x, -1, keepdims)
                                    : (max)(abs(x), -1, keepdims);
  return where(size == 0, zeros_like(x), x / size);
}

// Replaces each key by its value, and other elements by a default. Elements are compared on the
// host.
template <class K, class V>
Tensor looked_up(const Tensor& x, const std::vector<K>& keys, const std::vector<V>& values, V otherwise) {
  std::map<K, V> table;
  std::optional<V> of_nan;
  for (std::size_t i = 0; i < std::min(keys.size(), values.size()); ++i)
    if (keys[i] != keys[i]) of_nan = values[i];
    else table.emplace(keys[i], values[i]);
  std::vector<V> found;
  for (const K key : astype(x, dtype_of<K>()).template to_vector<K>()) {
    const auto at = key == key ? table.find(key) : table.end();
    found.push_back(key != key && of_nan ? *of_nan : at == table.end() ? otherwise : at->second);
  }
  return from(found, x.shape());
}

Tensor label_encoder(const NodeCall& n) {
  const auto is_tensor = [&](std::string_view name) { return n.has(name); };
  const auto numbers = [&](const char* list, const char* as_tensor) {
    if (!is_tensor(as_tensor)) return n.numbers(list);
    return astype(n.tensor(as_tensor), float64).to_vector<double>();
  };
  if (n.has("keys_strings") || n.has("values_strings")) n.refuse("strings are not supported");
  const bool int_keys = n.has("keys_int64s") || (n.has("keys_tensor") && is_integer(n.tensor("keys_tensor").dtype()));
  const bool int_values =
      n.has("values_int64s") || (n.has("values_tensor") && is_integer(n.tensor("values_tensor").dtype()));
  const std::vector<Index> no_integers;
  const auto with_values = [&](auto keys) {
    if (!int_values) {
      const double otherwise =
          n.has("default_tensor") ? n.tensor("default_tensor").item<double>() : n.number("default_float", -0.);
      const Tensor y = looked_up(n(0), keys, numbers("values_floats", "values_tensor"), otherwise);
      return astype(y, n.has("values_tensor") ? n.tensor("values_tensor").dtype() : float32);
    }
    const Index otherwise =
        n.has("default_tensor") ? n.tensor("default_tensor").item<Index>() : n.integer("default_int64", -1);
    if (!is_tensor("values_tensor"))
      return looked_up(n(0), keys, n.integers("values_int64s").value_or(no_integers), otherwise);
    const Tensor values = n.tensor("values_tensor");
    return astype(looked_up(n(0), keys, astype(values, int64).to_vector<Index>(), otherwise), values.dtype());
  };
  if (!int_keys) return with_values(numbers("keys_floats", "keys_tensor"));
  if (is_tensor("keys_tensor")) return with_values(astype(n.tensor("keys_tensor"), int64).to_vector<Index>());
  return with_values(n.integers("keys_int64s").value_or(no_integers));
}

constexpr OnnxOperator ml_rows[] = {
    {"ArrayFeatureExtractor", 1, feature_extractor}, {"Binarizer", 1, binarized},   {"LabelEncoder", 2, label_encoder},
    {"LinearRegressor", 1, linear_regressor},        {"Normalizer", 1, normalizer}, {"Scaler", 1, scaled},
};

}  // namespace

std::span<const OnnxOperator> onnx_ml() { return ml_rows; }

}  // namespace stave_detail
