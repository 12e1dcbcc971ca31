#include <stave/handlers/debugger/debugger_history.h>

#include <cstring>
#include <string_view>

#include <stave/core/ops/frontend.h>
#include <stave/core/tensor/label.h>
#include <stave/core/tensor/print.h>

namespace stave_detail {

void DebuggerHistory::add(const Call& call, const ScopeNames& scopes) {
  PastOperation operation{++count_, text_of(call, {}), call_stack()};
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) operation.text += "  [" + (*scope)->text + "]";
  operations_.push_back(std::move(operation));
  if (operations_.size() > most) operations_.pop_front();
  links_.add(count_);
  if (links_.size() > 4 * most) links_.forget_before(operations_.front().number);
  for (const Tensor& input : call.inputs())
    if (input.defined())
      if (const NamePtr label = label_of(input.node())) labelled_.insert_or_assign(label->text, input);
}

const PastOperation* DebuggerHistory::forward_of(const Differentiated& derivative) const {
  const std::uint64_t number = links_.find(derivative.entry);
  if (number == 0 || operations_.empty()) return nullptr;
  const std::uint64_t first = operations_.front().number;
  return number < first ? nullptr : &operations_[number - first];
}

std::uint64_t fingerprint_of(const Tensor& x) {
  const Tensor values = observed(x);
  // The hash is the 64-bit FNV-1a (Fowler, Noll, Vo).
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::string_view bytes) {
    for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  };
  add(values.shape().str() + name_of(values.dtype()));
  visit_dtype(values.dtype(), [&](auto zero) {
    for (const auto element : read_elements<decltype(zero)>(values)) {
      char bytes[sizeof element];
      std::memcpy(bytes, &element, sizeof element);
      add({bytes, sizeof element});
    }
  });
  return hash;
}

}  // namespace stave_detail
