// Samplers that reject proposals: scalar code in double, compiled once.
//
//   samplers.cpp         the driver: keys, parameters and threads
//   sampler_numbers.h    random numbers of one key
//   samplers_element.cpp a key for each element: gamma, von Mises, hypergeometric
//   samplers_array.cpp   a key for each array: Poisson, binomial
#pragma once

#include <span>

#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Computes a sampler. Input 0 are keys [batch..., 2]; the other inputs and the output are
/// [batch..., shape...].
void run_sampler(stave::OpId op, std::span<const stave::View> inputs, const stave::View& out);

}  // namespace stave_cpu
