// Reverse mode over flat lists of tensors: the core under grad, value_and_grad, vjp and jacrev (grad.h).
//
// While the function runs, the `grad` handler performs each operation that touches a differentiated value below itself, and
// records it on a tape: the operation, what its VJP rule reads, and where its inputs came from. The values themselves stay
// real. Later the pullback walks the record backwards and performs the VJP rules, which are made of ordinary operations: to
// the handlers around it they look like any others, so derivatives of derivatives follow.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <stave/core/effects/function_ref.h>
#include <stave/core/op/op.h>
#include <stave/core/tensor/options.h>

namespace stave {

using FlatFunction = FunctionRef<Outputs(std::span<const Tensor>)>;

/// What errors call input i.
using InputNames = FunctionRef<std::string(std::size_t)>;
struct NumberedInputs {
  std::string operator()(std::size_t i) const { return "input " + std::to_string(i); }
};
inline constexpr NumberedInputs numbered_inputs{};

/// What a tape does with values that cheap operations (elementwise arithmetic, views) make of others that it keeps, and that its
/// rules will read. `automatic`: once the tape keeps 4 MiB, the large ones among them are computed again in the backward pass,
/// with the same bits, and no longer kept, unless a handler of the user's own sees the operations; so the tape keeps a part of
/// what it would, and never more. `always`: from the first byte on. `never`: they are kept.
enum class Recompute { automatic, always, never };

/// An option of reverse mode: grad(f, {.recompute = Recompute::never}).
struct GradOptions {
  [[no_unique_address]] ByName by_name{};
  Recompute recompute = Recompute::automatic;
};

/// Maps cotangents of outputs to cotangents of inputs. Copies share the tape, which lives as long as the last of them. May be
/// called from any number of threads at once, and while it is being called.
class FlatPullback {
 public:
  FlatPullback() noexcept;
  FlatPullback(const FlatPullback& other) noexcept;
  FlatPullback(FlatPullback&& other) noexcept;
  FlatPullback& operator=(FlatPullback other) noexcept;
  ~FlatPullback();
  /// Cotangents of the outputs' shapes and dtypes (undefined: zero) -> cotangents of the inputs. May be called again.
  std::vector<Tensor> operator()(std::span<const Tensor> cotangents) const;
  /// The same, for the last time: intermediate values are freed as soon as nothing needs them.
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

/// f at `primals`, and the pullback there. `transform` names it in errors. `primals_stay`: the caller keeps them for as long as the
/// pullback. Throws DtypeError for inputs that are not floats.
FlatVjp vjp_flat(FlatFunction f, std::span<const Tensor> primals, const char* transform,
                 InputNames names = numbered_inputs, GradOptions options = {}, bool primals_stay = false);

}  // namespace stave

namespace stave_detail {

/// Throws TransformError if a function under `transform` returned an empty Tensor.
void check_results(std::span<const stave::Tensor> results, const char* transform);

}  // namespace stave_detail
