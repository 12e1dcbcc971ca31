// Functions that operations carry: checkpoint, custom_vjp, custom_jvp, custom_vmap (core/ops/function.h).
//
// Such a call goes down through the handlers as any other, and its functions run at the bottom, or wherever a handler runs
// them. There they must see the handlers that stood between: so each frame that the call passes wraps the functions, and a
// wrapped function stands that frame up again, above whatever is current, before it runs. Captured values keep their
// derivatives and lanes so, and a counting handler sees the operations inside. A handler that is no longer there when a
// function runs again (a checkpoint's, in the backward pass) is an error, unless it is shared, or handles effects alone:
// their answers are logged.
#pragma once

#include <functional>

#include <stave/core/function_ref.h>
#include <stave/core/op.h>

namespace stave {

/// A function of flat lists of tensors that an operation carries. Copies share what it captured.
using CarriedFunction = std::function<Outputs(std::span<const Tensor>)>;

/// What a custom rule gives in the forward pass.
struct Forward {
  Outputs outputs, residuals;
};

/// The attributes of an operation that carries functions; it uses some of them.
struct FunctionAttributes final : Attributes {
  CarriedFunction function;
  /// custom_vjp: the same function, and what the backward pass will need.
  std::function<Forward(std::span<const Tensor>)> forward;
  /// custom_vjp: residuals, then cotangents of the outputs -> cotangents of the inputs; undefined: zero.
  CarriedFunction backward;
  /// custom_jvp: primals, then tangents -> outputs, then their tangents.
  CarriedFunction tangents;
  /// custom_vmap: lanes, which inputs carry them as axis 0, inputs -> outputs, which carry them as axis 0.
  std::function<Outputs(Index, std::span<const bool>, std::span<const Tensor>)> batch;

  std::vector<const Frame*> received;  // by which handlers it was received: what they perform of it, they pass on

  std::string str() const override { return ""; }
};

}  // namespace stave

namespace stave_detail {

/// Something to run a function under.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  virtual void run(FunctionRef<void()> body) = 0;
};

/// A handler that is kept alive.
class UnderHandler final : public Surroundings {
 public:
  UnderHandler(std::shared_ptr<AnyHandler> handler, Handling<Call>* operations)
      : handler_(std::move(handler)), operations_(operations) {}
  template <class H>
  explicit UnderHandler(const std::shared_ptr<H>& handler) : UnderHandler(handler, handler.get()) {}
  void run(FunctionRef<void()> body) override {
    HandlerFrame frame(current, handler_.get(), operations_);
    frame.owner = &handler_;
    UnderFrame install(&frame);
    body();
  }

 private:
  std::shared_ptr<AnyHandler> handler_;
  Handling<Call>* operations_;
};

template <class R, class... A>
std::function<R(A...)> wrapped(std::function<R(A...)> function, std::shared_ptr<Surroundings> surroundings) {
  if (!function) return function;
  return [function = std::move(function), surroundings = std::move(surroundings)](A... args) {
    R result;
    const auto body = [&] { result = function(args...); };
    surroundings->run(body);
    return result;
  };
}

/// All functions under `surroundings`.
FunctionAttributes wrapped(FunctionAttributes attributes, const std::shared_ptr<Surroundings>& surroundings);

inline const FunctionAttributes& functions_of(const Call& call) { return call.as<FunctionAttributes>(); }

/// What perform does for a call that carries functions.
Outputs carry(Call& call);

/// The same operation with other functions, on its way to the handlers below.
Outputs perform_carrying(const Op& op, Inputs inputs, FunctionAttributes attributes);

}  // namespace stave_detail
