// Language models of the Llama architecture (Touvron et al., 2023): RMS norm, rotary embedding,
// grouped-query attention and SwiGLU. The parameters have the names that Hugging Face's
// transformers give them, so load_safetensors<NamedTensors> loads a published model.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <stave/stave.h>

struct LlamaConfig {
  stave::Index layers, heads, key_value_heads, head_size;
  stave::Index context;  // the most tokens of prompt and answer together
  double theta = 10000;  // the base of the rotary embedding
  double epsilon = 1e-6;
};

/// The keys and values of the tokens so far.
struct LlamaCache {
  std::vector<stave::Tensor> keys, values;  // for each layer, [key_value_heads, context, head_size]
};

inline LlamaCache empty_cache(const LlamaConfig& config) {
  LlamaCache cache;
  for (stave::Index layer = 0; layer < config.layers; ++layer)
    for (auto* const rows : {&cache.keys, &cache.values})
      rows->push_back(stave::zeros({config.key_value_heads, config.context, config.head_size}));
  return cache;
}

class Llama {
 public:
  Llama(stave::NamedTensors weights, const LlamaConfig& config) : weights_(std::move(weights)), config_(config) {}

  /// Returns the logits [n, vocabulary] after each of the tokens [n], of which the first one stands
  /// at `position`, an integer []. The cache has the tokens before them. Also returns the cache
  /// with these tokens. Throws IndexError if they exceed the context.
  std::pair<stave::Tensor, LlamaCache> operator()(const stave::Tensor& tokens, const stave::Tensor& position,
                                                  const LlamaCache& cache) const {
    using namespace stave;
    const Tensor positions = position + arange(tokens.size());
    const Tensor mask = arange(config_.context) <= expand_dims(positions, 1);
    const Tensor frequencies = pow(config_.theta, arange(0, config_.head_size, 2, float32) / -config_.head_size);
    const Tensor angles = expand_dims(astype(positions, float32), 1) * frequencies;
    const Tensor cosines = cos(angles), sines = sin(angles);
    LlamaCache next;
    Tensor x = embedding(weights_.at("model.embed_tokens.weight"), tokens);
    for (std::size_t i = 0; i < cache.keys.size(); ++i) {
      const Scope scope("layer" + std::to_string(i));
      const std::string layer = "model.layers." + std::to_string(i) + ".";
      const Tensor y = norm(layer + "input_layernorm", x);
      const Tensor q = rotated(heads(layer + "self_attn.q_proj", y), cosines, sines);
      const Tensor k = rotated(heads(layer + "self_attn.k_proj", y), cosines, sines);
      const Tensor v = heads(layer + "self_attn.v_proj", y);
      const Tensor& keys = next.keys.emplace_back(dynamic_update_slice(cache.keys[i], k, {0, position, 0}));
      const Tensor& values = next.values.emplace_back(dynamic_update_slice(cache.values[i], v, {0, position, 0}));
      const Tensor mixed = scaled_dot_product_attention(q, keys, values, {.mask = mask, .grouped_queries = true});
      x = x + linear(layer + "self_attn.o_proj", reshape(permute_dims(mixed, {1, 0, 2}), {tokens.size(), -1}));
      const Tensor z = norm(layer + "post_attention_layernorm", x);
      const Tensor gated = silu(linear(layer + "mlp.gate_proj", z)) * linear(layer + "mlp.up_proj", z);
      x = x + linear(layer + "mlp.down_proj", gated);
    }
    return {linear("lm_head", norm("model.norm", x)), std::move(next)};
  }

  /// Performs one step of greedy decoding: returns the likeliest token [1] after `token` [1], which
  /// stands at `position`, and the cache with `token`.
  std::pair<stave::Tensor, LlamaCache> likeliest_next(const stave::Tensor& token, const stave::Tensor& position,
                                                      const LlamaCache& cache) const {
    auto [logits, next] = (*this)(token, position, cache);
    return {stave::argmax(logits, -1), std::move(next)};
  }

 private:
  stave::Tensor linear(const std::string& name, const stave::Tensor& x) const {
    return matmul(x, transpose(weights_.at(name + ".weight")));
  }
  stave::Tensor norm(const std::string& name, const stave::Tensor& x) const {
    return rms_norm(x, {.weight = weights_.at(name + ".weight"), .epsilon = config_.epsilon});
  }
  // Returns a linear map of x [n, width] as [heads, n, head_size].
  stave::Tensor heads(const std::string& name, const stave::Tensor& x) const {
    return permute_dims(reshape(linear(name, x), {x.shape(0), -1, config_.head_size}), {1, 0, 2});
  }
  // Rotates the pairs (x[i], x[i + d/2]) of the last axis by angles that grow with the position.
  static stave::Tensor rotated(const stave::Tensor& x, const stave::Tensor& cosines, const stave::Tensor& sines) {
    using namespace stave;
    const Index half = x.shape(-1) / 2;
    const Tensor a = x(ellipsis, slice(half)), b = x(ellipsis, slice(half, none));
    return concat({a * cosines - b * sines, b * cosines + a * sines}, -1);
  }

  stave::NamedTensors weights_;
  LlamaConfig config_;
};
