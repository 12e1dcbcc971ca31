// param: networks as plain functions, whose parameters have names.
//
//   Tensor dense(const std::string& name, const Tensor& x, Index features) {
//     const Scope scope(name);
//     const Tensor w = param("w", {x.shape(-1), features}, glorot_uniform), b = param("b", zeros({features}));
//     return matmul(x, w) + b;
//   }
//   Tensor network(const Tensor& x) { return dense("out", tanh(dense("hidden", x, 32)), 1); }
//
//   NamedTensors params = init_params(network)(Key(0), x);                  // "hidden/b", "hidden/w", "out/b", "out/w"
//   Tensor y = apply(network, params)(x);
//   NamedTensors slope = grad([&](const NamedTensors& p) { return mean(square(apply(network, p)(x) - y)); })(params);
//
// They are a map, hence a tree: optimizers, files and transforms take it. (The idea is that of JAX's Haiku and Flax.)
//
// - A full name is the name behind those of the scopes entered since init or apply, joined by "/". Asked for twice, it is one parameter.
// - The key of a parameter is made of init's key and its full name: another layer beside it changes no other's.
// - apply stands outside of the transforms in f, so a parameter is the same in all lanes of a vmap there; vmap over the params themselves
//   makes an ensemble.
// - What is missing, has another shape, or is not asked for at all, is an error that names it.
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

/// The first value of a parameter of this shape.
using Initializer = std::function<Tensor(const Key&, const Shape&)>;

/// The parameter of that name: init makes it, apply gives it. Throws Error where neither stands around.
Tensor param(const std::string& name, const Shape& shape, const Initializer& initializer);
/// The same with a first value that needs no key.
Tensor param(const std::string& name, const Tensor& initial);

/// Of a kernel [..., inputs, outputs], where the axes before are a window, as jax.nn.initializers has them; but normal ones are not
/// truncated. The variance is 1 / fan_in (LeCun et al. 1998), 2 / fan_in (He et al. 2015), 2 / (fan_in + fan_out) (Glorot, Bengio 2010).
Tensor lecun_normal(const Key& key, const Shape& shape);
Tensor he_normal(const Key& key, const Shape& shape);
Tensor glorot_uniform(const Key& key, const Shape& shape);

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// Asks for a parameter.
struct Param {
  using Result = Tensor;
  std::string name;
  Shape shape;
  std::function<Tensor(const Key&)> initial;
  [[noreturn]] Tensor unhandled() const;
};

class MakeParams final : public Handles<Param> {
 public:
  explicit MakeParams(Key key) : key_(std::move(key)) {}
  Tensor handle(Param& param) override;
  std::string describe() const override { return "init_params"; }
  NamedTensors params;

 private:
  const Key key_;
};

class GiveParams final : public Handles<Param> {
 public:
  explicit GiveParams(NamedTensors params) : params_(std::move(params)) {}
  Tensor handle(Param& param) override;
  std::string describe() const override { return "apply"; }
  /// Throws if one was not asked for.
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
    const auto handler = std::make_shared<MakeParams>(std::move(key));
    with(handler, [&] { static_cast<void>(std::invoke(f_, std::forward<A>(args)...)); });
    return handler->params;
  }

 private:
  F f_;
};

template <class F>
class Applied {
 public:
  Applied(F f, NamedTensors params) : f_(std::move(f)), params_(std::move(params)) {}
  template <class... A>
    requires std::invocable<const F&, A...>
  auto operator()(A&&... args) const {
    const auto handler = std::make_shared<GiveParams>(params_);
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

/// The parameters of f: init_params(f)(key, args...) runs f once and gives what it asks for.
template <class F>
  requires(std::is_class_v<F> || std::is_pointer_v<F>)
auto init_params(F f) {
  return stave_detail::Initialized<F>(std::move(f));
}

/// f with these parameters: a callable of f's arguments and result. Throws ShapeError for a parameter of another shape than f asks for,
/// and Error for one that is missing, or that f does not ask for.
template <class F>
  requires(!std::is_convertible_v<F, const Op&> && !std::is_convertible_v<F, Call>)
auto apply(F f, NamedTensors params) {
  return stave_detail::Applied<F>(std::move(f), std::move(params));
}

}  // namespace stave
