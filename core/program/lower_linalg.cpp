// Lowering of linear algebra: the same steps as the CPU's kernels of small matrices, on matrices in
// memory. Matrices of up to 6 rows and columns get code for each element, and no loops; their
// elements become values.
#include <algorithm>
#include <limits>

#include <stave/core/program/lower.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

constexpr Index most_unrolled = 6;

// A matrix of a stack.
class Matrix {
 public:
  Matrix(Lowering& l, const Array& stack, Positions at) : l_(l), stack_(stack), place_(at) {
    place_.resize(stack.shape.size());
  }
  Index rows() const { return stack_.shape[stack_.shape.size() - 2]; }
  Index columns() const { return stack_.shape.back(); }
  int get(Position row, Position column) { return l_.element(stack_, at(row, column)); }
  void set(Position row, Position column, int value) { l_.store(stack_, at(row, column), value); }

 private:
  Positions at(Position row, Position column) {
    place_[place_.size() - 2] = row;
    place_.back() = column;
    return place_;
  }
  Lowering& l_;
  const Array& stack_;
  PositionList place_;
};

// Calls body(at) for each matrix of a stack; `unrolled` says whether the code has no loops.
void for_stack(const LoweringContext& c, const Array& stack, bool unrolled, FunctionRef<void(Positions)> body) {
  const Shape outer = axes_of(stack.shape, 0, stack.shape.size() - 2);
  c.l.for_each(outer, body, unrolled && Lowering::is_unrolled(stack.shape));
}
bool is_small(const Array& matrices) {
  return std::max(matrices.shape.back(), matrices.shape[matrices.shape.size() - 2]) <= most_unrolled;
}
Position after(Lowering& l, Position i) { return l.shifted(i, 1); }

// A copy of a stack of matrices, whose elements the caller changes.
Array copied(Lowering& l, const Array& x) {
  const Array out = l.allocate(x.shape, x.dtype);
  l.copy(x, out);
  return out;
}

// Whether all elements of a matrix are finite.
int is_finite(Lowering& l, Matrix a) {
  int state[] = {l.number(true, bool_)};
  l.fold({a.rows(), a.columns()}, state, [&](Positions at, std::span<int> now) {
    const int value = l.add(ScalarOp::abs, a.get(at[0], at[1]));
    now[0] = l.add(
        ScalarOp::bit_and, now[0],
        l.add(ScalarOp::less, value, l.number(std::numeric_limits<double>::infinity(), l.builder().dtype(value))));
  });
  return state[0];
}

// ---- cholesky -----------------------------------------------------------------------------------

std::vector<Array> cholesky(const LoweringContext& c) {
  Lowering& l = c.l;
  const bool unrolled = is_small(c.in(0)), gives_nan = c.as<CholeskyAttributes>().nan_if_indefinite;
  const Index n = c.shape().back();
  const Dtype dtype = c.dtype();
  const int zero = l.number(0, dtype), half = l.number(0.5, dtype);
  // The factor is that of (a + a^T) / 2.
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
    // a[i, j] minus the products of the rows' elements before column j.
    const auto rest = [&](Position i, Position j) {
      const auto product = [&](Position k) { return l.add(ScalarOp::multiply, a.get(i, k), a.get(j, k)); };
      if (!unrolled) {
        LoweredBuilder& builder = l.builder();
        const int sum = builder.carried(zero);
        const Position k = Position::of(j.value < 0 ? builder.begin_loop(j.number) : builder.begin_loop_of(j.value));
        builder.next(sum, l.add(ScalarOp::add, sum, product(k)));
        builder.end_loop();
        return l.add(ScalarOp::subtract, a.get(i, j), sum);
      }
      if (j.number == 0) return a.get(i, j);
      int result = a.get(i, j), sum = zero;
      // The kernels subtract products one by one in matrices of 2, 3 and 4 rows.
      const bool one_by_one = n >= 2 && n <= 4;
      for (Index k = 0; k < j.number; ++k) {
        if (one_by_one) result = l.add(ScalarOp::subtract, result, product(k));
        else sum = l.add(ScalarOp::add, sum, product(k));
      }
      return one_by_one ? result : l.add(ScalarOp::subtract, result, sum);
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
    if (unrolled) {
      for (Index j = 0; j < n; ++j) is_definite = l.add(ScalarOp::bit_and, is_definite, column(j));
    } else {
      int state[] = {is_definite};
      l.fold(
          {n}, state, [&](Positions j, std::span<int> now) { now[0] = l.add(ScalarOp::bit_and, now[0], column(j[0])); },
          most_unrolled * most_unrolled * most_unrolled * most_unrolled);
      is_definite = state[0];
    }
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
  return {l.settled(out)};
}

// ---- triangles ----------------------------------------------------------------------------------

// Which triangle of a matrix a solution reads, and how.
struct Triangle {
  bool lower, transpose, unit;
};

// Solves t x = b for the columns of b, which becomes x.
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

std::vector<Array> triangular_solve(const LoweringContext& c) {
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
  return {l.settled(out)};
}

// ---- lu, solve, det -----------------------------------------------------------------------------

// A vector of positions in a stack.
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

// Factors matrices in place, with partial pivoting. exchange(k, row) is told that rows k and `row`
// (an int64) were exchanged in step k.
void factor(Lowering& l, Matrix a, bool unrolled, FunctionRef<void(Position, int)> exchange) {
  const Index m = a.rows(), n = a.columns();
  l.for_range(
      0, std::min(m, n),
      [&](Position k) {
        // The largest element of column k, the first one of several.
        const auto size = [&](Position i) { return l.add(ScalarOp::abs, a.get(i, k)); };
        int state[] = {size(k), l.value_of(k)};
        const auto look = [&](Position i, std::span<int> now) {
          const int value = size(i), wins = l.add(ScalarOp::less, now[0], value);
          now[0] = l.add(ScalarOp::select, wins, value, now[0]);
          now[1] = l.add(ScalarOp::select, wins, l.value_of(i), now[1]);
        };
        if (unrolled) {
          for (Index i = k.number + 1; i < m; ++i) look(i, state);
        } else {
          LoweredBuilder& builder = l.builder();
          const int first = l.value_of(after(l, k)), count = l.add(ScalarOp::subtract, l.index(m), first);
          const int carried[] = {builder.carried(state[0]), builder.carried(state[1])};
          const int step = builder.begin_loop_of(count);
          std::copy(carried, carried + 2, state);
          look(l.place_of(l.add(ScalarOp::add, step, first)), state);
          for (std::size_t s = 0; s < 2; ++s) builder.next(carried[s], state[s]);
          builder.end_loop();
          std::copy(carried, carried + 2, state);
        }
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
          const Position row = l.place_of(best);
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

std::vector<Array> lu(const LoweringContext& c) {
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
          const Position row = l.place_of(l.convert(best, int64));
          const int upper = entry(l, order, at, k), lower = entry(l, order, at, row);
          set_entry(l, order, at, k, lower);
          set_entry(l, order, at, row, upper);
        },
        unrolled);
  });
  return {l.settled(packed), l.settled(exchanges), l.settled(order)};
}

// solve(a, b, packed, order): by the factors of a that lu computed.
std::vector<Array> solve(const LoweringContext& c) {
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
    // The element of a column at a computed row. Of few rows, each is looked at.
    const auto picked = [&](Matrix& from, int row, Position k) {
      if (!unrolled) return from.get(l.place_of(l.convert(row, int64)), k);
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
    each([&](Position i, Position k) { x.set(l.place_of(l.convert(entry(l, order, at, i), int64)), k, y.get(i, k)); });
  });
  return {l.settled(out)};
}

// The determinant of up to three rows is a sum of products; else, and where that may have lost
// digits by underflow, it is the product of the pivots.
std::vector<Array> det(const LoweringContext& c) {
  Lowering& l = c.l;
  const Index n = c.in(0).shape.back();
  const bool unrolled = is_small(c.in(0));
  const Array packed = copied(l, c.in(0)), out = l.allocate(c.shape(), c.dtype());
  const auto wide = [&](int value) { return l.convert(value, float64); };
  const auto multiply = [&](int a, int b) { return l.add(ScalarOp::multiply, a, b); };
  const auto subtract = [&](int a, int b) { return l.add(ScalarOp::subtract, a, b); };
  for_stack(c, packed, unrolled, [&](Positions at) {
    Matrix a(l, packed, at);
    int tiny = -1;
    if (n > 0 && n <= 3) {
      const auto e = [&](Index r, Index k) { return wide(a.get(r, k)); };
      const auto minor = [&](Index p, Index q) {
        return subtract(multiply(e(1, p), e(2, q)), multiply(e(1, q), e(2, p)));
      };
      if (n == 1) tiny = e(0, 0);
      else if (n == 2) tiny = subtract(multiply(e(0, 0), e(1, 1)), multiply(e(0, 1), e(1, 0)));
      else
        tiny = l.add(ScalarOp::add, subtract(multiply(e(0, 0), minor(1, 2)), multiply(e(0, 1), minor(0, 2))),
                     multiply(e(0, 2), minor(0, 1)));
    }
    const int finite = is_finite(l, a);
    int product = l.number(1, float64);
    const Array signs = l.allocate({std::max<Index>(n, 1)}, float64);
    factor(l, a, unrolled, [&](Position k, int best) {
      const int one = l.number(1, float64), stays = l.add(ScalarOp::equal, best, l.value_of(k));
      l.store(signs, std::span(&k, 1), l.add(ScalarOp::select, stays, one, l.add(ScalarOp::negative, one)));
    });
    l.fold(
        {n}, std::span(&product, 1),
        [&](Positions k, std::span<int> now) {
          now[0] = multiply(now[0], multiply(wide(a.get(k[0], k[0])), l.element(signs, k)));
        },
        unrolled ? 1 : most_unrolled * 64);
    product = l.add(ScalarOp::select, finite, product, l.number(std::numeric_limits<double>::quiet_NaN(), float64));
    if (tiny >= 0) {
      const int size = l.add(ScalarOp::abs, tiny);
      const int is_good =
          l.add(ScalarOp::bit_and, l.add(ScalarOp::less, l.number(0x1p-900, float64), size),
                l.add(ScalarOp::less, size, l.number(std::numeric_limits<double>::infinity(), float64)));
      product = l.add(ScalarOp::select, is_good, tiny, product);
    }
    l.store(out, at, l.convert(product, c.dtype()));
  });
  return {l.settled(out)};
}

// The sign of the determinant, and the logarithm of its size as the sum of those of the pivots.
std::vector<Array> slogdet(const LoweringContext& c) {
  Lowering& l = c.l;
  const Index n = c.in(0).shape.back();
  const bool unrolled = is_small(c.in(0));
  const Array packed = copied(l, c.in(0));
  const Array signs = l.allocate(c.shape(0), c.dtype()), logarithms = l.allocate(c.shape(1), c.dtype());
  const auto number = [&](double value) { return l.number(value, float64); };
  for_stack(c, packed, unrolled, [&](Positions at) {
    Matrix a(l, packed, at);
    const int finite = is_finite(l, a);
    const Array exchanged = l.allocate({std::max<Index>(n, 1)}, float64);
    factor(l, a, unrolled, [&](Position k, int best) {
      const int stays = l.add(ScalarOp::equal, best, l.value_of(k));
      l.store(exchanged, std::span(&k, 1), l.add(ScalarOp::select, stays, number(1), number(-1)));
    });
    int state[] = {number(1), number(0)};
    l.fold(
        {n}, state,
        [&](Positions k, std::span<int> now) {
          const int pivot = l.convert(a.get(k[0], k[0]), float64);
          const int is_negative = l.add(ScalarOp::less, pivot, number(0)),
                    is_zero = l.add(ScalarOp::equal, pivot, number(0));
          const int sign =
              l.add(ScalarOp::select, is_negative, number(-1), l.add(ScalarOp::select, is_zero, number(0), number(1)));
          now[0] = l.add(ScalarOp::multiply, now[0], l.add(ScalarOp::multiply, sign, l.element(exchanged, k)));
          now[1] = l.add(ScalarOp::add, now[1], l.add(ScalarOp::log, l.add(ScalarOp::abs, pivot)));
        },
        unrolled ? 1 : most_unrolled * 64);
    const int nan = number(std::numeric_limits<double>::quiet_NaN());
    l.store(signs, at, l.convert(l.add(ScalarOp::select, finite, state[0], nan), c.dtype()));
    l.store(logarithms, at, l.convert(l.add(ScalarOp::select, finite, state[1], nan), c.dtype()));
  });
  return {l.settled(signs), l.settled(logarithms)};
}

}  // namespace

LoweringRule lowering_of_linalg(OpId id) {
  switch (id) {
    case OpId::cholesky: return cholesky;
    case OpId::triangular_solve: return triangular_solve;
    case OpId::lu: return lu;
    case OpId::solve: return solve;
    case OpId::det: return det;
    case OpId::slogdet: return slogdet;
    default: return nullptr;
  }
}

}  // namespace stave_detail
