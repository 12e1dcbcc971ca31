// Lowering of determinants and of the QR decomposition.
#include <algorithm>
#include <limits>
#include <numbers>

#include <stave/core/program/lower_matrix.h>

namespace stave_detail {

namespace {

// Factors a matrix in place, and returns a vector of float64: for each step -1 if it exchanged two
// rows, else 1.
Array factored_signs(Lowering& l, Matrix a, bool unrolled) {
  const Array signs = l.allocate({std::max<Index>(a.rows(), 1)}, float64);
  factor(l, a, unrolled, [&](Position k, int best) {
    const int stays = l.add(ScalarOp::equal, best, l.value_of(k));
    l.store(signs, std::span(&k, 1), l.add(ScalarOp::select, stays, l.number(1, float64), l.number(-1, float64)));
  });
  return signs;
}

// Factors a matrix in place, and returns the product of its pivots, with the sign of the row
// exchanges, as a mantissa and an exponent, so that no product overflows. Both are float64.
std::pair<int, int> product_of_pivots(Lowering& l, Matrix a, bool unrolled) {
  const Array signs = factored_signs(l, a, unrolled);
  int state[] = {l.number(1, float64), l.number(0, float64)};
  l.fold(
      {a.rows()}, state,
      [&](Positions k, std::span<int> now) {
        const int pivot = l.add(ScalarOp::multiply, l.convert(a.get(k[0], k[0]), float64), l.element(signs, k));
        const int product = l.add(ScalarOp::multiply, now[0], pivot);
        now[0] = l.add(ScalarOp::mantissa, product);
        now[1] = l.add(ScalarOp::add, now[1], l.add(ScalarOp::exponent, product));
      },
      unrolled ? 1 : 64 * 64);
  return {state[0], state[1]};
}

}  // namespace

// The determinant of a matrix of one to three rows is a sum of products (`tiny`). For other
// matrices, and where the sum is infinite, NaN, or so small that underflow may have cost digits, it
// is the product of the pivots.
Arrays lower_det(const LoweringContext& c) {
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
    const auto [mantissa, exponent] = product_of_pivots(l, a, unrolled);
    const int nan = l.number(std::numeric_limits<double>::quiet_NaN(), float64);
    int product = l.add(ScalarOp::select, finite, l.add(ScalarOp::ldexp, mantissa, exponent), nan);
    if (tiny >= 0) {
      const int is_large = l.add(ScalarOp::less, l.number(0x1p-900, float64), l.add(ScalarOp::abs, tiny));
      const int is_good = l.add(ScalarOp::bit_and, is_large, l.is_finite(tiny));
      product = l.add(ScalarOp::select, is_good, tiny, product);
    }
    l.store(out, at, l.convert(product, c.dtype()));
  });
  return {l.preloaded(out)};
}

// The sign of the determinant, and the logarithm of its absolute value.
Arrays lower_slogdet(const LoweringContext& c) {
  Lowering& l = c.l;
  const bool unrolled = is_small(c.in(0));
  const Array packed = copied(l, c.in(0));
  const Array signs = l.allocate(c.shape(0), c.dtype()), logarithms = l.allocate(c.shape(1), c.dtype());
  const auto number = [&](double value) { return l.number(value, float64); };
  for_stack(c, packed, unrolled, [&](Positions at) {
    Matrix a(l, packed, at);
    const int finite = is_finite(l, a);
    const auto [mantissa, exponent] = product_of_pivots(l, a, unrolled);
    const auto choose = [&](int condition, int x, int y) { return l.add(ScalarOp::select, condition, x, y); };
    const int sign = choose(l.add(ScalarOp::less, number(0), mantissa), number(1),
                            choose(l.add(ScalarOp::less, mantissa, number(0)), number(-1), number(0)));
    const int logarithm = l.add(ScalarOp::add, l.add(ScalarOp::log, l.add(ScalarOp::abs, mantissa)),
                                l.add(ScalarOp::multiply, exponent, number(std::numbers::ln2)));
    const int nan = number(std::numeric_limits<double>::quiet_NaN());
    const int is_number = l.add(ScalarOp::bit_and, finite, l.add(ScalarOp::equal, mantissa, mantissa));
    l.store(signs, at, l.convert(choose(is_number, sign, nan), c.dtype()));
    l.store(logarithms, at, l.convert(choose(finite, logarithm, nan), c.dtype()));
  });
  return {l.preloaded(signs), l.preloaded(logarithms)};
}

// ---- qr -----------------------------------------------------------------------------------------

namespace {

// Applies the Householder reflection 1 - tau v v^T to rows k, k + 1, ... of the columns [first,
// end) of x. v is 1, then the elements of column k of `a` below its diagonal.
void reflect(Lowering& l, Matrix x, Matrix a, Position k, int tau, Position first, Position end, bool unrolled) {
  const int is_zero = l.add(ScalarOp::equal, tau, l.number(0, l.builder().dtype(tau)));
  const int minus = l.add(ScalarOp::negative, tau);
  l.for_range(
      first, end,
      [&](Position j) {
        const int top = x.get(k, j);
        int sum[] = {top};
        l.fold_range(
            after(l, k), a.rows(), sum,
            [&](Position i, std::span<int> now) {
              now[0] = l.add(ScalarOp::add, now[0], l.add(ScalarOp::multiply, a.get(i, k), x.get(i, j)));
            },
            unrolled);
        const int scaled = l.add(ScalarOp::multiply, sum[0], minus);
        const auto add = [&](Position i, int old, int term) {
          x.set(i, j, l.add(ScalarOp::select, is_zero, old, l.add(ScalarOp::add, old, term)));
        };
        add(k, top, scaled);
        l.for_range(
            after(l, k), a.rows(),
            [&](Position i) { add(i, x.get(i, j), l.add(ScalarOp::multiply, a.get(i, k), scaled)); }, unrolled);
      },
      unrolled);
}

// The power of two by which a matrix is scaled, so that squares neither overflow nor underflow. It
// is 1 unless the largest absolute value of an element is very large or small.
int safe_scale(Lowering& l, Matrix a, bool unrolled) {
  const Dtype dtype = l.builder().dtype(a.get(0, 0));
  const auto number = [&](double value) { return l.number(value, dtype); };
  int largest[] = {number(0)};
  l.fold_range(
      0, a.rows(), largest,
      [&](Position i, std::span<int> now) {
        l.fold_range(
            0, a.columns(), now,
            [&](Position j, std::span<int> inner) {
              const int size = l.add(ScalarOp::abs, a.get(i, j));
              inner[0] = l.add(ScalarOp::select, l.add(ScalarOp::less, inner[0], size), size, inner[0]);
            },
            unrolled);
      },
      unrolled);
  const bool is_wide = dtype == float64;
  const int is_large = l.add(ScalarOp::less_equal, number(is_wide ? 0x1p400 : 0x1p50), largest[0]);
  const int is_tiny =
      l.add(ScalarOp::bit_and, l.add(ScalarOp::less_equal, largest[0], number(is_wide ? 0x1p-400 : 0x1p-50)),
            l.add(ScalarOp::less, number(0), largest[0]));
  return l.add(ScalarOp::select, is_large, number(is_wide ? 0x1p-700 : 0x1p-90),
               l.add(ScalarOp::select, is_tiny, number(is_wide ? 0x1p700 : 0x1p90), number(1)));
}

}  // namespace

Arrays lower_qr(const LoweringContext& c) {
  Lowering& l = c.l;
  const bool unrolled = is_small(c.in(0));
  const Dtype dtype = c.dtype();
  const Array work = copied(l, c.in(0)), q = l.allocate(c.shape(0), dtype);
  const Index m = work.shape[work.shape.size() - 2], n = work.shape.back(), p = c.shape(0).back();
  const int zero = l.number(0, dtype), one = l.number(1, dtype);
  for_stack(c, work, unrolled, [&](Positions at) {
    Matrix a(l, work, at), orthogonal(l, q, at);
    const Array taus = l.allocate({std::max<Index>(n, 1)}, dtype);
    const auto each = [&](Index rows, Index columns, FunctionRef<void(Position, Position)> body) {
      l.for_range(
          0, rows,
          [&](Position i) {
            l.for_range(
                0, columns, [&](Position j) { body(i, j); }, unrolled);
          },
          unrolled);
    };
    const int finite = is_finite(l, a), factor = n == 0 ? one : safe_scale(l, a, unrolled);
    each(m, n, [&](Position i, Position j) { a.set(i, j, l.add(ScalarOp::multiply, a.get(i, j), factor)); });
    l.for_range(
        0, n,
        [&](Position k) {
          int squares[] = {zero};
          l.fold_range(
              after(l, k), m, squares,
              [&](Position i, std::span<int> now) {
                now[0] = l.add(ScalarOp::add, now[0], l.add(ScalarOp::multiply, a.get(i, k), a.get(i, k)));
              },
              unrolled);
          const int first = a.get(k, k), nothing = l.add(ScalarOp::equal, squares[0], zero);
          const int length =
              l.add(ScalarOp::sqrt, l.add(ScalarOp::add, l.add(ScalarOp::multiply, first, first), squares[0]));
          const int head =
              l.add(ScalarOp::select, l.add(ScalarOp::less, first, zero), length, l.add(ScalarOp::negative, length));
          const int tau = l.add(ScalarOp::divide, l.add(ScalarOp::subtract, head, first), head);
          const int scale = l.add(ScalarOp::divide, one, l.add(ScalarOp::subtract, first, head));
          const int used_tau = l.add(ScalarOp::select, nothing, zero, tau);
          l.store(taus, std::span(&k, 1), used_tau);
          a.set(k, k, l.add(ScalarOp::select, nothing, first, head));
          const int used_scale = l.add(ScalarOp::select, nothing, one, scale);
          l.for_range(
              after(l, k), m, [&](Position i) { a.set(i, k, l.add(ScalarOp::multiply, a.get(i, k), used_scale)); },
              unrolled);
          reflect(l, a, a, k, used_tau, after(l, k), n, unrolled);
        },
        unrolled);
    each(m, p, [&](Position i, Position j) {
      orthogonal.set(i, j, l.add(ScalarOp::select, l.add(ScalarOp::equal, l.value_of(i), l.value_of(j)), one, zero));
    });
    l.for_range(
        0, n,
        [&](Position step) {
          const Position k = l.shifted(step, n - 1, -1);
          reflect(l, orthogonal, a, k, l.element(taus, std::span(&k, 1)), k, p, unrolled);
        },
        unrolled);
    const int nan = l.number(std::numeric_limits<double>::quiet_NaN(), dtype);
    const int back = l.add(ScalarOp::divide, one, factor);
    each(m, p, [&](Position i, Position j) {
      orthogonal.set(i, j, l.add(ScalarOp::select, finite, orthogonal.get(i, j), nan));
    });
    each(p, n, [&](Position i, Position j) {
      const int is_below = l.add(ScalarOp::less, l.value_of(j), l.value_of(i));
      const int scaled = l.add(ScalarOp::multiply, a.get(i, j), back);
      a.set(i, j, l.add(ScalarOp::select, finite, l.add(ScalarOp::select, is_below, zero, scaled), nan));
    });
  });
  return {l.preloaded(q), l.preloaded(Lowering::view(work, c.shape(1), work.strides))};
}

}  // namespace stave_detail
