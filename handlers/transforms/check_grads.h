// check_grads: compares derivatives with finite differences.
#pragma once

#include <span>

#include <stave/core/tensor/options.h>
#include <stave/handlers/transforms/arguments.h>
#include <stave/handlers/transforms/vjp_flat.h>

namespace stave {

struct CheckGradsOptions {
  [[no_unique_address]] ByName by_name{};
  int order = 1;  ///< highest order of derivatives that is checked, at least 1
  /// Step of the central difference. 0: the cube root of the epsilon of float64 if all inputs are
  /// float64, else of float32.
  double step = 0;
  /// Two values agree if they differ by at most tolerance * (1 + size of one of them). 0: 1e-6
  /// if all inputs are float64, else 1e-2.
  double tolerance = 0;
  bool forward = true;  ///< whether jvp is checked
  bool reverse = true;  ///< whether vjp is checked
};

void check_grads_flat(FlatFunction f, std::span<const Tensor> primals, const CheckGradsOptions& options);

/// Compares jvp of f at `args` along a random direction with a central difference, and vjp with jvp
/// by the adjoint identity <ct, J v> = <J' ct, v>. If only one mode is checked, it is compared
/// with differences alone. A std::tuple is a list of arguments; any other `args` is the only one.
/// Throws TransformError if two values disagree; the message names the mode, both values and the
/// tolerance. Use float64; float16, bfloat16 and dtypes that are not floating throw DtypeError.
template <class F, class... A>
void check_grads(F&& f, const std::tuple<A...>& args, const CheckGradsOptions& options = {}) {
  using namespace stave_detail;
  using Selected = SelectTrees<A...>;
  if constexpr (can_call<Returns::tree, std::remove_reference_t<F>, Selected, const A&...>) {
    std::apply(
        [&](const auto&... arg) {
          check_grads_flat(
              [&](std::span<const Tensor> inputs) {
                return flat_outputs(call_with_leaves(Selected(), f, inputs, arg...));
              },
              selected_leaves(Selected(), arg...), options);
        },
        args);
  }
}
template <class F, class T>
  requires(!stave_detail::is_std_tuple<T>)
void check_grads(F&& f, const T& x, const CheckGradsOptions& options = {}) {
  check_grads<F>(std::forward<F>(f), std::tuple<const T&>(x), options);
}

#define STAVE_NAMES(Name)                                                                        \
  template <class T>                                                                             \
  void check_grads(stave_detail::Name f, const T& args, const CheckGradsOptions& options = {}) { \
    check_grads<stave_detail::Name&>(f, args, options);                                          \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
