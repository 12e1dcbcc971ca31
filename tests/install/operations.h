// Also included by operations.cpp.
#pragma once

#include <stave/backends/cpu/own_kernels.h>

extern const stave::ElementwiseOperation<2> hardshrink;
