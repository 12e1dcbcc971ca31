// Determinants.

#include <array>
#include <limits>

#include <stave/core/op/op.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/linalg_rules.h>

namespace stave {

using namespace stave_detail;

namespace {

// ---- cofactors of small matrices, as polynomials ------------------------------------------------

Tensor row(const Tensor& x, Index i) { return squeeze(rows(x, i, 1), -2); }

// Laplace's expansion of matrices 6 x 6 along the first three and the last three rows: the
// determinant is the sum over the sets S of three columns of
//   (-1)^(sum of S + 3) minor(rows 0 1 2, columns S) minor(rows 3 4 5, the other columns).
// The tables number the pairs and the triples of columns in lexicographic order.
struct Expansion {
  static constexpr int n = 6, pairs = 15, triples = 20;
  std::array<std::array<int, pairs>, 2> pair{};      // [k][p]: column k of pair p
  std::array<std::array<int, triples>, 3> triple{};  // [k][t]: column k of triple t
  std::array<std::array<int, triples>, 3> rest{};    // [k][t]: triple t without column k, a pair
  // [p * n + j]: the triple of the columns that neither are j nor belong to pair p, and the sign of
  // its minor in the cofactor of column j. The sign is 0 if j belongs to p.
  std::array<int, pairs * n> other{}, sign{};
};

constexpr Expansion make_expansion() {
  Expansion made;
  std::array<int, 64> number{};  // the number of a pair or triple, at the index 2^a + 2^b (+ 2^c)
  int pairs = 0, triples = 0;
  for (int a = 0; a < Expansion::n; ++a)
    for (int b = a + 1; b < Expansion::n; ++b) {
      number[1 << a | 1 << b] = pairs;
      made.pair[0][pairs] = a;
      made.pair[1][pairs++] = b;
      for (int c = b + 1; c < Expansion::n; ++c) {
        number[1 << a | 1 << b | 1 << c] = triples;
        made.triple[0][triples] = a;
        made.triple[1][triples] = b;
        made.triple[2][triples++] = c;
      }
    }
  for (int t = 0; t < triples; ++t) {
    const int a = made.triple[0][t], b = made.triple[1][t], c = made.triple[2][t];
    made.rest[0][t] = number[1 << b | 1 << c];
    made.rest[1][t] = number[1 << a | 1 << c];
    made.rest[2][t] = number[1 << a | 1 << b];
  }
  for (int p = 0; p < pairs; ++p)
    for (int j = 0; j < Expansion::n; ++j) {
      const int first = made.pair[0][p], second = made.pair[1][p];
      if (j == first || j == second) continue;
      const int place = (first < j) + (second < j), sum = first + second + j;
      made.other[p * Expansion::n + j] = number[63 & ~(1 << first | 1 << second | 1 << j)];
      made.sign[p * Expansion::n + j] = (place + sum + 3) % 2 == 0 ? 1 : -1;
    }
  return made;
}

constexpr Expansion expansion = make_expansion();

template <std::size_t N>
Tensor columns_at(const Tensor& x, const std::array<int, N>& at) {
  return take(x, from(std::span<const int>(at), {static_cast<Index>(N)}, x.device()), -1);
}

// Returns the 2 x 2 minors [3, 15] of three rows x. Minor i, p consists of pair p of columns and of
// the rows i + 1 and i + 2, modulo 3.
Tensor minors_of_pairs(const Tensor& x) {
  const Tensor first = columns_at(x, expansion.pair[0]), second = columns_at(x, expansion.pair[1]);
  const auto from_row = [](const Tensor& m, Index i) { return concat({rows(m, i, 3 - i), rows(m, 0, i)}, -2); };
  return from_row(first, 1) * from_row(second, 2) - from_row(second, 1) * from_row(first, 2);
}

// Returns the 3 x 3 minors [20] of three rows x, from their 2 x 2 minors.
Tensor minors_of_triples(const Tensor& x, const Tensor& of_pairs) {
  const Tensor first = row(x, 0), rest = row(of_pairs, 0);
  const auto term = [&](std::size_t k) {
    return columns_at(first, expansion.triple[k]) * columns_at(rest, expansion.rest[k]);
  };
  return term(0) - term(1) + term(2);
}

// Returns the cofactors [3, 6] of three rows, from their 2 x 2 minors and the 3 x 3 minors of the
// other three rows. The signs are those of the upper three rows; the lower ones have the opposite.
Tensor cofactors_of_half(const Tensor& of_pairs, const Tensor& of_triples) {
  const std::span<const int> sign(expansion.sign);
  const Tensor signs = astype(from(sign, {static_cast<Index>(sign.size())}, of_pairs.device()), of_pairs.dtype());
  Shape shape = stack_of(of_pairs.shape());
  return matmul(of_pairs, reshape(columns_at(of_triples, expansion.other) * signs,
                                  stacked(std::move(shape), {Expansion::pairs, Expansion::n})));
}

Tensor cofactors_6x6(const Tensor& a) {
  const Tensor top = rows(a, 0, 3), bottom = rows(a, 3, 3);
  const Tensor top_pairs = minors_of_pairs(top), bottom_pairs = minors_of_pairs(bottom);
  return concat({cofactors_of_half(top_pairs, minors_of_triples(bottom, bottom_pairs)),
                 -cofactors_of_half(bottom_pairs, minors_of_triples(top, top_pairs))},
                -2);
}

// The cofactors of matrices up to 6 x 6, computed as polynomials, so that they have derivatives of
// any order. For diagonal matrices no terms cancel.
Tensor small_cofactors(const Tensor& a) {
  const Index n = a.shape(-1), added = Expansion::n - n;
  if (n <= 1) return ones_like(a);
  if (n == 2) return flip(a, {-2, -1}) * tensor({{1, -1}, {-1, 1}}, a.dtype(), a.device());
  if (n == 3) return stack({cross(row(a, 1), row(a, 2)), cross(row(a, 2), row(a, 0)), cross(row(a, 0), row(a, 1))}, -2);
  if (added == 0) return cofactors_6x6(a);
  // The cofactors of a are the upper left corner of the cofactors of [a 0; 0 1].
  std::vector<std::pair<Index, Index>> widths(static_cast<std::size_t>(a.rank()), {0, 0});
  widths.back() = widths[widths.size() - 2] = {0, added};
  const Tensor ones_below = concat({zeros({n}, a.dtype(), a.device()), ones({added}, a.dtype(), a.device())}, 0);
  return columns(rows(cofactors_6x6(pad(a, widths) + as_diagonal(ones_below)), 0, n), 0, n);
}

Tensor small_det(const Tensor& a) { return sum(rows(a, 0, 1) * rows(small_cofactors(a), 0, 1), {-2, -1}); }

Tensor det_by_logarithm(const Tensor& a) {
  const auto [sign, logarithm] = slogdet(a);
  return sign * exp(logarithm);
}

}  // namespace

}  // namespace stave

namespace stave_detail {

// Let a = u diag(s) vh. Then b = u^H a vh^H, with u and vh as constants, has the value diag(s) and
// is linear in a. The cofactors of a are those of b, multiplied by those of u and vh, which are
// det u conj(u) and det vh conj(vh). The singular values
// that may be 0 are in d, the last corner of b = [p q; r d], which is 6 x 6. Where p is regular,
// the adjugate (the transposed cofactors) is
//   adj [p q; r d] = det p [det m w + w q adj m r w, -w q adj m; -adj m r w, adj m],
//   w = p^-1, m = d - r w q,
// and adj m is a polynomial. If p is singular, the rank of a is at most n - 7, and det p is taken
// to be 0. That is right for the derivatives of det a up to the sixth; higher ones are 0, which is
// wrong.
Tensor cofactors(const Tensor& a) {
  const Index n = a.shape(-1), corner = Expansion::n, k = n - corner;
  if (k <= 0) return small_cofactors(a);
  const auto [u, s, vh] = svd(stop_gradient(a));
  const Tensor moving = matmul(adjoint(u), a, adjoint(vh));
  const double least = s.dtype() == float64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  const Tensor s1 = entries(s, s.rank() - 1, 0, k), is_zero = s1 < least;
  Tensor b = moving - stop_gradient(moving) + as_diagonal(s);
  const Tensor top = rows(b, 0, k), bottom = rows(b, k, corner);
  const Tensor p = columns(top, 0, k) + as_diagonal(astype(is_zero, a.dtype()));
  const Tensor q = columns(top, k, corner), r = columns(bottom, 0, k), d = columns(bottom, k, corner);
  const Tensor w = inv(p), wq = matmul(w, q), rw = matmul(r, w), m = d - matmul(r, wq);
  const Tensor adjugate = transposed(small_cofactors(m)), lower = -matmul(adjugate, rw);
  const Tensor det_m = expand_dims(small_det(m), {-2, -1});
  const Tensor above = concat({det_m * w - matmul(wq, lower), -matmul(wq, adjugate)}, -1);
  const Tensor det_p = where(any(is_zero, -1), 0, det_by_logarithm(p)) * slogdet(u).first * slogdet(vh).first;
  const Tensor inner = concat({above, concat({lower, adjugate}, -1)}, -2) * expand_dims(det_p, {-2, -1});
  return matmul(conj(u), transposed(inner), conj(vh));
}

}  // namespace stave_detail

namespace stave {

namespace {

Shape stack_of_squares(const Call& call) { return stack_of(square_matrices(call, 0).shape()); }
Tensor over_matrices(const Tensor& numbers, const Tensor& x) { return expand_dims(numbers, {-2, -1}) * x; }
Tensor inner_product(const Tensor& x, const Tensor& y) { return sum(x * y, {-2, -1}); }
Tensor inverse_transposed(const Tensor& a) { return transposed(inv(a)); }

// The derivative of the logarithm of the determinant is t = trace(a^-1 da). The logarithm of the
// absolute value has the derivative Re t, and the sign s has i s Im t, which is 0 for real
// matrices.
Outputs jvp_slogdet(const JvpContext& c) {
  const Tensor t = inner_product(inverse_transposed(c.in(0)), c.tangents[0]);
  if (!is_complex(t.dtype())) return {Tensor(), t};
  return {c.out(0) * complex(0, imag(t)), real(t)};
}

Tensor vjp_slogdet(const VjpContext& c, int) {
  Tensor of_log = c.ct(1);
  if (c.ct(0).defined() && is_complex(c.dtype(0)))
    of_log = add_tangents(std::move(of_log), complex(0, imag(c.ct(0) * slogdet(c.in(0)).first)));
  return of_log.defined() ? over_matrices(of_log, inverse_transposed(c.in(0))) : c.zeros(0);
}

}  // namespace

constinit const Op op_det{
    .id = OpId::det,
    .name = "det",
    .takes_complex = true,
    .infer =
        [](const Call& call, auto& outputs) {
          outputs.push_back({stack_of_squares(call), call.input(0).dtype()});
        },
    .reads = {0b1},
    .jvp = [](const JvpContext& c) -> Outputs { return inner_product(cofactors(c.in(0)), c.tangents[0]); },
    .vjp = [](const VjpContext& c, int) { return over_matrices(c.ct(), cofactors(c.in(0))); },
    .batch = batch_in_front,
    .kernel_throws = true,
};

constinit const Op op_slogdet{
    .id = OpId::slogdet,
    .name = "slogdet",
    .takes_complex = true,
    .infer =
        [](const Call& call, auto& outputs) {
          const Dtype dtype = call.input(0).dtype();
          outputs.push_back({stack_of_squares(call), dtype});
          outputs.push_back({stack_of_squares(call), real_of(dtype)});
        },
    .reads = {0b1},
    .jvp = jvp_slogdet,
    .vjp = vjp_slogdet,
    .batch = batch_in_front,
    .kernel_throws = true,
};

}  // namespace stave
