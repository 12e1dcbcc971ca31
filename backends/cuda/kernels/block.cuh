// A kernel body's view of the machine: the index of its block, the number of blocks, and its
// threads. A body is a sequence of phases over all threads of a block. Each phase ends with a
// barrier. Data that outlives a phase is in shared memory:
//
//   block.for_threads([&](unsigned t) { shared[t] = ...; });      // ends with a barrier
//   block.for_threads([&](unsigned t) { ... shared[t ^ 1] ... });
//
// On a device each thread runs each phase once. On the host a phase is a loop, so tests execute the
// same bodies as kernels. The code between phases runs once per block on the host and once per
// thread on a device, so it must have the same effect in every thread.
#pragma once

#include <stave/backends/cuda/elementwise_plan.h>
#include <stave/backends/cuda/occupancy.h>

// Unrolls a loop n times on the device. Kernels are unrolled only where it pays,
// because each copy costs compile time.
#ifdef __CUDA_ARCH__
#define STAVE_UNROLL(n) STAVE_PRAGMA(unroll n)
#define STAVE_PRAGMA(...) _Pragma(#__VA_ARGS__)
#else
#define STAVE_UNROLL(n)
#endif

namespace stave_cuda {

/// The base-2 logarithm of the number of threads of a block.
inline constexpr unsigned block_bits = 8;
static_assert(block_threads == 1u << block_bits);

STAVE_BOTH inline Index least_of(Index a, Index b) { return a < b ? a : b; }

/// The assignment of a block's threads to outputs. The threads that share an output are its lanes.
/// By default neighbouring threads are the lanes of one output. With `columns` they are the same
/// lane of neighbouring outputs.
struct Lanes {
  unsigned bits;
  bool columns;
  STAVE_BOTH unsigned lane(unsigned thread) const {
    return columns ? thread >> (block_bits - bits) : thread & ((1u << bits) - 1);
  }
  STAVE_BOTH unsigned output(unsigned thread) const { return columns ? thread & (outputs() - 1) : thread >> bits; }
  STAVE_BOTH unsigned outputs() const { return block_threads >> bits; }
  // The distance in threads between successive lanes of an output.
  STAVE_BOTH unsigned step() const { return columns ? outputs() : 1; }
  // The thread that is lane 0 of the output of `thread`.
  STAVE_BOTH unsigned first(unsigned thread) const { return thread - lane(thread) * step(); }
};

/// Reduces the lanes of each output to lane 0 in a tree. merge(thread, other) must merge the data
/// of `other` into that of `thread`.
template <class Block, class Merge>
STAVE_BOTH void merge_lanes(const Block& block, Lanes lanes, Merge merge) {
  STAVE_UNROLL(1)
  for (unsigned half = (1u << lanes.bits) / 2; half > 0; half /= 2)
    block.for_threads([&](unsigned t) {
      if (lanes.lane(t) < half) merge(t, t + half * lanes.step());
    });
}

/// One block, executed on the host. A body must not depend on the order in which the threads of a
/// phase run. Tests run them forwards and backwards.
struct HostBlock {
  std::int64_t index_ = 0, count_ = 1;
  bool backwards_ = false;

  STAVE_BOTH std::int64_t index() const { return index_; }
  STAVE_BOTH std::int64_t count() const { return count_; }
  template <class F>
  STAVE_BOTH void for_threads(F f) const {
    for (unsigned t = 0; t < block_threads; ++t) f(backwards_ ? block_threads - 1 - t : t);
  }
};

/// Runs body(block) for all blocks of a grid on the host.
template <class Body>
void run_on_host(std::int64_t blocks, Body body, bool backwards = false) {
  for (std::int64_t i = 0; i < blocks; ++i) body(HostBlock{backwards ? blocks - 1 - i : i, blocks, backwards});
}

#ifdef __CUDACC__
/// The block that this thread belongs to.
struct DeviceBlock {
  __device__ std::int64_t index() const { return blockIdx.x; }
  __device__ std::int64_t count() const { return gridDim.x; }
  template <class F>
  __device__ void for_threads(F f) const {
    f(threadIdx.x);
    __syncthreads();
  }
};
#endif

}  // namespace stave_cuda
