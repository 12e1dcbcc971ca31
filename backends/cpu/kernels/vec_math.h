// The functions of Vec<T> that elementwise operations call; argument-dependent lookup finds them.
#pragma once

#include <stave/backends/cpu/kernels/vec_integer.h>
#include <stave/backends/cpu/kernels/vec_special.h>
#include <stave/backends/cpu/kernels/vec_transcendental.h>
