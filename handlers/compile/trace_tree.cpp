#include <stave/handlers/compile/trace_tree.h>

#include <algorithm>
#include <unordered_map>

#include <stave/core/ops/layout.h>
#include <stave/core/program/passes/passes.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>
#include <stave/core/tensor/storage.h>

namespace stave_detail {

std::string bytes_of(const Tensor& x) {
  const Tensor values = observed(x);
  UnderFrame past_all_handlers(nullptr);
  const Tensor dense = contiguous(values);
  std::string bytes(static_cast<std::size_t>(dense.size()) * size_of(dense.dtype()), '\0');
  read_storage(dense.node().memory(), bytes.data(), dense.node().data(), bytes.size());
  return bytes;
}

namespace {

// Moves values of variables into a list, and back at its end.
class MovedValues {
 public:
  MovedValues(std::span<Tensor> values, std::span<const int> variables) : values_(values), variables_(variables) {
    for (const int variable : variables) moved_.push_back(std::move(values[static_cast<std::size_t>(variable)]));
  }
  ~MovedValues() {
    for (std::size_t i = 0; i < moved_.size(); ++i)
      values_[static_cast<std::size_t>(variables_[i])] = std::move(moved_[i]);
  }
  MovedValues(const MovedValues&) = delete;
  std::span<const Tensor> list() const { return moved_; }

 private:
  std::span<Tensor> values_;
  std::span<const int> variables_;
  Inputs moved_;
};

}  // namespace

Outputs Piece::operator()(std::span<Tensor> values) const {
  // The variables are ascending, so that these are the first ones if the last one is among them.
  const bool are_first = given.empty() || given.back() == static_cast<int>(given.size()) - 1;
  const MovedValues moved(values, are_first ? std::span<const int>() : given);
  const std::span<const Tensor> inputs = are_first ? values.first(given.size()) : moved.list();
  if (closed_call) return (*closed_call)(inputs);
  return executable ? (*executable)(inputs) : program(inputs);
}

// ---- variables ----------------------------------------------------------------------------------

const TraceNode& TraceNode::of(int variable) const {
  const TraceNode* node = this;
  while (variable < node->first) node = node->from;
  return *node;
}

const Program::Variable& TraceNode::variable(int number) const {
  const TraceNode& node = of(number);
  return node.variables[static_cast<std::size_t>(number - node.first)];
}

bool TraceNode::is_answer(int variable) const {
  const TraceNode& node = of(variable);
  return variable - node.first < static_cast<int>(node.strides.size());
}

std::vector<int> TraceNode::guard_operands() const {
  if (read >= 0) return {read};
  if (effect_guard) return effect_guard->inputs;
  if (exception_guard) return {exception_guard->step.inputs.begin(), exception_guard->step.inputs.end()};
  return outputs;
}

namespace {

// Computes `kept` and `needs` of a node from what it and its child nodes read, and its `over`.
void find_needs(TraceNode& node) {
  const std::vector<int> at_end = node.guard_operands();
  TraceNode::Variables read(at_end.begin(), at_end.end()), kept = read, later;
  for (const auto& step : node.steps)
    for (const int input : step.inputs)
      if (input < node.first) read.insert(input);
  for (const TraceNode::Next& next : node.next) later.insert(next.node->needs.begin(), next.node->needs.end());
  read.insert(later.begin(), later.end());
  kept.insert(later.begin(), later.end());
  std::erase_if(kept, [&](int variable) { return variable < node.first; });
  std::erase_if(read, [&](int variable) { return variable >= node.first || variable < 0; });
  if (kept != node.kept || read != node.needs) node.shortened = node.ready = false;
  node.kept = std::move(kept);
  node.needs = std::move(read);
  node.over.clear();
  const auto ends = [&](int variable) {
    if (!later.contains(variable)) node.over.push_back(variable);
  };
  for (const TraceNode::Variables* here : {&node.needs, &node.kept}) std::for_each(here->begin(), here->end(), ends);
  for (int i = 0; i < node.guard_outputs; ++i) ends(node.first + i);
}

}  // namespace

std::vector<TraceNode*> find_needs_below(TraceNode& begin) {
  std::vector<TraceNode*> nodes{&begin};
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const TraceNode::Next& next : nodes[i]->next) nodes.push_back(next.node.get());
  std::reverse(nodes.begin(), nodes.end());
  for (TraceNode* node : nodes) find_needs(*node);
  return nodes;
}

// ---- guards -------------------------------------------------------------------------------------

namespace {

bool same_observation(const TraceNode& node, const Observed& a, const Observed& b) {
  if (node.effect_guard)
    return a.tensors == b.tensors && node.effect_guard->type->recordable->same_answer(a.answer, b.answer);
  if (node.exception_guard) return a.threw == b.threw || (a.threw && b.threw && *a.threw == *b.threw);
  return a.bytes == b.bytes;
}

bool same_guard(const TraceNode& a, const TraceNode& b) {
  if (a.read != b.read || !a.effect_guard != !b.effect_guard ||
      a.exception_guard.has_value() != b.exception_guard.has_value())
    return false;
  if (a.effect_guard)
    return *a.effect_guard->type == *b.effect_guard->type && a.effect_guard->inputs == b.effect_guard->inputs &&
           a.effect_guard->type->recordable->same_effect(a.effect_guard->effect, b.effect_guard->effect);
  return !a.exception_guard || compute_the_same(a.exception_guard->step, b.exception_guard->step);
}

}  // namespace

TraceNode* TraceNode::find(const Observed& observed_value) const {
  for (const Next& it : next)
    if (same_observation(*this, it.observed_value, observed_value)) return it.node.get();
  return nullptr;
}

namespace {

// Returns f(bytes_of(value)), without a copy if none is needed.
template <class F>
auto with_bytes_of(const Tensor& value, F f) {
  const Node& node = value.node();
  if (node.memory() != cpu || !node.contiguous()) return f(std::string_view(bytes_of(value)));
  return f(std::string_view(static_cast<const char*>(node.data()),
                            static_cast<std::size_t>(value.size()) * size_of(node.dtype)));
}

}  // namespace

TraceNode* TraceNode::after_reading(const Tensor& value) const {
  return with_bytes_of(value, [&](std::string_view bytes) -> TraceNode* {
    for (const Next& it : next)
      if (it.observed_value.bytes == bytes) return it.node.get();
    return nullptr;
  });
}

bool TraceNode::was_observed_before(const Tensor& value, std::size_t most) const {
  const std::size_t hash = with_bytes_of(value, std::hash<std::string_view>());
  const std::lock_guard lock(remembered->mutex);
  if (remembered->hashes.contains(hash)) return true;
  if (remembered->hashes.size() == most) remembered->hashes.clear();
  remembered->hashes.insert(hash);
  return false;
}

TraceNode* TraceNode::after_answer(const CallEffectLog::LoggedEffect& asked) const {
  const auto is_observed = [&](const Observed& observed_value) {
    if (!effect_guard->type->recordable->same_answer(observed_value.answer, asked.answer)) return false;
    for (std::size_t i = 0; i < observed_value.tensors.size(); ++i) {
      const int passed = asked.passed[i];
      if (observed_value.tensors[i].passed_before != passed || observed_value.tensors[i].made_of != asked.made_of[i])
        return false;
      if (passed < 0 && !observed_value.tensors[i].layout.describes(asked.tensors[i])) return false;
    }
    return true;
  };
  for (const Next& it : next)
    if (is_observed(it.observed_value)) return it.node.get();
  return nullptr;
}

TraceNode* TraceNode::after_exception_guard(const std::type_info* threw) const {
  Observed observed_value;
  observed_value.threw = threw;
  return find(observed_value);
}

// ---- paths --------------------------------------------------------------------------------------

namespace {

class Cutter {
 public:
  explicit Cutter(Recording recording) : recording_(std::move(recording)), defined_(recording_.program.inputs.size()) {}

  std::unique_ptr<TraceNode> run(const std::shared_ptr<const void>& structure) {
    Program& program = recording_.program;
    auto begin = std::make_unique<TraceNode>();
    node_ = begin.get();
    auto guard = recording_.guards.begin();
    for (std::size_t k = 0; k <= program.instructions.size(); ++k) {
      for (; guard != recording_.guards.end() && guard->at == k; ++guard) take_guard(*guard);
      if (k < program.instructions.size()) take(program.instructions[k]);
    }
    take_variables(program.variables.size());
    node_->outputs = program.outputs;
    node_->structure = structure;
    return begin;
  }

 private:
  void take_variables(std::size_t end) {
    Program& program = recording_.program;
    for (; variable_ < end; ++variable_) node_->variables.push_back(std::move(program.variables[variable_]));
    for (; constant_ < program.constants.size() && program.constants[constant_].variable < static_cast<int>(end);
         ++constant_)
      node_->constants.push_back(program.constants[constant_]);
  }

  void take(Program::Instruction& step) {
    for (const int used : step.inputs) defined_ = std::max(defined_, static_cast<std::size_t>(used) + 1);
    for (const int made : step.outputs) defined_ = std::max(defined_, static_cast<std::size_t>(made) + 1);
    if (!step.is_read()) {
      node_->steps.push_back(std::move(step));
      return;
    }
    take_variables(defined_);
    node_->read = step.inputs[0];
    Observed observed_value;
    observed_value.bytes = bytes_of(step.read_value);
    part(std::move(observed_value));
  }

  void take_guard(RecordedGuard& guard) {
    defined_ = static_cast<std::size_t>(guard.variables);
    take_variables(defined_);
    Observed observed_value;
    std::vector<Strides> strides;
    if (guard.threw) {
      node_->exception_guard = ExceptionGuard{std::move(guard.step), std::move(guard.outputs)};
      observed_value.threw = guard.threw;
    } else {
      node_->effect_guard =
          std::make_shared<const EffectGuard>(EffectGuard{guard.asked,
                                                          std::move(guard.effect),
                                                          {guard.step.inputs.begin(), guard.step.inputs.end()},
                                                          std::move(guard.step.scopes)});
      for (const Answered& it : guard.tensors)
        if (it.passed_before < 0 && it.layout.defined) strides.push_back(it.layout.strides);
      observed_value.answer = std::move(guard.answer);
      observed_value.tensors = std::move(guard.tensors);
    }
    part(std::move(observed_value));
    node_->guard_outputs = static_cast<int>(strides.size());
    node_->strides = std::move(strides);
    defined_ += node_->strides.size();
  }

  void part(Observed observed_value) {
    auto next = std::make_unique<TraceNode>();
    next->from = node_;
    next->first = static_cast<int>(variable_);
    TraceNode* const after = next.get();
    node_->next.push_back({std::move(observed_value), std::move(next)});
    node_ = after;
  }

  Recording recording_;
  TraceNode* node_ = nullptr;
  std::size_t defined_, variable_ = 0, constant_ = 0;
};

// Splits a node before step k, which becomes its exception guard. The rest of the node becomes the
// child for the case of no error.
void split(TraceNode& node, std::size_t k) {
  const Program::Instruction step = node.steps[k];
  auto rest = std::make_unique<TraceNode>();
  rest->from = &node;
  rest->first = step.outputs[0];
  rest->guard_outputs = static_cast<int>(step.outputs.size());
  const auto variables = node.variables.begin() + (rest->first - node.first);
  rest->variables.assign(variables, node.variables.end());
  node.variables.erase(variables, node.variables.end());
  const auto constants = std::find_if(node.constants.begin(), node.constants.end(),
                                      [&](const auto& it) { return it.variable >= rest->first; });
  rest->constants.assign(constants, node.constants.end());
  node.constants.erase(constants, node.constants.end());
  rest->steps.assign(node.steps.begin() + static_cast<std::ptrdiff_t>(k) + 1, node.steps.end());
  node.steps.resize(k);
  rest->read = std::exchange(node.read, -1);
  rest->effect_guard = std::exchange(node.effect_guard, nullptr);
  rest->exception_guard = std::exchange(node.exception_guard, std::nullopt);
  rest->next = std::exchange(node.next, {});
  rest->outputs = std::exchange(node.outputs, {});
  rest->structure = std::exchange(node.structure, nullptr);
  for (TraceNode::Next& next : rest->next) next.node->from = rest.get();
  node.exception_guard = ExceptionGuard{step, {rest->variables.begin(), rest->variables.begin() + rest->guard_outputs}};
  node.exception_guard->step.outputs.clear();
  node.shortened = node.ready = false;
  node.next.push_back({Observed(), std::move(rest)});
}

}  // namespace

std::unique_ptr<TraceNode> cut(Recording recording, const std::shared_ptr<const void>& structure) {
  return Cutter(std::move(recording)).run(structure);
}

namespace {

// Describes how two nodes differ that should be equal. Names the first operation that they do not
// share; else the first constant that differs; else says that a guard or a result differs.
std::string difference_of(const TraceNode& a, const TraceNode& b) {
  const auto said = [](const TraceNode& node, std::size_t k) -> std::string {
    if (k >= node.steps.size()) return node.returns() ? "its end" : "a read, an effect or an error";
    const Program::Instruction& step = node.steps[k];
    const std::string attributes = step.attributes ? " " + step.attributes->str() : "";
    return fmt::format("{}{}", step.op->name, attributes);
  };
  const std::size_t most = std::max(a.steps.size(), b.steps.size());
  for (std::size_t k = 0; k < most; ++k) {
    if (k < a.steps.size() && k < b.steps.size() && compute_the_same(a.steps[k], b.steps[k])) continue;
    const std::string was = said(a, k), is = said(b, k);
    if (was != is) return fmt::format("operation {} was {}, and is now {}", k, was, is);
    return fmt::format("operation {}, {}, has other operands or attributes", k, is);
  }
  for (std::size_t i = 0; i < std::min(a.constants.size(), b.constants.size()); ++i)
    if (const Tensor &was = a.constants[i].value, &is = b.constants[i].value; !same_constant(was, is))
      return fmt::format("a tensor that it captures or makes, {} {}, has other elements", is.dtype(), is.shape());
  return "it reads another value, performs another effect or returns another result";
}

}  // namespace

Merged merge(TraceNode& tree, TraceNode& path, std::size_t most, std::string& difference) {
  TraceNode *a = &tree, *b = &path;
  while (true) {
    if (a->exception_guard && b->steps.size() > a->steps.size()) split(*b, a->steps.size());
    else if (b->exception_guard && a->steps.size() > b->steps.size()) split(*a, b->steps.size());
    const bool same = a->first == b->first && same_guard(*a, *b) &&
                      same_parts({a->variables, a->constants, a->steps}, {b->variables, b->constants, b->steps});
    if (!same || (a->returns() && a->outputs != b->outputs)) {
      difference = difference_of(*a, *b);
      return Merged::differs;
    }
    if (a->returns()) return Merged::known;
    auto& [observed_value, after] = b->next.front();
    TraceNode* const known = a->find(observed_value);
    if (!known) {
      if (a->next.size() >= most) return Merged::full;
      after->from = a;
      a->next.push_back({std::move(observed_value), std::move(after)});
      return Merged::added;
    }
    a = known;
    b = after.get();
  }
}

// ---- programs of nodes --------------------------------------------------------------------------

namespace {

// Makes a program from instructions of a node. The program's variables are numbered anew.
class PieceMaker {
 public:
  PieceMaker(const TraceNode& node, Piece& piece) : node_(node), piece_(piece) {
    piece = {};
    numbers_.assign(node.variables.size(), -1);
    program_.instructions.reserve(node.steps.size());
    program_.variables.reserve(node.variables.size());
  }
  void give(int variable) {
    piece_.given.push_back(variable);
    program_.inputs.push_back(number(variable));
  }
  void make(int variable) {
    piece_.made.push_back(variable);
    program_.outputs.push_back(number(variable));
  }
  void add(const Program::Constant& constant) {
    program_.constants.push_back({number(constant.variable), constant.value});
  }
  void add(Program::Instruction step) {
    for (int& input : step.inputs) input = number(input);
    for (int& output : step.outputs) output = number(output);
    program_.instructions.push_back(std::move(step));
  }
  /// Adds a variable of the tree that belongs to the child node. `it` describes the variable.
  void name(int variable, const Program::Variable& it) {
    place_of(variable) = program_.add_variable(it.shape, it.dtype, it.device, it.label);
  }

  void end(const PieceOptions& options) {
    if (options.followed) {
      piece_.closed_call = std::make_shared<const ClosedCall>(std::move(program_), options.settings);
      return;
    }
    piece_.program = optimized(std::move(program_), {.hoists_from_loops = options.settings.native != Native::required,
                                                     .folds_scales = options.settings.for_inference,
                                                     .fusion_report = options.fusion_report});
  }

 private:
  int number(int variable) {
    int& place = place_of(variable);
    if (place < 0) {
      const Program::Variable& it = node_.variable(variable);
      place = program_.add_variable(it.shape, it.dtype, it.device, it.label);
    }
    return place;
  }
  int& place_of(int variable) {
    const auto own = static_cast<std::size_t>(variable - node_.first);
    return variable >= node_.first && own < numbers_.size() ? numbers_[own]
                                                            : others_.try_emplace(variable, -1).first->second;
  }

  const TraceNode& node_;
  Piece& piece_;
  Program program_;
  std::vector<int> numbers_;  // new numbers of the node's own variables; -1: none yet
  std::unordered_map<int, int> others_;
};

// Plans a piece of a node. If the node returns, only the values of its outputs are used afterwards.
void plan(Piece& piece, const TraceNode& node, const PieceOptions& options) {
  if (piece.closed_call || !Executable::admits(piece.program)) return;
  std::vector<Strides> strides;
  std::vector<int> donated;
  for (const int variable : piece.given) {
    const bool is_result = std::find(node.outputs.begin(), node.outputs.end(), variable) != node.outputs.end();
    if (node.returns() && !is_result) donated.push_back(static_cast<int>(strides.size()));
    strides.push_back(options.strides_of(variable));
  }
  piece.executable =
      std::make_unique<Executable>(piece.program, strides,
                                   ExecutableSettings{.name = options.settings.name,
                                                      .donated = donated,
                                                      .native = options.settings.native,
                                                      .prepares_constants = options.settings.for_inference,
                                                      .native_report = options.native_report});
}

void prepare_trial(const TraceNode& node, ExceptionGuard& trial, const PieceOptions& options) {
  PieceMaker maker(node, trial.piece);
  Program::Instruction step = trial.step;
  for (const int variable : TraceNode::Variables(step.inputs.begin(), step.inputs.end())) maker.give(variable);
  for (const Program::Variable& it : trial.outputs) {
    step.outputs.push_back(node.end() + static_cast<int>(step.outputs.size()));
    maker.name(step.outputs.back(), it);
  }
  const auto made = step.outputs;
  maker.add(std::move(step));
  for (const int variable : made) maker.make(variable);
  maker.end(options);
  plan(trial.piece, node, options);
}

}  // namespace

void shorten(TraceNode& node, const PieceOptions& options) {
  PieceMaker maker(node, node.piece);
  const int own = node.from ? node.first + node.guard_outputs : static_cast<int>(options.arguments);
  TraceNode::Variables given;
  for (const auto& step : node.steps)
    for (const int input : step.inputs)
      if (input < own) given.insert(input);
  for (const int variable : given) maker.give(variable);
  for (const Program::Constant& constant : node.constants) maker.add(constant);
  for (const Program::Instruction& step : node.steps) maker.add(step);
  for (const int variable : node.kept)
    if (variable >= own) maker.make(variable);
  maker.end(options);
  node.shortened = true;
}

void prepare(TraceNode& node, const PieceOptions& options) {
  if (!node.shortened) shorten(node, options);
  plan(node.piece, node, options);
  if (node.exception_guard) prepare_trial(node, *node.exception_guard, options);
  node.ready = true;
}

}  // namespace stave_detail
