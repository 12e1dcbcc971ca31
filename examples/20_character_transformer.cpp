// A small transformer learns four sonnets, character by character, and recites them. All parts are
// functions of the library: embedding, layer_norm, scaled_dot_product_attention, gelu; adamw with a
// schedule, and clipped gradients. The loss equals JAX's and PyTorch's in every step.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

// `length` is the context in characters, `width` the number of features of each character.
constexpr Index length = 32, width = 64, heads = 4;
constexpr Index batch_size = 32, steps = 240;

// ---- the model: of one sequence -----------------------------------------------------------------

// Aggregates are trees of tensors, however nested: gradients and the optimizer's state have the
// same types.
struct Norm {
  Tensor scale, shift;
};
struct Dense {
  Tensor w, b;
};
struct Block {
  Norm norm1;
  Tensor qkv, out;
  Norm norm2;
  Dense up, down;
};
struct Transformer {
  Tensor characters, places;
  std::vector<Block> blocks;
  Norm norm;
  Tensor next;
};

Tensor apply_norm(const Norm& norm, const Tensor& x) {
  return layer_norm(x, {.weight = norm.scale, .bias = norm.shift});
}
Tensor apply_dense(const Dense& dense, const Tensor& x) { return matmul(x, dense.w) + dense.b; }

// Causal self-attention over x [n, width].
Tensor attention(const Block& block, const Tensor& x) {
  const Index n = x.shape()[0];
  const Tensor all = reshape(matmul(x, block.qkv), {n, 3, heads, width / heads});
  const auto [q, k, v] = unstack<3>(permute_dims(all, {1, 2, 0, 3}));  // [heads, n, width / heads]
  const Tensor found = scaled_dot_product_attention(q, k, v, {.causal = true});
  return matmul(reshape(moveaxis(found, 0, 1), {n, width}), block.out);
}

// Maps ids [n], n <= length, to logits [n, characters] of the next character at each place.
Tensor logits(const Transformer& net, const Tensor& ids) {
  Tensor x = embedding(net.characters, ids) + net.places(slice(ids.size()));
  for (const Block& block : net.blocks) {
    x += attention(block, apply_norm(block.norm1, x));
    x += apply_dense(block.down, gelu(apply_dense(block.up, apply_norm(block.norm2, x))));
  }
  return matmul(apply_norm(net.norm, x), net.next);
}

// The mean loss over several windows [n, length + 1]. The target at each place is the next
// character of the window.
Tensor loss(const Transformer& net, const Tensor& windows) {
  const auto of_one = [](const Transformer& t, const Tensor& window) {
    return cross_entropy(logits(t, window(slice(-1))), window(slice(1, none)));
  };
  return mean(vmap(of_one, {.in_axes = {unmapped, 0}})(net, windows));
}

// ---- where it starts ----------------------------------------------------------------------------

Tensor weights(const Key& key, Index rows, Index columns, Index fan_in) {
  return uniform(key, {rows, columns}, -1, 1) / std::sqrt(static_cast<double>(fan_in));
}
Tensor weights(const Key& key, Index rows, Index columns) { return weights(key, rows, columns, rows); }

Norm initial_norm() { return {ones({width}), zeros({width})}; }

Block random_block(const Key& key) {
  const auto [key1, key2, key3, key4] = split<4>(key);
  return {.norm1 = initial_norm(),
          .qkv = weights(key1, width, 3 * width),
          .out = weights(key2, width, width),
          .norm2 = initial_norm(),
          .up = {weights(key3, width, 4 * width), zeros({4 * width})},
          .down = {weights(key4, 4 * width, width), zeros({width})}};
}

Transformer random_transformer(Index characters, const std::array<Key, 6>& keys) {
  return {.characters = weights(keys[0], characters, width, width),
          .places = weights(keys[1], length, width, width),
          .blocks = {random_block(keys[2]), random_block(keys[3])},
          .norm = initial_norm(),
          .next = weights(keys[4], width, characters)};
}

// ---- text ---------------------------------------------------------------------------------------

struct Text {
  std::string alphabet;  // the characters that occur, in order
  Tensor ids;            // the index in `alphabet` of each character of the text
};

Text read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  check(!text.empty(), "there is a text in " + path);
  const std::set<char> found(text.begin(), text.end());
  const std::string alphabet(found.begin(), found.end());
  std::vector<std::int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<std::int32_t>(alphabet.find(c)));
  return {alphabet, from(ids)};
}

// Returns the `count` characters that follow `ids`, drawn with probabilities proportional to exp(2
// logits), which favours the likely ones.
std::string recite(const Transformer& net, const Text& text, Tensor ids, Index count, const Key& key) {
  std::string said;
  for (Index i = 0; i < count; ++i) {
    const Tensor recent = ids(slice(-std::min(length, ids.size()), none));
    const Tensor next = categorical(fold_in(key, static_cast<std::uint32_t>(i)), 2 * logits(net, recent)(-1));
    said += text.alphabet[static_cast<std::size_t>(next.item<std::int32_t>())];
    ids = concat({ids, expand_dims(next, 0)});
  }
  return said;
}

void train() {
  const Text text = read_text(STAVE_EXAMPLE_DATA "/sonnets.txt");
  const auto keys = split<6>(Key(0));
  Transformer net = random_transformer(static_cast<Index>(text.alphabet.size()), keys);
  const auto optimizer = adamw({.learning_rate = warmup_cosine_schedule(0, 8e-3, 20, steps, 1e-4),
                                .weight_decay = 0.1,
                                .decays = [](const Tensor& x) { return x.rank() > 1; }});
  auto state = optimizer.init(net);
  std::vector<Tensor> losses;
  for (std::uint32_t step = 0; step < steps; ++step) {
    const Tensor starts = permutation(fold_in(keys[5], step), text.ids.size() - length)(slice(batch_size));
    const Tensor windows = text.ids(expand_dims(starts, 1) + arange(length + 1));
    const auto [value, gradient] = value_and_grad(loss)(net, windows);
    std::tie(net, state) = optimizer.update(net, clip_by_global_norm(gradient, 1.), state);
    losses.push_back(value);
    progress(step + 1, steps);
  }
  std::cout << "loss " << losses.front() << ", in the end " << losses.back() << "\n";
  std::cout << "\nShall I compare " << recite(net, text, text.ids(slice(16)), 300, Key(1)) << "\n";

  const Tensor figures = read_csv(STAVE_EXAMPLE_DATA "/20_character_transformer.csv", {.skip_lines = 1, .columns = 3});
  const auto [by_jax, by_torch, by_torch_and_norm] = unstack<3>(figures, 1);
  check(allclose(stack(losses), by_jax, 1e-10, 0), "the loss is JAX's in each of 240 steps");
  check(allclose(stack(losses), by_torch_and_norm, 1e-10, 0),
        "and PyTorch's, if its gradients are clipped by their norm");
  check(allclose(stack(losses), by_torch, 5e-6, 0), "and as near as can be if they are clipped by their norm and 1e-6");
}

int main() {
  with(DefaultDtype(float64), [] { with(PrintProgress(), train); });
}
