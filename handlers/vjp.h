// Reverse mode over flat lists of tensors: the core under grad, value_and_grad, vjp and jacrev (grad.h).
//
// While the function runs, the `grad` handler performs each operation that touches a differentiated value below itself, and
// records it on a tape: the operation, what its VJP rule reads, and where its inputs came from. The values themselves stay
// real. Later the pullback walks the record backwards and performs the VJP rules, which are made of ordinary operations: to
// the handlers around it they look like any others, so derivatives of derivatives follow.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <stave/core/function_ref.h>
#include <stave/core/op.h>

namespace stave {

using FlatFunction = FunctionRef<Outputs(std::span<const Tensor>)>;

/// Maps cotangents of outputs to cotangents of inputs. Copies share the tape, which lives as long as the last of them.
class FlatPullback {
 public:
  FlatPullback() = default;
  /// Cotangents of the outputs' shapes and dtypes (undefined: zero) -> cotangents of the inputs. May be called again.
  std::vector<Tensor> operator()(std::span<const Tensor> cotangents) const;
  /// The same, for the last time: intermediate values are freed as soon as nothing needs them.
  std::vector<Tensor> consume(std::span<const Tensor> cotangents);

  struct Record;

 private:
  friend struct FlatVjp;
  friend struct FlatVjp vjp_flat(FlatFunction, std::span<const Tensor>, const char*);
  std::shared_ptr<Record> record_;
};

struct FlatVjp {
  Outputs outputs;
  FlatPullback pullback;
};

/// f at `primals`, and the pullback there. `transform` names it in errors. Throws DtypeError for inputs that are not floats.
FlatVjp vjp_flat(FlatFunction f, std::span<const Tensor> primals, const char* transform);

}  // namespace stave

namespace stave_detail {

/// Throws TransformError if a function under `transform` returned an empty Tensor.
void check_results(std::span<const stave::Tensor> results, const char* transform);

}  // namespace stave_detail
