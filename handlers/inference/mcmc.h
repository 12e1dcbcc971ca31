// Draws of a density by Hamiltonian Monte Carlo: NUTS, and HMC.
//
//   const auto log_p = [&](const NamedTensors& u) { return unconstrained_log_density(schools, u)(data); };
//   const auto run = nuts(compile(log_p), start, Key(0), {.chains = 128});
//   run.draws.at("mu")                       // [128, 1000]: each draw of each chain; diagnostics.h says how good they are
//   run.divergences()                        // where the integrator failed: the draws may miss a part of the density
//
// NUTS is that of Hoffman and Gelman, "The No-U-Turn Sampler", 2014, with the choice among the points of a trajectory and the criterion
// to end it of Betancourt, "A Conceptual Introduction to Hamiltonian Monte Carlo", 2017. Warm-up is Stan's: steps by dual averaging, and
// in windows that double, the scale of each coordinate. Each chain adapts by itself.
//
// A chain is a plain recursion (nuts.h), which performs an effect where it needs the density and its gradient. Who answers waits until
// all chains ask, and computes one batch, by vmap: chains part and meet as they like, and nothing is computed for one that does not ask.
//
// - A density is a function of a tree of floats that gives the logarithm, of rank 0, up to a constant. Chains are in float64; the density
//   is computed in the dtypes of `start`, and on its devices. `compile` saves what its transforms cost.
// - Chain i is a function of the key and i, not of how many there are beside it: {.chains = 1, .first_chain = i} is that one alone. (Sums
//   and products of matrices may be rounded otherwise in a batch of another size, which a chain amplifies.)
// - With {.threads = n} the density is called on n threads at once; on those that are not the caller's, no handler around sees it.
// - What is drawn has no derivatives. While it draws it says its progress (report.h), in transitions of all chains.
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
  Index chains = 4, warmup = 1000, draws = 1000;  ///< the last two of each chain
  double target_accept = 0.8;                     ///< of the acceptance rate, by which warm-up chooses the step
  int max_depth = 10;                             ///< a trajectory has at most 2^max_depth - 1 steps
  double spread = 2;      ///< chains begin at `start` plus uniform numbers from -spread to spread
  Index first_chain = 0;  ///< their numbers begin here
  int threads = 1;        ///< among which chains are shared out
};

struct HmcOptions {
  [[no_unique_address]] ByName by_name{};
  Index chains = 4, warmup = 1000, draws = 1000;
  double target_accept = 0.8;
  double length = 1.5;   ///< of trajectories, in standard deviations: each is of half to one and a half of it
  int max_steps = 1000;  ///< of a trajectory
  double spread = 2;
  Index first_chain = 0;
  int threads = 1;
};

/// Draws, and what is known of the trajectories that led to them. Axis 0 is the chain; of all but the last two members axis 1 the draw.
template <class T>
struct Sampled {
  T draws;             ///< the tree of `start`
  Tensor log_density;  ///< float64
  Tensor accept_rate;  ///< float64: the mean over the trajectory of the probability to accept
  Tensor steps;        ///< int32: evaluations of the density and its gradient
  Tensor depth;        ///< int32: how often NUTS doubled the trajectory
  Tensor diverged;     ///< bool: the energy rose without bound
  Tensor step_size;    ///< float64
  T variance;          ///< of each coordinate, as warm-up estimated it: the inverse of the mass
  Index divergences() const;
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// What is made of f: as it is, or compiled where f is (handlers/compile/compile.h).
template <class F, class Made>
Made compiled_like(const F&, Made made) {
  return made;
}

/// For leaves with rows of points: the logarithms of the density, [rows], and the gradients.
using DensityOfRows = std::function<Outputs(std::span<const Tensor> leaves)>;

/// Of leaves.
struct SampledLeaves {
  std::vector<Tensor> draws, variance;
  Tensor log_density, accept_rate, steps, depth, diverged, step_size;
};
/// By NUTS, unless told of HMC's trajectories; max_depth is not for these.
struct Trajectories {
  double length;
  int max_steps;
};
SampledLeaves sample_chains(const char* by, const DensityOfRows& density, const std::vector<Tensor>& start,
                            const Key& key, const NutsOptions& options, std::optional<Trajectories> hmc);
/// Throws ShapeError, DtypeError unless it is one floating number.
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

/// Draws of the density of which log_density(x) gives the logarithm, for x of the structure of `start`. Throws Error where it is not
/// finite where a chain is to begin, in 100 attempts.
template <class F, class T>
Sampled<T> nuts(const F& log_density, const T& start, const Key& key, const NutsOptions& options = {}) {
  return stave_detail::sampled("nuts", log_density, start, key, options);
}

/// The same by trajectories of a given length: Neal, "MCMC using Hamiltonian dynamics", 2011.
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
