// Products of matrices of any layout, tile by tile through shared memory. The body has phases
// (block.cuh), so tests run it on the host.
#pragma once

#include <stave/backends/cuda/index_map.h>
#include <stave/core/tensor/backend.h>
#include <stave/backends/cuda/kernels/block.cuh>
#include <stave/backends/cuda/kernels/element.cuh>

#include <type_traits>

namespace stave_cuda {

// The number of rows, and of columns, of the result in the tile that a block computes at a time.
inline constexpr int product_tile = 32;

/// The type in which elements of T are multiplied and added. Floats use at least float. Integers
/// use unsigned types not narrower than int, whose sums and products wrap as on all backends.
template <class T>
struct FactorOf {
  using Type = decltype(stave::Computed<T>() + 0u);
};
template <class T>
struct FactorOf<stave::ComplexElement<T>> {
  using Type = stave::ComplexElement<T>;
};
template <class T>
using Factor = typename FactorOf<T>::Type;

/// Parameters of the tiled product kernel. For integers, T is an unsigned type.
template <class T>
struct TiledProduct {
  const T *a, *b;
  T* out;
  Index m, n, k;
  Index a_row, a_column, b_row, b_column;  // steps in elements
  // True if neighbouring elements in memory belong to the same column.
  bool a_by_columns, b_by_columns;
  // The number of tiles along a row of the result, and the number of tiles of all matrices.
  Index across, tasks;
  Index tiles;  // the number of tiles of one matrix
  // Maps the index of a matrix in the batch to the offsets where it begins in a and b.
  IndexMap<2> batch;
};

template <class T>
struct ProductTiles {
  // One extra column, so that threads that access a column together use different banks. Tiles of
  // 16-byte elements have none, because shared memory has just room for them.
  using Tile = Factor<T>[product_tile][product_tile + (sizeof(Factor<T>) < 16)];
  Tile a, b, sums;
};

/// The row and column of element i of a tile, in the order in which threads load or store the tile.
struct TilePlace {
  int row, column;
  STAVE_BOTH TilePlace(int i, bool by_columns)
      : row(by_columns ? i % product_tile : i / product_tile),
        column(by_columns ? i / product_tile : i % product_tile) {}
};

inline constexpr int tile_elements = product_tile * product_tile;

/// Sets to[i, j] = x[first_row + i, first_column + j], or 0 outside of the matrix.
template <class T>
STAVE_BOTH void load_tile(typename ProductTiles<T>::Tile& to, const T* x, Index rows, Index columns, Index row_step,
                          Index column_step, bool by_columns, Index first_row, Index first_column, unsigned thread) {
  for (int i = static_cast<int>(thread); i < tile_elements; i += static_cast<int>(block_threads)) {
    const TilePlace at(i, by_columns);
    const Index row = first_row + at.row, column = first_column + at.column;
    const bool inside = row < rows && column < columns;
    to[at.row][at.column] = inside ? computed(x[row * row_step + column * column_step]) : Factor<T>(0);
  }
}

template <class T>
STAVE_BOTH void multiply_tiles(ProductTiles<T>& shared, unsigned thread) {
  for (int i = static_cast<int>(thread); i < tile_elements; i += static_cast<int>(block_threads)) {
    const TilePlace at(i, false);
    Factor<T> sum = shared.sums[at.row][at.column];
    for (int q = 0; q < product_tile; ++q) sum = sum + shared.a[at.row][q] * shared.b[q][at.column];
    shared.sums[at.row][at.column] = sum;
  }
}

template <class T, class Block>
STAVE_BOTH void tiled_product_body(const Block& block, const TiledProduct<T>& p, ProductTiles<T>& shared) {
  for (Index task = block.index(); task < p.tasks; task += block.count()) {
    const Index matrix = task / p.tiles, tile = task % p.tiles;
    const Index row = tile / p.across * product_tile, column = tile % p.across * product_tile;
    const Offsets<2> start = p.batch(static_cast<std::uint64_t>(matrix));
    block.for_threads([&](unsigned t) {
      for (int i = static_cast<int>(t); i < tile_elements; i += static_cast<int>(block_threads))
        shared.sums[i / product_tile][i % product_tile] = Factor<T>(0);
    });
    for (Index q = 0; q < p.k; q += product_tile) {
      block.for_threads([&](unsigned t) {
        load_tile(shared.a, p.a + start[0], p.m, p.k, p.a_row, p.a_column, p.a_by_columns, row, q, t);
        load_tile(shared.b, p.b + start[1], p.k, p.n, p.b_row, p.b_column, p.b_by_columns, q, column, t);
      });
      block.for_threads([&](unsigned t) { multiply_tiles(shared, t); });
    }
    block.for_threads([&](unsigned t) {
      for (int i = static_cast<int>(t); i < tile_elements; i += static_cast<int>(block_threads)) {
        const Index r = row + i / product_tile, c = column + i % product_tile;
        if (r >= p.m || c >= p.n) continue;
        p.out[(matrix * p.m + r) * p.n + c] = element_of<T>(shared.sums[i / product_tile][i % product_tile]);
      }
    });
  }
}

/// Returns the parameters for operands as run_matmul receives them (matmul.h). No length may be 0.
template <class T>
TiledProduct<T> tiled_product(const stave::View& a, const stave::View& b, const stave::View& out, IndexMap<2> batch) {
  const std::size_t rank = out.shape.size();
  TiledProduct<T> p{};
  p.a = static_cast<const T*>(a.data);
  p.b = static_cast<const T*>(b.data);
  p.out = static_cast<T*>(out.data);
  p.m = out.shape[rank - 2];
  p.n = out.shape[rank - 1];
  p.k = a.shape[rank - 1];
  p.a_row = a.strides[rank - 2];
  p.a_column = a.strides[rank - 1];
  p.b_row = b.strides[rank - 2];
  p.b_column = b.strides[rank - 1];
  p.a_by_columns = p.a_row == 1 && p.a_column != 1;
  p.b_by_columns = p.b_row == 1 && p.b_column != 1;
  p.across = (p.n + product_tile - 1) / product_tile;
  p.tiles = p.across * ((p.m + product_tile - 1) / product_tile);
  Index matrices = 1;
  for (Index length : out.shape.first(rank - 2)) matrices *= length;
  p.tasks = p.tiles * matrices;
  p.batch = batch;
  return p;
}

}  // namespace stave_cuda
