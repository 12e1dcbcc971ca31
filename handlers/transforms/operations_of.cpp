#include <stave/handlers/transforms/operations_of.h>

#include <stave/core/tensor/fail.h>

namespace stave {

using stave_detail::fail;

Call& PendingOperation::call() const {
  if (!rest_) fail<TransformError>("operations_of: the function has ended, and there is no current operation");
  return *call_;
}

void PendingOperation::answer(Outputs outputs) {
  const char* const name = call().op().name;
  if (call().op().is_higher_order)
    fail<TransformError>(
        "operations_of: {} calls a function, and its outputs are known only after that has run: perform it", name);
  const auto expected = call().abstract_outputs();
  bool fits = outputs.size() == expected.size();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined())
      fail<TransformError>("operations_of: output {} of the answer to {} is an undefined tensor", i, name);
    fits = fits && outputs[i].shape() == expected[i].shape && outputs[i].dtype() == expected[i].dtype;
  }
  if (!fits)
    fail<TransformError>("operations_of: {} has {} output(s), the first {} {}; the answer has {}, the first {}", name,
                         expected.size(), expected[0].dtype, expected[0].shape, outputs.size(),
                         outputs.empty() ? "none" : fmt::format("{} {}", outputs[0].dtype(), outputs[0].shape()));
  answer_ = std::move(outputs);
}

void PendingOperation::handle(Call& call, Resumption<Call> rest) {
  call_ = &call;
  rest_ = std::move(rest);
}

void PendingOperation::go_on() {
  std::exception_ptr thrown;
  Outputs outputs;
  try {
    outputs = answer_ ? *std::exchange(answer_, std::nullopt) : perform(std::move(call()));
  } catch (...) {
    if (!rest_) throw;
    thrown = std::current_exception();
  }
  Resumption<Call> rest = std::move(rest_);
  if (thrown) rest.resume_throwing(std::move(thrown));
  else rest.resume(std::move(outputs));
}

}  // namespace stave
