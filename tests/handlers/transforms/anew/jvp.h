// Forward mode, reimplemented outside the library with the means that every user has:
// a handler, notes, and the rules in the operations' records. It can be nested with any transform,
// and with itself.
//
//   auto [y, dy] = anew::jvp(f, x, v);                         // of one argument
//   auto [outputs, tangents] = anew::jvp(f, primals, along);   // f: a span of tensors -> Outputs
//
// A value with a note has a tangent; a value without one is a constant.
// Each operation is performed outside this handler, then its derivative:
//   rules      op.jvp
//   linear     d op(x) = op(dx)
//   bilinear   d op(a, b) = op(da, b) + op(a, db)
//   zero       no tangent
// Higher-order operations run here in place. So their function is differentiated,
// and a custom rule is not used. (checkpoint saves nothing in forward mode.)
#pragma once

#include <stave/stave.h>

namespace anew {

using namespace stave;

class Forward : public Handler {
 public:
  Notes<Tensor> tangents{"anew::jvp"};

  Outputs handle(Call& call) override {
    if (call.op().is_higher_order)
      return with(*this, [&] { return call.as<FunctionAttributes>().function(call.inputs()); });
    Inputs dx;
    bool any = false;
    for (const Tensor& x : call.inputs()) {
      const Tensor* tangent = tangents.find(x);
      dx.push_back(tangent ? *tangent : Tensor());
      any |= tangent != nullptr;
    }
    if (!any) return perform(std::move(call));
    // An lvalue, because the rule reads the inputs afterwards.
    Outputs y = perform(call);
    const Outputs dy = derivative(JvpContext{call, y, dx});
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = i < dy.size() && dy[i].defined() && is_inexact(y[i].dtype()) ? tangents.put(std::move(y[i]), dy[i])
                                                                          : tangents.strip(std::move(y[i]));
    return y;
  }
  std::string describe() const override { return "anew::jvp"; }

 private:
  static Outputs derivative(const JvpContext& c) {
    const Op& op = c.call.op();
    if (op.derivative == Derivative::zero) return {};
    if (op.jvp) return op.jvp(c);
    if (op.derivative == Derivative::rules) throw TransformError(std::string("anew::jvp: no JVP rule: ") + op.name);
    if (op.derivative == Derivative::bilinear) {
      const auto part = [&](bool has, Inputs inputs) {
        return has ? perform(c.call.with_inputs(std::move(inputs)))[0] : Tensor();
      };
      const Tensor a = part(c.has(0), {c.tangents[0], c.in(1)}), b = part(c.has(1), {c.in(0), c.tangents[1]});
      return a.defined() && b.defined() ? a + b : a.defined() ? a : b;
    }
    // A cast to integers.
    if (!is_inexact(c.out().dtype())) return {};
    // Inputs in which the operation is not linear, such as indices, keep their values.
    Inputs dx;
    for (std::size_t i = 0; i < c.tangents.size(); ++i)
      dx.push_back(op.linear_in.has_input(i) ? c.tangent(i) : c.in(i));
    return perform(c.call.with_inputs(std::move(dx)));
  }
};

struct Pushed {
  Outputs outputs, tangents;
};

/// f(primals) and its derivative along `directions`; an undefined direction counts as zero.
/// Throws ShapeError if a direction has another shape than its primal.
template <class F>
Pushed jvp(F&& f, std::span<const Tensor> primals, std::span<const Tensor> directions) {
  if (directions.size() != primals.size()) throw ShapeError("anew::jvp: give one direction for each primal");
  Forward forward;
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < primals.size(); ++i) {
    inputs.push_back(primals[i]);
    if (!directions[i].defined()) continue;
    if (directions[i].shape() != primals[i].shape() || directions[i].dtype() != primals[i].dtype())
      throw ShapeError("anew::jvp: the direction of primal " + std::to_string(i) + " has another shape or dtype");
    // The note is on a clone, which has its own identity.
    inputs[i] = forward.tangents.put(primals[i], directions[i]);
  }
  Pushed result{with(forward, [&] { return Outputs(f(std::span<const Tensor>(inputs))); }), {}};
  for (Tensor& y : result.outputs) {
    const Tensor* tangent = forward.tangents.find(y);
    result.tangents.push_back(tangent ? *tangent : zeros_like(y));
    y = forward.tangents.strip(std::move(y));
  }
  return result;
}
/// jvp of a function of one argument.
template <class F>
std::pair<Tensor, Tensor> jvp(F&& f, const Tensor& x, const Tensor& direction) {
  const auto of_list = [&](std::span<const Tensor> xs) { return Outputs(f(xs[0])); };
  const Pushed pushed = anew::jvp(of_list, std::span(&x, 1), std::span(&direction, 1));
  return {pushed.outputs[0], pushed.tangents[0]};
}

}  // namespace anew
