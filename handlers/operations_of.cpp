#include <stave/handlers/operations_of.h>

#include <stave/core/fail.h>

namespace stave {

using stave_detail::fail;

Call& PendingOperation::call() const {
  if (!rest_) fail<TransformError>("operations_of: the function has ended, and no operation waits");
  return *call_;
}

void PendingOperation::answer(Outputs outputs) {
  const auto expected = call().abstract_outputs();
  bool fits = outputs.size() == expected.size();
  for (std::size_t i = 0; fits && i < expected.size(); ++i)
    fits = outputs[i].shape() == expected[i].shape && outputs[i].dtype() == expected[i].dtype;
  if (!fits)
    fail<TransformError>("operations_of: {} yields {} output(s), the first {} {}; the answer has {}, the first {}",
                         call().op().name, expected.size(), expected[0].dtype, expected[0].shape, outputs.size(),
                         outputs.empty() ? "none" : fmt::format("{} {}", outputs[0].dtype(), outputs[0].shape()));
  answer_ = std::move(outputs);
}

void PendingOperation::handle(Call& call, Resumption<Call> rest) {
  call_ = &call;
  rest_ = std::move(rest);
}

void PendingOperation::go_on() {
  Outputs outputs = answer_ ? *std::exchange(answer_, std::nullopt) : perform(std::move(call()));
  std::exchange(rest_, {}).resume(std::move(outputs));
}

}  // namespace stave
