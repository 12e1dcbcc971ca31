#include <stave/handlers/taylor/laplacian.h>

#include <algorithm>

#include <stave/core/op/derivative_order.h>
#include <stave/core/op/higher_order.h>
#include <stave/core/op/lost_derivatives.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/program/fused.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/note.h>
#include <stave/handlers/transforms/jvp_flat.h>
#include <stave/handlers/transforms/linear_in.h>
#include <stave/handlers/transforms/tape.h>
#include <stave/handlers/transforms/vmap_flat.h>

namespace stave_detail {

namespace {

// The derivatives of a value. The second one along direction d is a sum of two parts: first
// derivatives of the function that computed it, applied to second derivatives of its inputs, and
// second derivatives of that function applied to their first derivatives. The first part is linear,
// so that the sum over the directions is formed before it.
struct Derivatives {
  Tensor first;   // [directions, shape...]; undefined: the derivative is lost
  Tensor second;  // [shape...], the sum over the directions; undefined: zero
};

class LaplacianHandler final : public Handler,
                               public FollowsDerivatives,
                               public TakesHigherDerivatives,
                               public std::enable_shared_from_this<LaplacianHandler> {
 public:
  explicit LaplacianHandler(Index directions) : directions_(directions) {}

  Outputs handle(Call& call) override {
    if (call.op().is_higher_order) return handle_higher_order(call);
    if (!is_noted(call)) return perform(std::move(call));
    if (call.op().derivative == Derivative::zero) return stripped(perform(std::move(call)));
    if (has_lost(call)) {
      Outputs outputs = stripped(perform(std::move(call)));
      for (Tensor& output : outputs) output = lost(std::move(output));
      return outputs;
    }
    const auto function = [&](std::span<const Tensor> xs) {
      Inputs inputs(xs);
      return perform(call.with_inputs(std::move(inputs)));
    };
    return noted(call, perform(call.borrowed()), function);
  }
  std::string describe() const override { return "laplacian"; }
  HandlerProperties properties() const noexcept override { return {.runs_no_user_code = true}; }
  Tensor lost(Tensor x) const override {
    if (lost_by_.empty()) lost_by_ = outside_.effect();
    return is_inexact(x.dtype()) ? notes.put(std::move(x), {}) : x;
  }
  bool follows(const Tensor& x) const noexcept override { return notes.find(x) != nullptr; }
  int highest_derivative() const noexcept override { return 2; }

  Outputs run(FlatFunction f, std::span<const Tensor> inputs) {
    return notes.run([&] { return with(outside_, [&] { return with(*this, [&] { return f(inputs); }); }); });
  }
  /// The Laplacian of a result.
  Tensor of(const Tensor& y) const {
    const Derivatives* const known = notes.find(y);
    if (known && !known->first.defined()) fail_lost("laplacian", lost_by_);
    return known && known->second.defined() ? known->second : zeros_like(notes.strip(y));
  }

  Notes<Derivatives> notes{"laplacian", this};

 private:
  Outputs handle_higher_order(Call& call) {
    const FunctionAttributes& functions = functions_of(call);
    if (functions.rematerializes || !functions.has_derivative_rule()) {
      if (!functions.rematerializes && !is_noted(call)) return perform(std::move(call));
      return with(*this, [&] { return functions.run(FunctionRole::function, call.inputs()); });
    }
    const FunctionAttributes guarded = without_captures(functions, {notes.id()}, "laplacian");
    if (!is_noted(call)) return perform_functions(Inputs(call.inputs()), guarded);
    Inputs primals;
    for (const Tensor& x : call.inputs()) primals.push_back(notes.strip(x));
    const auto function = [&](std::span<const Tensor> xs) { return perform_functions(Inputs(xs), guarded); };
    return noted(call, function(primals), function);
  }

  // Returns the outputs with their derivatives. `function` performs the call on other inputs.
  Outputs noted(const Call& call, Outputs outputs, FlatFunction function) {
    const Terms terms(*this, call, function);
    const Outputs first = terms.first(), direct = terms.direct(), through = terms.through();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      outputs[i] = notes.strip(std::move(outputs[i]));
      if (!is_inexact(outputs[i].dtype()) || !first[i].defined()) continue;
      const Tensor second =
          add_tangents(direct.empty() ? Tensor() : direct[i], through.empty() ? Tensor() : through[i]);
      outputs[i] = notes.put(std::move(outputs[i]), {first[i], second});
    }
    return outputs;
  }

  // The derivatives of the outputs of one call, by jvp of the call itself.
  class Terms {
   public:
    Terms(const LaplacianHandler& handler, const Call& call, FlatFunction function)
        : call_(call), function_(function), directions_(handler.directions_) {
      for (const Tensor& x : call.inputs()) {
        const Derivatives* const known = handler.notes.find(x);
        primals_.push_back(handler.notes.strip(x));
        first_.push_back(known ? known->first : Tensor());
        second_.push_back(known ? known->second : Tensor());
      }
    }
    /// The first derivatives of the outputs along all directions.
    Outputs first() const {
      return along_directions([&](std::span<const Tensor> tangents) { return derivative(primals_, tangents); });
    }
    /// The first derivatives applied to the second ones of the inputs.
    Outputs through() const {
      const bool any = std::any_of(second_.begin(), second_.end(), [](const Tensor& x) { return x.defined(); });
      return any ? derivative(primals_, second_) : Outputs();
    }
    /// The second derivatives applied to the first ones of the inputs, summed over the directions.
    Outputs direct() const {
      if (call_.op().derivative == Derivative::linear) return {};
      Outputs found = call_.op().derivative == Derivative::bilinear ? of_product() : of_rule();
      for (Tensor& x : found)
        if (x.defined()) x = sum(x, 0);
      return found;
    }

   private:
    // Returns 2 op(da, db).
    Outputs of_product() const {
      if (!first_[0].defined() || !first_[1].defined()) return {};
      return along_directions([&](std::span<const Tensor> tangents) { return Outputs(2. * function_(tangents)[0]); });
    }
    Outputs of_rule() const {
      return along_directions([&](std::span<const Tensor> tangents) {
        const auto slope = [&](std::span<const Tensor> xs) { return derivative(xs, tangents); };
        return jvp_flat(slope, primals_, tangents).tangents;
      });
    }
    Outputs derivative(std::span<const Tensor> xs, std::span<const Tensor> tangents) const {
      return jvp_flat(function_, xs, tangents).tangents;
    }
    // Returns the results of f for the first derivatives along each direction, with the directions
    // as axis 0.
    Outputs along_directions(FlatFunction f) const {
      std::vector<Tensor> mapped;
      for (const Tensor& x : first_)
        if (x.defined()) mapped.push_back(x);
      const std::vector<MapAxis> axes(mapped.size(), MapAxis(0));
      const auto each = [&](std::span<const Tensor> of_one) {
        std::vector<Tensor> tangents;
        auto next = of_one.begin();
        for (const Tensor& x : first_) tangents.push_back(x.defined() ? *next++ : Tensor());
        return f(tangents);
      };
      const FlatVmap found = vmap_flat(each, mapped, axes, directions_);
      return vmap_outputs(found, std::vector<MapAxis>(found.outputs.size(), MapAxis(0)));
    }

    const Call& call_;
    const FlatFunction function_;
    const Index directions_;
    std::vector<Tensor> primals_, first_, second_;
  };

  bool is_noted(const Call& call) const {
    return std::any_of(call.inputs().begin(), call.inputs().end(), [&](const Tensor& x) { return notes.find(x); });
  }
  bool has_lost(const Call& call) const {
    return std::any_of(call.inputs().begin(), call.inputs().end(), [&](const Tensor& x) {
      const Derivatives* const known = notes.find(x);
      return known && !known->first.defined();
    });
  }
  Outputs stripped(Outputs outputs) const {
    for (Tensor& output : outputs) output = notes.strip(std::move(output));
    return outputs;
  }

  const Index directions_;
  AnsweredOutside outside_;
  mutable std::string lost_by_;  // the effect whose answer first lost a derivative
};

}  // namespace
}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

Outputs laplacian_flat(FlatFunction f, std::span<const Tensor> xs, InputNames names) {
  Index directions = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (!is_float(xs[i].dtype()))
      fail<DtypeError>("laplacian: {} is {} {}: it must be a real floating tensor", names(i), xs[i].dtype(),
                       xs[i].shape());
    directions += xs[i].size();
  }
  const auto handler = std::make_shared<LaplacianHandler>(directions);
  std::vector<Tensor> inputs;
  Index before = 0;
  for (const Tensor& x : xs) {
    // Row d is 1 at element d - before of x.
    Shape shape = x.shape();
    shape.insert(shape.begin(), directions);
    const Tensor first = reshape(eye(directions, x.size(), -before, x.dtype(), x.device()), shape);
    before += x.size();
    inputs.push_back(handler->notes.put(clone_node(x), {first, {}}));
  }
  const Outputs outputs = handler->run(f, inputs);
  check_results(outputs, "laplacian");
  Outputs found;
  for (const Tensor& y : outputs) found.push_back(handler->of(y));
  return found;
}

}  // namespace stave
