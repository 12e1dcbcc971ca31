// Linear algebra. A matrix is the last two axes of a tensor [..., m, n]. The axes before them are
// a stack of matrices, which may have any layout and may be empty. If a function takes two stacks,
// they broadcast.
//
// Names and meanings are those of the array API standard, else of NumPy, SciPy and JAX.
// float32, float64, complex64 and complex128 are computed in their own precision. float16 and
// bfloat16 are computed in float32 and rounded once. Integers are converted to default_dtype().
// For complex matrices, symmetric means Hermitian and orthonormal means unitary, and a^H is the
// conjugate transpose. Eigenvalues of Hermitian matrices, singular values and norms are real.
//
//   const Tensor x = solve(a, b);                        // a x = b
//   const auto [values, vectors] = eigh(a);
//   const Tensor l = cholesky(a, {.upper = false});
//
// A result that does not exist is an error, never a wrong number: LinalgError says which matrix
// of the stack is singular or not positive definite. On a GPU the error appears at the next read,
// like an index out of range. A matrix that contains NaN or infinity gives NaN and is not an error.
//
// Derivatives of any order are available; restrictions are documented at each function.
#pragma once

#include <concepts>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

// ---- systems of equations -------------------------------------------------------------------

/// The solution x of a x = b for square matrices a [..., n, n] and b [..., n, k]. A b of rank 1
/// is a vector [n]. Throws LinalgError for a singular matrix, which is one whose elimination has a
/// pivot of 0. Derivatives reuse the factors that the value was computed from.
Tensor solve(const Tensor& a, const Tensor& b);
/// The inverse of square matrices. Throws LinalgError as solve does.
Tensor inv(const Tensor& a);

struct TriangularOptions {
  [[no_unique_address]] ByName by_name{};
  bool lower = false;          ///< a is lower triangular, else upper
  bool transpose = false;      ///< solves a^T x = b, without conjugation
  bool unit_diagonal = false;  ///< the diagonal is taken to be ones
};
/// The solution x of a x = b for triangular a, as SciPy's solve_triangular.
/// Elements beyond the triangle are not read. Throws LinalgError for a 0 on the diagonal.
Tensor triangular_solve(const Tensor& a, const Tensor& b, TriangularOptions options = {});

/// The relative size up to which singular values count as 0: a number, or a tensor with one
/// for each matrix, which broadcasts to the shape of the stack. If neither is given, the function
/// uses its default.
class RankTolerance {
 public:
  RankTolerance() = default;
  RankTolerance(std::nullopt_t) {}
  template <class Number>
    requires(std::is_arithmetic_v<Number> && !std::same_as<Number, bool>)
  RankTolerance(Number value) : number_(static_cast<double>(value)) {}
  /// Throws TransformError for an empty Tensor.
  RankTolerance(Tensor values);

  const std::optional<double>& number() const noexcept { return number_; }
  /// One tolerance for each matrix; undefined if the tolerance is a number or not given.
  const Tensor& values() const noexcept { return values_; }

 private:
  std::optional<double> number_;
  Tensor values_;
};
struct RankOptions {
  [[no_unique_address]] ByName by_name{};
  /// Singular values up to this fraction of the largest one count as 0. The default is max(m, n)
  /// epsilons of the dtype. The tolerance has no derivative.
  RankTolerance rtol = {};
};
/// The x of least norm that minimises |a x - b|, column by column. The matrices a are [..., m, n];
/// b is [..., m, k] or a vector [m]. Derivatives are those at constant rank (Golub, Pereyra 1973).
Tensor lstsq(const Tensor& a, const Tensor& b, RankOptions options = {});
/// The Moore-Penrose inverse [..., n, m]. Its derivatives are those of lstsq.
Tensor pinv(const Tensor& a, RankOptions options = {});

/// The solution x [..., m, n] of Sylvester's equation a x + x b = q, for square a [..., m, m] and b
/// [..., n, n]. It is computed from Schur forms (Bartels, Stewart 1972). Throws LinalgError if a
/// and -b have a common eigenvalue, up to rounding.
Tensor solve_sylvester(const Tensor& a, const Tensor& b, const Tensor& q);

struct BandOptions {
  [[no_unique_address]] ByName by_name{};
  Index lower = 0;  ///< the number of diagonals below the main one
  Index upper = 0;  ///< the number of diagonals above the main one
};
/// The solution x of a x = b for band matrices, as SciPy's solve_banded. The diagonals of a are the
/// rows of `bands` [..., lower + upper + 1, n]:
///   bands[upper + i - j, j] = a[i, j]
/// Elements beyond the ends of diagonals are not read. b is [..., n, k] or a vector [n]. The time
/// is linear in n. Throws LinalgError for a singular matrix.
Tensor solve_banded(const Tensor& bands, const Tensor& b, BandOptions options);
/// The solution x of a x = b for matrices of three diagonals [..., n], as
/// jax.lax.linalg.tridiagonal_solve. Row i of a has the elements lower[i], diagonal[i] and
/// upper[i]; lower[0] and upper[n - 1] are not read. b is [..., n, k] or a vector [n].
Tensor tridiagonal_solve(const Tensor& lower, const Tensor& diagonal, const Tensor& upper, const Tensor& b);

// ---- factors --------------------------------------------------------------------------------

struct CholeskyOptions {
  [[no_unique_address]] ByName by_name{};
  bool upper = false;              ///< returns u = l^H, with a = u^H u
  bool nan_if_indefinite = false;  ///< returns NaN instead of throwing
};
/// The lower triangular l with positive diagonal and a = l l^H. The function uses the Hermitian
/// part (a + a^H) / 2 of a, so derivatives are symmetric (Hermitian). Throws LinalgError for a
/// matrix that is not positive definite.
Tensor cholesky(const Tensor& a, CholeskyOptions options = {});

/// The Cholesky factor of l l^H + x x^H, for lower triangular l and vectors x [..., n]. The time is
/// quadratic in n (Gill, Golub, Murray, Saunders 1974, method C1).
Tensor cholesky_update(const Tensor& l, const Tensor& x);

/// l, d and the order of rows, an int32 tensor [..., n], with a[order, order] = l d l^H. The
/// function uses the Hermitian part of a, which need not be definite. l is unit lower triangular; d
/// has diagonal blocks of sizes 1 and 2 (Bunch, Kaufman 1977). Derivatives throw LinalgError for a
/// singular matrix.
std::tuple<Tensor, Tensor, Tensor> ldl(const Tensor& a);

/// p, l, u with a = p l u, by partial pivoting. Here p is a permutation matrix [..., m, m],
/// l a unit lower triangle [..., m, k] and u an upper triangle [..., k, n], where k = min(m, n).
/// Derivatives throw LinalgError if u's leading k rows and columns are singular.
std::tuple<Tensor, Tensor, Tensor> lu(const Tensor& a);
/// l and u of lu in one matrix [..., m, n], without l's diagonal, and two int32 tensors,
/// as jax.lax.linalg.lu. The pivots [..., k] give the row with which row i was exchanged at step i.
/// The permutation [..., m] is their result: row i of l u is row permutation[i] of a.
std::tuple<Tensor, Tensor, Tensor> lu_factor(const Tensor& a);

struct QrOptions {
  [[no_unique_address]] ByName by_name{};
  /// True: returns q [..., m, m] and r [..., m, n]. False: returns only min(m, n) columns of q and
  /// rows of r.
  bool complete = false;
};
/// q with orthonormal columns and upper triangular r, where a = q r. Signs are those of LAPACK; the
/// diagonal of r is real.
/// Derivatives throw LinalgError if the first min(m, n) columns of a are dependent.
/// The columns of q beyond n are only determined as a space. Their derivative is the one that does
/// not rotate them within that space.
std::pair<Tensor, Tensor> qr(const Tensor& a, QrOptions options = {});

/// Eigenvalues [..., n], ascending, and eigenvectors, the columns of [..., n, n], of symmetric or
/// Hermitian matrices: a = v diag(w) v^H. The function uses the Hermitian part (a + a^H) / 2 of a,
/// so derivatives are symmetric (Hermitian). Complex vectors are determined up to a phase; their
/// derivative is the one that does not change the phase.
///
/// Equal eigenvalues have no derivatives of their own, and their vectors have none at all.
/// Eigenvalues count as equal if they differ by at most the rounding error of equal ones:
/// n epsilons of the largest. For these, 1 / (w_j - w_i) counts as 0 in the derivative of v.
/// So the derivative is finite. It is exact for every function that does not depend on the choice
/// of v within an eigenspace, such as sums over equal eigenvalues and projections onto their space.
///
/// If equal eigenvalues separate in the direction of the derivative, the derivative contains only
/// the diagonal of that direction within the eigenspace. Second derivatives in such a direction,
/// and first derivatives of v diag(f(w)) v^T, lack the off-diagonal contribution. (expm, pinv,
/// lstsq and det are not computed from v and are exact.)
std::pair<Tensor, Tensor> eigh(const Tensor& a);
/// The eigenvalues alone. Their first derivative does not divide by gaps between them.
Tensor eigvalsh(const Tensor& a);

/// Eigenvalues and eigenvectors, as eigh, of the symmetric or Hermitian matrices with the given
/// diagonal [..., n] and, below it, `off_diagonal` [..., n - 1]. The matrices are made, so the time
/// is that of eigh.
std::pair<Tensor, Tensor> eigh_tridiagonal(const Tensor& diagonal, const Tensor& off_diagonal);

/// Eigenvalues [..., n] and eigenvectors, the columns of [..., n, n], of any square matrices:
/// a v = v diag(w). Results are complex, also for real matrices. Eigenvalues have no order. Each
/// vector has length 1, and its component of largest absolute value is real.
///
/// Derivatives use the inverse of v. They are very large for matrices that nearly are not
/// diagonalisable, and NaN (or a LinalgError) for those that are not: there is no derivative. For
/// equal eigenvalues with independent vectors, derivatives are those of eigh.
std::pair<Tensor, Tensor> eig(const Tensor& a);
/// The eigenvalues of eig alone.
Tensor eigvals(const Tensor& a);
/// t and z with a = z t z^H. The columns of z are orthonormal. For complex matrices, t is upper
/// triangular; for real ones it is real, and has blocks of size 2 for pairs of complex eigenvalues.
/// There is no derivative: the form is not unique. Derivatives of functions of a matrix are those
/// of sqrtm, logm, expm and eig.
std::pair<Tensor, Tensor> schur(const Tensor& a);

struct SvdOptions {
  [[no_unique_address]] ByName by_name{};
  /// True: returns u [..., m, m] and vh [..., n, n]. False: returns only min(m, n) columns of u and
  /// rows of vh.
  bool full_matrices = true;
};
/// u, s, vh with a = u diag(s) vh. The columns of u and the rows of vh are orthonormal,
/// and the singular values s are in descending order. Where singular values are equal or 0,
/// the derivatives of u and vh have the restrictions of eigh's vectors.
/// Columns of u beyond n (rows of vh beyond m) have the derivatives of q's columns in qr.
/// The derivative of the polar factor u vh is exact where singular values are equal.
std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& a, SvdOptions options = {});
/// The singular values alone. Their first derivative does not divide by gaps between them.
Tensor svdvals(const Tensor& a);

struct PolarOptions {
  [[no_unique_address]] ByName by_name{};
  bool left = false;  ///< returns p of a = p u
};
/// u and p with a = u p, for matrices [..., m, n]. p is Hermitian and positive semidefinite; u has
/// orthonormal columns (if m < n, rows). Derivatives are exact where singular values are equal; u
/// has none that is exact where they are 0.
std::pair<Tensor, Tensor> polar(const Tensor& a, PolarOptions options = {});

// ---- numbers --------------------------------------------------------------------------------

/// The determinant. Its gradient is the matrix of cofactors, also for singular matrices. For a rank
/// of at least n - 6, derivatives of any order are right. For a lower rank, those up to the sixth
/// are right, and higher ones are 0.
Tensor det(const Tensor& a);
/// The sign of the determinant (for complex matrices, a number of absolute value 1) and the
/// logarithm of its absolute value. For a singular matrix they are 0 and -infinity, and derivatives
/// throw LinalgError.
std::pair<Tensor, Tensor> slogdet(const Tensor& a);
/// The number of singular values that are larger than rtol times the largest one.
Tensor matrix_rank(const Tensor& a, RankOptions options = {});

/// The kind of a matrix norm: "fro" (Frobenius), "nuc" (the sum of singular values),
/// infinity or -infinity (the largest or smallest sum of absolute values in a row),
/// 1 or -1 (the same in a column), 2 or -2 (the largest or smallest singular value).
class MatrixOrder {
 public:
  enum class Kind { number, frobenius, nuclear };
  /// Throws Error for any other name or number.
  MatrixOrder(const char* name);
  MatrixOrder(double order);

  Kind kind() const noexcept { return kind_; }
  double number() const noexcept { return number_; }

 private:
  Kind kind_ = Kind::number;
  double number_ = 0;
};
/// The norm of the matrices in the last two axes. Ties share the derivative, as in max.
/// The derivative is 0 where the norm is 0, as for `norm`. The derivative of singular values
/// that are at most max(m, n) epsilons of the largest is 0 too.
Tensor matrix_norm(const Tensor& x, MatrixOrder order = "fro", KeepDims keep = drop_dims);
/// The condition number: the norm of a times the norm of its inverse. For the orders 2 and -2, it
/// is the ratio of the largest and the smallest singular value, also for matrices that are not
/// square, and infinite for singular ones. For other orders, it throws LinalgError for singular
/// matrices.
Tensor cond(const Tensor& a, MatrixOrder order = 2);
/// (sum |x|^order)^(1/order) over axes, by default all. Order infinity (-infinity) gives
/// the largest (smallest) |x|, and order 0 the number of elements that are not 0. Nothing overflows
/// on the way. The derivative is 0 where the norm is 0. Order 2 is `norm`.
Tensor vector_norm(const Tensor& x, double order = 2, const Axes& axes = all_axes, KeepDims keep = drop_dims);

// ---- products and functions -----------------------------------------------------------------

/// The conjugate transpose x^H [..., n, m] of matrices [..., m, n].
Tensor conj_transpose(const Tensor& x);
/// a to an integer power, by repeated squaring. A negative power is a power of the inverse, which
/// is of floats. Nonnegative powers of integers keep their dtype, and those of bools are int32.
Tensor matrix_power(const Tensor& a, Index n);
/// The matrix exponential exp(a) = 1 + a + a^2 / 2 + ... (Higham 2005). Derivatives are
/// exponentials of block matrices of twice the size (Higham, Functions of Matrices, section 3.2).
Tensor expm(const Tensor& a);
/// The principal square root x, with x x = a, whose eigenvalues have no negative real parts
/// (Bjorck, Hammarling 1983). The root of a real matrix is real. Throws LinalgError if a has no
/// root of its own dtype: a real matrix with a negative eigenvalue has to be converted to a complex
/// dtype. Derivatives are solutions of Sylvester's equation, and throw LinalgError for singular
/// matrices.
Tensor sqrtm(const Tensor& a);
/// The principal logarithm, whose eigenvalues have imaginary parts in (-pi, pi], by inverse scaling
/// and squaring (Higham, Functions of Matrices, 2008, chapter 11). The logarithm of a real matrix
/// is real. Throws LinalgError if a has no logarithm of its own dtype, as for singular matrices and
/// real ones with a negative eigenvalue. Derivatives are logarithms of block matrices of twice the
/// size.
Tensor logm(const Tensor& a);
/// The cross products a x b of vectors with three components, which lie along `axis` of both
/// operands. The other axes broadcast.
Tensor cross(const Tensor& a, const Tensor& b, Index axis = -1);
/// The sum of conj(a) * b along an axis, in the dtype to which a and b are promoted, as in matmul.
Tensor vecdot(const Tensor& a, const Tensor& b, Index axis = -1);
/// The sum of conj(a) * b over all elements of two tensors of equal size, as NumPy's vdot.
Tensor vdot(const Tensor& a, const Tensor& b);
/// The Kronecker product: each element of a times all of b, axis by axis. For two vectors,
/// a[i] * b[j] is at position i * b.size() + j.
Tensor kron(const Tensor& a, const Tensor& b);

/// The matrices [..., m, n] with constant diagonals, given by the first column [..., m] and the
/// first row [..., n], of which element 0 is not read. An undefined row is the conjugate of the
/// column.
Tensor toeplitz(const Tensor& column, const Tensor& row = Tensor());
/// The matrices with the given blocks on the diagonal and 0 elsewhere. Stacks of blocks broadcast.
/// Throws Error if there is no block.
Tensor block_diag(const std::vector<Tensor>& blocks);

}  // namespace stave
