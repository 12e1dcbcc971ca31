// User-defined operations for fused.cpp, compiled by stave_add_kernels.
#include <stave/backends/cpu/own_kernels.h>

#include "own_functions.h"

namespace stave_bench {

STAVE_ELEMENTWISE_OPERATION(own_sigmoid_function, written_sigmoid);
STAVE_ELEMENTWISE_OPERATION(own_gelu_function, written_gelu);

}  // namespace stave_bench
