// Lowering of linear algebra, by the same steps as in the CPU's kernels of small matrices.
#include <algorithm>
#include <limits>

#include <stave/core/program/lower_matrix.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

int is_finite(Lowering& l, Matrix a) {
  int state[] = {l.number(true, bool_)};
  l.fold({a.rows(), a.columns()}, state, [&](Positions at, std::span<int> now) {
    now[0] = l.add(ScalarOp::bit_and, now[0], l.is_finite(a.get(at[0], at[1])));
  });
  return state[0];
}

void factor(Lowering& l, Matrix a, bool unrolled, FunctionRef<void(Position, int)> exchange) {
  const Index m = a.rows(), n = a.columns();
  l.for_range(
      0, std::min(m, n),
      [&](Position k) {
        // The largest absolute value in column k from row k on, and its row; the first of equal
        // ones.
        const auto size = [&](Position i) { return l.add(ScalarOp::abs, a.get(i, k)); };
        int state[] = {size(k), l.value_of(k)};
        l.fold_range(
            after(l, k), m, state,
            [&](Position i, std::span<int> now) {
              const int value = size(i), wins = l.add(ScalarOp::less, now[0], value);
              now[0] = l.add(ScalarOp::select, wins, value, now[0]);
              now[1] = l.add(ScalarOp::select, wins, l.value_of(i), now[1]);
            },
            unrolled);
        const int best = state[1];
        if (unrolled) {
          for (Index i = k.number + 1; i < m; ++i) {
            const int is_best = l.add(ScalarOp::equal, best, l.index(i));
            for (Index j = 0; j < n; ++j) {
              const int upper = a.get(k, j), lower = a.get(i, j);
              a.set(k, j, l.add(ScalarOp::select, is_best, lower, upper));
              a.set(i, j, l.add(ScalarOp::select, is_best, upper, lower));
            }
          }
        } else {
          const Position row = l.position_of(best);
          l.for_range(
              0, n,
              [&](Position j) {
                const int upper = a.get(k, j), lower = a.get(row, j);
                a.set(k, j, lower);
                a.set(row, j, upper);
              },
              false);
        }
        exchange(k, best);
        const int pivot = a.get(k, k), zero = l.number(0, l.builder().dtype(pivot));
        const int is_zero = l.add(ScalarOp::equal, pivot, zero);
        l.for_range(
            after(l, k), m,
            [&](Position i) {
              const int old = a.get(i, k),
                        factor = l.add(ScalarOp::select, is_zero, old, l.add(ScalarOp::divide, old, pivot));
              a.set(i, k, factor);
              const int minus = l.add(ScalarOp::select, is_zero, zero, l.add(ScalarOp::negative, factor));
              l.for_range(
                  after(l, k), n,
                  [&](Position j) {
                    const int updated =
                        l.add(ScalarOp::add, a.get(i, j), l.add(ScalarOp::multiply, minus, a.get(k, j)));
                    a.set(i, j, l.add(ScalarOp::select, is_zero, a.get(i, j), updated));
                  },
                  unrolled);
            },
            unrolled);
      },
      unrolled);
}

namespace {

// ---- cholesky -----------------------------------------------------------------------------------

Arrays cholesky(const LoweringContext& c) {
  Lowering& l = c.l;
  const bool unrolled = is_small(c.in(0)), gives_nan = c.as<CholeskyAttributes>().nan_if_indefinite;
  const Index n = c.shape().back();
  const Dtype dtype = c.dtype();
  const int zero = l.number(0, dtype), half = l.number(0.5, dtype);
  // The kernels factor (a + a^T) / 2.
  const Array given = c.in(0);
  const Array out = l.allocate(c.shape(), dtype);
  l.copy(l.compute(c.shape(), dtype,
                   [&](Positions at) {
                     PositionList transposed(at);
                     std::swap(transposed.back(), transposed[transposed.size() - 2]);
                     return l.add(ScalarOp::add, l.add(ScalarOp::multiply, half, l.element(given, at)),
                                  l.add(ScalarOp::multiply, half, l.element(given, transposed)));
                   }),
         out);
  for_stack(c, out, unrolled, [&](Positions at) {
    Matrix a(l, out, at);
    // a[i, j] minus the sum of a[i, k] a[j, k] over k < j. The kernels subtract the products one by
    // one in matrices of 2, 3 and 4 rows, and subtract their sum in others.
    const bool one_by_one = n >= 2 && n <= 4;
    const auto rest = [&](Position i, Position j) {
      int state[] = {one_by_one ? a.get(i, j) : zero};
      l.fold_range(
          0, j, state,
          [&](Position k, std::span<int> now) {
            const int product = l.add(ScalarOp::multiply, a.get(i, k), a.get(j, k));
            now[0] = l.add(one_by_one ? ScalarOp::subtract : ScalarOp::add, now[0], product);
          },
          unrolled);
      return one_by_one ? state[0] : l.add(ScalarOp::subtract, a.get(i, j), state[0]);
    };
    const int finite = is_finite(l, a);
    int is_definite = finite;
    const auto column = [&](Position j) {
      const int pivot = rest(j, j);
      const int positive = l.add(ScalarOp::less, zero, pivot);
      if (!gives_nan)
        l.check(l.add(ScalarOp::bit_or, positive, l.add(ScalarOp::bit_not, finite)),
                "cholesky: the matrix is not positive definite");
      const int diagonal = l.add(ScalarOp::sqrt, pivot);
      const int inverse = l.add(ScalarOp::divide, l.number(1, dtype), diagonal);
      a.set(j, j, diagonal);
      l.for_range(
          after(l, j), n,
          [&](Position i) {
            a.set(i, j, l.add(ScalarOp::multiply, rest(i, j), inverse));
            a.set(j, i, zero);
          },
          unrolled);
      return positive;
    };
    l.fold_range(
        0, n, std::span(&is_definite, 1),
        [&](Position j, std::span<int> now) { now[0] = l.add(ScalarOp::bit_and, now[0], column(j)); }, unrolled);
    const int nan = l.number(std::numeric_limits<double>::quiet_NaN(), dtype);
    const auto element = [&](Position i, Position j) {
      a.set(i, j, l.add(ScalarOp::select, is_definite, a.get(i, j), nan));
    };
    l.for_range(
        0, n,
        [&](Position i) {
          l.for_range(
              0, n, [&](Position j) { element(i, j); }, unrolled);
        },
        unrolled);
  });
  return {l.preloaded(out)};
}

// ---- triangles ----------------------------------------------------------------------------------

// Which triangular matrix a solve reads in a matrix: its lower or upper triangle, transposed or
// not. With `unit`, the elements of the diagonal count as 1.
struct Triangle {
  bool lower, transpose, unit;
};

// Solves t x = b for each column of b, in place: b becomes x. `of` says which triangular matrix in
// the memory of t is meant.
void solve_triangle(Lowering& l, Matrix t, Triangle of, Matrix b, bool unrolled) {
  const Index n = b.rows(), columns = b.columns();
  const bool forward = of.lower != of.transpose;
  const auto entry = [&](Position i, Position j) { return of.transpose ? t.get(j, i) : t.get(i, j); };
  l.for_range(
      0, n,
      [&](Position step) {
        const Position i = forward ? step : l.shifted(step, n - 1, -1);
        const auto subtract_row = [&](Position j) {
          const int factor = l.add(ScalarOp::negative, entry(i, j));
          l.for_range(
              0, columns,
              [&](Position k) {
                b.set(i, k, l.add(ScalarOp::add, b.get(i, k), l.add(ScalarOp::multiply, factor, b.get(j, k))));
              },
              unrolled);
        };
        if (forward) l.for_range(0, i, subtract_row, unrolled);
        else l.for_range(after(l, i), n, subtract_row, unrolled);
        if (of.unit) return;
        const int diagonal = entry(i, i);
        l.for_range(
            0, columns, [&](Position k) { b.set(i, k, l.add(ScalarOp::divide, b.get(i, k), diagonal)); }, unrolled);
      },
      unrolled);
}

void check_diagonal(Lowering& l, Matrix t, bool unrolled, const char* error) {
  l.for_range(
      0, t.rows(),
      [&](Position i) {
        const int entry = t.get(i, i);
        l.check(l.add(ScalarOp::not_equal, entry, l.number(0, l.builder().dtype(entry))), error);
      },
      unrolled);
}

Arrays triangular_solve(const LoweringContext& c) {
  Lowering& l = c.l;
  const auto& a = c.as<TriangularAttributes>();
  const Array &t = c.in(0), out = copied(l, c.in(1));
  const bool unrolled = is_small(t) && is_small(out);
  for_stack(c, out, unrolled, [&](Positions at) {
    const Matrix triangle(l, t, at);
    if (!a.unit)
      check_diagonal(l, triangle, unrolled, "triangular_solve: the matrix is singular: its diagonal has a 0");
    solve_triangle(l, triangle, {a.lower, a.transpose, a.unit}, Matrix(l, out, at), unrolled);
  });
  return {l.preloaded(out)};
}

// ---- lu, solve, det -----------------------------------------------------------------------------

// Entry i of the vector at position `at` of a stack.
int entry(Lowering& l, const Array& stack, Positions at, Position i) {
  PositionList place(at);
  place.push_back(i);
  return l.element(stack, place);
}
void set_entry(Lowering& l, const Array& stack, Positions at, Position i, int value) {
  PositionList place(at);
  place.push_back(i);
  l.store(stack, place, value);
}

Arrays lu(const LoweringContext& c) {
  Lowering& l = c.l;
  const bool unrolled = is_small(c.in(0));
  const Array packed = copied(l, c.in(0));
  const Array exchanges = l.allocate(c.shape(1), int32), order = l.allocate(c.shape(2), int32);
  const Index m = packed.shape[packed.shape.size() - 2], n = packed.shape.back();
  for_stack(c, packed, unrolled, [&](Positions at) {
    Matrix a(l, packed, at);
    factor(l, a, unrolled, [&](Position k, int best) { set_entry(l, exchanges, at, k, l.convert(best, int32)); });
    const int finite = is_finite(l, a), nan = l.number(std::numeric_limits<double>::quiet_NaN(), c.dtype());
    l.for_range(
        0, m,
        [&](Position i) {
          set_entry(l, order, at, i, l.convert(l.value_of(i), int32));
          l.for_range(
              0, n, [&](Position j) { a.set(i, j, l.add(ScalarOp::select, finite, a.get(i, j), nan)); }, unrolled);
        },
        unrolled);
    l.for_range(
        0, std::min(m, n),
        [&](Position k) {
          const int best = l.add(ScalarOp::select, finite, entry(l, exchanges, at, k), l.convert(l.value_of(k), int32));
          set_entry(l, exchanges, at, k, best);
          if (unrolled) {
            for (Index i = k.number + 1; i < m; ++i) {
              const int is_best = l.add(ScalarOp::equal, best, l.convert(l.index(i), int32));
              const int upper = entry(l, order, at, k), lower = entry(l, order, at, i);
              set_entry(l, order, at, k, l.add(ScalarOp::select, is_best, lower, upper));
              set_entry(l, order, at, i, l.add(ScalarOp::select, is_best, upper, lower));
            }
            return;
          }
          const Position row = l.position_of(l.convert(best, int64));
          const int upper = entry(l, order, at, k), lower = entry(l, order, at, row);
          set_entry(l, order, at, k, lower);
          set_entry(l, order, at, row, upper);
        },
        unrolled);
  });
  return {l.preloaded(packed), l.preloaded(exchanges), l.preloaded(order)};
}

// Lowers solve(a, b, packed, order), which uses the factors of a that lu computed.
Arrays solve(const LoweringContext& c) {
  Lowering& l = c.l;
  const bool transpose = c.as<SolveAttributes>().transpose;
  const Array &b = c.in(1), &packed = c.in(2), &order = c.in(3);
  const bool unrolled = is_small(packed) && is_small(b);
  const Array out = l.allocate(c.shape(), c.dtype()), turned = transpose ? copied(l, b) : out;
  const Index n = b.shape[b.shape.size() - 2], columns = b.shape.back();
  const auto each = [&](FunctionRef<void(Position, Position)> body) {
    l.for_range(
        0, n,
        [&](Position i) {
          l.for_range(
              0, columns, [&](Position k) { body(i, k); }, unrolled);
        },
        unrolled);
  };
  for_stack(c, out, unrolled, [&](Positions at) {
    const Matrix factors(l, packed, at);
    Matrix sides(l, b, at), x(l, out, at), y(l, turned, at);
    check_diagonal(l, factors, unrolled, "solve: the matrix is singular");
    // The element of column k at a computed row. Unrolled code compares the row with each row
    // number, so that elements stay values.
    const auto picked = [&](Matrix& from, int row, Position k) {
      if (!unrolled) return from.get(l.position_of(l.convert(row, int64)), k);
      int value = from.get(0, k);
      for (Index i = 1; i < n; ++i)
        value =
            l.add(ScalarOp::select, l.add(ScalarOp::equal, row, l.convert(l.index(i), int32)), from.get(i, k), value);
      return value;
    };
    if (!transpose) {
      each([&](Position i, Position k) { x.set(i, k, picked(sides, entry(l, order, at, i), k)); });
      solve_triangle(l, factors, {true, false, true}, x, unrolled);
      solve_triangle(l, factors, {false, false, false}, x, unrolled);
      return;
    }
    solve_triangle(l, factors, {false, true, false}, y, unrolled);
    solve_triangle(l, factors, {true, true, true}, y, unrolled);
    each([&](Position i, Position k) {
      x.set(l.position_of(l.convert(entry(l, order, at, i), int64)), k, y.get(i, k));
    });
  });
  return {l.preloaded(out)};
}

}  // namespace

LoweringRule lowering_of_linalg(OpId id) {
  switch (id) {
    case OpId::cholesky: return cholesky;
    case OpId::triangular_solve: return triangular_solve;
    case OpId::lu: return lu;
    case OpId::solve: return solve;
    case OpId::det: return lower_det;
    case OpId::slogdet: return lower_slogdet;
    case OpId::qr: return lower_qr;
    default: return nullptr;
  }
}

}  // namespace stave_detail
