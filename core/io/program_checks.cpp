// Checks attributes that come from a file. An operation's own inference relies on properties that
// public functions ensure: axes are in range, lengths are not negative, and the dtype holds the
// numbers. For attributes from a file, these properties are checked here.
#include <stave/core/io/program_checks.h>

#include <algorithm>

#include <stave/core/io/program_attributes.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>
#include <stave/core/tensor/storage.h>

namespace stave_detail {

namespace {

using InputTypes = std::span<const Program::Variable>;

// The limit for strides, paddings and dilations, for the window lengths of a pool, and for the axis
// lengths of its input, because inference visits the positions of a pool's window one by one.
constexpr Index most_window_length = Index{1} << 28;

class AttributeChecks {
 public:
  AttributeChecks(const Op& op, InputTypes inputs) : op_(op), inputs_(inputs) {}

  void check(const NoAttributes&) const {
    if (op_.id == OpId::lstsq) check_pseudoinverse();
  }
  void check(const FullAttributes& a) const {
    check_lengths(a.shape);
    check_number(a.value, a.dtype);
    require(a.dtype != bool_ || a.value.kind == Scalar::Kind::boolean || a.value == Scalar(0) || a.value == Scalar(1),
            "the value is not a bool");
  }
  void check(const IotaAttributes& a) const {
    check_lengths(Shape(a.length));
    for (const Scalar number : {a.start, a.step})
      require(number.kind <= Scalar::Kind::integer || (number.kind == Scalar::Kind::floating && is_float(a.dtype)),
              "the numbers of integers are not integers");
  }
  void check(const DtypeAttributes&) const {}
  void check(const TransferAttributes&) const {}
  void check(const ReduceAttributes& a) const {
    for (std::size_t i = 0; i < a.axes.size(); ++i) {
      check_axis(a.axes[i]);
      require(i == 0 || a.axes[i - 1] < a.axes[i], "the axes are not sorted");
    }
    const bool is_position = op_.id == OpId::argmax || op_.id == OpId::argmin;
    require(!is_position || a.axes.size() == 1 || a.axes.rank() == rank(), "there must be one axis, or all");
  }
  void check(const ScanAttributes& a) const { check_axis(a.axis); }
  void check(const FftAttributes& a) const {
    check_axis(a.axis);
    require(a.length >= 1, "the length is less than 1");
  }
  void check(const SortAttributes& a) const { check_axis(a.axis); }
  void check(const TopkAttributes& a) const { check_axis(a.axis); }
  void check(const AxisAttributes& a) const { check_axis(a.axis); }
  void check(const SearchAttributes& a) const { check_batch(a.batch_dims); }
  void check(const GatherAttributes& a) const { check_batch(a.batch_dims); }
  void check(const DynamicSliceAttributes& a) const {
    check_batch(a.batch_dims);
    check_lengths(a.sizes);
  }
  void check(const NormAttributes&) const {}
  void check(const ShapeAttributes& a) const { check_lengths(a.shape); }
  void check(const PermuteAttributes&) const {}
  void check(const SliceAttributes& a) const { check_lengths(a.lengths); }
  void check(const PadAttributes& a) const {
    check_lengths(a.shape);
    check_number(a.value, inputs_[0].dtype);
  }
  void check(const CholeskyAttributes&) const {}
  void check(const TriangularAttributes&) const {}
  // solve reads a packed factorisation of a, and the order of its rows.
  void check(const SolveAttributes&) const {
    const Program::Variable& a = inputs_[0];
    require(a.shape.rank() >= 2, "it takes matrices");
    Shape rows = a.shape;
    rows.pop_back();
    check_operand(2, a.shape, a.dtype);
    check_operand(3, rows, int32);
  }
  void check(const FactorAttributes&) const {}
  void check(const BandedAttributes&) const {}
  void check(const ConvolutionAttributes& a) const {
    for (const Shape* list : {&a.strides, &a.low, &a.high, &a.dilations, &a.input_dilations}) check_window(*list);
  }
  void check(const PoolAttributes& a) const {
    for (const Shape* list : {&a.windows, &a.strides, &a.low, &a.high, &a.dilations}) check_window(*list);
    check_window(inputs_[0].shape);
  }
  void check(const AttentionAttributes&) const {}
  void check(const QuantizedAttributes&) const {}
  void check(const RandomAttributes& a) const { check_lengths(a.shape); }
  void check(const UniformAttributes& a) const { check_lengths(a.shape); }

 private:
  int rank() const { return inputs_[0].shape.rank(); }
  void require(bool holds, const char* fault) const {
    if (!holds) fail<ShapeError>("{}: {}", op_.name, fault);
  }
  void check_axis(Index axis) const { require(axis >= 0 && axis < rank(), "an axis is out of range"); }
  void check_batch(int axes) const {
    require(axes >= 0 && axes <= rank() && axes <= inputs_[1].shape.rank(), "batch_dims is out of range");
  }
  void check_lengths(const Shape& shape) const {
    require(std::all_of(shape.begin(), shape.end(), [](Index length) { return length >= 0; }), "a length is negative");
    static_cast<void>(shape.elements());  // throws if there are too many
  }
  void check_window(const Shape& list) const {
    require(std::all_of(list.begin(), list.end(),
                        [](Index number) { return number >= -most_window_length && number <= most_window_length; }),
            "a number of its windows is out of range");
  }
  void check_number(const Scalar& number, Dtype dtype) const {
    require(is_inexact(dtype) || number.kind != Scalar::Kind::floating, "the number of integers is not an integer");
    // Throws if the dtype does not hold the number.
    if (dtype != bool_) static_cast<void>(converted_number(number, dtype));
  }
  void check_operand(std::size_t i, const Shape& shape, Dtype dtype) const {
    if (inputs_[i].shape != shape || inputs_[i].dtype != dtype)
      fail<ShapeError>("{}: input {} is {}, and must be {} {}", op_.name, i, type_text(inputs_[i]), dtype, shape);
  }
  // lstsq takes a [..., m, n], b [..., m, k], u [..., m, p], [..., p] and vh [..., p, n].
  void check_pseudoinverse() const {
    const Program::Variable &a = inputs_[0], &inverse = inputs_[3];
    require(a.shape.rank() >= 2 && inverse.shape.rank() == a.shape.rank() - 1, "its operands do not fit");
    Shape u = a.shape, vh = a.shape, singular = a.shape;
    singular.pop_back();
    u.back() = vh[vh.size() - 2] = singular.back() = inverse.shape.back();
    check_operand(2, u, a.dtype);
    check_operand(3, singular, real_of(a.dtype));
    check_operand(4, vh, a.dtype);
  }

  const Op& op_;
  InputTypes inputs_;
};

// A tensor without memory: inference reads only its shape, dtype and device.
Tensor without_memory(const Program::Variable& it) {
  return Tensor(NodePtr(new Node(it.dtype, it.device, it.shape, StoragePtr())));
}

Device device_of(const Attributes* attributes, InputTypes inputs) {
  if (const auto* placed = dynamic_cast<const PlacedAttributes*>(attributes)) return placed->device;
  if (const auto* transfer = dynamic_cast<const TransferAttributes*>(attributes)) return transfer->device;
  return inputs.empty() ? cpu : inputs[0].device;
}

void check_count(const Op& op, std::size_t count) {
  if (op.id == OpId::own) return;  // a loop or a fused region, which counts its inputs itself
  const InputCount& wanted = input_counts[static_cast<std::size_t>(op.id)];
  if (count < wanted.least || count > wanted.most)
    fail<TransformError>("{}: it does not take {} inputs", op.name, count);
}

// Throws unless variable of_other[i] of `other` and variable of_body[indices[i]] of `body` have the
// same type for each i.
void check_matching_types(const Program& other, const std::vector<int>& of_other, const Program& body,
                          const std::vector<int>& of_body, const std::vector<std::size_t>& indices, const char* what) {
  if (indices.size() != of_other.size())
    fail<TransformError>("loop: the other loop has {} {}s, not {}", of_other.size(), what, indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] >= of_body.size())
      fail<TransformError>("loop: {} {} of the other loop has index {} of {}", what, i, indices[i], of_body.size());
    if (!same_type(other.variable(of_other[i]), body.variable(of_body[indices[i]])))
      fail<TransformError>("loop: {} {} differs from that of the other loop", what, i);
  }
}

}  // namespace

bool same_type(const Program::Variable& a, const Program::Variable& b) {
  return a.shape == b.shape && a.dtype == b.dtype && a.device == b.device;
}

std::string type_text(const Program::Variable& it) {
  return fmt::format("{} {} on {}", it.dtype, it.shape, it.device.str());
}

std::vector<Program::Variable> inferred_outputs(const Op& op, const AttributesPtr& attributes, InputTypes inputs) {
  check_count(op, inputs.size());
  for (const Program::Variable& it : inputs)
    if (it.device != inputs[0].device) fail<DeviceError>("{}: its inputs are on different devices", op.name);
  if (op.id != OpId::own)
    visit_attributes_type(op.id, [&]<class A>(std::type_identity<A>) {
      if constexpr (std::is_same_v<A, NoAttributes>) AttributeChecks(op, inputs).check(A());
      else AttributeChecks(op, inputs).check(static_cast<const A&>(*attributes));
    });
  Inputs operands;
  for (const Program::Variable& it : inputs) operands.push_back(without_memory(it));
  const Call call(op, std::move(operands), attributes);
  std::vector<Program::Variable> outputs;
  for (const Abstract& it : call.abstract_outputs())
    outputs.push_back({it.shape, it.dtype, device_of(attributes.get(), inputs), nullptr});
  return outputs;
}

void check_loop(const LoopAttributes& loop) {
  const Program& body = *loop.body;
  if (loop.steps < 0 || loop.snapshots < 0) fail<TransformError>("loop: the number of steps is negative");
  if (!may_be_body(body))
    fail<TransformError>("loop: its body reads values, calls functions or uses several devices, which none may do");
  if (loop.states > body.inputs.size() || loop.rows > body.inputs.size() - loop.states ||
      loop.states > body.outputs.size())
    fail<TransformError>("loop: its body has {} inputs and {} outputs, too few for {} states and {} rows",
                         body.inputs.size(), body.outputs.size(), loop.states, loop.rows);
  for (std::size_t k = 0; k < loop.states; ++k)
    if (!same_type(body.variable(body.inputs[k]), body.variable(body.outputs[k])))
      fail<TransformError>("loop: state {} changes its type", k);
  if (!loop.also_body) return;
  const Program& other = *loop.also_body;
  if (std::any_of(other.outputs.begin(), other.outputs.end(), [](int output) { return output < 0; }))
    fail<TransformError>("loop: an output of the other loop is empty");
  check_matching_types(other, other.inputs, body, body.inputs, loop.also_inputs, "input");
  check_matching_types(other, other.outputs, body, body.outputs, loop.also_outputs, "output");
}

std::vector<Program::Variable> outputs_of_call(const RecordedFunctions& call, InputTypes inputs) {
  const auto check = [&](bool holds, const char* fault) {
    if (!holds) fail<TransformError>("call: {}", fault);
  };
  check(call.captured <= inputs.size(), "it captures more values than it has inputs");
  const auto types_of = [&](const Program& function) {
    check(function.inputs.size() == inputs.size(), "its function takes another number of inputs");
    for (std::size_t i = 0; i < inputs.size(); ++i)
      check(same_type(function.variable(function.inputs[i]), inputs[i]), "its function takes inputs of other types");
    std::vector<Program::Variable> outputs;
    for (const int output : function.outputs) {
      check(output >= 0, "its function has an empty output");
      outputs.push_back(function.variable(output));
    }
    return outputs;
  };
  std::vector<Program::Variable> outputs = types_of(*call.function);
  if (call.again)
    check(std::ranges::equal(types_of(*call.again), outputs, same_type), "its functions have different outputs");
  return outputs;
}

}  // namespace stave_detail
