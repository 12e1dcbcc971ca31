// apply(f, params): the former name of functional_call(f, params).
#pragma once

#include <stave/handlers/model/param.h>

namespace stave {

/// The former name of functional_call(f, params).
template <class F>
  requires(!std::is_convertible_v<F, const Op&> && !std::is_convertible_v<F, Call>)
[[deprecated("apply(f, params) is now functional_call(f, params)")]] auto apply(F f, NamedTensors params) {
  return functional_call(std::move(f), std::move(params));
}

}  // namespace stave
