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

// Replaces each output that is a view, an input, a constant or a repeated output by a copy.
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

// One run of a loop. Each step writes its states alternately to the caller's output arrays and to
// memory of the loop, so that the last step writes to the caller's arrays. If each step changes
// only a part of a state, the state stays in the caller's array.
class RunningLoop {
 public:
  RunningLoop(const LoopAttributes& loop, std::span<const View> in, std::span<const View> out)
      : loop_(loop), in_(in), out_(out), spare_offsets_(loop.states) {
    std::size_t bytes = 0;
    for (std::size_t k = 0; k < loop.states; ++k) {
      spare_offsets_[k] = bytes;
      bytes += (bytes_of(out[k]) + 63) / 64 * 64;
    }
    if (loop.steps > 1) spare_ = allocate_storage(loop.device(), uint8, {static_cast<Index>(bytes)}, "loop");
  }

  void run() {
    Executable::Steps body(loop_.executable());
    std::vector<void*> inputs = begins_of(in_), outputs = begins_of(out_);
    for (std::size_t k = 0; k < loop_.states; ++k) {
      if (!loop_.executable().is_in_input(k)) continue;
      backend_of(loop_.device()).run(op_copy, nullptr, in_.subspan(k, 1), out_.subspan(k, 1));
      inputs[k] = out_[k].data;
    }
    const std::vector<Stack> read = stacks_of(in_.first(loop_.states + loop_.rows)), given = stacks_of(out_);
    for (Index step = 0; step < loop_.steps; ++step) {
      const Index row = loop_.reverse ? loop_.steps - 1 - step : step;
      for (std::size_t k = 0; k < loop_.states; ++k) {
        if (loop_.executable().is_in_input(k)) continue;
        if (step > 0) inputs[k] = outputs[k];
        outputs[k] = state(k, step);
      }
      for (std::size_t k = 0; k < read.size(); ++k) inputs[loop_.states + k] = read[k].row(row);
      for (std::size_t k = 0; k < given.size(); ++k) outputs[loop_.states + k] = given[k].row(row);
      body.run(inputs, outputs);
    }
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
  static std::vector<void*> begins_of(std::span<const View> views) {
    std::vector<void*> begins;
    for (const View& view : views) begins.push_back(view.data);
    return begins;
  }
  // Returns the stacks (arrays of rows, one per step) among the views, which follow the states.
  std::vector<Stack> stacks_of(std::span<const View> views) const {
    std::vector<Stack> stacks;
    for (const View& view : views.subspan(loop_.states))
      stacks.push_back({static_cast<char*>(view.data), bytes_of(view) / static_cast<std::size_t>(loop_.steps)});
    return stacks;
  }
  void* state(std::size_t k, Index step) const {
    return (loop_.steps - step) % 2 ? out_[k].data : static_cast<char*>(spare_->data) + spare_offsets_[k];
  }

  const LoopAttributes& loop_;
  const std::span<const View> in_, out_;
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
      places.push_back(static_cast<std::size_t>(std::find(numbers.begin(), numbers.end(), i) - numbers.begin()));
    return places;
  };
  also_body = other.body;
  also_inputs = find(inputs, other.body->inputs.size());
  also_outputs = find(outputs, other.body->outputs.size());
}

const Executable& LoopAttributes::executable() const {
  if (const Executable* made = made_.load(std::memory_order_acquire)) return *made;
  const std::lock_guard lock(making_);  // CMakeLists.txt says why this is not std::call_once
  if (!executable_) {
    const Program program = with_outputs_apart(optimized(*body));
    std::vector<Strides> strides;
    for (const int input : program.inputs) strides.push_back(contiguous_strides(program.variable(input).shape));
    // A step may compute a state in the memory of the old state.
    std::vector<int> over(program.outputs.size(), -1);
    std::iota(over.begin(), over.begin() + static_cast<std::ptrdiff_t>(states), 0);
    executable_ = std::make_unique<const Executable>(program, strides, "compile", over);
    made_.store(executable_.get(), std::memory_order_release);
  }
  return *executable_;
}

}  // namespace stave
