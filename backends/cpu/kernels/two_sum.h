// Sums that know their rounding errors.
#pragma once

#include <stave/backends/cpu/kernels/isa.h>

namespace STAVE_KERNELS {

/// sum += x; what rounding loses is added to `lost` (Knuth's TwoSum: the error of one addition, exactly).
template <class X>
STAVE_INLINE void add_exactly(X& sum, X& lost, X x) {
  X total = sum + x;
  X given = total - sum;
  lost = lost + ((sum - (total - given)) + (x - given));
  sum = total;
}

}  // namespace STAVE_KERNELS
