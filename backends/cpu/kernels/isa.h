// The scheme by which one source serves every instruction set. Each source file in this folder
// is compiled once for each instruction set in STAVE_CPU_ISAS: with the compiler flags of the set,
// with STAVE_ISA defined as its name, and with its folder, which has a <machine.h>, on the include
// path. Code that differs between sets is in one folder per set, in files of equal names:
//
//   machine.h       the width of a vector, and the primitives that compilers do not derive from
//                   vector operators; portable/machine.h describes the primitives, and generic.h
//                   has implementations that several sets share
//   supported.cpp   whether the processor has the set; compiled for any processor
//
// All code of a set is in the namespace STAVE_KERNELS, so that the linker never picks an AVX-512
// copy of an inline function for a machine without AVX-512. For the same reason these files include
// light headers only: a std:: template instantiated here would be a weak symbol, of which the
// linker keeps an arbitrary copy.
//
// The library Highway could replace vec.h, generic.h and the folders, about 450 lines. It was
// rejected for these reasons. Its vectors are types without a fixed size, which cannot be members
// of a class or the `T` of elementwise_ops.h, where one formula serves the CPU and CUDA. Highway
// has neither pow, erf, tan nor atan2, and its functions have errors of up to 4 ulp, so SLEEF would
// still be needed.
#pragma once

#include <cstddef>
#include <cstdint>

#define STAVE_JOIN_AGAIN(a, b) a##b
#define STAVE_JOIN(a, b) STAVE_JOIN_AGAIN(a, b)

#define STAVE_KERNELS STAVE_JOIN(stave_kernels_, STAVE_ISA)
#define STAVE_INLINE inline __attribute__((always_inline))
/// Before functions with long code that others share: the compiler makes no copies of them.
#ifdef __clang__
#define STAVE_OUTLINE __attribute__((noinline))
#else
#define STAVE_OUTLINE __attribute__((noinline, noclone))
#endif
