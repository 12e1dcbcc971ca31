// Teams of 1, 2, 4 ... 32 lanes of a warp. Each team has its own small matrices in shared memory.
// As in block.cuh, a body is a sequence of phases, which tests execute on the host as loops:
//
//   team.for_lanes([&](int lane) { ... });     // no lane goes on before all are here
//   const T x = team.agree([&] { ... });       // every lane computes x from the results of earlier
//                                              // phases, before any lane overwrites these
//
// The code between phases runs once on the host, and in each lane on a device. So it must have the
// same effect in all lanes, and must read shared memory only through agree().
#pragma once

#include <algorithm>
#include <bit>

#include <stave/backends/cuda/kernels/block.cuh>

namespace stave_cuda {

inline constexpr int most_lanes = 32;

/// Returns the number of lanes of a team for work that up to `most` lanes can share: the next power
/// of two, but at most 32.
inline int team_width(Index most) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::clamp<Index>(most, 1, most_lanes))));
}

struct HostTeam {
  int width;
  bool backwards = false;

  template <class F>
  STAVE_BOTH void for_lanes(F f) const {
    for (int lane = 0; lane < width; ++lane) f(backwards ? width - 1 - lane : lane);
  }
  template <class F>
  STAVE_BOTH auto agree(F f) const {
    return f();
  }
};

#ifdef __CUDACC__
/// The team that this thread belongs to. A block is one warp.
struct DeviceTeam {
  int width;
  unsigned mask;

  __device__ explicit DeviceTeam(int lanes)
      : width(lanes), mask((lanes == 32 ? ~0u : (1u << lanes) - 1) << (threadIdx.x & ~(lanes - 1))) {}
  __device__ int number() const { return static_cast<int>(threadIdx.x) / width; }

  template <class F>
  __device__ void for_lanes(F f) const {
    f(static_cast<int>(threadIdx.x) & (width - 1));
    __syncwarp(mask);
  }
  template <class F>
  __device__ auto agree(F f) const {
    const auto result = f();
    __syncwarp(mask);
    return result;
  }
};
#endif

/// The shared memory of all teams of a warp. Each team has `matrices` matrices of up to width x
/// width elements, and some vectors, where width is its number of lanes.
template <class T, int matrices>
struct TeamShared {
  T elements[matrices][most_lanes * (most_lanes + 1)];
  T vectors[2][most_lanes];
  int numbers[2][most_lanes];
};

/// One team's part of the shared memory. Rows are width + 1 elements apart, so that lanes that
/// access a column together use different banks.
template <class T, int matrices>
struct TeamPart {
  TeamShared<T, matrices>& room;
  int width, number;

  STAVE_BOTH int step() const { return width + 1; }
  STAVE_BOTH T* matrix(int i) const { return room.elements[i] + number * width * step(); }
  STAVE_BOTH T* vector(int i) const { return room.vectors[i] + number * width; }
  STAVE_BOTH int* numbers(int i) const { return room.numbers[i] + number * width; }
};

// A work type is the type of a kernel's parameter. It has the members
//
//   Value, matrices                the shared memory that it needs
//   items                          the number of items
//   width                          the number of lanes that process one item
//   body(team, item, slot, part)   processes one item
//
// `slot` is the index of the team's slot of memory. No two running teams have the same slot.

template <class Work>
void run_teams_on_host(const Work& work, int teams, bool backwards = false) {
  static TeamShared<typename Work::Value, Work::matrices> room;
  for (Index i = 0; i < work.items; ++i) {
    const Index item = backwards ? work.items - 1 - i : i;
    const int number = static_cast<int>(item % (most_lanes / work.width));
    work.body(HostTeam{work.width, backwards}, item, item % teams,
              TeamPart<typename Work::Value, Work::matrices>{room, work.width, number});
  }
}

}  // namespace stave_cuda
