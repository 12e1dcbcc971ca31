// Rows of functions of complex matrices. An operand is a real array with a last axis of 2, the real
// and the imaginary part. References compute with real matrices: a complex x + iy is the real
// matrix [x -y; y x] of twice the size, and sums, products, inverses and power series of those are
// those of the complex matrices.

#include <algorithm>
#include <cmath>
#include <complex>

#include <stave/core/ops/complex.h>
#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>

#include "table/linalg.h"
#include "table/matrix_functions.h"
#include "table/reference.h"

namespace table {

namespace {

using C = std::complex<Real>;

// ---- complex numbers as pairs -------------------------------------------------------------------

/// The complex tensor of a real one with a last axis of 2. With `base`, 3, 6, 9, ... are added to
/// the diagonals of the matrices.
Tensor joined(const Tensor& x, bool base) {
  const Tensor re = x(ellipsis, 0);
  return complex(base ? with_base(re) : re, x(ellipsis, 1));
}
Tensor parted(const Tensor& z) { return is_complex(z.dtype()) ? stack({real(z), imag(z)}, -1) : z; }

/// The real matrices [x -y; y x] of the stack of complex matrices x + iy.
Array embedded(const Array& pairs, bool base) {
  const Shape matrices = part(pairs.shape, 0, pairs.shape.rank() - 1);
  const Index m = matrices[matrices.size() - 2], n = matrices.back();
  Shape doubled = matrices;
  doubled[doubled.size() - 2] = 2 * m;
  doubled.back() = 2 * n;
  return make(float64, doubled, [&](const Shape& p) {
    Shape q = p;
    const bool below = p[p.size() - 2] >= m, right = p.back() >= n;
    q[q.size() - 2] %= m;
    q.back() %= n;
    const Real diagonal = base && q[q.size() - 2] == q.back() ? 3 * static_cast<Real>(q.back() + 1) : 0;
    q.push_back(below != right);
    return below == right ? pairs(q) + diagonal : right ? -pairs(q) : pairs(q);
  });
}

/// The pairs of complex numbers of embedded matrices.
Array pairs_of(const Array& embedding) {
  Shape shape = embedding.shape;
  const Index m = shape[shape.size() - 2] / 2;
  shape[shape.size() - 2] = m;
  shape.back() /= 2;
  shape.push_back(2);
  Array pairs = make(embedding.dtype, shape, [&](const Shape& p) {
    Shape q = part(p, 0, p.rank() - 1);
    if (p.back()) q[q.size() - 2] += m;
    return embedding(q);
  });
  if (!embedding.magnitude.empty()) pairs.magnitude.assign(pairs.values.size(), embedding.magnitude[0]);
  return pairs;
}

/// A complex matrix, for references that need its elements.
struct ComplexMatrix {
  Index rows, columns;
  std::vector<C> values;

  ComplexMatrix(Index m, Index n) : rows(m), columns(n), values(static_cast<std::size_t>(m * n)) {}
  explicit ComplexMatrix(const Matrix& e) : ComplexMatrix(e.rows / 2, e.columns / 2) {
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < columns; ++c) (*this)(r, c) = {e(r, c), e(rows + r, c)};
  }
  C& operator()(Index r, Index c) { return values[static_cast<std::size_t>(r * columns + c)]; }
  const C& operator()(Index r, Index c) const { return values[static_cast<std::size_t>(r * columns + c)]; }
  Matrix embedding() const {
    Matrix e(2 * rows, 2 * columns);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < columns; ++c) {
        const C z = (*this)(r, c);
        e(r, c) = e(rows + r, columns + c) = z.real();
        e(rows + r, c) = z.imag();
        e(r, columns + c) = -z.imag();
      }
    return e;
  }
};

ComplexMatrix cholesky_factor(const Matrix& hermitian) {
  ComplexMatrix a(hermitian), l(a.rows, a.rows);
  for (Index j = 0; j < a.rows; ++j)
    for (Index i = j; i < a.rows; ++i) {
      C rest = a(i, j);
      for (Index k = 0; k < j; ++k) rest -= l(i, k) * std::conj(l(j, k));
      l(i, j) = i == j ? C(std::sqrt(rest.real())) : rest / l(j, j);
    }
  return l;
}

/// The packed factors of a matrix whose elimination exchanges no rows.
ComplexMatrix eliminated(const Matrix& matrix) {
  ComplexMatrix a(matrix);
  for (Index k = 0; k < std::min(a.rows, a.columns); ++k)
    for (Index r = k + 1; r < a.rows; ++r) {
      a(r, k) /= a(k, k);
      for (Index c = k + 1; c < a.columns; ++c) a(r, c) -= a(r, k) * a(k, c);
    }
  return a;
}

C determinant_of(const Matrix& matrix) {
  const ComplexMatrix lu = eliminated(matrix);
  C product = 1;
  for (Index k = 0; k < lu.rows; ++k) product *= lu(k, k);
  return product;
}

Matrix embedded_number(C z) {
  ComplexMatrix one(1, 1);
  one(0, 0) = z;
  return one.embedding();
}

Matrix scaled(Matrix x, Real by) {
  for (Real& value : x.values) value *= by;
  return x;
}
Matrix plus(Matrix x, Real diagonal) {
  for (Index i = 0; i < x.rows; ++i) x(i, i) += diagonal;
  return x;
}
/// Adds 0, 2, 4, ... to the diagonal of the complex matrix, so that its eigenvalues lie apart.
Matrix spread(Matrix x) {
  for (Index i = 0; i < x.rows; ++i) x(i, i) += static_cast<Real>(2 * (i % (x.rows / 2)));
  return x;
}

/// Every other number: those of an embedding come in pairs.
Matrix every_other(const std::vector<Real>& numbers) {
  std::vector<Real> half;
  for (std::size_t i = 0; i < numbers.size(); i += 2) half.push_back(numbers[i]);
  return column(half);
}
/// The squares of the absolute values of vectors, given by the embedding's vectors: two of these
/// span the embedding of one.
Matrix absolute_squares(const Matrix& vectors) {
  Matrix found(vectors.rows / 2, vectors.columns / 2);
  for (Index r = 0; r < found.rows; ++r)
    for (Index c = 0; c < found.columns; ++c)
      found(r, c) = vectors(r, 2 * c) * vectors(r, 2 * c) + vectors(r, 2 * c + 1) * vectors(r, 2 * c + 1);
  return found;
}

// ---- rows ---------------------------------------------------------------------------------------

/// A result: kept axes of its matrix, and whether it is complex.
struct Kept {
  int axes = 2;
  bool is_complex = true;
};

using OfTensors = std::function<Outputs(std::span<const Tensor>)>;

/// Numbers in place of matrices, which are an error.
Variant refused(Dtype dtype, std::size_t operands, const OfTensors& f, const std::string& words) {
  Variant variant;
  variant.name = "()";
  variant.inputs.assign(operands, {dtype, {}});
  variant.call = [f](auto xs) {
    std::vector<Tensor> numbers;
    for (const Tensor& x : xs) numbers.push_back(complex(x, x));
    return f(numbers);
  };
  variant.refusal = words;
  return variant;
}

Row of_complex(const std::string& name, std::vector<std::vector<Shape>> shapes, std::vector<Kept> kept,
               const OfTensors& f, const OfMatrices& reference, bool base = true,
               const std::string& words = "fewer than the 2 axes") {
  return {.name = "complex_" + name,
          .dtypes = {float32, float64},
          .variants =
              [=](Dtype dtype) {
                std::vector<Variant> variants;
                for (const std::vector<Shape>& all : shapes) {
                  Variant variant;
                  for (const Shape& shape : all) {
                    variant.name += (variant.name.empty() ? "" : " ") + shape.str();
                    variant.inputs.push_back({dtype, concatenated(shape, Shape(2)), {-1, 1}});
                  }
                  variant.call = [=](auto xs) {
                    std::vector<Tensor> operands;
                    for (const Tensor& x : xs) operands.push_back(joined(x, base && operands.empty()));
                    Outputs results;
                    for (const Tensor& z : f(operands)) results.push_back(parted(z));
                    return results;
                  };
                  variant.reference = [=](auto xs) {
                    Arrays operands;
                    for (const Array& x : xs) operands.push_back(embedded(x, base && operands.empty()));
                    std::vector<int> axes;
                    for (const Kept& one : kept) axes.push_back(one.axes);
                    Arrays results = of_stacks(dtype, operands, axes, reference);
                    for (std::size_t i = 0; i < kept.size(); ++i)
                      if (kept[i].is_complex) results[i] = pairs_of(results[i]);
                    return results;
                  };
                  variants.push_back(variant);
                }
                variants.push_back(refused(dtype, shapes[0].size(), f, words));
                return variants;
              },
          .accuracy = 64,
          .bitwise = false,
          .is_documented = false};
}

const std::vector<std::vector<Shape>> squares_of = {{{3, 3}}, {{2, 2, 2}}, {{1, 1}}, {{0, 2, 2}}};
const std::vector<std::vector<Shape>> rectangles_of = {{{3, 2}}, {{2, 2, 2}}, {{2, 3}}, {{0, 2, 3}}};
const std::vector<std::vector<Shape>> systems_of = {{{2, 2}, {2, 1}}, {{2, 2, 2}, {2, 2}}, {{0, 2, 2}, {2, 1}}};

Row of_one(const std::string& name, std::vector<Kept> kept, const std::function<Outputs(const Tensor&)>& f,
           const std::function<Matrices(const Matrix&)>& reference, bool square = true,
           const std::string& words = "fewer than the 2 axes") {
  return of_complex(
      name, square ? squares_of : rectangles_of, std::move(kept), [f](auto xs) { return f(xs[0]); },
      [reference](auto ms) { return reference(ms[0]); }, true, words);
}
Row of_system(const std::string& name, const std::function<Tensor(const Tensor&, const Tensor&)>& f,
              const std::function<Matrix(const Matrix&, const Matrix&)>& reference,
              const std::string& words = "fewer than the 2 axes") {
  return of_complex(
      name, systems_of, {{}}, [f](auto xs) { return Outputs{f(xs[0], xs[1])}; },
      [reference](auto ms) { return Matrices{reference(ms[0], ms[1])}; }, true, words);
}

Tensor absolute_square(const Tensor& z) { return square(real(z)) + square(imag(z)); }
/// Adds a multiple of the identity to matrices.
Tensor plus(const Tensor& x, double diagonal) { return x.rank() < 2 ? x : x + diagonal * eye(x.shape(-1), x.dtype()); }
Tensor spread(const Tensor& x) {
  return x.rank() < 2 ? x : x + 2 * eye(x.shape(-1), x.dtype()) * astype(arange(0, x.shape(-1)), x.dtype());
}
Tensor one_by_one(const Tensor& z) { return expand_dims(z, {-2, -1}); }

void add_factors(std::vector<Row>& rows) {
  rows.push_back(of_one(
      "cholesky", {{}, {}},
      [](const Tensor& x) {
        return Outputs{cholesky(x), cholesky(x, {.upper = true})};
      },
      [](const Matrix& x) {
        const Matrix l = cholesky_factor(symmetric(x)).embedding();
        return Matrices{l, transposed(l)};
      }));
  rows.push_back(of_one(
      "lu", {{}, {}},
      [](const Tensor& x) {
        const auto [p, l, u] = lu(x);
        return Outputs{std::get<0>(lu_factor(x)), matmul(p, l, u)};
      },
      [](const Matrix& x) {
        return Matrices{eliminated(x).embedding(), x};
      },
      false));
  // r is the Cholesky factor of x^H x, whose diagonal is positive. LAPACK's has signs.
  const auto positive = [](const Tensor& x) {
    const auto [q, r] = qr(x);
    const Tensor signs = sign(stop_gradient(real(diagonal(r))));
    return Outputs{q * expand_dims(signs, -2), r * expand_dims(signs, -1)};
  };
  Row tall = of_complex(
      "qr", {{{3, 2}}, {{2, 2, 2}}, {{0, 3, 2}}}, {{}, {}}, [positive](auto xs) { return positive(xs[0]); },
      [](auto ms) {
        const Matrix l = cholesky_factor(transposed(ms[0]) * ms[0]).embedding();
        return Matrices{transposed(solved(l, transposed(ms[0]))), transposed(l)};
      });
  rows.push_back(tall);
  rows.push_back(of_one(
      "eigh", {{1, false}, {2, false}},
      [](const Tensor& x) {
        const auto [w, v] = eigh(x);
        return Outputs{w, absolute_square(v)};
      },
      [](const Matrix& x) {
        const auto [w, v] = eigen(symmetric(x));
        return Matrices{every_other(w), absolute_squares(v)};
      }));
  rows.push_back(of_one(
      "eigvalsh", {{1, false}}, [](const Tensor& x) { return Outputs{eigvalsh(x)}; },
      [](const Matrix& x) { return Matrices{every_other(eigen(symmetric(x)).first)}; }));
  rows.push_back(of_one(
      "svd", {{2, false}, {1, false}, {2, false}, {}},
      [](const Tensor& x) {
        const auto [u, s, vh] = svd(x, {.full_matrices = false});
        return Outputs{absolute_square(u), s, absolute_square(vh), matmul(u, vh)};
      },
      [](const Matrix& x) {
        const Singular found(x);
        return Matrices{absolute_squares(found.u), every_other(found.values), transposed(absolute_squares(found.v)),
                        found.u * transposed(found.v)};
      },
      false));
  rows.push_back(of_one(
      "svdvals", {{1, false}}, [](const Tensor& x) { return Outputs{svdvals(x)}; },
      [](const Matrix& x) { return Matrices{every_other(Singular(x).values)}; }, false));
  rows.push_back(of_one(
      "ldl", {{}, {}},
      [](const Tensor& x) {
        const auto [l, d, order] = ldl(x);
        return Outputs{l, d};
      },
      [](const Matrix& x) {
        ComplexMatrix l = cholesky_factor(symmetric(x)), d(l.rows, l.rows);
        for (Index c = 0; c < l.columns; ++c) {
          const C root = l(c, c);
          d(c, c) = root * root;
          for (Index r = c; r < l.rows; ++r) l(r, c) /= root;
        }
        return Matrices{l.embedding(), d.embedding()};
      }));
}

void add_systems(std::vector<Row>& rows) {
  rows.push_back(of_system("solve", stave::solve, solved));
  rows.push_back(of_one(
      "inv", {{}}, [](const Tensor& x) { return Outputs{inv(x)}; },
      [](const Matrix& x) { return Matrices{solved(x, identity(x.rows, x.rows))}; }));
  for (const bool transpose : {false, true})
    rows.push_back(of_system(
        transpose ? "triangular_solve_transposed" : "triangular_solve",
        [=](const Tensor& a, const Tensor& b) {
          return triangular_solve(a, b, {.lower = true, .transpose = transpose});
        },
        [=](const Matrix& a, const Matrix& b) {
          ComplexMatrix l(a);
          for (Index r = 0; r < l.rows; ++r)
            for (Index c = r + 1; c < l.rows; ++c) l(r, c) = 0;
          ComplexMatrix turned(l.rows, l.rows);
          for (Index r = 0; r < l.rows; ++r)
            for (Index c = 0; c < l.rows; ++c) turned(r, c) = transpose ? l(c, r) : l(r, c);
          return solved(turned.embedding(), b);
        }));
  rows.push_back(of_complex(
      "lstsq", {{{3, 2}, {3, 1}}, {{2, 3}, {2, 1}}, {{0, 3, 2}, {3, 1}}}, {{}},
      [](auto xs) { return Outputs{lstsq(xs[0], xs[1])}; },
      [](auto ms) { return Matrices{pseudo_inverse(ms[0]) * ms[1]}; }));
  rows.push_back(of_one(
      "pinv", {{}}, [](const Tensor& x) { return Outputs{pinv(x)}; },
      [](const Matrix& x) { return Matrices{pseudo_inverse(x)}; }, false));
  rows.push_back(of_complex(
      "solve_sylvester", {{{2, 2}, {1, 1}, {2, 1}}, {{2, 2, 2}, {2, 2}, {2, 2}}, {{0, 2, 2}, {2, 2}, {2, 2}}}, {{}},
      [](auto xs) { return Outputs{solve_sylvester(plus(xs[0], 4), xs[1], xs[2])}; },
      [](auto ms) { return Matrices{sylvester(plus(ms[0], 4), ms[1], ms[2])}; }));
  rows.push_back(of_complex(
      "solve_banded", {{{3, 3}, {3, 2}}, {{0, 3, 3}, {3, 2}}}, {{}},
      [](auto xs) {
        const Tensor middle = astype(tensor({{0}, {6}, {0}}), real_of(xs[0].dtype()));
        const Tensor bands = xs[0].rank() < 2 ? xs[0] : xs[0] + middle;
        return Outputs{solve_banded(bands, xs[1], {.lower = 1, .upper = 1})};
      },
      [](auto ms) {
        const ComplexMatrix bands(ms[0]);
        ComplexMatrix a(bands.columns, bands.columns);
        for (Index j = 0; j < a.columns; ++j)
          for (Index i = std::max<Index>(0, j - 1); i <= std::min(a.rows - 1, j + 1); ++i)
            a(i, j) = bands(1 + i - j, j) + (i == j ? C(6) : C(0));
        return Matrices{solved(a.embedding(), ms[1])};
      },
      false));
}

void add_functions(std::vector<Row>& rows) {
  rows.push_back(of_one(
      "det", {{}}, [](const Tensor& x) { return Outputs{one_by_one(det(x))}; },
      [](const Matrix& x) { return Matrices{embedded_number(determinant_of(x))}; }));
  rows.push_back(of_one(
      "slogdet", {{}, {0, false}},
      [](const Tensor& x) {
        const auto [sign, log] = slogdet(x);
        return Outputs{one_by_one(sign), log};
      },
      [](const Matrix& x) {
        const C det = determinant_of(x);
        return Matrices{embedded_number(det / std::abs(det)), number(std::log(std::abs(det)))};
      }));
  rows.push_back(of_one(
      "expm", {{}}, [](const Tensor& x) { return Outputs{expm(x * 0.25)}; },
      [](const Matrix& x) { return Matrices{exponential(scaled(x, 0.25L))}; }));
  rows.push_back(of_one(
      "sqrtm", {{}}, [](const Tensor& x) { return Outputs{sqrtm(plus(x, 4))}; },
      [](const Matrix& x) { return Matrices{square_root(plus(x, 4))}; }));
  rows.push_back(of_one(
      "logm", {{}}, [](const Tensor& x) { return Outputs{logm(plus(x, 4))}; },
      [](const Matrix& x) { return Matrices{logarithm(plus(x, 4))}; }));
  rows.push_back(of_one(
      "eig", {{}},
      [](const Tensor& x) {
        const auto [w, v] = eig(spread(x));
        return Outputs{matmul(v * exp(expand_dims(w, -2) / 8), inv(v))};
      },
      [](const Matrix& x) { return Matrices{exponential(scaled(spread(x), 0.125L))}; }));
  rows.push_back(of_one(
      "eigvals", {{}, {}},
      [](const Tensor& x) {
        const Tensor w = eigvals(x);
        return Outputs{one_by_one(sum(w, -1)), one_by_one(sum(w * w * w, -1))};
      },
      [](const Matrix& x) {
        Matrices found;
        for (const Matrix& power : {x, x * x * x}) {
          const ComplexMatrix z(power);
          C trace = 0;
          for (Index i = 0; i < z.rows; ++i) trace += z(i, i);
          found.push_back(embedded_number(trace));
        }
        return found;
      }));
  rows.push_back(of_one(
      "matrix_power", {{}}, [](const Tensor& x) { return Outputs{matrix_power(x, -2)}; },
      [](const Matrix& x) { return Matrices{solved(x * x, identity(x.rows, x.rows))}; }));
  rows.push_back(of_one(
      "polar", {{}, {}},
      [](const Tensor& x) {
        const auto [u, p] = polar(x);
        return Outputs{u, p};
      },
      [](const Matrix& x) {
        const Singular found(x);
        Matrix scaled_v = found.v;
        for (Index r = 0; r < scaled_v.rows; ++r)
          for (Index c = 0; c < scaled_v.columns; ++c) scaled_v(r, c) *= found.values[static_cast<std::size_t>(c)];
        return Matrices{found.u * transposed(found.v), scaled_v * transposed(found.v)};
      },
      false));
  rows.push_back(of_complex(
      "cholesky_update", {{{2, 2}, {2, 1}}, {{2, 3, 3}, {3, 1}}, {{0, 2, 2}, {2, 1}}}, {{}},
      [](auto xs) {
        const Tensor& x = xs[0];
        if (x.rank() < 2) return Outputs{cholesky_update(x, xs[1])};
        const Tensor imaginary = imag(x) * (1 - eye(x.shape(-1), real_of(x.dtype())));
        return Outputs{cholesky_update(complex(real(x), imaginary), squeeze(xs[1], -1))};
      },
      [](auto ms) {
        ComplexMatrix l(ms[0]);
        for (Index r = 0; r < l.rows; ++r)
          for (Index c = r; c < l.rows; ++c) l(r, c) = r == c ? C(l(r, c).real()) : C(0);
        const Matrix e = l.embedding();
        Matrix a = e * transposed(e), x = ms[1] * transposed(ms[1]);
        for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += x.values[i];
        return Matrices{cholesky_factor(a).embedding()};
      }));
}

void add_norms(std::vector<Row>& rows) {
  const auto largest_sum = [](const Matrix& x, bool of_rows) {
    const ComplexMatrix z(x);
    Real largest = 0;
    for (Index i = 0; i < (of_rows ? z.rows : z.columns); ++i) {
      Real sum = 0;
      for (Index k = 0; k < (of_rows ? z.columns : z.rows); ++k) sum += std::abs(of_rows ? z(i, k) : z(k, i));
      largest = std::max(largest, sum);
    }
    return number(largest);
  };
  rows.push_back(of_one(
      "matrix_norm", {{0, false}, {0, false}, {0, false}, {0, false}},
      [](const Tensor& x) {
        return Outputs{matrix_norm(x), matrix_norm(x, "nuc"), matrix_norm(x, 1),
                       matrix_norm(x, std::numeric_limits<double>::infinity())};
      },
      [=](const Matrix& x) {
        Real squares = 0, sum = 0;
        for (const C z : ComplexMatrix(x).values) squares += std::norm(z);
        for (const Real s : every_other(Singular(x).values).values) sum += s;
        return Matrices{number(std::sqrt(squares)), number(sum), largest_sum(x, false), largest_sum(x, true)};
      }));
  rows.push_back(of_one(
      "vector_norm", {{0, false}, {0, false}},
      [](const Tensor& x) {
        return Outputs{vector_norm(x, 3, {-2, -1}), vector_norm(x, 2, {-2, -1})};
      },
      [](const Matrix& x) {
        Real cubes = 0, squares = 0;
        for (const C z : ComplexMatrix(x).values) {
          cubes += std::pow(std::abs(z), 3);
          squares += std::norm(z);
        }
        return Matrices{number(std::cbrt(cubes)), number(std::sqrt(squares))};
      },
      true, "axis -2 is out of range for rank 0"));
  rows.push_back(of_system(
      "vecdot", [](const Tensor& x, const Tensor& y) { return expand_dims(vecdot(x, y, -2), -1); },
      [](const Matrix& x, const Matrix& y) {
        ComplexMatrix a(x), b(y), sums(std::max(a.columns, b.columns), 1);
        for (Index c = 0; c < sums.rows; ++c)
          for (Index r = 0; r < a.rows; ++r) sums(c, 0) += std::conj(a(r, c)) * b(r, b.columns == 1 ? 0 : c);
        return sums.embedding();
      },
      "axis -2 is out of range for rank 0"));
}

}  // namespace

void add_complex_matrix_rows(std::vector<Row>& rows) {
  add_factors(rows);
  add_systems(rows);
  add_functions(rows);
  add_norms(rows);
}

}  // namespace table
