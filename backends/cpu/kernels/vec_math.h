// The functions that elementwise operations call, on Vec<T>: found by argument-dependent lookup.
#pragma once

#include <stave/backends/cpu/kernels/vec_integer.h>
#include <stave/backends/cpu/kernels/vec_special.h>
#include <stave/backends/cpu/kernels/vec_transcendental.h>
