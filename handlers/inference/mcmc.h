// Samples from a density by Hamiltonian Monte Carlo: NUTS and HMC.
//
//   const auto log_p = [&](const NamedTensors& u) {
//     return unconstrained_log_density(schools, u)(data);
//   };
//   const auto run = nuts(compile(log_p), start, Key(0), {.chains = 128});
//   // [128, 1000]: each draw of each chain; diagnostics.h tells how good they are
//   run.draws.at("mu")
//   // the number of draws whose integration failed: if any, a part of the density may be missed
//   run.divergences()
//
// NUTS follows Hoffman and Gelman, "The No-U-Turn Sampler", 2014. The choice among the points
// of a trajectory and the termination criterion are those of Betancourt, "A Conceptual Introduction
// to Hamiltonian Monte Carlo", 2017. Warm-up is that of Stan: dual averaging adapts the step size,
// and windows of doubling length adapt the scale of each coordinate. Each chain adapts
// independently.
//
// The code of a chain is a plain recursion (nuts.h) that performs an effect when it needs the
// density and its gradient. The handler suspends each chain at this effect until all chains have
// performed it, and computes the density for all of them in one batch, by vmap. So chains may take
// different numbers of steps, and no density is computed for a chain that does not need it.
//
// - The log density is a function of a tree of floats. It returns the logarithm of the density up
//   to an additive constant, as a tensor of rank 0. Chains are kept in float64. The density is
//   computed in the dtypes of `start` and on its devices. A log density made by `compile` is
//   faster, because its transforms are recorded only once.
// - Chain i depends on the key and on i, not on the number of other chains:
//   {.chains = 1, .first_chain = i} runs that chain alone. (Sums and matrix products may be rounded
//   differently in a batch of another size, and a chain amplifies the difference.)
// - With {.threads = n} the density is called on n threads at a time. Handlers installed around
//   the call do not see operations of threads other than the caller's.
// - Draws have no derivatives. The sampler reports its progress (report.h) in transitions of all
//   chains.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/ops/random.h>
#include <stave/core/ops/tree.h>
#include <stave/core/tensor/options.h>
#include <stave/handlers/transforms/grad.h>
#include <stave/handlers/transforms/vmap.h>

namespace stave {

struct NutsOptions {
  [[no_unique_address]] ByName by_name{};
  /// The number of chains, and the numbers of warm-up steps and draws of each chain.
  Index chains = 4, warmup = 1000, draws = 1000;
  /// The acceptance rate for which warm-up adapts the step size; between 0 and 1.
  double target_accept = 0.8;
  /// A trajectory has at most 2^max_depth - 1 steps; from 1 to 30.
  int max_depth = 10;
  /// Chains start at `start` plus uniform numbers from -spread to spread.
  double spread = 2;
  /// The index of the first chain; the indices of the other chains follow it.
  Index first_chain = 0;
  /// The number of threads among which the chains are divided.
  int threads = 1;
};

struct HmcOptions {
  [[no_unique_address]] ByName by_name{};
  Index chains = 4, warmup = 1000, draws = 1000;
  double target_accept = 0.8;
  /// The mean length of trajectories, in standard deviations. Each trajectory has a random length
  /// of 0.5 to 1.5 times this value.
  double length = 1.5;
  /// The maximal number of steps of a trajectory.
  int max_steps = 1000;
  double spread = 2;
  Index first_chain = 0;
  int threads = 1;
};

/// The draws, and properties of the trajectories that led to them. Axis 0 of each tensor is the
/// chain. Axis 1 is the draw, except for step_size and variance.
template <class T>
struct Sampled {
  /// The draws, as a tree with the structure of `start`.
  T draws;
  /// The log density at each draw; float64.
  Tensor log_density;
  /// The mean acceptance probability over the points of the trajectory; for hmc, the acceptance
  /// probability of its last point; float64.
  Tensor accept_rate;
  /// The number of evaluations of the density and its gradient; int32.
  Tensor steps;
  /// The number of times that NUTS doubled the trajectory; int32.
  Tensor depth;
  /// True if the trajectory diverged: the error of its energy exceeded 1000; bool.
  Tensor diverged;
  /// The step size of each chain; float64.
  Tensor step_size;
  /// The variance of each coordinate, estimated in warm-up: the inverse of its mass.
  T variance;
  Index divergences() const;
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// Returns `made`, a function derived from f. If f is a compiled function, the overload in
/// handlers/compile/compile.h compiles `made`, too.
template <class F, class Made>
Made compiled_like(const F&, Made made) {
  return made;
}

/// Computes the log densities, [rows], and their gradients for leaves whose rows are points.
using DensityOfRows = std::function<Outputs(std::span<const Tensor> leaves)>;

/// Sampled<T>, with the list of a tree's leaves in place of each tree.
struct SampledLeaves {
  std::vector<Tensor> draws, variance;
  Tensor log_density, accept_rate, steps, depth, diverged, step_size;
};
/// The parameters of HMC's trajectories. Without them, sample_chains runs NUTS; with them, it
/// ignores max_depth.
struct Trajectories {
  double length;
  int max_steps;
};
SampledLeaves sample_chains(const char* by, const DensityOfRows& density, const std::vector<Tensor>& start,
                            const Key& key, const NutsOptions& options, std::optional<Trajectories> hmc);
/// Throws ShapeError or DtypeError unless the value is one floating-point number.
void check_log_density(const char* by, const Tensor& value);
Index count_true(const Tensor& x);

template <class F, class T>
Sampled<T> sampled(const char* by, const F& f, const T& start, const Key& key, const NutsOptions& options,
                   std::optional<Trajectories> hmc = {}) {
  static_assert(is_tree<T>, "stave: nuts, hmc: the start is not a tree of tensors");
  const auto one = [&](const T& x) {
    Tensor value = f(x);
    check_log_density(by, value);
    return value;
  };
  const auto rows = compiled_like(f, vmap(value_and_grad(one)));
  const DensityOfRows density = [&](std::span<const Tensor> leaves) {
    auto [value, gradient] = rows(with_leaves(start, leaves));
    Outputs outputs{std::move(value)};
    visit_tensors(gradient, [&](const Tensor& leaf) { outputs.push_back(leaf); });
    return outputs;
  };
  SampledLeaves found = sample_chains(by, density, tree_leaves(start), key, options, hmc);
  return {with_leaves(start, found.draws), std::move(found.log_density),
          std::move(found.accept_rate),    std::move(found.steps),
          std::move(found.depth),          std::move(found.diverged),
          std::move(found.step_size),      with_leaves(start, found.variance)};
}

}  // namespace stave_detail

namespace stave {

template <class T>
Index Sampled<T>::divergences() const {
  return stave_detail::count_true(diverged);
}

/// Returns draws by NUTS from the density whose logarithm is log_density(x), for x
/// with the structure of `start`. Throws Error if the density or its gradient is not finite
/// at the start of a chain, after 100 attempts.
template <class F, class T>
Sampled<T> nuts(const F& log_density, const T& start, const Key& key, const NutsOptions& options = {}) {
  return stave_detail::sampled("nuts", log_density, start, key, options);
}

/// Returns draws by Hamiltonian Monte Carlo with trajectories of a given mean length: Neal,
/// "MCMC using Hamiltonian dynamics", 2011. Arguments and errors are those of nuts.
template <class F, class T>
Sampled<T> hmc(const F& log_density, const T& start, const Key& key, const HmcOptions& options = {}) {
  return stave_detail::sampled("hmc", log_density, start, key,
                               {.chains = options.chains,
                                .warmup = options.warmup,
                                .draws = options.draws,
                                .target_accept = options.target_accept,
                                .spread = options.spread,
                                .first_chain = options.first_chain,
                                .threads = options.threads},
                               stave_detail::Trajectories{options.length, options.max_steps});
}

}  // namespace stave
