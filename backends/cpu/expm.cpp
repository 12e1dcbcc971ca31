// The matrix exponential, by scaling and squaring: a matrix is halved until a Pade approximant of
// its exponential is exact up to rounding, and the result is squared as many times.
#include <stave/backends/cpu/expm.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <stave/backends/cpu/blas.h>
#include <stave/backends/cpu/lapack.h>
#include <stave/backends/cpu/linalg_stack.h>
#include <stave/backends/cpu/matmul.h>
#include <stave/backends/expm_approximants.h>

namespace stave_cpu {

using stave_detail::Approximant;

namespace {

template <class T>
T times_power(T x, int exponent) {
  if constexpr (is_real<T>) return std::ldexp(x, exponent);
  else return {std::ldexp(x.real(), exponent), std::ldexp(x.imag(), exponent)};
}

/// Computes the exponential of one n x n matrix at a time.
template <class T>
class Exponential {
 public:
  explicit Exponential(Index n) : n_(n), size_(n * n), room_(room<T>(10 * n * n)), pivots_(room<lapack_int>(n)) {}

  /// Replaces the matrix in `x` by its exponential.
  void operator()(T* x) {
    if (!all_finite(x, size_)) return fill_nan(x, size_);
    const double length = norm(x);
    constexpr auto approximants = stave_detail::approximants<RealOf<T>>();
    const Approximant* chosen = approximants.all;
    while (chosen != approximants.all + approximants.count - 1 && length > chosen->bound) ++chosen;
    set_powers(x, chosen->order);
    const int halvings = length > chosen->bound ? halvings_for(x, length, *chosen) : 0;
    if (halvings > 0) halve(x, halvings, chosen->order);
    approximate(x, chosen->order);
    for (int i = 0; i < halvings; ++i) {
      multiply(x, x, matrix(0));
      std::copy_n(matrix(0), size_, x);
    }
  }

 private:
  T* matrix(Index i) { return room_.get() + i * size_; }
  /// Returns the 1-norm: the largest sum of a column's absolute values.
  double norm(const T* x) {
    double largest = 0;
    for (Index c = 0; c < n_; ++c) {
      double sum = 0;
      for (Index r = 0; r < n_; ++r) sum += static_cast<double>(std::abs(x[r * n_ + c]));
      largest = std::max(largest, sum);
    }
    return largest;
  }
  void multiply(const T* a, const T* b, T* c) {
    if constexpr (is_real<T>)
      if (n_ <= 16) return kernels().tiny_matmul[static_cast<int>(stave::dtype_of<T>())](c, a, b, n_, n_, n_, n_, n_);
    const auto square = [this](const T* x) { return Matrix{reinterpret_cast<const char*>(x), n_, n_, n_, 1}; };
    using Element = std::conditional_t<is_real<T>, T, stave::ComplexElement<RealOf<T>>>;
    multiply_floats(reinterpret_cast<Element*>(c), n_, square(a), square(b));
  }

  /// Sets matrices 1, 2, ... to x^2, x^4, ...
  void set_powers(const T* x, int order) {
    multiply(x, x, matrix(1));
    for (int i = 2; i <= stave_detail::expm_powers(order); ++i) multiply(matrix(i - 1), matrix(1), matrix(i));
  }
  void halve(T* x, int times, int order) {
    for (Index i = 0; i < size_; ++i) x[i] = times_power(x[i], -times);
    if (!all_finite(matrix(stave_detail::expm_powers(order)), size_)) return set_powers(x, order);
    for (int power = 1; power <= stave_detail::expm_powers(order); ++power)
      for (Index i = 0; i < size_; ++i) matrix(power)[i] = times_power(matrix(power)[i], -2 * power * times);
  }

  /// Returns the number of times that x must be halved. Norms of powers of x may be much smaller
  /// than powers of its norm, and needless halvings lose digits. So the number depends on the norms
  /// of x^4 and x^6. Only the approximants of the highest orders, 7 and 13, are used for halved
  /// matrices, and both compute x^6.
  int halvings_for(const T* x, double length, const Approximant& of) {
    const auto halvings = [](double size, double bound) {
      return std::max(0, static_cast<int>(std::ceil(std::log2(size / bound))));
    };
    const int by_norm = halvings(length, of.bound);
    if (!all_finite(matrix(2), size_) || !all_finite(matrix(3), size_)) return by_norm;
    const double size = std::max(std::pow(norm(matrix(2)), 1. / 4), std::pow(norm(matrix(3)), 1. / 6));
    const int by_powers = size > 0 ? halvings(size, expm_bound_by_powers(of)) : 0;
    return std::min(by_norm, by_powers + extra(x, length, by_powers, of.order));
  }
  /// Returns the number of halvings that the rounding error requires in addition to `halvings`. It
  /// depends on the 1-norm of |x|^(2m + 1), where m is the order. This norm is the largest element
  /// of a row of ones multiplied 2m + 1 times by |x|, which takes no matrix product.
  int extra(const T* x, double length, int halvings, int order) {
    const int power = 2 * order + 1;
    std::vector<double> row(static_cast<std::size_t>(n_), 1), next(row.size());
    double logarithm = 0;
    for (int i = 0; i < power; ++i) {
      std::fill(next.begin(), next.end(), 0);
      double largest = 0;
      for (Index r = 0; r < n_; ++r)
        for (Index c = 0; c < n_; ++c)
          next[static_cast<std::size_t>(c)] +=
              row[static_cast<std::size_t>(r)] * static_cast<double>(std::abs(x[r * n_ + c]));
      for (const double value : next) largest = std::max(largest, value);
      if (largest == 0) return 0;
      for (double& value : next) value /= largest;
      logarithm += std::log2(largest);
      row.swap(next);
    }
    const double beyond = std::log2(stave_detail::expm_remainder<RealOf<T>>(order)) + logarithm - std::log2(length) -
                          halvings * 2. * order;
    return std::max(0, static_cast<int>(std::ceil(beyond / (2 * order))));
  }

  /// Computes x = (v - u)^-1 (v + u), where u has the odd powers of x, and v the even ones.
  void approximate(T* x, int order) {
    const int powers = stave_detail::expm_powers(order);
    T *const u = matrix(5), *const v = matrix(6), *const inner = matrix(7), *const product = matrix(8);
    // In degree 13, x^6 is factored out of the terms of degrees 13, 11, 9 and 12, 10, 8.
    if (order == 13) {
      sum_powers(order, 9, 3, 1, inner);
      multiply(matrix(3), inner, product);
      sum_powers(order, 1, 4, 0, inner);
      add(inner, product);
      multiply(x, inner, u);
      sum_powers(order, 8, 3, 1, inner);
      multiply(matrix(3), inner, v);
      sum_powers(order, 0, 4, 0, inner);
      add(v, inner);
    } else {
      sum_powers(order, 1, powers + 1, 0, inner);
      multiply(x, inner, u);
      sum_powers(order, 0, powers + 1, 0, v);
    }
    for (Index i = 0; i < size_; ++i) {
      inner[i] = v[i] - u[i];
      x[i] = v[i] + u[i];
    }
    divide(inner, x);
  }
  void add(T* x, const T* y) {
    for (Index i = 0; i < size_; ++i) x[i] += y[i];
  }
  /// Computes the sum of `count` terms b_(first + 2 i) times power first_power + i of x^2.
  void sum_powers(int order, int first, int count, int first_power, T* to) {
    std::fill_n(to, size_, T(0));
    for (int i = 0; i < count; ++i) {
      const auto b = static_cast<RealOf<T>>(stave_detail::expm_coefficient(order, first + 2 * i));
      if (const int power = first_power + i; power > 0) {
        const T* const x = matrix(power);
        for (Index j = 0; j < size_; ++j) to[j] += b * x[j];
      } else {
        for (Index r = 0; r < n_; ++r) to[r * (n_ + 1)] += b;
      }
    }
  }
  /// Computes b = a^-1 b. Both are polynomials in one matrix, so they commute. LAPACK reads
  /// row-major matrices as their transposes: it computes a^-T b^T = b^T a^-T, the transpose of a^-1
  /// b.
  void divide(T* a, T* b) {
    if (!is_real<T> || n_ > small) return void(gesv(static_cast<lapack_int>(n_), a, pivots_.get(), b));
    if constexpr (is_real<T>) divide_small(a, b);
  }
  void divide_small(T* a, T* b)
    requires is_real<T>
  {
    const SmallLinalg& linalg = small_linalg<T>();
    linalg.lu(a, n_, n_, pivots_.get());
    for (Index k = 0; k < n_; ++k)
      if (pivots_[static_cast<std::size_t>(k)] != k)
        std::swap_ranges(b + k * n_, b + (k + 1) * n_, b + pivots_[static_cast<std::size_t>(k)] * n_);
    linalg.triangular_solve(a, n_, 1, true, true, n_, b, n_);
    linalg.triangular_solve(a, n_, 1, false, false, n_, b, n_);
  }

  Index n_, size_;
  std::unique_ptr<T[]> room_;
  std::unique_ptr<lapack_int[]> pivots_;
};

template <class T>
void run(const View& in, const View& out) {
  const Stack<const T> a(in);
  const Index n = a.rows;
  if (n == 0) return;
  over_stack(a.count(), 16 * n * n * n, std::max<Index>(n, n > 16 ? small + 1 : 0), [&](Index first, Index last) {
    Exponential<T> exponential(n);
    for (Index i = first; i < last; ++i) {
      T* const x = static_cast<T*>(out.data) + i * n * n;
      copy_matrix(a, i, x, n, 1);
      exponential(x);
    }
  });
}

}  // namespace

void run_expm(const View& in, const View& out) {
  switch (out.dtype) {
    case stave::float32: return run<float>(in, out);
    case stave::float64: return run<double>(in, out);
    case stave::complex64: return run<std::complex<float>>(in, out);
    default: return run<std::complex<double>>(in, out);
  }
}

}  // namespace stave_cpu
