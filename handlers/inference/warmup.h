// How a chain of mcmc.cpp learns its step size and the scales of its coordinates: Stan's warm-up (Stan Reference Manual, "HMC algorithm
// parameters").
#pragma once

#include <stave/handlers/inference/nuts.h>

namespace stave_detail::mcmc {

/// A step size whose transitions are accepted at a rate: dual averaging, Hoffman and Gelman, section 3.2.
class StepSizeSearch {
 public:
  StepSizeSearch(double first, double target);
  void learn(double accept_rate);
  double now() const noexcept { return now_; }
  double mean() const noexcept;  ///< of the later ones: the one to keep

 private:
  double target_, towards_, now_;
  double learned_ = 0, mean_lack_ = 0, mean_log_ = 0;
};

/// Variances of what is added, one pass: Welford, 1962.
class RunningVariance {
 public:
  explicit RunningVariance(std::size_t size) : mean_(size), squares_(size) {}
  void add(std::span<const double> x);
  /// Shrunk towards 1e-3, as few draws say little.
  Vector regularized() const;

 private:
  double count_ = 0;
  Vector mean_, squares_;
};

/// When variances are learned: after a while, in windows, each of twice the length of the one before. At the end, not any more.
class Windows {
 public:
  explicit Windows(Index warmup);
  bool covers(Index draw) const noexcept { return draw >= start_ && draw < end_; }
  /// Whether a window ends with this draw; asked of each in order.
  bool ends_with(Index draw);

 private:
  Index start_, end_, window_, next_;
};

/// The point where a chain is after warm-up; `dynamics` is what it learned. `transition` makes one, by the dynamics as they are then.
template <class MakeTransition>
PointPtr warm_up(Index warmup, double target, PointPtr at, Dynamics& dynamics, RandomNumbers& random,
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
