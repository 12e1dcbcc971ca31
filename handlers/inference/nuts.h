// One chain of Hamiltonian Monte Carlo, for mcmc.cpp: trajectories, and the choice of a point of one. Start at `nuts_transition`.
//
// All in plain numbers. Where the density is needed, a chain performs LogDensityAt; who answers may let it stand still, and answer many
// chains at once.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <stave/core/effects/intrusive.h>
#include <stave/core/ops/random.h>

namespace stave_detail::mcmc {

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
  double uniform() { return next(uniforms_, false); }  ///< in [0, 1)
  double normal() { return next(normals_, true); }

 private:
  double next(Vector& block, bool normal);
  const Key key_;
  std::uint32_t blocks_ = 0;
  Vector uniforms_, normals_;  // from the back
};

class Points;

/// A point of phase space: position, momentum, and the gradient of the logarithm of the density.
class Point : public ThreadCounted {
 public:
  Point(Points& home, std::size_t size) : home(home), numbers_(3 * size), size_(size) {}
  std::span<double> q() noexcept { return {numbers_.data(), size_}; }
  std::span<double> p() noexcept { return {numbers_.data() + size_, size_}; }
  std::span<double> gradient() noexcept { return {numbers_.data() + 2 * size_, size_}; }
  std::span<const double> q() const noexcept { return {numbers_.data(), size_}; }
  std::span<const double> p() const noexcept { return {numbers_.data() + size_, size_}; }
  std::span<const double> gradient() const noexcept { return {numbers_.data() + 2 * size_, size_}; }
  void assign(const Point& other) {
    numbers_ = other.numbers_;
    log_density = other.log_density;
  }

  double log_density = 0;
  Points& home;

 private:
  Vector numbers_;
  const std::size_t size_;
};
using PointPtr = IntrusivePtr<const Point>;
/// What the last owner calls: gives the point back. Both, as a template would fit the other better.
void destroy(Point* point) noexcept;
inline void destroy(const Point* point) noexcept { destroy(const_cast<Point*>(point)); }

/// Where a chain's points are made. Those that nobody holds any more are used again: a chain makes one at each step.
class Points {
 public:
  explicit Points(std::size_t size) : size_(size) {}
  IntrusivePtr<Point> make();
  IntrusivePtr<Point> copy(const Point& point);

 private:
  friend void destroy(Point* point) noexcept;
  const std::size_t size_;
  std::vector<std::unique_ptr<Point>> all_;
  std::vector<Point*> free_;
};

/// Hamilton's equations of -log_density(q) + sum(variance p^2) / 2.
struct Dynamics {
  explicit Dynamics(Points& points, std::size_t size) : points(points), variance(size, 1) {}

  Points& points;
  Vector variance;
  double step_size = 1;

  double energy(const Point& point) const;  ///< infinite where it is not a number, too
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
Transition hmc_transition(const Dynamics& dynamics, const Point& from, double length, int max_steps,
                          RandomNumbers& random);

}  // namespace stave_detail::mcmc
