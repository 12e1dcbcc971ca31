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

void tell_results(FunctionAttributes& functions) {
  const auto results = std::make_shared<HigherOrderResults>();
  if (const auto* const told = functions.function.target<ToldFunction>())
    if (auto known = told->results->get()) results->set(std::move(*known));
  functions.function = ToldFunction{std::move(functions.function), results};
  if (functions.again) functions.again = ToldFunction{std::move(functions.again), results};
  if (functions.forward)
    functions.forward = [forward = std::move(functions.forward), results](std::span<const Tensor> xs) {
      ForwardResults both = forward(xs);
      results->set(both.outputs);
      return both;
    };
  if (functions.tangents)
    functions.tangents = [tangents = std::move(functions.tangents), results](std::span<const Tensor> xs) {
      Outputs both = tangents(xs);
      results->set(std::span<const Tensor>(both).first(both.size() / 2));
      return both;
    };
  if (functions.batch)
    functions.batch = [batch = std::move(functions.batch), results](Index lanes, std::span<const bool> batched,
                                                                    std::span<const Tensor> xs) {
      Outputs outputs = batch(lanes, batched, xs);
      results->set(outputs, true);
      return outputs;
    };
}

std::string in_words(const Tensor& x) {
  if (!x.defined()) return "an empty Tensor";
  return fmt::format("{} {} on {}", x.dtype(), x.shape(), x.device().str());
}

void check_higher_order_answer(const FunctionAttributes& functions, std::span<const Tensor> outputs,
                               const AnyHandler* who) {
  const std::string name = who ? who->describe() : "resume";
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (!outputs[i].defined())
      fail<TransformError>("{}: {} answered with an empty Tensor for output {}", functions.name, name, i);
  const auto* const told = functions.function.target<ToldFunction>();
  if (!told) return;
  const auto expected = told->results->get();
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
                         in_words(output), i, abstract.dtype, abstract.shape, device ? " on " + device->str() : "");
  }
}

}  // namespace stave_detail
