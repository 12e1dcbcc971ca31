// One source for every instruction set. Each file in this folder is compiled once
// for each of STAVE_CPU_ISAS, with that set's compiler flags, STAVE_ISA as its name, and its folder
// as the place of <machine.h>. What differs between sets is in one folder per set, in files
// of the same names:
//
//   machine.h       the width of a vector, and the primitives that compilers do not derive from
//                   vector operators; portable/machine.h describes them, and generic.h has those
//                   that several sets share
//   supported.cpp   whether the processor has the set; compiled for any processor
//
// All code of a set is in the namespace STAVE_KERNELS, so that the linker can never pick an AVX-512
// copy of an inline function for a machine without it. For the same reason these files include
// light headers only: an std:: template instantiated here would be a weak symbol, and the linker
// keeps any one of its copies.
//
// Highway could replace vec.h, generic.h and the folders, some 450 lines, by a dependency.
// It was rejected for these reasons. Its vectors are types without a size, which cannot be members
// or the `T` of elementwise_ops.h, where one formula serves the CPU and CUDA. It has neither pow,
// erf, tan nor atan2, and its functions are off by up to 4 ulp, so SLEEF would stay.
#pragma once

#include <cstddef>
#include <cstdint>

#define STAVE_JOIN_AGAIN(a, b) a##b
#define STAVE_JOIN(a, b) STAVE_JOIN_AGAIN(a, b)

#define STAVE_KERNELS STAVE_JOIN(stave_kernels_, STAVE_ISA)
#define STAVE_INLINE inline __attribute__((always_inline))
