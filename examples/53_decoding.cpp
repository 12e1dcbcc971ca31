// A language model decodes: it is given a prompt and says, token by token, how the text goes on.
// The keys and values of earlier tokens are kept in a cache. A compiled step writes those of the
// new token into the memory of the cache that it is given, and allocates nothing.
//
// The model has the architecture of Llama and random weights. It is loaded from .safetensors, and
// again from ONNX, as torch.onnx exports it with its cache as inputs and outputs. Both are compared
// with Hugging Face's transformers (data/53_decoding.py).
#include <iostream>

#include <stave/core/tensor/storage.h>
#include <stave/handlers/onnx/onnx.h>
#include <stave/stave.h>

#include "check.h"
#include "llama.h"

using namespace stave;

const auto expected = [](const char* what) {
  return load_safetensors<NamedTensors>(STAVE_EXAMPLE_DATA "/53_decoding_expected.safetensors").at(what);
};

// Decodes with a cache of fixed size, in which the position is a tensor.
void decode(const Tensor& prompt, const Tensor& logits, const Tensor& tokens) {
  const LlamaConfig config{.layers = 2, .heads = 4, .key_value_heads = 2, .head_size = 8, .context = 64};
  const Llama model(load_safetensors<NamedTensors>(STAVE_EXAMPLE_DATA "/53_decoding.safetensors"), config);

  auto [found, cache] = model(prompt, tensor(0), empty_cache(config));
  check(allclose(found, logits, 0, 1e-5), "the logits are those of transformers");

  // `cache` is moved in, so the step may write into its memory.
  const auto step = compile([&](const Tensor& token, const Tensor& position, const LlamaCache& before) {
    return model.likeliest_next(token, position, before);
  });
  Tensor token = argmax(found, -1)(slice(-1, none));
  for (Index i = 0; i < tokens.size(); ++i) {
    check(array_equal(token(0), tokens(i)), "the tokens are those of transformers");
    const Tensor position = tensor(prompt.size() + i, int32);
    const std::size_t before = memory_stats().live_bytes;
    reset_peak_memory();
    std::tie(token, cache) = step(std::move(token), position, std::move(cache));
    const std::size_t workspace = memory_stats().peak_bytes - before;  // of single kernels
    check(i < 3 || workspace < 1024, "a step allocates no results");
  }
  check(step.recordings() == 1, "one recording serves all positions");

  // A cache that is kept is not written to: two continuations of one prompt.
  const LlamaCache kept = cache;
  const Tensor end = tensor(prompt.size() + tokens.size(), int32);
  const auto [one, after_one] = step(tensor({1}), end, cache);
  const auto [two, after_two] = step(tensor({2}), end, cache);
  check(!array_equal(after_one.keys[0], after_two.keys[0]), "the continuations differ");
  check(array_equal(kept.keys[0], cache.keys[0]), "the cache that both continue is as before");
  std::cout << tokens.size() << " tokens, as transformers decode them\n";
}

// Decodes with a model of ONNX, whose cache grows by each token.
void decode_by_onnx(const Tensor& prompt, const Tensor& logits, const Tensor& tokens) {
  const OnnxModel model = load_onnx(STAVE_EXAMPLE_DATA "/53_decoding.onnx");
  NamedTensors state;
  for (const OnnxArgument& input : model.inputs())
    if (input.name.starts_with("past_key_values")) state[input.name] = zeros({1, 2, 0, 8});

  // Returns the logits after new tokens, and puts the model's new cache in place of the old one.
  const auto append = [&](const Tensor& ids) {
    const Index past = state.begin()->second.shape(2);
    state["input_ids"] = astype(ids(newaxis), int64);
    state["position_ids"] = arange(past, past + ids.size(), 1, int64)(newaxis);
    const NamedTensors results = model(state);
    state.clear();
    for (const auto& [name, x] : results)
      if (name != "logits") state["past_key_values" + name.substr(name.find('.'))] = x;
    return results.at("logits")[0];
  };
  const Tensor found = append(prompt);
  check(allclose(found, logits, 0, 1e-5), "the logits are those of transformers");
  Tensor token = argmax(found, -1)(slice(-1, none));
  for (Index i = 0; i < tokens.size(); ++i) {
    check(array_equal(token(0), tokens(i)), "the tokens are those of transformers");
    token = argmax(append(token), -1);
  }
  std::cout << tokens.size() << " tokens, decoded by the model of ONNX\n";
}

int main() {
  const Tensor prompt = expected("prompt"), logits = expected("logits"), tokens = expected("tokens");
  decode(prompt, logits, tokens);
  decode_by_onnx(prompt, logits, tokens);
}
