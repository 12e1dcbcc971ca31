// The published model all-MiniLM-L6-v2, as in examples/32, on 32 sentences of up to 32 tokens,
// beside transformers in PyTorch (peer_models.py). STAVE_MINILM names the folder with its weights,
// which run.sh fetches; without it no benchmark is registered.
#include <cblas.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench.h"

namespace {

using namespace stave_bench;

using Bert = NamedTensors;

Tensor dense(const Bert& bert, const std::string& name, const Tensor& x) {
  return matmul(x, transpose(bert.at(name + ".weight"))) + bert.at(name + ".bias");
}
Tensor norm(const Bert& bert, const std::string& name, const Tensor& x) {
  return layer_norm(x, {.weight = bert.at(name + ".weight"), .bias = bert.at(name + ".bias"), .epsilon = 1e-12});
}
Tensor heads(const Tensor& x) { return permute_dims(reshape(x, {x.shape(0), 12, -1}), {1, 0, 2}); }

Tensor attention(const Bert& bert, const std::string& name, const Tensor& x, const Tensor& mask) {
  const auto of = [&](const char* what) { return heads(dense(bert, name + what, x)); };
  const Tensor q = of(".self.query"), k = of(".self.key"), v = of(".self.value");
  const Tensor scores = matmul(q, matrix_transpose(k)) / std::sqrt(static_cast<double>(q.shape(-1)));
  const Tensor weights = softmax(where(mask, scores, -1e9));
  const Tensor mixed = reshape(permute_dims(matmul(weights, v), {1, 0, 2}), x.shape());
  return dense(bert, name + ".output.dense", mixed);
}

// Returns the mean over a sentence's tokens. It is not normalised like the embedding, whose norm of
// 1 could not be compared.
Tensor embed(const Bert& bert, const Tensor& tokens, const Tensor& mask) {
  const auto table = [&](const char* what) {
    return bert.at("embeddings." + std::string(what) + "_embeddings.weight");
  };
  Tensor x = embedding(table("word"), tokens) + table("position")(slice(tokens.size())) + table("token_type")[0];
  x = norm(bert, "embeddings.LayerNorm", x);
  for (int i = 0; i < 6; ++i) {
    const std::string layer = "encoder.layer." + std::to_string(i);
    x = norm(bert, layer + ".attention.output.LayerNorm", x + attention(bert, layer + ".attention", x, mask));
    const Tensor inner = gelu(dense(bert, layer + ".intermediate.dense", x));
    x = norm(bert, layer + ".output.LayerNorm", x + dense(bert, layer + ".output.dense", inner));
  }
  return sum(where(mask(slice(), newaxis), x, 0), 0) / sum(astype(mask, float32));
}

const auto embed_all = vmap(embed, {.in_axes = {unmapped, 0, 0}});

constexpr Index sentences = 32, length = 32;

template <class F>
void measure_on_sentences(benchmark::State& state, const F& f, const std::string& folder) {
  const Bert bert = load_safetensors<Bert>(folder + "/model.safetensors");
  const Tensor tokens = reshape(arange(sentences * length) * 7919 % 30522, {sentences, length});
  const Tensor mask = arange(length) < 16 + expand_dims(arange(sentences) % 17, 1);
  f(bert, tokens, mask);  // if f is compiled, this call records it; the next one is a replay
  const Tensor means = f(bert, tokens, mask);
  state.counters["norm"] = stave::norm(means).item<double>();
  measure(state, [&] { return f(bert, tokens, mask); });
}

// The time of the model's products with weights, by BLAS; the rest of the model's time is
// everything else.
void products_alone(benchmark::State& state) {
  constexpr int rows = sentences * length, width = 384, inner = 1536;
  const Tensor x = scattered({rows, inner}), w = scattered({inner, inner});
  std::vector<float> out(static_cast<std::size_t>(rows * inner));
  const auto multiply = [&](int from, int to) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, to, from, 1, x.data<float>().data(), from,
                w.data<float>().data(), from, 0, out.data(), to);
  };
  measure(state, [&] {
    for (int layer = 0; layer < 6; ++layer) {
      for (int i = 0; i < 4; ++i) multiply(width, width);
      multiply(width, inner);
      multiply(inner, width);
    }
    return out[0];
  });
}

[[maybe_unused]] const bool registered = [] {
  const char* const folder = std::getenv("STAVE_MINILM");
  if (!folder) return false;
  const auto add = [&](const char* name, const auto& f) {
    benchmark::RegisterBenchmark(name, [f, at = std::string(folder)](benchmark::State& state) {
      measure_on_sentences(state, f, at);
    })->UseRealTime();
  };
  add("minilm_embeddings", embed_all);
  add("minilm_embeddings_compiled", compile(embed_all));
  benchmark::RegisterBenchmark("minilm_products", products_alone)->UseRealTime();
  return true;
}();

}  // namespace
