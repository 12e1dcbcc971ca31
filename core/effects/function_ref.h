// A non-owning reference to a callable object: two words, no allocation. The object must outlive
// the reference.
#pragma once

#include <stave/core/effects/settings.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace stave {

template <class Signature>
class FunctionRef;

template <class R, class... A>
class FunctionRef<R(A...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, F&, A...>)
  FunctionRef(F&& callee) noexcept
      : object_(const_cast<void*>(static_cast<const volatile void*>(std::addressof(callee)))),
        call_([](void* object, A... args) -> R {
          auto& function = *static_cast<std::remove_reference_t<F>*>(object);
          if constexpr (std::is_void_v<R>) static_cast<void>(function(std::forward<A>(args)...));
          else return function(std::forward<A>(args)...);
        }) {}
  R operator()(A... args) const { return call_(object_, std::forward<A>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, A...);
};

}  // namespace stave
