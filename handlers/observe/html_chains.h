// Draws of Markov chains as an HtmlReport shows them: what tells whether the chains agree, as JSON.
#pragma once

#include <string>

#include <stave/core/ops/named_tensors.h>

namespace stave_detail {

using namespace stave;

/// What is known of the trajectories, as Sampled (mcmc.h) has it. Axis 0 is the chain; of all but the last, axis 1 the draw.
struct ChainNotes {
  Tensor accept_rate, steps, depth, diverged, step_size;
};

/// Of each number that is drawn: mean, standard deviation, quantiles, R-hat and effective sample sizes (diagnostics.h); for each chain a
/// histogram of the ranks of its draws among those of all chains; and some draws in turn. Those with the largest R-hat come first, and of
/// very many the rest are left out. Throws ShapeError where draws are not [chains, draws, ...].
std::string chains_as_json(const std::string& title, const NamedTensors& draws, const ChainNotes& notes);

}  // namespace stave_detail
