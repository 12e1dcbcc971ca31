// The recordings of a compiled function: a trace tree for each signature (trace_tree.h).
#include <stave/handlers/compile/compile.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <set>
#include <shared_mutex>

#include <stave/core/effects/controller.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/named_axis.h>
#include <stave/core/program/native.h>
#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/label.h>
#include <stave/core/tensor/read_storage.h>
#include <stave/handlers/compile/derive.h>
#include <stave/handlers/compile/trace_tree.h>
#include <stave/handlers/transforms/answered.h>

namespace stave_detail {

namespace {

constexpr std::size_t most_signatures = 64, most_values_observed = 16, most_paths = 1024;
constexpr std::size_t most_bytes_read = std::size_t{16} << 20;
constexpr std::size_t most_unused = 48, few_paths = 3;
// recorded_at_once is the number of values of one array read that are recorded when they are first
// observed. A further value is recorded when it occurs for the second time.
constexpr std::size_t recorded_at_once = 4, most_remembered = 4096;
constexpr int most_failures = 8, most_misses = 16, misses_after_rest = 4, first_rest = 16, longest_rest = 1 << 12;

bool explains() {
  static const char* const asked = std::getenv("STAVE_EXPLAIN");
  return asked && *asked && std::strcmp(asked, "0") != 0;
}

void explain(const char* name, const std::string& what) {
  if (explains()) std::fprintf(stderr, "stave: %s: %s\n", name, what.c_str());
}

// Returns "compile(ik)", which is never freed, because notes and programs point to it.
const char* lasting_name(const std::string& name) {
  if (name.empty()) return "compile";
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& names = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return names.insert("compile(" + name + ")").first->c_str();
}

}  // namespace

// ---- entries ------------------------------------------------------------------------------------

struct Recordings::Signature {
  std::vector<Layout> leaves;
  Dtype floats = float32;
  bool followed = false;  // true if transforms trace the arguments, and receive closed calls
  int orders = 0;         // the order of the derivatives that these transforms take

  Signature(std::span<const Tensor> tensors, bool are_followed, int derivatives)
      : floats(default_dtype()), followed(are_followed), orders(derivatives) {
    for (const Tensor& x : tensors) leaves.emplace_back(x);
  }
  bool matches(std::span<const Tensor> tensors, bool are_followed) const {
    if (tensors.size() != leaves.size() || are_followed != followed) return false;
    for (std::size_t i = 0; i < leaves.size(); ++i)
      if (!leaves[i].describes(tensors[i])) return false;
    return floats == default_dtype();
  }
};

struct Recordings::Entry {
  const ClosedCallSettings settings;
  Signature signature;
  std::unique_ptr<StaticArguments> arguments;
  mutable std::shared_mutex mutex;  // protects the tree; replays hold it shared
  std::unique_ptr<TraceNode> begin;
  std::uint64_t version = 0;  // counts the changes of the tree
  std::size_t nodes = 0;
  int most_variables = 0;
  std::mutex resting;
  // The types of the effects, on all paths, that no handler answered.
  std::set<const EffectType*> unanswered;
  std::atomic<bool> any_unanswered{false};
  std::atomic<bool> demoted{false};
  std::atomic<int> failures{0};
  // `unused` counts the guards, and `unused_nodes` the paths, that were recorded since a replay
  // last reached its end.
  std::atomic<std::size_t> unused{0}, unused_nodes{0};
  // The number of calls, since a replay last reached its end, that observed an unrecorded value and
  // did not record it.
  std::atomic<int> misses{0};
  // True if the recordings serve all orders of derivatives, because f calls no function with a
  // derivative rule that is not recorded yet.
  std::atomic<bool> serves_all_orders{false};
  std::atomic<int> rest{0};  // the number of the next calls that run f itself
  int next_rest = first_rest;

  Entry(const ClosedCallSettings& with, Signature of, std::unique_ptr<StaticArguments> statics)
      : settings(with), signature(std::move(of)), arguments(std::move(statics)) {}

  bool serves(int orders) const {
    return orders <= signature.orders || serves_all_orders.load(std::memory_order_relaxed) ||
           demoted.load(std::memory_order_relaxed);
  }
  void demote(const std::string& why) {
    if (!demoted.exchange(true)) explain(settings.name, "the function itself is called from now on: " + why);
  }
  void failed(const std::string& why) {
    explain(settings.name, "not kept: " + why);
    if (failures.fetch_add(1) + 1 >= most_failures) demote(why);
  }
  bool may_keep(const Recording& recording);
  bool has_newly_answered_effect() const;
  bool missed(bool is_new);
  void reset_misses() {
    // Usually both are 0. Then nothing is written, so threads do not contend for the cache line.
    if (unused_nodes == 0 && misses == 0) return;
    unused = unused_nodes = 0;
    misses = 0;
    const std::lock_guard lock(resting);
    next_rest = first_rest;
  }
  bool rests() { return rest.load(std::memory_order_relaxed) > 0 && rest.fetch_sub(1) > 0; }
  void add(Recording recording, const std::shared_ptr<const void>& structure);
  void merge(std::unique_ptr<TraceNode> path);
  /// Applies shorten or prepare to a node.
  void make(void (&step)(TraceNode&, const PieceOptions&), TraceNode& node) const;
};

void Recordings::Entry::make(void (&step)(TraceNode&, const PieceOptions&), TraceNode& node) const {
  std::vector<std::string> fusion_report, native_report;
  const auto strides_of = [&](int variable) {
    const auto v = static_cast<std::size_t>(variable);
    if (v < signature.leaves.size()) return signature.leaves[v].strides;
    const TraceNode& brought = node.of(variable);
    if (node.is_answer(variable)) return brought.strides[static_cast<std::size_t>(variable - brought.first)];
    return contiguous_strides(node.variable(variable).shape);
  };
  step(node, {signature.leaves.size(), signature.followed, settings, strides_of, explains() ? &fusion_report : nullptr,
              explains() ? &native_report : nullptr});
  for (const std::string& why : fusion_report) explain(settings.name, "not fused: " + why);
  for (const std::string& why : native_report) explain(settings.name, why);
}

bool Recordings::Entry::may_keep(const Recording& recording) {
  const auto demoted_by = [&](const std::string& why) { return demote(why), false; };
  const auto failed_by = [&](const std::string& why) { return failed(why), false; };
  if (recording.too_long) return demoted_by("it performs more than a million operations");
  if (recording.read_error_text) return failed_by("it asked for the text of an error that it caught");
  if (recording.caught) return failed_by("the function caught an error and continued");
  if (recording.captures_traced) return failed_by("it captures a value that a transform outside traces");
  for (const auto& step : recording.program.instructions)
    if (step.is_read() &&
        static_cast<std::size_t>(step.read_value.size()) * size_of(step.read_value.dtype()) > most_bytes_read)
      return demoted_by(fmt::format("it reads more than {} MiB in one operation ({} {})", most_bytes_read >> 20,
                                    step.read_value.dtype(), step.read_value.shape()));
  if (signature.followed && calls_read(recording.program))
    return demoted_by("it calls a function with derivative rules of its own that reads a value");
  return true;
}

// Returns true if a path that the tree lacks should be recorded. It should not if many paths were
// recorded since a replay last reached its end. Nor should it if `is_new`: the observed value may
// never occur again, or its guard has as many values as permitted. If this happens in call after
// call, the next calls run f itself: `first_rest` calls at first, and twice as many each further
// time, until a replay reaches its end.
bool Recordings::Entry::missed(bool is_new) {
  if (!is_new && (unused < most_unused || unused_nodes < few_paths)) return true;
  if (++misses < most_misses) return false;
  const std::lock_guard lock(resting);
  if (misses < most_misses) return false;  // another thread has set `rest` meanwhile
  explain(
      settings.name,
      fmt::format(
          "the function itself runs in the next {} calls: several calls in a row found values that were not recorded",
          next_rest));
  misses = most_misses - misses_after_rest;
  rest = std::exchange(next_rest, std::min(2 * next_rest, longest_rest));
  return false;
}

// Returns true if an effect that was not performed when f was recorded, because no handler answered
// it, would be answered now.
bool Recordings::Entry::has_newly_answered_effect() const {
  if (!any_unanswered) return false;
  const std::shared_lock lock(mutex);
  return std::any_of(unanswered.begin(), unanswered.end(),
                     [](const EffectType* type) { return may_be_answered(*type); });
}

void Recordings::Entry::merge(std::unique_ptr<TraceNode> path) {
  if (!begin) {
    begin = std::move(path);
    nodes = 1;
    return;
  }
  std::string difference;
  switch (stave_detail::merge(*begin, *path, most_values_observed, difference)) {
    case Merged::known: break;  // another thread added the path
    case Merged::added:
      explain(settings.name, fmt::format("recorded path {}, for a value that was not recorded before", ++nodes));
      break;
    case Merged::differs:
      failed("the function behaved differently than in its first call, with the same values: " + difference);
      break;
    case Merged::full:
      failed(fmt::format("it found more than {} different values at one read, or answers to one effect",
                         most_values_observed));
  }
}

void Recordings::Entry::add(Recording recording, const std::shared_ptr<const void>& structure) {
  if (!may_keep(recording)) return;
  serves_all_orders = !recording.keeps_rules && (serves_all_orders || nodes == 0);
  const auto& steps = recording.program.instructions;
  const auto reads = std::count_if(steps.begin(), steps.end(), [](const auto& step) { return step.is_read(); });
  unused += 1 + recording.guards.size() + static_cast<std::size_t>(reads);
  ++unused_nodes;
  std::set<const EffectType*> unanswered_here = std::move(recording.unanswered);
  std::unique_ptr<TraceNode> path = cut(std::move(recording), structure);
  const std::unique_lock lock(mutex);
  unanswered.merge(unanswered_here);
  any_unanswered = !unanswered.empty();
  ++version;
  merge(std::move(path));
  if (nodes > most_paths) demote(fmt::format("it has more than {} paths", most_paths));
  for (TraceNode* node : find_needs_below(*begin)) most_variables = std::max(most_variables, node->end());
  // The root, with which each call begins, is prepared in two stages, shorten and prepare, so that
  // the second call takes no longer than the first.
  if (nodes > 1 || begin->shortened) return;
  try {
    make(shorten, *begin);
  } catch (const std::exception&) {  // the first replay will meet this error again
  }
}

// ---- recordings ---------------------------------------------------------------------------------

struct Recordings::State {
  ClosedCallSettings settings;
  std::set<std::string> explained;  // the reasons that were explained
  mutable std::mutex mutex;
  std::list<EntryPtr> entries;  // the most recently used first
};

Recordings::Recordings(const CompileOptions& options) : state_(std::make_unique<State>()) {
  state_->settings = {lasting_name(options.name), options.native, options.for_inference};
}
Recordings::~Recordings() = default;
const char* Recordings::name() const noexcept { return state_->settings.name; }

void Recordings::explain_call() const {
  if (!explains()) return;
  const std::string who = describe_handler_without_closed_calls();
  const std::string why = !current || !current->nearest ? "a transform that does not run here traces its arguments"
                          : !takes_closed_calls()
                              ? fmt::format(
                                    "{} is installed around it and must see each operation. To compile, put the "
                                    "handler inside: compile a function that installs it",
                                    who.empty() ? "a handler of operations" : who)
                              : fmt::format(
                                    "{} is installed around it and traces none of its arguments, but it may trace a "
                                    "value that the function captures",
                                    current->nearest->handler->describe());
  const std::lock_guard lock(state_->mutex);
  if (state_->explained.insert(why).second) explain(name(), "the function itself is called: " + why);
}

Recordings::EntryPtr Recordings::find(std::span<const Tensor> leaves, Same same,
                                      FunctionRef<std::unique_ptr<StaticArguments>()> arguments) {
  const bool handled = current && current->nearest;
  const bool followed = std::any_of(leaves.begin(), leaves.end(),
                                    [](const Tensor& x) { return x.defined() && stave_detail::is_followed(x); });
  if (handled != followed || (handled && !takes_closed_calls())) {
    explain_call();
    return nullptr;
  }
  const int orders = followed ? orders_of_derivative(leaves) : 0;
  const std::lock_guard lock(state_->mutex);
  std::list<EntryPtr>& entries = state_->entries;
  for (auto at = entries.begin(); at != entries.end(); ++at) {
    if (!(*at)->signature.matches(leaves, followed) || !(*at)->serves(orders) || !same(*(*at)->arguments)) continue;
    if (at != entries.begin()) entries.splice(entries.begin(), entries, at);
    const EntryPtr& found = entries.front();
    if (found->demoted.load(std::memory_order_relaxed) || found->rests()) return nullptr;
    return found->has_newly_answered_effect() ? nullptr : found;
  }
  entries.push_front(std::make_shared<Entry>(state_->settings, Signature(leaves, followed, orders), arguments()));
  if (entries.size() > most_signatures) entries.pop_back();
  return entries.front();
}

bool Recordings::is_followed(const Entry& entry) { return entry.signature.followed; }

std::size_t Recordings::count() const {
  const std::lock_guard lock(state_->mutex);
  std::size_t nodes = 0;
  for (const EntryPtr& entry : state_->entries) {
    const std::shared_lock lock_entry(entry->mutex);
    nodes += entry->nodes;
  }
  return nodes;
}

Outputs Recordings::record(const EntryPtr& entry, FlatFunction f, std::span<const Tensor> leaves, CallEffectLog& asked,
                           FunctionRef<std::shared_ptr<const void>()> structure) {
  const HigherOrderCalls calls = entry->signature.followed ? HigherOrderCalls::kept : HigherOrderCalls::inlined;
  if (!asked.at_example()) asked.begin();
  Recording recording = stave_detail::record(entry->settings.name, f, leaves, calls, &asked, entry->signature.orders);
  Outputs outputs = recording.outputs;
  if (asked.refused.empty()) entry->add(std::move(recording), structure());
  else entry->demote(asked.refused);
  return outputs;
}

namespace {

// The handler that is installed around a recording on examples. It hides the operations of the
// recording from the outer handlers. If vmap logged them (paths.h), it would expect them whenever
// it runs the function again for other lanes, but the function is recorded only once. The handler
// throws if the function captures a value that an outer transform traces.
class AtExamples final : public Handles<Call, ReadStorage> {
 public:
  Outputs handle(Call& call) override {
    if (unbound_collective(call.op(), call.attributes())) return perform(std::move(call));
    for (const Tensor& x : call.inputs())
      if (is_followed_outside(x)) fail_captured();
    UnderFrame past_all_handlers(nullptr);
    return perform(std::move(call));
  }
  Tensor handle(ReadStorage&) override { fail_captured(); }
  HandlerProperties properties() const noexcept override {
    return {.runs_no_user_code = true, .takes_closed_calls = true};
  }
  std::string describe() const override { return ""; }

 private:
  static bool is_followed_outside(const Tensor& x) {
    if (!x.node().storage) return true;
    for (const Note* note = x.node().notes; note; note = note->next) {
      if (!note->owner->differentiates || !note->live()) continue;
      for (const Frame* frame = current; frame; frame = frame->below)
        if (frame->handler == note->owner->differentiates) return true;
    }
    return false;
  }
  [[noreturn]] static void fail_captured() {
    fail<TransformError>("compile: the function captures a value that a transform outside traces");
  }
};

}  // namespace

void Recordings::record_example(const EntryPtr& entry, std::span<const Tensor> leaves, CallEffectLog& asked,
                                FunctionRef<void(std::span<const Tensor>)> record) {
  asked.begin_example();
  try {
    std::vector<Tensor> examples;
    for (const Tensor& x : leaves) examples.push_back(x.defined() ? example_of(x) : x);
    AtExamples below;
    with(below, [&] { record(examples); });
  } catch (const std::exception& error) {
    if (asked.refused.empty()) entry->failed(error.what());
    else entry->demote(asked.refused);
  }
  asked.end_example();
}

// ---- replays ------------------------------------------------------------------------------------

// A replay along the trace tree. It holds a shared lock, so that the tree does not change. It
// releases the lock while an effect is performed, because the handler that answers may call the
// function, or resume this replay later.
class Recordings::Replay {
 public:
  Replay(Entry& entry, std::span<Tensor> leaves, CallEffectLog& asked)
      : entry_(entry), effect_log_(asked), lock_(entry.mutex), version_(entry.version), node_(entry.begin.get()),
        leaves_(leaves), arguments_(static_cast<int>(leaves.size())) {
    values_.append(leaves.begin(), leaves.end());
  }

  /// True if a path that the tree lacks should be recorded.
  bool may_learn = true;

  std::optional<Answer> run() {
    if (!node_) return std::nullopt;
    effect_log_.begin();
    try {
      for (;; node_ = next_) {
        if (!node_->ready && !prepare()) return std::nullopt;
        perform();
        if (node_->returns()) break;
        if (next_ = evaluate_guard(); !next_) {
          if (entry_.version == version_) may_learn = entry_.missed(is_new_);
          return std::nullopt;
        }
      }
      entry_.reset_misses();
    } catch (const NativeCodeError&) {
      throw;
    } catch (const DonatedInputLost& lost) {  // f itself has no arguments to run with
      std::rethrow_exception(lost.error);
    } catch (const std::exception& error) {
      if (entry_.signature.followed) entry_.failed(error.what());
      return std::nullopt;  // f itself will throw the error, and may catch it
    }
    return answer();
  }

 private:
  // Prepares the node at the first replay that reaches it. Returns false if the tree changed
  // meanwhile.
  bool prepare() {
    lock_.unlock();
    {
      const std::unique_lock lock(entry_.mutex);
      if (entry_.version == version_ && !node_->ready) entry_.make(stave_detail::prepare, *node_);
    }
    lock_.lock();
    return entry_.version == version_;
  }

  Tensor& value(int variable) { return values_[static_cast<std::size_t>(variable)]; }

  void put(std::span<const int> variables, Outputs&& made) {
    for (std::size_t i = 0; i < made.size(); ++i) {
      Tensor& x = value(variables[i]) = std::move(made[i]);
      // The plans of later nodes expect contiguous values.
      if (!entry_.signature.followed && !x.is_contiguous()) x = contiguous(x);
    }
  }

  void perform() {
    if (node_->returns()) return perform_last();
    last_made_ = node_->piece(values_);
    values_.reserve(static_cast<std::size_t>(entry_.most_variables));
    values_.resize(static_cast<std::size_t>(node_->end()));
    put(node_->piece.made, std::move(last_made_));
  }

  // Performs the piece of the last node. No other code uses the leaves that it reads, so they are
  // taken out of `leaves_`; if an operation throws, they come back, and f itself can run.
  void perform_last() {
    const auto for_leaves = [&](const auto& f) {
      for (const int variable : node_->piece.given)
        if (variable < arguments_) f(leaves_[static_cast<std::size_t>(variable)], value(variable));
    };
    for_leaves([](Tensor& leaf, const Tensor&) { leaf = Tensor(); });
    try {
      last_made_ = node_->piece(values_);  // answer() takes them
    } catch (const std::exception&) {
      for_leaves([](Tensor& leaf, const Tensor& given) { leaf = given; });
      throw;
    }
  }

  // Evaluates the guard and returns the child node; null if there is none (side exit).
  TraceNode* evaluate_guard() {
    TraceNode* const next = node_->read >= 0 ? read_value() : node_->effect_guard ? answer_effect() : try_operation();
    if (!next) return nullptr;
    for (const int variable : node_->over) value(variable) = Tensor();
    return next;
  }

  TraceNode* read_value() {
    const Tensor& x = value(node_->read);
    if (!x.node().storage) return nullptr;  // the value may differ between lanes
    TraceNode* const next = node_->after_reading(x);
    const bool at_once = x.size() == 1 || node_->next.size() < recorded_at_once;
    if (!next)
      is_new_ =
          node_->next.size() >= most_values_observed || (!at_once && !node_->was_observed_before(x, most_remembered));
    return next;
  }

  TraceNode* answer_effect() {
    const std::shared_ptr<const EffectGuard> question = node_->effect_guard;
    std::any effect = question->effect;
    auto next_input = question->inputs.begin();
    question->type->recordable->visit_effect(effect, [&](Tensor& x) {
      if (const int variable = *next_input++; variable >= 0)
        x = relabel(value(variable), node_->variable(variable).label);
    });
    lock_.unlock();
    const CallEffectLog::LoggedEffect* const asked = performed_effect(*question, std::move(effect));
    lock_.lock();
    if (!asked || entry_.version != version_) return nullptr;
    TraceNode* const next = node_->after_answer(*asked);
    is_new_ = !next && node_->next.size() >= most_values_observed;
    if (!next) return nullptr;
    values_.resize(static_cast<std::size_t>(next->first));
    for (std::size_t i = 0; i < asked->tensors.size(); ++i)
      if (asked->passed[i] < 0 && asked->tensors[i].defined()) values_.push_back(asked->tensors[i]);
    return next;
  }
  // Performs the effect. Returns null if the handler throws: f itself is then called, and gets the
  // error.
  const CallEffectLog::LoggedEffect* performed_effect(const EffectGuard& question, std::any effect) {
    const ReenteredScopes scopes(question.scopes.get());
    try {
      return &effect_log_.ask(*question.type, std::move(effect));
    } catch (const Cancelled&) {
      throw;
    } catch (...) {
      return nullptr;
    }
  }

  TraceNode* try_operation() {
    const ExceptionGuard& trial = *node_->exception_guard;
    Outputs made;
    try {
      made = trial.piece(values_);
    } catch (const NativeCodeError&) {
      throw;
    } catch (const Error& error) {
      return node_->after_exception_guard(&typeid(error));
    }
    values_.resize(values_.size() + made.size());
    put(trial.piece.made, std::move(made));
    return node_->after_exception_guard(nullptr);
  }

  // A variable's value at the end of the last node.
  const Tensor& final_value(int variable) {
    const std::vector<int>& made = node_->piece.made;  // ascending
    const auto found = std::lower_bound(made.begin(), made.end(), variable);
    const bool is_made = found != made.end() && *found == variable;
    return is_made ? last_made_[static_cast<std::size_t>(found - made.begin())] : value(variable);
  }

  Answer answer() {
    Answer answer{{}, node_->structure};
    for (const int output : node_->outputs) {
      answer.outputs.push_back(output < 0 ? Tensor() : final_value(output));
      // inputs and answers have their own labels
      if (output >= arguments_ && !node_->is_answer(output))
        answer.outputs.back() = relabel(std::move(answer.outputs.back()), node_->variable(output).label);
    }
    return answer;
  }

  Entry& entry_;
  CallEffectLog& effect_log_;
  std::shared_lock<std::shared_mutex> lock_;
  const std::uint64_t version_;
  TraceNode* node_;
  TraceNode* next_ = nullptr;
  bool is_new_ = false;             // the last value should not be recorded: see Entry::missed
  const std::span<Tensor> leaves_;  // the arguments of the call
  const int arguments_;
  SmallVector<Tensor, 8> values_;  // of the tree's variables, up to the last node's
  Outputs last_made_;              // what the last node's piece made
};

std::optional<Recordings::Answer> Recordings::replay(const EntryPtr& entry, std::span<Tensor> leaves,
                                                     CallEffectLog& asked, bool& may_learn) {
  Replay replay(*entry, leaves, asked);
  std::optional<Answer> answer = replay.run();
  may_learn = replay.may_learn;
  return answer;
}

void check_replay(const char* name, const Outputs& replayed, const Outputs& performed) {
  bool same = replayed.size() == performed.size();
  for (std::size_t i = 0; same && i < replayed.size(); ++i)
    same = replayed[i].defined() == performed[i].defined() &&
           (!replayed[i].defined() || same_bits(replayed[i], performed[i]));
  if (!same)
    fail<TransformError>(
        "{}: the replay gives another result than the function itself: its result depends on more than its arguments "
        "(a captured variable that changed, a counter, a clock), or it is a gradient that a loop sums in another order",
        name);
}

}  // namespace stave_detail
