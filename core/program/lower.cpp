#include <stave/core/program/lower.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <stave/core/effects/effect.h>
#include <stave/core/op/all_ops.h>
#include <stave/core/op/notation.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/layout.h>
#include <stave/core/program/dataflow.h>
#include <stave/core/program/fused.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/passes/passes.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>
#include <stave/core/tensor/storage.h>

namespace stave_detail {

// ---- programs -----------------------------------------------------------------------------------

LoweringRule lowering_rule_of(OpId id) {
  static const auto rules = [] {
    std::array<LoweringRule, op_count + 1> found{};  // OpId::own is the last one
    for (const auto family : {lowering_of_layout, lowering_of_reduction, lowering_of_scan, lowering_of_index,
                              lowering_of_product, lowering_of_linalg, lowering_of_random})
      for (std::size_t k = 0; k < found.size(); ++k)
        if (!found[k]) found[k] = family(static_cast<OpId>(k));
    return found;
  }();
  return rules[static_cast<std::size_t>(id)];
}

Array lowered_view(const Array& x, const Program::Instruction& step) {
  const Tensor layout = layout_tensor(x.dtype, cpu, x.shape, x.strides, x.offset);
  const Tensor found = step.op->view(Call(*step.op, Inputs{layout}, step.attributes));
  if (!found.defined()) return {};
  Array y = x;
  y.shape = found.node().shape;
  y.strides = found.node().strides;
  y.offset = found.node().offset;
  return y;
}

Array Lowering::constant(const Tensor& value) {
  const UnderFrame past_all_handlers(nullptr);
  if (is_complex(value.dtype())) {
    const bool is_one = is_one_number(value) && value.size() > 0;
    const Tensor z = is_one ? one_number(value) : value;
    const Array parts = constant(stack({real(z), imag(z)}, -1));
    return is_one ? broadcast(reshaped(parts, {2}), lowered_shape(value.shape(), value.dtype())) : parts;
  }
  const Index elements = value.size();
  const Tensor one = is_one_number(value) && elements > 0 ? one_number(value) : value;
  const auto values_of = [&](const Tensor& x) {
    const Tensor dense = stave::contiguous(x);
    Elements values;
    for (Index i = 0; i < x.size(); ++i) {
      const std::size_t size = size_of(x.dtype());
      std::int64_t bytes = 0;
      std::memcpy(&bytes, static_cast<const char*>(dense.node().data()) + static_cast<std::size_t>(i) * size, size);
      values.push_back(builder_.number_of_bytes(bytes, x.dtype()));
    }
    return values;
  };
  if (one.size() == 1) return broadcast(of_values({}, value.dtype(), values_of(one)), value.shape());
  if (elements <= most_elements) return of_values(value.shape(), value.dtype(), values_of(value));
  const auto source = std::make_shared<ArraySource>();
  const Tensor dense = stave::contiguous(value);
  source->buffer = builder_.add_buffer({Lowered::Buffer::Kind::constant, value.dtype(), elements, -1, dense});
  return {source, value.dtype(), value.shape(), contiguous_strides(value.shape())};
}

Arrays Lowering::lower(const Program& program, const Program::Instruction& step, std::span<Array> inputs) {
  if (step.is_read()) {
    const Array found = std::move(inputs[0]), read_value = constant(step.read_value);
    int equal = number(true, bool_);
    fold(found.shape, std::span(&equal, 1), [&](Positions at, std::span<int> state) {
      state[0] = add(ScalarOp::bit_and, state[0], add(ScalarOp::equal, element(found, at), element(read_value, at)));
    });
    check(equal,
          fmt::format("a value that the program branched on differs from the recorded {}", step.read_value.str()));
    return {};
  }
  const Op& op = *step.op;
  // Complex variables are replaced by those of their arrays.
  SmallVector<const Program::Variable*, 2> results;
  std::vector<Program::Variable> of_parts;
  of_parts.reserve(step.outputs.size());
  for (const int output : step.outputs) {
    const Program::Variable& variable = program.variable(output);
    if (is_complex(variable.dtype))
      of_parts.push_back({lowered_shape(variable.shape, variable.dtype), real_of(variable.dtype), cpu, nullptr});
    results.push_back(is_complex(variable.dtype) ? &of_parts.back() : &variable);
  }
  const LoweringContext context{*this, step, inputs, results};
  if (loop_of(step)) return lower_loop(context);
  SmallVector<Dtype, 3> dtypes;
  for (const int input : step.inputs) dtypes.push_back(program.variable(input).dtype);
  if (!of_parts.empty() || std::any_of(dtypes.begin(), dtypes.end(), is_complex))
    return lower_complex(context, dtypes, program.variable(step.outputs[0]).dtype);
  if (op.id == OpId::own && dynamic_cast<const FusedAttributes*>(step.attributes.get())) return lower_fused(context);
  if (op.id == OpId::stop_gradient) return {inputs[0]};
  if (op.id == OpId::copy) return {contiguous(inputs[0])};
  // The rules of slices, and of reshapes of contiguous arrays, find the view faster.
  const bool has_plain_view =
      op.id == OpId::slice || (op.id == OpId::reshape && is_contiguous(inputs[0].shape, inputs[0].strides));
  if (op.may_be_view() && !has_plain_view) {
    Array found = lowered_view(inputs[0], step);
    if (!found.source) found = lowered_view(contiguous(inputs[0]), step);
    if (found.source) return {found};
  }
  if (const LoweringRule rule = lowering_rule_of(op.id)) return rule(context);
  if (op.elementwise || op.id == OpId::astype || op.id == OpId::where) {
    Arrays result;
    result.push_back(compute(context.shape(), context.dtype(), [&](Positions at) {
      SmallVector<int, 3> operands;
      for (const Array& input : inputs) operands.push_back(element(input, at));
      return lower_elementwise(*this, op, operands, context.dtype());
    }));
    return result;
  }
  fail<TransformError>(
      "{}: {} ({}) cannot be lowered to operations on single numbers: compute it from other operations, or leave it "
      "out of the program",
      function_, op.name, notation(nullptr, context.dtype(), context.shape(), cpu));
}

Arrays Lowering::run(const Program& program, std::span<Array> inputs) {
  PerVariable<Array> arrays(program);
  const PerVariable<int> last = last_reads(program);
  for (const Program::Variable& variable : program.variables) {
    if (is_half_float(variable.dtype))
      fail<DtypeError>("{}: the program has values of {}, which lowered code does not have: convert to float32",
                       function_, variable.dtype);
    if (variable.device != cpu)
      fail<DeviceError>("{}: the program has values on {}, not on the CPU", function_, variable.device.str());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (last[program.inputs[i]] >= 0) arrays[program.inputs[i]] = std::move(inputs[i]);
    inputs[i] = {};
  }
  for (const auto& [variable, value] : program.constants) arrays[variable] = constant(value);
  for (std::size_t k = 0; k < program.instructions.size(); ++k) {
    const Program::Instruction& step = program.instructions[k];
    // An array that is not read later is moved, so that the operand may be the only holder of its
    // source (writable).
    SmallVector<Array, 3> operands;
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      const int input = step.inputs[i];
      const bool is_last = last[input] == static_cast<int>(k) &&
                           std::find(step.inputs.begin() + i + 1, step.inputs.end(), input) == step.inputs.end();
      operands.push_back(is_last ? std::move(arrays[input]) : arrays[input]);
    }
    Arrays results = lower(program, step, operands);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (last[step.outputs[i]] >= 0) arrays[step.outputs[i]] = std::move(results[i]);
  }
  Arrays outputs;
  for (const int output : program.outputs) outputs.push_back(arrays[output]);
  return outputs;
}

// ---- loops of programs --------------------------------------------------------------------------

Arrays lower_loop(const LoweringContext& c) {
  Lowering& l = c.l;
  LoweredBuilder& builder = l.builder();
  const LoopAttributes& loop = *loop_of(c.instruction);
  const std::shared_ptr<const Program> body = optimized_body(loop, BodyFor::machine_code);
  const std::size_t states = loop.states, rows = loop.rows, given = loop.rows_given();

  // States of few elements are carried values; the others lie in memory, which each step writes
  // anew.
  struct State {
    bool is_carried;
    Array array;
  };
  std::vector<State> carried;
  Arrays stacks, results;
  for (std::size_t k = 0; k < states; ++k) {
    const bool is_carried = c.in(k).shape.elements() <= most_elements;
    carried.push_back({is_carried, is_carried ? l.preloaded(l.contiguous(c.in(k))) : l.writable(std::move(c.in(k)))});
  }
  for (std::size_t k = 0; k < given; ++k) stacks.push_back(l.allocate(c.shape(states + k), c.dtype(states + k)));
  for (std::size_t i = states + rows; i < c.inputs.size(); ++i) c.in(i) = l.preloaded(c.in(i));

  for (State& state : carried)
    if (state.is_carried) {
      Elements values;
      l.for_each(
          state.array.shape, [&](Positions at) { values.push_back(l.element(state.array, at)); }, true);
      for (int& value : values) value = builder.carried(value);
      state.array = l.of_values(state.array.shape, state.array.dtype, std::move(values));
    }
  const Position step = Position::of(builder.begin_loop(loop.steps));
  const Position at = loop.reverse ? l.shifted(step, loop.steps - 1, -1) : step;
  Arrays inputs;
  std::vector<int> state_buffers;
  for (const State& state : carried) {
    inputs.push_back(state.array);
    if (state.is_carried) continue;
    // The body gets a source of its own for the same buffer. As its only holder, the body may write
    // the memory of the state.
    state_buffers.push_back(state.array.source->buffer);
    inputs.back().source = std::make_shared<ArraySource>(*state.array.source);
  }
  for (std::size_t i = 0; i < rows; ++i) inputs.push_back(l.row(c.in(states + i), at));
  for (std::size_t i = states + rows; i < c.inputs.size(); ++i) inputs.push_back(c.in(i));
  Arrays outputs = l.run(*body, inputs);

  for (std::size_t k = 0; k < given; ++k) l.copy(outputs[states + k], l.row(stacks[k], at));
  std::vector<std::pair<int, int>> next;
  std::vector<std::pair<Array, Array>> copies;
  for (std::size_t k = 0; k < states; ++k) {
    const Array &from = outputs[k], &to = carried[k].array;
    if (carried[k].is_carried) {
      l.for_each(
          to.shape, [&](Positions place) { next.emplace_back(l.element(to, place), l.element(from, place)); }, true);
      continue;
    }
    const bool is_state = from.source->values.empty() && std::find(state_buffers.begin(), state_buffers.end(),
                                                                   from.source->buffer) != state_buffers.end();
    if (!is_state) {
      copies.emplace_back(from, to);
    } else if (from.source->buffer != to.source->buffer || from.base >= 0 || from.offset != 0 ||
               from.strides != to.strides) {
      // The next state is a part of a state, or another state, so it is copied before states are
      // overwritten.
      const Array temporary = l.allocate(to.shape, to.dtype);
      l.copy(from, temporary);
      copies.emplace_back(temporary, to);
    }
  }
  for (const auto& [from, to] : copies) l.copy(from, to);
  for (const auto& [value, after] : next) builder.next(value, after);
  builder.end_loop();
  for (State& state : carried) results.push_back(std::move(state.array));
  results.append(stacks.begin(), stacks.end());
  return results;
}

// ---- the whole code ---------------------------------------------------------------------------

namespace {

using Kind = Lowered::Buffer::Kind;

// Writes the outputs: a work buffer that holds a whole output becomes the buffer of that output,
// and other outputs are copied. `first` is the buffer of output 0.
void place_outputs(Lowering& l, Lowered& code, const Arrays& outputs, int first) {
  std::vector<int> becomes(code.buffers.size(), -1);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const Array& x = outputs[k];
    const int output = first + static_cast<int>(k);
    if (!x.source || x.shape.elements() == 0) continue;
    if (x.source->values.empty() && l.is_whole_buffer(x)) {
      const auto b = static_cast<std::size_t>(x.source->buffer);
      if (code.buffers[b].kind == Kind::work && becomes[b] < 0) {
        becomes[b] = output;
        continue;
      }
    }
    const auto source = std::make_shared<ArraySource>();
    source->buffer = output;
    l.copy(x, {source, x.dtype, x.shape, contiguous_strides(x.shape)});
  }
  becomes.resize(code.buffers.size(), -1);
  for (Lowered::Instruction& it : code.instructions)
    if (it.buffer >= 0 && becomes[static_cast<std::size_t>(it.buffer)] >= 0)
      it.buffer = becomes[static_cast<std::size_t>(it.buffer)];
}

// The number of elements from the first to the last one of an array in memory.
Index elements_spanned(const Shape& shape, const Strides& strides) {
  if (shape.elements() == 0) return 0;
  Index last = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) last += (shape[axis] - 1) * strides[axis];
  return last + 1;
}

}  // namespace

Lowered lower(const Program& program, const LoweringOptions& options) {
  if (!options.is_optimized) {
    LoweringOptions of_optimized = options;
    of_optimized.is_optimized = true;
    return lower(optimized(with_calls_inlined(program), {.hoists_from_loops = false}), of_optimized);
  }
  Lowered code;
  Lowering l(code, options.vector_bytes, options.function);
  const auto add = [&](Kind kind, int number, const Program::Variable& variable, std::vector<Shape>& shapes,
                       std::vector<bool>& are_complex, Index elements) {
    shapes.push_back(lowered_shape(variable.shape, variable.dtype));
    are_complex.push_back(is_complex(variable.dtype));
    return l.builder().add_buffer({kind, real_of(variable.dtype), elements, number});
  };
  Arrays inputs;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const Program::Variable& variable = program.variable(program.inputs[i]);
    const auto buffer = std::make_shared<ArraySource>();
    const Shape shape = lowered_shape(variable.shape, variable.dtype);
    Strides strides = options.input_strides.empty() ? contiguous_strides(variable.shape) : options.input_strides[i];
    if (is_complex(variable.dtype)) {
      for (Index& stride : strides) stride *= 2;
      strides.push_back(1);
    }
    buffer->buffer = add(Kind::input, static_cast<int>(i), variable, code.input_shapes, code.complex_inputs,
                         elements_spanned(shape, strides));
    code.input_labels.push_back(label_text(variable));
    inputs.push_back({buffer, real_of(variable.dtype), shape, strides});
  }
  const int first_output = static_cast<int>(code.buffers.size());
  for (std::size_t k = 0; k < program.outputs.size(); ++k) {
    if (program.outputs[k] < 0)
      fail<TransformError>("{}: output {} of the program is an empty Tensor", options.function, k);
    const Program::Variable& variable = program.variable(program.outputs[k]);
    add(Kind::output, static_cast<int>(k), variable, code.output_shapes, code.complex_outputs,
        lowered_shape(variable.shape, variable.dtype).elements());
  }
  // Inputs that are not contiguous keep their strides, on which the order of sums depends.
  for (Array& input : inputs)
    if (is_contiguous(input.shape, input.strides)) input = l.preloaded(input);
  const Arrays outputs = l.run(program, inputs);
  place_outputs(l, code, outputs, first_output);
  finish(code);
#ifndef NDEBUG
  verify(code);
#endif
  return code;
}

}  // namespace stave_detail
