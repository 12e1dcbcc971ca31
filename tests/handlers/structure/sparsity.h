// Compares the patterns of Jacobians with the dense Jacobians that jacfwd computes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <stave/handlers/structure/sparse_jacobian.h>
#include <stave/stave.h>

#include "matchers.h"

namespace stave_test {

using Function = std::function<Tensor(const Tensor&)>;

inline Tensor drawn(int key, const Shape& shape, Dtype dtype = float64) {
  return uniform(Key(static_cast<std::uint64_t>(key)), shape, dtype) * 4. - 2.;
}

/// The Jacobian [rows, columns].
inline Tensor dense_jacobian(const Function& f, const Tensor& x) {
  return reshape(jacfwd([&](const Tensor& v) { return f(v); })(x), {f(x).size(), x.size()});
}

/// The number of entries of the Jacobian that are not 0 and that the pattern lacks.
inline int missed(const SparsityPattern& pattern, const Tensor& jacobian) {
  return sum(logical_and(jacobian != 0, logical_not(pattern.dense()))).item<int>();
}

inline Index entries_of(const Tensor& jacobian) { return sum(jacobian != 0).item<Index>(); }

}  // namespace stave_test
