// Products of float matrices by BLAS, on the calling thread.
#pragma once

#include <stave/core/tensor/shape.h>

namespace stave_cpu {

using stave::Index;

/// A matrix in memory. Steps in elements.
struct Matrix {
  const char* data;
  Index rows, columns, row_step, column_step;
  Matrix part(Index row, Index row_count, Index column, Index column_count, Index size) const {
    return {data + (row * row_step + column * column_step) * size, row_count, column_count, row_step, column_step};
  }
};

/// While one exists, BLAS runs on the thread that calls it: our own loops split the work, and two pools of threads would
/// only take the cores from each other. What was set before comes back with the last guard.
class SingleThreadedBlas {
 public:
  SingleThreadedBlas();
  ~SingleThreadedBlas();
  SingleThreadedBlas(const SingleThreadedBlas&) = delete;
};

/// Whether BLAS can read it as it lies: row-major or column-major, with any distance between rows or columns.
bool blas_reads(const Matrix& x);
/// The same but for numbers that are too large for BLAS: parts of such a matrix can be read, if not always as they lie.
bool blas_reads_parts(const Matrix& x);

/// out = a b for matrices that BLAS reads; rows of `out` are `out_step` elements apart, at most INT_MAX. Sums are as BLAS adds
/// them: of a vector, one term to the next. T: float or double.
template <class T>
void multiply_floats(T* out, Index out_step, const Matrix& a, const Matrix& b);

}  // namespace stave_cpu
