// Functions shared by the host functions that launch linear algebra. T is float, double or a
// complex number of these (kernels/number.cuh). Outputs are dense.
#pragma once

#include <algorithm>
#include <limits>
#include <span>

#include <stave/backends/cuda/kernels/linalg_kernels.h>
#include <stave/backends/cuda/layout.h>
#include <stave/backends/cuda/linalg_plan.h>
#include <stave/core/tensor/fail.h>
#include <stave/backends/cuda/kernels/linalg_large.cuh>

namespace stave_cuda {

template <class T>
T* room(const Launch& launch, Index count) {
  return static_cast<T*>(launch.scratch.allocate(static_cast<std::size_t>(std::max<Index>(1, count)) * sizeof(T)));
}
template <class T>
T* elements(const View& view) {
  return static_cast<T*>(view.data);
}
inline Index element_count(std::span<const Index> shape) {
  Index n = 1;
  for (const Index length : shape) n *= length;
  return n;
}
inline Index rows_of(const View& x) { return x.shape[x.shape.size() - 2]; }
inline Index columns_of(const View& x) { return x.shape.back(); }

/// A view of dense row-major memory, and the shape and strides that the view refers to.
struct Dense {
  stave::Shape shape;
  stave::Strides strides;
  View view;

  Dense(void* data, stave::Dtype dtype, const stave::Shape& of)
      : shape(of), strides(stave::contiguous_strides(of)), view{data, dtype, shape, strides} {}
  Dense(const Dense&) = delete;
};
/// A view of x with the last two axes exchanged.
struct Transposed {
  stave::Shape shape;
  stave::Strides strides;
  View view;

  explicit Transposed(const View& x) : shape(x.shape), strides(x.strides), view{x.data, x.dtype, shape, strides} {
    std::swap(shape.back(), shape[shape.size() - 2]);
    std::swap(strides.back(), strides[strides.size() - 2]);
  }
  Transposed(const Transposed&) = delete;
};

/// Copies matrices to `to`, where each matrix begins `apart` elements after the previous one. The
/// copy is row-major, or column-major if `by_columns` is true.
template <class T>
void copy_matrices(const Launch& launch, const View& from, T* to, Index apart, bool by_columns) {
  const std::size_t rank = from.shape.size();
  const stave::Shape shape(from.shape);
  stave::Strides strides = stave::contiguous_strides(shape);
  const Index size = rows_of(from) * columns_of(from);
  for (std::size_t axis = 0; axis + 2 < rank; ++axis) strides[axis] = size == 0 ? 0 : strides[axis] / size * apart;
  strides[rank - 2] = by_columns ? 1 : columns_of(from);
  strides[rank - 1] = by_columns ? rows_of(from) : 1;
  copy_strided(launch, {to, strides}, {from.data, from.strides}, shape, Index{sizeof(T)});
}

/// The place where kernels record the first matrix without a result. After all other work is
/// launched, `report` launches a kernel that reports this matrix in launch.fault.
class FailurePlace {
 public:
  /// If `asked` is false, failures are not recorded.
  FailurePlace(const Launch& launch, bool asked) : launch_(launch) {
    if (!asked) return;
    failure_.first = room<unsigned long long>(launch, 1);
    check(cudaMemsetAsync(failure_.first, 0xff, sizeof *failure_.first, launch.stream), "linear algebra");
  }
  operator FirstFailure() const { return failure_; }
  void report() const {
    if (failure_.first)
      launch_teams(launch_, ReportWork{1, 1, failure_, launch_.fault, launch_.ticket}, "linear algebra");
  }

 private:
  const Launch& launch_;
  FirstFailure failure_;
};

// ---- large matrices ---------------------------------------------------------------------------

template <class T>
void large_cholesky(const Launch& launch, const View& in, const View& out, const FirstFailure& failure);
template <class T>
void large_lu(const Launch& launch, const View& in, T* packed, std::int32_t* exchanges, std::int32_t* order);
template <class T>
void large_qr(const Launch& launch, const View& in, std::span<const View> out);
template <class T>
void large_eigh(const Launch& launch, const View& in, std::span<const View> out, const FirstFailure& failure);
template <class T>
void large_svd(const Launch& launch, const View& in, std::span<const View> out, const FirstFailure& failure);
/// Replaces dense b [count, n, k] by t^-1 b for each entry of `triangles` in turn, where t is that
/// triangle of `matrices` [count..., n, n].
template <class T>
void large_substitute(const Launch& launch, const View& matrices, std::span<const Triangle> triangles, T* b, Index k);

/// Computes the LU factors of matrices of any size.
template <class T>
void factor_lu(const Launch& launch, const View& in, T* packed, std::int32_t* exchanges, std::int32_t* order);
/// Computes the operation `solve`.
template <class T>
void run_solve(const Launch& launch, bool transpose, const View& b, const View& packed, const View& order,
               const View& out, const FirstFailure& failure);

template <class T>
void run_expm(const Launch& launch, const View& in, const View& out);

// The number types of all functions of this file.
#define STAVE_MATRIX_NUMBERS(X) X(float) X(double) X(ComplexElement<float>) X(ComplexElement<double>)

}  // namespace stave_cuda
