// Linear algebra. Matrices are a well-conditioned one, with entries 3, 6, 9, ... on the diagonal, and a random one besides, so that
// every layout, in which whole rows repeat, is as good as another. How operands that lie otherwise reach the kernels is
// linalg_test's.
//
// References are textbook loops in long double: elimination, Jacobi's rotations, reflections, series.

#include <algorithm>
#include <cmath>
#include <limits>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

// ---- matrices ----------------------------------------------------------------------------------------------------------------

struct Matrix {
  Index rows = 0, columns = 0;
  std::vector<Real> values = {};

  Matrix() = default;
  Matrix(Index m, Index n) : rows(m), columns(n), values(static_cast<std::size_t>(m * n)) {}
  Real& operator()(Index r, Index c) { return values[static_cast<std::size_t>(r * columns + c)]; }
  Real operator()(Index r, Index c) const { return values[static_cast<std::size_t>(r * columns + c)]; }
};
using Matrices = std::vector<Matrix>;

Matrix identity(Index m, Index n) {
  Matrix x(m, n);
  for (Index i = 0; i < std::min(m, n); ++i) x(i, i) = 1;
  return x;
}
Matrix transposed(const Matrix& x) {
  Matrix y(x.columns, x.rows);
  for (Index r = 0; r < y.rows; ++r)
    for (Index c = 0; c < y.columns; ++c) y(r, c) = x(c, r);
  return y;
}
Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix y(a.rows, b.columns);
  for (Index r = 0; r < y.rows; ++r)
    for (Index c = 0; c < y.columns; ++c)
      for (Index k = 0; k < a.columns; ++k) y(r, c) += a(r, k) * b(k, c);
  return y;
}
Matrix columns_of(const Matrix& x, Index count) {
  Matrix y(x.rows, count);
  for (Index r = 0; r < x.rows; ++r)
    for (Index c = 0; c < count; ++c) y(r, c) = x(r, c);
  return y;
}
Matrix symmetric(const Matrix& x) {
  Matrix y = x;
  for (Index r = 0; r < x.rows; ++r)
    for (Index c = 0; c < x.rows; ++c) y(r, c) = (x(r, c) + x(c, r)) / 2;
  return y;
}
Matrix number(Real x) {
  Matrix y(1, 1);
  y(0, 0) = x;
  return y;
}

/// p a = l u by partial pivoting, packed; where each row came from, the row that each was exchanged with, and the sign of p.
struct Elimination {
  Matrix packed;
  std::vector<Index> order, exchanges;
  int sign = 1;

  explicit Elimination(Matrix a) : packed(std::move(a)) {
    for (Index r = 0; r < packed.rows; ++r) order.push_back(r);
    for (Index k = 0; k < std::min(packed.rows, packed.columns); ++k) {
      Index best = k;
      for (Index r = k + 1; r < packed.rows; ++r)
        if (std::abs(packed(r, k)) > std::abs(packed(best, k))) best = r;
      exchanges.push_back(best);
      if (best != k) sign = -sign;
      std::swap(order[static_cast<std::size_t>(k)], order[static_cast<std::size_t>(best)]);
      for (Index c = 0; c < packed.columns; ++c) std::swap(packed(k, c), packed(best, c));
      for (Index r = k + 1; r < packed.rows; ++r) {
        packed(r, k) /= packed(k, k);
        for (Index c = k + 1; c < packed.columns; ++c) packed(r, c) -= packed(r, k) * packed(k, c);
      }
    }
  }
  Real determinant() const {
    Real product = sign;
    for (Index k = 0; k < packed.rows; ++k) product *= packed(k, k);
    return product;
  }
};

Matrix solved(const Matrix& a, const Matrix& b) {
  const Elimination lu(a);
  Matrix x(b.rows, b.columns);
  for (Index c = 0; c < b.columns; ++c) {
    for (Index r = 0; r < b.rows; ++r) {
      x(r, c) = b(lu.order[static_cast<std::size_t>(r)], c);
      for (Index k = 0; k < r; ++k) x(r, c) -= lu.packed(r, k) * x(k, c);
    }
    for (Index r = b.rows; r-- > 0;) {
      for (Index k = r + 1; k < b.rows; ++k) x(r, c) -= lu.packed(r, k) * x(k, c);
      x(r, c) /= lu.packed(r, r);
    }
  }
  return x;
}

/// Jacobi: eigenvalues ascending, and the vectors as columns.
std::pair<std::vector<Real>, Matrix> eigen(Matrix a) {
  const Index n = a.rows;
  Matrix v = identity(n, n);
  for (int sweep = 0; sweep < 60; ++sweep)
    for (Index p = 0; p < n; ++p)
      for (Index q = p + 1; q < n; ++q) {
        if (a(p, q) == 0) continue;
        const Real angle = std::atan2(2 * a(p, q), a(q, q) - a(p, p)) / 2, c = std::cos(angle), s = std::sin(angle);
        const auto turn = [&](Real& x, Real& y) {
          const Real z = c * x - s * y;
          y = s * x + c * y;
          x = z;
        };
        for (Index k = 0; k < n; ++k) turn(a(k, p), a(k, q));
        for (Index k = 0; k < n; ++k) turn(a(p, k), a(q, k));
        for (Index k = 0; k < n; ++k) turn(v(k, p), v(k, q));
      }
  std::vector<Index> order;
  for (Index i = 0; i < n; ++i) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](Index i, Index j) { return a(i, i) < a(j, j); });
  std::vector<Real> values;
  Matrix vectors(n, n);
  for (Index i = 0; i < n; ++i) {
    const Index from = order[static_cast<std::size_t>(i)];
    values.push_back(a(from, from));
    for (Index k = 0; k < n; ++k) vectors(k, i) = v(k, from);
  }
  return {values, vectors};
}

/// Of a matrix of full rank, by the eigenvalues of x^T x: singular values descending, and the vectors as columns.
struct Singular {
  std::vector<Real> values;
  Matrix u, v;

  explicit Singular(const Matrix& x) {
    if (x.rows < x.columns) {
      Singular other(transposed(x));
      *this = {other.values, other.v, other.u};
      return;
    }
    auto [squares, vectors] = eigen(transposed(x) * x);
    v = Matrix(x.columns, x.columns);
    for (Index i = 0; i < x.columns; ++i) {
      values.push_back(std::sqrt(squares[static_cast<std::size_t>(x.columns - 1 - i)]));
      for (Index k = 0; k < x.columns; ++k) v(k, i) = vectors(k, x.columns - 1 - i);
    }
    u = x * v;
    for (Index r = 0; r < u.rows; ++r)
      for (Index c = 0; c < u.columns; ++c) u(r, c) /= values[static_cast<std::size_t>(c)];
  }
  Singular(std::vector<Real> s, Matrix left, Matrix right)
      : values(std::move(s)), u(std::move(left)), v(std::move(right)) {}
};

/// What projects out of the span of x's orthonormal columns.
Matrix outside(const Matrix& x) {
  Matrix y = x * transposed(x);
  for (Index r = 0; r < y.rows; ++r)
    for (Index c = 0; c < y.rows; ++c) y(r, c) = (r == c) - y(r, c);
  return y;
}
Matrix squares(Matrix x) {
  for (Real& value : x.values) value *= value;
  return x;
}
Matrix column(const std::vector<Real>& xs) {
  Matrix y(static_cast<Index>(xs.size()), 1);
  y.values = xs;
  return y;
}

Matrix cholesky_of(const Matrix& x) {
  const Matrix a = symmetric(x);
  Matrix l(a.rows, a.rows);
  for (Index r = 0; r < a.rows; ++r)
    for (Index c = 0; c <= r; ++c) {
      Real left = a(r, c);
      for (Index k = 0; k < c; ++k) left -= l(r, k) * l(c, k);
      l(r, c) = r == c ? std::sqrt(left) : left / l(c, c);
    }
  return l;
}

/// By reflections, where there is something below the diagonal: they turn the sign of what is on it.
std::pair<Matrix, Matrix> qr_of(const Matrix& a) {
  Matrix q = identity(a.rows, a.rows), r = a;
  for (Index k = 0; k < std::min(a.rows - 1, a.columns); ++k) {
    Matrix v(a.rows, 1);
    Real length = 0, below = 0;
    for (Index i = k + 1; i < a.rows; ++i) below += r(i, k) * r(i, k);
    if (below == 0) continue;
    for (Index i = k; i < a.rows; ++i) length += r(i, k) * r(i, k);
    length = std::sqrt(length);
    for (Index i = k; i < a.rows; ++i) v(i, 0) = r(i, k);
    v(k, 0) += r(k, k) < 0 ? -length : length;
    Real square = 0;
    for (Real x : v.values) square += x * x;
    Matrix h = v * transposed(v);
    for (Index i = 0; i < h.rows; ++i)
      for (Index j = 0; j < h.rows; ++j) h(i, j) = (i == j) - 2 * h(i, j) / square;
    r = h * r;
    q = q * h;
  }
  for (Index i = 0; i < r.rows; ++i)
    for (Index j = 0; j < std::min(i, r.columns); ++j) r(i, j) = 0;
  return {q, r};
}

Matrix exponential(Matrix x) {
  constexpr int halvings = 3;
  for (Real& value : x.values) value = std::ldexp(value, -halvings);
  Matrix sum = identity(x.rows, x.rows), term = sum;
  for (int k = 1; k < 40; ++k) {
    term = term * x;
    for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += (term.values[i] /= k);
  }
  for (int i = 0; i < halvings; ++i) sum = sum * sum;
  return sum;
}

Matrix pseudo_inverse(const Matrix& a) {
  const Matrix t = transposed(a);
  return a.rows >= a.columns ? solved(t * a, t) : transposed(solved(a * t, a));
}

// ---- stacks ------------------------------------------------------------------------------------------------------------------

Shape stack_of(const Array& x) { return part(x.shape, 0, x.shape.rank() - 2); }

Matrix matrix_at(const Array& x, const Shape& at) {
  Matrix y(x.shape[x.shape.size() - 2], x.shape.back());
  const Shape place = broadcast_position(stack_of(x), at);
  for (Index r = 0; r < y.rows; ++r)
    for (Index c = 0; c < y.columns; ++c) y(r, c) = x(concatenated(place, Shape(r, c)));
  return y;
}

/// f of each matrix of the stacks, which broadcast; result k keeps kept[k] axes of its matrix.
Arrays of_stacks(Dtype dtype, std::span<const Array> xs, std::vector<int> kept,
                 const std::function<Matrices(std::span<const Matrix>)>& f) {
  Shape stack;
  Matrices sample;  // of an empty stack: zeros tell the shapes
  for (const Array& x : xs) {
    stack = broadcast_shape(stack, stack_of(x));
    sample.push_back(identity(x.shape[x.shape.size() - 2], x.shape.back()));
  }
  sample = f(sample);
  std::vector<std::vector<Real>> values(kept.size());
  for_each_position(stack, [&](const Shape& at) {
    Matrices operands;
    for (const Array& x : xs) operands.push_back(matrix_at(x, at));
    const Matrices found = f(operands);
    for (std::size_t k = 0; k < kept.size(); ++k)
      values[k].insert(values[k].end(), found[k].values.begin(), found[k].values.end());
  });
  Arrays results;
  for (std::size_t k = 0; k < kept.size(); ++k) {
    const Shape of_matrix = kept[k] == 2   ? Shape(sample[k].rows, sample[k].columns)
                            : kept[k] == 1 ? Shape(static_cast<Index>(sample[k].values.size()))
                                           : Shape();
    Array result{dtype, concatenated(stack, of_matrix), values[k]};
    Real largest = 0.1L;
    for (Real value : result.values) largest = std::max(largest, std::abs(value));
    result.magnitude.assign(result.values.size(), largest);
    results.push_back(result);
  }
  return results;
}

// ---- rows --------------------------------------------------------------------------------------------------------------------

/// What is added to random numbers in [-1, 1].
Array base(Dtype dtype, Index m, Index n, bool turned) {
  const Index k = std::min(m, n);
  return make(dtype, {m, n},
              [&](const Shape& p) { return p[0] == (turned ? k - 1 - p[1] : p[1]) ? 3 * (p[0] + 1) : 0; });
}
Domain besides(Dtype dtype) {
  if (!is_half_float(dtype)) return {-1, 1};
  Domain eighths;  // so that half floats add them exactly
  for (int i = 1; i <= 8; ++i) eighths.choices.insert(eighths.choices.end(), {i / 8.0L, -i / 8.0L});
  return eighths;
}

Tensor with_base(const Tensor& x, bool turned = false) {
  return x + to_tensor(base(as_number(x.dtype()), x.shape(-2), x.shape(-1), turned));
}
Array with_base(const Array& x, bool turned = false) {
  const Array b = base(as_number(x.dtype), x.shape[x.shape.size() - 2], x.shape.back(), turned);
  return mapped(as_number(x.dtype), x, b, [](Real p, Real q) { return p + q; });
}

using OfMatrices = std::function<Matrices(std::span<const Matrix>)>;
using Function = std::function<Outputs(const Tensor&)>;

/// f of one stack of matrices.
Variant of_matrix(const std::string& name, Dtype dtype, const Shape& shape, std::vector<int> kept, const Function& f,
                  const OfMatrices& reference, bool turned = false) {
  return {.name = name + shape.str(),
          .inputs = {{dtype, shape, besides(dtype)}},
          .call = [=](auto xs) { return f(with_base(xs[0], turned)); },
          .reference =
              [=](auto xs) {
                const Array x = with_base(xs[0], turned);
                return of_stacks(as_float(dtype), std::span(&x, 1), kept, reference);
              }};
}

const std::vector<Shape> squares_of = {{3, 3}, {2, 4, 4}, {1, 1}, {0, 3, 3}, {0, 0}};
const std::vector<Shape> rectangles = {{3, 3}, {2, 4, 3}, {3, 4}, {4, 2}, {2, 3}, {0, 3, 2}};

Variant refuse_number(Dtype dtype, const Function& f) {
  return {.name = "()",
          .inputs = {{dtype, {}}},
          .call = [=](auto xs) { return f(xs[0]); },
          .refusal = "fewer than the 2 axes"};
}
Variant refuse_rectangle(Dtype dtype, const Function& f) {
  return {.name = "(2, 3)",
          .inputs = {{dtype, {2, 3}}},
          .call = [=](auto xs) { return f(xs[0]); },
          .refusal = "is not of square matrices"};
}

Row row_of(const std::string& name, std::vector<std::string> also,
           std::function<std::vector<Variant>(Dtype)> variants) {
  return {.name = name,
          .dtypes = all_dtypes,
          .variants = std::move(variants),
          .also = std::move(also),
          .accuracy = 32,
          .bitwise = false};
}

/// A row of a function of square matrices.
Row of_squares(const std::string& name, std::vector<int> kept, const Function& f, const OfMatrices& reference) {
  return row_of(name, {}, [=](Dtype dtype) {
    std::vector<Variant> variants;
    for (const Shape& shape : squares_of) variants.push_back(of_matrix("", dtype, shape, kept, f, reference));
    variants.push_back(refuse_number(dtype, f));
    variants.push_back(refuse_rectangle(dtype, f));
    return variants;
  });
}
/// A row of a function of any matrices.
Row of_rectangles(const std::string& name, std::vector<int> kept, const Function& f, const OfMatrices& reference) {
  return row_of(name, {}, [=](Dtype dtype) {
    std::vector<Variant> variants;
    for (const Shape& shape : rectangles) variants.push_back(of_matrix("", dtype, shape, kept, f, reference));
    variants.push_back(refuse_number(dtype, f));
    return variants;
  });
}

/// f of a stack of matrices and right sides; `turned`: pivots are needed.
Row of_systems(const std::string& name, bool square, const std::function<Tensor(const Tensor&, const Tensor&)>& f,
               const std::function<Matrix(const Matrix&, const Matrix&)>& reference, bool turned) {
  return row_of(name, {}, [=](Dtype dtype) {
    std::vector<std::pair<Shape, Shape>> shapes = {
        {{3, 3}, {3, 2}},    {{3, 3}, {3}},    {{2, 3, 3}, {2, 3, 2}}, {{2, 1, 3, 3}, {4, 3, 1}},
        {{3, 3}, {2, 3, 2}}, {{2, 3, 3}, {3}}, {{0, 3, 3}, {3, 2}},    {{3, 3}, {3, 0}}};
    if (!square)
      shapes = {{{4, 3}, {4, 2}}, {{3, 4}, {3}}, {{2, 4, 2}, {4, 1}}, {{3, 3}, {2, 3, 2}}, {{0, 3, 2}, {3, 2}}};
    std::vector<Variant> variants;
    for (const auto& [a, b] : shapes) {
      const bool vector = b.rank() == 1;
      variants.push_back({.name = a.str() + " " + b.str(),
                          .inputs = {{dtype, a, besides(dtype)}, {dtype, b, besides(dtype)}},
                          .call = [=](auto xs) { return f(with_base(xs[0], turned), xs[1]); },
                          .reference =
                              [=](auto xs) {
                                Array sides = xs[1];
                                if (vector) sides.shape.push_back(1);
                                const Array operands[] = {with_base(xs[0], turned), sides};
                                return of_stacks(as_float(dtype), operands, {vector ? 1 : 2},
                                                 [&](auto ms) { return Matrices{reference(ms[0], ms[1])}; });
                              }});
    }
    variants.push_back({.name = "() (3)",
                        .inputs = {{dtype, {}}, {dtype, {3}}},
                        .call = [=](auto xs) { return f(xs[0], xs[1]); },
                        .refusal = "fewer than the 2 axes"});
    variants.push_back({.name = "(3, 3) (2, 1)",
                        .inputs = {{dtype, {3, 3}}, {dtype, {2, 1}}},
                        .call = [=](auto xs) { return f(xs[0], xs[1]); },
                        .refusal = "right sides [2,1] do not fit matrices [3,3]"});
    return variants;
  });
}

Matrix solve_triangle(Matrix a, const Matrix& b, const TriangularOptions& options) {
  for (Index r = 0; r < a.rows; ++r)
    for (Index c = 0; c < a.rows; ++c) {
      if (r == c && options.unit_diagonal) a(r, c) = 1;
      if (options.lower ? r < c : r > c) a(r, c) = 0;
    }
  return solved(options.transpose ? transposed(a) : a, b);
}

// ---- factors -----------------------------------------------------------------------------------------------------------------

/// Vectors are known but for their signs: their squares are compared, which have derivatives as they have.
Outputs eigh_without_signs(const Tensor& a) {
  const auto [w, v] = eigh(a);
  return {w, square(v)};
}
Outputs svd_without_signs(const Tensor& a, bool full) {
  const auto [u, s, vh] = svd(a, {.full_matrices = full});
  return {square(u), s, square(vh)};
}
/// Of full matrices the first columns, and projections onto the others.
Outputs full_svd_without_signs(const Tensor& a) {
  const auto [u, s, vh] = svd(a);
  const Index k = s.shape(-1);
  const Tensor u1 = u(ellipsis, slice(k)), v1 = vh(ellipsis, slice(k), slice());
  const Tensor u2 = u(ellipsis, slice(k, none)), v2 = vh(ellipsis, slice(k, none), slice());
  return {square(u1), s, square(v1), matmul(u2, matrix_transpose(u2)), matmul(matrix_transpose(v2), v2)};
}

std::vector<Variant> qr_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const auto reduced = [](const Tensor& a) -> Outputs {
    const auto [q, r] = qr(a);
    return {q, r};
  };
  for (const Shape& shape : rectangles)
    variants.push_back(of_matrix("", dtype, shape, {2, 2}, reduced, [](auto xs) {
      const auto [q, r] = qr_of(xs[0]);
      const Index k = std::min(q.rows, r.columns);
      return Matrices{columns_of(q, k), transposed(columns_of(transposed(r), k))};
    }));
  // Of q's columns beyond n the projection onto what they span.
  const auto complete = [](const Tensor& a) -> Outputs {
    const auto [q, r] = qr(a, {.complete = true});
    const Index k = std::min(a.shape(-1), a.shape(-2));
    const Tensor beyond = q(ellipsis, slice(k, none));
    return {q(ellipsis, slice(k)), matmul(beyond, matrix_transpose(beyond)), r};
  };
  for (const Shape& shape : {Shape{4, 2}, Shape{2, 3, 3}, Shape{3, 2}})
    variants.push_back(of_matrix("complete ", dtype, shape, {2, 2, 2}, complete, [](auto xs) {
      const auto [q, r] = qr_of(xs[0]);
      const Matrix first = columns_of(q, std::min(q.rows, r.columns));
      return Matrices{first, outside(first), r};
    }));
  variants.push_back(refuse_number(dtype, reduced));
  return variants;
}

Matrices lu_of(const Matrix& a, bool packed) {
  const Elimination lu(a);
  const Index m = a.rows, n = a.columns, k = std::min(m, n);
  std::vector<Real> order(lu.order.begin(), lu.order.end()), exchanges(lu.exchanges.begin(), lu.exchanges.end());
  if (packed) return {lu.packed, column(exchanges), column(order)};
  Matrix p(m, m), l(m, k), u(k, n);
  for (Index i = 0; i < m; ++i) p(lu.order[static_cast<std::size_t>(i)], i) = 1;
  for (Index r = 0; r < m; ++r)
    for (Index c = 0; c < k; ++c) l(r, c) = r == c ? 1 : r > c ? lu.packed(r, c) : 0;
  for (Index r = 0; r < k; ++r)
    for (Index c = r; c < n; ++c) u(r, c) = lu.packed(r, c);
  return {p, l, u};
}

std::vector<Variant> lu_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const auto three = [](const Tensor& a) -> Outputs {
    const auto [p, l, u] = lu(a);
    return {p, l, u};
  };
  const auto packed = [](const Tensor& a) -> Outputs { return std::get<0>(lu_factor(a)); };
  const auto places = [](const Tensor& a) -> Outputs {
    const auto [both, exchanges, order] = lu_factor(a);
    return {exchanges, order};
  };
  for (const Shape& shape : rectangles) {
    variants.push_back(of_matrix(
        "", dtype, shape, {2, 2, 2}, three, [](auto xs) { return lu_of(xs[0], false); }, true));
    variants.push_back(of_matrix(
        "packed ", dtype, shape, {2}, packed, [](auto xs) { return Matrices{lu_of(xs[0], true)[0]}; }, true));
    Variant variant = of_matrix(
        "places ", dtype, shape, {1, 1}, places,
        [](auto xs) {
          const Matrices found = lu_of(xs[0], true);
          return Matrices{found[1], found[2]};
        },
        true);
    variant.reference = [reference = variant.reference](auto xs) {
      Arrays found = reference(xs);
      found[0].dtype = found[1].dtype = int32;
      return found;
    };
    variant.differentiable = false;
    variants.push_back(variant);
  }
  variants.push_back(refuse_number(dtype, three));
  return variants;
}

// ---- norms -------------------------------------------------------------------------------------------------------------------

Real norm_of(const Matrix& x, const MatrixOrder& order) {
  const std::vector<Real> s = Singular(x).values;
  Real sum = 0, squares = 0;
  for (Real value : s) sum += value, squares += value * value;
  if (order.kind() == MatrixOrder::Kind::frobenius) return std::sqrt(squares);
  if (order.kind() == MatrixOrder::Kind::nuclear) return sum;
  if (order.number() == 2) return s.front();
  if (order.number() == -2) return s.back();
  const Matrix y = std::isinf(order.number()) ? x : transposed(x);
  std::vector<Real> sums(static_cast<std::size_t>(y.rows));
  for (Index r = 0; r < y.rows; ++r)
    for (Index c = 0; c < y.columns; ++c) sums[static_cast<std::size_t>(r)] += std::abs(y(r, c));
  return order.number() > 0 ? *std::max_element(sums.begin(), sums.end()) : *std::min_element(sums.begin(), sums.end());
}

const double infinity = std::numeric_limits<double>::infinity();

std::vector<Variant> matrix_norm_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const std::vector<std::pair<std::string, MatrixOrder>> orders = {{"fro", "fro"},    {"nuc", "nuc"},     {"1", 1},
                                                                   {"-1", -1},        {"2", 2},           {"-2", -2},
                                                                   {"inf", infinity}, {"-inf", -infinity}};
  for (const auto& [name, order] : orders)
    for (const Shape& shape : {Shape{3, 3}, Shape{2, 4, 3}, Shape{2, 3}, Shape{0, 2, 2}})
      variants.push_back(of_matrix(
          name + " ", dtype, shape, {0}, [order = order](const Tensor& x) { return matrix_norm(x, order); },
          [order = order](auto xs) { return Matrices{number(norm_of(xs[0], order))}; }));
  variants.push_back(refuse_number(dtype, [](const Tensor& x) { return matrix_norm(x); }));
  return variants;
}

// Signs are not seen.
Tensor signed_of(const Tensor& x) { return is_float(x.dtype()) ? -x : x; }

/// Elements that tie at `at` share the infinite norms.
Array vector_norm_of(Dtype dtype, const Array& at, const Array& x, double order, std::optional<Index> axis) {
  const auto over = [&](const Shape& p) {
    std::vector<Real> sizes, there;
    const auto take = [&](const Shape& q) {
      sizes.push_back(std::abs(x(q)));
      there.push_back(std::abs(at(q)));
    };
    if (axis)
      for (Index i = 0; i < x.shape[static_cast<std::size_t>(*axis)]; ++i) take(with_axis(p, *axis, i));
    else for_each_position(x.shape, take);
    if (sizes.empty()) return Real(0);
    Real sum = 0, count = 0;
    const Real extreme =
        order > 0 ? *std::max_element(there.begin(), there.end()) : *std::min_element(there.begin(), there.end());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (std::isinf(order) && there[i] != extreme) continue;
      sum += std::isinf(order) ? sizes[i] : std::pow(sizes[i], static_cast<Real>(order));
      count += 1;  // none is 0
    }
    if (std::isinf(order)) return sum / count;
    return order == 0 ? count : std::pow(sum, 1 / static_cast<Real>(order));
  };
  return make(as_float(dtype), axis ? without_axis(x.shape, *axis) : Shape(), over);
}

Variant vector_norm_of(Dtype dtype, const Shape& shape, double order, std::optional<Index> axis) {
  return {.name = std::to_string(order) + shape.str() + (axis ? " along " + std::to_string(*axis) : ""),
          .inputs = {{dtype, shape, {0.3, 3}}},
          .call =
              [=](auto xs) {
                const Tensor x = signed_of(xs[0]);
                return axis ? vector_norm(x, order, *axis) : vector_norm(x, order);
              },
          .reference = [=](auto xs) { return Arrays{vector_norm_of(dtype, xs[0], xs[0], order, axis)}; },
          .smooth = [=](auto at, auto xs) { return Arrays{vector_norm_of(dtype, at[0], xs[0], order, axis)}; },
          .differentiable = order != 0};
}

std::vector<Variant> vector_norm_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const double order : {2., 1., 3., 2.5, 0.5, -1., -2., 0., infinity, -infinity})
    for (const auto& [shape, axis] :
         std::vector<std::pair<Shape, std::optional<Index>>>{{{5}, {}}, {{2, 3}, {}}, {{2, 3, 2}, 1}, {{0, 3}, 1}})
      if (!(shape.elements() == 0 && std::isinf(order) && !axis))
        variants.push_back(vector_norm_of(dtype, shape, order, axis));
  variants.push_back(vector_norm_of(dtype, {}, 2, {}));
  variants.push_back(vector_norm_of(dtype, {}, 3, {}));
  return variants;
}

// ---- products ----------------------------------------------------------------------------------------------------------------

Matrix power_of(Matrix x, Index n) {
  if (n < 0) x = solved(x, identity(x.rows, x.rows));
  Matrix y = identity(x.rows, x.rows);
  for (Index i = 0; i < std::abs(n); ++i) y = y * x;
  return y;
}

std::vector<Variant> matrix_power_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const Index n : {-2, -1, 0, 1, 3, 6})
    for (const Shape& shape : {Shape{2, 2}, Shape{2, 3, 3}, Shape{0, 2, 2}}) {
      if (is_half_float(dtype) && n > 3) continue;  // float16 has no such numbers
      Variant variant = of_matrix(
          std::to_string(n) + " ", dtype, shape, {2}, [=](const Tensor& x) { return matrix_power(x, n); },
          [=](auto xs) { return Matrices{power_of(xs[0], n)}; });
      const Dtype given = dtype == bool_ ? int32 : dtype;
      if (n >= 0 && !is_float(given))
        variant.reference = [=](auto xs) {
          const Array x = with_base(xs[0]);
          Arrays y = of_stacks(given, std::span(&x, 1), {2}, [=](auto ms) { return Matrices{power_of(ms[0], n)}; });
          for (Real& value : y[0].values) value = rounded(value, given);
          return y;
        };
      variants.push_back(variant);
    }
  const auto square = [](const Tensor& x) { return matrix_power(x, 2); };
  variants.push_back(refuse_number(dtype, square));
  variants.push_back(refuse_rectangle(dtype, square));
  return variants;
}

Variant pair_of(Dtype dtype, const Shape& a, const Shape& b, const std::string& name,
                const std::function<Tensor(const Tensor&, const Tensor&)>& f,
                const std::function<Array(const Array&, const Array&)>& reference) {
  return {.name = name + a.str() + " " + b.str(),
          .inputs = {{dtype, a, {-3, 3}}, {dtype, b, {-3, 3}}},
          .call = [=](auto xs) { return f(xs[0], xs[1]); },
          .reference = [=](auto xs) { return Arrays{reference(xs[0], xs[1])}; }};
}
Variant refuse_pair(Dtype dtype, const Shape& a, const Shape& b,
                    const std::function<Tensor(const Tensor&, const Tensor&)>& f, const std::string& words) {
  return {.name = a.str() + " " + b.str(),
          .inputs = {{dtype, a}, {dtype, b}},
          .call = [=](auto xs) { return f(xs[0], xs[1]); },
          .refusal = words};
}

std::vector<Variant> cross_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const auto& [a, b, axis] : std::vector<std::tuple<Shape, Shape, Index>>{
           {{3}, {3}, -1}, {{2, 3}, {3}, -1}, {{3, 2}, {3, 2}, 0}, {{2, 3, 1}, {3, 4}, -2}, {{0, 3}, {3}, -1}})
    variants.push_back(pair_of(
        dtype, a, b, "", [axis = axis](const Tensor& x, const Tensor& y) { return cross(x, y, axis); },
        [=, axis = axis](const Array& x, const Array& y) {
          const Shape shape = broadcast_shape(x.shape, y.shape);
          const auto at = static_cast<std::size_t>(axis < 0 ? axis + shape.rank() : axis);
          const auto term = [&](const Shape& p, Index i, Index j) {
            Shape left = p, right = p;
            left[at] = (p[at] + i) % 3;
            right[at] = (p[at] + j) % 3;
            return x(broadcast_position(x.shape, left)) * y(broadcast_position(y.shape, right));
          };
          Array z = make(as_number(dtype), shape, [&](const Shape& p) { return term(p, 1, 2) - term(p, 2, 1); });
          z.magnitude = make(float64, shape, [&](const Shape& p) {
                          return std::abs(term(p, 1, 2)) + std::abs(term(p, 2, 1));
                        }).values;
          return z;
        }));
  const auto of_last = [](const Tensor& x, const Tensor& y) { return cross(x, y); };
  variants.push_back(refuse_pair(dtype, {2}, {3}, of_last, "shape [2] does not have 3 components along axis -1"));
  variants.push_back(refuse_pair(dtype, {}, {3}, of_last, "axis -1 is out of range for rank 0"));
  return variants;
}

std::vector<Variant> vecdot_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const auto& [a, b, axis] : std::vector<std::tuple<Shape, Shape, Index>>{{{4}, {4}, -1},
                                                                               {{2, 3}, {3}, -1},
                                                                               {{3, 2}, {3, 2}, 0},
                                                                               {{2, 3, 1}, {3, 4}, -2},
                                                                               {{0, 3}, {3}, -1},
                                                                               {{2, 0}, {0}, -1}})
    variants.push_back(pair_of(
        dtype, a, b, "", [axis = axis](const Tensor& x, const Tensor& y) { return vecdot(x, y, axis); },
        [=, axis = axis](const Array& x, const Array& y) {
          const Shape shape = broadcast_shape(x.shape, y.shape);
          const Index at = axis < 0 ? axis + shape.rank() : axis;
          const auto sum = [&](const Shape& p, bool absolute) {
            Real total = 0;
            for (Index i = 0; i < shape[static_cast<std::size_t>(at)]; ++i) {
              const Shape q = with_axis(p, at, i);
              const Real term = x(broadcast_position(x.shape, q)) * y(broadcast_position(y.shape, q));
              total += absolute ? std::abs(term) : term;
            }
            return total;
          };
          const Shape result = without_axis(shape, at);
          Array z =
              make(is_float(dtype) ? dtype : summed_in(dtype), result, [&](const Shape& p) { return sum(p, false); });
          z.magnitude = make(float64, result, [&](const Shape& p) { return sum(p, true); }).values;
          return z;
        }));
  const auto of_last = [](const Tensor& x, const Tensor& y) { return vecdot(x, y); };
  variants.push_back(refuse_pair(dtype, {2}, {3}, of_last, "shapes [2] and [3] differ in length along axis -1"));
  variants.push_back(refuse_pair(dtype, {}, {3}, of_last, "axis -1 is out of range for rank 0"));
  return variants;
}

std::vector<Variant> kron_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{
           {{2, 3}, {3, 2}}, {{2}, {3}}, {{2, 2}, {3}}, {{2}, {2, 1, 3}}, {{}, {2}}, {{0, 2}, {2, 2}}})
    variants.push_back(pair_of(dtype, a, b, "", stave::kron, [](const Array& x, const Array& y) {
      const int rank = std::max(x.shape.rank(), y.shape.rank());
      const auto padded = [&](Shape shape) {
        while (shape.rank() < rank) shape = with_axis(shape, 0, 1);
        return shape;
      };
      const Array left{x.dtype, padded(x.shape), x.values}, right{y.dtype, padded(y.shape), y.values};
      Shape shape = left.shape;
      for (std::size_t i = 0; i < shape.size(); ++i) shape[i] *= right.shape[i];
      return make(x.dtype, shape, [&](const Shape& p) {
        Shape i = p, j = p;
        for (std::size_t k = 0; k < p.size(); ++k) {
          i[k] = p[k] / right.shape[k];
          j[k] = p[k] % right.shape[k];
        }
        return left(i) * right(j);
      });
    }));
  return variants;
}

}  // namespace

void add_linalg_rows(std::vector<Row>& rows) {
  rows.push_back(of_systems("solve", true, stave::solve, solved, true));
  rows.push_back(of_squares("inv", {2}, stave::inv,
                            [](auto xs) { return Matrices{solved(xs[0], identity(xs[0].rows, xs[0].rows))}; }));
  Row triangular = of_systems(
      "triangular_solve", true, [](const Tensor& a, const Tensor& b) { return triangular_solve(a, b); },
      [](const Matrix& a, const Matrix& b) { return solve_triangle(a, b, {}); }, false);
  triangular.variants = [upper = triangular.variants](Dtype dtype) {
    std::vector<Variant> variants = upper(dtype);
    for (const int flags : {1, 2, 3, 4, 7}) {
      const TriangularOptions options{
          .lower = (flags & 1) != 0, .transpose = (flags & 2) != 0, .unit_diagonal = (flags & 4) != 0};
      variants.push_back({.name = "flags " + std::to_string(flags),
                          .inputs = {{dtype, {2, 3, 3}, besides(dtype)}, {dtype, {3, 2}, besides(dtype)}},
                          .call = [=](auto xs) { return triangular_solve(with_base(xs[0]), xs[1], options); },
                          .reference =
                              [=](auto xs) {
                                const Array operands[] = {with_base(xs[0]), xs[1]};
                                return of_stacks(as_float(dtype), operands, {2}, [&](auto ms) {
                                  return Matrices{solve_triangle(ms[0], ms[1], options)};
                                });
                              }});
    }
    return variants;
  };
  rows.push_back(triangular);
  rows.push_back(of_systems(
      "lstsq", false, [](const Tensor& a, const Tensor& b) { return lstsq(a, b); },
      [](const Matrix& a, const Matrix& b) { return pseudo_inverse(a) * b; }, true));
  rows.push_back(of_rectangles(
      "pinv", {2}, [](const Tensor& x) { return pinv(x); }, [](auto xs) { return Matrices{pseudo_inverse(xs[0])}; }));

  rows.push_back(of_squares(
      "cholesky", {2, 2},
      [](const Tensor& x) -> Outputs {
        return {cholesky(x), cholesky(x, {.upper = true})};
      },
      [](auto xs) {
        return Matrices{cholesky_of(xs[0]), transposed(cholesky_of(xs[0]))};
      }));
  rows.push_back(row_of("lu", {"lu_factor"}, lu_variants));
  rows.push_back(row_of("qr", {}, qr_variants));
  rows.push_back(of_squares("eigh", {1, 2}, eigh_without_signs, [](auto xs) {
    const auto [w, v] = eigen(symmetric(xs[0]));
    return Matrices{column(w), squares(v)};
  }));
  rows.push_back(of_squares("eigvalsh", {1}, stave::eigvalsh,
                            [](auto xs) { return Matrices{column(eigen(symmetric(xs[0])).first)}; }));
  Row svds = of_rectangles(
      "svd", {2, 1, 2}, [](const Tensor& x) { return svd_without_signs(x, false); },
      [](auto xs) {
        const Singular found(xs[0]);
        return Matrices{squares(found.u), column(found.values), squares(transposed(found.v))};
      });
  svds.variants = [reduced = svds.variants](Dtype dtype) {
    std::vector<Variant> variants = reduced(dtype);
    for (const Shape& shape : {Shape{4, 2}, Shape{2, 3, 3}, Shape{2, 4}})
      variants.push_back(of_matrix("full ", dtype, shape, {2, 1, 2, 2, 2}, full_svd_without_signs, [](auto xs) {
        const Singular found(xs[0]);
        return Matrices{squares(found.u), column(found.values), squares(transposed(found.v)), outside(found.u),
                        outside(found.v)};
      }));
    return variants;
  };
  rows.push_back(svds);
  rows.push_back(
      of_rectangles("svdvals", {1}, stave::svdvals, [](auto xs) { return Matrices{column(Singular(xs[0]).values)}; }));

  rows.push_back(
      of_squares("det", {0}, stave::det, [](auto xs) { return Matrices{number(Elimination(xs[0]).determinant())}; }));
  rows.push_back(of_squares(
      "slogdet", {0, 0},
      [](const Tensor& x) -> Outputs {
        const auto [sign, logarithm] = slogdet(x);
        return {sign, logarithm};
      },
      [](auto xs) {
        const Real value = Elimination(xs[0]).determinant();
        return Matrices{number(value < 0 ? -1 : 1), number(std::log(std::abs(value)))};
      }));
  Row ranks = of_rectangles(
      "matrix_rank", {0}, [](const Tensor& x) { return matrix_rank(x); },
      [](auto xs) { return Matrices{number(std::min(xs[0].rows, xs[0].columns))}; });
  ranks.variants = [of_floats = ranks.variants](Dtype dtype) {
    std::vector<Variant> variants = of_floats(dtype);
    for (Variant& variant : variants) {
      variant.differentiable = false;
      if (variant.reference)
        variant.reference = [reference = variant.reference](auto xs) {
          Arrays found = reference(xs);
          found[0].dtype = int32;
          return found;
        };
    }
    return variants;
  };
  rows.push_back(ranks);
  rows.push_back(row_of("matrix_norm", {}, matrix_norm_variants));
  rows.push_back(row_of("vector_norm", {}, vector_norm_variants));

  rows.push_back(row_of("matrix_power", {}, matrix_power_variants));
  rows.push_back(of_squares(
      "expm", {2}, [](const Tensor& x) { return expm(x * 0.25); },
      [](auto xs) {
        Matrix x = xs[0];
        for (Real& value : x.values) value /= 4;
        return Matrices{exponential(x)};
      }));
  rows.push_back({.name = "cross", .dtypes = number_dtypes, .variants = cross_variants});
  rows.push_back({.name = "vecdot", .dtypes = all_dtypes, .variants = vecdot_variants, .bitwise = false});
  rows.push_back({.name = "kron", .dtypes = number_dtypes, .variants = kron_variants});
}

}  // namespace table
