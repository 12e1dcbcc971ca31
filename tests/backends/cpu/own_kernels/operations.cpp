#include <stave/backends/cpu/own_kernels.h>

#include "functions.h"

namespace own {

#define X(name, operands, ...) STAVE_ELEMENTWISE_OPERATION(name, __VA_ARGS__);
STAVE_OWN_FUNCTIONS(X)
#undef X

// An operation for each of the library's. Where a function has no kernel for floats,
// the operation computes something else, and the test does not run a loop for it.
#define X(name, Struct)                                       \
  STAVE_ELEMENTWISE_OPERATION(own_##name, [](const auto& x) { \
    if constexpr (requires { name(x); }) return name(x);      \
    else return x + 0;                                        \
  });
STAVE_UNARY_OPS(X)
#undef X
#define X(name, Struct)                                                      \
  STAVE_ELEMENTWISE_OPERATION(own_##name, [](const auto& x, const auto& y) { \
    if constexpr (requires { name(x, y); }) return name(x, y);               \
    else return x + y;                                                       \
  });
STAVE_BINARY_OPS(X)
#undef X

}  // namespace own
