#include <stave/handlers/inference/nuts.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <stave/core/effects/effect.h>

namespace stave_detail::mcmc {

double RandomNumbers::next(Vector& block, bool normal) {
  constexpr Index size = 256;
  if (block.empty()) {
    const Key key = fold_in(key_, blocks_++);
    block = (normal ? stave::normal(key, {size}, float64) : stave::uniform(key, {size}, float64)).to_vector<double>();
  }
  const double number = block.back();
  block.pop_back();
  return number;
}

// ---- points ------------------------------------------------------------------------------

IntrusivePtr<Point> PointPool::make() {
  if (free_.empty()) {
    all_.push_back(std::make_unique<Point>(*this, size_));
    // `destroy` must not allocate, so the memory for its list is reserved here.
    free_.reserve(all_.size());
    free_.push_back(all_.back().get());
  }
  IntrusivePtr<Point> point(free_.back());
  free_.pop_back();
  return point;
}

IntrusivePtr<Point> PointPool::copy(const Point& point) {
  IntrusivePtr<Point> copied = make();
  copied->assign(point);
  return copied;
}

void destroy(Point* point) noexcept { point->home.free_.push_back(point); }

// ---- Hamilton's equations ----------------------------------------------------------------

double Hamiltonian::energy(const Point& point) const {
  double kinetic = 0;
  for (std::size_t i = 0; i < variance.size(); ++i) kinetic += variance[i] * point.p()[i] * point.p()[i];
  const double energy = kinetic / 2 - point.log_density;
  return std::isfinite(energy) ? energy : std::numeric_limits<double>::infinity();
}

PointPtr Hamiltonian::with_new_momentum(const Point& point, RandomNumbers& random) const {
  const IntrusivePtr<Point> moving = points.copy(point);
  for (std::size_t i = 0; i < variance.size(); ++i) moving->p()[i] = random.normal() / std::sqrt(variance[i]);
  return moving;
}

PointPtr Hamiltonian::step(const Point& from, double length) const {
  const IntrusivePtr<Point> to = points.copy(from);
  const std::span<double> q = to->q(), p = to->p(), gradient = to->gradient();
  for (std::size_t i = 0; i < q.size(); ++i) {
    p[i] += length / 2 * gradient[i];
    q[i] += length * variance[i] * p[i];
  }
  to->log_density = perform(LogDensityAt{q, gradient});
  for (std::size_t i = 0; i < q.size(); ++i) p[i] += length / 2 * gradient[i];
  return to;
}

// Hoffman and Gelman's algorithm 4, with Stan's threshold of 0.8.
double Hamiltonian::reasonable_step_size(const Point& from, RandomNumbers& random) const {
  constexpr double smallest = 1e-10, largest = 1e7;
  double size = step_size;
  std::optional<bool> grows;
  while (size > smallest && size < largest) {
    const PointPtr start = with_new_momentum(from, random);
    const bool accepts = energy(*start) - energy(*step(*start, size)) > std::log(0.8);
    if (grows && *grows != accepts) break;
    grows = accepts;
    size *= accepts ? 2 : 0.5;
  }
  return size;
}

// ---- NUTS --------------------------------------------------------------------------------

namespace {

// If the energy rises by more than this, the integrator is considered to have left the true
// trajectory (Hoffman and Gelman's value).
constexpr double divergence = 1000;

double log_add_exp(double a, double b) {
  const double larger = std::max(a, b);
  return std::isinf(larger) ? larger : larger + std::log1p(std::exp(-std::abs(a - b)));
}

Vector vector(std::span<const double> x) { return {x.begin(), x.end()}; }

/// A contiguous part of a trajectory, from its first to its last point in time. `drawn` is one of
/// its points, chosen with a probability proportional to exp(-energy).
struct Segment {
  PointPtr first, last, drawn;
  // The sum of the momenta of all points.
  Vector momentum;
  // log(sum(exp(energy at the start - energy))) over all points.
  double log_weight;
  const Point& end(bool forward) const { return forward ? *last : *first; }
};

class Trajectory {
 public:
  Trajectory(const Hamiltonian& dynamics, const PointPtr& start, RandomNumbers& random)
      : dynamics_(dynamics), energy_(dynamics.energy(*start)), lowest_(energy_), highest_(energy_), random_(random),
        all_{start, start, start, vector(start->p()), 0} {}

  Transition run(int max_depth) && {
    for (; transition_.depth < max_depth; ++transition_.depth) {
      const bool forward = random_.uniform() < 0.5;
      std::optional<Segment> grown = build_tree(all_.end(forward), forward, transition_.depth);
      if (!grown) break;
      if (!join(all_, std::move(*grown), forward, Choice::biased)) {
        ++transition_.depth;
        break;
      }
    }
    transition_.to = std::move(all_.drawn);
    if (transition_.steps > 0) transition_.accept_rate /= transition_.steps;
    return std::move(transition_);
  }

 private:
  /// Takes 2^depth leapfrog steps from a point. Returns nothing if they make a U-turn or diverge.
  std::optional<Segment> build_tree(const Point& from, bool forward, int depth) {
    if (depth == 0) return leaf(from, forward);
    std::optional<Segment> tree = build_tree(from, forward, depth - 1);
    if (!tree) return std::nullopt;
    std::optional<Segment> rest = build_tree(tree->end(forward), forward, depth - 1);
    if (!rest) return std::nullopt;
    if (!join(*tree, std::move(*rest), forward, Choice::fair)) return std::nullopt;
    return tree;
  }

  std::optional<Segment> leaf(const Point& from, bool forward) {
    PointPtr point = dynamics_.step(from, forward ? dynamics_.step_size : -dynamics_.step_size);
    const double energy = dynamics_.energy(*point), log_weight = energy_ - energy;
    ++transition_.steps;
    transition_.accept_rate += std::exp(std::min(log_weight, 0.));
    if (diverges(energy)) {
      transition_.diverged = true;
      return std::nullopt;
    }
    Vector momentum;
    if (!spare_.empty()) {
      momentum = std::move(spare_.back());
      spare_.pop_back();
    }
    momentum.assign(point->p().begin(), point->p().end());
    return Segment{point, point, point, std::move(momentum), log_weight};
  }

  /// Returns whether the trajectory diverges at a point of this energy, and ends before that point.
  ///
  /// The result must not depend on the point at which the trajectory started: otherwise a move and
  /// its reverse have different probabilities, and the draws are biased. So the highest and the
  /// lowest energy of the trajectory are compared with each other. A comparison with the energy at
  /// the start alone would bias the draws where the density varies by a factor of e^1000. There is
  /// one exception: the energy may fall by any amount from a start whose energy is more than 500
  /// above the lowest. A chain in equilibrium visits such a point with a probability of about
  /// e^-500.
  bool diverges(double energy) {
    if (!(energy - energy_ <= divergence)) return true;  // Includes infinities.
    lowest_ = std::min(lowest_, energy);
    highest_ = std::max(highest_, energy);
    return highest_ - lowest_ > divergence && energy_ - lowest_ <= divergence / 2;
  }

  /// How `join` chooses between two drawn points. `fair` uses the weights of the two parts;
  /// `biased` prefers the new part, which mixes better at the top level (Betancourt, A.3.2).
  enum class Choice { fair, biased };

  /// Appends `rest` to the front or the back of `tree`. The drawn point of `rest` may replace that
  /// of `tree`. Returns false if the joined trajectory makes a U-turn.
  bool join(Segment& tree, Segment&& rest, bool forward, Choice choice) {
    const double log_weight = log_add_exp(tree.log_weight, rest.log_weight);
    const double log_chance = rest.log_weight - (choice == Choice::fair ? log_weight : tree.log_weight);
    const Segment &early = forward ? tree : rest, &late = forward ? rest : tree;
    // Betancourt's criterion is tested three times, as in Stan: for the whole trajectory, and from
    // each end to the first point beyond the middle. The whole trajectory alone would not detect a
    // trajectory that turns round twice.
    const bool turns = makes_u_turn(early.momentum, late.momentum, *early.first, *late.last) ||
                       makes_u_turn(early.momentum, late.first->p(), *early.first, *late.first) ||
                       makes_u_turn(early.last->p(), late.momentum, *early.last, *late.last);
    tree.log_weight = log_weight;
    for (std::size_t i = 0; i < tree.momentum.size(); ++i) tree.momentum[i] += rest.momentum[i];
    (forward ? tree.last : tree.first) = std::move(forward ? rest.last : rest.first);
    if (std::log(random_.uniform()) < log_chance) tree.drawn = std::move(rest.drawn);
    spare_.push_back(std::move(rest.momentum));
    return !turns;
  }

  /// Returns whether the sum of the momenta points away from the velocity at either end. The sum is
  /// given as two terms, `momentum` and `more`.
  bool makes_u_turn(std::span<const double> momentum, std::span<const double> more, const Point& first,
                    const Point& last) const {
    double at_first = 0, at_last = 0;
    for (std::size_t i = 0; i < momentum.size(); ++i) {
      const double velocity = (momentum[i] + more[i]) * dynamics_.variance[i];
      at_first += velocity * first.p()[i];
      at_last += velocity * last.p()[i];
    }
    return !(at_first > 0 && at_last > 0);
  }

  const Hamiltonian& dynamics_;
  // The energy at the start.
  const double energy_;
  double lowest_, highest_;
  RandomNumbers& random_;
  Segment all_;
  // Vectors that are not in use, kept so that their memory can be reused.
  std::vector<Vector> spare_;
  Transition transition_;
};

}  // namespace

Transition nuts_transition(const Hamiltonian& dynamics, const Point& from, int max_depth, RandomNumbers& random) {
  return Trajectory(dynamics, dynamics.with_new_momentum(from, random), random).run(max_depth);
}

Transition hmc_transition(const Hamiltonian& dynamics, const Point& from, double length, int max_steps,
                          RandomNumbers& random) {
  // The length is random, because trajectories of a fixed length may return to their start: Neal,
  // section 5.4.3.2.
  const double steps =
      std::clamp(std::round(length * (0.5 + random.uniform()) / dynamics.step_size), 1., double(max_steps));
  const PointPtr start = dynamics.with_new_momentum(from, random);
  const double energy = dynamics.energy(*start);
  Transition transition;
  double log_ratio = 0, least = 0;
  PointPtr end = start;
  while (transition.steps < steps && std::isfinite(least)) {
    end = dynamics.step(*end, dynamics.step_size);
    ++transition.steps;
    log_ratio = energy - dynamics.energy(*end);
    least = std::min(least, log_ratio);
  }
  transition.diverged = !(least > -divergence);
  transition.accept_rate = std::exp(std::min(log_ratio, 0.));
  transition.to = std::log(random.uniform()) < log_ratio ? std::move(end) : start;
  return transition;
}

}  // namespace stave_detail::mcmc
