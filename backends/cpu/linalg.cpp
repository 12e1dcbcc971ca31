// Linear algebra on the CPU. LAPACK reads a row-major matrix as its transpose. If the result can be
// computed from the transpose as well (cholesky, det, eigh, svd), nothing is transposed. LAPACK
// computes complex matrices of every size. A matrix with NaN or infinity is not passed to iterative
// functions, because they might not end; its results are NaN.
#include <stave/backends/cpu/linalg.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include <cblas.h>

#include <stave/backends/attributes.h>
#include <stave/backends/cpu/expm.h>
#include <stave/backends/cpu/lapack.h>
#include <stave/backends/cpu/linalg_general.h>
#include <stave/backends/cpu/linalg_orthogonal.h>
#include <stave/backends/cpu/linalg_stack.h>
#include <stave/backends/cpu/matmul.h>

namespace stave_cpu {

using stave::OpId;
using stave_detail::as;

namespace {

constexpr const char* singular = "is singular";

// ---- cholesky -----------------------------------------------------------------------------------

/// Replaces a by its Cholesky factor l. Returns false if a is not positive definite.
/// LAPACK reads the row-major l as the column-major upper factor l^T. It factors conj(a) = u^H u,
/// where u is l^T.
template <class T>
bool factor_cholesky(T* a, Index n) {
  if constexpr (is_real<T>)
    if (n <= small) return small_linalg<T>().cholesky(a, n);
  if (n > 0 && potrf('U', to_int(n, "cholesky"), a, static_cast<lapack_int>(n)) != 0) return false;
  for (Index r = 0; r < n; ++r) std::fill(a + r * n + r + 1, a + (r + 1) * n, T(0));
  return true;
}

enum class Factored { whole, indefinite, not_finite };

template <class T>
Factored cholesky_of(const Stack<const T>& a, Index i, T* l) {
  if (!load_hermitian(a, i, l)) return Factored::not_finite;
  return factor_cholesky(l, a.rows) ? Factored::whole : Factored::indefinite;
}

/// Computes the Cholesky factor of matrix i for a size n that the compiler knows.
/// For such small matrices, loops and calls would cost more than the arithmetic.
template <std::floating_point T, Index n>
Factored cholesky_of(const Stack<const T>& a, Index i, T* out) {
  const T* const x = a[i];
  T l[n][n] = {}, zero = 0;
  for (Index r = 0; r < n; ++r)
    for (Index c = 0; c <= r; ++c) {
      l[r][c] = T(0.5) * x[r * a.row_step + c * a.column_step] + T(0.5) * x[c * a.row_step + r * a.column_step];
      zero += l[r][c] * 0;
    }
  if (zero != 0) return Factored::not_finite;
  for (Index j = 0; j < n; ++j) {
    for (Index k = 0; k < j; ++k) l[j][j] -= l[j][k] * l[j][k];
    if (!(l[j][j] > 0)) return Factored::indefinite;
    l[j][j] = std::sqrt(l[j][j]);
    const T inverse = 1 / l[j][j];
    for (Index r = j + 1; r < n; ++r) {
      for (Index k = 0; k < j; ++k) l[r][j] -= l[r][k] * l[j][k];
      l[r][j] *= inverse;
    }
  }
  std::copy_n(&l[0][0], n * n, out);
  return Factored::whole;
}

template <class T>
auto cholesky_for(Index n) -> Factored (*)(const Stack<const T>&, Index, T*) {
  if constexpr (is_real<T>) {
    if (n == 2) return cholesky_of<T, 2>;
    if (n == 3) return cholesky_of<T, 3>;
    if (n == 4) return cholesky_of<T, 4>;
  }
  return cholesky_of<T>;
}

template <class T>
void run_cholesky(bool nan_if_indefinite, const View& in, const View& out) {
  const Stack<const T> a(in);
  const Index n = a.rows;
  Failure failure;
  const auto factor = cholesky_for<T>(n);
  over_stack(a.count(), n * n * n / 3, n, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      T* const l = static_cast<T*>(out.data) + i * n * n;
      const Factored result = factor(a, i, l);
      if (result == Factored::whole) continue;
      if (result == Factored::indefinite && !nan_if_indefinite) failure.at(i);
      fill_nan(l, n * n);
    }
  });
  failure.check("cholesky", a.shape(), "is not positive definite");
}

// ---- lu -----------------------------------------------------------------------------------------

/// Computes the packed factors of matrix i, row-major, and the row exchanges.
template <class T>
void factor_lu(const Stack<const T>& a, Index i, T* packed, std::int32_t* exchanges) {
  const Index m = a.rows, n = a.columns;
  if constexpr (is_real<T>)
    if (m <= small && n <= small) {
      copy_matrix(a, i, packed, n, 1);
      return small_linalg<T>().lu(packed, m, n, exchanges);
    }
  if (m == 0 || n == 0) return;
  const auto by_columns = room<T>(m * n);
  copy_matrix(a, i, by_columns.get(), 1, m);
  getrf(to_int(m, "lu"), to_int(n, "lu"), by_columns.get(), static_cast<lapack_int>(m), exchanges);
  for (Index k = 0; k < std::min(m, n); ++k) --exchanges[k];
  const Index shape[] = {m, n}, from[] = {1, m}, to[] = {n, 1};
  copy_strided({reinterpret_cast<char*>(packed), to}, {reinterpret_cast<char*>(by_columns.get()), from}, shape,
               sizeof(T));
}

template <class T>
void run_lu(const View& in, std::span<const View> out) {
  const Stack<const T> a(in);
  const Index m = a.rows, n = a.columns, k = std::min(m, n);
  over_stack(a.count(), k * m * n, std::max(m, n), [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      T* const packed = static_cast<T*>(out[0].data) + i * m * n;
      auto* const exchanges = static_cast<std::int32_t*>(out[1].data) + i * k;
      auto* const order = static_cast<std::int32_t*>(out[2].data) + i * m;
      factor_lu(a, i, packed, exchanges);
      // The factors are not finite if the matrix was not finite, or if an element overflowed.
      if (!all_finite(packed, m * n)) {
        fill_nan(packed, m * n);
        for (Index r = 0; r < k; ++r) exchanges[r] = static_cast<std::int32_t>(r);
      }
      for (Index r = 0; r < m; ++r) order[r] = static_cast<std::int32_t>(r);
      for (Index r = 0; r < k; ++r) std::swap(order[r], order[exchanges[r]]);
    }
  });
}

// ---- determinants -------------------------------------------------------------------------------

// Write x as mantissa * 2^by, and multiply by a power of two.
double mantissa_of(double x, int* by) { return std::frexp(x, by); }
std::complex<double> mantissa_of(std::complex<double> x, int* by) {
  std::frexp(std::max(std::abs(x.real()), std::abs(x.imag())), by);
  return {std::ldexp(x.real(), -*by), std::ldexp(x.imag(), -*by)};
}
double times_power(double x, int exponent) { return std::ldexp(x, exponent); }
std::complex<double> times_power(std::complex<double> x, int exponent) {
  return {std::ldexp(x.real(), exponent), std::ldexp(x.imag(), exponent)};
}

/// A determinant as mantissa * 2^exponent, so that no intermediate product overflows.
/// Number is double or std::complex<double>.
template <class Number>
struct Determinant {
  Number mantissa = 1;
  Index exponent = 0;

  void multiply(Number factor) {
    int by = 0;
    mantissa = mantissa_of(mantissa * factor, &by);
    exponent += by;
  }
  Number value() const { return times_power(mantissa, static_cast<int>(std::clamp<Index>(exponent, -10000, 10000))); }
  Number sign() const {
    if constexpr (is_real<Number>)
      return std::isnan(mantissa) ? mantissa : static_cast<double>((mantissa > 0) - (mantissa < 0));
    else return mantissa == 0. ? mantissa : mantissa / std::abs(mantissa);
  }
  // Calls the kernel of log, so that the result is, bit for bit, that of native code (native/).
  double logarithm() const {
    const double size = std::abs(mantissa);
    const void* const in[] = {&size};
    double log;
    kernels().elementwise[OpId::log][static_cast<int>(Dtype::float64)](&log, in, 1);
    return log + static_cast<double>(exponent) * std::numbers::ln2;
  }
};

template <class T>
using Wide = std::conditional_t<is_real<T>, double, std::complex<double>>;

template <class T>
Determinant<Wide<T>> determinant(const Stack<const T>& a, Index i, T* buffer, std::int32_t* exchanges) {
  const Index n = a.rows;
  copy_matrix(a, i, buffer, n, 1);
  Determinant<Wide<T>> det;
  if (!all_finite(buffer, n * n)) {
    det.mantissa = not_a_number<Wide<T>>;
    return det;
  }
  if (const bool without_lapack = is_real<T> && n <= small) {
    if constexpr (is_real<T>) small_linalg<T>().lu(buffer, n, n, exchanges);
  } else if (n > 0) {
    // LAPACK factors the transpose, which has the same determinant.
    getrf(to_int(n, "det"), to_int(n, "det"), buffer, static_cast<lapack_int>(n), exchanges);
    for (Index k = 0; k < n; ++k) --exchanges[k];
  }
  for (Index k = 0; k < n; ++k) {
    const auto pivot = static_cast<Wide<T>>(buffer[k * (n + 1)]);
    det.multiply(exchanges[k] == k ? pivot : -pivot);
  }
  return det;
}

/// Returns the determinant of a matrix of up to 3 x 3, computed in double. Returns NaN if the
/// determinant is 0 or tiny. The result is not finite if a product overflows.
template <std::floating_point T>
double tiny_determinant(const T* a, Index n) {
  const auto at = [&](Index r, Index c) { return static_cast<double>(a[r * n + c]); };
  const auto minor = [&](Index c, Index d) { return at(1, c) * at(2, d) - at(1, d) * at(2, c); };
  const double det = n == 1   ? at(0, 0)
                     : n == 2 ? at(0, 0) * at(1, 1) - at(0, 1) * at(1, 0)
                              : at(0, 0) * minor(1, 2) - at(0, 1) * minor(0, 2) + at(0, 2) * minor(0, 1);
  // Products that lose digits by underflow are far smaller than this bound.
  constexpr double least = 0x1p-900;
  return std::abs(det) > least ? det : not_a_number<double>;
}

template <class T>
void run_determinant(const View& in, std::span<const View> out) {
  const Stack<const T> a(in);
  const Index n = a.rows;
  over_stack(a.count(), n * n * n / 3, n, [&](Index first, Index last) {
    const auto buffer = room<T>(n * n);
    const auto exchanges = room<std::int32_t>(n);
    for (Index i = first; i < last; ++i) {
      if constexpr (is_real<T>)
        if (out.size() == 1 && n > 0 && n <= 3) {
          copy_matrix(a, i, buffer.get(), n, 1);
          const double det = tiny_determinant(buffer.get(), n);
          if (std::isfinite(det)) {
            static_cast<T*>(out[0].data)[i] = static_cast<T>(det);
            continue;
          }
        }
      const auto det = determinant(a, i, buffer.get(), exchanges.get());
      T* const result = static_cast<T*>(out[0].data) + i;
      if (out.size() == 1) {
        *result = static_cast<T>(det.value());
        continue;
      }
      *result = static_cast<T>(det.sign());
      static_cast<RealOf<T>*>(out[1].data)[i] = static_cast<RealOf<T>>(det.logarithm());
    }
  });
}

// ---- triangles ----------------------------------------------------------------------------------

void trsm(CBLAS_UPLO uplo, CBLAS_TRANSPOSE transpose, CBLAS_DIAG diag, int n, int k, const float* t, int step,
          float* b) {
  if (k == 1) return cblas_strsv(CblasRowMajor, uplo, transpose, diag, n, t, step, b, 1);
  cblas_strsm(CblasRowMajor, CblasLeft, uplo, transpose, diag, n, k, 1, t, step, b, k);
}
void trsm(CBLAS_UPLO uplo, CBLAS_TRANSPOSE transpose, CBLAS_DIAG diag, int n, int k, const double* t, int step,
          double* b) {
  if (k == 1) return cblas_dtrsv(CblasRowMajor, uplo, transpose, diag, n, t, step, b, 1);
  cblas_dtrsm(CblasRowMajor, CblasLeft, uplo, transpose, diag, n, k, 1, t, step, b, k);
}

template <class R>
void trsm(CBLAS_UPLO uplo, CBLAS_TRANSPOSE transpose, CBLAS_DIAG diag, int n, int k, const std::complex<R>* t, int step,
          std::complex<R>* b) {
  constexpr std::complex<R> one = 1;
  if constexpr (sizeof(R) == 4) cblas_ctrsm(CblasRowMajor, CblasLeft, uplo, transpose, diag, n, k, &one, t, step, b, k);
  else cblas_ztrsm(CblasRowMajor, CblasLeft, uplo, transpose, diag, n, k, &one, t, step, b, k);
}

/// A triangle t of a dense matrix, which is lower or upper, and may be transposed. If `unit`, its
/// diagonal is 1 and not stored.
template <class T>
struct Triangle {
  const T* data;
  Index n;
  bool lower, transpose, unit;

  /// Computes b [n, k] = t^-1 b.
  void solve(T* b, Index k) const {
    if (n == 0 || k == 0) return;
    if constexpr (is_real<T>)
      if (n <= small)
        return small_linalg<T>().triangular_solve(data, transpose ? 1 : n, transpose ? n : 1, lower != transpose, unit,
                                                  n, b, k);
    trsm(lower ? CblasLower : CblasUpper, transpose ? CblasTrans : CblasNoTrans, unit ? CblasUnit : CblasNonUnit,
         to_int(n, "solve"), to_int(k, "solve"), data, static_cast<int>(n), b);
  }
  bool singular() const {
    if (unit) return false;
    for (Index i = 0; i < n; ++i)
      if (data[i * (n + 1)] == T(0)) return true;
    return false;
  }
};

template <class T>
void run_triangular_solve(const stave::TriangularAttributes& of, const View& matrices, const View& sides,
                          const View& out) {
  Stack<const T> a(matrices);
  const Stack<const T> b(sides);
  const Index n = a.rows, k = b.columns;
  // A column-major matrix is read as its transpose, which is row-major.
  const bool by_columns = !a.dense() && a.row_step == 1 && a.column_step == n;
  if (by_columns) std::swap(a.row_step, a.column_step);
  Failure failure;
  over_stack(b.count(), n * n * k, n, [&](Index first, Index last) {
    std::unique_ptr<T[]> buffer;
    for (Index i = first; i < last; ++i) {
      const Triangle<T> triangle{dense_matrix(a, i, buffer), n, of.lower != by_columns, of.transpose != by_columns,
                                 of.unit};
      if (triangle.singular()) {
        failure.at(i);
        continue;
      }
      T* const x = static_cast<T*>(out.data) + i * n * k;
      copy_matrix(b, i, x, k, 1);
      triangle.solve(x, k);
    }
  });
  failure.check("triangular_solve", b.shape(), "is singular: its diagonal has a 0");
}

// ---- solve --------------------------------------------------------------------------------------

/// Solves a x = b or, if `transpose`, a^T x = b, given the factors a[order] = l u. The solution
/// of a x = b is x = u^-1 l^-1 b[order]. The solution of a^T x = b is x[order] = l^-T u^-T b.
template <class T>
void run_solve(bool transpose, std::span<const View> in, const View& out) {
  const Stack<const T> b(in[1]), packed(in[2]);
  const Stack<const std::int32_t> orders(in[3], 1);
  const Index n = b.rows, k = b.columns;
  Failure failure;
  over_stack(b.count(), n * n * k, n, [&](Index first, Index last) {
    std::unique_ptr<T[]> buffer, turned;
    if (transpose) turned = room<T>(n * k);
    for (Index i = first; i < last; ++i) {
      const T* const factors = dense_matrix(packed, i, buffer);
      const Triangle<T> l{factors, n, true, transpose, true}, u{factors, n, false, transpose, false};
      if (u.singular()) {
        failure.at(i);
        continue;
      }
      const T* const sides = b[i];
      const std::int32_t* const order = orders[i];
      T* const x = static_cast<T*>(out.data) + i * n * k;
      if (!transpose) {
        for (Index r = 0; r < n; ++r) {
          const T* const row = sides + order[r * orders.column_step] * b.row_step;
          for (Index c = 0; c < k; ++c) x[r * k + c] = row[c * b.column_step];
        }
        l.solve(x, k);
        u.solve(x, k);
        continue;
      }
      copy_matrix(b, i, turned.get(), k, 1);
      u.solve(turned.get(), k);
      l.solve(turned.get(), k);
      for (Index r = 0; r < n; ++r) std::copy_n(turned.get() + r * k, k, x + order[r * orders.column_step] * k);
    }
  });
  failure.check("solve", b.shape(), singular);
}

/// The conjugate transposes of a stack of matrices. Real matrices are not copied.
template <class T>
struct Adjoint {
  Shape shape;
  stave::Strides strides;
  std::unique_ptr<T[]> conjugates;
  View view;

  explicit Adjoint(const View& of) : shape(of.shape), strides(of.strides), view{of.data, of.dtype, {}, {}} {
    if constexpr (!is_real<T>) {
      const Stack<const T> matrices(of);
      const Index size = matrices.rows * matrices.columns;
      conjugates = room<T>(element_count(of.shape));
      for (Index i = 0; i < matrices.count(); ++i)
        copy_matrix(matrices, i, conjugates.get() + i * size, matrices.columns, 1);
      conjugate_all(conjugates.get(), element_count(of.shape));
      strides = stave::contiguous_strides(shape);
      view.data = conjugates.get();
    }
    std::swap(shape.back(), shape[shape.size() - 2]);
    std::swap(strides.back(), strides[strides.size() - 2]);
    view.shape = shape;
    view.strides = strides;
  }
  Adjoint(const Adjoint&) = delete;
};

/// Computes the least-squares solution x = vh^H diag(inverse) u^H b from the factors of the svd.
template <class T>
void run_lstsq(std::span<const View> in, const View& out) {
  const Stack<const RealOf<T>> inverse(in[3], 1);
  const Index rank = inverse.columns, k = out.shape.back();
  Shape shape(out.shape);
  shape[shape.size() - 2] = rank;
  const auto parts = room<T>(element_count(shape));
  const stave::Strides strides = stave::contiguous_strides(shape);
  const View part{parts.get(), out.dtype, shape, strides};
  run_matmul(Adjoint<T>(in[2]).view, in[1], part);
  for (Index i = 0; i < inverse.count(); ++i)
    for (Index r = 0; r < rank; ++r) scale_by(parts.get() + (i * rank + r) * k, k, inverse[i][r * inverse.column_step]);
  run_matmul(Adjoint<T>(in[4]).view, part, out);
}

/// Sets the factors of matrices without elements to identities: u and vh of matrices without rows
/// or columns, and q of matrices without columns.
template <class T>
void set_identities(const View& out) {
  const Stack<T> x(out);
  for (Index i = 0; i < x.count(); ++i)
    for (Index r = 0; r < x.rows; ++r)
      for (Index c = 0; c < x.columns; ++c) x[i][r * x.row_step + c * x.column_step] = T(r == c);
}

template <class T>
void run(const stave::Op& op, const stave::Attributes* attributes, std::span<const View> in,
         std::span<const View> out) {
  const bool empty = element_count(in[0].shape) == 0;
  if (empty && (op.id == OpId::svd || op.id == OpId::qr)) {
    for (const View& matrices : out)
      if (matrices.shape.size() == in[0].shape.size()) set_identities<T>(matrices);
    return;
  }
  if (empty && (op.id == OpId::eigh || op.id == OpId::eigvalsh)) return;
  switch (op.id) {
    case OpId::cholesky:
      return run_cholesky<T>(as<stave::CholeskyAttributes>(attributes).nan_if_indefinite, in[0], out[0]);
    case OpId::triangular_solve:
      return run_triangular_solve<T>(as<stave::TriangularAttributes>(attributes), in[0], in[1], out[0]);
    case OpId::lu: return run_lu<T>(in[0], out);
    case OpId::solve: return run_solve<T>(as<stave::SolveAttributes>(attributes).transpose, in, out[0]);
    case OpId::det:
    case OpId::slogdet: return run_determinant<T>(in[0], out);
    case OpId::qr: return run_qr<T>(in[0], out);
    case OpId::eigh:
    case OpId::eigvalsh: return run_eigh<T>(op.name, in[0], out);
    case OpId::svd:
    case OpId::svdvals: return run_svd<T>(op.name, in[0], out);
    case OpId::lstsq: return run_lstsq<T>(in, out[0]);
    case OpId::expm: return run_expm(in[0], out[0]);
    default: return run_general(op, attributes, in, out);
  }
}

}  // namespace

void run_linalg(const stave::Op& op, const stave::Attributes* attributes, std::span<const View> in,
                std::span<const View> out) {
  switch (in[0].dtype) {
    case stave::float32: return run<float>(op, attributes, in, out);
    case stave::float64: return run<double>(op, attributes, in, out);
    case stave::complex64: return run<std::complex<float>>(op, attributes, in, out);
    default: return run<std::complex<double>>(op, attributes, in, out);
  }
}

}  // namespace stave_cpu
