// The rules of operations for lanes. Each finds the axis of lanes of the outputs, and appends the
// instructions of one lane: the same operation without that axis. An operation without a rule ends
// a group of lanes.
#include <stave/core/program/lane_rules.h>

#include <algorithm>

#include <stave/core/op/all_ops.h>
#include <stave/core/program/fused.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/lower_reduction_order.h>

namespace stave_detail {

namespace {

using Step = Program::Instruction;

std::size_t at(Index axis) { return static_cast<std::size_t>(axis); }

template <class A>
const A& attributes_of(const Step& step) {
  return static_cast<const A&>(*step.attributes);
}

// Returns the list without its entry for the axis.
Shape without(const Shape& list, int axis) { return LaneBuilder::of_lane(list, axis); }

std::vector<int> names(const LaneBuilder& b, const Step& step) {
  std::vector<int> found;
  for (const int input : step.inputs) found.push_back(b.name(input));
  return found;
}

// Appends the operation with other attributes for all inputs and the first output.
bool emit(LaneBuilder& b, const Step& step, int axis, AttributesPtr attributes) {
  const int output = step.outputs[0];
  b.set(output, axis,
        b.emit(*step.op, std::move(attributes), names(b, step), without(b.shape(output), axis), b.dtype(output)));
  return true;
}

// The axis of lanes that all inputs have, or nothing if they differ.
std::optional<int> common_axis(const LaneBuilder& b, std::span<const int> variables) {
  if (variables.empty()) return no_axis;
  const int axis = b.axis(variables[0]);
  for (const int variable : variables)
    if (b.axis(variable) != axis) return {};
  return axis;
}
std::optional<int> common_axis(const LaneBuilder& b, const Step& step) {
  return common_axis(b, std::span<const int>(step.inputs.begin(), step.inputs.end()));
}

bool has_lanes(const LaneBuilder& b, const Step& step) {
  return std::any_of(step.inputs.begin(), step.inputs.end(), [&](int input) { return b.axis(input) != no_axis; });
}

// Appends the operation with its own attributes. All outputs have the same axis of lanes.
bool keep(LaneBuilder& b, const Step& step, int axis) {
  Step copy = step;
  for (int& input : copy.inputs) input = b.name(input);
  for (int& output : copy.outputs) {
    const int variable = output;
    output = b.one().add_variable(without(b.shape(variable), axis), b.dtype(variable));
    b.set(variable, axis, output);
  }
  b.one().instructions.push_back(std::move(copy));
  return true;
}

// An operation on values that are the same for all lanes. It stays as it is.
bool uniform(LaneBuilder& b, const Step& step) { return keep(b, step, no_axis); }

bool elementwise(LaneBuilder& b, const Step& step) {
  const std::optional<int> axis = common_axis(b, step);
  return axis && emit(b, step, *axis, step.attributes);
}

// ---- layout -------------------------------------------------------------------------------------

bool full(LaneBuilder& b, const Step& step) {
  const auto& a = attributes_of<FullAttributes>(step);
  const int axis = b.guess(step.outputs[0]);
  if (axis == no_axis) return uniform(b, step);
  return emit(b, step, axis, make_intrusive<FullAttributes>(without(a.shape, axis), a.dtype, a.value, a.device));
}

bool reshape(LaneBuilder& b, const Step& step) {
  const int input = step.inputs[0], output = step.outputs[0], axis = b.axis(input);
  if (axis == no_axis) return uniform(b, step);
  Index before = 1;
  for (int k = 0; k < axis; ++k) before *= b.shape(input)[at(k)];
  const Shape& to = b.shape(output);
  int found = 0;
  for (; found < static_cast<int>(to.size()) && before > 1; ++found) {
    if (to[at(found)] == 0 || before % to[at(found)] != 0) return false;
    before /= to[at(found)];
  }
  // Skips axes of length 1 in front of the axis of lanes.
  while (found < static_cast<int>(to.size()) && to[at(found)] == 1) ++found;
  if (before != 1 || found == static_cast<int>(to.size()) || to[at(found)] != b.lanes()) return false;
  return emit(b, step, found, make_intrusive<ShapeAttributes>(without(to, found)));
}

bool broadcast(LaneBuilder& b, const Step& step) {
  const int input = step.inputs[0], output = step.outputs[0];
  const Shape &from = b.shape(input), &to = b.shape(output);
  const auto added = static_cast<int>(to.size() - from.size());
  if (b.axis(input) != no_axis) {
    const int axis = b.axis(input) + added;
    return emit(b, step, axis, make_intrusive<ShapeAttributes>(without(to, axis)));
  }
  // The first new axis with as many elements as there are lanes becomes the axis of lanes.
  for (int axis = 0; axis < static_cast<int>(to.size()); ++axis) {
    const bool is_new = axis < added || from[at(axis - added)] == 1;
    if (!is_new || to[at(axis)] != b.lanes()) continue;
    int x = b.name(input);
    if (axis >= added) {
      const Shape rest = without(from, axis - added);
      x = b.emit(op_reshape, make_intrusive<ShapeAttributes>(rest), {x}, rest, b.dtype(input));
    }
    const Shape shape = without(to, axis);
    b.set(output, axis, b.emit(*step.op, make_intrusive<ShapeAttributes>(shape), {x}, shape, b.dtype(output)));
    return true;
  }
  return uniform(b, step);
}

bool permute(LaneBuilder& b, const Step& step) {
  const int axis = b.axis(step.inputs[0]);
  if (axis == no_axis) return uniform(b, step);
  const Shape& axes = attributes_of<PermuteAttributes>(step).axes;
  Shape rest;
  int found = 0;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    if (axes[k] == axis) found = static_cast<int>(k);
    else rest.push_back(axes[k] - (axes[k] > axis));
  }
  return emit(b, step, found, make_intrusive<PermuteAttributes>(rest));
}

bool slice(LaneBuilder& b, const Step& step) {
  const int axis = b.axis(step.inputs[0]);
  if (axis == no_axis) return uniform(b, step);
  const auto& a = attributes_of<SliceAttributes>(step);
  if (a.starts[at(axis)] != 0 || a.lengths[at(axis)] != b.lanes() || a.steps[at(axis)] != 1) return false;
  return emit(
      b, step, axis,
      make_intrusive<SliceAttributes>(without(a.starts, axis), without(a.lengths, axis), without(a.steps, axis)));
}

bool pad(LaneBuilder& b, const Step& step) {
  const int axis = b.axis(step.inputs[0]);
  if (axis == no_axis) return uniform(b, step);
  const auto& a = attributes_of<PadAttributes>(step);
  if (a.starts[at(axis)] != 0 || a.shape[at(axis)] != b.lanes()) return false;
  return emit(
      b, step, axis,
      make_intrusive<PadAttributes>(without(a.shape, axis), without(a.starts, axis), without(a.steps, axis), a.value));
}

bool concat(LaneBuilder& b, const Step& step) {
  const std::optional<int> axis = common_axis(b, step);
  if (!axis) return false;
  if (*axis == no_axis) return uniform(b, step);
  const int along = attributes_of<AxisAttributes>(step).axis;
  return along != *axis && emit(b, step, *axis, make_intrusive<AxisAttributes>(along - (along > *axis)));
}

// ---- reductions ---------------------------------------------------------------------------------

// Reduces a variable of one lane. `axes` are those of the array of all lanes; `strides` are its
// strides. Returns the axis of lanes of the result, or nothing.
std::optional<int> reduce(LaneBuilder& b, const Op& op, int x, const Shape& shape, const Strides& strides, int axis,
                          const Shape& axes, bool keepdims, int output) {
  const Dtype dtype = b.dtype_of_name(x);
  Shape of_one;
  int before = 0;
  for (const Index reduced : axes) {
    if (reduced == axis) return {};
    before += reduced < axis;
    of_one.push_back(reduced - (reduced > axis));
  }
  const bool has_order = is_float(dtype) && op.id != OpId::argmax && op.id != OpId::argmin && b.lane_elements(x) > 0;
  AttributesPtr attributes = make_intrusive<ReduceAttributes>(of_one, keepdims);
  if (has_order) {
    const ReductionOrder order(shape, strides, std::vector<std::size_t>(axes.begin(), axes.end()));
    if (!order.is_that_of_kernels(shape)) return {};
    const IntrusivePtr<LaneReduction> reduction(new LaneReduction);
    reduction->axes = of_one;
    reduction->shape = shape;
    reduction->strides = strides;
    reduction->lane_axis = axis;
    attributes = reduction;
  }
  const int found = keepdims ? axis : axis - before;
  b.set(output, found, b.emit(op, std::move(attributes), {x}, without(b.shape(output), found), b.dtype(output)));
  return found;
}

bool reduction(LaneBuilder& b, const Step& step) {
  const int input = step.inputs[0], axis = b.axis(input);
  if (axis == no_axis) return uniform(b, step);
  const auto& a = attributes_of<ReduceAttributes>(step);
  return reduce(b, *step.op, b.name(input), b.shape(input), b.strides(input), axis, a.axes, a.keepdims, step.outputs[0])
      .has_value();
}

// The steps of a region become instructions: machine code has no use for regions.
bool fused(LaneBuilder& b, const Step& step) {
  const Region& region = *attributes_of<FusedAttributes>(step).region;
  const std::optional<int> axis = common_axis(b, step);
  if (!axis) return false;
  if (*axis == no_axis) return uniform(b, step);
  const Shape& all = b.shape(step.inputs[0]);
  const Shape shape = without(all, *axis);
  std::vector<int> values = names(b, step);
  for (const Region::Step& it : region.steps()) {
    if (!it.op) {
      values.push_back(
          b.emit(op_full, make_intrusive<FullAttributes>(shape, it.dtype, it.number), {}, shape, it.dtype));
      continue;
    }
    std::vector<int> operands;
    for (const int operand : it.operands) operands.push_back(values[at(operand)]);
    AttributesPtr attributes;
    if (it.op->id == OpId::astype) attributes = make_intrusive<DtypeAttributes>(it.dtype);
    values.push_back(b.emit(*it.op, std::move(attributes), operands, shape, it.dtype));
  }
  const auto inputs = static_cast<int>(region.inputs().size());
  for (std::size_t k = 0; k < region.outputs().size(); ++k) {
    const int output = region.outputs()[k];
    const Region::Reduction* const it = region.reduction(output);
    if (!it) {
      b.set(step.outputs[k], *axis, values[at(output)]);
      continue;
    }
    Shape axes = it->axes;
    for (Index& reduced : axes) reduced += static_cast<Index>(all.size());
    // The order of the reduction follows the strides of an input or a constant. A computed value
    // counts as row-major.
    const int given = region.given(it->value);
    const Strides strides = given >= 0 && given < inputs ? b.strides(step.inputs[at(given)])
                            : given >= 0                 ? all_equal(all.size(), 0)
                                                         : contiguous_strides(all);
    if (!reduce(b, *it->op, values[at(it->value)], all, strides, *axis, axes, it->keepdims, step.outputs[k]))
      return false;
  }
  return true;
}

// ---- products and stacks ------------------------------------------------------------------------

// A product in which the lanes are the rows of a, or the columns of b.
bool product_of_rows(LaneBuilder& b, const Step& step, bool rows) {
  const int output = step.outputs[0], x = step.inputs[!rows];
  if (is_float(b.dtype(output)) && b.lanes() > (rows ? tiny_rows : tiny_terms)) return false;
  const std::size_t rank = b.shape(output).size();
  const auto axis = static_cast<int>(rank - (rows ? 2 : 1));
  if (b.axis(x) != axis) return false;
  Shape with_one = b.shape(x), result = b.shape(output);
  with_one[at(axis)] = 1;
  result[at(axis)] = 1;
  const int one = b.emit(op_reshape, make_intrusive<ShapeAttributes>(with_one), {b.name(x)}, with_one, b.dtype(x));
  const int other = b.name(step.inputs[rows]);
  const int product = b.emit(op_matmul, nullptr, {rows ? one : other, rows ? other : one}, result, b.dtype(output));
  const Shape shape = without(result, axis);
  b.set(output, axis, b.emit(op_reshape, make_intrusive<ShapeAttributes>(shape), {product}, shape, b.dtype(output)));
  return true;
}

bool matmul(LaneBuilder& b, const Step& step) {
  if (!has_lanes(b, step)) return uniform(b, step);
  const int left = b.axis(step.inputs[0]), right = b.axis(step.inputs[1]);
  if (right == no_axis) return product_of_rows(b, step, true);
  if (left == no_axis) return product_of_rows(b, step, false);
  const std::size_t rank = b.shape(step.outputs[0]).size();
  if (left != right || at(left) + 2 >= rank) return false;
  // Kernels compute products with one matrix b as one product with more rows.
  const Shape &a_shape = b.shape(step.inputs[0]), &b_shape = b.shape(step.inputs[1]);
  bool is_shared = false;
  Index rows = a_shape[rank - 2];
  for (std::size_t k = 0; k + 2 < rank; ++k) {
    is_shared |= b_shape[k] > 1 && b.is_broadcast(step.inputs[1], static_cast<int>(k));
    rows *= a_shape[k];
  }
  if (is_float(b.dtype(step.outputs[0])) && is_shared && rows > tiny_rows) return false;
  return emit(b, step, left, step.attributes);
}

// An operation on stacks of matrices or keys, whose last `inner` axes are never the axis of lanes.
bool stacks(LaneBuilder& b, const Step& step) {
  const std::optional<int> axis = common_axis(b, step);
  if (!axis) return false;
  if (*axis == no_axis) return uniform(b, step);
  const std::size_t inner = is_linalg(step.op->id) ? 2 : 1;
  if (at(*axis) + inner >= b.shape(step.inputs[0]).size()) return false;
  return keep(b, step, *axis);
}

// ---- computed positions -------------------------------------------------------------------------

bool gather(LaneBuilder& b, const Step& step) {
  if (!has_lanes(b, step)) return uniform(b, step);
  const auto& a = attributes_of<GatherAttributes>(step);
  const int x = step.inputs[0], indices = step.inputs[1];
  const int in_x = b.axis(x), in_indices = b.axis(indices), batch = a.batch_dims;
  const auto rank = static_cast<int>(b.shape(indices).size());
  const auto with_batch = [&](int axis, int dims) {
    return emit(b, step, axis, make_intrusive<GatherAttributes>(dims, a.from_end));
  };
  if (in_x >= 0 && in_x < batch) return in_x == in_indices && with_batch(in_x, batch - 1);
  if (in_x == no_axis) return in_indices >= batch && in_indices < rank - 1 && with_batch(in_indices, batch);
  const auto indexed = static_cast<int>(b.shape(indices).back());
  if (in_indices != no_axis || in_x < batch + indexed) return false;
  return with_batch(in_x - indexed + rank - 1 - batch, batch);
}

bool scatter(LaneBuilder& b, const Step& step) {
  const std::optional<int> axis = common_axis(b, step);
  const auto& a = attributes_of<GatherAttributes>(step);
  if (axis && *axis == no_axis) return uniform(b, step);
  if (!axis || *axis >= a.batch_dims) return false;
  return emit(b, step, *axis, make_intrusive<GatherAttributes>(a.batch_dims - 1, a.from_end));
}

bool dynamic_slices(LaneBuilder& b, const Step& step) {
  const std::optional<int> axis = common_axis(b, step);
  const auto& a = attributes_of<DynamicSliceAttributes>(step);
  if (axis && *axis == no_axis) return uniform(b, step);
  if (!axis || *axis >= a.batch_dims) return false;
  return emit(b, step, *axis, make_intrusive<DynamicSliceAttributes>(a.batch_dims - 1, a.sizes));
}

// ---- loops --------------------------------------------------------------------------------------

bool loop(LaneBuilder& b, const Step& step) {
  if (!has_lanes(b, step)) return false;
  const LoopAttributes& a = *loop_of(step);
  const std::shared_ptr<const Program> kept = optimized_body(a, BodyFor::machine_code);
  const Program& body = *kept;
  const auto is_row = [&](std::size_t i) { return i >= a.states && i < a.states + a.rows; };
  LaneBuilder of_body(body, b.lanes());
  for (const auto& [variable, value] : body.constants)
    if (of_body.is_input(variable)) return false;  // The constant differs between lanes.
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    int axis = b.axis(step.inputs[i]);
    if (is_row(i) && axis == 0) return false;  // The lanes would be the steps.
    if (is_row(i) && axis != no_axis) --axis;
    of_body.add_input(body.inputs[i], axis, contiguous_strides(body.variable(body.inputs[i]).shape));
    if (of_body.elements(body.inputs[i]) > most_native_elements) return false;
  }
  for (const Step& it : body.instructions)
    if (!of_body.add(it)) return false;
  const auto made = make_intrusive<LoopAttributes>();
  made->steps = a.steps;
  made->reverse = a.reverse;
  made->states = a.states;
  made->rows = a.rows;
  std::vector<int> axes;
  for (std::size_t k = 0; k < body.outputs.size(); ++k) {
    const int output = body.outputs[k], axis = output < 0 ? no_axis : of_body.axis(output);
    if (output < 0 || of_body.elements(output) > most_native_elements) return false;
    if (k < a.states && axis != of_body.axis(body.inputs[k])) return false;
    axes.push_back(k < a.states || axis == no_axis ? axis : axis + 1);
  }
  Estimate cost = of_body.cost();
  cost.native *= static_cast<double>(a.steps);
  cost.instructions += 20;
  b.add_cost(cost);
  made->body = std::make_shared<const Program>(of_body.finish(body.outputs));
  // No pass may change the body, because its reductions are those of one lane (LaneReduction).
  made->derived("body for machine code", [&] { return Program(*made->body); });
  Step copy = instruction_of(made);
  for (const int input : step.inputs) copy.inputs.push_back(b.name(input));
  for (std::size_t k = 0; k < step.outputs.size(); ++k) {
    const int output = step.outputs[k];
    copy.outputs.push_back(b.one().add_variable(without(b.shape(output), axes[k]), b.dtype(output)));
    b.set(output, axes[k], copy.outputs.back());
  }
  b.one().instructions.push_back(std::move(copy));
  return true;
}

}  // namespace

bool lane_rule(LaneBuilder& b, const Step& step) {
  if (loop_of(step)) return loop(b, step);
  if (dynamic_cast<const FusedAttributes*>(step.attributes.get())) return fused(b, step);
  switch (step.op->id) {
    case OpId::full: return full(b, step);
    case OpId::reshape: return reshape(b, step);
    case OpId::broadcast_to: return broadcast(b, step);
    case OpId::permute_dims: return permute(b, step);
    case OpId::slice: return slice(b, step);
    case OpId::pad: return pad(b, step);
    case OpId::concat: return concat(b, step);
    case OpId::sum:
    case OpId::prod:
    case OpId::max:
    case OpId::min:
    case OpId::all:
    case OpId::any:
    case OpId::argmax:
    case OpId::argmin: return reduction(b, step);
    case OpId::matmul: return matmul(b, step);
    case OpId::cholesky:
    case OpId::triangular_solve:
    case OpId::lu:
    case OpId::solve:
    case OpId::det:
    case OpId::slogdet:
    case OpId::qr:
    case OpId::fold_in:
    case OpId::random_bits:
    case OpId::random_uniform: return stacks(b, step);
    case OpId::gather: return gather(b, step);
    case OpId::scatter:
    case OpId::scatter_add: return scatter(b, step);
    case OpId::dynamic_slice:
    case OpId::dynamic_update_slice: return dynamic_slices(b, step);
    case OpId::astype:
    case OpId::stop_gradient:
    case OpId::copy:
    case OpId::where: return elementwise(b, step);
    default: return step.op->elementwise && elementwise(b, step);
  }
}

}  // namespace stave_detail
