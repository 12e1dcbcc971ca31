// Linear algebra that is composed of the functions of linalg.h: solutions from factors, products of
// Householder reflections, and equations of tensors. Stacks of matrices broadcast as there.
#pragma once

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

struct LuSolveOptions {
  [[no_unique_address]] ByName by_name{};
  bool transpose = false;  ///< solves a^T x = b
};
/// The solution x of a x = b from the factors of a: l and u in one matrix [..., n, n] and the
/// permutation [..., n], the first and the last result of lu_factor. b is [..., n, k], or a vector
/// [n]. Throws LinalgError for a 0 on u's diagonal.
Tensor lu_solve(const Tensor& lu, const Tensor& permutation, const Tensor& b, LuSolveOptions options = {});

/// The first n columns of H_1 H_2 ... H_k, with the reflections H_i = I - tau_i v_i v_i^H. The
/// vectors v_i are the columns of v [..., m, n] below its diagonal, with 1 on the diagonal, and tau
/// is [..., k], where m >= n >= k. These are the results of LAPACK's geqrf. This is PyTorch's
/// householder_product. Throws ShapeError if shapes do not fit.
Tensor householder_product(const Tensor& v, const Tensor& tau);
struct OrmqrOptions {
  [[no_unique_address]] ByName by_name{};
  bool left = true;        ///< q c, else c q
  bool transpose = false;  ///< q^H in place of q
};
/// q c for a matrix c and the whole [m, m] matrix q of which householder_product gives n columns,
/// without computing q. This is PyTorch's ormqr.
Tensor ormqr(const Tensor& v, const Tensor& tau, const Tensor& c, OrmqrOptions options = {});

/// The inverse of the linear map that tensordot(a, x, x.rank()) is. The first `axes` axes of a have
/// as many elements as the others. The result has the other axes first, as numpy.linalg.tensorinv.
/// Throws ShapeError if they do not, and LinalgError as inv does.
Tensor tensorinv(const Tensor& a, Index axes = 2);
/// The x with tensordot(a, x, x.rank()) = b: a has b's axes first, and then those of x. This is
/// numpy.linalg.tensorsolve.
Tensor tensorsolve(const Tensor& a, const Tensor& b);

}  // namespace stave
