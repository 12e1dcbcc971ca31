#include <algorithm>
#include <optional>

#include <stave/core/ops/create.h>
#include <stave/core/ops/dtypes.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/program/dataflow.h>
#include <stave/core/program/passes/passes.h>

namespace stave {

using namespace stave_detail;

namespace {

/// The channels of a product: the axis of its output along which each slice has weights of its own.
struct Channels {
  Index count, inner;  // `inner` is the number of elements of a slice that are adjacent

  /// Returns the axis of the channels in an array of this shape with the product's elements, or -1
  /// if several axes make up the channels.
  int axis_in(const Shape& shape) const {
    Index after = 1;
    for (int axis = shape.rank() - 1; axis >= 0; after *= shape[static_cast<std::size_t>(axis--)])
      if (after == inner && shape[static_cast<std::size_t>(axis)] == count) return axis;
    return -1;
  }
};

std::optional<Channels> channels_of(const Program& program, const Program::Instruction& step) {
  if (step.is_read() || (step.op->id != OpId::matmul && step.op->id != OpId::convolution)) return std::nullopt;
  const Program::Variable& made = program.variable(step.outputs[0]);
  if (made.dtype != float32 && made.dtype != float64) return std::nullopt;
  if (step.op->id == OpId::matmul) return Channels{made.shape.back(), 1};
  Index places = 1;
  for (std::size_t axis = 3; axis < made.shape.size(); ++axis) places *= made.shape[axis];
  return Channels{made.shape[1] * made.shape[2], places};
}

/// Returns the elements along `axis` of an array that is constant along all other axes.
std::optional<std::vector<double>> elements_along(const Tensor& x, int axis) {
  const auto along = static_cast<std::size_t>(axis);
  for (std::size_t i = 0; i < x.shape().size(); ++i)
    if (i != along && x.shape()[i] != 1 && x.strides()[i] != 0) return std::nullopt;
  const Node& node = x.node();
  const Tensor row(NodePtr(new Node(node.dtype, node.device, Shape{x.shape()[along]}, Strides{x.strides()[along]},
                                    node.storage, node.offset)));
  return astype(row, float64).to_vector<double>();
}

bool has_repetitions(const Tensor& x) {
  for (std::size_t i = 0; i < x.shape().size(); ++i)
    if (x.shape()[i] > 1 && x.strides()[i] == 0) return true;
  return false;
}

/// A product, and the additions and multiplications of constants by channel that follow it.
class ScaledChain {
 public:
  ScaledChain(const Channels& channels)
      : channels_(channels), scale_(static_cast<std::size_t>(channels.count), 1.0), shift_(scale_.size(), 0.0) {}

  /// Takes a step that reads `value`. Returns false if the chain ends before it.
  bool take(const Program& program, const Constants& constants, const Program::Instruction& step, int value) {
    const Shape& shape = program.variable(step.outputs[0]).shape;
    if (step.op->id == OpId::reshape && last_ < 0) return true;
    const int axis = channels_.axis_in(shape);
    if (axis < 0 || step.inputs.size() != 2) return false;
    const bool on_left = step.inputs[0] == value;
    const Tensor* const constant = constants.find(step.inputs[on_left ? 1 : 0]);
    if (!constant || constant->device() != cpu || !constant->node().storage) return false;
    const OpId id = step.op->id;
    if (id != OpId::add && id != OpId::subtract && id != OpId::multiply && (id != OpId::divide || !on_left))
      return false;
    const auto elements = elements_along(*constant, axis);
    if (!elements) return false;
    for (std::size_t i = 0; i < scale_.size(); ++i) {
      const double c = (*elements)[i];
      if (id == OpId::multiply) scale_[i] *= c, shift_[i] *= c;
      else if (id == OpId::divide) scale_[i] /= c, shift_[i] /= c;
      else if (id == OpId::add) shift_[i] += c;
      else if (on_left) shift_[i] -= c;
      else scale_[i] = -scale_[i], shift_[i] = c - shift_[i];
    }
    scales_ = scales_ || id == OpId::multiply || id == OpId::divide;
    if (last_ < 0) first_value_ = value;
    last_ = step.outputs[0];
    return true;
  }

  /// True if folding removes an operation.
  bool pays() const { return scales_; }
  /// The value before the first arithmetic, and the last value of the chain.
  int first_value() const { return first_value_; }
  int last() const { return last_; }

  /// The weights of the product, times the scales; nothing if a channel's weights would overflow or
  /// lose digits, because their largest is below the normal numbers.
  std::optional<Tensor> scaled(const Program::Instruction& product, const Tensor& weights) const {
    Tensor scale = from(scale_);
    Shape others;  // the axes within a channel
    if (product.op->id == OpId::convolution) {
      Shape shape{weights.shape(0), weights.shape(1)};
      for (Index axis = 2; axis < weights.rank(); ++axis) others.push_back(axis), shape.push_back(1);
      scale = reshape(scale, shape);
    } else {
      for (Index axis = 0; axis + 1 < weights.rank(); ++axis) others.push_back(axis);
    }
    const Tensor given = astype(weights, float64), exact = given * scale;
    if (exact.size() == 0) return weights;
    const auto largest = [&](const Tensor& x) { return max(abs(x), Axes(others), keepdims); };
    const Tensor most = largest(exact);
    const FloatInfo limits = finfo(weights.dtype());
    const Tensor holds = (most >= limits.smallest_normal && most <= limits.max) ||
                         (isfinite(scale) && (largest(given) == 0 || scale == 0));
    if (!all(holds).item<bool>()) return std::nullopt;
    return astype(exact, weights.dtype());
  }
  Tensor shift(const Shape& shape, Dtype dtype) const {
    Shape along(shape);
    for (Index& length : along) length = 1;
    along[static_cast<std::size_t>(channels_.axis_in(shape))] = channels_.count;
    return broadcast_to(reshape(astype(from(shift_), dtype), along), shape);
  }

 private:
  const Channels channels_;
  std::vector<double> scale_, shift_;
  bool scales_ = false;
  int first_value_ = -1, last_ = -1;
};

}  // namespace

Program with_scales_folded(Program program) {
  const UnderFrame past_all_handlers(nullptr);
  const Constants constants(program);
  const PerVariable<int> reads = read_counts(program);
  const PerVariable<int> readers = last_reads(program), makers = producers(program);
  // The one instruction that reads a variable; none if it is an output of the program.
  const auto reader_of = [&](int variable) -> const Program::Instruction* {
    const auto at = static_cast<std::size_t>(readers[variable]);
    return reads[variable] == 1 && at < program.instructions.size() ? &program.instructions[at] : nullptr;
  };

  for (std::size_t k = 0; k < program.instructions.size(); ++k) {
    const std::optional<Channels> channels = channels_of(program, program.instructions[k]);
    if (!channels) continue;
    const Tensor* const weights = constants.find(program.instructions[k].inputs[1]);
    if (!weights || weights->device() != cpu || !weights->node().storage || has_repetitions(*weights)) continue;
    ScaledChain chain(*channels);
    int value = program.instructions[k].outputs[0];
    for (auto* step = reader_of(value); step && !step->is_read(); step = reader_of(value)) {
      if (!chain.take(program, constants, *step, value)) break;
      value = step->outputs[0];
    }
    if (!chain.pays()) continue;
    const std::optional<Tensor> scaled = chain.scaled(program.instructions[k], *weights);
    if (!scaled) continue;
    const auto add_constant = [&](const Tensor& of) {
      const int variable = program.add_variable(of.shape(), of.dtype());
      program.constants.push_back({variable, of});
      return variable;
    };
    program.instructions[k].inputs[1] = add_constant(*scaled);
    const Program::Variable& made = program.variable(chain.last());
    const int shift = add_constant(chain.shift(made.shape, made.dtype));
    Program::Instruction& last = program.instructions[static_cast<std::size_t>(makers[chain.last()])];
    last.op = &op_add;
    last.attributes = nullptr;
    last.inputs = {chain.first_value(), shift};
  }
  return without_dead_code(std::move(program));
}

}  // namespace stave
