// How good draws of Markov chains are: rank-normalized split R-hat, effective sample sizes of the bulk and the tails.
//
//   rhat(run.draws)               // a tree of the draws' structure: near 1 where all chains found the same; beyond 1.01 they did not
//   ess_bulk(draws), ess_tail(draws)      // of a tensor [chains, draws, ...]: [...]
//   std::cout << summary_of(run);         // a table of all, and what the sampler noticed
//
// Vehtari, Gelman, Simpson, Carpenter and Bürkner, "Rank-normalization, folding, and localization", 2021. Each is NaN where a draw is;
// draws that are all the same have R-hat NaN, and count as independent.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <stave/core/ops/named_tensors.h>
#include <stave/core/ops/tree.h>
#include <stave/core/ops/tree_names.h>
#include <stave/handlers/inference/mcmc.h>

namespace stave {

/// Of draws [chains, draws, ...], real numbers, at least 4 of each chain: float64 [...].
Tensor rhat(const Tensor& draws);
/// How many independent draws would tell as much of the middle of the distribution.
Tensor ess_bulk(const Tensor& draws);
/// The same of its quantiles of 0.05 and 0.95, the smaller of both.
Tensor ess_tail(const Tensor& draws);

/// Of each tensor of a tree.
template <class T>
  requires(is_tree<T> && !std::is_same_v<T, Tensor>)
T rhat(const T& draws) {
  return tree_map([](const Tensor& x) { return rhat(x); }, draws);
}
template <class T>
  requires(is_tree<T> && !std::is_same_v<T, Tensor>)
T ess_bulk(const T& draws) {
  return tree_map([](const Tensor& x) { return ess_bulk(x); }, draws);
}
template <class T>
  requires(is_tree<T> && !std::is_same_v<T, Tensor>)
T ess_tail(const T& draws) {
  return tree_map([](const Tensor& x) { return ess_tail(x); }, draws);
}

}  // namespace stave

namespace stave_detail {

using LeavesByName = std::vector<std::pair<std::string, Tensor>>;

/// A line for each element: mean, standard deviation, quantiles, and the three above. What fewer than 4 draws do not tell is "-".
std::string table_of_draws(const LeavesByName& draws);
/// What to know of the trajectories.
std::string notes_on_chains(const Tensor& accept_rate, const Tensor& steps, const Tensor& diverged,
                            const Tensor& step_size);

}  // namespace stave_detail

namespace stave {

/// A table of the draws, a tree that is that of `run`, or what a function made of it (constrain, in place of the unconstrained ones);
/// below it, divergences and what else the trajectories tell. Lines are named by paths in the
/// tree (tree_names.h) and places in a tensor: "eta[3]", "layers/0/w[1,2]"; those of a single tensor "x[3]". What fewer than 4 draws of a chain do not tell is "-".
template <class T, class Draws>
  requires is_tree<Draws>
std::string summary_of(const Sampled<T>& run, const Draws& draws) {
  stave_detail::LeavesByName leaves;
  const auto add = [&](const std::string& name, const Tensor& x) { leaves.emplace_back(name.empty() ? "x" : name, x); };
  stave_detail::visit_named<stave_detail::AnyKeys>(draws, "", add);
  return stave_detail::table_of_draws(leaves) +
         stave_detail::notes_on_chains(run.accept_rate, run.steps, run.diverged, run.step_size);
}
template <class T>
std::string summary_of(const Sampled<T>& run) {
  return summary_of(run, run.draws);
}

}  // namespace stave
