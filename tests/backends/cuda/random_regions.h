// Random regions for tests of the text of their kernels. The program that writes the texts
// and the test that runs them get the same regions.
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
    STAVE_REALS(X)
#undef X
};

/// Returns true if libraries differ in the last digits of the operation's results in this dtype.
bool is_function(const stave::Op& op, stave::Dtype dtype);
/// A region with every operation on three inputs of one dtype, and a bool input for `where`.
/// Each result is an output.
stave::RegionPtr every_operation(stave::Dtype dtype);
/// A random region of operations that give the same bits on every platform.
stave::RegionPtr exact_region(Random& random, std::vector<stave::Dtype> inputs, stave::Index steps);
/// The sum of `count` inputs. 20 inputs exceed the size of kernel parameters before CUDA 12.1.
stave::RegionPtr sum_of_inputs(int count = 20);
/// A region with inputs float32, float32 and bool. One value is an output and is also reduced;
/// one is only reduced, twice; and two inputs are reduced.
stave::RegionPtr region_with_reductions();

/// The regions that tests use: the sum of many inputs, every operation of each dtype,
/// random exact regions, and one with reductions.
std::vector<stave::RegionPtr> regions_of_tests();

}  // namespace stave_test
