// Stacks of matrices, and loops over them, shared by the operations of linear algebra.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <concepts>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>

#include <stave/backends/cpu/blas.h>
#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/lapack.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>
#include <stave/core/effects/fiber.h>
#include <stave/core/op/everywhere.h>
#include <stave/core/op/op.h>
#include <stave/core/tensor/fail.h>

namespace stave_cpu {

using stave::Shape;
using stave::View;

/// Matrices with at most this number of rows and columns are computed without LAPACK.
inline constexpr Index small = 32;

/// The matrices, or vectors, of a stack in their original layout. Steps are in elements.
template <class T>
class Stack {
 public:
  explicit Stack(const View& view, std::size_t kept = 2)
      : data_(static_cast<T*>(view.data)), shape_(view.shape.first(view.shape.size() - kept)),
        strides_(view.strides.first(shape_.size())) {
    const std::size_t last = view.shape.size() - 1;
    columns = view.shape[last];
    column_step = view.strides[last];
    if (kept == 1) return;
    rows = view.shape[last - 1];
    row_step = view.strides[last - 1];
  }
  T* operator[](Index i) const {
    Index offset = 0;
    for (std::size_t axis = shape_.size(); axis-- > 0; i /= shape_[axis]) offset += i % shape_[axis] * strides_[axis];
    return data_ + offset;
  }
  Index count() const { return element_count(shape_); }
  Shape shape() const { return Shape(shape_); }
  /// Returns true if a matrix is row-major without gaps.
  bool dense() const { return (columns <= 1 || column_step == 1) && (rows <= 1 || row_step == columns); }

  Index rows = 1, columns, row_step = 0, column_step;

 private:
  T* data_;
  std::span<const Index> shape_, strides_;
};

/// Returns an uninitialised buffer of `count` numbers. Complex matrices get some more: products of
/// a complex matrix and a vector in OpenBLAS 0.3.21 (cgemv_n, zgemv_n) read up to a column beyond
/// the matrix, which they do not use.
template <class T>
std::unique_ptr<T[]> room(Index count) {
  constexpr Index longest_column = 1 << 16;
  const Index beyond = std::is_arithmetic_v<T> ? 0 : std::min(count, longest_column);
  return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(count + beyond));
}

/// The type of the parts of a complex number; a real type itself.
template <class T>
using RealOf = decltype(std::abs(T()));
template <class T>
inline constexpr bool is_real = std::is_same_v<T, RealOf<T>>;

template <class T>
constexpr T not_a_number = std::numeric_limits<T>::quiet_NaN();
template <class R>
constexpr std::complex<R> not_a_number<std::complex<R>> = {not_a_number<R>, not_a_number<R>};

/// The complex conjugate; a real number itself.
template <class T>
T conjugate(T x) {
  if constexpr (is_real<T>) return x;
  else return std::conj(x);
}
template <class T>
void conjugate_all(T* x, Index n) {
  if constexpr (!is_real<T>)
    for (Index i = 0; i < n; ++i) x[i] = std::conj(x[i]);
}

template <class T>
const SmallLinalg& small_linalg() {
  return kernels().small_linalg[static_cast<int>(stave::dtype_of<T>())];
}

template <class T>
bool all_finite(const T* x, Index n) {
  T sums[8] = {};
  Index i = 0;
  for (; i + 8 <= n; i += 8)
    for (Index j = 0; j < 8; ++j) sums[j] += x[i + j] * 0;
  for (; i < n; ++i) sums[0] += x[i] * 0;
  for (Index j = 1; j < 8; ++j) sums[0] += sums[j];
  return sums[0] == 0;
}

template <class R>
bool all_finite(const std::complex<R>* x, Index n) {
  return all_finite(reinterpret_cast<const R*>(x), 2 * n);
}

/// Copies matrix i of the stack to to[r * row_step + c * column_step].
template <class T>
void copy_matrix(const Stack<const T>& from, Index i, T* to, Index row_step, Index column_step) {
  const T* x = from[i];
  if (from.rows <= small && from.columns <= small) {
    for (Index r = 0; r < from.rows; ++r)
      for (Index c = 0; c < from.columns; ++c)
        to[r * row_step + c * column_step] = x[r * from.row_step + c * from.column_step];
    return;
  }
  const Index shape[] = {from.rows, from.columns}, strides[] = {from.row_step, from.column_step},
              steps[] = {row_step, column_step};
  char* const source = const_cast<char*>(reinterpret_cast<const char*>(x));
  copy_strided({reinterpret_cast<char*>(to), steps}, {source, strides}, shape, sizeof(T));
}

/// Returns matrix i, row-major without gaps; it is copied into `buffer` if its layout differs.
template <class T>
const T* dense_matrix(const Stack<const T>& from, Index i, std::unique_ptr<T[]>& buffer) {
  if (from.dense()) return from[i];
  if (!buffer) buffer = room<T>(from.rows * from.columns);
  copy_matrix(from, i, buffer.get(), from.columns, 1);
  return buffer.get();
}

/// Collects the failures of the matrices of a stack. at(i) must be called once for each matrix i
/// that has no result. Threads may call at(i) concurrently.
class Failure {
 public:
  void at(Index i) {
    count_.fetch_add(1, std::memory_order_relaxed);
    Index first = first_.load(std::memory_order_relaxed);
    while (i < first && !first_.compare_exchange_weak(first, i)) {
    }
  }
  /// Throws LinalgError for the first failure, if there is one: "solve: matrix [1, 0]
  /// of the stack [2, 3] is singular".
  void check(const char* op, const Shape& stack, const char* what) const {
    Index i = first_.load();
    if (i == none) return;
    const bool everywhere = count_.load() == stack.elements();
    if (stack.empty()) stave_detail::fail_at<stave::LinalgError>(everywhere, "{}: the matrix {}", op, what);
    Shape position = stack;
    for (std::size_t axis = stack.size(); axis-- > 0; i /= stack[axis]) position[axis] = i % stack[axis];
    stave_detail::fail_at<stave::LinalgError>(everywhere, "{}: matrix {} of the stack {} {}", op, position, stack,
                                              what);
  }

 private:
  static constexpr Index none = std::numeric_limits<Index>::max();
  std::atomic<Index> first_{none}, count_{0};
};

/// Runs body(first, last) over a stack, in parallel over its matrices. Each matrix takes `work`
/// multiplications, and no side of a matrix is longer than `side`. If `side` is at least 2048 and
/// there are fewer matrices than threads, the matrices are computed one after the other, each by
/// all of BLAS's threads. On two idle cores this saves a third of the time at size 1024. The limit
/// is higher, because BLAS's threads wait for each other: if another program uses the cores, they
/// wait for longer than they compute (measured: 8 ms instead of 0.5 ms at size 256, 900 ms instead
/// of 160 ms at 1024).
inline void over_stack(Index count, Index work, Index side, RangeBody body) {
  constexpr Index least_work = Index{1} << 17, threaded = 2048;
  stave_detail::on_thread_stack([&] {
    if (side >= threaded && count < thread_count()) return body(0, count);
    std::optional<SingleThreadedBlas> guard;
    if (side > small) guard.emplace();
    parallel_for(count, std::max<Index>(1, least_work / std::max<Index>(1, work)), body);
  });
}

template <class T>
void fill_nan(T* x, Index n) {
  std::fill_n(x, n, not_a_number<T>);
}

inline lapack_int to_int(Index n, const char* op) {
  if (n > std::numeric_limits<lapack_int>::max())
    stave_detail::fail<stave::ShapeError>("{}: a matrix is too large for LAPACK's integers, which have 32 bits", op);
  return static_cast<lapack_int>(n);
}

/// Calls LAPACK with a work buffer: call(work, -1) returns the required size in `work`,
/// and the second call computes. Returns LAPACK's info.
template <class T, class F>
lapack_int with_work(Index least, const char* op, F call) {
  T asked = 0;
  if (const lapack_int info = call(&asked, -1)) return info;
  const Index count =
      std::max(least, static_cast<Index>(std::ceil(static_cast<double>(std::real(asked)) * (1 + 1e-6))));
  const auto work = room<T>(count);
  return call(work.get(), to_int(count, op));
}

/// Writes the Hermitian part (a + a^H) / 2, where a is matrix i, to `to`, dense. Returns false if
/// an element of the result is not finite.
template <class T>
bool load_hermitian(const Stack<const T>& a, Index i, T* to) {
  constexpr Index tile = 32;
  const T* x = a[i];
  const Index n = a.rows;
  const auto at = [&](Index r, Index c) { return x[r * a.row_step + c * a.column_step]; };
  for (Index top = 0; top < n; top += tile)
    for (Index left = 0; left <= top; left += tile)
      for (Index r = top; r < std::min(top + tile, n); ++r)
        for (Index c = left; c < std::min(left + tile, r + 1); ++c) {
          const T mean = T(0.5) * at(r, c) + T(0.5) * conjugate(at(c, r));
          to[r * n + c] = mean;
          to[c * n + r] = conjugate(mean);
        }
  return all_finite(to, n * n);
}

/// Returns a power of two that scales a matrix of finite numbers to moderate size. Returns 1 if the
/// size is moderate already.
template <std::floating_point T>
T safe_scale(const T* x, Index n) {
  T largest = 0;
  for (Index i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
  constexpr T big = sizeof(T) == 8 ? T(0x1p+400) : T(0x1p+50);
  if (largest == 0 || (largest < big && largest > 1 / big)) return 1;
  return std::ldexp(T(1), std::clamp(-std::ilogb(largest), std::numeric_limits<T>::min_exponent,
                                     std::numeric_limits<T>::max_exponent - 1));
}
template <class T>
void scale_by(T* x, Index n, RealOf<T> factor) {
  if (factor == 1) return;
  for (Index i = 0; i < n; ++i) x[i] *= factor;
}

}  // namespace stave_cpu
