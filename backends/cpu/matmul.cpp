// Matrix products: floats by BLAS, tiny ones and integers by loops of our own.
//
// BLAS reads row-major and column-major matrices with any distance between rows or columns, so transposed and sliced
// operands go in as they are; others are packed first. A batch over which b is one matrix becomes one tall product.
#include <stave/backends/cpu/matmul.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include <cblas.h>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/elementwise.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::Dtype;
using stave::Shape;
using stave::View;

namespace {

// OpenBLAS itself runs products up to this size on the calling thread alone.
constexpr Index single_threaded = 1 << 18;
constexpr Index tiny = 16;

/// A matrix in memory. Steps in elements.
struct Matrix {
  const char* data;
  Index rows, columns, row_step, column_step;
};

/// All of a product: one of its matrices, and the batch axes around (steps in bytes; operands out, a, b).
struct Product {
  Dtype dtype;
  Index size;
  char* out;
  Matrix a, b;
  Axes batch;
  Index m() const { return a.rows; }
  Index k() const { return a.columns; }
  Index n() const { return b.columns; }
};

Matrix matrix_of(const View& view) {
  std::size_t rank = view.shape.size();
  return {static_cast<const char*>(view.data), view.shape[rank - 2], view.shape[rank - 1], view.strides[rank - 2],
          view.strides[rank - 1]};
}

Product make_product(const View& a, const View& b, const View& out) {
  Product p{out.dtype, static_cast<Index>(stave::size_of(out.dtype)), static_cast<char*>(out.data), matrix_of(a),
            matrix_of(b), {}};
  const Index* strides[] = {out.strides.data(), a.strides.data(), b.strides.data()};
  Index sizes[] = {p.size, p.size, p.size};
  p.batch = merged_axes(out.shape.first(out.shape.size() - 2), strides, sizes);
  return p;
}

/// Batch axes along which b stands still and a's rows go on evenly are rows of one taller product.
void merge_batch_into_rows(Product& p) {
  while (!p.batch.empty()) {
    const Axis& axis = p.batch.back();
    bool even = p.m() == 1 || axis.step[1] == p.a.row_step * p.m() * p.size;
    if (axis.step[2] != 0 || !even) return;
    if (p.m() == 1) p.a.row_step = axis.step[1] / p.size;
    p.a.rows *= axis.length;
    p.batch.pop_back();
  }
}

// ---- floats: BLAS ------------------------------------------------------------------------------------------

constexpr Index most_int = std::numeric_limits<int>::max();

/// How BLAS is told of a matrix.
struct BlasMatrix {
  const void* data = nullptr;
  CBLAS_TRANSPOSE transpose = CblasNoTrans;
  Index leading = 0;
};

bool as_blas(const Matrix& x, BlasMatrix& blas) {
  auto fits = [](Index leading, Index least) { return leading >= std::max<Index>(1, least) && leading <= most_int; };
  Index row_step = x.rows == 1 ? std::max<Index>(1, x.columns) : x.row_step;
  Index column_step = x.columns == 1 ? 1 : x.column_step;
  if (column_step == 1 && fits(row_step, x.columns)) {
    blas = {x.data, CblasNoTrans, row_step};
    return true;
  }
  row_step = x.rows == 1 ? 1 : x.row_step;
  column_step = x.columns == 1 ? std::max<Index>(1, x.rows) : x.column_step;
  if (row_step == 1 && fits(column_step, x.rows)) {
    blas = {x.data, CblasTrans, column_step};
    return true;
  }
  return false;
}

/// A matrix that BLAS can read: itself, or a row-major copy.
class Readable {
 public:
  Readable(const Matrix& x, Index size) {
    if (as_blas(x, blas_)) return;
    copy_ = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(x.rows * x.columns * size));
    Index shape[] = {x.rows, x.columns}, strides[] = {x.row_step, x.column_step}, dense[] = {x.columns, 1};
    copy_strided({copy_.get(), dense}, {const_cast<char*>(x.data), strides}, shape, size);
    blas_ = {copy_.get(), CblasNoTrans, x.columns};
  }
  const BlasMatrix& blas() const { return blas_; }

 private:
  std::unique_ptr<char[]> copy_;
  BlasMatrix blas_;
};

void gemm(float* out, const BlasMatrix& a, const BlasMatrix& b, int m, int n, int k) {
  cblas_sgemm(CblasRowMajor, a.transpose, b.transpose, m, n, k, 1, static_cast<const float*>(a.data),
              static_cast<int>(a.leading), static_cast<const float*>(b.data), static_cast<int>(b.leading), 0, out, n);
}
void gemm(double* out, const BlasMatrix& a, const BlasMatrix& b, int m, int n, int k) {
  cblas_dgemm(CblasRowMajor, a.transpose, b.transpose, m, n, k, 1, static_cast<const double*>(a.data),
              static_cast<int>(a.leading), static_cast<const double*>(b.data), static_cast<int>(b.leading), 0, out, n);
}
void gemv(float* out, const BlasMatrix& a, CBLAS_TRANSPOSE transpose, int rows, int columns, const void* x, int step) {
  cblas_sgemv(CblasRowMajor, transpose, rows, columns, 1, static_cast<const float*>(a.data),
              static_cast<int>(a.leading), static_cast<const float*>(x), step, 0, out, 1);
}
void gemv(double* out, const BlasMatrix& a, CBLAS_TRANSPOSE transpose, int rows, int columns, const void* x, int step) {
  cblas_dgemv(CblasRowMajor, transpose, rows, columns, 1, static_cast<const double*>(a.data),
              static_cast<int>(a.leading), static_cast<const double*>(x), step, 0, out, 1);
}

/// out = x v for a vector v, or x^T v.
template <class T>
void times_vector(T* out, const Matrix& x, bool transposed, const char* v, Index step) {
  Readable readable(x, sizeof(T));
  const BlasMatrix& blas = readable.blas();
  bool column_major = blas.transpose == CblasTrans;
  Index rows = column_major ? x.columns : x.rows, columns = column_major ? x.rows : x.columns;
  Index length = transposed ? x.rows : x.columns;
  std::unique_ptr<T[]> packed;
  if (step <= 0 || step > most_int) {  // BLAS counts negative steps from the other end
    packed = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(length));
    copy_tile(reinterpret_cast<char*>(packed.get()), 0, sizeof(T), v, 0, step * static_cast<Index>(sizeof(T)), 1, length,
              sizeof(T));
    v = reinterpret_cast<const char*>(packed.get());
    step = 1;
  }
  gemv(out, blas, column_major != transposed ? CblasTrans : CblasNoTrans, static_cast<int>(rows), static_cast<int>(columns),
       v, static_cast<int>(step));
}

template <class T>
void multiply_floats(char* out, const Matrix& a, const Matrix& b) {
  T* to = reinterpret_cast<T*>(out);
  if (b.columns == 1) return times_vector<T>(to, a, false, b.data, b.rows == 1 ? 1 : b.row_step);
  if (a.rows == 1) return times_vector<T>(to, b, true, a.data, a.columns == 1 ? 1 : a.column_step);
  Readable left(a, sizeof(T)), right(b, sizeof(T));
  gemm(to, left.blas(), right.blas(), static_cast<int>(a.rows), static_cast<int>(b.columns), static_cast<int>(a.columns));
}

// ---- tiny products, and integers ---------------------------------------------------------------------------

/// Both at most 16 x 16: by rows in a copy on the stack where the columns are not dense.
void multiply_tiny(const Product& p, char* out, Matrix a, Matrix b) {
  alignas(64) char buffers[2][tiny * tiny * 8];
  char* buffer = buffers[0];
  for (Matrix* x : {&a, &b}) {
    if (x->column_step != 1 && x->columns != 1) {
      copy_tile(buffer, x->columns * p.size, p.size, x->data, x->row_step * p.size, x->column_step * p.size, x->rows,
                x->columns, p.size);
      x->data = buffer;
      x->row_step = x->columns;
    }
    buffer = buffers[1];
  }
  kernels().tiny_matmul[static_cast<int>(p.dtype)](out, a.data, b.data, a.rows, a.columns, b.columns, a.row_step, b.row_step);
}

/// Rows [first, last): out[i, :] += a[i, p] b[p, :], in blocks of columns that stay in the first cache.
void multiply_rows(const Product& p, char* out, const Matrix& a, const Matrix& b, Index first, Index last) {
  constexpr Index block = 1024;
  auto multiply_add = kernels().multiply_add[static_cast<int>(p.dtype)];
  std::memset(out + first * b.columns * p.size, 0, static_cast<std::size_t>((last - first) * b.columns * p.size));
  for (Index column = 0; column < b.columns; column += block) {
    Index n = std::min(block, b.columns - column);
    for (Index i = first; i < last; ++i)
      for (Index q = 0; q < a.columns; ++q)
        multiply_add(out + (i * b.columns + column) * p.size, a.data + (i * a.row_step + q * a.column_step) * p.size,
                     b.data + (q * b.row_step + column) * p.size, n);
  }
}
void multiply_integers(const Product& p, char* out, const Matrix& a, Matrix b) {
  std::unique_ptr<char[]> copy;
  if (b.column_step != 1 && b.columns != 1) {
    copy = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(b.rows * b.columns * p.size));
    Index shape[] = {b.rows, b.columns}, strides[] = {b.row_step, b.column_step}, dense[] = {b.columns, 1};
    copy_strided({copy.get(), dense}, {const_cast<char*>(b.data), strides}, shape, p.size);
    b = {copy.get(), b.rows, b.columns, b.columns, 1};
  }
  parallel_for(a.rows, std::max<Index>(1, cheap_grain / (a.columns * b.columns)),
               [&](Index first, Index last) { multiply_rows(p, out, a, b, first, last); });
}

// ---- choosing ----------------------------------------------------------------------------------------------

/// k = 1: the elementwise product of a column and a row.
void multiply_outer(const View& a, const View& b, const View& out) {
  std::size_t rank = out.shape.size();
  stave::Shape a_strides(a.strides), b_strides(b.strides);
  a_strides[rank - 1] = 0;
  b_strides[rank - 2] = 0;
  View inputs[] = {{a.data, a.dtype, out.shape, a_strides}, {b.data, b.dtype, out.shape, b_strides}};
  auto multiply = kernels().elementwise[static_cast<int>(OpId::multiply)][static_cast<int>(out.dtype)];
  run_elementwise(multiply, inputs, out, cheap_grain);
}

void multiply_one(const Product& p, const TileWalk& walk) {
  Matrix a = p.a, b = p.b;
  a.data += walk.offset(1);
  b.data += walk.offset(2);
  char* out = p.out + walk.offset(0);
  bool is_tiny = p.m() <= tiny && p.k() <= tiny && p.n() <= tiny;
  bool fits = std::max({p.m(), p.k(), p.n()}) <= most_int;
  if (is_tiny) multiply_tiny(p, out, a, b);
  else if (p.dtype == Dtype::float32 && fits) multiply_floats<float>(out, a, b);
  else if (p.dtype == Dtype::float64 && fits) multiply_floats<double>(out, a, b);
  else multiply_integers(p, out, a, b);
}

}  // namespace

void run_matmul(const View& a, const View& b, const View& out) {
  Index elements = element_count(out.shape), k = a.shape.back();
  if (elements == 0) return;
  if (k == 0) return void(std::memset(out.data, 0, static_cast<std::size_t>(elements) * stave::size_of(out.dtype)));
  if (k == 1) return multiply_outer(a, b, out);
  Product p = make_product(a, b, out);
  merge_batch_into_rows(p);

  TileWalk batch(p.batch, 3, -1, 1, 1);
  Index work = p.m() * p.n() * p.k();
  // Larger products run one after the other, each on all of BLAS's threads.
  Index grain = work <= single_threaded ? std::max<Index>(1, 8 * cheap_grain / work) : batch.count();
  parallel_for(batch.count(), grain, [&](Index first, Index last) {
    TileWalk walk = batch;
    walk.seek(first);
    for (Index i = first; i < last; ++i, walk.next()) multiply_one(p, walk);
  });
}

}  // namespace stave_cpu
