// A published model: all-MiniLM-L6-v2, which maps sentences of similar meaning to vectors near each
// other. It is loaded from its own .safetensors and vocabulary, and compared with the results of
// Hugging Face's transformers (data/32_sentence_embeddings.py). The model is a plain function, so
// everything that works on functions works on it: lanes, per-example gradients, attention weights,
// products of low precision, the origin of a NaN.
//
// The model is not part of Stave. STAVE_MINILM names the folder with its model.safetensors and
// vocab.txt; data/fetch_minilm.sh downloads them.
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

// ---- the model, by the names that its parameters have in the file -------------------------------

using Bert = NamedTensors;

Tensor dense(const Bert& bert, const std::string& name, const Tensor& x) {
  return matmul(x, transpose(bert.at(name + ".weight"))) + bert.at(name + ".bias");
}
Tensor norm(const Bert& bert, const std::string& name, const Tensor& x) {
  return layer_norm(x, {.weight = bert.at(name + ".weight"), .bias = bert.at(name + ".bias"), .epsilon = 1e-12});
}

// Splits [tokens, features] into twelve heads: [heads, tokens, features of a head].
Tensor heads(const Tensor& x) { return permute_dims(reshape(x, {x.shape(0), 12, -1}), {1, 0, 2}); }

Tensor attention(const Bert& bert, const std::string& name, const Tensor& x, const Tensor& mask) {
  const auto of = [&](const char* what) { return heads(dense(bert, name + what, x)); };
  const Tensor q = of(".self.query"), k = of(".self.key"), v = of(".self.value");
  const Tensor scores = matmul(q, matrix_transpose(k)) / std::sqrt(static_cast<double>(q.shape(-1)));
  const Tensor weights = sow("weights", softmax(where(mask, scores, -1e9)));
  const Tensor mixed = reshape(permute_dims(matmul(weights, v), {1, 0, 2}), x.shape());
  return dense(bert, name + ".output.dense", mixed);
}

// Maps the tokens of one sentence to a vector of length 1. `mask` is false for padding.
Tensor embed(const Bert& bert, const Tensor& tokens, const Tensor& mask) {
  const auto table = [&](const char* what) {
    return bert.at("embeddings." + std::string(what) + "_embeddings.weight");
  };
  Tensor x = embedding(table("word"), tokens) + table("position")(slice(tokens.size())) + table("token_type")[0];
  x = norm(bert, "embeddings.LayerNorm", x);
  for (int i = 0; i < 6; ++i) {
    const Scope scope("layer" + std::to_string(i));
    const std::string layer = "encoder.layer." + std::to_string(i);
    x = norm(bert, layer + ".attention.output.LayerNorm", x + attention(bert, layer + ".attention", x, mask));
    const Tensor inner = gelu(dense(bert, layer + ".intermediate.dense", x));
    x = norm(bert, layer + ".output.LayerNorm", x + dense(bert, layer + ".output.dense", inner));
  }
  const Tensor total = sum(where(mask(slice(), newaxis), x, 0), 0);
  return total / vector_norm(total);
}

// ---- the tokens ---------------------------------------------------------------------------------

using Vocabulary = std::map<std::string, Index>;

// Splits the text into lower-case words and single punctuation marks. Only ASCII is supported,
// because other writing systems have rules of their own.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  bool goes_on = false;
  for (const unsigned char c : text) {
    check(c < 128, "the text is ASCII");
    const bool mark = std::ispunct(c), blank = std::isspace(c) || std::iscntrl(c);
    if (!blank && (mark || !goes_on)) words.emplace_back();
    if (!blank) words.back() += static_cast<char>(std::tolower(c));
    goes_on = !blank && !mark;
  }
  return words;
}

// WordPiece: takes the longest piece in the vocabulary, again and again.
std::vector<Index> pieces_of(const std::string& word, const Vocabulary& vocabulary) {
  const std::vector<Index> unknown{vocabulary.at("[UNK]")};
  std::vector<Index> pieces;
  if (word.size() > 100) return unknown;
  for (std::size_t begin = 0; begin < word.size();) {
    const std::string mark = begin ? "##" : "";
    std::size_t end = word.size();
    while (end > begin && !vocabulary.contains(mark + word.substr(begin, end - begin))) --end;
    if (end == begin) return unknown;
    pieces.push_back(vocabulary.at(mark + word.substr(begin, end - begin)));
    begin = end;
  }
  return pieces;
}

Tensor tokens_of(const std::string& text, const Vocabulary& vocabulary) {
  std::vector<Index> tokens{vocabulary.at("[CLS]")};
  for (const std::string& word : words_of(text))
    for (const Index piece : pieces_of(word, vocabulary)) tokens.push_back(piece);
  tokens.push_back(vocabulary.at("[SEP]"));
  return astype(from(tokens), int32);
}

// ---- a handler ----------------------------------------------------------------------------------

// Quantises each row to 255 levels, from minus its largest magnitude to that magnitude.
Tensor quantised(const Tensor& x) {
  const Tensor scale = maximum(max(abs(x), -1, keepdims), 1e-30) / 127.;
  return round(x / scale) * scale;
}
struct Quantised : Handler {
  Outputs handle(Call& call) override {
    if (call.op().id != OpId::matmul) return perform(std::move(call));
    const Tensor columns = matrix_transpose(quantised(matrix_transpose(call.input(1))));
    return perform(call.with_inputs({quantised(call.input(0)), columns}));
  }
};

int main() {
  const char* const folder = std::getenv("STAVE_MINILM");
  if (!folder) {
    std::cout << "skipped: STAVE_MINILM names no folder with the model; bash examples/data/fetch_minilm.sh brings it\n";
    return 77;
  }
  const Bert bert = load_safetensors<Bert>(std::string(folder) + "/model.safetensors");
  Vocabulary vocabulary;
  std::ifstream lines(std::string(folder) + "/vocab.txt");
  for (std::string line; std::getline(lines, line);) vocabulary.emplace(line, static_cast<Index>(vocabulary.size()));

  // Checks tokens and embeddings against the reference.
  const auto reference = load_safetensors<NamedTensors>(STAVE_EXAMPLE_DATA "/32_sentence_embeddings.safetensors");
  constexpr Index longest = 32;  // with padding
  std::vector<Tensor> tokens, masks, embeddings;
  for (Index i = 0; reference.contains(std::to_string(i) + "/text"); ++i) {
    const auto of = [&](const char* what) { return reference.at(std::to_string(i) + what); };
    const std::vector<std::uint8_t> text = of("/text").to_vector<std::uint8_t>();
    const Tensor ids = tokens_of(std::string(text.begin(), text.end()), vocabulary), all = ones({ids.size()}, bool_);
    check(array_equal(ids, of("/tokens")), "tokens are those of the reference");
    embeddings.push_back(embed(bert, ids, all));
    check(allclose(embeddings.back(), of("/embedding"), 0, 1e-5), "embeddings are those of the reference");
    tokens.push_back(concat({ids, zeros({longest - ids.size()}, int32)}));
    masks.push_back(arange(longest) < ids.size());
  }
  std::cout << tokens.size() << " sentences, tokens as the reference has them, embeddings within 1e-5\n";

  // All sentences at once, with padding.
  const Tensor ids = stack(tokens), mask = stack(masks), one_by_one = stack(embeddings);
  const auto embed_all = vmap(embed, {.in_axes = {unmapped, 0, 0}});
  const Tensor together = embed_all(bert, ids, mask);
  check(allclose(together, one_by_one, 0, 1e-5), "lanes are what each sentence is by itself");
  const Tensor alike = matmul(together, transpose(together));
  std::cout << "cat and kitten " << alike(0, 1) << ", cat and bank " << alike(0, 2) << "\n";
  check((alike(0, 1) > 0.5).item<bool>() && (alike(0, 2) < 0.1).item<bool>(), "what means the like is near");

  // The gradients of the last layer's parameters that would bring each sentence closer to the
  // first, one for each sentence.
  const std::string weight = "encoder.layer.5.output.dense.weight", bias = "encoder.layer.5.output.dense.bias";
  const auto nearness = [&](NamedTensors changed, const Tensor& sentence, const Tensor& present) {
    changed.insert(bert.begin(), bert.end());  // adds the parameters that do not change
    return sum(embed(changed, sentence, present) * one_by_one[0]);
  };
  const NamedTensors last{{weight, bert.at(weight)}, {bias, bert.at(bias)}};
  const NamedTensors slopes = vmap(grad(nearness), {.in_axes = {unmapped, 0, 0}})(last, ids, mask);
  const NamedTensors slope = grad(nearness)(last, ids[1], mask[1]);
  std::cout << "gradients " << slopes.at(weight).shape() << "\n";
  check(allclose(slopes.at(weight)[1], slope.at(weight), 1e-4, 1e-7), "a lane's gradient is the sentence's own");

  // The attention weights of each layer's heads.
  const auto [again, sown] = harvest(embed)(bert, tokens[0](slice(10)), ones({10}, bool_));
  const Tensor weights = sown.at("layer5/weights");
  std::cout << sown.size() << " layers attend, the last by " << weights.shape() << "\n";
  check(allclose(sum(weights, -1), ones({12, 10})), "weights of attention are shares");

  // With matrix products of eight bits.
  Quantised handler;
  const Tensor rough = with(handler, [&] { return embed_all(bert, ids, mask); });
  const Tensor cosines = sum(rough * together, -1);
  check(all(cosines > 0.99).item<bool>() && !array_equal(rough, together), "eight bits are enough, and are seen");
  std::cout << "cosines to embeddings by products of eight bits are above 0.99\n";

  // The operation in which a broken weight first makes a NaN.
  Bert broken = bert;
  Tensor& shift = broken.at("encoder.layer.3.intermediate.dense.bias");
  shift = shift.at(7).set(std::numeric_limits<float>::infinity());
  try {
    debug(embed, {.trap_nan = true, .print = false})(broken, tokens[0], masks[0]);
    check(false, "a NaN is found");
  } catch (const TransformError& error) {
    std::cout << error.what() << "\n";
    check(std::string(error.what()).find("layer3") != std::string::npos, "it is found in its layer");
  }
}
