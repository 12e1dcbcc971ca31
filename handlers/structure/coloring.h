// Colourings of sparse matrices: columns, or rows, that are found together from one product.
//
// Two columns that have no row in common may share a colour: the product of the matrix with the
// sum of their unit vectors has the entries of both, at different places. No colouring has fewer
// colours than the longest row has entries.
//
// Where the columns are the elements of a grid, and the rows a stencil on it, a linear function of
// the position mostly reaches this minimum: (i + 2 j) mod 5 for the five-point Laplacian [1].
// Elsewhere a greedy algorithm goes through the columns and gives each the smallest colour that
// fits [2]. The number of colours depends on the order, so the best of three orders counts:
// natural, by decreasing number of neighbours, and random.
//
//   [1] D. Goldfarb, P. L. Toint, Optimal estimation of Jacobian and Hessian matrices that arise in
//       finite difference calculations, Mathematics of Computation 43 (1984), 69-88
//   [2] A. H. Gebremedhin, F. Manne, A. Pothen, What color is your Jacobian? Graph coloring for
//       computing derivatives, SIAM Review 47 (2005), 629-705
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <stave/core/tensor/shape.h>

namespace stave_detail {

using namespace stave;

/// The pattern of a sparse matrix, row by row: row r has entries in the columns
/// indices[offsets[r]], ..., indices[offsets[r + 1] - 1], in rising order.
struct CsrPattern {
  Index rows = 0, columns = 0;
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::int32_t> indices;

  std::span<const std::int32_t> row(std::size_t r) const {
    return {indices.data() + offsets[r], static_cast<std::size_t>(offsets[r + 1] - offsets[r])};
  }
  std::vector<std::int32_t> column_counts() const;
  /// The transpose, without the entries of the rows with left_out[r] (empty: none).
  CsrPattern transposed(const std::vector<bool>& left_out = {}) const;
  /// The pattern with the entries of the transpose as well. The matrix must be square.
  CsrPattern symmetric() const;
  bool operator==(const CsrPattern&) const = default;
};

/// A colour for each column, counted from 0.
struct Coloring {
  std::int32_t count = 0;
  std::vector<std::int32_t> colors;
};

/// Colours columns so that no two columns of one colour have a row in common, apart from rows with
/// left_out[r] (empty: none). `grid` is the shape of an array whose elements are the columns.
Coloring color_columns(const CsrPattern& pattern, const Shape& grid = {}, const std::vector<bool>& left_out = {});

/// Colours a symmetric matrix so that each entry (i, j) is alone in its row among the columns of
/// j's colour, or alone in row j among those of i's: a star colouring of the graph of the
/// entries outside the diagonal (algorithm 4.1 of [2]). `grid` is as above.
Coloring color_symmetric(const CsrPattern& pattern, const Shape& grid = {});

}  // namespace stave_detail
