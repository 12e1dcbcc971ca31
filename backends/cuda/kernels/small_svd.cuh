// Singular values of one small matrix by a team, with one-sided Jacobi rotations as in
// backends/cpu/kernels/linalg.cpp. T is a real or a complex type (number.cuh).
#pragma once

#include <stave/backends/cuda/kernels/small_factors.cuh>

namespace stave_cuda {

template <class T, class Team>
STAVE_BOTH void exchange_rows(const Team& team, T* x, int step, int n, int i, int j) {
  team.for_lanes([&](int c) {
    if (c < n) exchange(x[i * step + c], x[j * step + c]);
  });
}
/// Multiplies row j by `phase`, and rotates rows i and j by cosine c and sine s.
template <class T, class Team>
STAVE_BOTH void rotate_rows(const Team& team, T* x, int step, int n, int i, int j, T phase, RealOf<T> c, RealOf<T> s) {
  team.for_lanes([&](int lane) {
    if (lane >= n) return;
    T &a = x[i * step + lane], &b = x[j * step + lane];
    const T before = a, turned = phase * b;
    a = before * c - turned * s;
    b = before * s + turned * c;
  });
}

/// Exchanges two rows of x, and the same rows of y, so that row i is the longest of the rows of x
/// from i on. `squares` holds the squared lengths of the rows.
template <class T, class Team>
STAVE_BOTH void bring_longest(const Team& team, T* x, T* y, int step, int k, int n, RealOf<T>* squares, int i) {
  int longest = i;
  for (int j = i + 1; j < k; ++j)
    if (squares[j] > squares[longest]) longest = j;
  if (longest == i) return;
  exchange(squares[i], squares[longest]);
  exchange_rows(team, x, step, n, i, longest);
  if (y) exchange_rows(team, y, step, k, i, longest);
}

/// Sets the rows from `known` on to unit vectors that are orthogonal to each other and to the
/// earlier rows.
template <class T, class Team>
STAVE_BOTH void complete(const Team& team, T* x, int step, int known, int rows, int n) {
  for (int i = known; i < rows; ++i) {
    T* const row = x + i * step;
    team.for_lanes([&](int j) {
      // The squared length of the projection of unit vector j onto the span of the previous rows.
      if (j < n) row[j] = T(sum_of_squares(x + j, step, i));
    });
    const int axis = team.agree([&] {
      int least = 0;
      for (int j = 1; j < n; ++j)
        if (real_part(row[j]) < real_part(row[least])) least = j;
      return least;
    });
    team.for_lanes([&](int j) {
      if (j < n) row[j] = T(j == axis);
    });
    for (int twice = 0; twice < 2; ++twice) {
      for (int r = 0; r < i; ++r) {
        const T along = team.agree([&] { return inner(row, 1, x + r * step, 1, n); });
        team.for_lanes([&](int j) {
          if (j < n) row[j] -= along * x[r * step + j];
        });
      }
      const RealOf<T> inverse = team.agree([&] { return 1 / root(sum_of_squares(row, 1, n)); });
      team.for_lanes([&](int j) {
        if (j < n) row[j] *= inverse;
      });
    }
  }
}

/// Rotates rows i and j, unless they are already orthogonal. Returns true if it rotated them.
/// Before the rotation, it changes the phase of row j so that the inner product of the rows is
/// real.
template <class T, class Team>
STAVE_BOTH bool turn_pair(const Team& team, T* x, T* y, int step, int k, int n, RealOf<T>* squares, int i, int j,
                          RealOf<T> rounding) {
  using R = RealOf<T>;
  T *const a = x + i * step, *const b = x + j * step;
  const T product = team.agree([&] { return inner(a, 1, b, 1, n); });
  const R tolerance = rounding_unit<R> * root(static_cast<R>(n)), length = size(product);
  if (squares[j] <= rounding || length <= tolerance * root(squares[i]) * root(squares[j])) return false;
  const R real_product = is_real<T> ? real_part(product) : length;
  const T phase = is_real<T> ? T(1) : product / length;
  const R zeta = (squares[j] - squares[i]) / (2 * real_product), r = root(1 + zeta * zeta);
  const R t = 1 / (zeta + (zeta < 0 ? -r : r)), c = 1 / root(1 + t * t), s = c * t;
  rotate_rows(team, x, step, n, i, j, phase, c, s);
  if (y) rotate_rows(team, y, step, k, i, j, phase, c, s);
  squares[i] = team.agree([&] { return sum_of_squares(a, 1, n); });
  squares[j] = team.agree([&] { return sum_of_squares(b, 1, n); });
  return true;
}

/// Rotates the k rows of x until they are orthogonal, and the rows of y in the same way, unless y
/// is null. Orders the rows of x by descending length and scales them to unit length. `values` are
/// the lengths; each lane has its own copy. A row whose length is only rounding error of the
/// longest row has no meaningful direction. If y is not null, such rows of x are replaced by unit
/// vectors orthogonal to the others. Returns false if the iteration does not converge.
template <class T, class Team>
STAVE_BOTH bool svd(const Team& team, T* x, T* y, int step, int k, int n, RealOf<T>* values) {
  using R = RealOf<T>;
  const R epsilon = rounding_unit<R>;
  R* const squares = values;
  if (y) set_identity(team, y, step, k, k);
  bool orthogonal = false;
  for (int sweep = 0; !orthogonal; ++sweep) {
    if (sweep == 60) return false;
    orthogonal = true;
    R largest = 0;
    for (int i = 0; i < k; ++i) {
      squares[i] = team.agree([&] { return sum_of_squares(x + i * step, 1, n); });
      largest = squares[i] > largest ? squares[i] : largest;
    }
    for (int i = 0; i < k; ++i) {
      bring_longest(team, x, y, step, k, n, squares, i);
      for (int j = i + 1; j < k; ++j)
        if (turn_pair(team, x, y, step, k, n, squares, i, j, largest * epsilon * epsilon)) orthogonal = false;
    }
  }
  for (int i = 0; i < k; ++i) bring_longest(team, x, y, step, k, n, squares, i);
  const R rounding = k > 0 ? squares[0] * epsilon * epsilon : 0;
  int known = 0;
  for (int i = 0; i < k; ++i) {
    const R length = root(squares[i]);
    if (squares[i] > rounding) {
      known = i + 1;
      team.for_lanes([&](int c) {
        if (c < n) x[i * step + c] *= 1 / length;
      });
    }
    values[i] = length;
  }
  if (y) complete(team, x, step, known, k, n);
  return true;
}

}  // namespace stave_cuda
