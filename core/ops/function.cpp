#include <stave/core/ops/function.h>

#include <stave/core/op.h>
#include <stave/core/ops/frontend.h>

namespace stave {
namespace {

// Known when the function has run.
void infer_nothing(const Call&, SmallVector<Abstract, 1>&) {}

}  // namespace

#define X(function)                                                       \
  constinit const Op op_##function{                                       \
      .id = OpId::function,                                               \
      .carries_functions = true,                                          \
      .name = #function,                                                  \
      .infer = infer_nothing,                                             \
      .saves = {.inputs = OpId::function == OpId::checkpoint ? ~0u : 0u}, \
  };
STAVE_FUNCTION_OPS(X)
#undef X

}  // namespace stave

namespace stave_detail {

Outputs checkpoint_flat(CarriedFunction function, Inputs inputs) {
  FunctionAttributes functions;
  functions.function = [function = std::move(function), log = make_intrusive<EffectLog>()](std::span<const Tensor> xs) {
    LogFrame frame(current, *log);
    UnderFrame install(&frame);
    Outputs outputs = function(xs);
    log->complete = true;
    return outputs;
  };
  return perform_carrying(op_checkpoint, std::move(inputs), std::move(functions));
}

Outputs custom_vjp_flat(FunctionAttributes functions, Inputs inputs) {
  return perform_carrying(op_custom_vjp, std::move(inputs), std::move(functions));
}
Outputs custom_jvp_flat(FunctionAttributes functions, Inputs inputs) {
  return perform_carrying(op_custom_jvp, std::move(inputs), std::move(functions));
}
Outputs custom_vmap_flat(FunctionAttributes functions, Inputs inputs) {
  return perform_carrying(op_custom_vmap, std::move(inputs), std::move(functions));
}

Tensor broadcast_lanes(const Tensor& x, Index lanes) {
  Shape shape = x.shape();
  shape.insert(shape.begin(), lanes);
  return broadcast_quietly(x, shape);
}

}  // namespace stave_detail
