#include <stave/core/program/lower.h>

#include <algorithm>
#include <cstring>

#include <stave/core/effects/effect.h>
#include <stave/core/op/notation.h>
#include <stave/core/ops/layout.h>
#include <stave/core/program/dataflow.h>
#include <stave/core/program/free_ranges.h>
#include <stave/core/program/fused.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/passes/passes.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>
#include <stave/core/tensor/storage.h>

namespace stave_detail {

namespace {

// The most elements of an array that becomes its elements, and the most operations of the code for
// one result that is not a loop.
constexpr Index most_elements = 64, most_operations = 256;

}  // namespace

// ---- places -------------------------------------------------------------------------------------

Position Lowering::place_of(int value) const {
  if (const std::int64_t* const known = builder_.number_of(value)) return Position(*known);
  return Position::of(value);
}

Position Lowering::shifted(Position place, Index offset, Index factor) {
  if (place.value < 0) return Position(place.number * factor + offset);
  return place_of(add(ScalarOp::add, add(ScalarOp::multiply, place.value, index(factor)), index(offset)));
}

// ---- arrays -------------------------------------------------------------------------------------

bool Lowering::is_unrolled(const Shape& shape, Index cost) {
  const Index elements = shape.elements();
  return elements <= most_elements && elements * cost <= most_operations;
}

// Returns true if the source's buffer holds its elements here: not if they were written in a loop
// that has ended.
bool Lowering::has_valid_buffer(const ArraySource& source) const {
  const std::vector<int>& open = builder_.open_loops();
  return source.buffer >= 0 && (source.loop == 0 || std::find(open.begin(), open.end(), source.loop) != open.end());
}

int Lowering::element(const Array& x, Positions at) {
  Index offset = x.offset;
  int computed = x.base;
  for (std::size_t axis = 0; axis < at.size(); ++axis) {
    const Index stride = x.strides[axis];
    if (at[axis].value < 0) {
      offset += stride * at[axis].number;
    } else if (stride != 0) {
      const int term = add(ScalarOp::multiply, at[axis].value, index(stride));
      computed = computed < 0 ? term : add(ScalarOp::add, computed, term);
    }
  }
  ArraySource& source = *x.source;
  if (computed >= 0)
    if (const std::int64_t* const known = builder_.number_of(computed)) {
      offset += *known;
      computed = -1;
    }
  if (computed < 0 && !source.values.empty()) return source.values[static_cast<std::size_t>(offset)];
  if (!has_valid_buffer(source)) {
    source.buffer =
        builder_.add_buffer({Lowered::Buffer::Kind::work, x.dtype, static_cast<Index>(source.values.size())});
    source.loop = builder_.open_loops().empty() ? 0 : builder_.open_loops().back();
    for (std::size_t i = 0; i < source.values.size(); ++i)
      builder_.store(source.buffer, -1, static_cast<Index>(i), source.values[i]);
  }
  return builder_.load(source.buffer, computed, offset);
}

Array Lowering::of_values(const Shape& shape, Dtype dtype, std::vector<int> values) {
  const auto source = std::make_shared<ArraySource>();
  source->values = std::move(values);
  return {source, dtype, shape, contiguous_strides(shape)};
}

Array Lowering::allocate(const Shape& shape, Dtype dtype) {
  const auto source = std::make_shared<ArraySource>();
  source->buffer = builder_.add_buffer({Lowered::Buffer::Kind::work, dtype, shape.elements()});
  return {source, dtype, shape, contiguous_strides(shape)};
}

void Lowering::store(const Array& x, Positions at, int value) {
  Index offset = x.offset;
  int computed = x.base;
  for (std::size_t axis = 0; axis < at.size(); ++axis) {
    if (at[axis].value < 0) {
      offset += x.strides[axis] * at[axis].number;
    } else {
      const int term = add(ScalarOp::multiply, at[axis].value, index(x.strides[axis]));
      computed = computed < 0 ? term : add(ScalarOp::add, computed, term);
    }
  }
  if (computed >= 0)
    if (const std::int64_t* const known = builder_.number_of(computed)) {
      offset += *known;
      computed = -1;
    }
  builder_.store(x.source->buffer, computed, offset, value);
}

Array Lowering::view(const Array& x, Shape shape, Strides strides, Index offset) {
  Array y = x;
  y.shape = std::move(shape);
  y.strides = std::move(strides);
  y.offset += offset;
  return y;
}

Array Lowering::broadcast(const Array& x, const Shape& shape) {
  Strides strides = all_equal(shape.size(), 0);
  const std::size_t added = shape.size() - x.shape.size();
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis)
    strides[added + axis] = x.shape[axis] == 1 ? 0 : x.strides[axis];
  return view(x, shape, std::move(strides));
}

Array Lowering::row(const Array& x, Position at) {
  Array y = view(x, axes_of(x.shape, 1, x.shape.size()), axes_of(x.strides, 1, x.shape.size()));
  if (at.value < 0) {
    y.offset += at.number * x.strides[0];
  } else if (x.strides[0] != 0) {
    const int term = add(ScalarOp::multiply, at.value, index(x.strides[0]));
    y.base = y.base < 0 ? term : add(ScalarOp::add, y.base, term);
  }
  return y;
}

void Lowering::copy(const Array& from, const Array& to) {
  for_each(
      to.shape, [&](Positions at) { store(to, at, element(from, at)); }, is_unrolled(to.shape, 1));
}

Array Lowering::contiguous(const Array& x) {
  if (is_contiguous(x.shape, x.strides)) return x;
  return compute(x.shape, x.dtype, [&](Positions at) { return element(x, at); });
}

Array Lowering::reshaped(const Array& x, const Shape& shape) {
  return view(contiguous(x), shape, contiguous_strides(shape));
}

Array Lowering::writable(Array x) {
  const ArraySource& source = *x.source;
  const auto& buffers = code_.buffers;
  if (source.values.empty() && x.source.use_count() == 1 && x.base < 0 && x.offset == 0 &&
      is_contiguous(x.shape, x.strides)) {
    const Lowered::Buffer& buffer = buffers[static_cast<std::size_t>(source.buffer)];
    if (buffer.kind == Lowered::Buffer::Kind::work && buffer.elements == x.shape.elements()) return x;
  }
  Array copied = allocate(x.shape, x.dtype);
  copy(x, copied);
  return copied;
}

Array Lowering::preloaded(const Array& x) {
  if (!x.source->values.empty() || x.shape.elements() > most_elements) return x;
  const Array values = compute(x.shape, x.dtype, [&](Positions at) { return element(x, at); });
  const Lowered::Buffer& buffer = code_.buffers[static_cast<std::size_t>(x.source->buffer)];
  const bool is_fixed = buffer.kind == Lowered::Buffer::Kind::input || buffer.kind == Lowered::Buffer::Kind::constant;
  if (is_fixed && x.base < 0 && x.offset == 0 && buffer.elements == x.shape.elements() &&
      is_contiguous(x.shape, x.strides))
    values.source->buffer = x.source->buffer;
  return values;
}

// ---- loops --------------------------------------------------------------------------------------

void Lowering::for_each(const Shape& shape, FunctionRef<void(Positions)> body, bool unrolled) {
  const Index elements = shape.elements();
  if (elements == 0) return;
  PositionList at(shape.size());
  if (!unrolled) return loops(shape, 0, at, body);
  for (Index i = 0; i < elements; ++i) {
    Index rest = i;
    for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) at[axis] = Position(rest % shape[axis]);
    body(at);
  }
}

void Lowering::loops(const Shape& shape, std::size_t axis, PositionList& at, FunctionRef<void(Positions)> body) {
  if (axis == shape.size()) return body(at);
  if (shape[axis] == 1) {
    at[axis] = Position(0);
    return loops(shape, axis + 1, at, body);
  }
  at[axis] = Position::of(builder_.begin_loop(shape[axis]));
  loops(shape, axis + 1, at, body);
  builder_.end_loop();
}

void Lowering::for_range(Position first, Position end, FunctionRef<void(Position)> body, bool unrolled) {
  if (unrolled) {
    for (Index i = first.number; i < end.number; ++i) body(Position(i));
    return;
  }
  const Position count = place_of(add(ScalarOp::subtract, value_of(end), value_of(first)));
  const int step = count.value < 0 ? builder_.begin_loop(count.number) : builder_.begin_loop_of(count.value);
  body(place_of(add(ScalarOp::add, step, value_of(first))));
  builder_.end_loop();
}

std::vector<Array> Lowering::compute(const Shape& shape, std::span<const Dtype> dtypes,
                                     FunctionRef<void(Positions, std::span<int>)> element, Index cost) {
  const std::size_t count = dtypes.size();
  std::vector<int> results(count);
  std::vector<Array> arrays;
  if (is_unrolled(shape, cost)) {
    std::vector<std::vector<int>> values(count);
    for_each(
        shape,
        [&](Positions at) {
          element(at, results);
          for (std::size_t k = 0; k < count; ++k) values[k].push_back(results[k]);
        },
        true);
    for (std::size_t k = 0; k < count; ++k) arrays.push_back(of_values(shape, dtypes[k], std::move(values[k])));
    return arrays;
  }
  for (const Dtype dtype : dtypes) arrays.push_back(allocate(shape, dtype));
  for_each(
      shape,
      [&](Positions at) {
        element(at, results);
        for (std::size_t k = 0; k < count; ++k) store(arrays[k], at, results[k]);
      },
      false);
  return arrays;
}

Array Lowering::compute(const Shape& shape, Dtype dtype, FunctionRef<int(Positions)> element, Index cost) {
  return std::move(compute(
      shape, std::span(&dtype, 1), [&](Positions at, std::span<int> results) { results[0] = element(at); }, cost)[0]);
}

void Lowering::fold(const Shape& shape, std::span<int> state, FunctionRef<void(Positions, std::span<int>)> step,
                    Index cost) {
  if (is_unrolled(shape, cost))
    return for_each(
        shape, [&](Positions at) { step(at, state); }, true);
  PositionList at(shape.size());
  fold_loops(shape, 0, at, state, step);
}

void Lowering::fold_loops(const Shape& shape, std::size_t axis, PositionList& at, std::span<int> state,
                          FunctionRef<void(Positions, std::span<int>)> step) {
  if (axis == shape.size()) return step(at, state);
  if (shape[axis] == 1) {
    at[axis] = Position(0);
    return fold_loops(shape, axis + 1, at, state, step);
  }
  std::vector<int> carried;
  for (const int value : state) carried.push_back(builder_.carried(value));
  at[axis] = Position::of(builder_.begin_loop(shape[axis]));
  std::copy(carried.begin(), carried.end(), state.begin());
  fold_loops(shape, axis + 1, at, state, step);
  for (std::size_t k = 0; k < carried.size(); ++k) builder_.next(carried[k], state[k]);
  builder_.end_loop();
  std::copy(carried.begin(), carried.end(), state.begin());
}

// ---- programs -----------------------------------------------------------------------------------

namespace {

// A placeholder storage for tensors that serve only as layouts.
const StoragePtr& storage_of_none() {
  static const StoragePtr& none = *new StoragePtr(new Storage);
  return none;
}

// The rules of all families, by operation.
LoweringRule rule_of(OpId id) {
  for (const auto family : {lowering_of_layout, lowering_of_reduction, lowering_of_index, lowering_of_product,
                            lowering_of_linalg, lowering_of_random})
    if (const LoweringRule rule = family(id)) return rule;
  return nullptr;
}

// The output as a view of the input, by the operation's own rule; its `source` is null if there is
// no such view.
Array view_of(const Array& x, const Program::Instruction& step) {
  const Tensor layout(NodePtr(new Node(x.dtype, cpu, x.shape, x.strides, storage_of_none(), x.offset)));
  const Tensor found = step.op->view(Call(*step.op, Inputs{layout}, step.attributes));
  if (!found.defined()) return {};
  Array y = x;
  y.shape = found.node().shape;
  y.strides = found.node().strides;
  y.offset = found.node().offset;
  return y;
}

}  // namespace

Array Lowering::constant(const Tensor& value) {
  const UnderFrame past_all_handlers(nullptr);
  const Index elements = value.size();
  const Tensor one = is_one_number(value) && elements > 0 ? reshape(value, {-1})(0) : value;
  const auto values_of = [&](const Tensor& x) {
    const Tensor dense = stave::contiguous(x);
    std::vector<int> values;
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

std::vector<Array> Lowering::lower(const Program& program, const Program::Instruction& step,
                                   std::vector<Array> inputs) {
  if (step.is_read()) {
    const Array found = std::move(inputs[0]), met = constant(step.met);
    int equal = number(true, bool_);
    fold(found.shape, std::span(&equal, 1), [&](Positions at, std::span<int> state) {
      state[0] = add(ScalarOp::bit_and, state[0], add(ScalarOp::equal, element(found, at), element(met, at)));
    });
    check(equal, fmt::format("a value that the program branched on differs from the recorded {}", step.met.str()));
    return {};
  }
  const Op& op = *step.op;
  std::vector<const Program::Variable*> results;
  for (const int output : step.outputs) results.push_back(&program.variable(output));
  const LoweringContext context{*this, step, inputs, results};
  if (loop_of(step)) return lower_loop(context);
  if (dynamic_cast<const FusedAttributes*>(step.attributes.get())) return lower_fused(context);
  if (op.id == OpId::stop_gradient || op.id == OpId::copy) return inputs;
  if (op.may_be_view()) {
    Array found = view_of(inputs[0], step);
    if (!found.source) found = view_of(contiguous(inputs[0]), step);
    if (found.source) return {found};
  }
  if (const LoweringRule rule = rule_of(op.id)) return rule(context);
  if (op.elementwise || op.id == OpId::astype || op.id == OpId::where)
    return {compute(context.shape(), context.dtype(), [&](Positions at) {
      SmallVector<int, 3> operands;
      for (const Array& input : inputs) operands.push_back(element(input, at));
      return lower_elementwise(*this, op, operands, context.dtype());
    })};
  fail<TransformError>("lower: {} ({}) cannot be lowered to operations on single numbers", op.name,
                       notation(nullptr, context.dtype(), context.shape(), cpu));
}

std::vector<Array> Lowering::run(const Program& program, std::vector<Array> inputs) {
  PerVariable<Array> arrays(program);
  const PerVariable<int> last = last_reads(program);
  for (const Program::Variable& variable : program.variables) {
    if (is_half_float(variable.dtype))
      fail<DtypeError>("lower: the program has values of {}, which lowered code does not have: convert to float32",
                       variable.dtype);
    if (variable.device != cpu)
      fail<DeviceError>("lower: the program has values on {}, not on the CPU", variable.device.str());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (last[program.inputs[i]] >= 0) arrays[program.inputs[i]] = std::move(inputs[i]);
    inputs[i] = {};
  }
  for (const auto& [variable, value] : program.constants) arrays[variable] = constant(value);
  for (std::size_t k = 0; k < program.instructions.size(); ++k) {
    const Program::Instruction& step = program.instructions[k];
    // An array that is not read later is moved, so that nothing else holds its source.
    std::vector<Array> operands;
    for (const int input : step.inputs) operands.push_back(arrays[input]);
    for (const int input : step.inputs)
      if (last[input] == static_cast<int>(k)) arrays[input] = {};
    std::vector<Array> results = lower(program, step, std::move(operands));
    for (std::size_t i = 0; i < results.size(); ++i)
      if (last[step.outputs[i]] >= 0) arrays[step.outputs[i]] = std::move(results[i]);
  }
  return arrays.at(program.outputs);
}

// ---- loops of programs --------------------------------------------------------------------------

std::vector<Array> lower_loop(const LoweringContext& c) {
  Lowering& l = c.l;
  LoweredBuilder& builder = l.builder();
  const LoopAttributes& loop = *loop_of(c.instruction);
  const Program body = optimized(with_calls_inlined(*loop.body));
  const std::size_t states = loop.states, rows = loop.rows, given = loop.rows_given();

  // States that are values are carried; the others lie in memory, which each step writes anew.
  struct State {
    bool is_carried;
    Array array;
  };
  std::vector<State> carried;
  std::vector<Array> stacks, results;
  for (std::size_t k = 0; k < states; ++k) {
    const bool is_carried = c.in(k).shape.elements() <= most_elements;
    carried.push_back({is_carried, is_carried ? l.preloaded(l.contiguous(c.in(k))) : l.writable(std::move(c.in(k)))});
  }
  for (std::size_t k = 0; k < given; ++k) stacks.push_back(l.allocate(c.shape(states + k), c.dtype(states + k)));
  for (std::size_t i = states + rows; i < c.inputs.size(); ++i) c.in(i) = l.preloaded(c.in(i));

  for (State& state : carried)
    if (state.is_carried) {
      std::vector<int> values;
      l.for_each(
          state.array.shape, [&](Positions at) { values.push_back(l.element(state.array, at)); }, true);
      for (int& value : values) value = builder.carried(value);
      state.array = l.of_values(state.array.shape, state.array.dtype, std::move(values));
    }
  const Position step = Position::of(builder.begin_loop(loop.steps));
  const Position at = loop.reverse ? l.shifted(step, loop.steps - 1, -1) : step;
  std::vector<Array> inputs;
  std::vector<int> state_buffers;
  for (const State& state : carried) {
    inputs.push_back(state.array);
    if (state.is_carried) continue;
    // The body gets a source of its own, so that it may write the state's memory.
    state_buffers.push_back(state.array.source->buffer);
    inputs.back().source = std::make_shared<ArraySource>(*state.array.source);
  }
  for (std::size_t i = 0; i < rows; ++i) inputs.push_back(l.row(c.in(states + i), at));
  for (std::size_t i = states + rows; i < c.inputs.size(); ++i) inputs.push_back(c.in(i));
  std::vector<Array> outputs = l.run(body, std::move(inputs));

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
      // A part of a state, or another one: it is copied before states are overwritten.
      const Array temporary = l.allocate(to.shape, to.dtype);
      l.copy(from, temporary);
      copies.emplace_back(temporary, to);
    }
  }
  for (const auto& [from, to] : copies) l.copy(from, to);
  for (const auto& [value, after] : next) builder.next(value, after);
  builder.end_loop();
  for (State& state : carried) results.push_back(std::move(state.array));
  results.insert(results.end(), stacks.begin(), stacks.end());
  return results;
}

// ---- after lowering -----------------------------------------------------------------------------

namespace {

using Code = Lowered::Code;
using Kind = Lowered::Buffer::Kind;

// Lets outputs be computed in place: work memory that holds a whole output becomes that output.
void place_outputs(Lowering& l, Lowered& code, const std::vector<Array>& outputs, int first) {
  std::vector<int> becomes(code.buffers.size(), -1);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const Array& x = outputs[k];
    const int output = first + static_cast<int>(k);
    if (!x.source || x.shape.elements() == 0) continue;
    if (x.source->values.empty() && x.offset == 0 && x.base < 0 && is_contiguous(x.shape, x.strides)) {
      const auto b = static_cast<std::size_t>(x.source->buffer);
      const Lowered::Buffer& buffer = code.buffers[b];
      if (buffer.kind == Kind::work && buffer.elements == x.shape.elements() && becomes[b] < 0) {
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

// Removes instructions whose results nothing needs.
void remove_dead_code(Lowered& code) {
  const std::size_t count = code.instructions.size();
  std::vector<bool> live(count);
  std::vector<std::size_t> maker(code.values.size());
  std::vector<std::vector<std::size_t>> stores(code.buffers.size()), nexts(code.values.size());
  std::vector<std::size_t> loop_of(count, count), end_of(count);  // the loop around an instruction
  std::vector<std::size_t> open, work;
  const auto need = [&](std::size_t at) {
    if (live[at]) return;
    live[at] = true;
    work.push_back(at);
  };
  for (std::size_t at = 0; at < count; ++at) {
    const Lowered::Instruction& it = code.instructions[at];
    loop_of[at] = open.empty() ? count : open.back();
    if (it.result >= 0) maker[static_cast<std::size_t>(it.result)] = at;
    if (it.code == Code::store) {
      if (code.buffers[static_cast<std::size_t>(it.buffer)].kind == Kind::output) need(at);
      else stores[static_cast<std::size_t>(it.buffer)].push_back(at);
    }
    if (it.code == Code::next) nexts[static_cast<std::size_t>(it.operands[0])].push_back(at);
    if (it.code == Code::check) need(at);
    if (it.code == Code::loop) open.push_back(at);
    if (it.code == Code::end) {
      end_of[open.back()] = at;
      open.pop_back();
    }
  }
  while (!work.empty()) {
    const std::size_t at = work.back();
    work.pop_back();
    const Lowered::Instruction& it = code.instructions[at];
    for (const int operand : it.operands)
      if (operand >= 0) need(maker[static_cast<std::size_t>(operand)]);
    if (it.code == Code::load)
      for (const std::size_t store : std::exchange(stores[static_cast<std::size_t>(it.buffer)], {})) need(store);
    if (it.code == Code::carried)
      for (const std::size_t next : nexts[static_cast<std::size_t>(it.result)]) need(next);
    if (it.code == Code::loop) need(end_of[at]);
    if (loop_of[at] < count) need(loop_of[at]);
  }
  std::size_t kept = 0;
  for (std::size_t at = 0; at < count; ++at)
    if (live[at]) code.instructions[kept++] = code.instructions[at];
  code.instructions.resize(kept);
}

// Drops buffers and values that no instruction names, and numbers the others anew.
void renumber(Lowered& code) {
  std::vector<int> buffers(code.buffers.size(), -1), values(code.values.size(), -1);
  const auto give = [](std::vector<int>& to, int old, int& next) {
    if (old >= 0 && to[static_cast<std::size_t>(old)] < 0) to[static_cast<std::size_t>(old)] = next++;
  };
  int next_buffer = 0, next_value = 0;
  for (std::size_t b = 0; b < code.inputs() + code.outputs(); ++b) give(buffers, static_cast<int>(b), next_buffer);
  for (const Lowered::Instruction& it : code.instructions) {
    give(buffers, it.buffer, next_buffer);
    give(values, it.result, next_value);
  }
  std::vector<Lowered::Buffer> new_buffers(static_cast<std::size_t>(next_buffer), {Kind::work, bool_, 0});
  std::vector<Dtype> new_values(static_cast<std::size_t>(next_value));
  for (std::size_t b = 0; b < buffers.size(); ++b)
    if (buffers[b] >= 0) new_buffers[static_cast<std::size_t>(buffers[b])] = std::move(code.buffers[b]);
  for (std::size_t v = 0; v < values.size(); ++v)
    if (values[v] >= 0) new_values[static_cast<std::size_t>(values[v])] = code.values[v];
  for (Lowered::Instruction& it : code.instructions) {
    if (it.buffer >= 0) it.buffer = buffers[static_cast<std::size_t>(it.buffer)];
    if (it.result >= 0) it.result = values[static_cast<std::size_t>(it.result)];
    for (int& operand : it.operands)
      if (operand >= 0) operand = values[static_cast<std::size_t>(operand)];
  }
  code.buffers = std::move(new_buffers);
  code.values = std::move(new_values);
}

// Gives each work buffer a place in the workspace. A buffer is in use from its first to its last
// instruction. If these are in different loops, it is in use while the outermost loops run that are
// around only one of them.
void place_work(Lowered& code) {
  struct Loop {
    int parent, depth;
    std::size_t begin, end;
  };
  std::vector<Loop> loops{{-1, 0, 0, code.instructions.size()}};
  struct Use {
    int loop = -1;  // the innermost loop around all instructions; -1: there are none
    std::size_t first = 0, last = 0;
  };
  std::vector<Use> uses(code.buffers.size());
  std::vector<int> loop_at(code.instructions.size());
  int open = 0;
  const auto at = [&](int loop) -> Loop& { return loops[static_cast<std::size_t>(loop)]; };
  const auto common = [&](int a, int b) {
    while (a != b) (at(a).depth >= at(b).depth ? a : b) = at(at(a).depth >= at(b).depth ? a : b).parent;
    return a;
  };
  for (std::size_t i = 0; i < code.instructions.size(); ++i) {
    const Lowered::Instruction& it = code.instructions[i];
    if (it.code == Code::loop) {
      loops.push_back({open, at(open).depth + 1, i, i});
      open = static_cast<int>(loops.size()) - 1;
    }
    loop_at[i] = open;
    if (it.code == Code::end) {
      at(open).end = i;
      open = at(open).parent;
    }
    if (it.buffer < 0) continue;
    Use& use = uses[static_cast<std::size_t>(it.buffer)];
    if (use.loop < 0) use = {open, i, i};
    use.loop = common(use.loop, open);
    use.last = i;
  }
  // The loop around instruction i that is directly in `outer`; its limits, or i itself.
  const auto widened = [&](std::size_t i, int outer, bool to_end) {
    int loop = loop_at[i];
    if (loop == outer) return i;
    while (at(loop).parent != outer) loop = at(loop).parent;
    return to_end ? at(loop).end : at(loop).begin;
  };
  struct Interval {
    std::size_t first, last;
    int buffer;
  };
  std::vector<Interval> intervals;
  for (std::size_t b = 0; b < code.buffers.size(); ++b)
    if (const Use& use = uses[b]; code.buffers[b].kind == Kind::work && use.loop >= 0)
      intervals.push_back(
          {widened(use.first, use.loop, false), widened(use.last, use.loop, true), static_cast<int>(b)});
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.first < b.first; });
  FreeRanges ranges;
  std::multimap<std::size_t, std::pair<Index, Index>> ends;  // by last instruction: the range
  for (const Interval& it : intervals) {
    for (; !ends.empty() && ends.begin()->first < it.first; ends.erase(ends.begin()))
      ranges.give_back(static_cast<std::size_t>(ends.begin()->second.first),
                       static_cast<std::size_t>(ends.begin()->second.second));
    Lowered::Buffer& buffer = code.buffers[static_cast<std::size_t>(it.buffer)];
    const Index bytes = (buffer.elements * static_cast<Index>(size_of(buffer.dtype)) + 7) / 8 * 8;
    buffer.offset = static_cast<Index>(ranges.take(static_cast<std::size_t>(bytes)));
    ends.emplace(it.last, std::pair(buffer.offset, bytes));
  }
  code.work_bytes = static_cast<Index>(ranges.end());
}

}  // namespace

Lowered lower(const Program& program) {
  const Program source = optimized(with_calls_inlined(program));
  Lowered code;
  Lowering l(code);
  const auto add = [&](Kind kind, int number, const Program::Variable& variable, std::vector<Shape>& shapes) {
    shapes.push_back(variable.shape);
    return l.builder().add_buffer({kind, variable.dtype, variable.shape.elements(), number});
  };
  std::vector<Array> inputs;
  for (std::size_t i = 0; i < source.inputs.size(); ++i) {
    const Program::Variable& variable = source.variable(source.inputs[i]);
    const auto buffer = std::make_shared<ArraySource>();
    buffer->buffer = add(Kind::input, static_cast<int>(i), variable, code.input_shapes);
    code.input_labels.push_back(variable.label ? variable.label->text : "");
    inputs.push_back({buffer, variable.dtype, variable.shape, contiguous_strides(variable.shape)});
  }
  const int first_output = static_cast<int>(code.buffers.size());
  for (std::size_t k = 0; k < source.outputs.size(); ++k) {
    if (source.outputs[k] < 0) fail<TransformError>("lower: output {} of the program is an empty Tensor", k);
    add(Kind::output, static_cast<int>(k), source.variable(source.outputs[k]), code.output_shapes);
  }
  for (Array& input : inputs) input = l.preloaded(input);
  const std::vector<Array> outputs = l.run(source, std::move(inputs));
  place_outputs(l, code, outputs, first_output);
  remove_dead_code(code);
  renumber(code);
  place_work(code);
#ifndef NDEBUG
  verify(code);
#endif
  return code;
}

}  // namespace stave_detail
