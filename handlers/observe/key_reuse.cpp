#include <stave/handlers/observe/key_reuse.h>

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <stave/core/effects/scope.h>
#include <stave/core/op/notation.h>
#include <stave/core/op/rematerialization_barrier.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>
#include <stave/core/tensor/read_storage.h>
#include <stave/handlers/observe/source_lines.h>

namespace stave {

using namespace stave_detail;

/// One operation that used keys, and its place in the program.
struct KeyReuseCheck::Use {
  const Op* op;
  AttributesPtr attributes;
  std::string text;  // name, attributes and operands
  std::vector<NamePtr> scopes;
  CallStack stack;
  bool is_rerun;  // in a backward pass, or in a function that runs again

  /// Returns true if this use draws the numbers of `first` again on purpose.
  bool repeats(const Use& first) const {
    return is_rerun && op == first.op && same_attributes(attributes.get(), first.attributes.get());
  }
  std::string str() const {
    std::string words = text;
    for (const NamePtr& scope : scopes) words += "  [" + scope->text + "]";
    SourceLines lines;
    const SourceFrame frame = lines.innermost(stack);
    return frame.file.empty() ? words : words + " at " + frame.str();
  }
};

namespace {

bool uses_keys(const Op& op) {
  return op.id == OpId::fold_in || op.id == OpId::random_bits || op.id == OpId::random_uniform ||
         op.id == OpId::random_permutation || is_sampler(op.id);
}

// Returns true if the key is that of several lanes of vmap, in a run of the function for lanes that
// take another path. Such a run begins with operations that were performed before.
bool is_repeated_for_lanes(const Tensor& key) {
  if (key.node().storage) return false;
  const Path path = perform(WhichPath{});
  return std::any_of(path.begin(), path.end(), [](const PathStep& step) { return step.number > 0; });
}

// The keys that an operation uses, in their order and with repetitions.
struct UsedKeys {
  std::vector<std::uint32_t> words, data;
  bool folds;  // the operation is fold_in, with a number for each key

  explicit UsedKeys(const Call& call)
      : words(read_elements<std::uint32_t>(observed(call.input(0)))), folds(call.op().id == OpId::fold_in) {
    if (folds) data = read_elements<std::uint32_t>(observed(call.input(1)));
  }
  // Inside vmap the keys or the numbers may be the same in all lanes, and have fewer elements.
  std::size_t count() const {
    return words.empty() || (folds && data.empty()) ? 0 : std::max(words.size() / 2, data.size());
  }
  std::uint64_t key(std::size_t i) const {
    const std::size_t at = 2 * i % words.size();
    return std::uint64_t{words[at]} << 32 | words[at + 1];
  }
  const std::uint32_t* number(std::size_t i) const { return folds ? &data[i % data.size()] : nullptr; }
};

}  // namespace

// Returns the earlier use with which a use of the key conflicts; null if there is none.
KeyReuseCheck::UsePtr KeyReuseCheck::conflict(std::uint64_t key, const std::uint32_t* number, const Use& use) const {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return nullptr;
  const Uses& uses = found->second;
  UsePtr earlier = uses.sampled;
  if (!number && !earlier) earlier = uses.folded;
  if (number && !earlier)
    if (const auto same = uses.by_number.find(*number); same != uses.by_number.end()) earlier = same->second;
  return earlier && use.repeats(*earlier) ? nullptr : earlier;
}

void KeyReuseCheck::fail_reused(std::uint64_t key, const std::uint32_t* number, const Use& first, const Use& second) {
  fail<KeyReuseError>(
      "{}: the key [{} {}]{} is used a second time, and gives numbers that depend on those of the first use. First "
      "use: "
      "{}. Second use: {}. Split the key, and use each new key once",
      second.op->name, key >> 32, key & 0xffffffff, number ? fmt::format(" with the number {}", *number) : "",
      first.str(), second.str());
}

Outputs KeyReuseCheck::handle(Call& call) {
  if (!uses_keys(call.op()) || is_repeated_for_lanes(call.input(0))) return perform(std::move(call));
  const UsedKeys used(call);
  const auto use =
      std::make_shared<const Use>(Use{&call.op(), call.attributes_ptr(), notation(call), place_of_performer().scopes,
                                      call_stack(), in_backward_pass() || current_rematerialization_barrier() != 0});
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::set<std::pair<std::uint64_t, std::uint32_t>> within;  // the keys of this operation
    for (std::size_t i = 0; i < used.count(); ++i) {
      const std::uint64_t key = used.key(i);
      const std::uint32_t* const number = used.number(i);
      if (const UsePtr earlier = conflict(key, number, *use)) fail_reused(key, number, *earlier, *use);
      if (!within.emplace(key, number ? *number : 0).second) fail_reused(key, number, *use, *use);
    }
  }
  Outputs outputs = perform(std::move(call));
  // An operation that throws has used no key.
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::size_t i = 0; i < used.count(); ++i) {
    Uses& uses = keys_[used.key(i)];
    (used.folds ? uses.folded : uses.sampled) = use;
    if (used.folds) uses.by_number[*used.number(i)] = use;
  }
  return outputs;
}

}  // namespace stave
