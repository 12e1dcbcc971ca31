// Random matrices and errors for the tests of linear algebra.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include <stave/stave.h>

namespace linalg_test {

using namespace stave;

constexpr double infinity = std::numeric_limits<double>::infinity();

inline Tensor doubles(std::initializer_list<NestedList> entries) { return tensor(entries, float64); }
inline Tensor random_matrix(const Shape& shape, std::uint64_t seed = 1, Dtype dtype = float64) {
  return normal(Key(seed), shape, dtype);
}
inline Tensor positive_matrix(const Shape& shape, Dtype dtype = float64) {
  const Tensor x = random_matrix(shape, 2, dtype);
  return matmul(x, matrix_transpose(x)) / shape.back() + eye(shape.back(), dtype);
}
inline Tensor symmetric_matrix(const Shape& shape, Dtype dtype = float64) {
  const Tensor x = random_matrix(shape, 3, dtype);
  return (x + matrix_transpose(x)) * 0.5;
}
inline double largest(const Tensor& x) { return x.size() == 0 ? 0 : max(abs(astype(x, float64))).item<double>(); }
/// The largest |x - y| in units of epsilon times n, relative to the largest |y| if that exceeds 1.
inline double error_of(const Tensor& x, const Tensor& y, Index n) {
  const double epsilon = x.dtype() == float64 ? 0x1p-52 : 0x1p-23;
  return largest(x - y) / (epsilon * static_cast<double>(n) * std::max(1., largest(y)));
}
inline Tensor from_diagonal(const Tensor& u, const Tensor& s, const Tensor& vh) {
  return matmul(u * expand_dims(s, -2), vh);
}

}  // namespace linalg_test
