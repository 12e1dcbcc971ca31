// Reverse mode in continuation-passing style, without a tape, reimplemented outside
// the library as a controller. After F. Wang et al., "Demystifying Differentiable Programming:
// Shift/Reset the Penultimate Backpropagator", ICFP 2019:
//
//   shift (k => { y = op(x); k(y); x.cotangent += op.vjp(y.cotangent) })      at each operation
//   reset { f(x).cotangent = 1 }                                              around the function
//
// `handle` is the shift, and `rest` is k. The code after `resume` runs when the rest
// of the program has run, in reverse order of the operations, so the call stack is the tape.
// It grows with the program: the usual stack suffices for some thousand operations.
//
//   // f: a span of tensors -> Outputs; seeds: Outputs -> their cotangents
//   auto [outputs, cotangents] = anew::vjp(f, primals, seeds);
//   Tensor g = anew::grad(f, x);
//
// Higher-order operations run outside this controller, and once more in the backward pass,
// under this controller. For checkpoint, that is its purpose. For the others,
// the function is differentiated and a custom rule is not used.
#pragma once

#include <algorithm>

#include <stave/stave.h>

namespace anew {

using namespace stave;

class ShiftReset : public Controller {
 public:
  // An undefined tensor counts as zero.
  Notes<std::shared_ptr<Tensor>> cotangents{"anew::vjp"};

  void handle(Call& performed, Resumption<Call> rest) override {
    // A copy, because the program's call is gone when the rest has run.
    const Call call = performed;
    const bool carries = call.op().is_higher_order;
    Outputs y = carries ? call.as<FunctionAttributes>().function(call.inputs()) : perform(call);
    // True if a result depends on variables; a function may capture some.
    bool varies = carries;
    for (const Tensor& x : call.inputs()) varies |= cotangents.find(x) && call.op().derivative != Derivative::zero;
    if (!varies) return rest.resume_last(constants(std::move(y)));
    for (Tensor& x : y) x = is_inexact(x.dtype()) ? variable(std::move(x)) : cotangents.strip(std::move(x));
    rest.resume(y);
    Outputs dy;
    for (const Tensor& x : y) dy.push_back(cotangent(x));
    if (std::none_of(dy.begin(), dy.end(), [](const Tensor& x) { return x.defined(); })) return;
    carries ? run_again(call, dy) : pull_back(call, y, dy);
  }
  std::string describe() const override { return "anew::vjp"; }

  /// A clone of x with a place for its cotangent.
  Tensor variable(Tensor x) const { return cotangents.put(std::move(x), std::make_shared<Tensor>()); }
  Outputs constants(Outputs y) const {
    for (Tensor& x : y) x = cotangents.strip(std::move(x));
    return y;
  }
  Tensor cotangent(const Tensor& x) const { return cotangents.find(x) ? **cotangents.find(x) : Tensor(); }
  void add(const Tensor& x, const Tensor& more) const {
    if (!cotangents.find(x) || !more.defined()) return;
    Tensor& sum = **cotangents.find(x);
    sum = sum.defined() ? sum + more : more;
  }

 private:
  void pull_back(const Call& call, const Outputs& y, const Outputs& dy) const {
    if (!call.op().vjp) throw TransformError(std::string("anew::vjp: no VJP rule: ") + call.op().name);
    SmallVector<Abstract, 3> abstracts;
    for (const Tensor& x : call.inputs()) abstracts.push_back({x.shape(), x.dtype()});
    const VjpContext context{call.op(), call.attributes(), call.inputs(), y, abstracts, dy};
    for (std::size_t i = 0; i < call.inputs().size(); ++i)
      if (cotangents.find(call.input(i))) add(call.input(i), call.op().vjp(context, static_cast<int>(i)));
  }
  void run_again(const Call& call, const Outputs& dy) {
    with(*this, [&] {
      const Outputs y = call.as<FunctionAttributes>().function(call.inputs());
      for (std::size_t i = 0; i < y.size(); ++i) add(y[i], dy[i]);
    });
  }
};

struct Pulled {
  Outputs outputs;
  // The cotangents of the primals.
  std::vector<Tensor> cotangents;
};

/// f(primals), and the cotangents of the primals for the cotangents of the outputs
/// that seeds(outputs) returns; undefined ones count as zero.
template <class F, class Seeds>
Pulled vjp(F&& f, std::span<const Tensor> primals, Seeds&& seeds) {
  ShiftReset shift;
  std::vector<Tensor> inputs;
  // The variables are clones, which have their own identities.
  for (const Tensor& x : primals) inputs.push_back(shift.variable(x));
  Pulled result;
  with(shift, [&] {
    const Outputs y = f(std::span<const Tensor>(inputs));
    const std::vector<Tensor> given = seeds(result.outputs = shift.constants(y));
    for (std::size_t i = 0; i < y.size(); ++i) shift.add(y[i], given.at(i));
  });
  for (const Tensor& x : inputs) {
    const Tensor cotangent = shift.cotangent(x);
    result.cotangents.push_back(cotangent.defined() ? cotangent : zeros_like(shift.cotangents.strip(x)));
  }
  return result;
}
/// The gradient of a function with one argument and one result.
template <class F>
Tensor grad(F&& f, const Tensor& x) {
  const auto of_list = [&](std::span<const Tensor> xs) { return Outputs(f(xs[0])); };
  const auto one = [](const Outputs& y) { return std::vector{ones_like(y[0])}; };
  return anew::vjp(of_list, std::span(&x, 1), one).cotangents[0];
}

}  // namespace anew
