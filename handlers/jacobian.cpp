#include <stave/handlers/jacobian.h>

#include <stave/core/fail.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/layout.h>

namespace stave {
namespace {

// The unit vectors of arrays like x, one in each lane: [n, shape of x...].
Tensor unit_vectors(const Tensor& x) {
  Shape stacked = x.shape();
  stacked.insert(stacked.begin(), x.size());
  return reshape(eye(x.size(), x.dtype(), x.device()), stacked);
}

// f for each unit vector of arrays like x in a lane; the lanes along `axis` of the result.
Tensor for_unit_vectors(FlatFunction f, const Tensor& x, Index axis) {
  const Tensor basis = unit_vectors(x);
  const MapAxis first(0);
  const int argument = 0;
  return vmap_output(vmap_flat(f, {&basis, 1}, {&first, 1}, {&argument, 1}, std::nullopt), 0, axis);
}

// A derivative of integers would be a matrix of zeros that says nothing.
void check_output(const Tensor& output, const char* transform) {
  if (!is_float(output.dtype()))
    stave_detail::fail<DtypeError>("{}: the function returned {}, which has no derivative: return a floating tensor",
                                   transform, output.dtype());
}

Shape joined(Shape a, const Shape& b) {
  a.append(b.begin(), b.end());
  return a;
}

}  // namespace

Tensor jacfwd_flat(FlatFunction f, const Tensor& x) {
  Shape output;
  const auto column = [&](std::span<const Tensor> direction) {
    FlatJvp result = jvp_flat(f, {&x, 1}, direction);
    check_output(result.outputs[0], "jacfwd");
    output = result.outputs[0].shape();
    return std::move(result.tangents);
  };
  const Tensor columns = for_unit_vectors(column, x, -1);
  return reshape(columns, joined(output, x.shape()));
}

Tensor jacrev_flat(FlatFunction f, const Tensor& x) {
  const FlatVjp vjp = vjp_flat(f, {&x, 1}, "jacrev");
  check_output(vjp.outputs[0], "jacrev");
  const auto row = [&](std::span<const Tensor> cotangent) { return Outputs(vjp.pullback(cotangent)[0]); };
  const Tensor& output = vjp.outputs[0];
  const Tensor rows = for_unit_vectors(row, output, 0);
  return reshape(rows, joined(output.shape(), x.shape()));
}

}  // namespace stave
