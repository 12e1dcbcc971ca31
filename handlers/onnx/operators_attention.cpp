// Attention, and the recurrences that take its place.
#include <stave/core/ops/attention.h>

#include <cmath>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/softmax.h>
#include <stave/handlers/onnx/operators.h>
#include <stave/handlers/transforms/loop.h>

namespace stave_detail {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// [batch, steps, heads * d] as [batch, heads, steps, d].
Tensor with_heads(const Tensor& x, Index heads) {
  if (x.rank() != 3 || heads < 1 || x.shape(2) % heads != 0)
    fail<ShapeError>("{} does not divide into {} heads", x.shape(), heads);
  return permute_dims(reshape(x, {x.shape(0), x.shape(1), heads, x.shape(2) / heads}), {0, 2, 1, 3});
}
Tensor without_heads(const Tensor& x) {
  const Tensor y = permute_dims(x, {0, 2, 1, 3});
  return reshape(y, {y.shape(0), y.shape(1), y.shape(2) * y.shape(3)});
}

// Keys or values [batch, heads, steps, d], of which a group of `heads` queries shares each.
Tensor for_heads(const Tensor& x, Index heads) {
  const Index given = x.shape(1);
  if (given == heads) return x;
  if (given == 0 || heads % given != 0)
    fail<ShapeError>("{} heads of queries do not divide into {} heads of keys", heads, given);
  return repeat(x, heads / given, 1);
}

// The mask of an Attention node: which keys a query attends to, and what is added to its scores.
struct AttentionMask {
  Tensor allowed;  // bools; empty: all keys
  Tensor added;    // numbers; empty: 0

  void allow(const Tensor& keys) { allowed = allowed.defined() ? allowed && keys : keys; }
  /// The mask as one tensor: bools, or numbers with -inf for excluded keys; empty if there is none.
  Tensor joined() const {
    if (!added.defined()) return allowed;
    return allowed.defined() ? where(allowed, added, full_like(added, -infinity)) : added;
  }
};

AttentionMask attention_mask(const NodeCall& n, Index queries, Index keys) {
  AttentionMask mask;
  if (n.has(3)) {
    Tensor given = n(3);
    if (const Index more = keys - given.shape(-1); more > 0) {
      std::vector<std::pair<Index, Index>> widths(static_cast<std::size_t>(given.rank()));
      widths.back() = {0, more};
      given = given.dtype() == bool_ ? pad(given, widths, false) : pad(given, widths, -infinity);
    }
    (given.dtype() == bool_ ? mask.allowed : mask.added) = given;
  }
  // Queries follow the keys that are in a cache: query i is at position i + offset.
  const bool external = n.has(6) && !n.has(4);
  Tensor position = reshape(arange(0, queries, 1, int64), {queries, 1});
  if (n.has(4)) position = position + n(4).shape(2);
  else if (external) position = position + (reshape(as_int64(n(6)), {n(6).size(), 1, 1, 1}) - queries);
  const Tensor key = arange(0, keys, 1, int64);
  const Index left = n.integer("left_window_size", -1), right = n.integer("right_window_size", -1);
  if (n.integer("is_causal", 0) != 0) mask.allow(key <= position);
  if (left >= 0) mask.allow(position - key <= left);
  if (right >= 0) mask.allow(key - position <= right);
  if (n.has(6)) mask.allow(key < reshape(as_int64(n(6)), {n(6).size(), 1, 1, 1}));
  return mask;
}

// Scores are q k^T, optionally limited by a tanh, with the mask added.
OnnxValues attention(const NodeCall& n) {
  const bool flat = n(0).rank() == 3;
  Tensor q = n(0), k = n(1), v = n(2);
  if (flat) {
    q = with_heads(q, n.integer("q_num_heads"));
    k = with_heads(k, n.integer("kv_num_heads"));
    v = with_heads(v, n.integer("kv_num_heads"));
  }
  if (n.has(4)) k = concat({n(4), k}, 2);
  if (n.has(5)) v = concat({n(5), v}, 2);
  const Tensor present_key = k, present_value = v;
  const double scale = n.number("scale", 1 / std::sqrt(static_cast<double>(q.shape(3)))), cap = n.number("softcap", 0);
  const Tensor mask = attention_mask(n, q.shape(2), k.shape(2)).joined();
  if (q.shape(1) != k.shape(1) && (k.shape(1) == 0 || q.shape(1) % k.shape(1) != 0))
    fail<ShapeError>("{} heads of queries do not divide into {} heads of keys", q.shape(1), k.shape(1));
  const bool grouped = q.shape(1) != k.shape(1);
  if (cap == 0 && !n.wants(3) && !n.has("softmax_precision")) {
    const Tensor y =
        scaled_dot_product_attention(q, k, v,
                                     {.mask = mask.defined() && mask.dtype() != bool_ ? astype(mask, q.dtype()) : mask,
                                      .scale = scale,
                                      .grouped_queries = grouped});
    return results({flat ? without_heads(y) : y, present_key, present_value});
  }
  k = for_heads(k, q.shape(1));
  v = for_heads(v, q.shape(1));
  const double half = std::sqrt(scale);
  Tensor scores = matmul(q * half, matrix_transpose(k * half));
  std::vector<Tensor> stages{scores};  // as qk_matmul_output_mode numbers them
  if (cap > 0) scores = tanh(scores / cap) * cap;
  stages.push_back(scores);
  if (mask.defined())
    scores = mask.dtype() == bool_ ? where(mask, scores, full_like(scores, -infinity))
                                   : astype(scores + mask, scores.dtype());
  stages.push_back(scores);
  Tensor weights = softmax(astype(scores, n.dtype("softmax_precision", scores.dtype())), -1);
  if (mask.defined()) {  // no weight for a query that attends to no key
    const Tensor some = mask.dtype() == bool_ ? any(mask, -1, keepdims) : (max)(mask, -1, keepdims) != -infinity;
    weights = where(some, weights, zeros_like(weights));
  }
  weights = astype(weights, q.dtype());
  stages.push_back(weights);
  const auto mode = static_cast<std::size_t>(n.integer("qk_matmul_output_mode", 0));
  if (mode >= stages.size()) n.refuse("there is no qk_matmul_output_mode {}", mode);
  const Tensor y = matmul(weights, v);
  return results({flat ? without_heads(y) : y, present_key, present_value, stages[mode]});
}

// Attention whose scores and weights pass through graphs.
Tensor flex_attention(const NodeCall& n) {
  const Tensor& q = n(0);
  const Tensor k = for_heads(n(1), q.shape(1)), v = for_heads(n(2), q.shape(1));
  const double half = std::sqrt(n.number("scale", 1 / std::sqrt(static_cast<double>(q.shape(3)))));
  const Dtype wide = is_half_float(q.dtype()) ? float32 : q.dtype(), dtype = n.dtype("softmax_precision", wide);
  const auto passed = [&](std::string_view name, const Tensor& x) {
    return n.has(name) ? astype(n.run(name, {OnnxValue(x)}).at(0).tensor, dtype) : x;
  };
  const Tensor scores = passed("score_mod", astype(matmul(q * half, matrix_transpose(k * half)), dtype));
  const Tensor weights = passed("prob_mod", softmax(scores, -1));
  return astype(matmul(weights, astype(v, dtype)), n(2).dtype());
}

// Rotates pairs of features by angles whose sines and cosines are given.
Tensor rotary_embedding(const NodeCall& n) {
  const bool flat = n(0).rank() == 3;
  const Tensor x = flat ? with_heads(n(0), n.integer("num_heads")) : n(0);
  const Index all = x.shape(3), given = n.integer("rotary_embedding_dim", 0), d = given == 0 ? all : given;
  const auto angles = [&](std::size_t input) {
    const Tensor table = n.has(3) ? take(n(input), n(3)) : n(input);  // [batch, steps, d / 2]
    return expand_dims(table, 1);
  };
  const Tensor c = angles(1), s = angles(2), rotated = x(ellipsis, slice(d));
  const bool interleaved = n.integer("interleaved", 0) != 0;
  const Tensor a = interleaved ? rotated(ellipsis, slice(none, none, 2)) : rotated(ellipsis, slice(d / 2));
  const Tensor b = interleaved ? rotated(ellipsis, slice(1, none, 2)) : rotated(ellipsis, slice(d / 2, none));
  const Tensor first = c * a - s * b, second = s * a + c * b;
  Tensor y = interleaved ? reshape(stack({first, second}, -1), rotated.shape()) : concat({first, second}, -1);
  if (d < all) y = concat({y, x(ellipsis, slice(d, none))}, -1);
  return flat ? without_heads(y) : y;
}

// The recurrence S = exp(decay) S + k (beta (v - S^T k))^T, y = scale S^T q, where the rule says
// which of decay and correction there are.
OnnxValues linear_attention(const NodeCall& n) {
  const std::string rule = n.text("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", corrected = rule == "delta" || rule == "gated_delta";
  if (!gated && !corrected && rule != "linear") n.refuse("there is no update_rule '{}'", rule);
  const Index q_heads = n.integer("q_num_heads"), heads = n.integer("kv_num_heads");
  const auto steps_first = [](const Tensor& x) { return permute_dims(astype(x, float32), {2, 0, 1, 3}); };
  const Tensor q = steps_first(with_heads(n(0), q_heads)), k = steps_first(with_heads(n(1), heads)),
               v = steps_first(with_heads(n(2), heads));
  const Index keys = k.shape(3), values = v.shape(3), group = q_heads / heads;
  if (q_heads % heads != 0) fail<ShapeError>("{} heads of queries do not divide into {}", q_heads, heads);
  std::vector<Tensor> rows{q, k, v};
  if (gated) rows.push_back(steps_first(with_heads(n(4), heads)));
  if (corrected) rows.push_back(steps_first(with_heads(n(5), n(5).shape(2))));
  const double given = n.number("scale", 0), scale = given == 0 ? 1 / std::sqrt(static_cast<double>(keys)) : given;
  const Tensor state = n.has(3) ? astype(n(3), float32) : zeros({q.shape(1), heads, keys, values}, float32);
  const auto step = [=](const Tensor& before, const std::vector<Tensor>& row) {
    Tensor s = before, value = row[2];
    const Tensor& key = row[1];
    if (gated) s = s * expand_dims(exp(row[3]), -1);
    if (corrected) value = row[gated ? 4 : 3] * (value - einsum("bhdm,bhd->bhm", s, key));
    s = s + expand_dims(key, -1) * expand_dims(value, -2);
    const Tensor read = group == 1 ? s : repeat(s, group, 1);
    return std::pair(s, scale * einsum("bhd,bhdm->bhm", row[0], read));
  };
  const auto [last, ys] = scan(step)(state, rows);
  return results({astype(without_heads(permute_dims(ys, {1, 2, 0, 3})), n(0).dtype()),
                  astype(last, n.has(3) ? n(3).dtype() : n(0).dtype())});
}

constexpr OnnxOperator attention_rows[] = {
    {"Attention", 23, attention},
    {"LinearAttention", 27, linear_attention},
    {"RotaryEmbedding", 23, rotary_embedding},
};
constexpr OnnxOperator preview_rows[] = {{"FlexAttention", 1, flex_attention}};

}  // namespace

std::span<const OnnxOperator> onnx_attention() { return attention_rows; }
std::span<const OnnxOperator> onnx_preview() { return preview_rows; }

}  // namespace stave_detail
