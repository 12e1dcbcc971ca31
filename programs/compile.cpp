// The recordings of a compiled function: for each signature a tree of ways, which part where the function reads a value.
#include <stave/programs/compile.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string_view>

#include <stave/core/default_dtype.h>
#include <stave/core/fail.h>
#include <stave/core/label.h>
#include <stave/core/note.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/print.h>
#include <stave/core/storage.h>
#include <stave/programs/derive.h>
#include <stave/programs/passes/passes.h>
#include <stave/programs/record.h>
#include <stave/programs/whole.h>

namespace stave_detail {

namespace {

constexpr std::size_t most_signatures = 64, most_values_met = 16, most_bytes_read = 256, most_ways = 1024;
constexpr int most_failures = 8;

bool explains() {
  static const char* const asked = std::getenv("STAVE_EXPLAIN");
  return asked && *asked && std::strcmp(asked, "0") != 0;
}

void explain(const std::string& what) {
  if (explains()) std::fprintf(stderr, "stave: compile: %s\n", what.c_str());
}

// The elements of a value, as they are in memory.
std::string bytes_of(const Tensor& x) {
  const Tensor values = observed(x);
  UnderFrame past_all_handlers(nullptr);
  const Tensor dense = contiguous(values);
  std::string bytes(static_cast<std::size_t>(dense.size()) * size_of(dense.dtype()), '\0');
  read_storage(dense.node().memory(), bytes.data(), dense.node().data(), bytes.size());
  return bytes;
}

}  // namespace

// ---- ways --------------------------------------------------------------------------------------------------

namespace {

using Variables = std::set<int>;

/// What a function performs from one read to the next, or to its end.
struct Way {
  Way* from = nullptr;
  int first = 0;  // variables from here on are this way's
  std::vector<Program::Variable> variables;
  std::vector<Program::Constant> constants;
  std::vector<Program::Instruction> steps;

  int read = -1;  // the variable that is read at its end; -1: the function returns
  std::vector<std::pair<std::string, std::unique_ptr<Way>>> next;  // by the bytes of its value
  std::vector<int> outputs;
  std::shared_ptr<const void> structure;

  Variables kept;   // of its own, what is read after it
  Variables needs;  // of those before, what it or a later way reads
  bool ready = false;
  Program program;
  std::unique_ptr<Executable> executable;  // null: the program is performed
  WholeProgramPtr whole;                   // of a call that is followed; else null
  std::vector<int> given, made;            // variables of the program's inputs and outputs
  std::vector<int> over;                   // variables that no later way reads

  const Program::Variable& variable(int number) const {
    const Way* way = this;
    while (number < way->first) way = way->from;
    return way->variables[static_cast<std::size_t>(number - way->first)];
  }
  int end() const { return first + static_cast<int>(variables.size()); }
  Way* find(std::string_view bytes) const {
    for (const auto& [met, way] : next)
      if (met == bytes) return way.get();
    return nullptr;
  }
  // For the value that is read now; null: it was not met.
  const Way* after(const Tensor& value) const {
    const Node& node = value.node();
    if (node.memory() != cpu || !node.contiguous()) return find(bytes_of(value));
    return find({static_cast<const char*>(node.data()), static_cast<std::size_t>(value.size()) * size_of(node.dtype)});
  }
};

/// A path through a function, cut at its reads.
std::unique_ptr<Way> cut(const Program& program, const std::shared_ptr<const void>& structure) {
  auto begin = std::make_unique<Way>();
  Way* way = begin.get();
  std::size_t variable = 0, constant = 0;
  const auto take_variables = [&](std::size_t end) {
    for (; variable < end; ++variable) way->variables.push_back(program.variables[variable]);
    for (; constant < program.constants.size() && program.constants[constant].variable < static_cast<int>(end);
         ++constant)
      way->constants.push_back(program.constants[constant]);
  };
  std::size_t defined = program.inputs.size();
  for (const Program::Instruction& step : program.instructions) {
    for (const int used : step.inputs) defined = std::max(defined, static_cast<std::size_t>(used) + 1);
    for (const int made : step.outputs) defined = std::max(defined, static_cast<std::size_t>(made) + 1);
    if (!step.is_read()) {
      way->steps.push_back(step);
      continue;
    }
    take_variables(defined);
    way->read = step.inputs[0];
    auto next = std::make_unique<Way>();
    next->from = way;
    next->first = static_cast<int>(variable);
    Way* const after = next.get();
    way->next.emplace_back(bytes_of(step.met), std::move(next));
    way = after;
  }
  take_variables(program.variables.size());
  way->outputs = program.outputs;
  way->structure = structure;
  return begin;
}

/// What the way and those after it read of what was there before.
void find_needs(Way& way) {
  Variables read(way.outputs.begin(), way.outputs.end());
  if (way.read >= 0) read.insert(way.read);
  for (const auto& step : way.steps) read.insert(step.inputs.begin(), step.inputs.end());
  Variables later;
  for (const auto& [bytes, next] : way.next) later.insert(next->needs.begin(), next->needs.end());
  read.insert(later.begin(), later.end());
  Variables kept(way.outputs.begin(), way.outputs.end());
  if (way.read >= 0) kept.insert(way.read);
  kept.insert(later.begin(), later.end());
  std::erase_if(kept, [&](int variable) { return variable < way.first; });
  std::erase_if(read, [&](int variable) { return variable >= way.first || variable < 0; });
  if (kept != way.kept || read != way.needs) way.ready = false;
  way.kept = std::move(kept);
  way.needs = std::move(read);
  way.over.clear();
  for (const Variables* here : {&way.needs, &way.kept})
    for (const int variable : *here)
      if (!later.contains(variable)) way.over.push_back(variable);
}

/// For all ways; gives them, the last first.
std::vector<Way*> find_needs_below(Way& begin) {
  std::vector<Way*> ways{&begin};
  for (std::size_t i = 0; i < ways.size(); ++i)
    for (const auto& [bytes, next] : ways[i]->next) ways.push_back(next.get());
  std::reverse(ways.begin(), ways.end());
  for (Way* way : ways) find_needs(*way);
  return ways;
}

}  // namespace

// ---- entries -----------------------------------------------------------------------------------------------

struct Recordings::Signature {
  struct Leaf {
    Dtype dtype;
    Device device;
    Shape shape;
    Strides strides;
    bool defined;
  };
  std::vector<Leaf> leaves;
  Dtype floats = float32;
  bool followed = false;  // by transforms, which take what is recorded whole

  Signature(std::span<const Tensor> tensors, bool are_followed) : floats(default_dtype()), followed(are_followed) {
    for (const Tensor& x : tensors) {
      if (x.defined()) leaves.push_back({x.dtype(), x.device(), x.shape(), x.strides(), true});
      else leaves.push_back({});
    }
  }
  bool matches(std::span<const Tensor> tensors, bool are_followed) const {
    if (tensors.size() != leaves.size() || are_followed != followed) return false;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const Leaf& leaf = leaves[i];
      if (tensors[i].defined() != leaf.defined) return false;
      if (!leaf.defined) continue;
      const Node& node = tensors[i].node();
      if (node.dtype != leaf.dtype || node.device != leaf.device || node.shape != leaf.shape ||
          node.strides != leaf.strides)
        return false;
    }
    return floats == default_dtype();
  }
};

struct Recordings::Entry {
  Signature signature;
  std::unique_ptr<StaticArguments> arguments;
  mutable std::shared_mutex mutex;  // of the tree: who replays shares it
  std::unique_ptr<Way> begin;
  std::size_t ways = 0;
  int most_variables = 0;
  std::atomic<bool> demoted{false};
  std::atomic<int> failures{0};

  Entry(std::span<const Tensor> leaves, bool followed, std::unique_ptr<StaticArguments> statics)
      : signature(leaves, followed), arguments(std::move(statics)) {}

  void demote(const std::string& why) {
    if (!demoted.exchange(true)) explain("the function itself is called from now on: " + why);
  }
  void failed(const std::string& why) {
    explain("not kept: " + why);
    if (failures.fetch_add(1) + 1 >= most_failures) demote(why);
  }
  void prepare(Way& way);
  void add(Recording recording, const std::shared_ptr<const void>& structure);
  bool merge(Way& to, Way& from);
};

// A way's steps as a program of their own.
void Recordings::Entry::prepare(Way& way) {
  Program program;
  std::map<int, int> numbers;
  const auto number = [&](int variable) {
    const auto [found, is_new] = numbers.try_emplace(variable, -1);
    if (is_new) {
      const Program::Variable& it = way.variable(variable);
      found->second = program.add_variable(it.shape, it.dtype, it.device, it.label);
    }
    return found->second;
  };
  way.given.clear();
  way.made.clear();
  const auto give = [&](int variable) {
    way.given.push_back(variable);
    program.inputs.push_back(number(variable));
  };
  const auto arguments = static_cast<int>(signature.leaves.size());
  const auto is_before = [&](int variable) { return way.from ? variable < way.first : variable < arguments; };
  Variables read;
  for (const auto& step : way.steps) read.insert(step.inputs.begin(), step.inputs.end());
  for (const int variable : read)
    if (is_before(variable)) give(variable);
  for (const auto& [variable, value] : way.constants) program.constants.push_back({number(variable), value});
  for (Program::Instruction step : way.steps) {
    for (int& input : step.inputs) input = number(input);
    for (int& output : step.outputs) output = number(output);
    program.instructions.push_back(std::move(step));
  }
  for (const int variable : way.kept)
    if (!is_before(variable)) {
      way.made.push_back(variable);
      program.outputs.push_back(number(variable));
    }
  way.ready = true;
  if (signature.followed) {
    way.whole = std::make_shared<const WholeProgram>(std::move(program));
    return;
  }
  std::vector<std::string> why_apart;
  program = optimized(std::move(program), explains() ? &why_apart : nullptr);
  for (const std::string& why : why_apart) explain("not fused: " + why);
  std::vector<Strides> strides;
  for (const int variable : way.given) {
    const auto v = static_cast<std::size_t>(variable);
    if (v < signature.leaves.size()) strides.push_back(signature.leaves[v].strides);
    else strides.push_back(contiguous_strides(way.variable(variable).shape));
  }
  way.executable = Executable::admits(program) ? std::make_unique<Executable>(program, strides) : nullptr;
  way.program = std::move(program);
}

// `from`, which begins as `to` does, becomes part of it. False: it does not.
bool Recordings::Entry::merge(Way& to, Way& from) {
  Way *a = &to, *b = &from;
  while (true) {
    const bool same = a->first == b->first && a->read == b->read &&
                      same_parts({a->variables, a->constants, a->steps}, {b->variables, b->constants, b->steps});
    if (!same) return false;
    if (a->read < 0) return a->outputs == b->outputs;
    auto& [bytes, after] = b->next.front();
    Way* const known = a->find(bytes);
    if (!known) {
      if (a->next.size() >= most_values_met) {
        demote(fmt::format("it met more than {} values at one read", most_values_met));
        return true;
      }
      after->from = a;
      a->next.emplace_back(std::move(bytes), std::move(after));
      ++ways;
      return true;
    }
    a = known;
    b = after.get();
  }
}

void Recordings::Entry::add(Recording recording, const std::shared_ptr<const void>& structure) {
  if (recording.asked) return demote("it performs effects that something outside answers");
  if (recording.too_long) return demote("it performs more than a million operations");
  if (recording.caught) return failed("an operation threw, and the function went on");
  if (recording.follows) return failed("it captures a value that a transform outside follows");
  for (const auto& step : recording.program.instructions)
    if (step.is_read() && static_cast<std::size_t>(step.met.size()) * size_of(step.met.dtype()) > most_bytes_read)
      return demote(fmt::format("it reads more than {} bytes at once ({} {})", most_bytes_read, step.met.dtype(),
                                step.met.shape()));
  if (signature.followed && calls_read(recording.program))
    return demote("a function that it calls with rules of its own reads a value");
  std::unique_ptr<Way> path = cut(recording.program, structure);
  const std::unique_lock lock(mutex);
  if (!begin) {
    begin = std::move(path);
    ways = 1;
  } else if (!merge(*begin, *path)) {
    return failed("the function did something else than at its first call, with the same values");
  } else {
    explain(fmt::format("recorded way {}, for a value that was not met before", ways));
  }
  if (ways > most_ways) demote(fmt::format("it has more than {} ways", most_ways));
  for (Way* way : find_needs_below(*begin)) {
    most_variables = std::max(most_variables, way->end());
    if (!way->ready) prepare(*way);
  }
}

// ---- recordings --------------------------------------------------------------------------------------------

struct Recordings::State {
  mutable std::mutex mutex;
  std::list<EntryPtr> entries;  // the last used first
};

Recordings::Recordings() : state_(std::make_unique<State>()) {}
Recordings::~Recordings() = default;

Recordings::EntryPtr Recordings::find(std::span<const Tensor> leaves, Same same,
                                      FunctionRef<std::unique_ptr<StaticArguments>()> arguments) {
  const bool handled = current && current->nearest;
  const bool followed = std::any_of(leaves.begin(), leaves.end(),
                                    [](const Tensor& x) { return x.defined() && stave_detail::is_followed(x); });
  if (handled != followed || (handled && !takes_programs())) return nullptr;
  const std::lock_guard lock(state_->mutex);
  std::list<EntryPtr>& entries = state_->entries;
  for (auto at = entries.begin(); at != entries.end(); ++at) {
    if (!(*at)->signature.matches(leaves, followed) || !same(*(*at)->arguments)) continue;
    if (at != entries.begin()) entries.splice(entries.begin(), entries, at);
    return entries.front()->demoted.load(std::memory_order_relaxed) ? nullptr : entries.front();
  }
  entries.push_front(std::make_shared<Entry>(leaves, followed, arguments()));
  if (entries.size() > most_signatures) entries.pop_back();
  return entries.front();
}

bool Recordings::is_followed(const Entry& entry) { return entry.signature.followed; }

std::size_t Recordings::count() const {
  const std::lock_guard lock(state_->mutex);
  std::size_t ways = 0;
  for (const EntryPtr& entry : state_->entries) {
    const std::shared_lock lock_entry(entry->mutex);
    ways += entry->ways;
  }
  return ways;
}

Outputs Recordings::record(const EntryPtr& entry, FlatFunction f, std::span<const Tensor> leaves,
                           FunctionRef<std::shared_ptr<const void>()> structure) {
  const CarriedCalls calls = entry->signature.followed ? CarriedCalls::kept : CarriedCalls::inlined;
  Recording recording = stave_detail::record("compile", f, leaves, calls);
  Outputs outputs = recording.outputs;
  entry->add(std::move(recording), structure());
  return outputs;
}

void Recordings::record_example(const EntryPtr& entry, std::span<const Tensor> leaves,
                                FunctionRef<void(std::span<const Tensor>)> record) {
  try {
    std::vector<Tensor> examples;
    for (const Tensor& x : leaves) examples.push_back(x.defined() ? example_of(x) : x);
    record(examples);
  } catch (const std::exception& error) {
    entry->failed(error.what());
  }
}

namespace {

Outputs run(const Way& way, const std::vector<Tensor>& values) {
  std::vector<Tensor> given;
  for (const int variable : way.given) given.push_back(values[static_cast<std::size_t>(variable)]);
  if (way.whole) return (*way.whole)(given);
  return way.executable ? (*way.executable)(given) : way.program(given);
}

}  // namespace

std::optional<Recordings::Answer> Recordings::replay(const EntryPtr& entry, std::span<const Tensor> leaves) {
  const std::shared_lock lock(entry->mutex);
  const Way* way = entry->begin.get();
  if (!way) return std::nullopt;
  std::vector<Tensor> values;
  values.reserve(static_cast<std::size_t>(entry->most_variables));
  values.assign(leaves.begin(), leaves.end());
  const auto value = [&](int variable) -> Tensor& { return values[static_cast<std::size_t>(variable)]; };
  try {
    while (true) {
      Outputs made = run(*way, values);
      values.resize(static_cast<std::size_t>(way->end()));
      for (std::size_t i = 0; i < made.size(); ++i) value(way->made[i]) = std::move(made[i]);
      if (way->read < 0) break;
      if (!value(way->read).node().storage) return std::nullopt;  // lanes, which may differ
      const Way* const next = way->after(value(way->read));
      if (!next) return std::nullopt;
      for (const int variable : way->over) value(variable) = Tensor();
      for (const int variable : way->made)  // as the plans of later ways have it
        if (Tensor& x = value(variable); x.defined() && !way->whole && !x.is_contiguous()) x = contiguous(x);
      way = next;
    }
  } catch (const std::exception& error) {
    if (entry->signature.followed) entry->failed(error.what());
    return std::nullopt;  // f itself meets it, where it may catch it
  }
  Answer answer{{}, way->structure};
  for (const int output : way->outputs) {
    answer.outputs.push_back(output < 0 ? Tensor() : value(output));
    if (output >= static_cast<int>(leaves.size()))  // an argument has its own label
      answer.outputs.back() = relabel(std::move(answer.outputs.back()), way->variable(output).label);
  }
  return answer;
}

void check_replay(const Outputs& replayed, const Outputs& performed) {
  bool same = replayed.size() == performed.size();
  for (std::size_t i = 0; same && i < replayed.size(); ++i)
    same = replayed[i].defined() == performed[i].defined() &&
           (!replayed[i].defined() || same_bits(replayed[i], performed[i]));
  if (!same)
    fail<TransformError>(
        "compile: the replay gives another result than the function itself: what it computes depends on more than its "
        "arguments "
        "(a captured variable that changed, a counter, a clock)");
}

}  // namespace stave_detail
