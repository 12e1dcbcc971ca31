#include <stave/handlers/transforms/jvp_flat.h>

#include <algorithm>

#include <stave/core/op/higher_order.h>
#include <stave/core/op/lost_derivatives.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/note.h>
#include <stave/handlers/transforms/jvp_rules.h>
#include <stave/handlers/transforms/linear_in.h>
#include <stave/handlers/transforms/tape.h>

namespace stave_detail {
namespace {

// The handler of forward mode. A note holds a tangent; a note without a tangent marks a value
// whose tangent is lost.
class JvpHandler final : public Handler, public FollowsDerivatives, public std::enable_shared_from_this<JvpHandler> {
 public:
  Outputs handle(Call& call) override {
    if (call.op().is_higher_order) [[unlikely]]
      return handle_higher_order(call);
    SmallVector<Tensor, 3> tangents;
    bool any = false, any_lost = false;
    for (const Tensor& input : call.inputs()) {
      const Tensor* tangent = notes.find(input);
      if (tangent) tangents.push_back(*tangent);
      else tangents.emplace_back();
      any |= tangent != nullptr;
      any_lost |= tangent && !tangent->defined();
    }
    if (!any) return perform(std::move(call));
    if (any_lost && call.op().derivative != Derivative::zero) [[unlikely]] {
      Outputs outputs = perform(std::move(call));
      for (Tensor& output : outputs) output = lost(std::move(output));
      return outputs;
    }
    Outputs outputs = perform(call.borrowed());  // lent: the rule reads the inputs afterwards
    Outputs derivatives = call.op().derivative == Derivative::zero ? Outputs(outputs.size(), Tensor())
                                                                   : derive(JvpContext{call, outputs, tangents});
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (is_inexact(outputs[i].dtype()) && derivatives[i].defined()) {
        check_tangent_of_rule(call.op(), outputs[i], derivatives[i]);
        outputs[i] = notes.put(std::move(outputs[i]), std::move(derivatives[i]));
      } else {
        outputs[i] = notes.strip(std::move(outputs[i]));
      }
    }
    return outputs;
  }
  std::string describe() const override { return "jvp"; }
  HandlerProperties properties() const noexcept override {
    return {.runs_no_user_code = true, .takes_closed_calls = true};
  }
  Tensor lost(Tensor x) const override {
    if (lost_by_.empty()) lost_by_ = outside_.effect();
    return is_inexact(x.dtype()) ? notes.put(std::move(x), Tensor()) : x;
  }
  bool follows(const Tensor& x) const noexcept override { return notes.find(x) != nullptr; }
  /// Returns the result of the function, which runs with this handler installed around it.
  Outputs run(FlatFunction f, std::span<const Tensor> inputs) {
    return notes.run([&] { return with(outside_, [&] { return with(*this, [&] { return f(inputs); }); }); });
  }
  /// Returns the tangent of x; zeros if x has none. Throws TransformError if the tangent is lost.
  Tensor tangent(const Tensor& x) const {
    const Tensor* tangent = notes.find(x);
    if (tangent && !tangent->defined()) fail_lost("jvp", lost_by_);
    return tangent ? *tangent : zeros_like(notes.strip(x));
  }

  Notes<Tensor> notes{"jvp", this};

 private:
  // ---- the operation `call` ----

  Outputs handle_higher_order(Call& call) {
    const FunctionAttributes& functions = functions_of(call);
    if (functions.rematerializes) return checkpoint(call);
    const bool any =
        std::any_of(call.inputs().begin(), call.inputs().end(), [&](const Tensor& x) { return notes.find(x); });
    // The function has no derivative rule (at most one for vmap), so the function itself is
    // differentiated.
    if (!functions.has_derivative_rule()) {
      if (!any) return perform(std::move(call));
      return with(*this, [&] { return functions.run(FunctionRole::function, call.inputs()); });
    }
    FunctionAttributes guarded = without_captures(functions, {notes.id()}, "jvp");
    if (!any) return perform_functions(Inputs(call.inputs()), std::move(guarded));
    return functions.tangents ? custom_jvp(call, guarded) : custom_vjp(call, guarded);
  }

  // Passes a checkpoint on to the outer handlers as a checkpoint of another function, which maps
  // primals and tangents to outputs and their tangents. Captured values keep their tangents.
  Outputs checkpoint(Call& call) {
    const auto lift = [self = shared_from_this(), count = call.inputs().size()](
                          FunctionRole, const FunctionInputs& given, auto run) -> FunctionResults {
      Inputs inputs;
      for (std::size_t i = 0; i < count; ++i) {
        const Tensor& x = given.inputs[i];
        inputs.push_back(is_inexact(x.dtype()) ? self->notes.put(clone_node(x), given.inputs[count + i]) : x);
      }
      FunctionResults results = with(self, [&] { return run({inputs}); });
      for (Tensor& output : results) {
        results.more.push_back(self->tangent(output));
        output = self->notes.strip(std::move(output));
      }
      return std::move(results).flat();
    };
    const Inputs both = FunctionInputs(primals(call), tangents(call)).flat();
    Outputs all = perform_functions(both, lifted(functions_of(call), lift));
    const std::size_t outputs = all.size() / 2;
    return with_tangents(FunctionResults::split(std::move(all), outputs));
  }

  // Performs the custom rule in place of the function.
  Outputs custom_jvp(Call& call, const FunctionAttributes& functions) {
    return with_tangents(functions.run(FunctionRole::tangents, {primals(call), tangents(call)}));
  }

  // Transposes the backward rule.
  Outputs custom_vjp(Call& call, const FunctionAttributes& functions) {
    Inputs given;
    for (const Tensor& input : call.inputs()) given.push_back(notes.find(input) ? tangent(input) : Tensor());
    return with_tangents(tangents_by_backward_rule(functions, primals(call), given));
  }

  Inputs primals(const Call& call) const {
    Inputs inputs;
    for (const Tensor& input : call.inputs()) inputs.push_back(notes.strip(input));
    return inputs;
  }
  Inputs tangents(const Call& call) const {
    Inputs found;
    for (const Tensor& input : call.inputs()) found.push_back(tangent(input));
    return found;
  }
  // Returns the outputs, with `more` as their tangents.
  Outputs with_tangents(FunctionResults results) const {
    for (std::size_t i = 0; i < results.size(); ++i) {
      Tensor& output = results[i];
      output = notes.strip(std::move(output));
      if (is_inexact(output.dtype())) output = notes.put(std::move(output), results.more[i]);
    }
    return results;
  }

  // ---- ordinary operations ----

  static Outputs derive(const JvpContext& c) {
    const Op& op = c.call.op();
    if (op.jvp) return op.jvp(c);
    if (op.derivative == Derivative::linear) return linear(c);
    if (op.derivative == Derivative::bilinear) return bilinear(c);
    fail_no_jvp_rule("jvp", op);
  }

  // Performs the operation itself on the tangents. An input in which the operation is not linear
  // must have no tangent; for such an input the operation gets the primal.
  static Outputs linear(const JvpContext& c) {
    // An operation whose result is not floating, such as a cast to integers, has derivative zero.
    if (!is_inexact(c.out().dtype())) return Outputs(c.outputs.size(), Tensor());
    Inputs inputs;
    for (std::size_t i = 0; i < c.call.inputs().size(); ++i) {
      const bool constant = lacks_derivative_by(c.call.op(), i);
      if (constant && c.has(i)) fail_not_linear("jvp", c.call.op(), i);
      inputs.push_back(constant ? c.in(i) : c.tangent(i));
    }
    return perform(c.call.with_inputs(std::move(inputs)));
  }

  // d op(a, b) = op(da, b) + op(a, db)
  static Outputs bilinear(const JvpContext& c) {
    Tensor sum;
    if (c.has(0)) sum = perform(c.call.with_inputs({c.tangents[0], c.in(1)}))[0];
    if (c.has(1)) sum = add_tangents(std::move(sum), perform(c.call.with_inputs({c.in(0), c.tangents[1]}))[0]);
    return sum;
  }

  AnsweredOutside outside_;
  mutable std::string lost_by_;  // the effect whose answer first lost a tangent
};

void check_tangent(std::size_t i, InputNames names, const Tensor& primal, const Tensor& tangent) {
  if (!is_inexact(primal.dtype()))
    fail<DtypeError>(
        "jvp: {} is {} {}, which has no derivative: make it a floating tensor, or capture it in the "
        "function instead of differentiating with respect to it",
        names(i), primal.dtype(), primal.shape());
  if (tangent.shape() != primal.shape())
    fail<ShapeError>("jvp: the tangent of {} has shape {}, the input {}", names(i), tangent.shape(), primal.shape());
  if (tangent.dtype() != primal.dtype())
    fail<DtypeError>("jvp: the tangent of {} is {}, the input {}", names(i), tangent.dtype(), primal.dtype());
  if (tangent.device() != primal.device())
    fail<DeviceError>("jvp: the tangent of {} lives on {}, the input on {}: move one with to(x, device)", names(i),
                      tangent.device().str(), primal.device().str());
}

}  // namespace

void fail_no_jvp_rule(std::string_view transform, const Op& op) {
  fail<NoDerivativeError>("{}: the operation {} has no JVP rule: give it one, or cut it off with stop_gradient",
                          transform, op.name);
}

void check_tangent_of_rule(const Op& op, const Tensor& output, const Tensor& tangent) {
  if (tangent.shape() != output.shape() || tangent.dtype() != output.dtype())
    fail<TransformError>("the JVP rule of {} gave a tangent {} {} for an output {} {}", op.name, tangent.dtype(),
                         tangent.shape(), output.dtype(), output.shape());
}

FunctionResults tangents_by_backward_rule(const FunctionAttributes& functions, std::span<const Tensor> primals,
                                          std::span<const Tensor> tangents) {
  FunctionResults forward = functions.run(FunctionRole::forward, {Inputs(primals)});
  std::vector<Tensor> zero;  // cotangents of the floating outputs
  for (const Tensor& output : forward)
    if (is_inexact(output.dtype())) zero.push_back(zeros_like(output));
  const auto backward = [&](std::span<const Tensor> cotangents) {
    Inputs all;
    std::size_t next = 0;
    for (const Tensor& output : forward)
      all.push_back(is_inexact(output.dtype()) ? cotangents[next++] : zeros_like(output));
    const Outputs found = functions.run(FunctionRole::backward, {forward.more, all});
    Outputs wanted;
    for (std::size_t i = 0; i < primals.size(); ++i)
      if (tangents[i].defined()) wanted.push_back(found[i].defined() ? found[i] : zeros_like(primals[i]));
    return wanted;
  };
  Inputs given;
  for (const Tensor& tangent : tangents)
    if (tangent.defined()) given.push_back(tangent);
  const std::vector<Tensor> found = vjp_flat(backward, zero, "custom_vjp").pullback(given);
  forward.more.clear();
  std::size_t next = 0;
  for (const Tensor& output : forward)
    forward.more.push_back(is_inexact(output.dtype()) ? found[next++] : zeros_like(output));
  return forward;
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

FlatJvp jvp_flat(FlatFunction f, std::span<const Tensor> primals, std::span<const Tensor> tangents, InputNames names) {
  if (primals.size() != tangents.size())
    fail<TransformError>("jvp: {} inputs, but {} tangents", primals.size(), tangents.size());
  const auto shared = std::make_shared<JvpHandler>();
  JvpHandler& handler = *shared;
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < primals.size(); ++i) {
    if (tangents[i].defined()) check_tangent(i, names, primals[i], tangents[i]);
    Tensor input = clone_node(primals[i]);
    if (tangents[i].defined()) input = handler.notes.put(std::move(input), tangents[i]);
    inputs.push_back(std::move(input));
  }
  FlatJvp result;
  result.outputs = handler.run(f, inputs);
  check_results(result.outputs, "jvp");
  for (Tensor& output : result.outputs) {
    result.tangents.push_back(handler.tangent(output));
    output = handler.notes.strip(std::move(output));
  }
  return result;
}

}  // namespace stave
