// Products of float matrices by the library's own kernel (kernels/products.cpp), on the calling
// thread. Before BLAS they have this: the right matrix may be packed once for many products, and a
// caller gets results while they are in a cache.
//
// The right matrix is packed in blocks of terms, each in panels of adjacent columns:
//   [blocks of at most panel_terms terms][panels][terms][columns of a panel]
// Columns that the last panel lacks are 0. The left matrix is read in place, or copied, some rows
// at a time, if its rows are not dense or compete for lines of a cache.
#pragma once

#include <stave/backends/cpu/blas.h>
#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/finished.h>

namespace stave_cpu {

/// The kernel for T, or null if this instruction set leaves its products to BLAS.
template <class T>
const PanelProduct* panel_product() {
  const PanelProduct& product = kernels().panel_product[static_cast<int>(stave::dtype_of<T>())];
  return product.rows > 0 ? &product : nullptr;
}

/// The number of blocks into which sums of so many terms are divided, and the length of all blocks
/// but the last.
inline Index term_blocks(Index terms) { return (terms + panel_terms - 1) / panel_terms; }
inline Index terms_of_block(Index terms) {
  const Index blocks = term_blocks(terms);
  return (terms + blocks - 1) / blocks;
}

/// Operations on matrices of T, float or double, for one kernel.
template <class T>
class PanelProducts {
 public:
  /// For left matrices of `rows` rows in all, of which a call may get some: the order of summation
  /// depends on the number of all rows only.
  PanelProducts(const PanelProduct& kernel, Index rows)
      : kernel_(kernel), multiply_(rows <= few_panel_rows ? kernel.multiply_few : kernel.multiply) {}

  /// The number of columns of a panel, and this number times that of the panels of a matrix.
  Index panel() const { return kernel_.columns; }
  Index padded(Index columns) const { return (columns + panel() - 1) / panel() * panel(); }

  /// Packs b [terms, columns] into terms * padded(columns) elements.
  void pack(T* to, const Matrix& b) const;

  /// Returns true if the kernel can read the rows of a left matrix in place: if they are dense, and
  /// if not too many of them compete for the same lines of the L1 cache.
  static bool reads_rows(Index row_step, Index column_step) {
    constexpr Index page = 4096;
    return column_step == 1 && row_step >= 0 && row_step * static_cast<Index>(sizeof(T)) % page != 0;
  }

  /// Adds the products of a block of terms to `out`, or writes them there. Rows of a are `a_step`
  /// elements apart. Term p of column j is x[offsets[p] + j]; whole panels are read.
  void multiply_block(T* out, Index out_step, const T* a, Index a_step, Index rows, const T* x, const Index* offsets,
                      Index terms, Index columns, bool accumulate) const;

  /// A part of a packed matrix: the columns from `column` on, which begins a panel.
  struct Packed {
    const T* data = nullptr;  // null: not packed yet
    Index padded = 0, column = 0;
  };
  /// Computes out = a b, where `packed` is b. `finished`, unless it is null, receives the results;
  /// `out` is the element of index `first`.
  void multiply(T* out, Index out_step, const Matrix& a, const Matrix& b, const Packed& packed,
                const Finished* finished, Index first) const;

 private:
  void pack_block(T* to, const Matrix& b) const;

  const PanelProduct& kernel_;
  const PanelProduct::Multiply* const multiply_;
};

}  // namespace stave_cpu
