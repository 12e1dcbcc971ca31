// Markov chains in an HtmlReport: converts their draws and diagnostics to JSON.
#pragma once

#include <string>

#include <stave/core/ops/named_tensors.h>

namespace stave_detail {

using namespace stave;

/// Properties of the trajectories, from Sampled (mcmc.h). Axis 0 is the chain; axis 1 is the draw,
/// except for step_size.
struct ChainNotes {
  Tensor accept_rate, steps, depth, diverged, step_size;
};

/// Returns the draws as JSON. For each scalar of a draw it has mean, standard deviation,
/// quantiles, R-hat and effective sample sizes (diagnostics.h), for each chain a histogram
/// of the ranks of its draws among those of all chains, and some of the draws in order.
/// Scalars with the largest R-hat come first, and only the first 100 are included.
/// Throws ShapeError if draws are not [chains, draws, ...].
std::string chains_as_json(const std::string& title, const NamedTensors& draws, const ChainNotes& notes);

}  // namespace stave_detail
