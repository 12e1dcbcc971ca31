// Samplers that draw all elements of an array in rounds, each with new keys, as jax.random does.
#include <stave/backends/cpu/sampler_numbers.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include <boost/math/special_functions/gamma.hpp>

#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/special_policy.h>

namespace stave_cpu {

namespace {

// ---- rounds -------------------------------------------------------------------------------------

/// The keys of the rounds of a loop, computed when they are first read. Before each round the
/// loop's key is split into n; key `next` of these is the loop's, the others are the round's.
template <std::size_t n, std::size_t next>
class RoundKeys {
 public:
  explicit RoundKeys(SamplerKey key) : key_(key) {}
  const std::array<SamplerKey, n>& operator[](std::size_t round) {
    while (rounds_.size() <= round) {
      rounds_.push_back(key_.split<n>());
      key_ = rounds_.back()[next];
    }
    return rounds_[round];
  }

 private:
  SamplerKey key_;
  std::vector<std::array<SamplerKey, n>> rounds_;
};
using ProposalKeys = RoundKeys<3, 0>;

struct CountProposal {
  double value;
  bool accepted;
};

/// Runs rounds until each element has accepted one proposal, and gives out(i, value) the last one
/// that element i accepted. So do the loops of jax.random, whose elements take part in all rounds.
/// propose(i, u, v) makes a proposal from two uniform numbers of dtype T.
template <class T, class Propose, class Out>
void draw_in_rounds(SamplerKey key, Index n, Propose propose, Out out) {
  const auto proposed = [&](ProposalKeys& keys, std::size_t round, Index i) {
    const auto& [rest, first, second] = keys[round];
    const auto counter = static_cast<std::uint64_t>(i);
    return propose(i, uniform_of<T>(first, counter), uniform_of<T>(second, counter));
  };
  std::atomic<std::size_t> last = 0;
  parallel_for(n, sampler_grain, [&](Index begin, Index end) {
    ProposalKeys keys(key);
    std::size_t most = 0;
    for (Index i = begin; i < end; ++i) {
      std::size_t round = 0;
      while (!proposed(keys, round, i).accepted) ++round;
      most = std::max(most, round);
    }
    for (std::size_t seen = last; seen < most && !last.compare_exchange_weak(seen, most);) {
    }
  });
  parallel_for(n, sampler_grain, [&](Index begin, Index end) {
    ProposalKeys keys(key);
    for (Index i = begin; i < end; ++i)
      for (std::size_t round = last;; --round)
        if (const CountProposal found = proposed(keys, round, i); found.accepted) {
          out(i, found.value);
          break;
        }
  });
}

// ---- Poisson ------------------------------------------------------------------------------------

/// Knuth's method: the number of uniform factors whose product stays above exp(-rate), counted in
/// logarithms. Round r of element i takes element i of uniform numbers of the round's key.
std::int32_t count_factors(RoundKeys<2, 0>& keys, double rate, Index i) {
  std::int32_t k = -1;
  double log_product = 0;
  for (std::size_t round = 0; log_product > -rate; ++round, ++k)
    log_product += std::log(uniform_of<float>(keys[round][1], static_cast<std::uint64_t>(i)));
  return k;
}

/// A proposal of Hormann, "The transformed rejection method for generating Poisson random
/// variables", 1993 (PTRS), for a rate of at least 10.
CountProposal propose_poisson(double rate, double u, double v) {
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  u -= 0.5;
  const double beside = 0.5 - std::abs(u), k = std::floor((2 * a / beside + b) * u + rate + 0.43);
  if (beside >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return {k, true};
  if (k < 0 || (beside < 0.013 && v > beside)) return {k, false};
  const double s = std::log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (beside * beside) + b));
  return {k, s <= k * std::log(rate) - rate - boost::math::lgamma(k + 1, special::Quiet())};
}

bool is_counted(double rate) { return !(rate >= 10); }

// ---- binomial -----------------------------------------------------------------------------------

/// Counts the geometric numbers whose sum is at most `count`.
template <class T>
double count_geometric(RoundKeys<2, 1>& keys, double count, double p, Index i) {
  const double log_rest = std::log1p(-p);
  double k = -1, sum = 0;
  for (std::size_t round = 0; sum <= count; ++round, ++k)
    sum += std::ceil(std::log(uniform_of<T>(keys[round][0], static_cast<std::uint64_t>(i))) / log_rest);
  return k;
}

/// log(k!) - (log(sqrt(2 pi)) + (k + 1/2) log(k + 1) - (k + 1)) for k <= 9. For larger k this is
/// the value at 9, as in jax.random 0.10, so that the draws are the same. With it, the
/// probabilities of counts have relative errors below 0.01.
double stirling_tail(double k) {
  constexpr double tails[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
                              0.0166446911898211,  0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
                              0.00925546218271273, 0.00833056343336287};
  return tails[static_cast<int>(std::clamp(k, 0., 9.))];
}

/// A proposal of Hormann, "The generation of binomial random variates", 1993 (BTRS), for
/// count p > 10 and p <= 1/2.
CountProposal propose_binomial(double count, double p, double u, double v) {
  const double deviation = std::sqrt(count * p * (1 - p)), b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p, ratio = p / (1 - p), mode = std::floor((count + 1) * p);
  u -= 0.5;
  const double beside = 0.5 - std::abs(u), k = std::floor((2 * a / beside + b) * u + count * p + 0.5);
  if (beside >= 0.07 && v <= 0.92 - 4.2 / b) return {k, true};
  if (!(k >= 0 && k <= count)) return {k, false};
  const double s = std::log(v * (2.83 + 5.1 / b) * deviation / (a / (beside * beside) + b));
  const double rest = count - mode + 1;
  const double bound = (mode + 0.5) * std::log((mode + 1) / (ratio * rest)) +
                       (count + 1) * std::log(rest / (count - k + 1)) +
                       (k + 0.5) * std::log(ratio * (count - k + 1) / (k + 1)) + stirling_tail(mode) +
                       stirling_tail(count - mode) - stirling_tail(k) - stirling_tail(count - k);
  return {k, s <= bound};
}

/// The parameters of a binomial draw. `p` is at most 1/2: for a larger one failures are counted.
struct Binomial {
  double count, p;
  bool counts_failures, is_valid;

  Binomial(double n, double probability)
      : count(std::floor(n)), p(probability < 0.5 ? probability : 1 - probability),
        counts_failures(!(probability < 0.5)), is_valid(n >= 0 && p >= 0) {}
  bool is_infinite() const { return std::isinf(count); }
  /// Returns true if the draw counts geometric numbers, and makes no proposals.
  bool is_counted() const { return !is_valid || is_infinite() || count * p <= 10; }
  double result(double k) const { return counts_failures ? count - k : k; }
};

template <class T>
void binomial_draws_from(SamplerKey key, const Parameter& counts, const Parameter& probabilities, std::int32_t* out,
                         Index n) {
  std::atomic<bool> any_proposed = false;
  parallel_for(n, sampler_grain, [&](Index begin, Index end) {
    RoundKeys<2, 1> keys(key);
    for (Index i = begin; i < end; ++i) {
      const Binomial b(counts[i], probabilities[i]);
      if (!b.is_counted()) any_proposed = true;
      else if (!b.is_valid) out[i] = -1;
      else out[i] = as_count(b.is_infinite() ? b.count : b.result(count_geometric<T>(keys, b.count, b.p, i)));
    }
  });
  if (!any_proposed) return;
  // An element that is counted takes part in the rounds with other parameters, as in jax.random:
  // the number of rounds depends on it.
  draw_in_rounds<T>(
      key, n,
      [&](Index i, double u, double v) {
        const Binomial b(counts[i], probabilities[i]);
        return b.is_counted() ? propose_binomial(1e4, 0.5, u, v) : propose_binomial(b.count, b.p, u, v);
      },
      [&](Index i, double k) {
        const Binomial b(counts[i], probabilities[i]);
        if (!b.is_counted()) out[i] = as_count(b.result(k));
      });
}

}  // namespace

// As in jax.random.poisson, uniform numbers are those of float32 in any dtype of the rates.
void poisson_draws(SamplerKey key, const Parameter& rates, std::int32_t* out, Index n) {
  std::atomic<bool> any_proposed = false;
  parallel_for(n, sampler_grain, [&](Index begin, Index end) {
    RoundKeys<2, 0> keys(key);
    for (Index i = begin; i < end; ++i)
      if (!is_counted(rates[i])) any_proposed = true;
      else out[i] = rates[i] == 0 ? 0 : count_factors(keys, rates[i], i);
  });
  if (!any_proposed) return;
  // Elements with a small rate take part in the rounds with another one, as in jax.random.
  draw_in_rounds<float>(
      key, n,
      [&](Index i, double u, double v) {
        const double rate = is_counted(rates[i]) ? 1e5 : rates[i];
        return std::isinf(rate) ? CountProposal{rate, true} : propose_poisson(rate, u, v);
      },
      [&](Index i, double k) {
        if (!is_counted(rates[i])) out[i] = as_count(k);
      });
}

void binomial_draws(SamplerKey key, const Parameter& counts, const Parameter& probabilities, std::int32_t* out,
                    Index n) {
  (probabilities.is_double ? binomial_draws_from<double> : binomial_draws_from<float>)(key, counts, probabilities, out,
                                                                                       n);
}

}  // namespace stave_cpu
