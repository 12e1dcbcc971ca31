// The functions of linear algebra, composed of operations. The operations and their derivatives
// are in linalg_factors.cpp and linalg_solve.cpp.

#include <stave/core/ops/linalg.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include <stave/core/op/op.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/linalg_frontend.h>
#include <stave/core/ops/search.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

AttributesPtr factors(bool full) { return make_intrusive<FactorAttributes>(full); }

}  // namespace

// ---- systems of equations -------------------------------------------------------------------

namespace {

Tensor solve_floats(const Tensor& a, const Tensor& b) {
  check_square(a, "solve");
  const auto [packed, exchanges, order] = lu_factor(stop_gradient(a));
  const Shape stack = common_stack(a, b, "solve");
  return apply(op_solve,
               {over_stack(a, stack), over_stack(b, stack), over_stack(packed, stack), over_stack(order, stack, 1)},
               make_intrusive<SolveAttributes>(false));
}

}  // namespace

Tensor solve(const Tensor& a, const Tensor& b) {
  return with_common_floats(
      "solve", [](const Tensor& x, const Tensor& y) { return for_right_sides("solve", x, y, solve_floats); }, a, b);
}

Tensor inv(const Tensor& a) {
  return with_floats("inv", a, [](const Tensor& x) {
    check_square(x, "inv");
    return solve_floats(x, identity_like(x, x.shape(-1)));
  });
}

Tensor triangular_solve(const Tensor& a, const Tensor& b, TriangularOptions options) {
  const auto solved = [&](const Tensor& x, const Tensor& y) {
    check_square(x, "triangular_solve");
    const Shape stack = common_stack(x, y, "triangular_solve");
    return apply(op_triangular_solve, {over_stack(x, stack), over_stack(y, stack)},
                 make_intrusive<TriangularAttributes>(options.lower, options.transpose, options.unit_diagonal));
  };
  return with_common_floats(
      "triangular_solve",
      [&](const Tensor& x, const Tensor& y) { return for_right_sides("triangular_solve", x, y, solved); }, a, b);
}

namespace {

// Returns the threshold [..., 1] up to which the singular values s [..., k] of a count as 0.
// The axes of `rtol` broadcast with those of a's stack.
Tensor rank_threshold(const Tensor& s, const Tensor& a, const RankTolerance& rtol, const char* function) {
  const Tensor& values = rtol.values();
  const bool none = s.shape(-1) == 0;
  Shape lengths = s.shape();
  lengths.back() = 1;
  const Tensor largest = none ? zeros(lengths, s.dtype(), s.device()) : max(s, -1, keepdims);
  if (!values.defined())
    return largest *
           rtol.number().value_or(static_cast<double>(std::max(a.shape(-1), a.shape(-2))) * epsilon_of(a.dtype()));
  const Shape stack = naming(function, [&] { return broadcast_shapes(stack_of(a.shape()), values.shape(), "rtol"); });
  return over_stack(largest, stack, 1) * expand_dims(stop_gradient(astype(values, s.dtype())), -1);
}

Tensor lstsq_floats(const Tensor& a, const Tensor& b, const RankOptions& options, const char* function) {
  const auto [u, s, vh] = svd(stop_gradient(a), {.full_matrices = false});
  const Tensor threshold = rank_threshold(s, a, options.rtol, function), inverse = safe_reciprocal(s, threshold);
  Shape stack = common_stack(a, b, function);
  if (options.rtol.values().defined()) stack = broadcast_shapes(stack, options.rtol.values().shape(), function);
  return apply(op_lstsq, {over_stack(a, stack), over_stack(b, stack), over_stack(u, stack),
                          over_stack(inverse, stack, 1), over_stack(vh, stack)});
}

}  // namespace

RankTolerance::RankTolerance(Tensor values) : values_(std::move(values)) { require_defined(values_, "rtol"); }

Tensor lstsq(const Tensor& a, const Tensor& b, RankOptions options) {
  const auto of_dtype = [&](const Tensor& one_or_more, const Tensor& y) {
    // A single matrix is repeated if there are several tolerances.
    const Tensor& rtol = options.rtol.values();
    const bool repeats = rtol.defined() && one_or_more.rank() == 2;
    const Tensor x = repeats ? over_stack(one_or_more, rtol.shape()) : one_or_more;
    return for_right_sides(
        "lstsq", x, y, [&](const Tensor& m, const Tensor& sides) { return lstsq_floats(m, sides, options, "lstsq"); });
  };
  return with_common_floats("lstsq", of_dtype, a, b);
}

Tensor pinv(const Tensor& a, RankOptions options) {
  return with_floats("pinv", a, [&](const Tensor& x) {
    check_matrices(x, "pinv");
    return lstsq_floats(x, identity_like(x, x.shape(-2)), options, "pinv");
  });
}

// ---- factors --------------------------------------------------------------------------------

Tensor cholesky(const Tensor& a, CholeskyOptions options) {
  return with_floats("cholesky", a, [&](const Tensor& x) {
    const Tensor l = apply(op_cholesky, {x}, make_intrusive<CholeskyAttributes>(options.nan_if_indefinite));
    return options.upper ? adjoint(l) : l;
  });
}

std::tuple<Tensor, Tensor, Tensor> lu_factor(const Tensor& a) {
  return with_floats("lu_factor", a, [](const Tensor& x) -> std::tuple<Tensor, Tensor, Tensor> {
    Outputs found = perform(Call(op_lu, {x}));
    return {found[0], found[1], found[2]};
  });
}

// Row i of l u is row order[i] of a, so p has a 1 in row order[i] and column i.
std::tuple<Tensor, Tensor, Tensor> lu(const Tensor& a) {
  return with_floats("lu", a, [](const Tensor& x) -> std::tuple<Tensor, Tensor, Tensor> {
    const auto [packed, exchanges, order] = lu_factor(x);
    const Index m = x.shape(-2), n = x.shape(-1), k = std::min(m, n);
    const Tensor p = matrix_transpose(one_hot(order, m, x.dtype()));
    const Tensor l = tril(columns(packed, 0, k), -1) + eye(m, k, 0, x.dtype(), x.device());
    return {p, l, triu(rows(packed, 0, k))};
  });
}

namespace {

std::pair<Tensor, Tensor> tall_qr(const Tensor& a, bool complete) {
  Outputs found = perform(Call(op_qr, {a}, factors(complete)));
  return {found[0], found[1]};
}

}  // namespace

// If a has more columns than rows, q is computed from its first columns, which form a square
// matrix.
std::pair<Tensor, Tensor> qr(const Tensor& a, QrOptions options) {
  return with_floats("qr", a, [&](const Tensor& x) -> std::pair<Tensor, Tensor> {
    check_matrices(x, "qr");
    const Index m = x.shape(-2), n = x.shape(-1);
    if (m >= n) return tall_qr(x, options.complete);
    const auto [q, r] = tall_qr(columns(x, 0, m), false);
    return {q, concat({r, matmul(adjoint(q), columns(x, m, n - m))}, -1)};
  });
}

std::pair<Tensor, Tensor> eigh(const Tensor& a) {
  return with_floats("eigh", a, [](const Tensor& x) -> std::pair<Tensor, Tensor> {
    Outputs found = perform(Call(op_eigh, {x}));
    return {found[0], found[1]};
  });
}
Tensor eigvalsh(const Tensor& a) {
  return with_floats("eigvalsh", a, [](const Tensor& x) { return apply(op_eigvalsh, {x}); });
}

std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& a, SvdOptions options) {
  return with_floats("svd", a, [&](const Tensor& x) -> std::tuple<Tensor, Tensor, Tensor> {
    Outputs found = perform(Call(op_svd, {x}, factors(options.full_matrices)));
    return {found[0], found[1], found[2]};
  });
}
Tensor svdvals(const Tensor& a) {
  return with_floats("svdvals", a, [](const Tensor& x) { return apply(op_svdvals, {x}); });
}

// ---- numbers --------------------------------------------------------------------------------

Tensor det(const Tensor& a) {
  return with_floats("det", a, [](const Tensor& x) { return apply(op_det, {x}); });
}
std::pair<Tensor, Tensor> slogdet(const Tensor& a) {
  return with_floats("slogdet", a, [](const Tensor& x) -> std::pair<Tensor, Tensor> {
    Outputs found = perform(Call(op_slogdet, {x}));
    return {found[0], found[1]};
  });
}

Tensor matrix_rank(const Tensor& a, RankOptions options) {
  return with_floats("matrix_rank", a, [&](const Tensor& x) {
    const Tensor s = svdvals(x);
    return count_nonzero(s > rank_threshold(s, x, options.rtol, "matrix_rank"), -1);
  });
}

MatrixOrder::MatrixOrder(const char* name) {
  if (std::string_view(name) == "fro") kind_ = Kind::frobenius;
  else if (std::string_view(name) == "nuc") kind_ = Kind::nuclear;
  else
    fail<Error>("matrix_norm: there is no order \"{}\": use \"fro\", \"nuc\", infinity, 1, 2 or their negatives", name);
}
MatrixOrder::MatrixOrder(double order) : number_(order) {
  const double size = std::abs(order);
  if (size != 1 && size != 2 && !std::isinf(size))
    fail<Error>("matrix_norm: there is no order {}: use \"fro\", \"nuc\", infinity, 1, 2 or their negatives", order);
}

namespace {

Tensor extreme(const Tensor& x, bool largest, const Axes& axes, KeepDims keep) {
  return largest ? max(x, axes, keep) : min(x, axes, keep);
}

// Singular values without the derivative of those that are 0 up to rounding. That derivative would
// have arbitrary signs, which depend on the computed vectors. It is defined as 0, as for |x| at 0.
Tensor singular_sizes(const Tensor& x) {
  const Tensor s = svdvals(x);
  return where(s <= rounding_bound(s, std::max(x.shape(-2), x.shape(-1))), stop_gradient(s), s);
}

Tensor norm_of_matrices(const Tensor& x, MatrixOrder order) {
  const bool is_empty = x.shape(-1) == 0 || x.shape(-2) == 0;
  if (is_empty && (order.kind() != MatrixOrder::Kind::number || order.number() > 0))
    return sum(abs(x), {-2, -1}, keepdims);
  if (order.kind() == MatrixOrder::Kind::frobenius) return norm(is_complex(x.dtype()) ? abs(x) : x, {-2, -1}, keepdims);
  if (order.kind() == MatrixOrder::Kind::nuclear) return sum(expand_dims(singular_sizes(x), -1), {-2, -1}, keepdims);
  const bool largest = order.number() > 0;
  if (std::abs(order.number()) == 2) return extreme(expand_dims(singular_sizes(x), -1), largest, {-2, -1}, keepdims);
  const bool of_rows = std::isinf(order.number());
  return extreme(sum(abs(x), of_rows ? -1 : -2, keepdims), largest, {-2, -1}, keepdims);
}

}  // namespace

Tensor matrix_norm(const Tensor& x, MatrixOrder order, KeepDims keep) {
  return with_floats("matrix_norm", x, [&](const Tensor& y) {
    check_matrices(y, "matrix_norm");
    const Tensor result = norm_of_matrices(y, order);
    return keep.value ? result : squeeze(result, {-2, -1});
  });
}

namespace {

// Returns the norm. x is divided by the largest |x| (for a negative order, by the smallest) before
// its powers are computed, so that these neither overflow nor underflow.
Tensor power_norm(const Tensor& x, double order, const Axes& axes) {
  const Tensor size = abs(x), unit_or_zero = stop_gradient(extreme(size, order > 0, axes, keepdims));
  const double least = size.dtype() == float64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  const Tensor none = logical_or(unit_or_zero == 0, isinf(unit_or_zero));
  // `unit` is at least the smallest normal number, so its reciprocal is finite.
  const Tensor unit = where(none, 1, maximum(unit_or_zero, least));
  const Tensor powers = sum(pow(where(none, 1, size / unit), order), axes, keepdims);
  return where(none, extreme(size, order > 0, axes, keepdims), pow(powers, 1 / order) * unit);
}

Tensor norm_of_vectors(const Tensor& x, double order, const Axes& axes, KeepDims keep) {
  if (order == 2) return norm(is_complex(x.dtype()) ? abs(x) : x, axes, keep);
  if (order == 1) return sum(abs(x), axes, keep);
  if (order == 0) return astype(count_nonzero(x, axes, keep), real_of(x.dtype()));
  const Shape reduced = axes.normalize(x.rank(), "vector_norm");
  for (const Index axis : reduced)
    if (x.shape(axis) == 0) return sum(abs(x), axes, keep) + (order < 0 ? HUGE_VAL : 0);
  if (std::isinf(order)) return extreme(abs(x), order > 0, axes, keep);
  const Tensor result = power_norm(x, order, axes);
  return keep.value ? result : squeeze(result, reduced);
}

}  // namespace

Tensor vector_norm(const Tensor& x, double order, const Axes& axes, KeepDims keep) {
  return with_floats("vector_norm", x, [&](const Tensor& y) { return norm_of_vectors(y, order, axes, keep); });
}

// ---- products and functions -----------------------------------------------------------------

namespace {

Tensor positive_power(Tensor square, std::uint64_t n) {
  Tensor result;
  for (;; square = matmul(square, square)) {
    if (n % 2 != 0) result = result.defined() ? matmul(result, square) : square;
    if ((n /= 2) == 0) return result;
  }
}

}  // namespace

Tensor matrix_power(const Tensor& a, Index n) {
  const auto power = [&](const Tensor& x) {
    check_square(x, "matrix_power");
    if (n == 0) return broadcast_to(identity_like(x, x.shape(-1)), x.shape());
    const auto count = static_cast<std::uint64_t>(n);
    return n < 0 ? positive_power(inv(x), -count) : positive_power(x, count);
  };
  if (a.defined() && n >= 0 && !is_inexact(a.dtype()))
    return named("matrix_power", [&] { return power(astype(a, multiplied_in(a.dtype()))); });
  return with_floats("matrix_power", a, power);
}

Tensor conj_transpose(const Tensor& x) { return conj(matrix_transpose(x)); }

Tensor expm(const Tensor& a) {
  return with_floats("expm", a, [](const Tensor& x) { return apply(op_expm, {x}); });
}

Tensor cross(const Tensor& a, const Tensor& b, Index axis) {
  return named(
      "cross",
      [&] {
        const auto vectors = [&](const Tensor& x) {
          const Tensor moved = moveaxis(x, axis, -1);
          if (moved.shape(-1) != 3)
            fail<ShapeError>("cross: shape {} does not have 3 components along axis {}", x.shape(), axis);
          return moved;
        };
        const Tensor x = vectors(a), y = vectors(b);
        const auto turned = [](const Tensor& v, Index by) { return roll(v, by, -1); };
        return moveaxis(turned(x, -1) * turned(y, -2) - turned(x, -2) * turned(y, -1), -1, axis);
      },
      a, b);
}

Tensor vecdot(const Tensor& a, const Tensor& b, Index axis) {
  return named(
      "vecdot",
      [&] {
        const Tensor x = moveaxis(a, axis, -1), y = moveaxis(b, axis, -1);
        if (x.shape(-1) != y.shape(-1))
          fail<ShapeError>("vecdot: shapes {} and {} differ in length along axis {}", a.shape(), b.shape(), axis);
        // 16-bit floats are multiplied and added in float32. Small integers are added in 32 bits,
        // whose low bits are the wrapped result.
        const Dtype dtype = multiplied_in(promote(x.dtype(), y.dtype())), computed = computed_in(dtype);
        return astype(sum(conj(astype(x, computed)) * astype(y, computed), -1), dtype);
      },
      a, b);
}

Tensor vdot(const Tensor& a, const Tensor& b) {
  return named(
      "vdot",
      [&] {
        if (a.size() != b.size()) fail<ShapeError>("vdot: shapes {} and {} differ in size", a.shape(), b.shape());
        return vecdot(reshape(a, {-1}), reshape(b, {-1}));
      },
      a, b);
}

Tensor kron(const Tensor& a, const Tensor& b) {
  return named(
      "kron",
      [&] {
        const int rank = std::max(a.rank(), b.rank());
        Shape left, right, result;
        for (int axis = 0; axis < rank; ++axis) {
          const auto length = [&](const Tensor& x) { return axis < rank - x.rank() ? 1 : x.shape(axis - rank); };
          left.push_back(length(a)), left.push_back(1);
          right.push_back(1), right.push_back(length(b));
          result.push_back(length(a) * length(b));
        }
        return reshape(reshape(a, left) * reshape(b, right), result);
      },
      a, b);
}

}  // namespace stave
