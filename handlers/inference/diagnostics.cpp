#include <stave/handlers/inference/diagnostics.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include <stave/core/op/notation.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>

namespace stave_detail {

namespace {

using Vector = std::vector<double>;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Chains of equal length, stored one after the other.
struct Chains {
  std::size_t count, length;
  Vector values;
  double operator()(std::size_t chain, std::size_t draw) const { return values[chain * length + draw]; }
};

/// Splits each chain into its first and second half, and omits the middle draw of an odd number.
/// If a chain drifts, its halves differ.
Chains split(const Chains& chains) {
  Chains halves{2 * chains.count, chains.length / 2, {}};
  for (std::size_t c = 0; c < chains.count; ++c) {
    const auto begin = chains.values.begin() + static_cast<std::ptrdiff_t>(c * chains.length);
    const auto half = static_cast<std::ptrdiff_t>(halves.length), length = static_cast<std::ptrdiff_t>(chains.length);
    halves.values.insert(halves.values.end(), begin, begin + half);
    halves.values.insert(halves.values.end(), begin + length - half, begin + length);
  }
  return halves;
}

/// Replaces each number by the normal quantile of its rank among all numbers: formula (14) of the
/// paper that diagnostics.h cites. Equal numbers share their mean rank.
Chains rank_normalized(Chains chains) {
  Vector& x = chains.values;
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
  // erfinv is applied to 2 (rank - 3/8) / (n + 1/4) - 1.
  Vector argument(x.size());
  const double n = static_cast<double>(x.size());
  for (std::size_t begin = 0, end; begin < order.size(); begin = end) {
    for (end = begin + 1; end < order.size() && x[order[end]] == x[order[begin]];) ++end;
    const double rank = static_cast<double>(begin + end + 1) / 2;
    for (std::size_t i = begin; i < end; ++i) argument[order[i]] = 2 * (rank - 0.375) / (n + 0.25) - 1;
  }
  x = (std::sqrt(2.) * erfinv(from(argument))).to_vector<double>();
  return chains;
}

Vector sorted(Vector x) {
  std::sort(x.begin(), x.end());
  return x;
}

/// Returns the quantile of sorted numbers for a probability, by linear interpolation between the
/// two nearest numbers, like numpy.quantile.
double quantile(const Vector& x, double share) {
  const double place = share * static_cast<double>(x.size() - 1);
  const std::size_t below = static_cast<std::size_t>(place), above = std::min(below + 1, x.size() - 1);
  const double part = place - static_cast<double>(below);
  return part == 0 ? x[below] : x[below] + part * (x[above] - x[below]);
}

template <class F>
Chains transformed(Chains chains, F f) {
  for (double& x : chains.values) x = f(x);
  return chains;
}

double mean_of(const Vector& x) { return std::accumulate(x.begin(), x.end(), 0.) / static_cast<double>(x.size()); }
double variance_of(const Vector& x) {
  const double mean = mean_of(x);
  double squares = 0;
  for (const double value : x) squares += (value - mean) * (value - mean);
  return squares / static_cast<double>(x.size() - 1);
}

/// The variances between and within chains: formulas (1) to (3) of the paper that diagnostics.h
/// cites.
struct Variances {
  Vector means, within;
  double mean_within, pooled;
  explicit Variances(const Chains& chains) {
    for (std::size_t c = 0; c < chains.count; ++c) {
      const auto begin = chains.values.begin() + static_cast<std::ptrdiff_t>(c * chains.length);
      const Vector chain(begin, begin + static_cast<std::ptrdiff_t>(chains.length));
      means.push_back(mean_of(chain));
      within.push_back(variance_of(chain));
    }
    const double n = static_cast<double>(chains.length);
    mean_within = mean_of(within);
    pooled = mean_within * (n - 1) / n + (means.size() > 1 ? variance_of(means) : 0);
  }
};

double rhat_of(const Chains& chains) {
  const Variances variances(chains);
  return std::sqrt(variances.pooled / variances.mean_within);
}

/// Returns the effective sample size: formulas (10) to (13) of the paper that diagnostics.h cites.
/// The autocorrelations of all chains are summed up to the lag where noise dominates. Before this
/// lag, the sums of neighbouring pairs are positive and decrease (Geyer, "Practical Markov chain
/// Monte Carlo", 1992).
double ess_of(const Chains& chains) {
  const std::size_t n = chains.length;
  const double count = static_cast<double>(chains.values.size());
  const auto [least, most] = std::minmax_element(chains.values.begin(), chains.values.end());
  if (*most - *least < 1e-15) return count;
  const Variances variances(chains);
  const auto correlation = [&](std::size_t lag) {
    double sum = 0;
    for (std::size_t c = 0; c < chains.count; ++c)
      for (std::size_t i = 0; i + lag < n; ++i)
        sum += (chains(c, i) - variances.means[c]) * (chains(c, i + lag) - variances.means[c]);
    return 1 - (variances.mean_within - sum / count) / variances.pooled;
  };
  double total = 0, even = 1, pair = 1 + correlation(1), lowest = pair;
  for (std::size_t lag = 1; lag + 3 < n && pair > 0; lag += 2) {
    lowest = std::min(lowest, pair);
    total += lowest;
    even = correlation(lag + 1);
    pair = even + correlation(lag + 2);
  }
  // Adding the last even autocorrelation alone improves the estimate for antithetic chains.
  const double tau = std::max(2 * total - 1 + std::max(even, 0.), 1 / std::log10(count));
  return count / tau;
}

double rhat_of_draws(const Chains& chains) {
  const Chains halves = split(chains);
  const double middle = quantile(sorted(halves.values), 0.5);
  const Chains folded = transformed(halves, [&](double x) { return std::abs(x - middle); });
  return std::max(rhat_of(rank_normalized(halves)), rhat_of(rank_normalized(folded)));
}
double ess_bulk_of_draws(const Chains& chains) { return ess_of(rank_normalized(split(chains))); }
double ess_tail_of_draws(const Chains& chains) {
  const Vector ordered = sorted(chains.values);
  const auto of_quantile = [&](double share) {
    const double at = quantile(ordered, share);
    return ess_of(split(transformed(chains, [&](double x) { return x <= at ? 1. : 0.; })));
  };
  return std::min(of_quantile(0.05), of_quantile(0.95));
}

/// Applies `statistic` to each element of draws [chains, draws, ...]. The result is NaN for an
/// element with a NaN among its draws.
Tensor of_each_element(const char* function, const Tensor& draws, double (*statistic)(const Chains&)) {
  if (!draws.defined()) fail_empty(function, 0);
  if (draws.rank() < 2)
    fail<ShapeError>("{}: the draws have shape {}; the first two axes are chains and draws", function, draws.shape());
  if (draws.shape(0) < 1 || draws.shape(1) < 4)
    fail<ShapeError>("{}: the draws have shape {}; there must be at least 4 of each chain", function, draws.shape());
  const Index chains = draws.shape(0), length = draws.shape(1), elements = draws.size() / (chains * length);
  const Tensor on_host = astype(to(draws, cpu), float64);
  const Vector by_element = transpose(reshape(on_host, {chains * length, elements})).to_vector<double>();
  Vector found;
  for (Index e = 0; e < elements; ++e) {
    const auto begin = by_element.begin() + e * chains * length;
    const Chains one{static_cast<std::size_t>(chains), static_cast<std::size_t>(length),
                     Vector(begin, begin + chains * length)};
    const bool ordered = std::none_of(one.values.begin(), one.values.end(), [](double x) { return std::isnan(x); });
    found.push_back(ordered ? statistic(one) : nan);
  }
  Shape shape;
  for (int axis = 2; axis < draws.rank(); ++axis) shape.push_back(draws.shape(axis));
  return from(found, shape);
}

// Appends to `rows` a table row for each element of one tensor [chains, draws, ...].
void add_rows(std::vector<Row>& rows, const std::string& name, const Tensor& x) {
  // The diagnostics need at least 4 draws.
  const bool has_enough_draws = x.shape(1) >= 4;
  Vector rhats, bulk, tail;
  if (has_enough_draws) {
    rhats = rhat(x).to_vector<double>();
    bulk = ess_bulk(x).to_vector<double>();
    tail = ess_tail(x).to_vector<double>();
  }
  Shape shape;
  for (int axis = 2; axis < x.rank(); ++axis) shape.push_back(x.shape(axis));
  const Index count = x.shape(0) * x.shape(1), elements = shape.elements();
  const Tensor by_element = transpose(reshape(astype(to(x, cpu), float64), {count, elements}));
  for (Index e = 0; e < elements; ++e) {
    const Vector values = by_element[e].to_vector<double>(), ordered = sorted(values);
    const auto number = [](bool known, const char* format, auto value) {
      return known ? fmt::format(fmt::runtime(format), value()) : std::string("-");
    };
    const auto i = static_cast<std::size_t>(e);
    Row row{name_of_element(name, shape, e), number(count > 0, "{:.3g}", [&] { return mean_of(values); }),
            number(count > 1, "{:.3g}", [&] { return std::sqrt(variance_of(values)); })};
    for (const double part : {0.05, 0.5, 0.95})
      row.push_back(number(count > 0, "{:.3g}", [&] { return quantile(ordered, part); }));
    row.push_back(number(has_enough_draws, "{:.0f}", [&] { return bulk[i]; }));
    row.push_back(number(has_enough_draws, "{:.0f}", [&] { return tail[i]; }));
    row.push_back(number(has_enough_draws, "{:.3f}", [&] { return rhats[i]; }));
    rows.push_back(std::move(row));
  }
}

}  // namespace

std::string table_of_draws(const LeavesByName& draws) {
  std::vector<Row> rows{{"", "mean", "sd", "5%", "median", "95%", "ess bulk", "ess tail", "R-hat"}};
  for (const auto& [name, x] : draws) {
    if (x.rank() < 2)
      fail<ShapeError>("summary_of: the draws of {} have shape {}; the first two axes are chains and draws", name,
                       x.shape());
    add_rows(rows, name, x);
  }
  return table(rows);
}

std::string notes_on_chains(const Tensor& accept_rate, const Tensor& steps, const Tensor& diverged,
                            const Tensor& step_size) {
  const Index divergences = count_true(diverged);
  std::string notes = fmt::format(
      "{} chain{} of {} draw{}; acceptance rate {:.2f}, step size {:.3g}, {:.3g} steps for a draw\n", diverged.shape(0),
      diverged.shape(0) == 1 ? "" : "s", diverged.shape(1), diverged.shape(1) == 1 ? "" : "s",
      mean(accept_rate).item<double>(), mean(step_size).item<double>(), mean(astype(steps, float64)).item<double>());
  if (divergences > 0)
    notes += fmt::format(
        "{} draws of {} after trajectories that diverged: regions of high curvature may be missing from the sample; "
        "use a higher target_accept, or other parameters\n",
        divergences, diverged.size());
  return notes;
}

}  // namespace stave_detail

namespace stave {

Tensor rhat(const Tensor& draws) { return stave_detail::of_each_element("rhat", draws, stave_detail::rhat_of_draws); }
Tensor ess_bulk(const Tensor& draws) {
  return stave_detail::of_each_element("ess_bulk", draws, stave_detail::ess_bulk_of_draws);
}
Tensor ess_tail(const Tensor& draws) {
  return stave_detail::of_each_element("ess_tail", draws, stave_detail::ess_tail_of_draws);
}

}  // namespace stave
