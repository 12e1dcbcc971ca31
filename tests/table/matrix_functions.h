// Square roots, logarithms and Sylvester's equation in long doubles, for references.
#pragma once

#include "table/matrices.h"

namespace table {

/// The principal square root, by the product form of Denman and Beavers's iteration.
Matrix square_root(const Matrix& a);
/// The principal logarithm: 2^k times the logarithm of a root close to 1, by the series of
/// 2 atanh((x - 1) / (x + 1)).
Matrix logarithm(Matrix a);
/// The solution x of a x + x b = q, by elimination of all elements.
Matrix sylvester(const Matrix& a, const Matrix& b, const Matrix& q);

}  // namespace table
