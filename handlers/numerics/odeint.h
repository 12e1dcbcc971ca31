// Ordinary differential equations y' = f(y, t, args...), solved with adaptive steps.
//
//   const auto pendulum = [](const Tensor& y, const Tensor&, const Tensor& g) {
//     return stack({y(1), -g * sin(y(0))});
//   };
//   const Tensor path = odeint(pendulum)(start, linspace(0, 1, 11, float64), g);     // [11, 2]
//   grad([&](const Tensor& g) { return sum(odeint(pendulum)(start, times, g)); })(g)
//
// The steps are those of Dormand and Prince, "A family of embedded Runge-Kutta formulae",
// 1980: order 5, with an error estimate of order 4. The step size is controlled as in Hairer,
// Norsett, Wanner, "Solving Ordinary Differential Equations I", sections II.4 and II.5.
// With OdeMethod::taylor a step is a Taylor series of the solution (handlers/taylor), of the order
// and with the step sizes of Jorba and Zou, "A software package for the numerical integration of
// ODEs by means of high-order Taylor methods", 2005: for smooth equations and tight tolerances, to
// the last digits.
// Reverse mode integrates the adjoint equation backwards (Pontryagin; Chen et al.,
// "Neural Ordinary Differential Equations", 2018). It stores no steps, and its accuracy
// is that of the tolerances. Forward mode is the transpose of reverse mode. Derivatives of any
// order are available with respect to start, times and arguments. Under vmap the lanes are solved
// one after the other, each with its own steps.
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

/// The method by which a step is computed.
enum class OdeMethod { dormand_prince, taylor };

struct OdeOptions {
  [[no_unique_address]] ByName by_name{};
  /// The tolerances: a step is accepted if the root mean square of error / (atol + rtol |y|) is
  /// at most 1. rtol and atol must not both be 0.
  double rtol = 1.4e-8, atol = 1.4e-8;
  OdeMethod method = OdeMethod::dormand_prince;
  /// The order of a Taylor series, at least 2; 0: as high as the tolerance asks for, which is 11
  /// for the default tolerances and 20 for 1e-16. It must be 0 for other methods.
  int order = 0;
  /// The maximal number of steps from one of the times to the next; at least 1.
  Index steps = 100'000;
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

using Dynamics = std::function<Tensor(const Tensor& y, const Tensor& t, const Tensor& parameters)>;
/// Returns y at all times, [times, n], for y0 [n] and parameters [m].
Tensor odeint_flat(const Dynamics& f, const Tensor& y0, const Tensor& times, const Tensor& parameters,
                   const OdeOptions& options);

}  // namespace stave_detail

namespace stave {

/// Returns the solution of y' = f(y, t, args...) as a function (start, times, args...).
/// Its result is the tree of `start`, in which each tensor has the times as a new axis 0.
/// The first time is the time of `start`. Times may rise or fall. f(y, t, args...) returns
/// the derivative of y, with the structure of y; y consists of floats, and t has rank 0.
///
/// Pass values that are differentiated as arguments, and capture all others by value:
/// the backward pass calls a stored copy of f. Throws Error if no step is short enough
/// for the tolerances, or if there are too many steps. Throws Error before the first step
/// if a time, the start, or the derivative of y there is not finite. (jax.experimental.ode.odeint)
template <class F>
auto odeint(F f, OdeOptions options = {}) {
  return [f = std::move(f), options](const auto& start, const Tensor& times, const auto&... args) {
    using Y = std::remove_cvref_t<decltype(start)>;
    using Arguments =
        // The optional is always empty. It is there because an empty tuple is not a tree.
        std::tuple<std::optional<Tensor>, std::remove_cvref_t<decltype(args)>...>;
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
