// Macros that mark functions for both host and device, and that control how
// they are compiled for the device.
#pragma once

#ifdef __CUDACC__
#define STAVE_BOTH __host__ __device__
#else
#define STAVE_BOTH
#endif
#ifdef __CUDA_ARCH__
#define STAVE_ROLLED _Pragma("unroll 1")
#define STAVE_UNROLLED _Pragma("unroll")
#define STAVE_OUTLINE __noinline__
#else
#define STAVE_ROLLED
#define STAVE_UNROLLED
#define STAVE_OUTLINE
#endif
