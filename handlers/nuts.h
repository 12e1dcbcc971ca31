// One chain of Hamiltonian Monte Carlo, for mcmc.cpp: trajectories, and the choice of a point of one. Start at `nuts_transition`.
//
// All in plain numbers. Where the density is needed, a chain performs LogDensityAt; who answers may let it stand still, and answer many
// chains at once.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <stave/core/ops/random.h>

namespace stave_detail {

using namespace stave;

using Vector = std::vector<double>;

/// Asks for the logarithm of the density at a point, and its gradient, which is written there.
struct LogDensityAt {
  using Result = double;
  std::span<const double> point;
  std::span<double> gradient;
};

/// The random numbers of one chain.
class RandomNumbers {
 public:
  explicit RandomNumbers(Key key) : key_(std::move(key)) {}
  double uniform();  ///< in [0, 1)
  double normal();

 private:
  double next(Vector& block, bool normal);
  const Key key_;
  std::uint32_t blocks_ = 0;
  Vector uniforms_, normals_;  // from the back
};

/// A point of phase space: position, momentum, and the gradient of the logarithm of the density.
struct Point {
  Vector q, p, gradient;
  double log_density = 0;
};
using PointPtr = std::shared_ptr<const Point>;

/// Hamilton's equations of -log_density(q) + sum(variance p^2) / 2.
struct Dynamics {
  double step_size = 1;
  Vector variance;

  double energy(const Point& point) const;  ///< infinite where the density is not a number
  PointPtr with_new_momentum(const Point& point, RandomNumbers& random) const;
  /// A step of the leapfrog, of this length.
  PointPtr step(const Point& from, double length) const;
  /// A step size at which about 0.8 of single steps would be accepted.
  double reasonable_step_size(const Point& from, RandomNumbers& random) const;
};

/// Where a trajectory led.
struct Transition {
  PointPtr to;
  double accept_rate = 0;
  int steps = 0, depth = 0;
  bool diverged = false;
};
Transition nuts_transition(const Dynamics& dynamics, const Point& from, int max_depth, RandomNumbers& random);
Transition hmc_transition(const Dynamics& dynamics, const Point& from, double length, RandomNumbers& random);

}  // namespace stave_detail
