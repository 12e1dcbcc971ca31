// Sequences of tensors, and optional values.
#include <algorithm>

#include <stave/core/ops/create.h>
#include <stave/core/ops/layout.h>
#include <stave/handlers/onnx/operators.h>

namespace stave_detail {

namespace {

// A position in a sequence of n entries, or for `insert` between them.
std::size_t place_in(const NodeCall& n, std::size_t input, std::size_t entries, bool insert) {
  const auto count = static_cast<Index>(entries);
  const Index given = n.integer(input), place = given < 0 ? given + count : given;
  if (place < 0 || place > count || (place == count && !insert))
    fail<IndexError>("the position {} is out of range for a sequence of {}", given, entries);
  return static_cast<std::size_t>(place);
}

OnnxValues one_sequence(std::vector<Tensor> entries) { return {OnnxValue(std::move(entries))}; }

OnnxValues sequence_insert(const NodeCall& n) {
  std::vector<Tensor> entries = n.sequence(0);
  const std::size_t place = n.has(2) ? place_in(n, 2, entries.size(), true) : entries.size();
  entries.insert(entries.begin() + static_cast<std::ptrdiff_t>(place), n(1));
  return one_sequence(std::move(entries));
}

OnnxValues sequence_erase(const NodeCall& n) {
  std::vector<Tensor> entries = n.sequence(0);
  if (entries.empty()) fail<IndexError>("the sequence is empty");
  const std::size_t place = n.has(1) ? place_in(n, 1, entries.size(), false) : entries.size() - 1;
  entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(place));
  return one_sequence(std::move(entries));
}

OnnxValues split_to_sequence(const NodeCall& n) {
  const Tensor& x = n(0);
  const Index axis = normalize_axis(n.integer("axis", 0), x.rank(), "axis"), length = x.shape(axis);
  const bool keep = n.has(1) || n.integer("keepdims", 1) != 0;
  std::vector<Index> lengths;
  if (n.has(1) && n(1).rank() > 0) lengths = n.integers(1);
  else {
    const Index part = n.has(1) ? n.integer(1) : 1;
    if (part < 1) fail<ShapeError>("parts must have a positive length, not {}", part);
    for (Index begin = 0; begin < length; begin += part) lengths.push_back(std::min(part, length - begin));
  }
  std::vector<Tensor> entries = parts_along(x, axis, lengths);
  if (!keep)
    for (Tensor& entry : entries) entry = squeeze(entry, axis);
  return one_sequence(std::move(entries));
}

Tensor concat_from_sequence(const NodeCall& n) {
  const std::vector<Tensor>& entries = n.sequence(0);
  const Index axis = n.integer("axis");
  return n.integer("new_axis", 0) != 0 ? stack(entries, axis) : concat(entries, axis);
}

// Runs the body for each entry of the first sequence, and of the others beside it.
OnnxValues sequence_map(const NodeCall& n) {
  const std::size_t entries = n.sequence(0).size(), outputs = n.graph("body").outputs.size();
  std::vector<std::vector<Tensor>> found(outputs);
  for (std::size_t i = 0; i < entries; ++i) {
    OnnxValues inputs;
    for (std::size_t k = 0; k < n.size(); ++k) {
      if (n.value(k).sequence && n.sequence(k).size() != entries)
        fail<ShapeError>("sequences of {} and {} entries are mapped", entries, n.sequence(k).size());
      inputs.push_back(n.value(k).sequence ? OnnxValue(n.sequence(k)[i]) : n.value(k));
    }
    const OnnxValues results = n.run("body", std::move(inputs));
    for (std::size_t k = 0; k < outputs; ++k) found[k].push_back(results[k].tensor);
  }
  OnnxValues all;
  for (std::vector<Tensor>& sequence : found) all.emplace_back(std::move(sequence));
  return all;
}

OnnxValues optional_element(const NodeCall& n) {
  if (!n.has(0)) fail<ShapeError>("the optional has no value");
  return {n.value(0)};
}

constexpr auto never = OnnxOperator::Known::never;

constexpr OnnxOperator sequences_rows[] = {
    {"ConcatFromSequence", 11, concat_from_sequence},
    {"Optional", 15, [](const NodeCall& n) { return OnnxValues{n.size() > 0 ? n.value(0) : OnnxValue()}; }},
    {"OptionalGetElement", 15, optional_element},
    {"OptionalHasElement", 15, [](const NodeCall& n) { return tensor(n.has(std::size_t{0}), bool_); },
     OnnxOperator::Known::always},
    {"SequenceAt", 11, [](const NodeCall& n) { return n.sequence(0)[place_in(n, 1, n.sequence(0).size(), false)]; }},
    {"SequenceConstruct", 11, [](const NodeCall& n) { return one_sequence(n.tensors()); }},
    {"SequenceEmpty", 11, [](const NodeCall&) { return one_sequence({}); }},
    {"SequenceErase", 11, sequence_erase},
    {"SequenceInsert", 11, sequence_insert},
    {"SequenceLength", 11, [](const NodeCall& n) { return tensor(static_cast<Index>(n.sequence(0).size()), int64); },
     OnnxOperator::Known::always},
    {"SequenceMap", 17, sequence_map, never},
    {"SplitToSequence", 11, split_to_sequence},
};

}  // namespace

std::span<const OnnxOperator> onnx_sequences() { return sequences_rows; }

}  // namespace stave_detail
