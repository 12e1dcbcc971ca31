// Host functions that launch the random-number kernels: Threefry-2x32 with given keys
// (core/op/attributes.h defines the order of the numbers). The bits equal those of the CPU.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

void run_fold_in(const Launch& launch, const stave::View& keys, const stave::View& data, const stave::View& out);
void run_random_bits(const Launch& launch, const stave::View& keys, const stave::View& out);
void run_random_uniform(const Launch& launch, const stave::UniformAttributes& attributes, const stave::View& keys,
                        const stave::View& out);
void run_random_permutation(const Launch& launch, const stave::View& keys, const stave::View& out);

}  // namespace stave_cuda
