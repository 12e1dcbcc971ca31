// The matrix exponential by teams (team.cuh), with the algorithm of backends/cpu/expm.cpp. Small
// matrices are computed entirely in these kernels. For large matrices, whose products cuBLASLt
// computes (../expm.cpp), the kernels find how often each matrix must be halved, and halve it.
#pragma once

#include <stave/backends/expm_approximants.h>
#include <stave/backends/cuda/kernels/linalg_large.cuh>

namespace stave_cuda {

using stave_detail::Approximant;

/// The threads of a block as one team.
template <class Block>
struct BlockTeam {
  const Block& block;
  static constexpr int width = static_cast<int>(block_threads);

  template <class F>
  STAVE_BOTH void for_lanes(F f) const {
    block.for_threads([&](unsigned thread) { f(static_cast<int>(thread)); });
  }
  template <class F>
  STAVE_BOTH auto agree(F f) const {
    const auto result = f();
    block.for_threads([](unsigned) {});
    return result;
  }
};

/// Finds how often a dense n x n matrix of any size must be halved. `rows` has room for 2 n
/// doubles, and `partial` for one double per lane of the team.
template <class T, class Team>
struct Halvings {
  const Team& team;
  Index n;
  double *rows, *partial;

  /// Returns the largest of(i) over 0 <= i < n, or NaN if one of them is NaN.
  template <class F>
  STAVE_BOTH double largest(F of) const {
    team.for_lanes([&](int lane) {
      double most = 0;
      for (Index i = lane; i < n; i += team.width) {
        const double value = of(i);
        most = value > most || value != value ? value : most;
      }
      partial[lane] = most;
    });
    return team.agree([&] {
      double most = 0;
      for (int i = 0; i < team.width; ++i) most = partial[i] > most || partial[i] != partial[i] ? partial[i] : most;
      return most;
    });
  }
  /// Returns the 1-norm of x, the largest sum of the absolute values of a column. It is not finite
  /// if x is not finite.
  STAVE_BOTH double norm(const T* x) const {
    return largest([&](Index c) {
      double sum = 0;
      for (Index r = 0; r < n; ++r) sum += size(static_cast<WideOf<T>>(x[r * n + c]));
      return sum;
    });
  }
  STAVE_BOTH static bool finite(double x) { return x * 0 == 0; }
  STAVE_BOTH static int halvings(double size, double bound) {
    const double times = ::ceil(::log2(size / bound));
    return times > 0 ? static_cast<int>(times) : 0;
  }

  /// Returns the number of halvings that the norm of x requires, or the number that the norms of
  /// x^4 and x^6 require if it is smaller, because needless halvings lose digits. `length` is the
  /// norm of x.
  STAVE_BOTH int operator()(const T* x, const T* fourth, const T* sixth, double length, const Approximant& of) const {
    const int by_norm = halvings(length, of.bound);
    const double size4 = norm(fourth), size6 = norm(sixth);
    if (!finite(size4) || !finite(size6)) return by_norm;
    const double a = ::pow(size4, 1. / 4), b = ::pow(size6, 1. / 6), size = a > b ? a : b;
    const int by_powers = size > 0 ? halvings(size, stave_detail::expm_bound_by_powers(of)) : 0;
    const int all = by_powers + extra(x, length, by_powers, of.order);
    return all < by_norm ? all : by_norm;
  }
  /// Returns how many more halvings than `before` the rounding error requires. The estimate needs
  /// the 1-norm of |x|^m, where m = 2 order + 1. This is the largest element of a row of ones that
  /// was multiplied by |x| m times.
  STAVE_BOTH int extra(const T* x, double length, int before, int order) const {
    double *row = rows, *next = rows + n, logarithm = 0;
    team.for_lanes([&](int lane) {
      for (Index c = lane; c < n; c += team.width) row[c] = 1;
    });
    double scale = 1;  // the factor that keeps the elements of the row at most 1
    for (int i = 0; i < 2 * order + 1; ++i) {
      const double most = largest([&](Index c) {
        double sum = 0;
        for (Index r = 0; r < n; ++r) sum += row[r] * scale * size(static_cast<WideOf<T>>(x[r * n + c]));
        return next[c] = sum;
      });
      if (most == 0) return 0;
      scale = 1 / most;
      logarithm += ::log2(most);
      exchange(row, next);
    }
    const double beyond =
        ::log2(stave_detail::expm_remainder<RealOf<T>>(order)) + logarithm - ::log2(length) - before * 2. * order;
    const double times = ::ceil(beyond / (2 * order));
    return times > 0 ? static_cast<int>(times) : 0;
  }
};

// ---- small matrices ---------------------------------------------------------------------------

inline constexpr int expm_room = 10;  // the number of matrices in a slot of memory

/// Computes the exponential of one dense matrix at a time, in a slot of memory.
template <class T, class Team>
struct SmallExponential {
  const Team& team;
  int n;
  T* room;
  int* exchanges;
  Halvings<T, Team> halvings_for;

  STAVE_BOTH T* matrix(int i) const { return room + i * n * n; }
  /// Sets x[i] = of(i).
  template <class F>
  STAVE_BOTH void set(T* x, F of) const {
    team.for_lanes([&](int c) {
      for (int r = 0; c < n && r < n; ++r) x[r * n + c] = of(r * n + c);
    });
  }
  STAVE_BOTH void multiply(const T* a, const T* b, T* c) const {
    team.for_lanes([&](int j) {
      for (int r = 0; j < n && r < n; ++r) c[r * n + j] = dot(a + r * n, 1, b + j, n, n);
    });
  }
  /// Sets matrices 1, 2, 3, ... to x^2, x^4, x^6, ...
  STAVE_BOTH void set_powers(const T* x, int order) const {
    multiply(x, x, matrix(1));
    for (int i = 2; i <= stave_detail::expm_powers(order); ++i) multiply(matrix(i - 1), matrix(1), matrix(i));
  }
  /// Sets to = plus + the sum of b_(first + 2 i) (x^2)^(first_power + i) over 0 <= i < count. If
  /// `plus` is null, it counts as 0.
  STAVE_BOTH void sum_powers(int order, int first, int count, int first_power, const T* plus, T* to) const {
    set(to, [&](int at) {
      T sum = plus ? plus[at] : T(0);
      for (int i = 0; i < count; ++i) {
        const auto b = static_cast<RealOf<T>>(stave_detail::expm_coefficient(order, first + 2 * i));
        const int power = first_power + i;
        if (power > 0) sum += matrix(power)[at] * b;
        else if (at % (n + 1) == 0) sum += T(b);
      }
      return sum;
    });
  }
  /// Replaces x by its Pade approximant (v - u)^-1 (v + u), where u is the sum of the odd powers of
  /// x and v that of the even powers.
  STAVE_BOTH void approximate(T* x, int order) const {
    const int powers = stave_detail::expm_powers(order);
    T *const u = matrix(5), *const v = matrix(6), *const inner = matrix(7), *const product = matrix(8);
    // x^6 is factored out of the terms with b13, b11, b9 and b12, b10, b8, which saves products.
    if (order == 13) {
      sum_powers(order, 9, 3, 1, nullptr, inner);
      multiply(matrix(3), inner, product);
      sum_powers(order, 1, 4, 0, product, inner);
      multiply(x, inner, u);
      sum_powers(order, 8, 3, 1, nullptr, inner);
      multiply(matrix(3), inner, product);
      sum_powers(order, 0, 4, 0, product, v);
    } else {
      sum_powers(order, 1, powers + 1, 0, nullptr, inner);
      multiply(x, inner, u);
      sum_powers(order, 0, powers + 1, 0, nullptr, v);
    }
    set(inner, [&](int i) { return v[i] - u[i]; });
    set(x, [&](int i) { return v[i] + u[i]; });
    lu(team, inner, n, n, n, exchanges);
    team.for_lanes([&](int c) {
      if (c >= n) return;
      for (int k = 0; k < n; ++k) exchange(x[k * n + c], x[exchanges[k] * n + c]);
      substitute(inner, n, 1, true, true, n, x + c, n);
      substitute(inner, n, 1, false, false, n, x + c, n);
    });
  }

  /// Replaces matrix 0 by its exponential.
  STAVE_BOTH void run() const {
    T* const x = matrix(0);
    const double length = halvings_for.norm(x);
    if (length * 0 != 0) return set(x, [](int) { return not_a_number<T>(); });
    const stave_detail::Approximants all = stave_detail::approximants<RealOf<T>>();
    int chosen = 0;
    while (chosen + 1 < all.count && length > all.all[chosen].bound) ++chosen;
    const Approximant of = all.all[chosen];
    set_powers(x, of.order);
    const int halvings = length > of.bound ? halvings_for(x, matrix(2), matrix(3), length, of) : 0;
    if (halvings > 0) {
      set(x, [&](int i) { return by_power_of_two(x[i], -halvings); });
      set_powers(x, of.order);
    }
    approximate(x, of.order);
    for (int i = 0; i < halvings; ++i) {
      multiply(x, x, matrix(9));
      set(x, [&](int at) { return matrix(9)[at]; });
    }
  }
};

template <class T>
struct ExpmWork {
  using Value = double;
  static constexpr int matrices = 1;
  Index items;
  int width;
  MatrixStack<T> a;
  T *out, *room;  // `room` has expm_room matrices per slot

  template <class Team>
  STAVE_BOTH void body(const Team& team, Index i, Index slot, TeamPart<double, matrices> part) const {
    const int n = static_cast<int>(a.rows);
    const Halvings<T, Team> halvings{team, n, part.matrix(0), part.vector(0)};
    const SmallExponential<T, Team> exponential{team, n, room + slot * expm_room * n * n, part.numbers(0), halvings};
    load(team, a, i, exponential.matrix(0), n);
    exponential.run();
    store(team, out + i * n * n, n, n, [&](int r, int c) { return exponential.matrix(0)[r * n + c]; });
  }
};

// ---- large matrices ---------------------------------------------------------------------------

/// Halves dense matrices and stores how often each was halved. `fourth` and `sixth` are x^4 and
/// x^6. A matrix that is not finite becomes 0 and gets -1 halvings.
template <class T>
struct HalveWork {
  using Value = double;
  Index items, n;
  T* x;
  const T *fourth, *sixth;
  double* rows;  // room for 2 n doubles per item
  int* halvings;

  template <class Block>
  STAVE_BOTH void body(const Block& block, Index i, LargeShared<double>& shared) const {
    const BlockTeam<Block> team{block};
    const Halvings<T, BlockTeam<Block>> halvings_for{team, n, rows + i * 2 * n, shared.sum};
    const Index size = n * n;
    T* const matrix = x + i * size;
    const double length = halvings_for.norm(matrix);
    const bool finite = length * 0 == 0;
    const stave_detail::Approximants all = stave_detail::approximants<RealOf<T>>();
    const Approximant of = all.all[all.count - 1];
    const int times = !finite             ? -1
                      : length > of.bound ? halvings_for(matrix, fourth + i * size, sixth + i * size, length, of)
                                          : 0;
    block.for_threads([&](unsigned thread) {
      if (thread == 0) halvings[i] = times;
      for (Index at = thread; at < size; at += block_threads)
        matrix[at] = finite ? by_power_of_two(matrix[at], -times) : T(0);
    });
  }
};

/// Replaces a matrix by its square if it must be squared more than `done` times. If `squares` is
/// null, replaces each matrix that was not finite by NaN. An item is a row.
template <class T>
struct TakeSquaresWork {
  using Value = T;
  static constexpr int matrices = 1;
  Index items;
  int width;
  Index n;
  T* x;
  const T* squares;  // null after the last squaring
  const int* halvings;
  int done;

  template <class Team>
  STAVE_BOTH void body(const Team& team, Index item, Index, TeamPart<T, matrices>) const {
    const int asked = halvings[item / n];
    if (squares ? done >= asked : asked >= 0) return;
    team.for_lanes([&](int lane) {
      for (Index c = lane; c < n; c += width) x[item * n + c] = squares ? squares[item * n + c] : not_a_number<T>();
    });
  }
};

}  // namespace stave_cuda
