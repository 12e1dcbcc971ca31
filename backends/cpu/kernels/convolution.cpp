// The inner loops of direct convolutions, which do not build an im2col matrix. weigh_rows computes
// a row of results as a weighted sum of shifted rows of x. multiply_rows sums products of rows of w
// and rows of x, for convolutions with large windows.
#include <stave/backends/cpu/kernels/fill.h>

#include <machine.h>

namespace STAVE_KERNELS {

using stave_cpu::Dtype;
using stave_cpu::Index;

/// Computes `vectors` vectors of each of `count` rows of results. The sums stay in registers for
/// all taps (elements of the window). The last vector of a row has `last` valid lanes.
template <class T, int count, int vectors>
STAVE_INLINE void weigh_block(T* out, Index out_step, const T* x, const T* w, const Index* offsets, Index taps,
                              bool accumulate, Index last) {
  using V = Vec<T>;
  constexpr int lanes = V::lanes;
  V sums[count][vectors];
  for (int r = 0; r < count; ++r)
    for (int v = 0; v < vectors; ++v) sums[r][v] = V(0);
  for (Index t = 0; t < taps; ++t) {
    const T* from = x + offsets[t];
    V row[vectors];
    for (int v = 0; v < vectors; ++v) row[v] = V::load(from + v * lanes);
    for (int r = 0; r < count; ++r) {
      const V weight(w[t * count + r]);
      for (int v = 0; v < vectors; ++v) {
        if constexpr (is_real<T>) sums[r][v] = fma(weight, row[v], sums[r][v]);
        else sums[r][v] = sums[r][v] + weight * row[v];
      }
    }
  }
  for (int r = 0; r < count; ++r)
    for (int v = 0; v < vectors; ++v) {
      T* to = out + r * out_step + v * lanes;
      if (v + 1 < vectors || last == lanes) {
        (accumulate ? V::load(to) + sums[r][v] : sums[r][v]).store(to);
      } else {
        store_some(accumulate ? load_some<T>(to, last) + sums[r][v] : sums[r][v], to, last);
      }
    }
}

template <class T, int count>
STAVE_INLINE void weigh(T* out, Index out_step, const T* x, const T* w, const Index* offsets, Index taps, Index n,
                        bool accumulate) {
  constexpr Index lanes = Vec<T>::lanes;
  Index j = 0;
  for (; j + lanes < n; j += 2 * lanes) {
    const Index left = n - j - lanes;
    weigh_block<T, count, 2>(out + j, out_step, x + j, w, offsets, taps, accumulate, left < lanes ? left : lanes);
  }
  if (j < n) weigh_block<T, count, 1>(out + j, out_step, x + j, w, offsets, taps, accumulate, n - j);
}

// True if there are 32 vector registers, as in AVX-512. Six rows of results would leave half of
// them unused, so up to eight rows are computed together.
constexpr bool many_registers = STAVE_VECTOR_BYTES == 64;

template <class T>
STAVE_INLINE void weigh_many(T* out, Index out_step, const T* x, const T* w, const Index* offsets, Index taps,
                             Index results, Index n, bool accumulate) {
  if (results == 7) weigh<T, 7>(out, out_step, x, w, offsets, taps, n, accumulate);
  else weigh<T, 8>(out, out_step, x, w, offsets, taps, n, accumulate);
}

template <class T>
void weigh_rows(void* out, Index out_step, const void* x, const void* w, const Index* offsets, Index taps,
                Index results, Index n, bool accumulate) {
  T* to = static_cast<T*>(out);
  auto *from = static_cast<const T*>(x), *weights = static_cast<const T*>(w);
  switch (is_real<T> ? results : 1) {
    case 1: return weigh<T, 1>(to, out_step, from, weights, offsets, taps, n, accumulate);
    case 2: return weigh < T, is_real<T> ? 2 : 1 > (to, out_step, from, weights, offsets, taps, n, accumulate);
    case 3: return weigh < T, is_real<T> ? 3 : 1 > (to, out_step, from, weights, offsets, taps, n, accumulate);
    case 4: return weigh < T, is_real<T> ? 4 : 1 > (to, out_step, from, weights, offsets, taps, n, accumulate);
    case 5: return weigh < T, is_real<T> ? 5 : 1 > (to, out_step, from, weights, offsets, taps, n, accumulate);
    case 6: return weigh < T, is_real<T> ? 6 : 1 > (to, out_step, from, weights, offsets, taps, n, accumulate);
    default:
      if constexpr (is_real<T> && many_registers)
        return weigh_many<T>(to, out_step, from, weights, offsets, taps, results, n, accumulate);
  }
}

/// Adds the products of one vector of columns to `sums`. If `whole` is false, the vector has `some`
/// valid columns.
template <class T, int results, int taps, bool whole>
STAVE_INLINE void multiply_columns(Vec<T> (&sums)[results * taps], const T* x, const Index* offsets, const T* w,
                                   Index w_step, Index some) {
  using V = Vec<T>;
  V columns[taps];
  for (int t = 0; t < taps; ++t) columns[t] = whole ? V::load(x + offsets[t]) : load_some<T>(x + offsets[t], some);
  for (int r = 0; r < results; ++r) {
    const V weight = whole ? V::load(w + r * w_step) : load_some<T>(w + r * w_step, some);
    for (int t = 0; t < taps; ++t) sums[r * taps + t] = fma(weight, columns[t], sums[r * taps + t]);
  }
}

/// Computes the sums of a block of results and taps in registers, and adds them to `sums`.
/// Lane i of a register sums columns i, i + lanes, i + 2 lanes, ... of the rows.
template <class T, int results, int taps>
STAVE_INLINE void multiply_block(double* sums, const T* x, Index x_row, const Index* offsets, const T* w, Index w_row,
                                 Index w_step, Index rows, Index n) {
  using V = Vec<T>;
  constexpr Index lanes = V::lanes;
  V parts[results * taps];
#pragma GCC unroll 12  // Without unrolling, GCC keeps `parts` in memory.
  for (int i = 0; i < results * taps; ++i) parts[i] = V(0);
  for (Index row = 0; row < rows; ++row, x += x_row, w += w_row) {
    Index j = 0;
    for (; j + lanes <= n; j += lanes)
      multiply_columns<T, results, taps, true>(parts, x + j, offsets, w + j, w_step, lanes);
    if (j < n) multiply_columns<T, results, taps, false>(parts, x + j, offsets, w + j, w_step, n - j);
  }
#pragma GCC unroll 12
  for (int i = 0; i < results * taps; ++i) {
    T each[lanes];
    parts[i].store(each);
    for (int lane = 0; lane < lanes; ++lane) sums[i * stave_cpu::sum_lanes + lane] += static_cast<double>(each[lane]);
  }
}

template <class T>
void multiply_rows(double* sums, const void* x, Index x_row, const Index* offsets, Index taps, const void* w,
                   Index w_row, Index w_step, Index results, Index rows, Index n) {
  auto *from = static_cast<const T*>(x), *weights = static_cast<const T*>(w);
#define STAVE_BLOCK(r, t) \
  case r * 4 + t: return multiply_block<T, r, t>(sums, from, x_row, offsets, weights, w_row, w_step, rows, n);
#define STAVE_BLOCKS(r) STAVE_BLOCK(r, 1) STAVE_BLOCK(r, 2) STAVE_BLOCK(r, 3)
  switch (results * 4 + taps) { STAVE_BLOCKS(1) STAVE_BLOCKS(2) STAVE_BLOCKS(3) STAVE_BLOCKS(4) }
#undef STAVE_BLOCKS
#undef STAVE_BLOCK
}

void fill_convolution(stave_cpu::Kernels& table) {
  table.weighed_results = many_registers ? 8 : 6;
#define X(name, type) table.weigh_rows[static_cast<int>(Dtype::name)] = weigh_rows<type>;
  STAVE_INTEGERS(X)
  X(float32, float)
  X(float64, double)
#undef X
  table.multiply_rows[static_cast<int>(Dtype::float32)] = multiply_rows<float>;
  table.multiply_rows[static_cast<int>(Dtype::float64)] = multiply_rows<double>;
}

}  // namespace STAVE_KERNELS
