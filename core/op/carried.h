// The operation `call`: a function that handlers see as one operation, with rules of its own (checkpoint, custom_vjp, custom_jvp,
// custom_vmap).
//
// It goes down through the handlers as any other, and its function runs at the bottom, or wherever a handler runs it. A handler
// uses the rule that is meant for it; where there is none, it passes the call on with its functions *lifted*: below, they take
// what stands behind values, run under that handler again, and give back what stands behind the results. So captured values
// keep their derivatives and lanes, and a counting handler sees the operations inside.
//
// A function sees, whenever it runs, the handlers that stood around the place where the user wrote it, and nobody else's: the
// call collects the frames that it passes, and they stand up again, above whatever is current, before a function of it runs.
// A handler that is no longer there when a function runs again (a checkpoint's, in the backward pass) is an error, unless it is
// shared; or what it would answer is logged; or it only observes.
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

/// What a function runs under: a frame that stands up again, and in it those further inside.
class Surroundings : public RefCounted {
 public:
  virtual ~Surroundings() = default;
  /// These around `inside`.
  static IntrusivePtr<const Surroundings> around(IntrusivePtr<Surroundings> outer,
                                                 IntrusivePtr<const Surroundings> inside) {
    outer->inside_ = std::move(inside);
    return outer;
  }
  /// Of the outermost.
  virtual IntrusivePtr<Surroundings> copy() const = 0;
  /// Runs body under all of them; null: there are none.
  static void run(const Surroundings* outermost, FunctionRef<void()> body) {
    if (!outermost) return body();
    const auto rest = [&] { run(outermost->inside_.get(), body); };
    outermost->stand(rest);
  }

 private:
  virtual void stand(FunctionRef<void()> body) const = 0;

  IntrusivePtr<const Surroundings> inside_;
};
using SurroundingsPtr = IntrusivePtr<const Surroundings>;

/// The answers to the effects of a function that will run again and must do then what it did. Where lanes part (vmap) it runs once
/// for each of their paths, each with answers of its own.
class EffectLog : public RefCounted {
 public:
  struct Run {
    std::vector<std::any> answers;
    bool complete = false;
  };
  /// Of an operation that is performed here.
  EffectLog();
  /// The run of the path on which this is called; the first time a new one.
  Run& run();
  int answering = 0;  // handlers that are at work on an answer

 private:
  // Where reverse mode runs the function again it stands inside of the lanes that were around the operation: these go on with the way
  // of their first one.
  const Path around_;
  std::mutex mutex_;
  std::map<std::vector<int>, Run> runs_;
};

}  // namespace stave_detail

namespace stave {

/// A function of flat lists of tensors. Copies share what it captured.
using CarriedFunction = std::function<Outputs(std::span<const Tensor>)>;

/// What a custom rule gives in the forward pass.
struct ForwardResults {
  Outputs outputs, residuals;
};

/// Which values of a function that runs again are kept, and not computed then: what these operations yield, and what carries one of
/// these labels (label.h).
struct Saveable {
  bool (*operations)(const Op&) = nullptr;
  std::vector<std::string> labels;
};

/// The attributes of `call`: a function, and the rules that stand in its place.
struct FunctionAttributes final : Attributes {
  const char* name = "";  // of what made it: "checkpoint"
  CarriedFunction function;
  /// Reverse mode remembers the inputs alone, and runs the function again; user effects in it are answered as they were.
  bool runs_again = false;
  std::shared_ptr<const Saveable> saves;  // null: nothing
  /// What runs then in place of the function: the same results by the same operations, for reverse mode to record. Null: the function.
  CarriedFunction again;
  IntrusivePtr<stave_detail::EffectLog> log;
  /// Results are followed by values that the function computes on its way, which are those of one way through it: lanes must not
  /// part within.
  bool gives_more = false;
  /// Reverse mode: the same function, and what the backward pass will need.
  std::function<ForwardResults(std::span<const Tensor>)> forward;
  /// Residuals, then cotangents of the outputs -> a cotangent for each input; undefined: zero.
  CarriedFunction backward;
  /// Forward mode: primals, then tangents -> outputs, then a tangent for each.
  CarriedFunction tangents;
  /// Batching: lanes, which inputs carry them as axis 0, inputs -> outputs, which carry them as axis 0.
  std::function<Outputs(Index, std::span<const bool>, std::span<const Tensor>)> batch;

  stave_detail::SurroundingsPtr around;  // of all of them
  std::vector<const Frame*> received;    // by which handlers it was received: what they perform of it, they pass on

  std::string str() const override { return name; }
  /// One of its functions, run under what stood around it.
  template <class R, class... A>
  R run(const std::function<R(A...)>& rule, std::type_identity_t<A>... args) const {
    R result;
    stave_detail::Surroundings::run(around.get(), [&] { result = rule(args...); });
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
  /// The same functions, each run by `run`, which is given a function without arguments and returns what that returns.
  template <class Run>
  FunctionAttributes lifted(Run run) const;
};

}  // namespace stave

namespace stave_detail {

inline const FunctionAttributes& functions_of(const Call& call) {
  return static_cast<const FunctionAttributes&>(*call.attributes());
}

/// What perform does for a call that carries functions.
Outputs carry(Call& call);

/// A call of other functions, on its way to the handlers below.
Outputs perform_functions(Inputs inputs, FunctionAttributes functions);

/// Throws TransformError if a function or rule gave an empty tensor.
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
