// param: neural networks as plain functions whose parameters have names.
//
//   Tensor dense(const std::string& name, const Tensor& x, Index features) {
//     const Scope scope(name);
//     const Tensor w = param("w", {x.shape(-1), features}, glorot_uniform),
//                  b = param("b", zeros({features}));
//     return matmul(x, w) + b;
//   }
//   Tensor network(const Tensor& x) { return dense("out", tanh(dense("hidden", x, 32)), 1); }
//
//   NamedTensors params = init_params(network)(Key(0), x);  // "hidden/b", "hidden/w", "out/b" ...
//   Tensor y = functional_call(network, params)(x);
//   NamedTensors slope = grad([&](const NamedTensors& p) {
//     return mean(square(functional_call(network, p)(x) - y));
//   })(params);
//
// The parameters are a map and therefore a tree, so optimizers, files and transforms accept them.
// (The idea comes from JAX's Haiku and Flax.)
//
// - The full name of a parameter is its name after the names of the scopes entered since
//   init_params or functional_call, joined by "/". Two calls of param with the same full name give
//   the same parameter.
// - The key of a parameter depends only on the key of init_params and the full name, so adding a
//   layer changes no parameter of the other layers.
// - The handler of functional_call is outside of the transforms in f, so a parameter is the same in
//   all lanes of a vmap there. A vmap over the parameters themselves makes an ensemble.
// - A parameter that is missing, that has the wrong shape, or that f does not use is an error
//   that names it.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <stave/core/op/op.h>
#include <stave/core/ops/named_tensors.h>
#include <stave/core/ops/random.h>

namespace stave {

/// A function (key, shape) that makes the initial value of a parameter.
using Initializer = std::function<Tensor(const Key&, const Shape&)>;

/// Returns the parameter of that name: init_params creates it, functional_call supplies
/// it. Throws Error if neither of them is installed.
Tensor param(const std::string& name, const Shape& shape, const Initializer& initializer);
/// Returns the parameter of that name; its initial value is `initial` and needs no key.
Tensor param(const std::string& name, const Tensor& initial);

/// Initializers as in jax.nn.initializers, for a kernel [..., inputs, outputs] whose leading axes
/// are a window. Normal distributions are not truncated. The variance is 1 / fan_in for LeCun
/// (LeCun et al. 1998), 2 / fan_in for He (He et al. 2015), and 2 / (fan_in + fan_out) for Glorot
/// (Glorot and Bengio 2010). Throws ShapeError if the shape has fewer than two axes.
Tensor lecun_normal(const Key& key, const Shape& shape);
Tensor he_normal(const Key& key, const Shape& shape);
Tensor glorot_uniform(const Key& key, const Shape& shape);

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// The effect that param() performs: requests a parameter.
struct Param {
  using Result = Tensor;
  std::string name;
  Shape shape;
  std::function<Tensor(const Key&)> initial;
  [[noreturn]] Tensor unhandled() const;
};

class InitParams final : public Handles<Param> {
 public:
  explicit InitParams(Key key) : key_(std::move(key)) {}
  Tensor handle(Param& param) override;
  std::string describe() const override { return "init_params"; }
  NamedTensors params;

 private:
  const Key key_;
};

class SupplyParams final : public Handles<Param> {
 public:
  explicit SupplyParams(NamedTensors params) : params_(std::move(params)) {}
  Tensor handle(Param& param) override;
  std::string describe() const override { return "functional_call"; }
  /// Throws Error if the function did not use one of the parameters.
  void check_all_used() const;

 private:
  const NamedTensors params_;
  std::set<std::string> used_;
};

template <class F>
class Initialized {
 public:
  explicit Initialized(F f) : f_(std::move(f)) {}
  template <class... A>
    requires std::invocable<const F&, A...>
  NamedTensors operator()(Key key, A&&... args) const {
    const auto handler = std::make_shared<InitParams>(std::move(key));
    with(handler, [&] { static_cast<void>(std::invoke(f_, std::forward<A>(args)...)); });
    return handler->params;
  }

 private:
  F f_;
};

template <class F>
class FunctionalCall {
 public:
  FunctionalCall(F f, NamedTensors params) : f_(std::move(f)), params_(std::move(params)) {}
  template <class... A>
    requires std::invocable<const F&, A...>
  auto operator()(A&&... args) const {
    const auto handler = std::make_shared<SupplyParams>(params_);
    std::remove_cvref_t<std::invoke_result_t<const F&, A...>> result =
        with(handler, [&]() -> decltype(auto) { return std::invoke(f_, std::forward<A>(args)...); });
    handler->check_all_used();
    return result;
  }

 private:
  F f_;
  NamedTensors params_;
};

}  // namespace stave_detail

namespace stave {

/// Returns a callable (key, args...) that runs f once and returns the parameters that f requests.
template <class F>
  requires(std::is_class_v<F> || std::is_pointer_v<F>)
auto init_params(F f) {
  return stave_detail::Initialized<F>(std::move(f));
}

/// Returns a callable with the arguments and result of f that runs f with these parameters.
/// Throws ShapeError if a parameter has another shape than f requests, and Error if one is missing
/// or f does not use it. (The name is that of torch.func.functional_call.)
template <class F>
  requires(std::is_class_v<F> || std::is_pointer_v<F>)
auto functional_call(F f, NamedTensors params) {
  return stave_detail::FunctionalCall<F>(std::move(f), std::move(params));
}

}  // namespace stave
