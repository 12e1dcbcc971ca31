// Products of bfloat16 matrices with the AVX512_BF16 instruction vdpbf16ps. It computes sixteen
// float32 sums: each is increased by the products of two pairs of bfloat16 numbers.
//
// Both operands are packed, so that the two numbers of a pair, which are neighbours along k, are
// adjacent: b is packed once, into panels of `panel` columns, and a by each task, into panels of
// `height` rows. A task computes a tile of the result in floats, over blocks of k, and rounds it.
// The sums of the blocks are added to each other, so that sums of any length are accurate. (Goto
// and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008.)
#include <stave/backends/cpu/bfloat_matmul.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/backends/cpu/strided.h>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#include <immintrin.h>
#define STAVE_HAS_BFLOAT_PRODUCTS 1
#endif

namespace stave_cpu {

using stave::View;

#ifdef STAVE_HAS_BFLOAT_PRODUCTS

namespace {

using Half = std::uint16_t;
using Pair = std::uint32_t;

constexpr Index height = 6, panel = 64;  // The rows and columns of the sums that registers hold.
constexpr Index k_block = 512;           // The number of terms of a sum over one block of k.
constexpr Index tile_rows = 16 * height, tile_columns = 4 * panel;

Index rounded_up(Index n, Index unit) { return (n + unit - 1) / unit * unit; }

/// One bfloat16 matrix of a stack. Its steps are in elements.
struct Halves {
  const Half* data;
  Index rows, columns, row_step, column_step;
  Half at(Index row, Index column) const {
    return row < rows && column < columns ? data[row * row_step + column * column_step] : Half{0};
  }
};

Pair pair_of(Half low, Half high) { return static_cast<Pair>(low) | static_cast<Pair>(high) << 16; }

/// Packs columns `column`, `column` + 1, ... of b at rows k and k + 1. A pair has one column's two
/// elements.
void pack_columns(const Halves& b, Index k, Index column, Pair* to) {
  const Index whole = std::min(panel, b.columns - column);
  if (b.column_step == 1 && k + 1 < b.rows) {
    const Half *low = b.data + k * b.row_step + column, *high = low + b.row_step;
    for (Index j = 0; j < whole; ++j) to[j] = pair_of(low[j], high[j]);
    std::fill(to + whole, to + panel, Pair{0});
  } else {
    for (Index j = 0; j < panel; ++j) to[j] = pair_of(b.at(k, column + j), b.at(k + 1, column + j));
  }
}

/// Packs rows `row`, `row` + 1, ... of a from column k on, as `pairs` pairs for each row. The pairs
/// of all rows at one position along k are side by side.
void pack_rows(const Halves& a, Index row, Index k, Index pairs, Pair* to) {
  if (a.column_step == 1 && row + height <= a.rows && k + 2 * pairs <= a.columns) {
    for (Index i = 0; i < height; ++i) {
      const Half* const from = a.data + (row + i) * a.row_step + k;
      for (Index p = 0; p < pairs; ++p) std::memcpy(to + p * height + i, from + 2 * p, sizeof(Pair));
    }
    return;
  }
  for (Index p = 0; p < pairs; ++p)
    for (Index i = 0; i < height; ++i)
      to[p * height + i] = pair_of(a.at(row + i, k + 2 * p), a.at(row + i, k + 2 * p + 1));
}

/// Computes sums [height, panel] += a b for two packed panels. The rows of `sums` are `step` apart.
__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) void multiply_panels(const Pair* a, const Pair* b,
                                                                                     Index pairs, float* sums,
                                                                                     Index step) {
  constexpr Index lanes = 16, vectors = panel / lanes;
  __m512 sum[height][vectors];
  for (Index i = 0; i < height; ++i)
    for (Index v = 0; v < vectors; ++v) sum[i][v] = _mm512_setzero_ps();
  for (Index p = 0; p < pairs; ++p, a += height, b += panel) {
    __m512i column[vectors];
    for (Index v = 0; v < vectors; ++v) column[v] = _mm512_loadu_si512(b + v * lanes);
#pragma GCC unroll 6
    for (Index i = 0; i < height; ++i) {
      const auto row = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a[i])));
#pragma GCC unroll 4
      for (Index v = 0; v < vectors; ++v)
        sum[i][v] = _mm512_dpbf16_ps(sum[i][v], row, reinterpret_cast<__m512bh>(column[v]));
    }
  }
  for (Index i = 0; i < height; ++i)
    for (Index v = 0; v < vectors; ++v) {
      float* const to = sums + i * step + v * lanes;
      _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), sum[i][v]));
    }
}

/// One matrix product, whose result is divided into tiles.
class BfloatProduct {
 public:
  BfloatProduct(const Halves& a, const Halves& b, Half* out) : a_(a), b_(b), out_(out) {
    const Index panels = rounded_up(b.columns, panel) / panel;
    packed_ = scratch<Pair>(static_cast<std::size_t>(panels * pairs() * panel));
    parallel_for(panels, std::max<Index>(1, cheap_grain / (pairs() * panel)), [&](Index first, Index last) {
      for (Index i = first; i < last; ++i)
        for (Index p = 0; p < pairs(); ++p) pack_columns(b_, 2 * p, i * panel, panel_at(i) + p * panel);
    });
  }
  void run() const {
    const Index across = rounded_up(b_.columns, tile_columns) / tile_columns,
                down = rounded_up(a_.rows, tile_rows) / tile_rows;
    parallel_for(across * down, std::max<Index>(1, (Index{1} << 21) / (tile_rows * tile_columns * a_.columns)),
                 [&](Index first, Index last) {
                   Tile tile;
                   for (Index t = first; t < last; ++t)
                     multiply_tile(t / across * tile_rows, t % across * tile_columns, tile);
                 });
  }

 private:
  struct Tile {
    Scratch<float> sums = scratch<float>(tile_rows * tile_columns);
    Scratch<Pair> rows = scratch<Pair>(tile_rows * k_block / 2);
  };
  Index pairs() const { return (a_.columns + 1) / 2; }
  Pair* panel_at(Index i) const { return packed_.get() + i * pairs() * panel; }

  void multiply_tile(Index row, Index column, Tile& tile) const {
    const Index rows = std::min(tile_rows, a_.rows - row), columns = std::min(tile_columns, b_.columns - column);
    std::fill_n(tile.sums.get(), tile_rows * tile_columns, 0.f);
    for (Index k = 0; k < a_.columns; k += k_block) {
      const Index count = std::min(k_block / 2, pairs() - k / 2);
      for (Index r = 0; r < rows; r += height) pack_rows(a_, row + r, k, count, tile.rows.get() + r * count);
      for (Index c = 0; c < columns; c += panel)
        for (Index r = 0; r < rows; r += height)
          multiply_panels(tile.rows.get() + r * count, panel_at((column + c) / panel) + k / 2 * panel, count,
                          tile.sums.get() + r * tile_columns + c, tile_columns);
    }
    const BlockKernel round = kernels().convert[static_cast<int>(Dtype::float32)][static_cast<int>(Dtype::bfloat16)];
    for (Index r = 0; r < rows; ++r) {
      const void* in[] = {tile.sums.get() + r * tile_columns};
      round(out_ + (row + r) * b_.columns + column, in, columns);
    }
  }

  const Halves a_, b_;
  Half* out_;
  Scratch<Pair> packed_;
};

Halves matrix_at(const View& x, Index offset) {
  const std::size_t rank = x.shape.size();
  return {reinterpret_cast<const Half*>(static_cast<const char*>(x.data) + offset), x.shape[rank - 2],
          x.shape[rank - 1], x.strides[rank - 2], x.strides[rank - 1]};
}

}  // namespace

bool is_bfloat_product(const View& a, const View& b) {
  // The least number of multiplications for which packing pays.
  constexpr Index least = Index{1} << 15;
  if (a.dtype != stave::bfloat16 || a.shape[a.shape.size() - 2] * a.shape.back() * b.shape.back() < least) return false;
  static const bool has = __builtin_cpu_supports("avx512bf16");
  return has && std::string_view(kernels().isa) == "avx512";
}

void run_bfloat_matmul(const View& a, const View& b, const View& out) {
  const std::size_t batch = out.shape.size() - 2;
  const Index *strides[] = {a.strides.data(), b.strides.data()}, sizes[] = {sizeof(Half), sizeof(Half)};
  const TileWalk stack(merged_axes(out.shape.first(batch), strides, sizes), 2, -1, 1, 1);
  const Index each = out.shape[batch] * out.shape[batch + 1];
  const Index work = each * a.shape.back();
  parallel_for(stack.count(), std::max<Index>(1, (Index{1} << 21) / std::max<Index>(1, work)),
               [&](Index first, Index last) {
                 TileWalk walk = stack;
                 walk.seek(first);
                 for (Index i = first; i < last; ++i, walk.next())
                   BfloatProduct(matrix_at(a, walk.offset(0)), matrix_at(b, walk.offset(1)),
                                 static_cast<Half*>(out.data) + i * each)
                       .run();
               });
}

#else

bool is_bfloat_product(const View&, const View&) { return false; }
void run_bfloat_matmul(const View&, const View&, const View&) {}

#endif

}  // namespace stave_cpu
