// One chain of Hamiltonian Monte Carlo, for mcmc.cpp: its trajectories, and the choice of a point
// of each trajectory. Start reading at `nuts_transition`.
//
// A chain computes with C++ doubles rather than tensors. When it needs the density, it performs
// LogDensityAt. A controller that handles this effect may suspend the chain, and then compute the
// density of many chains in one batch.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <stave/core/effects/intrusive.h>
#include <stave/core/ops/random.h>

namespace stave_detail::mcmc {

using namespace stave;

using Vector = std::vector<double>;

/// The effect that requests the log density at a point. The handler returns the log density, and
/// writes its gradient to `gradient`.
struct LogDensityAt {
  using Result = double;
  std::span<const double> point;
  std::span<double> gradient;
};

/// The random numbers of one chain. They are generated in blocks.
class RandomNumbers {
 public:
  explicit RandomNumbers(Key key) : key_(std::move(key)) {}
  /// A uniform number in [0, 1).
  double uniform() { return next(uniforms_, false); }
  double normal() { return next(normals_, true); }

 private:
  double next(Vector& block, bool normal);
  const Key key_;
  std::uint32_t blocks_ = 0;
  // The unused numbers of the current blocks; the last one is used next.
  Vector uniforms_, normals_;
};

class PointPool;

/// A point of phase space: position, momentum, and the log density with its gradient.
class Point : public ThreadCounted {
 public:
  Point(PointPool& home, std::size_t size) : home(home), numbers_(3 * size), size_(size) {}
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
  PointPool& home;

 private:
  Vector numbers_;
  const std::size_t size_;
};
using PointPtr = IntrusivePtr<const Point>;
/// Returns the point to its pool; called when the last owner is gone. The overload for const Point
/// is necessary, because overload resolution would otherwise prefer the template `destroy` of
/// IntrusivePtr.
void destroy(Point* point) noexcept;
inline void destroy(const Point* point) noexcept { destroy(const_cast<Point*>(point)); }

/// The pool of a chain's points. A chain makes a point at each step, so points without an owner are
/// reused.
class PointPool {
 public:
  explicit PointPool(std::size_t size) : size_(size) {}
  IntrusivePtr<Point> make();
  IntrusivePtr<Point> copy(const Point& point);

 private:
  friend void destroy(Point* point) noexcept;
  const std::size_t size_;
  std::vector<std::unique_ptr<Point>> all_;
  std::vector<Point*> free_;
};

/// Hamilton's equations for the energy -log_density(q) + sum(variance p^2) / 2.
struct Hamiltonian {
  explicit Hamiltonian(PointPool& points, std::size_t size) : points(points), variance(size, 1) {}

  PointPool& points;
  Vector variance;
  double step_size = 1;

  /// Returns the energy, or infinity if the energy is not finite.
  double energy(const Point& point) const;
  PointPtr with_new_momentum(const Point& point, RandomNumbers& random) const;
  /// Returns the point after one leapfrog step of the given length.
  PointPtr step(const Point& from, double length) const;
  /// Returns a step size for which a single step is accepted with a probability of about 0.8.
  double reasonable_step_size(const Point& from, RandomNumbers& random) const;
};

/// The result of one transition: the new point, and properties of the trajectory.
struct Transition {
  PointPtr to;
  double accept_rate = 0;
  int steps = 0, depth = 0;
  bool diverged = false;
};
Transition nuts_transition(const Hamiltonian& dynamics, const Point& from, int max_depth, RandomNumbers& random);
Transition hmc_transition(const Hamiltonian& dynamics, const Point& from, double length, int max_steps,
                          RandomNumbers& random);

}  // namespace stave_detail::mcmc
