// The warm-up of a chain of mcmc.cpp. It adapts the chain's step size and the scales of its
// coordinates as Stan does (Stan Reference Manual, "HMC algorithm parameters").
#pragma once

#include <stave/handlers/inference/nuts.h>

namespace stave_detail::mcmc {

/// Searches for the step size at which transitions have the target acceptance rate, by dual
/// averaging: Hoffman and Gelman, section 3.2.
class StepSizeSearch {
 public:
  StepSizeSearch(double first, double target);
  void learn(double accept_rate);
  double now() const noexcept { return now_; }
  /// Returns the weighted mean of the step sizes so far, in which later step sizes have more
  /// weight. A chain uses this step size after warm-up.
  double mean() const noexcept;

 private:
  double target_, mu_, now_;
  double learned_ = 0, mean_error_ = 0, mean_log_ = 0;
};

/// The variances of vectors added one at a time, computed in one pass: Welford, 1962.
class RunningVariance {
 public:
  explicit RunningVariance(std::size_t size) : mean_(size), squares_(size) {}
  void add(std::span<const double> x);
  /// Returns the variances, shrunk towards 1e-3, because a few draws determine a variance poorly.
  Vector regularized() const;

 private:
  double count_ = 0;
  Vector mean_, squares_;
};

/// The schedule of a warm-up: which draws estimate variances. An initial and a final phase estimate
/// none. Between these phases there are windows, and each estimates the variances anew. A window is
/// twice as long as the one before, except for the last one, which reaches to the final phase.
class Windows {
 public:
  explicit Windows(Index warmup);
  bool covers(Index draw) const noexcept { return draw >= start_ && draw < end_; }
  /// Returns whether a window ends with this draw. Must be called once for each draw, in order.
  bool ends_with(Index draw);

 private:
  Index start_, end_, window_, next_;
};

/// Runs the warm-up of a chain. Returns its last point, and stores the adapted step size and
/// variances in `dynamics`. `transition` makes one transition with the current dynamics.
template <class MakeTransition>
PointPtr warm_up(Index warmup, double target, PointPtr at, Hamiltonian& dynamics, RandomNumbers& random,
                 MakeTransition transition) {
  dynamics.step_size = dynamics.reasonable_step_size(*at, random);
  if (warmup == 0) return at;
  StepSizeSearch search(dynamics.step_size, target);
  RunningVariance variance(dynamics.variance.size());
  Windows windows(warmup);
  for (Index draw = 0; draw < warmup; ++draw) {
    Transition made = transition(*at);
    at = std::move(made.to);
    search.learn(made.accept_rate);
    dynamics.step_size = search.now();
    if (windows.covers(draw)) variance.add(at->q());
    if (!windows.ends_with(draw)) continue;
    dynamics.variance = variance.regularized();
    variance = RunningVariance(dynamics.variance.size());
    search = StepSizeSearch(dynamics.reasonable_step_size(*at, random), target);
    dynamics.step_size = search.now();
  }
  dynamics.step_size = search.mean();
  return at;
}

}  // namespace stave_detail::mcmc
