// Systems of equations, and the matrix exponential.
//
// The operations solve and lstsq take a matrix and its factors. Values are computed
// from the factors, which have no derivative. Derivatives flow through the matrix, by implicit
// differentiation. So derivatives of any order need no other factors.

#include <stave/core/op/op.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/linalg_rules.h>
#include <stave/core/ops/series.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

void fail_no_derivative(const Op& op, int input) {
  fail<TransformError>("{} has no derivative with respect to operand {}, which is a factor of operand 0", op.name,
                       input);
}

Tensor lanes_as_columns(const Tensor& b) {
  const Tensor moved = moveaxis(b, 0, -2);
  Shape shape = moved.shape();
  shape.pop_back();
  shape.back() *= b.shape(-1);
  return reshape(moved, shape);
}

Tensor columns_as_lanes(const Tensor& x, Index lanes) {
  Shape shape = x.shape();
  shape.back() = lanes;
  shape.push_back(lanes == 0 ? 0 : x.shape(-1) / lanes);
  return moveaxis(reshape(x, shape), -2, 0);
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

namespace {

void infer_right_sides(const Call& call, SmallVector<Abstract, 1>& outputs) {
  square_matrices(call, 0);
  const Tensor& b = right_sides(call);
  outputs.push_back({b.shape(), b.dtype()});
}

// Operand 1 is the right side b. If only b has lanes, the columns of all lanes become the right
// sides of one system. Otherwise each lane has a system of its own.
Outputs batch_right_sides(const BatchContext& c) {
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    if (c.batched[i] != (i == 1) || c.size == 0) return batch_in_front(c);
  Inputs inputs(c.inputs);
  inputs[1] = lanes_as_columns(inputs[1]);
  return columns_as_lanes(apply(c.call.op(), std::move(inputs), c.attributes()), c.size);
}

// Returns the coefficients of the series of x with product(a, x) = b, where `call` solves for x.
template <class Product>
Outputs series_of_system(const SeriesContext& c, Product product) {
  return nonzero(rest_of_quotient(c, c.in(1, c.order), 0, product), [&](const Tensor& rest) {
    Inputs inputs;
    for (std::size_t i = 0; i < c.call.inputs().size(); ++i) inputs.push_back(i == 1 ? rest : c.call.inputs()[i]);
    return apply(c.call.with_inputs(std::move(inputs)));
  });
}

// If only b has element sets, a column of the solution depends on the same column of b alone.
Outputs depends_on_solution(const DependsContext& c) {
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    if (i != 1 && c.has(i)) return depends_on_matrices(c);
  return depends_along(c, Shape(c.call.input(1).rank() - 2));
}

Tensor negative_product(const Tensor& x, const Tensor& y, bool exchanged) {
  return exchanged ? -matmul(y, transposed(x)) : -matmul(x, transposed(y));
}

}  // namespace

// ---- triangular_solve -----------------------------------------------------------------------

namespace {

Tensor triangle(const Tensor& x, const TriangularAttributes& of) {
  return of.lower ? tril(x, of.unit ? -1 : 0) : triu(x, of.unit ? 1 : 0);
}

// t x = b: dt x + t dx = db.
Outputs jvp_triangular_solve(const JvpContext& c) {
  const auto& of = c.as<TriangularAttributes>();
  Tensor db = c.tangents[1];
  if (c.has(0)) {
    const Tensor da = triangle(c.tangents[0], of);
    db = add_tangents(std::move(db), -matmul(of.transpose ? transposed(da) : da, c.out()));
  }
  return apply(op_triangular_solve, {c.in(0), db}, c.call.attributes_ptr());
}

Outputs series_triangular_solve(const SeriesContext& c) {
  const auto& of = c.as<TriangularAttributes>();
  return series_of_system(c, [&](const Tensor& a, const Tensor& x) {
    const Tensor t = triangle(a, of);
    return matmul(of.transpose ? transposed(t) : t, x);
  });
}

Tensor vjp_triangular_solve(const VjpContext& c, int input) {
  const auto& of = c.as<TriangularAttributes>();
  const Tensor flow = apply(op_triangular_solve, {c.in(0), c.ct()},
                            make_intrusive<TriangularAttributes>(of.lower, !of.transpose, of.unit));
  return input == 1 ? flow : triangle(negative_product(flow, c.out(), of.transpose), of);
}

}  // namespace

constinit const Op op_triangular_solve{
    .id = OpId::triangular_solve,
    .name = "triangular_solve",
    .takes_complex = true,
    .infer = infer_right_sides,
    .reads = {0b01 | ValueSet::outputs, 0b01},
    .jvp = jvp_triangular_solve,
    .series = series_triangular_solve,
    .vjp = vjp_triangular_solve,
    .batch = batch_right_sides,
    .depends = depends_on_solution,
    .kernel_throws = true,
};

// ---- solve ----------------------------------------------------------------------------------

namespace {

// Performs solve. Its operands are a, b, the packed factors of a, and the permutation of a's rows.
Tensor solve_again(const Tensor& a, const Tensor& b, const Tensor& packed, const Tensor& order, bool transpose) {
  return apply(op_solve, {a, b, packed, order}, make_intrusive<SolveAttributes>(transpose));
}

Outputs jvp_solve(const JvpContext& c) {
  const bool transpose = c.as<SolveAttributes>().transpose;
  Tensor db = c.tangents[1];
  if (c.has(0)) {
    const Tensor& da = c.tangents[0];
    db = add_tangents(std::move(db), -matmul(transpose ? transposed(da) : da, c.out()));
  }
  return solve_again(c.in(0), db, c.in(2), c.in(3), transpose);
}

Outputs series_solve(const SeriesContext& c) {
  const bool transpose = c.as<SolveAttributes>().transpose;
  return series_of_system(c,
                          [&](const Tensor& a, const Tensor& x) { return matmul(transpose ? transposed(a) : a, x); });
}

Tensor vjp_solve(const VjpContext& c, int input) {
  if (input > 1) fail_no_derivative(c.op, input);
  const bool transpose = c.as<SolveAttributes>().transpose;
  const Tensor flow = solve_again(c.in(0), c.ct(), c.in(2), c.in(3), !transpose);
  return input == 1 ? flow : negative_product(flow, c.out(), transpose);
}

}  // namespace

constinit const Op op_solve{
    .id = OpId::solve,
    .name = "solve",
    .takes_complex = true,
    .infer = infer_right_sides,
    .reads = {0b1101 | ValueSet::outputs, 0b1101},
    .jvp = jvp_solve,
    .series = series_solve,
    .vjp = vjp_solve,
    .batch = batch_right_sides,
    .depends = depends_on_solution,
    .kernel_throws = true,
};

// ---- lstsq ----------------------------------------------------------------------------------

namespace {

// The pseudoinverse a^+ of a = u diag(s) vh, where `inverse` is 1 / s.
struct PseudoInverse {
  const Tensor &a, &u, &inverse, &vh;

  Tensor operator()(const Tensor& y) const { return apply(op_lstsq, {a, y, u, inverse, vh}); }
  Tensor of_adjoint(const Tensor& y) const {
    return apply(op_lstsq, {adjoint(a), y, adjoint(vh), inverse, adjoint(u)});
  }
};

// The derivative of the pseudoinverse (Golub, Pereyra 1973, (4.12)):
//   d(a^+) = -a^+ da a^+ + a^+ a^+^H da^H (1 - a a^+) + (1 - a^+ a) da^H a^+^H a^+
Outputs jvp_lstsq(const JvpContext& c) {
  const Tensor &a = c.in(0), &b = c.in(1), &x = c.out();
  const PseudoInverse inverse{a, c.in(2), c.in(3), c.in(4)};
  if (!c.has(0)) return inverse(c.tangents[1]);
  const Tensor &da = c.tangents[0], outside = matmul(adjoint(da), inverse.of_adjoint(x));
  Tensor source = inverse.of_adjoint(matmul(adjoint(da), b - matmul(a, x))) - matmul(da, x) - matmul(a, outside);
  return inverse(add_tangents(std::move(source), c.tangents[1])) + outside;
}

// The coefficients of x = a^+ b. The JVP rule would apply a^+ to three other right sides at each
// order. x, the residual r = b - a x and some w are determined by
//   a x + r = b,  a^H r = 0,  x = a^H w
// With a_0^+ these equations give, for the coefficients of order k, with f, g and h from the
// coefficients of lower orders,
//   f = b_k - sum_j a_j x_(k-j)   g = - sum_j a_j^H r_(k-j)   h = sum_j a_j^H w_(k-j)   (j = 1..k)
//   x_k = a_0^+ (f - a_0^+^H g - a_0 h) + h   r_k = f - a_0 x_k   w_k = a_0^+^H (x_k - h)
// where w is that of least norm. `kept` holds r_0, w_0, r_1, w_1, ...
Outputs series_lstsq(const SeriesContext& c) {
  const Tensor &a = c.call.input(0), &x = c.outputs[0];
  const PseudoInverse inverse{a, c.call.input(2), c.call.input(3), c.call.input(4)};
  if (c.kept.empty()) c.kept = {c.call.input(1) - matmul(a, x), inverse.of_adjoint(x)};
  const auto r = [&](int k) { return c.kept[static_cast<std::size_t>(2 * k)]; };
  const auto w = [&](int k) { return c.kept[static_cast<std::size_t>(2 * k + 1)]; };
  Tensor f = c.in(1, c.order), g, h;
  for (int j = 1; j <= c.order; ++j) {
    const Tensor da = c.in(0, j);
    if (!da.defined()) continue;
    const int k = c.order - j;
    if (const Tensor before = c.out(k); before.defined()) f = subtract_coefficient(std::move(f), matmul(da, before));
    if (r(k).defined()) g = subtract_coefficient(std::move(g), matmul(adjoint(da), r(k)));
    if (w(k).defined()) h = add_tangents(std::move(h), matmul(adjoint(da), w(k)));
  }
  Tensor side = f;
  if (g.defined()) side = subtract_coefficient(std::move(side), inverse.of_adjoint(g));
  if (h.defined()) side = subtract_coefficient(std::move(side), matmul(a, h));
  const Tensor within = nonzero(std::move(side), inverse), x_k = add_tangents(within, h);
  c.kept.push_back(subtract_coefficient(f, x_k.defined() ? matmul(a, x_k) : x_k));
  c.kept.push_back(nonzero(within, [&](const Tensor& y) { return inverse.of_adjoint(y); }));
  return x_k;
}

Tensor vjp_lstsq(const VjpContext& c, int input) {
  if (input > 1) fail_no_derivative(c.op, input);
  const PseudoInverse inverse{c.in(0), c.in(2), c.in(3), c.in(4)};
  const auto rule = [&](const Tensor& by_x) {
    const Tensor flow = inverse.of_adjoint(by_x);
    if (input == 1) return flow;
    const Tensor &a = c.in(0), &b = c.in(1), &x = c.out();
    const Tensor outside = by_x - inverse(matmul(a, by_x));
    return matmul(b - matmul(a, x), adjoint(inverse(flow))) + matmul(inverse.of_adjoint(x), adjoint(outside)) -
           matmul(flow, adjoint(x));
  };
  return by_gradients(rule, c.ct());
}

}  // namespace

constinit const Op op_lstsq{
    .id = OpId::lstsq,
    .name = "lstsq",
    .takes_complex = true,
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const Tensor& b = right_sides(call);
          const Shape& a = call.input(0).shape();
          outputs.push_back({stacked(stack_of(a), {columns_of(a), columns_of(b.shape())}), b.dtype()});
        },
    .reads = {0b11111 | ValueSet::outputs, 0b11101},
    .jvp = jvp_lstsq,
    .series = series_lstsq,
    .vjp = vjp_lstsq,
    .batch = batch_right_sides,
    .depends = depends_on_matrices,
    .kernel_throws = true,
};

// ---- expm -----------------------------------------------------------------------------------

namespace {

// Returns the derivative de of exp at a in the direction e: exp [a e; 0 a] = [exp a, de; 0, exp a].
Tensor expm_tangent(const Tensor& a, const Tensor& e) {
  const Index n = a.shape(-1);
  const Tensor block = concat({concat({a, e}, -1), concat({zeros_like(a), a}, -1)}, -2);
  return columns(rows(expm(block), 0, n), n, n);
}

// The map from a series to the block matrix [a_0 a_1 a_2; 0 a_0 a_1; 0 0 a_0] keeps sums and
// products, so the exponential of that matrix has the coefficients of exp(a) in its first row.
// (The matrices of the JVP rule would double at each order.)
Outputs series_expm(const SeriesContext& c) {
  const Tensor& a = c.call.input(0);
  const Index n = a.shape(-1);
  std::vector<Tensor> diagonals, blocks;
  for (int k = 0; k <= c.last; ++k) {
    const Tensor diagonal = c.in(0, k);
    diagonals.push_back(diagonal.defined() ? diagonal : zeros_like(a));
  }
  const Tensor zero = zeros_like(a);
  for (int i = 0; i <= c.last; ++i) {
    std::vector<Tensor> row(static_cast<std::size_t>(i), zero);
    row.insert(row.end(), diagonals.begin(), diagonals.end() - i);
    blocks.push_back(concat(row, -1));
  }
  const Tensor first = rows(expm(concat(blocks, -2)), 0, n);
  Outputs found;
  for (int k = c.order; k <= c.last; ++k) found.push_back(columns(first, k * n, n));
  return found;
}

}  // namespace

constinit const Op op_expm{
    .id = OpId::expm,
    .name = "expm",
    .takes_complex = true,
    .infer =
        [](const Call& call, auto& outputs) {
          outputs.push_back({square_matrices(call, 0).shape(), call.input(0).dtype()});
        },
    .reads = {0b1},
    .jvp = [](const JvpContext& c) -> Outputs { return expm_tangent(c.in(0), c.tangents[0]); },
    .series = series_expm,
    .vjp = [](const VjpContext& c, int) { return expm_tangent(transposed(c.in(0)), c.ct()); },
    .batch = batch_in_front,
    .depends = depends_on_matrices,
    .kernel_throws = true,
};

}  // namespace stave
