// Linear algebra. A matrix is the last two axes of a tensor, [..., m, n]; the axes before them are a stack of matrices, of any
// layout and of no elements too. Where a function takes two stacks, they broadcast.
//
// Names and meanings are those of the array API standard, else of NumPy, SciPy and JAX. float32 and float64 are computed as such;
// float16 and bfloat16 in float32, and rounded once; integers in default_dtype().
//
//   const Tensor x = solve(a, b);                        // a x = b
//   const auto [values, vectors] = eigh(a);
//   const Tensor l = cholesky(a, {.upper = false});
//
// What cannot be given is an error, never a wrong number: LinalgError says which matrix of the stack is singular, or not positive
// definite; on a GPU at the next read, as of an index out of range. A matrix with NaN or infinity in it gives NaN, and is no error. Derivatives of any order follow; what is special to a
// function stands beside it.
#pragma once

#include <concepts>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

// ---- systems of equations ----------------------------------------------------------------------------------------------------

/// x with a x = b for square a [..., n, n] and b [..., n, k], or a vector [n] (rank 1 alone counts as one). Throws LinalgError for
/// a singular matrix: one in whose elimination a pivot is 0. Derivatives use the factors that the value took.
Tensor solve(const Tensor& a, const Tensor& b);
/// The inverse. Throws LinalgError as solve does.
Tensor inv(const Tensor& a);

struct TriangularOptions {
  [[no_unique_address]] ByName by_name{};
  bool lower = false;          ///< a is lower triangular, else upper
  bool transpose = false;      ///< a^T x = b
  bool unit_diagonal = false;  ///< the diagonal is taken to be ones
};
/// x with a x = b for triangular a; what is beyond the triangle is not read. (SciPy's solve_triangular) Throws LinalgError for a 0
/// on the diagonal.
Tensor triangular_solve(const Tensor& a, const Tensor& b, TriangularOptions options = {});

/// Which part of the largest singular value counts as 0: a number, or a tensor with one for each
/// matrix, which broadcasts to the shape of the stack. None: the default.
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
  /// One for each matrix; undefined if there is a number, or none.
  const Tensor& values() const noexcept { return values_; }

 private:
  std::optional<double> number_;
  Tensor values_;
};
struct RankOptions {
  [[no_unique_address]] ByName by_name{};
  /// Singular values up to so much of the largest count as 0; by default max(m, n) epsilons of the
  /// dtype. It has no derivative.
  RankTolerance rtol = {};
};
/// The x of the least norm that minimises |a x - b|, column by column; a [..., m, n], b [..., m, k] or a vector [m]. Derivatives
/// are those with the rank held (Golub, Pereyra 1973).
Tensor lstsq(const Tensor& a, const Tensor& b, RankOptions options = {});
/// The Moore-Penrose inverse [..., n, m]. Derivatives as those of lstsq.
Tensor pinv(const Tensor& a, RankOptions options = {});

// ---- factors -----------------------------------------------------------------------------------------------------------------

struct CholeskyOptions {
  [[no_unique_address]] ByName by_name{};
  bool upper = false;              ///< u = l^T with a = u^T u
  bool nan_if_indefinite = false;  ///< NaN in place of the error
};
/// The lower triangular l with positive diagonal and a = l l^T. Of a its symmetric part (a + a^T) / 2 is taken, so derivatives are
/// symmetric. Throws LinalgError for a matrix that is not positive definite.
Tensor cholesky(const Tensor& a, CholeskyOptions options = {});

/// p, l, u with a = p l u: a permutation matrix [..., m, m], the unit lower triangle [..., m, k], the upper one [..., k, n], where
/// k = min(m, n); by partial pivoting. A derivative needs u's leading k rows and columns to be regular, and throws LinalgError if
/// not.
std::tuple<Tensor, Tensor, Tensor> lu(const Tensor& a);
/// l and u in one matrix [..., m, n], without l's diagonal; and int32 [..., k] and [..., m]: the row with which row i was exchanged
/// at step i, and what came of it, where row i of l u is row permutation[i] of a. (jax.lax.linalg.lu)
std::tuple<Tensor, Tensor, Tensor> lu_factor(const Tensor& a);

struct QrOptions {
  [[no_unique_address]] ByName by_name{};
  bool complete = false;  ///< q [..., m, m] and r [..., m, n], else with min(m, n) columns and rows
};
/// q with orthonormal columns and upper triangular r, a = q r. Signs are those of LAPACK. A derivative needs the first min(m, n)
/// columns to be independent, and throws LinalgError if not. The columns of q beyond n only span a space: their derivative is the
/// one that does not turn them within it.
std::pair<Tensor, Tensor> qr(const Tensor& a, QrOptions options = {});

/// Eigenvalues [..., n], ascending, and eigenvectors, the columns of [..., n, n], of symmetric matrices: a = v diag(w) v^T. Of a
/// its symmetric part is taken, so derivatives are symmetric.
///
/// Equal eigenvalues have no derivative of their own, and their vectors none at all; those are equal that differ by no more than
/// rounding makes of equal ones, n epsilons of the largest. In the derivative of v, 1 / (w_j - w_i) counts as 0 for them: it is
/// finite, and exact for sums over equal values and for projections onto their space, and whatever else does not depend on how v
/// lies in that space. Of a direction in which equal values part it sees, within the space, the diagonal alone: second derivatives
/// along such a one, and first ones of v diag(f(w)) v^T, lack what is beside it. (expm, pinv, lstsq and det do not come of
/// v, and are exact.)
std::pair<Tensor, Tensor> eigh(const Tensor& a);
/// The eigenvalues alone. Their derivative needs no gaps between them.
Tensor eigvalsh(const Tensor& a);

struct SvdOptions {
  [[no_unique_address]] ByName by_name{};
  bool full_matrices = true;  ///< u [..., m, m] and vh [..., n, n], else with min(m, n) columns and rows
};
/// u, s, vh with a = u diag(s) vh: orthonormal columns, singular values in descending order, orthonormal rows. Derivatives of u and
/// vh where singular values are equal, or 0, are as those of eigh's vectors, and those of columns of u beyond n (rows of vh beyond
/// m) as those of q in qr. The derivative of the polar factor u vh is exact where singular values are equal.
std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& a, SvdOptions options = {});
/// The singular values alone. Their derivative needs no gaps between them.
Tensor svdvals(const Tensor& a);

// ---- numbers -----------------------------------------------------------------------------------------------------------------

/// The determinant. Its gradient is the matrix of cofactors, of any order and for singular matrices of any rank.
Tensor det(const Tensor& a);
/// The sign of the determinant and the logarithm of its absolute value: 0 and -infinity for a singular matrix, at which a
/// derivative throws LinalgError.
std::pair<Tensor, Tensor> slogdet(const Tensor& a);
/// How many singular values are larger than rtol times the largest one.
Tensor matrix_rank(const Tensor& a, RankOptions options = {});

/// Which norm of a matrix: "fro" (Frobenius), "nuc" (the sum of singular values), infinity or -infinity (the largest or smallest
/// sum of a row's absolute values), 1 or -1 (of a column's), 2 or -2 (the largest or smallest singular value).
class MatrixOrder {
 public:
  enum class Kind { number, frobenius, nuclear };
  /// Throws Error for any other name, or number.
  MatrixOrder(const char* name);
  MatrixOrder(double order);

  Kind kind() const noexcept { return kind_; }
  double number() const noexcept { return number_; }

 private:
  Kind kind_ = Kind::number;
  double number_ = 0;
};
/// The norm of the last two axes. Ties share the derivative, as in max; it is 0 where the norm is,
/// as that of `norm`, and so is that of singular values which are 0, or at most max(m, n) epsilons
/// of the largest.
Tensor matrix_norm(const Tensor& x, MatrixOrder order = "fro", KeepDims keep = drop_dims);
/// (sum |x|^order)^(1/order) over axes, all by default; infinity and -infinity are the largest and
/// the smallest |x|, 0 is the number of elements that are not 0. Without overflow; derivative 0
/// where the norm is 0. That of order 2 is `norm`.
Tensor vector_norm(const Tensor& x, double order = 2, const Axes& axes = all_axes, KeepDims keep = drop_dims);

// ---- products and functions --------------------------------------------------------------------------------------------------

/// a to an integer power, by repeated squaring; a negative one is that of the inverse. Powers of
/// integers are integers of their dtype, of bools int32; inverses are floats.
Tensor matrix_power(const Tensor& a, Index n);
/// exp(a) = 1 + a + a^2 / 2 + ... (Higham 2005). Derivatives are exponentials of block matrices of twice the size (Higham,
/// Functions of Matrices, section 3.2).
Tensor expm(const Tensor& a);
/// The vectors a x b of three components, which stand along `axis` of both; the other axes broadcast.
Tensor cross(const Tensor& a, const Tensor& b, Index axis = -1);
/// The sum of a * b along an axis, in the dtype to which a and b are promoted, as that of matmul.
Tensor vecdot(const Tensor& a, const Tensor& b, Index axis = -1);
/// Kronecker's product: each element of a times all of b, axis by axis: of two vectors a[i] * b[j] stands at i * b.size() + j.
Tensor kron(const Tensor& a, const Tensor& b);

}  // namespace stave
