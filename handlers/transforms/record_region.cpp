#include <stave/handlers/transforms/record_region.h>

#include <algorithm>

#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/program/region.h>
#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/note.h>
#include <stave/core/tensor/print.h>
#include <stave/core/tensor/read_storage.h>
#include <stave/handlers/transforms/jvp_flat.h>

namespace stave_detail {

namespace {

// The note on a placeholder: the value of the region that it stands for.
struct RegionValue {
  int value = -1;
  // A tensor with one element, which `physical` returns as the tensor behind the placeholder.
  Tensor shown;
  const Tensor* physical() const noexcept { return shown.defined() ? &shown : nullptr; }
};

class RegionRecorder final : public Handles<Call, ReadStorage, WhichFloat> {
 public:
  RegionRecorder(const char* name, Frame* around) : notes(name), name_(name), around_(around) {}

  Outputs handle(Call& call) override {
    const auto recorded = [&](const Tensor& x) { return notes.find(x) != nullptr; };
    const auto inputs = call.inputs();
    if (std::none_of(inputs.begin(), inputs.end(), recorded)) return perform(std::move(call));
    const Op& op = call.op();
    for (const Abstract& output : call.abstract_outputs())
      if (output.shape.rank() > 0) fail_shape(output.shape);
    if (!Region::admits(op))
      fail<TransformError>("{}: {} is not an elementwise operation: such a function can have only those", name_,
                           op.name);
    std::vector<int> operands;
    for (const Tensor& input : inputs) operands.push_back(value_of(input));
    return value(builder_.add(op, operands, call.abstract_outputs()[0].dtype));
  }
  Tensor handle(ReadStorage& read) override {
    fail<TransformError>(
        "{}: a value ({}) is read on the host, but each element has its own value: use where(condition, a, b) instead "
        "of if",
        name_, read.value.dtype());
  }
  // Passes the effect to the caller's handlers only if the function performs it. If the effect were
  // performed in advance, the effect log of an outer checkpoint would always contain it.
  Dtype handle(WhichFloat&) override {
    const UnderFrame of_the_caller(around_);
    return default_dtype();
  }
  std::string describe() const override { return name_; }

  /// Returns a placeholder for an input that is added to the region.
  Tensor input(Dtype dtype) { return value(builder_.input(dtype)); }

  RegionPtr end(std::span<const Tensor> outputs) {
    std::vector<int> values;
    for (const Tensor& output : outputs) values.push_back(value_of(output));
    return builder_.region(values);
  }

  Notes<RegionValue> notes;

 private:
  // Returns a placeholder for a value of the region.
  Tensor value(int number) const {
    const Dtype dtype = builder_.dtype(number);
    Tensor stands(NodePtr(new Node(dtype, cpu, {}, {}, nullptr)));
    return notes.put(std::move(stands), {number, constant(0, dtype, {}, cpu)});
  }
  int value_of(const Tensor& x) {
    if (!x.defined()) fail<TransformError>("{}: it returns an empty Tensor", name_);
    if (const RegionValue* found = notes.find(x)) return found->value;
    if (!x.node().storage || live_notes(x) > 0)
      fail<TransformError>("{}: it captures a value that a transform traces ({} {}): make it an argument", name_,
                           x.dtype(), x.shape());
    if (!repeats_one_element(x)) fail_shape(x.shape());
    return builder_.number(number_of(x), x.dtype());
  }

  [[noreturn]] void fail_shape(const Shape& shape) const {
    fail<TransformError>(
        "{}: it computes with a tensor of shape {}, but it sees one element at a time: make the tensor an argument",
        name_, shape);
  }

  const char* const name_;
  Frame* const around_;  // the caller's handlers, which choose the floating dtype for integers
  RegionBuilder builder_{Repetitions::kept};
};

}  // namespace

Scalar number_of(const Tensor& x) {
  const Tensor first = view_of(x, {}, {}, x.node().offset);
  if (x.dtype() == bool_) return first.item<bool>();
  if (x.dtype() == uint64) return first.item<std::uint64_t>();
  if (is_float(x.dtype())) return first.item<double>();
  if (is_complex(x.dtype())) return first.item<ComplexElement<double>>();
  return first.item<std::int64_t>();
}

RegionPtr record_region(const char* name, FlatFunction f, std::span<const Dtype> inputs) {
  RegionRecorder recorder(name, current);
  UnderFrame below_all(nullptr);
  std::vector<Tensor> values;
  for (const Dtype input : inputs) values.push_back(recorder.input(input));
  const Outputs outputs = recorder.notes.run([&] { return with(recorder, [&] { return f(values); }); });
  return recorder.end(outputs);
}

// ---- derivatives of regions ---------------------------------------------------------------------

RegionPtr tangents_of(const Region& region, const std::vector<bool>& by) {
  const std::size_t count = region.inputs().size();
  std::vector<Dtype> dtypes = region.inputs();
  for (std::size_t i = 0; i < count; ++i)
    if (by[i]) dtypes.push_back(dtypes[i]);
  const auto tangents = [&](std::span<const Tensor> values) {
    std::vector<Tensor> given(count);
    std::size_t next = count;
    for (std::size_t i = 0; i < count; ++i)
      if (by[i]) given[i] = values[next++];
    const auto steps = [&](std::span<const Tensor> xs) { return perform_steps(region, xs); };
    FlatJvp found = jvp_flat(steps, values.first(count), given);
    Outputs of_floats;
    for (std::size_t i = 0; i < found.outputs.size(); ++i)
      if (is_inexact(found.outputs[i].dtype())) of_floats.push_back(std::move(found.tangents[i]));
    return of_floats;
  };
  return record_region("jvp of fused", tangents, dtypes);
}

RegionPtr cotangent_of(const Region& region, int i, const std::vector<bool>& of) {
  const std::size_t count = region.inputs().size();
  std::vector<Dtype> dtypes = region.inputs();
  for (std::size_t k = 0; k < of.size(); ++k)
    if (of[k]) dtypes.push_back(region.dtype(region.outputs()[k]));
  const auto cotangent = [&](std::span<const Tensor> values) {
    const auto steps = [&](std::span<const Tensor> by) {
      std::vector<Tensor> xs(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
      xs[static_cast<std::size_t>(i)] = by[0];
      return perform_steps(region, xs);
    };
    FlatVjp found = vjp_flat(steps, values.subspan(static_cast<std::size_t>(i), 1), "vjp");
    std::vector<Tensor> given(of.size());
    std::size_t next = count;
    for (std::size_t k = 0; k < of.size(); ++k)
      if (of[k]) given[k] = values[next++];
    return Outputs(found.pullback.consume(given)[0]);
  };
  return record_region("vjp of fused", cotangent, dtypes);
}

}  // namespace stave_detail
