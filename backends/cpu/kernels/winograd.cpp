// The transforms of Winograd's convolutions F(2x2, 3x3), for as many neighbouring tiles at a time
// as a vector has lanes. backends/cpu/convolution_winograd.h has the loops around them.
#include <stave/backends/cpu/kernels/fill.h>

#include <machine.h>

namespace STAVE_KERNELS {

using stave_cpu::Index;

constexpr int tile_lanes = F32::lanes;

template <int... lane>
STAVE_INLINE F32 even_lanes(F32 a, F32 b, std::integer_sequence<int, lane...>) {
  return {__builtin_shufflevector(a.raw, b.raw, (2 * lane)...)};
}
template <int... lane>
STAVE_INLINE F32 odd_lanes(F32 a, F32 b, std::integer_sequence<int, lane...>) {
  return {__builtin_shufflevector(a.raw, b.raw, (2 * lane + 1)...)};
}
/// Returns a[from], b[from], a[from + 1], b[from + 1], ...
template <int from, int... lane>
STAVE_INLINE F32 alternating(F32 a, F32 b, std::integer_sequence<int, lane...>) {
  return {__builtin_shufflevector(a.raw, b.raw, (from + lane / 2 + lane % 2 * tile_lanes)...)};
}
constexpr auto all_lanes = std::make_integer_sequence<int, tile_lanes>();

// B^T d B, for the 4x4 elements d of a tile, where B^T = [1  0 -1  0]
//                                                       [0  1  1  0]
//                                                       [0 -1  1  0]
//                                                       [0  1  0 -1].
void winograd_input(float* out, Index out_step, const float* const* rows, Index first, Index length, Index tiles) {
  for (Index j = 0; j < tiles; j += tile_lanes) {
    // A line of B^T d is two pairs of vectors. Columns 0 and 1 of the tiles are the lanes at even
    // and at odd places of the first pair, and columns 2 and 3 those of the second one.
    F32 lines[4][4];
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) {
      const Index column = first + 2 * j + part % 2 * tile_lanes + part / 2 * 2;
      const auto within = [](Index lane) { return lane < 0 ? 0 : lane > tile_lanes ? tile_lanes : lane; };
      const Index begin = within(-column), end = within(length - column);
      F32 x[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        if (!rows[i] || begin >= end) x[i] = F32(0);
        else if (end - begin == tile_lanes) x[i] = F32::load(rows[i] + column);
        else x[i] = load_between(rows[i] + column, begin, end);
      }
      lines[0][part] = x[0] - x[2];
      lines[1][part] = x[1] + x[2];
      lines[2][part] = x[2] - x[1];
      lines[3][part] = x[1] - x[3];
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const F32* const line = lines[i];
      const F32 t0 = even_lanes(line[0], line[1], all_lanes), t1 = odd_lanes(line[0], line[1], all_lanes),
                t2 = even_lanes(line[2], line[3], all_lanes), t3 = odd_lanes(line[2], line[3], all_lanes);
      float* const to = out + 4 * i * out_step + j;
      (t0 - t2).store(to);
      (t1 + t2).store(to + out_step);
      (t2 - t1).store(to + 2 * out_step);
      (t1 - t3).store(to + 3 * out_step);
    }
  }
}

// A^T m A, for the 4x4 sums m of a tile, where A^T = [1 1  1  0]
//                                                   [0 1 -1 -1].
void winograd_output(float* top, float* bottom, Index columns, const float* m, Index m_step) {
  for (Index done = 0; done < columns; done += 2 * tile_lanes, m += tile_lanes) {
    F32 upper[4], lower[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const float* const from = m + i * m_step;
      const F32 m0 = F32::load(from), m1 = F32::load(from + 4 * m_step), m2 = F32::load(from + 8 * m_step),
                m3 = F32::load(from + 12 * m_step);
      upper[i] = m0 + m1 + m2;
      lower[i] = m1 - m2 - m3;
    }
    const auto write = [&](float* to, const F32(&t)[4]) __attribute__((always_inline)) {
      const F32 even = t[0] + t[1] + t[2], odd = t[1] - t[2] - t[3];
      const F32 low = alternating<0>(even, odd, all_lanes), high = alternating<tile_lanes / 2>(even, odd, all_lanes);
      const Index left = columns - done;
      if (left >= tile_lanes) low.store(to + done);
      else store_some(low, to + done, left);
      if (left >= 2 * tile_lanes) high.store(to + done + tile_lanes);
      else if (left > tile_lanes) store_some(high, to + done + tile_lanes, left - tile_lanes);
    };
    write(top, upper);
    if (bottom) write(bottom, lower);
  }
}

void fill_winograd(stave_cpu::Kernels& table) {
  // These convolutions need the kernel of products.
  if constexpr (STAVE_VECTOR_BYTES >= 32 && has_fma) table.winograd = {winograd_input, winograd_output};
}

}  // namespace STAVE_KERNELS
