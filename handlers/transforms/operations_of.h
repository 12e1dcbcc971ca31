// operations_of: the operations of a function, one after another, as a range.
//
//   auto operations = operations_of(f, x);
//   for (PendingOperation& op : operations) {
//     // in place of computing it
//     if (op.call().op().id == OpId::exp) op.answer(zeros_like(op.call().input(0)));
//     // the rest of f does not run
//     if (op.call().op().id == OpId::matmul) break;
//   }
//   if (operations.result()) ...  // what f returned, if it did
//
// f is suspended at each operation until the loop continues. An operation without an answer is
// performed by the handlers that are installed around the loop. So the loop may itself run under
// transforms, and f may catch the error that the operation throws. Leaving the loop leaves f
// suspended. Destroying the range drops the rest of f, and the destructors of f's local variables
// run. A checkpoint, or a function with a custom rule, is one operation here: the operations inside
// it are performed but not shown. The stepper (handlers/debugger/stepper.h) runs to breakpoints,
// and steps over scopes.
#pragma once

#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <variant>

#include <stave/core/effects/controller.h>
#include <stave/core/op/op.h>
#include <stave/handlers/transforms/arguments.h>

namespace stave {

/// An operation that is waiting to be performed.
class PendingOperation final : public Controller {
 public:
  /// Returns the waiting operation. Throws TransformError if the function has ended.
  Call& call() const;
  /// Gives the outputs of the operation in place of performing it. Throws TransformError if one is
  /// undefined, if their number, shapes or dtypes are not those of the operation, and for
  /// operations that carry functions, whose outputs are not known beforehand.
  void answer(Outputs outputs);

 private:
  template <class R>
  friend class OperationRange;
  void handle(Call& call, Resumption<Call> rest) override;
  std::string describe() const override { return "operations_of"; }
  void go_on();
  void stop() { rest_ = {}; }

  Call* call_ = nullptr;
  Resumption<Call> rest_;
  std::optional<Outputs> answer_;
};

/// The range that operations_of returns.
template <class R>
class OperationRange {
 public:
  class Iterator {
   public:
    using value_type = PendingOperation;
    using difference_type = std::ptrdiff_t;

    explicit Iterator(PendingOperation* operation = nullptr) : operation_(operation) {}
    PendingOperation& operator*() const { return *operation_; }
    PendingOperation* operator->() const { return operation_; }
    Iterator& operator++() {
      operation_->go_on();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !operation_->rest_; }

   private:
    PendingOperation* operation_;
  };

  template <class Body>
  explicit OperationRange(Body body) : operation_(std::make_shared<PendingOperation>()) {
    begin_ = [result = result_, body = std::move(body)](std::shared_ptr<PendingOperation> operation) mutable {
      with(std::move(operation), [result, body = std::move(body)]() mutable { result->emplace(body()); });
    };
  }
  OperationRange(OperationRange&&) noexcept = default;
  OperationRange& operator=(OperationRange&&) = delete;
  ~OperationRange() {
    if (operation_) operation_->stop();
  }

  /// Starts the function; only the first call does.
  Iterator begin() {
    if (auto start = std::exchange(begin_, nullptr)) start(operation_);
    return Iterator(operation_.get());
  }
  std::default_sentinel_t end() const { return {}; }
  /// Returns the result of the function; it is empty if the function has not ended.
  const std::optional<R>& result() const { return *result_; }

 private:
  std::shared_ptr<PendingOperation> operation_;
  std::shared_ptr<std::optional<R>> result_ = std::make_shared<std::optional<R>>();
  std::function<void(std::shared_ptr<PendingOperation>)> begin_;
};

/// Returns the operations of f(args...) as a range. f and the arguments are copied. Objects
/// that f captures by reference must outlive the range, because f runs while the range is iterated.
/// A void result counts as std::monostate.
template <class F, class... A>
auto operations_of(F f, A... args) {
  constexpr bool callable = std::is_invocable_v<F&, A&...>;
  static_assert(callable, "stave: operations_of: the function cannot be called with these arguments");
  if constexpr (callable) {
    using Returned = std::invoke_result_t<F&, A&...>;
    constexpr bool nothing = std::is_void_v<Returned>;
    using R = std::conditional_t<nothing, std::monostate, std::decay_t<Returned>>;
    return OperationRange<R>([f = std::move(f), arguments = std::tuple<A...>(std::move(args)...)]() mutable -> R {
      if constexpr (nothing) return std::apply(f, arguments), R();
      else return std::apply(f, arguments);
    });
  }
}

#define STAVE_NAMES(Name)                                                             \
  template <class... A>                                                               \
  auto operations_of(stave_detail::Name f, A... args) {                               \
    return operations_of<stave_detail::Name, A...>(std::move(f), std::move(args)...); \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
