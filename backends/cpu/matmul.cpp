// Matrix products. BLAS multiplies floats, and the library's own loops multiply tiny matrices and
// integers.
//
// BLAS reads row-major and column-major matrices with any distance between rows or columns,
// so transposed and sliced operands are passed in place. Operands of other layouts are copied
// first. If all entries of a batch have the same matrix b, the batch is computed as one product
// with a taller matrix a. If they have the same matrix a, and matrices b of few columns, they are
// computed as products with several of these side by side.
#include <stave/backends/cpu/matmul.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include <stave/backends/cpu/blas.h>
#include <stave/backends/cpu/complex.h>
#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/elementwise.h>
#include <stave/backends/cpu/panel_products.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>
#include <stave/core/effects/fiber.h>
#include <stave/core/program/native_estimate.h>

namespace stave_cpu {

using stave::ComplexElement;
using stave::Dtype;
using stave::Shape;
using stave::Strides;
using stave::View;
using stave_detail::tiny_rows, stave_detail::tiny_terms;

namespace {

// The largest number of terms of a sum for which the library's own loop is faster than BLAS, which
// first clears the result and copies the operands.
constexpr Index few_terms = 8;
// The least number of multiplications for which a separate task pays. A product with a vector reads
// as many elements from memory.
constexpr Index least_work = Index{1} << 19, least_work_with_vector = cheap_grain;
constexpr Index largest_tile = 1024, smallest_tile = 64;

/// A batched product: the first matrix of each operand, and the batch axes. The operands of these
/// axes are out, a and b, and their steps are in bytes.
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
  Product p{out.dtype,
            static_cast<Index>(stave::size_of(out.dtype)),
            static_cast<char*>(out.data),
            matrix_of(a),
            matrix_of(b),
            {}};
  const Index* strides[] = {out.strides.data(), a.strides.data(), b.strides.data()};
  Index sizes[] = {p.size, p.size, p.size};
  p.batch = merged_axes(out.shape.first(out.shape.size() - 2), strides, sizes);
  return p;
}

/// Merges batch axes into the rows of one taller product. It merges an axis if b is constant along
/// it and if the rows of all its matrices a have one distance.
void merge_batch_into_rows(Product& p) {
  while (!p.batch.empty()) {
    const Axis& axis = p.batch.back();
    bool even = p.m() == 1 || axis.step[1] == p.a.row_step * p.m() * p.size;
    if (axis.step[2] != 0 || !even) return;
    Matrix taller = p.a;
    if (p.m() == 1) taller.row_step = axis.step[1] / p.size;
    taller.rows *= axis.length;
    // The taller matrix would have rows that overlap, or that have a negative distance.
    if (!blas_reads_parts(taller)) return;
    p.a = taller;
    p.batch.pop_back();
  }
}

// ---- tiny products, and integers ----------------------------------------------------------------

/// Multiplies a matrix of at most 64 x 16 by one of at most 16 x 16. Operands whose rows are not
/// dense are copied into buffers.
void multiply_tiny(const Product& p, char* out, Matrix a, Matrix b) {
  alignas(64) char buffers[2][tiny_rows * tiny_terms * 8];
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
  kernels().tiny_matmul[static_cast<int>(p.dtype)](out, a.data, b.data, a.rows, a.columns, b.columns, a.row_step,
                                                   b.row_step);
}

/// Multiplies tiny matrices of complex numbers, as four products of the real and imaginary parts.
/// Native code computes these products too.
template <class T>
void multiply_tiny_complex(ComplexElement<T>* out, const Matrix& a, const Matrix& b) {
  constexpr Index rows_at_once = 16, size = sizeof(ComplexElement<T>);
  alignas(64) T left[2][rows_at_once * tiny_terms], right[2][tiny_terms * tiny_terms];
  alignas(64) T products[4][rows_at_once * tiny_terms];
  const auto split = [](const Matrix& x, T* re, T* im) {
    for (Index r = 0; r < x.rows; ++r)
      for (Index c = 0; c < x.columns; ++c, ++re, ++im) {
        const char* const element = x.data + (r * x.row_step + c * x.column_step) * size;
        *re = reinterpret_cast<const T*>(element)[0];
        *im = reinterpret_cast<const T*>(element)[1];
      }
  };
  split(b, right[0], right[1]);
  const auto multiply = kernels().tiny_matmul[static_cast<int>(sizeof(T) == 4 ? Dtype::float32 : Dtype::float64)];
  for (Index first = 0; first < a.rows; first += rows_at_once) {
    const Index rows = std::min(rows_at_once, a.rows - first);
    split(a.part(first, rows, 0, a.columns, size), left[0], left[1]);
    for (int k = 0; k < 4; ++k)
      multiply(products[k], left[k / 2], right[k % 2], rows, a.columns, b.columns, a.columns, b.columns);
    for (Index i = 0; i < rows * b.columns; ++i)
      *out++ = {products[0][i] - products[3][i], products[1][i] + products[2][i]};
  }
}

/// Computes rows [first, last): out[i, :] += a[i, p] b[p, :], in blocks of columns that stay
/// in the L1 cache.
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

// ---- choosing -----------------------------------------------------------------------------------

/// Multiplies matrices with k = 1, as the elementwise product of a column and a row.
void multiply_outer(const View& a, const View& b, const View& out) {
  std::size_t rank = out.shape.size();
  stave::Shape a_strides(a.strides), b_strides(b.strides);
  a_strides[rank - 1] = 0;
  b_strides[rank - 2] = 0;
  View inputs[] = {{a.data, a.dtype, out.shape, a_strides}, {b.data, b.dtype, out.shape, b_strides}};
  run_elementwise(elementwise_kernel(OpId::multiply, out.dtype), inputs, out, cheap_grain);
}

bool is_tiny(const Product& p) { return p.m() <= tiny_rows && p.k() <= tiny_terms && p.n() <= tiny_terms; }

/// Returns true for a real product of matrices, neither of them a vector, whose sums have few
/// terms.
bool has_few_terms(const Product& p) {
  return p.k() <= few_terms && p.m() > 1 && p.n() > 1 && !stave::is_complex(p.dtype);
}

/// Returns dense copies of all matrices of an operand. Returns null if BLAS can read them in place,
/// or if they are vectors, which multiply_part copies if necessary.
std::unique_ptr<char[]> pack(const Product& p, const Matrix& x, const View& view) {
  if (x.rows == 1 || x.columns == 1 || has_few_terms(p) || blas_reads_parts(x)) return nullptr;
  Index count = element_count(view.shape);
  auto copy = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(count * p.size));
  Strides dense = stave::contiguous_strides(Shape(view.shape));
  copy_strided({copy.get(), dense}, {static_cast<char*>(view.data), view.strides}, view.shape, p.size);
  return copy;
}

/// Copies the matrix into `copy`, and returns the dense copy.
Matrix dense(const Matrix& x, Index size, std::unique_ptr<char[]>& copy) {
  copy = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(x.rows * x.columns * size));
  copy_tile(copy.get(), x.columns * size, size, x.data, x.row_step * size, x.column_step * size, x.rows, x.columns,
            size);
  return {copy.get(), x.rows, x.columns, x.columns, 1};
}

/// Computes a tile of a product whose sums have few terms.
void multiply_few_terms(const Product& p, char* out, const Matrix& a, Matrix b) {
  std::unique_ptr<char[]> copy;
  if (b.column_step != 1) b = dense(b, p.size, copy);
  kernels().few_terms_matmul[static_cast<int>(p.dtype)](out, a.data, b.data, a.rows, a.columns, b.columns, p.n(),
                                                        a.row_step, a.column_step, b.row_step);
}

/// Computes out = a b in one call of BLAS; the sums are short enough to need no pieces.
template <class T>
void multiply_part(T* out, Index out_step, Matrix a, Matrix b) {
  std::unique_ptr<char[]> copies[2];
  // To multiply two vectors, BLAS computes a dot product if the left one is dense. Otherwise it
  // would read the left one as a matrix with many columns, and add the terms one by one. So a dense
  // copy is made.
  bool scattered_row = a.rows == 1 && b.columns == 1 && a.columns > 1 && a.column_step != 1;
  if (scattered_row || !blas_reads(a)) a = dense(a, sizeof(T), copies[0]);
  if (!blas_reads(b)) b = dense(b, sizeof(T), copies[1]);
  multiply_floats(out, out_step, a, b);
}

template <class T>
struct SumOf {
  using Type = double;
};
template <class T>
struct SumOf<ComplexElement<T>> {
  using Type = ComplexElement<double>;
};

/// Returns true if out = a b is the product of dense rows (or columns) with a dense vector, which
/// the library's own loop computes.
template <class T>
bool is_vector_product(const Matrix& a, const Matrix& b) {
  constexpr bool is_real = std::is_same_v<T, float> || std::is_same_v<T, double>;
  return is_real && (a.rows == 1) != (b.columns == 1) && a.column_step == 1 && b.row_step == 1;
}
template <class T>
void multiply_by_vector(T* out, Index out_step, Matrix a, Matrix b) {
  const auto multiply = kernels().multiply_vector[static_cast<int>(sizeof(T) == 4 ? Dtype::float32 : Dtype::float64)];
  if (b.columns == 1) multiply(out, out_step, a.data, a.row_step, b.data, a.rows, a.columns);
  else multiply(out, 1, b.data, b.column_step, a.data, b.columns, a.columns);
}

/// Computes out = a b. Long sums are computed in pieces, which are added in double, so that sums of
/// any length are accurate, for any layout of the operands.
template <class T>
void multiply_pieces(T* out, Index out_step, const Matrix& a, const Matrix& b) {
  constexpr Index most_int = std::numeric_limits<int>::max();
  // The number of terms of a piece. In a product with a vector, BLAS adds the terms one by one, and
  // otherwise in groups of some hundred, with smaller rounding errors. The library's own loop has a
  // sum for each lane of a vector.
  const bool by_vector = is_vector_product<T>(a, b);
  const Index longest = by_vector                       ? 256 * kernels().vector_bytes / Index{sizeof(T)}
                        : a.rows == 1 || b.columns == 1 ? 1024
                                                        : 4096;
  const auto multiply = by_vector ? multiply_by_vector<T> : multiply_part<T>;
  if (a.columns <= longest && (by_vector || out_step <= most_int)) return multiply(out, out_step, a, b);
  auto count = static_cast<std::size_t>(a.rows * b.columns);
  using Sum = typename SumOf<T>::Type;
  auto sums = std::make_unique<Sum[]>(count);
  auto piece = std::make_unique_for_overwrite<T[]>(count);
  for (Index first = 0; first < a.columns; first += longest) {
    Index length = std::min(longest, a.columns - first);
    multiply(piece.get(), b.columns, a.part(0, a.rows, first, length, sizeof(T)),
             b.part(first, length, 0, b.columns, sizeof(T)));
    for (std::size_t i = 0; i < count; ++i) sums[i] = sums[i] + static_cast<Sum>(piece[i]);
  }
  for (Index row = 0; row < a.rows; ++row)
    for (Index column = 0; column < b.columns; ++column)
      out[row * out_step + column] = static_cast<T>(sums[static_cast<std::size_t>(row * b.columns + column)]);
}

/// Returns the library's kernel for a product that would be slower by BLAS: some versions of
/// OpenBLAS do not know processors that are newer than they are, and use kernels for AVX2 there.
const PanelProduct* kernel_before_blas(const Product& p) {
  constexpr Index least_rows = 32, least_columns = 64;
  if (blas_knows_processor() || std::min(p.m(), p.k()) < least_rows || p.n() < least_columns) return nullptr;
  return p.dtype == Dtype::float32   ? panel_product<float>()
         : p.dtype == Dtype::float64 ? panel_product<double>()
                                     : nullptr;
}

/// A batch of products of floats. Each product is divided into tiles, which all threads share.
/// The sums of a tile run over all of k, so the division into tiles does not change the order of
/// summation.
class FloatProducts {
 public:
  // BLAS packs its operands, and fewer and squarer tiles need less packing. So tiles are divided
  // only until they can be shared evenly among the threads, or until there are so many that an
  // uneven share does not matter.
  FloatProducts(const Product& p, const MatmulSettings& settings)
      : p_(p), settings_(settings), batch_(p.batch, 3, -1, 1, 1), rows_(std::min(largest_tile, p.m())),
        columns_(std::min(largest_tile, p.n())), has_few_terms_(has_few_terms(p)) {
    if (settings.packed) kernel_ = &kernels().panel_product[static_cast<int>(p.dtype)];
    else if (!has_few_terms_) kernel_ = kernel_before_blas(p);
    const Index threads = thread_count(), unit = kernel_ ? kernel_->columns : 1;
    if (has_vector()) {
      Index& longer = rows_ >= columns_ ? rows_ : columns_;
      const Index share = (std::max(p.m(), p.n()) + threads - 1) / threads;
      longer = std::min(longer, (share + smallest_tile - 1) / smallest_tile * smallest_tile);
    }
    while (std::max(rows_, columns_) > smallest_tile && tiles() < 4 * threads && tiles() % threads != 0) {
      if (rows_ >= columns_) rows_ = (rows_ + 1) / 2;
      else columns_ = ((columns_ + 1) / 2 + unit - 1) / unit * unit;
    }
  }
  void run() const {
    Index each = tiles_down() * tiles_across(), work = rows_ * columns_ * p_.k();
    const Index least = has_vector() ? least_work_with_vector : least_work;
    auto multiply_tiles = [&](Index first, Index last) {
      TileWalk walk = batch_;
      walk.seek(first / each);
      for (Index t = first; t < last; ++t) {
        multiply_tile(walk, t % each);
        if ((t + 1) % each == 0) walk.next();
      }
    };
    SingleThreadedBlas guard;
    stave_detail::on_thread_stack([&] {  // BLAS may need more stack than a fiber has.
      parallel_for(batch_.count() * each, std::max<Index>(1, least / work), multiply_tiles);
    });
  }

 private:
  bool has_vector() const { return p_.m() == 1 || p_.n() == 1; }
  Index tiles_down() const { return (p_.m() + rows_ - 1) / rows_; }
  Index tiles_across() const { return (p_.n() + columns_ - 1) / columns_; }
  Index tiles() const { return batch_.count() * tiles_down() * tiles_across(); }
  void multiply_tile(const TileWalk& walk, Index tile) const {
    Index row = tile / tiles_across() * rows_, column = tile % tiles_across() * columns_;
    Matrix a = p_.a, b = p_.b;
    a.data += walk.offset(1);
    b.data += walk.offset(2);
    a = a.part(row, std::min(rows_, p_.m() - row), 0, p_.k(), p_.size);
    b = b.part(0, p_.k(), column, std::min(columns_, p_.n() - column), p_.size);
    const Index first = walk.offset(0) / p_.size + row * p_.n() + column;
    char* const out = p_.out + first * p_.size;
    if (kernel_) {
      if (p_.dtype == Dtype::float32) return multiply_panels(reinterpret_cast<float*>(out), a, b, column, first);
      return multiply_panels(reinterpret_cast<double*>(out), a, b, column, first);
    }
    if (has_few_terms_) multiply_few_terms(p_, out, a, b);
    else if (p_.dtype == Dtype::float32) multiply_pieces(reinterpret_cast<float*>(out), p_.n(), a, b);
    else if (p_.dtype == Dtype::float64) multiply_pieces(reinterpret_cast<double*>(out), p_.n(), a, b);
    else if (p_.dtype == Dtype::complex64) multiply_pieces(reinterpret_cast<ComplexElement<float>*>(out), p_.n(), a, b);
    else multiply_pieces(reinterpret_cast<ComplexElement<double>*>(out), p_.n(), a, b);
    if (settings_.finished) (*settings_.finished)(first, a.rows, p_.n(), b.columns);
  }
  template <class T>
  void multiply_panels(T* out, const Matrix& a, const Matrix& b, Index column, Index first) const {
    const PanelProducts<T> products(*kernel_, p_.m());
    const PackedMatrix* const packed = settings_.packed;
    typename PanelProducts<T>::Packed from{};
    if (packed) from = {static_cast<const T*>(packed->data()), packed->columns(), column};
    products.multiply(out, p_.n(), a, b, from, settings_.finished, first);
  }

  const Product& p_;
  const MatmulSettings& settings_;
  TileWalk batch_;
  Index rows_, columns_;                  // the size of a tile
  bool has_few_terms_;                    // of the product: all tiles add in the same order
  const PanelProduct* kernel_ = nullptr;  // null: BLAS
};

// ---- narrow right matrices ----------------------------------------------------------------------

/// Returns true for products of one matrix a with many matrices b of few columns, such as those of
/// vmap if only the right factor has lanes, that are faster as products with several matrices b
/// side by side. The measure is the benchmark narrow_products.
bool is_narrow(const Product& p) {
  if (!is_float(p.dtype) || p.batch.empty() || p.m() == 1) return false;
  const Axis& matrices = p.batch.back();
  if (matrices.step[1] != 0 || matrices.step[2] == 0 || matrices.length < 8) return false;
  const Index bytes = p.n() * p.size;
  if (p.n() == 1) return is_tiny(p);
  if (bytes <= 16) return true;
  if (bytes <= 32) return matrices.length >= 16 && p.k() <= 16 * p.m() && p.m() <= 8 * p.k();
  return bytes <= 64 && std::min(p.m(), p.k()) >= 64;
}

/// Computes the products of is_narrow. The matrices b of a group are copied side by side, and the
/// columns of their product with some rows of a are copied to their places.
template <class T>
class NarrowProducts {
 public:
  explicit NarrowProducts(const Product& p)
      : p_(p), matrices_(p.batch.back()), each_(std::min(matrices_.length, (is_tiny(p) ? 256 : 64) / p.n())),
        groups_((matrices_.length + each_ - 1) / each_), rows_(p.m()) {
    Axes outer = p.batch;
    outer.pop_back();
    batch_.emplace(outer, 3, -1, 1, 1);
    const Index threads = thread_count();
    const auto tiles = [&] { return batch_->count() * groups_ * tiles_down(); };
    while (rows_ > smallest_tile && tiles() < 4 * threads && tiles() % threads != 0) rows_ = (rows_ + 1) / 2;
  }
  void run() const {
    if (adds_in_order_) return multiply_all();
    SingleThreadedBlas guard;
    stave_detail::on_thread_stack([&] { multiply_all(); });
  }

 private:
  Index tiles_down() const { return (p_.m() + rows_ - 1) / rows_; }
  void multiply_all() const {
    const Index each = groups_ * tiles_down(), columns = each_ * p_.n();
    parallel_for(batch_->count() * each, std::max<Index>(1, least_work / (rows_ * p_.k() * columns)),
                 [&](Index first, Index last) {
                   const auto memory =
                       std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>((p_.k() + rows_) * columns));
                   TileWalk walk = *batch_;
                   walk.seek(first / each);
                   for (Index t = first; t < last; ++t) {
                     multiply_tile(walk, t % each, memory.get());
                     if ((t + 1) % each == 0) walk.next();
                   }
                 });
  }
  /// Computes some rows of the products of one group.
  void multiply_tile(const TileWalk& walk, Index tile, T* memory) const {
    const Index row = tile % tiles_down() * rows_, first = tile / tiles_down() * each_, n = p_.n();
    const Index rows = std::min(rows_, p_.m() - row), count = std::min(each_, matrices_.length - first);
    const Index columns = count * n;
    T* const products = memory + p_.k() * columns;
    const char* from = p_.b.data + walk.offset(2) + first * matrices_.step[2];
    for (Index i = 0; i < count; ++i, from += matrices_.step[2])
      copy(memory + i * n, columns, reinterpret_cast<const T*>(from), p_.b.row_step, p_.b.column_step, p_.k());
    Matrix a = p_.a;
    a.data += walk.offset(1);
    a = a.part(row, rows, 0, p_.k(), p_.size);
    const Matrix b{reinterpret_cast<const char*>(memory), p_.k(), columns, columns, 1};
    if (adds_in_order_)
      kernels().few_terms_matmul[static_cast<int>(p_.dtype)](products, a.data, b.data, rows, p_.k(), columns, columns,
                                                             a.row_step, a.column_step, columns);
    else multiply_pieces(products, columns, a, b);
    char* to = p_.out + walk.offset(0) + first * matrices_.step[0] + row * n * p_.size;
    for (Index i = 0; i < count; ++i, to += matrices_.step[0])
      copy(reinterpret_cast<T*>(to), n, products + i * n, columns, 1, rows);
  }
  /// Copies rows of n elements.
  void copy(T* to, Index to_row, const T* from, Index from_row, Index from_column, Index rows) const {
    for (Index i = 0; i < rows; ++i, to += to_row, from += from_row)
      for (Index j = 0; j < p_.n(); ++j) to[j] = from[j * from_column];
  }

  const Product& p_;
  const Axis matrices_;
  std::optional<TileWalk> batch_;  // the other axes of the batch
  const Index each_, groups_;      // the matrices of a group, and the number of groups
  Index rows_;                     // the number of rows of a tile
  // Tiny products and those of few terms add their terms in order, alone as well as side by side.
  const bool adds_in_order_ = is_tiny(p_) || has_few_terms(p_);
};

void multiply_others(const Product& p) {
  TileWalk batch(p.batch, 3, -1, 1, 1);
  parallel_for(batch.count(), std::max<Index>(1, least_work / (p.m() * p.n() * p.k())), [&](Index first, Index last) {
    TileWalk walk = batch;
    walk.seek(first);
    for (Index i = first; i < last; ++i, walk.next()) {
      Matrix a = p.a, b = p.b;
      a.data += walk.offset(1);
      b.data += walk.offset(2);
      char* const out = p.out + walk.offset(0);
      if (p.dtype == Dtype::complex64) multiply_tiny_complex(reinterpret_cast<ComplexElement<float>*>(out), a, b);
      else if (p.dtype == Dtype::complex128)
        multiply_tiny_complex(reinterpret_cast<ComplexElement<double>*>(out), a, b);
      else if (is_tiny(p)) multiply_tiny(p, out, a, b);
      else multiply_integers(p, out, a, b);
    }
  });
}

}  // namespace

std::shared_ptr<const PackedMatrix> packed_right_matrix(const View& a, const View& b, const View& out) {
  if ((b.dtype != Dtype::float32 && b.dtype != Dtype::float64) || element_count(out.shape) == 0) return nullptr;
  const PanelProduct& kernel = kernels().panel_product[static_cast<int>(b.dtype)];
  const Product p = make_product(a, b, out);
  const auto is_one_matrix = [&] {
    return std::all_of(p.batch.begin(), p.batch.end(), [](const Axis& axis) { return axis.step[2] == 0; });
  };
  if (kernel.rows == 0 || p.k() <= few_terms || p.n() < kernel.columns || is_narrow(p) || is_tiny(p) ||
      !is_one_matrix())
    return nullptr;
  const auto pack = [&]<class T>(T) {
    const PanelProducts<T> products(kernel, p.m());
    const Index columns = products.padded(p.n());
    const auto bytes = static_cast<std::size_t>(p.k() * columns) * sizeof(T);
    Scratch<char> data = scratch<char>(bytes);
    products.pack(reinterpret_cast<T*>(data.get()), p.b);
    return std::make_shared<const PackedMatrix>(std::move(data), bytes, columns);
  };
  return p.dtype == Dtype::float32 ? pack(0.0f) : pack(0.0);
}

bool run_matmul(const View& a, const View& b, const View& out, const MatmulSettings& settings) {
  const Index elements = element_count(out.shape), k = a.shape.back();
  if (elements == 0) return true;
  if (k == 0) {
    std::memset(out.data, 0, static_cast<std::size_t>(elements) * stave::size_of(out.dtype));
    return false;
  }
  if (k == 1) {
    multiply_outer(a, b, out);
    return false;
  }
  Product p = make_product(a, b, out);
  if (is_narrow(p)) {
    if (p.dtype == Dtype::float32) NarrowProducts<float>(p).run();
    else NarrowProducts<double>(p).run();
    return false;
  }
  if (!is_inexact(p.dtype) || is_tiny(p)) {
    if (!is_tiny(p)) merge_batch_into_rows(p);
    multiply_others(p);
    return false;
  }
  if (auto copy = pack(p, p.a, a)) {
    Strides dense = stave::contiguous_strides(Shape(a.shape));
    return run_matmul({copy.get(), a.dtype, a.shape, dense}, b, out, settings);
  }
  if (!settings.packed)
    if (auto copy = pack(p, p.b, b)) {
      Strides dense = stave::contiguous_strides(Shape(b.shape));
      return run_matmul(a, {copy.get(), b.dtype, b.shape, dense}, out, settings);
    }
  merge_batch_into_rows(p);
  FloatProducts(p, settings).run();
  return settings.finished != nullptr;
}

}  // namespace stave_cpu
