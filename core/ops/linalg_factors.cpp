// Factorizations: cholesky, lu, qr, eigh, svd, and eigvalsh and svdvals, which return values alone.
// If a factor is not unique, its derivative is that of the smooth choice that does not rotate the
// factor within the space in which it may be chosen.
//
// Sources: M. Giles, "An extended collection of matrix derivative results for forward and reverse
// mode algorithmic differentiation", 2008; I. Murray, "Differentiation of the Cholesky
// decomposition", 2016; J. Townsend, "Differentiating the singular value decomposition", 2016; F.
// de Hoog, R. Anderssen, M. Lukas, "Differentiation of matrix functionals using triangular
// factorization", 2011, with the rule of lu: l^-1 da u^-1 = l^-1 dl + du u^-1, where the first term
// is strictly lower and the second upper triangular.
//
// For complex matrices, symmetric becomes Hermitian and transposed becomes adjoint. Cotangents of
// functions that are not holomorphic are computed by gradients (linalg_rules.h).

#include <algorithm>

#include <stave/core/op/op.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/linalg_rules.h>
#include <stave/core/ops/sort.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

const Tensor& matrices(const Call& call, std::size_t i) {
  const Tensor& x = call.input(i);
  if (!is_inexact(x.dtype()) || is_half_float(x.dtype()))
    fail<DtypeError>("{}: {} is neither float32 nor float64 nor complex: convert with astype", call.op().name,
                     x.dtype());
  if (x.rank() < 2) fail<ShapeError>("{}: shape {} has fewer than the 2 axes of a matrix", call.op().name, x.shape());
  return x;
}

const Tensor& square_matrices(const Call& call, std::size_t i) {
  const Tensor& x = matrices(call, i);
  if (rows_of(x.shape()) != columns_of(x.shape()))
    fail<ShapeError>("{}: shape {} is not of square matrices", call.op().name, x.shape());
  return x;
}

const Tensor& right_sides(const Call& call) {
  const Tensor &a = matrices(call, 0), &b = matrices(call, 1);
  if (a.dtype() != b.dtype())
    fail<DtypeError>("{}: dtypes {} and {} differ: convert with astype", call.op().name, a.dtype(), b.dtype());
  if (stack_of(a.shape()) != stack_of(b.shape()) || rows_of(a.shape()) != rows_of(b.shape()))
    fail<ShapeError>("{}: right sides {} do not fit matrices {}", call.op().name, b.shape(), a.shape());
  return b;
}

Tensor as_diagonal(const Tensor& v) {
  const Index n = v.shape(-1);
  return where(eye(n, bool_, v.device()), expand_dims(v, -2), 0);
}

Tensor safe_reciprocal(const Tensor& x, const Tensor& least) {
  const Tensor is_small = abs(x) <= least;
  return where(is_small, 0, 1 / where(is_small, 1, x));
}

Tensor rounding_bound(const Tensor& values, Index length) {
  if (values.shape(-1) == 0) return zeros(values.shape(), real_of(values.dtype()), values.device());
  return max(abs(stop_gradient(values)), -1, keepdims) * (static_cast<double>(length) * epsilon_of(values.dtype()));
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

// ---- cholesky -------------------------------------------------------------------------------

namespace {

// Returns the lower triangular x of a Hermitian matrix s = x + x^H.
Tensor lower_half(const Tensor& s) { return (tril(s) + tril(s, -1)) * 0.5; }

// a = l l^H: l^-1 da l^-H = l^-1 dl + (l^-1 dl)^H.
Outputs jvp_cholesky(const JvpContext& c) {
  const Tensor& l = c.out();
  const Tensor half = triangular_solve(l, hermitian_part(c.tangents[0]), {.lower = true});
  return matmul(l, lower_half(triangular_solve(l, adjoint(half), {.lower = true})));
}

Tensor vjp_cholesky(const VjpContext& c, int) {
  const Tensor& l = c.out();
  const TriangularOptions back{.lower = true, .transpose = true};
  return by_gradients(
      [&](const Tensor& g) {
        const Tensor half = triangular_solve(conj(l), lower_half(matmul(adjoint(l), g)), back);
        return hermitian_part(triangular_solve(conj(l), adjoint(half), back));
      },
      c.ct());
}

}  // namespace

constinit const Op op_cholesky{
    .id = OpId::cholesky,
    .name = "cholesky",
    .takes_complex = true,
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const Tensor& a = square_matrices(call, 0);
          outputs.push_back({a.shape(), a.dtype()});
        },
    .reads = {ValueSet::outputs},
    .jvp = jvp_cholesky,
    .vjp = vjp_cholesky,
    .batch = batch_in_front,
    .kernel_throws = true,
};

// ---- lu -------------------------------------------------------------------------------------

namespace {

constexpr TriangularOptions unit_lower{.lower = true, .unit_diagonal = true};

// Returns l and u as square matrices, with ones on the diagonal beyond the factors.
std::pair<Tensor, Tensor> square_factors(const Tensor& packed) {
  const Index m = packed.shape(-2), n = packed.shape(-1), k = std::min(m, n);
  const auto around = [&](const Tensor& x, Index down, Index across) {
    std::vector<std::pair<Index, Index>> widths(static_cast<std::size_t>(x.rank()), {0, 0});
    widths[widths.size() - 2].second = down;
    widths.back().second = across;
    return pad(x, widths);
  };
  const Tensor l = around(tril(columns(packed, 0, k), -1), 0, m - k) + eye(m, packed.dtype(), packed.device());
  const Tensor beyond = pad(eye(n - k, packed.dtype(), packed.device()), {{k, 0}, {k, 0}});
  return {l, around(triu(rows(packed, 0, k)), n - k, 0) + beyond};
}

Tensor rows_in_order(const Tensor& x, const Tensor& order) { return take_along_axis(x, expand_dims(order, -1), -2); }

Outputs jvp_lu(const JvpContext& c) {
  const auto [l, u] = square_factors(c.out());
  const Tensor left = triangular_solve(l, rows_in_order(c.tangents[0], c.out(2)), unit_lower);
  const Tensor both = transposed(triangular_solve(u, transposed(left), {.transpose = true}));
  return {matmul(l, tril(both, -1)) + matmul(triu(both), u), Tensor(), Tensor()};
}

Tensor vjp_lu(const VjpContext& c, int) {
  const auto [l, u] = square_factors(c.out());
  const Tensor ct = or_zeros(c.ct(), c.out());
  const Tensor both = tril(matmul(transposed(l), ct), -1) + triu(matmul(ct, transposed(u)));
  const Tensor left = triangular_solve(l, both, {.lower = true, .transpose = true, .unit_diagonal = true});
  return rows_in_order(transposed(triangular_solve(u, transposed(left))), argsort(c.out(2)));
}

}  // namespace

constinit const Op op_lu{
    .id = OpId::lu,
    .name = "lu",
    .takes_complex = true,
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const Tensor& a = matrices(call, 0);
          const Shape stack = stack_of(a.shape());
          outputs.push_back({a.shape(), a.dtype()});
          outputs.push_back({stacked(stack, {least_of(a.shape())}), int32});
          outputs.push_back({stacked(stack, {rows_of(a.shape())}), int32});
        },
    .reads = {ValueSet::outputs},
    .jvp = jvp_lu,
    .vjp = vjp_lu,
    .batch = batch_in_front,
    .kernel_throws = true,
};

// ---- qr -------------------------------------------------------------------------------------

namespace {

// Returns the strictly lower triangle of x and, for complex numbers, half of the diagonal.
Tensor lower_of_skew(const Tensor& x) {
  const Tensor lower = tril(x, -1);
  return is_complex(x.dtype()) ? (lower + tril(x)) * 0.5 : lower;
}

// Returns t - t^H for the p x p matrix t whose first columns are lower_of_skew(x).
Tensor skew(const Tensor& x, Index p) {
  const Tensor lower = lower_of_skew(x);
  if (x.shape(-1) == p) return lower - adjoint(lower);
  const Tensor zero = zeros(stacked(stack_of(x.shape()), {p, p - x.shape(-1)}), x.dtype(), x.device());
  const Tensor wide = concat({lower, zero}, -1);
  return wide - adjoint(wide);
}

// Returns x r^-1, where only r's first rows are used, which form a square matrix.
Tensor over_triangle(const Tensor& x, const Tensor& r) {
  return transposed(triangular_solve(rows(r, 0, r.shape(-1)), transposed(x), {.transpose = true}));
}

// x r^-H
Tensor over_adjoint(const Tensor& x, const Tensor& r) {
  return transposed(triangular_solve(conj(rows(r, 0, r.shape(-1))), transposed(x)));
}

// The derivative for m >= n. With x = da r^-1 and w = q^H x, turn = q^H dq is skew-Hermitian
// and equals w below the diagonal. The diagonal of r is real, so that of turn is the imaginary part
// of w's. Then dq = q turn + (x - q w), with the second term only in the first n columns,
// and dr = q^H da - turn r. Between the columns beyond n, turn is 0.
Outputs jvp_qr(const JvpContext& c) {
  const Tensor &q = c.out(0), &r = c.out(1);
  const Index m = q.shape(-2), p = q.shape(-1);
  const Tensor x = over_triangle(c.tangents[0], r), w = matmul(adjoint(q), x), turn = skew(w, p);
  Tensor dq = matmul(q, turn);
  if (p < m) dq = dq + x - matmul(q, w);
  return {dq, triu(matmul(adjoint(q), c.tangents[0]) - matmul(turn, r))};
}

Tensor vjp_qr(const VjpContext& c, int) {
  const Tensor &q = c.out(0), &r = c.out(1);
  const Index m = q.shape(-2), p = q.shape(-1), n = r.shape(-1);
  const auto rule = [&](const Tensor& by_q, const Tensor& by_r) {
    const Tensor turn = matmul(adjoint(q), by_q) - matmul(by_r, adjoint(r));
    Tensor w = lower_of_skew(columns(turn - adjoint(turn), 0, n));
    if (p == m) return over_adjoint(matmul(q, w), r) + matmul(q, by_r);
    w = w - matmul(adjoint(q), by_q);
    return over_adjoint(by_q + matmul(q, w), r) + matmul(q, by_r);
  };
  return by_gradients(rule, or_zeros(c.ct(0), q), triu(or_zeros(c.ct(1), r)));
}

}  // namespace

constinit const Op op_qr{
    .id = OpId::qr,
    .name = "qr",
    .takes_complex = true,
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const Tensor& a = matrices(call, 0);
          const Index m = rows_of(a.shape()), n = columns_of(a.shape());
          if (m < n) fail<ShapeError>("qr: matrices of shape {} have more columns than rows here", a.shape());
          const Index p = call.as<FactorAttributes>().full ? m : n;
          outputs.push_back({stacked(stack_of(a.shape()), {m, p}), a.dtype()});
          outputs.push_back({stacked(stack_of(a.shape()), {p, n}), a.dtype()});
        },
    .reads = {ValueSet::outputs},
    .jvp = jvp_qr,
    .vjp = vjp_qr,
    .batch = batch_in_front,
    .kernel_throws = true,
};

// ---- eigh -----------------------------------------------------------------------------------

namespace {

// 1 / (v_j - v_i), and 0 where the difference is rounding error.
Tensor inverse_gaps(const Tensor& v, const Tensor& rounding) {
  return safe_reciprocal(expand_dims(v, -2) - expand_dims(v, -1), expand_dims(rounding, -1));
}
Tensor inverse_gaps(const Tensor& v) { return inverse_gaps(v, rounding_bound(v, v.shape(-1))); }

// With s = v^H da v, dw is the diagonal of s, and v^H dv is s_ij / (w_j - w_i).
Outputs jvp_eigh(const JvpContext& c) {
  const Tensor &w = c.out(0), &v = c.out(1);
  const Tensor s = matmul(adjoint(v), hermitian_part(c.tangents[0]), v);
  return {real(diagonal(s)), matmul(v, s * inverse_gaps(w))};
}

Tensor vjp_eigh(const VjpContext& c, int) {
  const Tensor &w = c.out(0), &v = c.out(1);
  const auto rule = [&](const Tensor& by_v) {
    Tensor s = as_diagonal(or_zeros(c.ct(0), w));
    if (by_v.defined()) s = s + matmul(adjoint(v), by_v) * inverse_gaps(w);
    return hermitian_part(matmul(v, s, adjoint(v)));
  };
  return by_gradients(rule, c.ct(1));
}

void infer_eigh(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor& a = square_matrices(call, 0);
  outputs.push_back({stacked(stack_of(a.shape()), {rows_of(a.shape())}), real_of(a.dtype())});
  if (&call.op() == &op_eigh) outputs.push_back({a.shape(), a.dtype()});
}

}  // namespace

constinit const Op op_eigh{
    .id = OpId::eigh,
    .name = "eigh",
    .takes_complex = true,
    .infer = infer_eigh,
    .reads = {ValueSet::outputs},
    .jvp = jvp_eigh,
    .vjp = vjp_eigh,
    .batch = batch_in_front,
    .kernel_throws = true,
};

constinit const Op op_eigvalsh{
    .id = OpId::eigvalsh,
    .name = "eigvalsh",
    .takes_complex = true,
    .infer = infer_eigh,
    .reads = {0b1},
    .jvp = [](const JvpContext& c) -> Outputs {
      const Tensor v = eigh(c.in(0)).second;
      return real(sum(matmul(hermitian_part(c.tangents[0]), v) * conj(v), -2));
    },
    .vjp =
        [](const VjpContext& c, int) {
          const Tensor v = eigh(c.in(0)).second;
          return matmul(times_diagonal(conj(v), c.ct()), transposed(v));
        },
    .batch = batch_in_front,
    .kernel_throws = true,
};

// ---- svd ------------------------------------------------------------------------------------

namespace {

// The reciprocals that the rules of svd use, which are 0 where the divisor is rounding error.
struct Gaps {
  Tensor differences, sums, values;  // 1 / (s_j - s_i), 1 / (s_j + s_i), 1 / s_i

  Gaps(const Tensor& s, Index m, Index n) {
    const Tensor rounding = rounding_bound(s, std::max(m, n));
    differences = inverse_gaps(s, rounding);
    sums = safe_reciprocal(expand_dims(s, -2) + expand_dims(s, -1), expand_dims(rounding, -1));
    values = safe_reciprocal(s, rounding);
  }
};

// Returns the derivative of an orthogonal x = [x1 x2], where x1 are the first columns. `turn` is
// the part of dx1 within the span of x1, and `away` the part outside it:
//   dx1 = x1 turn + away
//   dx2 = -x1 away^H x2
Tensor turned(const Tensor& x, const Tensor& turn, const Tensor& away) {
  const Index k = turn.shape(-1), beyond = x.shape(-1) - k;
  const Tensor x1 = columns(x, 0, k), dx1 = away.defined() ? matmul(x1, turn) + away : matmul(x1, turn);
  if (beyond == 0) return dx1;
  return concat({dx1, -matmul(x1, matmul(adjoint(away), columns(x, k, beyond)))}, -1);
}

// Let p = u^H da v, with the first k columns of u and v. Then ds is the real part of the diagonal
// of p, and
//   u^H du = ((p + p^H) / (s_j - s_i) + (p - p^H) / (s_j + s_i)) / 2;
// v^H dv is half of the difference of these two terms. (The phases of a pair of complex vectors are
// free; those of u and v turn by opposite angles.) Outside the span of u,
// `du = (1 - u u^H) da v s^-1`.
Outputs jvp_svd(const JvpContext& c) {
  const Tensor &u = c.out(0), &s = c.out(1), &da = c.tangents[0];
  const Tensor v = adjoint(c.out(2));
  const Index m = u.shape(-2), n = v.shape(-2), k = s.shape(-1);
  const Gaps inverse(s, m, n);
  const Tensor u1 = columns(u, 0, k), v1 = columns(v, 0, k);
  const Tensor p = matmul(adjoint(u1), matmul(da, v1));
  const Tensor even = (p + adjoint(p)) * inverse.differences * 0.5, odd = (p - adjoint(p)) * inverse.sums * 0.5;
  Tensor away_u, away_v;
  if (m > k) away_u = times_diagonal(matmul(da, v1) - matmul(u1, p), inverse.values);
  if (n > k) away_v = times_diagonal(matmul(adjoint(da), u1) - matmul(v1, adjoint(p)), inverse.values);
  return {turned(u, even + odd, away_u), real(diagonal(p)), adjoint(turned(v, even - odd, away_v))};
}

// Returns the gradient of `away` in turned(x, turn, away), projected onto the complement of the
// span of x1.
Tensor by_away(const Tensor& x, Index k, const Tensor& by_x) {
  const Tensor x1 = columns(x, 0, k), by_x1 = columns(by_x, 0, k);
  const Tensor outside = by_x1 - matmul(x1, matmul(adjoint(x1), by_x1));
  const Index beyond = x.shape(-1) - k;
  if (beyond == 0) return outside;
  return outside - matmul(columns(x, k, beyond), matmul(adjoint(columns(by_x, k, beyond)), x1));
}

Tensor vjp_svd(const VjpContext& c, int) {
  const Tensor &u = c.out(0), &s = c.out(1);
  const Tensor v = adjoint(c.out(2));
  const Index m = u.shape(-2), n = v.shape(-2), k = s.shape(-1);
  const Tensor u1 = columns(u, 0, k), v1 = columns(v, 0, k);
  const Gaps inverse(s, m, n);
  const auto rule = [&](const Tensor& by_u, const Tensor& by_vh) {
    const Tensor by_v = adjoint(by_vh);
    const Tensor in_u = matmul(adjoint(u1), columns(by_u, 0, k)), in_v = matmul(adjoint(v1), columns(by_v, 0, k));
    const Tensor even = (in_u + in_v) * inverse.differences * 0.5, odd = (in_u - in_v) * inverse.sums * 0.5;
    const Tensor p = even + adjoint(even) + odd - adjoint(odd) + as_diagonal(or_zeros(c.ct(1), s));
    Tensor left = matmul(u1, p);
    if (m > k) left = left + times_diagonal(by_away(u, k, by_u), inverse.values);
    Tensor result = matmul(left, adjoint(v1));
    if (n > k) result = result + matmul(u1, adjoint(times_diagonal(by_away(v, k, by_v), inverse.values)));
    return result;
  };
  return by_gradients(rule, or_zeros(c.ct(0), u), or_zeros(c.ct(2), c.out(2)));
}

constexpr SvdOptions reduced{.full_matrices = false};

}  // namespace

constinit const Op op_svd{
    .id = OpId::svd,
    .name = "svd",
    .takes_complex = true,
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const Tensor& a = matrices(call, 0);
          const Shape stack = stack_of(a.shape());
          const Index m = rows_of(a.shape()), n = columns_of(a.shape()), k = std::min(m, n);
          const bool full = call.as<FactorAttributes>().full;
          outputs.push_back({stacked(stack, {m, full ? m : k}), a.dtype()});
          outputs.push_back({stacked(stack, {k}), real_of(a.dtype())});
          outputs.push_back({stacked(stack, {full ? n : k, n}), a.dtype()});
        },
    .reads = {ValueSet::outputs},
    .jvp = jvp_svd,
    .vjp = vjp_svd,
    .batch = batch_in_front,
    .kernel_throws = true,
};

constinit const Op op_svdvals{
    .id = OpId::svdvals,
    .name = "svdvals",
    .takes_complex = true,
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const Tensor& a = matrices(call, 0);
          outputs.push_back({stacked(stack_of(a.shape()), {least_of(a.shape())}), real_of(a.dtype())});
        },
    .reads = {0b1},
    .jvp = [](const JvpContext& c) -> Outputs {
      const auto [u, s, vh] = svd(c.in(0), reduced);
      return real(sum(matmul(c.tangents[0], adjoint(vh)) * conj(u), -2));
    },
    .vjp =
        [](const VjpContext& c, int) {
          const auto [u, s, vh] = svd(c.in(0), reduced);
          return matmul(times_diagonal(conj(u), c.ct()), conj(vh));
        },
    .batch = batch_in_front,
    .kernel_throws = true,
};

}  // namespace stave
