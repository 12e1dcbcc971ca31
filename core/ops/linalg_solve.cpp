// Systems of equations, and the matrix exponential.
//
// The operations solve and lstsq take a matrix and its factors. Values are computed
// from the factors, which have no derivative. Derivatives flow through the matrix, by implicit
// differentiation. So derivatives of any order need no other factors.

#include <stave/core/op/op.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/linalg_rules.h>
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

// A column of the solution depends on the same column of b if nothing else is followed.
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
    .vjp = [](const VjpContext& c, int) { return expm_tangent(transposed(c.in(0)), c.ct()); },
    .batch = batch_in_front,
    .depends = depends_on_matrices,
    .kernel_throws = true,
};

}  // namespace stave
