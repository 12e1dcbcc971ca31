// Products of float matrices by BLAS, on the calling thread.
#pragma once

#include <stave/core/tensor/complex.h>
#include <stave/core/tensor/shape.h>

namespace stave_cpu {

using stave::Index;

/// A matrix in memory. Steps (distances of neighbouring rows or columns) are in elements.
struct Matrix {
  const char* data;
  Index rows, columns, row_step, column_step;
  Matrix part(Index row, Index row_count, Index column, Index column_count, Index size) const {
    return {data + (row * row_step + column * column_step) * size, row_count, column_count, row_step, column_step};
  }
};

/// While an object of this class exists, BLAS runs on the thread that calls it. Stave's own loops
/// split the work, and two pools of threads would only compete for the cores. The last object that
/// is destroyed restores the previous setting. If BLAS is not OpenBLAS, objects have no effect.
class SingleThreadedBlas {
 public:
  SingleThreadedBlas();
  ~SingleThreadedBlas();
  SingleThreadedBlas(const SingleThreadedBlas&) = delete;
};

/// Returns false if BLAS is an OpenBLAS that does not use AVX-512 although Stave's kernels do: it
/// then takes about twice as long as it could.
bool blas_knows_processor();

/// Returns true if BLAS can read the matrix in place: row-major or column-major, with any distance
/// between rows or columns.
bool blas_reads(const Matrix& x);
/// Returns true if BLAS can read parts of the matrix in place. Unlike blas_reads, it accepts
/// matrices whose sizes exceed BLAS's integers.
bool blas_reads_parts(const Matrix& x);

/// Computes out = a b for matrices that BLAS reads. Rows of `out` are `out_step` elements apart,
/// at most INT_MAX. BLAS determines the order of summation. In products with a vector, it adds the
/// terms one after the other. T is float, double or ComplexElement of them.
template <class T>
void multiply_floats(T* out, Index out_step, const Matrix& a, const Matrix& b);

}  // namespace stave_cpu
