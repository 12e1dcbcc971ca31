// Diagnostics of the draws of Markov chains: rank-normalized split R-hat, and effective sample
// sizes of the bulk and the tails.
//
//   // a tree of the draws' structure: near 1 if all chains agree; above 1.01 they do not
//   rhat(run.draws)
//   // tensors [...], for a tensor `draws` of shape [chains, draws, ...]
//   ess_bulk(draws), ess_tail(draws)
//   // a table of all diagnostics, and lines about the trajectories
//   std::cout << summary_of(run);
//
// The source of the formulas is Vehtari, Gelman, Simpson, Carpenter and Bürkner,
// "Rank-normalization, folding, and localization", 2021. A diagnostic is NaN if a draw is NaN.
// If all draws are equal, R-hat is NaN, and the draws count as independent.
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

/// Returns R-hat of each element of draws [chains, draws, ...] as float64 [...]. The draws must be
/// real numbers. Throws ShapeError for fewer than 4 draws per chain.
Tensor rhat(const Tensor& draws);
/// Returns the effective sample size for the middle of the distribution: the number of independent
/// draws that would give an estimate of the same precision. Shapes and errors are those of rhat.
Tensor ess_bulk(const Tensor& draws);
/// Returns the smaller of the effective sample sizes for the 0.05 and 0.95 quantiles. Shapes and
/// errors are those of rhat.
Tensor ess_tail(const Tensor& draws);

/// Returns R-hat of each tensor of a tree, as a tree of the same structure.
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

/// Returns a table with a row for each element: mean, standard deviation, quantiles, R-hat and the
/// two effective sample sizes. "-" stands for a value that needs more draws.
std::string table_of_draws(const LeavesByName& draws);
/// Returns one line about the trajectories, and a warning if some of them diverged.
std::string notes_on_chains(const Tensor& accept_rate, const Tensor& steps, const Tensor& diverged,
                            const Tensor& step_size);

}  // namespace stave_detail

namespace stave {

/// Returns a table of the draws, followed by lines about the trajectories, such as the number of
/// divergences. `draws` is the tree run.draws, or a tree that a function computed from it (for
/// example constrain, to show constrained values). A row is named by its path in the tree
/// (tree_names.h) and its position in a tensor: "eta[3]", "layers/0/w[1,2]". Rows of a single
/// tensor are "x[3]". "-" stands for a value that needs more draws; the diagnostics need 4 draws
/// per chain.
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
