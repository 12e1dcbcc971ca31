// Random numbers on the CPU, computed from keys and counters by Threefry-2x32.
// core/op/attributes.h defines the number at each position.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

void run_fold_in(const stave::View& keys, const stave::View& data, const stave::View& out);
void run_random_bits(const stave::View& keys, const stave::View& out);
void run_random_uniform(const stave::UniformAttributes& attributes, const stave::View& keys, const stave::View& out);
void run_random_permutation(const stave::View& keys, const stave::View& out);

}  // namespace stave_cpu
