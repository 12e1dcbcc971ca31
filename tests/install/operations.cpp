#include "operations.h"

#include <stave/backends/cpu/own_kernels.h>

STAVE_ELEMENTWISE_OPERATION(hardshrink, [](const auto& x, const auto& by) { return where(abs(x) > by, x, 0); });
