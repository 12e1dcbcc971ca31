// The reference for vmap.
#pragma once

#include <vector>

#include <stave/core/ops/layout.h>
#include <stave/core/tensor/tensor.h>

namespace stave_test {

/// Returns what vmap(f)(xs) must give: f of each lane, stacked.
template <class F>
stave::Tensor lane_by_lane(F f, const stave::Tensor& xs) {
  std::vector<stave::Tensor> results;
  for (stave::Index i = 0; i < xs.shape(0); ++i) results.push_back(f(xs[i]));
  return stave::stack(results);
}

}  // namespace stave_test
