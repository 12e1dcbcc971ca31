// Ordinary differential equations: y' = f(y, t, args...), by steps whose lengths its error decides.
//
//   const auto pendulum = [](const Tensor& y, const Tensor&, const Tensor& g) { return stack({y(1), -g * sin(y(0))}); };
//   const Tensor path = odeint(pendulum)(start, linspace(0, 1, 11, float64), g);     // [11, 2]
//   grad([&](const Tensor& g) { return sum(odeint(pendulum)(start, times, g)); })(g)
//
// Steps are those of Dormand and Prince, "A family of embedded Runge-Kutta formulae", 1980, of order 5, with an estimate of order 4,
// controlled as in Hairer, Norsett, Wanner, "Solving Ordinary Differential Equations I", sections II.4 and II.5. Reverse mode is the
// adjoint equation, integrated backwards (Pontryagin; Chen et al., "Neural Ordinary Differential Equations", 2018): no step is
// remembered, and its accuracy is that of the tolerances. Forward mode is its transpose. Derivatives of any order, by start, times and
// arguments. Under vmap each lane has steps of its own, one lane after the other.
#pragma once

#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <stave/core/ops/tree.h>
#include <stave/core/tensor/options.h>
#include <stave/handlers/transforms/vmap.h>

namespace stave {

struct OdeOptions {
  [[no_unique_address]] ByName by_name{};
  double
      rtol = 1.4e-8,
      atol =
          1.4e-8;  ///< the error of a step is at most atol + rtol |y|, in the root mean square of elements; not both 0
  Index steps = 100'000;  ///< at most, from one of the times to the next; at least 1
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

using Dynamics = std::function<Tensor(const Tensor& y, const Tensor& t, const Tensor& parameters)>;
/// y at all times, [times, n], for y0 [n] and parameters [m].
Tensor odeint_flat(const Dynamics& f, const Tensor& y0, const Tensor& times, const Tensor& parameters,
                   const OdeOptions& options);

}  // namespace stave_detail

namespace stave {

/// The solution as a function (start, times, args...): the tree of `start`, each tensor of which has the times as a new axis 0; the first
/// time is that of `start`. Times rise, or fall. f(y, t, args...) is y's derivative, of y's structure; y is of floats, t of rank 0. What
/// is differentiated is an argument, and not captured; all else is captured by value, as a kept
/// copy of f is called again in the backward pass. Throws Error where no step is short enough for
/// the tolerances, or there would be too many; before the first step where a time, the start, or
/// y's derivative there is not finite. (jax.experimental.ode.odeint)
template <class F>
auto odeint(F f, OdeOptions options = {}) {
  return [f = std::move(f), options](const auto& start, const Tensor& times, const auto&... args) {
    using Y = std::remove_cvref_t<decltype(start)>;
    using Arguments =
        std::tuple<std::optional<Tensor>, std::remove_cvref_t<decltype(args)>...>;  // never empty: that is no tree
    static_assert((is_tree<Y> && ... && is_tree<std::remove_cvref_t<decltype(args)>>),
                  "stave: odeint: an argument is not a tree of tensors");
    const auto y0 = ravel(start);
    const auto parameters = ravel(Arguments(std::nullopt, args...));
    const stave_detail::Dynamics dynamics = [f, y_of = y0.second, arguments_of = parameters.second](
                                                const Tensor& y, const Tensor& t, const Tensor& p) {
      return std::apply([&](const auto&, const auto&... as) { return ravel(Y(f(y_of(y), t, as...))).first; },
                        arguments_of(p));
    };
    const Tensor path = stave_detail::odeint_flat(dynamics, y0.first, times, parameters.first, options);
    return vmap([y_of = y0.second](const Tensor& y) { return y_of(y); })(path);
  };
}

}  // namespace stave
