#include <stave/handlers/numerics/normal_equations.h>

#include <algorithm>
#include <vector>

#include <Eigen/SparseCholesky>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

using SparseRows = Eigen::SparseMatrix<double, Eigen::RowMajor>;
using SparseColumns = Eigen::SparseMatrix<double>;

template <class T>
std::vector<T> read(const Tensor& x, Dtype dtype) {
  return astype(x, dtype).template to_vector<T>();
}

SparseRows eigen_matrix(const CsrMatrix& j, Index columns) {
  const std::vector<std::int32_t> offsets = read<std::int32_t>(j.row_offsets, int32),
                                  at = read<std::int32_t>(j.column_indices, int32);
  const std::vector<double> values = read<double>(j.values, float64);
  std::vector<Eigen::Triplet<double>> elements;
  elements.reserve(values.size());
  const int rows = static_cast<int>(offsets.size()) - 1;
  for (int row = 0; row < rows; ++row)
    for (auto k = static_cast<std::size_t>(offsets[row]); k < static_cast<std::size_t>(offsets[row + 1]); ++k)
      elements.emplace_back(row, at[k], values[k]);
  SparseRows matrix(rows, columns);
  matrix.setFromTriplets(elements.begin(), elements.end());
  return matrix;
}

}  // namespace

void check_csr(const CsrMatrix& j, Index rows, Index columns) {
  if (!is_integer(j.row_offsets.dtype()) || !is_integer(j.column_indices.dtype()) || !is_float(j.values.dtype()))
    fail<DtypeError>(
        "least_squares: the sparse Jacobian has row_offsets of {}, column_indices of {} and values of {}: they must be "
        "integers, integers and floats",
        j.row_offsets.dtype(), j.column_indices.dtype(), j.values.dtype());
  if (j.row_offsets.shape() != Shape{rows + 1} || j.column_indices.rank() != 1 ||
      j.values.shape() != j.column_indices.shape())
    fail<ShapeError>(
        "least_squares: the sparse Jacobian has row_offsets {}, column_indices {} and values {}: for {} residuals they "
        "must be "
        "[{}], [elements] and [elements]",
        j.row_offsets.shape(), j.column_indices.shape(), j.values.shape(), rows, rows + 1);
  const std::vector<std::int64_t> offsets = read<std::int64_t>(j.row_offsets, int64);
  if (offsets.front() != 0 || offsets.back() != j.values.size() || !std::is_sorted(offsets.begin(), offsets.end()))
    fail<ShapeError>(
        "least_squares: the row_offsets of the sparse Jacobian must rise from 0 to the number of elements, {}",
        j.values.size());
  for (const std::int64_t column : read<std::int64_t>(j.column_indices, int64))
    if (column < 0 || column >= columns)
      fail<IndexError>("least_squares: the sparse Jacobian has an element in column {}, and there are {} unknowns",
                       column, columns);
}

struct NormalEquations::Factor {
  SparseColumns structure;
  Eigen::SimplicialLDLT<SparseColumns> factor;

  bool has_structure_of(const SparseColumns& a) const {
    return a.cols() == structure.cols() && a.nonZeros() == structure.nonZeros() &&
           std::equal(a.outerIndexPtr(), a.outerIndexPtr() + a.cols() + 1, structure.outerIndexPtr()) &&
           std::equal(a.innerIndexPtr(), a.innerIndexPtr() + a.nonZeros(), structure.innerIndexPtr());
  }
};

NormalEquations::NormalEquations() : factor_(std::make_unique<Factor>()) {}
NormalEquations::~NormalEquations() = default;

Tensor NormalEquations::solve(const CsrMatrix& j, const Tensor& damping, const Tensor& b) {
  const std::vector<double> added = read<double>(damping, float64), side = read<double>(b, float64);
  const Index n = b.size();
  const SparseColumns jacobian = eigen_matrix(j, n);
  SparseColumns a = SparseColumns(jacobian.transpose()) * jacobian, diagonal(n, n);
  diagonal.setIdentity();
  for (Index i = 0; i < n; ++i) diagonal.coeffRef(i, i) = added[static_cast<std::size_t>(i)];
  a = SparseColumns(a + diagonal);
  a.makeCompressed();
  if (!factor_->has_structure_of(a)) {
    factor_->factor.analyzePattern(a);
    factor_->structure = a;
  }
  factor_->factor.factorize(a);
  if (factor_->factor.info() != Eigen::Success)
    fail<LinalgError>("least_squares: the normal equations of the sparse Jacobian are singular or not finite");
  const Eigen::VectorXd x = factor_->factor.solve(Eigen::Map<const Eigen::VectorXd>(side.data(), n));
  return astype(from(std::vector<double>(x.begin(), x.end()), b.device()), b.dtype());
}

}  // namespace stave_detail
