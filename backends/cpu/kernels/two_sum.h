// Sums that track their rounding errors.
#pragma once

#include <stave/backends/cpu/kernels/isa.h>

namespace STAVE_KERNELS {

/// Computes sum += x and adds the exact rounding error of this addition to `lost` (Knuth's TwoSum).
template <class X>
STAVE_INLINE void add_exactly(X& sum, X& lost, X x) {
  X total = sum + x;
  X given = total - sum;
  lost = lost + ((sum - (total - given)) + (x - given));
  sum = total;
}

}  // namespace STAVE_KERNELS
