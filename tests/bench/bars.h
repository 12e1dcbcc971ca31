// The bars: limits that benchmarks are held to. bars.cpp lists them, and judge_bars.cpp judges
// measurements.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <vector>

namespace stave_bench {

/// Nanoseconds: the medians of a bar's benchmarks, in their order.
using Times = std::span<const double>;

struct Bar {
  enum Side { at_most, at_least };
  const char* name;
  Side side;
  double limit;
  std::vector<std::string>
      // Names of peers' benchmarks begin with "torch_", "jax_", "scipy_" or "onnxruntime_",
      // those on a GPU with "gpu_", those of ONNX models with "onnx_", those by MPI with "ranks_".
      // All of these may be missing.
      benchmarks;
  double (*measured)(Times t);
  // The benchmark in whose time the limit counts, for a bar that measures nanoseconds.
  const char* unit = nullptr;
  // For a bar that compares an operation with memory: the time that its own reads and writes need,
  // where the second benchmark is the same on fewer elements (cached_part).
  double (*memory)(Times t) = nullptr;
};

/// The limit of a bar that is only measured.
constexpr double no_limit = std::numeric_limits<double>::infinity();

/// The elements of an operation that is compared with memory, and how many times fewer the caches
/// hold.
constexpr double large_count = 1 << 24, cached_part = 128;

/// Returns the time that the operation's arithmetic needs, from the times of a bar with `memory`.
inline double arithmetic(Times t) { return cached_part * t[1]; }

/// Returns all bars.
std::vector<Bar> all_bars();

}  // namespace stave_bench
