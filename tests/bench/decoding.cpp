// A step of decoding by a language model of 12 layers, as in examples/50, beside PyTorch
// (peer_models.py) on two threads and on one. Its time is that of reading the weights once, 152 MB:
// `decoding_products` multiplies with them alone.
#include <tbb/global_control.h>

#include <string>
#include <utility>

#include "../../examples/llama.h"
#include "bench.h"

namespace {

using namespace stave_bench;

const LlamaConfig config{.layers = 12, .heads = 8, .key_value_heads = 2, .head_size = 64, .context = 512};
constexpr Index width = 512, inner = 1408, vocabulary = 8192, key_width = 128;

NamedTensors make_weights() {
  NamedTensors weights;
  const auto add = [&](const std::string& name, Index to, Index from) {
    weights[name + ".weight"] = scattered({to, from}, 2 / std::sqrt(static_cast<double>(from)));
  };
  add("model.embed_tokens", vocabulary, width);
  add("lm_head", vocabulary, width);
  weights["model.norm.weight"] = ones({width});
  for (Index i = 0; i < config.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    for (const char* const square : {"self_attn.q_proj", "self_attn.o_proj"}) add(layer + square, width, width);
    for (const char* const narrow : {"self_attn.k_proj", "self_attn.v_proj"}) add(layer + narrow, key_width, width);
    for (const char* const wide : {"mlp.gate_proj", "mlp.up_proj"}) add(layer + wide, inner, width);
    add(layer + "mlp.down_proj", width, inner);
    for (const char* const norm : {"input_layernorm", "post_attention_layernorm"})
      weights[layer + norm + ".weight"] = ones({width});
  }
  return weights;
}

/// Limits oneTBB to this many threads while it lives.
class Threads {
 public:
  explicit Threads(std::size_t count) : control_(tbb::global_control::max_allowed_parallelism, count) {}

 private:
  tbb::global_control control_;
};

// The token stands in the middle of the context, and those before it have keys and values of 0.
void decode(benchmark::State& state) {
  const Llama model(make_weights(), config);
  const auto step = compile([&](const Tensor& token, const Tensor& position, const LlamaCache& cache) {
    return model(token, position, cache);
  });
  const Tensor token = tensor({17}), position = tensor(256);
  LlamaCache cache = empty_cache(config);
  Tensor logits;
  const auto next = [&] {
    std::tie(logits, cache) = step(token, position, std::move(cache));
    return logits;
  };
  next();  // records; the next call plans
  state.counters["norm"] = norm(next()).item<double>();
  measure(state, next);
}
void decoding_step(benchmark::State& state) { decode(state); }
void decoding_step_one_thread(benchmark::State& state) {
  const Threads one(1);
  decode(state);
}

void decoding_products(benchmark::State& state) {
  NamedTensors weights = make_weights();
  weights.erase("model.embed_tokens.weight");
  const Tensor row = ones({1, width}), long_row = ones({1, inner});
  measure(state, [&] {
    Tensor last;
    for (const auto& [name, w] : weights)
      if (w.rank() == 2) last = matmul(w.shape(1) == width ? row : long_row, transpose(w));
    return last;
  });
}

BENCHMARK(decoding_step)->UseRealTime();
BENCHMARK(decoding_step_one_thread)->UseRealTime();
BENCHMARK(decoding_products)->UseRealTime();

}  // namespace
