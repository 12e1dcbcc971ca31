// Bodies of the kernels that create, move or place elements (layout_plan.h describes the division
// of work among threads).
#pragma once

#include <stave/backends/cuda/layout_plan.h>
#include <stave/backends/cuda/kernels/elementwise.cuh>

namespace stave_cuda {

template <class Unit>
STAVE_BOTH void copy_units(const UnitLoop& loop, Position p) {
  const std::uint64_t first = p.block * p.threads * units_per_thread + p.thread;
  Unit held[units_per_thread];
  Index to[units_per_thread];
  // All loads are issued before the first store needs a loaded value.
  for (int j = 0; j < units_per_thread; ++j) {
    const std::uint64_t i = first + j * std::uint64_t{p.threads};
    if (i >= loop.units) break;
    const Offsets<2> at = loop.map(i);
    to[j] = at[0];
    held[j] = static_cast<const Unit*>(loop.from)[at[1]];
  }
  for (int j = 0; j < units_per_thread; ++j)
    if (first + j * std::uint64_t{p.threads} < loop.units) static_cast<Unit*>(loop.to)[to[j]] = held[j];
}

/// A tile in shared memory. One column is unused, so that threads that access a column together use
/// different banks.
template <class T>
using Tile = T[tile_side][tile_side + 1];

/// The first phase of a tile, which a barrier must follow. Neighbouring threads read elements of
/// neighbouring rows, which are adjacent in the source.
template <class T>
STAVE_BOTH void read_tile(const TileLoop& loop, Position p, Tile<T>& tile) {
  const Offsets<4> at = loop.map(p.block);
  const int r = static_cast<int>(p.thread % tile_side);
  for (int c = static_cast<int>(p.thread / tile_side); c < tile_side; c += static_cast<int>(tile_rows))
    if (at[2] + r < loop.rows && at[3] + c < loop.columns)
      tile[r][c] = static_cast<const T*>(loop.from)[at[1] + r * loop.from_row + c * loop.from_column];
}
/// The second phase of a tile. Neighbouring threads write elements of neighbouring columns, which
/// are adjacent in the destination.
template <class T>
STAVE_BOTH void write_tile(const TileLoop& loop, Position p, const Tile<T>& tile) {
  const Offsets<4> at = loop.map(p.block);
  const int c = static_cast<int>(p.thread % tile_side);
  for (int r = static_cast<int>(p.thread / tile_side); r < tile_side; r += static_cast<int>(tile_rows))
    if (at[2] + r < loop.rows && at[3] + c < loop.columns)
      static_cast<T*>(loop.to)[at[0] + r * loop.to_row + c * loop.to_column] = tile[r][c];
}

/// Writes sixteen bytes per thread.
STAVE_BOTH inline void fill_pattern(const FillLoop& loop, Position p) {
  const std::uint64_t first = (p.block * p.threads + p.thread) * sizeof(Pattern);
  if (first >= loop.bytes) return;
  auto* to = static_cast<std::uint8_t*>(loop.to) + first;
  if (first + sizeof(Pattern) <= loop.bytes) {
    *reinterpret_cast<Pattern*>(to) = loop.pattern;
  } else {
    for (unsigned i = 0; first + i < loop.bytes; ++i) to[i] = loop.pattern.bytes[i];
  }
}

/// Writes start + i step. Floats are computed in double and rounded once; integers wrap.
template <class T>
STAVE_BOTH void iota(const IotaLoop& loop, Position p) {
  const std::uint64_t i = p.block * p.threads + p.thread;
  if (i >= loop.elements) return;
  T* to = static_cast<T*>(loop.to) + i;
  if constexpr (std::is_integral_v<T>) *to = static_cast<T>(loop.start_integer + i * loop.step_integer);
  else *to = element_of<T>(loop.start + static_cast<double>(i) * loop.step);
}

}  // namespace stave_cuda
