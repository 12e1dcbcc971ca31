// C functions on arrays (c/cluster.h) as operations: the energy of a cluster of particles, with its
// first and second derivatives, which are C functions as well. The derivatives are written by hand
// or, if clang has the plugin, made by Enzyme. All transforms and handlers treat them like
// operations of the library.
#include <cmath>
#include <iostream>

#include <stave/stave.h>

#include "check.h"
#include "cluster.h"

using namespace stave;

struct Derivatives {
  decltype(&cluster_gradient) gradient;
  decltype(&cluster_hessian_product) hessian_product;
};
constexpr Derivatives by_hand{cluster_gradient, cluster_hessian_product};

// ---- what the three operations share: positions are float64 [n, 3], or stacks of such -----------

void check_positions(const Call& call) {
  for (const Tensor& input : call.inputs()) {
    if (input.rank() < 2 || input.shape(-1) != 3 || input.shape() != call.input(0).shape())
      throw ShapeError("cluster: positions are [n, 3], or stacks of such, and directions as they");
    if (input.dtype() != float64) throw DtypeError("cluster: positions and directions are float64");
  }
}
void infer_energy(const Call& call, SmallVector<Abstract, 1>& outputs) {
  check_positions(call);
  Shape stack = call.input(0).shape();
  stack.resize(stack.size() - 2);
  outputs.push_back({stack, float64});
}
void infer_positions(const Call& call, SmallVector<Abstract, 1>& outputs) {
  check_positions(call);
  outputs.push_back(abstract(call.input(0)));
}

// Calls f(index of the cluster, its number of particles, index of its first coordinate) for each
// cluster of a stack.
template <class F>
void for_each_cluster(const View& positions, F f) {
  const auto n = static_cast<std::size_t>(positions.shape.end()[-2]), all = elements<const double>(positions).size();
  for (std::size_t i = 0; i * 3 * n < all; ++i) f(i, static_cast<long>(n), i * 3 * n);
}

// ---- the operations, for whoever differentiates -------------------------------------------------

template <const Derivatives& by>
struct Cluster {
  static const Op op_energy, op_gradient, op_hessian_product;
  static Tensor energy(const Tensor& x) { return apply(op_energy, {x}); }
  static Tensor gradient(const Tensor& x) { return apply(op_gradient, {x}); }
  static Tensor hessian_product(const Tensor& x, const Tensor& v) { return apply(op_hessian_product, {x, v}); }
};

template <const Derivatives& by>
const Op Cluster<by>::op_energy = define_op({
    .name = "cluster_energy",
    .infer = infer_energy,
    .reads = {0b1},
    .jvp = [](const JvpContext& c) -> Outputs {
      return sum(gradient(c.in(0)) * c.tangent(0), {-2, -1});
    },
    .vjp =
        [](const VjpContext& c, int) {
          return expand_dims(c.ct(), {-2, -1}) * gradient(c.in(0));
        },
    .batch = batch_in_front,
    .cpu =
        [](const Attributes*, std::span<const View> in, std::span<const View> out) {
          const auto x = elements<const double>(in[0]);
          const auto energy = elements<double>(out[0]);
          for_each_cluster(in[0], [&](auto i, long n, auto at) { energy[i] = cluster_energy(&x[at], n); });
        },
});

template <const Derivatives& by>
const Op Cluster<by>::op_gradient = define_op({
    .name = "cluster_gradient",
    .infer = infer_positions,
    .reads = {0b1},
    .jvp = [](const JvpContext& c) -> Outputs { return hessian_product(c.in(0), c.tangent(0)); },
    // The Hessian is symmetric.
    .vjp = [](const VjpContext& c, int) { return hessian_product(c.in(0), c.ct()); },
    .batch = batch_in_front,
    .cpu =
        [](const Attributes*, std::span<const View> in, std::span<const View> out) {
          const auto x = elements<const double>(in[0]);
          const auto g = elements<double>(out[0]);
          for_each_cluster(in[0], [&](auto, long n, auto at) { by.gradient(&x[at], n, &g[at]); });
        },
});

// The third derivative is not known, and differentiating this operation by x throws an error that
// says so.
template <const Derivatives& by>
const Op Cluster<by>::op_hessian_product = define_op({
    .name = "cluster_hessian_product",
    .infer = infer_positions,
    .derivative = Derivative::linear,
    .linear_in = 0b10,
    .reads = {0b1, 0b1},
    .vjp = [](const VjpContext& c, int) { return hessian_product(c.in(0), c.ct()); },
    .batch = batch_in_front,
    .cpu =
        [](const Attributes*, std::span<const View> in, std::span<const View> out) {
          const auto x = elements<const double>(in[0]), v = elements<const double>(in[1]);
          const auto hv = elements<double>(out[0]);
          for_each_cluster(in[0], [&](auto, long n, auto at) { by.hessian_product(&x[at], &v[at], n, &hv[at]); });
        },
});

// ---- what users do with them --------------------------------------------------------------------

template <const Derivatives& by>
double run(const char* who) {
  using Energies = Cluster<by>;
  // A perturbed icosahedron with a particle at its centre. The vertices are the cyclic permutations
  // of (0, +-1, +-phi).
  std::vector<double> vertices{0, 0, 0};
  for (const double a : {-1., 1.})
    for (const double b : {-1.618, 1.618})
      for (const int turn : {0, 1, 2})
        for (const int k : {0, 1, 2}) vertices.push_back(k == turn ? 0 : k == (turn + 1) % 3 ? a : b);
  const Tensor start = 0.6 * from(vertices, {13, 3}) + 0.02 * normal(Key(0), {13, 3}, float64);

  check_op(Energies::op_energy, {{.inputs = {start}}});
  // Order 1, because there is no third derivative.
  check_op(Energies::op_gradient, {{.inputs = {start}}}, {.order = 1});
  // Compares forward and reverse mode with finite differences.
  check_grads(Energies::energy, start, {.order = 2});

  // Thirteen particles reach a minimum of the energy.
  const auto [x, least, slope, steps, evaluations, converged] = minimize(Energies::energy, start);
  check(converged, "the search ends where the forces do");
  std::cout << who << ": energy " << least;

  // Vibrations are eigenvalues of the Hessian. Six are 0, because the cluster can move and rotate
  // as a whole.
  const Tensor frequencies = eigvalsh(reshape(hessian(Energies::energy)(x), {39, 39}));
  std::cout << ", the softest vibration " << frequencies(6) << "\n";

  // Many clusters at once, and their forces.
  const Tensor shaken = x + 0.01 * normal(Key(1), {4, 13, 3}, float64);
  const Tensor forces = vmap(grad(Energies::energy))(shaken);
  check(allclose(forces(2), Energies::gradient(shaken(2))), "a lane is what it is alone");
  return least.template item<double>();
}

int main() {
  const double energy = run<by_hand>("by hand");
  // The lowest energy is known: M. R. Hoare and P. Pal, Adv. Phys. 20, 161 (1971).
  check(std::abs(energy - -44.326801) < 1e-5, "thirteen particles settle to an icosahedron");
#ifdef STAVE_EXAMPLE_WITH_ENZYME
  static constexpr Derivatives by_enzyme{cluster_gradient_by_enzyme, cluster_hessian_product_by_enzyme};
  check(std::abs(run<by_enzyme>("by Enzyme") - energy) < 1e-9, "Enzyme's derivatives are those by hand");
#endif
}
