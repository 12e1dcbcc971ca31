// Random regions for tests of the text of their kernels: the same ones in the program that writes the texts and in the test that runs them.
#pragma once

#include <random>
#include <vector>

#include <stave/core/effects/error.h>
#include <stave/core/op/op.h>
#include <stave/core/program/region.h>

namespace stave_test {

using Random = std::mt19937_64;

inline stave::Index pick(Random& random, stave::Index low, stave::Index high) {
  return low + static_cast<stave::Index>(random() % static_cast<std::uint64_t>(high - low + 1));
}
template <class T>
const T& one_of(Random& random, const std::vector<T>& choices) {
  return choices[static_cast<std::size_t>(pick(random, 0, static_cast<stave::Index>(choices.size()) - 1))];
}

inline const std::vector<stave::Dtype> every_dtype = {
#define X(name, type) stave::Dtype::name,
    STAVE_DTYPES(X)
#undef X
};

/// Whether libraries differ in the last digits of what it gives for these elements.
bool is_function(const stave::Op& op, stave::Dtype dtype);
/// Every operation on inputs of one dtype, each an output: three inputs of it, and a bool for where.
stave::RegionPtr every_operation(stave::Dtype dtype);
/// Of what gives the same bits everywhere.
stave::RegionPtr exact_region(Random& random, std::vector<stave::Dtype> inputs, stave::Index steps);
/// The sum of so many inputs: 20 are more arguments than kernels had room for before CUDA 12.1.
stave::RegionPtr sum_of_inputs(int count = 20);
/// Of float32, float32, bool: a value, given whole and reduced, one that is only reduced, twice, and an input reduced.
stave::RegionPtr region_with_reductions();

/// That of many inputs, every operation of each dtype, and exact ones.
std::vector<stave::RegionPtr> regions_of_tests();

}  // namespace stave_test
