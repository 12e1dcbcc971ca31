// One source for every instruction set: each file in this folder is compiled once for each of STAVE_CPU_ISAS, with that set's
// compiler flags, STAVE_ISA as its name, and its folder as the place of <machine.h>. What the sets have of their own stands in a
// folder each, in files of the same names:
//
//   machine.h       how wide a vector is, and the primitives that compilers do not make of its operators; portable/machine.h
//                   says what they are, generic.h has what several sets share
//   supported.cpp   whether the processor has it; compiled for any processor
//
// All code of a set stands in the namespace STAVE_KERNELS, so that the linker can never pick an AVX-512 copy of an inline
// function for a machine without it. For the same reason these files include light headers only: an std:: template instantiated
// here would be a weak symbol, and the linker keeps any one of its copies.
//
// Highway would replace vec.h, generic.h and the folders, some 450 lines, by a dependency. It was not taken: its vectors are types
// without a size, which cannot be members or the `T` of elementwise_ops.h, where one formula serves the CPU and CUDA; it has
// neither pow, erf, tan nor atan2, and its functions are off by up to 4 ulp, so SLEEF would stay.
#pragma once

#include <cstddef>
#include <cstdint>

#define STAVE_JOIN_AGAIN(a, b) a##b
#define STAVE_JOIN(a, b) STAVE_JOIN_AGAIN(a, b)

#define STAVE_KERNELS STAVE_JOIN(stave_kernels_, STAVE_ISA)
#define STAVE_INLINE inline __attribute__((always_inline))
