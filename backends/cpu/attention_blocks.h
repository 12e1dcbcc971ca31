// Blocks of the matrices of attention: a block is some rows of a matrix in a stack, which BLAS
// reads in place if it can, or a dense matrix that one thread owns.
#pragma once

#include <algorithm>
#include <vector>

#include <stave/backends/cpu/blas.h>
#include <stave/backends/cpu/in_floats.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

/// Consecutive rows of one matrix of a stack.
struct MatrixRows {
  const View& view;
  // `offset` is the first element's position in the view's memory, in elements.
  Index offset, first, count;

  MatrixRows(const View& view, Index matrix, Index first, Index count)
      : view(view), offset(0), first(first), count(count) {
    for (std::size_t axis = view.shape.size() - 2; axis-- > 0; matrix /= view.shape[axis])
      offset += matrix % view.shape[axis] * view.strides[axis];
  }
  Index columns() const { return view.shape.back(); }
  Index row_step() const { return view.strides[view.strides.size() - 2]; }
  char* at(Index row, Index column) const {
    return static_cast<char*>(view.data) + (offset + (first + row) * row_step() + column * view.strides.back()) *
                                               static_cast<Index>(stave::size_of(view.dtype));
  }
  View part(Index column, Index width, stave::Shape& shape, stave::Strides& strides) const {
    shape = {count, width};
    strides = {row_step(), view.strides.back()};
    return {at(0, column), view.dtype, shape, strides};
  }
};

/// A dense matrix that one thread owns.
template <class T>
struct Block {
  std::vector<T> elements;
  Index rows = 0, columns = 0;

  T* resize(Index to_rows, Index to_columns) {
    rows = to_rows, columns = to_columns;
    if (const auto size = static_cast<std::size_t>(rows * columns); elements.size() < size) elements.resize(size);
    return elements.data();
  }
  T* row(Index i) { return elements.data() + i * columns; }
  Matrix matrix() const { return {reinterpret_cast<const char*>(elements.data()), rows, columns, columns, 1}; }
  Matrix transposed() const { return {reinterpret_cast<const char*>(elements.data()), columns, rows, 1, columns}; }
  void fill(T value) { std::fill_n(elements.begin(), rows * columns, value); }
};

inline Matrix transposed(const Matrix& x) { return {x.data, x.columns, x.rows, x.column_step, x.row_step}; }

/// Returns columns [column, column + width) of x as a matrix of T that BLAS can read: in place,
/// or copied into `copy`. Sixteen-bit floats are converted to float32 in the copy.
template <class T>
Matrix load(const MatrixRows& x, Index column, Index width, Block<T>& copy) {
  stave::Shape shape;
  stave::Strides strides;
  const View part = x.part(column, width, shape, strides);
  const Matrix there{static_cast<const char*>(part.data), x.count, width, strides[0], strides[1]};
  const bool floats = part.dtype == stave::dtype_of<T>();
  if (floats && blas_reads(there)) return there;
  T* const to = copy.resize(x.count, width);
  if (floats) {
    copy_tile(reinterpret_cast<char*>(to), width * Index{sizeof(T)}, sizeof(T), there.data,
              there.row_step * Index{sizeof(T)}, there.column_step * Index{sizeof(T)}, x.count, width, sizeof(T));
  } else {
    const stave::Strides dense = stave::contiguous_strides(shape);
    convert(part, {to, stave::dtype_of<T>(), shape, dense});
  }
  return copy.matrix();
}
template <class T>
Matrix load(const MatrixRows& x, Block<T>& copy) {
  return load(x, 0, x.columns(), copy);
}

/// Writes a block into rows of a row-major result.
template <class T>
void store(const MatrixRows& to, const Block<T>& from) {
  stave::Shape shape;
  stave::Strides strides;
  const View part = to.part(0, to.columns(), shape, strides);
  const stave::Strides dense = stave::contiguous_strides(shape);
  convert({const_cast<T*>(from.elements.data()), stave::dtype_of<T>(), shape, dense}, part);
}

/// Computes out = a b. If the inner dimension is 0, `out` is 0.
template <class T>
void multiply(Block<T>& out, const Matrix& a, const Matrix& b) {
  T* const to = out.resize(a.rows, b.columns);
  if (a.columns == 0) out.fill(0);
  else if (a.rows > 0 && b.columns > 0) multiply_floats(to, b.columns, a, b);
}
/// Computes sum += term.
template <class T>
void add_to(T* sum, const Block<T>& term) {
  const auto count = static_cast<std::size_t>(term.rows * term.columns);
  for (std::size_t i = 0; i < count; ++i) sum[i] += term.elements[i];
}

}  // namespace stave_cpu
