#include <stave/handlers/jvp_flat.h>

#include <algorithm>

#include <stave/core/fail.h>
#include <stave/core/note.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>

namespace stave_detail {
namespace {

class JvpHandler final : public Handler {
 public:
  Outputs handle(Call& call) override {
    SmallVector<Tensor, 3> tangents;
    bool any = false;
    for (const Tensor& input : call.inputs()) {
      const Tensor* tangent = notes.find(input);
      tangents.push_back(tangent ? *tangent : Tensor());
      any |= tangent != nullptr;
    }
    if (!any) return perform(std::move(call));
    Outputs outputs = perform(Call(call));  // the rule reads the inputs afterwards
    const Outputs derivatives = call.op().derivative == Derivative::zero ? Outputs(outputs.size(), Tensor())
                                                                         : derive(JvpContext{call, outputs, tangents});
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (is_float(outputs[i].dtype()) && derivatives[i].defined()) {
        check(call, outputs[i], derivatives[i]);
        outputs[i] = notes.put(std::move(outputs[i]), derivatives[i]);
      } else {
        outputs[i] = notes.strip(std::move(outputs[i]));
      }
    }
    return outputs;
  }
  std::string describe() const override { return "jvp"; }

  Notes<Tensor> notes{"jvp"};

 private:
  static Outputs derive(const JvpContext& c) {
    const Op& op = c.call.op();
    if (op.jvp) return op.jvp(c);
    if (op.derivative == Derivative::linear) return linear(c);
    if (op.derivative == Derivative::bilinear) return bilinear(c);
    fail<TransformError>("jvp: the operation {} has no JVP rule: give it one, or cut it off with stop_gradient",
                         op.name);
  }

  // The operation itself on the tangents; inputs in which it is not linear stay.
  static Outputs linear(const JvpContext& c) {
    // A cast from floats to integers, or of integers, has derivative zero.
    if (!is_float(c.out().dtype())) return Outputs(c.outputs.size(), Tensor());
    Inputs inputs;
    for (std::size_t i = 0; i < c.call.inputs().size(); ++i)
      inputs.push_back(c.call.op().linear_in >> i & 1 ? c.tangent(i) : c.in(i));
    return perform(c.call.with_inputs(std::move(inputs)));
  }

  // d op(a, b) = op(da, b) + op(a, db)
  static Outputs bilinear(const JvpContext& c) {
    Tensor sum;
    if (c.has(0)) sum = perform(c.call.with_inputs({c.tangents[0], c.in(1)}))[0];
    if (c.has(1)) sum = add_tangents(std::move(sum), perform(c.call.with_inputs({c.in(0), c.tangents[1]}))[0]);
    return sum;
  }

  static void check(const Call& call, const Tensor& output, const Tensor& tangent) {
    if (tangent.shape() != output.shape() || tangent.dtype() != output.dtype())
      fail<TransformError>("the JVP rule of {} gave a tangent {} {} for an output {} {}", call.op().name,
                           tangent.dtype(), tangent.shape(), output.dtype(), output.shape());
  }
};

void check_tangent(std::size_t i, const Tensor& primal, const Tensor& tangent) {
  if (!is_float(primal.dtype()))
    fail<DtypeError>(
        "jvp: input {} is {} {}, which has no derivative: make it a floating tensor, or capture it in the "
        "function instead of differentiating by it",
        i, primal.dtype(), primal.shape());
  if (tangent.shape() != primal.shape())
    fail<ShapeError>("jvp: the tangent of input {} has shape {}, the input {}", i, tangent.shape(), primal.shape());
  if (tangent.dtype() != primal.dtype())
    fail<DtypeError>("jvp: the tangent of input {} is {}, the input {}", i, tangent.dtype(), primal.dtype());
}

}  // namespace
}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

FlatJvp jvp_flat(FlatFunction f, std::span<const Tensor> primals, std::span<const Tensor> tangents) {
  if (primals.size() != tangents.size())
    fail<TransformError>("jvp: {} inputs, but {} tangents", primals.size(), tangents.size());
  JvpHandler handler;
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < primals.size(); ++i) {
    if (tangents[i].defined()) check_tangent(i, primals[i], tangents[i]);
    Tensor input = clone_node(primals[i]);
    if (tangents[i].defined()) input = handler.notes.put(std::move(input), tangents[i]);
    inputs.push_back(std::move(input));
  }
  FlatJvp result;
  result.outputs = with(handler, [&] { return f(inputs); });
  check_results(result.outputs, "jvp");
  for (Tensor& output : result.outputs) {
    const Tensor* tangent = handler.notes.find(output);
    result.tangents.push_back(tangent ? *tangent : zeros_like(output));
    output = handler.notes.strip(std::move(output));
  }
  return result;
}

}  // namespace stave
