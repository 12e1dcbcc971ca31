#include <stave/handlers/compile/ways.h>

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

Outputs Piece::operator()(const std::vector<Tensor>& values) const {
  std::vector<Tensor> inputs;
  for (const int variable : given) inputs.push_back(values[static_cast<std::size_t>(variable)]);
  if (whole) return (*whole)(inputs);
  return executable ? (*executable)(inputs) : program(inputs);
}

// ---- variables ----------------------------------------------------------------------------------

const Way& Way::of(int variable) const {
  const Way* way = this;
  while (variable < way->first) way = way->from;
  return *way;
}

const Program::Variable& Way::variable(int number) const {
  const Way& way = of(number);
  return way.variables[static_cast<std::size_t>(number - way.first)];
}

bool Way::is_answer(int variable) const {
  const Way& way = of(variable);
  return variable - way.first < static_cast<int>(way.strides.size());
}

std::vector<int> Way::looked_at() const {
  if (read >= 0) return {read};
  if (asks) return asks->inputs;
  if (tries) return {tries->step.inputs.begin(), tries->step.inputs.end()};
  return outputs;
}

namespace {

// Computes what the node and those below it read of its own variables and of earlier ones.
void find_needs(Way& way) {
  const std::vector<int> at_end = way.looked_at();
  Way::Variables read(at_end.begin(), at_end.end()), kept = read, later;
  for (const auto& step : way.steps)
    for (const int input : step.inputs)
      if (input < way.first) read.insert(input);
  for (const Way::Next& next : way.next) later.insert(next.way->needs.begin(), next.way->needs.end());
  read.insert(later.begin(), later.end());
  kept.insert(later.begin(), later.end());
  std::erase_if(kept, [&](int variable) { return variable < way.first; });
  std::erase_if(read, [&](int variable) { return variable >= way.first || variable < 0; });
  if (kept != way.kept || read != way.needs) way.shortened = way.ready = false;
  way.kept = std::move(kept);
  way.needs = std::move(read);
  way.over.clear();
  const auto ends = [&](int variable) {
    if (!later.contains(variable)) way.over.push_back(variable);
  };
  for (const Way::Variables* here : {&way.needs, &way.kept}) std::for_each(here->begin(), here->end(), ends);
  for (int i = 0; i < way.arrived; ++i) ends(way.first + i);
}

}  // namespace

std::vector<Way*> find_needs_below(Way& begin) {
  std::vector<Way*> ways{&begin};
  for (std::size_t i = 0; i < ways.size(); ++i)
    for (const Way::Next& next : ways[i]->next) ways.push_back(next.way.get());
  std::reverse(ways.begin(), ways.end());
  for (Way* way : ways) find_needs(*way);
  return ways;
}

// ---- guards -------------------------------------------------------------------------------------

namespace {

bool same_met(const Way& way, const Met& a, const Met& b) {
  if (way.asks) return a.tensors == b.tensors && way.asks->type->kept->same_answer(a.answer, b.answer);
  if (way.tries) return a.threw == b.threw || (a.threw && b.threw && *a.threw == *b.threw);
  return a.bytes == b.bytes;
}

bool same_turn(const Way& a, const Way& b) {
  if (a.read != b.read || !a.asks != !b.asks || a.tries.has_value() != b.tries.has_value()) return false;
  if (a.asks)
    return *a.asks->type == *b.asks->type && a.asks->inputs == b.asks->inputs &&
           a.asks->type->kept->same_effect(a.asks->effect, b.asks->effect);
  return !a.tries || compute_the_same(a.tries->step, b.tries->step);
}

}  // namespace

Way* Way::find(const Met& met) const {
  for (const Next& it : next)
    if (same_met(*this, it.met, met)) return it.way.get();
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

Way* Way::after_reading(const Tensor& value) const {
  return with_bytes_of(value, [&](std::string_view bytes) -> Way* {
    for (const Next& it : next)
      if (it.met.bytes == bytes) return it.way.get();
    return nullptr;
  });
}

bool Way::was_met_before(const Tensor& value, std::size_t most) const {
  const std::size_t hash = with_bytes_of(value, std::hash<std::string_view>());
  const std::lock_guard lock(remembered->mutex);
  if (remembered->hashes.contains(hash)) return true;
  if (remembered->hashes.size() == most) remembered->hashes.clear();
  remembered->hashes.insert(hash);
  return false;
}

Way* Way::after_answer(const AskedOutside::Asked& asked) const {
  const auto is_met = [&](const Met& met) {
    if (!asks->type->kept->same_answer(met.answer, asked.answer)) return false;
    for (std::size_t i = 0; i < met.tensors.size(); ++i) {
      const int passed = asked.passed_before[i];
      if (met.tensors[i].passed_before != passed || met.tensors[i].made_of != asked.made_of[i]) return false;
      if (passed < 0 && !met.tensors[i].layout.is_of(asked.tensors[i])) return false;
    }
    return true;
  };
  for (const Next& it : next)
    if (is_met(it.met)) return it.way.get();
  return nullptr;
}

Way* Way::after_trial(const std::type_info* threw) const {
  Met met;
  met.threw = threw;
  return find(met);
}

// ---- paths --------------------------------------------------------------------------------------

namespace {

class Cutter {
 public:
  explicit Cutter(Recording recording) : recording_(std::move(recording)), defined_(recording_.program.inputs.size()) {}

  std::unique_ptr<Way> run(const std::shared_ptr<const void>& structure) {
    Program& program = recording_.program;
    auto begin = std::make_unique<Way>();
    way_ = begin.get();
    auto turn = recording_.turns.begin();
    for (std::size_t k = 0; k <= program.instructions.size(); ++k) {
      for (; turn != recording_.turns.end() && turn->at == k; ++turn) take_turn(*turn);
      if (k < program.instructions.size()) take(program.instructions[k]);
    }
    take_variables(program.variables.size());
    way_->outputs = program.outputs;
    way_->structure = structure;
    return begin;
  }

 private:
  void take_variables(std::size_t end) {
    Program& program = recording_.program;
    for (; variable_ < end; ++variable_) way_->variables.push_back(std::move(program.variables[variable_]));
    for (; constant_ < program.constants.size() && program.constants[constant_].variable < static_cast<int>(end);
         ++constant_)
      way_->constants.push_back(program.constants[constant_]);
  }

  void take(Program::Instruction& step) {
    for (const int used : step.inputs) defined_ = std::max(defined_, static_cast<std::size_t>(used) + 1);
    for (const int made : step.outputs) defined_ = std::max(defined_, static_cast<std::size_t>(made) + 1);
    if (!step.is_read()) {
      way_->steps.push_back(std::move(step));
      return;
    }
    take_variables(defined_);
    way_->read = step.inputs[0];
    Met met;
    met.bytes = bytes_of(step.met);
    part(std::move(met));
  }

  void take_turn(Turn& turn) {
    defined_ = static_cast<std::size_t>(turn.variables);
    take_variables(defined_);
    Met met;
    std::vector<Strides> strides;
    if (turn.threw) {
      way_->tries = Trial{std::move(turn.step), std::move(turn.outputs)};
      met.threw = turn.threw;
    } else {
      way_->asks = std::make_shared<const Question>(Question{turn.asked,
                                                             std::move(turn.effect),
                                                             {turn.step.inputs.begin(), turn.step.inputs.end()},
                                                             std::move(turn.step.scopes)});
      for (const Answered& it : turn.tensors)
        if (it.passed_before < 0 && it.layout.defined) strides.push_back(it.layout.strides);
      met.answer = std::move(turn.answer);
      met.tensors = std::move(turn.tensors);
    }
    part(std::move(met));
    way_->arrived = static_cast<int>(strides.size());
    way_->strides = std::move(strides);
    defined_ += way_->strides.size();
  }

  void part(Met met) {
    auto next = std::make_unique<Way>();
    next->from = way_;
    next->first = static_cast<int>(variable_);
    Way* const after = next.get();
    way_->next.push_back({std::move(met), std::move(next)});
    way_ = after;
  }

  Recording recording_;
  Way* way_ = nullptr;
  std::size_t defined_, variable_ = 0, constant_ = 0;
};

// Splits a node before step k, which becomes its exception guard. The rest of the node becomes the
// child for the case of no error.
void split(Way& way, std::size_t k) {
  const Program::Instruction step = way.steps[k];
  auto rest = std::make_unique<Way>();
  rest->from = &way;
  rest->first = step.outputs[0];
  rest->arrived = static_cast<int>(step.outputs.size());
  const auto variables = way.variables.begin() + (rest->first - way.first);
  rest->variables.assign(variables, way.variables.end());
  way.variables.erase(variables, way.variables.end());
  const auto constants = std::find_if(way.constants.begin(), way.constants.end(),
                                      [&](const auto& it) { return it.variable >= rest->first; });
  rest->constants.assign(constants, way.constants.end());
  way.constants.erase(constants, way.constants.end());
  rest->steps.assign(way.steps.begin() + static_cast<std::ptrdiff_t>(k) + 1, way.steps.end());
  way.steps.resize(k);
  rest->read = std::exchange(way.read, -1);
  rest->asks = std::exchange(way.asks, nullptr);
  rest->tries = std::exchange(way.tries, std::nullopt);
  rest->next = std::exchange(way.next, {});
  rest->outputs = std::exchange(way.outputs, {});
  rest->structure = std::exchange(way.structure, nullptr);
  for (Way::Next& next : rest->next) next.way->from = rest.get();
  way.tries = Trial{step, {rest->variables.begin(), rest->variables.begin() + rest->arrived}};
  way.tries->step.outputs.clear();
  way.shortened = way.ready = false;
  way.next.push_back({Met(), std::move(rest)});
}

}  // namespace

std::unique_ptr<Way> cut(Recording recording, const std::shared_ptr<const void>& structure) {
  return Cutter(std::move(recording)).run(structure);
}

namespace {

// Describes how two nodes differ that should be equal: the first operation that they do not share.
std::string difference_of(const Way& a, const Way& b) {
  const auto said = [](const Way& way, std::size_t k) -> std::string {
    if (k >= way.steps.size()) return way.returns() ? "its end" : "a read, an effect or an error";
    const Program::Instruction& step = way.steps[k];
    const std::string attributes = step.attributes ? " " + step.attributes->str() : "";
    return fmt::format("{}{}", step.op->name, attributes);
  };
  const std::size_t most = std::max(a.steps.size(), b.steps.size());
  for (std::size_t k = 0; k < most; ++k) {
    if (k < a.steps.size() && k < b.steps.size() && compute_the_same(a.steps[k], b.steps[k])) continue;
    const std::string was = said(a, k), is = said(b, k);
    if (was != is) return fmt::format("operation {} was {}, and is {}", k, was, is);
    return fmt::format("operation {}, {}, has other operands or attributes", k, is);
  }
  for (std::size_t i = 0; i < std::min(a.constants.size(), b.constants.size()); ++i)
    if (const Tensor &was = a.constants[i].value, &is = b.constants[i].value; !same_constant(was, is))
      return fmt::format("a tensor that it captures or makes, {} {}, has other elements", is.dtype(), is.shape());
  return "it reads another value, performs another effect or returns another result";
}

}  // namespace

Merged merge(Way& tree, Way& path, std::size_t most, std::string& difference) {
  Way *a = &tree, *b = &path;
  while (true) {
    if (a->tries && b->steps.size() > a->steps.size()) split(*b, a->steps.size());
    else if (b->tries && a->steps.size() > b->steps.size()) split(*a, b->steps.size());
    const bool same = a->first == b->first && same_turn(*a, *b) &&
                      same_parts({a->variables, a->constants, a->steps}, {b->variables, b->constants, b->steps});
    if (!same || (a->returns() && a->outputs != b->outputs)) {
      difference = difference_of(*a, *b);
      return Merged::differs;
    }
    if (a->returns()) return Merged::known;
    auto& [met, after] = b->next.front();
    Way* const known = a->find(met);
    if (!known) {
      if (a->next.size() >= most) return Merged::full;
      after->from = a;
      a->next.push_back({std::move(met), std::move(after)});
      return Merged::added;
    }
    a = known;
    b = after.get();
  }
}

// ---- programs of nodes --------------------------------------------------------------------------

namespace {

// Makes a program of its own, whose variables are renumbered.
class PieceMaker {
 public:
  PieceMaker(const Way& way, Piece& piece) : way_(way), piece_(piece) {
    piece = {};
    numbers_.assign(way.variables.size(), -1);
    program_.instructions.reserve(way.steps.size());
    program_.variables.reserve(way.variables.size());
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
  /// Adds a variable that the child node begins with.
  void name(int variable, const Program::Variable& it) {
    place_of(variable) = program_.add_variable(it.shape, it.dtype, it.device, it.label);
  }

  void end(const PieceOptions& options) {
    if (options.followed) {
      piece_.whole = std::make_shared<const WholeProgram>(std::move(program_), options.name);
      return;
    }
    piece_.program = optimized(std::move(program_), options.why_apart);
  }

 private:
  int number(int variable) {
    int& place = place_of(variable);
    if (place < 0) {
      const Program::Variable& it = way_.variable(variable);
      place = program_.add_variable(it.shape, it.dtype, it.device, it.label);
    }
    return place;
  }
  int& place_of(int variable) {
    const auto own = static_cast<std::size_t>(variable - way_.first);
    return variable >= way_.first && own < numbers_.size() ? numbers_[own]
                                                           : others_.try_emplace(variable, -1).first->second;
  }

  const Way& way_;
  Piece& piece_;
  Program program_;
  std::vector<int> numbers_;  // new numbers of the node's own variables; -1: none yet
  std::unordered_map<int, int> others_;
};

void plan(Piece& piece, const PieceOptions& options) {
  if (piece.whole || !Executable::admits(piece.program)) return;
  std::vector<Strides> strides;
  for (const int variable : piece.given) strides.push_back(options.strides_of(variable));
  piece.executable = std::make_unique<Executable>(piece.program, strides, options.name);
}

void prepare_trial(const Way& way, Trial& trial, const PieceOptions& options) {
  PieceMaker maker(way, trial.piece);
  Program::Instruction step = trial.step;
  for (const int variable : Way::Variables(step.inputs.begin(), step.inputs.end())) maker.give(variable);
  for (const Program::Variable& it : trial.outputs) {
    step.outputs.push_back(way.end() + static_cast<int>(step.outputs.size()));
    maker.name(step.outputs.back(), it);
  }
  const auto made = step.outputs;
  maker.add(std::move(step));
  for (const int variable : made) maker.make(variable);
  maker.end(options);
  plan(trial.piece, options);
}

}  // namespace

void shorten(Way& way, const PieceOptions& options) {
  PieceMaker maker(way, way.piece);
  const int own = way.from ? way.first + way.arrived : static_cast<int>(options.arguments);
  Way::Variables given;
  for (const auto& step : way.steps)
    for (const int input : step.inputs)
      if (input < own) given.insert(input);
  for (const int variable : given) maker.give(variable);
  for (const Program::Constant& constant : way.constants) maker.add(constant);
  for (const Program::Instruction& step : way.steps) maker.add(step);
  for (const int variable : way.kept)
    if (variable >= own) maker.make(variable);
  maker.end(options);
  way.shortened = true;
}

void prepare(Way& way, const PieceOptions& options) {
  if (!way.shortened) shorten(way, options);
  plan(way.piece, options);
  if (way.tries) prepare_trial(way, *way.tries, options);
  way.ready = true;
}

}  // namespace stave_detail
