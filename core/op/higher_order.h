// Higher-order operations: the operation `call` is a function that handlers see as one operation,
// with rules of its own (checkpoint, custom_vjp, custom_jvp, custom_vmap).
//
// A `call` passes through the handlers from inside out, like any other operation. Its function runs
// after the outermost handler, or where a handler runs it. A handler uses the rule that is meant
// for it. Without such a rule, it passes the call on with its functions *lifted*: outside the
// handler, a lifted function takes the physical values behind the inputs (for vmap, the
// batches of all lanes), runs under that handler again, and returns the physical values
// behind the results. So captured values keep their derivatives and lanes, and a handler that
// counts operations sees those inside the function.
//
// A function always runs under exactly the handlers that were installed where the user wrote it.
// The call captures the frames that it passes as a stack of handlers (`CapturedHandlers`),
// and installs them again, inside the handlers that are current then, before one of its
// functions runs. If a handler no longer exists when a function runs again (as a
// checkpoint's does in the backward pass), that is an error, unless the handler is shared,
// its answers are logged, or it only observes.
#pragma once

#include <any>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <stave/core/effects/function_ref.h>
#include <stave/core/op/op.h>
#include <stave/core/tensor/read_storage.h>

namespace stave_detail {

/// A captured handler stack: one frame that is installed again, and
/// inside it the rest of the stack.
class CapturedHandlers : public RefCounted {
 public:
  virtual ~CapturedHandlers() = default;
  /// Returns the stack of `outer` around `inside`.
  static IntrusivePtr<const CapturedHandlers> around(IntrusivePtr<CapturedHandlers> outer,
                                                     IntrusivePtr<const CapturedHandlers> inside) {
    outer->inside_ = std::move(inside);
    return outer;
  }
  /// A copy of the outermost frame alone.
  virtual IntrusivePtr<CapturedHandlers> copy() const = 0;
  /// Runs body under the whole stack; null: there are no frames.
  static void run(const CapturedHandlers* outermost, FunctionRef<void()> body) {
    if (!outermost) return body();
    const auto rest = [&] { run(outermost->inside_.get(), body); };
    outermost->stand(rest);
  }

 private:
  virtual void stand(FunctionRef<void()> body) const = 0;

  IntrusivePtr<const CapturedHandlers> inside_;
};
using CapturedHandlersPtr = IntrusivePtr<const CapturedHandlers>;

/// The effect log of a function that will run again and must get the same answers then. If vmap
/// splits lanes, the function runs once for each path, and each path has answers of its own.
class EffectLog : public RefCounted {
 public:
  struct Run {
    std::vector<std::any> answers;
    bool complete = false;
  };
  /// The log of an operation that is performed here.
  EffectLog();
  /// The run for the current path (WhichPath) through the function. The first
  /// use of a path makes a new run.
  Run& run();
  int answering = 0;  // the number of handlers that are computing an answer now

 private:
  // The path on which the operation was performed. When reverse mode runs the function again inside
  // the same runs of lanes, each of them counts as on the path of its first lane, number 0.
  const Path around_;
  std::mutex mutex_;
  std::map<std::vector<int>, Run> runs_;
};

}  // namespace stave_detail

namespace stave {

/// A function from a flat list of tensors to a flat list of tensors. Copies share its
/// captured values.
using FunctionArgument = std::function<Outputs(std::span<const Tensor>)>;

/// The results of a custom rule in the forward pass.
struct ForwardResults {
  Outputs outputs, residuals;
};

/// The values of a function that are saved and not computed again when it runs again:
/// the results of these operations, and values with one of these labels (label.h).
struct Saveable {
  bool (*operations)(const Op&) = nullptr;
  std::vector<std::string> labels;
};

/// The attributes of `call`: a function, and the rules that replace it.
struct FunctionAttributes final : Attributes {
  const char* name = "";  // the name of the transform that made it: "checkpoint"
  FunctionArgument function;
  /// Reverse mode saves only the inputs and runs the function again; user effects in it get
  /// the same answers.
  bool rematerializes = false;
  std::shared_ptr<const Saveable> saves;  // null: nothing is saved
  /// A replacement for the function when it runs again: the same results by the same operations,
  /// which reverse mode records. Null: the function itself.
  FunctionArgument again;
  IntrusivePtr<stave_detail::EffectLog> log;
  /// After its results, the function returns intermediate values, which belong to one path through
  /// it. Lanes must not be split inside it.
  bool gives_more = false;
  /// Reverse mode: computes the outputs, and the residuals for the backward pass.
  std::function<ForwardResults(std::span<const Tensor>)> forward;
  /// Residuals, then cotangents of the outputs -> a cotangent for each input; undefined: zero.
  FunctionArgument backward;
  /// Forward mode: primals, then tangents -> outputs, then a tangent for each output.
  FunctionArgument tangents;
  /// Batching: the number of lanes, which inputs have them as axis 0, inputs -> outputs, which have
  /// the lanes as axis 0.
  std::function<Outputs(Index, std::span<const bool>, std::span<const Tensor>)> batch;

  stave_detail::CapturedHandlersPtr around;  // the captured handler stack of all these functions
  // The frames that received this call: a handler that performs it again only passes it on.
  std::vector<const Frame*> received;

  std::string str() const override { return name; }
  /// Runs one of the functions under the captured handler stack.
  template <class R, class... A>
  R run(const std::function<R(A...)>& rule, std::type_identity_t<A>... args) const {
    R result;
    stave_detail::CapturedHandlers::run(around.get(), [&] { result = rule(args...); });
    return result;
  }
  /// Calls f with each of the rules, as a pointer to the member.
  template <class F>
  static void for_rules(F f) {
    f(&FunctionAttributes::forward);
    f(&FunctionAttributes::backward);
    f(&FunctionAttributes::tangents);
    f(&FunctionAttributes::batch);
  }
  /// A copy of these attributes in which `run` runs each function. `run` receives a function
  /// without arguments and returns its result.
  template <class Run>
  FunctionAttributes lifted(Run run) const;
};

}  // namespace stave

namespace stave_detail {

inline const FunctionAttributes& functions_of(const Call& call) {
  return static_cast<const FunctionAttributes&>(*call.attributes());
}

/// Performs a call of a higher-order operation.
Outputs carry(Call& call);

/// Performs a new call with these functions, which goes to the current handlers.
Outputs perform_functions(Inputs inputs, FunctionAttributes functions);

/// Throws TransformError if a function or rule returned an empty tensor.
void check_defined(const char* name, const char* what, std::span<const Tensor> results);

}  // namespace stave_detail

namespace stave {

template <class Run>
FunctionAttributes FunctionAttributes::lifted(Run run) const {
  const auto self = std::make_shared<const FunctionAttributes>(*this);
  FunctionAttributes result = *this;
  result.around = nullptr;
  const auto lift = [&](auto member) {
    if (!(*self.*member)) return;
    result.*
        member = [self, run, member](auto... args) { return run([&] { return self->run(*self.*member, args...); }); };
  };
  lift(&FunctionAttributes::function);
  lift(&FunctionAttributes::again);
  for_rules(lift);
  return result;
}

}  // namespace stave
