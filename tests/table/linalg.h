// Helpers for the rows of functions of matrices. Each matrix is the sum of a well-conditioned one,
// with entries 3, 6, 9, ... on the diagonal, and a random one. So every layout can be used,
// also where whole rows repeat. linalg_test covers how operands of other layouts reach the kernels.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "table/matrices.h"
#include "table/row.h"

namespace table {

using OfMatrices = std::function<Matrices(std::span<const Matrix>)>;
using OfTensor = std::function<Outputs(const Tensor&)>;

/// f of each matrix of the stacks, whose leading axes broadcast.
/// Result k keeps kept[k] axes of its matrix.
Arrays of_stacks(Dtype dtype, std::span<const Array> xs, std::vector<int> kept, const OfMatrices& f);

/// `besides` gives the random numbers that are added to the well-conditioned matrix;
/// `with_base` gives the sum. With `turned`, the sum needs pivoting.
Domain besides(Dtype dtype);
Tensor with_base(const Tensor& x, bool turned = false);
Array with_base(const Array& x, bool turned = false);

inline const std::vector<Shape> rectangles = {{3, 3}, {2, 4, 3}, {3, 4}, {4, 2}, {2, 3}, {0, 3, 2}};

/// A variant of f of one stack of matrices.
Variant of_matrix(const std::string& name, Dtype dtype, const Shape& shape, std::vector<int> kept, const OfTensor& f,
                  const OfMatrices& reference, bool turned = false);
/// A variant of f of a stack and a tolerance for each matrix; both broadcast. The argument `none`
/// tells the reference whether the tolerance rejects all singular values or admits all.
Variant by_tolerances(Dtype dtype, const Shape& shape, const Shape& tolerances, std::vector<int> kept,
                      const std::function<Tensor(const Tensor&, const Tensor&)>& f,
                      const std::function<Matrix(const Matrix&, bool none)>& reference);
Variant refuse_number(Dtype dtype, const OfTensor& f);
Variant refuse_rectangle(Dtype dtype, const OfTensor& f);

Row matrix_row(const std::string& name, std::vector<std::string> also,
               std::function<std::vector<Variant>(Dtype)> variants);
/// A row of a function of square matrices.
Row of_squares(const std::string& name, std::vector<int> kept, const OfTensor& f, const OfMatrices& reference);
/// A row of a function of any matrices.
Row of_rectangles(const std::string& name, std::vector<int> kept, const OfTensor& f, const OfMatrices& reference);

}  // namespace table
