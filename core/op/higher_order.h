// Higher-order operations: the operation `call` is a function that handlers see as one operation,
// with rules of its own (checkpoint, custom_vjp, custom_jvp, custom_vmap).
//
// A `call` passes through the handlers from inside out, like any other operation. Its function runs
// when the call has passed the outermost handler, or where a handler runs it. A handler uses the
// rule that is meant for it. Without such a rule, it passes the call on with its functions
// *lifted*: outside the handler, a lifted function takes the physical values behind the inputs (for
// vmap, the batches of all lanes), runs under that handler again, and returns the physical values
// behind the results. So captured values keep their derivatives and lanes, and a handler that
// counts operations sees those inside the function.
//
// A function always runs under exactly the handlers that were installed where the user wrote it.
// The call captures the frames that it passes as a stack of handlers (`CapturedHandlers`),
// and installs them again, inside the handlers that are current then, before one of its
// functions runs.
//
// A handler may have ended when a function runs again, as a checkpoint's function does in the
// backward pass. A shared handler is kept alive and is installed again. A handler that only
// observes is left out. For any other handler of operations, running the function is an error. For
// a handler of other effects, it is an error if the function performs an effect that the handler
// answered, unless the effect log has the answer.
#pragma once

#include <any>
#include <array>
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

/// A captured handler stack, as a linked list: a frame that is installed again, and the stack of
/// frames inside it.
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
    outermost->install_and_run(rest);
  }

 private:
  virtual void install_and_run(FunctionRef<void()> body) const = 0;

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
  // The path on which the operation was performed. Its steps belong to runs of vmap that are
  // outside the function, so `run` replaces their path numbers by 0.
  const Path around_;
  std::mutex mutex_;
  std::map<std::vector<int>, Run> runs_;
};

class HigherOrderResults;

}  // namespace stave_detail

namespace stave {

/// The functions that a higher-order operation carries: the function itself, its replacement when
/// it runs again, and the rules of transforms.
enum class FunctionRole : std::uint8_t { function, again, forward, backward, tangents, batch };
inline constexpr std::array function_roles{FunctionRole::function, FunctionRole::again,    FunctionRole::forward,
                                           FunctionRole::backward, FunctionRole::tangents, FunctionRole::batch};

/// The arguments of such a function, in groups:
///   backward   `inputs`: the residuals; `derivatives`: a cotangent for each output
///   tangents   `inputs`: the primals; `derivatives`: a tangent for each of them
///   batch      `inputs`; the number of lanes; batched[i]: input i has the lanes as axis 0
///   others     `inputs`
struct FunctionInputs {
  std::span<const Tensor> inputs, derivatives;
  Index lanes = 0;
  std::span<const bool> batched;

  FunctionInputs(std::span<const Tensor> given, std::span<const Tensor> of_derivatives = {}, Index lane_count = 0,
                 std::span<const bool> are_batched = {})
      : inputs(given), derivatives(of_derivatives), lanes(lane_count), batched(are_batched) {}
  /// All tensors as one list: the inputs, then the derivatives.
  Inputs flat() const;
  /// The same groups with other tensors, which are given as one list in the order of flat().
  FunctionInputs with(std::span<const Tensor> all) const {
    return {all.first(inputs.size()), all.subspan(inputs.size()), lanes, batched};
  }
};

/// The results of such a function: its outputs, or for `backward` a cotangent for each input, where
/// an empty Tensor means zero. For `forward`, `more` has the residuals; for `tangents`, it has a
/// tangent for each output.
struct FunctionResults : Outputs {
  Outputs more;

  FunctionResults() = default;
  FunctionResults(Outputs outputs, Outputs others = {}) : Outputs(std::move(outputs)), more(std::move(others)) {}
  /// All tensors as one list: the outputs, then `more`.
  Outputs flat() &&;
  /// Makes results with this number of outputs from such a list.
  static FunctionResults split(Outputs all, std::size_t outputs);
};

/// A function that a higher-order operation carries. Copies share its captured values.
using FunctionArgument = std::function<FunctionResults(const FunctionInputs&)>;

/// Selects the values of a function that reverse mode saves, and does not compute again when the
/// function runs again: the results of these operations, and values with one of these labels
/// (label.h).
struct Saveable {
  bool (*operations)(const Op&) = nullptr;
  std::vector<std::string> labels;
};

/// The attributes of `call`: a function, and the rules that replace it.
struct FunctionAttributes final : Attributes {
  const char* name = "";  // the name of the transform that made this call: "checkpoint"
  FunctionArgument function;
  /// Reverse mode saves only the inputs and runs the function again. The effects that the function
  /// performs then get the same answers.
  bool rematerializes = false;
  std::shared_ptr<const Saveable> saves;  // null: nothing is saved
  /// A replacement that runs in place of the function when the function would run again. It
  /// computes the same results by the same operations, and reverse mode records it. Null: the
  /// function itself runs again.
  FunctionArgument again;
  IntrusivePtr<stave_detail::EffectLog> log;
  /// The function returns intermediate values after its results. They belong to one path through
  /// the function, so vmap must not split lanes inside it.
  bool gives_more = false;
  // The rules. Reverse mode: `forward` computes the outputs, and the residuals for `backward`.
  FunctionArgument forward, backward;
  FunctionArgument tangents;  // forward mode
  FunctionArgument batch;     // vmap: the outputs have the lanes as axis 0
  /// vmap uses `batch` even where derivative rules exist. The operations of `batch` have the same
  /// derivatives.
  bool batches_first = false;

  stave_detail::CapturedHandlersPtr around;  // the captured handler stack of all these functions
  // The frames of the handlers that received this call. If one of these handlers performs the call
  // again, it passes the call on, so the functions run under that handler too.
  std::vector<const Frame*> received;
  // The properties of the outputs, for checks of an answer (higher_order_answer.h); null: the
  // checks have nothing to compare with.
  std::shared_ptr<stave_detail::HigherOrderResults> results;

  std::string str() const override { return name; }
  FunctionArgument& operator[](FunctionRole role) noexcept {
    FunctionArgument* const all[] = {&function, &again, &forward, &backward, &tangents, &batch};
    return *all[static_cast<std::size_t>(role)];
  }
  const FunctionArgument& operator[](FunctionRole role) const noexcept {
    return const_cast<FunctionAttributes&>(*this)[role];
  }
  bool has_derivative_rule() const noexcept { return backward || tangents; }
  /// Runs one of the functions under the captured handler stack.
  FunctionResults run(FunctionRole role, const FunctionInputs& given) const;
};

}  // namespace stave

namespace stave_detail {

inline const FunctionAttributes& functions_of(const Call& call) {
  return static_cast<const FunctionAttributes&>(*call.attributes());
}

/// Runs a function of a call for a handler that has passed the call on: converts the arguments,
/// calls `run` under that handler, and converts the results. `run` runs the function itself under
/// its captured handler stack.
using Lift = std::function<FunctionResults(FunctionRole role, const FunctionInputs& given,
                                           FunctionRef<FunctionResults(const FunctionInputs&)> run)>;
/// Returns these attributes with each function lifted.
FunctionAttributes lifted(FunctionAttributes functions, Lift lift);

/// Performs a call of a higher-order operation.
Outputs perform_higher_order(Call& call);

/// Performs a new call with these functions, which goes to the current handlers.
Outputs perform_functions(Inputs inputs, FunctionAttributes functions);

/// Throws TransformError if a function or rule returned an empty tensor.
void check_defined(const char* name, const char* what, std::span<const Tensor> results);

}  // namespace stave_detail
