#include <stave/handlers/inference/warmup.h>

#include <algorithm>
#include <cmath>

namespace stave_detail::mcmc {

StepSizeSearch::StepSizeSearch(double first, double target) : target_(target), mu_(std::log(10 * first)), now_(first) {}

void StepSizeSearch::learn(double accept_rate) {
  constexpr double gamma = 0.05, t0 = 10, kappa = 0.75;
  ++learned_;
  mean_error_ += (target_ - accept_rate - mean_error_) / (learned_ + t0);
  const double log_now = mu_ - std::sqrt(learned_) / gamma * mean_error_;
  mean_log_ += std::pow(learned_, -kappa) * (log_now - mean_log_);
  now_ = std::exp(log_now);
}

double StepSizeSearch::mean() const noexcept { return learned_ > 0 ? std::exp(mean_log_) : now_; }

void RunningVariance::add(std::span<const double> x) {
  ++count_;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double off = x[i] - mean_[i];
    mean_[i] += off / count_;
    squares_[i] += off * (x[i] - mean_[i]);
  }
}

Vector RunningVariance::regularized() const {
  Vector variance(squares_.size());
  for (std::size_t i = 0; i < variance.size(); ++i) {
    const double unbiased = count_ > 1 ? squares_[i] / (count_ - 1) : 1;
    variance[i] = (count_ * unbiased + 5 * 1e-3) / (count_ + 5);
  }
  return variance;
}

Windows::Windows(Index warmup) {
  Index before = 75, after = 50;
  window_ = 25;
  // A short warm-up adapts step sizes only.
  if (warmup < 20) before = warmup, after = 0;
  else if (before + window_ + after > warmup) {
    before = warmup * 15 / 100, after = warmup * 10 / 100;
    window_ = warmup - before - after;
  }
  start_ = before;
  end_ = warmup - after;
  next_ = std::min(start_ + window_, end_);
}

bool Windows::ends_with(Index draw) {
  if (!covers(draw) || draw + 1 != next_) return false;
  window_ *= 2;
  next_ += window_;
  // The last window is extended if the next one would not fit, so that no short window follows it.
  if (next_ + 2 * window_ > end_) next_ = end_;
  return true;
}

}  // namespace stave_detail::mcmc
