// Checks the answers to higher-order operations.
#include <stave/core/op/higher_order_answer.h>

#include <stave/core/tensor/fail.h>

namespace stave_detail {

void HigherOrderResults::set(SmallVector<Result, 1> results) {
  const std::lock_guard lock(mutex_);
  results_ = std::move(results);
}

void HigherOrderResults::set(std::span<const Tensor> outputs, bool of_lanes) {
  SmallVector<Result, 1> results;
  for (const Tensor& output : outputs) {
    if (!output.defined()) return;  // the code that runs the function throws
    Shape shape = output.shape();
    if (of_lanes && shape.rank() == 0) return;
    if (of_lanes) shape = Shape(std::span<const Index>(shape.begin() + 1, shape.end()));
    results.push_back({{std::move(shape), output.dtype()}, output.device()});
  }
  set(std::move(results));
}

std::optional<SmallVector<HigherOrderResults::Result, 1>> HigherOrderResults::get() const {
  const std::lock_guard lock(mutex_);
  return results_;
}

void record_results(FunctionAttributes& functions) {
  const auto results = std::make_shared<HigherOrderResults>();
  if (functions.results)
    if (auto known = functions.results->get()) results->set(std::move(*known));
  functions = lifted(std::move(functions), [results](FunctionRole role, const FunctionInputs& given, auto run) {
    FunctionResults found = run(given);
    if (role != FunctionRole::backward) results->set(found, role == FunctionRole::batch);
    return found;
  });
  functions.results = results;
}

std::string description_of(const Tensor& x) {
  if (!x.defined()) return "an empty Tensor";
  return fmt::format("{} {} on {}", x.dtype(), x.shape(), x.device().str());
}

void check_higher_order_answer(const FunctionAttributes& functions, std::span<const Tensor> outputs,
                               const AnyHandler* who) {
  const std::string name = who ? who->describe() : "resume";
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (!outputs[i].defined())
      fail<TransformError>("{}: {} answered with an empty Tensor for output {}", functions.name, name, i);
  if (!functions.results) return;
  const auto expected = functions.results->get();
  if (!expected)
    fail<TransformError>(
        "{}: {} answered the call without running its function, so the form of the outputs is not known: perform the "
        "call",
        functions.name, name);
  if (outputs.size() != expected->size())
    fail<TransformError>("{}: {} answered with {} output(s) instead of {}", functions.name, name, outputs.size(),
                         expected->size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    const auto& [abstract, device] = (*expected)[i];
    const bool there = !device || output.device() == *device;
    if (there && output.shape() == abstract.shape && output.dtype() == abstract.dtype) continue;
    fail<TransformError>("{}: {} answered with {} for output {}, which is {} {}{}", functions.name, name,
                         description_of(output), i, abstract.dtype, abstract.shape,
                         device ? " on " + device->str() : "");
  }
}

}  // namespace stave_detail
