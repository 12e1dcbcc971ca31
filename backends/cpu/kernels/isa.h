// One source, three instruction sets: every file in this folder is compiled once for each value of STAVE_ISA, with the
// compiler flags of that set. All its code stands in the namespace STAVE_KERNELS, so that the linker can never pick an
// AVX-512 copy of an inline function for a machine without it.
//
// For the same reason these files include light headers only: an std:: template instantiated here would be a weak
// symbol, and the linker keeps any one of its copies.
#pragma once

#include <cstddef>
#include <cstdint>

#define STAVE_JOIN_AGAIN(a, b) a##b
#define STAVE_JOIN(a, b) STAVE_JOIN_AGAIN(a, b)
#define STAVE_KERNELS STAVE_JOIN(stave_kernels_, STAVE_ISA)

#define STAVE_VECTOR_BYTES_baseline 16
#define STAVE_VECTOR_BYTES_avx2 32
#define STAVE_VECTOR_BYTES_avx512 64
#define STAVE_VECTOR_BYTES STAVE_JOIN(STAVE_VECTOR_BYTES_, STAVE_ISA)

#define STAVE_INLINE inline __attribute__((always_inline))
