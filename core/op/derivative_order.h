// The order of the derivatives that a handler takes.
#pragma once

#include <stave/core/effects/settings.h>

namespace stave_detail {

/// The interface of a handler whose notes describe derivatives (NotesState::differentiates) and
/// that takes derivatives of a higher order than the first.
class TakesHigherDerivatives {
 public:
  virtual int highest_derivative() const noexcept = 0;

 protected:
  ~TakesHigherDerivatives() = default;
};

}  // namespace stave_detail
