// Operations on general matrices: eigenvalues and Schur forms, square roots and logarithms,
// Sylvester's equation, band matrices, and the factorization of indefinite matrices.
//
// Sources: M. Giles, "An extended collection of matrix derivative results for forward and reverse
// mode algorithmic differentiation", 2008; N. Higham, "Functions of Matrices", 2008, section 3.2.

#include <algorithm>
#include <limits>

#include <stave/core/op/op.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/linalg_frontend.h>
#include <stave/core/ops/sort.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

// ---- eig ------------------------------------------------------------------------------------

namespace {

void infer_eig(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor& a = square_matrices(call, 0);
  const Dtype dtype = complex_of(a.dtype());
  outputs.push_back({stacked(stack_of(a.shape()), {rows_of(a.shape())}), dtype});
  if (&call.op() == &op_eig) outputs.push_back({a.shape(), dtype});
}

// Returns x if the operand is complex, else the real part of x.
Tensor of_operand(const Tensor& x, Dtype operand) { return is_complex(operand) ? x : real(x); }

// 1 / (w_j - w_i), and 0 where the difference is rounding error.
Tensor inverse_eigen_gaps(const Tensor& w) {
  return safe_reciprocal(expand_dims(w, -2) - expand_dims(w, -1), expand_dims(rounding_bound(w, w.shape(-1)), -1));
}

// LAPACK gives vectors of length 1 whose largest component is real. Returns a mask of the largest
// components, as numbers.
Tensor largest_components(const Tensor& v) {
  if (v.shape(-1) == 0) return zeros_like(real(v));
  return transposed(one_hot(argmax(abs(stop_gradient(v)), -2), v.shape(-1), real_of(v.dtype())));
}

Tensor column_sums(const Tensor& x) { return sum(x, -2); }

// Returns the eigenvectors, or NaN for a matrix whose eigenvectors are linearly dependent up to
// rounding: a defective matrix, whose eigenvalues have no derivative.
Tensor nan_if_dependent(const Tensor& v) {
  const Index n = v.shape(-1);
  if (n == 0) return v;
  const Tensor smallest = min(svdvals(stop_gradient(v)), -1);
  const double bound = 10 * static_cast<double>(n) * epsilon_of(v.dtype());
  return where(expand_dims(smallest <= bound, Shape{-2, -1}), std::numeric_limits<double>::quiet_NaN(), v);
}

// With p = v^-1 da v, dw is the diagonal of p. x = v (p_ij / (w_j - w_i)) is the derivative of v up
// to factors of the columns, which follow from the length and from the real component k:
//   dv_j = x_j - v_j (Re v_j^H x_j + i Im x_kj / v_kj)
Outputs jvp_eig(const JvpContext& c) {
  const Tensor &w = c.out(0), v = nan_if_dependent(c.out(1));
  const Tensor p = solve(v, matmul(c.tangents[0], v));
  const Tensor x = matmul(v, p * inverse_eigen_gaps(w)), k = largest_components(v);
  const Tensor length = real(column_sums(conj(v) * x)), turn = column_sums(imag(x) * k) / column_sums(real(v) * k);
  return {diagonal(p), x - times_diagonal(v, complex(length, turn))};
}

Tensor vjp_eig(const VjpContext& c, int) {
  const Tensor &w = c.out(0), v = nan_if_dependent(c.out(1));
  const auto rule = [&](const Tensor& by_w, const Tensor& by_v) {
    Tensor by_p = as_diagonal(or_zeros(by_w, w));
    if (by_v.defined()) {
      const Tensor inner = column_sums(conj(v) * by_v), k = largest_components(v);
      const Tensor turn = complex(0, imag(inner) / column_sums(real(v) * k));
      const Tensor by_x = by_v - times_diagonal(v, real(inner)) - times_diagonal(k, turn);
      by_p = by_p + matmul(adjoint(v), by_x) * conj(inverse_eigen_gaps(w));
    }
    return solve(adjoint(v), matmul(by_p, adjoint(v)));
  };
  return of_operand(by_gradients(rule, c.ct(0), c.ct(1)), c.dtype(0));
}

}  // namespace

constinit const Op op_eig{
    .id = OpId::eig,
    .name = "eig",
    .takes_complex = true,
    .infer = infer_eig,
    .reads = {ValueSet::outputs},
    .jvp = jvp_eig,
    .vjp = vjp_eig,
    .batch = batch_in_front,
    .kernel_throws = true,
};

constinit const Op op_eigvals{
    .id = OpId::eigvals,
    .name = "eigvals",
    .takes_complex = true,
    .infer = infer_eig,
    .reads = {0b1},
    .jvp = [](const JvpContext& c) -> Outputs {
      const Tensor v = nan_if_dependent(eig(c.in(0)).second);
      return sum(solve(v, c.tangents[0] + zeros_like(v)) * transposed(v), -1);
    },
    .vjp =
        [](const VjpContext& c, int) {
          const Tensor left = transposed(nan_if_dependent(eig(c.in(0)).second));
          return of_operand(solve(left, expand_dims(c.ct(), -1) * left), c.dtype(0));
        },
    .batch = batch_in_front,
    .kernel_throws = true,
};

constinit const Op op_schur{
    .id = OpId::schur,
    .name = "schur",
    .takes_complex = true,
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const Tensor& a = square_matrices(call, 0);
          for (int i = 0; i < 2; ++i) outputs.push_back({a.shape(), a.dtype()});
        },
    .batch = batch_in_front,
    .kernel_throws = true,
};

// ---- functions of matrices ------------------------------------------------------------------

namespace {

void infer_same_matrices(const Call& call, SmallVector<Abstract, 1>& outputs) {
  outputs.push_back({square_matrices(call, 0).shape(), call.input(0).dtype()});
}

// Returns the derivative of the logarithm at a in the direction e, which is a block:
//   log [a e; 0 a] = [log a, dlog; 0, log a]
Tensor logm_tangent(const Tensor& a, const Tensor& e) {
  const Index n = a.shape(-1);
  const Tensor block = concat({concat({a, e}, -1), concat({zeros_like(a), a}, -1)}, -2);
  return columns(rows(logm(block), 0, n), n, n);
}

Tensor sylvester(const Tensor& a, const Tensor& b, const Tensor& q) { return apply(op_sylvester, {q, a, b}); }

}  // namespace

// x x = a: dx x + x dx = da.
constinit const Op op_sqrtm{
    .id = OpId::sqrtm,
    .name = "sqrtm",
    .takes_complex = true,
    .infer = infer_same_matrices,
    .reads = {ValueSet::outputs},
    .jvp = [](const JvpContext& c) -> Outputs { return sylvester(c.out(), c.out(), c.tangents[0]); },
    .vjp =
        [](const VjpContext& c, int) {
          const Tensor x = transposed(c.out());
          return sylvester(x, x, c.ct());
        },
    .batch = batch_in_front,
    .kernel_throws = true,
};

constinit const Op op_logm{
    .id = OpId::logm,
    .name = "logm",
    .takes_complex = true,
    .infer = infer_same_matrices,
    .reads = {0b1},
    .jvp = [](const JvpContext& c) -> Outputs { return logm_tangent(c.in(0), c.tangents[0]); },
    .vjp = [](const VjpContext& c, int) { return logm_tangent(transposed(c.in(0)), c.ct()); },
    .batch = batch_in_front,
    .depends = depends_on_matrices,
    .kernel_throws = true,
};

// ---- Sylvester's equation -------------------------------------------------------------------

// The operands are q, a and b. a x + x b = q: a dx + dx b = dq - da x - x db. A cotangent v of x
// becomes the cotangent u of q with a^T u + u b^T = v.
constinit const Op op_sylvester{
    .id = OpId::sylvester,
    .name = "sylvester",
    .takes_complex = true,
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const Tensor &q = matrices(call, 0), &a = square_matrices(call, 1), &b = square_matrices(call, 2);
          if (a.dtype() != q.dtype() || b.dtype() != q.dtype())
            fail<DtypeError>("sylvester: dtypes {}, {} and {} differ: convert with astype", a.dtype(), b.dtype(),
                             q.dtype());
          const Shape stack = stack_of(q.shape());
          if (stack_of(a.shape()) != stack || stack_of(b.shape()) != stack ||
              rows_of(a.shape()) != rows_of(q.shape()) || rows_of(b.shape()) != columns_of(q.shape()))
            fail<ShapeError>("sylvester: matrices {} and {} do not fit right sides {}", a.shape(), b.shape(),
                             q.shape());
          outputs.push_back({q.shape(), q.dtype()});
        },
    .reads = {0b110, 0b110 | ValueSet::outputs},
    .jvp = [](const JvpContext& c) -> Outputs {
      Tensor dq = c.tangents[0];
      if (c.has(1)) dq = add_tangents(std::move(dq), -matmul(c.tangents[1], c.out()));
      if (c.has(2)) dq = add_tangents(std::move(dq), -matmul(c.out(), c.tangents[2]));
      return sylvester(c.in(1), c.in(2), dq);
    },
    .vjp =
        [](const VjpContext& c, int input) {
          const Tensor flow = sylvester(transposed(c.in(1)), transposed(c.in(2)), c.ct());
          if (input == 0) return flow;
          return input == 1 ? -matmul(flow, transposed(c.out())) : -matmul(transposed(c.out()), flow);
        },
    .batch = batch_in_front,
    .depends = depends_on_matrices,
    .kernel_throws = true,
};

// ---- band matrices --------------------------------------------------------------------------

namespace {

Tensor solve_bands(const Tensor& bands, const Tensor& b, const BandedAttributes& of, bool transpose) {
  return apply(op_solve_banded, {bands, b}, make_intrusive<BandedAttributes>(of.lower, of.upper, transpose));
}

// Returns x [..., n, k] with `before` and `after` rows of zeros around it.
Tensor between_rows(const Tensor& x, Index before, Index after) {
  std::vector<std::pair<Index, Index>> widths(static_cast<std::size_t>(x.rank()), {0, 0});
  widths[widths.size() - 2] = {before, after};
  return pad(x, widths);
}

// Returns a x or, if `transpose`, a^T x, for a matrix a given by its bands.
Tensor times_bands(const Tensor& bands, const Tensor& x, const BandedAttributes& of, bool transpose) {
  const Index n = x.shape(-2), last = of.lower + of.upper;
  const Tensor around = between_rows(x, of.upper, of.lower);
  Tensor result;
  for (Index r = 0; r <= last; ++r) {
    const Tensor diagonal = transposed(rows(bands, r, 1));
    const Tensor term =
        transpose ? diagonal * rows(around, r, n) : rows(between_rows(diagonal * x, of.lower, of.upper), last - r, n);
    result = add_tangents(std::move(result), term);
  }
  return result;
}

// Returns the bands of left right^T.
Tensor bands_of_product(const Tensor& left, const Tensor& right, const BandedAttributes& of) {
  const Index n = right.shape(-2);
  const Tensor around = between_rows(left, of.upper, of.lower);
  std::vector<Tensor> bands;
  for (Index r = 0; r <= of.lower + of.upper; ++r) bands.push_back(sum(rows(around, r, n) * right, -1));
  return stack(bands, -2);
}

}  // namespace

constinit const Op op_solve_banded{
    .id = OpId::solve_banded,
    .name = "solve_banded",
    .takes_complex = true,
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const Tensor &bands = matrices(call, 0), &b = matrices(call, 1);
          const auto& of = call.as<BandedAttributes>();
          if (bands.dtype() != b.dtype())
            fail<DtypeError>("solve_banded: dtypes {} and {} differ: convert with astype", bands.dtype(), b.dtype());
          if (of.lower < 0 || of.upper < 0 || rows_of(bands.shape()) != of.lower + of.upper + 1)
            fail<ShapeError>("solve_banded: bands {} do not have 1 + {} + {} rows", bands.shape(), of.lower, of.upper);
          if (stack_of(bands.shape()) != stack_of(b.shape()) || columns_of(bands.shape()) != rows_of(b.shape()))
            fail<ShapeError>("solve_banded: right sides {} do not fit bands {}", b.shape(), bands.shape());
          outputs.push_back({b.shape(), b.dtype()});
        },
    .reads = {0b1 | ValueSet::outputs, 0b1},
    .jvp = [](const JvpContext& c) -> Outputs {
      const auto& of = c.as<BandedAttributes>();
      Tensor db = c.tangents[1];
      if (c.has(0)) db = add_tangents(std::move(db), -times_bands(c.tangents[0], c.out(), of, of.transpose));
      return solve_bands(c.in(0), db, of, of.transpose);
    },
    .vjp =
        [](const VjpContext& c, int input) {
          const auto& of = c.as<BandedAttributes>();
          const Tensor flow = solve_bands(c.in(0), c.ct(), of, !of.transpose);
          if (input == 1) return flow;
          return -(of.transpose ? bands_of_product(c.out(), flow, of) : bands_of_product(flow, c.out(), of));
        },
    .batch = batch_in_front,
    .depends = depends_on_matrices,
    .kernel_throws = true,
};

// ---- ldl ------------------------------------------------------------------------------------

namespace {

// Returns x with rows and columns in the given order.
Tensor reordered(const Tensor& x, const Tensor& order) {
  return take_along_axis(take_along_axis(x, expand_dims(order, -1), -2), expand_dims(order, -2), -1);
}

// The elements that belong to the diagonal blocks of d.
Tensor blocks_of(const Tensor& d) { return logical_or(abs(stop_gradient(d)) > 0, eye(d.shape(-1), bool_, d.device())); }

Tensor below_blocks(const Tensor& x, const Tensor& blocks) { return where(blocks, 0, tril(x, -1)); }

constexpr TriangularOptions unit_lower_triangle{.lower = true, .unit_diagonal = true};
constexpr TriangularOptions unit_lower_transposed{.lower = true, .transpose = true, .unit_diagonal = true};

// With s = l^-1 da l^-H, where the rows and columns of a are in order, and k = l^-1 dl, which is
// strictly below the blocks of d: s = k d + dd + d k^H.
Outputs jvp_ldl(const JvpContext& c) {
  const Tensor &l = c.out(0), &d = c.out(1), blocks = blocks_of(d);
  const Tensor half = triangular_solve(l, reordered(hermitian_part(c.tangents[0]), c.out(2)), unit_lower_triangle);
  const Tensor s = triangular_solve(l, adjoint(half), unit_lower_triangle);
  const Tensor k = transposed(solve(transposed(d), transposed(below_blocks(s, blocks))));
  return {matmul(l, k), where(blocks, s, 0), Tensor()};
}

Tensor vjp_ldl(const VjpContext& c, int) {
  const Tensor &l = c.out(0), &d = c.out(1), blocks = blocks_of(d);
  const auto rule = [&](const Tensor& by_l, const Tensor& by_d) {
    const Tensor by_k = matmul(adjoint(l), by_l);
    const Tensor by_s = below_blocks(transposed(solve(conj(d), transposed(by_k))), blocks) + where(blocks, by_d, 0);
    const Tensor half = triangular_solve(conj(l), by_s, unit_lower_transposed);
    return hermitian_part(triangular_solve(conj(l), adjoint(half), unit_lower_transposed));
  };
  return reordered(by_gradients(rule, or_zeros(c.ct(0), l), or_zeros(c.ct(1), d)), argsort(c.out(2)));
}

}  // namespace

constinit const Op op_ldl{
    .id = OpId::ldl,
    .name = "ldl",
    .takes_complex = true,
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const Tensor& a = square_matrices(call, 0);
          for (int i = 0; i < 2; ++i) outputs.push_back({a.shape(), a.dtype()});
          outputs.push_back({stacked(stack_of(a.shape()), {rows_of(a.shape())}), int32});
        },
    .reads = {ValueSet::outputs},
    .jvp = jvp_ldl,
    .vjp = vjp_ldl,
    .batch = batch_in_front,
    .kernel_throws = true,
};

// ---- functions ------------------------------------------------------------------------------

std::pair<Tensor, Tensor> eig(const Tensor& a) {
  return with_floats("eig", a, [](const Tensor& x) -> std::pair<Tensor, Tensor> {
    Outputs found = perform(Call(op_eig, {x}));
    return {found[0], found[1]};
  });
}
Tensor eigvals(const Tensor& a) {
  return with_floats("eigvals", a, [](const Tensor& x) { return apply(op_eigvals, {x}); });
}
std::pair<Tensor, Tensor> schur(const Tensor& a) {
  return with_floats("schur", a, [](const Tensor& x) -> std::pair<Tensor, Tensor> {
    Outputs found = perform(Call(op_schur, {x}));
    return {found[0], found[1]};
  });
}
std::tuple<Tensor, Tensor, Tensor> ldl(const Tensor& a) {
  return with_floats("ldl", a, [](const Tensor& x) -> std::tuple<Tensor, Tensor, Tensor> {
    Outputs found = perform(Call(op_ldl, {x}));
    return {found[0], found[1], found[2]};
  });
}
Tensor sqrtm(const Tensor& a) {
  return with_floats("sqrtm", a, [](const Tensor& x) { return apply(op_sqrtm, {x}); });
}
Tensor logm(const Tensor& a) {
  return with_floats("logm", a, [](const Tensor& x) { return apply(op_logm, {x}); });
}

Tensor solve_sylvester(const Tensor& a, const Tensor& b, const Tensor& q) {
  const auto solved = [](const Tensor& x, const Tensor& y, const Tensor& z) {
    check_square(x, "solve_sylvester");
    check_square(y, "solve_sylvester");
    check_matrices(z, "solve_sylvester");
    const Shape stack = broadcast_shapes(common_stack(x, y, "solve_sylvester"), stack_of(z.shape()), "solve_sylvester");
    return sylvester(over_stack(x, stack), over_stack(y, stack), over_stack(z, stack));
  };
  return with_common_floats("solve_sylvester", solved, a, b, q);
}

Tensor solve_banded(const Tensor& bands, const Tensor& b, BandOptions options) {
  const auto solved = [&](const Tensor& x, const Tensor& y) {
    check_matrices(x, "solve_banded");
    if (y.rank() == 0) fail<ShapeError>("solve_banded: the right side is a number, for bands {}", x.shape());
    const Tensor sides = y.rank() == 1 ? expand_dims(y, -1) : y;
    const Shape stack = common_stack(x, sides, "solve_banded");
    const Tensor found = apply(op_solve_banded, {over_stack(x, stack), over_stack(sides, stack)},
                               make_intrusive<BandedAttributes>(options.lower, options.upper, false));
    return y.rank() == 1 ? squeeze(found, -1) : found;
  };
  return with_common_floats("solve_banded", solved, bands, b);
}

}  // namespace stave
