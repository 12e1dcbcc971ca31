// Jacobians, Hessians and Hessian-vector products, composed of jvp, vjp and vmap.
#pragma once

#include <stave/handlers/grad.h>
#include <stave/handlers/jvp.h>
#include <stave/handlers/vmap.h>

namespace stave {

/// The Jacobian of f at x, [out..., in...]: one jvp for all directions at once (vmap). For outputs larger than inputs.
Tensor jacfwd_flat(FlatFunction f, const Tensor& x);
/// The same by one pullback for all outputs at once. For inputs larger than outputs.
Tensor jacrev_flat(FlatFunction f, const Tensor& x);

}  // namespace stave

namespace stave_detail {

template <class F, int argnum, Tensor (*jacobian)(FlatFunction, const Tensor&)>
class JacobianOf {
 public:
  explicit JacobianOf(F f) : f_(std::move(f)) {}

  template <class... A>
  auto operator()(const A&... args) const {
    constexpr bool number = argnum >= 0 && argnum < static_cast<int>(sizeof...(A));
    static_assert(number, "stave: jacobian: the argument number is out of range of the call's arguments");
    if constexpr (number) {
      constexpr bool tensor = std::is_same_v<std::tuple_element_t<argnum, std::tuple<A...>>, Tensor>;
      static_assert(tensor, "stave: jacobian: the differentiated argument must be a Tensor");
      using Selected = Select<sizeof...(A), argnum>;
      using Called = Calls<const F, Selected, const A&...>;
      static_assert(Called::valid, "stave: jacobian: the function cannot be called with these arguments");
      if constexpr (tensor && Called::valid) {
        constexpr bool result = std::is_same_v<typename Called::Result, Tensor>;
        static_assert(result, "stave: jacobian: the function must return a Tensor");
        if constexpr (result) {
          return jacobian(
              [&](std::span<const Tensor> inputs) {
                return Outputs(call_with_leaves(Selected(), f_, inputs, args...));
              },
              std::get<argnum>(std::tie(args...)));
        }
      }
    }
  }

 private:
  F f_;
};

}  // namespace stave_detail

namespace stave {

/// The Jacobian by argument `argnum`: a callable with f's arguments, result [f's shape..., argument's shape...].
template <int argnum = 0, class F>
auto jacfwd(F f) {
  return stave_detail::JacobianOf<F, argnum, jacfwd_flat>(std::move(f));
}
template <int argnum = 0, class F>
auto jacrev(F f) {
  return stave_detail::JacobianOf<F, argnum, jacrev_flat>(std::move(f));
}
/// The Hessian by argument `argnum`: forward over reverse, [f's shape..., argument's shape..., argument's shape...].
template <int argnum = 0, class F>
auto hessian(F f) {
  return jacfwd<argnum>(jacrev<argnum>(std::move(f)));
}

#define STAVE_NAMES(Name)                                                        \
  template <int argnum = 0>                                                      \
  auto jacfwd(stave_detail::Name f) {                                            \
    return stave_detail::JacobianOf<stave_detail::Name, argnum, jacfwd_flat>(f); \
  }                                                                              \
  template <int argnum = 0>                                                      \
  auto jacrev(stave_detail::Name f) {                                            \
    return stave_detail::JacobianOf<stave_detail::Name, argnum, jacrev_flat>(f); \
  }                                                                              \
  template <int argnum = 0>                                                      \
  auto hessian(stave_detail::Name f) {                                           \
    return jacfwd<argnum>(jacrev<argnum>(f));                                    \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

/// The Hessian of f at x times v, without forming it: the derivative of grad(f) along v. x and v are trees of one type.
template <class F, class T>
T hvp(F f, const T& x, const T& v) {
  return jvp(grad(std::move(f)), x, v).second;
}

}  // namespace stave
