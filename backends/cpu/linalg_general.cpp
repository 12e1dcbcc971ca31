// Operations on general matrices, by LAPACK for every size. Buffers are column-major.
//
// Sources: A. Bjorck, S. Hammarling, "A Schur method for the square root of a matrix", 1983;
// N. Higham, "Functions of Matrices", 2008, chapter 11 (logarithms).
#include <stave/backends/cpu/linalg_general.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include <cblas.h>

#include <stave/backends/attributes.h>
#include <stave/backends/cpu/lapack.h>
#include <stave/backends/cpu/linalg_stack.h>

namespace stave_cpu {

using stave::OpId;
using stave_detail::as;

namespace {

constexpr const char* no_eigenvalues = "has eigenvalues that did not converge";

template <class T>
using ComplexOf = std::complex<RealOf<T>>;

/// A column-major matrix with memory of its own.
template <class T>
struct Columns {
  Index rows, columns;
  std::unique_ptr<T[]> data;

  Columns(Index m, Index n) : rows(m), columns(n), data(room<T>(m * n)) {}
  T& operator()(Index r, Index c) { return data[static_cast<std::size_t>(c * rows + r)]; }
  const T& operator()(Index r, Index c) const { return data[static_cast<std::size_t>(c * rows + r)]; }
  T* get() { return data.get(); }
  Index size() const { return rows * columns; }
  void load(const Stack<const T>& from, Index i) { copy_matrix(from, i, get(), 1, rows); }
  /// Writes the matrix to row-major memory.
  void store(T* to) const {
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < columns; ++c) to[r * columns + c] = (*this)(r, c);
  }
};

/// c = a b, where a or b may be replaced by its conjugate transpose.
template <class T>
void multiply(Columns<T>& c, const Columns<T>& a, bool adjoint_a, const Columns<T>& b, bool adjoint_b) {
  const auto m = static_cast<int>(c.rows), n = static_cast<int>(c.columns),
             k = static_cast<int>(adjoint_a ? a.rows : a.columns), lda = static_cast<int>(a.rows),
             ldb = static_cast<int>(b.rows);
  const CBLAS_TRANSPOSE of_a = adjoint_a ? CblasConjTrans : CblasNoTrans,
                        of_b = adjoint_b ? CblasConjTrans : CblasNoTrans;
  constexpr T one = 1, zero = 0;
  const T *const x = a.data.get(), *const y = b.data.get();
  if constexpr (std::is_same_v<T, float>)
    cblas_sgemm(CblasColMajor, of_a, of_b, m, n, k, one, x, lda, y, ldb, zero, c.get(), m);
  else if constexpr (std::is_same_v<T, double>)
    cblas_dgemm(CblasColMajor, of_a, of_b, m, n, k, one, x, lda, y, ldb, zero, c.get(), m);
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    cblas_cgemm(CblasColMajor, of_a, of_b, m, n, k, &one, x, lda, y, ldb, &zero, c.get(), m);
  else cblas_zgemm(CblasColMajor, of_a, of_b, m, n, k, &one, x, lda, y, ldb, &zero, c.get(), m);
}

// ---- eigenvalues --------------------------------------------------------------------------------

/// Computes the eigenvalues of a, which is overwritten, and its eigenvectors if v is not null.
template <class R>
bool find_eigenvalues(Columns<std::complex<R>>& a, std::complex<R>* w, Columns<std::complex<R>>* v) {
  const lapack_int n = to_int(a.rows, "eig");
  const auto reals = room<R>(2 * a.rows);
  return with_work<std::complex<R>>(1, "eig", [&](std::complex<R>* work, lapack_int count) {
           return geev(v ? 'V' : 'N', n, a.get(), w, v ? v->get() : nullptr, work, count, reals.get());
         }) == 0;
}

/// LAPACK writes a pair of conjugate eigenvectors x + iy and x - iy as the columns x and y.
template <std::floating_point R>
bool find_eigenvalues(Columns<R>& a, std::complex<R>* w, Columns<std::complex<R>>* v) {
  const lapack_int n = to_int(a.rows, "eig");
  const auto re = room<R>(a.rows), im = room<R>(a.rows);
  Columns<R> parts(v ? a.rows : 0, a.rows);
  const lapack_int info = with_work<R>(1, "eig", [&](R* work, lapack_int count) {
    return geev(v ? 'V' : 'N', n, a.get(), re.get(), im.get(), v ? parts.get() : nullptr, work, count);
  });
  for (Index j = 0; j < a.rows; ++j) w[j] = {re[static_cast<std::size_t>(j)], im[static_cast<std::size_t>(j)]};
  for (Index j = 0; v && j < a.rows; ++j)
    for (Index r = 0; r < a.rows; ++r) {
      const R imaginary = w[j].imag();
      if (imaginary == 0) (*v)(r, j) = parts(r, j);
      else if (imaginary > 0) (*v)(r, j) = {parts(r, j), parts(r, j + 1)};
      else (*v)(r, j) = {parts(r, j - 1), -parts(r, j)};
    }
  return info == 0;
}

template <class T>
void run_eig(const char* op, const View& in, std::span<const View> out) {
  using C = ComplexOf<T>;
  const Stack<const T> stack(in);
  const Index n = stack.rows;
  const bool vectors = out.size() == 2;
  Failure failure;
  over_stack(stack.count(), 25 * n * n * n, small + n, [&](Index first, Index last) {
    Columns<T> a(n, n);
    Columns<C> v(vectors ? n : 0, n);
    for (Index i = first; i < last; ++i) {
      C* const w = static_cast<C*>(out[0].data) + i * n;
      C* const to = vectors ? static_cast<C*>(out[1].data) + i * n * n : nullptr;
      a.load(stack, i);
      if (!all_finite(a.get(), a.size())) {
        fill_nan(w, n);
        if (vectors) fill_nan(to, n * n);
        continue;
      }
      if (!find_eigenvalues(a, w, vectors ? &v : nullptr)) failure.at(i);
      if (vectors) v.store(to);
    }
  });
  failure.check(op, stack.shape(), no_eigenvalues);
}

// ---- Schur form ---------------------------------------------------------------------------------

/// Replaces a by its Schur form t, and sets z, where a = z t z^H. Returns false if the iteration
/// did not converge.
template <class T>
bool to_schur(Columns<T>& a, Columns<T>& z) {
  const lapack_int n = to_int(a.rows, "schur");
  const auto first = room<RealOf<T>>(a.rows), second = room<RealOf<T>>(a.rows);
  if constexpr (is_real<T>) {
    return with_work<T>(1, "schur", [&](T* work, lapack_int count) {
             return gees(n, a.get(), first.get(), second.get(), z.get(), work, count);
           }) == 0;
  } else {
    const auto w = room<T>(a.rows);
    return with_work<T>(1, "schur", [&](T* work, lapack_int count) {
             return gees(n, a.get(), w.get(), z.get(), work, count, first.get());
           }) == 0;
  }
}

template <class T>
void run_schur(const View& in, std::span<const View> out) {
  const Stack<const T> stack(in);
  const Index n = stack.rows;
  Failure failure;
  over_stack(stack.count(), 25 * n * n * n, small + n, [&](Index first, Index last) {
    Columns<T> a(n, n), z(n, n);
    for (Index i = first; i < last; ++i) {
      T *const t = static_cast<T*>(out[0].data) + i * n * n, *const vectors = static_cast<T*>(out[1].data) + i * n * n;
      a.load(stack, i);
      if (!all_finite(a.get(), a.size())) {
        fill_nan(t, n * n);
        fill_nan(vectors, n * n);
        continue;
      }
      if (!to_schur(a, z)) failure.at(i);
      a.store(t);
      z.store(vectors);
    }
  });
  failure.check("schur", stack.shape(), no_eigenvalues);
}

// ---- functions of triangular matrices -----------------------------------------------------------

/// Replaces the upper triangular t by its principal square root r, given the diagonal of r:
/// r_ij = (t_ij - sum of r_ik r_kj over i < k < j) / (r_ii + r_jj). Returns false if there is none.
template <class C>
bool to_square_root(Columns<C>& t, const std::vector<C>& diagonal) {
  for (Index j = 0; j < t.rows; ++j) {
    t(j, j) = diagonal[static_cast<std::size_t>(j)];
    for (Index i = j; i-- > 0;) {
      C rest = t(i, j);
      for (Index k = i + 1; k < j; ++k) rest -= t(i, k) * t(k, j);
      const C sum = t(i, i) + t(j, j);
      if (sum == C(0) && rest != C(0)) return false;
      t(i, j) = sum == C(0) ? C(0) : rest / sum;
    }
  }
  return true;
}

template <class C>
bool square_root(Columns<C>& t) {
  std::vector<C> roots;
  for (Index j = 0; j < t.rows; ++j) roots.push_back(std::sqrt(t(j, j)));
  return to_square_root(t, roots);
}

/// Returns exp(z) - 1.
template <class R>
std::complex<R> exponential_minus_one(std::complex<R> z) {
  const R half = std::sin(z.imag() / 2);
  return {std::expm1(z.real()) * std::cos(z.imag()) - 2 * half * half, std::exp(z.real()) * std::sin(z.imag())};
}

/// Returns (log b - log a) / (b - a) for numbers other than 0, without cancellation. Higham 2008,
/// (11.28): log b - log a = 2 atanh((b - a) / (b + a)) + 2 pi i u, where u is the integer by which
/// the principal logarithms differ from that.
template <class C>
C divided_logarithm(C a, C b) {
  using R = RealOf<C>;
  if (a == b) return R(1) / a;
  const C difference = std::log(b) - std::log(a);
  if (std::abs(a) < std::abs(b) / 2 || std::abs(b) < std::abs(a) / 2) return difference / (b - a);
  constexpr R pi = std::numbers::pi_v<R>;
  const R unwinding = std::ceil((difference.imag() - pi) / (2 * pi));
  return (R(2) * std::atanh((b - a) / (b + a)) + C(0, 2 * pi * unwinding)) / (b - a);
}

/// Nodes on [0, 1] and weights of Gauss's quadrature with 7 points. The quadrature of
/// log(1 + x) = integral of x / (1 + s x) over s is the [7/7] Pade approximant.
constexpr double gauss_nodes[] = {0.025446043828620737737, 0.12923440720030278007, 0.29707742431130141655, 0.5,
                                  0.70292257568869858345,  0.87076559279969721993, 0.97455395617137926226};
constexpr double gauss_weights[] = {0.064742483084434846635, 0.13985269574463833395, 0.19091502525255947248,
                                    0.20897959183673469388,  0.19091502525255947248, 0.13985269574463833395,
                                    0.064742483084434846635};

/// Adds weight (1 + node x)^-1 x to `sum`, for upper triangular x.
template <class C>
void add_fraction(Columns<C>& sum, const Columns<C>& x, RealOf<C> node, RealOf<C> weight) {
  std::vector<C> column(static_cast<std::size_t>(x.rows));
  for (Index j = 0; j < x.rows; ++j)
    for (Index i = j + 1; i-- > 0;) {
      C rest = x(i, j);
      for (Index k = i + 1; k <= j; ++k) rest -= node * x(i, k) * column[static_cast<std::size_t>(k)];
      column[static_cast<std::size_t>(i)] = rest / (RealOf<C>(1) + node * x(i, i));
      sum(i, j) += weight * column[static_cast<std::size_t>(i)];
    }
}

/// Returns the largest sum of absolute values in a column of the upper triangle.
template <class C>
RealOf<C> norm_of_triangle(const Columns<C>& x) {
  RealOf<C> largest = 0;
  for (Index j = 0; j < x.rows; ++j) {
    RealOf<C> sum = 0;
    for (Index i = 0; i <= j; ++i) sum += std::abs(x(i, j));
    largest = std::max(largest, sum);
  }
  return largest;
}

/// Replaces the upper triangular t by its principal logarithm, by inverse scaling and squaring: log
/// t = 2^k log(t^(1 / 2^k)), where the root is so close to 1 that the approximant is exact up to
/// rounding. t^(1 / 2^k) - 1 has a diagonal without cancellation, and the diagonals of the result
/// are computed without roots. Returns false if t is singular.
template <class C>
bool logarithm(Columns<C>& t) {
  using R = RealOf<C>;
  const Index n = t.rows;
  constexpr R bound = R(0.264);  // Higham 2008, table 11.1, for the [7/7] approximant in double
  std::vector<C> logs;
  for (Index j = 0; j < n; ++j) {
    if (t(j, j) == C(0)) return false;
    logs.push_back(std::log(t(j, j)));
  }
  const Columns<C> original = [&] {
    Columns<C> copy(n, n);
    std::copy_n(t.get(), t.size(), copy.get());
    return copy;
  }();
  Columns<C> x(n, n);
  int roots = 0;
  for (constexpr int most = 100;; ++roots) {
    std::copy_n(t.get(), t.size(), x.get());
    for (Index j = 0; j < n; ++j)
      x(j, j) = exponential_minus_one(logs[static_cast<std::size_t>(j)] * std::ldexp(R(1), -roots));
    if (norm_of_triangle(x) <= bound || roots == most) break;
    std::vector<C> diagonal;
    for (const C log : logs) diagonal.push_back(std::exp(log * std::ldexp(R(1), -roots - 1)));
    if (!to_square_root(t, diagonal)) return false;
  }
  std::fill_n(t.get(), t.size(), C(0));
  for (std::size_t i = 0; i < std::size(gauss_nodes); ++i)
    add_fraction(t, x, static_cast<R>(gauss_nodes[i]), static_cast<R>(gauss_weights[i]));
  for (Index i = 0; i < t.size(); ++i) t.get()[i] *= std::ldexp(R(1), roots);
  for (Index j = 0; j < n; ++j) {
    t(j, j) = logs[static_cast<std::size_t>(j)];
    if (j > 0) t(j - 1, j) = original(j - 1, j) * divided_logarithm(original(j - 1, j - 1), original(j, j));
  }
  return true;
}

/// Writes f of matrix i, where f replaces an upper triangular matrix by its function. The function
/// of a real matrix has to be real: imaginary parts up to the square root of the rounding error,
/// which is that of a square root at 0, are dropped.
template <class T, class F>
bool function_of(const Columns<T>& a, T* to, F f) {
  using C = ComplexOf<T>;
  const Index n = a.rows;
  Columns<C> t(n, n), z(n, n), product(n, n);
  std::copy_n(a.data.get(), a.size(), t.get());
  if (!to_schur(t, z) || !f(t)) return false;
  for (Index c = 0; c < n; ++c)
    for (Index r = c + 1; r < n; ++r) t(r, c) = 0;
  multiply(product, z, false, t, false);
  multiply(t, product, false, z, true);
  if constexpr (is_real<T>) {
    T largest = 0, imaginary = 0;
    for (Index i = 0; i < t.size(); ++i) {
      largest = std::max(largest, std::abs(t.get()[i]));
      imaginary = std::max(imaginary, std::abs(t.get()[i].imag()));
    }
    if (imaginary > largest * std::sqrt(static_cast<T>(n) * std::numeric_limits<T>::epsilon())) return false;
  }
  for (Index r = 0; r < n; ++r)
    for (Index c = 0; c < n; ++c)
      if constexpr (is_real<T>) to[r * n + c] = t(r, c).real();
      else to[r * n + c] = t(r, c);
  return true;
}

template <class T>
void run_function(const stave::Op& op, const View& in, const View& out) {
  using C = ComplexOf<T>;
  const Stack<const T> stack(in);
  const Index n = stack.rows;
  const bool root = op.id == OpId::sqrtm;
  Failure failure;
  over_stack(stack.count(), 30 * n * n * n, small + n, [&](Index first, Index last) {
    Columns<T> a(n, n);
    for (Index i = first; i < last; ++i) {
      T* const to = static_cast<T*>(out.data) + i * n * n;
      a.load(stack, i);
      if (!all_finite(a.get(), a.size())) fill_nan(to, n * n);
      else if (!function_of(a, to, root ? square_root<C> : logarithm<C>)) failure.at(i);
    }
  });
  if (root)
    failure.check(op.name, stack.shape(),
                  is_real<T> ? "has no real square root: convert it to a complex dtype" : "has no square root");
  else
    failure.check(op.name, stack.shape(),
                  is_real<T> ? "is singular, or has no real logarithm: convert it to a complex dtype" : "is singular");
}

// ---- Sylvester's equation -----------------------------------------------------------------------

/// Replaces c by the solution x of a x + x b = c. a and b are overwritten. Returns false if a and
/// -b have a common eigenvalue, up to rounding.
template <class T>
bool solve_sylvester(Columns<T>& a, Columns<T>& b, Columns<T>& c) {
  Columns<T> u(a.rows, a.rows), v(b.rows, b.rows), part(c.rows, c.columns);
  if (!to_schur(a, u) || !to_schur(b, v)) return false;
  multiply(part, u, true, c, false);
  multiply(c, part, false, v, false);
  RealOf<T> scale = 1;
  if (trsyl('N', 'N', to_int(c.rows, "sylvester"), to_int(c.columns, "sylvester"), a.get(), b.get(), c.get(), &scale) !=
      0)
    return false;
  multiply(part, u, false, c, false);
  multiply(c, part, false, v, true);
  scale_by(c.get(), c.size(), 1 / scale);
  return true;
}

template <class T>
void run_sylvester(std::span<const View> in, const View& out) {
  const Stack<const T> as(in[1]), bs(in[2]), cs(in[0]);
  const Index m = cs.rows, n = cs.columns;
  if (m == 0 || n == 0) return;
  Failure failure;
  over_stack(cs.count(), 25 * (m * m * m + n * n * n), small + std::max(m, n), [&](Index first, Index last) {
    Columns<T> a(m, m), b(n, n), c(m, n);
    for (Index i = first; i < last; ++i) {
      T* const to = static_cast<T*>(out.data) + i * m * n;
      a.load(as, i);
      b.load(bs, i);
      c.load(cs, i);
      if (!all_finite(a.get(), a.size()) || !all_finite(b.get(), b.size()) || !all_finite(c.get(), c.size())) {
        fill_nan(to, m * n);
        continue;
      }
      if (solve_sylvester(a, b, c)) c.store(to);
      else failure.at(i);
    }
  });
  failure.check("sylvester", cs.shape(), "has no unique solution: a and -b have a common eigenvalue");
}

// ---- band matrices ------------------------------------------------------------------------------

template <class T>
void run_solve_banded(const stave::BandedAttributes& of, std::span<const View> in, const View& out) {
  const Stack<const T> bands(in[0]), sides(in[1]);
  const Index n = sides.rows, k = sides.columns, height = 2 * of.lower + of.upper + 1;
  if (n == 0) return;
  Failure failure;
  over_stack(sides.count(), n * (height * height + height * k), small + n, [&](Index first, Index last) {
    Columns<T> a(height, n), x(n, k);
    const auto pivots = room<lapack_int>(n);
    for (Index i = first; i < last; ++i) {
      std::fill_n(a.get(), a.size(), T(0));
      const T* const from = bands[i];
      for (Index j = 0; j < n; ++j)
        for (Index r = std::max<Index>(0, j - of.upper); r <= std::min(n - 1, j + of.lower); ++r)
          a(of.lower + of.upper + r - j, j) = from[(of.upper + r - j) * bands.row_step + j * bands.column_step];
      x.load(sides, i);
      const auto size = to_int(n, "solve_banded"), lower = to_int(of.lower, "solve_banded"),
                 upper = to_int(of.upper, "solve_banded");
      if (gbtrf(size, lower, upper, a.get(), pivots.get()) != 0) {
        failure.at(i);
        continue;
      }
      if (k > 0)
        gbtrs(of.transpose ? 'T' : 'N', size, lower, upper, to_int(k, "solve_banded"), a.get(), pivots.get(), x.get());
      x.store(static_cast<T*>(out.data) + i * n * k);
    }
  });
  failure.check("solve_banded", sides.shape(), "is singular");
}

// ---- indefinite matrices ------------------------------------------------------------------------

/// Turns LAPACK's factors of a Hermitian matrix into l, d and the order of rows. LAPACK does not
/// apply a later exchange of rows to the earlier columns of l.
template <class T>
void unpack_ldl(Columns<T>& a, const lapack_int* pivots, T* l, T* d, std::int32_t* order) {
  const Index n = a.rows;
  std::fill_n(d, n * n, T(0));
  for (Index i = 0; i < n; ++i) order[i] = static_cast<std::int32_t>(i);
  for (Index k = 0; k < n;) {
    const bool pair = pivots[k] < 0;
    const Index moved = pair ? k + 1 : k, with = std::abs(pivots[k]) - 1;
    if (moved != with) {
      std::swap(order[moved], order[with]);
      for (Index c = 0; c < k; ++c) std::swap(a(moved, c), a(with, c));
    }
    d[k * (n + 1)] = a(k, k);
    if (pair) {
      d[(k + 1) * (n + 1)] = a(k + 1, k + 1);
      d[(k + 1) * n + k] = a(k + 1, k);
      d[k * n + k + 1] = conjugate(a(k + 1, k));
      a(k + 1, k) = 0;
    }
    k += pair ? 2 : 1;
  }
  for (Index r = 0; r < n; ++r)
    for (Index c = 0; c < n; ++c) l[r * n + c] = r == c ? T(1) : r > c ? a(r, c) : T(0);
}

template <class T>
void run_ldl(const View& in, std::span<const View> out) {
  const Stack<const T> stack(in);
  const Index n = stack.rows;
  over_stack(stack.count(), n * n * n / 3, small + n, [&](Index first, Index last) {
    Columns<T> a(n, n);
    const auto pivots = room<lapack_int>(n);
    for (Index i = first; i < last; ++i) {
      T *const l = static_cast<T*>(out[0].data) + i * n * n, *const d = static_cast<T*>(out[1].data) + i * n * n;
      auto* const order = static_cast<std::int32_t*>(out[2].data) + i * n;
      if (!load_hermitian(stack, i, a.get())) {
        fill_nan(l, n * n);
        fill_nan(d, n * n);
        for (Index r = 0; r < n; ++r) order[r] = static_cast<std::int32_t>(r);
        continue;
      }
      conjugate_all(a.get(), a.size());  // row-major to column-major
      with_work<T>(1, "ldl", [&](T* work, lapack_int count) {
        return sytrf(to_int(n, "ldl"), a.get(), pivots.get(), work, count);
      });
      unpack_ldl(a, pivots.get(), l, d, order);
    }
  });
}

template <class T>
void run_any(const stave::Op& op, const stave::Attributes* attributes, std::span<const View> in,
             std::span<const View> out) {
  if (op.id == OpId::sylvester) return run_sylvester<T>(in, out[0]);
  if (op.id == OpId::solve_banded) return run_solve_banded<T>(as<stave::BandedAttributes>(attributes), in, out[0]);
  if (element_count(in[0].shape) == 0) return;
  switch (op.id) {
    case OpId::eig:
    case OpId::eigvals: return run_eig<T>(op.name, in[0], out);
    case OpId::schur: return run_schur<T>(in[0], out);
    case OpId::ldl: return run_ldl<T>(in[0], out);
    default: return run_function<T>(op, in[0], out[0]);
  }
}

}  // namespace

void run_general(const stave::Op& op, const stave::Attributes* attributes, std::span<const View> in,
                 std::span<const View> out) {
  switch (in[0].dtype) {
    case stave::float32: return run_any<float>(op, attributes, in, out);
    case stave::float64: return run_any<double>(op, attributes, in, out);
    case stave::complex64: return run_any<std::complex<float>>(op, attributes, in, out);
    default: return run_any<std::complex<double>>(op, attributes, in, out);
  }
}

}  // namespace stave_cpu
