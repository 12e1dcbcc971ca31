// Reverse mode of `loop` (core/program/loop.h).
//
// A forward loop also returns the residuals of all steps as stacks, one row per step. A backward
// loop goes through the steps in reverse order. It carries the cotangents of the states, and for
// each still value the sum of its cotangents so far, to which each step adds as a tape does.
//
// If steps read slices of a still value, the backward loop carries a sum for each slice
// (loop_slices.h).
//
// If the stacks would be too large, the loop becomes a loop of loops: the inner loops
// rematerialise their residuals, one inner loop after another, and go on with the same sums. If the
// initial value of a state is used elsewhere too, the first step is differentiated by a tape of its
// own: the readers of that value in the first step then add to the same sum as all its other
// readers.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include <stave/core/op/function.h>
#include <stave/core/op/rematerialization_barrier.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/layout_rules.h>
#include <stave/core/program/loop.h>
#include <stave/handlers/compile/derive.h>
#include <stave/handlers/compile/loop_parts.h>
#include <stave/handlers/compile/loop_slices.h>
#include <stave/handlers/transforms/vjp_flat.h>

namespace stave_detail {

namespace {

constexpr std::uint64_t most_stacked = std::uint64_t{64} << 20;  // bytes of residuals

bool is_float_in(const Program& program, int variable) { return is_inexact(program.variable(variable).dtype); }

// Returns a mask of the inputs to which cotangents flow from these outputs.
Mask inputs_by(const Program& body, const Mask& outputs) {
  return reach_derivatives(body, select(outputs, body.outputs), Direction::backward).at(body.inputs);
}

using Cotangents = std::vector<Tensor>;  // undefined: zero
using Sums = AddsToCotangents::Sums;

// The two loops of reverse mode, for cotangents of some outputs.
struct Reverse {
  // Slices of still values. In `by`, `constants` and `adds_in_part` they count as inputs, after the
  // loop's own, in place of the values of which they are slices.
  std::vector<StillSlice> slices;
  // Masks of the outputs (`of`) and of the inputs (`by`) that have cotangents.
  Mask of, by;
  // backward_to_first is `backward` without the first step; null for a loop of fewer than two
  // steps.
  LoopPtr forward, backward, backward_to_first;
  // How many outputs of the forward loop are residuals. They are its last outputs.
  std::size_t stacked = 0;
  // The numbers of those inputs of the loop that are residuals: stacks (`rows`) and still values.
  std::vector<std::size_t> rows, constants;
  // A mask of the still values of which a step reads only a part. A step adds to the same part of
  // the cotangent.
  Mask adds_in_part;
  // The number of bytes of the residuals that a step adds to the stacks.
  std::uint64_t bytes = 0;

  bool has_cotangent(std::size_t input) const {
    return by[input] || std::ranges::any_of(slices, [&](const StillSlice& slice) { return slice.of == input; });
  }
};

// Returns an instruction by which a variable passes through stop_gradient.
Program::Instruction stop_gradient_of(Program& program, int variable) {
  const Program::Variable it = program.variable(variable);
  Program::Instruction stop{&op_stop_gradient};
  stop.inputs.push_back(variable);
  stop.outputs.push_back(program.add_variable(it.shape, it.dtype, it.device));
  return stop;
}

// Changes a body, whose still values begin at input number `still`, in two ways. Outputs without
// cotangents pass through stop_gradient. Still values become outputs too: the cotangent of such an
// output is the sum so far, to which the step adds as a tape does.
void prepare_body(Program& body, std::size_t still, const Mask& of, const Mask& by) {
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (of[i] || !is_float_in(body, body.outputs[i])) continue;
    body.instructions.push_back(stop_gradient_of(body, body.outputs[i]));
    body.outputs[i] = body.instructions.back().outputs[0];
  }
  for (std::size_t i = still; i < by.size(); ++i)
    if (by[i]) body.outputs.push_back(body.inputs[i]);
}

int add_zeros(Program& program, const Program::Variable like) {
  const int variable = program.add_variable(like.shape, like.dtype, like.device);
  Program::Instruction full{&op_full, make_intrusive<FullAttributes>(like.shape, like.dtype, 0, like.device)};
  full.outputs.push_back(variable);
  program.instructions.push_back(std::move(full));
  return variable;
}

// Lets an input pass through stop_gradient before anything reads it.
void make_constant(Program& program, int input) {
  Program::Instruction stop = stop_gradient_of(program, input);
  for (Program::Instruction& step : program.instructions)
    std::replace(step.inputs.begin(), step.inputs.end(), input, stop.outputs[0]);
  std::replace(program.outputs.begin(), program.outputs.end(), input, stop.outputs[0]);
  program.instructions.insert(program.instructions.begin(), std::move(stop));
}

class ReverseMaker {
 public:
  ReverseMaker(const LoopAttributes& loop, Mask of, std::span<const Tensor> inputs) : loop_(loop) {
    reached_in_all_steps(loop, of, [&](const Mask& outputs) { return inputs_by(*loop.body, outputs); });
    auto [body, slices] = with_slices_as_inputs(loop, of);
    made_.of = std::move(of);
    made_.by = inputs_by(body, made_.of);
    made_.slices = std::move(slices);
    prepare_body(body, end_of_rows(loop), made_.of, made_.by);
    std::vector<Tensor> examples = examples_of(loop, inputs);
    const UnderFrame past_all_handlers(nullptr);
    append_slices(examples, made_.slices);
    parts_ = vjp_of(body, made_.by, examples);
    sort_residuals(body.outputs.size());
    find_cotangents(body);
  }

  Reverse make() && {
    make_forward();
    make_backward();
    return std::move(made_);
  }

 private:
  // Sorts the residuals by their place among the backward loop's inputs: stacks that the forward
  // loop returns, rows of the loop's own stacks, and still values. A residual that is a row or a
  // still value is not stored again.
  void sort_residuals(std::size_t results) {
    const Program& first = parts_.first;
    for (std::size_t i = results; i < first.outputs.size(); ++i) {
      const int given = parts_.rest.inputs[i - results];
      const auto input = static_cast<std::size_t>(
          std::find(first.inputs.begin(), first.inputs.end(), first.outputs[i]) - first.inputs.begin());
      if (input < loop_.states || input == first.inputs.size()) {
        stacked_.push_back(first.outputs[i]);
        stacks_.push_back(given);
        made_.bytes += first.variable(first.outputs[i]).bytes();
      } else if (is_row(loop_, input)) {
        made_.rows.push_back(input);
        rows_.push_back(given);
      } else {
        made_.constants.push_back(input);
        still_.push_back(given);
      }
    }
    made_.stacked = stacked_.size();
    residuals_ = first.outputs.size() - results;
  }

  // Finds the variables of the backward part that are cotangents of the outputs, and of the inputs;
  // -1 for an output or input without one. A still value has no cotangent if no step adds to its
  // sum.
  void find_cotangents(const Program& body) {
    std::size_t next = residuals_;
    for (const int output : body.outputs)
      of_outputs_.push_back(is_float_in(body, output) ? parts_.rest.inputs[next++] : -1);
    next = 0;
    for (const bool has : made_.by) of_inputs_.push_back(has ? parts_.rest.outputs[next++] : -1);
    next = loop_.body->outputs.size();
    for (std::size_t i = 0; i < made_.by.size(); ++i) {
      const bool is_still = i >= end_of_rows(loop_) && made_.by[i];
      sums_.push_back(is_still ? of_outputs_[next++] : -1);
      if (is_still && of_inputs_[i] == sums_[i]) made_.by[i] = false;
    }
  }

  void make_forward() {
    Program body = parts_.first;
    take_slices_in(body, made_.slices);
    const std::size_t results = loop_.body->outputs.size();
    body.outputs.resize(results);
    body.outputs.insert(body.outputs.end(), stacked_.begin(), stacked_.end());
    const auto forward = loop_over(loop_, std::move(body), loop_.states, loop_.rows);
    forward->performs(loop_, numbers_to(loop_.body->inputs.size()), numbers_to(results));
    made_.forward = forward;
  }
  static std::vector<std::size_t> numbers_to(std::size_t end) {
    std::vector<std::size_t> numbers(end);
    for (std::size_t i = 0; i < end; ++i) numbers[i] = i;
    return numbers;
  }

  void make_backward() {
    Program body = parts_.rest;
    body.inputs.clear();
    body.outputs.clear();
    const std::size_t results = loop_.body->outputs.size();
    for (std::size_t k = 0; k < loop_.states; ++k) {
      if (!made_.of[k]) continue;
      body.inputs.push_back(of_outputs_[k]);
      body.outputs.push_back(made_.by[k] ? of_inputs_[k] : add_zeros(body, body.variable(of_outputs_[k])));
    }
    for (std::size_t i = end_of_rows(loop_); i < made_.by.size(); ++i) {
      if (!made_.by[i]) continue;
      body.inputs.push_back(sums_[i]);
      body.outputs.push_back(of_inputs_[i]);
    }
    made_.adds_in_part.assign(made_.by.size(), false);
    for (const auto& step : body.instructions)
      for (std::size_t i = end_of_rows(loop_); i < made_.by.size(); ++i)
        if (made_.by[i] && replaces_part(*step.op) && step.inputs[0] == sums_[i]) made_.adds_in_part[i] = true;
    std::fill(made_.adds_in_part.begin() + static_cast<std::ptrdiff_t>(loop_.body->inputs.size()),
              made_.adds_in_part.end(), true);
    const std::size_t states = body.inputs.size();
    for (const auto* list : {&stacks_, &rows_}) body.inputs.insert(body.inputs.end(), list->begin(), list->end());
    for (std::size_t i = loop_.states; i < results; ++i)
      if (made_.of[i]) body.inputs.push_back(of_outputs_[i]);
    const std::size_t rows = body.inputs.size() - states;
    body.inputs.insert(body.inputs.end(), still_.begin(), still_.end());
    for (std::size_t i = loop_.states; i < end_of_rows(loop_); ++i)
      if (made_.by[i]) body.outputs.push_back(of_inputs_[i]);
    // A residual that has no derivative by an input of the loop, such as the factors of a matrix,
    // which solve reads beside the matrix, is a constant for the backward loop's derivative.
    const PerVariable<bool> varies = reach_derivatives(parts_.first, parts_.first.inputs, Direction::forward);
    for (std::size_t k = 0; k < stacked_.size(); ++k)
      if (is_float_in(parts_.first, stacked_[k]) && !varies[stacked_[k]]) make_constant(body, stacks_[k]);
    const auto backward = loop_over(loop_, std::move(body), states, rows);
    backward->reverse = !loop_.reverse;
    made_.backward = backward;
    if (loop_.steps < 2) return;
    const auto to_first = loop_over(*backward, *backward->body, states, rows);
    --to_first->steps;
    made_.backward_to_first = to_first;
  }

  const LoopAttributes& loop_;
  Partition parts_;
  Reverse made_;
  std::size_t residuals_ = 0;
  // Residuals: variables of parts_.first that are stacked, and variables of parts_.rest that are
  // rows of these stacks, rows of the loop's own stacks, or still values.
  std::vector<int> stacked_;
  std::vector<int> stacks_, rows_, still_;
  std::vector<int> of_outputs_, of_inputs_;
  // For a still value, the variable of `parts_.rest` that is the sum of its cotangents so far; else
  // -1.
  std::vector<int> sums_;
};

Tensor or_zeros(const Tensor& x, const Tensor& like) { return x.defined() ? x : zeros_like(like); }
// Returns the sum x; if x is undefined, the value from which a sum starts. That is -0, because any
// cotangent keeps its bits when it is added to -0, even -0 itself. If steps add to parts of the
// sum, the value is 0, as on a tape, which pads the first part with zeros.
Tensor or_start(const Tensor& x, const Tensor& like, bool in_part = false) {
  return x.defined() ? x : full_like(like, in_part ? 0. : -0.);
}

// Returns the sums to which the steps after the first one add. If the initial value of a state is
// the same tensor as a still value, the sum of that state becomes the sum of the still value.
Cotangents sums_of_the_rest(const LoopAttributes& loop, const Sums& sums) {
  Cotangents rest = sums.so_far;
  for (std::size_t i = loop.states; i < rest.size(); ++i)
    if (const std::size_t first = sums.same_as[i]; first < loop.states && rest[first].defined())
      rest[i] = std::exchange(rest[first], Tensor());
  return rest;
}

// Adds the cotangents of the states to the sums.
Cotangents with_states_added(const LoopAttributes& loop, const Cotangents& cotangents, Cotangents sums) {
  for (std::size_t k = 0; k < loop.states; ++k) {
    if (!sums[k].defined()) sums[k] = cotangents[k];
    else if (cotangents[k].defined()) sums[k] = sums[k] + cotangents[k];
  }
  return sums;
}

// The first step of a loop without stacks, recorded on a tape. Inputs that are the same tensor are
// one value on the tape.
class FirstStep {
 public:
  FirstStep(const LoopAttributes& loop, const Inputs& inputs, const Sums& sums) : loop_(loop), sums_(sums) {
    std::vector<Tensor> values;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::size_t same = sums.same_as[i];
      place_.push_back(same < i ? place_[same] : is_inexact(inputs[i].dtype()) ? static_cast<int>(values.size()) : -1);
      if (place_[i] == static_cast<int>(values.size())) values.push_back(inputs[i]);
    }
    const auto step = [&](std::span<const Tensor> xs) {
      std::vector<Tensor> given(inputs.begin(), inputs.end());
      for (std::size_t i = 0; i < given.size(); ++i)
        if (place_[i] >= 0) given[i] = xs[static_cast<std::size_t>(place_[i])];
      Outputs all = (*loop.body)(given);
      // The inputs are outputs too, and the sums so far are the cotangents of these outputs.
      all.append(xs.begin(), xs.end());
      return all;
    };
    tape_ = vjp_flat(step, values, "loop", numbered_inputs, {.recompute = Recompute::never});
  }

  /// The states after the first step.
  std::span<const Tensor> states() const { return {tape_.outputs.begin(), loop_.states}; }

  /// Returns the sums of all inputs. `of_states` are the cotangents of the states after this step.
  /// `after` are the sums of the still values after the backward pass of the later steps.
  Cotangents pull_back(const Cotangents& of_states, const Cotangents& after) && {
    std::vector<Tensor> given(of_states.begin(), of_states.begin() + static_cast<std::ptrdiff_t>(loop_.states));
    Mask of;
    for (const Tensor& cotangent : given) of.push_back(cotangent.defined());
    const Mask by = inputs_by(*loop_.body, of);
    const Cotangents before = sums_of_the_rest(loop_, sums_);
    given.resize(tape_.outputs.size());
    Mask has(place_.size());
    for (std::size_t i = 0; i < place_.size(); ++i) {
      if (place_[i] < 0) continue;
      const std::size_t first = sums_.same_as[i];
      const Tensor& sum = i < loop_.states ? before[i] : after[i];
      has[first] = has[first] || by[i] || sum.defined();
      Tensor& to = given[loop_.states + static_cast<std::size_t>(place_[i])];
      if (sum.defined()) to = to.defined() ? to + sum : sum;
    }
    const std::vector<Tensor> found = tape_.pullback.consume(given);
    Cotangents all(place_.size());
    for (std::size_t i = 0; i < place_.size(); ++i)
      if (has[i]) all[i] = found[static_cast<std::size_t>(place_[i])];
    return all;
  }

 private:
  const LoopAttributes& loop_;
  const Sums& sums_;
  std::vector<int> place_;  // for each input, its number on the tape; -1: not a float
  FlatVjp tape_;
};

// Runs the forward loop, then the backward loop. If `first_apart`, a tape differentiates the first
// step.
Cotangents pull_back(const LoopAttributes& loop, const Reverse& reverse, const Inputs& inputs,
                     const Cotangents& cotangents, const Sums& sums, bool first_apart) {
  if (loop.steps == 0) return with_states_added(loop, cotangents, sums.so_far);
  const Cotangents before = first_apart ? sums_of_the_rest(loop, sums) : sums.so_far;
  if (loop.steps == 1 && first_apart) return FirstStep(loop, inputs, sums).pull_back(cotangents, before);
  const Outputs results = perform_loop(reverse.forward, inputs);
  Inputs all = inputs, given;
  append_slices(all, reverse.slices);
  Cotangents of = before;
  append_slices(of, reverse.slices);
  for (std::size_t k = 0; k < loop.states; ++k)
    if (reverse.of[k]) given.push_back(or_start(cotangents[k], results[k]));
  for (std::size_t i = end_of_rows(loop); i < all.size(); ++i)
    if (reverse.by[i]) given.push_back(or_start(of[i], all[i], reverse.adds_in_part[i]));
  for (const Tensor& stack : std::span(results.end() - static_cast<std::ptrdiff_t>(reverse.stacked), reverse.stacked))
    given.push_back(first_apart ? entries(stack, 0, 1, loop.steps - 1) : stack);
  for (const std::size_t i : reverse.rows) given.push_back(inputs[i]);
  for (std::size_t i = loop.states; i < cotangents.size(); ++i)
    if (reverse.of[i]) given.push_back(or_zeros(cotangents[i], results[i]));
  for (const std::size_t i : reverse.constants) given.push_back(all[i]);

  const Outputs found = perform_loop(first_apart ? reverse.backward_to_first : reverse.backward, std::move(given));
  const Tensor* next = found.begin();
  for (std::size_t k = 0; k < loop.states; ++k) {
    if (first_apart) of[k] = Tensor();
    if (!reverse.of[k]) continue;
    if (reverse.by[k]) of[k] = of[k].defined() ? of[k] + *next : *next;
    ++next;
  }
  for (std::size_t i = end_of_rows(loop); i < all.size(); ++i)
    if (reverse.by[i]) of[i] = *next++;
  for (std::size_t i = loop.states; i < end_of_rows(loop); ++i)
    if (reverse.by[i]) of[i] = *next++;
  for (std::size_t s = 0; s < reverse.slices.size(); ++s) {
    const StillSlice& slice = reverse.slices[s];
    if (!reverse.by[inputs.size() + s]) continue;
    of[slice.of] = slice.replaced(or_zeros(of[slice.of], inputs[slice.of]), of[inputs.size() + s]);
  }
  of.resize(inputs.size());
  if (!first_apart) return of;
  return FirstStep(loop, inputs, sums).pull_back(of, of);
}

// ---- loops of loops -----------------------------------------------------------------------------

// A loop in two parts: a loop of the first few steps, and then a loop whose steps are loops of many
// steps each.
struct SplitLoop {
  LoopPtr few, many;
};

Program body_of_steps(const IntrusivePtr<LoopAttributes>& inner) {
  Program body;
  Program::Instruction step = instruction_of(inner);
  const auto add = [&](int variable, bool is_stack) {
    const Program::Variable& it = inner->body->variable(variable);
    Shape shape = it.shape;
    if (is_stack) shape.insert(shape.begin(), inner->steps);
    return body.add_variable(std::move(shape), it.dtype, it.device);
  };
  for (std::size_t i = 0; i < inner->body->inputs.size(); ++i)
    step.inputs.push_back(body.inputs.emplace_back(add(inner->body->inputs[i], is_row(*inner, i))));
  for (std::size_t i = 0; i < inner->body->outputs.size(); ++i)
    step.outputs.push_back(body.outputs.emplace_back(add(inner->body->outputs[i], i >= inner->states)));
  body.instructions.push_back(std::move(step));
  return body;
}

SplitLoop split_loop(const LoopAttributes& loop, Index steps_each) {
  const Index count = loop.steps / steps_each;
  const auto few = loop_over(loop, *loop.body, loop.states, loop.rows);
  few->steps = loop.steps - count * steps_each;
  const auto inner = loop_over(loop, *loop.body, loop.states, loop.rows);
  inner->steps = steps_each;
  inner->rematerializes = true;
  const auto many = loop_over(loop, body_of_steps(inner), loop.states, loop.rows);
  many->steps = count;
  return {few, many};
}

// Returns the rows of a stack for one of the two parts: those of the few steps, which come first,
// or those of the many steps, grouped by inner loop.
Tensor rows_of(const Tensor& stack, const LoopAttributes& loop, const SplitLoop& two, bool of_few) {
  const Index few = two.few->steps, many = loop.steps - few;
  const bool from_start = of_few != loop.reverse;
  const Tensor rows = entries(stack, 0, from_start ? 0 : of_few ? many : few, of_few ? few : many);
  if (of_few) return rows;
  Shape shape = stack.shape();
  shape[0] = many / two.many->steps;
  shape.insert(shape.begin(), two.many->steps);
  return reshape(rows, shape);
}
Tensor joined_rows(const Tensor& few, const Tensor& many, const Tensor& like, bool reverse) {
  if (!few.defined() && !many.defined()) return Tensor();
  Shape shape = like.shape();
  shape[0] -= few.defined() ? few.shape(0) : 0;
  const Tensor flat = many.defined() ? reshape(many, shape) : Tensor();
  if (!few.defined()) return flat;
  return reverse ? concat({flat, few}) : concat({few, flat});
}

Cotangents pull_back(const LoopAttributes& loop, const Inputs& inputs, const Cotangents& cotangents, const Sums& sums);

Cotangents pull_back_split(const LoopAttributes& loop, const SplitLoop& two, const Inputs& inputs,
                           const Cotangents& cotangents, const Sums& sums) {
  const auto part = [&](const auto& all, std::size_t begin, std::size_t end, bool of_few) {
    auto some = all;
    for (std::size_t i = begin; i < end; ++i)
      if (some[i].defined()) some[i] = rows_of(some[i], loop, two, of_few);
    return some;
  };
  const Inputs of_few = part(inputs, loop.states, end_of_rows(loop), true);
  Inputs of_many = part(inputs, loop.states, end_of_rows(loop), false);
  const Outputs between = perform_loop(two.few, of_few);
  std::copy_n(between.begin(), loop.states, of_many.begin());
  // The states between the two parts are read only by the second part, so their sums are empty.
  Sums first = sums;
  std::fill_n(first.so_far.begin(), loop.states, Tensor());
  std::iota(first.same_as.begin(), first.same_as.end(), std::size_t{0});
  const Cotangents late = pull_back(*two.many, of_many, part(cotangents, loop.states, cotangents.size(), false), first);
  Cotangents given = part(cotangents, loop.states, cotangents.size(), true);
  std::copy_n(late.begin(), loop.states, given.begin());
  // Only the sums of still values go on from the second part to the first. The states and rows of
  // the two parts are different values, each with a sum of its own.
  Sums then{late, sums.same_as};
  std::copy_n(sums.so_far.begin(), end_of_rows(loop), then.so_far.begin());
  Cotangents found = pull_back(*two.few, of_few, given, then);
  for (std::size_t i = loop.states; i < end_of_rows(loop); ++i)
    found[i] = joined_rows(or_zeros(found[i], of_few[i]), or_zeros(late[i], of_many[i]), inputs[i], loop.reverse);
  return found;
}

// Returns true if the initial value of a state has other readers, which add cotangents to the same
// sum. Returns false for loops with stacks, such as scans and derivatives of loops.
bool adds_with_others(const LoopAttributes& loop, const Reverse& reverse, const Sums& sums) {
  if (loop.rows > 0 || loop.rows_given() > 0 || loop.reverse || loop.steps == 0) return false;
  for (std::size_t i = 0; i < sums.same_as.size(); ++i) {
    const std::size_t first = sums.same_as[i];
    if (first < loop.states && (reverse.has_cotangent(first) || reverse.has_cotangent(i)) &&
        (first < i || sums.so_far[i].defined()))
      return true;
  }
  return false;
}

Cotangents pull_back(const LoopAttributes& loop, const Inputs& inputs, const Cotangents& cotangents, const Sums& sums) {
  Mask of;
  for (const Tensor& cotangent : cotangents) of.push_back(cotangent.defined());
  const auto reverse = loop.derived(derived_key("vjp", of), [&] { return ReverseMaker(loop, of, inputs).make(); });
  const bool first_apart = adds_with_others(loop, *reverse, sums);
  const auto room = static_cast<Index>(most_stacked / std::max<std::uint64_t>(reverse->bytes, 1));
  const Index most = std::max<Index>(loop.snapshots > 0 ? loop.snapshots : room, 2);
  if (loop.steps <= most) return pull_back(loop, *reverse, inputs, cotangents, sums, first_apart);
  if (first_apart) {
    const auto rest = loop.derived("but the first", [&] {
      const auto steps = loop_over(loop, *loop.body, loop.states, loop.rows);
      --steps->steps;
      return LoopPtr(steps);
    });
    FirstStep first(loop, inputs, sums);
    Inputs after(inputs);
    std::copy(first.states().begin(), first.states().end(), after.begin());
    Sums of_rest{sums_of_the_rest(loop, sums), sums.same_as};
    std::fill_n(of_rest.so_far.begin(), loop.states, Tensor());
    std::iota(of_rest.same_as.begin(), of_rest.same_as.end(), std::size_t{0});
    const Cotangents late = pull_back(**rest, after, cotangents, of_rest);
    return std::move(first).pull_back(late, late);
  }
  const auto two = loop.derived("in two", [&] {
    const auto root = static_cast<Index>(std::ceil(std::sqrt(static_cast<double>(loop.steps))));
    return split_loop(loop, loop.snapshots > 0 ? (loop.steps + most - 1) / most : std::min(most, root));
  });
  return pull_back_split(loop, *two, inputs, cotangents, sums);
}

}  // namespace

// The rows that a step reads have no sums of their own, only the whole stack has. So the cotangent
// of a stack is computed as a stack, and then added to the sum so far.
std::vector<Tensor> loop_pull_back(const VjpContext& c, Sums sums) {
  const auto& loop = c.as<LoopAttributes>();
  std::optional<RematerializationBarrier> apart;
  if (loop.rematerializes) apart.emplace();
  Cotangents cotangents(c.cotangents.begin(), c.cotangents.end());
  cotangents.resize(loop.body->outputs.size());
  Cotangents of_rows(sums.so_far.size());
  for (std::size_t i = loop.states; i < end_of_rows(loop); ++i) std::swap(of_rows[i], sums.so_far[i]);
  Cotangents found = pull_back(loop, Inputs(c.inputs), cotangents, sums);
  for (std::size_t i = loop.states; i < end_of_rows(loop); ++i)
    if (of_rows[i].defined()) found[i] = found[i].defined() ? of_rows[i] + found[i] : of_rows[i];
  return found;
}

Tensor loop_vjp(const VjpContext& c, int input) {
  const Outputs found = c.once([&] {
    Sums none{Cotangents(c.inputs.size()), std::vector<std::size_t>(c.inputs.size())};
    std::iota(none.same_as.begin(), none.same_as.end(), std::size_t{0});
    const Cotangents all = loop_pull_back(c, std::move(none));
    return Outputs(all.begin(), all.end());
  });
  const auto i = static_cast<std::size_t>(input);
  return found[i].defined() ? found[i] : c.zeros(i);
}

}  // namespace stave_detail
