// Reverse mode over flat lists of tensors: the core of grad, value_and_grad, vjp
// and jacrev (grad.h).
//
// While the function runs, the `grad` handler passes each operation on to the outer handlers. It
// records an operation on a differentiated value on a tape: the operation, the values that its VJP
// rule reads, and the producers of its inputs. Values stay concrete. Later the pullback
// walks the tape backwards and performs the VJP rules. The rules are made of ordinary operations,
// which the handlers around the call of the pullback can transform, so derivatives of derivatives
// work.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <stave/core/effects/function_ref.h>
#include <stave/core/op/op.h>
#include <stave/core/tensor/options.h>

namespace stave {

using FlatFunction = FunctionRef<Outputs(std::span<const Tensor>)>;

/// A function that returns the name of input i for error messages.
using InputNames = FunctionRef<std::string(std::size_t)>;
struct NumberedInputs {
  std::string operator()(std::size_t i) const { return "input " + std::to_string(i); }
};
inline constexpr NumberedInputs numbered_inputs{};

/// Says whether a tape keeps or recomputes values that rules will read and that cheap
/// operations (elementwise arithmetic, views) compute from other kept values. `automatic`:
/// once the tape keeps 4 MiB, those of these values that have at least 16 KiB are no longer kept,
/// but computed again in the backward pass with the same bits, unless a user's own handler sees the
/// operations. The tape then keeps a subset of what it would keep otherwise, besides numbers and
/// small inputs. `always`: likewise, from the first byte on, for values of any size. `never`: keeps
/// all of them.
enum class Recompute { automatic, always, never };

/// Options of reverse mode: grad(f, {.recompute = Recompute::never}).
struct GradOptions {
  [[no_unique_address]] ByName by_name{};
  Recompute recompute = Recompute::automatic;
  /// The function is complex-differentiable, and its result is complex: the gradient is its complex
  /// derivative. The differentiated arguments must be complex.
  bool holomorphic = false;
};

/// Maps cotangents of outputs to cotangents of inputs. Copies share the tape, which lives
/// as long as the last of them. It may be called from several threads at once, and from
/// inside a call of itself. A default-constructed one must not be called.
class FlatPullback {
 public:
  FlatPullback() noexcept;
  FlatPullback(const FlatPullback& other) noexcept;
  FlatPullback(FlatPullback&& other) noexcept;
  FlatPullback& operator=(FlatPullback other) noexcept;
  ~FlatPullback();
  /// Returns the cotangents of the inputs. `cotangents` have the outputs' shapes and dtypes
  /// (undefined: zero). It may be called again.
  std::vector<Tensor> operator()(std::span<const Tensor> cotangents) const;
  /// Returns the same cotangents as operator(), in the last call of this pullback. If no copy
  /// shares the tape, saved values are freed as soon as no rule needs them.
  std::vector<Tensor> consume(std::span<const Tensor> cotangents);

  struct Record;

 private:
  friend struct FlatVjp;
  friend struct FlatVjp vjp_flat(FlatFunction, std::span<const Tensor>, const char*, InputNames, GradOptions, bool);
  IntrusivePtr<Record> record_;
};

struct FlatVjp {
  Outputs outputs;
  FlatPullback pullback;
};

/// Returns f at `primals` and the pullback there. Errors name `transform`. `primals_stay` says
/// that the caller keeps the primals alive as long as the pullback. Throws DtypeError for inputs
/// that are not floats.
FlatVjp vjp_flat(FlatFunction f, std::span<const Tensor> primals, const char* transform,
                 InputNames names = numbered_inputs, GradOptions options = {}, bool primals_stay = false);

}  // namespace stave

namespace stave_detail {

/// Throws TransformError if a function under `transform` returned an empty Tensor.
void check_results(std::span<const stave::Tensor> results, const char* transform);

}  // namespace stave_detail
