#include <stave/core/program/loop.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/program/dataflow.h>
#include <stave/core/program/executable.h>
#include <stave/core/program/passes/passes.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/storage.h>

namespace stave_detail {

namespace {

// Returns a copy of the loop that runs by kernels alone, without what only derivatives and passes
// use (snapshots, rematerializes, also_body).
IntrusivePtr<const LoopAttributes> loop_of_kernels(const LoopAttributes& loop) {
  IntrusivePtr<LoopAttributes> copy(new LoopAttributes);
  copy->steps = loop.steps;
  copy->reverse = loop.reverse;
  copy->states = loop.states;
  copy->rows = loop.rows;
  copy->runs_kernels = true;
  copy->body = std::make_shared<const Program>(with_kernels_alone(*loop.body));
  return copy;
}

Shape stacked(Index steps, Shape row) {
  row.insert(row.begin(), steps);
  return row;
}

void infer_loop(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const auto& loop = call.as<LoopAttributes>();
  const Program& body = *loop.body;
  const auto inputs = call.inputs();
  if (inputs.size() != body.inputs.size())
    fail<TransformError>("loop: its body takes {} values, not {}", body.inputs.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Program::Variable& wanted = body.variable(body.inputs[i]);
    const bool is_stack = i >= loop.states && i < loop.states + loop.rows;
    const Shape shape = is_stack ? stacked(loop.steps, wanted.shape) : wanted.shape;
    if (inputs[i].shape() != shape)
      fail<ShapeError>("loop: input {} has the shape {}, not {}", i, inputs[i].shape(), shape);
    if (inputs[i].dtype() != wanted.dtype)
      fail<DtypeError>("loop: input {} is {}, not {}", i, inputs[i].dtype(), wanted.dtype);
  }
  for (std::size_t i = 0; i < body.outputs.size(); ++i) {
    const Program::Variable& given = body.variable(body.outputs[i]);
    outputs.push_back({i < loop.states ? given.shape : stacked(loop.steps, given.shape), given.dtype});
  }
}

// ---- the kernel ---------------------------------------------------------------------------------

// Replaces each output that is a view, an input, a constant or a repetition of an earlier output by
// a copy.
Program with_outputs_apart(Program program) {
  PerVariable<bool> is_own(program);
  for (const auto& step : program.instructions)
    for (const int output : step.outputs) is_own[output] = !is_view(step);
  for (int& output : program.outputs) {
    if (is_own[output]) {
      is_own[output] = false;
      continue;
    }
    const Program::Variable it = program.variable(output);
    Program::Instruction copy{&op_copy};
    copy.inputs.push_back(output);
    output = program.add_variable(it.shape, it.dtype, it.device);
    copy.outputs.push_back(output);
    program.instructions.push_back(std::move(copy));
  }
  return program;
}

// The place of a state between two steps: an output stack whose rows are this state before or after
// each step, so that the state need not be copied there, or else memory of the loop.
struct StatePlace {
  int stack = -1;            // the index among the output stacks; -1 for none
  bool before_step = false;  // row i is the state before step i, and not the one after it
};

}  // namespace

/// The body of a loop as an Executable. Its outputs are the states, and the rows of the output
/// stacks other than those in which a state lies.
class LoopExecutable {
 public:
  explicit LoopExecutable(const LoopAttributes& loop) : places_(loop.states) {
    Program body = *optimized_body(loop, BodyFor::kernels);
    place_states(body);
    body = with_outputs_apart(std::move(body));
    std::vector<Strides> strides;
    for (const int input : body.inputs) strides.push_back(contiguous_strides(body.variable(input).shape));
    // A step may compute a state in the memory of the old state.
    std::vector<int> over(body.outputs.size(), -1);
    for (std::size_t k = 0; k < loop.states; ++k)
      if (places_[k].stack < 0) over[k] = static_cast<int>(k);
    const Native native = loop.runs_kernels ? Native::never : Native::automatic;
    const auto runs = static_cast<double>(loop.steps);
    steps_.emplace(body, strides, ExecutableSettings{.over = over, .native = native, .runs = runs});
  }

  const Executable& steps() const { return *steps_; }
  StatePlace place(std::size_t state) const { return places_[state]; }
  /// The indices of the output stacks whose rows are outputs of the Executable.
  const std::vector<std::size_t>& results() const { return results_; }

 private:
  // Finds for each state an output stack whose rows are the state before or after each step, and
  // makes it the place of the state. Removes the rows of such stacks from the outputs of the body,
  // because they are written along with the states.
  void place_states(Program& body) {
    const std::size_t states = places_.size();
    const auto has_place = [&](const auto& first, int result, StatePlace place) {
      for (std::size_t k = 0; k < states; ++k)
        if (places_[k].stack < 0 && first[k] == result) return places_[k] = place, true;
      return false;
    };
    std::vector<int> outputs(body.outputs.begin(), body.outputs.begin() + static_cast<std::ptrdiff_t>(states));
    for (std::size_t j = 0; j < body.outputs.size() - states; ++j) {
      const int result = body.outputs[states + j];
      if (has_place(body.inputs, result, {static_cast<int>(j), true})) continue;
      if (has_place(body.outputs, result, {static_cast<int>(j), false})) continue;
      outputs.push_back(result);
      results_.push_back(j);
    }
    body.outputs = std::move(outputs);
  }

  std::vector<StatePlace> places_;
  std::vector<std::size_t> results_;
  std::optional<const Executable> steps_;
};

namespace {

// One run of a loop. Each step writes a state to its place in an output stack. A state without such
// a place is written alternately to the caller's output array and to memory of the loop, so that
// the last step writes to the caller's array. A state of which each step changes only a part stays
// in the caller's array.
class RunningLoop {
 public:
  RunningLoop(const LoopAttributes& loop, std::span<const View> in, std::span<const View> out)
      : loop_(loop), body_(loop.executable()), in_(in), out_(out), given_(stacks_of(out)), spare_offsets_(loop.states) {
    std::size_t bytes = 0;
    for (std::size_t k = 0; k < loop.states; ++k) {
      spare_offsets_[k] = bytes;
      if (body_.place(k).stack < 0) bytes += (bytes_of(out[k]) + 63) / 64 * 64;
    }
    if (loop.steps > 1) spare_ = allocate_storage(loop.device(), uint8, {static_cast<Index>(bytes)}, "loop");
  }

  void run() {
    Executable::Steps body(body_.steps());
    std::vector<void*> inputs = addresses_of(in_), outputs(loop_.states + body_.results().size());
    for (std::size_t k = 0; k < loop_.states; ++k) {
      if (const StatePlace place = body_.place(k); place.stack >= 0 && place.before_step)
        copy_state(k, in_[k], inputs[k] = row(place, 0));
      if (!body_.steps().is_in_input(k)) continue;
      copy_state(k, in_[k], out_[k].data);
      inputs[k] = outputs[k] = out_[k].data;
    }
    const std::vector<Stack> read = stacks_of(in_.first(loop_.states + loop_.rows));
    for (Index step = 0; step < loop_.steps; ++step) {
      for (std::size_t k = 0; k < loop_.states; ++k) {
        if (body_.steps().is_in_input(k)) continue;
        if (step > 0) inputs[k] = outputs[k];
        outputs[k] = state_after(k, step);
      }
      for (std::size_t k = 0; k < read.size(); ++k) inputs[loop_.states + k] = read[k].row(row_number(step));
      for (std::size_t k = 0; k < body_.results().size(); ++k)
        outputs[loop_.states + k] = given_[body_.results()[k]].row(row_number(step));
      body.run(inputs, outputs);
    }
    for (std::size_t k = 0; k < loop_.states; ++k)
      if (outputs[k] != out_[k].data) copy_state(k, at(k, outputs[k]), out_[k].data);
  }

 private:
  struct Stack {
    char* begin;
    std::size_t bytes;  // the size of one row
    void* row(Index i) const { return begin + static_cast<std::size_t>(i) * bytes; }
  };

  static std::size_t bytes_of(const View& view) {
    return static_cast<std::size_t>(Shape(view.shape).elements()) * size_of(view.dtype);
  }
  // Returns the stacks (arrays of rows, one per step) among the views, which follow the states.
  std::vector<Stack> stacks_of(std::span<const View> views) const {
    std::vector<Stack> stacks;
    for (const View& view : views.subspan(loop_.states))
      stacks.push_back({static_cast<char*>(view.data), bytes_of(view) / static_cast<std::size_t>(loop_.steps)});
    return stacks;
  }
  Index row_number(Index step) const { return loop_.reverse ? loop_.steps - 1 - step : step; }
  void* row(StatePlace place, Index step) const {
    return given_[static_cast<std::size_t>(place.stack)].row(row_number(step));
  }
  void* state_after(std::size_t k, Index step) const {
    const StatePlace place = body_.place(k);
    if (place.stack >= 0 && !place.before_step) return row(place, step);
    if (place.stack >= 0) return step + 1 < loop_.steps ? row(place, step + 1) : out_[k].data;
    return (loop_.steps - step) % 2 ? out_[k].data : static_cast<char*>(spare_->data) + spare_offsets_[k];
  }
  // The view of a state at this address.
  View at(std::size_t k, void* data) const {
    View view = out_[k];
    view.data = data;
    return view;
  }
  void copy_state(std::size_t k, const View& from, void* to) const {
    const View target = at(k, to);
    backend_of(loop_.device()).run(op_copy, nullptr, {&from, 1}, {&target, 1});
  }

  const LoopAttributes& loop_;
  const LoopExecutable& body_;
  const std::span<const View> in_, out_;
  const std::vector<Stack> given_;
  std::vector<std::size_t> spare_offsets_;
  StoragePtr spare_;
};

void run_loop(const Attributes* attributes, std::span<const View> in, std::span<const View> out) {
  const auto& loop = static_cast<const LoopAttributes&>(*attributes);
  if (loop.steps > 0) return RunningLoop(loop, in, out).run();
  for (std::size_t k = 0; k < loop.states; ++k)
    backend_of(loop.device()).run(op_copy, nullptr, in.subspan(k, 1), out.subspan(k, 1));
}

// ---- step by step -------------------------------------------------------------------------------

Outputs perform_steps(const LoopAttributes& loop, const Inputs& inputs) {
  std::vector<Tensor> values(inputs.begin(), inputs.end());
  std::vector<std::vector<Tensor>> rows(loop.rows_given(), std::vector<Tensor>(static_cast<std::size_t>(loop.steps)));
  for (Index step = 0; step < loop.steps; ++step) {
    const Index row = loop.reverse ? loop.steps - 1 - step : step;
    for (std::size_t k = loop.states; k < loop.states + loop.rows; ++k) values[k] = inputs[k](row);
    const Outputs given = (*loop.body)(values);
    std::copy_n(given.begin(), loop.states, values.begin());
    for (std::size_t k = 0; k < rows.size(); ++k) rows[k][static_cast<std::size_t>(row)] = given[loop.states + k];
  }
  Outputs outputs(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(loop.states));
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const Program::Variable& it = loop.body->variable(loop.body->outputs[loop.states + k]);
    outputs.push_back(loop.steps > 0 ? stack(rows[k]) : zeros(stacked(0, it.shape), it.dtype, it.device));
  }
  return outputs;
}

const Op op_loop{.name = "loop",
                 .infer = infer_loop,
                 .reads = {~ValueSet::outputs, ~ValueSet::outputs},
                 .jvp = loop_jvp,
                 .series = loop_series,
                 .vjp = loop_vjp,
                 .batch = loop_batch,
                 .cpu = run_loop,
                 .cuda = [](void*, const Attributes* attributes, std::span<const View> in, std::span<const View> out) {
                   run_loop(attributes, in, out);
                 }};

}  // namespace

const LoopAttributes* loop_of(const Program::Instruction& instruction) {
  return instruction.op == &op_loop ? static_cast<const LoopAttributes*>(instruction.attributes.get()) : nullptr;
}

Outputs perform_loop(const IntrusivePtr<const LoopAttributes>& attributes, Inputs inputs) {
  const Frame* const handler = current ? current->nearest : nullptr;
  if (handler && !handler->runs_no_user_code) return perform_steps(*attributes, inputs);
  return perform(Call(op_loop, std::move(inputs), attributes));
}

Program::Instruction instruction_of(IntrusivePtr<const LoopAttributes> loop) { return {&op_loop, std::move(loop)}; }

std::shared_ptr<const Program> optimized_body(const LoopAttributes& loop, BodyFor by) {
  const bool hoists = by == BodyFor::kernels;
  return loop.derived(hoists ? "body for kernels" : "body for machine code",
                      [&] { return optimized(with_calls_inlined(*loop.body), {.hoists_from_loops = hoists}); });
}

Program with_kernels_alone(Program program) {
  for (Program::Instruction& step : program.instructions)
    if (const LoopAttributes* const loop = loop_of(step); loop && !loop->runs_kernels)
      step.attributes = loop_of_kernels(*loop);
  return program;
}

bool may_be_body(const Program& program) {
  return Executable::admits(program) &&
         std::none_of(program.outputs.begin(), program.outputs.end(), [](int output) { return output < 0; });
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

LoopAttributes::LoopAttributes() = default;
LoopAttributes::~LoopAttributes() = default;

std::string LoopAttributes::str() const {
  std::string text = fmt::format("steps={} states={}", steps, states);
  if (rows) text += fmt::format(" rows={}", rows);
  if (reverse) text += " reverse";
  if (snapshots) text += fmt::format(" snapshots={}", snapshots);
  return text;
}

bool LoopAttributes::equals(const Attributes& with) const {
  const auto& other = static_cast<const LoopAttributes&>(with);
  return steps == other.steps && reverse == other.reverse && states == other.states && rows == other.rows &&
         snapshots == other.snapshots && rematerializes == other.rematerializes && same_program(*body, *other.body);
}

std::vector<Tensor> LoopAttributes::pull_back(const VjpContext& c, const Sums& sums) const {
  return loop_pull_back(c, sums);
}

void LoopAttributes::performs(const LoopAttributes& other, const std::vector<std::size_t>& inputs,
                              const std::vector<std::size_t>& outputs) {
  const auto find = [](const std::vector<std::size_t>& numbers, std::size_t count) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < count; ++i)
      if (const auto found = std::find(numbers.begin(), numbers.end(), i); found != numbers.end())
        places.push_back(static_cast<std::size_t>(found - numbers.begin()));
    return places;
  };
  also_inputs = find(inputs, other.body->inputs.size());
  also_outputs = find(outputs, other.body->outputs.size());
  const bool performs_all =
      also_inputs.size() == other.body->inputs.size() && also_outputs.size() == other.body->outputs.size();
  if (performs_all) also_body = other.body;
}

const LoopExecutable& LoopAttributes::executable() const {
  if (const LoopExecutable* made = made_.load(std::memory_order_acquire)) return *made;
  const std::lock_guard lock(making_);  // CMakeLists.txt says why this is not std::call_once
  if (!executable_) {
    executable_ = std::make_unique<const LoopExecutable>(*this);
    made_.store(executable_.get(), std::memory_order_release);
  }
  return *executable_;
}

}  // namespace stave
