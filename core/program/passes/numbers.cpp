// Scalar replacement of small arrays: each element becomes a variable of its own. Operations that
// move elements (slices, concat, pad ...) then cost nothing, and the computation of all elements
// becomes one region. This makes programs faster for which there is no machine code
// (core/program/native.h): a simulation of a thousand steps by `loop` takes five times as long
// without this pass.
#include <algorithm>
#include <map>

#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/program/dataflow.h>
#include <stave/core/program/passes/passes.h>
#include <stave/core/program/region.h>

namespace stave {

using namespace stave_detail;

namespace {

constexpr Index most_elements = 8;

// Returns true if the pass applies to the program: all arrays are small and on the CPU, all
// operations are elementwise or move elements, and there is a slice, a concat or a pad.
bool can_be_split(const Program& program) {
  const auto is_small = [](const Program::Variable& it) {
    return it.device == cpu && !is_complex(it.dtype) && it.shape.elements() > 0 && it.shape.elements() <= most_elements;
  };
  std::vector<int> used = program.inputs;
  bool any = false;
  for (const auto& step : program.instructions) {
    if (step.is_read() || !(step.op->moves_elements || Region::admits(*step.op))) return false;
    used.insert(used.end(), step.inputs.begin(), step.inputs.end());
    used.insert(used.end(), step.outputs.begin(), step.outputs.end());
    any |= step.op->id == OpId::slice || step.op->id == OpId::concat || step.op->id == OpId::pad;
  }
  return any && std::all_of(used.begin(), used.end(), [&](int v) { return is_small(program.variable(v)); });
}

class Splitter {
 public:
  explicit Splitter(const Program& from) : from_(from), constants_(from) {
    to_.variables = from.variables;
    to_.inputs = from.inputs;
    for (const int input : from.inputs)
      if (!elements_.contains(input)) elements_[input] = split(input);
  }

  Program run() {
    for (const auto& step : from_.instructions)
      elements_[step.outputs[0]] = step.op->moves_elements ? moved(step) : computed(step);
    for (const int output : from_.outputs) {
      const bool is_given =
          output < 0 || std::find(from_.inputs.begin(), from_.inputs.end(), output) != from_.inputs.end();
      to_.outputs.push_back(is_given ? output : joined(output));
    }
    return std::move(to_);
  }

 private:
  using Elements = std::vector<std::int64_t>;  // variables of rank 0, in row-major order

  int add(Program::Instruction step, Shape shape, Dtype dtype) {
    step.outputs = {to_.add_variable(std::move(shape), dtype)};
    to_.instructions.push_back(std::move(step));
    return to_.instructions.back().outputs[0];
  }
  int reshaped(int variable, const Shape& shape) {
    if (to_.variable(variable).shape == shape) return variable;
    return add({&op_reshape, make_intrusive<ShapeAttributes>(shape), {variable}}, shape, to_.variable(variable).dtype);
  }
  int constant(Tensor value) {
    const int variable = to_.add_variable({}, value.dtype());
    to_.constants.push_back({variable, std::move(value)});
    return variable;
  }

  Elements split(int input) {
    const Index n = to_.variable(input).shape.elements();
    const Dtype dtype = to_.variable(input).dtype;
    if (to_.variable(input).shape.empty()) return {input};
    const int flat = reshaped(input, {n});
    Elements elements;
    for (Index i = 0; i < n; ++i)
      elements.push_back(reshaped(
          add({&op_slice, make_intrusive<SliceAttributes>(Shape{i}, Shape{1}, Shape{1}), {flat}}, {1}, dtype), {}));
    return elements;
  }
  int joined(int output) {
    const Program::Variable it = from_.variable(output);
    const Elements& elements = of(output);
    if (it.shape.empty()) return static_cast<int>(elements[0]);
    Program::Instruction concat{&op_concat, make_intrusive<AxisAttributes>(0)};
    for (const std::int64_t element : elements) concat.inputs.push_back(reshaped(static_cast<int>(element), {1}));
    return reshaped(add(std::move(concat), {it.shape.elements()}, it.dtype), it.shape);
  }

  const Elements& of(int variable) {
    const auto [found, is_new] = elements_.try_emplace(variable);
    if (is_new) {
      const Tensor value = contiguous(*constants_.find(variable));
      for (Index i = 0; i < value.size(); ++i)
        found->second.push_back(constant(view_of(value, {}, {}, value.node().offset + i)));
    }
    return found->second;
  }

  // Returns the element variables of the output of an operation that moves elements. To find them,
  // performs the operation on arrays of variable numbers instead of values.
  Elements moved(const Program::Instruction& step) {
    AttributesPtr attributes = step.attributes;
    std::int64_t padding = -1;
    if (step.op->id == OpId::pad) {
      const auto& pad = static_cast<const PadAttributes&>(*attributes);
      padding = constant(stave_detail::constant(pad.value, from_.variable(step.outputs[0]).dtype, {}, cpu));
      attributes = make_intrusive<PadAttributes>(pad.shape, pad.starts, pad.steps, padding);
    }
    Inputs numbers;
    for (const int input : step.inputs) numbers.push_back(stave::from(of(input), from_.variable(input).shape));
    return apply(*step.op, std::move(numbers), attributes).to_vector<std::int64_t>();
  }
  Elements computed(const Program::Instruction& step) {
    const Program::Variable& it = from_.variable(step.outputs[0]);
    Elements elements;
    for (std::size_t i = 0; i < static_cast<std::size_t>(it.shape.elements()); ++i) {
      Program::Instruction one = step;
      for (int& input : one.inputs) input = static_cast<int>(of(input)[i]);
      elements.push_back(add(std::move(one), {}, it.dtype));
    }
    return elements;
  }

  const Program& from_;
  const Constants constants_;
  Program to_;
  std::map<int, Elements> elements_;
};

}  // namespace

Program with_small_arrays_split(Program program) {
  if (!can_be_split(program)) return program;
  const UnderFrame past_all_handlers(nullptr);
  return without_dead_code(without_repetitions(simplified(with_constants_folded(Splitter(program).run()))));
}

}  // namespace stave
