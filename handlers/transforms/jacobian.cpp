#include <stave/handlers/transforms/jacobian.h>

#include <stave/core/ops/create.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>

namespace stave {
namespace {

// Returns the unit vectors of arrays like x, one in each lane: [n, shape of x...].
Tensor unit_vectors(const Tensor& x) {
  Shape stacked = x.shape();
  stacked.insert(stacked.begin(), x.size());
  return reshape(eye(x.size(), x.dtype(), x.device()), stacked);
}

// Returns f of each unit vector of arrays like x, one in each lane, with the lanes along
// `axis` of the results.
Outputs for_unit_vectors(FlatFunction f, const Tensor& x, Index axis) {
  const Tensor basis = unit_vectors(x);
  const MapAxis first(0);
  const FlatVmap lanes = vmap_flat(f, {&basis, 1}, {&first, 1}, std::nullopt);
  Outputs outputs;
  for (std::size_t i = 0; i < lanes.outputs.size(); ++i) outputs.push_back(vmap_output(lanes, i, axis));
  return outputs;
}

using stave_detail::fail;

// Rejects a complex input of jacfwd, or a complex output of jacrev, which would need two directions
// each: along 1 and along i. For a holomorphic function the direction along 1 says everything.
void check_directions(const Tensor& x, bool holomorphic, const char* transform, const std::string& what,
                      const char* remedy) {
  if (holomorphic && !is_complex(x.dtype()))
    fail<DtypeError>("{}: .holomorphic is set, but {} is {}: convert it with astype to a complex dtype", transform,
                     what, x.dtype());
  if (!holomorphic && is_complex(x.dtype()))
    fail<DtypeError>(
        "{}: {} is {}, and a complex number has a derivative along 1 and one along i: {}, or set .holomorphic if the "
        "function is complex-differentiable",
        transform, what, x.dtype(), remedy);
}

// Rejects outputs that are not floating: the derivative of integers would be a matrix of zeros that
// says nothing.
void check_output(const Tensor& output, bool holomorphic, const char* transform) {
  if (!is_inexact(output.dtype()))
    fail<DtypeError>("{}: the function returned {}, which has no derivative: return a floating tensor", transform,
                     output.dtype());
  if (holomorphic) check_directions(output, true, transform, "the result", "");
}

Shape joined(Shape a, const Shape& b) {
  a.append(b.begin(), b.end());
  return a;
}

}  // namespace

FlatJacobian jacfwd_flat(FlatFunction f, std::span<const Tensor> xs, InputNames names, JacobianOptions options) {
  FlatJacobian blocks;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    check_directions(xs[i], options.holomorphic, "jacfwd", names(i), "differentiate by real(z) and imag(z)");
    Outputs outputs;
    const auto columns_of = [&](std::span<const Tensor> direction) {
      std::vector<Tensor> tangents(xs.size());
      tangents[i] = direction[0];
      FlatJvp result = jvp_flat(f, xs, tangents, names);
      for (const Tensor& output : result.outputs) check_output(output, options.holomorphic, "jacfwd");
      outputs = std::move(result.outputs);
      return std::move(result.tangents);
    };
    const Outputs columns = for_unit_vectors(columns_of, xs[i], -1);
    blocks.resize(columns.size());
    for (std::size_t j = 0; j < columns.size(); ++j)
      blocks[j].push_back(reshape(columns[j], joined(outputs[j].shape(), xs[i].shape())));
  }
  return blocks;
}

FlatJacobian jacrev_flat(FlatFunction f, std::span<const Tensor> xs, InputNames names, JacobianOptions options) {
  const FlatVjp vjp = vjp_flat(f, xs, "jacrev", names, {.holomorphic = options.holomorphic});
  FlatJacobian blocks;
  for (std::size_t j = 0; j < vjp.outputs.size(); ++j) {
    const Tensor& output = vjp.outputs[j];
    check_output(output, options.holomorphic, "jacrev");
    check_directions(output, options.holomorphic, "jacrev", "the result", "return real(z) and imag(z)");
    const auto rows_of = [&](std::span<const Tensor> cotangent) {
      std::vector<Tensor> cotangents(vjp.outputs.size());
      cotangents[j] = cotangent[0];
      const std::vector<Tensor> gradients = vjp.pullback(cotangents);
      return Outputs(gradients.begin(), gradients.end());
    };
    const Outputs rows = for_unit_vectors(rows_of, output, 0);
    blocks.emplace_back();
    for (std::size_t i = 0; i < xs.size(); ++i)
      blocks[j].push_back(reshape(rows[i], joined(output.shape(), xs[i].shape())));
  }
  return blocks;
}

}  // namespace stave
